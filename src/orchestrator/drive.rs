//! The owner of the book: takes requests in batches, commits once for each batch, then answers.
//!
//! The owner runs on its own thread. An answer is sent after its batch is committed. If the
//! database fails, the owner ends and every later request fails: no answer tells anything that is
//! not on record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::answers::Answers;
use super::book::{
    Book, CannotExtend, Effect, Event, ExchangeRefusal, Figures, GangState, JobShares, NodeFacts,
    Note, Now, PublishedWork, Settings,
};
use super::extend::{Extend, ExtendReply};
use super::filed::{CannotFile, FileReply};
use super::forwarding::GridRequest;
use super::meters::OrchestratorMeters;
pub use super::resubmit::Which;
use super::store::{Batch, CallerAct, CampaignStore, DbError, RemovalStep};
pub use super::submit::Submit;
use super::wire::{
    AddedTasks, Adoption, Exchange, ExchangeAnswer, NewGridEvent, NodeSlots, OutputRequest,
};
use crate::model::Name;
use crate::slot::since_boot_ms;

/// Most requests in a batch.
const BATCH: usize = 512;
/// Interval between two checks of the leases.
const TICK: Duration = Duration::from_millis(500);

/// The caller of a request, for the record of acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    /// The name of the caller.
    pub who: String,
    /// The origin of the request.
    pub origin: String,
}

