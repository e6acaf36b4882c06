//! Settings of the system's allocator that must exist before a daemon begins.
//!
//! The GNU C library keeps freed memory for each thread apart. It also keeps each large freed piece
//! for the next request of that size. A daemon has many threads and, in a cycle, texts of
//! megabytes: it would keep a third more than it needs. Both habits can be switched off, but only
//! by environment variables present at the start.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Settings for variables that the administrator left unset, as in `packaging/apportion.service`.
/// Threads share two arenas. Freed pieces from 256 KiB on return to the system at once. Smaller
/// ones return only beyond 32 MiB, as the daemon soon needs that memory again.
const SETTINGS: [(&str, &str); 3] = [
    ("MALLOC_ARENA_MAX", "2"),
    ("MALLOC_MMAP_THRESHOLD_", "262144"),
    ("MALLOC_TRIM_THRESHOLD_", "33554432"),
];

/// Variable by which an administrator may have set all of this in another form.
const OTHER_WAY: &str = "GLIBC_TUNABLES";

/// Starts this program again with these settings, as the same process, if the environment lacks any.
/// If the start fails, the process continues as it is and only needs more memory.
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

/// Returns the settings that an environment lacks.
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
    fn settings_of_the_administrator_are_kept() {
        let untold = |set: &[&str]| untold(|name| set.contains(&name).then(OsString::new)).len();
        assert_eq!(untold(&[]), 3);
        assert_eq!(untold(&["MALLOC_ARENA_MAX"]), 2);
        assert_eq!(untold(&SETTINGS.map(|(name, _)| name)), 0);
        assert_eq!(untold(&["GLIBC_TUNABLES"]), 0);
    }
}
