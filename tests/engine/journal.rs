//! The journal: after any events, the stored state leads to the same future, digest for digest; and
//! a changed row is found and named.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support;
use crate::support::cluster::{Cluster, UNPACED, assert_same, fair, job};
use crate::support::history::History;
use crate::support::step::{Step, steps};
use crate::support::world::{MEDIUM, SMALL, World, world};
use apportion::journal::{Batch, JournalEntry, ReplayError, Unreadable};
use apportion::model::{Mebibytes, Name, NodeReport, Tags};
use apportion::scheduler::checkpoint::{HeartbeatExceptions, SchedulerState};
use apportion::scheduler::{Scheduler, SchedulerEvent};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn history() -> impl Strategy<Value = (World, Vec<Step>)> {
    prop_oneof![
        9 => (world(SMALL), steps(SMALL, 80)),
        1 => (world(MEDIUM), steps(MEDIUM, 60)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100, rng_seed: RngSeed::Fixed(5), failure_persistence: None, ..ProptestConfig::default()
    })]

    /// For any events, restarts included: from the state after any cycle, the journal leads to the
    /// same decisions and to the same state.
    #[test]
    fn from_any_checkpoint_the_journal_leads_to_the_same_future((world, steps) in history(), at: prop::sample::Index) {
        let mut history = History::with_diary(world);
        for step in &steps {
            history.apply(step);
        }
        history.cycle();
        let cluster = &history.cluster;
        let diary = cluster.diary.as_ref().unwrap();
        for skipped in [0, at.index(diary.cycles.len()), diary.cycles.len() - 1] {
            let replay = diary.replay(skipped).unwrap_or_else(|trouble| panic!("from {skipped}: {trouble}"));
            assert_same(&replay.scheduler().view(), &cluster.view);
            assert_eq!(state(replay.scheduler()), state(&cluster.scheduler));
        }
    }
}

/// The whole state, except heartbeats of an interval that is not over yet.
fn state(scheduler: &Scheduler) -> SchedulerState {
    let mut state = scheduler.state();
    state.nodes.iter_mut().for_each(|node| node.has_reported = false);
    state
}

/// Two nodes, two users who take turns.
fn on_record() -> Cluster {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.diary = Some(support::diary::Diary::of(&cluster.scheduler));
    cluster.nodes("m1=4 m2=4").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.arrive(job(2, "bob", "normal", 1)).cycles(3);
    // The second heartbeat of a new node is journaled.
    cluster.record(SchedulerEvent::HeartbeatIntervalPassed).nodes("m1=4 m2=4");
    cluster.record(SchedulerEvent::HeartbeatIntervalPassed).cycle();
    cluster
}

/// 10,000 routine heartbeats take no byte; an interval without misses takes none; an interval with
/// a miss takes the node's name, once.
#[test]
fn heartbeats_that_say_nothing_leave_no_trace() {
    let mut cluster = on_record();
    let mut interval = |heard: &str| {
        for _ in 0..100 {
            cluster.nodes(heard);
        }
        cluster.record(SchedulerEvent::HeartbeatIntervalPassed).cycle();
        let (batches, ..) = cluster.diary.as_ref().unwrap().cycles.last().unwrap();
        batches.iter().flat_map(|batch| Batch::open(batch).unwrap()).collect::<Vec<_>>()
    };
    let passed = |silent: &[&str]| {
        let silent = silent.iter().map(|name| Name::from(*name)).collect();
        JournalEntry::IntervalPassed(HeartbeatExceptions { silent, back: Vec::new() })
    };
    assert_eq!(interval("m1=4 m2=4"), []);
    assert_eq!(interval("m1=4"), [passed(&["m2"])]);
    assert_eq!(interval("m1=4"), [passed(&[])], "that it stays silent goes without saying");
    let memory = Mebibytes::from_gib(4);
    let back = NodeReport { tags: Tags::default(), name: "m2".into(), memory, is_quiesced: false };
    assert_eq!(interval("m1=4 m2=4"), [JournalEntry::Event(SchedulerEvent::NodeReported(back))]);
    assert_eq!(cluster.node("m2").missed, 0);
    cluster.diary.as_ref().unwrap().replay(0).unwrap();
}

