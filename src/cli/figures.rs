//! Figures in text: times and ratios.

use std::num::NonZeroU64;

use crate::model::floor_div;

/// Microseconds as milliseconds: "1.2 ms".
pub(super) fn millis(micros: u64) -> String {
    let tenths = micros.saturating_add(50).div_euclid(100);
    format!("{}.{} ms", tenths.div_euclid(10), tenths.rem_euclid(10))
}

/// Returns `part` of `whole` in whole percent; 0 if `whole` is 0.
pub(super) fn percent(part: u64, whole: u64) -> u64 {
    NonZeroU64::new(whole).map_or(0, |whole| floor_div(part.saturating_mul(100), whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_rounded_as_people_expect() {
        assert_eq!(
            [millis(0), millis(49), millis(1_250), millis(61_000)],
            ["0.0 ms", "0.0 ms", "1.3 ms", "61.0 ms"]
        );
        assert_eq!([percent(1, 3), percent(0, 0), percent(7, 7)], [33, 0, 100]);
    }
}
