//! An orchestrator whose database is an older copy: it assigns nothing, publishes nothing and ends
//! nothing, until an operator adopts the attempts that nodes report.
//!
//! Slots go on meanwhile: each exchange is answered, and renews their leases. Agents keep the
//! results and repeat them.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::book::{ExchangeRefusal, Found, adopt};
use super::drive::{BookRequest, ToPublish, wall_ms};
use super::store::{Batch, CallerAct, CampaignStore, DbError};
use super::wire::{Adoption, Exchange, ExchangeAnswer, FoundAttempt, SlotOrder, VERSION};
use crate::model::{Name, count};

/// Longest wait of an answer: an agent asks again at once.
const PAUSE: Duration = Duration::from_secs(1);

/// Requests that are answered once the orchestrator goes on.
pub(super) type Parked = Vec<oneshot::Sender<ToPublish>>;

/// Reports of nodes so far, and requests that wait.
struct PendingAdoption<'a> {
    store: &'a mut CampaignStore,
    lease_ms: u64,
    reports: BTreeMap<Name, Exchange>,
    /// The highest number of work in the schedule.
    used: u64,
    parked: Parked,
}

/// Answers requests until an operator adopts the reported attempts. `None`: the orchestrator is to
/// stop.
///
/// # Errors
///
/// If the database fails.
pub(super) async fn until_adopted(
    store: &mut CampaignStore,
    lease_ms: u64,
    inbox: &mut mpsc::Receiver<BookRequest>,
    stop: &CancellationToken,
) -> Result<Option<Parked>, DbError> {
    let (reports, parked) = (BTreeMap::new(), Vec::new());
    let mut heard = PendingAdoption { store, lease_ms, reports, used: 0, parked };
    loop {
        let request = tokio::select! {
            () = stop.cancelled() => return Ok(None),
            request = inbox.recv() => request,
        };
        let Some(request) = request else { return Ok(None) };
        if heard.take(request).await? {
            return Ok(Some(heard.parked));
        }
    }
}

impl PendingAdoption<'_> {
    /// Takes a request. Returns true if the orchestrator may go on.
    async fn take(&mut self, request: BookRequest) -> Result<bool, DbError> {
        match request {
            BookRequest::Exchange(node, report, wait, reply) => {
                let answer = self.answer(&report);
                self.reports.insert(node, *report);
                tokio::spawn(answer_after(wait.min(PAUSE), reply, answer));
            }
            BookRequest::Schedule(_, jobs) => {
                self.used = jobs.iter().map(|job| job.work).fold(self.used, u64::max);
            }
            BookRequest::Publication(reply) => self.parked.push(reply),
            BookRequest::Adoption(reply) => {
                let found = self.found().await?;
                // A caller that has gone away needs no answer.
                let _ = reply.send(told(true, count(&self.reports), &found));
            }
            BookRequest::Adopt(by, reason, reply) => {
                let found = self.found().await?;
                let attempts = found.attempts.len();
                let detail =
                    format!("{attempts} attempts of {} nodes: {reason}", self.reports.len());
                let (at_ms, act) = (wall_ms(), "adopt".to_owned());
                let act = CallerAct { at_ms, who: by.who, origin: by.origin, act, detail };
                let told = told(false, count(&self.reports), &found);
                let effects = found.effects;
                let batch =
                    Batch { effects, acts: vec![act], at_ms, adopts: true, ..Batch::default() };
                self.store.commit(&batch).await?;
                tracing::warn!(
                    attempts,
                    "older copy of the database adopted; the orchestrator goes on"
                );
                let _ = reply.send(told);
                return Ok(true);
            }
            // All other requests are dropped: their callers get the answer that the orchestrator
            // waits.
            BookRequest::Submit(..)
            | BookRequest::Act(..)
            | BookRequest::Resubmit { .. }
            | BookRequest::Count(_)
            | BookRequest::Nodes(_)
            | BookRequest::Slots(..)
            | BookRequest::Gang(..)
            | BookRequest::Note(..)
            | BookRequest::File(..)
            | BookRequest::Close(..)
            | BookRequest::Notified(..)
            | BookRequest::Published(..)
            | BookRequest::Refused(_)
            | BookRequest::Remove(..)
            | BookRequest::Extend(..)
            | BookRequest::Grid(_)
            | BookRequest::Output(..)
            | BookRequest::OutputHeard(..) => {}
        }
        Ok(false)
    }

    async fn found(&mut self) -> Result<Found, DbError> {
        let saved = self.store.saved().await?;
        Ok(adopt::find(&saved, &self.reports, self.used, wall_ms()))
    }

    /// Builds an answer that lets every slot go on unchanged.
    fn answer(&self, report: &Exchange) -> ExchangeAnswer {
        let slots = report.slots.iter().map(|slot| SlotOrder {
            share: slot.share,
            order: slot.seen_order,
            acked: 0,
            tasks: Vec::new(),
            start: None,
            stop: None,
            recall: Vec::new(),
            cancel: Vec::new(),
            signals: Vec::new(),
            resize: None,
            forget: false,
        });
        ExchangeAnswer {
            v: VERSION,
            orchestrator: self.store.identity().to_owned(),
            epoch: self.store.epoch(),
            lease_ms: self.lease_ms,
            slots: slots.collect(),
            specs: BTreeMap::new(),
            outputs: Vec::new(),
        }
    }
}

async fn answer_after(
    wait: Duration,
    reply: oneshot::Sender<Result<ExchangeAnswer, ExchangeRefusal>>,
    answer: ExchangeAnswer,
) {
    tokio::time::sleep(wait).await;
    // An agent that has gone away asks again.
    let _ = reply.send(Ok(answer));
}

/// Builds the answer about the adoption.
fn told(is_set_back: bool, nodes: u64, found: &Found) -> Adoption {
    let told = |all: &[(super::wire::AttemptId, Name)]| {
        let one = |(id, node): &(super::wire::AttemptId, Name)| FoundAttempt {
            task: *id,
            node: node.to_string(),
        };
        all.iter().map(one).collect()
    };
    let (attempts, strange) = (told(&found.attempts), told(&found.strange));
    Adoption { set_back: is_set_back, nodes, attempts, strange }
}
