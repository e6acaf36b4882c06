//! What each user of a class might give on each machine, no matter which request asks.

use std::cell::OnceCell;
use std::cmp::Reverse;

use super::keeps::Keeps;
use super::plan::{Cost, EvictionClass};
use crate::engine::draft::Draft;
use crate::model::{MachineIx, Millis, QShares};

/// For each user of a class, by machine, a lower bound of what its processes there cost.
///
/// What a process costs does not depend on the request, and only rises within a cycle: so one list
/// serves all requests of the cycle, and is made when the first of them asks.
#[derive(Debug)]
pub(super) struct Offers {
    /// All that it holds, and without the last process of jobs to which it is owed.
    of_groups: [Vec<OnceCell<Vec<Cost>>>; 2],
    /// For each machine, what its cheapest processes cost.
    of_machines: Vec<OnceCell<Cheapest>>,
}

/// What the cheapest processes on a machine cost.
#[derive(Clone, Debug)]
struct Cheapest {
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

    /// A lower bound of what it costs to free `missing` quanta on the machine of `offer`, if at all.
    pub(super) fn bound(&self, draft: &Draft<'_>, offer: Cost, missing: QShares) -> Option<Cost> {
        let machine = offer.machine.0;
        let cheapest = self.of_machines[machine].get_or_init(|| Cheapest::on(draft, offer.machine));
        let victims = 1 + cheapest.quanta.iter().position(|quanta| missing <= *quanta)?;
        Some(Cost { loss: cheapest.losses[victims - 1], victims, ..offer })
    }

    /// Those of `group`, the cheapest first, each machine once; with the last process of jobs to which it
    /// is owed, or without.
    pub(super) fn of(
        &self,
        draft: &Draft<'_>,
        keeps: &Keeps,
        (group, with_last): (usize, bool),
    ) -> &[Cost] {
        self.of_groups[usize::from(with_last)][group].get_or_init(|| {
            let mut offers: Vec<Cost> = Vec::new();
            for &job in draft.entities.members(group) {
                let is_last = draft.jobs[job].is_owed && keeps.nshares[job] <= 1;
                if draft.jobs[job].held == 0 || (is_last && !with_last) {
                    continue;
                }
                let classes = [false, true]
                    .map(|is_resident| Some(EvictionClass::of(draft, keeps, job, is_resident)));
                offers.extend(draft.shares.held_by(job).map(|(_, share)| Cost {
                    worst: classes[usize::from(share.is_resident)],
                    loss: share.loss,
                    victims: 1,
                    ..Cost::nothing(share.machine())
                }));
            }
            offers.sort_unstable_by_key(|offer| (offer.machine, offer.worst, offer.loss));
            // The best class and the least loss may be those of two processes.
            offers.dedup_by(|next, first| {
                let is_same = next.machine == first.machine;
                if is_same {
                    first.loss = first.loss.min(next.loss);
                }
                is_same
            });
            offers.sort_unstable();
            offers
        })
    }
}

impl Cheapest {
    fn on(draft: &Draft<'_>, machine: MachineIx) -> Cheapest {
        let held = draft.rooms.held_shares(machine);
        let held = held.filter(|(holding, _)| draft.class_of(holding.job).policy.is_preemptable());
        let (mut losses, mut quanta): (Vec<Millis>, Vec<QShares>) =
            held.map(|(_, tenant)| (tenant.loss(), tenant.order())).unzip();
        losses.sort_unstable();
        quanta.sort_unstable_by_key(|quanta| Reverse(*quanta));
        for ix in 1..losses.len() {
            losses[ix] = losses[ix].saturating_add(losses[ix - 1]);
            quanta[ix] = quanta[ix] + quanta[ix - 1];
        }
        Cheapest { losses, quanta }
    }
}
