//! Shape of a job: chunks of processes that start together, where they go, and how many there may be.
//!
//! Design: seed 003 (node buckets) for chunks, places and sets; seed 002 (negotiated malleable
//! work) for elasticity and legal sizes.

use super::{Mebibytes, Millis, Name, Tags, counted, span};

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

/// Spread of the processes of a job over nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Nodes hold as many as fit.
    #[default]
    Free,
    /// Each node holds a single process.
    Scatter,
    /// All on the same node.
    Pack,
}

impl Place {
    /// Every place.
    pub const ALL: [Place; 3] = [Place::Free, Place::Scatter, Place::Pack];

    /// Name of the place in requests.
    pub fn word(self) -> &'static str {
        match self {
            Place::Free => "free",
            Place::Scatter => "scatter",
            Place::Pack => "pack",
        }
    }
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

impl Elasticity {
    /// Every elasticity.
    pub const ALL: [Elasticity; 4] =
        [Elasticity::Rigid, Elasticity::Moldable, Elasticity::Malleable, Elasticity::Evolving];

    /// Name of the elasticity in requests.
    pub fn word(self) -> &'static str {
        match self {
            Elasticity::Rigid => "rigid",
            Elasticity::Moldable => "moldable",
            Elasticity::Malleable => "malleable",
            Elasticity::Evolving => "evolving",
        }
    }
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
    /// Sizes that have a name in requests.
    pub const NAMED: [(&'static str, LegalSizes); 4] = [
        ("any", LegalSizes::Any),
        ("power_of_two", LegalSizes::PowerOfTwo),
        ("even", LegalSizes::Even),
        ("odd", LegalSizes::Odd),
    ];

    /// The sizes in words; empty for any.
    fn words(&self) -> String {
        match self {
            LegalSizes::Any => String::new(),
            LegalSizes::PowerOfTwo => "powers of two".to_owned(),
            LegalSizes::Even => "even numbers".to_owned(),
            LegalSizes::Odd => "odd numbers".to_owned(),
            LegalSizes::MultipleOf(step) => format!("multiples of {step}"),
            LegalSizes::Listed(sizes) => {
                let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
                format!("sizes {}", sizes.join(", "))
            }
        }
    }

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

/// Chunks, sizes and duration of a job.
///
/// With chunks the job is a gang: all its processes start in the same cycle, or none. Without
/// chunks it is a job whose number of processes is bound to legal sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Processes, in the order of their ranks. At most [`MAX_CHUNKS`].
    pub chunks: Vec<Chunk>,
    /// Spread of the processes over nodes.
    pub place: Place,
    /// True if the nodes of the request run nothing else.
    pub is_exclusive: bool,
    /// Key of a tag of which all nodes must have the same value. Replaces the configured
    /// placement sets.
    pub group_by: Option<Name>,
    /// True if several sets may be used where no single set could ever hold the request. `None`
    /// leaves it to the configuration.
    pub may_span: Option<bool>,
    /// Owner of the number of processes. `None` is rigid for a gang.
    pub elasticity: Option<Elasticity>,
    /// Fewest processes that the job can work with.
    pub min_processes: u64,
    /// Numbers of processes that the job can work with.
    pub legal_sizes: LegalSizes,
    /// The longest that the job runs, from its start.
    pub duration: Option<Millis>,
    /// Earliest start, in milliseconds since the epoch.
    pub not_before: Option<Millis>,
    /// Latest end: the job is not started if it would not be over by then.
    pub deadline: Option<Millis>,
    /// Name of the advance reservation in which the job runs.
    pub reservation: Option<Name>,
}

/// Times of a job that its owner may change at any moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobTimes {
    /// The longest that the job runs, from its start.
    pub duration: Option<Millis>,
    /// Earliest start, in milliseconds since the epoch.
    pub not_before: Option<Millis>,
    /// Latest end, in milliseconds since the epoch.
    pub deadline: Option<Millis>,
}

