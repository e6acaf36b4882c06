//! Offers: the processes that each user of a class might lose, for all requests.

use std::cell::OnceCell;

use super::keeps::Keeps;
use super::plan::{Cost, EvictionClass, least_for, least_of};
use crate::engine::capacity::ScannedShare;
use crate::engine::draft::Draft;
use crate::engine::fairness_tree::GroupIx;
use crate::engine::share_table::{ShareIx, large, small};
use crate::model::{ClassIx, IxVec, JobIx, Millis, NShares, NodeIx, QShares};

/// Offer of a process of a user; the cheapest offer is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Offer {
    class: EvictionClass,
    /// Work lost with the process.
    loss: Millis,
    node: u32,
    quanta: u32,
}

impl Offer {
    pub(super) fn node(&self) -> NodeIx {
        NodeIx(large(self.node))
    }

    pub(super) fn quanta(&self) -> u32 {
        self.quanta
    }

    /// Returns a lower bound of the cost of a plan that takes the process.
    pub(super) fn cost(&self) -> Cost {
        let nothing = Cost::nothing(self.node());
        Cost { worst: Some(self.class), loss: self.loss, victims: 1, ..nothing }
    }
}

/// Offers of each user of a class.
///
/// The cost of a process does not depend on the request, and only rises within a cycle. So a common
/// list serves all requests of the cycle, and is built on first use.
#[derive(Debug)]
pub(super) struct Offers {
    /// Two lists for each user: without the last processes of jobs to which they are owed, and with
    /// them.
    of_groups: [IxVec<GroupIx, OnceCell<Vec<Offer>>>; 2],
    /// The users of each class that have offers, by their first offer. Two lists, as above.
    of_classes: [IxVec<ClassIx, OnceCell<Vec<GroupIx>>>; 2],
    /// For each class, a job in it: if possible, without the precedence of a reservation.
    usual: IxVec<ClassIx, Option<JobIx>>,
    /// For each node, the cost of its cheapest processes.
    of_nodes: IxVec<NodeIx, OnceCell<Cheapest>>,
}

/// Cost of the cheapest processes on a node.
#[derive(Clone, Debug)]
struct Cheapest {
    /// The best class of all.
    class: Option<EvictionClass>,
    /// As in [`least_of`].
    least: Vec<(Millis, QShares)>,
}

impl Offers {
    pub(super) fn new(draft: &Draft<'_>) -> Offers {
        let (groups, classes) = (draft.entities.groups(), &draft.snapshot.topology.classes);
        let mut usual = IxVec::filled(None, classes.len());
        for (group, &(class, _)) in groups.with_ix() {
            let is_usual = |job: &JobIx| !draft.reserved.contains_key(job);
            let known: &mut Option<JobIx> = &mut usual[class];
            if !known.is_some_and(|job| is_usual(&job)) {
                let members = draft.entities.members(group).iter().copied();
                *known = members.clone().find(is_usual).or(*known).or(members.clone().next());
            }
        }
        Offers {
            of_groups: [(); 2].map(|()| IxVec::filled(OnceCell::new(), groups.len())),
            of_classes: [(); 2].map(|()| IxVec::filled(OnceCell::new(), classes.len())),
            usual,
            of_nodes: IxVec::filled(OnceCell::new(), draft.snapshot.nodes.len()),
        }
    }

    /// Returns a lower bound of the cost of `missing` quanta on the node of `cost`, where each
    /// process costs at least `cost`. `None` if the node has not so many.
    pub(super) fn bound(
        &self,
        draft: &Draft<'_>,
        keeps: &Keeps,
        cost: Cost,
        missing: QShares,
    ) -> Option<Cost> {
        self.cheapest(draft, keeps, cost.node).bound(cost, missing)
    }

