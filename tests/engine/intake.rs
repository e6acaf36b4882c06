//! Publications in, updates out: facts of the orchestrator become events, and decisions are
//! repeated until a publication shows that the orchestrator knows them.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::BTreeMap;

use crate::support::cluster::{Cluster, DOUBLING, UNPACED, class, fair, job, single};
use apportion::converter::{
    CheckedPublication, JobState, JobUpdate, PublishedJob, PublishedProcess, events_between,
    update_from,
};
use apportion::model::{
    ClassPolicy, JobId, JobKind, JobSpec, ProcessLimit, ShareFacts, ShareId, SharePhase,
};
use apportion::scheduler::Removal;

/// An orchestrator that publishes all it knows and does nothing by itself.
struct Orchestrator {
    cluster: Cluster,
    published: Option<CheckedPublication>,
    work: BTreeMap<JobId, PublishedJob>,
}

impl Orchestrator {
    fn new() -> Orchestrator {
        let mut cluster = Cluster::with_classes(vec![
            class("reserve", ClassPolicy::Reserve, 1, UNPACED),
            class("fixed", ClassPolicy::FixedShare, 5, UNPACED),
            fair("normal", 100, UNPACED),
            fair("paced", 100, DOUBLING),
        ]);
        cluster.confirms_exits = false;
        cluster.nodes("m1=4 m2=4");
        Orchestrator { cluster, published: None, work: BTreeMap::new() }
    }

    fn submit(&mut self, spec: JobSpec) -> &mut Orchestrator {
        let (state, processes) = (JobState::Schedulable, BTreeMap::new());
        self.work.insert(spec.id, PublishedJob { spec, state, processes });
        self
    }

    fn known(&mut self, id: u64) -> &mut PublishedJob {
        self.work.get_mut(&JobId(id)).unwrap()
    }

    /// Publishes, and runs a cycle. Returns the number of events.
    fn publish(&mut self) -> usize {
        let sequence = self.published.as_ref().map_or(1, |published| published.sequence + 1);
        let publication = CheckedPublication {
            sequence,
            work: self.work.clone(),
            ..CheckedPublication::default()
        };
        let events = events_between(self.published.as_ref(), &publication);
        let heard = events.len();
        for event in events {
            self.cluster.record(event);
        }
        self.published = Some(publication);
        self.cluster.cycle();
        heard
    }

    fn update(&self, id: u64) -> JobUpdate {
        let update = update_from(&self.cluster.view);
        update.jobs.into_iter().find(|job| job.job == JobId(id)).unwrap()
    }

    /// Starts every process that the update adds.
    fn start_added(&mut self, id: u64) {
        for added in self.update(id).added {
            let facts = ShareFacts { is_initialized: true, ..ShareFacts::default() };
            let process = PublishedProcess { node: added.node, is_gone: false, facts };
            self.known(id).processes.insert(added.share, process);
        }
    }

    /// Ends every process that the update removes.
    fn end_removed(&mut self, id: u64) {
        for removed in self.update(id).removed {
            self.known(id).processes.remove(&removed.share);
        }
    }
}

/// F27, F28, F53: the same publication again is no news; every request has a single record.
#[test]
fn the_same_publication_again_changes_nothing() {
    let mut orchestrator = Orchestrator::new();
    orchestrator.submit(job(1, "ann", "normal", 1)).submit(single(
        2,
        "bob",
        "fixed",
        1,
        JobKind::Service,
    ));
    assert_eq!(orchestrator.publish(), 2);
    orchestrator.start_added(1);
    orchestrator.start_added(2);
    assert_eq!(orchestrator.publish(), 8, "every share is seen");
    let before = update_from(&orchestrator.cluster.view).jobs;
    assert_eq!(orchestrator.publish(), 0);
    assert_eq!(update_from(&orchestrator.cluster.view).jobs, before);
    assert_eq!(before.iter().map(|job| job.job.0).collect::<Vec<_>>(), [1, 2]);
}

/// F29, F68: a job that vanished is over, and its space serves jobs of the same publication.
#[test]
fn work_that_vanishes_makes_room_at_once() {
    let mut orchestrator = Orchestrator::new();
    orchestrator.submit(job(1, "ann", "normal", 1)).publish();
    orchestrator.start_added(1);
    orchestrator.publish();
    orchestrator.work.remove(&JobId(1));
    orchestrator.submit(job(2, "bob", "normal", 4)).publish();
    assert_eq!(orchestrator.cluster.held(2), 2);
    assert_eq!(orchestrator.cluster.view.jobs.len(), 1);
}

