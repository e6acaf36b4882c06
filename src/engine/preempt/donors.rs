//! Where to look for victims: who is ahead, who is above its count, and whose shares are cheapest.
//!
//! What a search must not cost is a look at everybody: most jobs that want more find at once that
//! nobody may give, and the others want the cheapest share of many. So users and jobs are kept in
//! the order of what they hold, and the shares of each class in the order of the work that would be
//! lost with them. Made once a cycle, and kept true as room is made.

use std::cell::{Cell, OnceCell};
use std::ops::Range;

use super::courses::{Courses, Prey, PreyOfTier};
use super::plan::NoPlan;
use super::right::{Claim, Reach};
use super::stand::{Stand, Tiers};
use super::vain::Vain;
use super::victims::Tier;
use crate::engine::draft::Draft;
use crate::engine::entities::Level;
use crate::engine::shares::{Brief, Holding};
use crate::model::{ClassIx, MachineIx, Millis, QShares};

/// After so many shares without a plan, or more in a large cluster, it is found out on which machines
/// there may be one at all.
const VAIN_LOOKS: usize = 256;
/// So many machines are ruled out, or not, in the time of one look.
const MACHINES_A_LOOK: usize = 4;
/// So many users or jobs are looked at one by one; of more, all shares of their class are.
const FEW: usize = 32;

/// The index.
pub(super) struct Donors {
    /// The users of each class, by what they hold.
    users: Ranking,
    /// The jobs of each user, by what they hold.
    jobs: Ranking,
    /// What each user held when last looked at.
    known_users: Vec<u64>,
    /// How each job stood when last looked at.
    known_jobs: Vec<Stand>,
    /// Of what tier each share was then.
    tiers: Tiers,
    /// How each job stood when the shares of its class were listed.
    listed_as: Vec<Cell<Stand>>,
    /// How many jobs of each class are above their own count.
    jobs_above: Vec<usize>,
    /// For each job, how many changes must have been noted before it is of use to search again.
    next_search: Vec<u64>,
    /// Which jobs had their turn in this cycle, or were put off.
    had_turn: Vec<bool>,
    changes: u64,
    /// For each class its shares, once they were needed.
    prey: Vec<OnceCell<PreyOfClass>>,
    /// For each user of a class the shares of its jobs by tier, of each the cheapest first, once they
    /// were needed.
    prey_of_user: Vec<OnceCell<Vec<(Tier, Prey)>>>,
    /// What whoever is looked for might take.
    reach: Reach,
    vain: Vain,
    /// After so many shares without a plan all machines are looked through: when that is no more work
    /// than has been done.
    pub patience: usize,
}

/// Users of several classes, or jobs of several users: each owner's in buckets of one order, in
/// each bucket by what they hold, the most last.
struct Ranking {
    entries: Vec<(u64, usize)>,
    buckets: Vec<Bucket>,
    /// The buckets of each owner.
    owners: Vec<Range<usize>>,
    /// The bucket of each member.
    bucket_of: Vec<usize>,
}

/// Members with the same least order of a share.
struct Bucket {
    order: u64,
    entries: Range<usize>,
}

/// The shares of a class, by tier and, of similar orders together, by order.
type PreyOfClass = Vec<PreyOfTier>;

/// Whom to ask.
#[derive(Default)]
struct Sources {
    /// Any job of these classes.
    classes: Vec<ClassIx>,
    /// Of these classes, jobs above their own count.
    classes_above: Vec<ClassIx>,
    /// Any job of these users.
    users: Vec<usize>,
}

