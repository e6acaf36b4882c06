//! The real daemon, given another configuration while it runs.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::daemon::Daemon;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, raw_sql};
use tempfile::TempDir;

const CONFIG: &str = r#"
[daemon]
cycle_period = "20ms"

[scheduler]
quantum = "1GB"
initialization_cap = 0
expand_by_doubling = false
prediction = false

[[nodepool]]
name = "main"

[[nodepool]]
name = "side"
nodes = ["n3"]

[[class]]
name = "normal"
policy = "fair-share"
nodepool = "main"
"#;

const WEEKLY: &str = "[[class]]\nname = 'weekly'\npolicy = 'fair-share'\nnodepool = 'side'\n";
const FIXED: &str = "[[class]]\nname = 'fixed'\npolicy = 'fixed-share'\nnodepool = 'main'\n";

/// Sends a configuration to be planned or applied.
async fn config(daemon: &Daemon, path: &str, text: &str) -> (StatusCode, Value) {
    let body = json!({ "name": "new.toml", "text": text, "reason": "a test" });
    post(daemon, &format!("/v1/config/{path}"), &body).await
}

async fn post(daemon: &Daemon, path: &str, body: &Value) -> (StatusCode, Value) {
    daemon.try_ask(Method::POST, path, Some(body)).await.unwrap()
}

/// Nodes of 4 GB: two in `main`, another in `side`; ann's job in `normal`, bob's in `weekly`, and a
/// process of eve's in `fixed`.
async fn with_work(folder: &TempDir) -> Daemon {
    let daemon = Daemon::start(folder.path(), &format!("{CONFIG}{WEEKLY}{FIXED}"));
    daemon.nodes("n1=4 n2=4 n3=4").await;
    daemon.publish(1, &work()).await;
    let is_whole = |schedule: &Value| [1, 2, 3].map(|id| held(schedule, id)) == [7, 4, 1];
    daemon.get_until("/v1/schedule", is_whole).await;
    daemon
}

fn work() -> [Value; 3] {
    let work = |id: u64, kind: &str, user: &str, class: &str| {
        json!({
            "id": id, "kind": kind, "user": user, "class": class, "memory_mb": 1024,
            "state": "running", "remaining": 100, "running": true, "submitted_ms": id,
        })
    };
    [
        work(1, "job", "ann", "normal"),
        work(2, "job", "bob", "weekly"),
        work(3, "arbitrary_process", "eve", "fixed"),
    ]
}

fn scheduled(schedule: &Value, id: u64) -> Option<&Value> {
    schedule["jobs"].as_array()?.iter().find(|job| job["id"] == id)
}

fn held(schedule: &Value, id: u64) -> usize {
    let count = |job: &Value, list: &str| job[list].as_array().unwrap().len();
    scheduled(schedule, id).map_or(0, |job| count(job, "shares") - count(job, "removed"))
}

/// The work as an orchestrator shows it that runs what it is told to run; what it is told to end
/// has ended if `has_ended`.
fn shown(schedule: &Value, has_ended: bool) -> Vec<Value> {
    let with_processes = |mut work: Value| {
        let Some(job) = scheduled(schedule, work["id"].as_u64().unwrap()) else { return work };
        let is_leaving = |share: &Value| {
            job["removed"].as_array().unwrap().iter().any(|gone| gone["share"] == share["share"])
        };
        let shares = job["shares"].as_array().unwrap().iter();
        let running = shares.filter(|share| !has_ended || !is_leaving(share));
        let process = |share: &Value| json!({ "share": share["share"], "node": share["node"], "state": "running" });
        work["processes"] = running.map(process).collect();
        work
    };
    work().into_iter().map(with_processes).collect()
}

fn node<'a>(nodes: &'a Value, name: &str) -> &'a Value {
    nodes["nodes"].as_array().unwrap().iter().find(|node| node["name"] == name).unwrap()
}

fn is_blacklisted(node: &Value) -> bool {
    node["states"].as_array().unwrap().contains(&"blacklisted".into())
}

