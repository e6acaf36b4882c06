//! Checks the preemptions: donors, beneficiaries, and the rules between them.
//!
//! Fairness between two jobs is judged at their dividing level: between their classes, else between
//! their users, else between the jobs (D2).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use super::finding::{Finding, Rule};
use super::ledger::Ledger;
use super::lines::{Entity, JobLine, ReceiptedShare};
use super::shapes::{gang_shape, is_evolving, is_legal, sized_shape};
use crate::engine::VictimRule;
use crate::model::{JobId, JobIx, NodeIx, Precedence, ProcessLimit, ceil_div, count};

/// The shares preempted on a node for a beneficiary.
pub(super) type PreemptionPlans<'v, 'a> = BTreeMap<(NodeIx, JobIx), Vec<&'v ReceiptedShare<'a>>>;

/// Amount that an entity lost to another entity.
#[derive(Default)]
struct LossSum {
    /// Size of the largest share.
    largest: u64,
    /// Amount on each node, for each beneficiary.
    taken: BTreeMap<(NodeIx, JobIx), u64>,
}

/// A share is preempted once, and only if it was not terminating already (I04).
pub(super) fn check_victims(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for receipt in &ledger.void {
        let (share, job) = (receipt.share, receipt.job);
        let detail = format!("share {share} of job {job} was leaving already, or is named twice");
        findings.push(Rule::VictimNotHeld.finding(detail));
    }
}

/// A receipt states the node of the share and the loss. It names a beneficiary exactly if the rule
/// is about the need of another job.
pub(super) fn check_receipts(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for ReceiptedShare { share, receipt, .. } in &ledger.victims {
        let loss = share.facts.investment.saturating_add(share.facts.initialization);
        // Nodes go into maintenance for no job, and a reservation is for some.
        let agrees = receipt.rule == VictimRule::Window
            || is_without_beneficiary(receipt.rule) == receipt.beneficiary.is_none();
        let lies = [
            (receipt.node != share.node, "the node is another"),
            (receipt.loss != loss, "the loss is another"),
            (!agrees, "rule and beneficiary do not agree"),
        ];
        for (_, lie) in lies.into_iter().filter(|(holds, _)| *holds) {
            let detail = format!("share {} of job {}: {lie}", share.id, receipt.job);
            findings.push(Rule::FalseReceipt.finding(detail));
        }
    }
}

/// True if shares go under this rule for no other job.
fn is_without_beneficiary(rule: VictimRule) -> bool {
    matches!(rule, VictimRule::NoLongerAllowed | VictimRule::ClassClosed | VictimRule::Overrun)
}

/// Only fair-share work is preempted (I05). The owner of an evolving gang may ask for fewer
/// processes under any policy. Work that overran is checked by [`check_overruns`].
///
/// [`check_overruns`]: super::gang::calendar::check_overruns
pub(super) fn check_policies(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for victim in &ledger.victims {
        let line = &ledger.jobs[victim.donor];
        let is_shrinking = victim.receipt.rule == VictimRule::NoLongerAllowed
            && gang_shape(line.job).is_some_and(is_evolving);
        let is_overrun = victim.receipt.rule == VictimRule::Overrun;
        if !line.is_fair_share() && !is_shrinking && !is_overrun {
            let (share, id, class) = (victim.share.id, line.job.id, &line.class.name);
            let detail = format!("share {share} of job {id} in class {class}");
            findings.push(Rule::NotPreemptable.finding(detail));
        }
    }
}

/// Shares are evicted without a beneficiary in two cases only (D2). Their job may not use the node
/// at all, or the job's other shares are above its maximum. Only evolving gangs have a maximum.
pub(super) fn check_limits(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let mut tolls: BTreeMap<JobIx, (u64, u64)> = BTreeMap::new();
    for victim in &ledger.victims {
        if victim.receipt.rule == VictimRule::NoLongerAllowed {
            let (line, ix) = (&ledger.jobs[victim.donor], victim.share.node);
            let (misplaced, others) = tolls.entry(victim.donor).or_default();
            let may_be = ledger.is_in_pool(line, ix) && line.job.may_use(ix);
            *(if may_be { others } else { misplaced }) += 1;
        }
    }
    for (donor, (misplaced, others)) in tolls {
        let line = &ledger.jobs[donor];
        let surplus = match line.job.facts.limit {
            _ if sized_shape(line.job).is_some() => beyond_legal(ledger, donor, misplaced, others),
            ProcessLimit::AtMost(most) if gang_shape(line.job).is_none_or(is_evolving) => {
                (line.held - misplaced).saturating_sub(most)
            }
            ProcessLimit::AtMost(_) | ProcessLimit::Unlimited | ProcessLimit::Frozen => 0,
        };
        if others > surplus {
            let detail = format!("job {} lost {others}, {surplus} were too many", line.job.id);
            findings.push(Rule::StillAllowed.finding(detail));
        }
    }
}

