//! Reports of a slot, while it runs and from its journal when it is dead.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use super::journal::{self, JournalState};
use super::life::{Phase, RunningSlot};
use super::output::read_kept;
use super::wire::{
    AgentReport, FromSlot, JOURNAL, MAX_QUEUE, MAX_RESULTS, MAX_TEXT, OutputChunk, ReadRequest,
    SETTINGS, SlotSettings,
};
use crate::orchestrator::wire::{
    AttemptId, Channel, OutputProblem, SlotEnd, SlotReport, SlotStage, Stdin, TaskResult,
};

/// The least time between two reports, in milliseconds.
const REPORT_PAUSE: u64 = 20;

/// The longest journal that is read of a dead slot, in bytes.
const MAX_JOURNAL: u64 = 1 << 30;

impl RunningSlot {
    /// Sends the report if there is news and the last report is old enough. Returns the time at
    /// which it is due otherwise.
    pub(super) fn report_when_due(&mut self, now: u64) -> Option<u64> {
        if !self.has_news || self.agent.is_none() {
            return None;
        }
        let due = self.reported_ms.saturating_add(REPORT_PAUSE);
        if due <= now {
            self.send_report(now);
            return None;
        }
        Some(due)
    }

    /// Sends the report to the agent, if an agent is connected.
    pub(super) fn send_report(&mut self, now: u64) {
        let message = FromSlot::Report(Box::new(self.report(now)));
        // An agent that does not take it connects again.
        self.agent.take_if(|agent| agent.send(&message, &[]).is_err());
        self.reported_ms = now;
        self.has_news = false;
    }

    fn report(&self, now: u64) -> AgentReport {
        let runs = || self.lanes.iter().filter_map(|lane| lane.run.as_ref());
        let state = match self.phase {
            Phase::Preparing => SlotStage::Preparing,
            Phase::Ready if self.is_busy() => SlotStage::Working,
            Phase::Ready => SlotStage::Idle,
            Phase::Ending(_) | Phase::Leaving(_) => SlotStage::Stopping,
            Phase::Gone(_) => SlotStage::Gone,
        };
        let end = match self.phase {
            Phase::Gone(end) => Some(end),
            Phase::Preparing | Phase::Ready | Phase::Ending(_) | Phase::Leaving(_) => None,
        };
        let all = if end.is_some() { usize::MAX } else { MAX_RESULTS };
        let report = SlotReport {
            share: self.settings.share,
            state,
            held: self.queue.iter().map(|task| task.task).collect(),
            running: runs().filter_map(|run| run.progress(now)).collect(),
            want: self.want(),
            results: self.results.values().take(all).cloned().collect(),
            seen_order: self.seen_order,
            prepared_ms: self.prepared_ms,
            port: self.rank_port.port(),
            end,
            text: self.text.as_deref().filter(|_| end.is_some()).map(shorten),
        };
        AgentReport { report, needs_stdin: self.needs_stdin() }
    }

    /// Returns the count of further tasks that the slot can hold: enough to fill the lanes and to
    /// reach the group target.
    fn want(&self) -> u64 {
        let has_room =
            self.results.len() < MAX_RESULTS && !self.is_full && self.paused_until_ms == 0;
        if self.phase != Phase::Ready || !has_room {
            return 0;
        }
        let target = self.settings.spec.group_target_ms;
        let mean = self.finished_ms.checked_div(self.finished);
        let queue = match mean {
            Some(mean) if target > 0 => {
                let half = mean >> 1;
                let rounded = target.saturating_add(half).checked_div(mean.max(1)).unwrap_or(0);
                rounded.saturating_add(1).min(MAX_QUEUE)
            }
            Some(_) | None => 1,
        };
        let lanes = crate::model::count(&self.lanes);
        let held = crate::model::count(&self.queue)
            + crate::model::count(self.lanes.iter().filter(|lane| lane.run.is_some()));
        lanes.saturating_add(queue).saturating_sub(held)
    }

    fn needs_stdin(&self) -> Vec<u64> {
        let needs = |number: &u64| {
            let is_kept = |stdin: &Stdin| matches!(stdin, Stdin::Kept { .. });
            let spec = self.specs.get(number);
            spec.is_some_and(|spec| is_kept(&spec.stdin)) && !self.inputs.contains(number)
        };
        let mut specs: Vec<u64> = self.queue.iter().map(|task| task.spec).filter(needs).collect();
        specs.sort_unstable();
        specs.dedup();
        specs
    }

    /// Sends a part of the output of an attempt.
    pub(super) fn answer_read(&mut self, request: ReadRequest) {
        let ReadRequest { request: number, task, channel, from } = request;
        let place = usize::from(channel == Channel::Err);
        let mut runs = self.lanes.iter().filter_map(|lane| lane.run.as_ref());
        let stream =
            runs.find(|run| run.attempt() == Some(task)).and_then(|run| run.streams.get(place));
        let (chunk, bytes) = match stream {
            Some(stream) if stream.is_chosen() => problem(&request, OutputProblem::Elsewhere),
            Some(stream) => match stream.read_from(from) {
                Ok(bytes) => {
                    let is_all = bytes.len() < crate::orchestrator::wire::MAX_CHUNK;
                    (
                        OutputChunk { request: number, from, is_all, is_end: false, problem: None },
                        bytes,
                    )
                }
                Err(_) => problem(&request, OutputProblem::Unreadable),
            },
            None if self.queue.iter().any(|held| held.task == task) => {
                let chunk = OutputChunk {
                    request: number,
                    from,
                    is_all: true,
                    is_end: false,
                    problem: None,
                };
                (chunk, Vec::new())
            }
            None => kept(&self.folder, &self.settings, &request, self.known.contains(task)),
        };
        let message = FromSlot::Chunk(chunk);
        self.agent.take_if(|agent| agent.send(&message, &bytes).is_err());
    }
}

