//! Preemption and defragmentation: victims, beneficiaries, and the end of an exchange.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::{BTreeMap, BTreeSet};

use crate::support::cluster::{Cluster, UNPACED, class, fair, job, pool, single, topology};
use apportion::engine::{Preemption, VictimRule};
use apportion::model::{
    ClassPolicy, JobId, JobKind, JobSpec, PoolIx, ProcessLimit, ResourceClass, ShareFacts, ShareId,
    SharePhase, Topology,
};
use apportion::scheduler::{SchedulerEvent, ShareView};

fn at_most(mut spec: JobSpec, limit: u64) -> JobSpec {
    spec.facts.limit = ProcessLimit::AtMost(limit);
    spec
}

fn cluster() -> Cluster {
    with(vec![fair("normal", 100, UNPACED)])
}

fn with(mut classes: Vec<ResourceClass>) -> Cluster {
    classes.push(class("reserve", ClassPolicy::Reserve, 1, UNPACED));
    classes.push(class("fixed", ClassPolicy::FixedShare, 5, UNPACED));
    Cluster::with_classes(classes)
}

fn receipts(cluster: &Cluster) -> Vec<Preemption> {
    cluster.view.planned.as_deref().unwrap().schedule.preemptions.clone()
}

/// Records the facts of the process in a share.
fn process(cluster: &mut Cluster, id: u64, share: ShareId, facts: ShareFacts) {
    let job = cluster.job(id);
    let node = job.shares.iter().find(|known| known.id == share).unwrap().node.clone();
    cluster.record(SchedulerEvent::ShareSeen { job: JobId(id), share, node, facts });
}

/// F176, F181, I03: non-preemptable work loses nothing, even to a job of much higher priority and
/// even if that job has little.
#[test]
fn only_fair_share_work_is_taken_back() {
    let mut cluster = with(vec![
        class("urgent", ClassPolicy::FairShare { weight: 100 }, 2, UNPACED),
        fair("normal", 100, UNPACED),
    ]);
    cluster.nodes("m1=4 m2=4").arrive(at_most(job(1, "ann", "fixed", 1), 4));
    cluster.arrive(single(2, "ann", "reserve", 4, JobKind::Reservation)).cycle();
    assert_eq!(cluster.holdings([1, 2]), [4, 1]);
    cluster.arrive(job(3, "bob", "urgent", 1)).arrive(job(4, "cid", "normal", 1));
    cluster.arrive(single(5, "dan", "reserve", 4, JobKind::Reservation)).cycles(4);
    assert_eq!(cluster.holdings([1, 2, 3, 4, 5]), [4, 1, 0, 0, 0]);
    assert!(
        cluster.view.jobs.iter().flat_map(|job| &job.shares).all(|share| share.removal.is_none())
    );
}

/// I16: a job that has nothing and could be helped holds a process 3 cycles after it came, plus the
/// cycles of the exits. That holds in a quiet and in a busy cluster, at any loss.
#[test]
fn work_that_has_nothing_holds_something_soon() {
    for (order, newcomers) in [(1, 1), (1, 8), (2, 5), (3, 3), (4, 1), (4, 3)] {
        for (exits_take, is_at_rest) in [(1, true), (1, false), (2, false), (4, true), (6, false)] {
            let mut cluster = cluster();
            cluster.nodes("m1=4 m2=4 m3=4 m4=4").arrive(job(1, "ann", "normal", 1)).cycle();
            cluster.invest(1, 9_000_000_000).cycles(3);
            assert_eq!(cluster.held(1), 16);
            let newcomers = 2..2 + newcomers;
            for id in newcomers.clone() {
                cluster.arrive(job(id, &format!("user{id}"), "normal", order));
            }
            cluster.confirms_exits = false;
            let mut told: BTreeMap<ShareId, u64> = BTreeMap::new();
            let deadline = 3 + exits_take;
            for cycle in 0..deadline {
                if !is_at_rest {
                    cluster.change(1, |facts| facts.remaining -= 1000);
                }
                for view in cluster.view.jobs.iter() {
                    let leaving = |share: &&ShareView| share.state == SharePhase::Leaving;
                    for share in view.shares.iter().filter(leaving) {
                        let since = *told.entry(share.id).or_insert(cycle);
                        if since + exits_take <= cycle + 1 {
                            let exited =
                                SchedulerEvent::ShareExited { job: view.id, share: share.id };
                            cluster.scheduler.record(exited);
                        }
                    }
                }
                cluster.cycle();
            }
            let starve: Vec<u64> = newcomers.filter(|id| cluster.held(*id) == 0).collect();
            assert_eq!(
                starve,
                [0; 0],
                "size {order}, exits take {exits_take}, {is_at_rest}:\n{}",
                cluster.picture()
            );
        }
    }
}

