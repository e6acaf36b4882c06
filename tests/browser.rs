//! The dashboard in a real browser: no page complains, pages follow what happens, filters and acts
//! work by hand.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test's panic is its failure")]

#[path = "support/browser.rs"]
mod browser;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use browser::Browser;
use serde_json::json;

/// The demo as a stranger starts it. It ends with the test, however that ends.
struct Demo {
    process: Child,
    /// Where the dashboard is, as the demo says.
    url: String,
}

impl Demo {
    fn start() -> Demo {
        let mut process = Command::new(env!("CARGO_BIN_EXE_apportion"))
            .args(["demo", "--listen", "127.0.0.1:0", "--speed", "30"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        let line =
            lines.find(|line| line.contains("dashboard")).expect("the demo says where it is");
        let url = line.split_whitespace().last().unwrap().trim_end_matches('/').to_owned();
        assert!(lines.any(|line| line.contains("nodes checked in")));
        // The story has to go somewhere.
        std::thread::spawn(move || lines.for_each(drop));
        Demo { process, url }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

const PAGES: [&str; 13] = [
    "/",
    "/topology",
    "/topology?user=ann",
    "/jobs",
    "/jobs/7",
    "/classes",
    "/classes/normal",
    "/users",
    "/users/eve",
    "/nodes",
    "/node/mid03",
    "/events",
    "/config",
];

const IS_LIVE: &str = "return document.getElementById('pulse').className === 'pulse on'";

#[tokio::test]
async fn the_dashboard_lives_in_a_browser() {
    let Some(browser) = Browser::start().await else { return };
    let demo = Demo::start();
    // Eve's work waits for ever, so there is somebody whose page stays.
    wait_for_work(&demo).await;
    for page in PAGES {
        browser.open(&format!("{}{page}", demo.url)).await;
        browser.wait(IS_LIVE).await;
        let is_fetched = "return performance.getEntriesByType('resource').some((entry) => entry.initiatorType === 'fetch')";
        browser.wait(is_fetched).await;
        assert_eq!(browser.complaints().await, Vec::<String>::new(), "{page}");
        check_for_readers(&browser, page).await;
    }
    follows(&browser, &demo).await;
    filters(&browser, &demo).await;
    varies_off(&browser, &demo).await;
    says_that_it_is_lost(&browser, demo).await;
    browser.quit().await;
}

async fn wait_for_work(demo: &Demo) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    loop {
        let job = client.get(format!("{}/v1/jobs/7", demo.url)).send().await.unwrap();
        if job.status().is_success() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What screen readers and keyboards need of a page.
async fn check_for_readers(browser: &Browser, page: &str) {
    let script = "
        const nameless = [...document.querySelectorAll('a, button, input:not([type=hidden]), select')]
            .filter((e) => !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length));
        const pictures = [...document.querySelectorAll('svg, .chart')]
            .filter((e) => !e.closest('[aria-hidden]') && !e.getAttribute('aria-label') && !e.querySelector('[aria-label]'));
        const headings = [...document.querySelectorAll('h1')].length;
        const headers = [...document.querySelectorAll('th')].filter((e) => !e.scope && !e.closest('.uplot'));
        const captions = [...document.querySelectorAll('table')].filter((e) => !e.caption && !e.closest('.uplot'));
        const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
        return [nameless.length, pictures.length, headings, headers.length, captions.length, wide]";
    assert_eq!(browser.run(script).await, json!([0, 0, 1, 0, 0, false]), "{page}");
}

/// A page that is only looked at changes.
async fn follows(browser: &Browser, demo: &Demo) {
    browser.open(&format!("{}/events", demo.url)).await;
    let latest = "return document.querySelector('#live tbody tr')?.id";
    let first = browser.wait(latest).await;
    browser.run("window.isTheSame = true").await;
    browser
        .wait(&format!("{} !== {first}", latest.replace("return ", "return window.isTheSame && ")))
        .await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// A filter shows less, is in the address, and lasts while the page follows what happens.
async fn filters(browser: &Browser, demo: &Demo) {
    browser.open(&format!("{}/jobs", demo.url)).await;
    browser.wait(IS_LIVE).await;
    browser
        .run(
            "const field = document.querySelector('input[name=user]'); field.value = 'eve';
             field.dispatchEvent(new Event('change', { bubbles: true }))",
        )
        .await;
    let users = "const all = [...document.querySelectorAll('#live .who')].map((e) => e.textContent.trim());
         return location.search === '?user=eve' && all.length > 0 && all.every((user) => user === 'eve')";
    browser.wait(users).await;
    let cycle = "return document.getElementById('pulse').textContent.match(/cycle ([\\d,]+)/)[1]";
    let before = browser.run(cycle).await;
    browser.wait(&format!("{cycle} !== {before}")).await;
    browser.wait(users).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// Taken out by the forms of the page, it shows on a map that is open in another tab's place.
async fn varies_off(browser: &Browser, demo: &Demo) {
    browser.open(&format!("{}/node/small29", demo.url)).await;
    let asked = "
        document.querySelector('input[name=reason]').value = '<script>alert(1)</script>';
        document.querySelector('button[value=off]').click()";
    browser.run(asked).await;
    browser.wait("return document.querySelector('button.go') !== null").await;
    browser.run("document.querySelector('button.go').click()").await;
    browser.wait("return document.querySelector('#node-small29 .n-varied-off') !== null").await;
    let note = "return document.querySelector('#node-small29 .why').textContent";
    assert_eq!(browser.run(note).await, "off: <script>alert(1)</script>");

    // By somebody else, while the map is looked at.
    browser.open(&format!("{}/topology", demo.url)).await;
    browser.wait(IS_LIVE).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let body = json!({ "nodes": ["small28"], "reason": "a test" });
    let act = client.post(format!("{}/v1/nodes/vary-off", demo.url)).json(&body);
    let started = Instant::now();
    assert!(act.send().await.unwrap().status().is_success());
    browser.wait("return document.querySelector('#n-small28 .node.off') !== null").await;
    eprintln!("a node taken out by the API showed on an open map after {:?}", started.elapsed());
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// Whoever looks at a page of a daemon that is gone is told so.
async fn says_that_it_is_lost(browser: &Browser, demo: Demo) {
    drop(demo);
    let banner = "const banner = document.getElementById('banner'); return !banner.hidden && banner.textContent";
    let told = browser.wait(banner).await;
    assert!(told.as_str().unwrap().contains("not heard any more"), "{told}");
}

/// Writes a picture of every page to `target/screenshots`, to be looked at:
/// `cargo test --test browser -- --ignored pictures`.
#[tokio::test]
#[ignore = "makes pictures, for people"]
async fn pictures() {
    let Some(browser) = Browser::start().await else { return };
    let demo = Demo::start();
    wait_for_work(&demo).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let vary = "/nodes/vary?way=off&nodes=mid[01-03]+big01&reason=disk+swap";
    for scheme in ["light", "dark"] {
        browser.prefer(scheme).await;
        for page in PAGES.into_iter().chain([vary]) {
            browser.open(&format!("{}{page}", demo.url)).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            save(scheme, page, &browser.picture(2_600).await);
        }
    }
    browser.quit().await;
}

/// Base64 is all that is between a browser's answer and a file; the shell has it.
fn save(scheme: &str, page: &str, picture: &str) {
    let name: String =
        page.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("../screenshots");
    std::fs::create_dir_all(&folder).unwrap();
    let encoded = folder.join("picture.base64");
    std::fs::write(&encoded, picture).unwrap();
    let file = std::fs::File::create(folder.join(format!("{scheme}{name}.png"))).unwrap();
    let decoded = Command::new("base64").arg("-d").arg(&encoded).stdout(file).status().unwrap();
    assert!(decoded.success());
    std::fs::remove_file(encoded).unwrap();
}
