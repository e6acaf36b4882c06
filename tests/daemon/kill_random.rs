//! The real binary, killed with SIGKILL at random moments while agents report, an orchestrator
//! publishes and carries out what it is told, and an administrator takes nodes out and puts them
//! back: what was answered and what was shown stays true.
//!
//! Failures are named as in the list of invariants: I21, used and free space is all space; I22, a
//! fact that a client has seen is stored; and so on to I27.
//!
//! `cargo test` kills it 12 times. `KILLS=200 cargo test --test system kill_random::` kills it 200 times,
//! and `KILL_SEED=7` draws another history; a failure says its seed.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::daemon;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use crate::support::daemon::{Daemon, Gone};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const CONFIG: &str = r#"
[daemon]
cycle_period = "10ms"

[scheduler]
quantum = "1GB"
allotment = "12GB"

[[nodepool]]
name = "main"

[[class]]
name = "normal"
policy = "fair-share"
nodepool = "main"
weight = 100

[[class]]
name = "urgent"
policy = "fair-share"
nodepool = "main"
weight = 300

[[class]]
name = "fixed"
policy = "fixed-share"
nodepool = "main"
priority = 5
"#;

const NODES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];
const NODE_GB: u64 = 8;
const USERS: [&str; 3] = ["ann", "bob", "cid"];

/// Codes of expected warnings: publications that died with the daemon, nodes that have not reported
/// to the next daemon yet, processes that end slowly.
const EXPECTED_WARNINGS: [&str; 3] = ["P012", "P045", "P044"];

/// Numbers that are the same for the same seed.
struct Dice(Cell<u64>);

impl Dice {
    fn roll(&self, sides: u64) -> u64 {
        let mut x = self.0.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.0.set(x);
        (x >> 11) % sides
    }

    fn pick<T: Copy>(&self, all: &[T]) -> T {
        all[usize::try_from(self.roll(all.len().try_into().unwrap())).unwrap()]
    }
}

/// All nodes report.
async fn report(life: &Daemon) -> Result<(), Gone> {
    let nodes = NODES.map(|node| json!({ "node": node, "memory_mb": NODE_GB * 1024 }));
    let body = json!({ "nodes": nodes });
    let (status, answer) = life.try_ask(Method::POST, "/v1/heartbeats", Some(&body)).await?;
    assert_eq!((status, &answer["accepted"]), (StatusCode::ACCEPTED, &json!(NODES.len())));
    Ok(())
}

/// State of a node in scheduling, as far as its administrator knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    On,
    Off,
    /// The daemon died before it answered.
    Unknown,
}

/// Takes nodes out and puts them back.
struct Administrator {
    sides: BTreeMap<&'static str, Side>,
    /// Number of requests.
    acts: u64,
}

impl Administrator {
    /// Sends a random act.
    async fn act(this: &RefCell<Administrator>, life: &Daemon, dice: &Dice) -> Result<(), Gone> {
        let node = dice.pick(&NODES);
        let is_off = dice.roll(5) < 2;
        let (path, body, side) = if is_off {
            ("/v1/nodes/vary-off", json!({ "nodes": [node], "reason": "disks" }), Side::Off)
        } else {
            ("/v1/nodes/vary-on", json!({ "nodes": [node] }), Side::On)
        };
        this.borrow_mut().acts += 1;
        let before = this.borrow_mut().sides.insert(node, Side::Unknown).unwrap();
        let (status, answer) = life.try_ask(Method::POST, path, Some(&body)).await?;
        let is_done = status == StatusCode::OK;
        // Soon after a start the node may be the only node, or unknown.
        let is_refused = answer["code"] == "A001" || answer["code"] == "A003";
        assert!(is_done || is_refused, "{status} {answer}");
        this.borrow_mut().sides.insert(node, if is_done { side } else { before });
        Ok(())
    }

