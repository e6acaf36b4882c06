//! The nodes that run slots, with their memory at the resource manager.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Map, Value};

use super::caller::OrchestratorCaller;
use super::clusters::clusters_of;
use super::problem::Failed;
use super::state::ServeState;
use crate::api::wire::NodeInfo;
use crate::model::Name;
use crate::orchestrator::drive;
use crate::orchestrator::forwarding::GridRequest;
use crate::orchestrator::wire::{
    Grid, GridNode, LeaseRenewal, LeaseTerms, NodeSlots, RenewedLeases,
};
use crate::slot::since_boot_ms;

/// Lists the nodes whose agents run work: enforcement of limits, used memory and free memory. A router
/// lists the clusters of its grid, too.
#[utoipa::path(get, path = "/v1/grid", tag = "nodes", responses((status = 200, body = Grid)))]
pub(super) async fn get_grid(
    State(state): State<ServeState>,
    _: OrchestratorCaller,
) -> Result<Json<Grid>, Failed> {
    grid_of(&state).await.map(Json)
}

/// The nodes that run slots.
pub(super) async fn grid_of(state: &ServeState) -> Result<Grid, Failed> {
    let facts = state.ask(drive::BookRequest::Nodes).await?;
    // The slots of a node are known without the resource manager.
    let known = match state.sight.manager() {
        Ok(manager) => manager.nodes().await,
        Err(silent) => Err(silent),
    };
    let known = known.unwrap_or_else(|error| {
        tracing::debug!(%error, "nodes are listed without their memory");
        Vec::new()
    });
    let known: BTreeMap<&str, &NodeInfo> =
        known.iter().map(|node| (node.name.as_str(), node)).collect();
    let nodes = facts.into_iter().map(|facts| {
        let known = known.get(facts.node.as_str());
        GridNode {
            limits: facts.limits,
            only_user: facts.only_user.map(|user| user.to_string()),
            slots: facts.slots,
            running: facts.running,
            used_mb: facts.used_mb,
            memory_mb: known.map(|node| node.memory_mb),
            free_mb: known.map(|node| node.free.saturating_mul(node.quantum_mb)),
            silent_ms: facts.silent_ms,
            node: facts.node.to_string(),
        }
    });
    let nodes = nodes.collect();
    let mut reading = state.reader().await?;
    let reader = reading.get()?;
    let clusters = clusters_of(state, reader).await?;
    let held = reader.held().await?;
    Ok(Grid { clock: state.sight.clock(), clusters, held, nodes })
}

/// Renews the leases of forwarded campaigns of the caller. The leases count from a reading of this
/// orchestrator's clock that the caller had before, so a late renewal renews nothing.
#[utoipa::path(post, path = "/v1/grid/leases", tag = "campaigns", request_body = LeaseRenewal,
    responses((status = 200, body = RenewedLeases), (status = 409, description = "a reading of another boot")))]
pub(super) async fn post_leases(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Json(renewal): Json<LeaseRenewal>,
) -> Result<Json<RenewedLeases>, Failed> {
    let as_of_ms = checked_reading(&state, &renewal.boot, renewal.as_of_ms)?;
    let mut own = Vec::new();
    let mut reading = state.reader().await?;
    for campaign in renewal.campaigns {
        let known = reading.get()?.campaign(campaign).await?;
        own.extend(known.filter(|it| caller.may_touch(&it.row.owner)).map(|it| it.row.id));
    }
    drop(reading);
    let renew = |reply| drive::BookRequest::Grid(GridRequest::Renew(own, as_of_ms, reply));
    Ok(Json(RenewedLeases { campaigns: state.ask(renew).await? }))
}

/// A reading of this orchestrator's clock that another orchestrator sends back, in milliseconds since
/// the boot. A reading of another boot is refused, and one of the future.
fn checked_reading(state: &ServeState, boot: &str, ms: u64) -> Result<u64, Failed> {
    let clock = state.sight.clock().ok_or_else(Failed::stopped)?;
    if clock.boot == boot && ms <= clock.ms {
        return Ok(ms);
    }
    Err(Failed::stale("the reading is not of this boot's clock; read `clock` of /v1/grid again"))
}

/// The length and the end of the lease of a campaign that is submitted: the field `lease` of its
/// document, which is taken out. `None`: it has no lease.
pub(super) fn lease_in(
    state: &ServeState,
    document: &mut Map<String, Value>,
) -> Result<Option<(u64, u64)>, Failed> {
    let Some(value) = document.remove("lease") else { return Ok(None) };
    let terms: LeaseTerms = serde_json::from_value(value).map_err(|error| {
        Failed::bad(format!("lease: {error}; it has `for_ms`, `boot` and `as_of_ms`"))
    })?;
    let now_ms = since_boot_ms();
    let as_of_ms = checked_reading(state, &terms.boot, terms.as_of_ms)?;
    let until_ms = as_of_ms.saturating_add(terms.for_ms);
    if until_ms <= now_ms {
        return Err(Failed::stale("the lease is over already; read `clock` of /v1/grid again"));
    }
    Ok(Some((terms.for_ms, until_ms)))
}

/// The slots of a node whose agent runs work.
#[utoipa::path(get, path = "/v1/grid/{node}", tag = "nodes",
    params(("node" = String, Path, description = "the name of the node")),
    responses((status = 200, body = NodeSlots), (status = 404, description = "the node runs no slots")))]
pub(super) async fn get_node(
    State(state): State<ServeState>,
    _: OrchestratorCaller,
    Path(node): Path<String>,
) -> Result<Json<NodeSlots>, Failed> {
    let slots = slots_on(&state, &node).await?;
    slots.map(Json).ok_or_else(|| {
        Failed::absent(format!(
            "{node} runs no slots; start its agent with --run, or look at /v1/grid"
        ))
    })
}

/// The slots of a node; `None` if it runs none.
pub(super) async fn slots_on(state: &ServeState, node: &str) -> Result<Option<NodeSlots>, Failed> {
    state.ask(|reply| drive::BookRequest::Slots(Name::from(node), reply)).await
}
