//! Caps: how many processes a job could use now, by its work left and by the rules of its class.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use crate::support::cluster::{Cluster, DOUBLING, UNPACED, fair, job};
use apportion::model::{CapRules, JobSpec, ProcessLimit};

/// A cluster with room for 64 processes, and a single class.
fn cluster(rules: CapRules) -> Cluster {
    let mut cluster = Cluster::with_classes(vec![fair("normal", 100, rules)]);
    cluster.nodes("m1=32 m2=32");
    cluster
}

/// A job that is not running yet, with `remaining` items left.
fn fresh(id: u64, remaining: u64) -> JobSpec {
    let mut spec = job(id, "ann", "normal", 1);
    (spec.facts.is_running, spec.facts.remaining) = (false, remaining);
    spec
}

fn cap(cluster: &mut Cluster) -> u64 {
    cluster.cycle().job(1).cap.unwrap().nshares.0
}

/// F123, D9: ten items, four at a time, keep three processes busy.
#[test]
fn work_left_is_rounded_up_to_processes() {
    let mut cluster = cluster(UNPACED);
    let mut spec = fresh(1, 10);
    spec.threads = 4;
    cluster.arrive(spec);
    assert_eq!(cap(&mut cluster), 3);
    assert_eq!(cluster.held(1), 3);
}

/// F124: a job that runs out of work keeps what it has; what is leaving does not count as had.
#[test]
fn a_job_that_winds_down_is_not_shrunk() {
    let mut cluster = cluster(UNPACED);
    cluster.confirms_exits = false;
    cluster.arrive(job(1, "ann", "normal", 1)).cycle();
    assert_eq!(cluster.held(1), 64);
    cluster.vary_off("m2").change(1, |facts| facts.remaining = 5);
    assert_eq!(cap(&mut cluster), 32);
    assert_eq!((cluster.held(1), cluster.preempted()), (32, 0));
}

/// F122, F125: completed, frozen and limited jobs.
#[test]
fn limits_bind_for_every_demand() {
    let mut cluster = cluster(UNPACED);
    let mut spec = job(1, "ann", "normal", 1);
    spec.facts.limit = ProcessLimit::AtMost(0);
    cluster.arrive(spec);
    let mut limits = Vec::new();
    for limit in [
        ProcessLimit::AtMost(0),
        ProcessLimit::AtMost(7),
        ProcessLimit::Frozen,
        ProcessLimit::AtMost(9),
    ] {
        cluster.change(1, |facts| facts.limit = limit);
        limits.push(cap(&mut cluster));
    }
    assert_eq!(limits, [0, 7, 7, 9]);
    cluster.change(1, |facts| (facts.limit, facts.is_completing) = (ProcessLimit::Unlimited, true));
    assert_eq!(cap(&mut cluster), 9);
    cluster.arrive(job(2, "ann", "nowhere", 1)).cycle();
    assert!(cluster.job(2).cap.is_none(), "refused work has no cap, and nothing");
}

/// F126: future = ceil((remaining - round((init + period + fudge) x n x threads / item time)) /
/// threads). A minute to initialize, 10 s to the next publication, 30 s of fudge: 100 s ahead.
#[test]
fn prediction_is_the_formula() {
    let rules = CapRules { prediction: true, prediction_fudge: 30_000, ..UNPACED };
    // Held, threads, items left, ms per item; the cap that comes of it.
    let cases = [
        (4, 1, 100, 10_000, 60),    // 40 done by then
        (4, 2, 100, 10_000, 10),    // 80 done by then, 20 left, two at a time
        (4, 2, 101, 10_000, 11),    // 21 left: rounded up
        (4, 1, 41, 10_000, 4),      // 1 left: never below what is held
        (4, 1, 30, 10_000, 4),      // nothing left: what is held
        (8, 1, 10_000, 10_000, 64), // more than there is room for does not matter
        (3, 1, 50, 80_000, 46),     // 3.75, rounded to 4
        (3, 1, 50, 90_000, 47),     // 3.33, rounded to 3
    ];
    for (held, threads, remaining, time_per_item, expected) in cases {
        let mut cluster = cluster(rules);
        let mut spec = job(1, "ann", "normal", 1);
        spec.threads = threads;
        spec.facts.limit = ProcessLimit::AtMost(held);
        cluster.arrive(spec).cycle();
        assert_eq!(cluster.held(1), held);
        initialize(&mut cluster, 60_000, usize::MAX);
        cluster.change(1, |facts| {
            facts.limit = ProcessLimit::AtMost(64);
            (facts.remaining, facts.time_per_item) = (remaining, Some(time_per_item));
        });
        let case = (held, threads, remaining, time_per_item);
        assert_eq!(cap(&mut cluster), expected, "{case:?}");
    }
}

