//! Checksums of rows, so that a row changed on the disk is noticed when it is read.
//!
//! SHA-256 over numbers as 8 bytes each, most significant first, and texts, each with its length in
//! 8 bytes before it: no two rows have the same bytes.

use sha2::{Digest, Sha256};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

/// A sum in the making.
pub(super) struct RowSum(Sha256);

impl RowSum {
    /// Begins with the sum of what comes before; with nothing, if nothing does.
    pub(super) fn after(before: &[u8]) -> RowSum {
        RowSum(Sha256::new_with_prefix(before))
    }

    /// Adds a number.
    pub(super) fn number(mut self, number: i64) -> RowSum {
        self.0.update(number.to_be_bytes());
        self
    }

    /// Adds a text.
    pub(super) fn text(mut self, text: &str) -> RowSum {
        let length = u64::try_from(text.len()).expect("a length fits in 64 bits");
        self.0.update(length.to_be_bytes());
        self.0.update(text);
        self
    }

    /// Adds a text that may be absent, which is not the same as empty.
    pub(super) fn maybe(self, text: Option<&str>) -> RowSum {
        match text {
            Some(text) => self.number(1).text(text),
            None => self.number(0),
        }
    }

    /// The sum, in 32 bytes.
    pub(super) fn end(self) -> Vec<u8> {
        self.0.finalize().to_vec()
    }
}

/// Checks that `row` is unchanged: its column `sum` must equal `sum`. A row of an older version has
/// no sum and passes.
///
/// # Errors
///
/// If the row is not `what` was written.
pub(super) fn check(row: &SqliteRow, sum: &[u8], what: &str) -> Result<(), sqlx::Error> {
    match row.try_get::<Option<Vec<u8>>, _>("sum")? {
        Some(found) if found != sum => {
            Err(sqlx::Error::Decode(format!("{what} was changed after it was written").into()))
        }
        _ => Ok(()),
    }
}