    /// The daemon must report every node as in its last answer.
    async fn check(this: &RefCell<Administrator>, life: &Daemon) -> Result<(), Gone> {
        for node in NODES {
            let side = this.borrow().sides[node];
            let path = format!("/v1/nodes/{node}");
            let (mut status, mut info) = life.try_get(&path).await?;
            // The daemon may still be reading its store.
            while side == Side::Off && status == StatusCode::NOT_FOUND {
                tokio::time::sleep(Duration::from_millis(5)).await;
                (status, info) = life.try_get(&path).await?;
            }
            let is_off = info["vary_off_reason"] == "disks";
            let said = if is_off { Side::Off } else { Side::On };
            assert!(
                side == Side::Unknown || side == said,
                "I22: {node} is {side:?}: {status} {info}"
            );
            if status == StatusCode::OK {
                assert_ledger(&info);
            }
            this.borrow_mut().sides.insert(node, said);
        }
        Ok(())
    }
}

/// I21: everything on a node is counted, and counted once.
fn assert_ledger(info: &Value) {
    let number = |field: &str| info[field].as_u64().unwrap();
    let (order, used, free) = (number("order"), number("used"), number("free"));
    assert_eq!(order, used + free, "I21: {info}");
}

struct Job {
    id: u64,
    user: &'static str,
    class: &'static str,
    gb: u64,
    remaining: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    job: u64,
    node: String,
}

/// An orchestrator that starts each added share once, and ends terminated shares in its own time.
#[derive(Default)]
struct Orchestrator {
    sequence: u64,
    next_job: u64,
    jobs: Vec<Job>,
    /// Every share of a schedule so far.
    ever: BTreeMap<u64, Place>,
    started: BTreeSet<u64>,
    /// Shares whose addition it missed.
    missed: BTreeSet<u64>,
    /// Shares that were terminated before it had started them: it reports them as gone.
    gone: BTreeMap<u64, Place>,
    running: BTreeMap<u64, Place>,
    /// Shares that were terminated. That is final.
    told: BTreeSet<u64>,
    /// Last cycle that the daemon showed.
    cycle: u64,
    publication: u64,
}

impl Orchestrator {
    /// Time passes: work is done, work ends, work comes, and processes end that were told to.
    fn live(&mut self, dice: &Dice) {
        let told = &self.told;
        self.running.retain(|share, _| !told.contains(share) || dice.roll(2) == 0);
        for job in &mut self.jobs {
            let busy = self.running.values().filter(|place| place.job == job.id);
            let done: u64 = busy.map(|_| dice.roll(3)).sum();
            job.remaining = job.remaining.saturating_sub(done);
        }
        self.jobs.retain(|job| 0 < job.remaining);
        let jobs = &self.jobs;
        self.running.retain(|_, place| jobs.iter().any(|job| job.id == place.job));
        while self.jobs.len() < 8 {
            self.next_job += 1;
            let id = self.next_job;
            let class = dice.pick(&["normal", "normal", "urgent", "fixed"]);
            let (user, gb) = (dice.pick(&USERS), 1 + dice.roll(4));
            let remaining = 1 + dice.roll(if class == "fixed" { 20 } else { 200 });
            self.jobs.push(Job { id, user, class, gb, remaining });
        }
    }

    fn work(&self) -> Vec<Value> {
        let work = self.jobs.iter().map(|job| {
            let of = |places: &BTreeMap<u64, Place>, state: &str| -> Vec<Value> {
                let its = places.iter().filter(|(_, place)| place.job == job.id);
                its.map(
                    |(share, place)| json!({ "share": share, "node": place.node, "state": state }),
                )
                .collect()
            };
            let processes = [of(&self.running, "running"), of(&self.gone, "gone")].concat();
            let is_fixed = job.class == "fixed";
            json!({
                "id": job.id, "kind": if is_fixed { "arbitrary_process" } else { "job" },
                "user": job.user, "class": job.class, "state": "running", "running": true,
                "memory_mb": job.gb * 1024, "submitted_ms": job.id, "processes": processes,
                "remaining": if is_fixed { 1 } else { job.remaining },
            })
        });
        work.collect()
    }

