//! The book of the orchestrator: campaigns, tasks and slots, as a function of the events.
//!
//! Pure and synchronous: no clock, no I/O. [`Book::record`] takes an [`Event`] with the time and
//! returns [`Effect`]s: rows to store, nodes to answer, a publication to send. The orchestrator
//! stores effects in a single transaction before it answers or publishes. [`Book::restore`] reads
//! the rows back.
//!
//! Invariants:
//!
//! - An attempt belongs to one slot. Its number is never used again.
//! - A task has at most one attempt without a result, unless its campaign says that it may run twice.
//!   Exactly one result of it counts.
//! - A final task stays as it is. Later results of its attempts do not change it.
//! - The ranks of a gang are its tasks. They get attempts in one event, once the slots of all ranks
//!   are ready, and have the same state after their last attempt. No rank gets another attempt
//!   while an attempt of another rank is left.
//! - A slot is gone if its node said so, its node has another boot, its lease ran out, or no answer
//!   ever named it. Only then are its tasks queued again and its share published as gone.

pub mod adopt;
mod away;
mod bag;
mod campaigns;
mod copies;
mod ends;
mod exchange;
mod extend;
mod faults;
mod figures;
mod filed;
mod forward;
mod gangs;
mod hooks;
mod interruptions;
mod leases;
mod lengths;
mod measure;
mod modes;
mod node_slots;
mod nodes;
mod notes;
mod obey;
mod publish;
mod renewals;
mod requests;
mod resize;
mod rows;
mod slots;
#[cfg(test)]
mod tests;
mod tries;
mod twice;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use adopt::Found;
pub use away::{AwayHook, AwayState, cluster_at};
pub use bag::UNTOUCHED;
pub use campaigns::{Campaign, EARLY_STEP, INIT_FAILS, MAX_STEPS, Step};
pub use exchange::{ExchangeRefusal, NodeAnswer};
pub use extend::CannotExtend;
pub use figures::Figures;
pub use filed::LOCAL;
pub use forward::{
    Departure, FIRST_BATCH, ForwardableCampaign, ForwardedBatch, ForwardedTask, Forwarding,
    ForwardingView, is_batch,
};
pub use gangs::{GangState, RankState};
use interruptions::Interruptions;
use nodes::Node;
pub use nodes::NodeFacts;
pub use obey::{HeldShare, JobShares, TerminatingShare};
pub use publish::{PublishedSlot, PublishedWork};
pub use renewals::LeaseRow;
pub use requests::{NewCampaign, NewHook, Reopened};
pub use rows::{
    AttemptRow, CampaignRow, CampaignState, Ending, FaultRow, Note, SlotRow, SlotState, TaskRow,
    TaskState, WorkRow,
};
pub use slots::{Held, Slot};
pub use tries::LOST_LIMIT;

use crate::model::Name;
use crate::orchestrator::spec::CampaignSpec;
use crate::orchestrator::wire::{AttemptId, Exchange, GridEvent, Reason, TaskResult};

/// Settings of the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Lease of a slot after the last exchange, in milliseconds.
    pub lease_ms: u64,
    /// Time without a task after which a slot ends by itself, in milliseconds.
    pub linger_ms: u64,
    /// Clusters on which a campaign may run, the own included.
    pub clusters: u64,
}

impl Settings {
    /// True if tasks may leave for other clusters.
    pub fn routes(&self) -> bool {
        1 < self.clusters
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { lease_ms: 600_000, linger_ms: 2000, clusters: 1 }
    }
}

/// A point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds on a clock that never jumps. Decisions read this clock.
    pub ms: u64,
    /// Milliseconds since the epoch. Rows contain this time; no decision depends on it.
    pub wall_ms: u64,
}

