//! The latest published picture: what readers see until the next cycle is on record.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::HeaderValue;

use crate::api::http::compression::SharedJson;
use crate::api::ingest::absence::AbsentWork;
use crate::api::wire::from_view::schedule_json;
use crate::converter::{CheckedPublication, JobUpdate, update_of};
use crate::scheduler::{JobView, Pictures, View};

/// Everything readers can see: the books after a cycle that is on record.
#[derive(Clone, Debug)]
pub struct Published {
    /// The books.
    pub view: View,
    /// What the orchestrator gets.
    pub schedule: Arc<ScheduleText>,
    /// Whether a cycle has been planned and stored since the start.
    pub is_ready: bool,
    /// Whether the books are still on their way from the record: but for the schedule, nothing here
    /// is to be shown or built on.
    pub is_resuming: bool,
    /// The last publication in the books.
    pub publication: Option<u64>,
    /// What the last publication left out, and keeps its room.
    pub absent: AbsentWork,
    /// The work that the books had at the start, as the orchestrator had shown it: what its first
    /// publication since then is compared with.
    pub taken_over: Option<Arc<CheckedPublication>>,
    /// The number of the last event that those who follow can have.
    pub last_event: u64,
    /// The number of the configuration in effect; 0 while none is.
    pub generation: u64,
    /// How long planning took.
    pub planned_in: Duration,
    /// How long it took to prepare what goes on record, the audit included.
    pub prepared_in: Duration,
    /// How long storing took.
    pub stored_in: Duration,
    /// The rules that the last audited cycle broke.
    pub findings: Vec<String>,
    /// How often a rule was broken since the start.
    pub findings_total: u64,
    /// What cycles have taken since the start.
    pub times: CycleTimes,
}

/// What planned cycles have taken: for whoever asks how the daemon is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CycleTimes {
    /// How many there were.
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

impl CycleTimes {
    /// These and one more cycle.
    #[must_use]
    pub fn and(self, planned_in: Duration, stored_in: Duration) -> CycleTimes {
        CycleTimes {
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
    /// As JSON.
    pub json: SharedJson,
    /// How HTTP names it. Weak: the same schedule may be spelled in another way.
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

    /// The update made from `view`, in which `publication` is the last one; that of `previous` itself
    /// while nothing differs, so that the same thing gets no new number. That work waits longer for the
    /// same reason is not worth one.
    pub fn following(
        previous: Option<&Published>,
        publication: Option<u64>,
        view: &View,
    ) -> Arc<ScheduleText> {
        match previous {
            Some(previous) if say_the_same(&previous.view.jobs, &view.jobs) => {
                Arc::clone(&previous.schedule)
            }
            _ => {
                let json = Bytes::from(schedule_json(view.cycle, publication, &view.jobs));
                Arc::new(ScheduleText::new(view.cycle, json))
            }
        }
    }
}

/// Whether the updates made from them say the same.
fn say_the_same(one: &Arc<Pictures<JobView>>, other: &Arc<Pictures<JobView>>) -> bool {
    let is_same = |one: &JobView, other: &JobView| {
        one == other || {
            let (one, other) = (update_of(one), update_of(other));
            one == other || is_same_but_later(&one, &other)
        }
    };
    Arc::ptr_eq(one, other) || one.are_alike(other, is_same)
}

/// Whether they differ only in the numbers of a reason that grow with every cycle.
fn is_same_but_later(one: &JobUpdate, other: &JobUpdate) -> bool {
    let code = |update: &JobUpdate| update.reason.as_ref().map(|reason| reason.code);
    let is_counting = matches!(code(one), Some("too_dear" | "quiet_stop"));
    is_counting
        && code(one) == code(other)
        && *one == JobUpdate { reason: one.reason.clone(), ..other.clone() }
}
