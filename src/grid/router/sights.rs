//! Sights of clusters and campaigns: the snapshot that a pass works on.

use crate::grid::predictor::{PairReading, Predictor};
use crate::model::Name;

/// Stress, in thousandths, from which on no task is sent to a cluster.
pub const STRESS_LIMIT: u64 = 800;

/// A cluster at the start of a pass.
#[derive(Clone, Debug)]
pub struct ClusterSight {
    /// Name of the cluster.
    pub name: Name,
    /// True for the cluster of the router's own orchestrator.
    pub is_local: bool,
    /// Declared priority; a higher number goes first.
    pub priority: i64,
    /// Power of a resource, in the operator's unit.
    pub power: u64,
    /// Resources of the cluster, in its quanta.
    pub capacity: u64,
    /// Free resources.
    pub free: u64,
    /// Running tasks of the grid.
    pub running: u64,
    /// Waiting tasks of the grid.
    pub waiting: u64,
    /// The flood rate, in millionths.
    pub flood: u64,
    /// Stress of the cluster, in thousandths.
    pub stress: u64,
    /// True if no task is sent: the cluster does not answer, or an operator closed it.
    pub is_closed: bool,
    /// The predictor of the cluster.
    pub predictor: &'static dyn Predictor,
}

/// A campaign at the start of a pass.
#[derive(Clone, Debug)]
pub struct CampaignSight {
    /// Number of the campaign.
    pub id: u64,
    /// Name of the owner.
    pub user: Name,
    /// Weight of the owner among all users.
    pub weight: u64,
    /// True for a test campaign: a single task on each cluster.
    pub is_test: bool,
    /// Tasks in the bag.
    pub left: u64,
    /// The clusters of the campaign.
    pub targets: Vec<TargetSight>,
}

/// A campaign on a cluster.
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetSight {
    /// Position of the cluster among the sights.
    pub cluster: usize,
    /// Resources of a task on this cluster.
    pub resources: u64,
    /// Running tasks of the campaign.
    pub running: u64,
    /// Waiting tasks of the campaign.
    pub waiting: u64,
    /// Most tasks of the campaign on the cluster.
    pub max: Option<u64>,
    /// Resources of a finished task on average, in millionths.
    pub mean_resources: Option<u64>,
    /// True if the owner of the campaign has an affinity with the cluster.
    pub has_affinity: bool,
    /// True if the cluster is the owner's home.
    pub is_home: bool,
    /// True if a task of a test campaign was sent there.
    pub has_tested: bool,
    /// True if the campaign may not use the cluster: blacklisted, or a property does not match.
    pub is_barred: bool,
    /// True while the input of the campaign is on its way, or its prologue has not ended well.
    pub is_preparing: bool,
    /// Time to transfer the input of a task, in milliseconds.
    pub transfer_ms: u64,
    /// Mean time of a task on the cluster, in milliseconds. `None`: no task has ended there.
    pub mean_ms: Option<u64>,
    /// Ended tasks for each second on the cluster, in millionths.
    pub throughput: Option<u64>,
}

/// All clusters and campaigns at the start of a pass.
#[derive(Clone, Debug, Default)]
pub struct GridSight {
    /// Clusters; targets name them by position.
    pub clusters: Vec<ClusterSight>,
    /// Campaigns, by number.
    pub campaigns: Vec<CampaignSight>,
    /// The time, in milliseconds of the caller's clock.
    pub now_ms: u64,
}

impl GridSight {
    /// True if tasks of the campaign may be sent to the cluster of this target.
    pub fn is_eligible(&self, campaign: &CampaignSight, target: &TargetSight) -> bool {
        let Some(cluster) = self.clusters.get(target.cluster) else { return false };
        0 < campaign.left
            && !cluster.is_closed
            && cluster.stress < STRESS_LIMIT
            && !target.is_barred
            && !target.is_preparing
    }

    /// Readings for the predictor of a target.
    pub fn reading(&self, campaign: &CampaignSight, target: &TargetSight) -> PairReading {
        let cluster = self.clusters.get(target.cluster);
        PairReading {
            capacity: cluster.map_or(0, |it| it.capacity),
            free: cluster.map_or(0, |it| it.free),
            resources: target.resources,
            running: cluster.map_or(0, |it| it.running),
            waiting: cluster.map_or(0, |it| it.waiting),
            own_waiting: target.waiting,
            own: target.running.saturating_add(target.waiting),
            flood: cluster.map_or(0, |it| it.flood),
            left: campaign.left,
            max: target.max,
            mean_resources: target.mean_resources,
            now_ms: self.now_ms,
        }
    }
}
