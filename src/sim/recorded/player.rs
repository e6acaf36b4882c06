//! Plays a scenario: turns its text into events, lets the scheduler decide, and writes the
//! decisions down.
//!
//! Takes the place of the orchestrator and the agents, and keeps their state: the running processes
//! with their facts, and the reports of each node.

use std::collections::BTreeMap;

use super::actor::JobActor;
use super::arrival::{limit, request};
use super::config::topology;
use super::document::{PlayedCycle, PlayedDocument, PlayedJob};
use super::lines;
use super::scenario::{
    AutoRun, CycleInput, EventInput, JobInput, NodesInput, ProcInput, RunInput, Scenario,
    ScenarioConfig, TimeInput, UpdateInput, WindowInput, WindowKindInput,
};
use crate::model::{
    JobId, JobKind, JobSpec, Mebibytes, Millis, Name, NodeReport, ProcessLimit, ShareFacts,
    ShareId, SharePhase, Tags, Window, WindowKind, expand_hostlist,
};
use crate::scheduler::{
    AdminCommand, CommandError, JobDisposition, JobView, Removal, Scheduler, SchedulerEvent,
    UrgentVerdict, View,
};
use crate::sim::count;
use crate::sim::error::Flaw;

/// Code of a change that the job's owner may not make.
const IMMUTABLE: &str = "immutable";

/// Beginning of a name that stands for the node of a process: `$node:JOB:RANK`.
const NODE_OF: &str = "$node:";

/// Plays all cycles of `scenario`.
pub fn play(scenario: &Scenario) -> Result<PlayedDocument, Flaw> {
    let mut player = Player::new(scenario)?;
    let mut cycles = Vec::with_capacity(scenario.cycles.len());
    for (cycle, input) in (0..).zip(&scenario.cycles) {
        cycles.push(player.cycle(cycle, input)?);
    }
    Ok(PlayedDocument { name: scenario.name.clone(), cycles })
}

/// Tells the hours of classes that are not always open.
fn tell_hours(scheduler: &mut Scheduler, config: &ScenarioConfig) {
    let classes = config.classes.iter();
    let hours: Vec<_> = classes
        .filter_map(|class| Some((class.name.as_str().into(), class.active.clone()?)))
        .collect();
    if !hours.is_empty() {
        scheduler.record(SchedulerEvent::ClassHours { hours });
    }
}

struct Player<'a> {
    scenario: &'a Scenario,
    scheduler: Scheduler,
    nodes: BTreeMap<String, Mebibytes>,
    jobs: BTreeMap<JobId, JobActor>,
    arrivals: u64,
    has_clock: bool,
    /// Time of the present cycle, from the start of the scenario.
    now: Millis,
    /// Changes that the present cycle refused.
    refused: BTreeMap<u64, &'static str>,
}

