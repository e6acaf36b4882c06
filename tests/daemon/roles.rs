//! The matrix of roles, with the real binary: every route and page × every method × 14 callers.
//!
//! The rights of each caller are written here by hand, from the table of roles in the README, and
//! not taken from the table that decides.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::daemon;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::daemon::{CONFIG, Daemon};
use apportion::auth::{Role, Secret, new_line};
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

/// Roles that may read.
const LOOK: &str = "reader orchestrator submitter operator";

/// Each path, and for each method that it has who may use it. `all`: no token is asked for.
const PATHS: &[(&str, &[(&str, &str)])] = &[
    ("/livez", &[("GET", "all")]),
    ("/readyz", &[("GET", "all")]),
    ("/healthz", &[("GET", "all")]),
    ("/readyz?verbose", &[("GET", LOOK)]),
    ("/login", &[("GET", "all"), ("POST", "all")]),
    ("/logout", &[("POST", "all")]),
    ("/openapi.json", &[("GET", LOOK)]),
    ("/metrics", &[("GET", LOOK)]),
    ("/v1/heartbeats", &[("POST", "agent")]),
    ("/v1/publication", &[("PUT", "orchestrator")]),
    ("/v1/publication/reset", &[("POST", "operator")]),
    ("/v1/orchestrators", &[("GET", LOOK)]),
    ("/v1/orchestrators/hand-over", &[("POST", "operator")]),
    ("/v1/schedule", &[("GET", LOOK)]),
    ("/v1/events", &[("GET", LOOK)]),
    ("/v1/status", &[("GET", LOOK)]),
    ("/v1/cycles", &[("GET", LOOK)]),
    ("/v1/clients", &[("GET", LOOK)]),
    ("/v1/nodes", &[("GET", LOOK)]),
    ("/v1/nodes/n1", &[("GET", LOOK)]),
    ("/v1/jobs", &[("GET", LOOK)]),
    ("/v1/jobs/1", &[("GET", LOOK)]),
    ("/v1/jobs/1/why", &[("GET", LOOK)]),
    ("/v1/classes", &[("GET", LOOK)]),
    ("/v1/users", &[("GET", LOOK)]),
    ("/v1/load", &[("GET", LOOK)]),
    ("/v1/occupancy", &[("GET", LOOK)]),
    ("/v1/config", &[("GET", LOOK)]),
    ("/v1/config/generations", &[("GET", LOOK)]),
    ("/v1/config/generations/1", &[("GET", LOOK)]),
    ("/v1/config/plan", &[("POST", "operator")]),
    ("/v1/config/apply", &[("POST", "operator")]),
    ("/v1/nodes/vary-off", &[("POST", "operator")]),
    ("/v1/nodes/vary-on", &[("POST", "operator")]),
    ("/v1/nodes/lost", &[("POST", "operator")]),
    ("/v1/nodes/forget", &[("POST", "operator")]),
    ("/v1/urgent", &[("POST", "orchestrator operator")]),
    ("/v1/reservations", &[("GET", LOOK), ("POST", "operator")]),
    ("/v1/reservations/n1", &[("GET", LOOK), ("DELETE", "operator")]),
    ("/nodes/vary?way=off&nodes=n1&reason=x&all=yes", &[("GET", LOOK), ("POST", "operator")]),
    ("/", &[("GET", LOOK)]),
    ("/topology", &[("GET", LOOK)]),
    ("/topology/node?name=n1", &[("GET", LOOK)]),
    ("/fairness", &[("GET", LOOK)]),
    ("/search", &[("GET", LOOK)]),
    ("/errors", &[("GET", LOOK)]),
    ("/errors/T002", &[("GET", LOOK)]),
    ("/topology/changes", &[("GET", LOOK)]),
    ("/jobs", &[("GET", LOOK)]),
    ("/jobs/1", &[("GET", LOOK)]),
    ("/classes", &[("GET", LOOK)]),
    ("/classes/normal", &[("GET", LOOK)]),
    ("/users", &[("GET", LOOK)]),
    ("/users/ann", &[("GET", LOOK)]),
    ("/nodes", &[("GET", LOOK)]),
    ("/node/n1", &[("GET", LOOK)]),
    ("/reservations", &[("GET", LOOK)]),
    ("/calendar", &[("GET", LOOK)]),
    ("/events", &[("GET", LOOK)]),
    ("/config", &[("GET", LOOK)]),
    ("/history", &[("GET", LOOK)]),
    ("/live", &[("GET", LOOK)]),
    ("/assets/dashboard.css", &[("GET", LOOK)]),
];

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// A caller: its credentials, and the role that they give, if any.
struct Caller {
    what: &'static str,
    role: Option<&'static str>,
    headers: HeaderMap,
    is_local: bool,
}

