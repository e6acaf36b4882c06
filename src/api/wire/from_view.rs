//! Conversions from the view to the wire: a function for each type, no decisions.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

use crate::api::explain::savings::savings_of;
use crate::api::wire;
use crate::converter::{
    AssignedShare, Explanation, JobUpdate, ShareRemoval, explain_job, update_of,
};
use crate::engine::EstimateBasis;
use crate::model::{
    ClassPolicy, JobId, JobKind, LegalSizes, Name, NodeCondition, Order, QShares, Shape, ShareId,
    SharePhase, Tags, amount_text,
};
use crate::scheduler::{
    Cap, ClassView, JobAccount, JobDisposition, JobView, NodeView, Removal, ShareView, SharedList,
    View,
};

/// Writes a [`wire::Schedule`] as it is sent, job by job: as a whole, several large copies would
/// exist at a time.
///
/// # Panics
///
/// If a plain struct does not become JSON.
pub fn schedule_json(cycle: u64, publication: Option<u64>, jobs: &SharedList<JobView>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Schedule<'a> {
        cycle: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        publication: Option<u64>,
        #[serde(serialize_with = "told")]
        jobs: &'a SharedList<JobView>,
    }
    fn told<S: Serializer>(jobs: &SharedList<JobView>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(jobs.iter().map(|job| wire::ScheduledJob::from(&update_of(job))))
    }
    serde_json::to_vec(&Schedule { cycle, publication, jobs }).expect("plain structs become JSON")
}

impl From<&JobUpdate> for wire::ScheduledJob {
    fn from(job: &JobUpdate) -> wire::ScheduledJob {
        wire::ScheduledJob {
            id: job.job.0,
            kind: job.kind.into(),
            refused: job.is_refused,
            memory_mb: job.memory.0,
            shares: job.shares.iter().map(Into::into).collect(),
            added: job.added.iter().map(Into::into).collect(),
            removed: job.removed.iter().map(Into::into).collect(),
            resize: job.resize.map(|(from, to)| wire::Resize { from: from.0, to: to.0 }),
            start_estimate_ms: job.start_estimate.map(|estimate| estimate.at),
            estimate_basis: job.start_estimate.map(|estimate| estimate.basis.into()),
            reason: job.reason.as_ref().map(Into::into),
        }
    }
}

impl From<&AssignedShare> for wire::Assigned {
    fn from(share: &AssignedShare) -> wire::Assigned {
        wire::Assigned {
            share: share.share.0,
            node: share.node.to_string(),
            memory_mb: share.memory.0,
            rank: share.rank,
            chunk: share.chunk.and_then(|chunk| u32::try_from(chunk).ok()),
        }
    }
}

impl From<&ShareRemoval> for wire::Removed {
    fn from(share: &ShareRemoval) -> wire::Removed {
        wire::Removed {
            share: share.share.0,
            node: share.node.to_string(),
            purge: share.is_purge,
            reason: share.why.into(),
        }
    }
}

impl From<&Explanation> for wire::Reason {
    fn from(explanation: &Explanation) -> wire::Reason {
        wire::Reason { code: explanation.code.to_owned(), sentence: explanation.sentence.clone() }
    }
}

impl From<Removal> for wire::RemovalReason {
    fn from(removal: Removal) -> wire::RemovalReason {
        match removal {
            Removal::Preempted => wire::RemovalReason::Preempted,
            Removal::VariedOff => wire::RemovalReason::VariedOff,
            Removal::Blacklisted => wire::RemovalReason::Blacklisted,
            Removal::NodeDied => wire::RemovalReason::NodeDied,
            Removal::Withdrawn => wire::RemovalReason::Withdrawn,
            Removal::Window => wire::RemovalReason::Window,
            Removal::ClassClosed => wire::RemovalReason::ClassClosed,
            Removal::Overrun => wire::RemovalReason::Overrun,
            Removal::GangBroken => wire::RemovalReason::GangBroken,
        }
    }
}

impl From<JobKind> for wire::WorkKind {
    fn from(kind: JobKind) -> wire::WorkKind {
        match kind {
            JobKind::Job => wire::WorkKind::Job,
            JobKind::Service => wire::WorkKind::Service,
            JobKind::ArbitraryProcess => wire::WorkKind::ArbitraryProcess,
            JobKind::Reservation => wire::WorkKind::Reservation,
        }
    }
}

