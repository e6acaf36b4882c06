//! Bugs of the UIMA-DUCC resource manager that must not occur here.
//!
//! The name of each test has the number of the report. Reports that have a test elsewhere:
//!
//! | UIMA- | claim | where |
//! |---|---|---|
//! | 2772 | a restart takes over all kinds of work | `operations.rs` `shares_from_before_a_restart_…`, `peers.rs` `htcondor_53_…` |
//! | 2789 | no share number is issued twice | `histories.rs`; `operations.rs` as above |
//! | 3076 | what was not heard is said again | `core/src/converter/update.rs` `what_is_new_and_what_has_to_go_is_repeated` |
//! | 3084 | the order of arrival decides nothing | `invariants.rs` `the_order_of_arrival_…` |
//! | 3129, 3614, 4742 | what goes from a dead node, and what from one varied off | `operations.rs` `node_death_…`, `vary_off_evicts_…` |
//! | 3316 | counting out of the tables | `core/src/engine/capacity/empty_cluster.rs` |
//! | 3360, 3983 | prediction | `core/src/engine/demand.rs` |
//! | 3378 | completed work that has live processes stays | `core/src/converter/difference.rs` `completed_work_stays_…` |
//! | 3664 | nothing oscillates; small jobs are not rounded away | `fairness.rs` `an_odd_share_…`, `small_jobs_do_not_starve_…` |
//! | 3939 | death comes with exactly the configured miss | `operations.rs` `a_node_dies_after_exactly_…` |
//! | 4168 | a class is removed | `operations.rs` `a_removed_class_…` |
//! | 4577 | the record follows from the state | `src/store/tests.rs` `a_cycle_is_on_record_in_full` |
//! | 4712 | instances of a service spread | `fairness.rs` `a_service_spreads_before_it_stacks` |
//! | 4775 | nothing fails under load | `histories.rs` |
//! | 4930 | two policies at one priority are refused | `src/config/tests.rs`, C014 |
//! | 6033 | an old record gains what is new | `migrations.rs` |
//!
//! Reports that do not apply: 2907, 3215, 4979, 4989 (log texts and left-overs), 3260, 5742, 6097
//! (their configuration's syntax), 3824, 4937 (their load query), 3904 (requests are not authorised
//! yet), 4063 (their own clock), 4569 (sizes are in bytes), 4882 (the orchestrator chooses the time
//! of an item), 5618 (there is no job-driver class).

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::cluster::{Cluster, UNPACED, class, fair, job, pool, single, topology};
use crate::support::script::{Case, Script, cases};
use apportion::model::{
    ClassIx, ClassPolicy, JobId, Mebibytes, NodeReport, PoolIx, ShareFacts, ShareId, SharePhase,
    Tags, Topology,
};
use apportion::scheduler::{AdminCommand, SchedulerEvent};

// Caps.
cases! {
    uima_2754_pushed_out_entirely_it_does_not_come_back_above_its_own_maximum {
        steps: &["m1=8; 1 ann@doubling 1x1", "2 bob@urgent 1", "2 gone"],
        held: "1=1",
    }
    uima_2767_a_frozen_job_that_lost_its_last_process_gets_none {
        steps: &["m1=4; 1 ann 1x2", "1 frozen; 1 exits; 1 exits", "m2=4"],
        held: "1=0",
    }
    uima_3353_a_job_that_may_not_be_preempted_takes_no_more_than_it_has_work_for {
        steps: &["m1=16; 1 ann@fixed 1 job; 1 left 3"],
        held: "1=3",
    }
    uima_3353_a_job_that_asks_for_more_than_there_is_gets_what_there_is {
        steps: &["m1=4; m2=3; 1 ann@fixed 2x10 job; 2 bob 1"],
        held: "1=3 2=1",
    }
    uima_3372_an_ending_job_keeps_what_runs_and_gets_no_more {
        steps: &["m1=4; 1 ann 1x3", "1 ends; 1 exits; m2=4; 2 bob 1"],
        held: "1=2 2=6",
    }
    uima_3625_a_job_with_nothing_left_gets_nothing {
        steps: &["m1=4; 1 ann 1; 1 left 0; 2 bob 1"],
        held: "1=0 2=4",
    }
    uima_3625_every_job_with_work_gets_one_process_before_any_gets_two {
        steps: &["m1=4; m2=4; 1 ann 1; 2 ann 1; 3 ann 1; 4 ann 1; 5 ann 1; 6 ann 1; 7 ann 1; 8 ann 1"],
        held: "1=1 2=1 3=1 4=1 5=1 6=1 7=1 8=1",
    }
}