fn bearer(token: &str) -> HeaderMap {
    let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    HeaderMap::from_iter([(header::AUTHORIZATION, value)])
}

fn private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// A client that is sent nowhere, by the network or by the unix socket.
fn client(socket: Option<&Path>) -> Client {
    let client = Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    match socket {
        Some(path) => client.unix_socket(path).build().unwrap(),
        None => client.build().unwrap(),
    }
}

async fn session(client: &Client, url: &str, token: &str) -> HeaderMap {
    let form = format!("token={token}&next=/");
    let kind = "application/x-www-form-urlencoded";
    let login = client.post(format!("{url}/login")).header(header::CONTENT_TYPE, kind).body(form);
    let answer = login.send().await.unwrap();
    let cookie = answer.headers()[header::SET_COOKIE].to_str().unwrap();
    let cookie = HeaderValue::from_str(cookie.split(';').next().unwrap()).unwrap();
    HeaderMap::from_iter([(header::COOKIE, cookie)])
}

/// True if a caller of this role may send the method; `None` if the path has no such method.
fn may(methods: &[(&str, &str)], method: &str, role: Option<&str>) -> Option<bool> {
    let asked = if method == "HEAD" { "GET" } else { method };
    let (_, who) = methods.iter().find(|(known, _)| *known == asked)?;
    Some(*who == "all" || role.is_some_and(|role| who.split(' ').any(|it| it == role)))
}

/// Fourteen callers: strangers, tokens, sessions, and the unix socket.
async fn callers(folder: &Path, url: &str, tokens: &[(Role, Secret)]) -> Vec<Caller> {
    let client = client(None);
    let unknown = Secret::new().unwrap();
    let basic = HeaderValue::from_static("Basic cm9vdDpyb290");
    let caller = |what, role, headers, is_local| Caller { what, role, headers, is_local };
    let expired = std::fs::read_to_string(folder.join("expired")).unwrap();
    let mut callers = vec![
        caller("nothing", None, HeaderMap::new(), false),
        caller("basic", None, HeaderMap::from_iter([(header::AUTHORIZATION, basic)]), false),
        caller("an unknown token", None, bearer(unknown.reveal()), false),
        caller("an expired token", None, bearer(&expired), false),
        caller("root at the socket", Some("operator"), HeaderMap::new(), true),
    ];
    for (role, secret) in tokens {
        let headers = session(&client, url, secret.reveal()).await;
        callers.push(caller("a token", Some(role.as_str()), bearer(secret.reveal()), false));
        callers.push(caller("a session", Some(role.as_str()), headers, false));
    }
    // Less than root may, on purpose.
    let agent = tokens.iter().find(|(role, _)| *role == Role::Agent).unwrap();
    callers.push(caller(
        "an agent's token at the socket",
        Some("agent"),
        bearer(agent.1.reveal()),
        true,
    ));
    assert_eq!(callers.len(), 16);
    callers
}

fn start(folder: &Path) -> (Daemon, Vec<(Role, Secret)>) {
    let tokens: Vec<(Role, Secret)> =
        Role::ALL.into_iter().map(|role| (role, Secret::new().unwrap())).collect();
    let line = |role: Role, secret: &Secret, name: &str, until: Option<&str>| {
        let nodes = (role == Role::Agent).then_some("n1");
        new_line(secret, name, role, nodes, until.map(|it| it.parse().unwrap())).unwrap()
    };
    let mut lines: Vec<String> =
        tokens.iter().map(|(role, secret)| line(*role, secret, role.as_str(), None)).collect();
    let expired = Secret::new().unwrap();
    lines.push(line(Role::Operator, &expired, "old", Some("2020-01-01T00:00:00Z")));
    private(&folder.join("tokens"), &lines.join("\n"));
    private(&folder.join("expired"), expired.reveal());
    let (tokens_file, socket) = (folder.join("tokens"), folder.join("admin.sock"));
    let access = format!(
        "[daemon.access]\ntokens = '{}'\nsocket = '{}'\n[daemon.limits]\nreader_rate = 0\n\
         agent_rate = 0\norchestrator_rate = 0\n[scheduler]",
        tokens_file.display(),
        socket.display()
    );
    (Daemon::start(folder, &CONFIG.replace("[scheduler]", &access)), tokens)
}