impl From<SharePhase> for wire::ShareState {
    fn from(state: SharePhase) -> wire::ShareState {
        match state {
            SharePhase::Held => wire::ShareState::Held,
            SharePhase::Leaving => wire::ShareState::Leaving,
        }
    }
}

impl From<JobDisposition> for wire::Disposition {
    fn from(disposition: JobDisposition) -> wire::Disposition {
        match disposition {
            JobDisposition::Expanded => wire::Disposition::Expanded,
            JobDisposition::Shrunken => wire::Disposition::Shrunken,
            JobDisposition::Stable => wire::Disposition::Stable,
            JobDisposition::Dormant => wire::Disposition::Dormant,
            JobDisposition::Reserved => wire::Disposition::Reserved,
            JobDisposition::Refused => wire::Disposition::Refused,
        }
    }
}

impl From<&ClassPolicy> for wire::Policy {
    fn from(policy: &ClassPolicy) -> wire::Policy {
        match policy {
            ClassPolicy::FairShare { .. } => wire::Policy::FairShare,
            ClassPolicy::FixedShare => wire::Policy::FixedShare,
            ClassPolicy::Reserve => wire::Policy::Reserve,
        }
    }
}

impl From<&JobAccount> for wire::Account {
    fn from(account: &JobAccount) -> wire::Account {
        wire::Account {
            wanted: account.demand.0,
            deserved: account.fair_share.0,
            given: account.target.0,
            held: account.held.0,
        }
    }
}

