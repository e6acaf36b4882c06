//! The dashboard in a real browser: no page complains, pages follow events, filters and acts work
//! by hand.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test's panic is its failure")]

use crate::support::daemon;
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::browser::Browser;
use crate::support::daemon::{CONFIG, Daemon, job};
use reqwest::Method;
use serde_json::{Value, json};

/// The demo as a stranger starts it. It ends with the test, however that ends.
struct Demo {
    process: Child,
    /// Address of the dashboard, as the demo prints it.
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

const PAGES: [&str; 17] = [
    "/",
    "/topology",
    "/topology?by=use",
    "/fairness",
    "/topology?user=ann",
    "/jobs",
    "/jobs/7",
    "/classes",
    "/classes/normal",
    "/users",
    "/users/eve",
    "/nodes",
    "/node/mid03",
    "/calendar",
    "/reservations",
    "/events",
    "/config",
];

const IS_LIVE: &str = "return document.getElementById('pulse').className === 'pulse on'";

#[tokio::test]
async fn the_dashboard_lives_in_a_browser() {
    let Some(browser) = Browser::start().await else { return };
    let demo = Demo::start();
    // Eve's work waits for ever, so her page stays.
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

/// Checks the needs of screen readers and keyboards.
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
    browser
        .wait("return / of .* requests/.test(document.querySelector('#said').textContent)")
        .await;
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

    // Another client takes a node out while the map is open.
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

/// A page tells its reader that the daemon is gone.
async fn says_that_it_is_lost(browser: &Browser, demo: Demo) {
    drop(demo);
    let banner = "const banner = document.getElementById('banner'); return !banner.hidden && banner.textContent";
    let told = browser.wait(banner).await;
    assert!(told.as_str().unwrap().contains("does not answer any more"), "{told}");
}

/// A user with a token gets in. The form returns once the token is worth nothing, or by a button.
#[tokio::test]
async fn one_logs_in_and_out() {
    let Some(browser) = Browser::start().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    let token = |name: &str, role: &[&str]| {
        let args = [&["token", "new", "--name", name, "--role"], role].concat();
        let made = String::from_utf8(daemon::apportion(&args).stdout).unwrap();
        let found = |start: &str| {
            let line = made.lines().map(str::trim).find(|line| line.starts_with(start));
            line.unwrap_or_else(|| panic!("{made}")).to_owned()
        };
        (found("apn_"), found(&format!("{name} ")))
    };
    let [ann, bea] = ["ann", "bea"].map(|name| token(name, &["reader"]));
    let agent = token("rack", &["agent", "--node", "n[1-2]"]);
    let orchestrator = token("ducc", &["orchestrator"]);
    let write = |tokens: &[&(String, String)]| {
        let lines: Vec<&str> = tokens.iter().map(|(_, line)| line.as_str()).collect();
        std::fs::write(&file, lines.join("\n")).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    };
    write(&[&ann, &bea, &agent, &orchestrator]);
    let access = format!("[daemon.access]\ntokens = '{}'\n\n[scheduler]", file.display());
    let daemon = Daemon::start(folder.path(), &CONFIG.replace("[scheduler]", &access));
    let show = async |token: &str| {
        let script =
            "document.getElementById('token').value = TOKEN; document.forms[0].requestSubmit()";
        browser.run(&script.replace("TOKEN", &json!(token).to_string())).await;
    };
    let at_form = "return location.pathname === '/login'";
    browser.open(&format!("{}/jobs?user=ann", daemon.url)).await;
    browser.wait(at_form).await;
    show("apn_wrong").await;
    browser.wait("return document.body.innerText.includes('not valid')").await;
    show(&ann.0).await;
    browser.wait("return location.pathname + location.search === '/jobs?user=ann'").await;
    browser.wait(IS_LIVE).await;
    // A page that is open learns with the next news that its token was revoked.
    write(&[&bea, &agent, &orchestrator]);
    daemon.signal("HUP");
    daemon.logs("read again").await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let nodes = ["n1", "n2"].map(|node| json!({ "node": node, "memory_mb": 4096 }));
    let nodes = json!({ "nodes": nodes });
    let beat = client.post(format!("{}/v1/heartbeats", daemon.url)).bearer_auth(&agent.0);
    assert!(beat.json(&nodes).send().await.unwrap().status().is_success());
    let work = json!({ "sequence": 1, "work": [job(1, "ann", &[])] });
    let publish = client.put(format!("{}/v1/publication", daemon.url)).bearer_auth(&orchestrator.0);
    assert!(publish.json(&work).send().await.unwrap().status().is_success());
    browser.wait(at_form).await;
    show(&bea.0).await;
    browser.wait("return location.pathname === '/jobs'").await;
    browser.wait(IS_LIVE).await;
    // A reader sees no buttons for acts.
    for page in ["/nodes", "/node/n1", "/nodes/vary?way=off&nodes=n1&reason=x"] {
        browser.open(&format!("{}{page}", daemon.url)).await;
        browser.wait("return document.querySelector('main h1') !== null").await;
        let offered =
            browser.run("return document.querySelectorAll('main [name=way]').length").await;
        assert_eq!(offered, 0, "{page}");
    }
    browser.run("document.querySelector('.top button').click()").await;
    browser.wait(at_form).await;
    browser.open(&format!("{}/nodes", daemon.url)).await;
    browser.wait(at_form).await;
    browser.quit().await;
}

/// A link under the pointer stays the same link when a row is inserted above it.
#[tokio::test]
async fn a_focused_link_stays_what_it_is() {
    let Some(browser) = Browser::start().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), CONFIG);
    daemon.nodes("n1=4").await;
    // The node has space for ann too.
    let mut bob = job(2, "bob", &[]);
    bob["remaining"] = json!(1);
    daemon.publish(1, std::slice::from_ref(&bob)).await;
    daemon.schedule_when(|schedule| daemon::shares(schedule, 2, "shares").len() == 1).await;
    for (page, sequence) in [("/users", 2), ("/", 4), ("/topology", 6)] {
        let link = "#live a[href$='bob']";
        browser.open(&format!("{}{page}", daemon.url)).await;
        browser.wait(&format!("return document.querySelector(\"{link}\") !== null")).await;
        browser.run(&format!("document.querySelector(\"{link}\").focus()")).await;
        // Ann comes before bob.
        daemon.publish(sequence, &[bob.clone(), job(1, "ann", &[])]).await;
        browser.wait("return document.querySelector(\"#live a[href$='ann']\") !== null").await;
        let href = browser.run("return document.activeElement.getAttribute('href')").await;
        assert!(href.as_str().is_some_and(|href| href.ends_with("bob")), "{page}: {href}");
        daemon.publish(sequence + 1, std::slice::from_ref(&bob)).await;
        browser.wait("return document.querySelector(\"#live a[href$='ann']\") === null").await;
    }
    browser.quit().await;
}

