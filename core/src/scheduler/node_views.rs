//! Views of nodes for readers. Nodes without a change share the view of the last cycle.
//!
//! Shares that came to or left a node follow from comparing the last cycle's job views with the
//! current ones. Shares in a job view that both cycles share have not moved.

use std::sync::Arc;

use super::Scheduler;
use super::nodes::{NodeKey, NodeRecord, NodeTable};
use super::shared_list::SharedList;
use super::tracked_job::TrackedJob;
use super::view::{JobView, NodeView, ShareOnNode, ShareView};
use crate::model::{JobId, NodeIx, Order, QShares, ShareId, SharePhase, Tags};

/// A share that is not on its node as it was: how it is there, if at all.
#[derive(Clone, Copy)]
struct Moved {
    node: NodeIx,
    job: JobId,
    share: ShareId,
    there: Option<(Order, SharePhase)>,
}

/// Shares that came to, changed on or left their nodes.
struct Moves<'a> {
    nodes: &'a NodeTable,
    all: Vec<Moved>,
}

impl Scheduler {
    /// Builds the views of all nodes, by name; `jobs` are the current views of all jobs.
    pub(super) fn node_views(&self, jobs: &SharedList<JobView>) -> SharedList<NodeView> {
        let moved = self.moved(jobs);
        let mut moved = moved.chunk_by(|one, other| one.node == other.node).peekable();
        let limbo = self.limbo_by_node();
        let blacklisted = self.blacklisted_nodes();
        let is_as_it_was = |node: NodeKey| {
            let was_burdened =
                self.frozen_nodes.as_ref().is_some_and(|last| last.has_extra_constraint(node));
            !self.nodes.is_dirty(node)
                && !was_burdened
                && !limbo.contains_key(&node)
                && !blacklisted.contains(&node)
                && !self.clock.in_maintenance.contains(&node)
        };
        let last = self.last_view.as_ref().map(|view| &view.nodes);
        // Equal lengths imply equal nodes: a forgotten node drops the last view.
        let are_same = last.is_some_and(|last| last.len() == self.nodes.len());
        let mut last = last.into_iter().flat_map(|nodes| nodes.shared()).peekable();
        let nodes = self.nodes.by_name().enumerate().map(|(place, (node, record))| {
            let last = last.next_if(|last| are_same || last.name == record.report.name);
            let moved = moved.next_if(|moved| moved[0].node.0 == place).unwrap_or_default();
            if let Some(last) = last.filter(|_| moved.is_empty() && is_as_it_was(node)) {
                return Arc::clone(last);
            }
            let shares = shares_now(last.map_or(&[][..], |last| &last.shares), moved);
            let in_limbo = limbo.get(&node).copied().unwrap_or_default();
            let is_blacklisted = blacklisted.contains(&node);
            let is_in_maintenance = self.clock.in_maintenance.contains(&node);
            let condition = (is_blacklisted, is_in_maintenance);
            let drawn = self.node_view(record, shares, in_limbo, condition);
            let is_same = last.filter(|last| ***last == drawn);
            is_same.map_or_else(|| Arc::new(drawn), Arc::clone)
        });
        nodes.collect()
    }

    fn node_view(
        &self,
        record: &NodeRecord,
        shares: Vec<ShareOnNode>,
        in_limbo: QShares,
        (is_blacklisted, is_in_maintenance): (bool, bool),
    ) -> NodeView {
        let pool = &self.topology.pools[record.pool];
        NodeView {
            preference: record.preference,
            name: record.report.name.clone(),
            pool: pool.name.clone(),
            quantum: pool.quantum,
            memory: record.report.memory,
            order: record.order,
            tags: Tags::clone(&record.tags),
            used: shares.iter().map(|(_, _, order, _)| order.qshares()).sum::<QShares>() + in_limbo,
            state: record.state(is_blacklisted, is_in_maintenance),
            missed: record.missed,
            vary_off_reason: record.vary_off_reason.clone(),
            shares,
        }
    }

