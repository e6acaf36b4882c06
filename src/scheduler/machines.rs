//! The books of machines: what their agents report, who is silent, who is varied off.
//!
//! Machines are never forgotten, only silent. Design: "Nodes, Machines, and Node Management".

use std::collections::{BTreeMap, BTreeSet};

use super::command::{CommandError, CommandOutcome, UnknownNode};
use crate::model::{Mebibytes, NodeReport, PoolIx, QShares, Topology, nearest};

/// A machine.
#[derive(Clone, Debug)]
pub(super) struct MachineBook {
    pub report: NodeReport,
    pub pool: PoolIx,
    pub order: QShares,
    /// Heartbeats missed in a row.
    pub missed: u32,
    /// Whether it reported since the last interval ended.
    is_heard: bool,
    /// Whether others speak of it and it has never reported.
    pub is_awaited: bool,
    pub is_dead: bool,
}

/// All machines.
#[derive(Clone, Debug, Default)]
pub(super) struct Machines {
    pub by_name: BTreeMap<String, MachineBook>,
    /// Nodes varied off, with the reason; also nodes that have not reported since a restart.
    varied_off: BTreeMap<String, String>,
    /// Machines that missed too many heartbeats and whose death takes effect in the next cycle,
    /// unless they report before.
    dying: BTreeSet<String>,
}

impl Machines {
    /// Takes in what an agent says. Says whether the node was dead.
    pub(super) fn report(&mut self, topology: &Topology, report: NodeReport) -> bool {
        self.dying.remove(&report.name);
        let name = report.name.clone();
        let mut machine = MachineBook { is_heard: true, ..MachineBook::new(report) };
        match self.by_name.get(&name) {
            // Its pool follows from its name; looking that up again at every heartbeat adds up.
            Some(known) => machine.pool = known.pool,
            None => machine.find_pool(topology),
        }
        machine.measure(topology);
        self.by_name.insert(name, machine).is_some_and(|known| known.is_dead)
    }

    /// Whether `report` says of a node that is up and not missed what is known already.
    pub(super) fn is_well_and(&self, report: &NodeReport) -> bool {
        self.by_name.get(&report.name).is_some_and(|known| {
            known.report == *report
                && known.missed == 0
                && !known.is_dead
                && !known.is_awaited
                && !self.dying.contains(&report.name)
        })
    }

    /// Whether every node has reported since the last interval ended.
    pub(super) fn were_all_heard(&self) -> bool {
        self.by_name.values().all(|machine| machine.is_heard)
    }

    /// Whether some node is about to be given up.
    pub(super) fn has_silent(&self) -> bool {
        !self.dying.is_empty()
    }

    /// Enters a node that others speak of and that has not reported: it has no room, and dies like
    /// any silent node if it stays silent.
    pub(super) fn expect(&mut self, topology: &Topology, name: &str) {
        if !self.by_name.contains_key(name) {
            let report =
                NodeReport { name: name.to_owned(), memory: Mebibytes(0), is_quiesced: false };
            let mut machine = MachineBook { is_awaited: true, ..MachineBook::new(report) };
            machine.find_pool(topology);
            machine.measure(topology);
            self.by_name.insert(name.to_owned(), machine);
        }
    }

    /// One heartbeat interval is over.
    pub(super) fn end_interval(&mut self, node_stability: u32) {
        for (name, machine) in &mut self.by_name {
            if !std::mem::take(&mut machine.is_heard) {
                machine.missed = machine.missed.saturating_add(1);
                if node_stability <= machine.missed && !machine.is_dead {
                    self.dying.insert(name.clone());
                }
            }
        }
    }

    /// A node missed so many heartbeats in a row, as somebody else counted them.
    pub(super) fn miss(&mut self, name: &str, missed: u32, node_stability: u32) {
        if let Some(machine) = self.by_name.get_mut(name) {
            machine.missed = missed;
            if node_stability <= missed && !machine.is_dead {
                self.dying.insert(name.to_owned());
            }
        }
    }

    /// A node is known to be dead; takes effect in the next cycle.
    pub(super) fn die(&mut self, name: &str) {
        if self.by_name.get(name).is_some_and(|machine| !machine.is_dead) {
            self.dying.insert(name.to_owned());
        }
    }