/// An input of the book.
#[derive(Clone, Debug)]
pub enum Event {
    /// A campaign was submitted. Its number is [`Book::next_number`].
    Submitted(Box<NewCampaign>),
    /// The schedule of the resource manager, with the last publication that it takes into account.
    Scheduled(Option<u64>, Vec<JobShares>),
    /// An agent reported its node. Check it with [`Book::check`] first.
    Exchanged(Name, Box<Exchange>),
    /// The answer to the last report of a node leaves.
    Answered(Name),
    /// Time passed.
    Elapsed,
    /// Tasks were added to a campaign: its number and the count of tasks. Check the event with
    /// [`Book::check_extension`] first.
    Extended(u64, u64),
    /// No task of a campaign begins any more. Running tasks end by themselves, or are stopped
    /// `at_once`.
    Suspended {
        /// The campaign.
        campaign: u64,
        /// True if running tasks are stopped.
        at_once: bool,
    },
    /// A suspended or frozen campaign goes on.
    Resumed(u64),
    /// Campaigns that a new campaign waits for were done before.
    Met(u64, BTreeSet<u64>),
    /// The hours of a campaign begin (`None`), or end and begin again at that moment, in milliseconds
    /// since the epoch.
    Hours(u64, Option<u64>),
    /// A campaign is cancelled.
    Cancelled(u64),
    /// A task is cancelled.
    TaskCancelled(u64, u64),
    /// The running attempt of a task is sent a signal.
    TaskSignalled(u64, u64, u8),
    /// Final tasks of a campaign are queued again.
    Resubmitted(Box<Reopened>),
    /// An operator declares a node lost: no process of a slot runs there any more.
    NodeLost(Name),
    /// An event of a node or cluster is filed, with the number [`Book::next_filed`].
    Filed(Box<GridEvent>),
    /// An event of a node or cluster is closed, with the events that it caused.
    Closed(u64),
    /// Tasks left for another cluster, or came back from it.
    Forwarded(Forwarding),
    /// A prologue or epilogue on another cluster is submitted, with the number [`Book::next_number`]. Check it
    /// with [`Book::wants_hook`] first.
    Hooked(Box<AwayHook>),
    /// Another cluster does not answer, with the sentence of its event; or it answers again (`None`).
    ClusterHeard(Name, Option<String>),
    /// A new campaign has a lease: its sender forwarded it.
    Leased(LeaseRow),
    /// The sender renews the leases of campaigns, as of a moment in milliseconds since the boot.
    Renewed(Vec<u64>, u64),
    /// The resource manager accepted a publication that declares these shares gone.
    Published(u64, Vec<u64>),
    /// The resource manager refuses the named works, each with its sentence, and takes all other
    /// work.
    Refused(BTreeMap<u64, String>),
}

/// A consequence of an event that the caller carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Store the next free number.
    Next(u64),
    /// Store a campaign.
    Campaign(CampaignRow),
    /// Store the work of a memory step.
    Work(WorkRow),
    /// Store a task.
    Task(TaskRow),
    /// Store an attempt.
    Attempt(AttemptRow),
    /// Store a slot.
    Slot(SlotRow),
    /// Remove a slot.
    SlotForgotten(u64),
    /// Store a note.
    Note(Note),
    /// Store an event of a node.
    Fault(FaultRow),
    /// Store a lease.
    Lease(LeaseRow),
    /// Remove the lease of a campaign or batch.
    LeaseForgotten(u64),
    /// Store an event of a node or cluster.
    Filed(GridEvent),
    /// Mark the tasks of a campaign that were done on this node within so many milliseconds, or since that time
    /// in milliseconds since the epoch, as suspicious.
    Suspect(u64, Name, u64, u64),
    /// Answer the exchange of a node that waits.
    Wake(Name),
    /// Publish soon.
    Publish,
}

