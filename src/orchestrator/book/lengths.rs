//! Times of tasks as a histogram, for their median.

use std::collections::BTreeMap;

/// Binary digits that a time keeps after its first: values are exact to a sixteenth.
const DIGITS: u32 = 4;

/// Times of tasks, in milliseconds. The space that it takes does not grow with their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    count: u64,
    /// Number of times by their smallest value with the same digits.
    by_value: BTreeMap<u64, u64>,
}

impl Lengths {
    /// Adds a time.
    pub fn add(&mut self, ms: u64) {
        let dropped = ms.checked_ilog2().unwrap_or(0).saturating_sub(DIGITS);
        *self.by_value.entry(ms >> dropped << dropped).or_default() += 1;
        self.count += 1;
    }

    /// Returns the number of times.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the median in milliseconds, rounded down to a sixteenth of its size; 0 without a time.
    pub fn median(&self) -> u64 {
        self.without(&Lengths::default()).1
    }

    /// Returns the shortest of the times that are not among `some` of them, rounded down to a sixteenth.
    pub fn least_without(&self, some: &Lengths) -> Option<u64> {
        let left = |(value, count): &(&u64, &u64)| {
            some.by_value.get(value).copied().unwrap_or(0) < **count
        };
        self.by_value.iter().find(left).map(|(value, _)| *value)
    }

    /// Returns number and median of the times that are not among `some` of them.
    pub fn without(&self, some: &Lengths) -> (u64, u64) {
        let number = self.count.saturating_sub(some.count);
        let half = number.div_ceil(2);
        let mut passed = 0;
        for (value, count) in &self.by_value {
            passed += count.saturating_sub(some.by_value.get(value).copied().unwrap_or(0));
            if 0 < half && half <= passed {
                return (number, *value);
            }
        }
        (number, 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_median_is_right_to_a_sixteenth(mut times in prop::collection::vec(0..u64::MAX >> 1, 1..200)) {
            let mut lengths = Lengths::default();
            for time in &times {
                lengths.add(*time);
            }
            times.sort_unstable();
            let exact = times[(times.len() - 1) >> 1];
            let told = lengths.median();
            prop_assert!(told <= exact && exact - told <= exact >> 4, "{told} {exact}");
            prop_assert_eq!(lengths.count(), u64::try_from(times.len()).unwrap());
        }
    }

    #[test]
    fn times_of_others_have_a_median_of_their_own() {
        let of = |times: &[u64]| {
            let mut lengths = Lengths::default();
            for time in times {
                lengths.add(*time);
            }
            lengths
        };
        let (all, some) = (of(&[1, 1, 1, 1, 8, 9, 10]), of(&[1, 1, 1, 1]));
        assert_eq!((all.median(), all.without(&some)), (1, (3, 9)));
        assert_eq!((all.least_without(&some), some.least_without(&some)), (Some(8), None));
        assert_eq!(some.without(&some), (0, 0));
    }

    #[test]
    fn no_time_has_no_median() {
        assert_eq!(Lengths::default().median(), 0);
    }
}
