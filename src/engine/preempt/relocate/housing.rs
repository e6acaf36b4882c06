//! Places where moved shares start again: free space, or space that a rule allows to take.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::{MoveVictim, Search, spare_superfluous};
use crate::engine::schedule::VictimRule;
use crate::model::{MachineIx, Millis, Order, QShares, count};

/// Nodes tried to make space for a moved share.
const TRIED_ELSEWHERE: usize = 64;

/// Cost of space elsewhere: the work lost, the victims, and the space beyond the need.
type HomeCost = (Millis, usize, QShares);

/// Places where all moved shares of a plan start again.
#[derive(Default)]
pub(super) struct Housing {
    pub homes: Vec<Home>,
    /// Victims preempted by a rule to make space for moved shares, by node.
    pub victims: BTreeMap<MachineIx, Vec<MoveVictim>>,
    /// Quanta that moved shares take, by node.
    used: BTreeMap<MachineIx, QShares>,
}

/// Place where a moved share starts again.
#[derive(Clone, Copy)]
pub(super) struct Home {
    pub job: usize,
    pub machine: MachineIx,
    pub order: Order,
    /// True if the share can start now; else the space is promised.
    pub is_free: bool,
}

impl Search<'_, '_> {
    /// Finds places for the moved shares of `victims`; `None` if there is not space for all of
    /// them.
    pub(super) fn house(
        &mut self,
        cleared: MachineIx,
        victims: &[MoveVictim],
        makes_room: bool,
    ) -> Option<Housing> {
        let mut moved: Vec<MoveVictim> = victims.to_vec();
        moved.retain(|victim| victim.rule == VictimRule::Relocation);
        moved.sort_by_key(|victim| Reverse(victim.order));
        let mut housing = Housing::default();
        // Shares without free space come last: by then it is known how much free space is used.
        moved.retain(|&victim| {
            let home = self.free_home(cleared, victim, &housing);
            home.inspect(|&machine| housing.add(victim, machine, true)).is_none()
        });
        if moved.is_empty() {
            return Some(housing);
        }
        if !makes_room {
            return None;
        }
        for victim in moved {
            if !self.may_wait(victim.holding.job, victims, &housing) {
                return None;
            }
            let (machine, gone) = self.home_by_right(cleared, victims, victim, &housing)?;
            housing.add(victim, machine, false);
            housing.victims.entry(machine).or_default().extend(gone);
        }
        // A victim of a later share may also suffice for an earlier share.
        for (&machine, gone) in &mut housing.victims {
            let missing = self.draft.rooms.lacking(machine, housing.used[&machine]);
            *gone = spare_superfluous(std::mem::take(gone), missing);
        }
        Some(housing)
    }

    /// Returns a node with free space for a moved share: the smallest space that suffices.
    pub(super) fn free_home(
        &self,
        cleared: MachineIx,
        victim: MoveVictim,
        housing: &Housing,
    ) -> Option<MachineIx> {
        let (draft, job) = (self.draft, victim.holding.job);
        let has_room = |machine: MachineIx| {
            let used = housing.used.get(&machine).copied().unwrap_or_default();
            machine != cleared
                && draft.may_use(job, machine)
                && used + victim.order.qshares() <= draft.rooms.usable(machine)
        };
        draft.pools.searched_from(draft.class_of(job).pool).iter().find_map(|&pool| {
            let mut machines = draft.rooms.with_room(pool, victim.order);
            machines.find_map(|alike| alike.first(has_room))
        })
    }

    /// True if a further process of `job` may wait for space. A promise is kept as far as the
    /// demand allows. A job with fewer processes may have to begin with a single process and
    /// double.
    fn may_wait(&self, job: usize, victims: &[MoveVictim], housing: &Housing) -> bool {
        let of_job = |victims: &[MoveVictim]| -> u64 {
            count(victims.iter().filter(|victim| victim.holding.job == job))
        };
        let homes =
            |is_free| count(housing.homes.iter().filter(|h| h.job == job && h.is_free == is_free));
        let draft = &self.draft.jobs[job];
        let left = (draft.held + homes(true)).saturating_sub(of_job(victims));
        draft.promised + homes(false) < left.max(1)
    }

