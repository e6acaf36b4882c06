//! The dashboard over real HTTP: texts of its pages, escaped input, and refusals.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::http;
use crate::support::http::{Daemon, job, with};
use reqwest::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HOST, IF_NONE_MATCH, LOCATION, ORIGIN,
};
use reqwest::{Client, Method, Response, StatusCode, redirect};
use serde_json::{Value, json};

/// Every page of a daemon with ann's and bob's work on three nodes.
const PAGES: [&str; 15] = [
    "/",
    "/topology",
    "/fairness",
    "/jobs",
    "/jobs/1",
    "/classes",
    "/classes/normal",
    "/users",
    "/users/ann",
    "/nodes",
    "/node/n1",
    "/calendar",
    "/reservations",
    "/events",
    "/config",
];

async fn ask(daemon: &Daemon, path: &str) -> Response {
    daemon.client.get(format!("{}{path}", daemon.url)).send().await.unwrap()
}

async fn page(daemon: &Daemon, path: &str) -> String {
    let mut response = ask(daemon, path).await;
    // The daemon has only just started, and says so.
    while response.status() == StatusCode::SERVICE_UNAVAILABLE {
        assert_eq!(response.headers()["refresh"], "1", "the browser asks again by itself");
        response = ask(daemon, path).await;
    }
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    response.text().await.unwrap()
}

