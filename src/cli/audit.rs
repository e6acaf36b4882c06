//! The audit log, read from the daemon's record: shown, and verified row by row.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;

use super::failure::{Failure, FailureKind};
use super::output::show;
use super::table::{Column, table};
use crate::store::{AuditCheck, AuditEntry, AuditFault, AuditHead, ReadOnlyStore};

/// Rows of a read: few enough to keep memory small.
const CHUNK: u32 = 1000;

/// An action on the audit log.
#[derive(Debug, Subcommand)]
pub enum AuditAction {
    /// Show what administrators did, and who was refused
    #[command(after_help = SHOW_EXAMPLES)]
    Show(AuditShowArgs),
    /// Compute the sums of all rows again, and name what was changed, cut or added
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(Verify),
}

const SHOW_EXAMPLES: &str = "\
Examples:
  apportion audit show /var/lib/apportion/apportion.db
  apportion audit show apportion.db --last 0 --json | grep refused";

const VERIFY_EXAMPLES: &str = "\
Examples:
  apportion audit verify apportion.db
  apportion audit verify apportion.db --noted 4711:9f86d081884c7d65…

It ends with 1 if anything is wrong. A user who may write the file could compute all sums again. Note down
the last line of the output elsewhere, and give it with --noted the next time.";

/// Shows the log.
#[derive(Debug, Args)]
pub struct AuditShowArgs {
    /// The daemon's record, or a copy
    #[arg(value_name = "FILE")]
    pub store: PathBuf,
    /// Number of rows, the newest; 0 for all
    #[arg(long, default_value_t = 50)]
    pub last: u64,
    /// Print JSON, an object a line
    #[arg(long)]
    pub json: bool,
}

/// Verifies the log.
#[derive(Debug, Args)]
pub struct Verify {
    /// The daemon's record, or a copy
    #[arg(value_name = "FILE")]
    pub store: PathBuf,
    /// A row that was noted down, which has to be there as it was
    #[arg(long, value_name = "ROW:SUM", value_parser = parse_noted)]
    pub noted: Option<AuditHead>,
    /// Show the outcome in JSON
    #[arg(long)]
    pub json: bool,
}

fn parse_noted(text: &str) -> Result<AuditHead, String> {
    let parts = || {
        let (id, sum) = text.split_once(':')?;
        let digits = sum.as_bytes().chunks(2).map(|pair| {
            let is_hex = pair.len() == 2 && pair.iter().all(u8::is_ascii_hexdigit);
            let pair = std::str::from_utf8(pair).ok().filter(|_| is_hex)?;
            u8::from_str_radix(pair, 16).ok()
        });
        let sum = digits.collect::<Option<Vec<u8>>>().filter(|sum| sum.len() == 32)?;
        Some(AuditHead { id: id.parse().ok()?, sum })
    };
    parts().ok_or_else(|| "write the row and its sum, as `audit verify` prints them".to_owned())
}

/// A row, as programs get it.
#[derive(Serialize)]
struct AuditLine {
    id: u64,
    at: String,
    who: String,
    origin: String,
    act: String,
    detail: String,
    outcome: String,
}

impl From<AuditEntry> for AuditLine {
    fn from(entry: AuditEntry) -> AuditLine {
        let at = Timestamp::from_millisecond(entry.row.at_ms);
        let at = at.map_or_else(|_| entry.row.at_ms.to_string(), |at| format!("{at:.0}"));
        let crate::store::AuditRow { who, origin, act, detail, outcome, .. } = entry.row;
        AuditLine { id: entry.id, at, who, origin, act, detail, outcome }
    }
}

/// Result of a verification.
#[derive(Serialize)]
struct AuditVerdict {
    /// Number of rows.
    rows: u64,
    /// Faults, in words.
    faults: Vec<String>,
    /// Text to note down: the last row and its sum.
    note: String,
}

/// Runs the command.
///
/// # Errors
///
/// If the record cannot be read, or the log is not as it was written.
pub async fn run(action: &AuditAction) -> Result<(), Failure> {
    match action {
        AuditAction::Show(args) => shown(args).await,
        AuditAction::Verify(args) => verified(args).await,
    }
}

