//! Whether one job may take a share from another, and under which rule.
//!
//! Decision D2: at the level that divides the two, the victim's side must afterwards still be
//! strictly better off, by weight, than the beneficiary's was before. The test is repeated for
//! every victim with what was already taken.
//!
//! What was counted decides who may take while work comes, goes and gets on: then counts are the
//! better guide, as they are what each would have of an empty cluster. A cluster at rest stays as
//! it is for long, and there what is *held* decides: whoever could use more and is behind by more
//! than one nshare takes, whatever was counted. Counts go on to decide there for a while, and then
//! only for whoever has nothing: [`taken`](super::taken) says why.

use std::cell::Cell;

use super::losses::Candidate;
use super::price::is_at_rest;
use super::taken::{Barred, COUNTS_UNTIL};
use super::vain::Extent;
use crate::engine::draft::Draft;
use crate::engine::entities::Level;
use crate::engine::schedule::PreemptionRule;
use crate::model::{ClassIx, Millis, Policy, QShares, count};

/// The largest nshare that each user of a class might be made to give, as the claim that asked last
/// has it. A search asks about thousands of shares, and most of them belong to the same users, of
/// whom most need not give anything: so an answer that is known costs one look.
pub(super) struct Reach {
    /// The number of the last claim.
    claims: Cell<u32>,
    /// For each class, who asked last, and what was found.
    of_classes: Vec<Cell<(u32, u32)>>,
    /// For each user of a class.
    of_users: Vec<Cell<(u32, u32)>>,
    /// More than this no plan takes: what is missing for one nshare, and what goes with the last
    /// share that is in the way.
    most_of_one_plan: u64,
}

/// A claim of one beneficiary on one machine, while its victims are being chosen.
#[expect(clippy::struct_excessive_bools, reason = "rights that are held independently")]
pub(super) struct Claim<'d, 'a> {
    draft: &'d Draft<'a>,
    beneficiary: usize,
    /// The beneficiary's user, within the class.
    user: usize,
    class: ClassIx,
    /// Whether its work is fair-share work: else it has no peers.
    is_among_peers: bool,
    /// The least that another user of the class must have left so that it has more.
    peers_keep: u64,
    reach: &'d Reach,
    /// Its number.
    number: u32,
    /// Whom it may not take from, because they took from it.
    barred: Barred,
    has_nothing: bool,
    /// Whether it is below its count, and what was counted decides.
    is_below_count: bool,
    /// Whether sides that are not open are to be asked for what is beyond their counts.
    may_take_first_share: bool,
    /// The order of one nshare of it.
    order: u64,
    /// Whether it is needy, and the needy may take.
    may_defragment: bool,
    /// Whether what is held decides.
    may_envy: bool,
    /// What has been taken so far, nshare by nshare: the job, and how many qshares.
    taken: Vec<(usize, u64)>,
}

impl Reach {
    /// Nobody has asked yet.
    pub(super) fn new(draft: &Draft<'_>) -> Reach {
        let entities = &draft.entities;
        let nobody = Cell::new((0, 0));
        let asked = draft.jobs.iter().map(|job| job.order.qshares());
        let largest = asked.max().unwrap_or_default().max(draft.rooms.largest_tenant());
        Reach {
            claims: Cell::new(0),
            of_classes: vec![nobody.clone(); entities.sides(Level::Class)],
            of_users: vec![nobody; entities.sides(Level::User)],
            most_of_one_plan: 2 * largest.0,
        }
    }

    /// The number of a new claim.
    fn next(&self) -> u32 {
        let number = self.claims.get() + 1;
        self.claims.set(number);
        number
    }
}

impl<'d, 'a> Claim<'d, 'a> {
    pub(super) fn new(draft: &'d Draft<'a>, reach: &'d Reach, beneficiary: usize) -> Claim<'d, 'a> {
        let defragmentation = draft.snapshot.topology.settings.defragmentation;
        let may_envy = defragmentation && is_at_rest(draft);
        let is_late = may_envy && COUNTS_UNTIL <= draft.snapshot.calm.quiet_cycles;
        let has_nothing = draft.has(beneficiary) == 0;
        let do_counts_decide = !is_late || has_nothing;
        let is_below_count = do_counts_decide && 0 < draft.shortfall(beneficiary);
        let user = draft.entities.group_of(beneficiary);
        Claim {
            draft,
            beneficiary,
            user,
            class: draft.entities.class_of(beneficiary),
            is_among_peers: draft.class_of(beneficiary).policy.is_preemptable(),
            peers_keep: least_to_keep(draft.held.groups[user], (1, 1)),
            reach,
            number: reach.next(),
            barred: Barred::new(draft, beneficiary),
            order: draft.jobs[beneficiary].order.qshares().0,
            has_nothing,
            is_below_count,
            may_take_first_share: is_below_count && has_nothing && !is_at_rest(draft),
            may_defragment: defragmentation && draft.is_needy(beneficiary),
            may_envy,
            taken: Vec::new(),
        }
    }

