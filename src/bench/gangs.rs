//! Plans of clusters with gangs, each of a kind that costs a batch system most.
//!
//! Nodes have seven colours in turn and space for eight processes. The time is of [`engine::plan`]
//! on the snapshot with all gangs, alone: it decides on every gang, and reuses nothing.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::bare;
use super::times::{DurationSpread, median, milliseconds, ratio};
use crate::audit;
use crate::engine::{self, Snapshot};
use crate::model::{
    CapRules, Chunk, ClassPolicy, GangRules, JobFacts, JobId, JobKind, JobSpec, Mebibytes,
    NodeReport, NodeTagging, Nodepool, Place, PoolIx, ProcessLimit, Quantum, ResourceClass,
    Settings, Shape, ShareId, TagRule, Tags, Topology, count,
};
use crate::scheduler::{Scheduler, SchedulerEvent};
use crate::sim::systemtest::Clock;

/// Colours of nodes, in turn.
const COLORS: [&str; 7] = ["red", "orange", "yellow", "green", "blue", "indigo", "violet"];
/// Memory of a process, the smallest allocation.
const PROCESS: Mebibytes = Mebibytes(1 << 10);
/// Processes that a node holds.
const PER_NODE: u64 = 8;
/// Gangs that run while the gangs of the case wait.
const RUNNING: u64 = 60;
/// A minute, in milliseconds.
const MINUTE: u64 = 60_000;
/// Most pairs of node and gang for which the audit judges a plan: it tests each gang by itself.
const AUDITED_MAX: u64 = 100_000;

/// Kinds of gangs whose plan is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GangCase {
    /// Distinct gangs of two chunks that need all but a node of two colours. Two nodes of each
    /// colour are in use.
    Waiting,
    /// The same gangs, with a node more than there is of each colour.
    Impossible,
    /// As many equal gangs that need all nodes of a colour, and more.
    EqualImpossible,
    /// Exclusive gangs of a single node, which all start.
    SingleNodes,
    /// A gang with a process on every node, which starts.
    Wide,
    /// A gang that needs half of all nodes, each full of fair-share work.
    Room,
    /// Distinct exclusive gangs with a declared duration, each of a tenth of the nodes of two
    /// colours, that wait for 60 running gangs with ends of their own.
    Timed,
    /// Fair-share jobs with one of seven tags each, and no gang.
    Tagged,
    /// The same jobs without a tag.
    Untagged,
}

impl GangCase {
    /// All of them.
    pub const ALL: [GangCase; 9] = [
        GangCase::Waiting,
        GangCase::Impossible,
        GangCase::EqualImpossible,
        GangCase::SingleNodes,
        GangCase::Wide,
        GangCase::Room,
        GangCase::Timed,
        GangCase::Tagged,
        GangCase::Untagged,
    ];
}

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GangOptions {
    /// Number of nodes. At least 7.
    pub nodes: u64,
    /// Number of gangs, or of jobs.
    pub jobs: u64,
    /// Number of timed plans. At least 1.
    pub cycles: u64,
}

/// Figures of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GangFigures {
    /// The case.
    pub case: GangCase,
    /// Number of nodes.
    pub nodes: u64,
    /// Number of gangs and other jobs.
    pub jobs: u64,
    /// Time of a plan.
    pub plan_ms: DurationSpread,
    /// Time of a pass that reads every machine and every job once.
    pub bare_pass_ms: f64,
    /// Number of such passes in the time of a plan, by the medians; `None` if the pass was too
    /// short to measure.
    pub ratio: Option<f64>,
    /// Processes that the plan starts.
    pub started: u64,
    /// Processes that the plan preempts.
    pub preempted: u64,
    /// Rules that the plan breaks. `None`: the cluster is too large for the audit.
    pub audit_findings: Option<u64>,
}

/// Times the plans of all cases. Each result comes with the first findings of the audit, as text.
pub fn run(options: &GangOptions, clock: Clock<'_>) -> Vec<(GangFigures, Vec<String>)> {
    GangCase::ALL.into_iter().map(|case| run_case(options, case, clock)).collect()
}

