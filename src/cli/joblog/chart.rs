//! Pictures of a replay as paths and marks: whole units of an SVG, no numbers left to compute.

use super::super::text::shortened;
use crate::model::{Millis, span, thousands};
use crate::sim::joblog::{PolicyFigures, ReplayFigures, UserFigures};

/// Width of the plots in units of the pictures.
pub(super) const WIDTH: u64 = 860;
/// Height of the course of a policy.
pub(super) const COURSE_HEIGHT: u64 = 84;
/// Height of the cumulative curve.
pub(super) const CURVE_HEIGHT: u64 = 260;
/// Height of a user's row.
pub(super) const ROW_HEIGHT: u64 = 24;

/// Longest name beside a row, in characters.
const NAME_LENGTH: usize = 18;

/// Users in the picture.
const USERS_SHOWN: usize = 20;

/// Waits that the axis names, in seconds.
const WAITS: [(u64, &str); 9] = [
    (10, "10 s"),
    (60, "1 min"),
    (600, "10 min"),
    (3_600, "1 h"),
    (6 * 3_600, "6 h"),
    (86_400, "1 d"),
    (3 * 86_400, "3 d"),
    (10 * 86_400, "10 d"),
    (30 * 86_400, "30 d"),
];

/// Lengths between two marks of a time axis, in hours.
const STRIDES: [u64; 10] = [1, 3, 6, 12, 24, 72, 168, 336, 720, 2_160];

/// A mark of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AxisMark {
    pub at: u64,
    pub text: String,
}

/// A line or area, in the colour of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PolicyPath {
    /// Place of the policy in the report: decides colour and form.
    pub number: usize,
    pub policy: &'static str,
    pub path: String,
    /// Words for the figure.
    pub said: String,
}

/// A user's row: a dot for each policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UserDotRow {
    pub user: String,
    /// Distance of the row's middle from the top.
    pub y: u64,
    /// Ends of the line that joins the dots.
    pub from: u64,
    pub to: u64,
    pub dots: Vec<UserDot>,
}

/// A dot, with words for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UserDot {
    pub number: usize,
    pub x: u64,
    pub said: String,
}

/// Logarithm to base 2 in thousandths, linear between powers of 2; 0 of 0.
fn log2_milli(number: u64) -> u64 {
    let Some(log) = number.checked_ilog2() else { return 0 };
    let rest = (number - (1 << log)).saturating_mul(1000);
    u64::from(log) * 1000 + (rest >> log)
}

/// `part` of `whole` on a length.
fn scaled(part: u64, whole: u64, length: u64) -> u64 {
    part.min(whole).saturating_mul(length).checked_div(whole).unwrap_or(0)
}

/// Memory in use over time, an area for each policy.
pub(super) fn courses(figures: &ReplayFigures) -> Vec<PolicyPath> {
    let course = |(number, policy): (usize, &PolicyFigures)| {
        let points = u64::try_from(policy.course_milli.len()).unwrap_or(1);
        let mut path = format!("M0 {COURSE_HEIGHT}");
        for (point, milli) in (0..).zip(&policy.course_milli) {
            let y = COURSE_HEIGHT - scaled(*milli, 1000, COURSE_HEIGHT);
            let (from, to) = (scaled(point, points, WIDTH), scaled(point + 1, points, WIDTH));
            path.extend([format!("L{from} {y}H{to}")]);
        }
        path.extend([format!("V{COURSE_HEIGHT}Z")]);
        let said = super::plain_report::percents(policy.utilisation_milli);
        PolicyPath { number, policy: policy.policy, path, said }
    };
    figures.policies.iter().enumerate().map(course).collect()
}

/// Marks of a time axis over `whole`, about eight of them.
pub(super) fn time_marks(whole: Millis) -> Vec<AxisMark> {
    let hour = 3_600_000_u64;
    let fits = |stride: &u64| whole.checked_div(stride * hour).unwrap_or(0) <= 9;
    let stride = STRIDES.into_iter().find(fits).unwrap_or(8_760) * hour;
    let marks = (0..).map(|number: u64| number.saturating_mul(stride));
    let marks = marks.take_while(|at| *at <= whole).take(64);
    marks
        .map(|at| AxisMark {
            at: scaled(at, whole, WIDTH),
            text: if at == 0 { "0".to_owned() } else { span(at) },
        })
        .collect()
}

/// Place of a wait on the axis, by logarithm of seconds; `longest` is at the end.
fn wait_place(wait: Millis, longest: Millis) -> u64 {
    let log = |ms: Millis| log2_milli(ms.div_euclid(1000) + 1);
    scaled(log(wait), log(longest.max(60_000)), WIDTH)
}

fn longest_wait(figures: &ReplayFigures) -> Millis {
    figures.policies.iter().map(|policy| policy.wait_ms.max).max().unwrap_or(0)
}

