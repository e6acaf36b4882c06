//! A store has a single daemon: the daemon watches its files while it runs, and no second daemon
//! gets in by another name. Also tested: the socket of another daemon stays, and a page of another
//! site reads nothing.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::support::daemon::{CONFIG, Daemon};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

/// Varies a node off; what came of it.
async fn act(daemon: &Daemon, node: &str) -> Option<StatusCode> {
    let body = json!({ "nodes": [node], "reason": "a test" });
    let answer = daemon.try_ask(Method::POST, "/v1/nodes/vary-off", Some(&body)).await;
    answer.ok().map(|(status, _)| status)
}

/// Nodes that are known.
async fn with_nodes(daemon: &Daemon, sequence: u64) {
    daemon.nodes("n1=4 n2=4 n3=4").await;
    daemon.publish(sequence, &[]).await;
    let is_known = |nodes: &Value| nodes["nodes"].as_array().is_some_and(|nodes| nodes.len() == 3);
    daemon.get_until("/v1/nodes", is_known).await;
}

fn other(folder: &Path) -> std::path::PathBuf {
    folder.join("other")
}

/// Acknowledged facts are stored, and the daemon notices lost files before it acknowledges anything
/// more.
#[tokio::test]
async fn files_that_are_removed_or_replaced_end_the_daemon_that_uses_them() {
    type Change = fn(&Path);
    let cases: [(&str, Change, &str); 5] = [
        ("removed", |folder| fs::remove_file(folder.join("state.db")).unwrap(), "was deleted"),
        (
            "replaced",
            |folder| {
                fs::copy(folder.join("state.db"), other(folder)).unwrap();
                fs::rename(other(folder), folder.join("state.db")).unwrap();
            },
            "was replaced",
        ),
        // A reader that opens the record meanwhile makes a new one: then it was replaced.
        (
            "no log",
            |folder| fs::remove_file(folder.join("state.db-wal")).unwrap(),
            "state.db-wal` was ",
        ),
        ("no mark", |folder| fs::remove_file(folder.join("state.db.mark")).unwrap(), "was deleted"),
        ("no lock", |folder| fs::remove_file(folder.join("state.db.lock")).unwrap(), "was deleted"),
    ];
    for (name, change, words) in cases {
        let folder = tempfile::tempdir().unwrap();
        let daemon = Daemon::start(folder.path(), CONFIG);
        with_nodes(&daemon, 1).await;
        assert_eq!(act(&daemon, "n1").await, Some(StatusCode::OK), "{name}");
        change(folder.path());
        assert_ne!(act(&daemon, "n2").await, Some(StatusCode::OK), "{name}: acknowledged");
        assert_eq!(daemon.end(30).await.expect(name).code(), Some(1), "{name}");
        let said = daemon.said();
        assert!(said.contains(words), "{name}: {said}");
        if matches!(name, "no mark" | "no lock") {
            let again = Daemon::start(folder.path(), CONFIG);
            let off = again.get_until("/v1/nodes", |nodes| nodes["nodes"].is_array()).await;
            assert!(off.to_string().contains("varied-off"), "{name}: {off}");
        }
    }
}

/// A lock beside another name says nothing of who uses the record by the first.
#[tokio::test]
async fn a_record_with_two_names_admits_no_second_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), CONFIG);
    with_nodes(&daemon, 1).await;
    fs::hard_link(folder.path().join("state.db"), other(folder.path())).unwrap();
    assert_eq!(act(&daemon, "n1").await, Some(StatusCode::OK), "it goes on");
    daemon.logs("the database has other names").await;
    let second = Daemon::try_start(folder.path(), CONFIG, &other(folder.path()), &[]).unwrap();
    assert_eq!(second.end(30).await.expect("it ends").code(), Some(1));
    assert!(second.said().contains("names (hard links)"), "{}", second.said());
    daemon.kill();
    fs::remove_file(other(folder.path())).unwrap();
    let again = Daemon::start(folder.path(), CONFIG);
    let nodes = again.get_until("/v1/nodes", |nodes| nodes["nodes"].is_array()).await;
    assert!(nodes.to_string().contains("varied-off"), "{nodes}");
}

