//! Places where moved shares start again: free space, or space that a rule allows to take.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::{MoveVictim, Search, spare_superfluous};
use crate::engine::schedule::VictimRule;
use crate::model::{JobIx, Millis, NShares, NodeIx, Order, QShares, count};

/// Nodes tried to make space for a moved share.
const TRIED_ELSEWHERE: usize = 64;

/// Cost of space elsewhere: the work lost, the victims, and the space beyond the need.
type HomeCost = (Millis, usize, QShares);

/// Places where all moved shares of a plan start again.
#[derive(Default)]
pub(super) struct Housing {
    pub homes: Vec<Home>,
    /// Victims preempted by a rule to make space for moved shares, by node.
    pub victims: BTreeMap<NodeIx, Vec<MoveVictim>>,
    /// Quanta that moved shares take, by node.
    used: BTreeMap<NodeIx, QShares>,
}

/// Place where a moved share starts again.
#[derive(Clone, Copy)]
pub(super) struct Home {
    pub job: JobIx,
    pub node: NodeIx,
    pub order: Order,
    /// True if the share can start now; else the space is promised.
    pub is_free: bool,
}

/// Where a moved share could start again, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HomeKind {
    /// In free space.
    Free,
    /// In space that a rule allows to take.
    ByRight,
    /// In no space that is known.
    Nowhere,
}

impl Search<'_, '_> {
    /// Returns where a share could start again if no other share is moved.
    pub(super) fn home_kind(&mut self, cleared: NodeIx, victim: MoveVictim) -> HomeKind {
        if self.free_home(cleared, victim, &Housing::default()).is_some() {
            return HomeKind::Free;
        }
        let homes = self.homes_by_right(victim.order);
        let has_home = homes.iter().any(|node| self.may_go(victim.holding.job, *node, cleared));
        if has_home { HomeKind::ByRight } else { HomeKind::Nowhere }
    }

    /// True if a process of `job` may go to `node`, which is not the cleared node.
    fn may_go(&self, job: JobIx, node: NodeIx, cleared: NodeIx) -> bool {
        let draft = self.draft;
        node != cleared
            && draft.spaces.is_schedulable(node)
            && draft.pools.is_within(draft.spaces.pool(node), draft.class_of(job).pool)
            && draft.may_use(job, node)
    }

    /// Finds places for the moved shares of `victims`; `None` if there is not space for all of
    /// them.
    pub(super) fn house(
        &mut self,
        cleared: NodeIx,
        victims: &[MoveVictim],
        makes_space: bool,
    ) -> Option<Housing> {
        let mut moved: Vec<MoveVictim> = victims.to_vec();
        moved.retain(|victim| victim.rule == VictimRule::Relocation);
        moved.sort_by_key(|victim| Reverse(victim.order));
        let mut housing = Housing::default();
        // Shares without free space come last: by then it is known how much free space is used.
        moved.retain(|&victim| {
            let home = self.free_home(cleared, victim, &housing);
            home.inspect(|&node| housing.add(victim, node, true)).is_none()
        });
        if moved.is_empty() {
            return Some(housing);
        }
        if !makes_space {
            return None;
        }
        for victim in moved {
            if !self.may_wait(victim.holding.job, victims, &housing) {
                return None;
            }
            let (node, gone) = self.home_by_right(cleared, victims, victim, &housing)?;
            housing.add(victim, node, false);
            housing.victims.entry(node).or_default().extend(gone);
        }
        // A victim of a later share may also suffice for an earlier share.
        for (&node, gone) in &mut housing.victims {
            let missing = self.draft.spaces.missing_for(node, housing.used[&node]);
            *gone = spare_superfluous(std::mem::take(gone), missing);
        }
        Some(housing)
    }

    /// Returns a node with free space for a moved share: the smallest space that suffices.
    pub(super) fn free_home(
        &self,
        cleared: NodeIx,
        victim: MoveVictim,
        housing: &Housing,
    ) -> Option<NodeIx> {
        let (draft, job) = (self.draft, victim.holding.job);
        let has_space = |node: NodeIx| {
            let used = housing.used.get(&node).copied().unwrap_or_default();
            node != cleared
                && draft.may_use(job, node)
                && used + victim.order.qshares() <= draft.spaces.usable(node)
        };
        draft.pools.searched_from(draft.class_of(job).pool).iter().find_map(|&pool| {
            let mut nodes = draft.spaces.with_space(pool, victim.order);
            nodes.find_map(|alike| alike.first(has_space))
        })
    }

