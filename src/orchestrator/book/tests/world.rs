//! Nodes, slots and a resource manager that behave as the protocol prescribes, and a store that keeps rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::*;
use super::result;
use crate::orchestrator::spec::{CampaignSpec, HookKind};
use crate::orchestrator::wire::{
    Exchange, GangResize, GridEvent, Rung, RunningTask, SlotEnd, SlotOrder, SlotReport, SlotStage,
    SlotStop, StopReason, VERSION,
};

/// Rows as a database would hold them.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub next: u64,
    pub campaigns: BTreeMap<u64, CampaignRow>,
    pub works: BTreeMap<(u64, u64), WorkRow>,
    pub tasks: BTreeMap<(u64, u64), TaskRow>,
    pub attempts: BTreeMap<AttemptId, AttemptRow>,
    pub slots: BTreeMap<u64, SlotRow>,
    pub leases: BTreeMap<u64, LeaseRow>,
}

impl Rows {
    pub fn keep(&mut self, effects: &[Effect]) {
        for effect in effects.iter().cloned() {
            match effect {
                Effect::Next(next) => self.next = next,
                Effect::Campaign(row) => drop(self.campaigns.insert(row.id, row)),
                Effect::Work(row) => drop(self.works.insert((row.campaign, row.step), row)),
                Effect::Task(row) => drop(self.tasks.insert((row.campaign, row.task), row)),
                Effect::Attempt(row) => drop(self.attempts.insert(row.id, row)),
                Effect::Slot(row) => drop(self.slots.insert(row.share, row)),
                Effect::SlotForgotten(share) => drop(self.slots.remove(&share)),
                Effect::Lease(row) => drop(self.leases.insert(row.number, row)),
                Effect::LeaseForgotten(number) => drop(self.leases.remove(&number)),
                Effect::Note(_)
                | Effect::Fault(_)
                | Effect::Filed(_)
                | Effect::Suspect(..)
                | Effect::Wake(_)
                | Effect::Publish => {}
            }
        }
    }

    pub fn saved(&self, specs: &BTreeMap<u64, Arc<CampaignSpec>>) -> Saved {
        let live = |id: &u64| self.campaigns.get(id).is_some_and(|row| !row.state.is_final());
        let campaigns = self.campaigns.values().filter(|row| live(&row.id));
        let is_beyond = |row: &TaskRow| {
            let at = specs[&row.campaign].tasks.position(row.task).unwrap();
            self.campaigns[&row.campaign].taken <= at
        };
        let tasks = self.tasks.values().filter(|row| live(&row.campaign));
        Saved {
            interruptions: (0, 0),
            next: self.next,
            campaigns: campaigns.map(|row| (row.clone(), Arc::clone(&specs[&row.id]))).collect(),
            works: self.works.values().copied().collect(),
            tasks: tasks.filter(|row| !row.state.is_final() || is_beyond(row)).cloned().collect(),
            attempts: self.attempts.values().filter(|row| row.result.is_none()).cloned().collect(),
            slots: self.slots.values().cloned().collect(),
            faults: Vec::new(),
            leases: self.leases.values().copied().collect(),
            filed: Vec::new(),
            next_filed: 1,
        }
    }
}

/// A slot as its node has it.
#[derive(Clone, Debug)]
pub struct SimSlot {
    pub stage: SlotStage,
    pub seen_order: u64,
    pub seen: BTreeSet<AttemptId>,
    pub held: Vec<AttemptId>,
    pub running: BTreeSet<AttemptId>,
    pub results: Vec<TaskResult>,
    pub last_number: u64,
    pub stop: Option<SlotStop>,
    pub end: Option<SlotEnd>,
    pub lanes: u64,
    /// True if the slot is for a rank of a gang.
    pub listens: bool,
    /// Ranks that a malleable gang was last told of.
    pub told: Option<GangResize>,
    /// True if the slot outlives its lease.
    pub finishes_unheard: bool,
    /// Time at which the last successful exchange was sent.
    pub renewed: u64,
    /// Time of its running tasks so far, in milliseconds.
    pub running_ms: u64,
}

