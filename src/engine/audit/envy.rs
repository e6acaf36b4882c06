//! Envy that could have been cured: D2 as an oracle.
//!
//! For every fair-share job that ends the cycle below its count, and in a cluster at rest for every
//! one below its cap, every machine is tried: would the room there, and what may legally be taken
//! from others, have made room for one more nshare? If so, a plan existed that was not carried out.
//! Jobs that say what holds them back are believed here: [`super::calm`] looks into that.
//!
//! Donors are judged by the least they can have held while shares were preempted, the envious by
//! the most. A share that may be taken even so could have been taken at any time. Shares are tried
//! largest first, so a plan found is legal; that none is found is no proof that there was none.

use std::collections::BTreeMap;

use super::calm::{Gave, are_counts_over, binds_all, is_at_rest, is_barred, takings};
use super::finding::{Finding, Rule};
use super::ledger::{Entity, JobLine, Ledger};
use crate::engine::PreemptionRule;
use crate::model::MachineIx;

/// How many shares are looked at, at most. Beyond that the oracle falls silent: an opinion must
/// not take longer than the decision.
const LOOKS: usize = 200_000;

/// What was taken so far on the machine that is being tried.
#[derive(Default)]
struct Taken {
    /// From whom, at the level that divides them from the beneficiary; in qshares.
    amounts: BTreeMap<Entity, u64>,
    /// From which job, in nshares.
    shares: BTreeMap<usize, u64>,
}

/// No job below its count could have been given one more nshare.
pub(super) fn check_curable_envy(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let mut looks = LOOKS;
    let gave = gave(ledger);
    // The most that could be free on each machine if all went that may.
    let rooms: Vec<i128> = ledger
        .machines
        .iter()
        .map(|machine| {
            let all: u64 = machine.prey.iter().map(|(_, order)| order).sum();
            machine.usable() + i128::from(all)
        })
        .collect();
    let largest_room = rooms.iter().copied().max().unwrap_or(0);
    for (place, line) in ledger.jobs.iter().enumerate() {
        let due = if is_at_rest(ledger) { line.cap } else { line.report.given.0 };
        let is_behind = line.ceiling() < due && line.report.held_back.is_none();
        let order = i128::from(line.job.order.get());
        if !is_behind || !line.is_fair_share() || line.has_ended() || largest_room < order {
            continue;
        }
        let envious = Envious { ledger, gave: &gave, place };
        if envious.is_content() {
            continue;
        }
        for (ix, machine) in ledger.machines_with_ix() {
            if rooms[ix.0] < order || ledger.would_take(line, ix).is_none() {
                continue;
            }
            looks = looks.saturating_sub(machine.prey.len() + 1);
            if looks == 0 {
                return;
            }
            if envious.could_be_placed(ix) {
                let (id, name) = (line.job.id, ledger.name(ix));
                let (has, given) = (line.ceiling(), line.report.given);
                let detail = format!("job {id} has {has} of {given}; {name} could be cleared");
                findings.push(Rule::CurableEnvy.finding(detail));
                break;
            }
        }
    }
}

/// Who gave to whom, lately and in this cycle.
fn gave(ledger: &Ledger<'_>) -> Gave {
    let remembered = ledger.snapshot.calm.takings.iter().map(|taking| (taking.from, taking.by));
    let now = ledger.schedule.preemptions.iter();
    let now = now.filter(|receipt| receipt.rule != PreemptionRule::Relocation);
    let now = now.filter_map(|receipt| Some((receipt.job, receipt.beneficiary?)));
    takings(ledger, remembered.chain(now))
}

/// A job that has less than it could have, and what it may do about it.
struct Envious<'l, 'a> {
    ledger: &'l Ledger<'a>,
    gave: &'l Gave,
    place: usize,
}

