//! A bag of tasks over three clusters and a router, all of them real processes, some of which are
//! killed.
//!
//! `cargo test` kills 6 processes under 240 tasks. `KILLS=100 TASKS=100001 cargo test --test system
//! several_clusters::` is the large one. `SEED` repeats the choices, though not their moments.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]
#![expect(clippy::print_stdout, reason = "seed and figures")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::daemon::{CONFIG as ROUTER, Daemon};
use crate::support::fleet::{self, CONFIG, Fleet, PATIENCE, Part, Plan, lot, port};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sqlx::{Connection, Row, SqliteConnection};

const NAMES: [&str; 3] = ["lyon", "grenoble", "nancy"];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

async fn cluster(lease: &str) -> Fleet {
    Fleet::small(2, lease).await
}

/// The configuration of a router without nodes of its own.
fn router_config(folder: &Path, fleets: &[Fleet], lease: &str) -> String {
    let state = folder.join("orchestrator.db");
    let clusters = NAMES
        .iter()
        .zip(fleets)
        .map(|(name, fleet)| format!("[[cluster]]\nname = '{name}'\nurl = '{}'\n", fleet.head));
    let clusters: String = clusters.collect();
    format!(
        "{ROUTER}\n[orchestrator]\nenabled = true\nstate = '{}'\npublish_every = '20ms'\n\
         [grid]\npass_every = '200ms'\nlease = '{lease}'\nresource = '256MB'\nflood_percent = 1000\n\
         {clusters}",
        state.display()
    )
}

/// The campaign, if the router answers.
async fn campaign(router: &Daemon) -> Option<Value> {
    let (_, answer) = router.try_get("/v1/campaigns/1").await.ok()?;
    answer.get("campaign").cloned()
}

/// Attempts of the router's database that ended with `done`: the task and the cluster.
async fn done(folder: &Path) -> Vec<(u64, String)> {
    let path = format!("sqlite:{}", folder.join("orchestrator.db").display());
    let mut database = SqliteConnection::connect(&path).await.unwrap();
    let query = "select task, node from attempts where campaign = 1 and reason = 'done'";
    let rows = sqlx::query(query).fetch_all(&mut database).await.unwrap();
    let read = |row: &sqlx::sqlite::SqliteRow| {
        (u64::try_from(row.get::<i64, _>(0)).unwrap(), row.get::<String, _>(1))
    };
    rows.iter().map(read).collect()
}

