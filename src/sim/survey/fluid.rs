//! Weighted max-min by fractions, so that no rounding decides.

/// So many quanta: `above / below`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    above: u128,
    below: u128,
}

impl Part {
    pub fn whole(quanta: u64) -> Part {
        Part { above: u128::from(quanta), below: 1 }
    }

    /// Whether it is at least so many quanta.
    pub fn covers(self, quanta: u64) -> bool {
        u128::from(quanta) * self.below <= self.above
    }
}

/// How much of `total` each of several has that weigh and want so much: the same for its weight, or all
/// it wants.
///
/// The numbers of a survey are small: with a hundred jobs their products are far from 128 bits.
pub(super) fn fill(total: Part, wants: &[(u64, u64)]) -> Vec<Part> {
    let mut parts = vec![Part::whole(0); wants.len()];
    let mut open: Vec<usize> = (0..wants.len()).collect();
    let mut left = total;
    loop {
        let weights: u128 = open.iter().map(|&at| u128::from(wants[at].0)).sum();
        // What each would have if the rest were shared among all that still want something.
        let has_enough = |&at: &usize| {
            let (weight, want) = (u128::from(wants[at].0), u128::from(wants[at].1));
            want * left.below * weights <= left.above * weight
        };
        let (full, hungry): (Vec<usize>, Vec<usize>) = open.iter().partition(|at| has_enough(at));
        if full.is_empty() {
            for at in hungry {
                let weight = u128::from(wants[at].0);
                parts[at] = Part { above: left.above * weight, below: left.below * weights };
            }
            return parts;
        }
        for at in full {
            parts[at] = Part::whole(wants[at].1);
            left.above -= u128::from(wants[at].1) * left.below;
        }
        open = hungry;
    }
}
