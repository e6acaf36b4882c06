//! A controller that holds a number of waiting tasks: `u = Kp·e + Ki·Σe`.

use super::super::ratio::ONE;
use super::{PairReading, Predictor, PredictorState, Strictness};

/// Waiting tasks that the controller aims at.
const SETPOINT: i64 = 10;
/// Factor of the error, in millionths.
const PROPORTIONAL: i64 = 1_000_000;
/// Factor of the sum of the errors, in millionths.
const INTEGRAL: i64 = 5000;
/// Tasks of the first pass.
const FIRST: u64 = 3;

/// The controller. It withdraws no task, since its error is the number of waiting tasks.
#[derive(Debug)]
pub(super) struct Pi;

impl Predictor for Pi {
    fn name(&self) -> &'static str {
        "pi"
    }

    fn next(
        &self,
        old: Option<&PredictorState>,
        reading: &PairReading,
        _strictness: Strictness,
    ) -> PredictorState {
        let Some(old) = old else {
            return PredictorState { ratio: FIRST * ONE, ..PredictorState::default() };
        };
        let waiting = i64::try_from(reading.waiting).unwrap_or(i64::MAX);
        let error = SETPOINT.saturating_sub(waiting);
        let integral = old.integral.saturating_add(error);
        let output =
            error.saturating_mul(PROPORTIONAL).saturating_add(integral.saturating_mul(INTEGRAL));
        let most = i64::try_from(reading.left.saturating_mul(ONE)).unwrap_or(i64::MAX);
        let cut = output.clamp(0, most);
        // The sum stands still while the output is cut. It would take long to come back otherwise.
        let integral = if cut == output { integral } else { old.integral };
        let ratio = u64::try_from(cut).unwrap_or(0);
        PredictorState { ratio, integral, ..PredictorState::default() }
    }

    fn wanted(&self, state: &PredictorState, _reading: &PairReading) -> u64 {
        state.ratio.checked_div(ONE).unwrap_or(0)
    }

    fn fits(&self) -> bool {
        false
    }

    fn withdraws(&self) -> bool {
        false
    }
}
