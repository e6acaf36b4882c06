//! The cap of a job, computed a second time.
//!
//! Design: "How Much" and D9. Work left is rounded up, prediction only lowers, doubling starts from
//! the shares held, and no such rule lowers what is promised.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;

use super::ledger::Ledger;
use super::shapes::{gang_shape, sized_shape, useful_of_gang};
use crate::engine::Job;
use crate::model::{
    CapRules, ClassIx, ClassPolicy, JobId, JobKind, Millis, ProcessLimit, ResourceClass, Topology,
    ceil_div, floor_div,
};

/// Inputs of the rules that slow growth, for all jobs.
pub(super) struct Pacing {
    publication_period: Millis,
    /// Number of nshares promised to each job.
    promised: BTreeMap<JobId, u64>,
    closed: BTreeSet<ClassIx>,
    /// Classes whose work stays.
    fixed: BTreeSet<ClassIx>,
    now: Option<Millis>,
    topology: Arc<Topology>,
}

impl Pacing {
    pub(super) fn new(ledger: &Ledger<'_>) -> Pacing {
        let snapshot = ledger.snapshot;
        let mut promised: BTreeMap<JobId, u64> = BTreeMap::new();
        for promise in &snapshot.promises {
            *promised.entry(promise.job).or_default() += 1;
        }
        let publication_period = snapshot.topology.settings.publication_period;
        let classes = snapshot.topology.classes.iter().enumerate();
        let fixed = classes.filter(|(_, class)| !class.policy.is_preemptable());
        let fixed = fixed.map(|(place, _)| ClassIx(place)).collect();
        let (now, topology) = (snapshot.now, Arc::clone(&snapshot.topology));
        let closed = closed_classes(ledger);
        Pacing { publication_period, promised, closed, fixed, now, topology }
    }

    /// The cap of `job`, in nshares, under its class's `rules`.
    pub(super) fn cap_of(&self, job: &Job, rules: &CapRules) -> u64 {
        if is_overrun(self.now, job, &self.topology.classes[job.class]) {
            return 0;
        }
        let is_fair_share = !self.fixed.contains(&job.class);
        if is_fair_share && is_early(self.now, job) && !job.facts.is_completing {
            return job.nshares_held().0;
        }
        if self.closed.contains(&job.class) && !job.facts.is_completing {
            // A gang of fixed work waits for a span that is long enough.
            match (self.fixed.contains(&job.class), gang_shape(job).is_some()) {
                (false, _) => return 0,
                (true, false) => return job.nshares_held().0,
                (true, true) => {}
            }
        }
        let promised = self.promised.get(&job.id).copied().unwrap_or(0);
        cap_of(job, rules, self.publication_period, promised)
    }
}

/// Classes whose work has to be gone: none of their spans holds now and goes on for longer than the
/// notice. Gangs of fixed work are not concerned: they wait for a span that is long enough.
pub(super) fn closed_classes(ledger: &Ledger<'_>) -> BTreeSet<ClassIx> {
    let snapshot = ledger.snapshot;
    let Some(now) = snapshot.now else { return BTreeSet::new() };
    let notice = snapshot.topology.settings.notice;
    let is_open = |(open, close): &(Millis, Millis)| *open <= now && now + notice < *close;
    let closed = snapshot.hours.iter().filter(|(_, spans)| !spans.iter().any(is_open));
    closed.map(|(class, _)| *class).collect()
}

/// True if the owner of `job` wants a start after `now`.
pub(super) fn is_early(now: Option<Millis>, job: &Job) -> bool {
    let opens = job.shape.as_deref().and_then(|shape| shape.not_before);
    now.zip(opens).is_some_and(|(now, opens)| now < opens)
}

/// True if `job` stays and its declared time is over, or was when it was ended, in a class that ends
/// such work.
pub(super) fn is_overrun(now: Option<Millis>, job: &Job, class: &ResourceClass) -> bool {
    let declared = job.shape.as_deref().and_then(|shape| shape.duration);
    let length = declared.or(class.gangs.default_duration).or(class.gangs.max_duration);
    let end = job.gang.started.zip(length).map(|(from, length)| from.saturating_add(length));
    let stays = class.policy == ClassPolicy::FixedShare || class.policy == ClassPolicy::Reserve;
    let ends = class.gangs.ends_overruns && stays && 0 < job.nshares_held().0;
    job.gang.is_overrun || ends && now.zip(end).is_some_and(|(now, end)| end <= now)
}

