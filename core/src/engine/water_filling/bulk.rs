//! Bulk step of water-filling: equal to serving nshares in turn as long as no job is refused.
//!
//! The next entity is the entity that will have the least once it is served. As long as no job is
//! refused, the amount of a class does not depend on the other classes. It only rises from turn to
//! turn. So all grants up to some share come before all grants beyond it. The same holds for the
//! users of a class and the jobs of a user. Each entity is therefore raised to a share in a single
//! step, as if it were alone. Only the few nshares for which the order among equals matters are
//! served in turn.

use super::heaps::Rank;
use super::{Entry, Members, OfClass, Participant, Service, WaterFill};
use crate::engine::capacity::DemandByOrder;
use crate::model::{ClassIx, NShares, QShares};

/// A share by weight, in parts of a qshare: classes are served as long as they stay at or below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) struct WaterLevel(u128);

impl WaterLevel {
    /// The waterline at which no class may have anything.
    pub(in crate::engine) const LOWEST: WaterLevel = WaterLevel(0);
    /// Parts of a qshare.
    const PARTS: u128 = 1 << 16;

    /// Lowest waterline at which a class of `weight` may have `qshares`.
    pub(in crate::engine) fn of(qshares: u64, weight: u64) -> WaterLevel {
        let parts = u128::from(qshares) * WaterLevel::PARTS;
        WaterLevel(parts.div_ceil(u128::from(weight.max(1))))
    }

    /// The middle between this waterline and `high`, if there is any between them.
    pub(in crate::engine) fn middle(self, high: WaterLevel) -> Option<WaterLevel> {
        let middle = self.0.midpoint(high.0);
        (self.0 < middle && middle < high.0).then_some(WaterLevel(middle))
    }

    /// Most that a class of `weight` may have at this waterline.
    fn share(self, weight: u64) -> u64 {
        let qshares =
            self.0.saturating_mul(u128::from(weight)) >> WaterLevel::PARTS.trailing_zeros();
        u64::try_from(qshares).unwrap_or(u64::MAX)
    }
}

/// Amount that a class, a user or a job has, and the amount that it could still get.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Vessel {
    has: u64,
    asks: u64,
}

impl Vessel {
    /// Most that it gets if it is served as long as it stays at or below `share`.
    fn most(self, share: u64) -> u64 {
        self.asks.min(share.saturating_sub(self.has))
    }
}

/// A class in a walk, and the amount that it could get.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Claim {
    /// Place of the class in the configuration.
    pub class: ClassIx,
    weight: u64,
    vessel: Vessel,
}

impl Claim {
    /// Most that the class gets if all classes are raised to `waterline`.
    pub(in crate::engine) fn most(&self, waterline: WaterLevel) -> u64 {
        self.vessel.most(waterline.share(self.weight))
    }

    /// Lowest waterline at which the class gets its whole demand, or `limit` if its demand is
    /// larger.
    pub(in crate::engine) fn high(&self, limit: u64) -> WaterLevel {
        let gain = self.vessel.asks.min(limit);
        WaterLevel::of(self.vessel.has.saturating_add(gain), self.weight)
    }
}

impl WaterFill {
    /// Amount that each class could still get.
    pub(in crate::engine) fn claims(&self) -> Vec<Claim> {
        let claim = |Entry { standing, place }: &Entry| {
            let users = self.members.users.members(*place);
            let asks = users.iter().map(|user| self.members.asks(user.place()));
            Claim {
                class: standing.seniority,
                weight: standing.weight,
                vessel: Vessel { has: standing.served, asks: asks.fold(0, u64::saturating_add) },
            }
        };
        self.classes.iter().map(claim).collect()
    }

    /// Nshares that the seats got since `earlier`, which is an earlier state of this walk.
    pub(in crate::engine) fn served_since(
        &self,
        earlier: &WaterFill,
    ) -> impl Iterator<Item = (Participant, u64)> {
        let jobs = self.members.of_jobs.iter().zip(&earlier.members.of_jobs);
        jobs.map(|(now, before)| (now.seat, now.served - before.served))
    }

    /// Demand of the jobs that are still in the walk.
    pub(in crate::engine) fn unmet_demand(&self) -> &DemandByOrder {
        &self.members.demand
    }

