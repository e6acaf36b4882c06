//! Figures of runs small enough to add up by hand.

use super::*;

fn line(work: usize, order: u64, useful: u64, held: u64) -> MeasuredJob {
    let threads = NonZeroU64::new(1).unwrap();
    MeasuredJob {
        subject: Subject {
            work: WorkIx(work),
            party: work,
            class: 0,
            weight: 100,
            order,
            submitted: 0,
        },
        need: Need {
            remaining: useful,
            threads,
            nodes: None,
            is_running: true,
            time_per_item: 1_000_000_000,
            held,
            has_initialized: 0 < held,
        },
        held,
    }
}

fn cycle<'a>(now: Millis, lines: &'a [MeasuredJob], free: &'a [u64]) -> MeasuredCycle<'a> {
    MeasuredCycle { now, lines, free, preempted: 0, is_paid: false, had_news: false }
}

#[track_caller]
fn assert_near(left: f64, right: f64) {
    assert!((left - right).abs() < 1e-6, "{left} is not {right}");
}

/// Two nodes of 4 and 3 qshares. Two users want everything in order 2; the first holds 2, the
/// second 0.
#[test]
fn shortfalls_of_contended_cycles_are_added_up() {
    let mut ledger = MeasureLedger::new(&[4, 3]);
    // Three processes fit. Fair shares by cap: the first may double to two, the second start two:
    // 6 qshares for claims of 4 and 4, 3 each.
    ledger.enter(&cycle(0, &[line(0, 2, 9, 1), line(1, 2, 9, 0)], &[2, 3]));
    let totals = Totals { makespan: 10_000, ..Totals::default() };
    let report = ledger.report(&totals);
    // 1 and 3 qshares short of 7; only 3 is a whole process.
    assert_near(report.fairness_error_pct.cap, 400.0 / 7.0);
    assert_near(report.fairness_error_pct.cap_whole, 300.0 / 7.0);
    assert_near(report.held_pct, 200.0 / 7.0);
    assert_near(report.unheld_pct, 400.0 / 7.0);
    // A process fits in the hole of 2 and another in the hole of 3.
    assert_near(report.idle_usable_pct, 400.0 / 7.0);
}

#[test]
fn the_longest_time_without_a_process_begins_with_submission() {
    let mut ledger = MeasureLedger::new(&[4]);
    let [waiting, served] = [0, 1].map(|held| [line(0, 2, 1, held)]);
    ledger.enter(&cycle(10_000, &waiting, &[4]));
    ledger.enter(&cycle(20_000, &waiting, &[4]));
    ledger.enter(&cycle(30_000, &served, &[2]));
    ledger.enter(&cycle(40_000, &waiting, &[4]));
    ledger.enter(&cycle(50_000, &served, &[2]));
    let report = ledger.report(&Totals::default());
    assert_near(report.longest_zero_s, 30.0);
    // In the cycles at 10 s and 20 s the fair share of the job was its single process.
    assert_near(report.longest_zero_owed_s, 20.0);
}

#[test]
fn only_preemptions_after_two_quiet_minutes_count() {
    let mut ledger = MeasureLedger::new(&[4]);
    let lines = [line(0, 2, 2, 1)];
    let preempting = |now| MeasuredCycle { preempted: 1, ..cycle(now, &lines, &[2]) };
    ledger.enter(&MeasuredCycle { had_news: true, ..preempting(0) });
    ledger.enter(&preempting(110_000));
    assert_eq!(ledger.report(&Totals::default()).settled_preempting_cycles, 0);
    ledger.enter(&preempting(120_000));
    ledger.enter(&MeasuredCycle { is_paid: true, ..preempting(125_000) });
    ledger.enter(&MeasuredCycle { had_news: true, ..preempting(130_000) });
    let report = ledger.report(&Totals::default());
    assert_eq!((report.settled_preempting_cycles, report.preempted), (1, 5));
    assert_eq!(report.settled_paid_cycles, 1);
}

#[test]
fn holes_take_one_large_process_and_then_small_ones() {
    let lines = [line(0, 3, 2, 0), line(1, 2, 2, 0)];
    // 2: small. 3: large. 5: large, small.
    assert_eq!(idle_usable(&lines, &[5, 3, 2, 1, 0]), 2 + 3 + 5);
    assert_eq!(idle_usable(&lines, &[1, 1, 1]), 0);
}

#[test]
fn spreads_are_by_rank() {
    let spread = spread(vec![4.0, 1.0, 3.0, 2.0]);
    assert_eq!(spread, JobSpread { mean: 2.5, median: 2.5, p95: 4.0, max: 4.0 });
}
