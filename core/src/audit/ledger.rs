//! The recount: holdings of every job on every node after the cycle, computed from the snapshot and
//! the schedule alone.
//!
//! The outcome does not show the order in which a cycle did things. So each entity has a lower and
//! an upper bound of its holdings during the preemption phase. Preemption only adds promises and
//! takes shares; expansions may come before or after it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::cap::Pacing;
use super::finding::Finding;
use super::gang::calendar::precedence;
use super::gang::crew::{GangLine, gangs_of};
use super::lines::{Entity, EntityAmounts, JobLine, NodeLedger, Prey, ReceiptedShare};
use super::names::unknown_names;
use super::owed::{Owed, Rest};
use super::shapes::is_adapting;
use crate::engine::{CycleSchedule, Expansion, Job, Preemption, Promise, Snapshot};
use crate::model::{
    ClassIx, ClassPolicy, IxVec, JobId, JobIx, JobKind, Mebibytes, NodeIx, Order, SharePhase,
    UserIx,
};

/// The cluster after the cycle.
#[derive(Debug)]
pub(super) struct Ledger<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) schedule: &'a CycleSchedule,
    /// In the snapshot's order.
    pub(super) jobs: IxVec<JobIx, JobLine<'a>>,
    /// In the snapshot's order.
    pub(super) nodes: IxVec<NodeIx, NodeLedger>,
    /// In the schedule's order.
    pub(super) victims: Vec<ReceiptedShare<'a>>,
    /// Receipts without effect: for shares that were terminating already, or named before.
    pub(super) void: Vec<&'a Preemption>,
    /// In the snapshot's order.
    pub(super) gangs: Vec<GangLine>,
    pub(super) owed: Owed,
    /// The same, with jobs and users that may be owed a process.
    pub(super) perhaps_owed: Owed,
    places: BTreeMap<JobId, JobIx>,
    classes: IxVec<ClassIx, EntityAmounts>,
    users: Vec<EntityAmounts>,
    user_places: BTreeMap<(ClassIx, UserIx), usize>,
}

