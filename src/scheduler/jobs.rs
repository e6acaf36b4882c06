//! The books of work: requests, their shares, and whether they are considered at all.

use std::cell::OnceCell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::shares::{ShareBook, Shares};
use super::users::UserNumber;
use super::view::{Disposition, JobView, Refusal, Removal};
use crate::engine::{JobReport, Preemption};
use crate::model::{
    ClassIx, JobId, JobSpec, Millis, Name, Order, Policy, Quantum, ShareId, ShareState, Topology,
    WorkKind, nearest,
};

/// A request in the books, with the picture that readers have of it. Whoever may change the request
/// discards the picture; so what nobody touched is not drawn again.
#[derive(Clone, Debug)]
pub(super) struct Booked {
    /// Apart: the tree that keeps it is as it grows little more than half full, which with so large
    /// entries would cost as much as the entries.
    book: Box<JobBook>,
    picture: OnceCell<Arc<JobView>>,
}

/// A request and what it has.
#[derive(Clone, Debug)]
pub(super) struct JobBook {
    pub spec: JobSpec,
    pub user: UserNumber,
    pub admission: Result<Admission, Refusal>,
    pub shares: Shares,
    /// Shares that died with their node and whose end is not confirmed; they hold no space.
    pub purged: Shares,
    /// Since which cycle it has been below its count and has got nothing.
    pub behind_since: Option<u64>,
    /// Whether its one process came and went; such work gets no second one.
    pub is_spent: bool,
    pub last: LastCycle,
}

/// What the last cycle did with a job.
#[derive(Clone, Debug, Default)]
pub(super) struct LastCycle {
    pub report: Option<JobReport>,
    pub preemptions: Vec<Preemption>,
    pub has_grown: bool,
    pub has_shrunk: bool,
}

/// Where admitted work belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Its class.
    pub class: ClassIx,
    /// The order of one process.
    pub order: Order,
    /// The quantum that order counts in.
    pub quantum: Quantum,
}

/// Whether work may be scheduled under `topology`, and where it belongs.
///
/// # Errors
///
/// The reason why it is not considered at all.
pub fn admit(topology: &Topology, spec: &JobSpec) -> Result<Admission, Refusal> {
    let Some(ix) = topology.class_named(&spec.class) else {
        let classes = topology.classes.iter().map(|class| class.name.as_str());
        let nearest = nearest(&spec.class, classes).map(Name::from);
        return Err(Refusal::UnknownClass { class: spec.class.clone(), nearest });
    };
    let class = &topology.classes[ix.0];
    if !class.admits(&spec.user) {
        return Err(Refusal::UserNotAllowed { user: spec.user.clone(), class: spec.class.clone() });
    }
    if let (Some(kind), Policy::FairShare { .. }) = (needs_stability(spec.kind), &class.policy) {
        return Err(Refusal::PreemptableClass { kind, class: spec.class.clone() });
    }
    let quantum = topology.pools[class.pool.0].quantum;
    match quantum.order_of_work(spec.memory) {
        Some(order) => Ok(Admission { class: ix, order, quantum }),
        None => Err(Refusal::MemoryOutOfRange { memory: spec.memory, quantum: quantum.memory() }),
    }
}

/// The kinds of work that preemption would end for good, by name.
fn needs_stability(kind: WorkKind) -> Option<&'static str> {
    match kind {
        WorkKind::Job => None,
        WorkKind::Service => Some("service"),
        WorkKind::ArbitraryProcess => Some("arbitrary process"),
        WorkKind::Reservation => Some("reservation"),
    }
}

impl From<JobBook> for Booked {
    fn from(book: JobBook) -> Booked {
        Booked { book: Box::new(book), picture: OnceCell::new() }
    }
}

impl Deref for Booked {
    type Target = JobBook;

    fn deref(&self) -> &JobBook {
        &self.book
    }
}

impl DerefMut for Booked {
    fn deref_mut(&mut self) -> &mut JobBook {
        self.picture.take();
        &mut self.book
    }
}

