//! Keeper of a slot: starts or adopts the slot, passes its messages, and ends its leftover
//! processes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::bounds::bound;
use super::ladder::{SlotNotStarted, StartPlan};
use super::node::LocalNode;
use super::records::{ProcessIdentity, SlotRecord};
use crate::orchestrator::wire::{Rung, SlotEnd, SlotReport, SlotStage, TaskSpec};
use crate::slot::UserIdentity;
use crate::slot::wire::{
    self, FromSlot, HEAD, LeasedOrder, MAX_FROM_SLOT, MAX_STDIN_PART, OutputChunk, ReadRequest,
    SlotSettings, ToSlot,
};

/// Interval at which a keeper checks that its slot lives.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time after which a slot that answers no order, or accepts no connection, counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(30);

/// Time that a slot has to stop, beyond twice the time of its tasks. Its epilogue has the same time
/// as the tasks, and a task may forge that its slot is about to end.
const STOP_SLACK: Duration = Duration::from_mins(1);

/// The pause between two attempts to connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(30);

/// The most messages that wait for a connection. Orders that are not taken are said again.
const MAX_UNSENT: usize = 16;

/// Longest time until a slot accepts a message.
const SEND_PATIENCE: Duration = Duration::from_secs(5);

/// Message to a keeper.
#[derive(Debug)]
pub enum ToKeeper {
    /// Order for the slot.
    Order(Box<LeasedOrder>),
    /// The kept standard input of a specification.
    Stdin(u64, Vec<u8>),
    /// A request for output.
    Read(ReadRequest, oneshot::Sender<(OutputChunk, Vec<u8>)>),
    /// The orchestrator has recorded the slot's end: its record may be removed.
    Forget,
}

/// Message of a keeper.
#[derive(Debug)]
pub enum News {
    /// Report of a slot, and the specifications whose input the slot needs.
    Report(SlotReport, Vec<u64>),
    /// The last report of a slot: nothing of it can run any more.
    Gone(SlotReport),
}

/// Inputs for the start of a new slot.
#[derive(Debug)]
pub struct Birth {
    /// The specification that its start names. `None`: the answer did not have it.
    pub spec: Option<TaskSpec>,
    /// Arrival of the order, in milliseconds since the boot.
    pub ordered_ms: u64,
    /// The end of the first lease, in milliseconds since the boot.
    pub lease_until_ms: u64,
}

/// Keeper of a slot.
#[derive(Debug)]
pub struct Keeper {
    pub node: Arc<LocalNode>,
    pub record: SlotRecord,
    pub inbox: mpsc::Receiver<ToKeeper>,
    /// Time at which a slot that was ordered to stop is killed.
    pub kill_at: Option<Instant>,
    pub news: mpsc::Sender<News>,
}

impl Keeper {
    /// Keeps the slot until it is forgotten. `birth`: it is new.
    pub async fn keep(mut self, birth: Option<Birth>) {
        if let Some(birth) = birth
            && let Err((end, text)) = self.start(birth).await
        {
            tracing::warn!(slot = self.record.slot, text, "slot not started");
            self.record.failure = Some((end, text));
            if let Err(error) = self.node.records.save(&self.record) {
                tracing::warn!(slot = self.record.slot, %error, "cannot write the record of a slot");
            }
        }
        let is_alive = |process: &ProcessIdentity| process.is_alive(&self.node.boot);
        let mut last = None;
        let process = self.record.process.clone().filter(|_| self.record.failure.is_none());
        if let Some(process) = process.filter(is_alive) {
            last = self.accompany(&process).await;
        }
        let is_of_this_boot =
            self.record.process.as_ref().is_none_or(|process| process.boot == self.node.boot);
        while is_of_this_boot && !self.node.ladder.end_all(&self.record).await {
            tracing::warn!(slot = self.record.slot, "processes of a slot resist SIGKILL");
        }
        let report = self.last_report(last).await;
        tracing::info!(slot = self.record.slot, end = ?report.end, "slot ended");
        if self.news.send(News::Gone(report)).await.is_err() {
            return;
        }
        self.remain().await;
    }

