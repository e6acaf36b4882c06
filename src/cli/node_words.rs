//! Words on nodes that several commands use: states, notes, shares, and the impact of an act.

use super::table::plain;
use crate::api::wire::{Impact, JobBelow, NodeInfo, ShareState};
use crate::model::{counted, fold_hostlist, span};

/// Named jobs of a node; the text counts the rest.
pub(super) const JOBS_SHOWN: usize = 6;

/// Words for the states of a node, separated by commas.
pub(super) fn states(node: &NodeInfo) -> String {
    node.states.iter().map(|state| state.word()).collect::<Vec<_>>().join(",")
}

/// Notes on a node: the reason it is varied off, missed heartbeats, and notes of the daemon.
pub(super) fn notes(node: &NodeInfo) -> String {
    let missed = u64::from(node.missed_heartbeats);
    let missed = (0 < missed).then(|| format!("missed {}", counted(missed, "heartbeat")));
    let reason = node.vary_off_reason.as_ref().map(|reason| format!("off: {reason}"));
    reason.into_iter().chain(missed).chain(node.notes.clone()).collect::<Vec<_>>().join("; ")
}

/// Word for the state of a share.
pub(super) fn share_state(state: ShareState) -> &'static str {
    match state {
        ShareState::Held => "held",
        ShareState::Leaving => "leaving",
    }
}

/// Names of nodes as a host list.
pub(super) fn names(nodes: &[String]) -> String {
    plain(&fold_hostlist(nodes.iter().map(String::as_str)))
}

/// Lines on the shares that an act evicts, preempts and keeps, and on jobs with fewer processes.
pub(super) fn render_impact(impact: &Impact, dry_run: bool, has_changed: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let would = if dry_run { "would be " } else { "" };
    if 0 < impact.shares_evicted {
        let count = u64::try_from(impact.jobs.len()).unwrap_or(u64::MAX);
        let jobs: Vec<String> = impact.jobs.iter().take(JOBS_SHOWN).map(u64::to_string).collect();
        let more = if JOBS_SHOWN < impact.jobs.len() { ", …" } else { "" };
        lines.push(format!(
            "{} of {} {would}evicted ({}{more}){}",
            counted(impact.shares_evicted, "share"),
            counted(count, "job"),
            jobs.join(", "),
            work_lost(impact.work_lost_ms),
        ));
    } else if has_changed {
        lines.push(format!("no work {would}evicted"));
    }
    if 0 < impact.preempted {
        let count = counted(impact.preempted, "share");
        lines.push(format!("{count} on other nodes {would}preempted to make space"));
    }
    if !impact.below.is_empty() {
        let shown = impact.below.iter().take(JOBS_SHOWN);
        let shown: Vec<String> = shown
            .map(|JobBelow { job, holds, keeps }| format!("{job} from {holds} to {keeps}"))
            .collect();
        let more = if JOBS_SHOWN < impact.below.len() { ", …" } else { "" };
        let count = counted(u64::try_from(impact.below.len()).unwrap_or(u64::MAX), "job");
        lines.push(format!("{count} left with fewer processes: {}{more}", shown.join(", ")));
    }
    if 0 < impact.kept {
        let stays = if impact.kept == 1 { "stays" } else { "stay" };
        lines.push(format!("{} {stays} until done", counted(impact.kept, "share")));
    }
    lines
}

/// Returns the lost work of evictions, for a preview.
pub(super) fn work_lost(ms: u64) -> String {
    match ms {
        0 => String::new(),
        ms => format!("; {} of work lost", span(ms)),
    }
}