impl SimSlot {
    fn new(now: u64, lanes: u64) -> SimSlot {
        SimSlot {
            stage: SlotStage::Working,
            seen_order: 0,
            seen: BTreeSet::new(),
            held: Vec::new(),
            running: BTreeSet::new(),
            results: Vec::new(),
            last_number: 0,
            stop: None,
            end: None,
            lanes,
            listens: false,
            told: None,
            finishes_unheard: false,
            renewed: now,
            running_ms: 1,
        }
    }

    pub fn end_one(&mut self, id: AttemptId, why: Reason, exit: Option<u8>) {
        self.held.retain(|held| *held != id);
        self.running.remove(&id);
        self.last_number += 1;
        let number = self.last_number;
        self.results.push(TaskResult { number, task: id, exit, ..result(why) });
    }

    /// Ends the slot with all its attempts. Attempts that had begun end with `why`.
    pub fn end_all(&mut self, why: Reason, end: SlotEnd) {
        for id in self.held.clone() {
            self.end_one(id, Reason::Returned, None);
        }
        for id in self.running.clone() {
            self.end_one(id, why, None);
        }
        (self.stage, self.end) = (SlotStage::Gone, Some(end));
    }

    fn obey(&mut self, order: &SlotOrder) {
        if order.order < self.seen_order || self.stage == SlotStage::Gone {
            self.results.retain(|result| order.acked < result.number);
            return;
        }
        self.seen_order = order.order;
        self.told = order.resize.clone().or(self.told.take());
        self.results.retain(|result| order.acked < result.number);
        for new in &order.tasks {
            if self.seen.insert(new.task) {
                self.held.push(new.task);
            }
        }
        for id in &order.recall {
            if self.held.contains(id) {
                self.end_one(*id, Reason::Returned, None);
            }
        }
        for id in &order.cancel {
            if self.held.contains(id) || self.running.contains(id) {
                self.end_one(*id, Reason::Cancelled, None);
            }
        }
        if let Some(stop) = order.stop {
            (self.stop, self.stage) = (Some(stop), SlotStage::Stopping);
            for id in self.held.clone() {
                self.end_one(id, Reason::Returned, None);
            }
            if self.running.is_empty() {
                self.end_all(Reason::Preempted, SlotEnd::Stopped);
            }
        }
    }

    fn report(&self, share: u64) -> SlotReport {
        let running = |task: &AttemptId| RunningTask {
            task: *task,
            ms: self.running_ms,
            unsaved_ms: 1,
            has_saved: false,
            rss_mb: 0,
        };
        let has = u64::try_from(self.held.len() + self.running.len()).unwrap();
        SlotReport {
            share,
            state: self.stage,
            held: self.held.clone(),
            running: self.running.iter().map(running).collect(),
            want: if self.stage == SlotStage::Working {
                (self.lanes + 3).saturating_sub(has)
            } else {
                0
            },
            results: self.results.clone(),
            seen_order: self.seen_order,
            prepared_ms: None,
            port: self.listens.then_some(4_000),
            end: self.end,
            text: None,
        }
    }
}

/// A node with its agent.
#[derive(Clone, Debug, Default)]
pub struct SimNode {
    pub boot: u64,
    pub number: u64,
    pub slots: BTreeMap<u64, SimSlot>,
}

/// Nodes, resource manager, store and book of a test.
pub struct World {
    pub book: Book,
    pub rows: Rows,
    pub specs: BTreeMap<u64, Arc<CampaignSpec>>,
    pub nodes: Vec<SimNode>,
    /// Address that each agent tells.
    pub address: Option<String>,
    pub now: u64,
    /// Wall clock at the start of the test. It may jump.
    pub wall_began: u64,
    pub settings: Settings,
    /// Shares of the resource manager: number, node, work, and true if the share is removed.
    pub shares: BTreeMap<u64, (usize, u64, bool)>,
    /// Ranks of the shares of gangs.
    pub ranks: BTreeMap<u64, u64>,
    /// Number of the last publication, and its works.
    pub sequence: u64,
    pub published: Vec<PublishedWork>,
    pub next_share: u64,
    /// Time of the tasks of a node, in milliseconds. A node without an entry takes 100.
    pub ms: BTreeMap<usize, u64>,
    /// Open events of nodes.
    pub faults: BTreeMap<(u64, Name), FaultRow>,
    /// Open events of nodes and clusters that were filed.
    pub filed: BTreeMap<u64, GridEvent>,
    /// Times below which results of a node are suspicious.
    pub suspects: Vec<(u64, Name, u64)>,
    /// Every attempt that ever began.
    pub begun: BTreeSet<AttemptId>,
}

