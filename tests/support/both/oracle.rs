//! Oracle of the orchestrator's publications. It knows only submissions, schedules, answers to
//! nodes and acts of their slots.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apportion::model::Name;
use apportion::orchestrator::book::{INIT_FAILS, JobShares, LOST_LIMIT};
use apportion::orchestrator::spec::{CampaignSpec, CampaignType};
use apportion::orchestrator::wire::{
    AttemptId, Exchange, Reason, SlotEnd, SlotOrder, SlotReport, SlotStage, TaskResult,
};

use super::slots::Run;

/// Most further attempts that a task may ask for.
const MAX_RESUBMITS: u64 = 10;

/// End of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Done,
    Failed,
    Cancelled,
    Dropped,
}

/// A task, as its attempts left it.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    pub end: Option<End>,
    pub step: u64,
    tries: u64,
    losses: u64,
    resubmits: u64,
    is_to_end: bool,
}

/// A campaign that was submitted.
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
#[derive(Debug)]
pub struct Bag {
    pub owner: &'static str,
    pub spec: Arc<CampaignSpec>,
    pub submitted_ms: u64,
    pub tasks: BTreeMap<u64, Fate>,
    is_suspended: bool,
    is_ending: bool,
    init_fails: u64,
    pub has_begun: bool,
    ended: u64,
    ended_ms: u64,
    told_mean: u64,
    is_over: bool,
}

/// A share that a schedule named.
#[derive(Debug)]
pub struct Share {
    pub campaign: u64,
    pub step: u64,
    pub node: Name,
    /// Since when its slot is on order.
    pub ordered: u64,
    pub prepared_ms: Option<u64>,
    pub stage: Option<SlotStage>,
    boot: Option<String>,
    last_number: u64,
    /// Attempts that were given to its node and have no result.
    open: BTreeSet<AttemptId>,
    /// Open attempts that run, by the last report.
    pub running: BTreeMap<AttemptId, Run>,
    /// Time of the orchestrator's restart, while it has no report of the slot since.
    pub guessed_since: Option<u64>,
    /// True if a schedule terminated the share.
    pub has_to_go: bool,
    pub is_gone: bool,
}

/// Expected publication of a memory step.
#[derive(Debug, PartialEq, Eq)]
pub struct Expected {
    pub remaining: u64,
    pub has_begun: bool,
    pub is_frozen: bool,
    pub is_completing: bool,
    pub max: Option<u64>,
    pub mean: u64,
}

/// The memory of all that.
#[derive(Debug, Default)]
pub struct Oracle {
    pub bags: BTreeMap<u64, Bag>,
    pub shares: BTreeMap<u64, Share>,
}

impl Bag {
    fn finals(&self, end: End) -> u64 {
        count(self.tasks.values().filter(|task| task.end == Some(end)))
    }

    /// Tasks done, failed, cancelled and dropped.
    pub fn counts(&self) -> [u64; 4] {
        [End::Done, End::Failed, End::Cancelled, End::Dropped].map(|end| self.finals(end))
    }

    /// Tasks that are not final.
    pub fn live(&self) -> u64 {
        count(self.tasks.values().filter(|task| task.end.is_none()))
    }

    /// Memory of the slots of a step.
    pub fn memory_of(&self, step: u64) -> u64 {
        let base = self.spec.memory_mb;
        self.spec.memory_retry.map_or(base, |retry| retry.memory(base, step))
    }

    fn enter(&mut self, result: &TaskResult) {
        let is_ending = self.is_ending;
        let Some(task) = self.tasks.get_mut(&result.task.task) else { return };
        if matches!(result.why, Reason::Done | Reason::Exit) {
            self.ended += 1;
            self.ended_ms += result.ms;
        }
        task.enter(result, &self.spec, is_ending);
    }
}

