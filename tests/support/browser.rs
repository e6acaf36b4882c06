//! A browser without a window, driven over `WebDriver`: JSON over HTTP, and no more of it than the
//! tests need.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A browser with a single page. The browser ends with the test, also if the test fails.
pub struct Browser {
    driver: Child,
    port: u16,
    client: Client,
    session: String,
    /// Files of the browser; gone with it.
    profile: TempDir,
}

impl Browser {
    /// Starts a browser; prints a note and returns `None` if none is installed. With
    /// `APPORTION_BROWSER=required` that is a failure.
    pub async fn start() -> Option<Browser> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(driver) = driver else {
            let is_required =
                std::env::var("APPORTION_BROWSER").is_ok_and(|word| word == "required");
            assert!(!is_required, "there is no chromedriver, and APPORTION_BROWSER=required");
            super::slot::say(
                "NOT TESTED: there is no chromedriver here (Debian: chromium, chromium-driver)",
            );
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let client = Client::builder().no_proxy().build().unwrap();
        let mut browser =
            Browser { driver, port, client, session: format!("http://127.0.0.1:{port}"), profile };
        while browser.client.get(format!("{}/status", browser.session)).send().await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let profile = browser.profile.path().display();
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--window-size=1360,900",
            &format!("--user-data-dir={profile}"),
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": args },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let session = browser.call("session", wanted).await;
        let id = session["sessionId"].as_str().unwrap();
        browser.session = format!("{}/session/{id}", browser.session);
        Some(browser)
    }

    async fn call(&self, path: &str, body: Value) -> Value {
        let request = self.client.post(format!("{}/{path}", self.session)).json(&body);
        let mut answer: Value = request.send().await.unwrap().json().await.unwrap();
        assert!(answer["value"]["error"].is_null(), "{path}: {}", answer["value"]["message"]);
        answer["value"].take()
    }

    /// Loads a page.
    pub async fn open(&self, url: &str) {
        self.call("url", json!({ "url": url })).await;
    }

    /// Runs a script on the page; returns its result.
    pub async fn run(&self, script: &str) -> Value {
        self.call("execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// Waits until a script on the page returns something true.
    pub async fn wait(&self, script: &str) -> Value {
        for _ in 0..600 {
            let value = self.run(script).await;
            if !matches!(value, Value::Null | Value::Bool(false)) {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!(
            "it never became true: {script}\n{}",
            self.run("return document.body.innerText").await
        );
    }

    /// Complaints of the page since the last call.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self.call("se/log", json!({ "type": "browser" })).await;
        let bad = log.as_array().unwrap().iter().filter(|line| line["level"] != "INFO");
        bad.map(|line| line["message"].as_str().unwrap().to_owned()).collect()
    }

    /// Pretends that the system is set to `dark` or `light`.
    pub async fn prefer(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let params = json!({ "features": features });
        self.call(
            "goog/cdp/execute",
            json!({ "cmd": "Emulation.setEmulatedMedia", "params": params }),
        )
        .await;
    }

    /// Has pages run scripts or not.
    pub async fn scripts(&self, run: bool) {
        let params = json!({ "value": !run });
        let call = json!({ "cmd": "Emulation.setScriptExecutionDisabled", "params": params });
        self.call("goog/cdp/execute", call).await;
    }

    /// Runs a script on every page that is loaded from now on, before the page's own.
    pub async fn before_scripts(&self, source: &str) {
        let params = json!({ "source": source });
        let call = json!({ "cmd": "Page.addScriptToEvaluateOnNewDocument", "params": params });
        self.call("goog/cdp/execute", call).await;
    }

    /// Pretends that the screen is so wide.
    pub async fn width(&self, width: u64) {
        let params =
            json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        let call = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": params });
        self.call("goog/cdp/execute", call).await;
    }

    /// The page from top to bottom, at most `height`, as a PNG in base64.
    pub async fn picture(&self, height: u64) -> String {
        let whole = self.run("return document.documentElement.scrollHeight").await;
        let height = whole.as_u64().unwrap().min(height);
        let clip = json!({ "x": 0, "y": 0, "width": 1360, "height": height, "scale": 1 });
        let params = json!({ "captureBeyondViewport": true, "clip": clip });
        let shot = json!({ "cmd": "Page.captureScreenshot", "params": params });
        self.call("goog/cdp/execute", shot).await["data"].as_str().unwrap().to_owned()
    }

    /// Ends it in good order.
    pub async fn quit(self) {
        let _ = self.client.delete(&self.session).send().await;
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Asked to end, the driver ends its browser first; killed, it leaves it behind.
        let asked = TcpStream::connect(("127.0.0.1", self.port)).and_then(|mut driver| {
            driver.set_read_timeout(Some(Duration::from_secs(10)))?;
            driver.write_all(b"GET /shutdown HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
            driver.read(&mut [0; 64])
        });
        if asked.is_err() {
            self.driver.kill().unwrap();
        }
        self.driver.wait().unwrap();
    }
}
