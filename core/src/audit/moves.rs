//! Checks moves, passed-on space and kept promises: no process is restarted for nothing (I11, I18).

use std::collections::{BTreeMap, BTreeSet};

use super::cap::{closed_classes, useful};
use super::finding::{Finding, Rule};
use super::first::is_taken_by_peer;
use super::ledger::Ledger;
use super::preemption::takings;
use super::shapes::{is_legal, sized_shape};
use crate::engine::{Promise, VictimRule};
use crate::model::{JobId, JobIx, NodeIx, Precedence, Shape, SharePhase, count};

/// A job that loses a process to a peer is not promised space that was taken from a third job.
pub(super) fn check_passes(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let robbed = ledger.victims.iter().filter(|victim| is_taken_by_peer(ledger, victim));
    let robbed: BTreeSet<JobIx> = robbed.map(|victim| victim.donor).collect();
    let takers: BTreeSet<JobIx> = takings(ledger)
        .filter(|(victim, _)| {
            !matches!(victim.receipt.rule, VictimRule::Priority | VictimRule::Turn)
        })
        .map(|(_, taker)| taker)
        .collect();
    for &place in robbed.intersection(&takers) {
        let line = &ledger.jobs[place];
        let detail = format!("job {} lost {} processes and took others", line.job.id, line.lost);
        findings.push(Rule::PassedThrough.finding(detail));
    }
}

/// A moved job has as many processes and promises as before, except shares taken from it. It has as
/// many new shares on other nodes as were moved. Gangs are not moved.
pub(super) fn check_moves(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let mut moves: BTreeMap<JobIx, BTreeMap<NodeIx, u64>> = BTreeMap::new();
    for victim in &ledger.victims {
        if victim.receipt.rule == VictimRule::Relocation {
            *moves.entry(victim.donor).or_default().entry(victim.share.node).or_default() += 1;
        }
    }
    for (donor, from) in moves {
        let line = &ledger.jobs[donor];
        let moved: u64 = from.values().sum();
        let promised =
            ledger.snapshot.promises.iter().filter(|old| {
                old.job == line.job.id && ledger.would_take(line, old.node).is_some()
            });
        let before = line.held + count(promised);
        let due = (before + moved).saturating_sub(line.lost).min(useful(line.job));
        // If a job left several nodes, a new share on any of them is elsewhere for the rest.
        let elsewhere = |ix| gains_elsewhere(ledger, line.job.id, ix);
        let is_made_good = from.iter().all(|(&ix, &moved)| moved <= elsewhere(ix));
        if line.has() < due || !is_made_good || line.is_gang() {
            let (id, has) = (line.job.id, line.has());
            let detail = format!("job {id} had {before}, was moved {moved} times, and has {has}");
            findings.push(Rule::FalseMove.finding(detail));
        }
    }
}

/// Number of processes that the job called `id` begins, or is promised, on nodes other than `ix`.
fn gains_elsewhere(ledger: &Ledger<'_>, id: JobId, ix: NodeIx) -> u64 {
    let shares = ledger.schedule.expansions.iter().map(|new| (new.job, new.node));
    let promises = ledger.schedule.promises.iter().map(|new| (new.job, new.node));
    let is_gain = |&(job, node): &(JobId, NodeIx)| job == id && node != ix;
    shares.chain(promises).filter(is_gain).map(|_| 1).sum()
}

/// Highest priority of the gangs that got something on each node.
fn gangs_by_node(ledger: &Ledger<'_>) -> BTreeMap<NodeIx, Precedence> {
    let shares = ledger.schedule.expansions.iter().map(|new| (new.job, new.node, new.rank));
    let promises = ledger.schedule.promises.iter().map(|new| (new.job, new.node, new.rank));
    let mut gangs: BTreeMap<NodeIx, Precedence> = BTreeMap::new();
    for (job, node, _) in shares.chain(promises).filter(|(.., rank)| rank.is_some()) {
        let priority = ledger.line(job).priority;
        let highest = gangs.entry(node).or_insert(priority);
        *highest = priority.min(*highest);
    }
    gangs
}