/// A chart without a curve says why: scripts are off, or there is too little to draw yet. Until that
/// is known it says nothing.
#[tokio::test]
async fn a_chart_without_a_curve_says_why() {
    let Some(browser) = Browser::start().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), CONFIG);
    let charts = format!("{}/classes/normal", daemon.url);
    let said = "return getComputedStyle(document.querySelector('.chart'), '::after').content";
    browser.scripts(false).await;
    browser.open(&charts).await;
    // The daemon has only just started, and the page comes by itself.
    browser.wait("return document.querySelector('.chart') !== null").await;
    let without = browser.run(said).await;
    assert!(without.as_str().unwrap().contains("need JavaScript"), "{without}");
    browser.scripts(true).await;
    // Removes the history as if the daemon had just started: on a slow machine it has a second
    // sample by now.
    browser
        .before_scripts(
            "const ask = window.fetch;
             window.fetch = async (url, ...rest) => {
                 const answer = await ask(url, ...rest);
                 if (!String(url).includes('/history')) return answer;
                 const { at_ms, curves } = await answer.json();
                 const first = ({ label, memory_mb }) => ({ label, memory_mb: memory_mb.slice(0, 1) });
                 return Response.json({ at_ms: at_ms.slice(0, 1), curves: curves.map(first) });
             }",
        )
        .await;
    browser.open(&charts).await;
    browser.wait(&format!("{said}.includes('second sample')")).await;
    // The state before the first answer.
    let unknown = format!("delete document.querySelector('.chart').dataset.few; {said}");
    assert_eq!(browser.run(&unknown).await, "none");
    browser.quit().await;
}

