//! Conversion of a job from the wire into a type that cannot be wrong.
//!
//! The scheduler decides if a job may be *scheduled*, not this module: a refused job is shown too.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::http::error::{Code, RequestFault};
use crate::api::http::json;
use crate::api::ingest::names::{name_problem, node_problem, tags_problem, user_problem};
use crate::api::ingest::shapes::{keep_known, shape_of};
use crate::api::limits::Limits;
use crate::api::wire;
use crate::converter::{JobState, PublishedJob, PublishedProcess};
use crate::model::{
    ClassPolicy, JobFacts, JobId, JobKind, JobSpec, Mebibytes, Name, ProcessLimit, Shape,
    ShareFacts, ShareId, Tags, Topology,
};
use crate::scheduler::{JobChannel, Refusal, admit};

/// Limit of every number from outside. JSON carries it exactly everywhere, and later numbers still
/// fit above it.
pub const NUMBER_MAX: u64 = 1 << 53;

/// No process runs longer than this, some 300 years; in milliseconds.
const TIME_MAX: i64 = 10_000_000_000_000;

/// The most work items a request may have.
const REMAINING_MAX: u64 = 1_000_000_000;

/// The most work items a process may work on at a time.
const THREADS_MAX: u64 = 1_000_000;

/// Reads and checks an item of a publication. `before` returns the same job as known so far, and
/// the way by which it came.
///
/// # Errors
///
/// The first problem of the item.
pub fn check_work(
    text: &str,
    before: impl FnOnce(JobId) -> (Option<PublishedJob>, JobChannel),
    topology: &Topology,
    limits: &Limits,
) -> Result<(PublishedJob, Vec<RequestFault>), RequestFault> {
    let wire: wire::Work = json::read_part(text, code_of_field)?;
    check_values(&wire, limits)?;
    check_names(&wire, limits.string)?;
    let shape = shape_of(&wire, limits)?;
    let memory = memory_of(&wire, shape.as_ref())?;
    let (before, channel) = before(JobId(wire.id));
    // A refused job may be corrected, so its earlier values bind nothing.
    let standing = before.as_ref();
    let standing = standing.filter(|before| admit(topology, &before.spec, channel).is_ok());
    let class = class_of(&wire, standing, topology)?;
    let mut warnings = warnings_about(&wire);
    let processes = processes_of(&wire)?;
    let state = state_of(wire.state);
    let spec = spec_of(wire, class.to_string(), memory, shape);
    let mut work = PublishedJob { spec, state, processes };
    if let Some(standing) = standing {
        warnings.extend(keep_known(&mut work, standing));
    }
    if let Some(field) = standing.and_then(|standing| work.changed_field(standing)) {
        let id = work.spec.id;
        let detail = format!(
            "job {id}: `{field}` differs from what was published before; submit it as a new job"
        );
        return Err(RequestFault::new(Code::Immutable, format!("/{field}"), detail));
    }
    if let Some(Err(refusal @ Refusal::TooLong { .. })) =
        standing.map(|_| admit(topology, &work.spec, JobChannel::Urgent))
    {
        let id = work.spec.id;
        let detail = format!("job {id}: {refusal}; its times stay as they were published before");
        return Err(RequestFault::new(Code::TooLong, "/duration_ms", detail));
    }
    work.spec.facts.is_running |= before.is_some_and(|before| before.spec.facts.is_running);
    Ok((work, warnings))
}

/// The code for a bad value in a field of a publication.
pub fn code_of_field(field: &str) -> Code {
    match field {
        "sequence" => Code::BadSequence,
        "memory_mb" => Code::BadMemory,
        "threads" => Code::BadThreads,
        "remaining" => Code::BadRemaining,
        "max_processes" => Code::BadMaximum,
        "user" => Code::BadUser,
        "tags" | "group_by" => Code::BadTags,
        "chunks" | "count" => Code::BadChunks,
        "min_processes" => Code::BadSizes,
        "time_per_item_ms" | "initialization_ms" | "investment_ms" | "duration_ms"
        | "not_before_ms" | "deadline_ms" => Code::BadTime,
        _ => Code::BadValue,
    }
}

