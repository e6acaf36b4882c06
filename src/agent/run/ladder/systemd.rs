//! Transient services of systemd: of the system, or of the user's own manager.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;

use super::{SlotNotStarted, StartPlan, arguments};
use crate::agent::run::records::ProcessIdentity;
use crate::orchestrator::wire::SlotEnd;

/// Longest time for an answer of systemd.
const PATIENCE: Duration = Duration::from_secs(30);

/// Checks that slots can run as services of the system.
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

/// Checks that slots can run as services of the user's manager.
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
pub async fn start(
    plan: &StartPlan,
    of_user: bool,
    boot: &str,
) -> Result<ProcessIdentity, SlotNotStarted> {
    let unit = unit(&plan.slot);
    let mut command = program("systemd-run", of_user);
    command.args(flags(plan, &unit, of_user)).arg("--").arg(&plan.program);
    command.args(arguments(plan, false).iter().map(|word| escaped(word)));
    let not_started = |why: String| (SlotEnd::NotStarted, why);
    let output = output(command).await.map_err(not_started)?;
    if !output.status.success() {
        let says = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(not_started(format!("systemd-run failed: {says}")));
    }
    let process = match main_process(&unit, of_user, boot).await {
        Ok(process) => process,
        Err(why) => {
            // The kill keeps the unit from starting later.
            kill(&plan.slot, of_user).await;
            return Err(not_started(why));
        }
    };
    if let Err(why) = read_back(&process, &unit, plan.memory_mb << 20) {
        kill(&plan.slot, of_user).await;
        return Err((SlotEnd::NoLimit, why));
    }
    Ok(process)
}

/// Returns the settings of a slot's unit, as flags of `systemd-run`.
fn flags(plan: &StartPlan, unit: &str, of_user: bool) -> Vec<String> {
    let stop_seconds = plan.grace_ms.div_ceil(1_000).saturating_add(5);
    let mut flags: Vec<String> =
        ["--quiet", "--no-block", "--collect", "--slice=apportion.slice"].map(str::to_owned).into();
    flags.push(format!("--unit={unit}"));
    flags.push(format!("--setenv=APPORTION_SLOT={}", plan.slot));
    if let Some(identity) = plan.identity.as_ref().filter(|_| !of_user) {
        flags.push(format!("--uid={}", identity.uid));
        flags.push(format!("--gid={}", identity.gid));
        let groups: Vec<String> = identity.groups.iter().map(u32::to_string).collect();
        flags.push(format!("--property=SupplementaryGroups={}", groups.join(" ")));
    }
    let properties = [
        format!("MemoryMax={}M", plan.memory_mb),
        "MemorySwapMax=0".to_owned(),
        // Otherwise a task over the limit would end the whole slot.
        "OOMPolicy=continue".to_owned(),
        "Delegate=memory pids".to_owned(),
        format!("TasksMax={}", plan.max_processes),
        format!("TimeoutStopSec={stop_seconds}"),
        // SIGTERM is for the slot alone: it asks its tasks itself, and knows then why they end.
        "KillMode=mixed".to_owned(),
        "OOMScoreAdjust=-100".to_owned(),
        format!("NoNewPrivileges={}", if plan.allow_setuid { "no" } else { "yes" }),
        "UMask=0022".to_owned(),
        "LimitCORE=0".to_owned(),
    ];
    flags.extend(properties.map(|property| format!("--property={property}")));
    flags
}

/// An argument as systemd takes it: it would replace the names of variables.
fn escaped(word: &str) -> String {
    word.replace('$', "$$")
}

/// A program that talks to the manager: of the system, or of this user.
fn program(name: &str, of_user: bool) -> Command {
    let mut command = Command::new(name);
    // With this variable, the program would speak to systemd in the agent's name.
    command.env_remove("NOTIFY_SOCKET");
    if of_user {
        // Without a session the variable is not set, and the manager would not be found.
        let uid = rustix::process::getuid().as_raw();
        command.arg("--user").env("XDG_RUNTIME_DIR", format!("/run/user/{uid}"));
    }
    command
}

