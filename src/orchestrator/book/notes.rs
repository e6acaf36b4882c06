//! Sentences about campaigns, for people.

use std::collections::BTreeMap;

use super::rows::{Note, TaskRow};
use super::slots::Slot;
use crate::orchestrator::spec::signal_name;
use crate::orchestrator::wire::{Reason, TaskResult};

/// What happened to a campaign as a whole. `code` is one of the words that its notes leave out.
pub(super) fn history(campaign: u64, code: &'static str, what: &str) -> Note {
    let text = format!("campaign {campaign}: {what}");
    Note { campaign, task: None, node: None, code, text }
}

/// A task failed.
pub(super) fn failed(
    row: &TaskRow,
    result: &TaskResult,
    slots: &BTreeMap<u64, Slot>,
    share: u64,
) -> Note {
    let node = slots.get(&share).map(|slot| slot.row.node.clone());
    let place = node.as_ref().map_or("?", |node| node.as_str());
    let why = row.reason.unwrap_or(result.why);
    let text = format!("task {}.{} on {place}: {}", row.campaign, row.task, sentence(why, result));
    Note { campaign: row.campaign, task: Some(row.task), node, code: why.word(), text }
}

/// Why an attempt ended, in words.
fn sentence(why: Reason, result: &TaskResult) -> String {
    match why {
        Reason::Exit => format!("exit status {}", result.exit.unwrap_or(0)),
        Reason::Signal => format!("ended by {}", signal_name(result.signal.unwrap_or(0))),
        Reason::Memory => format!("over its memory, at {} MB", result.peak_mb),
        Reason::TimeLimit
        | Reason::NodeKiller
        | Reason::NotFound
        | Reason::NotExecutable
        | Reason::NoCwd
        | Reason::NoUser
        | Reason::Prologue
        | Reason::Done
        | Reason::Preempted
        | Reason::VariedOff
        | Reason::Lost
        | Reason::Cancelled
        | Reason::Superseded
        | Reason::Returned => why.words().to_owned(),
    }
}