/// No page is wider than a narrow screen: wide tables scroll in themselves.
#[tokio::test]
async fn pages_fit_a_narrow_screen() {
    let Some(browser) = Browser::start().await else { return };
    let demo = Demo::start();
    wait_for_work(&demo).await;
    browser.width(360).await;
    for page in PAGES {
        browser.open(&format!("{}{page}", demo.url)).await;
        browser.wait(IS_LIVE).await;
        let widths = "return [document.documentElement.scrollWidth, innerWidth]";
        assert_eq!(browser.run(widths).await, json!([360, 360]), "{page}");
    }
    browser.quit().await;
}

/// A large map is not asked for again: the nodes that changed are laid over it.
#[tokio::test]
async fn a_large_map_follows_without_being_sent_again() {
    let Some(browser) = Browser::start().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), CONFIG);
    let nodes: Vec<String> = (0..450).map(|number| format!("n{number:03}=4")).collect();
    daemon.nodes(&nodes.join(" ")).await;
    daemon.publish(1, &[job(1, "ann", &[])]).await;
    daemon.schedule_when(|schedule| daemon::shares(schedule, 1, "shares").len() > 500).await;
    browser.open(&format!("{}/topology", daemon.url)).await;
    browser.wait(IS_LIVE).await;
    browser.wait("return document.querySelector('.map[data-tag] svg[data-names]') !== null").await;
    // The page may be complete if the cluster became quiet meanwhile.
    tokio::time::sleep(Duration::from_secs(2)).await;
    browser.run("performance.clearResourceTimings()").await;
    daemon.vary_off("n007").await;
    browser.wait("return document.querySelector('#map-0 #t-0-7 .node.off') !== null").await;
    let told = "return [...document.querySelectorAll('#below li')].some((li) => /varied-off\\s*1\\b/.test(li.textContent))";
    browser.wait(told).await;
    // Once more, over what lies there.
    let body = json!({ "nodes": ["n007"] });
    daemon.send(Method::POST, "/v1/nodes/vary-on", &body).await;
    browser.wait("return document.querySelector('#map-0 #t-0-7 .node.up') !== null").await;
    let asked =
        "return performance.getEntriesByType('resource').map((one) => new URL(one.name).pathname)
         .filter((path) => path.startsWith('/topology'))";
    let asked = browser.run(asked).await;
    let asked: Vec<&str> = asked.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(
        !asked.is_empty() && asked.iter().all(|path| *path == "/topology/changes"),
        "{asked:?}"
    );
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    check_for_readers(&browser, "/topology of 450 nodes").await;
    browser.quit().await;
}

/// Writes a picture of every page to `target/screenshots`, to be looked at:
/// `cargo test --test system browser:: -- --ignored pictures`.
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

const LARGE_PAGES: [&str; 7] =
    ["/", "/topology", "/topology?user=user07", "/jobs", "/nodes", "/users", "/classes"];

