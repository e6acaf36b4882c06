//! Kinds of work, and the rights and losses of each kind.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::cluster::{Cluster, UNPACED, class, fair, job, single, topology};
use apportion::model::{ClassPolicy, JobKind, JobSpec, Mebibytes, ProcessLimit, Topology};
use apportion::scheduler::{JobDisposition, SchedulerEvent};

fn cluster() -> Cluster {
    Cluster::with_classes(vec![
        class("reserve", ClassPolicy::Reserve, 1, UNPACED),
        class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
        fair("normal", 100, UNPACED),
    ])
}

/// A job of a fixed-share class with at most `most` processes.
fn fixed_job(id: u64, user: &str, order: u64, most: u64) -> JobSpec {
    let mut spec = job(id, user, "fixed", order);
    spec.facts.limit = ProcessLimit::AtMost(most);
    spec
}

/// F15: the job grows into free space and gives way.
#[test]
fn a_fair_share_job_expands_and_contracts() {
    let mut cluster = cluster();
    cluster.nodes("m1=4 m2=4").arrive(job(1, "ann", "normal", 1)).cycle();
    assert_eq!(cluster.held(1), 8);
    cluster.arrive(job(2, "bob", "normal", 1)).cycles(2);
    assert_eq!(cluster.holdings([1, 2]), [4, 4]);
    assert_eq!(cluster.complete(2).cycle().held(1), 8);
}

/// F16, F151, F152, F176, D6: a job of a fixed-share class takes as much as it can, more later, and
/// loses nothing to any job.
#[test]
fn a_fixed_share_job_has_several_processes_and_loses_none() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").arrive(fixed_job(1, "ann", 1, 6)).cycle();
    assert_eq!((cluster.held(1), cluster.reason(1)), (4, "nothing_left"));
    assert_eq!(cluster.nodes("m2=8").cycle().held(1), 6, "the rest once there is room");
    cluster.arrive(job(2, "bob", "normal", 1));
    cluster.arrive(single(3, "cid", "reserve", 8, JobKind::Reservation)).cycles(3);
    assert_eq!(cluster.holdings([1, 2, 3]), [6, 6, 0], "{}", cluster.picture());
    cluster.change(1, |facts| facts.limit = ProcessLimit::AtMost(2)).cycles(3);
    assert_eq!(cluster.held(1), 6, "a lower maximum takes nothing from it");
}

/// F17, F18, F19, F20, D3: five requested, a single process given; only a job gets five.
#[test]
fn one_allocation_a_request_except_for_jobs() {
    let mut cluster = cluster();
    cluster.nodes("m1=20 m2=4");
    let five = |mut spec: JobSpec| {
        (spec.facts.remaining, spec.facts.limit) = (5, ProcessLimit::AtMost(5));
        spec
    };
    cluster.arrive(five(single(1, "ann", "fixed", 1, JobKind::Service)));
    cluster.arrive(five(single(2, "ann", "fixed", 1, JobKind::ArbitraryProcess)));
    cluster.arrive(five(single(3, "ann", "reserve", 4, JobKind::Reservation)));
    cluster.arrive(five(job(4, "ann", "fixed", 1))).cycles(3);
    assert_eq!(cluster.holdings([1, 2, 3, 4]), [1, 1, 1, 5]);
    assert_eq!(cluster.job(3).disposition, JobDisposition::Reserved);
}

/// F19, F85, F86: neither death, nor a vary-off, nor demand of other jobs ends a reservation.
#[test]
fn a_reservation_is_never_evicted() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").arrive(single(1, "ann", "reserve", 4, JobKind::Reservation)).cycle();
    let share = cluster.job(1).shares[0].id;
    cluster.arrive(job(2, "bob", "normal", 4)).arrive(fixed_job(3, "bob", 4, 1)).cycles(2);
    cluster.vary_off("m1").cycle();
    cluster.die("m1").cycle();
    cluster.reconfigure(|topology| topology.classes.retain(|class| class.name != "reserve"));
    cluster.cycles(2);
    let kept = &cluster.job(1).shares[0];
    assert_eq!((kept.id, kept.removal), (share, None));
}

/// F23, F51: all that fairness could end for good needs another policy.
#[test]
fn only_jobs_may_be_in_a_fair_share_class() {
    let mut cluster = cluster();
    cluster.nodes("m1=4");
    let kinds = [JobKind::Service, JobKind::ArbitraryProcess, JobKind::Reservation];
    for (id, kind) in (1..).zip(kinds) {
        cluster.arrive(single(id, "ann", "normal", 1, kind));
    }
    cluster.arrive(job(4, "ann", "normal", 1)).cycles(2);
    for id in 1..=3 {
        assert_eq!(cluster.job(id).disposition, JobDisposition::Refused);
        assert_eq!((cluster.held(id), cluster.reason(id)), (0, "refused"));
    }
    assert_eq!(cluster.held(4), 4, "what is refused holds no space");
}

