//! Bounds of the slot reports that the agent passes on.
//!
//! A task can forge every message of its slot. The reports of all slots share the body of an
//! exchange, so no slot may fill it. Numbers are cut, so that sums and doublings do not overflow.

use crate::orchestrator::wire::{SlotReport, SlotStage, TaskResult};
use crate::slot::wire::{MAX_QUEUE, MAX_RESULTS, MAX_TEXT};

/// The longest time, in milliseconds: some 35,000 years.
const MAX_MS: u64 = 1 << 50;

/// The most memory, in MiB: an exbibyte.
const MAX_MB: u64 = 1 << 40;

/// The longest output, in bytes: an exbibyte.
const MAX_OUTPUT: u64 = 1 << 60;

/// The longest end of a standard error, in bytes: 4 KiB that are no text are 12 KiB of replacements.
const MAX_TAIL: usize = 12 << 10;

/// The longest error of a task, in bytes: 2 KiB, as above.
const MAX_ERROR: usize = 6 << 10;

/// Most bytes of results in an exchange. An orchestrator reads 32 MiB, with all that surrounds the
/// results.
const MAX_BODY: usize = 24 << 20;

/// The most bytes of a result beside its texts, and the most that a byte of a text becomes.
const RESULT_BYTES: usize = 512;
const ESCAPED_BYTES: usize = 6;

/// Cuts the report of a slot with `lanes` lanes down to the size of an honest report.
pub(super) fn bound(report: &mut SlotReport, lanes: u64) {
    let most = lanes.saturating_add(MAX_QUEUE);
    report.want = report.want.min(most);
    // The orchestrator may give tasks again while a report is on its way, so a slot may hold more
    // than it asked for. A held task that is cut off here is sent again, without effect.
    report.held.truncate(usize::try_from(most.saturating_mul(4)).unwrap_or(usize::MAX));
    report.running.truncate(usize::try_from(lanes).unwrap_or(usize::MAX));
    for task in &mut report.running {
        task.ms = task.ms.min(MAX_MS);
        task.unsaved_ms = task.unsaved_ms.min(MAX_MS);
        task.rss_mb = task.rss_mb.min(MAX_MB);
    }
    if report.state != SlotStage::Gone {
        report.results.truncate(MAX_RESULTS);
    }
    for result in &mut report.results {
        result.ms = result.ms.min(MAX_MS);
        result.cpu_ms = result.cpu_ms.min(MAX_MS);
        result.peak_mb = result.peak_mb.min(MAX_MB);
        result.rss_mb = result.rss_mb.min(MAX_MB);
        result.out = result.out.map(|length| length.min(MAX_OUTPUT));
        shorten(&mut result.tail, MAX_TAIL);
        shorten(&mut result.error, MAX_ERROR);
    }
    report.prepared_ms = report.prepared_ms.map(|ms| ms.min(MAX_MS));
    if let Some(text) = &mut report.text {
        shorten(text, MAX_TEXT);
    }
}

fn shorten(text: &mut String, most: usize) {
    text.truncate(text.floor_char_boundary(most));
    text.shrink_to_fit();
}

/// Returns the reports for an exchange, each with as many results as an even share of the body
/// holds, at least a single result. Further results follow once these are acknowledged.
pub(super) fn portions<'a>(
    reports: impl ExactSizeIterator<Item = &'a SlotReport>,
) -> Vec<SlotReport> {
    let most = MAX_BODY.checked_div(reports.len()).unwrap_or(MAX_BODY);
    reports.map(|report| portion(report, most)).collect()
}

fn portion(report: &SlotReport, most: usize) -> SlotReport {
    let mut size = 0_usize;
    let fits = |result: &&TaskResult| {
        size = size.saturating_add(bytes_of(result));
        size <= most
    };
    let count = report.results.iter().take_while(fits).count().max(1);
    let mut part = report.clone();
    if count < part.results.len() {
        part.results.truncate(count);
        if part.state == SlotStage::Gone {
            // If a slot is gone, its attempts without a result are given to other slots. So this
            // slot is not reported as gone before all its results are sent.
            (part.state, part.end, part.text) = (SlotStage::Stopping, None, None);
        }
    }
    part
}

