//! Restarts and reconfigurations: processes go on where they are, and other rules hold from the
//! next cycle on.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::cluster::{
    Cluster, DOUBLING, UNPACED, class, fair, job, pool, single, topology,
};
use apportion::model::{
    CapRules, ClassIx, ClassPolicy, JobId, JobKind, JobSpec, Mebibytes, Name, PoolIx, ProcessLimit,
    ShareFacts, ShareId, SharePhase, Topology, UserAllotment,
};
use apportion::scheduler::{AdminCommand, Removal, SchedulerEvent};

fn at_most(mut spec: JobSpec, limit: u64) -> JobSpec {
    spec.facts.limit = ProcessLimit::AtMost(limit);
    spec
}

/// Two pools, all policies; work of every kind on four nodes.
fn busy() -> Cluster {
    let mut deep = fair("deep", 100, UNPACED);
    deep.pool = PoolIx(1);
    let classes = vec![
        class("reserve", ClassPolicy::Reserve, 1, UNPACED),
        class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
        fair("normal", 100, DOUBLING),
        deep,
    ];
    let pools = vec![pool("top", None, "m1 m2 m3"), pool("deep", Some(0), "d1")];
    let mut cluster =
        Cluster::new(Topology { pools: pools.into(), classes: classes.into(), ..topology() });
    cluster.nodes(NODES);
    cluster.arrive(single(1, "ann", "reserve", 8, JobKind::Reservation));
    cluster.arrive(single(2, "ann", "fixed", 1, JobKind::Service));
    cluster.arrive(at_most(job(3, "ann", "fixed", 1), 3));
    cluster.arrive(job(4, "bob", "normal", 1)).arrive(job(5, "cid", "deep", 2)).cycles(6);
    cluster
}

const NODES: &str = "m1=4 m2=4 m3=8 d1=4";

type Place = (u64, Name, SharePhase);

fn places(cluster: &Cluster) -> Vec<(ShareId, Place)> {
    let jobs = cluster.view.jobs.iter();
    let shares = jobs.flat_map(|job| job.shares.iter().map(move |share| (job.id.0, share)));
    let mut places: Vec<_> =
        shares.map(|(job, share)| (share.id, (job, share.node.clone(), share.state))).collect();
    places.sort_unstable();
    places
}

/// F41, F200, F201, F208, F211: after a restart every share is where it was, under its number;
/// nothing is evicted, nothing is placed anew, no job is needy.
#[test]
fn a_restart_alone_changes_nothing() {
    let cluster = busy();
    let mut restarted = cluster.restarted();
    restarted.nodes(NODES).cycle();
    assert_eq!(places(&restarted), places(&cluster), "{}", restarted.picture());
    let planned = restarted.view.planned.as_deref().unwrap();
    assert_eq!(planned.schedule.preemptions, []);
    assert!(planned.schedule.report.jobs.iter().all(|line| !line.is_needy));
    assert_eq!(restarted.view.next_share, cluster.view.next_share, "no number is used again");
    restarted.cycles(5);
    assert_eq!(places(&restarted), places(&cluster));
}

/// F207: while nodes are late, their processes count where they are and nothing is placed there.
#[test]
fn late_nodes_are_waited_for() {
    let cluster = busy();
    let mut restarted = cluster.restarted();
    restarted.nodes("m1=4").cycles(2);
    assert_eq!(places(&restarted), places(&cluster), "{}", restarted.picture());
    restarted.nodes(NODES).cycles(2);
    assert_eq!(places(&restarted), places(&cluster));
}

/// F202: the same configuration again equals a restart.
#[test]
fn reconfiguring_equals_restarting() {
    let change = |topology: &mut Topology| {
        topology.classes[ClassIx(2)].policy = ClassPolicy::FairShare { weight: 700 };
        topology.classes[ClassIx(3)].pool = PoolIx(0);
        topology.pools[PoolIx(0)].nodes.retain(|node| node != "m2");
        topology.pools[PoolIx(1)].nodes.push("m2".to_owned());
    };
    let mut reconfigured = busy();
    let mut restarted = reconfigured.restarted();
    reconfigured.reconfigure(change).cycles(4);
    restarted.nodes(NODES).reconfigure(change).cycles(4);
    assert_eq!(places(&reconfigured), places(&restarted), "{}", reconfigured.picture());
}

