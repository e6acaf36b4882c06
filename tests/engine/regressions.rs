//! Defects of the original, a test for each: `L` as numbered in the fact sheet, `G` as in the study
//! of its behaviour. Each test would fail if we had the defect, too.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::BTreeSet;

use crate::support::cluster::{
    Cluster, DOUBLING, UNPACED, class, fair, job, pool, single, topology,
};
use apportion::config;
use apportion::converter::update_from;
use apportion::engine::Preemption;
use apportion::model::{
    ClassPolicy, JobId, JobKind, JobSpec, Mebibytes, NodeIx, PoolIx, ProcessLimit, QShares,
    Quantum, ResourceClass, ShareFacts, ShareId, SharePhase, Topology,
};
use apportion::scheduler::{CommandError, JobDisposition, Removal, SchedulerEvent};

fn at_most(mut spec: JobSpec, limit: u64) -> JobSpec {
    spec.facts.limit = ProcessLimit::AtMost(limit);
    spec
}

fn not_running(mut spec: JobSpec) -> JobSpec {
    spec.facts.is_running = false;
    spec
}

fn cluster() -> Cluster {
    Cluster::with_classes(vec![
        class("reserve", ClassPolicy::Reserve, 1, UNPACED),
        class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
        fair("normal", 100, UNPACED),
    ])
}

fn in_pool(mut class: ResourceClass, pool: usize) -> ResourceClass {
    class.pool = PoolIx(pool);
    class
}

fn receipts(cluster: &Cluster) -> Vec<Preemption> {
    cluster.view.planned.as_deref().unwrap().schedule.preemptions.clone()
}

fn used(cluster: &Cluster) -> u64 {
    cluster.view.nodes.iter().map(|node| node.used.0).sum()
}

/// Eight machines of order 4 and two equal users: the first with small processes, the second with
/// large processes.
#[test]
fn l01_small_processes_get_their_half_beside_large_ones() {
    for order in 1..=4 {
        let mut cluster = cluster();
        cluster.nodes("m1=4 m2=4 m3=4 m4=4 m5=4 m6=4 m7=4 m8=4");
        cluster.arrive(job(1, "ann", "normal", 1)).arrive(job(2, "bob", "normal", order)).cycles(3);
        let [small, large] = cluster.holdings([1, 2]);
        assert!(small.abs_diff(large * order) <= order, "{small} x 1, {large} x {order}");
        assert_eq!(cluster.job(1).pure_fair_share, QShares(16));
    }
}

#[test]
fn l02_a_varied_off_node_is_still_off_after_a_reconfiguration_and_a_restart() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").vary_off("m1").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.reconfigure(|_| {}).nodes("m1=4").cycles(2);
    assert_eq!(cluster.held(1), 0);
    assert_eq!(cluster.restarted().nodes("m1=4").cycles(2).held(1), 0);
}

#[test]
fn l03_the_node_with_the_least_to_lose_is_cleared() {
    for dear in [1, 2] {
        let mut cluster = cluster();
        cluster.nodes("m1=4 m2=4");
        for id in [1, 2] {
            let mut listed = job(id, "ann", "normal", 1);
            listed.nodes = vec![format!("m{id}")];
            cluster.arrive(listed);
        }
        cluster.cycle().invest(dear, 4_000_000).invest(3 - dear, 4);
        cluster.arrive(single(3, "bob", "reserve", 4, JobKind::Reservation)).cycles(2);
        assert_eq!(cluster.nodes_of(3), [format!("m{}", 3 - dear)]);
    }
}

#[test]
fn l04_shares_on_an_unschedulable_node_are_taken_from_no_table() {
    let mut cluster = cluster();
    cluster.nodes("m1=8").arrive(at_most(job(1, "ann", "fixed", 3), 2)).cycle();
    cluster.quiesce("m1", 8).nodes("m2=3 m3=2").arrive(job(2, "bob", "normal", 1)).cycle();
    assert_eq!((cluster.job(2).target.0, cluster.held(2)), (5, 5));
    cluster.vary_off("m2").cycle();
    assert_eq!((cluster.job(2).target.0, cluster.held(2)), (2, 2));
}

#[test]
fn l05_a_node_that_returns_before_the_next_cycle_loses_nothing() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
    let before = cluster.job(1).shares.clone();
    for _ in 0..5 {
        cluster.record(SchedulerEvent::HeartbeatIntervalPassed);
    }
    cluster.nodes("m1=4").cycle();
    assert_eq!(cluster.job(1).shares, before);
    cluster.die("m1").nodes("m1=4").cycle();
    assert_eq!(cluster.job(1).shares, before);
}

