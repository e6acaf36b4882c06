//! The clients of the daemon over all of its lives, with a memory of its answers and views: agents,
//! an orchestrator and an administrator.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::daemon::{Daemon, Gone};

/// Fails with the name of the broken rule.
macro_rules! hold {
    ($name:literal, $condition:expr, $($said:tt)+) => {
        if !$condition {
            return Err(Broken::Rule(format!("{}: {}", $name, format!($($said)+))));
        }
    };
}

/// Reason why a check failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The daemon ended.
    Gone,
    /// A rule does not hold; the text begins with the rule's name.
    Rule(String),
}

impl From<Gone> for Broken {
    fn from(_: Gone) -> Broken {
        Broken::Gone
    }
}

/// Small orders, no pacing; a checkpoint every other cycle. Nothing happens without an act.
pub const CONFIG: &str = r#"
[daemon]
cycle_period = "10ms"
heartbeat_interval = "1h"

[daemon.journal]
books_every = 2

[scheduler]
quantum = "1GB"
initialization_cap = 0
expand_by_doubling = false
prediction = false

[[nodepool]]
name = "main"

[[class]]
name = "normal"
policy = "fair-share"
nodepool = "main"
"#;

/// With which every node has missed a heartbeat soon, and none is given up for it.
pub fn impatient() -> String {
    let config = CONFIG.replace("heartbeat_interval = \"1h\"", "heartbeat_interval = \"200ms\"");
    config.replace("[scheduler]", "[scheduler]\nnode_stability = 1000")
}

/// Configuration in which the third node is in a pool without a class.
const SIDE: &str = "\n[[nodepool]]\nname = \"side\"\nnodes = [\"n3\"]\n";

/// Possible acts, each with its own change of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// New nodes report.
    Nodes,
    /// A job comes and gets shares.
    Ann,
    /// The processes of ann's job run.
    Run,
    /// A node reports another size.
    Resize,
    /// Another job comes, and shares are to be given back for it.
    Bob,
    /// The preempted shares end, and the other job gets them.
    Leave,
    /// A publication that says nothing new but how far the work is.
    Progress,
    /// A node is varied off.
    Off,
    /// The node is varied on.
    On,
    /// Another configuration of the same cluster.
    Pace,
    /// Another configuration, by which work is where it may not be.
    Move,
    /// A job is over.
    End,
    /// No node reports, and another heartbeat is missed.
    Miss,
    /// The daemon is asked to stop.
    Stop,
}

/// In this order the acts make a story. A repeated act does not change its outcome.
pub const STORY: [Act; 12] = [
    Act::Nodes,
    Act::Ann,
    Act::Run,
    Act::Resize,
    Act::Bob,
    Act::Leave,
    Act::Progress,
    Act::Off,
    Act::On,
    Act::Pace,
    Act::Move,
    Act::End,
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    job: u64,
    node: String,
}

/// State of the world outside, and the daemon's answers.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    /// The file that the daemon reads.
    pub config: String,
    /// Number of configurations so far; 0: unknown.
    generation: u64,
    /// True if an act was begun, and its end is unknown.
    is_open: bool,
    /// GB of each node that has reported and was seen.
    nodes: BTreeMap<&'static str, u64>,
    /// Nodes that are off, as was answered; `None`: there was no answer.
    off: BTreeMap<&'static str, Option<bool>>,
    sequence: u64,
    jobs: Vec<(u64, &'static str)>,
    progress: u64,
    running: BTreeMap<u64, Place>,
    started: BTreeSet<u64>,
    /// Shares that were terminated before it had started them: it reports them as gone.
    gone: BTreeMap<u64, Place>,
    /// Shares that were terminated. That is final.
    told: BTreeSet<u64>,
    /// Every share of a schedule so far.
    pub ever: BTreeMap<u64, Place>,
    /// The last schedule, and its text.
    pub seen: Option<(u64, String)>,
    cycle: u64,
    publication: u64,
    events: u64,
    /// Pause before a check of an act that the daemon answers before it is done.
    pub pause: Duration,
}

impl Witness {
    pub fn new() -> Witness {
        let (config, pause) = (CONFIG.to_owned(), Duration::from_millis(1));
        Witness { config, pause, generation: 1, ..Witness::default() }
    }

