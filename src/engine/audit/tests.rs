//! One pair for every rule: a small sound schedule without findings, and the same doctored so that
//! exactly that rule fires.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Rule, audit, cap::cap_of};
use crate::engine::{
    Account, Calm, Cap, CapBound, Considered, Expansion, HeldBack, Job, JobReport, Machine,
    Preemption, PreemptionRule, Promise, Reason, Schedule, Share, Snapshot, Taking, UserAccount,
};
use crate::model::{
    CapRules, ClassIx, JobFacts, JobId, MachineIx, MachineState, Mebibytes, NShares, Nodepool,
    Order, Policy, PoolIx, ProcessLimit, QShares, Quantum, ResourceClass, Settings, ShareFacts,
    ShareId, ShareState, Topology, UserIx, WorkKind,
};

const TOP: PoolIx = PoolIx(0);
/// Lies in `TOP`.
const SUB: PoolIx = PoolIx(1);
/// A tree of its own.
const APART: PoolIx = PoolIx(2);

const FAIR: ClassIx = ClassIx(0);
/// As `FAIR`, with twice the weight.
const HEAVY: ClassIx = ClassIx(1);
/// As `FAIR`, with worse priority.
const LOW: ClassIx = ClassIx(2);
/// As `FAIR`, in `SUB`.
const INNER: ClassIx = ClassIx(3);
const FIXED: ClassIx = ClassIx(4);
const RESERVE: ClassIx = ClassIx(5);

const ANN: UserIx = UserIx(0);
const BOB: UserIx = UserIx(1);

const FREE_GROWTH: CapRules = CapRules {
    initialization_cap: 0,
    expand_by_doubling: false,
    prediction: false,
    prediction_fudge: 0,
    loss_limit: CapRules::LOSS_LIMIT,
};

/// A cluster before and after a cycle. The report is written from what is told here: every job is
/// counted what it has and is promised, unless told otherwise.
struct Scene {
    snapshot: Snapshot,
    schedule: Schedule,
    given: BTreeMap<JobId, u64>,
    deserved: BTreeMap<JobId, u64>,
}

impl Scene {
    /// Machines of these orders, in `TOP`.
    fn new(orders: &[u64]) -> Scene {
        let machines = orders.iter().enumerate().map(|(ix, &order)| machine(ix, order));
        let snapshot = Snapshot {
            cycle: 100,
            topology: Arc::new(topology()),
            machines: Arc::new(machines.collect()),
            users: Arc::new(vec!["ann".to_owned(), "bob".to_owned()]),
            jobs: Arc::default(),
            promises: Vec::new(),
            calm: Calm::default(),
        };
        let (given, deserved) = (BTreeMap::new(), BTreeMap::new());
        Scene { snapshot, schedule: Schedule::default(), given, deserved }
    }

    /// A job of this order with work for so many processes.
    fn job(&mut self, user: UserIx, class: ClassIx, nshare: u32, work: u64) -> JobId {
        let id = JobId(u64::try_from(self.snapshot.jobs.len()).unwrap() + 1);
        self.jobs().push(Job {
            id,
            user,
            class,
            kind: WorkKind::Job,
            order: order(nshare),
            submitted: id.0,
            threads: 1,
            service: 0,
            machines: None,
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
        });
        id
    }

    /// As [`Scene::job`], with `held` shares on machine `on`.
    fn running(
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

    fn hold(&mut self, id: JobId, held: u64, on: usize) {
        for number in 0..held {
            let job = self.edit(id);
            let size = job.order;
            job.shares.push(Share {
                id: ShareId(id.0 * 1000 + u64::try_from(on).unwrap() * 100 + number),
                machine: MachineIx(on),
                order: size,
                state: ShareState::Held,
                facts: ShareFacts::default(),
            });
        }
    }

    fn edit(&mut self, id: JobId) -> &mut Job {
        self.jobs().iter_mut().find(|job| job.id == id).unwrap()
    }

    fn jobs(&mut self) -> &mut Vec<Job> {
        Arc::make_mut(&mut self.snapshot.jobs)
    }

    fn machine(&mut self, ix: usize) -> &mut Machine {
        &mut Arc::make_mut(&mut self.snapshot.machines)[ix]
    }

    fn settings(&mut self) -> &mut Settings {
        &mut Arc::make_mut(&mut self.snapshot.topology).settings
    }

    fn expand(&mut self, job: JobId, on: usize) -> &mut Expansion {
        let size = self.edit(job).order;
        self.schedule.expansions.push(Expansion { job, machine: MachineIx(on), order: size });
        self.schedule.expansions.last_mut().unwrap()
    }

    fn promise(&mut self, job: JobId, on: usize) {
        let size = self.edit(job).order;
        self.schedule.promises.push(Promise { job, machine: MachineIx(on), order: size });
    }

    /// Takes the job's share in this place among its shares.
    fn preempt(&mut self, job: JobId, place: usize, for_whom: Option<JobId>, rule: PreemptionRule) {
        let share = self.edit(job).shares[place];
        self.schedule.preemptions.push(Preemption {
            share: share.id,
            job,
            machine: share.machine,
            beneficiary: for_whom,
            rule,
            loss: 0,
            considered: Considered::default(),
        });
    }

    fn count(&mut self, job: JobId, given: u64) {
        self.given.insert(job, given);
    }

    /// Writes the report.
    fn report(&mut self) {
        let period = self.snapshot.topology.settings.publication_period;
        self.schedule.report.classes =
            vec![Account::default(); self.snapshot.topology.classes.len()];
        self.schedule.report.jobs.clear();
        self.schedule.report.users.clear();
        for job in self.snapshot.jobs.iter() {
            let lost = self.schedule.preemptions.iter().filter(|gone| gone.job == job.id);
            let new = self.schedule.expansions.iter().filter(|new| new.job == job.id);
            let lost: u64 = lost.map(|_| 1).sum();
            let held = NShares((job.nshares_held().0 + new.map(|_| 1).sum::<u64>()) - lost);
            let promises = self.schedule.promises.iter().filter(|promise| promise.job == job.id);
            let promised = NShares(promises.map(|_| 1).sum());
            let has = held + promised;
            let given = self.given.get(&job.id).map_or(has, |&given| NShares(given));
            let cap = NShares(cap_of(job, &self.snapshot.class_of(job).cap_rules, period));
            let account = &mut self.schedule.report.classes[job.class.0];
            account.held += held.of_order(job.order);
            account.given += given.of_order(job.order);
            let reason = Reason::WaitingForExits { promised };
            self.schedule.report.jobs.push(JobReport {
                job: job.id,
                wanted: cap,
                cap: Cap { nshares: cap, bound: CapBound::WorkLeft },
                pure_fair_share: QShares(self.deserved.get(&job.id).copied().unwrap_or(0)),
                given,
                held,
                promised,
                held_back: None,
                is_needy: false,
                reason: (held < cap).then_some(reason),
            });
        }
    }

    /// The rules that are broken, each as often as it is.
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

    /// As [`Scene::breaks`], for what is wrong with the report alone.
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

fn machine(ix: usize, order: u64) -> Machine {
    Machine {
        name: format!("node{ix}"),
        order: QShares(order),
        pool: TOP,
        state: MachineState::default(),
        limbo: QShares(0),
    }
}

fn topology() -> Topology {
    let pool = |name: &str, parent| Nodepool {
        name: name.to_owned(),
        parent,
        search_order: 100,
        quantum: Quantum::new(Mebibytes(1024)).unwrap(),
        nodes: Vec::new(),
    };
    let class = |name: &str, policy, priority, pool| ResourceClass {
        name: name.to_owned(),
        policy,
        priority,
        pool,
        cap_rules: FREE_GROWTH,
        users: None,
        is_default: false,
    };
    let fair = |weight| Policy::FairShare { weight };
    Topology {
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
        },
        pools: vec![pool("top", None), pool("sub", Some(TOP)), pool("apart", None)],
        classes: vec![
            class("fair", fair(1), 10, TOP),
            class("heavy", fair(2), 10, TOP),
            class("low", fair(1), 20, TOP),
            class("inner", fair(1), 10, SUB),
            class("fixed", Policy::FixedShare, 5, TOP),
            class("reserve", Policy::Reserve, 1, TOP),
        ],
        allotments: BTreeMap::new(),
    }
}

/// Ann's fixed work on two machines of 4, and a new job of Bob's that gets the room that is left.
fn growing(class: ClassIx) -> (Scene, JobId) {
    let mut scene = Scene::new(&[4, 4]);
    scene.running((ANN, FIXED), 1, 2, 0);
    scene.running((ANN, FIXED), 2, 2, 1);
    let job = scene.job(BOB, class, 1, 2);
    scene.expand(job, 0);
    scene.expand(job, 0);
    (scene, job)
}

/// Ann has all four of a machine; Bob comes, and is promised a half of it.
fn sharing(rule: PreemptionRule) -> (Scene, JobId, JobId) {
    let mut scene = Scene::new(&[4]);
    let ann = scene.running((ANN, FAIR), 1, 4, 0);
    let bob = scene.job(BOB, FAIR, 1, 2);
    for place in 0..2 {
        scene.preempt(ann, place, Some(bob), rule);
        scene.promise(bob, 0);
    }
    (scene, ann, bob)
}

mod structure {
    use super::*;

    /// Dashboards count by them, and recorded scenarios name them.
    #[test]
    fn codes_are_stable() {
        let codes = [
            (Rule::UnknownName, "unknown_name"),
            (Rule::OverCommitted, "over_committed"),
            (Rule::OverPromised, "over_promised"),
            (Rule::UnschedulableMachine, "unschedulable_machine"),
            (Rule::WrongPool, "wrong_pool"),
            (Rule::Squatter, "squatter"),
            (Rule::MachineList, "machine_list"),
            (Rule::WrongOrder, "wrong_order"),
            (Rule::EndedWork, "ended_work"),
            (Rule::AboveCap, "above_cap"),
            (Rule::OverAllotment, "over_allotment"),
            (Rule::VictimNotHeld, "victim_not_held"),
            (Rule::FalseReceipt, "false_receipt"),
            (Rule::NotPreemptable, "not_preemptable"),
            (Rule::StillAllowed, "still_allowed"),
            (Rule::WrongPriority, "wrong_priority"),
            (Rule::Unpaid, "unpaid"),
            (Rule::SuperfluousVictim, "superfluous_victim"),
            (Rule::UnfairPreemption, "unfair_preemption"),
            (Rule::NoSurplus, "no_surplus"),
            (Rule::NotNeedy, "not_needy"),
            (Rule::FalseFirst, "false_first"),
            (Rule::FalseMove, "false_move"),
            (Rule::WrongMoment, "wrong_moment"),
            (Rule::TooDear, "too_dear"),
            (Rule::TakenBack, "taken_back"),
            (Rule::NotStopped, "not_stopped"),
            (Rule::FalseHold, "false_hold"),
            (Rule::NeedyDonor, "needy_donor"),
            (Rule::OverCounted, "over_counted"),
            (Rule::CountAboveCap, "count_above_cap"),
            (Rule::UnevenCounts, "uneven_counts"),
            (Rule::IdleRoom, "idle_room"),
            (Rule::UnplacedRequest, "unplaced_request"),
            (Rule::CurableEnvy, "curable_envy"),
            (Rule::ReportJobs, "report_jobs"),
            (Rule::ReportHoldings, "report_holdings"),
            (Rule::ReportCap, "report_cap"),
            (Rule::MissingReason, "missing_reason"),
            (Rule::ReportAccounts, "report_accounts"),
        ];
        for (rule, code) in codes {
            assert_eq!(rule.code(), code);
            let finding = rule.finding("what exactly".to_owned());
            assert_eq!(finding.to_string(), format!("{code}: what exactly"));
        }
    }

