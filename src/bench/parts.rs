//! The parts of a plan, each by itself, for benchmarks: the steps before a part are done outside
//! its time.

use std::hint::black_box;

use crate::engine::{CycleSchedule, Planning, Snapshot};

/// A part of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanPart {
    /// Reading the snapshot.
    Read,
    /// Counting the nshares of each order that fit, alone, in the ideal cluster.
    NShares,
    /// Carving up the ideal cluster.
    Carve,
    /// Counting the target of each job.
    Apportion,
    /// Placing the shares that fit now.
    Place,
    /// Making space for the rest.
    MakeRoom,
    /// The report.
    Report,
}

/// Result of a part; the caller drops it outside the measured time.
#[derive(Debug)]
pub struct PartResult<'a> {
    /// The cycle, if it is not over.
    pub planning: Option<Planning<'a>>,
    /// The decided schedule, if the cycle is over.
    pub schedule: Option<CycleSchedule>,
}

impl PlanPart {
    /// All of them, in order.
    pub const ALL: [PlanPart; 7] = [
        PlanPart::Read,
        PlanPart::NShares,
        PlanPart::Carve,
        PlanPart::Apportion,
        PlanPart::Place,
        PlanPart::MakeRoom,
        PlanPart::Report,
    ];

    /// Name of the part.
    pub fn name(self) -> &'static str {
        match self {
            PlanPart::Read => "read",
            PlanPart::NShares => "nshares",
            PlanPart::Carve => "carve",
            PlanPart::Apportion => "apportion",
            PlanPart::Place => "place",
            PlanPart::MakeRoom => "make room",
            PlanPart::Report => "report",
        }
    }

    /// A cycle in which everything is done that goes before; `None` if nothing does.
    pub fn prepared<'a>(self, snapshot: &'a Snapshot) -> Option<Planning<'a>> {
        let phases: &[fn(&mut Planning<'a>)] = match self {
            PlanPart::Read => return None,
            PlanPart::NShares | PlanPart::Carve | PlanPart::Apportion => &[],
            PlanPart::Place => &[Planning::count],
            PlanPart::MakeRoom => &[Planning::count, Planning::place],
            PlanPart::Report => &[Planning::count, Planning::place, Planning::make_space],
        };
        let mut planning = Planning::begin(snapshot);
        for phase in phases {
            phase(&mut planning);
        }
        Some(planning)
    }

    /// Runs the part, on the state that [`PlanPart::prepared`] made of this snapshot.
    pub fn run<'a>(self, snapshot: &'a Snapshot, prepared: Option<Planning<'a>>) -> PartResult<'a> {
        let mut planning = prepared.unwrap_or_else(|| Planning::begin(snapshot));
        match self {
            PlanPart::Read => {}
            PlanPart::NShares => {
                black_box(planning.ideal_cluster().nshares());
            }
            PlanPart::Carve => {
                black_box(planning.ideal_cluster().carve());
            }
            PlanPart::Apportion => planning.count(),
            PlanPart::Place => planning.place(),
            PlanPart::MakeRoom => planning.make_space(),
            PlanPart::Report => {
                return PartResult { planning: None, schedule: Some(planning.end()) };
            }
        }
        PartResult { planning: Some(planning), schedule: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cluster::ClusterShape;
    use crate::bench::situation::{SITUATIONS, next_snapshot};
    use crate::engine::plan;
    use crate::model::{Mebibytes, Quantum};

    #[test]
    fn the_last_part_ends_what_the_others_began() {
        let quantum = Quantum::new(Mebibytes::from_gib(15)).unwrap();
        let shape = ClusterShape { nodes: 12, jobs: 20, users: 2, quantum, seed: 1 };
        for (name, scheduler) in SITUATIONS {
            let snapshot = next_snapshot(scheduler(&shape));
            for part in PlanPart::ALL {
                let done = part.run(&snapshot, part.prepared(&snapshot));
                assert_eq!(done.schedule.is_some(), part == PlanPart::Report, "{name}");
                assert_eq!(done.planning.is_some(), part != PlanPart::Report, "{name}");
                assert!(done.schedule.is_none_or(|schedule| schedule == plan(&snapshot)), "{name}");
            }
        }
    }
}
