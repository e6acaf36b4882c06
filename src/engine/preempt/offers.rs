//! What each user of a class might give on each machine, no matter which request asks.

use std::cell::OnceCell;
use std::cmp::Reverse;

use super::keeps::Keeps;
use super::plan::{Cost, EvictionClass};
use crate::engine::draft::Draft;
use crate::engine::nodepool::Tenant;
use crate::engine::shares::Holding;
use crate::model::{MachineIx, Millis, QShares};

/// What a user of a class might give on one machine; the cheapest is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Offer {
    /// A lower bound of what each of its processes there costs.
    pub cost: Cost,
    /// How many quanta they have together.
    pub quanta: QShares,
}

/// For each user of a class, by machine, what it might give.
///
/// What a process costs does not depend on the request, and only rises within a cycle: so one list
/// serves all requests of the cycle, and is made when the first of them asks.
#[derive(Debug)]
pub(super) struct Offers {
    /// All that it holds, and without the last process of jobs to which it is owed.
    of_groups: [Vec<OnceCell<Vec<Offer>>>; 2],
    /// For each machine, what its cheapest processes cost.
    of_machines: Vec<OnceCell<Cheapest>>,
}

/// What the cheapest processes on a machine cost.
#[derive(Clone, Debug)]
struct Cheapest {
    /// The best class of all.
    class: Option<EvictionClass>,
    /// The work lost with the cheapest one, the cheapest two, and so on.
    losses: Vec<Millis>,
    /// The quanta of the largest one, the largest two, and so on.
    quanta: Vec<QShares>,
}

impl Offers {
    pub(super) fn new(draft: &Draft<'_>) -> Offers {
        Offers {
            of_groups: [(); 2].map(|()| vec![OnceCell::new(); draft.entities.groups().len()]),
            of_machines: vec![OnceCell::new(); draft.snapshot.machines.len()],
        }
    }

    /// A lower bound of what it costs to free `missing` quanta on the machine of `cost`, which each process
    /// costs at least, if at all.
    pub(super) fn bound(
        &self,
        draft: &Draft<'_>,
        keeps: &Keeps,
        cost: Cost,
        missing: QShares,
    ) -> Option<Cost> {
        self.cheapest(draft, keeps, cost.machine).bound(cost, missing)
    }

    /// A lower bound of what it costs to free `missing` quanta on `machine`, of any user.
    pub(super) fn least(
        &self,
        draft: &Draft<'_>,
        keeps: &Keeps,
        machine: MachineIx,
        missing: QShares,
    ) -> Option<Cost> {
        let nothing = Cost::nothing(machine);
        if missing == QShares(0) {
            return Some(nothing);
        }
        let cheapest = self.cheapest(draft, keeps, machine);
        cheapest.bound(Cost { worst: cheapest.class, ..nothing }, missing)
    }

    fn cheapest(&self, draft: &Draft<'_>, keeps: &Keeps, machine: MachineIx) -> &Cheapest {
        self.of_machines[machine.0].get_or_init(|| Cheapest::on(draft, keeps, machine))
    }

    /// Those of `group`, the cheapest first, each machine once; with the last process of jobs to which it
    /// is owed, or without.
    pub(super) fn of(
        &self,
        draft: &Draft<'_>,
        keeps: &Keeps,
        (group, with_last): (usize, bool),
    ) -> &[Offer] {
        self.of_groups[usize::from(with_last)][group].get_or_init(|| {
            let mut offers: Vec<Offer> = Vec::new();
            for &job in draft.entities.members(group) {
                let is_last = draft.jobs[job].is_owed && keeps.nshares[job] <= 1;
                if draft.jobs[job].held == 0 || (is_last && !with_last) {
                    continue;
                }
                let classes = [false, true]
                    .map(|is_resident| Some(EvictionClass::of(draft, keeps, job, is_resident)));
                offers.extend(draft.shares.held_by(job).map(|(_, share)| Offer {
                    cost: Cost {
                        worst: classes[usize::from(share.is_resident)],
                        loss: share.loss,
                        victims: 1,
                        ..Cost::nothing(share.machine())
                    },
                    quanta: share.order.qshares(),
                }));
            }
            offers.sort_unstable_by_key(|offer| offer.cost.machine);
            // The best class and the least loss may be those of two processes.
            offers.dedup_by(|next, first| {
                let (next, cost) = (*next, &mut first.cost);
                let is_same = next.cost.machine == cost.machine;
                if is_same {
                    cost.worst = cost.worst.min(next.cost.worst);
                    cost.loss = cost.loss.min(next.cost.loss);
                    first.quanta += next.quanta;
                }
                is_same
            });
            offers.sort_unstable();
            offers
        })
    }
}

impl Cheapest {
    fn on(draft: &Draft<'_>, keeps: &Keeps, machine: MachineIx) -> Cheapest {
        let held = draft.rooms.held_shares(machine);
        let held = held.filter(|(holding, _)| draft.class_of(holding.job).policy.is_preemptable());
        let held: Vec<(Holding, Tenant)> = held.collect();
        let class_of = |&(holding, _): &(Holding, Tenant)| {
            let is_resident = draft.shares.at(holding).is_resident;
            EvictionClass::of(draft, keeps, holding.job, is_resident)
        };
        let class = held.iter().map(class_of).min();
        let (mut losses, mut quanta): (Vec<Millis>, Vec<QShares>) =
            held.into_iter().map(|(_, tenant)| (tenant.loss(), tenant.order())).unzip();
        losses.sort_unstable();
        quanta.sort_unstable_by_key(|quanta| Reverse(*quanta));
        for ix in 1..losses.len() {
            losses[ix] = losses[ix].saturating_add(losses[ix - 1]);
            quanta[ix] = quanta[ix] + quanta[ix - 1];
        }
        Cheapest { class, losses, quanta }
    }

    /// A lower bound of what it costs to free `missing` quanta, where each process costs at least `cost`.
    fn bound(&self, cost: Cost, missing: QShares) -> Option<Cost> {
        let victims = 1 + self.quanta.iter().position(|quanta| missing <= *quanta)?;
        Some(Cost { loss: self.losses[victims - 1], victims, ..cost })
    }
}
