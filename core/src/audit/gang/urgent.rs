//! Checks of urgent work: no work that stays goes for it, and nothing dear where something cheaper
//! would have sufficed.
//!
//! Urgent work is decided before all else in its cycle. So the rest of the cycle is judged as if its
//! victims had been leaving and its space had been promised when the cycle began ([`rest`]).
//!
//! Several urgent jobs of a cycle are judged each as the last of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::crew::GangLine;
use super::fit::{Fit, GangParts};
use super::sets::fit_in_sets;
use super::spaces::without;
use crate::audit::finding::{Finding, Rule};
use crate::audit::ledger::Ledger;
use crate::audit::shapes::{gang_shape, is_legal, sized_shape};
use crate::engine::{CycleSchedule, Promise, Share, Snapshot, VictimRule};
use crate::model::{Chunk, JobId, JobIx, Mebibytes, Shape, ShareId, SharePhase, Tags, count};

/// Most steps of the check. Beyond that the check stops without findings.
const STEPS: u64 = 6_000_000;

/// Most victims of a job for each of which the audit asks if it could have stayed.
const VICTIMS_MAX: usize = 50;

/// Most choices of processes beyond the minimum of malleable jobs.
const CHOICES_MAX: u32 = 5_000;

/// Price of a share that goes, by kind; the order of the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum UrgentPrice {
    /// A process of a malleable job beyond its minimum.
    Surplus,
    /// A single process.
    Single,
    /// A process of a gang.
    Gang,
    /// A process of a malleable job that goes as a whole.
    BelowMinimum,
}

/// A share that may go.
#[derive(Clone, Copy, Debug)]
struct UrgentPrey {
    share: ShareId,
    donor: JobIx,
}

/// Urgent jobs that get their space in this cycle, by place.
fn newly_served(ledger: &Ledger<'_>) -> BTreeSet<JobIx> {
    let had: BTreeSet<JobId> = ledger.snapshot.promises.iter().map(|it| it.job).collect();
    let new = ledger.schedule.expansions.iter().map(|new| new.job);
    let new = new.chain(ledger.schedule.promises.iter().map(|new| new.job));
    let places = new.filter_map(|job| ledger.place(job).filter(|_| !had.contains(&job)));
    places
        .filter(|&place| ledger.jobs[place].class.is_urgent && ledger.jobs[place].held == 0)
        .collect()
}

/// Snapshot and schedule of the cycle without its urgent decisions; `None` if it has none.
pub(in crate::audit) fn rest(ledger: &Ledger<'_>) -> Option<(Snapshot, CycleSchedule)> {
    let urgent = newly_served(ledger);
    let is_urgent = |rule: VictimRule| rule == VictimRule::Urgent;
    let receipts = ledger.schedule.preemptions.iter();
    let gone: BTreeSet<ShareId> =
        receipts.filter(|it| is_urgent(it.rule)).map(|receipt| receipt.share).collect();
    if urgent.is_empty() && gone.is_empty() {
        return None;
    }
    let mut snapshot = ledger.snapshot.clone();
    for job in Arc::make_mut(&mut snapshot.jobs) {
        if job.shares.iter().any(|share| gone.contains(&share.id)) {
            let leaves = Arc::make_mut(job).shares.iter_mut();
            leaves.filter(|it| gone.contains(&it.id)).for_each(|it| it.state = SharePhase::Leaving);
        }
    }
    let ids: BTreeSet<JobId> = urgent.iter().map(|&place| ledger.jobs[place].job.id).collect();
    let kept = ledger.schedule.promises.iter().filter(|promise| ids.contains(&promise.job));
    let begun = ledger.schedule.expansions.iter().filter(|new| ids.contains(&new.job));
    let begun =
        begun.map(|new| Promise { job: new.job, node: new.node, order: new.order, rank: new.rank });
    let mut promises: Vec<Promise> = begun.chain(kept.copied()).collect();
    // Promises that have no space beside the urgent work are dropped; of a gang, all of them.
    let mut space = space_left(&snapshot, &promises);
    let is_lasting = |promise: &Promise| {
        ledger.place(promise.job).is_some_and(|place| ledger.jobs[place].class.is_urgent)
    };
    let (lasting, others): (Vec<Promise>, Vec<Promise>) =
        ledger.snapshot.promises.iter().partition(|promise| is_lasting(promise));
    for promise in &lasting {
        space[promise.node.0] -= i128::from(promise.order.get());
    }
    let mut broken: BTreeSet<JobId> = BTreeSet::new();
    let mut fitting = Vec::new();
    for promise in others {
        let left = &mut space[promise.node.0];
        if i128::from(promise.order.get()) <= *left {
            *left -= i128::from(promise.order.get());
            fitting.push(promise);
        } else if promise.rank.is_some() {
            broken.insert(promise.job);
        }
    }
    fitting.retain(|promise| !broken.contains(&promise.job));
    promises.extend(lasting.into_iter().chain(fitting));
    snapshot.promises = promises;
    let mut schedule = ledger.schedule.clone();
    schedule.preemptions.retain(|receipt| !is_urgent(receipt.rule));
    Some((snapshot, schedule))
}

