//! The cap of a job: exactly the number of nshares it could use now, were resources unbounded.
//!
//! Starts from the largest useful number and lowers it rule by rule. The last rule that lowered it
//! is remembered, so that "why is my job held at 4" has an answer.
//!
//! Design: "`calcJobCaps()`". Where the design and the original differ, decision D9: work is rounded
//! up, and prediction only lowers.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use super::gang::{gang_shape, processes_due};
use super::report::{Cap, CapBound};
use super::sizes::{legal_cap, sizes_of};
use super::snapshot::{Job, Snapshot};
use crate::model::{
    CapRules, Elasticity, JobId, JobKind, Millis, NShares, ProcessLimit, Shape, ceil_div, count,
    floor_div,
};

/// Work left of a job, and how much of it the job could use now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Demand {
    /// Processes for the work left, up to the job's maximum, without any rule that slows growth.
    pub nshares: NShares,
    /// Most nshares that the job could use now.
    pub cap: Cap,
}

/// Number of nshares promised to each job.
pub(super) fn promised(snapshot: &Snapshot) -> BTreeMap<JobId, NShares> {
    let mut promised: BTreeMap<JobId, NShares> = BTreeMap::new();
    for promise in &snapshot.promises {
        *promised.entry(promise.job).or_default() += NShares(1);
    }
    promised
}

/// The demand of `job` while it holds `held` nshares and `promised` more are promised to it.
///
/// Rules that slow growth never lower the cap below what is held plus promised: other jobs have
/// already made space for it.
pub(super) fn demand(snapshot: &Snapshot, job: &Job, held: NShares, promised: NShares) -> Demand {
    if snapshot.is_overrun(job) {
        let Demand { nshares, .. } = demand_when_open(snapshot, job, held, promised);
        return Demand { nshares, cap: bounded(NShares(0), CapBound::Overrun) };
    }
    let policy = &snapshot.class_of(job).policy;
    // Work that stays has a place in the calendar until then.
    let is_early = policy.is_preemptable() && snapshot.later_start(job).is_some();
    if is_early && !job.facts.is_completing {
        let Demand { nshares, .. } = demand_when_open(snapshot, job, held, promised);
        return Demand { nshares, cap: bounded(held, CapBound::TooEarly) };
    }
    // Fixed gangs wait for a time at which they would end before their class closes.
    let is_closed = (policy.is_preemptable() || gang_shape(job).is_none())
        && snapshot.is_closed(job.class)
        && !job.facts.is_completing;
    if is_closed {
        let Demand { nshares, .. } = demand_when_open(snapshot, job, held, promised);
        let kept = if policy.is_preemptable() { NShares(0) } else { held };
        return Demand { nshares, cap: bounded(kept, CapBound::Closed) };
    }
    demand_when_open(snapshot, job, held, promised)
}

/// The demand of `job` while its class is open.
fn demand_when_open(snapshot: &Snapshot, job: &Job, held: NShares, promised: NShares) -> Demand {
    if job.kind != JobKind::Job {
        return demand_of_one(job, held);
    }
    if let Some(shape) = gang_shape(job) {
        return demand_of_gang(job, shape, held);
    }
    let threads = NonZeroU64::new(job.threads).unwrap_or(NonZeroU64::MIN);
    let work_left = NShares(ceil_div(job.facts.remaining, threads));
    let (limit, limited_by) = match job.facts.limit {
        ProcessLimit::Unlimited => (NShares::MAX, CapBound::WorkLeft),
        ProcessLimit::AtMost(limit) => (NShares(limit), CapBound::Maximum),
        ProcessLimit::Frozen => (held, CapBound::Frozen),
    };
    let nshares = work_left.min(limit);
    if job.facts.is_completing {
        return Demand { nshares: held, cap: bounded(held, CapBound::Completing) };
    }

    // A job that is winding down has more processes than its work needs; they end by themselves.
    let useful = work_left.max(held);
    let base = if limit < useful {
        bounded(limit, limited_by)
    } else {
        bounded(useful, CapBound::WorkLeft)
    };
    if let Some(shape) = sizes_of(job) {
        // Such a job is as large as its owner says, so it does not ramp up.
        let nshares = legal_cap(shape, nshares);
        return Demand { nshares, cap: base };
    }
    let rules = snapshot.class_of(job).cap_rules;
    let pace = GrowthLimits { held, promised, threads, base, rules };
    Demand { nshares, cap: pace.cap(job, snapshot.topology.settings.publication_period) }
}

