//! Lower bound of a cycle's duration: one pass that reads every machine and every job once.
//!
//! The pass reads flat tables of plain records without other fields. It sums, by order, the free
//! space of machines, and the holdings and the demand of jobs. An engine that reads everything
//! cannot be faster; the ratio depends little on the computer.

use std::hint::black_box;
use std::time::Duration;

use super::times::median;
use crate::engine::Snapshot;
use crate::model::{Order, QShares};
use crate::sim::systemtest::Clock;

/// Number of timed passes. Odd, so that there is a middle.
const PASSES: usize = 101;

/// Fields of a machine that a pass reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BareNode {
    order: usize,
    free: u64,
}

/// Fields of a job that a pass reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BareJob {
    order: usize,
    held: u64,
    demand: u64,
}

/// The records of a snapshot.
#[derive(Clone, Debug)]
struct Tables {
    nodes: Vec<BareNode>,
    jobs: Vec<BareJob>,
}

/// Sums of a pass for an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OrderSum {
    free: u64,
    held: u64,
    demand: u64,
}

/// Measures a pass over the records of `snapshot`; returns the median time.
pub(super) fn pass(snapshot: &Snapshot, clock: Clock<'_>) -> Duration {
    let tables = Tables::of(snapshot);
    let mut sums = vec![OrderSum::default(); tables.orders()];
    let times = (0..PASSES).map(|_| {
        sums.fill(OrderSum::default());
        let begun = clock();
        add_up(black_box(&tables), &mut sums);
        black_box(&sums);
        clock().saturating_sub(begun)
    });
    median(times.collect())
}

fn add_up(tables: &Tables, sums: &mut [OrderSum]) {
    for node in &tables.nodes {
        sums[node.order].free += node.free;
    }
    for job in &tables.jobs {
        let sum = &mut sums[job.order];
        sum.held += job.held;
        sum.demand += job.demand;
    }
}

impl Tables {
    fn of(snapshot: &Snapshot) -> Tables {
        let mut used = vec![QShares(0); snapshot.nodes.len()];
        for share in snapshot.jobs.iter().flat_map(|job| &job.shares) {
            used[share.node.0] += share.order.qshares();
        }
        let nodes = snapshot.nodes.iter().zip(used).map(|(node, used)| BareNode {
            order: position(node.order),
            free: node.order.saturating_sub(used).0,
        });
        let jobs = snapshot.jobs.iter().map(|job| BareJob {
            order: position(Order::qshares(job.order)),
            held: job.nshares_held().0,
            demand: job.facts.useful_processes(job.threads),
        });
        Tables { nodes: nodes.collect(), jobs: jobs.collect() }
    }

    /// Length of a table by order.
    fn orders(&self) -> usize {
        let orders = self.nodes.iter().map(|node| node.order);
        orders.chain(self.jobs.iter().map(|job| job.order)).max().map_or(0, |most| most + 1)
    }
}

fn position(order: QShares) -> usize {
    usize::try_from(order.0).expect("an order of a real machine can be addressed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cluster::{self, ClusterShape};
    use crate::bench::drive;
    use crate::model::{Mebibytes, Quantum};

    #[test]
    fn every_record_is_read_once() {
        let quantum = Quantum::new(Mebibytes::from_gib(15)).unwrap();
        let shape = ClusterShape { nodes: 3, jobs: 8, users: 1, quantum, seed: 1 };
        let (mut scheduler, _) = drive::loaded(&shape, cluster::topology(quantum));
        let view = drive::ramp(&mut scheduler, 60).view;
        let tables = Tables::of(&view.planned.as_ref().unwrap().snapshot);
        let mut sums = vec![OrderSum::default(); tables.orders()];
        add_up(&tables, &mut sums);
        assert_eq!((tables.nodes.len(), tables.jobs.len(), sums.len()), (3, 8, 18));
        let held: u64 = sums.iter().map(|sum| sum.held).sum();
        assert_eq!(held, view.jobs.iter().map(|job| job.held().0).sum::<u64>());
        let free: u64 = sums.iter().map(|sum| sum.free).sum();
        assert_eq!(free, view.nodes.iter().map(|node| node.order.0 - node.used.0).sum::<u64>());
    }
}