/// A store without its lock admits a second daemon: then the first daemon ends before it writes
/// again.
#[tokio::test]
async fn a_second_daemon_takes_over_and_the_first_acknowledges_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let first = Daemon::start(folder.path(), CONFIG);
    with_nodes(&first, 1).await;
    assert_eq!(act(&first, "n1").await, Some(StatusCode::OK));
    fs::remove_file(folder.path().join("state.db.lock")).unwrap();
    let second = Daemon::start(folder.path(), CONFIG);
    with_nodes(&second, 2).await;
    assert_ne!(act(&first, "n2").await, Some(StatusCode::OK), "it is no longer its record");
    assert_eq!(first.end(30).await.expect("it ends").code(), Some(1));
    assert_eq!(act(&second, "n3").await, Some(StatusCode::OK));
    second.kill();
    let again = Daemon::start(folder.path(), CONFIG);
    with_nodes(&again, 3).await;
    let nodes = again.get("/v1/nodes").await;
    let nodes = nodes["nodes"].as_array().unwrap().iter();
    let off = nodes.filter(|node| node["states"].to_string().contains("varied-off"));
    let off: Vec<&str> = off.map(|node| node["name"].as_str().unwrap()).collect();
    assert_eq!(off, ["n1", "n3"], "what was acknowledged, and nothing else");
}

/// Two daemons get the same socket: the second daemon has it, and the end of the first leaves it
/// alone.
#[tokio::test]
async fn the_end_of_a_daemon_leaves_the_socket_of_another() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let socket = one.path().join("admin.sock");
    let config = format!("{CONFIG}\n[daemon.access]\nsocket = \"{}\"\n", socket.display());
    let first = Daemon::start(one.path(), &config);
    first.ask("/livez").await;
    fs::remove_file(&socket).unwrap();
    let second = Daemon::start(two.path(), &config);
    second.ask("/livez").await;
    UnixStream::connect(&socket).unwrap();
    first.signal("TERM");
    assert!(first.end(30).await.expect("it ends").success());
    UnixStream::connect(&socket).expect("it is the second one's");
    second.signal("TERM");
    assert!(second.end(30).await.expect("it ends").success());
    assert!(!socket.exists(), "its own it removes");
}

/// A site may have its name lead here: without tokens it is the browser's own rules that keep it from
/// reading, and they go by the name.
#[tokio::test]
async fn the_page_of_another_site_reads_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), CONFIG);
    let client = Client::builder().no_proxy().build().unwrap();
    let ask = async |host: &str, path: &str| {
        let request = client.get(format!("{}{path}", daemon.url)).header("host", host);
        request.send().await.unwrap().status()
    };
    for path in ["/", "/v1/nodes", "/metrics"] {
        for host in ["evil.example", "evil.example:7070", "localhost.evil.example", "a.b"] {
            assert_eq!(ask(host, path).await, StatusCode::FORBIDDEN, "{host}{path}");
        }
        for host in ["localhost", "127.0.0.1:7070", "[::1]:7070", "head"] {
            assert_ne!(ask(host, path).await, StatusCode::FORBIDDEN, "{host}{path}");
        }
    }
}

/// A batch of nodes that are all wrong is answered in less than it took to ask.
#[tokio::test]
async fn an_answer_to_much_that_is_wrong_is_short() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), CONFIG);
    let wrong: Vec<Value> = (0..5_000).map(|_| json!({ "node": "a b", "memory_mb": -1 })).collect();
    let answer = daemon.send(Method::POST, "/v1/heartbeats", &json!({ "nodes": wrong })).await;
    let text = answer.text().await.unwrap();
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["refused"].as_array().unwrap().len(), 1_000, "{answer}");
    assert_eq!(answer["refused_unlisted"], 4_000);
    let wrong: Vec<Value> = (0..5_000).map(|id| json!({ "id": id })).collect();
    let body = json!({ "sequence": 1, "work": wrong });
    let (_, answer) = daemon.try_ask(Method::PUT, "/v1/publication", Some(&body)).await.unwrap();
    assert_eq!(answer["refused"].as_array().unwrap().len(), 1_000, "{answer}");
    assert_eq!(answer["refused_unlisted"], 4_000);
}
