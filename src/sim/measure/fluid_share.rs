//! Fair share of each job if capacity were fluid: hierarchical weighted max-min. MODEL section 8.

use std::collections::BTreeMap;

use super::{Slots, TOLERANCE, real};

/// The claim of a single job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobClaim {
    /// The job's user in the job's class. A user with jobs in two classes is two parties.
    pub party: usize,
    /// Index of the job's class.
    pub class: usize,
    /// The weight of its class.
    pub weight: u64,
    /// The order of its processes.
    pub order: u64,
    /// Qshares it could use.
    pub want: u64,
}

/// The outcome.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FluidShares {
    /// Qshares for each claim, in their order.
    pub amounts: Vec<f64>,
    /// True if some job got less than it wanted.
    pub is_contended: bool,
}

impl FluidShares {
    /// Sum of all fair shares.
    pub fn total(&self) -> f64 {
        self.amounts.iter().sum()
    }
}

/// Raises all claims together, each at its rate, until it is met or the machines that could hold
/// it are full.
pub fn fluid_shares(claims: &[JobClaim], slots: &Slots) -> FluidShares {
    let mut filling = Filling {
        claims,
        amounts: vec![0.0; claims.len()],
        is_active: claims.iter().map(|claim| claim.want > 0).collect(),
        is_contended: false,
    };
    while filling.is_active.contains(&true) {
        filling.step(slots);
    }
    FluidShares { amounts: filling.amounts, is_contended: filling.is_contended }
}

struct Filling<'a> {
    claims: &'a [JobClaim],
    amounts: Vec<f64>,
    is_active: Vec<bool>,
    is_contended: bool,
}

impl Filling<'_> {
    /// Raises every active claim up to the first event, and removes the claims that the event ends.
    /// Every step removes a claim or more.
    fn step(&mut self, slots: &Slots) {
        let rates = self.rates();
        let of_large = |claim: &JobClaim| if claim.order == Slots::LARGE { 1.0 } else { 0.0 };
        let per_process = |claim: &JobClaim| 1.0 / real(claim.order);
        let large_space = real(slots.large * Slots::LARGE) - self.sum(&self.amounts, of_large);
        let process_space = real(slots.small) - self.sum(&self.amounts, per_process);
        let until_large = time_to_fill(large_space, self.sum(&rates, of_large));
        let until_full = time_to_fill(process_space, self.sum(&rates, per_process));
        let until_met =
            self.active().map(|ix| (real(self.claims[ix].want) - self.amounts[ix]) / rates[ix]);
        let step = until_met.fold(until_large.min(until_full), f64::min);

        for ix in self.active().collect::<Vec<_>>() {
            let claim = &self.claims[ix];
            self.amounts[ix] += rates[ix] * step;
            if real(claim.want) <= self.amounts[ix] + TOLERANCE {
                self.amounts[ix] = real(claim.want);
                self.is_active[ix] = false;
            } else if until_full <= step + TOLERANCE
                || (claim.order == Slots::LARGE && until_large <= step + TOLERANCE)
            {
                self.is_active[ix] = false;
                self.is_contended = true;
            }
        }
    }

    /// The weight of the class, divided among its active users, divided among their active jobs.
    fn rates(&self) -> Vec<f64> {
        let mut jobs: BTreeMap<usize, u64> = BTreeMap::new();
        let mut users: BTreeMap<usize, u64> = BTreeMap::new();
        for ix in self.active() {
            let claim = &self.claims[ix];
            let jobs = jobs.entry(claim.party).or_default();
            if *jobs == 0 {
                *users.entry(claim.class).or_default() += 1;
            }
            *jobs += 1;
        }
        let rate = |(ix, claim): (usize, &JobClaim)| {
            if self.is_active[ix] {
                real(claim.weight) / real(users[&claim.class]) / real(jobs[&claim.party])
            } else {
                0.0
            }
        };
        self.claims.iter().enumerate().map(rate).collect()
    }

    fn active(&self) -> impl Iterator<Item = usize> {
        (0..self.claims.len()).filter(|&ix| self.is_active[ix])
    }

    fn sum(&self, amounts: &[f64], weight: impl Fn(&JobClaim) -> f64) -> f64 {
        self.claims.iter().zip(amounts).map(|(claim, amount)| weight(claim) * amount).sum()
    }
}

/// Time that a rate takes to fill a space; infinite if the rate is zero.
fn time_to_fill(space: f64, rate: f64) -> f64 {
    if rate > 0.0 { space.max(0.0) / rate } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six processes of order 2, or two of order 3.
    const SLOTS: Slots = Slots { small: 6, large: 2 };

    fn claim(party: usize, order: u64, want: u64) -> JobClaim {
        JobClaim { party, class: 0, weight: 100, order, want }
    }

    fn check(claims: &[JobClaim], amounts: &[f64], is_contended: bool) {
        let fluid = fluid_shares(claims, &SLOTS);
        let is_equal = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-6;
        assert!(fluid.amounts.iter().zip(amounts).all(is_equal), "{:?}", fluid.amounts);
        assert_eq!((fluid.amounts.len(), fluid.is_contended), (amounts.len(), is_contended));
    }

    #[test]
    fn who_wants_little_gets_it_and_the_rest_is_shared() {
        check(&[claim(0, 2, 2), claim(1, 2, 4)], &[2.0, 4.0], false);
        check(&[claim(0, 2, 2), claim(1, 2, 40), claim(2, 2, 40)], &[2.0, 5.0, 5.0], true);
    }

    #[test]
    fn users_are_equal_with_any_number_of_jobs() {
        check(&[claim(0, 2, 40), claim(1, 2, 40), claim(1, 2, 40)], &[6.0, 3.0, 3.0], true);
    }

    #[test]
    fn classes_share_by_weight() {
        let heavy = JobClaim { class: 1, weight: 200, ..claim(1, 2, 40) };
        check(&[claim(0, 2, 40), heavy], &[4.0, 8.0], true);
    }

    /// The large job is full at 6 qshares = 2 processes; the small job has the other 4 processes.
    #[test]
    fn large_processes_fit_on_few_nodes() {
        check(&[claim(0, 3, 60), claim(1, 2, 60)], &[6.0, 8.0], true);
    }

    #[test]
    fn a_claim_of_nothing_has_no_fair_share() {
        assert_eq!(fluid_shares(&[], &SLOTS), FluidShares::default());
        check(&[claim(0, 2, 0)], &[0.0], false);
    }
}
