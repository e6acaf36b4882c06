//! The clusters of a grid, and the forecasts of campaigns.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A cluster of the grid at a pass of the router, in resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GridCluster {
    /// Name of the cluster; `local` for the router's own.
    pub cluster: String,
    /// `in`; `silent`; `held` by an open event; `stressed`; `out` if an operator took it out.
    pub state: String,
    /// Time of the pass, in milliseconds since the epoch. 0: no pass has seen the cluster.
    pub at_ms: u64,
    /// Number of its nodes.
    pub nodes: u64,
    /// All resources.
    pub capacity: u64,
    /// Free resources.
    pub free: u64,
    /// Resources in use, by any work.
    pub used: u64,
    /// Running tasks of the grid.
    pub running: u64,
    /// Tasks of the grid that wait on the cluster.
    pub waiting: u64,
    /// Tasks sent in the pass.
    pub sent: u64,
    /// Memory of a resource, in MiB.
    pub resource_mb: u64,
    /// Nodes by enforcement of memory limits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rungs: BTreeMap<String, u64>,
    /// Stress of the cluster, in thousandths: from 800 on it gets no task.
    #[serde(default)]
    pub stress: u64,
    /// Sentence of the event or of the stress for which it gets no task.
    #[serde(default)]
    pub held_why: String,
    /// Time at which an operator took it out, in milliseconds since the epoch. Absent: it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_ms: Option<u64>,
    /// The operator that took it out, and the reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub out_why: String,
}

/// The grid over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GridHistory {
    /// The clusters at each pass, first to last.
    pub passes: Vec<GridCluster>,
    /// True if there are more rows in this time: ask from the last `at_ms` on.
    pub more: bool,
}

/// A change of a cluster by an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterChange {
    /// `out`: no task is sent there, and waiting tasks are withdrawn. `in`: back into the grid. `lost`: out, and no
    /// process of it runs any more, so its tasks begin elsewhere at once.
    pub state: String,
    /// The reason.
    #[serde(default)]
    pub why: String,
}

/// A forecast of a campaign on a cluster, and the state of its predictor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CampaignForecast {
    /// Start of the minute of the forecast, in milliseconds since the epoch.
    pub at_ms: u64,
    /// Name of the cluster. Empty: the whole campaign.
    pub cluster: String,
    /// Tasks for a free resource, in millionths.
    pub ratio: u64,
    /// Tasks sent in the last pass of the minute.
    pub sent: u64,
    /// Tasks that ended within the last hour.
    pub ended: u64,
    /// Their mean time, in milliseconds.
    pub mean_ms: u64,
    /// Standard deviation of their times, in milliseconds.
    pub deviation_ms: u64,
    /// Tasks that ended for each second, in millionths.
    pub throughput: u64,
    /// The formula: `mean-time` or `throughput`.
    pub basis: String,
    /// The predicted end, in milliseconds since the epoch. Absent: there is no forecast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ms: Option<u64>,
}

/// The forecasts of a campaign over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForecastList {
    /// The forecasts, first to last.
    pub forecasts: Vec<CampaignForecast>,
}

/// Places of tasks that were begun or assigned, in words: "12 in slots, 30 on other clusters (lyon
/// 20, nancy 10)".
pub fn places(running: u64, away: &BTreeMap<String, u64>) -> String {
    let elsewhere = away.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
    let here = running.saturating_sub(elsewhere);
    if away.is_empty() {
        return format!("{here} in slots");
    }
    let clusters: Vec<String> =
        away.iter().map(|(name, count)| format!("{name} {count}")).collect();
    format!("{here} in slots, {elsewhere} on other clusters ({})", clusters.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarded_tasks_are_told_by_cluster_and_not_in_slots() {
        let away = BTreeMap::from([("lyon".to_owned(), 20), ("nancy".to_owned(), 10)]);
        assert_eq!(places(42, &away), "12 in slots, 30 on other clusters (lyon 20, nancy 10)");
        assert_eq!(places(42, &BTreeMap::new()), "42 in slots");
        assert_eq!(places(3, &away), "0 in slots, 30 on other clusters (lyon 20, nancy 10)");
    }
}
