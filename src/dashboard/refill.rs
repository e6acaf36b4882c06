//! What charts show of the time before the start, read and computed from the record.

use std::collections::VecDeque;

use super::past::Past;
use super::samples::Sample;
use super::watcher::sample;
use crate::api::wire::{Happening, RemovalReason};
use crate::api::{ApiState, PastEvent};

/// So many events are read at a time.
const PAGE: u32 = 64;

/// So many entries of what was preempted are taken from before the start.
const ENTRIES: usize = 4_000;

/// Samples closer than this are not worth their memory, in milliseconds.
const SPACING_MS: i64 = 1_000;

/// Waits until the daemon has its books.
pub(super) async fn resumed(api: &ApiState) {
    let mut changes = api.board.changes();
    while api.latest().is_resuming {
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Figures over time: the record is computed again, the latest part of it first.
pub(super) async fn samples(api: &ApiState, past: &Past) {
    resumed(api).await;
    let mut views = api.past_cycles.course();
    let mut segment: Vec<Sample> = Vec::new();
    while let Some(then) = views.recv().await {
        let last = segment.last().map(|sample| sample.at_ms);
        if last.is_some_and(|last| then.at_ms < last) {
            // The next segment is of before this one.
            past.notes().samples.begin_with(std::mem::take(&mut segment));
        } else if last.is_some_and(|last| then.at_ms - last < SPACING_MS) {
            continue;
        }
        segment.push(sample(&then.view, then.at_ms));
    }
    past.notes().samples.begin_with(segment);
}

/// What was preempted, as the feed has it up to event `until`.
pub(super) async fn preempted(api: &ApiState, past: &Past, until: u64) {
    let mut since = 0;
    let mut entries = VecDeque::new();
    while since < until {
        let page = api.past_events.since(since, PAGE).await.unwrap_or_default();
        let Some(last) = page.last() else { break };
        since = last.sequence;
        for event in page.iter().filter(|event| event.sequence <= until) {
            let processes = preempted_in(event);
            if 0 < processes {
                entries.push_back((event.at_ms, processes));
            }
        }
        while ENTRIES < entries.len() {
            entries.pop_front();
        }
    }
    past.notes().preempted_before(entries);
}

fn preempted_in(event: &PastEvent) -> u64 {
    if event.kind != "removed" {
        return 0;
    }
    // What cannot be read is in the log of whoever follows the feed.
    Happening::read(&event.kind, &event.body).map_or(0, |what| preempted_by(&what))
}

/// How many processes are preempted by what came about.
pub(super) fn preempted_by(what: &Happening) -> u64 {
    let Happening::Removed { shares } = what else { return 0 };
    crate::model::count(shares.iter().filter(|share| share.reason == RemovalReason::Preempted))
}
