//! The journal of a slot: which attempts it was given, began and ended.
//!
//! A file of records, appended and never changed: length of the payload (4 bytes, little endian), sum
//! (crc32 of kind and payload, 4 bytes), kind (1 byte), payload (JSON). A record that is not whole is
//! the torn end of a write; it and all behind it are cut off. There is no `fsync`: the journal has to
//! survive its slot, and the end of the node is told by another boot id.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};

use crate::orchestrator::wire::{AttemptId, Reason, SlotEnd, TaskResult};

/// The longest payload that a reader accepts, in bytes: a result with 6 KiB of text, escaped.
const MAX_PAYLOAD: usize = 256 << 10;

/// What a slot has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// It started.
    Opened {
        /// Its name on the node.
        slot: String,
    },
    /// It was given these attempts.
    Held(Vec<AttemptId>),
    /// It is about to begin this attempt.
    Begin(AttemptId),
    /// An attempt ended.
    End(TaskResult),
    /// Results up to this number are on record at the orchestrator.
    Acked(u64),
    /// It ended, with nothing left of it.
    Closed {
        /// Why.
        end: SlotEnd,
        /// The same for people.
        text: Option<String>,
    },
}

impl Record {
    fn kind(&self) -> u8 {
        match self {
            Record::Opened { .. } => 1,
            Record::Held(_) => 2,
            Record::Begin(_) => 3,
            Record::End(_) => 4,
            Record::Acked(_) => 5,
            Record::Closed { .. } => 6,
        }
    }

    fn encode(&self) -> io::Result<Vec<u8>> {
        let mut body = vec![self.kind()];
        serde_json::to_writer(&mut body, self)?;
        let length = u32::try_from(body.len().saturating_sub(1)).map_err(io::Error::other)?;
        let sum = crc32fast::hash(&body);
        Ok([&length.to_le_bytes(), &sum.to_le_bytes(), body.as_slice()].concat())
    }
}

/// Why a slot cannot start on a folder.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process has it open.
    #[error("a slot runs in this folder")]
    Locked,
    /// It has records.
    #[error("a slot has run in this folder; a slot runs once, so remove the folder first")]
    Used,
    /// The file cannot be opened.
    #[error("cannot open the journal")]
    Io(#[from] io::Error),
}

/// The journal of a slot that runs. Locked until it is dropped.
#[derive(Debug)]
pub struct Journal {
    file: File,
    length: u64,
}

impl Journal {
    /// A new journal in the file `path`.
    ///
    /// # Errors
    ///
    /// If it cannot be made, or a slot runs or ran there.
    pub fn create(path: &Path) -> Result<Journal, JournalError> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(no_follow())
            .open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| JournalError::Locked)?;
        if file.metadata()?.len() > 0 {
            return Err(JournalError::Used);
        }
        Ok(Journal { file, length: 0 })
    }

    /// Appends `record`. What is written of it on failure is removed again.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, as on a full disk.
    pub fn append(&mut self, record: &Record) -> io::Result<()> {
        let bytes = record.encode()?;
        if let Err(error) = self.file.write_all(&bytes) {
            self.file.set_len(self.length)?;
            return Err(error);
        }
        self.length += u64::try_from(bytes.len()).map_err(io::Error::other)?;
        Ok(())
    }
}

/// The flag that refuses a symbolic link as the last part of a path.
pub(super) fn no_follow() -> i32 {
    i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0)
}

/// All whole records at the beginning of `bytes`.
pub fn read(mut bytes: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    while let Some((record, rest)) = first(bytes) {
        records.push(record);
        bytes = rest;
    }
    records
}

/// The first record, and what is behind it; `None` if it is not whole.
fn first(bytes: &[u8]) -> Option<(Record, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    if length > MAX_PAYLOAD || rest.len() <= length {
        return None;
    }
    let (body, rest) = rest.split_at(length + 1);
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    let (kind, payload) = body.split_first()?;
    let record: Record = serde_json::from_slice(payload).ok()?;
    (record.kind() == *kind).then_some((record, rest))
}

/// What a journal says of a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Its name; `None` if not even its start is there.
    pub slot: Option<String>,
    /// All results, by number.
    pub results: BTreeMap<u64, TaskResult>,
    /// The number up to which results are on record at the orchestrator.
    pub acked: u64,
    /// How it ended; `None` if it was killed.
    pub closed: Option<(SlotEnd, Option<String>)>,
    begun: Vec<AttemptId>,
    held: Vec<AttemptId>,
}

impl Account {
    /// The account that `records` give.
    pub fn of(records: Vec<Record>) -> Account {
        let mut account = Account::default();
        for record in records {
            match record {
                Record::Opened { slot } => account.slot = Some(slot),
                Record::Held(attempts) => account.held.extend(attempts),
                Record::Begin(attempt) => account.begun.push(attempt),
                Record::End(result) => _ = account.results.insert(result.number, result),
                Record::Acked(number) => account.acked = account.acked.max(number),
                Record::Closed { end, text } => account.closed = Some((end, text)),
            }
        }
        account
    }

