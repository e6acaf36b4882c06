//! Checks that work which can be preempted gives way to work in its advance reservation, at all
//! priorities.

use super::calendar::fit_beside;
use super::crew::GangLine;
use super::fit::Fit;
use crate::audit::finding::{Finding, Rule};
use crate::audit::ledger::Ledger;
use crate::audit::lines::JobLine;
use crate::model::{JobIx, Millis, NodeIx, Precedence};

/// Most steps of the check. Beyond that the check stops without findings.
const STEPS: u64 = 6_000_000;

/// No request waits on the nodes of its open reservation that fits there beside the work that stays.
///
/// Only the first request of each reservation counts: the next requests may wait for it.
pub(in crate::audit) fn check_way(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let Some(now) = ledger.snapshot.now else { return };
    let mut steps = STEPS;
    for window in ledger.snapshot.windows.iter() {
        let name = &window.window.name;
        let is_of_it = |line: &JobLine<'_>| {
            let named = line.job.shape.as_deref().and_then(|shape| shape.reservation.as_ref());
            line.priority == Precedence::Reserved && named == Some(name) && line.holds() == 0
        };
        let mut jobs = ledger.jobs.with_ix();
        let first = jobs.find(|(_, line)| is_of_it(line) && !line.has_ended());
        let Some((place, line)) = first.filter(|_| window.window.from <= now) else { continue };
        let gang = ledger.gang(place);
        let is_limited = match gang {
            Some(gang) => ledger.may_exceed_allotment(gang),
            None => ledger.allotment_for(line).is_some(),
        };
        if is_limited || 0 < line.has() || line.cap == 0 || ledger.is_untimely(place) {
            continue;
        }
        if fits(ledger, (place, gang), now, &mut steps) {
            let id = line.job.id;
            let detail = format!("job {id} waits in its reservation {name} for work of others");
            findings.push(Rule::PriorityWaits.finding(detail));
        }
    }
}

/// True if the request at `place` fits beside all work that stays or is leaving.
fn fits(
    ledger: &Ledger<'_>,
    (place, gang): (JobIx, Option<&GangLine>),
    now: Millis,
    steps: &mut u64,
) -> bool {
    let end = ledger.end(place, now);
    let mut taken = vec![0_u64; ledger.nodes.len()];
    for other in ledger.jobs.iter().filter(|other| !other.is_fair_share()) {
        for share in &other.job.shares {
            taken[share.node.0] += share.order.qshares().0;
        }
    }
    let new = ledger.schedule.expansions.iter().map(|it| (it.job, it.node, it.order));
    let promised = ledger.schedule.promises.iter().map(|it| (it.job, it.node, it.order));
    for (_, node, order) in
        new.chain(promised).filter(|(job, ..)| !ledger.line(*job).is_fair_share())
    {
        taken[node.0] += order.qshares().0;
    }
    let taken = |ix: NodeIx| {
        if ledger.is_kept_from(place, ix, now, end) { u64::MAX } else { taken[ix.0] }
    };
    fit_beside(ledger, (place, gang), taken, steps) == Fit::Yes
}
