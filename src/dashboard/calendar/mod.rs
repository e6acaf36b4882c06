//! Page of the calendar: reservations, hours of classes, and expected starts and ends of work, on
//! one time line.
//!
//! The picture has a lane for each fact and bounds the number of lanes, so that it is as readable
//! for 5,000 nodes as for 50. A curve below it sums up all work. The table has the same facts for
//! readers without sight of the picture.

mod facts;
mod layout;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use self::facts::{CalendarFact, CalendarFacts, FactKind};
use self::layout::{AxisTick, HeldArea, TimeAxis};
use super::Dashboard;
use super::frame::{Ask, Nothing, Page, PageError, PageQuery, address_of};
use super::words::{self, counted, number};
use crate::api::hours::CivilTime;
use crate::model::{Millis, count, span};

/// Lanes of a group in the picture. With four groups, a picture fits on two screens.
const LANES: usize = 12;

/// Rows of the table.
const TABLE_ROWS: usize = 100;

/// A minute. The page counts from the start of the minute, so that it rarely changes.
const MINUTE: Millis = 60_000;

/// Selection of the page in the address.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CalendarParams {
    range: Option<CalendarRange>,
}

/// Length of the time line, from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum CalendarRange {
    /// Six hours.
    Hours,
    /// A day.
    Day,
    /// A week.
    Week,
}

impl CalendarRange {
    /// Every range, the shortest first: its word in the address, and the same for readers.
    const ALL: [(CalendarRange, &'static str, &'static str, Millis); 3] = [
        (CalendarRange::Hours, "hours", "6 hours", 6 * 3_600_000),
        (CalendarRange::Day, "day", "24 hours", 24 * 3_600_000),
        (CalendarRange::Week, "week", "7 days", 7 * 24 * 3_600_000),
    ];

    fn ms(self) -> Millis {
        CalendarRange::ALL.iter().find(|(range, ..)| *range == self).map_or(0, |(.., ms)| *ms)
    }

    fn words(self) -> &'static str {
        let all = CalendarRange::ALL;
        all.iter().find(|(range, ..)| *range == self).map_or("", |(_, _, words, _)| *words)
    }

    /// The shortest range in which a fact begins or ends; a day if there is none.
    fn showing(facts: &[CalendarFact], now: Millis) -> CalendarRange {
        let edges = facts.iter().flat_map(CalendarFact::edges).filter(|edge| now < *edge);
        let Some(first) = edges.min() else { return CalendarRange::Day };
        let ranges = CalendarRange::ALL.into_iter();
        let found = ranges.map(|(range, ..)| range).find(|range| first <= now + range.ms());
        found.unwrap_or(CalendarRange::Week)
    }
}

#[derive(Template)]
#[template(path = "calendar.html")]
struct LiveCalendar {
    ranges: Vec<RangeLink>,
    /// The chosen range in words.
    range: &'static str,
    zone: String,
    ticks: Vec<AxisTick>,
    /// Lines at the ticks, as an SVG path.
    grid: String,
    groups: Vec<LaneGroup>,
    held: Option<HeldArea>,
    rows: Vec<FactRow>,
    more_rows: usize,
    /// Sentences on work that has no place in the calendar.
    absent: Vec<UnplacedWork>,
}

/// Link to another range.
struct RangeLink {
    address: String,
    words: &'static str,
    is_chosen: bool,
}

/// Lanes of the same kind.
struct LaneGroup {
    title: &'static str,
    lanes: Vec<FactLane>,
    /// Sentence on the lanes that are left out; empty if there are none.
    more: String,
}

/// A fact in the picture.
struct FactLane {
    name: String,
    link: String,
    /// Class of the bars in the style sheet.
    look: &'static str,
    colour: Option<usize>,
    /// The user of a job.
    user: String,
    /// Start and length of each bar, in thousandths of the range.
    bars: Vec<(u64, u64)>,
    words: String,
}

