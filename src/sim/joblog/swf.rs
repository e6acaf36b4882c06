//! Reader of the standard workload format: a row for each job, 18 numbers, comments behind `;`.
//!
//! Logs of real sites are dirty: rows that cannot be replayed are counted, never fatal. Only a file
//! without any good row, or with more bad lines than good, is refused. Format: D. Feitelson,
//! "Parallel Workloads Archive: Standard Workload Format", version 2.2.

use super::log::{
    JobLog, JobLogError, LogHeader, LogMemory, LogRow, NodeSplit, NoteCounter, RowNote, RowTimes,
};
use crate::model::Name;

/// Columns up to the number of processors: a shorter row says nothing of use.
const FEWEST_COLUMNS: usize = 5;

/// Columns of the format; further ones are an extension of a site.
const COLUMNS: usize = 18;

/// Status of a job that completed.
const COMPLETED: i64 = 1;

/// A missing number.
const MISSING: i64 = -1;

/// Reads `text`, which messages call `file`.
///
/// # Errors
///
/// If it has no row that can be replayed, or more lines that are no rows than rows.
pub fn parse(file: &str, text: &str) -> Result<JobLog, JobLogError> {
    let mut log = JobLog { file: file.to_owned(), ..JobLog::default() };
    let mut notes = NoteCounter::default();
    let (mut seen, mut good) = (0_u64, 0_u64);
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim_start_matches('\u{feff}').trim();
        if let Some(comment) = content.strip_prefix(';') {
            note_header(&mut log.header, comment);
            continue;
        }
        if content.is_empty() {
            continue;
        }
        seen += 1;
        let fields: Vec<&str> = content.split_whitespace().collect();
        match columns(&fields) {
            Ok(columns) => {
                good += 1;
                log.rows.extend(row(line, columns, &fields, &mut notes));
            }
            Err(note) => notes.note(note, line),
        }
    }
    if let Some(error) = unreadable(file, seen, good, &notes) {
        return Err(error);
    }
    if log.rows.is_empty() {
        let problem = format!("{file} has {seen} rows, and none of them is a job that ran");
        return Err(JobLogError::whole(problem, "column 4 must hold the run time in seconds"));
    }
    log.rows.sort_by_key(|row| (row.submitted, row.line));
    log.notes = notes.into_notes();
    Ok(log)
}

/// Takes a line such as `MaxNodes: 430` into the header.
fn note_header(header: &mut LogHeader, comment: &str) {
    let Some((key, value)) = comment.split_once(':') else { return };
    let value = value.split_whitespace().next().and_then(|value| value.parse().ok());
    let value = value.filter(|number: &u64| 0 < *number);
    match key.trim().to_ascii_lowercase().as_str() {
        "maxnodes" => header.nodes = value.or(header.nodes),
        "maxprocs" => header.processors = value.or(header.processors),
        _ => {}
    }
}

/// Numbers of a row, in the order of the format; missing columns are -1.
fn columns(fields: &[&str]) -> Result<[i64; COLUMNS], RowNote> {
    let mut columns = [MISSING; COLUMNS];
    for (column, field) in columns.iter_mut().zip(fields) {
        // A list of preceding jobs, as Alea writes it, is no number and of no use here.
        match number(field) {
            Some(number) => *column = number,
            None if field.contains('&') => {}
            None => return Err(RowNote::NotARow),
        }
    }
    if fields.len() < FEWEST_COLUMNS { Err(RowNote::TooShort) } else { Ok(columns) }
}

/// A number, cut to whole units: some logs have times with decimals.
fn number(field: &str) -> Option<i64> {
    let (whole, decimals) = field.split_once('.').unwrap_or((field, "0"));
    if !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if whole.is_empty() || whole == "-" { Some(0) } else { whole.parse().ok() }
}