    /// Publishes the whole state. No part may be refused, for any fate of the publication before.
    /// The same publication again changes nothing, and an earlier publication is refused.
    async fn publish(this: &RefCell<Orchestrator>, life: &Daemon, dice: &Dice) -> Result<(), Gone> {
        let (sequence, work) = {
            let mut it = this.borrow_mut();
            it.sequence += 1;
            (it.sequence, it.work())
        };
        let body = json!({ "sequence": sequence, "full": true, "work": work });
        let (status, answer) = life.try_ask(Method::PUT, "/v1/publication", Some(&body)).await?;
        assert_eq!(status, StatusCode::ACCEPTED, "I26: {answer}");
        assert_eq!(answer["refused"], json!([]), "I26: {answer}");
        for warning in answer["warnings"].as_array().unwrap() {
            let code = warning["code"].as_str().unwrap();
            assert!(EXPECTED_WARNINGS.contains(&code), "I26: {warning}");
        }
        if dice.roll(4) == 0 {
            let (status, again) = life.try_ask(Method::PUT, "/v1/publication", Some(&body)).await?;
            assert_eq!(status, StatusCode::ACCEPTED, "I24: {again}");
            assert_eq!(again["accepted"], answer["accepted"], "I24: {again}");
            let older = json!({ "sequence": sequence - 1, "work": [] });
            let (status, answer) =
                life.try_ask(Method::PUT, "/v1/publication", Some(&older)).await?;
            assert_eq!(status, StatusCode::CONFLICT, "I24: {answer}");
        }
        Ok(())
    }

    /// Asks for the schedule and carries it out.
    async fn obey(
        this: &RefCell<Orchestrator>,
        administrator: &RefCell<Administrator>,
        life: &Daemon,
        dice: &Dice,
    ) -> Result<(), Gone> {
        let off = || {
            let it = administrator.borrow();
            let off: Vec<&str> =
                NODES.into_iter().filter(|node| it.sides[node] == Side::Off).collect();
            (it.acts, off)
        };
        let before = off();
        let (status, schedule) = life.try_get("/v1/schedule").await?;
        if status == StatusCode::OK {
            let off = if off() == before { before.1 } else { Vec::new() };
            this.borrow_mut().carry_out(&schedule, &off, dice);
        }
        Ok(())
    }

    /// `off` were off before the schedule was asked for, and ever since.
    fn carry_out(&mut self, schedule: &Value, off: &[&str], dice: &Dice) {
        let cycle = schedule["cycle"].as_u64().unwrap();
        assert!(self.cycle <= cycle, "I23: cycle {cycle} was shown after {}", self.cycle);
        self.cycle = cycle;
        for job in schedule["jobs"].as_array().unwrap() {
            let id = job["id"].as_u64().unwrap();
            let removed: BTreeSet<u64> = numbers(&job["removed"]).collect();
            for share in job["shares"].as_array().unwrap() {
                let number = share["share"].as_u64().unwrap();
                let place = Place { job: id, node: share["node"].as_str().unwrap().to_owned() };
                let first = self.ever.entry(number).or_insert_with(|| place.clone());
                assert_eq!(first, &place, "I02: share {number} was used again");
                let is_held = !removed.contains(&number);
                let was_told = self.told.contains(&number);
                assert!(
                    !(is_held && was_told),
                    "I04: share {number} was told to end, and came back"
                );
                // Work that is not preempted stays on a node that is off.
                let may_stay = self.jobs.iter().all(|job| job.id != id || job.class == "fixed");
                let is_off = off.contains(&place.node.as_str());
                assert!(
                    !is_held || may_stay || !is_off,
                    "I06: share {number} is on {place:?}, which is off"
                );
            }
            for number in removed.iter().filter(|number| !self.started.contains(number)) {
                self.gone.insert(*number, self.ever[number].clone());
            }
            self.told.extend(removed);
            let added: BTreeSet<u64> = numbers(&job["added"]).collect();
            let is_ours = self.jobs.iter().any(|job| job.id == id);
            let (ever, told) = (&self.ever, &self.told);
            let forgotten = self.missed.iter().find(|share| {
                ever[share].job == id && !told.contains(share) && !added.contains(share)
            });
            assert!(!is_ours || forgotten.is_none(), "I25: {forgotten:?} is told no more: {job}");
            for number in added {
                if !is_ours || self.told.contains(&number) || self.started.contains(&number) {
                    continue;
                }
                if dice.roll(8) == 0 {
                    self.missed.insert(number);
                    continue;
                }
                self.missed.remove(&number);
                self.started.insert(number);
                self.running.insert(number, self.ever[&number].clone());
            }
        }
        self.assert_no_node_is_overcommitted();
    }

