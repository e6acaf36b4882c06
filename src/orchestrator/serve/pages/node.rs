//! The page of a node: its limits of memory, and its slots. The dashboard shows this part in its
//! own page of the node.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;

use super::SECTION;
use crate::dashboard::{Ask, Nothing, Page, PageError, words};
use crate::model::span;
use crate::orchestrator::serve::grid::slots_on;
use crate::orchestrator::serve::state::ServeState;
use crate::orchestrator::wire::{NodeSlot, NodeSlots, SlotTask};

#[derive(Template)]
#[template(path = "campaign_node.html")]
struct Live {
    node: String,
    /// `None`: the node runs no slots.
    facts: Option<Vec<(&'static str, String)>>,
    /// Sentence that the slots may have changed since; empty while the agent reports.
    silence: String,
    rows: Vec<SlotLine>,
}

/// A slot, as a line of the table.
struct SlotLine {
    slot: NodeSlot,
    memory: String,
    tasks: Vec<TaskCell>,
    waiting: String,
}

/// A task that runs.
struct TaskCell {
    task: u64,
    since_ms: u64,
    since: String,
}

/// The page.
pub(super) async fn page(
    State(state): State<ServeState>,
    Path(node): Path<String>,
    ask: Ask,
) -> Result<Response, PageError> {
    let live = match slots_on(&state, &node).await? {
        Some(known) => live(known),
        None => Live { node: node.clone(), facts: None, silence: String::new(), rows: Vec::new() },
    };
    let title = format!("Slots on {node}");
    Page { title: &title, section: SECTION, head: Nothing, live }.answer(&ask)
}

fn live(known: NodeSlots) -> Live {
    let mut facts = vec![("Limits of memory", known.limits.words())];
    facts.extend(known.only_user.map(|user| ("Runs work of", format!("{user} only"))));
    let silence = match known.silent_ms {
        0..=60_000 => String::new(),
        ms => format!("Its agent is silent for {}: the slots are as last reported.", span(ms)),
    };
    Live {
        node: known.node,
        facts: Some(facts),
        silence,
        rows: known.slots.into_iter().map(row).collect(),
    }
}

fn row(slot: NodeSlot) -> SlotLine {
    let limit = words::memory(slot.memory_mb);
    let cell = |task: &SlotTask| TaskCell {
        task: task.task.task,
        since_ms: task.since_ms,
        since: words::time(i64::try_from(task.since_ms).unwrap_or(0)),
    };
    SlotLine {
        memory: match slot.used_mb {
            Some(used) => format!("{} of {limit}", words::memory(used)),
            None => format!("– of {limit}"),
        },
        tasks: slot.running.iter().map(cell).collect(),
        waiting: match slot.waiting {
            0 => String::new(),
            waiting => words::number(waiting),
        },
        slot,
    }
}
