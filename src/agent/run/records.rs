//! Records of an agent about its slots, in a folder that only the agent can write.
//!
//! A slot has a record from before its start until it is forgotten. The file is named after the
//! slot, and its creation fails if it exists. So a share has a single slot, however often its start
//! is ordered.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::orchestrator::wire::{Rung, SlotEnd, SlotStart};
use crate::slot;

/// A process, distinct from later processes with the same number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Number of the process.
    pub pid: i32,
    /// Start of the process, in clock ticks since the boot.
    pub start: u64,
    /// The boot of the node.
    pub boot: String,
}

impl ProcessIdentity {
    /// The process `pid` of this boot; `None` if there is none.
    pub fn of(pid: i32, boot: &str) -> Option<ProcessIdentity> {
        Some(ProcessIdentity { pid, start: slot::start_time(pid)?, boot: boot.to_owned() })
    }

    /// True if the process has not ended.
    pub fn is_alive(&self, boot: &str) -> bool {
        self.boot == boot
            && slot::start_time(self.pid) == Some(self.start)
            && slot::is_alive(self.pid)
    }
}

/// Record of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRecord {
    /// The name of the slot on the node: the orchestrator's identity, a hyphen, the share.
    pub slot: String,
    /// The identity of the orchestrator.
    pub orchestrator: String,
    /// The number of the share.
    pub share: u64,
    /// The order that started it.
    pub start: SlotStart,
    /// The identity it runs as, as `--become` takes it. `None`: the user was refused.
    pub identity: Option<String>,
    /// Enforcement of its memory limit.
    pub rung: Rung,
    /// Process of the slot. `None`: it may not have started yet.
    pub process: Option<ProcessIdentity>,
    /// Reason why the slot ended without having run, and the sentence for people.
    pub failure: Option<(SlotEnd, String)>,
}

/// Record of the orchestrator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Identity of the orchestrator; empty before the first answer.
    pub orchestrator: String,
    /// The highest epoch of its database.
    pub epoch: u64,
}

/// All records of an agent. Locked: a single agent uses a spool at a time.
#[derive(Debug)]
pub struct SlotRecords {
    folder: PathBuf,
    _lock: File,
}

const SEEN: &str = "orchestrator.json";

