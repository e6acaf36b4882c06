//! The report matches the outcome, and gives each waiting job a reason.

use super::*;

#[test]
fn holdings_are_what_the_schedule_leaves() {
    let (scene, _) = growing(FAIR);
    scene.misreports(Rule::ReportHoldings, |scene| {
        scene.schedule.report.jobs[JobIx(2)].promised = NShares(1);
    });
}

#[test]
fn caps_are_what_the_rules_give() {
    let (scene, _) = growing(FAIR);
    scene.misreports(Rule::ReportCap, |scene| {
        scene.schedule.report.jobs[JobIx(2)].cap.nshares = NShares(3);
    });
}

#[test]
fn each_waiting_job_has_a_reason() {
    let (scene, ..) = sharing(VictimRule::FairShare);
    scene.misreports(Rule::MissingReason, |scene| {
        scene.schedule.report.jobs[JobIx(1)].reason = None;
    });
}

#[test]
fn accounts_add_up() {
    let (scene, _) = growing(FAIR);
    scene.misreports(Rule::ReportAccounts, |scene| {
        scene.schedule.report.classes[FAIR].held = QShares(1);
    });
    let (scene, _) = growing(FAIR);
    scene.misreports(Rule::ReportAccounts, |scene| {
        let account = JobAccount { held: QShares(9), ..JobAccount::default() };
        scene.schedule.report.users.push(UserAccount { class: FAIR, user: BOB, account });
    });
}
