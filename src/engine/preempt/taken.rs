//! Who has taken from whom, and who therefore may not take back.
//!
//! With orders of many sizes and weights no single measure grows with every preemption: two sides
//! could in turn find each other better off. So nobody takes back, directly or through others,
//! what was taken from its side: within one cycle never, and across cycles once the cluster has
//! been quiet for [`MEMORY_AFTER`] cycles, until something changes. Whoever comes last in that
//! order only gains, and so, one after the other, everybody comes to rest: that is why preemption
//! ends.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::engine::draft::Draft;
use crate::engine::entities::{Entities, Level};
use crate::engine::snapshot::Taking;
use crate::model::JobId;

/// After so many quiet cycles it is remembered who took from whom.
pub const MEMORY_AFTER: u64 = 8;

/// Until so many quiet cycles, work that has nothing may take back all the same.
pub(super) const HOLDS_FOR_ALL_AFTER: u64 = 12;

/// Who took from whom, at the level that divides the two.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Takings(BTreeMap<(Level, usize), BTreeSet<usize>>);

/// The sides that a beneficiary may not take from. Few are ever asked for, so they are found out
/// when they are.
#[derive(Debug)]
pub(super) struct Barred {
    beneficiary: usize,
    /// Whether the bar does not hold for it.
    is_excepted: bool,
    /// For each level, those sides there.
    sides: [OnceCell<BTreeSet<usize>>; Level::ALL.len()],
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
        self.0.entry((level, side(from))).or_default().insert(side(by));
    }

    /// Everybody who took, directly or through others, from `side` at `level`.
    fn takers(&self, level: Level, side: usize) -> BTreeSet<usize> {
        let mut takers = BTreeSet::new();
        let mut open = vec![side];
        while let Some(side) = open.pop() {
            for &taker in self.0.get(&(level, side)).into_iter().flatten() {
                if takers.insert(taker) {
                    open.push(taker);
                }
            }
        }
        takers
    }
}

impl Barred {
    /// Everybody who took, directly or through others, from the sides that `job` is on.
    pub(super) fn new(draft: &Draft<'_>, job: usize) -> Barred {
        let has_time = draft.snapshot.calm.quiet_cycles < HOLDS_FOR_ALL_AFTER;
        Barred {
            beneficiary: job,
            is_excepted: draft.takings.0.is_empty() || (draft.has(job) == 0 && has_time),
            sides: Level::ALL.map(|_| OnceCell::new()),
        }
    }

    /// Whether the side at `level` that `victim` is on took from the beneficiary's.
    pub(super) fn contains(&self, draft: &Draft<'_>, level: Level, victim: usize) -> bool {
        let Draft { entities, takings, .. } = draft;
        let [of_class, of_user, of_job] = &self.sides;
        let sides = match level {
            Level::Class => of_class,
            Level::User => of_user,
            Level::Job => of_job,
        };
        let own = entities.side(level, self.beneficiary);
        !self.is_excepted
            && sides
                .get_or_init(|| takings.takers(level, own))
                .contains(&entities.side(level, victim))
    }
}
