//! Work as it arrives: from the text of a scenario to the request that the scheduler gets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::actor::JobActor;
use super::scenario::{JobInput, KindInput};
use crate::model::{
    JobFacts, JobId, JobKind, JobSpec, Mebibytes, Millis, ProcessLimit, Shape, Tags,
};
use crate::sim::error::Flaw;

/// Submission time of the first job if the scenario gives none; each later job follows after a
/// second.
const FIRST_SUBMISSION: Millis = 1_600_000_000_000;

/// Builds the request of `input`, which is the arrival of that number, from 0.
pub(super) fn request(input: &JobInput, arrival: u64) -> Result<JobSpec, Flaw> {
    let kind = match input.kind {
        KindInput::Job => JobKind::Job,
        KindInput::Service => JobKind::Service,
        KindInput::Ap => JobKind::ArbitraryProcess,
        KindInput::Reservation => JobKind::Reservation,
    };
    if input.threads == 0 {
        return Err(Flaw::new("", format!("job {} has 0 threads", input.id), "give at least 1"));
    }
    let most = input.max_processes.and_then(|most| u64::try_from(most).ok());
    let shape = input.shape.read(most)?;
    let gang = shape.as_ref().filter(|shape| shape.is_gang());
    let limit = match (gang, kind) {
        (Some(gang), _) => ProcessLimit::AtMost(gang.processes()),
        (None, JobKind::Job) => limit(input.max_processes),
        (None, _) => ProcessLimit::AtMost(1),
    };
    Ok(JobSpec {
        tags: Tags::of(&input.tags),
        id: JobId(input.id),
        user: input.user.as_str().into(),
        class: input.class.as_str().into(),
        kind,
        memory: memory(input, gang)?,
        threads: input.threads,
        submitted: input.submit.unwrap_or(FIRST_SUBMISSION + 1_000 * arrival),
        nodes: input.nodes.clone(),
        except_nodes: Vec::new(),
        service: input.service_id,
        facts: JobFacts {
            remaining: gang
                .map_or_else(|| input.work_items.saturating_sub(input.completed), Shape::processes),
            limit,
            is_running: false,
            time_per_item: Some(0),
            is_completing: false,
        },
        shape: shape.map(Arc::new),
    })
}

/// Memory of a process; of a gang, of its largest.
fn memory(input: &JobInput, gang: Option<&Shape>) -> Result<Mebibytes, Flaw> {
    match (input.memory_gb, gang.and_then(Shape::largest_process)) {
        (Some(gb), None) => Ok(Mebibytes::from_gib(gb)),
        (None, Some(memory)) => Ok(memory),
        (Some(_), Some(_)) => Err(Flaw::new(
            ".memGB",
            format!("the chunks of job {} say how much memory it needs", input.id),
            "leave `memGB` out",
        )),
        (None, None) => Err(Flaw::new(
            "",
            format!("job {} has no memory", input.id),
            "give `memGB`, or `chunks`",
        )),
    }
}

/// The limit that a scenario means: negative where the owner stopped the growth.
pub(super) fn limit(max_processes: Option<i64>) -> ProcessLimit {
    match max_processes.map(u64::try_from) {
        None => ProcessLimit::Unlimited,
        Some(Ok(most)) => ProcessLimit::AtMost(most),
        Some(Err(_)) => ProcessLimit::Frozen,
    }
}

impl JobActor {
    /// The job of a request that has just arrived.
    pub(super) fn new(input: &JobInput, spec: &JobSpec) -> JobActor {
        JobActor {
            kind: spec.kind,
            total: input.work_items,
            facts: spec.facts,
            shares: BTreeMap::new(),
            purged: BTreeSet::new(),
            shape: spec.shape.clone(),
            runs_for: input.runs_for_ms,
            started: None,
        }
    }
}
