//! The notify hook of a site: a program that is told of each event of campaigns.
//!
//! The hook gets a [`CampaignEvent`] as JSON on its standard input, singly and in order. It runs beside the
//! owner of the book, which waits for nothing of it. The last event that it was told of is in the database, so a
//! restart goes on there; an event may come twice after a crash. An event that the hook fails to take is tried
//! three times, then passed over, and a note says so once until the hook works again.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::book::Note;
use super::drive::BookRequest;
use super::site_program;
use super::store::{DbError, EventInfo, StoreReader};
use super::wire::{CampaignEvent, NOTIFY_FAILED};

/// Longest time of the hook.
const LONGEST: Duration = Duration::from_secs(10);
/// Waits before another try.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// Most events of a read.
const PAGE: u32 = 100;
/// Interval of reads without a commit.
const IDLE: Duration = Duration::from_mins(1);

/// Tells the hook of events.
#[derive(Debug)]
pub(super) struct Notifier {
    program: PathBuf,
    reader: StoreReader,
    requests: mpsc::Sender<BookRequest>,
    commits: watch::Receiver<u64>,
    /// The last event that the hook is not told of any more.
    since: u64,
    /// True if that is not on record yet.
    is_new: bool,
    /// True while the hook fails.
    fails: bool,
}

impl Notifier {
    /// Tells `program` of the events in the database of `reader`, after each commit. A hook that was
    /// just configured is told of all events from this moment on, so open it before the owner starts.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    pub async fn open(
        program: PathBuf,
        mut reader: StoreReader,
        requests: mpsc::Sender<BookRequest>,
        commits: watch::Receiver<u64>,
    ) -> Result<Notifier, DbError> {
        let known = reader.notified().await?;
        let since = match known {
            Some(since) => since,
            None => reader.last_event().await?,
        };
        let is_new = known.is_none();
        Ok(Notifier { program, reader, requests, commits, since, is_new, fails: false })
    }

    /// Runs until the owner has stopped.
    pub async fn run(mut self) {
        if let Err(error) = self.follow().await {
            tracing::error!(%error, "the notify hook is told of no further event");
        }
    }

    async fn follow(&mut self) -> Result<(), DbError> {
        if self.is_new && self.keep(None).await.is_none() {
            return Ok(());
        }
        loop {
            self.commits.mark_unchanged();
            let events = self.reader.events(self.since, PAGE).await?;
            if events.is_empty() {
                let change = tokio::time::timeout(IDLE, self.commits.changed()).await;
                if matches!(change, Ok(Err(_))) {
                    return Ok(());
                }
            }
            for event in events {
                self.since = event.id;
                let note = self.tell(event).await;
                if self.keep(note).await.is_none() {
                    return Ok(());
                }
            }
        }
    }

    /// Puts on record up to which event the hook was told. `None`: the owner has stopped.
    async fn keep(&self, note: Option<Note>) -> Option<()> {
        self.requests.send(BookRequest::Notified(self.since, note)).await.ok()
    }

    /// Tells the hook of an event. Returns a note if it begins to fail.
    async fn tell(&mut self, event: EventInfo) -> Option<Note> {
        let (campaign, sequence) = (event.campaign, event.id);
        if event.code == NOTIFY_FAILED {
            return None;
        }
        let input = serde_json::to_vec(&CampaignEvent::from(event)).unwrap_or_default();
        let mut waits = WAITS.iter().take(if self.fails { 0 } else { WAITS.len() });
        let fault = loop {
            let Err(fault) = site_program::run(&self.program, &input, LONGEST).await else {
                self.fails = false;
                return None;
            };
            match waits.next() {
                Some(wait) => tokio::time::sleep(*wait).await,
                None => break fault,
            }
        };
        let program = self.program.display();
        tracing::warn!(sequence, campaign, "the notify hook {program} {fault}");
        let was_told = std::mem::replace(&mut self.fails, true);
        let text =
            format!("the notify hook {program} {fault}; events are passed over until it works");
        let note = Note { campaign, task: None, node: None, code: NOTIFY_FAILED, text };
        (!was_told).then_some(note)
    }
}
