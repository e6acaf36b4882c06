//! State of nodes: reports of agents, missed heartbeats, vary-off.
//!
//! A node keeps the index of its first appearance until it is forgotten; other state refers to it
//! by that index. Design: "Nodes, Machines, and Node Management".

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Index;
use std::sync::Arc;

use super::command::{CommandError, CommandOutcome, UnknownNode};
use crate::model::{
    Mebibytes, Name, NodeCondition, NodeIx, NodeReport, PoolIx, QShares, Tags, Topology, nearest,
};

/// Index of a node, fixed until the node is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeKey(pub usize);

/// A node.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that hold independently")]
pub(super) struct NodeRecord {
    pub report: NodeReport,
    /// Position of the node in the order of first appearance.
    pub entered: u64,
    pub pool: PoolIx,
    pub order: QShares,
    /// Tags that the agent may report, and over them the configured tags.
    pub tags: Arc<Tags>,
    /// Gangs use nodes of higher preference first.
    pub preference: i32,
    /// Heartbeats missed in a row.
    pub missed: u32,
    /// True if the node reported since the last interval ended.
    pub has_reported: bool,
    /// True if a share or a command names the node, but it has never reported.
    pub is_awaited: bool,
    pub is_dead: bool,
    /// True if the orchestrator ever published a process on the node. A name that only an agent
    /// sent counts for nothing when losses are judged.
    pub has_had_work: bool,
    /// Heartbeat intervals in which the node reported, up to two. A name that reported in a single
    /// interval is forgotten when it dies.
    pub heard_intervals: u32,
    /// In which interval its heartbeats had stopped for too long, while they have.
    pub died_at: Option<u64>,
    /// True if an operator declared the node dead since its last report.
    pub is_given_up: bool,
    /// Reason for which the node is varied off; `None` if it is not. The node may not have reported
    /// since a restart.
    pub vary_off_reason: Option<String>,
}

/// All nodes.
#[derive(Clone, Debug)]
pub(super) struct NodeTable {
    pub(super) records: Vec<NodeRecord>,
    by_name: BTreeMap<Name, NodeKey>,
    /// Slots of forgotten nodes, for reuse by new nodes.
    vacant: Vec<NodeKey>,
    /// Heartbeat intervals that ended, except intervals in which all nodes reported.
    pub interval: u64,
    /// Number of nodes ever entered, forgotten nodes included.
    entered: u64,
    /// Pool of each node that the configuration lists; an unlisted node is in the first pool.
    pools: BTreeMap<Name, PoolIx>,
    /// Configured tags, by node.
    pub(super) tags: BTreeMap<Name, Tags>,
    /// Tags of nodes, each combination once.
    pub(super) shared_tags: BTreeSet<Arc<Tags>>,
    /// Configured preferences, by node.
    pub(super) preferences: BTreeMap<Name, i32>,
    /// True if the tags of a node changed since the last snapshot.
    pub(super) have_tags_changed: bool,
    /// Nodes that missed too many heartbeats: their death takes effect in the next cycle, unless
    /// they report before.
    pub dying: BTreeSet<NodeKey>,
    /// Rows by name; dropped when a node is added or forgotten.
    places: OnceCell<RowMap>,
    /// Varied-off nodes, by name; dropped at any change.
    varied_off: OnceCell<Vec<NodeKey>>,
    /// For each node, true if it changed since the last published view.
    is_dirty: Vec<bool>,
    /// True if a node changed in a way that matters to the engine since the last cycle.
    has_changed: bool,
}

/// Rows of nodes in a snapshot, which is sorted by name.
#[derive(Clone, Debug)]
pub(super) struct RowMap {
    by_row: Vec<NodeKey>,
    by_node: Vec<NodeIx>,
}

impl Index<NodeKey> for NodeTable {
    type Output = NodeRecord;

    fn index(&self, node: NodeKey) -> &NodeRecord {
        &self.records[node.0]
    }
}

impl NodeTable {
    /// None yet.
    pub(super) fn new(topology: &Topology) -> NodeTable {
        NodeTable {
            records: Vec::new(),
            by_name: BTreeMap::new(),
            vacant: Vec::new(),
            interval: 0,
            entered: 0,
            pools: topology.pools_by_node(),
            tags: topology.tagging.by_node(),
            preferences: topology.tagging.preferences(),
            shared_tags: BTreeSet::new(),
            have_tags_changed: false,
            dying: BTreeSet::new(),
            places: OnceCell::new(),
            varied_off: OnceCell::new(),
            is_dirty: Vec::new(),
            has_changed: true,
        }
    }

