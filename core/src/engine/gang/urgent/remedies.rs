//! Work that may go for an urgent job, by kind: the cheapest kind first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::engine::draft::Draft;
use crate::engine::preempt::EvictionRank;
use crate::engine::share_table::ShareIx;
use crate::engine::sizes::{legal_at_least, legal_at_most, sizes_of};
use crate::model::{JobIx, Millis, NShares, NodeIx, count};

/// Ways to find space, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Space that is free, or becomes free.
    Free,
    /// Space that is promised to work that has not begun.
    Promised,
    /// Processes of malleable jobs beyond their minimum.
    Surplus,
    /// Single processes of fair-share work.
    Shares,
    /// Whole gangs of fair-share work.
    Gangs,
    /// Whole malleable jobs.
    Whole,
}

impl Remedy {
    /// Every remedy, the cheapest first.
    pub(super) const ALL: [Remedy; 6] = [
        Remedy::Free,
        Remedy::Promised,
        Remedy::Surplus,
        Remedy::Shares,
        Remedy::Gangs,
        Remedy::Whole,
    ];
}

/// A malleable job with shares on useful nodes.
#[derive(Clone, Debug)]
pub(super) struct ElasticJob {
    /// Place of the job in the snapshot.
    pub job: JobIx,
    /// Number of processes of the job.
    pub held: u64,
    /// Processes beyond its minimum.
    pub surplus: u64,
    /// Work lost with all processes of the job.
    pub loss: Millis,
    /// Shares on useful nodes, the cheapest first.
    pub shares: Vec<ShareIx>,
}

impl ElasticJob {
    /// The largest size of at most `most` processes at which the job can work; `most` for a job
    /// that goes as a whole.
    pub(super) fn legal_at_most(&self, draft: &Draft<'_>, most: u64) -> u64 {
        let shape = sizes_of(draft.job(self.job));
        shape.map_or(most, |shape| legal_at_most(shape, NShares(most)).0)
    }
}

/// Work that may go.
#[derive(Debug, Default)]
pub(super) struct Remedies {
    /// Malleable jobs, the job with the largest surplus first.
    pub elastic: Vec<ElasticJob>,
    /// Other single shares, the cheapest first.
    shares: Vec<ShareIx>,
    /// All shares of gangs, the cheapest gang first.
    gangs: Vec<Vec<ShareIx>>,
}

impl Remedies {
    /// Work that can be preempted on nodes for which `is_useful` is true.
    pub(super) fn new(draft: &Draft<'_>, is_useful: impl Fn(NodeIx) -> bool) -> Remedies {
        let mut remedies = Remedies::default();
        let mut gangs: Vec<(Millis, JobIx)> = Vec::new();
        for job in draft.jobs.places() {
            if !draft.class_of(job).policy.is_preemptable() {
                continue;
            }
            let held = draft.shares.held_by(job);
            let useful = held.filter(|(_, share)| is_useful(share.node()));
            let mut useful: Vec<ShareIx> = useful.map(|(share, _)| share).collect();
            if useful.is_empty() {
                continue;
            }
            if draft.jobs[job].is_gang {
                gangs.push((loss_of(draft, job), job));
            } else if let Some(shape) = sizes_of(draft.job(job)) {
                let NShares(held) = draft.jobs[job].held;
                let has_minimum = 0 < shape.min_processes;
                let least = legal_at_least(shape, NShares(1)).filter(|_| has_minimum);
                useful.sort_by_key(|share| price(draft, *share));
                let surplus = held.saturating_sub(least.unwrap_or_default().0);
                let loss = loss_of(draft, job);
                let elastic = ElasticJob { job, held, surplus, loss, shares: useful };
                remedies.elastic.push(elastic);
            } else {
                remedies.shares.append(&mut useful);
            }
        }
        remedies.elastic.sort_by_key(|it| (Reverse(it.surplus), it.loss, it.job));
        remedies.shares.sort_by_key(|share| price(draft, *share));
        gangs.sort_unstable();
        let whole =
            |(_, job): (Millis, JobIx)| draft.shares.held_by(job).map(|(it, _)| it).collect();
        remedies.gangs = gangs.into_iter().map(whole).collect();
        remedies
    }

    /// Shares of a kind. Of malleable jobs all shares are named; the search keeps their minimum.
    pub(super) fn of(&self, remedy: Remedy) -> Vec<ShareIx> {
        match remedy {
            Remedy::Free | Remedy::Promised | Remedy::Whole => Vec::new(),
            Remedy::Surplus => self.elastic.iter().flat_map(|it| &it.shares).copied().collect(),
            Remedy::Shares => self.shares.clone(),
            Remedy::Gangs => self.gangs.iter().flatten().copied().collect(),
        }
    }

    /// Taken gangs and single shares, the dearest first.
    pub(super) fn whole_units_first(&self, taken: &BTreeSet<ShareIx>) -> Vec<Vec<ShareIx>> {
        let is_taken = |unit: &Vec<ShareIx>| unit.iter().all(|share| taken.contains(share));
        let gangs = self.gangs.iter().rev().filter(|unit| is_taken(unit)).cloned();
        let shares = self.shares.iter().rev().filter(|share| taken.contains(share));
        gangs.chain(shares.map(|share| vec![*share])).collect()
    }

    /// All that is taken and may be spared by itself, the dearest first. Malleable jobs come last,
    /// the job with the smallest surplus left first.
    pub(super) fn dearest_first(
        &self,
        draft: &Draft<'_>,
        taken: &BTreeSet<ShareIx>,
    ) -> Vec<Vec<ShareIx>> {
        let mut units = self.whole_units_first(taken);
        let mut own: BTreeMap<usize, Vec<ShareIx>> = BTreeMap::new();
        // Next to be spared: the surplus that is left, the surplus in all, and the place of the job.
        let mut next: BTreeSet<(u64, u64, usize)> = BTreeSet::new();
        for (place, elastic) in self.elastic.iter().enumerate().rev() {
            let is_taken = |share: &ShareIx| taken.contains(share);
            let all = draft.shares.held_by(elastic.job).all(|(share, _)| is_taken(&share));
            let shares = elastic.shares.iter().copied().filter(is_taken);
            let shares: Vec<ShareIx> = shares.collect();
            let left = elastic.surplus.checked_sub(count(&shares));
            // A job that goes as a whole stays gone.
            let Some(left) = left.filter(|_| !all || elastic.surplus == elastic.held) else {
                continue;
            };
            if !shares.is_empty() {
                next.insert((left, elastic.surplus, place));
                own.insert(place, shares);
            }
        }
        while let Some((left, surplus, place)) = next.pop_first() {
            let Some(shares) = own.get_mut(&place) else { continue };
            units.extend(shares.pop().map(|share| vec![share]));
            if !shares.is_empty() {
                next.insert((left + 1, surplus, place));
            }
        }
        units
    }
}

/// Work lost with all processes of a job.
fn loss_of(draft: &Draft<'_>, job: JobIx) -> Millis {
    draft.shares.held_by(job).map(|(_, share)| share.loss).fold(0, Millis::saturating_add)
}

/// Price of a share: the work lost, then the usual order of eviction.
fn price(draft: &Draft<'_>, share: ShareIx) -> (Millis, EvictionRank) {
    let packed = draft.shares.at(share);
    (packed.loss, EvictionRank::of(draft, packed))
}