impl<'a> Ledger<'a> {
    /// Recounts; fails if the schedule names things that do not exist.
    pub(super) fn open(
        snapshot: &'a Snapshot,
        schedule: &'a CycleSchedule,
    ) -> Result<Ledger<'a>, Vec<Finding>> {
        let places: BTreeMap<JobId, JobIx> =
            snapshot.jobs.with_ix().map(|(place, job)| (job.id, place)).collect();
        let unknown = unknown_names(snapshot, schedule, &places);
        if !unknown.is_empty() {
            return Err(unknown);
        }
        let (victims, void) = victims_of(snapshot, schedule, &places);
        let gangs = gangs_of(snapshot, schedule, &victims);
        let mut ledger = Ledger {
            snapshot,
            schedule,
            jobs: IxVec::default(),
            nodes: IxVec::default(),
            victims,
            void,
            gangs,
            owed: Owed::default(),
            perhaps_owed: Owed::default(),
            places,
            classes: IxVec::default(),
            users: Vec::new(),
            user_places: BTreeMap::new(),
        };
        ledger.enter_jobs();
        ledger.enter_nodes();
        ledger.enter_entities();
        ledger.owed = Owed::new(&ledger, Rest::OfDemand);
        ledger.perhaps_owed = Owed::new(&ledger, Rest::OfTargets);
        Ok(ledger)
    }

    /// Allotment of the user of `line` for work like it. `None` means no limit.
    pub(super) fn allotment_for(&self, line: &JobLine<'_>) -> Option<Mebibytes> {
        let (topology, user) = (&self.snapshot.topology, &self.snapshot.users[line.job.user]);
        let is_urgent = line.class.is_urgent;
        if is_urgent { topology.urgent_allotment_of(user) } else { topology.allotment_of(user) }
    }

    fn enter_jobs(&mut self) {
        let pacing = Pacing::new(self);
        let jobs = self.snapshot.jobs.with_ix().zip(&self.schedule.report.jobs);
        for ((place, job), report) in jobs {
            let class = self.snapshot.class_of(job);
            let cap = pacing.cap_of(job, &class.cap_rules);
            let held = job.held().map(|share| share.order.qshares().0).sum();
            self.jobs.push(JobLine {
                job,
                class,
                priority: precedence(self.snapshot, job),
                report,
                cap,
                held: job.nshares_held().0,
                lost: 0,
                expanded: 0,
                promised: 0,
                kept: 0,
                standing: EntityAmounts {
                    held,
                    promised: 0,
                    floor: held,
                    ceiling: held,
                    target: self.gang(place).map_or_else(
                        || counted(job, report.target.0),
                        |gang| gang.counted(report.target.0),
                    ),
                },
                user: 0,
            });
        }
        self.enter_changes();
    }

    fn enter_changes(&mut self) {
        for victim in &self.victims {
            let line = &mut self.jobs[victim.donor];
            let order = victim.share.order.qshares().0;
            line.lost += 1;
            line.standing.held -= order;
            line.standing.floor -= order;
        }
        for expansion in &self.schedule.expansions {
            let line = &mut self.jobs[self.places[&expansion.job]];
            let order = expansion.order.qshares().0;
            line.expanded += 1;
            line.standing.held += order;
            line.standing.ceiling += order;
        }
        let mut before: BTreeMap<(JobId, NodeIx, Order), u64> = BTreeMap::new();
        for &Promise { job, node, order, .. } in &self.snapshot.promises {
            *before.entry((job, node, order)).or_default() += 1;
        }
        // If shares were preempted for a job on a node, its last promise there is their purpose. An
        // equal promise may have been dropped before.
        let paid_for: BTreeSet<(JobId, NodeIx)> = self
            .schedule
            .preemptions
            .iter()
            .filter_map(|receipt| Some((receipt.beneficiary?, receipt.node)))
            .collect();
        let mut may_be_old: BTreeMap<(JobId, NodeIx), u64> = BTreeMap::new();
        for promise in &self.schedule.promises {
            *may_be_old.entry((promise.job, promise.node)).or_default() += 1;
        }
        for place in &paid_for {
            if let Some(promises) = may_be_old.get_mut(place) {
                *promises -= 1;
            }
        }
        let mut space_for_old = self.space_for_old_promises();
        for promise in &self.schedule.promises {
            let line = &mut self.jobs[self.places[&promise.job]];
            let order = promise.order.qshares().0;
            line.promised += 1;
            line.standing.promised += order;
            line.standing.ceiling += order;
            let key = (promise.job, promise.node, promise.order);
            let may_be_old = may_be_old.entry((promise.job, promise.node)).or_default();
            let space = &mut space_for_old[promise.node.0];
            let is_old = *may_be_old > 0 && order <= *space;
            *may_be_old = may_be_old.saturating_sub(1);
            if let Some(left) = before.get_mut(&key).filter(|left| is_old && **left > 0) {
                *left -= 1;
                *space -= order;
                line.kept += 1;
                line.standing.floor += order;
            }
        }
    }

    /// Space on each node when promises were redeemed. By then only shares evicted without a
    /// beneficiary had gone, and gangs had their nodes. A node may have shrunk since a promise was
    /// made; then the promise was dropped.
    fn space_for_old_promises(&self) -> Vec<u64> {
        let nodes = &self.snapshot.nodes;
        let mut taken: Vec<u64> = nodes.iter().map(|node| node.limbo.0).collect();
        for share in self.jobs.iter().flat_map(|line| line.job.held()) {
            taken[share.node.0] += share.order.qshares().0;
        }
        for victim in self.victims.iter().filter(|victim| victim.beneficiary.is_none()) {
            taken[victim.share.node.0] -= victim.share.order.qshares().0;
        }
        for (ix, taken_by_gangs) in self.space_for_new_gangs() {
            taken[ix.0] += taken_by_gangs;
        }
        let spaces = nodes.iter().zip(taken);
        spaces.map(|(node, taken)| node.order.0.saturating_sub(taken)).collect()
    }

    /// Quanta that gangs gained on nodes in this cycle, beyond the quanta preempted for them.
    fn space_for_new_gangs(&self) -> BTreeMap<NodeIx, u64> {
        let promised = self.schedule.promises.iter().map(|it| (it.rank, it.node, it.order));
        let begun = self.schedule.expansions.iter().map(|it| (it.rank, it.node, it.order));
        let mut gained: BTreeMap<NodeIx, u64> = BTreeMap::new();
        for (_, ix, order) in promised.chain(begun).filter(|(rank, ..)| rank.is_some()) {
            *gained.entry(ix).or_default() += order.qshares().0;
        }
        let old = self.snapshot.promises.iter().filter(|promise| promise.rank.is_some());
        let old = old.map(|promise| (promise.node, promise.order.qshares().0));
        let for_gangs = self
            .victims
            .iter()
            .filter(|victim| victim.beneficiary.is_some_and(|taker| self.jobs[taker].is_gang()));
        let cleared = for_gangs.map(|victim| (victim.share.node, victim.share.order.qshares().0));
        for (ix, amount) in old.chain(cleared) {
            if let Some(gained) = gained.get_mut(&ix) {
                *gained = gained.saturating_sub(amount);
            }
        }
        gained
    }

    fn enter_nodes(&mut self) {
        let preempted: BTreeSet<_> = self.victims.iter().map(|victim| victim.share.id).collect();
        self.nodes = self
            .snapshot
            .nodes
            .iter()
            .map(|node| NodeLedger {
                order: node.order.0,
                staying: node.limbo.0,
                fixed: node.limbo.0,
                ..NodeLedger::default()
            })
            .collect();
        for (place, line) in self.jobs.with_ix() {
            for share in &line.job.shares {
                let node = &mut self.nodes[share.node];
                let order = share.order.qshares().0;
                if !line.is_fair_share() {
                    node.fixed += order;
                }
                if share.state == SharePhase::Leaving || preempted.contains(&share.id) {
                    node.leaving += order;
                } else {
                    node.staying += order;
                    let may_go = !line.is_gang() && !is_adapting(line.job);
                    if line.is_fair_share() && may_go {
                        let loss =
                            share.facts.investment.saturating_add(share.facts.initialization);
                        node.prey.push(Prey { job: place, order, loss });
                    }
                }
            }
        }
        let is_fixed = |job: &JobId| !self.jobs[self.places[job]].is_fair_share();
        for Expansion { job, node, order, .. } in &self.schedule.expansions {
            let (order, node) = (order.qshares().0, &mut self.nodes[*node]);
            node.staying += order;
            node.expanded += order;
            node.fixed += if is_fixed(job) { order } else { 0 };
        }
        for Promise { job, node, order, .. } in &self.schedule.promises {
            let (order, node) = (order.qshares().0, &mut self.nodes[*node]);
            node.promised += order;
            node.fixed += if is_fixed(job) { order } else { 0 };
        }
    }

    fn enter_entities(&mut self) {
        self.classes =
            IxVec::filled(EntityAmounts::default(), self.snapshot.topology.classes.len());
        for line in &mut self.jobs {
            let next = self.users.len();
            let key = (line.job.class, line.job.user);
            line.user = *self.user_places.entry(key).or_insert(next);
            if line.user == next {
                self.users.push(EntityAmounts::default());
            }
            self.users[line.user].add(line.standing);
            self.classes[line.job.class].add(line.standing);
        }
    }

    /// The place of the job called `id`, if it still exists.
    pub(super) fn place(&self, id: JobId) -> Option<JobIx> {
        self.places.get(&id).copied()
    }

    /// The place of the job called `id`, which the schedule names and therefore exists.
    pub(super) fn line(&self, id: JobId) -> &JobLine<'a> {
        &self.jobs[self.places[&id]]
    }

    /// The gang whose job is at `place`; `None` if it is no gang.
    pub(super) fn gang(&self, place: JobIx) -> Option<&GangLine> {
        let found = self.gangs.binary_search_by_key(&place, |gang| gang.place);
        found.ok().map(|found| &self.gangs[found])
    }

    /// The entities of the jobs at `one` and `other` at their dividing level: class, else user,
    /// else job. `None` if both are the same job.
    pub(super) fn dividing(&self, one: JobIx, other: JobIx) -> Option<(Entity, Entity)> {
        self.entities(one).into_iter().zip(self.entities(other)).find(|(one, other)| one != other)
    }

    /// The class, user and job that the job at `place` belongs to.
    pub(super) fn entities(&self, place: JobIx) -> [Entity; 3] {
        let line = &self.jobs[place];
        [Entity::Class(line.job.class), Entity::User(line.user), Entity::Job(place)]
    }

    /// Amounts of `entity`.
    pub(super) fn standing(&self, entity: Entity) -> EntityAmounts {
        match entity {
            Entity::Class(class) => self.classes[class],
            Entity::User(user) => self.users[user],
            Entity::Job(place) => self.jobs[place].standing,
        }
    }

    /// The user's entity within the class, if the user has jobs there.
    pub(super) fn user_in(&self, class: ClassIx, user: UserIx) -> Option<Entity> {
        self.user_places.get(&(class, user)).map(|&place| Entity::User(place))
    }

    /// Compares the amounts of two entities, each by its weight.
    pub(super) fn by_weight(&self, one: (Entity, u64), other: (Entity, u64)) -> Ordering {
        let scaled = |amount: u64, weight: u32| u128::from(amount) * u128::from(weight);
        scaled(one.1, self.weight(other.0)).cmp(&scaled(other.1, self.weight(one.0)))
    }

    /// A class's weight; users and jobs weigh 1.
    pub(super) fn weight(&self, entity: Entity) -> u32 {
        match entity {
            Entity::Class(class) => self.snapshot.topology.classes[class].policy.weight(),
            Entity::User(_) | Entity::Job(_) => 1,
        }
    }

    /// True if node `ix` is in a pool that `line`'s class may use. Fair-share work may use its own
    /// pool and the pools in it, other work and gangs only their own pool.
    pub(super) fn is_in_pool(&self, line: &JobLine<'_>, ix: NodeIx) -> bool {
        let pool = self.snapshot.node(ix).pool;
        match line.class.policy {
            ClassPolicy::FairShare { .. } if !line.is_gang() => {
                self.snapshot.topology.is_within(pool, line.class.pool)
            }
            ClassPolicy::FairShare { .. } | ClassPolicy::FixedShare | ClassPolicy::Reserve => {
                pool == line.class.pool
            }
        }
    }

    /// Size of a share of `line`'s job on node `ix`. `None` if the node does not match a
    /// reservation, which takes whole nodes (I10).
    pub(super) fn size_on(&self, line: &JobLine<'_>, ix: NodeIx) -> Option<u64> {
        let asked = line.job.order.qshares().0;
        let whole = self.nodes[ix].order;
        if line.class.policy != ClassPolicy::Reserve {
            return Some(asked);
        }
        let topology = &self.snapshot.topology;
        let overage = match line.job.kind {
            JobKind::Reservation => {
                let quantum = topology.pools[line.class.pool].quantum;
                quantum.order_of_node(topology.settings.reserve_overage).0
            }
            JobKind::Job | JobKind::Service | JobKind::ArbitraryProcess => 0,
        };
        (asked..=asked.saturating_add(overage)).contains(&whole).then_some(whole)
    }

    /// Size of a new share of `line`'s job on node `ix`, free space aside; `None` if the job may
    /// get nothing there.
    pub(super) fn would_take(&self, line: &JobLine<'_>, ix: NodeIx) -> Option<u64> {
        let is_open = self.snapshot.node(ix).state.is_schedulable()
            && self.is_in_pool(line, ix)
            && line.job.may_use(ix);
        is_open.then(|| self.size_on(line, ix)).flatten()
    }

    /// Every node with its place.
    pub(super) fn nodes_with_ix(&self) -> impl Iterator<Item = (NodeIx, &NodeLedger)> {
        self.nodes.with_ix()
    }

    /// Name of an entity, for findings.
    pub(super) fn describe(&self, entity: Entity) -> String {
        match entity {
            Entity::Class(class) => {
                format!("class {}", self.snapshot.topology.classes[class].name)
            }
            Entity::User(place) => {
                let found = self.user_places.iter().find(|(_, at)| **at == place);
                let user = found.map_or("?", |((_, user), _)| &self.snapshot.users[*user]);
                format!("user {user}")
            }
            Entity::Job(place) => format!("job {}", self.jobs[place].job.id),
        }
    }

    /// Name of a node.
    pub(super) fn name(&self, ix: NodeIx) -> &'a str {
        &self.snapshot.nodes[ix].name
    }
}

