//! The least work that room on one machine costs, whoever's shares go: a bound, known before a plan is made.

use crate::model::{Millis, QShares};

/// What is missing is looked at closely up to so much.
const CLOSELY: usize = 64;
/// Less than so much is missing mostly.
const LITTLE: usize = 8;

/// A share that might go, as far as is known before it is tried.
pub(super) struct Candidate {
    /// Who gives it, at the level at which it is decided how much may go: a class, or one of its users.
    pub side: usize,
    /// How much that may give at most.
    pub most: u64,
    /// And it gives no more once it has given so much.
    pub until: u64,
    pub order: QShares,
    /// The work lost with it.
    pub loss: Millis,
}

/// The least work that is lost if `missing` is freed by some of `shares`; `None` if they do not come to
/// it. Of what is missing no more is looked at than can be closely.
pub(super) fn least_loss(
    shares: impl Iterator<Item = Candidate>,
    missing: QShares,
) -> Option<Millis> {
    let is_open = |share: &Candidate| QShares(0) < share.order && share.order.0 <= share.most;
    let mut shares: Vec<Candidate> = shares.filter(is_open).collect();
    let amount = |shares: &[Candidate]| shares.iter().map(|share| share.order).sum::<QShares>();
    if amount(&shares) < missing {
        return None;
    }
    let closely = usize::try_from(missing.0).map_or(CLOSELY, |missing| missing.min(CLOSELY));
    let is_enough = |share: &&Candidate| closely <= qshares(share.order.0) && 0 < share.until;
    let alone = shares.iter().filter(is_enough).map(|share| share.loss).min();
    if let Some(alone) = alone {
        // Nothing that is as dear as that goes together with others.
        shares.retain(|share| share.loss < alone);
        if amount(&shares) < missing {
            return Some(alone);
        }
    }
    // What ends the giving of a side may be large: it goes last.
    shares.sort_unstable_by_key(|share| (share.side, share.order));
    // Mostly it is little.
    if closely < LITTLE {
        least_together::<LITTLE>(&shares, closely, alone)
    } else {
        least_together::<{ CLOSELY + 1 }>(&shares, closely, alone)
    }
}

/// The same, of less than `END` that is missing, and of shares in the order of their sides, in each the
/// smallest first; `alone` is what one that would do loses.
fn least_together<const END: usize>(
    shares: &[Candidate],
    missing: usize,
    alone: Option<Millis>,
) -> Option<Millis> {
    let mut least = Losses::<END>::of_nothing();
    if let Some(alone) = alone {
        least.note(missing, alone);
    }
    for of_side in shares.chunk_by(|one, other| one.side == other.side) {
        let by_side = losses_of_side::<END>(of_side, missing);
        for before in least.known_below(missing) {
            // What loses as much already as is known to suffice comes to nothing better.
            let is_better = |loss: &Millis| least.of(missing).is_none_or(|least| *loss < least);
            if !is_better(&least.losses[before]) {
                continue;
            }
            for more in by_side.known_below(missing + 1).filter(|more| 0 < *more) {
                let loss = least.losses[before].saturating_add(by_side.losses[more]);
                least.note((before + more).min(missing), loss);
            }
        }
    }
    least.of(missing)
}

/// What the shares of one side may come to, the smallest first; from `missing` on all are the same.
fn losses_of_side<const END: usize>(shares: &[Candidate], missing: usize) -> Losses<END> {
    let mut losses = Losses::of_nothing();
    for share in shares {
        let [order, most, until] = [share.order.0, share.most, share.until].map(qshares);
        // None of those that it is added to has it already.
        for before in losses.known_below(until.min(missing)) {
            if before.saturating_add(order) <= most {
                let loss = losses.losses[before].saturating_add(share.loss);
                losses.note((before + order).min(missing), loss);
            }
        }
    }
    losses
}

/// So many qshares, or more than are ever looked at closely.
fn qshares(amount: u64) -> usize {
    usize::try_from(amount).unwrap_or(usize::MAX)
}