/// A folder for the router, and in it a folder that tasks of all users may write to.
fn folders() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    fs::create_dir(&work).unwrap();
    for open in [folder.path(), &work] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
    }
    (folder, work)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bag_over_three_clusters_is_counted_once_under_kills() {
    let (kills, tasks) = (number("KILLS", 6), number("TASKS", 240));
    let seed = number("SEED", lot());
    println!("SEED={seed}");
    let mut lots = ChaCha8Rng::seed_from_u64(seed);
    let mut fleets = vec![cluster("20s").await, cluster("20s").await, cluster("20s").await];
    let (folder, work) = folders();
    let address = format!("127.0.0.1:{}", port());
    let config = router_config(folder.path(), &fleets, "20s");
    let mut router = Daemon::start_at(folder.path(), &config, &address);
    let body = json!({
        "user": fleet::user(), "shell": "sleep 0.2; echo $APPORTION_TASK_ID >> done",
        "tasks": tasks, "memory": "256MB", "cwd": work, "class": "normal",
    });
    let answer = router.send(Method::POST, "/v1/campaigns", &body).await;
    assert_eq!(answer.status(), StatusCode::CREATED, "{}", answer.text().await.unwrap());

    let (since, mut killed) = (Instant::now(), 0);
    // Two cores run some 30 tasks a second, with their slots and agents.
    let limit = 2 * PATIENCE + Duration::from_millis(50 * tasks);
    let last = loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        fleets.iter_mut().for_each(Fleet::revive);
        let logs = || fleets.iter().map(Fleet::logs).collect::<String>();
        let seen = campaign(&router).await;
        let is_over = |it: &Value| it["state"] != "running" && it["state"] != "finishing";
        if let Some(seen) = seen.filter(is_over) {
            break seen;
        }
        assert!(since.elapsed() < limit, "it never ends: {}{}", router.said(), logs());
        if killed < kills && lots.random_bool(0.5) {
            killed += 1;
            let which = lots.random_range(0..fleets.len() + 1);
            if let Some(fleet) = fleets.get_mut(which) {
                let parts = [Part::Daemon, Part::Orchestrator, Part::Agent(1), Part::Agent(2)];
                fleet.kill(parts[lots.random_range(0..parts.len())]);
            } else {
                router.kill();
                router = Daemon::start_at(folder.path(), &config, &address);
            }
        }
    };
    let count = |key: &str| last[key].as_u64().unwrap();
    println!("{killed} kills, {last}");
    assert_eq!((count("done"), count("failed"), count("cancelled")), (tasks, 0, 0), "{last}");
    // Counted again: each task has one attempt that counts, and its line.
    let done = done(folder.path()).await;
    let numbers: BTreeSet<u64> = done.iter().map(|(task, _)| *task).collect();
    assert_eq!((size(&done), size(&numbers)), (tasks, tasks));
    let lines = fs::read_to_string(work.join("done")).unwrap();
    let written: BTreeSet<u64> = lines.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(written, (1..=tasks).collect());
    let clusters: BTreeSet<&str> = done.iter().map(|(_, cluster)| cluster.as_str()).collect();
    assert_eq!(clusters, BTreeSet::from(NAMES), "each cluster ran some");
}

fn size<T>(things: impl IntoIterator<Item = T>) -> u64 {
    things.into_iter().map(|_| 1).sum()
}

/// Beats of each task: process and time, in nanoseconds since the epoch, by task.
fn beats(work: &Path) -> BTreeMap<u64, Vec<(u64, u64)>> {
    let mut beats: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for line in fs::read_to_string(work.join("beats")).unwrap_or_default().lines() {
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        beats.entry(words[0]).or_default().push((words[1], words[2]));
    }
    beats
}

/// The cluster and number of the running attempt of each task.
async fn places(router: &Daemon) -> BTreeMap<u64, (String, u64)> {
    let tasks = router.try_get("/v1/campaigns/1/tasks?attempts=true").await;
    let Ok((_, tasks)) = tasks else { return BTreeMap::new() };
    let running = tasks["tasks"].as_array().unwrap().iter().filter(|it| it["state"] == "running");
    let place = |task: &Value| {
        let last = task["attempts"].as_array()?.last()?;
        let node = last["node"].as_str()?.to_owned();
        Some((task["task"].as_u64()?, (node, last["attempt"].as_u64()?)))
    };
    running.filter_map(place).collect()
}