/// F177: a beneficiary's need decides the number of preempted shares, and all go in the same cycle.
#[test]
fn no_more_is_taken_than_is_needed() {
    let mut cluster = cluster();
    cluster.nodes("m1=8 m2=8").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.arrive(at_most(job(2, "bob", "normal", 3), 1)).cycle();
    assert_eq!((cluster.preempted(), cluster.held(1)), (3, 13));
    assert_eq!(cluster.cycle().holdings([1, 2]), [13, 1]);
    assert_eq!(cluster.preempted(), 0);
}

/// F178, L17, D1: the cheapest to lose goes first: initializing before running, then the least time
/// at stake, then the deeper pool, then the newest.
#[test]
fn the_cheapest_share_goes_first() {
    let initialized =
        |investment| ShareFacts { is_initialized: true, initialization: 9, investment };
    let starting =
        |initialization| ShareFacts { is_initialized: false, initialization, investment: 0 };
    // Facts of shares 1 and 2 of a job on a machine, and the share that goes.
    let cases = [
        (initialized(0), starting(1_000_000), 2),
        (starting(10), starting(20), 1),
        (initialized(500), initialized(400), 2),
        (initialized(1 << 40), initialized(1 << 41), 1), // further apart than 32 bits can tell
        (initialized(5), initialized(5), 2),             // the newest
    ];
    for (first, second, goes) in cases {
        let mut cluster = cluster();
        cluster.nodes("m1=2").arrive(job(1, "ann", "normal", 1)).cycle();
        process(&mut cluster, 1, ShareId(1), first);
        process(&mut cluster, 1, ShareId(2), second);
        cluster.arrive(job(2, "bob", "normal", 1)).cycle();
        let gone: Vec<_> = receipts(&cluster).iter().map(|receipt| receipt.share.0).collect();
        assert_eq!(gone, [goes], "{first:?} {second:?}");
    }
}

/// F178, L17: of two equal shares, the share further down the tree goes, although it is the older
/// share.
#[test]
fn of_equals_the_one_in_the_deeper_pool_goes() {
    let pools = vec![pool("top", None, "a"), pool("deep", Some(0), "b")];
    let classes = vec![fair("normal", 100, UNPACED)];
    let mut cluster =
        Cluster::new(Topology { pools: pools.into(), classes: classes.into(), ..topology() });
    cluster.nodes("b=1").arrive(job(1, "ann", "normal", 1)).cycle().nodes("a=1").cycle();
    assert_eq!(cluster.nodes_of(1), ["a", "b"]);
    cluster.change(1, |facts| facts.limit = ProcessLimit::AtMost(1)).cycle();
    assert_eq!(cluster.nodes_of(1), ["a"]);
}

/// F179, L13: a terminating share is not chosen again.
#[test]
fn shedding_more_always_sheds_others() {
    let mut cluster = cluster();
    cluster.confirms_exits = false;
    cluster.nodes("m1=12").arrive(job(1, "ann", "normal", 1)).cycle();
    let mut gone = BTreeSet::new();
    for limit in [8, 5, 1, 0] {
        cluster.change(1, |facts| facts.limit = ProcessLimit::AtMost(limit)).cycle();
        for receipt in receipts(&cluster) {
            assert!(gone.insert(receipt.share), "share {} goes twice", receipt.share);
        }
        assert_eq!((cluster.held(1), gone.len()), (limit, 12 - usize::try_from(limit).unwrap()));
    }
}