    #[test]
    fn names_must_exist() {
        let (scene, _) = growing(FAIR);
        scene.misreports(Rule::UnknownName, |scene| scene.schedule.expansions[0].job = JobId(9));
        let (scene, _) = growing(FAIR);
        scene.misreports(Rule::UnknownName, |scene| {
            scene.schedule.expansions[0].machine = MachineIx(9);
        });
        let (scene, ..) = sharing(PreemptionRule::FairShare);
        scene.misreports(Rule::UnknownName, |scene| {
            scene.schedule.preemptions[0].share = ShareId(9);
        });
    }

    #[test]
    fn the_report_is_about_the_jobs_of_the_snapshot() {
        let (scene, _) = growing(FAIR);
        scene.misreports(Rule::ReportJobs, |scene| scene.schedule.report.jobs.swap(0, 1));
        let (scene, _) = growing(FAIR);
        scene.misreports(Rule::ReportJobs, |scene| {
            scene.schedule.report.jobs.pop();
        });
    }

    #[test]
    fn findings_say_who_and_where() {
        let said = |mut scene: Scene| -> Vec<String> {
            scene.report();
            let found = audit(&scene.snapshot, &scene.schedule);
            found.iter().map(ToString::to_string).collect()
        };
        let (mut scene, ..) = sharing(PreemptionRule::FairShare);
        scene.schedule.promises.clear();
        assert_eq!(said(scene), ["unpaid: shares were taken on node0 for job 2 in vain"]);
        for (loser, taker, from, to) in [
            ((ANN, HEAVY), (BOB, FAIR), "class heavy", "class fair"),
            ((ANN, FAIR), (BOB, FAIR), "user ann", "user bob"),
            ((ANN, FAIR), (ANN, FAIR), "job 1", "job 2"),
        ] {
            let mut scene = Scene::new(&[2, 1]);
            let loser = scene.running(loser, 1, 2, 0);
            let taker = scene.running(taker, 1, 1, 1);
            scene.edit(taker).facts.remaining = 2;
            scene.preempt(loser, 0, Some(taker), PreemptionRule::FairShare);
            scene.promise(taker, 0);
            let wanted = format!(
                "unfair_preemption: {from} was left with 1 qshares for the sake of {to}, which had \
                 1"
            );
            assert_eq!(said(scene), [wanted]);
        }
    }

    #[test]
    fn every_rule_is_looked_into_and_nothing_is_found_in_an_empty_cluster() {
        assert_eq!(Scene::new(&[]).broken(), []);
        assert_eq!(Scene::new(&[1, 2, 3]).broken(), []);
    }
}

mod placement {
    use super::*;

    #[test]
    fn no_machine_is_over_committed() {
        // The order of the machine is a matter of the counts as well, so the counts stay low.
        let (mut scene, job) = growing(FAIR);
        scene.count(job, 1);
        scene.breaks(Rule::OverCommitted, |scene| scene.machine(0).order = QShares(3));
    }

    #[test]
    fn what_is_leaving_or_in_limbo_still_takes_room() {
        let (mut scene, job) = growing(FAIR);
        scene.count(job, 0);
        scene.count(JobId(1), 1);
        scene.breaks(Rule::OverCommitted, |scene| scene.machine(0).limbo = QShares(1));
        let (mut scene, job) = growing(FAIR);
        scene.machine(0).order = QShares(5);
        scene.hold(job, 1, 0);
        scene.edit(job).shares[0].state = ShareState::Leaving;
        scene.breaks(Rule::OverCommitted, |scene| {
            scene.hold(job, 2, 0);
            scene.edit(job).shares[1].state = ShareState::Leaving;
            scene.edit(job).shares[2].state = ShareState::Leaving;
        });
    }

    #[test]
    fn a_machine_that_shrank_below_its_use_is_left_alone() {
        let mut scene = Scene::new(&[2]);
        scene.running((ANN, FAIR), 1, 4, 0);
        assert_eq!(scene.broken(), []);
    }

    #[test]
    fn promises_fit_beside_what_stays() {
        let (mut scene, ..) = sharing(PreemptionRule::FairShare);
        scene.edit(JobId(2)).facts.remaining = 3;
        scene.count(JobId(2), 2);
        scene.breaks(Rule::OverPromised, |scene| scene.promise(JobId(2), 0));
    }

    #[test]
    fn machines_out_of_scheduling_get_nothing() {
        let mut scene = Scene::new(&[4]);
        let job = scene.job(ANN, FAIR, 4, 1);
        scene.count(job, 0);
        scene.expand(job, 0);
        scene.breaks(Rule::UnschedulableMachine, |scene| {
            scene.machine(0).state.is_quiesced = true;
        });
    }

    #[test]
    fn a_promise_is_held_to_the_same_as_a_share() {
        let (scene, ..) = sharing(PreemptionRule::FairShare);
        scene.breaks(Rule::WrongOrder, |scene| {
            let mut promises = scene.schedule.promises.iter_mut();
            promises.next().unwrap().order = order(2);
            scene.machine(0).order = QShares(5);
        });
        let (scene, _, bob) = sharing(PreemptionRule::FairShare);
        scene.breaks(Rule::MachineList, |scene| {
            scene.schedule.promises.pop();
            scene.schedule.preemptions.pop();
            scene.edit(bob).machines = Some(Vec::new());
        });
    }

    #[test]
    fn fair_share_work_goes_down_the_tree_and_not_up() {
        let mut scene = Scene::new(&[1]);
        scene.machine(0).pool = SUB;
        let job = scene.job(ANN, FAIR, 1, 1);
        scene.expand(job, 0);
        scene.breaks(Rule::WrongPool, |scene| {
            scene.edit(job).class = INNER;
            scene.machine(0).pool = TOP;
        });
    }

    #[test]
    fn work_that_stays_goes_to_its_own_pool_only() {
        let mut scene = Scene::new(&[4]);
        let job = scene.job(ANN, FIXED, 1, 1);
        scene.expand(job, 0);
        scene.breaks(Rule::Squatter, |scene| scene.machine(0).pool = SUB);
    }

    #[test]
    fn an_old_squatter_blacklists_its_machine() {
        let mut scene = Scene::new(&[4]);
        scene.running((ANN, FIXED), 1, 1, 0);
        scene.machine(0).pool = SUB;
        scene.machine(0).state.is_blacklisted = true;
        scene.breaks(Rule::Squatter, |scene| {
            scene.machine(0).state.is_blacklisted = false;
        });
    }

    #[test]
    fn a_machine_list_is_obeyed() {
        let mut scene = Scene::new(&[1, 1]);
        let job = scene.job(ANN, FAIR, 1, 1);
        scene.edit(job).machines = Some(vec![MachineIx(0)]);
        scene.expand(job, 0);
        scene.breaks(Rule::MachineList, |scene| {
            scene.edit(job).machines = Some(vec![MachineIx(1)]);
        });
    }

    #[test]
    fn a_share_has_its_jobs_order() {
        let mut scene = Scene::new(&[4, 2]);
        let job = scene.job(ANN, FIXED, 2, 1);
        scene.expand(job, 0);
        scene.breaks(Rule::WrongOrder, |scene| scene.schedule.expansions[0].order = order(1));
    }

    /// Seed 000, "Scheduling Policies", and the overage of one quantum that is configured here.
    #[test]
    fn a_reservation_has_a_whole_machine_of_its_size() {
        let reserve = |whole: u32, kind| {
            let mut scene = Scene::new(&[u64::from(whole)]);
            let job = scene.job(ANN, RESERVE, 4, 1);
            scene.edit(job).kind = kind;
            scene.expand(job, 0).order = order(whole);
            scene.broken()
        };
        assert_eq!(reserve(4, WorkKind::ArbitraryProcess), []);
        assert_eq!(reserve(5, WorkKind::Reservation), []);
        assert_eq!(reserve(5, WorkKind::ArbitraryProcess), [Rule::WrongOrder]);
        assert_eq!(reserve(6, WorkKind::Reservation), [Rule::WrongOrder]);
    }

    #[test]
    fn ended_work_gets_nothing() {
        let (mut scene, job) = growing(FAIR);
        scene.count(job, 0);
        scene.breaks(Rule::EndedWork, |scene| {
            scene.schedule.expansions.pop();
            scene.edit(job).facts.is_completing = true;
        });
        let mut scene = Scene::new(&[1]);
        let job = scene.job(ANN, FIXED, 1, 1);
        scene.edit(job).kind = WorkKind::Service;
        scene.expand(job, 0);
        scene.count(job, 0);
        scene.breaks(Rule::EndedWork, |scene| scene.edit(job).is_spent = true);
    }

    #[test]
    fn nobody_grows_above_the_cap() {
        let (mut scene, job) = growing(FAIR);
        scene.count(job, 1);
        scene.breaks(Rule::AboveCap, |scene| scene.edit(job).facts.remaining = 1);
        let mut scene = Scene::new(&[2]);
        let service = scene.job(ANN, FIXED, 1, 1);
        scene.edit(service).kind = WorkKind::Service;
        scene.count(service, 1);
        scene.expand(service, 0);
        scene.breaks(Rule::AboveCap, |scene| {
            scene.expand(service, 0);
        });
    }

    #[test]
    fn a_job_may_stay_above_its_cap() {
        let mut scene = Scene::new(&[4]);
        let job = scene.running((ANN, FAIR), 1, 4, 0);
        scene.edit(job).facts.limit = ProcessLimit::AtMost(2);
        assert_eq!(scene.broken(), []);
    }

    /// D10: what was granted earlier in the same cycle counts.
    #[test]
    fn an_allotment_holds_over_all_trees() {
        let mut scene = Scene::new(&[4, 4, 4]);
        scene.machine(1).pool = APART;
        scene.running((BOB, FIXED), 4, 1, 2);
        let first = scene.job(ANN, FIXED, 1, 1);
        let second = scene.job(ANN, FIXED, 1, 1);
        scene.expand(first, 0);
        scene.expand(second, 0);
        scene.settings().allotment = Some(Mebibytes(2048));
        scene.breaks(Rule::OverAllotment, |scene| {
            scene.settings().allotment = Some(Mebibytes(2047));
        });
    }

    #[test]
    fn an_allotment_is_for_what_cannot_be_preempted_old_and_new() {
        let mut scene = Scene::new(&[4]);
        scene.running((ANN, FIXED), 1, 2, 0);
        scene.running((ANN, FAIR), 1, 1, 0);
        let new = scene.job(ANN, FIXED, 1, 1);
        scene.expand(new, 0);
        scene.settings().allotment = Some(Mebibytes(3072));
        scene.breaks(Rule::OverAllotment, |scene| {
            scene.settings().allotment = Some(Mebibytes(3071));
        });
    }
}

mod preemption {
    use super::*;

    #[test]
    fn a_share_is_taken_once() {
        let (scene, ..) = sharing(PreemptionRule::FairShare);
        scene.misreports(Rule::VictimNotHeld, |scene| {
            let again = scene.schedule.preemptions[0];
            scene.schedule.preemptions.push(again);
        });
        let mut scene = Scene::new(&[4]);
        let job = scene.running((ANN, FAIR), 1, 1, 0);
        scene.edit(job).facts.remaining = 0;
        scene.edit(job).shares[0].state = ShareState::Leaving;
        scene.misreports(Rule::VictimNotHeld, |scene| {
            scene.preempt(job, 0, None, PreemptionRule::NoLongerAllowed);
        });
    }

    #[test]
    fn a_receipt_agrees_with_its_share() {
        let doctors: [fn(&mut Preemption); 3] = [
            |receipt| receipt.loss = 7,
            |receipt| receipt.machine = MachineIx(1),
            |receipt| receipt.rule = PreemptionRule::NoLongerAllowed,
        ];
        for doctor in doctors {
            let mut scene = Scene::new(&[1, 1]);
            let ann = scene.running((ANN, LOW), 1, 1, 0);
            scene.running((ANN, FIXED), 1, 1, 1);
            let bob = scene.job(BOB, FAIR, 1, 1);
            scene.preempt(ann, 0, Some(bob), PreemptionRule::Priority);
            scene.promise(bob, 0);
            scene.edit(ann).facts.limit = ProcessLimit::AtMost(0);
            scene.breaks(Rule::FalseReceipt, |scene| doctor(&mut scene.schedule.preemptions[0]));
        }
    }

