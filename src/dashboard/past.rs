//! Notes of the past since the daemon started, in bounded memory.
//!
//! Only the dashboard uses them: the watcher writes and pages read, each for a short time. The
//! scheduler does not know them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::looks::Maps;
use super::palette::Palette;
use super::samples::Samples;
use super::tell::EventText;
use crate::model::{JobId, Name};
use crate::scheduler::View;

/// Latest events in memory; older events are read from the store.
pub(super) const EVENTS_MAX: usize = 120;

/// Moments kept of a job. A moment is a change of the processes held or of the reason.
const MOMENTS_MAX: usize = 24;

/// Jobs whose moments are noted; of more, nothing is.
const JOBS_MAX: usize = 20_000;

/// Jobs that are over and still known.
const OVER_MAX: usize = 500;

/// Entries of what was preempted; older ones are forgotten.
const PREEMPTED_MAX: usize = 5_000;

/// A job after a cycle in which what it holds, or why it has no more, changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobMoment {
    /// Time in milliseconds since the epoch.
    pub at_ms: i64,
    /// The cycle.
    pub cycle: u64,
    /// Processes it holds.
    pub held: u64,
    /// Processes it could use.
    pub demand: u64,
    /// The code of the reason why it has no more; empty if it has all it wants.
    pub reason: &'static str,
}

/// A job's course.
#[derive(Clone, Debug, Default)]
pub(super) struct JobCourse {
    /// Latest moments, the oldest first.
    pub moments: VecDeque<JobMoment>,
    /// User who submitted the job.
    pub user: Name,
    /// Since which cycle it is over.
    pub over_since: Option<u64>,
}

/// All notes.
#[derive(Debug, Default)]
pub(super) struct PastNotes {
    /// Figures over time.
    pub samples: Samples,
    /// The latest events, the oldest first.
    pub events: VecDeque<EventText>,
    /// Fingerprints of large maps.
    pub maps: Maps,
    courses: BTreeMap<JobId, JobCourse>,
    /// Jobs that are over, in that order.
    over: VecDeque<JobId>,
    /// Processes that were preempted, by when, the oldest first.
    preempted: VecDeque<(i64, u64)>,
    /// Colours of the users in a cycle.
    palette: (u64, Arc<Palette>),
}

/// [`PastNotes`] behind a lock: the watcher writes them, pages read them.
#[derive(Debug, Default)]
pub(super) struct SharedNotes {
    notes: Mutex<PastNotes>,
}

impl SharedNotes {
    /// For a moment.
    pub fn notes(&self) -> MutexGuard<'_, PastNotes> {
        // Notes are entries in lists; a panic elsewhere leaves none half done.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PastNotes {
    /// The course of a job, if it is known.
    pub fn course(&self, job: JobId) -> Option<&JobCourse> {
        self.courses.get(&job)
    }

    /// Notes how a job is now, if that is news.
    pub fn note(&mut self, job: JobId, user: &Name, moment: JobMoment) {
        if !self.courses.contains_key(&job) && JOBS_MAX <= self.courses.len() {
            return;
        }
        let course = self.courses.entry(job).or_default();
        course.user.clone_from(user);
        course.over_since = None;
        let is_same = |last: &JobMoment| (last.held, last.reason) == (moment.held, moment.reason);
        if course.moments.back().is_some_and(is_same) {
            return;
        }
        course.moments.push_back(moment);
        if MOMENTS_MAX < course.moments.len() {
            course.moments.pop_front();
        }
    }

    /// Notes that a job is over, as of `cycle`.
    pub fn end(&mut self, job: JobId, cycle: u64) {
        let Some(course) = self.courses.get_mut(&job) else { return };
        if course.over_since.replace(cycle).is_none() {
            self.over.push_back(job);
        }
        while OVER_MAX < self.over.len() {
            let Some(oldest) = self.over.pop_front() else { return };
            // A newer job may have the same number: its notes stay.
            if self.courses.get(&oldest).is_some_and(|course| course.over_since.is_some()) {
                self.courses.remove(&oldest);
            }
        }
    }

    /// Notes an event.
    pub fn tell(&mut self, told: EventText) {
        self.events.push_back(told);
        if EVENTS_MAX < self.events.len() {
            self.events.pop_front();
        }
    }

    /// Returns the colours of users in `view`, the latest published view.
    pub fn palette(&mut self, view: &View) -> Arc<Palette> {
        let (cycle, palette) = &self.palette;
        if *cycle != view.cycle {
            let palette = Palette::of_users(view, palette);
            self.palette = (view.cycle, Arc::new(palette));
        }
        Arc::clone(&self.palette.1)
    }

    /// Notes the number of processes preempted at a time.
    pub fn note_preempted(&mut self, at_ms: i64, processes: u64) {
        if processes == 0 {
            return;
        }
        self.preempted.push_back((at_ms, processes));
        if PREEMPTED_MAX < self.preempted.len() {
            self.preempted.pop_front();
        }
    }

    /// Adds what was preempted before all that is known, the oldest first.
    pub fn preempted_before(&mut self, mut older: VecDeque<(i64, u64)>) {
        older.append(&mut self.preempted);
        self.preempted = older;
    }

    /// Processes that were preempted, by when, the oldest first.
    pub fn preempted(&self) -> impl Iterator<Item = (i64, u64)> {
        self.preempted.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(cycle: u64, held: u64) -> JobMoment {
        JobMoment { at_ms: 0, cycle, held, demand: 9, reason: "" }
    }

    #[test]
    fn only_what_changed_is_noted_and_not_for_ever() {
        let mut notes = PastNotes::default();
        let ann = Name::from("ann");
        for (cycle, held) in [(1, 2), (2, 2), (3, 4), (4, 4), (5, 2)] {
            notes.note(JobId(7), &ann, moment(cycle, held));
        }
        let course = notes.course(JobId(7)).unwrap();
        let cycles: Vec<u64> = course.moments.iter().map(|moment| moment.cycle).collect();
        assert_eq!(cycles, [1, 3, 5]);
        for cycle in 10..100 {
            notes.note(JobId(7), &ann, moment(cycle, cycle));
        }
        assert_eq!(notes.course(JobId(7)).unwrap().moments.len(), MOMENTS_MAX);
        notes.end(JobId(7), 100);
        assert_eq!(notes.course(JobId(7)).unwrap().over_since, Some(100));
        for job in 1_000..2_000 {
            notes.note(JobId(job), &ann, moment(1, 1));
            notes.end(JobId(job), 2);
        }
        assert!(notes.course(JobId(7)).is_none());
        assert_eq!(notes.courses.len(), OVER_MAX);
    }
}
