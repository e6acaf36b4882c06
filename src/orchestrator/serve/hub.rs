//! The hub of output: connects the node that sends output with the reader that waits for it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use tokio::sync::mpsc;

use crate::model::Name;
use crate::orchestrator::wire::OutputProblem;

/// A part of the output of a task, or the problem that ends it.
pub type OutputPart = Result<Bytes, OutputProblem>;

/// Readers that wait, by the number of their request.
#[derive(Debug, Default)]
pub struct Hub {
    last: AtomicU64,
    readers: Mutex<BTreeMap<u64, (Name, mpsc::Sender<OutputPart>)>>,
}

impl Hub {
    /// Opens a request for output of `node`.
    pub fn open(&self, node: Name) -> (u64, mpsc::Receiver<OutputPart>) {
        let request = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        // A single part at a time, so that the reader sets the pace.
        let (sender, receiver) = mpsc::channel(1);
        self.locked().insert(request, (node, sender));
        (request, receiver)
    }

    /// Closes a request. Its reader gets what was sent, and no more.
    pub fn close(&self, request: u64) {
        self.locked().remove(&request);
    }

    /// The way to the reader of a request of `node`. `None`: no reader waits.
    pub fn reader(&self, request: u64, node: &str) -> Option<mpsc::Sender<OutputPart>> {
        let readers = self.locked();
        let (known, sender) = readers.get(&request)?;
        (known == node && !sender.is_closed()).then(|| sender.clone())
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, (Name, mpsc::Sender<OutputPart>)>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_reaches_its_reader_from_its_node_only() {
        let hub = Hub::default();
        let (request, mut parts) = hub.open("n1".into());
        assert!(hub.reader(request, "n2").is_none() && hub.reader(request + 1, "n1").is_none());
        let sender = hub.reader(request, "n1").unwrap();
        sender.send(Ok(Bytes::from_static(b"42"))).await.unwrap();
        assert_eq!(parts.recv().await.unwrap().unwrap().as_ref(), b"42");
        drop(parts);
        assert!(hub.reader(request, "n1").is_none(), "the reader is gone");
    }
}
