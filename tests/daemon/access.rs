//! Access rights with the real binary: every route of the served document, for every role and
//! without a token; the unix socket; TLS; the audit log.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::daemon::{CONFIG, Daemon};
use apportion::auth::{Role, Secret, has_route, new_line};
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Client, Method, Response, StatusCode};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, raw_sql};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A token for each role, an expired token, and a token that is revoked later.
struct Tokens {
    file: PathBuf,
    good: Vec<(Role, Secret)>,
    expired: Vec<(Role, Secret)>,
    revoked: Vec<(Role, Secret)>,
    lines: Vec<String>,
}

impl Tokens {
    fn make(folder: &Path) -> Tokens {
        let secrets = || Role::ALL.map(|role| (role, Secret::new().unwrap())).to_vec();
        let mut tokens = Tokens {
            file: folder.join("tokens"),
            good: secrets(),
            expired: secrets(),
            revoked: secrets(),
            lines: Vec::new(),
        };
        let line = |(role, secret): &(Role, Secret), what: &str, until: Option<&str>| {
            let nodes = (*role == Role::Agent).then_some("n[0-1]");
            let until = until.map(|until| until.parse().unwrap());
            new_line(secret, &format!("{what}-{role}"), *role, nodes, until).unwrap()
        };
        let good = tokens.good.iter().map(|token| line(token, "good", None));
        let long_ago = Some("2020-01-01T00:00:00Z");
        let expired = tokens.expired.iter().map(|token| line(token, "expired", long_ago));
        tokens.lines = good.chain(expired).collect();
        let revoked = tokens.revoked.iter().map(|token| line(token, "revoked", None));
        let all: Vec<String> = tokens.lines.iter().cloned().chain(revoked).collect();
        tokens.write(&all);
        tokens
    }

    /// Moved into place whole: the daemon may be reading it, for a signal or because it just started.
    fn write(&self, lines: &[String]) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, lines.join("\n")).unwrap();
        private(&new);
        std::fs::rename(&new, &self.file).unwrap();
    }

    fn of(&self, role: Role) -> &str {
        let found = self.good.iter().find(|(known, _)| *known == role);
        found.unwrap().1.reveal()
    }

    /// The file with the token of `role`, for the command line.
    fn file_of(&self, role: Role) -> String {
        let path = self.file.with_file_name(format!("{role}.token"));
        std::fs::write(&path, self.of(role)).unwrap();
        private(&path);
        path.display().to_string()
    }
}

fn private(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// The configuration with the settings `access` in `[daemon.access]`, and the settings `others`.
fn config(folder: &Path, access: &str, others: &str) -> String {
    let tokens = folder.join("tokens");
    let access = format!("[daemon.access]\ntokens = '{}'\n{access}\n{others}\n", tokens.display());
    CONFIG.replace("[scheduler]", &format!("{access}[scheduler]"))
}

fn client() -> Client {
    let policy = reqwest::redirect::Policy::none();
    Client::builder().no_proxy().redirect(policy).build().unwrap()
}

fn bearer(token: &str) -> HeaderMap {
    let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    HeaderMap::from_iter([(header::AUTHORIZATION, value)])
}

/// A route, with a request for it that would be understood.
struct Route {
    method: Method,
    path: String,
    body: Option<Value>,
    /// Roles that may use the route, written by hand and not taken from the table that decides.
    roles: Vec<Role>,
    /// Access as the document states it.
    documented: String,
}

impl Route {
    fn of(method: &str, documented: &str) -> Route {
        let path = documented.replace("{id}", "1").replace("{name}", "n1");
        let path = path.replace("{generation}", "1");
        let heartbeat = json!({ "node": "n1", "memory_mb": 1024 });
        let (roles, body) = match (method, documented) {
            ("post", "/v1/heartbeats") => (vec![Role::Agent], Some(heartbeat)),
            ("put", "/v1/publication") => {
                (vec![Role::Orchestrator], Some(json!({ "sequence": 1, "work": [] })))
            }
            ("post", "/v1/urgent") => (vec![Role::Orchestrator, Role::Operator], Some(json!({}))),
            ("post", _) => (vec![Role::Operator], Some(json!({}))),
            ("delete", _) => (vec![Role::Operator], None),
            _ => (vec![Role::Reader, Role::Orchestrator, Role::Submitter, Role::Operator], None),
        };
        let method = method.to_uppercase().parse().unwrap();
        Route { method, path, body, roles, documented: documented.to_owned() }
    }

    async fn ask(&self, client: &Client, url: &str, headers: HeaderMap) -> Response {
        let request = client.request(self.method.clone(), format!("{url}{}", self.path));
        let request = request.headers(headers);
        let request = match &self.body {
            Some(body) => request.json(body),
            None => request,
        };
        request.send().await.unwrap()
    }
}

/// Every route of the served document, except routes that need no token.
async fn routes(client: &Client, url: &str, tokens: &Tokens) -> Vec<Route> {
    let document =
        client.get(format!("{url}/openapi.json")).headers(bearer(tokens.of(Role::Reader)));
    let document: Value = document.send().await.unwrap().json().await.unwrap();
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let is_in_table = has_route(&method.to_uppercase(), path);
            assert!(is_in_table, "{method} {path} is left to the rule for strangers");
            let is_open = ["/livez", "/readyz", "/healthz"].contains(&path.as_str());
            assert_eq!(operation["security"] == json!([]), is_open, "{method} {path}");
            for status in ["401", "403", "429"] {
                assert!(is_open || operation["responses"][status].is_object(), "{path} {status}");
            }
            routes.extend((!is_open).then(|| Route::of(method, path)));
        }
    }
    routes.push(Route::of("get", "/openapi.json"));
    routes
}

