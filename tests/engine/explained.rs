//! Explanations: every reason with its remedy and its time, and numbers that add up.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::cluster::{Cluster, UNPACED, class, fair, job, single};
use crate::support::history::History;
use crate::support::step::steps;
use crate::support::world::{SMALL, world};
use apportion::api::wire::{BoundBy, NodeTally, Verdict, Why};
use apportion::api::{CivilTime, why, why_by_node};
use apportion::model::{
    CapRules, Chunk, ClassPolicy, JobKind, JobSpec, Mebibytes, Place, ProcessLimit, Shape, TagRule,
    Tags,
};
use apportion::scheduler::View;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn cluster() -> Cluster {
    Cluster::with_classes(vec![
        fair("normal", 100, UNPACED),
        class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
        class("reserve", ClassPolicy::Reserve, 1, UNPACED),
    ])
}

fn explained(cluster: &Cluster, id: u64) -> Why {
    why_by_node(&cluster.view, cluster.job(id), &CivilTime::recorded(&cluster.view))
}

#[track_caller]
fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
}

fn verdict(why: &Why, node: &str) -> Verdict {
    let verdicts = why.verdicts.as_ref().unwrap();
    verdicts.iter().find(|verdict| verdict.node == node).unwrap().verdict
}

/// In the first cycle, in memory as it was asked for, with the node that comes nearest.
#[test]
fn what_is_impossible_is_said_at_once() {
    let mut cluster = cluster();
    cluster.nodes("m1=4 m2=5").arrive(job(1, "ann", "normal", 7)).cycle();
    let why = explained(&cluster, 1);
    assert_eq!(why.sums.bound.by, BoundBy::Nodes);
    let unblock = why.unblock.unwrap();
    assert!(unblock.needs_a_change);
    says(&unblock.sentence, &["asks for 7 GB", "m2, has 5 GB", "a larger node joins"]);
    assert_eq!(why.nodes, NodeTally { total: 2, too_small: 2, ..NodeTally::default() });
}

#[test]
fn exits_that_are_waited_for_are_counted_where_they_are() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.confirms_exits = false;
    cluster.arrive(job(2, "bob", "normal", 2)).cycles(2);
    let why = explained(&cluster, 2);
    assert_eq!(why.reason.unwrap().code, "waiting_for_exits");
    says(
        &why.unblock.unwrap().sentence,
        &["it starts when 2 evictions on m1 are confirmed", "from job 1 of ann"],
    );
    assert_eq!(verdict(&explained(&cluster, 2), "m1"), Verdict::BeingCleared);
    cluster.confirms_exits = true;
    assert_eq!(cluster.cycle().held(2), 1);
}

#[test]
fn room_that_is_kept_for_one_is_no_room_for_another() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.confirms_exits = false;
    cluster.arrive(job(2, "bob", "normal", 2)).cycles(2);
    // The first of two exits is confirmed: the space waits for the second.
    let leaving = cluster.job(1).shares.iter().find(|share| share.removal.is_some()).unwrap().id;
    cluster.exit(1, leaving).arrive(single(3, "cid", "fixed", 1, JobKind::Service)).cycle();
    let kept = explained(&cluster, 1);
    assert_eq!(verdict(&kept, "m1"), Verdict::Promised, "{}", cluster.picture());
}

#[test]
fn nodes_that_are_out_are_named_where_nothing_else_would_do() {
    let mut cluster = cluster();
    cluster.nodes("m1=4 m2=4 m3=1").vary_off("m1").die("m2").arrive(job(1, "ann", "normal", 3));
    let why = explained(cluster.cycle(), 1);
    assert_eq!(why.reason.as_ref().unwrap().code, "no_machine_up");
    says(&why.unblock.as_ref().unwrap().sentence, &["m2 (dead)", "m1 (varied off)"]);
    let counted =
        NodeTally { total: 3, dead: 1, varied_off: 1, too_small: 1, ..NodeTally::default() };
    assert_eq!(why.nodes, counted);
}