/// Shares of an elastic job beyond its next legal size, once its other losses are counted. It may
/// have lost them before or after it began others.
fn beyond_legal(ledger: &Ledger<'_>, donor: JobIx, misplaced: u64, others: u64) -> u64 {
    let line = &ledger.jobs[donor];
    let left = line.held - (line.lost - others) - misplaced;
    beyond_legal_of(line, left).max(beyond_legal_of(line, left + line.expanded))
}

/// The part of `left` shares beyond the next legal size.
fn beyond_legal_of(line: &JobLine<'_>, left: u64) -> u64 {
    let most = match line.job.facts.limit {
        ProcessLimit::AtMost(most) => left.min(most),
        ProcessLimit::Unlimited | ProcessLimit::Frozen => left,
    };
    let Some(shape) = sized_shape(line.job) else { return 0 };
    let legal = (1..=most).rev().find(|size| is_legal(shape, *size));
    left - legal.unwrap_or(0)
}

/// The rule `Priority` is for beneficiaries of strictly higher priority, the fairness rules are for
/// beneficiaries of equal priority. Lower priorities never preempt higher priorities (I14).
pub(super) fn check_priorities(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for victim in &ledger.victims {
        let Some(beneficiary) = victim.beneficiary else { continue };
        let (donor, beneficiary) = (&ledger.jobs[victim.donor], &ledger.jobs[beneficiary]);
        let (theirs, ours) = (donor.priority, beneficiary.priority);
        let fits = match victim.receipt.rule {
            VictimRule::NoLongerAllowed | VictimRule::ClassClosed | VictimRule::Overrun => true,
            VictimRule::Window => ours == Precedence::Reserved && donor.is_fair_share(),
            VictimRule::Urgent => beneficiary.class.is_urgent && ours <= theirs,
            VictimRule::Priority => ours < theirs,
            VictimRule::Turn
            | VictimRule::FairShare
            | VictimRule::Defragmentation
            | VictimRule::FirstShare
            | VictimRule::Envy
            | VictimRule::Relocation => ours == theirs,
        };
        if !fits {
            let rule = victim.receipt.rule;
            let (taker, loser) = (beneficiary.job.id, donor.job.id);
            let detail =
                format!("job {taker} of {ours:?} took from job {loser} of {theirs:?} as {rule:?}");
            findings.push(Rule::WrongPriority.finding(detail));
        }
    }
}

/// A beneficiary has a promise or a new share on the very node of its victims (D2). Otherwise a job
/// that is moved for it has. Another rule covers gangs that are not whole. A gang that is taken
/// whole may have shares elsewhere, too.
pub(super) fn check_payment(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let plans = plans(ledger);
    // Donors of a share on a node where its beneficiary is paid.
    let mut donors: BTreeSet<(JobIx, JobIx)> = BTreeSet::new();
    for ((ix, beneficiary), victims) in &plans {
        if is_paid(ledger, *beneficiary, *ix) {
            donors.extend(victims.iter().map(|victim| (victim.donor, *beneficiary)));
        }
    }
    for ((ix, beneficiary), victims) in plans {
        let is_exempt = ledger
            .gang(beneficiary)
            .is_some_and(|gang| !gang.is_whole(ledger.jobs[beneficiary].job));
        let goes_along = |victim: &&ReceiptedShare<'_>| {
            ledger.jobs[victim.donor].is_gang() && donors.contains(&(victim.donor, beneficiary))
        };
        if !is_exempt && !is_paid(ledger, beneficiary, ix) && !victims.iter().all(goes_along) {
            let id = ledger.jobs[beneficiary].job.id;
            let detail = format!("shares were taken on {} for job {id} in vain", ledger.name(ix));
            findings.push(Rule::Unpaid.finding(detail));
        }
    }
}

