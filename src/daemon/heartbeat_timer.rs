//! The heartbeat intervals as we keep them.
//!
//! Intervals follow the monotonic clock, so changes of the wall clock do not matter. While the
//! daemon cannot listen, no node counts as silent.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// Timer that ends the heartbeat intervals.
#[derive(Debug)]
pub struct HeartbeatTimer {
    ticks: Interval,
    period: Duration,
}

/// End of an interval: on time, or too late to count misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// On time: a node without a heartbeat was silent.
    InTime,
    /// Late by more than an interval, during which the daemon did not listen.
    Stalled {
        /// Delay after the due time.
        late: Duration,
    },
}

impl HeartbeatTimer {
    /// The first interval begins now.
    pub fn new(period: Duration) -> HeartbeatTimer {
        let mut ticks = interval_at(Instant::now() + period, period);
        // After a pause of the daemon the next interval has its full length.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        HeartbeatTimer { ticks, period }
    }

    /// Waits for the end of an interval.
    pub async fn end(&mut self) -> Ended {
        let due = self.ticks.tick().await;
        ended(Instant::now().saturating_duration_since(due), self.period)
    }
}

impl Ended {
    /// Returns the end of the interval, with regard to the time that requests waited in the
    /// network.
    pub fn with(self, delay: Duration, period: Duration) -> Ended {
        match (self, ended(delay, period)) {
            (Ended::InTime, by_network) => by_network,
            (stalled, _) => stalled,
        }
    }
}

fn ended(late: Duration, period: Duration) -> Ended {
    if late <= period { Ended::InTime } else { Ended::Stalled { late } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_more_is_a_stall_and_a_late_tick_is_none() {
        let period = Duration::from_secs(30);
        for (late, is_stalled) in [(0, false), (29, false), (30, false), (31, true), (600, true)] {
            let late = Duration::from_secs(late);
            let expected = if is_stalled { Ended::Stalled { late } } else { Ended::InTime };
            assert_eq!(ended(late, period), expected);
        }
    }

    #[tokio::test]
    async fn a_pause_of_an_interval_is_a_stall() {
        let mut pulse = HeartbeatTimer::new(Duration::from_millis(20));
        std::thread::sleep(Duration::from_millis(100));
        assert!(matches!(pulse.end().await, Ended::Stalled { .. }));
    }
}