#[test]
fn l06_busy_nodes_are_not_said_to_be_too_small() {
    let mut cluster = cluster();
    cluster.nodes("m1=8 m2=3").arrive(at_most(job(1, "ann", "fixed", 6), 1)).cycle();
    for (id, order, reason) in
        [(2, 4, "nothing_left"), (3, 8, "nothing_left"), (4, 9, "impossible")]
    {
        cluster.arrive(single(id, "bob", "fixed", order, JobKind::Service)).cycle();
        assert_eq!(cluster.reason(id), reason, "order {order}");
    }
}

#[test]
fn l07_blacklisted_work_takes_its_own_size() {
    let mut cluster = cluster();
    cluster.nodes("m1=24 m2=16").arrive(single(1, "ann", "fixed", 20, JobKind::ArbitraryProcess));
    cluster.arrive(single(2, "ann", "reserve", 16, JobKind::Reservation)).cycle();
    cluster.reconfigure(|topology| topology.classes.retain(|class| class.name == "normal")).cycle();
    let nodes = &cluster.view.planned.as_deref().unwrap().snapshot.nodes;
    assert_eq!([nodes[NodeIx(0)].limbo, nodes[NodeIx(1)].limbo], [QShares(20), QShares(16)]);
}

#[test]
fn l08_counts_of_any_depth_reduce_what_worse_priorities_see() {
    let pools = vec![pool("a", None, "a"), pool("b", Some(0), "b"), pool("c", Some(1), "c")];
    let urgent = class("urgent", ClassPolicy::FairShare { weight: 1 }, 2, UNPACED);
    let classes = vec![in_pool(urgent, 2), fair("normal", 100, UNPACED)];
    let mut cluster =
        Cluster::new(Topology { pools: pools.into(), classes: classes.into(), ..topology() });
    cluster.nodes("a=12 b=12 c=12").arrive(job(1, "ann", "urgent", 1));
    cluster.arrive(job(2, "bob", "normal", 1)).cycle();
    assert_eq!([1, 2].map(|id| cluster.job(id).target.0), [12, 24]);
}

#[test]
fn l09_what_is_refused_is_published_as_refused() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").arrive(single(1, "ann", "normal", 1, JobKind::Reservation)).cycle();
    assert_eq!(cluster.job(1).disposition, JobDisposition::Refused);
    let update = &update_from(&cluster.view).jobs[0];
    assert!(update.is_refused);
    assert_eq!(update.reason.as_ref().unwrap().code, "preemptable_class");
}

#[test]
fn l10_pure_fair_shares_are_of_what_can_be_used() {
    let mut cluster = cluster();
    cluster.nodes("m1=8 m2=8").arrive(job(1, "ann", "normal", 1)).vary_off("m2").cycle();
    assert_eq!(cluster.job(1).pure_fair_share, QShares(8));
    cluster.nodes("m1=6").cycle();
    assert_eq!(cluster.job(1).pure_fair_share, QShares(6));
}

#[test]
fn l11_one_class_may_use_all_there_is() {
    for gib in [1, 15] {
        let mut cluster = cluster();
        cluster.reconfigure(|topology| {
            topology.pools[PoolIx(0)].quantum = Quantum::new(Mebibytes::from_gib(gib)).unwrap();
        });
        cluster.nodes(&format!("m1={0} m2={0}", 1920 * gib)).arrive(job(1, "ann", "normal", gib));
        assert_eq!(cluster.cycle().held(1), 3840, "in quanta of {gib} GB");
    }
}

/// The form does not exist here, and says so.
#[test]
fn l12_a_limit_per_class_does_not_replace_a_users_own() {
    let text = "[[nodepool]]\nname='p'\n[[class]]\nname='c'\npolicy='reserve'\nnodepool='p'\n\
        [[user]]\nname='u'\nallotment='4GB'\n'max-allotment.c'='1GB'\n";
    let problems = config::parse("test.toml", text).unwrap_err().to_string();
    assert!(problems.contains("max-allotment.c"), "{problems}");
    let text = text.replace("'max-allotment.c'='1GB'\n", "");
    let config = config::parse("test.toml", &text).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(config.topology.allotment_of("u"), Some(Mebibytes::from_gib(4)));
}

#[test]
fn l13_shedding_never_chooses_what_is_leaving_already() {
    let mut cluster = cluster();
    cluster.confirms_exits = false;
    cluster.nodes("m1=12").arrive(job(1, "ann", "normal", 1)).cycle();
    let mut gone = BTreeSet::new();
    for limit in [8, 4, 0] {
        cluster.change(1, |facts| facts.limit = ProcessLimit::AtMost(limit)).cycle();
        let news: Vec<_> = receipts(&cluster).iter().map(|receipt| receipt.share).collect();
        assert_eq!(news.len(), 4);
        assert!(news.into_iter().all(|share| gone.insert(share)));
    }
}

