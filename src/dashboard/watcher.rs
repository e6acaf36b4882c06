//! Reads every published view, and notes the facts that pages need later.
//!
//! It is a reader of the published view like any client: it may be late or skip a view, and the
//! daemon does not wait for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::account;
use super::past::{JobMoment, SharedNotes};
use super::samples::ChartSample;
use super::tell::{EventText, told};
use crate::api::{self, ApiState, Published, queries};
use crate::converter::code_of;
use crate::scheduler::{JobView, SharedList, View};

/// Wait before the next look at a view that came too soon after a sample.
const AGAIN: Duration = Duration::from_secs(1);

/// Longer than any daemon runs.
const NEVER: Duration = Duration::from_hours(24 * 365);

/// Watches until the daemon stops.
///
/// `began_at` is the last event before the start: only later events are counted here.
pub(super) async fn watch(api: &ApiState, past: &SharedNotes, began_at: u64) {
    let mut changes = api.board.changes();
    let mut jobs_before: Arc<SharedList<JobView>> = Arc::default();
    let mut last_event = None;
    let mut is_sampled = true;
    loop {
        let published = api.latest();
        if !published.is_resuming {
            let at_ms = jiff::Timestamp::now().as_millisecond();
            let told = events(api, &published, &mut last_event).await;
            let mut notes = past.notes();
            for told in told {
                if began_at < told.sequence {
                    notes.note_preempted(told.at_ms, told.preempted);
                }
                notes.tell(told);
            }
            is_sampled = notes.samples.is_due(at_ms);
            if is_sampled {
                notes.samples.push(sample(&published.view, at_ms));
            }
            drop(notes);
            note_jobs(past, &jobs_before, &published.view, at_ms);
            jobs_before = Arc::clone(&published.view.jobs);
        }
        // A view that came too soon after a sample is read again later: in a quiet cluster the next
        // view may be far off.
        let patience = if is_sampled { NEVER } else { AGAIN };
        if let Ok(Err(_)) = timeout(patience, changes.changed()).await {
            return;
        }
    }
}

/// Returns the events since the last call; at first, the latest in the store.
async fn events(api: &ApiState, published: &Published, last: &mut Option<u64>) -> Vec<EventText> {
    let first = published.last_event.saturating_sub(EVENTS_AT_START);
    let mut since = last.unwrap_or(first);
    let mut events = Vec::new();
    while since < published.last_event {
        let page = api::events_since(api, since).await.unwrap_or_default();
        // Unreadable events are in the log, and are left out here.
        since = page.last().map_or(published.last_event, |newest| newest.sequence);
        events.extend(page.iter().map(told));
    }
    *last = Some(since);
    events
}

/// Events read from before the start.
const EVENTS_AT_START: u64 = 64;

/// Notes the changes of jobs since the view before. Views share their unchanged parts.
fn note_jobs(past: &SharedNotes, before: &Arc<SharedList<JobView>>, view: &View, at_ms: i64) {
    if Arc::ptr_eq(before, &view.jobs) {
        return;
    }
    let drawn = view.jobs.changed_since(before, |job| (job.submitted, job.id));
    let is_news = |(job, old): &(&JobView, Option<&JobView>)| {
        old.is_none_or(|old| (old.held(), code(old)) != (job.held(), code(job)))
    };
    let news: Vec<(&JobView, JobMoment)> =
        drawn.filter(is_news).map(|(job, _)| (job, moment(job, view.cycle, at_ms))).collect();
    let ended = before.changed_since(&view.jobs, |job| (job.submitted, job.id));
    let ended = ended.filter(|(_, now)| now.is_none());
    let mut notes = past.notes();
    // Ended jobs first: a job that was submitted anew is among both.
    for (job, _) in ended {
        notes.end(job.id, view.cycle);
    }
    for (job, moment) in news {
        notes.note(job.id, &job.user, moment);
    }
}

fn code(job: &JobView) -> &'static str {
    job.reason.as_ref().map_or("", code_of)
}

fn moment(job: &JobView, cycle: u64, at_ms: i64) -> JobMoment {
    JobMoment { at_ms, cycle, held: job.held().0, demand: job.demand.0, reason: code(job) }
}

pub(super) fn sample(view: &View, at_ms: i64) -> ChartSample {
    let shares = queries::share_counts(view);
    let mut sample = ChartSample {
        at_ms,
        cycle: view.cycle,
        schedulable: shares.schedulable_mb,
        used: shares.used_mb,
        classes: account::classes(view)
            .into_iter()
            .map(|class| (class.name, class.figures))
            .collect(),
        users: account::users(view),
    };
    sample.bound();
    sample
}
