//! Inbox of heartbeats: decides which heartbeats count, and keeps the last heartbeat of every node.
//! It also collects the reports that the scheduler has not got yet.
//!
//! Most heartbeats contain nothing new, and no heartbeat has to wake the scheduler. The scheduler
//! gets all reports of a while at once, and of each node only the last.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::api::http::error::{Code, RequestFault};
use crate::api::http::json::shortened;
use crate::api::ingest::agent_identity::{Agent, HeartbeatOutcome};
use crate::api::limits::Limits;
use crate::api::wire::Heartbeat;
use crate::model::{Mebibytes, Name, NodeReport, Tags};
use crate::net::Delay;

/// A clock that is further off than this is worth a word; in milliseconds.
const SKEW_MAX: i64 = 60_000;

/// Takes in heartbeats, and delivers reports to the scheduler.
#[derive(Debug)]
pub struct HeartbeatInbox {
    log: Mutex<HeartbeatLog>,
    /// Notified when a report comes in and all earlier reports were delivered.
    untold: Notify,
    delay: Delay,
}

impl HeartbeatInbox {
    /// Builds an empty inbox for at most `limits.nodes` nodes.
    pub fn new(limits: Limits) -> HeartbeatInbox {
        HeartbeatInbox {
            log: Mutex::new(HeartbeatLog::new(limits)),
            untold: Notify::new(),
            delay: Delay::default(),
        }
    }

    /// Returns the delay of the tasks that serve connections.
    pub fn delay(&self) -> &Delay {
        &self.delay
    }

    /// Locks the log for a single caller.
    pub fn log(&self) -> MutexGuard<'_, HeartbeatLog> {
        // An entry is replaced whole or not at all, so a panic elsewhere left nothing half done.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `receive`, which takes heartbeats in, and then wakes the scheduler if there are new
    /// reports.
    pub fn take_in<T>(&self, receive: impl FnOnce(&mut HeartbeatLog) -> T) -> T {
        let mut log = self.log();
        let had_untold = !log.untold.is_empty();
        let outcome = receive(&mut log);
        let has_untold = !log.untold.is_empty();
        drop(log);
        if has_untold && !had_untold {
            self.untold.notify_one();
        }
        outcome
    }

    /// Waits until there are undelivered reports. May wake without any.
    pub async fn something(&self) {
        self.untold.notified().await;
    }

    /// Takes the reports that the scheduler has not got yet: the last report of every node, in
    /// order of the first. These reports count as delivered from now on.
    pub fn untold(&self) -> Vec<NodeReport> {
        let mut log = self.log();
        log.turn += 1;
        std::mem::take(&mut log.untold)
    }
}

/// The last heartbeat of every node.
#[derive(Debug)]
pub struct HeartbeatLog {
    /// Apart: of the places in the map many are empty.
    nodes: HashMap<Name, Box<ReportingNode>>,
    /// Nodes with remarks for an administrator.
    noted: BTreeSet<String>,
    /// Reports that the scheduler has not got yet.
    untold: Vec<NodeReport>,
    /// Number of deliveries to the scheduler.
    turn: u64,
    limits: Limits,
}

/// Facts about a node from its heartbeats.
#[derive(Debug)]
struct ReportingNode {
    agent: Agent,
    /// Lead of the node's clock over the daemon's, in milliseconds, if its agent sends a time.
    clock_ahead: i64,
    /// Time of the last heartbeat that counted.
    last_heartbeat: Instant,
    /// Unused memory at that time, in MiB, if its agent sends it.
    available_mb: Option<u64>,
    /// Delivery that contains its report, and the place in it.
    untold: Option<(u64, usize)>,
    is_noted: bool,
}

/// Facts about every node that only heartbeats contain: time since the last heartbeat, and unused
/// memory at that time in MiB.
pub type HeartbeatAges = HashMap<String, (Duration, Option<u64>)>;

impl HeartbeatLog {
    fn new(limits: Limits) -> HeartbeatLog {
        let (nodes, noted, untold) = (HashMap::new(), BTreeSet::new(), Vec::new());
        HeartbeatLog { nodes, noted, untold, turn: 0, limits }
    }