async fn until<T>(what: &str, router: &Daemon, find: impl AsyncFn(&Daemon) -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(found) = find(router).await {
            return found;
        }
        assert!(since.elapsed() < PATIENCE, "never: {what}: {}", router.said());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// All nodes are busy with a long bag. A test of 50 tasks begins one on each cluster, ahead of the
/// bag, and drops the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_test_begins_next_on_each_full_cluster() {
    let fleets = [cluster("20s").await, cluster("20s").await];
    let (folder, work) = folders();
    let config = router_config(folder.path(), &fleets, "20s");
    let config = config.replace("enabled = true", "enabled = true\ntest_class = 'urgent'");
    let urgent =
        "[[class]]\nname = 'urgent'\npolicy = 'fair-share'\nnodepool = 'main'\npriority = 1\n";
    let config = config.replace("[orchestrator]", &format!("{urgent}[orchestrator]"));
    // Submissions wake the router, and tasks elsewhere keep it awake.
    let config = config.replace("pass_every = '200ms'", "pass_every = '1h'");
    let address = format!("127.0.0.1:{}", port());
    let router = Daemon::start_at(folder.path(), &config, &address);
    let submit = async |kind: &str, shell: &str, tasks: u64| {
        let body = json!({
            "user": fleet::user(), "type": kind, "shell": shell, "tasks": tasks,
            "memory": "256MB", "cwd": work, "class": "normal",
        });
        let answer = router.send(Method::POST, "/v1/campaigns", &body).await;
        assert_eq!(answer.status(), StatusCode::CREATED, "{}", answer.text().await.unwrap());
        answer.json::<Value>().await.unwrap()["id"].as_u64().unwrap()
    };
    let bag = format!("/v1/campaigns/{}", submit("default", "sleep 1", 100_000).await);
    let full = async |router: &Daemon| {
        let (_, answer) = router.try_get(&bag).await.ok()?;
        (8 <= answer["campaign"]["running"].as_u64()?).then_some(())
    };
    until("eight tasks run", &router, full).await;
    let test = submit("test", "echo $APPORTION_TASK_ID >> tested", 50).await;
    let path = format!("/v1/campaigns/{test}");
    let over = async |router: &Daemon| {
        let (_, answer) = router.try_get(&path).await.ok()?;
        let campaign = answer.get("campaign")?.clone();
        (campaign["state"] == "done").then_some(campaign)
    };
    let test = until("the test ends", &router, over).await;
    assert_eq!((&test["done"], &test["dropped"]), (&json!(2), &json!(48)), "{test}");
    assert_eq!(fs::read_to_string(work.join("tested")).unwrap().lines().count(), 2);
    let (_, tasks) = router.try_get(&format!("{path}/tasks?attempts=true")).await.unwrap();
    let nodes = tasks["tasks"].as_array().unwrap().iter();
    let nodes: BTreeSet<&str> =
        nodes.map(|task| task["attempts"][0]["node"].as_str().unwrap()).collect();
    assert_eq!(nodes, BTreeSet::from(["grenoble", "lyon"]), "{tasks}");
    // Short tasks are sent in groups, and foretold one by one: eight slots take hours.
    let path = format!("{bag}/forecasts");
    let end = async |router: &Daemon| {
        let (_, answer) = router.try_get(&path).await.ok()?;
        let mut forecasts = answer["forecasts"].as_array()?.iter();
        let whole = forecasts.rfind(|it| it["cluster"] == "")?;
        Some(whole["end_ms"].as_u64()? - whole["at_ms"].as_u64()?)
    };
    let left_ms = until("the end of the bag is foretold", &router, end).await;
    assert!(6_000_000 < left_ms, "100,000 seconds of work: {left_ms} ms");
    // The bag has hardly begun.
    let (_, bag) = router.try_get(&bag).await.unwrap();
    assert!(90_000 < bag["campaign"]["queued"].as_u64().unwrap(), "{bag}");
}

