//! Space on the nodes of a gang, as different questions count it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::crew::GangLine;
use crate::audit::ledger::Ledger;
use crate::audit::lines::JobLine;
use crate::engine::Node;
use crate::model::{Name, NodeIx, Tags};

/// Space on a node.
#[derive(Clone, Debug)]
pub(super) struct FreeNode {
    /// In qshares; of a node that never reported, the space of a single process.
    pub(super) amount: FreeSize,
    pub(super) tags: Arc<Tags>,
}

/// Size of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FreeSize {
    /// In qshares.
    Known(u64),
    /// The node never reported. It counts as large enough for any single process.
    Unheard,
}

impl FreeNode {
    /// Number of processes of `order` that fit.
    pub(super) fn processes(&self, order: u64) -> u64 {
        match self.amount {
            FreeSize::Known(amount) => amount.checked_div(order).unwrap_or(0),
            FreeSize::Unheard => 1,
        }
    }

    /// True if the space has at least `amount` qshares.
    pub(super) fn has(&self, amount: u64) -> bool {
        match self.amount {
            FreeSize::Known(known) => amount <= known,
            FreeSize::Unheard => true,
        }
    }
}

/// Space on all nodes that the configuration knows, up or not, each as if it were empty.
pub(super) fn configured(ledger: &Ledger<'_>, gang: &GangLine) -> Vec<FreeNode> {
    let line = &ledger.jobs[gang.place];
    let seen = spaces_of(ledger, line, |_, node| {
        let is_unheard = node.state.is_awaited && node.order.0 == 0;
        Some(if is_unheard { FreeSize::Unheard } else { FreeSize::Known(node.order.0) })
    });
    let unseen = unseen(ledger, line);
    let unseen =
        unseen.into_iter().map(|tags| FreeNode { amount: FreeSize::Unheard, tags: Arc::new(tags) });
    seen.into_iter().chain(unseen).collect()
}

/// Tags of the nodes in the list of the gang's pool that never reported. A list of nodes of the
/// gang itself names none of them.
fn unseen(ledger: &Ledger<'_>, line: &JobLine<'_>) -> Vec<Tags> {
    let topology = &ledger.snapshot.topology;
    let pool = line.class.pool;
    if line.job.nodes.is_some() || topology.pools[pool].nodes.is_empty() {
        return Vec::new();
    }
    let seen: BTreeSet<&str> =
        ledger.snapshot.nodes.iter().map(|node| node.name.as_str()).collect();
    let unseen = topology.pools[pool].nodes.iter().filter(|node| !seen.contains(node.as_str()));
    let unseen: Vec<&String> = unseen.collect();
    if unseen.is_empty() {
        return Vec::new();
    }
    let tags: BTreeMap<Name, Tags> = topology.tagging.by_node();
    unseen.into_iter().map(|node| tags.get(node.as_str()).cloned().unwrap_or_default()).collect()
}

/// Space on the nodes that are up, each as if it were empty.
pub(super) fn up(ledger: &Ledger<'_>, gang: &GangLine) -> Vec<FreeNode> {
    spaces_of(ledger, &ledger.jobs[gang.place], |_, node| {
        let amount = node.order.0.saturating_sub(node.limbo.0);
        node.state.is_schedulable().then_some(FreeSize::Known(amount))
    })
}

/// Space on nodes that are up, without the amount that `taken` returns for a node. An exclusive
/// gang can use empty nodes only.
pub(super) fn without(
    ledger: &Ledger<'_>,
    gang: &GangLine,
    taken: impl Fn(NodeIx) -> u64,
) -> Vec<FreeNode> {
    spaces_of(ledger, &ledger.jobs[gang.place], |ix, node| {
        let taken = taken(ix).saturating_add(node.limbo.0);
        let is_usable = node.state.is_schedulable() && (taken == 0 || !gang.shape.is_exclusive);
        is_usable.then_some(FreeSize::Known(node.order.0.saturating_sub(taken)))
    })
}

/// Space on the nodes that the gang of `line` may use: nodes of its class's own pool and of its
/// list. `amount` returns `None` for nodes that do not count.
fn spaces_of(
    ledger: &Ledger<'_>,
    line: &JobLine<'_>,
    amount: impl Fn(NodeIx, &Node) -> Option<FreeSize>,
) -> Vec<FreeNode> {
    let nodes = ledger.snapshot.nodes_with_ix();
    let nodes = nodes.filter(|(ix, _)| ledger.is_in_pool(line, *ix) && line.job.may_use(*ix));
    let spaces = nodes.filter_map(|(ix, node)| {
        Some(FreeNode { amount: amount(ix, node)?, tags: Arc::clone(&node.tags) })
    });
    spaces.collect()
}
