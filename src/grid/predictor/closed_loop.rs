//! Predictors against a small resource manager: the loop that the formulae close.

use std::collections::VecDeque;

use super::*;
use crate::model::count;

const CAPACITY: u64 = 100;
const PASSES: u64 = 2000;
/// The other load: so many resources, in the second half of each hundred passes.
const OTHER: u64 = 40;
/// A bag without an end.
const BAG: u64 = u64::MAX;

/// Numbers by lot, without a library.
struct Lots(u64);

impl Lots {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

#[derive(Debug, Default)]
struct LoopOutcome {
    started: u128,
    withdrawn: u128,
    used: u64,
    available: u64,
    waited: u128,
}

impl LoopOutcome {
    fn utilisation(&self) -> u64 {
        quotient(self.used, self.available).unwrap()
    }

    /// Withdrawn tasks for each started task, in millionths.
    fn withdrawn_per_start(&self) -> u128 {
        (self.withdrawn * u128::from(ONE)).div_euclid(self.started)
    }
}

/// A cluster of 100 resources: tasks of `resources` for 5 to 15 passes, and a load that displaces
/// the newest tasks for half of the time.
fn play(name: &str, how: Strictness, resources: u64, flood: u64) -> LoopOutcome {
    let predictor = predictor(PREDICTORS, name).unwrap();
    let mut lots = Lots(11);
    // Ends of the running tasks, oldest start first.
    let mut running: VecDeque<u64> = VecDeque::new();
    let (mut waiting, mut state, mut finished) = (0_u64, None, false);
    let mut outcome = LoopOutcome::default();
    for pass in 0..PASSES {
        let before = running.len();
        running.retain(|end| pass < *end);
        finished |= running.len() < before;
        let other = if pass % 100 < 50 { 0 } else { OTHER };
        while CAPACITY - other < count(&running) * resources {
            running.pop_back();
        }
        let mut start = |running: &mut VecDeque<u64>, waiting: &mut u64| {
            let used = count(&*running) * resources;
            let most = (CAPACITY - other - used).div_euclid(resources);
            let begun = most.min(*waiting);
            running.extend((0..begun).map(|_| pass + 5 + lots.below(11)));
            *waiting -= begun;
            begun
        };
        let mut begun = start(&mut running, &mut waiting);
        let used = count(&running) * resources;
        let running_now = count(&running);
        let reading = PairReading {
            capacity: CAPACITY,
            free: CAPACITY - other - used,
            resources,
            running: running_now,
            waiting,
            own_waiting: waiting,
            own: running_now.saturating_add(waiting),
            flood,
            left: BAG,
            max: None,
            mean_resources: finished.then_some(resources * ONE),
            now_ms: pass * 10_000,
        };
        let mut next = predictor.next(state.as_ref(), &reading, how);
        let new = sent(predictor, &next, &reading, how);
        (next.free, next.sent) = (reading.free, new);
        state = Some(next);
        waiting = waiting.saturating_add(new);
        begun += start(&mut running, &mut waiting);
        let surplus = waiting.saturating_sub(reading.allowed());
        if predictor.withdraws() {
            waiting -= surplus;
            outcome.withdrawn += u128::from(surplus);
        }
        outcome.started += u128::from(begun);
        outcome.waited += u128::from(waiting);
        outcome.used += count(&running) * resources;
        outcome.available += CAPACITY - other;
    }
    outcome
}

#[test]
fn the_guarded_form_uses_the_cluster_and_floods_nothing() {
    for name in ["slow-start", "two-way", "adaptive-exponential", "simple"] {
        for resources in [1, 2, 8] {
            for flood in [0, 100_000, 500_000] {
                let outcome = play(name, Strictness::Guarded, resources, flood);
                let what = format!("{name} r={resources} flood={flood}: {outcome:?}");
                assert!(outcome.withdrawn_per_start() <= 20_000, "{what}");
                assert!(940_000 <= outcome.utilisation(), "{what}");
            }
        }
    }
}

#[test]
fn the_literal_form_floods_without_bounds() {
    for name in ["slow-start", "adaptive-exponential"] {
        for resources in [1, 2, 8] {
            let outcome = play(name, Strictness::Literal, resources, 100_000);
            let floods = 100_000 * u128::from(ONE) <= outcome.withdrawn_per_start();
            assert!(floods, "{name} r={resources}: {outcome:?}");
        }
    }
}

/// Bounds of the ratio alone are not enough: tasks of several resources flood, and `two-way`
/// starves.
#[test]
fn the_clamped_form_floods_or_starves() {
    for name in ["slow-start", "adaptive-exponential"] {
        let outcome = play(name, Strictness::Clamped, 8, 100_000);
        assert!(u128::from(ONE) <= outcome.withdrawn_per_start(), "{name}: {outcome:?}");
    }
    for resources in [1, 2, 8] {
        let outcome = play("two-way", Strictness::Clamped, resources, 100_000);
        assert!(outcome.utilisation() < 800_000, "r={resources}: {outcome:?}");
    }
}

#[test]
fn the_controller_holds_its_setpoint() {
    for (resources, expected) in [(1, 5..30), (2, 5..30), (8, 5..30)] {
        let outcome = play("pi", Strictness::Guarded, resources, 100_000);
        let waited = outcome.waited.div_euclid(u128::from(PASSES));
        assert!(expected.contains(&waited), "r={resources}: {outcome:?}");
        assert!(940_000 <= outcome.utilisation(), "r={resources}: {outcome:?}");
    }
}