/// The first so many processes of job 1 have initialized, each in so many milliseconds.
fn initialize(cluster: &mut Cluster, millis: u64, processes: usize) {
    let shares = cluster.job(1).shares.clone();
    for (number, share) in shares.iter().enumerate() {
        let is_initialized = number < processes;
        let initialization = if is_initialized { millis } else { 999_000_000 };
        let facts = apportion::model::ShareFacts { is_initialized, initialization, investment: 0 };
        let (job, node) = (apportion::model::JobId(1), share.node.clone());
        let share = share.id;
        cluster.record(apportion::scheduler::SchedulerEvent::ShareSeen { job, share, node, facts });
    }
}

/// F128: processes that still initialize say nothing about how long it takes; none at all is no
/// division by zero.
#[test]
fn only_initialized_processes_say_how_long_it_takes() {
    let rules = CapRules { prediction: true, prediction_fudge: 30_000, ..UNPACED };
    for (initialized, expected) in [(4, 60), (1, 60), (0, 84)] {
        let mut cluster = cluster(rules);
        let mut spec = job(1, "ann", "normal", 1);
        spec.facts.limit = ProcessLimit::AtMost(4);
        cluster.nodes("m3=32").arrive(spec).cycle();
        initialize(&mut cluster, 60_000, initialized);
        cluster.change(1, |facts| {
            facts.limit = ProcessLimit::AtMost(96);
            (facts.remaining, facts.time_per_item) = (100, Some(10_000));
        });
        assert_eq!(cap(&mut cluster), expected, "{initialized} of 4 initialized");
    }
}

/// F127: without a time per item, or with 0, nothing is predicted and the job waits as before.
#[test]
fn nothing_is_predicted_from_nothing() {
    let mut cluster = cluster(CapRules { prediction: true, ..DOUBLING });
    cluster.arrive(job(1, "ann", "normal", 1)).cycle();
    for time_per_item in [None, Some(0)] {
        cluster.change(1, |facts| facts.time_per_item = time_per_item).cycle();
        assert_eq!((cap(&mut cluster), cluster.reason(1)), (2, "initialization_cap"));
    }
    cluster.change(1, |facts| facts.time_per_item = Some(3_600_000));
    assert_eq!(cap(&mut cluster), 4);
}

/// F129: the time between publications is a single setting.
#[test]
fn prediction_looks_as_far_as_publications_are_apart() {
    let rules = CapRules { prediction: true, ..UNPACED };
    let caps = [10_000, 20_000].map(|period| {
        let mut cluster = cluster(rules);
        cluster.reconfigure(|topology| topology.settings.publication_period = period);
        let mut spec = job(1, "ann", "normal", 1);
        spec.facts.limit = ProcessLimit::AtMost(10);
        cluster.arrive(spec).cycle().change(1, |facts| {
            facts.limit = ProcessLimit::Unlimited;
            (facts.remaining, facts.time_per_item) = (50, Some(10_000));
        });
        cap(&mut cluster)
    });
    assert_eq!(caps, [40, 30]);
}

