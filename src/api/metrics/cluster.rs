//! Gauges of the cluster, computed from a published view.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::gangs::{self, Sample};
use crate::api::hours::CivilTime;
use crate::api::ingest::heartbeat_inbox::HeartbeatAges;
use crate::api::published::Published;
use crate::converter::explain;
use crate::model::{JobKind, NodeCondition, QShares, SharePhase, floor_div};
use crate::scheduler::{JobView, NodeView, View};

/// Published view and heartbeats for a scrape.
#[derive(Debug)]
pub(super) struct Cluster {
    pub published: Arc<Published>,
    pub heartbeats: HeartbeatAges,
}

impl Collector for Cluster {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let published = &self.published;
        let view = &published.view;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        let build = "Version of the running daemon";
        to.encode_descriptor("build", build, None, MetricType::Info)?.encode_info(&version)?;
        one(&mut to, READY, u64::from(published.is_ready))?;
        one(&mut to, SNAPSHOT, view.cycle)?;
        one(&mut to, CONFIG, published.generation)?;
        let (name, help) = VIOLATIONS;
        let violations = ConstCounter::new(published.findings_total);
        violations.encode(to.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        // Before the state is restored nothing is known: zero nodes would be wrong.
        if published.is_resuming {
            return Ok(());
        }
        one(&mut to, STRIKES, view.net_strikes())?;
        let silent = u64::try_from(view.lost_held_back.len()).unwrap_or(u64::MAX);
        one(&mut to, SILENT, silent)?;
        all(&mut to, NODES, nodes(view))?;
        all(&mut to, HEARD, self.heartbeat_ages())?;
        all(&mut to, AVAILABLE, self.available())?;
        all(&mut to, QUANTA, quanta(view))?;
        all(&mut to, QUANTUM, quantum_bytes(view))?;
        all(&mut to, FRAGMENTATION, fragmentation(view))?;
        all(&mut to, JOBS, jobs(view))?;
        all(&mut to, PENDING, pending(view))?;
        let accounts = |amount: fn(&crate::scheduler::JobAccount) -> QShares| {
            let classes = view.classes.iter();
            classes
                .map(move |class| ([("class", class.name.to_string())], amount(&class.account).0))
        };
        all(&mut to, ENTITLEMENT, accounts(|account| account.fair_share))?;
        all(&mut to, HELD, accounts(|account| account.held))?;
        all(&mut to, DEMAND, accounts(|account| account.demand))?;
        all(&mut to, COUNTED, accounts(|account| account.target))?;
        all(&mut to, GANGS, gangs::by_state(view))?;
        all(&mut to, GANG_WAIT, gangs::longest_waits(view, CivilTime::of(published).now))?;
        all(&mut to, SAVINGS, gangs::savings(view))?;
        one(&mut to, UNCONFIRMED, gangs::unconfirmed(view))?;
        all(&mut to, FAIRNESS, fairness(view))?;
        all(&mut to, COVERAGE, coverage(view))
    }
}

/// A name and what it means.
type Gauge = (&'static str, &'static str);

const READY: Gauge = ("ready", "1 once a schedule is available, else 0");
const SNAPSHOT: Gauge =
    ("snapshot_generation", "Number of the last cycle; grows while the scheduler runs");
const CONFIG: Gauge = ("config_generation", "The configuration in effect");
const VIOLATIONS: Gauge = (
    "invariant_violations",
    "Rules that finished schedules broke, as the audit sees it; should stay 0",
);
const STRIKES: Gauge =
    ("net_strikes", "Jobs that the safety net against endless rearranging holds back; should be 0");
const SILENT: Gauge = (
    "nodes_silent_together",
    "Nodes that fell silent together, so many that none is given up; should be 0",
);
const NODES: Gauge =
    ("nodes", "Nodes by the state that keeps shares from them; every node counts once");
