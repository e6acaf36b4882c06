//! End of an attempt: moves its task by the table of states.

use super::bag::{AGAIN, CHECKPOINTED, LAST, RETURNED};
use super::campaigns::EARLY_STEP;
use super::rows::{Ending, TaskRow, TaskState};
use crate::orchestrator::spec::CampaignSpec;
use crate::orchestrator::wire::{Reason, TaskResult};

/// The exit status that asks for another attempt, soon.
const SOON: u8 = 66;
/// The exit status that asks for another attempt, at the end of the queue.
const LATER: u8 = 67;
/// Most requests of a task for another attempt.
const MAX_RESUBMITS: u64 = 10;
/// Lost attempts after which the task counts as the cause.
pub const LOST_LIMIT: u64 = 5;

/// Enters the end of an attempt into its task, by the table of states.
pub fn enter(task: &mut TaskRow, result: &TaskResult, spec: &CampaignSpec, ending: Option<Ending>) {
    (task.share, task.live) = (None, None);
    task.reason = Some(result.why);
    let is_over = ending.is_some() || task.cancel;
    if is_over && !matches!(result.why, Reason::Done) {
        (task.state, task.cancel) = (TaskState::Cancelled, false);
        return;
    }
    task.cancel = false;
    match result.why {
        Reason::Done => task.state = TaskState::Done,
        Reason::Exit if result.exit == Some(SOON) => resubmit(task, AGAIN),
        Reason::Exit if result.exit == Some(LATER) => resubmit(task, LAST),
        Reason::Memory => more_memory(task, spec),
        Reason::Returned => queue(task, RETURNED),
        Reason::Preempted | Reason::VariedOff => stopped(task, result, spec),
        Reason::Lost | Reason::NodeKiller => lost(task, result.has_saved),
        Reason::Cancelled => task.state = TaskState::Cancelled,
        Reason::Superseded => queue(task, AGAIN),
        Reason::Exit
        | Reason::Signal
        | Reason::TimeLimit
        | Reason::NotFound
        | Reason::NotExecutable
        | Reason::NoCwd
        | Reason::NoUser
        | Reason::Prologue => another_try(task, spec),
    }
}

fn queue(task: &mut TaskRow, priority: u8) {
    (task.state, task.priority) = (TaskState::Queued, priority);
}

fn resubmit(task: &mut TaskRow, priority: u8) {
    task.resubmits += 1;
    if task.resubmits <= MAX_RESUBMITS {
        queue(task, priority);
    } else {
        task.state = TaskState::Failed;
    }
}

fn another_try(task: &mut TaskRow, spec: &CampaignSpec) {
    task.tries += 1;
    if task.tries <= spec.retries {
        queue(task, AGAIN);
    } else {
        task.state = TaskState::Failed;
    }
}

fn more_memory(task: &mut TaskRow, spec: &CampaignSpec) {
    task.tries += 1;
    // Early tasks have the memory of step 0.
    let step = if task.step == EARLY_STEP { 0 } else { task.step };
    if spec.memory_retry.is_some_and(|retry| step < retry.times) {
        task.step = step + 1;
        queue(task, AGAIN);
    } else {
        task.state = TaskState::Failed;
    }
}

/// An attempt that the orchestrator stopped never counts as a failure.
fn stopped(task: &mut TaskRow, result: &TaskResult, spec: &CampaignSpec) {
    if result.exit == Some(0) && spec.stop_zero_is_done {
        task.state = TaskState::Done;
    } else {
        queue(task, if result.has_saved { CHECKPOINTED } else { AGAIN });
    }
}

fn lost(task: &mut TaskRow, has_saved: bool) {
    task.losses += 1;
    if LOST_LIMIT <= task.losses {
        (task.state, task.reason) = (TaskState::Failed, Some(Reason::NodeKiller));
    } else {
        queue(task, if has_saved { CHECKPOINTED } else { AGAIN });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orchestrator::book::tests::{result, spec, task};

    /// The task after an attempt that ended so, as state, priority and tries.
    fn after(
        change: impl Fn(&mut TaskRow, &mut TaskResult, &mut CampaignSpec),
    ) -> (TaskState, u8, u64) {
        let (mut row, mut result, mut spec) = (task(1), result(Reason::Exit), spec(1));
        result.exit = Some(1);
        change(&mut row, &mut result, &mut spec);
        enter(&mut row, &result, &spec, None);
        (row.state, row.priority, row.tries)
    }

    #[test]
    fn the_table_of_states_holds() {
        use TaskState::{Cancelled, Done, Failed, Queued};
        let why = |why: Reason| after(|_, result, _| result.why = why);
        assert_eq!(why(Reason::Done).0, Done);
        assert_eq!(after(|_, result, _| result.exit = Some(66)), (Queued, AGAIN, 0));
        assert_eq!(after(|_, result, _| result.exit = Some(67)), (Queued, LAST, 0));
        let tired = after(|row, result, _| (row.resubmits, result.exit) = (10, Some(66)));
        assert_eq!(tired.0, Failed);
        assert_eq!(after(|_, _, _| ()), (Failed, 10, 1));
        assert_eq!(after(|_, _, spec| spec.retries = 1), (Queued, AGAIN, 1));
        assert_eq!(after(|row, _, spec| (row.tries, spec.retries) = (1, 1)).0, Failed);
        for reason in [Reason::Signal, Reason::TimeLimit, Reason::NotFound, Reason::NoCwd] {
            assert_eq!(why(reason), (Failed, 10, 1), "{reason:?}");
        }
        for reason in [Reason::Preempted, Reason::VariedOff, Reason::Lost] {
            assert_eq!(why(reason), (Queued, AGAIN, 0), "{reason:?}");
            let saved = after(|_, result, _| (result.why, result.has_saved) = (reason, true));
            assert_eq!(saved, (Queued, CHECKPOINTED, 0), "{reason:?}");
        }
        assert_eq!(why(Reason::Returned), (Queued, RETURNED, 0));
        let killer = after(|row, result, _| (row.losses, result.why) = (4, Reason::Lost));
        assert_eq!(killer, (Failed, 10, 0));
        let zero = |done: bool| {
            after(|_, result, spec| {
                (result.why, result.exit, spec.stop_zero_is_done) =
                    (Reason::Preempted, Some(0), done);
            })
        };
        assert_eq!((zero(false).0, zero(true).0), (Queued, Done));
        assert_eq!(why(Reason::Memory), (Failed, 10, 1));
        let retry = crate::orchestrator::spec::MemoryRetry { factor: 2_000_000, times: 1 };
        let more = |step| {
            after(|row, result, spec| {
                (row.step, result.why, spec.memory_retry) = (step, Reason::Memory, Some(retry));
            })
        };
        assert_eq!((more(0).0, more(1).0), (Queued, Failed));
        assert_eq!(more(EARLY_STEP).0, Queued, "an early task has the first size");
        assert_eq!(after(|row, _, spec| (row.cancel, spec.retries) = (true, 5)).0, Cancelled);
    }
}