    /// Takes in a heartbeat that came at `now`, in milliseconds since the epoch.
    ///
    /// # Errors
    ///
    /// If the heartbeat does not count; then the scheduler gets no report.
    pub fn receive(
        &mut self,
        beat: Heartbeat,
        now: i64,
        is_listed: impl FnOnce(&str) -> bool,
    ) -> Result<(), RequestFault> {
        let clock_ahead = beat.sent_ms.map_or(0, |sent| sent.saturating_sub(now));
        let (boot_id, sequence) = (beat.boot_id.as_deref(), beat.sequence);
        let Some(node) = self.nodes.get_mut(beat.node.as_str()) else {
            let limit = self.limits.nodes;
            if limit <= self.nodes.len() && !is_listed(&beat.node) {
                let detail = format!(
                    "{limit} nodes report already; the limit is `daemon.limits.max_nodes` in the configuration, and heartbeats of nodes that a nodepool lists always count"
                );
                return Err(RequestFault::new(Code::TooManyNodes, "/node", detail));
            }
            let mut node = Box::new(ReportingNode::new(Agent::new(boot_id, sequence)));
            let name = Name::from(beat.node.as_str());
            node.note_heartbeat(&beat, clock_ahead);
            node.note(&name, &mut self.noted);
            node.is_to_be_told(beat, &mut self.untold, self.turn);
            self.nodes.insert(name, node);
            return Ok(());
        };
        let outcome = node.agent.receive(boot_id, sequence);
        if outcome != HeartbeatOutcome::Alive {
            node.note(&beat.node, &mut self.noted);
            return Err(no_sign_of_life(&beat.node, outcome, &node.agent));
        }
        node.note_heartbeat(&beat, clock_ahead);
        node.note(&beat.node, &mut self.noted);
        node.is_to_be_told(beat, &mut self.untold, self.turn);
        Ok(())
    }

    /// Forgets nodes: a node that reports again is new.
    pub fn forget(&mut self, nodes: &[Name]) {
        for node in nodes {
            self.nodes.remove(node);
            self.noted.remove(node.as_str());
        }
    }

    /// Returns for every node the time from its last heartbeat to `now`, and its unused memory.
    pub fn heartbeat_ages(&self, now: Instant) -> HeartbeatAges {
        let nodes = self.nodes.iter();
        nodes
            .map(|(name, node)| {
                let age = now.saturating_duration_since(node.last_heartbeat);
                (name.to_string(), (age, node.available_mb))
            })
            .collect()
    }

    /// Returns remarks on agents for an administrator, by node; most nodes have none.
    pub fn notes(&self) -> BTreeMap<String, Vec<String>> {
        self.noted.iter().map(|node| (node.clone(), self.notes_of(node))).collect()
    }

    /// Returns remarks on a node's agent for an administrator.
    pub fn notes_of(&self, node: &str) -> Vec<String> {
        if !self.noted.contains(node) {
            return Vec::new();
        }
        let Some(node) = self.nodes.get(node) else { return Vec::new() };
        let conflicting_boot_ids = node.agent.conflicting_boot_ids().map(|(one, other)| {
            format!(
                "two agents report as this node (boot ids `{}` and `{}`); it gets no new work until one is alone",
                shortened(one),
                shortened(other)
            )
        });
        let ahead = node.clock_ahead;
        let minutes = ahead.unsigned_abs().div_euclid(60_000);
        let way = if ahead < 0 { "behind" } else { "ahead of" };
        let skew = is_off(ahead)
            .then(|| format!("its clock is {minutes} min {way} ours; no decision depends on it"));
        conflicting_boot_ids.into_iter().chain(skew).collect()
    }
}

impl ReportingNode {
    fn new(agent: Agent) -> ReportingNode {
        ReportingNode {
            agent,
            clock_ahead: 0,
            last_heartbeat: Instant::now(),
            available_mb: None,
            untold: None,
            is_noted: false,
        }
    }

