//! Shares in fractions of a quantum, as if memory could be divided at will.
//!
//! Weighted max-min: all sharers have the same by weight, except sharers that want less; the rest
//! goes to the remaining sharers. A share is a fraction of two integers, so that no rounding
//! decides.

/// An amount of quanta: `above / below`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Amount {
    above: u128,
    below: u128,
}

/// An entity that shares an amount with its peers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharer {
    pub(super) weight: u64,
    /// Most that the entity could use, in quanta.
    pub(super) demand: u64,
}

impl Amount {
    /// Zero.
    pub(super) const NONE: Amount = Amount { above: 0, below: 1 };

    /// The amount of `quanta` whole quanta.
    pub(super) fn whole(quanta: u64) -> Amount {
        Amount { above: u128::from(quanta), below: 1 }
    }

    /// True if the amount is at least `quanta`, and `quanta` is not 0.
    pub(super) fn covers(self, quanta: u64) -> bool {
        let needed = u128::from(quanta).checked_mul(self.below);
        0 < quanta && needed.is_some_and(|needed| needed <= self.above)
    }

    /// `above / below`, in lowest terms, so that parts of parts still fit in their integers.
    fn reduced(above: u128, below: u128) -> Amount {
        let (mut divisor, mut rest) = (below, above);
        while rest != 0 {
            (divisor, rest) = (rest, divisor.rem_euclid(rest));
        }
        let divisor = divisor.max(1);
        Amount { above: above.div_euclid(divisor), below: below.div_euclid(divisor) }
    }
}

/// Divides `total` among `sharers`. If numbers are too large to be exact, all shares are 0. Then no
/// process is owed, and the audit finds nothing wrong.
pub(super) fn shares(total: Amount, sharers: &[Sharer]) -> Vec<Amount> {
    try_shares(total, sharers).unwrap_or_else(|| vec![Amount::NONE; sharers.len()])
}

fn try_shares(total: Amount, sharers: &[Sharer]) -> Option<Vec<Amount>> {
    let mut shares = vec![Amount::NONE; sharers.len()];
    let mut rising: Vec<usize> = (0..sharers.len()).collect();
    // Sharers that want least by weight are satisfied first.
    rising.sort_by(|&one, &other| {
        let scaled =
            |of: usize, by: usize| u128::from(sharers[of].demand) * u128::from(sharers[by].weight);
        scaled(one, other).cmp(&scaled(other, one)).then(one.cmp(&other))
    });
    let mut left = total;
    let mut weights: u128 = sharers.iter().map(|sharer| u128::from(sharer.weight)).sum();
    for at in rising {
        let Sharer { weight, demand } = sharers[at];
        let weight = u128::from(weight);
        let wanted = u128::from(demand).checked_mul(left.below)?;
        let part = left.above.checked_mul(weight)?;
        if wanted.checked_mul(weights)? <= part {
            shares[at] = Amount::whole(demand);
            left = Amount::reduced(left.above.checked_sub(wanted)?, left.below);
            weights -= weight;
        } else {
            shares[at] = Amount::reduced(part, left.below.checked_mul(weights)?);
        }
    }
    Some(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(total: u64, sharers: &[(u64, u64)]) -> Vec<(u128, u128)> {
        let sharers: Vec<Sharer> =
            sharers.iter().map(|&(weight, demand)| Sharer { weight, demand }).collect();
        let shares = shares(Amount::whole(total), &sharers);
        shares.into_iter().map(|share| (share.above, share.below)).collect()
    }

    #[test]
    fn all_have_the_same_for_their_weight_or_all_they_want() {
        assert_eq!(split(24, &[(100, 1000), (10, 1000)]), [(240, 11), (24, 11)]);
        assert_eq!(split(24, &[(1, 1000), (1, 2), (2, 1000)]), [(22, 3), (2, 1), (44, 3)]);
        assert_eq!(split(24, &[(1, 3), (5, 4)]), [(3, 1), (4, 1)]);
        assert_eq!(split(24, &[(1, 24), (1, 0)]), [(24, 1), (0, 1)]);
        assert_eq!(split(24, &[]), []);
    }

    #[test]
    fn a_share_covers_what_it_is_exactly() {
        let third = Amount::reduced(6, 18);
        assert_eq!(third, Amount { above: 1, below: 3 });
        assert!(Amount::whole(2).covers(2) && !Amount::whole(2).covers(3));
        assert!(!third.covers(1) && !third.covers(0));
        assert_eq!(shares(third, &[Sharer { weight: 1, demand: 9 }; 2])[0].below, 6);
    }

    #[test]
    fn numbers_that_are_too_large_give_empty_shares() {
        let all = u64::MAX;
        let huge = Amount { above: u128::MAX, below: 3 };
        let sharers = [Sharer { weight: all, demand: all }; 2];
        assert_eq!(shares(huge, &sharers), [Amount::NONE; 2]);
    }
}
