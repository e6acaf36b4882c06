//! A cycle, phase by phase. [`plan`](super::plan) runs all phases; a benchmark runs them up to the
//! phase that it times.

use super::capacity::{DemandByOrder, EmptyCluster};
use super::draft::Draft;
use super::effort::Effort;
use super::gang::{GangPlanner, accounts};
use super::place::{fill, fill_rest, place_returned, place_shares};
use super::preempt::{clear_in_time, make_space, shed_beyond_maximum};
use super::reasons;
use super::schedule::CycleSchedule;
use super::sizes::{begin_steps, fill_steps, settle};
use super::snapshot::Snapshot;
use super::target::set_targets;
use crate::model::{Order, PoolIx, count};

/// A cycle that is being planned. Call the phases in the order of these methods.
#[derive(Debug)]
pub struct Planning<'a>(Draft<'a>);

/// The ideal cluster: every node in scheduling, empty except for shares that cannot be preempted.
#[derive(Debug)]
pub struct IdealCluster<'p, 'a> {
    planning: &'p Planning<'a>,
    space: EmptyCluster,
    /// The requested orders, with the number of jobs that request each.
    requested: DemandByOrder,
}

impl<'a> Planning<'a> {
    /// Builds the state of a cycle from its snapshot.
    pub fn begin(snapshot: &'a Snapshot) -> Planning<'a> {
        Planning::with(snapshot, &Effort::default())
    }

    /// Builds the state of a cycle from its snapshot, within the limits of `effort`.
    pub fn with(snapshot: &'a Snapshot, effort: &Effort) -> Planning<'a> {
        Planning(Draft::with(snapshot, effort))
    }

    /// How Much: computes the target of each job.
    pub fn count(&mut self) {
        set_targets(&mut self.0);
    }

    /// What Of: preempts processes beyond the declared maximum of their jobs, and places what fits
    /// now.
    pub fn place(&mut self) {
        clear_in_time(&mut self.0);
        shed_beyond_maximum(&mut self.0);
        place_shares(&mut self.0);
        begin_steps(&mut self.0);
    }

    /// Makes space for jobs that still lack some, if there is any to free, and uses the free space
    /// that is left.
    pub fn make_space(&mut self) {
        let draft = &mut self.0;
        if draft.has_unmet_demand() && draft.has_space_to_free() {
            make_space(draft);
            fill(draft);
        }
        settle(draft);
        place_returned(draft);
        fill_steps(draft);
        fill_rest(draft);
        GangPlanner::start_unpaid(draft);
    }

    /// Returns the schedule, with the reasons of unmet demand.
    pub fn end(self) -> CycleSchedule {
        let report = reasons::report(&self.0);
        let (bills, incomes) = accounts(&self.0);
        let Draft { expansions, preemptions, promises, put_off, next_change, valid_until, .. } =
            self.0;
        CycleSchedule {
            expansions,
            preemptions,
            promises,
            put_off,
            bills,
            incomes,
            next_change,
            valid_until,
            report,
        }
    }

    /// The ideal cluster at the start of counting.
    pub fn ideal_cluster(&self) -> IdealCluster<'_, 'a> {
        let mut requested = DemandByOrder::default();
        for job in &self.0.jobs {
            requested.add(job.order.qshares().0);
        }
        IdealCluster { planning: self, space: EmptyCluster::new(&self.0.spaces), requested }
    }
}

impl IdealCluster<'_, '_> {
    /// For each requested order, ascending: the nshares that the cluster would hold if it held no
    /// other order.
    ///
    /// Design: "`NodePool`", `nSharesByOrder`.
    pub fn nshares(&self) -> Vec<(Order, u64)> {
        self.orders().map(|order| (order, self.space.nshares(order))).collect()
    }

    /// Carves nshares of the requested orders out of the cluster until no free space fits any of
    /// them. Takes an nshare of each order in turn, the largest first. Returns the number carved.
    ///
    /// Design: "Virtual Machines".
    pub fn carve(mut self) -> u64 {
        let pools = &self.planning.0.pools;
        let all = (0..self.planning.0.snapshot.topology.pools.len()).map(PoolIx);
        let tops: Vec<PoolIx> = all.filter(|pool| pools.top(*pool) == *pool).collect();
        let mut orders: Vec<Order> = self.orders().collect();
        orders.reverse();
        let mut carved = 0;
        loop {
            orders.retain(|&order| {
                let mut tops = tops.iter();
                tops.any(|&top| self.space.take(pools, top, order, &self.requested))
            });
            if orders.is_empty() {
                return carved;
            }
            carved += count(&orders);
        }
    }

    /// The orders that are asked for, ascending.
    fn orders(&self) -> impl Iterator<Item = Order> {
        self.requested.iter().filter_map(|order| u32::try_from(order).ok().and_then(Order::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::tests::{ANN, BOB, FAIR, FIXED, Scene};
    use crate::engine::plan;

    /// The example of the design. Whole nodes of 1, 1, 3 and four of 4. Three more nodes have 1, 2
    /// and 2 left; the rest of them cannot be preempted.
    fn scene() -> Scene {
        let mut scene = Scene::new(&[1, 1, 3, 4, 4, 4, 4, 4, 3, 3]);
        scene.running((ANN, FIXED), 3, 1, 7);
        scene.running((ANN, FIXED), 1, 1, 8);
        scene.running((ANN, FIXED), 1, 1, 9);
        for order in 1..=4 {
            scene.job(BOB, FAIR, order, 9);
        }
        scene
    }

    #[test]
    fn nshares_are_those_of_the_design_example() {
        let scene = scene();
        let planning = Planning::begin(&scene.snapshot);
        let nshares = planning.ideal_cluster().nshares();
        let nshares: Vec<(u64, u64)> =
            nshares.iter().map(|(order, nshares)| (order.qshares().0, *nshares)).collect();
        assert_eq!(nshares, [(1, 26), (2, 11), (3, 5), (4, 4)]);
    }

    /// Orders 4, 3, 2 and 1 twice each; then a 4 and a 1, and at last a 1: all 26 qshares.
    #[test]
    fn all_is_carved_that_there_is() {
        let scene = scene();
        let planning = Planning::begin(&scene.snapshot);
        assert_eq!(planning.ideal_cluster().carve(), 4 + 4 + 2 + 1);
        assert_eq!(planning.ideal_cluster().carve(), 11, "a copy was carved up");
    }

    /// Running the phases separately gives the same schedule as running the whole cycle.
    #[test]
    fn a_cycle_is_its_phases() {
        let scene = scene();
        let mut planning = Planning::begin(&scene.snapshot);
        planning.count();
        planning.place();
        planning.make_space();
        assert_eq!(planning.end(), plan(&scene.snapshot));
    }
}