/// Marks of the axis of parts: 0 to 100 %, from the bottom.
pub(super) fn part_marks() -> Vec<AxisMark> {
    let mark = |quarter: u64| AxisMark {
        at: CURVE_HEIGHT - ((CURVE_HEIGHT * quarter) >> 2),
        text: format!("{} %", 25 * quarter),
    };
    (0..=4).map(mark).collect()
}

/// Cumulative curve of waits of each policy: the part of jobs that waited no longer.
pub(super) fn curves(figures: &ReplayFigures) -> Vec<PolicyPath> {
    let longest = longest_wait(figures);
    let curve = |(number, policy): (usize, &PolicyFigures)| {
        let points = u64::try_from(policy.wait_curve_ms.len()).unwrap_or(1).saturating_sub(1);
        let mut path = format!("M0 {CURVE_HEIGHT}");
        for (point, wait) in (0..).zip(&policy.wait_curve_ms) {
            let x = wait_place(*wait, longest);
            let y = CURVE_HEIGHT - scaled(point, points, CURVE_HEIGHT);
            path.extend([format!("L{x} {y}")]);
        }
        path.extend([format!("H{WIDTH}")]);
        let said =
            format!("median {}, 95 % {}", span(policy.wait_ms.median), span(policy.wait_ms.p95));
        PolicyPath { number, policy: policy.policy, path, said }
    };
    figures.policies.iter().enumerate().map(curve).collect()
}

/// Marks of the axis of waits.
pub(super) fn wait_marks(figures: &ReplayFigures) -> Vec<AxisMark> {
    let longest = longest_wait(figures).max(60_000);
    let marks = WAITS.iter().filter(|(seconds, _)| seconds * 1000 <= longest);
    let marks = marks.map(|(seconds, text)| AxisMark {
        at: wait_place(seconds * 1000, longest),
        text: (*text).to_owned(),
    });
    [AxisMark { at: 0, text: "0".to_owned() }].into_iter().chain(marks).collect()
}

/// Users with most jobs, of the policy under which most users ran.
fn users(figures: &ReplayFigures) -> &[UserFigures] {
    let longest = figures.policies.iter().max_by_key(|policy| policy.users.len());
    let users = longest.map_or(&[][..], |policy| &policy.users);
    users.get(..USERS_SHOWN.min(users.len())).unwrap_or_default()
}

/// The largest slowdown of a shown user, in thousandths.
fn most_slowdown(figures: &ReplayFigures) -> u64 {
    let shown = users(figures);
    let is_shown = |user: &&UserFigures| shown.iter().any(|other| other.user == user.user);
    let all = figures.policies.iter().flat_map(|policy| policy.users.iter().filter(is_shown));
    all.map(|user| user.mean_slowdown_milli).max().unwrap_or(0).max(2_000)
}

/// Place of a slowdown on the axis, by logarithm; 1 is at the left.
fn slowdown_place(milli: u64, most: u64) -> u64 {
    let log = |milli: u64| log2_milli(milli).saturating_sub(log2_milli(1000));
    scaled(log(milli), log(most), WIDTH)
}

/// Bounded slowdown of the users with most jobs.
pub(super) fn user_rows(figures: &ReplayFigures) -> Vec<UserDotRow> {
    let most = most_slowdown(figures);
    let row = |(number, user): (u64, &UserFigures)| {
        let dots = figures.policies.iter().enumerate().filter_map(|(number, policy)| {
            let same = policy.users.iter().find(|other| other.user == user.user)?;
            let slowdown = super::plain_report::decimal(same.mean_slowdown_milli);
            let wait = span(same.mean_wait_ms);
            Some(UserDot {
                number,
                x: slowdown_place(same.mean_slowdown_milli, most),
                said: format!(
                    "{}, user {}: slowdown {slowdown}, mean wait {wait}",
                    policy.policy, user.user
                ),
            })
        });
        let dots: Vec<UserDot> = dots.collect();
        UserDotRow {
            user: shortened(&user.user, NAME_LENGTH),
            y: number * ROW_HEIGHT + (ROW_HEIGHT >> 1),
            from: dots.iter().map(|dot| dot.x).min().unwrap_or(0),
            to: dots.iter().map(|dot| dot.x).max().unwrap_or(0),
            dots,
        }
    };
    (0..).zip(users(figures)).map(row).collect()
}

/// Marks of the axis of slowdowns: 1, 2, 5, 10 and so on.
pub(super) fn slowdown_marks(figures: &ReplayFigures) -> Vec<AxisMark> {
    let most = most_slowdown(figures);
    let decades = (0..7_u32).map(|power| 10_u64.pow(power));
    let steps: &[u64] = if most < 100_000 { &[1, 2, 5] } else { &[1] };
    let values = decades.flat_map(|decade| steps.iter().map(move |step| step * decade));
    values
        .filter(|value| value * 1000 <= most)
        .map(|value| AxisMark { at: slowdown_place(value * 1000, most), text: thousands(value) })
        .collect()
}
