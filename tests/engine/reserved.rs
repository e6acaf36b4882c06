//! Work in its advance reservation: from the notice on it comes before work that can be preempted,
//! whatever the priorities are.

use std::sync::Arc;

use crate::support::cluster::{Cluster, UNPACED, class, fair, job, topology};
use crate::support::diary::Diary;
use apportion::engine::VictimRule;
use apportion::model::{
    Chunk, ClassPolicy, GangRules, JobId, Mebibytes, Millis, Place, ProcessLimit, Shape, Tags,
    Topology, Window, WindowKind,
};
use apportion::scheduler::{AdminCommand, SchedulerEvent};

const MINUTE: Millis = 60_000;

/// Four nodes of 4 GB that a job of the highest priority fills. Nodes `a` and `b` are reserved for
/// ann from minute 10 until minute 30. The notice is 2 minutes.
fn cluster() -> Cluster {
    let mut fixed = class("fixed", ClassPolicy::FixedShare, 5, UNPACED);
    fixed.gangs = GangRules { are_allowed: true, ..GangRules::default() };
    let mut rush = fair("rush", 100, UNPACED);
    rush.priority = 3;
    let mut topology = Topology { classes: vec![fixed, rush].into(), ..topology() };
    topology.settings.publication_period = MINUTE;
    topology.settings.notice = 2 * MINUTE;
    let mut cluster = Cluster::new(topology);
    cluster.diary = Some(Diary::of(&cluster.scheduler));
    cluster.nodes("a=4 b=4 c=4 d=4");
    cluster.record(SchedulerEvent::TimeIs { now: MINUTE });
    let window = Window {
        name: "r1".into(),
        kind: WindowKind::Reservation,
        nodes: vec!["a".into(), "b".into()],
        from: 10 * MINUTE,
        to: 30 * MINUTE,
        users: vec!["ann".into()],
        classes: Vec::new(),
        reason: String::new(),
    };
    let command = AdminCommand::Reserve { window: Box::new(window), is_forced: false };
    cluster.order(command).expect("no work is in the way");
    cluster.arrive(job(1, "bob", "rush", 1));
    cycles_at(&mut cluster, 1, 8);
    assert_eq!(cluster.held(1), 16);
    cluster
}

/// Minutes `from` up to `to`, each with a cycle and the exits that it asked for.
fn cycles_at(cluster: &mut Cluster, from: u64, to: u64) {
    for minute in from..to {
        cluster.record(SchedulerEvent::TimeIs { now: minute * MINUTE });
        cluster.cycle();
        cluster.confirm_exits();
    }
}

/// A job of `processes` of 4 GB in reservation `r1` for 10 minutes; a gang if `is_gang`.
fn reserved(cluster: &mut Cluster, (id, user): (u64, &str), processes: u64, is_gang: bool) {
    let mut spec = job(id, user, "fixed", 4);
    spec.facts.remaining = processes;
    spec.facts.limit = ProcessLimit::AtMost(processes);
    let chunk = Chunk { count: processes, memory: Mebibytes::from_gib(4), tags: Tags::default() };
    spec.shape = Some(Arc::new(Shape {
        chunks: if is_gang { vec![chunk] } else { Vec::new() },
        place: Place::Scatter,
        duration: Some(10 * MINUTE),
        reservation: Some("r1".into()),
        ..Shape::default()
    }));
    cluster.arrive(spec);
}

/// Rules and beneficiaries of the preemptions of the last cycle.
fn preemptions(cluster: &Cluster) -> Vec<(VictimRule, Option<JobId>)> {
    let planned = cluster.view.planned.as_deref().expect("a cycle was planned");
    planned.schedule.preemptions.iter().map(|it| (it.rule, it.beneficiary)).collect()
}

#[test]
fn room_is_made_at_the_notice_for_what_waits_and_for_no_more() {
    for is_gang in [true, false] {
        for processes in [1, 2] {
            let mut cluster = cluster();
            reserved(&mut cluster, (2, "ann"), processes, is_gang);
            let before = |cluster: &Cluster| {
                assert_eq!((cluster.held(2), cluster.reason(2)), (0, "reservation_ahead"));
                let start = cluster.job(2).start_estimate.map(|estimate| estimate.at);
                assert_eq!(start, Some(10 * MINUTE), "gang {is_gang}, {processes}");
            };
            // The notice begins at minute 8.
            cycles_at(&mut cluster, 7, 8);
            before(&cluster);
            assert_eq!(cluster.held(1), 16);
            cluster.record(SchedulerEvent::TimeIs { now: 8 * MINUTE });
            cluster.cycle();
            before(&cluster);
            let left = 16 - 4 * processes;
            assert_eq!(cluster.held(1), left, "gang {is_gang}");
            let all =
                vec![(VictimRule::Window, Some(JobId(2))); 16 - usize::try_from(left).unwrap_or(0)];
            assert_eq!(preemptions(&cluster), all);
            cluster.confirm_exits();
            // The space stays free, also for a scheduler that was started again.
            cluster.resume();
            cycles_at(&mut cluster, 9, 10);
            before(&cluster);
            assert_eq!((cluster.held(1), cluster.preempted()), (left, 0));
            cycles_at(&mut cluster, 10, 11);
            assert_eq!((cluster.held(2), cluster.held(1)), (processes, left));
            assert!(cluster.nodes_of(2).iter().all(|node| ["a", "b"].contains(node)));
            cluster.complete(2);
            cycles_at(&mut cluster, 20, 24);
            assert_eq!(cluster.held(1), 16, "the space is used again");
            cluster.diary.take().expect("it is kept").replay(0).expect("it is the same");
        }
    }
}

#[test]
fn work_that_comes_while_the_reservation_is_open_gets_its_nodes_at_once() {
    for is_gang in [true, false] {
        let mut cluster = cluster();
        cycles_at(&mut cluster, 8, 12);
        assert_eq!(cluster.held(1), 16, "an idle reservation costs no process");
        reserved(&mut cluster, (2, "ann"), 2, is_gang);
        cycles_at(&mut cluster, 12, 14);
        assert_eq!((cluster.held(2), cluster.held(1)), (2, 8), "gang {is_gang}");
    }
}

#[test]
fn a_reservation_is_for_its_users_and_ends() {
    let mut cluster = cluster();
    reserved(&mut cluster, (2, "bob"), 2, true);
    cycles_at(&mut cluster, 8, 14);
    assert_eq!((cluster.held(2), cluster.held(1)), (0, 16), "bob may not use it");
    reserved(&mut cluster, (3, "ann"), 2, true);
    // At minute 21 its 10 minutes end too late.
    cycles_at(&mut cluster, 21, 24);
    assert_eq!((cluster.held(3), cluster.held(1)), (0, 16));
}
