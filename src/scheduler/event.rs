//! Everything that can happen to us.

use crate::model::{JobFacts, JobId, JobSpec, Mebibytes, Name, NodeReport, ShareFacts, ShareId};

/// Something the scheduler must know. Closed on purpose: every cause of scheduling is listed here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A node's agent reported: a new node, a heartbeat, or a change of size.
    NodeReported(NodeReport),
    /// One heartbeat interval went by. Every node that did not report during it has missed one
    /// heartbeat more; a node that missed as many as the configured stability is dead.
    HeartbeatIntervalPassed,
    /// A node missed so many heartbeats in a row, as somebody else counted them: none, where nobody
    /// could have heard it.
    NodeMissedHeartbeats {
        /// Which node.
        node: Name,
        /// How many.
        missed: u32,
    },
    /// A node is known to be dead.
    NodeDied {
        /// Which node.
        node: Name,
    },
    /// Work never seen before.
    JobArrived(JobSpec),
    /// Something changed about known work.
    JobChanged {
        /// Which work.
        job: JobId,
        /// All that can change about it.
        facts: JobFacts,
    },
    /// Work that completed, or that the orchestrator no longer mentions. Its shares are gone.
    JobCompleted {
        /// The work that is over.
        job: JobId,
    },
    /// The orchestrator shows a share's process, for the first time or changed. A share we do not
    /// know is entered in the books where it is: it was issued before a restart.
    ShareSeen {
        /// Whose share.
        job: JobId,
        /// Which share.
        share: ShareId,
        /// The node the process is on.
        node: Name,
        /// What is known of the process.
        facts: ShareFacts,
    },
    /// A process runs in a share, of work that could not be understood. Its space is taken.
    LimboShareSeen {
        /// Which share.
        share: ShareId,
        /// The node the process is on.
        node: Name,
        /// Its memory; where that is unknown, it may be all of the node.
        memory: Option<Mebibytes>,
    },
    /// Such a process is gone; its space is free.
    LimboShareGone {
        /// Which share.
        share: ShareId,
    },
    /// A share's process is gone; its space is free.
    ShareExited {
        /// Whose share.
        job: JobId,
        /// Which share.
        share: ShareId,
    },
}
