//! Rules by which a request may preempt a process of another job.
//!
//! The rules are in "Preemption" in `../README.md`. Two jobs are compared at the level that divides
//! them: by class, else by user, else by job. The test is repeated for every victim of a plan with
//! what the plan took before.

use std::cell::{Cell, OnceCell};
use std::cmp::Ordering;

use super::budget::{self, Worth};
use super::history::Barred;
use super::keeps::Keeps;
use crate::engine::draft::Draft;
use crate::engine::fairness_tree::{GroupIx, Level};
use crate::engine::job_draft::JobDraft;
use crate::engine::schedule::VictimRule;
use crate::engine::sizes::least_size;
use crate::model::{JobIx, Millis, NShares, Precedence, count};

/// Most processes of a job that may soon have only its last process left.
const FEW: u64 = 8;

/// Rights of a request that do not depend on the victim, each as a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CommonRights(u16);

impl CommonRights {
    /// Bits that both give and deny something.
    const AMBIGUOUS: u16 = 0b11;

    /// True if a request with rights `other` may take nothing more.
    pub(super) fn include(self, other: CommonRights) -> bool {
        other.0 & !self.0 == 0 && (self.0 ^ other.0) & CommonRights::AMBIGUOUS == 0
    }
}

/// Rights of a request against other jobs, while the victims of a plan are being chosen.
#[expect(clippy::struct_excessive_bools, reason = "rights that are held independently")]
pub(super) struct Eligibility<'d, 'a> {
    pub(super) draft: &'d Draft<'a>,
    pub(super) keeps: &'d Keeps,
    pub(super) requester: JobIx,
    /// True if the requester may take from peers. Only a fair-share job has peers.
    is_among_peers: bool,
    /// Sides that the requester may not take from, because they took from it.
    barred: Barred,
    /// True if such a side, of its class, stood in the way on the node.
    has_met_bar: Cell<bool>,
    /// True if the requester holds nothing and is owed a process.
    is_starved: bool,
    holds_nothing: bool,
    is_below_target: bool,
    /// True if the requester is under its minimum, and defragmentation is on.
    is_under_minimum: bool,
    /// True if holdings decide: in an idle cluster with defragmentation on.
    may_balance: bool,
    /// Work of peers that a further process may cost in an idle cluster, if that is limited. A plan
    /// above the limit comes after all plans within it.
    pub(super) limit: Option<Millis>,
    /// Quanta of a process of the requester.
    order: u64,
    /// True if a first process goes before evenness. Found on first use.
    gives_first_processes: OnceCell<bool>,
    /// Processes that the plan takes so far: the job and the quanta of each.
    taken: Vec<(JobIx, u64)>,
}

impl<'d, 'a> Eligibility<'d, 'a> {
    pub(super) fn new(
        draft: &'d Draft<'a>,
        keeps: &'d Keeps,
        requester: JobIx,
    ) -> Eligibility<'d, 'a> {
        let defragmentation = draft.snapshot.topology.settings.defragmentation;
        let holds_nothing = draft.has(requester) == NShares(0);
        let is_below_target = NShares(0) < draft.shortfall(requester);
        let may_balance = defragmentation && draft.snapshot.quiescence.is_at_rest();
        let mut eligibility = Eligibility {
            draft,
            keeps,
            requester,
            is_among_peers: draft.class_of(requester).policy.is_preemptable(),
            barred: Barred::new(draft, requester),
            has_met_bar: Cell::new(false),
            is_starved: draft.is_starved(requester),
            holds_nothing,
            is_below_target,
            is_under_minimum: defragmentation && draft.is_needy(requester),
            may_balance,
            limit: None,
            order: draft.jobs[requester].order.qshares().0,
            gives_first_processes: OnceCell::new(),
            taken: Vec::new(),
        };
        if may_balance && !eligibility.reaches_worse_priorities() {
            eligibility.limit = match budget::worth(draft, requester) {
                Worth::UpTo(limit) => Some(limit),
                Worth::Anything | Worth::Nothing(_) => None,
            };
        }
        eligibility
    }

    /// Leaves the requester its rights over lower priorities alone. True if it has any.
    pub(super) fn spare_peers(&mut self) -> bool {
        self.is_among_peers = false;
        self.reaches_worse_priorities()
    }