impl<'a> Player<'a> {
    fn new(scenario: &'a Scenario) -> Result<Player<'a>, Flaw> {
        let has_clock = scenario.has_clock();
        let mut scheduler = Scheduler::new(topology(&scenario.config, has_clock)?, ShareId(1));
        tell_hours(&mut scheduler, &scenario.config);
        Ok(Player {
            scenario,
            scheduler,
            nodes: BTreeMap::new(),
            jobs: BTreeMap::new(),
            arrivals: 0,
            has_clock,
            now: 0,
            refused: BTreeMap::new(),
        })
    }

    /// Plays a cycle as in README, "Order of work inside one cycle".
    fn cycle(&mut self, cycle: u64, input: &CycleInput) -> Result<PlayedCycle, Flaw> {
        self.set_clock(cycle, input)?;
        if self.scenario.options.auto_confirm {
            self.confirm(None);
        }
        if let Some(auto) = self.scenario.options.auto_run {
            self.auto_run(cycle, auto);
        }
        if self.scenario.options.auto_end {
            self.auto_end();
        }
        for (ix, event) in input.events.iter().enumerate() {
            self.event(event).map_err(|flaw| Flaw {
                place: format!("cycles[{cycle}].events[{ix}]{}", flaw.place),
                ..flaw
            })?;
        }
        if self.has_clock {
            self.scheduler.record(SchedulerEvent::TimeIs { now: self.now });
        }
        let view = self.scheduler.schedule();
        Ok(self.write_down(cycle, &view))
    }

    /// Sets the clock for a cycle: a publication period goes by where the scenario says nothing.
    fn set_clock(&mut self, cycle: u64, input: &CycleInput) -> Result<(), Flaw> {
        let period = self.scheduler.topology().settings.publication_period;
        let next = if cycle == 0 { 0 } else { self.now.saturating_add(period) };
        let at = input.at_ms.unwrap_or(next);
        if at < self.now {
            return Err(Flaw::new(
                format!("cycles[{cycle}].atMs"),
                format!("it is {at} after {}", self.now),
                "let the clock go forward",
            ));
        }
        self.now = at;
        Ok(())
    }

    /// Ends the work that has run for as long as it does.
    fn auto_end(&mut self) {
        let over = self.jobs.iter().filter(|(_, actor)| actor.is_over(self.now));
        for id in over.map(|(&id, _)| id).collect::<Vec<JobId>>() {
            self.end(id);
        }
    }

    fn end(&mut self, id: JobId) {
        self.jobs.remove(&id);
        self.scheduler.record(SchedulerEvent::JobCompleted { job: id });
    }

    fn event(&mut self, event: &EventInput) -> Result<(), Flaw> {
        match event {
            EventInput::Nodes(nodes) => self.report_nodes(nodes)?,
            EventInput::Node(node) => {
                self.report_node(&node.name, Mebibytes::from_gib(node.memory_gb), false);
            }
            EventInput::Quiesce { name } => {
                let memory = *self.nodes.get(name).ok_or_else(|| unknown("node", name))?;
                self.report_node(name, memory, true);
            }
            EventInput::Miss { name, count } => {
                self.scheduler.record(SchedulerEvent::NodeMissedHeartbeats {
                    node: name.as_str().into(),
                    missed: *count,
                });
            }
            EventInput::Dead { names } => {
                for name in names {
                    let node = self.node_named(name)?.into();
                    self.scheduler.record(SchedulerEvent::NodeDied { node });
                }
            }
            EventInput::VaryOff { names } => {
                self.vary(names, |nodes| AdminCommand::VaryOff {
                    nodes,
                    reason: "as the scenario says".to_owned(),
                });
            }
            EventInput::VaryOn { names } => {
                self.vary(names, |nodes| AdminCommand::VaryOn { nodes });
            }
            EventInput::Job(job) => self.submit(job)?,
            EventInput::Urgent { job } => self.submit_urgent(job)?,
            EventInput::Update(update) => self.update(update)?,
            EventInput::Run(run) => self.run(run)?,
            EventInput::Proc(input) => self.report_processes(input)?,
            EventInput::ProcDone { id, sel } => {
                for share in self.actor(*id)?.select(sel)? {
                    self.exit(JobId(*id), share);
                }
            }
            EventInput::Done { id } => self.end(JobId(*id)),
            EventInput::Confirm { id } => self.confirm(id.map(JobId)),
            EventInput::Reserve(input) => self.reserve(input)?,
            EventInput::Unreserve { name } => {
                let command = AdminCommand::Unreserve { name: name.as_str().into() };
                self.scheduler.command(command).expect("a window may always go");
            }
            EventInput::Whitelist {} => self.whitelist(),
            EventInput::Reconfigure { config } => {
                let topology = topology(config, self.has_clock)?;
                let refused = |error| {
                    Flaw::new("", format!("the scheduler refused it: {error}"), "correct the names")
                };
                self.scheduler
                    .command(AdminCommand::Reconfigure(Box::new(topology)))
                    .map_err(refused)?;
                tell_hours(&mut self.scheduler, config);
            }
        }
        Ok(())
    }

    /// Keeps nodes for a span of time.
    fn reserve(&mut self, input: &WindowInput) -> Result<(), Flaw> {
        let nodes = expand_hostlist(&input.nodes).map_err(|error| {
            Flaw::new(".nodes", error.to_string(), "write a host list, as n[1-4]")
        })?;
        let mut nodes: Vec<Name> = nodes.iter().map(|name| name.as_str().into()).collect();
        nodes.sort_unstable();
        let window = Window {
            name: input.name.as_str().into(),
            kind: match input.kind {
                WindowKindInput::Reservation => WindowKind::Reservation,
                WindowKindInput::Maintenance => WindowKind::Maintenance,
            },
            nodes,
            from: input.from_ms,
            to: input.to_ms,
            users: input.users.iter().map(|user| user.as_str().into()).collect(),
            classes: Vec::new(),
            reason: "as the scenario says".to_owned(),
        };
        let refused = |error: CommandError| {
            Flaw::new("", format!("the scheduler refused it: {error}"), "correct the window")
        };
        let command = AdminCommand::Reserve { window: Box::new(window), is_forced: false };
        self.scheduler.command(command).map_err(refused)?;
        Ok(())
    }

    fn report_nodes(&mut self, nodes: &NodesInput) -> Result<(), Flaw> {
        for (name, gb) in &nodes.list {
            self.report_node(name, Mebibytes::from_gib(*gb), false);
        }
        let names = nodes.range.as_deref().map_or(Ok(Vec::new()), expand_hostlist);
        let names = names.map_err(|error| {
            Flaw::new(".range", error.to_string(), "write a host list, as n[1-4]")
        })?;
        for name in names {
            self.report_node(&name, Mebibytes::from_gib(nodes.memory_gb), false);
        }
        Ok(())
    }

    /// The node that a name means: itself, or the node of a process.
    fn node_named(&mut self, name: &str) -> Result<String, Flaw> {
        let Some(process) = name.strip_prefix(NODE_OF) else { return Ok(name.to_owned()) };
        let numbers = process.split_once(':');
        let numbers = numbers.and_then(|(job, rank)| Some((job.parse().ok()?, rank.parse().ok()?)));
        let (job, rank) = numbers.ok_or_else(|| {
            Flaw::new("", format!("`{name}` names no process"), "write $node:JOB:RANK")
        })?;
        let node = self.actor(job)?.node_of_rank(rank);
        node.map(str::to_owned).ok_or_else(|| unknown("process", name))
    }

    fn report_node(&mut self, name: &str, memory: Mebibytes, is_quiesced: bool) {
        self.nodes.insert(name.to_owned(), memory);
        let report = NodeReport { tags: Tags::default(), name: name.into(), memory, is_quiesced };
        self.scheduler.record(SchedulerEvent::NodeReported(report));
    }

    /// Sends the command for each node by itself. A node that never reported is refused, as the
    /// original does, without an effect on the other nodes.
    fn vary(&mut self, names: &[String], command: impl Fn(Vec<String>) -> AdminCommand) {
        for name in names.iter().filter(|name| self.nodes.contains_key(*name)) {
            self.scheduler.command(command(vec![name.clone()])).expect("the node has reported");
        }
    }

    fn submit(&mut self, input: &JobInput) -> Result<(), Flaw> {
        let spec = self.arrive(input)?;
        self.scheduler.record(SchedulerEvent::JobArrived(spec));
        Ok(())
    }

    /// Submits a job by the urgent channel: the cycle accepts or refuses it.
    fn submit_urgent(&mut self, input: &JobInput) -> Result<(), Flaw> {
        let spec = Box::new(self.arrive(input)?);
        let refused = |error: CommandError| {
            Flaw::new("", format!("the scheduler refused it: {error}"), "give it another `id`")
        };
        self.scheduler.command(AdminCommand::Urgent(spec)).map_err(refused)?;
        Ok(())
    }

    fn arrive(&mut self, input: &JobInput) -> Result<JobSpec, Flaw> {
        let spec = request(input, self.arrivals)?;
        self.arrivals += 1;
        if self.jobs.insert(spec.id, JobActor::new(input, &spec)).is_some() {
            return Err(Flaw::new(
                "",
                format!("job {} is there already", spec.id),
                "give it another `id`",
            ));
        }
        Ok(spec)
    }

    fn update(&mut self, input: &UpdateInput) -> Result<(), Flaw> {
        let actor = self.actor(input.id)?;
        if let Some(total) = input.work_items {
            let finished = actor.total.saturating_sub(actor.facts.remaining);
            actor.facts.remaining = total.saturating_sub(finished);
            actor.total = total;
        }
        let facts = &mut actor.facts;
        facts.remaining = input.remaining.unwrap_or(facts.remaining);
        match input.time_per_item_ms {
            TimeInput::Unchanged => {}
            TimeInput::Unknown => facts.time_per_item = None,
            TimeInput::Known(time) => facts.time_per_item = Some(time),
        }
        facts.is_running = input.running.unwrap_or(facts.is_running);
        facts.is_completing = input.completing.unwrap_or(facts.is_completing);
        if input.max_processes.is_some() {
            facts.limit = limit(input.max_processes);
        }
        if let Some(processes) = input.processes {
            self.resize(JobId(input.id), processes);
        }
        self.tell_job(JobId(input.id));
        Ok(())
    }

    /// Lets the owner of a job ask for another number of processes. Only an evolving gang takes it.
    fn resize(&mut self, id: JobId, processes: u64) {
        let actor = self.jobs.get_mut(&id).expect("its caller has found it");
        if actor.is_evolving_gang() {
            actor.facts.limit = ProcessLimit::AtMost(processes);
            actor.facts.remaining = processes;
        } else {
            self.refused.insert(id.0, IMMUTABLE);
        }
    }

    fn run(&mut self, input: &RunInput) -> Result<(), Flaw> {
        let actor = self.actor(input.id)?;
        actor.facts.is_running = true;
        actor.facts.time_per_item = Some(input.time_per_item_ms);
        actor.facts.remaining = input.remaining.unwrap_or(actor.facts.remaining);
        for process in actor.shares.values_mut() {
            process.facts.is_initialized = true;
            process.facts.initialization = input.init_ms;
            process.facts.investment = input.investment_ms.unwrap_or(process.facts.investment);
        }
        self.tell_job(JobId(input.id));
        self.tell_processes(JobId(input.id));
        Ok(())
    }

    fn report_processes(&mut self, input: &ProcInput) -> Result<(), Flaw> {
        let actor = self.actor(input.id)?;
        for share in actor.select(&input.sel)? {
            let facts = &mut actor.shares.get_mut(&share).expect("it was selected").facts;
            facts.is_initialized = input.initialized.unwrap_or(facts.is_initialized);
            facts.initialization = input.init_ms.unwrap_or(facts.initialization);
            facts.investment = input.investment_ms.unwrap_or(facts.investment);
        }
        self.tell_processes(JobId(input.id));
        Ok(())
    }

    /// Lets jobs with processes make progress. README, "autoRun".
    fn auto_run(&mut self, cycle: u64, auto: AutoRun) {
        let is_at_work = |(_, actor): &(&JobId, &JobActor)| {
            actor.kind == JobKind::Job && !actor.shares.is_empty()
        };
        let ids: Vec<JobId> = self.jobs.iter().filter(is_at_work).map(|(&id, _)| id).collect();
        for id in ids {
            let actor = self.jobs.get_mut(&id).expect("listed above");
            let done = auto.items_per_process * count(actor.shares.len());
            actor.facts.is_running = true;
            actor.facts.time_per_item = Some(auto.time_per_item_ms);
            actor.facts.remaining = actor.facts.remaining.saturating_sub(done).max(1);
            for process in actor.shares.values_mut() {
                let investment = (cycle - process.since) * auto.invest_per_cycle_ms;
                process.facts =
                    ShareFacts { is_initialized: true, initialization: auto.init_ms, investment };
            }
            self.tell_job(id);
            self.tell_processes(id);
        }
    }

    /// Reports the terminated shares of a job, or of all jobs, as gone. The shares of refused work
    /// are not confirmed: the original does not know them, and they leave with "whitelist".
    fn confirm(&mut self, job: Option<JobId>) {
        let mut gone = Vec::new();
        for (&id, actor) in self.jobs.iter().filter(|&(&id, _)| job.is_none_or(|job| job == id)) {
            let leaving = actor
                .shares
                .iter()
                .filter(|(_, process)| process.is_leaving() && !process.is_blacklisted);
            gone.extend(leaving.map(|(&share, _)| (id, share)));
            gone.extend(actor.purged.iter().map(|&share| (id, share)));
        }
        for (id, share) in gone {
            self.exit(id, share);
        }
    }

    /// Reports all shares of refused work gone.
    fn whitelist(&mut self) {
        let mut gone = Vec::new();
        for (&id, actor) in &self.jobs {
            let blacklisted = actor.shares.iter().filter(|(_, process)| process.is_blacklisted);
            gone.extend(blacklisted.map(|(&share, _)| (id, share)));
        }
        for (id, share) in gone {
            self.exit(id, share);
        }
    }

    /// Reports a process as gone. Work of a single process ends with it: the outer layer ensures
    /// that the work gets no other process.
    fn exit(&mut self, id: JobId, share: ShareId) {
        let actor = self.jobs.get_mut(&id).expect("the share is one of its own");
        actor.shares.remove(&share);
        actor.purged.remove(&share);
        self.scheduler.record(SchedulerEvent::ShareExited { job: id, share });
        if actor.kind != JobKind::Job {
            actor.facts.is_completing = true;
            self.tell_job(id);
        }
    }

    fn tell_job(&mut self, id: JobId) {
        let facts = self.jobs[&id].facts;
        self.scheduler.record(SchedulerEvent::JobChanged { job: id, facts });
    }

    fn tell_processes(&mut self, id: JobId) {
        for (&share, process) in &self.jobs[&id].shares {
            let node = process.node.clone();
            self.scheduler.record(SchedulerEvent::ShareSeen {
                job: id,
                share,
                node: node.into(),
                facts: process.facts,
            });
        }
    }

    fn actor(&mut self, id: u64) -> Result<&mut JobActor, Flaw> {
        self.jobs.get_mut(&JobId(id)).ok_or_else(|| unknown("job", &id.to_string()))
    }

    fn write_down(&mut self, cycle: u64, view: &View) -> PlayedCycle {
        let jobs = view.jobs.iter().map(|job| self.write_down_job(cycle, job, view));
        let line = lines::cycle(cycle, jobs.collect(), view);
        let word = |verdict: &UrgentVerdict| {
            let word = if verdict.outcome.is_ok() { "accepted" } else { "refused" };
            (verdict.job.0, word)
        };
        let urgent: BTreeMap<u64, &'static str> = view.urgent.iter().map(word).collect();
        self.jobs.retain(|job, _| urgent.get(&job.0) != Some(&"refused"));
        PlayedCycle { refused: std::mem::take(&mut self.refused), urgent, ..line }
    }

    /// Writes the line of a job, and takes over the cycle's changes to its shares.
    fn write_down_job(&mut self, cycle: u64, job: &JobView, view: &View) -> PlayedJob {
        let actor = self.jobs.get_mut(&job.id).expect("the scheduler knows no work but ours");
        let mut line = lines::job(job, view);
        let mut told_to_go: Vec<Removal> = Vec::new();
        let is_refused = job.disposition == JobDisposition::Refused;
        for share in &job.shares {
            let (is_new, was_leaving) = actor.take_over(cycle, share, is_refused);
            if is_new {
                line.expanded.push(share.node.to_string());
            }
            if share.state == SharePhase::Leaving && !was_leaving {
                line.shrunken.push(share.node.to_string());
                told_to_go.extend(share.removal);
            }
        }
        actor.note_start(self.now);
        line.shrunken.extend(actor.bury(&job.purged).iter().map(ToString::to_string));
        line.expanded.sort();
        line.shrunken.sort();
        if self.has_clock {
            lines::tell_in_codes(&mut line, job, self.now);
            lines::tell_removed(&mut line, &told_to_go);
        }
        line
    }
}

fn unknown(what: &str, name: &str) -> Flaw {
    Flaw::new(
        "",
        format!("{what} {name} is not known"),
        format!("bring the {what} in with an earlier event"),
    )
}
