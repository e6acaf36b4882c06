//! The order in which jobs are served: by the priority of their class. Work that stays and names an advance
//! reservation comes before all priorities, and gets its nodes from the notice before the opening on.

use std::collections::BTreeMap;

use super::draft::Draft;
use super::schedule::VictimRule;
use super::snapshot::Snapshot;
use crate::model::{ClassPolicy, JobIx, Millis, Precedence, ResourceClass};

/// Work in its advance reservation, by place: the opening of the reservation.
pub(super) fn reserved_work(snapshot: &Snapshot) -> BTreeMap<JobIx, Millis> {
    if snapshot.windows.is_empty() {
        return BTreeMap::new();
    }
    let jobs = snapshot.jobs.with_ix();
    jobs.filter_map(|(ix, job)| Some((ix, snapshot.reserved_from(job)?))).collect()
}

impl Draft<'_> {
    /// Precedence of the job at `ix`.
    pub(super) fn precedence(&self, ix: JobIx) -> Precedence {
        if !self.reserved.is_empty() && self.reserved.contains_key(&ix) {
            Precedence::Reserved
        } else {
            Precedence::Priority(self.class_of(ix).priority)
        }
    }

    /// Opening of the reservation that the job at `ix` waits for, while space is made for the job: from
    /// the notice on.
    pub(super) fn opening_of(&self, ix: JobIx) -> Option<Millis> {
        let (opens, now) = (self.reserved.get(&ix).copied()?, self.snapshot.now?);
        let near = now.saturating_add(self.snapshot.topology.settings.notice);
        (now < opens && opens <= near).then_some(opens)
    }

    /// The first moment from `now` on at which the job at `ix` may start: the opening of its
    /// reservation, while space is made for the job.
    pub(super) fn soonest(&self, ix: JobIx, now: Millis) -> Millis {
        self.opening_of(ix).map_or(now, |opens| opens.max(now))
    }

    /// The rule under which a job of a lower priority gives way to the job at `ix`.
    pub(super) fn rule_over_lower(&self, ix: JobIx) -> VictimRule {
        match self.precedence(ix) {
            Precedence::Reserved => VictimRule::Window,
            Precedence::Priority(_) => VictimRule::Priority,
        }
    }

    /// The precedences of all jobs, highest first.
    pub(super) fn priorities(&self) -> Vec<Precedence> {
        let classes = &self.snapshot.topology.classes;
        let of_groups = self.entities.groups().iter().map(|(class, _)| classes[*class].priority);
        let reserved = (!self.reserved.is_empty()).then_some(Precedence::Reserved);
        let mut priorities: Vec<Precedence> =
            of_groups.map(Precedence::Priority).chain(reserved).collect();
        priorities.sort_unstable();
        priorities.dedup();
        priorities
    }

    /// The jobs of `priority` whose class has a policy that `matches`, oldest first.
    pub(super) fn jobs_of(
        &self,
        priority: Precedence,
        matches: impl Fn(&ClassPolicy) -> bool,
    ) -> Vec<JobIx> {
        if priority == Precedence::Reserved {
            let reserved = self.reserved.keys().copied();
            return reserved.filter(|&job| matches(&self.class_of(job).policy)).collect();
        }
        let classes = self.snapshot.topology.classes.iter();
        let is_asked = |class: &ResourceClass| Precedence::Priority(class.priority) == priority;
        let is_asked: Vec<bool> =
            classes.map(|class| is_asked(class) && matches(&class.policy)).collect();
        if !is_asked.contains(&true) {
            return Vec::new();
        }
        let jobs =
            self.snapshot.jobs.places().filter(|job| is_asked[self.entities.class_of(*job).0]);
        if self.reserved.is_empty() {
            return jobs.collect();
        }
        jobs.filter(|job| !self.reserved.contains_key(job)).collect()
    }
}