pub fn name(node: usize) -> Name {
    Name::from(format!("n{node}"))
}

impl World {
    pub fn new() -> World {
        let settings = Settings { lease_ms: 60_000, linger_ms: 2000, clusters: 1 };
        World {
            book: Book::new(settings),
            rows: Rows { next: 1, ..Rows::default() },
            specs: BTreeMap::new(),
            nodes: vec![SimNode::default(); 3],
            address: Some("127.0.0.1".to_owned()),
            now: 0,
            wall_began: 1_000_000,
            settings,
            shares: BTreeMap::new(),
            ranks: BTreeMap::new(),
            sequence: 0,
            published: Vec::new(),
            next_share: 1,
            ms: BTreeMap::new(),
            faults: BTreeMap::new(),
            filed: BTreeMap::new(),
            suspects: Vec::new(),
            begun: BTreeSet::new(),
        }
    }

    /// A world with other clusters.
    pub fn routing() -> World {
        let mut world = World::new();
        world.settings.clusters = 3;
        world.book = Book::new(world.settings);
        world
    }

    /// Submits a prologue or epilogue on another cluster, if it is due. Returns its number.
    pub fn hook(&mut self, campaign: u64, cluster: &str, kind: HookKind) -> Option<u64> {
        let cluster = Name::from(cluster);
        if !self.book.wants_hook(campaign, &cluster, kind) {
            return None;
        }
        let spec = Arc::new(self.book.campaigns()[&campaign].hook_away(kind)?);
        let id = self.book.next_number();
        self.specs.insert(id, Arc::clone(&spec));
        let hook = AwayHook { campaign, cluster, kind, spec_number: 1, spec };
        self.record(Event::Hooked(Box::new(hook)));
        Some(id)
    }

    pub fn time(&self) -> Now {
        Now { ms: self.now, wall_ms: self.wall_began.saturating_add(self.now) }
    }

    /// Records and commits.
    pub fn record(&mut self, event: Event) -> Vec<Effect> {
        let effects = self.book.record(event, self.time());
        super::gangs::begins_whole(self, &effects);
        self.rows.keep(&effects);
        for effect in &effects {
            match effect {
                Effect::Fault(row) if row.closed_ms.is_some() => {
                    self.faults.remove(&(row.campaign, row.node.clone()));
                }
                Effect::Fault(row) => {
                    self.faults.insert((row.campaign, row.node.clone()), row.clone());
                }
                Effect::Filed(event) if event.closed_ms.is_some() => {
                    self.filed.remove(&event.id);
                }
                Effect::Filed(event) => drop(self.filed.insert(event.id, event.clone())),
                Effect::Suspect(id, node, ms, _) => self.suspects.push((*id, node.clone(), *ms)),
                Effect::Next(_)
                | Effect::Campaign(_)
                | Effect::Work(_)
                | Effect::Task(_)
                | Effect::Attempt(_)
                | Effect::Slot(_)
                | Effect::SlotForgotten(_)
                | Effect::Note(_)
                | Effect::Lease(_)
                | Effect::LeaseForgotten(_)
                | Effect::Wake(_)
                | Effect::Publish => {}
            }
        }
        effects
    }

    pub fn submit(&mut self, spec: CampaignSpec) -> u64 {
        self.submit_as("ann", spec)
    }