#[test]
fn an_allotment_says_what_is_too_much_and_whose_it_is() {
    let mut cluster = cluster();
    cluster.reconfigure(|topology| topology.settings.allotment = Some(Mebibytes::from_gib(5)));
    cluster.nodes("m1=8 m2=8").arrive(single(1, "ann", "fixed", 4, JobKind::Service)).cycle();
    cluster.arrive(single(2, "ann", "fixed", 3, JobKind::Service)).cycle();
    let why = explained(&cluster, 2);
    assert_eq!(why.sums.bound.by, BoundBy::Allotment);
    says(&why.unblock.unwrap().sentence, &["ann ends 2 GB", "it has job 1)", "raised"]);
}

#[test]
fn a_cap_is_told_by_its_rule_and_when_it_gives() {
    let rules = CapRules { initialization_cap: 2, ..UNPACED };
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, rules)]);
    let mut fresh = job(1, "ann", "normal", 1);
    fresh.facts.is_running = false;
    let mut limited = job(2, "bob", "normal", 1);
    (limited.facts.limit, limited.facts.is_running) = (ProcessLimit::Frozen, true);
    cluster.nodes("m1=8").arrive(fresh).arrive(limited).cycle();
    let why = explained(&cluster, 1);
    assert_eq!(why.sums.bound.by, BoundBy::Cap);
    says(&why.unblock.unwrap().sentence, &["2 processes", "initialized"]);
    says(&explained(&cluster, 1).sums.bound.sentence, &["2 processes for now"]);
}

/// A process has initialized, but its pace is unknown: the reason is the pace, not the
/// initialization.
#[test]
fn work_of_unknown_pace_is_told_that_its_time_per_item_is_unknown() {
    let rules = CapRules { initialization_cap: 2, expand_by_doubling: true, ..UNPACED };
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, rules)]);
    let mut work = job(1, "ann", "normal", 1);
    (work.facts.is_running, work.facts.time_per_item) = (false, None);
    cluster.nodes("m1=8").arrive(work).cycle();
    says(&explained(&cluster, 1).sentence, &["held at 2: no process of it has initialized yet"]);

    cluster.change(1, |facts| facts.is_running = true).cycle();
    let why = explained(&cluster, 1);
    says(&why.sentence, &["held at 2: its time per item is not yet known"]);
    says(&why.sums.bound.sentence, &["2 processes for now", "not yet known"]);
    says(&why.unblock.unwrap().sentence, &["publishes how long an item of it takes"]);
    let reason = why.reason.unwrap();
    assert_eq!((reason.code.as_str(), cluster.held(1)), ("initialization_cap", 2));

    // All its processes go when its pace is known.
    cluster.change(1, |facts| facts.time_per_item = Some(1000));
    for share in &cluster.job(1).shares.clone() {
        cluster.exit(1, share.id);
    }
    let sums = explained(cluster.cycle(), 1).sums;
    says(&sums.job.cap_bound.unwrap().sentence, &["it starts over"]);
}

/// A larger machine would not do, nor would a smaller machine.
#[test]
fn a_reservation_is_told_that_no_node_has_its_size() {
    for (overage, asked) in [(0, "exactly 3 GB"), (1, "3 GB to 4 GB")] {
        let mut cluster = cluster();
        cluster.reconfigure(|topology| {
            topology.settings.reserve_overage = Mebibytes::from_gib(overage);
        });
        cluster.nodes("m1=2 m2=5").arrive(single(1, "ann", "reserve", 3, JobKind::Reservation));
        let why = explained(cluster.cycle(), 1);
        let needs = format!("there is no whole machine of {asked}");
        says(&why.sentence, &[&needs, "the largest one it may use has 5"]);
        says(&why.sums.bound.sentence, &[asked, "there is none"]);
        says(&why.unblock.unwrap().sentence, &["a node of just that size joins"]);
        assert_eq!(why.reason.unwrap().code, "impossible");
    }
}

