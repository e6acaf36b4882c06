//! Cost limit of space: the work of peers that may be lost for a further process of a job.
//!
//! Fairness at any price would restart processes over and over while jobs come and go. So a job with
//! processes takes more only once its waiting has cost as much as would be lost, in thread time.
//! That is the ski-rental rule: the total cost is never more than twice the least possible.
//!
//! In an idle cluster, space is not about to come free by itself. There the class's loss limit
//! holds from the beginning, and waiting raises it.

use super::history::MEMORY_AFTER;
use super::plan::Plan;
use crate::engine::draft::Draft;
use crate::engine::report::{CapBound, Declined};
use crate::engine::schedule::VictimRule;
use crate::engine::snapshot::Quiescence;
use crate::model::{JobIx, Millis, NShares, Settings};

/// A job with fewer nshares than this has hardly begun, and is owed some credit.
const BEGUN: NShares = NShares(8);
/// Credit of such a job in thread time: 5 minutes. Most short jobs wait for their second process.
const CREDIT: Millis = 300_000;

/// True if the cluster is idle: then holdings decide, and not targets.
pub(super) fn is_at_rest(draft: &Draft<'_>) -> bool {
    draft.snapshot.quiescence.is_at_rest()
}

/// True if time alone changes nothing any more: every rule that waits for a quiet or an idle
/// cluster holds already.
pub fn is_steady(quiescence: &Quiescence, settings: &Settings) -> bool {
    let stop = settings.quiet_stop.unwrap_or(0);
    quiescence.is_at_rest() && MEMORY_AFTER.max(stop) <= quiescence.quiet_cycles
}

/// Worth of a further process of a job, as work of its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
    /// No limit.
    Anything,
    /// Limit in thread time.
    UpTo(Millis),
    /// No work at all, for this reason.
    Nothing(Declined),
}

/// Returns the worth of a further process of `job`.
pub(super) fn worth(draft: &Draft<'_>, job: JobIx) -> Worth {
    if draft.is_starved(job) {
        return Worth::Anything;
    }
    // A process that would hardly come in time is not worth the work of a peer.
    if draft.jobs[job].demand.cap.bound == CapBound::Prediction && !is_at_rest(draft) {
        return Worth::Nothing(Declined::TooLate);
    }
    Worth::UpTo(limit(draft, job))
}

/// Returns the reason to decline `plan` for `job`, though the rules allow it. A plan that takes
/// only from lower priorities has no limit.
pub(super) fn objection(draft: &Draft<'_>, job: JobIx, plan: &Plan) -> Option<Declined> {
    let mut peers =
        plan.victims.iter().filter(|victim| victim.rule != VictimRule::Priority).peekable();
    peers.peek()?;
    let loss = peers.map(|victim| victim.loss).fold(0, Millis::saturating_add);
    objection_to(draft, job, loss)
}

/// Returns the reason to decline a loss of `loss` by peers for a further process of `job`.
pub(super) fn objection_to(draft: &Draft<'_>, job: JobIx, loss: Millis) -> Option<Declined> {
    match worth(draft, job) {
        Worth::Anything => return None,
        Worth::Nothing(held_back) => return Some(held_back),
        Worth::UpTo(limit) if limit < loss => return Some(Declined::TooDear { loss, limit }),
        Worth::UpTo(_) => {}
    }
    let (settings, quiescence) = (&draft.snapshot.topology.settings, &draft.snapshot.quiescence);
    let stop = settings.quiet_stop.filter(|stop| *stop <= quiescence.quiet_cycles)?;
    Some(Declined::Quiet { cycles: stop })
}

/// Returns the most work that may be lost for a further process of `job`, which has a process or is
/// owed none. The limit is the cost of its waiting; in an idle cluster it is at least the loss
/// limit of its class.
fn limit(draft: &Draft<'_>, job: JobIx) -> Millis {
    let credit = if draft.has(job) < BEGUN { CREDIT } else { 0 };
    let paid = draft.jobs[job].waited.saturating_add(credit);
    if is_at_rest(draft) { paid.max(draft.class_of(job).cap_rules.loss_limit) } else { paid }
}