    /// Whether the attempt began in the slot.
    pub fn has_begun(&self, attempt: AttemptId) -> bool {
        self.begun.contains(&attempt)
    }

    /// The results of a slot that is dead: an attempt that began and has no result is lost, one that
    /// did not begin is given back. Equal journals give equal numbers.
    pub fn settle(mut self) -> Account {
        let ended: BTreeSet<AttemptId> = self.results.values().map(|result| result.task).collect();
        let mut settled = ended;
        let begun = self.begun.iter().map(|attempt| (*attempt, Reason::Lost));
        let held = self.held.iter().map(|attempt| (*attempt, Reason::Returned));
        let open: Vec<(AttemptId, Reason)> =
            begun.chain(held).filter(|(attempt, _)| settled.insert(*attempt)).collect();
        let mut number = self.results.keys().next_back().copied().unwrap_or(0);
        for (attempt, why) in open {
            number += 1;
            self.results.insert(number, plain_result(number, attempt, why));
        }
        self
    }
}

/// A result that says no more than why.
pub fn plain_result(number: u64, task: AttemptId, why: Reason) -> TaskResult {
    TaskResult {
        number,
        task,
        why,
        exit: None,
        signal: None,
        ms: 0,
        cpu_ms: 0,
        peak_mb: 0,
        rss_mb: 0,
        out: [0, 0],
        tail: String::new(),
        error: String::new(),
        has_saved: false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn id(task: u64) -> AttemptId {
        AttemptId { campaign: 9, task, attempt: 1 }
    }

    fn life() -> Vec<Record> {
        vec![
            Record::Opened { slot: "o1-7".to_owned() },
            Record::Held(vec![id(1), id(2), id(3)]),
            Record::Begin(id(1)),
            Record::End(plain_result(1, id(1), Reason::Done)),
            Record::Acked(1),
            Record::Begin(id(2)),
        ]
    }

    fn bytes(records: &[Record]) -> Vec<u8> {
        records.iter().flat_map(|record| record.encode().unwrap()).collect()
    }

    #[test]
    fn a_torn_journal_keeps_its_whole_records() {
        let (records, all) = (life(), bytes(&life()));
        let mut ends = vec![0];
        for count in 1..=records.len() {
            ends.push(bytes(&records[..count]).len());
        }
        for length in 0..=all.len() {
            let whole = ends.iter().filter(|end| **end <= length).count() - 1;
            assert_eq!(read(&all[..length]), records[..whole], "torn at {length}");
        }
    }

    #[test]
    fn a_flipped_bit_ends_the_journal_there() {
        let (records, all) = (life(), bytes(&life()));
        for at in 0..all.len() {
            let mut damaged = all.clone();
            damaged[at] ^= 0x10;
            let found = read(&damaged);
            assert_eq!(found, records[..found.len()], "flipped at {at}");
            assert!(found.len() < records.len(), "flipped at {at}");
        }
    }

    #[test]
    fn a_dead_slot_lost_what_it_began() {
        let account = Account::of(life()).settle();
        let results: Vec<(u64, AttemptId, Reason)> =
            account.results.values().map(|end| (end.number, end.task, end.why)).collect();
        assert_eq!(
            results,
            [(1, id(1), Reason::Done), (2, id(2), Reason::Lost), (3, id(3), Reason::Returned)]
        );
        assert_eq!((account.acked, account.closed), (1, None));
    }

    #[test]
    fn a_folder_serves_one_slot() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut journal = Journal::create(&path).unwrap();
        for record in life() {
            journal.append(&record).unwrap();
        }
        assert_eq!(read(&fs::read(&path).unwrap()), life());
        assert!(matches!(Journal::create(&path), Err(JournalError::Locked)));
        drop(journal);
        assert!(matches!(Journal::create(&path), Err(JournalError::Used)));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(Journal::create(&link), Err(JournalError::Io(_))));
    }

    /// As a user may forge them: the sums are right, and what is summed is not.
    #[test]
    fn a_hundred_thousand_forged_records_are_read() {
        use rand::{RngExt, SeedableRng};

        let mut lots = rand_chacha::ChaCha8Rng::seed_from_u64(12);
        let signs = b"0123456789-\"{}[]n\xff";
        let whole: Vec<Vec<u8>> = life().iter().map(|one| one.encode().unwrap()).collect();
        for _ in 0..100_000 {
            let mut forged = Vec::new();
            for _ in 0..lots.random_range(1..4) {
                let mut record = whole[lots.random_range(0..whole.len())].clone();
                for _ in 0..lots.random_range(0..3) {
                    let place = lots.random_range(8..record.len());
                    record[place] = signs[lots.random_range(0..signs.len())];
                }
                let sum = crc32fast::hash(&record[8..]).to_le_bytes();
                record[4..8].copy_from_slice(&sum);
                forged.extend(record);
            }
            Account::of(read(&forged)).settle();
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            read(&bytes);
        }
    }
}
