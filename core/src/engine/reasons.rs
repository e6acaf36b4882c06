//! The report of a finished draft: the reason why each job has less than it wants.
//!
//! Reasons are tested in the order in which they would have to be cured. First the job can never
//! start, no suitable node is up, or the allotment forbids it. Next exits are awaited, or the cap
//! binds. Last the space belongs to other jobs, or the free space is fragmented.
//!
//! Most jobs list no nodes. For them the suitable nodes and the free space depend only on class,
//! kind and order, so each result is computed once.

use std::collections::BTreeMap;

use super::draft::{CountRefusal, Draft, JobDraft};
use super::fairness_tree::Amounts;
use super::gang::qshares_of_gang;
use super::report::{
    Cap, CapBound, ClaimedSpace, Declined, JobAccount, JobReport, Report, UserAccount,
};
use super::sizes::{legal_at_least, sizes_of};
use super::snapshot::Node;
use super::target::orders_that_suit;
use super::wait_reason::WaitReason;
use crate::model::{
    ClassIx, ClassPolicy, IxVec, JobIx, JobKind, NShares, NodeIx, Order, PoolIx, QShares, count,
};

/// The report of a finished cycle.
pub(super) fn report(draft: &Draft<'_>) -> Report {
    let mut classes = IxVec::filled(JobAccount::default(), draft.snapshot.topology.classes.len());
    let mut groups = IxVec::filled(JobAccount::default(), draft.entities.groups().len());
    let promised = promised_amounts(draft);
    for (ix, job) in draft.jobs.with_ix() {
        let (group, class) = (draft.entities.group_of(ix), draft.entities.class_of(ix));
        let cap = job.demand.cap.nshares;
        let demand = match (job.is_gang, job.held) {
            (false, _) => cap.of_order(job.order),
            (true, NShares(0)) => QShares(qshares_of_gang(draft, ix)),
            // On exclusive nodes it holds more than its processes need.
            (true, held) => {
                let more = cap.saturating_sub(held).of_order(job.order);
                more + QShares(draft.held.jobs[ix] - promised.jobs[ix])
            }
        };
        for account in [&mut groups[group], &mut classes[class]] {
            account.demand += demand;
            account.fair_share += job.pure_fair_share;
            account.target += QShares(draft.targets.jobs[ix]);
            account.held += QShares(draft.held.jobs[ix] - promised.jobs[ix]);
        }
    }
    let groups = draft.entities.groups().iter().zip(groups);
    let mut verdicts = Verdicts::default();
    let jobs = draft.jobs.places().map(|job| job_report(draft, &mut verdicts, job));
    Report {
        jobs: jobs.collect(),
        classes,
        users: groups
            .map(|(&(class, user), account)| UserAccount { class, user, account })
            .collect(),
        net_strikes: count(
            draft.jobs.iter().filter(|job| matches!(job.held_back, Some(Declined::Quiet { .. }))),
        ),
        claims: claimed_space(draft),
    }
}

/// Space that waiting gangs claim.
fn claimed_space(draft: &Draft<'_>) -> Vec<ClaimedSpace> {
    let claims = &draft.claims;
    let all = claims.nodes().flat_map(|node| claims.on(node).map(move |claim| (node, claim)));
    let claim = |(node, (gang, amount)): (NodeIx, (JobIx, u64))| ClaimedSpace {
        node,
        job: draft.jobs[gang].id,
        amount: QShares(amount),
    };
    let mut claimed = Vec::with_capacity(claims.count());
    claimed.extend(all.map(claim));
    claimed
}

/// Promised qshares of each entity.
fn promised_amounts(draft: &Draft<'_>) -> Amounts {
    let mut amounts = draft.entities.no_amounts();
    for promise in &draft.promises {
        let job = draft.place_of(promise.job).expect("only work that exists is promised space");
        draft.entities.add(&mut amounts, job, promise.order.qshares().0);
    }
    amounts
}

/// Cached results for all jobs that list no nodes.
#[derive(Default)]
struct Verdicts {
    /// Reason why no node could hold a process, by class, kind and order.
    no_node: BTreeMap<(ClassIx, JobKind, Order), Option<WaitReason>>,
    /// Usable space for jobs of a class: in all, and the most on a single node.
    usable: BTreeMap<ClassIx, (QShares, QShares)>,
}

impl Verdicts {
    fn no_node(&mut self, draft: &Draft<'_>, ix: JobIx) -> Option<WaitReason> {
        let JobDraft { kind, order, is_restricted, .. } = draft.jobs[ix];
        if is_restricted {
            return no_node(draft, ix);
        }
        let alike = (draft.entities.class_of(ix), kind, order);
        *self.no_node.entry(alike).or_insert_with(|| no_node(draft, ix))
    }