fn shorten(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_TEXT);
    text.get(..end).unwrap_or_default().to_owned()
}

fn problem(request: &ReadRequest, problem: OutputProblem) -> (OutputChunk, Vec<u8>) {
    let ReadRequest { request, from, .. } = *request;
    (OutputChunk { request, from, is_all: true, is_end: true, problem: Some(problem) }, Vec::new())
}

/// Output of an attempt that ended.
fn kept(
    folder: &Path,
    settings: &SlotSettings,
    request: &ReadRequest,
    is_known: bool,
) -> (OutputChunk, Vec<u8>) {
    let ReadRequest { request: number, task, channel, from } = *request;
    let chosen = match channel {
        Channel::Out => &settings.spec.output,
        Channel::Err => &settings.spec.error,
    };
    match read_kept(folder, task, channel, from) {
        Ok(Some((bytes, is_all))) => {
            (OutputChunk { request: number, from, is_all, is_end: is_all, problem: None }, bytes)
        }
        Ok(None) if !is_known => problem(request, OutputProblem::NoSuchAttempt),
        Ok(None) if chosen.is_some() => problem(request, OutputProblem::Elsewhere),
        Ok(None) => (
            OutputChunk { request: number, from, is_all: true, is_end: true, problem: None },
            Vec::new(),
        ),
        Err(_) => problem(request, OutputProblem::Unreadable),
    }
}

/// Reason why a dead slot cannot be reported.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ReportError {
    #[error("cannot read the journal of the slot")]
    Journal(#[source] io::Error),
    #[error("cannot read the settings of the slot")]
    Settings(#[source] io::Error),
    #[error("a slot runs in this folder and reports by itself")]
    Alive,
    #[error("cannot write the report")]
    Write(#[source] io::Error),
}

/// Reads the journal in `folder`, with regard to the attempt `sought`. The journal of a slot that
/// never started is empty.
fn account(folder: &Path, sought: Option<AttemptId>) -> Result<JournalState, ReportError> {
    let path = folder.join(JOURNAL);
    let mut options = File::options();
    let flags =
        journal::no_follow() | i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let options = std::os::unix::fs::OpenOptionsExt::custom_flags(options.read(true), flags);
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(JournalState::default()),
        Err(error) => return Err(ReportError::Journal(error)),
    };
    let lock = rustix::fs::FlockOperation::NonBlockingLockShared;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(ReportError::Journal(io::ErrorKind::InvalidData.into()));
    }
    rustix::fs::flock(&file, lock).map_err(|_| ReportError::Alive)?;
    let mut journal = BufReader::new(file.take(MAX_JOURNAL));
    JournalState::read(&mut journal, sought).map_err(ReportError::Journal)
}

fn settings(folder: &Path) -> Result<SlotSettings, ReportError> {
    super::read_settings(&folder.join(SETTINGS)).map_err(ReportError::Settings)
}

/// Writes the frame with the last report of the dead slot in `folder`, with results behind `acked`.
/// An attempt without a result is lost; an attempt that did not begin is returned.
///
/// # Errors
///
/// If the slot is not dead, or its files cannot be read.
pub fn report_dead(folder: &Path, acked: u64, out: &mut impl Write) -> Result<(), ReportError> {
    let account = account(folder, None)?.settle();
    let settings = settings(folder)?;
    let (end, text) = account.closed.unwrap_or((SlotEnd::Died, None));
    let acked = account.acked.max(acked);
    let results: Vec<TaskResult> =
        account.results.into_values().filter(|result| result.number > acked).collect();
    let report = SlotReport {
        share: settings.share,
        state: SlotStage::Gone,
        held: Vec::new(),
        running: Vec::new(),
        want: 0,
        results,
        seen_order: 0,
        prepared_ms: None,
        port: None,
        end: Some(end),
        text: text.as_deref().map(shorten),
    };
    let message = FromSlot::Report(Box::new(AgentReport { report, needs_stdin: Vec::new() }));
    super::wire::send(out, &message, &[]).map_err(ReportError::Write)
}

/// Writes the frame with output of the dead slot in `folder`.
///
/// # Errors
///
/// See [`report_dead`].
pub fn read_dead(
    folder: &Path,
    request: &ReadRequest,
    out: &mut impl Write,
) -> Result<(), ReportError> {
    let is_known = account(folder, Some(request.task))?.has_begun;
    let settings = settings(folder)?;
    let (chunk, bytes) = kept(folder, &settings, request, is_known);
    super::wire::send(out, &FromSlot::Chunk(chunk), &bytes).map_err(ReportError::Write)
}
