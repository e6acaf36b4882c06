//! Names must exist, the report is about the jobs of the snapshot, and findings name entities and
//! nodes.

use super::*;

/// Dashboards count by codes, and recorded scenarios name them.
#[test]
fn codes_are_stable() {
    let codes = [
        (Rule::UnknownName, "unknown_name"),
        (Rule::OverCommitted, "over_committed"),
        (Rule::OverPromised, "over_promised"),
        (Rule::UnschedulableNode, "unschedulable_machine"),
        (Rule::WrongPool, "wrong_pool"),
        (Rule::Squatter, "squatter"),
        (Rule::NodeList, "machine_list"),
        (Rule::WrongOrder, "wrong_order"),
        (Rule::EndedWork, "ended_work"),
        (Rule::AboveCap, "above_cap"),
        (Rule::OverAllotment, "over_allotment"),
        (Rule::VictimNotHeld, "victim_not_held"),
        (Rule::FalseReceipt, "false_receipt"),
        (Rule::NotPreemptable, "not_preemptable"),
        (Rule::StillAllowed, "still_allowed"),
        (Rule::WrongPriority, "wrong_priority"),
        (Rule::Unpaid, "unpaid"),
        (Rule::SuperfluousVictim, "superfluous_victim"),
        (Rule::UnfairPreemption, "unfair_preemption"),
        (Rule::FalseMove, "false_move"),
        (Rule::TooDear, "too_dear"),
        (Rule::FalseHold, "false_hold"),
        (Rule::LostTurn, "lost_turn"),
        (Rule::NeedyDonor, "needy_donor"),
        (Rule::OverCounted, "over_counted"),
        (Rule::CountAboveCap, "count_above_cap"),
        (Rule::UnevenCounts, "uneven_counts"),
        (Rule::IdleRoom, "idle_room"),
        (Rule::UnplacedRequest, "unplaced_request"),
        (Rule::Starving, "starving"),
        (Rule::Envy, "envy"),
        (Rule::PriorityWaits, "priority_waits"),
        (Rule::LastTaken, "last_taken"),
        (Rule::PassedThrough, "passed_through"),
        (Rule::DroppedPromise, "dropped_promise"),
        (Rule::BrokenGang, "broken_gang"),
        (Rule::WrongRank, "wrong_rank"),
        (Rule::WrongTags, "wrong_tags"),
        (Rule::NotExclusive, "not_exclusive"),
        (Rule::WrongPlace, "wrong_place"),
        (Rule::Spanned, "spanned"),
        (Rule::PartialVictim, "partial_victim"),
        (Rule::VainVictims, "vain_victims"),
        (Rule::TurnNotEarned, "turn_not_earned"),
        (Rule::ClaimPassed, "claim_passed"),
        (Rule::IdleGang, "idle_gang"),
        (Rule::FalseNever, "false_never"),
        (Rule::IllegalSize, "illegal_size"),
        (Rule::ReportJobs, "report_jobs"),
        (Rule::ReportHoldings, "report_holdings"),
        (Rule::ReportCap, "report_cap"),
        (Rule::MissingReason, "missing_reason"),
        (Rule::ReportAccounts, "report_accounts"),
    ];
    for (rule, code) in codes {
        assert_eq!(rule.code(), code);
        let finding = rule.finding("what exactly".to_owned());
        assert_eq!(finding.to_string(), format!("{code}: what exactly"));
    }
}

#[test]
fn names_must_exist() {
    let (scene, _) = growing(FAIR);
    scene.misreports(Rule::UnknownName, |scene| scene.schedule.expansions[0].job = JobId(9));
    let (scene, _) = growing(FAIR);
    scene.misreports(Rule::UnknownName, |scene| {
        scene.schedule.expansions[0].node = NodeIx(9);
    });
    let (scene, ..) = sharing(VictimRule::FairShare);
    scene.misreports(Rule::UnknownName, |scene| {
        scene.schedule.preemptions[0].share = ShareId(9);
    });
}

#[test]
fn the_report_is_about_the_jobs_of_the_snapshot() {
    let (scene, _) = growing(FAIR);
    scene.misreports(Rule::ReportJobs, |scene| {
        let lines = std::mem::take(&mut scene.schedule.report.jobs).into_iter();
        scene.schedule.report.jobs = lines.rev().collect();
    });
    let (scene, _) = growing(FAIR);
    scene.misreports(Rule::ReportJobs, |scene| {
        let lines = std::mem::take(&mut scene.schedule.report.jobs).into_iter();
        scene.schedule.report.jobs = lines.skip(1).collect();
    });
}

#[test]
fn findings_say_who_and_where() {
    let said = |mut scene: Scene| -> Vec<String> {
        scene.report();
        let found = audit(&scene.snapshot, &scene.schedule);
        found.iter().map(ToString::to_string).collect()
    };
    let (mut scene, ..) = sharing(VictimRule::FairShare);
    scene.schedule.promises.clear();
    let vain = "unpaid: shares were taken on node0 for job 2 in vain";
    assert_eq!(said(scene)[0], vain);
    for (loser, taker, from, to) in [
        ((ANN, HEAVY), (BOB, FAIR), "class heavy", "class fair"),
        ((ANN, FAIR), (BOB, FAIR), "user ann", "user bob"),
        ((ANN, FAIR), (ANN, FAIR), "job 1", "job 2"),
    ] {
        let mut scene = Scene::new(&[2, 1]);
        let loser = scene.running(loser, 1, 2, 0);
        let taker = scene.running(taker, 1, 1, 1);
        scene.edit(taker).facts.remaining = 2;
        scene.preempt(loser, 0, Some(taker), VictimRule::FairShare);
        scene.promise(taker, 0);
        scene.count(loser, 2);
        scene.count(taker, 1);
        let wanted = format!(
            "unfair_preemption: {from} was left with 1 qshares for the sake of {to}, which had \
             1"
        );
        assert_eq!(said(scene), [wanted]);
    }
}

#[test]
fn every_rule_is_looked_into_and_nothing_is_found_in_an_empty_cluster() {
    assert_eq!(Scene::new(&[]).broken(), []);
    assert_eq!(Scene::new(&[1, 2, 3]).broken(), []);
}
