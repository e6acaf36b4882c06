//! Passes the output of tasks on to readers, at the pace of the reader.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::head::Head;
use super::keeper::ToKeeper;
use super::node::LocalNode;
use crate::orchestrator::wire::{ChunkQuery, OutputProblem, OutputRequest};
use crate::slot::wire::{OutputChunk, ReadRequest};

/// The longest pause before the next look at an output that may grow.
const FOLLOW_PAUSE: Duration = Duration::from_millis(200);

/// The first pause, for tasks that end at once.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// Attempts to read an output that cannot be read. Its slot may be about to end, and its files can
/// be read after that.
const TRIES: u32 = 10;

/// Longest time for a slot to read an output.
const PATIENCE: Duration = Duration::from_secs(30);

/// Source of an output.
#[derive(Debug)]
pub struct OutputSource {
    /// The keeper of the slot, until that is forgotten.
    pub keeper: Option<mpsc::Sender<ToKeeper>>,
    /// The node that has its folder.
    pub node: Arc<LocalNode>,
    /// The name of the slot.
    pub slot: String,
}

/// Sends the output until it ends, or no more of it is wanted.
pub async fn relay(head: Arc<Head>, request: OutputRequest, source: OutputSource) {
    let mut from = request.from;
    let mut pause = FIRST_PAUSE;
    let mut tries = TRIES;
    loop {
        let read = ReadRequest { request: 0, task: request.task, channel: request.channel, from };
        let (chunk, bytes) = match source.read(read).await {
            Some(found) => found,
            None if 0 < tries => {
                tries -= 1;
                tokio::time::sleep(FOLLOW_PAUSE).await;
                continue;
            }
            None => (problem(from), Vec::new()),
        };
        let is_last = chunk.is_end || (chunk.is_all && !request.follow);
        let is_nothing = bytes.is_empty() && !is_last;
        if !is_nothing {
            let query = ChunkQuery { from, end: is_last, problem: chunk.problem };
            from += u64::try_from(bytes.len()).unwrap_or(0);
            match head.send_output(request.request, &query, bytes).await {
                Ok(true) if !is_last => {}
                Ok(_) => return,
                Err(why) => {
                    tracing::info!(request = request.request, why, "output not sent");
                    return;
                }
            }
        }
        if chunk.is_all {
            tokio::time::sleep(pause).await;
        }
        pause = if is_nothing { FOLLOW_PAUSE.min(pause * 2) } else { FIRST_PAUSE };
    }
}

fn problem(from: u64) -> OutputChunk {
    let problem = Some(OutputProblem::Unreadable);
    OutputChunk { request: 0, from, is_all: true, is_end: true, problem }
}

impl OutputSource {
    async fn read(&self, request: ReadRequest) -> Option<(OutputChunk, Vec<u8>)> {
        if let Some(keeper) = &self.keeper {
            let (answer, answered) = oneshot::channel();
            // A keeper has ended when its slot is forgotten; the output stays in the folder.
            if keeper.send(ToKeeper::Read(request, answer)).await.is_ok() {
                return tokio::time::timeout(PATIENCE, answered).await.ok()?.ok();
            }
        }
        self.node.read_dead(&self.slot, &request).await.ok()
    }
}
