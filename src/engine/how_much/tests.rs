//! What is counted for whom, in small clusters: where some work may only be on the machines it
//! lists.

use super::how_much;
use crate::engine::audit::tests::{ANN, APART, BOB, FAIR, FIXED, LOW, RESERVE, Scene, TOP};
use crate::engine::draft::Draft;
use crate::model::{ClassIx, JobId, MachineIx, ProcessLimit, UserIx};

/// Whose it is, the order of its processes and how many it wants, the machines it lists, and how
/// many processes it has on which.
type Work<'a> = ((UserIx, ClassIx), u32, u64, &'a [usize], &'a [(usize, u64)]);

/// Work without a list may be anywhere.
const ANYWHERE: &[usize] = &[];

/// The machines, in order of age the work, and how many processes are counted for each.
type Case<'a> = (&'a [u64], &'a [Work<'a>], &'a [u64]);

fn scene(machines: &[u64], work: &[Work<'_>]) -> Scene {
    let mut scene = Scene::new(machines);
    for &((user, class), order, wanted, list, held) in work {
        let job = scene.job(user, class, order, wanted);
        if list != ANYWHERE {
            confine(&mut scene, job, list);
        }
        for &(machine, processes) in held {
            scene.hold(job, processes, machine);
        }
    }
    scene
}

fn confine(scene: &mut Scene, job: JobId, list: &[usize]) {
    scene.edit(job).machines = Some(list.iter().copied().map(MachineIx).collect());
}

/// What `look` sees once everything is counted.
fn after_counting<T>(scene: &Scene, look: impl FnOnce(&Draft<'_>) -> T) -> T {
    let mut draft = Draft::new(&scene.snapshot);
    how_much(&mut draft);
    look(&draft)
}

/// How many processes are counted for each job, the oldest first.
fn counted(scene: &Scene) -> Vec<u64> {
    after_counting(scene, |draft| draft.jobs.iter().map(|job| job.given).collect())
}

fn check(cases: &[Case<'_>]) {
    for (machines, work, expected) in cases {
        assert_eq!(counted(&scene(machines, work)), *expected, "{machines:?} {work:?}");
    }
}

/// The ideal cluster has sizes and no names: it would have room for more of them, elsewhere.
#[test]
fn those_confined_to_the_same_machines_are_counted_what_these_hold() {
    let (ann, bob) = ((ANN, FAIR), (BOB, FAIR));
    check(&[
        (&[4, 4], &[(ann, 1, 9, &[0], &[])], &[4]),
        (&[4, 4], &[(ann, 1, 9, &[0], &[]), (bob, 1, 9, &[0], &[])], &[2, 2]),
        // Who has another list has other machines.
        (&[4, 4], &[(ann, 1, 9, &[0], &[]), (bob, 1, 9, &[1], &[])], &[4, 4]),
        // Two of order 2 are too large together for one machine of 3.
        (&[3, 3, 4], &[(ann, 2, 9, &[0, 1], &[])], &[2]),
        (&[3, 3, 4], &[(ann, 2, 9, ANYWHERE, &[])], &[4]),
    ]);
}

/// Where those with the longer list go is not known yet: they do not use up the shorter one.
#[test]
fn whoever_is_confined_to_some_of_the_machines_counts_against_all_of_them() {
    let (ann, bob) = ((ANN, FAIR), (BOB, FAIR));
    check(&[
        (&[2, 2, 4], &[(ann, 1, 9, &[0], &[]), (bob, 1, 9, &[0, 1], &[])], &[2, 2]),
        (&[2, 4, 4], &[(ann, 1, 9, &[0], &[]), (bob, 1, 9, &[0, 1], &[])], &[2, 4]),
        // The lists have a machine in common, and neither has all of the other's.
        (&[2, 2, 2], &[(ann, 1, 9, &[0, 1], &[]), (bob, 1, 9, &[1, 2], &[])], &[3, 3]),
    ]);
}

#[test]
fn fixed_work_leaves_less_of_its_machine_to_those_who_list_it() {
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

/// The smaller machine would be the better fit, but it is not listed: what is counted there would
/// leave the larger one to somebody who could never have it.
#[test]
fn fixed_work_is_counted_on_the_machine_that_it_lists() {
    let (fixed, ann) = ((BOB, FIXED), (ANN, FAIR));
    check(&[
        (&[2, 5], &[(fixed, 1, 1, &[1], &[]), (ann, 5, 1, ANYWHERE, &[])], &[1, 0]),
        (&[2, 5], &[(fixed, 1, 1, ANYWHERE, &[]), (ann, 5, 1, ANYWHERE, &[])], &[1, 1]),
        // The same where the machine is in use already.
        (&[2, 5], &[(fixed, 1, 2, &[1], &[(1, 1)]), (ann, 4, 1, ANYWHERE, &[])], &[2, 0]),
        (&[2, 5], &[(fixed, 1, 2, ANYWHERE, &[(1, 1)]), (ann, 4, 1, ANYWHERE, &[])], &[2, 1]),
        // Its machine has no room for it: it is counted nowhere.
        (&[2, 5], &[(fixed, 4, 1, &[0], &[]), (ann, 5, 1, ANYWHERE, &[])], &[0, 1]),
    ]);
}

#[test]
fn a_reservation_is_counted_where_a_listed_machine_of_its_size_is_empty() {
    let (fixed, reserve) = ((BOB, FIXED), (ANN, RESERVE));
    check(&[
        (&[4, 4], &[(reserve, 4, 1, &[0], &[])], &[1]),
        (&[5, 4], &[(reserve, 4, 1, &[0], &[])], &[0]),
        // What is left of the machine has the size, but is not all of it.
        (&[6, 4], &[(fixed, 2, 1, ANYWHERE, &[(0, 1)]), (reserve, 4, 1, &[0], &[])], &[1, 0]),
        (&[6, 4], &[(fixed, 2, 1, ANYWHERE, &[(0, 1)]), (reserve, 4, 1, ANYWHERE, &[])], &[1, 1]),
    ]);
}

/// Else whoever lists it beside another would be counted what only the other could hold, and which
/// others are confined to.
#[test]
fn a_listed_machine_that_may_not_be_used_makes_a_list_no_longer() {
    let cases = [(false, TOP, [6, 4]), (true, TOP, [2, 2]), (false, APART, [2, 2])];
    for (is_varied_off, pool, expected) in cases {
        let work: [Work<'_>; 2] =
            [((ANN, FAIR), 1, 6, &[0, 1], &[]), ((BOB, FAIR), 1, 4, &[1], &[])];
        let mut scene = scene(&[8, 4, 4], &work);
        scene.machine(0).state.is_varied_off = is_varied_off;
        scene.machine(0).pool = pool;
        assert_eq!(counted(&scene), expected, "{is_varied_off} {pool:?}");
    }
}

/// What fair-share work has stays where it is. What it is still to have is kept for it on the
/// machines that it lists, wherever there it will be.
#[test]
fn worse_priorities_are_counted_what_better_ones_leave_of_the_machines_they_list() {
    let (ann, bob, low, other) = ((ANN, FAIR), (BOB, FAIR), (BOB, LOW), (ANN, LOW));
    check(&[
        // It has all of the machine: the room that is counted for is elsewhere.
        (&[4, 4], &[(ann, 1, 4, ANYWHERE, &[(0, 4)]), (low, 1, 9, &[0], &[])], &[4, 0]),
        (&[4, 4], &[(ann, 1, 4, ANYWHERE, &[(0, 3)]), (low, 1, 9, &[0], &[])], &[4, 1]),
        // It has nothing yet. Without a list it may go to where nobody else is confined.
        (&[4, 4], &[(ann, 1, 3, &[0], &[]), (low, 1, 9, &[0], &[])], &[3, 1]),
        (&[4, 4], &[(ann, 1, 3, ANYWHERE, &[]), (low, 1, 9, &[0], &[])], &[3, 4]),
        // One process that is there and two to come need room for three, not for four.
        (&[4, 4], &[(ann, 1, 3, &[0], &[(0, 1)]), (low, 1, 9, &[0], &[])], &[3, 1]),
        (&[8, 8], &[(ann, 1, 6, &[0], &[(0, 3)]), (low, 1, 9, &[0], &[])], &[6, 2]),
        // What it has on a machine that it does not list takes nothing off what is kept for it.
        (&[4, 4], &[(ann, 1, 3, &[0], &[(1, 1)]), (low, 1, 9, &[0], &[])], &[3, 1]),
        // It has more than was counted for it: that goes to its peers, and not to worse work.
        (
            &[4],
            &[(ann, 1, 4, &[0], &[(0, 4)]), (bob, 1, 2, ANYWHERE, &[]), (low, 1, 9, &[0], &[])],
            &[2, 2, 0],
        ),
        // It may go to either machine. Worse work has room on each of them, but not on both.
        (&[4, 4], &[(ann, 1, 4, &[0, 1], &[]), (low, 1, 9, &[0], &[])], &[4, 4]),
        (&[4, 4], &[(ann, 1, 6, &[0, 1], &[]), (low, 1, 9, &[0], &[])], &[6, 2]),
        (
            &[4, 4],
            &[(ann, 1, 4, &[0, 1], &[]), (low, 1, 9, &[0], &[]), (other, 1, 9, &[1], &[])],
            &[4, 2, 2],
        ),
    ]);
}

/// What is above the maximum leaves in this cycle.
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
