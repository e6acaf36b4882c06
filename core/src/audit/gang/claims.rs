//! Checks that older gangs are not passed by younger work that stays.
//!
//! A waiting gang claims nodes for `hold_limit`, then claims nothing for as long, and so on. The
//! cycles in which a phase begins or ends count for both, in favor of the planner.

use std::collections::BTreeSet;

use super::crew::GangLine;
use super::fit::{Fit, GangParts};
use super::sets::{fit_in_one, keys, may_span, sets};
use super::spaces::{FreeNode, without};
use crate::audit::finding::{Finding, Rule};
use crate::audit::ledger::Ledger;
use crate::audit::shapes::{gang_shape, is_chosen, wish};
use crate::model::{ClassPolicy, JobId, JobIx, JobKind, NodeIx, SharePhase};

/// Most steps of the check. Beyond that the check stops without findings.
const STEPS: u64 = 6_000_000;

/// True if requests of the job at `one` are served before those of the job at `other`: by priority,
/// then urgent work first, then whole nodes, then by age.
pub(in crate::audit) fn precedes(ledger: &Ledger<'_>, one: JobIx, other: JobIx) -> bool {
    let rank = |place: JobIx| {
        let line = &ledger.jobs[place];
        let is_usual = !line.class.is_urgent;
        (line.priority, is_usual, line.class.policy != ClassPolicy::Reserve, place)
    };
    rank(one) < rank(other)
}

/// The phases of `gang` in the cycle, and in the cycles before and after it; true if the gang
/// holds.
fn phases(ledger: &Ledger<'_>, gang: &GangLine) -> [bool; 3] {
    let line = &ledger.jobs[gang.place];
    let period = ledger.snapshot.topology.settings.publication_period;
    let cycle = ledger.snapshot.cycle;
    let since = line.job.gang.waits_since.unwrap_or(cycle);
    let waited = cycle.saturating_sub(since);
    [waited.saturating_sub(1), waited, waited + 1].map(|cycles| {
        let waited = cycles.saturating_mul(period);
        waited.checked_div(line.class.gangs.hold_limit).is_some_and(|phase| phase.is_multiple_of(2))
    })
}

/// True if `gang` was waiting when the cycle began, and may keep nodes from other work.
pub(in crate::audit) fn may_claim(ledger: &Ledger<'_>, gang: &GangLine) -> bool {
    let line = &ledger.jobs[gang.place];
    let was_waiting = line.held == 0 && line.job.gang.size.is_none();
    let keeps = ledger.snapshot.now.is_some() || phases(ledger, gang).contains(&true);
    was_waiting && !line.has_ended() && keeps
}

/// True if `gang` may be in a phase in which it claims nothing, and goes behind its peers.
pub(super) fn may_pause(ledger: &Ledger<'_>, gang: &GangLine) -> bool {
    phases(ledger, gang).contains(&false)
}

/// True if `gang` waits, and is sure to keep nodes from younger work.
fn must_claim(ledger: &Ledger<'_>, gang: &GangLine) -> bool {
    let line = &ledger.jobs[gang.place];
    // With a start that can be told, younger work may use the nodes until then.
    line.report.start_estimate.is_none()
        && !line.is_fair_share()
        && !ledger.is_untimely(gang.place)
        && gang.shape.reservation.is_none()
        && ledger.nodes_kept_from(gang.place).is_empty()
        && line.class.gangs.are_allowed
        && gang.is_waiting(line)
        && line.job.gang.size.is_none()
        && !is_chosen(&gang.shape)
        && !may_pause(ledger, gang)
        && !ledger.may_exceed_allotment(gang)
}