/// An unknown caller gets the same words for every request.
async fn assert_refused(answer: Response, status: StatusCode, what: &str) {
    assert_eq!(answer.status(), status, "{what}");
    let challenge = answer.headers().get(header::WWW_AUTHENTICATE).is_some();
    assert_eq!(challenge, status == StatusCode::UNAUTHORIZED, "{what}");
    let (code, title, detail) = match status {
        StatusCode::UNAUTHORIZED => {
            ("T009", "not known", "say who you are: with a token, or at the unix socket")
        }
        _ => ("T010", "not allowed", "this is for others"),
    };
    let expected = json!({
        "type": format!("/errors/{code}"), "title": title, "status": status.as_u16(),
        "detail": detail, "code": code,
    });
    assert_eq!(answer.json::<Value>().await.unwrap(), expected, "{what}");
}

#[tokio::test]
async fn every_route_obeys_the_table_of_roles() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::make(folder.path());
    let daemon = Daemon::start(folder.path(), &config(folder.path(), "", ""));
    let (client, url) = (client(), daemon.url.clone());
    let routes = routes(&client, &url, &tokens).await;
    assert!(20 < routes.len());

    // All is as it should be while they hold; then some are revoked.
    let session = log_in(&client, &url, tokens.revoked[3].1.reveal()).await;
    for route in &routes {
        for (role, secret) in tokens.good.iter().filter(|(role, _)| route.roles.contains(role)) {
            let answer = route.ask(&client, &url, bearer(secret.reveal())).await;
            let is_refused = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
            let (status, path) = (answer.status(), &route.documented);
            assert!(!is_refused.contains(&status), "{role} {path}: {status}");
        }
    }
    let nodes = Route::of("get", "/v1/nodes");
    for (_, secret) in tokens.revoked.iter().filter(|(role, _)| *role != Role::Agent) {
        let answer = nodes.ask(&client, &url, bearer(secret.reveal())).await;
        assert_eq!(answer.status(), StatusCode::OK, "not revoked yet");
    }
    assert_eq!(nodes.ask(&client, &url, session.clone()).await.status(), StatusCode::OK);
    tokens.write(&tokens.lines);
    daemon.signal("HUP");
    // The tokens were read before, too, when an operator applied the configuration.
    daemon.logs(&format!("\"{} tokens\"", tokens.lines.len())).await;

    let mut cells = 0;
    for route in &routes {
        let basic = HeaderValue::from_static("Basic cm9vdDpyb290");
        let unknown = Secret::new().unwrap();
        let prefix = &tokens.of(Role::Operator)[..67];
        let sum = format!("{}", tokens.good[3].1.sum());
        let mut strangers = vec![
            ("absent".to_owned(), HeaderMap::new()),
            ("basic".to_owned(), HeaderMap::from_iter([(header::AUTHORIZATION, basic)])),
            ("unknown".to_owned(), bearer(unknown.reveal())),
            ("cut short".to_owned(), bearer(prefix)),
            ("the sum, not the secret".to_owned(), bearer(&sum)),
            ("a session that ended with its token".to_owned(), session.clone()),
        ];
        let worthless = tokens.expired.iter().map(|(role, secret)| ("expired", role, secret));
        let revoked = tokens.revoked.iter().map(|(role, secret)| ("revoked", role, secret));
        for (what, role, secret) in worthless.chain(revoked) {
            strangers.push((format!("{what} {role}"), bearer(secret.reveal())));
        }
        for (what, headers) in strangers {
            let what = format!("{what}: {} {}", route.method, route.documented);
            let answer = route.ask(&client, &url, headers).await;
            assert_refused(answer, StatusCode::UNAUTHORIZED, &what).await;
            cells += 1;
        }
        for (role, secret) in tokens.good.iter().filter(|(role, _)| !route.roles.contains(role)) {
            let what = format!("{role}: {} {}", route.method, route.documented);
            let answer = route.ask(&client, &url, bearer(secret.reveal())).await;
            assert_refused(answer, StatusCode::FORBIDDEN, &what).await;
            cells += 1;
        }
    }
    assert!(300 < cells, "{cells}");
    // Only a known caller learns that a route does not exist.
    let nowhere = Route::of("get", "/v1/nowhere");
    let answer = nowhere.ask(&client, &url, HeaderMap::new()).await;
    assert_refused(answer, StatusCode::UNAUTHORIZED, "nowhere").await;
    let answer = nowhere.ask(&client, &url, bearer(tokens.of(Role::Agent))).await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    // Open routes answer every caller; details are for readers.
    let live = Route::of("get", "/livez");
    assert_eq!(live.ask(&client, &url, HeaderMap::new()).await.text().await.unwrap(), "ok");
    let verbose = Route { path: "/readyz?verbose".to_owned(), ..Route::of("get", "/readyz") };
    let answer = verbose.ask(&client, &url, HeaderMap::new()).await;
    assert_refused(answer, StatusCode::UNAUTHORIZED, "verbose").await;
}