#[test]
fn l14_one_hole_is_promised_to_one_job() {
    let mut cluster = cluster();
    cluster.confirms_exits = false;
    cluster.nodes("m1=8").arrive(job(1, "ann", "normal", 1)).cycle();
    for (id, user) in [(2, "bob"), (3, "cid"), (4, "dan")] {
        cluster.arrive(job(id, user, "normal", 4));
    }
    cluster.cycles(3);
    let promised: u64 = (2..=4).map(|id| cluster.job(id).promised.0).sum();
    let leaving = cluster.job(1).shares.iter().filter(|share| share.state == SharePhase::Leaving);
    assert!(u64::try_from(leaving.count()).unwrap() >= promised * 4, "{}", cluster.picture());
}

#[test]
fn l15_fixed_jobs_are_not_evicted_by_their_caps() {
    let mut cluster = cluster();
    cluster.reconfigure(|topology| {
        for class in &mut topology.classes {
            class.cap_rules = DOUBLING;
        }
    });
    cluster.nodes("m1=8").arrive(at_most(job(1, "ann", "fixed", 1), 6)).cycles(5);
    assert_eq!(cluster.held(1), 6);
    cluster.change(1, |facts| facts.limit = ProcessLimit::AtMost(2)).cycles(2);
    assert_eq!(cluster.held(1), 6);
    cluster
        .change(1, |facts| facts.is_running = false)
        .arrive(job(2, "bob", "normal", 1))
        .cycles(2);
    assert_eq!(cluster.held(1), 6, "also while it is initializing anew");
}

#[test]
fn l16_ages_and_investments_may_be_any_time_apart() {
    let apart = 30 * 24 * 3600 * 1000;
    let mut cluster = cluster();
    let mut young = at_most(job(1, "bob", "normal", 4), 1);
    let mut old = at_most(job(2, "ann", "normal", 4), 1);
    (old.submitted, young.submitted) = (1_600_000_000_000, 1_600_000_000_000 + apart);
    cluster.nodes("m1=4").arrive(young).arrive(old).cycle();
    assert_eq!(cluster.holdings([1, 2]), [0, 1]);

    let mut cluster = self::cluster();
    cluster.nodes("m1=2").arrive(job(1, "ann", "normal", 1)).cycle();
    for (share, investment) in [(1, 1), (2, apart)] {
        let facts = ShareFacts { is_initialized: true, initialization: 1, investment };
        let (share, node) = (ShareId(share), "m1".to_owned());
        cluster.record(SchedulerEvent::ShareSeen {
            job: JobId(1),
            share,
            node: node.into(),
            facts,
        });
    }
    cluster.arrive(job(2, "bob", "normal", 1)).cycle();
    assert_eq!(receipts(&cluster)[0].share, ShareId(1));
}

#[test]
fn l17_of_equal_shares_the_one_in_the_deeper_pool_goes() {
    let pools = vec![pool("top", None, "a"), pool("deep", Some(0), "b")];
    let classes = vec![fair("normal", 100, UNPACED)];
    let mut cluster =
        Cluster::new(Topology { pools: pools.into(), classes: classes.into(), ..topology() });
    // The share further down is the older share, so that its number does not decide.
    cluster.nodes("b=1").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.nodes("a=1").cycle().change(1, |facts| facts.limit = ProcessLimit::AtMost(1)).cycle();
    assert_eq!(cluster.nodes_of(1), ["a"]);
}

#[test]
fn l18_users_have_an_order_that_their_names_do_not_hash_to() {
    let play = |names: [&str; 3]| {
        let mut cluster = cluster();
        cluster.nodes("m1=4");
        for (id, name) in (1..).zip(names) {
            cluster.arrive(job(id, name, "normal", 1));
        }
        cluster.cycle().holdings([1, 2, 3])
    };
    for names in [["ann", "bob", "cid"], ["zoe", "Aa", "BB"], ["BB", "Aa", "zoe"]] {
        assert_eq!(play(names), [2, 1, 1], "the user who came first, whatever the name");
    }
}

#[test]
fn l19_donors_that_get_poorer_while_they_give_are_found_again() {
    let mut cluster = cluster();
    cluster.nodes("m1=24");
    for (id, user) in [(1, "ann"), (2, "bob"), (3, "cid")] {
        cluster.arrive(job(id, user, "normal", 1));
    }
    cluster.cycle();
    for (id, user) in [(4, "dan"), (5, "eve"), (6, "fay")] {
        cluster.arrive(job(id, user, "normal", 2));
    }
    assert_eq!(cluster.cycles(2).holdings([1, 2, 3, 4, 5, 6]), [4, 4, 4, 2, 2, 2]);
}

