//! Random histories with gangs of fixed-share work among other work: every cycle is sound, and a client that only
//! remembers what it submitted finds each gang whole or not there at all.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::support::cluster::{Cluster, UNPACED, assert_same, class, job, single, topology};
use crate::support::diary::Diary;
use apportion::converter::update_from;
use apportion::engine::{VictimRule, plan};
use apportion::model::{
    CapRules, Chunk, ClassIx, ClassPolicy, Elasticity, GangRules, JobFacts, JobId, JobKind,
    JobSpec, LegalSizes, Mebibytes, Name, NodeTagging, Place, ProcessLimit, Shape, SharePhase,
    TagRule, Tags, Topology,
};
use apportion::scheduler::checkpoint::SchedulerState;
use apportion::scheduler::{AdminCommand, Scheduler, SchedulerEvent};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Nodes with their size in GB, rack and colour.
pub const NODES: [(&str, u64, &str, &str); 9] = [
    ("a1", 4, "a", "red"),
    ("a2", 4, "a", "red"),
    ("a3", 4, "a", "blue"),
    ("b1", 4, "b", "red"),
    ("b2", 4, "b", "blue"),
    ("b3", 8, "b", "blue"),
    ("c1", 8, "c", "red"),
    ("c2", 8, "c", "blue"),
    ("x1", 6, "", ""),
];

/// Length of all gangs, in milliseconds.
const LENGTH: u64 = 60_000;

const USERS: [&str; 3] = ["ann", "bob", "cid"];
const CLASSES: [&str; 4] = ["tight", "normal", "low", "plain"];

pub fn world(has_sets: bool) -> Topology {
    let tag = |key: &str, pick: fn(&(&str, u64, &'static str, &'static str)) -> &'static str| {
        let mut rules: BTreeMap<&str, Vec<Name>> = BTreeMap::new();
        for node in NODES.iter().filter(|node| !pick(node).is_empty()) {
            rules.entry(pick(node)).or_default().push(node.0.into());
        }
        let rule = |(value, nodes): (&str, Vec<Name>)| TagRule {
            nodes,
            set: Tags::of([(key, value)]),
            preference: None,
        };
        rules.into_iter().map(rule).collect::<Vec<_>>()
    };
    let gangs = GangRules {
        are_allowed: true,
        hold_limit: 80_000,
        default_duration: Some(LENGTH),
        ..GangRules::default()
    };
    let mut tight = class("tight", ClassPolicy::FixedShare, 5, UNPACED);
    let mut normal = class("normal", ClassPolicy::FairShare { weight: 100 }, 10, UNPACED);
    let mut low = class("low", ClassPolicy::FairShare { weight: 100 }, 20, UNPACED);
    for class in [&mut tight, &mut normal, &mut low] {
        class.gangs = gangs;
    }
    let mut topology = Topology {
        classes: vec![tight, normal, low, class("plain", ClassPolicy::FixedShare, 5, UNPACED)]
            .into(),
        ..topology()
    };
    let rules = [tag("rack", |node| node.2), tag("color", |node| node.3)].concat();
    let sets = if has_sets { vec!["rack".into()] } else { Vec::new() };
    topology.tagging = NodeTagging { rules, sets, ..NodeTagging::default() };
    topology.settings.allotment = Some(Mebibytes::from_gib(30));
    topology
}

#[derive(Clone, Debug)]
enum Step {
    Gang { user: usize, class: usize, shape: Shape },
    Elastic { user: usize, class: usize, order: u64, shape: Shape, most: u64 },
    Plain { user: usize, class: usize, order: u64 },
    Complete(usize),
    Exit(usize),
    Initialize(usize),
    Wish { job: usize, wish: u64 },
    Die(usize),
    Return(usize),
    VaryOff(usize),
    VaryOn(usize),
    Confirm(bool),
    Resume,
    Cycle,
}

fn shape() -> impl Strategy<Value = Shape> {
    let color = prop_oneof![Just(""), Just("red"), Just("blue")];
    let chunk = (1..4_u64, 1..5_u64, color).prop_map(|(count, gib, color)| Chunk {
        count,
        memory: Mebibytes::from_gib(gib),
        tags: if color.is_empty() { Tags::default() } else { Tags::of([("color", color)]) },
    });
    let place = prop_oneof![
        3 => Just(Place::Scatter),
        3 => Just(Place::Free),
        1 => Just(Place::Pack),
    ];
    let elasticity = prop_oneof![
        4 => Just(None),
        1 => Just(Some(Elasticity::Moldable)),
        1 => Just(Some(Elasticity::Evolving)),
    ];
    (
        prop::collection::vec(chunk, 1..4),
        place,
        any::<bool>(),
        any::<bool>(),
        prop::option::of(any::<bool>()),
        elasticity,
    )
        .prop_map(|(mut chunks, place, is_exclusive, is_grouped, may_span, elasticity)| {
            if elasticity.is_some() {
                chunks.truncate(1);
            }
            // A packed gang has no further room on its node.
            let is_packed = place == Place::Pack;
            Shape {
                chunks,
                place,
                is_exclusive,
                group_by: is_grouped.then(|| "rack".into()),
                may_span,
                elasticity: elasticity.filter(|_| !is_packed),
                min_processes: 1,
                ..Shape::default()
            }
        })
}

/// Shape of a job that works with legal sizes only, and the most processes of it.
fn elastic() -> impl Strategy<Value = (Shape, u64)> {
    let sizes = prop_oneof![
        1 => Just(LegalSizes::Any),
        2 => Just(LegalSizes::PowerOfTwo),
        1 => Just(LegalSizes::Even),
        1 => Just(LegalSizes::Odd),
        1 => Just(LegalSizes::MultipleOf(3)),
        1 => Just(LegalSizes::Listed(vec![1, 4, 5])),
    ];
    (sizes, 1..5_u64, 1..10_u64).prop_filter_map("no legal size", |(legal_sizes, min, most)| {
        let shape = Shape {
            elasticity: Some(Elasticity::Malleable),
            min_processes: min,
            legal_sizes,
            ..Shape::default()
        };
        shape.problem(Some(most)).is_none().then_some((shape, most))
    })
}

/// Arrival of a gang in one of `classes`.
fn gang(classes: Vec<usize>) -> BoxedStrategy<Step> {
    (0..USERS.len(), prop::sample::select(classes), shape())
        .prop_map(|(user, class, shape)| Step::Gang { user, class, shape })
        .boxed()
}

/// Arrival of an elastic job of fair-share work.
fn elastic_job() -> BoxedStrategy<Step> {
    (0..USERS.len(), 1..3_usize, 1..5_u64, elastic())
        .prop_map(|(user, class, order, (shape, most))| Step::Elastic {
            user,
            class,
            order,
            shape,
            most,
        })
        .boxed()
}

/// Steps with these arrivals.
fn step(arrivals: Vec<BoxedStrategy<Step>>) -> impl Strategy<Value = Step> {
    let node = 0..NODES.len();
    prop_oneof![
        9 => prop::strategy::Union::new(arrivals),
        5 => (0..USERS.len(), 0..CLASSES.len(), 1..5_u64)
            .prop_map(|(user, class, order)| Step::Plain { user, class, order }),
        4 => any::<usize>().prop_map(Step::Complete),
        1 => any::<usize>().prop_map(Step::Exit),
        3 => any::<usize>().prop_map(Step::Initialize),
        1 => (any::<usize>(), 1..5_u64).prop_map(|(job, wish)| Step::Wish { job, wish }),
        1 => node.clone().prop_map(Step::Die),
        1 => node.clone().prop_map(Step::Return),
        1 => node.clone().prop_map(Step::VaryOff),
        1 => node.prop_map(Step::VaryOn),
        1 => any::<bool>().prop_map(Step::Confirm),
        1 => Just(Step::Resume),
        9 => Just(Step::Cycle),
    ]
}

/// The whole state, except heartbeats of an interval that is not over yet.
fn state(scheduler: &Scheduler) -> SchedulerState {
    let mut state = scheduler.state();
    state.nodes.iter_mut().for_each(|node| node.has_reported = false);
    state
}

/// A gang as its owner remembers it.
struct Owned {
    shape: Shape,
    /// Number of processes it may have; more than one only while it changes.
    sizes: BTreeSet<u64>,
    /// True once a process exited, or was lost: from then on fewer are right.
    is_reduced: bool,
}

struct History {
    cluster: Cluster,
    jobs: Vec<JobId>,
    gangs: BTreeMap<JobId, Owned>,
    /// Qshare-milliseconds that the gangs of each user in a class deserved up to now.
    earned: BTreeMap<(ClassIx, Name), u64>,
    next: u64,
}

impl History {
    fn new(has_sets: bool) -> History {
        let mut cluster = Cluster::new(world(has_sets));
        cluster.diary = Some(Diary::of(&cluster.scheduler));
        for (name, gib, ..) in NODES {
            cluster.nodes(&format!("{name}={gib}"));
        }
        let (jobs, gangs, earned) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        History { cluster, jobs, gangs, earned, next: 1 }
    }

