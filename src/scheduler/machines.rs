//! The books of machines: what their agents report, who is silent, who is varied off.
//!
//! Machines are never forgotten, only silent: the place that a machine got when it was first heard
//! of is its own for good, and the rest of the books knows it by that. Design: "Nodes, Machines,
//! and Node Management".

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Index;

use super::command::{CommandError, CommandOutcome, UnknownNode};
use crate::model::{
    MachineIx, MachineState, Mebibytes, Name, NodeReport, PoolIx, QShares, Topology, nearest,
};

/// A machine's place in the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeIx(pub usize);

/// A machine.
#[derive(Clone, Debug)]
pub(super) struct MachineBook {
    pub report: NodeReport,
    pub pool: PoolIx,
    pub order: QShares,
    /// Heartbeats missed in a row.
    pub missed: u32,
    /// Whether it reported since the last interval ended.
    pub is_heard: bool,
    /// Whether others speak of it and it has never reported.
    pub is_awaited: bool,
    pub is_dead: bool,
    /// Why it is varied off, if it is; it may not have reported since a restart.
    pub vary_off_reason: Option<String>,
}

/// All machines.
#[derive(Clone, Debug)]
pub(super) struct Machines {
    books: Vec<MachineBook>,
    by_name: BTreeMap<Name, NodeIx>,
    /// The pools of the nodes that the configuration lists; the others are in the first.
    pools: BTreeMap<Name, PoolIx>,
    /// Machines that missed too many heartbeats and whose death takes effect in the next cycle,
    /// unless they report before.
    pub dying: BTreeSet<NodeIx>,
    /// Where they are by name, until one comes that was never heard of.
    places: OnceCell<Places>,
    /// Those that are varied off, by name, until anything changes.
    varied_off: OnceCell<Vec<NodeIx>>,
    /// For each machine, whether readers have not seen it yet as it is now.
    is_unseen: Vec<bool>,
    /// Whether there is anything the engine has not seen yet.
    has_changed: bool,
}

/// Where machines are in a snapshot: by name.
#[derive(Clone, Debug)]
pub(super) struct Places {
    by_place: Vec<NodeIx>,
    by_node: Vec<MachineIx>,
}

impl Index<NodeIx> for Machines {
    type Output = MachineBook;

    fn index(&self, node: NodeIx) -> &MachineBook {
        &self.books[node.0]
    }
}

impl Machines {
    /// None yet.
    pub(super) fn new(topology: &Topology) -> Machines {
        Machines {
            books: Vec::new(),
            by_name: BTreeMap::new(),
            pools: topology.pools_by_node(),
            dying: BTreeSet::new(),
            places: OnceCell::new(),
            varied_off: OnceCell::new(),
            is_unseen: Vec::new(),
            has_changed: true,
        }
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.books.len()
    }

    /// The machine at `node`, to be changed.
    fn edit(&mut self, node: NodeIx) -> &mut MachineBook {
        self.is_unseen[node.0] = true;
        self.has_changed = true;
        self.varied_off.take();
        &mut self.books[node.0]
    }

    /// The machine at `node`, for changes that the engine does not see: of heartbeats.
    fn edit_heartbeats(&mut self, node: NodeIx) -> &mut MachineBook {
        self.is_unseen[node.0] = true;
        &mut self.books[node.0]
    }

    /// Whether anything changed about any machine, but for heartbeats, since the last cycle.
    pub(super) fn have_changed(&self) -> bool {
        self.has_changed
    }

    /// Whether readers have not seen the machine yet as it is now.
    pub(super) fn is_unseen(&self, node: NodeIx) -> bool {
        self.is_unseen[node.0]
    }

    /// Something that its own books do not say changed about the machine.
    pub(super) fn note_unseen(&mut self, node: NodeIx) {
        self.is_unseen[node.0] = true;
    }

    /// The cycle is over: all has been seen.
    pub(super) fn end_cycle(&mut self) {
        self.has_changed = false;
        self.is_unseen.fill(false);
    }

    /// Has all of them seen anew, whether anything changed or not.
    pub(super) fn forget(&mut self) {
        self.has_changed = true;
        self.varied_off.take();
        self.is_unseen.fill(true);
    }

    /// Where the machine is that is called `name`; `None` if nobody ever spoke of it.
    pub(super) fn find(&self, name: &str) -> Option<NodeIx> {
        self.by_name.get(name).copied()
    }

    /// All of them, by name.
    pub(super) fn by_name(&self) -> impl ExactSizeIterator<Item = (NodeIx, &MachineBook)> {
        self.places().by_place.iter().map(|&node| (node, &self[node]))
    }

