//! Requests of the router, and of other routers, to the owner of the book.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::book::{AwayHook, Event, Forwarding, ForwardingView};
use super::drive::{By, Owner, Reply};
use super::spec::{HookKind, Params};
use super::store::{ChildRow, DbError, OutOfGrid, PassRows, Submission};
use crate::model::Name;

/// A request about forwarded tasks or other clusters.
#[derive(Debug)]
pub enum GridRequest {
    /// Tell the router about campaigns and forwarded tasks.
    View(oneshot::Sender<ForwardingView>),
    /// Enter changes of forwarded tasks. The answer is sent once they are on record.
    Forward(Vec<Forwarding>, oneshot::Sender<()>),
    /// Renew the leases of campaigns, as of a moment in milliseconds since the boot. The answer is
    /// the campaigns whose leases go on.
    Renew(Vec<u64>, u64, oneshot::Sender<Vec<u64>>),
    /// Put the longest lease of a cluster's slots on record, in milliseconds. The answer is sent once
    /// it is.
    SlotLease(Name, u64, oneshot::Sender<()>),
    /// Submit a prologue or epilogue of a campaign on another cluster, unless it was. The answer is sent once it
    /// is on record.
    Hook(u64, Name, HookKind, oneshot::Sender<()>),
    /// A cluster does not answer, with the sentence of its event, or answers again (`None`).
    Heard(Name, Option<String>, oneshot::Sender<()>),
    /// Put the child campaigns of batches on record. The answer is sent once they are.
    Children(Vec<ChildRow>, oneshot::Sender<()>),
    /// Take a cluster out of the grid, or put it back. The answer is sent once it is on record.
    TakeOut(Name, Option<OutOfGrid>, By, oneshot::Sender<()>),
    /// Put a pass of the router on record. The answer is sent once it is.
    Pass(Box<PassRows>, oneshot::Sender<()>),
}

impl Owner {
    /// Takes a request of a router.
    pub(super) async fn take_grid(&mut self, request: GridRequest) -> Result<(), DbError> {
        match request {
            // A caller that has gone away needs no answer.
            GridRequest::View(reply) => drop(reply.send(self.book.forwarding())),
            GridRequest::Forward(changes, reply) => {
                for change in changes {
                    self.record(Event::Forwarded(change));
                }
                self.replies.push(Reply::Done(reply));
            }
            GridRequest::Renew(campaigns, as_of_ms, reply) => {
                self.record(Event::Renewed(campaigns.clone(), as_of_ms));
                drop(reply.send(self.book.renewable(&campaigns)));
            }
            GridRequest::SlotLease(cluster, lease_ms, reply) => {
                self.batch.slot_leases.push((cluster, lease_ms));
                self.replies.push(Reply::Done(reply));
            }
            GridRequest::Hook(campaign, cluster, kind, reply) => {
                self.hook(campaign, cluster, kind).await?;
                self.replies.push(Reply::Done(reply));
            }
            GridRequest::Heard(cluster, why, reply) => {
                self.record(Event::ClusterHeard(cluster, why));
                self.replies.push(Reply::Done(reply));
            }
            GridRequest::Children(children, reply) => {
                self.batch.children.extend(children);
                self.replies.push(Reply::Done(reply));
            }
            GridRequest::TakeOut(cluster, out, by, reply) => {
                let act = if out.is_some() { "grid-out" } else { "grid-in" };
                let why = out.as_ref().map(|out| out.why.as_str()).unwrap_or_default();
                self.note(by, act, format!("cluster {cluster} {why}").trim_end().to_owned());
                self.batch.outs.push((cluster, out));
                self.replies.push(Reply::Done(reply));
            }
            GridRequest::Pass(rows, reply) => {
                self.batch.passes.push(*rows);
                self.replies.push(Reply::Done(reply));
            }
        }
        Ok(())
    }

    /// Submits a prologue or epilogue of a campaign on another cluster, if it is due.
    async fn hook(&mut self, campaign: u64, cluster: Name, kind: HookKind) -> Result<(), DbError> {
        if !self.book.wants_hook(campaign, &cluster, kind) {
            return Ok(());
        }
        let known = self.book.campaigns().get(&campaign);
        let Some(spec) = known.and_then(|campaign| campaign.hook_away(kind)) else { return Ok(()) };
        // Two new specifications of the same batch would get the same number.
        self.finish_batch().await?;
        let (spec_number, spec) = (self.store.spec_number(&spec, None).await?, Arc::new(spec));
        let number = self.book.next_number();
        let known = Arc::clone(&spec);
        let hook = AwayHook { campaign, cluster, kind, spec_number, spec: known };
        self.record(Event::Hooked(Box::new(hook)));
        let (params, stdin, key) = (Params::Numbers, None, None);
        let new = Submission { campaign: number, spec_number, spec, stdin, params, key };
        self.batch.submissions.push(new);
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test's panic is its failure")]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use jiff::tz::TimeZone;
    use tokio::sync::mpsc;

    use super::*;
    use crate::orchestrator::book::Settings;
    use crate::orchestrator::drive::{BookRequest, Signals};
    use crate::orchestrator::meters::OrchestratorMeters;
    use crate::orchestrator::store::CampaignStore;

    /// True if the router was woken since it waited last.
    fn is_woken(signals: &Signals) -> bool {
        let mut change = pin!(signals.route.notified());
        change.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    /// The router waits only after its pass: what is recorded meanwhile must not be lost.
    #[tokio::test]
    async fn records_of_others_wake_the_router_and_its_own_passes_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let store = CampaignStore::open(&folder.path().join("orchestrator.db")).await.unwrap();
        let (_requests, inbox) = mpsc::channel(8);
        let (publish, committed, route) = Default::default();
        let signals = Arc::new(Signals { publish, committed, route });
        let own = Arc::clone(&signals);
        let around = (OrchestratorMeters::default(), TimeZone::UTC);
        let owner = Owner::resume(store, Settings::default(), inbox, own, around);
        let mut owner = owner.await.unwrap();
        let pass = || {
            let (reply, _) = oneshot::channel();
            BookRequest::Grid(GridRequest::Pass(Box::default(), reply))
        };
        owner.take(pass()).await.unwrap();
        owner.finish_batch().await.unwrap();
        assert!(!is_woken(&signals), "by its own pass");
        // An operator comes during a pass, and the rows of the pass after that.
        let by = By { who: "root".to_owned(), origin: "test".to_owned() };
        let (reply, _) = oneshot::channel();
        let out = BookRequest::Grid(GridRequest::TakeOut("lyon".into(), None, by, reply));
        owner.take(out).await.unwrap();
        owner.finish_batch().await.unwrap();
        owner.take(pass()).await.unwrap();
        owner.finish_batch().await.unwrap();
        assert!(is_woken(&signals) && !is_woken(&signals), "once");
    }
}
