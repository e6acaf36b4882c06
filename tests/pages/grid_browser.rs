//! The page of the grid in a real browser, and the same facts by the command line.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::support::browser::Browser;
use crate::support::daemon::{CONFIG, Daemon, apportion};
use crate::support::up::Up;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// Files for a look at the page, where the test is asked for them: `APPORTION_PICTURES=DIR`.
async fn picture(browser: &Browser, name: &str) {
    if let Some(folder) = std::env::var_os("APPORTION_PICTURES") {
        let path = std::path::Path::new(&folder).join(format!("{name}.png.base64"));
        fs::write(path, browser.picture(1600).await).unwrap();
    }
}

fn asked(args: &[&str]) -> String {
    let output = apportion(args);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(output.stderr));
    text(output.stdout)
}

/// The clusters, by name.
async fn cluster(router: &Daemon, name: &str) -> Value {
    let grid = router.get("/v1/grid").await;
    let clusters = grid["clusters"].as_array().unwrap();
    clusters.iter().find(|it| it["cluster"] == name).unwrap().clone()
}

/// A router with the cluster of an `up`, and with one that is never there.
fn router(folder: &std::path::Path, up: &Up) -> Daemon {
    let token = folder.join("lyon.token");
    fs::write(&token, &up.token).unwrap();
    fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let config = format!(
        "{CONFIG}\n[orchestrator]\nenabled = true\nstate = '{}'\npublish_every = '20ms'\n\
         [grid]\npass_every = '200ms'\nresource = '64MB'\n\
         [[cluster]]\nname = 'lyon'\nurl = '{}'\ntoken_file = '{}'\n\
         [[cluster]]\nname = 'nancy'\nurl = 'http://127.0.0.1:1'\n",
        folder.join("orchestrator.db").display(),
        up.orchestrator,
        token.display(),
    );
    Daemon::start(folder, &config)
}

#[tokio::test]
async fn the_grid_is_on_a_page_and_in_lines() {
    let up = Up::start();
    let folder = tempfile::tempdir().unwrap();
    let router = router(folder.path(), &up);
    let name = Command::new("id").arg("-un").output().unwrap();
    let user = String::from_utf8(name.stdout).unwrap().trim().to_owned();
    let submit = |tasks: u64, sleep: &str| {
        json!({
            "user": user, "shell": format!("sleep {sleep}"), "tasks": tasks, "memory": "64MB",
            "cwd": up.folder.path(), "max": 4,
        })
    };
    // Batches of forwarded tasks take numbers too: the second campaign is not always campaign 2.
    let mut ids = Vec::new();
    for body in [submit(8, "0.2"), submit(3, "1000")] {
        let answer = router.send(Method::POST, "/v1/campaigns", &body).await;
        let (status, answer) = (answer.status(), answer.json::<Value>().await.unwrap());
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        ids.push(answer["id"].to_string());
    }
    let [short, long] = &ids[..] else { panic!("{ids:?}") };
    let path = format!("/v1/campaigns/{short}");
    router.get_until(&path, |it| it["campaign"]["state"] == "done").await;
    let away = |it: &Value| it["campaign"]["away"]["lyon"] == 3;
    router.get_until(&format!("/v1/campaigns/{long}"), away).await;
    while cluster(&router, "lyon").await["running"] != 3 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let url = router.url.as_str();
    let shown = asked(&["campaign", "show", long, "--orchestrator", url]);
    assert!(shown.contains("0 in slots, 3 on other clusters (lyon 3), 0 queued"), "{shown}");
    let lines = asked(&["grid", "--orchestrator", url]);
    assert!(lines.contains("lyon") && lines.contains("3 running and 0 waiting tasks"), "{lines}");
    let nancy = lines.lines().find(|line| line.starts_with("nancy")).unwrap();
    assert!(nancy.contains("silent"), "{lines}");
    let history = router.get("/v1/grid/status").await;
    assert!(3 < history["passes"].as_array().unwrap().len(), "{history}");
    let forecasts = router.get(&format!("/v1/campaigns/{short}/forecasts")).await;
    let of_lyon = |it: &&Value| it["cluster"] == "lyon";
    assert!(
        forecasts["forecasts"].as_array().unwrap().iter().any(|it| of_lyon(&it)),
        "{forecasts}"
    );
    asked(&["grid", "out", "lyon", "--why", "new switches", "--orchestrator", url]);
    let out = cluster(&router, "lyon").await;
    assert_eq!(out["state"], "out");
    assert!(out["out_why"].as_str().unwrap().ends_with("new switches"), "{out}");
    let refused = apportion(&["grid", "out", "metz", "--orchestrator", url]);
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("there is no cluster metz; clusters are lyon, nancy"), "{told}");

    let Some(browser) = Browser::start().await else { return };
    for (scheme, width) in [("light", 1360), ("dark", 1360), ("light", 390), ("dark", 390)] {
        browser.prefer(scheme).await;
        browser.width(width).await;
        browser.open(&format!("{url}/grid")).await;
        let state = "document.querySelector('#cluster-lyon .state')?.textContent";
        browser.wait(&format!("return {state} === 'out'")).await;
        assert_eq!(browser.complaints().await, Vec::<String>::new());
        let script = "
            const pictures = [...document.querySelectorAll('svg')].filter((e) => !e.getAttribute('aria-label')
                && !e.getAttribute('aria-hidden'));
            const headers = [...document.querySelectorAll('th')].filter((e) => !e.scope);
            const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
            return [pictures.length, headers.length, wide]";
        assert_eq!(browser.run(script).await, json!([0, 0, false]), "{scheme} {width}");
        picture(&browser, &format!("grid-{scheme}-{width}")).await;
    }
    // A page that is only looked at changes.
    browser.run("window.isTheSame = true").await;
    asked(&["grid", "in", "lyon", "--orchestrator", url]);
    let state = "document.querySelector('#cluster-lyon .state').textContent";
    browser.wait(&format!("return window.isTheSame && {state} === 'in'")).await;
    browser.quit().await;
}