#[test]
fn l20_a_job_stays_the_same_job_with_any_shares() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.arrive(job(1, "ann", "normal", 1)).arrive(at_most(job(1, "bob", "normal", 4), 1));
    cluster.cycle();
    assert_eq!((cluster.view.jobs.len(), cluster.held(1)), (1, 4));
    cluster.complete(1).cycle();
    assert!(cluster.view.jobs.is_empty());
    assert_eq!(used(&cluster), 0);
}

#[test]
fn l21_a_node_is_its_name_and_nothing_else() {
    let mut cluster = cluster();
    cluster.nodes("m1=4 m1.example=4 m1=4 M1=4").cycle();
    let names: Vec<_> = cluster.view.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["M1", "m1", "m1.example"]);
}

#[test]
fn l22_a_vary_off_is_no_death() {
    let mut cluster = cluster();
    cluster.confirms_exits = false;
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.vary_off("m1").cycle();
    let update = &update_from(&cluster.view).jobs[0];
    assert_eq!(update.removed.len(), 4);
    for removed in &update.removed {
        assert_eq!((removed.is_purge, removed.why), (false, Removal::VariedOff));
    }
    assert_eq!(cluster.node("m1").used, QShares(4), "it runs until its agent has ended it");
}

#[test]
fn l23_an_allotment_counts_memory_of_other_trees_in_their_quanta() {
    let pools = vec![pool("coarse", None, "c1"), pool("fine", None, "f1")];
    let fixed = |name| class(name, ClassPolicy::FixedShare, 5, UNPACED);
    let classes = vec![fixed("coarse"), in_pool(fixed("fine"), 1)];
    let mut topology = Topology { pools: pools.into(), classes: classes.into(), ..topology() };
    topology.pools[PoolIx(0)].quantum = Quantum::new(Mebibytes::from_gib(15)).unwrap();
    topology.settings.allotment = Some(Mebibytes::from_gib(20));
    let mut cluster = Cluster::new(topology);
    cluster.nodes("c1=60 f1=60").arrive(at_most(job(1, "ann", "coarse", 15), 4)).cycle();
    cluster.arrive(at_most(job(2, "ann", "fine", 1), 60)).cycle();
    assert_eq!(cluster.holdings([1, 2]), [1, 5]);
}

#[test]
fn l24_the_end_of_a_services_process_is_noticed_at_once() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").arrive(single(1, "ann", "fixed", 4, JobKind::Service)).cycle();
    let share = cluster.job(1).shares[0].id;
    cluster.exit(1, share).arrive(job(2, "bob", "normal", 1)).cycle();
    assert_eq!((cluster.holdings([1, 2]), cluster.reason(1)), ([0, 4], "spent"));
}

#[test]
fn l25_what_is_shown_of_a_node_is_what_is_so() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").arrive(single(1, "ann", "fixed", 1, JobKind::ArbitraryProcess)).cycle();
    let seen = |cluster: &Cluster| {
        let node = cluster.node("m1");
        (node.order.0, node.used.0, node.state.is_blacklisted, node.quantum.memory().0)
    };
    assert_eq!(seen(&cluster), (4, 1, false, 1024));
    let share = cluster.job(1).shares[0].clone();
    let before = Topology::clone(cluster.scheduler.topology());
    cluster.reconfigure(|topology| topology.classes.retain(|class| class.name != "fixed"));
    assert_eq!(seen(cluster.cycle()), (4, 1, true, 1024));
    assert_eq!(seen(cluster.nodes("m1=6").cycle()), (6, 1, true, 1024));
    cluster.reconfigure(|topology| topology.classes = before.classes);
    assert_eq!(seen(cluster.cycle()), (6, 1, false, 1024));
    cluster.complete(1).cycle();
    let (job, node, facts) = (JobId(1), share.node, share.facts);
    cluster.record(SchedulerEvent::ShareSeen { job, share: share.id, node, facts }).cycle();
    assert_eq!(seen(&cluster), (6, 0, false, 1024), "late news brings no share back");
}

#[test]
fn l26_an_act_on_what_is_not_there_is_an_error() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").cycle();
    let nodes = vec!["m1".to_owned(), "m7".to_owned()];
    let command = apportion::scheduler::AdminCommand::VaryOn { nodes };
    let error = cluster.scheduler.command(command).unwrap_err();
    assert!(matches!(error, CommandError::UnknownNodes(unknown) if unknown[0].name == "m7"));
}