    pub fn submit_as(&mut self, user: &str, spec: CampaignSpec) -> u64 {
        let (id, spec) = (self.book.next_number(), Arc::new(spec));
        self.specs.insert(id, Arc::clone(&spec));
        let mut hooks = Vec::new();
        for kind in [HookKind::Prologue, HookKind::Epilogue] {
            let Some(hook) = spec.hook_campaign(kind).map(Arc::new) else { continue };
            let spec_number = id + 1 + crate::model::count(&hooks);
            self.specs.insert(spec_number, Arc::clone(&hook));
            hooks.push(NewHook { kind, spec_number, spec: hook });
        }
        let new = NewCampaign { owner: user.to_owned(), uid: None, spec_number: id, spec, hooks };
        self.record(Event::Submitted(Box::new(new)));
        id
    }

    /// Adds tasks to a campaign, if it takes some. The commit is lost if `is_torn`.
    pub fn extend(&mut self, id: u64, count: u64, is_torn: bool) {
        let before = self.book.clone();
        let checked = self.book.check_extension(id, count);
        if is_torn {
            self.book.record(Event::Extended(id, count), self.time());
            self.restart();
            return;
        }
        self.record(Event::Extended(id, count));
        let Ok(range) = checked else {
            let rows = |book: &Book| book.campaigns.values().map(Campaign::row).collect::<Vec<_>>();
            assert_eq!(rows(&self.book), rows(&before), "campaign {id} takes no more");
            return;
        };
        let total = range.count + count;
        assert_eq!(self.rows.campaigns[&id].total, total);
        let spec = Arc::clone(&self.specs[&id]);
        self.specs.insert(id, spec.with_total(total));
    }

    pub fn restart(&mut self) {
        let mut saved = self.rows.saved(&self.specs);
        saved.faults = self.faults.values().cloned().collect();
        saved.filed = self.filed.values().cloned().collect();
        saved.next_filed = self.book.next_filed();
        self.book = Book::restore(self.settings, saved, self.now);
    }

    /// Publishes, and checks that no share is declared gone while its slot can run.
    pub fn publish(&mut self) {
        self.published = self.book.publication(self.now);
        self.sequence += 1;
        let gone = self.book.gone();
        let told: BTreeSet<u64> = self
            .published
            .iter()
            .flat_map(|work| &work.slots)
            .filter(|slot| slot.state != SlotState::Gone)
            .map(|slot| slot.share)
            .collect();
        for node in &self.nodes {
            for (share, slot) in &node.slots {
                let is_alive = slot.stage != SlotStage::Gone;
                assert!(!is_alive || told.contains(share), "T5: share {share} runs: {slot:?}");
            }
        }
        // The publication names all work, so a share that is absent or gone is free again.
        self.shares.retain(|share, (_, _, _)| told.contains(share) || !gone.contains(share));
        let works: BTreeSet<u64> = self.published.iter().map(|work| work.work).collect();
        self.shares.retain(|_, (_, work, _)| works.contains(work));
        self.record(Event::Published(self.sequence, gone));
    }

    /// Builds the schedule that the resource manager answers to the last publication.
    /// Gives the first work a slot on the first node, whose tasks end well as long as there are some.
    pub fn run_in_a_slot(&mut self) {
        self.give(0, 0);
        self.schedule();
        for _ in 0..3 {
            self.exchange(0, false, false);
            self.begin(0, 0);
            self.end(0, 0, Reason::Done, Some(0));
        }
        self.exchange(0, false, false);
    }

    pub fn schedule(&mut self) {
        super::gangs::break_gangs(self);
        let known: BTreeSet<u64> =
            self.published.iter().flat_map(|work| &work.slots).map(|slot| slot.share).collect();
        let mut jobs: BTreeMap<u64, JobShares> = BTreeMap::new();
        for (share, (node, work, removed)) in &self.shares {
            let job = jobs.entry(*work).or_default();
            job.work = *work;
            if *removed {
                let why = StopReason::Preempted;
                let (share, node) = (*share, name(*node));
                job.removed.push(TerminatingShare { share, node, why, has_died: share % 2 == 0 });
            } else {
                let (share, node, rank) = (*share, name(*node), self.ranks.get(share).copied());
                job.shares.push(HeldShare { share, node, rank, memory_mb: 1024 });
                if !known.contains(&share) {
                    job.added.insert(share);
                }
            }
        }
        self.record(Event::Scheduled(Some(self.sequence), jobs.into_values().collect()));
    }