/// Ann has most processes, and Bob would take some of them. Her work gets on, which is progress and
/// no change of demand.
#[test]
fn the_quiet_stop_is_said_to_hold_against_peers_for_want_of_a_change_of_demand() {
    let mut cluster = cluster();
    cluster.reconfigure(|topology| topology.settings.quiet_stop = Some(3));
    let [mut ann, mut bob] = [job(1, "ann", "normal", 1), job(2, "bob", "normal", 1)];
    (ann.threads, bob.threads) = (1000, 1000);
    cluster.nodes("m1=8").arrive(ann).cycle().invest(1, 9_000_000_000).arrive(bob);
    let get_on = |cluster: &mut Cluster, investment| {
        cluster.change(1, |facts| facts.remaining -= 1);
        cluster.invest(1, investment).cycle();
    };
    for _ in 0..5 {
        get_on(&mut cluster, 9_000_000_000);
    }
    // While the net would not let it take anything, waiting does not help either.
    let why = explained(&cluster, 2);
    assert_eq!(why.reason.unwrap().code, "too_dear");
    let unblock = why.unblock.unwrap();
    says(&unblock.sentence, &["space that is free", "waiting alone does not help"]);
    assert_eq!(unblock.estimate, None);

    get_on(&mut cluster, 0);
    let why = explained(&cluster, 2);
    let reason = why.reason.unwrap();
    assert_eq!((reason.code.as_str(), cluster.held(2)), ("quiet_stop", 1));
    says(&reason.sentence, &["neither demand nor supply has changed for 3 cycles", "their peers"]);
    says(&why.sums.bound.sentence, &["it leaves its peers theirs"]);
    says(&why.unblock.unwrap().sentence, &["space that is free", "a change of demand or supply"]);
}

/// The level at which other parties have more: the user's other jobs, other users, other classes.
#[test]
fn a_fair_share_is_used_up_at_the_level_where_others_want_more_too() {
    let crowd = |jobs: &[(u64, &str, &str)]| {
        let mut cluster =
            Cluster::with_classes(vec![fair("normal", 100, UNPACED), fair("other", 100, UNPACED)]);
        cluster.nodes("m1=8");
        for (id, user, class) in jobs {
            cluster.arrive(job(*id, user, class, 1));
        }
        cluster.cycles(3);
        explained(&cluster, 1)
    };
    let cases: [(&[_], BoundBy); 3] = [
        (&[(1, "ann", "normal"), (2, "ann", "normal")], BoundBy::JobShare),
        (&[(1, "ann", "normal"), (2, "bob", "normal")], BoundBy::UserShare),
        (&[(1, "ann", "normal"), (2, "bob", "other")], BoundBy::ClassShare),
    ];
    for (jobs, by) in cases {
        let why = crowd(jobs);
        assert_eq!(why.reason.as_ref().unwrap().code, "fair_share_used");
        assert_eq!(why.sums.bound.by, by, "{}", why.sums.bound.sentence);
        let unblock = why.unblock.unwrap();
        says(&unblock.sentence, &["job 2 of", "(4 GB)"]);
        // A million items of a second each, four at a time.
        let estimate = unblock.estimate.unwrap();
        assert_eq!(estimate.in_ms, 250_000_000);
        says(&estimate.basis, &["job 2 of", "at its present rate"]);
    }
}

/// The sum of all fair shares is the whole cluster if the demand exceeds it.
#[test]
fn what_is_deserved_adds_up_to_the_cluster() {
    let mut cluster =
        Cluster::with_classes(vec![fair("normal", 100, UNPACED), fair("heavy", 200, UNPACED)]);
    cluster.nodes("m1=8 m2=8 m3=8");
    for (id, user, class) in
        [(1, "ann", "normal"), (2, "bob", "normal"), (3, "ann", "heavy"), (4, "cid", "heavy")]
    {
        cluster.arrive(job(id, user, class, 1));
    }
    cluster.cycles(3);
    let explained: Vec<Why> = (1..=4)
        .map(|id| why(&cluster.view, cluster.job(id), &CivilTime::recorded(&cluster.view)))
        .collect();
    let deserved: u64 = explained.iter().map(|why| why.sums.job.deserved).sum();
    assert_eq!(deserved, 24);
    let mut classes: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for why in &explained {
        let (jobs, class) = classes.entry(&why.sums.class).or_default();
        *jobs += why.sums.job.deserved;
        *class = why.sums.class_account.as_ref().unwrap().deserved;
        let user = why.sums.user_account.as_ref().unwrap();
        assert_eq!(user.deserved, why.sums.job.deserved, "one job a user and class");
        assert_eq!(why.sums.job.held * why.sums.order.unwrap(), user.held);
    }
    assert_eq!(classes, BTreeMap::from([("heavy", (16, 16)), ("normal", (8, 8))]));
}

