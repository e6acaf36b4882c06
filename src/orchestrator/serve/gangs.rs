//! Gangs of campaigns, for people.

use super::problem::Failed;
use super::state::ServeState;
use crate::orchestrator::drive::BookRequest;
use crate::orchestrator::spec::CampaignSpec;
use crate::orchestrator::wire::{GangInfo, RankInfo};

/// The gang of a campaign; `None` if it has none.
pub(super) async fn gang_of(
    state: &ServeState,
    id: u64,
    spec: &CampaignSpec,
) -> Result<Option<GangInfo>, Failed> {
    let Some(gang) = &spec.gang else { return Ok(None) };
    let known = state.ask(|reply| BookRequest::Gang(id, reply)).await?;
    let ranks = known.map(|known| known.ranks).unwrap_or_default().into_iter();
    let rank = |(rank, known): (u64, crate::orchestrator::book::RankState)| {
        Some(RankInfo { rank, node: known.node?, ready: known.is_ready, ending: known.is_ending })
    };
    Ok(Some(GangInfo {
        nodes: gang.nodes,
        min_nodes: gang.sizes.as_ref().map(|sizes| sizes.min_nodes),
        exclusive: gang.exclusive,
        every_node: gang.every_node,
        ranks: (0..).zip(ranks).filter_map(rank).collect(),
    }))
}