/// Shows a token to the form and takes the cookie.
async fn log_in(client: &Client, url: &str, token: &str) -> HeaderMap {
    let answer = client.post(format!("{url}/login"));
    let form = "application/x-www-form-urlencoded";
    let answer = answer.header(header::CONTENT_TYPE, form);
    let answer = answer.body(format!("token={token}&next=/v1/nodes")).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    assert_eq!(answer.headers()[header::LOCATION], "/v1/nodes");
    let cookie = answer.headers()[header::SET_COOKIE].to_str().unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(token));
    let pair = HeaderValue::from_str(cookie.split(';').next().unwrap()).unwrap();
    HeaderMap::from_iter([(header::COOKIE, pair)])
}

#[tokio::test]
async fn a_browser_logs_in_once_and_no_other_page_can_use_that() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::make(folder.path());
    let daemon = Daemon::start(folder.path(), &config(folder.path(), "", ""));
    let (client, url) = (client(), daemon.url.clone());
    let nodes = Route { path: "/v1/nodes?state=x".to_owned(), ..Route::of("get", "/v1/nodes") };
    let page = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static("text/html"))]);
    let answer = nodes.ask(&client, &url, page).await;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    assert_eq!(answer.headers()[header::LOCATION], "/login?next=%2Fv1%2Fnodes%3Fstate%3Dx");
    let form = client.get(format!("{url}/login?next=%22%3E%3Cscript%3E")).send().await.unwrap();
    let form = form.text().await.unwrap();
    assert!(form.contains("type=\"password\"") && !form.contains("<script>"), "{form}");
    let wrong = client.post(format!("{url}/login"));
    let wrong = wrong.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    let wrong = wrong.body("token=apn_0").send().await.unwrap();
    assert_eq!(wrong.status(), StatusCode::FORBIDDEN);
    assert!(wrong.headers().get(header::SET_COOKIE).is_none());

    daemon_reports(&client, &url, &tokens).await;
    let session = log_in(&client, &url, tokens.of(Role::Operator)).await;
    let body = json!({ "nodes": ["n1"], "reason": "a test", "dry_run": true });
    let off = Route { body: Some(body), ..Route::of("post", "/v1/nodes/vary-off") };
    for (origin, fetch, expected) in [
        (url.as_str(), "same-origin", StatusCode::OK),
        ("https://evil.example", "cross-site", StatusCode::FORBIDDEN),
        ("https://evil.example", "none", StatusCode::FORBIDDEN),
        (url.as_str(), "same-site", StatusCode::FORBIDDEN),
    ] {
        let mut headers = session.clone();
        headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
        headers.insert("sec-fetch-site", HeaderValue::from_str(fetch).unwrap());
        assert_eq!(off.ask(&client, &url, headers).await.status(), expected, "{origin} {fetch}");
    }
    let readers = log_in(&client, &url, tokens.of(Role::Reader)).await;
    assert_refused(off.ask(&client, &url, readers).await, StatusCode::FORBIDDEN, "reader").await;

    let nodes = Route::of("get", "/v1/nodes");
    assert_eq!(nodes.ask(&client, &url, session.clone()).await.status(), StatusCode::OK);
    let logout = client.post(format!("{url}/logout")).headers(session.clone());
    assert_eq!(logout.send().await.unwrap().status(), StatusCode::SEE_OTHER);
    let answer = nodes.ask(&client, &url, session).await;
    assert_refused(answer, StatusCode::UNAUTHORIZED, "logged out").await;
}

