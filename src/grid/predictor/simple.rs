//! Predictors without a feedback loop.

use super::super::ratio::{ONE, quotient};
use super::{PairReading, Predictor, PredictorState, Strictness, bounded};

/// Job ratio of `simple` before a task has finished.
const UNKNOWN: u64 = 500_000;

/// The job ratio is the inverse of the resources that finished tasks used on average.
///
/// In the guarded form, a single free resource gets a task before a task has finished: half of it would
/// be none, and a cluster of single resources would never be tried.
#[derive(Debug)]
pub(super) struct Simple;

impl Predictor for Simple {
    fn name(&self) -> &'static str {
        "simple"
    }

    fn next(
        &self,
        _old: Option<&PredictorState>,
        reading: &PairReading,
        strictness: Strictness,
    ) -> PredictorState {
        let inverse = |mean: u64| quotient(ONE, mean);
        let is_single = strictness == Strictness::Guarded && reading.free == 1;
        let unknown = if is_single { ONE } else { UNKNOWN };
        let ratio = reading.mean_resources.and_then(inverse).unwrap_or(unknown);
        let ratio = bounded(ratio, reading, strictness);
        PredictorState { ratio, ..PredictorState::default() }
    }
}

/// All tasks are offered, and the cluster takes the ones that it can run.
#[derive(Debug)]
pub(super) struct NoPrediction;

impl Predictor for NoPrediction {
    fn name(&self) -> &'static str {
        "none"
    }

    fn next(
        &self,
        _old: Option<&PredictorState>,
        _reading: &PairReading,
        _strictness: Strictness,
    ) -> PredictorState {
        PredictorState { ratio: ONE, ..PredictorState::default() }
    }

    fn wanted(&self, _state: &PredictorState, reading: &PairReading) -> u64 {
        reading.left
    }

    fn fits(&self) -> bool {
        false
    }

    fn withdraws(&self) -> bool {
        false
    }
}
