//! What fingers type that know other programs: a line for each habit, run against the real program and a
//! real daemon. It works, or the message names the command that does.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::daemon;
use std::path::Path;
use std::process::Command;

use crate::support::daemon::{CONFIG, Daemon, job};
use serde_json::Value;
use tempfile::TempDir;

/// What is to come of a habit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It ends with 0, and its answer has these words.
    Works(&'static str),
    /// It ends with 2, and its message names this command of ours.
    Leads(&'static str),
    /// It ends with something else than 0, and the message has these words.
    Says(&'static str),
}

use Outcome::{Leads, Says, Works};

const HABITS: &[(&str, Outcome)] = &[
    // Slurm
    ("squeue", Leads("apportion queue")),
    ("squeue -u ann", Leads("apportion queue")),
    ("squeue --me", Leads("--me")),
    ("queue -u ann", Works("ann")),
    ("queue -t waiting,running,expanding", Works("ann")),
    ("queue -t WAITING", Works("impossible")),
    ("queue -j 1", Works("ann")),
    ("queue --me", Works("No such jobs")),
    ("sinfo", Leads("apportion nodes")),
    ("sinfo -N -l", Leads("apportion nodes")),
    ("scontrol show job 1", Leads("apportion job show")),
    ("scontrol show node n1", Leads("apportion node show")),
    ("scontrol show partition", Leads("apportion classes")),
    ("scontrol update nodename=n1 state=drain", Leads("apportion node vary-off")),
    ("scontrol create reservation users=ann", Leads("apportion reservation create")),
    ("scontrol show res", Leads("apportion reservation list")),
    ("scontrol show reservation r1", Leads("apportion reservation list")),
    ("scontrol delete reservationname=r1", Leads("apportion reservation delete")),
    ("reservations", Works("No reservation")),
    ("reservation r1", Says("no reservation `r1`")),
    ("reservation rm r1", Works("no reservation `r1`")),
    ("scontrol hold 1", Leads("apportion campaign suspend")),
    ("scontrol release 1", Leads("apportion campaign resume")),
    ("scontrol reconfigure", Leads("apportion config apply")),
    ("scontrol ping", Leads("apportion diag")),
    ("scancel 1", Leads("apportion campaign cancel")),
    ("sbatch job.sh", Leads("apportion submit")),
    ("srun hostname", Leads("apportion run")),
    ("salloc -N1", Leads("apportion submit")),
    ("sacct -j 1", Leads("apportion campaign list")),
    ("sshare", Leads("apportion users")),
    ("sprio -j 1", Leads("apportion why")),
    ("sdiag", Leads("apportion diag")),
    ("sstat 1", Leads("apportion job show")),
    ("sreport cluster", Leads("apportion users")),
    // Kubernetes
    ("get nodes", Leads("apportion nodes")),
    ("get pods -A", Leads("apportion queue")),
    ("get events", Leads("apportion events")),
    ("describe node n1", Leads("apportion node show")),
    ("describe job 1", Leads("apportion job show")),
    ("cordon n1", Leads("apportion node vary-off")),
    ("drain n2 --reason disk --dry-run", Works("n2 would be varied off")),
    ("uncordon n2", Works("n2 already on")),
    ("delete pod 1", Leads("apportion campaign cancel")),
    ("delete node n1", Leads("apportion node forget")),
    ("apply -f new.toml", Leads("apportion config apply")),
    ("diff -f new.toml", Leads("apportion config plan")),
    ("top nodes", Says("apportion diag")),
    ("explain 1", Works("job 1 holds")),
    ("cluster-info", Leads("apportion diag")),
    ("rollout undo", Leads("apportion config history")),
    ("completion bash", Works("apportion")),
    ("nodes -o yaml", Works("- name: n1")),
    ("nodes -o name", Works("n1\nn2")),
    ("nodes -o wide", Works("QUANTUM")),
    ("nodes -o json", Works("\"name\": \"n1\"")),
    ("nodes --sort-by name", Says("--sort")),
    ("nodes --sort memory", Works("n[1-2]")),
    ("nodes n*", Works("n[1-2]")),
    // Nomad
    ("node status n1", Works("n1 in pool main")),
    ("node drain n2 --reason disk --dry-run", Works("n2 would be varied off")),
    ("node eligibility -disable n1", Leads("apportion node vary-off")),
    ("job status 1", Works("job 1 of ann")),
    ("job run x.nomad", Leads("apportion submit")),
    ("job plan x.nomad", Leads("apportion submit")),
    ("job stop 1", Leads("apportion campaign cancel")),
    ("alloc logs 1", Leads("apportion task logs")),
    ("server members", Leads("apportion diag")),
    ("agent-info", Leads("apportion diag")),
    ("monitor", Leads("apportion events -f")),
    ("status", Works("daemon:")),
    // HyperQueue
    ("job list", Works("ann")),
    ("job info 1", Works("job 1 of ann")),
    ("job cat 1 stdout", Leads("apportion task logs")),
    ("job cancel 1", Leads("apportion campaign cancel")),
    ("job wait 1", Leads("apportion campaign wait")),
    ("job progress 1", Leads("apportion campaign stat")),
    ("task list 1", Leads("apportion campaign tasks")),
    ("worker list", Works("n[1-2]")),
    ("worker stop 1", Leads("apportion node show")),
    ("server start", Leads("apportion serve")),
    ("server stop", Leads("apportion down")),
    ("dashboard", Leads("apportion top")),
    // systemd
    ("start", Leads("apportion up")),
    ("stop", Leads("apportion down")),
    ("restart", Leads("apportion config apply")),
    ("reload", Leads("apportion config apply")),
    ("daemon-reload", Leads("apportion config apply")),
    ("is-active", Leads("apportion diag")),
    ("list-units", Leads("apportion queue")),
    ("log -f", Leads("apportion task logs")),
    // Any shell, and this program under slips of the finger
    ("help", Works("Commands:")),
    ("--help", Works("Examples:")),
    ("version", Works("apportion ")),
    ("-V", Works("apportion ")),
    ("jobs", Works("ann")),
    ("ps", Works("ann")),
    ("ls", Works("ann")),
    ("kill 1", Leads("apportion campaign cancel")),
    ("whoami", Leads("apportion user show")),
    ("history", Leads("apportion events")),
    ("top", Says("apportion diag")),
    ("vary-off n2 --reason disk --dry-run", Works("n2 would be varied off")),
    ("vary-off n? --reason disk", Says("every node there is")),
    ("vary-off n2 --reason disk", Says("--yes")),
    ("vary_off n2 --reason disk --dry-run", Works("n2 would be varied off")),
    ("vary-on n1 --yes", Works("n1 already on")),
    ("job 1", Works("job 1 of ann")),
    ("user ann", Works("user ann: 1 job")),
    ("node n1", Works("n1 in pool main")),
    ("class normal", Works("class normal: fair-share")),
    ("why", Works("job 3 of cid, which has waited longest")),
    ("why 1 2", Works("job 2 holds")),
    ("why seven", Says("a job has a number")),
    ("--json nodes", Works("\"name\": \"n1\"")),
    ("queue -n 1 --no-header", Works("ann")),
    ("queue --user anm", Says("did you mean `ann`?")),
    ("queue --class nromal", Says("did you mean `normal`?")),
    ("quue", Leads("apportion queue")),
    ("nods", Leads("apportion node")),
    ("slots", Says("apportion --help")),
    ("vary_of n1", Leads("apportion vary_off")),
    ("node shw n1", Says("show")),
    ("qstat", Leads("apportion queue")),
    ("qsub job.sh", Leads("apportion submit")),
    ("bjobs", Leads("apportion queue")),
];

/// Two nodes, two users with a job each, and a job of a third that can never start.
async fn shared(folder: &TempDir) -> Daemon {
    let daemon = Daemon::start(folder.path(), CONFIG);
    daemon.nodes("n1=4 n2=4").await;
    let mut huge = job(3, "cid", &[]);
    huge["memory_mb"] = (64 * 1024).into();
    daemon.publish(1, &[job(1, "ann", &[]), job(2, "bob", &[]), huge]).await;
    let held = |schedule: &Value, id| daemon::shares(schedule, id, "shares").len();
    daemon.schedule_when(|schedule| held(schedule, 1) == 4 && held(schedule, 2) == 4).await;
    daemon
}

/// What is wrong with what comes of typing `words`, if anything.
fn fault(words: &str, outcome: Outcome, address: &str, home: &Path) -> Option<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_apportion"))
        .args(words.split(' '))
        // As one types it: without a scheme.
        .env("APPORTION_URL", address)
        .env("HOME", home)
        .env_remove("XDG_STATE_HOME")
        .env_remove("APPORTION_STATE")
        .output()
        .unwrap();
    let status = output.status.code().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let is_right = match outcome {
        Works(told) => status == 0 && stderr.is_empty() && stdout.contains(told),
        Leads(command) => {
            status == 2 && stdout.is_empty() && stderr.contains("tip: ") && stderr.contains(command)
        }
        Says(told) => status != 0 && stderr.contains(told),
    };
    let hidden = ["rm_q", "rm_reconfigure", "shim"].iter().any(|name| stderr.contains(name));
    (!is_right || hidden).then(|| format!("`{words}`: {outcome:?}, but {status}\n{stdout}{stderr}"))
}

#[tokio::test]
async fn a_habit_works_or_is_led_to_the_command_that_does() {
    let folder = TempDir::new().unwrap();
    let daemon = shared(&folder).await;
    let address = daemon.url.trim_start_matches("http://");
    let faults: Vec<String> = HABITS
        .iter()
        .filter_map(|(words, outcome)| fault(words, *outcome, address, folder.path()))
        .collect();
    assert!(100 <= HABITS.len(), "only {} habits are tried", HABITS.len());
    assert!(faults.is_empty(), "{} fail:\n{}", faults.len(), faults.join("\n"));
}