/// A rack of four nodes of 8 GB, two of them with a GPU, a rack of two, and a node of 2 GB without.
fn racks() -> Cluster {
    let mut cluster = cluster();
    cluster.reconfigure(|topology| {
        let rule = |nodes: &str, key: &str, value: &str| TagRule {
            nodes: nodes.split_whitespace().map(Into::into).collect(),
            set: Tags::of([(key, value)]),
            preference: None,
        };
        topology.tagging.rules = vec![
            rule("a1 a2 a3 a4", "rack", "a"),
            rule("b1 b2", "rack", "b"),
            rule("a1 a2", "gpu", "yes"),
        ];
        for class in &mut topology.classes {
            class.gangs.are_allowed = true;
        }
    });
    cluster.nodes("a1=8 a2=8 a3=8 a4=8 b1=8 b2=8 x=2");
    cluster
}

/// A gang of `count` processes of 4 GB, one a node.
fn gang(id: u64, user: &str, count: u64, tags: Tags) -> JobSpec {
    let chunks = vec![Chunk { count, memory: Mebibytes::from_gib(4), tags }];
    let mut spec = job(id, user, "fixed", 4);
    spec.facts.limit = ProcessLimit::AtMost(count);
    spec.shape = Some(Arc::new(Shape { chunks, place: Place::Scatter, ..Shape::default() }));
    spec
}

fn edited(mut spec: JobSpec, edit: impl FnOnce(&mut Shape)) -> JobSpec {
    let mut shape = Shape::clone(spec.shape.as_ref().unwrap());
    edit(&mut shape);
    spec.shape = Some(Arc::new(shape));
    spec
}

/// The verdict and the sentence of a node.
#[track_caller]
fn of_node(cluster: &Cluster, id: u64, node: &str, verdict: Verdict, words: &[&str]) {
    let why = explained(cluster, id);
    let verdicts = why.verdicts.as_ref().unwrap();
    let told = verdicts.iter().find(|verdict| verdict.node == node).unwrap();
    assert_eq!(told.verdict, verdict, "{node}: {}", told.sentence);
    says(&told.sentence, words);
}

/// Each node says what keeps the processes of a gang away: its tags, its size, its set, its state,
/// its work.
#[test]
fn every_node_says_why_it_does_not_do_for_a_gang() {
    let mut cluster = racks();
    cluster.arrive(single(1, "bob", "fixed", 6, JobKind::Service)).cycle();
    let taken = cluster.nodes_of(1)[0].to_owned();
    assert_eq!(taken, "a1");
    let gpus = gang(2, "ann", 3, Tags::of([("gpu", "yes")]));
    let rack = edited(gang(3, "ann", 3, Tags::default()), |shape| {
        shape.group_by = Some("rack".into());
        shape.may_span = Some(false);
    });
    let alone = edited(gang(4, "ann", 7, Tags::default()), |shape| shape.is_exclusive = true);
    let packed = edited(gang(5, "ann", 3, Tags::default()), |shape| shape.place = Place::Pack);
    cluster.vary_off("a3").die("a4");
    cluster.arrive(gpus).arrive(rack).arrive(alone).arrive(packed).cycle();
    of_node(&cluster, 2, "a1", Verdict::Full, &["2 GB of 8 GB free", "a process needs 4 GB"]);
    of_node(&cluster, 2, "a2", Verdict::HasRoom, &["8 GB of 8 GB free", "1 of its 3 processes"]);
    of_node(&cluster, 2, "b1", Verdict::LacksTags, &["has no gpu=yes"]);
    of_node(&cluster, 3, "a3", Verdict::VariedOff, &["a test"]);
    of_node(&cluster, 3, "a4", Verdict::Dead, &["silent"]);
    of_node(&cluster, 3, "b1", Verdict::OtherSet, &["rack=b", "never hold all 3 processes"]);
    of_node(&cluster, 3, "x", Verdict::TooSmall, &["has 2 GB", "a process needs 4 GB"]);
    of_node(&cluster, 4, "a1", Verdict::Full, &["2 GB of 8 GB free", "all of it is asked for"]);
    of_node(&cluster, 5, "b1", Verdict::TooSmall, &["all its processes need 12 GB"]);
    let why = explained(&cluster, 3);
    let others = NodeTally { total: 7, varied_off: 1, dead: 1, ..NodeTally::default() };
    let here = NodeTally { other_set: 2, too_small: 1, has_room: 1, full: 1, ..others };
    assert_eq!(why.nodes, here, "{}", cluster.picture());
}

