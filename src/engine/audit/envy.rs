//! Envy that could have been cured: D2 as an oracle.
//!
//! For every fair-share job that ends the cycle below its count, every machine is tried: would the
//! room there, and what may legally be taken from others, have made room for one more nshare? If
//! so, a plan existed that was not carried out.
//!
//! Donors are judged by the least they can have held while shares were preempted, the envious by
//! the most. A share that may be taken even so could have been taken at any time. Shares are tried
//! largest first, so a plan found is legal; that none is found is no proof that there was none.

use std::collections::BTreeMap;

use super::finding::{Finding, Rule};
use super::ledger::{Entity, Ledger};
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
    for (place, line) in ledger.jobs.iter().enumerate() {
        let is_behind = line.ceiling() < line.report.given.0;
        if !is_behind || !line.is_fair_share() || line.has_ended() {
            continue;
        }
        for (ix, machine) in ledger.machines_with_ix() {
            let order = i128::from(line.job.order.get());
            let all: u64 = machine.prey.iter().map(|(_, order)| order).sum();
            let is_hopeless = machine.usable() + i128::from(all) < order;
            if is_hopeless || ledger.would_take(line, ix).is_none() {
                continue;
            }
            looks = looks.saturating_sub(machine.prey.len() + 1);
            if looks == 0 {
                return;
            }
            if is_curable_on(ledger, place, ix) {
                let (id, name) = (line.job.id, ledger.name(ix));
                let (has, given) = (line.ceiling(), line.report.given);
                let detail = format!("job {id} has {has} of {given}; {name} could be cleared");
                findings.push(Rule::CurableEnvy.finding(detail));
                break;
            }
        }
    }
}

fn is_curable_on(ledger: &Ledger<'_>, place: usize, ix: MachineIx) -> bool {
    let machine = &ledger.machines[ix.0];
    let needed = i128::from(ledger.jobs[place].job.order.get());
    let mut room = machine.usable();
    let mut taken = Taken::default();
    for &(donor, order) in &machine.prey {
        if room < needed && may_take(ledger, place, donor, order, &mut taken) {
            room += i128::from(order);
        }
    }
    room >= needed
}

/// Whether the job at `place` may take a share of `order` from the one at `donor`; if so, it is
/// taken.
fn may_take(
    ledger: &Ledger<'_>,
    place: usize,
    donor: usize,
    order: u64,
    taken: &mut Taken,
) -> bool {
    let (line, theirs) = (&ledger.jobs[place], &ledger.jobs[donor]);
    let Some((giver, taker)) = ledger.dividing(donor, place) else { return false };
    if theirs.class.priority != line.class.priority {
        return theirs.class.priority > line.class.priority;
    }
    let gone = taken.amounts.entry(giver).or_default();
    let shares = taken.shares.entry(donor).or_default();
    let before = ledger.standing(giver).floor.saturating_sub(*gone);
    let after = before.saturating_sub(order);
    let envied = ledger.by_weight((giver, after), (taker, ledger.standing(taker).ceiling));
    let is_surplus = before > ledger.standing(giver).given;
    let is_legal = envied.is_gt()
        && (is_surplus || is_gift(ledger, place, donor, theirs.floor().saturating_sub(*shares)));
    if is_legal {
        *gone += order;
        *shares += 1;
    }
    is_legal
}

/// Whether the job at `place` is needy and the one at `donor`, which has `held`, can spare a share:
/// it does not become needy (D5), or the other has nothing at all.
fn is_gift(ledger: &Ledger<'_>, place: usize, donor: usize, held: u64) -> bool {
    let settings = &ledger.snapshot.topology.settings;
    let (line, theirs) = (&ledger.jobs[place], &ledger.jobs[donor]);
    let threshold = settings.fragmentation_threshold;
    let has = line.ceiling();
    let rest = held.saturating_sub(1);
    let becomes_needy = theirs.is_poor_with(rest, threshold) && theirs.report.given.0 > rest;
    settings.defragmentation && line.is_poor_with(has, threshold) && (has == 0 || !becomes_needy)
}