    /// Carries out the deaths that are due: the machines get no work any more. Returns those whose
    /// work is lost with them; none where so many are silent at once that the fault is more likely
    /// ours (decision D15). Those are asked for again in the next cycle.
    pub(super) fn bury(&mut self, mass_loss_percent: Option<u32>) -> BTreeSet<String> {
        for name in &self.dying {
            if let Some(machine) = self.by_name.get_mut(name) {
                machine.is_dead = true;
            }
        }
        let is_alive = |machine: &&MachineBook| !machine.is_dead;
        let alive = self.by_name.values().filter(is_alive).count();
        let silent = self.dying.len();
        let is_mass_loss = |percent: u32| {
            let percent = usize::try_from(percent).unwrap_or(usize::MAX);
            1 < silent && (alive + silent).saturating_mul(percent) < silent.saturating_mul(100)
        };
        if mass_loss_percent.is_some_and(is_mass_loss) {
            BTreeSet::new()
        } else {
            std::mem::take(&mut self.dying)
        }
    }

    /// Nodes whose death is held back because too many went silent at once.
    pub(super) fn held_back(&self) -> impl Iterator<Item = &str> {
        self.dying.iter().map(String::as_str)
    }

    /// Takes nodes out of scheduling.
    ///
    /// # Errors
    ///
    /// If one of them never reported; then none is taken out.
    pub(super) fn vary_off(
        &mut self,
        nodes: &[String],
        reason: &str,
    ) -> Result<CommandOutcome, CommandError> {
        self.check_known(nodes)?;
        let mut changed = Vec::new();
        for node in nodes {
            if self.varied_off.insert(node.clone(), reason.to_owned()).is_none() {
                changed.push(node.clone());
            }
        }
        Ok(CommandOutcome { changed })
    }

    /// Puts nodes back into scheduling.
    ///
    /// # Errors
    ///
    /// If one of them never reported and is not varied off; then none is put back.
    pub(super) fn vary_on(&mut self, nodes: &[String]) -> Result<CommandOutcome, CommandError> {
        self.check_known(nodes)?;
        let changed =
            nodes.iter().filter(|node| self.varied_off.remove(*node).is_some()).cloned().collect();
        Ok(CommandOutcome { changed })
    }

    /// What the store remembers of an earlier run.
    pub(super) fn restore_varied_off(
        &mut self,
        topology: &Topology,
        nodes: impl IntoIterator<Item = (String, String)>,
    ) {
        for (node, reason) in nodes {
            self.expect(topology, &node);
            self.varied_off.insert(node, reason);
        }
    }

    /// Why a node was varied off; `None` if it is not.
    pub(super) fn vary_off_reason(&self, node: &str) -> Option<&str> {
        self.varied_off.get(node).map(String::as_str)
    }

    /// Every node that is varied off, with the reason, whether it has reported or not.
    pub(super) fn varied_off(&self) -> impl Iterator<Item = (&str, &str)> {
        self.varied_off.iter().map(|(node, reason)| (node.as_str(), reason.as_str()))
    }

    /// Finds each machine's pool and order anew.
    pub(super) fn replace_all(&mut self, topology: &Topology) {
        for machine in self.by_name.values_mut() {
            machine.find_pool(topology);
            machine.measure(topology);
        }
    }

    fn check_known(&self, nodes: &[String]) -> Result<(), CommandError> {
        if nodes.is_empty() {
            return Err(CommandError::NoNodes);
        }
        let is_known =
            |node: &String| self.by_name.contains_key(node) || self.varied_off.contains_key(node);
        let unknown = nodes.iter().filter(|node| !is_known(node)).map(|name| UnknownNode {
            name: name.clone(),
            nearest: nearest(name, self.by_name.keys().map(String::as_str)).map(str::to_owned),
        });
        let unknown: Vec<UnknownNode> = unknown.collect();
        if unknown.is_empty() { Ok(()) } else { Err(CommandError::UnknownNodes(unknown)) }
    }
}

impl MachineBook {
    fn new(report: NodeReport) -> MachineBook {
        MachineBook {
            report,
            pool: PoolIx(0),
            order: QShares(0),
            missed: 0,
            is_heard: false,
            is_awaited: false,
            is_dead: false,
        }
    }

    fn find_pool(&mut self, topology: &Topology) {
        self.pool = topology.pool_of_node(&self.report.name);
    }

    fn measure(&mut self, topology: &Topology) {
        let offered = self.report.memory.0.saturating_sub(topology.settings.reserved_memory.0);
        self.order = topology.pools[self.pool.0].quantum.order_of_machine(Mebibytes(offered));
    }
}
