//! Transient services of systemd: of the system, or of the user's own manager.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;

use super::{MAX_TASKS, NotStarted, Plan, arguments};
use crate::agent::run::books::Process;
use crate::orchestrator::wire::SlotEnd;

/// How long systemd may take for one answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether services of the system can be used.
pub fn probe_system(is_root: bool) -> Result<(), String> {
    let is_running = Path::new("/run/systemd/system").is_dir();
    if !is_running {
        let is_installed = Path::new("/usr/bin/systemd-run").exists();
        let why = if is_installed { "it is installed but not running" } else { "not installed" };
        return Err(why.to_owned());
    }
    if !has_memory(Path::new("/sys/fs/cgroup")) {
        return Err("its cgroups are not of version 2 with the memory controller".to_owned());
    }
    if is_root { Ok(()) } else { Err("the agent is not root".to_owned()) }
}

/// Whether services of the user's manager can be used.
pub fn probe_user(is_root: bool) -> Result<(), String> {
    if is_root {
        return Err("for agents that are not root".to_owned());
    }
    let uid = rustix::process::getuid().as_raw();
    if !Path::new(&format!("/run/user/{uid}/systemd")).is_dir() {
        return Err("no manager of this user runs; `loginctl enable-linger` starts one".to_owned());
    }
    let slice = format!("/sys/fs/cgroup/user.slice/user-{uid}.slice/user@{uid}.service");
    if has_memory(Path::new(&slice)) {
        Ok(())
    } else {
        Err("the memory controller is not delegated to the user's manager".to_owned())
    }
}

fn has_memory(cgroup: &Path) -> bool {
    let text = fs::read_to_string(cgroup.join("cgroup.controllers")).unwrap_or_default();
    text.split_whitespace().any(|name| name == "memory")
}

fn unit(slot: &str) -> String {
    format!("apportion-slot-{slot}.service")
}

/// Starts a slot as a transient service.
pub async fn start(plan: &Plan, of_user: bool, boot: &str) -> Result<Process, NotStarted> {
    let unit = unit(&plan.slot);
    let mut command = Command::new("systemd-run");
    if of_user {
        command.arg("--user");
    }
    let stop_seconds = plan.grace_ms.div_ceil(1_000).saturating_add(5);
    command.args(["--quiet", "--no-block", "--collect", "--slice=apportion.slice"]);
    command.arg(format!("--unit={unit}"));
    command.arg(format!("--setenv=APPORTION_SLOT={}", plan.slot));
    if let Some(identity) = plan.identity.as_ref().filter(|_| !of_user) {
        command.arg(format!("--uid={}", identity.uid)).arg(format!("--gid={}", identity.gid));
        let groups: Vec<String> = identity.groups.iter().map(u32::to_string).collect();
        command.arg(format!("--property=SupplementaryGroups={}", groups.join(" ")));
    }
    for property in [
        format!("MemoryMax={}M", plan.memory_mb),
        "MemorySwapMax=0".to_owned(),
        // Else one task over the limit would end the whole slot.
        "OOMPolicy=continue".to_owned(),
        "Delegate=memory pids".to_owned(),
        format!("TasksMax={MAX_TASKS}"),
        format!("TimeoutStopSec={stop_seconds}"),
        // SIGTERM is for the slot alone: it asks its tasks itself, and knows then why they end.
        "KillMode=mixed".to_owned(),
        "OOMScoreAdjust=-100".to_owned(),
        format!("NoNewPrivileges={}", if plan.allow_setuid { "no" } else { "yes" }),
        "UMask=0022".to_owned(),
        "LimitCORE=0".to_owned(),
    ] {
        command.arg(format!("--property={property}"));
    }
    command.arg("--").arg(&plan.program).args(arguments(plan, false));
    let not_started = |why: String| (SlotEnd::NotStarted, why);
    let output = output(command).await.map_err(not_started)?;
    if !output.status.success() {
        let says = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(not_started(format!("systemd-run failed: {says}")));
    }
    let process = main_process(&unit, of_user, boot).await.map_err(not_started)?;
    if let Err(why) = read_back(&process, plan.memory_mb << 20) {
        kill(&plan.slot, of_user).await;
        return Err((SlotEnd::NoLimit, why));
    }
    Ok(process)
}

/// The main process of a unit, once systemd has started it.
async fn main_process(unit: &str, of_user: bool, boot: &str) -> Result<Process, String> {
    for _ in 0..200 {
        let mut command = Command::new("systemctl");
        if of_user {
            command.arg("--user");
        }
        command.args(["show", "--property=MainPID", "--value", unit]);
        let output = output(command).await?;
        let pid: i32 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(0);
        if let Some(process) =
            Some(pid).filter(|pid| *pid > 0).and_then(|pid| Process::of(pid, boot))
        {
            return Ok(process);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(format!("systemd did not start {unit} in 10 s"))
}

/// Compares the limit that the kernel has for the process with what was asked for. The slot may have
/// moved into a leaf below its unit.
fn read_back(process: &Process, bytes: u64) -> Result<(), String> {
    let text = fs::read_to_string(format!("/proc/{}/cgroup", process.pid)).unwrap_or_default();
    let path = text.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let cgroup = Path::new("/sys/fs/cgroup").join(path);
    let cgroup =
        if cgroup.ends_with("slot") { cgroup.parent().unwrap_or(&cgroup) } else { &cgroup };
    let found = fs::read_to_string(cgroup.join("memory.max")).unwrap_or_default();
    if found.trim() == bytes.to_string() {
        return Ok(());
    }
    Err(format!("the limit of {} should be {bytes} and is `{}`", cgroup.display(), found.trim()))
}

/// Kills all processes of a slot's unit.
pub async fn kill(slot: &str, of_user: bool) {
    let mut command = Command::new("systemctl");
    if of_user {
        command.arg("--user");
    }
    command.args(["kill", "--kill-whom=all", "--signal=KILL", &unit(slot)]);
    // A unit that is gone has nothing to kill.
    let _ = output(command).await;
}

async fn output(mut command: Command) -> Result<Output, String> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    match tokio::time::timeout(PATIENCE, command.output()).await {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(error)) => Err(format!("cannot run {name}: {error}")),
        Err(_) => Err(format!("{name} did not end in 30 s")),
    }
}
