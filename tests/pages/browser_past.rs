//! The dashboard's past, map and choices in a real browser.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::daemon;
use std::path::Path;

use crate::support::browser::Browser;
use crate::support::daemon::{CONFIG, Daemon, job};

const IS_LIVE: &str = "return document.getElementById('pulse')?.className === 'pulse on'";

async fn with_jobs(folder: &Path, nodes: u64) -> Daemon {
    let daemon = Daemon::start(folder, CONFIG);
    let nodes: Vec<String> = (0..nodes).map(|number| format!("n{number:03}=4")).collect();
    daemon.nodes(&nodes.join(" ")).await;
    daemon.publish(1, &[job(1, "ann", &[]), job(2, "bob", &[])]).await;
    daemon.schedule_when(|schedule| !daemon::shares(schedule, 2, "shares").is_empty()).await;
    daemon
}

/// The slider leads to a cycle with an address of its own, links stay there, and one link is the way
/// back.
#[tokio::test]
async fn the_slider_leads_to_the_past_and_a_link_back() {
    let Some(browser) = Browser::start().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let daemon = with_jobs(folder.path(), 3).await;
    // Bob's job is over, so that now and then differ.
    daemon.publish(2, &[job(1, "ann", &[])]).await;
    browser.open(&format!("{}/jobs?sort=-held", daemon.url)).await;
    browser.wait(IS_LIVE).await;
    browser.wait("return document.querySelector('#job-2') === null").await;
    browser.wait("return Number(document.getElementById('slide').max) > 1").await;
    // By hand: input while it moves, change once it is let go.
    let slide = "const slide = document.getElementById('slide'); slide.value = 1;
        slide.dispatchEvent(new Event('input', { bubbles: true }));
        slide.dispatchEvent(new Event('change', { bubbles: true }))";
    browser.run(slide).await;
    browser.wait("return location.search.includes('cycle=1')").await;
    browser.wait("return document.querySelector('.time.then') !== null").await;
    let said = browser.run("return document.querySelector('.time.then').innerText").await;
    assert!(said.as_str().unwrap().contains("This is the past: cycle 1"), "{said}");
    assert!(browser.run("return location.search").await.as_str().unwrap().contains("sort=-held"));
    assert_eq!(
        browser.run("return document.getElementById('pulse')").await,
        serde_json::Value::Null
    );
    // A filter and a link stay in that cycle.
    browser.run("document.querySelector('.top nav a[href^=\"/topology\"]').click()").await;
    browser
        .wait("return location.pathname === '/topology' && location.search === '?cycle=1'")
        .await;
    browser.run("document.querySelector('form.filter select[name=by]').value = 'use'").await;
    browser.run("document.querySelector('form.filter button').click()").await;
    browser
        .wait("return location.search.includes('cycle=1') && location.search.includes('by=use')")
        .await;
    browser.run("document.querySelector('a.now').click()").await;
    browser
        .wait("return location.pathname === '/topology' && !location.search.includes('cycle')")
        .await;
    browser.wait(IS_LIVE).await;
    // A point of a curve leads to its cycle.
    browser.open(&format!("{}/", daemon.url)).await;
    browser.wait("return document.querySelector('.u-over') !== null").await;
    let click = "const over = document.querySelector('.u-over'), box = over.getBoundingClientRect();
        const at = { bubbles: true, clientX: box.left + box.width * 0.97, clientY: box.top + 20 };
        for (const kind of ['mousemove', 'mousedown', 'mouseup', 'click']) over.dispatchEvent(new MouseEvent(kind, at))";
    browser.run(click).await;
    browser.wait("return /cycle=\\d+/.test(location.search) && document.querySelector('.time.then') !== null").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.quit().await;
}

