//! Passes the output of tasks on to readers, at the pace of the reader.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::head::Head;
use super::keeper::ToKeeper;
use super::node::Node;
use crate::orchestrator::wire::{ChunkQuery, OutputProblem, OutputRequest};
use crate::slot::wire::{Chunk, ReadRequest};

/// The pause before the next look at an output that may grow.
const FOLLOW_PAUSE: Duration = Duration::from_millis(200);

/// How long a slot may take to read.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the output is.
#[derive(Debug)]
pub enum Source {
    /// A slot that has a keeper.
    Keeper(mpsc::Sender<ToKeeper>),
    /// The folder of a slot that is forgotten.
    Folder(Arc<Node>, String),
}

/// Sends the output until it ends, or no more of it is wanted.
pub async fn relay(head: Arc<Head>, request: OutputRequest, source: Source) {
    let mut from = request.from;
    loop {
        let read = ReadRequest { request: 0, task: request.task, channel: request.channel, from };
        let (chunk, bytes) = match source.read(read).await {
            Some(found) => found,
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
            tokio::time::sleep(FOLLOW_PAUSE).await;
        }
    }
}

fn problem(from: u64) -> Chunk {
    let problem = Some(OutputProblem::Unreadable);
    Chunk { request: 0, from, is_all: true, is_end: true, problem }
}

impl Source {
    async fn read(&self, request: ReadRequest) -> Option<(Chunk, Vec<u8>)> {
        match self {
            Source::Keeper(keeper) => {
                let (answer, answered) = oneshot::channel();
                keeper.send(ToKeeper::Read(request, answer)).await.ok()?;
                tokio::time::timeout(PATIENCE, answered).await.ok()?.ok()
            }
            Source::Folder(node, slot) => node.read_dead(slot, &request).await.ok(),
        }
    }
}
