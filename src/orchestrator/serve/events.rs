//! What happened to campaigns, as a feed with numbers of its own.

use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;

use super::caller::Caller;
use super::nodes::wait_of;
use super::problem::Failed;
use super::state::ServeState;
use crate::model::count;
use crate::orchestrator::store::EventInfo;
use crate::orchestrator::wire::{CampaignEvent, CampaignEvents};

/// Events in one answer at most.
const LIMIT: u32 = 1000;

/// Which events.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// Those after this number. Absent: none, and the answer says the last number.
    since: Option<u64>,
    /// How long the answer waits for an event: a duration such as `25s`, a minute at most.
    wait: Option<String>,
}

/// Events of campaigns, in order: what was submitted, suspended, resumed, ended, and what failed.
/// Their sentences are for owners and operators.
#[utoipa::path(get, path = "/v1/campaigns/events", tag = "campaigns", params(EventsQuery),
    responses((status = 200, body = CampaignEvents)))]
pub(super) async fn get_events(
    State(state): State<ServeState>,
    caller: Caller,
    query: Query<EventsQuery>,
) -> Result<Json<CampaignEvents>, Failed> {
    let wait = query.wait.as_deref().map_or(Ok(Duration::ZERO), wait_of)?;
    let Some(since) = query.since else {
        let sequence = state.reader().await?.get()?.last_event().await?;
        return Ok(Json(CampaignEvents { events: Vec::new(), sequence, more: false }));
    };
    let until = tokio::time::Instant::now() + wait;
    let mut commits = state.sight.commits.clone();
    loop {
        commits.mark_unchanged();
        let found = state.reader().await?.get()?.events(since, LIMIT).await?;
        let is_stopped = state.sight.stop.is_cancelled();
        if !found.is_empty() || until <= tokio::time::Instant::now() || is_stopped {
            return Ok(Json(page(&caller, found, since)));
        }
        tokio::select! {
            () = state.sight.stop.cancelled() => {}
            () = tokio::time::sleep_until(until) => {}
            // If no owner commits any more, the stop is due.
            _ = commits.changed() => {}
        }
    }
}

fn page(caller: &Caller, found: Vec<EventInfo>, since: u64) -> CampaignEvents {
    let sequence = found.last().map_or(since, |last| last.id);
    let more = u64::from(LIMIT) <= count(&found);
    let event = |event: EventInfo| {
        let may_read = caller.may_touch(&event.owner);
        CampaignEvent {
            sequence: event.id,
            at_ms: event.at_ms,
            campaign: event.campaign,
            user: event.owner,
            task: event.task,
            node: event.node,
            code: event.code,
            text: if may_read { event.text } else { String::new() },
        }
    };
    CampaignEvents { events: found.into_iter().map(event).collect(), sequence, more }
}
