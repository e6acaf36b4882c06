//! Whether one job may take a share from another, and under which rule.
//!
//! Decision D2: at the level that divides the two, the victim's side must afterwards still be
//! strictly better off, by weight, than the beneficiary's was before. The test is repeated for
//! every victim with what was already taken.
//!
//! What was counted decides who may take while work comes, goes and gets on: then counts are the
//! better guide, as they are what each would have of an empty cluster. A cluster at rest stays as
//! it is for long, and there what is *held* decides: whoever could use more and is behind by more
//! than one nshare takes, whatever was counted.

use super::price::is_at_rest;
use super::taken::Barred;
use crate::engine::draft::Draft;
use crate::engine::entities::{Amounts, Level};
use crate::engine::schedule::PreemptionRule;
use crate::model::Policy;

/// A claim of one beneficiary on one machine, while its victims are being chosen.
pub(super) struct Claim<'d, 'a> {
    draft: &'d Draft<'a>,
    beneficiary: usize,
    /// Whom it may not take from, because they took from it.
    barred: Barred,
    /// What has been taken so far, by entity.
    taken: Amounts,
    /// How many nshares have been taken from each job so far.
    taken_from: Vec<(usize, u64)>,
}

impl<'d, 'a> Claim<'d, 'a> {
    pub(super) fn new(draft: &'d Draft<'a>, beneficiary: usize) -> Claim<'d, 'a> {
        Claim {
            draft,
            beneficiary,
            barred: Barred::new(draft, beneficiary),
            taken: draft.entities.no_amounts(),
            taken_from: Vec::new(),
        }
    }

    /// Starts over for another machine.
    pub(super) fn reset(&mut self) {
        for (job, _) in std::mem::take(&mut self.taken_from) {
            self.taken.classes[self.draft.entities.class_of(job).0] = 0;
            self.taken.groups[self.draft.entities.group_of(job)] = 0;
            self.taken.jobs[job] = 0;
        }
    }

    /// Notes that an nshare of `qshares` of `victim` is taken.
    pub(super) fn take(&mut self, victim: usize, qshares: u64) {
        self.draft.entities.add(&mut self.taken, victim, qshares);
        match self.taken_from.iter_mut().find(|(job, _)| *job == victim) {
            Some((_, nshares)) => *nshares += 1,
            None => self.taken_from.push((victim, 1)),
        }
    }

    /// The jobs that might give something: few, in a cluster that is shared well, and most users are
    /// told apart without looking at their jobs.
    pub(super) fn donors(&self) -> Vec<usize> {
        let (draft, entities) = (self.draft, &self.draft.entities);
        let class = draft.snapshot.class_of(draft.job(self.beneficiary));
        let own_group = entities.group_of(self.beneficiary);
        // Whoever has its count needs to be behind by an nshare of its own order at least.
        let least = match draft.shortfall(self.beneficiary) {
            0 => draft.job(self.beneficiary).order.qshares().0,
            _ => 1,
        };
        let may_give = |&(group, first): &(usize, usize)| {
            let other = draft.snapshot.class_of(draft.job(first));
            let is_open = class.priority < other.priority
                || group == own_group
                || self.has_nothing()
                || self.is_behind(entities.dividing_level(first, self.beneficiary), first, least);
            other.policy.is_preemptable() && 0 < draft.held.groups[group] && is_open
        };
        let groups = entities.representatives().filter(may_give);
        let jobs = groups.flat_map(|(group, _)| entities.members(group).iter().copied());
        let may_give = |&job: &usize| {
            let smallest = draft.job(job).held().map(|share| share.order.qshares().0).min();
            smallest.is_some_and(|order| self.rule(job, order).is_some())
        };
        jobs.filter(may_give).collect()
    }

    /// The rule under which an nshare of `qshares` of `victim` may go now, if any.
    pub(super) fn rule(&self, victim: usize, qshares: u64) -> Option<PreemptionRule> {
        let (draft, beneficiary) = (self.draft, self.beneficiary);
        let victims_class = draft.snapshot.class_of(draft.job(victim));
        let class = draft.snapshot.class_of(draft.job(beneficiary));
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
        if self.barred.contains(&draft.entities, level, victim) {
            return None;
        }
        self.by_counts(level, victim, qshares).or_else(|| self.by_holdings(level, victim, qshares))
    }

    /// What was counted decides: the beneficiary is below its count, and the victim's side above,
    /// or the beneficiary needy. A job that has nothing, though something was counted for it, may
    /// also have what is beyond all counts, whoever is ahead: else a job whose class or user is
    /// well served elsewhere would wait for as long as the others are.
    fn by_counts(&self, level: Level, victim: usize, qshares: u64) -> Option<PreemptionRule> {
        if self.draft.shortfall(self.beneficiary) == 0 {
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
        let is_first = self.has_nothing() && !is_at_rest(self.draft);
        (is_first && keeps_its_count(level) && keeps_its_count(Level::Job))
            .then_some(PreemptionRule::FirstShare)
    }

    /// What is held decides, in a cluster at rest: the beneficiary's side is behind by more than
    /// one nshare of the larger order.
    fn by_holdings(&self, level: Level, victim: usize, qshares: u64) -> Option<PreemptionRule> {
        let order = self.draft.job(self.beneficiary).order.qshares().0;
        let envies = is_at_rest(self.draft)
            && self.draft.snapshot.topology.settings.defragmentation
            && self.is_behind(level, victim, qshares.max(order));
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
        let draft = self.draft;
        if !draft.snapshot.topology.settings.defragmentation || !draft.is_needy(self.beneficiary) {
            return false;
        }
        self.has_nothing() || !self.becomes_needy(victim)
    }

    fn has_nothing(&self) -> bool {
        self.draft.has(self.beneficiary) == 0
    }

    /// Whether `victim` would be needy after giving one nshare more.
    pub(super) fn becomes_needy(&self, victim: usize) -> bool {
        let taken = self.taken_from.iter().find(|(job, _)| *job == victim);
        let taken = taken.map_or(0, |(_, nshares)| *nshares);
        let left = self.draft.has(victim).saturating_sub(taken + 1);
        left < self.draft.jobs[victim].given && self.draft.would_be_needy_with(victim, left)
    }

    /// Whether `victim` itself, not only its user or class, holds more than was counted for it.
    pub(super) fn is_above_count(&self, victim: usize) -> bool {
        self.given(Level::Job, victim) < self.held(Level::Job, victim)
    }

    fn held(&self, level: Level, job: usize) -> u64 {
        let entities = &self.draft.entities;
        entities.at(&self.draft.held, level, job).saturating_sub(entities.at(
            &self.taken,
            level,
            job,
        ))
    }

    fn given(&self, level: Level, job: usize) -> u64 {
        self.draft.entities.at(&self.draft.given, level, job)
    }
}