// Counting.
cases! {
    uima_2667_nothing_to_divide_among_many_and_much_among_none {
        steps: &["1 ann 1; 2 bob 1x0; 3 cid@low 4; 4 dan@fixed 1; 5 eve@reserve 2", "m0=0"],
        held: "1=0 2=0 3=0 4=0 5=0",
        why: "1=impossible 3=impossible 4=impossible 5=impossible",
    }
    uima_2667_much_to_divide_among_those_who_want_nothing {
        steps: &["m1=8; m2=64; 1 ann 1x0; 2 bob@urgent 1; 2 left 0"],
        held: "1=0 2=0",
    }
    uima_3335_what_a_user_holds_already_counts_in_memory_against_the_allotment {
        allotment: 6,
        steps: &["m1=16; 1 ann@fixed 2; 2 ann@fixed 2", "3 ann@fixed 2; 4 ann@fixed 2"],
        held: "1=1 2=1 3=1 4=0",
        why: "4=over_allotment",
    }
    uima_4275_who_is_over_the_allotment_waits_and_starts_when_there_is_space {
        allotment: 4,
        steps: &["m1=16; 1 ann@fixed 4; 2 ann@fixed 4", "1 gone"],
        held: "2=1",
    }
    uima_4358_each_process_counts_against_the_allotment_with_its_own_size {
        allotment: 7,
        steps: &["m1=16; 1 ann@fixed 2x9 job; 2 bob@fixed 3x9 job"],
        held: "1=3 2=2",
        why: "1=over_allotment 2=over_allotment",
    }
    uima_4912_nodes_that_are_not_up_do_not_count {
        steps: &["m1=4; m2=4; m3=4; 1 ann 1x6", "m2 off; m3 dies; 2 bob 1"],
        held: "1=2 2=2",
        lost: "any",
    }
}

// Preemption and defragmentation.
cases! {
    uima_3100_a_job_of_few_processes_gives_nothing_to_a_newcomer {
        steps: &["m1=16; 1 ann 1x14; 2 cid 1x2", "3 bob 1"],
        held: "1=7 2=2 3=7",
        lost: "1=7",
    }
    uima_3138_a_request_without_space_waits_where_all_the_others_stay_too {
        steps: &["m1=4; m2=4; 1 ann@fixed 3 on m1; 2 ann@fixed 3 on m2", "3 bob@fixed 2; 4 cid@reserve 4"],
        held: "1=1 2=1 3=0 4=0",
    }
    uima_3138_space_is_made_for_a_request_that_may_not_be_preempted {
        steps: &["m1=4; m2=4; 1 ann 1", "2 bob@fixed 4"],
        held: "1=4 2=1",
        lost: "1=4",
    }
    uima_3138_a_reservation_clears_the_node_that_can_be_cleared {
        steps: &["m1=4; m2=4; 9 cid@fixed 1 on m1; 1 ann 1", "2 bob@reserve 4"],
        held: "1=3 2=1 9=1",
        lost: "1=4",
    }
    uima_3811_a_claim_by_rounding_alone_preempts_nothing {
        steps: &["m1=7; 1 ann 2x2; 2 bob 1x3", "1 ann 2x3"],
        held: "1=2 2=3",
    }
    uima_4358_non_preemptable_work_stays_for_any_newcomer {
        steps: &["m1=4; 1 ann@stable 1x3 job", "2 bob@urgent 1; 3 cid@fixed 2; 4 dan@reserve 4"],
        held: "1=3 2=1 3=0 4=0",
    }
    uima_4358_work_that_may_not_be_preempted_stays_also_above_its_maximum {
        steps: &["m1=4; 1 ann@fixed 1x3 job", "1 ann@fixed 1x1"],
        held: "1=3",
    }
    uima_4912_the_cheapest_to_lose_goes {
        steps: &[
            "m1=2; m2=2; m3=2; 1 ann 1x2 on m1; 2 ann 1x2 on m2; 3 ann 1x2 on m3",
            "1 did 500; 2 did 100; 3 did 300",
            "4 bob@urgent 2x1",
        ],
        held: "1=2 2=0 3=2 4=1",
        lost: "2=2",
    }
    uima_4912_a_reservation_clears_the_node_that_is_cheapest_to_clear {
        steps: &[
            "m1=2; m2=2; m3=2; 1 ann 1x2 on m1; 2 ann 1x2 on m2; 3 ann 1x2 on m3",
            "1 did 500; 2 did 300; 3 did 100",
            "4 bob@reserve 2",
        ],
        held: "1=2 2=2 3=0 4=1",
        lost: "3=2",
    }
}

