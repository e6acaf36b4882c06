//! Times of campaigns: from flags to the planner, on a daemon, an orchestrator and agents.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::support::fleet::{CONFIG, Fleet, Plan, user};
use apportion::api::wire::JobInfo;
use serde_json::json;

const HOUR: u64 = 3_600_000;

/// Runs a command of the command line, as the user that runs work here. Returns what it says.
async fn apportion(fleet: &Fleet, command: &str, flags: &[&str]) -> (Option<i32>, String) {
    let (head, work, user) = (fleet.head.clone(), fleet.work(), user());
    let always = [command, "--user", &user, "--memory", "256MB"];
    let words = always.iter().chain(flags).chain(&["--", "sleep", "600"]);
    let words: Vec<String> = words.map(|word| (*word).to_owned()).collect();
    let run = move || {
        let output = Command::new(env!("CARGO_BIN_EXE_apportion"))
            .args(words)
            .env("APPORTION_URL", &head)
            .env("APPORTION_ORCHESTRATOR", &head)
            .current_dir(work)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// The job of the daemon with this duration.
async fn job_of(fleet: &Fleet, duration: u64) -> JobInfo {
    let find = async |fleet: &Fleet| {
        let mut jobs = fleet.jobs().await?.jobs.into_iter();
        jobs.find(|job| job.duration_ms == Some(duration))
    };
    fleet.until(&format!("a job of {duration} ms"), find).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flags_of_times_reach_the_planner() {
    let batch = "[[class]]\nname = \"batch\"\npolicy = \"fixed-share\"\npriority = 3\nnodepool = \"main\"\ngangs = true\n";
    let config = format!("{CONFIG}{batch}");
    let (detours, agent_flags, head_flags) =
        (BTreeMap::new(), ["--memory", "1GB"], ["--linger", "1s"]);
    let plan = Plan {
        config: &config,
        agents: 2,
        agent_flags: &agent_flags,
        head_flags: &head_flags,
        detours,
        ports: None,
    };
    let fleet = Fleet::start(&plan).await;
    let start = fleet.jobs().await;
    assert!(start.is_none_or(|page| page.jobs.is_empty()));

    let run =
        ["--detach", "--class", "batch", "--nodes", "2", "--time", "2:00:00", "--deadline", "+3h"];
    let (status, said) = apportion(&fleet, "run", &run).await;
    assert_eq!(status, Some(0), "{said}{}", fleet.logs());
    let running = job_of(&fleet, 2 * HOUR).await;
    assert!(running.deadline_ms.is_some() && running.not_before_ms.is_none(), "{running:?}");
    // It starts, as it is over before its deadline.
    let has_begun = async |fleet: &Fleet| {
        let jobs = fleet.jobs().await?.jobs;
        jobs.into_iter().find(|job| job.id == running.id && job.shares.len() == 2)
    };
    fleet.until("both ranks have a share", has_begun).await;

    let submit = [
        "--class",
        "batch",
        "--nodes",
        "1",
        "--time",
        "90",
        "--begin",
        "+5h",
        "--reservation",
        "r1",
    ];
    let (status, said) = apportion(&fleet, "submit", &submit).await;
    assert_eq!(status, Some(0), "{said}{}", fleet.logs());
    let waiting = job_of(&fleet, 90 * 60_000).await;
    let start = waiting.not_before_ms.unwrap();
    assert_eq!(waiting.reservation.as_deref(), Some("r1"));
    assert!(waiting.shares.is_empty(), "{waiting:?}");
    assert!((4 * HOUR..6 * HOUR).contains(&start.abs_diff(waiting.submitted_ms)), "{waiting:?}");

    // In a file, a task of a campaign that is no gang has times as well.
    let document = json!({
        "command": ["sleep", "600"], "memory": "128MB", "cwd": fleet.work(), "user": user(),
        "time": "3h", "deadline": start,
    });
    fleet.submit(document).await;
    assert_eq!(job_of(&fleet, 3 * HOUR).await.deadline_ms, Some(start));

    for (flags, words) in [
        (&["--time", "soon"][..], "time: `\"soon\"` does not fit; write a length"),
        (&["--begin", "18h"], "18:00"),
        (&["--begin", "+2h", "--deadline", "+1h"], "deadline: is not after `begin`"),
    ] {
        let (status, said) = apportion(&fleet, "submit", flags).await;
        assert!(status != Some(0) && said.contains(words), "{flags:?}: {said}");
    }
}
