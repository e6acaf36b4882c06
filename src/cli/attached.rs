//! A task that runs for a command: its output here, its exit status ours.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::campaign_wait::{detail, reasons};
use super::failure::{Failure, FailureKind};
use super::output::complain;
use super::place::Orchestrator;
use super::progress::ProgressLine;
use super::submit::say_once;
use super::table::plain;
use super::task::{act, copy};
use crate::orchestrator::wire::{Reason, TaskInfo, TaskResult};

/// The longest time between two looks at the task.
const LOOK: Duration = Duration::from_millis(150);
/// The least time between two of them, at the beginning.
const FIRST_LOOK: Duration = Duration::from_millis(20);
/// Wait after which the command explains it.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time between two questions for the reason.
const AGAIN: Duration = Duration::from_secs(1);
/// Time within which a second Ctrl-C cancels.
const SECOND: Duration = Duration::from_secs(2);
/// Longest wait for output after the end of the task.
const REST: Duration = Duration::from_secs(10);

/// The time until the next look: short tasks are not to wait for it.
fn pause(began: Instant) -> Duration {
    (began.elapsed() / 16).clamp(FIRST_LOOK, LOOK)
}

/// Copies a stream of the attempt after `before` to ours.
pub(super) async fn follow(
    orchestrator: &Orchestrator,
    task: (u64, u64),
    channel: &str,
    before: u64,
) -> Result<(), Failure> {
    let began = Instant::now();
    loop {
        let next = before + 1;
        let info = orchestrator.task_info(task).await;
        if info.is_ok_and(|info| next <= info.attempt) {
            break;
        }
        tokio::time::sleep(pause(began)).await;
    }
    let attempt = (before + 1).to_string();
    let query = [("channel", channel), ("follow", "true"), ("attempt", attempt.as_str())];
    match orchestrator.output(task, &query).await? {
        Ok(output) if channel == "out" => copy(output, &mut std::io::stdout()).await.map(|_| ()),
        Ok(output) => copy(output, &mut std::io::stderr()).await.map(|_| ()),
        Err(why) => {
            complain(&format!("std{channel} cannot be shown: {}", plain(&why)));
            Ok(())
        }
    }
}

pub(super) fn is_final(info: &TaskInfo) -> bool {
    ["done", "failed", "cancelled", "dropped"].contains(&info.state.as_str())
}

/// True if the attempt after `before` has ended.
pub(super) fn has_ended(info: &TaskInfo, before: u64) -> bool {
    info.attempts.last().is_some_and(|last| before < last.attempt && last.result.is_some())
}

/// The end of a task, with its output. Output may be on its way after the result is there.
///
/// # Errors
///
/// As `ended`.
pub(super) async fn end_with_output(
    ended: impl Future<Output = Result<TaskInfo, Failure>>,
    streams: impl Future,
) -> Result<TaskInfo, Failure> {
    tokio::pin!(streams, ended);
    tokio::select! {
        info = &mut ended => {
            let _ = tokio::time::timeout(REST, &mut streams).await;
            info
        }
        _ = &mut streams => ended.await,
    }
}

/// Waits until the attempt after `before` has ended by `has_ended`, passes Ctrl-C on, and explains a
/// long wait.
pub(super) async fn watch(
    orchestrator: &Orchestrator,
    task: (u64, u64),
    before: u64,
    has_ended: impl Fn(&TaskInfo, u64) -> bool,
) -> Result<TaskInfo, Failure> {
    let (began, mut waits, mut interrupted) = (Instant::now(), Waits::default(), None::<Instant>);
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause(began)) => {}
            _ = tokio::signal::ctrl_c() => {
                let is_second = interrupted.is_some_and(|at| at.elapsed() < SECOND);
                interrupted = Some(Instant::now());
                if is_second {
                    act(orchestrator, task, "cancel", &json!({})).await?;
                } else {
                    act(orchestrator, task, "signal", &json!({ "signal": "INT" })).await?;
                }
            }
        }
        let info = match orchestrator.task_info(task).await {
            Ok(info) => info,
            // The orchestrator may restart; the task goes on.
            Err(failure) if failure.exit == FailureKind::Unreachable => {
                waits.say("the orchestrator does not answer; the task goes on");
                continue;
            }
            Err(failure) => return Err(failure),
        };
        if has_ended(&info, before) || is_final(&info) {
            waits.end();
            return Ok(info);
        }
        if info.attempt != before {
            waits.end();
        } else if PATIENCE < began.elapsed() {
            waits.explain(orchestrator, task.0).await;
        }
    }
}

