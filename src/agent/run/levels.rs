//! What of an answer concerns one slot, and what of a report is news.

use std::collections::{BTreeMap, BTreeSet};

use crate::orchestrator::wire::{SlotOrder, SlotReport, SlotStart, TaskSpec};

/// The specifications that an order needs.
pub(super) fn specs_of(
    order: &SlotOrder,
    specs: &BTreeMap<u64, TaskSpec>,
) -> BTreeMap<u64, TaskSpec> {
    let started = order.start.iter().map(|start| start.spec);
    let numbers: BTreeSet<u64> = order.tasks.iter().map(|task| task.spec).chain(started).collect();
    numbers.into_iter().filter_map(|spec| Some((spec, specs.get(&spec)?.clone()))).collect()
}

/// What stands in the book of a slot whose start is not known.
pub(super) fn nothing() -> SlotStart {
    SlotStart {
        campaign: 0,
        user: String::new(),
        uid: None,
        memory_mb: 0,
        lanes: 1,
        spec: 0,
        linger_ms: 0,
        needs_kernel_limit: false,
    }
}

/// The report without what only time changes.
pub(super) fn without_times(report: &SlotReport) -> SlotReport {
    let mut report = report.clone();
    for task in &mut report.running {
        (task.ms, task.unsaved_ms) = (0, 0);
    }
    report
}
