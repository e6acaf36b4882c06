//! All jobs, each with its cached snapshot and view. A cycle goes through all jobs but recomputes
//! only changed jobs.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::jobs::{JobRecord, LastCycle};
use super::shares::{ShareList, ShareRecord};
use super::view::{JobView, Removal, ShareViews};
use crate::engine::{Job, JobReport};
use crate::model::{ClassIx, JobId, JobTimes, Millis, SharePhase, Topology};

/// Sort key of the jobs, oldest first: submission time, then job number.
pub(super) type Age = (Millis, JobId);

/// All work: found by number, gone through by age.
#[derive(Clone, Debug, Default)]
pub(super) struct Jobs {
    by_age: BTreeMap<Age, TrackedJob>,
    submitted: BTreeMap<JobId, Millis>,
    /// Number of jobs submitted to each class, by class index.
    of_classes: Vec<u64>,
    /// Number of gangs.
    gangs: u64,
    /// Number of jobs on which time decides.
    timed: u64,
}

/// A job with its cached snapshot for the engine and its cached view for readers. Mutable access
/// drops both caches. A job without changes therefore costs a cycle no new snapshot and no new
/// view.
#[derive(Clone, Debug)]
pub(super) struct TrackedJob {
    /// Boxed: a growing tree is little more than half full, which with large entries would cost as
    /// much memory as the entries. Most passes need not read the record.
    record: Box<JobRecord>,
    /// Since which cycle it has been below its count and has got nothing.
    behind_since: Option<u64>,
    picture: OnceCell<Arc<JobView>>,
    /// Cached views of the shares: for most jobs only the rest of the view changes.
    shares: OnceCell<ShareViews>,
    frozen: OnceCell<Arc<Job>>,
    /// True if the job has shares on nodes where the configuration does not allow them.
    has_strays: OnceCell<bool>,
    /// True if the report of a cycle covers the job.
    is_reported: bool,
    /// True if the job changed since the last cycle began.
    is_touched: bool,
}

impl Jobs {
    pub(super) fn len(&self) -> usize {
        self.by_age.len()
    }

    pub(super) fn contains(&self, job: JobId) -> bool {
        self.submitted.contains_key(&job)
    }

    pub(super) fn get(&self, job: JobId) -> Option<&TrackedJob> {
        self.by_age.get(&(*self.submitted.get(&job)?, job))
    }

    pub(super) fn get_mut(&mut self, job: JobId) -> Option<&mut TrackedJob> {
        self.by_age.get_mut(&(*self.submitted.get(&job)?, job))
    }

    /// Number of jobs submitted to `class`, refused jobs included.
    pub(super) fn of_class(&self, class: ClassIx) -> u64 {
        self.of_classes.get(class.0).copied().unwrap_or(0)
    }

    /// True if some job is a gang.
    pub(super) fn has_gangs(&self) -> bool {
        0 < self.gangs
    }

    /// True if time decides on some job.
    pub(super) fn have_times(&self) -> bool {
        0 < self.timed
    }

    /// Counts the jobs of each class again, after the classes were replaced.
    pub(super) fn count_anew(&mut self) {
        self.of_classes.clear();
        let classes: Vec<Option<ClassIx>> = self.values().map(|job| job.class).collect();
        for class in classes {
            self.count(class);
        }
    }

    fn count(&mut self, class: Option<ClassIx>) {
        let Some(class) = class else { return };
        if self.of_classes.len() <= class.0 {
            self.of_classes.resize(class.0 + 1, 0);
        }
        self.of_classes[class.0] += 1;
    }

    /// Enters a request whose number no other has.
    pub(super) fn enter(&mut self, record: JobRecord, behind_since: Option<u64>) {
        let age = record.age();
        self.gangs += u64::from(record.gang().is_some());
        self.timed += u64::from(record.has_times());
        self.count(record.class);
        self.submitted.insert(age.1, age.0);
        self.by_age.insert(age, TrackedJob::new(record, behind_since));
    }

    /// Replaces the times of a job, and admits it anew: its class may limit how long it runs.
    pub(super) fn retime(&mut self, job: JobId, times: JobTimes, topology: &Topology) {
        let Some(job) = self.get_mut(job) else { return };
        let had_times = job.has_times();
        job.spec.set_times(times);
        job.admit_anew(topology);
        let has_times = job.has_times();
        self.timed = self.timed - u64::from(had_times) + u64::from(has_times);
    }

    pub(super) fn remove(&mut self, job: JobId) -> Option<TrackedJob> {
        let submitted = self.submitted.remove(&job)?;
        let gone = self.by_age.remove(&(submitted, job))?;
        self.gangs -= u64::from(gone.gang().is_some());
        self.timed -= u64::from(gone.has_times());
        if let Some(class) = gone.class {
            self.of_classes[class.0] -= 1;
        }
        Some(gone)
    }

    /// The oldest first.
    pub(super) fn by_age(&self) -> impl ExactSizeIterator<Item = (Age, &TrackedJob)> {
        self.by_age.iter().map(|(&age, job)| (age, job))
    }

