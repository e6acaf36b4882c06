//! The time on the wall: for people and for the record. It decides nothing but when windows of
//! nodes open and close.

use crate::scheduler::SchedulerEvent;

/// The time, in milliseconds since the epoch.
pub(super) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Event that tells the scheduler the time.
pub(super) fn time_is() -> SchedulerEvent {
    SchedulerEvent::TimeIs { now: u64::try_from(now_ms()).unwrap_or(0) }
}
