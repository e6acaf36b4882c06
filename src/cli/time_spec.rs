//! Times on the command line: moments in the caller's time zone, and spans between them.

use clap::Args;
use jiff::civil::{DateTime, Time};
use jiff::{Span, Timestamp, Zoned};

use super::table::plain;

/// A moment as it was typed. It depends on the present where it names no date.
#[derive(Clone, Copy, Debug)]
pub enum TimeSpec {
    /// The present.
    Now,
    /// A span after the present.
    After(Span),
    /// A moment with an offset from UTC.
    Exact(Timestamp),
    /// A date and a time of day in the caller's time zone.
    Local(DateTime),
    /// The next moment with this time of day in the caller's time zone.
    Clock(Time),
}

const FORMS: &str =
    "write now, +2h, 18:00, 2026-12-01T18:00, or with an offset, 2026-12-01T18:00+01:00";

/// Parses a moment.
pub(super) fn parse_time(text: &str) -> Result<TimeSpec, String> {
    if text == "now" {
        return Ok(TimeSpec::Now);
    }
    if let Some(span) = text.strip_prefix('+') {
        return parse_length(span).map(TimeSpec::After);
    }
    let mut clock = ["%H:%M", "%H:%M:%S"].into_iter();
    if let Some(clock) = clock.find_map(|form| Time::strptime(form, text).ok()) {
        return Ok(TimeSpec::Clock(clock));
    }
    if let Ok(exact) = text.parse() {
        return Ok(TimeSpec::Exact(exact));
    }
    text.parse().map(TimeSpec::Local).map_err(|_| FORMS.to_owned())
}

/// Parses a length of time above 0, such as 90m, 2h or 1d.
pub(super) fn parse_length(text: &str) -> Result<Span, String> {
    let forms = || "write a length of time such as 90m, 2h or 1d".to_owned();
    let span: Span = text.parse().map_err(|_| forms())?;
    let is_fixed = span.get_years() == 0 && span.get_months() == 0;
    if is_fixed && span.is_positive() { Ok(span) } else { Err(forms()) }
}

impl TimeSpec {
    /// The moment, at the present of `now`. A time of day is the next after `earliest`.
    ///
    /// # Errors
    ///
    /// If the moment is beyond the years that calendars know.
    pub(super) fn resolve(self, now: &Zoned, earliest: &Zoned) -> Result<Zoned, jiff::Error> {
        let zone = now.time_zone();
        match self {
            TimeSpec::Now => Ok(now.clone()),
            TimeSpec::After(span) => now.checked_add(span),
            TimeSpec::Exact(time) => Ok(time.to_zoned(zone.clone())),
            // An hour that a clock change leaves out is taken later; of a repeated hour, the first counts.
            TimeSpec::Local(time) => zone.to_zoned(time),
            TimeSpec::Clock(clock) => {
                let today = earliest.with_time_zone(zone.clone()).date();
                let next = zone.to_zoned(today.to_datetime(clock))?;
                if earliest.timestamp() < next.timestamp() {
                    return Ok(next);
                }
                zone.to_zoned(today.tomorrow()?.to_datetime(clock))
            }
        }
    }
}

/// The start and the end of a reservation.
#[derive(Clone, Debug, Args)]
pub struct WindowTimes {
    /// The start: now, +2h, 18:00 (the next), or a date and time, with or without an offset
    /// from UTC
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub start: TimeSpec,
    /// The length, such as 90m, 2h or 1d
    #[arg(
        long = "for",
        value_name = "LENGTH",
        value_parser = parse_length,
        required_unless_present = "end",
        conflicts_with = "end"
    )]
    pub length: Option<Span>,
    /// The end, in place of a length; 20:00 is the next after the start
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub end: Option<TimeSpec>,
}

impl WindowTimes {
    /// Start and end, at the present of `now`.
    ///
    /// # Errors
    ///
    /// If a moment is beyond the years that calendars know.
    pub fn resolve(&self, now: &Zoned) -> Result<(Zoned, Zoned), jiff::Error> {
        let start = self.start.resolve(now, now)?;
        let end = match (self.length, self.end) {
            (Some(length), _) => start.checked_add(length)?,
            (None, Some(end)) => end.resolve(now, &start)?,
            (None, None) => start.clone(),
        };
        Ok((start, end))
    }
}

/// Milliseconds since the epoch; 0 before it.
pub(super) fn millis(time: &Zoned) -> u64 {
    u64::try_from(time.timestamp().as_millisecond()).unwrap_or(0)
}

