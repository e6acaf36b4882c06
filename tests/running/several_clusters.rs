//! A bag of tasks over three clusters and a router, all of them real processes, some of which are
//! killed.
//!
//! `cargo test` kills 6 processes under 240 tasks. `KILLS=100 TASKS=100001 cargo test --test running
//! several_clusters::` is the large one. `SEED` repeats the choices, though not their moments.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]
#![expect(clippy::print_stdout, reason = "seed and figures")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
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

async fn cluster() -> Fleet {
    let plan = Plan {
        config: CONFIG,
        agents: 2,
        agent_flags: &["--memory", "512MB"],
        head_flags: &["--linger", "1s", "--lease", "20s"],
        detours: BTreeMap::new(),
        ports: None,
    };
    Fleet::start(&plan).await
}

/// The configuration of a router without nodes of its own.
fn router_config(folder: &Path, fleets: &[Fleet]) -> String {
    let state = folder.join("orchestrator.db");
    let clusters = NAMES
        .iter()
        .zip(fleets)
        .map(|(name, fleet)| format!("[[cluster]]\nname = '{name}'\nurl = '{}'\n", fleet.head));
    let clusters: String = clusters.collect();
    format!(
        "{ROUTER}\n[orchestrator]\nenabled = true\nstate = '{}'\npublish_every = '20ms'\n\
         [grid]\npass_every = '200ms'\nresource = '256MB'\n{clusters}",
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bag_over_three_clusters_is_counted_once_under_kills() {
    let (kills, tasks) = (number("KILLS", 6), number("TASKS", 240));
    let seed = number("SEED", lot());
    println!("SEED={seed}");
    let mut lots = ChaCha8Rng::seed_from_u64(seed);
    let mut fleets = vec![cluster().await, cluster().await, cluster().await];
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    fs::create_dir(&work).unwrap();
    for open in [folder.path(), &work] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let address = format!("127.0.0.1:{}", port());
    let config = router_config(folder.path(), &fleets);
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
