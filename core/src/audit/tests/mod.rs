//! A pair of schedules for every rule: a small sound schedule, and the same doctored so that
//! exactly that rule fires.

mod calendar;
mod caps;
mod conservation;
mod counts;
mod earned;
mod envy;
mod first;
mod gangs;
mod gangs_waiting;
mod moves;
mod placement;
mod preemption;
mod price;
mod quiescence;
mod report;
mod structure;
mod urgent;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Rule, audit, cap::cap_of};
use crate::engine::{
    Alternatives, Cap, CapBound, CycleSchedule, Declined, Expansion, GangProgress, Job, JobAccount,
    JobReport, Node, Preemption, Promise, Quiescence, Share, Snapshot, StartEstimate, UserAccount,
    VictimRule, WaitReason,
};
use crate::model::{
    CapRules, ClassIx, ClassPolicy, Elasticity, GangRules, IxVec, JobFacts, JobId, JobIx, JobKind,
    LegalSizes, Mebibytes, NShares, NodeCondition, NodeIx, NodeTagging, Nodepool, Order, PoolIx,
    ProcessLimit, QShares, Quantum, ResourceClass, Settings, Shape, ShareFacts, ShareId,
    SharePhase, Topology, UserIx,
};

pub(crate) const TOP: PoolIx = PoolIx(0);
/// Lies in `TOP`.
pub(crate) const SUB: PoolIx = PoolIx(1);
/// A tree of its own.
pub(crate) const APART: PoolIx = PoolIx(2);

pub(crate) const FAIR: ClassIx = ClassIx(0);
/// Like `FAIR`, with twice the weight.
pub(crate) const HEAVY: ClassIx = ClassIx(1);
/// Like `FAIR`, with lower priority.
pub(crate) const LOW: ClassIx = ClassIx(2);
/// Like `FAIR`, in `SUB`.
const INNER: ClassIx = ClassIx(3);
pub(crate) const FIXED: ClassIx = ClassIx(4);
pub(crate) const RESERVE: ClassIx = ClassIx(5);

pub(crate) const ANN: UserIx = UserIx(0);
pub(crate) const BOB: UserIx = UserIx(1);

const FREE_GROWTH: CapRules = CapRules {
    initialization_cap: 0,
    expand_by_doubling: false,
    prediction: false,
    prediction_fudge: 0,
    loss_limit: CapRules::LOSS_LIMIT,
};

/// A cluster before and after a cycle. The report is derived: the target of every job is what it
/// has plus what is promised, unless set by `count`.
///
/// Parts of the planner have their tests begin with such a snapshot, too.
pub(crate) struct Scene {
    pub(crate) snapshot: Snapshot,
    schedule: CycleSchedule,
    target: BTreeMap<JobId, u64>,
    fair_share: BTreeMap<JobId, u64>,
    estimates: BTreeMap<JobId, StartEstimate>,
}

impl Scene {
    /// Nodes of these orders, in `TOP`.
    pub(crate) fn new(orders: &[u64]) -> Scene {
        let nodes = orders.iter().enumerate().map(|(ix, &order)| node(ix, order));
        let snapshot = Snapshot {
            turns: Vec::new(),
            cycle: 100,
            topology: Arc::new(topology()),
            nodes: Arc::new(nodes.collect()),
            users: Arc::new(vec!["ann".into(), "bob".into()].into()),
            jobs: Arc::default(),
            promises: Vec::new(),
            put_off: Vec::new(),
            quiescence: Quiescence::default(),
            now: None,
            windows: Arc::default(),
            hours: Arc::default(),
        };
        let (target, fair_share) = (BTreeMap::new(), BTreeMap::new());
        let estimates = BTreeMap::new();
        Scene { snapshot, schedule: CycleSchedule::default(), target, fair_share, estimates }
    }

    /// Adds a job of order `nshare` with work for `work` processes.
    pub(crate) fn job(&mut self, user: UserIx, class: ClassIx, nshare: u32, work: u64) -> JobId {
        let id = JobId(u64::try_from(self.snapshot.jobs.len()).unwrap() + 1);
        self.jobs().push(Arc::new(Job {
            gang: GangProgress::default(),
            shape: None,
            id,
            user,
            class,
            kind: JobKind::Job,
            order: order(nshare),
            submitted: id.0,
            threads: 1,
            service: 0,
            nodes: None,
            facts: JobFacts {
                remaining: work,
                limit: ProcessLimit::Unlimited,
                is_running: true,
                time_per_item: Some(1000),
                is_completing: false,
            },
            behind_since: None,
            is_spent: false,
            shares: Vec::new(),
        }));
        id
    }

