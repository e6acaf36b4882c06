//! Events on a cluster between two schedules: processes initialize, pull items, lose them and
//! leave. MODEL sections 3 to 5.
//!
//! Knows no scheduler, no node and no clock. A driver's cycle is: [`World::advance`],
//! [`World::tell`], then some [`World::preempt`] and [`World::start`], then [`World::settle`].
//!
//! Events happen in the order of their time; events of the same instant by job, process number and
//! thread, so that a run depends on nothing else.

mod process;
mod work;

pub use process::Stage;
pub use work::SimWork;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use self::process::{Assignment, WorldProcess};
use self::work::WorkProgress;
use crate::model::{JobFacts, Millis, ShareFacts};
use crate::sim::count;

/// Time from the start of a process to its first items.
pub const INITIALIZATION: Millis = 60_000;

/// A job's place in the list the world was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkIx(pub usize);

/// A process's place in the order in which all processes were started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessIx(pub usize);

impl fmt::Display for WorkIx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {}", self.0)
    }
}

impl fmt::Display for ProcessIx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.0)
    }
}

/// The end of an initialization, or of an item. The order of the fields is the order in which
/// things happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WorldEvent {
    at: Millis,
    work: WorkIx,
    number: u64,
    thread: usize,
    process: ProcessIx,
}

/// Facts that became known since the last tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorldNews {
    /// Jobs submitted.
    pub arrived: Vec<WorkIx>,
    /// Jobs of which a process initialized for the first time.
    pub first_initialized: Vec<WorkIx>,
    /// Preempted processes that are gone now.
    pub drained: Vec<ProcessIx>,
    /// Processes that left because their job has nothing more to start.
    pub left: Vec<ProcessIx>,
    /// Jobs complete, with the processes that went with them.
    pub completed: Vec<(WorkIx, Vec<ProcessIx>)>,
}

/// Use of a process's thread time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// Time of the items it finished.
    pub useful: Millis,
    /// Initializing, all threads together.
    pub initializing: Millis,
    /// All threads together, from its start until now.
    pub total: Millis,
}

/// The cluster's work.
#[derive(Debug)]
pub struct World {
    now: Millis,
    /// Thread time of all items that are finished.
    worked: Millis,
    works: Vec<WorkProgress>,
    processes: Vec<WorldProcess>,
    upcoming: BinaryHeap<Reverse<WorldEvent>>,
    /// Jobs that are not reported yet, the last to be submitted first.
    unsubmitted: Vec<WorkIx>,
    /// Jobs that are reported and not reported complete, in the order of submission.
    active: Vec<WorkIx>,
    draining: Vec<ProcessIx>,
    first_initialized: Vec<WorkIx>,
    /// Jobs to which items came back since the last settling.
    restocked: Vec<WorkIx>,
}

impl World {
    /// A world at time 0 in which nothing was submitted yet.
    pub fn new(works: Vec<SimWork>) -> World {
        let mut unsubmitted: Vec<WorkIx> = (0..works.len()).map(WorkIx).collect();
        unsubmitted.sort_by_key(|&ix| Reverse((works[ix.0].submitted, ix)));
        World {
            now: 0,
            worked: 0,
            works: works.into_iter().map(WorkProgress::new).collect(),
            processes: Vec::new(),
            upcoming: BinaryHeap::new(),
            unsubmitted,
            active: Vec::new(),
            draining: Vec::new(),
            first_initialized: Vec::new(),
            restocked: Vec::new(),
        }
    }

    /// Adds jobs, numbered after those that there are.
    pub fn submit(&mut self, works: Vec<SimWork>) {
        let first = self.works.len();
        self.works.extend(works.into_iter().map(WorkProgress::new));
        self.unsubmitted.extend((first..self.works.len()).map(WorkIx));
        let works = &self.works;
        self.unsubmitted.sort_by_key(|&ix| Reverse((works[ix.0].work.submitted, ix)));
    }

    /// Lets everything happen that happens until `to`, inclusive.
    pub fn advance(&mut self, to: Millis) {
        while let Some(&Reverse(next)) = self.upcoming.peek()
            && next.at <= to
        {
            self.upcoming.pop();
            self.happen(next);
        }
        self.now = to;
    }

