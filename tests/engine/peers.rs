//! The cases that other schedulers test themselves with, as they must come out here.
//!
//! Facts of their test tables, in our words: a queue is a class or a user of a class, a reclaiming
//! job takes from a job with more, a job that may not be preempted is fixed-share work. A unit is a
//! quantum. Where the other scheduler guarantees a base, the figure follows pure weights. The name
//! of each test is the other scheduler, the number of the case, and the claim.
//!
//! Not here, because they test what does not exist here, or is tested elsewhere:
//!
//! | case | why |
//! |---|---|
//! | KAI 9, Kueue 25 | weight 0: refused by the configuration (`src/config/tests.rs`, row 62) |
//! | Kueue 22 | is the second half of Kueue 21 |
//! | Volcano 32 | classes cannot be closed |
//! | Volcano 33 | order of arrival decides nothing: `tests/engine/invariants.rs` |
//! | Nomad 42 | the least work lost decides, then the newest goes (decision D1); who loses already does not count |
//! | OpenPBS 44, 49 | past usage does not count |
//! | OpenPBS 50 | no node buckets yet |
//! | Slurm 51 | no minimum run time yet |
//! | Slurm fair tree | two levels, weights for classes only: see OpenPBS 43 |

use crate::support::script::{Case, Script, cases};

// KAI: `resource_division_test.go`, `reclaimable_test.go`, consolidation.
cases! {
    kai_1_two_that_want_six_of_fifteen_have_six {
        steps: &["m1=15; 1 ann 1x6; 2 bob 1x6"],
        held: "1=6 2=6",
    }
    kai_2_two_that_want_six_of_twelve_leave_nothing {
        steps: &["m1=12; 1 ann 1x6; 2 bob 1x6"],
        held: "1=6 2=6",
    }
    kai_3_eight_by_weights_of_one_to_three {
        classes: "light=1 heavy=3",
        steps: &["m1=8; 1 ann@light 1x6; 2 bob@heavy 1x6"],
        held: "1=2 2=6",
    }
    kai_4_what_a_capped_one_leaves_goes_to_the_other_as_far_as_it_wants {
        steps: &["m1=12; 1 ann 1x5; 2 bob 1x6"],
        held: "1=5 2=6",
    }
    kai_5_eleven_by_weights_of_one_to_four {
        classes: "light=1 heavy=4",
        steps: &["m1=11; 1 ann@light 1x10; 2 bob@heavy 1x10"],
        held: "1=2 2=9",
    }
    kai_6_the_odd_one_of_eleven_goes_to_the_older_and_stays_there {
        steps: &["m1=11; 2 bob 1; 1 ann 1"],
        held: "1=6 2=5",
    }
    kai_7_a_better_priority_beats_any_weight {
        classes: "heavy=10000",
        steps: &["m1=6; 1 ann@heavy 1x6", "2 bob@urgent 1x6"],
        held: "1=0 2=6",
        lost: "1=6",
    }
    kai_8_who_wants_more_gets_what_others_do_not_want {
        steps: &["m1=10; 1 ann 1x7; 2 bob 1x2; 3 cid 1x2"],
        held: "1=6 2=2 3=2",
    }
    kai_8_entitlements_never_add_up_to_more_than_there_is {
        steps: &["m1=10; 1 ann 1x7; 2 bob 1x5; 3 cid 1x2"],
        held: "1=4 2=4 3=2",
    }
    kai_10_a_job_below_its_share_takes_from_jobs_above {
        classes: "two=2 three=3",
        steps: &["m1=5; 1 ann@three 1x2; 2 bob@two 1x3", "1 ann@three 1x3"],
        held: "1=3 2=2",
        lost: "2=1",
    }
    kai_10_a_job_exactly_at_its_share_loses_nothing {
        classes: "two=2 three=3",
        steps: &["m1=5; 9 cid@fixed 1; 1 ann@three 1x2; 2 bob@two 1x2", "1 ann@three 1x3"],
        held: "1=2 2=2",
    }
    kai_10_a_job_below_its_share_loses_nothing {
        classes: "two=2 three=3",
        steps: &["m1=5; 9 cid@fixed 2; 1 ann@three 1x2; 2 bob@two 1x1", "1 ann@three 1x3"],
        held: "1=2 2=1",
    }
    kai_11_who_is_at_its_share_takes_nothing {
        steps: &["m1=8; 1 ann 1x4; 2 bob 1x4", "1 ann 1x5"],
        held: "1=4 2=4",
    }
    /// KAI says no here: the part that a sibling leaves goes to jobs of their class that can use
    /// it.
    kai_11_what_a_sibling_leaves_of_their_class_s_share_counts_for_who_can_use_it {
        classes: "one=1 other=1",
        steps: &["m1=8; 1 ann@one 1x2; 2 bob@one 1x1; 3 cid@other 1x5", "1 ann@one 1x3"],
        held: "1=3 2=1 3=4",
        lost: "3=1",
    }
    kai_12_one_moves_so_that_a_larger_one_fits_and_has_as_much_as_before {
        steps: &["m1=1; 1 ann 1x1", "m2=1; 2 bob 1x1", "m1=2; m2=2; 3 cid 2x1"],
        held: "1=1 2=1 3=1",
        lost: "1=1",
    }
    kai_12_nothing_moves_where_it_would_find_no_space {
        steps: &["m1=1; 1 ann 1x1", "m2=2; 2 bob 1x1; 9 dan@fixed 1 on m2", "m1=2; 3 cid 2x1"],
        held: "1=1 2=1 3=0 9=1",
        why: "3=fair_share_used",
    }
    kai_13_nothing_moves_for_a_whole_node_if_it_may_not {
        steps: &["m1=2; m2=2; 1 ann@fixed 1 on m1; 2 bob@fixed 1 on m2", "3 cid 2x1"],
        held: "1=1 2=1 3=0",
        why: "3=nothing_left",
    }
}

