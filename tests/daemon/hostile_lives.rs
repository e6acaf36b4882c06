//! Hostile lives, against the real binary: nodes that leave for good, come back or return under other
//! names, publications that miss a random part of the work, and a second orchestrator.
//!
//! The oracle is a client that knows only its answers and its own starts. By its arithmetic no node
//! ever has more processes than memory. Work on a node that left is given up, or the first page
//! names the node that keeps it.
//!
//! `cargo test` plays 6 lives. `LIVES=200 cargo test --test system hostile_lives::` plays 200, and
//! `LIFE_SEED=7` draws other lives; a failure prints its seed.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::daemon;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::support::daemon::Daemon;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const CONFIG: &str = r#"
[daemon]
cycle_period = "10ms"
heartbeat_interval = "250ms"

[scheduler]
quantum = "1GB"
node_stability = 2
initialization_cap = 0
expand_by_doubling = false
prediction = false

[[nodepool]]
name = "main"

[[class]]
name = "normal"
policy = "fair-share"
nodepool = "main"

[[class]]
name = "fixed"
policy = "fixed-share"
nodepool = "main"
priority = 5
"#;

const NODE_GB: u64 = 6;
const NODES: u64 = 8;

/// Numbers that are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}

#[derive(Clone, Debug)]
struct Job {
    user: String,
    class: &'static str,
    gb: u64,
    is_over: bool,
}

/// A process in a share, as the orchestrator remembers it.
#[derive(Clone, Debug)]
struct Process {
    job: u64,
    node: String,
    /// True if the process ended, for any reason.
    is_gone: bool,
}

/// The world as it is, with an orchestrator that knows it but for the nodes that left.
struct Life {
    dice: Dice,
    daemon: Daemon,
    /// True if the orchestrator sends its name.
    is_named: bool,
    /// For each node, true if it reports; a node that left stays in the list.
    nodes: BTreeMap<String, bool>,
    jobs: BTreeMap<u64, Job>,
    processes: BTreeMap<u64, Process>,
    sequence: u64,
    /// Number of unfinished jobs in the last publication, if the first orchestrator sent it.
    published: usize,
    next_job: u64,
    next_node: u64,
    /// Number of the second orchestrator's publications, and of its refusals.
    rival: (u64, u64),
    /// Publications that missed a part.
    missing: u64,
}

impl Life {
    fn new(seed: u64, daemon: Daemon) -> Life {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let is_named = dice.one_in(2);
        let nodes = (1..=NODES).map(|number| (format!("n{number}"), true)).collect();
        Life {
            dice,
            daemon,
            is_named,
            nodes,
            jobs: BTreeMap::new(),
            processes: BTreeMap::new(),
            sequence: 0,
            published: 0,
            next_job: 0,
            next_node: NODES,
            rival: (0, 0),
            missing: 0,
        }
    }

    async fn beat(&self) {
        let up = self.nodes.iter().filter(|(_, is_up)| **is_up);
        let nodes: Vec<Value> =
            up.map(|(node, _)| json!({ "node": node, "memory_mb": NODE_GB * 1024 })).collect();
        let body = json!({ "nodes": nodes });
        let answer = self.daemon.send(Method::POST, "/v1/heartbeats", &body).await;
        assert_eq!(answer.status(), StatusCode::ACCEPTED);
    }

    /// Jobs come and end, nodes leave, return, or return under another name.
    fn happen(&mut self) {
        while self.jobs.values().filter(|job| !job.is_over).count() < 6 {
            self.next_job += 1;
            let class = if self.dice.one_in(4) { "fixed" } else { "normal" };
            let (user, gb) = (format!("u{}", self.dice.roll(4)), 1 + self.dice.roll(3));
            self.jobs.insert(self.next_job, Job { user, class, gb, is_over: false });
        }
        if self.dice.one_in(12) {
            let number = self.dice.roll(self.next_job) + 1;
            self.end_job(number);
        }
        if self.dice.one_in(10) {
            // A node alone, or several nodes in the same window.
            for _ in 0..=self.dice.roll(2) * self.dice.roll(4) {
                self.leave();
            }
        }
        let gone: Vec<String> = self.away().map(str::to_owned).collect();
        let up = self.nodes.len() - gone.len();
        if up < 4 || (!gone.is_empty() && self.dice.one_in(12)) {
            if let Some(node) = gone.first().filter(|_| self.dice.one_in(2)) {
                self.nodes.insert(node.clone(), true);
            } else {
                self.next_node += 1;
                self.nodes.insert(format!("n{}", self.next_node), true);
            }
        }
    }

    fn away(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter(|(_, is_up)| !**is_up).map(|(node, _)| node.as_str())
    }

    fn end_job(&mut self, number: u64) {
        if let Some(job) = self.jobs.get_mut(&number) {
            job.is_over = true;
        }
        for process in self.processes.values_mut().filter(|process| process.job == number) {
            process.is_gone = true;
        }
    }

