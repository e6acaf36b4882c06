//! The runner: exchanges with the orchestrator, and brings the slots to the ordered state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::address::OwnAddress;
use super::bounds::portions;
use super::head::{Head, LONGEST_WAIT};
use super::inputs::fetch_input;
use super::keeper::{Birth, Keeper, News, ToKeeper, gone};
use super::known::KnownSlot;
use super::ladder::Ladder;
use super::levels::{nothing, specs_of, without_times};
use super::node::LocalNode;
use super::records::{Seen, SlotRecord, SlotRecords, is_good_identity};
use super::relay::{OutputSource, relay};
use super::retention::remove_old;
use super::spool::{NodeSpool, try_out};
use super::users::LocalUsers;
use super::{RunError, RunOptions};
use crate::agent::{RetryPace, facts};
use crate::orchestrator::wire::{
    Exchange, ExchangeAnswer, OutputRequest, SlotEnd, SlotOrder, SlotReport, SlotStage, SlotStop,
    StopReason, TaskSpec, VERSION,
};
use crate::slot::since_boot_ms;
use crate::slot::wire::LeasedOrder;

/// The least time between two exchanges.
const LEAST_PAUSE: Duration = Duration::from_millis(20);

/// The pause after an answer that came without a wait and had nothing new.
const IDLE_PAUSE: Duration = Duration::from_millis(200);

/// Longest wait of the first exchange: the lease is not known before its answer.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// An answer may take so long, however short the lease is.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The most reports of slots that wait to be entered. More wait with their slots.
const MAX_NEWS: usize = 64;

/// Interval at which old output is removed.
const CLEAN_EVERY: Duration = Duration::from_mins(5);

/// Answers in a row that do not name a slot before it counts as an orphan.
const ORPHAN_AFTER: u32 = 2;

/// An exchange that ended.
struct Done {
    number: u64,
    sent_ms: u64,
    waited: bool,
    answer: Result<ExchangeAnswer, String>,
}

/// The part of an agent that runs work.
#[derive(Debug)]
pub struct Runner {
    node: Arc<LocalNode>,
    head: Arc<Head>,
    life: String,
    number: u64,
    seen: Seen,
    slots: BTreeMap<u64, KnownSlot>,
    news: mpsc::Receiver<(u64, News)>,
    tell: mpsc::Sender<(u64, News)>,
    has_news: bool,
    /// Longest wait of an exchange at the orchestrator: the lease counts from its beginning.
    wait: Duration,
    /// Time for an answer beyond the wait, so short that a retry comes before the lease ends.
    patience: Duration,
    /// The number of the newest exchange that was answered.
    answered: u64,
    problem: Option<String>,
    relays: BTreeSet<u64>,
    relayed: (mpsc::UnboundedSender<u64>, mpsc::UnboundedReceiver<u64>),
}

impl Runner {
    /// A runner that has adopted nothing yet.
    ///
    /// # Errors
    ///
    /// If this node cannot run work.
    pub fn new(options: RunOptions) -> Result<Runner, RunError> {
        let users = LocalUsers::new(options.users).map_err(RunError::Users)?;
        let unusable = |source| RunError::Spool { path: options.spool.clone(), source };
        let spool = NodeSpool::open(&options.spool).map_err(unusable)?;
        try_out(&options.spool).map_err(unusable)?;
        if let Some(path) = spool.closed().filter(|_| users.is_root()) {
            let path = path.display();
            tracing::warn!(
                "other users cannot pass through {path}, so their tasks do not start: chmod o+x {path}"
            );
        }
        let records = SlotRecords::open(&options.spool).map_err(RunError::Records)?;
        let ladder = Ladder::probe(options.limits, users.is_root());
        let life = facts::life()?;
        let boot = facts::boot()?;
        let program = std::env::current_exe().map_err(RunError::Program)?;
        let address = OwnAddress::new(options.address, options.orchestrator.clone());
        let head = Head::new(
            options.orchestrator,
            options.authority.as_deref(),
            options.token_file,
            options.node.clone(),
        )?;
        let (tell, news) = mpsc::channel(MAX_NEWS);
        let seen = records.seen();
        let node = LocalNode {
            name: options.node,
            boot,
            address,
            program,
            allow_setuid: options.allow_setuid,
            max_processes: options.max_processes,
            users,
            ladder,
            records,
            spool,
        };
        Ok(Runner {
            node: Arc::new(node),
            head: Arc::new(head),
            life,
            number: 0,
            seen,
            slots: BTreeMap::new(),
            news,
            tell,
            has_news: false,
            wait: FIRST_WAIT,
            patience: LONGEST_WAIT,
            answered: 0,
            problem: None,
            relays: BTreeSet::new(),
            relayed: mpsc::unbounded_channel(),
        })
    }