    /// Starts over for another machine.
    pub(super) fn reset(&mut self) {
        self.taken.clear();
    }

    /// Notes that an nshare of `qshares` of `victim` is taken.
    pub(super) fn take(&mut self, victim: usize, qshares: u64) {
        self.taken.push((victim, qshares));
    }

    /// Whether `victim`'s side at `level` is so far ahead that a share of so many qshares of it
    /// might be had. If it is not, no side that has less is.
    pub(super) fn is_ahead(&self, level: Level, victim: usize, qshares: u64) -> bool {
        (self.is_below_count && self.is_behind(level, victim, qshares))
            || (self.may_envy && self.is_behind(level, victim, qshares.max(self.order)))
    }

    /// Whether a share of so many qshares of `victim`'s side at `level`, which is ahead, might be
    /// had, though its job may not be above its own count.
    pub(super) fn is_open(&self, level: Level, victim: usize, qshares: u64) -> bool {
        let is_above = || self.given(level, victim) < self.held(level, victim);
        let envies = || self.may_envy && self.is_behind(level, victim, qshares.max(self.order));
        (self.is_below_count && (self.may_defragment || is_above()) || envies())
            && !self.barred.contains(self.draft, level, victim)
    }

    /// Whether sides that are not open are to be asked for what is beyond their counts.
    pub(super) fn may_take_first_share(&self) -> bool {
        self.may_take_first_share
    }

    /// The rule under which an nshare of `qshares` of `victim` may go now, if any.
    pub(super) fn rule(&self, victim: usize, qshares: u64) -> Option<PreemptionRule> {
        if !self.is_within_reach(victim, qshares) {
            return None;
        }
        let (draft, beneficiary) = (self.draft, self.beneficiary);
        // Of every victim asked about as little is looked up as will do: there may be thousands.
        let class_of = |job| &draft.snapshot.topology.classes[draft.entities.class_of(job).0];
        let (class, victims_class) = (class_of(beneficiary), class_of(victim));
        if victim == beneficiary || !victims_class.policy.is_preemptable() {
            return None;
        }
        if class.priority < victims_class.priority {
            return Some(PreemptionRule::Priority);
        }
        let is_among_peers = class.priority == victims_class.priority;
        if !is_among_peers || !matches!(class.policy, Policy::FairShare { .. }) {
            return None;
        }
        let level = draft.entities.dividing_level(victim, beneficiary);
        let by_holdings = || self.by_holdings(level, victim, qshares);
        let rule = self.by_counts(level, victim, qshares).or_else(by_holdings)?;
        (!self.barred.contains(draft, level, victim)).then_some(rule)
    }

    /// Whether it may take from worse priorities: they are not asked what it costs.
    pub(super) fn reaches_worse_priorities(&self) -> bool {
        let draft = self.draft;
        let priority = draft.class_of(self.beneficiary).priority;
        let mut classes = draft.snapshot.topology.classes.iter().zip(&draft.held.classes);
        classes.any(|(class, held)| {
            priority < class.priority && class.policy.is_preemptable() && 0 < *held
        })
    }

    /// How far it reaches, if no more than `limit` may be lost; `None` where that cannot be compared with
    /// others: it may use but some machines, or is not fair-share work.
    pub(super) fn extent(&self, limit: Option<Millis>) -> Option<Extent> {
        let (draft, entities) = (self.draft, &self.draft.entities);
        let class = entities.class_of(self.beneficiary);
        let is_preemptable = draft.snapshot.topology.classes[class.0].policy.is_preemptable();
        if !is_preemptable || draft.jobs[self.beneficiary].is_confined {
            return None;
        }
        let classes = (0..entities.sides(Level::Class)).map(ClassIx);
        let may_give = |other: ClassIx| {
            if other == class {
                return [0; 2];
            }
            let may_give = self.class_may_give(other);
            may_give.map(|amount| amount.min(self.reach.most_of_one_plan))
        };
        Some(Extent {
            class,
            order: self.order,
            rights: [
                self.is_below_count,
                self.may_defragment,
                self.has_nothing,
                self.may_take_first_share,
                self.may_envy,
            ],
            is_barred: self.barred.is_any_user(draft),
            user_holds: entities.at(&draft.held, Level::User, self.beneficiary),
            of_classes: classes.map(may_give).collect(),
            limit,
        })
    }

