//! The three predictors of seed 004.

use super::super::ratio::{ONE, quotient};
use super::{PairReading, Predictor, PredictorState, Strictness, bounded};
use crate::grid::part_of;

/// Start slowly, double while nothing is in excess, fall to a single task for the cluster.
pub(super) const SLOW_START: Seed =
    Seed { name: "slow-start", increase: Increase::Double, decrease: Decrease::ToOne };
/// Adapt in both directions.
pub(super) const TWO_WAY: Seed =
    Seed { name: "two-way", increase: Increase::Adapt, decrease: Decrease::Adapt };
/// Adapt when falling, double when rising.
pub(super) const ADAPTIVE_EXPONENTIAL: Seed =
    Seed { name: "adaptive-exponential", increase: Increase::Double, decrease: Decrease::Adapt };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Increase {
    Double,
    Adapt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decrease {
    ToOne,
    Adapt,
}

/// A predictor that raises the job ratio while no more wait than allowed, and lowers it otherwise.
#[derive(Debug)]
pub(super) struct Seed {
    name: &'static str,
    increase: Increase,
    decrease: Decrease,
}

impl Predictor for Seed {
    fn name(&self) -> &'static str {
        self.name
    }

    fn next(
        &self,
        old: Option<&PredictorState>,
        reading: &PairReading,
        strictness: Strictness,
    ) -> PredictorState {
        let ratio = match old {
            None => ONE,
            Some(old) if reading.waiting <= reading.allowed() => {
                self.increased(old, reading, strictness)
            }
            Some(old) => self.decreased(old, reading, strictness),
        };
        let ratio = bounded(ratio, reading, strictness);
        PredictorState { ratio, ..PredictorState::default() }
    }
}

impl Seed {
    fn increased(&self, old: &PredictorState, reading: &PairReading, how: Strictness) -> u64 {
        let double = old.ratio.saturating_mul(2);
        if old.ratio == 0 {
            // The code of 2009 began again so. Without it the ratio would stay 0.
            return match self.increase {
                Increase::Double => quotient(1, reading.free).unwrap_or(ONE),
                Increase::Adapt => ONE,
            };
        }
        match self.increase {
            Increase::Double => double,
            Increase::Adapt => {
                let sent = submitted(old, how);
                // The formula counts all running tasks and starves a busy cluster. The guarded form
                // counts the running tasks of the last pass only.
                let running = match how {
                    Strictness::Guarded => {
                        reading.running.min(sent.saturating_sub(reading.waiting))
                    }
                    Strictness::Clamped | Strictness::Literal => reading.running,
                };
                quotient(sent, running).unwrap_or(double)
            }
        }
    }

    fn decreased(&self, old: &PredictorState, reading: &PairReading, how: Strictness) -> u64 {
        let sent = submitted(old, how);
        let is_literal = how == Strictness::Literal;
        let least = if is_literal { 0 } else { reading.least() };
        match self.decrease {
            Decrease::ToOne => least,
            Decrease::Adapt => {
                quotient(sent.saturating_sub(reading.excess()), sent).unwrap_or(least)
            }
        }
    }
}

/// The tasks of the last pass. The formulae compute them; the guarded form counts them, since the
/// fit may have sent fewer.
fn submitted(old: &PredictorState, how: Strictness) -> u64 {
    match how {
        Strictness::Guarded => old.sent,
        Strictness::Clamped | Strictness::Literal => part_of(old.free, old.ratio),
    }
}
