//! Search for the cheapest work whose end makes space for an urgent job.
//!
//! Remedies are tried kind by kind. Of each kind all is taken at first. If the job fits then, the
//! rest is a search for what may stay: the dearest work is spared first. So no work is lost that
//! could be spared, and nothing dear goes where something cheaper suffices.

use std::collections::BTreeSet;

use super::is_urgent;
use super::remedies::{ElasticJob, Remedies, Remedy};
use crate::engine::draft::Draft;
use crate::engine::gang::Slot;
use crate::engine::gang::planner::GangPlanner;
use crate::engine::gang::request::GangRequest;
use crate::engine::gang::supply::{Space, SpacePart};
use crate::engine::share_table::ShareIx;
use crate::engine::wait_reason::WaitReason;
use crate::model::{JobIx, NodeIx, count};

/// Most steps to find work that may stay: shares moved, and processes placed for a test. Within
/// them no work is lost that could stay; beyond, all that is chosen so far goes.
const STEPS_MAX: u64 = 500_000;

/// Most shares beyond the minimum of malleable jobs among which every choice is tried.
const CHOICES_MAX: u64 = 32;

/// State of the search.
pub(super) struct RemedySearch<'s, 'a> {
    draft: &'s Draft<'a>,
    planner: GangPlanner,
    pub(super) request: GangRequest<'s>,
    remedies: Remedies,
    /// Space of each node in use by shares and limbo work, or promised to urgent work.
    in_use: Vec<u64>,
    /// Space of each node that is promised to other work.
    promised: Vec<u64>,
    /// True while space promised to other work stays promised.
    keeps_promises: bool,
    /// Space of each node that the taken shares free.
    freed: Vec<u64>,
    taken: BTreeSet<ShareIx>,
    /// Nodes whose space changed since the last test.
    dirty: BTreeSet<NodeIx>,
    steps: u64,
}

impl<'s, 'a> RemedySearch<'s, 'a> {
    /// Prepares the search for `request`.
    pub(super) fn new(
        draft: &'s Draft<'a>,
        planner: GangPlanner,
        request: GangRequest<'s>,
    ) -> RemedySearch<'s, 'a> {
        let nodes = draft.snapshot.nodes.len();
        let mut in_use = vec![0_u64; nodes];
        for (ix, node) in draft.snapshot.nodes_with_ix() {
            in_use[ix.0] = node.limbo.0 + draft.spaces.closed(ix).0;
        }
        let mut takable = vec![0_u64; nodes];
        for job in draft.jobs.places() {
            let is_takable = draft.class_of(job).policy.is_preemptable();
            // Other work is not counted on space that work that stays has yet to leave.
            let there = draft.shares.of_job(job).iter().filter(|it| it.is_held || !is_takable);
            for share in there {
                let (node, amount) = (share.node().0, share.order.qshares().0);
                in_use[node] += amount;
                takable[node] += if is_takable { amount } else { 0 };
            }
        }
        let mut promised = vec![0_u64; nodes];
        for promise in &draft.snapshot.promises {
            let amount = promise.order.qshares().0;
            let is_kept = is_urgent(draft, promise.job);
            let on_node = if is_kept { &mut in_use } else { &mut promised };
            on_node[promise.node.0] += amount;
        }
        let mut search = RemedySearch {
            remedies: Remedies::default(),
            draft,
            planner,
            request,
            in_use,
            promised,
            keeps_promises: true,
            freed: vec![0; nodes],
            taken: BTreeSet::new(),
            dirty: BTreeSet::new(),
            steps: 0,
        };
        search.dirty.extend(draft.spaces.schedulable(search.request.pool));
        search.remedies = Remedies::new(draft, |node| search.is_useful(node, takable[node.0]));
        search
    }

    /// True if a process of the request fits on the node once `takable` of its space is free, too.
    fn is_useful(&self, node: NodeIx, takable: u64) -> bool {
        let draft = self.draft;
        let request = &self.request;
        let is_there = draft.spaces.pool(node) == request.pool && draft.spaces.is_schedulable(node);
        let is_listed = request.list.is_none_or(|list| list.binary_search(&node).is_ok());
        let in_use = self.in_use[node.0].saturating_sub(takable);
        let space = draft.spaces.order(node).0.saturating_sub(in_use);
        let is_allowed = is_there && is_listed && !request.without.contains(&node);
        is_allowed && self.planner.suits_node(request, node, space)
    }