impl Fate {
    /// The table of states, in the words of the design.
    fn enter(&mut self, result: &TaskResult, spec: &CampaignSpec, is_ending: bool) {
        assert_eq!(self.end, None, "a task that is final has another result: {result:?}");
        if result.why == Reason::Done {
            self.end = Some(End::Done);
            return;
        }
        if std::mem::take(&mut self.is_to_end) || is_ending {
            self.end = Some(End::Cancelled);
            return;
        }
        let has_failed = match (result.why, result.exit) {
            (Reason::Exit, Some(66 | 67)) => {
                self.resubmits += 1;
                MAX_RESUBMITS < self.resubmits
            }
            (Reason::Exit | Reason::Signal | Reason::TimeLimit, _) => {
                self.tries += 1;
                spec.retries < self.tries
            }
            (Reason::Memory, _) => {
                let has_more = spec.memory_retry.is_some_and(|retry| self.step < retry.times);
                (self.tries, self.step) = (self.tries + 1, self.step + u64::from(has_more));
                !has_more
            }
            (Reason::Lost, _) => {
                self.losses += 1;
                LOST_LIMIT <= self.losses
            }
            // T11: the end of a preempted attempt tells nothing about the task.
            (Reason::Preempted | Reason::VariedOff | Reason::Returned | Reason::Cancelled, _) => {
                false
            }
            other => panic!("no slot here ends a task so: {other:?}"),
        };
        if has_failed {
            self.end = Some(End::Failed);
        }
    }
}

impl Oracle {
    pub fn submitted(
        &mut self,
        id: u64,
        owner: &'static str,
        spec: Arc<CampaignSpec>,
        submitted_ms: u64,
    ) {
        let numbers = (0..spec.tasks.count).filter_map(|at| spec.tasks.at(at));
        let is_test = spec.kind == CampaignType::Test;
        let fate = |(at, task)| {
            let end = (is_test && 0 < at).then_some(End::Dropped);
            (task, Fate { end, ..Fate::default() })
        };
        let tasks = numbers.enumerate().map(fate).collect();
        let bag = Bag {
            owner,
            spec,
            submitted_ms,
            tasks,
            is_suspended: false,
            is_ending: false,
            init_fails: 0,
            has_begun: false,
            ended: 0,
            ended_ms: 0,
            told_mean: 0,
            is_over: false,
        };
        self.bags.insert(id, bag);
    }

    pub fn suspended(&mut self, id: u64, is_suspended: bool) {
        let Some(bag) = self.bags.get_mut(&id).filter(|bag| !bag.is_over && !bag.is_ending) else {
            return;
        };
        bag.is_suspended = is_suspended;
        if !is_suspended {
            bag.init_fails = 0;
        }
    }

    pub fn cancelled(&mut self, id: u64) {
        let in_slots = self.in_slots(id);
        let Some(bag) = self.bags.get_mut(&id).filter(|bag| !bag.is_over && !bag.is_ending) else {
            return;
        };
        (bag.is_ending, bag.is_suspended) = (true, false);
        let queued = bag.tasks.iter_mut().filter(|(task, _)| !in_slots.contains(task));
        for (_, task) in queued {
            task.end.get_or_insert(End::Cancelled);
        }
    }

    pub fn task_cancelled(&mut self, id: u64, task: u64) {
        let is_in_slot = self.in_slots(id).contains(&task);
        let Some(bag) = self.bags.get_mut(&id).filter(|bag| !bag.is_over) else { return };
        let Some(fate) = bag.tasks.get_mut(&task).filter(|fate| fate.end.is_none()) else { return };
        if is_in_slot {
            fate.is_to_end = true;
        } else {
            fate.end = Some(End::Cancelled);
        }
    }

    /// Tasks were added to a campaign.
    pub fn extended(&mut self, id: u64, spec: Arc<CampaignSpec>) {
        let Some(bag) = self.bags.get_mut(&id) else { return };
        let numbers = (0..spec.tasks.count).filter_map(|at| spec.tasks.at(at));
        for task in numbers {
            bag.tasks.entry(task).or_default();
        }
        bag.spec = spec;
    }

    /// The orchestrator started again: it guesses the age of running tasks until reports arrive.
    pub fn restarted(&mut self, now: u64) {
        for bag in self.bags.values_mut() {
            bag.told_mean = 0;
        }
        for share in self.shares.values_mut().filter(|share| !share.is_gone) {
            (share.ordered, share.prepared_ms) = (now, None);
            share.guessed_since = Some(now);
        }
    }

    /// A schedule was read. `works` says which campaign and step each work is of.
    pub fn scheduled(&mut self, jobs: &[JobShares], works: &BTreeMap<u64, (u64, u64)>, now: u64) {
        for job in jobs {
            let held = job.shares.iter().map(|held| (held.share, &held.node, false));
            let removed = job.removed.iter().map(|removed| (removed.share, &removed.node, true));
            for (share, node, has_to_go) in held.chain(removed) {
                if let Some(known) = self.shares.get_mut(&share) {
                    known.has_to_go |= has_to_go;
                } else if let Some((campaign, step)) = works.get(&job.work).copied() {
                    let node = node.clone();
                    self.shares.insert(share, Share::new(campaign, step, node, has_to_go, now));
                }
            }
        }
    }