    /// The class below is of worse priority than what takes from it; it only ought to be fair-share.
    #[test]
    fn only_fair_share_work_is_preempted() {
        let mut scene = Scene::new(&[1]);
        let ann = scene.running((ANN, LOW), 1, 1, 0);
        let bob = scene.job(BOB, FAIR, 1, 1);
        scene.preempt(ann, 0, Some(bob), PreemptionRule::Priority);
        scene.promise(bob, 0);
        scene.breaks(Rule::NotPreemptable, |scene| {
            let topology = Arc::make_mut(&mut scene.snapshot.topology);
            topology.classes[LOW.0].policy = Policy::FixedShare;
        });
    }

    #[test]
    fn a_maximum_takes_what_is_above_it() {
        let mut scene = Scene::new(&[4]);
        let ann = scene.running((ANN, FAIR), 1, 4, 0);
        scene.edit(ann).facts.limit = ProcessLimit::AtMost(3);
        scene.preempt(ann, 0, None, PreemptionRule::NoLongerAllowed);
        scene.breaks(Rule::StillAllowed, |scene| {
            scene.preempt(ann, 1, None, PreemptionRule::NoLongerAllowed);
            scene.schedule.promises.clear();
        });
    }

    /// Six are held and three allowed: one goes for its place, two more for the maximum.
    #[test]
    fn what_goes_for_its_place_does_not_go_for_the_maximum_as_well() {
        let mut scene = Scene::new(&[5, 2]);
        scene.machine(1).pool = APART;
        let ann = scene.running((ANN, FAIR), 1, 5, 0);
        scene.hold(ann, 1, 1);
        scene.edit(ann).facts.limit = ProcessLimit::AtMost(3);
        for place in [5, 0, 1] {
            scene.preempt(ann, place, None, PreemptionRule::NoLongerAllowed);
        }
        scene.breaks(Rule::StillAllowed, |scene| {
            scene.preempt(ann, 2, None, PreemptionRule::NoLongerAllowed);
        });
    }

    /// D2: its pool was taken from its class.
    #[test]
    fn a_share_may_not_stay_where_its_job_may_not_be() {
        let mut scene = Scene::new(&[1]);
        let ann = scene.running((ANN, INNER), 1, 1, 0);
        scene.preempt(ann, 0, None, PreemptionRule::NoLongerAllowed);
        scene.breaks(Rule::StillAllowed, |scene| scene.machine(0).pool = SUB);
    }

    #[test]
    fn the_rule_fits_the_priorities() {
        let (scene, ..) = sharing(PreemptionRule::FairShare);
        scene.breaks(Rule::WrongPriority, |scene| {
            scene.schedule.preemptions[0].rule = PreemptionRule::Priority;
        });
        let mut scene = Scene::new(&[1]);
        let ann = scene.running((ANN, LOW), 1, 1, 0);
        let bob = scene.job(BOB, FAIR, 1, 1);
        scene.preempt(ann, 0, Some(bob), PreemptionRule::Priority);
        scene.promise(bob, 0);
        scene.breaks(Rule::WrongPriority, |scene| {
            let topology = Arc::make_mut(&mut scene.snapshot.topology);
            topology.classes[LOW.0].priority = 1;
        });
    }

    #[test]
    fn better_priority_does_not_take_for_fairness() {
        let mut scene = Scene::new(&[1]);
        let ann = scene.running((ANN, LOW), 1, 1, 0);
        let bob = scene.job(BOB, FAIR, 1, 1);
        scene.preempt(ann, 0, Some(bob), PreemptionRule::Priority);
        scene.promise(bob, 0);
        scene.breaks(Rule::WrongPriority, |scene| {
            scene.schedule.preemptions[0].rule = PreemptionRule::FairShare;
        });
    }

    /// Node 1 is emptied anyhow: with Bob's promise there, nothing on node 0 need go.
    #[test]
    fn nobody_is_preempted_in_vain() {
        let mut scene = Scene::new(&[2, 2]);
        let ann = scene.running((ANN, LOW), 2, 1, 0);
        scene.hold(ann, 1, 1);
        scene.edit(ann).shares[1].state = ShareState::Leaving;
        let bob = scene.job(BOB, FAIR, 2, 1);
        scene.preempt(ann, 0, Some(bob), PreemptionRule::Priority);
        scene.promise(bob, 0);
        scene.breaks(Rule::Unpaid, |scene| scene.schedule.promises[0].machine = MachineIx(1));
    }

    /// Bob gets a share in a hole beside what is taken for him, which is kept for Ann's fixed work.
    #[test]
    fn a_new_share_on_that_very_machine_pays_as_well() {
        let mut scene = Scene::new(&[2, 1]);
        let low = scene.running((ANN, LOW), 1, 1, 0);
        let bob = scene.job(BOB, FAIR, 1, 1);
        let fixed = scene.job(ANN, FIXED, 1, 2);
        scene.preempt(low, 0, Some(bob), PreemptionRule::Priority);
        scene.expand(bob, 0);
        scene.expand(fixed, 1);
        scene.promise(fixed, 0);
        scene.breaks(Rule::Unpaid, |scene| {
            scene.schedule.expansions[0].machine = MachineIx(1);
            scene.schedule.expansions[1].machine = MachineIx(0);
        });
    }

    /// The second job, which gave to Bob on its own machine, is not moved for him.
    #[test]
    fn what_others_get_who_gave_elsewhere_does_not_pay() {
        let mut scene = Scene::new(&[2, 2]);
        let first = scene.running((ANN, LOW), 2, 1, 0);
        let second = scene.running((ANN, LOW), 1, 2, 1);
        let bob = scene.job(BOB, FAIR, 2, 1);
        scene.promise(bob, 1);
        for place in 0..2 {
            scene.preempt(second, place, Some(bob), PreemptionRule::Priority);
        }
        scene.breaks(Rule::Unpaid, |scene| {
            scene.preempt(first, 0, Some(bob), PreemptionRule::Priority);
            scene.promise(second, 0);
            scene.promise(second, 0);
        });
    }

    #[test]
    fn no_victim_is_superfluous() {
        let (scene, ann, bob) = sharing(PreemptionRule::FairShare);
        scene.breaks(Rule::SuperfluousVictim, |scene| {
            scene.schedule.promises.pop();
            scene.count(ann, 2);
            scene.count(bob, 1);
        });
    }

    /// One nshare of 3 is made room for at once, so even the smallest victim was needed.
    #[test]
    fn not_even_a_small_victim_is_superfluous() {
        let mut scene = Scene::new(&[4]);
        let small = scene.running((ANN, LOW), 1, 1, 0);
        let large = scene.running((ANN, LOW), 3, 1, 0);
        let bob = scene.job(BOB, FAIR, 3, 1);
        scene.preempt(large, 0, Some(bob), PreemptionRule::Priority);
        scene.promise(bob, 0);
        scene.breaks(Rule::SuperfluousVictim, |scene| {
            scene.preempt(small, 0, Some(bob), PreemptionRule::Priority);
        });
    }

    /// Of a share of 1 that goes for an nshare of 1 nothing is left over, so each of the two plans
    /// could have done with what the other left.
    #[test]
    fn plans_of_others_excuse_no_more_than_they_can_have_left() {
        let mut scene = Scene::new(&[3]);
        let low = scene.running((ANN, LOW), 1, 3, 0);
        let bob = scene.job(BOB, FAIR, 1, 1);
        let ann = scene.job(ANN, FAIR, 1, 1);
        for (place, taker) in [bob, ann].into_iter().enumerate() {
            scene.preempt(low, place, Some(taker), PreemptionRule::Priority);
            scene.promise(taker, 0);
        }
        assert_eq!(scene.broken(), []);
        scene.preempt(low, 2, Some(bob), PreemptionRule::Priority);
        assert_eq!(scene.broken(), [Rule::SuperfluousVictim; 2]);
    }

    /// Ann's one share is in Bob's way, who has nothing, and moves to the other machine.
    fn moving() -> (Scene, JobId, JobId) {
        let mut scene = Scene::new(&[2, 1]);
        let ann = scene.running((ANN, FAIR), 1, 1, 0);
        let bob = scene.job(BOB, HEAVY, 2, 1);
        scene.preempt(ann, 0, Some(bob), PreemptionRule::Relocation);
        scene.expand(ann, 1);
        scene.promise(bob, 0);
        scene.count(bob, 1);
        scene.snapshot.calm.rest_cycles = 2;
        (scene, ann, bob)
    }

    #[test]
    fn whoever_is_moved_has_as_much_elsewhere() {
        let (scene, ..) = moving();
        scene.breaks(Rule::FalseMove, |scene| {
            scene.schedule.expansions.clear();
            scene.machine(1).order = QShares(0);
        });
        let (scene, ..) = moving();
        scene.breaks(Rule::FalseMove, |scene| {
            scene.schedule.expansions[0].machine = MachineIx(0);
            scene.machine(0).order = QShares(3);
        });
        // Its new share is as large as it is to be, which is not what it had.
        let (mut scene, ann, _) = moving();
        scene.count(ann, 0);
        scene.breaks(Rule::FalseMove, |scene| scene.edit(ann).shares[0].order = order(2));
    }

    /// What was promised before is not what it is moved to.
    #[test]
    fn whoever_is_moved_gets_something_new() {
        let (mut scene, ann, _) = moving();
        scene.schedule.expansions.clear();
        scene.promise(ann, 1);
        scene.edit(ann).facts.remaining = 2;
        scene.running((ANN, FIXED), 1, 1, 1);
        scene.edit(JobId(3)).shares[0].state = ShareState::Leaving;
        scene.breaks(Rule::FalseMove, |scene| {
            scene.snapshot.promises = vec![scene.schedule.promises[1]];
        });
    }

    /// From one machine to the other, and from that to the first, would be no move at all.
    #[test]
    fn what_is_moved_from_two_machines_goes_to_others() {
        let mut scene = Scene::new(&[3, 3, 1, 1]);
        let ann = scene.running((ANN, FAIR), 1, 1, 0);
        scene.hold(ann, 1, 1);
        scene.edit(ann).facts.remaining = 2;
        for (place, on) in [(0, 2), (1, 3)] {
            let bob = scene.job(BOB, HEAVY, 3, 1);
            scene.preempt(ann, place, Some(bob), PreemptionRule::Relocation);
            scene.expand(ann, on);
            scene.promise(bob, place);
        }
        scene.snapshot.calm.rest_cycles = 2;
        scene.breaks(Rule::FalseMove, |scene| {
            for new in &mut scene.schedule.expansions {
                new.machine = MachineIx(0);
            }
            scene.machine(0).order = QShares(5);
        });
    }

    #[test]
    fn moving_is_for_those_who_have_nothing_and_are_counted_something() {
        let (scene, _, bob) = moving();
        scene.breaks(Rule::FalseMove, |scene| scene.count(bob, 0));
        let (scene, _, bob) = moving();
        scene.breaks(Rule::FalseMove, |scene| {
            scene.machine(1).order = QShares(3);
            scene.hold(bob, 1, 1);
            scene.edit(bob).facts.remaining = 2;
        });
    }

    #[test]
    fn moving_is_for_clusters_at_rest_with_defragmentation_on() {
        let (scene, ..) = moving();
        scene.breaks(Rule::WrongMoment, |scene| scene.snapshot.calm.rest_cycles = 1);
        let (scene, ..) = moving();
        scene.breaks(Rule::FalseMove, |scene| scene.settings().defragmentation = false);
    }

    #[test]
    fn only_peers_are_moved_and_only_fair_share_work() {
        let (scene, _, bob) = moving();
        scene.breaks(Rule::WrongPriority, |scene| scene.edit(bob).class = LOW);
        let (scene, ..) = moving();
        scene.breaks(Rule::NotPreemptable, |scene| {
            let topology = Arc::make_mut(&mut scene.snapshot.topology);
            topology.classes[FAIR.0].policy = Policy::FixedShare;
        });
    }

