//! What was noted of the past since the daemon started, in bounded memory.
//!
//! It is the dashboard's own: the watcher writes it and pages read it, each for a moment, and
//! whoever schedules knows nothing of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::looks::Maps;
use super::samples::Samples;
use super::tell::Told;
use crate::model::{JobId, Name};

/// So many of the latest events are at hand; older ones are read from the record.
pub(super) const EVENTS_MAX: usize = 120;

/// Moments of one job: when what it holds or why changed.
const MOMENTS_MAX: usize = 24;

/// Jobs whose moments are noted; of more, nothing is.
const JOBS_MAX: usize = 20_000;

/// Jobs that are over and still known.
const OVER_MAX: usize = 500;

/// Colours that users have; the style sheet says which.
pub(super) const COLOURS: usize = 12;

/// Users whose colour is remembered.
const COLOURED_MAX: usize = 2_000;

/// A job after a cycle in which what it holds, or why it has no more, changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// When, in milliseconds since the epoch.
    pub at_ms: i64,
    /// The cycle.
    pub cycle: u64,
    /// Processes it holds.
    pub held: u64,
    /// Processes it could use.
    pub wanted: u64,
    /// The code of the reason why it has no more; empty if it has all it wants.
    pub reason: &'static str,
}

/// A job's course.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    /// Its latest moments, the oldest first.
    pub moments: VecDeque<Moment>,
    /// Who submitted it.
    pub user: Name,
    /// Since which cycle it is over.
    pub over_since: Option<u64>,
}

/// Everything noted.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Figures over time.
    pub samples: Samples,
    /// The latest events, the oldest first.
    pub events: VecDeque<Told>,
    /// What large maps looked like.
    pub maps: Maps,
    courses: BTreeMap<JobId, Course>,
    /// Jobs that are over, in that order.
    over: VecDeque<JobId>,
    colours: BTreeMap<Name, usize>,
}

/// [`Notes`] that one writes and many read.
#[derive(Debug, Default)]
pub(super) struct Past {
    notes: Mutex<Notes>,
}

impl Past {
    /// For a moment.
    pub fn notes(&self) -> MutexGuard<'_, Notes> {
        // Notes are entries in lists; a panic elsewhere leaves none half done.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notes {
    /// The course of a job, if it is known.
    pub fn course(&self, job: JobId) -> Option<&Course> {
        self.courses.get(&job)
    }

    /// Notes how a job is now, if that is news.
    pub fn note(&mut self, job: JobId, user: &Name, moment: Moment) {
        if !self.courses.contains_key(&job) && JOBS_MAX <= self.courses.len() {
            return;
        }
        let course = self.courses.entry(job).or_default();
        course.user.clone_from(user);
        course.over_since = None;
        let is_same = |last: &Moment| (last.held, last.reason) == (moment.held, moment.reason);
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
            // Its number may have come again.
            if self.courses.get(&oldest).is_some_and(|course| course.over_since.is_some()) {
                self.courses.remove(&oldest);
            }
        }
    }

    /// Notes an event.
    pub fn tell(&mut self, told: Told) {
        self.events.push_back(told);
        if EVENTS_MAX < self.events.len() {
            self.events.pop_front();
        }
    }

    /// The colour of a user: one that few others have, and the same for as long as possible.
    pub fn colour(&mut self, user: &str) -> usize {
        if let Some(colour) = self.colours.get(user) {
            return *colour;
        }
        if COLOURED_MAX <= self.colours.len() {
            self.colours.clear();
        }
        let mut counts = [0_usize; COLOURS];
        for colour in self.colours.values() {
            counts[*colour] += 1;
        }
        let rarest = counts.iter().enumerate().min_by_key(|(_, count)| **count);
        let colour = rarest.map_or(0, |(colour, _)| colour);
        self.colours.insert(Name::from(user), colour);
        colour
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(cycle: u64, held: u64) -> Moment {
        Moment { at_ms: 0, cycle, held, wanted: 9, reason: "" }
    }

    #[test]
    fn only_what_changed_is_noted_and_not_for_ever() {
        let mut notes = Notes::default();
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

    #[test]
    fn the_first_users_have_colours_of_their_own_and_keep_them() {
        let mut notes = Notes::default();
        let names: Vec<String> = (0..COLOURS).map(|number| format!("u{number}")).collect();
        let colours: Vec<usize> = names.iter().map(|name| notes.colour(name)).collect();
        assert_eq!(colours, (0..COLOURS).collect::<Vec<_>>());
        notes.colour("another");
        assert_eq!(notes.colour("u3"), 3);
        for number in 0..3 * COLOURED_MAX {
            notes.colour(&format!("v{number}"));
        }
        assert!(notes.colours.len() <= COLOURED_MAX);
    }
}