    fn usable(&mut self, draft: &Draft<'_>, ix: JobIx) -> (QShares, QShares) {
        if draft.jobs[ix].is_restricted {
            return usable_for(draft, ix);
        }
        *self.usable.entry(draft.entities.class_of(ix)).or_insert_with(|| usable_for(draft, ix))
    }
}

fn job_report(draft: &Draft<'_>, verdicts: &mut Verdicts, ix: JobIx) -> JobReport {
    draft.effort.step();
    let JobDraft { id, demand, target, held, promised, pure_fair_share, .. } = draft.jobs[ix];
    JobReport {
        job: id,
        demand: demand.nshares,
        cap: cap(draft, ix),
        pure_fair_share,
        target,
        held,
        promised,
        held_back: draft.jobs[ix].held_back,
        is_needy: draft.is_needy(ix),
        reason: (held < demand.nshares).then(|| reason(draft, verdicts, ix)),
        start_estimate: draft.start_estimates.get(&ix).copied(),
    }
}

/// The cap of the job at `ix` and its bound. Jobs of which as little is known share the cap of a
/// job that initializes. The bound tells these cases apart.
fn cap(draft: &Draft<'_>, ix: JobIx) -> Cap {
    let Cap { nshares, bound } = draft.jobs[ix].demand.cap;
    let facts = &draft.job(ix).facts;
    let bound = if bound != CapBound::Initialization || !facts.is_running {
        bound
    } else if facts.known_time_per_item().is_none() {
        CapBound::UnknownPace
    } else {
        CapBound::StartsOver
    };
    Cap { nshares, bound }
}

fn reason(draft: &Draft<'_>, verdicts: &mut Verdicts, ix: JobIx) -> WaitReason {
    let JobDraft { order, target, held, promised, pure_fair_share, refusal, .. } = draft.jobs[ix];
    let cap = cap(draft, ix);
    if matches!(cap.bound, CapBound::Spent | CapBound::Completing | CapBound::Overrun) {
        return WaitReason::Capped { bound: cap.bound, cap: cap.nshares };
    }
    if cap.bound == CapBound::Closed {
        return WaitReason::ClassClosed { opens: draft.snapshot.opening(draft.job(ix).class) };
    }
    if let (CapBound::TooEarly, Some(opens)) =
        (cap.bound, draft.snapshot.later_start(draft.job(ix)))
    {
        return WaitReason::TooEarly { opens };
    }
    if NShares(0) < promised
        && let opens @ Some(_) = draft.opening_of(ix)
    {
        return WaitReason::ReservationAhead { opens };
    }
    if draft.jobs[ix].is_gang {
        return gang_reason(draft, ix);
    }
    if let Some(reason) = verdicts.no_node(draft, ix) {
        return reason;
    }
    if NShares(0) < promised {
        return WaitReason::WaitingForExits { promised };
    }
    if draft.jobs[ix].is_adapting {
        return WaitReason::Adapting;
    }
    if let Some(reason) = no_legal_size(draft, ix) {
        return reason;
    }
    if cap.nshares <= held {
        return WaitReason::Capped { bound: cap.bound, cap: cap.nshares };
    }
    match refusal {
        Some(CountRefusal::OverAllotment { allotment, held, asks }) => {
            return WaitReason::OverAllotment { allotment, held, asks };
        }
        Some(CountRefusal::NothingLeft { left }) if target <= held => {
            let nothing_left = WaitReason::NothingLeft { left, asks: order };
            return draft.gang_reasons.get(&ix).copied().unwrap_or(nothing_left);
        }
        Some(CountRefusal::NothingLeft { .. }) | None => {}
    }
    if let Some(held_back) = draft.jobs[ix].held_back {
        return WaitReason::HeldBack(held_back);
    }
    if target <= held {
        let fair_share = pure_fair_share;
        return WaitReason::FairShareUsed { target, cap: cap.nshares, fair_share };
    }
    let (free, largest_hole) = verdicts.usable(draft, ix);
    WaitReason::Fragmented { target, free, largest_hole, asks: order }
}

/// The reason of a job whose target lies between two legal sizes, and that has the smaller size.
fn no_legal_size(draft: &Draft<'_>, ix: JobIx) -> Option<WaitReason> {
    let counted = *draft.illegal_targets.get(&ix)?;
    let next = legal_at_least(sizes_of(draft.job(ix))?, counted)?;
    let JobDraft { target, held, .. } = draft.jobs[ix];
    let given_all = target <= held;
    given_all.then_some(WaitReason::NoLegalSize { target: counted, next })
}

/// The reason why the gang at `ix` has fewer processes than it wants.
fn gang_reason(draft: &Draft<'_>, ix: JobIx) -> WaitReason {
    let JobDraft { demand, promised, refusal, .. } = draft.jobs[ix];
    if NShares(0) < promised {
        return WaitReason::WaitingForExits { promised };
    }
    if let Some(CountRefusal::OverAllotment { allotment, held, asks }) = refusal {
        return WaitReason::OverAllotment { allotment, held, asks };
    }
    let capped = WaitReason::Capped { bound: demand.cap.bound, cap: demand.cap.nshares };
    draft.gang_reasons.get(&ix).copied().unwrap_or(capped)
}

