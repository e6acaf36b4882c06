//! Searches of which nothing came, and what has changed since: who may take no more than somebody
//! who looked before finds no more than what was in doubt then, or has become possible meanwhile.
//!
//! Of a hundred thousand jobs most ask for the same as many others, and find nothing that is worth
//! it. So a verdict is shared by all whose claim reaches no further. What one job more may be made to
//! give, and what becomes of several together, depends on who asks: so a machine is in doubt where
//! enough could go that is not too dear, as far as users and classes go.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::right::candidate;
use super::victims::{Tier, least_loss};
use crate::engine::draft::Draft;
use crate::engine::entities::Level;
use crate::model::{ClassIx, MachineIx, Millis, QShares, ShareState};

/// So many verdicts are remembered of each class and order, the newest.
const KEPT: usize = 32;
/// Where so many machines are in doubt it is no less work to look at them than through all.
const DOUBTS: usize = 256;

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
    /// What each other class might give to one plan, as far as it is ahead, and what it holds beyond its
    /// count.
    pub of_classes: Vec<[u64; 2]>,
    /// What may be lost at most, if that is limited.
    pub limit: Option<Millis>,
}

impl Extent {
    /// Whether it reaches as far as `other`, or further, but for what belongs to the user of `other`.
    /// Both are of one class and order.
    fn covers(&self, other: &Extent) -> bool {
        let rights = || self.rights.iter().zip(&other.rights).all(|(own, other)| own >= other);
        let classes = || {
            let mut classes = self.of_classes.iter().zip(&other.of_classes);
            classes.all(|(own, other)| own[0] >= other[0] && own[1] >= other[1])
        };
        let limit = self.limit.is_none_or(|own| other.limit.is_some_and(|other| other <= own));
        limit && self.user_holds <= other.user_holds && rights() && classes()
    }

    /// The largest nshare of `user`, within a class, that such a claim might take now, at most.
    fn reach_to(&self, draft: &Draft<'_>, user: usize) -> u64 {
        let (class, _) = draft.entities.groups()[user];
        if class != self.class {
            let [ahead, beyond_count] = self.of_classes[class.0];
            let [.., may_take_first_share, _] = self.rights;
            return if may_take_first_share { ahead.max(beyond_count) } else { ahead };
        }
        let held = draft.held.of(Level::User, user);
        let beyond_count = held.saturating_sub(draft.given.of(Level::User, user));
        held.saturating_sub(self.user_holds.saturating_add(1)).max(beyond_count)
    }

    fn may_lose(&self, loss: Millis) -> bool {
        self.limit.is_none_or(|limit| loss <= limit)
    }

    /// The least work that such a claim might lose with room on `machine`; `None` if it finds none.
    fn least_loss_on(&self, draft: &Draft<'_>, machine: MachineIx) -> Option<Millis> {
        let missing = draft.rooms.lacking(machine, QShares(self.order));
        let [_, may_defragment, _, _, may_envy] = self.rights;
        let rights = (self.class, !may_defragment && !may_envy);
        let there = draft.rooms.tenants(machine).iter().map(|tenant| {
            let (user, share) = (tenant.user(), (tenant.order(), tenant.loss()));
            candidate(draft, rights, user, self.reach_to(draft, user), share)
        });
        least_loss(there, missing)
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
    /// Whatever was too dear elsewhere than on machines in doubt loses no less; `None` if nothing was.
    pub least_left: Option<Millis>,
    /// If something was found that would be worth it, but that others give more willingly, at a higher
    /// price: of which tier those shares are, at worst, and where. Then that nothing else is worth it
    /// holds for plans that take nothing of a worse tier.
    pub sooner: Option<(Tier, MachineIx)>,
    /// Where somebody else may find more.
    pub in_doubt: Vec<Doubt>,
}

/// A machine on which somebody may find something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    pub machine: MachineIx,
    /// Whatever is found there loses no less.
    pub least_loss: Millis,
}

/// A verdict that is remembered.
#[derive(Debug)]
struct Known {
    verdict: Verdict,
    /// So many changes are taken into account.
    changes: usize,
}

/// The verdicts of one cycle.
#[derive(Debug, Default)]
pub(super) struct Vain {
    changes: Vec<Change>,
    /// By class and order.
    known: RefCell<BTreeMap<(ClassIx, u64), Vec<Known>>>,
}