/// The nodes `n0` and `n1` report.
async fn daemon_reports(client: &Client, url: &str, tokens: &Tokens) {
    let nodes = ["n0", "n1"].map(|node| json!({ "node": node, "memory_mb": 1024 }));
    let beat = Route::of("post", "/v1/heartbeats");
    let beat = Route { body: Some(json!({ "nodes": nodes })), ..beat };
    let answer = beat.ask(client, url, bearer(tokens.of(Role::Agent))).await;
    assert_eq!(answer.status(), StatusCode::ACCEPTED);
    for _ in 0..2_000 {
        let nodes = Route::of("get", "/v1/nodes/n1");
        let answer = nodes.ask(client, url, bearer(tokens.of(Role::Operator))).await;
        if answer.status() == StatusCode::OK {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the node was never known");
}

/// Also with other spellings of a foreign name, and with names close to the agent's own.
#[tokio::test]
async fn an_agent_speaks_for_its_own_nodes_only() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::make(folder.path());
    let daemon = Daemon::start(folder.path(), &config(folder.path(), "", ""));
    let (client, url) = (client(), daemon.url.clone());
    let send = |body: Value| {
        let beat = Route { body: Some(body), ..Route::of("post", "/v1/heartbeats") };
        let (client, url) = (client.clone(), url.clone());
        let headers = bearer(tokens.of(Role::Agent));
        async move { beat.ask(&client, &url, headers).await }
    };
    let beat = |node: &str| json!({ "node": node, "memory_mb": 1024 });
    for other in ["n2", "N1", "n1.", "n11", "n"] {
        assert_refused(send(beat(other)).await, StatusCode::FORBIDDEN, other).await;
        let batch = json!({ "nodes": [beat(other)] });
        assert_refused(send(batch).await, StatusCode::FORBIDDEN, other).await;
    }
    let mixed = send(json!({ "nodes": [beat("n1"), beat("n2")] })).await;
    assert_eq!(mixed.status(), StatusCode::ACCEPTED);
    let mixed: Value = mixed.json().await.unwrap();
    assert_eq!((&mixed["accepted"], &mixed["refused"][0]["code"]), (&json!(1), &json!("T010")));
    assert_eq!(mixed["refused"][0]["pointer"], "/nodes/1/node");
    let nodes = Route::of("get", "/v1/nodes/n2");
    let answer = nodes.ask(&client, &url, bearer(tokens.of(Role::Reader))).await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn only_a_caller_over_its_rate_waits() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::make(folder.path());
    let slow = "[daemon.limits]\nreader_rate = 1";
    let daemon = Daemon::start(folder.path(), &config(folder.path(), "", slow));
    let (client, url) = (client(), daemon.url.clone());
    let nodes = Route::of("get", "/v1/nodes");
    let mut statuses = BTreeSet::new();
    for _ in 0..10 {
        let answer = nodes.ask(&client, &url, bearer(tokens.of(Role::Reader))).await;
        if answer.status() == StatusCode::TOO_MANY_REQUESTS {
            assert!(answer.headers().contains_key(header::RETRY_AFTER));
        }
        statuses.insert(answer.status());
    }
    assert_eq!(statuses, BTreeSet::from([StatusCode::OK, StatusCode::TOO_MANY_REQUESTS]));
    let answer = nodes.ask(&client, &url, bearer(tokens.of(Role::Operator))).await;
    assert_eq!(answer.status(), StatusCode::OK);

    // And an operator sees who it was; strangers and what is not allowed are counted too.
    nodes.ask(&client, &url, HeaderMap::new()).await;
    nodes.ask(&client, &url, bearer(tokens.of(Role::Agent))).await;
    let clients = Route::of("get", "/v1/clients");
    let answer = clients.ask(&client, &url, bearer(tokens.of(Role::Operator))).await;
    let list: Value = answer.json().await.unwrap();
    let of = |name: &str| {
        let mut clients = list["clients"].as_array().unwrap().iter();
        clients.find(|one| one["client"] == name).unwrap_or_else(|| panic!("no {name} in {list}"))
    };
    let reader = of("good-reader");
    assert_eq!((&reader["role"], &reader["address"]), (&json!("reader"), &json!("127.0.0.1")));
    assert!(reader["requests"] == 10 && 0 < reader["limited"].as_u64().unwrap(), "{reader}");
    assert_eq!(reader["refused"], 0);
    for name in ["-", "good-agent"] {
        assert_eq!((&of(name)["requests"], &of(name)["refused"]), (&json!(1), &json!(1)), "{list}");
    }
}

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_apportion"));
    command.args(args).env_remove("APPORTION_TOKEN_FILE").env_remove("APPORTION_CA");
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

async fn start_with_all(folder: &TempDir) -> (Tokens, Daemon, String) {
    let path = folder.path();
    let tokens = Tokens::make(path);
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls");
    for file in ["one.pem", "one.key"] {
        std::fs::copy(fixtures.join(file), path.join(file)).unwrap();
        private(&path.join(file));
    }
    let access = format!(
        "certificate = '{0}/one.pem'\nkey = '{0}/one.key'\nsocket = '{0}/admin.sock'",
        path.display()
    );
    let daemon = Daemon::start(path, &config(path, &access, ""));
    daemon.logs("admin.sock").await;
    let url = daemon.url.replace("http://127.0.0.1", "https://localhost");
    (tokens, daemon, url)
}

/// A node is elsewhere than its daemon, so its agent comes by TLS or not at all.
#[tokio::test]
async fn an_agent_comes_by_tls_with_the_token_of_its_node() {
    let folder = tempfile::tempdir().unwrap();
    let (tokens, _daemon, url) = start_with_all(&folder).await;
    let ca = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls/ca.pem");
    let ca = ca.display().to_string();
    let token = tokens.file_of(Role::Agent);
    let socket = format!("unix://{}/admin.sock", folder.path().display());
    let agent = |args: &[&str]| run(&[&["agent", "--once", "--token-file", &token], args].concat());
    for (args, status, says) in [
        (vec!["--node", "n1", "--url", &url, "--ca", &ca], 0, "n1: offers"),
        (vec!["--node", "n1", "--url", &socket], 0, "n1: offers"),
        (vec!["--node", "n9", "--url", &url, "--ca", &ca], 4, "another node than"),
        (vec!["--node", "n1", "--url", &url], 1, "--ca"),
        (vec!["--node", "n1", "--url", "http://head.example"], 1, "unencrypted"),
    ] {
        let said = agent(&args);
        let text = text(&said);
        assert!(said.status.code() == Some(status) && text.contains(says), "{args:?}: {text}");
    }
}

/// Counts the connections that lead through it to `to`.
async fn counting_way(to: &str) -> (u16, Arc<AtomicUsize>) {
    let (to, count) = (to.to_owned(), Arc::new(AtomicUsize::new(0)));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let (port, counted) = (listener.local_addr().unwrap().port(), Arc::clone(&count));
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut far = TcpStream::connect(&to).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
        }
    });
    (port, count)
}