impl SlotRecords {
    /// The records below the folder `spool`.
    ///
    /// # Errors
    ///
    /// If they cannot be used, as by a second agent.
    pub fn open(spool: &Path) -> Result<SlotRecords, String> {
        let folder = spool.join("books");
        let failed =
            |error: io::Error| format!("cannot use the spool {}: {error}", spool.display());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        let mut options = OpenOptions::new();
        let lock = options.write(true).create(true).truncate(false).mode(0o600);
        let lock = lock.open(folder.join("lock")).map_err(failed)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            format!("another agent uses the spool {}; give each agent its own", spool.display())
        })?;
        Ok(SlotRecords { folder, _lock: lock })
    }

    /// Begins the record of a slot. Returns true if it is new.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn begin(&self, record: &SlotRecord) -> io::Result<bool> {
        let path = self.path(&record.slot);
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(_) => match self.save(record) {
                Ok(()) => Ok(true),
                Err(error) => {
                    // The start is ordered again, and needs the name.
                    fs::remove_file(&path)?;
                    Err(error)
                }
            },
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes the record of a slot anew.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn save(&self, record: &SlotRecord) -> io::Result<()> {
        self.replace(&self.path(&record.slot), record)
    }

    /// Removes the record of a slot.
    pub fn remove(&self, slot: &str) {
        if let Err(error) = fs::remove_file(self.path(slot)) {
            tracing::warn!(slot, %error, "cannot remove the record of a slot");
        }
    }

    /// Reads the records of all slots. An unreadable record is left out, with a warning.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn all(&self) -> io::Result<Vec<SlotRecord>> {
        let mut records = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let is_record = path.extension().is_some_and(|extension| extension == "slot");
            if !is_record {
                continue;
            }
            match read(&path) {
                Ok(record) => records.push(record),
                // The record was begun, and its slot did not start.
                Err(_) if fs::metadata(&path).is_ok_and(|metadata| metadata.len() == 0) => {
                    fs::remove_file(&path)?;
                }
                Err(error) => {
                    tracing::warn!(file = %path.display(), %error, "unreadable record of a slot");
                }
            }
        }
        records.sort_by(|a: &SlotRecord, b| a.slot.cmp(&b.slot));
        Ok(records)
    }

    /// Returns the record of the orchestrator.
    pub fn seen(&self) -> Seen {
        read(&self.folder.join(SEEN)).unwrap_or_default()
    }

    /// Writes the record of the orchestrator.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn save_seen(&self, seen: &Seen) -> io::Result<()> {
        self.replace(&self.folder.join(SEEN), seen)
    }

    fn path(&self, slot: &str) -> PathBuf {
        self.folder.join(format!("{slot}.slot"))
    }

    fn replace<T: Serialize>(&self, path: &Path, value: &T) -> io::Result<()> {
        let new = self.folder.join("new");
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        File::open(&self.folder)?.sync_all()
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// True if an identity can be part of names of files, units and cgroups.
pub fn is_good_identity(identity: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=64).contains(&identity.len()) && identity.bytes().all(is_good)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> SlotRecord {
        let start = SlotStart {
            campaign: 9,
            user: "ann".to_owned(),
            uid: None,
            memory_mb: 512,
            lanes: 1,
            spec: 5,
            linger_ms: 2_000,
            interruption_ms: None,
            needs_kernel_limit: false,
            listens: false,
        };
        SlotRecord {
            slot: "o1-7".to_owned(),
            orchestrator: "o1".to_owned(),
            share: 7,
            start,
            identity: None,
            rung: Rung::Watched,
            process: None,
            failure: None,
        }
    }

    #[test]
    fn a_share_has_one_record() {
        let spool = tempfile::tempdir().unwrap();
        let records = SlotRecords::open(spool.path()).unwrap();
        assert!(SlotRecords::open(spool.path()).unwrap_err().contains("another agent"));
        let mut record = record();
        assert!(records.begin(&record).unwrap());
        assert!(!records.begin(&record).unwrap());
        let own = i32::try_from(std::process::id()).unwrap();
        record.process = ProcessIdentity::of(own, "boot");
        records.save(&record).unwrap();
        fs::write(spool.path().join("books/torn.slot"), "{").unwrap();
        fs::write(spool.path().join("books/empty.slot"), "").unwrap();
        let all = records.all().unwrap();
        assert_eq!(all, [record]);
        let process = all[0].process.clone().unwrap();
        assert!(process.is_alive("boot") && !process.is_alive("another boot"));
        assert!(!ProcessIdentity { start: process.start + 1, ..process }.is_alive("boot"));
        assert!(!spool.path().join("books/empty.slot").exists());
        records.remove("o1-7");
        assert_eq!(records.seen(), Seen::default());
        let seen = Seen { orchestrator: "o1".to_owned(), epoch: 3 };
        records.save_seen(&seen).unwrap();
        assert_eq!(records.seen(), seen);
    }

    #[test]
    fn a_record_that_cannot_be_written_can_be_begun_again() {
        let spool = tempfile::tempdir().unwrap();
        let records = SlotRecords::open(spool.path()).unwrap();
        let obstacle = spool.path().join("books/new");
        fs::create_dir(&obstacle).unwrap();
        assert!(records.begin(&record()).is_err());
        fs::remove_dir(&obstacle).unwrap();
        assert!(records.begin(&record()).unwrap());
        assert_eq!(records.all().unwrap(), [record()]);
    }

    #[test]
    fn identities_are_no_paths() {
        for (identity, is_good) in [("o1", true), ("", false), ("../x", false), ("a/b", false)] {
            assert_eq!(is_good_identity(identity), is_good, "{identity}");
        }
    }
}