/// The orchestrator of a cluster stands still. Its tasks end by the leases of their slots, then run
/// elsewhere, and count once. Both sides restart meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_a_silent_cluster_end_there_and_run_elsewhere_after_their_lease() {
    let mut fleets = vec![cluster("4s").await, cluster("4s").await];
    let (folder, work) = folders();
    let address = format!("127.0.0.1:{}", port());
    let config = router_config(folder.path(), &fleets, "8s");
    let mut router = Daemon::start_at(folder.path(), &config, &address);
    let body = json!({
        "user": fleet::user(), "tasks": 3, "memory": "256MB", "cwd": work, "class": "normal",
        "grace": "1s", "shell": "until [ -e go ]; do echo $APPORTION_TASK_ID $$ $(date +%s%N) >> beats; \
                                 sleep 0.1; done; echo $APPORTION_TASK_ID >> done",
    });
    let answer = router.send(Method::POST, "/v1/campaigns", &body).await;
    assert_eq!(answer.status(), StatusCode::CREATED, "{}", answer.text().await.unwrap());
    let all_run = async |router: &Daemon| Some(places(router).await).filter(|it| it.len() == 3);
    let first = until("all tasks run", &router, all_run).await;
    let silent = NAMES.iter().position(|name| *name == first[&1].0).unwrap();
    let moved: BTreeSet<u64> =
        first.iter().filter(|(_, it)| it.0 == first[&1].0).map(|(task, _)| *task).collect();
    fleet::signal(fleets[silent].pid(Part::Orchestrator), rustix::process::Signal::STOP);
    router.kill();
    let stopped = Instant::now();
    router = Daemon::start_at(folder.path(), &config, &address);
    let again = async |router: &Daemon| {
        let places = places(router).await;
        let is_elsewhere = |task: &u64| places.get(task).is_some_and(|it| it.0 != first[&1].0);
        moved.iter().all(is_elsewhere).then_some(places)
    };
    let second = until("they run elsewhere", &router, again).await;
    println!("{} tasks run elsewhere after {:?}", moved.len(), stopped.elapsed());
    // 8 s for the batch, 4 s for the slots, 1 s of grace, and 10 s more.
    assert!(Duration::from_secs(23) <= stopped.elapsed());
    assert!(moved.iter().all(|task| second[task].1 == first[task].1 + 1), "{second:?}");
    // The database has a row for each cluster and pass, and the state of each predictor.
    let path = format!("sqlite:{}", folder.path().join("orchestrator.db").display());
    let mut database = SqliteConnection::connect(&path).await.unwrap();
    let count = "select min(rows) from (select count(*) as rows from gridstatus group by cluster)";
    let rows: i64 = sqlx::query_scalar(count).fetch_one(&mut database).await.unwrap();
    let forecasts = "select count(distinct cluster) from forecasts where campaign = 1";
    let told: i64 = sqlx::query_scalar(forecasts).fetch_one(&mut database).await.unwrap();
    assert!(2 < rows && told == 3, "{rows} {told}");
    // The cluster comes back from its database: nothing of the batch begins there again.
    fleets[silent].kill(Part::Orchestrator);
    fleets[silent].revive();
    fleets[silent].until_state(1, "cancelled").await;
    fs::write(work.join("go"), "").unwrap();
    let ends = async |router: &Daemon| campaign(router).await.filter(|it| it["state"] == "done");
    let last = until("it is done", &router, ends).await;
    assert_eq!((last["done"].as_u64(), last["failed"].as_u64()), (Some(3), Some(0)), "{last}");
    let lines = fs::read_to_string(work.join("done")).unwrap();
    assert_eq!(lines.lines().count(), 3, "each task came to its end once");
    for (task, beats) in beats(&work) {
        let mut processes: Vec<u64> = beats.iter().map(|(process, _)| *process).collect();
        processes.dedup();
        let expected = 1 + usize::from(moved.contains(&task));
        // A process that came back, or two at a time, would appear twice.
        assert_eq!(processes.len(), expected, "task {task}: {processes:?}");
    }
}

/// An orchestrator without a daemon around it is a router by the configuration file of a daemon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orchestrator_alone_routes_by_a_configuration_file() {
    let lyon = cluster("20s").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("grid.toml");
    fs::write(&file, router_config(folder.path(), std::slice::from_ref(&lyon), "20s")).unwrap();
    let plan = Plan {
        config: CONFIG,
        agents: 0,
        agent_flags: &[],
        head_flags: &["--config", file.to_str().unwrap()],
        detours: BTreeMap::new(),
        ports: None,
    };
    let alone = Fleet::start(&plan).await;
    let id = alone.submit(json!({ "shell": "true", "tasks": 4, "class": "normal" })).await;
    assert_eq!(alone.until_state(id, "done").await.campaign.done, 4);
    let path = format!("/v1/campaigns/{id}/tasks?attempts=true");
    let (_, told) = alone.ask(Method::GET, &path, None).await.unwrap();
    let tasks = told["tasks"].as_array().unwrap();
    let nodes: Vec<&Value> = tasks.iter().map(|task| &task["attempts"][0]["node"]).collect();
    assert_eq!(nodes, vec!["lyon"; 4], "{told}");
}
