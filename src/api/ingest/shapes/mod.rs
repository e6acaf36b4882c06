//! Chunks, sizes and durations of a job, checked.

use std::sync::Arc;

use crate::api::http::error::{Code, RequestFault};
use crate::api::ingest::names::tags_problem;
use crate::api::limits::Limits;
use crate::api::wire;
use crate::converter::PublishedJob;
use crate::model::{Elasticity, LegalSizes, Millis, Place, Shape, ShapeProblem, is_tag_key, span};

/// No job may declare a longer duration: ten years, in milliseconds.
const DURATION_MAX: Millis = 10 * 365 * 24 * 3_600_000;

/// No moment may be later: the end of the year 9999, in milliseconds since the epoch.
const MOMENT_MAX: Millis = 253_402_300_799_999;

/// Reads the shape of a job; `None` for a job whose processes come and go independently.
///
/// # Errors
///
/// The first field that cannot be, or that contradicts another.
pub fn shape_of(work: &wire::Work, limits: &Limits) -> Result<Option<Shape>, RequestFault> {
    let fault = |(code, pointer, problem): FieldProblem| {
        RequestFault::new(code, pointer, format!("job {}: {problem}", work.id))
    };
    fields_problem(work).map_or(Ok(()), |problem| Err(fault(problem)))?;
    let duration = duration_of(work).map_err(fault)?;
    let (not_before, deadline) = moments_of(work).map_err(fault)?;
    let chunks = work.chunks.as_deref().unwrap_or_default();
    let shape = Shape {
        chunks: chunks.iter().map(Into::into).collect(),
        place: work.place.map_or(Place::Free, Into::into),
        is_exclusive: work.exclusive,
        group_by: work.group_by.as_deref().map(Into::into),
        may_span: work.span,
        elasticity: work.elasticity.map(Into::into),
        min_processes: work.min_processes,
        legal_sizes: work.legal_sizes.as_ref().map_or(LegalSizes::Any, Into::into),
        duration,
        not_before,
        deadline,
        reservation: work.reservation.as_deref().map(Into::into),
    };
    if let Some(problem) = shape.problem(work.max_processes) {
        return Err(fault(located(problem, &shape)));
    }
    let most = u64::try_from(limits.processes).unwrap_or(u64::MAX);
    if most < shape.processes() {
        let problem = format!(
            "its chunks have {} processes; the limit is {most}, `daemon.limits.max_processes_per_job`",
            shape.processes()
        );
        return Err(fault((Code::BadChunks, "/chunks".to_owned(), problem)));
    }
    Ok((shape != Shape::default()).then_some(shape))
}

/// Code, pointer and description of a problem.
type FieldProblem = (Code, String, String);

/// The first problem that a single field has, or has with `chunks`.
fn fields_problem(work: &wire::Work) -> Option<FieldProblem> {
    let bad = |code: Code, pointer: &str, problem: &str| {
        Some((code, pointer.to_owned(), problem.to_owned()))
    };
    let is_job = work.kind == wire::WorkKind::Job;
    let Some(chunks) = &work.chunks else {
        let only_with_chunks = [
            ("/place", work.place.is_some_and(|place| place != wire::ChunkPlace::Free)),
            ("/exclusive", work.exclusive),
            ("/group_by", work.group_by.is_some()),
            ("/span", work.span.is_some()),
        ];
        let present = only_with_chunks.iter().find(|(_, is_present)| *is_present);
        if let Some((pointer, _)) = present {
            return bad(Code::BadChunks, pointer, "it has no chunks; leave this out, or give some");
        }
        let is_elastic = work.elasticity.is_some_and(|word| word != wire::ElasticityWord::Rigid);
        let only_of_jobs = [
            ("/elasticity", is_elastic),
            ("/min_processes", 1 < work.min_processes),
            ("/legal_sizes", work.legal_sizes.is_some()),
        ];
        let present = only_of_jobs.iter().find(|(_, is_present)| *is_present && !is_job);
        return present.and_then(|(pointer, _)| {
            bad(Code::BadSizes, pointer, "it is a single process; leave this out")
        });
    };
    if !is_job {
        return bad(Code::BadChunks, "/chunks", "chunks are for kind `job` only; leave them out");
    }
    if chunks.is_empty() {
        return bad(Code::BadChunks, "/chunks", "`chunks` is empty; give some, or leave it out");
    }
    let beside_chunks = [
        ("/memory_mb", work.memory_mb.is_some()),
        ("/max_processes", work.max_processes.is_some()),
        ("/tags", !work.tags.is_empty()),
    ];
    if let Some((pointer, _)) = beside_chunks.iter().find(|(_, is_present)| *is_present) {
        return bad(Code::BadChunks, pointer, "its chunks say that; leave this out");
    }
    for (index, chunk) in chunks.iter().enumerate() {
        if let Some(problem) = tags_problem(&chunk.tags) {
            return Some((Code::BadTags, format!("/chunks/{index}/tags"), problem));
        }
    }
    let bad_key = work.group_by.as_deref().filter(|key| !is_tag_key(key));
    bad_key.and_then(|_| {
        let problem = "a key of a tag has 1 to 64 of a-z, 0-9, `_`, `.` and `-`";
        bad(Code::BadTags, "/group_by", problem)
    })
}

