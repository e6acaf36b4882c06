//! A campaign as the book tracks it: counts, queues and tasks that were touched and are not final.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bag::{Cursor, TaskQueue, UNTOUCHED};
use super::faults::{Avoidance, NodeStreak};
use super::forward::is_batch;
use super::lengths::Lengths;
use super::measure::Measure;
use super::rows::{CampaignRow, CampaignState, Ending, SlotRow, TaskRow, TaskState, WorkRow};
use crate::grid::by_affinity;
use crate::model::Name;
use crate::orchestrator::spec::CampaignSpec;

/// Slots in a row that may fail to prepare before the campaign gets no more.
pub const INIT_FAILS: u64 = 3;

/// Sizes of memory that a campaign may have.
pub const MAX_STEPS: u64 = 17;

/// Number of the step of the early tasks, which have a class of their own. It is behind all sizes of
/// memory.
pub const EARLY_STEP: u64 = MAX_STEPS;

/// A campaign that is not final.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Facts that survive. The counts of the cursor are kept in `cursor`.
    pub facts: CampaignRow,
    /// Specification of the campaign.
    pub spec: Arc<CampaignSpec>,
    /// Untouched tasks.
    pub cursor: Cursor,
    /// Memory steps. The first step always exists.
    pub steps: Vec<Step>,
    /// Step of the early tasks. `None`: all tasks have the same class.
    pub early: Option<Step>,
    /// Tasks that were touched and are not final.
    pub tasks: BTreeMap<u64, TaskRow>,
    /// Number of slots that are not gone.
    pub slots: u64,
    /// Times of tasks that are done, since the start of the orchestrator.
    pub lengths: Lengths,
    /// Tasks on each node, since the start of the orchestrator.
    pub records: BTreeMap<Name, NodeStreak>,
    /// Nodes that the campaign avoids.
    pub avoided: BTreeMap<Name, Avoidance>,
    /// Number of late tasks that the resource manager was last told of.
    pub late: u64,
    /// Mean time of a task, as last published.
    pub measure: Measure,
    /// Sentence with which the resource manager refuses the campaign's work, as last noted.
    pub refused: Option<String>,
    /// Shares of the slots of a gang that are not gone, by rank.
    pub ranks: BTreeMap<u64, u64>,
    /// Shares that rank 0 of a malleable gang was last told of, in the order of their ranks. `None`:
    /// the program does not run, or the book does not know since its restart.
    pub told: Option<Vec<u64>>,
    /// True if tasks may leave for other clusters, as far as their campaign allows it.
    pub routes: bool,
}

/// A memory step of a campaign.
#[derive(Clone, Debug)]
pub struct Step {
    /// Work of the step, as the resource manager knows it.
    pub work: WorkRow,
    /// Tasks that are queued again.
    pub queue: TaskQueue,
    /// Number of tasks that are assigned or running in slots.
    pub in_slots: u64,
    /// Number of tasks that another cluster has. The resource manager is not told of them.
    pub away: u64,
    /// Number of slots that are not gone.
    pub slots: u64,
}

impl Step {
    /// The step of a work, without tasks and slots.
    fn of(work: WorkRow) -> Step {
        Step { work, queue: TaskQueue::default(), in_slots: 0, away: 0, slots: 0 }
    }

    /// The count that a task in this share is in.
    fn count_of(&mut self, share: Option<u64>) -> &mut u64 {
        if share.is_some_and(is_batch) { &mut self.away } else { &mut self.in_slots }
    }
}

impl Campaign {
    /// The campaign of a row, with no task touched. `routes`: there are other clusters.
    pub fn new(facts: CampaignRow, spec: Arc<CampaignSpec>, routes: bool) -> Campaign {
        let cursor = Cursor {
            range: spec.tasks,
            taken: facts.taken,
            limit: facts.limit,
            skipped: std::collections::BTreeSet::new(),
        };
        let mut campaign = Campaign {
            facts,
            spec,
            cursor,
            steps: Vec::new(),
            early: None,
            tasks: BTreeMap::new(),
            slots: 0,
            lengths: Lengths::default(),
            records: BTreeMap::new(),
            avoided: BTreeMap::new(),
            late: 0,
            measure: Measure::default(),
            refused: None,
            ranks: BTreeMap::new(),
            told: None,
            routes,
        };
        campaign.step_mut(0);
        if campaign.spec.first.is_some() {
            let WorkRow { campaign: id, memory_mb, .. } = campaign.steps[0].work;
            let work = WorkRow { campaign: id, step: EARLY_STEP, memory_mb, number: None };
            campaign.early = Some(Step::of(work));
        }
        campaign
    }

