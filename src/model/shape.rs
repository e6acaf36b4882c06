//! Shape of a job: chunks of processes that start together, where they go, and how many there may be.
//!
//! Design: seed 003 (node buckets) for chunks, places and sets; seed 002 (negotiated malleable
//! work) for elasticity and legal sizes.

use super::{Mebibytes, Millis, Name, Tags};

/// Most chunks of a request.
pub const MAX_CHUNKS: usize = 64;

/// Most sizes in a list of legal sizes.
pub const MAX_LEGAL_SIZES: usize = 64;

/// Equal processes of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chunk {
    /// Number of processes. At least 1.
    pub count: u64,
    /// Memory of each process.
    pub memory: Mebibytes,
    /// Tags that a node must have for these processes.
    pub tags: Tags,
}

/// How the processes of a request are spread over nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// As many on a node as fit.
    #[default]
    Free,
    /// One on a node.
    Scatter,
    /// All on one node.
    Pack,
}

/// The owner of decisions on the number of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Elasticity {
    /// The number never changes.
    Rigid,
    /// The planner chooses the number at the start.
    Moldable,
    /// The planner may change the number at any time.
    Malleable,
    /// The owner of the job may change the number at any time.
    Evolving,
}

/// Numbers of processes that a job can work with, within its minimum and maximum.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LegalSizes {
    /// Every number.
    #[default]
    Any,
    /// 1, 2, 4, 8 and so on.
    PowerOfTwo,
    /// Even numbers.
    Even,
    /// Odd numbers.
    Odd,
    /// Multiples of a number, which is at least 1.
    MultipleOf(u64),
    /// These numbers, ascending, each once.
    Listed(Vec<u64>),
}

impl LegalSizes {
    /// True if a job may have this number of processes.
    pub fn allow(&self, size: u64) -> bool {
        match self {
            LegalSizes::Any => true,
            LegalSizes::PowerOfTwo => size.is_power_of_two(),
            LegalSizes::Even => size.is_multiple_of(2),
            LegalSizes::Odd => !size.is_multiple_of(2),
            LegalSizes::MultipleOf(step) => size.is_multiple_of(*step),
            LegalSizes::Listed(sizes) => sizes.binary_search(&size).is_ok(),
        }
    }

    /// The largest legal size from 1 to `most`.
    pub fn at_most(&self, most: u64) -> Option<u64> {
        let size = match self {
            LegalSizes::Any => most,
            LegalSizes::PowerOfTwo => most.checked_ilog2().map_or(0, |log| 1 << log),
            LegalSizes::Even => most - most % 2,
            LegalSizes::Odd => most - u64::from(most.is_multiple_of(2) && 0 < most),
            LegalSizes::MultipleOf(step) => most - most.checked_rem(*step).unwrap_or(most),
            LegalSizes::Listed(sizes) => {
                let smaller = sizes.partition_point(|size| *size <= most);
                sizes[..smaller].last().copied().unwrap_or(0)
            }
        };
        (0 < size).then_some(size)
    }

    /// The smallest legal size that is at least `least`, and at least 1.
    pub fn at_least(&self, least: u64) -> Option<u64> {
        let least = least.max(1);
        match self {
            LegalSizes::Any => Some(least),
            LegalSizes::PowerOfTwo => least.checked_next_power_of_two(),
            LegalSizes::Even => least.checked_next_multiple_of(2),
            LegalSizes::Odd => least.checked_add(u64::from(least.is_multiple_of(2))),
            LegalSizes::MultipleOf(step) => least.checked_next_multiple_of(*step),
            LegalSizes::Listed(sizes) => {
                sizes.get(sizes.partition_point(|size| *size < least)).copied()
            }
        }
    }
}

