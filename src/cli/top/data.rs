//! Answers of the API that `top` shows.

use std::collections::VecDeque;

use super::stand::UiState;
use crate::api::wire::{Event, EventPage, JobPage, Load, NodeList, Status, UserList};
use crate::cli::client::DaemonClient;
use crate::cli::failure::Failure;
use crate::cli::queue::now_ms;

/// Longest readable part of the queue, in jobs.
const JOBS: &str = "500";

/// Kept events: more than a tall screen shows.
const EVENTS: usize = 60;

/// State of the cluster for a frame. Its parts may be of different cycles.
#[derive(Clone, Debug)]
pub(super) struct ClusterData {
    pub status: Status,
    pub load: Load,
    pub users: UserList,
    pub jobs: JobPage,
    pub nodes: NodeList,
    /// The last events, oldest first.
    pub events: VecDeque<Event>,
    /// Up to which event they go.
    pub sequence: u64,
    pub now_ms: u64,
    /// Error that keeps the data from being current.
    pub trouble: Option<String>,
}

impl ClusterData {
    /// Asks for the state of the cluster after `last`.
    pub async fn take(
        client: &DaemonClient,
        stand: &UiState,
        last: Option<&ClusterData>,
    ) -> Result<ClusterData, Failure> {
        let waiting = stand.waiting_only.then_some(("waiting", "true"));
        let query: Vec<(&str, &str)> = [("limit", JOBS)].into_iter().chain(waiting).collect();
        let status: Status = client.get(&["v1", "status"], &[]).await?;
        let (mut events, since) = match last {
            Some(last) => (last.events.clone(), last.sequence),
            None => (VecDeque::new(), status.last_event.saturating_sub(20)),
        };
        let number = since.to_string();
        let page = match client.get(&["v1", "events"], &[("since", number.as_str())]).await {
            Err(failure) if failure.is_gone() => {
                EventPage { events: Vec::new(), sequence: status.last_event, more: false }
            }
            page => page?,
        };
        let sequence = page.sequence;
        events.extend(page.events);
        while EVENTS < events.len() {
            events.pop_front();
        }
        Ok(ClusterData {
            status,
            load: client.get(&["v1", "load"], &[]).await?,
            users: client.get(&["v1", "users"], &[]).await?,
            jobs: client.get(&["v1", "jobs"], &query).await?,
            nodes: client.get(&["v1", "nodes"], &[]).await?,
            events,
            sequence,
            now_ms: now_ms(),
            trouble: None,
        })
    }

    /// Waits until there is an event after this data, or until the wait ends.
    pub async fn wait_for_more(&self, client: &DaemonClient) -> Result<(), Failure> {
        let number = self.sequence.to_string();
        let query = [("since", number.as_str()), ("wait", "10s")];
        client.get::<EventPage>(&["v1", "events"], &query).await.map(|_| ())
    }
}