/// A node does not die for heartbeats missed while the daemon was down; a dead node stays dead.
#[test]
fn after_a_restart_missed_heartbeats_are_counted_anew() {
    let mut cluster = on_record();
    let miss = |cluster: &mut Cluster, heard: &str| {
        cluster.nodes(heard).record(SchedulerEvent::HeartbeatIntervalPassed).cycle();
    };
    for _ in 0..4 {
        miss(&mut cluster, "m1=4");
    }
    assert!(cluster.node("m2").state.is_dead);
    cluster.nodes("m1=4").record(SchedulerEvent::HeartbeatIntervalPassed);
    miss(&mut cluster, "");
    miss(&mut cluster, "");
    assert_eq!((cluster.node("m1").missed, cluster.node("m1").state.is_dead), (2, false));
    cluster.resume();
    for missed in [1, 2] {
        miss(&mut cluster, "");
        assert_eq!((cluster.node("m1").missed, cluster.node("m1").state.is_dead), (missed, false));
        assert!(cluster.node("m2").state.is_dead);
    }
    miss(&mut cluster, "");
    assert!(cluster.node("m1").state.is_dead);
    cluster.diary.as_ref().unwrap().replay(0).unwrap();
}

/// Every byte of every batch, changed in two ways: found, and where the text can be made out, the
/// entry is named.
#[test]
fn a_changed_byte_is_found_and_named() {
    let mut cluster = on_record();
    let diary = cluster.diary.as_mut().unwrap();
    let (mut named, mut found) = (0, 0);
    for cycle in 0..diary.cycles.len() {
        for place in 0..diary.cycles[cycle].0.iter().map(|batch| batch.body.len()).sum() {
            for change in [1_u8, 0x80] {
                diary.cycles[cycle].0[0].body[place] ^= change;
                let trouble = diary.replay(0).map(|_| ()).unwrap_err();
                let ReplayError::Events { cycle: told, why } = &trouble else {
                    panic!("cycle {cycle}, byte {place}: {trouble}")
                };
                assert_eq!(*told, u64::try_from(cycle).unwrap() + 1);
                let is_named = matches!(why, Unreadable::EntryChanged { entry: 1.., .. });
                assert!(is_named || *why == Unreadable::Changed, "byte {place}: {trouble}");
                *(if is_named { &mut named } else { &mut found }) += 1;
                diary.cycles[cycle].0[0].body[place] ^= change;
            }
        }
    }
    assert!(20 * found < named, "{named} named, {found} only found");
    diary.replay(0).unwrap();
}

/// A thousand cycles have equal digests; and a changed byte in an event of a cycle is located.
#[test]
fn of_a_thousand_cycles_each_is_what_it_was_and_a_changed_byte_is_named() {
    let mut cluster = on_record();
    while cluster.diary.as_ref().unwrap().cycles.len() < 1000 {
        let round = cluster.diary.as_ref().unwrap().cycles.len();
        let nodes = if round.is_multiple_of(2) { "m1=5 m2=4" } else { "m1=4 m2=5" };
        cluster.nodes(nodes).cycle();
    }
    let diary = cluster.diary.as_mut().unwrap();
    assert_eq!(diary.replay(0).unwrap().scheduler().cycle(), 1000);
    for cycle in [500, 999] {
        let place = diary.cycles[cycle].0[0].body.len() - 3;
        diary.cycles[cycle].0[0].body[place] ^= 1;
        let trouble = diary.replay(0).map(|_| ()).unwrap_err();
        let ReplayError::Events { cycle: told, why } = &trouble else { panic!("{trouble}") };
        assert_eq!(*told, u64::try_from(cycle).unwrap() + 1);
        assert!(matches!(why, Unreadable::EntryChanged { entry: 2, of: 2, .. }), "{trouble}");
        diary.cycles[cycle].0[0].body[place] ^= 1;
    }
}

/// A replaced event with valid checksums shows in the decision.
#[test]
fn another_event_leads_to_another_decision() {
    let mut cluster = on_record();
    let diary = cluster.diary.as_mut().unwrap();
    let mut batch = Batch::default();
    batch.push(&JournalEntry::Event(SchedulerEvent::JobArrived(job(2, "bob", "normal", 2))));
    diary.cycles[1].0 = vec![batch.seal()];
    let trouble = diary.replay(0).map(|_| ()).unwrap_err();
    assert!(matches!(trouble, ReplayError::Differs { cycle: 2, .. }), "{trouble}");
}

#[test]
fn what_another_version_wrote_is_said_to_be_so() {
    let mut cluster = on_record();
    let diary = cluster.diary.as_mut().unwrap();
    diary.cycles[1].0[0].version = 7;
    let trouble = diary.replay(0).map(|_| ()).unwrap_err().to_string();
    assert!(trouble.contains("cycle 2") && trouble.contains("form 7"), "{trouble}");
}
