//! Hours over both changes of the clocks in two time zones, and counted again minute by minute.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;

use super::*;
use crate::config::closed_until;
use crate::model::{ActiveEntry, ActiveHours, Millis};

/// Milliseconds of a minute.
const MINUTE: i64 = 60_000;

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

fn hours(entries: &[&str]) -> ActiveHours {
    ActiveHours(entries.iter().map(|entry| entry.parse().unwrap()).collect())
}

fn utc(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

/// Spans from the begin of `first` until the end of `last`, in UTC: "28T19:00 29T04:00".
fn spans_of(entries: &[&str], name: &str, first: &str, last: &str) -> Vec<String> {
    let midnight = |day: &str| utc(&format!("{day}T00:00Z"));
    let (from, to) = (midnight(first), midnight(last) + DAY);
    let text = |time: Millis| {
        let time = Timestamp::from_millisecond(time.try_into().unwrap()).unwrap();
        time.strftime("%dT%H:%M").to_string()
    };
    let spans = open_spans(&hours(entries), &zone(name), from, to).into_iter();
    spans.map(|(open, close)| format!("{} {}", text(open), text(close))).collect()
}

/// Entries, zone, first and last day, and the spans by hand, in UTC.
type Case = (&'static [&'static str], &'static str, [&'static str; 2], &'static [&'static str]);

const VIENNA: &str = "Europe/Vienna";
const NEW_YORK: &str = "America/New_York";
const CASES: &[Case] = &[
    // The night of Friday and the weekend touch.
    (
        &["mon-fri 20:00-06:00", "sat-sun"],
        VIENNA,
        ["2026-11-26", "2026-11-30"],
        &["25T19:00 26T05:00", "26T19:00 27T05:00", "27T19:00 29T23:00", "30T19:00 01T05:00"],
    ),
    // Entries overlap, touch across midnight, and wrap around the week.
    (
        &["tue 00:00-01:00", "fri-mon 22:00-24:00", "mon 22:30-23:00"],
        "UTC",
        ["2026-11-30", "2026-12-01"],
        &["30T22:00 01T01:00"],
    ),
    // A day within a span shows all of it.
    (&["mon-fri"], VIENNA, ["2026-11-25", "2026-11-25"], &["22T23:00 27T23:00"]),
    // Clocks go from 02:00 to 03:00 at 01:00 in UTC.
    (&["sat 20:00-06:00"], VIENNA, ["2026-03-28", "2026-03-29"], &["28T19:00 29T04:00"]),
    (&["sun 02:00-03:00"], VIENNA, ["2026-03-28", "2026-03-29"], &[]),
    (&["sun 02:30-04:00"], VIENNA, ["2026-03-28", "2026-03-29"], &["29T01:00 29T02:00"]),
    (&["sun 01:00-02:30"], VIENNA, ["2026-03-28", "2026-03-29"], &["29T00:00 29T01:00"]),
    (&["sun"], VIENNA, ["2026-03-28", "2026-03-29"], &["28T23:00 29T22:00"]),
    // Clocks go from 03:00 to 02:00 at 01:00 in UTC.
    (&["sat 20:00-06:00"], VIENNA, ["2026-10-24", "2026-10-25"], &["24T18:00 25T05:00"]),
    (&["sun 02:00-03:00"], VIENNA, ["2026-10-24", "2026-10-25"], &["25T00:00 25T02:00"]),
    (&["sun 02:30-03:00"], VIENNA, ["2026-10-24", "2026-10-25"], &["25T00:30 25T02:00"]),
    (&["sun 01:00-02:30"], VIENNA, ["2026-10-24", "2026-10-25"], &["24T23:00 25T01:30"]),
    (&["sun 00:00-02:00"], VIENNA, ["2026-10-24", "2026-10-25"], &["24T22:00 25T00:00"]),
    (&["sun"], VIENNA, ["2026-10-24", "2026-10-25"], &["24T22:00 25T23:00"]),
    // Clocks go from 02:00 to 03:00 at 07:00 in UTC.
    (&["sat 22:00-04:00"], NEW_YORK, ["2026-03-08", "2026-03-08"], &["08T03:00 08T08:00"]),
    (&["sun 02:00-03:00"], NEW_YORK, ["2026-03-08", "2026-03-08"], &[]),
    (&["sun 02:15-12:00"], NEW_YORK, ["2026-03-08", "2026-03-08"], &["08T07:00 08T16:00"]),
    (&["sat-sun"], NEW_YORK, ["2026-03-08", "2026-03-08"], &["07T05:00 09T04:00"]),
    // Clocks go from 02:00 to 01:00 at 06:00 in UTC.
    (&["sun 01:00-02:00"], NEW_YORK, ["2026-11-01", "2026-11-01"], &["01T05:00 01T07:00"]),
    (&["sat 22:00-04:00"], NEW_YORK, ["2026-11-01", "2026-11-01"], &["01T02:00 01T09:00"]),
];