/// F30: an ended process gives back its own share and no other.
#[test]
fn an_ended_process_frees_its_share_only() {
    let mut orchestrator = Orchestrator::new();
    let mut limited = job(1, "ann", "normal", 1);
    limited.facts.limit = ProcessLimit::AtMost(3);
    orchestrator.submit(limited).publish();
    orchestrator.start_added(1);
    orchestrator.publish();
    let ended = *orchestrator.known(1).processes.keys().next().unwrap();
    orchestrator.known(1).processes.get_mut(&ended).unwrap().is_gone = true;
    orchestrator.known(1).spec.facts.limit = ProcessLimit::Frozen;
    orchestrator.publish();
    let left: Vec<ShareId> =
        orchestrator.update(1).shares.iter().map(|share| share.share).collect();
    assert_eq!(left.len(), 2);
    assert!(!left.contains(&ended));
}

/// F31: the first report of a running process lifts the initialization cap, in the next cycle.
#[test]
fn a_running_process_ends_the_wait() {
    let mut orchestrator = Orchestrator::new();
    let mut fresh = job(1, "ann", "paced", 1);
    fresh.facts.is_running = false;
    orchestrator.submit(fresh).publish();
    orchestrator.start_added(1);
    orchestrator.publish();
    assert_eq!(orchestrator.cluster.held(1), 2);
    orchestrator.known(1).spec.facts.is_running = true;
    orchestrator.publish();
    assert_eq!(orchestrator.cluster.held(1), 4);
}

/// F32: an ending job keeps its live processes and gets nothing, even if space is free.
#[test]
fn an_ending_job_keeps_its_shares_and_gets_none() {
    let mut orchestrator = Orchestrator::new();
    orchestrator.submit(job(1, "ann", "normal", 2)).publish();
    orchestrator.start_added(1);
    orchestrator.publish();
    orchestrator.known(1).state = JobState::Completing;
    orchestrator.cluster.nodes("m3=4");
    orchestrator.publish();
    assert_eq!(orchestrator.cluster.held(1), 4);
    let ended = *orchestrator.known(1).processes.keys().next().unwrap();
    orchestrator.known(1).processes.remove(&ended);
    orchestrator.publish();
    assert_eq!(orchestrator.cluster.held(1), 3);
    orchestrator.known(1).state = JobState::Completed;
    orchestrator.known(1).processes.clear();
    orchestrator.publish();
    assert!(orchestrator.cluster.view.jobs.is_empty());
}

/// F33, F35: the work left, its pace and its maximum are as in the last publication.
#[test]
fn what_is_left_is_refreshed_with_every_publication() {
    let mut orchestrator = Orchestrator::new();
    orchestrator.submit(job(1, "ann", "normal", 1)).submit(job(2, "ann", "normal", 1));
    let facts = |orchestrator: &mut Orchestrator, remaining, limit| {
        let facts = &mut orchestrator.known(1).spec.facts;
        (facts.remaining, facts.limit) = (remaining, limit);
        orchestrator.publish();
        orchestrator.cluster.job(1).demand.0
    };
    assert_eq!(facts(&mut orchestrator, 3, ProcessLimit::Unlimited), 3);
    assert_eq!(facts(&mut orchestrator, 7, ProcessLimit::AtMost(5)), 5);
    assert_eq!(facts(&mut orchestrator, 0, ProcessLimit::Unlimited), 0);
    let cap = orchestrator.cluster.job(1).cap.unwrap().nshares.0;
    assert_eq!(cap, orchestrator.cluster.held(1), "it keeps what it holds until that exits");
}

/// F35: a job with nothing left and nothing running wants nothing.
#[test]
fn finished_work_gets_nothing() {
    let mut orchestrator = Orchestrator::new();
    let mut done = job(1, "ann", "normal", 1);
    done.facts.remaining = 0;
    orchestrator.submit(done).publish();
    assert_eq!((orchestrator.cluster.held(1), orchestrator.cluster.job(1).demand.0), (0, 0));
}

/// F34: a frozen job never grows again, not even from nothing.
#[test]
fn a_frozen_job_never_rises() {
    let mut orchestrator = Orchestrator::new();
    orchestrator.submit(job(1, "ann", "normal", 2)).publish();
    orchestrator.start_added(1);
    orchestrator.known(1).spec.facts.limit = ProcessLimit::Frozen;
    for left in [4, 2, 0, 0] {
        while orchestrator.known(1).processes.len() > left {
            orchestrator.known(1).processes.pop_last();
        }
        orchestrator.publish();
        assert_eq!(orchestrator.cluster.held(1), u64::try_from(left).unwrap());
    }
}

/// F47: every update repeats a refusal, and refused work holds no space.
#[test]
fn a_refusal_is_repeated_until_the_work_is_gone() {
    let mut orchestrator = Orchestrator::new();
    orchestrator.submit(job(1, "ann", "nromal", 1)).submit(job(2, "bob", "normal", 1));
    for _ in 0..3 {
        orchestrator.publish();
        let update = orchestrator.update(1);
        assert_eq!((update.is_refused, update.shares.len()), (true, 0));
        assert_eq!(update.reason.unwrap().code, "unknown_class");
        assert_eq!(orchestrator.cluster.held(2), 8);
    }
    orchestrator.work.remove(&JobId(1));
    orchestrator.publish();
    assert_eq!(update_from(&orchestrator.cluster.view).jobs.len(), 1);
}

