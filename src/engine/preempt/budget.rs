//! What room may cost: how much work of its peers one more process of a job is worth.
//!
//! Fairness at any price would restart processes over and over while jobs come and go. So a job that
//! has something takes more only once its waiting has cost it as much as would be lost, thread time
//! against thread time. Rent is paid like this until skis would have been cheaper: never more than
//! twice what was needed.
//!
//! In a cluster at rest the next exit is not about to make room for nothing. There the class's loss
//! limit holds from the beginning, and waiting raises it.

use super::history::MEMORY_AFTER;
use super::plan::Plan;
use crate::engine::draft::Draft;
use crate::engine::report::{CapBound, HeldBack};
use crate::engine::schedule::PreemptionRule;
use crate::engine::snapshot::Calm;
use crate::model::{Millis, Settings};

/// A job with fewer nshares than this has hardly begun, and is owed some credit.
const BEGUN: u64 = 8;
/// That credit, in thread time: 5 minutes. What most short jobs wait for is their second process.
const CREDIT: Millis = 300_000;

/// Whether the cluster is at rest: then what is held counts, and not what was counted.
pub(super) fn is_at_rest(draft: &Draft<'_>) -> bool {
    draft.snapshot.calm.is_at_rest()
}

/// Whether the passing of time alone changes nothing any more: every rule that waits for quiet or
/// for rest holds already.
pub fn is_steady(calm: &Calm, settings: &Settings) -> bool {
    let stop = settings.quiet_stop.unwrap_or(0);
    calm.is_at_rest() && MEMORY_AFTER.max(stop) <= calm.quiet_cycles
}

/// What one more nshare of a job is worth, in work of its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
    /// Whatever it costs.
    Anything,
    /// So much, in thread time.
    UpTo(Millis),
    /// Nothing, for this reason.
    Nothing(HeldBack),
}

/// What one more nshare of `job` is worth to it.
pub(super) fn worth(draft: &Draft<'_>, job: usize) -> Worth {
    if draft.is_starved(job) {
        return Worth::Anything;
    }
    // Processes that would hardly come in time are not worth anybody's work.
    if draft.jobs[job].demand.cap.bound == CapBound::Prediction && !is_at_rest(draft) {
        return Worth::Nothing(HeldBack::TooLate);
    }
    Worth::UpTo(limit(draft, job))
}

/// Why `plan` is not carried out for `job`, though it is right. Better priorities do not ask.
pub(super) fn objection(draft: &Draft<'_>, job: usize, plan: &Plan) -> Option<HeldBack> {
    let mut peers =
        plan.victims.iter().filter(|victim| victim.rule != PreemptionRule::Priority).peekable();
    peers.peek()?;
    let loss = peers.map(|victim| victim.loss).fold(0, Millis::saturating_add);
    objection_to(draft, job, loss)
}

/// Why so much work of its peers is not lost for one more process of `job`.
pub(super) fn objection_to(draft: &Draft<'_>, job: usize, loss: Millis) -> Option<HeldBack> {
    match worth(draft, job) {
        Worth::Anything => return None,
        Worth::Nothing(held_back) => return Some(held_back),
        Worth::UpTo(limit) if limit < loss => return Some(HeldBack::TooDear { loss, limit }),
        Worth::UpTo(_) => {}
    }
    let (settings, calm) = (&draft.snapshot.topology.settings, &draft.snapshot.calm);
    let stop = settings.quiet_stop.filter(|stop| *stop <= calm.quiet_cycles)?;
    Some(HeldBack::Quiet { cycles: stop })
}

/// The most work that may be lost for one more process of `job`, which has something: what its waiting
/// has cost; in a cluster at rest no less than its class's loss limit.
fn limit(draft: &Draft<'_>, job: usize) -> Millis {
    let work = draft.job(job);
    let period = draft.snapshot.topology.settings.publication_period;
    let waited =
        draft.snapshot.behind_cycles(work).saturating_mul(period).saturating_mul(work.threads);
    let credit = if draft.has(job) < BEGUN { CREDIT } else { 0 };
    let paid = waited.saturating_add(credit);
    if is_at_rest(draft) { paid.max(draft.class_of(job).cap_rules.loss_limit) } else { paid }
}
