//! What a publication leaves out: memory under a process is free when its exit was confirmed, never
//! because a publication was silent.
//!
//! A share that was published or offered, and is absent now, keeps its room until the orchestrator says
//! `gone` or `completed`, or is absent from a publication with `full: true`. It is given up loudly after
//! so many publications and so long a time, unless too many shares became absent at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::api::http::error::{Code, Fault};
use crate::converter::{CheckedPublication, JobState, PublishedJob};
use crate::model::{JobId, ShareId};
use crate::scheduler::View;

/// If more of the shares than this become absent at once, the publication is taken for incomplete: they
/// are not given up by time. In percent.
const MASS_PERCENT: usize = 20;

/// A warning names at most so many jobs.
const NAMED_MAX: usize = 10;

/// How long absent work keeps its room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Publications from which it is absent.
    pub publications: u32,
    /// Time since the first of them.
    pub time: Duration,
}

/// Shares that are booked and absent from the publications, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Absences(BTreeMap<ShareId, Absence>);

/// One absent share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Absence {
    job: JobId,
    /// Publications from which it is absent.
    publications: u32,
    since: Instant,
    /// Whether it became absent with too many others.
    is_held: bool,
}

/// What is absent, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AbsentWork {
    /// Jobs with absent processes.
    pub jobs: u64,
    /// Absent processes.
    pub processes: u64,
    /// Those of them that became absent with too many others, and are not given up by time.
    pub held: u64,
}

impl Absences {
    /// The numbers of it.
    pub fn counts(&self) -> AbsentWork {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let jobs: BTreeSet<JobId> = self.0.values().map(|absence| absence.job).collect();
        AbsentWork {
            jobs: number(jobs.len()),
            processes: number(self.0.len()),
            held: number(self.0.values().filter(|absence| absence.is_held).count()),
        }
    }
}

/// What is done about absent shares.
pub(in crate::api) struct Filled {
    /// What is absent now.
    pub absences: Absences,
    pub warnings: Vec<Fault>,
}

/// Adds to the `work` of a publication what is booked, was published `before` and is absent. Work that
/// is kept so is ending: it gets nothing more.
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
    for (share, absence) in &filled.absences.0 {
        let Some(old) = before.work.get(&absence.job) else { continue };
        let kept = work.entry(absence.job).or_insert_with(|| PublishedJob {
            state: JobState::Completing,
            processes: BTreeMap::new(),
            ..old.clone()
        });
        if let Some(process) = old.processes.get(share) {
            kept.processes.insert(*share, process.clone());
        }
    }
    filled.warnings.extend(kept_warning(&filled.absences, new, all, is_mass, patience));
    filled.warnings.extend(given_up_warning(&given_up));
    filled
}

/// The shares of published work that take room, by job: those of nodes that died take none.
fn booked(view: &View, before: &CheckedPublication) -> BTreeMap<JobId, Vec<ShareId>> {
    let ours = view.jobs.iter().filter(|job| before.work.contains_key(&job.id));
    let shares = ours.map(|job| (job.id, job.shares.iter().map(|share| share.id).collect()));
    shares.filter(|(_, shares): &(JobId, Vec<ShareId>)| !shares.is_empty()).collect()
}

/// The booked shares that the publication leaves out: of absent jobs all; of present jobs those that
/// were published before. An offered share of a present job is on its way.
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

fn kept_warning(
    absences: &Absences,
    new: usize,
    all: usize,
    is_mass: bool,
    patience: Patience,
) -> Option<Fault> {
    let AbsentWork { processes, held, .. } = absences.counts();
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
        "{processes} processes of {jobs} are absent and keep their room; {until}. Publish them as `gone` or their job as `completed`; if all that is absent is over, send `full: true`"
    );
    Some(Fault::new(Code::AbsentWork, "/work", detail))
}

/// Much work that has no room and is absent, as a publication of less, or of another orchestrator, leaves
/// it out. There is nothing to keep for it; but the orchestrator should know.
fn vanished_warning(
    work: &BTreeMap<JobId, PublishedJob>,
    booked: &BTreeMap<JobId, Vec<ShareId>>,
    before: &CheckedPublication,
) -> Option<Fault> {
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
    Some(Fault::new(Code::VanishedWork, "/work", detail))
}

fn given_up_warning(given_up: &BTreeMap<ShareId, JobId>) -> Option<Fault> {
    if given_up.is_empty() {
        return None;
    }
    let jobs = named(given_up.values().copied());
    let count = given_up.len();
    tracing::warn!(count, jobs, "absent processes are given up; their room is free");
    let detail = format!(
        "{count} processes of {jobs} were absent for too long: they are given up, and their room is free. What still runs there must be ended"
    );
    Some(Fault::new(Code::GivenUp, "/work", detail))
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
