//! The pages of campaigns in a real browser: no page complains, they follow what happens, and buttons
//! work by hand.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::browser::Browser;
use crate::support::up::Up;
use serde_json::{Value, json};

const IS_LIVE: &str = "return document.getElementById('pulse').className === 'pulse on'";

/// Files for a look at the pages, where the test is asked for them: `APPORTION_PICTURES=DIR`.
async fn picture(browser: &Browser, name: &str) {
    if let Some(folder) = std::env::var_os("APPORTION_PICTURES") {
        let path = std::path::Path::new(&folder).join(format!("{name}.png.base64"));
        std::fs::write(path, browser.picture(2000).await).unwrap();
    }
}

#[tokio::test]
async fn campaigns_live_in_a_browser() {
    let Some(browser) = Browser::start().await else { return };
    let up = Up::start();
    let text = "if [ $APPORTION_TASK_ID = 3 ]; then echo no such input >&2; exit 7; fi; sleep 0.2";
    let submit = ["submit", "--memory", "64MB", "--max", "2", "--name", "sweep"];
    let tasks = ["--array", "1-20", "--wait", "--shell", text];
    assert_eq!(up.run(&[&submit[..], &tasks].concat()).0, 1);
    let endless = ["--array", "1-2", "--", "sleep", "1000"];
    up.ask(&[&submit[..], &endless].concat());
    // Memory of a task that runs is news once it is more than a little.
    let hog = "my $x = 'x' x (100 << 20); sleep 1000";
    let large = ["submit", "--memory", "512MB", "--name", "hog", "--", "perl", "-e", hog];
    up.ask(&large);
    let url = up.orchestrator.clone();
    browser.open(&format!("{url}/campaigns")).await;
    browser.wait("return location.pathname === '/login'").await;
    let token = json!(up.token).to_string();
    let log_in = format!(
        "document.getElementById('token').value = {token}; document.forms[0].requestSubmit()"
    );
    browser.run(&log_in).await;
    browser.wait("return location.pathname === '/campaigns'").await;
    // The browser's complaints about the form are not about campaigns.
    browser.complaints().await;
    for page in ["/campaigns", "/campaigns/1", "/campaigns/2", "/campaigns/1/tasks/3"] {
        browser.open(&format!("{url}{page}")).await;
        browser.wait(IS_LIVE).await;
        assert_eq!(browser.complaints().await, Vec::<String>::new(), "{page}");
        let script = "
            const nameless = [...document.querySelectorAll('a, button, input:not([type=hidden]), select')]
                .filter((e) => !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length));
            const pictures = [...document.querySelectorAll('svg')].filter((e) => !e.getAttribute('aria-label'));
            const headers = [...document.querySelectorAll('th')].filter((e) => !e.scope);
            const captions = [...document.querySelectorAll('table')].filter((e) => !e.caption);
            const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
            return [nameless.length, pictures.length, headers.length, captions.length, wide]";
        assert_eq!(browser.run(script).await, json!([0, 0, 0, 0, false]), "{page}");
        picture(&browser, &page.replace('/', "_")).await;
    }
    // The page of the node has a part of the orchestrator, and keeps it while the rest changes.
    let grid: Value = serde_json::from_str(&up.page("/v1/grid").await).unwrap();
    let node = grid["nodes"][0]["node"].as_str().unwrap();
    browser.open(&format!("{url}/node/{node}")).await;
    browser.wait(IS_LIVE).await;
    let rows = "[...document.querySelectorAll('#slots tbody tr')]";
    let tasks =
        format!("{rows}.filter((row) => row.querySelector('a[href^=\"/campaigns/2/tasks/\"]'))");
    browser.wait(&format!("return {tasks}.length === 2")).await;
    let has_memory = "/[1-9][0-9]+ MB of 512 MB/.test(row.textContent)";
    let runs = "row.querySelector('a[href=\"/campaigns/3/tasks/1\"]')";
    browser.wait(&format!("return {rows}.some((row) => {runs} && {has_memory})")).await;
    let told = browser.run("return document.getElementById('slots').textContent").await;
    let told = told.as_str().unwrap();
    assert!(told.contains("by the kernel") || told.contains("watched by each slot"), "{told}");
    assert!(told.contains("64 MB") && told.contains("sweep") && told.contains("working"), "{told}");
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    picture(&browser, "_node").await;

    // A page that is only looked at changes.
    browser.open(&format!("{url}/campaigns/2")).await;
    browser.wait(IS_LIVE).await;
    browser.run("window.isTheSame = true").await;
    up.ask(&["campaign", "suspend", "2"]);
    let state = "document.querySelector('.lead .state').textContent";
    browser.wait(&format!("return window.isTheSame && {state} === 'suspended'")).await;
    // And is acted on from there.
    browser.run("document.querySelector('button[value=running]').click()").await;
    browser.wait(&format!("return !window.isTheSame && {state} !== 'suspended'")).await;
    browser.run("document.querySelector('details').open = true").await;
    browser.run("document.querySelector('button[value=cancelled]').click()").await;
    browser.wait(&format!("return {state} === 'cancelled'")).await;
    browser.open(&format!("{url}/node/{node}")).await;
    up.ask(&["campaign", "cancel", "3"]);
    let empty = "document.querySelector('#slots .empty')?.textContent";
    browser.wait(&format!("return {empty} === 'No slot is here now.'")).await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.quit().await;
}
