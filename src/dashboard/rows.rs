//! Parts of several pages: bars, curves in a line, pages of long lists, and rows of jobs.

use std::fmt::Write;

use askama::Template;

use super::frame::address_of;
use super::palette::Palette;
use super::past::PastNotes;
use super::samples::{ShareFigures, Whose};
use super::sort::Sort;
use super::words;
use crate::api::wire::{JobInfo, WorkKind};
use crate::scheduler::JobView;

/// Rows on a page.
pub(super) const ROWS: usize = 100;

/// Memory held against fair share and demand, in percent of a common scale.
#[derive(Clone, Debug, Template)]
#[template(path = "bar.html")]
pub(super) struct Bar {
    held: u64,
    demand: u64,
    /// Position of the mark of the fair share; `None` without a fair share.
    fair_share: Option<u64>,
    words: String,
}

impl Bar {
    /// `figures`, where `scale` is the whole width.
    pub fn of(figures: ShareFigures, scale: u64) -> Bar {
        let part = |amount| words::percent(amount, scale).min(100);
        let ShareFigures { fair_share, held, demand } = figures;
        let words = format!(
            "holds {}, fair share {}, could use {}",
            words::memory(held),
            words::memory(fair_share),
            words::memory(demand)
        );
        // Jobs outside fair share have no fair share, and so no mark.
        let mark = (fair_share != 0).then(|| part(fair_share));
        Bar { held: part(held), demand: part(demand), fair_share: mark, words }
    }

    /// `part` of `whole`, of things called `what`.
    pub fn filled(part: u64, whole: u64, what: &str) -> Bar {
        let words = format!("{} of {} {what}", words::number(part), words::number(whole));
        let held = words::percent(part, whole).min(100);
        Bar { held, demand: 100, fair_share: None, words }
    }
}

/// Curves of recent holdings and fair shares, in a line of text.
#[derive(Clone, Debug, Template)]
#[template(path = "spark.html")]
pub(super) struct Spark {
    held: String,
    fair_share: String,
}

/// Width and height of a spark.
const SPARK: (u64, u64) = (120, 24);

/// Length of a spark in milliseconds.
const SPARK_MS: i64 = 10 * 60_000;

impl Spark {
    /// Draws the last minutes up to `until` of the class or user that `whose` names.
    pub fn of(notes: &PastNotes, whose: Whose<'_>, until: i64) -> Spark {
        let last = notes.samples.iter().filter(|sample| sample.at_ms <= until).last();
        let last = last.map_or(0, |sample| sample.at_ms);
        let samples = notes.samples.iter();
        let samples = samples.filter(|sample| (last - SPARK_MS..=last).contains(&sample.at_ms));
        let points: Vec<(i64, ShareFigures)> =
            samples.map(|sample| (sample.at_ms, sample.figures(whose))).collect();
        let first = points.first().map_or(0, |(at, _)| *at);
        let most = points.iter().map(|(_, figures)| figures.held.max(figures.fair_share)).max();
        let (length, most) = ((last - first).unsigned_abs().max(1), most.unwrap_or(0).max(1));
        let line = |amount: fn(&ShareFigures) -> u64| {
            let mut d = String::new();
            for (at, figures) in &points {
                let across = ((at - first).unsigned_abs() * SPARK.0).div_euclid(length);
                let up = (amount(figures) * (SPARK.1 - 2)).div_euclid(most);
                d.push(if d.is_empty() { 'M' } else { 'L' });
                // Writing to a string cannot fail.
                let _ = write!(d, "{across} {}", SPARK.1 - 1 - up);
            }
            d
        };
        // A spark without a fair share has no mark, as a bar.
        let is_due = points.iter().any(|(_, figures)| figures.fair_share != 0);
        let fair_share = if is_due { line(|figures| figures.fair_share) } else { String::new() };
        Spark { held: line(|figures| figures.held), fair_share }
    }
}

