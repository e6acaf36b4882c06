//! The dashboard of the past, over real HTTP: a cycle is shown as it was, after a restart too, and
//! charts begin before the start.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::http::{Daemon, job, with};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};

async fn ask(daemon: &Daemon, path: &str) -> Response {
    daemon.client.get(format!("{}{path}", daemon.url)).send().await.unwrap()
}

/// A page, once the daemon has its books.
async fn page(daemon: &Daemon, path: &str) -> String {
    for _ in 0..1_000 {
        let response = ask(daemon, path).await;
        if response.status() != StatusCode::SERVICE_UNAVAILABLE {
            assert_eq!(response.status(), StatusCode::OK, "{path}");
            return response.text().await.unwrap();
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("{path} never came");
}

/// The rows of the first table of a page, whatever cycle its links are of.
fn rows(page: &str, cycle: u64) -> String {
    let rows = page.split_once("<tbody>").unwrap_or_else(|| panic!("no table in {page}")).1;
    let rows = rows.split_once("</tbody>").unwrap().0;
    rows.replace(&format!("?cycle={cycle}"), "")
}

/// What pages show of ann's and bob's jobs, and the cycle in which it was so.
async fn shown(daemon: &Daemon) -> (u64, Vec<(&'static str, String)>) {
    let mut all = Vec::new();
    for path in ["/jobs", "/users", "/nodes"] {
        // Curves in a line go on with time.
        let rows = rows(&page(daemon, path).await, 0);
        all.push((path, without_sparks(&rows)));
    }
    (daemon.get("/v1/status").await["cycle"].as_u64().unwrap(), all)
}

fn without_sparks(rows: &str) -> String {
    let mut parts = rows.split("<svg class=\"spark\"");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once("</svg>").unwrap().1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_past_cycle_is_shown_as_it_was_after_a_restart_too() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let (cycle, before) = shown(&daemon).await;
    assert!(before[0].1.contains("id=\"job-2\""));
    let has_figures = |history: &Value| {
        let held = history["curves"][1]["memory_mb"].as_array();
        held.is_some_and(|held| held.iter().any(|held| held.as_u64() != Some(0)))
    };
    daemon.get_until("/history?user=bob", has_figures).await;
    // Bob's job is over, and a node is gone.
    daemon.publish(2, json!([job(1, "ann")])).await;
    let off = json!({ "nodes": ["n3"], "reason": "a test" }).to_string();
    daemon.send(reqwest::Method::POST, "/v1/nodes/vary-off", &off).await;
    daemon.get_until("/v1/jobs", |jobs| jobs["jobs"].as_array().unwrap().len() == 1).await;
    assert!(!page(&daemon, "/jobs").await.contains("id=\"job-2\""));
    let mut daemon = daemon;
    for life in ["the same life", "another life"] {
        // After a start, figures come from the record when that is computed again.
        daemon.get_until("/history?user=bob", has_figures).await;
        for (path, then) in &before {
            let past = page(&daemon, &format!("{path}?cycle={cycle}")).await;
            assert_eq!(without_sparks(&rows(&past, cycle)), *then, "{path} in {life}");
            assert!(past.contains(&format!("This is the past: cycle {cycle}")), "{past}");
            assert!(past.contains(&format!("href=\"{path}\">Back to now")), "{past}");
            assert!(!past.contains("id=\"live\""), "nothing of it changes");
        }
        let links = [
            ("/topology", format!("/node/n1?cycle={cycle}")),
            ("/jobs/2", format!("/users/bob?cycle={cycle}")),
            ("/fairness", format!("/users/bob?cycle={cycle}")),
            ("/classes/normal", format!("/jobs/2?cycle={cycle}")),
            ("/", format!("/users/bob?cycle={cycle}")),
        ];
        for (path, link) in links {
            let past = page(&daemon, &format!("{path}?cycle={cycle}")).await;
            assert!(past.contains(&link), "{path} in {life} has no {link}: {past}");
            assert!(!past.contains("name=\"way\""), "nobody acts on the past");
        }
        let why = page(&daemon, &format!("/jobs/2?cycle={cycle}")).await;
        assert!(
            why.contains("bob") && why.contains("6 of 6 processes") || why.contains("fair share")
        );
        daemon.stop().await;
        daemon = Daemon::start(&folder).await;
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cycle_that_is_not_on_record_is_answered_by_those_that_are() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let is_some = |cycles: &Value| cycles["newest"].as_u64().is_some();
    let cycles = daemon.get_until("/v1/cycles", is_some).await;
    assert_eq!(cycles["oldest"], 1);
    let cases = [
        ("/topology?cycle=99999999", StatusCode::NOT_FOUND, "is not on record, which has 1 to "),
        ("/jobs?cycle=0", StatusCode::NOT_FOUND, "is not on record, which has 1 to "),
        ("/jobs?cycle=x", StatusCode::BAD_REQUEST, "not a number"),
        ("/jobs?cycle=1&colour=red", StatusCode::BAD_REQUEST, "unknown field"),
        ("/events?cycle=1", StatusCode::BAD_REQUEST, "unknown field"),
    ];
    for (path, status, words) in cases {
        let answer = ask(&daemon, path).await;
        assert_eq!(answer.status(), status, "{path}");
        let text = answer.text().await.unwrap();
        assert!(text.contains(words) && text.contains("<main"), "{path}: {text}");
    }
    // Many at once: each gets its cycle, or is told to come again; cycles go on meanwhile.
    let before = daemon.get("/v1/status").await["cycle"].as_u64().unwrap();
    let newest = cycles["newest"].as_u64().unwrap();
    let asked = (1..=30).map(|number| {
        let address = format!("{}/jobs?cycle={}", daemon.url, 1 + number % newest);
        tokio::spawn(daemon.client.get(address).send())
    });
    let asked: Vec<_> = asked.collect();
    let mut right = 0;
    for answer in asked {
        let answer = answer.await.unwrap().unwrap();
        right += u64::from(answer.status() == StatusCode::OK);
        let is_known = [StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE].contains(&answer.status());
        assert!(is_known, "{answer:?}");
    }
    assert!(0 < right);
    let bob = with(job(2, "bob"), "remaining", json!(3));
    daemon.publish(2, json!([job(1, "ann"), bob])).await;
    daemon.get_until("/v1/status", |status| before < status["cycle"].as_u64().unwrap()).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn charts_begin_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    // Carl comes, and others have to give.
    daemon.publish(2, json!([job(1, "ann"), job(2, "bob"), job(3, "carl")])).await;
    let total = |history: &Value| -> u64 {
        let processes = history["curves"][0]["processes"].as_array().unwrap();
        processes.iter().map(|count| count.as_u64().unwrap()).sum()
    };
    let preempted = "/history?of=preemptions";
    let was = total(&daemon.get_until(preempted, |history| 0 < total(history)).await);
    let last = daemon.get("/v1/status").await["cycle"].as_u64().unwrap();
    daemon.stop().await;

    let daemon = Daemon::start(&folder).await;
    let is_filled =
        |history: &Value| history["cycles"][0].as_u64().is_some_and(|first| first < last);
    let history = daemon.get_until("/history?user=ann", is_filled).await;
    let (times, cycles) = (&history["at_ms"], &history["cycles"]);
    assert_eq!(times.as_array().unwrap().len(), cycles.as_array().unwrap().len());
    assert!(times.as_array().unwrap().is_sorted_by_key(Value::as_i64), "{times}");
    let now = daemon.get_until(preempted, |history| was <= total(history)).await;
    assert_eq!(total(&now), was, "none is counted twice: {now}");
    assert!(page(&daemon, "/fairness").await.contains("href=\"/users/carl\""));
    daemon.stop().await;
}