/// Rows that a restart reads back.
#[derive(Clone, Debug, Default)]
pub struct Saved {
    /// The next free number.
    pub next: u64,
    /// Campaigns that are not final, with their specifications.
    pub campaigns: Vec<(CampaignRow, Arc<CampaignSpec>)>,
    /// Works of the campaigns' memory steps.
    pub works: Vec<WorkRow>,
    /// Tasks of these campaigns that are not final, and final tasks beyond the cursor.
    pub tasks: Vec<TaskRow>,
    /// Attempts without a result.
    pub attempts: Vec<AttemptRow>,
    /// Slots.
    pub slots: Vec<SlotRow>,
    /// Open events of nodes.
    pub faults: Vec<FaultRow>,
    /// Leases of campaigns and batches.
    pub leases: Vec<LeaseRow>,
    /// Open events of nodes and clusters that were filed.
    pub filed: Vec<GridEvent>,
    /// The next number of such an event; 0 counts as 1.
    pub next_filed: u64,
    /// Time in ended attempts, in milliseconds, and their interruptions.
    pub interruptions: (u64, u64),
}

/// Rows that differ from the stored rows.
#[derive(Clone, Debug, Default)]
struct Dirty {
    next: bool,
    campaigns: BTreeSet<u64>,
    finished: Vec<CampaignRow>,
    works: BTreeMap<(u64, u64), WorkRow>,
    tasks: BTreeMap<(u64, u64), TaskRow>,
    attempts: BTreeMap<AttemptId, AttemptRow>,
    slots: BTreeSet<u64>,
    forgotten: BTreeSet<u64>,
    notes: Vec<Note>,
    faults: Vec<FaultRow>,
    /// `None`: the lease is forgotten.
    leases: BTreeMap<u64, Option<LeaseRow>>,
    filed: Vec<GridEvent>,
    suspects: BTreeMap<(u64, Name), (u64, u64)>,
    wake: BTreeSet<Name>,
    publish: bool,
    /// Campaigns whose queues or slots changed.
    settle: BTreeSet<u64>,
}

/// The book.
#[derive(Clone, Debug)]
pub struct Book {
    settings: Settings,
    next: u64,
    campaigns: BTreeMap<u64, Campaign>,
    slots: BTreeMap<u64, Slot>,
    by_node: BTreeMap<Name, BTreeSet<u64>>,
    nodes: BTreeMap<Name, Node>,
    /// Attempts without a result.
    open: BTreeMap<AttemptId, AttemptRow>,
    /// Slots that can hold more tasks and whose agents wait, by campaign.
    hungry: BTreeSet<(u64, u64)>,
    /// Leases of campaigns that were forwarded here.
    leases: renewals::Leases,
    /// Lease and open attempts of each batch that was forwarded with a lease.
    sent: BTreeMap<u64, (u64, u64)>,
    /// Open events of nodes and clusters, by number.
    filed: BTreeMap<u64, GridEvent>,
    next_filed: u64,
    interruptions: Interruptions,
    /// Time of the last check of the leases of slots, by the clock of the book.
    looked: u64,
    dirty: Dirty,
}

impl Book {
    /// An empty book.
    pub fn new(settings: Settings) -> Book {
        Book::restore(settings, Saved { next: 1, ..Saved::default() }, 0)
    }

