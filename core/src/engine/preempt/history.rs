//! Preemption history: sides that took processes from a job may not lose them to it again.
//!
//! A single level always comes to an end: the smallest of the holdings that a preemption changes
//! rises. But a plan may free more than it needs, and a third side may get the rest. So an outer
//! level can lose by a preemption within it, and processes can go round.
//!
//! So no side takes back, directly or through other sides, a process that was taken from it. Within
//! a cycle that always holds. Across cycles it holds once the cluster has been quiet for
//! [`MEMORY_AFTER`] cycles, until demand or supply changes. Then the last job of the last user of
//! the last class only gains, and so, by induction, all sides come to an end. Before that, a job
//! that holds nothing is exempt.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use crate::engine::draft::Draft;
use crate::engine::fairness_tree::{EntityIx, FairnessTree, Level};
use crate::engine::snapshot::Taking;
use crate::model::{IxVec, JobId, JobIx, NShares};

/// Quiet cycles after which preemptions are remembered.
pub const MEMORY_AFTER: u64 = 12;

/// Takers of each side, by level: for each level and side the sides that took from it. The list of
/// a level without preemptions is empty.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Takings([IxVec<EntityIx, BTreeSet<EntityIx>>; Level::ALL.len()]);

/// Sides that a beneficiary may not take from. They are computed on first use, as few are ever
/// needed.
#[derive(Debug)]
pub(super) struct Barred {
    beneficiary: JobIx,
    /// True if the beneficiary is exempt.
    is_excepted: bool,
    /// For each level and side: true if the beneficiary may not take from that side.
    sides: [OnceCell<IxVec<EntityIx, bool>>; Level::ALL.len()],
}

impl Takings {
    /// Builds the history from the preemptions that the snapshot remembers.
    pub(in crate::engine) fn new(
        entities: &FairnessTree,
        remembered: &[Taking],
        place_of: impl Fn(JobId) -> Option<JobIx>,
    ) -> Takings {
        let mut takings = Takings::default();
        for taking in remembered {
            if let (Some(from), Some(by)) = (place_of(taking.from), place_of(taking.by)) {
                takings.note(entities, from, by);
            }
        }
        takings
    }

    /// Notes that the job at `by` took from the job at `from`.
    pub(in crate::engine) fn note(&mut self, entities: &FairnessTree, from: JobIx, by: JobIx) {
        let level = entities.lowest_common_level(from, by);
        let side = |job| entities.side(level, job);
        let takers = &mut self.0[level.place()];
        takers.resize_with(entities.sides(level), BTreeSet::new);
        takers[side(from)].insert(side(by));
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(IxVec::is_empty)
    }

    /// Returns for each side at `level` if it took, directly or through other sides, from `side`.
    fn takers(&self, level: Level, side: EntityIx) -> IxVec<EntityIx, bool> {
        let takers = &self.0[level.place()];
        // Most sides lost nothing: an empty list saves the search.
        if takers.get(side).is_none_or(BTreeSet::is_empty) {
            return IxVec::default();
        }
        let mut has_taken = IxVec::filled(false, takers.len());
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
    /// Starts with the sides that took, directly or through other sides, from the sides of `job`.
    pub(super) fn new(draft: &Draft<'_>, job: JobIx) -> Barred {
        let has_time = draft.snapshot.quiescence.quiet_cycles < MEMORY_AFTER;
        Barred {
            beneficiary: job,
            is_excepted: draft.takings.is_empty() || (draft.has(job) == NShares(0) && has_time),
            sides: Level::ALL.map(|_| OnceCell::new()),
        }
    }

    /// True if such a side is another user of the beneficiary's class, or another job of its user.
    pub(super) fn is_any_below_class(&self, draft: &Draft<'_>) -> bool {
        let has_takers = |level: Level| {
            let own = draft.entities.side(level, self.beneficiary);
            let takers = draft.takings.0[level.place()].get(own);
            takers.is_some_and(|takers| !takers.is_empty())
        };
        !self.is_excepted && (has_takers(Level::User) || has_takers(Level::Job))
    }

    /// True if the side of `victim` at `level` took from the beneficiary's side.
    pub(super) fn contains(&self, draft: &Draft<'_>, level: Level, victim: JobIx) -> bool {
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