/// The most processes `job` may keep: processes beyond its declared maximum are preempted. `None`
/// if it may keep all, as while it is ending.
pub(super) fn maximum(job: &Job) -> Option<NShares> {
    if gang_shape(job).is_some_and(|shape| shape.elasticity != Some(Elasticity::Evolving)) {
        return None;
    }
    match job.facts.limit {
        ProcessLimit::AtMost(limit) if !job.facts.is_completing => Some(NShares(limit)),
        ProcessLimit::AtMost(_) | ProcessLimit::Unlimited | ProcessLimit::Frozen => None,
    }
}

/// The demand of a service, an arbitrary process or a reservation: a single process. After that
/// process has ended the job gets no second process; its owner decides about a new job.
fn demand_of_one(job: &Job, held: NShares) -> Demand {
    let (nshares, bound) = match (job.facts.is_completing, job.is_spent) {
        (true, _) => (held, CapBound::Completing),
        (false, true) => (held, CapBound::Spent),
        (false, false) => (NShares(1), CapBound::WorkLeft),
    };
    Demand { nshares: NShares(1), cap: bounded(nshares, bound) }
}

/// The demand of a gang: the processes that start together. A gang that has started keeps what it
/// has; only the owner of an evolving gang changes its demand.
fn demand_of_gang(job: &Job, shape: &Shape, held: NShares) -> Demand {
    let (nshares, bound) = match (job.facts.is_completing, job.is_spent) {
        (true, _) => (held, CapBound::Completing),
        (false, true) => (held, CapBound::Spent),
        (false, false) => (NShares(processes_due(job, shape)), CapBound::WorkLeft),
    };
    // A gang that lost a node still wants its processes, and says why it gets none.
    let demand = if bound == CapBound::Spent { NShares(shape.processes()) } else { nshares };
    Demand { nshares: demand, cap: bounded(nshares, bound) }
}

/// The rules that pace a job's growth.
struct GrowthLimits {
    held: NShares,
    promised: NShares,
    threads: NonZeroU64,
    base: Cap,
    rules: CapRules,
}

impl GrowthLimits {
    fn cap(&self, job: &Job, publication_period: Millis) -> Cap {
        let time_per_item = job.facts.time_per_item.and_then(NonZeroU64::new);
        let (Some(time_per_item), true) = (time_per_item, job.facts.is_running) else {
            return self.while_initializing();
        };
        if self.held == NShares(0) && self.rules.expand_by_doubling {
            // Pushed out entirely: doubling starts over.
            let restart = NShares(self.rules.initialization_cap.max(1));
            return self.paced(self.base, restart, CapBound::Initialization);
        }
        let mut cap = self.base;
        if self.rules.prediction {
            let horizon = mean_initialization(job)
                .saturating_add(publication_period)
                .saturating_add(self.rules.prediction_fudge);
            let projected = self.projected(job.facts.remaining, time_per_item, horizon);
            cap = self.paced(cap, projected, CapBound::Prediction);
        }
        if self.rules.expand_by_doubling {
            let doubled = NShares(self.held.0.saturating_mul(2));
            cap = self.paced(cap, doubled, CapBound::Doubling);
        }
        cap
    }

    /// Until a process has initialized, failure is likely and nothing can be predicted.
    fn while_initializing(&self) -> Cap {
        match self.rules.initialization_cap {
            0 => self.base,
            limit => self.paced(self.base, NShares(limit), CapBound::Initialization),
        }
    }

    /// Lowers `cap` to `limit`, because of `bound`, if that is lower. Never goes below what is held
    /// plus what is promised.
    fn paced(&self, cap: Cap, limit: NShares, bound: CapBound) -> Cap {
        let kept = match (self.promised, bound) {
            (NShares(0), CapBound::Prediction) => self.held,
            (NShares(0), _) => NShares(0),
            (promised, _) => self.held + promised,
        };
        lower(cap, limit.max(kept), bound)
    }

    /// Processes needed for the work that is left after `horizon` at the present rate. Returns the
    /// processes held if no work would be left.
    fn projected(&self, remaining: u64, time_per_item: NonZeroU64, horizon: Millis) -> NShares {
        let threads_at_work = self.held.0.saturating_mul(self.threads.get());
        let done = rounded_ratio(horizon.saturating_mul(threads_at_work), time_per_item);
        match ceil_div(remaining.saturating_sub(done), self.threads) {
            0 => self.held,
            processes => NShares(processes),
        }
    }
}

fn bounded(nshares: NShares, bound: CapBound) -> Cap {
    Cap { nshares, bound }
}

/// Lowers `cap` to `limit`, because of `bound`, if that is lower.
fn lower(cap: Cap, limit: NShares, bound: CapBound) -> Cap {
    if limit < cap.nshares { bounded(limit, bound) } else { cap }
}

