//! The journal of a slot: which attempts it was given, began and ended.
//!
//! A file of records, appended and never changed. A record is the length of the payload (4 bytes,
//! little endian), a sum (crc32 of kind and payload, 4 bytes), the kind (1 byte), and the payload
//! (JSON). An incomplete record is the torn end of a write; it and all bytes behind it are dropped.
//! There is no `fsync`: the journal has to survive its slot, and the end of the node is known by
//! another boot id.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};

use super::wire::MAX_FROM_SLOT;
use crate::orchestrator::wire::{AttemptId, Reason, SlotEnd, TaskResult};

/// The longest payload that a reader accepts, in bytes: a result with 6 KiB of text, escaped.
const MAX_PAYLOAD: usize = 256 << 10;

/// The most attempts without a result that a reader accepts: far more than a slot holds.
const MAX_OPEN: usize = 1 << 16;

/// A record of the journal: an event in the life of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// The slot started.
    Opened {
        /// Name of the slot on the node.
        slot: String,
    },
    /// The slot was given these attempts.
    Held(Vec<AttemptId>),
    /// The slot is about to begin this attempt.
    Begin(AttemptId),
    /// An attempt ended.
    End(TaskResult),
    /// Results up to this number are acknowledged by the orchestrator.
    Acked(u64),
    /// The slot ended, with no process left.
    Closed {
        /// Reason of the end.
        end: SlotEnd,
        /// Sentence for people.
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

/// Reason why a slot cannot start in a folder.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process has it open.
    #[error("a slot runs in this folder")]
    Locked,
    /// The journal has records.
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

    /// Appends `record`. After a failure, a partly written record is removed.
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

/// The next record of a journal; `None` if it is not whole.
///
/// # Errors
///
/// If the journal cannot be read.
fn next(from: &mut impl Read, body: &mut Vec<u8>) -> io::Result<Option<Record>> {
    let mut head = Vec::new();
    from.take(8).read_to_end(&mut head)?;
    let Some((length, sum)) = head.split_first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > MAX_PAYLOAD {
        return Ok(None);
    }
    body.clear();
    from.take(u64::try_from(length).unwrap_or(0).saturating_add(1)).read_to_end(body)?;
    if body.len() <= length || crc32fast::hash(body).to_le_bytes() != sum {
        return Ok(None);
    }
    let Some((kind, payload)) = body.split_first() else { return Ok(None) };
    let record: Option<Record> = serde_json::from_slice(payload).ok();
    Ok(record.filter(|record| record.kind() == *kind))
}

/// State of a slot according to its journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalState {
    /// Name of the slot; `None` if the journal does not even have its start.
    pub slot: Option<String>,
    /// All results that are not acknowledged, by number.
    pub results: BTreeMap<u64, TaskResult>,
    /// Number up to which results are acknowledged.
    pub acked: u64,
    /// End of the slot; `None` if it was killed.
    pub closed: Option<(SlotEnd, Option<String>)>,
    /// True if the sought attempt began.
    pub has_begun: bool,
    /// Attempts without a result: true if the attempt still waits for its begin, and its place in
    /// the journal.
    open: BTreeMap<AttemptId, (bool, u64)>,
    places: u64,
    /// Bytes of the results.
    size: usize,
}

impl JournalState {
    /// The account that a journal gives with all its whole records. `sought`: an attempt that is asked
    /// about.
    ///
    /// A journal may be long, or forged by a task. So reading takes no more memory than a slot may
    /// report at a time.
    ///
    /// # Errors
    ///
    /// If the journal cannot be read.
    pub fn read(from: &mut impl Read, sought: Option<AttemptId>) -> io::Result<JournalState> {
        let mut account = JournalState::default();
        let mut body = Vec::new();
        while account.is_plausible() {
            let Some(record) = next(from, &mut body)? else { break };
            account.enter(record, sought);
        }
        Ok(account)
    }

    /// True while the account is within the limits of an honest slot.
    fn is_plausible(&self) -> bool {
        self.open.len() <= MAX_OPEN && self.size <= MAX_FROM_SLOT
    }

    fn enter(&mut self, record: Record, sought: Option<AttemptId>) {
        match record {
            Record::Opened { slot } => self.slot = Some(slot),
            Record::Held(attempts) => {
                for attempt in attempts {
                    self.places += 1;
                    self.open.entry(attempt).or_insert((true, self.places));
                }
            }
            Record::Begin(attempt) => {
                self.places += 1;
                self.open.insert(attempt, (false, self.places));
                self.has_begun |= sought == Some(attempt);
            }
            Record::End(result) => {
                let has_begun = result.why != Reason::Returned;
                self.has_begun |= has_begun && sought == Some(result.task);
                self.open.remove(&result.task);
                self.size = self.size.saturating_add(bytes_of(&result));
                if let Some(before) = self.results.insert(result.number, result) {
                    self.size = self.size.saturating_sub(bytes_of(&before));
                }
            }
            Record::Acked(number) => {
                self.acked = self.acked.max(number);
                let rest = self.results.split_off(&self.acked.saturating_add(1));
                for result in std::mem::replace(&mut self.results, rest).values() {
                    self.size = self.size.saturating_sub(bytes_of(result));
                }
            }
            Record::Closed { end, text } => self.closed = Some((end, text)),
        }
    }

