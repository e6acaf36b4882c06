//! Who has taken from whom, and who therefore may not take back.
//!
//! One level alone always comes to rest: of all holdings that a taking changes the smallest rises.
//! But a plan may free more than it needs, and a third side may get the rest. So an outer level can
//! lose by a taking within it, and things can go round.
//!
//! So no side takes back, directly or through others, what was taken from it: within one cycle never,
//! and across cycles once the cluster has been quiet for [`MEMORY_AFTER`] cycles, until something
//! changes. In that order the last job of the last user of the last class only gains, and so, one
//! after the other, all come to rest. Before that, work that is starved is excepted.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use crate::engine::draft::Draft;
use crate::engine::entities::{Entities, Level};
use crate::engine::snapshot::Taking;
use crate::model::JobId;

/// After so many quiet cycles it is remembered who took from whom.
pub const MEMORY_AFTER: u64 = 12;

/// Who took from whom, at the level that divides the two: for each level and side those who took
/// from it. Of a level where nobody took the list is empty.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Takings([Vec<BTreeSet<usize>>; Level::ALL.len()]);

/// The sides that a beneficiary may not take from. Few are ever asked for, so they are found out
/// when they are.
#[derive(Debug)]
pub(super) struct Barred {
    beneficiary: usize,
    /// Whether the bar does not hold for it.
    is_excepted: bool,
    /// For each level, whether each side there is one of them.
    sides: [OnceCell<Vec<bool>>; Level::ALL.len()],
}

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
        let takers = &mut self.0[level.place()];
        takers.resize_with(entities.sides(level), BTreeSet::new);
        takers[side(from)].insert(side(by));
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(Vec::is_empty)
    }

    /// For each side at `level`, whether it took, directly or through others, from `side`.
    fn takers(&self, level: Level, side: usize) -> Vec<bool> {
        let takers = &self.0[level.place()];
        // Nobody took from most.
        if takers.get(side).is_none_or(BTreeSet::is_empty) {
            return Vec::new();
        }
        let mut has_taken = vec![false; takers.len()];
        let mut open = vec![side];
        while let Some(side) = open.pop() {
            for &taker in takers.get(side).into_iter().flatten() {
                if !std::mem::replace(&mut has_taken[taker], true) {
                    open.push(taker);
                }
            }
        }
        has_taken
    }
}

impl Barred {
    /// Everybody who took, directly or through others, from the sides that `job` is on.
    pub(super) fn new(draft: &Draft<'_>, job: usize) -> Barred {
        let has_time = draft.snapshot.calm.quiet_cycles < MEMORY_AFTER;
        Barred {
            beneficiary: job,
            is_excepted: draft.takings.is_empty() || (draft.has(job) == 0 && has_time),
            sides: Level::ALL.map(|_| OnceCell::new()),
        }
    }

    /// Whether any of them is another user of the beneficiary's class, or another job of its user.
    pub(super) fn is_any_below_class(&self, draft: &Draft<'_>) -> bool {
        let has_takers = |level: Level| {
            let own = draft.entities.side(level, self.beneficiary);
            let takers = draft.takings.0[level.place()].get(own);
            takers.is_some_and(|takers| !takers.is_empty())
        };
        !self.is_excepted && (has_takers(Level::User) || has_takers(Level::Job))
    }

    /// Whether the side at `level` that `victim` is on took from the beneficiary's.
    pub(super) fn contains(&self, draft: &Draft<'_>, level: Level, victim: usize) -> bool {
        let side = draft.entities.side(level, victim);
        let Draft { entities, takings, .. } = draft;
        let own = entities.side(level, self.beneficiary);
        !self.is_excepted
            && self.sides[level.place()]
                .get_or_init(|| takings.takers(level, own))
                .get(side)
                .is_some_and(|has_taken| *has_taken)
    }
}
