//! Civil time: turns the hours of classes into spans of milliseconds for the scheduler.
//!
//! Spans are made for whole days of UTC, so they depend on the rules and the day alone. The
//! scheduler thus gets them once a day, and a restart within the day changes nothing. At any moment
//! at least the next 8 days are known.
//!
//! Design: requests and time, section 2 "Time".

use std::collections::BTreeMap;

use crate::config::{ClassCalendar, OpenSpan, open_spans};
use crate::model::Name;

/// Milliseconds of a day of UTC.
const DAY: i64 = 24 * 3_600_000;
/// Days from the begin of today, for which spans are told: 8 and today.
const AHEAD: i64 = 9;
/// Days before today for which spans are told. A close that is just past is still known.
const BEHIND: i64 = 1;

/// Spans of each class.
type HoursByClass = Vec<(Name, Vec<OpenSpan>)>;

/// Day for which the scheduler was told the hours. A new teller tells them anew.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HoursTeller {
    /// Days since the epoch; `None` if the rules are new.
    day: Option<i64>,
}

impl HoursTeller {
    /// Returns the hours of all classes at `now`, in milliseconds, if the scheduler knows others.
    pub(super) fn news(
        &mut self,
        calendar: &ClassCalendar,
        known: &BTreeMap<Name, Vec<OpenSpan>>,
        now: i64,
    ) -> Option<HoursByClass> {
        let day = now.div_euclid(DAY);
        if self.day == Some(day) {
            return None;
        }
        self.day = Some(day);
        let (from, to) = ((day - BEHIND) * DAY, (day + AHEAD) * DAY);
        let classes = calendar.classes.iter();
        let hours: HoursByClass = classes
            .map(|(class, hours)| (class.clone(), open_spans(hours, &calendar.zone, from, to)))
            .collect();
        let is_known = known.iter().eq(hours.iter().map(|(class, spans)| (class, spans)));
        (!is_known).then_some(hours)
    }
}

#[cfg(test)]
mod tests;
