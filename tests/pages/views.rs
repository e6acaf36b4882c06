//! What pages help to find: sorted tables, the search, what is gone, and what an error means.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::http;
use crate::support::http::{Daemon, job, with};
use apportion::api::Code;
use reqwest::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, LOCATION};
use reqwest::{Client, StatusCode, redirect};
use serde_json::{Value, json};

async fn page(daemon: &Daemon, path: &str) -> String {
    let answer = daemon.client.get(format!("{}{path}", daemon.url)).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK, "{path}");
    answer.text().await.unwrap()
}

/// The rows of a page that begin with `start`, in order.
fn ids(page: &str, start: &str) -> Vec<String> {
    let start = format!("<tr id=\"{start}");
    page.split(&start).skip(1).map(|row| row.split('"').next().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_sorted_as_the_address_says() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let cases = [
        ("/jobs?sort=id", "job-", ["1", "2"]),
        ("/jobs?sort=-id", "job-", ["2", "1"]),
        ("/jobs?sort=-user&user=&page=1", "job-", ["2", "1"]),
        ("/jobs?sort=nothing", "job-", ["1", "2"]),
        ("/users?sort=user", "user-", ["ann", "bob"]),
        ("/users?sort=-user", "user-", ["bob", "ann"]),
    ];
    for (path, start, expected) in cases {
        assert_eq!(ids(&page(&daemon, path).await, start), expected, "{path}");
    }
    assert_eq!(ids(&page(&daemon, "/nodes?sort=-name").await, "node-"), ["n3", "n2", "n1"]);
    let sorted = page(&daemon, "/jobs?sort=-held&user=ann").await;
    assert!(sorted.contains("aria-sort=\"descending\"><a href=\"/jobs?user=ann&amp;sort=held\">"));
    // Pages of a long list keep their order.
    let work: Vec<Value> = (1..=120).filter(|id| *id != 2).map(|id| job(id, "ann")).collect();
    daemon.publish(2, json!(work)).await;
    daemon.get_until("/v1/users", |users| users["users"][0]["jobs"] == 119).await;
    let last = page(&daemon, "/jobs?sort=-id&page=2").await;
    assert_eq!(ids(&last, "job-").first().map(String::as_str), Some("20"));
    assert!(last.contains("sort=-id&#38;page=1"), "{last}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_search_leads_to_what_is_called_so() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let client = Client::builder().no_proxy().redirect(redirect::Policy::none()).build().unwrap();
    let cycle = daemon.get("/v1/status").await["cycle"].as_u64().unwrap();
    let cases = [
        ("q=1", Some("/jobs/1".to_owned())),
        ("q=job%202", Some("/jobs/2".to_owned())),
        ("q=%20n2%20", Some("/node/n2".to_owned())),
        ("q=ann", Some("/users/ann".to_owned())),
        ("q=normal", Some("/classes/normal".to_owned())),
        (&format!("q=ann&cycle={cycle}"), Some(format!("/users/ann?cycle={cycle}"))),
        ("q=n", None),
    ];
    for (query, expected) in cases {
        let answer = client.get(format!("{}/search?{query}", daemon.url)).send().await.unwrap();
        let led = answer.headers().get(LOCATION).map(|to| to.to_str().unwrap().to_owned());
        assert_eq!(led, expected, "{query}");
    }
    let some = page(&daemon, "/search?q=N").await;
    for link in ["/node/n1", "/node/n3", "/users/ann", "/classes/normal"] {
        assert!(some.contains(&format!("href=\"{link}\"")), "{link} in {some}");
    }
    let none = page(&daemon, "/search?q=%3Cscript%3E").await;
    assert!(none.contains("No job, node, user or class") && !none.contains("<script>"), "{none}");
    // Every page has the field.
    assert!(page(&daemon, "/events").await.contains("action=\"/search\""));
    daemon.stop().await;
}

/// Where a program gets a problem, a person gets a page with a way on.
#[tokio::test(flavor = "multi_thread")]
async fn people_get_pages_where_programs_get_problems() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let asked = async |path: &str, accept: &str| {
        let request = daemon.client.get(format!("{}{path}", daemon.url)).header(ACCEPT, accept);
        let answer = request.send().await.unwrap();
        let kind = answer.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
        let policy = answer.headers().contains_key(CONTENT_SECURITY_POLICY);
        (answer.status(), kind, policy, answer.text().await.unwrap())
    };
    let browser = "text/html,application/xhtml+xml,*/*;q=0.8";
    for path in ["/nowhere", "/jobs/1/nothing", "/logout"] {
        let (status, kind, has_policy, text) = asked(path, browser).await;
        assert!(status.is_client_error() && kind.starts_with("text/html") && has_policy, "{path}");
        assert!(text.contains("href=\"/errors/T002\"") && text.contains("<nav"), "{path}: {text}");
        let (same, kind, _, text) = asked(path, "*/*").await;
        assert_eq!((same, kind.as_str()), (status, "application/problem+json"), "{path}");
        let problem: Value = serde_json::from_str(&text).unwrap();
        // What the problem names as its kind is there.
        let (found, _, _, text) = asked(problem["type"].as_str().unwrap(), browser).await;
        assert_eq!(found, StatusCode::OK);
        assert!(text.contains(problem["title"].as_str().unwrap()), "{text}");
        assert!(text.contains(Code::NoSuchPath.remedy()), "{text}");
    }
    let (status, kind, ..) = asked("/v1/jobs/99", browser).await;
    assert_eq!((status, kind.as_str()), (StatusCode::NOT_FOUND, "application/problem+json"));
    assert_eq!(asked("/errors/Z999", browser).await.0, StatusCode::NOT_FOUND);
    for code in ["O002", "orchestrator-stopped"] {
        assert_eq!(asked(&format!("/errors/{code}"), browser).await.0, StatusCode::OK, "{code}");
    }
    assert!(page(&daemon, "/errors").await.contains("/errors/P010"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_no_jobs_any_more_still_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let has_figures = |history: &Value| {
        history["curves"][1]["memory_mb"]
            .as_array()
            .is_some_and(|held| held.iter().any(|held| held.as_u64() != Some(0)))
    };
    daemon.get_until("/history?user=bob", has_figures).await;
    daemon.publish(2, json!([job(1, "ann")])).await;
    daemon.get_until("/v1/users", |users| users["users"].as_array().unwrap().len() == 1).await;
    let gone = page(&daemon, "/users/bob").await;
    assert!(gone.contains("bob has no jobs as of cycle"), "{gone}");
    let link = gone.split("href=\"/users/bob?cycle=").nth(1).unwrap().split('"').next().unwrap();
    let then = page(&daemon, &format!("/users/bob?cycle={link}")).await;
    assert!(then.contains("id=\"job-2\""), "{then}");
    daemon.stop().await;
}

/// Colours, the search and fullness on the map, as the address says.
#[tokio::test(flavor = "multi_thread")]
async fn the_map_shows_what_the_address_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start_with(&folder, |config| config.daemon.limits.max_nodes = 40).await;
    daemon.report(&["n1", "n2", "n3", "n4", "n5", "n6"]).await;
    // One process each, of thirteen users: more than there are colours.
    let work: Vec<Value> =
        (1..=13).map(|id| with(job(id, &format!("u{id:02}")), "remaining", json!(1))).collect();
    daemon.publish(1, json!(work)).await;
    let is_there = |schedule: &Value| (1..=13).all(|id| http::held(schedule, id) == 1);
    daemon.get_until("/v1/schedule", is_there).await;
    let map = page(&daemon, "/topology").await;
    let (above, legend) = map.split_once("<div id=\"below\">").unwrap();
    assert!(above.contains("<svg id=\"map-0\"") && legend.contains("Colour is the user"));
    let colours: Vec<&str> = legend
        .split("<span class=\"swatch ")
        .skip(1)
        .map(|one| &one[..one.find('"').unwrap()])
        .collect();
    let mut own = colours[..colours.len() - 1].to_vec();
    assert_eq!((colours.len(), colours.last()), (12, Some(&"u11")), "{colours:?}");
    own.sort_unstable();
    own.dedup();
    assert_eq!(own.len(), 11, "no colour stands for two");
    assert!(legend.contains("2 others") && !own.contains(&"u11"), "{legend}");
    assert!(map.contains("6 nodes of 4 GB: 13 GB of 24 GB taken, 54 %"), "{map}");
    let by_class = page(&daemon, "/topology?by=class").await;
    assert!(
        by_class.contains("Colour is the class") && by_class.contains("href=\"/classes/normal\"")
    );
    let by_use = page(&daemon, "/topology?by=use").await;
    assert!(by_use.contains("Colour is how full the node is") && by_use.contains("class=\"v"));
    let found = page(&daemon, "/topology?node=n%5B2-3%5D").await;
    assert_eq!(found.matches("class=\"node up found\"").count(), 2, "{found}");
    assert!(page(&daemon, "/topology?node=x").await.contains("No node here is called x."));
    let words = page(&daemon, "/topology/node?name=n1").await;
    assert!(words.starts_with("n1: 4 GB, up, ") && words.contains("of 4 GB taken: u"), "{words}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_theme_that_was_chosen_is_in_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    for (cookie, expected) in [
        ("apportion_theme=dark", "<html lang=\"en\" data-theme=\"dark\">"),
        ("apportion_theme=light; x=y", "<html lang=\"en\" data-theme=\"light\">"),
        ("apportion_theme=\"onload=", "<html lang=\"en\">"),
    ] {
        let request = daemon.client.get(format!("{}/jobs", daemon.url)).header(COOKIE, cookie);
        let text = request.send().await.unwrap().text().await.unwrap();
        assert!(text.contains(expected), "{cookie}: {text}");
    }
    daemon.stop().await;
}