/// Shape of a job whose processes do not just come and go one by one.
///
/// With chunks the job is a gang: all its processes start in one cycle, or none. Without chunks it
/// is a job whose number of processes is bound to legal sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Processes, in the order of their ranks. At most [`MAX_CHUNKS`].
    pub chunks: Vec<Chunk>,
    /// How the processes are spread over nodes.
    pub place: Place,
    /// True if the nodes of the request run nothing else.
    pub is_exclusive: bool,
    /// Key of a tag of which all nodes must have the same value. Replaces the configured
    /// placement sets.
    pub group_by: Option<Name>,
    /// True if several sets may be used where no single one could ever hold the request. `None`
    /// leaves it to the configuration.
    pub may_span: Option<bool>,
    /// Who may change the number of processes. `None` is rigid for a gang.
    pub elasticity: Option<Elasticity>,
    /// Fewest processes that the job can work with.
    pub min_processes: u64,
    /// Numbers of processes that the job can work with.
    pub legal_sizes: LegalSizes,
    /// The longest that the job runs, from its start.
    pub duration: Option<Millis>,
}

impl Shape {
    /// True if the processes start together.
    pub fn is_gang(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// Number of processes of all chunks.
    pub fn processes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.count).fold(0, u64::saturating_add)
    }

    /// Memory of the largest process; `None` without chunks.
    pub fn largest_process(&self) -> Option<Mebibytes> {
        self.chunks.iter().map(|chunk| chunk.memory).max()
    }

    /// True if the job works with at least a minimum of processes, or with legal sizes only.
    pub fn is_sized(&self) -> bool {
        1 < self.min_processes || self.legal_sizes != LegalSizes::Any
    }

    /// Place of the chunk of the process with that rank; ranks count from 0.
    pub fn chunk_of(&self, rank: u64) -> Option<usize> {
        let mut first = 0_u64;
        self.chunks.iter().position(|chunk| {
            first = first.saturating_add(chunk.count);
            rank < first
        })
    }
}

/// Rules of a class for requests of several processes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GangRules {
    /// True if requests with chunks, or with a minimum, are admitted.
    pub are_allowed: bool,
    /// Cycles over which a moldable request relaxes from its maximum to its minimum.
    pub patience: u64,
    /// The longest that a waiting gang keeps nodes from younger requests.
    pub hold_limit: Millis,
    /// Duration of a job that declares none.
    pub default_duration: Option<Millis>,
    /// Longest duration that a job may declare.
    pub max_duration: Option<Millis>,
}

impl GangRules {
    /// Default of [`GangRules::patience`].
    pub const PATIENCE: u64 = 5;
    /// Default of [`GangRules::hold_limit`]: an hour.
    pub const HOLD_LIMIT: Millis = 3_600_000;

    /// Duration of a job that declared `declared`, if it is known.
    pub fn duration(&self, declared: Option<Millis>) -> Option<Millis> {
        declared.or(self.default_duration).or(self.max_duration)
    }
}

impl Default for GangRules {
    fn default() -> GangRules {
        GangRules {
            are_allowed: false,
            patience: GangRules::PATIENCE,
            hold_limit: GangRules::HOLD_LIMIT,
            default_duration: None,
            max_duration: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_sizes_round_to_what_they_allow() {
        let all = [
            LegalSizes::Any,
            LegalSizes::PowerOfTwo,
            LegalSizes::Even,
            LegalSizes::Odd,
            LegalSizes::MultipleOf(3),
            LegalSizes::Listed(vec![2, 5, 11]),
        ];
        for sizes in all {
            for number in 0..40 {
                let below = (1..=number).rev().find(|size| sizes.allow(*size));
                assert_eq!(sizes.at_most(number), below, "{sizes:?} {number}");
                let above = (number.max(1)..100).find(|size| sizes.allow(*size));
                assert_eq!(sizes.at_least(number), above, "{sizes:?} {number}");
            }
        }
        assert_eq!(LegalSizes::PowerOfTwo.at_least(u64::MAX), None);
    }

    #[test]
    fn ranks_follow_the_chunks() {
        let chunk = |count| Chunk { count, memory: Mebibytes(1), tags: Tags::default() };
        let shape = Shape { chunks: vec![chunk(2), chunk(1)], ..Shape::default() };
        let chunks: Vec<Option<usize>> = (0..4).map(|rank| shape.chunk_of(rank)).collect();
        assert_eq!(chunks, [Some(0), Some(0), Some(1), None]);
        assert_eq!(shape.processes(), 3);
    }
}
