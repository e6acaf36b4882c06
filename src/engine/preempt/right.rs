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

use super::price::is_at_rest;
use super::taken::{Barred, COUNTS_UNTIL};
use crate::engine::draft::Draft;
use crate::engine::entities::Level;
use crate::engine::schedule::PreemptionRule;
use crate::model::{Policy, count};

/// A claim of one beneficiary on one machine, while its victims are being chosen.
pub(super) struct Claim<'d, 'a> {
    draft: &'d Draft<'a>,
    beneficiary: usize,
    /// Whom it may not take from, because they took from it.
    barred: Barred,
    /// Whether it is below its count, and what was counted decides.
    is_below_count: bool,
    /// The order of one nshare of it.
    order: u64,
    /// Whether it is needy, and the needy may take.
    may_defragment: bool,
    /// Whether what is held decides.
    may_envy: bool,
    /// What has been taken so far, nshare by nshare: the job, and how many qshares.
    taken: Vec<(usize, u64)>,
}

impl<'d, 'a> Claim<'d, 'a> {
    pub(super) fn new(draft: &'d Draft<'a>, beneficiary: usize) -> Claim<'d, 'a> {
        let defragmentation = draft.snapshot.topology.settings.defragmentation;
        let may_envy = defragmentation && is_at_rest(draft);
        let is_late = may_envy && COUNTS_UNTIL <= draft.snapshot.calm.quiet_cycles;
        let do_counts_decide = !is_late || draft.has(beneficiary) == 0;
        Claim {
            draft,
            beneficiary,
            barred: Barred::new(draft, beneficiary),
            order: draft.job(beneficiary).order.qshares().0,
            is_below_count: do_counts_decide && 0 < draft.shortfall(beneficiary),
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
        self.is_below_count && self.has_nothing() && !is_at_rest(self.draft)
    }

    /// The rule under which an nshare of `qshares` of `victim` may go now, if any.
    pub(super) fn rule(&self, victim: usize, qshares: u64) -> Option<PreemptionRule> {
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
        (self.may_take_first_share() && keeps_its_count(level) && keeps_its_count(Level::Job))
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
        self.may_defragment && (self.has_nothing() || !self.becomes_needy(victim))
    }

    fn has_nothing(&self) -> bool {
        self.draft.has(self.beneficiary) == 0
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
