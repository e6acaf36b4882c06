//! The policies of the router.

use super::{PairView, Position, RouterPolicy};
use crate::grid::ratio::ONE;

/// All policies. A new policy is registered here, and nowhere else.
pub const ROUTER_POLICIES: &[&dyn RouterPolicy] =
    &[&Fair, &Fifo, &TwoPass, &Affinity, &HomeFirst, &Throughput];

/// Name of the policy by default.
pub const DEFAULT_POLICY: &str = "fair";

/// The policy of that name among `known`.
pub fn router_policy<'a>(
    known: &[&'a dyn RouterPolicy],
    name: &str,
) -> Option<&'a dyn RouterPolicy> {
    known.iter().copied().find(|policy| policy.name() == name)
}

/// The user with the least resources for the weight goes first; then age.
#[derive(Debug)]
struct Fair;

impl RouterPolicy for Fair {
    fn name(&self) -> &'static str {
        "fair"
    }

    fn position(&self, pair: &PairView<'_>) -> Position {
        [pair.share, pair.campaign.id, pair.place, 0]
    }
}

/// The first campaign that needs a free resource goes first.
#[derive(Debug)]
struct Fifo;

impl RouterPolicy for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn position(&self, pair: &PairView<'_>) -> Position {
        [pair.round, pair.campaign.id, pair.place, 0]
    }
}

/// All test campaigns on all their clusters, then all other campaigns on all of theirs.
#[derive(Debug)]
struct TwoPass;

impl RouterPolicy for TwoPass {
    fn name(&self) -> &'static str {
        "two-pass"
    }

    fn position(&self, pair: &PairView<'_>) -> Position {
        [0, pair.campaign.id, pair.place, pair.round]
    }
}

/// Campaigns on the clusters of their affinity, then on their other clusters.
#[derive(Debug)]
struct Affinity;

impl RouterPolicy for Affinity {
    fn name(&self) -> &'static str {
        "affinity"
    }

    fn position(&self, pair: &PairView<'_>) -> Position {
        [u64::from(!pair.target.has_affinity), pair.round, pair.campaign.id, pair.place]
    }
}

/// Users on their home clusters first; other users get only the space that is left there.
#[derive(Debug)]
struct HomeFirst;

impl RouterPolicy for HomeFirst {
    fn name(&self) -> &'static str {
        "home"
    }

    fn position(&self, pair: &PairView<'_>) -> Position {
        [u64::from(!pair.target.is_home), pair.share, pair.campaign.id, pair.place]
    }
}

/// The cluster where a task ends first, with the transfer of its input.
#[derive(Debug)]
struct Throughput;

impl RouterPolicy for Throughput {
    fn name(&self) -> &'static str {
        "throughput"
    }

    fn position(&self, pair: &PairView<'_>) -> Position {
        [pair.round, pair.campaign.id, expected_end_ms(pair), pair.place]
    }
}

/// Time until a task would end on the cluster: transfer, the queue before it, and its own time.
fn expected_end_ms(pair: &PairView<'_>) -> u64 {
    // An unmeasured cluster counts as fast, so that it is measured soon.
    let own = pair.target.mean_ms.unwrap_or(0);
    let queue = pair.target.throughput.map_or(0, |rate| {
        let waiting = u128::from(pair.target.waiting) * 1000 * u128::from(ONE);
        let time = waiting.checked_div(u128::from(rate)).unwrap_or(0);
        u64::try_from(time).unwrap_or(u64::MAX)
    });
    pair.target.transfer_ms.saturating_add(queue).saturating_add(own)
}
