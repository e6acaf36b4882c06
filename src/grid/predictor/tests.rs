//! The check values of the predictors.

use super::*;
use Strictness::{Clamped, Guarded, Literal};

fn at(name: &str) -> &'static dyn Predictor {
    predictor(PREDICTORS, name).unwrap()
}

/// Readings of a cluster of 100 resources with a flood rate of a tenth.
fn reading(free: u64, running: u64, waiting: u64) -> PairReading {
    PairReading {
        capacity: 100,
        free,
        resources: 1,
        running,
        waiting,
        own_waiting: waiting,
        own: running + waiting,
        flood: 100_000,
        left: 1_000_000,
        ..PairReading::default()
    }
}

/// State after a pass with this ratio, free resources and as many tasks as the ratio says.
fn after(ratio: u64, free: u64) -> PredictorState {
    PredictorState { ratio, free, sent: part_of(free, ratio), ..PredictorState::default() }
}

#[test]
fn every_predictor_has_a_name_of_its_own() {
    let names: Vec<&str> = PREDICTORS.iter().map(|it| it.name()).collect();
    let expected = ["slow-start", "two-way", "adaptive-exponential", "simple", "pi", "tap", "none"];
    assert_eq!(names, expected);
    assert!(predictor(PREDICTORS, REMOTE_PREDICTOR).is_some());
    assert!(predictor(PREDICTORS, LOCAL_PREDICTOR).is_some());
    assert!(predictor(PREDICTORS, "oracle").is_none());
    for strictness in Strictness::ALL {
        assert_eq!(Strictness::from_word(strictness.word()), Some(strictness));
    }
}

#[test]
fn ratios_are_as_in_the_table_of_check_values() {
    let excess = (after(ONE, 100), reading(0, 60, 40));
    let drained = (after(700_000, 50), reading(50, 35, 0));
    let half = (after(ONE, 100), reading(50, 50, 0));
    let nothing = (after(ONE, 0), reading(0, 60, 40));
    let zero = (after(0, 100), reading(20, 60, 0));
    let all_free = (after(ONE, 100), reading(20, 0, 0));
    #[rustfmt::skip]
    let rows = [
        // 30 of 100 are in excess.
        ("two-way", &excess, [700_000, 700_000, 700_000]),
        ("adaptive-exponential", &excess, [700_000, 700_000, 700_000]),
        ("slow-start", &excess, [10_000, 10_000, 0]),
        // No task waits.
        ("two-way", &drained, [ONE, ONE, ONE]),
        ("adaptive-exponential", &drained, [ONE, ONE, 1_400_000]),
        ("slow-start", &drained, [ONE, ONE, 1_400_000]),
        ("two-way", &half, [ONE, ONE, 2 * ONE]),
        // No task was sent, and still too many wait.
        ("two-way", &nothing, [10_000, 10_000, 0]),
        ("adaptive-exponential", &nothing, [10_000, 10_000, 0]),
        // From 0, as in 2009.
        ("two-way", &zero, [ONE, ONE, ONE]),
        ("slow-start", &zero, [50_000, 50_000, 50_000]),
        // No task runs: twice the old ratio.
        ("two-way", &all_free, [ONE, ONE, 2 * ONE]),
    ];
    for (name, (old, reading), expected) in rows {
        let found = [Guarded, Clamped, Literal].map(|how| at(name).next(Some(old), reading, how));
        assert_eq!(found.map(|state| state.ratio), expected, "{name} {reading:?}");
    }
}

#[test]
fn a_negative_ratio_is_nothing() {
    let (old, reading) = (after(200_000, 50), reading(0, 60, 90));
    let found =
        [Guarded, Clamped, Literal].map(|how| at("two-way").next(Some(&old), &reading, how));
    assert_eq!(found.map(|state| state.ratio), [10_000, 10_000, 0]);
}

#[test]
fn without_history_the_first_values_hold() {
    let rows = [
        ("slow-start", ONE, 0),
        ("two-way", ONE, 0),
        ("adaptive-exponential", ONE, 0),
        ("simple", 500_000, 0),
        ("pi", 3 * ONE, 0),
        ("tap", 0, 3),
        ("none", ONE, 0),
    ];
    for (name, ratio, tap) in rows {
        let state = at(name).next(None, &reading(100, 0, 0), Guarded);
        assert_eq!((state.ratio, state.tap), (ratio, tap), "{name}");
    }
}