fn duration_of(work: &wire::Work) -> Result<Option<Millis>, FieldProblem> {
    let Some(declared) = work.duration_ms else { return Ok(None) };
    let duration = Millis::try_from(declared).ok().filter(|time| (1..=DURATION_MAX).contains(time));
    duration.map(Some).ok_or_else(|| {
        let problem =
            format!("a duration of {declared} ms cannot be; allowed: 1 to {DURATION_MAX}");
        (Code::BadTime, "/duration_ms".to_owned(), problem)
    })
}

/// Earliest start and latest end.
fn moments_of(work: &wire::Work) -> Result<(Option<Millis>, Option<Millis>), FieldProblem> {
    let bad = |field: &str, problem: String| (Code::BadTime, format!("/{field}"), problem);
    let moment = |field: &str, declared: Option<i64>| {
        let Some(declared) = declared else { return Ok(None) };
        let moment = Millis::try_from(declared).ok().filter(|time| *time <= MOMENT_MAX);
        moment.map(Some).ok_or_else(|| {
            let problem = format!("`{field}` comes to {declared}; allowed: 0 to {MOMENT_MAX}");
            bad(field, problem)
        })
    };
    let not_before = moment("not_before_ms", work.not_before_ms)?;
    let deadline = moment("deadline_ms", work.deadline_ms)?;
    if let (Some(start), Some(end)) = (not_before, deadline)
        && end <= start
    {
        let problem = "its deadline is not after its earliest start, `not_before_ms`".to_owned();
        return Err(bad("deadline_ms", problem));
    }
    Ok((not_before, deadline))
}

/// Finds the field that a contradiction is about.
fn located(problem: ShapeProblem, shape: &Shape) -> FieldProblem {
    let (code, pointer) = match problem {
        ShapeProblem::TooManyChunks { .. } => (Code::BadChunks, "/chunks".to_owned()),
        ShapeProblem::EmptyChunk { chunk } => (Code::BadChunks, format!("/chunks/{chunk}/count")),
        ShapeProblem::NoMemory { chunk } => (Code::BadChunks, format!("/chunks/{chunk}/memory_mb")),
        ShapeProblem::SeveralChunks => {
            let is_rigid = shape.elasticity.is_none_or(|it| it == Elasticity::Rigid);
            let field = match (is_rigid, 1 < shape.min_processes) {
                (false, _) => "/elasticity",
                (true, true) => "/min_processes",
                (true, false) => "/legal_sizes",
            };
            (Code::BadSizes, field.to_owned())
        }
        ShapeProblem::EvolvingMinimum | ShapeProblem::MinimumAboveMaximum { .. } => {
            (Code::BadSizes, "/min_processes".to_owned())
        }
        ShapeProblem::BadSizes | ShapeProblem::NoLegalSize { .. } => {
            (Code::BadSizes, "/legal_sizes".to_owned())
        }
    };
    (code, pointer, problem.to_string())
}

/// Keeps the shape that is known of a job where its owner may change it: the number of processes of
/// an evolving gang is a fact of the job and not of its shape. Another minimum of a malleable job has
/// no effect. Returns a warning for it, and for a running job that will run longer than declared: work
/// that waits for its end may start later.
pub fn keep_known(work: &mut PublishedJob, standing: &PublishedJob) -> Vec<RequestFault> {
    let mut warnings = Vec::new();
    let id = work.spec.id;
    let (Some(new), Some(known)) = (&work.spec.shape, &standing.spec.shape) else {
        return warnings;
    };
    let mut kept = Shape::clone(new);
    let is_elastic = |elasticity| known.elasticity == Some(elasticity);
    if let ([new], [known]) = (&mut kept.chunks[..], &known.chunks[..])
        && is_elastic(Elasticity::Evolving)
    {
        new.count = known.count;
    }
    if is_elastic(Elasticity::Malleable) && kept.min_processes != known.min_processes {
        let least = known.min_processes;
        let detail = format!("job {id}: `min_processes` stays {least}, as it was published before");
        warnings.push(RequestFault::new(Code::Immutable, "/min_processes", detail));
        kept.min_processes = least;
    }
    let runs = standing.processes.values().any(|process| !process.is_gone);
    if let (true, Some(before), Some(after)) = (runs, known.duration, kept.duration)
        && before < after
    {
        let (before, after) = (span(before), span(after));
        let detail = format!(
            "job {id} runs for {after} and not for {before}; work that waits for its end may start later"
        );
        warnings.push(RequestFault::new(Code::BadTime, "/duration_ms", detail));
    }
    work.spec.shape = Some(Arc::new(kept));
    warnings
}

#[cfg(test)]
mod tests;