    /// All steps: the step of the early tasks, then the memory steps.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.early.iter().chain(&self.steps)
    }

    /// A step; `None` if the campaign does not have it.
    pub fn step(&self, step: u64) -> Option<&Step> {
        self.all_steps().find(|known| known.work.step == step)
    }

    /// Returns the row to store.
    pub fn row(&self) -> CampaignRow {
        CampaignRow { taken: self.cursor.taken, limit: self.cursor.limit, ..self.facts.clone() }
    }

    /// Returns a step, and creates missing memory steps.
    pub fn step_mut(&mut self, step: u64) -> &mut Step {
        if step == EARLY_STEP && self.early.is_some() {
            return self.early.get_or_insert_with(|| Step::of(WorkRow::default()));
        }
        let last = usize::try_from(MAX_STEPS - 1).unwrap_or(0);
        let at = usize::try_from(step).unwrap_or(usize::MAX).min(last);
        while self.steps.len() <= at {
            let step = crate::model::count(&self.steps);
            let base = self.spec.memory_mb;
            let memory_mb = self.spec.memory_retry.map_or(base, |retry| retry.memory(base, step));
            let work = WorkRow { campaign: self.facts.id, step, memory_mb, number: None };
            self.steps.push(Step::of(work));
        }
        &mut self.steps[at]
    }

    /// Returns the memory step of that size, and creates it if no step has that size. A new step
    /// comes after the steps of `memory_retry`, so a retry never uses it. Returns the largest step
    /// if the campaign can have no further step.
    pub fn step_of(&mut self, memory_mb: u64) -> u64 {
        let known = self.steps.iter().find(|step| step.work.memory_mb == memory_mb);
        if let Some(known) = known {
            return known.work.step;
        }
        let behind = self.spec.memory_retry.map_or(1, |retry| retry.times + 1);
        let step = crate::model::count(&self.steps).max(behind);
        if MAX_STEPS <= step {
            let largest = self.steps.iter().max_by_key(|step| step.work.memory_mb);
            return largest.map_or(0, |step| step.work.step);
        }
        let work = &mut self.step_mut(step).work;
        work.memory_mb = memory_mb;
        step
    }

    /// Memory of a slot of a step, in MiB.
    pub fn memory_of(&self, step: u64) -> u64 {
        self.step(step).map_or(self.spec.memory_mb, |step| step.work.memory_mb)
    }

    /// Memory of a slot, in MiB. A share of an exclusive gang has more than the gang asked for.
    pub fn memory_of_slot(&self, row: &SlotRow) -> u64 {
        row.memory_mb.unwrap_or_else(|| self.memory_of(row.step))
    }

    /// Untouched tasks among the early tasks.
    fn early_left(&self) -> u64 {
        self.spec.first.as_ref().map_or(0, |first| self.cursor.left_below(first.count))
    }

    /// Untouched tasks that a slot of a step may begin. Slots of step 0 begin early tasks, too.
    fn untouched(&self, step: u64) -> u64 {
        match step {
            0 => self.cursor.left(),
            EARLY_STEP => self.early_left(),
            _ => 0,
        }
    }

    /// Tasks of a step that are not final and not on another cluster.
    pub fn remaining(&self, step: &Step) -> u64 {
        if self.facts.hook_cluster.is_some() {
            // It leaves for its cluster as soon as it can.
            return step.in_slots;
        }
        let early = if step.work.step == 0 { self.early_left() } else { 0 };
        self.untouched(step.work.step) - early + step.queue.len() + step.in_slots
    }

    /// Tasks of a step that wait for a slot.
    pub fn queued(&self, step: u64) -> u64 {
        self.step(step).map_or(0, |step| step.queue.len()) + self.untouched(step)
    }

    /// True if a task of the campaign waits for a slot.
    pub fn has_queued(&self) -> bool {
        0 < self.cursor.left() || self.all_steps().any(|step| 0 < step.queue.len())
    }

    /// True if tasks may begin here.
    pub fn may_begin(&self) -> bool {
        self.may_begin_away() && !self.is_unprepared() && self.facts.hook_cluster.is_none()
    }

    /// True if tasks may begin on a cluster that is ready for them.
    pub fn may_begin_away(&self) -> bool {
        self.facts.ending.is_none()
            && matches!(self.facts.state, CampaignState::Running | CampaignState::Finishing)
    }

    /// Takes the next task of a step out of the queue. The caller assigns it.
    pub fn take(&mut self, step: u64) -> Option<u64> {
        let has_untouched = 0 < self.untouched(step);
        let over = has_untouched.then_some(UNTOUCHED);
        let again = self.step_mut(step).queue.take_over(over);
        again.or_else(|| if has_untouched { self.cursor.take() } else { None })
    }

    /// Takes at most `most` tasks for another cluster, by their `affinities` to it. Returns them by
    /// number. An untouched task has no affinity below 0.
    pub fn take_for(&mut self, step: u64, most: u64, affinities: &BTreeMap<u64, i64>) -> Vec<u64> {
        let again = by_affinity(affinities, self.step_mut(step).queue.entries());
        let (first, last): (Vec<_>, Vec<_>) =
            again.into_iter().partition(|(priority, _)| UNTOUCHED < *priority);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut taken = Vec::new();
        self.take_again(step, first, most, &mut taken);
        while taken.len() < most && 0 < self.untouched(step) {
            let Some(task) = self.cursor.take() else { break };
            taken.push(task);
        }
        self.take_again(step, last, most, &mut taken);
        taken.sort_unstable();
        taken
    }

    fn take_again(&mut self, step: u64, order: Vec<(u8, u64)>, most: usize, taken: &mut Vec<u64>) {
        for (priority, task) in order.into_iter().take(most.saturating_sub(taken.len())) {
            self.step_mut(step).queue.remove(priority, task);
            taken.push(task);
        }
    }

    /// Puts a task into the place of its state: a queue, the tasks in slots, or the counts.
    pub fn place(&mut self, row: TaskRow) {
        match row.state {
            TaskState::Queued => {
                let (priority, task) = (row.priority, row.task);
                self.step_mut(row.step).queue.put(priority, task);
            }
            TaskState::Assigned | TaskState::Running => {
                let step = self.step_mut(row.step);
                *step.count_of(row.share) += 1;
            }
            TaskState::Done => self.facts.done += 1,
            TaskState::Failed => self.facts.failed += 1,
            TaskState::Cancelled => self.facts.cancelled += 1,
            TaskState::Dropped => self.facts.dropped += 1,
        }
        if !row.state.is_final() {
            self.tasks.insert(row.task, row);
        }
    }

    /// Takes a task out of the place that [`Campaign::place`] chose.
    pub fn displace(&mut self, task: u64) -> Option<TaskRow> {
        let row = self.tasks.remove(&task)?;
        let step = self.step_mut(row.step);
        match row.state {
            TaskState::Queued => step.queue.remove(row.priority, row.task),
            TaskState::Assigned | TaskState::Running => *step.count_of(row.share) -= 1,
            TaskState::Done | TaskState::Failed | TaskState::Cancelled | TaskState::Dropped => {}
        }
        Some(row)
    }

    /// Returns a new row for an untouched task that the cursor has passed.
    pub fn fresh(&self, task: u64) -> TaskRow {
        TaskRow::untouched(self.facts.id, task)
    }

    /// Begins to end the campaign: no task begins any more. Untouched tasks are cancelled at once.
    pub fn end(&mut self, why: Ending) {
        self.facts.cancelled += self.cursor.left();
        self.cursor.limit = self.cursor.taken;
        self.facts.ending = Some(why);
        self.facts.state = CampaignState::Cancelling;
    }

    /// True if the campaign gets no further slot.
    pub fn is_frozen(&self) -> bool {
        matches!(self.facts.state, CampaignState::Suspended | CampaignState::Waiting)
            || INIT_FAILS <= self.facts.init_fails
            || self.is_unprepared()
            || self.facts.hook_cluster.is_some()
    }

    /// True if more tasks failed than `max_fails` allows.
    pub fn has_failed_too_often(&self) -> bool {
        self.facts.ending.is_none()
            && self.spec.max_fails.is_some_and(|most| most < self.facts.failed)
    }

    /// Returns the final state; `None` while a task or a slot of the campaign is left.
    pub fn final_state(&self) -> Option<CampaignState> {
        let has_epilogue = self.facts.epilogue.is_some() || self.has_epilogue_left();
        let waits = has_epilogue && self.facts.ending.is_none();
        if waits || !self.tasks.is_empty() || 0 < self.cursor.left() || 0 < self.slots {
            return None;
        }
        Some(match self.facts.ending {
            Some(Ending::Cancelled) => CampaignState::Cancelled,
            Some(Ending::MaxFails) => CampaignState::Failed,
            None if 0 < self.facts.failed => CampaignState::Failed,
            None if 0 < self.facts.cancelled && self.facts.done == 0 => CampaignState::Cancelled,
            None => CampaignState::Done,
        })
    }
}