impl Envious<'_, '_> {
    /// Whether nobody has so much that anything could be taken, told without looking at machines.
    fn is_content(&self) -> bool {
        let line = &self.ledger.jobs[self.place];
        let is_better_off = |other: usize, theirs: &JobLine<'_>| {
            let Some((giver, taker)) = self.ledger.dividing(other, self.place) else {
                return false;
            };
            let most = self.ledger.standing(giver).floor;
            let ours = self.ledger.standing(taker).ceiling;
            theirs.class.priority > line.class.priority
                || (theirs.class.priority == line.class.priority
                    && self.ledger.by_weight((giver, most), (taker, ours)).is_gt())
        };
        line.ceiling() > 0
            && !self.ledger.jobs.iter().enumerate().any(|(ix, other)| is_better_off(ix, other))
    }

    /// Whether machine `ix` could have been cleared for it.
    fn could_be_placed(&self, ix: MachineIx) -> bool {
        let machine = &self.ledger.machines[ix.0];
        let needed = i128::from(self.ledger.jobs[self.place].job.order.get());
        let mut room = machine.usable();
        let mut taken = Taken::default();
        for &(donor, order) in &machine.prey {
            if room < needed && self.may_take(donor, order, &mut taken) {
                room += i128::from(order);
            }
        }
        room >= needed
    }

    /// Whether it may take a share of `order` from the job at `donor`; if so, it is taken.
    fn may_take(&self, donor: usize, order: u64, taken: &mut Taken) -> bool {
        let ledger = self.ledger;
        let (line, theirs) = (&ledger.jobs[self.place], &ledger.jobs[donor]);
        let Some((giver, taker)) = ledger.dividing(donor, self.place) else { return false };
        if theirs.class.priority != line.class.priority {
            return theirs.class.priority > line.class.priority;
        }
        let is_excepted = line.ceiling() == 0 && !binds_all(ledger);
        if !is_excepted && is_barred(ledger, self.gave, self.place, donor) {
            return false;
        }
        let gone = taken.amounts.entry(giver).or_default();
        let shares = taken.shares.entry(donor).or_default();
        let before = ledger.standing(giver).floor.saturating_sub(*gone);
        let is_ahead_without = |qshares: u64| {
            let after = before.saturating_sub(qshares);
            ledger.by_weight((giver, after), (taker, ledger.standing(taker).ceiling)).is_gt()
        };
        let is_surplus = before > ledger.standing(giver).given;
        let is_owed = line.ceiling() < line.report.given.0;
        let do_counts_decide = line.ceiling() == 0 || !are_counts_over(ledger);
        let by_counts = is_owed
            && do_counts_decide
            && is_ahead_without(order)
            && (is_surplus || self.is_gift(donor, theirs.floor().saturating_sub(*shares)));
        let larger = order.max(line.job.order.qshares().0);
        // A job that has nothing may have what is beyond all counts.
        let job_before = theirs.standing().floor.saturating_sub(*shares * order);
        let is_first = line.ceiling() == 0
            && is_owed
            && !is_at_rest(ledger)
            && ledger.standing(giver).given + order <= before
            && theirs.given() + order <= job_before;
        let by_holdings = is_at_rest(ledger) && ledger.snapshot.topology.settings.defragmentation;
        let is_legal = by_counts || is_first || (by_holdings && is_ahead_without(larger));
        if is_legal {
            *gone += order;
            *shares += 1;
        }
        is_legal
    }

    /// Whether it is needy and the job at `donor`, which has `held`, can spare a share: that does
    /// not become needy (D5), or it has nothing at all itself.
    fn is_gift(&self, donor: usize, held: u64) -> bool {
        let settings = &self.ledger.snapshot.topology.settings;
        let (line, theirs) = (&self.ledger.jobs[self.place], &self.ledger.jobs[donor]);
        let threshold = settings.fragmentation_threshold;
        let has = line.ceiling();
        let rest = held.saturating_sub(1);
        let becomes_needy = theirs.is_poor_with(rest, threshold) && theirs.report.given.0 > rest;
        settings.defragmentation
            && line.is_poor_with(has, threshold)
            && (has == 0 || !becomes_needy)
    }
}