/// A request to the owner.
#[derive(Debug)]
pub enum BookRequest {
    /// Submit a campaign; the answer is its number.
    Submit(Box<Submit>, By, oneshot::Sender<u64>),
    /// Add tasks to a campaign.
    Extend(Box<Extend>, By, ExtendReply),
    /// Record an act of an owner or operator. The answer is sent once the act is on record.
    Act(Event, By, &'static str, String, oneshot::Sender<()>),
    /// A request about forwarded tasks or other clusters.
    Grid(GridRequest),
    /// File an event of a node or cluster, or find the event that is open. The answer is its number.
    File(NewGridEvent, By, FileReply),
    /// Close an event of a node or cluster. The answer is false if no such event is open.
    Close(u64, By, oneshot::Sender<bool>),
    /// The notify hook was told of all events up to this number; the note says if it fails.
    Notified(u64, Option<Note>),
    /// Puts a refused act on record.
    Note(By, &'static str, String),
    /// Queue final tasks of a campaign again. The answer is their number.
    Resubmit {
        /// The campaign.
        campaign: u64,
        /// Selection of the tasks.
        which: Which,
        /// The caller.
        by: By,
        /// Receiver of the answer.
        reply: oneshot::Sender<u64>,
    },
    /// The report of a node. Answered when there is news, at the latest after the wait.
    Exchange(
        Name,
        Box<Exchange>,
        Duration,
        oneshot::Sender<Result<ExchangeAnswer, ExchangeRefusal>>,
    ),
    /// The nodes that run slots.
    Nodes(oneshot::Sender<Vec<NodeFacts>>),
    /// The slots of a node; `None` if its agent runs none.
    Slots(Name, oneshot::Sender<Option<NodeSlots>>),
    /// The gang of a campaign; `None` if it has none, or is final.
    Gang(u64, oneshot::Sender<Option<GangState>>),
    /// A new schedule.
    Schedule(Option<u64>, Vec<JobShares>),
    /// Count campaigns, tasks, slots and nodes.
    Count(oneshot::Sender<Figures>),
    /// Attempts that nodes report and an older copy of the database does not know.
    Adoption(oneshot::Sender<Adoption>),
    /// Adopt these attempts, for a reason.
    Adopt(By, String, oneshot::Sender<Adoption>),
    /// All work and gone shares, for a publication.
    Publication(oneshot::Sender<ToPublish>),
    /// The resource manager accepted a publication that declares these shares gone.
    Published(u64, Vec<u64>),
    /// The resource manager refuses the named works, each with its sentence.
    Refused(BTreeMap<u64, String>),
    /// Remove old rows. The answer is true if the same step has more to remove.
    Remove(RemovalStep, oneshot::Sender<bool>),
    /// A node should send output.
    Output(Name, OutputRequest),
    /// The first chunk of output has arrived, or is not wanted any more.
    OutputHeard(Name, u64),
}

/// Contents of a publication.
#[derive(Clone, Debug)]
pub struct ToPublish {
    /// The number of the publication.
    pub sequence: u64,
    /// All work.
    pub work: Vec<PublishedWork>,
    /// Shares that the publication declares gone.
    pub gone: Vec<u64>,
}

/// Signals from the owner to other tasks of this process.
#[derive(Debug)]
pub struct Signals {
    /// Notified when the book has something to publish.
    pub publish: Notify,
    /// Grows with each commit of rows.
    pub committed: watch::Sender<u64>,
    /// Notified after each commit of more than a pass of the router.
    pub route: Notify,
}

/// An agent that waits for an answer.
#[derive(Debug)]
struct Waiter {
    reply: oneshot::Sender<Result<ExchangeAnswer, ExchangeRefusal>>,
    until: Instant,
}

/// Answers that are sent once the batch is on record.
#[derive(Debug)]
pub(super) enum Reply {
    Number(oneshot::Sender<u64>, u64),
    Done(oneshot::Sender<()>),
    Filed(FileReply, Result<u64, CannotFile>),
    Closed(oneshot::Sender<bool>, bool),
    Added(ExtendReply, Result<AddedTasks, CannotExtend>),
    Publication(oneshot::Sender<ToPublish>, ToPublish),
    /// To an agent that exchanges again before it was answered: the orders for its slots, without
    /// tasks.
    Levels(oneshot::Sender<Result<ExchangeAnswer, ExchangeRefusal>>, Name),
    Refused(oneshot::Sender<Result<ExchangeAnswer, ExchangeRefusal>>, ExchangeRefusal),
}

/// The owner.
#[derive(Debug)]
pub struct Owner {
    pub(super) book: Book,
    pub(super) store: CampaignStore,
    pub(super) answers: Answers,
    inbox: mpsc::Receiver<BookRequest>,
    signals: Arc<Signals>,
    meters: OrchestratorMeters,
    /// Start of the batch.
    batch_began: Instant,
    /// True if the batch is more than a pass of the router.
    is_news_to_router: bool,
    waiters: BTreeMap<Name, Waiter>,
    /// Nodes whose waiters are to be answered after the commit.
    ready: BTreeSet<Name>,
    pub(super) batch: Batch,
    pub(super) replies: Vec<Reply>,
    /// The number of the next publication under this epoch.
    sequence: u64,
    /// Time zone of the hours of campaigns.
    pub(super) zone: TimeZone,
}

fn millis(time: u128) -> u64 {
    u64::try_from(time).unwrap_or(u64::MAX)
}

/// The time, in milliseconds since the epoch.
pub(super) fn wall_ms() -> u64 {
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    wall.map_or(0, |time| millis(time.as_millis()))
}

/// The time. Ends of leases are on record, so this clock goes on over restarts.
pub(super) fn now() -> Now {
    Now { ms: since_boot_ms(), wall_ms: wall_ms() }
}

impl Owner {
    /// Answers requests for a publication that came before the owner had a book.
    pub fn publish_to(&mut self, parked: Vec<oneshot::Sender<ToPublish>>) {
        for reply in parked {
            self.publication(reply);
        }
    }

    fn publication(&mut self, reply: oneshot::Sender<ToPublish>) {
        self.meters.published();
        let now = now().ms;
        self.sequence += 1;
        let (sequence, gone) = (self.sequence, self.book.gone());
        let work = self.book.publication(now);
        self.replies.push(Reply::Publication(reply, ToPublish { sequence, work, gone }));
    }

    /// Builds the owner of the book in `store`.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    pub async fn resume(
        mut store: CampaignStore,
        settings: Settings,
        inbox: mpsc::Receiver<BookRequest>,
        signals: Arc<Signals>,
        (meters, zone): (OrchestratorMeters, TimeZone),
    ) -> Result<Owner, DbError> {
        let saved = store.saved().await?;
        let book = Book::restore(settings, saved, since_boot_ms());
        let answers = Answers::new(store.identity().to_owned(), store.epoch(), settings.lease_ms);
        let mut owner = Owner {
            book,
            store,
            answers,
            inbox,
            signals,
            meters,
            batch_began: Instant::now(),
            is_news_to_router: false,
            waiters: BTreeMap::new(),
            ready: BTreeSet::new(),
            batch: Batch::default(),
            replies: Vec::new(),
            sequence: 0,
            zone,
        };
        owner.tell_hours();
        Ok(owner)
    }

    /// Serves requests until `stop`, or until no sender of requests is left. Agents that wait then
    /// learn that the orchestrator has stopped.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), DbError> {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.signals.publish.notify_one();
        loop {
            let due = self.waiters.values().map(|waiter| waiter.until).min();
            let due = due.unwrap_or_else(|| Instant::now() + TICK);
            let mut requests = Vec::new();
            tokio::select! {
                () = stop.cancelled() => {
                    self.finish_batch().await?;
                    return self.store.close().await;
                }
                count = self.inbox.recv_many(&mut requests, BATCH) => {
                    if count == 0 {
                        return self.store.close().await;
                    }
                }
                _ = ticks.tick() => {
                    self.tell_hours();
                    self.record(Event::Elapsed);
                }
                () = tokio::time::sleep_until(due.into()) => {}
            }
            self.batch_began = Instant::now();
            self.is_news_to_router = requests.is_empty();
            for request in requests {
                self.take(request).await?;
            }
            self.finish_batch().await?;
        }
    }