    /// Number of nodes.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The node at `node`, for a change.
    pub(super) fn edit(&mut self, node: NodeKey) -> &mut NodeRecord {
        self.is_dirty[node.0] = true;
        self.has_changed = true;
        self.varied_off.take();
        &mut self.records[node.0]
    }

    /// The node at `node`, for a change of heartbeats, which the engine does not get.
    pub(super) fn edit_liveness(&mut self, node: NodeKey) -> &mut NodeRecord {
        self.is_dirty[node.0] = true;
        &mut self.records[node.0]
    }

    /// True if any node changed since the last cycle, heartbeats excepted.
    pub(super) fn have_changed(&self) -> bool {
        self.has_changed
    }

    /// True if the node changed since the last published view.
    pub(super) fn is_dirty(&self, node: NodeKey) -> bool {
        self.is_dirty[node.0]
    }

    /// Marks the node as changed by state outside its own record.
    pub(super) fn note_unseen(&mut self, node: NodeKey) {
        self.is_dirty[node.0] = true;
    }

    /// The cycle is over: all has been seen.
    pub(super) fn end_cycle(&mut self) {
        self.has_changed = false;
        self.is_dirty.fill(false);
    }

    /// Has all of them seen anew, whether anything changed or not.
    pub(super) fn forget(&mut self) {
        self.has_changed = true;
        self.varied_off.take();
        self.is_dirty.fill(true);
    }

    /// Returns the node called `name`; `None` if the name never occurred.
    pub(super) fn find(&self, name: &str) -> Option<NodeKey> {
        self.by_name.get(name).copied()
    }

    /// All of them, by name.
    pub(super) fn by_name(&self) -> impl ExactSizeIterator<Item = (NodeKey, &NodeRecord)> {
        self.places().by_row.iter().map(|&node| (node, &self[node]))
    }

    /// Rows of the nodes, by name.
    pub(super) fn places(&self) -> &RowMap {
        self.places.get_or_init(|| {
            let by_row: Vec<NodeKey> = self.by_name.values().copied().collect();
            let mut by_node = vec![NodeIx(0); self.records.len()];
            for (place, node) in by_row.iter().enumerate() {
                by_node[node.0] = NodeIx(place);
            }
            RowMap { by_row, by_node }
        })
    }

    /// Applies the report of an agent. Returns the node's index if the node was dead.
    pub(super) fn report(&mut self, topology: &Topology, report: NodeReport) -> Option<NodeKey> {
        let Some(node) = self.find(&report.name) else {
            self.enter(topology, NodeRecord { has_reported: true, ..NodeRecord::new(report) });
            return None;
        };
        self.dying.remove(&node);
        let record = self.edit(node);
        record.report = report;
        record.measure(topology);
        self.find_tags(topology, node);
        let record = self.edit(node);
        record.missed = 0;
        record.has_reported = true;
        record.is_awaited = false;
        record.died_at = None;
        record.is_given_up = false;
        std::mem::take(&mut record.is_dead).then_some(node)
    }

    /// Marks that the node of a routine heartbeat has reported. Returns false, and does nothing, if the
    /// report has news.
    pub(super) fn note_routine_heartbeat(&mut self, report: &NodeReport) -> bool {
        let node = self.find(&report.name).filter(|&node| self.is_known(node, report));
        if let Some(node) = node {
            self.records[node.0].has_reported = true;
        }
        node.is_some()
    }

    /// True if `report` repeats what is known of a node that is alive and has missed no heartbeat.
    fn is_known(&self, node: NodeKey, report: &NodeReport) -> bool {
        let known = &self[node];
        known.report == *report
            && known.missed == 0
            && !known.is_dead
            && !known.is_awaited
            && !self.dying.contains(&node)
    }

    /// True if every node has reported since the last interval ended, and none is new.
    pub(super) fn were_all_heard(&self) -> bool {
        self.by_name
            .values()
            .all(|&node| self[node].has_reported && self[node].heard_intervals == 2)
    }