    /// Switches a node and its processes off, without a report to the orchestrator.
    fn leave(&mut self) {
        let up: Vec<String> =
            self.nodes.iter().filter(|(_, is_up)| **is_up).map(|(node, _)| node.clone()).collect();
        if up.len() > 3 {
            let place = usize::try_from(self.dice.roll(up.len().try_into().unwrap())).unwrap();
            self.nodes.insert(up[place].clone(), false);
        }
    }

    /// All work, except a random part of 1 in `missing` jobs and processes; 0 leaves out nothing.
    fn work(&mut self, missing: u64) -> Vec<Value> {
        let mut work = Vec::new();
        for (id, job) in &self.jobs {
            if missing != 0 && self.dice.one_in(missing) {
                continue;
            }
            let its = self.processes.iter().filter(|(_, process)| process.job == *id);
            let mut processes = Vec::new();
            for (share, process) in its {
                if missing != 0 && self.dice.one_in(missing) {
                    continue;
                }
                let state = if process.is_gone { "gone" } else { "running" };
                processes.push(json!({ "share": share, "node": process.node, "state": state }));
            }
            let is_fixed = job.class == "fixed";
            work.push(json!({
                "id": id, "kind": if is_fixed { "arbitrary_process" } else { "job" },
                "user": job.user, "class": job.class, "memory_mb": job.gb * 1024,
                "state": if job.is_over { "completed" } else { "running" }, "running": true,
                "remaining": if is_fixed { 1 } else { 1000 }, "submitted_ms": id,
                "processes": processes,
            }));
        }
        work
    }

    async fn publish(&mut self, missing: u64, is_full: bool) {
        let work = self.work(missing);
        self.missing += u64::from(missing != 0);
        let status = self.daemon.get("/v1/status").await;
        self.sequence = self.sequence.max(status["publication"].as_u64().unwrap_or(0)) + 1;
        let mut body = json!({ "sequence": self.sequence, "work": work });
        if is_full {
            body["full"] = json!(true);
        }
        if self.is_named {
            body["publisher"] = json!("main");
        }
        let (status, answer) =
            self.daemon.try_ask(Method::PUT, "/v1/publication", Some(&body)).await.unwrap();
        // Suddenly nothing at all is refused, and a rival's number may have come between.
        if status == StatusCode::ACCEPTED {
            self.published = body["work"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|job| job["state"] != "completed")
                .count();
        }
        let is_expected = status == StatusCode::ACCEPTED || status == StatusCode::CONFLICT;
        assert!(is_expected, "{status} {answer}");
        assert!(!is_full || status == StatusCode::ACCEPTED, "{status} {answer}");
    }

    /// Another orchestrator, with work of its own and nothing of ours.
    async fn publish_rival(&mut self) {
        let status = self.daemon.get("/v1/status").await;
        let sequence = status["publication"].as_u64().unwrap_or(0) + 1 + self.dice.roll(3);
        let work = json!([daemon::job(900_000 + self.dice.roll(3), "rival", &[])]);
        let body = json!({ "sequence": sequence, "work": work });
        let (status, answer) =
            self.daemon.try_ask(Method::PUT, "/v1/publication", Some(&body)).await.unwrap();
        self.rival.0 += 1;
        self.rival.1 += u64::from(status == StatusCode::CONFLICT);
        if self.is_named && self.sequence != 0 {
            assert_eq!(status, StatusCode::CONFLICT, "a second orchestrator is refused: {answer}");
        } else if status == StatusCode::ACCEPTED && 0 < self.published {
            assert_ne!(answer["warnings"], json!([]), "a second orchestrator is remarked");
        }
        if status == StatusCode::ACCEPTED {
            self.published = 0;
        }
    }

    /// Follows the schedule: starts added shares, ends removed shares.
    async fn obey(&mut self) {
        let (status, schedule) = self.daemon.try_get("/v1/schedule").await.unwrap();
        if status != StatusCode::OK {
            return;
        }
        self.recount(&schedule);
        for job in schedule["jobs"].as_array().unwrap() {
            let id = job["id"].as_u64().unwrap();
            for removed in job["removed"].as_array().unwrap() {
                let share = removed["share"].as_u64().unwrap();
                let node = removed["node"].as_str().unwrap().to_owned();
                let gone = Process { job: id, node, is_gone: true };
                self.processes.entry(share).and_modify(|it| it.is_gone = true).or_insert(gone);
            }
            if self.jobs.get(&id).is_none_or(|job| job.is_over) {
                continue;
            }
            for added in job["added"].as_array().unwrap() {
                let share = added["share"].as_u64().unwrap();
                let node = added["node"].as_str().unwrap().to_owned();
                let started = Process { job: id, node, is_gone: false };
                self.processes.entry(share).or_insert(started);
            }
        }
        self.recount(&schedule);
    }

