//! Times as figures: milliseconds, the median of many, a ratio of two.

use std::time::Duration;

use serde::Serialize;

/// Duration in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DurationSpread {
    /// Half of the times are no longer.
    pub median: f64,
    /// 99 of 100 times are no longer; of fewer than 100 times the longest.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl DurationSpread {
    /// Spread of `times`; all zero if there are none.
    pub fn of(mut times: Vec<Duration>) -> DurationSpread {
        times.sort_unstable();
        let ranked = |percent| milliseconds(ranked(&times, percent));
        DurationSpread { median: ranked(50), p99: ranked(99), max: ranked(100) }
    }
}

/// The middle of `times`; zero if there are none.
pub(super) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    ranked(&times, 50)
}

/// The first of these sorted times that `percent` percent of them do not exceed.
fn ranked(times: &[Duration], percent: usize) -> Duration {
    let rank = (times.len() * percent).div_ceil(100).saturating_sub(1);
    times.get(rank).copied().unwrap_or_default()
}

/// Converts a time to a number of milliseconds.
pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Ratio of `time` to `unit`; `None` if `unit` was too short to measure.
pub(super) fn ratio(time: Duration, unit: Duration) -> Option<f64> {
    (!unit.is_zero()).then(|| time.as_secs_f64() / unit.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ranked() {
        let times = |most| (1..=most).rev().map(Duration::from_millis).collect::<Vec<_>>();
        let spread = |median, p99, max| DurationSpread { median, p99, max };
        assert_eq!(DurationSpread::of(times(0)), spread(0.0, 0.0, 0.0));
        assert_eq!(DurationSpread::of(times(1)), spread(1.0, 1.0, 1.0));
        assert_eq!(DurationSpread::of(times(5)), spread(3.0, 5.0, 5.0));
        assert_eq!(DurationSpread::of(times(200)), spread(100.0, 198.0, 200.0));
        assert_eq!(median(times(4)), Duration::from_millis(2));
    }

    #[test]
    fn nothing_is_compared_with_no_time_at_all() {
        let [one, three] = [1, 3].map(Duration::from_secs);
        assert_eq!(ratio(three, one), Some(3.0));
        assert_eq!(ratio(three, Duration::ZERO), None);
    }
}
