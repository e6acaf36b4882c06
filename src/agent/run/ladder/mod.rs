//! Enforcement of the memory limits of slots on this node: the rungs of a ladder, best first.
//!
//! Each start reads the limit back: systemd accepts a limit silently even if the kernel has no
//! memory controller.

mod cgroup1;
mod cgroup2;
mod systemd;
mod watched;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

use super::records::{ProcessIdentity, SlotRecord};
use super::sweep;
use crate::orchestrator::wire::{Rung, SlotEnd};
use crate::slot::UserIdentity;
use crate::slot::wire::MemoryLimit;

/// The folder of cgroups of slots below the agent's own cgroup, and the slice of their units.
const FOLDER: &str = "apportion-slots";

/// Looks in a row that have to find nothing of a slot before it counts as ended.
const EMPTY_LOOKS: u32 = 2;

/// A rung that is not used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedRung {
    /// The name of the rung in texts.
    pub rung: &'static str,
    /// Reason why the rung is not used.
    pub why: String,
}

/// The rung of this node.
#[derive(Clone, Debug)]
pub struct Ladder {
    /// Enforcement of the limits.
    pub rung: Rung,
    /// The rungs above it, and why they are not used.
    pub findings: Vec<UnusedRung>,
    /// The folder of the slots' cgroups, on the rungs `cgroup1` and `cgroup2`.
    root: Option<PathBuf>,
    /// On the rung `cgroup1`: the folder of the cgroups that count processes. `None`: not
    /// available.
    pids: Option<PathBuf>,
}

/// Inputs for the start of a slot.
#[derive(Clone, Debug)]
pub struct StartPlan {
    /// The program of this process.
    pub program: PathBuf,
    /// The name of the slot.
    pub slot: String,
    /// Folder of the slot.
    pub folder: PathBuf,
    /// User and groups of the slot; `None`: the agent's own user.
    pub identity: Option<UserIdentity>,
    /// The user and group that own the slot's folder and cgroup.
    pub owner: (u32, u32),
    /// The limit, in MiB.
    pub memory_mb: u64,
    /// Time between a stop and the kill, in milliseconds.
    pub grace_ms: u64,
    /// True if programs with the setuid bit keep their effect.
    pub allow_setuid: bool,
    /// The most processes and threads of the slot.
    pub max_processes: u32,
}

/// Reason why a slot did not start.
pub type SlotNotStarted = (SlotEnd, String);

impl Ladder {
    /// The best rung of this node, but none better than `best`.
    pub fn probe(best: Option<Rung>, is_root: bool) -> Ladder {
        let mut findings = Vec::new();
        let best = best.unwrap_or(Rung::Systemd);
        for rung in [Rung::Systemd, Rung::SystemdUser, Rung::Cgroup2, Rung::Cgroup1] {
            if rung < best {
                findings
                    .push(UnusedRung { rung: rung.name(), why: "not wanted: --limits".to_owned() });
                continue;
            }
            let found = match rung {
                Rung::Systemd => systemd::probe_system(is_root).map(|()| None),
                Rung::SystemdUser => systemd::probe_user(is_root).map(|()| None),
                Rung::Cgroup2 => cgroup2::probe().map(Some),
                Rung::Cgroup1 => cgroup1::probe().map(Some),
                Rung::Watched => Ok(None),
            };
            match found {
                Ok(root) => {
                    let pids = (rung == Rung::Cgroup1).then(cgroup1::probe_pids).flatten();
                    return Ladder { rung, findings, root, pids };
                }
                Err(why) => findings.push(UnusedRung { rung: rung.name(), why }),
            }
        }
        Ladder { rung: Rung::Watched, findings, root: None, pids: None }
    }

    /// Returns the limit as the settings of a slot describe it.
    pub fn limit(&self, slot: &str) -> MemoryLimit {
        match (self.rung, &self.root) {
            (Rung::Systemd | Rung::SystemdUser, _) => MemoryLimit::OwnCgroup2,
            (Rung::Cgroup2, Some(root)) => MemoryLimit::Cgroup2(root.join(slot)),
            (Rung::Cgroup1, Some(root)) => MemoryLimit::Cgroup1(root.join(slot)),
            (Rung::Cgroup2 | Rung::Cgroup1 | Rung::Watched, _) => MemoryLimit::Watched,
        }
    }

