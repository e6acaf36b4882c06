//! Passes of the router over many clusters and campaigns: the pure part, without requests.

use std::hint::black_box;

use serde::Serialize;

use super::times::DurationSpread;
use crate::grid::{
    CampaignSight, ClusterSight, GridSight, PREDICTORS, PairStates, REMOTE_PREDICTOR,
    ROUTER_POLICIES, RouteSettings, SentTask, Strictness, TargetSight, WAITING_LIMIT_MS, predict,
    predictor, route, settle, surplus,
};
use crate::model::Name;
use crate::sim::systemtest::Clock;

/// Goal for the time of a pass over 50 clusters and 1,000 campaigns, in milliseconds.
pub const GOAL_MS: u64 = 100;
/// Campaigns of each user.
const CAMPAIGNS_A_USER: u64 = 10;
/// Time between two passes, in milliseconds.
const PASS_MS: u64 = 10_000;

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridOptions {
    /// Clusters. At least 1.
    pub clusters: u64,
    /// Campaigns, each with tasks for all clusters. At least 1.
    pub campaigns: u64,
    /// Timed passes. At least 1.
    pub passes: u64,
}

/// Passes under a policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GridFigures {
    /// Name of the policy.
    pub policy: String,
    /// Clusters.
    pub clusters: u64,
    /// Campaigns.
    pub campaigns: u64,
    /// Timed passes.
    pub passes: u64,
    /// Time of a pass: predict, route, settle, and the surplus of each cluster.
    pub pass_ms: DurationSpread,
    /// Tasks sent in the last pass.
    pub sent: u64,
    /// Goal for a pass, in milliseconds.
    pub goal_ms: u64,
}

/// The sight of pass `number`: the space of the clusters differs from pass to pass.
fn sight(options: &GridOptions, number: u64) -> GridSight {
    let remote = predictor(PREDICTORS, REMOTE_PREDICTOR).unwrap_or(PREDICTORS[0]);
    let part = |value: u64, of: u64| value.checked_rem(of).unwrap_or(0);
    let cluster = |at: u64| ClusterSight {
        name: Name::from(format!("c{at:03}")),
        is_local: at == 0,
        priority: 0,
        power: 1 + part(at, 3),
        capacity: 4000,
        free: part(at * 131 + number * 977, 1000),
        running: 2000,
        waiting: part(at * 17 + number, 300),
        flood: 500_000,
        stress: 0,
        is_closed: false,
        predictor: remote,
    };
    let clusters: Vec<ClusterSight> = (0..options.clusters).map(cluster).collect();
    let campaign = |id: u64| {
        let target = |(at, _): (usize, &ClusterSight)| TargetSight {
            cluster: at,
            resources: 1 + part(id, 4),
            running: part(id + number, 5),
            waiting: part(id * 7 + number, 3),
            mean_resources: Some(1_000_000),
            mean_ms: Some(60_000),
            ..TargetSight::default()
        };
        let user = id.checked_div(CAMPAIGNS_A_USER).unwrap_or(0);
        CampaignSight {
            id,
            user: Name::from(format!("u{user:04}")),
            weight: 1,
            is_test: part(id, 100) == 7,
            left: 100_000,
            targets: clusters.iter().enumerate().map(target).collect(),
        }
    };
    let campaigns = (1..=options.campaigns).map(campaign).collect();
    GridSight { campaigns, clusters, now_ms: number * PASS_MS }
}

/// Times passes under each policy.
pub fn run(options: &GridOptions, clock: Clock<'_>) -> Vec<GridFigures> {
    let policies = ROUTER_POLICIES.iter().copied();
    let figures = policies.map(|policy| {
        let strictness = Strictness::default();
        let settings = RouteSettings { policy, interleaves: true, strictness };
        let (mut states, mut times, mut sent) = (PairStates::new(), Vec::new(), 0);
        // The first pass fills the states; it is not timed.
        for number in 0..=options.passes {
            let sight = sight(options, number);
            let waiting: Vec<Vec<SentTask>> = sight.clusters.iter().map(waiting_on).collect();
            let begun = clock();
            let next = predict(&sight, &states, strictness);
            let routing = route(&sight, &next, settings);
            states = settle(&sight, next, &routing);
            for (at, tasks) in waiting.iter().enumerate() {
                let allowed = Some(sight.allowed_on(at));
                black_box(surplus(tasks, allowed, sight.now_ms, WAITING_LIMIT_MS));
            }
            let time = clock().saturating_sub(begun);
            if 0 < number {
                times.push(time);
            }
            sent = routing.grants.iter().map(|grant| grant.count).sum();
        }
        GridFigures {
            policy: policy.name().to_owned(),
            clusters: options.clusters,
            campaigns: options.campaigns,
            passes: options.passes,
            pass_ms: DurationSpread::of(times),
            sent,
            goal_ms: GOAL_MS,
        }
    });
    figures.collect()
}

/// The tasks that wait on a cluster.
fn waiting_on(cluster: &ClusterSight) -> Vec<SentTask> {
    let task = |task| SentTask { sent_ms: task, campaign: 1, task, is_exempt: false };
    (0..cluster.waiting).map(task).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_policy_sends_tasks_and_passes_differ() {
        let options = GridOptions { clusters: 5, campaigns: 30, passes: 2 };
        let figures = run(&options, &|| Duration::ZERO);
        assert_eq!(figures.len(), ROUTER_POLICIES.len());
        assert!(figures.iter().all(|it| 0 < it.sent), "{figures:?}");
        assert_ne!(sight(&options, 1).clusters[1].free, sight(&options, 2).clusters[1].free);
    }
}
