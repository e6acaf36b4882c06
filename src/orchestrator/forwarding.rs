//! Requests of the router, and of other routers, to the owner of the book.

use tokio::sync::oneshot;

use super::book::{Event, Forwarding, ForwardingView};
use super::drive::{By, Owner, Reply};
use super::store::{OutOfGrid, PassRows};
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
    /// Take a cluster out of the grid, or put it back. The answer is sent once it is on record.
    TakeOut(Name, Option<OutOfGrid>, By, oneshot::Sender<()>),
    /// Put a pass of the router on record. The answer is sent once it is.
    Pass(Box<PassRows>, oneshot::Sender<()>),
}

impl Owner {
    /// Takes a request of a router.
    pub(super) fn take_grid(&mut self, request: GridRequest) {
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
    }
}
