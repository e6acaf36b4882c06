//! Who has taken from whom, and who therefore may not take back.
//!
//! With orders of many sizes and weights no single measure grows with every preemption: two sides
//! could in turn find each other better off. So nobody takes back, directly or through others,
//! what was taken from its side: within one cycle never, and across cycles once the cluster has
//! been quiet for [`MEMORY_AFTER`] cycles, until something changes. Whoever comes last in that
//! order, as a class, in it as a user and of that user as a job, only gains, and so, one after the
//! other, everybody comes to rest: that is why preemption ends.
//!
//! That is no reason for it to end soon. What keeps it going is a round across levels. Ann's small
//! job is below its count and takes a process from her large one; more goes than the small job
//! needs, so Ann is behind, and her large job, below its count, takes as much again from Bob; then
//! Ann is ahead of Carl by more than a nshare, and of all she has only the small job's process is
//! small enough for him to take. All is as it was, but that Bob and Carl have less and more, so the
//! next round goes over others: no two of one level take from each other, until all have had their
//! turn. It takes counts to close that round. By holdings alone a side takes only what is more than
//! its own nshare and the victim's ahead of it, and that is not so of the large job. So with
//! defragmentation, where holdings do decide, counts go out in a cluster at rest after
//! [`COUNTS_UNTIL`] quiet cycles, but for work that has nothing: it has one nshare to take.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use crate::engine::draft::Draft;
use crate::engine::entities::{Entities, Level};
use crate::engine::snapshot::Taking;
use crate::model::JobId;

/// After so many quiet cycles it is remembered who took from whom.
pub const MEMORY_AFTER: u64 = 8;

/// Until so many quiet cycles counts decide in a cluster at rest as well. Long enough for jobs that
/// double to have what was counted for them, and two cycles a step before the 20 within which all is
/// to be still.
pub(super) const COUNTS_UNTIL: u64 = 6;

/// Until so many quiet cycles, work that has nothing may take back all the same.
pub(super) const HOLDS_FOR_ALL_AFTER: u64 = 12;

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
        let has_time = draft.snapshot.calm.quiet_cycles < HOLDS_FOR_ALL_AFTER;
        Barred {
            beneficiary: job,
            is_excepted: draft.takings.is_empty() || (draft.has(job) == 0 && has_time),
            sides: Level::ALL.map(|_| OnceCell::new()),
        }
    }

    /// Whether the side at `level` that `victim` is on took from the beneficiary's.
    pub(super) fn contains(&self, draft: &Draft<'_>, level: Level, victim: usize) -> bool {
        let Draft { entities, takings, .. } = draft;
        let own = entities.side(level, self.beneficiary);
        !self.is_excepted
            && self.sides[level.place()]
                .get_or_init(|| takings.takers(level, own))
                .get(entities.side(level, victim))
                .is_some_and(|has_taken| *has_taken)
    }
}
