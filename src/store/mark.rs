//! The high-water mark of the store, in a small file beside the database.
//!
//! A database may be whole and yet not the newest: an older copy was put in its place, or its
//! write-ahead log was deleted, cut short or damaged, and what is behind the damage does not count.
//! All of them open without a complaint, and numbers would be given out a second time. So the
//! numbers go into this file too, after every commit.
//!
//! The mark is written after the commit that it describes, and not synced itself. It never says
//! more than was committed, and says less only after a loss of power.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{Last, StoreError};

/// The file, and its content when it was opened.
#[derive(Debug)]
pub(super) struct Mark {
    path: PathBuf,
    file: File,
    /// Numbers of the last commit, as found at the start; zeros if the mark is missing or damaged.
    pub(super) found: Last,
}

impl Mark {
    /// Opens or creates the mark of the database at `path`.
    ///
    /// # Errors
    ///
    /// If it can be neither read nor created.
    pub(super) fn open(path: &Path) -> Result<Mark, StoreError> {
        let mut name = OsString::from(path);
        name.push(".mark");
        let path = PathBuf::from(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let read = |file: File| {
            let mut text = [0; LENGTH];
            let is_whole = file.read_exact_at(&mut text, 0).is_ok();
            let found = is_whole.then(|| read(&text)).flatten().unwrap_or_default();
            (file, found)
        };
        match options.open(&path).map(read) {
            Ok((file, found)) => Ok(Mark { path, file, found }),
            Err(source) => Err(StoreError::Mark { path, source }),
        }
    }

    /// Writes the numbers of the last commit.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub(super) fn put(&self, last: &Last) -> Result<(), StoreError> {
        let failed = |source: io::Error| StoreError::Mark { path: self.path.clone(), source };
        self.file.write_all_at(written(last).as_bytes(), 0).map_err(failed)
    }
}

/// Digits of the longest number.
const DIGITS: usize = 20;

/// Four numbers and a sum, each with the blank or the line end behind it. Always as long, so that
/// no disk is too full for it.
const LENGTH: usize = 5 * (DIGITS + 1);

fn written(last: &Last) -> String {
    // Zero stands for no publication yet; a sequence number is stored plus one.
    let sequence = last.sequence.map_or(0, |sequence| sequence.saturating_add(1));
    let Last { cycle, next_share, event, .. } = last;
    let text =
        format!("{cycle:0DIGITS$} {next_share:0DIGITS$} {sequence:0DIGITS$} {event:0DIGITS$} ");
    let sum = sum_of(text.as_bytes());
    format!("{text}{sum:0DIGITS$}\n")
}

fn read(text: &[u8; LENGTH]) -> Option<Last> {
    let (numbers, sum) = text.split_at(LENGTH - DIGITS - 1);
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.trim_end().parse::<u64>().ok();
    if number(sum)? != sum_of(numbers) {
        return None;
    }
    let mut numbers = numbers.chunks(DIGITS + 1).map(number);
    let mut next = || numbers.next().flatten();
    let (cycle, next_share, sequence, event) = (next()?, next()?, next()?, next()?);
    Some(Last { cycle, next_share, sequence: sequence.checked_sub(1), schedule: None, event })
}

fn sum_of(text: &[u8]) -> u64 {
    let sum: [u8; 32] = Sha256::digest(text).into();
    let [first, second, third, fourth, ..] = sum;
    u64::from(u32::from_be_bytes([first, second, third, fourth]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_was_changed_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let last =
            Last { cycle: u64::MAX, next_share: 7, sequence: Some(0), schedule: None, event: 3 };
        for last in [last, Last { sequence: None, ..last }] {
            Mark::open(&path).unwrap().put(&last).unwrap();
            assert_eq!(Mark::open(&path).unwrap().found, last);
        }
        let file = folder.path().join("state.db.mark");
        let text = std::fs::read(&file).unwrap();
        assert_eq!(text.len(), LENGTH);
        for place in 0..LENGTH - 1 {
            let mut changed = text.clone();
            changed[place] ^= 1;
            std::fs::write(&file, changed).unwrap();
            assert_eq!(Mark::open(&path).unwrap().found, Last::default(), "byte {place}");
        }
    }
}