/// Space of each node once all that leaves is gone, without some promises.
fn space_left(snapshot: &Snapshot, promises: &[Promise]) -> Vec<i128> {
    let nodes = snapshot.nodes.iter();
    let mut space: Vec<i128> =
        nodes.map(|node| i128::from(node.order.0) - i128::from(node.limbo.0)).collect();
    for share in snapshot.jobs.iter().flat_map(|job| job.held()) {
        space[share.node.0] -= i128::from(share.order.get());
    }
    for promise in promises {
        space[promise.node.0] -= i128::from(promise.order.get());
    }
    space
}

/// Only work that can be preempted goes for urgent work: the cheapest that suffices.
pub(in crate::audit) fn check_taken(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let mut victims: BTreeMap<JobIx, Vec<UrgentPrey>> = BTreeMap::new();
    for victim in ledger.victims.iter().filter(|it| it.receipt.rule == VictimRule::Urgent) {
        let prey = UrgentPrey { share: victim.share.id, donor: victim.donor };
        if let Some(place) = victim.beneficiary {
            victims.entry(place).or_default().push(prey);
        } else {
            let detail = format!("share {} goes for no urgent job", prey.share);
            findings.push(Rule::UrgentTaken.finding(detail));
        }
    }
    let urgent = newly_served(ledger);
    let mut steps = STEPS;
    for (place, victims) in &victims {
        let question = UrgentCase::new(ledger, *place, &urgent, victims);
        for detail in question.answers(&mut steps) {
            findings.push(Rule::UrgentTaken.finding(detail));
        }
    }
}

/// An urgent job and what goes for it.
struct UrgentCase<'l, 'a> {
    ledger: &'l Ledger<'a>,
    place: JobIx,
    victims: &'l [UrgentPrey],
    gang: GangLine,
    /// Space of each node that is promised to other urgent work.
    promised: Vec<u64>,
    /// Shares that go for other urgent work.
    gone: BTreeSet<ShareId>,
}

impl<'l, 'a> UrgentCase<'l, 'a> {
    fn new(
        ledger: &'l Ledger<'a>,
        place: JobIx,
        urgent: &BTreeSet<JobIx>,
        victims: &'l [UrgentPrey],
    ) -> UrgentCase<'l, 'a> {
        let own: BTreeSet<ShareId> = victims.iter().map(|prey| prey.share).collect();
        let all = ledger.victims.iter().filter(|it| it.receipt.rule == VictimRule::Urgent);
        let gone = all.map(|it| it.share.id).filter(|share| !own.contains(share)).collect();
        let mut promised = vec![0_u64; ledger.nodes.len()];
        let is_other = |job: &JobId| {
            ledger.place(*job).is_some_and(|other| {
                other != place && (urgent.contains(&other) || ledger.jobs[other].class.is_urgent)
            })
        };
        let new = ledger.schedule.expansions.iter().map(|it| (it.job, it.node, it.order));
        let kept = ledger.schedule.promises.iter().map(|it| (it.job, it.node, it.order));
        for (_, node, order) in new.chain(kept).filter(|(job, ..)| is_other(job)) {
            promised[node.0] += order.qshares().0;
        }
        let gang = request(ledger, place);
        UrgentCase { ledger, place, victims, gang, promised, gone }
    }

