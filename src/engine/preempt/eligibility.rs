//! Whether a request may take a process from another job, and under which rule.
//!
//! The rules are on one page: "Taking back" in `../README.md`. Two jobs are compared where they
//! part: by class, else by user, else by job. The test is repeated for every victim of a plan with
//! what the plan took before.

use std::cmp::Ordering;

use super::budget::{self, Worth};
use super::history::Barred;
use super::keeps::Keeps;
use crate::engine::draft::Draft;
use crate::engine::entities::Level;
use crate::engine::schedule::PreemptionRule;
use crate::model::{MachineIx, Millis, count};

/// A job with no more processes than this may soon have only the last one left.
const FEW: u64 = 8;

/// What one request may take from others, while the victims of one plan are being chosen.
#[expect(clippy::struct_excessive_bools, reason = "rights that are held independently")]
pub(super) struct Entitlement<'d, 'a> {
    draft: &'d Draft<'a>,
    pub(super) keeps: &'d Keeps,
    pub(super) requester: usize,
    /// Whether its work is fair-share work: else it has no peers.
    is_among_peers: bool,
    /// The sides it may not take from, because they took from it.
    barred: Barred,
    /// Whether it holds nothing and a process is owed it.
    is_starved: bool,
    holds_nothing: bool,
    is_below_target: bool,
    /// Whether it is under its minimum, and defragmentation is on.
    is_under_minimum: bool,
    /// Whether holdings decide: in a cluster at rest.
    may_balance: bool,
    /// In a cluster at rest, how much work of its peers one more process may cost, if that is limited. What
    /// costs more does not come before what costs less.
    pub(super) limit: Option<Millis>,
    /// The quanta of one process of it.
    order: u64,
    /// What the plan takes so far, process by process: the job, and how many quanta.
    taken: Vec<(usize, u64)>,
}

impl<'d, 'a> Entitlement<'d, 'a> {
    pub(super) fn new(
        draft: &'d Draft<'a>,
        keeps: &'d Keeps,
        requester: usize,
    ) -> Entitlement<'d, 'a> {
        let defragmentation = draft.snapshot.topology.settings.defragmentation;
        let holds_nothing = draft.has(requester) == 0;
        let is_below_target = 0 < draft.shortfall(requester);
        let may_balance = defragmentation && draft.snapshot.calm.is_at_rest();
        let mut entitlement = Entitlement {
            draft,
            keeps,
            requester,
            is_among_peers: draft.class_of(requester).policy.is_preemptable(),
            barred: Barred::new(draft, requester),
            is_starved: draft.is_starved(requester),
            holds_nothing,
            is_below_target,
            is_under_minimum: defragmentation && draft.is_needy(requester),
            may_balance,
            limit: None,
            order: draft.jobs[requester].order.qshares().0,
            taken: Vec::new(),
        };
        if may_balance && !entitlement.reaches_worse_priorities() {
            entitlement.limit = match budget::worth(draft, requester) {
                Worth::UpTo(limit) => Some(limit),
                Worth::Anything | Worth::Nothing(_) => None,
            };
        }
        entitlement
    }

    /// Starts over for another machine.
    pub(super) fn reset(&mut self) {
        self.taken.clear();
    }

    /// Notes that the plan takes a process of so many quanta of `victim`.
    pub(super) fn take(&mut self, victim: usize, quanta: u64) {
        self.taken.push((victim, quanta));
    }

    /// The rights that do not depend on who the victim is, as a number: requests of one class, order
    /// and number may take from the same sides.
    pub(super) fn rights(&self) -> u8 {
        let rights = [
            self.is_starved,
            self.holds_nothing,
            self.is_below_target,
            self.is_under_minimum,
            self.may_balance,
            self.has_given(),
            self.is_side_below(Level::Class),
            self.is_side_below(Level::User),
        ];
        rights.into_iter().fold(0, |number, right| number << 1 | u8::from(right))
    }

    /// Whether a peer took something from it in this cycle.
    pub(super) fn has_given(&self) -> bool {
        self.keeps.has_given(self.requester)
    }

    /// Whether it may take from anybody.
    pub(super) fn is_entitled(&self) -> bool {
        self.is_starved
            || self.is_below_target
            || self.may_balance
            || self.reaches_worse_priorities()
    }

    /// Whether another user of its class, or another job of its user, took from it.
    pub(super) fn is_barred(&self) -> bool {
        self.barred.is_any_below_class(self.draft)
    }

    /// Whether it may take from worse priorities: they are not asked what it costs.
    pub(super) fn reaches_worse_priorities(&self) -> bool {
        let draft = self.draft;
        let priority = draft.class_of(self.requester).priority;
        let mut classes = draft.snapshot.topology.classes.iter().zip(&draft.held.classes);
        classes.any(|(class, held)| {
            priority < class.priority && class.policy.is_preemptable() && 0 < *held
        })
    }