/// F46: the same request never gets another process, for every kind of end of the first.
#[test]
fn work_of_one_process_is_over_with_it() {
    for ends_by_death in [false, true] {
        let mut cluster = cluster();
        cluster.nodes("m1=4 m2=4");
        cluster.arrive(single(1, "ann", "fixed", 1, JobKind::Service));
        cluster.arrive(single(2, "ann", "fixed", 1, JobKind::ArbitraryProcess)).cycle();
        for id in [1, 2] {
            let share = cluster.job(id).shares[0].clone();
            if ends_by_death {
                cluster.die(&share.node);
            } else {
                cluster.exit(id, share.id);
            }
        }
        cluster.cycles(3);
        assert_eq!(cluster.holdings([1, 2]), [0, 0]);
        assert_eq!([cluster.reason(1), cluster.reason(2)], ["spent", "spent"]);
    }
}

/// F45, F44, F43: facts of unknown work or shares change nothing.
#[test]
fn news_of_unknown_work_changes_nothing() {
    let mut cluster = cluster();
    cluster.nodes("m1=4").arrive(job(1, "ann", "normal", 1)).cycle();
    let before = cluster.holdings([1]);
    let (unknown, facts) = (apportion::model::JobId(77), cluster.job(1).facts);
    let share = apportion::model::ShareId(700);
    cluster.record(SchedulerEvent::JobChanged { job: unknown, facts });
    cluster.record(SchedulerEvent::ShareExited { job: unknown, share });
    cluster.record(SchedulerEvent::ShareExited { job: apportion::model::JobId(1), share });
    cluster.complete(77).complete(77).die("m77").cycle();
    assert_eq!((cluster.holdings([1]), cluster.view.jobs.len()), (before, 1));
    assert_eq!(cluster.preempted(), 0);
}

/// F48: the list holds under all three policies.
#[test]
fn only_listed_nodes_are_used() {
    let listed = |mut spec: JobSpec, nodes: &[&str]| {
        spec.nodes = nodes.iter().map(|&node| node.to_owned()).collect();
        spec
    };
    let mut cluster = cluster();
    cluster.nodes("m1=4 m2=4 m3=4 m4=4");
    cluster.arrive(listed(single(1, "ann", "reserve", 4, JobKind::Reservation), &["m3"]));
    cluster.arrive(listed(single(2, "ann", "fixed", 1, JobKind::Service), &["m4", "m9"]));
    cluster.arrive(listed(job(3, "ann", "normal", 1), &["m2", "m4"]));
    cluster.arrive(listed(job(4, "bob", "normal", 1), &["m9"])).cycle();
    assert_eq!((cluster.nodes_of(1), cluster.nodes_of(2)), (vec!["m3"], vec!["m4"]));
    assert_eq!(cluster.nodes_of(3), ["m2", "m2", "m2", "m2", "m4", "m4", "m4"]);
    assert_eq!((cluster.held(4), cluster.reason(4)), (0, "impossible"), "no such machine is known");
    assert_eq!(cluster.nodes("m9=2").cycle().nodes_of(4), ["m9", "m9"]);
}

/// F49: a user who is not on the list is refused; without a list every user is admitted.
#[test]
fn a_class_admits_whom_it_lists() {
    let mut restricted = fair("restricted", 100, UNPACED);
    restricted.users = Some(vec!["ann".to_owned()]);
    let mut closed = fair("closed", 100, UNPACED);
    closed.users = Some(Vec::new());
    let classes = vec![restricted, closed, fair("open", 100, UNPACED)];
    let mut cluster = Cluster::with_classes(classes);
    let work = [("ann", "restricted"), ("bob", "restricted"), ("ann", "closed"), ("bob", "open")];
    for (id, (user, class)) in (1..).zip(work) {
        cluster.arrive(job(id, user, class, 1));
    }
    cluster.nodes("m1=4").cycle();
    assert_eq!(cluster.holdings([1, 2, 3, 4]), [2, 0, 0, 2]);
    assert_eq!([2, 3].map(|id| cluster.reason(id)), ["refused", "refused"]);
}

/// F21, F22: only the numbers of a request decide; names and uses of machines do not matter.
#[test]
fn who_is_called_what_decides_nothing() {
    let play = |users: [&str; 2]| {
        let mut cluster = cluster();
        cluster.nodes("m1=4 m2=3").arrive(job(1, users[0], "normal", 2));
        cluster.arrive(job(2, users[1], "normal", 1)).cycles(3);
        cluster.view.planned.as_deref().unwrap().schedule.clone()
    };
    assert_eq!(play(["ann", "bob"]), play(["carl", "doris"]));
}

/// F164, F163: without an allotment there is no limit, and fair-share work never has an allotment.
#[test]
fn an_allotment_limits_only_what_cannot_be_taken_back() {
    let play = |allotment: Option<u64>| {
        let classes =
            vec![class("fixed", ClassPolicy::FixedShare, 5, UNPACED), fair("normal", 100, UNPACED)];
        let mut topology = Topology { classes: classes.into(), ..topology() };
        topology.settings.allotment = allotment.map(Mebibytes::from_gib);
        let mut cluster = Cluster::new(topology);
        cluster.nodes("m1=16").arrive(fixed_job(1, "ann", 1, 8)).arrive(job(2, "ann", "normal", 1));
        cluster.cycle().holdings([1, 2])
    };
    assert_eq!(play(None), [8, 8]);
    assert_eq!(play(Some(3)), [3, 13]);
    assert_eq!(play(Some(0)), [0, 16]);
}