fn check_values(work: &wire::Work, limits: &Limits) -> Result<(), RequestFault> {
    let highest_share = work.processes.iter().map(|process| process.share).max();
    let ranges = [
        ("memory_mb", work.memory_mb.unwrap_or(1), 1..=u64::MAX),
        ("threads", work.threads, 1..=THREADS_MAX),
        ("remaining", work.remaining, 0..=REMAINING_MAX),
        ("max_processes", work.max_processes.unwrap_or(1), 1..=u64::MAX),
        ("service_id", work.service_id.unwrap_or(1), 1..=u64::MAX),
        ("nodes", count(&work.nodes), 0..=limits.nodes.try_into().unwrap_or(u64::MAX)),
        ("processes", count(&work.processes), 0..=limits.processes.try_into().unwrap_or(u64::MAX)),
        ("processes", highest_share.unwrap_or(0), 0..=NUMBER_MAX),
    ];
    let bad = ranges.into_iter().find(|(_, value, range)| !range.contains(value));
    let Some((field, value, range)) = bad else { return Ok(()) };
    let (id, least, most) = (work.id, range.start(), range.end());
    let detail = format!("job {id}: `{field}` comes to {value}; allowed: {least} to {most}");
    Err(RequestFault::new(code_of_field(field), format!("/{field}"), detail))
}

fn count<T>(list: &[T]) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}

fn check_names(work: &wire::Work, bytes_max: usize) -> Result<(), RequestFault> {
    let bad = |code: Code, pointer: String, problem: String| {
        Err(RequestFault::new(code, pointer, format!("job {}: {problem}", work.id)))
    };
    if let Some(problem) = user_problem(&work.user, bytes_max) {
        return bad(Code::BadUser, "/user".to_owned(), problem);
    }
    if let Some(problem) = work.class.as_deref().and_then(|name| name_problem(name, bytes_max)) {
        return bad(Code::BadValue, "/class".to_owned(), problem);
    }
    if let Some(problem) = work.reservation.as_deref().and_then(|it| name_problem(it, bytes_max)) {
        return bad(Code::BadValue, "/reservation".to_owned(), problem);
    }
    for (index, node) in work.nodes.iter().enumerate() {
        if let Some(problem) = node_problem(node, bytes_max) {
            return bad(Code::BadValue, format!("/nodes/{index}"), problem);
        }
    }
    for (index, node) in work.except_nodes.iter().enumerate() {
        if let Some(problem) = node_problem(node, bytes_max) {
            return bad(Code::BadValue, format!("/except_nodes/{index}"), problem);
        }
    }
    if let Some(problem) = tags_problem(&work.tags) {
        return bad(Code::BadTags, "/tags".to_owned(), problem);
    }
    for (index, process) in work.processes.iter().enumerate() {
        if let Some(problem) = node_problem(&process.node, bytes_max) {
            return bad(Code::BadValue, format!("/processes/{index}/node"), problem);
        }
    }
    Ok(())
}

/// Memory of a process of the job; of a gang, of its largest.
fn memory_of(work: &wire::Work, shape: Option<&Shape>) -> Result<Mebibytes, RequestFault> {
    let memory = shape.and_then(Shape::largest_process).or(work.memory_mb.map(Mebibytes));
    memory.ok_or_else(|| {
        let detail = format!("job {}: missing field `memory_mb`; or give `chunks`", work.id);
        RequestFault::new(Code::BadMemory, "/memory_mb", detail)
    })
}

/// Returns the class that the job names; else its class before, else the default for its kind.
fn class_of(
    work: &wire::Work,
    before: Option<&PublishedJob>,
    topology: &Topology,
) -> Result<Name, RequestFault> {
    let default =
        || topology.classes.iter().find(|class| class.is_default && fits(work.kind, &class.policy));
    let class = work
        .class
        .as_deref()
        .map(Name::from)
        .or_else(|| before.map(|before| before.spec.class.clone()))
        .or_else(|| default().map(|class| class.name.clone()));
    class.ok_or_else(|| {
        let detail = format!(
            "job {} names no class, and no class is the default for a {}; name one of {}",
            work.id,
            kind_name(work.kind),
            topology
                .classes
                .iter()
                .map(|class| format!("`{}`", class.name))
                .collect::<Vec<_>>()
                .join(", ")
        );
        RequestFault::new(Code::NoDefaultClass, "/class", detail)
    })
}

/// True if a job of this kind goes to a class of this policy when it names none.
fn fits(kind: wire::WorkKind, policy: &ClassPolicy) -> bool {
    match kind {
        wire::WorkKind::Job => matches!(policy, ClassPolicy::FairShare { .. }),
        wire::WorkKind::Service | wire::WorkKind::ArbitraryProcess => {
            matches!(policy, ClassPolicy::FixedShare)
        }
        wire::WorkKind::Reservation => matches!(policy, ClassPolicy::Reserve),
    }
}

fn kind_name(kind: wire::WorkKind) -> &'static str {
    match kind {
        wire::WorkKind::Job => "job",
        wire::WorkKind::Service => "service",
        wire::WorkKind::ArbitraryProcess => "arbitrary process",
        wire::WorkKind::Reservation => "reservation",
    }
}