/// A handshake for each heartbeat would cost more than the heartbeat.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_keeps_its_tls_connection() {
    let folder = tempfile::tempdir().unwrap();
    let (tokens, daemon, _) = start_with_all(&folder).await;
    let (port, connections) = counting_way(daemon.url.trim_start_matches("http://")).await;
    let ca = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls/ca.pem");
    let url = format!("https://localhost:{port}");
    let mut agent = Command::new(env!("CARGO_BIN_EXE_apportion"))
        .args(["agent", "--node", "n1", "--interval", "1s", "--url", &url, "--ca"])
        .arg(ca)
        .args(["--token-file", &tokens.file_of(Role::Agent)])
        .spawn()
        .unwrap();
    let heard = |text: &str| {
        let accepted = "apportion_heartbeats_total{result=\"accepted\"}";
        let line = text.lines().find(|line| line.starts_with(accepted));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).unwrap_or(0.0)
    };
    let socket = folder.path().join("admin.sock");
    let metrics = Client::builder().unix_socket(socket).build().unwrap();
    let token = bearer(tokens.of(Role::Reader));
    let began = Instant::now();
    loop {
        let asked = metrics.get("http://localhost/metrics").headers(token.clone()).send();
        let text = asked.await.unwrap().text().await.unwrap();
        if heard(&text) >= 4.0 {
            break;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "{text}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn by_tls_and_at_the_socket_the_command_line_does_what_its_user_may() {
    let folder = tempfile::tempdir().unwrap();
    let (tokens, _daemon, url) = start_with_all(&folder).await;
    let ca = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls/ca.pem");
    let ca = ca.display().to_string();
    let socket = format!("unix://{}/admin.sock", folder.path().display());
    let (reader, operator) = (tokens.file_of(Role::Reader), tokens.file_of(Role::Operator));
    let by_tls = ["--url", &url, "--ca", &ca, "--token-file"];
    let with = |args: &[&str], token: &str| run(&[args, &by_tls, &[token]].concat());

    let off = ["node", "vary-off", "n1", "--reason", "disk", "--yes"];
    let plan = folder.path().join("apportion.toml").display().to_string();
    let apply = ["config", "apply", plan.as_str(), "--yes"];
    assert_eq!(with(&["nodes"], &reader).status.code(), Some(0));
    assert_eq!(with(&apply, &reader).status.code(), Some(4));
    assert_eq!(
        with(&apply, &operator).status.code(),
        Some(0),
        "{}",
        text(&with(&apply, &operator))
    );
    let nobody = run(&["nodes", "--url", &url, "--ca", &ca]);
    assert_eq!(nobody.status.code(), Some(4));
    assert!(text(&nobody).contains("APPORTION_TOKEN_FILE"), "{}", text(&nobody));
    let untrusted = run(&["nodes", "--url", &url]);
    assert!(text(&untrusted).contains("--ca"), "{}", text(&untrusted));
    let unencrypted = run(&["nodes", "--url", &url.replace("https", "http")]);
    assert_eq!(unencrypted.status.code(), Some(3), "{}", text(&unencrypted));
    let sent = run(&["nodes", "--url", "http://head.example", "--token-file", &reader]);
    assert!(text(&sent).contains("unencrypted"), "{}", text(&sent));

    // The user who runs the daemon is an operator at its socket, without a token, but no agent.
    assert_eq!(run(&["nodes", "--url", &socket]).status.code(), Some(0));
    let unknown = run(&[&off[..], &["--url", &socket]].concat());
    assert_eq!(unknown.status.code(), Some(5), "{}", text(&unknown));
    let local = Client::builder().unix_socket(folder.path().join("admin.sock")).build().unwrap();
    let beat = Route::of("post", "/v1/heartbeats");
    let answer = beat.ask(&local, "http://localhost", HeaderMap::new()).await;
    assert_refused(answer, StatusCode::FORBIDDEN, "an operator is no agent").await;
    let answer = beat.ask(&local, "http://localhost", bearer(tokens.of(Role::Agent))).await;
    assert_eq!(answer.status(), StatusCode::ACCEPTED, "a token goes before the user");
}

#[tokio::test]
async fn what_is_done_and_refused_stands_in_the_audit_log_and_cannot_be_changed_unseen() {
    let folder = tempfile::tempdir().unwrap();
    let (tokens, daemon, _) = start_with_all(&folder).await;
    let state = folder.path().join("state.db");
    let record = state.display().to_string();
    let socket = format!("unix://{}/admin.sock", folder.path().display());
    let local = Client::builder().unix_socket(folder.path().join("admin.sock")).build().unwrap();
    daemon_reports(&local, "http://localhost", &tokens).await;

    let off = ["node", "vary-off", "n1", "--reason", "disk swap", "--yes", "--url", &socket];
    for _ in 0..2 {
        let done = run(&off);
        assert_eq!(done.status.code(), Some(0), "{}", text(&done));
    }
    let nodes = Route::of("post", "/v1/nodes/vary-on");
    for _ in 0..100 {
        let answer = nodes.ask(&local, "http://localhost", bearer(tokens.of(Role::Reader))).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    }
    tokens.write(&["nonsense".to_owned()]);
    daemon.signal("HUP");
    daemon.logs("not read again").await;
    tokens.write(&[]);
    daemon.signal("HUP");
    daemon.logs_line(&["holds no token", "the unix socket only"]).await;

    // The audit of a refusal is written without delay of the answer. A later row proves that the
    // refusal's row is written.
    let on = ["node", "vary-on", "n1", "--url", &socket];
    assert_eq!(run(&on).status.code(), Some(0));
    let shown = run(&["audit", "show", &record, "--json", "--last", "0"]);
    let rows: Vec<Value> =
        text(&shown).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let find = |act: &str, outcome: &str| {
        let is_it = |row: &&Value| {
            row["act"] == act && row["outcome"].as_str().unwrap().starts_with(outcome)
        };
        rows.iter().filter(is_it).cloned().collect::<Vec<Value>>()
    };
    let done = &find("vary-off", "done")[0];
    assert_eq!(done["detail"], "n1: disk swap");
    assert!(done["origin"].as_str().unwrap().starts_with("socket pid "), "{done}");
    assert_eq!(find("vary-off", "nothing to change").len(), 1);
    assert_eq!(find("start", "done").len(), 1);
    assert_eq!(find("vary-on", "done").len(), 1);
    let refused = find("request", "refused: not allowed");
    assert_eq!((refused.len(), &refused[0]["who"]), (20, &json!("good-reader")));
    assert_eq!(refused[0]["detail"], "POST /v1/nodes/vary-on");
    let reread = &find("reread tokens", "refused")[0];
    assert!(reread["outcome"].as_str().unwrap().contains("line 1"), "{reread}");
    let secrets = [Role::Reader, Role::Agent].map(|role| tokens.of(role).to_owned());
    assert!(secrets.iter().all(|secret| !text(&shown).contains(secret.as_str())));

    let sound = run(&["audit", "verify", &record]);
    assert_eq!(sound.status.code(), Some(0), "{}", text(&sound));
    let noted = text(&sound).lines().last().unwrap().trim().to_owned();
    drop(daemon);
    let id = done["id"].as_u64().unwrap();
    let mut connection = SqliteConnectOptions::new().filename(&state).connect().await.unwrap();
    let tampering =
        format!("drop trigger audit_is_not_changed; update audit set who = 'eve' where id = {id}");
    raw_sql(sqlx::AssertSqlSafe(tampering)).execute(&mut connection).await.unwrap();
    let changed = run(&["audit", "verify", &record, "--noted", &noted]);
    assert_eq!(changed.status.code(), Some(1));
    assert!(text(&changed).contains(&format!("row {id} is not as it was written")));
}

#[test]
fn a_daemon_does_not_start_on_secrets_that_others_can_read() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::make(folder.path());
    let file = folder.path().join("apportion.toml");
    std::fs::write(&file, config(folder.path(), "", "")).unwrap();
    let state = folder.path().join("state.db").display().to_string();
    let file = file.display().to_string();
    let serve = ["serve", "--config", &file, "--state", &state, "--listen", "127.0.0.1:0"];
    std::fs::set_permissions(&tokens.file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = run(&serve);
    assert_ne!(refused.status.code(), Some(0));
    assert!(text(&refused).contains("chmod 600"), "{}", text(&refused));
    private(&tokens.file);
    let open = run(&["serve", "--config", &file, "--state", &state, "--listen", "0.0.0.0:0"]);
    assert_eq!(open.status.code(), Some(78));
    assert!(text(&open).contains("C021"), "{}", text(&open));
}

/// A connection by TLS that is kept.
struct Kept {
    stream: TlsStream<TcpStream>,
}

impl Kept {
    async fn open(url: &str, ca: &Path) -> Kept {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let address = url.trim_start_matches("https://");
        let stream = TcpStream::connect(address).await.unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from("localhost").unwrap();
        Kept { stream: connector.connect(name, stream).await.unwrap() }
    }

    /// The certificate that the daemon showed.
    fn certificate(&self) -> CertificateDer<'static> {
        self.stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    }

    /// True if the connection still gets an answer.
    async fn is_alive(&mut self) -> bool {
        let request = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
        self.stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nok") {
            let mut piece = [0; 1024];
            let read = self.stream.read(&mut piece).await.unwrap();
            if read == 0 {
                return false;
            }
            answer.extend_from_slice(&piece[..read]);
        }
        answer.starts_with(b"HTTP/1.1 200")
    }
}