const HEARD: Gauge = (
    "heartbeat_age_seconds",
    "Time since the last heartbeat of nodes that get shares: the longest and the shortest",
);
const AVAILABLE: Gauge = (
    "available_bytes",
    "Unused memory at the moment, on nodes that get shares and whose agents report it",
);
const QUANTA: Gauge = (
    "quanta",
    "Memory of all nodes in quanta: in use, terminating, free, free but on nodes that get no shares",
);
const QUANTUM: Gauge = ("quantum_bytes", "Memory of a quantum");
const FRAGMENTATION: Gauge = (
    "fragmentation_ratio",
    "Part of the free memory that is in pieces too small for processes of this order",
);
const JOBS: Gauge = (
    "jobs",
    "Jobs by what they hold: all they can use (satisfied), some of it (partial), nothing (waiting); or not \
     considered (refused)",
);
const PENDING: Gauge = ("pending_jobs", "Jobs that have less than they want, by reason");
const ENTITLEMENT: Gauge = (
    "entitlement_quanta",
    "Fair share of a class: its part if all classes and users could use theirs",
);
const HELD: Gauge = ("held_quanta", "Memory that a class holds, without terminating processes");
const DEMAND: Gauge = ("wanted_quanta", "Demand of a class: memory that it could use now");
const COUNTED: Gauge = ("counted_quanta", "Target of a class in the last cycle");
const GANGS: Gauge = (
    "gangs",
    "Gangs that hold nothing (waiting), whose processes have not all begun (starting), or that run (running)",
);
const GANG_WAIT: Gauge = (
    "gang_wait_seconds",
    "Time since the submission of the gang that waits longest; gangs that can never start do not count",
);
const SAVINGS: Gauge = (
    "gang_savings_byte_seconds",
    "Savings of all users of a class for their gangs: memory times the time for which it pays",
);
const UNCONFIRMED: Gauge = (
    "resizes_unconfirmed",
    "Jobs with legal sizes whose new processes have not initialized for ten minutes; should be 0",
);
const FAIRNESS: Gauge = (
    "fairness_deviation_ratio",
    "Part of the fair shares that is not held, among classes, users and jobs",
);
const COVERAGE: Gauge = (
    "prediction_coverage_ratio",
    "Part of a class's running jobs that report the time per item; without it their growth is not predicted",
);