    /// A witness of another version's past: shares that were issued, and a node that is off.
    pub fn of_a_past(shares: &[(u64, u64, &str)], off: &'static str) -> Witness {
        let place =
            |&(share, job, node): &(u64, u64, &str)| (share, Place { job, node: node.to_owned() });
        Witness {
            ever: shares.iter().map(place).collect(),
            off: BTreeMap::from([(off, Some(true))]),
            sequence: 100,
            ..Witness::new()
        }
    }

    /// The same after a part of the record was lost, and that was said: what runs runs, and no number
    /// may be used again.
    pub fn after_a_loss(&self) -> Witness {
        Witness {
            config: self.config.clone(),
            sequence: self.sequence,
            jobs: self.jobs.clone(),
            progress: self.progress,
            running: self.running.clone(),
            started: self.started.clone(),
            gone: self.gone.clone(),
            ever: self.ever.clone(),
            pause: self.pause,
            ..Witness::default()
        }
    }

    /// Acts, and waits until it is seen that it is done.
    pub async fn act(&mut self, daemon: &Daemon, act: Act) -> Result<(), Broken> {
        self.is_open = true;
        match act {
            Act::Nodes => self.report(daemon, &[("n1", 8), ("n2", 8), ("n3", 8)]).await?,
            Act::Resize => self.report(daemon, &[("n1", 9)]).await?,
            Act::Ann => self.work(daemon, |it| it.jobs = vec![(1, "ann")]).await?,
            Act::Bob => self.work(daemon, |it| it.jobs = vec![(1, "ann"), (2, "bob")]).await?,
            Act::End => self.work(daemon, |it| it.jobs.retain(|(job, _)| *job != 2)).await?,
            Act::Run | Act::Leave => self.work(daemon, Witness::obey).await?,
            Act::Progress => self.work(daemon, |it| it.progress += 1).await?,
            Act::Off => self.vary(daemon, "n2", true).await?,
            Act::On => self.vary(daemon, "n2", false).await?,
            Act::Pace => {
                let config = CONFIG.replace("\"10ms\"", "\"11ms\"");
                self.configure(daemon, config).await?;
            }
            Act::Move => self.configure(daemon, format!("{CONFIG}{SIDE}")).await?,
            Act::Miss => self.miss(daemon).await?,
            Act::Stop => {
                let pid = daemon.pid().to_string();
                let kill = std::process::Command::new("kill").args(["-TERM", &pid]).status();
                assert!(kill.unwrap().success(), "there is a `kill`");
            }
        }
        self.is_open = false;
        Ok(())
    }