    /// Adds a job like [`Scene::job`], with `held` shares on node `on`.
    pub(crate) fn running(
        &mut self,
        (user, class): (UserIx, ClassIx),
        nshare: u32,
        held: u64,
        on: usize,
    ) -> JobId {
        let id = self.job(user, class, nshare, held);
        self.hold(id, held, on);
        id
    }

    pub(crate) fn hold(&mut self, id: JobId, held: u64, on: usize) {
        for number in 0..held {
            let job = self.edit(id);
            let size = job.order;
            job.shares.push(Share {
                rank: None,
                id: ShareId(id.0 * 1000 + u64::try_from(on).unwrap() * 100 + number),
                node: NodeIx(on),
                order: size,
                state: SharePhase::Held,
                facts: ShareFacts::default(),
            });
        }
    }

    pub(crate) fn edit(&mut self, id: JobId) -> &mut Job {
        Arc::make_mut(self.jobs().iter_mut().find(|job| job.id == id).unwrap())
    }

    fn jobs(&mut self) -> &mut IxVec<JobIx, Arc<Job>> {
        Arc::make_mut(&mut self.snapshot.jobs)
    }

    pub(crate) fn node(&mut self, ix: usize) -> &mut Node {
        &mut Arc::make_mut(&mut self.snapshot.nodes)[NodeIx(ix)]
    }

    pub(crate) fn settings(&mut self) -> &mut Settings {
        &mut Arc::make_mut(&mut self.snapshot.topology).settings
    }

    fn expand(&mut self, job: JobId, on: usize) -> &mut Expansion {
        let size = self.edit(job).order;
        self.schedule.expansions.push(Expansion { rank: None, job, node: NodeIx(on), order: size });
        self.schedule.expansions.last_mut().unwrap()
    }

    fn promise(&mut self, job: JobId, on: usize) {
        let size = self.edit(job).order;
        self.schedule.promises.push(Promise { rank: None, job, node: NodeIx(on), order: size });
    }

    /// Takes the job's share in this place among its shares.
    fn preempt(&mut self, job: JobId, place: usize, for_whom: Option<JobId>, rule: VictimRule) {
        let share = self.edit(job).shares[place];
        self.schedule.preemptions.push(Preemption {
            share: share.id,
            job,
            node: share.node,
            beneficiary: for_whom,
            rule,
            loss: 0,
            considered: Alternatives::default(),
        });
    }

    fn count(&mut self, job: JobId, target: u64) {
        self.target.insert(job, target);
    }

    /// Writes the report.
    fn report(&mut self) {
        let period = self.snapshot.topology.settings.publication_period;
        self.schedule.report.classes =
            IxVec::filled(JobAccount::default(), self.snapshot.topology.classes.len());
        self.schedule.report.jobs = IxVec::default();
        self.schedule.report.users.clear();
        for job in self.snapshot.jobs.iter() {
            let lost = self.schedule.preemptions.iter().filter(|gone| gone.job == job.id);
            let new = self.schedule.expansions.iter().filter(|new| new.job == job.id);
            let lost: u64 = lost.map(|_| 1).sum();
            let held = NShares((job.nshares_held().0 + new.map(|_| 1).sum::<u64>()) - lost);
            let promises = self.schedule.promises.iter().filter(|promise| promise.job == job.id);
            let promised = NShares(promises.map(|_| 1).sum());
            let has = held + promised;
            let target = self.target.get(&job.id).map_or(has, |&target| NShares(target));
            let kept = self.snapshot.promises.iter().filter(|promise| promise.job == job.id);
            let kept: u64 = kept.map(|_| 1).sum();
            let rules = &self.snapshot.class_of(job).cap_rules;
            let cap = NShares(cap_of(job, rules, period, kept));
            let account = &mut self.schedule.report.classes[job.class];
            account.held += held.of_order(job.order);
            account.target += target.of_order(job.order);
            let reason = WaitReason::WaitingForExits { promised };
            self.schedule.report.jobs.push(JobReport {
                job: job.id,
                demand: cap,
                cap: Cap { nshares: cap, bound: CapBound::WorkLeft },
                pure_fair_share: QShares(self.fair_share.get(&job.id).copied().unwrap_or(0)),
                target,
                held,
                promised,
                held_back: None,
                start_estimate: self.estimates.get(&job.id).copied(),
                is_needy: false,
                reason: (held < cap).then_some(reason),
            });
        }
    }

