//! Checks that the processes of a gang begin, are promised and are taken together.

use std::collections::{BTreeMap, BTreeSet};

use super::claims::{may_claim, precedes};
use super::crew::GangLine;
use crate::audit::finding::{Finding, Rule};
use crate::audit::ledger::Ledger;
use crate::audit::lines::ReceiptedShare;
use crate::audit::shapes::{is_chosen, is_evolving, may_start_with, wish};
use crate::engine::{Job, VictimRule};
use crate::model::{Elasticity, JobId, JobIx, NodeIx, count};

impl GangLine {
    /// True if the gang, or its growth, has all that it asks for: shares, or promises.
    pub(in crate::audit) fn is_whole(&self, job: &Job) -> bool {
        let (begun, promised) = (count(&self.begun), count(&self.promised));
        let has = count(&self.stayed) + begun + promised;
        (begun == 0 || promised == 0)
            && 0 < begun + promised
            && may_start_with(job, &self.shape, has)
    }
}

/// A gang gets all its processes in the same cycle, or none. It is promised all its space, or none.
/// An evolving gang grows to the number that its owner asks for, or not at all.
///
/// Another rule covers more processes than it asks for.
pub(in crate::audit) fn check_whole(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for gang in &ledger.gangs {
        let line = &ledger.jobs[gang.place];
        let (begun, promised) = (count(&gang.begun), count(&gang.promised));
        if begun + promised == 0 || line.has_ended() {
            continue;
        }
        let has = count(&gang.stayed) + begun + promised;
        let wanted = wish(line.job, &gang.shape);
        let is_short = !is_chosen(&gang.shape) && has < wanted;
        if is_short || (0 < begun && 0 < promised) {
            let id = line.job.id;
            let detail = format!(
                "gang {id} of {wanted} begins {begun} processes and is promised {promised}"
            );
            findings.push(Rule::BrokenGang.finding(detail));
        }
    }
}

/// A gang is taken whole or not at all. A malleable gang may go on with fewer processes, which
/// another rule judges; an evolving gang gives back what its owner no longer wants.
pub(in crate::audit) fn check_victims(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let victims = victims_of_gangs(ledger);
    for gang in &ledger.gangs {
        let Some(victims) = victims.get(&gang.place) else { continue };
        let is_shrinking = is_evolving(&gang.shape)
            && victims.iter().all(|victim| victim.receipt.rule == VictimRule::NoLongerAllowed);
        let is_malleable = gang.shape.elasticity == Some(Elasticity::Malleable);
        if !gang.stayed.is_empty() && !is_shrinking && !is_malleable {
            let (id, lost, kept) =
                (ledger.jobs[gang.place].job.id, count(victims), count(&gang.stayed));
            let detail = format!("gang {id} lost {lost} of its processes and keeps {kept}");
            findings.push(Rule::PartialVictim.finding(detail));
        }
    }
}

/// Preempted shares of each gang, by the place of its job.
fn victims_of_gangs<'l, 'a>(
    ledger: &'l Ledger<'a>,
) -> BTreeMap<JobIx, Vec<&'l ReceiptedShare<'a>>> {
    let mut victims: BTreeMap<JobIx, Vec<&ReceiptedShare<'_>>> = BTreeMap::new();
    if !ledger.gangs.is_empty() {
        for victim in ledger.victims.iter().filter(|victim| ledger.jobs[victim.donor].is_gang()) {
            victims.entry(victim.donor).or_default().push(victim);
        }
    }
    victims
}

/// Shares are preempted for a gang only if it is then whole: incomplete plan, no victim.
pub(in crate::audit) fn check_vain(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for gang in &ledger.gangs {
        let line = &ledger.jobs[gang.place];
        let victims = ledger.victims.iter().filter(|victim| victim.beneficiary == Some(gang.place));
        let victims = count(victims);
        if 0 < victims && !gang.is_whole(line.job) {
            let (id, has) = (line.job.id, line.has());
            let detail =
                format!("{victims} shares went for gang {id}, which then has {has} in all");
            findings.push(Rule::VainVictims.finding(detail));
        }
    }
}

/// A gang that was promised its space has its processes or as much space, on these nodes or
/// elsewhere.
///
/// All its promises end if any of its nodes is lost: the node is out of scheduling, shrank, or
/// another job that cannot be preempted, or of higher priority, got something there. They also end
/// with the gang, if its owner asks for another number, or if its user is at the allotment. An
/// older gang that claims nodes of the pool is a reason too.
pub(in crate::audit) fn check_promises(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let mut before: BTreeMap<JobId, BTreeSet<NodeIx>> = BTreeMap::new();
    let mut promises: BTreeMap<JobId, u64> = BTreeMap::new();
    if ledger.gangs.is_empty() {
        return;
    }
    for promise in &ledger.snapshot.promises {
        before.entry(promise.job).or_default().insert(promise.node);
        *promises.entry(promise.job).or_default() += 1;
    }
    for gang in &ledger.gangs {
        let line = &ledger.jobs[gang.place];
        let id = line.job.id;
        let (Some(nodes), Some(&promised)) = (before.get(&id), promises.get(&id)) else { continue };
        let is_same = line.job.gang.size.is_none()
            && line.held == 0
            && may_start_with(line.job, &gang.shape, promised);
        let is_kept = promised <= count(gang.gains());
        if line.has_ended() || !is_same || is_kept {
            continue;
        }
        let has_reason = nodes.iter().any(|&ix| is_lost(ledger, gang, ix))
            || ledger.may_exceed_allotment(gang)
            || ledger.is_untimely(gang.place)
            || !ledger.nodes_kept_from(gang.place).is_disjoint(nodes)
            || ledger.gangs.iter().any(|older| {
                precedes(ledger, older.place, gang.place)
                    && ledger.jobs[older.place].class.pool == line.class.pool
                    && may_claim(ledger, older)
            });
        if !has_reason {
            let has = count(gang.gains());
            let detail = format!(
                "gang {id} was promised space for {promised} processes; of these it has {has}"
            );
            findings.push(Rule::DroppedPromise.finding(detail));
        }
    }
}

/// True if a promise to `gang` on node `ix` may have ended with the node, or with its space.
fn is_lost(ledger: &Ledger<'_>, gang: &GangLine, ix: NodeIx) -> bool {
    let line = &ledger.jobs[gang.place];
    let node = &ledger.nodes[ix];
    let shares = ledger.jobs.iter().flat_map(|line| line.job.held());
    let held = shares.filter(|share| share.node == ix).map(|share| share.order.qshares().0);
    let promises = ledger.snapshot.promises.iter().filter(|promise| promise.node == ix);
    let used: u64 = held.chain(promises.map(|promise| promise.order.qshares().0)).sum();
    let shares = ledger.schedule.expansions.iter().map(|new| (new.job, new.node));
    let promises = ledger.schedule.promises.iter().map(|new| (new.job, new.node));
    let mut gains = shares.chain(promises).filter(|(job, at)| *at == ix && *job != line.job.id);
    node.order < used + ledger.snapshot.node(ix).limbo.0
        || ledger.would_take(line, ix).is_none()
        || gains.any(|(job, _)| {
            let other = ledger.line(job);
            !other.is_fair_share() || other.priority < line.priority
        })
}
