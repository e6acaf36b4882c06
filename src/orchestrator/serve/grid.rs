//! The nodes that run slots, with their memory at the resource manager.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};

use super::caller::OrchestratorCaller;
use super::problem::Failed;
use super::state::ServeState;
use crate::api::wire::NodeInfo;
use crate::model::Name;
use crate::orchestrator::drive;
use crate::orchestrator::wire::{Grid, GridNode, NodeSlots};

/// Lists the nodes whose agents run work: enforcement of limits, used memory and free memory.
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
    Ok(Grid { nodes: nodes.collect() })
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
