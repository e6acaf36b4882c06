//! Checks the nodes, sizes and owners of new shares and promises.
//!
//! A promise is a share that has not begun: the same rules hold for both.

use std::collections::BTreeMap;

use super::finding::{Finding, Rule};
use super::ledger::Ledger;
use super::lines::JobLine;
use crate::engine::{Expansion, Promise};
use crate::model::{JobId, Mebibytes, NodeIx, Order, UserIx};

/// A new share or a promise.
struct Gain {
    what: &'static str,
    job: JobId,
    node: NodeIx,
    order: Order,
}

/// No node that gets something new holds more than its order. Everything on it counts: shares that
/// stay, terminating shares, and limbo (I01). A node that shrank may be too full; nothing is added
/// to it.
pub(super) fn check_commitment(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for (ix, node) in ledger.nodes_with_ix() {
        let used = node.staying + node.leaving;
        if node.expanded > 0 && used > node.order {
            let detail = format!(
                "{} has {} qshares; with {} new ones {used} are in use",
                ledger.name(ix),
                node.order,
                node.expanded,
            );
            findings.push(Rule::OverCommitted.finding(detail));
        }
    }
}

/// The promises on a node fit beside the shares that stay there.
pub(super) fn check_promised_space(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for (ix, node) in ledger.nodes_with_ix() {
        if node.promised > 0 && node.slack() < 0 {
            let detail = format!(
                "{} has {} qshares, {} of them stay in use, and {} are promised",
                ledger.name(ix),
                node.order,
                node.staying,
                node.promised,
            );
            findings.push(Rule::OverPromised.finding(detail));
        }
    }
}

/// Only nodes in scheduling get new shares and promises.
pub(super) fn check_nodes(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for Gain { what, job, node, .. } in gains(ledger) {
        let state = ledger.snapshot.node(node).state;
        if !state.is_schedulable() {
            let words = state.words().join(", ");
            let name = ledger.name(node);
            let detail = format!("{what} for job {job} on {name}, which is {words}");
            findings.push(Rule::UnschedulableNode.finding(detail));
        }
    }
}

/// Fair-share work goes to its class's pool and the pools in it (I08).
pub(super) fn check_pools(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for Gain { what, job, node, .. } in gains(ledger) {
        let line = ledger.line(job);
        if line.is_fair_share() && !ledger.is_in_pool(line, node) {
            let (name, class) = (ledger.name(node), &line.class.name);
            let detail = format!("{what} for job {job} on {name}, outside the pools of {class}");
            findings.push(Rule::WrongPool.finding(detail));
        }
    }
}

/// Work that cannot be preempted is in its class's own pool (I07).
///
/// Terminating shares are exempt, and so are older shares whose node is out of scheduling for this
/// very reason (D12).
pub(super) fn check_squatters(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for line in ledger.jobs.iter().filter(|line| !line.is_fair_share()) {
        let is_open = |ix: NodeIx| ledger.snapshot.node(ix).state.is_schedulable();
        let old = line.job.held().map(|share| share.node).filter(|&ix| is_open(ix));
        for ix in old.filter(|&ix| !ledger.is_in_pool(line, ix)) {
            let detail = format!("job {} sits on {}", line.job.id, ledger.name(ix));
            findings.push(Rule::Squatter.finding(detail));
        }
    }
    for Gain { what, job, node, .. } in gains(ledger) {
        let line = ledger.line(job);
        if !line.is_fair_share() && !ledger.is_in_pool(line, node) {
            let detail = format!("{what} for job {job} on {}", ledger.name(node));
            findings.push(Rule::Squatter.finding(detail));
        }
    }
}

/// A job with a node list uses no other nodes.
pub(super) fn check_node_lists(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for Gain { what, job, node, .. } in gains(ledger) {
        if !ledger.line(job).job.may_use(node) {
            let name = ledger.name(node);
            let detail = format!("{what} for job {job} on {name}, which is not in its list");
            findings.push(Rule::NodeList.finding(detail));
        }
    }
}

