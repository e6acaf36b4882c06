//! Jobs that ask for tags of nodes: an outsider remembers the tags, and compares with node lists.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use apportion::model::{
    ClassPolicy, JobId, JobKind, JobSpec, Mebibytes, Name, NodeReport, NodeTagging, ShareId,
    TagRule, Tags, Topology,
};
use apportion::scheduler::{AdminCommand, SchedulerEvent};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::support::cluster::{Cluster, UNPACED, class, fair, job, single, topology};

/// Tags that the outsider remembers, by node.
type Remembered = BTreeMap<String, Tags>;

const COLOURS: [&str; 3] = ["red", "blue", "green"];

fn tagged(rules: &[(&str, &[(&str, &str)])]) -> Topology {
    let rule = |(nodes, set): &(&str, &[(&str, &str)])| TagRule {
        preference: None,
        nodes: nodes.split_whitespace().map(Name::from).collect(),
        set: Tags::of(set.iter().copied()),
    };
    let rules = rules.iter().map(rule).collect();
    let reported = vec!["gpu".into()];
    Topology {
        classes: vec![
            fair("normal", 100, UNPACED),
            class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
        ]
        .into(),
        tagging: NodeTagging { may_span: true, sets: Vec::new(), rules, reported },
        ..topology()
    }
}

fn asking(spec: JobSpec, tags: &[(&str, &str)]) -> JobSpec {
    JobSpec { tags: Tags::of(tags.iter().copied()), ..spec }
}

fn nodes_of(cluster: &Cluster, job: u64) -> BTreeSet<String> {
    cluster.job(job).shares.iter().map(|share| share.node.to_string()).collect()
}

#[test]
fn a_job_runs_only_on_nodes_with_all_of_its_tags() {
    let rules: [(&str, &[(&str, &str)]); 2] =
        [("m1 m2", &[("color", "red")]), ("m2", &[("ssd", "true")])];
    let mut cluster = Cluster::new(tagged(&rules));
    cluster.nodes("m1=4 m2=4 m3=4");
    cluster.arrive(asking(job(1, "ann", "normal", 1), &[("color", "red"), ("ssd", "true")]));
    cluster.arrive(asking(job(2, "bob", "normal", 1), &[("color", "red"), ("ssd", "false")]));
    cluster.arrive(asking(job(3, "cid", "normal", 1), &[("color", "false")]));
    cluster.arrive(asking(job(4, "dan", "normal", 1), &[("color", "pink")]));
    cluster.cycle();
    let [ann, bob, cid, dan] = [1, 2, 3, 4].map(|job| nodes_of(&cluster, job));
    let one = |node: &str| BTreeSet::from([node.to_owned()]);
    assert_eq!((ann, bob, cid, dan), (one("m2"), one("m1"), one("m3"), BTreeSet::new()));
    assert_eq!(cluster.reason(4), "impossible");
}

/// The configuration goes before the agent, and only listed keys of an agent count.
#[test]
fn an_agent_reports_listed_keys_below_the_configuration() {
    let mut cluster = Cluster::new(tagged(&[("m1", &[("gpu", "none")])]));
    for name in ["m1", "m2"] {
        let tags = Tags::of([("gpu", "a100"), ("rack", "r1")]);
        let memory = Mebibytes::from_gib(4);
        let report = NodeReport { name: name.into(), memory, is_quiesced: false, tags };
        cluster.tell(SchedulerEvent::NodeReported(report));
    }
    cluster.arrive(asking(job(1, "ann", "normal", 1), &[("gpu", "a100")]));
    cluster.arrive(asking(job(2, "bob", "normal", 1), &[("rack", "r1")]));
    cluster.cycle();
    assert_eq!(nodes_of(&cluster, 1), BTreeSet::from(["m2".to_owned()]));
    assert_eq!(nodes_of(&cluster, 2), BTreeSet::new(), "no agent moves its node into a rack");
}

