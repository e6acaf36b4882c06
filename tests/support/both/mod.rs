//! The book of the orchestrator above the real scheduler: told time, slots that are played, publications
//! and answers that are lost, and a memory of what really happened.

mod check;
mod manager;
mod oracle;
mod rows;
mod slots;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apportion::orchestrator::book::{Book, Effect, Event, NewCampaign, Now, Saved, Settings};
use apportion::orchestrator::rm::publication;
use apportion::orchestrator::spec::CampaignSpec;
use apportion::orchestrator::wire::{AttemptId, Reason, SlotEnd};
use manager::Manager;
use oracle::Oracle;
use rows::Rows;
use slots::{LEASE_MS, LINGER_MS, SimNode, name};

/// Machines of the cluster, of 4 GB each.
pub const NODES: usize = 3;
/// The orchestrator looks after leases at least so often, in milliseconds.
const STEP_MS: u64 = 3_000;
/// The longest poll of an agent, in milliseconds.
const POLL_MS: u64 = 25_000;
/// Users of all campaigns.
const USERS: [&str; 3] = ["ann", "bob", "cleo"];
/// Rounds without trouble in which everything ends.
const ROUNDS: usize = 1_500;

/// Fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The message arrives, and its answer too.
    Good,
    /// The message does not arrive.
    Lost,
    /// The message arrives, and its answer does not.
    Unanswered,
    /// The message arrives later.
    Late,
}

/// All of it.
pub struct World {
    book: Book,
    rows: Rows,
    specs: BTreeMap<u64, Arc<CampaignSpec>>,
    pub manager: Manager,
    nodes: Vec<SimNode>,
    oracle: Oracle,
    now: u64,
    sequence: u64,
    /// A publication that is still on its way.
    late: Option<Vec<u8>>,
    /// The campaign and step of each work, as it was published last.
    works: BTreeMap<u64, (u64, u64)>,
    /// Every number of work that ever was published, with its campaign and step.
    numbers: BTreeMap<u64, (u64, u64)>,
    /// Every attempt that ever began.
    begun: BTreeSet<AttemptId>,
}

impl World {
    pub fn new(pace: u8) -> World {
        World {
            book: Book::restore(settings(), Saved { next: 1, ..Saved::default() }, 0),
            rows: Rows::default(),
            specs: BTreeMap::new(),
            manager: Manager::new(pace),
            nodes: vec![SimNode::default(); NODES],
            oracle: Oracle::default(),
            now: 0,
            sequence: 0,
            late: None,
            works: BTreeMap::new(),
            numbers: BTreeMap::new(),
            begun: BTreeSet::new(),
        }
    }

    /// The `pick`th campaign, if there is any.
    pub fn campaign(&self, pick: u8) -> u64 {
        let ids: Vec<u64> = self.specs.keys().copied().collect();
        ids.get(usize::from(pick) % ids.len().max(1)).copied().unwrap_or(0)
    }

    fn time(&self) -> Now {
        Now { ms: self.now, wall_ms: 1_000_000_000 + self.now }
    }

    /// Records and commits, and wakes the agents whose answers that is about.
    fn record(&mut self, event: Event) {
        let effects = self.book.record(event, self.time());
        self.rows.keep(&effects);
        self.see_gone();
        for effect in effects {
            if let Effect::Wake(node) = effect
                && let Some(at) = (0..NODES).find(|at| name(*at) == node)
                && self.nodes[at].waits_since.is_some()
            {
                self.answer(at, true);
            }
        }
    }

    pub fn submit(&mut self, user: u8, spec: CampaignSpec) {
        // The time tells campaigns apart.
        self.now += 1;
        let (id, spec) = (self.book.next_number(), Arc::new(spec));
        let owner = USERS[usize::from(user) % USERS.len()];
        self.specs.insert(id, Arc::clone(&spec));
        self.oracle.submitted(id, owner, Arc::clone(&spec), self.time().wall_ms);
        let new = NewCampaign {
            owner: owner.to_owned(),
            uid: None,
            spec_number: id,
            spec,
            hooks: Vec::new(),
        };
        self.record(Event::Submitted(Box::new(new)));
    }

    /// Adds tasks to a campaign, if it takes some.
    pub fn extend(&mut self, id: u64, count: u64) {
        let checked = self.book.check_extension(id, count);
        if let Ok(range) = checked {
            let spec = Arc::clone(&self.specs[&id]).with_total(range.count + count);
            self.specs.insert(id, Arc::clone(&spec));
            self.oracle.extended(id, spec);
        }
        self.record(Event::Extended(id, count));
    }

    pub fn suspend(&mut self, campaign: u64, at_once: bool) {
        self.oracle.suspended(campaign, true);
        self.record(Event::Suspended { campaign, at_once });
    }

