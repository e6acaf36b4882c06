//! Choice of the jobs that `why` explains: the named jobs, or the job that people ask about first.

use std::cmp::Reverse;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::answer::{Several, ShownAnswer};
use super::args::WhyArgs as Args;
use super::client::DaemonClient;
use super::failure::Failure;
use super::table::plain;
use super::text::TextStyle;
use super::user_name::own_name;
use crate::api::wire::JobInfo;

/// Returns the explanation of each named job; of the most interesting job if none is named.
///
/// # Errors
///
/// If there is no such job, or the daemon cannot be reached.
pub(super) async fn each<T: DeserializeOwned + Serialize>(
    client: &DaemonClient,
    args: &Args,
    query: &[(&str, &str)],
) -> Result<Chosen<T>, Failure> {
    let mut numbers = args.jobs.clone();
    let mut note = None;
    if numbers.is_empty() {
        let page = client.jobs(&[("waiting", "true")]).await?;
        let choice = most_interesting(&page.jobs, own_name().as_deref());
        note = Some(choice.map_or_else(
            || "No job waits: all have what they could use.".to_owned(),
            |(job, why)| format!("job {} of {}, which {why}:", job.id, plain(&job.user)),
        ));
        numbers.extend(choice.map(|(job, _)| job.id));
    }
    let mut answers = Vec::new();
    for job in numbers {
        answers.push(client.get(&["v1", "jobs", &job.to_string(), "why"], query).await?);
    }
    Ok(Chosen { note, answers: Several(answers) })
}

/// Explanations, with a note of how their job was chosen.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Chosen<T: Serialize> {
    #[serde(skip)]
    note: Option<String>,
    answers: Several<T>,
}

impl<T: ShownAnswer<Entry = T>> ShownAnswer for Chosen<T> {
    type Entry = T;

    fn entries(&self) -> &[T] {
        self.answers.entries()
    }

    fn name(entry: &T) -> String {
        T::name(entry)
    }

    fn render(&self, look: TextStyle) -> String {
        let shown = self.answers.render(look);
        let parts = self.note.iter().map(String::as_str).chain([shown.as_str()]);
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

/// Returns the job of `waiting` that people ask about first, with the reason. Jobs of `own` come
/// first, if any waits. Of these it is the job that has waited longest without a process. If every
/// job has a process, it is the job that lacks most of its target.
fn most_interesting<'a>(
    waiting: &'a [JobInfo],
    own: Option<&str>,
) -> Option<(&'a JobInfo, &'static str)> {
    let is_own = |job: &JobInfo| own.is_some_and(|own| job.user == own);
    let has_own = waiting.iter().any(is_own);
    let candidates = || waiting.iter().filter(|job| !has_own || is_own(job));
    let oldest = |job: &&JobInfo| (job.submitted_ms, job.id);
    if let Some(job) = candidates().filter(|job| job.sums.held == 0).min_by_key(oldest) {
        return Some((job, "has waited longest without a process"));
    }
    let lacks = |job: &JobInfo| {
        let processes = job.sums.given.saturating_sub(job.sums.held);
        processes.saturating_mul(job.memory_mb)
    };
    let furthest = candidates().max_by_key(|job| (lacks(job), Reverse(oldest(job))))?;
    let why = if lacks(furthest) == 0 {
        "has waited longest for more"
    } else {
        "lacks most of its target"
    };
    Some((furthest, why))
}