/// Without `weekly` and `fixed`, and with n2 in the other pool.
fn smaller() -> String {
    CONFIG.replace("[\"n3\"]", "[\"n2\", \"n3\"]")
}

#[tokio::test]
async fn a_plan_says_what_apply_then_does_and_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let daemon = with_work(&folder).await;
    let before = (daemon.get("/v1/schedule").await, daemon.get("/v1/nodes").await["nodes"].take());
    let (status, plan) = config(&daemon, "plan", &smaller()).await;
    assert_eq!((status, &plan["applied"]), (StatusCode::OK, &false.into()), "{plan}");
    let after = (daemon.get("/v1/schedule").await, daemon.get("/v1/nodes").await["nodes"].take());
    assert_eq!(after, before);
    assert_eq!(daemon.get("/v1/config").await["generation"], 1);

    let impact = &plan["impact"];
    // Ann's job is allowed on n1, but n1 has eve's process, which is no longer allowed anywhere.
    let evicted = json!([
        { "job": 1, "shares": 7, "why": "blacklisted" }, { "job": 2, "shares": 4, "why": "blacklisted" }
    ]);
    assert_eq!((&impact["shares_evicted"], &impact["evicted"]), (&11.into(), &evicted));
    assert_eq!(impact["parked"], json!([{ "job": 3, "shares": 1 }]));
    assert_eq!(impact["blacklisted"], json!(["n1", "n2", "n3"]));
    assert_eq!(impact["refused"][0]["reason"], "class `weekly` is not defined");
    assert_eq!(plan["moved"], json!([{ "node": "n2", "from": "main", "to": "side" }]));
    let nodes = json!({ "setting": "nodepool.side.nodes", "before": "[\"n3\"]",
        "after": "[\"n2\", \"n3\"]", "at_restart": false });
    assert_eq!(plan["changes"][0], nodes);

    let (status, done) = config(&daemon, "apply", &smaller()).await;
    assert_eq!(
        (status, &done["applied"], &done["generation"]),
        (StatusCode::OK, &true.into(), &2.into())
    );
    for part in ["evicted", "parked", "refused", "blacklisted"] {
        assert_eq!(done["impact"][part], impact[part], "{part}");
    }
    assert_eq!((&done["changes"], &done["moved"]), (&plan["changes"], &plan["moved"]));
    let schedule = daemon.get("/v1/schedule").await;
    assert_eq!([1, 2, 3].map(|id| held(&schedule, id)), [0, 0, 1], "in the one cycle");
}

/// I33: shares of a class that is gone are counted where they are, and their nodes get nothing,
/// until they have left; then the nodes are as good as any.
#[tokio::test]
async fn what_is_no_longer_allowed_is_counted_and_blocks_its_node_until_it_has_left() {
    let folder = TempDir::new().unwrap();
    let daemon = with_work(&folder).await;
    let schedule = daemon.get("/v1/schedule").await;
    daemon.publish(2, &shown(&schedule, false)).await;
    config(&daemon, "apply", &smaller()).await;
    let schedule = daemon.get("/v1/schedule").await;

    // The orchestrator has not ended anything: nothing is free, nothing is placed.
    daemon.publish(3, &shown(&schedule, false)).await;
    let nodes = daemon.get_until("/v1/nodes", |nodes| 2 < nodes["cycle"].as_u64().unwrap()).await;
    for name in ["n1", "n2", "n3"] {
        let node = node(&nodes, name);
        assert_eq!((&node["used"], is_blacklisted(node)), (&4.into(), true), "{node}");
    }

    // Terminated processes have exited; eve's process stays where it is, and blocks its node only.
    let schedule = daemon.get("/v1/schedule").await;
    daemon.publish(4, &shown(&schedule, true)).await;
    let blocked =
        node(&nodes, "n1")["shares"].as_array().unwrap().iter().any(|share| share["job"] == 3);
    let (with_eve, without) = if blocked { ("n1", "n2") } else { ("n2", "n1") };
    let nodes = daemon
        .get_until("/v1/nodes", |nodes| {
            node(nodes, with_eve)["used"] == 1 && !is_blacklisted(node(nodes, without))
        })
        .await;
    assert!(is_blacklisted(node(&nodes, with_eve)) && !is_blacklisted(node(&nodes, "n3")));

    // The classes are back: eve's process was never lost, and its node is an ordinary node.
    let schedule = daemon.get("/v1/schedule").await;
    daemon.publish(5, &shown(&schedule, true)).await;
    let body = json!({ "generation": 1 });
    let (status, answer) = post(&daemon, "/v1/config/apply", &body).await;
    assert_eq!(
        (status, &answer["impact"]["shares_evicted"]),
        (StatusCode::OK, &0.into()),
        "{answer}"
    );
    let is_whole = |schedule: &Value| [1, 2, 3].map(|id| held(schedule, id)) == [7, 4, 1];
    daemon.get_until("/v1/schedule", is_whole).await;
    let nodes = daemon.get("/v1/nodes").await;
    assert!(["n1", "n2", "n3"].iter().all(|name| !is_blacklisted(node(&nodes, name))), "{nodes}");
}

