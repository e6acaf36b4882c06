//! The orchestrator between a real daemon and agents that play their slots: campaigns come to their
//! ends, over restarts, and only callers that may are let in.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::daemon::{CONFIG, Daemon, apportion};
use apportion::config::{Access, CampaignRetention};
use apportion::orchestrator::house::HouseRules;
use apportion::orchestrator::rm::RmOptions;
use apportion::orchestrator::run::{OrchestratorError, OrchestratorOptions, Reach, serve_alone};
use apportion::orchestrator::wire::{
    Adoption, AttemptId, CampaignDetail, Exchange, ExchangeAnswer, Reason, Resubmitted, Rung,
    SlotEnd, SlotReport, SlotStage, Submitted, TaskInfo, TaskList, TaskResult, VERSION,
};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longer than anything takes on a machine that works.
const PATIENCE: Duration = Duration::from_mins(1);

/// An orchestrator that runs in this process.
struct Orchestrator {
    url: String,
    stop: CancellationToken,
    running: JoinHandle<Result<(), OrchestratorError>>,
}

impl Orchestrator {
    async fn start(folder: &Path, daemon: &Daemon, access: Access) -> Orchestrator {
        Orchestrator::keeping(folder, daemon, access, CampaignRetention::default()).await
    }

    /// Starts an orchestrator with this retention of campaigns.
    async fn keeping(
        folder: &Path,
        daemon: &Daemon,
        access: Access,
        retention: CampaignRetention,
    ) -> Orchestrator {
        let rm = RmOptions { url: daemon.url.parse().unwrap(), authority: None, token_file: None };
        let rules = folder.join("admission.d");
        fs::create_dir_all(&rules).unwrap();
        let options = OrchestratorOptions {
            state: folder.join("orchestrator.db"),
            publish_every: Duration::from_millis(20),
            lease: Duration::from_secs(5),
            linger: Duration::from_secs(2),
            retention,
            grid: apportion::config::GridSettings::default(),
            house: HouseRules {
                test_class: Some("fast".to_owned()),
                admission: Some(rules),
                ..HouseRules::default()
            },
        };
        let reach = Reach { listen: "127.0.0.1:0".parse().unwrap(), access };
        let (ready, address) = oneshot::channel();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let running =
            tokio::spawn(async move { serve_alone(&options, rm, &reach, ready, stopped).await });
        let url = format!("http://{}", address.await.unwrap());
        Orchestrator { url, stop, running }
    }

    async fn stop(&mut self) {
        self.stop.cancel();
        (&mut self.running).await.unwrap().unwrap();
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let request = Client::new().request(method, format!("{}{path}", self.url));
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        let answer = request.send().await.unwrap();
        let status = answer.status();
        (status, serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or_default())
    }

    async fn submit(&self, body: Value) -> u64 {
        let (status, answer) = self.ask(Method::POST, "/v1/campaigns", Some(body)).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        serde_json::from_value::<Submitted>(answer).unwrap().id
    }

    async fn campaign(&self, id: u64) -> CampaignDetail {
        let (_, answer) = self.ask(Method::GET, &format!("/v1/campaigns/{id}"), None).await;
        serde_json::from_value(answer).unwrap()
    }

