//! Figures over time: as numbers for curves, and as a table for whoever has none.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::Dashboard;
use super::frame::{Asked, PageError};
use super::past::Notes;
use super::samples::{Sample, Whose};
use super::words::{self, memory};

/// Rows of the table beside a chart.
const ROWS: usize = 12;

/// Whose figures are asked for; of the whole cluster if nobody's.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HistoryParams {
    class: String,
    user: String,
}

/// Curves: a time for each point, and for each curve as many amounts in MiB.
#[derive(Debug, Serialize)]
struct History {
    /// In milliseconds since the epoch.
    at_ms: Vec<i64>,
    curves: Vec<Curve>,
}

#[derive(Debug, Serialize)]
struct Curve {
    label: &'static str,
    memory_mb: Vec<u64>,
}

/// The figures since the daemon started, as far as they are kept.
pub(super) async fn history(
    State(dashboard): State<Dashboard>,
    Asked(params): Asked<HistoryParams>,
) -> Result<Response, PageError> {
    let notes = dashboard.past.notes();
    let curve = |label, amount: &dyn Fn(&Sample) -> u64| Curve {
        label,
        memory_mb: notes.samples.iter().map(amount).collect(),
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
            curve("deserved", &|sample| sample.figures(whose).deserved),
            curve("held", &|sample| sample.figures(whose).held),
        ],
    };
    let at_ms = notes.samples.iter().map(|sample| sample.at_ms).collect();
    let history = History { at_ms, curves };
    drop(notes);
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(history)).into_response())
}

/// A row of the table beside a chart.
#[derive(Debug)]
pub(super) struct PastRow {
    pub at_ms: i64,
    pub at: String,
    pub deserved: String,
    pub held: String,
    pub wanted: String,
}

/// Some of the samples, the latest first, evenly chosen.
pub(super) fn table(notes: &Notes, whose: Whose<'_>) -> Vec<PastRow> {
    let samples: Vec<&Sample> = notes.samples.iter().collect();
    let step = samples.len().div_ceil(ROWS).max(1);
    let chosen = samples.into_iter().rev().step_by(step);
    chosen
        .map(|sample| {
            let figures = sample.figures(whose);
            PastRow {
                at_ms: sample.at_ms,
                at: words::time(sample.at_ms),
                deserved: memory(figures.deserved),
                held: memory(figures.held),
                wanted: memory(figures.wanted),
            }
        })
        .collect()
}