    fn gb_on(&self, node: &str) -> u64 {
        let size = |place: &Place| {
            self.jobs.iter().find(|job| job.id == place.job).map_or(0, |job| job.gb)
        };
        self.running.values().filter(|place| place.node == node).map(size).sum()
    }

    fn assert_no_node_is_overcommitted(&self) {
        for node in NODES {
            let gb = self.gb_on(node);
            assert!(gb <= NODE_GB, "I01: {node} runs {gb} GB of {NODE_GB}: {:?}", self.running);
        }
    }

    /// A stored fact that was visible once must still be visible.
    async fn look(this: &RefCell<Orchestrator>, life: &Daemon) -> Result<(), Gone> {
        let (_, status) = life.try_get("/v1/status").await?;
        let (cycle, publication) = (status["cycle"].as_u64(), status["publication"].as_u64());
        let mut it = this.borrow_mut();
        assert!(Some(it.cycle) <= cycle, "I23: cycle {} was shown: {status}", it.cycle);
        assert_eq!(status["audit_findings_total"], 0, "I01: {status}");
        assert!(
            it.publication <= publication.unwrap_or(0),
            "I22: publication {} was shown: {status}",
            it.publication
        );
        it.publication = publication.unwrap_or(0);
        Ok(())
    }
}

fn numbers(shares: &Value) -> impl Iterator<Item = u64> {
    shares.as_array().unwrap().iter().map(|share| share["share"].as_u64().unwrap())
}

/// Requests of all clients until the daemon is gone.
struct Conversation<'a> {
    life: &'a Daemon,
    orchestrator: &'a RefCell<Orchestrator>,
    administrator: &'a RefCell<Administrator>,
    dice: &'a Dice,
}

