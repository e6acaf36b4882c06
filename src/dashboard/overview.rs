//! Overview: alarms, waiting jobs with their reasons, users short of their fair share, and the
//! latest events.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Dashboard;
use super::account;
use super::frame::{Ask, Nothing, Page, PageError};
use super::rows::Bar;
use super::samples::ShareFigures;
use super::tell::EventText;
use super::words::{counted, memory, number, percent};
use crate::api::wire::from_view;
use crate::api::{queries, wire};
use crate::converter::code_of;
use crate::scheduler::View;

/// Latest events on the page.
const EVENTS: usize = 8;

/// Users on the page.
const USERS: usize = 8;

#[derive(Template)]
#[template(path = "overview.html")]
struct LiveOverview {
    alarms: Vec<String>,
    tiles: Vec<FigureTile>,
    waiting: Vec<WaitingRow>,
    classes: Vec<AccountRow>,
    users: Vec<AccountRow>,
    users_more: usize,
    events: Vec<EventText>,
    has_nodes: bool,
    has_jobs: bool,
}

struct FigureTile {
    title: &'static str,
    link: &'static str,
    value: String,
    unit: String,
    detail: String,
    bar: Option<Bar>,
}

struct WaitingRow {
    code: String,
    jobs: u64,
    missing: u64,
    first: u64,
    sentence: String,
}

/// A class or a user against its fair share.
pub(super) struct AccountRow {
    pub name: String,
    pub colour: Option<usize>,
    pub held: String,
    pub fair_share: String,
    pub bar: Bar,
}

impl AccountRow {
    /// The row of `name`, where `scale` is the whole width of the bar.
    pub fn of(name: &str, figures: ShareFigures, scale: u64, colour: Option<usize>) -> AccountRow {
        AccountRow {
            name: name.to_owned(),
            colour,
            held: memory(figures.held),
            fair_share: memory(figures.fair_share),
            bar: Bar::of(figures, scale),
        }
    }
}

/// Formats the fair share. Jobs outside fair share have none, which the page must not present as
/// zero.
pub(super) fn due(figures: ShareFigures, policy: wire::Policy) -> String {
    match policy {
        wire::Policy::FairShare => memory(figures.fair_share),
        wire::Policy::FixedShare | wire::Policy::Reserve => "–".to_owned(),
    }
}

/// The page.
pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.seen(&ask);
    let view = &published.view;
    let status = queries::status_of(&published);
    let users = account::users(view);
    let classes = account::classes(view);
    let figures = || users.iter().map(|(_, figures)| *figures);
    let class_scale = scale(classes.iter().map(|class| class.figures));
    let user_scale = scale(figures());
    let palette = dashboard.palette(view, &ask);
    let notes = dashboard.past.notes();
    let mut user_rows: Vec<(u64, AccountRow)> = users
        .iter()
        .filter(|(_, figures)| 0 < figures.held.max(figures.demand))
        .map(|(name, figures)| {
            let colour = Some(palette.colour(name));
            (
                figures.held.max(figures.fair_share),
                AccountRow::of(name, *figures, user_scale, colour),
            )
        })
        .collect();
    user_rows.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    let live = LiveOverview {
        alarms: alarms(&status),
        tiles: tiles(&status, figures()),
        waiting: waiting(view),
        classes: classes
            .iter()
            .filter(|class| 0 < class.load.jobs)
            .map(|class| AccountRow {
                fair_share: due(class.figures, class.load.policy),
                ..AccountRow::of(&class.name, class.figures, class_scale, None)
            })
            .collect(),
        users_more: user_rows.len().saturating_sub(USERS),
        users: user_rows.into_iter().take(USERS).map(|(_, row)| row).collect(),
        events: notes
            .events
            .iter()
            .rev()
            .filter(|told| told.at_ms <= ask.until_ms())
            .take(EVENTS)
            .cloned()
            .collect(),
        has_nodes: status.nodes.total != 0,
        has_jobs: status.jobs.total != 0,
    };
    drop(notes);
    Page { title: "Overview", section: "/", head: Nothing, live }.answer(&ask)
}

/// The amount that a whole bar stands for.
pub(super) fn scale(all: impl Iterator<Item = ShareFigures>) -> u64 {
    let most = all.map(|figures| figures.held.max(figures.fair_share)).max();
    // A little more, so that a mark at the end is seen.
    most.unwrap_or(0).saturating_mul(105).div_euclid(100).max(1)
}

/// Returns the faults that need an operator at once.
fn alarms(status: &wire::Status) -> Vec<String> {
    let silent = &status.silent_together;
    let findings = &status.audit_findings;
    let alarms = [
        (!status.ready).then(|| {
            "Nothing is scheduled yet: the daemon waits for nodes to report and for the first publication.".to_owned()
        }),
        (!silent.is_empty()).then(|| {
            let names = crate::model::fold_hostlist(silent.iter().map(String::as_str));
            format!(
                "{} fell silent together ({names}), most likely a fault of the network: their jobs keep the memory. Nodes that are dead: `apportion node lost {names}`.",
                counted(crate::model::count(silent), "node")
            )
        }),
        status.absent.map(|absent| {
            format!(
                "The last publication leaves out {} of {}: they keep their space until they are published as gone.",
                counted(absent.processes, "process"),
                counted(absent.jobs, "job")
            )
        }),
        (status.net_strikes != 0).then(|| {
            format!("The quiet stop holds back {}.", counted(status.net_strikes, "request"))
        }),
        (!findings.is_empty()).then(|| {
            format!("The audit objects to the last cycle: {}", findings.join("; "))
        }),
    ];
    alarms.into_iter().flatten().collect()
}

