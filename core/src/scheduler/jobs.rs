//! State of jobs: requests, their shares, and their admission.

use std::sync::Arc;

use super::shares::{ShareList, ShareRecord};
use super::tracked_job::Age;
use super::urgent::{JobChannel, UrgentGrant};
use super::users::UserNumber;
use super::view::{JobDisposition, Refusal, Removal};
use crate::engine::{GangProgress, Preemption};
use crate::model::{
    ClassIx, ClassPolicy, JobKind, JobSpec, Name, Order, Quantum, ResourceClass, Shape, ShareId,
    SharePhase, Topology, nearest,
};

/// A request and what it has.
#[derive(Clone, Debug)]
pub(super) struct JobRecord {
    pub spec: JobSpec,
    pub user: UserNumber,
    /// The class of the name it was submitted to, whether it is admitted to it or not.
    pub class: Option<ClassIx>,
    pub admission: Result<Admission, Box<Refusal>>,
    pub shares: ShareList,
    /// Shares that died with their node and whose end is not confirmed; they hold no space.
    pub purged: ShareList,
    /// True if the job's single process has ended; the job gets no second process.
    pub is_spent: bool,
    /// Start of a gang.
    pub gang: GangProgress,
    /// Promise to a job that came by the channel of urgent work.
    pub urgent: Option<Arc<UrgentGrant>>,
    pub last: LastCycle,
}

/// Changes that the last cycle made to a job.
#[derive(Clone, Debug, Default)]
pub(super) struct LastCycle {
    pub preemptions: Vec<Preemption>,
    pub has_grown: bool,
    pub has_shrunk: bool,
}

/// Class and size of an admitted job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Class of the job.
    pub class: ClassIx,
    /// Order of a single process.
    pub order: Order,
    /// The quantum that order counts in.
    pub quantum: Quantum,
}

/// Admits a job that came by `channel` under `topology`: finds its class, order and quantum.
///
/// # Errors
///
/// The reason why it is not considered at all.
pub fn admit(
    topology: &Topology,
    spec: &JobSpec,
    channel: JobChannel,
) -> Result<Admission, Refusal> {
    let Some(ix) = topology.class_named(&spec.class) else {
        let classes = topology.classes.iter().map(|class| class.name.as_str());
        let nearest = nearest(&spec.class, classes).map(Name::from);
        return Err(Refusal::UnknownClass { class: spec.class.clone(), nearest });
    };
    let class = &topology.classes[ix];
    if !class.admits(&spec.user) {
        return Err(Refusal::UserNotAllowed { user: spec.user.clone(), class: spec.class.clone() });
    }
    if let (Some(kind), ClassPolicy::FairShare { .. }) = (needs_stability(spec.kind), &class.policy)
    {
        return Err(Refusal::PreemptableClass { kind, class: spec.class.clone() });
    }
    if class.is_urgent && channel != JobChannel::Urgent {
        return Err(Refusal::OnlyUrgent { class: spec.class.clone() });
    }
    if let Some(shape) = spec.shape.as_deref() {
        check_shape(topology, spec, class, shape)?;
    }
    let quantum = topology.pools[class.pool].quantum;
    match quantum.order_of_work(spec.memory) {
        Some(order) => Ok(Admission { class: ix, order, quantum }),
        None => Err(Refusal::MemoryOutOfRange { memory: spec.memory, quantum: quantum.memory() }),
    }
}

/// Checks the shape of a job against the rules of its class for gangs.
fn check_shape(
    topology: &Topology,
    spec: &JobSpec,
    class: &ResourceClass,
    shape: &Shape,
) -> Result<(), Refusal> {
    if (shape.is_gang() || shape.is_sized()) && !class.gangs.are_allowed {
        let allowing = topology.classes.iter();
        let allowing = allowing.filter(|class| class.gangs.are_allowed && class.admits(&spec.user));
        return Err(Refusal::GangNotAllowed {
            class: class.name.clone(),
            allowing: allowing.map(|class| class.name.clone()).collect(),
        });
    }
    match (shape.duration, class.gangs.max_duration) {
        (Some(duration), Some(most)) if most < duration => {
            Err(Refusal::TooLong { class: class.name.clone(), duration, most })
        }
        _ => Ok(()),
    }
}

