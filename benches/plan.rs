//! A cycle, and the steps inside and around it, on clusters with more work than space.
//!
//! The clusters are the clusters of `apportion bench`: nodes of 64, 128 and 256 GB in turn, four
//! classes, as many jobs as nodes, a tenth as many users. Each situation is timed for the engine
//! alone and for the scheduler's whole cycle; then follow the engine's parts, and the steps around
//! them.

use std::hint::black_box;

use apportion::bench::cluster::ClusterShape;
use apportion::bench::parts::PlanPart;
use apportion::bench::situation::{self, SITUATIONS};
use apportion::converter::{events_between, update_from};
use apportion::engine::plan;
use apportion::model::{Mebibytes, Quantum};
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};

/// Nodes, and as many jobs.
const SIZES: [u64; 2] = [100, 1000];

fn shape(size: u64) -> ClusterShape {
    let quantum = Quantum::new(Mebibytes::from_gib(15)).expect("15 GB is a quantum");
    ClusterShape { nodes: size, jobs: size, users: size.div_ceil(10), quantum, seed: 1 }
}

fn cycles(criterion: &mut Criterion) {
    for (name, books) in SITUATIONS {
        let mut group = criterion.benchmark_group(name);
        group.sample_size(10);
        for size in SIZES {
            let books = books(&shape(size));
            let snapshot = situation::next_snapshot(books.clone());
            group.bench_with_input(BenchmarkId::new("plan", size), &snapshot, |bench, snapshot| {
                bench.iter(|| plan(snapshot));
            });
            group.bench_with_input(BenchmarkId::new("whole", size), &books, |bench, books| {
                bench.iter_batched(
                    || books.clone(),
                    // The scheduler is returned as well, to be dropped outside the time.
                    |mut books| (books.schedule(), books),
                    BatchSize::LargeInput,
                );
            });
        }
        group.finish();
    }
}

/// Situations in which all jobs, or hardly any jobs, have to be placed.
fn parts(criterion: &mut Criterion) {
    for (name, books) in SITUATIONS.iter().filter(|(name, _)| ["burst", "churn"].contains(name)) {
        let mut group = criterion.benchmark_group(format!("parts of {name}"));
        group.sample_size(10);
        for size in SIZES {
            let snapshot = situation::next_snapshot(books(&shape(size)));
            for part in PlanPart::ALL {
                group.bench_function(BenchmarkId::new(part.name(), size), |bench| {
                    bench.iter_batched(
                        || part.prepared(&snapshot),
                        |prepared| part.run(&snapshot, prepared),
                        BatchSize::LargeInput,
                    );
                });
            }
        }
        group.finish();
    }
}

fn conversion(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("conversion");
    for size in SIZES {
        let [before, after] = situation::publications(&shape(size));
        let cases = [
            ("difference, first", None, &before),
            ("difference, same", Some(&before), &before),
            ("difference, churn", Some(&before), &after),
        ];
        for (name, old, new) in cases {
            group.bench_function(BenchmarkId::new(name, size), |bench| {
                bench.iter(|| events_between(black_box(old), black_box(new)));
            });
        }
        let (scheduler, _, view) = situation::settled(&shape(size));
        group.bench_function(BenchmarkId::new("view", size), |bench| {
            bench.iter(|| scheduler.view());
        });
        group.bench_function(BenchmarkId::new("update", size), |bench| {
            bench.iter(|| update_from(black_box(&view)));
        });
    }
    group.finish();
}

criterion_group!(benches, cycles, parts, conversion);
criterion_main!(benches);