    /// Whether an nshare of `qshares` of `victim` might go, as far as its user and class go, if nothing
    /// else did.
    pub(super) fn is_within_reach(&self, victim: usize, qshares: u64) -> bool {
        qshares <= self.reach_to(self.draft.entities.group_of(victim))
    }

    /// The largest nshare of `user`, within a class, that might go, as far as that and the class go.
    #[inline]
    pub(super) fn reach_to(&self, user: usize) -> u64 {
        let (claim, mut most) = self.reach.of_users[user].get();
        if claim != self.number {
            most = self.find_reach_to(user);
            self.reach.of_users[user].set((self.number, most));
        }
        u64::from(most)
    }

    /// A share of `user`, within a class, if it might go as far as that and the class decide.
    pub(super) fn candidate(&self, user: usize, order: QShares, loss: Millis) -> Option<Candidate> {
        let most = self.reach_to(user);
        let is_own = user == self.draft.entities.group_of(self.beneficiary);
        let has_to_be_above = !is_own && !self.may_defragment && !self.may_envy;
        let class = self.draft.entities.class_of(self.beneficiary);
        candidate(self.draft, (class, has_to_be_above), user, most, (order, loss))
    }

    fn find_reach_to(&self, user: usize) -> u32 {
        let small = |most| u32::try_from(most).unwrap_or(u32::MAX);
        let (class, _) = self.draft.entities.groups()[user];
        if class == self.class {
            let is_own = user == self.user;
            return if is_own { u32::MAX } else { small(self.most_of(self.peer_may_give(user))) };
        }
        let (claim, mut most) = self.reach.of_classes[class.0].get();
        if claim != self.number {
            most = small(self.most_of(self.class_may_give(class)));
            self.reach.of_classes[class.0].set((self.number, most));
        }
        most
    }

    /// The largest nshare that a side might be made to give that may give so much.
    fn most_of(&self, [ahead, beyond_count]: [u64; 2]) -> u64 {
        if self.may_take_first_share { ahead.max(beyond_count) } else { ahead }
    }

    /// The largest nshare of another user of the beneficiary's class as far as that is ahead, and as
    /// far as it is beyond its count: that is of use only to who may take first shares.
    fn peer_may_give(&self, user: usize) -> [u64; 2] {
        if !self.is_among_peers || self.barred.contains_side(self.draft, Level::User, user) {
            return [0; 2];
        }
        self.side_may_give(Level::User, user, self.peers_keep)
    }

    /// The same of another class.
    fn class_may_give(&self, class: ClassIx) -> [u64; 2] {
        let (draft, entities) = (self.draft, &self.draft.entities);
        let [own, other] = [self.class, class].map(|ix| &draft.snapshot.topology.classes[ix.0]);
        if !other.policy.is_preemptable() {
            return [0; 2];
        }
        if own.priority < other.priority {
            return [u64::MAX; 2];
        }
        let is_among_peers = own.priority == other.priority && self.is_among_peers;
        if !is_among_peers || self.barred.contains_side(draft, Level::Class, class.0) {
            return [0; 2];
        }
        let weights = (entities.weight(self.class), entities.weight(class));
        let has = entities.at(&draft.held, Level::Class, self.beneficiary);
        self.side_may_give(Level::Class, class.0, least_to_keep(has, weights))
    }

    /// The same of a side at `level` that has to keep so much.
    fn side_may_give(&self, level: Level, side: usize, keeps: u64) -> [u64; 2] {
        let held = self.draft.held.of(level, side);
        let beyond_count = held.saturating_sub(self.draft.given.of(level, side));
        let ahead = held.saturating_sub(keeps);
        let by_counts = self.is_below_count && (0 < beyond_count || self.may_defragment);
        let by_holdings = self.may_envy && self.order <= ahead;
        [if by_counts || by_holdings { ahead } else { 0 }, beyond_count]
    }

    /// What was counted decides: the beneficiary is below its count, and the victim's side above,
    /// or the beneficiary needy. A job that has nothing, though something was counted for it, may
    /// also have what is beyond all counts, whoever is ahead: else a job whose class or user is
    /// well served elsewhere would wait for as long as the others are.
    fn by_counts(&self, level: Level, victim: usize, qshares: u64) -> Option<PreemptionRule> {
        if !self.is_below_count {
            return None;
        }
        if self.is_behind(level, victim, qshares) {
            if self.given(level, victim) < self.held(level, victim) {
                return Some(PreemptionRule::FairShare);
            }
            if self.may_defragment(victim) {
                return Some(PreemptionRule::Defragmentation);
            }
        }
        let keeps_its_count =
            |level| self.given(level, victim) + qshares <= self.held(level, victim);
        (self.may_take_first_share && keeps_its_count(level) && keeps_its_count(Level::Job))
            .then_some(PreemptionRule::FirstShare)
    }