    async fn start(&mut self, birth: Birth) -> Result<(), SlotNotStarted> {
        let node = Arc::clone(&self.node);
        let start = &self.record.start;
        let account = node.users.account_for(&start.user, start.uid);
        let account = account.map_err(|why| (SlotEnd::NoUser, why))?;
        if start.needs_kernel_limit && node.ladder.rung == Rung::Watched {
            let why = "the campaign requires limits by the kernel, and this node has none";
            return Err((SlotEnd::NoLimit, why.to_owned()));
        }
        let failed = |why: String| (SlotEnd::NotStarted, why);
        let spec = birth.spec.ok_or_else(|| failed("its specification is missing".to_owned()))?;
        let grace_ms = spec.grace_ms;
        let settings = SlotSettings {
            slot: self.record.slot.clone(),
            share: self.record.share,
            node: node.name.clone(),
            start: start.clone(),
            spec,
            home: account.home,
            shell: account.shell,
            ordered_ms: birth.ordered_ms,
            lease_until_ms: birth.lease_until_ms,
            limit: node.ladder.limit(&self.record.slot),
            address: node.address.get(),
        };
        let identity = account.identity;
        let owner = (identity.uid, identity.gid);
        self.record.identity = Some(identity.to_string());
        self.save()?;
        let made = node.spool.make(&self.record.slot, &settings, owner);
        made.map_err(|error| failed(format!("cannot make its folder: {error}")))?;
        let plan = StartPlan {
            program: node.program.clone(),
            slot: self.record.slot.clone(),
            folder: node.spool.of(&self.record.slot),
            identity: Some(identity).filter(|identity| identity.uid != node.users.own_uid()),
            owner,
            memory_mb: self.record.start.memory_mb,
            grace_ms,
            allow_setuid: node.allow_setuid,
            max_processes: node.max_processes,
        };
        let process = node.ladder.start(&plan, &node.boot).await?;
        tracing::info!(slot = plan.slot, pid = process.pid, "slot started");
        self.record.process = Some(process);
        self.save()
    }

    /// Writes the record. Without a record the next agent would not find the slot, so the slot must
    /// not run.
    fn save(&self) -> Result<(), SlotNotStarted> {
        let failed =
            |error| (SlotEnd::NotStarted, format!("cannot write the record of the slot: {error}"));
        self.node.records.save(&self.record).map_err(failed)
    }

    fn uid(&self) -> u32 {
        let identity = self.record.identity.as_deref().and_then(|text| text.parse().ok());
        identity.map_or(0, |UserIdentity { uid, .. }| uid)
    }