    fn happen(&mut self, occurrence: WorldEvent) {
        let WorldEvent { at, work, thread, process, .. } = occurrence;
        let progress = &mut self.works[work.0];
        let worker = &mut self.processes[process.0];
        match worker.stage {
            Stage::Initializing => {
                worker.stage = Stage::Working;
                if !std::mem::replace(&mut progress.has_initialized, true) {
                    self.first_initialized.push(work);
                }
                for thread in 0..worker.threads.len() {
                    self.pull(process, thread, at);
                }
            }
            Stage::Working => {
                let done =
                    worker.threads[thread].take().expect("only a thread at work ends an item");
                worker.useful += progress.work.items[done.item];
                self.worked += progress.work.items[done.item];
                progress.finish(done.item, at);
                self.pull(process, thread, at);
            }
            // The process was preempted, or its job ended, before this could happen.
            Stage::Draining | Stage::Gone => {}
        }
    }

    /// Gives an idle thread the next item of the queue, if any.
    fn pull(&mut self, process: ProcessIx, thread: usize, now: Millis) {
        let worker = &mut self.processes[process.0];
        let progress = &mut self.works[worker.work.0];
        if let Some(item) = progress.pull() {
            worker.threads[thread] = Some(Assignment { item, since: now });
            let at = now + progress.work.items[item];
            let WorldProcess { work, number, .. } = *worker;
            self.upcoming.push(Reverse(WorldEvent { at, work, number, thread, process }));
        }
    }

    /// Returns the facts that became known since the last call; processes reported gone are gone.
    pub fn tell(&mut self) -> WorldNews {
        let mut news = WorldNews {
            first_initialized: std::mem::take(&mut self.first_initialized),
            ..WorldNews::default()
        };
        while let Some(&work) = self.unsubmitted.last()
            && self.works[work.0].work.submitted <= self.now
        {
            self.unsubmitted.pop();
            self.active.push(work);
            news.arrived.push(work);
        }
        news.drained = std::mem::take(&mut self.draining);
        for &process in &news.drained {
            self.processes[process.0].stage = Stage::Gone;
        }
        for &work in &self.active {
            if self.works[work.0].ended.is_some() {
                let gone = std::mem::take(&mut self.works[work.0].held);
                for process in &gone {
                    self.processes[process.0].stage = Stage::Gone;
                }
                news.completed.push((work, gone));
            } else {
                news.left.extend(self.works[work.0].dismiss(&mut self.processes));
            }
        }
        let works = &self.works;
        self.active.retain(|work| works[work.0].ended.is_none());
        news
    }

    /// Starts a process of a job, now.
    ///
    /// # Panics
    ///
    /// If a process of the job has more threads than this computer can address.
    pub fn start(&mut self, work: WorkIx) -> ProcessIx {
        let process = ProcessIx(self.processes.len());
        let progress = &mut self.works[work.0];
        let number = progress.processes_created;
        progress.processes_created += 1;
        progress.held.push(process);
        let threads =
            usize::try_from(progress.work.threads.get()).expect("threads can be addressed");
        self.processes.push(WorldProcess {
            work,
            number,
            stage: Stage::Initializing,
            started: self.now,
            threads: vec![None; threads],
            useful: 0,
        });
        self.upcoming.push(Reverse(WorldEvent {
            at: self.now + INITIALIZATION,
            work,
            number,
            thread: 0,
            process,
        }));
        process
    }

    /// Stops a process at once. Its items in progress go back to the queue, its space is taken
    /// until the next tell. Returns the time that is lost.
    ///
    /// # Panics
    ///
    /// If the process is draining or gone already.
    pub fn preempt(&mut self, process: ProcessIx) -> Millis {
        let victim = &mut self.processes[process.0];
        assert!(victim.is_held(), "{process} is preempted once");
        victim.stage = Stage::Draining;
        self.draining.push(process);
        let lost = victim.investment(self.now);
        let progress = &mut self.works[victim.work.0];
        progress.held.retain(|&held| held != process);
        for assignment in victim.threads.iter_mut().filter_map(Option::take) {
            progress.give_back(assignment.item);
        }
        self.restocked.push(victim.work);
        lost
    }