// Machines.
cases! {
    uima_2968_a_node_that_comes_back_smaller_is_smaller {
        steps: &["m1=8; 1 ann 1", "m1 dies", "m1=4"],
        held: "1=4",
    }
    uima_2968_a_node_that_comes_back_larger_is_larger {
        steps: &["m1=8; 1 ann 1", "m1 dies", "m1=16"],
        held: "1=16",
    }
    uima_4910_no_reservation_on_a_node_that_is_off {
        steps: &["m1=8; m2=4; m1 off; 1 ann@reserve 8"],
        held: "1=0",
        why: "1=no_machine_up",
    }
    uima_4910_no_reservation_on_a_dead_node {
        steps: &["m1=8; m2=4", "m1 dies", "1 ann@reserve 8"],
        held: "1=0",
        why: "1=no_machine_up",
    }
    uima_4910_a_reservation_that_waited_for_a_node_has_it_when_it_is_up {
        steps: &["m1=8; m2=4; m1 off; 1 ann@reserve 8", "m1 on"],
        held: "1=1",
    }
    uima_5605_a_node_that_grows_has_space_for_exactly_what_it_grew_by {
        steps: &["m1=8; 1 ann 3", "m1=9"],
        held: "1=3",
    }
    uima_5605_a_node_that_grows_too_little_has_no_more_space {
        steps: &["m1=7; 1 ann 3", "m1=8"],
        held: "1=2",
    }
    uima_4913_a_node_that_shrank_below_its_use_keeps_it_and_gets_nothing {
        steps: &["m1=8; 1 ann 3x2", "m1=4; 2 bob@low 1"],
        held: "1=2 2=0",
    }
    uima_4913_what_ends_on_a_node_that_shrank_leaves_no_space_before_it_fits {
        steps: &["m1=8; 1 ann@fixed 3; 2 ann@fixed 3; 3 bob@fixed 1; 4 cid 1", "m1=4", "4 gone; 1 gone; 5 dan 1"],
        held: "2=1 3=1 5=0",
    }
    uima_5928_a_quiescing_node_keeps_its_work_and_gets_none {
        steps: &["m1=4; m2=4; 1 ann 1x4 on m1", "m1 quiesces; 1 exits; 2 bob 1"],
        held: "1=3 2=4",
    }
    uima_6161_fair_share_work_stays_on_the_nodes_it_lists {
        steps: &["m1=4; m2=4; m3=4; 1 ann 1 on m1,m3; 2 bob 1 on m2"],
        held: "1=8 2=4",
    }
    uima_6161_fixed_work_waits_for_the_node_it_lists {
        steps: &["m1=4; m2=4; 1 ann@fixed 3 on m1; 2 bob@fixed 2 on m1"],
        held: "1=1 2=0",
    }
    uima_6161_a_reservation_waits_for_the_node_it_lists {
        steps: &["m1=4; m2=4; 1 ann@fixed 1 on m1", "2 bob@reserve 4 on m1"],
        held: "2=0",
    }
}

// Ends and returns of jobs and nodes.
cases! {
    uima_3364_a_process_that_dies_early_is_started_again_for_a_job {
        steps: &["m1=4; 1 ann@fixed 1x2 job starting", "1 exits"],
        held: "1=2",
    }
    uima_3755_a_request_taken_over_in_a_restart_has_what_it_asked_for_and_ends_like_any_other {
        steps: &["m1=4; 1 ann@fixed 2; 2 ann@fixed 1 service", "restart", "1 gone; 3 bob 1"],
        held: "2=1 3=3",
    }
    uima_4327_a_process_of_its_own_that_ended_is_not_started_again {
        steps: &["m1=4; 1 ann@fixed 1", "1 exits"],
        held: "1=0",
        why: "1=spent",
    }
    uima_4327_a_service_that_ended_is_not_started_again {
        steps: &["m1=4; 1 ann@fixed 1 service starting", "1 exits"],
        held: "1=0",
        why: "1=spent",
    }
}

