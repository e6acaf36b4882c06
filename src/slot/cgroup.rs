//! The cgroup of a slot, as the slot itself may use it: a child for each running task.
//!
//! The limit belongs to the agent, and a slot cannot change it. A child cgroup separates the
//! memory, the kills and the processes of each task.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::family;
use super::wire::MemoryLimit;

/// Mount point of cgroups of version 2, if the slot has to find its own cgroup.
const MOUNT: &str = "/sys/fs/cgroup";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The cgroup of a slot.
#[derive(Debug)]
pub struct SlotCgroup {
    version: Version,
    dir: PathBuf,
    /// Cgroup of the slot process itself.
    leaf: PathBuf,
    /// True if each task gets a child cgroup.
    can_nest: bool,
}

impl SlotCgroup {
    /// The cgroup that `limit` names, made ready for tasks. `None`: the kernel enforces nothing.
    pub fn of(limit: &MemoryLimit) -> Option<SlotCgroup> {
        let (version, dir) = match limit {
            MemoryLimit::Cgroup1(dir) => (Version::One, dir.clone()),
            MemoryLimit::Cgroup2(dir) => (Version::Two, dir.clone()),
            MemoryLimit::OwnCgroup2 => (Version::Two, own_cgroup()?),
            MemoryLimit::Watched => return None,
        };
        let (leaf, can_nest) = match version {
            Version::One => (dir.clone(), is_writable(&dir)),
            // A cgroup with processes of its own cannot control its children.
            Version::Two => {
                let leaf = dir.join("slot");
                let is_moved = make(&leaf).and_then(|()| move_here(&leaf)).is_ok();
                let control = dir.join("cgroup.subtree_control");
                let can_nest = is_moved && fs::write(control, "+memory").is_ok();
                (if is_moved { leaf } else { dir.clone() }, can_nest)
            }
        };
        Some(SlotCgroup { version, dir, leaf, can_nest })
    }

    /// True if each task has a cgroup of its own.
    pub fn can_nest(&self) -> bool {
        self.can_nest
    }

    /// The whole cgroup of the slot.
    pub fn all(&self) -> TaskCgroup {
        TaskCgroup { version: self.version, dir: self.dir.clone() }
    }

    /// The cgroup of a lane, made anew; this process is in it until [`SlotCgroup::leave`].
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn enter(&self, lane: usize, ends_together: bool) -> io::Result<TaskCgroup> {
        let group = TaskCgroup { version: self.version, dir: self.dir.join(format!("lane{lane}")) };
        group.remove();
        make(&group.dir)?;
        if ends_together && self.version == Version::Two {
            fs::write(group.dir.join("memory.oom.group"), "1")?;
        }
        move_here(&group.dir)?;
        Ok(group)
    }

    /// Moves this process back out of a lane.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn leave(&self) -> io::Result<()> {
        move_here(&self.leaf)
    }
}

/// A cgroup with processes of tasks.
#[derive(Clone, Debug)]
pub struct TaskCgroup {
    version: Version,
    dir: PathBuf,
}

impl TaskCgroup {
    /// Returns the count of processes that the kernel killed in the cgroup for lack of memory.
    pub fn oom_kills(&self) -> u64 {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        self.field(file, "oom_kill").unwrap_or(0)
    }

    /// The most memory that was in use at a time, page cache included, in bytes.
    pub fn peak_bytes(&self) -> u64 {
        let file = match self.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        };
        let text = fs::read_to_string(self.dir.join(file)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    /// Memory in use without page cache, in bytes.
    pub fn own_bytes(&self) -> u64 {
        let anonymous = match self.version {
            Version::One => "total_rss",
            Version::Two => "anon",
        };
        let anonymous = self.field("memory.stat", anonymous).unwrap_or(0);
        anonymous.saturating_add(self.shared_bytes())
    }

    /// Memory of files in shared memory, in bytes. The kernel still charges it after the task has
    /// ended.
    pub fn shared_bytes(&self) -> u64 {
        let shared = match self.version {
            Version::One => "total_shmem",
            Version::Two => "shmem",
        };
        self.field("memory.stat", shared).unwrap_or(0)
    }

    /// Processes of the cgroup.
    pub fn processes(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Kills all its processes. The kernel may take a moment to end them.
    pub fn kill(&self) {
        let whole = self.dir.join("cgroup.kill");
        if self.version == Version::One || fs::write(whole, "1").is_err() {
            family::kill_all(|| self.processes());
        }
    }

    /// Removes it if it is empty.
    pub fn remove(&self) {
        // A cgroup that cannot be removed now is removed before the next task, or by the agent.
        let _ = fs::remove_dir(&self.dir);
    }

    fn field(&self, file: &str, name: &str) -> Option<u64> {
        let text = fs::read_to_string(self.dir.join(file)).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse().ok()
    }
}

fn make(dir: &Path) -> io::Result<()> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn move_here(dir: &Path) -> io::Result<()> {
    fs::write(dir.join("cgroup.procs"), std::process::id().to_string())
}

/// True if child cgroups can be made below `dir`.
fn is_writable(dir: &Path) -> bool {
    let probe = dir.join("lane0");
    make(&probe).is_ok() && fs::remove_dir(&probe).is_ok()
}

/// The cgroup of version 2 of this process.
fn own_cgroup() -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(MOUNT).join(path))
}
