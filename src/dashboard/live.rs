//! One stream a page: that there is a new cycle, and that the daemon is there.
//!
//! A message says only which cycle and which event are the latest; what has changed the page asks
//! for itself. Whoever is slow gets fewer messages and never an old one.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::response::sse::{self, Sse};
use futures_util::stream;
use tokio::time::sleep;

use super::Dashboard;
use crate::api::Published;

/// The least time between two messages: nobody reads faster.
const PACE: Duration = Duration::from_millis(400);

/// A message comes at least so often; a page that hears nothing for long says so.
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