/// No victim is superfluous: without any of them the beneficiary would not fit (I18).
///
/// Judged by the space that is left over on the node in the end, less what plans for other jobs, and
/// promises that a higher priority took, may have added later. A beneficiary with several promises
/// on the node may have been served in several plans. Then only the last plan is sure to have been
/// tight, and it contains no share larger than the largest. A gang is served in a single plan.
/// Gangs go whole, so no share of a gang could have stayed.
pub(super) fn check_superfluous(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let plans = plans(ledger);
    let paid = plans.iter().filter(|((ix, beneficiary), _)| is_paid(ledger, *beneficiary, *ix));
    for (&(ix, beneficiary), victims) in paid {
        let others = plans.iter().filter(|((node, other), _)| *node == ix && *other != beneficiary);
        let added: u64 =
            others.map(|((_, other), theirs)| overshoot(ledger, *other, ix, theirs)).sum();
        let added = added + beyond_steps(ledger, ix) + withdrawn(ledger, ix);
        let left_over = ledger.nodes[ix].slack() - i128::from(added);
        let single = victims.iter().filter(|victim| !ledger.jobs[victim.donor].is_gang());
        let orders = single.map(|victim| victim.share.order);
        let may_be_many =
            1 < promises_of(ledger, beneficiary, ix) && !ledger.jobs[beneficiary].is_gang();
        let spare = if may_be_many { orders.max() } else { orders.min() };
        if let Some(spare) = spare.filter(|spare| left_over >= i128::from(spare.get())) {
            let (name, id) = (ledger.name(ix), ledger.jobs[beneficiary].job.id);
            let detail = format!(
                "on {name}, {left_over} qshares are left over of what was taken for job {id}; a \
                 victim of {spare} could have stayed"
            );
            findings.push(Rule::SuperfluousVictim.finding(detail));
        }
    }
}

/// Space on a node that elastic jobs gave up to come to a legal size, promised space included, and
/// that gangs gave up as a whole. Either may come after other victims on the node.
fn beyond_steps(ledger: &Ledger<'_>, ix: NodeIx) -> u64 {
    let gone = ledger.victims.iter().filter(|victim| {
        let donor = &ledger.jobs[victim.donor];
        let is_step = victim.beneficiary.is_none() && sized_shape(donor.job).is_some();
        victim.share.node == ix && (is_step || donor.is_gang())
    });
    let promises = ledger.snapshot.promises.iter().filter(|promise| promise.node == ix);
    let of_steps = promises.filter(|promise| {
        ledger.place(promise.job).is_some_and(|place| sized_shape(ledger.jobs[place].job).is_some())
    });
    let gone: u64 = gone.map(|victim| victim.share.order.qshares().0).sum();
    gone + of_steps.map(|promise| promise.order.qshares().0).sum::<u64>()
}

/// Space on a node that was promised to fair-share jobs and is not any more, if a job of higher
/// priority was promised space there.
fn withdrawn(ledger: &Ledger<'_>, ix: NodeIx) -> u64 {
    let priority_of = |job: JobId| {
        let line = ledger.place(job).map(|place| &ledger.jobs[place])?;
        line.is_fair_share().then_some(line.priority)
    };
    let promised = ledger.schedule.promises.iter().filter(|promise| promise.node == ix);
    let Some(highest) = promised.map(|promise| priority_of(promise.job)).min() else { return 0 };
    let mut left: BTreeMap<JobId, (u64, u64)> = BTreeMap::new();
    let before = ledger.snapshot.promises.iter().filter(|promise| promise.node == ix);
    for promise in before.filter(|promise| highest < priority_of(promise.job)) {
        let (promises, order) = left.entry(promise.job).or_default();
        *promises += 1;
        *order = promise.order.qshares().0;
    }
    let has_now = |job: JobId| {
        let kept = ledger.schedule.promises.iter().map(|new| (new.job, new.node));
        let begun = ledger.schedule.expansions.iter().map(|new| (new.job, new.node));
        count(kept.chain(begun).filter(|new| *new == (job, ix)))
    };
    let gone = left.into_iter().map(|(job, (promises, order))| {
        promises.saturating_sub(has_now(job)).saturating_mul(order)
    });
    gone.sum()
}

/// Between fair-share jobs of equal priority, a preempted side stays strictly better off, by
/// weight, than the beneficiary's side was before (D2). The whole plan on a node is charged once.
/// The first process of a job that had nothing is exempt. So are shares above the target of a side
/// that was better off.
///
/// The donor's side is credited with all its gains in this cycle and all its losses to other sides.
/// The beneficiary's side is credited only with its holdings before, less all losses. Added are the
/// nshares it must have been promised before the last plan that took from this donor.
pub(super) fn check_pairs(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for ((donor, taker), mut toll) in tolls(ledger, findings) {
        toll.forget_firsts(ledger);
        let (donors, takers) = (ledger.standing(donor), ledger.standing(taker));
        let after = donors.ceiling.saturating_sub(toll.taken.values().sum());
        let before = takers.floor + gained_before_last(ledger, &toll);
        let is_taken = !toll.taken.is_empty();
        let is_behind = ledger.by_weight((donor, after), (taker, before)).is_le();
        let is_surplus = donors.target <= after
            && ledger.by_weight((donor, donors.ceiling), (taker, before)).is_gt();
        if is_taken && is_behind && !is_surplus {
            let detail = format!(
                "{} was left with {after} qshares for the sake of {}, which had {before}",
                ledger.describe(donor),
                ledger.describe(taker),
            );
            findings.push(Rule::UnfairPreemption.finding(detail));
        }
    }
}

