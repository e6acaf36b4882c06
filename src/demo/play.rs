//! The play itself: lets time pass in the world, hands it to the daemon and back, and lets things
//! happen to nodes when the workload says so.
//!
//! A loop with three occasions: a tick of the clock, a new schedule, a closer look at everything.
//! The time of the world follows the wall clock, so a busy machine makes a coarser play, not a
//! slower play.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;
use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::signal;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::DemoError;
use super::client::DemoClient;
use super::cluster::{self, Outages};
use super::orchestrator::{DemoOrchestrator, RoundClock, Stopped};
use super::report::DemoReport;
use super::story::Story;
use super::tally::DemoTally;
use super::workload::{Blow, Incident, Round};
use crate::api::wire::{self, NodeInfo, PreemptionInfo, RemovalReason, VaryAnswer, WorkKind};
use crate::model::{Millis, count};

/// The time between two looks at nodes, jobs and load.
const LOOK: Duration = Duration::from_millis(500);

/// The time between two summaries of a demo that goes on.
const CHAPTER: Duration = Duration::from_mins(1);

/// Commands to try after the demo.
const NEXT: [&str; 3] = [
    "  next  apportion config check config/apportion.toml      every setting, with what it means",
    "        apportion serve --config config/apportion.toml    a daemon of your own",
    "        apportion --help                                  the rest",
];

/// Later than any demo lasts.
const NEVER: Duration = Duration::from_hours(24 * 365);

/// Speed and duration of the play.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlayPace {
    /// Speed of the world's time, as a multiple of the wall clock's.
    pub speed: NonZeroU64,
    /// The same seed gives the same work.
    pub seed: u64,
    /// True if the play ends after a round.
    pub once: bool,
    /// Longest duration of the play.
    pub duration: Option<Duration>,
    /// The time between two cycles of the daemon.
    pub cycle_period: Duration,
}

/// A play under way.
#[derive(Debug)]
pub(super) struct Play {
    client: DemoClient,
    story: Story,
    outages: watch::Sender<Outages>,
    pace: PlayPace,
    started: Instant,
    round: u64,
    /// When the world began.
    began: Instant,
    /// When the next round begins.
    round_end: Millis,
    orchestrator: DemoOrchestrator,
    incidents: VecDeque<Incident>,
    /// The number of the last publication.
    sequence: u64,
    tally: DemoTally,
    chapter: Duration,
    /// Nodes as last looked at.
    nodes: Vec<NodeInfo>,
    /// Nodes taken out by hand.
    varied_off: Vec<String>,
    /// Processes lost with their nodes, not yet in the story.
    lost: BTreeMap<String, Vec<Stopped>>,
}

impl Play {
    /// A play that has not begun.
    ///
    /// # Errors
    ///
    /// If the bundled workload is malformed.
    pub fn new(
        client: DemoClient,
        story: Story,
        outages: watch::Sender<Outages>,
        pace: PlayPace,
    ) -> Result<Play, DemoError> {
        let Round { end, requests, incidents } = Round::bundled(pace.seed, 0)?;
        let now = Instant::now();
        Ok(Play {
            client,
            story,
            outages,
            pace,
            started: now,
            round: 0,
            began: now,
            round_end: end,
            orchestrator: DemoOrchestrator::new(requests, clock(pace.speed)),
            incidents: incidents.into(),
            sequence: 0,
            tally: DemoTally::default(),
            chapter: CHAPTER,
            nodes: Vec::new(),
            varied_off: Vec::new(),
            lost: BTreeMap::new(),
        })
    }

    /// Plays until the end.
    ///
    /// # Errors
    ///
    /// If the bundled workload is malformed.
    pub async fn run(mut self) -> Result<DemoReport, DemoError> {
        let until = self.started + self.pace.duration.unwrap_or(NEVER);
        let end = async {
            tokio::select! {
                () = sleep_until(until) => {}
                () = interrupted() => {}
            }
        };
        let mut end = pin!(end);
        let is_ready = tokio::select! {
            () = &mut end => false,
            () = self.begin() => true,
        };
        if is_ready {
            self.go_on(end).await?;
        }
        Ok(self.close().await)
    }

    /// Plays from the first submission on.
    async fn go_on(
        &mut self,
        mut end: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), DemoError> {
        let mut ticks = interval(self.pace.cycle_period.div_f64(2.0));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut poll = pin!(self.client.clone().next_schedule(None));
        loop {
            tokio::select! {
                () = &mut end => return Ok(()),
                (schedule, name) = &mut poll => {
                    if let Some(schedule) = schedule {
                        self.apply(&schedule).await;
                    }
                    poll.set(self.client.clone().next_schedule(name));
                }
                _ = ticks.tick() => {
                    if self.pace.once && self.is_round_over() {
                        return Ok(());
                    }
                    self.tick().await?;
                }
                _ = looks.tick() => self.look().await,
            }
        }
    }