#[tokio::test]
async fn a_wrong_configuration_is_refused_whole_with_every_place() {
    let folder = TempDir::new().unwrap();
    let daemon = with_work(&folder).await;
    let before = (daemon.get("/v1/schedule").await, daemon.get("/v1/config").await);
    let wrong = smaller().replace("\"1GB\"", "\"1XB\"").replace("\"fair-share\"", "\"fare-share\"");
    for way in ["plan", "apply"] {
        let (status, problem) = config(&daemon, way, &wrong).await;
        assert_eq!((status, &problem["code"]), (StatusCode::UNPROCESSABLE_ENTITY, &"G001".into()));
        let codes: Vec<_> =
            problem["errors"].as_array().unwrap().iter().map(|error| &error["code"]).collect();
        assert_eq!(codes, ["C016", "C010"]);
        let detail = problem["errors"][0]["detail"].as_str().unwrap();
        assert!(
            detail.starts_with("new.toml:6:11: scheduler.quantum: \"1XB\" is not a size; "),
            "{detail}"
        );
    }
    let both = json!({ "text": CONFIG, "generation": 1 });
    let (status, problem) = post(&daemon, "/v1/config/apply", &both).await;
    assert_eq!(
        (status, &problem["errors"][0]["pointer"]),
        (StatusCode::BAD_REQUEST, &"/generation".into())
    );
    let (status, problem) = post(&daemon, "/v1/config/apply", &json!({ "generation": 9 })).await;
    assert_eq!((status, &problem["code"]), (StatusCode::NOT_FOUND, &"G002".into()));
    assert_eq!((daemon.get("/v1/schedule").await, daemon.get("/v1/config").await), before);
}

#[tokio::test]
async fn a_hangup_signal_has_the_file_read_again_or_refused() {
    let folder = TempDir::new().unwrap();
    let daemon = with_work(&folder).await;
    let file = folder.path().join("apportion.toml");
    std::fs::write(&file, CONFIG.replace("\"1GB\"", "\"1XB\"")).unwrap();
    daemon.signal("HUP");
    daemon.logs_line(&["ERROR", "C016", "\"line\":6"]).await;
    daemon.logs_line(&["ERROR", "the one before stays in effect", "apportion.toml"]).await;
    assert_eq!(daemon.get("/v1/config").await["generation"], 1);
    std::fs::remove_file(&file).unwrap();
    daemon.signal("HUP");
    daemon.logs_line(&["ERROR", "C001", "the one before stays in effect"]).await;

    std::fs::write(&file, format!("{CONFIG}{FIXED}{WEEKLY}weight = 3\n")).unwrap();
    daemon.signal("HUP");
    daemon.get_until("/v1/config", |config| config["generation"] == 2).await;
    let classes = daemon.get("/v1/classes").await;
    let weekly =
        classes["classes"].as_array().unwrap().iter().find(|class| class["name"] == "weekly");
    assert_eq!(weekly.unwrap()["weight"], 3);
    let schedule = daemon.get("/v1/schedule").await;
    assert_eq!([1, 2, 3].map(|id| held(&schedule, id)), [7, 4, 1], "nothing else has changed");
    daemon.signal("HUP");
    daemon.logs_line(&["nothing has changed"]).await;
    assert_eq!(daemon.get("/v1/config").await["generation"], 2);
}