/// F180: a terminating share is no longer its job's, and still on its machine.
#[test]
fn a_leaving_share_occupies_and_is_not_held() {
    let mut cluster = cluster();
    cluster.confirms_exits = false;
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.change(1, |facts| facts.limit = ProcessLimit::AtMost(1)).cycle();
    assert_eq!((cluster.held(1), cluster.job(1).shares.len()), (1, 4));
    assert_eq!(cluster.node("m1").used.0, 4);
    assert_eq!(cluster.job(1).cap.unwrap().nshares.0, 1);
}

/// F58, I04: even if the beneficiary no longer needs it.
#[test]
fn a_share_that_was_told_to_leave_leaves() {
    let mut cluster = cluster();
    cluster.confirms_exits = false;
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.arrive(job(2, "bob", "normal", 1)).cycle();
    let told: Vec<_> = receipts(&cluster).iter().map(|receipt| receipt.share).collect();
    assert_eq!(told.len(), 2);
    cluster.complete(2).cycles(2);
    for share in told {
        let known = cluster.job(1).shares.iter().find(|known| known.id == share).unwrap();
        assert_eq!(known.state, SharePhase::Leaving);
    }
    cluster.confirms_exits = true;
    assert_eq!(cluster.cycle().held(1), 4);
}

/// F185: without defragmentation a job within its target loses nothing; with it, a needy job is
/// helped.
#[test]
fn defragmentation_can_be_switched_off() {
    for is_on in [false, true] {
        // Ann has a process on every machine, which is no more than her target.
        let mut cluster = cluster();
        cluster.reconfigure(|topology| topology.settings.defragmentation = is_on);
        spread(&mut cluster, 4);
        cluster.cycle().arrive(at_most(job(9, "bob", "normal", 2), 2)).cycles(4);
        let rules: BTreeSet<_> = receipts(&cluster).iter().map(|receipt| receipt.rule).collect();
        assert!(is_on || !rules.contains(&VictimRule::Defragmentation));
        assert_eq!(cluster.held(9) > 0, is_on, "{}", cluster.picture());
        assert!(is_on || cluster.reason(9) == "fragmented", "{}", cluster.reason(9));
    }
}

/// A process of ann's alone on each of eight nodes of 2 GB that had 1 GB at first. Two more nodes of 2 GB
/// have processes of bob's, who needs 2 GB for each and is owed more of them than two.
fn two_large_beside_eight_small() -> Cluster {
    let mut cluster = cluster();
    spread(&mut cluster, 8);
    cluster.nodes("n1=2 n2=2").arrive(at_most(job(9, "bob", "normal", 2), 4)).cycle();
    assert_eq!(cluster.holdings([1, 2, 3, 4, 5, 6, 7, 8]), [1; 8]);
    cluster
}

/// Registers this many nodes of 1 GB, with a job of ann's on each; then each has 2 GB.
fn spread(cluster: &mut Cluster, nodes: u64) {
    for id in 1..=nodes {
        cluster.nodes(&format!("m{id}=1")).arrive(at_most(job(id, "ann", "normal", 1), 1)).cycle();
    }
    for id in 1..=nodes {
        cluster.nodes(&format!("m{id}=2"));
    }
}

/// F186, F187, D4: a job is needy below the threshold and below its part; at the threshold no job
/// is needy.
#[test]
fn at_the_threshold_no_job_is_needy() {
    for (threshold, is_needy) in [(1, false), (2, false), (3, true), (8, true)] {
        let mut cluster = two_large_beside_eight_small();
        cluster.reconfigure(|topology| {
            topology.settings.defragmentation = false;
            topology.settings.fragmentation_threshold = threshold;
        });
        cluster.cycles(2);
        let planned = cluster.view.planned.as_deref().unwrap();
        let report = planned.schedule.report.jobs.iter().find(|line| line.job == JobId(9)).unwrap();
        assert_eq!((report.held.0, report.promised.0), (2, 0));
        assert!(report.target.0 > 2 && report.pure_fair_share.0 > 4, "{report:?}");
        assert_eq!(report.is_needy, is_needy, "threshold {threshold}");
    }
}