impl Booked {
    /// What readers see of it, drawn by `draw` if it changed since it was last drawn.
    pub(super) fn picture(&self, draw: impl FnOnce(&JobBook) -> JobView) -> Arc<JobView> {
        Arc::clone(self.picture.get_or_init(|| Arc::new(draw(&self.book))))
    }

    /// Has it drawn again, though nothing changed.
    pub(super) fn discard_picture(&mut self) {
        self.picture.take();
    }

    /// Forgets what the last cycle did with it; what was reported stays until the next report, if
    /// there is to be one.
    pub(super) fn begin_cycle(&mut self) {
        let LastCycle { report, preemptions, has_grown, has_shrunk } = &self.book.last;
        let is_stale = report.is_some() && self.book.admission.is_err();
        if is_stale || !preemptions.is_empty() || *has_grown || *has_shrunk {
            let report = self.book.last.report.filter(|_| !is_stale);
            self.last = LastCycle { report, ..LastCycle::default() };
        }
    }

    /// Marks the held shares that `must_go` as leaving. Work that is one process is over with it.
    pub(super) fn evict(&mut self, removal: Removal, must_go: impl Fn(&ShareBook) -> bool) {
        let goes = |share: &ShareBook| share.state == ShareState::Held && must_go(share);
        if self.book.shares.iter().any(&goes) {
            self.deref_mut().evict(removal, goes);
        }
    }

    /// Enters what `cycle` says about it. Says whether it began to wait, or no longer does.
    pub(super) fn note_report(
        &mut self,
        cycle: u64,
        report: JobReport,
        has_got_room: bool,
    ) -> bool {
        let is_behind = report.held.0 + report.promised.0 < report.given.0;
        let waits = is_behind && !has_got_room && !self.last.has_grown;
        let has_changed = waits != self.behind_since.is_some();
        if has_changed || self.last.report != Some(report) {
            self.behind_since = waits.then(|| self.behind_since.unwrap_or(cycle));
            self.last.report = Some(report);
        }
        has_changed
    }
}

impl JobBook {
    pub(super) fn new(spec: JobSpec, user: UserNumber, topology: &Topology) -> JobBook {
        JobBook {
            admission: admit(topology, &spec),
            spec,
            user,
            shares: Shares::default(),
            purged: Shares::default(),
            behind_since: None,
            is_spent: false,
            last: LastCycle::default(),
        }
    }

    /// What all work is in order by: the oldest first.
    pub(super) fn age(&self) -> (Millis, JobId) {
        (self.spec.submitted, self.spec.id)
    }

    /// The policy of its class; `None` while it is refused.
    pub(super) fn policy<'t>(&self, topology: &'t Topology) -> Option<&'t Policy> {
        self.admission.as_ref().ok().map(|admission| &topology.classes[admission.class.0].policy)
    }

    /// Takes a share off the books: its process is gone. Work that is one process is over with it.
    pub(super) fn end_share(&mut self, share: ShareId) {
        self.purged.remove(share);
        if self.shares.remove(share).is_some() && self.spec.kind != WorkKind::Job {
            self.is_spent = true;
        }
    }

    fn evict(&mut self, removal: Removal, must_go: impl Fn(&ShareBook) -> bool) {
        for share in self.shares.iter_mut().filter(|share| must_go(share)) {
            share.state = ShareState::Leaving;
            share.removal = Some(removal);
            self.last.has_shrunk = true;
            self.is_spent |= self.spec.kind != WorkKind::Job;
        }
    }

    /// How the last cycle left it.
    pub(super) fn disposition(&self) -> Disposition {
        let holds = self.shares.iter().any(|share| share.state == ShareState::Held);
        match (&self.admission, self.spec.kind) {
            (Err(_), _) => Disposition::Refused,
            (Ok(_), WorkKind::Reservation) if holds => Disposition::Reserved,
            (Ok(_), _) if self.last.has_shrunk => Disposition::Shrunken,
            (Ok(_), _) if self.last.has_grown => Disposition::Expanded,
            (Ok(_), _) if holds => Disposition::Stable,
            (Ok(_), _) => Disposition::Dormant,
        }
    }
}
