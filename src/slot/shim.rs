//! Steps between the start of the process and the start of the slot: the process becomes the user.
//!
//! The process has a single thread here. System calls change the identity of a single thread, and
//! all later threads inherit it.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Gid, Resource, Rlimit, Uid, getrlimit, getuid, set_dumpable_behavior,
    setrlimit, setsid, umask,
};
use rustix::thread::{set_no_new_privs, set_thread_gid, set_thread_groups, set_thread_uid};

use super::family;

/// The user that a slot becomes: `UID:GID:GROUP,GROUP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserIdentity {
    /// The number of the user.
    pub uid: u32,
    /// The number of its own group.
    pub gid: u32,
    /// The numbers of all its groups.
    pub groups: Vec<u32>,
}

impl FromStr for UserIdentity {
    type Err = String;

    fn from_str(text: &str) -> Result<UserIdentity, String> {
        let form = || format!("`{text}` is no identity; write UID:GID:GROUP,GROUP");
        let number = |text: &str| text.parse::<u32>().map_err(|_| form());
        let parts: Vec<&str> = text.split(':').collect();
        let [uid, gid, groups] = parts.as_slice() else { return Err(form()) };
        let groups = groups.split(',').filter(|group| !group.is_empty());
        let groups = groups.map(number).collect::<Result<Vec<u32>, String>>()?;
        Ok(UserIdentity { uid: number(uid)?, gid: number(gid)?, groups })
    }
}

impl std::fmt::Display for UserIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let groups: Vec<String> = self.groups.iter().map(u32::to_string).collect();
        write!(f, "{}:{}:{}", self.uid, self.gid, groups.join(","))
    }
}

/// Changes to the process before it is a slot.
#[derive(Clone, Debug, Default)]
pub struct ProcessChange {
    /// User to become; `None`: the process keeps its user.
    pub identity: Option<UserIdentity>,
    /// The cgroups to join, as folders.
    pub cgroups: Vec<PathBuf>,
    /// True if programs with the setuid bit keep their effect.
    pub allows_setuid: bool,
    /// Processes and threads that the user may have beyond its present count, if no cgroup counts
    /// the processes of the slot. `None`: no such limit.
    pub more_processes: Option<u64>,
}

/// Reason why the process cannot become a slot.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ShimError {
    #[error("cannot join the cgroup {}; does the agent own it?", path.display())]
    Cgroup { path: PathBuf, source: std::io::Error },
    #[error("cannot become the user {identity}; start the agent as root, or as that user")]
    Identity { identity: UserIdentity, source: Errno },
    #[error("user 0 runs no slot through --become")]
    Root,
    #[error("the way back to user 0 is open after becoming {0}; the slot does not start")]
    WayBack(UserIdentity),
    #[error("cannot set up the process: {what}")]
    Process { what: &'static str, source: Errno },
    #[error("cannot list the open files of the process in /proc/self/fd")]
    Files(#[source] std::io::Error),
}

/// Changes this process, whose only thread calls this.
///
/// # Errors
///
/// If a step fails. The process must end then.
pub fn change(change: &ProcessChange) -> Result<(), ShimError> {
    let process = |what| move |source| ShimError::Process { what, source };
    close_inherited()?;
    match setsid() {
        // A process that leads its group already gets this error.
        Ok(_) | Err(Errno::PERM) => {}
        Err(error) => return Err(process("setsid")(error)),
    }
    for cgroup in &change.cgroups {
        join(cgroup)?;
    }
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).map_err(process("the limit of core files"))?;
    // The kernel should end a task before its slot. Without CAP_SYS_RESOURCE it is not allowed.
    if fs::write("/proc/self/oom_score_adj", "-100").is_err() {
        let _ = fs::write("/proc/self/oom_score_adj", "0");
    }
    umask(Mode::from_raw_mode(0o022));
    if let Some(identity) = &change.identity {
        become_user(identity)?;
    }
    if let Some(more) = change.more_processes {
        limit_processes(more).map_err(process("the limit of processes"))?;
    }
    if !change.allows_setuid {
        set_no_new_privs(true).map_err(process("no_new_privs"))?;
    }
    Ok(())
}

/// Groups first, the user last: afterwards nothing of it is allowed any more.
fn become_user(identity: &UserIdentity) -> Result<(), ShimError> {
    if identity.uid == 0 {
        return Err(ShimError::Root);
    }
    let groups: Vec<Gid> = identity.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    set_thread_groups(&groups)
        .and_then(|()| set_thread_gid(Gid::from_raw(identity.gid)))
        .and_then(|()| set_thread_uid(Uid::from_raw(identity.uid)))
        .map_err(|source| ShimError::Identity { identity: identity.clone(), source })?;
    if set_thread_uid(Uid::ROOT).is_ok() {
        return Err(ShimError::WayBack(identity.clone()));
    }
    // A process that changes its user loses access to its own files in `/proc`, and to the files of
    // a new child. The slot reads the former and writes the latter. Memory of this process holds no
    // secret of the agent.
    set_dumpable_behavior(DumpableBehavior::Dumpable)
        .map_err(|source| ShimError::Process { what: "its files in /proc", source })
}

/// Limits the user's processes. The kernel counts all processes of the user, in any slot, and does
/// not limit user 0.
fn limit_processes(more: u64) -> Result<(), Errno> {
    let most = family::threads_of(getuid().as_raw()).saturating_add(more);
    let lower = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    let Rlimit { current, maximum } = getrlimit(Resource::Nproc);
    setrlimit(Resource::Nproc, Rlimit { current: lower(current), maximum: lower(maximum) })
}

/// Moves this process into the cgroup at `path`.
fn join(path: &Path) -> Result<(), ShimError> {
    let pid = std::process::id().to_string();
    fs::write(path.join("cgroup.procs"), pid)
        .map_err(|source| ShimError::Cgroup { path: path.to_owned(), source })
}

/// Closes every descriptor but the standard descriptors. The slot opens its own descriptors later.
fn close_inherited() -> Result<(), ShimError> {
    let entries = fs::read_dir("/proc/self/fd").map_err(ShimError::Files)?;
    let open: Vec<i32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|descriptor| *descriptor > 2)
        .collect();
    for descriptor in open {
        // The descriptor that listed the folder is closed already.
        let _ = nix::unistd::close(descriptor);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_three_parts() {
        let identity: UserIdentity = "1000:1001:1001,27".parse().unwrap();
        assert_eq!(identity, UserIdentity { uid: 1000, gid: 1001, groups: vec![1001, 27] });
        assert_eq!(identity.to_string(), "1000:1001:1001,27");
        let alone: UserIdentity = "1000:1000:".parse().unwrap();
        assert!(alone.groups.is_empty());
        for text in ["", "1000", "1000:1000", "ann:1000:", "-1:0:", "1:2:3:4", "1:2:x"] {
            let error = text.parse::<UserIdentity>().unwrap_err();
            assert!(error.contains("UID:GID:GROUP"), "{error}");
        }
    }
}
