//! Searches of which nothing came, and what has changed since: who may take no more than somebody
//! who looked before finds no more than what has become possible meanwhile.
//!
//! Of a hundred thousand jobs most ask for the same as many others, and find nothing. So a verdict is
//! shared by all whose claim reaches no further.

use std::collections::{BTreeMap, BTreeSet};

use super::right::Claim;
use crate::engine::draft::Draft;
use crate::model::{ClassIx, MachineIx, ShareState};

/// So many verdicts are remembered of each class and order, the newest.
const KEPT: usize = 16;
/// After so many changes, or on so many machines, it is no less work to look through what they
/// touched than through all.
const CHANGES: usize = 64;

/// How far a claim reaches. It may use any machine of its pools.
#[derive(Debug)]
pub(super) struct Extent {
    pub class: ClassIx,
    pub order: u64,
    /// Whether counts decide, the needy may take, it has nothing, what is beyond counts may be
    /// taken, and holdings decide.
    pub rights: [bool; 5],
    /// Whether it may not take from some user of its class who took from its own.
    pub is_barred: bool,
    /// What its user holds: the more, the fewer are ahead.
    pub user_holds: u64,
    /// What each other class might give to one plan.
    pub of_classes: Vec<u64>,
}

impl Extent {
    /// Whether it reaches as far as `other`, or further, but for what belongs to the user of `other`.
    /// Both are of one class and order.
    fn covers(&self, other: &Extent) -> bool {
        let rights = || self.rights.iter().zip(&other.rights).all(|(own, other)| own >= other);
        let classes =
            || self.of_classes.iter().zip(&other.of_classes).all(|(own, other)| own >= other);
        self.user_holds <= other.user_holds && rights() && classes()
    }
}

/// What may make a search find something that one before it did not.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// Something left this machine.
    Left(MachineIx),
    /// This user, within a class, got something, and has more to give to others of the class.
    Gained(usize),
    /// This job may give more willingly than before, whoever asks.
    Shifted(usize),
}

/// That nothing came of a claim.
#[derive(Debug)]
pub(super) struct Verdict {
    pub extent: Extent,
    /// Whether most of the class was looked at.
    pub is_wide: bool,
}

/// The verdicts of one cycle.
#[derive(Debug, Default)]
pub(super) struct Vain {
    changes: Vec<Change>,
    /// By class and order. Each with how many changes there had been.
    verdicts: BTreeMap<(ClassIx, u64), Vec<(Verdict, usize)>>,
}

/// Where alone a claim may find more than somebody else did.
pub(super) struct Left {
    /// Whether most of the class was looked at.
    pub is_wide: bool,
    pub machines: BTreeSet<MachineIx>,
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

    /// Notes that `job` may give more willingly than before.
    pub(super) fn note_shifted(&mut self, job: usize) {
        self.changes.push(Change::Shifted(job));
    }

    /// Notes that nothing came of a claim, if that is of use to anybody else.
    pub(super) fn note(&mut self, verdict: Verdict) {
        if verdict.extent.is_barred {
            return;
        }
        let alike = self.verdicts.entry((verdict.extent.class, verdict.extent.order)).or_default();
        alike.retain(|(known, _)| !verdict.extent.covers(&known.extent));
        if alike.len() == KEPT {
            alike.remove(0);
        }
        alike.push((verdict, self.changes.len()));
    }

    /// Where alone `claim`, which is of this extent, may find what others did not, if it is known to
    /// find nothing elsewhere. The jobs of its own user that may give to it are its `own`.
    pub(super) fn left_for(
        &self,
        draft: &Draft<'_>,
        claim: &Claim<'_, '_>,
        extent: &Extent,
        own: impl FnOnce() -> Vec<usize>,
    ) -> Option<Left> {
        let alike = self.verdicts.get(&(extent.class, extent.order))?;
        let mut newest_first = alike.iter().rev();
        let (verdict, changes) = newest_first.find(|(known, _)| known.extent.covers(extent))?;
        let changes = &self.changes[*changes..];
        if CHANGES < changes.len() {
            return None;
        }
        let mut machines = BTreeSet::new();
        add_machines_of(draft, claim, &own(), &mut machines);
        for change in changes {
            match change {
                Change::Left(machine) => {
                    machines.insert(*machine);
                }
                Change::Gained(user) => {
                    let is_peer = draft.entities.groups()[*user].0 == extent.class;
                    if is_peer && !claim.is_of_user(*user) && 0 < claim.reach_to(*user) {
                        add_machines_of(draft, claim, draft.entities.members(*user), &mut machines);
                    }
                }
                Change::Shifted(job) => add_machines_of(draft, claim, &[*job], &mut machines),
            }
            if CHANGES < machines.len() {
                return None;
            }
        }
        Some(Left { is_wide: verdict.is_wide, machines })
    }
}

/// Adds the machines that have something of `jobs` that `claim` might take.
fn add_machines_of(
    draft: &Draft<'_>,
    claim: &Claim<'_, '_>,
    jobs: &[usize],
    machines: &mut BTreeSet<MachineIx>,
) {
    for &job in jobs.iter().filter(|job| claim.rule(**job, 1).is_some()) {
        let held = draft.job(job).shares.iter().filter(|share| share.state == ShareState::Held);
        machines.extend(held.map(|share| share.machine));
        if CHANGES < machines.len() {
            return;
        }
    }
}
