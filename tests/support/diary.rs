//! The daemon's journal of a cluster, kept in memory.

use apportion::journal::{
    Digest, JournalingScheduler, Replay, ReplayError, digest, seal_checkpoint,
};
use apportion::model::Sealed;
use apportion::scheduler::{Scheduler, View};

/// A journal from a beginning on.
#[derive(Default)]
pub struct Diary {
    pub recorder: JournalingScheduler,
    /// Events before each cycle, the digest of its decision, and the state after it.
    pub cycles: Vec<(Vec<Sealed>, Digest, Sealed)>,
    /// The state before the first cycle.
    pub beginning: Option<Sealed>,
}

impl Diary {
    /// A journal of what happens to `scheduler` from now on.
    pub fn of(scheduler: &Scheduler) -> Diary {
        Diary { beginning: Some(seal_checkpoint(&scheduler.state())), ..Diary::default() }
    }

    /// A cycle was planned, with this outcome.
    pub fn note(&mut self, scheduler: &Scheduler, view: &View) {
        let batches = self.recorder.take().map(|batch| batch.seal()).into_iter().collect();
        let digest = digest(view.planned.as_deref().unwrap());
        self.cycles.push((batches, digest, seal_checkpoint(&scheduler.state())));
    }

    /// Computes all cycles after the `skipped` first cycles again, from the state stored before
    /// them.
    ///
    /// # Errors
    ///
    /// If a cycle cannot be computed again, or differs.
    pub fn replay(&self, skipped: usize) -> Result<Replay, ReplayError> {
        let checkpoint = skipped.checked_sub(1).map(|last| &self.cycles[last].2);
        let checkpoint = checkpoint.or(self.beginning.as_ref()).unwrap();
        let mut replay = Replay::from(0, checkpoint)?;
        for (batches, digest, _) in &self.cycles[skipped..] {
            let next = replay.scheduler().cycle() + 1;
            replay.cycle(next, batches, digest)?;
        }
        Ok(replay)
    }
}