impl Ranking {
    /// `members` are owner, order, what is held, and the member, each member once.
    fn new(owners: usize, mut members: Vec<(usize, u64, u64, usize)>) -> Ranking {
        members.sort_unstable();
        let mut ranking = Ranking {
            entries: Vec::with_capacity(members.len()),
            buckets: Vec::new(),
            owners: vec![0..0; owners],
            bucket_of: vec![0; members.len()],
        };
        let mut last = None;
        for (owner, order, held, member) in members {
            let place = ranking.entries.len();
            if last != Some((owner, order)) {
                let buckets = &mut ranking.owners[owner];
                if buckets.end == 0 {
                    *buckets = ranking.buckets.len()..ranking.buckets.len();
                }
                buckets.end += 1;
                ranking.buckets.push(Bucket { order, entries: place..place });
                last = Some((owner, order));
            }
            let bucket = ranking.buckets.len() - 1;
            ranking.buckets[bucket].entries.end = place + 1;
            ranking.bucket_of[member] = bucket;
            ranking.entries.push((held, member));
        }
        ranking
    }

    /// Notes that `member` now holds `now`.
    fn update(&mut self, member: usize, before: u64, now: u64) {
        let bucket = &self.buckets[self.bucket_of[member]];
        let entries = &mut self.entries[bucket.entries.clone()];
        let from = entries.binary_search(&(before, member)).expect("members are ranked");
        let to = entries.partition_point(|entry| *entry < (now, member));
        if from < to {
            entries[from..to].rotate_left(1);
            entries[to - 1].0 = now;
        } else {
            entries[to..=from].rotate_right(1);
            entries[to].0 = now;
        }
    }

    /// The members of `owner` that are ahead, each with the least order of its shares. In each
    /// bucket those that hold most are asked until one is not.
    fn ahead<'a>(
        &'a self,
        owner: usize,
        is_ahead: &'a impl Fn(usize, u64) -> bool,
    ) -> impl Iterator<Item = (usize, u64)> + 'a {
        self.buckets[self.owners[owner].clone()].iter().flat_map(move |bucket| {
            let order = bucket.order;
            let most_first = self.entries[bucket.entries.clone()].iter().rev();
            let members = most_first.map(move |(_, member)| (*member, order));
            members.take_while(move |&(member, order)| is_ahead(member, order))
        })
    }
}

impl Donors {
    pub(super) fn new(draft: &Draft<'_>) -> Donors {
        let (entities, held) = (&draft.entities, &draft.held);
        let classes = draft.snapshot.topology.classes.len();
        let groups = entities.groups().iter().enumerate();
        let users = groups.map(|(group, (class, _))| {
            let orders = entities.members(group).iter().map(|&job| draft.jobs[job].order);
            let least = orders.min().map_or(0, |order| order.qshares().0);
            (class.0, least, held.groups[group], group)
        });
        let jobs = draft.jobs.iter().enumerate();
        let jobs =
            jobs.map(|(ix, job)| (entities.group_of(ix), job.order.qshares().0, held.jobs[ix], ix));
        let known_jobs: Vec<Stand> =
            (0..draft.snapshot.jobs.len()).map(|job| Stand::of(draft, job)).collect();
        let mut jobs_above = vec![0; classes];
        for (job, stand) in known_jobs.iter().enumerate() {
            jobs_above[entities.class_of(job).0] += usize::from(!stand.is_within_count);
        }
        Donors {
            listed_as: known_jobs.iter().copied().map(Cell::new).collect(),
            users: Ranking::new(classes, users.collect()),
            jobs: Ranking::new(entities.groups().len(), jobs.collect()),
            known_users: held.groups.clone(),
            tiers: Tiers::new(draft, &known_jobs),
            known_jobs,
            jobs_above,
            next_search: vec![0; draft.snapshot.jobs.len()],
            had_turn: vec![false; draft.snapshot.jobs.len()],
            changes: 0,
            prey: (0..classes).map(|_| OnceCell::new()).collect(),
            prey_of_user: vec![OnceCell::new(); entities.groups().len()],
            reach: Reach::new(draft),
            vain: Vain::default(),
            patience: VAIN_LOOKS.max(draft.snapshot.machines.len().div_ceil(MACHINES_A_LOOK)),
        }
    }

