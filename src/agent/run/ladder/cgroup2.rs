//! Cgroups of version 2, below the agent's own.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use super::{
    FOLDER, SlotNotStarted, StartPlan, inside, make_folder, own_cgroup, remove, set_limit,
};
use crate::orchestrator::wire::SlotEnd;

/// The cgroup of the agent itself, below the cgroup that it was given.
const LEAF: &str = "agent";

/// Returns the folder for the cgroups of slots. The agent moves into a leaf first: a cgroup with
/// processes of its own cannot control its children.
pub fn probe() -> Result<PathBuf, String> {
    let own = own_cgroup(None).ok_or("not mounted")?;
    // After its restart the agent may be in its leaf already, or its starter puts it there.
    let own = match own.parent() {
        Some(parent) if own.ends_with(LEAF) => parent.to_owned(),
        _ => {
            let starter = std::env::var_os("INVOCATION_ID").and(own.extension());
            check_starter(starter)?;
            own
        }
    };
    let controllers = fs::read_to_string(own.join("cgroup.controllers")).unwrap_or_default();
    let mut names = controllers.split_whitespace();
    if !names.clone().any(|name| name == "memory") {
        let only = names.next().map_or("none".to_owned(), |first| format!("only {first}"));
        return Err(format!("mounted, but without the memory controller ({only})"));
    }
    let not_ours = |error: std::io::Error| {
        format!("{} is not the agent's ({error}): set Delegate=memory pids", own.display())
    };
    // The root may have processes of its own; there alone this file is missing.
    if own.join("cgroup.type").exists() {
        make_room(&own, &not_ours)?;
    }
    let control = |at: &Path| fs::write(at.join("cgroup.subtree_control"), "+memory +pids");
    control(&own).map_err(not_ours)?;
    let root = own.join(FOLDER);
    make_folder(&root).map_err(not_ours)?;
    control(&root).map_err(not_ours)?;
    let probe = root.join(format!("probe-{}", std::process::id()));
    fs::create_dir(&probe).map_err(not_ours)?;
    let limited = set_limit(&probe, "memory.max", 64 << 20);
    remove(&probe);
    limited.map_err(|(_, why)| why)?;
    Ok(root)
}

/// Refuses a service of systemd that starts in the cgroup of its unit, as `extension` says. While
/// slots run, systemd could not start it there again: a cgroup that controls children has no
/// processes of its own.
fn check_starter(extension: Option<&OsStr>) -> Result<(), String> {
    if extension.is_none_or(|extension| extension != "service") {
        return Ok(());
    }
    let why = "systemd could not start the agent again beside slots: set DelegateSubgroup=agent (from \
               systemd 254), or run the agent as root";
    Err(why.to_owned())
}

/// Moves the agent out of `own` into a leaf below it, with the other processes of this program.
/// Processes of other programs are not moved; they are an error.
fn make_room(own: &Path, not_ours: &impl Fn(std::io::Error) -> String) -> Result<(), String> {
    let program = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let ours = program("self");
    let others =
        direct(own).into_iter().filter(|pid| program(pid).is_some_and(|its| Some(its) != ours));
    if let Some(pid) = others.into_iter().next() {
        return Err(format!(
            "process {pid} shares the agent's cgroup {}: start the agent as a service with Delegate=memory pids",
            own.display()
        ));
    }
    let leaf = own.join(LEAF);
    fs::create_dir_all(&leaf).map_err(not_ours)?;
    // Processes that they start meanwhile are there at the next look.
    for _ in 0..100 {
        let left = direct(own);
        if left.is_empty() {
            return Ok(());
        }
        for pid in left {
            // A process that ends meanwhile is no obstacle.
            let _ = fs::write(leaf.join("cgroup.procs"), pid);
        }
    }
    Err(format!("processes do not leave the cgroup {}", own.display()))
}

fn direct(cgroup: &Path) -> Vec<String> {
    let text = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Makes the cgroup of a slot: the limit is the agent's, groups below it are the user's.
pub fn make(cgroup: &Path, plan: &StartPlan) -> Result<(), SlotNotStarted> {
    let no_limit = |why: String| (SlotEnd::NoLimit, why);
    let failed =
        |error: std::io::Error| no_limit(format!("cannot make {}: {error}", cgroup.display()));
    // A cgroup is left over if the agent died before the slot started.
    if inside(cgroup).is_empty() {
        remove(cgroup);
    }
    fs::create_dir(cgroup).map_err(failed)?;
    set_limit(cgroup, "memory.max", plan.memory_mb << 20)?;
    // Without accounting of swap there is no such file.
    let _ = fs::write(cgroup.join("memory.swap.max"), "0");
    let _ = fs::write(cgroup.join("pids.max"), plan.max_processes.to_string());
    let (uid, gid) = plan.owner;
    let files = ["cgroup.procs", "cgroup.subtree_control", "cgroup.threads"];
    let paths = files.map(|file| cgroup.join(file));
    for path in [cgroup.to_owned()].into_iter().chain(paths) {
        chown(path, Some(uid), Some(gid)).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_could_not_start_again_is_refused() {
        let refusal = check_starter(Some(OsStr::new("service"))).unwrap_err();
        assert!(refusal.contains("DelegateSubgroup=agent"), "{refusal}");
        assert_eq!(check_starter(Some(OsStr::new("scope"))), Ok(()));
        assert_eq!(check_starter(None), Ok(()));
    }
}
