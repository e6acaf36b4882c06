//! Sentences about campaigns, for people.

use std::collections::BTreeMap;

use super::rows::{Note, TaskRow};
use super::slots::Slot;
use crate::orchestrator::wire::TaskResult;

/// Builds the note of an event that concerns a whole campaign. Answers about a campaign omit notes
/// with these codes.
pub(super) fn history(campaign: u64, code: &'static str, what: &str) -> Note {
    let text = format!("campaign {campaign}: {what}");
    Note { campaign, task: None, node: None, code, text }
}

/// Builds the note of a failed task.
pub(super) fn failed(
    row: &TaskRow,
    result: &TaskResult,
    slots: &BTreeMap<u64, Slot>,
    share: u64,
) -> Note {
    let node = slots.get(&share).map(|slot| slot.row.node.clone());
    let place = node.as_ref().map_or("?", |node| node.as_str());
    let why = row.reason.unwrap_or(result.why);
    let ending = TaskResult { why, ..result.clone() }.ending();
    let text = format!("task {}.{} on {place}: {ending}", row.campaign, row.task);
    Note { campaign: row.campaign, task: Some(row.task), node, code: why.word(), text }
}