    fn note_heartbeat(&mut self, beat: &Heartbeat, clock_ahead: i64) {
        self.clock_ahead = clock_ahead;
        self.last_heartbeat = Instant::now();
        self.available_mb = beat.available_mb;
    }

    /// Adds the node to the nodes with remarks, or removes it.
    fn note(&mut self, name: &str, noted: &mut BTreeSet<String>) {
        let is_noted = self.agent.has_conflict() || is_off(self.clock_ahead);
        if is_noted && !self.is_noted {
            noted.insert(name.to_owned());
        } else if !is_noted && self.is_noted {
            noted.remove(name);
        }
        self.is_noted = is_noted;
    }

    /// Adds the report to the undelivered reports, or replaces the node's earlier report there.
    fn is_to_be_told(&mut self, beat: Heartbeat, untold: &mut Vec<NodeReport>, turn: u64) {
        let report = report_of(beat, self.agent.has_conflict());
        match self.untold {
            Some((of_turn, place)) if of_turn == turn => untold[place] = report,
            _ => {
                self.untold = Some((turn, untold.len()));
                untold.push(report);
            }
        }
    }
}

/// True if a clock that is `ahead` milliseconds ahead deserves a remark.
fn is_off(ahead: i64) -> bool {
    SKEW_MAX < ahead.saturating_abs()
}

/// Builds the report for the scheduler. A node with two agents gets no new processes.
fn report_of(beat: Heartbeat, has_conflict: bool) -> NodeReport {
    NodeReport {
        tags: Tags::of(beat.tags),
        name: beat.node.into(),
        memory: Mebibytes(beat.memory_mb),
        is_quiesced: beat.quiesced || has_conflict,
    }
}