/// The job of a row, unless it cannot be replayed.
fn row(
    line: usize,
    columns: [i64; COLUMNS],
    fields: &[&str],
    notes: &mut NoteCounter,
) -> Option<LogRow> {
    let [
        number,
        submitted,
        _,
        runs,
        allocated,
        _,
        _,
        processors,
        declared,
        memory,
        status,
        user,
        ..,
    ] = columns;
    let [.., queue, _, _, _] = columns;
    let times = RowTimes {
        submitted: Some(submitted),
        runs: Some(runs),
        declared: Some(declared),
        has_completed: status == COMPLETED,
    };
    let times = times.check(line, notes)?;
    let positive = |number: i64| u64::try_from(number).ok().filter(|number| 0 < *number);
    let site = SiteColumns::of(fields.get(COLUMNS..).unwrap_or_default());
    if site.has_properties {
        notes.note(RowNote::Properties, line);
    }
    if site.has_several {
        notes.note(RowNote::SeveralSizes, line);
    }
    let processors = positive(processors).or(positive(allocated)).unwrap_or_else(|| {
        notes.note(RowNote::NoProcessors, line);
        1
    });
    Some(LogRow {
        number: Name::from(number.to_string()),
        line,
        user: known(user),
        queue: site.queue.map_or_else(|| known(queue), Name::from),
        submitted: times.submitted,
        runs: times.runs,
        declared: times.declared,
        processors,
        split: site.split,
        memory: positive(memory).map(|amount| LogMemory { amount, basis: None }),
    })
}

/// A number as a name; "-" if it is missing.
fn known(number: i64) -> Name {
    if number < 0 { Name::from("-") } else { Name::from(number.to_string()) }
}

/// Columns of a site behind the 18 of the format: a queue name before a request such as
/// `2:ppn=8:x86_64`. Other columns are passed over.
#[derive(Default)]
struct SiteColumns<'a> {
    queue: Option<&'a str>,
    split: Option<NodeSplit>,
    has_properties: bool,
    has_several: bool,
}

impl<'a> SiteColumns<'a> {
    fn of(extra: &[&'a str]) -> SiteColumns<'a> {
        let Some((at, split)) =
            extra.iter().enumerate().find_map(|(at, field)| Some((at, nodes_and_ppn(field)?)))
        else {
            return SiteColumns::default();
        };
        let before = at.checked_sub(1).and_then(|before| extra.get(before));
        let is_name = |name: &&str| name.starts_with(|c: char| c.is_ascii_alphabetic());
        let first = split.first().copied();
        SiteColumns {
            queue: before.copied().filter(is_name),
            has_several: split.iter().any(|part| first.map(|first| first.1) != Some(part.1)),
            split: Some(NodeSplit {
                nodes: split.iter().map(|part| part.0).fold(0, u64::saturating_add),
                processors: split.iter().map(|part| part.1).max().unwrap_or(1),
            }),
            has_properties: extra.get(at).is_some_and(|request| has_properties(request)),
        }
    }
}

/// Reads `2:ppn=8:x86_64+1:ppn=4`: nodes, and processors on each.
fn nodes_and_ppn(field: &str) -> Option<Vec<(u64, u64)>> {
    let part = |part: &str| {
        let mut words = part.split(':');
        let nodes: u64 = words.next()?.parse().ok()?;
        let processors = words.find_map(|word| word.strip_prefix("ppn="))?;
        let digits = processors.split('#').next()?;
        let processors: u64 = digits.parse().ok()?;
        (0 < nodes && 0 < processors).then_some((nodes, processors))
    };
    field.split('+').map(part).collect()
}

/// True if a request names more than numbers of nodes and processors.
fn has_properties(request: &str) -> bool {
    let mut words = request.split([':', '+', '#']);
    words.any(|word| !word.starts_with("ppn=") && word.parse::<u64>().is_err())
}

/// The error of a file that is no such log.
fn unreadable(file: &str, seen: u64, good: u64, notes: &NoteCounter) -> Option<JobLogError> {
    if seen == 0 {
        let problem = format!("{file} has no row");
        return Some(JobLogError::whole(
            problem,
            "a row is a job: 18 numbers with blanks between them",
        ));
    }
    let first = [RowNote::NotARow, RowNote::TooShort];
    let first = first.into_iter().filter_map(|note| Some((notes.of(note)?.1, note)));
    let (line, note) = first.min_by_key(|(line, _)| *line)?;
    (good < seen - good).then(|| JobLogError::Line {
        file: file.to_owned(),
        line,
        problem: if note == RowNote::TooShort {
            format!("a row needs {COLUMNS} numbers, at least {FEWEST_COLUMNS}")
        } else {
            "this is no row of numbers".to_owned()
        },
        remedy: "give a file in the standard workload format, or --sacct for the text of \
                 `sacct --parsable2`"
            .to_owned(),
    })
}
