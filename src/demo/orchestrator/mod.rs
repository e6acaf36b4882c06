//! The demo's orchestrator: plays processes and items, publishes all of it, and follows the
//! schedule.
//!
//! Knows of the daemon only the documents that cross HTTP: publications out, schedules in.
//! Processes are the simulator's [`World`]; the caller passes the time in. A share number stands
//! for a single process and is never used again, so a late schedule cannot bring an exited process
//! back.

use std::collections::{BTreeMap, BTreeSet};

use super::workload::WorkRequest;
use crate::api::wire::{self, Assigned, ProcessState, RemovalReason, WorkKind, WorkState};
use crate::model::{Millis, ProcessLimit, count};
use crate::sim::world::{ProcessIx, Stage, WorkIx, World};

/// All work of a round, and its processes.
#[derive(Debug)]
pub(super) struct DemoOrchestrator {
    requests: Vec<WorkRequest>,
    world: World,
    /// Number of the first job; the other jobs follow in the order of submission.
    /// Start and speed of the round, to date the submitted work.
    clock: RoundClock,
    processes: BTreeMap<u64, ProcessSeat>,
    shares: BTreeMap<ProcessIx, u64>,
    /// Shares whose processes have gone, until a schedule does without them.
    gone: BTreeMap<u64, Gone>,
    /// Requests that are over before their work is done: their only process was lost.
    withdrawn: BTreeSet<WorkIx>,
}

/// Relates the time of the world to that on the wall.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundClock {
    /// The start of the round, in milliseconds since the epoch.
    pub epoch_ms: u64,
    /// Speed of the world's time, as a multiple of the wall clock's.
    pub speed: std::num::NonZeroU64,
}

/// A process and where it is.
#[derive(Clone, Debug)]
struct ProcessSeat {
    process: ProcessIx,
    node: String,
    is_reservation: bool,
}

/// Facts of an exited process that are not published yet.
#[derive(Clone, Debug)]
struct Gone {
    work: WorkIx,
    node: String,
}

/// Events in the world since the last call.
#[derive(Debug, Default)]
pub(super) struct RoundNews {
    /// Work submitted.
    pub submitted: Vec<u64>,
    /// Work done.
    pub completed: Vec<Completed>,
}

/// Work that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Completed {
    /// Number of the job.
    pub job: u64,
    /// Duration, from submission on.
    pub took: Millis,
}

/// Changes that a schedule made.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// Processes started.
    pub started: Vec<Started>,
    /// Processes stopped.
    pub stopped: Vec<Stopped>,
}

/// A process that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Started {
    /// The work it is for.
    pub job: u64,
    /// Name of the node.
    pub node: String,
}

/// A process that was terminated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stopped {
    /// The work it was for.
    pub job: u64,
    /// Number of the share.
    pub share: u64,
    /// Name of its node.
    pub node: String,
    /// Reason of the removal.
    pub reason: RemovalReason,
    /// Thread time spent on items that were not finished.
    pub lost: Millis,
}

/// Number of the first job.
const FIRST_JOB: u64 = 1;

impl DemoOrchestrator {
    /// Builds an orchestrator that has submitted nothing yet.
    pub fn new(requests: Vec<WorkRequest>, clock: RoundClock) -> DemoOrchestrator {
        let world = World::new(requests.iter().map(|request| request.work.clone()).collect());
        DemoOrchestrator {
            requests,
            world,
            clock,
            processes: BTreeMap::new(),
            shares: BTreeMap::new(),
            gone: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
        }
    }

    /// Adds requests, numbered after those that there are.
    pub fn submit(&mut self, requests: Vec<WorkRequest>) {
        self.world.submit(requests.iter().map(|request| request.work.clone()).collect());
        self.requests.extend(requests);
    }

    /// Thread time of all items that are finished.
    pub fn worked(&self) -> Millis {
        self.world.worked()
    }

    /// Returns the request with this number.
    pub fn request(&self, job: u64) -> Option<&WorkRequest> {
        self.requests.get(self.work_ix(job)?.0)
    }

    /// Number of a job's processes, without terminating processes.
    pub fn held(&self, job: u64) -> u64 {
        self.work_ix(job).map_or(0, |work| count(self.world.held(work)))
    }

    /// Items of a job that are not finished.
    pub fn remaining(&self, job: u64) -> u64 {
        self.work_ix(job).map_or(0, |work| self.world.job_facts(work).remaining)
    }

    /// Lets everything happen until `now`.
    pub fn advance(&mut self, now: Millis) -> RoundNews {
        self.world.advance(now);
        let news = self.world.tell();
        let ended = news.completed.iter().flat_map(|(_, processes)| processes);
        for process in news.drained.iter().chain(&news.left).chain(ended) {
            self.vacate(*process);
        }
        let completed = news.completed.iter().filter(|(work, _)| !self.withdrawn.contains(work));
        RoundNews {
            submitted: news.arrived.iter().map(|&work| number_of(work)).collect(),
            completed: completed.map(|&(work, _)| self.completed(work)).collect(),
        }
    }

    /// All work there is now.
    pub fn publication(&self, sequence: u64) -> wire::Publication {
        let mut processes: BTreeMap<WorkIx, Vec<wire::Process>> = BTreeMap::new();
        for (&share, seat) in &self.processes {
            let of_work = processes.entry(self.world.work_of(seat.process)).or_default();
            of_work.push(self.process(share, seat));
        }
        for (&share, gone) in &self.gone {
            processes.entry(gone.work).or_default().push(gone.process(share));
        }
        let active = self.world.active().iter().filter(|work| !self.withdrawn.contains(work));
        let work =
            active.map(|&work| self.publish(work, processes.remove(&work).unwrap_or_default()));
        wire::Publication {
            sequence,
            full: true,
            publisher: None,
            epoch: None,
            work: work.collect(),
        }
    }