/// A promise is kept until the process begins. It ends only with the job's work, with its maximum,
/// with the node, or with the space there. Slower growth is no reason: the space was made already.
///
/// A promise may end on a node where a job of higher priority, a job that cannot be preempted, or a
/// gang in its turn, got something. Another check covers gangs.
pub(super) fn check_promises(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    if ledger.snapshot.promises.is_empty() {
        return;
    }
    let (used, winners) = (used_before(ledger), winners(ledger));
    let gangs = gangs_by_node(ledger);
    let closed = closed_classes(ledger);
    // Promises that are sure, and promises that may have ended.
    let mut before: BTreeMap<JobIx, (u64, u64)> = BTreeMap::new();
    for promise in &ledger.snapshot.promises {
        let Some(place) = ledger.place(promise.job) else { continue };
        let (line, ix) = (&ledger.jobs[place], promise.node);
        let is_legal = line.is_fair_share()
            && !line.is_gang()
            && !closed.contains(&line.job.class)
            && promise.order == line.job.order
            && ledger.would_take(line, ix).is_some();
        let has_space = used[ix.0] <= ledger.nodes[ix].order;
        let is_lost = winners.get(&ix).is_some_and(|winner| *winner < Some(line.priority))
            || gangs.get(&ix).is_some_and(|priority| *priority <= line.priority);
        if is_legal && has_space {
            let (sure, lost) = before.entry(place).or_default();
            *(if is_lost { lost } else { sure }) += 1;
        }
    }
    for (place, (sure, lost)) in before {
        let line = &ledger.jobs[place];
        let useful = useful(line.job).saturating_sub(line.held);
        let before = sized_shape(line.job)
            .map_or(sure, |shape| kept_for_steps(shape, line.held, (sure, lost)));
        let kept = line.expanded + line.promised;
        // A job with legal sizes begins a whole step, and gives back what is left over. It gives back
        // a step for which it lost the processes below.
        let mut shares = line.job.shares.iter();
        let has_lost = 0 < line.lost || shares.any(|share| share.state == SharePhase::Leaving);
        let begins_step = sized_shape(line.job).is_some() && (0 < line.expanded || has_lost);
        if !line.has_ended() && !begins_step && kept < before.min(useful) {
            let id = line.job.id;
            let detail =
                format!("job {id} was promised {before} processes; of these it has {kept}");
            findings.push(Rule::DroppedPromise.finding(detail));
        }
    }
}

/// Promises that a job with legal sizes keeps at least. It gives back what makes no step, before and
/// after it loses some of them.
fn kept_for_steps(shape: &Shape, held: u64, (sure, lost): (u64, u64)) -> u64 {
    let steps = |promised: u64| {
        let mut sizes = (held..=held + promised).rev();
        sizes.find(|size| is_legal(shape, *size)).unwrap_or(held) - held
    };
    let kept = (0..=lost).map(|later| steps(steps(sure + later).saturating_sub(later)));
    kept.min().unwrap_or(0)
}

/// Quanta of each node in use by shares that were not terminating, or promised before the cycle.
fn used_before(ledger: &Ledger<'_>) -> Vec<u64> {
    let nodes = &ledger.snapshot.nodes;
    let mut used: Vec<u64> = nodes.iter().map(|node| node.limbo.0).collect();
    for share in ledger.jobs.iter().flat_map(|line| line.job.held()) {
        used[share.node.0] += share.order.qshares().0;
    }
    for Promise { node, order, .. } in &ledger.snapshot.promises {
        used[node.0] += order.qshares().0;
    }
    used
}

/// Highest priority of the jobs that got something on each node; `None` if a job that cannot be
/// preempted did.
fn winners(ledger: &Ledger<'_>) -> BTreeMap<NodeIx, Option<Precedence>> {
    let shares = ledger.schedule.expansions.iter().map(|new| (new.job, new.node));
    let promises = ledger.schedule.promises.iter().map(|new| (new.job, new.node));
    let mut winners = BTreeMap::new();
    for (job, ix) in shares.chain(promises) {
        let line = ledger.line(job);
        let priority = line.is_fair_share().then_some(line.priority);
        let best = winners.entry(ix).or_insert(priority);
        *best = priority.min(*best);
    }
    winners
}