    /// Returns the enforcement of limits on this node.
    pub fn ladder(&self) -> &Ladder {
        &self.node.ladder
    }

    /// Runs work for ever. Slots go on when this future is dropped.
    pub async fn run(mut self) {
        for line in self.node.ladder.lines() {
            tracing::info!("{line}");
        }
        self.adopt();
        let mut lots = ChaCha8Rng::from_seed(Sha256::digest(&self.life).into());
        let mut pace = RetryPace::new(LONGEST_PAUSE);
        let mut exchanges: JoinSet<Done> = JoinSet::new();
        let (mut is_polling, mut is_telling) = (false, false);
        // Earliest times of the next exchange, and of the next exchange that waits for orders.
        let (mut next, mut next_poll) = (Instant::now(), Instant::now());
        let mut clean = Instant::now() + CLEAN_EVERY;
        loop {
            let now = Instant::now();
            let may_start = next <= now;
            if may_start && next_poll <= now && !is_polling {
                self.start_exchange(&mut exchanges, true);
                is_polling = true;
                next = Instant::now() + LEAST_PAUSE;
            } else if may_start && self.has_news && !is_telling {
                self.start_exchange(&mut exchanges, false);
                is_telling = true;
                next = Instant::now() + LEAST_PAUSE;
            }
            let has_to_tell = self.has_news && !is_telling;
            let has_to_start = !is_polling || has_to_tell;
            // News waits for no pause of the other kind.
            let start = if has_to_tell { next } else { next.max(next_poll) };
            tokio::select! {
                Some((share, news)) = self.news.recv() => self.note(share, news),
                Some(done) = exchanges.join_next() => {
                    let Ok(done) = done else { continue };
                    if done.waited { is_polling = false } else { is_telling = false }
                    let (sent_ms, waited) = (done.sent_ms, done.waited);
                    let pause = if self.heed(done) {
                        let was_quick = since_boot_ms().saturating_sub(sent_ms) < 50;
                        let is_idle = waited && was_quick && !self.has_news;
                        pace.after_success(&mut lots);
                        if is_idle {
                            next_poll = Instant::now() + IDLE_PAUSE;
                        }
                        LEAST_PAUSE
                    } else {
                        pace.after_failure(&mut lots)
                    };
                    next = Instant::now() + pause;
                }
                Some(request) = self.relayed.1.recv() => {
                    self.relays.remove(&request);
                }
                () = tokio::time::sleep_until(start), if has_to_start => {}
                () = tokio::time::sleep_until(clean) => {
                    clean = Instant::now() + CLEAN_EVERY;
                    remove_old(&self.node);
                }
            }
        }
    }