    fn play(has_sets: bool, steps: &[Step]) {
        let mut history = History::new(has_sets);
        for step in steps {
            history.apply(step);
        }
        history.cycle();
        history.replay();
    }

    /// Computes all cycles again, and then the second half from the state in the middle.
    fn replay(&self) {
        let diary = self.cluster.diary.as_ref().unwrap();
        for skipped in [0, diary.cycles.len().div_euclid(2)] {
            let replay = diary.replay(skipped).unwrap_or_else(|error| panic!("{skipped}: {error}"));
            assert_same(&replay.scheduler().view(), &self.cluster.view);
            assert_eq!(state(replay.scheduler()), state(&self.cluster.scheduler));
        }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Gang { user, class, shape } => self.gang(*user, CLASSES[*class], shape.clone()),
            Step::Elastic { user, class, order, shape, most } => {
                let mut spec = job(self.number(), USERS[*user], CLASSES[*class], *order);
                spec.facts.limit = ProcessLimit::AtMost(*most);
                spec.shape = Some(Arc::new(shape.clone()));
                let is_legal = |size: &u64| {
                    shape.min_processes.max(1) <= *size && shape.legal_sizes.allow(*size)
                };
                let sizes = (1..=*most).filter(is_legal).collect();
                let owned = Owned { shape: shape.clone(), sizes, is_reduced: false };
                self.gangs.insert(spec.id, owned);
                self.jobs.push(spec.id);
                self.cluster.arrive(spec);
            }
            Step::Plain { user, class, order } => {
                let id = self.number();
                let (user, class) = (USERS[*user], CLASSES[*class]);
                let spec = if matches!(class, "tight" | "plain") {
                    single(id, user, class, *order, JobKind::Service)
                } else {
                    job(id, user, class, *order)
                };
                self.jobs.push(spec.id);
                self.cluster.arrive(spec);
            }
            Step::Complete(job) => {
                if let Some(ix) = job.checked_rem(self.jobs.len()) {
                    let job = self.jobs.remove(ix);
                    self.gangs.remove(&job);
                    self.cluster.complete(job.0);
                }
            }
            Step::Exit(job) => self.exit(*job),
            Step::Initialize(job) => {
                if let Some(job) = self.pick(*job) {
                    self.cluster.invest(job.0, 1000);
                }
            }
            Step::Wish { job, wish } => self.wish(*job, *wish),
            Step::Die(node) => {
                self.note_loss(NODES[*node].0);
                self.cluster.die(NODES[*node].0);
            }
            Step::Return(node) => {
                self.cluster.nodes(&format!("{}={}", NODES[*node].0, NODES[*node].1));
            }
            Step::VaryOff(node) => {
                let nodes = vec![NODES[*node].0.to_owned()];
                self.cluster.command(AdminCommand::VaryOff { nodes, reason: "a test".to_owned() });
            }
            Step::VaryOn(node) => {
                let nodes = vec![NODES[*node].0.to_owned()];
                self.cluster.command(AdminCommand::VaryOn { nodes });
            }
            Step::Confirm(confirms) => self.cluster.confirms_exits = *confirms,
            Step::Resume => self.cluster.resume(),
            Step::Cycle => self.cycle(),
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn pick(&self, job: usize) -> Option<JobId> {
        job.checked_rem(self.jobs.len()).map(|ix| self.jobs[ix])
    }

    fn gang(&mut self, user: usize, class: &str, shape: Shape) {
        let gib = shape.chunks.iter().map(|chunk| chunk.memory.0 >> 10).max().unwrap();
        let mut spec = job(self.number(), USERS[user], class, gib);
        spec.facts.remaining = shape.processes();
        spec.facts.limit = ProcessLimit::AtMost(shape.processes());
        spec.shape = Some(Arc::new(shape.clone()));
        let most = shape.processes();
        let sizes = match shape.elasticity {
            Some(Elasticity::Moldable) => (1..=most).collect(),
            _ => BTreeSet::from([most]),
        };
        self.gangs.insert(spec.id, Owned { shape, sizes, is_reduced: false });
        self.jobs.push(spec.id);
        self.cluster.arrive(spec);
    }

    /// A process of a job ends by itself.
    fn exit(&mut self, job: usize) {
        let Some(id) = self.pick(job) else { return };
        let view = self.cluster.scheduler.view();
        let Some(job) = view.jobs.iter().find(|job| job.id == id) else { return };
        if let Some(share) = job.shares.iter().next() {
            let share = share.id;
            if let Some(owned) = self.gangs.get_mut(&id) {
                owned.is_reduced = true;
            }
            self.cluster.record(SchedulerEvent::ShareExited { job: id, share });
        }
    }

    fn wish(&mut self, job: usize, wish: u64) {
        let Some(id) = self.pick(job) else { return };
        let Some(owned) = self.gangs.get_mut(&id) else { return };
        if owned.shape.elasticity == Some(Elasticity::Evolving) {
            owned.sizes.insert(wish);
            let view = self.cluster.scheduler.view();
            let mut facts = view.jobs.iter().find(|job| job.id == id).unwrap().facts;
            facts.limit = ProcessLimit::AtMost(wish);
            self.cluster.record(SchedulerEvent::JobChanged { job: id, facts });
        }
    }

    fn note_loss(&mut self, node: &str) {
        let view = self.cluster.scheduler.view();
        for job in view.jobs.iter() {
            let is_hit = job.shares.iter().any(|share| share.node == node);
            if let Some(owned) = self.gangs.get_mut(&job.id).filter(|_| is_hit) {
                owned.is_reduced = true;
            }
        }
    }

    fn cycle(&mut self) {
        self.cluster.cycle();
        let planned = self.cluster.view.planned.as_deref().unwrap();
        assert_eq!(plan(&planned.snapshot), *planned.schedule, "planning twice differs");
        for (id, owned) in &self.gangs {
            self.check(*id, owned);
        }
        self.check_turns();
    }

    /// A gang that takes from its peers has earned it: the fair shares of all cycles up to now, and
    /// those of the time that it will run, cover what it will use. Nothing that was spent meanwhile
    /// is taken off. A turn that was promised before has come, even if it deserves less by now.
    fn check_turns(&mut self) {
        let planned = self.cluster.view.planned.as_deref().unwrap();
        let (snapshot, schedule) = (&planned.snapshot, &planned.schedule);
        let period = snapshot.topology.settings.publication_period;
        let takes = |id: JobId| {
            let mut taken = schedule.preemptions.iter();
            taken.any(|one| one.beneficiary == Some(id) && one.rule == VictimRule::Turn)
        };
        let mut earned = self.earned.clone();
        for (job, report) in snapshot.jobs.iter().zip(&schedule.report.jobs) {
            if !job.shape.as_ref().is_some_and(|shape| shape.is_gang()) {
                continue;
            }
            let deserves = report.pure_fair_share.0;
            let account = (job.class, snapshot.users[job.user].clone());
            let saved = self.earned.get(&account).copied().unwrap_or(0);
            // The fair share of a job is rounded down, that of all its user's gangs is not.
            *earned.entry(account).or_default() += (deserves + 1) * period;
            let spaces = schedule.promises.iter().filter(|promise| promise.job == job.id);
            let asks: u64 = spaces.map(|promise| promise.order.qshares().0).sum();
            let was_promised = snapshot.promises.iter().any(|promise| promise.job == job.id);
            if takes(job.id) && !was_promised && deserves < asks {
                // A gang that grows pays until the end of its turn.
                let left = |until: u64| until.saturating_sub(snapshot.cycle) * period;
                let time = job.gang.turn.map_or(LENGTH, |turn| left(turn.until));
                let has = saved + deserves * time;
                assert!(asks * time <= has, "gang {}: {}", job.id, self.cluster.picture());
            }
        }
        self.earned = earned;
    }

    /// Checks a gang from what its owner sees: its processes, their nodes and ranks.
    fn check(&self, id: JobId, owned: &Owned) {
        let job = self.cluster.job(id.0);
        let held = || job.shares.iter().filter(|share| share.state == SharePhase::Held);
        let count = u64::try_from(held().count()).unwrap();
        let picture = || format!("gang {id}: {:?}\n{}", owned.shape, self.cluster.picture());
        if count == 0 || owned.is_reduced {
            return;
        }
        assert!(owned.sizes.contains(&count), "{count} processes: {}", picture());
        if !owned.shape.is_gang() {
            return;
        }
        let ranks: BTreeSet<Option<u32>> = held().map(|share| share.rank).collect();
        let expected: BTreeSet<Option<u32>> = (0..).map(Some).take(ranks.len()).collect();
        assert_eq!(ranks, expected, "{}", picture());
        let nodes: BTreeSet<&str> = held().map(|share| share.node.as_str()).collect();
        let spread = u64::try_from(nodes.len()).unwrap();
        let expected = match owned.shape.place {
            Place::Scatter => count,
            Place::Pack => 1,
            Place::Free => spread,
        };
        assert_eq!(spread, expected, "{}", picture());
        for share in held() {
            let rank = u64::from(share.rank.unwrap());
            let chunk = &owned.shape.chunks[owned.shape.chunk_of(rank).unwrap_or(0)];
            let (.., color) = NODES.iter().find(|node| node.0 == share.node.as_str()).unwrap();
            let asked = chunk.tags.iter().all(|(_, value)| value == *color);
            assert!(asked, "rank {rank} on {}: {}", share.node, picture());
        }
        if owned.shape.is_exclusive {
            for other in self.cluster.view.jobs.iter().filter(|other| other.id != id) {
                let mut there = other.shares.iter();
                let is_apart = there.all(|share| !nodes.contains(share.node.as_str()));
                assert!(is_apart, "job {} is on its nodes: {}", other.id, picture());
            }
        }
    }
}

/// The schedule says from which size to which size a job changes, until the change is over.
#[test]
fn a_change_of_size_is_told_until_it_is_over() {
    let mut cluster = Cluster::new(world(false));
    cluster.nodes("a1=4");
    let mut spec = job(1, "ann", "normal", 1);
    spec.facts.limit = ProcessLimit::AtMost(2);
    spec.shape = Some(Arc::new(Shape {
        elasticity: Some(Elasticity::Malleable),
        min_processes: 1,
        legal_sizes: LegalSizes::PowerOfTwo,
        ..Shape::default()
    }));
    let told = |cluster: &Cluster| {
        let update = update_from(&cluster.view);
        update.jobs[0].resize.map(|(from, to)| (from.0, to.0))
    };
    cluster.arrive(spec.clone());
    cluster.cycle();
    assert_eq!((cluster.held(1), told(&cluster)), (2, None), "it begins");
    let resized = |most| SchedulerEvent::JobChanged {
        job: JobId(1),
        facts: JobFacts { limit: ProcessLimit::AtMost(most), ..spec.facts },
    };
    cluster.invest(1, 1000);
    cluster.record(resized(4));
    cluster.cycle();
    assert_eq!((cluster.held(1), told(&cluster)), (4, Some((2, 4))), "it grows");
    cluster.invest(1, 1000);
    cluster.cycle();
    assert_eq!(told(&cluster), None, "it has grown");
    cluster.confirms_exits = false;
    cluster.record(resized(1));
    cluster.cycle();
    assert_eq!((cluster.held(1), told(&cluster)), (1, Some((4, 1))), "it shrinks");
}

/// An elastic job that began a step keeps its older processes in that cycle: the step without one of
/// them would be no legal size.
#[test]
fn a_job_that_steps_up_keeps_its_older_processes() {
    let elastic = |user, order, legal_sizes, most| Step::Elastic {
        user,
        class: 1,
        order,
        shape: Shape {
            elasticity: Some(Elasticity::Malleable),
            min_processes: 1,
            legal_sizes,
            ..Shape::default()
        },
        most,
    };
    let chunk = |count, gib, color: &[(&str, &str)]| Chunk {
        count,
        memory: Mebibytes::from_gib(gib),
        tags: Tags::of(color.iter().copied()),
    };
    let gang = |place, chunks| Step::Gang {
        user: 0,
        class: 0,
        shape: Shape {
            chunks,
            place,
            group_by: Some("rack".into()),
            min_processes: 1,
            ..Shape::default()
        },
    };
    let plain = |user, class, order| Step::Plain { user, class, order };
    let colored =
        vec![chunk(1, 2, &[("color", "red")]), chunk(1, 3, &[]), chunk(2, 1, &[("color", "blue")])];
    History::play(
        false,
        &[
            elastic(1, 2, LegalSizes::Any, 2),
            Step::VaryOff(0),
            elastic(2, 1, LegalSizes::Odd, 7),
            elastic(1, 3, LegalSizes::Odd, 5),
            gang(Place::Scatter, vec![chunk(1, 2, &[])]),
            Step::Cycle,
            plain(0, 2, 2),
            Step::Complete(13_712_205_516_239_902_538),
            Step::Initialize(2_018_917_864_572_929_946),
            Step::Die(5),
            plain(0, 2, 1),
            Step::Complete(15_315_677_152_845_924_005),
            Step::Cycle,
            gang(Place::Free, colored),
            plain(0, 0, 2),
            plain(0, 3, 3),
            Step::Complete(7_838_083_731_101_686_590),
            plain(0, 3, 4),
            Step::Complete(1_629_989_126_264_819_446),
            plain(0, 1, 4),
            Step::Cycle,
            Step::Cycle,
            Step::Exit(695_900_867_961_425_593),
            Step::Cycle,
            plain(1, 1, 1),
        ],
    );
}

/// An elastic job of fair-share work, with at least so many processes and at most so many.
fn elastic_of(
    user: usize,
    class: usize,
    order: u64,
    sizes: LegalSizes,
    least: u64,
    most: u64,
) -> Step {
    let shape = Shape {
        elasticity: Some(Elasticity::Malleable),
        min_processes: least,
        legal_sizes: sizes,
        ..Shape::default()
    };
    Step::Elastic { user, class, order, shape, most }
}

/// Elastic jobs return promised space that makes no whole step. A service that arrived meanwhile starts
/// there in the same cycle.
#[test]
fn a_service_starts_in_space_that_makes_no_step() {
    let evolving = Shape {
        is_exclusive: true,
        elasticity: Some(Elasticity::Evolving),
        ..shape_of(Place::Free, vec![chunk(1, 1, "red")], false)
    };
    let mixed = vec![chunk(1, 3, "red"), chunk(2, 1, ""), chunk(3, 4, "")];
    History::play(
        false,
        &[
            Step::Plain { user: 0, class: 2, order: 3 },
            Step::Gang { user: 0, class: 0, shape: evolving },
            Step::Gang { user: 0, class: 0, shape: shape_of(Place::Free, mixed, false) },
            Step::Cycle,
            elastic_of(2, 1, 2, LegalSizes::Any, 3, 5),
            elastic_of(2, 1, 2, LegalSizes::Even, 1, 4),
            elastic_of(0, 1, 4, LegalSizes::Odd, 1, 3),
            Step::Cycle,
            elastic_of(0, 1, 2, LegalSizes::Any, 3, 3),
            Step::Wish { job: 6_304_419_591_749_858_615, wish: 2 },
            Step::Plain { user: 1, class: 0, order: 2 },
        ],
    );
}

/// A step of four waits for processes to exit, and another job returns space. The step becomes five.
#[test]
fn a_step_that_waits_grows_into_free_space() {
    let small = |chunks, is_grouped| shape_of(Place::Scatter, chunks, is_grouped);
    let gang = |shape| Step::Gang { user: 0, class: 0, shape };
    let blues = shape_of(Place::Free, vec![chunk(2, 4, "blue")], true);
    let whole = Shape { is_exclusive: true, ..small(vec![chunk(2, 3, "blue")], false) };
    History::play(
        false,
        &[
            Step::VaryOff(6),
            gang(small(vec![chunk(1, 1, "")], false)),
            Step::Die(0),
            Step::Plain { user: 0, class: 2, order: 4 },
            Step::Confirm(false),
            Step::Complete(2_120_455_804_495_848_150),
            Step::Cycle,
            gang(small(vec![chunk(1, 1, "")], false)),
            gang(small(vec![chunk(1, 2, "red"), chunk(1, 1, "")], true)),
            elastic_of(0, 2, 1, LegalSizes::Listed(vec![1, 4, 5]), 2, 5),
            Step::Complete(16_742_461_810_127_404_597),
            gang(blues),
            gang(whole),
            elastic_of(0, 2, 3, LegalSizes::PowerOfTwo, 1, 4),
            Step::Cycle,
            elastic_of(1, 1, 3, LegalSizes::Odd, 2, 8),
        ],
    );
}

/// A gang claims nodes that an older single request will probably use, as that could go elsewhere. It
/// stays there, so a younger gang leaves what both need.
#[test]
fn a_claim_and_an_older_request_share_a_node() {
    let plain = |user, class, order| Step::Plain { user, class, order };
    History::play(
        false,
        &[
            scattered(0, vec![chunk(3, 1, "blue")], false, true),
            scattered(0, vec![chunk(1, 1, "")], false, false),
            Step::Complete(0),
            Step::Exit(0),
            Step::VaryOff(3),
            scattered(0, vec![chunk(2, 3, "blue")], true, false),
            scattered(0, vec![chunk(1, 1, "red")], true, true),
            plain(0, 0, 2),
            scattered(0, vec![chunk(1, 4, "blue")], false, true),
            plain(0, 0, 3),
            scattered(0, vec![chunk(1, 1, "red")], false, false),
            Step::Cycle,
            plain(1, 0, 4),
            scattered(0, vec![chunk(1, 1, "")], false, false),
            scattered(1, vec![chunk(1, 1, ""), chunk(2, 4, "blue")], false, false),
            plain(1, 3, 2),
            scattered(1, vec![chunk(3, 1, "")], false, false),
            scattered(0, vec![chunk(1, 1, "red")], false, false),
        ],
    );
}

/// A chunk of this many processes, each of this many GB, on nodes of a colour.
pub fn chunk(count: u64, gib: u64, color: &str) -> Chunk {
    let tags = if color.is_empty() { Tags::default() } else { Tags::of([("color", color)]) };
    Chunk { count, memory: Mebibytes::from_gib(gib), tags }
}

/// A scattered gang of fixed-share work.
fn scattered(user: usize, chunks: Vec<Chunk>, is_exclusive: bool, is_grouped: bool) -> Step {
    let shape = Shape { is_exclusive, ..shape_of(Place::Scatter, chunks, is_grouped) };
    Step::Gang { user, class: 0, shape }
}

/// The shape of a gang, of nodes in the same rack if it is grouped.
pub fn shape_of(place: Place, chunks: Vec<Chunk>, is_grouped: bool) -> Shape {
    let group_by = is_grouped.then(|| "rack".into());
    Shape { chunks, place, group_by, min_processes: 1, ..Shape::default() }
}

/// Chunks of a gang share a node, so the gang claims as much as they need there together.
#[test]
fn claims_of_chunks_that_share_a_node_are_kept() {
    let chunks = vec![chunk(2, 2, "blue"), chunk(3, 2, "blue")];
    History::play(
        false,
        &[
            scattered(0, vec![chunk(3, 1, "")], false, true),
            Step::Die(0),
            Step::Gang { user: 0, class: 0, shape: shape_of(Place::Free, chunks, true) },
            scattered(0, vec![chunk(2, 3, "blue")], false, false),
            Step::Cycle,
        ],
    );
}

/// A service without an end may go to another node than those that a gang claims.
#[test]
fn a_service_in_the_way_of_a_claim_goes_elsewhere() {
    History::play(
        false,
        &[
            scattered(0, vec![chunk(1, 1, "")], false, true),
            Step::VaryOff(7),
            Step::VaryOff(5),
            Step::Plain { user: 0, class: 3, order: 1 },
            scattered(0, vec![chunk(1, 1, "")], true, false),
            Step::VaryOff(8),
            scattered(0, vec![chunk(2, 3, "blue")], true, false),
            scattered(0, vec![chunk(1, 1, "blue")], true, false),
            scattered(0, vec![chunk(1, 1, "")], false, false),
        ],
    );
}

/// Fair-share work is on two nodes, and its loss costs less on the node that a gang claims. The older
/// service leaves that node to the gang.
#[test]
fn an_older_service_takes_space_that_no_gang_claims() {
    for (has_gang, node) in [(true, "a1"), (false, "b3")] {
        let mut cluster = Cluster::new(world(false));
        let fixed = |id, kind| single(id, "cid", "plain", 3, kind);
        cluster.nodes("b2=4").arrive(fixed(1, JobKind::Job)).cycle();
        for (id, name, work) in [(2, "a1", 200_000), (3, "b3", 100_000)] {
            let mut fair = job(id, "bob", "low", 4);
            fair.facts.limit = ProcessLimit::AtMost(1);
            cluster.nodes(&format!("{name}=4")).arrive(fair).cycle();
            cluster.invest(id, work);
            assert_eq!(cluster.nodes_of(id), [name]);
        }
        cluster.arrive(fixed(4, JobKind::Service));
        if has_gang {
            let shape = shape_of(Place::Scatter, vec![chunk(2, 2, "blue")], false);
            cluster.arrive(JobSpec { shape: Some(Arc::new(shape)), ..job(5, "ann", "tight", 2) });
        }
        cluster.confirms_exits = false;
        cluster.cycle().confirm_exits();
        cluster.cycle();
        assert_eq!(cluster.nodes_of(4), [node], "{}", cluster.picture());
    }
}

/// A job that needs a whole node moves no process of a gang away from it.
#[test]
fn processes_of_a_gang_are_not_moved() {
    let small = |place, count, gib| shape_of(place, vec![chunk(count, gib, "")], false);
    let fair = |class, shape| Step::Gang { user: 0, class, shape };
    let plain = |user, class, order| Step::Plain { user, class, order };
    let whole = Shape { is_exclusive: true, ..small(Place::Scatter, 1, 1) };
    let mut steps = vec![
        fair(1, small(Place::Scatter, 1, 2)),
        Step::Cycle,
        plain(0, 3, 2),
        fair(1, small(Place::Scatter, 1, 1)),
        plain(0, 2, 3),
        scattered(0, vec![chunk(3, 1, "blue"), chunk(2, 1, "")], true, false),
        plain(1, 3, 2),
        fair(2, small(Place::Pack, 3, 1)),
        scattered(0, vec![chunk(1, 1, "")], false, false),
        fair(1, whole),
        plain(0, 2, 3),
        // Of ten jobs, the third: a node has space for two.
        Step::Complete(2),
    ];
    steps.resize_with(steps.len() + 5, || Step::Cycle);
    History::play(false, &steps);
}

/// A gang takes its turn from a job, which then takes nothing from its peers in that cycle.
#[test]
fn a_job_that_gave_to_a_turn_takes_nothing_from_its_peers() {
    let pair = shape_of(Place::Free, vec![chunk(2, 2, "")], false);
    let four = shape_of(Place::Free, vec![chunk(2, 3, ""), chunk(2, 4, "")], false);
    let whole = shape_of(Place::Scatter, vec![chunk(1, 1, "red")], true);
    History::play(
        false,
        &[
            Step::Gang { user: 1, class: 1, shape: pair },
            Step::Plain { user: 0, class: 1, order: 1 },
            Step::Plain { user: 0, class: 1, order: 1 },
            Step::Cycle,
            Step::Gang { user: 0, class: 0, shape: four },
            Step::Cycle,
            Step::VaryOff(2),
            Step::Plain { user: 0, class: 2, order: 1 },
            Step::Gang { user: 1, class: 1, shape: Shape { is_exclusive: true, ..whole } },
            // Of six jobs, the second.
            Step::Initialize(1),
            Step::Cycle,
            Step::Plain { user: 0, class: 3, order: 4 },
            Step::Return(0),
        ],
    );
}

/// A node of a gang dies, another gang is promised space, and the node returns. However the requests
/// before it are counted, the gang keeps its promises.
#[test]
fn promises_to_a_gang_hold_while_nodes_come_and_go() {
    for user in 0..2 {
        let chunks = vec![chunk(3, 2, ""), chunk(1, 3, ""), chunk(2, 3, "red")];
        History::play(
            false,
            &[
                scattered(user, vec![chunk(2, 1, ""), chunk(3, 3, "red")], false, false),
                Step::Cycle,
                Step::Die(0),
                scattered(user, vec![chunk(1, 1, "blue")], true, true),
                scattered(1, chunks, false, false),
                Step::Plain { user: 0, class: 3, order: 4 },
                Step::Cycle,
                scattered(user, vec![chunk(1, 2, "")], false, false),
                Step::Confirm(false),
                Step::VaryOff(5),
                Step::Return(0),
            ],
        );
    }
}

/// An older request may go to a node that a gang uses in part.
#[test]
fn a_request_in_the_way_of_a_gang_may_share_a_node_with_it() {
    let chunks = vec![chunk(2, 2, "blue"), chunk(1, 1, "red"), chunk(2, 4, "")];
    History::play(
        false,
        &[
            Step::Plain { user: 0, class: 3, order: 1 },
            Step::VaryOff(0),
            scattered(0, vec![chunk(1, 1, "blue")], true, false),
            Step::Plain { user: 0, class: 3, order: 3 },
            Step::Cycle,
            Step::Die(6),
            Step::Plain { user: 0, class: 0, order: 2 },
            scattered(0, chunks, false, false),
        ],
    );
}

/// A gang takes space beside space that is promised to a single job. The job waits for that space, though
/// another node is free by now: else the gang would have taken too much.
#[test]
fn a_promise_stays_beside_what_a_gang_took() {
    let plain = |user, class, order| Step::Plain { user, class, order };
    History::play(
        false,
        &[
            plain(2, 2, 1),
            scattered(0, vec![chunk(1, 2, "")], false, true),
            plain(1, 2, 1),
            Step::Cycle,
            Step::Confirm(false),
            plain(0, 3, 1),
            Step::Cycle,
            // Of four jobs, the gang.
            Step::Complete(1),
            scattered(0, vec![chunk(1, 1, "")], false, false),
            scattered(0, vec![chunk(1, 2, "red")], false, false),
            plain(0, 2, 3),
            Step::Resume,
        ],
    );
}

/// A gang that runs unpaid is taken for another job. It does not begin again in the same cycle.
#[test]
fn a_gang_that_goes_does_not_begin_in_the_same_cycle() {
    let shape = shape_of(Place::Scatter, vec![chunk(1, 1, "")], false);
    let evolving = Shape { elasticity: Some(Elasticity::Evolving), ..shape.clone() };
    let whole = Shape { is_exclusive: true, ..shape.clone() };
    let grouped = Shape { group_by: Some("rack".into()), ..shape };
    let low = |shape| Step::Gang { user: 0, class: 2, shape };
    History::play(
        false,
        &[
            low(evolving),
            scattered(0, vec![chunk(1, 2, "")], false, false),
            scattered(0, vec![chunk(1, 1, "red")], false, true),
            low(whole),
            scattered(0, vec![chunk(1, 1, "")], false, true),
            scattered(0, vec![chunk(3, 3, "")], false, true),
            low(grouped),
            Step::Cycle,
            scattered(0, vec![chunk(1, 1, "")], true, false),
            Step::Plain { user: 0, class: 1, order: 2 },
            // Of nine jobs, the first.
            Step::Wish { job: 0, wish: 3 },
        ],
    );
}

/// A gang that began has lost its last process, and its owner asks for more. It keeps no nodes from
/// younger gangs.
#[test]
fn a_gang_that_began_claims_nothing() {
    let one = || scattered(0, vec![chunk(1, 1, "")], false, false);
    let shape = shape_of(Place::Scatter, vec![chunk(1, 3, "red")], false);
    let evolving = Shape { elasticity: Some(Elasticity::Evolving), ..shape };
    History::play(
        false,
        &[
            scattered(0, vec![chunk(1, 1, "red")], true, false),
            Step::Die(0),
            Step::Gang { user: 0, class: 0, shape: evolving },
            one(),
            one(),
            one(),
            Step::Cycle,
            Step::Gang {
                user: 0,
                class: 0,
                shape: shape_of(Place::Free, vec![chunk(2, 3, "red")], false),
            },
            Step::Complete(2),
            Step::Wish { job: 1, wish: 3 },
            one(),
            one(),
            Step::Complete(2),
            Step::Exit(1),
        ],
    );
}

/// A fair-share job of a user and class with processes of so many GB that works with legal sizes only.
fn resizable(
    (user, class, order): (usize, usize, u64),
    legal_sizes: LegalSizes,
    sizes: RangeInclusive<u64>,
) -> Step {
    let (min_processes, most) = sizes.into_inner();
    let elasticity = Some(Elasticity::Malleable);
    let shape = Shape { elasticity, min_processes, legal_sizes, ..Shape::default() };
    Step::Elastic { user, class, order, shape, most }
}

/// All space to come is promised, some of it to a job of lower priority. A job that is owed its first
/// process gets it there.
#[test]
fn a_first_process_goes_before_promises_to_lower_priorities() {
    let plain = |class, order| Step::Plain { user: 0, class, order };
    let packed = shape_of(Place::Pack, vec![chunk(3, 3, "")], false);
    History::play(
        false,
        &[
            Step::Confirm(false),
            plain(2, 1),
            resizable((1, 1, 2), LegalSizes::PowerOfTwo, 3..=4),
            Step::Cycle,
            Step::Gang { user: 0, class: 0, shape: packed },
            resizable((0, 1, 2), LegalSizes::Odd, 1..=5),
            resizable((0, 1, 4), LegalSizes::MultipleOf(3), 1..=3),
            // Of five jobs, the second.
            Step::Initialize(1),
            resizable((0, 1, 2), LegalSizes::PowerOfTwo, 1..=4),
            plain(2, 1),
            Step::Cycle,
            resizable((0, 1, 3), LegalSizes::Any, 1..=1),
            plain(0, 4),
            Step::Cycle,
            Step::Cycle,
            scattered(0, vec![chunk(1, 1, "blue")], false, false),
            Step::Cycle,
        ],
    );
}

/// A job has four processes, all that it should have, and is promised a fifth. A peer that has as much would bring
/// it down to a single process.
#[test]
fn a_job_that_is_promised_its_next_size_gives_nothing() {
    let listed = || LegalSizes::Listed(vec![1, 4, 5]);
    let racks = vec![chunk(2, 3, ""), chunk(3, 3, "")];
    let rack = Shape { may_span: Some(false), ..shape_of(Place::Scatter, racks, true) };
    History::play(
        false,
        &[
            resizable((0, 2, 1), LegalSizes::Any, 1..=1),
            Step::Plain { user: 0, class: 0, order: 2 },
            scattered(0, vec![chunk(1, 1, "")], false, false),
            // Of three jobs, the second.
            Step::Complete(1),
            resizable((2, 1, 4), listed(), 1..=5),
            resizable((0, 2, 1), LegalSizes::Any, 1..=1),
            Step::Gang { user: 0, class: 0, shape: rack },
            Step::Cycle,
            Step::Exit(2),
            Step::Plain { user: 0, class: 1, order: 1 },
            Step::Cycle,
            Step::Confirm(false),
            Step::Initialize(2),
            Step::Cycle,
            resizable((1, 1, 2), listed(), 1..=4),
            resizable((1, 1, 2), LegalSizes::Any, 2..=4),
            Step::Cycle,
        ],
    );
}

/// A step of three processes had to preempt on two nodes, and a fourth process found space. The step uses the
/// space that was made for it.
#[test]
fn a_step_uses_the_space_that_was_made_for_it() {
    let listed = || LegalSizes::Listed(vec![1, 4, 5]);
    History::play(
        false,
        &[
            Step::Plain { user: 0, class: 3, order: 4 },
            Step::Plain { user: 0, class: 0, order: 2 },
            resizable((0, 1, 1), LegalSizes::Odd, 1..=7),
            resizable((0, 1, 4), LegalSizes::MultipleOf(3), 1..=6),
            Step::Cycle,
            resizable((0, 2, 2), LegalSizes::Odd, 1..=1),
            resizable((0, 1, 3), listed(), 2..=4),
            resizable((0, 1, 1), LegalSizes::Any, 1..=4),
            scattered(0, vec![chunk(1, 1, "")], false, false),
            resizable((0, 2, 3), listed(), 1..=1),
            // Of nine jobs.
            Step::Complete(7),
            Step::Cycle,
            resizable((0, 1, 2), LegalSizes::Odd, 2..=5),
            Step::Exit(2),
        ],
    );
}

/// An exclusive gang gives ranks up, and no other job may have their space while it is there. A gang of higher
/// priority takes the rest of it, and the space with it.
#[test]
fn space_of_an_exclusive_gang_goes_with_it() {
    let exclusive = Shape {
        is_exclusive: true,
        elasticity: Some(Elasticity::Evolving),
        ..shape_of(Place::Free, vec![chunk(3, 2, "blue")], false)
    };
    let free = shape_of(Place::Free, vec![chunk(3, 2, "")], false);
    History::play(
        true,
        &[
            Step::Gang { user: 0, class: 1, shape: exclusive },
            Step::Cycle,
            Step::Wish { job: 0, wish: 1 },
            Step::Gang { user: 0, class: 0, shape: free },
        ],
    );
}

/// Fair-share work uses a node of a kind, and another kind has a free node: nothing is taken back.
#[test]
fn a_gang_takes_nothing_back_beside_free_nodes() {
    let mut cluster = Cluster::new(world(false));
    let mut fair = job(1, "bob", "low", 4);
    fair.facts.limit = ProcessLimit::AtMost(1);
    cluster.nodes("a2=4").arrive(fair).cycle();
    let shape = shape_of(Place::Scatter, vec![chunk(2, 4, "red")], false);
    let gang = JobSpec { shape: Some(Arc::new(shape)), ..job(2, "ann", "tight", 4) };
    cluster.nodes("a1=4 b1=4").arrive(gang).cycle();
    assert_eq!(cluster.nodes_of(2), ["a1", "b1"], "{}", cluster.picture());
    assert_eq!(cluster.nodes_of(1), ["a2"]);
}

/// A gang waits behind an older gang, and a single request is expected on the only other nodes. The request
/// goes elsewhere.
#[test]
fn a_gang_behind_another_uses_nodes_on_which_a_request_was_expected() {
    let fair = |order| Step::Plain { user: 0, class: 1, order };
    let pack = shape_of(Place::Pack, vec![chunk(3, 3, "")], false);
    History::play(
        false,
        &[
            scattered(0, vec![chunk(1, 1, "red")], false, false),
            scattered(0, vec![chunk(2, 1, "blue")], true, false),
            fair(4),
            Step::Cycle,
            Step::Gang { user: 0, class: 0, shape: pack },
            Step::Plain { user: 0, class: 0, order: 3 },
            scattered(0, vec![chunk(1, 1, "red")], true, false),
            scattered(0, vec![chunk(1, 1, "")], false, false),
            scattered(0, vec![chunk(2, 1, "red")], true, true),
            // Of eight jobs, the first.
            Step::Complete(0),
            scattered(1, vec![chunk(2, 1, "red")], true, false),
            scattered(0, vec![chunk(1, 1, "red")], false, false),
        ],
    );
}

/// A gang claims part of a node, and an older request was expected beside it. A younger gang drives no request
/// from free space into the claim.
#[test]
fn a_request_does_not_go_from_free_space_into_a_claim() {
    let packed = shape_of(Place::Pack, vec![chunk(2, 3, ""), chunk(1, 2, "red")], false);
    let free = shape_of(Place::Free, vec![chunk(3, 2, "red")], false);
    let fixed = |shape| Step::Gang { user: 0, class: 0, shape };
    History::play(
        false,
        &[
            fixed(packed),
            scattered(0, vec![chunk(2, 1, "blue")], true, false),
            Step::Plain { user: 0, class: 1, order: 1 },
            Step::Cycle,
            Step::Plain { user: 0, class: 3, order: 1 },
            scattered(0, vec![chunk(1, 1, "blue")], false, false),
            scattered(0, vec![chunk(3, 1, "red")], true, false),
            scattered(1, vec![chunk(2, 2, "red")], false, false),
            fixed(free),
            // Of eight jobs, the first.
            Step::Complete(0),
        ],
    );
}

/// A gang keeps its promises. Requests may be counted on nodes like the promised nodes, while other nodes are
/// left.
#[test]
fn promises_to_a_gang_hold_wherever_requests_are_counted() {
    let chunks = vec![chunk(1, 1, ""), chunk(3, 3, "red"), chunk(1, 1, "red")];
    let whole = Shape { is_exclusive: true, ..shape_of(Place::Free, chunks, false) };
    let single = |gib| shape_of(Place::Scatter, vec![chunk(1, gib, "")], false);
    let fair = |shape| Step::Gang { user: 0, class: 1, shape };
    let plain = |class, order| Step::Plain { user: 0, class, order };
    History::play(
        false,
        &[
            Step::Die(2),
            plain(0, 3),
            fair(whole),
            scattered(0, vec![chunk(1, 1, "blue")], true, false),
            Step::Cycle,
            Step::Confirm(false),
            Step::Cycle,
            Step::Die(0),
            fair(single(2)),
            plain(3, 3),
            Step::Cycle,
            fair(single(1)),
            fair(single(1)),
            plain(0, 2),
        ],
    );
}

/// A gang claims a node that is promised to a gang of lower priority: that gang starts there, and goes when the
/// older gang can start.
#[test]
fn a_gang_claims_what_a_lower_gang_was_promised() {
    let plain = |class, order| Step::Plain { user: 0, class, order };
    let whole = |user, color| scattered(user, vec![chunk(1, 1, color)], true, true);
    let gang = |class, chunks| Step::Gang {
        user: 0,
        class,
        shape: shape_of(Place::Scatter, chunks, false),
    };
    let alone =
        Shape { is_exclusive: true, ..shape_of(Place::Scatter, vec![chunk(1, 1, "red")], false) };
    History::play(
        false,
        &[
            whole(1, ""),
            plain(0, 1),
            Step::Die(3),
            Step::Cycle,
            whole(1, "blue"),
            gang(1, vec![chunk(2, 1, "red")]),
            // Of four jobs, the second.
            Step::Complete(1),
            plain(1, 4),
            gang(0, vec![chunk(1, 1, "red"), chunk(2, 1, "red")]),
            Step::Cycle,
            Step::Cycle,
            Step::Cycle,
            Step::Cycle,
            plain(0, 3),
            plain(1, 1),
            gang(2, vec![chunk(1, 1, "")]),
            Step::Cycle,
            Step::VaryOff(2),
            // Of eight jobs.
            Step::Initialize(3),
            Step::Cycle,
            plain(0, 1),
            Step::Cycle,
            Step::Cycle,
            Step::Gang { user: 0, class: 0, shape: alone },
            plain(0, 1),
        ],
    );
}

/// An older request is expected on a node that a gang claims for later. It goes to another node, so the gang
/// keeps as many nodes from younger work as it counted.
#[test]
fn a_request_leaves_the_nodes_that_a_younger_gang_claims() {
    let younger = |is_grouped| Step::Gang {
        user: 0,
        class: 0,
        shape: shape_of(Place::Free, vec![chunk(2, 3, "blue")], is_grouped),
    };
    let plain = |order| Step::Plain { user: 1, class: 3, order };
    let claiming = |reds| scattered(1, vec![chunk(reds, 1, "red"), chunk(3, 3, "")], false, false);
    let first = [chunk(3, 3, "red"), chunk(1, 1, "red")];
    // Without a node for the request elsewhere, and with one.
    for (large, lost, order, reds, is_grouped) in [(2, 5, 4, 1, false), (1, 4, 2, 2, true)] {
        History::play(
            false,
            &[
                scattered(0, first[..large].to_vec(), true, false),
                Step::Die(lost),
                plain(order),
                claiming(reds),
                younger(is_grouped),
                Step::Cycle,
            ],
        );
    }
}

/// An older request cannot leave the nodes that a gang would claim, but another can. So the gang claims its
/// node, and a younger gang does not get it.
#[test]
fn requests_leave_the_nodes_of_a_waiting_gang_one_by_one() {
    let whole = |user, chunks| scattered(user, chunks, true, false);
    History::play(
        false,
        &[
            Step::VaryOff(7),
            whole(0, vec![chunk(1, 1, "")]),
            Step::Plain { user: 2, class: 3, order: 4 },
            Step::Plain { user: 0, class: 0, order: 3 },
            whole(0, vec![chunk(3, 3, ""), chunk(1, 1, "")]),
            scattered(1, vec![chunk(2, 2, ""), chunk(1, 2, "")], false, false),
            whole(1, vec![chunk(1, 1, "blue")]),
        ],
    );
}

/// A gang that can be preempted moves requests off its node. Claims do not concern the gang itself, but the
/// requests do not go onto space that another gang claims.
#[test]
fn requests_that_leave_a_node_do_not_go_onto_claims() {
    let plain = |order| Step::Plain { user: 0, class: 0, order };
    let preemptable = |user, chunk, is_exclusive, is_grouped| Step::Gang {
        user,
        class: 1,
        shape: Shape { is_exclusive, ..shape_of(Place::Scatter, vec![chunk], is_grouped) },
    };
    History::play(
        false,
        &[
            Step::Plain { user: 2, class: 1, order: 4 },
            plain(3),
            Step::Cycle,
            preemptable(0, chunk(1, 1, "blue"), true, false),
            plain(3),
            Step::Cycle,
            scattered(0, vec![chunk(2, 2, "red")], false, true),
            preemptable(0, chunk(1, 1, ""), false, false),
            plain(3),
            scattered(1, vec![chunk(2, 3, "red"), chunk(2, 3, "blue")], true, false),
            scattered(0, vec![chunk(3, 2, "")], false, false),
            plain(2),
            preemptable(1, chunk(1, 1, ""), true, true),
        ],
    );
}

/// Processes are taken back for a step of an elastic job, and then another job returns promised space. The
/// step uses what was taken back for it.
#[test]
fn a_step_uses_space_that_was_taken_back_for_it() {
    let plain = |user, class, order| Step::Plain { user, class, order };
    let chunks = vec![chunk(1, 2, "red"), chunk(3, 4, "")];
    let gang = Shape { may_span: Some(true), ..shape_of(Place::Free, chunks, true) };
    History::play(
        false,
        &[
            elastic_of(2, 1, 1, LegalSizes::PowerOfTwo, 1, 4),
            elastic_of(0, 1, 1, LegalSizes::Any, 1, 2),
            Step::Cycle,
            elastic_of(0, 1, 1, LegalSizes::Any, 1, 4),
            elastic_of(2, 1, 1, LegalSizes::PowerOfTwo, 1, 8),
            plain(0, 2, 1),
            plain(2, 2, 2),
            Step::Die(6),
            Step::Exit(17_078_356_481_855_352_126),
            plain(0, 3, 2),
            plain(1, 3, 2),
            Step::Complete(1_840_825_132_712_329_937),
            elastic_of(1, 2, 3, LegalSizes::Odd, 1, 7),
            Step::Cycle,
            Step::Complete(1_699_023_287_522_077_057),
            elastic_of(0, 1, 3, LegalSizes::PowerOfTwo, 4, 9),
            Step::Cycle,
            elastic_of(2, 2, 1, LegalSizes::PowerOfTwo, 2, 9),
            plain(2, 3, 4),
            plain(0, 2, 3),
            Step::Gang { user: 2, class: 0, shape: gang },
            Step::Cycle,
        ],
    );
}

/// An elastic job between two sizes was promised a process that makes no whole step. The space goes back
/// before processes are taken for other jobs.
#[test]
fn a_promise_that_makes_no_step_goes_back_before_processes_are_taken() {
    let plain = |class, order| Step::Plain { user: 0, class, order };
    let red = vec![chunk(2, 3, "red")];
    let three = shape_of(Place::Scatter, vec![chunk(3, 2, "")], false);
    History::play(
        true,
        &[
            elastic_of(0, 1, 1, LegalSizes::Odd, 1, 3),
            Step::Cycle,
            plain(0, 1),
            plain(3, 1),
            plain(3, 2),
            plain(3, 2),
            elastic_of(0, 2, 3, LegalSizes::Listed(vec![1, 4, 5]), 2, 4),
            plain(2, 4),
            plain(3, 3),
            Step::Cycle,
            elastic_of(1, 2, 2, LegalSizes::PowerOfTwo, 1, 4),
            Step::Cycle,
            Step::Exit(13_817_056_523_818_533_499),
            plain(2, 1),
            Step::Die(6),
            Step::Cycle,
            scattered(0, red, true, false),
            Step::Complete(1_216_078_244_106_286_567),
            plain(1, 1),
            scattered(0, vec![chunk(1, 1, "blue")], true, false),
            Step::Gang { user: 0, class: 0, shape: three },
            Step::Confirm(false),
            Step::Initialize(8_136_161_434_871_379_013),
            Step::VaryOn(0),
        ],
    );
}

/// Three promises of a step wait, and there is free space for one of them. None moves there, where a request
/// of higher priority takes it.
#[test]
fn promises_of_a_step_move_together_or_not_at_all() {
    let fixed = |shape| Step::Gang { user: 0, class: 0, shape };
    let single = |is_exclusive| scattered(0, vec![chunk(1, 1, "")], is_exclusive, false);
    History::play(
        true,
        &[
            Step::Plain { user: 2, class: 2, order: 3 },
            scattered(0, vec![chunk(2, 1, "blue")], false, false),
            fixed(shape_of(Place::Free, vec![chunk(2, 2, "")], false)),
            Step::Cycle,
            elastic_of(0, 2, 2, LegalSizes::Any, 1, 5),
            Step::Resume,
            Step::Die(5),
            Step::Cycle,
            Step::Cycle,
            elastic_of(2, 2, 1, LegalSizes::PowerOfTwo, 3, 4),
            Step::Confirm(false),
            single(false),
            Step::Complete(14_319_815_903_820_209),
            single(true),
            Step::Plain { user: 0, class: 0, order: 1 },
            Step::Initialize(3_434_643_868_012_450_782),
            Step::Plain { user: 0, class: 2, order: 3 },
            Step::Plain { user: 2, class: 2, order: 1 },
            Step::Cycle,
            Step::Exit(516_101_567_143_942_574),
            elastic_of(0, 1, 4, LegalSizes::Odd, 1, 3),
            Step::VaryOff(0),
            Step::Resume,
        ],
    );
}

/// Two older requests fit beside each other on the largest node, and are counted on two smaller ones. A gang
/// needs these, and gets them.
#[test]
fn what_is_counted_on_nodes_of_a_gang_is_counted_elsewhere() {
    let blue = vec![chunk(3, 3, "blue"), chunk(1, 1, "blue")];
    History::play(
        false,
        &[
            scattered(0, vec![chunk(1, 1, "")], false, false),
            scattered(2, blue, true, false),
            Step::Complete(0),
            Step::Plain { user: 0, class: 0, order: 3 },
            Step::Plain { user: 0, class: 0, order: 2 },
            scattered(0, vec![chunk(3, 4, "red")], false, false),
            Step::VaryOff(6),
            Step::VaryOn(0),
        ],
    );
}

/// A gang needs a node. An older request is expected on the free node, so the gang takes back the other.
#[test]
fn a_request_that_finds_no_other_node_stays_and_the_gang_goes_elsewhere() {
    let plain = |class, order| Step::Plain { user: 0, class, order };
    let pair = shape_of(Place::Scatter, vec![chunk(2, 1, "")], true);
    History::play(
        false,
        &[
            plain(0, 2),
            plain(1, 1),
            scattered(0, vec![chunk(1, 1, "")], true, true),
            plain(0, 4),
            plain(0, 2),
            Step::Cycle,
            Step::Complete(1_033_232_189_143_368_833),
            plain(3, 4),
            plain(0, 2),
            plain(0, 1),
            scattered(0, vec![chunk(1, 4, "red")], false, false),
            Step::Gang { user: 1, class: 0, shape: Shape { is_exclusive: true, ..pair } },
            scattered(0, vec![chunk(1, 1, "")], false, false),
            Step::Initialize(0),
        ],
    );
}

/// A request of higher priority takes one of three promises of a step. The job has no use for the rest, so
/// it has nothing that its peers could claim.
#[test]
fn a_step_that_lost_a_promise_counts_no_more() {
    let elastic =
        |class, order, sizes, least, most| elastic_of(0, class, order, sizes, least, most);
    let pack = shape_of(Place::Pack, vec![chunk(3, 3, "")], false);
    History::play(
        false,
        &[
            Step::Confirm(false),
            elastic(2, 1, LegalSizes::Any, 1, 1),
            Step::Gang { user: 0, class: 0, shape: pack },
            Step::Plain { user: 0, class: 1, order: 1 },
            Step::Die(0),
            elastic(2, 1, LegalSizes::Any, 1, 1),
            Step::Cycle,
            Step::VaryOff(2),
            Step::Plain { user: 1, class: 1, order: 3 },
            Step::Resume,
            elastic(1, 3, LegalSizes::Odd, 2, 3),
            Step::Cycle,
            Step::Plain { user: 0, class: 3, order: 4 },
            Step::Die(6),
            Step::Die(1),
            Step::VaryOff(5),
            Step::Cycle,
        ],
    );
}

/// A gang takes back part of a node, and leaves its free part to an older request. The request then does not
/// move into the space that another gang claims.
#[test]
fn a_gang_leaves_free_space_to_the_request_that_is_expected_there() {
    let red = vec![chunk(3, 3, "red"), chunk(1, 1, "blue"), chunk(1, 1, "red")];
    let four = vec![chunk(2, 2, ""), chunk(2, 1, "blue")];
    let seven = vec![chunk(3, 1, ""), chunk(3, 1, "blue"), chunk(1, 4, "blue")];
    History::play(
        false,
        &[
            scattered(0, vec![chunk(1, 1, "")], false, false),
            elastic_of(0, 1, 2, LegalSizes::PowerOfTwo, 1, 4),
            Step::Complete(687_156_587_937_203_900),
            scattered(0, red, true, false),
            Step::Cycle,
            Step::Plain { user: 0, class: 3, order: 2 },
            scattered(1, vec![chunk(1, 1, "blue")], true, false),
            scattered(1, four, false, false),
            Step::Gang { user: 1, class: 0, shape: shape_of(Place::Free, seven, false) },
        ],
    );
}

/// An older request without an end was promised a node of the only rack that could hold a gang, so the gang
/// claims nothing. The request then goes elsewhere.
#[test]
fn a_gang_claims_nothing_where_a_request_without_an_end_was_promised() {
    let fixed = |shape| Step::Gang { user: 0, class: 0, shape };
    let one = |color| scattered(0, vec![chunk(1, 1, color)], false, false);
    let red = shape_of(Place::Scatter, vec![chunk(3, 1, "red")], true);
    let blue = Shape {
        elasticity: Some(Elasticity::Evolving),
        ..shape_of(Place::Free, vec![chunk(3, 3, "blue")], true)
    };
    let whole = Shape { is_exclusive: true, ..shape_of(Place::Free, vec![chunk(2, 3, "")], false) };
    History::play(
        false,
        &[
            scattered(0, vec![chunk(1, 4, "")], false, true),
            scattered(0, vec![chunk(2, 1, "red")], false, false),
            elastic_of(0, 2, 1, LegalSizes::Any, 1, 1),
            Step::Plain { user: 1, class: 1, order: 1 },
            Step::Plain { user: 0, class: 0, order: 4 },
            elastic_of(0, 1, 3, LegalSizes::MultipleOf(3), 1, 6),
            Step::Cycle,
            fixed(Shape { may_span: Some(false), ..red }),
            Step::Confirm(false),
            elastic_of(0, 1, 1, LegalSizes::Any, 1, 1),
            Step::Plain { user: 0, class: 1, order: 1 },
            elastic_of(0, 1, 1, LegalSizes::Any, 1, 1),
            scattered(0, vec![chunk(1, 1, "")], true, true),
            Step::Plain { user: 0, class: 0, order: 4 },
            Step::Cycle,
            Step::Gang { user: 2, class: 0, shape: blue },
            one(""),
            Step::Plain { user: 0, class: 0, order: 2 },
            one(""),
            Step::Cycle,
            Step::Complete(13_589_790_617_788_586_491),
            Step::Exit(9181),
            one(""),
            one("red"),
            one("red"),
            Step::Complete(3_501_024_836_149_331_067),
            Step::Gang { user: 1, class: 0, shape: whole },
        ],
    );
}

/// A gang in its turn and an older single request use the same node. Both have their space, and what is
/// counted for the gang is not lost.
#[test]
fn a_gang_in_its_turn_leaves_space_to_an_older_request() {
    let one = || scattered(0, vec![chunk(1, 1, "")], false, false);
    let fair = |shape| Step::Gang { user: 0, class: 1, shape };
    let four = vec![chunk(1, 1, ""), chunk(1, 1, ""), chunk(2, 1, "")];
    let whole = Shape { is_exclusive: true, ..shape_of(Place::Scatter, four, false) };
    let colored = vec![chunk(1, 1, "red"), chunk(3, 1, "blue")];
    History::play(
        false,
        &[
            fair(whole),
            one(),
            one(),
            Step::Complete(2_366_527_707_039_548_026),
            one(),
            Step::Plain { user: 0, class: 3, order: 3 },
            Step::Complete(13_810_673_928_677_770_025),
            Step::Complete(6_239_031_699_074_520_394),
            fair(shape_of(Place::Free, vec![chunk(2, 2, ""), chunk(1, 1, "blue")], true)),
            Step::Cycle,
            fair(shape_of(Place::Free, vec![chunk(3, 2, "")], true)),
            scattered(0, colored, true, false),
            Step::Plain { user: 0, class: 1, order: 1 },
            Step::Cycle,
            Step::Plain { user: 1, class: 1, order: 1 },
            Step::Plain { user: 0, class: 0, order: 1 },
            Step::VaryOff(0),
            Step::VaryOn(1),
        ],
    );
}

/// A class slows the growth of its jobs by default. A job with legal sizes starts at its size all the same.
#[test]
fn a_job_with_legal_sizes_does_not_ramp_up() {
    let mut slow = world(false);
    for class in &mut slow.classes {
        class.cap_rules = CapRules { initialization_cap: 1, expand_by_doubling: true, ..UNPACED };
    }
    let mut history = History::new(false);
    history.cluster.command(AdminCommand::Reconfigure(Box::new(slow)));
    history.apply(&elastic_of(0, 1, 1, LegalSizes::Any, 4, 6));
    history.cycle();
    assert_eq!(history.cluster.held(2), 6);
    history.replay();
}

/// An older request that is promised space does not move into space that a gang claims.
#[test]
fn a_promised_request_does_not_move_into_a_claim() {
    let one = |gib| scattered(0, vec![chunk(1, gib, "")], false, false);
    History::play(
        false,
        &[
            scattered(0, vec![chunk(1, 1, "red")], true, true),
            Step::Plain { user: 0, class: 1, order: 1 },
            scattered(1, vec![chunk(3, 1, "red")], true, false),
            Step::Plain { user: 0, class: 0, order: 1 },
            Step::Cycle,
            one(1),
            Step::Plain { user: 0, class: 3, order: 1 },
            scattered(0, vec![chunk(2, 3, "red")], false, false),
            one(1),
            Step::Confirm(false),
            Step::Cycle,
            one(1),
            Step::Complete(5_263_281_180_779_668_675),
            one(3),
            Step::Complete(7_793_908_734_946_911_768),
            one(1),
            Step::Exit(63_891_240_899_629_953),
        ],
    );
}

/// A gang was promised a node, and starts on another that came back. An older gang waits for the first, and no
/// younger gang gets it.
#[test]
fn a_promised_node_that_is_not_used_goes_to_an_older_gang() {
    let whole = |user, count| scattered(user, vec![chunk(count, 1, "")], true, false);
    let off = [0, 1, 2, 4, 6, 7, 8].map(Step::VaryOff);
    let first = [
        // Without an end, and too large for the other node.
        Step::Plain { user: 0, class: 3, order: 5 },
        Step::Plain { user: 1, class: 1, order: 4 },
        Step::Cycle,
        Step::Cycle,
        whole(0, 2),
        whole(2, 1),
        Step::Cycle,
    ];
    let then = [Step::Complete(0), Step::VaryOn(2), whole(1, 1), Step::Cycle, Step::Cycle];
    History::play(true, &[&off[..], &first, &then].concat());
}

/// Older requests are expected on a node that a gang would claim, and free space is nowhere else. The gang claims
/// the node beside it.
#[test]
fn a_gang_claims_nodes_beside_expected_requests() {
    let plain = |class, order| Step::Plain { user: 0, class, order };
    let pair = Shape {
        is_exclusive: true,
        elasticity: Some(Elasticity::Evolving),
        ..shape_of(Place::Scatter, vec![chunk(2, 1, "red")], true)
    };
    History::play(
        false,
        &[
            resizable((0, 1, 3), LegalSizes::Odd, 1..=3),
            scattered(0, vec![chunk(1, 1, "")], false, false),
            plain(2, 2),
            Step::Cycle,
            plain(1, 2),
            Step::Cycle,
            plain(1, 2),
            Step::Cycle,
            Step::Cycle,
            plain(0, 2),
            plain(0, 3),
            Step::Confirm(false),
            // Of seven jobs, the first.
            Step::Complete(0),
            Step::Gang { user: 0, class: 0, shape: pair },
            scattered(0, vec![chunk(1, 3, "")], false, false),
        ],
    );
}

/// An exclusive gang uses less of its node than before. The rest is no space that another gang waits for.
#[test]
fn the_rest_of_an_exclusive_node_is_not_waited_for() {
    let evolving = Shape {
        is_exclusive: true,
        elasticity: Some(Elasticity::Evolving),
        ..shape_of(Place::Free, vec![chunk(1, 2, "blue")], true)
    };
    let plain = || Step::Plain { user: 0, class: 0, order: 1 };
    let one = || scattered(0, vec![chunk(1, 1, "")], false, false);
    History::play(
        false,
        &[
            Step::Gang { user: 0, class: 0, shape: evolving },
            plain(),
            plain(),
            Step::Wish { job: 0, wish: 3 },
            Step::Cycle,
            one(),
            one(),
            Step::Return(0),
            Step::Cycle,
            scattered(1, vec![chunk(2, 1, "blue"), chunk(2, 3, "blue")], false, false),
            Step::Confirm(false),
            Step::Wish { job: 0, wish: 2 },
            one(),
            Step::Die(8),
            Step::Cycle,
            scattered(0, vec![chunk(2, 2, "")], false, false),
        ],
    );
}

/// A moldable gang of three in a rack: no rack has the nodes, and it starts with fewer where they are.
#[test]
fn a_gang_that_could_be_smaller_waits_for_its_rack() {
    let three = shape_of(Place::Scatter, vec![chunk(3, 4, "blue")], true);
    let moldable = Shape { elasticity: Some(Elasticity::Moldable), ..three };
    History::play(
        false,
        &[
            scattered(0, vec![chunk(1, 4, "blue")], false, false),
            Step::VaryOff(4),
            Step::Gang { user: 0, class: 0, shape: moldable },
            Step::Cycle,
            // Of two jobs, the first.
            Step::Complete(0),
        ],
    );
}

/// The same 300 histories every time, or as many others as `PROPTEST_CASES` asks for.
pub fn config() -> ProptestConfig {
    let default = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        return default;
    }
    ProptestConfig { cases: 300, rng_seed: RngSeed::Fixed(42), ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_gang_is_whole_or_not_there(
        has_sets in any::<bool>(),
        steps in prop::collection::vec(step(vec![gang(vec![0])]), 1..50),
    ) {
        History::play(has_sets, &steps);
    }

    /// Gangs of fair-share work save up for their turns, beside gangs of fixed work.
    #[test]
    fn a_gang_that_saves_up_is_whole_or_not_there(
        has_sets in any::<bool>(),
        steps in prop::collection::vec(step(vec![gang(vec![0, 1, 1, 2])]), 1..50),
    ) {
        History::play(has_sets, &steps);
    }

    /// Elastic jobs have a legal size after every cycle.
    #[test]
    fn an_elastic_job_has_a_legal_size(
        has_sets in any::<bool>(),
        steps in prop::collection::vec(step(vec![gang(vec![0]), elastic_job()]), 1..50),
    ) {
        History::play(has_sets, &steps);
    }

    /// In a closed system of fixed gangs that each could start alone, and that end, every gang
    /// starts.
    #[test]
    fn in_a_closed_system_every_gang_starts(shapes in prop::collection::vec(shape(), 1..10)) {
        let mut history = History::new(false);
        history.cluster.command(AdminCommand::Reconfigure(Box::new({
            let mut topology = world(false);
            topology.settings.allotment = None;
            topology
        })));
        for shape in shapes {
            history.gang(0, "tight", shape);
        }
        let mut left: BTreeSet<JobId> = history.gangs.keys().copied().collect();
        for _ in 0..40 {
            history.cycle();
            let started: Vec<JobId> =
                left.iter().copied().filter(|id| 0 < history.cluster.held(id.0)).collect();
            let never = |id: &JobId| {
                matches!(history.cluster.reason(id.0), "gang_impossible" | "cannot_span")
            };
            let impossible: Vec<JobId> = left.iter().copied().filter(never).collect();
            for id in started.iter().chain(&impossible) {
                left.remove(id);
                history.gangs.remove(id);
                history.cluster.complete(id.0);
            }
        }
        prop_assert!(left.is_empty(), "{:?} wait: {}", left, history.cluster.picture());
    }
}
