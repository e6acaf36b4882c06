//! Choice of events, and of the shares and nodes in them.

use std::collections::BTreeSet;

use super::args::{EventKind, Events as Args};
use super::client::DaemonClient;
use super::failure::Failure;
use super::node_names;
use crate::api::wire::{Event, FeedEvent, NodeList};

/// Subjects that an event must have. An empty filter passes all events.
pub(super) struct EventFilter {
    kinds: Vec<EventKind>,
    jobs: Vec<u64>,
    nodes: BTreeSet<String>,
}

impl EventFilter {
    /// The filter that `args` ask for.
    ///
    /// # Errors
    ///
    /// If a node is named that has not reported, or the daemon cannot be reached.
    pub(super) async fn of(client: &DaemonClient, args: &Args) -> Result<EventFilter, Failure> {
        let mut nodes = BTreeSet::new();
        if !args.node.is_empty() {
            let all: NodeList = client.get(&["v1", "nodes"], &[]).await?;
            let named = node_names::selected(all, &args.node)?.nodes;
            nodes = named.into_iter().map(|node| node.name).collect();
        }
        Ok(EventFilter { kinds: args.kind.clone(), jobs: args.job.clone(), nodes })
    }

    /// `event` with what is asked for; `None` if nothing of it is.
    pub(super) fn only(&self, event: Event) -> Option<Event> {
        if !self.kinds.is_empty() && !self.kinds.contains(&kind_of(&event.what)) {
            return None;
        }
        let what = match event.what {
            FeedEvent::Added { mut shares } => {
                shares.retain(|share| self.has_job(&[share.job]) && self.has_node(&share.node));
                (!shares.is_empty()).then_some(FeedEvent::Added { shares })
            }
            FeedEvent::Removed { mut shares } => {
                shares.retain(|share| {
                    let jobs = [Some(share.job), share.beneficiary];
                    let jobs: Vec<u64> = jobs.into_iter().flatten().collect();
                    self.has_job(&jobs) && self.has_node(&share.node)
                });
                (!shares.is_empty()).then_some(FeedEvent::Removed { shares })
            }
            FeedEvent::Refused { mut work } => {
                work.retain(|work| self.nodes.is_empty() && self.has_job(&[work.job]));
                (!work.is_empty()).then_some(FeedEvent::Refused { work })
            }
            FeedEvent::Nodes { mut nodes } => {
                nodes.retain(|node| self.jobs.is_empty() && self.has_node(&node.node));
                (!nodes.is_empty()).then_some(FeedEvent::Nodes { nodes })
            }
            FeedEvent::Administration { action, nodes, reason } => {
                let is_about =
                    self.nodes.is_empty() || nodes.iter().any(|node| self.has_node(node));
                let act = FeedEvent::Administration { action, nodes, reason };
                (self.jobs.is_empty() && is_about).then_some(act)
            }
        };
        Some(Event { what: what?, ..event })
    }

    fn has_job(&self, jobs: &[u64]) -> bool {
        self.jobs.is_empty() || jobs.iter().any(|job| self.jobs.contains(job))
    }

    fn has_node(&self, node: &str) -> bool {
        self.nodes.is_empty() || self.nodes.contains(node)
    }
}

fn kind_of(what: &FeedEvent) -> EventKind {
    match what {
        FeedEvent::Added { .. } => EventKind::Added,
        FeedEvent::Removed { .. } => EventKind::Removed,
        FeedEvent::Refused { .. } => EventKind::Refused,
        FeedEvent::Nodes { .. } => EventKind::Nodes,
        FeedEvent::Administration { .. } => EventKind::Administration,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_cut_to_what_is_asked_for() {
        let share =
            |job, node: &str| json!({ "job": job, "share": 1, "node": node, "memory_mb": 1 });
        let event = json!({
            "sequence": 1, "cycle": 1, "at_ms": 0, "kind": "added",
            "shares": [share(1, "n1"), share(1, "n2"), share(2, "n1")],
        });
        let event: Event = serde_json::from_value(event).unwrap();
        let left = |kinds: &[EventKind], jobs: &[u64], nodes: &[&str]| {
            let nodes = nodes.iter().map(ToString::to_string).collect();
            let filter = EventFilter { kinds: kinds.to_vec(), jobs: jobs.to_vec(), nodes };
            let left = filter.only(event.clone()).map(|event| event.what);
            if let Some(FeedEvent::Added { shares }) = left { shares.len() } else { 0 }
        };
        assert_eq!(left(&[], &[], &[]), 3);
        assert_eq!(left(&[], &[1], &[]), 2);
        assert_eq!(left(&[], &[1], &["n2"]), 1);
        assert_eq!(left(&[], &[3], &[]), 0);
        assert_eq!(left(&[EventKind::Added], &[2], &["n1"]), 1);
        assert_eq!(left(&[EventKind::Nodes], &[], &[]), 0);
    }
}