/// F188: a job at its target is never needy; of non-preemptable jobs, only waiting jobs are needy.
#[test]
fn work_that_is_served_is_not_needy() {
    let mut cluster = cluster();
    cluster.nodes("m1=8").arrive(at_most(job(1, "ann", "fixed", 1), 2));
    cluster.arrive(at_most(job(2, "bob", "normal", 1), 3)).cycles(2);
    let planned = cluster.view.planned.as_deref().unwrap();
    assert!(planned.schedule.report.jobs.iter().all(|line| !line.is_needy));
}

/// F189, L14, G15: space that is being freed for a job is not promised to another job. No process
/// is evicted for a job whose space is on its way.
#[test]
fn room_on_its_way_is_promised_once() {
    let mut cluster = cluster();
    cluster.confirms_exits = false;
    cluster.nodes("m1=4 m2=4 m3=4").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.arrive(job(2, "bob", "normal", 4)).arrive(job(3, "cid", "normal", 4)).cycle();
    let gone = receipts(&cluster);
    assert_eq!(gone.len(), 8, "one machine for each");
    let nodes = |id| -> BTreeSet<_> {
        let of_id = gone.iter().filter(|receipt| receipt.beneficiary == Some(JobId(id)));
        of_id.map(|receipt| receipt.node).collect()
    };
    assert_eq!((nodes(2).len(), nodes(3).len()), (1, 1));
    assert!(nodes(2).is_disjoint(&nodes(3)));
    cluster.cycles(5);
    assert_eq!(receipts(&cluster), [], "no more while the exits are awaited");
    assert_eq!(cluster.holdings([1, 2, 3]), [4, 0, 0]);
    cluster.confirms_exits = true;
    assert_eq!(cluster.cycle().holdings([1, 2, 3]), [4, 1, 1]);
}

/// F190, F196: the richest gives first, and no other job while the richest can give.
#[test]
fn the_richest_gives() {
    let mut cluster = cluster();
    cluster.nodes("m1=12");
    cluster.arrive(at_most(job(1, "ann", "normal", 1), 7));
    cluster.arrive(at_most(job(2, "bob", "normal", 1), 3));
    cluster.arrive(at_most(job(3, "cid", "normal", 1), 2)).cycle();
    assert_eq!(cluster.holdings([1, 2, 3]), [7, 3, 2]);
    cluster.arrive(job(4, "dan", "normal", 1)).cycles(2);
    assert_eq!(cluster.holdings([1, 2, 3, 4]), [4, 3, 2, 3], "{}", cluster.picture());
}

/// F191: only a machine that is large enough, on which enough can be taken, in a pool it may use.
#[test]
fn nothing_is_taken_where_it_would_not_help() {
    let pools = vec![pool("one", None, "a b"), pool("other", None, "c")];
    let mut elsewhere = fair("elsewhere", 100, UNPACED);
    elsewhere.pool = PoolIx(1);
    let classes = vec![
        fair("normal", 100, UNPACED),
        fair("heavy", 400, UNPACED),
        class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
        elsewhere,
    ];
    let mut cluster =
        Cluster::new(Topology { pools: pools.into(), classes: classes.into(), ..topology() });
    cluster.nodes("a=4 b=2 c=8").arrive(single(1, "zoe", "fixed", 2, JobKind::Service)).cycle();
    let on = cluster.nodes_of(1)[0].to_owned();
    cluster.arrive(job(2, "ann", "normal", 1)).arrive(job(3, "ann", "elsewhere", 1)).cycle();
    cluster.arrive(job(4, "bob", "heavy", 4)).cycles(3);
    if on == "a" {
        assert_eq!(cluster.held(4), 0);
        assert_eq!(cluster.holdings([2, 3]), [4, 8], "{}", cluster.picture());
    } else {
        assert_eq!(cluster.holdings([2, 3, 4]), [0, 8, 1], "{}", cluster.picture());
    }
}

/// F192, L29, D5: many jobs may take from the same donor, which never ends below its target.
#[test]
fn many_may_take_from_one_donor() {
    let mut cluster = cluster();
    cluster.reconfigure(|topology| topology.settings.fragmentation_threshold = 4);
    cluster.nodes("m1=16").arrive(job(1, "ann", "normal", 1)).cycle();
    for (id, user) in [(2, "bob"), (3, "cid"), (4, "dan")] {
        cluster.arrive(job(id, user, "normal", 1));
    }
    for _ in 0..4 {
        cluster.cycle();
        assert!(cluster.held(1) >= 4, "{}", cluster.picture());
    }
    assert_eq!(cluster.holdings([1, 2, 3, 4]), [4, 4, 4, 4]);
}