/// New connections get the new certificate; open connections stay; a wrong certificate changes
/// nothing.
#[tokio::test]
async fn a_certificate_is_renewed_while_the_daemon_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (_tokens, daemon, url) = start_with_all(&folder).await;
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls");
    let ca = fixtures.join("ca.pem");
    let certificate = |name: &str| CertificateDer::from_pem_file(fixtures.join(name)).unwrap();
    let mut before = Kept::open(&url, &ca).await;
    assert_eq!(before.certificate(), certificate("one.pem"));
    assert!(before.is_alive().await);

    for kind in ["pem", "key"] {
        let ours = folder.path().join(format!("one.{kind}"));
        std::fs::copy(fixtures.join(format!("two.{kind}")), &ours).unwrap();
        private(&ours);
    }
    daemon.signal("HUP");
    daemon.logs("\"what\":\"certificate\"").await;
    let mut after = Kept::open(&url, &ca).await;
    assert_eq!(after.certificate(), certificate("two.pem"));
    assert!(after.is_alive().await && before.is_alive().await);

    std::fs::write(folder.path().join("one.pem"), "no certificate").unwrap();
    daemon.signal("HUP");
    daemon.logs("not read again").await;
    assert_eq!(Kept::open(&url, &ca).await.certificate(), certificate("two.pem"));
    assert!(after.is_alive().await && before.is_alive().await);
}