// Kueue: `preemption_fair_test.go`; a, b and c are ann, bob and cid, of nine units.
cases! {
    kueue_14_a_process_goes_from_the_largest_holder {
        steps: &["m1=9; 1 ann 1x3; 2 bob 1x5; 3 cid 1x1", "3 cid 1x2"],
        held: "1=3 2=4 3=2",
        lost: "2=1",
    }
    kueue_15_the_largest_holder_gives_also_to_the_second {
        steps: &["m1=9; 1 ann 1x3; 2 bob 1x5; 3 cid 1x1", "1 ann 1x4"],
        held: "1=4 2=4 3=1",
        lost: "2=1",
    }
    kueue_16_equal_holders_take_nothing {
        steps: &["m1=9; 1 ann 1x3; 2 bob 1x3; 3 cid 1x3", "3 cid 1x4"],
        held: "1=3 2=3 3=3",
    }
    kueue_17_a_swapped_imbalance_takes_nothing {
        steps: &["m1=9; 1 ann 1x3; 2 bob 1x5", "1 ann 1x5"],
        held: "1=4 2=5",
    }
    kueue_17_a_process_of_two_units_takes_from_its_own_rather_than_swap_the_imbalance {
        steps: &["m1=9; 1 ann 1x3; 2 bob 1x5", "3 ann 2x1"],
        held: "1=2 2=5 3=1",
        lost: "1=1",
    }
    kueue_18_lower_priority_goes_first {
        steps: &["m1=9; 1 ann@low 1x2; 2 ann 1x2; 3 bob 1x5", "2 ann 1x4"],
        held: "1=0 2=4 3=5",
        lost: "1=2",
    }
    /// The two cannot both have a process: Bob's part is 7, and Ann's covers her process.
    kueue_19_one_process_that_needs_everything_makes_way_for_one_that_its_part_covers {
        steps: &["m1=9; 2 bob 9x1", "1 ann 2x1"],
        held: "1=1 2=0",
        lost: "2=1",
    }
    kueue_20_a_large_process_is_not_taken_for_one_who_would_then_have_more {
        steps: &["m1=9; 1 ann 2x1; 2 bob 7x1", "3 ann 5x1"],
        held: "1=1 2=1 3=0",
    }
    /// All figures are doubled, for whole units. Of each user the first job has a target, and the second
    /// gives. A preempted process does not come back for another: case 22.
    kueue_21_one_small_process_from_each_of_two_and_it_does_not_flap_back {
        steps: &["m1=18; 1 bob 4x1; 2 bob 5x1; 3 cid 4x1; 4 cid 5x1", "5 ann 7x1"],
        held: "1=1 2=0 3=1 4=0 5=1",
        lost: "2=1 4=1",
    }
    /// With a guaranteed base no process would go; by weights the newcomer gets its turn.
    kueue_23_a_newcomer_s_one_process_takes_no_more_than_the_surplus_of_each {
        steps: &["m1=12; 2 bob 1x7; 3 cid 1x5", "1 ann 4x1"],
        held: "1=1 2=4 3=4",
        lost: "2=3 3=1",
    }
    kueue_24_who_weighs_twice_as_much_may_have_twice_as_much {
        classes: "double=200",
        steps: &["m1=9; 1 ann@double 1x3; 2 bob 1x6", "1 ann@double 1x5"],
        held: "1=5 2=4",
        lost: "2=2",
    }
    kueue_26_own_work_of_worse_priority_first_then_others {
        steps: &["m1=9; 1 ann@low 1x1; 2 ann 1x2; 3 bob 1x6", "2 ann 1x4"],
        held: "1=0 2=4 3=5",
        lost: "1=1 3=1",
    }
}

