//! The scheduler task, the only owner of the scheduler. It takes requests as they come, plans at
//! its own pace, commits, and only then publishes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::checkpoint_policy::CheckpointPolicy;
use super::clock::now_ms;
use super::error::DaemonError;
use super::heartbeat_timer::{Ended, HeartbeatTimer};
use super::live::LiveConfig;
use super::resume::{Resumed, resume};
use super::watch::Watch;
use super::{audited, decisions, feed, notify, record};
use crate::api::{
    AbsentSums, CycleSpans, HeartbeatInbox, Published, Request, ScheduleText, ViewPublisher,
};
use crate::audit;
use crate::auth::Actor;
use crate::config::Config;
use crate::engine::Effort;
use crate::journal::{JournalingScheduler, open};
use crate::model::{Name, ShareId, Steps, count};
use crate::scheduler::{
    AdminCommand, CommandError, CommandOutcome, EventEffect, Scheduler, SchedulerEvent, View,
};
use crate::store::{
    AdminRow, AuditRow, BatchRow, CycleRecord, PublisherRow, ShareRow, StartupPeek, Store,
};

/// Minimum time between two deliveries of heartbeats to the scheduler.
const HEARING_PERIOD: Duration = Duration::from_millis(50);

type CommandReply = oneshot::Sender<Result<CommandOutcome, CommandError>>;

/// The scheduler's owner.
#[derive(Debug)]
pub struct SchedulerTask {
    pub(super) scheduler: Scheduler,
    pub(super) recorder: JournalingScheduler,
    checkpoints: CheckpointPolicy,
    pub(super) store: Store,
    pub(super) board: Arc<ViewPublisher>,
    /// The configuration in effect.
    pub(super) live: LiveConfig,
    /// Heartbeats received from nodes.
    heartbeats: Arc<HeartbeatInbox>,
    inbox: mpsc::Receiver<Request>,
    cycle_period: Duration,
    heartbeat_interval: Duration,
    audit_every: u64,
    /// True if the timers still run with other periods than the two above.
    timers_changed: bool,
    /// Heartbeat intervals to go before the first cycle.
    pub(super) settling: u32,
    /// Shares that an earlier run left. They stay stored as they were until a publication decides
    /// about them.
    shares_from_last_run: Vec<ShareRow>,
    /// Sequence number of the last applied publication. `None` until a publication came since the
    /// start.
    publication: Option<u64>,
    /// Jobs that the publication left out and that keep their space.
    absent: AbsentSums,
    /// True if the scheduler knows the running jobs: its state from before the start was restored,
    /// or a publication came since.
    pub(super) has_recovered: bool,
    /// True if news since the last cycle requires a new cycle.
    needs_cycle: bool,
    /// Rows for the audit log, to be written with the next cycle.
    pub(super) audit: Vec<AuditRow>,
    watch: Watch,
    /// Steps of progress; a scheduler that hangs counts none.
    steps: Steps,
    stop: CancellationToken,
}

/// Builds the view for the time before recovery: the last schedule, if it is stored.
pub fn initial_view(config: &Config, glance: &StartupPeek) -> Published {
    let view = Scheduler::new(config.topology.clone(), ShareId(glance.next_share)).view();
    // A store from before the journal has no checkpoint, and its schedules have no sum.
    let held = glance.schedule.as_ref().filter(|(_, sealed)| sealed.version != 0);
    let held = held.and_then(|(cycle, sealed)| match open(sealed) {
        Ok(text) => Some(Arc::new(ScheduleText::new(*cycle, Bytes::from(text)))),
        Err(why) => {
            tracing::error!(cycle, %why, "the last schedule on record is not served");
            None
        }
    });
    Published {
        is_ready: held.is_some(),
        is_resuming: true,
        schedule: held.unwrap_or_else(|| ScheduleText::following(None, glance.sequence, &view)),
        view,
        publication: glance.sequence,
        absent: AbsentSums::default(),
        taken_over: None,
        last_event: glance.last_event,
        generation: 0,
        calendar: Arc::new(config.calendar.clone()),
        past_ms: None,
        planned_in: Duration::ZERO,
        prepared_in: Duration::ZERO,
        stored_in: Duration::ZERO,
        findings: Vec::new(),
        findings_total: 0,
        times: CycleSpans::default(),
    }
}

