//! Lines of a document for the jobs at the end of a cycle.

use super::document::{PlayedCycle, PlayedFinding, PlayedJob, PreemptedShare};
use crate::audit;
use crate::model::Order;
use crate::scheduler::{JobView, View, Waiting};
use crate::sim::count;

/// A cycle with these `jobs`, and the findings of the audit.
pub(super) fn cycle(cycle: u64, mut jobs: Vec<PlayedJob>, view: &View) -> PlayedCycle {
    jobs.sort_by_key(|line| line.id);
    let Some(planned) = &view.planned else {
        return PlayedCycle { cycle, jobs, ..PlayedCycle::default() };
    };
    let audit = audit::audit(&planned.snapshot, &planned.schedule)
        .into_iter()
        .map(|finding| PlayedFinding { rule: finding.rule.code(), detail: finding.detail })
        .collect();
    PlayedCycle { cycle, jobs, net_strikes: planned.schedule.report.net_strikes, audit }
}

/// All that can be said of a job without knowing how it was before.
pub(super) fn job(job: &JobView, view: &View) -> PlayedJob {
    let class = view.topology.class_named(&job.class).map(|class| &view.topology.classes[class.0]);
    let is_preemptable = class.is_some_and(|class| class.policy.is_preemptable());
    let cap = job.cap.map_or(0, |cap| cap.nshares.0);
    let mut line = PlayedJob {
        id: job.id.0,
        order: job.order.map(Order::get),
        cap,
        given: job.given.0,
        pure_fair_share: is_preemptable.then_some(job.pure_fair_share.0),
        held: job.held().0,
        occupying: count(job.shares.len()),
        pending_removes: count(job.shares.len()) - job.held().0 + count(job.purged.len()),
        deferred: !is_preemptable && 0 < cap && job.given.0 == 0 && job.shares.is_empty(),
        reason: job.reason.as_ref().map(|reason| match reason {
            Waiting::Refused(refusal) => refusal.to_string(),
            Waiting::Engine(reason) => reason.to_string(),
        }),
        preempted: taken(job, view),
        ..PlayedJob::default()
    };
    for share in &job.shares {
        *line.nodes.entry(share.node.to_string()).or_default() += 1;
    }
    line
}

/// Shares that the cycle took from a job, by node.
fn taken(job: &JobView, view: &View) -> Vec<PreemptedShare> {
    let Some(planned) = &view.planned else { return Vec::new() };
    let taken = job.preemptions.iter().map(|preemption| PreemptedShare {
        node: planned.snapshot.node(preemption.node).name.to_string(),
        rule: preemption.rule.code(),
        beneficiary: preemption.beneficiary.map(|job| job.0),
        loss: preemption.loss,
    });
    let mut taken: Vec<PreemptedShare> = taken.collect();
    taken.sort();
    taken
}