fn tiles(status: &wire::Status, users: impl Iterator<Item = ShareFigures>) -> Vec<FigureTile> {
    let (nodes, jobs, shares) = (&status.nodes, &status.jobs, &status.shares);
    let short = users.fold((0, 0), |(short, due), figures| {
        let mine = figures.fair_share.min(figures.demand);
        (short + mine.saturating_sub(figures.held), due + mine)
    });
    let is_quiet = match status.calm.quiet_cycles {
        0 => "not quiet".to_owned(),
        cycles => format!("quiet for {}", counted(cycles, "cycle")),
    };
    vec![
        FigureTile {
            title: "Memory in use",
            link: "/topology",
            value: percent(shares.used_mb, shares.schedulable_mb).to_string(),
            unit: "%".to_owned(),
            detail: in_use(shares),
            bar: Some(Bar::filled(shares.used_mb >> 10, shares.schedulable_mb >> 10, "GB")),
        },
        FigureTile {
            title: "Nodes up",
            link: "/nodes",
            value: number(nodes.up),
            unit: format!("of {}", number(nodes.total)),
            detail: out_of_scheduling(nodes),
            bar: Some(Bar::filled(nodes.up, nodes.total, "nodes")),
        },
        FigureTile {
            title: "Work waiting",
            link: "/jobs?state=short",
            value: number(jobs.waiting),
            unit: format!("of {}", number(jobs.total)),
            detail: format!(
                "{} run, {} to leave",
                counted(shares.held, "process"),
                number(shares.leaving)
            ),
            bar: Some(Bar::filled(jobs.waiting, jobs.total, "jobs")),
        },
        FigureTile {
            title: "Short of the fair share",
            link: "/users",
            value: percent(short.0, short.1).to_string(),
            unit: "%".to_owned(),
            detail: format!("{} of {} due to users", memory(short.0), memory(short.1)),
            bar: Some(Bar::filled(short.0 >> 10, short.1 >> 10, "GB")),
        },
        FigureTile {
            title: "Last cycle",
            link: "/events",
            value: tenths(status.planned_in_us),
            unit: "ms".to_owned(),
            detail: format!("and {} ms to store; {is_quiet}", tenths(status.stored_in_us)),
            bar: None,
        },
    ]
}

/// Describes memory in use, out of the memory in scheduling, and memory still held on other nodes.
fn in_use(shares: &wire::ShareCounts) -> String {
    let in_use = format!("{} of {}", memory(shares.used_mb), memory(shares.schedulable_mb));
    match shares.outside_mb {
        0 => in_use,
        outside => format!("{in_use}, and {} on nodes that get no work", memory(outside)),
    }
}

/// Describes the reasons why some nodes are not up.
fn out_of_scheduling(nodes: &wire::NodeCounts) -> String {
    let states = [
        (nodes.varied_off, "varied-off"),
        (nodes.dead, "dead"),
        (nodes.blacklisted, "blacklisted"),
        (nodes.quiesced, "quiesced"),
        (nodes.awaited, "awaited"),
    ];
    let out = states.iter().filter(|(count, _)| *count != 0);
    let out: Vec<String> = out.map(|(count, word)| format!("{} {word}", number(*count))).collect();
    if out.is_empty() { "all get work".to_owned() } else { out.join(", ") }
}

/// Microseconds in milliseconds.
fn tenths(micros: u64) -> String {
    let tenths = micros.div_euclid(100);
    format!("{}.{}", number(tenths.div_euclid(10)), tenths.rem_euclid(10))
}

/// Work that has less than it wants, by reason; the most common first.
fn waiting(view: &View) -> Vec<WaitingRow> {
    let mut rows: BTreeMap<&'static str, WaitingRow> = BTreeMap::new();
    for job in view.jobs.iter() {
        let Some(reason) = &job.reason else { continue };
        let code = code_of(reason);
        let row = rows.entry(code).or_insert_with(|| WaitingRow {
            code: code.to_owned(),
            jobs: 0,
            missing: 0,
            first: job.id.0,
            // Jobs are oldest first.
            sentence: from_view::reason_of(job).map(|reason| reason.sentence).unwrap_or_default(),
        });
        row.jobs += 1;
        row.missing += job.demand.saturating_sub(job.held()).0;
    }
    let mut rows: Vec<WaitingRow> = rows.into_values().collect();
    rows.sort_by(|one, other| (other.jobs, &one.code).cmp(&(one.jobs, &other.code)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_shown_as_tenths_of_milliseconds() {
        assert_eq!([tenths(0), tenths(3_940), tenths(1_200_000)], ["0.0", "3.9", "1,200.0"]);
    }

    #[test]
    fn what_is_wrong_is_said_first() {
        let all_well = wire::Status { ready: true, ..status() };
        assert!(alarms(&all_well).is_empty());
        let silent_together = vec!["n1".to_owned(), "n2".to_owned()];
        let bad = wire::Status { silent_together, net_strikes: 2, ..all_well };
        assert_eq!(alarms(&bad).len(), 2);
        assert!(alarms(&bad)[0].starts_with("2 nodes fell silent"));
        assert!(alarms(&status())[0].contains("first publication"));
    }

    fn status() -> wire::Status {
        wire::Status {
            version: String::new(),
            ready: false,
            cycle: 0,
            publication: None,
            nodes: wire::NodeCounts::default(),
            jobs: wire::JobCounts::default(),
            shares: wire::ShareCounts::default(),
            calm: wire::Calm::default(),
            silent_together: Vec::new(),
            absent: None,
            net_strikes: 0,
            cycle_times: wire::CycleTimes::default(),
            last_event: 0,
            planned_in_us: 0,
            stored_in_us: 0,
            audit_findings: Vec::new(),
            audit_findings_total: 0,
        }
    }
}
