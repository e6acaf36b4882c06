//! Places on the time line: bars, ticks, and the area of held memory.

use std::fmt::Write;
use std::num::NonZeroU64;

use jiff::tz::TimeZone;
use jiff::{RoundMode, SignedDuration, Timestamp, Unit, Zoned, ZonedRound};

use super::facts::{CalendarFact, FactKind, FactSpan};
use crate::dashboard::words::memory;
use crate::model::{Millis, floor_div};

/// Width of the picture. A bar is placed to a thousandth of the range.
const WIDTH: u64 = 1000;

/// Narrowest bar, so that short work is seen: a thousandth is less than a pixel.
const LEAST_WIDTH: u64 = 4;

/// Columns of the area. Work that ends within a column counts for its part of it.
const COLUMNS: NonZeroU64 = NonZeroU64::new(250).expect("not zero");

/// Height of the area in units of its picture.
const HEIGHT: u64 = 100;

/// Hours between two ticks, for a range of at most so many hours.
const STEPS: [(u64, i64); 3] = [(6, 1), (24, 4), (7 * 24, 24)];

/// An hour.
const HOUR: Millis = 3_600_000;

/// Time from left to right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeAxis {
    /// Moment at the left end, in milliseconds since the epoch.
    pub from: Millis,
    /// Length in milliseconds.
    pub length: Millis,
}

/// A label of the axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AxisTick {
    /// Place in thousandths of the range.
    pub place: u64,
    /// The place in percent, as text of an attribute.
    pub percent: String,
    pub ms: Millis,
    pub text: String,
    /// True if ticks are days.
    pub is_day: bool,
}

impl TimeAxis {
    fn to(&self) -> Millis {
        self.from.saturating_add(self.length)
    }

    /// True if a part of the fact is in the range, and changes are not all after it.
    pub fn shows(&self, fact: &CalendarFact) -> bool {
        let is_within =
            |span: &FactSpan| span.from < self.to() && span.to.is_none_or(|to| self.from < to);
        fact.spans.iter().any(is_within) || fact.kind == FactKind::Hours
    }

    /// Place of a moment, in thousandths of the range.
    fn place(&self, at: Millis) -> u64 {
        let within = at.clamp(self.from, self.to()) - self.from;
        within.saturating_mul(WIDTH).checked_div(self.length).unwrap_or(0)
    }

    /// Start and length of the bar of a span; `None` if it is not in the range. A span without an
    /// end goes on to the right edge.
    pub fn bar(&self, span: FactSpan) -> Option<(u64, u64)> {
        let to = span.to.unwrap_or(Millis::MAX);
        if self.to() <= span.from || to <= self.from {
            return None;
        }
        let start = self.place(span.from).min(WIDTH - LEAST_WIDTH);
        let length = self.place(to).saturating_sub(start).max(LEAST_WIDTH);
        Some((start, length))
    }

    /// Labels at full hours or midnights of `zone`. A label that would touch the edge is left out.
    pub fn ticks(&self, zone: &TimeZone) -> Vec<AxisTick> {
        let hours = self.length.div_ceil(HOUR);
        let step = STEPS.iter().find(|(most, _)| hours <= *most).map_or(24, |(_, step)| *step);
        let mut ticks = Vec::new();
        let mut next = self.first_tick(zone);
        while let Some(at) = next.take() {
            let Ok(ms) = Millis::try_from(at.timestamp().as_millisecond()) else { break };
            if self.to() <= ms {
                break;
            }
            let place = self.place(ms);
            let is_day = step == 24;
            let is_shown = i64::from(at.hour()).rem_euclid(step) == 0;
            if is_shown && (WIDTH * 9..=WIDTH * 97).contains(&(place * 100)) {
                let is_date = is_day || at.hour() == 0;
                let text = at.strftime(if is_date { "%-d %b" } else { "%H:%M" }).to_string();
                let percent = format!("{}.{}%", place.div_euclid(10), place.rem_euclid(10));
                ticks.push(AxisTick { place, percent, ms, text, is_day });
            }
            // An hour of the clock can be absent or come twice; an hour of time always passes.
            next = at.checked_add(SignedDuration::from_hours(1)).ok();
        }
        ticks
    }