    /// Adds a share to the `pick`th work that can use a share.
    pub fn give(&mut self, pick: usize, node: usize) {
        let works: Vec<u64> = self
            .published
            .iter()
            .filter(|work| !work.is_frozen && !work.is_completing && 0 < work.remaining)
            .map(|work| work.work)
            .collect();
        if !works.is_empty() {
            let work = works[pick % works.len()];
            if super::gangs::give_whole(self, work, node) {
                return;
            }
            self.shares.insert(self.next_share, (node, work, false));
            self.next_share += 1;
        }
    }

    /// Runs an exchange of a node. The answer is lost if `is_lost`, the commit too if `is_torn`.
    /// The report of a node.
    pub fn report(&self, node: usize) -> Exchange {
        let sim = &self.nodes[node];
        Exchange {
            v: VERSION,
            boot: sim.boot.to_string(),
            life: sim.boot.to_string(),
            number: sim.number,
            limits: Rung::Watched,
            only_user: None,
            address: self.address.clone(),
            epoch: 0,
            slots: sim.slots.iter().map(|(share, slot)| slot.report(*share)).collect(),
        }
    }

    pub fn exchange(&mut self, node: usize, is_lost: bool, is_torn: bool) {
        self.nodes[node].number += 1;
        let report = self.report(node);
        let name = name(node);
        self.book.check(&name, &report).unwrap();
        let event = Event::Exchanged(name.clone(), Box::new(report));
        if is_torn {
            self.book.record(event, self.time());
            self.restart();
            return;
        }
        self.record(event);
        let answer = self.book.answer(&name);
        self.record(Event::Answered(name));
        if is_lost {
            return;
        }
        let now = self.now;
        let sim = &mut self.nodes[node];
        for order in &answer.slots {
            if order.forget {
                let slot = sim.slots.get(&order.share);
                assert!(slot.is_none_or(|slot| slot.stage == SlotStage::Gone), "forgets what runs");
                sim.slots.remove(&order.share);
            } else if let Some(start) = &order.start {
                let finishes_unheard = self.specs[&start.campaign].task.finishes_unheard;
                let listens = start.listens;
                let new =
                    || SimSlot { listens, finishes_unheard, ..SimSlot::new(now, start.lanes) };
                sim.slots.entry(order.share).or_insert_with(new);
            } else if order.stop.is_some() && !sim.slots.contains_key(&order.share) {
                let mut slot = SimSlot::new(now, 1);
                slot.end_all(Reason::Lost, SlotEnd::Stopped);
                sim.slots.insert(order.share, slot);
            }
            if let Some(slot) = sim.slots.get_mut(&order.share) {
                slot.renewed = now;
                slot.obey(order);
            }
        }
        // A slot that no answer names is an orphan.
        let named: BTreeSet<u64> = answer.slots.iter().map(|order| order.share).collect();
        for (_, slot) in sim.slots.iter_mut().filter(|(share, _)| !named.contains(share)) {
            slot.end_all(Reason::Lost, SlotEnd::Stopped);
        }
    }

    /// Begins a held attempt of a slot that has a free lane.
    pub fn begin(&mut self, node: usize, pick: usize) {
        let open: Vec<u64> = self.nodes[node]
            .slots
            .iter()
            .filter(|(_, slot)| {
                slot.stage == SlotStage::Working
                    && !slot.held.is_empty()
                    && u64::try_from(slot.running.len()).unwrap() < slot.lanes
            })
            .map(|(share, _)| *share)
            .collect();
        if open.is_empty() {
            return;
        }
        let share = open[pick % open.len()];
        let id = self.nodes[node].slots[&share].held[0];
        super::gangs::is_of_one_generation(self, id);
        assert!(self.begun.insert(id), "T1: {id} began twice");
        let may_run_twice = self.specs[&id.campaign].may_run_twice;
        for sim in self.nodes.iter().filter(|_| !may_run_twice) {
            for slot in sim.slots.values() {
                let alive = slot
                    .running
                    .iter()
                    .find(|other| (other.campaign, other.task) == (id.campaign, id.task));
                assert!(alive.is_none(), "T2: {id} began while {alive:?} runs");
            }
        }
        let slot = self.nodes[node].slots.get_mut(&share).unwrap();
        slot.held.remove(0);
        slot.running.insert(id);
    }

