//! Reader of the text of `sacct --parsable2`: a line of names, then a line for each job.
//!
//! Columns are found by name, in any order. Steps of jobs are passed over. Only a file without the
//! columns that are needed, or without any job that ended, is refused.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::log::{
    JobLog, JobLogError, LogMemory, LogRow, MemoryBasis, NodeSplit, NoteCounter, RowNote, RowTimes,
};
use crate::model::Name;

/// Command that writes such a text, for messages.
const COMMAND: &str = "sacct --allusers --allocations --parsable2 --format=JobID,User,Partition,\
                       Submit,ElapsedRaw,TimelimitRaw,ReqCPUS,NNodes,ReqMem,State";

/// Reads `text`, which messages call `file`.
///
/// # Errors
///
/// If its first line does not name the columns that are needed, or it has no job that ended.
pub fn parse(file: &str, text: &str) -> Result<JobLog, JobLogError> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let Some((line, head)) = lines.next() else {
        let remedy = format!("write it with `{COMMAND}`");
        return Err(JobLogError::whole(format!("{file} is empty"), remedy));
    };
    let columns = SacctColumns::of(head).map_err(|missing| JobLogError::Line {
        file: file.to_owned(),
        line,
        problem: format!("there is no column {missing}"),
        remedy: format!(
            "write the file with `{COMMAND}`; a log in the standard workload format is for --swf"
        ),
    })?;
    let mut notes = NoteCounter::default();
    let mut log = JobLog { file: file.to_owned(), ..JobLog::default() };
    let mut seen = 0_u64;
    for (line, content) in lines {
        let fields: Vec<&str> = content.trim_end_matches('\r').split('|').map(str::trim).collect();
        let cells = SacctCells { columns: &columns, fields: &fields };
        if cells.is_step() {
            continue;
        }
        seen += 1;
        if fields.len() < columns.count {
            notes.note(RowNote::TooShort, line);
            continue;
        }
        log.rows.extend(cells.row(line, &mut notes));
    }
    if log.rows.is_empty() {
        let problem = format!("{file} has {seen} jobs, and none of them ran and ended");
        let remedy = format!("add --starttime and --endtime to `{COMMAND}`");
        return Err(JobLogError::whole(problem, remedy));
    }
    log.rows.sort_by_key(|row| (row.submitted, row.line));
    log.notes = notes.into_notes();
    Ok(log)
}

/// Places of the columns.
struct SacctColumns {
    count: usize,
    job: usize,
    user: usize,
    submitted: usize,
    elapsed: Option<usize>,
    elapsed_raw: Option<usize>,
    limit: Option<usize>,
    limit_raw: Option<usize>,
    processors: usize,
    nodes: Option<usize>,
    memory: Option<usize>,
    state: Option<usize>,
    partition: Option<usize>,
}

impl SacctColumns {
    /// Finds the columns that `head` names, or the first that is missing.
    fn of(head: &str) -> Result<SacctColumns, &'static str> {
        let names: Vec<String> =
            head.split('|').map(|name| name.trim().to_ascii_lowercase()).collect();
        let find = |name: &str| names.iter().position(|known| known == name);
        let (elapsed, elapsed_raw) = (find("elapsed"), find("elapsedraw"));
        if elapsed.or(elapsed_raw).is_none() {
            return Err("ElapsedRaw");
        }
        Ok(SacctColumns {
            count: names.len(),
            job: find("jobid").or_else(|| find("jobidraw")).ok_or("JobID")?,
            user: find("user").ok_or("User")?,
            submitted: find("submit").ok_or("Submit")?,
            elapsed,
            elapsed_raw,
            limit: find("timelimit"),
            limit_raw: find("timelimitraw"),
            processors: find("reqcpus").or_else(|| find("alloccpus")).ok_or("ReqCPUS")?,
            nodes: find("nnodes").or_else(|| find("allocnodes")),
            memory: find("reqmem"),
            state: find("state"),
            partition: find("partition"),
        })
    }
}

/// A line, by column.
struct SacctCells<'a> {
    columns: &'a SacctColumns,
    fields: &'a [&'a str],
}