#[tokio::test]
async fn what_needs_a_restart_is_said_and_waits_for_it() {
    let folder = TempDir::new().unwrap();
    let text = |daemon: &str| CONFIG.replace("cycle_period = \"20ms\"", daemon);
    let daemon = Daemon::start(folder.path(), &text("cycle_period = '20ms'\nlimits.max_nodes = 2"));
    let next = text("cycle_period = '30ms'\nstate = 'elsewhere.db'\nlimits.max_nodes = 3");
    let (_, plan) = config(&daemon, "apply", &next).await;
    let at_restart = |setting: &str| {
        let changes = plan["changes"].as_array().unwrap();
        changes
            .iter()
            .find(|change| change["setting"] == setting)
            .map(|change| change["at_restart"].as_bool().unwrap())
    };
    assert_eq!(at_restart("daemon.cycle_period"), Some(false));
    assert_eq!(at_restart("daemon.limits.max_nodes"), Some(true));
    assert_eq!(at_restart("daemon.state"), None, "the flag has it, whatever the file says");
    assert!(
        plan["notes"][0].as_str().unwrap().contains("only at a restart: daemon.limits.max_nodes")
    );
    assert!(
        plan["notes"][1]
            .as_str()
            .unwrap()
            .contains("apportion.toml differs from this configuration")
    );
    assert_eq!(plan["impact"]["shares_evicted"], 0, "whatever there is");
    let (_, plan) = config(&daemon, "plan", &format!("{next}{FIXED}")).await;
    assert!(plan.get("impact").is_none(), "nothing has been scheduled yet");
    assert_eq!(
        daemon.get("/v1/config").await["waiting_for_restart"],
        json!(["daemon.limits.max_nodes"])
    );
    let nodes = ["n1", "n2", "n3"].map(|node| json!({ "node": node, "memory_mb": 4096 }));
    let (_, answer) = post(&daemon, "/v1/heartbeats", &json!({ "nodes": nodes })).await;
    let told = answer["detail"].as_str().unwrap();
    assert!(told.contains("at most 2 are taken"), "the limit is what it was: {answer}");
}