/// Every share has the order that its job asks for. A reservation has a whole node of the requested
/// size, or larger by at most the overage (I02, I10). Processes of gangs are judged by their
/// chunks.
pub(super) fn check_orders(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for Gain { what, job, node, order } in gains(ledger) {
        let line = ledger.line(job);
        if !line.is_gang() && ledger.size_on(line, node) != Some(order.qshares().0) {
            let (asked, name) = (line.job.order, ledger.name(node));
            let detail =
                format!("{what} of order {order} on {name} for job {job} of order {asked}");
            findings.push(Rule::WrongOrder.finding(detail));
        }
    }
}

/// A job that is ending or over gets nothing more.
pub(super) fn check_ended_work(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for Gain { what, job, .. } in gains(ledger) {
        if ledger.line(job).has_ended() {
            let detail = format!("{what} for job {job}, which is completing or spent");
            findings.push(Rule::EndedWork.finding(detail));
        }
    }
}

/// A job that gets or is promised a share has no more than its cap (I12). A job that was above its
/// cap may stay there, and gets nothing. Another rule covers jobs that have ended.
pub(super) fn check_caps(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for line in ledger.jobs.iter().filter(|line| !line.has_ended()) {
        let has = line.has();
        if line.expanded + line.promised > 0 && has > line.cap {
            let (id, cap) = (line.job.id, line.cap);
            let detail = format!("job {id} has {has}, promises included; its cap is {cap}");
            findings.push(Rule::AboveCap.finding(detail));
        }
    }
}

/// A user who gets non-preemptable memory holds no more of it than the allotment (I11, D10). All
/// trees and all grants of this cycle count; terminating shares do not. An order counts in the
/// quanta of its class's pool, even if the share is in another tree.
pub(super) fn check_allotments(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let topology = &ledger.snapshot.topology;
    let memory_of = |line: &JobLine<'_>, order: Order| {
        topology.pools[line.class.pool].quantum.memory_of(order.qshares()).0
    };
    let is_fixed = |new: &&Expansion| !ledger.line(new.job).is_fair_share();
    let fixed: Vec<&Expansion> = ledger.schedule.expansions.iter().filter(is_fixed).collect();
    // Urgent work has an allotment of its own.
    let account_of = |line: &JobLine<'_>| (line.job.user, line.class.is_urgent);
    let of_new = |expansion: &Expansion| account_of(ledger.line(expansion.job));
    let accounts: BTreeMap<(UserIx, bool), &JobLine<'_>> =
        fixed.iter().map(|new| (of_new(new), ledger.line(new.job))).collect();
    for (account, line) in accounts {
        let name = &ledger.snapshot.users[account.0];
        let Some(allotment) = ledger.allotment_for(line) else { continue };
        let lines = ledger.jobs.iter();
        let lines = lines.filter(|line| !line.is_fair_share() && account_of(line) == account);
        let old = lines.flat_map(|line| line.job.held().map(|share| memory_of(line, share.order)));
        let new = fixed.iter().filter(|expansion| of_new(expansion) == account);
        let new = new.map(|expansion| memory_of(ledger.line(expansion.job), expansion.order));
        let held = Mebibytes(old.chain(new).fold(0, u64::saturating_add));
        if held > allotment {
            let detail = format!("{name} may hold {allotment} and was given up to {held}");
            findings.push(Rule::OverAllotment.finding(detail));
        }
    }
}

fn gains(ledger: &Ledger<'_>) -> impl Iterator<Item = Gain> {
    let shares = ledger
        .schedule
        .expansions
        .iter()
        .map(|&Expansion { job, node, order, .. }| Gain { what: "a share", job, node, order });
    let promises = ledger.schedule.promises.iter().map(|&Promise { job, node, order, .. }| Gain {
        what: "a promise",
        job,
        node,
        order,
    });
    shares.chain(promises)
}