    /// Faults of the choice of victims.
    fn answers(&self, steps: &mut u64) -> Vec<String> {
        let job = self.ledger.jobs[self.place].job.id;
        let mut wrong = Vec::new();
        for prey in self.victims.iter().filter(|it| !self.ledger.jobs[it.donor].is_fair_share()) {
            let donor = self.ledger.jobs[prey.donor].job.id;
            wrong.push(format!("job {job} took share {} of job {donor}, which stays", prey.share));
        }
        let donors: BTreeSet<JobIx> = self.victims.iter().map(|prey| prey.donor).collect();
        for &donor in donors.iter().filter(|&&donor| !self.leaves_it_working(donor)) {
            let donor = self.ledger.jobs[donor].job.id;
            wrong.push(format!("job {job} leaves job {donor} a size that it cannot work with"));
        }
        let dearest = self.victims.iter().map(|prey| self.price(prey.donor)).max();
        if let Some(dearest) = dearest.filter(|dearest| self.would_do_below(*dearest, steps)) {
            wrong.push(format!("job {job} took {dearest:?}, and cheaper work would have sufficed"));
        }
        if self.victims.len() <= VICTIMS_MAX {
            for unit in self.units() {
                let kept: BTreeSet<ShareId> = unit.iter().map(|prey| prey.share).collect();
                let rest = self.victims.iter().filter(|prey| !kept.contains(&prey.share));
                if self.fits(rest.copied(), steps) {
                    let donor = self.ledger.jobs[unit[0].donor].job.id;
                    wrong.push(format!("job {job} needs nothing of what job {donor} lost"));
                }
            }
        }
        wrong
    }

    /// Price of what the job at `donor` lost.
    fn price(&self, donor: JobIx) -> UrgentPrice {
        let line = &self.ledger.jobs[donor];
        match sized_shape(line.job) {
            Some(shape) if self.lost(donor) == line.held && 0 < shape.min_processes => {
                UrgentPrice::BelowMinimum
            }
            Some(_) => UrgentPrice::Surplus,
            None if gang_shape(line.job).is_some() => UrgentPrice::Gang,
            None => UrgentPrice::Single,
        }
    }

    fn lost(&self, donor: JobIx) -> u64 {
        count(self.victims.iter().filter(|prey| prey.donor == donor))
    }

    /// True if what the job at `donor` keeps is a legal number of processes; of a gang, all or none.
    fn leaves_it_working(&self, donor: JobIx) -> bool {
        let line = &self.ledger.jobs[donor];
        let left = line.held.saturating_sub(self.lost(donor));
        match sized_shape(line.job) {
            Some(shape) => left == 0 || is_legal(shape, left),
            None => gang_shape(line.job).is_none() || left == 0,
        }
    }

    /// Victims that could stay by themselves: single shares, whole gangs, and shares of a malleable
    /// job that may have a process more.
    fn units(&self) -> Vec<Vec<UrgentPrey>> {
        let mut units: Vec<Vec<UrgentPrey>> = Vec::new();
        let mut gangs: BTreeMap<JobIx, Vec<UrgentPrey>> = BTreeMap::new();
        for prey in self.victims {
            let line = &self.ledger.jobs[prey.donor];
            let left = line.held.saturating_sub(self.lost(prey.donor));
            match (self.price(prey.donor), sized_shape(line.job)) {
                (UrgentPrice::Gang, _) => gangs.entry(prey.donor).or_default().push(*prey),
                (UrgentPrice::Surplus, Some(shape)) if is_legal(shape, left + 1) => {
                    units.push(vec![*prey]);
                }
                (UrgentPrice::Single, _) => units.push(vec![*prey]),
                (UrgentPrice::Surplus | UrgentPrice::BelowMinimum, _) => {}
            }
        }
        units.extend(gangs.into_values());
        units
    }

    /// True if the job would have fitted with all that is cheaper than `price`.
    fn would_do_below(&self, price: UrgentPrice, steps: &mut u64) -> bool {
        let (mut sure, mut sized) = (Vec::new(), Vec::new());
        for (donor, line) in self.ledger.jobs.with_ix().filter(|(_, it)| it.is_fair_share()) {
            let held = line.job.held().filter(|share| !self.gone.contains(&share.id));
            let prey = held.map(|share| UrgentPrey { share: share.id, donor });
            let prey: Vec<UrgentPrey> = prey.collect();
            if let Some(shape) = sized_shape(line.job) {
                let least = (1..=line.held).find(|size| is_legal(shape, *size));
                let least = if shape.min_processes == 0 { 0 } else { least.unwrap_or(line.held) };
                if UrgentPrice::Surplus < price {
                    let surplus = count(&prey).saturating_sub(least);
                    sized.push((usize::try_from(surplus).unwrap_or(usize::MAX), prey));
                }
            } else if self.price_of_kind(donor) < price {
                sure.extend(prey);
            }
        }
        let all = sized.iter().flat_map(|(_, prey)| prey);
        if !self.fits(sure.iter().chain(all).copied(), steps) {
            return false;
        }
        let mut choices = CHOICES_MAX;
        self.has_choice(&mut sure, &sized, (0, 0), &mut choices, steps)
    }