    pub(super) fn record(&mut self, event: Event) {
        for effect in self.book.record(event, now()) {
            match effect {
                Effect::Wake(node) => drop(self.ready.insert(node)),
                Effect::Publish => self.signals.publish.notify_one(),
                Effect::Next(_)
                | Effect::Campaign(_)
                | Effect::Work(_)
                | Effect::Task(_)
                | Effect::Attempt(_)
                | Effect::Slot(_)
                | Effect::SlotForgotten(_)
                | Effect::Note(_)
                | Effect::Fault(_)
                | Effect::Lease(_)
                | Effect::LeaseForgotten(_)
                | Effect::Filed(_)
                | Effect::Suspect(..) => self.batch.effects.push(effect),
            }
        }
    }

    pub(super) fn note(&mut self, by: By, act: &str, detail: String) {
        let at_ms = now().wall_ms;
        let By { who, origin } = by;
        self.batch.acts.push(CallerAct { at_ms, who, origin, act: act.to_owned(), detail });
    }

    pub(super) async fn take(&mut self, request: BookRequest) -> Result<(), DbError> {
        self.is_news_to_router |= !matches!(request, BookRequest::Grid(GridRequest::Pass(..)));
        match request {
            BookRequest::Submit(submit, by, reply) => self.submit(*submit, by, reply).await?,
            BookRequest::Extend(extend, by, reply) => self.extend(*extend, by, reply).await?,
            BookRequest::Act(event, by, act, detail, reply) => {
                self.note(by, act, detail);
                self.record(event);
                self.replies.push(Reply::Done(reply));
            }
            BookRequest::File(event, by, reply) => self.file(event, by, reply),
            BookRequest::Close(id, by, reply) => self.close(id, by, reply),
            BookRequest::Notified(sequence, note) => {
                self.batch.notified = Some(sequence);
                self.batch.effects.extend(note.map(Effect::Note));
            }
            BookRequest::Note(by, act, detail) => self.note(by, act, detail),
            BookRequest::Resubmit { campaign, which, by, reply } => {
                let count = self.resubmit(campaign, which, by).await?;
                self.replies.push(Reply::Number(reply, count));
            }
            BookRequest::Exchange(node, report, wait, reply) => {
                self.hear(node, report, wait, reply);
            }
            BookRequest::Nodes(reply) => drop(reply.send(self.book.nodes(now().ms))),
            BookRequest::Slots(node, reply) => {
                drop(reply.send(self.book.slots_on(&node, now())));
            }
            BookRequest::Schedule(publication, jobs) => {
                self.record(Event::Scheduled(publication, jobs));
            }
            // A caller that has gone away needs no answer.
            BookRequest::Adoption(reply) | BookRequest::Adopt(_, _, reply) => {
                drop(reply.send(Adoption::default()));
            }
            BookRequest::Gang(id, reply) => drop(reply.send(self.book.gang(id))),
            BookRequest::Grid(request) => self.take_grid(request).await?,
            BookRequest::Count(reply) => drop(reply.send(self.book.figures())),
            BookRequest::Publication(reply) => self.publication(reply),
            BookRequest::Published(sequence, gone) => self.record(Event::Published(sequence, gone)),
            BookRequest::Refused(sentences) => self.record(Event::Refused(sentences)),
            BookRequest::Remove(removal, reply) => {
                // A request of this batch may be about the same campaign.
                self.finish_batch().await?;
                // A caller that has gone away needs no answer.
                let _ = reply.send(self.store.remove(&removal).await?);
            }
            BookRequest::Output(node, request) => {
                self.answers.want(node.clone(), request);
                self.ready.insert(node);
            }
            BookRequest::OutputHeard(node, request) => self.answers.heard(&node, request),
        }
        Ok(())
    }

