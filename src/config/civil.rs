//! Civil time: turns hours of the week into spans of milliseconds.
//!
//! A span is not divided, also where clocks change. It begins when a clock on the wall first shows
//! its start or a later time. It ends when the clock last shows a time before its end.

use jiff::civil::{Date, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

use crate::model::{ActiveHours, Millis};

/// Milliseconds of a day of UTC.
const DAY: i64 = 24 * 3_600_000;
/// Milliseconds of a minute.
const MINUTE: i64 = 60_000;
/// Days ahead in which the next begin of hours is looked for. Hours that are not always open have a gap in
/// each week.
const AHEAD: i64 = 9;
/// Days beyond both ends in which spans may begin or end. Hours that are not always open have a gap
/// in each week.
const MARGIN: i64 = 8;

/// A span in milliseconds since the epoch: the first moment, and the first moment after.
pub type OpenSpan = (Millis, Millis);

/// Moment at which `hours` in `zone` begin next, in milliseconds since the epoch; `None` if `now` is
/// within them. Without a next moment in the days ahead, the last of these days is told.
pub fn closed_until(hours: &ActiveHours, zone: &TimeZone, now: Millis) -> Option<Millis> {
    let from = i64::try_from(now).unwrap_or(i64::MAX - AHEAD * DAY);
    let to = from.saturating_add(AHEAD * DAY);
    let next = open_spans(hours, zone, from, to).into_iter().next();
    let begin = next.map_or_else(|| Millis::try_from(to).unwrap_or(now), |(begin, _)| begin);
    (now < begin).then_some(begin)
}

/// Spans of `hours` in `zone` that are at least partly from `from` until before `to`, ascending and
/// apart. Spans at the ends are whole: the scheduler must not see a close that does not exist.
pub fn open_spans(hours: &ActiveHours, zone: &TimeZone, from: i64, to: i64) -> Vec<OpenSpan> {
    let date = |day: i64| {
        let time = Timestamp::from_millisecond(day * DAY).unwrap_or(Timestamp::MAX);
        zone.to_datetime(time).date()
    };
    let last = date(to.div_euclid(DAY) + MARGIN);
    let days = date(from.div_euclid(DAY) - MARGIN).series(1.day()).take_while(|day| *day <= last);
    let on_day = |day: Date| {
        let weekday = u16::try_from(day.weekday().since(Weekday::Monday)).unwrap_or(0);
        let minutes = hours.0.iter().filter_map(move |entry| entry.minutes_on(weekday));
        minutes.filter_map(move |(open, close)| {
            Some((
                moment(zone, day, open, SpanEdge::Open)?,
                moment(zone, day, close, SpanEdge::Close)?,
            ))
        })
    };
    let mut found: Vec<(i64, i64)> = days.flat_map(on_day).collect();
    found.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for (open, close) in found.into_iter().filter(|(open, close)| open < close) {
        match merged.last_mut() {
            Some((_, end)) if open <= *end => *end = close.max(*end),
            Some(_) | None => merged.push((open, close)),
        }
    }
    let shown = merged.into_iter().filter(|(open, close)| from < *close && *open < to);
    let millis = |time: i64| Millis::try_from(time).ok();
    shown.filter_map(|(open, close)| Some((millis(open)?, millis(close)?))).collect()
}

/// End of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpanEdge {
    Open,
    Close,
}

/// Moment at which a clock in `zone` shows the minute of `day`, in milliseconds since the epoch. A
/// minute that clocks skip is the moment of the change. Of a minute that clocks show twice, the
/// first opens and the second closes. `None` beyond the year 9999.
fn moment(zone: &TimeZone, day: Date, minute: u16, edge: SpanEdge) -> Option<i64> {
    // A close is after its last minute: clocks may show the minute of the close once more.
    let back = i64::from(edge == SpanEdge::Close);
    let time = day.at(0, 0, 0, 0).checked_add((i64::from(minute) - back).minutes()).ok()?;
    let ambiguous = zone.to_ambiguous_timestamp(time);
    let moment = match (ambiguous.offset(), edge) {
        (AmbiguousOffset::Gap { .. }, _) => {
            let before = ambiguous.earlier().ok()?;
            let change = zone.following(before).next();
            return Some(change.map_or(before, |change| change.timestamp()).as_millisecond());
        }
        (AmbiguousOffset::Fold { .. }, SpanEdge::Close) => ambiguous.later().ok()?,
        (AmbiguousOffset::Fold { .. }, SpanEdge::Open)
        | (AmbiguousOffset::Unambiguous { .. }, _) => ambiguous.earlier().ok()?,
    };
    Some(moment.as_millisecond() + back * MINUTE)
}
