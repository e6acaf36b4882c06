//! Pace of the heartbeats.

use std::time::Duration;

use rand::RngExt;

/// Longest wait before the first attempt after a failure.
const FIRST: Duration = Duration::from_secs(1);

/// Waits between heartbeats. They are random within bounds, so that nodes that were started together,
/// or lost the daemon together, do not all send at once.
#[derive(Debug)]
pub struct RetryPace {
    interval: Duration,
    /// Failures in a row.
    failures: u32,
}

impl RetryPace {
    /// A heartbeat every `interval` while all goes well.
    pub fn new(interval: Duration) -> RetryPace {
        RetryPace { interval, failures: 0 }
    }

    /// Returns the wait after a successful heartbeat: the interval, a tenth more or less.
    pub fn after_success(&mut self, lots: &mut impl rand::Rng) -> Duration {
        self.failures = 0;
        let spread = self.interval.div_f64(10.0);
        between(self.interval.saturating_sub(spread), self.interval + spread, lots)
    }

    /// Returns the wait after a failed heartbeat. The longest wait is a second at first, then
    /// doubles up to the interval. The wait is at least half of that.
    pub fn after_failure(&mut self, lots: &mut impl rand::Rng) -> Duration {
        let doubled = FIRST.saturating_mul(2_u32.saturating_pow(self.failures));
        self.failures = self.failures.saturating_add(1);
        let most = doubled.min(self.interval);
        between(most.div_f64(2.0), most, lots)
    }
}

fn between(least: Duration, most: Duration, lots: &mut impl rand::Rng) -> Duration {
    if least < most { lots.random_range(least..most) } else { least }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn failures_make_it_wait_longer_and_never_longer_than_otherwise() {
        let mut lots = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let second = Duration::from_secs(1);
        let mut pace = RetryPace::new(10 * second);
        for most in [1, 2, 4, 8, 10, 10] {
            let wait = pace.after_failure(&mut lots);
            assert!(most * second / 2 <= wait && wait <= most * second, "{wait:?} of {most} s");
        }
        for _ in 0..1_000 {
            let wait = pace.after_success(&mut lots);
            assert!(9 * second <= wait && wait <= 11 * second, "{wait:?}");
        }
        assert!(pace.after_failure(&mut lots) <= second, "as if it were the first");
        let mut hasty = RetryPace::new(second / 100);
        assert!(hasty.after_failure(&mut lots) <= second / 100);
        let waits: Vec<Duration> = (0..9).map(|_| pace.after_success(&mut lots)).collect();
        assert!(waits.iter().any(|wait| *wait != waits[0]), "lots are drawn");
    }
}
