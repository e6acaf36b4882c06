//! Admission rules that the configuration declares, at a real daemon with an orchestrator.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::path::Path;

use crate::support::daemon::{CONFIG, Daemon, apportion};
use crate::support::fleet::{CONFIG as FLEET, Fleet, Plan};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const RULES: &str = r#"
[[admission]]
name = "sizes"
memory = "512MB"
grace = "5s"

[[admission]]
name = "few"
users = ["ann"]
classes = ["normal"]
max_tasks = 10
max_memory = "2GB"

[[admission]]
name = "turns"
max_live = 2
max_slots = 3
"#;

fn daemon(folder: &Path) -> Daemon {
    let state = folder.join("orchestrator.db");
    let orchestrator = format!("[orchestrator]\nenabled = true\nstate = '{}'\n", state.display());
    Daemon::start(folder, &format!("{CONFIG}\n{orchestrator}{RULES}"))
}

async fn ask(daemon: &Daemon, path: &str, body: &Value) -> (StatusCode, Value) {
    let answer = daemon.send(Method::POST, path, body).await;
    (answer.status(), answer.json().await.unwrap_or_default())
}

/// A campaign of `user` with `tasks` tasks.
fn campaign(user: &str, tasks: u64, more: &Value) -> Value {
    let mut body = json!({ "user": user, "command": ["true"], "tasks": format!("1-{tasks}") });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// An orchestrator of its own has the rules of its configuration file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orchestrator_alone_has_the_rules_of_its_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("head.toml");
    std::fs::write(&file, format!("{CONFIG}\n{RULES}")).unwrap();
    let plan = Plan {
        config: FLEET,
        agents: 0,
        agent_flags: &[],
        head_flags: &["--config", file.to_str().unwrap()],
        detours: std::collections::BTreeMap::new(),
        ports: None,
    };
    let fleet = Fleet::start(&plan).await;
    let body = campaign("ann", 11, &json!({ "class": "normal", "cwd": fleet.work() }));
    let (status, told) = fleet.ask(Method::POST, "/v1/campaigns", Some(body)).await.unwrap();
    assert_ne!(status, StatusCode::CREATED);
    assert!(told.to_string().contains("11 tasks are more than max_tasks = 10"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn declared_rules_reject_and_rewrite_in_the_order_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path());
    let submit = async |user: &str, tasks, more: Value| {
        ask(&daemon, "/v1/campaigns", &campaign(user, tasks, &more)).await
    };
    for (user, tasks, more, expected) in [
        (
            "ann",
            11,
            json!({ "class": "normal" }),
            "rule `few` rejects the campaign: 11 tasks are more than max_tasks = 10",
        ),
        (
            "ann",
            10,
            json!({ "class": "normal", "memory": "3GB" }),
            "3 GB a slot are more than max_memory = 2 GB",
        ),
    ] {
        let (status, problem) = submit(user, tasks, more).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(expected), "{problem}");
    }
    // Without memory the limit would not say which: the default of the first rule comes before.
    let (status, first) = submit("ann", 10, json!({ "class": "normal" })).await;
    assert_eq!((status, &first["id"]), (StatusCode::CREATED, &json!(1)), "{first}");
    let shown = daemon.get("/v1/campaigns/1").await;
    let changes: Vec<(&Value, &Value)> = shown["admission"]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| (&rule["name"], &rule["changes"]))
        .collect();
    assert_eq!(
        json!(changes),
        json!([
            ["sizes", [{ "field": "grace", "given": "5000ms" }, { "field": "memory", "given": "512MB" }]],
            ["few", null],
            ["turns", [{ "field": "max", "given": 3 }]],
        ])
    );
    let spec = daemon.get("/v1/campaigns/1/spec").await;
    assert_eq!((&spec["memory_mb"], &spec["max"]), (&json!(512), &json!(3)));
    let told = apportion(&["campaign", "show", "1", "--orchestrator", &daemon.url]);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("rule `turns` changed max from nothing to 3"), "{told}");
    let listed = apportion(&["admission", "--orchestrator", &daemon.url]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names: Vec<&str> =
        listed.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(names, ["sizes", "few", "turns"], "{listed}");
    assert!(
        listed.contains(
            "campaigns of ann in the classes normal: at most 10 tasks, at most 2 GB a slot"
        ),
        "{listed}"
    );
    // Another user is not meant by the limits, and by the rule about campaigns.
    let (status, _) = submit("bob", 11, json!({ "class": "normal", "memory": "3GB" })).await;
    assert_eq!(status, StatusCode::CREATED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_holds_for_tasks_that_are_added_and_for_campaigns_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path());
    let body = campaign("ann", 9, &json!({ "class": "normal" }));
    let (status, _) = ask(&daemon, "/v1/campaigns", &body).await;
    assert_eq!(status, StatusCode::CREATED);
    let (status, _) = ask(&daemon, "/v1/campaigns/1/tasks", &json!({ "count": 1 })).await;
    assert_eq!(status, StatusCode::CREATED);
    let (status, problem) = ask(&daemon, "/v1/campaigns/1/tasks", &json!({ "count": 1 })).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    assert!(
        problem["detail"].as_str().unwrap().contains("11 tasks are more than max_tasks"),
        "{problem}"
    );
    let more = json!({ "failed": true, "memory": "3GB" });
    let (status, problem) = ask(&daemon, "/v1/campaigns/1/resubmit", &more).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("max_memory = 2 GB"), "{problem}");
    // Of several submissions at once one alone is the last that ann may have.
    let tries = (0..6).map(|_| ask(&daemon, "/v1/campaigns", &body));
    let answers = futures_util::future::join_all(tries).await;
    let taken = answers.iter().filter(|(status, _)| *status == StatusCode::CREATED).count();
    assert_eq!(taken, 1, "{answers:?}");
    let told = answers.iter().filter(|(_, problem)| {
        problem["detail"].as_str().is_some_and(|text| {
            text.contains("ann has 2 campaigns that have not ended, and max_live = 2; wait until")
        })
    });
    assert_eq!(told.count(), 5, "{answers:?}");
}