    /// Ends a running attempt.
    pub fn end(&mut self, node: usize, pick: usize, why: Reason, exit: Option<u8>) {
        let running: Vec<(u64, AttemptId)> = self.nodes[node]
            .slots
            .iter()
            .flat_map(|(share, slot)| slot.running.iter().map(|id| (*share, *id)))
            .collect();
        if running.is_empty() {
            return;
        }
        let (share, id) = running[pick % running.len()];
        let gang = &self.specs[&id.campaign].gang;
        let serves = gang.as_ref().is_some_and(|gang| !gang.every_node && 1 < id.task);
        let is_stopped = self.nodes[node].slots[&share].stop.is_some_and(|it| it.by_ms.is_some());
        if serves && why == Reason::Done && !is_stopped {
            // A server of a rank has no end of its own.
            return;
        }
        let slot = self.nodes[node].slots.get_mut(&share).unwrap();
        let kill = slot.stop.filter(|stop| stop.by_ms.is_some());
        let (why, exit) = kill.map_or((why, exit), |stop| (stop.why.of_task(), None));
        slot.end_one(id, why, exit);
        if let (Some(ms), Some(result)) = (self.ms.get(&node), slot.results.last_mut()) {
            result.ms = *ms;
        }
        if slot.stop.is_some() && slot.running.is_empty() {
            slot.end_all(Reason::Preempted, SlotEnd::Stopped);
        }
    }

    /// Kills the process of a slot.
    pub fn kill(&mut self, node: usize, pick: usize) {
        let slots = &mut self.nodes[node].slots;
        if let Some(share) = slots.keys().nth(pick % slots.len().max(1)).copied() {
            let slot = slots.get_mut(&share).unwrap();
            if slot.stage != SlotStage::Gone {
                slot.end_all(Reason::Lost, SlotEnd::Died);
            }
        }
    }

    /// Boots a node. All its slots are gone, and half of the time their journals too.
    pub fn reboot(&mut self, node: usize, loses_spool: bool) {
        let sim = &mut self.nodes[node];
        sim.boot += 1;
        sim.number = 0;
        for slot in sim.slots.values_mut().filter(|slot| slot.stage != SlotStage::Gone) {
            slot.end_all(Reason::Lost, SlotEnd::Died);
        }
        if loses_spool {
            sim.slots.clear();
        }
    }

    /// Ends the slots that have no task.
    pub fn end_idle_slots(&mut self) {
        for slot in self.nodes.iter_mut().flat_map(|node| node.slots.values_mut()) {
            let is_idle = slot.held.is_empty() && slot.running.is_empty() && !slot.listens;
            if slot.stage == SlotStage::Working && is_idle {
                slot.end_all(Reason::Lost, SlotEnd::Idle);
            }
        }
    }

    /// Lets time pass. Slots whose lease runs out end.
    pub fn pass(&mut self, ms: u64) {
        let before = self.now;
        self.now += ms;
        let (now, lease) = (self.now, self.settings.lease_ms);
        for slot in self.nodes.iter_mut().flat_map(|node| node.slots.values_mut()) {
            let is_over = !slot.finishes_unheard && lease < now - slot.renewed;
            if slot.stage != SlotStage::Gone && is_over {
                slot.end_all(Reason::Lost, SlotEnd::Unheard);
            }
        }
        // The orchestrator checks often; it does not stand still.
        let end = std::mem::replace(&mut self.now, before);
        while self.now < end {
            self.now = end.min(self.now + 3_000);
            self.record(Event::Elapsed);
        }
    }
}