/// A moment in the time zone of `now`: "2026-12-01 18:00", with seconds where there are some.
pub(super) fn local(ms: u64, now: &Zoned) -> String {
    shown(ms, now, true)
}

/// A moment in the time zone of `now`, without its seconds.
pub(super) fn to_the_minute(ms: u64, now: &Zoned) -> String {
    shown(ms, now, false)
}

fn shown(ms: u64, now: &Zoned, is_exact: bool) -> String {
    zoned(ms, now).map_or_else(
        || ms.to_string(),
        |time| {
            let has_seconds = is_exact && time.second() != 0;
            let form = if has_seconds { "%Y-%m-%d %H:%M:%S" } else { "%Y-%m-%d %H:%M" };
            time.strftime(form).to_string()
        },
    )
}

/// The name of the time zone of `now` at a moment.
pub(super) fn zone(ms: u64, now: &Zoned) -> String {
    let name = zoned(ms, now).map(|time| time.strftime("%Z").to_string());
    plain(&name.unwrap_or_default())
}

fn zoned(ms: u64, now: &Zoned) -> Option<Zoned> {
    let time = Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()?;
    Some(time.to_zoned(now.time_zone().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    /// 26 November 2026, 15:30 in Vienna.
    fn now(zone: &str) -> Zoned {
        let time: Timestamp = "2026-11-26T14:30:00Z".parse().unwrap();
        time.to_zoned(TimeZone::posix(zone).unwrap())
    }

    const VIENNA: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

    #[test]
    fn moments_are_of_the_callers_zone() {
        let cases = [
            ("now", "2026-11-26T14:30:00Z"),
            ("+2h", "2026-11-26T16:30:00Z"),
            ("+1d", "2026-11-27T14:30:00Z"),
            ("18:00", "2026-11-26T17:00:00Z"),
            ("15:30", "2026-11-27T14:30:00Z"),
            ("09:15:30", "2026-11-27T08:15:30Z"),
            ("2026-12-01T18:00", "2026-12-01T17:00:00Z"),
            ("2026-12-01 18:00", "2026-12-01T17:00:00Z"),
            ("2026-12-01", "2026-11-30T23:00:00Z"),
            ("2026-12-01T18:00Z", "2026-12-01T18:00:00Z"),
            ("2026-12-01T18:00:00-05:00", "2026-12-01T23:00:00Z"),
            // The hour that is left out in spring, and the hour that comes twice in autumn.
            ("2027-03-28T02:30", "2027-03-28T01:30:00Z"),
            ("2026-10-25T02:30", "2026-10-25T00:30:00Z"),
        ];
        let now = now(VIENNA);
        for (text, expected) in cases {
            let time = parse_time(text).unwrap().resolve(&now, &now).unwrap();
            assert_eq!(time.timestamp().to_string(), expected, "{text}");
        }
        for wrong in ["", "tomorrow", "25:00", "+0s", "+-2h", "2026-13-01", "+1mo"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_end_follows_its_start() {
        let now = now(VIENNA);
        let times = |start: &str, length: Option<&str>, end: Option<&str>| {
            let times = WindowTimes {
                start: parse_time(start).unwrap(),
                length: length.map(|text| parse_length(text).unwrap()),
                end: end.map(|text| parse_time(text).unwrap()),
            };
            let (start, end) = times.resolve(&now).unwrap();
            (millis(&end) - millis(&start)).div_euclid(60_000)
        };
        assert_eq!(times("18:00", Some("2h"), None), 120);
        assert_eq!(times("18:00", None, Some("06:00")), 720);
        assert_eq!(times("18:00", None, Some("20:00")), 120);
        assert_eq!(times("now", None, Some("+90m")), 90);
        // A day with a change of clocks.
        assert_eq!(times("2027-03-27T18:00", Some("1d"), None), 23 * 60);
    }

    #[test]
    fn moments_are_shown_in_the_callers_zone() {
        let now = now(VIENNA);
        let ms = millis(&now);
        assert_eq!(local(ms, &now), "2026-11-26 15:30");
        assert_eq!(local(ms + 5_000, &now), "2026-11-26 15:30:05");
        assert_eq!(to_the_minute(ms + 5_000, &now), "2026-11-26 15:30");
        assert_eq!(zone(ms, &now), "CET");
        assert_eq!(local(u64::MAX, &now), u64::MAX.to_string());
    }
}