/// A fact in the table.
struct FactRow {
    what: &'static str,
    name: String,
    link: String,
    from: Option<FactTime>,
    to: Option<FactTime>,
    length: String,
    detail: String,
}

/// A moment: for the script of the page, and as text.
struct FactTime {
    ms: Millis,
    text: String,
}

/// Work without a place in the calendar, with a link to it.
struct UnplacedWork {
    words: String,
    link: &'static str,
    remedy: &'static str,
    /// Command of the remedy; empty if it has none.
    command: &'static str,
}

/// The page.
pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    PageQuery(params): PageQuery<CalendarParams>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.seen(&ask);
    let view = &published.view;
    let palette = dashboard.palette(view, &ask);
    let time = CivilTime::of(&published);
    let now = time.now - time.now.rem_euclid(MINUTE);
    let CalendarFacts { facts, without_estimate, without_end } = facts::all_of(&published, now);
    let range = params.range.unwrap_or_else(|| CalendarRange::showing(&facts, now));
    let axis = TimeAxis { from: now, length: range.ms() };
    let ticks = axis.ticks(&time.zone);
    let group = |kind| {
        let lane = |fact: &CalendarFact| FactLane {
            colour: (!fact.user.is_empty()).then(|| palette.colour(&fact.user)),
            ..lane(fact, &axis)
        };
        LaneGroup::of(kind, &facts, &axis, lane)
    };
    let groups = FactKind::GROUPS.map(group).into_iter().filter(|group| !group.lanes.is_empty());
    let schedulable =
        view.nodes.iter().filter(|node| node.state.is_up()).map(|node| node.memory.0).sum();
    let mut rows: Vec<&CalendarFact> = facts.iter().filter(|fact| !fact.spans.is_empty()).collect();
    rows.sort_by_key(|fact| fact.next_edge(now));
    let link = |(other, word, words, _): (CalendarRange, _, _, _)| RangeLink {
        address: address_of("/calendar", &[("range", word)]),
        words,
        is_chosen: other == range,
    };
    let live = LiveCalendar {
        ranges: CalendarRange::ALL.map(link).into_iter().collect(),
        range: range.words(),
        zone: time.zone.iana_name().unwrap_or("UTC").to_owned(),
        grid: layout::grid(&ticks),
        ticks,
        groups: groups.collect(),
        held: HeldArea::of(&facts, &axis, schedulable),
        more_rows: rows.len().saturating_sub(TABLE_ROWS),
        rows: rows.into_iter().take(TABLE_ROWS).map(|fact| row(fact, now)).collect(),
        absent: absent(without_estimate, without_end),
    };
    Page { title: "Calendar", section: "/calendar", head: Nothing, live }.answer(&ask)
}

impl LaneGroup {
    /// The first lanes of a kind that are within the range.
    fn of(
        kind: FactKind,
        facts: &[CalendarFact],
        axis: &TimeAxis,
        lane: impl Fn(&CalendarFact) -> FactLane,
    ) -> LaneGroup {
        let of_kind = |fact: &&CalendarFact| fact.kind.group() == kind && axis.shows(fact);
        let mut shown: Vec<&CalendarFact> = facts.iter().filter(of_kind).collect();
        // Hours of classes stay in the order of the configuration.
        if kind != FactKind::Hours {
            shown.sort_by_key(|fact| fact.next_edge(axis.from));
        }
        let more = match shown.len().saturating_sub(LANES) {
            0 => String::new(),
            more => format!("and {} more, {}", number(count(0..more)), kind.rest()),
        };
        let lanes = shown.into_iter().take(LANES).map(lane).collect();
        LaneGroup { title: kind.title(), lanes, more }
    }
}

fn lane(fact: &CalendarFact, axis: &TimeAxis) -> FactLane {
    FactLane {
        name: fact.name.clone(),
        link: fact.link.clone(),
        look: fact.kind.look(),
        colour: None,
        user: fact.user.to_string(),
        bars: fact.spans.iter().filter_map(|span| axis.bar(*span)).collect(),
        words: fact.words(axis.from),
    }
}