#[test]
fn hours_become_spans_over_both_changes_of_the_clocks() {
    for (entries, zone, [first, last], expected) in CASES {
        let found = spans_of(entries, zone, first, last);
        assert_eq!(found, *expected, "{entries:?} in {zone} from {first}");
    }
}

/// Open minutes from 10 days before `from`, by looking at a clock every minute.
fn recount(hours: &ActiveHours, zone: &TimeZone, from: i64, minutes: usize) -> Vec<bool> {
    let start = from - 10 * DAY;
    let clock: Vec<DateTime> = (0..)
        .take(minutes)
        .map(|minute| Timestamp::from_millisecond(start + minute * MINUTE).unwrap())
        .map(|time| zone.to_datetime(time))
        .collect();
    let mut is_open = vec![false; minutes];
    let mut day = clock[0].date();
    let mut at = 0;
    while day < clock[minutes - 1].date() {
        let near = at..minutes.min(at + 4 * 1440);
        let monday = day.weekday().to_monday_zero_offset();
        for entry in &hours.0 {
            let Some((open, close)) = entry.minutes_on(monday.try_into().unwrap()) else {
                continue;
            };
            let shown = |minute: u16| day.at(0, 0, 0, 0) + i64::from(minute).minutes();
            let (open, close) = (shown(open), shown(close));
            let first = near.clone().find(|at| open <= clock[*at]).unwrap();
            let last = near.clone().rfind(|at| clock[*at] < close);
            is_open[first..last.map_or(first, |last| (last + 1).max(first))].fill(true);
        }
        day = day.tomorrow().unwrap();
        at = clock.iter().position(|time| time.date() == day).unwrap_or(minutes);
        at = at.saturating_sub(1440);
    }
    is_open
}

