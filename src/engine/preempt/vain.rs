//! Searches of which nothing came, and what has changed since: who may take no more than somebody
//! who looked before finds no more than what was in doubt then, or has become possible meanwhile.
//!
//! Of a hundred thousand jobs most ask for the same as many others, and find nothing that is worth
//! it. So a verdict is shared by all whose claim reaches no further. What one job more may be made to
//! give, and what becomes of several together, depends on who asks: so a machine is in doubt where
//! enough could go that is not too dear, as far as users and classes go. And of those who do find
//! something most went first through better tiers of which nothing comes, at no price: that is
//! remembered as well. So is where alone anything might come, once all machines were looked through.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::losses::{Candidate, least_loss};
use super::right::candidate;
use super::victims::{Tier, least_loss_within};
use crate::engine::draft::Draft;
use crate::engine::entities::Level;
use crate::engine::nodepool::MachineSet;
use crate::engine::shares::Brief;
use crate::model::{ClassIx, MachineIx, Millis, QShares};

/// So many verdicts are remembered of each class and order, the newest.
const KEPT: usize = 32;
/// Where so many machines are in doubt it is no less work to look at them than through all.
pub(super) const DOUBTS: usize = 256;

/// How far a claim reaches. It may use any machine of its pools.
#[derive(Clone, Debug)]
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
    /// Whether it reaches as far as `other`, or further, but for what belongs to the user of `other` and
    /// for what may be lost. Both are of one class and order.
    fn reaches_as_far_as(&self, other: &Extent) -> bool {
        let rights = || self.rights.iter().zip(&other.rights).all(|(own, other)| own >= other);
        let classes = || {
            let mut classes = self.of_classes.iter().zip(&other.of_classes);
            classes.all(|(own, other)| own[0] >= other[0] && own[1] >= other[1])
        };
        self.user_holds <= other.user_holds && rights() && classes()
    }

    /// Whether it may lose as much as `limit` says.
    pub(super) fn may_lose_all_of(&self, limit: Option<Millis>) -> bool {
        self.limit.is_none_or(|own| limit.is_some_and(|limit| limit <= own))
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

    pub(super) fn may_lose(&self, loss: Millis) -> bool {
        self.limit.is_none_or(|limit| loss <= limit)
    }

    /// The least work that such a claim might lose with room on `machine`; `None` if it finds none.
    fn least_loss_on(&self, draft: &Draft<'_>, machine: MachineIx) -> Option<Millis> {
        let missing = draft.rooms.lacking(machine, QShares(self.order));
        let there = draft.rooms.tenants(machine).iter();
        let there = there.filter_map(|tenant| {
            self.candidate(draft, tenant.user(), tenant.order(), tenant.loss())
        });
        least_loss(there, missing)
    }

    /// A share of `user`, within a class, as such a claim sees it, if it might go.
    fn candidate(
        &self,
        draft: &Draft<'_>,
        user: usize,
        order: QShares,
        loss: Millis,
    ) -> Option<Candidate> {
        let most = self.reach_to(draft, user);
        let [_, may_defragment, _, _, may_envy] = self.rights;
        let rights = (self.class, !may_defragment && !may_envy);
        candidate(draft, rights, user, most, (order, loss))
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
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub extent: Extent,
    /// Whether most of the class was looked at.
    pub is_wide: bool,
    /// Whatever was not looked at as it is too dear loses no less; `None` if nothing was.
    pub least_left: Option<Millis>,
    /// If something was found that would be worth it, but that others give more willingly, at a higher
    /// price: of which tier those shares are, at worst, and where. Then that nothing else is worth it
    /// holds for plans that take nothing of a worse tier.
    pub sooner: Option<(Tier, MachineIx)>,
    /// Shares of this tier, or of a worse one, were not looked at; `None` if all were that may be worth
    /// it.
    pub seen_before: Option<Tier>,
    /// Where somebody else may find more, or what is too dear; what loses least first.
    pub in_doubt: Vec<Doubt>,
    /// The machines that were looked at, or need not be: those in doubt are among them.
    pub seen: MachineSet,
}

/// A machine on which somebody may find something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Doubt {
    /// Whatever is found there loses no less.
    pub least_loss: Millis,
    pub machine: MachineIx,
    /// Whatever is found there and may be lost loses no less, unless it is of a worse tier than what is
    /// found sooner.
    pub least_within: Millis,
}