    pub fn resume(&mut self, campaign: u64) {
        self.oracle.suspended(campaign, false);
        self.record(Event::Resumed(campaign));
    }

    pub fn cancel(&mut self, campaign: u64) {
        self.oracle.cancelled(campaign);
        self.record(Event::Cancelled(campaign));
    }

    pub fn cancel_task(&mut self, campaign: u64, task: u64) {
        self.oracle.task_cancelled(campaign, task);
        self.record(Event::TaskCancelled(campaign, task));
    }

    /// Publishes all work.
    pub fn publish(&mut self, fate: Fate) {
        let work = self.book.publication(self.now);
        let gone = self.book.gone();
        self.tell(&work);
        self.oracle.published(self.now);
        self.sequence += 1;
        let body = publication(self.sequence, "apportion-1", 0, work.clone());
        let body = serde_json::to_vec(&body).unwrap();
        match fate {
            Fate::Lost => return,
            Fate::Late => {
                self.late = Some(body);
                return;
            }
            Fate::Good | Fate::Unanswered => {}
        }
        assert!(self.manager.put(body), "a publication in turn is refused");
        self.compare(&work);
        if fate == Fate::Good {
            self.record(Event::Refused(BTreeMap::new()));
            self.record(Event::Published(self.sequence, gone));
        }
    }

    /// Delivers a late publication, perhaps after newer publications.
    pub fn bring_late(&mut self) {
        if let Some(body) = self.late.take() {
            self.manager.put(body);
        }
    }

    /// Reads the schedule.
    pub fn schedule(&mut self) {
        let (publication, jobs) = self.manager.schedule();
        self.oracle.scheduled(&jobs, &self.works, self.now);
        self.record(Event::Scheduled(publication, jobs));
    }

    /// A heartbeat interval: every node that is there reports to the resource manager.
    pub fn heartbeat(&mut self) {
        for (at, node) in self.nodes.iter().enumerate() {
            if !node.is_off && !node.is_unheard {
                self.manager.hear(&name(at));
            }
        }
        self.manager.end_interval();
    }

    /// Exchanges once for a node. `is_torn`: the orchestrator dies before the commit. An exchange
    /// without news waits if `may_wait`.
    pub fn exchange(&mut self, at: usize, fate: Fate, is_torn: bool, may_wait: bool) {
        let (now, name) = (self.now, name(at));
        let node = &mut self.nodes[at];
        if node.is_off {
            return;
        }
        let report = node.report(now);
        if node.is_cut || fate == Fate::Lost {
            return;
        }
        self.book.check(&name, &report).unwrap();
        let event = Event::Exchanged(name.clone(), Box::new(report.clone()));
        if is_torn {
            self.book.record(event, self.time());
            self.restart();
            return;
        }
        // The waiting exchange ends with this exchange.
        self.nodes[at].waits_since = None;
        self.oracle.reported(&name, &report, now);
        self.record(event);
        self.nodes[at].waits_since = Some(now);
        let has_results = report.slots.iter().any(|slot| !slot.results.is_empty());
        if !may_wait || has_results || self.book.answer(&name).has_news {
            self.answer(at, fate == Fate::Good);
        }
    }

    /// The answer to the exchange of a node leaves, and may be lost on its way.
    fn answer(&mut self, at: usize, arrives: bool) {
        let Some(sent) = self.nodes[at].waits_since.take() else { return };
        let name = name(at);
        let answer = self.book.answer(&name);
        self.oracle.answered(&answer.slots);
        self.record(Event::Answered(name));
        let node = &mut self.nodes[at];
        if arrives && !node.is_off && !node.is_cut {
            let finishes = |campaign: u64| self.specs[&campaign].task.finishes_unheard;
            node.obey(sent, self.now, &answer.slots, finishes);
        }
    }

    /// Prepares the slots of a node, or makes the preparation of a slot fail.
    pub fn prepare(&mut self, at: usize, fails: bool) {
        for slot in self.nodes[at].slots.values_mut() {
            slot.prepare(self.now, fails);
        }
    }

    /// Begins a task in each slot of a node that has room.
    pub fn begin(&mut self, at: usize) {
        let with_space = self.nodes[at].slots.iter().filter(|(_, slot)| slot.has_space());
        let shares: Vec<u64> = with_space.map(|(share, _)| *share).collect();
        for share in shares {
            let next = self.nodes[at].slots[&share].held[0];
            assert!(self.begun.insert(next), "T1: {next} began twice");
            for slot in self.nodes.iter().flat_map(|node| node.slots.values()) {
                let mut others = slot.running.keys();
                let other = others.find(|it| (it.campaign, it.task) == (next.campaign, next.task));
                assert!(other.is_none(), "T2: {next} begins while {other:?} runs");
            }
            let begun = self.nodes[at].slots.get_mut(&share).unwrap().begin(self.now);
            assert_eq!(begun, next);
        }
    }

