//! What changed from one picture to the next, as those who follow are told.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::show::{node_states, reason_of};
use super::wire::{AddedShare, ChangedNode, Happening, RefusedWork, RemovedShare};
use crate::model::{JobId, ShareId, ShareState};
use crate::scheduler::{Disposition, JobView, NodeView, View};

impl Happening {
    /// Its kind, as it is called in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Happening::Added { .. } => "added",
            Happening::Removed { .. } => "removed",
            Happening::Refused { .. } => "refused",
            Happening::Nodes { .. } => "nodes",
            Happening::Administration { .. } => "administration",
        }
    }
}

/// What is different in `now`, the picture after `before`: first what gives room.
pub fn happenings(before: &View, now: &View) -> Vec<Happening> {
    let mut happenings = Vec::new();
    if !Arc::ptr_eq(&before.nodes, &now.nodes) {
        let nodes = changed_nodes(&before.nodes, &now.nodes);
        happenings.extend((!nodes.is_empty()).then_some(Happening::Nodes { nodes }));
    }
    if !Arc::ptr_eq(&before.jobs, &now.jobs) {
        let shares = removed_shares(before, now);
        happenings.extend((!shares.is_empty()).then_some(Happening::Removed { shares }));
        let shares = added_shares(before, now);
        happenings.extend((!shares.is_empty()).then_some(Happening::Added { shares }));
        let work = refused_work(before, now);
        happenings.extend((!work.is_empty()).then_some(Happening::Refused { work }));
    }
    happenings
}

/// Both lists are by name.
fn changed_nodes(before: &[NodeView], now: &[NodeView]) -> Vec<ChangedNode> {
    let mut before = before.iter().peekable();
    let mut changed = Vec::new();
    for node in now {
        while before.next_if(|old| old.name < node.name).is_some() {}
        let old = before.next_if(|old| old.name == node.name);
        let is_same = |old: &NodeView| (old.state, old.memory) == (node.state, node.memory);
        if old.is_some_and(is_same) {
            continue;
        }
        changed.push(ChangedNode {
            node: node.name.to_string(),
            states: node_states(node.state),
            states_before: old.map(|old| node_states(old.state)),
            memory_mb: node.memory.0,
        });
    }
    changed
}

/// Shares that were not told to leave before.
fn removed_shares(before: &View, now: &View) -> Vec<RemovedShare> {
    let all = |job: &JobView| job.shares.iter().chain(&job.purged).count();
    let mut known: HashMap<ShareId, ShareState> =
        HashMap::with_capacity(before.jobs.iter().map(all).sum());
    for job in before.jobs.iter() {
        known.extend(job.shares.iter().chain(&job.purged).map(|share| (share.id, share.state)));
    }
    let removed = now.jobs.iter().flat_map(|job| {
        let shares = job.shares.iter().map(|share| (share, false));
        let all = shares.chain(job.purged.iter().map(|share| (share, true)));
        let known = &known;
        all.filter_map(move |(share, is_purge)| {
            let reason =
                share.removal.filter(|_| known.get(&share.id) != Some(&ShareState::Leaving))?;
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
    let added = now.jobs.iter().flat_map(|job| {
        let is_new = |share: &&crate::scheduler::ShareView| {
            before.next_share <= share.id && !share.is_seen && share.state == ShareState::Held
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
    let refused = |view: &View| -> BTreeSet<JobId> {
        let refused = view.jobs.iter().filter(|job| job.disposition == Disposition::Refused);
        refused.map(|job| job.id).collect()
    };
    let known = refused(before);
    let is_news =
        |job: &&JobView| job.disposition == Disposition::Refused && !known.contains(&job.id);
    let news = now.jobs.iter().filter(is_news);
    news.filter_map(|job| Some(RefusedWork { job: job.id.0, reason: reason_of(job)? })).collect()
}