impl Doubt {
    /// That something may be found on `machine` that loses no less, whatever is found sooner.
    pub(super) fn new(machine: MachineIx, least_loss: Millis) -> Doubt {
        Doubt { least_loss, machine, least_within: least_loss }
    }

    /// The same, once it is known what a claim of `extent` finds sooner. `candidate` says of a user's
    /// share of so many qshares and with so much work what might go.
    pub(super) fn within(
        self,
        draft: &Draft<'_>,
        (extent, sooner): (&Extent, Option<(Tier, MachineIx)>),
        candidate: impl Fn(usize, QShares, Millis) -> Option<Candidate>,
    ) -> Doubt {
        let is_open = extent.may_lose(self.least_within);
        let Some(((tier, _), limit)) = sooner.zip(extent.limit).filter(|_| is_open) else {
            return self;
        };
        let missing = draft.rooms.lacking(self.machine, QShares(extent.order));
        let is_open = |of: Tier, loss: Millis| of <= tier && loss <= limit;
        let least = least_loss_within(draft, (self.machine, missing), is_open, candidate);
        Doubt { least_within: least.unwrap_or(Millis::MAX), ..self }
    }
}

/// That there is no plan that takes nothing of a certain tier, or a worse one, whatever it costs; or that
/// there is none at all.
#[derive(Clone, Debug)]
pub(super) struct Exhausted {
    /// How far the claim reaches; what may be lost is not limited.
    pub extent: Extent,
    /// Which tiers are exhausted.
    pub below: Below,
    /// Where somebody else may find one.
    pub in_doubt: BTreeSet<MachineIx>,
}

/// Some of all tiers, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Below {
    /// All that are better than this one.
    Tier(Tier),
    /// All that there are.
    Any,
}

impl Below {
    fn contains(self, tier: Tier) -> bool {
        match self {
            Below::Tier(below) => tier < below,
            Below::Any => true,
        }
    }
}

/// What is remembered of a search, and holds for all who reach no further.
trait Memory: Clone {
    fn extent(&self) -> &Extent;

    /// Has `machine` looked at again, if something might be found there.
    fn doubt(&mut self, draft: &Draft<'_>, machine: MachineIx);

    /// Has the machine of `share` looked at again, which might go.
    fn doubt_share(&mut self, draft: &Draft<'_>, share: &Brief) {
        self.doubt(draft, share.machine());
    }

    /// Whether so many machines are in doubt that a search is no more work.
    fn is_of_no_use(&self) -> bool;

    /// Whether all follows from it that follows from `other`, which is of the same class and order.
    fn covers(&self, other: &Self) -> bool;
}

/// Something that is remembered.
#[derive(Debug)]
struct Known<M> {
    memory: Rc<M>,
    /// So many changes are taken into account.
    changes: usize,
}

/// What is remembered, by class and order.
#[derive(Debug)]
struct Memories<M>(BTreeMap<(ClassIx, u64), Vec<Known<M>>>);

impl<M> Default for Memories<M> {
    fn default() -> Memories<M> {
        Memories(BTreeMap::new())
    }
}

/// What one cycle found out in vain.
#[derive(Debug, Default)]
pub(super) struct Vain {
    changes: Vec<Change>,
    verdicts: RefCell<Memories<Verdict>>,
    exhausted: RefCell<Memories<Exhausted>>,
}

impl Verdict {
    /// Where somebody may find something who may lose so much.
    pub(super) fn open_to(&self, limit: Option<Millis>) -> &[Doubt] {
        let is_open = |doubt: &Doubt| limit.is_none_or(|limit| doubt.least_loss <= limit);
        &self.in_doubt[..self.in_doubt.partition_point(is_open)]
    }

    /// What is found on other machines that are in doubt loses no less.
    pub(super) fn least_beyond(&self, limit: Option<Millis>) -> Option<Millis> {
        self.in_doubt.get(self.open_to(limit).len()).map(|doubt| doubt.least_loss)
    }
}

impl<M: Memory> Memories<M> {
    fn note(&mut self, memory: M, changes: usize) {
        if memory.extent().is_barred || memory.is_of_no_use() {
            return;
        }
        let Extent { class, order, .. } = *memory.extent();
        let alike = self.0.entry((class, order)).or_default();
        alike.retain(|known| !memory.covers(&known.memory));
        if alike.len() == KEPT {
            alike.remove(0);
        }
        alike.push(Known { memory: Rc::new(memory), changes });
    }

