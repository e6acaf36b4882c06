//! Space for an urgent job, and the obstacle if there is too little.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::draft::Draft;
use crate::engine::gang::Taker;
use crate::engine::gang::planner::GangPlanner;
use crate::engine::gang::request::GangRequest;
use crate::engine::gang::supply::Space;
use crate::engine::wait_reason::WaitReason;
use crate::model::{JobIx, NodeIx, PoolIx};

impl GangPlanner {
    /// Finds the space and the calendar of a job before any decision of the cycle.
    pub(super) fn look_from(&mut self, draft: &Draft<'_>, taker: Taker) {
        self.find_supply(draft, taker);
        if let Some(calendar) = &mut self.calendar {
            calendar.find_ends(draft, &self.kinds, taker);
        }
    }

    /// Lifts all limits of a request but those of windows: urgent work may delay what waits.
    #[expect(clippy::unused_self, reason = "the limits are those of this planner")]
    pub(super) fn ignore_bookings(&self, request: &mut GangRequest<'_>) {
        for limit in request.limits.iter_mut().flat_map(|limits| limits.values_mut()) {
            limit.free = if limit.is_open { u64::MAX } else { 0 };
        }
    }

    /// Enters the space of a node.
    pub(super) fn set_space(&mut self, pool: PoolIx, node: NodeIx, space: Space) {
        let supply = self.supply.entry(pool).or_default();
        Arc::make_mut(supply).set(&self.kinds, node, space);
    }

    /// True if a process of the request may be on a node with this much space.
    pub(super) fn suits_node(&self, request: &GangRequest<'_>, node: NodeIx, space: u64) -> bool {
        let kind = self.kinds.of(node.0);
        let least = request.pieces.iter().map(|piece| piece.size).min().unwrap_or(0);
        let is_enough = least <= space && (!request.shape.is_exclusive || space == kind.order);
        let group = (kind, self.kinds.windows.list_of(node.0));
        let is_open = request
            .limits
            .as_ref()
            .is_none_or(|limits| limits.get(&group).is_some_and(|limit| limit.is_open));
        let tags = self.kinds.tags(kind);
        is_enough && is_open && request.shape.chunks.iter().any(|it| tags.satisfy(&it.tags))
    }

    /// The reason why a request has too little space, with all remedies in the supply.
    pub(super) fn lack_of_space(
        &mut self,
        draft: &Draft<'_>,
        request: &GangRequest<'_>,
    ) -> WaitReason {
        self.unclaimed.clone_from(&self.supply);
        let reason = self.reason_to_wait(draft, request, None);
        self.cause(draft, request, reason)
    }

    /// The pools of which the space matters if only the job at `job` asks.
    pub(super) fn for_request(draft: &Draft<'_>, job: JobIx) -> GangPlanner {
        GangPlanner::of_pools(draft, &BTreeSet::from([draft.class_of(job).pool]))
    }
}
