//! A tap that opens while tasks drain, and closes while a task waits.

use super::{PairReading, Predictor, PredictorState, Strictness};

/// The first opening, in tasks for a pass.
const FIRST: u64 = 3;
/// The widest opening.
const WIDEST: u64 = 100;
/// Time that a closed tap keeps its opening, in milliseconds.
const GRACE_MS: u64 = 60_000;

/// The tap.
#[derive(Debug)]
pub(super) struct Tap;

impl Predictor for Tap {
    fn name(&self) -> &'static str {
        "tap"
    }

    fn next(
        &self,
        old: Option<&PredictorState>,
        reading: &PairReading,
        _strictness: Strictness,
    ) -> PredictorState {
        let old = old.filter(|old| 0 < old.tap);
        let is_drained = reading.own_waiting == 0;
        let (tap, closed_ms) = match (old, is_drained) {
            (None, _) => (FIRST, None),
            (Some(old), true) if old.closed_ms.is_some() => (old.tap, None),
            (Some(old), true) => (wider(old.tap), None),
            (Some(old), false) => {
                let closed = old.closed_ms.unwrap_or(reading.now_ms);
                let is_stuck = GRACE_MS < reading.now_ms.saturating_sub(closed);
                (if is_stuck { narrower(old.tap) } else { old.tap }, Some(closed))
            }
        };
        PredictorState { tap, closed_ms, ..PredictorState::default() }
    }

    fn wanted(&self, state: &PredictorState, _reading: &PairReading) -> u64 {
        if state.closed_ms.is_some() { 0 } else { state.tap }
    }
}

/// Half as much again, rounded down, but at least a task more.
fn wider(tap: u64) -> u64 {
    let half = tap.checked_div(2).unwrap_or(0);
    tap.saturating_add(half.max(1)).min(WIDEST)
}

/// Two thirds, rounded down, but at least a task.
fn narrower(tap: u64) -> u64 {
    tap.saturating_mul(2).checked_div(3).unwrap_or(0).max(1)
}
