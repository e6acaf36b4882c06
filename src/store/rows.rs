//! What a cycle leaves on record, and what a restart gets back.
//!
//! Plain values: nothing here can be wrong, only unwritable. Names and reasons are stored as they
//! are given; limits on their length are the business of whoever takes them in.

use std::mem::take;

use super::audit::AuditRow;
use super::journal::{BatchRow, BooksRow, FeedRow, PastBooks, PastCycle};
use crate::model::{Name, Sealed, ShareState};

/// All that one cycle puts on record, in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CycleRecord {
    /// The cycle's number; no smaller than that of the cycle before.
    pub cycle: u64,
    /// The publication it answers. `None` leaves the one on record: none came since the restart.
    pub publication_sequence: Option<u64>,
    /// The first share number never issued. Never falls.
    pub next_share: u64,
    /// When it ran, in milliseconds since the epoch.
    pub at_ms: i64,
    /// Every node the books know. Nodes on record that are missing here stay as they are, but for those
    /// that are forgotten.
    pub nodes: Vec<NodeRow>,
    /// Nodes of which nothing is known any more.
    pub forgotten: Vec<Name>,
    /// Every share there is. Shares on record that are missing here are gone.
    pub shares: Vec<ShareRow>,
    /// What this cycle took back.
    pub preemptions: Vec<PreemptionRow>,
    /// What administrators did since the cycle before.
    pub admin: Vec<AdminRow>,
    /// The cycle in which the schedule came about that holds now; `None` while there is none.
    pub schedule_cycle: Option<u64>,
    /// That schedule as published, if it is not on record yet.
    pub schedule: Option<Sealed>,
    /// What the cycle saw and decided, in 32 bytes; `None` if it was not planned.
    pub digest: Option<Vec<u8>>,
    /// What happened since the cycle before. `None`: nothing that is worth a byte.
    pub batch: Option<BatchRow>,
    /// Books to go on from, now and then.
    pub books: Option<BooksRow>,
    /// What those who follow are to learn.
    pub feed: Vec<FeedRow>,
    /// The number of the last event of the feed, of this cycle or an earlier one.
    pub last_event: u64,
    /// The configuration, where this is the first cycle under it.
    pub configuration: Option<ConfigurationRow>,
    /// What is to stand in the audit log with it.
    pub audit: Vec<AuditRow>,
}

impl CycleRecord {
    /// Its nodes by name, and its shares by number; it has none afterwards.
    pub(super) fn take_rows(&mut self) -> (Vec<NodeRow>, Vec<ShareRow>) {
        let (mut nodes, mut shares) = (take(&mut self.nodes), take(&mut self.shares));
        nodes.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        shares.sort_unstable_by_key(|share| share.id);
        (nodes, shares)
    }
}

/// Where the node called `name` is in a list by name.
pub(super) fn place_of(nodes: &[NodeRow], name: &str) -> Option<usize> {
    nodes.binary_search_by(|node| node.name.as_str().cmp(name)).ok()
}

/// A configuration that was put into effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationRow {
    /// Its number: 1, 2, …
    pub generation: u64,
    /// When it was put into effect, in milliseconds since the epoch.
    pub at_ms: i64,
    /// The last cycle before it.
    pub cycle: u64,
    /// How it came, in a word: `start`, `apply`, `reread` or `return`.
    pub source: String,
    /// What its file was called.
    pub name: String,
    /// What its file said.
    pub text: String,
    /// Why, if that was said.
    pub reason: Option<String>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRow {
    /// Its name.
    pub name: Name,
    /// The name of its pool.
    pub pool: Name,
    /// Memory it reported, in MiB.
    pub memory_mb: u64,
    /// The size it is scheduled by, in qshares.
    pub order: u64,
    /// Qshares taken, by shares that are leaving too.
    pub used: u64,
    /// What keeps it from getting work, in words separated by blanks. Empty: nothing does.
    pub states: String,
    /// Heartbeats missed in a row.
    pub missed: u32,
    /// Why it was varied off. `None`: it is not.
    pub varied_off: Option<String>,
}

/// A share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareRow {
    /// Its number.
    pub id: u64,
    /// Whose it is.
    pub job: u64,
    /// Where it is.
    pub node: Name,
    /// Its size.
    pub qshares: u64,
    /// Where it is in its life.
    pub state: ShareState,
}

/// A share taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreemptionRow {
    /// The share.
    pub share: u64,
    /// Whose it was.
    pub job: u64,
    /// Where it is until its exit is confirmed.
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
    /// When it was done, in milliseconds since the epoch.
    pub at_ms: i64,
    /// What was done, in a word: `vary-off`.
    pub action: String,
    /// To which nodes; empty where it is not about nodes.
    pub nodes: Vec<String>,
    /// Why, where a reason is asked for.
    pub reason: Option<String>,
}

/// What there is to show before the daemon has resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    /// The last committed cycle. 0 on a new file.
    pub cycle: u64,
    /// The first share number never issued. 1 on a new file.
    pub next_share: u64,
    /// The last publication taken in. `None` if there never was one.
    pub sequence: Option<u64>,
    /// The number of the last event of the feed. 0 if there never was one.
    pub last_event: u64,
    /// The schedule that held, and the cycle in which it came about.
    pub schedule: Option<(u64, Sealed)>,
    /// As in [`Recovered`].
    pub lost_after: Option<u64>,
}

/// What the daemon resumes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The nodes that are varied off, each with the reason, by name.
    pub varied_off: Vec<(Name, String)>,
    /// The first share number never issued. 1 on a new file.
    pub next_share: u64,
    /// The last committed cycle. 0 on a new file.
    pub cycle: u64,
    /// The last cycle that is on record, if more of them were once: the file is an older copy, or a
    /// part of it was lost. Then nothing leads to the books, and the numbers go on from where they
    /// were.
    pub lost_after: Option<u64>,
    /// The last publication taken in. `None` if there never was one.
    pub sequence: Option<u64>,
    /// The shares that the last cycle left, by number.
    pub shares: Vec<ShareRow>,
    /// The schedule that held then, and the cycle in which it came about.
    pub schedule: Option<(u64, Sealed)>,
    /// The number of the last event of the feed. 0 if there never was one.
    pub last_event: u64,
    /// What leads to the books as they were. `None` if nothing does.
    pub journal: Option<Past>,
}

/// Books, and what happened since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// The newest books on record.
    pub books: PastBooks,
    /// Every cycle since.
    pub cycles: Vec<PastCycle>,
    /// What happened after the last of them.
    pub rest: Vec<Sealed>,
}