// Volcano: `reclaim_test.go`, `preempt_test.go`.
cases! {
    volcano_27_of_three_exactly_the_preemptable_one_goes {
        steps: &["m1=3; 1 ann@fixed 1; 2 ann@low 1x1; 3 ann@fixed 1", "4 bob 1x1"],
        held: "1=1 2=0 3=1 4=1",
        lost: "2=1",
    }
    volcano_28_free_space_spares_all_processes {
        steps: &["m1=10; m2=8; 1 ann 1x10 on m1", "2 bob 3x1"],
        held: "1=10 2=1",
    }
    volcano_29_a_job_over_its_allotment_preempts_nothing {
        allotment: 3,
        steps: &["m1=6; 1 ann 1x6", "2 bob@fixed 4"],
        held: "1=6 2=0",
        why: "2=over_allotment",
    }
    volcano_30_only_the_victim_that_makes_enough_space_goes {
        steps: &[
            "m1=3; m2=3; 9 cid@fixed 2 on m1; 1 ann@low 1x1 on m1; 2 ann@low 3x1 on m2",
            "3 bob 3x1",
        ],
        held: "1=1 2=0 3=1",
        lost: "2=1",
    }
    volcano_31_beside_what_is_idle_only_as_many_go_as_are_missing {
        steps: &["m1=6; 9 cid@fixed 1; 1 ann@low 1x2", "3 bob 5x1"],
        held: "1=0 3=1",
        lost: "1=2",
    }
}

// YuniKorn: `preemption_test.go`.
cases! {
    yunikorn_34_of_two_large_victims_exactly_one_goes {
        steps: &["m1=10; 1 ann 5x2", "2 bob 5x1"],
        held: "1=1 2=1",
        lost: "1=1",
    }
    yunikorn_35_an_impossible_process_preempts_nothing {
        steps: &["m1=5; m2=5; 1 ann 5x2", "2 bob@urgent 6x1"],
        held: "1=2 2=0",
        why: "2=impossible",
    }
    yunikorn_36_too_few_victims_spare_all {
        steps: &["m1=5; 9 cid@fixed 1; 1 ann@low 1x4", "2 bob@urgent 5x1"],
        held: "1=4 2=0",
    }
    yunikorn_37_rather_two_victims_than_three {
        steps: &[
            "m1=4; m2=4; m3=4; 1 ann@low 2x2 on m1; 2 ann@low 2x2 on m2; 3 ann@low 2x1 on m3; \
             4 ann@low 1x2 on m3",
            "5 bob@urgent 4x1",
        ],
        held: "3=1 4=2 5=1",
        lost: "any",
    }
    yunikorn_38_jobs_owed_nothing_take_nothing {
        steps: &["m1=6; 1 ann 1x3; 2 bob 1x3", "1 ann 1; 2 bob 1"],
        held: "1=3 2=3",
    }
}