/// Nodes of a large map are found by pointing and by keys.
#[tokio::test]
async fn a_large_map_tells_by_mouse_and_by_keys() {
    let Some(browser) = Browser::start().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let daemon = with_jobs(folder.path(), 450).await;
    browser.open(&format!("{}/topology", daemon.url)).await;
    browser.wait(IS_LIVE).await;
    browser.wait("return document.querySelector('svg[data-names]') !== null").await;
    let told = |name: &str| {
        format!("return document.getElementById('spot').textContent.startsWith('{name}: 4 GB, up')")
    };
    let point =
        "const map = document.querySelector('svg[data-names]'), box = map.getBoundingClientRect();
        map.dispatchEvent(new PointerEvent('pointermove',
            { bubbles: true, pointerType: 'mouse', clientX: box.left + 4, clientY: box.top + 4 }))";
    browser.run(point).await;
    browser.wait(&told("n000")).await;
    let press = |key: &str| {
        format!(
            "document.querySelector('svg[data-names]').dispatchEvent(new KeyboardEvent('keydown', {{ bubbles: true, key: '{key}' }}))"
        )
    };
    for key in ["ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"] {
        browser.run(&press(key)).await;
    }
    browser.wait(&told("n001")).await;
    browser.run(&press("Enter")).await;
    browser.wait("return location.pathname === '/node/n001'").await;
    // From any page to what is called so.
    browser.run("document.querySelector('.search input').value = 'ann'").await;
    browser.run("document.querySelector('.search').requestSubmit()").await;
    browser.wait("return location.pathname === '/users/ann'").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.quit().await;
}

/// A theme and a way to write times hold on every page, without a flash of the other.
#[tokio::test]
async fn theme_and_times_are_remembered() {
    let Some(browser) = Browser::start().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let daemon = with_jobs(folder.path(), 3).await;
    browser.prefer("light").await;
    browser.open(&format!("{}/jobs", daemon.url)).await;
    browser.wait(IS_LIVE).await;
    let ground = "return getComputedStyle(document.body).backgroundColor";
    let light = browser.run(ground).await;
    let choose = |id: &str, value: &str| {
        format!(
            "const select = document.getElementById('{id}'); select.value = '{value}';
             select.dispatchEvent(new Event('change', {{ bubbles: true }}))"
        )
    };
    browser.run(&choose("theme", "dark")).await;
    browser.run(&choose("times", "utc")).await;
    let dark = browser.run(ground).await;
    assert_ne!(dark, light);
    browser
        .wait("return document.querySelector('time[data-ms]').textContent.endsWith(' UTC')")
        .await;
    // Scripts are off: it is the daemon that sets the theme.
    browser.scripts(false).await;
    browser.open(&format!("{}/nodes", daemon.url)).await;
    assert_eq!(browser.run(ground).await, dark);
    browser.scripts(true).await;
    browser.open(&format!("{}/jobs", daemon.url)).await;
    browser
        .wait("return document.querySelector('time[data-ms]').textContent.endsWith(' UTC')")
        .await;
    assert_eq!(browser.run("return document.getElementById('times').value").await, "utc");
    browser.run(&choose("theme", "")).await;
    assert_eq!(browser.run(ground).await, light);
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.quit().await;
}

/// On a narrow screen the header stays, and the section in it can be seen.
#[tokio::test]
async fn on_a_phone_the_header_and_the_bars_stay() {
    let Some(browser) = Browser::start().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let daemon = with_jobs(folder.path(), 3).await;
    browser.width(390).await;
    for page in
        ["/jobs", "/jobs?cycle=1", "/fairness", "/topology", "/nodes", "/errors/T002", "/nowhere"]
    {
        browser.open(&format!("{}{page}", daemon.url)).await;
        browser.wait("return document.querySelector('.top') !== null").await;
        let widths = "return [document.documentElement.scrollWidth, innerWidth].join()";
        assert_eq!(browser.run(widths).await, "390,390", "{page}");
    }
    browser.open(&format!("{}/nodes", daemon.url)).await;
    browser.wait(IS_LIVE).await;
    browser.run("document.body.style.minHeight = '3000px'; scrollTo(0, 600)").await;
    let stays = "const box = document.querySelector('.top').getBoundingClientRect();
        const here = document.querySelector('.top [aria-current]').getBoundingClientRect();
        return box.top === 0 && here.left >= 0 && here.right <= innerWidth";
    browser.wait(stays).await;
    browser.open(&format!("{}/jobs", daemon.url)).await;
    let bars = "return document.querySelector('#live .stack .w-bar svg').getBoundingClientRect().width > 20";
    browser.wait(bars).await;
    browser.quit().await;
}