    /// Checks that scheduled and started shares, each counted once, never exceed a node. On a node
    /// that left nothing runs, so the orchestrator's view of it does not count.
    fn recount(&self, schedule: &Value) {
        let mut on: BTreeMap<&str, BTreeMap<u64, u64>> = BTreeMap::new();
        for job in schedule["jobs"].as_array().unwrap() {
            // A withdrawn share has no process: its space went to a share that was given up for absent
            // and is published again. A process that was started in it counts below.
            let is_purged = |share: &Value| {
                let removed = job["removed"].as_array().unwrap().iter();
                removed.into_iter().any(|it| {
                    let has_none = it["purge"] == true || it["reason"] == "withdrawn";
                    it["share"] == share["share"] && has_none
                })
            };
            for share in job["shares"].as_array().unwrap().iter().filter(|it| !is_purged(it)) {
                let mb = share["memory_mb"].as_u64().unwrap();
                let node = share["node"].as_str().unwrap();
                on.entry(node).or_default().insert(share["share"].as_u64().unwrap(), mb);
            }
        }
        for (share, process) in self.processes.iter().filter(|(_, process)| !process.is_gone) {
            if self.nodes.get(&process.node) == Some(&true) {
                let mb = self.jobs[&process.job].gb * 1024;
                on.entry(&process.node).or_default().insert(*share, mb);
            }
        }
        for (node, shares) in on {
            let mb: u64 = shares.values().sum();
            assert!(
                mb <= NODE_GB * 1024,
                "{node} has {mb} MB of {NODE_GB} GB: {shares:?} {schedule}"
            );
        }
    }

    /// By the list of nodes, none has more in use than it has. Withdrawn shares have no process, and
    /// count until their end is confirmed: their space went to a share that was published again.
    async fn look_at_nodes(&self) {
        let before = self.daemon.get("/v1/schedule").await;
        let nodes = self.daemon.get("/v1/nodes").await;
        let after = self.daemon.get("/v1/schedule").await;
        for node in nodes["nodes"].as_array().into_iter().flatten() {
            let (used, all) = (node["used"].as_u64().unwrap(), node["order"].as_u64().unwrap());
            // A cycle may come between the answers.
            let withdrawn = withdrawn_on(&before, node).max(withdrawn_on(&after, node));
            assert!(used <= all + withdrawn, "{node} {before} {after}");
        }
    }

    /// Every node that left: its work is given up, or the first page names it.
    async fn assert_the_dead_are_given_up(&self) {
        let away: BTreeSet<&str> = self.away().collect();
        let mut left = BTreeSet::new();
        for _ in 0..600 {
            self.beat().await;
            let schedule = self.daemon.get("/v1/schedule").await;
            let page = self.daemon.ask("/").await.text().await.unwrap();
            let held = held_on(&page);
            left = booked_on(&schedule)
                .into_iter()
                .filter(|node| away.contains(node.as_str()) && !held.contains(node))
                .collect();
            if left.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        let status = self.daemon.get("/v1/status").await;
        panic!("work on {left:?} is neither given up nor named: {status}");
    }

    /// The operator declares every node that left lost; the orchestrator publishes its whole state,
    /// and schedule and world agree.
    async fn end(&mut self) {
        self.assert_the_dead_are_given_up().await;
        let silent = self.daemon.get("/v1/status").await["silent_together"].clone();
        if silent.as_array().is_some_and(|silent| !silent.is_empty()) {
            let body = json!({ "nodes": silent, "reason": "they left" });
            let answer = self.daemon.send(Method::POST, "/v1/nodes/lost", &body).await;
            assert_eq!(answer.status(), StatusCode::OK, "{}", answer.text().await.unwrap());
        }
        for _ in 0..400 {
            self.beat().await;
            self.publish(0, true).await;
            tokio::time::sleep(Duration::from_millis(15)).await;
            self.obey().await;
            self.look_at_nodes().await;
            let schedule = self.daemon.get("/v1/schedule").await;
            let away: BTreeSet<&str> = self.away().collect();
            let is_rid = booked_on(&schedule).iter().all(|node| !away.contains(node.as_str()));
            if is_rid && self.agrees(&schedule) {
                return;
            }
        }
        let schedule = self.daemon.get("/v1/schedule").await;
        panic!("books and world differ: {:?}\n{schedule}", self.processes);
    }

    /// True if the schedule has every running process, and every share of the schedule runs.
    fn agrees(&self, schedule: &Value) -> bool {
        let shares = |list: &str| -> BTreeSet<u64> {
            let jobs = schedule["jobs"].as_array().unwrap().iter();
            let its = jobs.flat_map(|job| job[list].as_array().unwrap());
            its.map(|share| share["share"].as_u64().unwrap()).collect()
        };
        let runs = self.processes.iter().filter(|(_, process)| !process.is_gone);
        let runs: BTreeSet<u64> = runs.map(|(share, _)| *share).collect();
        shares("shares") == runs && shares("removed").is_empty() && shares("added").is_empty()
    }
}

/// Memory of the withdrawn shares that a schedule has on a node, in GB.
fn withdrawn_on(schedule: &Value, node: &Value) -> u64 {
    let shares = |job: &Value| -> u64 {
        let removed = job["removed"].as_array().unwrap();
        let withdrawn = removed.iter().filter(|it| it["reason"] == "withdrawn");
        let withdrawn: BTreeSet<u64> = withdrawn.map(|it| it["share"].as_u64().unwrap()).collect();
        let shares = job["shares"].as_array().unwrap().iter();
        let its = shares.filter(|share| share["node"] == node["name"]);
        let its = its.filter(|share| withdrawn.contains(&share["share"].as_u64().unwrap()));
        its.map(|share| share["memory_mb"].as_u64().unwrap().div_euclid(1024)).sum()
    };
    // Before the first publication there is no schedule.
    schedule["jobs"].as_array().into_iter().flatten().map(shares).sum()
}

/// The nodes that the alarm on the first page names, written `n[2,4-5]` or `n3`.
fn held_on(page: &str) -> BTreeSet<String> {
    let Some((_, after)) = page.split_once("fell silent together (") else {
        return BTreeSet::new();
    };
    let (list, _) = after.split_once(')').unwrap();
    let numbers = list.trim_start_matches('n').trim_matches(['[', ']']);
    let mut held = BTreeSet::new();
    for range in numbers.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
        held.extend((first..=last).map(|number| format!("n{number}")));
    }
    held
}

