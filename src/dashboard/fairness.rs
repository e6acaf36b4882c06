//! Chart of fairness over time: for each user, memory held against the fair share.
//!
//! A row is a user, and time goes from left to right. A colour says which part of the fair share
//! the user held. A user cannot use more than the demand, so the chart bounds the fair share by it.

use std::collections::BTreeMap;
use std::fmt::Write;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use super::Dashboard;
use super::frame::{Ask, Page, PageError, PageQuery};
use super::palette::Palette;
use super::samples::{ChartSample, ShareFigures};
use super::words::{self, memory};
use crate::model::Name;

/// Users in the chart: the users with the most memory in its samples.
const USERS: usize = 40;

/// Spans of time in the chart.
const SPANS: u64 = 240;

/// Selection of the chart in the address.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FairnessParams {
    span: Span,
}

/// Length of time in the chart, back from its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Span {
    /// All samples that are kept.
    #[default]
    All,
    /// A day.
    Day,
    /// An hour.
    Hour,
    /// Ten minutes.
    Minutes,
}

impl Span {
    const CHOICES: [(Span, &'static str, &'static str, i64); 4] = [
        (Span::All, "all", "all there is", i64::MAX),
        (Span::Day, "day", "the last day", 24 * 3_600_000),
        (Span::Hour, "hour", "the last hour", 3_600_000),
        (Span::Minutes, "minutes", "the last 10 minutes", 600_000),
    ];

    fn ms(self) -> i64 {
        Span::CHOICES.iter().find(|(span, ..)| *span == self).map_or(i64::MAX, |(.., ms)| *ms)
    }
}

#[derive(Template)]
#[template(path = "fairness_head.html")]
struct FairnessHead {
    spans: Vec<(&'static str, &'static str, bool)>,
}

#[derive(Template)]
#[template(path = "fairness.html")]
struct LiveFairness {
    /// Begin and end of the chart: milliseconds since the epoch, and the same in words.
    ends: Option<[(i64, String); 2]>,
    all_users: Vec<(&'static str, String)>,
    rows: Vec<FairnessRow>,
    more: usize,
    levels: [(&'static str, &'static str); 5],
    /// Position of the selected past cycle in the chart.
    mark: Option<u64>,
}

struct FairnessRow {
    name: String,
    colour: usize,
    /// Class in the style sheet and SVG path of each level.
    bands: Vec<(&'static str, String)>,
    held: String,
    due: String,
    words: String,
}

/// Part of a fair share that is held, from far too little to far more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ShareLevel {
    FarShort,
    Short,
    Even,
    More,
    FarMore,
}

impl ShareLevel {
    /// Every level: its class in the style sheet, and what it means.
    const ALL: [(ShareLevel, &'static str, &'static str); 5] = [
        (ShareLevel::FarShort, "f-far-short", "less than half of the fair share"),
        (ShareLevel::Short, "f-short", "half to nine tenths"),
        (ShareLevel::Even, "f-even", "the fair share, give or take a tenth"),
        (ShareLevel::More, "f-more", "up to twice as much, as others leave it"),
        (ShareLevel::FarMore, "f-far-more", "more than that"),
    ];

    /// Returns the level of `held` against `due`; `None` if both are zero.
    fn of(held: u64, due: u64) -> Option<ShareLevel> {
        if held == 0 && due == 0 {
            return None;
        }
        Some(match held.saturating_mul(100).checked_div(due) {
            Some(0..50) => ShareLevel::FarShort,
            Some(50..90) => ShareLevel::Short,
            Some(90..=110) => ShareLevel::Even,
            Some(111..=200) => ShareLevel::More,
            Some(_) | None => ShareLevel::FarMore,
        })
    }

    fn class(self) -> &'static str {
        ShareLevel::ALL.iter().find(|(level, ..)| *level == self).map_or("", |(_, class, _)| class)
    }
}

/// The fair share, as far as it can be used.
fn due(figures: ShareFigures) -> u64 {
    figures.fair_share.min(figures.demand)
}