fn run_case(options: &GangOptions, case: GangCase, clock: Clock<'_>) -> (GangFigures, Vec<String>) {
    let snapshot = snapshot(options, case);
    let mut times: Vec<Duration> = Vec::new();
    let mut last = None;
    for _ in 0..options.cycles.max(1) {
        let begun = clock();
        let schedule = engine::plan(black_box(&snapshot));
        times.push(clock().saturating_sub(begun));
        last = Some(schedule);
    }
    let schedule = last.expect("at least a plan is timed");
    let bare = bare::pass(&snapshot, clock);
    let jobs = count(&*snapshot.jobs);
    let findings = (options.nodes.saturating_mul(jobs) <= AUDITED_MAX)
        .then(|| audit::audit(&snapshot, &schedule));
    let figures = GangFigures {
        case,
        nodes: options.nodes,
        jobs,
        ratio: ratio(median(times.clone()), bare),
        plan_ms: DurationSpread::of(times),
        bare_pass_ms: milliseconds(bare),
        started: count(&schedule.expansions),
        preempted: count(&schedule.preemptions),
        audit_findings: findings.as_ref().map(count),
    };
    (figures, findings.unwrap_or_default().iter().map(ToString::to_string).take(10).collect())
}

/// The snapshot of the first cycle that decides on the jobs of `case`.
fn snapshot(options: &GangOptions, case: GangCase) -> Snapshot {
    let mut scheduler = Scheduler::new(topology(options.nodes), ShareId(1));
    for number in 0..options.nodes {
        scheduler.record(SchedulerEvent::NodeReported(NodeReport {
            tags: Tags::default(),
            name: node_name(number).into(),
            memory: Mebibytes(PROCESS.0 * PER_NODE),
            is_quiesced: false,
        }));
    }
    // Other cases plan without a calendar.
    let time = if case == GangCase::Timed { MINUTE } else { 0 };
    let (first, later) = jobs(options, case);
    if !first.is_empty() {
        arrive(&mut scheduler, first);
        if 0 < time {
            scheduler.record(SchedulerEvent::TimeIs { now: time });
        }
        scheduler.schedule();
    }
    arrive(&mut scheduler, later);
    if 0 < time {
        scheduler.record(SchedulerEvent::TimeIs { now: time + 1 });
    }
    let planned = scheduler.schedule().planned.expect("a cycle has run");
    planned.snapshot.clone()
}

fn arrive(scheduler: &mut Scheduler, jobs: Vec<JobSpec>) {
    for job in jobs {
        scheduler.record(SchedulerEvent::JobArrived(job));
    }
}

