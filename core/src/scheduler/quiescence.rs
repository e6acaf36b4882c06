//! For how long nothing has changed, and who took from whom meanwhile.
//!
//! A change is of two kinds: a change of *claims* (demand and supply), and any news of a job, down
//! to a finished item. A cluster without a change of claims is quiet; a cluster without any news is
//! idle.

use std::collections::BTreeSet;

use super::{Scheduler, SchedulerEvent};
use crate::engine::{CycleSchedule, MEMORY_AFTER, Quiescence, Taking};
use crate::model::{JobFacts, JobId, SharePhase};

/// Cycles without a change, and preemptions since. A new tracker begins with a change of both
/// kinds.
#[derive(Clone, Debug)]
pub(super) struct QuiescenceTracker {
    pub have_claims_changed: bool,
    pub has_news: bool,
    pub quiet_cycles: u64,
    pub rest_cycles: u64,
    pub takings: BTreeSet<Taking>,
    /// True if the last cycle reached its search limit before all jobs had their turn.
    pub is_unfinished: bool,
}

impl Default for QuiescenceTracker {
    fn default() -> QuiescenceTracker {
        QuiescenceTracker {
            have_claims_changed: true,
            has_news: true,
            quiet_cycles: 0,
            rest_cycles: 0,
            takings: BTreeSet::new(),
            is_unfinished: false,
        }
    }
}

impl QuiescenceTracker {
    /// Records a change of claims.
    pub(super) fn stir(&mut self) {
        self.have_claims_changed = true;
        self.has_news = true;
    }

    /// Counts the cycle that begins. A cycle that continues the search of the last cycle counts
    /// with it as a single cycle. The count is thus the number of turns that all jobs had since the
    /// last change.
    pub(super) fn begin_cycle(&mut self) {
        let more = u64::from(!self.is_unfinished);
        let next = |has_changed: &mut bool, cycles: u64| {
            if std::mem::take(has_changed) { 0 } else { cycles.saturating_add(more) }
        };
        self.quiet_cycles = next(&mut self.have_claims_changed, self.quiet_cycles);
        self.rest_cycles = next(&mut self.has_news, self.rest_cycles);
        if self.quiet_cycles <= MEMORY_AFTER {
            self.takings.clear();
        }
    }

    /// Remembers who took from whom, and whether all had their turn since the search began.
    pub(super) fn remember(&mut self, schedule: &CycleSchedule, put_off_before: &[JobId]) {
        let is_left =
            |job: &JobId| put_off_before.is_empty() || put_off_before.binary_search(job).is_ok();
        self.is_unfinished = schedule.put_off.iter().any(is_left);
        if self.quiet_cycles < MEMORY_AFTER {
            return;
        }
        for preemption in schedule.preemptions.iter().filter(|taken| taken.rule.is_taking()) {
            if let Some(by) = preemption.beneficiary {
                self.takings.insert(Taking { from: preemption.job, by });
            }
        }
    }

    /// Returns the counts and preemptions for the engine's snapshot.
    pub(super) fn freeze(&self) -> Quiescence {
        Quiescence {
            quiet_cycles: self.quiet_cycles,
            rest_cycles: self.rest_cycles,
            takings: self.takings.iter().copied().collect(),
        }
    }
}

impl Scheduler {
    /// Notes whether `event`, about to be recorded, is a change.
    pub(super) fn notice(&mut self, event: &SchedulerEvent) {
        if self.changes_claims(event) {
            self.quiescence.stir();
        }
        if let SchedulerEvent::JobChanged { job, facts } = event {
            let is_news = self.jobs.get(*job).is_some_and(|known| known.spec.facts != *facts);
            self.quiescence.has_news |= is_news;
        }
    }