/// F192, D5: a needy job that has something gets no help that makes another job needy.
#[test]
fn a_donor_never_becomes_needy() {
    let mut cluster = two_large_beside_eight_small();
    for remaining in 100..110 {
        // Work makes progress: targets decide, and not holdings.
        cluster.change(9, |facts| facts.remaining = remaining).cycle();
        assert_eq!(cluster.holdings([1, 2, 3, 4, 5, 6, 7, 8]), [1; 8], "{}", cluster.picture());
    }
    assert_eq!((cluster.held(9), cluster.reason(9)), (2, "fragmented"));
}

/// F193: a job of higher priority never gives to a job of lower priority.
#[test]
fn better_priorities_never_give() {
    let mut cluster = with(vec![
        class("urgent", ClassPolicy::FairShare { weight: 1 }, 2, UNPACED),
        fair("normal", 1000, UNPACED),
    ]);
    cluster.nodes("m1=4 m2=4").arrive(job(1, "ann", "urgent", 1)).cycle();
    cluster.arrive(job(2, "bob", "normal", 1)).arrive(job(3, "cid", "normal", 4)).cycles(5);
    assert_eq!(cluster.holdings([1, 2, 3]), [8, 0, 0]);
    assert_eq!(cluster.reason(2), "nothing_left");
}

/// F193, G11: uninitialized processes are preempted like any process: a large job does not wait for
/// them.
#[test]
fn initializing_processes_give_too() {
    let mut cluster = cluster();
    cluster.nodes("m1=8 m2=8");
    let mut fresh = job(1, "ann", "normal", 1);
    fresh.facts.is_running = false;
    cluster.arrive(fresh).cycle();
    cluster.arrive(job(2, "bob", "normal", 8)).cycles(3);
    assert_eq!(cluster.holdings([1, 2]), [8, 1], "{}", cluster.picture());
}

/// F195: a superfluous victim is spared, even if it is cheap.
#[test]
fn no_victim_is_superfluous() {
    let mut cluster = with(vec![
        class("urgent", ClassPolicy::FairShare { weight: 1 }, 2, UNPACED),
        fair("normal", 1, UNPACED),
    ]);
    cluster.nodes("m1=5").arrive(at_most(job(1, "ann", "normal", 1), 1));
    cluster.arrive(at_most(job(2, "ann", "normal", 4), 1)).cycle().invest(2, 1_000_000);
    assert_eq!(cluster.holdings([1, 2]), [1, 1]);
    cluster.arrive(at_most(job(3, "bob", "urgent", 4), 1)).cycle();
    assert_eq!(cluster.holdings([1, 2]), [1, 0], "{}", cluster.picture());
    assert_eq!(cluster.cycle().held(3), 1);
}

/// F197, F153: where anything stays on a machine, nothing on it is taken for a reservation.
#[test]
fn a_node_that_cannot_be_cleared_is_left_alone() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").arrive(single(1, "ann", "fixed", 1, JobKind::Service));
    cluster.arrive(job(2, "bob", "normal", 1)).cycle();
    cluster.arrive(single(3, "cid", "reserve", 4, JobKind::Reservation)).cycles(4);
    assert_eq!(cluster.holdings([1, 2, 3]), [1, 3, 0]);
    cluster.arrive(single(4, "cid", "reserve", 3, JobKind::Reservation)).cycles(2);
    assert_eq!((cluster.held(4), cluster.reason(4)), (0, "impossible"));
}

/// F199, I17: jobs of all sizes on machines of all sizes come to rest.
#[test]
fn a_cluster_settles_with_all_sizes() {
    for nodes in ["m1=16 m2=16", "m1=7 m2=5 m3=9 m4=3", "m1=12 m2=12 m3=4 m4=4 m5=4"] {
        let mut cluster = cluster();
        cluster.nodes(nodes);
        for (id, order) in (1..).zip([1, 1, 2, 3, 4, 5, 1, 7, 2, 12]) {
            cluster.arrive(job(
                id,
                ["ann", "bob", "cid"][usize::try_from(id % 3).unwrap()],
                "normal",
                order,
            ));
            cluster.cycle();
        }
        cluster.cycles(20);
        for _ in 0..50 {
            assert_eq!(cluster.cycle().preempted(), 0, "{}", cluster.picture());
        }
    }
}