    /// Returns a node where the beneficiary may take space for a moved share, and the victims. The
    /// nodes are tried in the order of their cost at the start.
    fn home_by_right(
        &mut self,
        cleared: MachineIx,
        victims: &[MoveVictim],
        moved: MoveVictim,
        housing: &Housing,
    ) -> Option<(MachineIx, Vec<MoveVictim>)> {
        let (draft, job) = (self.draft, moved.holding.job);
        let pool = draft.class_of(job).pool;
        let may_use = |machine: &MachineIx| {
            *machine != cleared
                && draft.rooms.is_schedulable(*machine)
                && draft.pools.is_within(draft.rooms.pool(*machine), pool)
                && draft.may_use(job, *machine)
        };
        let homes = self.homes_by_right(moved.order);
        homes.iter().copied().filter(may_use).find_map(|machine| {
            self.recall(victims.iter().chain(housing.victims.values().flatten()));
            let (_, gone) = self.make_home(machine, moved.order, Some(job), housing)?;
            Some((machine, gone))
        })
    }

    /// Returns nodes where the beneficiary may take space for a share of `order`, the cheapest
    /// first.
    fn homes_by_right(&mut self, order: Order) -> Rc<[MachineIx]> {
        if let Some(known) = self.homes.get(&order) {
            return Rc::clone(known);
        }
        let machines: Vec<MachineIx> = self.prey.keys().copied().take(TRIED_ELSEWHERE).collect();
        let mut homes: Vec<(HomeCost, MachineIx)> = Vec::new();
        for machine in machines {
            self.claim.reset();
            if let Some((cost, _)) = self.make_home(machine, order, None, &Housing::default()) {
                homes.push((cost, machine));
            }
        }
        homes.sort_unstable();
        let homes: Rc<[MachineIx]> = homes.into_iter().map(|(_, machine)| machine).collect();
        self.homes.insert(order, Rc::clone(&homes));
        homes
    }

    /// Returns the victims on `machine` that make space for a share of `order` to move there, and
    /// their cost. No share of `job`, whose share is moved, is taken.
    fn make_home(
        &mut self,
        machine: MachineIx,
        order: Order,
        job: Option<usize>,
        housing: &Housing,
    ) -> Option<(HomeCost, Vec<MoveVictim>)> {
        self.draft.effort.search();
        let used = housing.used.get(&machine).copied().unwrap_or_default();
        let before = housing.victims.get(&machine).map_or(&[][..], Vec::as_slice);
        let lacking = self.draft.rooms.lacking(machine, used + order.qshares());
        let made = before.iter().map(|victim| victim.order.qshares()).sum();
        let missing = lacking.saturating_sub(made);
        let (mut gone, mut freed) = (Vec::new(), QShares(0));
        for victim in self.shares_on(machine) {
            let is_gone = before.iter().any(|before| before.holding == victim.holding);
            if missing <= freed || is_gone || Some(victim.holding.job) == job {
                continue;
            }
            if let Some(rule) = self.claim.rule(victim.holding.job, victim.order.qshares().0) {
                self.claim.take(victim.holding.job, victim.order.qshares().0);
                freed += victim.order.qshares();
                gone.push(MoveVictim { rule, ..victim });
            }
        }
        let gone = (missing <= freed).then(|| spare_superfluous(gone, missing))?;
        let freed: QShares = gone.iter().map(|victim| victim.order.qshares()).sum();
        let loss = gone.iter().map(|victim| victim.loss).fold(0, Millis::saturating_add);
        Some(((loss, gone.len(), freed.saturating_sub(missing)), gone))
    }
}

impl Housing {
    fn add(&mut self, moved: MoveVictim, machine: MachineIx, is_free: bool) {
        let (job, order) = (moved.holding.job, moved.order);
        self.homes.push(Home { job, machine, order, is_free });
        *self.used.entry(machine).or_default() += order.qshares();
    }
}
