//! The report of a replay for people: tables of at most 80 columns.

use super::super::table::{Column, plain, table};
use super::super::text::wrapped;
use super::JobLogReport;
use crate::model::{counted, memory_text, span, thousands};
use crate::sim::joblog::{LogNote, NeverRan, PolicyFigures, ReplayPolicy, UserFigures};

/// Width of the report.
const WIDTH: usize = 80;

/// Name of all policies together.
const ALL: &str = "all";

/// Users that are listed.
const USERS_SHOWN: usize = 12;

/// Columns of the table of users: name, jobs, and a column for each policy there is.
const USER_COLUMNS: usize = 2 + ReplayPolicy::ALL.len();

/// Renders the report.
pub(super) fn render(report: &JobLogReport) -> String {
    let figures = &report.figures;
    let mut parts = vec![summary(report), policies(&figures.policies)];
    if figures.policies.iter().any(|policy| 0 < policy.preempted) {
        parts.push(preemptions(&figures.policies));
    }
    parts.extend(figures.policies.iter().filter_map(filled));
    parts.push(users(&figures.policies));
    let never = never_ran(&figures.policies);
    if !never.is_empty() {
        parts.push(format!("Jobs that never ran:\n{never}"));
    }
    parts.join("\n\n")
}

/// Returns the sentences on the jobs, the cluster and the reading of the log.
fn summary(report: &JobLogReport) -> String {
    let figures = &report.figures;
    let mut lines = vec![format!(
        "{} of {}, submitted over {}; {} with {} of memory",
        counted_thousands(figures.jobs, "job"),
        counted(figures.users, "user"),
        span(figures.submitted_over_ms),
        counted_thousands(figures.nodes, "node"),
        memory_text(figures.memory_mib),
    )];
    lines.extend(report.readings.iter().cloned());
    lines.extend(report.notes.iter().map(note));
    let lines = lines.iter().map(|line| wrapped(&plain(line), WIDTH));
    lines.collect::<Vec<_>>().join("\n")
}

/// A note in a line: "2 rows left out: negative run time (lines 4186, 4200)".
pub(super) fn note(note: &LogNote) -> String {
    let rows = counted_thousands(note.rows, "row");
    let left_out = if note.is_left_out { " left out" } else { "" };
    let lines: Vec<String> = note.lines.iter().map(usize::to_string).collect();
    let more = if more_than(note.rows, lines.len()) { ", …" } else { "" };
    let word = if lines.len() == 1 { "line" } else { "lines" };
    format!("{rows}{left_out}: {} ({word} {}{more})", note.what, lines.join(", "))
}

/// A reason with its examples: "class `normal` takes no gangs (jobs 1, 2, 3, …)".
pub(super) fn reason(never: &NeverRan) -> String {
    let word = if never.jobs == 1 { "job" } else { "jobs" };
    let more = if more_than(never.jobs, never.examples.len()) { ", …" } else { "" };
    format!("{} ({word} {}{more})", never.reason, never.examples.join(", "))
}

/// True if `all` are more than are `shown`.
fn more_than(all: u64, shown: usize) -> bool {
    u64::try_from(shown).is_ok_and(|shown| shown < all)
}

fn counted_thousands(number: u64, thing: &str) -> String {
    let text = counted(number, thing);
    text.split_once(' ').map_or(text.clone(), |(_, thing)| format!("{} {thing}", thousands(number)))
}

fn policies(policies: &[PolicyFigures]) -> String {
    let columns = [
        Column::Left("POLICY"),
        Column::Right("MEAN WAIT"),
        Column::Right("MEDIAN"),
        Column::Right("95 %"),
        Column::Right("LONGEST"),
        Column::Right("SLOWDOWN"),
        Column::Right("USED"),
        Column::Right("MAKESPAN"),
    ];
    let rows = policies.iter().map(|policy| {
        let mut figures = figures_of(policy).into_iter();
        std::array::from_fn(|at| match at {
            0 => policy.policy.to_owned(),
            _ => figures.next().unwrap_or_default(),
        })
    });
    format!(
        "{}\nSLOWDOWN: mean bounded slowdown. USED: part of all memory, until the last end.",
        table(columns, rows)
    )
}

/// The columns of a policy: waits, slowdown, use and makespan; "-" where no job ran.
pub(super) fn figures_of(policy: &PolicyFigures) -> [String; 7] {
    let figures = [
        span(policy.wait_ms.mean),
        span(policy.wait_ms.median),
        span(policy.wait_ms.p95),
        span(policy.wait_ms.max),
        decimal(policy.slowdown_milli.mean),
        percents(policy.utilisation_milli),
        span(policy.makespan_ms),
    ];
    if policy.jobs == 0 { figures.map(|_| "-".to_owned()) } else { figures }
}