    /// Refuses all jobs of each class and order for which `is_refused` is true.
    pub(in crate::engine) fn refuse(&mut self, is_refused: impl Fn(ClassIx, u64) -> bool) {
        self.change_classes(|members, class| {
            let OfClass { orders, refused } = &mut members.of_classes[class.place];
            let is_new = |order: &u64| {
                !refused.contains(order) && is_refused(class.standing.seniority, *order)
            };
            let new: Vec<u64> = orders.iter().filter(is_new).collect();
            refused.extend(new);
            members.serve_users(class, |members, class, user| {
                members.dismiss(class, user);
                0
            });
        });
    }

    /// Refuses the seats for which `is_refused` is true.
    pub(in crate::engine) fn refuse_seats(&mut self, is_refused: impl Fn(&Participant) -> bool) {
        self.change_classes(|members, class| {
            members.serve_users(class, |members, class, user| {
                members.dismiss_those(class, user, |seat, _| is_refused(seat));
                0
            });
        });
    }

    /// Serves, the least served first, as long as no class rises above `waterline`. No job is
    /// refused on the way: jobs that would be refused have been removed before.
    pub(in crate::engine) fn raise_to(&mut self, waterline: WaterLevel) {
        self.change_classes(|members, class| {
            members.raise_class(class, waterline.share(class.standing.weight));
        });
    }

    fn change_classes(&mut self, mut change: impl FnMut(&mut Members, &mut Entry)) {
        let mut classes = std::mem::take(&mut self.classes).into_vec();
        for class in &mut classes {
            change(&mut self.members, class);
        }
        classes.retain(|class| !self.members.users.members(class.place).is_empty());
        self.classes = classes.into();
    }
}

impl Members {
    /// Serves the users of `class` as long as the class stays at or below `share`.
    fn raise_class(&mut self, class: &mut Entry, share: u64) {
        let missing = share.saturating_sub(class.standing.served);
        let vessel = |user: &Rank| Vessel {
            has: self.of_users[user.place()].has,
            asks: self.asks(user.place()),
        };
        let users: Vec<Vessel> = self.users.members(class.place).iter().map(vessel).collect();
        let level = even_share(&users.iter().copied(), missing);
        self.serve_users(class, |members, class, user| members.raise_user(class, user, level));
        while class.standing.tag() <= share && !self.users.members(class.place).is_empty() {
            self.serve_first(class, |_, _| Service::Served);
        }
    }

    /// Serves the jobs of `user` as long as the user stays at or below `share`. Returns the amount
    /// that the user got.
    fn raise_user(&mut self, class: usize, user: usize, share: u64) -> u64 {
        let before = self.of_users[user].has;
        let level = even_share(&self.vessels(user), share.saturating_sub(before));
        let Members { of_classes, of_users, jobs, of_jobs, demand, turn, .. } = self;
        jobs.rank_anew(user, |job| {
            let of_job = &mut of_jobs[job.place()];
            let order = of_job.order();
            let space = QShares(level.saturating_sub(of_job.has()));
            let NShares(nshares) = space.nshares(of_job.seat.order);
            let nshares = nshares.min(of_job.left());
            of_job.served += nshares;
            of_users[user].has += nshares * order;
            if of_job.left() == 0 {
                demand.remove(order);
                of_classes[class].orders.remove(order);
                return None;
            }
            Some(of_job.rank(*turn, job.place()))
        });
        while let Some(order) = self.next_order_of_user(user)
            && self.of_users[user].has + order <= share
        {
            self.serve_first_of_user(class, user, |_, _| Service::Served);
        }
        self.of_users[user].has - before
    }

    /// Calls `serve` for each user of `class`, and ranks the users anew. `serve` returns the amount
    /// that the user got.
    fn serve_users(
        &mut self,
        class: &mut Entry,
        mut serve: impl FnMut(&mut Members, usize, usize) -> u64,
    ) {
        let mut users = std::mem::take(&mut self.users);
        users.rank_anew(class.place, |user| {
            class.standing.served += serve(self, class.place, user.place());
            self.rank_of_user(user.place())
        });
        self.users = users;
        class.standing.next_order = self.next_order(class.place);
    }

    /// Amount that the jobs of `user` could still get.
    fn asks(&self, user: usize) -> u64 {
        self.vessels(user).map(|job| job.asks).fold(0, u64::saturating_add)
    }

    fn vessels(&self, user: usize) -> impl Iterator<Item = Vessel> + Clone {
        self.jobs.members(user).iter().map(|job| {
            let of_job = &self.of_jobs[job.place()];
            Vessel { has: of_job.has(), asks: of_job.left().saturating_mul(of_job.order()) }
        })
    }
}

