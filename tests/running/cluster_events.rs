//! A router over other clusters, all of them real processes: events and stress of clusters, prologues and epilogues
//! there, a reboot of a head, and output from there.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::daemon::{CONFIG as ROUTER, Daemon, apportion};
use crate::support::fleet::{self, Fleet, PATIENCE, Part, port};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sqlx::{Connection, SqliteConnection};

async fn cluster(lease: &str) -> Fleet {
    Fleet::small(1, lease).await
}

/// A router without nodes of its own, over named clusters.
struct Router {
    folder: tempfile::TempDir,
    work: PathBuf,
    daemon: Daemon,
}

fn write_program(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(new, path).unwrap();
}

impl Router {
    fn over(clusters: &[(&str, &Fleet)], more: impl Fn(&Path, &str) -> String) -> Router {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        fs::create_dir(&work).unwrap();
        for open in [folder.path(), &work] {
            fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
        }
        let section = |(name, fleet): &(&str, &Fleet)| {
            let more = more(folder.path(), name);
            format!("[[cluster]]\nname = '{name}'\nurl = '{}'\n{more}\n", fleet.head)
        };
        let sections: String = clusters.iter().map(section).collect();
        let config = format!(
            "{ROUTER}\n[orchestrator]\nenabled = true\nstate = '{}'\npublish_every = '20ms'\n\
             [grid]\npass_every = '200ms'\nlease = '20s'\nresource = '256MB'\n{sections}",
            folder.path().join("orchestrator.db").display()
        );
        let daemon = Daemon::start_at(folder.path(), &config, &format!("127.0.0.1:{}", port()));
        Router { folder, work, daemon }
    }

    async fn submit(&self, mut body: Value) -> u64 {
        let fields = body.as_object_mut().unwrap();
        fields.entry("user").or_insert_with(|| fleet::user().into());
        fields.entry("memory").or_insert_with(|| "256MB".into());
        fields.entry("class").or_insert_with(|| "normal".into());
        fields.insert("cwd".to_owned(), self.work.to_str().unwrap().into());
        let answer = self.daemon.send(Method::POST, "/v1/campaigns", &body).await;
        assert_eq!(answer.status(), StatusCode::CREATED, "{}", answer.text().await.unwrap());
        answer.json::<Value>().await.unwrap()["id"].as_u64().unwrap()
    }