#[test]
fn the_fit_bounds_the_guarded_form_only() {
    let reading = PairReading { resources: 8, ..reading(30, 3, 4) };
    let state = after(ONE, 30);
    for (how, expected) in [(Guarded, 9), (Clamped, 30), (Literal, 30)] {
        assert_eq!(sent(at("slow-start"), &state, &reading, how), expected, "{how:?}");
    }
}

#[test]
fn no_more_is_sent_than_the_ratio_the_bag_and_the_limit_allow() {
    let base = reading(40, 10, 5);
    #[rustfmt::skip]
    let rows = [
        (ONE, base, 40),
        (500_000, base, 20),
        (333_333, base, 13),
        (ONE, PairReading { left: 7, ..base }, 7),
        (ONE, PairReading { max: Some(25), ..base }, 10),
        (ONE, PairReading { max: Some(15), ..base }, 0),
        (ONE, PairReading { free: 0, ..base }, 0),
    ];
    for (ratio, reading, expected) in rows {
        let found = sent(at("slow-start"), &after(ratio, 40), &reading, Guarded);
        assert_eq!(found, expected, "{ratio} {reading:?}");
    }
    assert_eq!(sent(at("none"), &after(ONE, 0), &reading(0, 0, 0), Guarded), 1_000_000);
}

#[test]
fn simple_follows_the_resources_of_finished_tasks() {
    for (mean, expected) in [(8 * ONE, 125_000), (ONE, ONE), (1_500_000, 666_666), (500_000, ONE)] {
        let reading = PairReading { mean_resources: Some(mean), ..reading(50, 0, 0) };
        assert_eq!(at("simple").next(None, &reading, Clamped).ratio, expected, "{mean}");
    }
    // Before a task has finished, half of the free resources get a task, and a single resource does.
    for (free, expected) in [(0, 0), (1, 1), (2, 1), (3, 1), (50, 25)] {
        let reading = reading(free, 0, 0);
        let state = at("simple").next(None, &reading, Guarded);
        assert_eq!(sent(at("simple"), &state, &reading, Guarded), expected, "{free}");
    }
}

#[test]
fn the_controller_holds_its_sum_while_its_output_is_cut() {
    let pi = at("pi");
    let first = pi.next(None, &reading(100, 0, 0), Guarded);
    let second = pi.next(Some(&first), &reading(100, 0, 0), Guarded);
    // e = 10, I = 10: u = 10 + 0.05.
    assert_eq!((second.ratio, second.integral), (10_050_000, 10));
    assert_eq!(pi.wanted(&second, &reading(0, 0, 0)), 10);
    let flooded = pi.next(Some(&second), &reading(0, 0, 500), Guarded);
    assert_eq!((flooded.ratio, flooded.integral), (0, 10));
    let few = PairReading { left: 2, ..reading(100, 0, 0) };
    let cut = pi.next(Some(&second), &few, Guarded);
    assert_eq!((cut.ratio, cut.integral), (2 * ONE, 10));
}

#[test]
fn the_tap_opens_by_half_and_closes_while_a_task_waits() {
    let tap = at("tap");
    let reading = |waiting, now_ms| PairReading { now_ms, ..reading(1000, 0, waiting) };
    let mut state = tap.next(None, &reading(0, 0), Guarded);
    let mut trace = vec![state.tap];
    while state.tap < 100 {
        state = tap.next(Some(&state), &reading(0, 0), Guarded);
        trace.push(state.tap);
    }
    assert_eq!(trace, [3, 4, 6, 9, 13, 19, 28, 42, 63, 94, 100]);
    assert_eq!(tap.next(Some(&state), &reading(0, 0), Guarded).tap, 100);

    let mut trace = Vec::new();
    for (waiting, now) in [(1, 0), (1, 60_000), (1, 60_001), (9, 70_000), (0, 80_000), (0, 90_000)]
    {
        state = tap.next(Some(&state), &reading(waiting, now), Guarded);
        trace.push((state.tap, sent(tap, &state, &reading(0, now), Guarded)));
    }
    let expected = [(100, 0), (100, 0), (66, 0), (44, 0), (44, 44), (66, 66)];
    assert_eq!(trace, expected);
}