/// Reasons of a task's wait: a current line on a terminal, or else a line for each new reason.
#[derive(Debug, Default)]
struct Waits {
    line: Option<ProgressLine>,
    said: Option<String>,
    asked: Option<Instant>,
}

impl Waits {
    /// Says why the task waits, in the resource manager's own words.
    async fn explain(&mut self, orchestrator: &Orchestrator, id: u64) {
        if self.asked.is_some_and(|asked| asked.elapsed() < AGAIN) {
            return;
        }
        self.asked = Some(Instant::now());
        let Ok(detail) = detail(orchestrator, id).await else { return };
        if let Some(note) = detail.notes.last() {
            return self.say(&note.text);
        }
        if let Ok(why) = reasons(orchestrator, id).await
            && let Some(sentence) = why.sentences.last()
        {
            self.say(&format!("waiting: {sentence}"));
        }
    }

    fn say(&mut self, sentence: &str) {
        let line = self.line.get_or_insert_with(ProgressLine::new);
        if line.is_seen() {
            line.show(sentence);
        } else {
            say_once(&mut self.said, sentence);
        }
    }

    /// Takes the line away, as the task waits no longer.
    fn end(&mut self) {
        if let Some(line) = self.line.take() {
            line.clear();
        }
    }
}

/// The exit status for how the task ended, after a word where its own would not tell.
pub(super) fn told(info: &TaskInfo) -> u8 {
    let result = info.attempts.last().and_then(|last| last.result.as_ref());
    let Some(result) = result else {
        complain(&format!("the task was not run: {}", info.state));
        return 125;
    };
    let status = status_of(result);
    if !matches!(result.why, Reason::Done | Reason::Exit | Reason::Signal) {
        complain(&format!("task {}.{}: {}", info.campaign, info.task, plain(&result.ending())));
        info.advice.iter().skip(1).for_each(|sentence| complain(&format!("  {}", plain(sentence))));
    }
    status
}

fn status_of(result: &TaskResult) -> u8 {
    match result.why {
        Reason::Done => 0,
        Reason::Exit => result.exit.unwrap_or(1),
        Reason::Signal => 128_u8.saturating_add(result.signal.unwrap_or(0)),
        Reason::Memory => 137,
        Reason::TimeLimit => 124,
        Reason::NotFound => 127,
        Reason::NotExecutable => 126,
        Reason::Cancelled => 130,
        Reason::Preempted
        | Reason::VariedOff
        | Reason::Lost
        | Reason::NodeKiller
        | Reason::NoCwd
        | Reason::NoUser
        | Reason::Prologue
        | Reason::Superseded
        | Reason::Returned => 125,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orchestrator::wire::AttemptId;

    #[test]
    fn the_end_of_the_task_is_ours() {
        let status = |why: Reason, exit: Option<u8>, signal: Option<u8>| {
            let task = AttemptId { campaign: 1, task: 1, attempt: 1 };
            let text =
                json!({ "number": 1, "task": task, "why": why, "exit": exit, "signal": signal });
            status_of(&serde_json::from_value(text).unwrap())
        };
        assert_eq!(status(Reason::Done, Some(0), None), 0);
        assert_eq!(status(Reason::Exit, Some(7), None), 7);
        assert_eq!(status(Reason::Signal, None, Some(15)), 143);
        assert_eq!(status(Reason::Memory, None, Some(9)), 137);
        assert_eq!(status(Reason::NotFound, None, None), 127);
        assert_eq!(status(Reason::NodeKiller, None, None), 125);
    }
}
