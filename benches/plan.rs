//! One cycle of the engine, from the books to the new books, on a contended cluster.
//!
//! The cluster: nodes of 64, 128 and 256 GB in turn, quantum 15 GB; four fair-share classes of
//! weight 50, 100, 200 and 400; as many jobs as nodes, a tenth as many users, demand above
//! capacity, doubling on. Measured is a quiet cycle: everything has settled.

use std::collections::BTreeMap;

use apportion::engine::plan;
use apportion::model::{
    CapRules, JobFacts, JobId, JobSpec, Mebibytes, NodeReport, Nodepool, Policy, PoolIx,
    ProcessLimit, Quantum, ResourceClass, Settings, ShareId, ShareState, Topology, WorkKind,
};
use apportion::scheduler::{Event, Scheduler};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

fn topology() -> Topology {
    let cap_rules = CapRules {
        initialization_cap: 2,
        expand_by_doubling: true,
        prediction: false,
        prediction_fudge: 0,
        loss_limit: CapRules::LOSS_LIMIT,
    };
    let class = |weight: u32| ResourceClass {
        name: format!("weight-{weight}"),
        policy: Policy::FairShare { weight },
        priority: 10,
        pool: PoolIx(0),
        cap_rules,
        users: None,
        is_default: false,
    };
    let quantum = Quantum::new(Mebibytes::from_gib(15)).expect("15 GB is a quantum");
    Topology {
        settings: Settings::default(),
        pools: vec![Nodepool {
            name: "main".to_owned(),
            parent: None,
            search_order: 100,
            quantum,
            nodes: Vec::new(),
        }],
        classes: [50, 100, 200, 400].map(class).to_vec(),
        allotments: BTreeMap::new(),
    }
}

/// A cluster of `size` nodes and as many jobs, after so many cycles that it is quiet.
fn settled(size: u64) -> Scheduler {
    let mut scheduler = Scheduler::new(topology(), ShareId(1));
    for (node, gib) in (0..size).zip([64, 128, 256].into_iter().cycle()) {
        let memory = Mebibytes::from_gib(gib);
        scheduler.record(Event::NodeReported(NodeReport {
            name: format!("n{node:06}"),
            memory,
            is_quiesced: false,
        }));
    }
    let memories = [4, 8, 15, 30, 45, 60].into_iter().cycle();
    let weights = [50, 100, 200, 400].into_iter().cycle();
    for ((id, gib), weight) in (1..=size).zip(memories).zip(weights) {
        scheduler.record(Event::JobArrived(JobSpec {
            id: JobId(id),
            user: format!("user{}", id % size.div_ceil(10)),
            class: format!("weight-{weight}"),
            kind: WorkKind::Job,
            memory: Mebibytes::from_gib(gib),
            threads: 1,
            submitted: id,
            machines: Vec::new(),
            service: 0,
            facts: JobFacts {
                remaining: 1_000_000,
                limit: ProcessLimit::AtMost(64),
                is_running: true,
                time_per_item: Some(1000),
                is_completing: false,
            },
        }));
    }
    for _ in 0..20 {
        let view = scheduler.schedule();
        for job in &view.jobs {
            for share in job.shares.iter().filter(|share| share.state == ShareState::Leaving) {
                scheduler.record(Event::ShareExited { job: job.id, share: share.id });
            }
        }
    }
    scheduler
}

fn quiet_cycle(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("quiet cycle");
    group.sample_size(10);
    for size in [100, 1000] {
        let mut scheduler = settled(size);
        let planned = scheduler.schedule().planned.expect("a cycle has run");
        group.bench_with_input(
            BenchmarkId::new("plan", size),
            &planned.snapshot,
            |bench, snapshot| {
                bench.iter(|| plan(snapshot));
            },
        );
        group.bench_with_input(BenchmarkId::new("whole", size), &scheduler, |bench, scheduler| {
            bench.iter_batched(
                || scheduler.clone(),
                |mut scheduler| scheduler.schedule(),
                criterion::BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, quiet_cycle);
criterion_main!(benches);