/// The cap doubles the held shares, without shares that died with a node.
#[test]
fn uima_2593_what_died_with_a_node_does_not_count_as_held() {
    let mut script = Script::new(&Case::default());
    script.step("m1=4; m2=4; 1 ann@doubling 1");
    script.settle();
    assert_eq!(script.cluster.held(1), 8);
    script.cluster.confirms_exits = false;
    script.step("m1 dies; m3=64");
    script.cycle();
    assert_eq!(script.cluster.held(1), 8, "twice the four that are left");
}

#[test]
fn uima_2593_work_in_limbo_on_a_node_that_dies_and_returns_counts_once() {
    let mut script = Script::new(&Case::default());
    script.step("m1=4; 1 ann 1");
    let (share, node) = (ShareId(70), "m1".into());
    let seen = SchedulerEvent::LimboShareSeen { share, node, memory: Some(Mebibytes::from_gib(3)) };
    script.cluster.record(seen.clone());
    script.settle();
    let used = |script: &Script| script.cluster.view.nodes[0].used.0;
    assert_eq!((script.cluster.held(1), used(&script)), (1, 4));
    script.cluster.record(seen.clone());
    script.step("m1 dies");
    script.settle();
    assert_eq!((script.cluster.held(1), used(&script)), (0, 3));
    script.cluster.record(seen);
    script.step("m1=4");
    script.settle();
    assert_eq!((script.cluster.held(1), used(&script)), (1, 4));
    script.cluster.record(SchedulerEvent::LimboShareGone { share });
    script.settle();
    assert_eq!((script.cluster.held(1), used(&script)), (4, 4));
}

#[test]
fn uima_2754_pushed_out_entirely_it_starts_over() {
    let mut script = Script::new(&Case::default());
    for step in ["m1=16; 1 ann@doubling 1", "2 bob@urgent 1"] {
        script.step(step);
        script.settle();
    }
    assert_eq!(script.cluster.holdings([1, 2]), [0, 16]);
    script.step("2 gone");
    let growth = [(); 4].map(|()| script.cluster.cycle().held(1));
    assert_eq!(growth, [2, 4, 8, 16]);
}

#[test]
fn uima_3349_who_has_what_it_asked_for_is_not_needy() {
    let mut script = Script::new(&Case::default());
    script.step("m1=8; m2=4; 1 ann@fixed 1; 2 ann@stable 2x3 job; 3 bob@reserve 4; 4 cid 1x1");
    script.settle();
    script.step("restart");
    script.cycle();
    assert_eq!(script.cluster.holdings([1, 2, 3, 4]), [1, 3, 1, 1]);
    let planned = script.cluster.view.planned.as_deref().unwrap();
    assert!(planned.schedule.report.jobs.iter().all(|job| !job.is_needy));
}

/// Also 3249 and 4775: facts of unknown work are no news.
#[test]
fn uima_3378_news_of_unknown_work_change_nothing() {
    let mut script = Script::new(&Case::default());
    script.step("m1=4; 1 ann 1x2");
    script.settle();
    let before = script.cluster.picture();
    let (nobody, facts) = (JobId(99), job(1, "ann", "normal", 1).facts);
    let node = || "m1".to_owned();
    script
        .cluster
        .record(SchedulerEvent::JobChanged { job: nobody, facts })
        .record(SchedulerEvent::ShareExited { job: nobody, share: ShareId(1) })
        .record(SchedulerEvent::ShareExited { job: JobId(1), share: ShareId(99) })
        .record(SchedulerEvent::LimboShareGone { share: ShareId(98) })
        .record(SchedulerEvent::NodeDied { node: "nowhere".into() })
        .record(SchedulerEvent::NodeMissedHeartbeats { node: "nowhere".into(), missed: 9 })
        .record(SchedulerEvent::JobCompleted { job: nobody })
        .record(SchedulerEvent::JobCompleted { job: nobody })
        .record(SchedulerEvent::NodeReported(NodeReport {
            tags: Tags::default(),
            name: node().into(),
            memory: Mebibytes::from_gib(4),
            is_quiesced: false,
        }));
    script.cycle();
    assert_eq!(script.cluster.picture(), before);
    script.step("1 gone");
    script.cluster.record(SchedulerEvent::JobCompleted { job: JobId(1) });
    script.cluster.record(SchedulerEvent::ShareExited { job: JobId(1), share: ShareId(1) });
    script.cycle();
    assert_eq!(script.cluster.picture(), "m1 0/4: ");
}