    /// What `choose` takes of all that reach as far as `extent`, by their places, the newest first.
    fn find(
        &mut self,
        draft: &Draft<'_>,
        (extent, changes): (&Extent, &[Change]),
        choose: impl Fn(&mut dyn Iterator<Item = (usize, &M)>) -> Option<usize>,
    ) -> Option<Rc<M>> {
        let alike = self.0.get_mut(&(extent.class, extent.order))?;
        let newest_first = alike.iter().enumerate().rev();
        let newest_first = newest_first.map(|(place, known)| (place, &*known.memory));
        let place = choose(
            &mut newest_first.filter(|(_, memory)| memory.extent().reaches_as_far_as(extent)),
        )?;
        if !alike[place].catch_up(draft, changes) {
            alike.remove(place);
            return None;
        }
        Some(Rc::clone(&alike[place].memory))
    }
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
        self.verdicts.get_mut().note(verdict, self.changes.len());
    }

    /// Notes of what tiers nothing comes, if that is of use to anybody else.
    pub(super) fn note_exhausted(&self, exhausted: Exhausted) {
        self.exhausted.borrow_mut().note(exhausted, self.changes.len());
    }

    /// That somebody found nothing who reaches as far as `extent`, but for what belongs to the user of
    /// that: who may lose as much, if there is such a one, or else one of those who may lose most.
    pub(super) fn known_to(&self, draft: &Draft<'_>, extent: &Extent) -> Option<Rc<Verdict>> {
        let order = |(_, verdict): &(usize, &Verdict)| {
            let is_enough = verdict.extent.may_lose_all_of(extent.limit);
            (!is_enough, (!is_enough).then_some(Reverse(verdict.extent.limit)))
        };
        let mut verdicts = self.verdicts.borrow_mut();
        verdicts.find(draft, (extent, &self.changes), |known| {
            known.min_by_key(order).map(|(place, _)| place)
        })
    }

    /// Of what tiers nothing comes for who reaches as far as `extent`, but for what belongs to its user.
    pub(super) fn exhausted_for(
        &self,
        draft: &Draft<'_>,
        extent: &Extent,
    ) -> Option<Rc<Exhausted>> {
        let mut exhausted = self.exhausted.borrow_mut();
        exhausted.find(draft, (extent, &self.changes), |known| {
            known.min_by_key(|(_, known)| Reverse(known.below)).map(|(place, _)| place)
        })
    }
}

impl<M: Memory> Known<M> {
    /// Takes what has changed since into account. Says whether it is still of use.
    fn catch_up(&mut self, draft: &Draft<'_>, changes: &[Change]) -> bool {
        let memory = Rc::make_mut(&mut self.memory);
        for change in &changes[self.changes..] {
            match change {
                Change::Left(machine) => memory.doubt(draft, *machine),
                Change::Gained(user) => {
                    if draft.entities.groups()[*user].0 == memory.extent().class {
                        doubt_all_of(memory, draft, *user, draft.entities.members(*user));
                    }
                }
                Change::Shifted(job) => {
                    doubt_all_of(memory, draft, draft.entities.group_of(*job), &[*job]);
                }
            }
        }
        self.changes = changes.len();
        !memory.is_of_no_use()
    }
}

/// Has those machines looked at again that have something of `jobs` of `user` that might go.
fn doubt_all_of(memory: &mut impl Memory, draft: &Draft<'_>, user: usize, jobs: &[usize]) {
    let reach = memory.extent().reach_to(draft, user);
    if reach == 0 {
        return;
    }
    for (_, share) in jobs.iter().flat_map(|job| draft.shares.held_by(*job)) {
        if share.order.qshares().0 <= reach {
            memory.doubt_share(draft, share);
        }
    }
}

impl Memory for Exhausted {
    fn extent(&self) -> &Extent {
        &self.extent
    }

    fn doubt(&mut self, draft: &Draft<'_>, machine: MachineIx) {
        if self.in_doubt.contains(&machine) {
            return;
        }
        let candidate = |user, order, loss| self.extent.candidate(draft, user, order, loss);
        if is_plan_below(draft, &self.extent, (machine, self.below), candidate) {
            self.in_doubt.insert(machine);
        }
    }

    fn is_of_no_use(&self) -> bool {
        DOUBTS < self.in_doubt.len()
    }

    fn covers(&self, other: &Exhausted) -> bool {
        other.below <= self.below && self.extent.reaches_as_far_as(&other.extent)
    }
}

