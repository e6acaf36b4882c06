//! Urgent jobs in publications: a job that was accepted is known, and an orchestrator may have a
//! publication in flight that does not have it yet.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::api::http::error::{Code, RequestFault};
use crate::api::ingest::validate::check_work;
use crate::api::limits::Limits;
use crate::converter::{CheckedPublication, JobState, PublishedJob};
use crate::model::JobId;
use crate::scheduler::{JobChannel, View};

/// Publications after the acceptance of an urgent job from which on its absence ends it: an
/// orchestrator sends a publication at a time, so the second was made after the acceptance.
const PUBLICATIONS: u32 = 2;

/// Urgent jobs that a publication may still leave out.
#[derive(Debug, Default)]
pub struct UrgentGrace(BTreeMap<JobId, Accepted>);

/// An urgent job since its acceptance.
#[derive(Debug)]
struct Accepted {
    work: PublishedJob,
    /// Publications since.
    publications: u32,
}

impl UrgentGrace {
    /// Enters a job that was accepted.
    pub(super) fn enter(&mut self, work: &PublishedJob) {
        let accepted = Accepted { work: work.clone(), publications: 0 };
        self.0.insert(work.spec.id, accepted);
    }

    /// Enters the urgent jobs of an earlier run of the daemon of which no process was published: it
    /// is not known how many publications came since their acceptance.
    pub(super) fn resume(&mut self, before: &CheckedPublication, view: &View) {
        let unseen = view
            .jobs
            .iter()
            .filter(|job| job.urgent.is_some() && !job.shares.iter().any(|share| share.is_seen));
        for work in unseen.filter_map(|job| before.work.get(&job.id)) {
            if !self.0.contains_key(&work.spec.id) {
                self.enter(work);
            }
        }
    }

    /// Adds to the `work` of a publication the jobs that it may leave out.
    pub(super) fn fill(&self, work: &mut BTreeMap<JobId, PublishedJob>, is_again: bool) {
        for (job, accepted) in &self.0 {
            if is_again || accepted.publications + 1 < PUBLICATIONS {
                work.entry(*job).or_insert_with(|| accepted.work.clone());
            }
        }
    }

    /// Counts a publication that was taken in.
    pub(super) fn count(&mut self) {
        self.0.retain(|_, accepted| {
            accepted.publications += 1;
            accepted.publications < PUBLICATIONS
        });
    }
}

/// Jobs that came by the channel of urgent work.
#[derive(Debug)]
pub(super) struct UrgentJobs(BTreeSet<JobId>);

impl UrgentJobs {
    /// The jobs of a view.
    pub(super) fn of(view: &View) -> UrgentJobs {
        let urgent = view.jobs.iter().filter(|job| job.urgent.is_some());
        UrgentJobs(urgent.map(|job| job.id).collect())
    }

    /// Way by which a job came, as far as the view knows it.
    pub(super) fn channel(&self, id: JobId) -> JobChannel {
        if self.0.contains(&id) { JobChannel::Urgent } else { JobChannel::Publication }
    }
}

/// Way by which a job came. A job that is not known comes as urgent now.
fn channel_of(view: &View, id: JobId) -> JobChannel {
    let known = view.jobs.iter().find(|job| job.id == id);
    let is_urgent = known.is_none_or(|known| known.urgent.is_some());
    if is_urgent { JobChannel::Urgent } else { JobChannel::Publication }
}

/// The text, with the time of submission of a known job: a repeated request is made later.
fn same_time<'t, 'k>(
    text: &'t str,
    known: &impl Fn(JobId) -> Option<&'k PublishedJob>,
) -> Cow<'t, str> {
    let item: Result<Map<String, Value>, _> = serde_json::from_str(text);
    let Ok(mut item) = item else { return text.into() };
    let id = item.get("id").and_then(Value::as_u64).map(JobId);
    match (id.and_then(known), item.get_mut("submitted_ms")) {
        (Some(known), Some(time)) if time.is_u64() => {
            *time = known.spec.submitted.into();
            Value::Object(item).to_string().into()
        }
        _ => text.into(),
    }
}

/// Reads an urgent request: an item of a publication, without processes.
pub(super) fn read_urgent<'k>(
    text: &str,
    known: impl Fn(JobId) -> Option<&'k PublishedJob>,
    view: &View,
    limits: &Limits,
) -> Result<PublishedJob, RequestFault> {
    let before = |id| (known(id).cloned(), channel_of(view, id));
    let text = same_time(text, &known);
    let (work, _) = check_work(&text, before, &view.topology, limits)?;
    let id = work.spec.id;
    if !work.processes.is_empty() {
        let detail = format!("job {id} has processes; an urgent request has none yet");
        return Err(RequestFault::new(Code::BadValue, "/processes", detail));
    }
    if work.state != JobState::Schedulable {
        let detail = format!("job {id} is not `schedulable`; an urgent request is");
        return Err(RequestFault::new(Code::BadValue, "/state", detail));
    }
    Ok(work)
}
