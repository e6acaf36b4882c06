//! Page of all advance reservations and maintenances that are not over.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Dashboard;
use super::frame::{Ask, Nothing, Page, PageError};
use super::words;
use crate::api::reservations::all_of;
use crate::api::wire::{NextWindow, ReservationInfo};
use crate::model::{Millis, fold_hostlist, span};

#[derive(Template)]
#[template(path = "reservations.html")]
struct LiveReservations {
    rows: Vec<ReservationRow>,
}

/// A reservation, as the page shows it.
struct ReservationRow {
    name: String,
    kind: &'static str,
    nodes: String,
    start: PageTime,
    end: PageTime,
    length: String,
    users: String,
    classes: String,
    reason: String,
}

/// A moment: for the script of the page, and as text.
struct PageTime {
    ms: Millis,
    text: String,
}

/// The page.
pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.seen(&ask);
    let rows = all_of(&published.view).reservations.into_iter().map(row).collect();
    let live = LiveReservations { rows };
    Page { title: "Reservations", section: "/calendar", head: Nothing, live }.answer(&ask)
}

fn row(reservation: ReservationInfo) -> ReservationRow {
    let ReservationInfo { name, kind, nodes, start_ms, end_ms, users, classes, reason } =
        reservation;
    ReservationRow {
        name,
        kind: kind.word(),
        nodes: fold_hostlist(nodes.iter().map(String::as_str)),
        start: PageTime::of(start_ms),
        end: PageTime::of(end_ms),
        length: span(end_ms.saturating_sub(start_ms)),
        users: users.join(", "),
        classes: classes.join(", "),
        reason,
    }
}

impl PageTime {
    fn of(ms: Millis) -> PageTime {
        PageTime { ms, text: text(ms) }
    }
}

fn text(ms: Millis) -> String {
    i64::try_from(ms).map_or_else(|_| ms.to_string(), words::time)
}

/// The next reservation or maintenance of a node, in words.
pub(super) fn next_words(next: &NextWindow) -> String {
    let NextWindow { name, kind, start_ms, end_ms } = next;
    format!("{} {name}, {} to {}", kind.word(), text(*start_ms), text(*end_ms))
}
