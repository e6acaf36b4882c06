//! Obstacles to a further process of a job, node by node, and the jobs that hold the space instead.

use std::collections::BTreeMap;

use crate::api::explain::gang_fit::GangFit;
use crate::api::wire::{Holder, NodeTally, NodeVerdict, Verdict};
use crate::model::{
    ClassPolicy, JobId, JobKind, Millis, Name, NodeCondition, Order, QShares, ResourceClass,
    SharePhase, Topology, Window, WindowKind, amount_text, floor_div, span,
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
    /// Needs of the job, if it is a gang.
    gang: Option<GangFit<'a>>,
    /// Space that older gangs keep from the job, by node, and the oldest of them.
    claimed: BTreeMap<&'a str, (QShares, JobId)>,
    /// Windows that keep the job from their nodes, by start.
    windows: Vec<&'a Window>,
    /// Time of the cycle, in milliseconds since the epoch.
    now: Millis,
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
        let class = topology.class_named(&job.class).map(|class| &topology.classes[class]);
        let now = view.planned.as_deref().and_then(|planned| planned.snapshot.now).unwrap_or(0);
        let mut eyes = NodeFit {
            view,
            job,
            class,
            asked_for: None,
            promised: BTreeMap::new(),
            gang: class.and_then(|class| GangFit::of(view, job, class)),
            claimed: BTreeMap::new(),
            windows: Vec::new(),
            now,
        };
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
        if class.is_some_and(|class| !class.policy.is_preemptable()) {
            let mut older: BTreeMap<JobId, bool> = BTreeMap::new();
            for claim in &planned.schedule.report.claims {
                if *older.entry(claim.job).or_insert_with(|| eyes.is_older(claim.job)) {
                    let claimed = eyes.claimed.entry(name(claim.node));
                    claimed.or_insert((QShares(0), claim.job)).0 += claim.amount;
                }
            }
            let keeping = view.windows.iter().map(|window| &**window);
            eyes.windows = keeping.filter(|window| eyes.is_kept_by(window)).collect();
            eyes.windows.sort_by_key(|window| window.from);
        }
        eyes
    }

    /// True if the gang goes before the job: its class has a higher priority, or it is older.
    fn is_older(&self, gang: JobId) -> bool {
        let rank = |id| {
            let mut jobs = self.view.jobs.iter().enumerate();
            let (place, job) = jobs.find(|(_, job)| job.id == id)?;
            let class = self.view.topology.class_named(&job.class)?;
            Some((self.view.topology.classes[class].priority, place))
        };
        rank(gang).zip(rank(self.job.id)).is_some_and(|(gang, own)| gang < own)
    }

    /// True if work that stays, like the job, may not run into the window.
    fn is_kept_by(&self, window: &Window) -> bool {
        let shape = self.job.shape.as_deref();
        let is_own = shape.and_then(|shape| shape.reservation.as_ref()) == Some(&window.name);
        let declared = shape.and_then(|shape| shape.duration);
        let length = self.class.and_then(|class| class.gangs.duration(declared));
        let end = length.map_or(Millis::MAX, |length| self.now.saturating_add(length));
        let is_let_in = is_own && window.admits(&self.job.user, &self.job.class);
        window.overlaps(self.now, end) && !is_let_in
    }

    /// The first window on `node` that keeps the job away.
    fn window_of(&self, node: &NodeView) -> Option<&'a Window> {
        let mut windows = self.windows.iter();
        windows.find(|window| window.nodes.binary_search(&node.name).is_ok()).copied()
    }

    /// Least space that the job could use on `node`; `None` if the node lacks tags.
    fn needs_on(&self, node: &NodeView) -> Option<QShares> {
        match &self.gang {
            Some(gang) => gang.needs(&node.tags),
            None => node.tags.satisfy(&self.job.tags).then(|| self.needs()),
        }
    }

    /// True if the job is a gang with a single process a node, and has it on `node`.
    fn is_done_on(&self, node: &NodeView) -> bool {
        self.gang.as_ref().is_some_and(|gang| gang.is_done_on(self.job, node))
    }

    /// Space that older gangs keep on `node`.
    fn claimed_on(&self, node: &NodeView) -> QShares {
        self.claimed.get(node.name.as_str()).map_or(QShares(0), |(amount, _)| *amount)
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
        let needs = self.needs_on(node);
        let promised = self.promised.get(node.name.as_str()).copied().unwrap_or_default();
        let free = free(node);
        let Some(needs) = needs.filter(|_| self.may_use_pool(&node.pool)) else {
            return match () {
                () if !self.may_use_pool(&node.pool) => Verdict::OtherPool,
                () if is_awaited => Verdict::Awaited,
                () => Verdict::LacksTags,
            };
        };
        match () {
            () if self.job.except_nodes.contains(&node.name) => Verdict::Excepted,
            () if !self.asks_for(&node.name) => Verdict::NotAskedFor,
            () if is_awaited => Verdict::Awaited,
            () if !self.has_size(node, needs) => Verdict::TooSmall,
            () if self.gang.as_ref().is_some_and(|gang| gang.is_in_other_set(node)) => {
                Verdict::OtherSet
            }
            () if is_dead => Verdict::Dead,
            () if is_varied_off => Verdict::VariedOff,
            () if is_quiesced => Verdict::Quiesced,
            () if is_blacklisted => Verdict::Blacklisted,
            () if is_in_maintenance => Verdict::Maintenance,
            () if self.window_of(node).is_some() => Verdict::Window,
            () if QShares(0) < promised.to_it => Verdict::BeingCleared,
            () if self.is_for_whole_node() && QShares(0) < node.used => Verdict::Full,
            () if self.is_done_on(node) => Verdict::Full,
            () if free < needs => Verdict::Full,
            () if free.saturating_sub(self.claimed_on(node)) < needs => Verdict::KeptForGang,
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

    /// True for the pool of the job's class, and for a fair-share job for the pools inside it too. A
    /// gang stays in the pool of its class.
    fn may_use_pool(&self, pool: &str) -> bool {
        let topology: &Topology = &self.view.topology;
        let place = topology.pools.iter().position(|candidate| candidate.name == pool);
        let place = place.map(crate::model::PoolIx);
        self.class.zip(place).is_some_and(|(class, place)| {
            place == class.pool
                || (class.policy.is_preemptable()
                    && self.gang.is_none()
                    && topology.is_within(place, class.pool))
        })
    }

    fn asks_for(&self, node: &Name) -> bool {
        let asked_for = self.asked_for.as_ref();
        asked_for.is_none_or(|names| names.binary_search(&node.as_str()).is_ok())
            && self.reserved_for(node)
    }

    /// True if the node is in the advance reservation that the job names, if any.
    fn reserved_for(&self, node: &Name) -> bool {
        let named = self.job.shape.as_deref().and_then(|shape| shape.reservation.as_ref());
        named.is_none_or(|named| {
            let mut windows = self.view.windows.iter().filter(|window| window.name == *named);
            windows.any(|window| window.nodes.binary_search(node).is_ok())
        })
    }

    fn is_for_whole_node(&self) -> bool {
        self.class.is_some_and(|class| class.policy == ClassPolicy::Reserve)
            || self.gang.as_ref().is_some_and(GangFit::is_exclusive)
    }

    /// True if the node is large enough. For a whole node it must also be no larger than asked for.
    /// A reservation allows a surplus, which the configuration sets.
    fn has_size(&self, node: &NodeView, needs: QShares) -> bool {
        if !self.is_for_whole_node() || self.gang.is_some() {
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
        let needs = self.needs_on(node).unwrap_or_else(|| self.needs());
        let (needs, now_free, all) = (text(needs), free(node), text(node.order));
        let free = text(now_free);
        let unit = self.gang.as_ref().map_or("one process needs", GangFit::unit);
        let leaving = Some(leaving(node)).filter(|leaving| QShares(0) < *leaving);
        let leaving =
            leaving.map(|it| format!(", {} more is terminating", text(it))).unwrap_or_default();
        let promised = self.promised.get(node.name.as_str()).copied().unwrap_or_default();
        match verdict {
            Verdict::OtherPool => {
                format!("in pool {}, which class {} does not use", node.pool, self.job.class)
            }
            Verdict::Excepted => "excepted by the owner of the job".to_owned(),
            Verdict::NotAskedFor if !self.reserved_for(&node.name) => {
                "not in the advance reservation that it names".to_owned()
            }
            Verdict::NotAskedFor => "not among the nodes that it asks for".to_owned(),
            Verdict::LacksTags => match &self.gang {
                Some(gang) => gang.lacking(&node.tags),
                None => format!("has no {}", self.job.tags),
            },
            Verdict::OtherSet => {
                self.gang.as_ref().map(|gang| gang.other_set(node)).unwrap_or_default()
            }
            Verdict::Awaited => "no heartbeat since the daemon started".to_owned(),
            Verdict::TooSmall if self.is_for_whole_node() && self.gang.is_none() => {
                format!("has {all}; a whole node of {needs} is asked for")
            }
            Verdict::TooSmall => {
                format!("has {all}, {unit} {needs}")
            }
            Verdict::Dead => format!("silent for {} heartbeats", node.missed),
            Verdict::VariedOff => {
                let reason = node.vary_off_reason.iter().map(|reason| format!(": {reason}"));
                format!("taken out by an administrator{}", reason.collect::<String>())
            }
            Verdict::Quiesced => "wants no new work".to_owned(),
            Verdict::Maintenance => "in maintenance, or soon".to_owned(),
            Verdict::Window => self.window_of(node).map(|it| self.window(it)).unwrap_or_default(),
            Verdict::Blacklisted => {
                "holds shares that configuration no longer allows; it gets work when they are gone"
                    .to_owned()
            }
            Verdict::BeingCleared => {
                format!("{} is kept for it; {free} of {all} is free{leaving}", text(promised.to_it))
            }
            Verdict::Full if self.is_done_on(node) => "has a process of it, one a node".to_owned(),
            Verdict::Full if self.is_for_whole_node() => {
                format!("{free} of {all} free{leaving}, all of it is asked for")
            }
            Verdict::Full => {
                format!("{free} of {all} free{leaving}, {unit} {needs}")
            }
            Verdict::KeptForGang => {
                let claimed = self.claimed.get(node.name.as_str());
                let gang = claimed.map(|(_, gang)| gang.to_string()).unwrap_or_default();
                let amount = text(self.claimed_on(node));
                format!("{free} of {all} free, {amount} kept for gang {gang}, which is older")
            }
            Verdict::Promised => {
                format!("{free} of {all} free, {} kept for others", text(promised.to_others))
            }
            Verdict::HasRoom => {
                let room = self.gang.iter().map(|gang| gang.room(&node.tags, now_free));
                format!("{free} of {all} free{}", room.collect::<String>())
            }
        }
    }

    /// The window, and the time until it opens or closes.
    fn window(&self, window: &Window) -> String {
        let name = &window.name;
        let kind = match window.kind {
            WindowKind::Reservation => "advance reservation",
            WindowKind::Maintenance => "maintenance",
        };
        if self.now < window.from {
            let opens = span(window.from - self.now);
            format!("{kind} {name} opens in {opens}, before the job would end")
        } else {
            format!("{kind} {name} is open for another {}", span(window.to - self.now))
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