    /// Restores the book from saved rows at time `now`. Leases begin anew, which errs on the safe
    /// side.
    pub fn restore(settings: Settings, saved: Saved, now: u64) -> Book {
        let campaigns = saved.campaigns.into_iter();
        let campaigns = campaigns
            .map(|(row, spec)| (row.id, Campaign::new(row, spec, settings.routes())))
            .collect();
        let mut book = Book {
            settings,
            next: saved.next.max(1),
            campaigns,
            slots: BTreeMap::new(),
            by_node: BTreeMap::new(),
            nodes: BTreeMap::new(),
            open: BTreeMap::new(),
            hungry: BTreeSet::new(),
            leases: renewals::Leases::default(),
            sent: BTreeMap::new(),
            filed: saved.filed.into_iter().map(|event| (event.id, event)).collect(),
            next_filed: saved.next_filed.max(1),
            interruptions: Interruptions::stored(saved.interruptions),
            looked: now,
            dirty: Dirty::default(),
        };
        for work in saved.works {
            if let Some(campaign) = book.campaigns.get_mut(&work.campaign) {
                campaign.step_mut(work.step).work = work;
            }
        }
        for row in saved.slots {
            let mut slot = Slot::new(row, now);
            // An answer may have left before the restart.
            slot.is_told = true;
            book.adopt(slot);
        }
        for row in saved.tasks {
            let Some(campaign) = book.campaigns.get_mut(&row.campaign) else { continue };
            campaign.cursor.skip(row.task);
            if row.state.is_final() {
                continue;
            }
            if let Some(slot) = row.share.and_then(|share| book.slots.get_mut(&share)) {
                let id = attempt_of(&row);
                let begun = (row.state == TaskState::Running).then_some(now);
                let held = Held { begun, unsaved_since: now, ..Held::default() };
                slot.attempts.insert(id, held);
            }
            campaign.place(row);
        }
        for row in &saved.attempts {
            // An overtaken attempt may still run in its slot.
            if let Some(slot) = book.slots.get_mut(&row.share).filter(|slot| !slot.is_gone()) {
                let held = Held { unsaved_since: now, ..Held::default() };
                slot.attempts.entry(row.id).or_insert(held);
            }
        }
        for row in saved.faults {
            if let Some(campaign) = book.campaigns.get_mut(&row.campaign) {
                campaign.avoid_again(row, now);
            }
        }
        for row in saved.leases {
            if is_batch(row.number) {
                let open = saved.attempts.iter().filter(|attempt| attempt.share == row.number);
                book.sent.insert(row.number, (row.lease_ms, crate::model::count(open)));
            } else if book.campaigns.contains_key(&row.number) {
                book.leases.put_again(row, now, settings.lease_ms);
            }
        }
        book.open = saved.attempts.into_iter().map(|row| (row.id, row)).collect();
        book.dirty.settle = book.campaigns.keys().copied().collect();
        book
    }

    /// The next number of a campaign or of work.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Campaigns that are not final, by number.
    pub fn campaigns(&self) -> &BTreeMap<u64, Campaign> {
        &self.campaigns
    }

    /// Returns the slots by share, including gone slots that are not forgotten.
    pub fn slots(&self) -> &BTreeMap<u64, Slot> {
        &self.slots
    }

    /// Records an event and returns what to do for it.
    pub fn record(&mut self, event: Event, now: Now) -> Vec<Effect> {
        self.end_leases(now);
        match event {
            Event::Submitted(new) => self.submit(*new, now),
            Event::Scheduled(publication, jobs) => self.obey(publication, jobs, now),
            Event::Exchanged(node, report) => self.hear(&node, *report, now),
            Event::Answered(node) => self.answered(&node, now.ms),
            Event::Elapsed => self.expire(now),
            Event::Extended(campaign, count) => self.extend(campaign, count),
            Event::Suspended { campaign, at_once } => self.suspend(campaign, at_once),
            Event::Resumed(campaign) => self.resume(campaign),
            Event::Met(campaign, done) => self.meet(campaign, &done),
            Event::Hours(campaign, opens_ms) => self.change_hours(campaign, opens_ms),
            Event::Cancelled(campaign) => self.cancel(campaign, Ending::Cancelled),
            Event::TaskCancelled(campaign, task) => self.cancel_task(campaign, task),
            Event::TaskSignalled(campaign, task, signal) => self.signal(campaign, task, signal),
            Event::Resubmitted(reopened) => self.reopen(*reopened),
            Event::NodeLost(node) => self.lose_node(&node, now),
            Event::Filed(event) => self.file(*event, now),
            Event::Closed(id) => self.close_filed(id, now),
            Event::Forwarded(change) => self.forward(change, now),
            Event::Hooked(hook) => self.enter_hook(*hook, now),
            Event::ClusterHeard(cluster, why) => self.hear_cluster(&cluster, why, now),
            Event::Leased(row) => self.lease(row),
            Event::Renewed(campaigns, as_of_ms) => self.renew(&campaigns, as_of_ms),
            Event::Published(sequence, gone) => self.published(sequence, &gone),
            Event::Refused(sentences) => self.refused(&sentences),
        }
        while let Some(campaign) = self.dirty.settle.pop_first() {
            self.settle(campaign, now);
        }
        self.drain()
    }

