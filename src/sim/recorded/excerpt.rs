//! Plays an excerpt of a daemon's journal: a checkpoint, and the events after it.
//!
//! `apportion replay --export` writes it. What happens is as it was, so nothing else may happen: an
//! exit that the orchestrator never confirmed is not confirmed here either.

use std::collections::BTreeMap;

use super::document::PlayedDocument;
use super::lines;
use crate::journal::Excerpt;
use crate::model::{ShareId, SharePhase};
use crate::scheduler::{Scheduler, View};
use crate::sim::error::Flaw;

/// Plays all cycles of `excerpt`.
pub(super) fn play(excerpt: Excerpt) -> Result<PlayedDocument, Flaw> {
    if let Some(form) = excerpt.other_form() {
        let remedy = "play it with the apportion that wrote it";
        return Err(Flaw::new("journal.form", format!("form {form} is not known here"), remedy));
    }
    let name = excerpt.name.clone();
    let (state, cycles) = excerpt.into_parts();
    let mut scheduler = Scheduler::from_state(state);
    let mut known = shares(&scheduler.view());
    let mut document = PlayedDocument { name, cycles: Vec::with_capacity(cycles.len()) };
    for (ix, (cycle, entries)) in cycles.into_iter().enumerate() {
        for (entry_ix, entry) in entries.into_iter().enumerate() {
            let refused = |error| {
                let place = format!("journal.cycles[{ix}].entries[{entry_ix}]");
                let problem = format!("the scheduler refused it: {error}");
                Flaw::new(place, problem, "correct the names")
            };
            entry.redo(&mut scheduler).map_err(refused)?;
        }
        let view = scheduler.schedule();
        document.cycles.push(lines::cycle(cycle, write_down(&view, &known), &view));
        known = shares(&view);
    }
    Ok(document)
}

/// Every share of the view, including shares that died with their node, with true if the share is
/// terminating.
fn shares(view: &View) -> BTreeMap<ShareId, SharePhase> {
    let shares = view.jobs.iter().flat_map(|job| job.shares.iter().chain(&job.purged));
    shares.map(|share| (share.id, share.state)).collect()
}

fn write_down(
    view: &View,
    known: &BTreeMap<ShareId, SharePhase>,
) -> Vec<super::document::PlayedJob> {
    let lines = view.jobs.iter().map(|job| {
        let mut line = lines::job(job, view);
        for share in job.shares.iter().chain(&job.purged) {
            let before = known.get(&share.id);
            if before.is_none() {
                line.expanded.push(share.node.to_string());
            }
            if share.state == SharePhase::Leaving && before != Some(&SharePhase::Leaving) {
                line.shrunken.push(share.node.to_string());
            }
        }
        line.expanded.sort();
        line.shrunken.sort();
        line
    });
    lines.collect()
}
