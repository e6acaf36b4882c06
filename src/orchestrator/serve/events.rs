//! Events of campaigns, as a feed with numbers of its own.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;

use super::caller::OrchestratorCaller;
use super::nodes::wait_of;
use super::problem::Failed;
use super::state::ServeState;
use crate::model::count;
use crate::orchestrator::store::EventInfo;
use crate::orchestrator::wire::{CampaignEvent, CampaignEvents};

/// Interval at which a stream reads the database without a commit.
const STREAM_WAIT: Duration = Duration::from_mins(1);
/// Most events in an answer.
const LIMIT: u32 = 1000;

/// Selection of events.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// Only events after this number. Absent: no events, and the answer contains the last number.
    since: Option<u64>,
    /// Time that the answer waits for an event: a duration such as `25s`, a minute at most.
    wait: Option<String>,
}

/// Events of campaigns, in order: what was submitted, suspended, resumed, ended, and what failed.
/// Their sentences are for owners and operators. With `Accept: text/event-stream` they come as they
/// happen; else page by page.
#[utoipa::path(get, path = "/v1/campaigns/events", tag = "campaigns",
    params(EventsQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "the same as `since`, as clients of event streams send it")),
    responses((status = 200, description = "the events; in a stream each is the data of a message, with its number as `id` and its code as `event`",
        content((CampaignEvents = "application/json"), (CampaignEvent = "text/event-stream")))))]
pub(super) async fn get_events(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    headers: HeaderMap,
    query: Query<EventsQuery>,
) -> Result<Response, Failed> {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    if accepts.is_some_and(|accepts| accepts.contains("text/event-stream")) {
        let since = match headers.get("last-event-id") {
            Some(seen) => Some(number_in(seen.as_bytes())?),
            None => query.since,
        };
        let since = match since {
            Some(since) => since,
            None => state.reader().await?.get()?.last_event().await?,
        };
        return Ok(stream_of(state, caller, since).into_response());
    }
    page_of(&state, &caller, &query).await.map(|page| Json(page).into_response())
}

fn number_in(header: &[u8]) -> Result<u64, Failed> {
    let number = std::str::from_utf8(header).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Failed::bad("`Last-Event-ID` is not the number of an event"))
}

/// Events as they come, until the orchestrator stops or the caller goes away.
fn stream_of(state: ServeState, caller: OrchestratorCaller, since: u64) -> impl IntoResponse {
    let course = (state, caller, since, VecDeque::new());
    let events = stream::unfold(course, |(state, caller, mut since, mut ready)| async move {
        loop {
            if let Some(event) = ready.pop_front() {
                return Some((Ok::<_, Infallible>(message(&event)), (state, caller, since, ready)));
            }
            if state.sight.stop.is_cancelled() {
                return None;
            }
            // A failed read ends the stream. The client connects again, and then gets the problem.
            let page = after(&state, &caller, since, STREAM_WAIT).await.ok()?;
            since = page.sequence;
            ready.extend(page.events);
        }
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

fn message(event: &CampaignEvent) -> sse::Event {
    let data = serde_json::to_string(event).unwrap_or_default();
    sse::Event::default().id(event.sequence.to_string()).event(&event.code).data(data)
}

async fn page_of(
    state: &ServeState,
    caller: &OrchestratorCaller,
    query: &EventsQuery,
) -> Result<CampaignEvents, Failed> {
    let wait = query.wait.as_deref().map_or(Ok(Duration::ZERO), wait_of)?;
    let Some(since) = query.since else {
        let sequence = state.reader().await?.get()?.last_event().await?;
        return Ok(CampaignEvents { events: Vec::new(), sequence, more: false });
    };
    after(state, caller, since, wait).await
}

/// Events after number `since`; none if none has come within `wait`, or before the orchestrator stops.
async fn after(
    state: &ServeState,
    caller: &OrchestratorCaller,
    since: u64,
    wait: Duration,
) -> Result<CampaignEvents, Failed> {
    let until = tokio::time::Instant::now() + wait;
    let mut commits = state.sight.commits.clone();
    loop {
        commits.mark_unchanged();
        let found = state.reader().await?.get()?.events(since, LIMIT).await?;
        let is_stopped = state.sight.stop.is_cancelled();
        if !found.is_empty() || until <= tokio::time::Instant::now() || is_stopped {
            return Ok(page(caller, found, since));
        }
        tokio::select! {
            () = state.sight.stop.cancelled() => {}
            () = tokio::time::sleep_until(until) => {}
            // If no owner commits any more, the stop is due.
            _ = commits.changed() => {}
        }
    }
}

fn page(caller: &OrchestratorCaller, found: Vec<EventInfo>, since: u64) -> CampaignEvents {
    let sequence = found.last().map_or(since, |last| last.id);
    let more = u64::from(LIMIT) <= count(&found);
    let event = |event: EventInfo| {
        let may_read = caller.may_touch(&event.owner);
        let mut told = CampaignEvent::from(event);
        if !may_read {
            told.text.clear();
        }
        told
    };
    CampaignEvents { events: found.into_iter().map(event).collect(), sequence, more }
}
