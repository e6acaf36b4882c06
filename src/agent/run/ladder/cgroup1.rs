//! Cgroups of version 1: the kernel enforces the limit, and has no switch that kills a whole group.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use super::{
    FOLDER, SlotNotStarted, StartPlan, inside, make_folder, own_cgroup, remove, set_limit,
};
use crate::orchestrator::wire::SlotEnd;

const LIMIT: &str = "memory.limit_in_bytes";

const MAX_PROCESSES: &str = "pids.max";

/// The folder for the cgroups of slots.
pub fn probe() -> Result<PathBuf, String> {
    let own = own_cgroup(Some("memory")).ok_or("its memory controller is not mounted")?;
    let root = own.join(FOLDER);
    let probe = root.join(format!("probe-{}", std::process::id()));
    let made = make_folder(&root).and_then(|()| fs::create_dir_all(&probe));
    made.map_err(|error| format!("not writable ({error}): run the agent as root"))?;
    let limited = set_limit(&probe, LIMIT, 64 << 20);
    remove(&probe);
    limited.map_err(|(_, why)| why)?;
    Ok(root)
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
    let bytes = plan.memory_mb << 20;
    set_limit(cgroup, LIMIT, bytes)?;
    // Without accounting of swap this file is missing, and swap is not limited.
    let _ = fs::write(cgroup.join("memory.memsw.limit_in_bytes"), bytes.to_string());
    let (uid, gid) = plan.owner;
    for path in [cgroup.to_owned(), cgroup.join("cgroup.procs"), cgroup.join("tasks")] {
        chown(path, Some(uid), Some(gid)).map_err(failed)?;
    }
    Ok(())
}

/// The folder for the cgroups that count the processes of slots, where they can be had.
pub fn probe_pids() -> Option<PathBuf> {
    let root = own_cgroup(Some("pids"))?.join(FOLDER);
    let probe = root.join(format!("probe-{}", std::process::id()));
    fs::create_dir_all(&probe).ok()?;
    let limited = set_limit(&probe, MAX_PROCESSES, 64);
    remove(&probe);
    limited.is_ok().then_some(root)
}

/// Makes the cgroup that counts the processes of a slot.
pub fn make_pids(cgroup: &Path, plan: &StartPlan) -> Result<(), SlotNotStarted> {
    if inside(cgroup).is_empty() {
        remove(cgroup);
    }
    fs::create_dir(cgroup).map_err(|error| {
        (SlotEnd::NoLimit, format!("cannot make {}: {error}", cgroup.display()))
    })?;
    set_limit(cgroup, MAX_PROCESSES, u64::from(plan.max_processes))
}