    /// True if `event` changes demand or supply. Shares that leave by our order and new shares that
    /// appear are our own doing.
    fn changes_claims(&self, event: &SchedulerEvent) -> bool {
        match event {
            SchedulerEvent::NodeReported(report) => {
                let known = self.nodes.find(&report.name);
                known.is_none_or(|node| {
                    let known = &self.nodes[node];
                    known.report != *report || known.is_dead || known.is_awaited
                })
            }
            // The next cycle finds out if a node dies of it.
            SchedulerEvent::HeartbeatIntervalPassed
            | SchedulerEvent::NodeMissedHeartbeats { .. } => false,
            SchedulerEvent::ClassHours { hours } => self.do_hours_turn(hours),
            SchedulerEvent::TimeIs { now } => self.does_a_window_turn(*now),
            SchedulerEvent::NodeDied { .. }
            | SchedulerEvent::JobArrived(_)
            | SchedulerEvent::JobCompleted { .. }
            | SchedulerEvent::LimboShareGone { .. } => true,
            SchedulerEvent::JobChanged { job, facts } => self
                .jobs
                .get(*job)
                .is_some_and(|known| changes_demand(&known.spec.facts, facts, known.spec.threads)),
            SchedulerEvent::JobRetimed { job, times } => {
                self.jobs.get(*job).is_some_and(|known| known.spec.times() != *times)
            }
            SchedulerEvent::JobExcepted { job, nodes } => {
                self.jobs.get(*job).is_some_and(|known| known.spec.except_nodes != *nodes)
            }
            SchedulerEvent::ShareSeen { job, share, .. } => {
                self.jobs.get(*job).is_some_and(|job| job.shares.get(*share).is_none())
            }
            SchedulerEvent::LimboShareSeen { share, .. } => !self.limbo.contains_key(share),
            SchedulerEvent::ShareExited { job, share } => {
                let share = self.jobs.get(*job).and_then(|job| job.shares.get(*share));
                share.is_some_and(|share| share.state == SharePhase::Held)
            }
        }
    }
}

/// True if the claims of a job with this many `threads` differ between two states of its facts.
///
/// Work done and a pace that drifts are progress: they count once they change how many processes
/// the work left can keep busy. Work that was added counts at once. And so does a pace that becomes
/// known or is forgotten: while it is unknown, other rules set the cap.
fn changes_demand(before: &JobFacts, now: &JobFacts, threads: u64) -> bool {
    let demand = |facts: &JobFacts| {
        let JobFacts { limit, is_running, is_completing, .. } = *facts;
        let knows_pace = facts.known_time_per_item().is_some();
        (facts.useful_processes(threads), limit, is_running, is_completing, knows_pace)
    };
    before.remaining < now.remaining || demand(before) != demand(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Alternatives, Preemption, VictimRule};
    use crate::model::{NodeIx, ProcessLimit, ShareId};

    /// A move is no preemption for fairness: the job keeps as much elsewhere.
    #[test]
    fn takings_are_remembered_and_moves_are_not() {
        let receipt = |job, rule| Preemption {
            share: ShareId(job),
            job: JobId(job),
            node: NodeIx(0),
            beneficiary: Some(JobId(9)),
            rule,
            loss: 0,
            considered: Alternatives::default(),
        };
        let preemptions = vec![receipt(1, VictimRule::Relocation), receipt(2, VictimRule::Envy)];
        let schedule = CycleSchedule { preemptions, ..CycleSchedule::default() };
        let mut quiescence = QuiescenceTracker::default();
        while quiescence.quiet_cycles < MEMORY_AFTER {
            quiescence.remember(&schedule, &[]);
            assert_eq!(quiescence.freeze().takings, []);
            quiescence.begin_cycle();
        }
        quiescence.remember(&schedule, &[]);
        assert_eq!(quiescence.freeze().takings, [Taking { from: JobId(2), by: JobId(9) }]);
    }

    /// 500 items left, four at a time.
    #[test]
    fn demand_is_what_a_cap_follows_from_and_progress_is_not() {
        let known = JobFacts {
            remaining: 500,
            limit: ProcessLimit::Unlimited,
            is_running: true,
            time_per_item: Some(60_000),
            is_completing: false,
        };
        let timed = |time_per_item| JobFacts { time_per_item, ..known };
        let left = |remaining| JobFacts { remaining, ..known };
        for (what, before, now, is_change) in [
            ("nothing", known, known, false),
            ("a pace becomes known", timed(None), known, true),
            ("zero is not known", timed(Some(0)), known, true),
            ("neither is known", timed(None), timed(Some(0)), false),
            ("a pace is forgotten", known, timed(None), true),
            ("a pace drifts", known, timed(Some(61_000)), false),
            ("an item is done", known, left(499), false),
            ("a process can be spared", known, left(496), true),
            ("an item is added", left(499), known, true),
            ("it initializes", JobFacts { is_running: false, ..known }, known, true),
            ("it ends", known, JobFacts { is_completing: true, ..known }, true),
            (
                "it has a maximum",
                known,
                JobFacts { limit: ProcessLimit::AtMost(500), ..known },
                true,
            ),
            (
                "a pace becomes known as an item is done",
                timed(None),
                JobFacts { remaining: 499, ..known },
                true,
            ),
        ] {
            assert_eq!(changes_demand(&before, &now, 4), is_change, "{what}");
        }
    }
}
