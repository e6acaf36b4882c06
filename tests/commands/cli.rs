//! The command line as scripts use it: exit statuses, and the stream of each output.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};

const NODES: &str = r#"{"cycle":3,"nodes":[{"name":"node01","pool":"fast","states":["up"],
    "memory_mb":61440,"quantum_mb":15360,"order":4,"used":0,"free":4,"missed_heartbeats":0,
    "shares":[]}]}"#;

fn apportion(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_apportion"));
    command.args(args).stdin(Stdio::null());
    for variable in ["APPORTION_URL", "APPORTION_CONFIG", "APPORTION_LOG"] {
        command.env_remove(variable);
    }
    command
}

/// Runs to the end: exit status, standard output, standard error.
#[track_caller]
fn run(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = apportion(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// A daemon that gives each of these answers to a single request; the handle returns the requests.
fn daemon(answers: Vec<(&'static str, String)>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serve = move || {
        let answer = |(status, body): (&str, String)| {
            let (mut stream, _) = listener.accept().unwrap();
            let asked = read_request(&mut stream);
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            )
            .unwrap();
            asked
        };
        answers.into_iter().map(answer).collect()
    };
    (url, std::thread::spawn(serve))
}

/// The first line of a request, and its body.
fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).unwrap();
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if length.map_or(0, |length| length.parse().unwrap()) <= body.len() {
            return format!("{} {body}", head.lines().next().unwrap()).trim_end().to_owned();
        }
    }
}