    /// Where they are by name.
    pub(super) fn places(&self) -> &Places {
        self.places.get_or_init(|| {
            let by_place: Vec<NodeIx> = self.by_name.values().copied().collect();
            let mut by_node = vec![MachineIx(0); by_place.len()];
            for (place, node) in by_place.iter().enumerate() {
                by_node[node.0] = MachineIx(place);
            }
            Places { by_place, by_node }
        })
    }

    /// Takes in what an agent says. Returns where its node is if that was dead.
    pub(super) fn report(&mut self, topology: &Topology, report: NodeReport) -> Option<NodeIx> {
        let Some(node) = self.find(&report.name) else {
            self.enter(topology, MachineBook { is_heard: true, ..MachineBook::new(report) });
            return None;
        };
        self.dying.remove(&node);
        let machine = self.edit(node);
        machine.report = report;
        machine.measure(topology);
        machine.missed = 0;
        machine.is_heard = true;
        machine.is_awaited = false;
        std::mem::take(&mut machine.is_dead).then_some(node)
    }

    /// Whether `report` says of a node that is up and not missed what is known already.
    pub(super) fn is_well_and(&self, report: &NodeReport) -> bool {
        self.find(&report.name).is_some_and(|node| self.is_known(node, report))
    }

    /// Hears `report` if it says nothing else, which is the rule: this is all there is to do then.
    pub(super) fn hear_well(&mut self, report: &NodeReport) -> bool {
        let node = self.find(&report.name).filter(|&node| self.is_known(node, report));
        if let Some(node) = node {
            self.books[node.0].is_heard = true;
        }
        node.is_some()
    }

    fn is_known(&self, node: NodeIx, report: &NodeReport) -> bool {
        let known = &self[node];
        known.report == *report
            && known.missed == 0
            && !known.is_dead
            && !known.is_awaited
            && !self.dying.contains(&node)
    }

    /// Whether every node has reported since the last interval ended.
    pub(super) fn were_all_heard(&self) -> bool {
        self.books.iter().all(|machine| machine.is_heard)
    }

    /// Whether some node is about to be given up.
    pub(super) fn has_silent(&self) -> bool {
        !self.dying.is_empty()
    }

    /// Where the node is that others speak of. If it has not reported it has no room, and dies like
    /// any silent node if it stays silent.
    pub(super) fn expect(&mut self, topology: &Topology, name: &str) -> NodeIx {
        self.find(name).unwrap_or_else(|| {
            let report = NodeReport { name: name.into(), memory: Mebibytes(0), is_quiesced: false };
            self.enter(topology, MachineBook { is_awaited: true, ..MachineBook::new(report) })
        })
    }

    /// Gives a machine that is not in the books yet its place in them.
    pub(super) fn enter(&mut self, topology: &Topology, mut machine: MachineBook) -> NodeIx {
        machine.find_pool(&self.pools);
        machine.measure(topology);
        let node = NodeIx(self.books.len());
        self.by_name.insert(machine.report.name.clone(), node);
        self.books.push(machine);
        self.is_unseen.push(true);
        self.has_changed = true;
        self.places.take();
        self.varied_off.take();
        node
    }

    /// One heartbeat interval is over.
    pub(super) fn end_interval(&mut self, node_stability: u32) {
        for node in (0..self.books.len()).map(NodeIx) {
            if !std::mem::take(&mut self.books[node.0].is_heard) {
                let machine = self.edit_heartbeats(node);
                machine.missed = machine.missed.saturating_add(1);
                if node_stability <= machine.missed && !machine.is_dead {
                    self.dying.insert(node);
                }
            }
        }
    }

    /// A node missed so many heartbeats in a row, as somebody else counted them. None withdraws the
    /// verdict, as long as it has not taken effect.
    pub(super) fn miss(&mut self, name: &str, missed: u32, node_stability: u32) {
        if let Some(node) = self.find(name) {
            let machine = self.edit_heartbeats(node);
            machine.missed = missed;
            if machine.is_dead {
                return;
            }
            if node_stability <= missed {
                self.dying.insert(node);
            } else if missed == 0 {
                self.dying.remove(&node);
            }
        }
    }

    /// A node is known to be dead; takes effect in the next cycle.
    pub(super) fn die(&mut self, name: &str) {
        if let Some(node) = self.find(name).filter(|&node| !self[node].is_dead) {
            self.dying.insert(node);
        }
    }

