//! Search by halves.

use std::num::NonZeroU64;

use crate::model::floor_div;

const TWO: NonZeroU64 = NonZeroU64::new(2).expect("it is not 0");

/// Largest number up to `most` for which `is_possible` is true. It must be true for 0, and for all
/// numbers below a number for which it is true.
pub(super) fn largest(most: u64, mut is_possible: impl FnMut(u64) -> bool) -> u64 {
    if is_possible(most) {
        return most;
    }
    let (mut low, mut high) = (0, most);
    while 1 < high - low {
        let middle = low + floor_div(high - low, TWO);
        if is_possible(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_possible_number_is_found() {
        for most in 0..20 {
            for last in 0..25 {
                assert_eq!(largest(most, |number| number <= last), last.min(most), "{most} {last}");
            }
        }
    }
}
