//! Processes of each gang: old processes, new processes, and promised space.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::audit::lines::{JobLine, ReceiptedShare};
use crate::audit::shapes::{gang_shape, wish};
use crate::engine::{CycleSchedule, Expansion, Promise, Snapshot};
use crate::model::{JobId, JobIx, NodeIx, Shape, ShareId, count};

/// A process of a gang, or space for it.
#[derive(Clone, Copy, Debug)]
pub(in crate::audit) struct GangProcess {
    /// `None` if the schedule gives no rank.
    pub(super) rank: Option<u32>,
    pub(super) node: NodeIx,
    /// In qshares.
    pub(super) order: u64,
}

/// A gang after the cycle.
#[derive(Debug)]
pub(in crate::audit) struct GangLine {
    /// The place of its job.
    pub(in crate::audit) place: JobIx,
    pub(super) shape: Arc<Shape>,
    /// Quanta of a process of each chunk. `None` if a process is too large to be counted.
    pub(super) orders: Option<Vec<u64>>,
    /// Processes that the gang held before, and still holds.
    pub(super) stayed: Vec<GangProcess>,
    /// Quanta of the processes that are preempted or evicted in this cycle.
    pub(super) lost: Vec<u64>,
    /// Processes that begin in this cycle, in the order of the schedule.
    pub(super) begun: Vec<GangProcess>,
    /// Space that is promised after the cycle, in the order of the schedule.
    pub(super) promised: Vec<GangProcess>,
}

impl GangLine {
    /// Place of the chunk of the process with that rank.
    pub(super) fn chunk_of(&self, rank: u32) -> Option<usize> {
        // The owner of an evolving gang may ask for more than its chunk says.
        if self.shape.chunks.len() == 1 { Some(0) } else { self.shape.chunk_of(u64::from(rank)) }
    }

    /// Quanta of the process with that rank, nodes that are filled aside.
    pub(super) fn order_of(&self, rank: u32) -> Option<u64> {
        self.orders.as_ref()?.get(self.chunk_of(rank)?).copied()
    }

    /// Processes that begin, and space that is promised.
    pub(super) fn gains(&self) -> impl Iterator<Item = &GangProcess> {
        self.begun.iter().chain(&self.promised)
    }

    /// All processes and promised space.
    pub(super) fn all(&self) -> impl Iterator<Item = &GangProcess> {
        self.stayed.iter().chain(self.gains())
    }

    /// Converts a target of `nshares` to qshares. Processes and promised space count by their
    /// sizes, the smallest first; then processes that go; the rest counts by the smallest chunk.
    pub(in crate::audit) fn counted(&self, nshares: u64) -> u64 {
        let mut sizes: Vec<u64> = self.all().map(|member| member.order).collect();
        sizes.sort_unstable();
        let mut lost = self.lost.clone();
        lost.sort_unstable();
        sizes.extend(lost);
        let all = count(&sizes);
        let counted = usize::try_from(nshares.min(all)).unwrap_or(sizes.len());
        let smallest = self.orders.iter().flatten().min().copied().unwrap_or(0);
        let rest = smallest.saturating_mul(nshares.saturating_sub(all));
        sizes.iter().take(counted).fold(rest, |sum, size| sum.saturating_add(*size))
    }

    /// All quanta of the gang: held and promised quanta, or the quanta that it waits for.
    pub(in crate::audit) fn demand(&self, line: &JobLine<'_>) -> u64 {
        let has = self.all().map(|member| member.order).fold(0, u64::saturating_add);
        let asked = wish(line.job, &self.shape).saturating_mul(line.order());
        if self.is_waiting(line) { asked } else { has }
    }

    /// Nodes that belong to an exclusive gang, as processes of it stay there.
    pub(in crate::audit) fn own_nodes(&self) -> impl Iterator<Item = NodeIx> {
        let stayed = self.stayed.iter().filter(|_| self.shape.is_exclusive);
        stayed.map(|process| process.node)
    }

    /// True if the gang has not started, and has nothing that would let it start.
    pub(in crate::audit) fn is_waiting(&self, line: &JobLine<'_>) -> bool {
        let is_empty = self.all().next().is_none();
        is_empty && line.held == 0 && !line.has_ended() && 0 < wish(line.job, &self.shape)
    }
}

/// All gangs of the snapshot, in its order.
pub(in crate::audit) fn gangs_of(
    snapshot: &Snapshot,
    schedule: &CycleSchedule,
    victims: &[ReceiptedShare<'_>],
) -> Vec<GangLine> {
    let mut gangs = Vec::new();
    let mut places: BTreeMap<JobId, usize> = BTreeMap::new();
    let lost: BTreeSet<ShareId> = victims.iter().map(|victim| victim.share.id).collect();
    for (place, job) in snapshot.jobs.with_ix() {
        let Some(shape) = job.shape.as_ref().filter(|_| gang_shape(job).is_some()) else {
            continue;
        };
        let pool = snapshot.class_of(job).pool;
        let quantum = snapshot.topology.pools[pool].quantum;
        let orders = shape.chunks.iter().map(|chunk| quantum.order_of_work(chunk.memory));
        let stayed = job.held().filter(|share| !lost.contains(&share.id));
        let gone = job.held().filter(|share| lost.contains(&share.id));
        let stayed = stayed.map(|share| GangProcess {
            rank: share.rank,
            node: share.node,
            order: share.order.qshares().0,
        });
        places.insert(job.id, gangs.len());
        gangs.push(GangLine {
            place,
            shape: Arc::clone(shape),
            orders: orders.map(|order| order.map(|order| order.qshares().0)).collect(),
            stayed: stayed.collect(),
            lost: gone.map(|share| share.order.qshares().0).collect(),
            begun: Vec::new(),
            promised: Vec::new(),
        });
    }
    if gangs.is_empty() {
        return gangs;
    }
    for &Expansion { job, node, order, rank } in &schedule.expansions {
        if let Some(&place) = places.get(&job) {
            gangs[place].begun.push(GangProcess { rank, node, order: order.qshares().0 });
        }
    }
    for &Promise { job, node, order, rank } in &schedule.promises {
        if let Some(&place) = places.get(&job) {
            gangs[place].promised.push(GangProcess { rank, node, order: order.qshares().0 });
        }
    }
    gangs
}
