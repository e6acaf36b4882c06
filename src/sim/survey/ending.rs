//! Machines and jobs at the end of a play, read from the written document and nothing else.
//!
//! Shares no code with the engine, so that the figures here are a second opinion. Reads no more
//! than the survey draws: a quantum of 1 GB, nodes that report once and stay, a single kind of
//! work.

use std::collections::BTreeMap;

use crate::sim::count;
use crate::sim::recorded::scenario::{EventInput, Scenario, ScenarioConfig};
use crate::sim::recorded::{PlayedCycle, PlayedDocument, PlayedJob};

/// The end of a play.
pub(super) struct FinalState {
    pub classes: Vec<FinalClass>,
    pub nodes: Vec<FinalNode>,
    /// By number.
    pub jobs: Vec<FinalJob>,
}

/// A class: all classes have the same priority.
pub(super) struct FinalClass {
    pub name: String,
    pub weight: u64,
}

/// A machine. All can be scheduled to the end.
pub(super) struct FinalNode {
    pub name: String,
    pub order: u64,
    /// For each class, true if the class may use the machine.
    pub is_open_to: Vec<bool>,
    /// Qshares that nothing occupies.
    pub free: u64,
    /// True if a share on the machine is leaving.
    pub is_emptying: bool,
}

/// A job that has an order.
pub(super) struct FinalJob {
    pub id: u64,
    pub class: usize,
    pub user: String,
    pub order: u64,
    pub cap: u64,
    /// The processes counted for it.
    pub given: u64,
    /// Shares of the job that are not leaving.
    pub held: u64,
    /// Shares of the job that are not leaving, by the position of the machine.
    pub shares: BTreeMap<usize, u64>,
}

impl FinalState {
    /// Reads the end of `played`, the document of `scenario`.
    pub fn new(scenario: &Scenario, played: &PlayedDocument) -> FinalState {
        let config = &scenario.config;
        let first_pool = config.nodepools.first().map_or("", |pool| pool.name.as_str());
        let classes = config.classes.iter().map(|class| FinalClass {
            name: class.name.clone(),
            weight: u64::from(class.weight.unwrap_or(100)),
        });
        let mut ending =
            FinalState { classes: classes.collect(), nodes: Vec::new(), jobs: Vec::new() };
        let events = || scenario.cycles.iter().flat_map(|cycle| &cycle.events);
        let lists = events().filter_map(|event| {
            if let EventInput::Nodes(nodes) = event { Some(&nodes.list) } else { None }
        });
        for (name, order) in lists.flatten() {
            let listed = config.nodepools.iter().find(|pool| pool.nodes.contains(name));
            let pool = listed.map_or(first_pool, |pool| pool.name.as_str());
            let is_open_to = config.classes.iter().map(|class| {
                is_within(config, pool, class.nodepool.as_deref().unwrap_or(first_pool))
            });
            ending.nodes.push(FinalNode {
                name: name.clone(),
                order: *order,
                is_open_to: is_open_to.collect(),
                free: *order,
                is_emptying: false,
            });
        }
        let Some(last) = played.cycles.last() else { return ending };
        for event in events() {
            if let EventInput::Job(job) = event {
                ending.take_over(last, job.id, &job.class, &job.user);
            }
        }
        ending.jobs.sort_by_key(|job| job.id);
        ending
    }

    fn take_over(&mut self, last: &PlayedCycle, id: u64, class: &str, user: &str) {
        let line = last.jobs.iter().find(|line| line.id == id);
        let class = self.classes.iter().position(|other| other.name == class);
        let (Some(line), Some(class)) = (line, class) else { return };
        let Some(order) = line.order.map(u64::from) else { return };
        let mut shares = BTreeMap::new();
        for (ix, node) in self.nodes.iter_mut().enumerate() {
            let occupying = line.nodes.get(&node.name).copied().unwrap_or(0);
            let leaving = leaving_from(line, &node.name);
            node.free -= occupying * order;
            node.is_emptying |= 0 < leaving;
            if leaving < occupying {
                shares.insert(ix, occupying - leaving);
            }
        }
        let (user, cap, given, held) = (user.to_owned(), line.cap, line.given, line.held);
        self.jobs.push(FinalJob { id, class, user, order, cap, given, held, shares });
    }

    /// True if `job` may use `node`, and the machine is large enough.
    pub fn may_use(&self, job: &FinalJob, node: usize) -> bool {
        let node = &self.nodes[node];
        node.is_open_to[job.class] && job.order <= node.order
    }

    /// True if `job` could use more, and a process of it fits on some machine.
    pub fn has_unmet_demand(&self, job: &FinalJob) -> bool {
        job.held < job.cap && (0..self.nodes.len()).any(|node| self.may_use(job, node))
    }
}

/// Terminated shares on `node` that have not exited. Every eviction is confirmed in the next
/// cycle, so these shares were terminated in the last cycle.
fn leaving_from(line: &PlayedJob, node: &str) -> u64 {
    count(line.shrunken.iter().filter(|left| *left == node).count())
}

/// True if pool `inner` is `outer`, or nested in it.
fn is_within(config: &ScenarioConfig, inner: &str, outer: &str) -> bool {
    let parents: BTreeMap<&str, &str> = config
        .nodepools
        .iter()
        .filter_map(|pool| Some((pool.name.as_str(), pool.parent.as_deref()?)))
        .collect();
    let mut at = Some(inner);
    while let Some(pool) = at.filter(|pool| *pool != outer) {
        at = parents.get(pool).copied();
    }
    at.is_some()
}
