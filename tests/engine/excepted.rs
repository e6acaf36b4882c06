//! Jobs that except nodes: an outsider compares with lists of all other nodes.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use apportion::api::wire::Verdict;
use apportion::api::{CivilTime, why_by_node};
use apportion::model::{ClassPolicy, JobId, JobKind, JobSpec, Name};
use apportion::scheduler::SchedulerEvent;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::support::cluster::{Cluster, UNPACED, class, fair, job, single};

fn cluster() -> Cluster {
    Cluster::with_classes(vec![
        fair("normal", 100, UNPACED),
        class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
    ])
}

fn names(nodes: &str) -> Vec<Name> {
    nodes.split_whitespace().map(Name::from).collect()
}

fn except(spec: JobSpec, nodes: &str) -> JobSpec {
    JobSpec { except_nodes: names(nodes), ..spec }
}

fn change(cluster: &mut Cluster, id: u64, nodes: &str) {
    cluster.record(SchedulerEvent::JobExcepted { job: JobId(id), nodes: names(nodes) });
}

fn nodes_of(cluster: &Cluster, job: u64) -> BTreeSet<String> {
    cluster.job(job).shares.iter().map(|share| share.node.to_string()).collect()
}

fn set(nodes: &str) -> BTreeSet<String> {
    nodes.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn an_excepted_node_gets_no_process_of_the_job() {
    let mut cluster = cluster();
    cluster.nodes("m1=4 m2=4 m3=4");
    cluster.arrive(except(job(1, "ann", "normal", 1), "m2 nowhere"));
    cluster.cycle();
    assert_eq!(nodes_of(&cluster, 1), set("m1 m3"));
    cluster.arrive(job(2, "bob", "normal", 1));
    cluster.cycle();
    assert!(nodes_of(&cluster, 2).contains("m2"), "others use it");
}

#[test]
fn exceptions_change_while_the_job_runs_and_move_no_process() {
    let mut cluster = cluster();
    cluster.nodes("m1=4 m2=4");
    cluster.arrive(except(single(1, "ann", "fixed", 1, JobKind::Service), "m2"));
    cluster.cycle();
    assert_eq!(nodes_of(&cluster, 1), set("m1"));
    change(&mut cluster, 1, "m1 m2");
    cluster.cycle();
    assert_eq!(nodes_of(&cluster, 1), set("m1"), "its process stays");
    cluster.arrive(except(single(2, "bob", "fixed", 1, JobKind::Service), "m1 m2"));
    cluster.cycle();
    assert_eq!((nodes_of(&cluster, 2), cluster.reason(2)), (set(""), "impossible"));
    change(&mut cluster, 2, "m1");
    cluster.cycle();
    assert_eq!(nodes_of(&cluster, 2), set("m2"));
}

/// A node may report after the job that excepts it.
#[test]
fn a_node_that_comes_later_is_excepted_too() {
    let mut cluster = cluster();
    cluster.nodes("m1=2");
    cluster.arrive(except(job(1, "ann", "normal", 1), "m0 m9"));
    cluster.cycle();
    cluster.nodes("m0=4 m9=4");
    cluster.cycle();
    cluster.cycle();
    assert_eq!(nodes_of(&cluster, 1), set("m1"));
}

#[test]
fn the_explanation_says_which_nodes_the_owner_excepted() {
    let mut cluster = cluster();
    cluster.nodes("m1=4 m2=4 m3=4");
    let listed = JobSpec { nodes: vec!["m1".into(), "m2".into()], ..job(1, "ann", "normal", 1) };
    cluster.arrive(except(listed, "m2"));
    cluster.cycle();
    let view = &cluster.view;
    let why = why_by_node(view, &view.jobs[0], &CivilTime::recorded(view));
    assert_eq!((why.nodes.excepted, why.nodes.not_asked_for), (1, 1));
    let told = why.verdicts.unwrap();
    let verdict = told.iter().find(|verdict| verdict.node == "m2").unwrap();
    assert_eq!(verdict.verdict, Verdict::Excepted);
    assert_eq!(verdict.sentence, "excepted by the owner of the job");
}

/// Random clusters: a job that excepts nodes gets the shares of a job that lists all other nodes.
#[test]
fn exceptions_equal_a_list_of_all_other_nodes() {
    for seed in 0..100 {
        let mut draw = ChaCha8Rng::seed_from_u64(seed);
        let nodes: Vec<String> = (0..draw.random_range(2..9)).map(|it| format!("m{it}")).collect();
        let mut reports = String::new();
        for node in &nodes {
            write!(reports, "{node}={} ", draw.random_range(1..9)).expect("a string takes all");
        }
        let [mut excepting, mut listing] = [cluster(), cluster()];
        excepting.nodes(&reports);
        listing.nodes(&reports);
        for id in 1..draw.random_range(2..7) {
            let out: Vec<&str> =
                nodes.iter().filter(|_| draw.random_bool(0.3)).map(String::as_str).collect();
            let user = if id % 2 == 0 { "ann" } else { "bob" };
            let class = if draw.random_bool(0.3) { "fixed" } else { "normal" };
            let mut spec = job(id, user, class, draw.random_range(1..4));
            spec.facts.remaining = draw.random_range(1..12);
            let others = nodes.iter().filter(|node| !out.contains(&node.as_str()));
            let list = if out.is_empty() { Vec::new() } else { others.cloned().collect() };
            // An empty list means any node.
            if list.is_empty() && !out.is_empty() {
                continue;
            }
            excepting.arrive(except(spec.clone(), &out.join(" ")));
            listing.arrive(JobSpec { nodes: list, ..spec });
            for cluster in [&mut excepting, &mut listing] {
                cluster.cycle();
            }
            let held = |cluster: &Cluster| -> Vec<(JobId, String)> {
                let jobs = cluster.view.jobs.iter();
                jobs.flat_map(|job| job.shares.iter().map(|it| (job.id, it.node.to_string())))
                    .collect()
            };
            assert_eq!(held(&excepting), held(&listing), "seed {seed}, job {id}");
            for job in excepting.view.jobs.iter() {
                let is_out = |node: &Name| job.except_nodes.contains(node);
                assert!(!job.shares.iter().any(|share| is_out(&share.node)), "seed {seed}");
            }
        }
    }
}
