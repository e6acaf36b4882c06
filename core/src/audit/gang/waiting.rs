//! Checks gangs that wait: none of them fits into free space, and their reasons are true.

use std::collections::BTreeMap;

use super::calendar::is_waiting_single;
use super::claims::{may_claim, may_pause, precedes};
use super::crew::GangLine;
use super::fit::{Fit, GangParts};
use super::sets::{fit_in_one, fit_in_sets, keys, may_span};
use super::spaces::{FreeNode, configured, up, without};
use crate::audit::finding::{Finding, Rule};
use crate::audit::ledger::Ledger;
use crate::audit::shapes::wish;
use crate::engine::{GangNodes, WaitReason};
use crate::model::{ClassIx, JobIx, NodeIx, PoolIx, QShares, Shape};

/// Most steps of each check. Beyond that a check stops without findings.
const STEPS: u64 = 6_000_000;

/// Answers for gangs that ask the same question.
type FitAnswers<'g> = BTreeMap<(&'g Shape, ClassIx, &'g [NodeIx], u64), Fit>;

impl Ledger<'_> {
    /// True if the user of `gang` may not be allowed all of it. The nodes of an exclusive gang
    /// count as large as the largest.
    pub(super) fn may_exceed_allotment(&self, gang: &GangLine) -> bool {
        let line = &self.jobs[gang.place];
        let topology = &self.snapshot.topology;
        let Some(allotment) = self.allotment_for(line) else { return false };
        if line.is_fair_share() {
            return false;
        }
        let memory =
            |pool: PoolIx, amount: u64| topology.pools[pool].quantum.memory_of(QShares(amount)).0;
        let lines = self
            .jobs
            .iter()
            .filter(|other| !other.is_fair_share() && other.job.user == line.job.user)
            .filter(|other| other.class.is_urgent == line.class.is_urgent);
        let amounts = lines.map(|other| {
            // Processes that have yet to exit count.
            let held: u64 = other.job.shares.iter().map(|share| share.order.qshares().0).sum();
            memory(other.class.pool, held.max(other.standing.held) + other.standing.promised)
        });
        let held = amounts.fold(0, u64::saturating_add);
        let size = wish(line.job, &gang.shape);
        let largest = gang.orders.iter().flatten().max().copied().unwrap_or(u64::MAX);
        let nodes = self.nodes_with_ix().filter(|(ix, _)| self.is_in_pool(line, *ix));
        let node = nodes.map(|(_, node)| node.order).max().unwrap_or(0);
        let each = if gang.shape.is_exclusive { node.max(largest) } else { largest };
        allotment.0 < held.saturating_add(memory(line.class.pool, each.saturating_mul(size)))
    }
}

/// No gang waits that fits into free space.
///
/// Free is what is neither in use nor promised, nor was promised when the cycle began. A gang may
/// wait for an older gang that claims nodes of its pool, for work that is served before it and has
/// less than it could use, and for its user's allotment. A fair-share gang may wait for any other
/// gang.
pub(in crate::audit) fn check_idle(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let mut waiting = ledger.gangs.iter().filter(|gang| {
        let line = &ledger.jobs[gang.place];
        gang.is_waiting(line) && line.job.gang.size.is_none() && line.class.gangs.are_allowed
    });
    let Some(first) = waiting.next() else { return };
    let mut promised = vec![0_u64; ledger.nodes.len()];
    for promise in &ledger.snapshot.promises {
        promised[promise.node.0] += promise.order.qshares().0;
    }
    let taken = |ix: NodeIx| {
        let node = &ledger.nodes[ix];
        let awaited = node.leaving.max(node.promised).max(promised[ix.0]);
        node.staying - ledger.snapshot.node(ix).limbo.0 + awaited
    };
    let (mut answers, mut steps) = (FitAnswers::new(), STEPS);
    for gang in std::iter::once(first).chain(waiting) {
        if ledger.is_untimely(gang.place) {
            continue;
        }
        let kept = ledger.nodes_kept_from(gang.place);
        let spaces = |gang: &GangLine| {
            without(ledger, gang, |ix| if kept.contains(&ix) { u64::MAX } else { taken(ix) })
        };
        let fit = answer(ledger, gang, &mut answers, spaces, &mut steps);
        if fit == Fit::Yes && !may_wait(ledger, gang) {
            let id = ledger.jobs[gang.place].job.id;
            findings.push(Rule::IdleGang.finding(format!("gang {id} would fit into free space")));
        }
    }
}

/// The answer for `gang` and the `spaces` of the question, computed once for equal gangs.
fn answer<'g>(
    ledger: &'g Ledger<'_>,
    gang: &'g GangLine,
    answers: &mut FitAnswers<'g>,
    spaces: impl Fn(&GangLine) -> Vec<FreeNode>,
    steps: &mut u64,
) -> Fit {
    let job = ledger.jobs[gang.place].job;
    let size = wish(job, &gang.shape);
    let Some(request) = GangParts::of(gang, size) else { return Fit::Unknown };
    let key = (&*gang.shape, job.class, job.listed(), size);
    // An empty list of nodes means any, and a list that allows none is as good as never.
    if job.nodes.as_ref().is_some_and(|list| list.is_empty()) {
        return Fit::No;
    }
    *answers.entry(key).or_insert_with(|| fit_in_sets(ledger, gang, &request, &spaces(gang), steps))
}