    /// True if a further process of `job` may wait for space. A promise is kept as far as the
    /// demand allows. A job with fewer processes may have to begin with a single process and
    /// double.
    fn may_wait(&self, job: JobIx, victims: &[MoveVictim], housing: &Housing) -> bool {
        let moved = NShares(count(victims.iter().filter(|victim| victim.holding.job == job)));
        let homes = |is_free| {
            let own = housing.homes.iter().filter(|h| h.job == job && h.is_free == is_free);
            NShares(count(own))
        };
        let draft = &self.draft.jobs[job];
        let left = (draft.held + homes(true)).saturating_sub(moved);
        draft.promised + homes(false) < left.max(NShares(1))
    }

    /// Returns a node where the beneficiary may take space for a moved share, and the victims. The
    /// nodes are tried in the order of their cost at the start.
    fn home_by_right(
        &mut self,
        cleared: NodeIx,
        victims: &[MoveVictim],
        moved: MoveVictim,
        housing: &Housing,
    ) -> Option<(NodeIx, Vec<MoveVictim>)> {
        let job = moved.holding.job;
        let homes = self.homes_by_right(moved.order);
        homes.iter().copied().find_map(|node| {
            if !self.may_go(job, node, cleared) {
                return None;
            }
            self.recall(victims.iter().chain(housing.victims.values().flatten()));
            let (_, gone) = self.make_home(node, moved.order, Some(job), housing)?;
            Some((node, gone))
        })
    }

    /// Returns nodes where the beneficiary may take space for a share of `order`, the cheapest
    /// first.
    fn homes_by_right(&mut self, order: Order) -> Rc<[NodeIx]> {
        if let Some(known) = self.homes.get(&order) {
            return Rc::clone(known);
        }
        let nodes: Vec<NodeIx> = self.prey.keys().copied().take(TRIED_ELSEWHERE).collect();
        let mut homes: Vec<(HomeCost, NodeIx)> = Vec::new();
        for node in nodes {
            self.claim.reset();
            if let Some((cost, _)) = self.make_home(node, order, None, &Housing::default()) {
                homes.push((cost, node));
            }
        }
        homes.sort_unstable();
        let homes: Rc<[NodeIx]> = homes.into_iter().map(|(_, node)| node).collect();
        self.homes.insert(order, Rc::clone(&homes));
        homes
    }

    /// Returns the victims on `node` that make space for a share of `order` to move there, and
    /// their cost. No share of `job`, whose share is moved, is taken.
    fn make_home(
        &mut self,
        node: NodeIx,
        order: Order,
        job: Option<JobIx>,
        housing: &Housing,
    ) -> Option<(HomeCost, Vec<MoveVictim>)> {
        self.draft.effort.search();
        let used = housing.used.get(&node).copied().unwrap_or_default();
        let before = housing.victims.get(&node).map_or(&[][..], Vec::as_slice);
        let missing_for = self.draft.spaces.missing_for(node, used + order.qshares());
        let made = before.iter().map(|victim| victim.order.qshares()).sum();
        let missing = missing_for.saturating_sub(made);
        let (mut gone, mut freed) = (Vec::new(), QShares(0));
        for victim in self.shares_on(node) {
            let is_gone = before.iter().any(|before| before.holding == victim.holding);
            if missing <= freed || is_gone || Some(victim.holding.job) == job {
                continue;
            }
            if let Some(rule) = self.claim.rule(victim.holding.job, victim.order.qshares().0) {
                self.claim.take(victim.holding.job, victim.order.qshares().0);
                freed += victim.order.qshares();
                gone.push(MoveVictim { rule, ..victim });
            }
        }
        let gone = (missing <= freed).then(|| spare_superfluous(gone, missing))?;
        let freed: QShares = gone.iter().map(|victim| victim.order.qshares()).sum();
        let loss = gone.iter().map(|victim| victim.loss).fold(0, Millis::saturating_add);
        Some(((loss, gone.len(), freed.saturating_sub(missing)), gone))
    }
}

impl Housing {
    fn add(&mut self, moved: MoveVictim, node: NodeIx, is_free: bool) {
        let (job, order) = (moved.holding.job, moved.order);
        self.homes.push(Home { job, node, order, is_free });
        *self.used.entry(node).or_default() += order.qshares();
    }
}
