//! Rows that a cycle writes to the store, and rows that a restart reads.
//!
//! Plain values without checks: the store can fail to write them, but rejects none. Names and
//! reasons are stored as given; the API limits their length.

use std::mem::take;

use super::audit::AuditRow;
use super::journal::{BatchRow, CheckpointRow, FeedRow, PastCheckpoint, PastCycle};
use crate::model::{Name, Sealed, SharePhase};

/// Rows of a cycle, written in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CycleRecord {
    /// The cycle's number; no smaller than that of the cycle before.
    pub cycle: u64,
    /// Publication that the cycle answers. `None` leaves the stored number: no publication came
    /// since the restart.
    pub publication_sequence: Option<u64>,
    /// The first share number never issued. Never falls.
    pub next_share: u64,
    /// Time of the cycle, in milliseconds since the epoch.
    pub at_ms: i64,
    /// All nodes that the scheduler knows. A stored node that is missing here stays, unless it is
    /// forgotten.
    pub nodes: Vec<NodeRow>,
    /// Nodes of which nothing is known any more.
    pub forgotten: Vec<Name>,
    /// All shares. A stored share that is missing here is deleted.
    pub shares: Vec<ShareRow>,
    /// Preemptions of this cycle.
    pub preemptions: Vec<PreemptionRow>,
    /// Acts of administrators since the cycle before.
    pub admin: Vec<AdminRow>,
    /// The cycle in which the schedule came about that holds now; `None` while there is none.
    pub schedule_cycle: Option<u64>,
    /// Published text of that schedule, if it is not stored yet.
    pub schedule: Option<Sealed>,
    /// Digest of the cycle's input and decisions, in 32 bytes; `None` if the cycle was not planned.
    pub digest: Option<Vec<u8>>,
    /// Inputs since the cycle before; `None` if there were none.
    pub batch: Option<BatchRow>,
    /// Checkpoint to store, if it is due.
    pub checkpoint: Option<CheckpointRow>,
    /// Events for clients that follow the feed.
    pub feed: Vec<FeedRow>,
    /// Number of the feed's last event, from this cycle or an earlier cycle.
    pub last_event: u64,
    /// The configuration, where this is the first cycle under it.
    pub configuration: Option<ConfigurationRow>,
    /// Audit rows to write with the cycle.
    pub audit: Vec<AuditRow>,
}

impl CycleRecord {
    /// Takes out the nodes, sorted by name, and the shares, sorted by number.
    pub(super) fn take_rows(&mut self) -> (Vec<NodeRow>, Vec<ShareRow>) {
        let (mut nodes, mut shares) = (take(&mut self.nodes), take(&mut self.shares));
        nodes.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        shares.sort_unstable_by_key(|share| share.id);
        (nodes, shares)
    }
}

/// Position of the node called `name` in a list sorted by name.
pub(super) fn place_of(nodes: &[NodeRow], name: &str) -> Option<usize> {
    nodes.binary_search_by(|node| node.name.as_str().cmp(name)).ok()
}

/// A configuration that was put into effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationRow {
    /// Number of the configuration: 1, 2, …
    pub generation: u64,
    /// Time when the configuration took effect, in milliseconds since the epoch.
    pub at_ms: i64,
    /// The last cycle before it.
    pub cycle: u64,
    /// Origin in a word: `start`, `apply`, `reread` or `return`.
    pub source: String,
    /// Name of the configuration file.
    pub name: String,
    /// Text of the configuration file.
    pub text: String,
    /// Reason, if the administrator gave any.
    pub reason: Option<String>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRow {
    /// Name of the node.
    pub name: Name,
    /// The name of its pool.
    pub pool: Name,
    /// Memory it reported, in MiB.
    pub memory_mb: u64,
    /// The size it is scheduled by, in qshares.
    pub order: u64,
    /// Qshares taken, by shares that are leaving too.
    pub used: u64,
    /// Conditions that keep the node from getting new shares, as words separated by blanks; empty
    /// if there is none.
    pub states: String,
    /// Heartbeats missed in a row.
    pub missed: u32,
    /// Reason for which the node is varied off; `None` if it is not.
    pub varied_off: Option<String>,
}

/// A share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareRow {
    /// Number of the share.
    pub id: u64,
    /// Job of the share.
    pub job: u64,
    /// Node of the share.
    pub node: Name,
    /// Size of the share.
    pub qshares: u64,
    /// State of the share.
    pub state: SharePhase,
}

/// A share taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreemptionRow {
    /// The share.
    pub share: u64,
    /// Job that lost the share.
    pub job: u64,
    /// Node of the share until its exit is confirmed.
    pub node: Name,
    /// For whom. `None`: its job may not hold it any more.
    pub beneficiary: Option<u64>,
    /// Under which rule.
    pub rule: &'static str,
    /// Work lost with it.
    pub loss_ms: u64,
}

/// An administrative act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminRow {
    /// Time of the act, in milliseconds since the epoch.
    pub at_ms: i64,
    /// Act in a word: `vary-off`.
    pub action: String,
    /// To which nodes; empty where it is not about nodes.
    pub nodes: Vec<String>,
    /// Reason, for acts that take a reason.
    pub reason: Option<String>,
}

/// State that the daemon serves before it has resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartupPeek {
    /// The last committed cycle. 0 on a new file.
    pub cycle: u64,
    /// The first share number never issued. 1 on a new file.
    pub next_share: u64,
    /// Sequence number of the last accepted publication. `None` if there never was any.
    pub sequence: Option<u64>,
    /// Number of the feed's last event. 0 if there never was any.
    pub last_event: u64,
    /// The schedule that held, and the cycle in which it came about.
    pub schedule: Option<(u64, Sealed)>,
    /// Same as in [`Recovered`].
    pub lost_after: Option<u64>,
}

/// State from which the daemon resumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The nodes that are varied off, each with the reason, by name.
    pub varied_off: Vec<(Name, String)>,
    /// The first share number never issued. 1 on a new file.
    pub next_share: u64,
    /// The last committed cycle. 0 on a new file.
    pub cycle: u64,
    /// Last stored cycle, if the mark is ahead of it: the file is an older copy, or a part of it
    /// was lost. Then the last state cannot be computed, and the numbers continue from the mark.
    pub lost_after: Option<u64>,
    /// Sequence number of the last accepted publication. `None` if there never was any.
    pub sequence: Option<u64>,
    /// The shares that the last cycle left, by number.
    pub shares: Vec<ShareRow>,
    /// The schedule that held then, and the cycle in which it came about.
    pub schedule: Option<(u64, Sealed)>,
    /// Number of the feed's last event. 0 if there never was any.
    pub last_event: u64,
    /// Checkpoint and inputs from which the last state can be computed. `None` if there is no
    /// unbroken sequence.
    pub journal: Option<Past>,
}

/// A checkpoint, and the inputs since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// Newest checkpoint.
    pub checkpoint: PastCheckpoint,
    /// Every cycle since.
    pub cycles: Vec<PastCycle>,
    /// Inputs after the last of these cycles.
    pub rest: Vec<Sealed>,
}
