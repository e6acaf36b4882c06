//! Delay between the arrival of requests and their handling by the daemon.
//!
//! A daemon that has too much to do reads heartbeats late. Such a stall is the daemon's own, and no
//! silence of the nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Interval between two measurements.
const PERIOD: Duration = Duration::from_millis(100);

/// Longest delay since the last call of `take`.
#[derive(Clone, Debug, Default)]
pub struct Delay(Arc<AtomicU64>);

impl Delay {
    /// Notes a delay; the longest counts.
    pub(super) fn note(&self, delay: Duration) {
        let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_max(micros, Ordering::Relaxed);
    }

    /// Returns the longest delay since the last call, and begins anew.
    pub fn take(&self) -> Duration {
        Duration::from_micros(self.0.swap(0, Ordering::Relaxed))
    }

    /// Measures by how much a task comes too late to its turn among all that serve connections, for as
    /// long as it is polled.
    pub(super) async fn measure(&self) {
        loop {
            let due = Instant::now() + PERIOD;
            sleep_until(due).await;
            self.note(due.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_holds_up_all_others_is_a_delay() {
        let delay = Delay::default();
        let measured = delay.clone();
        tokio::spawn(async move { measured.measure().await });
        tokio::time::sleep(2 * PERIOD).await;
        std::thread::sleep(Duration::from_millis(400));
        tokio::time::sleep(2 * PERIOD).await;
        assert!(Duration::from_millis(200) < delay.take());
        assert_eq!(delay.take(), Duration::ZERO, "since the last look");
    }
}