    fn price_of_kind(&self, donor: JobIx) -> UrgentPrice {
        let is_gang = gang_shape(self.ledger.jobs[donor].job).is_some();
        if is_gang { UrgentPrice::Gang } else { UrgentPrice::Single }
    }

    /// True if the job fits with `taken` and some choice of the shares that malleable jobs may lose.
    /// The choice goes on with the share at `next` of the first job in `sized`; `chosen` of its
    /// shares are chosen.
    fn has_choice(
        &self,
        taken: &mut Vec<UrgentPrey>,
        sized: &[(usize, Vec<UrgentPrey>)],
        (next, chosen): (usize, usize),
        choices: &mut u32,
        steps: &mut u64,
    ) -> bool {
        let Some(((surplus, prey), others)) = sized.split_first() else {
            return self.fits(taken.iter().copied(), steps);
        };
        if *choices == 0 {
            return false;
        }
        *choices -= 1;
        let left = prey.len().saturating_sub(next);
        // The job loses all that it may lose: more never harms.
        if chosen == *surplus || left == 0 {
            return self.has_choice(taken, others, (0, 0), choices, steps);
        }
        taken.push(prey[next]);
        let with = self.has_choice(taken, sized, (next + 1, chosen + 1), choices, steps);
        taken.pop();
        let may_skip = surplus - chosen < left;
        with || (may_skip && self.has_choice(taken, sized, (next + 1, chosen), choices, steps))
    }

    /// True if the job fits for sure once `taken` is gone.
    fn fits(&self, taken: impl Iterator<Item = UrgentPrey>, steps: &mut u64) -> bool {
        let ledger = self.ledger;
        let taken: BTreeSet<ShareId> = taken.map(|prey| prey.share).collect();
        let mut used = self.promised.clone();
        for line in &ledger.jobs {
            // Work that stays has its space until it is gone.
            let is_there = |share: &Share| {
                !line.is_fair_share()
                    || (share.state == SharePhase::Held
                        && !taken.contains(&share.id)
                        && !self.gone.contains(&share.id))
            };
            for share in line.job.shares.iter().filter(|share| is_there(share)) {
                used[share.node.0] += share.order.qshares().0;
            }
        }
        let closed = ledger.nodes_kept_from(self.place);
        let spaces =
            without(
                ledger,
                &self.gang,
                |ix| {
                    if closed.contains(&ix) { u64::MAX } else { used[ix.0] }
                },
            );
        let gained = count(self.gang.gains());
        let Some(parts) = GangParts::of(&self.gang, gained) else { return false };
        fit_in_sets(ledger, &self.gang, &parts, &spaces, steps) == Fit::Yes
    }
}

/// The request of the job at `place`. Single processes ask like a gang that may be anywhere.
fn request(ledger: &Ledger<'_>, place: JobIx) -> GangLine {
    let line = &ledger.jobs[place];
    let gains = |job: JobId| {
        let new = ledger.schedule.expansions.iter().map(|it| (it.job, it.rank, it.node, it.order));
        let kept = ledger.schedule.promises.iter().map(|it| (it.job, it.rank, it.node, it.order));
        let own = new.chain(kept).filter(move |(of, ..)| *of == job);
        own.map(|(_, rank, node, order)| super::crew::GangProcess {
            rank,
            node,
            order: order.qshares().0,
        })
    };
    let begun: Vec<_> = gains(line.job.id).collect();
    let shape = match &line.job.shape {
        Some(shape) if shape.is_gang() => Arc::clone(shape),
        Some(_) | None => {
            let chunk = Chunk { count: count(&begun), memory: Mebibytes(1), tags: Tags::default() };
            Arc::new(Shape { chunks: vec![chunk], ..Shape::default() })
        }
    };
    let quantum = ledger.snapshot.topology.pools[line.class.pool].quantum;
    let orders = if gang_shape(line.job).is_some() {
        let orders = shape.chunks.iter().map(|chunk| quantum.order_of_work(chunk.memory));
        orders.map(|order| order.map(|order| order.qshares().0)).collect()
    } else {
        Some(vec![line.order()])
    };
    GangLine {
        place,
        shape,
        orders,
        stayed: Vec::new(),
        lost: Vec::new(),
        begun,
        promised: Vec::new(),
    }
}
