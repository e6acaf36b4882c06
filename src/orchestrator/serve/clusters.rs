//! The clusters of a grid: as the last pass of the router saw them, over time, and acts of operators.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;

use super::caller::OrchestratorCaller;
use super::campaigns::known;
use super::problem::Failed;
use super::state::ServeState;
use crate::grid::STRESS_LIMIT;
use crate::model::Name;
use crate::orchestrator::book::{Event, Forwarding, LOCAL};
use crate::orchestrator::drive::{BookRequest, wall_ms};
use crate::orchestrator::forwarding::GridRequest;
use crate::orchestrator::store::{ClusterRow, ForecastRow, OutOfGrid, StatusRow, StoreReader};
use crate::orchestrator::wire::{
    CampaignForecast, ClusterChange, ForecastList, GridCluster, GridHistory,
};

/// Most rows of an answer.
const ROWS: u32 = 10_000;
/// Time of an answer without `from`, in milliseconds: the last hour.
const HOUR_MS: u64 = 3_600_000;

/// A time of the grid.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct GridTimes {
    /// First pass, in milliseconds since the epoch. Without it, passes of the last hour.
    from: Option<u64>,
    /// Last pass, in milliseconds since the epoch. Without it, up to now.
    to: Option<u64>,
}

/// The clusters at the passes within a time: free and used resources, tasks, limits of their nodes.
#[utoipa::path(get, path = "/v1/grid/status", tag = "nodes", params(GridTimes),
    responses((status = 200, body = GridHistory)))]
pub(super) async fn get_status(
    State(state): State<ServeState>,
    _: OrchestratorCaller,
    times: Query<GridTimes>,
) -> Result<Json<GridHistory>, Failed> {
    let now_ms = wall_ms();
    let to_ms = times.to.unwrap_or(u64::MAX >> 1);
    let from_ms = times.from.unwrap_or_else(|| to_ms.min(now_ms).saturating_sub(HOUR_MS));
    let mut reading = state.reader().await?;
    let rows = reading.get()?.grid_status(from_ms..=to_ms, ROWS).await?;
    let more = u64::from(ROWS) <= crate::model::count(&rows);
    let resource_mb = state.sight.grid().map_or(0, |(_, resource_mb)| resource_mb);
    let passes = rows.into_iter().map(|row| cluster(row, resource_mb, None)).collect();
    Ok(Json(GridHistory { passes, more }))
}

/// Takes a cluster out of the grid, or puts it back.
#[utoipa::path(put, path = "/v1/grid/clusters/{name}", tag = "nodes",
    params(("name" = String, Path, description = "the name of the cluster")),
    request_body = ClusterChange,
    responses((status = 204, description = "it is on record"), (status = 404, description = "no such cluster")))]
pub(super) async fn put_cluster(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path(name): Path<String>,
    Json(change): Json<ClusterChange>,
) -> Result<StatusCode, Failed> {
    let names = state.sight.grid().map(|(names, _)| names).unwrap_or_default();
    if !names.iter().any(|known| known.as_str() == name) {
        let names: Vec<&str> = names.iter().map(Name::as_str).collect();
        let detail = match names.as_slice() {
            [] => "this orchestrator has no other clusters; `[[cluster]]` names them".to_owned(),
            names => format!("there is no cluster {name}; clusters are {}", names.join(", ")),
        };
        return Err(Failed::absent(detail));
    }
    let by = caller.by();
    let out = match change.state.as_str() {
        "out" | "lost" => {
            let why = change.why.chars().take(500).collect();
            Some(OutOfGrid { at_ms: wall_ms(), by: by.who.clone(), why })
        }
        "in" => None,
        _ => return Err(Failed::bad("state: write `out`, `in` or `lost`")),
    };
    let name = Name::from(name);
    let (cluster, operator) = (name.clone(), by.clone());
    let take = |reply| BookRequest::Grid(GridRequest::TakeOut(cluster, out, operator, reply));
    state.ask(take).await?;
    if change.state == "lost" {
        let (event, detail) = (Event::Forwarded(Forwarding::Lost(name.clone())), name.to_string());
        let ask = |reply| BookRequest::Act(event, by, "grid-lost", detail, reply);
        state.ask(ask).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// The forecasts of a campaign over time, for the whole and for each cluster.
#[utoipa::path(get, path = "/v1/campaigns/{id}/forecasts", tag = "campaigns",
    params(("id" = u64, Path, description = "the number of the campaign")),
    responses((status = 200, body = ForecastList), (status = 404, description = "no such campaign")))]
pub(super) async fn get_forecasts(
    State(state): State<ServeState>,
    _: OrchestratorCaller,
    Path(id): Path<u64>,
) -> Result<Json<ForecastList>, Failed> {
    let mut reading = state.reader().await?;
    let reader = reading.get()?;
    known(reader.campaign(id).await?, id)?;
    let rows = reader.forecasts(id, ROWS).await?;
    Ok(Json(ForecastList { forecasts: rows.iter().map(forecast).collect() }))
}

/// A forecast, as callers see it.
pub(super) fn forecast(row: &ForecastRow) -> CampaignForecast {
    CampaignForecast {
        at_ms: row.at_ms,
        cluster: row.cluster.clone(),
        ratio: row.state.ratio,
        sent: row.state.sent,
        ended: row.figures.count,
        mean_ms: row.figures.mean_ms,
        deviation_ms: row.figures.deviation_ms,
        throughput: row.figures.throughput().unwrap_or(0),
        basis: row.basis.clone(),
        end_ms: row.left_ms.map(|left| row.at_ms.saturating_add(left)),
    }
}

/// A cluster at a pass. `known`: its row, for the present.
fn cluster(row: StatusRow, resource_mb: u64, known: Option<&ClusterRow>) -> GridCluster {
    let out = known.and_then(|known| known.out.as_ref());
    let state = match out {
        Some(_) => "out",
        None if row.is_silent => "silent",
        None if STRESS_LIMIT <= row.stress => "stressed",
        None if !row.held.is_empty() => "held",
        None => "in",
    };
    let why = |out: &OutOfGrid| match out.why.as_str() {
        "" => out.by.clone(),
        why => format!("{}: {why}", out.by),
    };
    GridCluster {
        cluster: row.cluster,
        state: state.to_owned(),
        at_ms: row.at_ms,
        nodes: row.nodes,
        capacity: row.capacity,
        free: row.free,
        used: row.capacity.saturating_sub(row.free),
        running: row.running,
        waiting: row.waiting,
        sent: row.sent,
        resource_mb,
        rungs: row.rungs,
        stress: row.stress,
        held_why: row.held,
        out_ms: out.map(|out| out.at_ms),
        out_why: out.map(why).unwrap_or_default(),
    }
}

/// The clusters of the grid as the last pass saw them, the router's own first. Empty: no other
/// cluster is configured.
pub(super) async fn clusters_of(
    state: &ServeState,
    reader: &mut StoreReader,
) -> Result<Vec<GridCluster>, Failed> {
    let Some((names, resource_mb)) = state.sight.grid() else { return Ok(Vec::new()) };
    let (seen, known) = (reader.last_status().await?, reader.clusters().await?);
    let names = std::iter::once(LOCAL).chain(names.iter().map(Name::as_str));
    let row = |name: &str| {
        let row = seen.iter().find(|row| row.cluster == name).cloned();
        let absent = || StatusRow { cluster: name.to_owned(), ..StatusRow::default() };
        cluster(row.unwrap_or_else(absent), resource_mb, known.get(name))
    };
    Ok(names.map(row).collect())
}