/// The page.
pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    PageQuery(params): PageQuery<FairnessParams>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.seen(&ask);
    let samples: Vec<ChartSample> = dashboard.past.notes().samples.iter().cloned().collect();
    let last = samples.last().map_or(0, |sample| sample.at_ms);
    let from = last.saturating_sub(params.span.ms());
    let samples: Vec<&ChartSample> = samples.iter().filter(|sample| from <= sample.at_ms).collect();
    let columns = columns(&samples);
    let sums = sums(&samples);
    let now = dashboard.palette(&published.view, &ask);
    let palette = Palette::of(sums.clone(), &now);
    let users = users(sums);
    let more = users.len().saturating_sub(USERS);
    let row = |name: &Name| {
        let line: Vec<ShareFigures> = columns.iter().map(|sample| of(sample, name)).collect();
        let shown = samples.iter().rev().find(|sample| sample.at_ms <= ask.until_ms());
        let now = shown.map(|sample| of(sample, name)).unwrap_or_default();
        FairnessRow {
            colour: palette.colour(name),
            bands: bands(line.iter().map(|figures| ShareLevel::of(figures.held, due(*figures)))),
            held: memory(now.held),
            due: memory(due(now)),
            words: in_words(&line),
            name: name.to_string(),
        }
    };
    let end = |sample: &&ChartSample| (sample.at_ms, words::time(sample.at_ms));
    let ends = samples.first().map(end).zip(samples.last().map(end));
    let live = LiveFairness {
        all_users: bands(columns.iter().map(|sample| level_of_all(sample))),
        rows: users.iter().take(USERS).map(row).collect(),
        more,
        levels: ShareLevel::ALL.map(|(_, class, words)| (class, words)),
        mark: ask.past().and_then(|past| place(&samples, past.at_ms)),
        ends: ends.map(|(first, last)| [first, last]),
    };
    let choice = |(span, word, words, _): (Span, _, _, _)| (word, words, span == params.span);
    let head = FairnessHead { spans: Span::CHOICES.map(choice).to_vec() };
    Page { title: "Fairness", section: "/fairness", head, live }.answer(&ask)
}

fn of(sample: &ChartSample, name: &Name) -> ShareFigures {
    let found = sample.users.iter().find(|(known, _)| known == name);
    found.map(|(_, figures)| *figures).unwrap_or_default()
}

/// Returns the level of all users together. Surplus of a user is left out, as it does not help
/// users below their fair share.
fn level_of_all(sample: &ChartSample) -> Option<ShareLevel> {
    let (had, due) = sample.users.iter().fold((0, 0), |(had, all), (_, figures)| {
        (had + figures.held.min(due(*figures)), all + due(*figures))
    });
    if due == 0 { None } else { ShareLevel::of(had, due) }
}

/// Returns a sample for each span of time: the last sample before the end of the span.
fn columns<'a>(samples: &[&'a ChartSample]) -> Vec<&'a ChartSample> {
    let Some((first, last)) = samples.first().zip(samples.last()) else { return Vec::new() };
    let length = last.at_ms.saturating_sub(first.at_ms).unsigned_abs().max(1);
    let mut columns = Vec::new();
    let mut next = 0;
    for span in 1..=SPANS {
        let end = (length * span).div_ceil(SPANS);
        let is_in =
            |sample: &&ChartSample| sample.at_ms.saturating_sub(first.at_ms).unsigned_abs() <= end;
        while samples.get(next + 1).is_some_and(is_in) {
            next += 1;
        }
        columns.push(samples[next]);
    }
    columns
}

/// Returns the position of a time in the chart.
fn place(samples: &[&ChartSample], at_ms: i64) -> Option<u64> {
    let (first, last) = samples.first().zip(samples.last())?;
    if !(first.at_ms..=last.at_ms).contains(&at_ms) {
        return None;
    }
    let length = (last.at_ms - first.at_ms).unsigned_abs().max(1);
    Some(((at_ms - first.at_ms).unsigned_abs() * SPANS).div_euclid(length))
}

/// Returns the users, by memory in the samples, largest first.
fn users(sums: BTreeMap<Name, u64>) -> Vec<Name> {
    let mut users: Vec<(Name, u64)> = sums.into_iter().filter(|(_, sum)| 0 < *sum).collect();
    users.sort_by_key(|(name, sum)| (std::cmp::Reverse(*sum), name.clone()));
    users.into_iter().map(|(name, _)| name).collect()
}

