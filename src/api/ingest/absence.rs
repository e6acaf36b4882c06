//! Processes that a publication leaves out. Memory under a process is free once its exit was
//! confirmed, never because a publication was silent.
//!
//! An absent share that was published or offered keeps its space. The space is free once the
//! orchestrator says `gone` or `completed`, or omits the share with `full: true`. A share that is
//! absent from many publications and for long is given up with a warning, unless too many became
//! absent at once.
//!
//! A share on a dead node takes no space, and to omit it confirms that it is gone. While shares are
//! absent that vanished with too many more, that confirms nothing: the node may return with its
//! processes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::api::http::error::{Code, RequestFault};
use crate::converter::{CheckedPublication, JobState, PublishedJob};
use crate::model::{JobId, ShareId};
use crate::scheduler::View;

/// Limit of shares that become absent at once, in percent. Above it the publication counts as
/// incomplete: time alone does not give the shares up.
const MASS_PERCENT: usize = 20;

/// Number of jobs that a warning names.
const NAMED_MAX: usize = 10;

/// Limits up to which an absent job keeps its space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Publications from which it is absent.
    pub publications: u32,
    /// Time since the first of them.
    pub time: Duration,
}

/// Shares in the view that are absent from the publications, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Absences(BTreeMap<ShareId, Absence>);

/// An absent share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Absence {
    job: JobId,
    /// Publications from which it is absent.
    publications: u32,
    since: Instant,
    /// True if the share became absent together with too many more.
    is_held: bool,
}

/// Numbers of absent jobs and processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AbsentSums {
    /// Jobs with absent processes.
    pub jobs: u64,
    /// Absent processes.
    pub processes: u64,
    /// Absent processes that became absent together with too many more; time alone does not give
    /// them up.
    pub held: u64,
}

impl Absences {
    /// The numbers of it.
    pub fn counts(&self) -> AbsentSums {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let jobs: BTreeSet<JobId> = self.0.values().map(|absence| absence.job).collect();
        AbsentSums {
            jobs: number(jobs.len()),
            processes: number(self.0.len()),
            held: number(self.0.values().filter(|absence| absence.is_held).count()),
        }
    }
}

/// Result of the treatment of absent shares.
pub(in crate::api) struct Filled {
    /// Shares that are absent now.
    pub absences: Absences,
    pub warnings: Vec<RequestFault>,
}

/// Adds to the `work` of a publication the absent shares of the view whose jobs were published
/// `before`. A job that is kept this way is ending: it gets nothing more.
pub(in crate::api) fn keep_absent(
    work: &mut BTreeMap<JobId, PublishedJob>,
    before: &CheckedPublication,
    view: &View,
    known: &Absences,
    patience: Patience,
    now: Instant,
) -> Filled {
    let booked = booked(view, before);
    let all = booked.values().map(Vec::len).sum::<usize>();
    let absent = absent(work, &booked, before);
    let new = absent.iter().filter(|(share, _)| !known.0.contains_key(share)).count();
    let is_mass = 0 < new && all.saturating_mul(MASS_PERCENT) < new.saturating_mul(100);
    let warnings = vanished_warning(work, &booked, before).into_iter().collect();
    let mut filled = Filled { absences: Absences::default(), warnings };
    let mut given_up: BTreeMap<ShareId, JobId> = BTreeMap::new();
    for (share, job) in absent {
        let first = Absence { job, publications: 0, since: now, is_held: is_mass };
        let mut absence = known.0.get(&share).copied().unwrap_or(first);
        absence.publications = absence.publications.saturating_add(1);
        let is_over = patience.publications <= absence.publications
            && patience.time <= now.saturating_duration_since(absence.since);
        if is_over && !absence.is_held {
            given_up.insert(share, job);
        } else {
            filled.absences.0.insert(share, absence);
        }
    }
    let kept = filled.absences.0.iter().map(|(share, absence)| (*share, absence.job));
    let has_gaps = filled.absences.0.values().any(|absence| absence.is_held);
    let unconfirmed = if has_gaps { unconfirmed(work, before, view) } else { Vec::new() };
    for (share, job) in kept.chain(unconfirmed) {
        let Some(old) = before.work.get(&job) else { continue };
        let kept = work.entry(job).or_insert_with(|| PublishedJob {
            state: JobState::Completing,
            processes: BTreeMap::new(),
            ..old.clone()
        });
        if let Some(process) = old.processes.get(&share) {
            kept.processes.insert(share, process.clone());
        }
    }
    filled.warnings.extend(kept_warning(&filled.absences, new, all, is_mass, patience));
    filled.warnings.extend(given_up_warning(&given_up));
    filled
}

/// Returns the shares of published jobs that occupy space, by job. Shares on dead nodes occupy
/// none.
fn booked(view: &View, before: &CheckedPublication) -> BTreeMap<JobId, Vec<ShareId>> {
    let ours = view.jobs.iter().filter(|job| before.work.contains_key(&job.id));
    let shares = ours.map(|job| (job.id, job.shares.iter().map(|share| share.id).collect()));
    shares.filter(|(_, shares): &(JobId, Vec<ShareId>)| !shares.is_empty()).collect()
}