/// Rings, unknown parents, keys without a value, words for numbers: each is told with its line, and
/// none ends the check of the rest.
#[test]
fn l27_no_configuration_crashes_the_check() {
    let text = "[[nodepool]]\nname='p'\n[[nodepool]]\nname='a'\nparent='b'\n\
        [[nodepool]]\nname='b'\nparent='a'\n[[nodepool]]\nname='c'\nparent='nowhere'\n\
        [[class]]\nname='d'\ninherit='e'\n[[class]]\nname='e'\ninherit='d'\n\
        [[class]]\nname='f'\npolicy='fair-share'\nnodepool='p'\nweight='heavy'\nabstract='no'\n";
    let problems = config::parse("test.toml", text).unwrap_err();
    let lines: BTreeSet<_> = problems.iter().filter_map(|problem| problem.line).collect();
    for line in [5, 11, 14, 22, 23] {
        assert!(lines.contains(&line), "line {line}: {problems}");
    }
    for text in ["[[class]]\nname =", "[[class", "[[class]]\nname='c'\nweight", "{", "}"] {
        assert!(config::parse("test.toml", text).is_err(), "{text}");
    }
}

#[test]
fn l28_work_that_is_no_service_does_not_spread() {
    let mut cluster = cluster();
    cluster.reconfigure(|topology| topology.settings.defragmentation = false);
    cluster.nodes("m1=4 m2=4 m3=4").arrive(at_most(job(1, "ann", "normal", 1), 1)).cycle();
    cluster.arrive(at_most(job(2, "ann", "fixed", 1), 11)).cycle();
    assert_eq!(cluster.held(2), 11, "all at once, whatever else is there");
    cluster.complete(2).cycle();
    for id in 3..=6 {
        cluster.arrive(single(id, "ann", "fixed", 2, JobKind::ArbitraryProcess));
    }
    cluster.cycle();
    assert_eq!((3..=6).map(|id| cluster.held(id)).sum::<u64>(), 4);
}

#[test]
fn l29_what_a_donor_gave_already_counts_when_the_next_asks() {
    let mut cluster = cluster();
    cluster.reconfigure(|topology| topology.settings.fragmentation_threshold = 3);
    cluster.nodes("m1=9").arrive(job(1, "ann", "normal", 1)).cycle();
    for (id, user) in [(2, "bob"), (3, "cid")] {
        cluster.arrive(job(id, user, "normal", 3));
    }
    cluster.cycle();
    assert_eq!((cluster.held(1), cluster.preempted()), (3, 6), "{}", cluster.picture());
    assert_eq!(cluster.cycle().holdings([1, 2, 3]), [3, 1, 1]);
}

#[test]
fn l30_a_job_with_nothing_is_helped() {
    let mut cluster = cluster();
    cluster.nodes("m1=4 m2=4").arrive(job(1, "ann", "normal", 1)).cycle();
    cluster.arrive(job(2, "bob", "normal", 4)).arrive(job(3, "cid", "normal", 3)).cycles(4);
    assert!(cluster.holdings([2, 3]).iter().sum::<u64>() > 0, "{}", cluster.picture());
    let mut alone = self::cluster();
    alone.nodes("m1=8").arrive(job(1, "ann", "normal", 1)).cycle();
    alone.arrive(job(2, "bob", "normal", 4)).cycles(2);
    assert_eq!(alone.holdings([1, 2]), [4, 1]);
}

#[test]
fn g01_no_class_has_a_hidden_ceiling() {
    let mut cluster = cluster();
    for node in 0..40 {
        cluster.nodes(&format!("m{node:02}=240"));
    }
    cluster.reconfigure(|topology| {
        topology.pools[PoolIx(0)].quantum = Quantum::new(Mebibytes::from_gib(15)).unwrap();
    });
    assert_eq!(cluster.arrive(job(1, "ann", "normal", 15)).cycle().held(1), 640);
}

#[test]
fn g02_doubling_does_not_evict_and_start_for_ever() {
    for order in [1, 2, 3, 5] {
        let mut cluster = Cluster::with_classes(vec![fair("normal", 100, DOUBLING)]);
        cluster.nodes("m1=8 m2=7 m3=8 m4=5");
        for (id, user) in [(1, "ann"), (2, "bob"), (3, "cid")] {
            cluster.arrive(job(id, user, "normal", if id == 2 { order } else { id }));
        }
        cluster.cycles(20);
        for _ in 0..20 {
            assert_eq!(cluster.cycle().preempted(), 0, "{}", cluster.picture());
        }
    }
}

