//! Figures over time: numbers for curves, and a table for browsers without JavaScript.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::Dashboard;
use super::frame::{PageError, PageQuery};
use super::past::PastNotes;
use super::samples::{ChartSample, Whose};
use super::words::{self, memory};

/// Rows of the table beside a chart.
const ROWS: usize = 12;

/// Class or user of the requested figures; the whole cluster if neither is named.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HistoryParams {
    class: String,
    user: String,
    of: Of,
}

/// Kind of the requested figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Of {
    /// Memory.
    #[default]
    Memory,
    /// Processes that were preempted.
    Preemptions,
}

/// Curves: a time for each point, and for each curve as many amounts.
#[derive(Debug, Serialize)]
struct History {
    /// In milliseconds since the epoch.
    at_ms: Vec<i64>,
    /// The cycle of each point; none where points are spans of time.
    cycles: Vec<u64>,
    curves: Vec<ChartCurve>,
}

#[derive(Debug, Default, Serialize)]
struct ChartCurve {
    label: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_mb: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<Vec<u64>>,
}

/// Answers with the figures, as far as they are kept.
pub(super) async fn history(
    State(dashboard): State<Dashboard>,
    PageQuery(params): PageQuery<HistoryParams>,
) -> Result<Response, PageError> {
    let notes = dashboard.past.notes();
    let history = match params.of {
        Of::Memory => of_memory(&notes, &params),
        Of::Preemptions => of_preemptions(&notes),
    };
    drop(notes);
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(history)).into_response())
}

fn of_memory(notes: &PastNotes, params: &HistoryParams) -> History {
    let curve = |label, amount: &dyn Fn(&ChartSample) -> u64| ChartCurve {
        label,
        memory_mb: Some(notes.samples.iter().map(amount).collect()),
        ..ChartCurve::default()
    };
    let whose = match (params.class.as_str(), params.user.as_str()) {
        ("", "") => None,
        ("", user) => Some(Whose::User(user)),
        (class, _) => Some(Whose::Class(class)),
    };
    let curves = match whose {
        None => vec![
            curve("schedulable", &|sample| sample.schedulable),
            curve("in use", &|sample| sample.used),
        ],
        Some(whose) => vec![
            curve("fair share", &|sample| sample.figures(whose).fair_share),
            curve("held", &|sample| sample.figures(whose).held),
        ],
    };
    let at_ms = notes.samples.iter().map(|sample| sample.at_ms).collect();
    let cycles = notes.samples.iter().map(|sample| sample.cycle).collect();
    History { at_ms, cycles, curves }
}

/// Spans of time in the chart of preemptions.
const SPANS: i64 = 90;

/// Preemptions in equal spans of the time that other charts show.
fn of_preemptions(notes: &PastNotes) -> History {
    let first = notes.samples.iter().next().map_or(0, |sample| sample.at_ms);
    let last = notes.samples.iter().last().map_or(0, |sample| sample.at_ms);
    let span = (last - first).div_euclid(SPANS).max(1_000);
    let at_ms: Vec<i64> =
        (0..SPANS).map(|n| first + n * span).take_while(|at| *at <= last).collect();
    let mut processes = vec![0_u64; at_ms.len()];
    for (at, count) in notes.preempted().filter(|(at, _)| (first..=last).contains(at)) {
        let place = usize::try_from((at - first).div_euclid(span)).unwrap_or(usize::MAX);
        let place = place.min(processes.len().saturating_sub(1));
        if let Some(processes) = processes.get_mut(place) {
            *processes += count;
        }
    }
    let curve =
        ChartCurve { label: "preempted", processes: Some(processes), ..ChartCurve::default() };
    History { at_ms, cycles: Vec::new(), curves: vec![curve] }
}

/// A row of the table beside a chart.
#[derive(Debug)]
pub(super) struct PastRow {
    pub at_ms: i64,
    pub at: String,
    pub fair_share: String,
    pub held: String,
    pub demand: String,
}

/// Some of the samples up to `until`, the latest first, evenly chosen.
pub(super) fn table(notes: &PastNotes, whose: Whose<'_>, until: i64) -> Vec<PastRow> {
    let samples: Vec<&ChartSample> =
        notes.samples.iter().filter(|sample| sample.at_ms <= until).collect();
    let step = samples.len().div_ceil(ROWS).max(1);
    let chosen = samples.into_iter().rev().step_by(step);
    chosen
        .map(|sample| {
            let figures = sample.figures(whose);
            PastRow {
                at_ms: sample.at_ms,
                at: words::time(sample.at_ms),
                fair_share: memory(figures.fair_share),
                held: memory(figures.held),
                demand: memory(figures.demand),
            }
        })
        .collect()
}