/// Follows the guide: add a second line, replace the old token by the new token, then remove the
/// old line.
#[tokio::test]
async fn tokens_are_replaced_under_load_without_refusals() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::make(folder.path());
    let unlimited = "[daemon.limits]\nreader_rate = 0\nagent_rate = 0";
    let daemon = Daemon::start(folder.path(), &config(folder.path(), "", unlimited));
    let line = |role: Role, secret: &Secret| {
        let nodes = (role == Role::Agent).then_some("n1");
        new_line(secret, &format!("busy-{role}"), role, nodes, None).unwrap()
    };
    let routes = [(Role::Reader, "get", "/v1/nodes"), (Role::Agent, "post", "/v1/heartbeats")];
    let mut now = routes.map(|(role, ..)| (role, Secret::new().unwrap()));
    let write = |secrets: &[&(Role, Secret)]| {
        let lines = secrets.iter().map(|(role, secret)| line(*role, secret));
        let all: Vec<String> = tokens.lines.iter().cloned().chain(lines).collect();
        tokens.write(&all);
        daemon.signal("HUP");
    };
    write(&now.each_ref());
    let answers = async |(role, secret): &(Role, Secret), expected: StatusCode| {
        let (_, method, path) = routes.iter().find(|(known, ..)| known == role).unwrap();
        let route = Route::of(method, path);
        for _ in 0..2_000 {
            let answer = route.ask(&client(), &daemon.url, bearer(secret.reveal())).await;
            if answer.status() == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{role} was never answered {expected}");
    };
    let ok = |role: Role| match role {
        Role::Agent => StatusCode::ACCEPTED,
        Role::Reader | Role::Orchestrator | Role::Submitter | Role::Operator => StatusCode::OK,
    };
    for one in &now {
        answers(one, ok(one.0)).await;
    }

    // Each asks with the token that is in use, and holds on to it until the answer is there.
    let in_use = now
        .each_ref()
        .map(|(_, secret)| Arc::new(tokio::sync::RwLock::new(secret.reveal().to_owned())));
    let stop = tokio_util::sync::CancellationToken::new();
    let mut busy = tokio::task::JoinSet::new();
    for ((role, method, path), token) in routes.into_iter().zip(&in_use) {
        for _ in 0..3 {
            let (url, stop) = (daemon.url.clone(), stop.clone());
            let token = Arc::clone(token);
            busy.spawn(async move {
                let (client, route) = (client(), Route::of(method, path));
                let mut answered = 0;
                while !stop.is_cancelled() {
                    let token = token.read().await;
                    let answer = route.ask(&client, &url, bearer(&token)).await;
                    assert_eq!(answer.status(), ok(role), "{role} after {answered}");
                    answered += 1;
                }
                answered
            });
        }
    }
    for _ in 0..6 {
        let next = routes.map(|(role, ..)| (role, Secret::new().unwrap()));
        write(&[&now[0], &now[1], &next[0], &next[1]]);
        for (one, token) in next.iter().zip(&in_use) {
            answers(one, ok(one.0)).await;
            one.1.reveal().clone_into(&mut *token.write().await);
        }
        write(&next.each_ref());
        for one in &now {
            answers(one, StatusCode::UNAUTHORIZED).await;
        }
        now = next;
    }
    stop.cancel();
    let answered = busy.join_all().await;
    assert!(answered.iter().all(|count| 6 < *count), "{answered:?}");
}
