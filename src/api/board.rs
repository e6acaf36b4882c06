//! Publication of the latest view to readers, and of its changes to the metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::api::metrics::Meters;
use crate::api::published::Published;

/// The latest published view; readers load it without a lock.
#[derive(Debug)]
pub struct ViewPublisher {
    latest: ArcSwap<Published>,
    changes: watch::Sender<()>,
    meters: Meters,
    /// Time from `began` until the scheduler last had nothing due, in milliseconds.
    lived: AtomicU64,
    began: Instant,
}

impl ViewPublisher {
    /// A board that shows `first`.
    pub fn new(first: Published) -> ViewPublisher {
        ViewPublisher {
            latest: ArcSwap::from_pointee(first),
            changes: watch::Sender::new(()),
            meters: Meters::default(),
            lived: AtomicU64::new(0),
            began: Instant::now(),
        }
    }

    /// Publishes `next`, and wakes all tasks that wait for a change.
    pub fn publish(&self, next: Published) {
        let next = Arc::new(next);
        let before = self.latest.swap(Arc::clone(&next));
        self.changes.send_replace(());
        // Readers are already notified, so the scheduler's thread has time to count.
        self.meters.step(&before, &next);
    }

    /// Returns the counters and histograms.
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Records that the scheduler is alive and has nothing due.
    pub fn mark_alive(&self) {
        let lived = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.lived.store(lived, Ordering::Relaxed);
    }

    /// Returns the time since the scheduler last proved to be alive.
    pub fn unresponsive_for(&self) -> Duration {
        let lived = Duration::from_millis(self.lived.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(lived)
    }

    /// Returns the latest view.
    pub fn latest(&self) -> Arc<Published> {
        self.latest.load_full()
    }

    /// Returns a channel that signals every later publication of a view.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}