    /// What to make a claim with.
    pub(super) fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Notes that it is the turn of `job`. Says whether it had none before in this cycle.
    pub(super) fn take_turn(&mut self, job: usize) -> bool {
        !std::mem::replace(&mut self.had_turn[job], true)
    }

    /// Notes that nothing came of a search for `job`.
    pub(super) fn note_failed(&mut self, job: usize) {
        self.next_search[job] = self.changes + 1;
    }

    /// Whether a search for `job` would only repeat one that failed.
    pub(super) fn has_failed(&self, job: usize) -> bool {
        self.changes < self.next_search[job]
    }

    /// Notes that there was no plan for `job`. If there is none and most of its class was looked at,
    /// once a cycle is enough: what changes may be of use to it in the next.
    pub(super) fn note_no_plan(&mut self, job: usize, no_plan: NoPlan) {
        let is_over = no_plan.held_back.is_none() && no_plan.is_wide;
        self.next_search[job] = if is_over { u64::MAX } else { self.changes + 1 };
        self.share_verdict(no_plan);
    }

    /// Notes that nobody whose claim reaches no further finds more than what becomes possible from now
    /// on.
    pub(super) fn share_verdict(&mut self, no_plan: NoPlan) {
        if let Some(verdict) = no_plan.verdict {
            self.vain.note(*verdict);
        }
    }

    /// Of what tier each share is now.
    pub(super) fn tiers(&self) -> &Tiers {
        &self.tiers
    }

    /// What was looked for in vain in this cycle.
    pub(super) fn vain(&self) -> &Vain {
        &self.vain
    }

    /// Notes that `holding` was taken.
    pub(super) fn note_taken(&mut self, draft: &Draft<'_>, holding: Holding) {
        let share = (holding, draft.shares.at(holding));
        let (tier, taken) = prey_of(draft, self.known_jobs[holding.job], share);
        self.tiers.note_gone(taken.place());
        if let Some(lists) = self.prey[draft.entities.class_of(holding.job).0].get_mut() {
            list_of(lists, tier, taken.order()).remove(&taken);
        }
        self.vain.note_left(taken.machine());
        self.note_change(draft, holding.job);
    }

    /// Notes that what `job` holds has changed.
    pub(super) fn note_change(&mut self, draft: &Draft<'_>, job: usize) {
        let entities = &draft.entities;
        let (class, group) = (entities.class_of(job).0, entities.group_of(job));
        let (before, now) = (self.known_jobs[job], Stand::of(draft, job));
        self.changes += 1;
        self.prey_of_user[group] = OnceCell::new();
        let of_user = draft.held.groups[group];
        // Whoever has less than before has less to give, and gives it less willingly.
        if self.known_users[group] < of_user {
            self.vain.note_gained(group);
        }
        self.users.update(group, self.known_users[group], of_user);
        self.jobs.update(job, before.held, now.held);
        self.known_users[group] = of_user;
        self.known_jobs[job] = now;
        self.jobs_above[class] += usize::from(!now.is_within_count);
        self.jobs_above[class] -= usize::from(!before.is_within_count);
        let is_shifted = !now.is_alike(before) || !now.is_within_count;
        if before.held < now.held && is_shifted {
            self.vain.note_shifted(job);
        }
        if now.is_alike(before) {
            return;
        }
        let listed_as = self.listed_as[job].get();
        let mut lists = self.prey[class].get_mut();
        for share in draft.shares.held_by(job) {
            let (tier, prey) = prey_of(draft, now, share);
            self.tiers.note(prey.place(), tier);
            let Some(lists) = &mut lists else { continue };
            let (tier_before, _) = prey_of(draft, before, share);
            list_of(lists, tier_before, prey.order()).remove(&prey);
            if !now.is_alike(listed_as) {
                list_of(lists, tier, prey.order()).insert(prey);
            }
        }
    }