/// A node that was only ever spoken of is watched like any other.
#[test]
fn uima_3398_a_node_that_never_reports_dies_and_gives_its_work_back() {
    let mut script = Script::new(&Case::default());
    script.step("1 ann 1");
    let (share, facts) = (ShareId(7), ShareFacts::default());
    script.cluster.record(SchedulerEvent::ShareSeen {
        job: JobId(1),
        share,
        node: "m9".into(),
        facts,
    });
    let held = [(); 3].map(|()| {
        script.cluster.record(SchedulerEvent::HeartbeatIntervalPassed);
        script.cycle();
        script.cluster.held(1)
    });
    assert_eq!(held, [1, 1, 0]);
}

#[test]
fn uima_3856_what_a_dead_node_took_along_is_told_until_it_is_confirmed() {
    let mut script = Script::new(&Case::default());
    script.step("m1=4; 1 ann 1");
    script.settle();
    script.cluster.confirms_exits = false;
    script.step("m1 dies");
    for _ in 0..5 {
        script.cycle();
        assert_eq!((script.cluster.held(1), script.cluster.job(1).purged.len()), (0, 4));
    }
    script.cluster.confirms_exits = true;
    script.cycle();
    assert_eq!((script.cluster.held(1), script.cluster.job(1).purged.len()), (0, 0));
}

/// Confirmed twice, or late, or after the node is back: no count goes below nothing.
#[test]
fn uima_3939_exits_confirmed_twice_around_a_node_s_death_are_counted_once() {
    let mut script = Script::new(&Case::default());
    script.step("m1=4; m2=4; 1 ann 1; 2 bob 1x2");
    script.settle();
    script.cluster.confirms_exits = false;
    script.step("m1 dies");
    script.cycle();
    let purged: Vec<(JobId, ShareId)> = script
        .cluster
        .view
        .jobs
        .iter()
        .flat_map(|job| job.purged.iter().map(|share| (job.id, share.id)))
        .collect();
    assert_eq!(purged.len(), 4);
    for &(job, share) in purged.iter().chain(&purged) {
        script.cluster.record(SchedulerEvent::ShareExited { job, share });
    }
    script.step("m1=4");
    for &(job, share) in &purged {
        script.cluster.record(SchedulerEvent::ShareExited { job, share });
    }
    script.cluster.confirms_exits = true;
    script.settle();
    let used: Vec<u64> = script.cluster.view.nodes.iter().map(|node| node.used.0).collect();
    assert_eq!((script.cluster.holdings([1, 2]), used), ([6, 2], vec![4, 4]));
}

/// Three nested pools: a class of the innermost pool gets no more than its pool has, and classes
/// above get the less.
#[test]
fn uima_4064_classes_of_three_nested_pools_share_all_of_it() {
    let mut topology = Topology {
        pools: vec![
            pool("root", None, "r1"),
            pool("child", Some(0), "c1"),
            pool("grandchild", Some(1), "g1"),
        ]
        .into(),
        classes: vec![
            fair("wide", 100, UNPACED),
            fair("middle", 100, UNPACED),
            fair("deep", 100, UNPACED),
        ]
        .into(),
        ..topology()
    };
    topology.classes[ClassIx(1)].pool = PoolIx(1);
    topology.classes[ClassIx(2)].pool = PoolIx(2);
    let mut cluster = Cluster::new(topology);
    cluster.nodes("r1=4 c1=4 g1=4").arrive(job(1, "ann", "wide", 1)).cycle();
    assert_eq!(cluster.held(1), 12);
    cluster.arrive(job(2, "bob", "middle", 1)).arrive(job(3, "cid", "deep", 1)).cycles(4);
    assert_eq!(cluster.holdings([1, 2, 3]), [4, 4, 4], "{}", cluster.picture());
    cluster.complete(2).cycles(2);
    assert_eq!(cluster.holdings([1, 3]), [8, 4], "{}", cluster.picture());
    assert_eq!(cluster.cycles(10).preempted(), 0);
}