    /// Shares that came, changed or left since the last cycle, by node.
    fn moved(&self, jobs: &SharedList<JobView>) -> Vec<Moved> {
        let mut moves = Moves { nodes: &self.nodes, all: Vec::new() };
        let last = self.last_view.iter().flat_map(|view| view.jobs.shared());
        let mut last = last.peekable();
        for ((age, job), picture) in self.jobs.by_age().zip(jobs.shared()) {
            if last.next_if(|last| Arc::ptr_eq(last, picture)).is_some() {
                continue;
            }
            while let Some(gone) = last.next_if(|last| (last.submitted, last.id) < age) {
                moves.note(gone.id, &gone.shares, None);
            }
            let before = last.next_if(|last| last.id == job.spec.id);
            if before.is_some_and(|before| before.shares.are_shared_with(&picture.shares)) {
                continue;
            }
            let before = before.map_or(&[][..], |before| &before.shares);
            moves.note(job.spec.id, before, Some((job, &picture.shares)));
        }
        for gone in last {
            moves.note(gone.id, &gone.shares, None);
        }
        by_node(&moves.all, self.nodes.len())
    }
}

impl Moves<'_> {
    /// Notes which shares of a job came, changed or went, if it is still there. All lists are in
    /// order of numbers.
    fn note(&mut self, job: JobId, before: &[ShareView], now: Option<(&TrackedJob, &[ShareView])>) {
        let mut before = before.iter().peekable();
        let now = now.into_iter().flat_map(|(job, views)| job.shares.iter().zip(views));
        for (share, view) in now {
            while let Some(gone) = before.next_if(|before| before.id < share.id) {
                self.leave(job, gone);
            }
            let before = before.next_if(|before| before.id == share.id);
            let is_there = |view: &ShareView| (view.order, view.state);
            match before {
                Some(before) if before.node != view.node => self.leave(job, before),
                Some(before) if is_there(before) == is_there(view) => continue,
                Some(_) | None => {}
            }
            let node = self.nodes.places().of(share.node);
            self.all.push(Moved { node, job, share: share.id, there: Some(is_there(view)) });
        }
        for gone in before {
            self.leave(job, gone);
        }
    }

    fn leave(&mut self, job: JobId, share: &ShareView) {
        let node = self.nodes.find(&share.node).expect("nodes are never forgotten");
        let node = self.nodes.places().of(node);
        self.all.push(Moved { node, job, share: share.id, there: None });
    }
}

/// Sorts by node, job and number. A counting sort by node is cheap: nodes are many and each has few
/// shares.
fn by_node(moved: &[Moved], nodes: usize) -> Vec<Moved> {
    let Some(&any) = moved.first() else { return Vec::new() };
    let mut ends = vec![0; nodes + 1];
    for moved in moved {
        ends[moved.node.0 + 1] += 1;
    }
    for node in 1..ends.len() {
        ends[node] += ends[node - 1];
    }
    let mut sorted = vec![any; moved.len()];
    for moved in moved {
        let next: &mut usize = &mut ends[moved.node.0];
        sorted[*next] = *moved;
        *next += 1;
    }
    for on_one in sorted.chunk_by_mut(|one, other| one.node == other.node) {
        on_one.sort_unstable_by_key(|moved| (moved.job, moved.share));
    }
    sorted
}

/// The shares on a node, by job and then by number, of which some `moved` since `before`.
fn shares_now(before: &[ShareOnNode], moved: &[Moved]) -> Vec<ShareOnNode> {
    let has_moved = |(job, share, ..): &&ShareOnNode| {
        moved.binary_search_by_key(&(*job, *share), |moved| (moved.job, moved.share)).is_ok()
    };
    let stayed = before.iter().filter(|share| !has_moved(share)).copied();
    let there = moved.iter().filter_map(|moved| {
        moved.there.map(|(order, state)| (moved.job, moved.share, order, state))
    });
    let mut shares = Vec::with_capacity(before.len() + moved.len());
    shares.extend(stayed.chain(there));
    shares.shrink_to_fit();
    shares.sort_unstable_by_key(|(job, share, ..)| (*job, *share));
    shares
}