/// The mean initialization time of the job's initialized processes; 0 while there are none.
fn mean_initialization(job: &Job) -> Millis {
    let times = || {
        job.held()
            .filter(|share| share.facts.is_initialized)
            .map(|share| share.facts.initialization)
    };
    let total = times().fold(0, Millis::saturating_add);
    NonZeroU64::new(count(times())).map_or(0, |processes| floor_div(total, processes))
}

/// `dividend / divisor`, rounded half up.
fn rounded_ratio(dividend: u64, divisor: NonZeroU64) -> u64 {
    let whole = floor_div(dividend, divisor);
    let rest = dividend % divisor;
    if rest.saturating_mul(2) < divisor.get() { whole } else { whole + 1 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::engine::snapshot::{GangProgress, Quiescence, Share};
    use crate::model::NodeTagging;
    use crate::model::{
        ClassIx, ClassPolicy, GangRules, JobFacts, Mebibytes, NodeIx, Nodepool, Order, PoolIx,
        Quantum, ResourceClass, Settings, ShareFacts, ShareId, SharePhase, Topology, UserIx,
    };

    /// The values of MODEL section 6: two before initialization, doubling, prediction 120 s ahead,
    /// publications every 10 s.
    const RULES: CapRules = CapRules {
        initialization_cap: 2,
        expand_by_doubling: true,
        prediction: true,
        prediction_fudge: 120_000,
        loss_limit: CapRules::LOSS_LIMIT,
    };

    fn snapshot(rules: CapRules) -> Snapshot {
        let quantum = Quantum::new(Mebibytes(1)).unwrap();
        let topology = Topology {
            tagging: NodeTagging::default(),
            settings: Settings::default(),
            pools: vec![Nodepool {
                name: "main".into(),
                parent: None,
                search_order: 100,
                quantum,
                nodes: Vec::new(),
            }]
            .into(),
            classes: vec![ResourceClass {
                gangs: GangRules::default(),
                name: "normal".into(),
                policy: ClassPolicy::FairShare { weight: 100 },
                priority: 10,
                pool: PoolIx(0),
                cap_rules: rules,
                users: None,
                is_default: true,
                is_urgent: false,
            }]
            .into(),
            allotments: BTreeMap::new(),
        };
        let topology = Arc::new(topology);
        Snapshot {
            turns: Vec::new(),
            cycle: 1,
            topology,
            nodes: Arc::default(),
            users: Arc::default(),
            jobs: Arc::default(),
            promises: Vec::new(),
            put_off: Vec::new(),
            quiescence: Quiescence::default(),
            now: None,
            windows: Arc::default(),
            hours: Arc::default(),
        }
    }

    /// A running job with `held` initialized processes of a single thread each; each took a minute
    /// to initialize.
    fn job(held: u64, remaining: u64, time_per_item: Millis) -> Job {
        let facts = ShareFacts { is_initialized: true, initialization: 60_000, investment: 0 };
        let share = |id| Share {
            rank: None,
            id: ShareId(id),
            node: NodeIx(0),
            order: Order::new(1).unwrap(),
            state: SharePhase::Held,
            facts,
        };
        Job {
            gang: GangProgress::default(),
            shape: None,
            id: JobId(1),
            user: UserIx(0),
            class: ClassIx(0),
            kind: JobKind::Job,
            order: Order::new(1).unwrap(),
            submitted: 0,
            threads: 1,
            service: 0,
            nodes: None,
            facts: JobFacts {
                remaining,
                limit: ProcessLimit::Unlimited,
                is_running: true,
                time_per_item: Some(time_per_item),
                is_completing: false,
            },
            behind_since: None,
            is_spent: false,
            shares: (0..held).map(share).collect(),
        }
    }

    #[track_caller]
    fn check(rules: CapRules, job: &Job, nshares: u64, bound: CapBound) {
        assert_eq!(
            demand(&snapshot(rules), job, job.nshares_held(), NShares(0)).cap,
            bounded(NShares(nshares), bound)
        );
    }

    #[test]
    fn work_rounds_up_to_processes() {
        let mut work = job(10, 15, 1);
        work.threads = 4;
        let unpaced = CapRules { expand_by_doubling: false, prediction: false, ..RULES };
        assert_eq!(
            demand(&snapshot(unpaced), &work, NShares(0), NShares(0)).nshares,
            NShares(4),
            "15 items, 4 at a time"
        );
        check(unpaced, &work, 10, CapBound::WorkLeft); // winding down: what is held leaves by itself
    }

    #[test]
    fn growth_doubles() {
        for (held, cap) in [(1, 2), (4, 8), (100, 200)] {
            check(RULES, &job(held, 1_000_000, 3_600_000), cap, CapBound::Doubling);
        }
    }

    #[test]
    fn a_job_pushed_out_entirely_starts_over() {
        check(RULES, &job(0, 1000, 1000), 2, CapBound::Initialization);
        check(RULES, &job(0, 1, 1000), 1, CapBound::WorkLeft);
    }

    /// 60 s to initialize, 10 s to the next publication, 120 s of fudge: 190 s ahead.
    #[test]
    fn prediction_stops_growth_that_would_come_too_late() {
        let unhurried = CapRules { expand_by_doubling: false, ..RULES };
        // 10 processes finish 190 items of 10 s in 190 s; of 200 then 10 are left.
        check(unhurried, &job(10, 200, 10_000), 10, CapBound::Prediction);
        check(unhurried, &job(10, 215, 10_000), 25, CapBound::Prediction);
        // No work would be left: the job keeps what it has.
        check(unhurried, &job(10, 150, 10_000), 10, CapBound::Prediction);
        // Enough work is left that doubling is the tighter rule.
        check(RULES, &job(10, 1000, 10_000), 20, CapBound::Doubling);
    }

    #[test]
    fn until_a_process_has_initialized_the_initialization_cap_holds() {
        let mut waiting = job(0, 1000, 1000);
        waiting.facts.is_running = false;
        check(RULES, &waiting, 2, CapBound::Initialization);
        let mut unknown = job(4, 1000, 0);
        unknown.facts.time_per_item = None;
        check(RULES, &unknown, 2, CapBound::Initialization);
        let unlimited = CapRules { initialization_cap: 0, ..RULES };
        check(unlimited, &waiting, 1000, CapBound::WorkLeft);
    }

    /// A rule that does not lower the cap is not reported as its bound.
    #[test]
    fn a_limit_that_is_not_lower_is_not_the_reason() {
        check(RULES, &job(4, 8, 3_600_000), 8, CapBound::WorkLeft);
        let mut limited = job(4, 8, 3_600_000);
        limited.facts.limit = ProcessLimit::AtMost(8);
        check(RULES, &limited, 8, CapBound::WorkLeft);
    }

    /// Doubling starts from what is held only; but no rule that slows growth lowers what is
    /// promised.
    #[test]
    fn what_is_promised_is_kept() {
        let cap = |rules, job: &Job, held, promised| {
            demand(&snapshot(rules), job, NShares(held), NShares(promised)).cap
        };
        let bounded = |nshares, bound| bounded(NShares(nshares), bound);
        let doubling = job(2, 1_000_000, 3_600_000);
        for (promised, nshares) in [(0, 4), (1, 4), (2, 4), (3, 5)] {
            let expected = bounded(nshares, CapBound::Doubling);
            assert_eq!(cap(RULES, &doubling, 2, promised), expected, "{promised}");
        }
        let predicted = job(10, 200, 10_000);
        assert_eq!(cap(RULES, &predicted, 10, 0), bounded(10, CapBound::Prediction));
        assert_eq!(cap(RULES, &predicted, 10, 3), bounded(13, CapBound::Prediction));
        let mut waiting = job(0, 1000, 1000);
        assert_eq!(cap(RULES, &waiting, 0, 5), bounded(5, CapBound::Initialization));
        waiting.facts.is_running = false;
        assert_eq!(cap(RULES, &waiting, 0, 5), bounded(5, CapBound::Initialization));
        // A declared maximum lowers it, and so does the work left.
        waiting.facts.limit = ProcessLimit::AtMost(3);
        assert_eq!(cap(RULES, &waiting, 0, 5), bounded(3, CapBound::Maximum));
        assert_eq!(cap(RULES, &job(2, 3, 3_600_000), 2, 5), bounded(3, CapBound::WorkLeft));
    }

    #[test]
    fn what_is_ending_is_not_held_to_its_maximum() {
        let mut work = job(4, 1000, 1000);
        assert_eq!(maximum(&work), None);
        work.facts.limit = ProcessLimit::AtMost(2);
        assert_eq!(maximum(&work), Some(NShares(2)));
        work.facts.is_completing = true;
        assert_eq!(maximum(&work), None);
    }

    #[test]
    fn limits_hold_at_any_demand() {
        let mut limited = job(4, 1000, 3_600_000);
        limited.facts.limit = ProcessLimit::AtMost(5);
        check(RULES, &limited, 5, CapBound::Maximum);
        limited.facts.limit = ProcessLimit::Frozen;
        check(RULES, &limited, 4, CapBound::Frozen);
        limited.facts.is_completing = true;
        check(RULES, &limited, 4, CapBound::Completing);
    }

    #[test]
    fn one_process_is_enough_for_other_work_and_it_comes_once() {
        let mut service = job(0, 0, 1);
        service.kind = JobKind::Service;
        check(RULES, &service, 1, CapBound::WorkLeft);
        service.is_spent = true;
        check(RULES, &service, 0, CapBound::Spent);
    }
}