/// A node moves to another pool. Shares that may not be there go, or keep other shares away. A
/// share of a class whose pool contains the new pool stays.
#[test]
fn uima_4142_a_node_that_moves_loses_what_may_not_be_there() {
    let nodes = |ours: &str, below: &str, other: &str| Topology {
        pools: vec![
            pool("main", None, ours),
            pool("child", Some(0), below),
            pool("other", None, other),
        ]
        .into(),
        classes: vec![
            class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
            fair("normal", 100, UNPACED),
        ]
        .into(),
        ..topology()
    };
    let mut cluster = Cluster::new(nodes("m1 m2", "", ""));
    cluster.nodes("m1=4 m2=4").arrive(job(1, "ann", "normal", 1)).cycle();
    assert_eq!(cluster.held(1), 8);
    cluster.command(AdminCommand::Reconfigure(Box::new(nodes("m1", "m2", "")))).cycles(2);
    assert_eq!((cluster.held(1), cluster.preempted()), (8, 0), "a pool of its tree");
    cluster.command(AdminCommand::Reconfigure(Box::new(nodes("m1", "", "m2")))).cycles(2);
    assert_eq!(cluster.held(1), 4, "another tree");
    cluster.command(AdminCommand::Reconfigure(Box::new(nodes("m1 m2", "", "")))).cycles(2);
    assert_eq!(cluster.held(1), 8, "and back");

    let mut service = single(2, "bob", "fixed", 1, apportion::model::JobKind::ArbitraryProcess);
    service.nodes = vec!["m2".to_owned()];
    cluster.arrive(service).cycles(2);
    assert_eq!(cluster.holdings([1, 2]), [7, 1]);
    cluster.command(AdminCommand::Reconfigure(Box::new(nodes("m1", "m2", "")))).cycles(2);
    let m2 = cluster.view.nodes.iter().find(|node| node.name == "m2").unwrap();
    assert_eq!((m2.state.is_blacklisted, m2.used.0), (true, 1), "{}", cluster.picture());
    assert_eq!(cluster.complete(2).cycles(2).held(1), 8);
}

#[test]
fn uima_4234_a_query_has_every_node_once() {
    let mut script = Script::new(&Case::default());
    script.step("m1=4; m2=4; m3=4; 1 ann@reserve 4 on m3; 2 bob 1");
    script.settle();
    script.step("m1 dies; m3 off");
    script.settle();
    let nodes = script.cluster.view.nodes.iter();
    let states: Vec<_> =
        nodes.map(|node| (node.name.as_str(), node.used.0, node.state.words())).collect();
    assert_eq!(states, [("m1", 0, vec!["dead"]), ("m2", 4, vec![]), ("m3", 4, vec!["varied-off"])]);
}

#[test]
fn uima_4913_a_node_that_shrank_is_shown_as_it_is() {
    let mut script = Script::new(&Case::default());
    script.step("m1=8; 1 ann@fixed 3; 2 ann@fixed 3");
    script.settle();
    script.step("m1=4");
    script.cycle();
    let m1 = &script.cluster.view.nodes[0];
    assert_eq!((m1.order.0, m1.used.0, m1.memory), (4, 6, Mebibytes::from_gib(4)));
}

/// Also 5086: settings are read again with the rest.
#[test]
fn uima_5347_settings_change_with_the_configuration() {
    let mut topology = Topology {
        classes: vec![
            class("reserve", ClassPolicy::Reserve, 1, UNPACED),
            class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
        ]
        .into(),
        ..topology()
    };
    topology.settings.allotment = Some(Mebibytes::from_gib(2));
    let mut cluster = Cluster::new(topology.clone());
    cluster.nodes("m1=4 m2=8");
    cluster.arrive(single(1, "ann", "fixed", 4, apportion::model::JobKind::ArbitraryProcess));
    cluster.arrive(single(2, "bob", "reserve", 7, apportion::model::JobKind::Reservation)).cycle();
    assert_eq!(cluster.holdings([1, 2]), [0, 0]);
    topology.settings.allotment = Some(Mebibytes::from_gib(8));
    topology.settings.reserve_overage = Mebibytes::from_gib(1);
    cluster.command(AdminCommand::Reconfigure(Box::new(topology.clone()))).cycles(2);
    assert_eq!(cluster.holdings([1, 2]), [1, 1], "{}", cluster.picture());
    topology.settings.reserved_memory = Mebibytes::from_gib(2);
    cluster.command(AdminCommand::Reconfigure(Box::new(topology))).cycles(2);
    let orders: Vec<u64> = cluster.view.nodes.iter().map(|node| node.order.0).collect();
    let stays = cluster.view.jobs.iter().flat_map(|job| &job.shares);
    assert_eq!(orders, [2, 6]);
    assert!(stays.map(|share| share.state).eq([SharePhase::Held; 2]));
}