/// A gang waits for a service to end in time, and younger work that stays is kept off its nodes.
#[test]
fn nodes_that_are_kept_for_an_older_gang_say_so() {
    let mut cluster = racks();
    cluster.arrive(single(1, "bob", "fixed", 8, JobKind::Job)).cycle();
    cluster.arrive(gang(2, "ann", 6, Tags::default())).cycle();
    assert_eq!(cluster.reason(2), "gang_waits", "{}", cluster.picture());
    cluster.arrive(single(3, "cid", "fixed", 6, JobKind::Service)).cycle();
    assert_eq!(cluster.held(3), 0, "{}", cluster.picture());
    let words = ["8 GB of 8 GB free", "4 GB kept for gang 2, which is older"];
    of_node(&cluster, 3, "a2", Verdict::KeptForGang, &words);
    of_node(&cluster, 2, "a2", Verdict::HasRoom, &["1 of its 6 processes"]);
    // The gang starts once all its nodes are free, with one process a node.
    cluster.complete(1).cycle();
    of_node(&cluster, 2, "a2", Verdict::Full, &["has a process of it, one a node"]);
    // Work that can be preempted may use the rest.
    cluster.arrive(job(4, "cid", "normal", 4)).cycle();
    assert_eq!(cluster.held(4), 6, "{}", cluster.picture());
}

/// Checks an explanation of any job in any cluster: each node is in exactly a single count. A job
/// below its demand has a reason, the blocking fact and a remedy.
fn adds_up(view: &View) {
    for job in view.jobs.iter() {
        let why = why_by_node(view, job, &CivilTime::recorded(view));
        let NodeTally {
            total,
            other_pool,
            excepted,
            not_asked_for,
            awaited,
            lacks_tags,
            too_small,
            other_set,
            dead,
            varied_off,
            quiesced,
            blacklisted,
            maintenance,
            window,
            being_cleared,
            full,
            kept_for_gang,
            promised,
            has_room,
        } = why.nodes.clone();
        let out = other_pool
            + excepted
            + not_asked_for
            + awaited
            + lacks_tags
            + too_small
            + other_set
            + dead;
        let off = varied_off + quiesced + blacklisted + maintenance + window;
        let in_use = being_cleared + full + kept_for_gang + promised + has_room;
        assert_eq!(total, u64::try_from(view.nodes.len()).unwrap());
        assert_eq!(total, out + off + in_use);
        let mut counted = NodeTally { total, ..NodeTally::default() };
        for verdict in why.verdicts.as_ref().unwrap() {
            *counted.count_of(verdict.verdict) += 1;
            assert_ne!(verdict.sentence, "");
        }
        assert_eq!(counted, why.nodes);
        // Or it lacks nothing but to hear of its nodes.
        let is_silent = why.sentence.contains("silent");
        assert_eq!(why.reason.is_some() || is_silent, why.unblock.is_some(), "{why:?}");
        assert_eq!(why.reason.is_none(), why.sums.bound.by == BoundBy::Nothing);
        assert!(why.unblock.is_none_or(|unblock| !unblock.sentence.is_empty()));
        assert!(why.holders.iter().all(|holder| holder.job != why.job && 0 < holder.qshares));
        if why.reason.is_some_and(|reason| reason.code == "impossible") {
            assert_eq!(
                being_cleared + full + promised + has_room + dead + varied_off,
                0,
                "{job:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default()
    })]

    #[test]
    fn in_any_history_the_numbers_add_up((world, steps) in (world(SMALL), steps(SMALL, 40))) {
        let mut history = History::new(world);
        for step in &steps {
            history.apply(step);
        }
        history.cycle();
        adds_up(&history.cluster.view);
    }
}