/// F203: a node that only work speaks of is watched, and dies if it stays silent.
#[test]
fn a_node_that_never_reports_dies() {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, UNPACED)]);
    cluster.nodes("m1=4").arrive(at_most(job(1, "ann", "normal", 1), 1));
    let (node, facts) = ("m9".into(), ShareFacts::default());
    cluster.record(SchedulerEvent::ShareSeen { job: JobId(1), share: ShareId(7), node, facts });
    let mut held_on = Vec::new();
    for _ in 0..4 {
        cluster.nodes("m1=4").record(SchedulerEvent::HeartbeatIntervalPassed).cycle();
        held_on.push(cluster.nodes_of(1).concat());
    }
    assert_eq!(held_on, ["m9", "m9", "m1", "m1"], "three misses, as of any node");
}

/// F209: a reservation has the whole of its machine, however much larger that is by now.
#[test]
fn a_recovered_reservation_has_all_of_its_node() {
    let cluster = busy();
    let mut restarted = cluster.restarted();
    restarted.nodes("m1=4 m2=4 m3=12 d1=4").cycles(2);
    let node = restarted.node("m3");
    assert_eq!((node.order.0, node.used.0), (12, 12));
    assert_eq!(restarted.on("m3"), [1]);
}

/// F210, F224: what is in a pool that its class does not use is accounted first, and then goes: jobs
/// to start elsewhere, services for good.
#[test]
fn work_in_the_wrong_pool_leaves_it() {
    let pools = vec![pool("old", None, "m1"), pool("new", None, "n1")];
    let classes =
        vec![class("fixed", ClassPolicy::FixedShare, 5, UNPACED), fair("normal", 100, UNPACED)];
    let mut cluster =
        Cluster::new(Topology { pools: pools.into(), classes: classes.into(), ..topology() });
    cluster.nodes("m1=4 n1=4").arrive(single(1, "ann", "fixed", 1, JobKind::Service));
    cluster.arrive(job(2, "bob", "normal", 1)).cycle();
    cluster.confirms_exits = false;
    let mut restarted = cluster.restarted();
    restarted.confirms_exits = false;
    for cluster in [&mut cluster, &mut restarted] {
        cluster.nodes("m1=4 n1=4").reconfigure(|topology| {
            for class in &mut topology.classes {
                class.pool = PoolIx(1);
            }
        });
        cluster.cycle();
        assert_eq!(cluster.node("m1").used.0, 4, "accounted");
        let shares = [1, 2].map(|id| cluster.job(id).shares.to_vec()).concat();
        let leaving = shares.iter().filter(|share| share.node == "m1");
        assert!(leaving.clone().all(|share| share.removal == Some(Removal::Blacklisted)));
        assert_eq!(leaving.count(), 4);
        cluster.confirms_exits = true;
        cluster.cycles(2);
        assert_eq!((cluster.held(1), cluster.held(2)), (0, 4), "{}", cluster.picture());
        assert!(cluster.nodes_of(2).iter().all(|node| *node == "n1"));
    }
}

/// F221, F155: every setting counts as it is now.
#[test]
fn settings_are_those_of_the_last_configuration() {
    let mut cluster = Cluster::with_classes(vec![
        fair("normal", 100, CapRules { initialization_cap: 1, ..DOUBLING }),
        class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
    ]);
    let mut fresh = job(1, "ann", "normal", 1);
    fresh.facts.is_running = false;
    cluster.nodes("m1=16").arrive(fresh).arrive(job(2, "bob", "fixed", 1));
    cluster.reconfigure(|topology| topology.settings.allotment = Some(Mebibytes::from_gib(2)));
    assert_eq!(cluster.cycle().holdings([1, 2]), [1, 2]);
    cluster.reconfigure(|topology| {
        topology.classes[ClassIx(0)].cap_rules.initialization_cap = 5;
        topology.settings.allotment = Some(Mebibytes::from_gib(4));
        topology.settings.reserved_memory = Mebibytes::from_gib(1);
    });
    assert_eq!(cluster.cycle().holdings([1, 2]), [5, 4]);
    assert_eq!(cluster.node("m1").order.0, 15);
}