fn one(to: &mut DescriptorEncoder<'_>, (name, help): Gauge, value: u64) -> fmt::Result {
    ConstGauge::new(value).encode(to.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn all<const N: usize, V: EncodeGaugeValue>(
    to: &mut DescriptorEncoder<'_>,
    (name, help): Gauge,
    samples: impl IntoIterator<Item = Sample<N, V>>,
) -> fmt::Result {
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in samples {
        ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

impl Cluster {
    fn available(&self) -> BTreeMap<[(&'static str, String); 1], u64> {
        let mut pools: BTreeMap<[(&'static str, String); 1], u64> = BTreeMap::new();
        let nodes = self.published.view.nodes.iter();
        for node in nodes.filter(|node| node.state.is_schedulable()) {
            if let Some((_, Some(mebibytes))) = self.heartbeats.get(node.name.as_str()) {
                let pool = pools.entry([("pool", node.pool.to_string())]).or_default();
                *pool = pool.saturating_add(mebibytes.saturating_mul(1 << 20));
            }
        }
        pools
    }

    fn heartbeat_ages(&self) -> Vec<Sample<1, f64>> {
        let nodes = self.published.view.nodes.iter();
        let up = nodes.filter(|node| node.state.is_schedulable());
        let ages: Vec<Duration> = up
            .filter_map(|node| self.heartbeats.get(node.name.as_str()))
            .map(|(age, _)| *age)
            .collect();
        let ends = [("longest_ago", ages.iter().max()), ("last", ages.iter().min())];
        let known = ends.into_iter().filter_map(|(of, age)| Some((of, age?)));
        known.map(|(of, age)| ([("heard", of.to_owned())], age.as_secs_f64())).collect()
    }
}

/// Returns the state that keeps shares from a node, the gravest first; "up" if there is none.
fn node_state(state: NodeCondition) -> &'static str {
    let states = [
        (state.is_dead, "dead"),
        (state.is_awaited, "awaited"),
        (state.is_varied_off, "varied_off"),
        (state.is_blacklisted, "blacklisted"),
        (state.is_quiesced, "quiesced"),
        (state.is_in_maintenance, "maintenance"),
    ];
    states.into_iter().find(|(holds, _)| *holds).map_or("up", |(_, word)| word)
}

const NODE_STATES: [&str; 7] =
    ["up", "awaited", "dead", "varied_off", "blacklisted", "quiesced", "maintenance"];

/// A number for each pool and each of these values of another label, 0 where there is none.
fn table(view: &View, states: &[&'static str]) -> BTreeMap<(String, &'static str), u64> {
    let pools = view.topology.pools.iter();
    pools.flat_map(|pool| states.iter().map(|state| ((pool.name.to_string(), *state), 0))).collect()
}

fn nodes(view: &View) -> impl Iterator<Item = Sample<2, u64>> {
    let mut counts = table(view, &NODE_STATES);
    for node in view.nodes.iter() {
        *counts.entry((node.pool.to_string(), node_state(node.state))).or_default() += 1;
    }
    counts
        .into_iter()
        .map(|((pool, state), count)| ([("pool", pool), ("state", state.to_owned())], count))
}

fn free(node: &NodeView) -> u64 {
    node.order.saturating_sub(node.used).0
}

fn quanta(view: &View) -> impl Iterator<Item = Sample<2, u64>> {
    let mut counts = table(view, &["held", "leaving", "other", "free", "unavailable"]);
    for node in view.nodes.iter() {
        let amount = |wanted: SharePhase| -> u64 {
            let shares = node.shares.iter().filter(|(.., state)| *state == wanted);
            shares.map(|(_, _, order, _)| order.qshares().0).sum()
        };
        let (held, leaving) = (amount(SharePhase::Held), amount(SharePhase::Leaving));
        let rest = if node.state.is_schedulable() { "free" } else { "unavailable" };
        let amounts = [
            ("held", held),
            ("leaving", leaving),
            ("other", node.used.0.saturating_sub(held + leaving)),
            (rest, free(node)),
        ];
        for (state, amount) in amounts {
            *counts.entry((node.pool.to_string(), state)).or_default() += amount;
        }
    }
    counts
        .into_iter()
        .map(|((pool, state), count)| ([("pool", pool), ("state", state.to_owned())], count))
}

fn quantum_bytes(view: &View) -> impl Iterator<Item = Sample<1, u64>> {
    let pools = view.topology.pools.iter();
    pools.map(|pool| {
        let bytes = pool.quantum.memory().0.saturating_mul(1 << 20);
        ([("pool", pool.name.to_string())], bytes)
    })
}

/// For orders 1, 2, 4 and so on, up to the largest node of a pool.
fn fragmentation(view: &View) -> Vec<Sample<2, f64>> {
    let mut samples = Vec::new();
    for pool in &view.topology.pools {
        let nodes = || view.nodes.iter().filter(|node| node.pool == pool.name);
        let largest = nodes().map(|node| node.order.0).max().unwrap_or_default();
        let rooms: Vec<u64> =
            nodes().filter(|node| node.state.is_schedulable()).map(free).collect();
        let all: u64 = rooms.iter().sum();
        let orders = std::iter::successors(NonZeroU64::new(1), |order| order.checked_mul(TWO));
        for order in orders.take_while(|order| order.get() <= largest) {
            let usable: u64 = rooms.iter().map(|room| floor_div(*room, order) * order.get()).sum();
            let labels = [("pool", pool.name.to_string()), ("order", order.to_string())];
            samples.push((labels, ratio(all - usable, all)));
        }
    }
    samples
}

const TWO: NonZeroU64 = NonZeroU64::new(2).expect("not zero");

fn job_state(job: &JobView) -> &'static str {
    if job.order.is_none() {
        "refused"
    } else if job.reason.is_none() {
        "satisfied"
    } else if job.shares.is_empty() {
        "waiting"
    } else {
        "partial"
    }
}

const JOB_STATES: [&str; 4] = ["satisfied", "partial", "waiting", "refused"];

/// Returns the job's class as a label. A job may name any class, so an unknown class is no label.
fn class_label<'a>(view: &View, job: &'a JobView) -> &'a str {
    if view.topology.class_named(&job.class).is_some() { job.class.as_str() } else { "unknown" }
}

fn jobs(view: &View) -> Vec<Sample<2, u64>> {
    let mut counts: HashMap<(&str, &str), u64> = HashMap::new();
    for job in view.jobs.iter() {
        *counts.entry((class_label(view, job), job_state(job))).or_default() += 1;
    }
    let classes = view.classes.iter().map(|class| class.name.as_str()).chain(["unknown"]);
    let labels = classes.flat_map(|class| JOB_STATES.map(|state| (class, state)));
    let sample = |(class, state): (&str, &str)| {
        let count = counts.get(&(class, state)).copied().unwrap_or_default();
        ([("class", class.to_owned()), ("state", state.to_owned())], count)
    };
    labels.map(sample).collect()
}

fn pending(view: &View) -> impl Iterator<Item = Sample<2, u64>> {
    let mut counts: BTreeMap<(String, &'static str), u64> = BTreeMap::new();
    for job in view.jobs.iter() {
        if let Some(reason) = &job.reason {
            let labels = (class_label(view, job).to_owned(), explain(reason, None).code);
            *counts.entry(labels).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .map(|((class, reason), count)| ([("class", class), ("reason", reason.to_owned())], count))
}

/// Computes the ratio of running jobs with a known time per item, for each class that predicts. A
/// class without running jobs has no sample: a ratio of nothing has no meaning.
fn coverage(view: &View) -> impl Iterator<Item = Sample<1, f64>> {
    let mut counts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let running = view.jobs.iter().filter(|job| job.kind == JobKind::Job && job.facts.is_running);
    for job in running {
        let class = view.topology.class_named(&job.class);
        if class.is_some_and(|class| view.topology.classes[class].cap_rules.prediction) {
            let is_covered = job.facts.time_per_item.is_some_and(|time| time != 0);
            let (covered, all) = counts.entry(&job.class).or_default();
            *covered += u64::from(is_covered);
            *all += 1;
        }
    }
    let sample = |(class, (covered, all)): (&str, (u64, u64))| {
        ([("class", class.to_owned())], ratio(covered, all))
    };
    counts.into_iter().map(sample)
}

/// Shortfalls over fair shares, at every level at which memory is divided.
fn fairness(view: &View) -> [Sample<1, f64>; 3] {
    let fair = || view.classes.iter().filter(|class| !class.users.is_empty());
    let classes = fair().map(|class| (class.account.fair_share.0, class.account.held.0));
    let users = fair().flat_map(|class| &class.users);
    let users = users.map(|(_, account)| (account.fair_share.0, account.held.0));
    let jobs = view.jobs.iter().filter_map(|job| {
        let held = job.order.map(|order| job.held().of_order(order))?;
        Some((job.pure_fair_share.0, held.0))
    });
    let level = |name: &str, deviation| ([("level", name.to_owned())], deviation);
    [
        level("class", deviation(classes)),
        level("user", deviation(users)),
        level("job", deviation(jobs)),
    ]
}

/// Part of the fair shares that their owners do not hold, from pairs of fair share and held amount.
fn deviation(sides: impl Iterator<Item = (u64, u64)>) -> f64 {
    let (mut missing, mut all) = (0, 0);
    for (fair_share, held) in sides {
        missing += fair_share.saturating_sub(held);
        all += fair_share;
    }
    ratio(missing, all)
}

/// Returns `part` divided by `whole`; 0 if `whole` is 0.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}

fn float(value: u64) -> f64 {
    // Quanta and qshares of a real cluster fit; where they do not, a ratio of large halves will do.
    let halved = value >> 16;
    u32::try_from(value)
        .map_or_else(|_| f64::from(u32::try_from(halved).unwrap_or(u32::MAX)) * 65_536.0, f64::from)
}
