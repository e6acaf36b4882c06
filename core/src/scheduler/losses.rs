//! Nodes that are lost: whose death counts, which deaths are held back, and which nodes are forgotten.
//!
//! A silent node is dead after `node_stability` intervals, and its shares are lost. If more than
//! `mass_loss_percent` of the nodes die within one window, the fault is more likely in the network.
//! Their deaths are then held back (decision D15). A window is as long as `node_stability`, so
//! earlier losses make no later death a mass loss. Only nodes that had a process or that the
//! configuration lists are counted. An invented name counts on neither side.
//!
//! A death is held back until the node reports, is varied off, or an operator declares it lost. It
//! also takes effect once enough nodes of its window are back that the loss is no mass loss.

use std::collections::BTreeSet;

use super::command::{CommandError, CommandOutcome};
use super::nodes::{NodeKey, NodeRecord, NodeTable};
use crate::model::Name;

/// Factor on `node_stability`: intervals of silence after which a name that reported once is forgotten.
const PASSING_AFTER: u32 = 4;

/// The losses of nodes that count.
struct Losses {
    /// The interval of each, ascending.
    at: Vec<u64>,
    /// Nodes that are not lost.
    alive: usize,
    percent: u32,
    /// Width of a window in intervals: losses closer together belong to the same window.
    window: u64,
}

impl Losses {
    /// True if too many nodes were lost in the window of a loss in interval `at`.
    fn is_mass_loss(&self, at: Option<u64>) -> bool {
        let Some(at) = at else { return false };
        let first = self.at.partition_point(|other| other + self.window <= at);
        let end = self.at.partition_point(|other| *other < at + self.window);
        let lost = end - first;
        let percent = usize::try_from(self.percent).unwrap_or(usize::MAX);
        1 < lost && (self.alive + lost).saturating_mul(percent) < lost.saturating_mul(100)
    }
}

impl NodeTable {
    /// A node will report no more; takes effect in the next cycle.
    pub(super) fn note_dying(&mut self, node: NodeKey) {
        let interval = self.interval;
        let record = self.edit(node);
        record.died_at = Some(record.died_at.unwrap_or(interval));
        self.dying.insert(node);
    }

    /// Carries out the deaths that are due: the nodes get no new shares. Returns the nodes whose
    /// shares are lost; deaths held back are judged again in the next cycle.
    pub(super) fn bury(
        &mut self,
        mass_loss_percent: Option<u32>,
        window: u32,
    ) -> BTreeSet<NodeKey> {
        let dying = self.dying.clone();
        for &node in &dying {
            self.edit(node).is_dead = true;
        }
        let losses = mass_loss_percent.map(|percent| self.losses(percent, window));
        let is_held = |node: &NodeKey| {
            self.is_guarded(*node)
                && losses.as_ref().is_some_and(|losses| losses.is_mass_loss(self[*node].died_at))
        };
        let buried: BTreeSet<NodeKey> = dying.into_iter().filter(|node| !is_held(node)).collect();
        for node in &buried {
            self.dying.remove(node);
        }
        buried
    }

    /// Nodes whose death is held back because too many went silent at once, by name.
    pub(super) fn held_back(&self) -> Vec<Name> {
        let held = self.dying.iter().filter(|node| self[**node].is_dead);
        let names = held.map(|&node| self[node].report.name.clone());
        let mut names: Vec<Name> = names.collect();
        names.sort_unstable();
        names
    }

    /// True if the node's death may be held back: the node counts, and no operator took it out or
    /// declared it dead.
    fn is_guarded(&self, node: NodeKey) -> bool {
        let record = &self[node];
        self.counts(record) && record.vary_off_reason.is_none() && !record.is_given_up
    }

    /// True if the node is more than a name that an agent sent.
    fn counts(&self, record: &NodeRecord) -> bool {
        record.has_had_work || self.is_listed(&record.report.name)
    }

    /// Collects the intervals in which counted nodes were lost, and the number of counted nodes
    /// alive.
    fn losses(&self, percent: u32, window: u32) -> Losses {
        let mut losses = Losses { at: Vec::new(), alive: 0, percent, window: window.into() };
        for (node, record) in self.by_name() {
            if !self.counts(record) {
                continue;
            }
            match record.died_at.filter(|_| record.is_dead) {
                Some(at) if self.is_guarded(node) => losses.at.push(at),
                None if !record.is_dead => losses.alive += 1,
                Some(_) | None => {}
            }
        }
        losses.at.sort_unstable();
        losses
    }

    /// Marks nodes that an operator declares dead; takes effect in the next cycle.
    ///
    /// # Errors
    ///
    /// If a node is unknown or reports; then no node is marked.
    pub(super) fn lose(&mut self, nodes: &[String]) -> Result<CommandOutcome, CommandError> {
        self.check_known(nodes)?;
        self.check_silent(nodes)?;
        let mut changed = Vec::new();
        for name in nodes {
            let node = self.find(name).expect("checked above");
            if self[node].is_dead && !self.dying.contains(&node) {
                continue;
            }
            self.edit(node).is_given_up = true;
            self.note_dying(node);
            changed.push(name.clone());
        }
        Ok(CommandOutcome { changed })
    }

    /// Checks that none of `nodes` reports.
    ///
    /// # Errors
    ///
    /// The nodes that do.
    pub(super) fn check_silent(&self, nodes: &[String]) -> Result<(), CommandError> {
        let reports = |name: &&String| {
            let record = self.find(name).map(|node| &self[node]);
            record.is_some_and(|it| !it.is_dead && !it.is_awaited && it.missed == 0)
        };
        let reporting: Vec<String> = nodes.iter().filter(reports).cloned().collect();
        if reporting.is_empty() { Ok(()) } else { Err(CommandError::StillReporting(reporting)) }
    }

    /// Names that most likely are no nodes: with heartbeats in at most a single interval, silent for long,
    /// not listed in the configuration, and without a process ever.
    pub(super) fn passing_names(&self, node_stability: u32) -> Vec<NodeKey> {
        let patience = node_stability.saturating_mul(PASSING_AFTER);
        let is_passing = |record: &NodeRecord| {
            record.is_dead
                && patience <= record.missed
                && record.heard_intervals <= 1
                && record.vary_off_reason.is_none()
                && !self.counts(record)
        };
        let all = self.by_name().filter(|(_, record)| is_passing(record));
        all.map(|(node, _)| node).collect()
    }

    /// Removes a node, which must be unused; its index is reused.
    pub(super) fn forget_node(&mut self, node: NodeKey) -> Name {
        let name = self[node].report.name.clone();
        self.dying.remove(&node);
        self.leave(node);
        name
    }
}

/// State of heartbeats, as checkpoints keep it.
impl NodeTable {
    /// All nodes, in the order of first appearance.
    pub(super) fn records(&self) -> impl Iterator<Item = (NodeKey, &NodeRecord)> {
        self.all().into_iter().map(|node| (node, &self[node]))
    }

    /// Restores for each node if it reported in this interval.
    pub(super) fn enter_reported(&mut self, has_reported: impl Fn(&NodeRecord) -> bool) {
        for node in self.all() {
            let record = &mut self.records[node.0];
            record.has_reported = has_reported(record);
        }
    }

    /// Counts missed heartbeats from zero, except for dead nodes.
    pub(super) fn restart_hearing(&mut self) {
        for node in self.all() {
            let record = self.edit_liveness(node);
            record.has_reported = false;
            if !record.is_dead {
                record.missed = 0;
            }
        }
        let records = &self.records;
        self.dying.retain(|node| records[node.0].is_dead);
    }
}