/// Every configuration is kept under its number; at a start the file is the truth.
#[tokio::test]
async fn configurations_are_kept_and_can_be_returned_to() {
    let folder = TempDir::new().unwrap();
    let first = format!("{CONFIG}{WEEKLY}{FIXED}");
    {
        let daemon = Daemon::start(folder.path(), &first);
        config(&daemon, "apply", CONFIG).await;
        let (_, again) = config(&daemon, "apply", CONFIG).await;
        assert_eq!((&again["applied"], &again["generation"]), (&false.into(), &2.into()));
        post(&daemon, "/v1/config/apply", &json!({ "generation": 1 })).await;
        let history = daemon.get("/v1/config/generations").await;
        let told: Vec<String> = history["generations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| format!("{} {} {}", one["generation"], one["source"], one["reason"]))
            .collect();
        assert_eq!(told, ["1 \"start\" null", "2 \"apply\" \"a test\"", "3 \"return\" null"]);
        assert_eq!(daemon.get("/v1/config/generations/1").await["text"], first.as_str());
        assert_eq!(daemon.get("/v1/config/generations/2").await["text"], CONFIG);
    }
    {
        let daemon = Daemon::start(folder.path(), &first);
        assert_eq!(daemon.get("/v1/config").await["generation"], 3, "the same file goes on");
        config(&daemon, "apply", CONFIG).await;
    }
    let daemon = Daemon::start(folder.path(), &first);
    assert_eq!(daemon.get("/v1/config").await["generation"], 5, "the file is the truth");
    daemon.logs_line(&["WARN", "differs from the last in effect", "\"before\":4"]).await;
    assert_eq!(daemon.get("/v1/classes").await["classes"].as_array().unwrap().len(), 3);
}

/// Nothing depends on an old configuration, so the daemon goes on. It does not start with a changed
/// configuration that was in effect.
#[tokio::test]
async fn a_kept_configuration_that_was_changed_on_the_disk_is_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let daemon = Daemon::start(folder.path(), CONFIG);
    config(&daemon, "apply", &smaller()).await;
    let file = SqliteConnectOptions::new().filename(folder.path().join("state.db"));
    let mut stranger = file.connect().await.unwrap();
    let change = "update configurations set text = replace(text, '1GB', '2GB')";
    raw_sql(change).execute(&mut stranger).await.unwrap();
    stranger.close().await.unwrap();
    let says = "state.db` is damaged (configuration 1 on record was changed after it was written)";
    for way in ["plan", "apply"] {
        let body = json!({ "generation": 1 });
        let (status, problem) = post(&daemon, &format!("/v1/config/{way}"), &body).await;
        assert_eq!((status, &problem["code"]), (StatusCode::UNPROCESSABLE_ENTITY, &"G003".into()));
        assert!(problem["detail"].as_str().unwrap().contains(says), "{problem}");
    }
    let shown = daemon.try_get("/v1/config/generations/1").await.unwrap().1;
    assert_eq!(shown["code"], "G003", "{shown}");
    assert_eq!(daemon.get("/v1/config").await["generation"], 2);
    drop(daemon);
    let again = Daemon::start(folder.path(), CONFIG);
    assert_eq!(again.end(60).await.unwrap().code(), Some(1));
    again.logs_line(&["configuration 2 on record was changed", "restore a copy"]).await;
}

#[tokio::test]
async fn the_command_line_asks_before_it_harms_work() {
    let folder = TempDir::new().unwrap();
    let daemon = with_work(&folder).await;
    let file = folder.path().join("new.toml");
    std::fs::write(&file, smaller()).unwrap();
    let file = file.to_str().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_apportion"));
        let command = command.arg("config").args(args).args(["--url", &daemon.url]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let (status, plan, _) = run(&["plan", file]);
    assert_eq!(status, 0);
    for line in [
        "nodepool.side.nodes: [\"n3\"] -> [\"n2\", \"n3\"]",
        "class.weekly is gone",
        "nodes n2: main -> side",
        "11 shares would be evicted: 7 of job 1 (blacklisted), 4 of job 2 (blacklisted)",
        "1 share would stay until done: 1 of job 3",
        "n[1-3] would get no work until they are gone",
        "job 3 would be refused: class `fixed` is not defined",
        "nothing was changed; generation 1 is in effect",
    ] {
        assert!(plan.lines().any(|told| told == line), "{line}\n{plan}");
    }
    let (status, _, stderr) = run(&["apply", file]);
    assert_eq!(status, 1);
    assert!(stderr.contains("say --yes to do it"), "{stderr}");
    assert_eq!(daemon.get("/v1/config").await["generation"], 1);
    let (status, done, _) = run(&["apply", file, "--yes", "--reason", "fewer classes"]);
    assert!(status == 0 && done.ends_with("generation 2 is in effect\n"), "{done}");
    let (_, history, _) = run(&["history"]);
    assert!(history.contains("* 2") && history.contains("fewer classes"), "{history}");
    assert_eq!(run(&["history", "2"]).1.trim(), smaller().trim());
    let (_, running, _) = run(&["show", "--running"]);
    assert!(running.contains("nodepool.side.nodes = [\"n2\", \"n3\"]\n"), "{running}");
    assert!(running.ends_with(&format!("# generation 2, {file}\n")), "{running}");
    assert_eq!(run(&["plan", "--generation", "7"]).0, 5);
    let (status, _, stderr) =
        run(&["apply", Path::new(file).with_extension("x").to_str().unwrap()]);
    assert!(status == 1 && stderr.contains("cannot read"), "{stderr}");
}
