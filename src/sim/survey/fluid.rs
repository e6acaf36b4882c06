//! Weighted max-min by fractions, so that no rounding decides.

/// Amount of quanta, as a fraction: `above / below`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuantaPart {
    above: u128,
    below: u128,
}

impl QuantaPart {
    pub fn whole(quanta: u64) -> QuantaPart {
        QuantaPart { above: u128::from(quanta), below: 1 }
    }

    /// True if the part is at least `quanta`.
    pub fn covers(self, quanta: u64) -> bool {
        u128::from(quanta) * self.below <= self.above
    }
}

/// Divides `total` among parties, given as pairs of weight and want. A party gets all it wants, or
/// the same for its weight as each other party.
///
/// The numbers of a survey are small: with a hundred jobs their products are far from 128 bits.
pub(super) fn fill(total: QuantaPart, wants: &[(u64, u64)]) -> Vec<QuantaPart> {
    let mut parts = vec![QuantaPart::whole(0); wants.len()];
    let mut open: Vec<usize> = (0..wants.len()).collect();
    let mut left = total;
    loop {
        let weights: u128 = open.iter().map(|&at| u128::from(wants[at].0)).sum();
        // Compares the want with the party's part if the rest were shared among all open parties.
        let has_enough = |&at: &usize| {
            let (weight, want) = (u128::from(wants[at].0), u128::from(wants[at].1));
            want * left.below * weights <= left.above * weight
        };
        let (full, hungry): (Vec<usize>, Vec<usize>) = open.iter().partition(|at| has_enough(at));
        if full.is_empty() {
            for at in hungry {
                let weight = u128::from(wants[at].0);
                parts[at] = QuantaPart { above: left.above * weight, below: left.below * weights };
            }
            return parts;
        }
        for at in full {
            parts[at] = QuantaPart::whole(wants[at].1);
            left.above -= u128::from(wants[at].1) * left.below;
        }
        open = hungry;
    }
}