/// Whether a claim of `extent` might find a plan on `machine` that takes nothing but of the tiers
/// `below`. `candidate` says of a user's share of so many qshares and with so much work what might go.
pub(super) fn is_plan_below(
    draft: &Draft<'_>,
    extent: &Extent,
    (machine, below): (MachineIx, Below),
    candidate: impl Fn(usize, QShares, Millis) -> Option<Candidate>,
) -> bool {
    let there = (machine, draft.rooms.lacking(machine, QShares(extent.order)));
    least_loss_within(draft, there, |tier, _| below.contains(tier), candidate).is_some()
}

impl Memory for Verdict {
    fn extent(&self) -> &Extent {
        &self.extent
    }

    fn doubt(&mut self, draft: &Draft<'_>, machine: MachineIx) {
        let Some(least_loss) = self.extent.least_loss_on(draft, machine) else { return };
        self.seen.include(machine);
        let candidate = |user, order, loss| self.extent.candidate(draft, user, order, loss);
        let doubt = Doubt::new(machine, least_loss);
        let doubt = doubt.within(draft, (&self.extent, self.sooner), candidate);
        if let Err(place) = self.in_doubt.binary_search(&doubt) {
            self.in_doubt.insert(place, doubt);
        }
    }

    fn doubt_share(&mut self, draft: &Draft<'_>, share: &Brief) {
        if self.extent.may_lose(share.loss) {
            self.doubt(draft, share.machine());
        } else {
            // Whoever may lose more looks at it in its turn.
            self.seen.exclude(share.machine());
            let least = &mut self.least_left;
            *least = Some(least.map_or(share.loss, |least| least.min(share.loss)));
        }
    }

    fn is_of_no_use(&self) -> bool {
        let Extent { limit, .. } = self.extent;
        let open = self.open_to(limit).iter();
        let is_open = |doubt: &&Doubt| limit.is_none_or(|limit| doubt.least_within <= limit);
        DOUBTS < open.filter(is_open).count()
    }

    fn covers(&self, other: &Verdict) -> bool {
        self.extent.may_lose_all_of(other.extent.limit)
            && self.extent.reaches_as_far_as(&other.extent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::audit::tests::{ANN, BOB, FAIR, Scene};

    /// Somebody who may lose 10 found nothing on a machine of 4, all of it Ann's; then she got something
    /// elsewhere and may have to give.
    fn after_ann_gained(loss: Millis) -> Verdict {
        let mut scene = Scene::new(&[4]);
        let ann = scene.running((ANN, FAIR), 1, 4, 0);
        for share in &mut scene.edit(ann).shares {
            share.facts.investment = loss;
        }
        scene.job(BOB, FAIR, 1, 1);
        let draft = Draft::new(&scene.snapshot);
        let extent = Extent {
            class: FAIR,
            order: 1,
            rights: [true, true, false, false, false],
            is_barred: false,
            user_holds: 0,
            of_classes: vec![[0; 2]; scene.snapshot.topology.classes.len()],
            limit: Some(10),
        };
        let mut seen = MachineSet::default();
        seen.include(MachineIx(0));
        let verdict = Verdict {
            extent,
            is_wide: false,
            least_left: None,
            sooner: None,
            seen_before: None,
            in_doubt: Vec::new(),
            seen,
        };
        let mut known = Known { memory: Rc::new(verdict), changes: 0 };
        let ann = draft.entities.group_of(draft.place_of(ann).unwrap());
        assert!(known.catch_up(&draft, &[Change::Gained(ann)]));
        Rc::unwrap_or_clone(known.memory)
    }

    #[test]
    fn where_something_may_have_become_possible_is_in_doubt() {
        let verdict = after_ann_gained(10);
        assert_eq!(verdict.in_doubt, [Doubt::new(MachineIx(0), 10)]);
        assert!(verdict.seen.contains(MachineIx(0)), "it is looked at as it is in doubt");
        assert_eq!(verdict.least_left, None);
    }

    /// Whoever may lose more comes by it, as if nobody had looked there.
    #[test]
    fn what_has_become_possible_and_is_too_dear_was_not_seen() {
        let verdict = after_ann_gained(11);
        assert_eq!(verdict.in_doubt, []);
        assert!(!verdict.seen.contains(MachineIx(0)));
        assert_eq!(verdict.least_left, Some(11));
    }
}