/// Position in a long list, with links to the pages before and after.
#[derive(Clone, Debug, Template)]
#[template(path = "paging.html")]
pub(super) struct Paging {
    words: String,
    before: Option<String>,
    after: Option<String>,
}

impl Paging {
    /// Page `page`, from 1, of `total` things, at `path` with `params`; and which of them are on it.
    pub fn of(
        page: Option<usize>,
        total: usize,
        path: &str,
        params: &[(&str, &str)],
    ) -> (Paging, std::ops::Range<usize>) {
        let pages = total.div_ceil(ROWS).max(1);
        let page = page.unwrap_or(1).clamp(1, pages);
        let range = (page - 1) * ROWS..total.min(page * ROWS);
        let address = |page: usize| {
            let number = page.to_string();
            let mut params = params.to_vec();
            params.push(("page", &number));
            address_of(path, &params)
        };
        let words = if pages == 1 {
            String::new()
        } else {
            let count = |number: usize| words::number(u64::try_from(number).unwrap_or(u64::MAX));
            format!("{}–{} of {}", count(range.start + 1), count(range.end), count(total))
        };
        let before = (1 < page).then(|| address(page - 1));
        let after = (page < pages).then(|| address(page + 1));
        (Paging { words, before, after }, range)
    }
}

/// A job, as lists show it.
#[derive(Clone, Debug)]
pub(super) struct JobRow {
    pub id: u64,
    pub user: String,
    pub colour: usize,
    pub class: String,
    pub kind: &'static str,
    pub memory: String,
    pub held: u64,
    pub demand: u64,
    pub bar: Bar,
    pub state: &'static str,
    pub submitted_ms: u64,
    pub submitted: String,
    /// Reason why the job has no more, or its processes that are ready; empty if it has all it wants
    /// and they run.
    pub reason: String,
}

/// Work, as lists show it, and nothing else.
#[derive(Clone, Debug, Template)]
#[template(path = "jobs_table.html")]
pub(super) struct JobTable {
    pub rows: Vec<JobRow>,
    /// Columns by which the list can be sorted; none on pages that show a part of it.
    pub sort: Sort,
    pub caption: String,
    /// Text of an empty list.
    pub empty: &'static str,
}

impl JobRow {
    /// The row of `job` after `cycle`.
    pub fn of(job: &JobView, cycle: u64, palette: &Palette) -> JobRow {
        let info = JobInfo::of(job, cycle);
        let (held, demand) = (info.sums.held, info.sums.wanted);
        let noun = if info.kind == WorkKind::Reservation { "nodes" } else { "processes" };
        JobRow {
            id: info.id,
            colour: palette.colour(&info.user),
            kind: info.kind.word(),
            memory: words::memory(info.memory_mb),
            held,
            demand,
            bar: Bar::filled(held, demand, noun),
            state: info.state(),
            submitted_ms: info.submitted_ms,
            submitted: words::time(i64::try_from(info.submitted_ms).unwrap_or(i64::MAX)),
            reason: match (info.reason, info.ready) {
                (Some(reason), _) => reason.sentence,
                (None, Some(ready)) => format!("starts: {ready} of {held} ready"),
                (None, None) => String::new(),
            },
            user: info.user,
            class: info.class,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_shown_page_by_page() {
        let (paging, range) = Paging::of(None, 3, "/jobs", &[("user", "")]);
        assert_eq!(
            (paging.words.as_str(), paging.before, paging.after, range),
            ("", None, None, 0..3)
        );
        let (paging, range) = Paging::of(Some(2), 250, "/jobs", &[("user", "a b")]);
        assert_eq!((paging.words.as_str(), range), ("101–200 of 250", 100..200));
        assert_eq!(paging.before.as_deref(), Some("/jobs?user=a%20b&page=1"));
        assert_eq!(paging.after.as_deref(), Some("/jobs?user=a%20b&page=3"));
        assert_eq!(Paging::of(Some(9), 250, "/jobs", &[]).1, 200..250, "past the end");
    }
}