    fn hear(
        &mut self,
        node: Name,
        report: Box<Exchange>,
        wait: Duration,
        reply: oneshot::Sender<Result<ExchangeAnswer, ExchangeRefusal>>,
    ) {
        if let Err(refusal) = self.book.check(&node, &report) {
            self.meters.refused();
            self.replies.push(Reply::Refused(reply, refusal));
            return;
        }
        let results: u64 = report.slots.iter().map(|slot| crate::model::count(&slot.results)).sum();
        self.meters.heard(results);
        self.record(Event::Exchanged(node.clone(), report));
        let until = Instant::now() + wait;
        if let Some(before) = self.waiters.insert(node.clone(), Waiter { reply, until }) {
            // A second exchange ends the first.
            self.replies.push(Reply::Levels(before.reply, node.clone()));
        }
        let has_news = self.book.answer(&node).has_news || self.answers.has_outputs(&node);
        if 0 < results || has_news || wait.is_zero() {
            self.ready.insert(node);
        }
    }

    /// Commits, then answers.
    pub(super) async fn finish_batch(&mut self) -> Result<(), DbError> {
        let mut batch = std::mem::take(&mut self.batch);
        if !batch.is_empty() {
            batch.at_ms = now().wall_ms;
            batch.interruptions = Some(self.book.interruptions());
            let began = Instant::now();
            self.store.commit(&batch).await?;
            self.signals.committed.send_modify(|commits| *commits += 1);
            if std::mem::take(&mut self.is_news_to_router) {
                self.signals.route.notify_one();
            }
            let rows = u32::try_from(batch.effects.len()).unwrap_or(u32::MAX);
            self.meters.committed(rows, began.elapsed());
        }
        for reply in std::mem::take(&mut self.replies) {
            // Callers that have gone away need no answer.
            match reply {
                Reply::Number(reply, number) => drop(reply.send(number)),
                Reply::Done(reply) => drop(reply.send(())),
                Reply::Filed(reply, filed) => drop(reply.send(filed)),
                Reply::Closed(reply, is_closed) => drop(reply.send(is_closed)),
                Reply::Added(reply, added) => drop(reply.send(added)),
                Reply::Publication(reply, all) => drop(reply.send(all)),
                Reply::Levels(reply, node) => {
                    let answer = self.answers.without_tasks(self.book.answer(&node));
                    drop(reply.send(Ok(answer)));
                }
                Reply::Refused(reply, refusal) => drop(reply.send(Err(refusal))),
            }
        }
        let now = Instant::now();
        let late = self.waiters.iter().filter(|(_, waiter)| waiter.until <= now);
        self.ready.extend(late.map(|(node, _)| node.clone()));
        for node in std::mem::take(&mut self.ready) {
            let Some(waiter) = self.waiters.remove(&node) else { continue };
            if waiter.reply.is_closed() {
                continue;
            }
            let answer = self.book.answer(&node);
            let answer = self.answers.complete(&node, answer, &self.book, &mut self.store).await?;
            let tasks = answer.slots.iter().map(|slot| crate::model::count(&slot.tasks)).sum();
            self.meters.answered(self.batch_began.elapsed(), tasks);
            if waiter.reply.send(Ok(answer)).is_ok() {
                self.record(Event::Answered(node));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orchestrator::wire::{Rung, VERSION};

    type Answer = oneshot::Receiver<Result<ExchangeAnswer, ExchangeRefusal>>;

    fn exchange(number: u64) -> (BookRequest, Answer) {
        let report = Exchange {
            v: VERSION,
            boot: "b1".into(),
            life: "l1".into(),
            number,
            limits: Rung::Watched,
            only_user: None,
            address: None,
            epoch: 0,
            slots: Vec::new(),
        };
        let (reply, answer) = oneshot::channel();
        let wait = Duration::from_secs(25);
        (BookRequest::Exchange("n1".into(), Box::new(report), wait, reply), answer)
    }

    #[tokio::test]
    async fn a_second_exchange_ends_the_first_after_the_commit() {
        let folder = tempfile::tempdir().unwrap();
        let store = CampaignStore::open(&folder.path().join("orchestrator.db")).await.unwrap();
        let (_requests, inbox) = mpsc::channel(8);
        let (publish, committed, route) = Default::default();
        let signals = Arc::new(Signals { publish, committed, route });
        let owner = Owner::resume(
            store,
            Settings::default(),
            inbox,
            signals,
            (OrchestratorMeters::default(), TimeZone::UTC),
        );
        let mut owner = owner.await.unwrap();
        let (first, mut answer) = exchange(1);
        owner.take(first).await.unwrap();
        owner.finish_batch().await.unwrap();
        let (second, _later) = exchange(2);
        owner.take(second).await.unwrap();
        assert!(answer.try_recv().is_err(), "it was answered before the commit");
        owner.finish_batch().await.unwrap();
        assert!(answer.try_recv().unwrap().is_ok());
    }
}