    /// Slots for all processes, with the least that has to go for them.
    pub(super) fn find(&mut self) -> Option<Vec<Slot>> {
        for remedy in Remedy::ALL {
            self.add(remedy);
            if !self.fits() || !self.keep_minimums(remedy) {
                continue;
            }
            self.spare(&self.remedies.dearest_first(self.draft, &self.taken));
            if self.round_to_legal_sizes() {
                self.spare(&self.remedies.whole_units_first(&self.taken));
            }
            return self.slots();
        }
        None
    }

    /// Shares that go, in the order of jobs and shares.
    pub(super) fn victims(&self) -> Vec<ShareIx> {
        self.taken.iter().copied().collect()
    }

    /// Reason of the failure, once everything was tried.
    pub(super) fn lack(&mut self) -> WaitReason {
        self.update();
        self.planner.lack_of_space(self.draft, &self.request)
    }

    /// Takes all work of a kind.
    fn add(&mut self, remedy: Remedy) {
        if remedy == Remedy::Promised {
            self.keeps_promises = false;
            let promised = self.promised.iter().enumerate().filter(|(_, amount)| 0 < **amount);
            self.dirty.extend(promised.map(|(node, _)| NodeIx(node)));
        }
        for share in self.remedies.of(remedy) {
            self.take(share);
        }
    }

    fn take(&mut self, share: ShareIx) {
        if self.taken.insert(share) {
            let packed = self.draft.shares.at(share);
            self.freed[packed.node().0] += packed.order.qshares().0;
            self.dirty.insert(packed.node());
            self.steps += 1;
        }
    }

    fn give_back(&mut self, share: ShareIx) {
        if self.taken.remove(&share) {
            let packed = self.draft.shares.at(share);
            self.freed[packed.node().0] -= packed.order.qshares().0;
            self.dirty.insert(packed.node());
            self.steps += 1;
        }
    }

    /// Enters changed space in the supply.
    fn update(&mut self) {
        for node in std::mem::take(&mut self.dirty) {
            if self.draft.spaces.pool(node) != self.request.pool
                || !self.draft.spaces.is_schedulable(node)
            {
                continue;
            }
            let promised = if self.keeps_promises { self.promised[node.0] } else { 0 };
            let in_use = self.in_use[node.0] + promised;
            let in_use = in_use.saturating_sub(self.freed[node.0]);
            let available = self.draft.spaces.order(node).0.saturating_sub(in_use);
            let usable = self.draft.spaces.usable(node).0.saturating_sub(promised);
            self.planner.set_space(self.request.pool, node, Space { available, usable });
        }
    }

    /// True if all processes fit now.
    pub(super) fn fits(&mut self) -> bool {
        self.steps += 1 + self.request.pieces.iter().map(|piece| piece.count).sum::<u64>();
        self.slots().is_some()
    }

    fn slots(&mut self) -> Option<Vec<Slot>> {
        self.update();
        self.planner.slots(&self.request, SpacePart::Available).ok()
    }

    /// Number of taken shares of a job.
    fn taken_of(&self, job: JobIx) -> u64 {
        let (from, to) = (ShareIx { job, share: 0 }, ShareIx { job, share: usize::MAX });
        count(self.taken.range(from..=to))
    }

    /// Spares shares of malleable jobs down to their minimum. At the last remedy, a job that cannot
    /// be spared so goes as a whole; before, the search fails and all is as before.
    fn keep_minimums(&mut self, remedy: Remedy) -> bool {
        let mut jobs = self.remedies.elastic.clone();
        if remedy == Remedy::Whole {
            jobs.sort_by_key(|it| (it.loss, it.job));
        }
        let before = self.taken.clone();
        // The dearest job keeps its minimum first; of equal jobs, the job with the least surplus.
        for elastic in jobs.iter().rev() {
            let over = self.taken_of(elastic.job).saturating_sub(elastic.surplus);
            if over == 0 {
                continue;
            }
            let own = elastic.shares.iter().rev().filter(|it| self.taken.contains(it));
            let own: Vec<ShareIx> = own.copied().collect();
            if self.spare_some(&own, over) {
                continue;
            }
            if remedy == Remedy::Whole {
                if self.choose_minimums(std::slice::from_ref(elastic), 0) {
                    continue;
                }
                for share in self.draft.shares.held_by(elastic.job).map(|(share, _)| share) {
                    self.take(share);
                }
                continue;
            }
            self.restore(&before);
            return self.choose_minimums(&jobs, 0);
        }
        true
    }

