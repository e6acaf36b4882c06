//! Figures in text: short times.

/// Microseconds as milliseconds: "1.2 ms".
pub(super) fn millis(micros: u64) -> String {
    let tenths = micros.saturating_add(50).div_euclid(100);
    format!("{}.{} ms", tenths.div_euclid(10), tenths.rem_euclid(10))
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
    }
}
