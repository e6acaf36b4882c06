//! Filters: the part of an answer that concerns a slot, and the part of a report that is news.

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

/// Placeholder in the record of a slot whose start is unknown.
pub(super) fn nothing() -> SlotStart {
    SlotStart {
        campaign: 0,
        user: String::new(),
        uid: None,
        memory_mb: 0,
        lanes: 1,
        spec: 0,
        linger_ms: 0,
        interruption_ms: None,
        needs_kernel_limit: false,
        listens: false,
    }
}

/// Below this, memory of a task is no news, in MiB: most programs come to that, and short ones are many.
const LITTLE_MB: u64 = 64;

/// Returns the report without values that change with time alone. Growing memory counts by
/// doublings.
pub(super) fn without_times(report: &SlotReport) -> SlotReport {
    let mut report = report.clone();
    for task in &mut report.running {
        (task.ms, task.unsaved_ms) = (0, 0);
        let is_little = task.rss_mb < LITTLE_MB;
        task.rss_mb = if is_little { 0 } else { task.rss_mb.next_power_of_two() };
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orchestrator::wire::{AttemptId, RunningTask, SlotStage};

    #[test]
    fn memory_is_news_when_it_has_doubled() {
        let report = |ms, rss_mb| SlotReport {
            share: 1,
            state: SlotStage::Working,
            held: Vec::new(),
            running: vec![RunningTask {
                task: AttemptId { campaign: 1, task: 1, attempt: 1 },
                ms,
                unsaved_ms: ms,
                has_saved: false,
                rss_mb,
            }],
            want: 0,
            results: Vec::new(),
            seen_order: 0,
            prepared_ms: None,
            port: None,
            end: None,
            text: None,
        };
        let is_news = |before, after| {
            without_times(&report(1, before)) != without_times(&report(2000, after))
        };
        assert!(!is_news(0, 63) && !is_news(65, 128) && !is_news(1100, 1900));
        assert!(is_news(63, 64) && is_news(128, 129) && is_news(500, 1900));
    }
}