    /// Whether the last process of a job to which it is owed might go, too: from worse priorities, and
    /// where evenness goes before it.
    pub(super) fn reaches_last_processes(&self, victim: usize) -> bool {
        let [own, theirs] = [self.requester, victim].map(|job| self.draft.class_of(job).priority);
        own < theirs || !self.gives_first_processes()
    }

    /// Whether a process of a job of which `is_meant` says so stays only as it is the last one and owed to
    /// its job, or would once others of it went.
    pub(super) fn is_blocked_by(&self, is_meant: impl Fn(usize) -> bool) -> bool {
        let Draft { entities, jobs, .. } = self.draft;
        let is_in_the_way = |level: Level, job: usize| {
            jobs[job].is_owed
                && (1..=FEW).contains(&self.keeps.nshares[job])
                && self.would_balance(level, job, jobs[job].order.qshares().0)
                && is_meant(job)
        };
        let own = self.draft.class_of(self.requester);
        let is_any_of_user = |user: usize| {
            let members = entities.members(user);
            let Some(&first) = members.first() else { return false };
            let class = self.draft.class_of(first);
            let level = entities.dividing_level(first, self.requester);
            class.policy.is_preemptable()
                && class.priority == own.priority
                // All jobs of the user have this in common.
                && (level == Level::Job || self.would_balance(level, first, 1))
                && members.iter().any(|&job| {
                    is_in_the_way(entities.dividing_level(job, self.requester), job)
                })
        };
        self.is_among_peers
            && self.may_balance
            && !self.keeps.has_given(self.requester)
            && (0..entities.groups().len()).any(is_any_of_user)
            && self.gives_first_processes()
    }

    /// Whether a user of a class might give anything.
    pub(super) fn reaches_user(&self, user: usize) -> bool {
        self.draft.entities.members(user).first().is_some_and(|&job| self.reaches(job))
    }

    /// Whether a job of the same user and class as `victim` might give anything.
    pub(super) fn reaches(&self, victim: usize) -> bool {
        let draft = self.draft;
        let [own, theirs] = [self.requester, victim].map(|job| draft.class_of(job));
        if !theirs.policy.is_preemptable() || theirs.priority < own.priority {
            return false;
        }
        if own.priority < theirs.priority {
            return true;
        }
        let level = draft.entities.dividing_level(victim, self.requester);
        if !self.is_among_peers
            || self.keeps.has_given(self.requester)
            || self.barred.contains(draft, level, victim)
        {
            return false;
        }
        level == Level::Job
            || self.is_starved
            || (self.is_below_target
                && self.is_behind(level, victim, 1)
                && (self.is_under_minimum || self.is_above_target(level, victim)))
            || self.is_side_surplus(level, victim)
            || (self.may_balance && self.would_balance(level, victim, 1))
    }

    /// Whether its user has processes on `machine`.
    pub(super) fn has_own_on(&self, machine: MachineIx) -> bool {
        let entities = &self.draft.entities;
        let own = entities.group_of(self.requester);
        let mut held = self.draft.rooms.held_shares(machine);
        held.any(|(holding, _)| entities.group_of(holding.job) == own)
    }

    /// The rule under which a process of so many quanta of `victim` may go now, if any.
    pub(super) fn rule(&self, victim: usize, quanta: u64) -> Option<PreemptionRule> {
        let draft = self.draft;
        let [own, theirs] = [self.requester, victim].map(|job| draft.class_of(job));
        if victim == self.requester || !theirs.policy.is_preemptable() {
            return None;
        }
        if own.priority < theirs.priority {
            return Some(PreemptionRule::Priority);
        }
        let are_peers = self.is_among_peers && own.priority == theirs.priority;
        let is_passing = || self.keeps.has_taken(victim) || self.keeps.has_given(self.requester);
        if !are_peers || is_passing() {
            return None;
        }
        let level = draft.entities.dividing_level(victim, self.requester);
        if self.is_last_owed(victim) {
            if self.gives_first_processes() {
                return None;
            }
            let is_ahead = self.would_balance(level, victim, quanta)
                && !self.barred.contains(draft, level, victim);
            return is_ahead.then_some(PreemptionRule::Envy);
        }
        let rule = self.by_targets(level, victim, quanta).or_else(|| {
            (self.may_balance && self.would_balance(level, victim, quanta))
                .then_some(PreemptionRule::Envy)
        })?;
        (!self.barred.contains(draft, level, victim)).then_some(rule)
    }

    /// Whether a process of `victim`, a peer, stays only as it is the last one and owed to it.
    pub(super) fn would_go_but_is_owed(&self, victim: usize, quanta: u64) -> bool {
        let level = self.draft.entities.dividing_level(victim, self.requester);
        self.may_balance && self.is_last_owed(victim) && self.would_balance(level, victim, quanta)
    }

