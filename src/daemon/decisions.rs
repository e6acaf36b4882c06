//! A line in the log for every decision: cycle, job, class and reason, as fields.
//!
//! Preemptions are always logged as a sum. Each single decision is logged at `debug` (`--log
//! info,apportion::daemon::decisions=debug`). A large cluster makes thousands in a cycle, and the
//! feed of events and the store have them anyway.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::converter::{explain, explain_job};
use crate::model::JobId;
use crate::scheduler::{JobView, Planned, View};

/// Logs the decisions of the cycle after `before`, if a cycle was planned.
pub fn log(before: &View, now: &View) {
    let planned = now.planned.as_ref().filter(|_| before.cycle < now.cycle);
    let Some(planned) = planned else { return };
    let taken = &planned.schedule.preemptions;
    if !taken.is_empty() {
        let lost = Duration::from_millis(taken.iter().map(|one| one.loss).sum());
        let (cycle, processes) = (now.cycle, taken.len());
        tracing::info!(cycle, processes, work_lost = ?lost, "processes preempted");
    }
    if tracing::enabled!(tracing::Level::DEBUG) && !Arc::ptr_eq(&before.jobs, &now.jobs) {
        each(before, now, planned);
    }
}

fn each(before: &View, now: &View, planned: &Planned) {
    let cycle = now.cycle;
    let code = |job: &JobView| job.reason.as_ref().map(|reason| explain(reason, None).code);
    let before: HashMap<JobId, Option<&str>> =
        before.jobs.iter().map(|job| (job.id, code(job))).collect();
    let mut started: HashMap<JobId, u64> = HashMap::new();
    for one in &planned.schedule.expansions {
        *started.entry(one.job).or_default() += 1;
    }
    for job in now.jobs.iter() {
        let (id, class, user) = (job.id.0, job.class.as_str(), job.user.as_str());
        for one in &job.preemptions {
            let (share, reason) = (one.share.0, one.rule.code());
            let (beneficiary, lost_ms) = (one.beneficiary.map(|job| job.0), one.loss);
            tracing::debug!(
                cycle,
                job = id,
                class,
                user,
                reason,
                share,
                beneficiary,
                lost_ms,
                "process preempted"
            );
        }
        if let Some(processes) = started.get(&job.id) {
            let held = job.held().0;
            tracing::debug!(cycle, job = id, class, user, processes, held, "processes assigned");
        }
        let known = before.get(&job.id).copied().flatten();
        let reason = explain_job(job);
        if let Some(reason) = reason.filter(|reason| known != Some(reason.code)) {
            let (reason, why) = (reason.code, reason.sentence);
            tracing::debug!(
                cycle,
                job = id,
                class,
                user,
                reason,
                why,
                "job has less than it wants"
            );
        }
    }
}