    /// Brings a campaign's state, works and assignments up to date after a change.
    fn settle(&mut self, id: u64, now: Now) {
        let Some(campaign) = self.campaigns.get(&id) else { return };
        if campaign.has_failed_too_often() {
            self.cancel(id, Ending::MaxFails);
        }
        self.wait_or_go_on(id);
        self.keep_whole(id, now);
        self.assign_waiting(id, now);
        self.make_copies(id, now);
        self.tell_size(id);
        self.finish_or_go_on(id);
        self.number_works(id);
        self.rebalance(id, now);
        let Some(campaign) = self.campaigns.get(&id) else { return };
        if let Some(state) = campaign.final_state() {
            let row = CampaignRow { state, ..campaign.row() };
            let text = format!("{}: {} done, {} failed", state.word(), row.done, row.failed);
            self.dirty.notes.push(notes::history(id, "ended", &text));
            self.campaigns.remove(&id);
            if self.leases.forget(id) {
                self.dirty.leases.insert(id, None);
            }
            if row.hook_cluster.is_some() {
                self.hook_ended_away(&row, now);
            } else {
                self.tell_waiting(id, row.hook_of, state);
            }
            self.dirty.finished.push(row);
        }
        self.dirty.campaigns.insert(id);
        self.dirty.publish = true;
    }

    /// Gives a number to work that has tasks or slots, and takes it from work that has neither.
    fn number_works(&mut self, id: u64) {
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        let numbers: Vec<u64> = campaign.all_steps().map(|step| step.work.step).collect();
        for at in numbers {
            let Some(step) = campaign.step(at) else { continue };
            let known = step.work;
            let is_needed = 0 < step.slots || 0 < campaign.remaining(step);
            let work = match (known.number, is_needed) {
                (None, true) => {
                    let number = self.next;
                    self.next += 1;
                    self.dirty.next = true;
                    WorkRow { number: Some(number), ..known }
                }
                (Some(_), false) => WorkRow { number: None, ..known },
                (None, false) | (Some(_), true) => continue,
            };
            campaign.step_mut(at).work = work;
            self.dirty.works.insert((id, work.step), work);
        }
    }

    /// Puts a slot into the book.
    fn adopt(&mut self, slot: Slot) {
        let (share, node) = (slot.row.share, slot.row.node.clone());
        if !slot.is_gone() {
            self.count_slot(&slot.row, true);
        }
        self.by_node.entry(node).or_default().insert(share);
        self.slots.insert(share, slot);
    }

    /// Counts a slot in or out.
    fn count_slot(&mut self, row: &SlotRow, is_in: bool) {
        if let Some(campaign) = self.campaigns.get_mut(&row.campaign) {
            let change = |count: &mut u64| {
                *count = if is_in { *count + 1 } else { count.saturating_sub(1) };
            };
            change(&mut campaign.slots);
            change(&mut campaign.step_mut(row.step).slots);
            campaign.note_rank(row, is_in);
        }
    }

    /// Ends an attempt of a slot, and moves its task by the table of states.
    fn end_attempt(&mut self, share: u64, result: TaskResult, now: Now) {
        let id = result.task;
        let Some(slot) = self.slots.get_mut(&share) else { return };
        if slot.attempts.remove(&id).is_none() {
            // The slot no longer has this attempt: the result is repeated, or another attempt
            // counts.
            return;
        }
        slot.recall.remove(&id);
        self.enter_end(share, result, now);
    }

