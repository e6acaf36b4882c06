//! The running daemon's configuration: effects of a change, the change itself, and the history.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;

use super::super::client::DaemonClient;
use super::super::consent;
use super::super::failure::{Failure, FailureKind};
use super::super::node_words::work_lost;
use super::super::output::show;
use super::super::settings::shown;
use super::super::table::Column::{Left, Right};
use super::super::table::{plain, table};
use super::args::{Apply, ConfigChoice, ConfigHistoryArgs, ConfigPlanArgs};
use crate::api::wire::{
    ConfigChange, ConfigGeneration, ConfigHistory, ConfigImpact, ConfigPlan, ConfigRequest,
    RemovalReason,
};
use crate::config;
use crate::model::{counted, fold_hostlist};

/// Named jobs in a list; the text counts the rest.
const JOBS_SHOWN: usize = 8;

/// Says what a configuration would come to.
///
/// # Errors
///
/// If it is wrong, or the daemon cannot be reached.
pub async fn plan(args: &ConfigPlanArgs) -> Result<(), Failure> {
    let request = request(&args.which, None)?;
    let client = DaemonClient::new(&args.remote)?;
    let plan: ConfigPlan = client.post(&["v1", "config", "plan"], &request).await?;
    Ok(show(&plan, args.remote.json, render)?)
}

/// Puts a configuration into effect.
///
/// # Errors
///
/// If the configuration is wrong, the daemon cannot be reached, or the caller declined the
/// evictions.
pub async fn apply(args: &Apply) -> Result<(), Failure> {
    let request = request(&args.which, args.reason.clone())?;
    let client = DaemonClient::new(&args.remote)?;
    if args.dry_run {
        let plan: ConfigPlan = client.post(&["v1", "config", "plan"], &request).await?;
        return Ok(show(&plan, args.remote.json, render)?);
    }
    if !args.yes {
        let plan: ConfigPlan = client.post(&["v1", "config", "plan"], &request).await?;
        let is_change = !plan.changes.is_empty() || !plan.moved.is_empty();
        // At a terminal a person sees first what changes; a script is stopped by harm alone.
        if plan.impact.as_ref().is_some_and(is_harmful) || is_change && consent::can_ask() {
            consent::ask(&plan, args.remote.json, render)?;
        }
    }
    let answer: ConfigPlan = client.post(&["v1", "config", "apply"], &request).await?;
    Ok(show(&answer, args.remote.json, render)?)
}

/// Lists the past configurations, or shows the text of a single generation.
///
/// # Errors
///
/// If the daemon cannot be reached, or has no such generation.
pub async fn history(args: &ConfigHistoryArgs) -> Result<(), Failure> {
    let client = DaemonClient::new(&args.remote)?;
    let path = ["v1", "config", "generations"];
    let Some(generation) = args.generation else {
        let history: ConfigHistory = client.get(&path, &[]).await?;
        return Ok(show(&history, args.remote.json, render_history)?);
    };
    let number = generation.to_string();
    let path = [&path[..], &[number.as_str()]].concat();
    let one: ConfigGeneration = client.get(&path, &[]).await?;
    Ok(show(&one, args.remote.json, |one| one.text.clone().unwrap_or_default())?)
}

/// Builds the request for the daemon. The client itself checks the syntax of a file, and shows
/// faults line by line.
fn request(which: &ConfigChoice, reason: Option<String>) -> Result<ConfigRequest, Failure> {
    let Some(file) = &which.file else {
        return Ok(ConfigRequest {
            generation: which.generation,
            reason,
            ..ConfigRequest::default()
        });
    };
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let name = absolute(file);
    config::parse(&file.display().to_string(), &text)
        .map_err(|problems| shown(&problems, FailureKind::Refused))?;
    Ok(ConfigRequest { name: Some(name), text: Some(text), generation: None, reason })
}

/// The file as the daemon's record is to call it, wherever this was typed.
fn absolute(file: &Path) -> String {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned()).display().to_string()
}

fn is_harmful(impact: &ConfigImpact) -> bool {
    0 < impact.shares_evicted + impact.shares_parked || !impact.refused.is_empty()
}

fn render(plan: &ConfigPlan) -> String {
    let mut lines: Vec<String> = changes(&plan.changes);
    let mut moved: Vec<(&str, &str)> =
        plan.moved.iter().map(|node| (node.from.as_str(), node.to.as_str())).collect();
    moved.sort_unstable();
    moved.dedup();
    for (from, to) in moved {
        let nodes =
            plan.moved.iter().filter(|node| (node.from.as_str(), node.to.as_str()) == (from, to));
        let nodes = fold_hostlist(nodes.map(|node| node.node.as_str()));
        lines.push(format!("nodes {nodes}: {from} -> {to}"));
    }
    match &plan.impact {
        Some(impact) => lines.extend(render_impact(impact, plan.applied)),
        None if plan.changes.is_empty() => {}
        None => lines.push(
            "what it means for work is not known: nothing was scheduled since the start".to_owned(),
        ),
    }
    lines.extend(plan.notes.iter().map(|note| format!("note: {note}")));
    lines.push(match (plan.applied, plan.changes.is_empty()) {
        (true, _) => format!("generation {} is in effect", plan.generation),
        (false, true) => {
            format!("nothing differs from generation {}, which is in effect", plan.generation)
        }
        (false, false) => {
            format!("nothing was changed; generation {} is in effect", plan.generation)
        }
    });
    plain_lines(&lines)
}