/// Largest share to which all `vessels` can certainly be raised within `amount`.
fn even_share(vessels: &(impl Iterator<Item = Vessel> + Clone), amount: u64) -> u64 {
    let asks = vessels.clone().map(|vessel| vessel.asks).fold(0, u64::saturating_add);
    if asks <= amount {
        return u64::MAX;
    }
    let suffices = |share| {
        let most = vessels.clone().map(|vessel: Vessel| vessel.most(share));
        most.fold(0, u64::saturating_add) <= amount
    };
    let mut share = vessels.clone().map(|vessel| vessel.has).min().unwrap_or(0);
    let mut step = 1;
    while suffices(share + step) {
        share += step;
        step *= 2;
    }
    while 1 < step {
        step >>= 1;
        if suffices(share + step) {
            share += step;
        }
    }
    share
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::super::Turn;
    use super::*;
    use crate::audit::tests::{ANN, BOB, FAIR, HEAVY, LOW, Scene};
    use crate::engine::draft::Draft;
    use crate::model::{JobIx, Order};

    /// Jobs of some users in three classes. Most have equal amounts so far, as at the start of
    /// counting, and some hold something.
    fn walk(random: &mut ChaCha8Rng) -> WaterFill {
        let mut draw = |least: u64, most: u64| random.random_range(least..=most);
        let mut scene = Scene::new(&[]);
        for _ in 0..draw(1, 12) {
            let user = if draw(0, 1) == 0 { ANN } else { BOB };
            let class = [FAIR, HEAVY, LOW][usize::try_from(draw(0, 2)).unwrap()];
            scene.job(user, class, 1, 1);
        }
        let mut draft = Draft::new(&scene.snapshot);
        let entities = Arc::clone(&draft.entities);
        let jobs = scene.snapshot.jobs.places();
        let seat = |job| {
            let order = Order::new(u32::try_from(draw(1, 7)).unwrap()).unwrap();
            for amounts in [&mut draft.targets, &mut draft.held] {
                if draw(0, 2) == 0 {
                    entities.add(amounts, job, draw(0, 9));
                }
            }
            Participant { job, order, space_to_grow: draw(0, 9) }
        };
        let seats: Vec<Participant> = jobs.map(seat).collect();
        WaterFill::new(&entities, Turn::ByFinish, seats, &draft.targets, &draft.held)
    }

    /// Serves in turn every class below `waterline`, as if no job could be refused.
    fn serve_below(walk: &mut WaterFill, waterline: WaterLevel) {
        while let Some(Entry { standing, .. }) = walk.classes.peek()
            && standing.tag() <= waterline.share(standing.weight)
        {
            walk.serve_next(|_, _| Service::Served);
        }
    }

    /// The jobs served in turn from here on, if no job is refused.
    fn rest(mut walk: WaterFill) -> Vec<JobIx> {
        let mut served = Vec::new();
        walk.serve_least_first(|seat, _| {
            served.push(seat.job);
            Service::Served
        });
        served
    }

    #[test]
    fn bulk_raise_equals_turns() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..3_000 {
            let mut in_turn = walk(&mut random);
            if random.random_range(0..3) == 0 {
                let refused = random.random_range(1..8);
                in_turn.refuse(|class, order| class == FAIR && order == refused);
            }
            // The walk starts from any state that turns can reach.
            let (low, high) = (random.random_range(0..5), random.random_range(0..40));
            serve_below(&mut in_turn, WaterLevel::of(low, 1));
            let waterline = WaterLevel::of(high, 1 + high % 3);
            let before = in_turn.clone();
            let mut raised = in_turn.clone();
            raised.raise_to(waterline);
            serve_below(&mut in_turn, waterline);
            let served = |walk: &WaterFill| -> Vec<u64> {
                walk.served().map(|(_, nshares)| nshares).collect()
            };
            assert_eq!(served(&raised), served(&in_turn));
            let most = before.claims().iter().map(|claim| claim.most(waterline)).sum();
            let gain = raised.served_since(&before);
            let gain: u64 = gain.map(|(seat, nshares)| seat.order.qshares().0 * nshares).sum();
            assert!(gain <= most, "{gain} of {most}");
            assert!(raised.unmet_demand().iter().eq(in_turn.unmet_demand().iter()));
            assert_eq!(rest(raised), rest(in_turn));
        }
    }
}