    /// What targets allow: the rules of fair share, minimum, surplus and first process.
    fn by_targets(&self, level: Level, victim: usize, quanta: u64) -> Option<PreemptionRule> {
        if self.is_below_target && self.is_behind(level, victim, quanta) {
            if self.is_above_target(level, victim) {
                return Some(PreemptionRule::FairShare);
            }
            if self.is_under_minimum && (self.holds_nothing || !self.becomes_needy(victim)) {
                return Some(PreemptionRule::Defragmentation);
            }
        }
        if self.is_surplus(level, victim, quanta) {
            return Some(PreemptionRule::FairShare);
        }
        (self.is_starved && self.gives_first_processes()).then_some(PreemptionRule::FirstShare)
    }

    /// Whether a first process goes before evenness: while work moves; and in a cluster at rest where
    /// all work could have one at the same time.
    pub(super) fn gives_first_processes(&self) -> bool {
        !self.may_balance || self.keeps.is_there_one_for_all(self.draft, self.requester)
    }

    /// Whether the requester may have what the victim's job and side hold above their targets: they are
    /// better off before, and the requester is below its target, or in a cluster at rest its side.
    fn is_surplus(&self, level: Level, victim: usize, quanta: u64) -> bool {
        let entities = &self.draft.entities;
        let keeps_its_target =
            |level| self.target(level, victim) + quanta <= self.held(level, victim);
        keeps_its_target(level)
            && keeps_its_target(Level::Job)
            && (self.is_below_target || self.is_side_below(level))
            && self
                .compare(level, victim, 0, entities.at(&self.keeps.amounts, level, victim))
                .is_lt()
            && self.compare(level, victim, self.order - 1, self.held(level, victim)).is_lt()
    }

    /// Whether, in a cluster at rest, the requester's side at `level` is below its target.
    fn is_side_below(&self, level: Level) -> bool {
        let held = self.draft.entities.at(&self.draft.held, level, self.requester);
        self.may_balance && held < self.target(level, self.requester)
    }

    /// The same for any job of the victim's side.
    fn is_side_surplus(&self, level: Level, victim: usize) -> bool {
        let entities = &self.draft.entities;
        (self.is_below_target || self.may_balance)
            && self.is_above_target(level, victim)
            && self
                .compare(level, victim, 0, entities.at(&self.keeps.amounts, level, victim))
                .is_lt()
    }

    /// The requester's side with `gain` more, against the victim's with `amount`, by weight.
    /// Cross-multiplied.
    fn compare(&self, level: Level, victim: usize, gain: u64, amount: u64) -> Ordering {
        let entities = &self.draft.entities;
        let has = entities.at(&self.draft.held, level, self.requester) + gain;
        let ours = u128::from(has) * u128::from(entities.weight_at(level, victim));
        let theirs = u128::from(amount) * u128::from(entities.weight_at(level, self.requester));
        ours.cmp(&theirs)
    }

    /// The pair test: whether the requester's side has less, by weight, than the victim's would
    /// without `quanta`.
    fn is_behind(&self, level: Level, victim: usize, quanta: u64) -> bool {
        let left = self.held(level, victim).checked_sub(quanta);
        left.is_some_and(|left| self.compare(level, victim, 0, left).is_lt())
    }

    /// Whether the victim's side without `quanta` would still have no less, by weight, than the
    /// requester's with one process more.
    fn would_balance(&self, level: Level, victim: usize, quanta: u64) -> bool {
        let left = self.held(level, victim).checked_sub(quanta);
        left.is_some_and(|left| self.compare(level, victim, self.order, left).is_le())
    }

    /// Whether `victim` would lose the one process that is owed it.
    fn is_last_owed(&self, victim: usize) -> bool {
        self.draft.jobs[victim].is_owed && self.nshares(victim) <= 1
    }

    /// Whether `victim` would be under its minimum after giving one process more.
    fn becomes_needy(&self, victim: usize) -> bool {
        self.draft.becomes_needy_with(victim, self.nshares(victim).saturating_sub(1))
    }

    /// Whether the side of `victim` at `level` holds more than its target.
    fn is_above_target(&self, level: Level, victim: usize) -> bool {
        self.target(level, victim) < self.held(level, victim)
    }

    /// How many processes the plan leaves to `victim`.
    fn nshares(&self, victim: usize) -> u64 {
        let taken = count(self.taken.iter().filter(|(job, _)| *job == victim));
        self.keeps.nshares[victim].saturating_sub(taken)
    }

    fn held(&self, level: Level, job: usize) -> u64 {
        let entities = &self.draft.entities;
        let side = entities.side(level, job);
        let taken = self.taken.iter().filter(|(other, _)| entities.side(level, *other) == side);
        let taken: u64 = taken.map(|(_, quanta)| *quanta).sum();
        entities.at(&self.keeps.amounts, level, job).saturating_sub(taken)
    }

    fn target(&self, level: Level, job: usize) -> u64 {
        self.draft.entities.at(&self.draft.given, level, job)
    }
}
