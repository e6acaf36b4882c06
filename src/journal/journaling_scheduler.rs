//! Records inputs: applies them to the scheduler and appends them to the journal.

use super::entry::JournalEntry;
use super::seal::Batch;
use crate::scheduler::{
    AdminCommand, CommandError, CommandOutcome, EventEffect, Scheduler, SchedulerEvent,
};

/// Inputs recorded since the last cycle.
#[derive(Debug, Default)]
pub struct JournalingScheduler {
    batch: Batch,
}

impl JournalingScheduler {
    /// Applies `event` to `scheduler`, and records it if it is news.
    pub fn record(&mut self, scheduler: &mut Scheduler, event: SchedulerEvent) -> EventEffect {
        scheduler.record_with(event, |scheduler, event| {
            self.batch.push(&JournalEntry::of(scheduler, event));
        })
    }

    /// Has `scheduler` carry out `command`.
    ///
    /// # Errors
    ///
    /// If it is refused; then nothing is done, and nothing is entered.
    pub fn command(
        &mut self,
        scheduler: &mut Scheduler,
        command: AdminCommand,
    ) -> Result<CommandOutcome, CommandError> {
        let entry = JournalEntry::Command(command.clone());
        let outcome = scheduler.command(command)?;
        self.batch.push(&entry);
        Ok(outcome)
    }

    /// The daemon was started again.
    pub fn restart(&mut self, scheduler: &mut Scheduler) {
        self.batch.push(&JournalEntry::Restarted);
        scheduler.restart_hearing();
    }

    /// All that was entered since the last time; `None` if nothing was.
    pub fn take(&mut self) -> Option<Batch> {
        let batch = std::mem::take(&mut self.batch);
        (!batch.is_empty()).then_some(batch)
    }
}
