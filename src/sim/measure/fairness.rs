//! Shortfall of users from their fair shares. MODEL section 9, "fairness error".

use std::collections::BTreeMap;

use super::{
    FluidShares, JobClaim, MeasuredJob, Need, Slots, TOLERANCE, fluid_shares, percent, real,
};

/// Shortfalls under a single notion of a job's need.
#[derive(Debug)]
pub(super) struct Fairness {
    want: fn(&Need) -> u64,
    slots: Slots,
    /// The last cycle's claims. Most cycles repeat them, and then the fair shares stand.
    claims: Vec<JobClaim>,
    pub fluid: FluidShares,
    parties: BTreeMap<usize, MeasuredParty>,
    contended_cycles: u64,
    /// Qshares times cycles, over contended cycles.
    pub shortfall: f64,
    /// Sum of the shortfalls of a process or more.
    pub whole_shortfall: f64,
}

/// A user in a class, in a single cycle; amounts in qshares.
#[derive(Clone, Copy, Debug, Default)]
struct MeasuredParty {
    fair_share: f64,
    want: u64,
    held: u64,
    /// The smallest order among its jobs that hold less than they want.
    smallest_unmet: Option<u64>,
}

impl Fairness {
    pub fn new(want: fn(&Need) -> u64, slots: Slots) -> Fairness {
        Fairness {
            want,
            slots,
            claims: Vec::new(),
            fluid: FluidShares::default(),
            parties: BTreeMap::new(),
            contended_cycles: 0,
            shortfall: 0.0,
            whole_shortfall: 0.0,
        }
    }

    /// Adds the shortfalls of a single cycle.
    pub fn enter(&mut self, lines: &[MeasuredJob]) {
        let claims: Vec<JobClaim> = lines.iter().map(|line| self.claim(line)).collect();
        if claims != self.claims {
            self.fluid = fluid_shares(&claims, &self.slots);
            self.claims = claims;
        }
        self.parties = self.gather(lines);
        if !self.fluid.is_contended {
            return;
        }
        self.contended_cycles += 1;
        for party in self.parties.values().filter(|party| party.held < party.want) {
            let shortfall = party.shortfall().max(0.0);
            self.shortfall += shortfall;
            if party.smallest_unmet.is_some_and(|order| real(order) <= shortfall + TOLERANCE) {
                self.whole_shortfall += shortfall;
            }
        }
    }

    /// Shortfall of a party in the last cycle, in qshares; negative if the party held more than its
    /// fair shares.
    pub fn shortfall(&self, party: usize) -> f64 {
        self.parties.get(&party).map_or(0.0, MeasuredParty::shortfall)
    }

    /// A sum of shortfalls in percent of the capacity in contended cycles.
    pub fn error_pct(&self, capacity: u64, shortfall: f64) -> f64 {
        percent(shortfall, real(capacity) * real(self.contended_cycles))
    }

    fn claim(&self, line: &MeasuredJob) -> JobClaim {
        let subject = line.subject;
        JobClaim {
            party: subject.party,
            class: subject.class,
            weight: subject.weight,
            order: subject.order,
            want: subject.order * (self.want)(&line.need),
        }
    }

    fn gather(&self, lines: &[MeasuredJob]) -> BTreeMap<usize, MeasuredParty> {
        let mut parties: BTreeMap<usize, MeasuredParty> = BTreeMap::new();
        for ((line, claim), fair_share) in lines.iter().zip(&self.claims).zip(&self.fluid.amounts) {
            let party = parties.entry(claim.party).or_default();
            party.fair_share += fair_share;
            party.want += claim.want;
            party.held += line.held_qshares();
            if line.held_qshares() < claim.want {
                party.smallest_unmet =
                    Some(party.smallest_unmet.map_or(claim.order, |order| order.min(claim.order)));
            }
        }
        parties
    }
}

impl MeasuredParty {
    fn shortfall(&self) -> f64 {
        self.fair_share - real(self.held)
    }
}