/// Jobs that arrive a cycle before, and the jobs of the case.
fn jobs(options: &GangOptions, case: GangCase) -> (Vec<JobSpec>, Vec<JobSpec>) {
    let GangOptions { nodes, jobs, .. } = *options;
    let of_color = nodes.checked_div(count(COLORS)).unwrap_or(0);
    let exclusive = |chunks: Vec<Chunk>| Shape { chunks, is_exclusive: true, ..scattered() };
    let numbers = 1..=jobs;
    let of_class = |number: u64, class: &str| job(number, class);
    match case {
        GangCase::Waiting => {
            let names: Vec<u64> = (0..(2 * count(COLORS)).min(nodes)).collect();
            let in_use = names.into_iter().map(|node| {
                let own = vec![node_name(node)];
                JobSpec { nodes: own, ..of_class(1_000_000 + node, "singles") }
            });
            let whole = in_use.map(|job| JobSpec {
                memory: Mebibytes(PROCESS.0 * PER_NODE),
                facts: JobFacts { limit: ProcessLimit::AtMost(1), remaining: 1, ..job.facts },
                ..job
            });
            (
                whole.collect(),
                numbers.map(|it| two_colors(it, of_color.saturating_sub(1))).collect(),
            )
        }
        GangCase::Impossible => {
            (Vec::new(), numbers.map(|it| two_colors(it, of_color + 2)).collect())
        }
        GangCase::EqualImpossible => {
            let shape = Shape { chunks: vec![chunk(nodes, Some("red"))], ..scattered() };
            (Vec::new(), numbers.map(|it| gang(it, "gangs", shape.clone())).collect())
        }
        GangCase::SingleNodes => {
            let shape = exclusive(vec![chunk(1, None)]);
            let all = 1..=jobs.min(nodes);
            (Vec::new(), all.map(|it| gang(it, "gangs", shape.clone())).collect())
        }
        GangCase::Wide => {
            let shape = Shape { chunks: vec![chunk(nodes, None)], ..scattered() };
            (Vec::new(), vec![gang(1, "gangs", shape)])
        }
        GangCase::Room => {
            let fair = (1..=count(COLORS)).map(|it| of_class(it, "fair")).collect();
            let shape = exclusive(vec![chunk(nodes >> 1, None)]);
            (fair, vec![gang(1_000_000, "gangs", shape)])
        }
        GangCase::Timed => timed_jobs(options),
        GangCase::Tagged => {
            let tagged = numbers.map(|it| {
                let place = it.checked_rem(count(COLORS)).unwrap_or(0);
                let color = COLORS[usize::try_from(place).unwrap_or(0)];
                JobSpec { tags: Tags::of([("color", color)]), ..of_class(it, "fair") }
            });
            (Vec::new(), tagged.collect())
        }
        GangCase::Untagged => (Vec::new(), numbers.map(|it| of_class(it, "fair")).collect()),
    }
}

/// A gang of two chunks with `each` processes, of two colours.
fn two_colors(number: u64, each: u64) -> JobSpec {
    let color = |ahead: u64| {
        let place = (number + ahead).checked_rem(count(COLORS)).unwrap_or(0);
        COLORS[usize::try_from(place).unwrap_or(0)]
    };
    let chunks = vec![chunk(each, Some(color(0))), chunk(each, Some(color(1)))];
    // Distinct durations make distinct requests.
    gang(number, "gangs", Shape { chunks, duration: Some(number + 1), ..scattered() })
}

/// Gangs that run, and gangs that wait for them.
fn timed_jobs(options: &GangOptions) -> (Vec<JobSpec>, Vec<JobSpec>) {
    let GangOptions { nodes, jobs, .. } = *options;
    let each = nodes.checked_div(RUNNING).unwrap_or(0).max(1);
    let running = (1..=RUNNING).map(|it| {
        let chunks = vec![chunk(each, None)];
        let duration = Some(MINUTE * (it + 5));
        let shape = Shape { chunks, is_exclusive: true, duration, ..scattered() };
        gang(1_000_000 + it, "gangs", shape)
    });
    let of_color = nodes.checked_div(count(COLORS)).unwrap_or(0);
    let waiting = (1..=jobs).map(|it| {
        let mut gang = two_colors(it, of_color.div_ceil(10));
        let mut shape = gang.shape.as_deref().cloned().unwrap_or_default();
        shape.is_exclusive = true;
        shape.duration = Some(MINUTE * (1 + it.checked_rem(100).unwrap_or(0)));
        gang.submitted += 2_000_000;
        gang.shape = Some(Arc::new(shape));
        gang
    });
    (running.collect(), waiting.collect())
}

fn scattered() -> Shape {
    Shape { place: Place::Scatter, min_processes: 1, ..Shape::default() }
}

fn chunk(count: u64, color: Option<&str>) -> Chunk {
    let tags = color.map_or_else(Tags::default, |color| Tags::of([("color", color)]));
    Chunk { count, memory: PROCESS, tags }
}

fn gang(number: u64, class: &str, shape: Shape) -> JobSpec {
    let processes = shape.processes();
    let job = job(number, class);
    let facts =
        JobFacts { remaining: processes, limit: ProcessLimit::AtMost(processes), ..job.facts };
    JobSpec { shape: Some(Arc::new(shape)), facts, ..job }
}

