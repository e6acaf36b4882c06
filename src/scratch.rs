//! Temporary folder that is removed together with its owner, for a daemon that keeps no state.

use std::io;
use std::path::{Path, PathBuf};

/// A temporary folder, deleted on drop.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// A new, empty folder, with `purpose` in its name.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn create(purpose: &str) -> io::Result<Scratch> {
        let now = jiff::Timestamp::now().as_microsecond();
        let name = format!("apportion-{purpose}-{}-{now}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(Scratch { path })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A failure has no remedy here, and the system clears such folders in time.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
