//! Targets in small clusters: jobs with node lists, nodes out of scheduling, and nested pools.

use std::sync::Arc;

use super::set_targets;
use crate::audit::tests::{ANN, APART, BOB, FAIR, FIXED, HEAVY, LOW, RESERVE, SUB, Scene, TOP};
use crate::engine::draft::{CountRefusal, Draft};
use crate::model::{
    ClassIx, JobId, JobIx, JobKind, Mebibytes, NodeIx, Order, PoolIx, ProcessLimit, QShares, UserIx,
};

/// User and class, order, demand processes, listed nodes, and processes already on nodes.
type Work<'a> = ((UserIx, ClassIx), u32, u64, &'a [usize], &'a [(usize, u64)]);

/// No list: the job may use any node.
const ANYWHERE: &[usize] = &[];

/// Node sizes, jobs in order of age, and the expected target of each job in processes.
type Case<'a> = (&'a [u64], &'a [Work<'a>], &'a [u64]);

fn scene(nodes: &[u64], work: &[Work<'_>]) -> Scene {
    let mut scene = Scene::new(nodes);
    for &((user, class), order, demand, list, held) in work {
        let job = scene.job(user, class, order, demand);
        if list != ANYWHERE {
            confine(&mut scene, job, list);
        }
        for &(node, processes) in held {
            scene.hold(job, processes, node);
        }
    }
    scene
}

fn confine(scene: &mut Scene, job: JobId, list: &[usize]) {
    scene.edit(job).nodes = Some(list.iter().copied().map(NodeIx).collect());
}

/// Result of `look` after all targets are computed.
fn after_counting<T>(scene: &Scene, look: impl FnOnce(&Draft<'_>) -> T) -> T {
    let mut draft = Draft::new(&scene.snapshot);
    set_targets(&mut draft);
    look(&draft)
}

/// Targets of all jobs in processes, the oldest job first.
fn counted(scene: &Scene) -> Vec<u64> {
    after_counting(scene, |draft| draft.jobs.iter().map(|job| job.target.0).collect())
}

fn check(cases: &[Case<'_>]) {
    for (nodes, work, expected) in cases {
        assert_eq!(counted(&scene(nodes, work)), *expected, "{nodes:?} {work:?}");
    }
}

/// The ideal cluster has sizes and no names: it would have space for more processes, on other
/// nodes.
#[test]
fn those_confined_to_the_same_nodes_are_counted_what_these_hold() {
    let (ann, bob) = ((ANN, FAIR), (BOB, FAIR));
    check(&[
        (&[4, 4], &[(ann, 1, 9, &[0], &[])], &[4]),
        (&[4, 4], &[(ann, 1, 9, &[0], &[]), (bob, 1, 9, &[0], &[])], &[2, 2]),
        // Jobs with disjoint lists do not compete.
        (&[4, 4], &[(ann, 1, 9, &[0], &[]), (bob, 1, 9, &[1], &[])], &[4, 4]),
        // Two processes of order 2 do not fit on a node of 3.
        (&[3, 3, 4], &[(ann, 2, 9, &[0, 1], &[])], &[2]),
        (&[3, 3, 4], &[(ann, 2, 9, ANYWHERE, &[])], &[4]),
    ]);
}

/// The node of a job with the longer list is not known yet: it does not use up the shorter list.
#[test]
fn a_job_listed_on_some_nodes_counts_against_all_of_them() {
    let (ann, bob) = ((ANN, FAIR), (BOB, FAIR));
    check(&[
        (&[2, 2, 4], &[(ann, 1, 9, &[0], &[]), (bob, 1, 9, &[0, 1], &[])], &[2, 2]),
        (&[2, 4, 4], &[(ann, 1, 9, &[0], &[]), (bob, 1, 9, &[0, 1], &[])], &[2, 4]),
        // The lists have a node in common, and neither contains the other.
        (&[2, 2, 2], &[(ann, 1, 9, &[0, 1], &[]), (bob, 1, 9, &[1, 2], &[])], &[3, 3]),
    ]);
}

#[test]
fn fixed_jobs_leave_less_of_their_node_to_jobs_that_list_it() {
    let (fixed, ann, bob) = ((BOB, FIXED), (ANN, FAIR), (BOB, FAIR));
    check(&[
        (&[4, 4], &[(fixed, 3, 1, &[0], &[]), (ann, 1, 9, &[0], &[])], &[1, 1]),
        // And so to all of them together.
        (
            &[4, 4],
            &[(fixed, 3, 1, &[0], &[]), (ann, 1, 9, &[0], &[]), (bob, 1, 9, &[0], &[])],
            &[1, 1, 0],
        ),
        (&[4, 4], &[(fixed, 3, 1, &[0], &[]), (ann, 1, 9, &[0, 1], &[])], &[1, 5]),
        (&[8, 8], &[(fixed, 2, 1, &[0], &[]), (ann, 6, 1, &[0], &[])], &[1, 1]),
    ]);
}

/// The smaller node would be the better fit, but it is not listed. Counting the job there would
/// leave the larger node to a job that could never have it.
#[test]
fn fixed_work_is_counted_on_the_node_that_it_lists() {
    let (fixed, ann) = ((BOB, FIXED), (ANN, FAIR));
    check(&[
        (&[2, 5], &[(fixed, 1, 1, &[1], &[]), (ann, 5, 1, ANYWHERE, &[])], &[1, 0]),
        (&[2, 5], &[(fixed, 1, 1, ANYWHERE, &[]), (ann, 5, 1, ANYWHERE, &[])], &[1, 1]),
        // The same cases with a node that is in use already.
        (&[2, 5], &[(fixed, 1, 2, &[1], &[(1, 1)]), (ann, 4, 1, ANYWHERE, &[])], &[2, 0]),
        (&[2, 5], &[(fixed, 1, 2, ANYWHERE, &[(1, 1)]), (ann, 4, 1, ANYWHERE, &[])], &[2, 1]),
        // The listed node has no space for the job: its target is 0.
        (&[2, 5], &[(fixed, 4, 1, &[0], &[]), (ann, 5, 1, ANYWHERE, &[])], &[0, 1]),
    ]);
}

#[test]
fn a_reservation_is_counted_where_a_listed_node_of_its_size_is_empty() {
    let (fixed, reserve) = ((BOB, FIXED), (ANN, RESERVE));
    check(&[
        (&[4, 4], &[(reserve, 4, 1, &[0], &[])], &[1]),
        (&[5, 4], &[(reserve, 4, 1, &[0], &[])], &[0]),
        // The free part of the node has the size, but is not the whole node.
        (&[6, 4], &[(fixed, 2, 1, ANYWHERE, &[(0, 1)]), (reserve, 4, 1, &[0], &[])], &[1, 0]),
        (&[6, 4], &[(fixed, 2, 1, ANYWHERE, &[(0, 1)]), (reserve, 4, 1, ANYWHERE, &[])], &[1, 1]),
    ]);
}

/// Otherwise a job that lists it beside a second node would get too high a target. Only the second
/// node could hold it, and another job is confined there.
#[test]
fn a_listed_node_that_may_not_be_used_makes_a_list_no_longer() {
    let cases = [(false, TOP, [6, 4]), (true, TOP, [2, 2]), (false, APART, [2, 2])];
    for (is_varied_off, pool, expected) in cases {
        let work: [Work<'_>; 2] =
            [((ANN, FAIR), 1, 6, &[0, 1], &[]), ((BOB, FAIR), 1, 4, &[1], &[])];
        let mut scene = scene(&[8, 4, 4], &work);
        scene.node(0).state.is_varied_off = is_varied_off;
        scene.node(0).pool = pool;
        assert_eq!(counted(&scene), expected, "{is_varied_off} {pool:?}");
    }
}

/// Shares of fair-share jobs stay where they are. The rest of the targets is kept free on the
/// listed nodes, on any of them.
#[test]
fn worse_priorities_are_counted_what_better_ones_leave_of_the_nodes_they_list() {
    let (ann, bob, low, other) = ((ANN, FAIR), (BOB, FAIR), (BOB, LOW), (ANN, LOW));
    check(&[
        // Ann's job has the whole node: the space for its target is elsewhere.
        (&[4, 4], &[(ann, 1, 4, ANYWHERE, &[(0, 4)]), (low, 1, 9, &[0], &[])], &[4, 0]),
        (&[4, 4], &[(ann, 1, 4, ANYWHERE, &[(0, 3)]), (low, 1, 9, &[0], &[])], &[4, 1]),
        // Ann's job has nothing yet. Without a list it may go where no other job is confined.
        (&[4, 4], &[(ann, 1, 3, &[0], &[]), (low, 1, 9, &[0], &[])], &[3, 1]),
        (&[4, 4], &[(ann, 1, 3, ANYWHERE, &[]), (low, 1, 9, &[0], &[])], &[3, 4]),
        // A process that is there and two to come need space for three, not for four.
        (&[4, 4], &[(ann, 1, 3, &[0], &[(0, 1)]), (low, 1, 9, &[0], &[])], &[3, 1]),
        (&[8, 8], &[(ann, 1, 6, &[0], &[(0, 3)]), (low, 1, 9, &[0], &[])], &[6, 2]),
        // A process on a node that is not listed does not reduce the space that is kept for the
        // job.
        (&[4, 4], &[(ann, 1, 3, &[0], &[(1, 1)]), (low, 1, 9, &[0], &[])], &[3, 1]),
        // Ann's job has more than its target: the excess goes to its peers, and not to lower
        // priorities.
        (
            &[4],
            &[(ann, 1, 4, &[0], &[(0, 4)]), (bob, 1, 2, ANYWHERE, &[]), (low, 1, 9, &[0], &[])],
            &[2, 2, 0],
        ),
        // Ann's job may go to either node. Lower priorities have space on each of them, but not on
        // both.
        (&[4, 4], &[(ann, 1, 4, &[0, 1], &[]), (low, 1, 9, &[0], &[])], &[4, 4]),
        (&[4, 4], &[(ann, 1, 6, &[0, 1], &[]), (low, 1, 9, &[0], &[])], &[6, 2]),
        (
            &[4, 4],
            &[(ann, 1, 4, &[0, 1], &[]), (low, 1, 9, &[0], &[]), (other, 1, 9, &[1], &[])],
            &[4, 2, 2],
        ),
    ]);
}

/// Shares above the maximum are preempted in this cycle.
#[test]
fn what_goes_for_its_maximum_is_left_to_worse_priorities() {
    for (limit, expected) in [(ProcessLimit::Unlimited, [3, 1]), (ProcessLimit::AtMost(1), [1, 3])]
    {
        let work: [Work<'_>; 2] =
            [((ANN, FAIR), 1, 3, ANYWHERE, &[(0, 3)]), ((BOB, LOW), 1, 9, &[0], &[])];
        let mut scene = scene(&[4, 4], &work);
        scene.edit(JobId(1)).facts.limit = limit;
        assert_eq!(counted(&scene), expected, "{limit:?}");
    }
}

/// No other job could use their space. So they are added to targets before the rest is divided, and
/// their job gets less of that.
#[test]
fn processes_on_nodes_out_of_scheduling_count_for_their_job() {
    let cases = [
        (false, ProcessLimit::Unlimited, [4, 4]),
        (true, ProcessLimit::Unlimited, [3, 3]), // 2 there, and 4 to share elsewhere
        (true, ProcessLimit::AtMost(1), [1, 4]), // what is above its maximum goes
        (true, ProcessLimit::AtMost(0), [0, 4]),
    ];
    for (is_varied_off, limit, expected) in cases {
        let work: [Work<'_>; 2] =
            [((ANN, FAIR), 1, 9, ANYWHERE, &[(0, 2)]), ((BOB, FAIR), 1, 9, ANYWHERE, &[])];
        let mut scene = scene(&[4, 4], &work);
        scene.node(0).state.is_varied_off = is_varied_off;
        scene.edit(JobId(1)).facts.limit = limit;
        assert_eq!(counted(&scene), expected, "{is_varied_off} {limit:?}");
    }
}

#[test]
fn nothing_is_left_for_jobs_larger_than_the_largest_space() {
    let left = |left| Some(CountRefusal::NothingLeft { left: QShares(left) });
    let cases: [(u32, &[usize], Option<CountRefusal>); 6] = [
        (3, ANYWHERE, None),
        (4, ANYWHERE, None), // it fits exactly
        (5, ANYWHERE, left(4)),
        (2, &[1], None),
        (3, &[1], None),
        (4, &[1], left(3)),
    ];
    for (order, list, refusal) in cases {
        let scene = scene(&[4, 3], &[((ANN, FAIR), order, 1, list, &[])]);
        assert_eq!(
            after_counting(&scene, |draft| draft.jobs[JobIx(0)].refusal),
            refusal,
            "{order} {list:?}"
        );
    }
}

/// `TOP` has a node of 6, `SUB`, which lies in it, a node of 3, and the tree `APART` a node of 9.
/// `HEAVY` has twice the weight of the other class.
#[test]
fn classes_compete_where_one_may_use_the_pool_of_the_other() {
    let cases: [(PoolIx, PoolIx, [u64; 2]); 6] = [
        (TOP, TOP, [3, 6]),
        (TOP, SUB, [3, 2]),
        (SUB, TOP, [1, 6]),
        (SUB, SUB, [1, 2]),
        (TOP, APART, [9, 9]),
        (SUB, APART, [3, 9]),
    ];
    for (pool, heavy_pool, fair_share) in cases {
        let work: [Work<'_>; 2] =
            [((ANN, FAIR), 1, 9, ANYWHERE, &[]), ((BOB, HEAVY), 1, 9, ANYWHERE, &[])];
        let mut scene = scene(&[6, 3, 9], &work);
        scene.node(1).pool = SUB;
        scene.node(2).pool = APART;
        let topology = Arc::make_mut(&mut scene.snapshot.topology);
        topology.classes[FAIR].pool = pool;
        topology.classes[HEAVY].pool = heavy_pool;
        let shares = |draft: &Draft<'_>| [0, 1].map(|job| draft.jobs[JobIx(job)].pure_fair_share.0);
        assert_eq!(after_counting(&scene, shares), fair_share, "{pool:?} {heavy_pool:?}");
    }
}

/// After a change of the quantum, shares of fixed work keep their size. The rest of the target
/// counts at the size that the job asks for now.
#[test]
fn fixed_work_is_counted_what_it_has_at_the_size_of_that() {
    let mut scene = scene(&[12], &[((ANN, FIXED), 3, 3, ANYWHERE, &[(0, 1)])]);
    scene.edit(JobId(1)).shares[0].order = Order::new(2).unwrap();
    assert_eq!(after_counting(&scene, |draft| draft.targets.jobs[JobIx(0)]), 8);
}

/// Two reservations for nodes of 4, or of 5 if need be, and the allotment of their user. There are
/// two nodes of 4, and a node of 5 that may be in another pool or not on their lists. Their nodes
/// are not known yet.
#[test]
fn a_reservation_uses_up_as_much_allotment_as_the_largest_node_it_might_get() {
    let cases: [(u64, PoolIx, &[usize], [u64; 2]); 6] = [
        (9, TOP, ANYWHERE, [1, 1]),
        (8, TOP, ANYWHERE, [1, 0]), // the first might get the 5
        (8, SUB, ANYWHERE, [1, 1]), // not in another pool
        (8, TOP, &[0, 1], [1, 1]),  // nor one that it does not list
        (4, TOP, ANYWHERE, [1, 0]), // nor one that is beyond the allotment
        (3, TOP, ANYWHERE, [0, 0]),
    ];
    for (allotment, pool, list, expected) in cases {
        let mut scene = Scene::new(&[4, 4, 5]);
        scene.node(2).pool = pool;
        scene.settings().allotment = Some(Mebibytes::from_gib(allotment));
        for _ in 0..2 {
            let job = scene.job(ANN, RESERVE, 4, 1);
            scene.edit(job).kind = JobKind::Reservation;
            if list != ANYWHERE {
                confine(&mut scene, job, list);
            }
        }
        assert_eq!(counted(&scene), expected, "{allotment} {pool:?} {list:?}");
    }
}

/// Ann may hold 7 and holds 2. The 5 of her first new job are within that, but no node has so much
/// free space. So the next job still gets 2, and the last, of 4, gets nothing.
#[test]
fn what_there_was_no_room_for_uses_up_no_allotment() {
    let fixed = (ANN, FIXED);
    let work: [Work<'_>; 4] = [
        (fixed, 2, 1, ANYWHERE, &[(0, 1)]),
        (fixed, 5, 1, ANYWHERE, &[]),
        (fixed, 2, 1, ANYWHERE, &[]),
        (fixed, 4, 1, ANYWHERE, &[]),
    ];
    let mut scene = scene(&[4, 4], &work);
    scene.settings().allotment = Some(Mebibytes::from_gib(7));
    assert_eq!(counted(&scene), [1, 0, 1, 0]);
}