    /// Takes up the slots that an earlier agent started.
    fn adopt(&mut self) {
        let records = self.node.records.all().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the records of slots");
            Vec::new()
        });
        for record in records {
            let is_ours = record.orchestrator == self.seen.orchestrator;
            let (share, spec) = (record.share, record.start.spec);
            tracing::info!(slot = record.slot, "adopting a slot");
            let keeper = self.keep(record, None);
            if is_ours {
                self.know(share, spec, keeper);
            }
        }
        self.has_news = true;
    }

    fn know(&mut self, share: u64, spec: u64, keeper: mpsc::Sender<ToKeeper>) {
        let report = SlotReport {
            state: SlotStage::Starting,
            end: None,
            ..gone(share, SlotEnd::Died, None)
        };
        let (acked, unnamed, inputs) = (0, 0, BTreeSet::new());
        let specs = BTreeSet::from([spec]);
        self.slots.insert(share, KnownSlot { keeper, report, acked, unnamed, specs, inputs });
    }

    /// Starts the keeper of a slot.
    fn keep(&self, record: SlotRecord, birth: Option<Birth>) -> mpsc::Sender<ToKeeper> {
        let (keeper, inbox) = mpsc::channel(256);
        let (news, mut from_keeper) = mpsc::channel(1);
        let (share, tell) = (record.share, self.tell.clone());
        let is_ours = record.orchestrator == self.seen.orchestrator;
        let node = Arc::clone(&self.node);
        tokio::spawn(Keeper { node, record, inbox, kill_at: None, news }.keep(birth));
        tokio::spawn(async move {
            while let Some(news) = from_keeper.recv().await {
                // A slot of another orchestrator ends with its lease, and its reports are dropped.
                if is_ours && tell.send((share, news)).await.is_err() {
                    return;
                }
            }
        });
        keeper
    }

    /// Takes a report in.
    fn note(&mut self, share: u64, news: News) {
        let Some(known) = self.slots.get_mut(&share) else { return };
        let (mut report, needs) = match news {
            News::Report(report, needs) => (report, needs),
            News::Gone(report) => (report, Vec::new()),
        };
        report.results.retain(|result| result.number > known.acked);
        self.has_news |= without_times(&report) != without_times(&known.report);
        known.report = report;
        for spec in needs {
            if known.specs.contains(&spec) && known.inputs.insert(spec) {
                let (head, keeper) = (Arc::clone(&self.head), known.keeper.clone());
                tokio::spawn(fetch_input(head, keeper, spec));
            }
        }
    }

    fn start_exchange(&mut self, exchanges: &mut JoinSet<Done>, waited: bool) {
        self.number += 1;
        self.has_news = false;
        let said = Exchange {
            v: VERSION,
            boot: self.node.boot.clone(),
            life: self.life.clone(),
            number: self.number,
            limits: self.node.ladder.rung,
            only_user: self.node.users.only_user(),
            address: self.node.address.get().map(|address| address.to_string()),
            epoch: self.seen.epoch,
            slots: portions(self.slots.values().map(|known| &known.report)),
        };
        let (head, number) = (Arc::clone(&self.head), self.number);
        let wait = Some(self.wait).filter(|_| waited);
        let patience = wait.unwrap_or_default() + self.patience;
        exchanges.spawn(async move {
            let sent_ms = since_boot_ms();
            let late = |_| Err("the orchestrator does not answer in time".to_owned());
            let answer = timeout(patience, head.exchange(&said, wait)).await.unwrap_or_else(late);
            Done { number, sent_ms, waited, answer }
        });
    }

    /// Carries out an answer. Returns false if the exchange failed.
    fn heed(&mut self, done: Done) -> bool {
        let problem = match done.answer {
            Ok(answer) => match self.check(&answer) {
                Ok(()) => {
                    if self.problem.take().is_some() || self.answered == 0 {
                        tracing::info!(orchestrator = answer.orchestrator, "exchange works");
                    }
                    self.apply(answer, done.number, done.sent_ms);
                    return true;
                }
                Err(problem) => problem,
            },
            // A later exchange overtook this exchange, and reported all that it had to report.
            Err(_) if done.number < self.answered => return true,
            Err(problem) => problem,
        };
        if self.problem.as_ref() != Some(&problem) {
            tracing::warn!(problem, "exchange with the orchestrator failed; trying again");
            self.problem = Some(problem);
        }
        // The reports did not arrive, so they are news again.
        self.has_news = true;
        false
    }

    /// Checks that the orchestrator of the answer is valid, and its database no older than before.
    fn check(&mut self, answer: &ExchangeAnswer) -> Result<(), String> {
        let identity = &answer.orchestrator;
        if !is_good_identity(identity) {
            return Err(format!(
                "the orchestrator calls itself {identity:?}, which is no identity"
            ));
        }
        let is_known = *identity == self.seen.orchestrator;
        if is_known && answer.epoch < self.seen.epoch {
            let Seen { epoch, .. } = self.seen;
            return Err(format!(
                "the orchestrator's database is older than before (epoch {} after {epoch}), so its orders are not carried out; restore the newer database",
                answer.epoch
            ));
        }
        if is_known && answer.epoch == self.seen.epoch {
            return Ok(());
        }
        let seen = Seen { orchestrator: identity.clone(), epoch: answer.epoch };
        let saved = self.node.records.save_seen(&seen);
        saved.map_err(|error| format!("cannot write into the spool: {error}"))?;
        if !is_known {
            // The new orchestrator's slots are listed from the next exchange on.
            self.slots.clear();
        }
        self.seen = seen;
        Ok(())
    }

    fn apply(&mut self, answer: ExchangeAnswer, number: u64, sent_ms: u64) {
        let is_newest = self.answered < number;
        self.answered = self.answered.max(number);
        let lease_until_ms = sent_ms.saturating_add(answer.lease_ms);
        let quarter = Duration::from_millis(answer.lease_ms >> 2);
        self.wait = LONGEST_WAIT.min(quarter);
        self.patience = LONGEST_WAIT.min(quarter.max(LEAST_PATIENCE));
        let named: BTreeSet<u64> = answer.slots.iter().map(|order| order.share).collect();
        for order in answer.slots {
            let specs = specs_of(&order, &answer.specs);
            if order.forget {
                self.forget(order.share);
            } else if let Some(known) = self.slots.get_mut(&order.share) {
                known.unnamed = 0;
                known.acked = known.acked.max(order.acked);
                let acked = known.acked;
                let before = known.report.results.len();
                known.report.results.retain(|result| result.number > acked);
                // The rest of them may have waited for space.
                let rest = known.report.results.len();
                self.has_news |= 0 < rest && rest < before;
                known.specs.extend(specs.keys());
                let order = LeasedOrder { lease_until_ms, order: Some(order), specs };
                // A keeper whose inbox is full gets the next order, which repeats all of this.
                let _ = known.keeper.try_send(ToKeeper::Order(Box::new(order)));
            } else {
                self.start(order, &specs, lease_until_ms);
            }
        }
        if is_newest {
            self.end_orphans(&named);
        }
        for request in answer.outputs {
            self.relay(request);
        }
    }

    /// Starts a slot that was not there, or tells that it is gone.
    fn start(&mut self, order: SlotOrder, specs: &BTreeMap<u64, TaskSpec>, lease_until_ms: u64) {
        let share = order.share;
        let orchestrator = self.seen.orchestrator.clone();
        let slot = format!("{orchestrator}-{share}");
        let has_start = order.start.is_some() && order.stop.is_none();
        let start = order.start.unwrap_or_else(nothing);
        let spec = specs.get(&start.spec).cloned();
        let mut record = SlotRecord {
            slot,
            orchestrator,
            share,
            start,
            identity: None,
            rung: self.node.ladder.rung,
            process: None,
            failure: None,
        };
        if !has_start {
            // The record is lost, or the slot never started. The keeper ends leftover processes.
            let text = "this node has no record of the slot".to_owned();
            record.failure = Some((SlotEnd::Died, text));
        }
        let birth = has_start.then(|| Birth { spec, ordered_ms: since_boot_ms(), lease_until_ms });
        match self.node.records.begin(&record) {
            Ok(true) => {
                let spec = record.start.spec;
                let keeper = self.keep(record, birth);
                self.know(share, spec, keeper);
                self.has_news = true;
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(slot = record.slot, %error, "cannot write the record of a slot");
            }
        }
    }

    fn forget(&mut self, share: u64) {
        let is_gone = |known: &KnownSlot| known.report.state == SlotStage::Gone;
        if self.slots.get(&share).is_some_and(is_gone)
            && let Some(known) = self.slots.remove(&share)
        {
            let _ = known.keeper.try_send(ToKeeper::Forget);
        }
    }

    /// Stops slots that the orchestrator no longer names, and forgets the ended slots among them.
    fn end_orphans(&mut self, named: &BTreeSet<u64>) {
        let mut ended = Vec::new();
        for (share, known) in self.slots.iter_mut().filter(|(share, _)| !named.contains(share)) {
            known.unnamed += 1;
            if known.unnamed < ORPHAN_AFTER {
                continue;
            }
            if known.report.state == SlotStage::Gone {
                ended.push(*share);
                continue;
            }
            if known.unnamed == ORPHAN_AFTER {
                tracing::warn!(share, "the orchestrator does not know this slot: stopped");
            }
            let stop = Some(SlotStop { by_ms: Some(30_000), why: StopReason::Cancelled });
            let seen = known.report.seen_order;
            let order = SlotOrder { share: *share, order: seen, stop, ..SlotOrder::default() };
            let order =
                LeasedOrder { lease_until_ms: 0, order: Some(order), specs: BTreeMap::new() };
            let _ = known.keeper.try_send(ToKeeper::Order(Box::new(order)));
        }
        for share in ended {
            self.forget(share);
        }
    }

    fn relay(&mut self, request: OutputRequest) {
        let number = request.request;
        if !self.relays.insert(number) {
            return;
        }
        let slot = format!("{}-{}", self.seen.orchestrator, request.share);
        let keeper = self.slots.get(&request.share).map(|known| known.keeper.clone());
        let source = OutputSource { keeper, node: Arc::clone(&self.node), slot };
        let (head, done) = (Arc::clone(&self.head), self.relayed.0.clone());
        tokio::spawn(async move {
            relay(head, request, source).await;
            let _ = done.send(number);
        });
    }
}