// Nomad: `feasible/preemption_test.go`; OpenPBS; Slurm.
cases! {
    nomad_41_a_victim_that_does_alone_spares_the_smaller_ones {
        steps: &["m1=5; 1 ann@low 4x1; 2 ann@low 1x1", "3 bob@urgent 4x1"],
        held: "1=0 2=1 3=1",
        lost: "1=1",
    }
    /// Without shares of users: all users of a class are equal.
    openpbs_43_a_tree_of_weights_gives_each_leaf_its_part {
        classes: "forty=40 sixty=60",
        steps: &["m1=10; 1 ann@forty 1; 2 bob@forty 1; 3 cid@sixty 1; 4 dan@sixty 1"],
        held: "1=2 2=2 3=3 4=3",
    }
    openpbs_45_with_ten_to_twenty_five_two_of_the_heavier_before_one_of_the_lighter {
        classes: "ten=10 more=25",
        steps: &["m1=3; 1 ann@ten 1; 2 bob@more 1"],
        held: "1=1 2=2",
    }
    openpbs_46_ten_small_ones_go_for_one_large_one_of_better_priority {
        steps: &[
            "m1=10; 1 ann@low 1x1; 2 bob@low 1x1; 3 cid@low 1x1; 4 dan@low 1x1; 5 eve@low 1x1; \
             6 ann@low 1x1; 7 bob@low 1x1; 8 cid@low 1x1; 9 dan@low 1x1; 10 eve@low 1x1",
            "11 fay@urgent 10x1",
        ],
        held: "1=0 10=0 11=1",
        lost: "1=1 2=1 3=1 4=1 5=1 6=1 7=1 8=1 9=1 10=1",
    }
    openpbs_47_the_most_recently_started_goes_first {
        steps: &["m1=2; 1 ann@low 1x1", "2 ann@low 1x1", "3 bob@urgent 1x1"],
        held: "1=1 2=0 3=1",
        lost: "2=1",
    }
    openpbs_48_what_could_not_be_made_space_for_is_tried_again {
        steps: &["m1=4; 9 cid@fixed 2; 1 ann@low 1x2", "2 bob@urgent 4x1", "9 gone"],
        held: "1=0 2=1",
        lost: "1=2",
    }
    slurm_52_an_unusable_node_spares_its_processes {
        steps: &["m1=2; m2=2; 1 ann@low 1x2 on m1; 9 cid@fixed 2 on m2", "2 bob@urgent 1x1 on m2"],
        held: "1=2 2=0",
    }
}

/// Work is preempted for a job that waits for the space; space that becomes free meanwhile serves
/// as well.
#[test]
fn yunikorn_39_a_candidate_that_finishes_meanwhile_spares_the_others() {
    let mut script = Script::new(&Case::default());
    script.step("m1=6; 1 ann 1x6");
    script.settle();
    script.cluster.confirms_exits = false;
    script.step("2 bob 1x2");
    script.cycle();
    script.step("1 exits; 1 exits");
    script.cycle();
    assert_eq!((script.lost(), script.cluster.held(2)), (2, 2), "{}", script.cluster.picture());
    script.cluster.confirms_exits = true;
    script.settle();
    assert_eq!((script.lost(), script.cluster.holdings([1, 2])), (2, [4, 2]));
}

#[test]
fn yunikorn_40_who_has_been_promised_room_takes_no_more_however_long_it_waits() {
    let mut script = Script::new(&Case::default());
    script.step("m1=6; 1 ann 1");
    script.settle();
    script.cluster.confirms_exits = false;
    script.step("2 bob 1");
    let taken = [(); 10].map(|()| script.cycle());
    assert_eq!(taken, [3, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    script.cluster.confirms_exits = true;
    script.settle();
    assert_eq!((script.lost(), script.cluster.holdings([1, 2])), (3, [3, 3]));
}

#[test]
fn htcondor_53_twenty_restarts_in_a_row_change_nothing() {
    let mut script = Script::new(&Case::default());
    script.step(
        "m1=8; m2=4; m3=4; m4=4; 1 ann@reserve 8; 2 ann@fixed 2; 3 cid@stable 1 service; m4 off; \
         4 ann 1; 5 bob 1; 6 bob 2x1; 7 cid 5x1",
    );
    script.settle();
    let before = (script.cluster.picture(), script.cluster.holdings([1, 2, 3, 4, 5, 6, 7]));
    for restart in 1..=20 {
        script.step("restart");
        assert_eq!(script.cycle(), 0, "restart {restart}");
        let now = (script.cluster.picture(), script.cluster.holdings([1, 2, 3, 4, 5, 6, 7]));
        assert_eq!(before, now, "restart {restart}");
    }
}

/// Also while shares are terminating: only these shares go.
#[test]
fn htcondor_53_restarts_amid_preemption_take_no_more() {
    let mut script = Script::new(&Case::default());
    script.step("m1=6; m2=6; 1 ann 1");
    script.settle();
    script.cluster.confirms_exits = false;
    script.step("2 bob 2x2; 3 cid@urgent 3x1");
    script.cycle();
    let taken = script.lost();
    for _ in 0..20 {
        script.step("restart");
        script.cycle();
    }
    assert_eq!((taken, script.lost()), (7, 7), "{}", script.cluster.picture());
    script.cluster.confirms_exits = true;
    script.settle();
    assert_eq!((script.lost(), script.cluster.holdings([1, 2, 3])), (7, [5, 2, 1]));
}