#[tokio::test]
async fn each_caller_may_do_what_the_readme_says_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (daemon, tokens) = start(folder.path());
    let url = daemon.url.as_str();
    let callers = callers(folder.path(), url, &tokens).await;
    let (network, local) = (client(None), client(Some(&folder.path().join("admin.sock"))));
    make_world(&network, url, &tokens).await;
    let (mut cells, mut wrong) = (0, Vec::new());
    for (path, methods) in PATHS {
        for method in METHODS {
            for caller in &callers {
                // A session ends when it logs out; that it may is another test's.
                if *path == "/logout" && method == "POST" && caller.what == "a session" {
                    continue;
                }
                let client = if caller.is_local { &local } else { &network };
                let method = method.parse::<Method>().unwrap();
                let request = client.request(method.clone(), format!("{url}{path}"));
                // Understood by none, so that what is allowed changes nothing.
                let request = request.headers(caller.headers.clone()).body("{}");
                let request = request.header(header::CONTENT_TYPE, "application/json");
                // The form on the page of nodes is taken from that page only.
                let request = request.header(header::ORIGIN, url);
                let answer = request.send().await.unwrap();
                let (status, headers) = (answer.status(), answer.headers());
                let to_login = headers
                    .get(header::LOCATION)
                    .is_some_and(|to| to.to_str().unwrap().starts_with("/login"));
                let is_refused = status == StatusCode::UNAUTHORIZED
                    || status == StatusCode::FORBIDDEN
                    || (to_login && *path != "/login" && *path != "/logout");
                let is_good = match may(methods, method.as_str(), caller.role) {
                    Some(is_allowed) => is_refused != is_allowed,
                    // Only known callers learn that the path has no such method.
                    None if caller.role.is_none() => is_refused,
                    None => is_refused || status == StatusCode::METHOD_NOT_ALLOWED,
                };
                let sniffs = headers.get("x-content-type-options").is_none_or(|it| it != "nosniff");
                if !is_good || sniffs {
                    wrong.push(format!(
                        "{} {:?}: {method} {path}: {status}",
                        caller.what, caller.role
                    ));
                }
                cells += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {cells} cells are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(4_900 < cells, "{cells}");
}

/// A node and a job, so that what is asked for is there.
async fn make_world(client: &Client, url: &str, tokens: &[(Role, Secret)]) {
    let of = |role: Role| bearer(tokens.iter().find(|(it, _)| *it == role).unwrap().1.reveal());
    let beat = json!({ "node": "n1", "memory_mb": 8192 });
    let beat = client.post(format!("{url}/v1/heartbeats")).headers(of(Role::Agent)).json(&beat);
    assert_eq!(beat.send().await.unwrap().status(), StatusCode::ACCEPTED);
    let work = json!({ "sequence": 1, "work": [daemon::job(1, "ann", &[])] });
    let work = client
        .put(format!("{url}/v1/publication?wait=commit"))
        .headers(of(Role::Orchestrator))
        .json(&work);
    assert_eq!(work.send().await.unwrap().status(), StatusCode::ACCEPTED);
}

/// Every documented path and every link of every page is in the list above.
#[tokio::test]
async fn no_route_and_no_page_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (daemon, tokens) = start(folder.path());
    let (client, url) = (client(None), daemon.url.as_str());
    make_world(&client, url, &tokens).await;
    let operator = tokens.iter().find(|(role, _)| *role == Role::Operator).unwrap().1.reveal();
    let read = async |path: &str| {
        let request = client.get(format!("{url}{path}")).headers(bearer(operator));
        request.send().await.unwrap().text().await.unwrap()
    };
    let listed: BTreeSet<Vec<&str>> = PATHS.iter().map(|(path, _)| parts(path)).collect();
    let is_listed = |path: &str| {
        let asked = parts(path);
        let fits = |known: &Vec<&str>| {
            let same = known.len() == asked.len();
            // The last part may be the name of something.
            same && (known == &asked
                || (2 < asked.len() && known[..known.len() - 1] == asked[..asked.len() - 1]))
        };
        listed.iter().any(fits)
    };
    let document: Value = serde_json::from_str(&read("/openapi.json").await).unwrap();
    for path in document["paths"].as_object().unwrap().keys() {
        let path = path.replace("{name}", "n1").replace("{id}", "1").replace("{generation}", "1");
        assert!(listed.contains(&parts(&path)), "{path}");
    }
    let (mut seen, mut ahead) = (BTreeSet::new(), vec!["/".to_owned()]);
    while let Some(page) = ahead.pop() {
        if page.starts_with("/live") || page.starts_with("/logout") || !seen.insert(page.clone()) {
            continue;
        }
        let html = read(&page).await;
        for attribute in
            ["href=\"", "src=\"", "action=\"", "hx-get=\"", "sse-connect=\"", "data-changes=\""]
        {
            for link in html.split(attribute).skip(1) {
                let link = link.split('"').next().unwrap().replace("&amp;", "&");
                let link = link.split('#').next().unwrap();
                if link.starts_with('/') && seen.len() < 200 {
                    assert!(is_listed(link), "{page} leads to {link}");
                    ahead.push(link.to_owned());
                }
            }
        }
    }
    assert!(15 < seen.len(), "{seen:?}");
}

/// The parts of a path, without its parameters.
fn parts(path: &str) -> Vec<&str> {
    path.split('?').next().unwrap().split('/').collect()
}
