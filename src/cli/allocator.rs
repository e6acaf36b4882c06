//! What the system's allocator has to know before a daemon begins.
//!
//! The GNU C library keeps memory for each thread apart, and what it was asked for in one piece once
//! it keeps for whoever asks for as much again. A daemon has its threads and, in a cycle, texts of
//! megabytes, so that it would keep a third more than it ever needs. Both can be told otherwise, but
//! only by the environment that a program begins with.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What is told where nothing else is, as in `packaging/apportion.service`. Threads share two parts of
/// memory; whatever has 256 KiB or more is given back as soon as it is not needed; and what is small
/// is not given back for less than 32 MiB, for it is soon needed again.
const SETTINGS: [(&str, &str); 3] = [
    ("MALLOC_ARENA_MAX", "2"),
    ("MALLOC_MMAP_THRESHOLD_", "262144"),
    ("MALLOC_TRIM_THRESHOLD_", "33554432"),
];

/// Where an administrator may have said it all in another way.
const OTHER_WAY: &str = "GLIBC_TUNABLES";

/// Has this program begin again with these settings, as the same process, if it has to be told. Where
/// that cannot be done it goes on as it is: it needs more memory, and that is all.
pub(super) fn tell() {
    if !cfg!(target_env = "gnu") {
        return;
    }
    let untold = untold(|name| std::env::var_os(name));
    let mut arguments = std::env::args_os();
    if let (false, Some(called), Ok(program)) =
        (untold.is_empty(), arguments.next(), std::env::current_exe())
    {
        // Returns only if it failed.
        let _ = Command::new(program).arg0(called).args(arguments).envs(untold).exec();
    }
}

/// What is still to be told in an environment.
fn untold(set: impl Fn(&str) -> Option<OsString>) -> Vec<(&'static str, &'static str)> {
    if set(OTHER_WAY).is_some() {
        return Vec::new();
    }
    SETTINGS.into_iter().filter(|(name, _)| set(name).is_none()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_tells_it_so_that_nothing_is_left_to_tell() {
        let unit = include_str!("../../packaging/apportion.service");
        for (name, value) in SETTINGS {
            assert!(unit.contains(&format!("\nEnvironment={name}={value}\n")), "{name}");
        }
    }

    #[test]
    fn it_is_told_once_and_nobody_is_contradicted() {
        let untold = |set: &[&str]| untold(|name| set.contains(&name).then(OsString::new)).len();
        assert_eq!(untold(&[]), 3);
        assert_eq!(untold(&["MALLOC_ARENA_MAX"]), 2);
        assert_eq!(untold(&SETTINGS.map(|(name, _)| name)), 0);
        assert_eq!(untold(&["GLIBC_TUNABLES"]), 0);
    }
}
