//! Every type that crosses HTTP, in either direction: what a client may rely on.
//!
//! Memory is in MiB (`_mb`), time in milliseconds (`_ms`), amounts without a unit in qshares.
//! Nothing else in this crate is serializable for the sake of HTTP, so that no rename inside can
//! break a client. What comes in refuses fields it does not know; what goes out may grow.

mod admin;
mod clients;
mod config;
mod cycles;
mod events;
pub(crate) mod from_view;
pub(crate) mod from_window;
mod jobs;
mod nodes;
mod orchestrator_codes;
mod problem;
mod publication;
mod reason;
mod receipts;
mod reservations;
mod schedule;
mod shape;
mod totals;
mod urgent;
mod why;

pub use admin::{Impact, JobBelow, NodesGone, VaryAnswer, VaryOff, VaryOn};
pub use clients::{ClientCounts, ClientInfo, ClientList};
pub use config::{
    ConfigChange, ConfigGeneration, ConfigHistory, ConfigImpact, ConfigInfo, ConfigPlan,
    ConfigRequest, ConfigSetting, JobEviction, JobParked, JobRefused, NodeMove,
};
pub use cycles::CycleRange;
pub use events::{AddedShare, ChangedNode, Event, EventPage, FeedEvent, RefusedWork, RemovedShare};
pub use jobs::{Disposition, JobInfo, JobPage, JobSums, ShareInfo, ShareState};
pub use nodes::{
    Heartbeat, HeartbeatAnswer, HeartbeatBatch, HeartbeatEnvelope, HeartbeatProbe, NodeInfo,
    NodeList, NodeShare, NodeState, Occupancy, OccupancyLine,
};
pub use orchestrator_codes::OrchestratorCode;
pub use problem::{ItemProblem, Problem};
pub use publication::{
    HandOver, Orchestrators, Process, ProcessState, Publication, PublicationAnswer,
    PublicationEnvelope, PublicationReset, PublicationResetAnswer, RefusedOrchestrator, Work,
    WorkKind, WorkNumber, WorkState,
};
pub use reason::Reason;
pub use receipts::{Considered, HeldBack, HeldBackCode, PreemptionInfo, PreemptionRule, RunnerUp};
pub use reservations::{
    NextWindow, ReservationAnswer, ReservationDeletion, ReservationInfo, ReservationKind,
    ReservationList, ReservationRequest, StartMove, TimeText, WorkInTheWay,
};
pub use schedule::{Assigned, RemovalReason, Removed, Resize, Schedule, ScheduledJob, StartBasis};
pub use shape::{ChunkPlace, ChunkRequest, ElasticityWord, NamedSizes, SizeRule, SizeStep};
pub use totals::{
    AbsentWork, Account, Calm, ClassInfo, ClassList, ClassLoad, CycleTimes, GangSavings, JobCounts,
    Load, NodeCounts, Policy, PoolLoad, ShareCounts, SizeLoad, Status, Unmet, UserClass, UserInfo,
    UserList, UserLoad,
};

pub use urgent::{PromisedNode, UrgentAnswer, UrgentLoss, UrgentWord};
pub use why::{
    Bound, BoundBy, Estimate, Holder, NodeTally, NodeVerdict, Unblock, Verdict, Why, WhyAnswer,
    WhyBrief, WhyDepth, WhySums,
};

/// True for counts that are left out, as they are 0.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}