    /// Waits until all nodes are there and the daemon schedules.
    async fn begin(&mut self) {
        let nodes = count(0..cluster::size());
        loop {
            if let Some(status) = self.client.get::<wire::Status>("/v1/status").await {
                self.tally.status(&status);
                if status.ready && status.nodes.up == nodes {
                    self.story.ready(self.started.elapsed(), &status);
                    break;
                }
                if status.nodes.up == nodes {
                    // The daemon schedules nothing before it knows the running processes: none.
                    self.publish().await;
                }
            }
            sleep(self.pace.cycle_period).await;
        }
        self.began = Instant::now();
    }

    /// Lets time pass in the world and publishes the effects.
    async fn tick(&mut self) -> Result<(), DemoError> {
        if self.is_round_over() {
            self.next_round()?;
        }
        let at = self.started.elapsed();
        let now = self.now();
        let news = self.orchestrator.advance(now);
        for job in news.submitted {
            if let Some(request) = self.orchestrator.request(job) {
                self.tally.submitted += 1;
                self.story.submit(at, job, request);
            }
        }
        for completed in news.completed {
            self.tally.completed += 1;
            self.story.complete(completed);
        }
        self.publish().await;
        while let Some(incident) = self.incidents.pop_front_if(|incident| incident.at <= now) {
            self.strike(incident.what).await;
        }
        if let Some(status) = self.client.get("/v1/status").await {
            self.tally.status(&status);
        }
        self.story.pause(self.started.elapsed());
        if !self.pace.once && self.chapter <= at {
            self.chapter += CHAPTER;
            self.story.summary(at, &self.tally.report(&self.client, self.orchestrator.worked()));
        }
        Ok(())
    }

    /// Follows a new schedule, and confirms it at once.
    async fn apply(&mut self, schedule: &wire::Schedule) {
        let applied = self.orchestrator.apply(schedule);
        self.publish().await;
        self.tally.applied(&applied);
        let receipts = self.receipts(&applied.stopped).await;
        for stopped in applied.stopped {
            match stopped.reason {
                RemovalReason::Preempted => {
                    self.story.preempt(&stopped, receipts.get(&stopped.share), &self.orchestrator);
                }
                RemovalReason::NodeDied => {
                    self.lost.entry(stopped.node.clone()).or_default().push(stopped);
                }
                // Told when the administrator's act was answered.
                RemovalReason::VariedOff
                | RemovalReason::Blacklisted
                | RemovalReason::Withdrawn
                | RemovalReason::Window
                | RemovalReason::ClassClosed
                | RemovalReason::Overrun
                | RemovalReason::GangBroken => {}
            }
        }
        self.story.schedule(self.started.elapsed(), schedule, &self.orchestrator);
    }

    /// Returns the daemon's account of each preemption, by share: the beneficiary and the rule.
    async fn receipts(&self, stopped: &[Stopped]) -> BTreeMap<u64, PreemptionInfo> {
        let preempted = stopped.iter().filter(|stopped| stopped.reason == RemovalReason::Preempted);
        let mut victims: Vec<u64> = preempted.map(|stopped| stopped.job).collect();
        victims.sort_unstable();
        victims.dedup();
        let mut receipts = BTreeMap::new();
        for victim in victims {
            if let Some(why) = self.client.get::<wire::Why>(&format!("/v1/jobs/{victim}/why")).await
            {
                receipts.extend(why.taken_from_it.into_iter().map(|taken| (taken.share, taken)));
            }
        }
        receipts
    }

    /// Looks at everything: for the fair split, for dead nodes, for the error.
    async fn look(&mut self) {
        let at = self.started.elapsed();
        let classes = self.client.get::<wire::ClassList>("/v1/classes").await;
        let jobs = self.client.get::<wire::JobPage>("/v1/jobs?limit=1000").await;
        let nodes = self.client.get::<wire::NodeList>("/v1/nodes").await;
        if let (Some(classes), Some(jobs), Some(nodes)) = (classes, jobs, nodes) {
            self.tally.fairness.look(&classes.classes, &jobs.jobs, &nodes.nodes);
            let (died, revived) = self.tally.nodes(&nodes.nodes);
            for node in died {
                let lost = self.lost.remove(&node).unwrap_or_default();
                self.story.dead(at, &node, &lost);
            }
            if !revived.is_empty() {
                self.story.back(at, &revived);
            }
            self.nodes = nodes.nodes;
        }
        if let Some(load) = self.client.get("/v1/load").await {
            self.story.load(at, &load);
        }
    }