/// The first sentence about a gang says in a line what it needs and what there is.
#[test]
fn a_gang_says_in_a_line_why_it_does_not_start() {
    let line = |cluster: &Cluster, id: u64| {
        let why = explained(cluster, id);
        assert!(why.sentence.chars().count() <= 100, "{}", why.sentence);
        assert!(why.asks.unwrap().contains("one a node"));
        why.sentence
    };
    let mut cluster = racks();
    let gpus = Tags::of([("gpu", "yes")]);
    let within = |spec| {
        edited(spec, |shape| (shape.group_by, shape.may_span) = (Some("rack".into()), Some(false)))
    };
    cluster.arrive(gang(1, "ann", 3, gpus)).arrive(within(gang(2, "ann", 5, Tags::default())));
    cluster.arrive(gang(3, "bob", 6, Tags::default())).cycle();
    assert_eq!(
        line(&cluster, 1),
        "job 1 cannot start in this cluster: it needs 3 nodes with gpu=yes at once, and the cluster has 2"
    );
    assert_eq!(
        line(&cluster, 2),
        "job 2 cannot start within a placement set: it needs 5 nodes at once, and no rack has more than 4"
    );
    assert_eq!(explained(&cluster, 3).sentence, "job 3 starts: 0 of its 6 processes are ready");
    cluster.invest(3, 1000).cycle();
    assert_eq!(explained(&cluster, 3).sentence, "job 3 has what it wants: 6 of 6 processes");
    let alone = |spec| edited(spec, |shape| shape.is_exclusive = true);
    cluster.arrive(alone(gang(4, "cid", 2, Tags::default()))).cycle();
    assert_eq!(
        line(&cluster, 4),
        "job 4 waits for nodes: it needs 2 nodes at once, and none can be had now"
    );
    cluster.complete(3).vary_off("a1").vary_off("a2").vary_off("b1").vary_off("b2").vary_off("a3");
    cluster.cycle();
    assert_eq!(
        line(&cluster, 4),
        "job 4 waits for nodes that are down: it needs 2 nodes at once, and 1 is up"
    );
    assert_eq!(cluster.reason(4), "gang_needs_nodes");
}

/// A gang of fixed-share work that lost a node says so until its orchestrator starts it again.
#[test]
fn a_gang_that_lost_a_node_says_which() {
    let mut cluster = racks();
    cluster.arrive(gang(1, "ann", 3, Tags::default())).cycle();
    let lost = cluster.nodes_of(1)[0].to_owned();
    cluster.confirms_exits = false;
    cluster.die(&lost).cycle();
    let why = explained(&cluster, 1);
    says(&why.sentence, &["job 1 is over", "lost a", "starts it again"]);
    says(&why.sentence, &[&lost]);
    says(&why.unblock.unwrap().sentence, &["orchestrator", "starts it again"]);
}

/// A gang of fair-share work that saves up says how much it has, and when its turn comes.
#[test]
fn a_gang_that_saves_up_says_when_its_turn_comes() {
    let mut cluster = racks();
    let mut large = gang(2, "ann", 6, Tags::default());
    large.class = "normal".into();
    let timed = |time| move |shape: &mut Shape| shape.duration = time;
    cluster.arrive(job(1, "bob", "normal", 4)).arrive(job(3, "cid", "normal", 4));
    cluster.arrive(edited(large.clone(), timed(Some(100_000)))).cycles(3);
    let why = explained(&cluster, 2);
    let sentence = "job 2 saves up for its turn: it needs 24 GB at once, and its fair share is ";
    says(&why.sentence, &[sentence]);
    let savings = why.sums.savings.unwrap();
    let (needed, saved) = (savings.needed_mb_s.unwrap(), savings.saved_mb_s);
    assert!(0 < saved && saved < needed, "{savings:?}");
    let left = u64::try_from(needed - saved).unwrap();
    assert_eq!(savings.due_in_ms, Some((left * 1000).div_ceil(savings.earns_mb)));
    let unblock = why.unblock.unwrap();
    says(&unblock.sentence, &["saved up enough", " of ", "GB-minutes"]);
    assert_eq!(unblock.estimate.unwrap().in_ms, savings.due_in_ms.unwrap());
    let mut cluster = racks();
    cluster.arrive(job(1, "bob", "normal", 4)).arrive(job(3, "cid", "normal", 4));
    cluster.arrive(large).cycles(3);
    let unblock = explained(&cluster, 2).unblock.unwrap();
    assert!(unblock.needs_a_change);
    says(&unblock.sentence, &["how long it runs", "--time"]);
}
