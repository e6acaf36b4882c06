//! The page of the grid: its clusters, and the campaigns over them with their predicted and real ends.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::SECTION;
use super::draw::ProgressBar;
use super::list::{colour, is_final};
use crate::dashboard::{Ask, Nothing, Page, PageError, words};
use crate::model::span;
use crate::orchestrator::serve::campaigns::summarise;
use crate::orchestrator::serve::clusters::{clusters_of, forecast};
use crate::orchestrator::serve::problem::Failed;
use crate::orchestrator::serve::state::ServeState;
use crate::orchestrator::serve::stats::rate_of;
use crate::orchestrator::store::{CampaignInfo, StoreReader};
use crate::orchestrator::wire::{CampaignSummary, GridCluster, places};

/// Most campaigns on the page.
const ROWS: u32 = 50;
/// Most forecasts of a campaign that are looked at.
const FORECASTS: u32 = 2000;

#[derive(Template)]
#[template(path = "grid.html")]
struct GridLive {
    words: String,
    clusters: Vec<ClusterLine>,
    campaigns: Vec<GridLine>,
}

/// A cluster, as a line of the table.
struct ClusterLine {
    one: GridCluster,
    bar: String,
    memory: String,
    free: String,
    limits: String,
}

/// A campaign, as a line of the table.
struct GridLine {
    one: CampaignSummary,
    colour: u64,
    bar: String,
    places: String,
    rate: String,
    /// Predicted end: of the last forecast, or of the forecast at half of the time if it has ended.
    predicted: Option<(u64, String)>,
    /// Real end. `None`: it has not ended.
    ended: Option<(u64, String)>,
    /// Distance of the prediction from the end.
    off: String,
}

/// Use of a cluster, in thousandths.
#[derive(Template)]
#[template(path = "cluster_bar.html")]
struct ClusterBar {
    used: u64,
    words: String,
}

/// The page.
pub(super) async fn page(State(state): State<ServeState>, ask: Ask) -> Result<Response, PageError> {
    let mut reading = state.reader().await?;
    let reader = reading.get()?;
    let clusters = clusters_of(&state, reader).await?;
    let words = match clusters.iter().map(|one| one.at_ms).max() {
        None => "This orchestrator has no other clusters.".to_owned(),
        Some(0) => "The router has made no pass yet.".to_owned(),
        Some(at_ms) => {
            let count = words::counted(crate::model::count(&clusters), "cluster");
            format!("{count}, as the pass of {} saw them.", words::time(signed(at_ms)))
        }
    };
    let campaigns = if clusters.is_empty() { Vec::new() } else { campaigns(reader).await? };
    let clusters = clusters.into_iter().map(cluster_line).collect();
    let live = GridLive { words, clusters, campaigns };
    Page { title: "Grid", section: SECTION, head: Nothing, live }.answer(&ask)
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

fn cluster_line(one: GridCluster) -> ClusterLine {
    let size = |resources: u64| words::memory(resources.saturating_mul(one.resource_mb));
    let used = one.used.saturating_mul(1000).checked_div(one.capacity).unwrap_or(0);
    let told = format!("{} of {} used on {}", size(one.used), size(one.capacity), one.cluster);
    let limits = one.rungs.iter().map(|(rung, nodes)| format!("{rung} {nodes}"));
    ClusterLine {
        bar: ClusterBar { used, words: told }.to_string(),
        memory: size(one.capacity),
        free: size(one.free),
        limits: limits.collect::<Vec<_>>().join(", "),
        one,
    }
}

async fn campaigns(reader: &mut StoreReader) -> Result<Vec<GridLine>, Failed> {
    let mut lines = Vec::new();
    for info in reader.campaigns(None, 0..=u64::MAX >> 1, ROWS).await? {
        lines.push(line(reader, &info).await?);
    }
    Ok(lines)
}

async fn line(reader: &mut StoreReader, info: &CampaignInfo) -> Result<GridLine, Failed> {
    let one = summarise(reader, info).await?;
    let (rate, _) = rate_of(reader, info, &one).await?;
    let ended_ms = if is_final(&one) { reader.ends(one.id).await?.last_ms } else { None };
    let rows = reader.forecasts(one.id, FORECASTS).await?;
    let mut whole = rows.iter().filter(|row| row.cluster.is_empty());
    // The last forecast of a campaign that ended is of no use: half of the time was left.
    let half_ms = ended_ms.map(|end| one.submitted_ms.midpoint(end));
    let row = match half_ms {
        Some(half_ms) => {
            whole.clone().find(|row| half_ms <= row.at_ms).or_else(|| whole.next_back())
        }
        None => whole.next_back(),
    };
    let end_ms = row.and_then(|row| forecast(row).end_ms);
    let told = |ms: u64| (ms, words::time(signed(ms)));
    let off = end_ms.zip(ended_ms).map(|(predicted, ended)| {
        let word = if predicted < ended { "later" } else { "earlier" };
        format!("{} {word}", span(predicted.abs_diff(ended)))
    });
    Ok(GridLine {
        colour: colour(&one.user),
        bar: ProgressBar::of(&one).to_string(),
        places: if 0 < one.running { places(one.running, &one.away) } else { String::new() },
        rate: rate.words(),
        predicted: end_ms.map(told),
        ended: ended_ms.map(told),
        off: off.unwrap_or_default(),
        one,
    })
}
