//! Figures of many campaigns or of a single campaign, and the events of campaigns.

use std::ops::RangeInclusive;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::failure::{Failure, FailureKind};
use super::formats::csv_of;
use super::output::{OutputReader, print, say};
use super::place::{Orchestrator, OrchestratorArgs};
use super::progress::rough;
use super::table::Column::{Left, Right};
use super::table::{memory, plain, table};
use crate::orchestrator::wire::{
    CampaignDetail, CampaignEvent, CampaignEvents, CampaignPage, CampaignStats, CampaignSummary,
    GangInfo, NodeStats, Spread, TaskInfo, TaskList, places,
};

pub(super) const STAT_EXAMPLES: &str = "\
Examples:
  apportion campaign stat
  apportion campaign stat 5-* --user ann
  apportion campaign stat -f last
  apportion campaign stat '*-*' -o csv > campaigns.csv

A `!` marks campaigns with errors to mend: failed tasks, or no more slots.";

pub(super) const EVENTS_EXAMPLES: &str = "\
Examples:
  apportion campaign events
  apportion campaign events -f --since 0";

/// Longest wait of a request for events.
const WAIT: &str = "20s";
/// Events of an answer without `--since`.
const TOLD: u64 = 20;
/// Failed tasks that are named with a campaign in full.
const FAILED: &str = "20";

/// Shows figures of campaigns.
#[derive(Debug, Args)]
pub struct StatArgs {
    /// The campaigns: 5, 5-9, 5-*, *-9, *-* or last; without it, all
    #[arg(value_name = "RANGE")]
    pub range: Option<String>,
    /// In full: memory, times, rates, nodes, failed tasks
    #[arg(long, short)]
    pub full: bool,
    /// Only campaigns of this user
    #[arg(long)]
    pub user: Option<String>,
    /// The form of the figures
    #[arg(long, short, value_enum, default_value_t = Form::Table)]
    pub output: Form,
    /// Longest list of campaigns, the newest first
    #[arg(long, default_value_t = 100)]
    pub limit: u32,
    /// The orchestrator.
    #[command(flatten)]
    pub place: OrchestratorArgs,
}

/// Form of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// In columns
    Table,
    /// In JSON, as the API gives it
    Json,
    /// In comma-separated values
    Csv,
}

/// Prints events.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Only events after this number; without it, the latest ones
    #[arg(long, value_name = "NUMBER")]
    pub since: Option<u64>,
    /// Go on as they come
    #[arg(long, short)]
    pub follow: bool,
    /// The orchestrator.
    #[command(flatten)]
    pub place: OrchestratorArgs,
}

/// Shows figures.
///
/// # Errors
///
/// If the range is none, or the orchestrator cannot be reached or refuses.
pub(super) async fn stat(args: &StatArgs) -> Result<(), Failure> {
    let orchestrator = args.place.open()?;
    let range = match args.range.as_deref() {
        Some("last") => {
            let last = orchestrator.campaign("last").await?;
            last..=last
        }
        Some(text) => range_in(text)?,
        None => 0..=u64::MAX >> 1,
    };
    let (first, last, limit) =
        (range.start().to_string(), range.end().to_string(), args.limit.to_string());
    let mut query = vec![("first", first.as_str()), ("last", &last), ("limit", &limit)];
    query.extend(args.user.as_deref().map(|user| ("user", user)));
    let page: CampaignPage = orchestrator.get(&["v1", "campaigns"], &query).await?;
    let form = if args.place.json { Form::Json } else { args.output };
    if !args.full || form == Form::Csv {
        return Ok(print(&match form {
            Form::Table => short(&page.campaigns),
            Form::Json => serde_json::to_string_pretty(&page)?,
            Form::Csv => csv_of(&page.campaigns, &FIELDS)?,
        })?);
    }
    let mut all = Vec::new();
    for one in &page.campaigns {
        let id = one.id.to_string();
        let stats = stats(&orchestrator, one.id).await?;
        let query = [("state", "failed"), ("limit", FAILED), ("attempts", "true")];
        let path = ["v1", "campaigns", &id, "tasks"];
        let failed = match one.folded_ms {
            None => orchestrator.get(&path, &query).await?,
            Some(_) => TaskList { tasks: Vec::new() },
        };
        let detail: CampaignDetail = orchestrator.get(&["v1", "campaigns", &id], &[]).await?;
        all.push(FullCampaign { stats, gang: detail.gang, failed: failed.tasks });
    }
    Ok(print(&match form {
        Form::Json => serde_json::to_string_pretty(&all)?,
        Form::Table | Form::Csv => all.iter().map(full).collect::<Vec<_>>().join("\n\n"),
    })?)
}

/// The figures of a campaign.
pub(super) async fn stats(orchestrator: &Orchestrator, id: u64) -> Result<CampaignStats, Failure> {
    orchestrator.get(&["v1", "campaigns", &id.to_string(), "stats"], &[]).await
}