impl SchedulerTask {
    /// Restores the scheduler from the store. The result runs until `stop` or until all senders of
    /// requests are gone.
    ///
    /// # Errors
    ///
    /// If the record is damaged or cannot be read.
    pub async fn resumed(
        mut live: LiveConfig,
        mut store: Store,
        board: Arc<ViewPublisher>,
        heartbeats: Arc<HeartbeatInbox>,
        inbox: mpsc::Receiver<Request>,
        stop: CancellationToken,
    ) -> Result<SchedulerTask, DaemonError> {
        let steps = store.steps().clone();
        let recovered = store.recover().await.map_err(DaemonError::NoRecord)?;
        if let Some(row) = live.take_unsaved() {
            store.add_configuration(&row).await?;
        }
        store.add_audit(&[audited::start(&live)]).await?;
        let Resumed { scheduler, recorder, taken_over, shares_from_last_run, beginning, replayed } =
            resume(&live.config, recovered, &steps);
        let settings = &live.config.daemon;
        let has_recovered = taken_over.is_some();
        let before = board.latest();
        board.publish(Published {
            view: scheduler.view(),
            is_ready: before.is_ready && has_recovered,
            taken_over,
            ..live.published_after(&before)
        });
        Ok(SchedulerTask {
            scheduler,
            recorder,
            checkpoints: CheckpointPolicy::new(settings.journal.books_every, beginning, replayed),
            store,
            board,
            heartbeats,
            inbox,
            cycle_period: settings.cycle_period,
            heartbeat_interval: settings.heartbeat_interval,
            audit_every: settings.audit_every,
            timers_changed: false,
            settling: settings.init_stability,
            shares_from_last_run,
            publication: None,
            absent: AbsentSums::default(),
            has_recovered,
            // The restart itself requires a cycle.
            needs_cycle: has_recovered,
            audit: Vec::new(),
            watch: Watch::default(),
            steps,
            stop,
            live,
        })
    }