/// Waits until a page says it.
async fn page_with(daemon: &Daemon, path: &str, words: &str) -> String {
    for _ in 0..1_000 {
        let page = page(daemon, path).await;
        if page.contains(words) {
            return page;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("{path} never said {words:?}: {}", page(daemon, path).await);
}

/// The text between the first `before` and the next `after`.
fn between<'a>(page: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = page.split_once(before).unwrap_or_else(|| panic!("no {before:?} in {page}"));
    rest.split_once(after).unwrap().0
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_has_a_frame_and_nothing_inline() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    for path in PAGES {
        let response = ask(&daemon, path).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        assert!(policy.starts_with("default-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
        assert!(response.headers()[CONTENT_TYPE].to_str().unwrap().starts_with("text/html"));
        let page = response.text().await.unwrap();
        for needed in
            ["<html lang=", "class=\"skip\"", "<nav aria-label", "<main id=", "<h1>", "</html>"]
        {
            assert!(page.contains(needed), "{path} has no {needed}");
        }
        for inline in [
            "<style",
            " style=",
            " onclick",
            " onload",
            "javascript:",
            "<script>",
            "http://",
            "//cdn",
        ] {
            assert!(!page.contains(inline), "{path} has {inline}");
        }
        let marked = page.matches("aria-current").count();
        assert_eq!(marked, 1, "{path}: one section is the current one");
        assert_eq!(page.matches("<table").count(), page.matches("<caption").count(), "{path}");
        assert_eq!(
            page.matches("<th ").count(),
            page.matches("<th scope=").count(),
            "{path}: headers say what they are for"
        );
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pages_load_is_here_and_is_loaded_once() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&folder).await;
    let page = page(&daemon, "/").await;
    let links = page.split("\"/assets/").skip(1).map(|rest| rest.split('"').next().unwrap());
    let links: std::collections::BTreeSet<&str> = links.collect();
    assert!(links.len() >= 5, "{links:?}");
    for link in links {
        let asset = ask(&daemon, &format!("/assets/{link}")).await;
        assert_eq!(asset.status(), StatusCode::OK, "{link}");
        let tag = asset.headers()[ETAG].clone();
        let again = daemon.client.get(format!("{}/assets/{link}", daemon.url));
        let again = again.header(IF_NONE_MATCH, tag).send().await.unwrap();
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{link}");
    }
    assert_eq!(ask(&daemon, "/assets/none.js").await.status(), StatusCode::NOT_FOUND);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_live_part_is_asked_for_alone_and_not_sent_twice() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let fragment = |path: &str, tag: Option<String>| {
        let request =
            daemon.client.get(format!("{}{path}", daemon.url)).header("hx-request", "true");
        let request =
            tag.into_iter().fold(request, |request, tag| request.header(IF_NONE_MATCH, tag));
        async move { request.send().await.unwrap() }
    };
    for path in ["/topology", "/jobs", "/nodes", "/classes/normal"] {
        let whole = page(&daemon, path).await;
        let part = fragment(path, None).await;
        assert_eq!(part.headers()["vary"], "hx-request", "{path}");
        let tag = part.headers()[ETAG].to_str().unwrap().to_owned();
        let text = part.text().await.unwrap();
        assert!(!text.contains("<html") && text.len() < whole.len(), "{path}");
        let same = fragment(path, Some(tag.clone())).await;
        // Figures over time may have gone on.
        if path != "/classes/normal" {
            assert_eq!(same.status(), StatusCode::NOT_MODIFIED, "{path}");
            assert_eq!(same.text().await.unwrap(), "");
        }
        let other = daemon.client.get(format!("{}{path}", daemon.url)).header(IF_NONE_MATCH, tag);
        assert_eq!(other.send().await.unwrap().status(), StatusCode::OK, "a whole page is another");
    }
    // An open page tells its reader that its subject is gone.
    let gone = fragment("/users/nobody", None).await;
    assert_eq!(gone.status(), StatusCode::OK);
    assert!(!gone.text().await.unwrap().contains("<html"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_cluster_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&folder).await;
    let empty = [
        ("/", "POST /v1/heartbeats"),
        ("/topology", "POST /v1/heartbeats"),
        ("/nodes", "POST /v1/heartbeats"),
        ("/jobs", "PUT /v1/publication"),
        ("/users", "PUT /v1/publication"),
        ("/events", "Events come when"),
        ("/classes", "normal"),
        ("/classes/normal", "It has no jobs now."),
    ];
    for (path, words) in empty {
        page_with(&daemon, path, words).await;
    }
    for path in ["/jobs/7", "/jobs/x", "/users/ann", "/classes/none", "/node/n9"] {
        let missing = ask(&daemon, path).await;
        assert_eq!(missing.status(), StatusCode::NOT_FOUND, "{path}");
        assert!(missing.text().await.unwrap().contains("<main"), "{path}: a page for people");
    }
    let refused = ask(&daemon, "/jobs?colour=red").await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert!(refused.text().await.unwrap().contains("unknown field"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_say_what_the_api_says() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let why = daemon.get("/v1/jobs/1/why").await;
    let sentence = why["sentence"].as_str().unwrap();
    assert!(page(&daemon, "/jobs/1").await.contains(sentence), "{sentence}");

    let users = page(&daemon, "/users").await;
    let load = daemon.get("/v1/load").await;
    let account = &load["classes"][0]["users"][0];
    assert_eq!(account["user"], "ann");
    for sum in ["deserved", "held"] {
        let gigabytes = format!("{} GB", account["account"][sum]);
        assert!(users.contains(&gigabytes), "{sum}: {gigabytes} in {users}");
    }
    let overview = page(&daemon, "/").await;
    assert!(overview.contains("12 GB of 12 GB") && overview.contains("12 processes run"));
    let node = page(&daemon, "/node/n1").await;
    assert!(node.contains("4 GB, in pieces of 1 GB") && node.contains("/jobs/1\""));
    assert!(!node.contains("Its slots"), "there is no orchestrator here");
    let config = page(&daemon, "/config").await;
    assert!(
        config.contains("Generation 1 is in effect") && config.contains("\"1GB\"")
            || config.contains("&#34;1GB&#34;")
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reservations_are_on_their_page_and_on_the_pages_of_their_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let none = page(&daemon, "/reservations").await;
    assert!(none.contains("No reservation and no maintenance is planned"), "{none}");
    // The start is within 8 weeks of any day; its end is far ahead.
    let m1 = json!({
        "name": "m1", "kind": "maintenance", "nodes": ["n[2-3]"], "start": 1_700_000_000_000_u64,
        "end": "2199-01-01T00:00:00Z", "reason": "<b>new</b> disks",
    });
    let path = "/v1/reservations";
    assert_eq!(daemon.send(Method::POST, path, &m1.to_string()).await.status(), StatusCode::OK);
    let shown = page(&daemon, "/reservations").await;
    for words in ["id=\"reservation-m1\"", "maintenance", "n[2-3]", "2199-01-01 00:00:00 UTC"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(shown.contains("&#60;b&#62;new") && !shown.contains("<b>new"), "{shown}");
    let node = page(&daemon, "/node/n2").await;
    assert!(node.contains("Next reservation") && node.contains("maintenance m1, 2023-"), "{node}");
    assert!(node.contains("n-maintenance"), "{node}");
    assert!(!page(&daemon, "/node/n1").await.contains("Next reservation"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_show_what_the_address_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let jobs = |page: &str| -> Vec<bool> {
        ["id=\"job-1\"", "id=\"job-2\""].map(|row| page.contains(row)).to_vec()
    };
    let cases = [
        ("/jobs", [true, true]),
        ("/jobs?user=ann&class=&page=1", [true, false]),
        ("/jobs?user=bob&kind=job", [false, true]),
        ("/jobs?class=fixed", [false, false]),
        ("/jobs?kind=service", [false, false]),
        ("/jobs?state=short", [true, true]),
        ("/jobs?state=refused", [false, false]),
        ("/jobs?reason=impossible", [false, false]),
    ];
    for (path, shown) in cases {
        assert_eq!(jobs(&page(&daemon, path).await), shown, "{path}");
    }
    let nodes = page(&daemon, "/nodes?name=2&state=up&pool=main").await;
    assert!(nodes.contains("id=\"node-n2\"") && !nodes.contains("id=\"node-n1\""));
    assert!(page(&daemon, "/nodes?state=dead").await.contains("No such node."));

    // Of many, a page.
    let work: Vec<Value> = (1..=231).filter(|id| *id != 2).map(|id| job(id, "ann")).collect();
    daemon.publish(2, json!(work)).await;
    let last = page_with(&daemon, "/jobs?user=ann&page=3", "id=\"job-231\"").await;
    assert!(last.contains("201–230 of 230") && !last.contains("id=\"job-201\""));
    assert!(last.contains("href=\"/jobs?user=ann&#38;page=2\"") || last.contains("page=2"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_reasons_are_text_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let evil = "<script>alert('\"&1')</script>";
    let body = json!({ "nodes": ["n1"], "reason": evil }).to_string();
    let done = daemon.send(Method::POST, "/v1/nodes/vary-off", &body).await;
    assert_eq!(done.status(), StatusCode::OK);
    let told = page_with(&daemon, "/events", "vary-off").await;
    assert!(told.contains("script"), "it is told");
    let asked =
        ["/jobs?user=", "/topology?user=", "/nodes?name=", "/nodes/vary?way=on&nodes=n1&reason="];
    let asked = asked.map(|path| format!("{path}%3Cscript%3Ealert(%27%22%261%27)%3C%2Fscript%3E"));
    let named =
        ["/users/", "/classes/", "/node/", "/jobs/"].map(|path| format!("{path}%3Cscript%3Ealert"));
    let paths = PAGES.map(str::to_owned);
    for path in paths.iter().chain(&asked).chain(&named) {
        let page = ask(&daemon, path).await.text().await.unwrap();
        assert!(!page.contains("<script>alert"), "{path}: {page}");
        assert!(!page.contains("'\"&1'"), "{path}: {page}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_taken_out_by_a_form_of_ours_only() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let client = Client::builder().no_proxy().redirect(redirect::Policy::none()).build().unwrap();
    let form = "way=off&nodes=n%5B1-2%5D&reason=disk+swap";
    let states = async || {
        let nodes = daemon.get("/v1/nodes").await;
        let nodes = nodes["nodes"].as_array().unwrap().iter();
        nodes.map(|node| node["states"][0].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };

    let preview = page(&daemon, &format!("/nodes/vary?{form}")).await;
    assert!(preview.contains("8 processes of 2 jobs will be evicted"), "{preview}");
    assert!(preview.contains("apportion node vary-off &#39;n[1-2]&#39;"), "{preview}");
    assert_eq!(states().await, ["up", "up", "up"], "it was only looked at");

    let send = |origin: Option<String>, host: Option<&str>, form: &str| {
        let request = client.post(format!("{}/nodes/vary", daemon.url)).body(form.to_owned());
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let request =
            origin.into_iter().fold(request, |request, origin| request.header(ORIGIN, origin));
        let request = host.into_iter().fold(request, |request, host| request.header(HOST, host));
        async move { request.send().await.unwrap() }
    };
    let elsewhere = [
        (None, None),
        (Some("http://evil.example".to_owned()), None),
        (Some("null".to_owned()), None),
        (Some("http://evil.example".to_owned()), Some("evil.example")),
    ];
    for (origin, host) in elsewhere {
        let refused = send(origin.clone(), host, form).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{origin:?} {host:?}");
    }
    let here = || Some(daemon.url.clone());
    for bad in
        ["way=off&nodes=n1", "way=off&nodes=n9&reason=x", "way=up&nodes=n1&reason=x", "nodes=%"]
    {
        let refused = send(here(), None, bad).await;
        assert!(refused.status().is_client_error(), "{bad}: {}", refused.status());
    }
    let all = send(here(), None, "way=off&nodes=n%5B1-3%5D&reason=x").await;
    assert_eq!(all.status(), StatusCode::BAD_REQUEST, "every node there is");
    assert_eq!(states().await, ["up", "up", "up"], "nothing was done");

    let done = send(here(), None, form).await;
    assert_eq!(done.status(), StatusCode::SEE_OTHER);
    assert_eq!(done.headers()[LOCATION], "/nodes?state=varied-off&done=off");
    assert_eq!(states().await, ["varied-off", "varied-off", "up"]);
    let list = page(&daemon, "/nodes?state=varied-off&done=off").await;
    assert!(list.contains("off: disk swap") && list.contains("Done:"));
    let map = page(&daemon, "/topology").await;
    assert!(between(&map, "id=\"n-n1\"", "</a>").contains("node off"), "{map}");
    let back = send(here(), None, "way=on&nodes=n1").await;
    assert_eq!(back.status(), StatusCode::SEE_OTHER);
    assert_eq!(states().await, ["up", "varied-off", "up"]);
    daemon.stop().await;
}

/// Work that still has to leave is on nodes that get none: more than all is never in use.
#[tokio::test(flavor = "multi_thread")]
async fn what_stays_on_nodes_taken_out_is_counted_apart() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let before = daemon.get("/v1/status").await["shares"].clone();
    assert_eq!(before["outside_mb"], 0, "{before}");
    let body = json!({ "nodes": ["n1", "n2"], "reason": "a test" });
    let act = daemon.client.post(format!("{}/v1/nodes/vary-off", daemon.url)).json(&body);
    assert_eq!(act.send().await.unwrap().status(), StatusCode::OK);
    let is_out = |status: &Value| status["shares"]["outside_mb"].as_u64().unwrap() != 0;
    let shares = daemon.get_until("/v1/status", is_out).await["shares"].clone();
    let amount = |shares: &Value, what: &str| shares[what].as_u64().unwrap();
    assert!(amount(&shares, "used_mb") <= amount(&shares, "schedulable_mb"), "{shares}");
    let in_all = amount(&shares, "used_mb") + amount(&shares, "outside_mb");
    assert_eq!(in_all, amount(&before, "used_mb"), "nothing has left yet: {shares}");
    page_with(&daemon, "/", "GB on nodes that get no work").await;
    daemon.stop().await;
}

/// The reader of a large map gets only the nodes that changed.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_large_map_only_what_changed_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start_with(&folder, |config| config.daemon.limits.max_nodes = 500).await;
    let names: Vec<String> = (0..450).map(|number| format!("n{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for part in names.chunks(100) {
        daemon.report(part).await;
    }
    daemon.publish(1, json!([with(job(1, "ann"), "remaining", json!(8))])).await;
    daemon.get_until("/v1/schedule", |schedule| http::held(schedule, 1) == 8).await;
    let whole = page_with(&daemon, "/topology", "450 nodes").await;
    let tag = between(&whole, "data-tag=\"", "\"");
    let since = format!("/topology/changes?since={tag}");
    let same = ask(&daemon, &since).await;
    assert_eq!(same.status(), StatusCode::NO_CONTENT, "nothing is new");

    let off = json!({ "nodes": ["n007", "n440"], "reason": "a test" }).to_string();
    let done = daemon.send(Method::POST, "/v1/nodes/vary-off", &off).await;
    assert_eq!(done.status(), StatusCode::OK);
    let changes = page_with(&daemon, &since, "id=\"tiles\"").await;
    let tiles = between(&changes, "id=\"tiles\"", "</svg>");
    let places: Vec<&str> =
        tiles.split("<g id=\"").skip(1).map(|tile| tile.split('"').next().unwrap()).collect();
    assert!(places.contains(&"t-0-7") && places.contains(&"t-0-440"), "{places:?}");
    assert!(places.len() < 12, "only those, and where ann's processes are: {places:?}");
    assert_eq!(tiles.matches("class=\"node off\"").count(), 2, "{tiles}");
    assert!(changes.contains(">varied-off <span class=\"unit\">2</span>"), "{changes}");
    // From there it goes on; what is of another map, or of before a restart, is no beginning.
    let next = between(tiles, "data-tag=\"", "\"");
    assert_ne!(next, tag);
    for since in [format!("since={tag}&user=ann"), "since=0".to_owned(), String::new()] {
        let page = page(&daemon, &format!("/topology/changes?{since}")).await;
        assert!(page.contains("id=\"tiles\"") && !page.contains("data-tag"), "{since}: {page}");
    }
    daemon.stop().await;
}

/// Repetitive text is compressed for clients that accept it; a stream is not.
#[tokio::test(flavor = "multi_thread")]
async fn pages_are_packed_and_streams_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let asked = async |path: &str| {
        let request = daemon.client.get(format!("{}{path}", daemon.url));
        request.header("accept-encoding", "gzip").send().await.unwrap()
    };
    let plain = page(&daemon, "/topology").await;
    let packed = asked("/topology").await;
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    let vary = packed.headers().get_all("vary").iter().map(|value| value.to_str().unwrap());
    let vary = vary.collect::<Vec<_>>().join(", ");
    assert!(vary.contains("accept-encoding") && vary.contains("hx-request"), "{vary}");
    assert!(2 * packed.bytes().await.unwrap().len() < plain.len());
    assert!(asked("/live").await.headers().get("content-encoding").is_none());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_past_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    for whose in ["", "?class=normal", "?user=ann"] {
        let path = format!("/history{whose}");
        let history = daemon.get_until(&path, |history| {
            let last = |curve: &Value| curve["memory_mb"].as_array().unwrap().last()?.as_u64();
            history["curves"].as_array().unwrap().iter().all(|curve| last(curve) > Some(0))
        });
        let history = history.await;
        let length = history["at_ms"].as_array().unwrap().len();
        for curve in history["curves"].as_array().unwrap() {
            assert_eq!(curve["memory_mb"].as_array().unwrap().len(), length, "{whose}");
        }
    }
    let course = page_with(&daemon, "/jobs/1", "How it came here").await;
    assert!(between(&course, "How it came here", "</section>").contains("+6"), "{course}");
    // Told to be over, it is still known for a while.
    daemon.publish(2, json!([with(job(2, "bob"), "remaining", json!(5))])).await;
    page_with(&daemon, "/jobs/1", "is over since cycle").await;
    page_with(&daemon, "/events", "of job 1").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_hears_of_every_new_cycle() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::with_two_users(&folder).await;
    let mut stream = ask(&daemon, "/live").await;
    assert_eq!(stream.headers()[CONTENT_TYPE], "text/event-stream");
    let mut heard = String::new();
    let cycles = |heard: &str| -> Vec<u64> {
        let data = heard.lines().filter_map(|line| line.strip_prefix("data: "));
        let whole = data.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        whole.map(|message| message["cycle"].as_u64().unwrap()).collect()
    };
    while cycles(&heard).is_empty() {
        heard.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
    let first = cycles(&heard)[0];
    daemon.publish(2, json!([job(1, "ann")])).await;
    while cycles(&heard).iter().all(|cycle| *cycle == first) {
        heard.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
    // An open stream does not keep the daemon from ending.
    daemon.stop().await;
}