/// A campaign in full.
#[derive(Debug, Serialize)]
struct FullCampaign {
    #[serde(flatten)]
    stats: CampaignStats,
    #[serde(skip_serializing_if = "Option::is_none")]
    gang: Option<GangInfo>,
    failed: Vec<TaskInfo>,
}

/// The numbers that a range names.
fn range_in(text: &str) -> Result<RangeInclusive<u64>, Failure> {
    let bad = || {
        let message = format!("`{}` is no range; write 5, 5-9, 5-*, *-9 or *-*", plain(text));
        Failure::new(FailureKind::Refused, message)
    };
    let end = |part: &str, any: u64| match part {
        "*" => Ok(any),
        number => number.parse::<u64>().map_err(|_| bad()),
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (end(first, 0)?, end(last, u64::MAX >> 1)?);
    if first <= last { Ok(first..=last) } else { Err(bad()) }
}

/// True if a campaign has errors that its user should mend.
fn has_errors(one: &CampaignSummary) -> bool {
    0 < one.failed || one.frozen
}

pub(super) fn time(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map_or_else(String::new, |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// Progress in whole percent; a campaign without tasks is done.
fn progress(some: u64, all: u64) -> u64 {
    some.saturating_mul(100).checked_div(all).unwrap_or(100)
}

fn short(campaigns: &[CampaignSummary]) -> String {
    let columns = [
        Right("campaign"),
        Left(""),
        Left("name"),
        Left("user"),
        Left("state"),
        Left("submitted (UTC)"),
        Right("progress"),
        Right("tasks"),
        Right("failed"),
        Right("running"),
    ];
    let row = |one: &CampaignSummary| {
        let ended = one.done + one.failed + one.cancelled + one.dropped;
        [
            one.id.to_string(),
            if has_errors(one) { "!".to_owned() } else { String::new() },
            one.name.clone(),
            one.user.clone(),
            one.state.clone(),
            time(one.submitted_ms),
            format!("{} %", progress(ended, one.tasks)),
            one.tasks.to_string(),
            one.failed.to_string(),
            one.running.to_string(),
        ]
    };
    table(columns, campaigns.iter().map(row))
}

/// The columns of the comma-separated form, as the fields of the JSON form.
const FIELDS: [&str; 15] = [
    "id",
    "name",
    "user",
    "state",
    "frozen",
    "submitted_ms",
    "tasks",
    "queued",
    "running",
    "done",
    "failed",
    "cancelled",
    "dropped",
    "mean_ms",
    "rss_mb",
];

/// Returns the use of memory in a few words.
pub(super) fn used(stats: &CampaignStats) -> String {
    let Spread { count, p50, p95, max } = stats.rss_mb;
    match (count, stats.attempts) {
        (0, 0) => "used: not known yet".to_owned(),
        (0, _) => "used: not measured, as its tasks were too short".to_owned(),
        _ => format!(
            "used {} by half of {count} attempts, {} by 95 %, {} at most",
            memory(p50),
            memory(p95),
            memory(max)
        ),
    }
}

/// Millionths as percent with a single decimal.
fn ppm(millionths: u64) -> String {
    let tenths = millionths.checked_div(1000).unwrap_or(0);
    let (whole, tenth) = (tenths.checked_div(10).unwrap_or(0), tenths.checked_rem(10).unwrap_or(0));
    format!("{whole}.{tenth} %")
}

fn full(campaign: &FullCampaign) -> String {
    let FullCampaign { stats, gang, failed } = campaign;
    let one = &stats.campaign;
    let mut lines = vec![
        format!("campaign {} {} of {}: {}", one.id, plain(&one.name), plain(&one.user), one.state),
        format!("  submitted     {} UTC", time(one.submitted_ms)),
        format!(
            "  tasks         {}: {} done, {} failed, {} cancelled, {} dropped, {}, {} queued",
            one.tasks,
            one.done,
            one.failed,
            one.cancelled,
            one.dropped,
            plain(&places(one.running, &one.away)),
            one.queued
        ),
        format!("  memory        asked for {}; {}", memory(stats.memory_mb), used(stats)),
        format!(
            "  time          {} ms by half, {} ms by 95 %, {} ms at most",
            stats.ms.p50, stats.ms.p95, stats.ms.max
        ),
        format!("  failed        {} of the tasks that ended", ppm(stats.failed_ppm)),
        format!("  repeated      {} of {} attempts", ppm(stats.repeated_ppm), stats.attempts),
    ];
    lines.extend(gang.iter().map(|gang| format!("  gang          {}", plain(&gang.words()))));
    lines.extend(stats.left_ms.map(|left| format!("  left          {}", rough(left))));
    let columns = [Left("  node"), Right("open"), Right("done"), Right("other"), Right("mean ms")];
    let row = |node: &NodeStats| {
        [
            format!("  {}", node.node),
            node.open.to_string(),
            node.done.to_string(),
            node.other.to_string(),
            node.mean_ms.to_string(),
        ]
    };
    if !stats.nodes.is_empty() {
        lines.push(table(columns, stats.nodes.iter().map(row)));
    }
    lines.extend(failed.iter().map(|task| {
        let ending = task.ending().unwrap_or_else(|| "failed".to_owned());
        format!("  ! task {}.{}: {}", task.campaign, task.task, plain(&ending))
    }));
    lines.join("\n")
}

/// Prints events.
///
/// # Errors
///
/// If the orchestrator cannot be reached or refuses.
pub(super) async fn events(args: &EventsArgs) -> Result<(), Failure> {
    let orchestrator = args.place.open()?;
    let path = ["v1", "campaigns", "events"];
    let mut since = if let Some(since) = args.since {
        since
    } else {
        let newest: CampaignEvents = orchestrator.get(&path, &[]).await?;
        newest.sequence.saturating_sub(TOLD)
    };
    loop {
        let number = since.to_string();
        let mut query = vec![("since", number.as_str())];
        query.extend(args.follow.then_some(("wait", WAIT)));
        let page: CampaignEvents = orchestrator.get(&path, &query).await?;
        for event in &page.events {
            let line =
                if args.place.json { serde_json::to_string(event)? } else { event_line(event) };
            if let OutputReader::Gone = say(&format!("{line}\n"))? {
                return Ok(());
            }
        }
        since = page.sequence;
        if !args.follow && !page.more {
            return Ok(());
        }
    }
}

fn event_line(event: &CampaignEvent) -> String {
    let about = match (event.text.is_empty(), event.task) {
        (false, _) => event.text.clone(),
        (true, Some(task)) => format!("task {}.{task}", event.campaign),
        (true, None) => format!("campaign {}", event.campaign),
    };
    plain(&format!("{:>6}  {}  {:<11}  {about}", event.sequence, time(event.at_ms), event.code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::progress::tests::campaign;

    #[test]
    fn a_range_names_numbers() {
        let most = u64::MAX >> 1;
        for (text, range) in
            [("5", 5..=5), ("5-9", 5..=9), ("5-*", 5..=most), ("*-9", 0..=9), ("*-*", 0..=most)]
        {
            assert_eq!(range_in(text).unwrap(), range, "{text}");
        }
        for text in ["", "9-5", "a", "5-", "-5", "1-2-3"] {
            let told = range_in(text).unwrap_err().error.unwrap().to_string();
            assert!(told.contains("write 5, 5-9, 5-*, *-9 or *-*"), "{told}");
        }
    }

    fn campaigns() -> Vec<CampaignSummary> {
        let other = CampaignSummary {
            id: 8,
            name: "a, \"b\"".to_owned(),
            user: "bob".to_owned(),
            state: "done".to_owned(),
            tasks: 7,
            done: 7,
            failed: 0,
            running: 0,
            queued: 0,
            ..campaign()
        };
        vec![campaign(), other]
    }

    #[test]
    fn campaigns_are_shown_in_lines() {
        insta::assert_snapshot!(short(&campaigns()));
    }

    #[test]
    fn a_campaign_is_shown_in_full() {
        let spread = |p50, p95, max| Spread { count: 212, p50, p95, max };
        let node = |node: &str, open, done| NodeStats {
            node: node.to_owned(),
            open,
            done,
            other: 1,
            mean_ms: 5400,
        };
        let stats = CampaignStats {
            campaign: campaign(),
            memory_mb: 4096,
            rss_mb: spread(1434, 2000, 2150),
            ms: spread(5000, 9000, 12_000),
            attempts: 61_300,
            repeated: 93,
            failed_ppm: 49,
            repeated_ppm: 1517,
            done_lately: 30_000,
            lately_ms: 3_600_000,
            last_end_ms: Some(1_764_063_600_000),
            left_ms: Some(4_656_000),
            nodes: vec![node("n1", 100, 4000), node("n2", 88, 5000)],
        };
        let failed = vec![TaskInfo {
            campaign: 9,
            task: 17,
            state: "failed".to_owned(),
            attempt: 1,
            tries: 1,
            may_run_twice: false,
            rank: None,
            losses: 0,
            reason: Some("memory".to_owned()),
            param: None,
            advice: Vec::new(),
            attempts: Vec::new(),
        }];
        insta::assert_snapshot!(full(&FullCampaign { stats, gang: None, failed }));
    }

    #[test]
    fn comma_separated_values_say_what_json_says() {
        let text = csv_of(&campaigns(), &FIELDS).unwrap();
        insta::assert_snapshot!(text);
        let formula = CampaignSummary { name: "=1+1".to_owned(), ..campaign() };
        let text_of_formula = csv_of(&[formula], &FIELDS).unwrap();
        assert!(text_of_formula.contains(",'=1+1,"), "{text_of_formula}");
        let json = serde_json::to_value(campaign()).unwrap();
        assert_eq!(json.as_object().unwrap().len(), FIELDS.len(), "every field has a column");
        let cells: Vec<&str> = text.lines().nth(1).unwrap().split(',').collect();
        for (field, cell) in FIELDS.iter().zip(cells) {
            assert_eq!(json[field].to_string().trim_matches('"'), cell, "{field}");
        }
    }
}