fn plain_lines(lines: &[String]) -> String {
    lines.iter().map(|line| plain(line)).collect::<Vec<_>>().join("\n")
}

/// Setting by setting; classes, nodepools and users that are new or gone in a line each.
fn changes(changes: &[ConfigChange]) -> Vec<String> {
    // Every class, nodepool and user has this setting, so its change marks a new or a removed
    // entry.
    const ALWAYS: [(&str, &str); 3] =
        [("class.", ".policy"), ("nodepool.", ".search_order"), ("user.", ".allotment")];
    let entry = |change: &ConfigChange| {
        ALWAYS.iter().find_map(|(start, end)| {
            let is_one = change.setting.starts_with(start) && change.setting.ends_with(end);
            is_one.then(|| change.setting.trim_end_matches(end).to_owned())
        })
    };
    let whole = |is_whole: fn(&ConfigChange) -> bool| -> BTreeSet<String> {
        changes.iter().filter(|change| is_whole(change)).filter_map(entry).collect()
    };
    let gone = whole(|change| change.after.is_none());
    let new = whole(|change| change.before.is_none());
    let mut lines = Vec::new();
    for change in changes {
        let owner = change.setting.rsplit_once('.').map_or("", |(owner, _)| owner);
        let is_gone = gone.contains(owner);
        let is_new = new.contains(owner);
        let is_first = entry(change).is_some();
        match (is_gone, is_new) {
            (true, _) if is_first => lines.push(format!("{owner} is gone")),
            (_, true) if is_first => lines.push(format!("{owner} is new")),
            (true, _) | (_, true) => {}
            (false, false) => {
                let side = |side: &Option<String>| side.clone().unwrap_or("(not set)".to_owned());
                let when = if change.at_restart { ", at a restart" } else { "" };
                let (before, after) = (side(&change.before), side(&change.after));
                lines.push(format!("{}: {before} -> {after}{when}", change.setting));
            }
        }
    }
    lines
}

fn render_impact(impact: &ConfigImpact, is_done: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let (would, will) = if is_done { ("", "") } else { ("would be ", "would ") };
    if 0 < impact.shares_evicted {
        let jobs = impact
            .evicted
            .iter()
            .map(|job| format!("{} of job {} ({})", job.shares, job.job, why(job.why)));
        let shares = counted(impact.shares_evicted, "share");
        let lost = work_lost(impact.work_lost_ms);
        lines.push(format!("{shares} {would}evicted: {}{lost}", some(jobs)));
    } else {
        lines.push(format!("no work {would}evicted"));
    }
    if 0 < impact.shares_parked {
        let jobs = impact.parked.iter().map(|job| format!("{} of job {}", job.shares, job.job));
        let shares = counted(impact.shares_parked, "share");
        let stay = if is_done && impact.shares_parked == 1 { "stays" } else { "stay" };
        lines.push(format!("{shares} {will}{stay} until done: {}", some(jobs)));
    }
    if !impact.blacklisted.is_empty() {
        let nodes = fold_hostlist(impact.blacklisted.iter().map(String::as_str));
        lines.push(format!("{nodes} {will}get no work until they are gone"));
    }
    for refused in impact.refused.iter().take(JOBS_SHOWN) {
        lines.push(format!("job {} {would}refused: {}", refused.job, refused.reason));
    }
    let more = impact.refused.len().saturating_sub(JOBS_SHOWN);
    if 0 < more {
        lines.push(format!("and {more} more jobs"));
    }
    lines
}

fn some(jobs: impl ExactSizeIterator<Item = String>) -> String {
    let more = jobs.len().saturating_sub(JOBS_SHOWN);
    let more = (0 < more).then(|| format!("and {more} more"));
    jobs.take(JOBS_SHOWN).chain(more).collect::<Vec<_>>().join(", ")
}

fn why(why: RemovalReason) -> &'static str {
    match why {
        RemovalReason::Preempted => "preempted",
        RemovalReason::VariedOff => "varied off",
        RemovalReason::Blacklisted => "blacklisted",
        RemovalReason::NodeDied => "node died",
        RemovalReason::Withdrawn => "withdrawn",
        RemovalReason::Window => "maintenance of its node",
        RemovalReason::ClassClosed => "its class closes",
        RemovalReason::Overrun => "ran longer than declared",
        RemovalReason::GangBroken => "gang broken",
    }
}

fn render_history(history: &ConfigHistory) -> String {
    let columns = [
        Right("GENERATION"),
        Left("SINCE"),
        Right("CYCLE"),
        Left("BY"),
        Left("FILE"),
        Left("REASON"),
    ];
    let rows = history.generations.iter().map(|one| {
        let time = jiff::Timestamp::from_millisecond(one.at_ms);
        let time = time.map_or_else(|_| one.at_ms.to_string(), |time| format!("{time:.0}"));
        let is_in_effect = one.generation == history.generation;
        let mark = if is_in_effect { "* " } else { "" };
        [
            format!("{mark}{}", one.generation),
            time,
            one.cycle.to_string(),
            one.source.clone(),
            one.name.clone(),
            one.reason.clone().unwrap_or_default(),
        ]
    });
    table(columns, rows)
}
