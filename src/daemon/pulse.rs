//! The heartbeat intervals as we keep them.
//!
//! Only the monotonic clock counts: what the clock on the wall does changes nothing. And nobody's
//! silence counts while we could not listen.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// Ends one heartbeat interval after the other.
#[derive(Debug)]
pub struct Pulse {
    ticks: Interval,
    period: Duration,
}

/// How an interval ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// In time: whoever was not heard was silent.
    InTime,
    /// So late that a whole interval more went by in which we did not look.
    Stalled {
        /// How late.
        late: Duration,
    },
}

impl Pulse {
    /// The first interval begins now.
    pub fn new(period: Duration) -> Pulse {
        let mut ticks = interval_at(Instant::now() + period, period);
        // After a pause of ours the next interval is a whole one.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Pulse { ticks, period }
    }

    /// Waits for the end of an interval.
    pub async fn end(&mut self) -> Ended {
        let due = self.ticks.tick().await;
        ended(Instant::now().saturating_duration_since(due), self.period)
    }
}

impl Ended {
    /// The same where what came from the network waited so long besides.
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
    async fn whoever_sleeps_through_an_interval_has_stalled() {
        let mut pulse = Pulse::new(Duration::from_millis(20));
        std::thread::sleep(Duration::from_millis(100));
        assert!(matches!(pulse.end().await, Ended::Stalled { .. }));
    }
}