/// Returns the `booked` shares that the publication leaves out. Of an absent job these are all
/// shares; of a present job, the shares that were published before. An offered share of a present
/// job is on its way.
fn absent(
    work: &BTreeMap<JobId, PublishedJob>,
    booked: &BTreeMap<JobId, Vec<ShareId>>,
    before: &CheckedPublication,
) -> Vec<(ShareId, JobId)> {
    let mut absent = Vec::new();
    for (&job, shares) in booked {
        match work.get(&job) {
            None => absent.extend(shares.iter().map(|&share| (share, job))),
            Some(now) if now.state == JobState::Completed => {}
            Some(now) => {
                let was_shown = |share: &&ShareId| {
                    let old = before.work.get(&job).and_then(|old| old.processes.get(share));
                    old.is_some_and(|process| !process.is_gone)
                };
                let left_out = shares.iter().filter(|share| !now.processes.contains_key(share));
                absent.extend(left_out.filter(was_shown).map(|&share| (share, job)));
            }
        }
    }
    absent
}

/// Returns the shares on dead nodes, with their jobs, that were published before and are left out now.
fn unconfirmed(
    work: &BTreeMap<JobId, PublishedJob>,
    before: &CheckedPublication,
    view: &View,
) -> Vec<(ShareId, JobId)> {
    let is_over = |job: JobId| work.get(&job).is_some_and(|now| now.state == JobState::Completed);
    let is_left_out = |share: ShareId, job: JobId| {
        let was_running = before
            .work
            .get(&job)
            .and_then(|old| old.processes.get(&share))
            .is_some_and(|it| !it.is_gone);
        was_running && work.get(&job).is_none_or(|now| !now.processes.contains_key(&share))
    };
    let jobs = view.jobs.iter().filter(|job| !is_over(job.id));
    let lost = jobs.flat_map(|job| job.purged.iter().map(|share| (share.id, job.id)));
    lost.filter(|(share, job)| is_left_out(*share, *job)).collect()
}

fn kept_warning(
    absences: &Absences,
    new: usize,
    all: usize,
    is_mass: bool,
    patience: Patience,
) -> Option<RequestFault> {
    let AbsentSums { processes, held, .. } = absences.counts();
    if processes == 0 {
        return None;
    }
    let jobs = named(absences.0.values().map(|absence| absence.job));
    let until = if is_mass {
        format!(
            "{new} of {all} vanished at once, which is more than {MASS_PERCENT} %: the publication is taken for incomplete, and time alone gives none of them up"
        )
    } else if held == processes {
        "they vanished with too many others, so time alone gives none of them up".to_owned()
    } else {
        format!(
            "they are given up after {} publications and {} s",
            patience.publications,
            patience.time.as_secs()
        )
    };
    let detail = format!(
        "{processes} processes of {jobs} are absent and keep their space; {until}. Publish them as `gone` or their job as `completed`; if all that is absent is over, send `full: true`"
    );
    Some(RequestFault::new(Code::AbsentWork, "/work", detail))
}

/// Warns of many absent jobs without shares, as an incomplete publication or another orchestrator
/// leaves them out. No space has to be kept for them, but the orchestrator should know.
fn vanished_warning(
    work: &BTreeMap<JobId, PublishedJob>,
    booked: &BTreeMap<JobId, Vec<ShareId>>,
    before: &CheckedPublication,
) -> Option<RequestFault> {
    let open = before.work.iter().filter(|(_, old)| old.state != JobState::Completed);
    let open: Vec<JobId> = open.map(|(job, _)| *job).collect();
    let vanished = open.iter().copied();
    let vanished = vanished.filter(|job| !work.contains_key(job) && !booked.contains_key(job));
    let vanished: Vec<JobId> = vanished.collect();
    if vanished.len().saturating_mul(100) <= open.len().saturating_mul(MASS_PERCENT) {
        return None;
    }
    let (count, all, jobs) = (vanished.len(), open.len(), named(vanished.into_iter()));
    let detail = format!(
        "{jobs} vanished without being `completed`, {count} of {all}: no process runs for them, so they are over. If the publication is incomplete, publish them again"
    );
    Some(RequestFault::new(Code::VanishedWork, "/work", detail))
}

fn given_up_warning(given_up: &BTreeMap<ShareId, JobId>) -> Option<RequestFault> {
    if given_up.is_empty() {
        return None;
    }
    let jobs = named(given_up.values().copied());
    let count = given_up.len();
    tracing::warn!(count, jobs, "absent processes are given up; their space is free");
    let detail = format!(
        "{count} processes of {jobs} were absent for too long: they are given up, and their space is free. What still runs there must be ended"
    );
    Some(RequestFault::new(Code::GivenUp, "/work", detail))
}

/// `job 7`, or `jobs 7, 8, … (12 in all)`.
fn named(jobs: impl Iterator<Item = JobId>) -> String {
    let jobs: BTreeSet<JobId> = jobs.collect();
    let first: Vec<String> = jobs.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let first = first.join(", ");
    match jobs.len() {
        1 => format!("job {first}"),
        all if all <= NAMED_MAX => format!("jobs {first}"),
        all => format!("jobs {first}, … ({all} in all)"),
    }
}