    /// True if a node's death is due or held back.
    pub(super) fn has_silent(&self) -> bool {
        !self.dying.is_empty()
    }

    /// Notes that the orchestrator showed a process on a node: from now on its death counts.
    pub(super) fn note_work(&mut self, node: NodeKey) {
        self.records[node.0].has_had_work = true;
    }

    /// Returns the node called `name`, or enters it. A node that has not reported has no free
    /// space. It dies like any silent node if it stays silent.
    pub(super) fn expect(&mut self, topology: &Topology, name: &str) -> NodeKey {
        self.find(name).unwrap_or_else(|| {
            let report = NodeReport {
                tags: Tags::default(),
                name: name.into(),
                memory: Mebibytes(0),
                is_quiesced: false,
            };
            self.enter(topology, NodeRecord { is_awaited: true, ..NodeRecord::new(report) })
        })
    }

    /// Adds a new node and returns its index.
    pub(super) fn enter(&mut self, topology: &Topology, mut record: NodeRecord) -> NodeKey {
        record.find_pool(&self.pools);
        record.measure(topology);
        self.entered += 1;
        record.entered = self.entered;
        let name = record.report.name.clone();
        let node = if let Some(node) = self.vacant.pop() {
            self.records[node.0] = record;
            self.is_dirty[node.0] = true;
            node
        } else {
            self.records.push(record);
            self.is_dirty.push(true);
            NodeKey(self.records.len() - 1)
        };
        self.by_name.insert(name, node);
        self.find_tags(topology, node);
        self.has_changed = true;
        self.places.take();
        self.varied_off.take();
        node
    }

    /// Ends a heartbeat interval.
    pub(super) fn end_interval(&mut self, node_stability: u32) {
        // The journal has no entry for an interval in which all nodes reported. While a node is
        // lost, all intervals have entries.
        self.interval += u64::from(!self.were_all_heard());
        for node in self.all() {
            let record = &mut self.records[node.0];
            if std::mem::take(&mut record.has_reported) {
                record.heard_intervals = (record.heard_intervals + 1).min(2);
                continue;
            }
            let record = self.edit_liveness(node);
            record.missed = record.missed.saturating_add(1);
            if node_stability <= record.missed && !record.is_dead {
                self.note_dying(node);
            }
        }
    }

    /// Indices of all nodes, in the order of first appearance.
    pub(super) fn all(&self) -> Vec<NodeKey> {
        let mut all: Vec<NodeKey> = self.by_name.values().copied().collect();
        all.sort_unstable_by_key(|node| self[*node].entered);
        all
    }

    /// Sets a count of missed heartbeats that was made outside the scheduler. Zero withdraws a
    /// death that has not taken effect.
    pub(super) fn miss(&mut self, name: &str, missed: u32, node_stability: u32) {
        if let Some(node) = self.find(name) {
            let record = self.edit_liveness(node);
            record.missed = missed;
            if record.is_dead {
                return;
            }
            if node_stability <= missed {
                self.note_dying(node);
            } else if missed == 0 {
                self.dying.remove(&node);
            }
        }
    }

    /// A node is known to be dead; takes effect in the next cycle.
    pub(super) fn die(&mut self, name: &str) {
        if let Some(node) = self.find(name).filter(|&node| !self[node].is_dead) {
            self.note_dying(node);
        }
    }

    /// Takes nodes out of scheduling.
    ///
    /// # Errors
    ///
    /// If a node is unknown; then none is taken out.
    pub(super) fn vary_off(
        &mut self,
        nodes: &[String],
        reason: &str,
    ) -> Result<CommandOutcome, CommandError> {
        self.vary(nodes, Some(reason))
    }

    /// Puts nodes back into scheduling.
    ///
    /// # Errors
    ///
    /// If a node is unknown; then none is put back.
    pub(super) fn vary_on(&mut self, nodes: &[String]) -> Result<CommandOutcome, CommandError> {
        self.vary(nodes, None)
    }