    /// Completes the results of a dead slot. An attempt that began and has no result is lost; an
    /// attempt that did not begin is returned. Equal journals give equal numbers.
    pub fn settle(mut self) -> JournalState {
        let mut open: Vec<((bool, u64), AttemptId)> =
            std::mem::take(&mut self.open).into_iter().map(|(id, place)| (place, id)).collect();
        open.sort_unstable();
        let mut number = self.results.keys().next_back().copied().unwrap_or(0).max(self.acked);
        for ((is_waiting, _), attempt) in open {
            let why = if is_waiting { Reason::Returned } else { Reason::Lost };
            // A forged number may be the highest there is.
            number = number.saturating_add(1);
            self.results.insert(number, plain_result(number, attempt, why));
        }
        self
    }
}

/// About the memory that a result takes.
fn bytes_of(result: &TaskResult) -> usize {
    result.tail.len().saturating_add(result.error.len()).saturating_add(size_of::<TaskResult>())
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

    fn read(mut bytes: &[u8]) -> Vec<Record> {
        let mut body = Vec::new();
        std::iter::from_fn(|| next(&mut bytes, &mut body).unwrap()).collect()
    }

    fn account(mut journal: &[u8]) -> JournalState {
        JournalState::read(&mut journal, None).unwrap()
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
        let account = account(&bytes(&life())).settle();
        let results: Vec<(u64, AttemptId, Reason)> =
            account.results.values().map(|end| (end.number, end.task, end.why)).collect();
        assert_eq!(results, [(2, id(2), Reason::Lost), (3, id(3), Reason::Returned)]);
        assert_eq!((account.acked, account.closed), (1, None));
        for (task, has_begun) in [(1, true), (2, true), (3, false)] {
            let journal = bytes(&life());
            let account = JournalState::read(&mut journal.as_slice(), Some(id(task))).unwrap();
            assert_eq!(account.has_begun, has_begun, "{task}");
        }
    }

    #[test]
    fn a_forged_journal_takes_no_more_memory_than_a_slot_has_to_say() {
        let held: Vec<u8> = (0..100)
            .flat_map(|part| {
                let attempts = (part * 4000..(part + 1) * 4000).map(id).collect();
                Record::Held(attempts).encode().unwrap()
            })
            .collect();
        let found = account(&held);
        assert!(found.open.len() <= MAX_OPEN + 4000, "{}", found.open.len());
        let text = "x".repeat(100_000);
        let end = |number| {
            let tail = text.clone();
            Record::End(TaskResult { tail, ..plain_result(number, id(number), Reason::Exit) })
        };
        let ends: Vec<u8> = (1..=200).flat_map(|number| end(number).encode().unwrap()).collect();
        let found = account(&ends);
        assert!(found.results.len() < 100, "{}", found.results.len());
        // Acknowledged results take no memory.
        let acked: Vec<u8> = (1..=200)
            .flat_map(|number| [end(number), Record::Acked(number)])
            .flat_map(|record| record.encode().unwrap())
            .collect();
        let found = account(&acked);
        assert_eq!((found.results.len(), found.acked, found.size), (0, 200, 0));
        let last = bytes(&[
            Record::End(plain_result(u64::MAX, id(1), Reason::Done)),
            Record::Begin(id(2)),
        ]);
        assert_eq!(account(&last).settle().results.len(), 1);
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

    /// Records as a user may forge them: the checksums are right, and the content is not.
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
            account(&forged).settle();
        }
    }

    /// Journals as a disk or a user may damage them: bytes change, vanish or are doubled at any
    /// place.
    #[test]
    fn a_hundred_thousand_damaged_records_are_read_up_to_the_damage() {
        use rand::{RngExt, SeedableRng};

        let mut lots = rand_chacha::ChaCha8Rng::seed_from_u64(24);
        let records = life();
        let ends: Vec<usize> =
            (0..=records.len()).map(|count| bytes(&records[..count]).len()).collect();
        let all = bytes(&records);
        for _ in 0..100_000_usize.div_ceil(records.len()) {
            let mut damaged = all.clone();
            let place = lots.random_range(0..all.len());
            match lots.random_range(0..4) {
                0 => damaged[place] ^= lots.random_range(1..=255_u8),
                1 => damaged.truncate(place),
                2 => drop(damaged.drain(place..lots.random_range(place..=all.len()))),
                _ => damaged.splice(place..place, all.clone()).for_each(drop),
            }
            // Every record before the damage is found, and no record is invented.
            let before = ends.iter().filter(|end| **end <= place).count() - 1;
            let found = read(&damaged);
            assert!(found.starts_with(&records[..before]), "damaged at {place}");
            assert!(found.iter().all(|record| records.contains(record)), "{found:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            read(&bytes);
        }
    }
}
