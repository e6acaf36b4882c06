//! The feed: what came about, from any event on that is kept, as it comes or page by page.
//!
//! Events are read from the store, which contains them in the transaction of their cycle. So no
//! sent event can be lost, and a restart leaves no gap.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use crate::api::event_log::PastEvent;
use crate::api::http::error::{ApiError, Code};
use crate::api::http::extract::QueryParams;
use crate::api::ingest::publications::wait_of;
use crate::api::state::ApiState;
use crate::api::wire::{self, Event, EventPage, FeedEvent};

/// Limit of events on a page. An event can be as large as a cycle's decisions.
const PAGE: u32 = 64;

/// Selection of events.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventParams {
    /// Only events after this number: the `sequence` of an event or a page, or `apportion-sequence`
    /// of a schedule. Without it, only future events.
    since: Option<u64>,
    /// Longest wait for an event if there is none, such as `30s`; at most a minute. Pages only.
    wait: Option<String>,
}

/// All events that an orchestrator or an operator acts upon, in order and without a gap, also over
/// restarts. With `Accept: text/event-stream` as they come; else page by page.
#[utoipa::path(
    get,
    path = "/v1/events",
    tag = "orchestrator",
    params(
        EventParams,
        ("Last-Event-ID" = Option<u64>, Header, description = "the same as `since`, as clients of event streams send it"),
    ),
    responses(
        (status = 200, description = "the events; in a stream each is the data of a message, with its number as `id` and its kind as `event`", content(
            (EventPage = "application/json"),
            (Event = "text/event-stream"),
        )),
        (status = 410, description = "events after `since` are not kept any more: take `/v1/schedule` and go on from its header `apportion-sequence`", body = wire::Problem),
    )
)]
pub async fn get_events(
    State(state): State<ApiState>,
    headers: HeaderMap,
    QueryParams(params): QueryParams<EventParams>,
) -> Result<Response, ApiError> {
    let last_seen = match headers.get("last-event-id") {
        None => None,
        Some(value) => {
            Some(value.to_str().ok().and_then(|id| id.parse().ok()).ok_or_else(|| {
                ApiError::new(Code::BadParameter, "`Last-Event-ID` is not the number of an event")
            })?)
        }
    };
    let since = last_seen.or(params.since).unwrap_or_else(|| state.latest().last_event);
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    if accepts.is_some_and(|accepts| accepts.contains("text/event-stream")) {
        // A problem is answered at once, and not in a stream.
        let first = read(&state, since).await?;
        return Ok(stream_of(state, since, first).into_response());
    }
    let wait = params.wait.as_deref().map_or(Ok(Duration::ZERO), wait_of)?;
    let deadline = Instant::now() + wait;
    let mut changes = state.board.changes();
    loop {
        let events = read(&state, since).await?;
        let is_over = !events.is_empty()
            || tokio::select! {
                changed = timeout_at(deadline, changes.changed()) => changed.is_err(),
                () = state.stop.cancelled() => true,
            };
        if is_over {
            let sequence = events.last().map_or(since, |event| event.sequence);
            let more = sequence < state.latest().last_event;
            return Ok(Json(EventPage { events, sequence, more }).into_response());
        }
    }
}

/// Some events after number `since`; none if there are none yet.
pub async fn read(state: &ApiState, since: u64) -> Result<Vec<Event>, ApiError> {
    // Returns published events only: a client may ask for the events after each event that it has.
    let newest = state.latest().last_event;
    if since == newest {
        return Ok(Vec::new());
    }
    let gone = |detail: String| {
        let remedy = "take `/v1/schedule`, which is all there is now, and go on from its header \
                      `apportion-sequence`";
        Err(ApiError::new(Code::EventsGone, format!("{detail}; {remedy}")))
    };
    if newest < since {
        return gone(format!("event {since} is not on this record, whose last is {newest}"));
    }
    let events = state.past_events.since(since, PAGE).await;
    let events = events.ok_or_else(|| {
        ApiError::new(
            Code::Internal,
            "the events cannot be read, and the daemon's log says why; take `/v1/schedule`, which is all \
             there is now, and go on from its header `apportion-sequence`",
        )
    })?;
    match events.first() {
        Some(first) if first.sequence == since + 1 => {}
        oldest => {
            let oldest = oldest.map_or(newest + 1, |event| event.sequence);
            return gone(format!("events after {since} are gone; the oldest kept is {oldest}"));
        }
    }
    let events = events.into_iter().take_while(|event| event.sequence <= newest);
    events.map(told).collect()
}

fn told(event: PastEvent) -> Result<Event, ApiError> {
    let PastEvent { sequence, cycle, at_ms, kind, body } = event;
    let what = FeedEvent::read(&kind, &body).map_err(|error| {
        tracing::error!(sequence, %error, "an event on record cannot be read");
        ApiError::new(Code::Internal, format!("event {sequence} on record cannot be read"))
    })?;
    Ok(Event { sequence, cycle, at_ms, what })
}

/// Streams events until the daemon stops or an event cannot be read.
fn stream_of(state: ApiState, since: u64, first: Vec<Event>) -> impl IntoResponse {
    let changes = state.board.changes();
    let course = (state, changes, since, VecDeque::from(first));
    let events = stream::unfold(Some(course), |course| async {
        let (state, mut changes, since, mut ready) = course?;
        loop {
            if let Some(event) = ready.pop_front() {
                let since = event.sequence;
                return Some((
                    Ok::<_, Infallible>(message(&event)),
                    Some((state, changes, since, ready)),
                ));
            }
            match read(&state, since).await {
                Ok(events) if events.is_empty() => {}
                Ok(events) => {
                    ready.extend(events);
                    continue;
                }
                // A client that reads too slowly gets the reason, and the place to continue from.
                Err(error) => {
                    return Some((
                        Ok(sse::Event::default().event("gone").data(error.detail())),
                        None,
                    ));
                }
            }
            tokio::select! {
                changed = changes.changed() => changed.ok()?,
                () = state.stop.cancelled() => return None,
            }
        }
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

fn message(event: &Event) -> sse::Event {
    let data = serde_json::to_string(event).expect("plain structs become JSON");
    let message = sse::Event::default().id(event.sequence.to_string());
    message.event(event.what.kind()).data(data)
}
