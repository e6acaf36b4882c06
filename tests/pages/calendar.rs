//! The calendar page in a real browser: lanes, ranges, links, and the same facts in a table.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::browser::Browser;
use crate::support::daemon::{CONFIG, Daemon};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const IS_LIVE: &str = "return document.getElementById('pulse')?.className === 'pulse on'";

const HOUR: u64 = 3_600_000;

/// Files for a look at the page, if the test is asked for them: `APPORTION_PICTURES=DIR`.
async fn picture(browser: &Browser, name: &str) {
    if let Some(folder) = std::env::var_os("APPORTION_PICTURES") {
        let path = std::path::Path::new(&folder).join(format!("{name}.png.base64"));
        std::fs::write(path, browser.picture(2000).await).unwrap();
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_millis().try_into().unwrap()
}

/// 53 nodes of 8 GB, and a class of gangs.
async fn cluster(folder: &std::path::Path) -> Daemon {
    let batch = "[[class]]\nname = \"batch\"\npolicy = \"fixed-share\"\nnodepool = \"main\"\ngangs = true\n";
    let daemon = Daemon::start(folder, &format!("{CONFIG}\n{batch}"));
    let nodes: Vec<String> = (0..53).map(|number| format!("n{number:02}=8")).collect();
    daemon.nodes(&nodes.join(" ")).await;
    daemon
}

/// A gang of so many whole nodes.
fn gang(id: u64, user: &str, nodes: u64, hours: Option<u64>, running: &[Value]) -> Value {
    let mut gang = json!({
        "id": id, "kind": "job", "user": user, "class": "batch", "state": "schedulable",
        "submitted_ms": id, "remaining": nodes, "place": "scatter", "exclusive": true,
        "chunks": [{ "count": nodes, "memory_mb": 8000 }], "processes": running,
    });
    if let Some(hours) = hours {
        gang["duration_ms"] = json!(hours * HOUR);
    }
    gang
}

/// Two gangs run for one and for nine hours, one without end; one waits for the first end.
async fn fill(daemon: &Daemon) {
    let asked = |running: &dyn Fn(u64) -> Vec<Value>| {
        vec![
            gang(1, "ann", 20, Some(1), &running(1)),
            gang(2, "bob", 30, Some(9), &running(2)),
            gang(3, "cyd", 1, None, &running(3)),
        ]
    };
    daemon.publish(1, &asked(&|_| Vec::new())).await;
    let has_all =
        |schedule: &Value| schedule["jobs"].as_array().is_some_and(|jobs| 3 == jobs.len());
    let schedule = daemon.schedule_when(has_all).await;
    let running = |id: u64| -> Vec<Value> {
        let jobs = schedule["jobs"].as_array().unwrap();
        let added = jobs.iter().find(|job| job["id"] == id).unwrap()["added"].as_array().unwrap();
        let process = |added: &Value| json!({ "share": added["share"], "node": added["node"], "state": "running" });
        added.iter().map(process).collect()
    };
    let mut work = asked(&running);
    work.push(gang(4, "dan", 10, Some(2), &[]));
    daemon.publish(2, &work).await;
    daemon.get_until("/v1/jobs/4", |job| job["start_estimate_ms"].is_u64()).await;
}

#[tokio::test]
async fn the_calendar_shows_what_comes_in_a_browser() {
    let Some(browser) = Browser::start().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let daemon = cluster(folder.path()).await;
    let url = &daemon.url;
    let text = "return document.querySelector('main').innerText";

    browser.open(&format!("{url}/calendar")).await;
    browser.wait(IS_LIVE).await;
    let empty = browser.run(text).await;
    let words =
        ["The calendar is empty", "apportion submit --time 2h", "apportion reservation create"];
    assert!(words.iter().all(|words| empty.as_str().unwrap().contains(words)), "{empty}");
    picture(&browser, "calendar-empty").await;

    fill(&daemon).await;
    let m1 = json!({
        "name": "m1", "kind": "maintenance", "nodes": ["n[50-52]"], "reason": "<b>new</b> disks",
        "start": now_ms() + 30 * HOUR, "end": now_ms() + 32 * HOUR, "force": true,
    });
    let reserved = daemon.send(Method::POST, "/v1/reservations", &m1).await;
    assert_eq!(reserved.status(), StatusCode::OK);
    // The page that is open follows.
    browser.wait("return document.querySelectorAll('.timeline td.line rect').length === 3").await;
    let lanes = "return [...document.querySelectorAll('.timeline tbody tr:not(.group)')]
        .map((row) => [row.querySelector('a')?.getAttribute('href'), row.querySelector('svg').getAttribute('aria-label')])";
    let lanes = browser.run(lanes).await;
    let said = |lane: usize| format!("{} {}", lanes[lane][0], lanes[lane][1]);
    assert!(said(0).contains("/jobs/1") && said(0).contains("job 1: ends in "), "{lanes}");
    assert!(said(1).contains("/jobs/2") && said(1).contains("job 2: ends in 9h"), "{lanes}");
    assert!(said(2).contains("/jobs/4") && said(2).contains(", for 2h"), "{lanes}");
    assert!(said(3).contains("Running work with a known end holds 400 GB now"), "{lanes}");
    let rows = browser.run(text).await.as_str().unwrap().to_owned();
    for words in [
        "maintenance",
        "n[50-52]; <b>new</b> disks",
        "1 job of work that stays, without a known end",
    ] {
        assert!(rows.contains(words), "{words}: {rows}");
    }
    assert_eq!(
        browser.run("return document.querySelector('a.on').firstChild.data").await,
        "6 hours"
    );
    picture(&browser, "calendar-hours").await;

    // A longer range has the maintenance as well; a link leads there.
    browser.run("[...document.querySelectorAll('.ranges a')].find((a) => a.innerText === '7 days').click()").await;
    browser.wait("return location.search === '?range=week'").await;
    browser.wait(IS_LIVE).await;
    browser.wait("return document.querySelector('.timeline rect.c-maintained') !== null").await;
    for (width, scheme) in [(1360, "light"), (390, "dark")] {
        browser.width(width).await;
        browser.prefer(scheme).await;
        let is_wide =
            "return document.documentElement.scrollWidth > document.documentElement.clientWidth";
        assert_eq!(browser.run(is_wide).await, false, "{width}");
        picture(&browser, &format!("calendar-week-{width}")).await;
    }
    // Moments ahead are ahead, in all three ways to write them.
    let times =
        "return [...document.querySelectorAll('#live time')].map((time) => time.textContent)";
    assert!(browser.run(times).await.to_string().contains("\"in 1 d"));
    browser.run("const times = document.getElementById('times'); times.value = 'utc'; times.dispatchEvent(new Event('change'))").await;
    assert!(browser.run(times).await.to_string().contains(" UTC\""));
    assert_eq!(
        browser.run("return document.querySelector('[data-zone]').textContent").await,
        "UTC"
    );
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.quit().await;
}

/// A bad range is refused with the words allowed; the old address stays.
#[tokio::test]
async fn a_bad_range_is_refused_with_the_words_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), CONFIG);
    daemon.nodes("n1=4").await;
    let refused = daemon.ask("/calendar?range=year").await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    let said = refused.text().await.unwrap();
    assert!(said.contains("`hours`, `day`, `week`") || said.contains("hours"), "{said}");
    for path in ["/calendar", "/calendar?range=day", "/reservations"] {
        assert_eq!(daemon.ask(path).await.status(), StatusCode::OK, "{path}");
    }
}