/// The main process of a unit, once systemd has started it.
async fn main_process(unit: &str, of_user: bool, boot: &str) -> Result<ProcessIdentity, String> {
    for _ in 0..200 {
        let pid: i32 = shown("MainPID", unit, of_user).await?.parse().unwrap_or(0);
        if let Some(process) =
            Some(pid).filter(|pid| *pid > 0).and_then(|pid| ProcessIdentity::of(pid, boot))
        {
            return Ok(process);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(format!("systemd did not start {unit} in 10 s"))
}

/// A property of a unit, as the manager shows it.
async fn shown(property: &str, unit: &str, of_user: bool) -> Result<String, String> {
    let mut command = program("systemctl", of_user);
    command.args(["show", "--value"]).arg(format!("--property={property}")).arg(unit);
    let output = output(command).await?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Compares the kernel's limit of the unit with the requested limit.
fn read_back(process: &ProcessIdentity, unit: &str, bytes: u64) -> Result<(), String> {
    let text = fs::read_to_string(format!("/proc/{}/cgroup", process.pid)).unwrap_or_default();
    let path = text.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let cgroup = Path::new("/sys/fs/cgroup").join(of_unit(Path::new(path), unit));
    let found = fs::read_to_string(cgroup.join("memory.max")).unwrap_or_default();
    if found.trim() == bytes.to_string() {
        return Ok(());
    }
    Err(format!("the limit of {} should be {bytes} and is `{}`", cgroup.display(), found.trim()))
}

/// Returns the cgroup of the unit. `path` is that cgroup or a descendant, as the slot moves between
/// its own cgroups.
fn of_unit<'a>(path: &'a Path, unit: &str) -> &'a Path {
    path.ancestors().find(|path| path.ends_with(unit)).unwrap_or(path)
}

/// Kills all processes of a slot's unit, and cancels a start that is still queued.
pub async fn kill(slot: &str, of_user: bool) {
    let unit = unit(slot);
    for words in [&["kill", "--signal=KILL"][..], &["stop"]] {
        let mut command = program("systemctl", of_user);
        command.args(words).arg(&unit);
        // A unit that is gone has nothing to kill.
        let _ = output(command).await;
    }
}

/// True if the slot's unit runs no process and will run none. False if systemd does not answer.
pub async fn is_gone(slot: &str, of_user: bool) -> bool {
    let state = shown("ActiveState", &unit(slot), of_user).await;
    state.is_ok_and(|state| state == "inactive" || state == "failed")
}

/// True if services of this user outlive its sessions.
pub fn lingers() -> bool {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::current()).ok().flatten();
    user.is_some_and(|user| Path::new("/var/lib/systemd/linger").join(user.name).exists())
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::slot::UserIdentity;

    #[test]
    fn a_unit_has_the_limit_and_the_identity_of_its_slot() {
        let plan = StartPlan {
            program: PathBuf::from("/usr/bin/apportion"),
            slot: "o1-7".to_owned(),
            folder: PathBuf::from("/srv/a $b/slots/o1-7"),
            identity: Some(UserIdentity { uid: 1000, gid: 1000, groups: vec![1000, 27] }),
            owner: (1000, 1000),
            memory_mb: 512,
            grace_ms: 30_000,
            allow_setuid: false,
            max_processes: 4096,
        };
        let of_system = flags(&plan, &unit(&plan.slot), false);
        for flag in [
            "--collect",
            "--no-block",
            "--unit=apportion-slot-o1-7.service",
            "--uid=1000",
            "--property=SupplementaryGroups=1000 27",
            "--property=MemoryMax=512M",
            "--property=MemorySwapMax=0",
            "--property=OOMPolicy=continue",
            "--property=Delegate=memory pids",
            "--property=TasksMax=4096",
            "--property=TimeoutStopSec=35",
            "--property=NoNewPrivileges=yes",
        ] {
            assert!(of_system.iter().any(|one| one == flag), "{flag}: {of_system:?}");
        }
        let of_user = flags(&plan, &unit(&plan.slot), true);
        assert!(!of_user.iter().any(|flag| flag.contains("id=") || flag.contains("Groups")));
        assert_eq!(escaped("/srv/a $b/slots"), "/srv/a $$b/slots");
    }

    #[test]
    fn the_limit_is_read_where_the_unit_is_and_not_below() {
        let unit = "apportion-slot-o1-7.service";
        let own = Path::new("apportion.slice/apportion-slot-o1-7.service");
        for below in ["", "slot", "lane0"] {
            assert_eq!(of_unit(&own.join(below), unit), own, "{below}");
        }
        assert_eq!(of_unit(Path::new("a/b"), unit), Path::new("a/b"));
    }
}