/// Processes stay where they run when tags change; new ones follow the new tags.
#[test]
fn a_change_of_tags_moves_no_process() {
    let mut cluster = Cluster::new(tagged(&[("m1", &[("color", "red")])]));
    cluster.nodes("m1=4 m2=4");
    cluster.arrive(asking(single(1, "ann", "fixed", 1, JobKind::Service), &[("color", "red")]));
    cluster.cycle();
    assert_eq!(nodes_of(&cluster, 1), BTreeSet::from(["m1".to_owned()]));
    let other = tagged(&[("m2", &[("color", "red")])]);
    cluster.command(AdminCommand::Reconfigure(Box::new(other)));
    cluster.arrive(asking(single(2, "ann", "fixed", 1, JobKind::Service), &[("color", "red")]));
    cluster.cycle();
    assert_eq!(nodes_of(&cluster, 1), BTreeSet::from(["m1".to_owned()]));
    assert_eq!(nodes_of(&cluster, 2), BTreeSet::from(["m2".to_owned()]));
}

/// What a cluster holds: node and order of each share, by job.
fn holdings(cluster: &Cluster) -> BTreeMap<JobId, Vec<(ShareId, String)>> {
    let shares = |job: &apportion::scheduler::JobView| {
        job.shares.iter().map(|share| (share.id, share.node.to_string())).collect()
    };
    cluster.view.jobs.iter().map(|job| (job.id, shares(job))).collect()
}

/// Random clusters: a job that asks for tags gets what a job gets that lists the nodes which have
/// them; a cycle later as well. An outsider who remembers the tags finds every process on a node
/// that had them when it started.
#[test]
fn tags_equal_a_list_of_the_nodes_that_have_them() {
    for seed in 0..150 {
        let mut draw = ChaCha8Rng::seed_from_u64(seed);
        let nodes = draw.random_range(1..9);
        let mut known = Remembered::new();
        let mut rules = Vec::new();
        let mut reports = String::new();
        for node in 0..nodes {
            let name = format!("m{node}");
            let color = COLOURS[draw.random_range(0..3)];
            write!(reports, "{name}={} ", draw.random_range(1..9)).expect("a string takes all");
            known.insert(name.clone(), Tags::of([("color", color)]));
            rules.push(TagRule {
                preference: None,
                nodes: vec![name.as_str().into()],
                set: Tags::of([("color", color)]),
            });
        }
        let with_tags = {
            let mut topology = tagged(&[]);
            topology.tagging.rules = rules;
            topology
        };
        let mut tagging = Cluster::new(with_tags);
        let mut listing = Cluster::new(tagged(&[]));
        tagging.nodes(&reports);
        listing.nodes(&reports);
        let mut asked: BTreeMap<JobId, Tags> = BTreeMap::new();
        for id in 1..=draw.random_range(1..8) {
            let spec = draw_job(&mut draw, id);
            let color = [COLOURS[0], COLOURS[1], "false", "any"][draw.random_range(0..4)];
            let wanted =
                if color == "any" { Tags::default() } else { Tags::of([("color", color)]) };
            let names = known.iter().filter(|(_, tags)| tags.satisfy(&wanted));
            let names: Vec<String> = names.map(|(name, _)| name.clone()).collect();
            // A list that names no node stands for no list, so a job for no node is left out.
            if names.is_empty() {
                continue;
            }
            let nodes = if wanted.is_empty() { Vec::new() } else { names };
            asked.insert(JobId(id), wanted.clone());
            listing.arrive(JobSpec { nodes, ..spec.clone() });
            tagging.arrive(JobSpec { tags: wanted, ..spec });
            tagging.cycle();
            listing.cycle();
            assert_eq!(holdings(&tagging), holdings(&listing), "seed {seed}");
        }
        for _ in 0..6 {
            tagging.cycle();
            listing.cycle();
            assert_eq!(holdings(&tagging), holdings(&listing), "seed {seed}");
        }
        for (job, shares) in holdings(&tagging) {
            for (_, node) in shares {
                assert!(known[&node].satisfy(&asked[&job]), "seed {seed}: job {job} on {node}");
            }
        }
    }
}

fn draw_job(draw: &mut impl Rng, id: u64) -> JobSpec {
    let user = ["ann", "bob", "cid"][draw.random_range(0..3)];
    let order = draw.random_range(1..4);
    if draw.random_range(0..4) == 0 {
        single(id, user, "fixed", order, JobKind::Service)
    } else {
        job(id, user, "normal", order)
    }
}