fn problem(code: &str, detail: &str) -> String {
    format!(
        r#"{{"type":"/errors/{code}","title":"t","status":400,"detail":"{detail}","code":"{code}"}}"#
    )
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    let wrong: [&[&str]; 30] = [
        &[],
        &["frobnicate"],
        &["job", "show"],
        &["why", "seven"],
        &["nodes", "--url", "ftp://head"],
        &["node", "vary-off", "--reason", "r"],
        &["node", "vary-off", "node01"],
        &["reservation"],
        &["reservation", "create", "r1", "--nodes", "n1", "--start", "18:00"],
        &["reservation", "create", "r1", "--nodes", "n1", "--start", "soon", "--for", "2h"],
        &["reservation", "create", "r1", "--start", "18:00", "--for", "2h"],
        &["node", "maintenance", "n1", "--start", "18:00", "--for", "2h"],
        &["serve", "--listen", "0.0.0.0"],
        &["serve", "--log", "loud"],
        &["simulate"],
        &["simulate", "--survey", "0"],
        &["simulate", "--survey", "3", "--recorded", "scenario.json"],
        &["simulate", "--recorded", "scenario.json", "--seed", "3"],
        &["simulate", "--scale", "1000"],
        &["simulate", "--scale", "10x0"],
        &["simulate", "--scale", "10x10", "--cycles", "20"],
        &["simulate", "--scale", "10x10", "--survey", "3"],
        &["simulate", "--scale", "10x10", "--scenarios", "clusters"],
        &["simulate", "--survey", "3", "--cycles", "60"],
        &["simulate", "--swf", "log.swf", "--seed", "3"],
        &["bench"],
        &["bench", "cycle", "--nodes", "10"],
        &["bench", "cycle", "--nodes", "10", "--jobs", "0"],
        &["bench", "place", "--nodes", "10", "--jobs", "10", "--quantum", "15"],
        &["bench", "daemon", "--nodes", "10", "--jobs", "10", "--regime", "burst"],
    ];
    for args in wrong {
        let (status, stdout, stderr) = run(args);
        assert_eq!((status, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
        assert_ne!(stderr, "", "{args:?}");
    }
    let (_, _, stderr) = run(&["why", "seven"]);
    assert!(stderr.contains("`apportion queue` shows it"), "{stderr}");
}

#[test]
fn help_teaches_by_example() {
    let subjects: [&[&str]; 21] = [
        &[],
        &["serve"],
        &["config", "check"],
        &["config", "show"],
        &["config", "schema"],
        &["config", "import-ducc"],
        &["config", "plan"],
        &["config", "apply"],
        &["config", "history"],
        &["node", "vary-off"],
        &["node", "maintenance"],
        &["reservation", "create"],
        &["reservation", "list"],
        &["reservation", "show"],
        &["reservation", "delete"],
        &["queue"],
        &["why"],
        &["simulate"],
        &["bench", "cycle"],
        &["bench", "place"],
        &["bench", "daemon"],
    ];
    for subject in subjects {
        let (status, stdout, stderr) = run(&[subject, &["--help"]].concat());
        assert_eq!((status, stderr.as_str()), (0, ""), "{subject:?}");
        assert!(stdout.contains("Examples:\n  apportion "), "{subject:?}: {stdout}");
        assert!(!stdout.contains("$`"), "{subject:?}: {stdout}");
    }
}

#[test]
fn no_daemon_ends_with_3_and_says_how_to_start_one() {
    // A port that was free a moment ago; nothing listens there.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for command in [&["nodes"][..], &["queue"], &["why", "7"], &["classes"]] {
        let (status, stdout, stderr) = run(&[command, &["--url", &url]].concat());
        assert_eq!((status, stdout.as_str()), (3, ""), "{command:?}: {stderr}");
        assert!(stderr.starts_with(&format!("error: cannot reach a daemon at {url}/ (")));
        assert!(stderr.contains("`apportion serve`"), "{stderr}");
    }
}

#[test]
fn the_daemons_refusals_have_statuses_of_their_own() {
    let cases = [
        ("400 Bad Request", 1),
        ("401 Unauthorized", 4),
        ("403 Forbidden", 4),
        ("404 Not Found", 5),
        ("409 Conflict", 6),
        ("412 Precondition Failed", 6),
        ("503 Service Unavailable", 1),
    ];
    for (answer, expected) in cases {
        let (url, asked) = daemon(vec![(answer, problem("J001", "there is no job 7"))]);
        let (status, stdout, stderr) = run(&["why", "7", "--url", &url]);
        assert_eq!((status, stdout.as_str()), (expected, ""), "{answer}");
        assert_eq!(stderr, "error: there is no job 7 (J001)\n");
        assert_eq!(asked.join().unwrap(), ["get /v1/jobs/7/why http/1.1"]);
    }
}

#[test]
fn something_else_that_answers_is_no_daemon() {
    let (url, _) = daemon(vec![("404 Not Found", "<h1>nginx</h1>".to_owned())]);
    let (status, _, stderr) = run(&["nodes", "--url", &url]);
    assert_eq!(status, 3);
    assert!(stderr.contains("answers 404 Not Found, but not as an apportion does"), "{stderr}");
}

#[test]
fn answers_go_to_standard_output() {
    let (url, _) = daemon(vec![("200 OK", NODES.to_owned()), ("200 OK", NODES.to_owned())]);
    let (status, stdout, stderr) = run(&["nodes", "--url", &url]);
    assert_eq!((status, stderr.as_str()), (0, ""));
    assert!(stdout.starts_with("NODE    POOL  STATE"), "{stdout}");
    let (_, stdout, _) = run(&["node", "list", "--json", "--url", &url]);
    let answer: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(answer, serde_json::from_str::<serde_json::Value>(NODES).unwrap());
}

#[test]
fn the_queue_is_read_to_its_last_page() {
    let page = |next: &str| ("200 OK", format!(r#"{{"cycle":3,"jobs":[]{next}}}"#));
    let alice = r#"{"user":"alice","jobs":0,"jobs_without_shares":0,"shares":0,"memory_mb":0,
        "fixed_memory_mb":0,"classes":[]}"#;
    let users = ("200 OK", format!(r#"{{"cycle":3,"users":[{alice}]}}"#));
    let (url, asked) = daemon(vec![page(r#","next":"1003""#), page(""), users]);
    let (status, stdout, _) = run(&["queue", "--user", "alice", "--waiting", "--url", &url]);
    assert_eq!(
        (status, stdout.as_str()),
        (0, "No such jobs. `apportion queue` lists all there are.\n")
    );
    let expected = [
        "get /v1/jobs?user=alice&waiting=true&limit=1000 http/1.1",
        "get /v1/jobs?user=alice&waiting=true&limit=1000&cursor=1003 http/1.1",
        // Where nothing is found: is there such a user at all?
        "get /v1/users http/1.1",
    ];
    assert_eq!(asked.join().unwrap(), expected);
}

/// A script cannot be asked, so it needs `--yes`.
#[test]
fn work_is_not_evicted_unasked() {
    let answer = |dry_run| {
        let body = format!(
            r#"{{"changed":["node01","node02"],"unchanged":[],"dry_run":{dry_run},
                "impact":{{"shares_evicted":3,"jobs":[7,8],"kept":0}},"notes":[]}}"#
        );
        ("200 OK", body)
    };
    let vary_off = ["node", "vary-off", "node[01-02]", "--reason", "disk swap"];
    let (url, asked) = daemon(vec![answer(true)]);
    let (status, stdout, stderr) = run(&[&vary_off[..], &["--url", &url]].concat());
    // What it would mean is an answer, and no error.
    let preview = "node[01-02] would be varied off\n3 shares of 2 jobs would be evicted (7, 8)\n";
    assert_eq!((status, stdout.as_str()), (1, preview));
    let refusal = "error: nothing was done; say --yes to do it, or --dry-run to only look\n";
    assert_eq!(stderr, refusal);
    let body = r#"{"nodes":["node[01-02]"],"reason":"disk swap","dry_run":true}"#;
    let expected = format!("post /v1/nodes/vary-off http/1.1 {body}");
    assert_eq!(asked.join().unwrap(), [expected]);

    let (url, asked) = daemon(vec![answer(false)]);
    let (status, stdout, _) = run(&[&vary_off[..], &["--yes", "--url", &url]].concat());
    assert_eq!(status, 0);
    assert_eq!(stdout, "node[01-02] varied off\n3 shares of 2 jobs evicted (7, 8)\n");
    assert!(!asked.join().unwrap().concat().contains("dry_run"));
}

#[test]
fn a_configuration_is_right_or_all_of_it_is_shown() {
    let right = concat!(env!("CARGO_MANIFEST_DIR"), "/config/apportion.toml");
    let (status, stdout, stderr) = run(&["config", "check", right]);
    assert_eq!((status, stderr.as_str()), (0, ""));
    assert!(stdout.starts_with(&format!("{right} is right; ")), "{stdout}");

    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.toml");
    std::fs::write(&wrong, "[scheduler]\nhartbeat = 1\n[nonsense]\n").unwrap();
    let wrong = wrong.to_str().unwrap();
    let (status, stdout, shown) = run(&["config", "check", wrong]);
    assert_eq!((status, stdout.as_str()), (1, ""));
    assert!(shown.contains("hartbeat") && shown.contains("nonsense"), "{shown}");

    let (status, _, stderr) = run(&["serve", "--config", wrong]);
    assert_eq!((status, stderr), (78, shown));
    let (status, _, stderr) = run(&["serve", "--config", "/no/such.toml"]);
    assert_eq!((status, stderr.as_str()), (78, "error: C001: there is no file /no/such.toml\n"));
}

/// The figures come in a single document, the clusters as files that can be played separately.
#[test]
fn a_survey_gives_figures_and_clusters_to_play() {
    let folder = tempfile::tempdir().unwrap();
    let clusters = folder.path().join("clusters");
    let survey = ["simulate", "--survey", "3", "--seed", "5", "--json", "--scenarios"];
    let args = [&survey[..], &[clusters.to_str().unwrap()]].concat();
    let (status, stdout, stderr) = run(&args);
    assert_eq!((status, stderr.as_str()), (0, ""));
    assert_eq!(run(&args).1, stdout);
    let figures: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let counts = ["clusters", "seed", "net_strikes", "audit_findings"].map(|name| &figures[name]);
    assert_eq!(counts, [3, 5, 0, 0]);
    for name in [
        "jobs",
        "zero_share_jobs",
        "zero_share_all",
        "evictions",
        "passed_through",
        "quiet_evictions",
        "quiet_evictions_paid",
        "idle_usable_qshares",
    ] {
        assert!(figures[name].is_u64(), "{name}: {stdout}");
    }
    let levels: &[&str] = &["class", "user", "job"];
    let tally: &[&str] = &["clusters", "all"];
    for (name, parts) in [
        ("envy_cases", levels),
        ("envies", levels),
        ("owed_users", tally),
        ("owed_jobs", tally),
        ("owed_users_all_fit", tally),
        ("owed_jobs_all_fit", tally),
        ("counted_jobs", tally),
        ("moved_and_less", tally),
    ] {
        for part in parts {
            assert!(figures[name][part].is_u64(), "{name}, {part}: {stdout}");
        }
    }

    let mut jobs = 0;
    for index in 0..3 {
        let file = clusters.join(format!("cluster-{index:03}.json"));
        let (status, stdout, stderr) =
            run(&["simulate", "--recorded", file.to_str().unwrap(), "--json"]);
        assert_eq!((status, stderr.as_str()), (0, ""));
        let played: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(played["name"], format!("survey-5-{index:03}"));
        jobs += played["cycles"][59]["jobs"].as_array().unwrap().len();
    }
    assert_eq!(figures["jobs"], jobs);

    let (status, stdout, _) = run(&["simulate", "--survey", "3", "--seed", "5"]);
    assert_eq!(status, 0);
    assert!(stdout.contains("clusters with envy between classes"), "{stdout}");
}

#[test]
fn a_large_cluster_gives_figures_and_is_drawn_from_a_seed() {
    let play = |seed| {
        let args = ["simulate", "--scale", "40x30", "--cycles", "40", "--json", "--seed", seed];
        let (status, stdout, stderr) = run(&args);
        assert_eq!((status, stderr.as_str()), (0, ""));
        let mut figures: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        let times = figures.as_object_mut().unwrap().remove("cycle_ms").unwrap();
        assert!(times["median"].as_f64().unwrap() <= times["max"].as_f64().unwrap());
        figures
    };
    let figures = play("5");
    let counts = ["seed", "nodes", "jobs", "cycles", "audited_cycles"].map(|name| &figures[name]);
    assert_eq!(counts, [5, 40, 30, 40, 2]);
    for name in ["preempted", "last_preempting_cycle", "net_strikes"] {
        assert!(figures[name].is_u64(), "{name}: {figures}");
    }
    let quiet =
        ["quiet_evictions", "idle_usable_qshares", "audit_findings"].map(|name| &figures[name]);
    assert_eq!(quiet, [0; 3]);
    assert_eq!(figures, play("5"));
    assert_ne!(figures["preempted"], play("6")["preempted"]);

    let (status, stdout, _) = run(&["simulate", "--scale", "40x30"]);
    assert_eq!(status, 0);
    assert!(stdout.contains("  in the last 20 cycles"), "{stdout}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let (url, asked) = daemon(vec![("200 OK", NODES.to_owned())]);
    let mut child = apportion(&["nodes", "--url", &url]).stdout(Stdio::piped()).spawn().unwrap();
    // Closed before the answer comes, so that the first write meets a broken pipe.
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    asked.join().unwrap();
}

/// A terminating signal ends the daemon cleanly: the store is a single file again, without open
/// questions.
#[test]
fn serving_ends_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/config/apportion.toml");
    let state = folder.path().join("state.db");
    let args = ["serve", "--config", config, "--listen", "127.0.0.1:0", "--state"];
    let mut child = apportion(&args).arg(&state).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the record is open", child.stderr.as_mut().unwrap());
    let beside = ["state.db-wal", "state.db-shm"].map(|name| folder.path().join(name));
    assert!(beside.iter().all(|file| file.exists()), "files beside a record in use");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(child.wait().unwrap().success());
    assert!(beside.iter().all(|file| !file.exists()), "files beside a closed record");
}

/// Reads until `word` has come by.
fn wait_for(word: &str, stream: &mut impl Read) {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(word) {
        let mut byte = [0];
        assert_ne!(stream.read(&mut byte).unwrap(), 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&byte);
    }
}
