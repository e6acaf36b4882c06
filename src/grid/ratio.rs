//! Ratios as integers in millionths.

/// The number 1, in millionths.
pub const ONE: u64 = 1_000_000;

/// The part of `amount` that `ratio` says, rounded down. Stops at the largest number.
pub fn part_of(amount: u64, ratio: u64) -> u64 {
    let product = u128::from(amount) * u128::from(ratio);
    let whole = product.checked_div(u128::from(ONE)).unwrap_or(0);
    u64::try_from(whole).unwrap_or(u64::MAX)
}

/// `part` for each of `whole`, in millionths, rounded down. `None`: `whole` is 0.
pub fn quotient(part: u64, whole: u64) -> Option<u64> {
    let ratio = (u128::from(part) * u128::from(ONE)).checked_div(u128::from(whole))?;
    Some(u64::try_from(ratio).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_round_down_and_never_overflow() {
        assert_eq!(part_of(50, 700_000), 35);
        assert_eq!(part_of(3, 333_333), 0);
        assert_eq!(part_of(u64::MAX, 2 * ONE), u64::MAX);
        assert_eq!(quotient(70, 100), Some(700_000));
        assert_eq!(quotient(1, 0), None);
        assert_eq!(quotient(u64::MAX, 1), Some(u64::MAX));
    }
}