    /// An answer left for a node.
    pub fn answered(&mut self, orders: &[SlotOrder]) {
        for order in orders {
            let Some(share) = self.shares.get_mut(&order.share) else { continue };
            share.open.extend(order.tasks.iter().map(|new| new.task));
        }
    }

    /// A report of a node arrived, and is stored.
    pub fn reported(&mut self, node: &Name, report: &Exchange, now: u64) {
        for slot in &report.slots {
            self.slot_reported(slot, &report.boot, now);
        }
        let of_node = self.shares.iter().filter(|(_, share)| share.node == *node && !share.is_gone);
        let is_other = |share: &Share| share.boot.as_ref().is_some_and(|boot| *boot != report.boot);
        let lost: Vec<u64> =
            of_node.filter(|(_, share)| is_other(share)).map(|(number, _)| *number).collect();
        for share in lost {
            self.gone(share);
        }
    }

    fn slot_reported(&mut self, report: &SlotReport, boot: &str, now: u64) {
        let Some(share) = self.shares.get_mut(&report.share).filter(|share| !share.is_gone) else {
            return;
        };
        let Some(bag) = self.bags.get_mut(&share.campaign) else { return };
        share.boot.get_or_insert_with(|| boot.to_owned());
        (share.stage, share.prepared_ms) = (Some(report.state), report.prepared_ms);
        share.guessed_since = None;
        let news: Vec<&TaskResult> =
            report.results.iter().filter(|result| share.last_number < result.number).collect();
        let has_run = news.iter().any(|result| result.why != Reason::Returned);
        let runs = report.running.iter().any(|one| share.open.contains(&one.task));
        if has_run
            || runs && report.running.iter().any(|one| !share.running.contains_key(&one.task))
        {
            (bag.has_begun, bag.init_fails) = (true, 0);
        }
        share.running = report
            .running
            .iter()
            .filter(|one| share.open.contains(&one.task))
            .map(|one| (one.task, Run { begun: now - one.ms, saved: Some(now - one.unsaved_ms) }))
            .collect();
        for result in news {
            share.last_number = result.number;
            share.running.remove(&result.task);
            if share.open.remove(&result.task) {
                bag.enter(result);
            }
        }
        if report.state == SlotStage::Gone {
            bag.init_fails += u64::from(report.end == Some(SlotEnd::NotStarted));
            let begun: BTreeSet<AttemptId> = share.running.keys().copied().collect();
            let (lost, left) = share.open.iter().partition(|id| begun.contains(id));
            share.open = lost;
            let left: BTreeSet<AttemptId> = left;
            for id in left {
                bag.enter(&ended(id, Reason::Returned));
            }
            self.gone(report.share);
        }
    }

    /// Ends a share in which nothing can run any more: its open attempts are lost.
    pub fn gone(&mut self, number: u64) {
        let Some(share) = self.shares.get_mut(&number).filter(|share| !share.is_gone) else {
            return;
        };
        share.is_gone = true;
        share.running.clear();
        let open = std::mem::take(&mut share.open);
        let Some(bag) = self.bags.get_mut(&share.campaign) else { return };
        for id in open {
            bag.enter(&ended(id, Reason::Lost));
        }
    }

    /// Ends campaigns of which too many tasks failed, and closes campaigns without remaining tasks.
    pub fn settle(&mut self) {
        let is_failed =
            |bag: &Bag| bag.spec.max_fails.is_some_and(|most| most < bag.finals(End::Failed));
        let failed: Vec<u64> =
            self.bags.iter().filter(|(_, bag)| is_failed(bag)).map(|(id, _)| *id).collect();
        for id in failed {
            self.cancelled(id);
        }
        for (id, bag) in &mut self.bags {
            let has_slot =
                self.shares.values().any(|share| share.campaign == *id && !share.is_gone);
            bag.is_over |= bag.live() == 0 && !has_slot;
        }
    }

    /// True if a campaign has ended.
    pub fn is_over(&self, id: u64) -> bool {
        self.bags[&id].is_over
    }