fn entry() -> impl Strategy<Value = ActiveEntry> {
    let day = prop::sample::select(vec!["mon", "tue", "wed", "thu", "fri", "sat", "sun"]);
    // Clocks change at night.
    let hour = || prop_oneof![0..24_u16, 0..4_u16];
    let quarter = || (hour(), 0..4_u16).prop_map(|(hour, quarter)| (hour, quarter * 15));
    let times = (quarter(), quarter(), any::<bool>());
    (day.clone(), day, times).prop_map(|(first, last, (from, to, is_whole))| {
        let days = format!("{first}-{last}");
        let text = format!("{days} {:02}:{:02}-{:02}:{:02}", from.0, from.1, to.0, to.1);
        let text = if is_whole || from == to { days } else { text };
        text.parse().unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    /// Cairo skips a midnight, and the clocks of Lord Howe change by half an hour.
    #[test]
    fn spans_are_what_a_clock_shows_minute_by_minute(
        entries in prop::collection::vec(entry(), 1..4),
        name in prop::sample::select(vec![VIENNA, NEW_YORK, "Africa/Cairo", "Australia/Lord_Howe"]),
        // Most of the weeks are about changes of clocks.
        week in prop_oneof![1 => 0..53_i64, 3 => prop::sample::select(vec![9_i64, 12, 13, 16, 42, 43])],
    ) {
        let (hours, zone) = (ActiveHours(entries), zone(name));
        let from = utc("2026-01-01T00:00Z") + week * 7 * DAY;
        let to = from + 7 * DAY;
        let is_open = recount(&hours, &zone, from, 28 * 1440);
        let minute = |time: i64| usize::try_from((time - from + 10 * DAY).div_euclid(MINUTE)).unwrap();
        let found = open_spans(&hours, &zone, from, to);
        let signed = |time: Millis| i64::try_from(time).unwrap();
        let mut counted = vec![false; is_open.len()];
        let mut before = None;
        for (open, close) in found {
            prop_assert!(open < close && before < Some(open), "ascending and apart");
            before = Some(close);
            let (open, close) = (minute(signed(open).max(from - 9 * DAY)), minute(signed(close).min(to + 7 * DAY)));
            counted[open..close].fill(true);
            prop_assert!(is_open[open..close].iter().all(|is_open| *is_open));
            let is_whole = |at: usize| !is_open[at] || !(4 * 1440..23 * 1440).contains(&at);
            prop_assert!(is_whole(open - 1) && is_whole(close), "spans are whole");
        }
        let week = minute(from)..minute(to);
        prop_assert_eq!(&counted[week.clone()], &is_open[week]);
    }
}

fn calendar(entries: &[&str]) -> ClassCalendar {
    let classes = [(Name::from("night"), hours(entries))].into_iter().collect();
    ClassCalendar { zone: zone(VIENNA), classes }
}

/// A year of minutes: the scheduler gets hours once a day, and always knows the next 8 days.
#[test]
fn hours_are_told_once_a_day_and_far_enough_ahead() {
    let calendar = calendar(&["mon-sun 20:00-06:00"]);
    let (mut teller, mut known, mut told) = (HoursTeller::default(), BTreeMap::new(), 0);
    let start = utc("2026-01-01T12:34Z");
    for now in (0..365 * 1440).map(|minute| start + minute * MINUTE) {
        if let Some(news) = teller.news(&calendar, &known, now) {
            known = news.into_iter().collect();
            told += 1;
        }
        let spans: &Vec<OpenSpan> = &known["night"];
        let last = i64::try_from(spans.last().unwrap().1).unwrap();
        let first = i64::try_from(spans[0].0).unwrap();
        assert!(now + 8 * DAY <= last + DAY && first <= now, "{now}");
    }
    assert_eq!(told, 366);
}

#[test]
fn a_restart_within_the_day_tells_nothing() {
    let (night, now) = (calendar(&["mon-sun 20:00-06:00"]), utc("2026-11-26T10:00Z"));
    let news = HoursTeller::default().news(&night, &BTreeMap::new(), now).unwrap();
    let known: BTreeMap<Name, Vec<OpenSpan>> = news.into_iter().collect();
    let anew = |calendar: &ClassCalendar, now| HoursTeller::default().news(calendar, &known, now);
    assert_eq!(anew(&night, now + 13 * 3_600_000), None, "the same day");
    assert!(anew(&night, now + 14 * 3_600_000).is_some(), "the next day");
    assert!(anew(&calendar(&["mon-sun 20:00-06:01"]), now).is_some(), "other rules");
    assert_eq!(anew(&ClassCalendar::default(), now), Some(Vec::new()), "no rules any more");
    let none = ClassCalendar::default();
    assert_eq!(HoursTeller::default().news(&none, &BTreeMap::new(), now), None, "never any rules");
}

/// A night campaign at noon waits for the evening of its time zone, and runs past midnight.
#[test]
fn closed_hours_are_told_with_their_next_begin() {
    let hours = ActiveHours(vec!["mon-sun 20:00-06:00".parse().unwrap()]);
    let zone = TimeZone::get("Europe/Vienna").unwrap();
    let at = |text: &str| {
        let time: Timestamp = text.parse().unwrap();
        Millis::try_from(time.as_millisecond()).unwrap()
    };
    let until = |text: &str| closed_until(&hours, &zone, at(text));
    assert_eq!(until("2026-12-01T12:00:00Z"), Some(at("2026-12-01T19:00:00Z")), "20:00 in Vienna");
    assert_eq!(until("2026-12-01T18:59:59Z"), Some(at("2026-12-01T19:00:00Z")));
    assert_eq!(until("2026-12-01T19:00:00Z"), None);
    assert_eq!(until("2026-12-02T04:59:59Z"), None);
    assert_eq!(until("2026-12-02T05:00:00Z"), Some(at("2026-12-02T19:00:00Z")));
    let weekend = ActiveHours(vec!["sat-sun".parse().unwrap()]);
    let friday = closed_until(&weekend, &TimeZone::UTC, at("2026-12-04T12:00:00Z"));
    assert_eq!(friday, Some(at("2026-12-05T00:00:00Z")));
}
