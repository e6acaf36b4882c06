//! The latest published view: readers see it until the next cycle is stored.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::HeaderValue;

use crate::api::http::compression::SharedJson;
use crate::api::ingest::absence::AbsentSums;
use crate::api::wire::from_view::schedule_json;
use crate::config::ClassCalendar;
use crate::converter::{CheckedPublication, JobUpdate, update_of};
use crate::scheduler::{JobView, SharedList, View};

/// All that readers can see: the view after a stored cycle.
#[derive(Clone, Debug)]
pub struct Published {
    /// State of the cluster.
    pub view: View,
    /// Schedule for the orchestrator.
    pub schedule: Arc<ScheduleText>,
    /// True once a cycle has been planned and stored since the start.
    pub is_ready: bool,
    /// True while the state is being restored from the store. Until then only the schedule may be
    /// shown or built on.
    pub is_resuming: bool,
    /// Number of the last publication in the view.
    pub publication: Option<u64>,
    /// Processes that the last publication left out and that keep their space.
    pub absent: AbsentSums,
    /// Jobs in the store at the start, as the orchestrator had published them. The first
    /// publication since then is compared with them.
    pub taken_over: Option<Arc<CheckedPublication>>,
    /// Number of the last event that clients can get.
    pub last_event: u64,
    /// The number of the configuration in effect; 0 while none is.
    pub generation: u64,
    /// Hours of classes in the configuration in effect, and their time zone.
    pub calendar: Arc<ClassCalendar>,
    /// Time of a past cycle, in milliseconds since the epoch. `None`: the present.
    pub past_ms: Option<i64>,
    /// Time that planning took.
    pub planned_in: Duration,
    /// Time to prepare the data for the store, including the audit.
    pub prepared_in: Duration,
    /// Time that storing took.
    pub stored_in: Duration,
    /// The rules that the last audited cycle broke.
    pub findings: Vec<String>,
    /// Number of broken rules since the start.
    pub findings_total: u64,
    /// Durations of cycles since the start.
    pub times: CycleSpans,
}

/// Durations of planned cycles, for the status of the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CycleSpans {
    /// Number of planned cycles.
    pub cycles: u64,
    /// Planning, all of them together.
    pub planned: Duration,
    /// Planning, the longest.
    pub planned_max: Duration,
    /// Storing, all of them together.
    pub stored: Duration,
    /// Storing, the longest.
    pub stored_max: Duration,
}

impl CycleSpans {
    /// Adds a cycle to these durations.
    #[must_use]
    pub fn and(self, planned_in: Duration, stored_in: Duration) -> CycleSpans {
        CycleSpans {
            cycles: self.cycles + 1,
            planned: self.planned.saturating_add(planned_in),
            planned_max: self.planned_max.max(planned_in),
            stored: self.stored.saturating_add(stored_in),
            stored_max: self.stored_max.max(stored_in),
        }
    }
}

/// The update for the orchestrator, ready to be sent.
#[derive(Debug)]
pub struct ScheduleText {
    /// The cycle in which it came about.
    pub cycle: u64,
    /// Text of the update, as JSON.
    pub json: SharedJson,
    /// Tag of the update for HTTP. Weak: the same schedule may be spelled in another way.
    pub etag: HeaderValue,
}

impl ScheduleText {
    /// The update of `cycle`, as JSON.
    ///
    /// # Panics
    ///
    /// Never: a number in quotes is legal in a header.
    pub fn new(cycle: u64, json: Bytes) -> ScheduleText {
        let etag = HeaderValue::try_from(format!("W/\"{cycle}\""))
            .expect("digits and quotes are legal in a header");
        ScheduleText { cycle, json: json.into(), etag }
    }

    /// Returns the update made from `view`, whose last publication is `publication`. While nothing
    /// differs, returns that of `previous`, so that an equal schedule keeps its number. A job that
    /// only waits longer for the same reason makes no difference.
    pub fn following(
        previous: Option<&Published>,
        publication: Option<u64>,
        view: &View,
    ) -> Arc<ScheduleText> {
        match previous {
            Some(previous) if are_equivalent(&previous.view.jobs, &view.jobs) => {
                Arc::clone(&previous.schedule)
            }
            _ => {
                let json = Bytes::from(schedule_json(view.cycle, publication, &view.jobs));
                Arc::new(ScheduleText::new(view.cycle, json))
            }
        }
    }
}

/// True if the updates made from these jobs are equal.
fn are_equivalent(one: &Arc<SharedList<JobView>>, other: &Arc<SharedList<JobView>>) -> bool {
    let is_same = |one: &JobView, other: &JobView| {
        one == other || {
            let (one, other) = (update_of(one), update_of(other));
            one == other || is_same_but_later(&one, &other)
        }
    };
    Arc::ptr_eq(one, other) || one.eq_by(other, is_same)
}

/// True if two updates differ only in the numbers of a reason that grow with every cycle.
fn is_same_but_later(one: &JobUpdate, other: &JobUpdate) -> bool {
    let code = |update: &JobUpdate| update.reason.as_ref().map(|reason| reason.code);
    let is_counting = matches!(code(one), Some("too_dear" | "quiet_stop"));
    is_counting
        && code(one) == code(other)
        && *one == JobUpdate { reason: one.reason.clone(), ..other.clone() }
}