fn processes_of(work: &wire::Work) -> Result<BTreeMap<ShareId, PublishedProcess>, RequestFault> {
    let mut processes = BTreeMap::new();
    for (index, process) in work.processes.iter().enumerate() {
        let share = ShareId(process.share);
        if processes.insert(share, process_of(process)).is_some() {
            let detail = format!("job {} lists two processes in share {share}", work.id);
            return Err(RequestFault::new(
                Code::DuplicateShare,
                format!("/processes/{index}/share"),
                detail,
            ));
        }
    }
    Ok(processes)
}

fn process_of(process: &wire::Process) -> PublishedProcess {
    use wire::ProcessState::{Gone, Initializing, Running, Starting, Stopping};
    let is_initialized = match process.state {
        Starting | Initializing => false,
        Running => true,
        // A stopping process no longer reports its progress; only an initialized process has work
        // to lose.
        Stopping | Gone => process.investment_ms > 0,
    };
    PublishedProcess {
        node: process.node.as_str().into(),
        is_gone: process.state == Gone,
        facts: ShareFacts {
            is_initialized,
            initialization: known(process.initialization_ms),
            investment: known(process.investment_ms),
        },
    }
}

/// A time that cannot be is as good as none.
fn known(millis: i64) -> u64 {
    u64::try_from(millis).ok().filter(|_| millis <= TIME_MAX).unwrap_or(0)
}

fn spec_of(work: wire::Work, class: String, memory: Mebibytes, shape: Option<Shape>) -> JobSpec {
    // The work of a gang is its processes.
    let processes = shape.as_ref().filter(|shape| shape.is_gang()).map(Shape::processes);
    let facts = JobFacts {
        remaining: processes.unwrap_or(work.remaining),
        limit: match processes.or(work.max_processes) {
            _ if work.frozen => ProcessLimit::Frozen,
            Some(most) => ProcessLimit::AtMost(most),
            None => ProcessLimit::Unlimited,
        },
        is_running: work.running || work.state == wire::WorkState::Running,
        time_per_item: work.time_per_item_ms.map(known).filter(|&time| time > 0),
        is_completing: work.state == wire::WorkState::Completing,
    };
    JobSpec {
        shape: shape.map(Arc::new),
        tags: Tags::of(work.tags),
        id: JobId(work.id),
        user: work.user.into(),
        class: class.into(),
        kind: kind_of(work.kind),
        memory,
        threads: if processes.is_some() { 1 } else { work.threads },
        submitted: work.submitted_ms,
        nodes: work.nodes,
        except_nodes: work.except_nodes.into_iter().map(Name::from).collect(),
        service: work.service_id.unwrap_or(0),
        facts,
    }
}

fn kind_of(kind: wire::WorkKind) -> JobKind {
    match kind {
        wire::WorkKind::Job => JobKind::Job,
        wire::WorkKind::Service => JobKind::Service,
        wire::WorkKind::ArbitraryProcess => JobKind::ArbitraryProcess,
        wire::WorkKind::Reservation => JobKind::Reservation,
    }
}

fn state_of(state: wire::WorkState) -> JobState {
    match state {
        wire::WorkState::Waiting => JobState::NotReady,
        wire::WorkState::Schedulable | wire::WorkState::Running => JobState::Schedulable,
        wire::WorkState::Completing => JobState::Completing,
        wire::WorkState::Completed => JobState::Completed,
    }
}

fn warnings_about(work: &wire::Work) -> Vec<RequestFault> {
    let mut warnings = Vec::new();
    let mut warn_of_time = |time: i64, pointer: String| {
        if !(0..=TIME_MAX).contains(&time) {
            let detail = format!("job {}: a time of {time} ms is taken as unknown", work.id);
            warnings.push(RequestFault::new(Code::BadTime, pointer, detail));
        }
    };
    warn_of_time(work.time_per_item_ms.unwrap_or(0), "/time_per_item_ms".to_owned());
    for (index, process) in work.processes.iter().enumerate() {
        warn_of_time(process.initialization_ms, format!("/processes/{index}/initialization_ms"));
        warn_of_time(process.investment_ms, format!("/processes/{index}/investment_ms"));
    }
    let is_live = |process: &wire::Process| process.state != wire::ProcessState::Gone;
    if work.state == wire::WorkState::Completed && work.processes.iter().any(is_live) {
        let detail =
            format!("job {} is completed but has live processes; their space stays taken", work.id);
        warnings.push(RequestFault::new(Code::CompletedButLive, "/processes", detail));
    }
    warnings
}