/// Preemptions in each of `cycles` cycles, without the preemption stop. Ann has a job of order 6
/// and a job of order 1 that can use 3; Bob has the rest.
fn preempted_between_two_levels(cycles: usize) -> Vec<usize> {
    let mut topology = topology();
    topology.settings.quiet_stop = None;
    topology.classes = vec![fair("normal", 100, UNPACED)].into();
    let mut cluster = Cluster::new(topology);
    cluster.nodes("m1=27 m2=12").arrive(job(1, "ann", "normal", 6));
    cluster.arrive(at_most(job(2, "ann", "normal", 1), 3)).arrive(job(3, "bob", "normal", 1));
    (0..cycles).map(|_| cluster.cycle().preempted()).collect()
}

/// I17: if the large process counted before the small processes, a cycle would arise. Ann's small
/// job would take from her large job, the large job from Bob, and Bob from the small job. Targets
/// and holdings agree instead.
#[test]
fn at_rest_counts_and_holdings_do_not_take_turns_for_long() {
    let preempted = preempted_between_two_levels(30);
    assert_eq!(preempted.iter().rposition(|many| *many > 0), None, "{preempted:?}");
}

/// Of three, Ann's process of 1 has a target, and so has a process of Bob's, who may only use the
/// node of 2. Ann's process of 2 is more than the rest: it makes way at once.
#[test]
fn a_large_process_that_is_not_counted_makes_way_for_one_that_is() {
    let pools = vec![pool("top", None, "a"), pool("sub", Some(0), "b")];
    let mut inner = fair("inner", 100, UNPACED);
    inner.pool = PoolIx(1);
    let classes = vec![fair("normal", 100, UNPACED), inner];
    let mut cluster =
        Cluster::new(Topology { pools: pools.into(), classes: classes.into(), ..topology() });
    cluster.nodes("a=1 b=2").arrive(at_most(job(1, "ann", "normal", 2), 1));
    cluster.arrive(at_most(job(2, "ann", "normal", 1), 1)).cycle();
    cluster.arrive(at_most(job(3, "bob", "inner", 1), 1));
    let rules: Vec<_> = (0..5).flat_map(|_| receipts(cluster.cycle())).collect();
    let rules: Vec<_> = rules.iter().map(|receipt| (receipt.job.0, receipt.rule)).collect();
    assert_eq!(rules, [(1, VictimRule::FairShare)], "{}", cluster.picture());
    assert_eq!(cluster.holdings([1, 2, 3]), [0, 1, 1]);
}

/// Ann's process on the second node is leaving in any case, and no other job waits for that space.
#[test]
fn room_that_comes_anyway_is_waited_for_and_nothing_is_taken() {
    let mut cluster = cluster();
    cluster.confirms_exits = false;
    cluster.nodes("m1=4 m2=1");
    for (id, limit, node) in [(1, 4, "m1"), (2, 1, "m2")] {
        let mut listed = at_most(job(id, "ann", "normal", 1), limit);
        listed.nodes = vec![node.to_owned()];
        cluster.arrive(listed);
    }
    assert_eq!(cluster.cycle().holdings([1, 2]), [4, 1]);
    cluster.change(2, |facts| facts.limit = ProcessLimit::AtMost(0));
    cluster.arrive(at_most(job(3, "bob", "normal", 1), 1)).cycle();
    let told: Vec<_> = receipts(&cluster).iter().map(|gone| (gone.job.0, gone.rule)).collect();
    assert_eq!(told, [(2, VictimRule::NoLongerAllowed)], "{}", cluster.picture());
    assert_eq!(cluster.job(3).promised.0, 1);
    cluster.confirms_exits = true;
    assert_eq!(cluster.cycle().holdings([1, 2, 3]), [4, 0, 1]);
    assert_eq!(cluster.nodes_of(3), ["m2"]);
}
