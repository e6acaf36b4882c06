//! Figures of charts for the time before the start, computed from the store.

use std::collections::VecDeque;

use super::past::SharedNotes;
use super::samples::ChartSample;
use super::watcher::sample;
use crate::api::wire::{FeedEvent, RemovalReason};
use crate::api::{ApiState, PastEvent};

/// Events in a read.
const PAGE: u32 = 64;

/// Entries of preempted processes taken from before the start.
const ENTRIES: usize = 4_000;

/// Least spacing of samples in milliseconds: closer samples are not worth their memory.
const SPACING_MS: i64 = 1_000;

/// Waits until the daemon has loaded its state.
pub(super) async fn resumed(api: &ApiState) {
    let mut changes = api.board.changes();
    while api.latest().is_resuming {
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Fills in figures over time: the journal is computed again, its latest part first.
pub(super) async fn samples(api: &ApiState, past: &SharedNotes) {
    resumed(api).await;
    let mut views = api.past_cycles.course();
    let mut segment: Vec<ChartSample> = Vec::new();
    while let Some(then) = views.recv().await {
        let last = segment.last().map(|sample| sample.at_ms);
        if last.is_some_and(|last| then.at_ms < last) {
            // This segment is complete: the next segment lies before it.
            past.notes().samples.begin_with(std::mem::take(&mut segment));
        } else if last.is_some_and(|last| then.at_ms - last < SPACING_MS) {
            continue;
        }
        segment.push(sample(&then.view, then.at_ms));
    }
    past.notes().samples.begin_with(segment);
}

/// Notes the processes preempted up to event `until`, from the events in the store.
pub(super) async fn preempted(api: &ApiState, past: &SharedNotes, until: u64) {
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
    // An unreadable event counts as 0 here; the reader of the feed logs it.
    FeedEvent::read(&event.kind, &event.body).map_or(0, |what| preempted_by(&what))
}

/// Counts the processes that an event preempts.
pub(super) fn preempted_by(what: &FeedEvent) -> u64 {
    let FeedEvent::Removed { shares } = what else { return 0 };
    crate::model::count(shares.iter().filter(|share| share.reason == RemovalReason::Preempted))
}