/// The jobs come together, or the small jobs last: each has a quarter, which covers a large
/// process, too.
#[test]
fn g03_rounding_starves_no_job() {
    for is_late in [false, true] {
        let mut cluster = cluster();
        cluster.nodes("m1=8 m2=8 m3=8 m4=8");
        for id in [1, 2] {
            cluster.arrive(job(id, &format!("user{id}"), "normal", 8));
        }
        if is_late {
            cluster.cycle();
        }
        for id in 3..=4 {
            cluster.arrive(job(id, &format!("user{id}"), "normal", 1));
        }
        cluster.cycles(4);
        for id in 1..=4 {
            assert!(cluster.held(id) > 0, "{}", cluster.picture());
        }
    }
}

#[test]
fn g03_a_class_of_weight_one_gets_its_part() {
    let mut cluster =
        Cluster::with_classes(vec![fair("heavy", 30, UNPACED), fair("light", 1, UNPACED)]);
    cluster.nodes("m1=16 m2=16").arrive(job(1, "ann", "heavy", 4)).cycle();
    cluster.arrive(job(2, "bob", "light", 1)).cycles(3);
    assert!(cluster.held(2) >= 1, "{}", cluster.picture());
}

#[test]
fn g04_equal_users_get_equal_parts_in_any_order() {
    let mut cluster = cluster();
    cluster.nodes("m1=6 m2=6 m3=6 m4=6 m5=6 m6=6 m7=6 m8=6");
    for id in 1..=8 {
        cluster.arrive(job(id, &format!("user{id}"), "normal", 2));
    }
    cluster.cycles(2);
    assert_eq!(cluster.holdings([1, 2, 3, 4, 5, 6, 7, 8]), [3; 8]);
    for id in 1..=8 {
        cluster.arrive(job(8 + id, &format!("user{id}"), "normal", 1));
    }
    cluster.cycles(5);
    let parts: Vec<u64> = (1..=8).map(|id| 2 * cluster.held(id) + cluster.held(8 + id)).collect();
    let (least, most) = (parts.iter().min().unwrap(), parts.iter().max().unwrap());
    assert!(most - least <= 2, "{parts:?}");
}

#[test]
fn g05_squatters_leave_and_nothing_stays_idle() {
    let pools = vec![pool("root", None, "r1"), pool("child", Some(0), "c1")];
    let classes = vec![fair("wide", 100, UNPACED), in_pool(fair("narrow", 100, UNPACED), 1)];
    let mut cluster =
        Cluster::new(Topology { pools: pools.into(), classes: classes.into(), ..topology() });
    cluster.nodes("r1=16 c1=16").arrive(job(1, "ann", "wide", 1)).cycle();
    assert_eq!(cluster.held(1), 32);
    cluster.arrive(job(2, "bob", "narrow", 1)).cycles(4);
    assert_eq!(cluster.holdings([1, 2]), [16, 16]);
    assert_eq!((cluster.on("r1"), cluster.on("c1")), (vec![1; 16], vec![2; 16]));
}

#[test]
fn g06_a_node_is_counted_for_one_reservation_only() {
    let mut cluster = cluster();
    cluster.nodes("m1=4 m2=4").arrive(single(1, "ann", "reserve", 4, JobKind::Reservation));
    cluster.arrive(single(2, "ann", "reserve", 4, JobKind::Reservation));
    cluster.arrive(single(3, "ann", "reserve", 4, JobKind::Reservation));
    cluster.arrive(job(4, "bob", "normal", 1)).cycle();
    assert_eq!([1, 2, 3, 4].map(|id| cluster.job(id).target.0), [1, 1, 0, 0]);
    cluster.nodes("m3=4").complete(3).cycle();
    assert_eq!((cluster.job(4).target.0, cluster.held(4)), (4, 4));
    assert_eq!(cluster.cycle().preempted(), 0, "and nothing of it is taken back");
}

#[test]
fn g07_a_burst_of_services_stays_within_the_allotment() {
    let mut cluster = cluster();
    cluster.reconfigure(|topology| topology.settings.allotment = Some(Mebibytes::from_gib(10)));
    cluster.nodes("m1=16 m2=16 m3=4");
    for id in 1..=6 {
        cluster.arrive(single(id, "ann", "fixed", 4, JobKind::Service));
    }
    cluster.arrive(single(7, "ann", "reserve", 4, JobKind::Reservation)).cycles(2);
    let held: u64 = (1..=7).map(|id| cluster.held(id)).sum();
    assert_eq!(held, 2);
    assert_eq!(cluster.reason(6), "over_allotment");
}