    async fn report(
        &mut self,
        daemon: &Daemon,
        nodes: &[(&'static str, u64)],
    ) -> Result<(), Broken> {
        let beats = nodes.iter().map(|(node, gb)| json!({ "node": node, "memory_mb": gb * 1024 }));
        let body = json!({ "nodes": beats.collect::<Vec<_>>() });
        let (status, text) = daemon.try_send(Method::POST, "/v1/heartbeats", Some(&body)).await?;
        hold!("I22", status == StatusCode::ACCEPTED, "a heartbeat is answered {status} {text}");
        for (node, gb) in nodes {
            tokio::time::sleep(self.pause).await;
            loop {
                let (status, info) = daemon.try_get(&format!("/v1/nodes/{node}")).await?;
                if status == StatusCode::OK && info["memory_mb"] == json!(gb * 1024) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            self.nodes.insert(node, *gb);
        }
        self.look(daemon).await
    }

    async fn miss(&mut self, daemon: &Daemon) -> Result<(), Broken> {
        let missed = async || {
            let (_, info) = daemon.try_get("/v1/nodes/n1").await?;
            Ok::<_, Gone>(info["missed_heartbeats"].as_u64().unwrap_or(0))
        };
        let before = missed().await?;
        tokio::time::sleep(self.pause).await;
        while missed().await? <= before {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.look(daemon).await
    }

    async fn vary(&mut self, daemon: &Daemon, node: &'static str, off: bool) -> Result<(), Broken> {
        self.off.insert(node, None);
        let path = if off { "/v1/nodes/vary-off" } else { "/v1/nodes/vary-on" };
        let mut body = json!({ "nodes": [node] });
        if off {
            body["reason"] = json!("disks");
        }
        let (status, text) = daemon.try_send(Method::POST, path, Some(&body)).await?;
        hold!("I22", status == StatusCode::OK, "{path} is answered {status} {text}");
        self.off.insert(node, Some(off));
        self.look(daemon).await
    }

    /// Changes the configuration as an administrator does: the file first.
    async fn configure(&mut self, daemon: &Daemon, config: String) -> Result<(), Broken> {
        daemon.configure(&config);
        if self.config != config {
            self.config = config;
            // However it ends: the file is the truth at the next start.
            self.generation += 1;
        }
        let body = json!({ "reason": "a test" });
        let (status, text) = daemon.try_send(Method::POST, "/v1/config/apply", Some(&body)).await?;
        hold!("I33", status == StatusCode::OK, "a configuration is answered {status} {text}");
        self.look(daemon).await
    }

    /// Writes another file while the daemon is down.
    pub fn find(&mut self, config: String) {
        self.is_open = true;
        self.config = config;
        self.generation += 1;
    }

    /// Publishes all work, and waits until it is stored.
    async fn work(
        &mut self,
        daemon: &Daemon,
        change: impl FnOnce(&mut Witness),
    ) -> Result<(), Broken> {
        change(self);
        let jobs = &self.jobs;
        self.running.retain(|_, place| jobs.iter().any(|(job, _)| *job == place.job));
        self.sequence += 1;
        self.publish(daemon).await?;
        self.see(daemon).await
    }

    async fn publish(&mut self, daemon: &Daemon) -> Result<(), Broken> {
        let work = self.jobs.iter().map(|&(id, user)| {
            let of = |places: &BTreeMap<u64, Place>, state: &str| -> Vec<Value> {
                let its = places.iter().filter(|(_, place)| place.job == id);
                its.map(
                    |(share, place)| json!({ "share": share, "node": place.node, "state": state }),
                )
                .collect()
            };
            let processes = [of(&self.running, "running"), of(&self.gone, "gone")].concat();
            json!({
                "id": id, "kind": "job", "user": user, "class": "normal", "state": "running",
                "running": true, "memory_mb": 1024, "remaining": 1000 - self.progress,
                "time_per_item_ms": 60_000, "submitted_ms": id, "processes": processes,
            })
        });
        let body =
            json!({ "sequence": self.sequence, "full": true, "work": work.collect::<Vec<_>>() });
        let (status, text) = daemon.try_send(Method::PUT, "/v1/publication", Some(&body)).await?;
        hold!("I26", status == StatusCode::ACCEPTED, "a publication is answered {status} {text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        hold!("I26", answer["refused"] == json!([]), "running work is refused: {text}");
        Ok(())
    }

    /// Waits until the last publication is stored, and reads its effects.
    async fn see(&mut self, daemon: &Daemon) -> Result<(), Broken> {
        tokio::time::sleep(self.pause).await;
        loop {
            let (_, status) = daemon.try_get("/v1/status").await?;
            if status["publication"] == json!(self.sequence) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.look(daemon).await
    }

    /// Reads everything, and compares it with earlier reads.
    async fn look(&mut self, daemon: &Daemon) -> Result<(), Broken> {
        let (status, text) = daemon.try_send(Method::GET, "/v1/schedule", None).await?;
        if status == StatusCode::OK {
            self.note(text)?;
        } else {
            hold!("I22", self.seen.is_none(), "a schedule was seen, and now: {status} {text}");
        }
        let (_, status) = daemon.try_get("/v1/status").await?;
        let cycle = status["cycle"].as_u64().unwrap_or(0);
        hold!("I23", self.cycle <= cycle, "cycle {} was seen, and now {cycle}", self.cycle);
        let publication = status["publication"].as_u64().unwrap_or(0);
        hold!(
            "I22",
            self.publication <= publication,
            "publication {} was on record, now {publication}",
            self.publication
        );
        hold!("I01", status["audit_findings_total"] == 0, "the audit objects: {status}");
        (self.cycle, self.publication) = (cycle, publication);
        Ok(())
    }

    /// Remembers the schedule.
    fn note(&mut self, text: String) -> Result<(), Broken> {
        let schedule: Value = serde_json::from_str(&text).unwrap_or_default();
        let Some(cycle) = schedule["cycle"].as_u64() else {
            return Err(Broken::Rule(format!("I23: half a schedule: {text}")));
        };
        if let Some((before, same)) = &self.seen {
            hold!("I23", *before <= cycle, "the schedule of {before} was seen, and now {cycle}");
            hold!("I22", *before < cycle || *same == text, "schedule {cycle} says another thing");
        }
        for job in schedule["jobs"].as_array().unwrap() {
            let id = job["id"].as_u64().unwrap();
            let removed: BTreeSet<u64> = numbers(&job["removed"]).collect();
            for share in job["shares"].as_array().unwrap() {
                let number = share["share"].as_u64().unwrap();
                let place = Place { job: id, node: share["node"].as_str().unwrap().to_owned() };
                let first = self.ever.entry(number).or_insert_with(|| place.clone());
                hold!("I02", *first == place, "share {number} was {first:?} and is {place:?}");
                let is_back = self.told.contains(&number) && !removed.contains(&number);
                hold!("I04", !is_back, "share {number} was told to end, and came back");
                let is_off = self.off.get(place.node.as_str()) == Some(&Some(true));
                let is_kept = is_off && !removed.contains(&number);
                hold!("I06", !is_kept, "share {number} is on {}, which is off", place.node);
            }
        }
        self.seen = Some((cycle, text));
        Ok(())
    }

    /// Does as the schedule says.
    fn obey(&mut self) {
        let Some((_, text)) = &self.seen else { return };
        let schedule: Value = serde_json::from_str(text).unwrap();
        for job in schedule["jobs"].as_array().unwrap() {
            for number in numbers(&job["removed"]) {
                self.told.insert(number);
                self.running.remove(&number);
                if !self.started.contains(&number) {
                    self.gone.insert(number, self.ever[&number].clone());
                }
            }
            for number in numbers(&job["added"]) {
                if !self.told.contains(&number) && self.started.insert(number) {
                    self.running.insert(number, self.ever[&number].clone());
                }
            }
        }
    }

    fn removed(&self) -> BTreeSet<u64> {
        self.listed("removed")
    }

    fn listed(&self, list: &str) -> BTreeSet<u64> {
        let Some((_, text)) = &self.seen else { return BTreeSet::new() };
        let schedule: Value = serde_json::from_str(text).unwrap();
        let jobs = schedule["jobs"].as_array().unwrap();
        jobs.iter().flat_map(|job| numbers(&job[list]).collect::<Vec<_>>()).collect()
    }

    /// Checks that a life remembers all earlier lives. Returns true if the last act is stored
    /// although it was never answered.
    pub async fn check(&mut self, daemon: &Daemon) -> Result<bool, Broken> {
        let (publication, was_certain) = (self.publication, !self.is_open);
        let told_before = self.removed();
        self.look(daemon).await?;
        let mut is_durable = publication < self.publication;
        for (node, side) in self.off.clone() {
            if !self.nodes.contains_key(node) {
                self.report(daemon, &[(node, 8)]).await?;
            }
            let info = self.node(daemon, node).await?;
            let is_off = info["vary_off_reason"].is_string();
            hold!("I22", side.is_none_or(|side| side == is_off), "{node} was {side:?}: {info}");
            is_durable |= side.is_none() && is_off;
            self.off.insert(node, Some(is_off));
        }
        let (_, info) = daemon.try_get("/v1/config").await?;
        let generation = info["generation"].as_u64().unwrap_or(0);
        if self.generation == 0 {
            self.generation = generation;
        }
        hold!(
            "I22",
            generation == self.generation,
            "configuration {} is {generation}",
            self.generation
        );
        self.check_feed(daemon).await?;
        self.check_ledger(daemon).await?;
        self.check_publications(daemon).await?;
        self.is_open = false;
        if was_certain {
            let told: Vec<u64> = self.removed().difference(&told_before).copied().collect();
            hold!("I27", told.is_empty(), "nothing has changed, and {told:?} are to go");
        }
        Ok(is_durable)
    }

    async fn node(&self, daemon: &Daemon, node: &str) -> Result<Value, Broken> {
        let (status, info) = daemon.try_get(&format!("/v1/nodes/{node}")).await?;
        hold!("I22", status == StatusCode::OK, "{node} was there: {status} {info}");
        Ok(info)
    }

    /// No number is missing, and none that was there has gone.
    async fn check_feed(&mut self, daemon: &Daemon) -> Result<(), Broken> {
        let (mut numbers, mut since) = (Vec::new(), 0);
        let last = loop {
            let (_, page) = daemon.try_get(&format!("/v1/events?since={since}")).await?;
            let events = page["events"].as_array().into_iter().flatten();
            numbers.extend(events.filter_map(|event| event["sequence"].as_u64()));
            since = page["sequence"].as_u64().unwrap_or(since);
            if page["more"] != json!(true) {
                break page;
            }
        };
        let count = u64::try_from(numbers.len()).unwrap();
        hold!("I22", self.events <= count, "{} events were told, now {count}: {last}", self.events);
        hold!("I23", numbers.iter().copied().eq(1..=count), "events are missing: {numbers:?}");
        self.events = count;
        Ok(())
    }

    /// Checks that every share on a node is counted once.
    async fn check_ledger(&self, daemon: &Daemon) -> Result<(), Broken> {
        for node in self.nodes.keys() {
            let info = self.node(daemon, node).await?;
            let number = |field: &str| info[field].as_u64().unwrap_or(u64::MAX);
            let (order, used, free) = (number("order"), number("used"), number("free"));
            hold!(
                "I21",
                used.checked_add(free) == Some(order),
                "{used} and {free} are not {order}: {info}"
            );
            let listed = info["shares"].as_array().map_or(0, Vec::len);
            hold!(
                "I21",
                u64::try_from(listed) == Ok(used),
                "{listed} shares of 1 take {used}: {info}"
            );
            let runs = self.running.values().filter(|place| place.node == **node).count();
            hold!(
                "I01",
                u64::try_from(runs).unwrap() <= used,
                "{runs} processes run on it: {info}"
            );
        }
        Ok(())
    }

    /// Checks publications: the last publication again is no news, and an earlier publication is
    /// refused.
    async fn check_publications(&mut self, daemon: &Daemon) -> Result<(), Broken> {
        if self.sequence == 0 || self.jobs.is_empty() {
            return Ok(());
        }
        self.publish(daemon).await?;
        self.see(daemon).await?;
        let before = self.seen.clone();
        self.publish(daemon).await?;
        let older = json!({ "sequence": self.sequence - 1, "work": [] });
        let (status, text) = daemon.try_send(Method::PUT, "/v1/publication", Some(&older)).await?;
        hold!("I24", status == StatusCode::CONFLICT, "an older one is answered {status} {text}");
        self.look(daemon).await?;
        let is_same =
            before.as_ref().map(|(_, text)| text) == self.seen.as_ref().map(|(_, text)| text);
        hold!("I24", is_same, "the same publication changed {before:?} to {:?}", self.seen);
        Ok(())
    }

    /// Carries out what it is told until there is nothing left to do, and returns how many shares
    /// each job has then.
    pub async fn rest(&mut self, daemon: &Daemon) -> Result<Vec<(u64, usize)>, Broken> {
        let is_open = |share: &u64| !self.started.contains(share) && !self.told.contains(share);
        let waiting: Vec<u64> = self.listed("added").into_iter().filter(is_open).collect();
        self.work(daemon, |_| {}).await?;
        let (added, removed) = (self.listed("added"), self.removed());
        let is_told = |share: &u64| added.contains(share) || removed.contains(share);
        let lost = waiting.iter().find(|share| !is_told(share) && self.has_job(**share));
        hold!("I25", lost.is_none(), "share {lost:?} was never started, and is told no more");
        for _ in 0..20 {
            if self.listed("added").is_empty() && self.removed().is_empty() {
                self.check_ledger(daemon).await?;
                let count =
                    |job: u64| self.running.values().filter(|place| place.job == job).count();
                return Ok(self.jobs.iter().map(|(job, _)| (*job, count(*job))).collect());
            }
            self.work(daemon, Witness::obey).await?;
        }
        Err(Broken::Rule(format!("I17: it never comes to rest: {:?}", self.seen)))
    }

    fn has_job(&self, share: u64) -> bool {
        self.ever
            .get(&share)
            .is_some_and(|place| self.jobs.iter().any(|(job, _)| *job == place.job))
    }
}

fn numbers(shares: &Value) -> impl Iterator<Item = u64> {
    let shares = shares.as_array().map(Vec::as_slice).unwrap_or_default();
    shares.iter().filter_map(|share| share["share"].as_u64())
}