/// The nodes on which a schedule has work that is not given up.
fn booked_on(schedule: &Value) -> BTreeSet<String> {
    let mut nodes = BTreeSet::new();
    for job in schedule["jobs"].as_array().unwrap() {
        let removed = job["removed"].as_array().unwrap();
        let is_given_up = |share: &Value| {
            removed.iter().any(|it| it["share"] == share["share"] && it["purge"] == true)
        };
        let shares = job["shares"].as_array().unwrap().iter().filter(|it| !is_given_up(it));
        nodes.extend(shares.map(|share| share["node"].as_str().unwrap().to_owned()));
    }
    nodes
}

async fn live(seed: u64) -> (u64, u64, u64, usize) {
    let folder = tempfile::tempdir().unwrap();
    let mut life = Life::new(seed, Daemon::start(folder.path(), CONFIG));
    for _ in 0..60 {
        life.happen();
        life.beat().await;
        match life.dice.roll(10) {
            0..=1 => life.publish(3, false).await,
            2 => life.publish(1, false).await,
            3 if life.dice.one_in(2) => life.publish_rival().await,
            _ => life.publish(0, false).await,
        }
        tokio::time::sleep(Duration::from_millis(15)).await;
        life.beat().await;
        life.obey().await;
        life.look_at_nodes().await;
        if life.dice.one_in(20) {
            life.daemon.kill();
            life.daemon = Daemon::start(folder.path(), CONFIG);
        }
    }
    life.end().await;
    (life.rival.0, life.rival.1, life.missing, life.processes.len())
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Lives are lived two at a time, each with a daemon of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "what to say again to have the same lives")]
async fn hostile_lives_overfill_no_node_and_strand_no_work() {
    let (lives, seed) = (setting("LIVES", 6), setting("LIFE_SEED", 1));
    println!("LIVES={lives} LIFE_SEED={seed}");
    let mut at_once = tokio::task::JoinSet::new();
    let mut told = (0, 0, 0, 0);
    for life in 0..lives {
        let seed = seed * 1_000 + life;
        if 1 < at_once.len() {
            add(&mut told, at_once.join_next().await.unwrap());
        }
        at_once.spawn(async move {
            let came = tokio::spawn(live(seed)).await;
            came.unwrap_or_else(|error| panic!("the life of seed {seed}: {error}"))
        });
    }
    while let Some(came) = at_once.join_next().await {
        add(&mut told, came);
    }
    println!(
        "rival publications {}, refused {}, publications that missed a part {}, processes {}",
        told.0, told.1, told.2, told.3
    );
    assert!(0 < told.0 && 0 < told.2 && lives < usize_of(told.3), "hardly anything happened");
}

fn usize_of(number: usize) -> u64 {
    number.try_into().unwrap()
}

fn add(
    told: &mut (u64, u64, u64, usize),
    came: Result<(u64, u64, u64, usize), tokio::task::JoinError>,
) {
    let came = came.unwrap();
    told.0 += came.0;
    told.1 += came.1;
    told.2 += came.2;
    told.3 += came.3;
}
