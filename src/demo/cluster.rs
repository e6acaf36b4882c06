//! The demo's nodes: the original's test cluster, and the agents that report it.
//!
//! Small nodes report in batches, as an agent that reports for a rack does; each large node has an
//! agent of its own. A node dies when its heartbeats stop, and returns as another incarnation of
//! its agent. Nothing but its heartbeats reports either.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::client::DemoClient;
use crate::api::wire::{Heartbeat, HeartbeatBatch};
use crate::model::Mebibytes;

/// Nodes of each size: name, number of nodes, memory of each in GB.
const SIZES: [(&str, usize, u64); 3] = [("small", 29, 31), ("mid", 20, 47), ("big", 4, 79)];

/// Nodes in a batch.
const RACK: usize = 16;

/// Number of nodes.
pub(super) fn size() -> usize {
    SIZES.iter().map(|(_, count, _)| count).sum()
}

/// Nodes whose agents are silent now, by name, and how often each node has come back.
#[derive(Clone, Debug, Default)]
pub(super) struct Outages {
    lives: BTreeMap<String, NodeLife>,
}

#[derive(Clone, Copy, Debug, Default)]
struct NodeLife {
    is_silent: bool,
    returns: u64,
}

impl Outages {
    /// Stops the heartbeats of the node.
    pub fn silence(&mut self, node: &str) {
        self.lives.entry(node.to_owned()).or_default().is_silent = true;
    }

    /// Makes all silent nodes report again.
    pub fn end(&mut self) {
        for life in self.lives.values_mut().filter(|life| life.is_silent) {
            *life = NodeLife { is_silent: false, returns: life.returns + 1 };
        }
    }
}

/// Sends the heartbeats of all nodes that are not silent, once a period, for ever.
pub(super) async fn beat(
    client: DemoClient,
    outages: watch::Receiver<Outages>,
    period: Duration,
) -> Infallible {
    let mut due = interval(period);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut sequence = 0;
    loop {
        due.tick().await;
        sequence += 1;
        let now = outages.borrow().clone();
        for (name, count, memory_gib) in SIZES {
            let beats: Vec<Heartbeat> = (1..=count)
                .filter_map(|number| {
                    heartbeat(format!("{name}{number:02}"), memory_gib, sequence, &now)
                })
                .collect();
            send(&client, beats).await;
        }
    }
}

async fn send(client: &DemoClient, beats: Vec<Heartbeat>) {
    if beats.len() < RACK {
        for beat in beats {
            client.beat(&beat).await;
        }
    } else {
        for rack in beats.chunks(RACK) {
            client.beat(&HeartbeatBatch { nodes: rack.to_vec() }).await;
        }
    }
}

/// Builds the heartbeat of a node; `None` while the node is silent.
fn heartbeat(node: String, memory_gib: u64, sequence: u64, outages: &Outages) -> Option<Heartbeat> {
    let NodeLife { is_silent, returns } = outages.lives.get(&node).copied().unwrap_or_default();
    (!is_silent).then(|| Heartbeat {
        node,
        memory_mb: Mebibytes::from_gib(memory_gib).0,
        quiesced: false,
        tags: BTreeMap::new(),
        boot_id: Some(format!("life-{returns}")),
        sequence: Some(sequence),
        sent_ms: None,
        available_mb: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_is_the_original_s() {
        assert_eq!(size(), 53);
        let quanta: u64 = SIZES
            .iter()
            .map(|&(_, count, memory)| u64::try_from(count).unwrap() * memory.div_euclid(15))
            .sum();
        assert_eq!(quanta, 138);
    }

    #[test]
    fn a_silent_node_returns_as_another_life() {
        let mut outages = Outages::default();
        let boot_id = |outages: &Outages| {
            heartbeat("mid07".to_owned(), 47, 1, outages).map(|beat| beat.boot_id.unwrap())
        };
        assert_eq!(boot_id(&outages).as_deref(), Some("life-0"));
        outages.silence("mid07");
        assert_eq!(boot_id(&outages), None);
        outages.end();
        assert_eq!(boot_id(&outages).as_deref(), Some("life-1"));
    }
}
