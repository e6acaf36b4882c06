//! Events that the scheduler records.

use crate::model::{
    JobFacts, JobId, JobSpec, JobTimes, Mebibytes, Millis, Name, NodeReport, ShareFacts, ShareId,
};

/// An input of the scheduler. The list is closed on purpose: it names every cause of scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedulerEvent {
    /// A node's agent reported: a new node, a heartbeat, or a change of size.
    NodeReported(NodeReport),
    /// A heartbeat interval ended. Each node without a report in it has missed one heartbeat more.
    /// A node that missed as many as the configured stability is dead.
    HeartbeatIntervalPassed,
    /// A node missed this many heartbeats in a row, as counted outside the scheduler. The count is
    /// zero if the daemon itself could not listen.
    NodeMissedHeartbeats {
        /// Name of the node.
        node: Name,
        /// Heartbeats missed in a row.
        missed: u32,
    },
    /// A node is known to be dead.
    NodeDied {
        /// Name of the node.
        node: Name,
    },
    /// Work never seen before.
    JobArrived(JobSpec),
    /// Facts of a known job changed.
    JobChanged {
        /// Number of the job.
        job: JobId,
        /// All that can change about it.
        facts: JobFacts,
    },
    /// The owner of a known job changed how long it runs, its earliest start or its deadline.
    JobRetimed {
        /// Number of the job.
        job: JobId,
        /// All its times.
        times: JobTimes,
    },
    /// The owner of a known job excepts other nodes than before.
    JobExcepted {
        /// Number of the job.
        job: JobId,
        /// All nodes that get no further process of it.
        nodes: Vec<Name>,
    },
    /// Work that completed, or that the orchestrator no longer mentions. Its shares are gone.
    JobCompleted {
        /// The work that is over.
        job: JobId,
    },
    /// The orchestrator publishes a share's process, for the first time or changed. An unknown
    /// share was issued before a restart: it is recorded on the published node.
    ShareSeen {
        /// Job of the share.
        job: JobId,
        /// Number of the share.
        share: ShareId,
        /// The node the process is on.
        node: Name,
        /// Known facts of the process.
        facts: ShareFacts,
    },
    /// A process runs in a share, of work that could not be understood. Its space is taken.
    LimboShareSeen {
        /// Number of the share.
        share: ShareId,
        /// The node the process is on.
        node: Name,
        /// Memory of the process; if unknown, the process counts as filling its node.
        memory: Option<Mebibytes>,
    },
    /// A process of a job that could not be parsed has ended; its space is free.
    LimboShareGone {
        /// Number of the share.
        share: ShareId,
    },
    /// Time at the start of a cycle. Told only if something depends on it.
    TimeIs {
        /// Milliseconds since the epoch.
        now: Millis,
    },
    /// Hours of classes: all open spans of the next days, ascending. Classes that are absent are
    /// always open.
    ClassHours {
        /// Class, and its spans in milliseconds since the epoch.
        hours: Vec<(Name, Vec<(Millis, Millis)>)>,
    },
    /// A share's process is gone; its space is free.
    ShareExited {
        /// Job of the share.
        job: JobId,
        /// Number of the share.
        share: ShareId,
    },
}

/// Effect of a recorded event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventEffect {
    /// Changes nothing but the set of nodes that reported: a heartbeat that repeats what is known of a live
    /// node, or the end of an interval in which all nodes reported.
    Routine,
    /// May change decisions; a replay needs it.
    News,
}
