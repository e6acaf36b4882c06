//! Hours of classes for readers: whether a class is open, and how long until that changes.
//!
//! The scheduler knows these hours as spans of milliseconds. Here they get back their time zone.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::api::published::Published;
use crate::api::wire::{self, from_view};
use crate::config::ClassCalendar;
use crate::model::{Millis, span, state_of_hours};
use crate::scheduler::{ClassView, View};

/// Moment that a reader sees, and the time zone of its clock.
#[derive(Clone, Debug)]
pub struct CivilTime {
    /// Milliseconds since the epoch.
    pub now: Millis,
    /// Time zone of the hours of classes.
    pub zone: TimeZone,
}

impl CivilTime {
    /// The present, or the time of the past cycle that is shown.
    pub fn of(published: &Published) -> CivilTime {
        let present = || Timestamp::now().as_millisecond();
        let now = Millis::try_from(published.past_ms.unwrap_or_else(present)).unwrap_or(0);
        CivilTime { now, zone: published.calendar.zone.clone() }
    }

    /// The time on record, in UTC: a replay needs no time zones.
    pub fn recorded(view: &View) -> CivilTime {
        let now = view.planned.as_ref().and_then(|planned| planned.snapshot.now);
        CivilTime { now: now.unwrap_or(0), zone: TimeZone::UTC }
    }

    /// State of a class: "closed, opens in 3h".
    pub fn state(&self, is_open: bool, next_change: Option<Millis>) -> String {
        state_of_hours(is_open, next_change, self.now)
    }

    /// Sentence on a job that waits for its class. The class may be open, but close before the job
    /// ends.
    pub(super) fn closed(&self, closes: Option<Millis>, opens: Millis) -> String {
        match closes {
            None => format!("class closed: opens {}", self.until(opens)),
            Some(closes) => format!(
                "class closed: it closes in {}, too early for this job, and opens again {}",
                span(closes.saturating_sub(self.now)),
                self.until(opens)
            ),
        }
    }

    /// The time until a moment, and the moment as a clock shows it: "in 3h (2026-11-26 20:00 CET)".
    pub(super) fn until(&self, time: Millis) -> String {
        let clock = self.clock(time).map(|clock| format!(" ({clock})")).unwrap_or_default();
        format!("in {}{clock}", span(time.saturating_sub(self.now)))
    }

    /// A moment as a clock shows it: "2026-11-26 20:00 CET".
    fn clock(&self, time: Millis) -> Option<String> {
        let time = Timestamp::from_millisecond(i64::try_from(time).ok()?).ok()?;
        Some(time.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M %Z").to_string())
    }
}

/// State of a class at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoursNow {
    /// True if the class is open.
    pub is_open: bool,
    /// Moment at which it opens or closes next, in milliseconds since the epoch. `None`: not within
    /// the days that the scheduler knows.
    pub next_change: Option<Millis>,
}

impl HoursNow {
    /// State of `class` at `now`, in milliseconds since the epoch.
    pub fn of(view: &View, class: &str, now: Millis) -> HoursNow {
        let Some(spans) = view.hours.get(class) else {
            return HoursNow { is_open: true, next_change: None };
        };
        // Spans are ascending and apart.
        match spans.iter().find(|(_, close)| now < *close) {
            Some((open, close)) if *open <= now => {
                HoursNow { is_open: true, next_change: Some(*close) }
            }
            next => HoursNow { is_open: false, next_change: next.map(|(open, _)| *open) },
        }
    }

    /// Moment at which an open class closes.
    pub(super) fn closes(&self) -> Option<Millis> {
        self.next_change.filter(|_| self.is_open)
    }
}

/// Hours of the classes at the moment that a reader sees.
#[derive(Debug)]
pub struct ShownHours<'p> {
    calendar: &'p ClassCalendar,
    time: CivilTime,
}

impl<'p> ShownHours<'p> {
    /// Hours of what is published.
    pub fn of(published: &'p Published) -> ShownHours<'p> {
        ShownHours { calendar: &published.calendar, time: CivilTime::of(published) }
    }

    /// A class with its hours.
    pub fn class_info(&self, view: &View, class: &ClassView) -> Option<wire::ClassInfo> {
        let HoursNow { is_open, next_change } = HoursNow::of(view, &class.name, self.time.now);
        let active = self.calendar.text(&class.name);
        let info = from_view::class_info(view, class)?;
        Some(wire::ClassInfo { active, is_open, next_change_ms: next_change, ..info })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vienna(text: &str) -> CivilTime {
        let now = text.parse::<Timestamp>().unwrap().as_millisecond();
        CivilTime { now: now.try_into().unwrap(), zone: TimeZone::get("Europe/Vienna").unwrap() }
    }

    #[test]
    fn sentences_tell_the_time_until_a_class_opens() {
        let time = vienna("2026-11-26T16:00Z");
        let in_hours = |hours: u64| time.now + hours * 3_600_000;
        let closed = time.closed(None, in_hours(3));
        assert_eq!(closed, "class closed: opens in 3h (2026-11-26 20:00 CET)");
        let too_long = time.closed(Some(in_hours(2)), in_hours(26));
        let expected = "class closed: it closes in 2h, too early for this job, and opens again in \
                        1d 2h (2026-11-27 19:00 CET)";
        assert_eq!(too_long, expected);
        let summer = vienna("2026-07-01T00:00Z");
        assert!(summer.closed(None, summer.now).ends_with("in 0s (2026-07-01 02:00 CEST)"));
    }

    #[test]
    fn states_change_at_the_edges_of_spans() {
        let mut view =
            crate::scheduler::Scheduler::new(topology(), crate::model::ShareId(1)).view();
        let spans = vec![(10, 20), (30, 40)];
        view.hours = std::sync::Arc::new([("c".into(), spans)].into_iter().collect());
        let at = |now| HoursNow::of(&view, "c", now);
        let expected = [
            (9, false, Some(10)),
            (10, true, Some(20)),
            (19, true, Some(20)),
            (20, false, Some(30)),
            (40, false, None),
        ];
        for (now, is_open, next_change) in expected {
            assert_eq!(at(now), HoursNow { is_open, next_change }, "{now}");
        }
        assert_eq!(at(9).closes(), None);
        assert_eq!(HoursNow::of(&view, "d", 9), HoursNow { is_open: true, next_change: None });
    }

    fn topology() -> crate::model::Topology {
        let text =
            "[[nodepool]]\nname = 'p'\n[[class]]\nname = 'c'\npolicy = 'reserve'\nnodepool = 'p'\n";
        crate::config::parse("test.toml", text).unwrap().topology
    }
}
