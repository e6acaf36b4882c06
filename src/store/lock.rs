//! The lock that keeps a second daemon from the file.
//!
//! The lock is on a file beside the database, held by the kernel for as long as the process lives:
//! a killed daemon leaves none behind. The file itself stays; removing it would let two daemons
//! lock two files of the same name.
//!
//! `SQLite`'s exclusive locking mode would also shut out backups and administrators with a SQL
//! client. A lock on the database itself would be lost: closing any second handle on the database
//! drops `SQLite`'s own locks.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::StoreError;

/// The right to be the only daemon on a file. Ends when dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Locks the database at `path`, and writes the process id into the lock file.
    pub(super) fn claim(path: &Path) -> Result<Lock, StoreError> {
        let lock_path = beside(path);
        let failed = |source| StoreError::Lock { path: lock_path.clone(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse { path: path.to_owned(), holder: holder(&mut file) });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        sign(&mut file).map_err(failed)?;
        Ok(Lock { _file: file })
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".lock");
    PathBuf::from(name)
}

fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// Returns the process id of the lock's holder, if the holder has written it yet.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
