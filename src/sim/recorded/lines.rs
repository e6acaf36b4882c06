//! Lines of a document for the jobs at the end of a cycle.

use std::collections::BTreeMap;

use super::document::{PlayedCycle, PlayedFinding, PlayedJob, PreemptedShare};
use crate::audit;
use crate::converter::code_of;
use crate::engine::{GangLack, WaitReason};
use crate::model::{Millis, Order, SharePhase};
use crate::scheduler::{JobView, Removal, ShareView, View, Waiting};
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
    PlayedCycle {
        urgent: BTreeMap::new(),
        cycle,
        jobs,
        refused: BTreeMap::new(),
        net_strikes: planned.schedule.report.net_strikes,
        audit,
    }
}

/// All that can be said of a job without knowing how it was before.
pub(super) fn job(job: &JobView, view: &View) -> PlayedJob {
    let class = view.topology.class_named(&job.class).map(|class| &view.topology.classes[class]);
    let is_preemptable = class.is_some_and(|class| class.policy.is_preemptable());
    let cap = job.cap.map_or(0, |cap| cap.nshares.0);
    let mut line = PlayedJob {
        id: job.id.0,
        order: job.order.map(Order::get),
        cap,
        given: job.target.0,
        pure_fair_share: is_preemptable.then_some(job.pure_fair_share.0),
        held: job.held().0,
        occupying: count(job.shares.len()),
        pending_removes: count(job.shares.len()) - job.held().0 + count(job.purged.len()),
        deferred: !is_preemptable && 0 < cap && job.target.0 == 0 && job.shares.is_empty(),
        reason: job.reason.as_ref().map(|reason| match reason {
            Waiting::Refused(refusal) => refusal.to_string(),
            Waiting::Engine(reason) => reason.to_string(),
        }),
        ranks: job.shape.as_ref().filter(|shape| shape.is_gang()).map(|_| ranks(job)),
        preempted: taken(job, view),
        ..PlayedJob::default()
    };
    for share in &job.shares {
        *line.nodes.entry(share.node.to_string()).or_default() += 1;
    }
    line
}

/// Nodes of the processes that a gang holds, by rank.
fn ranks(job: &JobView) -> Vec<String> {
    let held = job.shares.iter().filter(|share| share.state == SharePhase::Held);
    let mut held: Vec<&ShareView> = held.collect();
    held.sort_by_key(|share| (share.rank, share.id));
    held.into_iter().map(|share| share.node.to_string()).collect()
}

/// Tells the reason of `job` as a code with numbers.
pub(super) fn tell_in_codes(line: &mut PlayedJob, job: &JobView, now: Millis) {
    line.reason = job.reason.as_ref().map(|reason| code_of(reason).to_owned());
    line.numbers = match &job.reason {
        Some(Waiting::Engine(reason)) => numbers(reason, now),
        Some(Waiting::Refused(_)) | None => BTreeMap::new(),
    };
    line.adapting = Some(job.is_adapting());
    line.starts_at_ms = job.start_estimate.map(|estimate| estimate.at);
}

/// Counts the shares of a job that were evicted in this cycle, and says why.
pub(super) fn tell_removed(line: &mut PlayedJob, told_to_go: &[Removal]) {
    let told = told_to_go.iter().filter_map(|&removal| removal_code(removal));
    let mut told: Vec<&'static str> = told.collect();
    told.sort_by_key(|code| *code != BROKEN);
    line.removed = (!told.is_empty()).then(|| count(told.len()));
    line.removed_for = told.first().copied();
}

/// Code of a broken gang. It goes first where shares of a job go for several reasons.
const BROKEN: &str = "gang_broken";

fn removal_code(removal: Removal) -> Option<&'static str> {
    match removal {
        Removal::VariedOff => Some("varied_off"),
        Removal::Blacklisted => Some("blacklisted"),
        Removal::Withdrawn => Some("withdrawn"),
        Removal::GangBroken => Some(BROKEN),
        Removal::Preempted
        | Removal::Window
        | Removal::ClassClosed
        | Removal::Overrun
        | Removal::NodeDied => None,
    }
}

/// Numbers of a reason that work is measured by. Amounts are qshares; times count from `now`.
fn numbers(reason: &WaitReason, now: Millis) -> BTreeMap<&'static str, u64> {
    let pairs = match *reason {
        WaitReason::GangLacks(GangLack { of: _, chunk, found, needed }) => {
            let chunk = chunk.map(|chunk| ("chunk", count(chunk)));
            chunk.into_iter().chain([("found", found), ("needed", needed)]).collect()
        }
        WaitReason::BehindOlderGang { job } | WaitReason::WaitsForOverrun { job } => {
            vec![("job", job.0)]
        }
        WaitReason::WindowAhead { opens, needs } => {
            let needs = needs.map(|needs| ("needsMs", needs));
            needs.into_iter().chain([("leftMs", opens.saturating_sub(now))]).collect()
        }
        WaitReason::ReservationAhead { opens } | WaitReason::ClassClosed { opens } => {
            opens.map(|opens| ("opensAtMs", opens)).into_iter().collect()
        }
        WaitReason::TooEarly { opens } => vec![("opensAtMs", opens)],
        WaitReason::DeadlineUnreachable { starts, deadline } => {
            let starts = starts.map(|starts| ("startsAtMs", starts));
            starts.into_iter().chain([("deadlineMs", deadline)]).collect()
        }
        WaitReason::Earning { fair_share, asks } => {
            vec![("deserves", fair_share.0), ("asks", asks.0)]
        }
        WaitReason::NoLegalSize { target, next } => vec![("given", target.0), ("next", next.0)],
        WaitReason::WaitingForExits { promised } => vec![("promised", promised.0)],
        WaitReason::OverAllotment { allotment, held, asks } => {
            vec![("allotment", allotment.0), ("held", held.0), ("asks", asks.0)]
        }
        WaitReason::NothingLeft { left, asks } => {
            vec![("left", left.0), ("asks", asks.qshares().0)]
        }
        WaitReason::Impossible { .. }
        | WaitReason::NoSuchSize { .. }
        | WaitReason::NoNodeUp { .. }
        | WaitReason::Capped { .. }
        | WaitReason::FairShareUsed { .. }
        | WaitReason::Adapting
        | WaitReason::HeldBack(_)
        | WaitReason::Fragmented { .. } => Vec::new(),
    };
    pairs.into_iter().collect()
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
