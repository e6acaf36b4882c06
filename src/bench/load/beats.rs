//! Heartbeats of the load: each client reports for nodes of its own.

use super::wire::send;
use super::{BATCH, CONNECTIONS};

/// Builds a heartbeat of a client's node, with all that an agent reports.
pub(super) fn single_request(path: &str, client: u64, turn: u64, nodes: u64) -> Vec<u8> {
    let node = own_node((client, CONNECTIONS), turn, nodes);
    send("POST", path, heartbeat(node, turn).as_bytes())
}

/// Node for which a client, of so many, reports. Each client has nodes of its own; otherwise a
/// heartbeat could overtake another.
pub(super) fn own_node((client, clients): (u64, u64), turn: u64, nodes: u64) -> u64 {
    (turn.wrapping_mul(clients) + client) % nodes.next_multiple_of(clients)
}

/// Builds the heartbeats of 1,000 nodes, different for every client.
pub(super) fn batch_request(path: &str, client: u64, turn: u64) -> Vec<u8> {
    let nodes = client * BATCH..(client + 1) * BATCH;
    let beats: Vec<String> = nodes.map(|node| heartbeat(node, turn)).collect();
    send("POST", path, format!("{{\"nodes\":[{}]}}", beats.join(",")).as_bytes())
}

pub(super) fn heartbeat(node: u64, turn: u64) -> String {
    format!(
        "{{\"node\":\"node{node:05}\",\"memory_mb\":131072,\"available_mb\":65536,\"boot_id\":\"5f0c8a52-1dd9-4c53-9d3f-0a6f5b1e7a11-{node}\",\"sequence\":{turn}}}"
    )
}