    /// What is held decides, in a cluster at rest: the beneficiary's side is behind by more than
    /// one nshare of the larger order.
    fn by_holdings(&self, level: Level, victim: usize, qshares: u64) -> Option<PreemptionRule> {
        let envies = self.may_envy && self.is_behind(level, victim, qshares.max(self.order));
        envies.then_some(PreemptionRule::Envy)
    }

    /// Whether the beneficiary's side has less, by weight, than the victim's would without
    /// `qshares`. The pair test of decision D2, cross-multiplied.
    fn is_behind(&self, level: Level, victim: usize, qshares: u64) -> bool {
        let entities = &self.draft.entities;
        let Some(left) = self.held(level, victim).checked_sub(qshares) else { return false };
        let beneficiary_has = entities.at(&self.draft.held, level, self.beneficiary);
        let victims = u128::from(left) * u128::from(entities.weight_at(level, self.beneficiary));
        let beneficiarys =
            u128::from(beneficiary_has) * u128::from(entities.weight_at(level, victim));
        beneficiarys < victims
    }

    /// Whether the beneficiary is needy and `victim` may donate to it: a donor does not become
    /// needy itself, unless the beneficiary has nothing at all (decision D5; that nobody starves
    /// weighs more, and the pair test keeps the two from taking turns).
    fn may_defragment(&self, victim: usize) -> bool {
        self.may_defragment && (self.has_nothing || !self.becomes_needy(victim))
    }

    /// Whether `victim` would be needy after giving one nshare more.
    pub(super) fn becomes_needy(&self, victim: usize) -> bool {
        let taken = count(self.taken.iter().filter(|(job, _)| *job == victim));
        self.draft.becomes_needy_with(victim, self.draft.has(victim).saturating_sub(taken + 1))
    }

    /// Whether `victim` itself, not only its user or class, holds more than was counted for it.
    pub(super) fn is_above_count(&self, victim: usize) -> bool {
        self.given(Level::Job, victim) < self.held(Level::Job, victim)
    }

    fn held(&self, level: Level, job: usize) -> u64 {
        let entities = &self.draft.entities;
        let side = entities.side(level, job);
        let taken = self.taken.iter().filter(|(other, _)| entities.side(level, *other) == side);
        let taken: u64 = taken.map(|(_, qshares)| *qshares).sum();
        entities.at(&self.draft.held, level, job).saturating_sub(taken)
    }

    fn given(&self, level: Level, job: usize) -> u64 {
        self.draft.entities.at(&self.draft.given, level, job)
    }
}

/// A share of `user`, within a class, of so many qshares and with so much work, as a claim of `class`
/// sees it that can be given so much at `most`: only from what is above the count, if the other side
/// `has_to_be_above` it. `None` if that is too little for it.
pub(super) fn candidate(
    draft: &Draft<'_>,
    (class, has_to_be_above): (ClassIx, bool),
    user: usize,
    most: u64,
    (order, loss): (QShares, Millis),
) -> Option<Candidate> {
    if most < order.0 {
        return None;
    }
    let (victims_class, _) = draft.entities.groups()[user];
    let (level, side) =
        if victims_class == class { (Level::User, user) } else { (Level::Class, victims_class.0) };
    let priority = |class: ClassIx| draft.snapshot.topology.classes[class.0].priority;
    let is_free = !has_to_be_above || priority(class) < priority(victims_class);
    let beyond_count = draft.held.of(level, side).saturating_sub(draft.given.of(level, side));
    let until = if is_free { u64::MAX } else { beyond_count };
    let first = if level == Level::User { draft.entities.sides(Level::Class) } else { 0 };
    Some(Candidate { side: first + side, most, until, order, loss })
}

/// The least that a side must have left so that it has more, by weight, than one that has so much.
/// The weights are the other's, and its own.
fn least_to_keep(other_has: u64, (others_weight, weight): (u64, u64)) -> u64 {
    if others_weight == weight {
        return other_has.saturating_add(1);
    }
    let product = u128::from(other_has) * u128::from(weight);
    let as_much = product.checked_div(u128::from(others_weight)).map(u64::try_from);
    as_much.and_then(Result::ok).map_or(u64::MAX, |as_much| as_much.saturating_add(1))
}
