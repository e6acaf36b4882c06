//! Whether one job may take a share from another, and under which rule.
//!
//! Decision D2: at the level that divides the two, the victim must afterwards still be strictly
//! better off, by weight, than the beneficiary was before; or equally well off, if the victim's
//! side is above its count and the beneficiary's below. The test is repeated for every victim with
//! what was already taken.

use crate::engine::draft::Draft;
use crate::engine::entities::{Amounts, Level};
use crate::engine::schedule::PreemptionRule;

/// A claim of one beneficiary on one machine, while its victims are being chosen.
pub(super) struct Claim<'d, 'a> {
    draft: &'d Draft<'a>,
    beneficiary: usize,
    /// What has been taken so far, by entity.
    taken: Amounts,
    /// How many nshares have been taken from each job so far.
    taken_from: Vec<(usize, u64)>,
}

impl<'d, 'a> Claim<'d, 'a> {
    pub(super) fn new(draft: &'d Draft<'a>, beneficiary: usize) -> Claim<'d, 'a> {
        Claim { draft, beneficiary, taken: draft.entities.no_amounts(), taken_from: Vec::new() }
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
        if victims_class.priority < class.priority || !class.policy.is_preemptable() {
            return None;
        }
        let level = draft.entities.dividing_level(victim, beneficiary);
        let has_surplus = self.given(level, victim) < self.held(level, victim);
        if !self.stays_better_off(level, victim, qshares, has_surplus) {
            return None;
        }
        match (has_surplus, self.may_defragment(victim)) {
            (true, _) => Some(PreemptionRule::FairShare),
            (false, true) => Some(PreemptionRule::Defragmentation),
            (false, false) => None,
        }
    }

    /// The pair test of decision D2, cross-multiplied.
    fn stays_better_off(
        &self,
        level: Level,
        victim: usize,
        qshares: u64,
        has_surplus: bool,
    ) -> bool {
        let entities = &self.draft.entities;
        let Some(left) = self.held(level, victim).checked_sub(qshares) else { return false };
        let beneficiary_has = entities.at(&self.draft.held, level, self.beneficiary);
        let victims = u128::from(left) * u128::from(entities.weight_at(level, self.beneficiary));
        let beneficiarys =
            u128::from(beneficiary_has) * u128::from(entities.weight_at(level, victim));
        let is_owed = beneficiary_has < self.given(level, self.beneficiary);
        beneficiarys < victims || (beneficiarys == victims && has_surplus && is_owed)
    }

    /// Whether the beneficiary is needy and `victim` may donate to it: a donor does not become
    /// needy itself, unless the beneficiary has nothing at all (decision D5; that nobody starves
    /// weighs more, and the pair test keeps the two from taking turns).
    fn may_defragment(&self, victim: usize) -> bool {
        let draft = self.draft;
        if !draft.snapshot.topology.settings.defragmentation || !draft.is_needy(self.beneficiary) {
            return false;
        }
        let has = draft.jobs[self.beneficiary].held + draft.jobs[self.beneficiary].promised;
        has == 0 || !self.becomes_needy(victim)
    }

    /// Whether `victim` would be needy after giving one nshare more.
    pub(super) fn becomes_needy(&self, victim: usize) -> bool {
        let draft = &self.draft.jobs[victim];
        let taken = self
            .taken_from
            .iter()
            .find(|(job, _)| *job == victim)
            .map_or(0, |(_, nshares)| *nshares);
        let left = (draft.held + draft.promised).saturating_sub(taken + 1);
        left < draft.given && self.draft.would_be_needy_with(victim, left)
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