    /// The oldest first.
    pub(super) fn by_age_mut(&mut self) -> impl Iterator<Item = (Age, &mut TrackedJob)> {
        self.by_age.iter_mut().map(|(&age, job)| (age, job))
    }

    /// In the order of their numbers.
    pub(super) fn by_number(&self) -> impl Iterator<Item = &TrackedJob> {
        self.submitted.iter().map(|(&job, &submitted)| &self.by_age[&(submitted, job)])
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &TrackedJob> {
        self.by_age.values()
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut TrackedJob> {
        self.by_age.values_mut()
    }
}

impl Deref for TrackedJob {
    type Target = JobRecord;

    fn deref(&self) -> &JobRecord {
        &self.record
    }
}

impl DerefMut for TrackedJob {
    fn deref_mut(&mut self) -> &mut JobRecord {
        self.forget();
        &mut self.record
    }
}

impl TrackedJob {
    fn new(record: JobRecord, behind_since: Option<u64>) -> TrackedJob {
        // Most that come have no shares yet.
        let has_strays =
            if record.shares.is_empty() { OnceCell::from(false) } else { OnceCell::new() };
        TrackedJob {
            record: Box::new(record),
            behind_since,
            picture: OnceCell::new(),
            shares: OnceCell::new(),
            frozen: OnceCell::new(),
            has_strays,
            is_reported: false,
            is_touched: false,
        }
    }

    /// Returns the view of the job; `draw` builds it if the job changed since the last call.
    pub(super) fn picture(&self, draw: impl FnOnce(&TrackedJob) -> JobView) -> Arc<JobView> {
        Arc::clone(self.picture.get_or_init(|| Arc::new(draw(self))))
    }

    /// Returns the views of the job's shares; `draw` builds them if the job changed since the last
    /// call.
    pub(super) fn share_views(&self, draw: impl FnOnce(&ShareList) -> ShareViews) -> ShareViews {
        self.shares.get_or_init(|| draw(&self.record.shares)).clone()
    }

    /// Returns the engine's snapshot of the job; `freeze` builds it if the job changed since the
    /// last call.
    pub(super) fn frozen(&self, freeze: impl FnOnce(&TrackedJob) -> Job) -> Arc<Job> {
        Arc::clone(self.frozen.get_or_init(|| Arc::new(freeze(self))))
    }

    /// True if the job is unchanged since its last snapshot. Always false for a refused job: the
    /// engine never gets it.
    pub(super) fn is_unchanged(&self) -> bool {
        self.frozen.get().is_some()
    }

    /// Drops the snapshot, as rows of nodes or users that it refers to have moved.
    pub(super) fn drop_cached(&mut self) {
        self.frozen.take();
    }

    /// True if the job has shares where the configuration does not allow them; `look` finds out if
    /// the job changed.
    pub(super) fn has_strays(&self, look: impl FnOnce(&JobRecord) -> bool) -> bool {
        *self.has_strays.get_or_init(|| look(self))
    }

    /// Has it seen anew, whether anything changed or not.
    pub(super) fn forget(&mut self) {
        self.picture.take();
        self.shares.take();
        self.frozen.take();
        self.has_strays.take();
        self.is_touched = true;
    }

    /// Since which cycle it has been below its count and has got nothing.
    pub(super) fn behind_since(&self) -> Option<u64> {
        self.behind_since
    }

    /// True if the report of a cycle covers the job.
    pub(super) fn is_reported(&self) -> bool {
        self.is_reported
    }

    /// Forgets what the last cycle did with it.
    pub(super) fn begin_cycle(&mut self) {
        if !std::mem::take(&mut self.is_touched) {
            return;
        }
        let LastCycle { preemptions, has_grown, has_shrunk } = &self.record.last;
        let was_reported = self.is_reported && self.record.admission.is_err();
        if was_reported || !preemptions.is_empty() || *has_grown || *has_shrunk {
            self.is_reported &= !was_reported;
            self.deref_mut().last = LastCycle::default();
        }
    }

    /// Marks the held shares for which `must_go` is true as leaving. A job of one process ends with
    /// its share.
    pub(super) fn evict(&mut self, removal: Removal, must_go: impl Fn(&ShareRecord) -> bool) {
        let goes = |share: &ShareRecord| share.state == SharePhase::Held && must_go(share);
        if self.record.shares.iter().any(&goes) {
            self.deref_mut().evict(removal, goes);
        }
    }

    /// Records this cycle's `report` and compares it with `before`, the last cycle's. Returns true
    /// if the job began or ceased to wait.
    pub(super) fn note_report(
        &mut self,
        cycle: u64,
        report: &JobReport,
        before: Option<&JobReport>,
        has_got_space: bool,
    ) -> bool {
        let is_behind = report.held.0 + report.promised.0 < report.target.0;
        let waits = is_behind && !has_got_space && !self.record.last.has_grown;
        let has_changed = waits != self.behind_since.is_some();
        if has_changed {
            self.behind_since = waits.then_some(cycle);
            self.frozen.take();
        }
        if has_changed || !self.is_reported || before != Some(report) {
            self.is_reported = true;
            self.picture.take();
        }
        has_changed
    }
}
