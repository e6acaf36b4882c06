//! Urgent work: comes by a channel of its own, and is accepted or refused in the next cycle.
//!
//! The decision is tried out on a copy of the state. If the request is refused, the copy is dropped:
//! nothing is lost for it, and nothing of it is kept. If it is accepted, the copy is the new state.
//!
//! Design: requests and time, sections 1.4 and 3.8.

use std::sync::Arc;

use super::command::{CommandError, CommandOutcome};
use super::jobs::JobRecord;
use super::view::{Refusal, View};
use super::{Scheduler, SchedulerEvent};
use crate::engine::{
    self, CycleSchedule, Effort, GangLack, Snapshot, UrgentRefusal, VictimRule, WaitReason,
};
use crate::model::{JobId, JobSpec, Millis, Name, Quantum, ShareId, amount_text};

/// Way by which a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobChannel {
    /// A publication of the orchestrator.
    Publication,
    /// The channel of urgent work, now or before.
    Urgent,
}

/// Space that an urgent job was promised when it was accepted, and what went for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UrgentGrant {
    /// Cycle of the decision.
    pub cycle: u64,
    /// Nodes, each with the rank of its process.
    pub promised: Vec<(Name, u32)>,
    /// Terminating shares.
    pub preempted: Vec<UrgentVictim>,
}

/// A share that was preempted for an urgent job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrgentVictim {
    /// Job of the share.
    pub job: JobId,
    /// Number of the share.
    pub share: ShareId,
    /// Node of the share.
    pub node: Name,
    /// Work lost with the share.
    pub loss: Millis,
}

/// Decision on an urgent request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrgentVerdict {
    /// Number of the job.
    pub job: JobId,
    /// Promise to the job, or the reason of its refusal.
    pub outcome: Result<Arc<UrgentGrant>, UrgentDenial>,
}

/// Reason for which an urgent request is refused. It is not kept, and not tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrgentDenial {
    /// The configuration does not admit the job.
    NotAdmitted(Box<Refusal>),
    /// The class of the job takes no urgent work.
    NotUrgent {
        /// Class as requested.
        class: Name,
        /// Classes that take urgent work of the user.
        urgent: Vec<Name>,
    },
    /// Too little space, or another obstacle.
    NoSpace(UrgentRefusal),
}

impl UrgentDenial {
    /// The reason as a sentence, with amounts in memory where the quantum of the class is known.
    pub fn sentence(&self, quantum: Option<Quantum>) -> String {
        let amount = |amount| amount_text(quantum, amount);
        match self {
            UrgentDenial::NotAdmitted(refusal) => refusal.to_string(),
            UrgentDenial::NotUrgent { class, urgent } => {
                let names: Vec<String> = urgent.iter().map(|name| format!("`{name}`")).collect();
                let remedy = if names.is_empty() {
                    "no class takes urgent work of this user".to_owned()
                } else {
                    format!("use {}", names.join(" or "))
                };
                format!("class `{class}` takes no urgent work; {remedy}")
            }
            UrgentDenial::NoSpace(UrgentRefusal::Waits(WaitReason::OverAllotment {
                allotment,
                held,
                asks,
            })) => format!(
                "the job asks for {}, and its user holds {} of an urgent allotment of {}",
                amount(*asks),
                amount(*held),
                amount(*allotment),
            ),
            UrgentDenial::NoSpace(UrgentRefusal::Waits(reason)) => reason.sentence(quantum),
            UrgentDenial::NoSpace(UrgentRefusal::NoSpace(lack)) => {
                let GangLack { chunk, found, needed, .. } = lack;
                let of = match (chunk, needed) {
                    (_, 1) => "its process needs a node".to_owned(),
                    (Some(chunk), _) => format!("chunk {} needs {needed}", chunk + 1),
                    (None, _) => format!("its processes need {needed}"),
                };
                let had = if *found == 0 { "none".to_owned() } else { found.to_string() };
                format!(
                    "{of}, and {had} can be had; the other nodes are down, reserved, or hold work \
                     that is never preempted"
                )
            }
        }
    }
}

/// A planned cycle, before it is applied.
type UrgentPlanned = (Snapshot, CycleSchedule);

impl Scheduler {
    /// Takes in an urgent request, for a decision in the next cycle. A job that is known as urgent
    /// changes nothing.
    pub(super) fn ask_urgently(&mut self, spec: JobSpec) -> Result<CommandOutcome, CommandError> {
        let known = self.jobs.get(spec.id);
        if known.is_some_and(|known| known.urgent.is_some()) {
            return Ok(CommandOutcome::default());
        }
        let is_taken = known.is_some_and(|known| known.admission.is_ok());
        if is_taken || self.urgent.iter().any(|other| other.id == spec.id) {
            return Err(CommandError::JobIsKnown(spec.id));
        }
        self.urgent.push(spec);
        self.is_changed = true;
        Ok(CommandOutcome::default())
    }