    /// Varies nodes off for this reason; on, if there is none.
    fn vary(
        &mut self,
        nodes: &[String],
        reason: Option<&str>,
    ) -> Result<CommandOutcome, CommandError> {
        self.check_known(nodes)?;
        let mut changed = Vec::new();
        for name in nodes {
            let node = self.find(name).expect("checked above");
            let record = self.edit(node);
            let before = std::mem::replace(&mut record.vary_off_reason, reason.map(str::to_owned));
            if before.is_some() != reason.is_some() {
                changed.push(name.clone());
            }
        }
        Ok(CommandOutcome { changed })
    }

    /// Restores the varied-off nodes that the store kept from an earlier run.
    pub(super) fn restore_varied_off(
        &mut self,
        topology: &Topology,
        nodes: impl IntoIterator<Item = (Name, String)>,
    ) {
        for (name, reason) in nodes {
            let node = self.expect(topology, &name);
            self.edit(node).vary_off_reason = Some(reason);
        }
    }

    /// Every node that is varied off, by name, whether it has reported or not.
    pub(super) fn varied_off(&self) -> &[NodeKey] {
        self.varied_off.get_or_init(|| {
            let all = self.by_name();
            all.filter(|(_, record)| record.vary_off_reason.is_some())
                .map(|(node, _)| node)
                .collect()
        })
    }

    /// Assigns all nodes to their pools and computes their orders again.
    pub(super) fn replace_all(&mut self, topology: &Topology) {
        self.pools = topology.pools_by_node();
        self.forget();
        for record in &mut self.records {
            record.find_pool(&self.pools);
            record.measure(topology);
        }
        self.tags = topology.tagging.by_node();
        self.preferences = topology.tagging.preferences();
        for node in self.all() {
            self.find_tags(topology, node);
        }
    }

    /// True if the configuration lists the node.
    pub(super) fn is_listed(&self, name: &Name) -> bool {
        self.pools.contains_key(name)
    }

    /// Frees the index of a node.
    pub(super) fn leave(&mut self, node: NodeKey) {
        self.by_name.remove(&self.records[node.0].report.name);
        self.vacant.push(node);
        self.forget();
        self.places.take();
    }

    pub(super) fn check_known(&self, nodes: &[String]) -> Result<(), CommandError> {
        if nodes.is_empty() {
            return Err(CommandError::NoNodes);
        }
        let unknown = nodes.iter().filter(|name| self.find(name).is_none());
        let unknown = unknown.map(|name| UnknownNode {
            name: name.clone(),
            nearest: nearest(name, self.by_name.keys().map(Name::as_str)).map(str::to_owned),
        });
        let unknown: Vec<UnknownNode> = unknown.collect();
        if unknown.is_empty() { Ok(()) } else { Err(CommandError::UnknownNodes(unknown)) }
    }
}

impl RowMap {
    /// Index of the node in a row.
    pub(super) fn node(&self, node: NodeIx) -> NodeKey {
        self.by_row[node.0]
    }

    /// Row of a node.
    pub(super) fn of(&self, node: NodeKey) -> NodeIx {
        self.by_node[node.0]
    }
}

impl NodeRecord {
    pub(super) fn new(report: NodeReport) -> NodeRecord {
        NodeRecord {
            report,
            entered: 0,
            pool: PoolIx(0),
            order: QShares(0),
            tags: Arc::default(),
            preference: 0,
            missed: 0,
            has_reported: false,
            is_awaited: false,
            is_dead: false,
            has_had_work: false,
            heard_intervals: 0,
            died_at: None,
            is_given_up: false,
            vary_off_reason: None,
        }
    }

    /// Conditions that decide if the node gets new shares.
    pub(super) fn state(&self, is_blacklisted: bool, is_in_maintenance: bool) -> NodeCondition {
        NodeCondition {
            is_awaited: self.is_awaited,
            is_dead: self.is_dead,
            is_varied_off: self.vary_off_reason.is_some(),
            is_quiesced: self.report.is_quiesced,
            is_blacklisted,
            is_in_maintenance,
        }
    }

    fn find_pool(&mut self, pools: &BTreeMap<Name, PoolIx>) {
        self.pool = pools.get(&self.report.name).copied().unwrap_or(PoolIx(0));
    }

    fn measure(&mut self, topology: &Topology) {
        let offered = self.report.memory.0.saturating_sub(topology.settings.reserved_memory.0);
        self.order = topology.pools[self.pool].quantum.order_of_node(Mebibytes(offered));
    }
}