/// Younger work that stays is not placed on nodes that an older gang needs, and that it would have.
/// The number of processes that the gang could start on nodes free of work that stays does not
/// fall.
///
/// Not judged are packed gangs, chunks that share nodes, and gangs that wait for more than work
/// with an end: for services, reservations and arbitrary processes, or for fair-share work that the
/// gang may not take. Of several sets, the gang may claim any. Work that was promised its space in
/// an earlier cycle is no younger work.
pub(in crate::audit) fn check_claims(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let gains = if ledger.gangs.is_empty() { Vec::new() } else { new_work(ledger) };
    let mut steps = STEPS;
    for gang in ledger.gangs.iter().filter(|gang| !gains.is_empty() && must_claim(ledger, gang)) {
        let younger = gains.iter().filter(|gain| precedes(ledger, gang.place, gain.place));
        let younger: Vec<&NewSpace> = younger.collect();
        let size = wish(ledger.jobs[gang.place].job, &gang.shape);
        let request = GangParts::of(gang, size).filter(GangParts::is_countable);
        let (Some(request), false) = (request, younger.is_empty()) else { continue };
        if may_wait_for_fair_share(ledger, gang) {
            continue;
        }
        let claim = NodeClaim { ledger, gang, request };
        if claim.is_passed(&younger, &mut steps) {
            let takers: BTreeSet<String> =
                younger.iter().map(|gain| ledger.jobs[gain.place].job.id.to_string()).collect();
            let takers = Vec::from_iter(takers).join(", ");
            let id = ledger.jobs[gang.place].job.id;
            let detail = format!("gang {id} waits for nodes that job {takers} got");
            findings.push(Rule::ClaimPassed.finding(detail));
        }
    }
}

/// New space of a job that cannot be preempted.
struct NewSpace {
    place: JobIx,
    node: NodeIx,
    /// In qshares.
    order: u64,
}

/// New shares and promises of work that stays, except of jobs that were promised space before.
fn new_work(ledger: &Ledger<'_>) -> Vec<NewSpace> {
    let before: BTreeSet<JobId> =
        ledger.snapshot.promises.iter().map(|promise| promise.job).collect();
    let shares = ledger.schedule.expansions.iter().map(|new| (new.job, new.node, new.order));
    let promises = ledger.schedule.promises.iter().map(|new| (new.job, new.node, new.order));
    let new = shares.chain(promises).filter(|(job, ..)| !before.contains(job));
    let gains = new.filter_map(|(job, node, order)| {
        let place = ledger.place(job)?;
        let is_fixed = !ledger.jobs[place].is_fair_share();
        is_fixed.then_some(NewSpace { place, node, order: order.qshares().0 })
    });
    gains.collect()
}

/// True if `gang` may not take all fair-share work on its nodes: work of no lower priority, and
/// other gangs.
fn may_wait_for_fair_share(ledger: &Ledger<'_>, gang: &GangLine) -> bool {
    let line = &ledger.jobs[gang.place];
    let safe = ledger.jobs.iter().filter(|other| {
        let is_worse = line.priority < other.priority;
        other.is_fair_share() && (!is_worse || other.is_gang())
    });
    let mut nodes = safe.flat_map(|other| other.job.shares.iter().map(|share| share.node));
    nodes.any(|ix| ledger.is_in_pool(line, ix) && line.job.may_use(ix))
}

/// A gang that claims nodes.
struct NodeClaim<'l, 'a> {
    ledger: &'l Ledger<'a>,
    gang: &'l GangLine,
    request: GangParts<'l>,
}

impl NodeClaim<'_, '_> {
    /// True if the gang could start fewer processes because of the `younger` work, in every set
    /// that it may wait for.
    fn is_passed(&self, younger: &[&NewSpace], steps: &mut u64) -> bool {
        let all = self.staying(|_| true);
        let mut old = all.clone();
        for gain in younger {
            old[gain.node.0] = old[gain.node.0].saturating_sub(gain.order);
        }
        let endless = self.staying(|kind| kind != JobKind::Job);
        // Older requests without an end, too, may choose their nodes after the gang, and may leave
        // promised nodes.
        let endless_before = self.promised(|kind| kind != JobKind::Job);
        let spaces = |taken: &[u64]| without(self.ledger, self.gang, |ix: NodeIx| taken[ix.0]);
        let keys = keys(self.ledger, &self.gang.shape);
        // Spaces of an exclusive gang are fewer if more is taken, so sets are made by question.
        let is_single = !keys.is_empty()
            && Fit::Unknown < fit_in_one(&self.request, &keys, &spaces(&endless), steps);
        let may_be_anywhere = keys.is_empty() || may_span(self.ledger, &self.gang.shape);
        if is_single {
            let hopeful = self.hopeful(&keys, &spaces(&endless_before), steps);
            let in_set = |spaces: Vec<FreeNode>, value: &(String, String)| -> Vec<FreeNode> {
                let (key, value) = value;
                spaces.into_iter().filter(|space| space.tags.value(key) == value).collect()
            };
            return hopeful.is_some_and(|values| {
                !values.is_empty()
                    && values.iter().all(|value| {
                        self.falls(
                            &in_set(spaces(&old), value),
                            &in_set(spaces(&all), value),
                            steps,
                        )
                    })
            });
        }
        // No set holds it up to now; a set that is down could.
        let is_sure = keys.is_empty() && may_be_anywhere;
        is_sure
            && self.request.fit(&spaces(&endless), steps) == Fit::Yes
            && self.request.fit(&spaces(&endless_before), steps) == Fit::Yes
            && self.falls(&spaces(&old), &spaces(&all), steps)
    }