/// F130, F131, F132: every class has its own pace.
#[test]
fn every_class_has_its_own_pace() {
    let rules = [
        ("slow", CapRules { initialization_cap: 1, ..DOUBLING }),
        ("fast", CapRules { initialization_cap: 6, ..DOUBLING }),
        ("free", UNPACED),
    ];
    let classes = rules.map(|(name, rules)| fair(name, 100, rules));
    let mut cluster = Cluster::with_classes(classes.to_vec());
    cluster.nodes("m1=90");
    for (id, class) in [(1, "slow"), (2, "fast"), (3, "free")] {
        let mut spec = fresh(id, 20);
        spec.class = class.into();
        cluster.arrive(spec);
    }
    assert_eq!(cluster.cycles(2).holdings([1, 2, 3]), [1, 6, 20]);
    for id in 1..=3 {
        cluster.change(id, |facts| facts.is_running = true);
    }
    let growth = [(); 5].map(|()| cluster.cycle().holdings([1, 2]));
    assert_eq!(growth, [[2, 12], [4, 20], [8, 20], [16, 20], [20, 20]]);
}

/// F133: a job that was pushed out altogether starts over, and never above its maximum.
#[test]
fn a_job_that_lost_everything_starts_over() {
    let mut cluster = cluster(CapRules { initialization_cap: 3, ..DOUBLING });
    cluster.arrive(job(1, "ann", "normal", 1)).cycles(6);
    assert_eq!(cluster.held(1), 64);
    cluster.vary_off("m1").vary_off("m2").cycle();
    cluster.vary_on("m1");
    assert_eq!(cap(&mut cluster), 3);
    cluster.vary_off("m1").cycle();
    cluster.vary_on("m1").change(1, |facts| facts.limit = ProcessLimit::AtMost(2));
    assert_eq!(cap(&mut cluster), 2);
}

/// F134: the cap is a single number, and no target exceeds it.
#[test]
fn no_target_exceeds_the_cap() {
    let mut cluster = cluster(DOUBLING);
    for id in 1..=3 {
        cluster.arrive(fresh(id, 1000));
    }
    cluster.cycle();
    let wanted: u64 = (1..=3).map(|id| cluster.job(id).cap.unwrap().nshares.0).sum();
    let account = cluster.view.classes[0].account;
    assert_eq!((wanted, account.demand.0, account.target.0), (6, 6, 6));
    assert_eq!(cluster.view.classes[0].users[0].1.demand.0, 6);
}

/// Space of `bob`, whose jobs double, cycle by cycle. Ann has the whole cluster of 64, which is
/// quiet two cycles after bob comes.
fn doubled_at_the_cost_of_others(step: fn(&mut Cluster)) -> Vec<u64> {
    let classes = vec![fair("normal", 100, UNPACED), fair("paced", 100, DOUBLING)];
    let mut cluster = Cluster::with_classes(classes);
    cluster.nodes("m1=64").arrive(job(1, "ann", "normal", 1)).cycle();
    assert_eq!(cluster.held(1), 64);
    cluster.arrive(job(2, "bob", "paced", 1));
    let mut has = Vec::new();
    for _ in 0..9 {
        step(&mut cluster);
        let bob = cluster.cycle().job(2);
        has.push(u64::try_from(bob.shares.len()).unwrap() + bob.promised.0);
    }
    has
}

/// F132: a process that starts in this cycle does not double in it. Growth that waits for exits
/// takes two cycles a step, in a quiet cluster, too.
#[test]
fn at_rest_who_takes_doubles_what_it_has() {
    assert_eq!(doubled_at_the_cost_of_others(|_| ()), [2, 2, 4, 4, 8, 8, 16, 16, 32]);
}

/// Doubling is equal while there is news of work.
#[test]
fn while_work_moves_who_takes_doubles_what_it_has() {
    let moves = |cluster: &mut Cluster| {
        cluster.change(1, |facts| facts.remaining -= 1);
    };
    assert_eq!(doubled_at_the_cost_of_others(moves), [2, 2, 4, 4, 8, 8, 16, 16, 32]);
}

/// Space that processes of other jobs have not left yet does not count either.
#[test]
fn room_that_is_awaited_is_not_doubled() {
    let never = |cluster: &mut Cluster| cluster.confirms_exits = false;
    assert_eq!(doubled_at_the_cost_of_others(never), [2; 9]);
}
