//! Figures over time, in bounded memory: the last minutes closely, days ever more coarsely.
//!
//! Samples are in tiers. A sample that leaves a full tier is offered to the next tier, which keeps
//! every fourth. So a day is available as well as a minute, without configuration.

use std::collections::VecDeque;

use crate::model::Name;

/// Samples in each tier.
const TIER: usize = 120;

/// Number of tiers: two minutes, eight more, half an hour more, … about five days in all.
const TIERS: usize = 7;

/// Least time between two samples of the first tier, in milliseconds. Each further tier has four
/// times the spacing of its predecessor.
const FINEST_MS: i64 = 1_000;

/// Users kept in a sample: the users with the largest amounts.
const USERS_MAX: usize = 100;

/// Fair share, holdings and demand of a class or user, in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShareFigures {
    /// Fair share, as if all users could use theirs.
    pub fair_share: u64,
    /// Memory held, without terminating processes.
    pub held: u64,
    /// Demand: memory that it could use now.
    pub demand: u64,
}

/// The cluster at a point in time; amounts are in MiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChartSample {
    /// Time in milliseconds since the epoch.
    pub at_ms: i64,
    /// The cycle.
    pub cycle: u64,
    /// Memory in scheduling.
    pub schedulable: u64,
    /// Memory taken, terminating processes included.
    pub used: u64,
    /// Every class, by name.
    pub classes: Vec<(Name, ShareFigures)>,
    /// Users with fair-share work, by name, over all their classes.
    pub users: Vec<(Name, ShareFigures)>,
}

impl ChartSample {
    /// Returns the figures of a class or of a user; all zero if the sample has none.
    pub fn figures(&self, whose: Whose<'_>) -> ShareFigures {
        let (all, name) = match whose {
            Whose::Class(name) => (&self.classes, name),
            Whose::User(name) => (&self.users, name),
        };
        let found = all.iter().find(|(known, _)| known == name);
        found.map(|(_, figures)| *figures).unwrap_or_default()
    }

    /// Drops the users with the smallest amounts, if there are very many.
    pub fn bound(&mut self) {
        if USERS_MAX < self.users.len() {
            self.users.sort_by_key(|(name, figures)| {
                (std::cmp::Reverse(figures.held.max(figures.fair_share)), name.clone())
            });
            self.users.truncate(USERS_MAX);
            self.users.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
    }
}

/// Class or user of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose<'a> {
    /// A class's.
    Class(&'a str),
    /// A user's.
    User(&'a str),
}

/// All samples there are.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// The finest first; in each the oldest first.
    tiers: [VecDeque<ChartSample>; TIERS],
}

impl Samples {
    /// True if a sample taken at `at_ms` would be kept.
    pub fn is_due(&self, at_ms: i64) -> bool {
        // A clock that was put back must not end the record.
        self.tiers[0]
            .back()
            .is_none_or(|last| at_ms < last.at_ms || FINEST_MS <= at_ms.saturating_sub(last.at_ms))
    }

    /// Keeps a sample, and thins out older ones.
    pub fn push(&mut self, sample: ChartSample) {
        let mut sample = Some(sample);
        let mut spacing = FINEST_MS;
        for tier in &mut self.tiers {
            let Some(next) = sample.take() else { return };
            let is_kept = tier
                .back()
                .is_none_or(|last| next.at_ms < last.at_ms || spacing <= next.at_ms - last.at_ms);
            if is_kept {
                tier.push_back(next);
            }
            sample = if TIER < tier.len() { tier.pop_front() } else { None };
            spacing *= 4;
        }
    }

    /// Adds `older` samples, the oldest first. Samples that are not older than all known samples
    /// are left out.
    pub fn begin_with(&mut self, older: Vec<ChartSample>) {
        let known = std::mem::take(self);
        let first = known.iter().next().map_or(i64::MAX, |sample| sample.at_ms);
        let older = older.into_iter().filter(|sample| sample.at_ms < first);
        for sample in older.chain(known.tiers.into_iter().rev().flatten()) {
            self.push(sample);
        }
    }

    /// All of them, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &ChartSample> {
        self.tiers.iter().rev().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: i64) -> ChartSample {
        ChartSample { at_ms, ..ChartSample::default() }
    }

    #[test]
    fn minutes_are_kept_closely_and_days_coarsely() {
        let mut samples = Samples::default();
        let week = 7 * 24 * 3_600;
        for second in 0..week {
            let at = second * 1_000;
            assert!(samples.is_due(at));
            samples.push(sample(at));
            assert!(!samples.is_due(at + 999));
        }
        let times: Vec<i64> = samples.iter().map(|sample| sample.at_ms).collect();
        assert!(times.is_sorted(), "{times:?}");
        assert!(times.len() <= TIER * TIERS, "{}", times.len());
        let last = (week - 1) * 1_000;
        assert_eq!(times.iter().filter(|&&at| last - 119_000 <= at).count(), TIER);
        assert!(times[0] < last - 4 * 24 * 3_600_000, "days are gone");
        let gaps: Vec<i64> = times.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(gaps.iter().all(|&gap| gap <= 2 * 1_000 * 4_i64.pow(6)), "{gaps:?}");
    }

    #[test]
    fn what_was_before_a_start_comes_first_and_is_thinned_out() {
        let mut samples = Samples::default();
        (0..60).for_each(|second| samples.push(sample(10_000_000 + second * 1_000)));
        let segment = |from: i64| (0..1_000).map(|second| sample(from + second * 1_000)).collect();
        samples.begin_with(segment(8_000_000));
        samples.begin_with(segment(2_000_000));
        let times: Vec<i64> = samples.iter().map(|sample| sample.at_ms).collect();
        assert!(times.is_sorted() && times.len() < 700, "{times:?}");
        assert_eq!((times[0], times.last()), (2_000_000, Some(&10_059_000)));
        let last = times.iter().filter(|at| 10_000_000 <= **at).count();
        assert_eq!(last, 60, "the last minutes are kept closely");
        // Samples that are not older than all known samples are left out.
        let before = samples.iter().count();
        samples.begin_with(segment(9_500_000));
        assert_eq!(samples.iter().count(), before);
    }

    #[test]
    fn a_clock_put_back_ends_nothing() {
        let mut samples = Samples::default();
        samples.push(sample(1_000_000));
        assert!(!samples.is_due(1_000_500) && samples.is_due(1_001_000) && samples.is_due(5));
        samples.push(sample(5));
        assert_eq!(samples.iter().count(), 2);
    }

    #[test]
    fn of_very_many_users_the_largest_are_kept() {
        let user = |number: u64| {
            let figures = ShareFigures { fair_share: number, ..ShareFigures::default() };
            (Name::from(format!("u{number:04}")), figures)
        };
        let mut sample =
            ChartSample { users: (0..500).map(user).collect(), ..ChartSample::default() };
        sample.bound();
        assert_eq!(sample.users.len(), USERS_MAX);
        assert_eq!(sample.figures(Whose::User("u0499")).fair_share, 499);
        assert_eq!(sample.figures(Whose::User("u0001")), ShareFigures::default());
        assert!(sample.users.is_sorted_by(|(one, _), (other, _)| one < other));
    }
}
