//! The time on the wall: for people and for the record; it decides nothing.

/// The time, in milliseconds since the epoch.
pub(super) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