    /// Runs a cycle after each piece of news, at least a cycle period after the cycle before. The
    /// end of a heartbeat interval is news too.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn run(mut self) -> Result<(), DaemonError> {
        let mut cycles = ticks(self.cycle_period);
        let mut pulse = HeartbeatTimer::new(self.heartbeat_interval);
        let mut signs = notify::signs();
        let mut beats = ticks(HEARING_PERIOD);
        let heartbeats = Arc::clone(&self.heartbeats);
        loop {
            // Requests come last, or a flood of them would keep everything else from happening.
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                ended = pulse.end() => self.end_interval(ended).await?,
                _ = cycles.tick(), if self.needs_cycle => {
                    self.take_heartbeats();
                    self.cycle(Vec::new()).await?;
                }
                // After what is due: a scheduler that does not get to its cycles shows no sign.
                _ = signs.tick() => self.steps.take(),
                () = next_heartbeats(&mut beats, &heartbeats) => self.take_heartbeats(),
                request = self.inbox.recv() => match request {
                    Some(request) => self.take(request).await?,
                    None => break,
                },
            }
            if std::mem::take(&mut self.timers_changed) {
                cycles = ticks(self.cycle_period);
                pulse = HeartbeatTimer::new(self.heartbeat_interval);
            }
        }
        self.store.close().await?;
        Ok(())
    }

    /// Ends a heartbeat interval. If the daemon could not listen for longer than an interval, no
    /// node counts as silent, and misses are counted anew.
    async fn end_interval(&mut self, ended: Ended) -> Result<(), DaemonError> {
        // Requests that came before the end belong to the interval, even if they waited for this
        // task.
        self.take_heartbeats();
        for _ in 0..self.inbox.len() {
            let Ok(request) = self.inbox.try_recv() else { break };
            self.take(request).await?;
        }
        match ended.with(self.heartbeats.delay().take(), self.heartbeat_interval) {
            Ended::InTime => {
                self.recorder.record(&mut self.scheduler, SchedulerEvent::HeartbeatIntervalPassed);
            }
            Ended::Stalled { late } => {
                tracing::warn!(
                    ?late,
                    "the daemon could not receive heartbeats for a while; missed heartbeats count from zero"
                );
                self.reset_missed();
            }
        }
        self.settling = self.settling.saturating_sub(1);
        self.needs_cycle = true;
        Ok(())
    }

    fn reset_missed(&mut self) {
        let nodes = self.scheduler.view().nodes;
        for node in nodes.iter().filter(|node| 0 < node.missed && !node.state.is_dead) {
            let (node, missed) = (node.name.clone(), 0);
            let event = SchedulerEvent::NodeMissedHeartbeats { node, missed };
            self.recorder.record(&mut self.scheduler, event);
        }
    }

    async fn take(&mut self, request: Request) -> Result<(), DaemonError> {
        // Heartbeats are applied first: a client that reported before its request expects that
        // order.
        self.take_heartbeats();
        match request {
            Request::Publication { sequence, events, absent } => {
                self.publication = Some(sequence);
                self.absent = absent;
                self.has_recovered = true;
                self.needs_cycle = true;
                self.record_all(events);
            }
            Request::Publisher { publisher, note, reply } => {
                let row = publisher.map(|it| PublisherRow { name: it.name, epoch: it.epoch });
                let audit: Vec<AuditRow> = note.map(audited::note).into_iter().collect();
                self.store.put_publisher(row.as_ref(), &audit).await?;
                // The client may have disconnected; the publisher is stored all the same.
                let _ = reply.send(());
            }
            Request::Command { command, by, reply } => self.carry_out(command, &by, reply).await?,
            Request::Urgent { spec, by, reply } => self.decide_urgent(*spec, &by, reply).await?,
            Request::Trial { command, turn, reply } => {
                let copy = self.scheduler.clone();
                // The trial takes two cycles; the scheduler does not wait for that.
                tokio::task::spawn_blocking(move || {
                    let _turn = turn;
                    // The client may have disconnected.
                    drop(reply.send(copy.try_out(command)));
                });
            }
            // A failed write is only logged: a refused client must not end the daemon when the disk
            // is full.
            Request::Audit(note) => {
                if let Err(error) = self.keep(audited::note(note)).await {
                    tracing::error!(%error, "the audit log cannot be written");
                }
            }
            Request::Configuration(asked) => self.configure(asked).await?,
        }
        Ok(())
    }

    /// Puts a row into the audit log that changes nothing else.
    pub(super) async fn keep(&mut self, row: AuditRow) -> Result<(), DaemonError> {
        self.store.add_audit(&[row]).await?;
        Ok(())
    }

    /// Takes over how often things happen.
    pub(super) fn set_pace(&mut self, config: &Config) {
        let settings = &config.daemon;
        self.timers_changed = (self.cycle_period, self.heartbeat_interval)
            != (settings.cycle_period, settings.heartbeat_interval);
        self.cycle_period = settings.cycle_period;
        self.heartbeat_interval = settings.heartbeat_interval;
        self.audit_every = settings.audit_every;
    }

    /// Applies the heartbeats that have arrived.
    fn take_heartbeats(&mut self) {
        let reports = self.heartbeats.untold();
        self.record_all(reports.into_iter().map(SchedulerEvent::NodeReported));
    }

    /// Records events. Routine heartbeats cause no cycle.
    fn record_all(&mut self, events: impl IntoIterator<Item = SchedulerEvent>) {
        for event in events {
            self.steps.take();
            self.needs_cycle |=
                self.recorder.record(&mut self.scheduler, event) == EventEffect::News;
        }
    }

    /// Carries out a command, and answers once its outcome is stored. That takes a cycle at once:
    /// an administrator waits, and the answer must survive a crash.
    async fn carry_out(
        &mut self,
        command: AdminCommand,
        by: &Actor,
        reply: CommandReply,
    ) -> Result<(), DaemonError> {
        let (action, reason) = audited::described(&command);
        let asked = audited::asked(&command);
        let outcome = self.recorder.command(&mut self.scheduler, command);
        self.needs_cycle |= outcome.is_ok();
        match &outcome {
            Ok(CommandOutcome { changed }) if !changed.is_empty() => {
                tracing::info!(action, nodes = ?changed, reason, "an administrator acted");
                let act = AdminRow {
                    at_ms: now_ms(),
                    action: action.to_owned(),
                    nodes: changed.clone(),
                    reason,
                };
                self.audit.push(audited::done(by, &act));
                self.cycle(vec![act]).await?;
            }
            Ok(_) => self.keep(audited::of(by, action, asked, "nothing to change")).await?,
            Err(refusal) => {
                let outcome = format!("refused: {refusal}");
                self.keep(audited::of(by, action, asked, &outcome)).await?;
            }
        }
        // The client may have disconnected; the command is carried out all the same.
        let _ = reply.send(outcome);
        Ok(())
    }

    /// Plans, commits, publishes, in that order.
    pub(super) async fn cycle(&mut self, admin: Vec<AdminRow>) -> Result<(), DaemonError> {
        let before = self.board.latest();
        let is_planned = self.plans();
        let started = Instant::now();
        // Before anything else: it takes a quarter of the text that it is made of.
        let batch = self.batch();
        let sealed_in = started.elapsed();
        let (view, forgotten, planned_in) = self.plan(is_planned);
        let started = Instant::now();
        let found = if is_planned { self.audited(&view) } else { None };
        self.steps.take();
        self.watch.look(&view);
        let findings_total = before.findings_total + found.as_ref().map_or(0, count);
        let findings = found.unwrap_or_else(|| before.findings.clone());
        let at_ms = now_ms();
        // A schedule from before the start may bear the same number as ours and say another thing.
        let publication = self.publication.or(before.publication);
        let known = before.is_ready.then_some(&*before);
        let schedule = ScheduleText::following(known, publication, &view);
        self.steps.take();
        let record = self.record_of(&view, &schedule, is_planned, &admin);
        self.steps.take();
        let feed = feed::rows(&before.view, &view, &admin, before.last_event, at_ms);
        let last_event = feed.last().map_or(before.last_event, |event| event.seq);
        let configuration = self.live.take_unsaved();
        let audit = std::mem::take(&mut self.audit);
        let record = CycleRecord {
            at_ms,
            forgotten,
            admin,
            batch,
            feed,
            last_event,
            configuration,
            audit,
            ..record
        };
        let prepared_in = sealed_in + started.elapsed();
        let started = Instant::now();
        self.store.commit(record).await?;
        self.steps.take();
        let stored_in = started.elapsed();
        tracing::debug!(cycle = view.cycle, ?planned_in, ?stored_in, "a cycle is on record");
        decisions::log(&before.view, &view);
        self.board.publish(Published {
            view,
            schedule,
            is_ready: before.is_ready || is_planned,
            publication,
            absent: self.absent,
            taken_over: before.taken_over.clone().filter(|_| self.publication.is_none()),
            last_event,
            planned_in,
            prepared_in,
            stored_in,
            findings,
            findings_total,
            times: if is_planned { before.times.and(planned_in, stored_in) } else { before.times },
            ..self.live.published_after(&before)
        });
        self.steps.take();
        self.needs_cycle = false;
        notify::status(&self.board.latest().view, planned_in + prepared_in + stored_in);
        if is_planned {
            self.checkpoints.note(&self.scheduler, planned_in);
            self.steps.take();
        }
        Ok(())
    }

    /// The cluster as it is to be, the names that were forgotten on the way, and how long that took.
    fn plan(&mut self, is_planned: bool) -> (View, Vec<Name>, Duration) {
        let started = Instant::now();
        self.steps.take();
        let effort = Effort::told(self.steps.clone());
        let view =
            if is_planned { self.scheduler.schedule_with(&effort) } else { self.scheduler.view() };
        self.steps.take();
        let forgotten = self.scheduler.take_forgotten();
        self.heartbeats.log().forget(&forgotten);
        (view, forgotten, started.elapsed())
    }

    /// Takes out the inputs since the last cycle; hours of classes and the time are the last. Inputs
    /// before a cycle that is not planned count as inputs before the next.
    fn batch(&mut self) -> Option<BatchRow> {
        self.live.tell_time(&mut self.scheduler, &mut self.recorder);
        let cycle = self.scheduler.cycle() + 1;
        self.recorder.take().map(|batch| BatchRow { cycle, sealed: batch.seal() })
    }

    /// Builds the rows of a cycle's outcome for the store.
    fn record_of(
        &mut self,
        view: &View,
        schedule: &ScheduleText,
        is_planned: bool,
        admin: &[AdminRow],
    ) -> CycleRecord {
        let is_published = is_planned || self.board.latest().is_ready;
        let schedule = is_published.then_some(schedule);
        let mut record = record::of_cycle(view, schedule, self.publication, admin);
        if !self.has_recovered {
            record.shares.clone_from(&self.shares_from_last_run);
        }
        record.checkpoint = self.checkpoints.take();
        let planned = view.planned.as_ref().filter(|_| is_planned);
        record.digest = planned.map(|planned| self.checkpoints.digest(planned).0.to_vec());
        record
    }

    /// Audits the cycle and returns the findings; `None` if the cycle is not due for an audit.
    /// Debug builds audit every cycle.
    fn audited(&self, view: &View) -> Option<Vec<String>> {
        let is_due = cfg!(debug_assertions) || view.cycle.is_multiple_of(self.audit_every);
        let planned = view.planned.as_ref().filter(|_| is_due)?;
        let findings = audit::audit_with(
            &planned.snapshot,
            &planned.schedule,
            &Effort::told(self.steps.clone()),
        );
        for finding in &findings {
            tracing::warn!(cycle = view.cycle, rule = ?finding.rule, detail = finding.detail, "the audit objects");
        }
        Some(findings.iter().map(ToString::to_string).collect())
    }
}

/// Waits until a heartbeat has arrived, at most once in the period of `beats`: agents are many.
async fn next_heartbeats(beats: &mut Interval, heartbeats: &HeartbeatInbox) {
    beats.tick().await;
    heartbeats.something().await;
}

/// Timer with this period, which a late tick shifts.
fn ticks(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
