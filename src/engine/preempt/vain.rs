//! Searches that were in vain, and what has changed since: who may take no more than somebody who
//! looked before finds no more than what has become possible meanwhile.
//!
//! Of a hundred thousand jobs most ask for the same as many others, and find nothing. So a verdict
//! is shared by all whose claim reaches no further.

use std::collections::BTreeSet;

use crate::engine::draft::Draft;
use crate::model::{ClassIx, MachineIx, ShareState};

/// So many verdicts are remembered, the newest.
const KEPT: usize = 64;
/// After so many changes it is no less work to look through what they touched than through all.
const CHANGES: usize = 64;

/// How far a claim reaches. Nobody is barred from it, and it may use any machine of its pools.
#[derive(Debug)]
pub(super) struct Extent {
    pub class: ClassIx,
    pub order: u64,
    /// Whether counts decide, the needy may take, it has nothing, what is beyond counts may be
    /// taken, and holdings decide.
    pub rights: [bool; 5],
    /// What its user holds: the more, the fewer are ahead.
    pub user_holds: u64,
    /// The largest nshare of each other class that it might take.
    pub of_classes: Vec<u64>,
}

impl Extent {
    /// Whether it reaches as far as `other`, or further, but for what belongs to the user of `other`.
    fn covers(&self, other: &Extent) -> bool {
        let rights = || self.rights.iter().zip(&other.rights).all(|(own, other)| own >= other);
        let classes =
            || self.of_classes.iter().zip(&other.of_classes).all(|(own, other)| own >= other);
        self.class == other.class
            && self.order == other.order
            && self.user_holds <= other.user_holds
            && rights()
            && classes()
    }
}

/// What may make a search find something that one before it did not.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// Something left this machine.
    Left(MachineIx),
    /// This user, within a class, got something, and has more to give.
    Gained(usize),
}

/// The verdicts of one cycle.
#[derive(Debug, Default)]
pub(super) struct Vain {
    changes: Vec<Change>,
    verdicts: Vec<Verdict>,
}

/// That a claim found nothing.
#[derive(Debug)]
struct Verdict {
    extent: Extent,
    is_wide: bool,
    /// How many changes there had been.
    changes: usize,
}

/// Where alone a claim may find anything.
pub(super) struct Left {
    pub machines: BTreeSet<MachineIx>,
    /// Whether the search that found nothing looked at most of the class.
    pub was_wide: bool,
}

impl Vain {
    /// Notes that something left `machine`.
    pub(super) fn note_left(&mut self, machine: MachineIx) {
        self.changes.push(Change::Left(machine));
    }

    /// Notes that what `user` holds has changed.
    pub(super) fn note_gained(&mut self, user: usize) {
        self.changes.push(Change::Gained(user));
    }

    /// Notes that a claim of this extent found nothing.
    pub(super) fn note(&mut self, extent: Extent, is_wide: bool) {
        self.verdicts.retain(|known| !extent.covers(&known.extent));
        if self.verdicts.len() == KEPT {
            self.verdicts.remove(0);
        }
        self.verdicts.push(Verdict { extent, is_wide, changes: self.changes.len() });
    }

    /// Where alone a claim of this extent for `job` may find anything, if a verdict says so.
    pub(super) fn left_for(&self, draft: &Draft<'_>, extent: &Extent, job: usize) -> Option<Left> {
        let verdict = self.verdicts.iter().rev().find(|known| known.extent.covers(extent))?;
        let changes = &self.changes[verdict.changes..];
        if CHANGES < changes.len() {
            return None;
        }
        let mut machines = BTreeSet::new();
        let mut users = BTreeSet::from([draft.entities.group_of(job)]);
        for change in changes {
            match change {
                Change::Left(machine) => {
                    machines.insert(*machine);
                }
                Change::Gained(user) => {
                    users.insert(*user);
                }
            }
        }
        for user in users {
            let jobs = draft.entities.members(user).iter().map(|&job| draft.job(job));
            let held = jobs.flat_map(|job| &job.shares);
            let held = held.filter(|share| share.state == ShareState::Held);
            machines.extend(held.map(|share| share.machine));
        }
        Some(Left { machines, was_wide: verdict.is_wide })
    }
}