    async fn until(&self, id: u64, state: &str) -> CampaignDetail {
        for _ in 0..1500 {
            let detail = self.campaign(id).await;
            if detail.campaign.state == state {
                return detail;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("campaign {id} is not {state}: {:?}", self.campaign(id).await);
    }
}

/// Acts of all agents together.
#[derive(Default)]
struct Diary {
    begun: BTreeSet<AttemptId>,
    /// The same, in the order of their begin.
    order: Vec<AttemptId>,
    params: BTreeMap<u64, Option<String>>,
}

/// End of an attempt; `None`: not yet.
type Play = fn(AttemptId) -> Option<(Reason, Option<u8>)>;

#[expect(clippy::unnecessary_wraps, reason = "one of several plays")]
fn done(_: AttemptId) -> Option<(Reason, Option<u8>)> {
    Some((Reason::Done, Some(0)))
}

/// An agent whose slots run tasks in no time.
struct Agent {
    node: &'static str,
    url: Arc<Mutex<String>>,
    diary: Arc<Mutex<Diary>>,
    play: Play,
    slots: BTreeMap<u64, SlotReport>,
    numbers: BTreeMap<u64, u64>,
}

impl Agent {
    /// Runs until the task is aborted. The address may change while it runs.
    async fn run(mut self) {
        let mut number = 0;
        loop {
            number += 1;
            let url = self.url.lock().unwrap().clone();
            let has_news = self.slots.values().any(|slot| !slot.results.is_empty());
            let wait = if has_news { "0s" } else { "1s" };
            let report = Exchange {
                v: VERSION,
                boot: "b1".into(),
                life: "l1".into(),
                number,
                limits: Rung::Watched,
                only_user: None,
                address: None,
                epoch: 0,
                slots: self.slots.values().cloned().collect(),
            };
            let path = format!("{url}/v1/nodes/{}/exchange?wait={wait}", self.node);
            let answer = Client::new().post(path).json(&report).send().await;
            match answer {
                Ok(answer) if answer.status().is_success() => {
                    self.obey(answer.json().await.unwrap());
                }
                Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn obey(&mut self, answer: ExchangeAnswer) {
        let named: BTreeSet<u64> = answer.slots.iter().map(|order| order.share).collect();
        self.slots.retain(|share, _| named.contains(share));
        for order in answer.slots {
            if order.forget {
                self.slots.remove(&order.share);
                continue;
            }
            let slot = self.slots.entry(order.share).or_insert_with(|| SlotReport {
                share: order.share,
                state: SlotStage::Idle,
                held: Vec::new(),
                running: Vec::new(),
                want: 1,
                results: Vec::new(),
                seen_order: 0,
                prepared_ms: Some(1),
                port: None,
                end: None,
                text: None,
            });
            slot.seen_order = order.order;
            slot.results.retain(|result| order.acked < result.number);
            for new in order.tasks {
                let mut diary = self.diary.lock().unwrap();
                assert!(diary.begun.insert(new.task), "{} began twice", new.task);
                diary.order.push(new.task);
                diary.params.insert(new.task.task, new.param.clone());
                slot.held.push(new.task);
                assert!(answer.specs.contains_key(&new.spec), "its specification is there");
            }
            let last = self.numbers.entry(order.share).or_default();
            let is_stopped = order.stop.is_some();
            for id in std::mem::take(&mut slot.held) {
                let end = (self.play)(id);
                let end = end.or(is_stopped.then_some((Reason::Preempted, None)));
                let Some((why, exit)) = end else {
                    slot.held.push(id);
                    continue;
                };
                *last += 1;
                slot.results.push(ended(*last, id, why, exit));
            }
            slot.want = u64::from(slot.held.is_empty() && !is_stopped);
            if is_stopped && slot.held.is_empty() {
                (slot.state, slot.end) = (SlotStage::Gone, Some(SlotEnd::Stopped));
            }
        }
    }
}

fn ended(number: u64, task: AttemptId, why: Reason, exit: Option<u8>) -> TaskResult {
    TaskResult {
        number,
        task,
        why,
        exit,
        signal: None,
        ms: 5,
        cpu_ms: 1,
        peak_mb: 10,
        rss_mb: 8,
        out: [0, 0],
        tail: if why == Reason::Exit { "broken\n".into() } else { String::new() },
        error: String::new(),
        has_saved: false,
    }
}

/// A daemon, an orchestrator, and two nodes whose agents play.
struct World {
    folder: tempfile::TempDir,
    daemon: Daemon,
    orchestrator: Orchestrator,
    url: Arc<Mutex<String>>,
    diary: Arc<Mutex<Diary>>,
    tasks: Vec<JoinHandle<()>>,
}

impl World {
    async fn start(play: Play) -> World {
        let mut world = World::without_nodes().await;
        world.add_nodes(play);
        world
    }

    async fn without_nodes() -> World {
        World::under(CONFIG).await
    }

    /// A world without nodes, whose daemon has this configuration.
    async fn under(config: &str) -> World {
        let folder = tempfile::tempdir().unwrap();
        let daemon = Daemon::start(folder.path(), config);
        let orchestrator = Orchestrator::start(folder.path(), &daemon, Access::default()).await;
        let url = Arc::new(Mutex::new(orchestrator.url.clone()));
        let diary = Arc::new(Mutex::new(Diary::default()));
        World { folder, daemon, orchestrator, url, diary, tasks: Vec::new() }
    }

    fn add_nodes(&mut self, play: Play) {
        self.tasks.push(tokio::spawn(beat(self.daemon.url.clone())));
        for node in ["n1", "n2"] {
            let (url, diary) = (Arc::clone(&self.url), Arc::clone(&self.diary));
            let (slots, numbers) = (BTreeMap::new(), BTreeMap::new());
            let agent = Agent { node, url, diary, play, slots, numbers };
            self.tasks.push(tokio::spawn(agent.run()));
        }
    }

    /// Stops the orchestrator and starts another orchestrator on its database.
    async fn restart(&mut self) {
        self.restart_keeping(CampaignRetention::default()).await;
    }

    /// Restarts the orchestrator with this retention of campaigns.
    async fn restart_keeping(&mut self, retention: CampaignRetention) {
        if !self.orchestrator.running.is_finished() {
            self.orchestrator.stop().await;
        }
        let folder = self.folder.path();
        let (daemon, access) = (&self.daemon, Access::default());
        self.orchestrator = Orchestrator::keeping(folder, daemon, access, retention).await;
        self.orchestrator.url.clone_into(&mut self.url.lock().unwrap());
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Heartbeats of both nodes.
async fn beat(url: String) {
    let nodes = ["n1", "n2"].map(|node| json!({ "node": node, "memory_mb": 4096 }));
    loop {
        let request = Client::new().post(format!("{url}/v1/heartbeats"));
        let _ = request.json(&json!({ "nodes": nodes })).send().await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admission_rules_reject_and_rewrite_and_are_kept() {
    let world = World::start(done).await;
    let rule = |name: &str, text: &str| {
        let path = world.folder.path().join("admission.d").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let many = r#"{"verdict":"reject","text":"at most 99 tasks"}"#;
    rule(
        "10-few",
        &format!("grep -q '\"tasks\":100' && echo '{many}' || echo '{{\"verdict\":\"ok\"}}'"),
    );
    let less = r#"{"verdict":"rewrite","text":"retries are for all","spec":{"command":["true"],"memory":"1GB","class":"normal","retries":2}}"#;
    rule("20-retries", &format!("echo '{less}'"));
    let body = |lines: usize| {
        let lines: Vec<String> = (1..=lines).map(|line| format!("line {line}")).collect();
        json!({ "user": "ann", "command": ["true"], "memory": "1GB", "class": "normal", "lines": lines })
    };
    let post = async |path: &str, body: Value| {
        world.orchestrator.ask(Method::POST, path, Some(body)).await
    };
    let (status, answer) = post("/v1/campaigns", body(100)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let told = answer["detail"].as_str().unwrap();
    assert!(told.starts_with("rule `10-few` rejects the campaign: at most 99 tasks;"), "{told}");
    let (_, trial) = post("/v1/admission/try", body(100)).await;
    assert_eq!(trial["rules"][0]["verdict"], "reject");
    let id = world.orchestrator.submit(body(3)).await;
    let detail = world.orchestrator.until(id, "done").await;
    assert_eq!(detail.campaign.done, 3, "the lines are the user's");
    let record = detail.admission.unwrap();
    let names: Vec<&str> = record.rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names, ["10-few", "20-retries"]);
    assert!(record.rules.iter().all(|rule| rule.sha256.len() == 64));
    assert!(record.asked.unwrap().get("retries").is_none(), "as it was submitted");
    let path = format!("/v1/campaigns/{id}/spec");
    let (_, spec) = world.orchestrator.ask(Method::GET, &path, None).await;
    assert_eq!(spec["retries"], 2, "as the rules left it");
    let (_, list) = world.orchestrator.ask(Method::GET, "/v1/admission", None).await;
    assert_eq!(list["rules"][1]["sha256"], json!(record.rules[1].sha256));
    rule("05-broken", "exit 1");
    let (_, answer) = post("/v1/campaigns", body(3)).await;
    let told = answer["detail"].as_str().unwrap();
    assert!(
        told.starts_with("rule `05-broken` rejects the campaign: the rule is broken"),
        "{told}"
    );
}

/// Classes for tests and for first tasks, both better than `normal`.
const BETTER: &str = r#"
[[class]]
name = "fast"
policy = "fair-share"
nodepool = "main"
priority = 1
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_test_begins_next_on_a_full_cluster_with_100000_queued() {
    let mut world = World::under(&format!("{CONFIG}{BETTER}")).await;
    world.add_nodes(|id| if id.campaign == 1 { None } else { Some((Reason::Done, Some(0))) });
    let body = |kind: &str, tasks: u64| {
        json!({ "user": "ann", "command": ["true"], "memory": "1GB", "class": "normal",
                "type": kind, "tasks": tasks })
    };
    let first = world.orchestrator.submit(body("default", 100_000)).await;
    for _ in 0..1500 {
        if world.diary.lock().unwrap().order.len() == 8 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(world.diary.lock().unwrap().order.len(), 8, "the cluster is full");
    let test = world.orchestrator.submit(body("test", 1_000)).await;
    let detail = world.orchestrator.until(test, "done").await;
    assert_eq!((detail.campaign.done, detail.campaign.dropped), (1, 999));
    let next = world.diary.lock().unwrap().order[8];
    assert_eq!((next.campaign, next.task), (test, 1), "the task of the test began next");
    assert_eq!(world.orchestrator.campaign(first).await.campaign.state, "running");
    let (status, answer) =
        world.orchestrator.ask(Method::POST, "/v1/campaigns", Some(body("trial", 1))).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(answer.to_string().contains("`trial` is unknown"), "{answer}");
    assert!(answer.to_string().contains(r#"write \"default\" or \"test\""#), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_tasks_of_a_campaign_run_before_those_of_others() {
    let mut world = World::under(&format!("{CONFIG}{BETTER}")).await;
    world.add_nodes(|id| if id.campaign == 1 { None } else { Some((Reason::Done, Some(0))) });
    let body = json!({ "user": "ann", "command": ["true"], "memory": "1GB", "class": "normal",
        "tasks": 100 });
    world.orchestrator.submit(body.clone()).await;
    for _ in 0..1500 {
        if world.diary.lock().unwrap().order.len() == 8 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut body = body;
    body["class"] = json!("slow");
    body["first"] = json!(5);
    body["first_class"] = json!("quick");
    let (status, answer) =
        world.orchestrator.ask(Method::POST, "/v1/campaigns", Some(body.clone())).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(answer.to_string().contains("first_class: `quick` is unknown"), "{answer}");
    (body["class"], body["first_class"]) = (json!("normal"), json!("fast"));
    let later = world.orchestrator.submit(body).await;
    for _ in 0..1500 {
        if 5 <= world.orchestrator.campaign(later).await.campaign.done {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let order = world.diary.lock().unwrap().order.clone();
    // An early task may be the second of its slot, and an ordinary slot begins its own meanwhile.
    let own = order[8..].iter().filter(|id| id.campaign == later);
    let first: Vec<u64> = own.map(|id| id.task).take(10).collect();
    assert!((1..=5).all(|early| first.contains(&early)), "{first:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_campaign_of_lines_comes_to_its_end() {
    let world = World::start(done).await;
    let lines: Vec<String> = (1..=60).map(|line| format!("{line} \"ü\"\t")).collect();
    let body = json!({ "user": "ann", "command": ["true"], "memory": "1GB", "class": "normal", "lines": lines });
    let id = world.orchestrator.submit(body).await;
    let detail = world.orchestrator.until(id, "done").await;
    assert_eq!((detail.campaign.done, detail.campaign.failed, detail.campaign.tasks), (60, 0, 60));
    assert_eq!(detail.campaign.mean_ms, 5);
    let export = |format: &str| {
        let words = ["campaign", "export", "1", "--format", format];
        let output =
            apportion(&[&words[..], &["--orchestrator", &world.orchestrator.url]].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let csv = export("csv");
    assert_eq!(csv.lines().count(), 61);
    let columns = csv.lines().next().unwrap().split(',').count();
    for (task, line) in (1..).zip(csv.lines().skip(1)) {
        assert!(line.starts_with(&format!("1,{task},done,done,1,n")), "{line}");
        assert!(line.ends_with(",done,0,,5,1,10,8"), "{line}");
        assert_eq!(line.split(',').count(), columns, "{line}");
    }
    let tasks = export("jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect::<Vec<TaskInfo>>();
    assert_eq!(tasks.iter().map(|task| task.attempts.len()).sum::<usize>(), 60);
    let diary = world.diary.lock().unwrap();
    assert_eq!(diary.begun.len(), 60);
    for (task, param) in &diary.params {
        let line = &lines[usize::try_from(*task).unwrap() - 1];
        assert_eq!(param.as_deref(), Some(line.as_str()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_loses_and_repeats_nothing() {
    let mut world = World::start(done).await;
    let body = json!({ "user": "ann", "command": ["true"], "memory": "1GB", "class": "normal", "tasks": "1-400" });
    let id = world.orchestrator.submit(body).await;
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        world.restart().await;
    }
    let detail = world.orchestrator.until(id, "done").await;
    assert_eq!(detail.campaign.done, 400);
    let diary = world.diary.lock().unwrap();
    let tasks: BTreeSet<u64> = diary.begun.iter().map(|id| id.task).collect();
    assert_eq!(tasks.len(), 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_folded_says_so_and_keeps_its_figures() {
    let mut world = World::start(done).await;
    let body = json!({ "user": "ann", "command": ["true"], "memory": "1GB", "class": "normal", "tasks": "1-40" });
    let id = world.orchestrator.submit(body).await;
    world.orchestrator.until(id, "done").await;
    let stats = format!("/v1/campaigns/{id}/stats");
    let (_, mut before) = world.orchestrator.ask(Method::GET, &stats, None).await;
    let retention = CampaignRetention { rows: 0, ..CampaignRetention::default() };
    world.restart_keeping(retention).await;
    let until = Instant::now() + Duration::from_secs(30);
    let folded = loop {
        let detail = world.orchestrator.campaign(id).await;
        if let Some(folded_ms) = detail.campaign.folded_ms {
            assert_eq!((detail.campaign.done, detail.campaign.queued), (40, 0));
            break folded_ms;
        }
        assert!(Instant::now() < until, "it was not folded");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let (_, after) = world.orchestrator.ask(Method::GET, &stats, None).await;
    before["campaign"]["folded_ms"] = Value::from(folded);
    assert_eq!(after, before);
    for (method, path, body) in [
        (Method::GET, "tasks", None),
        (Method::GET, "tasks/3", None),
        (Method::GET, "tasks/3/output", None),
        (Method::POST, "tasks/3/cancel", None),
        (Method::POST, "resubmit", Some(json!({ "task": 3 }))),
    ] {
        let path = format!("/v1/campaigns/{id}/{path}");
        let (status, problem) = world.orchestrator.ask(method, &path, body).await;
        assert_eq!((status, &problem["code"]), (StatusCode::GONE, &json!("O010")), "{path}");
        let told = problem["detail"].as_str().unwrap();
        assert!(told.contains("were folded on 20") && told.contains("only counts"), "{told}");
    }
    let url = world.orchestrator.url.clone();
    for (words, said) in [
        (&["campaign", "show", "1"][..], "only counts are left"),
        (&["campaign", "stat", "-f", "1"], "40"),
    ] {
        let output = apportion(&[words, &["--orchestrator", &url]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains(said), "{output:?}");
    }
    let page = Client::new().get(format!("{url}/campaigns/{id}")).send().await.unwrap();
    assert!(page.text().await.unwrap().contains("Tasks folded into counts"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_are_added_to_a_campaign_that_is_under_way() {
    let mut world = World::without_nodes().await;
    let base = json!({ "user": "ann", "command": ["true"], "memory": "1GB", "class": "normal" });
    let with = |key: &str, value: Value| {
        let mut body = base.clone();
        body[key] = value;
        body
    };
    let text = |line: u64| format!("line {line} ü");
    let lines = world.orchestrator.submit(with("lines", json!([text(1), text(2)]))).await;
    let numbers = world.orchestrator.submit(with("tasks", json!("1000-1020:10"))).await;
    for id in [lines, numbers] {
        let path = format!("/v1/campaigns/{id}/state");
        let body = Some(json!({ "state": "suspended" }));
        let (status, _) = world.orchestrator.ask(Method::PUT, &path, body).await;
        assert_eq!(status, StatusCode::NO_CONTENT);
    }
    // Nodes come only now: a campaign whose first tasks have ended takes no more.
    world.add_nodes(done);
    // The same key again is the same request, also after a restart.
    let more: Vec<String> = (3..=60).map(text).collect();
    let path = |id: u64| format!("/v1/campaigns/{id}/tasks");
    for round in 0..3 {
        let url = format!("{}{}", world.orchestrator.url, path(lines));
        let request = Client::new().post(url).header("idempotency-key", "one");
        let answer = request.json(&json!({ "lines": more })).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED);
        let told: Value = answer.json().await.unwrap();
        assert_eq!(told, json!({ "id": lines, "first": 3, "added": 58, "tasks": 60 }));
        if round == 1 {
            world.restart().await;
        }
    }
    let url = world.orchestrator.url.clone();
    let words = ["campaign", "add", "2", "--array", "2", "--orchestrator", &url];
    let output = apportion(&words);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "campaign 2: 2 tasks added from 2.1030 on, 5 in all\n",
        "{output:?}"
    );
    for (id, body, status, code) in [
        (lines, json!({ "count": 1 }), StatusCode::CONFLICT, "O011"),
        (numbers, json!({ "lines": ["a"] }), StatusCode::CONFLICT, "O011"),
        (numbers, json!({ "count": 10_000_000 }), StatusCode::CONFLICT, "O011"),
        (numbers, json!({ "lines": [] }), StatusCode::UNPROCESSABLE_ENTITY, "O009"),
        (99, json!({ "count": 1 }), StatusCode::NOT_FOUND, "O002"),
    ] {
        let answer = world.orchestrator.ask(Method::POST, &path(id), Some(body)).await;
        assert_eq!((answer.0, &answer.1["code"]), (status, &json!(code)), "{}", answer.1);
    }
    for (id, tasks) in [(lines, 60), (numbers, 5)] {
        let state = format!("/v1/campaigns/{id}/state");
        let body = Some(json!({ "state": "running" }));
        world.orchestrator.ask(Method::PUT, &state, body).await;
        let detail = world.orchestrator.until(id, "done").await;
        assert_eq!((detail.campaign.done, detail.campaign.tasks), (tasks, tasks));
        let (path, one) = (path(id), Some(json!({ "count": 1 })));
        let (status, problem) = world.orchestrator.ask(Method::POST, &path, one).await;
        assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("O011")));
        assert!(problem["detail"].as_str().unwrap().contains("submit a new one"), "{problem}");
    }
    let diary = world.diary.lock().unwrap();
    let of_lines = (1..=60).map(|line| (line, Some(text(line))));
    let of_numbers = (1000..=1040).step_by(10).map(|task| (task, None));
    assert_eq!(diary.params, of_lines.chain(of_numbers).collect());
    assert_eq!(diary.begun.len(), 65);
}

/// Task 2 fails until its second attempt.
fn second_fails(id: AttemptId) -> Option<(Reason, Option<u8>)> {
    if id.task == 2 && id.attempt == 1 { Some((Reason::Exit, Some(7))) } else { done(id) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_failed_is_submitted_again() {
    let world = World::start(second_fails).await;
    let body = json!({ "user": "ann", "command": ["true"], "memory": "1GB", "class": "normal", "tasks": 3 });
    let id = world.orchestrator.submit(body).await;
    let detail = world.orchestrator.until(id, "failed").await;
    assert_eq!((detail.campaign.done, detail.campaign.failed), (2, 1));
    let sentence = &detail.notes.last().unwrap().text;
    assert!(sentence.starts_with(&format!("task {id}.2 on n")), "{sentence}");
    assert!(sentence.ends_with("exit status 7"), "{sentence}");
    let path = format!("/v1/campaigns/{id}/tasks?state=failed");
    let (_, list) = world.orchestrator.ask(Method::GET, &path, None).await;
    let list: TaskList = serde_json::from_value(list).unwrap();
    assert_eq!(list.tasks.iter().map(|task| task.task).collect::<Vec<_>>(), [2]);

    let path = format!("/v1/campaigns/{id}/resubmit");
    let body = Some(json!({ "failed": true }));
    let (_, answer) = world.orchestrator.ask(Method::POST, &path, body).await;
    assert_eq!(serde_json::from_value::<Resubmitted>(answer).unwrap().tasks, 1);
    let detail = world.orchestrator.until(id, "done").await;
    assert_eq!((detail.campaign.done, detail.campaign.failed), (3, 0));
    let path = format!("/v1/campaigns/{id}/tasks/2");
    let (_, task) = world.orchestrator.ask(Method::GET, &path, None).await;
    let task: TaskInfo = serde_json::from_value(task).unwrap();
    assert_eq!(task.attempts.len(), 2);
    assert_eq!(task.attempts[0].result.as_ref().unwrap().tail, "broken\n");
}

fn never(_: AttemptId) -> Option<(Reason, Option<u8>)> {
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_campaign_leaves_nothing_running() {
    let world = World::start(never).await;
    let body = json!({ "user": "ann", "command": ["sleep", "inf"], "memory": "1GB", "class": "normal", "tasks": 50 });
    let id = world.orchestrator.submit(body).await;
    for _ in 0..500 {
        if 0 < world.orchestrator.campaign(id).await.campaign.running {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let path = format!("/v1/campaigns/{id}/state");
    let body = Some(json!({ "state": "cancelled" }));
    let (status, _) = world.orchestrator.ask(Method::PUT, &path, body).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let detail = world.orchestrator.until(id, "cancelled").await;
    assert_eq!((detail.campaign.cancelled, detail.campaign.running), (50, 0));
}

/// True if the tasks of the next test may end.
static MAY_END: AtomicBool = AtomicBool::new(false);

fn when_they_may(_: AttemptId) -> Option<(Reason, Option<u8>)> {
    MAY_END.load(Ordering::SeqCst).then_some((Reason::Done, Some(0)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_from_a_backup_assigns_nothing_before_it_has_adopted_what_nodes_have() {
    let mut world = World::without_nodes().await;
    let body = json!({ "user": "ann", "command": ["true"], "memory": "1GB", "class": "normal", "tasks": "1-30" });
    let id = world.orchestrator.submit(body.clone()).await;
    world.orchestrator.stop().await;
    let file = world.folder.path().join("orchestrator.db");
    let copy = fs::read(&file).unwrap();
    world.restart().await;
    world.add_nodes(when_they_may);
    let begun = Arc::clone(&world.diary);
    let count = || begun.lock().unwrap().begun.len();
    while count() < 8 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.orchestrator.stop().await;
    fs::write(&file, copy).unwrap();
    world.restart().await;
    let since = Instant::now();
    let found = loop {
        let (_, found) = world.orchestrator.ask(Method::GET, "/v1/adoption", None).await;
        let found: Adoption = serde_json::from_value(found).unwrap();
        assert!(found.set_back);
        if found.nodes == 2 && found.attempts.len() == 8 {
            break found;
        }
        assert!(since.elapsed() < PATIENCE, "not found: {found:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(found.strange, []);
    let (status, problem) = world.orchestrator.ask(Method::POST, "/v1/campaigns", Some(body)).await;
    assert_eq!((status.as_u16(), &problem["code"]), (503, &json!("orchestrator-set-back")));
    MAY_END.store(true, Ordering::SeqCst);
    // Longer than a lease: slots live, and nothing is assigned.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(count(), 8);
    let reason = Some(json!({ "reason": "a test" }));
    let (status, _) = world.orchestrator.ask(Method::POST, "/v1/adoption", reason).await;
    assert_eq!(status, StatusCode::OK);
    let detail = world.orchestrator.until(id, "done").await;
    assert_eq!((detail.campaign.done, detail.campaign.tasks), (30, 30));
    assert_eq!(count(), 30, "a task began twice: {:?}", begun.lock().unwrap().begun);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_resource_manager_refuses_is_told_to_the_owner() {
    let world = World::start(done).await;
    let body = json!({ "user": "ann", "command": ["true"], "memory": "1GB", "class": "normal", "keep": true });
    let id = world.orchestrator.submit(body).await;
    for _ in 0..500 {
        let notes = world.orchestrator.campaign(id).await.notes;
        if let Some(note) = notes.first() {
            assert_eq!(note.code, "refused");
            assert!(note.text.contains("normal"), "{note:?}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing is told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_one_that_runs_alone_are_its_own_and_serve_no_other_site() {
    let mut world = World::without_nodes().await;
    let id = world.orchestrator.submit(json!({ "user": "ann", "command": ["true"] })).await;
    let (client, url) = (Client::new(), world.orchestrator.url.clone());
    let list = client.get(format!("{url}/campaigns")).send().await.unwrap().text().await.unwrap();
    assert!(list.contains(&format!("/campaigns/{id}")) && !list.contains("href=\"/topology\""));
    let foreign = client.get(format!("{url}/v1/campaigns")).header("host", "rebound.example");
    assert_eq!(foreign.send().await.unwrap().status(), StatusCode::FORBIDDEN);
    for origin in [Some("http://evil.example"), None] {
        let form = client.post(format!("{url}/campaigns/{id}/state"));
        let form = form.header("content-type", "application/x-www-form-urlencoded");
        let form = origin.into_iter().fold(form, |form, origin| form.header("origin", origin));
        let answer = form.body("state=cancelled").send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{origin:?}");
    }
    world.orchestrator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), CONFIG);
    let mut orchestrator = Orchestrator::start(folder.path(), &daemon, Access::default()).await;
    let body = json!({ "user": "ann", "memory": "4", "lane": 1 });
    let (status, problem) = orchestrator.ask(Method::POST, "/v1/campaigns", Some(body)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(problem["errors"].as_array().unwrap().len(), 3, "{problem}");
    let cases = [
        (Method::POST, "/v1/campaigns", Some(json!({ "command": ["a"] })), 400),
        (Method::GET, "/v1/campaigns/7", None, 404),
        (Method::POST, "/v1/nodes/n1/exchange", Some(json!({ "boot": "b" })), 400),
        (Method::POST, "/v1/nodes/n1/exchange?wait=2h", Some(json!({})), 400),
    ];
    for (method, path, body, expected) in cases {
        let (status, answer) = orchestrator.ask(method, path, body).await;
        assert_eq!(status.as_u16(), expected, "{path}: {answer}");
        assert!(answer["detail"].is_string(), "{answer}");
    }
    let (_, document) = orchestrator.ask(Method::GET, "/orchestrator/openapi.json", None).await;
    assert!(document["paths"]["/v1/nodes/{node}/exchange"].is_object());
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    for path in paths {
        for (method, operation) in document["paths"][path].as_object().unwrap() {
            let is_known = apportion::auth::has_route(&method.to_uppercase(), path);
            assert!(is_known || !operation["responses"].is_object(), "{method} {path}");
        }
    }
    orchestrator.stop().await;
}

/// A file of tokens, and the tokens by the name of their line.
fn tokens(folder: &Path) -> (PathBuf, BTreeMap<&'static str, String>) {
    use std::os::unix::fs::PermissionsExt;

    use apportion::auth::{Role, Secret, new_line};
    let mut lines = Vec::new();
    let mut secrets = BTreeMap::new();
    for (name, role, nodes) in [
        ("ann", Role::Submitter, None),
        ("bob", Role::Submitter, None),
        ("eve", Role::Reader, None),
        ("n1", Role::Agent, Some("n1")),
        ("root", Role::Operator, None),
    ] {
        let secret = Secret::new().unwrap();
        lines.push(new_line(&secret, name, role, nodes, None).unwrap());
        secrets.insert(name, secret.reveal().to_owned());
    }
    let file = folder.join("tokens");
    fs::write(&file, lines.join("\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    (file, secrets)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_caller_may_do_its_own_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), CONFIG);
    let (file, secrets) = tokens(folder.path());
    let access = Access { tokens: Some(file), ..Access::default() };
    let mut orchestrator = Orchestrator::start(folder.path(), &daemon, access).await;
    let url = orchestrator.url.clone();
    let ask = async |who: &str, method: Method, path: &str, body: Value| {
        let request = Client::new().request(method, format!("{url}{path}"));
        let request = match secrets.get(who) {
            Some(secret) => request.bearer_auth(secret),
            None => request,
        };
        request.json(&body).send().await.unwrap().status().as_u16()
    };
    let campaign = json!({ "command": ["true"] });
    assert_eq!(ask("ann", Method::POST, "/v1/campaigns", campaign.clone()).await, 201);
    let for_bob = json!({ "command": ["true"], "user": "bob" });
    let report = json!({ "boot": "b", "life": "l", "number": 1, "limits": "watched", "slots": [] });
    let cancel = json!({ "state": "cancelled" });
    let lost = json!({ "node": "n1", "reason": "test" });
    // Status of each caller's answer: ann, bob, eve, n1, root, and a caller without a token.
    let callers = ["ann", "bob", "eve", "n1", "root", "?"];
    let cases: [(Method, &str, Value, [u16; 6]); 12] = [
        (Method::POST, "/v1/campaigns", for_bob, [403, 201, 403, 403, 201, 401]),
        (Method::GET, "/v1/campaigns", json!({}), [200, 200, 200, 403, 200, 401]),
        (Method::GET, "/v1/campaigns/1/stats", json!({}), [200, 200, 200, 403, 200, 401]),
        (Method::GET, "/v1/campaigns/events", json!({}), [200, 200, 200, 403, 200, 401]),
        (Method::GET, "/v1/grid", json!({}), [200, 200, 200, 403, 200, 401]),
        (Method::GET, "/campaigns/1", json!({}), [200, 200, 200, 403, 200, 401]),
        (Method::GET, "/v1/campaigns/1/spec", json!({}), [200, 403, 403, 403, 200, 401]),
        (Method::POST, "/v1/campaigns/1/tasks/1/cancel", json!({}), [204, 403, 403, 403, 204, 401]),
        (Method::POST, "/v1/nodes/n1/exchange", report.clone(), [403, 403, 403, 200, 403, 401]),
        (Method::POST, "/v1/nodes/n2/exchange", report, [403, 403, 403, 403, 403, 401]),
        (Method::POST, "/v1/slots/lost", lost, [403, 403, 403, 403, 204, 401]),
        (Method::PUT, "/v1/campaigns/1/state", cancel, [204, 403, 403, 403, 204, 401]),
    ];
    for (method, path, body, expected) in cases {
        for (who, expected) in callers.into_iter().zip(expected) {
            let status = ask(who, method.clone(), path, body.clone()).await;
            assert_eq!(status, expected, "{who}: {method} {path}");
        }
    }
    // The audit log has the agent that reported for a foreign node.
    orchestrator.stop().await;
    let record = folder.path().join("orchestrator.db");
    let record = sqlx::sqlite::SqliteConnectOptions::new().filename(record);
    let mut record = sqlx::ConnectOptions::connect(&record).await.unwrap();
    let sql = "select who, detail from acts where act = 'refused'";
    let refused: Vec<(String, String)> = sqlx::query_as(sql).fetch_all(&mut record).await.unwrap();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].0 == "n1" && refused[0].1.contains("\"n2\""), "{refused:?}");
}
