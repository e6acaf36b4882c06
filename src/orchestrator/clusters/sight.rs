//! The sights of a pass: clusters and campaigns as the router's core sees them.

use super::load::ClusterLoads;
use super::observe::ClusterState;
use super::remote::RemoteCluster;
use super::router::GridRouter;
use crate::grid::{
    CampaignSight, ClusterSight, Grant, GridSight, ONE, Routing, TargetSight, TaskFigures,
};
use crate::model::Name;
use crate::orchestrator::book::{ForwardableCampaign, Forwarding, ForwardingView, LOCAL};
use crate::orchestrator::spec::CampaignType;
use crate::slot::since_boot_ms;

impl GridRouter {
    /// The sights of a pass, in groups of tasks. The local cluster is the first.
    pub(super) fn sight(
        &self,
        view: &ForwardingView,
        states: &[ClusterState],
        loads: &ClusterLoads,
    ) -> GridSight {
        let resource = self.settings.resource_mb.max(1);
        let resources = |mb: u64| mb.checked_div(resource).unwrap_or(0);
        let settings = self.remotes.iter().map(RemoteCluster::settings);
        let settings = std::iter::once(None).chain(settings.map(Some));
        let clusters = settings.zip(states).map(|(settings, state)| {
            let name = settings.map_or_else(|| Name::from(LOCAL), |it| it.name.clone());
            let free = state.nodes.iter().map(|(free, _)| resources(*free)).sum();
            let (load, free) = loads.of_cluster(&name, free);
            let has_no_node = settings.is_none() && state.nodes.is_empty();
            let is_held = state.held.is_some() || self.out.contains(&name);
            ClusterSight {
                is_local: settings.is_none(),
                priority: settings.map_or(0, |it| it.priority),
                power: settings.map_or(1, |it| it.power),
                capacity: state.nodes.iter().map(|(_, all)| resources(*all)).sum(),
                free,
                running: load.running,
                waiting: load.waiting,
                flood: self.settings.flood,
                stress: state.stress,
                is_closed: state.is_silent || has_no_node || is_held,
                predictor: settings.map_or(self.local_predictor, |_| self.remote_predictor),
                name,
            }
        });
        let clusters: Vec<ClusterSight> = clusters.collect();
        let campaigns = view.campaigns.iter();
        let campaigns = campaigns.map(|campaign| self.campaign_sight(campaign, loads, &clusters));
        let campaigns = campaigns.collect();
        GridSight { campaigns, clusters, now_ms: since_boot_ms() }
    }