    /// The memory steps that the resource manager should know, by submission and memory.
    pub fn expected(&self, now: u64) -> BTreeMap<(u64, u64), ((u64, u64), Expected)> {
        let mut all = BTreeMap::new();
        for (id, bag) in self.bags.iter().filter(|(_, bag)| !bag.is_over) {
            let mean = self.mean(*id, now);
            for step in 0..=bag.spec.memory_retry.map_or(0, |retry| retry.times) {
                let live =
                    bag.tasks.values().filter(|task| task.end.is_none() && task.step == step);
                let remaining = count(live);
                if remaining == 0 && self.live_shares(*id, step).is_empty() {
                    continue;
                }
                let expected = Expected {
                    remaining,
                    has_begun: bag.has_begun,
                    is_frozen: bag.is_suspended || INIT_FAILS <= bag.init_fails,
                    is_completing: bag.is_ending || remaining == 0,
                    max: if bag.spec.keep { Some(1) } else { bag.spec.max },
                    mean,
                };
                all.insert((bag.submitted_ms, bag.memory_of(step)), ((*id, step), expected));
            }
        }
        all
    }

    /// The mean time was published to the resource manager.
    pub fn published(&mut self, now: u64) {
        let means: Vec<(u64, u64)> =
            self.bags.keys().map(|id| (*id, self.mean(*id, now))).collect();
        for (id, mean) in means {
            if let Some(bag) = self.bags.get_mut(&id).filter(|bag| !bag.is_over) {
                bag.told_mean = mean;
            }
        }
    }

    /// Shares of a step that are not gone.
    pub fn live_shares(&self, campaign: u64, step: u64) -> BTreeSet<u64> {
        let of_step =
            |share: &Share| (share.campaign, share.step) == (campaign, step) && !share.is_gone;
        self.shares.iter().filter(|(_, share)| of_step(share)).map(|(number, _)| *number).collect()
    }

    /// The mean time of a task to be told: (n·b + f·a) / (n + f), of which f have ended in a mean time of
    /// a, and n run that take longer, for b so far. The mean that was told stands until it is off by a tenth.
    fn mean(&self, id: u64, now: u64) -> u64 {
        let bag = &self.bags[&id];
        let Some(mean) = bag.ended_ms.checked_div(bag.ended) else { return bag.told_mean };
        let live = self.shares.values().filter(|share| share.campaign == id && !share.is_gone);
        let runs = live.flat_map(|share| {
            let since = |run: &Run| now - share.guessed_since.unwrap_or(run.begun);
            share.running.values().map(since)
        });
        let long: Vec<u64> = runs.filter(|ms| mean < *ms).collect();
        let total = bag.ended_ms + long.iter().sum::<u64>();
        let mean = total.checked_div(bag.ended + count(long.iter())).unwrap().max(1);
        let off = mean.abs_diff(bag.told_mean);
        if bag.told_mean < off * 10 { mean } else { bag.told_mean }
    }

    /// Tasks of a campaign with an attempt in a slot.
    fn in_slots(&self, campaign: u64) -> BTreeSet<u64> {
        let shares =
            self.shares.values().filter(|share| share.campaign == campaign && !share.is_gone);
        shares.flat_map(|share| share.open.iter().map(|id| id.task)).collect()
    }
}

impl Share {
    fn new(campaign: u64, step: u64, node: Name, has_to_go: bool, now: u64) -> Share {
        Share {
            campaign,
            step,
            node,
            ordered: now,
            prepared_ms: None,
            stage: None,
            boot: None,
            last_number: 0,
            open: BTreeSet::new(),
            running: BTreeMap::new(),
            guessed_since: None,
            has_to_go,
            is_gone: false,
        }
    }

    /// Work of it that would be lost, in milliseconds.
    pub fn investment(&self, now: u64) -> u64 {
        self.running.values().map(|run| now - run.unsaved_since()).sum()
    }
}

/// The end of an attempt that no slot reported.
fn ended(task: AttemptId, why: Reason) -> TaskResult {
    TaskResult {
        number: 0,
        task,
        why,
        exit: None,
        signal: None,
        ms: 0,
        cpu_ms: 0,
        peak_mb: 0,
        rss_mb: 0,
        out: [0, 0],
        tail: String::new(),
        error: String::new(),
        has_saved: false,
    }
}

pub fn count<T>(all: impl Iterator<Item = T>) -> u64 {
    u64::try_from(all.count()).unwrap()
}
