//! Many requests for a single share each, placed in a cycle on empty nodes.
//!
//! Every node has space for just one share, so that with as many requests as nodes each gets a node
//! of its own. Nothing is to be preempted and no jobs are to be compared. The remaining work is to
//! count, to search for space, and to write the result.

use serde::Serialize;

use super::cluster::ClusterShape;
use super::cycle::first_cycles;
use super::drive;
use super::measure::Measured;
use crate::model::Quantum;
use crate::sim::systemtest::Clock;

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceOptions {
    /// Empty nodes of a quantum each. At least 1.
    pub nodes: u64,
    /// Requests. At least 1.
    pub jobs: u64,
    /// Their users. At least 1.
    pub users: u64,
    /// The smallest allocation, which is also the largest here.
    pub quantum: Quantum,
    /// Number of timings of the cycle, each with a fresh scheduler. At least 1.
    pub cycles: u64,
}

/// Result of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaceOutcome {
    /// The figures.
    pub figures: PlaceFigures,
    /// The first findings of the engine's audit, as text.
    pub findings: Vec<String>,
}

/// Figures of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlaceFigures {
    /// Empty nodes.
    pub nodes: u64,
    /// Requests.
    pub jobs: u64,
    /// Their users.
    pub users: u64,
    /// Number of timings of the cycle.
    pub cycles: u64,
    /// All the rest.
    #[serde(flatten)]
    pub measured: Measured,
}

/// Times the cycle as `options` say.
pub fn run(options: &PlaceOptions, clock: Clock<'_>) -> PlaceOutcome {
    let PlaceOptions { nodes, jobs, users, quantum, cycles } = *options;
    let shape = ClusterShape { nodes, jobs, users, quantum, seed: 0 };
    let begun = clock();
    let scheduler = drive::single_jobs(&shape);
    let recorded = clock().saturating_sub(begun);
    let (measured, findings) = first_cycles(&scheduler, cycles, recorded, clock).measure(clock);
    PlaceOutcome { figures: PlaceFigures { nodes, jobs, users, cycles, measured }, findings }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::Mebibytes;

    #[test]
    fn every_request_gets_a_node_while_there_are_any() {
        let quantum = Quantum::new(Mebibytes::from_gib(15)).unwrap();
        for (nodes, jobs, held) in [(40, 40, 40), (50, 40, 40), (40, 50, 40)] {
            let options = PlaceOptions { nodes, jobs, users: 4, quantum, cycles: 2 };
            let PlaceOutcome { figures, findings } = run(&options, &|| Duration::ZERO);
            assert_eq!(findings, Vec::<String>::new());
            let Measured { shares_held, jobs_waiting, ratio, .. } = figures.measured;
            assert_eq!((shares_held, jobs_waiting, ratio), (held, jobs - held, None));
        }
    }
}