#[test]
fn g08_what_is_on_a_lost_node_costs_no_other_node() {
    for is_dead in [false, true] {
        let mut cluster = cluster();
        cluster.nodes("m1=8").arrive(single(1, "ann", "reserve", 8, JobKind::Reservation)).cycle();
        if is_dead {
            cluster.die("m1").cycle();
        } else {
            cluster.vary_off("m1").cycle();
        }
        cluster.nodes("m2=8").arrive(job(2, "bob", "normal", 1)).cycle();
        assert_eq!(cluster.holdings([1, 2]), [1, 8]);
    }
}

#[test]
fn g09_what_a_grandchild_pool_gives_is_gone_for_worse_priorities() {
    let pools = vec![pool("a", None, "a"), pool("b", Some(0), "b"), pool("c", Some(1), "c")];
    let urgent = class("urgent", ClassPolicy::FixedShare, 2, UNPACED);
    let classes = vec![in_pool(urgent, 2), fair("normal", 100, UNPACED)];
    let mut cluster =
        Cluster::new(Topology { pools: pools.into(), classes: classes.into(), ..topology() });
    cluster.nodes("a=4 b=4 c=4").arrive(job(2, "bob", "normal", 1)).cycle();
    cluster.arrive(at_most(job(1, "ann", "urgent", 1), 3)).cycle();
    assert_eq!([1, 2].map(|id| cluster.job(id).target.0), [3, 9]);
    assert_eq!(cluster.cycle().holdings([1, 2]), [3, 9]);
}

#[test]
fn g10_no_usable_hole_stays_idle() {
    let mut cluster = cluster();
    cluster.nodes("m1=8 m2=8 m3=8 m4=8");
    for (id, order) in [(1, 3), (2, 5), (3, 2)] {
        cluster.arrive(job(id, &format!("user{id}"), "normal", order)).cycle();
    }
    cluster.cycles(5);
    for node in cluster.view.nodes.iter() {
        assert!(node.order.0 - node.used.0 < 2, "{}", cluster.picture());
    }
}

#[test]
fn g11_a_large_job_does_not_wait_for_initializations() {
    let mut cluster = cluster();
    cluster.nodes("m1=12 m2=12 m3=12");
    for (id, user) in [(1, "ann"), (2, "bob")] {
        cluster.arrive(not_running(job(id, user, "normal", 1)));
    }
    cluster.cycle();
    cluster.arrive(not_running(job(3, "cid", "normal", 12))).cycles(2);
    assert_eq!(cluster.held(3), 1, "{}", cluster.picture());
}

#[test]
fn g12_the_cost_of_eviction_decides_before_size() {
    let mut cluster = cluster();
    cluster.reconfigure(|topology| topology.settings.reserve_overage = Mebibytes::from_gib(2));
    cluster.nodes("m1=4 m2=6");
    for id in [1, 2] {
        let mut listed = job(id, "ann", "normal", 1);
        listed.nodes = vec![format!("m{id}")];
        cluster.arrive(listed);
    }
    cluster.cycle().invest(1, 1_000_000).invest(2, 1);
    cluster.arrive(single(3, "bob", "reserve", 4, JobKind::Reservation)).cycles(2);
    assert_eq!(cluster.nodes_of(3), ["m2"], "the larger machine has the cheaper work");
}

#[test]
fn g13_several_nodes_are_cleared_in_one_cycle() {
    let mut cluster = cluster();
    cluster.nodes("m1=6 m2=6 m3=6");
    for (id, order) in [(1, 1), (2, 2), (3, 3)] {
        cluster.arrive(at_most(job(id, &format!("user{id}"), "normal", order), 4));
    }
    cluster.cycle();
    let on_each = ["m1", "m2", "m3"].map(|node| cluster.on(node).is_empty());
    assert_eq!(on_each, [false; 3], "{}", cluster.picture());
    for id in 4..=6 {
        cluster.arrive(single(id, "zoe", "reserve", 6, JobKind::Reservation));
    }
    cluster.cycle();
    assert_eq!(cluster.holdings([1, 2, 3]), [0, 0, 0]);
    assert_eq!(cluster.cycle().holdings([4, 5, 6]), [1, 1, 1]);
}

#[test]
fn g14_busy_is_not_too_small() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").arrive(single(1, "ann", "fixed", 3, JobKind::Service)).cycle();
    cluster.arrive(single(2, "ann", "fixed", 2, JobKind::Service)).cycle();
    assert_eq!(cluster.reason(2), "nothing_left");
    assert_eq!(cluster.complete(1).cycle().held(2), 1);
}