/// Where alone a claim may find more than somebody else did.
pub(super) struct Left {
    /// Whether most of the class was looked at.
    pub is_wide: bool,
    /// Whatever is too dear elsewhere loses no less; `None` if nothing is.
    pub least_loss: Option<Millis>,
    /// As [`Verdict`] has it.
    pub sooner: Option<(Tier, MachineIx)>,
    pub machines: Vec<MachineIx>,
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
        if verdict.extent.is_barred || DOUBTS < verdict.in_doubt.len() {
            return;
        }
        let Extent { class, order, .. } = verdict.extent;
        let alike = self.known.get_mut().entry((class, order)).or_default();
        alike.retain(|known| !verdict.extent.covers(&known.verdict.extent));
        if alike.len() == KEPT {
            alike.remove(0);
        }
        alike.push(Known { verdict, changes: self.changes.len() });
    }

    /// Where alone a claim of this `extent` may find what others did not, if it is known to find
    /// nothing elsewhere, but for what belongs to its own user.
    pub(super) fn left_for(&self, draft: &Draft<'_>, extent: &Extent) -> Option<Left> {
        let mut known = self.known.borrow_mut();
        let alike = known.get_mut(&(extent.class, extent.order))?;
        let place = alike.iter().rposition(|known| known.verdict.extent.covers(extent))?;
        if !alike[place].catch_up(draft, &self.changes) {
            alike.remove(place);
            return None;
        }
        let Verdict { is_wide, sooner, in_doubt, .. } = &alike[place].verdict;
        let (open, too_dear): (Vec<Doubt>, Vec<Doubt>) =
            in_doubt.iter().partition(|doubt| extent.may_lose(doubt.least_loss));
        let too_dear = too_dear.iter().map(|doubt| doubt.least_loss);
        Some(Left {
            is_wide: *is_wide,
            least_loss: too_dear.chain(alike[place].verdict.least_left).min(),
            sooner: *sooner,
            machines: open.iter().map(|doubt| doubt.machine).collect(),
        })
    }
}

impl Known {
    /// Takes what has changed since into account. Says whether it is still of use.
    fn catch_up(&mut self, draft: &Draft<'_>, changes: &[Change]) -> bool {
        for change in &changes[self.changes..] {
            match change {
                Change::Left(machine) => self.doubt(draft, *machine),
                Change::Gained(user) => {
                    if draft.entities.groups()[*user].0 == self.verdict.extent.class {
                        self.doubt_all_of(draft, *user, draft.entities.members(*user));
                    }
                }
                Change::Shifted(job) => {
                    self.doubt_all_of(draft, draft.entities.group_of(*job), &[*job]);
                }
            }
            if DOUBTS < self.verdict.in_doubt.len() {
                return false;
            }
        }
        self.changes = changes.len();
        true
    }

    /// Has `machine` looked at again, if something might be found there.
    fn doubt(&mut self, draft: &Draft<'_>, machine: MachineIx) {
        let Verdict { extent, in_doubt, .. } = &mut self.verdict;
        match extent.least_loss_on(draft, machine) {
            Some(least_loss) if extent.may_lose(least_loss) => {
                match in_doubt.iter_mut().find(|doubt| doubt.machine == machine) {
                    Some(doubt) => doubt.least_loss = doubt.least_loss.min(least_loss),
                    None => in_doubt.push(Doubt { machine, least_loss }),
                }
            }
            Some(loss) => self.note_too_dear(loss),
            None => {}
        }
    }

    /// Notes that there may be something that loses so much, which is too much.
    fn note_too_dear(&mut self, loss: Millis) {
        let least = &mut self.verdict.least_left;
        *least = Some(least.map_or(loss, |least| least.min(loss)));
    }

    /// Has those machines looked at again that have something of `jobs` of `user` that might go.
    fn doubt_all_of(&mut self, draft: &Draft<'_>, user: usize, jobs: &[usize]) {
        let reach = self.verdict.extent.reach_to(draft, user);
        if reach == 0 {
            return;
        }
        for share in jobs.iter().flat_map(|job| &draft.job(*job).shares) {
            let is_open = share.state == ShareState::Held && share.order.qshares().0 <= reach;
            if is_open && self.verdict.extent.may_lose(share.loss()) {
                self.doubt(draft, share.machine);
            } else if is_open {
                self.note_too_dear(share.loss());
            }
        }
    }
}
