//! A job log, replayed by the command as sites use it.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]
#![expect(clippy::print_stderr, reason = "says what was left out")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Runs `simulate` to the end: exit status, standard output, standard error.
fn simulate(args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_apportion"));
    command.arg("simulate").args(args).stdin(Stdio::null()).env_remove("APPORTION_CONFIG");
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// The report of a replay in JSON.
fn figures(args: &[&str]) -> Value {
    let (status, stdout, stderr) = simulate(&[args, &["--report", "json"]].concat());
    assert_eq!((status, stderr.as_str()), (0, ""), "{args:?}");
    serde_json::from_str(&stdout).unwrap()
}

const SMALL: [&str; 4] = ["--swf", "examples/small.swf", "--node-memory", "128GB"];

/// A file of workloads that are not part of the project; `None`, said aloud, where they are absent.
fn workload(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/workloads").join(file);
    if !path.exists() {
        eprintln!("{} is absent: nothing is checked against it", path.display());
    }
    path.exists().then_some(path)
}

#[test]
fn the_text_report_fits_80_columns() {
    let (status, stdout, stderr) = simulate(&SMALL);
    assert_eq!((status, stderr.as_str()), (0, ""));
    for word in
        ["240 jobs of 4 users", "1 row left out", "apportion", "conservative", "easy", "fcfs"]
    {
        assert!(stdout.contains(word), "{word}: {stdout}");
    }
    let widest = stdout.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{stdout}");
    assert_eq!(simulate(&SMALL).1, stdout, "the same log gives the same report");
}

#[test]
fn the_json_report_has_every_policy_and_user() {
    let report = figures(&SMALL);
    assert_eq!([&report["jobs"], &report["users"], &report["nodes"]], [240, 4, 8]);
    let policies = report["policies"].as_array().unwrap();
    let names: Vec<&str> =
        policies.iter().map(|policy| policy["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["apportion", "conservative", "easy", "fcfs"]);
    for policy in policies {
        assert_eq!([&policy["jobs"], &policy["preempted"], &policy["lost_ms"]], [240, 0, 0]);
        let users = policy["users"].as_array().unwrap();
        let number = |value: &Value| value.as_u64().unwrap();
        // The mean over all jobs is that of the users, up to what each of them rounds down.
        let sum: u64 =
            users.iter().map(|user| number(&user["jobs"]) * number(&user["mean_wait_ms"])).sum();
        assert!(sum.abs_diff(number(&policy["wait_ms"]["mean"]) * 240) <= 480, "{policy}");
        let milli = number(&policy["utilisation_milli"]);
        assert!((400..=1000).contains(&milli), "{milli}");
        let course = policy["course_milli"].as_array().unwrap();
        assert!(course.iter().all(|milli| number(milli) <= 1000), "no moment is over capacity");
        let mean: u64 = course.iter().map(&number).sum::<u64>().div_euclid(240);
        let share = (mean * number(&report["span_ms"])).div_euclid(number(&policy["makespan_ms"]));
        assert!(share.abs_diff(milli) <= 3, "{share} is not {milli}");
    }
    let some = figures(&[&SMALL[..], &["--policy", "fcfs,easy"]].concat());
    assert_eq!(some["policies"].as_array().unwrap()[..], policies[2..]);
}

/// Elements that have no end.
const VOID: [&str; 3] = ["!DOCTYPE", "meta", "br"];

/// Checks that every element ends where it should.
fn is_well_formed(page: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    for (at, _) in page.match_indices('<') {
        let tag = page[at + 1..].split('>').next().unwrap();
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap();
        if let Some(end) = tag.strip_prefix('/') {
            if open.pop() != Some(end) {
                return Err(format!("</{end}> ends something else: {open:?}"));
            }
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
        if !tag.matches('"').count().is_multiple_of(2) {
            return Err(format!("<{tag}> has an open quote"));
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} never end")) }
}

#[test]
fn the_html_report_is_a_single_file_with_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("<b>&log.swf");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(SMALL[1]), &log).unwrap();
    let args = ["--swf", log.to_str().unwrap(), "--node-memory", "128GB", "--report", "html"];
    let (status, page, stderr) = simulate(&args);
    assert_eq!((status, stderr.as_str()), (0, ""));
    is_well_formed(&page).unwrap();
    assert!(!page.contains("<b>"), "names are escaped");
    for foreign in ["<script", "<link", "src=", "url(", "@import", "http:", "https:", "href="] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    for part in [
        "prefers-color-scheme: dark",
        "Memory in use over time",
        "Cumulative distribution of waits",
        "Bounded slowdown by user",
        "<title>easy, user 3: slowdown",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(page.matches(r#"<path class="area"#).count(), 4);
    assert_eq!(is_well_formed("<a><b/></a>"), Ok(()));
    assert!(is_well_formed("<a><b></a>").is_err() && is_well_formed("<a>").is_err());
}

#[test]
fn a_packed_log_is_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("small.swf.gz");
    let text = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(SMALL[1])).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&text).unwrap();
    fs::write(&packed, gzip.finish().unwrap()).unwrap();
    let path = packed.to_str().unwrap();
    let mut report = figures(&["--swf", path, "--node-memory", "128GB", "--policy", "fcfs"]);
    assert_eq!(report["log"], "small.swf.gz");
    report["log"] = "small.swf".into();
    assert_eq!(report, figures(&[&SMALL[..], &["--policy", "fcfs"]].concat()));

    fs::write(&packed, &text).unwrap();
    let (status, _, stderr) = simulate(&["--swf", path, "--node-memory", "128GB"]);
    assert!(status == 1 && stderr.contains("it should be the whole output of `gzip`"), "{stderr}");
}

#[test]
fn sacct_text_is_replayed_under_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let [log, config] = ["jobs.txt", "apportion.toml"].map(|name| folder.path().join(name));
    let mut text =
        "JobID|User|Partition|Submit|ElapsedRaw|TimelimitRaw|ReqCPUS|NNodes|ReqMem|State\n"
            .to_owned();
    let row = |number: u32| {
        let queue = if number.is_multiple_of(4) { "long" } else { "short" };
        let user = number % 3;
        format!("{number}|u{user}|{queue}|2026-01-02T00:{number:02}:00|1800|60|4|1|16G|COMPLETED\n")
    };
    text.extend((0..40).map(row));
    fs::write(&log, text).unwrap();
    let pool = "[[nodepool]]\nname = \"all\"\nnodes = [\"n[1-2]\"]\n";
    let class = |name: &str, more: &str| {
        format!(
            "[[class]]\nname = \"{name}\"\npolicy = \"fixed-share\"\nnodepool = \"all\"\n{more}"
        )
    };
    let text =
        [pool, &class("batch", "gangs = true\ndefault = true\n"), &class("late", "priority = 9\n")];
    fs::write(&config, format!("[scheduler]\nquantum = \"4GB\"\n{}", text.concat())).unwrap();
    let args = [
        "--sacct",
        log.to_str().unwrap(),
        "--config",
        config.to_str().unwrap(),
        "--node-memory",
        "64GB",
        "--node-cpus",
        "16",
        "--class-of",
        "long=late",
    ];
    let report = figures(&args);
    assert_eq!([&report["jobs"], &report["users"], &report["nodes"]], [40, 3, 2]);
    assert!(report["readings"].to_string().contains("jobs go to class `batch`"), "{report}");
    // Eight jobs fit at a time: 40 of them take at least five times half an hour.
    for policy in report["policies"].as_array().unwrap() {
        assert_eq!(policy["jobs"], 40, "{policy}");
        let makespan = policy["makespan_ms"].as_u64().unwrap();
        assert!((9_000_000..10_200_000).contains(&makespan), "{makespan}");
    }
}

#[test]
fn errors_name_the_line_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.swf");
    let path = log.to_str().unwrap();
    let said = |text: &str, more: &[&str]| {
        fs::write(&log, text).unwrap();
        let (status, stdout, stderr) = simulate(&[&["--swf", path], more].concat());
        assert_eq!((status, stdout.as_str()), (1, ""), "{text:?}");
        stderr
    };
    let row = "1 0 0 60 2 -1 -1 2 60 2048 1 7 1 1 3 1 -1 -1\n";
    let stderr = said("; x\nJobID|User\n1|ann\n", &[]);
    assert!(
        stderr.contains("log.swf, line 2: this is no row of numbers; give a file in"),
        "{stderr}"
    );
    let stderr = said(row, &[]);
    assert!(stderr.contains("add --node-memory 'n[1-64]=128GB'"), "{stderr}");
    let stderr = said(row, &["--node-memory", "n[1-2]=512MB"]);
    assert!(stderr.contains("no node has memory for one quantum of 1 GB"), "{stderr}");
    let stderr = said(row, &["--node-memory", "n[1-2]=5GB", "--class", "fast"]);
    assert!(stderr.contains("there is no class `fast`; name classes of a config"), "{stderr}");
    let wrong: [&[&str]; 4] = [
        &["--policy", "easy", "--survey", "3"],
        &["--swf", path, "--sacct", path],
        &["--swf", path, "--policy", "sjf"],
        &["--scale", "10x10", "--report", "html"],
    ];
    for args in wrong {
        assert_eq!(simulate(args).0, 2, "{args:?}");
    }
}

#[test]
fn small_logs_of_others_are_replayed() {
    for (number, jobs) in [(1, 12), (2, 12), (3, 16)] {
        let Some(log) = workload(&format!("tiny/jaros{number}.swf")) else { return };
        let report = figures(&["--swf", log.to_str().unwrap()]);
        assert_eq!(report["jobs"], jobs);
        for policy in report["policies"].as_array().unwrap() {
            assert_eq!([&policy["jobs"], &policy["wait_ms"]["max"]], [jobs, 0], "{policy}");
        }
    }
}

/// 89 days of a real cluster, with rows that make no sense and a job that fits no node.
#[test]
fn a_real_log_is_replayed_in_seconds() {
    let Some(log) = workload("metacentrum/wagap-2013.swf.gz") else { return };
    let report = figures(&["--swf", log.to_str().unwrap(), "--policy", "fcfs,easy"]);
    assert_eq!([&report["jobs"], &report["users"], &report["nodes"]], [17_898, 75, 68]);
    let notes = report["notes"].as_array().unwrap();
    let negative = notes.iter().find(|note| note["what"] == "negative run time").unwrap();
    assert_eq!(
        (&negative["rows"], &negative["lines"]),
        (&2.into(), &serde_json::json!([4186, 4200]))
    );
    let [easy, fcfs] = &report["policies"].as_array().unwrap()[..] else { panic!("{report}") };
    for policy in [easy, fcfs] {
        assert_eq!(policy["jobs"], 17_897);
        assert_eq!(policy["never_ran"][0]["examples"], serde_json::json!(["8687"]));
    }
    let mean = |policy: &Value| policy["wait_ms"]["mean"].as_u64().unwrap();
    assert!(mean(easy) * 4 < mean(fcfs), "backfill pays: {} and {}", mean(easy), mean(fcfs));
}