/// The kinds of work that preemption would end for good, by name.
fn needs_stability(kind: JobKind) -> Option<&'static str> {
    match kind {
        JobKind::Job => None,
        JobKind::Service => Some("service"),
        JobKind::ArbitraryProcess => Some("arbitrary process"),
        JobKind::Reservation => Some("reservation"),
    }
}

impl JobRecord {
    pub(super) fn new(spec: JobSpec, user: UserNumber, topology: &Topology) -> JobRecord {
        let mut record = JobRecord {
            gang: GangProgress::default(),
            urgent: None,
            class: None,
            admission: admit(topology, &spec, JobChannel::Publication).map_err(Box::new),
            spec,
            user,
            shares: ShareList::default(),
            purged: ShareList::default(),
            is_spent: false,
            last: LastCycle::default(),
        };
        record.note_class(topology);
        record
    }

    /// Admits it anew, after the configuration was replaced.
    pub(super) fn admit_anew(&mut self, topology: &Topology) {
        // Work that was admitted stays so, though its class turns urgent.
        if self.admission.is_ok() {
            let class = topology.class_named(&self.spec.class);
            let turns = class.is_some_and(|class| topology.classes[class].is_urgent);
            self.urgent = self.urgent.take().or_else(|| turns.then(Arc::default));
        }
        self.admission = admit(topology, &self.spec, self.channel()).map_err(Box::new);
        self.note_class(topology);
    }

    /// Way by which the job came.
    fn channel(&self) -> JobChannel {
        if self.urgent.is_some() { JobChannel::Urgent } else { JobChannel::Publication }
    }

    /// Enters the promise to an urgent job from a checkpoint.
    pub(super) fn restore_urgent(&mut self, grant: Option<UrgentGrant>, topology: &Topology) {
        if let Some(grant) = grant {
            self.urgent = Some(Arc::new(grant));
            self.admit_anew(topology);
        }
    }

    fn note_class(&mut self, topology: &Topology) {
        self.class = match &self.admission {
            Ok(admission) => Some(admission.class),
            Err(_) => topology.class_named(&self.spec.class),
        };
    }

    /// Sort key of the job, by age.
    pub(super) fn age(&self) -> Age {
        (self.spec.submitted, self.spec.id)
    }

    /// The policy of its class; `None` while it is refused.
    pub(super) fn policy<'t>(&self, topology: &'t Topology) -> Option<&'t ClassPolicy> {
        self.admission.as_ref().ok().map(|admission| &topology.classes[admission.class].policy)
    }

    /// Removes a share whose process has ended. A job of one process ends with it.
    pub(super) fn end_share(&mut self, share: ShareId) {
        self.purged.remove(share);
        if self.shares.remove(share).is_some() && self.spec.kind != JobKind::Job {
            self.is_spent = true;
        }
    }

    pub(super) fn evict(&mut self, removal: Removal, must_go: impl Fn(&ShareRecord) -> bool) {
        for share in self.shares.iter_mut().filter(|share| must_go(share)) {
            share.state = SharePhase::Leaving;
            share.removal = Some(removal);
            self.last.has_shrunk = true;
            self.is_spent |= self.spec.kind != JobKind::Job;
        }
    }

    /// Summarizes what the last cycle did with the job.
    pub(super) fn disposition(&self) -> JobDisposition {
        let holds = self.shares.iter().any(|share| share.state == SharePhase::Held);
        match (&self.admission, self.spec.kind) {
            (Err(_), _) => JobDisposition::Refused,
            (Ok(_), JobKind::Reservation) if holds => JobDisposition::Reserved,
            (Ok(_), _) if self.last.has_shrunk => JobDisposition::Shrunken,
            (Ok(_), _) if self.last.has_grown => JobDisposition::Expanded,
            (Ok(_), _) if holds => JobDisposition::Stable,
            (Ok(_), _) => JobDisposition::Dormant,
        }
    }
}
