//! Fair-share work that fills what the jobs of a log leave: an endless job of small processes, which
//! give way to all jobs.

use std::collections::BTreeMap;

use super::cluster::{FILLER, ReplayCluster};
use crate::model::{
    JobFacts, JobId, JobKind, JobSpec, Mebibytes, Millis, Name, ProcessLimit, ShareId, SharePhase,
    Tags, count,
};
use crate::scheduler::JobView;

/// Processes that an endless job still has to do.
const ENDLESS: u64 = 1_000_000_000;

/// Use of memory by the endless job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FillerUse {
    /// Memory that its processes held until the last job of the log ended, in MiB times milliseconds.
    pub held: u128,
    /// Processes that were preempted.
    pub preempted: u64,
    /// Time that they had run, in milliseconds.
    pub lost: Millis,
}

/// The endless job, in a replay in progress.
#[derive(Debug)]
pub(super) struct Filler {
    /// Number of the job.
    pub job: JobId,
    /// Memory of a process, in whole quanta.
    memory: Mebibytes,
    /// Start of each process.
    shares: BTreeMap<ShareId, Millis>,
    /// Terminating shares, which hold their memory until the next cycle.
    leaving: BTreeMap<ShareId, Millis>,
    /// Moment up to which the use is counted.
    counted_to: Millis,
    usage: FillerUse,
}

impl Filler {
    /// The endless job, and its request; `None` if the replay has none.
    pub(super) fn new(cluster: &ReplayCluster, job: JobId) -> Option<(Filler, JobSpec)> {
        let memory = cluster.filler?;
        let spec = JobSpec {
            id: job,
            user: Name::from(FILLER),
            class: Name::from(FILLER),
            kind: JobKind::Job,
            memory,
            threads: 1,
            submitted: 0,
            nodes: Vec::new(),
            except_nodes: Vec::new(),
            service: 0,
            tags: Tags::default(),
            shape: None,
            facts: JobFacts {
                remaining: ENDLESS,
                limit: ProcessLimit::Unlimited,
                is_running: true,
                time_per_item: None,
                is_completing: false,
            },
        };
        let filler = Filler {
            job,
            memory,
            shares: BTreeMap::new(),
            leaving: BTreeMap::new(),
            counted_to: 0,
            usage: FillerUse::default(),
        };
        Some((filler, spec))
    }

    /// Counts the memory that is held until `now`. Terminating shares are gone then.
    pub(super) fn pass(&mut self, now: Millis) {
        let held =
            u128::from(self.memory.0) * u128::from(count(&self.shares) + count(&self.leaving));
        self.usage.held += held * u128::from(now.saturating_sub(self.counted_to));
        self.counted_to = now;
        self.leaving.clear();
    }

    /// Takes over its shares after a cycle; returns the shares that are to leave.
    pub(super) fn apply(&mut self, view: &JobView, now: Millis) -> Vec<ShareId> {
        for share in view.shares.iter().filter(|share| share.state == SharePhase::Held) {
            self.shares.entry(share.id).or_insert(now);
        }
        let leaving = view.shares.iter().filter(|share| share.state == SharePhase::Leaving);
        let mut told = Vec::new();
        for id in leaving.map(|share| share.id) {
            if let Some(start) = self.shares.remove(&id) {
                self.usage.preempted += 1;
                self.usage.lost = self.usage.lost.saturating_add(now - start);
                self.leaving.insert(id, start);
                told.push(id);
            }
        }
        told
    }

    /// The use so far.
    pub(super) fn usage(&self) -> FillerUse {
        self.usage
    }
}
