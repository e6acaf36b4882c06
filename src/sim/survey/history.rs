//! Processes that were taken, with time and benefit, read off every cycle of a play.

use std::collections::BTreeMap;

use crate::model::CapRules;
use crate::sim::count;
use crate::sim::recorded::scenario::Scenario;
use crate::sim::recorded::{PlayedCycle, PlayedDocument, PlayedJob};

/// Cycles without an event after which no process should move any more.
pub(super) const QUIET_AFTER: u64 = 20;
/// Cycles after the last event from which on a move counts as a move of an idle cluster.
const REST_AFTER: u64 = 3;

/// The course of a play, apart from its end. Numbers are processes, but for the moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PlayHistory {
    /// Preempted or evicted.
    pub preempted: u64,
    /// Preempted processes of jobs that are promised as many in the same cycle.
    pub passed: u64,
    /// Of these, of jobs that were moved: the promises are for that.
    pub moved: u64,
    /// Preempted or evicted when nothing had happened for 20 cycles.
    pub late: u64,
    /// Likewise, for jobs that had something, and where more was lost than the class allows: waiting had
    /// to pay for them.
    pub late_paid: u64,
    /// Cycle and number of jobs that lost processes, were promised some, and did not get them.
    pub moved_and_less: Vec<(u64, u64)>,
}

impl PlayHistory {
    pub fn new(scenario: &Scenario, played: &PlayedDocument) -> PlayHistory {
        let last = scenario.cycles.iter().rposition(|cycle| !cycle.events.is_empty());
        let last = last.map_or(0, count);
        let mut history = PlayHistory::default();
        for (at, cycle) in played.cycles.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| &played.cycles[at]);
            history.enter(cycle);
            if last + QUIET_AFTER < cycle.cycle {
                history.enter_late(before, cycle);
            }
            let after = played.cycles.get(at + 1).filter(|_| last + REST_AFTER <= cycle.cycle);
            if let (Some(before), Some(after)) = (before, after) {
                history.enter_moves(before, cycle, after);
            }
        }
        history
    }

    fn enter(&mut self, cycle: &PlayedCycle) {
        for job in &cycle.jobs {
            let lost = count(job.shrunken.len());
            let passed = lost.min(promised(job));
            let moved = job.preempted.iter().filter(|taken| taken.rule == "relocation").count();
            self.preempted += lost;
            self.passed += passed;
            self.moved += passed.min(count(moved));
        }
    }

    fn enter_late(&mut self, before: Option<&PlayedCycle>, cycle: &PlayedCycle) {
        let lost: u64 = cycle.jobs.iter().map(|job| count(job.shrunken.len())).sum();
        // Number of processes taken for each job on each node, and the work lost with them.
        let mut plans: BTreeMap<(u64, &str), (u64, u64)> = BTreeMap::new();
        for taken in cycle.jobs.iter().flat_map(|job| &job.preempted) {
            let Some(taker) = taken.beneficiary else { continue };
            let (processes, loss) = plans.entry((taker, &taken.node)).or_default();
            *processes += 1;
            *loss += taken.loss;
        }
        let had_something = |taker: u64| {
            before.and_then(|before| line(before, taker)).is_some_and(|line| 0 < line.held)
        };
        let paid = plans.into_iter().filter(|((taker, _), (_, loss))| {
            CapRules::LOSS_LIMIT < *loss && had_something(*taker)
        });
        let paid: u64 = paid.map(|(_, (processes, _))| processes).sum();
        self.late += lost - paid.min(lost);
        self.late_paid += paid.min(lost);
    }

    fn enter_moves(&mut self, before: &PlayedCycle, cycle: &PlayedCycle, after: &PlayedCycle) {
        for job in cycle.jobs.iter().filter(|job| !job.shrunken.is_empty() && 0 < promised(job)) {
            let (Some(was), Some(then)) = (line(before, job.id), line(after, job.id)) else {
                continue;
            };
            let kept = then.held + count(then.shrunken.len()) + promised(then);
            if then.held < was.held && kept < job.held + promised(job) {
                self.moved_and_less.push((cycle.cycle, job.id));
            }
        }
    }
}

fn line(cycle: &PlayedCycle, job: u64) -> Option<&PlayedJob> {
    cycle.jobs.iter().find(|line| line.id == job)
}

/// The processes that `job` says space was made for.
fn promised(job: &PlayedJob) -> u64 {
    let reason = job.reason.as_deref().unwrap_or_default();
    let number = reason.strip_prefix("room for ").and_then(|rest| rest.split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}