/// Sums for each user the memory held, or due if that is more, over all samples.
fn sums(samples: &[&ChartSample]) -> BTreeMap<Name, u64> {
    let mut sums: BTreeMap<Name, u64> = BTreeMap::new();
    for (name, figures) in samples.iter().flat_map(|sample| &sample.users) {
        *sums.entry(name.clone()).or_default() += figures.held.max(due(*figures));
    }
    sums
}

/// Draws each run of equal level as a shape, and all shapes of a level as a path.
fn bands(levels: impl Iterator<Item = Option<ShareLevel>>) -> Vec<(&'static str, String)> {
    let mut paths: BTreeMap<ShareLevel, String> = BTreeMap::new();
    let mut run: Option<(ShareLevel, u64)> = None;
    for (at, level) in (0..).zip(levels.chain([None])) {
        if run.map(|(level, _)| level) == level && at != SPANS {
            continue;
        }
        if let Some((before, from)) = run.take() {
            // Writing to a string cannot fail.
            let _ = write!(paths.entry(before).or_default(), "M{from} 0h{0}v10h-{0}z", at - from);
        }
        run = level.map(|level| (level, at));
    }
    paths.into_iter().map(|(level, d)| (level.class(), d)).collect()
}

/// Describes a row in words, for readers without sight of the chart.
fn in_words(line: &[ShareFigures]) -> String {
    let levels: Vec<ShareLevel> =
        line.iter().filter_map(|figures| ShareLevel::of(figures.held, due(*figures))).collect();
    let all = crate::model::count(&levels);
    let part = |is_it: fn(&ShareLevel) -> bool| {
        words::percent(crate::model::count(levels.iter().filter(|level| is_it(level))), all)
    };
    if all == 0 {
        return "nothing held and nothing due".to_owned();
    }
    format!(
        "less than the fair share for {} % of the time, about the fair share for {} %, more for {} %",
        part(|level| *level < ShareLevel::Even),
        part(|level| *level == ShareLevel::Even),
        part(|level| ShareLevel::Even < *level)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: i64, fair_share: u64, held: u64) -> ChartSample {
        let figures = ShareFigures { fair_share, held, demand: 1_000 };
        ChartSample { at_ms, users: vec![(Name::from("ann"), figures)], ..ChartSample::default() }
    }

    #[test]
    fn a_level_says_how_much_of_the_fair_share_is_held() {
        let cases = [
            ((0, 0), None),
            ((0, 10), Some(ShareLevel::FarShort)),
            ((49, 100), Some(ShareLevel::FarShort)),
            ((50, 100), Some(ShareLevel::Short)),
            ((89, 100), Some(ShareLevel::Short)),
            ((90, 100), Some(ShareLevel::Even)),
            ((110, 100), Some(ShareLevel::Even)),
            ((111, 100), Some(ShareLevel::More)),
            ((200, 100), Some(ShareLevel::More)),
            ((201, 100), Some(ShareLevel::FarMore)),
            ((1, 0), Some(ShareLevel::FarMore)),
        ];
        for ((held, due), level) in cases {
            assert_eq!(ShareLevel::of(held, due), level, "{held} of {due}");
        }
        let figures = ShareFigures { fair_share: 100, held: 30, demand: 30 };
        assert_eq!(
            ShareLevel::of(30, due(figures)),
            Some(ShareLevel::Even),
            "no user is owed more than the demand"
        );
    }

    #[test]
    fn a_row_is_a_few_runs_in_time() {
        let samples = [sample(0, 100, 0), sample(30_000, 100, 100), sample(120_000, 100, 100)];
        let samples: Vec<&ChartSample> = samples.iter().collect();
        let columns = columns(&samples);
        assert_eq!(columns.len(), 240);
        let levels = columns.iter().map(|sample| level_of_all(sample));
        let bands = bands(levels);
        assert_eq!(
            bands,
            [
                ("f-far-short", "M0 0h59v10h-59z".to_owned()),
                ("f-even", "M59 0h181v10h-181z".to_owned())
            ]
        );
        assert_eq!(place(&samples, 60_000), Some(120));
        assert_eq!(place(&samples, 120_001), None);
    }
}