impl Shape {
    /// The times that the owner of the job may change.
    pub fn times(&self) -> JobTimes {
        let Shape { duration, not_before, deadline, .. } = *self;
        JobTimes { duration, not_before, deadline }
    }

    /// The same shape with other times; `None` if nothing is left of it.
    pub fn with_times(&self, times: JobTimes) -> Option<Shape> {
        let JobTimes { duration, not_before, deadline } = times;
        let shape = Shape { duration, not_before, deadline, ..self.clone() };
        (shape != Shape::default()).then_some(shape)
    }

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

    /// True if time decides about the job: its length is declared, or its place in the calendar.
    pub fn has_times(&self) -> bool {
        self.duration.is_some()
            || self.not_before.is_some()
            || self.deadline.is_some()
            || self.reservation.is_some()
    }

    /// True if the planner changes the number of processes in steps from a legal size to the next.
    pub fn is_elastic(&self) -> bool {
        !self.is_gang() && (self.is_sized() || self.elasticity == Some(Elasticity::Malleable))
    }

    /// The first contradiction in the shape of a job of at most `most` processes; `None` for no
    /// limit.
    pub fn problem(&self, most: Option<u64>) -> Option<ShapeProblem> {
        if MAX_CHUNKS < self.chunks.len() {
            return Some(ShapeProblem::TooManyChunks { chunks: self.chunks.len() });
        }
        if let Some(chunk) = self.chunks.iter().position(|chunk| chunk.count == 0) {
            return Some(ShapeProblem::EmptyChunk { chunk });
        }
        if let Some(chunk) = self.chunks.iter().position(|chunk| chunk.memory.0 == 0) {
            return Some(ShapeProblem::NoMemory { chunk });
        }
        self.sizes_problem(if self.is_gang() { Some(self.processes()) } else { most })
    }

    fn sizes_problem(&self, most: Option<u64>) -> Option<ShapeProblem> {
        let is_rigid = self.elasticity.is_none_or(|elasticity| elasticity == Elasticity::Rigid);
        if 1 < self.chunks.len() && (self.is_sized() || !is_rigid) {
            return Some(ShapeProblem::SeveralChunks);
        }
        let min = self.min_processes;
        if self.elasticity == Some(Elasticity::Evolving) && 0 < min {
            return Some(ShapeProblem::EvolvingMinimum);
        }
        let is_list_bad = match &self.legal_sizes {
            LegalSizes::MultipleOf(step) => *step == 0,
            LegalSizes::Listed(sizes) => {
                sizes.is_empty() || MAX_LEGAL_SIZES < sizes.len() || sizes.contains(&0)
            }
            LegalSizes::Any | LegalSizes::PowerOfTwo | LegalSizes::Even | LegalSizes::Odd => false,
        };
        if is_list_bad {
            return Some(ShapeProblem::BadSizes);
        }
        let most = most.unwrap_or(u64::MAX);
        if most < min {
            return Some(ShapeProblem::MinimumAboveMaximum { min, most });
        }
        let is_legal = self.legal_sizes.at_least(min).is_some_and(|size| size <= most);
        (!is_legal && 0 < most).then_some(ShapeProblem::NoLegalSize { min, most })
    }

    /// The first chunks alone: "4 × 8 GB, 2 × 1 GB and 3 more". Empty without chunks.
    pub fn chunk_words(&self) -> String {
        const SHOWN: usize = 2;
        let words = self.chunks.iter().map(|chunk| format!("{} × {}", chunk.count, chunk.memory));
        let shown = words.take(SHOWN).collect::<Vec<_>>().join(", ");
        match self.chunks.len().saturating_sub(SHOWN) {
            0 => shown,
            more => format!("{shown} and {more} more"),
        }
    }

