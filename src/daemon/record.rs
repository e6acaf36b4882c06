//! Rows of a cycle for the store, made from the view that readers get.

use std::collections::BTreeSet;

use crate::api::ScheduleText;
use crate::journal::seal;
use crate::scheduler::{JobView, NodeView, Preemption, View};
use crate::store::{AdminRow, CycleRecord, NodeRow, PreemptionRow, ShareRow};

/// The record of the cycle that `view` was taken after. The text of `schedule` is in it if it came
/// about in this cycle.
pub fn of_cycle(
    view: &View,
    schedule: Option<&ScheduleText>,
    publication: Option<u64>,
    admin: &[AdminRow],
) -> CycleRecord {
    let is_new = |schedule: &&ScheduleText| schedule.cycle == view.cycle;
    CycleRecord {
        // Compression comes first: at that time it needs more memory than all other rows.
        schedule: schedule.filter(is_new).map(|schedule| seal(schedule.json.plain())),
        cycle: view.cycle,
        publication_sequence: publication,
        next_share: view.next_share.0,
        nodes: node_rows(view, admin),
        shares: all_share_rows(view),
        preemptions: view.jobs.iter().flat_map(preemption_rows).collect(),
        schedule_cycle: schedule.map(|schedule| schedule.cycle),
        ..CycleRecord::default()
    }
}

/// Act that deletes a node from the store.
pub const NODE_FORGET: &str = "node-forget";

/// Rows of all nodes that reported, and of silent nodes that were varied on or off since the start.
/// Without the latter the store would keep an outdated state.
fn node_rows(view: &View, admin: &[AdminRow]) -> Vec<NodeRow> {
    let reported: BTreeSet<&str> = view.nodes.iter().map(|node| node.name.as_str()).collect();
    let others = admin.iter().filter(|act| act.action != NODE_FORGET);
    let touched =
        others.flat_map(|act| &act.nodes).filter(|name| !reported.contains(name.as_str()));
    let silent = touched.map(|name| NodeRow {
        name: name.into(),
        states: "silent".to_owned(),
        varied_off: view
            .varied_off
            .iter()
            .find(|(node, _)| node == name)
            .map(|(_, reason)| reason.clone()),
        ..NodeRow::default()
    });
    view.nodes.iter().map(node_row).chain(silent).collect()
}

fn node_row(node: &NodeView) -> NodeRow {
    NodeRow {
        name: node.name.clone(),
        pool: node.pool.clone(),
        memory_mb: node.memory.0,
        order: node.order.0,
        used: node.used.0,
        states: node.state.words().join(" "),
        missed: node.missed,
        varied_off: node.vary_off_reason.clone(),
    }
}

fn all_share_rows(view: &View) -> Vec<ShareRow> {
    // Reserved exactly: a growing list takes up to twice the memory, and this list stays until the
    // next cycle.
    let mut rows = Vec::with_capacity(view.jobs.iter().map(|job| job.shares.len()).sum());
    rows.extend(view.jobs.iter().flat_map(share_rows));
    rows
}

fn share_rows(job: &JobView) -> impl Iterator<Item = ShareRow> {
    job.shares.iter().map(|share| ShareRow {
        id: share.id.0,
        job: job.id.0,
        node: share.node.clone(),
        qshares: share.order.qshares().0,
        state: share.state,
    })
}

fn preemption_rows(job: &JobView) -> impl Iterator<Item = PreemptionRow> {
    let node_of = |taken: &Preemption| {
        let share = job.shares.iter().find(|share| share.id == taken.share);
        share.map(|share| share.node.clone()).unwrap_or_default()
    };
    job.preemptions.iter().map(move |taken| PreemptionRow {
        share: taken.share.0,
        job: taken.job.0,
        node: node_of(taken),
        beneficiary: taken.beneficiary.map(|job| job.0),
        rule: taken.rule.code(),
        loss_ms: taken.loss,
    })
}
