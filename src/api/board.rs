//! Where the latest published picture hangs, and what is counted when it changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::api::metrics::Meters;
use crate::api::published::Published;

/// Where the latest picture hangs, for everybody to see.
#[derive(Debug)]
pub struct Board {
    latest: ArcSwap<Published>,
    changes: watch::Sender<()>,
    meters: Meters,
    /// When the scheduler last had nothing due, as time since `began`, in milliseconds.
    lived: AtomicU64,
    began: Instant,
}

impl Board {
    /// A board that shows `first`.
    pub fn new(first: Published) -> Board {
        Board {
            latest: ArcSwap::from_pointee(first),
            changes: watch::Sender::new(()),
            meters: Meters::default(),
            lived: AtomicU64::new(0),
            began: Instant::now(),
        }
    }

    /// Shows `next` from now on, and wakes whoever waits for it.
    pub fn publish(&self, next: Published) {
        let next = Arc::new(next);
        let before = self.latest.swap(Arc::clone(&next));
        self.changes.send_replace(());
        // Whoever waits has been told; the scheduler's thread may count.
        self.meters.step(&before, &next);
    }

    /// What is counted.
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// The scheduler lives, and nothing is due.
    pub fn note_life(&self) {
        let lived = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.lived.store(lived, Ordering::Relaxed);
    }

    /// How long ago the scheduler was last seen to live.
    pub fn silent_for(&self) -> Duration {
        let lived = Duration::from_millis(self.lived.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(lived)
    }

    /// The latest picture.
    pub fn latest(&self) -> Arc<Published> {
        self.latest.load_full()
    }

    /// Tells of every picture published from now on.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}
