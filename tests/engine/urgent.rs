//! Urgent work: random situations, each cycle audited, and each decision counted again by trying
//! every choice of work that could go.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::support::cluster::{Cluster, UNPACED, class, fair, job, single, topology};
use crate::support::diary::Diary;
use apportion::engine::{Snapshot, VictimRule};
use apportion::model::{
    Chunk, ClassPolicy, Elasticity, GangRules, JobId, JobIx, JobKind, JobSpec, LegalSizes,
    Mebibytes, NodeIx, Place, ProcessLimit, Shape, ShareId, SharePhase, Tags, Topology, Window,
    WindowKind,
};
use apportion::scheduler::{AdminCommand, SchedulerEvent, UrgentDenial, UrgentVerdict};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Nodes, and their size in GB.
const NODES: [(&str, u64); 6] = [("n1", 4), ("n2", 4), ("n3", 4), ("n4", 4), ("n5", 6), ("n6", 6)];

fn world() -> Topology {
    let gangs = GangRules { are_allowed: true, ..GangRules::default() };
    let mut urgent = class("urgent", ClassPolicy::FixedShare, 1, UNPACED);
    urgent.is_urgent = true;
    let mut classes = vec![
        urgent,
        class("steady", ClassPolicy::FixedShare, 3, UNPACED),
        class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
        fair("fair", 100, UNPACED),
        class("low", ClassPolicy::FairShare { weight: 1 }, 20, UNPACED),
    ];
    for class in &mut classes {
        class.gangs = gangs;
    }
    let mut topology = Topology { classes: classes.into(), ..topology() };
    topology.settings.urgent_allotment = None;
    topology
}