fn tags_of(tags: &Tags) -> BTreeMap<String, String> {
    tags.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// Returns the states of a node: up, or every reason why it gets no share.
pub fn node_states(state: NodeCondition) -> Vec<wire::NodeState> {
    let states = [
        (state.is_schedulable(), wire::NodeState::Up),
        (state.is_awaited, wire::NodeState::Awaited),
        (state.is_dead, wire::NodeState::Dead),
        (state.is_varied_off, wire::NodeState::VariedOff),
        (state.is_in_maintenance, wire::NodeState::Maintenance),
        (state.is_quiesced, wire::NodeState::Quiesced),
        (state.is_blacklisted, wire::NodeState::Blacklisted),
    ];
    states.into_iter().filter(|(holds, _)| *holds).map(|(_, state)| state).collect()
}

impl From<&NodeView> for wire::NodeInfo {
    fn from(node: &NodeView) -> wire::NodeInfo {
        wire::NodeInfo {
            name: node.name.to_string(),
            pool: node.pool.to_string(),
            states: node_states(node.state),
            memory_mb: node.memory.0,
            quantum_mb: node.quantum.memory().0,
            order: node.order.0,
            used: node.used.0,
            free: node.order.saturating_sub(node.used).0,
            tags: tags_of(&node.tags),
            preference: node.preference,
            next_window: None,
            missed_heartbeats: node.missed,
            vary_off_reason: node.vary_off_reason.clone(),
            notes: node_notes(node),
            shares: node_shares(node),
        }
    }
}

/// Returns remarks for administrators that no other field of the node contains.
fn node_notes(node: &NodeView) -> Vec<String> {
    let quantum = node.quantum.memory();
    let has_reported = !node.state.is_awaited;
    let is_too_small = has_reported && node.order == QShares(0);
    let is_overfull = has_reported && node.used > node.order;
    let placed: QShares = node.shares.iter().map(|(_, _, order, _)| order.qshares()).sum();
    let unplaced = node.used.saturating_sub(placed);
    let text = |amount: QShares| amount_text(Some(node.quantum), amount);
    let mut notes = Vec::new();
    if is_too_small && node.memory < quantum {
        notes.push(format!("unusable: {} is less than one quantum, {quantum}", node.memory));
    }
    if is_too_small && quantum <= node.memory {
        notes.push(format!(
            "unusable: of {}, less than one quantum, {quantum}, is left for work",
            node.memory
        ));
    }
    if unplaced != QShares(0) {
        notes.push(format!(
            "{} is taken by processes that have no job here: their jobs were refused, or their shares were issued elsewhere",
            text(unplaced)
        ));
    }
    if is_overfull {
        notes.push(format!(
            "has {}, but {} is in use; nothing is evicted for it",
            text(node.order),
            text(node.used)
        ));
    }
    notes
}

fn node_shares(node: &NodeView) -> Vec<wire::NodeShare> {
    let shown =
        |&(job, share, order, state): &(JobId, ShareId, Order, SharePhase)| wire::NodeShare {
            job: job.0,
            share: share.0,
            order: order.qshares().0,
            memory_mb: node.quantum.memory_of(order.qshares()).0,
            state: state.into(),
        };
    node.shares.iter().map(shown).collect()
}

impl From<&NodeView> for wire::OccupancyLine {
    fn from(node: &NodeView) -> wire::OccupancyLine {
        wire::OccupancyLine {
            node: node.name.to_string(),
            pool: node.pool.to_string(),
            states: node_states(node.state),
            order: node.order.0,
            used: node.used.0,
            free: node.order.saturating_sub(node.used).0,
            quantum_mb: node.quantum.memory().0,
            shares: node_shares(node),
        }
    }
}

impl wire::JobInfo {
    /// Builds the answer for `job` after `cycle`.
    pub fn of(job: &JobView, cycle: u64) -> wire::JobInfo {
        let plain = Shape::default();
        let shape = job.shape.as_deref().unwrap_or(&plain);
        let legal_sizes = Some(&shape.legal_sizes).filter(|sizes| **sizes != LegalSizes::Any);
        wire::JobInfo {
            chunks: shape.chunks.iter().map(Into::into).collect(),
            place: shape.is_gang().then(|| shape.place.into()),
            exclusive: shape.is_exclusive,
            group_by: shape.group_by.as_ref().map(ToString::to_string),
            span: shape.may_span,
            elasticity: shape.elasticity.map(Into::into),
            min_processes: shape.min_processes,
            legal_sizes: legal_sizes.map(Into::into),
            duration_ms: shape.duration,
            not_before_ms: shape.not_before,
            deadline_ms: shape.deadline,
            reservation: shape.reservation.as_ref().map(ToString::to_string),
            id: job.id.0,
            user: job.user.to_string(),
            class: job.class.to_string(),
            kind: job.kind.into(),
            memory_mb: job.memory.0,
            tags: tags_of(&job.tags),
            order: job.order.map(|order| order.qshares().0),
            share_mb: job
                .order
                .zip(job.quantum)
                .map(|(order, quantum)| quantum.memory_of(order.qshares()).0),
            threads: job.threads,
            submitted_ms: job.submitted,
            remaining: job.facts.remaining,
            running: job.facts.is_running,
            completing: job.facts.is_completing,
            disposition: job.disposition.into(),
            sums: wire::JobSums::of(job, cycle),
            ready: job.starting().map(|(ready, _)| ready),
            reason: reason_of(job),
            start_estimate_ms: job.start_estimate.map(|estimate| estimate.at),
            estimate_basis: job.start_estimate.map(|estimate| estimate.basis.into()),
            held_back: job.held_back.map(Into::into),
            shares: job.shares.iter().map(Into::into).collect(),
        }
    }
}

impl From<EstimateBasis> for wire::StartBasis {
    fn from(basis: EstimateBasis) -> wire::StartBasis {
        match basis {
            EstimateBasis::DeclaredEnds => wire::StartBasis::DeclaredEnds,
            EstimateBasis::Window => wire::StartBasis::Window,
        }
    }
}

/// Returns the reason why the job has less than it wants, if it does.
pub fn reason_of(job: &JobView) -> Option<wire::Reason> {
    explain_job(job).map(|reason| (&reason).into())
}

impl wire::JobSums {
    /// The sums of `job` after `cycle`.
    pub fn of(job: &JobView, cycle: u64) -> wire::JobSums {
        let bound = |cap: Cap| wire::Reason {
            code: cap.bound.code().to_owned(),
            sentence: cap.bound.to_string(),
        };
        wire::JobSums {
            wanted: job.demand.0,
            cap: job.cap.map(|cap| cap.nshares.0),
            cap_bound: job.cap.map(bound),
            deserved: job.pure_fair_share.0,
            given: job.target.0,
            held: job.held().0,
            promised: job.promised.0,
            behind_cycles: job.behind_cycles(cycle),
        }
    }
}

impl From<&ShareView> for wire::ShareInfo {
    fn from(share: &ShareView) -> wire::ShareInfo {
        wire::ShareInfo {
            share: share.id.0,
            node: share.node.to_string(),
            order: share.order.qshares().0,
            memory_mb: share.memory.0,
            rank: share.rank,
            state: share.state.into(),
            removal: share.removal.map(Into::into),
            seen: share.is_seen,
            initialized: share.facts.is_initialized,
            initialization_ms: share.facts.initialization,
            investment_ms: share.facts.investment,
        }
    }
}

/// A class, with what is configured and what came of it.
pub fn class_info(view: &View, class: &ClassView) -> Option<wire::ClassInfo> {
    let topology = &view.topology;
    let configured = &topology.classes[topology.class_named(&class.name)?];
    let pool = &topology.pools[configured.pool];
    Some(wire::ClassInfo {
        name: class.name.to_string(),
        policy: (&configured.policy).into(),
        weight: configured.policy.is_preemptable().then(|| configured.policy.weight()),
        priority: configured.priority,
        pool: pool.name.to_string(),
        quantum_mb: pool.quantum.memory().0,
        is_default: configured.is_default,
        users: configured.users.clone(),
        active: None,
        is_open: true,
        next_change_ms: None,
        jobs: class.jobs,
        account: (&class.account).into(),
    })
}

/// A class's demand against what it holds, user by user.
pub fn class_load(view: &View, class: &ClassView) -> Option<wire::ClassLoad> {
    let info = class_info(view, class)?;
    let user_load = |(user, account): &(Name, JobAccount)| wire::UserLoad {
        user: user.to_string(),
        account: account.into(),
    };
    Some(wire::ClassLoad {
        class: info.name,
        policy: info.policy,
        jobs: info.jobs,
        quantum_mb: info.quantum_mb,
        account: info.account,
        users: class.users.iter().map(user_load).collect(),
    })
}

/// True if this job's shares may be preempted. A job whose class no longer exists keeps its shares.
pub fn is_preemptable(view: &View, job: &JobView) -> bool {
    let topology = &view.topology;
    topology
        .class_named(&job.class)
        .is_some_and(|class| topology.classes[class].policy.is_preemptable())
}

/// Lists all users with jobs, by name.
pub fn users(view: &View) -> Vec<wire::UserInfo> {
    let names: BTreeSet<&str> = view.jobs.iter().map(|job| job.user.as_str()).collect();
    let mut users: Vec<_> = names.into_iter().map(|name| user_without_work(view, name)).collect();
    for job in view.jobs.iter() {
        let place = users.binary_search_by(|user| user.user.as_str().cmp(&job.user));
        let user = &mut users[place.expect("every job's user was listed")];
        let held = job.shares.iter().filter(|share| share.state == SharePhase::Held);
        let (count, memory) =
            held.fold((0, 0), |(count, memory), share| (count + 1, memory + share.memory.0));
        user.jobs += 1;
        user.jobs_without_shares += u64::from(count == 0);
        user.shares += count;
        user.memory_mb += memory;
        if !is_preemptable(view, job) {
            user.fixed_memory_mb += memory;
        }
    }
    users
}

fn user_without_work(view: &View, name: &str) -> wire::UserInfo {
    let account = |class: &ClassView| {
        let (_, account) = class.users.iter().find(|(user, _)| user == name)?;
        Some(wire::UserClass {
            class: class.name.to_string(),
            account: account.into(),
            savings: savings_of(view, &class.name, &name.into()),
        })
    };
    wire::UserInfo {
        user: name.to_owned(),
        jobs: 0,
        jobs_without_shares: 0,
        shares: 0,
        memory_mb: 0,
        fixed_memory_mb: 0,
        allotment_mb: view.topology.allotment_of(name).map(|allotment| allotment.0),
        classes: view.classes.iter().filter_map(account).collect(),
    }
}
