//! Checks that a gang of fair-share work has its turn only once it is earned.
//!
//! The promise: a gang that needs no more than its fair share has its turn at once. A larger gang
//! waits until the savings of its user, with what the gang earns while it runs, pay for all of its
//! time. Then it pays, and its peers leave it alone for that time.
//!
//! The recount sums up amounts over the whole duration: what the user has saved and will earn, and
//! what the gang will use. It knows the account as the snapshot has it, and the pure fair shares
//! that the report states.

use std::collections::{BTreeMap, BTreeSet};

use super::crew::GangLine;
use crate::audit::finding::{Finding, Rule};
use crate::audit::ledger::Ledger;
use crate::engine::{PaidTurn, VictimRule};
use crate::model::{ClassIx, JobIx, Millis};

/// Amounts of a gang over its duration, in qshare-milliseconds.
struct TurnSums {
    /// Amount that the gang uses while it runs.
    uses: i128,
    /// Savings of its user, and what the gang earns while it runs. `None` if the duration is not
    /// known, so that nothing can be saved up for it.
    has: Option<i128>,
    /// True if the gang needs no more at a time than its fair share.
    is_within_share: bool,
}

/// Rest of a turn that is paid.
struct Left {
    /// Time to its end, in milliseconds.
    time: i128,
    /// Part of its price for that time.
    price: i128,
}

impl Left {
    fn of(ledger: &Ledger<'_>, turn: PaidTurn) -> Left {
        let cycles = |from: u64| i128::from(turn.until) - i128::from(from);
        let (left, all) = (cycles(ledger.snapshot.cycle).max(0), cycles(turn.from).max(1));
        let period = i128::from(ledger.snapshot.topology.settings.publication_period);
        Left { time: left * period, price: (i128::from(turn.price) * left).div_euclid(all) }
    }
}

impl TurnSums {
    fn of(ledger: &Ledger<'_>, gang: &GangLine) -> TurnSums {
        let line = &ledger.jobs[gang.place];
        let gains: i128 = gang.gains().map(|process| i128::from(process.order)).sum();
        // A gang without a gain fell due while it ran; other gangs that ran grow in their turn.
        let asks: i128 = gang.all().map(|process| i128::from(process.order)).sum();
        let fair_share = i128::from(line.report.pure_fair_share.0);
        let turn = line.job.gang.turn.filter(|_| 0 < gains && gains < asks);
        let left = turn.map(|turn| Left::of(ledger, turn));
        let whole = duration(ledger, gang).map(i128::from);
        let duration = left.as_ref().map(|left| left.time).or(whole);
        let back = left.map_or(0, |left| left.price);
        TurnSums {
            uses: asks * duration.unwrap_or(0),
            has: duration.map(|duration| savings(ledger, gang) + back + fair_share * duration),
            is_within_share: asks <= fair_share,
        }
    }

    fn is_earned(&self) -> bool {
        self.is_within_share || self.has.is_some_and(|has| self.uses <= has)
    }
}

/// Duration of a gang: as declared, or by the rules of its class.
fn duration(ledger: &Ledger<'_>, gang: &GangLine) -> Option<Millis> {
    let rules = &ledger.jobs[gang.place].class.gangs;
    [gang.shape.duration, rules.default_duration, rules.max_duration].into_iter().flatten().next()
}

/// Savings of the user of a gang: the last sum, and the income of all cycles since, as far as the
/// account holds it.
fn savings(ledger: &Ledger<'_>, gang: &GangLine) -> i128 {
    let (snapshot, job) = (ledger.snapshot, ledger.jobs[gang.place].job);
    let account = snapshot.turns.iter().find(|it| it.class == job.class && it.user == job.user);
    account.map_or(0, |account| {
        let period = i128::from(snapshot.topology.settings.publication_period);
        let cycles = i128::from(snapshot.cycle) - i128::from(account.since);
        let earned = i128::from(account.rate) * cycles.max(0) * period;
        (i128::from(account.base) + earned).min(i128::from(account.most))
    })
}

