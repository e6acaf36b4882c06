//! Policy for writing checkpoints, and the digests of cycles.
//!
//! A checkpoint is committed with the cycle after its own. A restart thus always computes the last
//! committed cycle again, and gets its report with it.

use std::sync::Arc;
use std::time::Duration;

use crate::journal::{Digest, Digests, seal_checkpoint};
use crate::scheduler::{Planned, Scheduler};
use crate::store::CheckpointRow;

/// Maximum planning time since a checkpoint, which bounds the time of a replay.
const MAX_REPLAY_TIME: Duration = Duration::from_secs(1);

/// Factor on the interval between lasting checkpoints for cycles without planning, which cost next
/// to nothing.
const IDLE_CYCLE_DISCOUNT: u64 = 10;

/// Costs of a replay since the last checkpoints.
#[derive(Debug)]
pub struct CheckpointPolicy {
    every: u64,
    /// Cycles since the last lasting checkpoint.
    cycles: u64,
    /// Planned cycles among them.
    planned: u64,
    /// Time planning took since the last ones, lasting or not.
    work: Duration,
    /// Checkpoint to store with the next cycle.
    due: Option<CheckpointRow>,
    digests: Digests,
}

impl CheckpointPolicy {
    /// Begins with a lasting checkpoint after each `every` planned cycles. Stores `due` with the
    /// next cycle; `replayed` is the work since the last checkpoint.
    pub fn new(
        every: u64,
        due: Option<CheckpointRow>,
        replayed: (u64, Duration),
    ) -> CheckpointPolicy {
        let (cycles, work) = replayed;
        CheckpointPolicy { every, cycles, planned: cycles, work, due, digests: Digests::default() }
    }

    /// The digest of a cycle.
    pub fn digest(&mut self, planned: &Arc<Planned>) -> Digest {
        let (digest, is_planned) = self.digests.next(planned);
        self.planned += u64::from(is_planned);
        digest
    }

    /// Takes out the checkpoint to store with this cycle, if any is due.
    pub fn take(&mut self) -> Option<CheckpointRow> {
        self.due.take()
    }

    /// Counts a planned and committed cycle that `took` this time. Takes a checkpoint if it is due;
    /// no input may have come since the cycle.
    pub fn note(&mut self, scheduler: &Scheduler, took: Duration) {
        self.cycles += 1;
        self.work += took;
        let is_lasting = self.every <= self.planned
            || self.every.saturating_mul(IDLE_CYCLE_DISCOUNT) <= self.cycles;
        if !is_lasting && self.work < MAX_REPLAY_TIME {
            return;
        }
        if is_lasting {
            (self.cycles, self.planned) = (0, 0);
        }
        self.work = Duration::ZERO;
        self.due = Some(CheckpointRow {
            cycle: scheduler.cycle(),
            is_beginning: false,
            is_lasting,
            sealed: seal_checkpoint(&scheduler.state()),
        });
    }
}