    /// Carries out the deaths that are due: the machines get no work any more. Returns those whose
    /// work is lost with them; none where so many are silent at once that the fault is more likely
    /// ours (decision D15). Those are asked for again in the next cycle.
    pub(super) fn bury(&mut self, mass_loss_percent: Option<u32>) -> BTreeSet<NodeIx> {
        if self.dying.is_empty() {
            return BTreeSet::new();
        }
        for node in self.dying.clone() {
            self.edit(node).is_dead = true;
        }
        let alive = self.books.iter().filter(|machine| !machine.is_dead).count();
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

    /// Nodes whose death is held back because too many went silent at once, by name.
    pub(super) fn held_back(&self) -> Vec<Name> {
        let names = self.dying.iter().map(|&node| self[node].report.name.clone());
        let mut names: Vec<Name> = names.collect();
        names.sort_unstable();
        names
    }

    /// Takes nodes out of scheduling.
    ///
    /// # Errors
    ///
    /// If one of them was never heard of; then none is taken out.
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
    /// If one of them was never heard of; then none is put back.
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
            let machine = self.edit(node);
            let before = std::mem::replace(&mut machine.vary_off_reason, reason.map(str::to_owned));
            if before.is_some() != reason.is_some() {
                changed.push(name.clone());
            }
        }
        Ok(CommandOutcome { changed })
    }

    /// What the store remembers of an earlier run.
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
    pub(super) fn varied_off(&self) -> &[NodeIx] {
        self.varied_off.get_or_init(|| {
            let all = self.by_name();
            all.filter(|(_, machine)| machine.vary_off_reason.is_some())
                .map(|(node, _)| node)
                .collect()
        })
    }

    /// Finds each machine's pool and order anew.
    pub(super) fn replace_all(&mut self, topology: &Topology) {
        self.pools = topology.pools_by_node();
        self.forget();
        for machine in &mut self.books {
            machine.find_pool(&self.pools);
            machine.measure(topology);
        }
    }

    fn check_known(&self, nodes: &[String]) -> Result<(), CommandError> {
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

/// Heartbeats, as they are kept on record.
impl Machines {
    /// All of them, in the order in which they were first heard of.
    pub(super) fn books(&self) -> impl Iterator<Item = (NodeIx, &MachineBook)> {
        self.books.iter().enumerate().map(|(ix, machine)| (NodeIx(ix), machine))
    }

    /// Enters of each machine whether it was heard.
    pub(super) fn enter_heard(&mut self, is_heard: impl Fn(&MachineBook) -> bool) {
        for machine in &mut self.books {
            machine.is_heard = is_heard(machine);
        }
    }

    /// Counts missed heartbeats anew, but for machines that are dead.
    pub(super) fn restart_hearing(&mut self) {
        for node in (0..self.books.len()).map(NodeIx) {
            let machine = self.edit_heartbeats(node);
            machine.is_heard = false;
            if !machine.is_dead {
                machine.missed = 0;
            }
        }
        let books = &self.books;
        self.dying.retain(|node| books[node.0].is_dead);
    }
}

impl Places {
    /// The machine at this place.
    pub(super) fn node(&self, machine: MachineIx) -> NodeIx {
        self.by_place[machine.0]
    }

    /// The place of a machine.
    pub(super) fn of(&self, node: NodeIx) -> MachineIx {
        self.by_node[node.0]
    }
}

impl MachineBook {
    pub(super) fn new(report: NodeReport) -> MachineBook {
        MachineBook {
            report,
            pool: PoolIx(0),
            order: QShares(0),
            missed: 0,
            is_heard: false,
            is_awaited: false,
            is_dead: false,
            vary_off_reason: None,
        }
    }

    /// Whether it gets work, and if not, why.
    pub(super) fn state(&self, is_blacklisted: bool) -> MachineState {
        MachineState {
            is_awaited: self.is_awaited,
            is_dead: self.is_dead,
            is_varied_off: self.vary_off_reason.is_some(),
            is_quiesced: self.report.is_quiesced,
            is_blacklisted,
        }
    }

    fn find_pool(&mut self, pools: &BTreeMap<Name, PoolIx>) {
        self.pool = pools.get(&self.report.name).copied().unwrap_or(PoolIx(0));
    }

    fn measure(&mut self, topology: &Topology) {
        let offered = self.report.memory.0.saturating_sub(topology.settings.reserved_memory.0);
        self.order = topology.pools[self.pool.0].quantum.order_of_machine(Mebibytes(offered));
    }
}