fn bytes_of(result: &TaskResult) -> usize {
    let texts = result.tail.len().saturating_add(result.error.len());
    texts.saturating_mul(ESCAPED_BYTES).saturating_add(RESULT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orchestrator::wire::{AttemptId, Reason, RunningTask, SlotEnd};

    fn result(number: u64, text: &str) -> TaskResult {
        TaskResult {
            number,
            task: AttemptId { campaign: 9, task: number, attempt: 1 },
            why: Reason::Exit,
            exit: Some(1),
            signal: None,
            ms: u64::MAX,
            cpu_ms: u64::MAX,
            peak_mb: u64::MAX,
            rss_mb: u64::MAX,
            out: [u64::MAX; 2],
            tail: text.to_owned(),
            error: text.to_owned(),
            has_saved: false,
        }
    }

    /// The largest that fits a frame, and more.
    fn forged(state: SlotStage) -> SlotReport {
        let id = AttemptId { campaign: u64::MAX, task: u64::MAX, attempt: u64::MAX };
        let (ms, unsaved_ms, rss_mb) = (u64::MAX, u64::MAX, u64::MAX);
        let text = "\u{1}é".repeat(100_000);
        SlotReport {
            share: 7,
            state,
            held: vec![id; 400_000],
            running: vec![RunningTask { task: id, ms, unsaved_ms, has_saved: true, rss_mb }; 9],
            want: u64::MAX,
            results: (1..=200).map(|number| result(number, &text)).collect(),
            seen_order: u64::MAX,
            prepared_ms: Some(u64::MAX),
            port: None,
            end: Some(SlotEnd::Died),
            text: Some(text),
        }
    }

    #[test]
    fn a_forged_report_is_cut_down() {
        for state in [SlotStage::Working, SlotStage::Gone] {
            let mut report = forged(state);
            bound(&mut report, 2);
            let SlotReport { want, held, running, results, text, .. } = &report;
            assert_eq!((*want, held.len(), running.len()), (52, 208, 2));
            assert_eq!(results.len(), if state == SlotStage::Gone { 200 } else { MAX_RESULTS });
            assert!(text.as_ref().unwrap().len() <= MAX_TEXT);
            // Calculations of the readers: sums and doublings.
            let _ = crate::agent::run::levels::without_times(&report);
            assert!(results.iter().map(|end| end.rss_mb + end.ms).sum::<u64>() < u64::MAX);
        }
    }

    #[test]
    fn slots_share_one_body() {
        let mut loud = forged(SlotStage::Gone);
        bound(&mut loud, 1);
        let quiet = SlotReport { results: vec![result(1, "")], ..loud.clone() };
        let slots: Vec<SlotReport> = std::iter::repeat_n(loud, 63).chain([quiet.clone()]).collect();
        let told = portions(slots.iter());
        assert_eq!(told.last(), Some(&quiet));
        assert!(serde_json::to_vec(&told).unwrap().len() < 32 << 20);
    }

    #[test]
    fn a_slot_is_gone_with_its_last_results() {
        let mut report = forged(SlotStage::Gone);
        bound(&mut report, 1);
        let all = report.results.len();
        let (mut told, mut rounds) = (0, 0);
        loop {
            let part = portion(&report, MAX_BODY >> 6);
            told += part.results.len();
            rounds += 1;
            report.results.drain(..part.results.len());
            if part.state == SlotStage::Gone {
                break;
            }
            assert_eq!((part.end, part.results.is_empty()), (None, false));
        }
        assert!(told == all && rounds > 1, "{told} of {all} in {rounds}");
    }
}