fn job(number: u64, class: &str) -> JobSpec {
    let user = number.checked_rem(10).unwrap_or(0);
    JobSpec {
        shape: None,
        tags: Tags::default(),
        id: JobId(number),
        user: format!("u{user}").into(),
        class: class.into(),
        kind: JobKind::Job,
        memory: PROCESS,
        threads: 1,
        submitted: number,
        nodes: Vec::new(),
        except_nodes: Vec::new(),
        service: 0,
        facts: JobFacts {
            remaining: 1_000_000,
            limit: ProcessLimit::Unlimited,
            is_running: false,
            time_per_item: None,
            is_completing: false,
        },
    }
}

fn node_name(number: u64) -> String {
    format!("n{number:07}")
}

/// A pool with nodes of seven colours, a class for gangs, a class for single requests, and a
/// fair-share class below both.
fn topology(nodes: u64) -> Topology {
    let quantum = Quantum::new(PROCESS).expect("a process is not nothing");
    let of_color = |(place, color): (usize, &&str)| TagRule {
        nodes: (0..nodes)
            .skip(place)
            .step_by(COLORS.len())
            .map(|it| node_name(it).into())
            .collect(),
        set: Tags::of([("color", *color)]),
        preference: None,
    };
    let class = |name: &str, policy: ClassPolicy, priority: u32| ResourceClass {
        gangs: GangRules { are_allowed: true, ..GangRules::default() },
        name: name.into(),
        policy,
        priority,
        pool: PoolIx(0),
        cap_rules: CapRules {
            initialization_cap: 0,
            expand_by_doubling: false,
            prediction: false,
            prediction_fudge: 0,
            loss_limit: CapRules::LOSS_LIMIT,
        },
        users: None,
        is_default: false,
        is_urgent: false,
    };
    Topology {
        tagging: NodeTagging {
            rules: COLORS.iter().enumerate().map(of_color).collect(),
            ..NodeTagging::default()
        },
        // All gangs that wait have a place in the calendar.
        settings: Settings { backfill_depth: 10_000, ..Settings::default() },
        pools: vec![Nodepool {
            name: "main".into(),
            parent: None,
            search_order: 100,
            quantum,
            nodes: Vec::new(),
        }]
        .into(),
        classes: vec![
            class("singles", ClassPolicy::FixedShare, 4),
            class("gangs", ClassPolicy::FixedShare, 5),
            class("fair", ClassPolicy::FairShare { weight: 100 }, 10),
        ]
        .into(),
        allotments: std::collections::BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Each case has the outcome that its description promises, and the audit finds nothing.
    #[test]
    fn cases_end_as_they_say() {
        let readings = Cell::new(0);
        let clock = || Duration::from_millis(readings.replace(readings.get() + 1));
        let options = GangOptions { nodes: 70, jobs: 30, cycles: 1 };
        for (figures, findings) in run(&options, &clock) {
            let case = figures.case;
            assert_eq!(findings, Vec::<String>::new(), "{case:?}");
            assert_eq!(figures.audit_findings, Some(0), "{case:?}");
            let (started, preempted) = (figures.started, figures.preempted);
            match case {
                GangCase::Waiting | GangCase::Impossible | GangCase::EqualImpossible => {
                    assert_eq!((started, preempted), (0, 0), "{case:?}");
                }
                GangCase::SingleNodes => assert_eq!(started, 30, "{case:?}"),
                GangCase::Wide => assert_eq!(started, 70, "{case:?}"),
                GangCase::Timed => assert_eq!(preempted, 0, "{case:?}"),
                GangCase::Room => assert_eq!((started, preempted), (0, 35 * PER_NODE), "{case:?}"),
                GangCase::Tagged | GangCase::Untagged => {
                    assert_eq!(started, 70 * PER_NODE, "{case:?}");
                }
            }
        }
    }
}
