//! Ends of attempts and slots, in the words of the book.

use super::Now;
use super::rows::SlotState;
use super::slots::Held;
use crate::orchestrator::wire::{AttemptId, Reason, SlotEnd, SlotStage, TaskResult};

/// The end of an attempt that no node reported.
pub(super) fn ended(id: AttemptId, held: &Held, why: Reason, now: Now) -> TaskResult {
    TaskResult {
        number: 0,
        task: id,
        why,
        exit: None,
        signal: None,
        ms: held.begun.map_or(0, |begun| now.ms.saturating_sub(begun)),
        cpu_ms: 0,
        peak_mb: 0,
        rss_mb: 0,
        out: [0, 0],
        tail: String::new(),
        error: String::new(),
        has_saved: held.has_saved,
    }
}

/// The state of a slot at a stage that its agent reported.
pub(super) fn state_of(stage: SlotStage) -> SlotState {
    match stage {
        SlotStage::Starting => SlotState::Starting,
        SlotStage::Preparing => SlotState::Preparing,
        SlotStage::Working => SlotState::Working,
        SlotStage::Idle => SlotState::Idle,
        // The slot counts as gone only after its results are entered.
        SlotStage::Stopping | SlotStage::Gone => SlotState::Stopping,
    }
}

/// True if `end` means that the slot could not begin tasks.
pub(super) fn is_failure(end: SlotEnd) -> bool {
    matches!(end, SlotEnd::NotStarted | SlotEnd::NoUser | SlotEnd::NoLimit | SlotEnd::Prologue)
}

/// The stable word for an end.
pub(super) fn end_word(end: SlotEnd) -> &'static str {
    match end {
        SlotEnd::Idle => "idle",
        SlotEnd::Stopped => "stopped",
        SlotEnd::Unheard => "unheard",
        SlotEnd::Died => "died",
        SlotEnd::NotStarted => "not-started",
        SlotEnd::NoUser => "no-user",
        SlotEnd::NoLimit => "no-limit",
        SlotEnd::Prologue => "prologue",
        SlotEnd::SharedMemory => "shared-memory",
    }
}
