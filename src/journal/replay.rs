//! Past cycles, computed again.

use super::digest::{Digest, Digests};
use super::entry::JournalEntry;
use super::seal::{Batch, Unreadable, open_checkpoint};
use crate::engine::Effort;
use crate::model::{Sealed, Steps};
use crate::scheduler::{CommandError, Scheduler, View};

/// A scheduler on its way through the recorded inputs.
#[derive(Clone, Debug)]
pub struct Replay {
    scheduler: Scheduler,
    digests: Digests,
    steps: Steps,
}

/// Reason for which a cycle cannot be computed again, or differs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ReplayError {
    #[error("the checkpoint after cycle {cycle} cannot be read: {why}")]
    SchedulerState { cycle: u64, why: Unreadable },
    #[error("the inputs before cycle {cycle} cannot be read: {why}")]
    Events { cycle: u64, why: Unreadable },
    #[error("before cycle {cycle} a command was carried out that is refused now: {why}")]
    Refused { cycle: u64, why: CommandError },
    #[error("cycle {cycle} is missing")]
    Missing { cycle: u64 },
    #[error(
        "the decision of cycle {cycle} differs: its stored digest is {recorded}, the computed digest is {again}; \
         its stored inputs are unchanged"
    )]
    Differs { cycle: u64, recorded: Digest, again: Digest },
}

impl Replay {
    /// Begins with the checkpoint taken after `cycle`.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn from(cycle: u64, checkpoint: &Sealed) -> Result<Replay, ReplayError> {
        let checkpoint = open_checkpoint(checkpoint)
            .map_err(|why| ReplayError::SchedulerState { cycle, why })?;
        let (scheduler, digests) = (Scheduler::from_state(checkpoint), Digests::default());
        Ok(Replay { scheduler, digests, steps: Steps::default() })
    }

    /// The same, which takes its steps among these.
    #[must_use]
    pub fn telling(self, steps: &Steps) -> Replay {
        Replay { steps: steps.clone(), ..self }
    }

    /// Returns the inputs before `cycle`, from its batches.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn entries(cycle: u64, batches: &[Sealed]) -> Result<Vec<JournalEntry>, ReplayError> {
        let mut entries = Vec::new();
        for batch in batches {
            entries.extend(Batch::open(batch).map_err(|why| ReplayError::Events { cycle, why })?);
        }
        Ok(entries)
    }

    /// Does again what happened after the last cycle.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or not be done.
    pub fn redo(&mut self, batches: &[Sealed]) -> Result<(), ReplayError> {
        let cycle = self.scheduler.cycle() + 1;
        for entry in Replay::entries(cycle, batches)? {
            self.steps.take();
            entry.redo(&mut self.scheduler).map_err(|why| ReplayError::Refused { cycle, why })?;
        }
        Ok(())
    }

    /// Computes the next cycle, `cycle`, again, after applying `batches`; `recorded` is its digest.
    ///
    /// # Errors
    ///
    /// If `cycle` is not the next, the inputs cannot be read or applied, or the decision differs.
    pub fn cycle(
        &mut self,
        cycle: u64,
        batches: &[Sealed],
        recorded: &Digest,
    ) -> Result<View, ReplayError> {
        let next = self.scheduler.cycle() + 1;
        if cycle != next {
            return Err(ReplayError::Missing { cycle: next });
        }
        self.redo(batches)?;
        let view = self.scheduler.schedule_with(&Effort::told(self.steps.clone()));
        let again = view.planned.as_ref().map(|planned| self.digests.next(planned).0);
        let again = again.unwrap_or_default();
        if again == *recorded {
            Ok(view)
        } else {
            Err(ReplayError::Differs { cycle, recorded: *recorded, again })
        }
    }

    /// The scheduler in its current state.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// The scheduler, to continue with.
    pub fn into_scheduler(self) -> Scheduler {
        self.scheduler
    }
}