    /// Starts a slot, and reads its limit back.
    ///
    /// # Errors
    ///
    /// If it does not start, or not with its limit; nothing of it runs then.
    pub async fn start(
        &self,
        plan: &StartPlan,
        boot: &str,
    ) -> Result<ProcessIdentity, SlotNotStarted> {
        match (self.rung, &self.root) {
            (Rung::Systemd, _) => systemd::start(plan, false, boot).await,
            (Rung::SystemdUser, _) => systemd::start(plan, true, boot).await,
            (Rung::Cgroup2, Some(root)) => {
                let cgroup = root.join(&plan.slot);
                cgroup2::make(&cgroup, plan)?;
                spawn(plan, &[cgroup], true, boot)
            }
            (Rung::Cgroup1, Some(root)) => {
                let cgroup = root.join(&plan.slot);
                cgroup1::make(&cgroup, plan)?;
                let mut cgroups = vec![cgroup];
                if let Some(pids) = &self.pids {
                    let pids = pids.join(&plan.slot);
                    cgroup1::make_pids(&pids, plan)?;
                    cgroups.push(pids);
                }
                spawn(plan, &cgroups, self.pids.is_some(), boot)
            }
            (Rung::Cgroup2 | Rung::Cgroup1 | Rung::Watched, _) => spawn(plan, &[], false, boot),
        }
    }

    /// Kills all processes of a slot, and waits until none is left. Returns false if processes
    /// remain.
    pub async fn end_all(&self, record: &SlotRecord) -> bool {
        let cgroup = self.root.as_ref().map(|root| root.join(&record.slot));
        // A process in the middle of `exec` has no environment for a moment. A process that ends
        // may have started a child that the sweep missed. So a single sweep that finds nothing is
        // not enough.
        let mut empty = 0;
        for round in 0..600_u32 {
            let mut left = sweep::left_of(record);
            let mut is_gone = true;
            match (record.rung, &cgroup) {
                (rung @ (Rung::Systemd | Rung::SystemdUser), _) => {
                    let of_user = rung == Rung::SystemdUser;
                    systemd::kill(&record.slot, of_user).await;
                    is_gone = systemd::is_gone(&record.slot, of_user).await;
                }
                (Rung::Cgroup2 | Rung::Cgroup1, Some(cgroup)) => left.extend(inside(cgroup)),
                (Rung::Cgroup2 | Rung::Cgroup1 | Rung::Watched, _) => {}
            }
            empty = if left.is_empty() && is_gone { empty + 1 } else { 0 };
            if empty == EMPTY_LOOKS {
                let pids = self.pids.as_ref().map(|pids| pids.join(&record.slot));
                cgroup.iter().chain(&pids).for_each(|cgroup| remove(cgroup));
                return true;
            }
            sweep::kill(&left);
            let pause = if round < 20 { 5 } else { 100 };
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        false
    }

    /// Describes the enforcement of limits in a few words.
    pub fn words(&self) -> String {
        self.rung.words()
    }

    /// Describes the ladder for people, a line for each rung.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![if self.rung.is_kernel() {
            format!("limits  {}", self.words())
        } else {
            "limits  watched: no rung that the kernel enforces".to_owned()
        }];
        let findings = self.findings.iter();
        lines.extend(findings.map(|UnusedRung { rung, why }| format!("        {rung:<13} {why}")));
        if self.rung == Rung::SystemdUser && !systemd::lingers() {
            let text = "Slots end with your last session here; `loginctl enable-linger` keeps it.";
            lines.push(format!("        {text}"));
        }
        if self.rung == Rung::Watched {
            let text =
                "Memory is sampled every 250 ms, so a process can pass its limit in between.";
            lines.push(format!("        {text}"));
        }
        lines
    }
}