/// The least work that is lost by how much is freed, which is less than `END`.
struct Losses<const END: usize> {
    /// The amounts that are known, a bit each.
    known: u128,
    losses: [Millis; END],
}

impl<const END: usize> Losses<END> {
    /// Nothing is freed, and nothing lost.
    fn of_nothing() -> Losses<END> {
        Losses { known: 1, losses: [0; END] }
    }

    /// What is lost if so much is freed, if that is known.
    fn of(&self, freed: usize) -> Option<Millis> {
        (self.known >> freed & 1 == 1).then(|| self.losses[freed])
    }

    /// Notes that no more than `loss` need be lost if so much is freed.
    fn note(&mut self, freed: usize, loss: Millis) {
        self.losses[freed] = self.of(freed).map_or(loss, |known| known.min(loss));
        self.known |= 1 << freed;
    }

    /// The amounts below `end` that are known by now, the largest first.
    fn known_below(&self, end: usize) -> impl Iterator<Item = usize> + use<END> {
        let mut left = self.known & ((1 << end) - 1);
        std::iter::from_fn(move || {
            let largest = left.checked_ilog2()?;
            left ^= 1 << largest;
            usize::try_from(largest).ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Of all sets of shares, each side's taken the smallest first, the least that frees enough.
    fn least_of_all_sets(shares: &[Candidate], missing: u64) -> Option<Millis> {
        let sets = 0..1_u32 << shares.len();
        let losses = sets.filter_map(|set| {
            let taken = shares.iter().enumerate().filter(|(place, _)| set >> place & 1 == 1);
            let mut taken: Vec<&Candidate> = taken.map(|(_, share)| share).collect();
            taken.sort_by_key(|share| share.order);
            let mut given = [0; 3];
            for share in &taken {
                let given = &mut given[share.side];
                let may_go = *given < share.until && *given + share.order.0 <= share.most;
                may_go.then(|| *given += share.order.0)?;
            }
            let loss = taken.iter().map(|share| share.loss).sum();
            (missing <= given.iter().sum()).then_some(loss)
        });
        losses.min()
    }

    /// Some shares of three sides, and what is missing: all a multiple of `unit`.
    fn scene(random: &mut ChaCha8Rng, unit: u64) -> (Vec<Candidate>, u64) {
        let mut draw = |least: u64, most: u64| random.random_range(least..=most);
        let (count, missing) = (draw(0, 7), draw(0, 9));
        let sides = [(); 3].map(|()| (unit * draw(0, 8), unit * draw(0, 8)));
        let share = |_| {
            let side = usize::try_from(draw(0, 2)).unwrap();
            let (most, until) = sides[side];
            let (order, loss) = (QShares(unit * draw(1, 4)), draw(0, 20));
            Candidate { side, most, until, order, loss }
        };
        let shares = (0..count).map(share).collect();
        (shares, unit * missing)
    }

    #[test]
    fn the_least_loss_is_that_of_the_best_of_all_sets() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut found = 0;
        for _ in 0..3_000 {
            let (shares, missing) = scene(&mut random, 1);
            let expected = least_of_all_sets(&shares, missing);
            found += usize::from(expected.is_some());
            assert_eq!(least_loss(shares.into_iter(), QShares(missing)), expected);
        }
        assert!((500..2_900).contains(&found), "{found} of 3000 can be had");
    }

    /// Where more is missing than is looked at closely, less may be said than is lost, and never more.
    #[test]
    fn a_large_machine_is_never_thought_dearer_than_it_is() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        let mut found = 0;
        for _ in 0..3_000 {
            let (shares, missing) = scene(&mut random, 12);
            let expected = least_of_all_sets(&shares, missing);
            let is_close = usize::try_from(missing).unwrap() <= CLOSELY;
            let least = least_loss(shares.into_iter(), QShares(missing));
            if is_close {
                assert_eq!(least, expected);
            } else if let Some(expected) = expected {
                found += 1;
                assert!(least.is_some_and(|least| least <= expected), "{least:?}, {expected}");
            }
        }
        assert!(200 < found, "{found} of 3000 are large and can be had");
    }
}