/// A gang takes from peers by its turn, or is billed for a turn, only once it has earned it. The
/// bill is for all of its duration. A turn that was promised has come, even if the fair share is
/// smaller by now.
///
/// Turns are kept apart: a single gang of a class begins a turn beyond its share at a time.
pub(in crate::audit) fn check_earned(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let promised: BTreeSet<_> = ledger.snapshot.promises.iter().map(|it| it.job).collect();
    let mut begun: BTreeMap<ClassIx, u64> = BTreeMap::new();
    for gang in ledger.gangs.iter().filter(|gang| ledger.jobs[gang.place].is_fair_share()) {
        let id = ledger.jobs[gang.place].job.id;
        let bill = ledger.schedule.bills.iter().find(|bill| bill.job == id);
        let takes = ledger.victims.iter().any(|victim| {
            victim.receipt.rule == VictimRule::Turn && victim.beneficiary == Some(gang.place)
        });
        if bill.is_none() && !takes {
            continue;
        }
        let sums = TurnSums::of(ledger, gang);
        let is_promised = promised.contains(&id);
        if !is_promised && !sums.is_earned() {
            let (uses, has) = (sums.uses, sums.has.unwrap_or(0));
            let detail = format!("gang {id} will use {uses} qshare-ms and has earned {has}");
            findings.push(Rule::TurnNotEarned.finding(detail));
        }
        if let Some(bill) = bill.filter(|bill| i128::from(bill.turn.price) != sums.uses) {
            let (price, uses) = (bill.turn.price, sums.uses);
            let detail = format!("gang {id} pays {price} qshare-ms, and will use {uses}");
            findings.push(Rule::TurnNotEarned.finding(detail));
        }
        let is_first = bill.is_none_or(|bill| bill.turn.from == ledger.snapshot.cycle);
        if !is_promised && !sums.is_within_share && is_first {
            *begun.entry(ledger.jobs[gang.place].job.class).or_default() += 1;
        }
    }
    for (class, gangs) in begun.into_iter().filter(|(_, gangs)| 1 < *gangs) {
        let name = &ledger.snapshot.topology.classes[class].name;
        let detail = format!("{gangs} gangs of class {name} begin a turn beyond their shares");
        findings.push(Rule::TurnNotEarned.finding(detail));
    }
}

/// Peers leave a gang alone for the time that it paid for. A gang in its turn leaves to its peers
/// what they were counted for.
pub(in crate::audit) fn check_paid(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let mut taken: BTreeMap<JobIx, u64> = BTreeMap::new();
    let mut broken: BTreeSet<JobIx> = BTreeSet::new();
    for victim in &ledger.victims {
        let Some(beneficiary) = victim.beneficiary else { continue };
        let (donor, taker) = (&ledger.jobs[victim.donor], &ledger.jobs[beneficiary]);
        let until = donor.job.gang.turn.map_or(0, |turn| turn.until);
        let are_peers = donor.class.priority == taker.class.priority && !taker.class.is_urgent;
        if are_peers && ledger.snapshot.cycle < until {
            broken.insert(victim.donor);
        }
        if victim.receipt.rule == VictimRule::Turn && !donor.is_gang() {
            *taken.entry(victim.donor).or_default() += 1;
        }
    }
    for donor in broken {
        let id = ledger.jobs[donor].job.id;
        let detail = format!("gang {id} is taken by a peer in the time that it paid for");
        findings.push(Rule::TurnNotEarned.finding(detail));
    }
    for (donor, taken) in taken {
        let line = &ledger.jobs[donor];
        let (left, target) = (line.held.saturating_sub(taken), line.report.target.0);
        if left < target {
            let id = line.job.id;
            let detail = format!("job {id} of {target} is left with {left} for a turn");
            findings.push(Rule::TurnNotEarned.finding(detail));
        }
    }
}