    /// Keys and values of the sets that could hold the gang if all work with an end were gone.
    /// `None` if that is not known of a set.
    fn hopeful(
        &self,
        keys: &[&crate::model::Name],
        spaces: &[FreeNode],
        steps: &mut u64,
    ) -> Option<Vec<(String, String)>> {
        let mut hopeful = Vec::new();
        for key in keys {
            for (is_judged, set) in sets(&[*key], spaces) {
                let value = set.first().map(|space| space.tags.value(key).to_owned())?;
                match self.request.fit(&set, steps) {
                    Fit::No => {}
                    Fit::Yes if is_judged => hopeful.push((key.to_string(), value)),
                    Fit::Yes | Fit::Packed | Fit::Unknown => return None,
                }
            }
        }
        Some(hopeful)
    }

    /// True if fewer processes fit into `after` than into `before`.
    fn falls(&self, before: &[FreeNode], after: &[FreeNode], steps: &mut u64) -> bool {
        let before = self.request.most_processes(before, steps);
        let after = self.request.most_processes(after, steps);
        before.is_ok_and(|before| after.is_ok_and(|after| after < before))
    }

    /// True if work that stays, of a kind that `counts`.
    fn stays(&self, job: JobId, counts: impl Fn(JobKind) -> bool) -> bool {
        let line = self.ledger.line(job);
        !line.is_fair_share() && counts(line.job.kind)
    }

    /// Quanta of each node that were in use, when the cycle began, by work that stays and is of a
    /// kind that `counts`. Terminating shares do not count.
    fn held(&self, counts: impl Fn(JobKind) -> bool) -> Vec<u64> {
        let ledger = self.ledger;
        let mut taken = vec![0_u64; ledger.nodes.len()];
        for line in ledger.jobs.iter().filter(|line| self.stays(line.job.id, &counts)) {
            let held = line.job.shares.iter().filter(|share| share.state == SharePhase::Held);
            let is_alone = gang_shape(line.job).is_some_and(|shape| shape.is_exclusive);
            for share in held {
                let (node, amount) = (share.node, share.order.qshares().0);
                // An exclusive gang has all of its nodes, even where it uses a part by now.
                let whole = if is_alone { ledger.snapshot.node(node).order.0 } else { 0 };
                taken[node.0] = (taken[node.0] + amount).max(whole);
            }
        }
        taken
    }

    /// The same, with what was promised when the cycle began.
    fn promised(&self, counts: impl Fn(JobKind) -> bool) -> Vec<u64> {
        let mut taken = self.held(&counts);
        let old = self.ledger.snapshot.promises.iter();
        for old in
            old.filter(|old| self.ledger.place(old.job).is_some() && self.stays(old.job, &counts))
        {
            taken[old.node.0] += old.order.qshares().0;
        }
        taken
    }

    /// The same, with what is newly in use or promised instead.
    fn staying(&self, counts: impl Fn(JobKind) -> bool) -> Vec<u64> {
        let ledger = self.ledger;
        let mut taken = self.held(&counts);
        let is_meant = |job: JobId| self.stays(job, &counts);
        for new in ledger.schedule.expansions.iter().filter(|new| is_meant(new.job)) {
            taken[new.node.0] += new.order.qshares().0;
        }
        for new in ledger.schedule.promises.iter().filter(|new| is_meant(new.job)) {
            taken[new.node.0] += new.order.qshares().0;
        }
        taken
    }
}
