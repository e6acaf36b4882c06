//! Batches and checkpoints as bytes that reveal any later change.
//!
//! A batch is text with a line for each entry: the first bytes of the line's checksum in
//! hexadecimal, a blank, and JSON. If a byte of it changes, the error can name the entry. Longer
//! text is compressed.

use sha2::{Digest as _, Sha256};

use super::entry::JournalEntry;
use super::text;
use crate::model::Sealed;
use crate::scheduler::checkpoint::SchedulerState;

/// Version of the written form of batches and checkpoints.
pub(super) const VERSION: u32 = 1;

/// Shorter text is left as it is, for people who read it with a SQL client.
const PACKED_FROM: usize = 1024;

/// More is not unpacked: it is not ours.
const UNPACKED_MAX: usize = 1 << 30;

/// The first byte of a body.
const PLAIN: u8 = b'=';
const PACKED: u8 = b'~';

/// Digits of the first four bytes of a line's sum.
const CHECK: usize = 8;

/// Inputs recorded between two cycles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    text: String,
}

/// Reason for which a stored text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Unreadable {
    #[error(
        "it is in form {found}, and this apportion knows {VERSION}; use the version that wrote it"
    )]
    Version { found: u32 },
    #[error("its sum does not agree: it was changed after it was written")]
    Changed,
    #[error("entry {entry} of {of} was changed after it was written: {line}")]
    EntryChanged { entry: usize, of: usize, line: String },
    #[error("entry {entry} of {of} cannot be parsed: {problem}")]
    Nonsense { entry: usize, of: usize, problem: String },
    #[error("the checkpoint cannot be parsed: {problem}")]
    CheckpointNonsense { problem: String },
}

impl Batch {
    /// Appends an entry.
    ///
    /// # Panics
    ///
    /// If a plain struct does not become JSON.
    pub fn push(&mut self, entry: &JournalEntry) {
        let json = serde_json::to_string(&text::Line::from(entry)).expect("plain structs are JSON");
        self.text.push_str(&check_of(&json));
        self.text.push(' ');
        self.text.push_str(&json);
        self.text.push('\n');
    }

    /// True if the batch has no entry.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Encodes the batch for the store.
    pub fn seal(&self) -> Sealed {
        seal(self.text.as_bytes())
    }

    /// Decodes a batch.
    ///
    /// # Errors
    ///
    /// If the text was changed, or its form is unknown; with the changed entry, if it can be found.
    pub fn open(sealed: &Sealed) -> Result<Vec<JournalEntry>, Unreadable> {
        let (text, is_whole) = match open(sealed) {
            Ok(text) => (text, true),
            Err(Unreadable::Changed) => (unpack(&sealed.body).ok_or(Unreadable::Changed)?, false),
            Err(other) => return Err(other),
        };
        let text = String::from_utf8_lossy(&text);
        let of = text.lines().count();
        let mut entries = Vec::with_capacity(of);
        for (entry, line) in (1..).zip(text.lines()) {
            let json =
                line.split_at_checked(CHECK + 1).map(|(check, json)| (check.trim_end(), json));
            let Some(json) = json.filter(|(check, json)| check_of(json) == *check) else {
                let line = line.chars().take(LINE_SHOWN).collect();
                return Err(Unreadable::EntryChanged { entry, of, line });
            };
            let read = serde_json::from_str::<text::Line>(json.1);
            let read = read.map_err(|problem| Unreadable::Nonsense {
                entry,
                of,
                problem: problem.to_string(),
            })?;
            entries.push(read.into());
        }
        if is_whole { Ok(entries) } else { Err(Unreadable::Changed) }
    }
}

/// Characters shown of a changed entry.
const LINE_SHOWN: usize = 200;

/// Encodes a checkpoint.
///
/// # Panics
///
/// If a plain struct does not become JSON.
pub fn seal_checkpoint(checkpoint: &SchedulerState) -> Sealed {
    seal(
        &serde_json::to_vec(&text::CheckpointText::from(checkpoint))
            .expect("plain structs are JSON"),
    )
}

/// Decodes a checkpoint.
///
/// # Errors
///
/// If they are not what was written, or in a form that is not known.
pub fn open_checkpoint(sealed: &Sealed) -> Result<SchedulerState, Unreadable> {
    let text: text::CheckpointText = serde_json::from_slice(&open(sealed)?)
        .map_err(|problem| Unreadable::CheckpointNonsense { problem: problem.to_string() })?;
    Ok(text.into())
}

/// Any text as it is kept.
pub fn seal(text: &[u8]) -> Sealed {
    let body = if text.len() < PACKED_FROM {
        [&[PLAIN], text].concat()
    } else {
        [&[PACKED], lz4_flex::compress_prepend_size(text).as_slice()].concat()
    };
    Sealed { version: VERSION, sum: sum_of(VERSION, &body), body }
}

/// The text in `sealed`.
///
/// # Errors
///
/// If it is not what was written, or in a form that is not known.
pub fn open(sealed: &Sealed) -> Result<Vec<u8>, Unreadable> {
    if sealed.version != VERSION {
        return Err(Unreadable::Version { found: sealed.version });
    }
    if sum_of(sealed.version, &sealed.body) != sealed.sum {
        return Err(Unreadable::Changed);
    }
    unpack(&sealed.body).ok_or(Unreadable::Changed)
}

fn unpack(body: &[u8]) -> Option<Vec<u8>> {
    let (form, text) = body.split_first()?;
    match *form {
        PLAIN => Some(text.to_vec()),
        PACKED => {
            let (size, packed) = lz4_flex::block::uncompressed_size(text).ok()?;
            (size <= UNPACKED_MAX).then(|| lz4_flex::decompress(packed, size).ok()).flatten()
        }
        _ => None,
    }
}

fn sum_of(version: u32, body: &[u8]) -> Vec<u8> {
    let mut sum = Sha256::new();
    sum.update(version.to_be_bytes());
    sum.update(body);
    sum.finalize().to_vec()
}

fn check_of(json: &str) -> String {
    let sum: [u8; 32] = Sha256::digest(json).into();
    let [first, second, third, fourth, ..] = sum;
    format!("{:0CHECK$x}", u32::from_be_bytes([first, second, third, fourth]))
}