    /// Ends the `pick`th task that runs on a node, or has it save what it has.
    pub fn end(&mut self, at: usize, pick: u8, how: u8) {
        let slots = self.nodes[at].slots.iter();
        let running = slots.flat_map(|(share, slot)| slot.running.keys().map(|id| (*share, *id)));
        let running: Vec<(u64, AttemptId)> = running.collect();
        if running.is_empty() {
            return;
        }
        let (share, id) = running[usize::from(pick) % running.len()];
        let slot = self.nodes[at].slots.get_mut(&share).unwrap();
        let now = self.now;
        // A stopped task ends by its signal, instead of its own end.
        let stopped = slot.stop.filter(|(_, until)| until.is_some()).map(|(why, _)| why);
        match (stopped, how % 16) {
            (_, 0) => slot.running.get_mut(&id).unwrap().saved = Some(now),
            (Some(why), _) => slot.end_one(now, id, why, None),
            (None, 1) => slot.end_one(now, id, Reason::Exit, Some(1)),
            (None, 2) => slot.end_one(now, id, Reason::Exit, Some(66)),
            (None, 3) => slot.end_one(now, id, Reason::Exit, Some(67)),
            (None, 4 | 5) => slot.end_one(now, id, Reason::Memory, None),
            (None, 6) => slot.end_one(now, id, Reason::Signal, None),
            (None, _) => slot.end_one(now, id, Reason::Done, Some(0)),
        }
    }

    /// Kills the process of a slot.
    pub fn kill(&mut self, at: usize, pick: u8) {
        let now = self.now;
        let live = self.nodes[at].slots.values_mut().filter(|slot| slot.lives());
        let mut live: Vec<_> = live.collect();
        if !live.is_empty() {
            let at = usize::from(pick) % live.len();
            live[at].end_all(now, Reason::Lost, SlotEnd::Died);
        }
    }

    pub fn crash(&mut self, at: usize, loses_spool: bool) {
        self.nodes[at].crash(self.now, loses_spool);
    }

    /// Cuts a node off: from the resource manager, from the orchestrator, from both.
    pub fn cut(&mut self, at: usize, from_manager: bool, from_head: bool) {
        let node = &mut self.nodes[at];
        (node.is_unheard, node.is_cut) = (from_manager, from_head);
    }

    pub fn mend(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        (node.is_off, node.is_unheard, node.is_cut) = (false, false, false);
    }

    /// The orchestrator dies, and starts again from its database.
    pub fn restart(&mut self) {
        self.book = Book::restore(settings(), self.rows.saved(&self.specs), self.now);
        self.oracle.restarted(self.now);
        for node in &mut self.nodes {
            node.waits_since = None;
        }
    }

    pub fn vary(&mut self, at: usize, is_off: bool) {
        self.manager.vary(&name(at), is_off);
    }

    /// Lets time pass.
    pub fn pass(&mut self, ms: u64) {
        let end = self.now + ms;
        while self.now < end {
            self.now = end.min(self.now + STEP_MS);
            for slot in self.nodes.iter_mut().flat_map(|node| node.slots.values_mut()) {
                slot.keep_time(self.now);
            }
            self.record(Event::Elapsed);
            for at in 0..NODES {
                if self.nodes[at].waits_since.is_some_and(|since| since + POLL_MS <= self.now) {
                    self.answer(at, true);
                }
            }
        }
    }

    /// Runs on without trouble until all campaigns are final and the resource manager has nothing.
    pub fn finish(&mut self) {
        for at in 0..NODES {
            self.mend(at);
            self.manager.vary(&name(at), false);
        }
        self.bring_late();
        for id in self.specs.keys().copied().collect::<Vec<_>>() {
            self.resume(id);
        }
        for round in 0..ROUNDS {
            self.heartbeat();
            self.publish(Fate::Good);
            self.manager.cycle();
            self.schedule();
            for at in 0..NODES {
                self.exchange(at, Fate::Good, false, false);
                self.prepare(at, false);
                self.begin(at);
                for pick in 0..8 {
                    self.end(at, pick, 15);
                }
            }
            self.recount();
            if self.book.campaigns().is_empty() && self.manager.state().jobs.is_empty() {
                return;
            }
            self.pass(if round % 4 == 0 { 1_500 } else { 500 });
        }
        let (campaigns, state) = (self.book.campaigns(), self.manager.state());
        panic!("not all ends: {campaigns:#?}\n{:#?}\n{state:#?}", self.book.slots());
    }
}

fn settings() -> Settings {
    Settings { lease_ms: LEASE_MS, linger_ms: LINGER_MS, clusters: 1 }
}