    #[test]
    fn nobody_is_moved_in_vain_or_needlessly() {
        let (scene, ..) = moving();
        scene.breaks(Rule::Unpaid, |scene| scene.schedule.promises.clear());
        let (scene, ..) = moving();
        scene.breaks(Rule::SuperfluousVictim, |scene| {
            scene.machine(0).order = QShares(3);
        });
    }

    /// Cid is promised the first machine: of Ann's two shares there one goes by right and one is
    /// moved, in place of one of Bob's.
    fn moving_in() -> Scene {
        let mut scene = Scene::new(&[2, 2]);
        Arc::make_mut(&mut scene.snapshot.users).push("cid".to_owned());
        let ann = scene.running((ANN, FAIR), 1, 2, 0);
        let bob = scene.running((BOB, FAIR), 1, 2, 1);
        let cid = scene.job(UserIx(2), FAIR, 2, 1);
        scene.preempt(ann, 0, Some(cid), PreemptionRule::FairShare);
        scene.preempt(ann, 1, Some(cid), PreemptionRule::Relocation);
        scene.preempt(bob, 0, Some(cid), PreemptionRule::FairShare);
        scene.promise(ann, 1);
        scene.promise(cid, 0);
        for job in [ann, bob] {
            scene.edit(job).facts.limit = ProcessLimit::AtMost(2);
        }
        scene.snapshot.calm.rest_cycles = 2;
        scene
    }

    #[test]
    fn what_is_taken_elsewhere_makes_room_for_what_is_moved() {
        moving_in().breaks(Rule::Unpaid, |scene| {
            Arc::make_mut(&mut scene.snapshot.machines).push(machine(2, 1));
            scene.schedule.promises[0].machine = MachineIx(2);
        });
        moving_in().breaks(Rule::SuperfluousVictim, |scene| {
            scene.machine(1).order = QShares(3);
            for job in scene.jobs() {
                job.facts.limit = ProcessLimit::AtMost(1);
            }
        });
    }

    /// Of Bob's three, one goes for what is moved, and on the machine to be cleared one; that Cid was
    /// promised something for the first of them is not so, as that was for Ann.
    #[test]
    fn what_others_are_promised_is_not_the_beneficiary_s() {
        let mut scene = Scene::new(&[2, 3]);
        Arc::make_mut(&mut scene.snapshot.users).push("cid".to_owned());
        let ann = scene.running((ANN, FAIR), 1, 1, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 0);
        scene.hold(bob, 3, 1);
        scene.edit(bob).facts.limit = ProcessLimit::AtMost(4);
        let cid = scene.job(UserIx(2), FAIR, 2, 1);
        scene.preempt(ann, 0, Some(cid), PreemptionRule::Relocation);
        scene.preempt(bob, 0, Some(cid), PreemptionRule::FairShare);
        scene.preempt(bob, 1, Some(cid), PreemptionRule::FairShare);
        scene.promise(ann, 1);
        scene.promise(cid, 0);
        scene.edit(bob).facts.remaining = 4;
        scene.snapshot.calm.rest_cycles = 2;
        assert_eq!(scene.broken(), []);
    }

    /// Two nshares of 3, with 1 free: the first plan takes the share of 2, the second that of 5. In
    /// the end 2 are left over, and still each plan was tight at its time.
    #[test]
    fn plans_are_not_blamed_for_those_that_follow() {
        let mut scene = Scene::new(&[8]);
        let small = scene.running((ANN, LOW), 2, 1, 0);
        let large = scene.running((ANN, LOW), 5, 1, 0);
        let bob = scene.job(BOB, FAIR, 3, 2);
        for victim in [small, large] {
            scene.preempt(victim, 0, Some(bob), PreemptionRule::Priority);
            scene.promise(bob, 0);
        }
        scene.breaks(Rule::SuperfluousVictim, |scene| {
            scene.schedule.promises.pop();
        });
    }

    /// The share of 3 that goes for an nshare of 2 leaves 1, which came too late for the other.
    #[test]
    fn plans_are_not_blamed_for_those_of_others() {
        let mut scene = Scene::new(&[4]);
        for (size, asked) in [(1, 1), (3, 2)] {
            let low = scene.running((ANN, LOW), size, 1, 0);
            let bob = scene.job(BOB, FAIR, asked, 1);
            scene.preempt(low, 0, Some(bob), PreemptionRule::Priority);
            scene.promise(bob, 0);
        }
        assert_eq!(scene.broken(), []);
    }

    /// The first job gives to the second at 6 against 3, and to the third until it has 3 itself.
    #[test]
    fn what_a_donor_loses_to_others_is_not_held_against_the_first() {
        let mut scene = Scene::new(&[6, 3]);
        let rich = scene.running((ANN, FAIR), 1, 6, 0);
        let middling = scene.running((ANN, FAIR), 1, 3, 1);
        scene.edit(middling).facts.remaining = 4;
        let poor = scene.job(ANN, FAIR, 1, 2);
        for (place, taker) in [middling, poor, poor].into_iter().enumerate() {
            scene.preempt(rich, place, Some(taker), PreemptionRule::FairShare);
            scene.promise(taker, 0);
        }
        scene.count(middling, 3);
        assert_eq!(scene.broken(), []);
    }

    /// With the promise from before, Bob has as much as Ann would be left with.
    #[test]
    fn what_was_promised_before_is_held() {
        let mut scene = Scene::new(&[2, 1]);
        let ann = scene.running((ANN, FAIR), 1, 2, 0);
        let low = scene.running((ANN, LOW), 1, 1, 1);
        scene.edit(low).shares[0].state = ShareState::Leaving;
        let bob = scene.job(BOB, FAIR, 1, 2);
        scene.promise(bob, 1);
        scene.snapshot.promises = scene.schedule.promises.clone();
        scene.count(ann, 2);
        scene.count(bob, 1);
        scene.breaks(Rule::UnfairPreemption, |scene| {
            scene.preempt(ann, 0, Some(bob), PreemptionRule::FairShare);
            scene.promise(bob, 0);
        });
    }

    /// What went for a maximum made room for the promise that Bob had.
    #[test]
    fn what_was_promised_before_is_held_where_others_had_to_leave() {
        let mut scene = Scene::new(&[2, 2]);
        let low = scene.running((ANN, LOW), 1, 2, 0);
        let ann = scene.running((ANN, FAIR), 1, 2, 1);
        let bob = scene.job(BOB, FAIR, 1, 2);
        scene.edit(low).facts.limit = ProcessLimit::AtMost(1);
        scene.preempt(low, 0, None, PreemptionRule::NoLongerAllowed);
        scene.promise(bob, 0);
        scene.snapshot.promises = scene.schedule.promises.clone();
        scene.breaks(Rule::UnfairPreemption, |scene| {
            scene.preempt(ann, 0, Some(bob), PreemptionRule::FairShare);
            scene.promise(bob, 1);
        });
    }

    /// Bob's old promise lost its room to fixed work; then Ann's share was taken for one like it.
    #[test]
    fn what_was_taken_for_is_not_what_was_promised_before() {
        let mut scene = Scene::new(&[5]);
        let ann = scene.running((ANN, FAIR), 1, 4, 0);
        let bob = scene.job(BOB, FAIR, 1, 1);
        let fixed = scene.job(BOB, FIXED, 1, 1);
        scene.promise(bob, 0);
        scene.snapshot.promises = scene.schedule.promises.clone();
        scene.preempt(ann, 0, Some(bob), PreemptionRule::FirstShare);
        scene.promise(fixed, 0);
        assert_eq!(scene.broken(), []);
    }

    /// Of two promises where others are leaving, one is from before: Bob has 1 where Ann is left
    /// with 2.
    #[test]
    fn what_was_promised_once_is_held_once() {
        let mut scene = Scene::new(&[2, 3]);
        let low = scene.running((ANN, LOW), 1, 2, 0);
        for share in &mut scene.edit(low).shares {
            share.state = ShareState::Leaving;
        }
        let ann = scene.running((ANN, FAIR), 1, 3, 1);
        let bob = scene.job(BOB, FAIR, 1, 3);
        scene.promise(bob, 0);
        scene.snapshot.promises = scene.schedule.promises.clone();
        scene.promise(bob, 0);
        scene.preempt(ann, 0, Some(bob), PreemptionRule::FairShare);
        scene.promise(bob, 1);
        scene.breaks(Rule::UnfairPreemption, |scene| {
            let again = scene.snapshot.promises[0];
            scene.snapshot.promises.push(again);
        });
    }

    /// Three were promised to Bob on a machine that has shrunk to one beside Ann's two: he has 1,
    /// then 2 with the first of the shares taken, and Ann is left with 3.
    #[test]
    fn old_promises_are_held_as_far_as_there_is_room() {
        let mut scene = Scene::new(&[3, 3]);
        let ann = scene.running((ANN, FAIR), 1, 2, 0);
        scene.hold(ann, 3, 1);
        let bob = scene.job(BOB, FAIR, 1, 3);
        for _ in 0..3 {
            scene.promise(bob, 0);
        }
        scene.snapshot.promises = scene.schedule.promises.clone();
        for place in 0..2 {
            scene.preempt(ann, place, Some(bob), PreemptionRule::FairShare);
        }
        assert_eq!(scene.broken(), []);
    }

    /// Of Ann's shares so many of this order go for so many nshares of Bob's, who had nothing.
    fn one_by_one((size, held, lost): (u32, u64, u64), nshares: u64) -> Vec<Rule> {
        let mut scene = Scene::new(&[u64::from(size) * held]);
        let ann = scene.running((ANN, FAIR), size, held, 0);
        let bob = scene.job(BOB, FAIR, 1, nshares);
        for place in 0..usize::try_from(lost).unwrap() {
            scene.preempt(ann, place, Some(bob), PreemptionRule::FairShare);
        }
        for _ in 0..nshares {
            scene.promise(bob, 0);
        }
        scene.broken()
    }

    #[test]
    fn what_was_promised_before_the_last_plan_is_held() {
        assert_eq!(one_by_one((1, 6, 3), 3), [], "3 against 2");
        assert_eq!(one_by_one((1, 5, 3), 3), [Rule::UnfairPreemption], "2 against 2");
        assert_eq!(one_by_one((2, 3, 2), 4), [], "2 against 1: two plans, two that fit beside");
    }

    /// As above, 2 against 2, on a machine whose last room went to fixed work in the same cycle.
    #[test]
    fn what_is_new_on_a_machine_was_not_in_the_way() {
        let mut scene = Scene::new(&[8]);
        let ann = scene.running((ANN, FAIR), 1, 5, 0);
        let bob = scene.job(BOB, FAIR, 1, 3);
        let fixed = scene.job(BOB, FIXED, 1, 3);
        for place in 0..3 {
            scene.preempt(ann, place, Some(bob), PreemptionRule::FairShare);
            scene.promise(bob, 0);
            scene.expand(fixed, 0);
        }
        assert_eq!(scene.broken(), [Rule::UnfairPreemption]);
    }