impl LossSum {
    /// Leaves out shares that may have been preempted for first processes. For each job that had
    /// nothing, this is at most a single plan on a single node. Space made elsewhere for jobs in
    /// its way is left out, too.
    ///
    /// An amount that may be more than a single plan stays in: then the first of the plans came
    /// before the rest.
    fn forget_firsts(&mut self, ledger: &Ledger<'_>) {
        let mut may_be_first: BTreeMap<JobIx, bool> = BTreeMap::new();
        for (&(ix, taker), &taken) in &self.taken {
            let line = &ledger.jobs[taker];
            let most = line.order() + self.largest - 1 + excess_over_target(ledger, ix);
            let promises = promises_of(ledger, taker, ix);
            let is_one_plan = promises <= 1 || taken <= most;
            let known = may_be_first.insert(taker, line.floor() == 0 && is_one_plan);
            // A second node is a second plan, except a node on which the job gets nothing itself.
            if known.is_some_and(|known| !known || 0 < promises) {
                may_be_first.insert(taker, false);
            }
        }
        self.taken.retain(|(_, taker), _| !may_be_first[taker]);
    }
}

/// Amount that the beneficiaries of `toll` must have been promised before its last plan was made.
///
/// A plan makes space for an nshare. As no victim is superfluous, it takes less than that nshare
/// plus the smallest of its victims. So the amount taken on a node gives a lower bound of the
/// number of plans. Each plan but the last was paid before the last began. If the node had shrunk
/// below its use, the first plan had to make up for that, too.
fn gained_before_last(ledger: &Ledger<'_>, toll: &LossSum) -> u64 {
    let (mut gained, mut last) = (0, 0);
    // On a node where jobs were moved for it, the beneficiary was promised nothing itself.
    let own = toll.taken.iter().filter(|((ix, place), _)| is_placed(ledger, *place, *ix));
    for (&(ix, beneficiary), &taken) in own {
        let order = ledger.jobs[beneficiary].job.order.qshares().0;
        let most_of_one = NonZeroU64::new(order + toll.largest - 1).unwrap_or(NonZeroU64::MIN);
        let for_space = taken.saturating_sub(excess_over_target(ledger, ix));
        let nshares = ceil_div(for_space, most_of_one).min(promises_of(ledger, beneficiary, ix));
        gained += nshares.max(1) * order;
        last = order.max(last);
    }
    gained - last
}

/// Amount by which node `ix` was smaller, before shares were preempted, than the shares that stayed
/// on it.
pub(super) fn excess_over_target(ledger: &Ledger<'_>, ix: NodeIx) -> u64 {
    let node = &ledger.nodes[ix];
    let lost = ledger.victims.iter().filter(|victim| victim.share.node == ix);
    let lost: u64 = lost.map(|victim| victim.share.order.qshares().0).sum();
    (node.staying - node.expanded + lost).saturating_sub(node.order)
}

/// Amounts that entities lost to other entities of the same priority. A job that takes from itself
/// is reported at once.
fn tolls(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) -> BTreeMap<(Entity, Entity), LossSum> {
    let mut tolls: BTreeMap<(Entity, Entity), LossSum> = BTreeMap::new();
    for (victim, beneficiary) in takings(ledger) {
        let line = &ledger.jobs[beneficiary];
        let Some(pair) = ledger.dividing(victim.donor, beneficiary) else {
            let detail = format!("job {} takes from itself", line.job.id);
            findings.push(Rule::UnfairPreemption.finding(detail));
            continue;
        };
        let is_equal = ledger.jobs[victim.donor].priority == line.priority;
        // A turn has a rule of its own.
        if line.is_fair_share() && is_equal && victim.receipt.rule != VictimRule::Turn {
            let order = victim.share.order.qshares().0;
            let toll = tolls.entry(pair).or_default();
            toll.largest = toll.largest.max(order);
            *toll.taken.entry((victim.share.node, beneficiary)).or_default() += order;
        }
    }
    tolls
}