    /// True if the next cycle decides on an urgent request.
    pub fn is_deciding(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// Promise to a job that is known as urgent.
    pub fn urgent_grant(&self, job: JobId) -> Option<Arc<UrgentGrant>> {
        self.jobs.get(job)?.urgent.clone()
    }

    /// Decides on the urgent requests, one after the other, and plans the cycle.
    pub(super) fn schedule_urgent(&mut self, effort: &Effort) -> View {
        let (mut accepted, mut verdicts, mut best) = (Vec::new(), Vec::new(), None);
        for spec in std::mem::take(&mut self.urgent) {
            let mut trial = self.clone();
            let job = spec.id;
            accepted.push(spec);
            match trial.try_urgent(&accepted, effort) {
                Ok(plan) => best = Some((trial, plan)),
                Err(denial) => {
                    accepted.pop();
                    verdicts.push(UrgentVerdict { job, outcome: Err(denial) });
                }
            }
        }
        let Some((trial, (snapshot, schedule))) = best else {
            self.verdicts = Arc::new(verdicts);
            return self.schedule_usual(effort);
        };
        *self = trial;
        for spec in accepted {
            let grant = Arc::new(grant_of(&snapshot, &schedule, spec.id));
            if let Some(job) = self.jobs.get_mut(spec.id) {
                job.urgent = Some(Arc::clone(&grant));
            }
            verdicts.push(UrgentVerdict { job: spec.id, outcome: Ok(grant) });
        }
        verdicts.sort_by_key(|verdict| verdict.job);
        self.verdicts = Arc::new(verdicts);
        self.conclude(snapshot, schedule, effort)
    }

    /// Plans the next cycle with these urgent requests. The state is spoilt if the last of them is
    /// refused.
    fn try_urgent(
        &mut self,
        specs: &[JobSpec],
        effort: &Effort,
    ) -> Result<UrgentPlanned, UrgentDenial> {
        for spec in specs {
            self.enter_urgent(spec)?;
        }
        self.cycle += 1;
        let snapshot = self.prepare();
        effort.end_phase();
        let jobs: Vec<JobId> = specs.iter().map(|spec| spec.id).collect();
        let schedule = engine::plan_urgent(&snapshot, &jobs, effort);
        effort.end_phase();
        Ok((snapshot, schedule.map_err(UrgentDenial::NoSpace)?))
    }

    /// Enters an urgent job. A job that a publication brought, and that was refused for that, is
    /// admitted.
    fn enter_urgent(&mut self, spec: &JobSpec) -> Result<(), UrgentDenial> {
        self.notice(&SchedulerEvent::JobArrived(spec.clone()));
        if !self.jobs.contains(spec.id) {
            let user = self.users.enter(&spec.user);
            self.jobs.enter(JobRecord::new(spec.clone(), user, &self.topology), None);
        }
        let topology = Arc::clone(&self.topology);
        let job = self.jobs.get_mut(spec.id).expect("it was entered");
        job.urgent = Some(Arc::default());
        job.admit_anew(&topology);
        let admission = match &job.admission {
            Ok(admission) => *admission,
            Err(refusal) => return Err(UrgentDenial::NotAdmitted(refusal.clone())),
        };
        if topology.classes[admission.class].is_urgent {
            return Ok(());
        }
        let urgent = topology.classes.iter().filter(|class| class.is_urgent);
        let urgent = urgent.filter(|class| class.admits(&spec.user));
        let urgent = urgent.map(|class| class.name.clone()).collect();
        Err(UrgentDenial::NotUrgent { class: spec.class.clone(), urgent })
    }
}

/// Promise that the schedule makes to an urgent job, and shares that it takes for the job.
fn grant_of(snapshot: &Snapshot, schedule: &CycleSchedule, job: JobId) -> UrgentGrant {
    let name = |node: crate::model::NodeIx| snapshot.node(node).name.clone();
    let started = schedule.expansions.iter().map(|new| (new.job, new.rank, new.node));
    let promised = schedule.promises.iter().map(|new| (new.job, new.rank, new.node));
    let own = started.chain(promised).filter(|(of, ..)| *of == job);
    let mut own: Vec<(u32, Name)> = (0..)
        .zip(own)
        .map(|(place, (_, rank, node))| (rank.unwrap_or(place), name(node)))
        .collect();
    own.sort_unstable();
    let taken = schedule.preemptions.iter();
    let taken = taken.filter(|it| it.rule == VictimRule::Urgent && it.beneficiary == Some(job));
    let victim = |taken: &engine::Preemption| UrgentVictim {
        job: taken.job,
        share: taken.share,
        node: name(taken.node),
        loss: taken.loss,
    };
    UrgentGrant {
        cycle: snapshot.cycle,
        promised: own.into_iter().map(|(rank, node)| (node, rank)).collect(),
        preempted: taken.map(victim).collect(),
    }
}