    /// The request in words: "4 × 8 GB on color=yellow; one a node; exclusive". Empty for
    /// independent processes.
    pub fn words(&self) -> String {
        let chunk = |chunk: &Chunk| {
            let on = if chunk.tags.is_empty() { "" } else { " on " };
            format!("{} × {}{on}{}", chunk.count, chunk.memory, chunk.tags)
        };
        let chunks: Vec<String> = self.chunks.iter().map(chunk).collect();
        let place = match self.place {
            Place::Free => "",
            Place::Scatter => "one a node",
            Place::Pack => "all on one node",
        };
        let group = self.group_by.as_ref().map(|key| {
            let at_best = if self.may_span == Some(false) { "" } else { ", if that could ever be" };
            format!("the same {key} on all nodes{at_best}")
        });
        let elasticity = self.elasticity.filter(|elasticity| *elasticity != Elasticity::Rigid);
        let parts = [
            chunks.join(", "),
            place.to_owned(),
            if self.is_exclusive { "exclusive".to_owned() } else { String::new() },
            group.unwrap_or_default(),
            elasticity.map_or("", Elasticity::word).to_owned(),
            if 1 < self.min_processes {
                format!("at least {}", counted(self.min_processes, "process"))
            } else {
                String::new()
            },
            self.legal_sizes.words(),
            self.duration
                .map(|most| format!("a run of at most {}", span(most)))
                .unwrap_or_default(),
        ];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
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

/// A contradiction in a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeProblem {
    /// More chunks than allowed.
    #[error("{chunks} chunks; a request has at most {MAX_CHUNKS}")]
    TooManyChunks {
        /// Number of chunks.
        chunks: usize,
    },
    /// A chunk without processes.
    #[error("the chunk has no process; its `count` is at least 1")]
    EmptyChunk {
        /// Place of the chunk.
        chunk: usize,
    },
    /// A chunk whose processes need no memory.
    #[error("the processes of the chunk have no memory; they need at least 1 MiB")]
    NoMemory {
        /// Place of the chunk.
        chunk: usize,
    },
    /// Several chunks, and a number of processes that may change.
    #[error("a request of several chunks is rigid: no elasticity, minimum or legal sizes")]
    SeveralChunks,
    /// An evolving job with a minimum.
    #[error("an evolving job has exactly the processes that its owner asks for, and no minimum")]
    EvolvingMinimum,
    /// Sizes that no job can have.
    #[error(
        "legal sizes are multiples of at least 1, or a list of 1 to {MAX_LEGAL_SIZES} sizes from 1"
    )]
    BadSizes,
    /// A minimum above the maximum.
    #[error("the minimum of {min} is above the maximum of {most}")]
    MinimumAboveMaximum {
        /// Minimum of the job.
        min: u64,
        /// Maximum of the job.
        most: u64,
    },
    /// No legal size from the minimum to the maximum.
    #[error("no legal size lies between {min} and {most}")]
    NoLegalSize {
        /// Minimum of the job.
        min: u64,
        /// Maximum of the job.
        most: u64,
    },
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
    /// True if work that stays is ended once it runs longer than it declared.
    pub ends_overruns: bool,
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
            ends_overruns: false,
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
    fn contradictions_are_found() {
        let chunk =
            |count, memory| Chunk { count, memory: Mebibytes(memory), tags: Tags::default() };
        let gang = |counts: &[u64]| Shape {
            chunks: counts.iter().map(|&count| chunk(count, 1)).collect(),
            ..Shape::default()
        };
        let sized = |min_processes, legal_sizes| Shape { min_processes, legal_sizes, ..gang(&[6]) };
        let elastic = |elasticity, from: Shape| Shape { elasticity: Some(elasticity), ..from };
        let cases = [
            (gang(&[1; 65]), Some(ShapeProblem::TooManyChunks { chunks: 65 })),
            (gang(&[1; 64]), None),
            (gang(&[2, 0]), Some(ShapeProblem::EmptyChunk { chunk: 1 })),
            (
                Shape { chunks: vec![chunk(1, 0)], ..Shape::default() },
                Some(ShapeProblem::NoMemory { chunk: 0 }),
            ),
            (elastic(Elasticity::Moldable, gang(&[1, 1])), Some(ShapeProblem::SeveralChunks)),
            (elastic(Elasticity::Rigid, gang(&[1, 1])), None),
            (Shape { min_processes: 2, ..gang(&[1, 1]) }, Some(ShapeProblem::SeveralChunks)),
            (
                elastic(Elasticity::Evolving, sized(2, LegalSizes::Any)),
                Some(ShapeProblem::EvolvingMinimum),
            ),
            (elastic(Elasticity::Evolving, gang(&[6])), None),
            (sized(0, LegalSizes::MultipleOf(0)), Some(ShapeProblem::BadSizes)),
            (sized(0, LegalSizes::Listed(vec![])), Some(ShapeProblem::BadSizes)),
            (sized(0, LegalSizes::Listed(vec![0, 2])), Some(ShapeProblem::BadSizes)),
            (sized(0, LegalSizes::Listed(vec![2; 65])), Some(ShapeProblem::BadSizes)),
            (
                sized(7, LegalSizes::Any),
                Some(ShapeProblem::MinimumAboveMaximum { min: 7, most: 6 }),
            ),
            (sized(6, LegalSizes::Any), None),
            (sized(5, LegalSizes::PowerOfTwo), Some(ShapeProblem::NoLegalSize { min: 5, most: 6 })),
            (sized(4, LegalSizes::PowerOfTwo), None),
        ];
        for (shape, problem) in cases {
            assert_eq!(shape.problem(None), problem, "{shape:?}");
        }
        let free = Shape { min_processes: 5, ..Shape::default() };
        assert_eq!(free.problem(None), None);
        let above = ShapeProblem::MinimumAboveMaximum { min: 5, most: 4 };
        assert_eq!(free.problem(Some(4)), Some(above));
    }

    #[test]
    fn a_shape_is_told_in_words() {
        let chunk = |count, gb, tags: &[(&str, &str)]| Chunk {
            count,
            memory: Mebibytes::from_gib(gb),
            tags: Tags::of(tags.iter().copied()),
        };
        let two = Shape {
            chunks: vec![chunk(4, 8, &[("color", "yellow")]), chunk(4, 8, &[("color", "blue")])],
            place: Place::Scatter,
            is_exclusive: true,
            ..Shape::default()
        };
        let words = "4 × 8 GB on color=yellow, 4 × 8 GB on color=blue; one a node; exclusive";
        assert_eq!(two.words(), words);
        assert_eq!(two.chunk_words(), "4 × 8 GB, 4 × 8 GB");
        let many = Shape { chunks: vec![chunk(1, 2, &[]); 5], ..Shape::default() };
        assert_eq!(many.chunk_words(), "1 × 2 GB, 1 × 2 GB and 3 more");
        let packed = Shape {
            chunks: vec![chunk(1, 2, &[])],
            place: Place::Pack,
            group_by: Some("rack".into()),
            may_span: Some(true),
            duration: Some(3_600_000),
            ..Shape::default()
        };
        let words = "1 × 2 GB; all on one node; the same rack on all nodes, if that could ever be; \
                     a run of at most 1h";
        assert_eq!(packed.words(), words);
        let sized = |legal_sizes| Shape {
            elasticity: Some(Elasticity::Malleable),
            min_processes: 2,
            legal_sizes,
            ..Shape::default()
        };
        let words = |sizes| sized(sizes).words();
        assert_eq!(words(LegalSizes::Any), "malleable; at least 2 processes");
        assert!(words(LegalSizes::PowerOfTwo).ends_with("; powers of two"));
        assert!(words(LegalSizes::MultipleOf(3)).ends_with("; multiples of 3"));
        assert!(words(LegalSizes::Listed(vec![2, 5])).ends_with("; sizes 2, 5"));
        assert_eq!(Shape::default().words(), "");
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