fn row(fact: &CalendarFact, now: Millis) -> FactRow {
    let shown = fact.spans.iter().find(|span| span.to.is_none_or(|to| now < to));
    let time = |ms: Millis| FactTime {
        ms,
        text: i64::try_from(ms).map_or_else(|_| ms.to_string(), words::time),
    };
    FactRow {
        what: fact.kind.word(),
        name: fact.name.clone(),
        link: fact.link.clone(),
        from: shown.map(|span| time(span.from)),
        to: shown.and_then(|span| span.to).map(time),
        length: shown.and_then(|shown| shown.length()).map(span).unwrap_or_default(),
        detail: fact.detail.clone(),
    }
}

/// Sentences on work that the calendar cannot place.
fn absent(without_estimate: u64, without_end: u64) -> Vec<UnplacedWork> {
    let mut absent = Vec::new();
    if 0 < without_estimate {
        absent.push(UnplacedWork {
            words: format!(
                "{} without an expected start",
                counted(without_estimate, "waiting gang")
            ),
            link: "/jobs?state=waiting",
            remedy: "the page of a job says why",
            command: "",
        });
    }
    if 0 < without_end {
        absent.push(UnplacedWork {
            words: format!(
                "{} of work that stays, without a known end",
                counted(without_end, "job")
            ),
            link: "/jobs?state=running",
            remedy: "a declared length gives it one:",
            command: "apportion submit --time 2h",
        });
    }
    absent
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Name;

    #[test]
    fn the_range_is_the_shortest_that_shows_a_change() {
        let hour = 3_600_000;
        let fact = |kind, from, to| CalendarFact {
            kind,
            name: "m1".to_owned(),
            link: String::new(),
            user: Name::from(""),
            spans: vec![facts::FactSpan { from: from * hour, to: Some(to * hour) }],
            memory_mb: 0,
            detail: String::new(),
            state: String::new(),
        };
        let now = 100 * hour;
        let cases = [
            (vec![], CalendarRange::Day),
            (vec![fact(FactKind::Maintenance, 105, 900)], CalendarRange::Hours),
            (vec![fact(FactKind::Maintenance, 90, 107)], CalendarRange::Day),
            (vec![fact(FactKind::Running, 99, 200)], CalendarRange::Week),
            (vec![fact(FactKind::Waiting, 900, 901)], CalendarRange::Week),
            (
                vec![fact(FactKind::Waiting, 900, 901), fact(FactKind::Running, 99, 101)],
                CalendarRange::Hours,
            ),
        ];
        for (facts, range) in cases {
            assert_eq!(CalendarRange::showing(&facts, now), range, "{facts:?}");
        }
    }

    #[test]
    fn facts_say_in_words_what_comes_next() {
        let hour = 3_600_000;
        let cases = [
            (FactKind::Maintenance, 2, Some(3), "begins in 2h, for 1h"),
            (FactKind::Maintenance, 0, Some(3), "ends in 3h"),
            (FactKind::Running, 0, Some(3), "ends in 3h"),
            (FactKind::Waiting, 2, Some(3), "starts in 2h, for 1h"),
            (FactKind::Waiting, 2, None, "starts in 2h"),
            (FactKind::Waiting, 0, Some(3), "starts at any moment, for 3h"),
        ];
        for (kind, from, to, words) in cases {
            let spans =
                vec![facts::FactSpan { from: from * hour, to: to.map(|to: Millis| to * hour) }];
            let fact = CalendarFact {
                kind,
                name: String::new(),
                link: String::new(),
                user: Name::from(""),
                spans,
                memory_mb: 0,
                detail: String::new(),
                state: String::new(),
            };
            assert_eq!(fact.words(0), words);
        }
    }
}
