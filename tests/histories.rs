//! Random histories of random clusters: whatever is configured and whatever happens, every cycle
//! is sound and repeatable, no share number is used twice, and with constant input it settles.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

mod support;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use support::history::{History, step};
use support::world::world;

/// The same 250 histories every time, so that a failure is a change of ours; or other ones, as many
/// as `PROPTEST_CASES` asks for.
fn config() -> ProptestConfig {
    let default = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        return default;
    }
    ProptestConfig { cases: 250, rng_seed: RngSeed::Fixed(42), ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_cycle_is_sound_and_repeatable(
        world in world(),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut history = History::new(world);
        for step in &steps {
            history.apply(step);
        }
        history.cycle();
    }

    /// I17: with constant input, at most 20 cycles and then no preemption any more.
    #[test]
    fn with_constant_input_it_settles(
        world in world(),
        steps in prop::collection::vec(step(), 1..50),
    ) {
        let mut history = History::new(world);
        for step in &steps {
            history.apply(step);
        }
        history.calm_down();
        for _ in 0..20 {
            history.cycle();
        }
        for _ in 0..10 {
            history.cycle();
            prop_assert_eq!(history.cluster.preempted(), 0, "{}", history.cluster.picture());
        }
    }
}