    /// Lets idle threads pull items that came back since the last call: processes by number, then
    /// threads by index. MODEL section 3, step 4.
    pub fn settle(&mut self) {
        for work in std::mem::take(&mut self.restocked) {
            for process in self.works[work.0].held.clone() {
                let worker = &self.processes[process.0];
                if worker.stage != Stage::Working {
                    continue;
                }
                let is_idle = |&thread: &usize| worker.threads[thread].is_none();
                for thread in (0..worker.threads.len()).filter(is_idle).collect::<Vec<_>>() {
                    self.pull(process, thread, self.now);
                }
            }
        }
    }

    /// Thread time of all items that are finished.
    pub fn worked(&self) -> Millis {
        self.worked
    }

    /// The time.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// True if every job was reported complete.
    pub fn is_over(&self) -> bool {
        self.unsubmitted.is_empty() && self.active.is_empty()
    }

    /// Jobs that are reported and not reported complete, in the order of submission.
    pub fn active(&self) -> &[WorkIx] {
        &self.active
    }

    /// A job as its file describes it.
    pub fn work(&self, work: WorkIx) -> &SimWork {
        &self.works[work.0].work
    }

    /// Every job.
    pub fn works(&self) -> impl ExactSizeIterator<Item = WorkIx> + use<> {
        (0..self.works.len()).map(WorkIx)
    }

    /// End of a job's last item; `None` before.
    pub fn ended(&self, work: WorkIx) -> Option<Millis> {
        self.works[work.0].ended
    }

    /// Items of a job that are finished.
    pub fn items_done(&self, work: WorkIx) -> u64 {
        self.works[work.0].finished()
    }

    /// A job's processes that are neither draining nor gone, in order of creation.
    pub fn held(&self, work: WorkIx) -> &[ProcessIx] {
        &self.works[work.0].held
    }

    /// The job a process belongs to.
    pub fn work_of(&self, process: ProcessIx) -> WorkIx {
        self.processes[process.0].work
    }

    /// Stage of a process.
    pub fn stage(&self, process: ProcessIx) -> Stage {
        self.processes[process.0].stage
    }

    /// Reported facts of a job. MODEL section 5.
    pub fn job_facts(&self, work: WorkIx) -> JobFacts {
        let progress = &self.works[work.0];
        let in_progress =
            progress.held.iter().flat_map(|process| self.processes[process.0].in_progress());
        JobFacts {
            remaining: progress.remaining(),
            limit: progress.work.limit(),
            is_running: progress.has_initialized,
            time_per_item: Some(progress.time_per_item(in_progress, self.now)),
            is_completing: false,
        }
    }

    /// Reported facts of a process. MODEL section 5.
    pub fn process_facts(&self, process: ProcessIx) -> ShareFacts {
        let process = &self.processes[process.0];
        ShareFacts {
            is_initialized: process.stage != Stage::Initializing,
            initialization: (self.now - process.started).min(INITIALIZATION),
            investment: process.investment(self.now),
        }
    }

    /// Use of a process's thread time from its start until now.
    pub fn spent(&self, process: ProcessIx) -> Spent {
        let process = &self.processes[process.0];
        let threads = count(process.threads.len());
        let held = self.now - process.started;
        Spent {
            useful: process.useful,
            initializing: threads * held.min(INITIALIZATION),
            total: threads * held,
        }
    }
}

impl WorldProcess {
    fn is_held(&self) -> bool {
        matches!(self.stage, Stage::Initializing | Stage::Working)
    }
}

impl WorkProgress {
    /// Lets processes go that have nothing to do and can get nothing: initialized, no item in
    /// progress, queue empty. MODEL section 4, "Voluntary exit".
    fn dismiss(&mut self, processes: &mut [WorldProcess]) -> Vec<ProcessIx> {
        if !self.is_queue_empty() {
            return Vec::new();
        }
        let is_useless = |process: &ProcessIx| {
            let process = &processes[process.0];
            process.stage == Stage::Working && process.in_progress().next().is_none()
        };
        let (left, kept): (Vec<_>, Vec<_>) = self.held.drain(..).partition(is_useless);
        self.held = kept;
        for process in &left {
            processes[process.0].stage = Stage::Gone;
        }
        left
    }
}

#[cfg(test)]
mod tests;
