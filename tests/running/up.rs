//! Daemon, orchestrator and agent with a single command, in an empty home, as users start them.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything takes on a machine that works.
const PATIENCE: Duration = Duration::from_mins(2);

/// An empty home, and no process once the test is over.
struct Home {
    folder: TempDir,
}

impl Home {
    fn new() -> Home {
        Home { folder: tempfile::tempdir().unwrap() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_apportion"));
        command.args(args).current_dir(self.folder.path()).env("HOME", self.folder.path());
        let variables = std::env::vars_os().map(|(name, _)| name);
        for name in variables.filter(|name| name.to_string_lossy().starts_with("APPORTION")) {
            command.env_remove(name);
        }
        command.env_remove("XDG_STATE_HOME").stdin(Stdio::null());
        command
    }

    /// Runs to the end: exit status, standard output, standard error.
    fn run(&self, args: &[&str]) -> (i32, String, String) {
        told(self.command(args).output().unwrap())
    }

    /// Starts all, and waits until it says that it is ready.
    fn up(&self) -> Up {
        self.up_with(&["--listen", "127.0.0.1:0"])
    }

    /// The same, with these flags.
    fn up_with(&self, flags: &[&str]) -> Up {
        let mut command = self.command(&[&["up"], flags].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said: Vec<String> = lines.by_ref().take(3).map(Result::unwrap).collect();
        if said.len() < 3 {
            let output = child.wait_with_output().unwrap();
            panic!("{said:?} {}", String::from_utf8_lossy(&output.stderr));
        }
        Up { child, said }
    }

    /// Process ids that are written down: `up`, then daemon and agent.
    fn pids(&self) -> Vec<u64> {
        let text = fs::read(self.folder.path().join(".local/state/apportion/up.json")).unwrap();
        let found: Value = serde_json::from_slice(&text).unwrap();
        let children = found["children"].as_array().unwrap();
        let all = std::iter::once(&found["up"]).chain(children);
        all.map(|process| process["pid"].as_u64().unwrap()).collect()
    }

    /// Processes that have this home in their command line, environment or working directory.
    fn processes(&self) -> Vec<u32> {
        let mark = self.folder.path().to_str().unwrap().as_bytes();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_ours = |pid: &u32| {
            let has = |file: &str| {
                let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                text.windows(mark.len()).any(|part| part == mark)
            };
            let cwd = fs::read_link(format!("/proc/{pid}/cwd"));
            let is_inside = cwd.is_ok_and(|cwd| cwd.starts_with(self.folder.path()));
            is_inside || has("cmdline") || has("environ")
        };
        pids.filter(is_ours).collect()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A test that failed leaves no process behind.
        for pid in self.processes() {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }
}

/// An `apportion up` that runs.
struct Up {
    child: Child,
    said: Vec<String>,
}

impl Up {
    /// Sends a signal, waits for the end, and says its exit status.
    fn end(mut self, signal: &str) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

fn told(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn one_command_runs_work_and_ends_with_all_of_it() {
    let home = Home::new();
    let up = home.up();
    assert!(up.said[0].starts_with("apportion: ready at http://127.0.0.1:"), "{:?}", up.said);
    assert!(up.said[0].contains(" in quanta of ") && up.said[0].contains("; limits: "));
    assert!(up.said[1].starts_with("pages: the same address; they ask"), "{:?}", up.said);
    assert!(up.said[2].starts_with("next: apportion run "), "{:?}", up.said);

    let (status, out, _) =
        home.run(&["run", "--memory", "64MB", "--", "sh", "-c", "echo $((6*7))"]);
    assert_eq!((status, out.as_str()), (0, "42\n"));
    for (text, expected) in [("exit 7", 7), ("kill -TERM $$", 143)] {
        assert_eq!(home.run(&["run", "--", "sh", "-c", text]).0, expected, "{text}");
    }
    assert_eq!(home.run(&["run", "--", "no-such-program"]).0, 127);
    let (status, out, err) = home.run(&["run", "--keep", "--", "echo", "kept"]);
    assert_eq!((status, out.as_str()), (0, "kept\n"), "{err}");
    let mut sort = home.command(&["run", "--", "sort"]);
    let sort = sort.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut sort = sort.spawn().unwrap();
    sort.stdin.take().unwrap().write_all(b"b\na\n").unwrap();
    assert_eq!(told(sort.wait_with_output().unwrap()).1, "a\nb\n");

    let array = ["submit", "--array", "1-100", "--wait", "--", "sh", "-c", "echo {task} >> done"];
    let (status, _, err) = home.run(&array);
    assert_eq!(status, 0, "{err}");
    let done = fs::read_to_string(home.folder.path().join("done")).unwrap();
    let mut done: Vec<u32> = done.lines().map(|line| line.parse().unwrap()).collect();
    done.sort_unstable();
    assert_eq!(done, (1..=100).collect::<Vec<u32>>());
    assert_eq!(home.run(&["task", "logs", "last.100"]).0, 0);
    assert_eq!(home.run(&["nodes"]).0, 0, "the daemon is found as well");

    let (status, _, err) = home.run(&["up"]);
    assert_eq!(status, 6, "{err}");
    assert!(err.contains("runs already, as process") && err.contains("http://127.0.0.1:"), "{err}");

    assert_eq!(home.run(&["run", "--detach", "--", "sh", "-c", "touch began; sleep 1000"]).0, 0);
    until("begun", || home.folder.path().join("began").exists());
    assert_eq!(up.end("-TERM"), Some(0));
    assert_eq!(home.processes(), Vec::<u32>::new());
    let (status, _, err) = home.run(&["down"]);
    assert!(status == 5 && err.contains("does not run"), "{err}");
}

#[test]
fn what_a_killed_one_left_is_ended_and_its_state_is_used_again() {
    let home = Home::new();
    let up = home.up();
    let before = home.pids();
    assert_eq!(before.len(), 3);
    let task = "touch began; while [ ! -e go ]; do sleep 0.1; done; echo over";
    assert_eq!(home.run(&["run", "--detach", "--", "sh", "-c", task]).0, 0);
    until("begun", || home.folder.path().join("began").exists());
    assert_eq!(up.end("-KILL"), None);
    // The daemon still runs, and commands find it.
    assert_eq!(home.run(&["campaign", "list"]).0, 0);

    let again = home.up();
    let now = home.pids();
    assert!(now.iter().all(|pid| !before.contains(pid)), "{before:?} {now:?}");
    let lives = home.processes();
    assert!(!before.iter().any(|pid| lives.iter().any(|one| u64::from(*one) == *pid)));
    fs::write(home.folder.path().join("go"), "").unwrap();
    let (status, _, err) = home.run(&["campaign", "wait", "last"]);
    assert_eq!(status, 0, "{err}");
    assert_eq!(home.run(&["task", "logs", "last.1"]).1, "over\n");

    // The death of a part ends all parts.
    let agent = now[2].to_string();
    assert!(Command::new("kill").args(["-9", &agent]).status().unwrap().success());
    let (status, _, err) = told(again.child.wait_with_output().unwrap());
    assert_eq!(status, 1);
    assert!(err.contains("the agent ended (signal: 9 (SIGKILL)"), "{err}");
    assert!(err.contains("agent.log:\n"), "{err}");
    assert_eq!(home.processes(), Vec::<u32>::new());

    let last = home.up();
    assert_eq!(home.run(&["run", "--", "true"]).0, 0);
    assert_eq!(home.run(&["down"]), (0, "apportion: down\n".to_owned(), String::new()));
    assert_eq!(told(last.child.wait_with_output().unwrap()).0, 0);
    assert_eq!(home.processes(), Vec::<u32>::new());
}

/// The folder of an `apportion up`, and what is written down there.
fn found(home: &Home) -> (PathBuf, Value) {
    let folder = home.folder.path().join(".local/state/apportion");
    let text = fs::read(folder.join("up.json")).unwrap();
    (folder, serde_json::from_slice(&text).unwrap())
}

/// The status of an answer to a request with `token` or none.
fn status(method: &str, url: &str, token: Option<&str>, body: &str) -> u16 {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let token = token.map_or(String::new(), |token| format!("authorization: Bearer {token}\r\n"));
    let length = body.len();
    let request = format!(
        "{method} /{path} HTTP/1.1\r\nhost: {host}\r\n{token}content-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn other_users_of_the_node_reach_its_ports_and_get_no_further() {
    let home = Home::new();
    let _up = home.up();
    let (folder, found) = found(&home);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for file in ["tokens", "own.token", "agent.token"] {
        assert_eq!(mode(&folder.join(file)), 0o600, "{file}");
    }
    let token = |name: &str| {
        fs::read_to_string(folder.join(format!("{name}.token"))).unwrap().trim().to_owned()
    };
    let (own, agent) = (token("own"), token("agent"));
    let (daemon, orchestrator) =
        (found["daemon"].as_str().unwrap(), found["orchestrator"].as_str().unwrap());
    let campaign = r#"{"command": ["true"], "user": "root"}"#;
    let node = r#"{"node": "n1", "memory_mb": 1024}"#;
    for (method, url, body) in [
        ("POST", format!("{orchestrator}/v1/campaigns"), campaign),
        ("GET", format!("{orchestrator}/v1/campaigns"), ""),
        ("POST", format!("{orchestrator}/v1/nodes/n1/exchange"), "{}"),
        ("POST", format!("{daemon}/v1/heartbeats"), node),
        ("PUT", format!("{daemon}/v1/publication"), "{}"),
        ("GET", format!("{daemon}/v1/jobs"), ""),
    ] {
        assert_eq!(status(method, &url, None, body), 401, "{method} {url}");
        assert_eq!(status(method, &url, Some("apn_0"), body), 401, "{method} {url}");
    }
    assert_eq!(status("GET", &format!("{daemon}/v1/jobs"), Some(&own), ""), 200);
    assert_eq!(
        status("POST", &format!("{orchestrator}/v1/campaigns"), Some(&agent), campaign),
        403
    );
    // The folder says how its own user comes in; in another home nothing does.
    assert_eq!(home.run(&["nodes"]).0, 0);
    let stranger = Home::new();
    let (status, _, err) = stranger.run(&["nodes", "--url", daemon]);
    assert!(status == 4 && err.contains("--token-file"), "{status} {err}");
}

/// Tasks are asked to end, and deaf tasks are killed after their grace.
#[test]
fn the_end_is_gentle_or_waits() {
    let home = Home::new();
    let up = home.up();
    let text = "trap 'echo saved >> saved; exit 0' TERM; touch began; while :; do sleep 0.05; done";
    assert_eq!(home.run(&["run", "--detach", "--", "sh", "-c", text]).0, 0);
    until("begun", || home.folder.path().join("began").exists());
    assert_eq!(home.run(&["down", "--now"]), (0, "apportion: down\n".to_owned(), String::new()));
    assert_eq!(told(up.child.wait_with_output().unwrap()).0, 0);
    assert_eq!(fs::read_to_string(home.folder.path().join("saved")).unwrap(), "saved\n");
    assert_eq!(home.processes(), Vec::<u32>::new());
    fs::remove_file(home.folder.path().join("began")).unwrap();

    // An ended task is repeated, and does not count as a failure.
    let again = home.up();
    until("begun again", || home.folder.path().join("began").exists());
    assert_eq!(home.run(&["campaign", "cancel", "last"]).0, 0);
    let text = "touch one.$APPORTION_TASK_ID; while [ ! -e go ]; do sleep 0.05; done";
    let max = ["--max", "1", "--array", "1-2", "--", "sh", "-c", text];
    assert_eq!(home.run(&[&["submit"][..], &max].concat()).0, 0);
    until("the first", || home.folder.path().join("one.1").exists());
    let down = home.command(&["down", "--wait"]).stdout(Stdio::piped()).spawn().unwrap();
    until("suspended", || home.run(&["campaign", "show", "last"]).1.contains("suspended"));
    fs::write(home.folder.path().join("go"), "").unwrap();
    assert_eq!(told(down.wait_with_output().unwrap()).0, 0);
    assert_eq!(told(again.child.wait_with_output().unwrap()).0, 0);
    assert!(!home.folder.path().join("one.2").exists(), "no other began");

    // Campaigns that were suspended for the end go on.
    let _last = home.up();
    let (status, _, err) = home.run(&["campaign", "wait", "last"]);
    assert_eq!(status, 0, "{err}");
    assert!(home.folder.path().join("one.2").exists());
}

#[test]
fn in_the_background_it_goes_on_until_it_is_told_to_end() {
    let home = Home::new();
    let (status, out, err) = home.run(&["up", "--listen", "127.0.0.1:0", "--detach"]);
    assert_eq!(status, 0, "{err}");
    assert!(out.starts_with("apportion: ready at ") && out.contains("\nnext: "), "{out}");
    assert_eq!(home.run(&["run", "--", "true"]).0, 0);
    let (status, _, err) = home.run(&["up", "--detach"]);
    assert!(status == 6 && err.contains("runs already, as process"), "{status} {err}");
    assert_eq!(home.run(&["down"]).0, 0);
    // It is no child of this test, and may outlive its last answer by a moment.
    until("gone", || home.processes().is_empty());
}

/// Two machines, as far as a test can play them: the second has a home and a name of its own.
#[test]
fn other_nodes_join_with_a_file() {
    let (head, other) = (Home::new(), Home::new());
    // All addresses are of this machine; only its own processes know the port.
    let _up = head.up_with(&["--listen", "0.0.0.0:0", "--host", "127.0.0.1"]);
    let file = head.folder.path().join("apportion.join");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let (_, found) = found(&head);
    assert!(found["daemon"].as_str().unwrap().starts_with("https://127.0.0.1:"), "{found}");
    assert_eq!(head.run(&["run", "--", "true"]).0, 0, "commands here find authority and token");

    let join = file.to_str().unwrap();
    let mut agent = other.command(&["agent", "--join", join, "--node", "second"]);
    let mut agent = agent.stderr(Stdio::null()).spawn().unwrap();
    until("both nodes", || head.run(&["nodes"]).1.contains("second"));
    if rustix::process::getuid().is_root() {
        // The agent that joined runs work of its own user, and that is root only with a flag.
        agent.kill().unwrap();
        agent.wait().unwrap();
        let flags = ["agent", "--join", join, "--node", "second", "--allow-root"];
        agent = other.command(&flags).stderr(Stdio::null()).spawn().unwrap();
    }
    // Commands on the other machine name the file.
    let here = |args: &[&str]| {
        let mut command = other.command(args);
        told(command.env("APPORTION_JOIN", &file).output().unwrap())
    };
    let text = "echo $APPORTION_NODE; sleep 1";
    let (code, _, err) = here(&["submit", "--array", "1-12", "--wait", "--", "sh", "-c", text]);
    assert_eq!(code, 0, "{err}");
    let nodes: Vec<String> =
        (1..=12).map(|n| here(&["task", "logs", &format!("last.{n}")]).1).collect();
    assert!(nodes.iter().any(|node| node == "second\n"), "{nodes:?}");
    // The joined machine's token submits, and does nothing else.
    let (code, _, err) = here(&["node", "vary-off", "second", "--reason", "x", "--yes"]);
    assert_eq!(code, 4, "{err}");
    agent.kill().unwrap();
    agent.wait().unwrap();

    // A file that other users can read is refused, also an expired file, and a file with other
    // content.
    let copy = other.folder.path().join("copy.join");
    let text = fs::read_to_string(&file).unwrap();
    let refused = |text: &str, mode: u32| {
        fs::write(&copy, text).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(mode)).unwrap();
        let (code, _, err) = other.run(&["agent", "--join", copy.to_str().unwrap(), "--once"]);
        assert_eq!(code, 1, "{err}");
        err
    };
    assert!(refused(&text, 0o644).contains("chmod 600"));
    assert!(refused("{}", 0o600).contains("is no file to join with"));
    let mut old: Value = serde_json::from_str(&text).unwrap();
    old["until"] = "2020-01-01T00:00:00Z".into();
    assert!(refused(&old.to_string(), 0o600).contains("--rejoin"));
    let mut forged: Value = serde_json::from_str(&text).unwrap();
    forged["agent_token"] = "apn_0".into();
    fs::write(&copy, forged.to_string()).unwrap();
    assert_eq!(other.run(&["agent", "--join", copy.to_str().unwrap(), "--once"]).0, 4);
    fs::write(&copy, &text).unwrap();
    let (code, out, err) =
        other.run(&["agent", "--join", copy.to_str().unwrap(), "--install-user-unit"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("loginctl enable-linger"), "{out}");
    let unit = other.folder.path().join(".config/systemd/user/apportion-agent.service");
    assert!(fs::read_to_string(unit).unwrap().contains(copy.to_str().unwrap()));
}

/// The tokens of a join file are the same at each start, until they are made anew.
#[test]
fn a_join_file_stays_good_until_it_is_renewed() {
    let head = Home::new();
    let listen = ["--listen", "0.0.0.0:0", "--host", "127.0.0.1"];
    let file = head.folder.path().join("apportion.join");
    let joined = |flags: &[&str]| -> Value {
        let up = head.up_with(&[&listen, flags].concat());
        let join = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(up.end("-TERM"), Some(0));
        join
    };
    let first = joined(&[]);
    let again = joined(&[]);
    let renewed = joined(&["--rejoin"]);
    for field in ["agent_token", "submitter_token", "authority"] {
        assert_eq!(first[field], again[field], "{field}");
    }
    assert_ne!(first["agent_token"], renewed["agent_token"]);
    assert_eq!(first["authority"], renewed["authority"]);
}

/// A home that machines share: commands on another machine than that of `up` reach it by its name.
#[test]
fn commands_on_a_node_with_the_same_home_find_the_head() {
    let head = Home::new();
    let _up = head.up_with(&["--listen", "0.0.0.0:0", "--host", "localhost"]);
    let (folder, mut found) = found(&head);
    found["elsewhere"]["host"] = "another".into();
    found["children"] = Value::Array(Vec::new());
    let orchestrator = found["elsewhere"]["orchestrator"].as_str().unwrap().to_owned();
    assert!(orchestrator.starts_with("https://localhost:"), "{found}");
    let copy = Home::new();
    let there = copy.folder.path().join(".local/state/apportion");
    fs::create_dir_all(there.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&folder, &there).unwrap();
    let text = fs::read(folder.join("up.json")).unwrap();
    fs::write(folder.join("up.json"), found.to_string()).unwrap();
    assert_eq!(copy.run(&["run", "--", "true"]).0, 0);
    fs::write(folder.join("up.json"), text).unwrap();
}