    /// Follows the schedule: stops first, then starts, then lets idle threads work.
    pub fn apply(&mut self, schedule: &wire::Schedule) -> Applied {
        let mut applied = Applied::default();
        for job in &schedule.jobs {
            for removed in &job.removed {
                applied.stopped.extend(self.stop(job.id, removed));
            }
        }
        for job in &schedule.jobs {
            for added in &job.added {
                applied.started.extend(self.start(job.id, added));
            }
        }
        self.world.settle();
        let held = schedule.jobs.iter().flat_map(|job| &job.shares).map(|held| held.share);
        let removed =
            schedule.jobs.iter().flat_map(|job| &job.removed).map(|removed| removed.share);
        let named: BTreeSet<u64> = held.chain(removed).collect();
        self.gone.retain(|share, _| named.contains(share));
        applied
    }

    fn stop(&mut self, job: u64, removed: &wire::Removed) -> Option<Stopped> {
        let seat = self.processes.get(&removed.share)?;
        let (process, node) = (seat.process, seat.node.clone());
        if self.world.stage(process) == Stage::Draining {
            return None;
        }
        let lost = self.world.preempt(process);
        if removed.purge {
            // The node is gone, so the process needs no time to exit.
            self.vacate(process);
        }
        let work = self.world.work_of(process);
        if self.requests[work.0].kind != WorkKind::Job {
            self.withdrawn.insert(work);
        }
        Some(Stopped { job, share: removed.share, node, reason: removed.reason, lost })
    }

    fn start(&mut self, job: u64, added: &Assigned) -> Option<Started> {
        let work = self.work_ix(job).filter(|work| self.world.active().contains(work))?;
        if self.processes.contains_key(&added.share) || self.gone.contains_key(&added.share) {
            return None;
        }
        let process = self.world.start(work);
        let is_reservation = self.requests[work.0].kind == WorkKind::Reservation;
        self.shares.insert(process, added.share);
        self.processes
            .insert(added.share, ProcessSeat { process, node: added.node.clone(), is_reservation });
        Some(Started { job, node: added.node.clone() })
    }

    /// Enters that a process has gone, to be confirmed with the next publication.
    fn vacate(&mut self, process: ProcessIx) {
        let share = self.shares.remove(&process);
        if let Some((share, seat)) = share.and_then(|share| self.processes.remove_entry(&share)) {
            let gone = Gone { work: self.world.work_of(process), node: seat.node };
            self.gone.insert(share, gone);
        }
    }

    fn publish(&self, ix: WorkIx, processes: Vec<wire::Process>) -> wire::Work {
        let (request, facts) = (&self.requests[ix.0], self.world.job_facts(ix));
        let work = &request.work;
        let is_service = request.kind == WorkKind::Service;
        let submitted = self.clock.wall(work.submitted);
        wire::Work {
            class: Some(work.class.clone()),
            memory_mb: Some(work.memory.0),
            threads: work.threads.get(),
            state: if facts.is_running { WorkState::Running } else { WorkState::Schedulable },
            remaining: facts.remaining,
            max_processes: match facts.limit {
                ProcessLimit::AtMost(limit) => Some(limit),
                ProcessLimit::Unlimited | ProcessLimit::Frozen => None,
            },
            frozen: facts.limit == ProcessLimit::Frozen,
            running: facts.is_running,
            time_per_item_ms: facts.time_per_item.and_then(|time| i64::try_from(time).ok()),
            service_id: is_service.then_some(request.submission),
            processes,
            ..wire::Work::of(number_of(ix), request.kind, work.user.clone(), submitted)
        }
    }

    fn process(&self, share: u64, seat: &ProcessSeat) -> wire::Process {
        let facts = self.world.process_facts(seat.process);
        let state = match self.world.stage(seat.process) {
            // A reservation starts no process: it is in use from the beginning.
            Stage::Initializing if seat.is_reservation => ProcessState::Running,
            Stage::Initializing => ProcessState::Initializing,
            Stage::Working => ProcessState::Running,
            Stage::Draining => ProcessState::Stopping,
            Stage::Gone => ProcessState::Gone,
        };
        let signed = |time: Millis| i64::try_from(time).unwrap_or(i64::MAX);
        wire::Process {
            share,
            node: seat.node.clone(),
            state,
            initialization_ms: signed(facts.initialization),
            investment_ms: signed(facts.investment),
        }
    }

    fn completed(&self, work: WorkIx) -> Completed {
        let ended = self.world.ended(work).unwrap_or(self.world.now());
        Completed { job: number_of(work), took: ended - self.world.work(work).submitted }
    }

    fn work_ix(&self, job: u64) -> Option<WorkIx> {
        let ix = usize::try_from(job.checked_sub(FIRST_JOB)?).ok()?;
        (ix < self.requests.len()).then_some(WorkIx(ix))
    }
}

impl Gone {
    fn process(&self, share: u64) -> wire::Process {
        wire::Process {
            share,
            node: self.node.clone(),
            state: ProcessState::Gone,
            initialization_ms: 0,
            investment_ms: 0,
        }
    }
}

impl RoundClock {
    /// A time in the world, as milliseconds since the epoch.
    fn wall(self, time: Millis) -> u64 {
        self.epoch_ms + crate::model::floor_div(time, self.speed)
    }
}

/// Number of a job.
fn number_of(work: WorkIx) -> u64 {
    FIRST_JOB + count(0..work.0)
}

#[cfg(test)]
mod tests;
