//! Who has taken from whom, and who therefore may not take back.
//!
//! With orders of many sizes and weights no single measure grows with every preemption: two sides
//! could in turn find each other better off. So nobody takes back, directly or through others,
//! what was taken from its side: within one cycle never, and across cycles once the cluster has
//! been quiet for [`MEMORY_AFTER`] cycles, until something changes. Whoever comes last in that
//! order only gains, and so, one after the other, everybody comes to rest: that is why preemption
//! ends.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::draft::Draft;
use crate::engine::entities::{Entities, Level};
use crate::engine::snapshot::Taking;
use crate::model::JobId;

/// After so many quiet cycles it is remembered who took from whom.
pub const MEMORY_AFTER: u64 = 8;

/// Until so many quiet cycles, work that has nothing may take back all the same.
const HOLDS_FOR_ALL_AFTER: u64 = 12;

/// Who took from whom, at the level that divides the two.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Takings(BTreeMap<(Level, usize), BTreeSet<usize>>);

/// The sides that a beneficiary may not take from.
#[derive(Debug)]
pub(super) struct Barred(BTreeSet<(Level, usize)>);

impl Takings {
    /// Those that the snapshot remembers.
    pub(in crate::engine) fn new(
        entities: &Entities,
        remembered: &[Taking],
        place_of: impl Fn(JobId) -> Option<usize>,
    ) -> Takings {
        let mut takings = Takings::default();
        for taking in remembered {
            if let (Some(from), Some(by)) = (place_of(taking.from), place_of(taking.by)) {
                takings.note(entities, from, by);
            }
        }
        takings
    }

    /// Notes that the job at `by` took from the one at `from`.
    pub(in crate::engine) fn note(&mut self, entities: &Entities, from: usize, by: usize) {
        let level = entities.dividing_level(from, by);
        let side = |job| entities.side(level, job);
        self.0.entry((level, side(from))).or_default().insert(side(by));
    }
}

impl Barred {
    /// Everybody who took, directly or through others, from the sides that `job` is on.
    pub(super) fn new(draft: &Draft<'_>, job: usize) -> Barred {
        let mut barred = BTreeSet::new();
        let Takings(takings) = &draft.takings;
        let has_time = draft.snapshot.calm.quiet_cycles < HOLDS_FOR_ALL_AFTER;
        if takings.is_empty() || (draft.has(job) == 0 && has_time) {
            return Barred(barred);
        }
        for level in Level::ALL {
            let mut open = vec![draft.entities.side(level, job)];
            while let Some(side) = open.pop() {
                for &taker in takings.get(&(level, side)).into_iter().flatten() {
                    if barred.insert((level, taker)) {
                        open.push(taker);
                    }
                }
            }
        }
        Barred(barred)
    }

    /// Whether the side at `level` that `victim` is on took from the beneficiary's.
    pub(super) fn contains(&self, entities: &Entities, level: Level, victim: usize) -> bool {
        self.0.contains(&(level, entities.side(level, victim)))
    }
}
