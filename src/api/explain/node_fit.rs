//! Obstacles to a further process of a job, node by node, and the jobs that hold the space instead.

use std::collections::BTreeMap;

use crate::api::wire::{Holder, NodeTally, NodeVerdict, Verdict};
use crate::model::{
    ClassPolicy, JobId, JobKind, Name, NodeCondition, Order, QShares, ResourceClass, SharePhase,
    Topology, amount_text, floor_div,
};
use crate::scheduler::{JobView, NodeView, View};

/// Number of holders that an explanation names.
const HOLDERS: usize = 5;

/// A job's usable nodes, and promised space, looked up once.
pub struct NodeFit<'a> {
    view: &'a View,
    job: &'a JobView,
    class: Option<&'a ResourceClass>,
    /// The only nodes it may use, in order. `None`: any.
    asked_for: Option<Vec<&'a str>>,
    /// Promised space by node; a node without promises is absent.
    promised: BTreeMap<&'a str, Promised>,
}

/// Promised space on a node, in qshares.
#[derive(Clone, Copy, Debug, Default)]
struct Promised {
    to_it: QShares,
    to_others: QShares,
}

impl<'a> NodeFit<'a> {
    /// To look at all nodes for `job`.
    pub fn of(view: &'a View, job: &'a JobView) -> NodeFit<'a> {
        let topology = &view.topology;
        let class = topology.class_named(&job.class).map(|class| &topology.classes[class.0]);
        let mut eyes = NodeFit { view, job, class, asked_for: None, promised: BTreeMap::new() };
        let Some(planned) = view.planned.as_deref() else { return eyes };
        let name = |ix| planned.snapshot.node(ix).name.as_str();
        let seen = planned.snapshot.jobs.iter().find(|seen| seen.id == job.id);
        let nodes = seen.and_then(|seen| seen.nodes.as_ref());
        eyes.asked_for = nodes.map(|nodes| {
            let mut names: Vec<&str> = nodes.iter().map(|&ix| name(ix)).collect();
            names.sort_unstable();
            names
        });
        for promise in &planned.schedule.promises {
            let promised = eyes.promised.entry(name(promise.node)).or_default();
            let mine = promise.job == job.id;
            let sum = if mine { &mut promised.to_it } else { &mut promised.to_others };
            *sum += promise.order.qshares();
        }
        eyes
    }

    /// Returns the first obstacle to a further process on `node`.
    pub fn verdict(&self, node: &NodeView) -> Verdict {
        let NodeCondition {
            is_awaited,
            is_dead,
            is_varied_off,
            is_quiesced,
            is_blacklisted,
            is_in_maintenance,
        } = node.state;
        let needs = self.needs();
        let promised = self.promised.get(node.name.as_str()).copied().unwrap_or_default();
        let free = free(node);
        match () {
            () if !self.may_use_pool(&node.pool) => Verdict::OtherPool,
            () if self.job.except_nodes.contains(&node.name) => Verdict::Excepted,
            () if !self.asks_for(&node.name) => Verdict::NotAskedFor,
            () if is_awaited => Verdict::Awaited,
            () if !self.has_size(node) => Verdict::TooSmall,
            () if is_dead => Verdict::Dead,
            () if is_varied_off => Verdict::VariedOff,
            () if is_quiesced => Verdict::Quiesced,
            () if is_blacklisted => Verdict::Blacklisted,
            () if is_in_maintenance => Verdict::Maintenance,
            () if QShares(0) < promised.to_it => Verdict::BeingCleared,
            () if self.is_for_whole_node() && QShares(0) < node.used => Verdict::Full,
            () if free < needs => Verdict::Full,
            () if (free + leaving(node)).saturating_sub(promised.to_others) < needs => {
                Verdict::Promised
            }
            () => Verdict::HasRoom,
        }
    }

    /// The verdict on every node, by name.
    pub fn verdicts(&self) -> Vec<NodeVerdict> {
        let told = |node: &NodeView| {
            let verdict = self.verdict(node);
            NodeVerdict {
                node: node.name.to_string(),
                verdict,
                sentence: self.sentence(node, verdict),
                free: free(node).0,
                order: node.order.0,
            }
        };
        self.view.nodes.iter().map(told).collect()
    }

    /// For how many nodes what is true.
    pub fn tally(&self) -> NodeTally {
        let mut tally = NodeTally::default();
        for node in self.view.nodes.iter() {
            tally.total += 1;
            *tally.count_of(self.verdict(node)) += 1;
        }
        tally
    }

    /// Returns the nodes whose verdict is in `verdicts`.
    pub fn nodes(&self, verdicts: &[Verdict]) -> impl Iterator<Item = &'a NodeView> {
        self.view.nodes.iter().filter(|node| verdicts.contains(&self.verdict(node)))
    }

    /// Returns the nodes that are large enough and get shares, used or not.
    pub fn in_use(&self) -> impl Iterator<Item = &'a NodeView> {
        self.nodes(&[Verdict::BeingCleared, Verdict::Full, Verdict::Promised, Verdict::HasRoom])
    }

    /// The largest node in a pool that it may use, up or not.
    pub fn largest(&self) -> Option<&'a NodeView> {
        let usable = self.view.nodes.iter().filter(|node| {
            self.may_use_pool(&node.pool) && self.asks_for(&node.name) && !node.state.is_awaited
        });
        usable.max_by_key(|node| node.order)
    }

    /// Returns the size of a process, in qshares.
    pub fn needs(&self) -> QShares {
        self.job.order.map_or(QShares(u64::MAX), Order::qshares)
    }

    /// Returns the jobs that hold most on the nodes that the job could use.
    pub fn holders(&self) -> Vec<Holder> {
        let mut sums: BTreeMap<JobId, (u64, QShares)> = BTreeMap::new();
        for (job, _, order, _) in self.in_use().flat_map(|node| &node.shares) {
            let (processes, amount) = sums.entry(*job).or_default();
            *processes += 1;
            *amount += order.qshares();
        }
        let jobs = self.view.jobs.iter().filter(|job| job.id != self.job.id);
        let holders = jobs.filter_map(|job| {
            let &(processes, QShares(qshares)) = sums.get(&job.id)?;
            Some(Holder {
                job: job.id.0,
                user: job.user.to_string(),
                class: job.class.to_string(),
                processes,
                qshares,
                done_in_ms: done_in(job),
            })
        });
        let mut holders: Vec<Holder> = holders.collect();
        holders.sort_by_key(|holder| (u64::MAX - holder.qshares, holder.job));
        holders.truncate(HOLDERS);
        holders
    }

    /// True for the pool of the job's class, and for a fair-share job for the pools inside it too.
    fn may_use_pool(&self, pool: &str) -> bool {
        let topology: &Topology = &self.view.topology;
        let place = topology.pools.iter().position(|candidate| candidate.name == pool);
        let place = place.map(crate::model::PoolIx);
        self.class.zip(place).is_some_and(|(class, place)| {
            place == class.pool
                || (class.policy.is_preemptable() && topology.is_within(place, class.pool))
        })
    }

    fn asks_for(&self, node: &Name) -> bool {
        let asked_for = self.asked_for.as_ref();
        asked_for.is_none_or(|names| names.binary_search(&node.as_str()).is_ok())
    }

    fn is_for_whole_node(&self) -> bool {
        self.class.is_some_and(|class| class.policy == ClassPolicy::Reserve)
    }

    /// True if the node is large enough. For a whole node it must also be no larger than asked for.
    /// A reservation allows a surplus, which the configuration sets.
    fn has_size(&self, node: &NodeView) -> bool {
        let needs = self.needs();
        if !self.is_for_whole_node() {
            return needs <= node.order;
        }
        let overage = match self.job.kind {
            JobKind::Reservation => {
                node.quantum.order_of_node(self.view.topology.settings.reserve_overage)
            }
            JobKind::Job | JobKind::Service | JobKind::ArbitraryProcess => QShares(0),
        };
        needs <= node.order && node.order.saturating_sub(needs) <= overage
    }

    fn sentence(&self, node: &NodeView, verdict: Verdict) -> String {
        let text = |amount: QShares| amount_text(Some(node.quantum), amount);
        let (needs, free, all) = (text(self.needs()), text(free(node)), text(node.order));
        let leaving = match leaving(node) {
            QShares(0) => String::new(),
            leaving => format!(", {} more is terminating", text(leaving)),
        };
        let promised = self.promised.get(node.name.as_str()).copied().unwrap_or_default();
        match verdict {
            Verdict::OtherPool => {
                format!("in pool {}, which class {} does not use", node.pool, self.job.class)
            }
            Verdict::Excepted => "excepted by the owner of the job".to_owned(),
            Verdict::NotAskedFor => "not among the nodes that it asks for".to_owned(),
            Verdict::Awaited => "not heard of since the daemon started".to_owned(),
            Verdict::TooSmall if self.is_for_whole_node() => {
                format!("has {all}; a whole node of {needs} is asked for")
            }
            Verdict::TooSmall => {
                format!("has {all}, one process needs {needs}")
            }
            Verdict::Dead => format!("silent for {} heartbeats", node.missed),
            Verdict::VariedOff => match &node.vary_off_reason {
                Some(reason) => format!("taken out by an administrator: {reason}"),
                None => "taken out by an administrator".to_owned(),
            },
            Verdict::Quiesced => "wants no new work".to_owned(),
            Verdict::Maintenance => "in maintenance, or soon".to_owned(),
            Verdict::Blacklisted => {
                "holds shares that configuration no longer allows; it gets work when they are gone"
                    .to_owned()
            }
            Verdict::BeingCleared => {
                format!("{} is kept for it; {free} of {all} is free{leaving}", text(promised.to_it))
            }
            Verdict::Full if self.is_for_whole_node() => {
                format!("{free} of {all} free{leaving}, all of it is asked for")
            }
            Verdict::Full => {
                format!("{free} of {all} free{leaving}, one process needs {needs}")
            }
            Verdict::Promised => {
                format!("{free} of {all} free, {} kept for others", text(promised.to_others))
            }
            Verdict::HasRoom => format!("{free} of {all} free"),
        }
    }
}

/// Returns the free qshares of a node.
pub fn free(node: &NodeView) -> QShares {
    node.order.saturating_sub(node.used)
}

/// Returns the qshares that become free once all terminating shares of a node have exited.
pub fn leaving(node: &NodeView) -> QShares {
    let leaving = node.shares.iter().filter(|(_, _, _, state)| *state == SharePhase::Leaving);
    leaving.map(|(_, _, order, _)| order.qshares()).sum()
}

/// Returns the time until the job is done, in milliseconds, at the rate of its present processes.
/// `None` if not known: for a service, process or reservation, before the first item is done, and
/// without processes.
pub fn done_in(job: &JobView) -> Option<u64> {
    let at_work = std::num::NonZeroU64::new(job.held().0.saturating_mul(job.threads))?;
    let time_per_item = job.facts.time_per_item.filter(|time| 0 < *time)?;
    let is_job = job.kind == JobKind::Job && job.facts.is_running;
    is_job.then(|| floor_div(job.facts.remaining.saturating_mul(time_per_item), at_work))
}