/// A sentence on the fair-share work that filled what the jobs left.
pub(super) fn filled(policy: &PolicyFigures) -> Option<String> {
    let filled = policy.filled?;
    let sentence = format!(
        "Fair-share work filled {} of the memory that the jobs left; {} of it gave way to jobs, which \
         cost {} of work.",
        percents(filled.filled_milli),
        counted_thousands(filled.preempted, "process"),
        span(filled.lost_ms),
    );
    Some(wrapped(&sentence, WIDTH))
}

fn preemptions(policies: &[PolicyFigures]) -> String {
    let columns =
        [Column::Left("POLICY"), Column::Right("PROCESSES PREEMPTED"), Column::Right("TIME LOST")];
    let row = |policy: &PolicyFigures| {
        [policy.policy.to_owned(), thousands(policy.preempted), span(policy.lost_ms)]
    };
    table(columns, policies.iter().map(row))
}

/// The users with most jobs, with wait and slowdown under each policy.
fn users(policies: &[PolicyFigures]) -> String {
    let Some(first) = policies.iter().max_by_key(|policy| policy.users.len()) else {
        return String::new();
    };
    let row = |user: &UserFigures| {
        let mut row = vec![user.user.to_string(), thousands(user.jobs)];
        row.extend(policies.iter().map(|policy| {
            let same = policy.users.iter().find(|other| other.user == user.user);
            same.map_or_else(
                || "-".to_owned(),
                |user| {
                    format!("{} {:>6}", span(user.mean_wait_ms), decimal(user.mean_slowdown_milli))
                },
            )
        }));
        row
    };
    let rows: Vec<Vec<String>> = first.users.iter().take(USERS_SHOWN).map(row).collect();
    let table = user_table(policies, &rows);
    let more = first.users.len().saturating_sub(USERS_SHOWN);
    let more = match more {
        0 => String::new(),
        more => format!("\nand {more} more users, who have fewer jobs; --report json has them all"),
    };
    format!("Mean wait and mean bounded slowdown by user:\n{table}{more}")
}

/// A table of users, with a column for each policy.
fn user_table(policies: &[PolicyFigures], rows: &[Vec<String>]) -> String {
    let mut columns = [Column::Right(""); USER_COLUMNS];
    let heads = [Column::Left("USER"), Column::Right("JOBS")].into_iter();
    let heads = heads.chain(policies.iter().map(|policy| Column::Right(policy.policy)));
    for (column, head) in columns.iter_mut().zip(heads) {
        *column = head;
    }
    table(
        columns,
        rows.iter().map(|row| std::array::from_fn(|at| row.get(at).cloned().unwrap_or_default())),
    )
}

/// Reasons why jobs never ran, in lines.
fn never_ran(policies: &[PolicyFigures]) -> String {
    let line = |(under, never): (String, &NeverRan)| {
        let under = if under == ALL { String::new() } else { format!("{under}: ") };
        let jobs = counted_thousands(never.jobs, "job");
        wrapped(&plain(&format!("  {under}{jobs}: {}", reason(never))), WIDTH)
    };
    reasons(policies).into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Reasons why jobs never ran, each once, with the policies under which it holds.
pub(super) fn reasons(policies: &[PolicyFigures]) -> Vec<(String, &NeverRan)> {
    let mut found: Vec<(Vec<&str>, &NeverRan)> = Vec::new();
    for policy in policies {
        for never in &policy.never_ran {
            match found.iter_mut().find(|(_, known)| *known == never) {
                Some((under, _)) => under.push(policy.policy),
                None => found.push((vec![policy.policy], never)),
            }
        }
    }
    let named = |(under, never): (Vec<&str>, _)| {
        let is_all = under.len() == policies.len();
        (if is_all { ALL.to_owned() } else { under.join(", ") }, never)
    };
    found.into_iter().map(named).collect()
}

/// Thousandths with a decimal: "12.3", and "1,234" from a hundred on.
pub(super) fn decimal(milli: u64) -> String {
    let tenths = milli.saturating_add(50).div_euclid(100);
    match (tenths.div_euclid(10), tenths.rem_euclid(10)) {
        (whole @ 0..100, tenth) => format!("{whole}.{tenth}"),
        (whole, _) => thousands(whole),
    }
}

/// Thousandths as "45.2 %".
pub(super) fn percents(milli: u64) -> String {
    format!("{}.{} %", milli.div_euclid(10), milli.rem_euclid(10))
}
