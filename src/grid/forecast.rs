//! Forecasts: the time until a campaign ends, and the rates of its tasks.

use super::ratio::{ONE, quotient};

/// Window of the throughput, in milliseconds.
pub const WINDOW_MS: u64 = 3_600_000;

/// A task that ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedTask {
    /// Time of its start, in milliseconds of the caller's clock.
    pub began_ms: u64,
    /// Time of its end.
    pub ended_ms: u64,
}

/// Progress of a campaign, on a cluster or on all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CampaignProgress {
    /// Tasks that run.
    pub running: u64,
    /// Tasks that wait, in the bag and on clusters.
    pub waiting: u64,
    /// Time since the first task began, in milliseconds.
    pub age_ms: u64,
    /// Figures of the ended tasks.
    pub tally: TaskFigures,
}

/// Figures of ended tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskFigures {
    /// Number of ended tasks.
    pub count: u64,
    /// Mean time of a task, in milliseconds.
    pub mean_ms: u64,
    /// Standard deviation of the times, in milliseconds.
    pub deviation_ms: u64,
    /// Tasks that ended within the window.
    pub in_window: u64,
    /// Length of the window so far, in milliseconds.
    pub window_ms: u64,
}

/// The formula of a forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForecastBasis {
    /// The mean time of a task, while the campaign is younger than twice that time.
    MeanTime,
    /// The throughput of the window.
    Throughput,
}

impl ForecastBasis {
    /// The word in the database and on the wire.
    pub fn word(self) -> &'static str {
        match self {
            ForecastBasis::MeanTime => "mean-time",
            ForecastBasis::Throughput => "throughput",
        }
    }
}

impl TaskFigures {
    /// Figures of `ended` tasks at time `now_ms`.
    pub fn of(ended: &[EndedTask], now_ms: u64) -> TaskFigures {
        let count = crate::model::count(ended);
        let times = || ended.iter().map(|task| task.ended_ms.saturating_sub(task.began_ms));
        let mean_ms = times().sum::<u64>().checked_div(count).unwrap_or(0);
        let squares = times().map(|time| u128::from(time.abs_diff(mean_ms)).pow(2));
        let variance = squares.sum::<u128>().checked_div(u128::from(count)).unwrap_or(0);
        let opens = now_ms.saturating_sub(WINDOW_MS);
        let inside: Vec<&EndedTask> = ended.iter().filter(|task| opens <= task.ended_ms).collect();
        // The window begins with the campaign, or with the window's own length.
        let first = ended.iter().map(|task| task.began_ms).min().unwrap_or(now_ms);
        TaskFigures {
            count,
            mean_ms,
            deviation_ms: u64::try_from(variance.isqrt()).unwrap_or(u64::MAX),
            in_window: crate::model::count(&inside),
            window_ms: now_ms.saturating_sub(first.max(opens)),
        }
    }

    /// Figures of several clusters, as if they were a single cluster.
    pub fn together<'a>(parts: impl IntoIterator<Item = &'a TaskFigures>) -> TaskFigures {
        let (mut all, mut sum, mut squares) = (TaskFigures::default(), 0_u128, 0_u128);
        for part in parts {
            let (count, mean) = (u128::from(part.count), u128::from(part.mean_ms));
            sum += count * mean;
            squares += count * (u128::from(part.deviation_ms).pow(2) + mean.pow(2));
            all.count = all.count.saturating_add(part.count);
            all.in_window = all.in_window.saturating_add(part.in_window);
            all.window_ms = all.window_ms.max(part.window_ms);
        }
        let count = u128::from(all.count);
        let mean = sum.checked_div(count).unwrap_or(0);
        let square = squares.checked_div(count).unwrap_or(0);
        let whole = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        let deviation_ms = whole(square.saturating_sub(mean.pow(2)).isqrt());
        TaskFigures { mean_ms: whole(mean), deviation_ms, ..all }
    }

    /// Ended tasks for each second, in millionths. `None`: no task has ended in the window.
    pub fn throughput(&self) -> Option<u64> {
        let ended = self.in_window.saturating_mul(1000);
        quotient(ended, self.window_ms).filter(|rate| 0 < *rate)
    }
}

impl CampaignProgress {
    /// The formula that holds now.
    pub fn basis(&self) -> ForecastBasis {
        let is_young = self.age_ms < self.tally.mean_ms.saturating_mul(2);
        if is_young { ForecastBasis::MeanTime } else { ForecastBasis::Throughput }
    }

    /// Returns the time until the end, in milliseconds. `None`: no task has ended yet, or none
    /// runs.
    ///
    /// A running task counts half, since it is half done on average.
    pub fn remaining_ms(&self) -> Option<u64> {
        let halves = u128::from(self.waiting) * 2 + u128::from(self.running);
        if halves == 0 {
            return Some(0);
        }
        let (numerator, divisor) = match self.basis() {
            ForecastBasis::MeanTime if self.tally.count == 0 => return None,
            ForecastBasis::MeanTime => {
                (halves * u128::from(self.tally.mean_ms), u128::from(self.running) * 2)
            }
            ForecastBasis::Throughput => {
                let window = u128::from(self.tally.window_ms);
                (halves * window, u128::from(self.tally.in_window) * 2)
            }
        };
        numerator.checked_div(divisor).and_then(|time| u64::try_from(time).ok())
    }
}

/// Failed tasks of all ended tasks, in millionths: `F / (F + T)`.
pub fn failure_rate(failed: u64, done: u64) -> u64 {
    quotient(failed, failed.saturating_add(done)).unwrap_or(0).min(ONE)
}