    fn campaign_sight(
        &self,
        campaign: &ForwardableCampaign,
        loads: &ClusterLoads,
        clusters: &[ClusterSight],
    ) -> CampaignSight {
        let resource = self.settings.resource_mb.max(1);
        let needed = campaign.memory_mb.div_ceil(resource).max(1);
        let (mean_ms, ended) = campaign.ended;
        let away = &campaign.away;
        let target = |(at, cluster): (usize, &ClusterSight)| {
            let load = loads.of_pair(campaign.id, &cluster.name);
            let running = if cluster.is_local { campaign.in_slots } else { load.running };
            let mut settings = self.remotes.iter().map(RemoteCluster::settings);
            let settings = settings.find(|it| it.name == cluster.name);
            let names = |list: &[String]| list.contains(&campaign.owner);
            let avoided = away.avoided.get(&cluster.name);
            let is_elsewhere = away.only.as_ref().is_some_and(|only| *only != cluster.name);
            let figures = self.record.figures_of(campaign.id, &cluster.name);
            TargetSight {
                cluster: at,
                resources: needed,
                running,
                waiting: load.waiting,
                // A single task tries a cluster again that the campaign avoids.
                max: avoided.map_or(campaign.spec.max, |_| Some(1)),
                mean_resources: (0 < ended).then_some(needed.saturating_mul(ONE)),
                has_affinity: settings.is_some_and(|it| names(&it.affinity)),
                is_home: settings.is_some_and(|it| names(&it.home)),
                mean_ms: figures
                    .filter(|figures| 0 < figures.count)
                    .map(|figures| figures.mean_ms)
                    .or((0 < ended).then_some(mean_ms)),
                throughput: figures.and_then(TaskFigures::throughput),
                has_tested: 0 < running + load.waiting,
                is_barred: is_elsewhere || avoided.is_some_and(|may_try| !may_try),
                is_preparing: away.preparing.contains(&cluster.name),
                transfer_ms: transfer_ms(
                    campaign.spec.input_mb,
                    settings.and_then(|it| it.bandwidth_mb),
                ),
            }
        };
        let targets: Vec<TargetSight> = clusters.iter().enumerate().map(target).collect();
        let is_test = campaign.spec.kind == CampaignType::Test;
        let is_open = |it: &&TargetSight| !clusters[it.cluster].is_closed && !it.is_barred;
        let left = if is_test && campaign.waits_for_router {
            // All clusters are chosen at once, when the last of them is prepared.
            let prepares = targets.iter().filter(is_open).any(|it| it.is_preparing);
            if prepares { 0 } else { campaign.queued }
        } else if is_test && clusters.iter().any(|it| it.is_local && !it.is_closed) {
            // The rest of a test belongs to the own cluster.
            0
        } else {
            campaign.queued
        };
        CampaignSight {
            id: campaign.id,
            user: campaign.owner.as_str().into(),
            weight: self.settings.weights.get(&campaign.owner).copied().unwrap_or(1),
            is_test,
            left: left.div_ceil(loads.group_of(campaign.id)),
            targets,
        }
    }
}

/// Time to transfer input of this size to a cluster of this bandwidth, in MiB and MiB a second. It is 0
/// where one of them is not known.
fn transfer_ms(input_mb: Option<u64>, bandwidth_mb: Option<u64>) -> u64 {
    let time = |(size, bandwidth): (u64, u64)| size.saturating_mul(1000).checked_div(bandwidth);
    input_mb.zip(bandwidth_mb).and_then(time).unwrap_or(0)
}

/// Choice of the clusters of a test, if a cluster was found: with the tasks kept for the own cluster.
pub(super) fn tested(test: u64, sight: &GridSight, sent: &Routing) -> Option<Forwarding> {
    let own = || sent.grants.iter().filter(|grant| grant.campaign == test);
    own().next()?;
    let local = own().filter(|grant| sight.clusters[grant.cluster].is_local);
    Some(Forwarding::Tested(test, local.map(|grant| grant.count).sum()))
}

/// A routing of groups, in tasks. A single task tries a cluster that its campaign avoids.
pub(super) fn in_tasks(
    routing: &Routing,
    view: &ForwardingView,
    sight: &GridSight,
    loads: &ClusterLoads,
) -> Routing {
    let in_tasks = |grant: &Grant| {
        let cluster = &sight.clusters[grant.cluster].name;
        let campaign = view.campaign(grant.campaign);
        let is_avoided = campaign.is_some_and(|it| it.away.avoided.contains_key(cluster));
        let group = if is_avoided { 1 } else { loads.group_of(grant.campaign) };
        Grant { count: grant.count.saturating_mul(group), ..grant.clone() }
    };
    Routing { grants: routing.grants.iter().map(in_tasks).collect(), ..Routing::default() }
}

#[cfg(test)]
mod tests {
    use super::transfer_ms;

    #[test]
    fn input_takes_as_long_as_its_size_and_the_bandwidth_say() {
        for (input_mb, bandwidth_mb, ms) in [
            (Some(10_240), Some(100), 102_400),
            (Some(1), Some(1024), 0),
            (Some(u64::MAX), Some(1), u64::MAX),
            (None, Some(100), 0),
            (Some(10_240), None, 0),
        ] {
            assert_eq!(transfer_ms(input_mb, bandwidth_mb), ms, "{input_mb:?} {bandwidth_mb:?}");
        }
    }
}