/// 5,000 nodes in two pools and 10,000 jobs of 24 users: pictures of the pages with much to show,
/// beside pictures of the demo, and their sizes: `cargo test --test system browser:: -- --ignored
/// five_thousand --nocapture`.
#[tokio::test]
#[ignore = "makes pictures, for people"]
async fn pictures_of_five_thousand_nodes() {
    let Some(browser) = Browser::start().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &large_config());
    let nodes: Vec<Value> = (1..=5_000).map(large_node).collect();
    let answer = daemon.send(Method::POST, "/v1/heartbeats", &json!({ "nodes": nodes })).await;
    assert!(answer.status().is_success());
    let work: Vec<Value> = (1..=10_000).map(large_work).collect();
    daemon.publish(1, &work).await;
    daemon.cycle(1).await;
    for node in ["c[0101-0140]", "c3333", "g[0040-0042]"] {
        daemon.vary_off(node).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for page in LARGE_PAGES.into_iter().chain(["/events", "/node/c0001", "/jobs/1"]) {
        let ask = || client.get(format!("{}{page}", daemon.url));
        let started = Instant::now();
        let whole = ask().send().await.unwrap().bytes().await.unwrap().len();
        let took = started.elapsed();
        let packed = ask().header("accept-encoding", "gzip").send().await.unwrap();
        let packed = packed.bytes().await.unwrap().len();
        eprintln!("{page}: {whole} bytes, packed {packed}, after {took:?}");
    }
    for scheme in ["light", "dark"] {
        browser.prefer(scheme).await;
        for page in LARGE_PAGES {
            browser.open(&format!("{}{page}", daemon.url)).await;
            tokio::time::sleep(Duration::from_secs(3)).await;
            save(&format!("{scheme}-5000"), page, &browser.picture(1_800).await);
        }
    }
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.quit().await;
}

/// Two pools; nodes that report once live for long, and cycles leave room for what looks on.
fn large_config() -> String {
    let slow = "cycle_period = \"2s\"\nheartbeat_interval = \"1h\"";
    let config = CONFIG.replace("cycle_period = \"10ms\"", slow);
    let config = config.replace("quantum = \"1GB\"", "quantum = \"15GB\"");
    format!(
        "{config}default = true\n\n[[nodepool]]\nname = \"gpu\"\nparent = \"main\"\nnodes = [\"g[0001-0400]\"]\n
         [[class]]\nname = \"urgent\"\npolicy = \"fair-share\"\nnodepool = \"gpu\"\nweight = 300\n
         [[class]]\nname = \"services\"\npolicy = \"fixed-share\"\nnodepool = \"main\"\npriority = 5\n
         [[class]]\nname = \"whole\"\npolicy = \"reserve\"\nnodepool = \"main\"\npriority = 1\n"
    )
}

/// Nine of ten nodes are for all classes, in three sizes; some want no new work.
fn large_node(number: u64) -> Value {
    let name =
        if number <= 4_600 { format!("c{number:04}") } else { format!("g{:04}", number - 4_600) };
    let gib = if 4_600 < number {
        512
    } else {
        [64, 128, 128, 256][usize::try_from(number % 4).unwrap()]
    };
    json!({ "node": name, "memory_mb": gib << 10, "quiesced": number.is_multiple_of(411) })
}

/// Mostly jobs, some services, a few reservations; of many sizes.
fn large_work(id: u64) -> Value {
    let pick = |of: &[u64]| of[usize::try_from(id.wrapping_mul(7) >> 1).unwrap() % of.len()];
    let (kind, class) = match id {
        id if id.is_multiple_of(499) => ("reservation", "whole"),
        id if id.is_multiple_of(23) => ("service", "services"),
        id if id.is_multiple_of(5) => ("job", "urgent"),
        _ => ("job", "normal"),
    };
    let memory = if kind == "reservation" { 120 } else { pick(&[14, 28, 15, 60, 30]) };
    json!({
        "id": id, "kind": kind, "user": format!("user{:02}", id.wrapping_mul(11) % 24), "class": class,
        "state": "schedulable", "memory_mb": memory << 10, "remaining": pick(&[1, 4, 2, 9, 1, 6]),
        "submitted_ms": 1_700_000_000_000 + id,
    })
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