/// F54, F55: a new share is repeated until it was shown, and then no more.
#[test]
fn an_assignment_is_repeated_until_it_is_shown() {
    let mut orchestrator = Orchestrator::new();
    orchestrator.submit(job(1, "ann", "normal", 4));
    for _ in 0..3 {
        orchestrator.publish();
        let update = orchestrator.update(1);
        assert_eq!((update.added.len(), update.shares.len()), (2, 2), "the message was lost");
    }
    orchestrator.start_added(1);
    orchestrator.publish();
    let update = orchestrator.update(1);
    assert_eq!((update.added.len(), update.shares.len()), (0, 2));
}

/// F56, F58, F62: a termination is repeated until the share has exited, and is never revoked.
#[test]
fn a_removal_is_repeated_until_it_is_confirmed() {
    let mut orchestrator = Orchestrator::new();
    orchestrator.submit(job(1, "ann", "normal", 1)).publish();
    orchestrator.start_added(1);
    orchestrator.submit(job(2, "bob", "normal", 1)).publish();
    let told: Vec<ShareId> = orchestrator.update(1).removed.iter().map(|gone| gone.share).collect();
    assert_eq!(told.len(), 4);
    orchestrator.work.remove(&JobId(2));
    for _ in 0..3 {
        orchestrator.publish();
        let again = orchestrator.update(1).removed;
        assert!(again.iter().all(|gone| gone.why == Removal::Preempted && !gone.is_purge));
        assert_eq!(again.iter().map(|gone| gone.share).collect::<Vec<_>>(), told);
    }
    orchestrator.end_removed(1);
    orchestrator.publish();
    assert!(orchestrator.update(1).removed.is_empty());
    assert_eq!(orchestrator.cluster.held(1), 8, "in new shares");
}

/// F57: a job can lose and get shares in the same cycle.
#[test]
fn a_job_can_expand_and_shrink_at_once() {
    let mut orchestrator = Orchestrator::new();
    let mut limited = job(1, "ann", "normal", 1);
    limited.facts.limit = ProcessLimit::AtMost(4);
    orchestrator.submit(limited).publish();
    orchestrator.start_added(1);
    orchestrator.publish();
    let node = orchestrator.update(1).shares[0].node.clone();
    orchestrator.cluster.vary_off(&node);
    orchestrator.publish();
    let update = orchestrator.update(1);
    assert!(!update.added.is_empty() && !update.removed.is_empty(), "{update:?}");
    assert_eq!(orchestrator.cluster.held(1), 4);
}

/// F59: a share that died with its node is to be purged, from the cycle of the death until it is
/// confirmed.
#[test]
fn what_died_with_its_node_is_purged_until_it_is_confirmed() {
    let mut orchestrator = Orchestrator::new();
    orchestrator.submit(job(1, "ann", "normal", 1)).publish();
    orchestrator.start_added(1);
    orchestrator.publish();
    orchestrator.cluster.die("m1");
    for _ in 0..2 {
        orchestrator.publish();
        let removed = orchestrator.update(1).removed;
        assert!(removed.iter().all(|gone| gone.is_purge && gone.node == "m1"));
        assert_eq!(removed.len(), 4);
    }
    orchestrator.end_removed(1);
    orchestrator.publish();
    assert!(orchestrator.update(1).removed.is_empty());
}

/// F60: every job without a share has a reason.
#[test]
fn a_job_without_shares_has_a_reason() {
    let mut orchestrator = Orchestrator::new();
    orchestrator.submit(single(1, "ann", "reserve", 4, JobKind::Reservation));
    orchestrator.submit(single(2, "ann", "reserve", 4, JobKind::Reservation));
    orchestrator.submit(single(3, "ann", "reserve", 4, JobKind::Reservation));
    orchestrator.submit(single(4, "ann", "fixed", 2, JobKind::Service));
    orchestrator.submit(job(5, "bob", "normal", 1)).submit(job(6, "bob", "normal", 9)).publish();
    let reason = |id| orchestrator.update(id).reason.unwrap().code;
    assert_eq!(
        [3, 4, 5, 6].map(reason),
        ["nothing_left", "nothing_left", "nothing_left", "impossible"]
    );
}

/// I04: an update shows only the present state, independent of earlier updates.
#[test]
fn a_share_that_is_leaving_is_not_held() {
    let mut orchestrator = Orchestrator::new();
    orchestrator.submit(job(1, "ann", "normal", 1)).publish();
    orchestrator.submit(job(2, "bob", "normal", 1)).publish();
    let job = orchestrator.cluster.job(1);
    let leaving = job.shares.iter().filter(|share| share.state == SharePhase::Leaving).count();
    assert_eq!((leaving, orchestrator.update(1).removed.len()), (4, 4));
    assert_eq!(orchestrator.update(1).added.len(), 4, "what is leaving is not assigned any more");
}