/// An empty node that is varied off is no free space: a job has to give.
#[test]
fn g15_holes_on_nodes_out_of_scheduling_do_not_count() {
    for out in ["off", "dead", "quiesced"] {
        let mut cluster = cluster();
        cluster.nodes("m1=4 m2=4 m9=8").cycle();
        match out {
            "off" => cluster.vary_off("m9"),
            "dead" => cluster.die("m9"),
            _ => cluster.quiesce("m9", 8),
        };
        cluster.arrive(job(1, "ann", "normal", 1)).cycle().arrive(job(2, "bob", "normal", 4));
        assert_eq!(cluster.cycles(2).holdings([1, 2]), [4, 1], "{out}");
    }
}

#[test]
fn g16_terabytes_have_their_order() {
    let tib = Mebibytes(1 << 20);
    let quantum = Quantum::new(Mebibytes::from_gib(1)).unwrap();
    assert_eq!(quantum.order_of_work(Mebibytes(3 * tib.0)).unwrap().get(), 3072);
    let mut cluster = cluster();
    let mut large = job(1, "ann", "normal", 1);
    large.memory = Mebibytes(3 * tib.0);
    cluster.report("m1", Mebibytes(6 * tib.0)).arrive(large).cycle();
    assert_eq!((cluster.held(1), cluster.node("m1").used.0), (2, 6144));
    cluster.reconfigure(|topology| {
        topology.pools[PoolIx(0)].quantum = Quantum::new(Mebibytes(3 * tib.0)).unwrap();
    });
    assert_eq!((cluster.cycle().node("m1").order.0, cluster.held(1)), (2, 2));
}

#[test]
fn g17_what_is_looked_up_is_found_after_it_changed() {
    let mut cluster = cluster();
    cluster.confirms_exits = false;
    cluster.nodes("m1=6").arrive(job(1, "ann", "normal", 1)).cycle();
    for limit in [4, 2, 0] {
        cluster.change(1, |facts| facts.limit = ProcessLimit::AtMost(limit)).cycle();
        let leaving =
            cluster.job(1).shares.iter().find(|share| share.removal.is_some()).unwrap().id;
        cluster.exit(1, leaving).cycle();
        assert_eq!(cluster.held(1), limit);
        assert!(cluster.job(1).shares.iter().all(|share| share.id != leaving));
    }
}

#[test]
fn g18_users_have_allotments_and_classes_have_users() {
    let text = "[scheduler]\nallotment='2GB'\nquantum='1GB'\n[[nodepool]]\nname='p'\n\
        [[class]]\nname='c'\npolicy='fixed-share'\nnodepool='p'\nusers=['ann', 'bob']\n\
        [[user]]\nname='ann.smith'\nallotment='9GB'\n[[user]]\nname='bob'\nallotment='3GB'\n";
    let config = config::parse("test.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
    let mut cluster = Cluster::new(config.topology);
    cluster.nodes("m1=32");
    for (id, user) in [(1, "ann"), (2, "bob"), (3, "ann.smith")] {
        cluster.arrive(at_most(job(id, user, "c", 1), 16));
    }
    assert_eq!(cluster.cycles(5).holdings([1, 2, 3]), [2, 3, 0]);
    assert_eq!(cluster.reason(3), "refused", "also asked of the scheduler itself");
}

#[test]
fn g19_work_of_a_missing_class_is_refused_and_nothing_else_suffers() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").arrive(job(1, "ann", "nromal", 1)).arrive(job(2, "bob", "normal", 1));
    let (share, node) = (ShareId(9), "m1".to_owned());
    let facts = ShareFacts::default();
    cluster
        .cycle()
        .record(SchedulerEvent::ShareSeen { job: JobId(1), share, node: node.into(), facts })
        .cycle();
    assert_eq!(cluster.job(1).disposition, JobDisposition::Refused);
    cluster.complete(1).cycles(2);
    assert_eq!(cluster.held(2), 4);
}

/// Two thousand million orders: a table with a row for each, let alone for each pair, never ends.
#[test]
fn g21_no_table_is_as_long_as_the_largest_order() {
    let mut cluster = cluster();
    cluster.reconfigure(|topology| {
        topology.pools[PoolIx(0)].quantum = Quantum::new(Mebibytes(1)).unwrap();
    });
    cluster.report("m1", Mebibytes(1 << 31)).report("m2", Mebibytes(1 << 30));
    for (id, memory) in [(1, 1 << 30), (2, 1 << 29), (3, 1 << 28)] {
        let mut large = job(id, &format!("user{id}"), "normal", 1);
        large.memory = Mebibytes(memory);
        cluster.arrive(large);
    }
    cluster.cycles(3);
    assert_eq!(used(&cluster), 3 << 30, "{}", cluster.picture());
    assert!(cluster.holdings([1, 2, 3]).iter().all(|&held| held > 0), "{}", cluster.picture());
}