    /// Returns a lower bound of the cost of `missing` quanta on `node`, from any user.
    pub(super) fn least(
        &self,
        draft: &Draft<'_>,
        keeps: &Keeps,
        node: NodeIx,
        missing: QShares,
    ) -> Option<Cost> {
        let nothing = Cost::nothing(node);
        if missing == QShares(0) {
            return Some(nothing);
        }
        let cheapest = self.cheapest(draft, keeps, node);
        cheapest.bound(Cost { worst: cheapest.class, ..nothing }, missing)
    }

    /// A job of `class`. It has the priority of the class, if there is such a job.
    pub(super) fn usual_job(&self, class: ClassIx) -> Option<JobIx> {
        self.usual[class]
    }

    /// Returns the users of `class` that have offers, by their first offer.
    pub(super) fn users(
        &self,
        draft: &Draft<'_>,
        keeps: &Keeps,
        (class, with_last): (ClassIx, bool),
    ) -> &[GroupIx] {
        self.of_classes[usize::from(with_last)][class].get_or_init(|| {
            let groups = draft.entities.groups().with_ix().filter(|(_, (of, _))| *of == class);
            let first_offer = |(group, _): (GroupIx, _)| {
                draft.effort.search();
                Some((*self.of(draft, keeps, (group, with_last)).first()?, group))
            };
            let mut users: Vec<(Offer, GroupIx)> = groups.filter_map(first_offer).collect();
            users.sort_unstable();
            users.into_iter().map(|(_, group)| group).collect()
        })
    }

    fn cheapest(&self, draft: &Draft<'_>, keeps: &Keeps, node: NodeIx) -> &Cheapest {
        self.of_nodes[node].get_or_init(|| Cheapest::on(draft, keeps, node))
    }

    /// Returns the offers of `group`, the cheapest first. `with_last` includes last processes of jobs
    /// to which they are owed.
    pub(super) fn of(
        &self,
        draft: &Draft<'_>,
        keeps: &Keeps,
        (group, with_last): (GroupIx, bool),
    ) -> &[Offer] {
        self.of_groups[usize::from(with_last)][group].get_or_init(|| {
            let members = draft.entities.members(group);
            let most: u64 = members.iter().map(|&job| draft.jobs[job].held.0).sum();
            let mut offers = Vec::with_capacity(usize::try_from(most).unwrap_or_default());
            for &job in members {
                let is_last = draft.jobs[job].is_owed && keeps.nshares[job] <= NShares(1);
                if draft.jobs[job].held == NShares(0) || (is_last && !with_last) {
                    continue;
                }
                let classes = [false, true]
                    .map(|is_resident| EvictionClass::of(draft, keeps, job, is_resident));
                offers.extend(draft.shares.held_by(job).map(|(_, share)| Offer {
                    class: classes[usize::from(share.is_resident)],
                    loss: share.loss,
                    node: small(share.node().0),
                    quanta: share.order.get(),
                }));
            }
            offers.sort_unstable();
            offers
        })
    }
}

impl Cheapest {
    fn on(draft: &Draft<'_>, keeps: &Keeps, node: NodeIx) -> Cheapest {
        let held = draft.spaces.held_shares(node);
        let held = held.filter(|(holding, _)| draft.class_of(holding.job).policy.is_preemptable());
        let held: Vec<(ShareIx, ScannedShare)> = held.collect();
        let class_of = |&(holding, _): &(ShareIx, ScannedShare)| {
            let is_resident = draft.shares.at(holding).is_resident;
            EvictionClass::of(draft, keeps, holding.job, is_resident)
        };
        let class = held.iter().map(class_of).min();
        let (losses, quanta) = held.iter().map(|(_, facts)| (facts.loss(), facts.order())).unzip();
        Cheapest { class, least: least_of(losses, quanta) }
    }

    /// Returns a lower bound of the cost of `missing` quanta, if each process costs at least `cost`.
    fn bound(&self, cost: Cost, missing: QShares) -> Option<Cost> {
        least_for(&self.least, missing).map(|(loss, victims)| Cost { loss, victims, ..cost })
    }
}