    /// Passes messages while the slot lives. Returns its last report if it ended by itself.
    async fn accompany(&mut self, process: &ProcessIdentity) -> Option<SlotReport> {
        let mut last = None;
        let mut waiting = BTreeMap::new();
        // Orders are levels, but the slot needs all orders that came without a connection, since
        // each task is given once.
        let mut unsent: Vec<ToKeeper> = Vec::new();
        // Time since which the slot owes a report. Hanging up does not clear the debt.
        let mut owes_since = Some(Instant::now());
        while process.is_alive(&self.node.boot) {
            if self.inbox.is_closed() {
                // The slot belongs to another orchestrator: it ends with its lease, and gets no
                // message.
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            if self.is_to_be_killed(owes_since) {
                tracing::warn!(slot = self.record.slot, "slot is stuck or does not stop: killed");
                super::sweep::kill(&[process.pid]);
                (owes_since, self.kill_at) = (Some(Instant::now()), None);
            }
            match self.node.spool.connect(&self.record.slot, self.uid(), process.pid).await {
                Ok(stream) => {
                    let said = self.talk(stream, &mut unsent, &mut waiting, &mut owes_since).await;
                    last = said.or(last);
                    waiting.clear();
                }
                Err(_) => owes_since = owes_since.or(Some(Instant::now())),
            }
            // A slot may hang up as often as it is called.
            tokio::select! {
                () = tokio::time::sleep(RECONNECT_PAUSE) => {}
                message = self.inbox.recv(), if unsent.len() < MAX_UNSENT => unsent.extend(message),
            }
        }
        last
    }

    /// True if a slot has owed a report for too long, or should have stopped.
    fn is_to_be_killed(&self, owes_since: Option<Instant>) -> bool {
        owes_since.is_some_and(|since| since.elapsed() > STUCK_AFTER)
            || self.kill_at.is_some_and(|at| at < Instant::now())
    }

    /// Notes the deadline of an order to stop. A later order can only shorten it.
    fn note_stop(&mut self, order: &LeasedOrder) {
        let stop = order.order.as_ref().and_then(|order| order.stop);
        let Some(by_ms) = stop.and_then(|stop| stop.by_ms) else { return };
        let by = Duration::from_millis(by_ms.saturating_mul(2)).saturating_add(STOP_SLACK);
        let at = Instant::now().checked_add(by);
        self.kill_at = self.kill_at.into_iter().chain(at).min();
    }

    /// Exchanges messages with the slot over a connection, until the connection ends or the slot
    /// has to be killed. Returns the last report, if the slot sent it.
    async fn talk(
        &mut self,
        stream: UnixStream,
        unsent: &mut Vec<ToKeeper>,
        waiting: &mut BTreeMap<u64, oneshot::Sender<(OutputChunk, Vec<u8>)>>,
        owes_since: &mut Option<Instant>,
    ) -> Option<SlotReport> {
        let (reader, mut writer) = stream.into_split();
        let mut frames = read_frames(reader);
        let mut last = None;
        while !self.is_to_be_killed(*owes_since) {
            if !unsent.is_empty() {
                let message = unsent.remove(0);
                if let ToKeeper::Order(order) = &message {
                    self.note_stop(order);
                    *owes_since = owes_since.or(Some(Instant::now()));
                }
                if pass_down(&mut writer, message, waiting).await.is_err() {
                    return last;
                }
                continue;
            }
            tokio::select! {
                message = self.inbox.recv() => unsent.push(message?),
                frame = frames.recv() => {
                    let Some((frame, bytes)) = frame else { return last };
                    match frame {
                        FromSlot::Report(report) => {
                            *owes_since = None;
                            last = self.pass_on(*report).await.or(last);
                        }
                        FromSlot::Chunk(chunk) => {
                            if let Some(reader) = waiting.remove(&chunk.request) {
                                // A reader that has left needs no answer.
                                let _ = reader.send((chunk, bytes));
                            }
                        }
                    }
                }
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
        last
    }

    /// Passes a report on. The last report is returned instead: it is passed on after the slot's
    /// end.
    async fn pass_on(&self, report: wire::AgentReport) -> Option<SlotReport> {
        let mut said = report.report;
        said.share = self.record.share;
        bound(&mut said, self.record.start.lanes);
        if said.state == SlotStage::Gone {
            return Some(said);
        }
        said.end = None;
        // An agent that ends has no use for it.
        let _ = self.news.send(News::Report(said, report.needs_stdin)).await;
        None
    }

    /// Returns the last report: sent by the slot, or read from its journal.
    async fn last_report(&self, told: Option<SlotReport>) -> SlotReport {
        if let Some((end, text)) = &self.record.failure {
            return gone(self.record.share, *end, Some(text.clone()));
        }
        if self.record.process.is_none() {
            // The agent ended, which is no fault of the campaign.
            let text = "the agent ended while the slot started";
            return gone(self.record.share, SlotEnd::Died, Some(text.to_owned()));
        }
        if let Some(told) = told {
            return told;
        }
        match self.node.report_dead(&self.record).await {
            Ok(mut report) => {
                report.share = self.record.share;
                report.state = SlotStage::Gone;
                bound(&mut report, self.record.start.lanes);
                report
            }
            Err(why) => {
                tracing::warn!(
                    slot = self.record.slot,
                    why,
                    "cannot read the journal of a dead slot"
                );
                let text = format!("its process died, and its journal is unreadable: {why}");
                gone(self.record.share, SlotEnd::Died, Some(text))
            }
        }
    }

    /// Answers for a slot that ended, until it is forgotten.
    async fn remain(mut self) {
        while let Some(message) = self.inbox.recv().await {
            match message {
                ToKeeper::Read(request, reader) => {
                    if let Ok(answer) = self.node.read_dead(&self.record.slot, &request).await {
                        let _ = reader.send(answer);
                    }
                }
                ToKeeper::Forget => {
                    self.node.records.remove(&self.record.slot);
                    return;
                }
                ToKeeper::Order(_) | ToKeeper::Stdin(..) => {}
            }
        }
    }
}

/// The report on a slot that ended without a report of its own.
pub fn gone(share: u64, end: SlotEnd, text: Option<String>) -> SlotReport {
    SlotReport {
        share,
        state: SlotStage::Gone,
        held: Vec::new(),
        running: Vec::new(),
        want: 0,
        results: Vec::new(),
        seen_order: 0,
        prepared_ms: None,
        port: None,
        end: Some(end),
        text,
    }
}

/// Reads frames until the connection ends or a frame is malformed. A single frame is buffered;
/// further frames wait in the socket.
fn read_frames(mut reader: OwnedReadHalf) -> mpsc::Receiver<(FromSlot, Vec<u8>)> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(frame) = read_frame(&mut reader).await {
            if sender.send(frame).await.is_err() {
                return;
            }
        }
    });
    receiver
}

