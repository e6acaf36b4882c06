//! Checks that the report matches the outcome, and gives every waiting job a reason (I31).

use super::finding::{Finding, Rule};
use super::ledger::Ledger;
use super::lines::Entity;
use super::shapes::{gang_shape, is_resizable};
use crate::engine::JobAccount;
use crate::model::ClassIx;

/// The report's holdings and promises match the schedule.
pub(super) fn check_holdings(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for line in &ledger.jobs {
        let told = (line.report.held.0, line.report.promised.0);
        let found = (line.holds(), line.promised);
        if told != found {
            let detail = format!(
                "job {} holds {} and is promised {}; the report says {} and {}",
                line.job.id, found.0, found.1, told.0, told.1,
            );
            findings.push(Rule::ReportHoldings.finding(detail));
        }
    }
}

/// Caps follow from the rules. A cap below what a job holds means the same as a cap equal to it. A
/// gang whose number may change after its start may keep what it holds instead.
pub(super) fn check_caps(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for line in &ledger.jobs {
        let told = line.report.cap.nshares.0.max(line.held);
        let may_stay = gang_shape(line.job).is_some_and(is_resizable) && 0 < line.held;
        if told != line.cap.max(line.held) && !(may_stay && told == line.held) {
            let (id, cap) = (line.job.id, line.cap);
            let detail = format!("job {id} could use {cap}; the report says {told}");
            findings.push(Rule::ReportCap.finding(detail));
        }
    }
}

/// A job that has less than it wants is given a reason.
pub(super) fn check_reasons(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for line in &ledger.jobs {
        let (has, demand) = (line.holds(), line.report.demand);
        if has < demand.0 && line.report.reason.is_none() {
            let detail = format!("job {} has {has} of {demand}", line.job.id);
            findings.push(Rule::MissingReason.finding(detail));
        }
    }
}

/// The accounts of fair-share classes, and of the users in them, are the sums of the accounts of
/// their jobs.
pub(super) fn check_accounts(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let topology = &ledger.snapshot.topology;
    let report = &ledger.schedule.report;
    if report.classes.len() != topology.classes.len() {
        let detail = format!("{} classes of {}", report.classes.len(), topology.classes.len());
        findings.push(Rule::ReportAccounts.finding(detail));
        return;
    }
    let is_fair = |class: ClassIx| topology.classes[class].policy.is_preemptable();
    for (class, account) in report.classes.with_ix().filter(|(class, _)| is_fair(*class)) {
        if !adds_up(ledger, Entity::Class(class), account) {
            let detail = format!("class {}", topology.classes[class].name);
            findings.push(Rule::ReportAccounts.finding(detail));
        }
    }
    for line in &report.users {
        let user = ledger.user_in(line.class, line.user);
        if user.is_some_and(|user| !adds_up(ledger, user, &line.account)) {
            let name = &ledger.snapshot.users[line.user];
            let detail = format!("user {name}: {}", difference(ledger, user, &line.account));
            findings.push(Rule::ReportAccounts.finding(detail));
        }
    }
}

/// Amounts found and reported, in words.
fn difference(ledger: &Ledger<'_>, entity: Option<Entity>, account: &JobAccount) -> String {
    let found = entity.map(|entity| ledger.standing(entity)).unwrap_or_default();
    format!(
        "holds {}, its target is {}; the report says {} and {}",
        found.held, found.target, account.held, account.target
    )
}

fn adds_up(ledger: &Ledger<'_>, entity: Entity, account: &JobAccount) -> bool {
    let found = ledger.standing(entity);
    (account.held.0, account.target.0) == (found.held, found.target)
}