    /// Ann has 8 on what has shrunk to 4. One plan may have made up for that and made room for both
    /// of Bob's nshares, while he had 1.
    #[test]
    fn a_plan_makes_up_for_what_has_shrunk() {
        let mut scene = Scene::new(&[4, 1]);
        let ann = scene.running((ANN, FAIR), 2, 4, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        scene.edit(bob).facts.remaining = 3;
        for place in 0..3 {
            scene.preempt(ann, place, Some(bob), PreemptionRule::FairShare);
        }
        scene.promise(bob, 0);
        scene.promise(bob, 0);
        scene.breaks(Rule::UnfairPreemption, |scene| scene.machine(0).order = QShares(5));
    }

    #[test]
    fn a_donor_is_credited_with_what_it_gets() {
        let mut scene = Scene::new(&[2, 1, 1]);
        let ann = scene.running((ANN, FAIR), 1, 2, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        scene.expand(ann, 2);
        scene.preempt(ann, 0, Some(bob), PreemptionRule::FairShare);
        scene.promise(bob, 0);
        assert_eq!(scene.broken(), []);
    }

    #[test]
    fn the_donor_stays_strictly_better_off() {
        let mut scene = Scene::new(&[2, 1]);
        let ann = scene.running((ANN, FAIR), 1, 2, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        scene.deserved = BTreeMap::from([(bob, 2)]);
        scene.count(ann, 2);
        scene.count(bob, 1);
        scene.breaks(Rule::UnfairPreemption, |scene| {
            scene.preempt(ann, 0, Some(bob), PreemptionRule::Defragmentation);
            scene.promise(bob, 0);
        });
    }

    /// The same swap, with the counts as evidence: Bob's second nshare is counted, Ann's is not. It
    /// would only turn the tables.
    #[test]
    fn equals_may_not_take_what_the_counts_give_them() {
        let mut scene = Scene::new(&[2, 1]);
        let ann = scene.running((ANN, FAIR), 1, 2, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        scene.preempt(ann, 0, Some(bob), PreemptionRule::FairShare);
        scene.promise(bob, 0);
        assert_eq!(scene.broken(), [Rule::UnfairPreemption]);
    }

    /// Twice the weight: 4 against 1 becomes 3 against 2, and 3 for a weight of 2 is less.
    #[test]
    fn classes_are_compared_by_weight() {
        let mut scene = Scene::new(&[4, 2]);
        let ann = scene.running((ANN, HEAVY), 1, 4, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        scene.running((ANN, FIXED), 1, 1, 1);
        scene.preempt(ann, 0, Some(bob), PreemptionRule::FairShare);
        scene.promise(bob, 0);
        assert_eq!(scene.broken(), [], "3 / 2 against 1 / 1");
        scene.preempt(ann, 1, Some(bob), PreemptionRule::FairShare);
        scene.promise(bob, 0);
        scene.edit(bob).facts.remaining = 3;
        scene.count(ann, 2);
        scene.count(bob, 2);
        assert_eq!(scene.broken(), [Rule::UnfairPreemption], "2 / 2 against 2 / 1");
    }

    #[test]
    fn surplus_is_more_than_the_count() {
        let mut scene = Scene::new(&[4]);
        let ann = scene.running((ANN, FAIR), 1, 4, 0);
        let bob = scene.job(BOB, HEAVY, 1, 1);
        scene.edit(bob).machines = Some(vec![MachineIx(0)]);
        scene.preempt(ann, 0, Some(bob), PreemptionRule::FairShare);
        scene.promise(bob, 0);
        scene.breaks(Rule::NoSurplus, |scene| {
            scene.count(ann, 4);
            scene.count(bob, 0);
        });
    }

    #[test]
    fn defragmentation_is_for_the_needy() {
        let mut scene = Scene::new(&[5, 1]);
        let ann = scene.running((ANN, FAIR), 1, 5, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        scene.preempt(ann, 0, Some(bob), PreemptionRule::Defragmentation);
        scene.promise(bob, 0);
        scene.deserved.insert(bob, 2);
        scene.breaks(Rule::NotNeedy, |scene| {
            scene.deserved.insert(bob, 1);
        });
    }

    #[test]
    fn nobody_is_needy_from_the_threshold_on() {
        for (bobs, broken) in [(1, vec![]), (2, vec![Rule::NotNeedy])] {
            let mut scene = Scene::new(&[5, bobs]);
            let ann = scene.running((ANN, FAIR), 1, 5, 0);
            let bob = scene.running((BOB, FAIR), 1, bobs, 1);
            scene.edit(bob).facts.remaining = bobs + 1;
            scene.preempt(ann, 0, Some(bob), PreemptionRule::Defragmentation);
            scene.promise(bob, 0);
            scene.deserved.insert(bob, 5);
            assert_eq!(scene.broken(), broken, "{bobs}");
        }
    }

    #[test]
    fn work_that_is_not_fair_share_is_needy_until_it_has_its_count() {
        let mut scene = Scene::new(&[4, 1]);
        let ann = scene.running((ANN, FAIR), 1, 4, 0);
        let bob = scene.running((BOB, FIXED), 1, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        scene.preempt(ann, 0, Some(bob), PreemptionRule::Defragmentation);
        scene.promise(bob, 0);
        Arc::make_mut(&mut scene.snapshot.topology).classes[FIXED.0].priority = 10;
        scene.breaks(Rule::NotNeedy, |scene| scene.count(bob, 1));
    }

    #[test]
    fn a_donor_does_not_become_needy() {
        let mut scene = Scene::new(&[6, 2]);
        let ann = scene.running((ANN, FAIR), 3, 2, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        let fixed = scene.running((ANN, FIXED), 1, 1, 1);
        scene.count(fixed, 0);
        scene.edit(bob).facts.remaining = 4;
        scene.preempt(ann, 0, Some(bob), PreemptionRule::Defragmentation);
        for _ in 0..3 {
            scene.promise(bob, 0);
        }
        scene.deserved = BTreeMap::from([(ann, 3), (bob, 3)]);
        scene.count(ann, 2);
        scene.count(bob, 2);
        scene.breaks(Rule::NeedyDonor, |scene| {
            scene.deserved.insert(ann, 4);
        });
    }

    /// Ann has two shares of 3 and is poor with one; Bob, who has 1, takes one of them.
    fn giving() -> (Scene, JobId, JobId) {
        let mut scene = Scene::new(&[6, 2]);
        let ann = scene.running((ANN, FAIR), 3, 2, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        let fixed = scene.running((ANN, FIXED), 1, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        scene.preempt(ann, 0, Some(bob), PreemptionRule::Defragmentation);
        scene.promise(bob, 0);
        scene.deserved = BTreeMap::from([(ann, 4), (bob, 2)]);
        scene.count(fixed, 0);
        scene.count(ann, 2);
        scene.count(bob, 2);
        (scene, ann, bob)
    }

    #[test]
    fn a_donor_that_gains_as_well_may_become_needy() {
        let (mut scene, ann, _) = giving();
        assert_eq!(scene.broken(), [Rule::NeedyDonor]);
        Arc::make_mut(&mut scene.snapshot.machines).push(machine(2, 3));
        scene.expand(ann, 2);
        scene.edit(ann).facts.remaining = 3;
        scene.count(ann, 3);
        assert_eq!(scene.broken(), []);
    }

    #[test]
    fn a_donor_to_those_who_have_nothing_may_become_needy() {
        let (mut scene, _, bob) = giving();
        scene.edit(bob).shares.clear();
        scene.edit(bob).facts.remaining = 1;
        scene.count(bob, 1);
        assert_eq!(scene.broken(), []);
    }

    #[test]
    fn a_donor_on_a_side_with_surplus_may_become_needy() {
        let (mut scene, ..) = giving();
        Arc::make_mut(&mut scene.snapshot.machines).push(machine(2, 1));
        let other = scene.running((ANN, FAIR), 1, 1, 2);
        scene.edit(other).machines = Some(vec![MachineIx(2)]);
        scene.count(other, 0);
        scene.breaks(Rule::NeedyDonor, |scene| scene.count(other, 1));
    }

    /// What is not counted for it is counted for another job on its side, which can go nowhere.
    #[test]
    fn a_donor_that_keeps_its_count_does_not_become_needy() {
        let (mut scene, ann, _) = giving();
        let other = scene.job(ANN, FAIR, 3, 1);
        scene.edit(other).machines = Some(Vec::new());
        scene.count(other, 1);
        scene.count(ann, 1);
        assert_eq!(scene.broken(), []);
    }

    /// Where something is leaving Ann was promised a third share before, which is no gain.
    #[test]
    fn a_donor_is_judged_with_what_it_was_promised_before() {
        let (mut scene, ann, bob) = giving();
        Arc::make_mut(&mut scene.snapshot.machines).push(machine(2, 3));
        let low = scene.running((ANN, LOW), 3, 1, 2);
        scene.edit(low).shares[0].state = ShareState::Leaving;
        scene.promise(ann, 2);
        scene.snapshot.promises = vec![scene.schedule.promises[1]];
        scene.edit(ann).facts.remaining = 3;
        scene.count(ann, 3);
        scene.edit(bob).machines = Some(vec![MachineIx(0), MachineIx(1)]);
        scene.edit(bob).facts.remaining = 5;
        scene.breaks(Rule::NeedyDonor, |scene| {
            scene.preempt(ann, 1, Some(bob), PreemptionRule::Defragmentation);
            for _ in 0..3 {
                scene.promise(bob, 0);
            }
        });
    }
}

mod counts {
    use super::*;

    #[test]
    fn no_tree_is_counted_twice() {
        let mut scene = Scene::new(&[2, 2]);
        let ann = scene.running((ANN, FAIR), 1, 2, 0);
        scene.edit(ann).facts.remaining = 4;
        scene.machine(1).pool = APART;
        scene.machine(1).order = QShares(2);
        scene.breaks(Rule::OverCounted, |scene| scene.count(ann, 3));
    }

    #[test]
    fn what_is_held_out_of_scheduling_may_be_counted() {
        let mut scene = Scene::new(&[2, 1]);
        let ann = scene.running((ANN, FAIR), 1, 2, 0);
        scene.hold(ann, 1, 1);
        scene.machine(1).state.is_varied_off = true;
        scene.edit(ann).facts.remaining = 4;
        scene.breaks(Rule::OverCounted, |scene| {
            scene.count(ann, 4);
        });
    }

    #[test]
    fn what_is_new_makes_a_tree_no_larger() {
        let mut scene = Scene::new(&[2]);
        let ann = scene.job(ANN, FAIR, 1, 4);
        scene.expand(ann, 0);
        scene.expand(ann, 0);
        scene.breaks(Rule::OverCounted, |scene| scene.count(ann, 3));
    }

    #[test]
    fn counts_stay_within_caps() {
        let mut scene = Scene::new(&[2]);
        let ann = scene.running((ANN, FAIR), 1, 1, 0);
        let fixed = scene.running((ANN, FIXED), 1, 1, 0);
        scene.count(fixed, 0);
        scene.breaks(Rule::CountAboveCap, |scene| scene.count(ann, 2));
    }

    /// Ann's `[a, b]` and Bob's `[c]` nshares counted, of these orders, with more work than that.
    fn counted(ann: &[(ClassIx, u32, u64)], bob: (ClassIx, u32, u64)) -> Vec<Rule> {
        let mut scene = Scene::new(&[32]);
        let theirs = ann.iter().map(|&job| (ANN, job)).chain([(BOB, bob)]);
        let mut fill = 32;
        for (user, (class, nshare, given)) in theirs {
            let job = scene.job(user, class, nshare, given + 32);
            scene.hold(job, given, 0);
            fill -= u64::from(nshare) * given;
        }
        scene.running((ANN, FIXED), 1, fill, 0);
        scene.broken()
    }

    #[test]
    fn nobody_is_counted_more_than_one_nshare_behind() {
        assert_eq!(counted(&[(FAIR, 1, 4)], (FAIR, 1, 2)), [], "users, one each way");
        assert_eq!(counted(&[(FAIR, 1, 5)], (FAIR, 1, 2)), [Rule::UnevenCounts], "users");
        assert_eq!(counted(&[(HEAVY, 1, 9)], (FAIR, 1, 3)), [], "8 / 2 against 4 / 1");
        assert_eq!(counted(&[(HEAVY, 1, 10)], (FAIR, 1, 3)), [Rule::UnevenCounts], "classes");
        assert_eq!(counted(&[(FAIR, 1, 4), (FAIR, 1, 1)], (FAIR, 1, 5)), [Rule::UnevenCounts]);
    }

    #[test]
    fn what_a_peer_could_not_use_is_not_envied() {
        assert_eq!(counted(&[(FAIR, 1, 9)], (FAIR, 2, 1)), [], "Bob's is larger");
        assert_eq!(counted(&[(FAIR, 2, 5)], (FAIR, 1, 2)), [Rule::UnevenCounts], "smaller");
        assert_eq!(counted(&[(LOW, 1, 9)], (FAIR, 1, 1)), [], "of another priority");
        let beside = [(FAIR, 1, 5), (FAIR, 5, 0)];
        assert_eq!(counted(&beside, (FAIR, 1, 2)), [Rule::UnevenCounts], "large, but not counted");
        let mut scene = Scene::new(&[8, 8]);
        scene.machine(0).pool = SUB;
        let ann = scene.job(ANN, FAIR, 1, 30);
        scene.hold(ann, 8, 1);
        let bob = scene.job(BOB, INNER, 1, 30);
        scene.hold(bob, 8, 0);
        scene.count(ann, 12);
        scene.count(bob, 4);
        assert_eq!(scene.broken(), [], "Bob cannot use what is outside his pool");
        scene.count(ann, 4);
        scene.count(bob, 12);
        assert_eq!(scene.broken(), [Rule::UnevenCounts], "Ann can use what is inside it");
    }

    #[test]
    fn what_is_tied_to_its_place_is_not_envied() {
        let tied = |tie: fn(&mut Scene, JobId)| {
            let mut scene = Scene::new(&[5, 2]);
            let ann = scene.running((ANN, FAIR), 1, 5, 0);
            let bob = scene.running((BOB, FAIR), 1, 2, 1);
            scene.edit(ann).facts.remaining = 9;
            scene.edit(bob).facts.remaining = 9;
            tie(&mut scene, ann);
            scene.broken()
        };
        assert_eq!(tied(|_, _| ()), [Rule::UnevenCounts]);
        assert_eq!(tied(|scene, ann| scene.edit(ann).machines = Some(vec![MachineIx(0)])), []);
        assert_eq!(tied(|scene, ann| scene.edit(ann).facts.is_completing = true), []);
        assert_eq!(tied(|scene, _| scene.machine(0).state.is_quiesced = true), []);
    }

    /// The class with the small job grows in what the large order cannot use.
    #[test]
    fn leftovers_of_a_peer_are_not_envied() {
        let mut scene = Scene::new(&[2, 1, 1, 1, 1, 1]);
        let large = scene.running((ANN, FAIR), 2, 1, 0);
        let small = scene.job(ANN, FAIR, 1, 9);
        (1..6).for_each(|on| scene.hold(small, 1, on));
        let other = scene.job(BOB, FAIR, 2, 1);
        scene.count(large, 1);
        scene.count(other, 0);
        assert_eq!(scene.broken(), []);
    }
}

mod conservation {
    use super::*;

    #[test]
    fn no_room_stays_idle() {
        let mut scene = Scene::new(&[2]);
        let ann = scene.running((ANN, FAIR), 1, 1, 0);
        scene.count(ann, 1);
        scene.breaks(Rule::IdleRoom, |scene| scene.edit(ann).facts.remaining = 2);
    }

    /// Fair-share work is no request, though it is counted.
    #[test]
    fn room_that_stays_idle_is_found_once() {
        let mut scene = Scene::new(&[2]);
        let ann = scene.running((ANN, FAIR), 1, 1, 0);
        scene.edit(ann).facts.remaining = 2;
        scene.count(ann, 2);
        assert_eq!(scene.broken(), [Rule::IdleRoom]);
    }

    /// The hole is free now, and will be needed when the share beside it has left.
    #[test]
    fn promised_room_is_not_idle() {
        let mut scene = Scene::new(&[2]);
        let ann = scene.running((ANN, FAIR), 1, 1, 0);
        scene.edit(ann).facts.remaining = 1;
        scene.edit(ann).shares[0].state = ShareState::Leaving;
        let large = scene.job(BOB, FAIR, 2, 1);
        scene.promise(large, 0);
        scene.breaks(Rule::IdleRoom, |scene| {
            scene.schedule.promises.clear();
        });
    }

    #[test]
    fn a_counted_request_is_placed() {
        let mut scene = Scene::new(&[4]);
        let service = scene.job(ANN, FIXED, 1, 1);
        scene.edit(service).kind = WorkKind::Service;
        scene.count(service, 0);
        scene.breaks(Rule::UnplacedRequest, |scene| scene.count(service, 1));
    }

    /// It is promised what is leaving, beside a hole.
    #[test]
    fn a_promised_request_is_placed() {
        let mut scene = Scene::new(&[3]);
        let fixed = scene.running((ANN, FIXED), 1, 1, 0);
        scene.edit(fixed).facts.remaining = 3;
        let low = scene.running((ANN, LOW), 1, 1, 0);
        scene.edit(low).shares[0].state = ShareState::Leaving;
        scene.edit(low).facts.is_completing = true;
        scene.promise(fixed, 0);
        scene.count(fixed, 2);
        scene.breaks(Rule::UnplacedRequest, |scene| scene.count(fixed, 3));
    }

    #[test]
    fn a_counted_reservation_is_placed_if_a_machine_is_empty() {
        let mut scene = Scene::new(&[4]);
        scene.running((ANN, FIXED), 1, 1, 0);
        let whole = scene.job(ANN, RESERVE, 4, 1);
        scene.count(JobId(1), 0);
        scene.count(whole, 1);
        scene.breaks(Rule::UnplacedRequest, |scene| scene.edit(JobId(1)).shares.clear());
    }

    /// A machine larger than asked may be more than is left of an allotment.
    #[test]
    fn a_reservation_under_an_allotment_may_wait_beside_a_larger_machine() {
        let allotted = Some(Mebibytes(8192));
        for (allotment, whole, is_right) in
            [(None, 4, false), (None, 5, false), (allotted, 4, false), (allotted, 5, true)]
        {
            let mut scene = Scene::new(&[whole]);
            let job = scene.job(ANN, RESERVE, 4, 1);
            scene.edit(job).kind = WorkKind::Reservation;
            scene.count(job, 1);
            scene.settings().allotment = allotment;
            let wanted: &[Rule] = if is_right { &[] } else { &[Rule::UnplacedRequest] };
            assert_eq!(scene.broken(), wanted, "{allotment:?} {whole}");
        }
    }
}

mod envy {
    use super::*;

    /// Ann has a machine of 4 in nshares of 1, Bob wants an nshare of 2 and is counted one.
    fn waiting() -> (Scene, JobId, JobId) {
        let mut scene = Scene::new(&[4]);
        let ann = scene.running((ANN, FAIR), 1, 4, 0);
        let bob = scene.job(BOB, FAIR, 2, 1);
        scene.count(ann, 4);
        scene.count(bob, 0);
        (scene, ann, bob)
    }

    #[test]
    fn surplus_is_taken_for_those_below_their_count() {
        let (scene, ann, bob) = waiting();
        scene.breaks(Rule::CurableEnvy, |scene| {
            scene.count(ann, 2);
            scene.count(bob, 1);
        });
    }

    /// After one share Ann has 1 left of 2, which is more than nothing; after two she has nothing.
    #[test]
    fn nobody_is_ruined_for_others_unless_the_count_says_so() {
        let mut scene = Scene::new(&[2]);
        let ann = scene.running((ANN, FAIR), 1, 2, 0);
        let bob = scene.job(BOB, FAIR, 2, 1);
        scene.count(ann, 0);
        scene.count(bob, 1);
        scene.snapshot.calm.rest_cycles = 2;
        scene.breaks(Rule::CurableEnvy, |scene| scene.snapshot.calm.rest_cycles = 0);
    }

    #[test]
    fn worse_priority_is_always_to_be_had() {
        let mut scene = Scene::new(&[2]);
        let low = scene.running((ANN, LOW), 1, 2, 0);
        let bob = scene.job(BOB, FAIR, 2, 1);
        scene.count(low, 0);
        scene.breaks(Rule::CurableEnvy, |scene| scene.count(bob, 1));
    }

    #[test]
    fn worse_priority_is_to_be_had_for_more_than_the_first() {
        let mut scene = Scene::new(&[1, 1]);
        let low = scene.running((ANN, LOW), 1, 1, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        scene.count(low, 0);
        scene.breaks(Rule::CurableEnvy, |scene| scene.count(bob, 2));
    }

    /// There is room that stays idle, for which nothing need be taken.
    #[test]
    fn who_has_something_envies_only_those_who_have_more() {
        let mut scene = Scene::new(&[3, 1]);
        let ann = scene.running((ANN, FAIR), 1, 1, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 0);
        let other = scene.running((BOB, FIXED), 1, 1, 1);
        scene.edit(ann).facts.remaining = 2;
        scene.count(ann, 2);
        scene.count(other, 0);
        assert_eq!(scene.broken(), [Rule::IdleRoom]);
        scene.hold(bob, 1, 1);
        scene.edit(other).shares.clear();
        assert_eq!(scene.broken(), [Rule::IdleRoom, Rule::CurableEnvy]);
    }

    #[test]
    fn who_has_nothing_lacks_what_is_idle_as_well() {
        let mut scene = Scene::new(&[1]);
        let ann = scene.job(ANN, FAIR, 1, 1);
        scene.count(ann, 1);
        assert_eq!(scene.broken(), [Rule::IdleRoom, Rule::CurableEnvy]);
    }

    /// An opinion must not take longer than the decision.
    #[test]
    fn where_there_is_too_much_to_look_at_nothing_is_said() {
        for (shares, broken) in [(199_998, vec![Rule::CurableEnvy]), (199_999, vec![])] {
            let mut scene = Scene::new(&[shares]);
            let ann = scene.running((ANN, FAIR), 1, shares, 0);
            let bob = scene.job(BOB, FAIR, 1, 1);
            scene.count(ann, shares - 1);
            scene.count(bob, 1);
            assert_eq!(scene.broken(), broken, "{shares}");
        }
    }

    /// Ann has no surplus, for more is counted than the machine can hold of whole nshares.
    #[test]
    fn the_needy_take_without_surplus_where_defragmentation_is_on() {
        let mut scene = Scene::new(&[4, 3]);
        let ann = scene.running((ANN, FAIR), 1, 4, 0);
        scene.running((ANN, FIXED), 1, 1, 1);
        scene.running((ANN, FIXED), 2, 1, 1);
        let bob = scene.job(BOB, FAIR, 2, 1);
        scene.count(ann, 4);
        scene.count(bob, 1);
        scene.count(JobId(2), 0);
        scene.count(JobId(3), 0);
        scene.deserved.insert(bob, 2);
        scene.settings().defragmentation = false;
        scene.breaks(Rule::CurableEnvy, |scene| scene.settings().defragmentation = true);
    }

    /// Ann has two large shares; Bob has one small one and is counted two. Room is short by one.
    fn needy(anns: u64, bobs: u64) -> Vec<Rule> {
        let mut scene = Scene::new(&[6, 2]);
        let ann = scene.running((ANN, FAIR), 3, 2, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        let fixed = scene.running((ANN, FIXED), 1, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        scene.count(fixed, 0);
        scene.count(bob, 2);
        scene.deserved = BTreeMap::from([(ann, anns), (bob, bobs)]);
        scene.broken()
    }

    #[test]
    fn the_needy_take_from_those_who_can_spare_it() {
        assert_eq!(needy(3, 2), [Rule::CurableEnvy]);
        assert_eq!(needy(4, 2), [], "Ann would become needy");
        assert_eq!(needy(3, 1), [], "Bob is not needy");
    }

    /// Ann's user has no surplus: what is not counted for the job that could give is counted for
    /// another, which can go nowhere.
    #[test]
    fn who_keeps_its_count_can_spare_the_rest() {
        let mut scene = Scene::new(&[6, 2]);
        let ann = scene.running((ANN, FAIR), 3, 2, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        let fixed = scene.running((ANN, FIXED), 1, 1, 1);
        let other = scene.job(ANN, FAIR, 3, 1);
        scene.edit(other).machines = Some(Vec::new());
        scene.edit(bob).facts.remaining = 2;
        scene.count(fixed, 0);
        scene.count(ann, 1);
        scene.count(other, 1);
        scene.deserved = BTreeMap::from([(ann, 4), (bob, 2)]);
        scene.breaks(Rule::CurableEnvy, |scene| scene.count(bob, 2));
    }

    /// What Ann got in this cycle may have come after everything was tried.
    #[test]
    fn a_donor_is_judged_without_what_is_new() {
        let mut scene = Scene::new(&[2, 2]);
        let ann = scene.running((ANN, FAIR), 1, 2, 0);
        scene.edit(ann).facts.remaining = 4;
        scene.expand(ann, 1);
        scene.expand(ann, 1);
        let bob = scene.job(BOB, FAIR, 2, 1);
        scene.count(ann, 2);
        scene.count(bob, 1);
        assert_eq!(scene.broken(), []);
    }

    #[test]
    fn a_donor_is_judged_without_what_it_lost() {
        let mut scene = Scene::new(&[4, 2]);
        let rich = scene.running((ANN, FAIR), 1, 4, 0);
        let fixed = scene.running((BOB, FIXED), 2, 1, 1);
        let served = scene.job(ANN, FAIR, 1, 2);
        let waiting = scene.job(ANN, FAIR, 2, 1);
        for place in 0..2 {
            scene.preempt(rich, place, Some(served), PreemptionRule::FairShare);
            scene.promise(served, 0);
        }
        scene.count(fixed, 0);
        scene.count(waiting, 1);
        assert_eq!(scene.broken(), []);
    }

    #[test]
    fn new_and_leaving_shares_are_not_to_be_had() {
        let mut scene = Scene::new(&[4]);
        let ann = scene.job(ANN, FAIR, 1, 4);
        let bob = scene.job(BOB, FAIR, 2, 1);
        (0..4).for_each(|_| {
            scene.expand(ann, 0);
        });
        scene.count(ann, 2);
        scene.count(bob, 1);
        assert_eq!(scene.broken(), [], "created in this very cycle");
    }
}

mod calm {
    use super::*;

    /// Ann has a machine of 4 in nshares of 1 and gives Bob one, under `rule`; Bob, who could use one
    /// more than he had, had `bobs` on a machine of his own.
    fn given_to_bob(rule: PreemptionRule, bobs: u64) -> (Scene, JobId, JobId) {
        let mut scene = Scene::new(&[4, bobs]);
        let ann = scene.running((ANN, FAIR), 1, 4, 0);
        let bob = scene.job(BOB, FAIR, 1, bobs + 1);
        scene.hold(bob, bobs, 1);
        scene.preempt(ann, 0, Some(bob), rule);
        scene.promise(bob, 0);
        (scene, ann, bob)
    }

    #[test]
    fn holdings_alone_decide_in_a_cluster_at_rest_only() {
        let (mut scene, ..) = given_to_bob(PreemptionRule::Envy, 1);
        scene.snapshot.calm.rest_cycles = 2;
        scene.breaks(Rule::WrongMoment, |scene| scene.snapshot.calm.rest_cycles = 1);
    }

    #[test]
    fn what_is_beyond_all_counts_is_for_a_cluster_that_moves() {
        let (mut scene, ..) = given_to_bob(PreemptionRule::FirstShare, 0);
        assert_eq!(scene.broken(), []);
        scene.breaks(Rule::WrongMoment, |scene| scene.snapshot.calm.rest_cycles = 2);
    }

    #[test]
    fn a_first_share_is_for_those_who_have_nothing() {
        let (mut scene, ..) = given_to_bob(PreemptionRule::FirstShare, 1);
        assert_eq!(scene.broken(), [Rule::FalseFirst]);
        // Nor may it be among what was counted for its job.
        let mut scene = Scene::new(&[2]);
        let ann = scene.running((ANN, FAIR), 2, 1, 0);
        let bob = scene.job(BOB, FAIR, 1, 1);
        scene.preempt(ann, 0, Some(bob), PreemptionRule::FirstShare);
        scene.promise(bob, 0);
        scene.count(ann, 1);
        scene.count(bob, 0);
        let broken = scene.broken();
        assert!(broken.contains(&Rule::FalseFirst), "{broken:?}");
    }

    #[test]
    fn whoever_loses_all_may_have_a_first_share() {
        let (mut scene, _, bob) = given_to_bob(PreemptionRule::FirstShare, 1);
        scene.edit(bob).facts.remaining = 1;
        scene.machine(1).pool = APART;
        scene.preempt(bob, 0, None, PreemptionRule::NoLongerAllowed);
        assert_eq!(scene.broken(), []);
    }

    /// Ann has 4 where Bob gets his first, and 2 of another job elsewhere.
    #[test]
    fn a_first_share_is_beyond_the_counts_of_its_job_and_of_its_side() {
        for (here, elsewhere, bobs, is_right) in
            [(3, 2, 1, true), (4, 0, 1, false), (3, 3, 1, false), (3, 2, 0, false)]
        {
            let mut scene = Scene::new(&[4, 2, 1]);
            let ann = scene.running((ANN, FAIR), 1, 4, 0);
            let other = scene.running((ANN, FAIR), 1, 2, 1);
            let bob = scene.job(BOB, FAIR, 1, 1);
            let fixed = scene.running((BOB, FIXED), 1, 1, 2);
            scene.edit(other).facts.remaining = 3;
            scene.edit(other).machines = Some(vec![MachineIx(1)]);
            scene.edit(bob).machines = Some(vec![MachineIx(0)]);
            scene.preempt(ann, 0, Some(bob), PreemptionRule::FirstShare);
            scene.promise(bob, 0);
            for (job, given) in [(ann, here), (other, elsewhere), (bob, bobs), (fixed, 0)] {
                scene.count(job, given);
            }
            let wanted: &[Rule] = if is_right { &[] } else { &[Rule::FalseFirst] };
            assert_eq!(scene.broken(), wanted, "{here} {elsewhere} {bobs}");
        }
    }

    /// 400 s of work, against 300 s of credit and nothing waited.
    #[test]
    fn nobody_destroys_more_than_the_waiting_has_cost() {
        let (mut scene, ann, bob) = given_to_bob(PreemptionRule::FairShare, 1);
        scene.edit(ann).shares[0].facts.investment = 400_000;
        scene.schedule.preemptions[0].loss = 400_000;
        scene.edit(bob).behind_since = Some(90);
        scene.breaks(Rule::TooDear, |scene| scene.edit(bob).behind_since = Some(91));
    }

    #[test]
    fn the_first_share_is_free() {
        let (mut scene, ann, _) = given_to_bob(PreemptionRule::FairShare, 0);
        scene.edit(ann).shares[0].facts.investment = 400_000;
        scene.schedule.preemptions[0].loss = 400_000;
        assert_eq!(scene.broken(), []);
    }

    #[test]
    fn credit_is_for_those_who_have_hardly_begun() {
        for (bobs, broken) in [(3, vec![]), (4, vec![Rule::TooDear])] {
            let mut scene = Scene::new(&[8, bobs]);
            let ann = scene.running((ANN, FAIR), 1, 8, 0);
            let bob = scene.running((BOB, FAIR), 1, bobs, 1);
            scene.edit(bob).facts.remaining = bobs + 1;
            scene.preempt(ann, 0, Some(bob), PreemptionRule::FairShare);
            scene.promise(bob, 0);
            scene.edit(ann).shares[0].facts.investment = 300_000;
            scene.schedule.preemptions[0].loss = 300_000;
            assert_eq!(scene.broken(), broken, "{bobs}");
        }
    }

    /// It took from Bob, the cluster has long been quiet, and much is lost.
    #[test]
    fn worse_priority_is_taken_from_at_any_time_and_price() {
        let mut scene = Scene::new(&[1, 1]);
        let low = scene.running((ANN, LOW), 1, 1, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        scene.preempt(low, 0, Some(bob), PreemptionRule::Priority);
        scene.promise(bob, 0);
        scene.edit(low).shares[0].facts.investment = 9_000_000;
        scene.schedule.preemptions[0].loss = 9_000_000;
        let takings = vec![Taking { from: bob, by: low }];
        scene.snapshot.calm = Calm { quiet_cycles: 12, rest_cycles: 0, takings };
        assert_eq!(scene.broken(), []);
    }

    #[test]
    fn at_last_call_a_class_may_destroy_up_to_its_limit_and_at_rest_nothing_is_too_dear() {
        for (quiet_cycles, rest_cycles, loss, is_right) in [
            (11, 0, 2_000_000, true),
            (11, 0, 2_000_001, false),
            (10, 0, 2_000_000, false),
            (10, 2, 9_000_000, true),
        ] {
            let (mut scene, ann, _) = given_to_bob(PreemptionRule::FairShare, 1);
            scene.edit(ann).shares[0].facts.investment = loss;
            scene.schedule.preemptions[0].loss = loss;
            scene.snapshot.calm = Calm { quiet_cycles, rest_cycles, takings: Vec::new() };
            let broken = scene.broken();
            assert_eq!(broken.is_empty(), is_right, "{quiet_cycles} {rest_cycles} {loss}");
            assert!(broken.iter().all(|rule| *rule == Rule::TooDear));
        }
    }

    #[test]
    fn nobody_takes_back_not_even_through_others() {
        let (mut scene, ann, bob) = given_to_bob(PreemptionRule::FairShare, 1);
        let cid = scene.job(UserIx(0), HEAVY, 1, 0);
        scene.snapshot.calm.quiet_cycles = 9;
        scene.snapshot.calm.takings = vec![Taking { from: ann, by: bob }];
        assert_eq!(scene.broken(), [], "once more in the same direction");
        scene.snapshot.calm.takings = vec![Taking { from: bob, by: cid }];
        assert_eq!(scene.broken(), [], "another level");
        scene.breaks(Rule::TakenBack, |scene| {
            scene.snapshot.calm.takings = vec![Taking { from: bob, by: ann }];
        });
    }

    #[test]
    fn taking_back_through_a_third_is_taking_back() {
        let (mut scene, ann, bob) = given_to_bob(PreemptionRule::FairShare, 1);
        Arc::make_mut(&mut scene.snapshot.users).push("cid".to_owned());
        let cid = scene.job(UserIx(2), FAIR, 1, 0);
        scene.snapshot.calm.quiet_cycles = 9;
        scene.snapshot.calm.takings = vec![Taking { from: bob, by: cid }];
        assert_eq!(scene.broken(), []);
        scene.breaks(Rule::TakenBack, |scene| {
            scene.snapshot.calm.takings.push(Taking { from: cid, by: ann });
        });
    }

    /// Ann, who took from Bob, is moved for him; nothing is taken from her.
    #[test]
    fn to_be_moved_is_not_to_be_taken_from() {
        let mut scene = Scene::new(&[2, 1, 9, 4]);
        let moved = scene.running((ANN, FAIR), 1, 1, 0);
        let bob = scene.job(BOB, FAIR, 2, 1);
        let ann = scene.running((ANN, FAIR), 1, 4, 3);
        scene.running((BOB, FAIR), 1, 9, 2);
        scene.preempt(moved, 0, Some(bob), PreemptionRule::Relocation);
        scene.expand(moved, 1);
        scene.promise(bob, 0);
        scene.snapshot.calm = Calm {
            quiet_cycles: 12,
            rest_cycles: 2,
            takings: vec![Taking { from: bob, by: moved }],
        };
        assert_eq!(scene.broken(), []);
        // And so she may take from him, who is ahead now.
        scene.snapshot.calm.takings.clear();
        scene.count(JobId(4), 8);
        scene.breaks(Rule::CurableEnvy, |scene| {
            scene.edit(ann).facts.remaining = 5;
            scene.count(ann, 5);
        });
    }

    #[test]
    fn who_has_nothing_may_take_back_for_a_while() {
        let (mut scene, ann, bob) = given_to_bob(PreemptionRule::FairShare, 0);
        scene.snapshot.calm.takings = vec![Taking { from: bob, by: ann }];
        scene.snapshot.calm.quiet_cycles = 11;
        scene.breaks(Rule::TakenBack, |scene| scene.snapshot.calm.quiet_cycles = 12);
    }

    /// Ann's surplus is Bob's to have, who has nothing, though she took from him; later it is not.
    #[test]
    fn envy_of_those_who_may_not_take_back_is_not_curable() {
        let mut scene = Scene::new(&[4]);
        let ann = scene.running((ANN, FAIR), 1, 4, 0);
        let bob = scene.job(BOB, FAIR, 1, 1);
        scene.count(ann, 3);
        scene.count(bob, 1);
        scene.snapshot.calm.takings = vec![Taking { from: bob, by: ann }];
        scene.snapshot.calm.quiet_cycles = 12;
        scene.breaks(Rule::CurableEnvy, |scene| scene.snapshot.calm.quiet_cycles = 11);
    }

    #[test]
    fn envy_of_those_who_have_something_is_not_curable_by_taking_back() {
        let mut scene = Scene::new(&[4, 1]);
        let ann = scene.running((ANN, FAIR), 1, 4, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        scene.count(ann, 3);
        scene.count(bob, 2);
        scene.snapshot.calm.takings = vec![Taking { from: bob, by: ann }];
        scene.breaks(Rule::CurableEnvy, |scene| scene.snapshot.calm.takings.clear());
    }

    #[test]
    fn after_the_quiet_stop_only_those_take_who_have_nothing() {
        let (mut scene, ..) = given_to_bob(PreemptionRule::FairShare, 0);
        scene.snapshot.calm.quiet_cycles = 12;
        assert_eq!(scene.broken(), []);
        let (mut scene, ..) = given_to_bob(PreemptionRule::FairShare, 1);
        scene.snapshot.calm.quiet_cycles = 11;
        assert_eq!(scene.broken(), []);
        scene.snapshot.calm.quiet_cycles = 12;
        scene.settings().quiet_stop = None;
        scene.breaks(Rule::NotStopped, |scene| scene.settings().quiet_stop = Some(12));
    }

    /// Bob has one, is counted two, and could take from Ann, but says what holds him back.
    fn held_back(held_back: HeldBack, bound: CapBound, calm: Calm) -> Vec<Rule> {
        let mut scene = Scene::new(&[4, 1]);
        let ann = scene.running((ANN, FAIR), 1, 4, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        scene.count(ann, 3);
        scene.count(bob, 2);
        scene.snapshot.calm = calm;
        scene.report();
        assert!(scene.broken_as_reported().contains(&Rule::CurableEnvy));
        scene.schedule.report.jobs[1].held_back = Some(held_back);
        scene.schedule.report.jobs[1].cap.bound = bound;
        scene.broken_as_reported()
    }

    #[test]
    fn whoever_is_held_back_says_truly_by_what() {
        let moving = Calm::default;
        let quiet = || Calm { quiet_cycles: 12, ..Calm::default() };
        let rest = || Calm { rest_cycles: 2, ..Calm::default() };
        let dear = |loss, limit| HeldBack::TooDear { loss, limit };
        for (what, calm, is_true) in [
            (dear(300_001, 300_000), moving(), true),
            (dear(300_000, 300_000), moving(), false),
            (dear(900_000, 299_999), moving(), false),
            (dear(900_000, 300_000), rest(), false),
            (dear(2_000_001, 2_000_000), quiet(), true),
            (HeldBack::Quiet { cycles: 12 }, quiet(), true),
            (HeldBack::Quiet { cycles: 12 }, moving(), false),
            (HeldBack::TooLate, moving(), false),
        ] {
            let wanted: &[Rule] = if is_true { &[] } else { &[Rule::FalseHold] };
            assert_eq!(held_back(what, CapBound::WorkLeft, calm), wanted, "{what}");
        }
    }

    #[test]
    fn it_is_too_late_where_a_prediction_says_so_and_the_cluster_moves() {
        for (bound, rest_cycles, is_true) in [
            (CapBound::Prediction, 1, true),
            (CapBound::Prediction, 2, false),
            (CapBound::WorkLeft, 1, false),
        ] {
            let calm = Calm { rest_cycles, ..Calm::default() };
            let wanted: &[Rule] = if is_true { &[] } else { &[Rule::FalseHold] };
            assert_eq!(held_back(HeldBack::TooLate, bound, calm), wanted, "{bound:?}");
        }
    }

    /// Ann holds 4 of 4 and Bob 1, as is counted: at rest he is behind by more than one.
    #[test]
    fn at_rest_envy_is_cured_whatever_was_counted() {
        let mut scene = Scene::new(&[4, 1]);
        scene.running((ANN, FAIR), 1, 4, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        scene.count(JobId(1), 2);
        scene.snapshot.calm.rest_cycles = 1;
        scene.breaks(Rule::CurableEnvy, |scene| scene.snapshot.calm.rest_cycles = 2);
    }

    #[test]
    fn at_rest_only_counts_are_evidence_without_defragmentation() {
        let mut scene = Scene::new(&[4, 1]);
        let ann = scene.running((ANN, FAIR), 1, 4, 0);
        let bob = scene.running((BOB, FAIR), 1, 1, 1);
        scene.edit(bob).facts.remaining = 2;
        scene.count(ann, 3);
        scene.snapshot.calm.rest_cycles = 2;
        scene.settings().defragmentation = false;
        scene.breaks(Rule::CurableEnvy, |scene| scene.count(bob, 2));
    }

    #[test]
    fn whoever_has_nothing_gets_what_is_beyond_all_counts() {
        // By weight Ann's class is behind Bob's, though it holds one more than is counted for it.
        let mut scene = Scene::new(&[2, 9]);
        let ann = scene.running((ANN, HEAVY), 1, 2, 0);
        scene.running((ANN, FAIR), 1, 9, 1);
        let bob = scene.job(BOB, FAIR, 1, 1);
        scene.edit(ann).machines = Some(vec![MachineIx(0)]);
        scene.edit(bob).machines = Some(vec![MachineIx(0)]);
        scene.count(ann, 1);
        scene.count(bob, 1);
        scene.snapshot.calm.rest_cycles = 2;
        scene.breaks(Rule::CurableEnvy, |scene| scene.snapshot.calm.rest_cycles = 0);
    }

    /// Bob has nothing, and needs this order on the machine where Ann has so many shares of this
    /// order, and count; in the same class she has so many of 1 elsewhere, and count. By weight it
    /// is behind Bob's.
    fn beyond(
        (size, held, given): (u32, u64, u64),
        (held_elsewhere, given_elsewhere): (u64, u64),
        needed: u32,
    ) -> Vec<Rule> {
        let mut scene = Scene::new(&[u64::from(size) * held, 9, held_elsewhere, 1]);
        let ann = scene.running((ANN, HEAVY), size, held, 0);
        let other = scene.job(ANN, HEAVY, 1, held_elsewhere.max(given_elsewhere));
        scene.hold(other, held_elsewhere, 2);
        scene.running((ANN, FAIR), 1, 9, 1);
        let fixed = scene.running((ANN, FIXED), 1, 1, 3);
        let bob = scene.job(BOB, FAIR, needed, 1);
        for (job, on) in [(ann, 0), (other, 2), (bob, 0)] {
            scene.edit(job).machines = Some(vec![MachineIx(on)]);
        }
        for (job, given) in [(ann, given), (other, given_elsewhere), (fixed, 0), (bob, 1)] {
            scene.count(job, given);
        }
        scene.broken()
    }

    #[test]
    fn what_is_beyond_all_counts_is_beyond_those_of_its_job_and_of_its_side() {
        assert_eq!(beyond((1, 1, 0), (2, 0), 1), [Rule::CurableEnvy]);
        assert_eq!(beyond((1, 1, 1), (2, 0), 1), [], "its job's count");
        assert_eq!(beyond((1, 1, 0), (0, 0), 1), [Rule::CurableEnvy]);
        assert_eq!(beyond((1, 1, 0), (0, 1), 1), [], "its side's count");
        assert_eq!(beyond((2, 2, 0), (4, 2), 4), [Rule::CurableEnvy], "two shares");
        assert_eq!(beyond((2, 2, 1), (4, 2), 4), [], "its job's count, with the second");
    }
}

mod report {
    use super::*;

    #[test]
    fn holdings_are_what_the_schedule_leaves() {
        let (scene, _) = growing(FAIR);
        scene.misreports(Rule::ReportHoldings, |scene| {
            scene.schedule.report.jobs[2].promised = NShares(1);
        });
    }

    #[test]
    fn caps_are_what_the_rules_give() {
        let (scene, _) = growing(FAIR);
        scene.misreports(Rule::ReportCap, |scene| {
            scene.schedule.report.jobs[2].cap.nshares = NShares(3);
        });
    }

    #[test]
    fn whoever_waits_is_told_why() {
        let (scene, ..) = sharing(PreemptionRule::FairShare);
        scene.misreports(Rule::MissingReason, |scene| {
            scene.schedule.report.jobs[1].reason = None;
        });
    }

    #[test]
    fn accounts_add_up() {
        let (scene, _) = growing(FAIR);
        scene.misreports(Rule::ReportAccounts, |scene| {
            scene.schedule.report.classes[FAIR.0].held = QShares(1);
        });
        let (scene, _) = growing(FAIR);
        scene.misreports(Rule::ReportAccounts, |scene| {
            let account = Account { held: QShares(9), ..Account::default() };
            scene.schedule.report.users.push(UserAccount { class: FAIR, user: BOB, account });
        });
    }
}

mod caps {
    use super::*;

    const PACED: CapRules = CapRules {
        initialization_cap: 2,
        expand_by_doubling: true,
        prediction: true,
        prediction_fudge: 10_000,
        loss_limit: CapRules::LOSS_LIMIT,
    };

    /// The cap of a job that holds `held` shares, which took 10 s each to initialize.
    fn cap(rules: CapRules, held: u64, edit: fn(&mut Job)) -> u64 {
        let mut scene = Scene::new(&[64]);
        let id = scene.job(ANN, FAIR, 1, 100);
        scene.hold(id, held, 0);
        let job = scene.edit(id);
        for share in &mut job.shares {
            share.facts =
                ShareFacts { is_initialized: true, initialization: 10_000, investment: 0 };
        }
        edit(job);
        cap_of(job, &rules, 10_000)
    }

    #[test]
    fn work_left_is_rounded_up_and_never_less_than_held() {
        assert_eq!(cap(FREE_GROWTH, 0, |job| job.threads = 3), 34);
        assert_eq!(cap(FREE_GROWTH, 5, |job| job.facts.remaining = 2), 5);
        assert_eq!(cap(FREE_GROWTH, 5, |job| job.facts.limit = ProcessLimit::AtMost(3)), 3);
        assert_eq!(cap(FREE_GROWTH, 5, |job| job.facts.limit = ProcessLimit::Frozen), 5);
        assert_eq!(cap(FREE_GROWTH, 5, |job| job.facts.is_completing = true), 5);
        assert_eq!(cap(FREE_GROWTH, 0, |job| job.kind = WorkKind::Service), 1);
    }

    #[test]
    fn nothing_paces_growth_where_no_limit_is_set() {
        assert_eq!(cap(FREE_GROWTH, 0, |job| job.facts.is_running = false), 100);
    }

    #[test]
    fn growth_is_paced() {
        let slow: fn(&mut Job) = |job| job.facts.time_per_item = Some(1_000_000);
        assert_eq!(cap(PACED, 1, |job| job.facts.is_running = false), 2, "before it runs");
        assert_eq!(cap(PACED, 1, |job| job.facts.time_per_item = Some(0)), 2, "nothing is done");
        assert_eq!(cap(PACED, 0, slow), 2, "it starts again");
        assert_eq!(cap(PACED, 3, slow), 6, "it doubles");
    }

    /// In the 30 s until a new process is ready, two that take 1 s an item do 60 of 62.
    #[test]
    fn processes_that_would_come_too_late_are_not_started() {
        let rules = CapRules { expand_by_doubling: false, ..PACED };
        assert_eq!(cap(rules, 2, |job| job.facts.remaining = 65), 5);
        assert_eq!(cap(rules, 2, |job| job.facts.remaining = 61), 2, "no fewer than it holds");
    }
}
