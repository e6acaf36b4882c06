//! The report of a replay as a page: a single file, with its pictures and styles in it.

use askama::Template;

use super::JobLogReport;
use super::chart::{self, AxisMark, PolicyPath, UserDotRow};
use super::plain_report::{decimal, figures_of, filled, note, reason, reasons};
use crate::model::{counted, memory_text, span, thousands};
use crate::sim::joblog::{PolicyFigures, ReplayFigures};

/// Space beside and around the plots, in units of the pictures.
const LEFT: u64 = 150;
const RIGHT: u64 = 24;

#[derive(Template)]
#[template(path = "joblog.html")]
struct JobLogPage<'a> {
    log: &'a str,
    summary: String,
    /// Sentences on how the log was read.
    lines: Vec<String>,
    has_lost: bool,
    /// Each policy with its columns.
    policies: Vec<(&'static str, Vec<String>)>,
    /// Policies, number of jobs, and the reason why they never ran.
    never: Vec<(String, String, String)>,
    frame: PlotFrame,
    courses: Vec<PolicyPath>,
    time_marks: Vec<AxisMark>,
    curves: Vec<PolicyPath>,
    part_marks: Vec<AxisMark>,
    wait_marks: Vec<AxisMark>,
    rows: Vec<UserDotRow>,
    slowdown_marks: Vec<AxisMark>,
    user_table: Vec<UserLine<'a>>,
}

/// A user in the table: wait and slowdown under each policy.
struct UserLine<'a> {
    user: &'a str,
    jobs: String,
    cells: Vec<(String, String)>,
}

/// Sizes of the pictures.
struct PlotFrame {
    /// Width with the space beside the plot.
    width: u64,
    plot: u64,
    left: u64,
    course_height: u64,
    curve_height: u64,
    /// Height of the rows of users.
    rows_height: u64,
}

/// Returns the sentence on the jobs and the cluster.
fn summary(figures: &ReplayFigures) -> String {
    format!(
        "{} jobs of {}, submitted over {}, on {} with {} of memory.",
        thousands(figures.jobs),
        counted(figures.users, "user"),
        span(figures.submitted_over_ms),
        counted(figures.nodes, "node"),
        memory_text(figures.memory_mib)
    )
}

/// The columns of a policy's figures.
fn cells(policy: &PolicyFigures, has_lost: bool) -> Vec<String> {
    let mut cells = figures_of(policy).to_vec();
    if has_lost {
        cells.extend([thousands(policy.preempted), span(policy.lost_ms)]);
    }
    cells
}

/// Renders the page.
///
/// # Errors
///
/// Never: the template is checked when it is compiled.
pub(super) fn render(report: &JobLogReport) -> askama::Result<String> {
    let figures = &report.figures;
    let rows = chart::user_rows(figures);
    let shown = u64::try_from(rows.len()).unwrap_or(0);
    let mut lines: Vec<String> = report.readings.clone();
    lines.extend(report.notes.iter().map(note));
    lines.extend(figures.policies.iter().filter_map(filled));
    let has_lost = figures.policies.iter().any(|policy| 0 < policy.preempted);
    let policies = figures.policies.iter().map(|policy| (policy.policy, cells(policy, has_lost)));
    let never = reasons(&figures.policies).into_iter();
    let never = never.map(|(under, never)| (under, thousands(never.jobs), reason(never)));
    JobLogPage {
        log: &report.log,
        summary: summary(figures),
        lines,
        has_lost,
        policies: policies.collect(),
        never: never.collect(),
        frame: PlotFrame {
            width: LEFT + chart::WIDTH + RIGHT,
            plot: chart::WIDTH,
            left: LEFT,
            course_height: chart::COURSE_HEIGHT,
            curve_height: chart::CURVE_HEIGHT,
            rows_height: shown * chart::ROW_HEIGHT,
        },
        courses: chart::courses(figures),
        time_marks: chart::time_marks(figures.span_ms),
        curves: chart::curves(figures),
        part_marks: chart::part_marks(),
        wait_marks: chart::wait_marks(figures),
        rows,
        slowdown_marks: chart::slowdown_marks(figures),
        user_table: user_table(figures),
    }
    .render()
}

/// Every user, with most jobs first.
fn user_table(figures: &ReplayFigures) -> Vec<UserLine<'_>> {
    let Some(first) = figures.policies.iter().max_by_key(|policy| policy.users.len()) else {
        return Vec::new();
    };
    let line = first.users.iter().map(|user| UserLine {
        user: &user.user,
        jobs: thousands(user.jobs),
        cells: figures
            .policies
            .iter()
            .map(|policy| {
                let same = policy.users.iter().find(|other| other.user == user.user);
                same.map_or_else(
                    || ("-".to_owned(), "-".to_owned()),
                    |user| (span(user.mean_wait_ms), decimal(user.mean_slowdown_milli)),
                )
            })
            .collect(),
    });
    line.collect()
}
