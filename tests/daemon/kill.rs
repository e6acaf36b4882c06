//! The real binary, killed with SIGKILL again and again while it works: shown facts stay true.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::daemon::{CONFIG, Daemon, job};
use serde_json::Value;

const NODES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];

/// A life of the daemon, in which all nodes report. Dropping it kills it, as `kill -9` would.
async fn life(folder: &Path) -> Daemon {
    let daemon = Daemon::start(folder, CONFIG);
    daemon.nodes("n1=8 n2=8 n3=8 n4=8 n5=8 n6=8").await;
    daemon
}

async fn vary_off(life: &Daemon, node: &str) {
    // A node is known once the first cycle after its heartbeat is on record.
    life.get_until(&format!("/v1/nodes/{node}"), |_| true).await;
    life.vary_off(node).await;
}

fn numbers(shares: &Value) -> impl Iterator<Item = u64> {
    shares.as_array().unwrap().iter().map(|share| share["share"].as_u64().unwrap())
}

/// The shares that the schedule wants to end.
fn told_to_end(schedule: &Value) -> impl Iterator<Item = u64> {
    schedule["jobs"].as_array().unwrap().iter().flat_map(|job| numbers(&job["removed"]))
}

/// An orchestrator that starts and ends every process as the schedule says.
#[derive(Default)]
struct Orchestrator {
    sequence: u64,
    jobs: Vec<(u64, &'static str)>,
    /// Share to job and node: every share of a schedule so far.
    ever: BTreeMap<u64, (u64, String)>,
    running: BTreeMap<u64, (u64, String)>,
    /// Shares that were terminated. That is final.
    ended: BTreeSet<u64>,
}

impl Orchestrator {
    async fn publish(&mut self, life: &Daemon) {
        self.sequence += 1;
        let work = self.jobs.iter().map(|&(id, user)| {
            let its = self.running.iter().filter(|(_, (job, _))| *job == id);
            let its: Vec<_> = its.map(|(share, (_, node))| (*share, node.as_str())).collect();
            job(id, user, &its)
        });
        life.publish(self.sequence, &work.collect::<Vec<_>>()).await;
    }

    /// Remembers the schedule. A share number must never have meant anything else.
    fn note(&mut self, schedule: &Value) {
        for job in schedule["jobs"].as_array().unwrap() {
            let id = job["id"].as_u64().unwrap();
            for share in job["shares"].as_array().unwrap() {
                let number = share["share"].as_u64().unwrap();
                let place = (id, share["node"].as_str().unwrap().to_owned());
                let first = self.ever.entry(number).or_insert_with(|| place.clone());
                assert_eq!(first, &place, "share {number} was used again");
            }
            let removed: BTreeSet<u64> = numbers(&job["removed"]).collect();
            for number in numbers(&job["shares"]).filter(|number| self.ended.contains(number)) {
                assert!(removed.contains(&number), "share {number} was told to end, and came back");
            }
            self.ended.extend(removed);
        }
    }

    /// Does as the schedule says.
    fn obey(&mut self, schedule: &Value) {
        self.note(schedule);
        for job in schedule["jobs"].as_array().unwrap() {
            for share in job["added"].as_array().unwrap() {
                let number = share["share"].as_u64().unwrap();
                self.running.insert(number, self.ever[&number].clone());
            }
            for share in job["removed"].as_array().unwrap() {
                self.running.remove(&share["share"].as_u64().unwrap());
            }
        }
        self.assert_no_node_is_overcommitted();
    }

    fn assert_no_node_is_overcommitted(&self) {
        for node in NODES {
            let processes = self.running.values().filter(|(_, on)| on == node).count();
            assert!(processes <= 8, "{node} runs {processes} processes of 1 GB on 8 GB");
        }
    }
}

#[tokio::test]
async fn killed_at_any_moment_it_comes_back_without_reusing_a_share_or_forgetting_a_node() {
    let folder = tempfile::tempdir().unwrap();
    let mut orchestrator = Orchestrator { jobs: vec![(1, "ann")], ..Orchestrator::default() };
    let mut off: Vec<&str> = Vec::new();
    for round in 0..10_u64 {
        if round % 5 == 4 {
            // Bob is gone, so no cycle preempts ann again; and a life without any publication must
            // not remove anything from the store.
            orchestrator.jobs.retain(|(_, user)| *user != "bob");
            let idle = life(folder.path()).await;
            let node = NODES[off.len()];
            vary_off(&idle, node).await;
            off.push(node);
        }
        let life = life(folder.path()).await;
        orchestrator.publish(&life).await;
        // Each life dies at another point of the same conversation.
        if round % 5 == 0 {
            continue;
        }
        let schedule = life.schedule().await;
        orchestrator.note(&schedule);
        if round % 5 == 1 {
            // Shown, and never carried out.
            continue;
        }
        orchestrator.obey(&schedule);
        if round % 5 == 2 {
            let node = NODES[off.len()];
            vary_off(&life, node).await;
            off.push(node);
            continue;
        }
        if round % 5 == 3 {
            orchestrator.jobs.push((round, "bob"));
            orchestrator.publish(&life).await;
            // The schedule preempts ann, and the daemon dies before her process has ended.
            let ended = orchestrator.ended.clone();
            let is_news = |share: u64| !ended.contains(&share);
            let told = life.schedule_when(|schedule| told_to_end(schedule).any(is_news)).await;
            orchestrator.note(&told);
            continue;
        }
        orchestrator.publish(&life).await;
        orchestrator.obey(&life.schedule().await);
    }
    let life = life(folder.path()).await;
    for node in &off {
        assert_eq!(life.get(&format!("/v1/nodes/{node}")).await["vary_off_reason"], "a test");
    }
    assert_eq!(off.len(), 4);
    assert!(!orchestrator.running.is_empty());
}
