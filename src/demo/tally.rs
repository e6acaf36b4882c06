//! Counts events, as seen over HTTP.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::client::DemoClient;
use super::fairness::FairnessMeter;
use super::orchestrator::Applied;
use super::report::{DemoReport, TimeSpread};
use crate::api::wire::{NodeInfo, NodeState, RemovalReason, Status};
use crate::model::{Millis, count};

/// Most cycle times that are kept: the latest.
const TIMES_KEPT: usize = 10_000;

/// Most findings that are kept word for word: the earliest.
const FINDINGS_KEPT: usize = 10;

/// The numbers so far.
#[derive(Debug, Default)]
pub(super) struct DemoTally {
    /// Shortfall of users from their fair share.
    pub fairness: FairnessMeter,
    /// Requests for work submitted.
    pub submitted: u64,
    /// Requests for work done.
    pub completed: u64,
    nodes_seen: u64,
    cycle: u64,
    times: VecDeque<Duration>,
    audit_findings: u64,
    findings: Vec<String>,
    placed: u64,
    preempted: u64,
    evicted: u64,
    lost_ms: Millis,
    dead: BTreeSet<String>,
    nodes_lost: u64,
}

impl DemoTally {
    /// Enters how the daemon is.
    pub fn status(&mut self, status: &Status) {
        self.nodes_seen = self.nodes_seen.max(status.nodes.total);
        self.audit_findings = status.audit_findings_total;
        if status.cycle <= self.cycle {
            return;
        }
        self.cycle = status.cycle;
        if self.times.len() == TIMES_KEPT {
            self.times.pop_front();
        }
        self.times.push_back(Duration::from_micros(status.planned_in_us + status.stored_in_us));
        let room = FINDINGS_KEPT.saturating_sub(self.findings.len());
        self.findings.extend(status.audit_findings.iter().take(room).cloned());
    }

    /// Enters the changes of a schedule.
    pub fn applied(&mut self, applied: &Applied) {
        self.placed += count(&applied.started);
        for stopped in &applied.stopped {
            match stopped.reason {
                RemovalReason::Preempted => {
                    self.preempted += 1;
                    self.lost_ms += stopped.lost;
                }
                RemovalReason::VariedOff
                | RemovalReason::Blacklisted
                | RemovalReason::NodeDied
                | RemovalReason::Withdrawn
                | RemovalReason::Window
                | RemovalReason::ClassClosed
                | RemovalReason::Overrun
                | RemovalReason::GangBroken => {
                    self.evicted += 1;
                }
            }
        }
    }

    /// Enters the states of the nodes; returns the nodes that died and the nodes that are alive
    /// again.
    pub fn nodes(&mut self, nodes: &[NodeInfo]) -> (Vec<String>, Vec<String>) {
        let is_dead = |node: &&NodeInfo| node.states.contains(&NodeState::Dead);
        let dead: BTreeSet<String> =
            nodes.iter().filter(is_dead).map(|node| node.name.clone()).collect();
        let died: Vec<String> = dead.difference(&self.dead).cloned().collect();
        let revived = self.dead.difference(&dead).cloned().collect();
        self.nodes_lost += count(&died);
        self.dead = dead;
        (died, revived)
    }

    /// The numbers so far, as a report.
    pub fn report(&self, client: &DemoClient, work_done_ms: Millis) -> DemoReport {
        DemoReport {
            nodes_seen: self.nodes_seen,
            cycles: self.cycle,
            cycle_ms: TimeSpread::of(self.times.iter().copied().collect()),
            submitted: self.submitted,
            completed: self.completed,
            shares_placed: self.placed,
            preemptions: self.preempted,
            evictions: self.evicted,
            work_done_ms,
            work_lost_ms: self.lost_ms,
            nodes_lost: self.nodes_lost,
            fairness_error: self.fairness.error_percent(),
            audit_findings: self.audit_findings,
            findings: self.findings.clone(),
            http_errors: client.failures(),
            first_http_error: client.first_failure(),
        }
    }
}
