//! Checks that no space stays free that a job could use (I15).
//!
//! Space is not free if it is promised, or will be needed for a promise once the terminating shares
//! have exited.

use std::collections::BTreeSet;

use super::finding::{Finding, Rule};
use super::gang::claims::{may_claim, precedes};
use super::gang::crew::GangLine;
use super::ledger::Ledger;
use super::lines::JobLine;
use super::shapes::{is_adapting, is_legal, sized_shape};
use crate::model::{NodeIx, Shape};

/// No fair-share job below its cap fits anywhere: targets do not matter for space that no other job
/// can use. Jobs that lost shares in this cycle are not exempt. Another rule covers gangs; a job
/// that is bound to sizes counts if the next number is legal.
pub(super) fn check_idle_room(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let holes = holes(ledger);
    let fair = ledger.jobs.iter().filter(|line| {
        let may_grow_by_one =
            sized_shape(line.job).map_or(!line.is_gang(), |shape| may_step(ledger, line, shape));
        let may_grow = may_grow_by_one && !is_adapting(line.job);
        line.is_fair_share() && !line.has_ended() && may_grow
    });
    for line in fair.filter(|line| line.has() < line.cap) {
        if let Some(ix) = hole_for(ledger, &holes, line) {
            let (id, order, name) = (line.job.id, line.job.order, ledger.name(ix));
            let detail = format!("job {id} of order {order} would fit on {name}");
            findings.push(Rule::IdleRoom.finding(detail));
        }
    }
}

/// True if an older gang may keep `line` off the node.
fn is_behind_gang(ledger: &Ledger<'_>, line: &JobLine<'_>, ix: NodeIx) -> bool {
    let Some(place) = ledger.place(line.job.id) else { return false };
    ledger.gangs.iter().any(|gang| {
        let of_gang = &ledger.jobs[gang.place];
        precedes(ledger, gang.place, place)
            && may_claim(ledger, gang)
            && ledger.is_in_pool(of_gang, ix)
            && of_gang.job.may_use(ix)
    })
}

/// True if one process more makes a legal size of a job, and no other such job left space over in
/// this cycle: that space goes to jobs of any size first.
fn may_step(ledger: &Ledger<'_>, line: &JobLine<'_>, shape: &Shape) -> bool {
    let sized = ledger.jobs.iter().filter(|other| sized_shape(other.job).is_some());
    let mut others = sized.filter(|other| other.job.id != line.job.id);
    is_legal(shape, line.has() + 1) && !others.any(|other| 0 < other.expanded + other.lost)
}

/// No other job below its target waits beside free space that it fits in. A job at its target is
/// held by its user's allotment, by its priority or by an older gang. Another rule covers gangs. A
/// reservation of a user with an allotment is tried on nodes of exactly the requested size only. A
/// larger node may exceed the allotment. Where time decides, a request has its node before fair-share
/// work of higher priority has its own: if such work takes the node, the request waits for a cycle.
pub(super) fn check_requests(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let holes = holes(ledger);
    let fixed = ledger.jobs.iter();
    let fixed = fixed.filter(|line| !line.is_fair_share() && !line.has_ended() && !line.is_gang());
    let is_timed = ledger.snapshot.now.is_some();
    let is_forestalled = |line: &JobLine<'_>| {
        let mut others = ledger.jobs.iter().filter(|other| other.is_fair_share());
        is_timed && others.any(|it| it.priority < line.priority && 0 < it.expanded + it.promised)
    };
    let waiting = fixed.filter(|line| line.has() < line.report.target.0);
    for line in waiting.filter(|line| !is_forestalled(line)) {
        let is_limited = ledger.allotment_for(line).is_some();
        let asked = line.job.order.qshares().0;
        let is_allowed = |ix| {
            !is_behind_gang(ledger, line, ix)
                && (!is_limited || ledger.size_on(line, ix) == Some(asked))
        };
        let holes: Vec<_> = holes.iter().copied().filter(|(ix, _)| is_allowed(*ix)).collect();
        if let Some(ix) = hole_for(ledger, &holes, line) {
            let (id, order, name) = (line.job.id, line.job.order, ledger.name(ix));
            let detail = format!("job {id} of order {order} is counted and would fit on {name}");
            findings.push(Rule::UnplacedRequest.finding(detail));
        }
    }
}

/// Nodes with usable space, and the amount; few, in a busy cluster.
fn holes(ledger: &Ledger<'_>) -> Vec<(NodeIx, i128)> {
    let closed: BTreeSet<NodeIx> = ledger.gangs.iter().flat_map(GangLine::own_nodes).collect();
    let nodes = ledger.nodes_with_ix().map(|(ix, node)| (ix, node.usable()));
    nodes.filter(|(ix, space)| *space > 0 && !closed.contains(ix)).collect()
}

/// The node in `holes` with space for another nshare of `line`'s job.
fn hole_for(ledger: &Ledger<'_>, holes: &[(NodeIx, i128)], line: &JobLine<'_>) -> Option<NodeIx> {
    let smallest = i128::from(line.job.order.get());
    let fits = holes.iter().filter(|(_, space)| *space >= smallest).find(|(ix, space)| {
        ledger.would_take(line, *ix).is_some_and(|size| *space >= i128::from(size))
    });
    fits.map(|(ix, _)| *ix)
}