/// No donor becomes needy by giving to a needy job (I19, D5).
///
/// Gangs are not needy. Three kinds of donors are exempt: donors that gain as well in this cycle,
/// donors that lost to a job that held nothing, and donors whose side held more than its target.
pub(super) fn check_donors(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let threshold = ledger.snapshot.topology.settings.fragmentation_threshold;
    let mut gifts: BTreeMap<JobIx, Vec<JobIx>> = BTreeMap::new();
    for (victim, beneficiary) in takings(ledger) {
        if victim.receipt.rule == VictimRule::Defragmentation {
            gifts.entry(victim.donor).or_default().push(beneficiary);
        }
    }
    for (donor, takers) in gifts {
        let line = &ledger.jobs[donor];
        let is_exempt = line.is_gang()
            || line.ceiling() > line.held + line.kept
            || takers.iter().any(|&taker| ledger.jobs[taker].floor() == 0)
            || takers.iter().filter_map(|&taker| ledger.dividing(donor, taker)).any(|(side, _)| {
                let standing = ledger.standing(side);
                standing.ceiling > standing.target
            });
        let given_away: u64 = takers.iter().map(|_| 1).sum();
        let before = line.held + line.kept;
        let after = before.saturating_sub(given_away);
        let is_needy = |held| line.is_poor_with(held, threshold) && line.report.target.0 > held;
        if !is_exempt && is_needy(after) && !is_needy(before) {
            let detail = format!("job {} gave and has {after} left", line.job.id);
            findings.push(Rule::NeedyDonor.finding(detail));
        }
    }
}

/// Victims that were taken for another job, and not moved, with that job.
pub(super) fn takings<'l, 'a>(
    ledger: &'l Ledger<'a>,
) -> impl Iterator<Item = (&'l ReceiptedShare<'a>, JobIx)> + use<'l, 'a> {
    let taken = ledger.victims.iter().filter(|victim| {
        !is_without_beneficiary(victim.receipt.rule)
            && victim.receipt.rule != VictimRule::Relocation
    });
    taken.filter_map(|victim| victim.beneficiary.map(|beneficiary| (victim, beneficiary)))
}

/// The shares preempted on each node for each job, including shares moved for it.
pub(super) fn plans<'l, 'a>(ledger: &'l Ledger<'a>) -> PreemptionPlans<'l, 'a> {
    let mut plans = PreemptionPlans::new();
    for victim in &ledger.victims {
        if let Some(beneficiary) = victim.beneficiary {
            plans.entry((victim.share.node, beneficiary)).or_default().push(victim);
        }
    }
    plans
}

/// True if the job at `place`, or a job that is moved for it, has a promise or a new share on node
/// `ix`.
fn is_paid(ledger: &Ledger<'_>, place: JobIx, ix: NodeIx) -> bool {
    let mut moved = ledger.victims.iter().filter(|victim| {
        victim.receipt.rule == VictimRule::Relocation
            && victim.beneficiary == Some(place)
            && victim.share.node != ix
    });
    is_placed(ledger, place, ix) || moved.any(|victim| is_placed(ledger, victim.donor, ix))
}

/// True if the job at `place` has a promise or a new share on node `ix`.
fn is_placed(ledger: &Ledger<'_>, place: JobIx, ix: NodeIx) -> bool {
    let id = ledger.jobs[place].job.id;
    let mut new = ledger.schedule.expansions.iter();
    promises_of(ledger, place, ix) > 0 || new.any(|new| new.job == id && new.node == ix)
}

/// Number of nshares promised to the job at `place` on node `ix`.
pub(super) fn promises_of(ledger: &Ledger<'_>, place: JobIx, ix: NodeIx) -> u64 {
    let id = ledger.jobs[place].job.id;
    let promises = ledger.schedule.promises.iter();
    promises.filter(|promise| promise.job == id && promise.node == ix).map(|_| 1).sum()
}

/// Most that the plans for the job at `place` on node `ix` can have left over together. A plan
/// leaves less than the smallest of its victims. There were no more plans than promises; some plans
/// may have needed no victim.
fn overshoot(
    ledger: &Ledger<'_>,
    place: JobIx,
    ix: NodeIx,
    victims: &[&ReceiptedShare<'_>],
) -> u64 {
    let plans = usize::try_from(promises_of(ledger, place, ix).max(1)).unwrap_or(usize::MAX);
    let mut orders: Vec<u64> =
        victims.iter().map(|victim| victim.share.order.qshares().0).collect();
    orders.sort_unstable_by_key(|order| Reverse(*order));
    orders.into_iter().take(plans).map(|order| order - 1).sum()
}