/// Usable space on the nodes that the job at `ix` may use: in all, and the most on a single node.
fn usable_for(draft: &Draft<'_>, ix: JobIx) -> (QShares, QShares) {
    if draft.jobs[ix].is_restricted {
        let spaces = || nodes_for(draft, ix).filter(|(_, space)| space.state.is_schedulable());
        let usable = || spaces().map(|(ix, _)| draft.spaces.usable(ix));
        return (usable().sum(), usable().max().unwrap_or_default());
    }
    let pools = draft.pools_for(ix);
    let usable = || pools.iter().map(|&pool| draft.spaces.usable_in(pool));
    let largest = usable().map(|(_, largest)| largest).max();
    (usable().map(|(all, _)| all).sum(), largest.unwrap_or_default())
}

/// Returns the reason why no node could hold a process of the job at `ix`; `None` if some node
/// could.
fn no_node(draft: &Draft<'_>, ix: JobIx) -> Option<WaitReason> {
    let asks = draft.jobs[ix].order;
    let suits = |node: &Node| match draft.class_of(ix).policy {
        ClassPolicy::FairShare { .. } | ClassPolicy::FixedShare => asks.qshares() <= node.order,
        ClassPolicy::Reserve => orders_that_suit(draft, ix).contains(&node.order.0),
    };
    // The size of a node that has not reported yet is unknown.
    let may_suit = |node: &Node| node.state.is_awaited || suits(node);
    let suitable = || nodes_for(draft, ix).filter(|(_, node)| may_suit(node));
    if suitable().any(|(_, node)| node.state.is_schedulable()) {
        return None;
    }
    match count(suitable()) {
        0 => {
            let largest = nodes_for(draft, ix).map(|(_, node)| node.order).max();
            let largest = largest.unwrap_or_default();
            Some(match draft.class_of(ix).policy {
                ClassPolicy::FairShare { .. } | ClassPolicy::FixedShare => {
                    WaitReason::Impossible { asks, largest }
                }
                ClassPolicy::Reserve => {
                    let most = QShares(*orders_that_suit(draft, ix).end());
                    WaitReason::NoSuchSize { asks, most, largest }
                }
            })
        }
        suitable => Some(WaitReason::NoNodeUp { asks, suitable }),
    }
}

/// The nodes that the job at `ix` may use, up or not, occupied or not.
fn nodes_for<'d>(draft: &'d Draft<'_>, ix: JobIx) -> impl Iterator<Item = (NodeIx, &'d Node)> {
    let class = draft.class_of(ix);
    let may_spill = class.policy.is_preemptable();
    let is_legal = move |pool: PoolIx| {
        if may_spill { draft.pools.is_within(pool, class.pool) } else { pool == class.pool }
    };
    // A list is short, and the nodes are many.
    let list = draft.jobs[ix].is_restricted.then(|| draft.job(ix).listed());
    let all = 0..list.as_ref().map_or(draft.snapshot.nodes.len(), |_| 0);
    let listed = list.into_iter().flatten().copied();
    let nodes = listed.chain(all.map(NodeIx)).map(|ix| (ix, draft.snapshot.node(ix)));
    nodes.filter(move |(_, node)| is_legal(node.pool))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::audit::tests::{ANN, BOB, FAIR, FIXED, Scene};
    use crate::engine::plan;
    use crate::model::Order;

    /// The job wants more than a node of 4 could hold, and other jobs have all of it. The priority
    /// decides its target, and if it may preempt.
    #[test]
    fn fixed_work_that_was_counted_more_than_it_has_is_not_told_that_nothing_is_left() {
        let asks = Order::new(1).unwrap();
        let nothing = QShares(0);
        let cases = [
            (5, WaitReason::WaitingForExits { promised: NShares(4) }),
            // The target of the job is set before the targets of its peers, but the job does not
            // preempt them.
            (
                10,
                WaitReason::Fragmented {
                    target: NShares(4),
                    free: nothing,
                    largest_hole: nothing,
                    asks,
                },
            ),
            (20, WaitReason::NothingLeft { left: nothing, asks }),
        ];
        for (priority, reason) in cases {
            let mut scene = Scene::new(&[4]);
            Arc::make_mut(&mut scene.snapshot.topology).classes[FIXED].priority = priority;
            scene.running((ANN, FAIR), 1, 4, 0);
            scene.job(BOB, FIXED, 1, 6);
            let report = plan(&scene.snapshot).report;
            assert_eq!(report.jobs[JobIx(1)].reason, Some(reason), "priority {priority}");
        }
    }
}