    /// Waits until an answer is as wanted.
    async fn until(&self, path: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let last = self.daemon.get(path).await;
            if is_wanted(&last) {
                return last;
            }
            assert!(since.elapsed() < PATIENCE, "never: {last} {}", self.daemon.said());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn until_state(&self, id: u64, state: &str) -> Value {
        let path = format!("/v1/campaigns/{id}");
        self.until(&path, |it| it["campaign"]["state"] == state).await["campaign"].clone()
    }

    /// State and reason of a cluster, as the last pass saw it.
    async fn until_cluster(&self, name: &str, state: &str) -> Value {
        let find = |grid: &Value| {
            let clusters = grid["clusters"].as_array().unwrap().iter();
            clusters.filter(|it| it["cluster"] == name).find(|it| it["state"] == state).cloned()
        };
        find(&self.until("/v1/grid", |grid| find(grid).is_some()).await).unwrap()
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.work.join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Clusters on which the tasks of a campaign ended well.
    async fn places(&self, id: u64) -> BTreeSet<String> {
        let told = self.daemon.get(&format!("/v1/campaigns/{id}/tasks?attempts=true")).await;
        let attempts = told["tasks"].as_array().unwrap().iter();
        let attempts = attempts.flat_map(|task| task["attempts"].as_array().unwrap().clone());
        let done = attempts.filter(|it| it["result"]["why"] == "done");
        done.map(|it| it["node"].as_str().unwrap().to_owned()).collect()
    }
}

fn none(_: &Path, _: &str) -> String {
    String::new()
}

async fn file(url: &str, name: &str) -> u64 {
    let name = name.to_owned();
    let url = url.to_owned();
    let told = tokio::task::spawn_blocking(move || {
        apportion(&["fault", "file", "--cluster", &name, "no disk", "--orchestrator", &url])
    });
    let told = String::from_utf8(told.await.unwrap().stdout).unwrap();
    told.split(' ').nth(1).unwrap().parse().unwrap()
}

async fn close(url: &str, id: u64) {
    let url = url.to_owned();
    let closed = tokio::task::spawn_blocking(move || {
        apportion(&["fault", "close", &id.to_string(), "--orchestrator", &url])
    });
    assert!(closed.await.unwrap().status.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_with_an_open_event_gets_no_task_until_the_event_closes() {
    let (lyon, nancy) = (cluster("20s").await, cluster("20s").await);
    let router = Router::over(&[("lyon", &lyon), ("nancy", &nancy)], none);
    let url = router.daemon.url.clone();
    // An event on record here, and an event of the cluster itself.
    for place in [(url.as_str(), "lyon"), (lyon.head.as_str(), "local")] {
        let event = file(place.0, place.1).await;
        let held = router.until_cluster("lyon", "held").await;
        assert!(held["held_why"].as_str().unwrap().ends_with(": no disk"), "{held}");
        let body = json!({ "command": ["true"], "tasks": 12 });
        let id = router.submit(body.clone()).await;
        assert_eq!(router.until_state(id, "done").await["done"], 12);
        assert_eq!(router.places(id).await, BTreeSet::from(["nancy".to_owned()]));
        close(place.0, event).await;
        router.until_cluster("lyon", "in").await;
        let slow = json!({ "command": ["sleep", "0.5"], "tasks": 12 });
        let id = router.submit(slow).await;
        router.until_state(id, "done").await;
        assert!(router.places(id).await.contains("lyon"), "it gets tasks again");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stressed_cluster_gets_no_task_and_an_unknown_stress_is_full_stress() {
    let lyon = cluster("20s").await;
    let gauge = |folder: &Path, _: &str| format!("stress = '{}'", folder.join("gauge").display());
    let router = Router::over(&[("lyon", &lyon)], gauge);
    // The program is not there yet.
    let told = router.until_cluster("lyon", "stressed").await;
    assert!(told["held_why"].as_str().unwrap().contains("cannot be executed"), "{told}");
    let id = router.submit(json!({ "command": ["true"], "tasks": 3 })).await;
    let program = router.folder.path().join("gauge");
    for (text, why) in [
        ("echo 800", "its stress is 800 of 1000"),
        ("echo much", "did not print a number from 0 to 1000"),
        ("exit 3", "failed: exit status: 3"),
    ] {
        write_program(&program, text);
        let is_told = |grid: &Value| grid["clusters"].to_string().contains(why);
        router.until("/v1/grid", is_told).await;
    }
    let campaign = router.daemon.get(&format!("/v1/campaigns/{id}")).await;
    assert_eq!(campaign["campaign"]["done"], 0, "{campaign}");
    write_program(&program, "echo 799");
    assert_eq!(router.until_state(id, "done").await["done"], 3);
    assert_eq!(router.until_cluster("lyon", "in").await["stress"], 799);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_of_the_cluster_run_once_around_the_tasks_of_each_cluster() {
    let (lyon, nancy) = (cluster("20s").await, cluster("20s").await);
    let router = Router::over(&[("lyon", &lyon), ("nancy", &nancy)], none);
    // A task knows its cluster by the folder of its slot.
    let at =
        "case \"$TMPDIR $APPORTION_ERROR_FILE\" in *LYON*) C=lyon;; *) C=nancy;; esac; echo $C";
    let at = at.replace("LYON", lyon.folder().to_str().unwrap());
    let hook = |word: &str| json!({ "shell": format!("{at} {word} >> story"), "scope": "cluster" });
    let id = router
        .submit(json!({
            "shell": format!("sleep 0.5; {at} task >> story"), "tasks": 16,
            "prologue": hook("prologue"), "epilogue": hook("epilogue"),
        }))
        .await;
    assert_eq!(router.until_state(id, "done").await["done"], 16);
    let story = router.lines("story");
    for name in ["lyon", "nancy"] {
        let own: Vec<&str> = story.iter().filter_map(|line| line.strip_prefix(name)).collect();
        let count = |word: &str| own.iter().filter(|it| it.trim() == word).count();
        assert_eq!((count("prologue"), count("epilogue")), (1, 1), "{story:?}");
        assert!(0 < count("task"), "{story:?}");
        let ends = (own.first().map(|it| it.trim()), own.last().map(|it| it.trim()));
        assert_eq!(ends, (Some("prologue"), Some("epilogue")), "{story:?}");
    }
    assert_eq!(story.len(), 20, "{story:?}");
    let local = [id + 1, id + 2];
    for hook in local {
        assert_eq!(router.until_state(hook, "cancelled").await["done"], 0, "no task ran here");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_go_on_over_a_reboot_of_the_head_that_has_them() {
    let mut lyon = cluster("40s").await;
    let router = Router::over(&[("lyon", &lyon)], none);
    let id = router
        .submit(json!({
            "tasks": 4, "grace": "1s",
            "shell": "echo $APPORTION_TASK_ID $$ >> begun; until [ -e go ]; do sleep 0.1; done; \
                      echo $APPORTION_TASK_ID >> done",
        }))
        .await;
    let since = Instant::now();
    while router.lines("begun").is_empty() {
        assert!(since.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // The leases on record are of another boot, as after a reboot of the machine of the head alone.
    lyon.kill(Part::Orchestrator);
    let path = format!("sqlite:{}", lyon.folder().join("orchestrator.db").display());
    let mut database = SqliteConnection::connect(&path).await.unwrap();
    let changed = sqlx::query("update leases set boot = 'before'").execute(&mut database).await;
    assert!(0 < changed.unwrap().rows_affected());
    database.close().await.unwrap();
    lyon.revive();
    lyon.until("it answers", async |lyon| lyon.campaign(1).await).await;
    // Longer than the doubt of a quarter of 40 s.
    tokio::time::sleep(Duration::from_secs(15)).await;
    fs::write(router.work.join("go"), "").unwrap();
    assert_eq!(router.until_state(id, "done").await["done"], 4);
    let begun: Vec<String> =
        router.lines("begun").iter().map(|it| it.split(' ').next().unwrap().to_owned()).collect();
    let once: BTreeSet<&String> = begun.iter().collect();
    assert_eq!((begun.len(), once.len(), router.lines("done").len()), (4, 4, 4), "{begun:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_output_of_a_forwarded_task_is_read_and_followed_from_here() {
    let mut lyon = cluster("20s").await;
    let router = Router::over(&[("lyon", &lyon)], none);
    let shell = "echo first $APPORTION_TASK_ID; echo wrong >&2; until [ -e go ]; do sleep 0.1; done; echo last";
    let id = router.submit(json!({ "shell": shell, "tasks": 1 })).await;
    let url = router.daemon.url.clone();
    let logs = |flags: &[&str]| {
        let task = format!("{id}.1");
        let words =
            [&["task", "logs", task.as_str(), "--orchestrator", url.as_str()], flags].concat();
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        tokio::task::spawn_blocking(move || {
            let output = apportion(&words.iter().map(String::as_str).collect::<Vec<_>>());
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (text(output.stdout), text(output.stderr))
        })
    };
    router.until(&format!("/v1/campaigns/{id}"), |it| it["campaign"]["running"] == 1).await;
    let followed = logs(&["-f"]);
    // Longer than the wait for any other answer of a cluster.
    tokio::time::sleep(Duration::from_secs(12)).await;
    fs::write(router.work.join("go"), "").unwrap();
    let (told, error) = followed.await.unwrap();
    assert_eq!(told, "first 1\nlast\n", "{error}");
    router.until_state(id, "done").await;
    assert_eq!(logs(&[]).await.unwrap().0, "first 1\nlast\n");
    let (bytes, _) = logs(&["--stderr"]).await.unwrap();
    assert_eq!(bytes, "wrong\n");
    lyon.kill(Part::Orchestrator);
    let (_, error) = logs(&[]).await.unwrap();
    let place = format!("apportion task logs 1.1 --orchestrator {}", lyon.head);
    assert!(error.contains("the output is on cluster lyon") && error.contains(&place), "{error}");
}
