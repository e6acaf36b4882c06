//! Page of events, the latest first. Older events are read from the store page by page.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use super::Dashboard;
use super::frame::{Ask, Page, PageError, PageQuery, address_of};
use super::tell::{EventText, KINDS, told};
use crate::api;

/// Events on a page: as many as a read of the store returns.
const SHOWN: u64 = 64;

/// Selection of events in the address.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct EventPageParams {
    kind: String,
    /// Sequence number that ends the page: only earlier events are listed.
    before: Option<u64>,
}

#[derive(Template)]
#[template(path = "events_head.html")]
struct EventsHead<'a> {
    params: &'a EventPageParams,
    kinds: [&'static str; 5],
}

#[derive(Template)]
#[template(path = "events.html")]
struct LiveEvents {
    events: Vec<EventText>,
    empty: String,
    older: Option<String>,
    is_latest: bool,
}

/// The page.
pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    PageQuery(params): PageQuery<EventPageParams>,
    ask: Ask,
) -> Result<Response, PageError> {
    let last = dashboard.api.latest().last_event;
    let mut events: Vec<EventText> = match params.before {
        Some(before) => {
            let since = before.min(last + 1).saturating_sub(SHOWN + 1);
            let page = api::events_since(&dashboard.api, since).await?;
            page.iter().filter(|event| event.sequence < before).map(told).collect()
        }
        None => dashboard.past.notes().events.iter().cloned().collect(),
    };
    let oldest = events.first().map(|told| told.sequence);
    events.reverse();
    events.retain(|told| params.kind.is_empty() || told.kind == params.kind);
    let empty = if oldest.is_none() {
        "Nothing has happened yet. Events come when processes start, nodes report or administrators act."
    } else {
        "None of this kind among these; older ones may be."
    };
    let older = oldest.filter(|oldest| 1 < *oldest).map(|oldest| {
        let before = oldest.to_string();
        address_of("/events", &[("kind", &params.kind), ("before", &before)])
    });
    let live =
        LiveEvents { events, empty: empty.to_owned(), older, is_latest: params.before.is_none() };
    let head = EventsHead { params: &params, kinds: KINDS };
    Page { title: "Events", section: "/events", head, live }.answer(&ask)
}