/// The cap of `job`, in nshares, under its class's `rules`, while `promised` nshares are promised
/// to it.
///
/// No rule slows the growth of a gang, which starts whole, or of a job with legal sizes, which is as
/// large as its owner says. A cap below what the job holds means the
/// same as a cap equal to it: the job gets nothing more.
pub(super) fn cap_of(
    job: &Job,
    rules: &CapRules,
    publication_period: Millis,
    promised: u64,
) -> u64 {
    let held = job.nshares_held().0;
    let base = useful(job);
    let is_sized = gang_shape(job).is_some() || sized_shape(job).is_some();
    let is_whole = job.kind != JobKind::Job || is_sized;
    if job.facts.is_completing || job.is_spent || is_whole {
        return base;
    }
    // Space was made for the promises, and its donors have lost work.
    let kept = base.min(if promised == 0 { 0 } else { held.saturating_add(promised) });
    paced(job, rules, publication_period, base).max(kept)
}

/// Lowers `base` by the rules that slow growth.
fn paced(job: &Job, rules: &CapRules, publication_period: Millis, base: u64) -> u64 {
    let held = job.nshares_held().0;
    let time_per_item = job.facts.time_per_item.and_then(NonZeroU64::new);
    let Some(time_per_item) = time_per_item.filter(|_| job.facts.is_running) else {
        let is_limited = rules.initialization_cap > 0;
        return if is_limited { base.min(rules.initialization_cap) } else { base };
    };
    let doubled = held.saturating_mul(2);
    if rules.expand_by_doubling && doubled == 0 {
        return base.min(rules.initialization_cap.max(1));
    }
    let potential = if rules.prediction {
        let ahead = publication_period.saturating_add(rules.prediction_fudge);
        base.min(projected(job, ahead, time_per_item).max(held))
    } else {
        base
    };
    if rules.expand_by_doubling { potential.min(doubled) } else { potential }
}

/// Processes that `job` could use if no rule slowed its growth.
pub(super) fn useful(job: &Job) -> u64 {
    let held = job.nshares_held().0;
    if job.facts.is_completing || job.is_spent {
        return held;
    }
    if job.kind != JobKind::Job {
        return 1;
    }
    if let Some(shape) = gang_shape(job) {
        return useful_of_gang(job, shape);
    }
    let usable = ceil_div(job.facts.remaining, threads_of(job)).max(held);
    match job.facts.limit {
        ProcessLimit::Unlimited => usable,
        ProcessLimit::AtMost(most) => usable.min(most),
        ProcessLimit::Frozen => held,
    }
}

/// Processes for the work that will be left when a process started now is ready. This is after the
/// mean initialization of its processes, plus `ahead`. 0 if no work will be left.
fn projected(job: &Job, ahead: Millis, time_per_item: NonZeroU64) -> u64 {
    let initializations: Vec<Millis> = job
        .held()
        .filter(|share| share.facts.is_initialized)
        .map(|share| share.facts.initialization)
        .collect();
    let samples: u64 = initializations.iter().map(|_| 1).sum();
    let total = initializations.iter().fold(0_u64, |sum, &time| sum.saturating_add(time));
    let mean = NonZeroU64::new(samples).map_or(0, |samples| floor_div(total, samples));
    let busy = job.nshares_held().0.saturating_mul(job.threads).saturating_mul(mean + ahead);
    // Rounded to the nearest item, halves up: twice the quotient's numerator, plus a divisor.
    let done = floor_div(
        busy.saturating_mul(2).saturating_add(time_per_item.get()),
        time_per_item.saturating_mul(NonZeroU64::MIN.saturating_add(1)),
    );
    ceil_div(job.facts.remaining.saturating_sub(done), threads_of(job))
}

fn threads_of(job: &Job) -> NonZeroU64 {
    NonZeroU64::new(job.threads).unwrap_or(NonZeroU64::MIN)
}