    /// The first full hour of the clock.
    fn first_tick(&self, zone: &TimeZone) -> Option<Zoned> {
        let from = Timestamp::from_millisecond(i64::try_from(self.from).ok()?).ok()?;
        let round = ZonedRound::new().smallest(Unit::Hour).mode(RoundMode::Ceil);
        from.to_zoned(zone.clone()).round(round).ok()
    }
}

/// Lines at the ticks, as an SVG path of a lane.
pub(super) fn grid(ticks: &[AxisTick]) -> String {
    ticks.iter().fold(String::new(), |mut path, tick| {
        // Writing to a string cannot fail.
        let _ = write!(path, "M{} 0v10", tick.place);
        path
    })
}

/// Memory that work with a known end holds over time: running work, and waiting gangs above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldArea {
    /// Running work, as an SVG path.
    pub running: String,
    /// Waiting gangs, as an SVG path.
    pub waiting: String,
    /// Memory at the top of the picture.
    pub most: String,
    /// Memory in scheduling.
    pub schedulable: String,
    /// The picture in words.
    pub words: String,
}

impl HeldArea {
    /// The area of the facts in the range; `None` if no memory is held in it.
    pub fn of(facts: &[CalendarFact], axis: &TimeAxis, schedulable_mb: u64) -> Option<HeldArea> {
        let of_kind = |kind| {
            let facts = facts.iter().filter(move |fact| fact.kind.group() == kind);
            columns(facts, axis)
        };
        let running = of_kind(FactKind::Running);
        let waiting = of_kind(FactKind::Waiting);
        let both = running.iter().zip(&waiting).map(|(running, waiting)| running + waiting);
        let both: Vec<u64> = both.collect();
        let most = both.iter().copied().max().filter(|most| 0 < *most)?;
        let none = vec![0; both.len()];
        let [now, last] = [running.first(), running.last()].map(|mb| mb.copied().unwrap_or(0));
        Some(HeldArea {
            words: format!(
                "Running work with a known end holds {} now and {} at the end; with waiting gangs, \
                 at most {}.",
                memory(now),
                memory(last),
                memory(most)
            ),
            waiting: band(&running, &both, most),
            running: band(&none, &running, most),
            most: memory(most),
            schedulable: memory(schedulable_mb),
        })
    }
}

/// Mean memory of all facts in each column.
fn columns<'f>(facts: impl Iterator<Item = &'f CalendarFact>, axis: &TimeAxis) -> Vec<u64> {
    let width = floor_div(axis.length, COLUMNS).max(1);
    let mut columns: Vec<ColumnSum> = (0..COLUMNS.get()).map(|_| ColumnSum::default()).collect();
    for fact in facts {
        for span in &fact.spans {
            // Work that started since the start of the minute runs now.
            let is_running = fact.kind.group() == FactKind::Running;
            let from = if is_running { axis.from } else { span.from };
            let from = from.clamp(axis.from, axis.to()) - axis.from;
            let to = span.to.unwrap_or(Millis::MAX).clamp(axis.from, axis.to()) - axis.from;
            if to <= from {
                continue;
            }
            let (first, last) = (from.div_euclid(width), (to - 1).div_euclid(width));
            for column in [first, last].into_iter().take(if first == last { 1 } else { 2 }) {
                let left = column * width;
                let overlap = to.min(left + width) - from.max(left);
                let Some(sum) = at(&mut columns, column) else { continue };
                sum.in_part += u128::from(fact.memory_mb) * u128::from(overlap);
            }
            if first + 1 < last {
                let memory = i128::from(fact.memory_mb);
                let edges = [(first + 1, memory), (last, -memory)];
                for (column, change) in edges {
                    let Some(sum) = at(&mut columns, column) else { continue };
                    sum.change += change;
                }
            }
        }
    }
    let mut whole = 0_i128;
    let mean = |sum: ColumnSum| {
        whole += sum.change;
        let part = sum.in_part.checked_div(u128::from(width)).unwrap_or(0);
        let all = part.saturating_add(u128::try_from(whole).unwrap_or(0));
        u64::try_from(all).unwrap_or(u64::MAX)
    };
    columns.into_iter().map(mean).collect()
}