/// Resubmitted attempts of all attempts, in millionths: `R / (R + T)`.
pub fn resubmit_rate(resubmitted: u64, done: u64) -> u64 {
    quotient(resubmitted, resubmitted.saturating_add(done)).unwrap_or(0).min(ONE)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn progress(age_ms: u64, mean_ms: u64) -> CampaignProgress {
        let tally =
            TaskFigures { count: 5, mean_ms, deviation_ms: 0, in_window: 20, window_ms: 40_000 };
        CampaignProgress { running: 4, waiting: 10, age_ms, tally }
    }

    #[test]
    fn the_formula_changes_at_twice_the_mean_time() {
        // (10 + 4/2) · 6 s / 4 = 18 s; (10 + 2) / (20 / 40 s) = 24 s.
        let rows = [
            (0, Some(18_000), ForecastBasis::MeanTime),
            (11_999, Some(18_000), ForecastBasis::MeanTime),
            (12_000, Some(24_000), ForecastBasis::Throughput),
            (99_000, Some(24_000), ForecastBasis::Throughput),
        ];
        for (age, remaining, basis) in rows {
            let progress = progress(age, 6000);
            assert_eq!((progress.remaining_ms(), progress.basis()), (remaining, basis), "{age}");
        }
    }

    #[test]
    fn figures_of_clusters_add_up_to_those_of_all_tasks() {
        let ended = |began_ms, ended_ms| EndedTask { began_ms, ended_ms };
        let (here, there) = (
            [ended(0, 2000), ended(1000, 5000), ended(1000, 7000)],
            [ended(0, 9000), ended(500, 1500)],
        );
        let parts = [here.as_slice(), &there].map(|part| TaskFigures::of(part, 10_000));
        let all = TaskFigures::of(&[here.as_slice(), &there].concat(), 10_000);
        assert_eq!(TaskFigures::together(&parts), all);
        assert_eq!(TaskFigures::together([]), TaskFigures::default());
    }

    #[test]
    fn no_forecast_is_made_of_nothing() {
        let none = CampaignProgress { running: 2, waiting: 2, ..CampaignProgress::default() };
        assert_eq!(none.remaining_ms(), None);
        assert_eq!(CampaignProgress::default().remaining_ms(), Some(0));
        let stopped = CampaignProgress { running: 0, ..progress(0, 6000) };
        assert_eq!(stopped.remaining_ms(), None);
    }

    #[test]
    fn rates_follow_the_formulae() {
        assert_eq!(failure_rate(1, 3), 250_000);
        assert_eq!(failure_rate(0, 0), 0);
        assert_eq!(resubmit_rate(2, 8), 200_000);
        let ended = |began_ms, ended_ms| EndedTask { began_ms, ended_ms };
        let tally =
            TaskFigures::of(&[ended(0, 2000), ended(1000, 5000), ended(1000, 7000)], 10_000);
        assert_eq!((tally.count, tally.mean_ms, tally.deviation_ms), (3, 4000, 1632));
        assert_eq!((tally.in_window, tally.window_ms), (3, 10_000));
        assert_eq!(tally.throughput(), Some(300_000));
        let late = TaskFigures::of(&[ended(0, 2000), ended(10, WINDOW_MS)], WINDOW_MS + 2001);
        assert_eq!((late.in_window, late.window_ms), (1, WINDOW_MS));
    }

    /// Numbers by lot, without a library: equal seeds give equal numbers.
    struct Lots(u64);

    impl Lots {
        fn below(&mut self, most: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % most
        }
    }

    /// Times of `count` tasks with about the same mean, in milliseconds.
    fn times(shape: &str, count: u64) -> Vec<u64> {
        let mut lots = Lots(7);
        // A geometric walk is the exponential distribution in whole steps.
        let mut exponential = || {
            let mut time = 500;
            while lots.below(120) != 0 {
                time += 1000;
            }
            time
        };
        match shape {
            "equal" => vec![120_000; usize::try_from(count).unwrap()],
            "exponential" => (0..count).map(|_| exponential()).collect(),
            _ => (0..count).map(|n| if n * 7 % 3 == 0 { 300_000 } else { 30_000 }).collect(),
        }
    }

    #[test]
    fn from_the_half_on_the_end_is_known_within_a_fifth() {
        for shape in ["equal", "exponential", "two-humped"] {
            let slots = 20;
            let times = times(shape, 600);
            let mut running: BTreeSet<(u64, u64, usize)> = BTreeSet::new();
            let (mut next, mut ended, mut now) = (0, Vec::new(), 0);
            let mut forecasts: Vec<(u64, u64)> = Vec::new();
            loop {
                while running.len() < slots && next < times.len() {
                    running.insert((now + times[next], now, next));
                    next += 1;
                }
                let Some((end, began, _)) = running.pop_first() else { break };
                now = end;
                ended.push(EndedTask { began_ms: began, ended_ms: end });
                // Tasks that end at the same moment are seen together.
                if running.first().is_some_and(|(end, ..)| *end == now) {
                    continue;
                }
                let waiting = crate::model::count(&times[next..]);
                let tally = TaskFigures::of(&ended, now);
                let running = crate::model::count(&running);
                let progress = CampaignProgress { running, waiting, age_ms: now, tally };
                if times.len() <= 2 * ended.len() {
                    forecasts.push((
                        now,
                        now + progress
                            .remaining_ms()
                            .unwrap_or_else(|| panic!("{shape} {now} {progress:?}")),
                    ));
                }
            }
            let off = |(_, end): &(u64, u64)| (end.abs_diff(now) * 100).div_euclid(now);
            let worst = forecasts.iter().map(off).max().unwrap();
            assert!(5 < forecasts.len(), "{shape}: {} forecasts", forecasts.len());
            assert!(worst <= 20, "{shape}: off by {worst} % of {now}");
        }
    }
}