/// An urgent request: equal processes.
#[derive(Clone, Copy, Debug)]
struct Request {
    count: u64,
    gib: u64,
    place: Place,
    is_exclusive: bool,
    /// True if it has chunks.
    is_gang: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Plain { class: &'static str, gib: u64, most: u64 },
    Sized { gib: u64, min: u64, most: u64, sizes: LegalSizes },
    Gang { class: &'static str, count: u64, gib: u64, is_exclusive: bool },
    Service { gib: u64 },
    Complete(usize),
    Invest(usize, u64),
    Die(usize),
    Return(usize),
    Resume,
    Hold(bool),
    Pass,
    Urgent(Request),
}

fn request() -> impl Strategy<Value = Request> {
    let place =
        prop_oneof![4 => Just(Place::Scatter), 2 => Just(Place::Free), 1 => Just(Place::Pack)];
    (1..4_u64, 1..5_u64, place, any::<bool>(), prop::bool::weighted(0.8)).prop_map(
        |(count, gib, place, is_exclusive, is_gang)| {
            if is_gang {
                Request { count, gib, place, is_exclusive, is_gang }
            } else {
                Request { count: 1, gib, place: Place::Free, is_exclusive: false, is_gang }
            }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let fairly = || prop_oneof![Just("fair"), Just("low")];
    let any_class = prop_oneof![Just("fair"), Just("low"), Just("fixed")];
    let sizes = prop_oneof![
        3 => Just(LegalSizes::Any),
        1 => Just(LegalSizes::Even),
        1 => Just(LegalSizes::PowerOfTwo),
    ];
    prop_oneof![
        3 => (fairly(), 1..5_u64, 1..5_u64)
            .prop_map(|(class, gib, most)| Step::Plain { class, gib, most }),
        4 => (2..5_u64, 0..3_u64, 2..6_u64, sizes).prop_map(|(gib, min, most, sizes)| {
            Step::Sized { gib, min, most, sizes }
        }),
        3 => (any_class, 1..4_u64, 1..5_u64, any::<bool>()).prop_map(
            |(class, count, gib, is_exclusive)| Step::Gang { class, count, gib, is_exclusive }
        ),
        1 => (1..4_u64).prop_map(|gib| Step::Service { gib }),
        1 => any::<usize>().prop_map(Step::Complete),
        3 => (any::<usize>(), 1..9_u64).prop_map(|(job, work)| Step::Invest(job, work * 1000)),
        1 => (0..NODES.len()).prop_map(Step::Die),
        1 => (0..NODES.len()).prop_map(Step::Return),
        1 => Just(Step::Resume),
        1 => any::<bool>().prop_map(Step::Hold),
        4 => Just(Step::Pass),
        5 => request().prop_map(Step::Urgent),
    ]
}

const USERS: [&str; 3] = ["ann", "bob", "cid"];

fn gang(count: u64, gib: u64) -> Shape {
    let memory = Mebibytes::from_gib(gib);
    Shape { chunks: vec![Chunk { count, memory, tags: Tags::default() }], ..Shape::default() }
}

fn with_shape(mut spec: JobSpec, shape: Shape) -> JobSpec {
    if shape.is_gang() {
        spec.memory = shape.largest_process().unwrap();
        spec.facts.remaining = shape.processes();
        spec.facts.limit = ProcessLimit::AtMost(shape.processes());
    }
    spec.shape = Some(Arc::new(shape));
    spec
}

fn urgent(id: u64, asked: Request) -> JobSpec {
    let spec = single(id, "op", "urgent", asked.gib, JobKind::Job);
    if !asked.is_gang {
        return spec;
    }
    let shape = gang(asked.count, asked.gib);
    with_shape(spec, Shape { place: asked.place, is_exclusive: asked.is_exclusive, ..shape })
}

struct History {
    cluster: Cluster,
    next: u64,
    reserved: BTreeSet<usize>,
}

impl History {
    /// A history in which some nodes are kept for other work.
    fn new(reserved: &BTreeSet<usize>) -> History {
        let mut cluster = Cluster::new(world());
        cluster.diary = Some(Diary::of(&cluster.scheduler));
        for (name, gib) in NODES {
            cluster.nodes(&format!("{name}={gib}"));
        }
        let mut history = History { cluster, next: 1, reserved: reserved.clone() };
        if !reserved.is_empty() {
            history.reserve();
        }
        history.cluster.cycle();
        history
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn user(&self) -> &'static str {
        USERS[usize::try_from(self.next).unwrap() % USERS.len()]
    }

    fn pick(&self, place: usize) -> Option<u64> {
        let view = self.cluster.scheduler.view();
        let jobs: Vec<u64> = view.jobs.iter().map(|job| job.id.0).collect();
        Some(jobs[place.checked_rem(jobs.len())?])
    }

    fn apply(&mut self, step: &Step) {
        let (id, user) = (self.number(), self.user());
        match step {
            Step::Plain { class, gib, most } => {
                let mut spec = job(id, user, class, *gib);
                spec.facts.limit = ProcessLimit::AtMost(*most);
                self.cluster.arrive(spec);
            }
            Step::Sized { gib, min, most, sizes } => {
                let mut spec = job(id, user, "low", *gib);
                spec.facts.limit = ProcessLimit::AtMost((*most).max(2));
                let shape = Shape {
                    elasticity: Some(Elasticity::Malleable),
                    min_processes: *min,
                    legal_sizes: sizes.clone(),
                    ..Shape::default()
                };
                self.cluster.arrive(with_shape(spec, shape));
            }
            Step::Gang { class, count, gib, is_exclusive } => {
                let shape = Shape { is_exclusive: *is_exclusive, ..gang(*count, *gib) };
                self.cluster.arrive(with_shape(job(id, user, class, *gib), shape));
            }
            Step::Service { gib } => {
                self.cluster.arrive(single(id, user, "steady", *gib, JobKind::Service));
            }
            Step::Complete(place) => {
                if let Some(job) = self.pick(*place) {
                    self.cluster.complete(job);
                }
            }
            Step::Invest(place, work) => {
                if let Some(job) = self.pick(*place) {
                    self.cluster.invest(job, *work);
                }
            }
            Step::Die(node) => {
                self.cluster.die(NODES[*node].0);
            }
            Step::Return(node) => {
                let (name, gib) = NODES[*node];
                self.cluster.nodes(&format!("{name}={gib}"));
            }
            Step::Resume => self.cluster.resume(),
            Step::Hold(holds) => self.cluster.confirms_exits = !holds,
            Step::Pass => {
                self.cluster.cycle();
            }
            Step::Urgent(asked) => self.urgent(id, *asked),
        }
    }

    /// Keeps nodes for ever; work without a known length never uses them.
    fn reserve(&mut self) {
        let window = Window {
            name: "w1".into(),
            kind: WindowKind::Reservation,
            nodes: self.reserved.iter().map(|node| NODES[*node].0.into()).collect(),
            from: 5,
            to: 1_000_000,
            users: Vec::new(),
            classes: Vec::new(),
            reason: String::new(),
        };
        let window = Box::new(window);
        self.cluster.command(AdminCommand::Reserve { window, is_forced: false });
        self.cluster.record(SchedulerEvent::TimeIs { now: 10 });
    }

    fn urgent(&mut self, id: u64, asked: Request) {
        // The same without the request.
        let mut without = Cluster::new(world());
        without.scheduler = self.cluster.scheduler.clone();
        without.confirms_exits = self.cluster.confirms_exits;
        self.cluster.command(AdminCommand::Urgent(Box::new(urgent(id, asked))));
        self.cluster.cycle();
        let verdicts: Vec<UrgentVerdict> = self.cluster.view.urgent.to_vec();
        assert_eq!(verdicts.len(), 1);
        let snapshot = self.cluster.view.planned.as_deref().unwrap().snapshot.clone();
        let recount = Recount::new(&snapshot, asked, &self.reserved);
        match &verdicts[0].outcome {
            Ok(grant) => {
                let schedule = &self.cluster.view.planned.as_deref().unwrap().schedule;
                let taken = schedule.preemptions.iter();
                let taken = taken.filter(|it| it.rule == VictimRule::Urgent).map(|it| it.share);
                recount.check(&taken.collect());
                assert_eq!(u64::try_from(grant.promised.len()).unwrap(), asked.count);
                self.starts(id, asked);
            }
            Err(denial) => {
                assert!(matches!(denial, UrgentDenial::NoSpace(_)), "{denial:?}");
                let picture = self.cluster.picture();
                assert!(
                    !recount.fits_below(Kind::Nothing),
                    "{denial:?} {:?}
{picture}",
                    recount.space
                );
                without.cycle();
                assert_eq!(without.scheduler.state(), self.cluster.scheduler.state());
                assert!(self.cluster.view.jobs.iter().all(|job| job.id != JobId(id)));
            }
        }
    }

    /// All processes start once all that goes is gone.
    fn starts(&mut self, id: u64, asked: Request) {
        let confirms = std::mem::replace(&mut self.cluster.confirms_exits, true);
        self.cluster.cycle();
        assert_eq!(self.cluster.held(id), asked.count, "{}", self.cluster.picture());
        self.cluster.confirms_exits = confirms;
    }
}

/// Kinds of work that may go, the cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Surplus,
    Single,
    Gang,
    Whole,
    /// Dearer than all.
    Nothing,
}

/// A share of work that can be preempted.
#[derive(Clone, Copy, Debug)]
struct Prey {
    share: ShareId,
    job: JobIx,
    node: NodeIx,
    gib: u64,
}

/// An exhaustive recount of a decision.
struct Recount<'s> {
    snapshot: &'s Snapshot,
    asked: Request,
    /// Space of each node without work that can be preempted; `None` if it may not be used.
    space: Vec<Option<u64>>,
    prey: Vec<Prey>,
}

impl<'s> Recount<'s> {
    fn new(snapshot: &'s Snapshot, asked: Request, reserved: &BTreeSet<usize>) -> Recount<'s> {
        let nodes = snapshot.nodes.iter().map(|node| {
            let is_reserved = reserved.iter().any(|place| NODES[*place].0 == node.name.as_str());
            let is_open = node.state.is_schedulable() && !is_reserved;
            is_open.then_some(node.order.0)
        });
        let mut space: Vec<Option<u64>> = nodes.collect();
        let mut prey = Vec::new();
        let mut take = |node: NodeIx, gib: u64| {
            space[node.0] = space[node.0].map(|left| left.saturating_sub(gib));
        };
        for (place, job) in snapshot.jobs.with_ix() {
            let is_fair = snapshot.class_of(job).policy.is_preemptable();
            for share in job.shares.iter().filter(|it| it.state == SharePhase::Held || !is_fair) {
                let gib = share.order.qshares().0;
                if is_fair {
                    prey.push(Prey { share: share.id, job: place, node: share.node, gib });
                } else {
                    take(share.node, gib);
                }
            }
        }
        for promise in &snapshot.promises {
            let of = snapshot.jobs.iter().find(|job| job.id == promise.job).unwrap();
            if snapshot.class_of(of).is_urgent {
                take(promise.node, promise.order.qshares().0);
            }
        }
        Recount { snapshot, asked, space, prey }
    }

    /// True if the request fits beside the shares of `stays`.
    fn fits(&self, stays: impl Iterator<Item = Prey>) -> bool {
        let mut space = self.space.clone();
        for prey in stays {
            space[prey.node.0] = space[prey.node.0].map(|left| left.saturating_sub(prey.gib));
        }
        let Request { count, gib, place, is_exclusive, .. } = self.asked;
        let processes_on = |(node, left): (usize, &Option<u64>)| {
            let left = left.unwrap_or(0);
            let is_whole = left == self.snapshot.nodes[NodeIx(node)].order.0;
            if is_exclusive && !is_whole { 0 } else { left.checked_div(gib).unwrap() }
        };
        let counts = space.iter().enumerate().map(processes_on);
        match place {
            Place::Scatter => count <= counts.map(|count| count.min(1)).sum(),
            Place::Free => count <= counts.sum(),
            Place::Pack => counts.max().unwrap_or(0) >= count,
        }
    }

    /// Least processes of a malleable job; `None` for other work.
    fn least(&self, job: JobIx) -> Option<u64> {
        let job = &self.snapshot.jobs[job];
        let shape = job.shape.as_deref().filter(|shape| shape.is_elastic())?;
        let held = job.nshares_held().0;
        let least = (shape.min_processes.max(1)..=held).find(|size| shape.legal_sizes.allow(*size));
        Some(if shape.min_processes == 0 { 0 } else { least.unwrap_or(held) })
    }

    fn is_gang(&self, job: JobIx) -> bool {
        self.snapshot.jobs[job].shape.as_deref().is_some_and(Shape::is_gang)
    }

    /// True if the request fits with some choice of work that is cheaper than `kind`.
    fn fits_below(&self, kind: Kind) -> bool {
        let mut fixed: Vec<Prey> = Vec::new();
        let mut sized: BTreeMap<JobIx, Vec<Prey>> = BTreeMap::new();
        for prey in &self.prey {
            match self.least(prey.job) {
                Some(_) if Kind::Whole < kind => {}
                Some(_) if Kind::Surplus < kind => sized.entry(prey.job).or_default().push(*prey),
                Some(_) => fixed.push(*prey),
                None if self.is_gang(prey.job) && kind <= Kind::Gang => fixed.push(*prey),
                None if !self.is_gang(prey.job) && kind <= Kind::Single => fixed.push(*prey),
                None => {}
            }
        }
        let sized: Vec<(JobIx, Vec<Prey>)> = sized.into_iter().collect();
        self.some_choice(&fixed, &sized)
    }

    /// Tries all choices of the shares that stay of each malleable job: as many as its minimum.
    fn some_choice(&self, stays: &[Prey], sized: &[(JobIx, Vec<Prey>)]) -> bool {
        let Some(((job, prey), rest)) = sized.split_first() else {
            return self.fits(stays.iter().copied());
        };
        let least = u32::try_from(self.least(*job).unwrap()).unwrap();
        (0..1_u32 << prey.len()).filter(|choice| choice.count_ones() == least).any(|choice| {
            let chosen = prey.iter().enumerate().filter(|(bit, _)| choice >> bit & 1 == 1);
            let stays: Vec<Prey> =
                stays.iter().chain(chosen.map(|(_, prey)| prey)).copied().collect();
            self.some_choice(&stays, rest)
        })
    }

    /// Kind of what a job lost.
    fn kind(&self, job: JobIx, lost: u64) -> Kind {
        match self.least(job) {
            Some(least) if 0 < least && lost == self.snapshot.jobs[job].nshares_held().0 => {
                Kind::Whole
            }
            Some(_) => Kind::Surplus,
            None if self.is_gang(job) => Kind::Gang,
            None => Kind::Single,
        }
    }

    /// The shares that went were the right ones.
    fn check(&self, taken: &BTreeSet<ShareId>) {
        let gone: Vec<Prey> =
            self.prey.iter().filter(|prey| taken.contains(&prey.share)).copied().collect();
        assert_eq!(gone.len(), taken.len(), "only work that can be preempted goes");
        let stays = |kept: &[Prey]| {
            let is_kept = |prey: &Prey| kept.iter().any(|it| it.share == prey.share);
            let all: Vec<Prey> = self.prey.clone();
            all.into_iter()
                .filter(|prey| !taken.contains(&prey.share) || is_kept(prey))
                .collect::<Vec<Prey>>()
        };
        assert!(self.fits(stays(&[]).into_iter()), "what goes suffices");
        let mut lost: BTreeMap<JobIx, u64> = BTreeMap::new();
        for prey in &gone {
            *lost.entry(prey.job).or_default() += 1;
        }
        if let Some(dearest) = lost.iter().map(|(job, lost)| self.kind(*job, *lost)).max() {
            assert!(!self.fits_below(dearest), "something cheaper than {dearest:?} suffices");
        }
        for (&job, &count) in &lost {
            let own: Vec<Prey> = gone.iter().filter(|prey| prey.job == job).copied().collect();
            let held = self.snapshot.jobs[job].nshares_held().0;
            let units: Vec<Vec<Prey>> = match self.kind(job, count) {
                Kind::Gang => {
                    assert_eq!(count, held, "a gang goes whole");
                    vec![own]
                }
                Kind::Single => own.into_iter().map(|prey| vec![prey]).collect(),
                Kind::Surplus => {
                    let shape = self.snapshot.jobs[job].shape.as_deref().unwrap();
                    let left = held - count;
                    let is_legal =
                        |size| shape.min_processes <= size && shape.legal_sizes.allow(size);
                    assert!(left == 0 || is_legal(left), "{left} is no legal size");
                    let units = own.into_iter().filter(|_| is_legal(left + 1));
                    units.map(|prey| vec![prey]).collect()
                }
                Kind::Whole | Kind::Nothing => Vec::new(),
            };
            for unit in units {
                assert!(!self.fits(stays(&unit).into_iter()), "{unit:?} went for nothing");
            }
        }
    }
}

fn play(reserved: &BTreeSet<usize>, steps: &[Step]) {
    let mut history = History::new(reserved);
    for step in steps {
        history.apply(step);
    }
    history.cluster.cycle();
    let again = history.cluster.diary.as_ref().unwrap().replay(0).unwrap();
    let (again, state) = (again.scheduler().state(), history.cluster.scheduler.state());
    assert_eq!((again.jobs, again.promises), (state.jobs, state.promises));
}

fn config() -> ProptestConfig {
    let default = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        return default;
    }
    ProptestConfig { cases: 120, rng_seed: RngSeed::Fixed(29), ..default }
}

proptest! {
    #![proptest_config(config())]

    /// IV-30, IV-31: random clusters; reserved nodes are never used.
    #[test]
    fn urgent_work_takes_the_cheapest_that_suffices(
        reserved in prop_oneof![
            2 => Just(BTreeSet::new()),
            1 => prop::collection::btree_set(0..NODES.len(), 1..3),
        ],
        steps in prop::collection::vec(step(), 4..40),
    ) {
        play(&reserved, &steps);
    }
}