impl Conversation<'_> {
    async fn hold(&self) -> Gone {
        let all = async { tokio::try_join!(self.agents(), self.work(), self.acts()) };
        match all.await {
            Err(gone) => gone,
        }
    }

    /// Publishes that nothing has happened, waits for the cycle after that, and does as it is told.
    async fn wait(&self) -> Result<(), Gone> {
        Orchestrator::publish(self.orchestrator, self.life, self.dice).await?;
        let is_seen = async || {
            Orchestrator::look(self.orchestrator, self.life).await?;
            let it = self.orchestrator.borrow();
            Ok::<bool, Gone>(it.publication == it.sequence)
        };
        while !is_seen().await? {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        Orchestrator::obey(self.orchestrator, self.administrator, self.life, self.dice).await?;
        let mut it = self.orchestrator.borrow_mut();
        let it = &mut *it;
        it.running.retain(|share, _| !it.told.contains(share));
        Ok(())
    }

    /// Waits until the daemon changes nothing for `cycles` cycles.
    async fn rest(&self, cycles: u64) -> Result<(), Gone> {
        let counted = || {
            let it = self.orchestrator.borrow();
            (it.ever.len(), it.told.len(), it.started.len())
        };
        let (mut quiet, mut waited, mut before) = (0, 0, counted());
        while quiet < cycles {
            self.wait().await?;
            let now = counted();
            quiet = if now == before { quiet + 1 } else { 0 };
            before = now;
            waited += 1;
            assert!(waited < 2000, "I17: it never comes to rest");
        }
        Ok(())
    }

    async fn agents(&self) -> Result<Infallible, Gone> {
        loop {
            report(self.life).await?;
            tokio::time::sleep(Duration::from_millis(7)).await;
        }
    }

    async fn work(&self) -> Result<Infallible, Gone> {
        loop {
            self.orchestrator.borrow_mut().live(self.dice);
            Orchestrator::publish(self.orchestrator, self.life, self.dice).await?;
            Orchestrator::obey(self.orchestrator, self.administrator, self.life, self.dice).await?;
            Orchestrator::look(self.orchestrator, self.life).await?;
        }
    }

    async fn acts(&self) -> Result<Infallible, Gone> {
        Administrator::check(self.administrator, self.life).await?;
        loop {
            Administrator::act(self.administrator, self.life, self.dice).await?;
            tokio::time::sleep(Duration::from_millis(self.dice.roll(40))).await;
        }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// I01 to I06, I21 to I27: no answered or shown fact is lost at any moment of its death.
#[tokio::test]
#[expect(clippy::print_stdout, reason = "what to say again to have the same history")]
async fn killed_at_random_moments_it_takes_nothing_back() {
    let (kills, seed) = (setting("KILLS", 12), setting("KILL_SEED", 1));
    println!("KILLS={kills} KILL_SEED={seed}");
    let dice = Dice(Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1));
    let folder = tempfile::tempdir().unwrap();
    let orchestrator = RefCell::new(Orchestrator::default());
    let sides = NODES.into_iter().map(|node| (node, Side::On)).collect();
    let administrator = RefCell::new(Administrator { sides, acts: 0 });
    for kill in 0..kills {
        if kill % 4 == 3 {
            // While it starts.
            let state = folder.path().join("state.db");
            let mut child = daemon::spawn(folder.path(), CONFIG, &state, &[], "127.0.0.1:0");
            std::thread::sleep(Duration::from_micros(dice.roll(60_000)));
            child.kill().unwrap();
            child.wait().unwrap();
            continue;
        }
        let life = Daemon::start(folder.path(), CONFIG);
        let end = async {
            let (from, least) = (orchestrator.borrow().sequence, 40 + dice.roll(40));
            tokio::time::sleep(Duration::from_micros(dice.roll(600_000))).await;
            // On a slow machine hardly anything has happened by then.
            let is_idle = || orchestrator.borrow().sequence < from + least;
            for _ in (0..60_000).take_while(|_| is_idle()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            life.kill();
        };
        let (orchestrator, administrator, dice) = (&orchestrator, &administrator, &dice);
        let conversation = Conversation { life: &life, orchestrator, administrator, dice };
        let (Gone, ()) = tokio::join!(conversation.hold(), end);
    }

    let life = Daemon::start(folder.path(), CONFIG);
    Administrator::check(&administrator, &life).await.unwrap();
    report(&life).await.unwrap();
    {
        let (orchestrator, administrator, dice) = (&orchestrator, &administrator, &dice);
        let last = Conversation { life: &life, orchestrator, administrator, dice };
        last.rest(15).await.unwrap();
    }
    drop(life);
    // After another kill nothing changes for 20 cycles.
    let life = Daemon::start(folder.path(), CONFIG);
    report(&life).await.unwrap();
    let before = (orchestrator.borrow().ever.len(), orchestrator.borrow().told.len());
    for _ in 0..20 {
        let (orchestrator, administrator, dice) = (&orchestrator, &administrator, &dice);
        let last = Conversation { life: &life, orchestrator, administrator, dice };
        last.wait().await.unwrap();
        let now = (orchestrator.borrow().ever.len(), orchestrator.borrow().told.len());
        assert_eq!(before, now, "I27: shares were added or taken back");
    }
    let it = orchestrator.into_inner();
    for node in NODES {
        let (_, info) = life.try_get(&format!("/v1/nodes/{node}")).await.unwrap();
        assert!(it.gb_on(node) <= info["used"].as_u64().unwrap(), "I01: {info}: {:?}", it.running);
        assert_ledger(&info);
    }
    let lived = (it.ever.len(), it.told.len(), it.next_job);
    println!("{} publications, {lived:?} shares, evictions and jobs", it.sequence);
    assert!(lived.0 > 20, "hardly anything happened: {lived:?}");
}
