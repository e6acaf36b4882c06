//! The orchestrator in the daemon's process: a single address and a single authentication for both,
//! and its end is not the end of the daemon.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::path::Path;

use crate::support::daemon::{CONFIG, Daemon};
use apportion::auth::{Role, Secret, new_line};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use sqlx::{ConnectOptions, Connection};

/// A configuration with an orchestrator whose database is in `folder`.
fn config(folder: &Path) -> String {
    let state = folder.join("orchestrator.db");
    format!(
        "{CONFIG}\n[orchestrator]\nenabled = true\nstate = '{}'\npublish_every = '20ms'\n",
        state.display()
    )
}

fn campaign() -> Value {
    json!({ "user": "ann", "command": ["true"], "memory": "1GB", "class": "normal" })
}

/// A report of a node without slots.
fn report(number: u64, slots: &Value) -> Value {
    json!({ "boot": "b", "life": "l", "number": number, "limits": "watched", "slots": slots })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_campaign_runs_at_the_daemon_s_own_address() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &config(folder.path()));
    daemon.nodes("n1=4").await;
    let answer = daemon.send(Method::POST, "/v1/campaigns", &campaign()).await;
    assert_eq!(answer.status(), StatusCode::CREATED);
    // The share that the resource manager gives arrives as an order for the node's agent.
    let path = "/v1/nodes/n1/exchange?wait=1s";
    let mut order = Value::Null;
    for number in 1..100 {
        daemon.nodes("n1=4").await;
        let answer = daemon.send(Method::POST, path, &report(number, &json!([]))).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let answer: Value = answer.json().await.unwrap();
        if let Some(first) = answer["slots"].get(0).filter(|slot| slot["start"].is_object()) {
            order = first.clone();
            break;
        }
    }
    let share = order["share"].as_u64().unwrap();
    let slot = |more: Value| {
        let mut slot = json!({ "share": share, "state": "idle", "want": 1, "prepared_ms": 1 });
        slot.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([slot])
    };
    let answer = daemon.send(Method::POST, path, &report(200, &slot(json!({})))).await;
    let answer: Value = answer.json().await.unwrap();
    assert_eq!(answer["slots"][0]["tasks"][0]["task"], json!([1, 1, 1]), "{answer}");
    let result = json!({ "number": 1, "task": [1, 1, 1], "why": "done", "exit": 0 });
    let ended = slot(json!({ "results": [result], "want": 0 }));
    let path = "/v1/nodes/n1/exchange";
    let answer = daemon.send(Method::POST, path, &report(201, &ended)).await;
    assert_eq!(answer.status(), StatusCode::OK);
    daemon.get_until("/v1/campaigns/1", |campaign| campaign["campaign"]["done"] == 1).await;
    let publisher = daemon.get("/v1/orchestrators").await["publisher"].clone();
    assert!(publisher.as_str().unwrap().starts_with("apportion-"), "{publisher}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_fails_ends_the_orchestrator_and_not_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &config(folder.path()));
    daemon.nodes("n1=4").await;
    let answer = daemon.send(Method::POST, "/v1/campaigns", &campaign()).await;
    assert_eq!(answer.status(), StatusCode::CREATED);
    // Another program writes and does not end.
    let file = folder.path().join("orchestrator.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file);
    let mut other = options.connect().await.unwrap();
    let held = other.begin_with("begin immediate").await.unwrap();
    let answer = daemon.send(Method::POST, "/v1/campaigns", &campaign()).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    let problem: Value = answer.json().await.unwrap();
    assert_eq!(problem["code"], "orchestrator-stopped");
    drop(held);
    for path in ["/v1/campaigns", "/v1/campaigns/1/tasks"] {
        assert_eq!(daemon.ask(path).await.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
    }
    daemon.nodes("n2=4").await;
    daemon.get_until("/v1/nodes", |list| list["nodes"].as_array().unwrap().len() == 2).await;
    daemon.logs("the orchestrator has stopped").await;
}

/// A file of tokens in `folder`, and the secrets in their order.
fn tokens(folder: &Path, lines: &[(&str, Role, &str)]) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt;
    let mut text = String::new();
    let mut secrets = Vec::new();
    for (name, role, more) in lines {
        let secret = Secret::new().unwrap();
        let line = new_line(&secret, name, *role, None, None).unwrap();
        text.extend([line.as_str(), more, "\n"]);
        secrets.push(secret.reveal().to_owned());
    }
    let file = folder.join("tokens");
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    secrets
}

fn with_tokens(folder: &Path) -> String {
    let tokens = folder.join("tokens");
    format!("{}\n[daemon.access]\ntokens = '{}'\n", config(folder), tokens.display())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_another_orchestrator_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [("root", Role::Operator, ""), ("ducc", Role::Orchestrator, "")];
    tokens(folder.path(), &lines);
    let config = with_tokens(folder.path());
    let state = folder.path().join("state.db");
    let daemon = Daemon::try_start(folder.path(), &config, &state, &[]).ok().unwrap();
    assert_eq!(daemon.end(60).await.unwrap().code(), Some(78));
    let said = daemon.said();
    assert!(said.contains("line 2") && said.contains("orchestrator.enabled"), "{said}");
    // The same file is refused when it is read again; what was there holds.
    tokens(folder.path(), &lines[..1]);
    let daemon = Daemon::start(folder.path(), &config);
    daemon.logs("the record is open").await;
    tokens(folder.path(), &lines);
    daemon.signal("HUP");
    daemon.logs("not read again").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_portal_speaks_for_the_user_that_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        ("portal", Role::Submitter, " user=*"),
        ("bob", Role::Submitter, ""),
        ("root", Role::Operator, ""),
    ];
    let secrets = tokens(folder.path(), &lines);
    let daemon = Daemon::start(folder.path(), &with_tokens(folder.path()));
    let ask = async |secret: &str, method: Method, path: &str, user: Option<&str>, body: Value| {
        let request = Client::new().request(method, format!("{}{path}", daemon.url));
        let request = match user {
            Some(user) => request.header("apportion-user", user),
            None => request,
        };
        let answer = request.bearer_auth(secret).json(&body).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json::<Value>().await.unwrap_or_default())
    };
    let (portal, bob) = (secrets[0].as_str(), secrets[1].as_str());
    let mine = json!({ "command": ["true"], "class": "normal" });
    let path = "/v1/campaigns";
    assert_eq!(ask(portal, Method::POST, path, None, mine.clone()).await.0, 400);
    assert_eq!(ask(portal, Method::POST, path, Some("ann"), mine.clone()).await.0, 201);
    assert_eq!(ask(bob, Method::POST, path, Some("ann"), mine).await.0, 403);
    let (_, list) = ask(portal, Method::GET, path, None, json!({})).await;
    assert_eq!(list["campaigns"][0]["user"], "ann");
    // For bob it may not touch what belongs to ann.
    let (path, cancel) = ("/v1/campaigns/1/state", json!({ "state": "cancelled" }));
    assert_eq!(ask(portal, Method::PUT, path, Some("bob"), cancel.clone()).await.0, 403);
    assert_eq!(ask(portal, Method::PUT, path, Some("ann"), cancel).await.0, 204);
    let file = folder.path().join("orchestrator.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file);
    let mut acts = options.connect().await.unwrap();
    let who: Vec<String> =
        sqlx::query_scalar("select who from acts order by id").fetch_all(&mut acts).await.unwrap();
    assert_eq!(who, ["portal for ann", "portal for ann"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_document_of_the_orchestrator_has_its_routes_and_that_of_the_daemon_none() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &config(folder.path()));
    let document = daemon.get("/orchestrator/openapi.json").await;
    let paths = document["paths"].as_object().unwrap();
    assert!(10 < paths.len());
    for (path, operations) in paths {
        for method in operations.as_object().unwrap().keys().map(|name| name.to_uppercase()) {
            assert!(apportion::auth::has_route(&method, path), "{method} {path}: no rule");
            let real = path.split('/').map(|part| if part.starts_with('{') { "1" } else { part });
            let real = real.collect::<Vec<_>>().join("/");
            let method: Method = method.parse().unwrap();
            let answer = daemon.send(method.clone(), &real, &json!({})).await;
            let status = answer.status();
            let text = answer.text().await.unwrap();
            let is_route = status != StatusCode::METHOD_NOT_ALLOWED && !text.contains("\"T002\"");
            assert!(is_route && !status.is_server_error(), "{method} {real}: {status} {text}");
        }
    }
    let other = daemon.get("/openapi.json").await;
    for path in other["paths"].as_object().unwrap().keys() {
        assert!(!paths.contains_key(path), "{path} is in both");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_count_tasks_and_exchanges_and_long_reports_come_packed() {
    use std::io::Read;
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &config(folder.path()));
    let mut body = campaign();
    body["tasks"] = json!("1-7");
    let answer = daemon.send(Method::POST, "/v1/campaigns", &body).await;
    assert_eq!(answer.status(), StatusCode::CREATED);
    let slot = |share: u64| json!({ "share": share, "state": "gone", "end": "idle" });
    let slots: Vec<Value> = (1..=500).map(slot).collect();
    let plain = serde_json::to_vec(&report(1, &json!(slots))).unwrap();
    let packed = apportion::client::pack(&plain).unwrap();
    assert!(packed.len() * 4 < plain.len());
    let post = async |number: u64, body: Vec<u8>, coding: &str| {
        let path = format!("{}/v1/nodes/n{number}/exchange", daemon.url);
        let request = Client::new().post(path).header("content-type", "application/json");
        let request = request.header("content-encoding", coding).header("accept-encoding", "gzip");
        request.body(body).send().await.unwrap()
    };
    let answer = post(1, packed.clone(), "gzip").await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    let mut text = String::new();
    let answer = answer.bytes().await.unwrap();
    flate2::read::GzDecoder::new(&*answer).read_to_string(&mut text).unwrap();
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["slots"].as_array().unwrap().len(), 500);
    let cut = packed[..packed.len() - 20].to_vec();
    assert_eq!(post(2, cut, "gzip").await.status(), StatusCode::BAD_REQUEST);
    let text = daemon.ask("/orchestrator/metrics").await.text().await.unwrap();
    // The metrics that the guide names exist.
    for name in ["commit_seconds", "exchange_seconds"] {
        assert!(text.contains(&format!("# TYPE apportion_orchestrator_{name} ")), "{name}");
    }
    for line in [
        "apportion_orchestrator_tasks{state=\"queued\"} 7",
        "apportion_orchestrator_campaigns{state=\"running\"} 1",
        "apportion_orchestrator_exchanges_total 1",
        "apportion_orchestrator_nodes 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
    }
}
