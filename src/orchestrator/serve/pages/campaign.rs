//! The page of a campaign: its progress, the reasons for its slots, its failures, its memory and
//! its nodes.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;

use super::SECTION;
use super::draw::{Curve, Histogram, ProgressBar};
use super::list::{colour, is_final};
use crate::dashboard::{Ask, Nothing, Page, PageError, words};
use crate::model::span;
use crate::orchestrator::book::TaskState;
use crate::orchestrator::serve::caller::OrchestratorCaller;
use crate::orchestrator::serve::campaigns::known;
use crate::orchestrator::serve::grid::grid_of;
use crate::orchestrator::serve::problem::Failed;
use crate::orchestrator::serve::state::ServeState;
use crate::orchestrator::serve::stats::stats_of;
use crate::orchestrator::serve::why::why_of;
use crate::orchestrator::spec::CampaignSpec;
use crate::orchestrator::store::{NoteInfo, StoreReader};
use crate::orchestrator::wire::{CampaignStats, CampaignSummary, CampaignWhy, Grid, TaskResult};

/// Most failed tasks on the page.
const FAILED: u32 = 12;
/// Most notes on the page.
const NOTES: u32 = 12;
/// Intervals of the curve.
const PARTS: u64 = 80;

#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
#[derive(Template)]
#[template(path = "campaign.html")]
struct CampaignLive {
    one: CampaignSummary,
    colour: u64,
    submitted: String,
    bar: String,
    why: CampaignWhy,
    is_short: bool,
    is_final: bool,
    is_suspended: bool,
    may_act: bool,
    facts: Vec<(&'static str, String)>,
    curve: String,
    memory: String,
    memory_facts: Vec<(&'static str, String)>,
    nodes: Vec<NodeLine>,
    failed: Vec<FailedLine>,
    failed_more: u64,
    notes: Vec<PageNote>,
}

struct NodeLine {
    node: String,
    limits: &'static str,
    open: u64,
    done: u64,
    other: u64,
    mean: String,
}

struct FailedLine {
    task: u64,
    node: String,
    why: String,
    tail: String,
}

struct PageNote {
    at_ms: u64,
    at: String,
    code: String,
    text: String,
}

/// Facts from the database about a campaign.
struct CampaignFacts {
    stats: CampaignStats,
    spec: Arc<CampaignSpec>,
    curve: Option<Curve>,
    memory: Option<Histogram>,
    failed: Vec<FailedLine>,
    notes: Vec<NoteInfo>,
    owner: String,
}

/// The page.
pub(super) async fn page(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path(id): Path<u64>,
    ask: Ask,
) -> Result<Response, PageError> {
    let CampaignFacts { stats, spec, curve, memory, failed, notes, owner } = {
        let mut reading = state.reader().await?;
        read(reading.get()?, id).await?
    };
    let may_read = caller.may_touch(&owner);
    let one = stats.campaign.clone();
    let grid = grid_of(&state).await?;
    let why = why_of(&state, id).await?;
    let limit = u64::from(FAILED);
    let failed_more = if may_read { one.failed.saturating_sub(limit) } else { 0 };
    let drawn = |drawing: Option<String>| drawing.unwrap_or_default();
    let live = CampaignLive {
        colour: colour(&one.user),
        submitted: words::time(signed(one.submitted_ms)),
        bar: ProgressBar::of(&one).to_string(),
        is_short: one.frozen || one.state == "suspended" || !why.hints.is_empty(),
        why,
        is_final: is_final(&one),
        is_suspended: one.state == "suspended" || one.frozen,
        may_act: may_read,
        facts: facts(&stats, &spec),
        curve: drawn(curve.map(|curve| curve.to_string())),
        memory: drawn(memory.map(|memory| memory.to_string())),
        memory_facts: memory_facts(&stats),
        nodes: nodes(&stats, &grid),
        failed: if may_read { failed } else { Vec::new() },
        failed_more,
        notes: if may_read { notes.into_iter().rev().map(note).collect() } else { Vec::new() },
        one,
    };
    let name = Some(live.one.name.as_str()).filter(|name| !name.is_empty());
    let title =
        name.map_or_else(|| format!("Campaign {id}"), |name| format!("Campaign {id}: {name}"));
    Page { title: &title, section: SECTION, head: Nothing, live }.answer(&ask)
}

async fn read(reader: &mut StoreReader, id: u64) -> Result<CampaignFacts, Failed> {
    let info = known(reader.campaign(id).await?, id)?;
    let stats = stats_of(reader, id).await?;
    let from_ms = info.row.submitted_ms;
    let to_ms = stats.last_end_ms.unwrap_or(from_ms);
    let width_ms = to_ms.saturating_sub(from_ms).div_ceil(PARTS).max(1);
    let parts = reader.progress(id, from_ms, width_ms).await?;
    let rows = reader.samples(id).await?;
    let used: Vec<u64> = rows.iter().map(|row| row.rss_mb).filter(|used| 0 < *used).collect();
    let mut failed = Vec::new();
    for row in reader.tasks(id, Some(TaskState::Failed), 0, FAILED).await? {
        let last = reader.attempts(id, row.task).await?.pop();
        let node = last.as_ref().map(|last| last.node.to_string()).unwrap_or_default();
        let result = last.and_then(|last| last.result);
        let ending = result.as_ref().map(TaskResult::ending);
        let why = ending.or_else(|| row.reason.map(|reason| reason.words().to_owned()));
        let why = why.unwrap_or_else(|| "failed".to_owned());
        let tail = result.map(|result| last_lines(&result.error, &result.tail)).unwrap_or_default();
        failed.push(FailedLine { task: row.task, node, why, tail });
    }
    Ok(CampaignFacts {
        curve: Curve::of(&parts, width_ms, from_ms, to_ms),
        memory: Histogram::of(&used, stats.memory_mb),
        stats,
        spec: reader.spec(&info.row).await?,
        failed,
        notes: reader.notes(id, NOTES).await?,
        owner: info.row.owner,
    })
}

/// Returns the last lines of a task's output, for a table.
fn last_lines(error: &str, tail: &str) -> String {
    let text = if error.trim().is_empty() { tail } else { error };
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(4)..].join("\n")
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

fn note(note: NoteInfo) -> PageNote {
    let NoteInfo { at_ms, code, text, .. } = note;
    PageNote { at: words::time(signed(at_ms)), at_ms, code, text }
}

fn facts(stats: &CampaignStats, spec: &CampaignSpec) -> Vec<(&'static str, String)> {
    let one = &stats.campaign;
    let number = words::number;
    let mut facts = vec![
        ("Tasks", number(one.tasks)),
        ("Done", number(one.done)),
        ("Failed", number(one.failed)),
        ("In slots", number(one.running)),
        ("Queued", number(one.queued)),
    ];
    let over = one.cancelled + one.dropped;
    if 0 < over {
        facts.push(("Cancelled or dropped", number(over)));
    }
    if let Some(folded_ms) = one.folded_ms {
        facts.push(("Tasks folded into counts", words::time(signed(folded_ms))));
    }
    facts.push(("Done in the last hour of work", number(stats.done_lately)));
    if let Some(left) = stats.left_ms {
        facts.push(("At that rate", format!("about {} left", span(left))));
    }
    if 0 < stats.ms.count {
        let (half, most) = (number(stats.ms.p50), number(stats.ms.max));
        facts.push(("Time of a task", format!("{half} ms by half of them, {most} ms at most")));
    }
    facts.push(("Attempts that were repeated", number(stats.repeated)));
    facts.extend(gang_facts(spec));
    facts.extend(on_silent_nodes(spec));
    facts
}

/// Describes the gang of a campaign.
fn gang_facts(spec: &CampaignSpec) -> Vec<(&'static str, String)> {
    let Some(gang) = &spec.gang else { return Vec::new() };
    let nodes = gang.words();
    let alone = if gang.exclusive { ", with nothing else on them" } else { "" };
    let starts = if gang.every_node { "every one of them" } else { "the first of them" };
    vec![
        ("Together or not at all", format!("{nodes}{alone}")),
        ("The program starts on", starts.to_owned()),
    ]
}

/// Describes tasks and slots of a silent node, if the campaign chose another behaviour than the
/// default.
pub(super) fn on_silent_nodes(spec: &CampaignSpec) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if spec.may_run_twice {
        let text =
            "begin again elsewhere at once: a task may run twice, and its first result counts";
        facts.push(("Tasks of a silent node", text.to_owned()));
    }
    if spec.task.finishes_unheard {
        let text = "finish what they have: they do not stop at the end of their lease";
        facts.push(("Slots that nothing reaches", text.to_owned()));
    }
    facts
}

fn memory_facts(stats: &CampaignStats) -> Vec<(&'static str, String)> {
    let memory = words::memory;
    let used = stats.rss_mb;
    let mut facts = vec![("Asked for, a slot", memory(stats.memory_mb))];
    if used.count == 0 {
        let used = if stats.attempts == 0 {
            "not known yet"
        } else {
            "not measured: tasks were too short"
        };
        facts.push(("Used", used.to_owned()));
        return facts;
    }
    facts.push(("Used by half", memory(used.p50)));
    facts.push(("Used by 95 %", memory(used.p95)));
    facts.push(("Used at most", memory(used.max)));
    facts
}

fn nodes(stats: &CampaignStats, grid: &Grid) -> Vec<NodeLine> {
    let line = |node: &crate::orchestrator::wire::NodeStats| {
        let known = grid.nodes.iter().find(|known| known.node == node.node);
        NodeLine {
            node: node.node.clone(),
            limits: known.map_or("no report", |known| known.limits.word()),
            open: node.open,
            done: node.done,
            other: node.other,
            mean: if node.done == 0 { String::new() } else { words::number(node.mean_ms) },
        }
    };
    stats.nodes.iter().map(line).collect()
}