    /// Enters the end of an attempt that its slot or its cluster had.
    fn enter_end(&mut self, share: u64, result: TaskResult, now: Now) {
        let id = result.task;
        let Some(campaign) = self.campaigns.get_mut(&id.campaign) else { return };
        if campaign.spec.gang.is_some() {
            return self.end_rank(share, result, now);
        }
        if self.end_twin(share, &result, now) {
            return;
        }
        let Some(campaign) = self.campaigns.get_mut(&id.campaign) else { return };
        let Some(row) = campaign.after(share, &result) else {
            self.close_attempt(TaskResult { why: Reason::Superseded, ..result }, now);
            return;
        };
        campaign.displace(id.task);
        if matches!(result.why, Reason::Done | Reason::Exit) {
            campaign.facts.ended += 1;
            campaign.facts.ended_ms = campaign.facts.ended_ms.saturating_add(result.ms);
        }
        campaign.facts.rss_mb = campaign.facts.rss_mb.max(result.rss_mb);
        if row.state == TaskState::Failed {
            self.dirty.notes.push(notes::failed(&row, &result, &self.slots, share));
        }
        let is_final = row.state.is_final();
        campaign.place(row.clone());
        self.dirty.tasks.insert((id.campaign, id.task), row);
        if is_final {
            self.tell_losers(id.campaign, id.task);
        }
        if let Some(place) = self.judged_place(share, id) {
            self.judge_node(&place, &result, now);
        }
        self.close_attempt(result, now);
    }

    /// The place of an attempt, by which the campaign judges its end: a node, or a cluster.
    fn judged_place(&self, share: u64, id: AttemptId) -> Option<Name> {
        if is_batch(share) {
            return self.open.get(&id).map(|attempt| away::place_of(&attempt.node));
        }
        self.slots.get(&share).map(|slot| slot.row.node.clone())
    }

    /// Enters the result of an attempt.
    fn close_attempt(&mut self, result: TaskResult, now: Now) {
        let id = result.task;
        if let Some(attempt) = self.open.remove(&id) {
            self.come_back(attempt.share);
            self.interruptions.add(&result);
            let ended = AttemptRow { result: Some(result), ended_ms: Some(now.wall_ms), ..attempt };
            self.dirty.attempts.insert(id, ended);
        }
        self.dirty.settle.insert(id.campaign);
    }

    /// Returns all effects since the last call.
    fn drain(&mut self) -> Vec<Effect> {
        let dirty = std::mem::take(&mut self.dirty);
        let mut effects = Vec::new();
        if dirty.next {
            effects.push(Effect::Next(self.next));
        }
        let live = dirty.campaigns.iter().filter_map(|id| self.campaigns.get(id));
        effects.extend(live.map(|campaign| Effect::Campaign(campaign.row())));
        effects.extend(dirty.finished.into_iter().map(Effect::Campaign));
        effects.extend(dirty.works.into_values().map(Effect::Work));
        effects.extend(dirty.tasks.into_values().map(Effect::Task));
        effects.extend(dirty.attempts.into_values().map(Effect::Attempt));
        let slots = dirty.slots.iter().filter_map(|share| self.slots.get(share));
        effects.extend(slots.map(|slot| Effect::Slot(slot.row.clone())));
        effects.extend(dirty.forgotten.into_iter().map(Effect::SlotForgotten));
        effects.extend(dirty.notes.into_iter().map(Effect::Note));
        effects.extend(dirty.faults.into_iter().map(Effect::Fault));
        let leases = dirty.leases.into_iter();
        effects.extend(
            leases.map(|(number, row)| row.map_or(Effect::LeaseForgotten(number), Effect::Lease)),
        );
        effects.extend(dirty.filed.into_iter().map(Effect::Filed));
        let suspects = dirty.suspects.into_iter();
        let suspect = |((id, node), (ms, since))| Effect::Suspect(id, node, ms, since);
        effects.extend(suspects.map(suspect));
        effects.extend(dirty.wake.into_iter().map(Effect::Wake));
        if dirty.publish {
            effects.push(Effect::Publish);
        }
        effects
    }
}

/// The attempt of a task that counts: the last, unless that is a copy.
fn attempt_of(row: &TaskRow) -> AttemptId {
    let attempt = row.live.unwrap_or(row.attempt);
    AttemptId { campaign: row.campaign, task: row.task, attempt }
}