async fn shown(args: &AuditShowArgs) -> Result<(), Failure> {
    let mut archive = ReadOnlyStore::open(&args.store).await?;
    let end = archive.audit_head().await?.id;
    let mut after = if args.last == 0 { 0 } else { end.saturating_sub(args.last) };
    let mut rows = Vec::new();
    loop {
        let chunk = archive.audit_after(after, CHUNK).await?;
        let Some(last) = chunk.last() else { break };
        after = last.id;
        rows.extend(chunk.into_iter().map(AuditLine::from));
    }
    if args.json {
        let lines: Result<Vec<String>, _> = rows.iter().map(serde_json::to_string).collect();
        return Ok(super::output::print(&lines?.join("\n"))?);
    }
    Ok(super::output::print(&rendered(rows))?)
}

fn rendered(rows: Vec<AuditLine>) -> String {
    if rows.is_empty() {
        return "the audit log is empty".to_owned();
    }
    let columns = [
        Column::Right("ROW"),
        Column::Left("AT"),
        Column::Left("WHO"),
        Column::Left("FROM"),
        Column::Left("ACT"),
        Column::Left("DETAIL"),
        Column::Left("OUTCOME"),
    ];
    let row = |row: AuditLine| {
        let AuditLine { id, at, who, origin, act, detail, outcome } = row;
        [id.to_string(), at, who, origin, act, detail, outcome]
    };
    table(columns, rows.into_iter().map(row))
}

async fn verified(args: &Verify) -> Result<(), Failure> {
    let mut archive = ReadOnlyStore::open(&args.store).await?;
    // Before the rows: what is added meanwhile has to be judged by the end that it has then.
    let head = archive.audit_head().await?;
    let mut check = AuditCheck::against(args.noted.clone());
    let (mut after, mut rows) = (0, 0);
    'rows: loop {
        let chunk = archive.audit_after(after, CHUNK).await?;
        let Some(last) = chunk.last() else { break };
        after = last.id;
        for entry in &chunk {
            check.look(entry);
            rows += 1;
            if entry.id == head.id && archive.audit_head().await? != head {
                // Another process wrote meanwhile: the next verification reads those rows.
                break 'rows;
            }
        }
    }
    let faults: Vec<String> = check.finish(&head).iter().map(told).collect();
    let sum = head.sum.iter().map(|byte| format!("{byte:02x}"));
    let note = format!("{}:{}", head.id, sum.collect::<String>());
    let is_sound = faults.is_empty();
    show(&AuditVerdict { rows, faults, note }, args.json, judged)?;
    if is_sound { Ok(()) } else { Err(Failure::silent(FailureKind::Refused)) }
}

fn told(fault: &AuditFault) -> String {
    match fault {
        AuditFault::Missing { first, last } if first == last => format!("row {first} is missing"),
        AuditFault::Missing { first, last } => format!("rows {first} to {last} are missing"),
        AuditFault::Changed { id } => format!("row {id} is not as it was written"),
        AuditFault::Added { first } => {
            format!("row {first} and what follows was not put there by us")
        }
        AuditFault::NotAsNoted { id } => format!("row {id} is not as it was noted down"),
    }
}

fn judged(verdict: &AuditVerdict) -> String {
    let AuditVerdict { rows, faults, note } = verdict;
    if faults.is_empty() {
        return format!("{rows} rows, all as they were written; to note down elsewhere:\n  {note}");
    }
    format!("{rows} rows; the log was changed:\n  {}", faults.join("\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_a_row_and_its_sum() {
        let sum = "0f".repeat(32);
        let noted = parse_noted(&format!("17:{sum}")).unwrap();
        assert_eq!(noted, AuditHead { id: 17, sum: vec![15; 32] });
        for wrong in ["17", "17:0f", &format!("x:{sum}"), &format!("17:{sum}f"), "17:+f"] {
            assert!(parse_noted(wrong).is_err(), "{wrong}");
        }
    }
}
