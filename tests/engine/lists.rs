//! Requests with a list of machines: their target is the capacity of its machines, and the excess
//! blocks no other job.

use crate::support::script::{Case, Script, cases};

// Work that cannot be preempted.
cases! {
    a_process_for_a_node_that_is_not_there_holds_up_no_other {
        steps: &["m1=8; 2 bob@fixed 8 on nowhere; 3 cid@fixed 4"],
        held: "2=0 3=1",
        why: "2=impossible",
    }
    a_job_for_a_node_that_is_not_there_holds_up_no_other {
        steps: &["m1=8; 1 ann@low 1", "2 bob@fixed 1x9 job on nowhere; 3 cid@fixed 1x4 job"],
        held: "1=4 2=0 3=4",
        lost: "1=4",
        why: "2=impossible",
    }
    a_reservation_of_a_node_of_another_size_holds_up_no_other {
        steps: &["m1=8; m2=4; 2 bob@reserve 8 on m2; 3 cid@reserve 8"],
        held: "2=0 3=1",
        why: "2=impossible",
    }
    a_process_too_large_for_its_node_takes_nothing_from_fair_share_work {
        steps: &["m1=8; m2=4; 2 bob@fixed 8 on m2; 3 cid@low 1; 4 ann 1x2", "4 ann 1x6"],
        held: "2=0 3=6 4=6",
        lost: "3=4",
    }
    a_process_whose_node_is_taken_for_good_is_told_so_and_holds_up_no_other {
        steps: &["m1=8; m2=8; 9 eve@fixed 5 on m1", "2 bob@fixed 4 on m1; 3 cid@fixed 6"],
        held: "2=0 3=1 9=1",
        why: "2=nothing_left",
    }
    a_reservation_of_a_node_in_use_is_told_so_and_holds_up_no_other {
        steps: &["m1=8; m2=8; 9 eve@fixed 1 on m1", "2 bob@reserve 8 on m1; 3 cid@reserve 8"],
        held: "2=0 3=1 9=1",
        why: "2=nothing_left",
    }
    a_process_whose_node_is_off_holds_up_no_other {
        steps: &["m1=8; m2=8; m2 off; 2 bob@fixed 8 on m2; 3 cid@fixed 8"],
        held: "2=0 3=1",
        why: "2=no_machine_up",
    }
    only_as_many_are_counted_as_their_node_holds {
        steps: &["m1=8; m2=8; 1 ann 1", "2 bob@fixed 3x9 job on m1"],
        held: "1=10 2=2",
        lost: "1=6",
    }
    a_listed_node_is_cleared_for_its_job {
        steps: &["m1=8; m2=8; 1 ann 1", "2 bob@fixed 6 on m2; 3 cid@reserve 8 on m1"],
        held: "1=2 2=1 3=1",
        lost: "any",
    }
    what_goes_to_a_listed_node_is_not_counted_where_another_needs_the_space {
        steps: &["m1=8; m2=4; 1 ann 1x4 on m2", "2 bob@fixed 4 on m1; 3 cid@fixed 8"],
        held: "1=4 2=1 3=0",
        why: "3=nothing_left",
    }
    a_node_that_better_fair_share_work_has_is_not_counted_for_worse_fixed_work {
        steps: &["m1=8; m2=8; 1 ann 1x8 on m1", "2 bob@stable 8 on m1; 3 cid@stable 8"],
        held: "1=8 2=0 3=1",
        why: "2=nothing_left",
    }
}

// Fair-share work.
cases! {
    what_cannot_move_from_a_listed_node_is_not_counted_for_those_who_list_it {
        steps: &["m1=12; m2=12; 9 eve@fixed 12 on m1; 1 ann 1", "2 bob 1 on m1; 3 cid 1"],
        held: "1=6 2=0 3=6",
        lost: "1=6",
        why: "2=nothing_left",
    }
    what_comes_to_a_listed_node_is_not_counted_for_those_who_list_it {
        steps: &["m1=12; m2=12; 1 ann 1", "9 eve@reserve 12 on m1; 2 bob 1 on m1; 3 cid 1"],
        held: "1=6 2=0 3=6 9=1",
        lost: "any",
    }
    what_better_work_has_on_a_listed_node_is_not_counted_for_those_who_list_it {
        steps: &["m1=12; m2=12; 9 eve@urgent 1x12 on m1; 1 ann 1", "2 bob 1 on m1; 3 cid 1"],
        held: "1=6 2=0 3=6 9=12",
        lost: "1=6",
        why: "2=nothing_left",
    }
    what_better_work_is_about_to_have_is_not_counted_either {
        steps: &["m1=12; m2=12; 1 ann 1", "9 eve@urgent 1x12 on m1; 2 bob 1 on m1; 3 cid 1"],
        held: "1=6 2=0 3=6 9=12",
        lost: "any",
    }
    those_who_list_one_node_share_it_and_the_others_share_the_rest {
        steps: &["m1=12; m2=12; 1 ann 1", "2 bob 1 on m1; 3 cid 1 on m1; 4 dan 1 on m1; 5 eve 1"],
        held: "1=6 2=4 3=4 4=4 5=6",
        lost: "any",
    }
    a_longer_list_reaches_beyond_the_node_that_others_list {
        steps: &["m1=6; m2=6; m3=6; 1 ann 1", "2 bob 1 on m1; 3 cid 1 on m1; 4 dan 1 on m1,m2"],
        held: "2=3 3=3 4=6 1=6",
        lost: "any",
    }
    what_a_job_keeps_on_a_node_out_of_scheduling_does_not_shorten_its_list {
        classes: "heavy=900",
        steps: &["m1=8; m2=2; 1 ann@heavy 1 on m1,m2", "m2 quiesces; 2 bob 1"],
        held: "1=9 2=1",
        lost: "1=1",
    }
}

/// While a job waits for space on a listed machine, no job is blocked elsewhere either.
#[test]
fn it_is_counted_while_exits_are_awaited_as_it_is_afterwards() {
    let mut script = Script::new(&Case::default());
    script.step("m1=8; m2=8; 1 ann@low 1");
    script.settle();
    script.cluster.confirms_exits = false;
    script.step("2 bob@fixed 5 on m1; 3 cid@fixed 4 on m1; 4 dan@fixed 8");
    for _ in 0..4 {
        script.cycle();
        let targets = [2, 3, 4].map(|id| script.cluster.job(id).target.0);
        assert_eq!(targets, [1, 0, 1], "{}", script.cluster.picture());
    }
    script.cluster.confirms_exits = true;
    script.settle();
    assert_eq!(script.cluster.holdings([1, 2, 3, 4]), [3, 1, 0, 1]);
}