impl<'a> SacctCells<'a> {
    fn at(&self, column: usize) -> &'a str {
        self.fields.get(column).copied().unwrap_or_default()
    }

    fn optional(&self, column: Option<usize>) -> Option<&'a str> {
        column.map(|column| self.at(column)).filter(|text| !text.is_empty())
    }

    /// True for a step of a job, `12.batch` or `12.0`.
    fn is_step(&self) -> bool {
        self.at(self.columns.job).contains('.')
    }

    fn row(&self, line: usize, notes: &mut NoteCounter) -> Option<LogRow> {
        let columns = self.columns;
        let state = self.optional(columns.state).unwrap_or("COMPLETED");
        if ["PENDING", "RUNNING", "SUSPENDED", "REQUEUED"]
            .iter()
            .any(|word| state.starts_with(word))
        {
            notes.note(RowNote::NotEnded, line);
            return None;
        }
        let elapsed = self.optional(columns.elapsed_raw).and_then(|text| text.parse().ok());
        let minutes = self.optional(columns.limit_raw).and_then(|text| text.parse::<i64>().ok());
        let times = RowTimes {
            submitted: moment(self.at(columns.submitted)),
            runs: elapsed.or_else(|| self.optional(columns.elapsed).and_then(duration)),
            declared: minutes
                .map(|minutes| minutes.saturating_mul(60))
                .or_else(|| self.optional(columns.limit).and_then(duration)),
            has_completed: state.starts_with("COMPLETED"),
        };
        let times = times.check(line, notes)?;
        let positive = |text: &str| text.parse::<u64>().ok().filter(|number| 0 < *number);
        let processors = positive(self.at(columns.processors)).unwrap_or_else(|| {
            notes.note(RowNote::NoProcessors, line);
            1
        });
        let nodes = self.optional(columns.nodes).and_then(positive).filter(|nodes| 1 < *nodes);
        let name = |text: Option<&str>| Name::from(text.unwrap_or("-"));
        Some(LogRow {
            number: Name::from(self.at(columns.job)),
            line,
            user: name(self.optional(Some(columns.user))),
            queue: name(self.optional(columns.partition)),
            submitted: times.submitted,
            runs: times.runs,
            declared: times.declared,
            processors,
            split: nodes.and_then(|nodes| {
                Some(NodeSplit {
                    nodes,
                    processors: processors.checked_next_multiple_of(nodes)?.checked_div(nodes)?,
                })
            }),
            memory: self.optional(columns.memory).and_then(memory),
        })
    }
}

/// Reads `2026-11-26T14:11:14` as seconds; only differences count, so the time zone does not matter.
fn moment(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let time: DateTime = text.parse().ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

/// Reads `[days-]hours:minutes:seconds` or `minutes:seconds` as seconds.
fn duration(text: &str) -> Option<i64> {
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let days: i64 = days.parse().ok()?;
    let mut seconds = 0_i64;
    for part in rest.split('.').next()?.split(':') {
        let part: i64 = part.parse().ok()?;
        seconds = seconds.checked_mul(60)?.checked_add(part)?;
    }
    days.checked_mul(86_400)?.checked_add(seconds)
}

/// Reads `4Gn`, `4000Mc` or `16G` in KB. Old versions end with the basis; new ones mean the job.
fn memory(text: &str) -> Option<LogMemory> {
    let (text, basis) = match text.as_bytes().last()? {
        b'n' => (text.strip_suffix('n')?, MemoryBasis::Node),
        b'c' => (text.strip_suffix('c')?, MemoryBasis::Processor),
        _ => (text, MemoryBasis::Job),
    };
    let number_ends = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_ends);
    let kilobytes: u64 = match unit {
        "K" => 1,
        "" | "M" => 1 << 10,
        "G" => 1 << 20,
        "T" => 1 << 30,
        _ => return None,
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().ok()?;
    let hundredths: u64 = format!("{decimals:0<2}").get(..2)?.parse().ok()?;
    let part = hundredths.checked_mul(kilobytes)?.checked_div(100)?;
    let amount = whole.checked_mul(kilobytes)?.checked_add(part)?;
    (0 < amount).then_some(LogMemory { amount, basis: Some(basis) })
}