    /// Starts with another node.
    pub(super) fn begin(&mut self) {
        self.reset();
        self.has_met_bar.set(false);
    }

    /// Starts over with a plan.
    pub(super) fn reset(&mut self) {
        self.taken.clear();
    }

    /// Notes that the plan takes a process of so many quanta of `victim`.
    pub(super) fn take(&mut self, victim: JobIx, quanta: u64) {
        self.taken.push((victim, quanta));
    }

    /// Returns the rights that do not depend on the victim. Requests of equal class, order and rights
    /// may take from the same sides.
    pub(super) fn rights(&self) -> CommonRights {
        // Each of them only adds to what may be taken, except the last two.
        let rights = [
            self.is_among_peers,
            self.is_starved,
            self.holds_nothing,
            self.is_below_target,
            self.is_under_minimum,
            self.is_side_below(Level::Class),
            self.is_side_below(Level::User),
            self.may_balance,
            self.has_given(),
        ];
        CommonRights(rights.into_iter().fold(0, |number, right| number << 1 | u16::from(right)))
    }

    /// True if a peer took a process from the requester in this cycle.
    pub(super) fn has_given(&self) -> bool {
        self.keeps.has_given(self.requester)
    }

    /// True if the requester may preempt at all.
    pub(super) fn is_eligible(&self) -> bool {
        let is_behind = self.is_starved || self.is_below_target || self.may_balance;
        (is_behind && !self.has_given()) || self.reaches_worse_priorities()
    }

    /// True if another user of its class, or another job of its user, took from the requester.
    pub(super) fn is_barred(&self) -> bool {
        self.barred.is_any_below_class(self.draft)
    }

    /// True if such a side stood in the way on the node.
    pub(super) fn has_met_bar(&self) -> bool {
        self.has_met_bar.get()
    }

    /// True if the side of `victim` at `level` took from the requester.
    fn is_bar(&self, level: Level, victim: JobIx) -> bool {
        let is_bar = self.barred.contains(self.draft, level, victim);
        self.has_met_bar.set(self.has_met_bar.get() || (is_bar && level != Level::Class));
        is_bar
    }

    /// True if a job of lower priority holds a process that can be preempted: its loss has no
    /// limit.
    pub(super) fn reaches_worse_priorities(&self) -> bool {
        let draft = self.draft;
        let priority = draft.precedence(self.requester);
        let mut classes = draft.snapshot.topology.classes.iter().zip(&draft.held.classes);
        classes.any(|(class, held)| {
            priority < Precedence::Priority(class.priority)
                && class.policy.is_preemptable()
                && 0 < *held
        })
    }

    /// True if a victim may lose the last process that is owed to it: at lower priority, or if
    /// evenness goes before first processes.
    pub(super) fn reaches_last_processes(&self, victim: JobIx) -> bool {
        let [own, theirs] = [self.requester, victim].map(|job| self.draft.precedence(job));
        own < theirs || !self.gives_first_processes()
    }

    /// True if a process stays only because it is the last and owed to its job, or would once other
    /// processes of the job are gone.
    pub(super) fn is_blocked_by_owed(&self) -> bool {
        let Draft { entities, jobs, .. } = self.draft;
        let is_in_the_way = |level: Level, job: JobIx| {
            jobs[job].is_owed
                && (1..=FEW).contains(&self.keeps.nshares[job].0)
                && self.would_balance(level, job, jobs[job].order.qshares().0)
        };
        let own = self.draft.class_of(self.requester);
        let is_any_of_user = |user: GroupIx| {
            let members = entities.members(user);
            let Some(&first) = members.first() else { return false };
            let class = self.draft.class_of(first);
            let level = entities.lowest_common_level(first, self.requester);
            class.policy.is_preemptable()
                && class.priority == own.priority
                // All jobs of the user have this in common.
                && (level == Level::Job || self.would_balance(level, first, 1))
                && members.iter().any(|&job| {
                    is_in_the_way(entities.lowest_common_level(job, self.requester), job)
                })
        };
        self.is_among_peers
            && self.may_balance
            && !self.keeps.has_given(self.requester)
            && entities.groups().places().any(is_any_of_user)
            && self.gives_first_processes()
    }

    /// True if a user of a class might lose a process.
    pub(super) fn reaches_user(&self, user: GroupIx) -> bool {
        self.draft.entities.members(user).first().is_some_and(|&job| self.reaches(job))
    }

