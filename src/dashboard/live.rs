//! Stream of each open page: announces a new cycle, and that the daemon is alive.
//!
//! A message names only the latest cycle and the latest event; the page then requests its live part
//! again. A slow client gets fewer messages and never an outdated message.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::response::sse::{self, Sse};
use futures_util::stream;
use tokio::time::sleep;

use super::Dashboard;
use crate::api::Published;

/// Least time between two messages: readers do not follow faster updates.
const PACE: Duration = Duration::from_millis(400);

/// Longest time between two messages: a page without messages reports a lost connection.
const BEAT: Duration = Duration::from_secs(10);

/// Messages until the daemon stops or the page is left.
pub(super) async fn stream(State(dashboard): State<Dashboard>) -> impl IntoResponse {
    let changes = dashboard.api.board.changes();
    let course = (dashboard, changes, true);
    let messages = stream::unfold(course, |(dashboard, mut changes, is_first)| async move {
        if !is_first {
            let stop = dashboard.api.stop.clone();
            tokio::select! {
                () = stop.cancelled() => return None,
                () = async {
                    sleep(PACE).await;
                    // An error is that the daemon stops, and then the other branch is due.
                    let _ = tokio::time::timeout(BEAT, changes.changed()).await;
                } => {}
            }
        }
        changes.mark_unchanged();
        let message = message(&dashboard.api.latest());
        Some((Ok::<_, Infallible>(message), (dashboard, changes, false)))
    });
    Sse::new(messages)
}

fn message(published: &Published) -> sse::Event {
    let Published { view, last_event, is_ready, .. } = published;
    let data = format!(r#"{{"cycle":{},"event":{last_event},"ready":{is_ready}}}"#, view.cycle);
    sse::Event::default().event("cycle").id(view.cycle.to_string()).data(data)
}