/// Explains why a heartbeat does not count.
fn no_sign_of_life(node: &str, outcome: HeartbeatOutcome, agent: &Agent) -> RequestFault {
    if let (HeartbeatOutcome::Other, Some((one, other))) = (outcome, agent.conflicting_boot_ids()) {
        let (one, other) = (shortened(one), shortened(other));
        let detail = format!(
            "two agents report as `{node}`, with boot ids `{one}` and `{other}`; that of `{one}` is listened to, and the node gets no new work until one is alone: stop the other, or give it a name of its own"
        );
        tracing::warn!(node, one, other, "two agents report as one node");
        return RequestFault::new(Code::TwoAgents, "/boot_id", detail);
    }
    let what = if outcome == HeartbeatOutcome::Late {
        "is of an agent that was started again since"
    } else {
        "or a later one came before"
    };
    let detail = format!("this heartbeat of `{node}` {what}; it counts for nothing");
    RequestFault::new(Code::Replayed, "/sequence", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox() -> HeartbeatInbox {
        let time = Duration::ZERO;
        HeartbeatInbox::new(Limits {
            body: 1,
            time,
            nodes: 2,
            jobs: 1,
            processes: 1,
            string: 9,
            absent_publications: 3,
            absent_time: time,
        })
    }

    fn log() -> HeartbeatLog {
        HeartbeatLog::new(inbox().log().limits)
    }

    fn beat(node: &str, boot_id: &str, sequence: u64) -> Heartbeat {
        Heartbeat {
            tags: BTreeMap::new(),
            node: node.to_owned(),
            memory_mb: 1,
            quiesced: false,
            boot_id: Some(boot_id.to_owned()),
            sequence: Some(sequence),
            sent_ms: None,
            available_mb: None,
        }
    }

    #[test]
    fn strangers_are_heard_while_there_is_room_and_listed_nodes_always() {
        let mut log = log();
        let mut receive = |node: &str| {
            let outcome = log.receive(beat(node, "a", 1), 0, |name| name == "listed");
            outcome.map_err(|fault| fault.code)
        };
        assert_eq!(["n1", "n2"].map(&mut receive), [Ok(()), Ok(())]);
        assert_eq!(receive("n3"), Err(Code::TooManyNodes));
        assert_eq!(receive("listed"), Ok(()));
        assert_eq!(receive("n1"), Err(Code::Replayed), "known, so there is space");
    }

    #[test]
    fn a_clock_that_is_far_off_is_said_and_changes_nothing() {
        let mut log = log();
        for (sequence, sent_ms, said) in [
            (1, 0, "its clock is 16 min behind ours; no decision depends on it"),
            (2, 1_000_001, ""),
            (
                3,
                i64::MAX,
                "its clock is 153722867280896 min ahead of ours; no decision depends on it",
            ),
            (
                4,
                i64::MIN,
                "its clock is 153722867280912 min behind ours; no decision depends on it",
            ),
        ] {
            let beat = Heartbeat { sent_ms: Some(sent_ms), ..beat("n1", "a", sequence) };
            assert_eq!(log.receive(beat, 1_000_000, |_| false), Ok(()));
            assert_eq!(log.notes_of("n1").concat(), said);
        }
    }

    #[test]
    fn of_two_agents_both_are_named() {
        let mut log = log();
        let mut receive = |boot_id, sequence| {
            log.receive(beat("n1", boot_id, sequence), 0, |_| false).map_err(|fault| fault.code)
        };
        assert_eq!([receive("a", 1), receive("b", 1)], [Ok(()), Ok(())]);
        assert_eq!([receive("a", 2), receive("a", 3)], [Err(Code::Replayed), Err(Code::TwoAgents)]);
        let notes = log.notes_of("n1").concat();
        assert!(notes.contains("boot ids `b` and `a`"), "{notes}");
        assert_eq!(log.receive(beat("n1", "b", 2), 0, |_| false), Ok(()));
        assert!(log.untold.last().is_some_and(|report| report.is_quiesced), "no new work");
        for sequence in 3..20 {
            assert_eq!(log.receive(beat("n1", "b", sequence), 0, |_| false), Ok(()));
        }
        assert_eq!(log.notes_of("n1"), [""; 0], "one is alone");
        assert!(log.untold.last().is_some_and(|report| !report.is_quiesced));
    }

    /// The scheduler gets the last report of every node once a delivery, in order.
    #[test]
    fn of_every_node_the_last_report_is_told_and_told_once() {
        let inbox = inbox();
        let receive = |node: &str, sequence, memory_mb| {
            let beat = Heartbeat { memory_mb, ..beat(node, "a", sequence) };
            let outcome = inbox.take_in(|log| log.receive(beat, 0, |_| false));
            outcome.map_err(|fault| fault.code)
        };
        let told = || {
            let untold = inbox.untold().into_iter();
            untold.map(|report| (report.name.to_string(), report.memory.0)).collect::<Vec<_>>()
        };
        let one = |node: &str, memory| (node.to_owned(), memory);
        assert_eq!(told(), []);
        assert_eq!([receive("n2", 1, 5), receive("n1", 1, 6), receive("n2", 2, 7)], [Ok(()); 3]);
        assert_eq!(receive("n2", 2, 8), Err(Code::Replayed), "counts for nothing");
        assert_eq!(told(), [one("n2", 7), one("n1", 6)]);
        assert_eq!(told(), []);
        assert_eq!(receive("n1", 2, 9), Ok(()));
        assert_eq!(told(), [one("n1", 9)]);
    }

    #[tokio::test]
    async fn the_reader_of_the_inbox_is_woken_once() {
        let inbox = inbox();
        let is_woken = async || {
            tokio::time::timeout(Duration::from_millis(1), inbox.something()).await.is_ok()
        };
        assert!(!is_woken().await);
        for sequence in 1..4 {
            let beat = beat("n1", "a", sequence);
            assert_eq!(inbox.take_in(|log| log.receive(beat, 0, |_| false)), Ok(()));
        }
        assert!(is_woken().await);
        assert!(!is_woken().await, "it is about to ask");
        assert_eq!(inbox.untold().len(), 1);
        let replayed = inbox.take_in(|log| log.receive(beat("n1", "a", 3), 0, |_| false));
        assert!(replayed.is_err() && !is_woken().await, "there is nothing to tell");
    }
}