    /// The shares that `claim` of `job` might take.
    pub(super) fn courses<'d>(
        &'d self,
        draft: &Draft<'_>,
        claim: &Claim<'_, '_>,
        job: usize,
    ) -> Courses<'d> {
        let own = draft.entities.class_of(job);
        let sources = self.sources(draft, claim, job);
        let mut courses = Courses::new(&self.tiers);
        courses.is_wide = sources.classes.contains(&own);
        let may_do = |list: &PreyOfTier| {
            let rule = |prey: Prey| claim.rule(draft.shares.job_at(prey.place()), list.least_order);
            let any = list.any(|prey| self.tiers.is_of(prey.place(), list.tier));
            any.is_some_and(|any| claim.may_take_first_share() || rule(any).is_some())
        };
        for &class in &sources.classes {
            let lists = self.prey_of_class(draft, class).iter();
            // Elsewhere all of a tier may give of an order, or none; at home it depends on the user.
            lists.filter(|list| class == own || may_do(list)).for_each(|list| courses.add(list));
        }
        for &class in &sources.classes_above {
            let lists = self.prey_of_class(draft, class).iter();
            lists.filter(|list| !list.tier.is_within_count).for_each(|list| courses.add(list));
        }
        for &user in &sources.users {
            courses.add_few(self.prey_of_user(draft, user));
        }
        courses.sorted()
    }

    /// The machines that have something of its user's other jobs that `claim` of `job` might take, if
    /// that is not more than the `limit` of what may be lost; and the least that is.
    pub(super) fn machines_of_peers(
        &self,
        draft: &Draft<'_>,
        claim: &Claim<'_, '_>,
        job: usize,
        limit: Option<Millis>,
    ) -> (Vec<MachineIx>, Option<Millis>) {
        let group = draft.entities.group_of(job);
        let (mut machines, mut least_left) = (Vec::new(), None);
        let mut look_at = |peer: usize| {
            for (_, share) in draft.shares.held_by(peer) {
                let loss = share.loss;
                let is_too_dear = limit.is_some_and(|limit| limit < loss);
                if is_too_dear && least_left.is_some_and(|least| least <= loss) {
                    continue;
                }
                match claim.rule(peer, share.order.qshares().0) {
                    Some(_) if is_too_dear => least_left = Some(loss),
                    Some(_) => machines.push(share.machine()),
                    None => {}
                }
            }
        };
        if claim.may_take_first_share() {
            draft.entities.members(group).iter().copied().for_each(&mut look_at);
        } else {
            let is_ahead = |other, order| claim.is_ahead(Level::Job, other, order);
            self.jobs.ahead(group, &is_ahead).map(|(other, _)| other).for_each(&mut look_at);
        }
        (machines, least_left)
    }

    /// Whom `claim` of `job` might take from.
    fn sources(&self, draft: &Draft<'_>, claim: &Claim<'_, '_>, job: usize) -> Sources {
        let class = draft.class_of(job);
        let own = draft.entities.class_of(job);
        let mut sources = Sources::default();
        for (ix, other) in draft.snapshot.topology.classes.iter().enumerate() {
            let ix = ClassIx(ix);
            if !other.policy.is_preemptable() || draft.held.classes[ix.0] == 0 {
                continue;
            }
            let is_open = |class| {
                let first = draft.entities.members_of_class(class)[0];
                claim.is_ahead(Level::Class, first, 1) && claim.is_open(Level::Class, first, 1)
            };
            if class.priority < other.priority {
                sources.classes.push(ix);
            } else if class.priority == other.priority && class.policy.is_preemptable() {
                if ix != own && is_open(ix) {
                    sources.classes.push(ix);
                } else if claim.may_take_first_share() && 0 < self.jobs_above[ix.0] {
                    sources.classes_above.push(ix);
                }
                if ix == own {
                    self.add_own_class(draft, claim, job, &mut sources);
                }
            }
        }
        sources
    }

    /// The users of the class of `job` who are ahead of its own; and its own, if jobs of that are ahead
    /// of it.
    fn add_own_class(
        &self,
        draft: &Draft<'_>,
        claim: &Claim<'_, '_>,
        job: usize,
        sources: &mut Sources,
    ) {
        let entities = &draft.entities;
        let (class, group) = (entities.class_of(job), entities.group_of(job));
        let is_ahead = |other, order| claim.is_ahead(Level::Job, other, order);
        let jobs = self
            .jobs
            .ahead(group, &is_ahead)
            .filter(|&(other, order)| other != job && claim.is_open(Level::Job, other, order));
        let jobs = jobs.take(FEW + 1).count();
        let member = |group: usize| entities.members(group)[0];
        let is_ahead = |other, order| claim.is_ahead(Level::User, member(other), order);
        let users = self.users.ahead(class.0, &is_ahead).filter(|&(other, order)| {
            other != group && claim.is_open(Level::User, member(other), order)
        });
        sources.users.extend(users.take(FEW + 1).map(|(other, _)| other));
        if FEW < sources.users.len().max(jobs) {
            sources.classes.push(class);
            sources.users.clear();
        } else if 0 < jobs {
            sources.users.push(group);
        }
    }

    /// The shares of the jobs of `user`, by tier, of each the cheapest first.
    fn prey_of_user(&self, draft: &Draft<'_>, user: usize) -> &[(Tier, Prey)] {
        self.prey_of_user[user].get_or_init(|| {
            let jobs = draft.entities.members(user).iter();
            let prey = jobs.flat_map(|&job| {
                let shares = draft.shares.held_by(job);
                shares.map(move |share| prey_of(draft, self.known_jobs[job], share))
            });
            let mut prey: Vec<(Tier, Prey)> = prey.collect();
            prey.sort_unstable();
            prey
        })
    }

    fn prey_of_class(&self, draft: &Draft<'_>, class: ClassIx) -> &[PreyOfTier] {
        self.prey[class.0].get_or_init(|| {
            let mut lists: Vec<((Tier, u64), Vec<Prey>)> = Vec::new();
            // There are few lists, and the shares of a job are mostly of the same.
            let mut last = 0;
            for &job in draft.entities.members_of_class(class) {
                self.listed_as[job].set(self.known_jobs[job]);
                for share in draft.shares.held_by(job) {
                    let (tier, prey) = prey_of(draft, self.known_jobs[job], share);
                    let alike = (tier, least_of_similar(prey.order()));
                    if lists.get(last).is_none_or(|(of_last, _)| *of_last != alike) {
                        let known = lists.iter().position(|(of_list, _)| *of_list == alike);
                        last = known.unwrap_or_else(|| {
                            lists.push((alike, Vec::new()));
                            lists.len() - 1
                        });
                    }
                    lists[last].1.push(prey);
                }
            }
            lists.sort_unstable_by_key(|(alike, _)| *alike);
            let lists = lists.into_iter();
            lists.map(|((tier, least), shares)| PreyOfTier::new(tier, least, shares)).collect()
        })
    }
}

/// The least order of those that are listed together with `order`.
fn least_of_similar(order: QShares) -> u64 {
    order.0.checked_ilog2().map_or(0, |power| 1 << power)
}

/// The list for shares of `tier` and `order`.
fn list_of(lists: &mut PreyOfClass, tier: Tier, order: QShares) -> &mut PreyOfTier {
    let least = least_of_similar(order);
    let place = lists.binary_search_by_key(&(tier, least), |list| (list.tier, list.least_order));
    let place = place.unwrap_or_else(|place| {
        lists.insert(place, PreyOfTier::new(tier, least, Vec::new()));
        place
    });
    &mut lists[place]
}

/// A share of a job that stands like `stand`, as it is listed.
fn prey_of(draft: &Draft<'_>, stand: Stand, (holding, share): (Holding, &Brief)) -> (Tier, Prey) {
    let user = draft.entities.group_of(holding.job);
    (stand.tier(share.is_resident), Prey::new(share, draft.shares.place_of(holding), user))
}