    /// The broken rules, with repetitions.
    fn broken(&mut self) -> Vec<Rule> {
        self.report();
        self.broken_as_reported()
    }

    fn broken_as_reported(&self) -> Vec<Rule> {
        audit(&self.snapshot, &self.schedule).into_iter().map(|finding| finding.rule).collect()
    }

    /// Asserts that the scene is sound, and that it breaks exactly `rule` once doctored.
    #[track_caller]
    fn breaks(mut self, rule: Rule, doctor: impl FnOnce(&mut Scene)) {
        assert_eq!(self.broken(), [], "before it is doctored");
        doctor(&mut self);
        assert_eq!(self.broken(), [rule], "once it is doctored");
    }

    /// Like [`Scene::breaks`], for faults of the report alone.
    #[track_caller]
    fn misreports(mut self, rule: Rule, doctor: impl FnOnce(&mut Scene)) {
        assert_eq!(self.broken(), [], "before it is doctored");
        doctor(&mut self);
        assert_eq!(self.broken_as_reported(), [rule], "once it is doctored");
    }
}

fn order(of: u32) -> Order {
    Order::new(of).unwrap()
}

fn node(ix: usize, order: u64) -> Node {
    Node {
        preference: 0,
        tags: Arc::default(),
        name: format!("node{ix}").into(),
        order: QShares(order),
        pool: TOP,
        state: NodeCondition::default(),
        limbo: QShares(0),
    }
}

fn topology() -> Topology {
    let pool = |name: &str, parent| Nodepool {
        name: name.into(),
        parent,
        search_order: 100,
        quantum: Quantum::new(Mebibytes(1024)).unwrap(),
        nodes: Vec::new(),
    };
    let class = |name: &str, policy, priority, pool| ResourceClass {
        gangs: GangRules::default(),
        name: name.into(),
        policy,
        priority,
        pool,
        cap_rules: FREE_GROWTH,
        users: None,
        is_default: false,
        is_urgent: false,
    };
    let fair = |weight| ClassPolicy::FairShare { weight };
    Topology {
        tagging: NodeTagging::default(),
        settings: Settings {
            fragmentation_threshold: 2,
            defragmentation: true,
            allotment: None,
            reserve_overage: Mebibytes(1024),
            reserved_memory: Mebibytes(0),
            publication_period: 10_000,
            node_stability: 3,
            mass_loss_percent: None,
            quiet_stop: Some(12),
            notice: 20_000,
            backfill_depth: 100,
            urgent_allotment: None,
        },
        pools: vec![pool("top", None), pool("sub", Some(TOP)), pool("apart", None)].into(),
        classes: vec![
            class("fair", fair(1), 10, TOP),
            class("heavy", fair(2), 10, TOP),
            class("low", fair(1), 20, TOP),
            class("inner", fair(1), 10, SUB),
            class("fixed", ClassPolicy::FixedShare, 5, TOP),
            class("reserve", ClassPolicy::Reserve, 1, TOP),
        ]
        .into(),
        allotments: BTreeMap::new(),
    }
}

/// Ann's fixed work on two nodes of 4, and a new job of Bob's that gets the free space.
fn growing(class: ClassIx) -> (Scene, JobId) {
    let mut scene = Scene::new(&[4, 4]);
    scene.running((ANN, FIXED), 1, 2, 0);
    scene.running((ANN, FIXED), 2, 2, 1);
    let job = scene.job(BOB, class, 1, 2);
    scene.expand(job, 0);
    scene.expand(job, 0);
    (scene, job)
}

/// Ann has all of a node of 4; Bob comes, and is promised half of it.
fn sharing(rule: VictimRule) -> (Scene, JobId, JobId) {
    let mut scene = Scene::new(&[4]);
    let ann = scene.running((ANN, FAIR), 1, 4, 0);
    let bob = scene.job(BOB, FAIR, 1, 2);
    for place in 0..2 {
        scene.preempt(ann, place, Some(bob), rule);
        scene.promise(bob, 0);
    }
    (scene, ann, bob)
}