async fn read_frame(reader: &mut OwnedReadHalf) -> Option<(FromSlot, Vec<u8>)> {
    let mut head = [0; HEAD];
    reader.read_exact(&mut head).await.ok()?;
    let (json, bytes) = wire::lengths(head, MAX_FROM_SLOT).ok()?;
    let all = u64::try_from(json + bytes).ok()?;
    // The buffer grows with what arrives, not with what is announced.
    let mut body = Vec::new();
    reader.take(all).read_to_end(&mut body).await.ok()?;
    if body.len() < json + bytes {
        return None;
    }
    let bytes = body.split_off(json);
    Some((wire::decode(&body).ok()?, bytes))
}

/// Passes a message to the slot.
async fn pass_down(
    writer: &mut (impl AsyncWriteExt + Unpin),
    message: ToKeeper,
    waiting: &mut BTreeMap<u64, oneshot::Sender<(OutputChunk, Vec<u8>)>>,
) -> std::io::Result<()> {
    match message {
        ToKeeper::Order(order) => send(writer, &ToSlot::Order(order), &[]).await,
        ToKeeper::Stdin(spec, bytes) => send_input(writer, spec, &bytes).await,
        ToKeeper::Read(request, reader) => {
            let number = waiting.keys().next_back().map_or(1, |last| last + 1);
            waiting.insert(number, reader);
            send(writer, &ToSlot::Read(ReadRequest { request: number, ..request }), &[]).await
        }
        // Only a slot that ended is forgotten.
        ToKeeper::Forget => Ok(()),
    }
}

async fn send(
    writer: &mut (impl AsyncWriteExt + Unpin),
    message: &ToSlot,
    bytes: &[u8],
) -> std::io::Result<()> {
    let frame = wire::encode(message, bytes)?;
    tokio::time::timeout(SEND_PATIENCE, writer.write_all(&frame)).await?
}

async fn send_input(
    writer: &mut (impl AsyncWriteExt + Unpin),
    spec: u64,
    bytes: &[u8],
) -> std::io::Result<()> {
    let mut from = 0;
    let mut rest = bytes;
    loop {
        let (part, behind) = rest.split_at(rest.len().min(MAX_STDIN_PART));
        let end = behind.is_empty();
        send(writer, &ToSlot::Stdin { spec, from, end }, part).await?;
        if end {
            return Ok(());
        }
        from += u64::try_from(part.len()).unwrap_or(0);
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::slot::wire::AgentReport;

    /// Bytes that a hostile slot sends: most begin as a frame.
    fn forge(lots: &mut ChaCha8Rng, whole: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = whole[lots.random_range(0..whole.len())].clone();
        match lots.random_range(0..6) {
            0 => bytes = (0..lots.random_range(0..200)).map(|_| lots.random()).collect(),
            1 => bytes.truncate(lots.random_range(0..bytes.len())),
            // A wrong length, and a length beyond all limits.
            2 => bytes[lots.random_range(0..HEAD)] = lots.random(),
            3 => bytes[..HEAD].fill(255),
            4 => {
                let nested = [b'[', b'{', b'"'][lots.random_range(0..3)];
                let depth = lots.random_range(1..10_000_u32);
                bytes = vec![nested; HEAD + usize::try_from(depth).unwrap()];
                bytes[..4].copy_from_slice(&depth.to_le_bytes());
                bytes[4..HEAD].fill(0);
            }
            _ => {
                for _ in 0..lots.random_range(0..3) {
                    let place = lots.random_range(HEAD..bytes.len());
                    bytes[place] = b"0123456789-\"{}[]n\xff"[lots.random_range(0..18)];
                }
            }
        }
        bytes
    }

    #[tokio::test]
    async fn a_hundred_thousand_forged_frames_are_read_or_refused() {
        let report = gone(7, SlotEnd::Died, Some("text".to_owned()));
        let report = AgentReport { report, needs_stdin: vec![1, 2] };
        let chunk = OutputChunk { request: 1, from: 0, is_all: true, is_end: true, problem: None };
        let whole = [
            wire::encode(&FromSlot::Report(Box::new(report)), b"").unwrap(),
            wire::encode(&FromSlot::Chunk(chunk), b"bytes").unwrap(),
        ];
        let mut lots = ChaCha8Rng::seed_from_u64(24);
        let mut read = 0_u32;
        for _ in 0..100_000 {
            let (agent, mut slot) = UnixStream::pair().unwrap();
            // Without the other half the connection would end.
            let (reader, _writer) = agent.into_split();
            let mut frames = read_frames(reader);
            // The agent hangs up at a frame that is none.
            let _ = slot.write_all(&forge(&mut lots, &whole)).await;
            drop(slot);
            while frames.recv().await.is_some() {
                read += 1;
            }
        }
        assert!((1_000..99_000).contains(&read), "{read} read");
    }
}