/// True if there may be a reason for `gang` to wait beside free space.
fn may_wait(ledger: &Ledger<'_>, gang: &GangLine) -> bool {
    let line = &ledger.jobs[gang.place];
    let tree = |place: JobIx| ledger.snapshot.topology.top_of(ledger.jobs[place].class.pool);
    let is_behind_gang = ledger.gangs.iter().any(|other| {
        let is_older = line.is_fair_share()
            || precedes(ledger, other.place, gang.place)
            || may_pause(ledger, gang);
        other.place != gang.place
            && is_older
            && tree(other.place) == tree(gang.place)
            && may_claim(ledger, other)
            && may_share(ledger, other, gang)
    });
    let mut others = ledger.jobs.with_ix();
    let is_behind_work = others.any(|(place, other)| {
        let is_counted = other.is_fair_share() && other.priority < line.priority;
        let most = if is_counted { other.cap } else { other.report.target.0 };
        precedes(ledger, place, gang.place)
            && tree(place) == tree(gang.place)
            && (is_counted || !other.is_fair_share())
            && !other.has_ended()
            && other.has() < most
    });
    is_behind_gang || is_behind_work || ledger.may_exceed_allotment(gang)
}

/// True if a node that is up suits processes of both gangs.
fn may_share(ledger: &Ledger<'_>, one: &GangLine, other: &GangLine) -> bool {
    let suits = |gang: &GangLine, ix: NodeIx| {
        let line = &ledger.jobs[gang.place];
        let node = ledger.snapshot.node(ix);
        let mut chunks = gang.shape.chunks.iter().zip(gang.orders.iter().flatten());
        ledger.is_in_pool(line, ix)
            && line.job.may_use(ix)
            && chunks.any(|(chunk, order)| *order <= node.order.0 && node.tags.satisfy(&chunk.tags))
    };
    ledger.nodes_with_ix().any(|(ix, _)| suits(one, ix) && suits(other, ix))
}

/// A gang lacks nodes as its reason says: nodes that are configured, in a single set, or up.
pub(in crate::audit) fn check_never(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let mut steps = STEPS;
    let [mut all, mut single, mut open] = [FitAnswers::new(), FitAnswers::new(), FitAnswers::new()];
    for gang in &ledger.gangs {
        let line = &ledger.jobs[gang.place];
        let Some(WaitReason::GangLacks(lack)) = line.report.reason else { continue };
        if line.job.nodes.as_ref().is_some_and(|list| list.is_empty()) {
            continue;
        }
        let size = wish(line.job, &gang.shape);
        let Some(request) = GangParts::of(gang, size) else { continue };
        let key = (&*gang.shape, line.job.class, line.job.listed(), size);
        let keys = keys(ledger, &gang.shape);
        // A gang that grows stays in its sets.
        if 0 < line.held {
            continue;
        }
        let is_false = match lack.of {
            GangNodes::Configured => {
                let fit = || request.fit(&configured(ledger, gang), &mut steps);
                Fit::Unknown < *all.entry(key).or_insert_with(fit)
            }
            GangNodes::OfOneSet => {
                let spaces = || configured(ledger, gang);
                let fit = || fit_in_one(&request, &keys, &spaces(), &mut steps);
                keys.is_empty()
                    || may_span(ledger, &gang.shape)
                    || Fit::Unknown < *single.entry(key).or_insert_with(fit)
            }
            GangNodes::Up => {
                let spaces = |gang: &GangLine| up(ledger, gang);
                Fit::Unknown < answer(ledger, gang, &mut open, spaces, &mut steps)
            }
            GangNodes::Available => false,
        };
        if is_false {
            let detail = format!("gang {} says: {lack}", line.job.id);
            findings.push(Rule::FalseNever.finding(detail));
        }
    }
}

/// A job that is said to wait behind older work names a gang that is served before it and may claim
/// nodes, or a single request that is served before it and waits as well.
pub(in crate::audit) fn check_reasons(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for (place, line) in ledger.jobs.with_ix() {
        let Some(WaitReason::BehindOlderGang { job }) = line.report.reason else { continue };
        let is_paused = ledger.gang(place).is_some_and(|own| may_pause(ledger, own));
        let is_true = ledger.gangs.iter().any(|gang| {
            ledger.jobs[gang.place].job.id == job
                && may_claim(ledger, gang)
                && gang.place != place
                && (is_paused || precedes(ledger, gang.place, place))
        });
        let is_single = || {
            ledger.snapshot.now.is_some()
                && ledger.place(job).is_some_and(|older| {
                    is_waiting_single(ledger, older) && precedes(ledger, older, place)
                })
        };
        if !is_true && !is_single() {
            let detail = format!("job {} waits for job {job}, which keeps nothing", line.job.id);
            findings.push(Rule::FalseHold.finding(detail));
        }
    }
}