/// F222: another weight shows in the next cycle, another priority as well.
#[test]
fn other_weights_show_in_the_next_cycle() {
    let classes = vec![fair("a", 100, UNPACED), fair("b", 100, UNPACED)];
    let mut cluster = Cluster::with_classes(classes);
    cluster.nodes("m1=6 m2=6").arrive(job(1, "ann", "a", 1)).arrive(job(2, "bob", "b", 1)).cycle();
    assert_eq!(cluster.holdings([1, 2]), [6, 6]);
    cluster
        .reconfigure(|topology| {
            topology.classes[ClassIx(0)].policy = ClassPolicy::FairShare { weight: 200 }
        })
        .cycle();
    assert_eq!([1, 2].map(|id| cluster.job(id).target.0), [8, 4]);
    assert_eq!(cluster.cycle().holdings([1, 2]), [8, 4]);
    cluster.reconfigure(|topology| topology.classes[ClassIx(1)].priority = 1).cycles(2);
    assert_eq!(cluster.holdings([1, 2]), [0, 12]);
}

/// F223: work of a class that is gone is refused; its jobs and services go, the rest stays; when the
/// class is back, it is work like any other.
#[test]
fn a_removed_class_may_come_back() {
    let mut cluster = Cluster::with_classes(vec![
        fair("normal", 100, UNPACED),
        class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
    ]);
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
    let before = Topology::clone(cluster.scheduler.topology());
    cluster.reconfigure(|topology| topology.classes.retain(|class| class.name == "fixed"));
    cluster.cycles(2);
    assert_eq!((cluster.held(1), cluster.reason(1)), (0, "refused"));
    cluster.command(AdminCommand::Reconfigure(Box::new(before))).cycle();
    assert_eq!(cluster.held(1), 4);
}

/// F225, F49: who may use a class, and what a user may hold, is read anew.
#[test]
fn users_are_those_of_the_last_configuration() {
    let mut cluster = Cluster::with_classes(vec![
        fair("normal", 100, UNPACED),
        class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
    ]);
    cluster.nodes("m1=8").arrive(job(1, "ann", "normal", 1)).arrive(job(2, "bob", "normal", 1));
    cluster.arrive(at_most(job(3, "ann", "fixed", 1), 4)).cycle();
    assert_eq!(cluster.holdings([1, 2, 3]), [2, 2, 4]);
    cluster.reconfigure(|topology| {
        topology.classes[ClassIx(0)].users = Some(vec!["bob".to_owned()]);
        let five = UserAllotment::of_fixed(Mebibytes::from_gib(5));
        topology.allotments.insert("ann".to_owned(), five);
        topology.settings.allotment = Some(Mebibytes::from_gib(1));
    });
    cluster.arrive(at_most(job(4, "ann", "fixed", 1), 4)).cycles(3);
    assert_eq!((cluster.held(1), cluster.reason(1)), (0, "refused"));
    assert_eq!((cluster.held(3), cluster.held(4)), (4, 1), "five of five");
    assert_eq!(cluster.held(2), 3);
}

/// F46, F210: a terminated service is over, also for a restarted daemon.
#[test]
fn a_service_that_was_evicted_is_over() {
    let mut restarted =
        Cluster::with_classes(vec![class("fixed", ClassPolicy::FixedShare, 5, UNPACED)]);
    restarted.scheduler.restore_leaving([ShareId(7)]);
    let (node, facts) = ("m1".into(), ShareFacts::default());
    restarted.nodes("m1=4").arrive(single(1, "ann", "fixed", 1, JobKind::Service));
    restarted.record(SchedulerEvent::ShareSeen { job: JobId(1), share: ShareId(7), node, facts });
    restarted.cycles(3);
    assert_eq!((restarted.held(1), restarted.reason(1)), (0, "spent"));
}
