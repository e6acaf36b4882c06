//! Changes from a view to the next, as the events that clients follow.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::wire::from_view::{node_states, reason_of};
use crate::api::wire::{AddedShare, ChangedNode, FeedEvent, RefusedWork, RemovedShare};
use crate::model::{ShareId, SharePhase};
use crate::scheduler::{JobDisposition, JobView, NodeView, ShareView, View};

impl FeedEvent {
    /// Returns the kind as its name in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            FeedEvent::Added { .. } => "added",
            FeedEvent::Removed { .. } => "removed",
            FeedEvent::Refused { .. } => "refused",
            FeedEvent::Nodes { .. } => "nodes",
            FeedEvent::Administration { .. } => "administration",
        }
    }
}

/// Lists the changes from `before` to the next view, `now`: first the changes that free space.
pub fn diff_events(before: &View, now: &View) -> Vec<FeedEvent> {
    let mut diff_events = Vec::new();
    if !Arc::ptr_eq(&before.nodes, &now.nodes) {
        let nodes = changed_nodes(before, now);
        diff_events.extend((!nodes.is_empty()).then_some(FeedEvent::Nodes { nodes }));
    }
    if !Arc::ptr_eq(&before.jobs, &now.jobs) {
        let shares = removed_shares(before, now);
        diff_events.extend((!shares.is_empty()).then_some(FeedEvent::Removed { shares }));
        let shares = added_shares(before, now);
        diff_events.extend((!shares.is_empty()).then_some(FeedEvent::Added { shares }));
        let work = refused_work(before, now);
        diff_events.extend((!work.is_empty()).then_some(FeedEvent::Refused { work }));
    }
    diff_events
}

fn changed_nodes(before: &View, now: &View) -> Vec<ChangedNode> {
    let drawn = now.nodes.changed_since(&before.nodes, |node| node.name.clone());
    let changed = drawn.filter_map(|(node, old)| {
        let is_same = |old: &NodeView| (old.state, old.memory) == (node.state, node.memory);
        (!old.is_some_and(is_same)).then(|| ChangedNode {
            node: node.name.to_string(),
            states: node_states(node.state),
            states_before: old.map(|old| node_states(old.state)),
            memory_mb: node.memory.0,
        })
    });
    changed.collect()
}

/// Returns the jobs that may have changed, each with its earlier state.
fn changed_work<'a>(
    before: &'a View,
    now: &'a View,
) -> impl Iterator<Item = (&'a JobView, Option<&'a JobView>)> {
    now.jobs.changed_since(&before.jobs, |job| (job.submitted, job.id))
}

/// Lists the shares that have to go and were not sent before.
fn removed_shares(before: &View, now: &View) -> Vec<RemovedShare> {
    let removed = changed_work(before, now).flat_map(|(job, old)| {
        let old = old.into_iter().flat_map(|old| old.shares.iter().chain(&old.purged));
        let leaving = old.filter(|share| share.state == SharePhase::Leaving);
        let known: BTreeSet<ShareId> = leaving.map(|share| share.id).collect();
        let shares = job.shares.iter().map(|share| (share, false));
        let all = shares.chain(job.purged.iter().map(|share| (share, true)));
        all.filter_map(move |(share, is_purge)| {
            let reason = share.removal.filter(|_| !known.contains(&share.id))?;
            let receipt = job.preemptions.iter().find(|receipt| receipt.share == share.id);
            Some(RemovedShare {
                job: job.id.0,
                share: share.id.0,
                node: share.node.to_string(),
                purge: is_purge,
                reason: reason.into(),
                rule: receipt.map(|receipt| receipt.rule.into()),
                beneficiary: receipt.and_then(|receipt| receipt.beneficiary).map(|job| job.0),
            })
        })
    });
    removed.collect()
}

/// Shares issued since. What the orchestrator showed before we issued it, it has already.
fn added_shares(before: &View, now: &View) -> Vec<AddedShare> {
    let added = changed_work(before, now).flat_map(|(job, _)| {
        let is_new = |share: &&ShareView| {
            before.next_share <= share.id && !share.is_seen && share.state == SharePhase::Held
        };
        job.shares.iter().filter(is_new).map(|share| AddedShare {
            job: job.id.0,
            share: share.id.0,
            node: share.node.to_string(),
            memory_mb: share.memory.0,
        })
    });
    added.collect()
}

fn refused_work(before: &View, now: &View) -> Vec<RefusedWork> {
    let is_refused = |job: &JobView| job.disposition == JobDisposition::Refused;
    let news = changed_work(before, now)
        .filter(|(job, old)| is_refused(job) && !old.is_some_and(is_refused));
    news.filter_map(|(job, _)| Some(RefusedWork { job: job.id.0, reason: reason_of(job)? }))
        .collect()
}