    fn restore(&mut self, taken: &BTreeSet<ShareIx>) {
        for share in self.taken.clone().difference(taken) {
            self.give_back(*share);
        }
        for share in taken {
            self.take(*share);
        }
    }

    /// Tries every choice of the shares that malleable jobs keep. Small cases only.
    fn choose_minimums(&mut self, jobs: &[ElasticJob], from: usize) -> bool {
        let over: u64 = jobs.iter().map(|it| self.over(it)).sum();
        if CHOICES_MAX < over || STEPS_MAX < self.steps {
            return false;
        }
        let Some(next) = jobs.iter().find(|it| 0 < self.over(it)).cloned() else { return true };
        let own = next.shares.iter().enumerate().skip(from);
        let own = own.filter(|(_, share)| self.taken.contains(share));
        let own: Vec<(usize, ShareIx)> = own.map(|(place, share)| (place, *share)).collect();
        let is_last = self.over(&next) == 1;
        own.into_iter().any(|(place, share)| {
            self.give_back(share);
            let from = if is_last { 0 } else { place + 1 };
            let is_chosen = self.fits() && self.choose_minimums(jobs, from);
            if !is_chosen {
                self.take(share);
            }
            is_chosen
        })
    }

    /// Taken shares of a malleable job beyond its surplus.
    fn over(&self, elastic: &ElasticJob) -> u64 {
        self.taken_of(elastic.job).saturating_sub(elastic.surplus)
    }

    /// Spares `number` of `shares`, the first possible. False if so many cannot be spared; then all
    /// are taken as before.
    fn spare_some(&mut self, shares: &[ShareIx], number: u64) -> bool {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let (mut spared, mut next) = (Vec::new(), 0);
        while spared.len() < number && next < shares.len() {
            let end = shares.len().min(next + number - spared.len());
            let units: Vec<Vec<ShareIx>> = shares[next..end].iter().map(|it| vec![*it]).collect();
            let possible = self.spare_first(&units);
            spared.extend_from_slice(&shares[next..next + possible]);
            next += possible + 1;
        }
        let is_done = spared.len() == number;
        if !is_done {
            for share in spared {
                self.take(share);
            }
        }
        is_done
    }

    /// Spares each of `units` that is not needed, in their order.
    fn spare(&mut self, units: &[Vec<ShareIx>]) {
        let mut next = 0;
        while next < units.len() && self.steps < STEPS_MAX {
            next += self.spare_first(&units[next..]) + 1;
        }
    }

    /// Spares as many of the first `units` as possible, and returns their number.
    fn spare_first(&mut self, units: &[Vec<ShareIx>]) -> usize {
        // Units before `low` can be spared. Not all of the units before `high` can.
        let (mut low, mut high, mut at) = (0, units.len() + 1, 0);
        let mut middle = units.len();
        while 1 < high - low {
            for share in units.iter().take(middle).skip(at).flatten() {
                self.give_back(*share);
            }
            for share in units.iter().take(at).skip(middle).flatten() {
                self.take(*share);
            }
            at = middle;
            if self.fits() {
                low = middle;
            } else {
                high = middle;
            }
            middle = low.midpoint(high);
        }
        for share in units.iter().take(at).skip(low).flatten() {
            self.take(*share);
        }
        low
    }

    /// Takes more shares of malleable jobs, down to their next legal size. True if it took some.
    fn round_to_legal_sizes(&mut self) -> bool {
        let before = self.taken.len();
        for elastic in self.remedies.elastic.clone() {
            let taken = self.taken_of(elastic.job);
            if taken == 0 {
                continue;
            }
            let left = elastic.held - taken;
            let more = left - elastic.legal_at_most(self.draft, left);
            let mut own: Vec<ShareIx> =
                self.draft.shares.held_by(elastic.job).map(|(share, _)| share).collect();
            own.retain(|share| !self.taken.contains(share));
            own.sort_by_key(|share| self.draft.shares.at(*share).loss);
            for share in own.into_iter().take(usize::try_from(more).unwrap_or(usize::MAX)) {
                self.take(share);
            }
        }
        before < self.taken.len()
    }
}