    /// True if a job of the same user and class as `victim` might lose a process.
    pub(super) fn reaches(&self, victim: JobIx) -> bool {
        let draft = self.draft;
        let [own, theirs] = [self.requester, victim].map(|job| draft.precedence(job));
        if !draft.class_of(victim).policy.is_preemptable() || theirs < own {
            return false;
        }
        if own < theirs {
            return true;
        }
        let level = draft.entities.lowest_common_level(victim, self.requester);
        if !self.is_among_peers
            || self.keeps.has_given(self.requester)
            // Requests of a kind have only the class in common.
            || (level == Level::Class && self.barred.contains(draft, level, victim))
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

    /// The rule under which a process of so many quanta of `victim` may go now, if any.
    pub(super) fn rule(&self, victim: JobIx, quanta: u64) -> Option<VictimRule> {
        let draft = self.draft;
        let [own, theirs] = [self.requester, victim].map(|job| draft.precedence(job));
        let is_whole = draft.jobs[victim].is_gang || draft.jobs[victim].has_stepped;
        let stays = !draft.class_of(victim).policy.is_preemptable();
        if victim == self.requester || stays || is_whole {
            return None;
        }
        if own < theirs {
            return Some(draft.rule_over_lower(self.requester));
        }
        let are_peers = self.is_among_peers && own == theirs;
        let is_passing = || self.keeps.has_taken(victim) || self.keeps.has_given(self.requester);
        if !are_peers || draft.jobs[victim].is_adapting || is_passing() {
            return None;
        }
        if self.waits_for_step(victim) && !self.is_starved {
            return None;
        }
        let level = draft.entities.lowest_common_level(victim, self.requester);
        if self.is_last_owed(victim) {
            if self.gives_first_processes() {
                return None;
            }
            let is_ahead = self.would_balance(level, victim, quanta) && !self.is_bar(level, victim);
            return is_ahead.then_some(VictimRule::Envy);
        }
        let rule = self.by_targets(level, victim, quanta).or_else(|| {
            (self.may_balance && self.would_balance(level, victim, quanta))
                .then_some(VictimRule::Envy)
        })?;
        (!self.is_bar(level, victim)).then_some(rule)
    }

    /// True if a job with legal sizes has no more than its target, and waits for space of its next
    /// size. With a process less it would begin no step, and go down to the size below.
    fn waits_for_step(&self, victim: JobIx) -> bool {
        let JobDraft { is_elastic, held, promised, target, .. } = self.draft.jobs[victim];
        is_elastic && NShares(0) < promised && held <= target
    }

    /// True if `victim`, a peer, keeps a process only because it is the last and owed to it.
    pub(super) fn would_go_but_is_owed(&self, victim: JobIx, quanta: u64) -> bool {
        let level = self.draft.entities.lowest_common_level(victim, self.requester);
        self.may_balance && self.is_last_owed(victim) && self.would_balance(level, victim, quanta)
    }

    /// Returns the rule that targets allow: fair share, minimum, surplus or first process.
    fn by_targets(&self, level: Level, victim: JobIx, quanta: u64) -> Option<VictimRule> {
        if self.is_below_target && self.is_behind(level, victim, quanta) {
            if self.is_above_target(level, victim) {
                return Some(VictimRule::FairShare);
            }
            if self.is_under_minimum && (self.holds_nothing || !self.becomes_needy(victim)) {
                return Some(VictimRule::Defragmentation);
            }
        }
        if self.is_surplus(level, victim, quanta) {
            return Some(VictimRule::FairShare);
        }
        (self.is_starved && self.gives_first_processes()).then_some(VictimRule::FirstShare)
    }

    /// True if a first process goes before evenness. It does unless holdings decide, and then if
    /// all jobs could have a process at once.
    pub(super) fn gives_first_processes(&self) -> bool {
        *self.gives_first_processes.get_or_init(|| {
            !self.may_balance || self.keeps.is_there_one_for_all(self.draft, self.requester)
        })
    }

    /// True if the requester may have a surplus of the victim. The victim's job and side keep their
    /// targets, and the side is better off before. The requester is below its target, or its side
    /// is in an idle cluster.
    fn is_surplus(&self, level: Level, victim: JobIx, quanta: u64) -> bool {
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

    /// True if the cluster is idle and the requester's side at `level` is below its target.
    fn is_side_below(&self, level: Level) -> bool {
        let held = self.draft.entities.at(&self.draft.held, level, self.requester);
        self.may_balance && held < self.target(level, self.requester)
    }

    /// True if a job of the victim's side might have a surplus for the requester.
    fn is_side_surplus(&self, level: Level, victim: JobIx) -> bool {
        let entities = &self.draft.entities;
        (self.is_below_target || self.may_balance)
            && self.is_above_target(level, victim)
            && self
                .compare(level, victim, 0, entities.at(&self.keeps.amounts, level, victim))
                .is_lt()
    }

    /// Compares the requester's side with `gain` more to the victim's with `amount`, by weight.
    /// Cross-multiplied, as the engine does not divide.
    fn compare(&self, level: Level, victim: JobIx, gain: u64, amount: u64) -> Ordering {
        let entities = &self.draft.entities;
        let has = entities.at(&self.draft.held, level, self.requester) + gain;
        let ours = u128::from(has) * u128::from(entities.weight_at(level, victim));
        let theirs = u128::from(amount) * u128::from(entities.weight_at(level, self.requester));
        ours.cmp(&theirs)
    }

    /// Pair test: true if the requester's side has less, by weight, than the victim's would without
    /// `quanta`.
    fn is_behind(&self, level: Level, victim: JobIx, quanta: u64) -> bool {
        let left = self.held(level, victim).checked_sub(quanta);
        left.is_some_and(|left| self.compare(level, victim, 0, left).is_lt())
    }

    /// True if the victim's side without `quanta` would still have no less, by weight, than the
    /// requester's side with a further process.
    fn would_balance(&self, level: Level, victim: JobIx, quanta: u64) -> bool {
        let left = self.held(level, victim).checked_sub(quanta);
        left.is_some_and(|left| self.compare(level, victim, self.order, left).is_le())
    }

    /// True if `victim` would be left with nothing, though a process is owed to it, or its user would,
    /// who is not the requester's. A job with legal sizes has nothing below its smallest size, which
    /// promises do not make up.
    fn is_last_owed(&self, victim: JobIx) -> bool {
        let (entities, work) = (&self.draft.entities, &self.draft.jobs[victim]);
        let least = least_size(self.draft, victim);
        let left = || {
            if work.is_elastic {
                work.held.saturating_sub(self.taken_from(victim))
            } else {
                self.nshares(victim)
            }
        };
        let is_last_of_user = || {
            let all = least.of_order(work.order);
            entities.lowest_common_level(victim, self.requester) != Level::Job
                && self.held(Level::User, victim) <= all.0 + self.keeps.to_shed(self.draft, victim)
        };
        (work.is_owed && left() <= least)
            || (self.keeps.is_user_owed(self.draft, victim) && is_last_of_user())
    }

    /// True if `victim` would be under its minimum after the loss of a further process.
    fn becomes_needy(&self, victim: JobIx) -> bool {
        self.draft.becomes_needy_with(victim, self.nshares(victim).saturating_sub(NShares(1)))
    }

    /// True if the side of `victim` at `level` holds more than its target.
    fn is_above_target(&self, level: Level, victim: JobIx) -> bool {
        self.target(level, victim) < self.held(level, victim)
    }

    /// Counts the processes that the plan leaves to `victim`.
    fn nshares(&self, victim: JobIx) -> NShares {
        self.keeps.nshares[victim].saturating_sub(self.taken_from(victim))
    }

    /// Counts the processes that the plan takes from `victim`.
    fn taken_from(&self, victim: JobIx) -> NShares {
        NShares(count(self.taken.iter().filter(|(job, _)| *job == victim)))
    }

    fn held(&self, level: Level, job: JobIx) -> u64 {
        let entities = &self.draft.entities;
        let side = entities.side(level, job);
        let taken = self.taken.iter().filter(|(other, _)| entities.side(level, *other) == side);
        let taken: u64 = taken.map(|(_, quanta)| *quanta).sum();
        entities.at(&self.keeps.amounts, level, job).saturating_sub(taken)
    }

    fn target(&self, level: Level, job: JobIx) -> u64 {
        self.draft.entities.at(&self.draft.targets, level, job)
    }
}