/// The words behind `slot` that start the slot of `plan`.
fn arguments(plan: &StartPlan, becomes: bool) -> Vec<String> {
    let mut words = vec!["slot".to_owned(), plan.folder.to_string_lossy().into_owned()];
    if let Some(identity) = plan.identity.as_ref().filter(|_| becomes) {
        words.extend(["--become".to_owned(), identity.to_string()]);
    }
    if plan.allow_setuid {
        words.push("--allow-setuid".to_owned());
    }
    words
}

/// Starts the shim, which joins `cgroups` before it becomes the user. If `counts`, a cgroup limits
/// the number of processes; otherwise a limit of the user does.
fn spawn(
    plan: &StartPlan,
    cgroups: &[PathBuf],
    counts: bool,
    boot: &str,
) -> Result<ProcessIdentity, SlotNotStarted> {
    let mut command = Command::new(&plan.program);
    command.args(arguments(plan, true)).env_clear().env("APPORTION_SLOT", &plan.slot);
    for cgroup in cgroups {
        command.arg("--join").arg(cgroup);
    }
    if !counts {
        command.arg("--more-processes").arg(plan.max_processes.to_string());
    }
    watched::detach(&mut command);
    let failed = |why: String| (SlotEnd::NotStarted, why);
    let child = command
        .spawn()
        .map_err(|error| failed(format!("cannot start {}: {error}", plan.program.display())))?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let process = pid.and_then(|pid| ProcessIdentity::of(pid, boot));
    process.ok_or_else(|| failed("the slot ended at once".to_owned()))
}

/// Returns the path of this process's cgroup in the hierarchy with `controller`. `None` as
/// controller: version 2.
fn own_cgroup(controller: Option<&str>) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let kind = if controller.is_some() { "cgroup" } else { "cgroup2" };
    let mount = mounts.lines().find_map(|line| {
        let (fields, kinds) = line.split_once(" - ")?;
        let mut kinds = kinds.split(' ');
        let is_it = kinds.next() == Some(kind);
        let options = kinds.next_back()?;
        let has = controller.is_none_or(|name| options.split(',').any(|option| option == name));
        fields.split(' ').nth(4).filter(|_| is_it && has).map(PathBuf::from)
    })?;
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, names, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_it = match controller {
            Some(name) => names.split(',').any(|part| part == name),
            None => number == "0" && names.is_empty(),
        };
        is_it.then(|| path.trim_start_matches('/').to_owned())
    })?;
    Some(mount.join(path))
}

/// Returns the processes in a cgroup and in all cgroups below it.
fn inside(cgroup: &Path) -> Vec<i32> {
    let text = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    let mut found: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    found.extend(below(cgroup).iter().flat_map(|child| inside(child)));
    found
}

/// Removes an empty cgroup and all cgroups below it.
fn remove(cgroup: &Path) {
    for child in below(cgroup) {
        remove(&child);
    }
    // The next sweep retries a cgroup that could not be removed.
    let _ = fs::remove_dir(cgroup);
}

fn below(cgroup: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cgroup).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

/// Makes the folder for the cgroups of slots. Users may pass through it, even with a strict umask.
fn make_folder(root: &Path) -> std::io::Result<()> {
    fs::create_dir_all(root)?;
    fs::set_permissions(root, fs::Permissions::from_mode(0o711))
}

/// Writes a limit and reads it back.
fn set_limit(cgroup: &Path, file: &str, bytes: u64) -> Result<(), SlotNotStarted> {
    let no_limit = |why: String| (SlotEnd::NoLimit, why);
    let path = cgroup.join(file);
    fs::write(&path, bytes.to_string())
        .map_err(|error| no_limit(format!("cannot set {}: {error}", path.display())))?;
    let found = fs::read_to_string(&path).unwrap_or_default();
    if found.trim() == bytes.to_string() {
        return Ok(());
    }
    Err(no_limit(format!("{} was set to {bytes} and is {}", path.display(), found.trim())))
}
