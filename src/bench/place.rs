//! Many requests for one share each, placed in one cycle on empty nodes.
//!
//! Every node has room for one share and no more, so that with as many requests as nodes each gets
//! a node of its own. Nothing is to be taken back and nobody is to be held against anybody else:
//! what is left is to count, to look for room, and to write down what was found.

use serde::Serialize;

use super::cluster::Shape;
use super::cycle::first_cycles;
use super::drive;
use super::measure::Measured;
use crate::model::Quantum;
use crate::sim::systemtest::Clock;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Empty nodes of one quantum each. At least 1.
    pub nodes: u64,
    /// Requests. At least 1.
    pub jobs: u64,
    /// Their users. At least 1.
    pub users: u64,
    /// The smallest allocation, which is also the largest here.
    pub quantum: Quantum,
    /// How often the cycle is timed, each time on fresh books. At least 1.
    pub cycles: u64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The figures.
    pub figures: Figures,
    /// The first findings of the engine's audit, as text.
    pub findings: Vec<String>,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Empty nodes.
    pub nodes: u64,
    /// Requests.
    pub jobs: u64,
    /// Their users.
    pub users: u64,
    /// How often the cycle was timed.
    pub cycles: u64,
    /// All the rest.
    #[serde(flatten)]
    pub measured: Measured,
}

/// Times the cycle as `options` say.
pub fn run(options: &Options, clock: Clock<'_>) -> Outcome {
    let Options { nodes, jobs, users, quantum, cycles } = *options;
    let shape = Shape { nodes, jobs, users, quantum, seed: 0 };
    let begun = clock();
    let books = drive::single_books(&shape);
    let recorded = clock().saturating_sub(begun);
    let (measured, findings) = first_cycles(&books, cycles, recorded, clock).measure(clock);
    Outcome { figures: Figures { nodes, jobs, users, cycles, measured }, findings }
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
            let options = Options { nodes, jobs, users: 4, quantum, cycles: 2 };
            let Outcome { figures, findings } = run(&options, &|| Duration::ZERO);
            assert_eq!(findings, Vec::<String>::new());
            let Measured { shares_held, jobs_waiting, ratio, .. } = figures.measured;
            assert_eq!((shares_held, jobs_waiting, ratio), (held, jobs - held, None));
        }
    }
}