    async fn strike(&mut self, what: Blow) {
        match what {
            Blow::NodeDies => self.silence_a_node(),
            Blow::NodeReturns => self.outages.send_modify(Outages::end),
            Blow::VaryOff { nodes, reason } => self.vary_off(nodes, reason).await,
            Blow::VaryOn => self.vary_on().await,
        }
    }

    /// Silences the node with most work before it, so that its loss shows; none with work that
    /// would be over for good.
    fn silence_a_node(&mut self) {
        let work_left = |node: &NodeInfo| -> u64 {
            node.shares.iter().map(|share| self.orchestrator.remaining(share.job)).sum()
        };
        let candidates = self.nodes.iter().filter(|node| self.has_only_jobs(node));
        if let Some(node) = candidates.max_by_key(|node| work_left(node)) {
            self.outages.send_modify(|outages| outages.silence(&node.name));
            self.story.silent(self.started.elapsed(), &node.name, count(&node.shares));
        }
    }

    /// Takes out a node with work that nothing preempts, and the busiest ones besides.
    async fn vary_off(&mut self, nodes: usize, reason: String) {
        let is_up = |node: &&NodeInfo| {
            node.states.contains(&wire::NodeState::Up) && !node.shares.is_empty()
        };
        let (mut busy, fixed): (Vec<&NodeInfo>, Vec<&NodeInfo>) =
            self.nodes.iter().filter(is_up).partition(|node| self.has_only_jobs(node));
        busy.sort_by_key(|node| Reverse(node.used));
        let mixed = fixed.into_iter().max_by_key(|node| node.shares.len());
        let chosen = mixed.into_iter().chain(busy).take(nodes).map(|node| node.name.clone());
        let request = wire::VaryOff { nodes: chosen.collect(), reason, dry_run: false, all: false };
        if let Some(answer) = self.client.post::<VaryAnswer>("/v1/nodes/vary-off", &request).await {
            self.story.varied_off(self.started.elapsed(), &answer, &request.reason);
            self.varied_off.extend(answer.changed);
        }
    }

    async fn vary_on(&mut self) {
        if self.varied_off.is_empty() {
            return;
        }
        let request = wire::VaryOn { nodes: std::mem::take(&mut self.varied_off), dry_run: false };
        if let Some(answer) = self.client.post::<VaryAnswer>("/v1/nodes/vary-on", &request).await {
            self.story.varied_on(self.started.elapsed(), &answer);
        }
    }

    fn has_only_jobs(&self, node: &NodeInfo) -> bool {
        let kind = |job: u64| self.orchestrator.request(job).map(|request| request.kind);
        node.shares.iter().all(|share| kind(share.job) == Some(WorkKind::Job))
    }

    async fn publish(&mut self) {
        self.sequence += 1;
        self.client.publish(&self.orchestrator.publication(self.sequence)).await;
    }

    /// The same users come again with other jobs. Jobs that run keep their numbers and go on.
    fn next_round(&mut self) -> Result<(), DemoError> {
        self.round += 1;
        let Round { end, requests, incidents } = Round::bundled(self.pace.seed, self.round)?;
        self.orchestrator.submit(requests);
        self.incidents.extend(incidents);
        self.round_end = end;
        self.story.round(self.started.elapsed(), self.round);
        Ok(())
    }

    /// Sums up.
    async fn close(mut self) -> DemoReport {
        if let Some(status) = self.client.get("/v1/status").await {
            self.tally.status(&status);
        }
        let at = self.started.elapsed();
        let report = self.tally.report(&self.client, self.orchestrator.worked());
        self.story.plain("");
        self.story.conclusion(at, &report);
        self.story.troubles(at, &report);
        self.story.plain("");
        for line in NEXT {
            self.story.plain(line);
        }
        report
    }

    /// The time of the world.
    fn now(&self) -> Millis {
        millis(self.began.elapsed()) * self.pace.speed.get()
    }

    fn is_round_over(&self) -> bool {
        self.round_end <= self.now()
    }
}

/// Ends when this process gets a signal to end.
async fn interrupted() {
    let terminated = async {
        match signal::unix::signal(signal::unix::SignalKind::terminate()) {
            Ok(mut terminate) => terminate.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = signal::ctrl_c() => {}
        _ = terminated => {}
    }
}

/// The clock of a round that begins now.
fn clock(speed: NonZeroU64) -> RoundClock {
    let epoch_ms = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0);
    RoundClock { epoch_ms, speed }
}

fn millis(time: Duration) -> Millis {
    Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX)
}