/// Memory in a column of the area.
#[derive(Clone, Copy, Debug, Default)]
struct ColumnSum {
    /// Work that holds memory for a part of the column: memory times milliseconds.
    in_part: u128,
    /// Work that holds memory for whole columns from here on, less such work that does no longer.
    change: i128,
}

fn at(columns: &mut [ColumnSum], column: u64) -> Option<&mut ColumnSum> {
    usize::try_from(column).ok().and_then(|column| columns.get_mut(column))
}

/// The steps between two curves as an SVG path, where `most` is the whole height. Empty if the
/// curves are equal.
fn band(below: &[u64], above: &[u64], most: u64) -> String {
    if below == above {
        return String::new();
    }
    let width = floor_div(WIDTH, COLUMNS);
    let steps = |curve: &[u64]| {
        let mut steps: Vec<(u64, u64)> = Vec::new();
        for (mb, column) in curve.iter().zip(0..) {
            let part = u128::from(*mb) * u128::from(HEIGHT);
            let part = part.checked_div(u128::from(most)).unwrap_or(0);
            let height = HEIGHT - u64::try_from(part).unwrap_or(HEIGHT).min(HEIGHT);
            if steps.last().is_none_or(|(_, last)| *last != height) {
                steps.push((column * width, height));
            }
        }
        steps
    };
    let mut path = String::new();
    for (place, height) in steps(above) {
        // Writing to a string cannot fail.
        let _ = match place {
            0 => write!(path, "M0 {height}"),
            _ => write!(path, "H{place}V{height}"),
        };
    }
    let mut place = WIDTH;
    for (start, height) in steps(below).into_iter().rev() {
        let _ = write!(path, "H{place}V{height}");
        place = start;
    }
    path.push_str("H0z");
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Name;

    /// 2026-11-26 17:38 UTC.
    const NOW: Millis = 1_795_714_680_000;

    fn axis(hours: u64) -> TimeAxis {
        TimeAxis { from: NOW, length: hours * HOUR }
    }

    /// A span in hours from now; negative is the past.
    fn span(from: i64, to: Option<i64>) -> FactSpan {
        let at = |hours: i64| NOW.saturating_add_signed(hours * 3_600_000);
        FactSpan { from: at(from), to: to.map(at) }
    }

    fn fact(kind: FactKind, memory_mb: u64, span: FactSpan) -> CalendarFact {
        CalendarFact {
            kind,
            name: "job 7".to_owned(),
            link: "/jobs/7".to_owned(),
            user: Name::from("ann"),
            spans: vec![span],
            memory_mb,
            detail: String::new(),
            state: String::new(),
        }
    }

    #[test]
    fn a_bar_is_where_its_span_is() {
        let cases = [
            ((0, Some(6)), Some((0, 1000))),
            ((-9, Some(3)), Some((0, 500))),
            ((3, Some(9)), Some((500, 500))),
            ((3, None), Some((500, 500))),
            ((1, Some(1)), Some((166, 4))),
            ((-2, Some(0)), None),
            ((6, Some(7)), None),
            ((7, None), None),
        ];
        for ((from, to), bar) in cases {
            assert_eq!(axis(6).bar(span(from, to)), bar, "{from} to {to:?}");
        }
        let last = FactSpan { from: NOW + 6 * HOUR - 1, to: None };
        assert_eq!(axis(6).bar(last), Some((996, 4)), "a bar at the edge is seen");
    }

    #[test]
    fn a_range_shows_a_fact_that_is_in_it() {
        let cases = [
            (FactKind::Running, (-1, Some(9)), true),
            (FactKind::Waiting, (5, None), true),
            (FactKind::Reservation, (7, Some(9)), false),
            (FactKind::Hours, (7, Some(9)), true),
        ];
        for (kind, (from, to), is_shown) in cases {
            let fact = fact(kind, 0, span(from, to));
            assert_eq!(axis(6).shows(&fact), is_shown, "{kind:?} {from}");
        }
    }

    #[test]
    fn ticks_are_at_full_hours_of_the_zone() {
        let cases = [
            ("UTC", 6, "19:00 20:00 21:00 22:00 23:00"),
            ("UTC", 24, "20:00 27 Nov 04:00 08:00 12:00 16:00"),
            ("Europe/Vienna", 24, "27 Nov 04:00 08:00 12:00 16:00"),
            ("Asia/Kolkata", 6, "27 Nov 01:00 02:00 03:00 04:00"),
            ("Europe/Vienna", 168, "28 Nov 29 Nov 30 Nov 1 Dec 2 Dec 3 Dec"),
        ];
        for (zone, hours, labels) in cases {
            let ticks = axis(hours).ticks(&TimeZone::get(zone).unwrap());
            let texts: Vec<&str> = ticks.iter().map(|tick| tick.text.as_str()).collect();
            assert_eq!(texts.join(" "), labels, "{zone} {hours}");
            assert!(ticks.is_sorted_by_key(|tick| tick.place), "{ticks:?}");
        }
    }

    /// Clocks go from 03:00 back to 02:00 at 01:00 UTC on 2026-10-25.
    #[test]
    fn an_hour_that_comes_twice_has_two_ticks() {
        let axis = TimeAxis { from: 1_792_880_000_000, length: 6 * HOUR };
        let ticks = axis.ticks(&TimeZone::get("Europe/Vienna").unwrap());
        let texts: Vec<&str> = ticks.iter().map(|tick| tick.text.as_str()).collect();
        assert_eq!(texts, ["01:00", "02:00", "02:00", "03:00", "04:00", "05:00"]);
        assert_eq!(grid(&ticks[..2]), format!("M{} 0v10M{} 0v10", ticks[0].place, ticks[1].place));
    }

    #[test]
    fn memory_falls_as_work_ends_and_rises_as_gangs_start() {
        let facts = [
            fact(FactKind::Running, 1024, span(-1, Some(3))),
            fact(FactKind::Overrun, 1024, span(-1, Some(6))),
            fact(FactKind::Waiting, 2048, span(3, None)),
            fact(FactKind::Reservation, 9999, span(0, Some(6))),
        ];
        let held = HeldArea::of(&facts, &axis(6), 4096).unwrap();
        assert_eq!((held.most.as_str(), held.schedulable.as_str()), ("3 GB", "4 GB"));
        assert_eq!(held.running, "M0 34H500V67H1000V100H0z");
        assert_eq!(held.waiting, "M0 34H500V0H1000V67H500V34H0z");
        assert!(held.words.contains("holds 2 GB now and 1 GB at the end"), "{}", held.words);
        assert_eq!(HeldArea::of(&facts[3..], &axis(6), 4096), None);
    }

    /// A mean keeps the area, however short the work is.
    #[test]
    fn work_within_a_column_counts_for_its_part() {
        let (width, half) = (86_400, 43_200);
        assert_eq!(width, floor_div(6 * HOUR, COLUMNS));
        let brief = |from, to| FactSpan { from: NOW + from, to: Some(NOW + to) };
        let columns_of = |span| {
            let facts = [fact(FactKind::Waiting, 1000, span)];
            columns(facts.iter(), &axis(6))[..4].to_vec()
        };
        assert_eq!(columns_of(brief(0, 21_600)), [250, 0, 0, 0]);
        assert_eq!(columns_of(brief(half, 3 * width)), [500, 1000, 1000, 0]);
        assert_eq!(columns_of(brief(half, 2 * width + half)), [500, 1000, 500, 0]);
        assert_eq!(columns_of(brief(width, width)), [0, 0, 0, 0]);
    }
}