/// Converts a target of `nshares` for `job` to qshares. Its shares count by their actual size,
/// which for a reservation is the node's. The rest counts by the size that the job asks for.
fn counted(job: &Job, nshares: u64) -> u64 {
    let held: Vec<u64> = job.held().map(|share| share.order.qshares().0).collect();
    match nshares.checked_sub(job.nshares_held().0) {
        Some(more) => held.iter().sum::<u64>() + job.order.qshares().0 * more,
        None => job.order.qshares().0 * nshares,
    }
}

/// The preempted shares, and the receipts without effect.
fn victims_of<'a>(
    snapshot: &'a Snapshot,
    schedule: &'a CycleSchedule,
    places: &BTreeMap<JobId, JobIx>,
) -> (Vec<ReceiptedShare<'a>>, Vec<&'a Preemption>) {
    let (mut victims, mut void, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for receipt in &schedule.preemptions {
        let donor = places[&receipt.job];
        let mut held = snapshot.jobs[donor].held();
        match held.find(|share| share.id == receipt.share && seen.insert(share.id)) {
            Some(share) => {
                let beneficiary = receipt.beneficiary.map(|job| places[&job]);
                victims.push(ReceiptedShare { receipt, share, donor, beneficiary });
            }
            None => void.push(receipt),
        }
    }
    (victims, void)
}
