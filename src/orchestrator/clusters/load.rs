//! Load of the clusters by the tasks that were forwarded there.
//!
//! The router counts *groups*: tasks that a slot runs one after another. A group of long tasks is a
//! single task. Short tasks would end long before the next pass, and the start of a slot would cost
//! more than a task.

use std::collections::BTreeMap;

use super::observe::ClusterState;
use crate::grid::ARRIVAL_MS;
use crate::model::{Name, count};
use crate::orchestrator::book::{
    ForwardableCampaign, ForwardedBatch, ForwardedTask, ForwardingView,
};
use crate::orchestrator::drive::wall_ms;
use crate::orchestrator::spec::CampaignType;

/// Most tasks of a group.
const LARGEST_GROUP: u64 = 50;

/// Forwarded groups of a campaign on a cluster, or of all campaigns there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TaskLoad {
    /// Groups that run: a task of the group runs.
    pub running: u64,
    /// All other groups.
    pub waiting: u64,
}

/// Facts of a campaign for the load.
#[derive(Clone, Copy, Debug)]
struct GroupFacts {
    /// Tasks of a group.
    tasks: u64,
    /// Resources of a task.
    resources: u64,
    /// True if the campaign is a test: its tasks are no surplus.
    is_test: bool,
}

/// Loads of all clusters at the start of a pass.
#[derive(Debug, Default)]
pub(super) struct ClusterLoads {
    campaigns: BTreeMap<u64, GroupFacts>,
    pairs: BTreeMap<(u64, Name), TaskLoad>,
    clusters: BTreeMap<Name, TaskLoad>,
    /// Resources of each arriving group, by cluster.
    arriving: BTreeMap<Name, Vec<u64>>,
}

impl ClusterLoads {
    /// Counts the groups of all batches. `states`: the clusters, for their free memory.
    /// `resource_mb`: memory of a resource.
    pub(super) fn new(
        view: &ForwardingView,
        states: &[ClusterState],
        resource_mb: u64,
    ) -> ClusterLoads {
        let resource_mb = resource_mb.max(1);
        let free_mb: u64 = states.iter().flat_map(|it| &it.nodes).map(|(free, _)| *free).sum();
        let facts = |campaign: &ForwardableCampaign| {
            let resources = campaign.memory_mb.div_ceil(resource_mb).max(1);
            let slots = free_mb.checked_div(resources.saturating_mul(resource_mb)).unwrap_or(0);
            let (queued, mean_ms) = (campaign.queued, campaign.ended.0);
            let target_ms = campaign.spec.task.group_target_ms;
            let is_test = campaign.spec.kind == CampaignType::Test;
            let tasks = if is_test { 1 } else { group_size(target_ms, mean_ms, queued, slots) };
            GroupFacts { tasks, resources, is_test }
        };
        let campaigns = view.campaigns.iter().map(|campaign| (campaign.id, facts(campaign)));
        let mut loads = ClusterLoads { campaigns: campaigns.collect(), ..ClusterLoads::default() };
        for batch in &view.batches {
            let resources = loads.campaigns.get(&batch.campaign).map_or(1, |it| it.resources);
            let waiting = loads.waiting_groups(batch);
            let arriving = waiting.iter().filter(|group| group.iter().all(|task| arrives(task)));
            let arriving: Vec<u64> = arriving.map(|_| resources).collect();
            let load = TaskLoad { running: running(batch), waiting: count(&waiting) };
            let pair = loads.pairs.entry((batch.campaign, batch.cluster.clone())).or_default();
            let all = loads.clusters.entry(batch.cluster.clone()).or_default();
            for sum in [pair, all] {
                sum.running += load.running;
                sum.waiting += load.waiting;
            }
            loads.arriving.entry(batch.cluster.clone()).or_default().extend(arriving);
        }
        loads
    }

    /// Counts all tasks, each for itself, as they are told to users.
    pub(super) fn of_tasks(view: &ForwardingView) -> ClusterLoads {
        let mut loads = ClusterLoads::default();
        for batch in &view.batches {
            let running = running(batch);
            let waiting = count(&batch.tasks) - running;
            let pair = loads.pairs.entry((batch.campaign, batch.cluster.clone())).or_default();
            let all = loads.clusters.entry(batch.cluster.clone()).or_default();
            for sum in [pair, all] {
                (sum.running, sum.waiting) = (sum.running + running, sum.waiting + waiting);
            }
        }
        loads
    }

    /// Tasks of a group of a campaign.
    pub(super) fn group_of(&self, campaign: u64) -> u64 {
        self.campaigns.get(&campaign).map_or(1, |it| it.tasks)
    }

    /// True if a campaign is a test.
    pub(super) fn is_test(&self, campaign: u64) -> bool {
        self.campaigns.get(&campaign).is_some_and(|it| it.is_test)
    }

    /// Groups of a batch that no slot has begun, in the order of their tasks. Tasks that follow a
    /// running task in its slot wait for no space.
    pub(super) fn waiting_groups<'a>(
        &self,
        batch: &'a ForwardedBatch,
    ) -> Vec<Vec<&'a ForwardedTask>> {
        let tasks = self.group_of(batch.campaign);
        let size = usize::try_from(tasks).unwrap_or(usize::MAX).max(1);
        let followers = running(batch).saturating_mul(tasks.saturating_sub(1));
        let followers = usize::try_from(followers).unwrap_or(usize::MAX);
        let waiting = batch.tasks.iter().filter(|task| !task.is_running).skip(followers);
        let waiting: Vec<&ForwardedTask> = waiting.collect();
        waiting.chunks(size).map(<[_]>::to_vec).collect()
    }

    /// Load of a cluster by a campaign.
    pub(super) fn of_pair(&self, campaign: u64, cluster: &Name) -> TaskLoad {
        self.pairs.get(&(campaign, cluster.clone())).copied().unwrap_or_default()
    }

    /// Load of a cluster, and its `free` resources as they will be. An arriving group takes free
    /// resources as long as there are some, and does not wait then.
    pub(super) fn of_cluster(&self, cluster: &Name, mut free: u64) -> (TaskLoad, u64) {
        let mut load = self.clusters.get(cluster).copied().unwrap_or_default();
        for resources in self.arriving.get(cluster).into_iter().flatten() {
            let Some(left) = free.checked_sub(*resources) else { continue };
            free = left;
            load.waiting = load.waiting.saturating_sub(1);
        }
        (load, free)
    }
}

/// Tasks of a group that takes about `target_ms`, by the mean time of a task in milliseconds; 0: no
/// task has ended. The last of the `queued` tasks are shared by all `slots` that are free.
fn group_size(target_ms: u64, mean_ms: u64, queued: u64, slots: u64) -> u64 {
    let half = mean_ms.checked_div(2).unwrap_or(0);
    let tasks = target_ms.saturating_add(half).checked_div(mean_ms).unwrap_or(0);
    let even = queued.checked_div(slots.max(1)).unwrap_or(1);
    tasks.saturating_add(1).min(LARGEST_GROUP).min(even).max(1)
}

fn running(batch: &ForwardedBatch) -> u64 {
    count(batch.tasks.iter().filter(|task| task.is_running))
}

/// True if a task was sent so lately that its cluster may not have begun it yet, though it has space.
pub(super) fn arrives(task: &ForwardedTask) -> bool {
    !task.is_running && wall_ms().saturating_sub(task.assigned_ms) < ARRIVAL_MS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orchestrator::wire::AttemptId;

    fn batch(campaign: u64, cluster: &str, tasks: &[(bool, u64)]) -> ForwardedBatch {
        let task = |(number, (is_running, age)): (u64, &(bool, u64))| ForwardedTask {
            id: AttemptId { campaign, task: number, attempt: 1 },
            is_running: *is_running,
            is_cancelled: false,
            assigned_ms: wall_ms().saturating_sub(*age),
        };
        let tasks = (1..).zip(tasks).map(task).collect();
        ForwardedBatch { batch: 1, campaign, cluster: cluster.into(), lease_ms: None, tasks }
    }

    #[test]
    fn an_arriving_task_takes_free_room_and_waits_if_there_is_none() {
        let old = 10 * ARRIVAL_MS;
        let lyon = batch(7, "lyon", &[(true, old), (false, old), (false, 0), (false, 0)]);
        let batches = vec![lyon, batch(8, "lyon", &[(false, 0)]), batch(7, "nancy", &[(true, 0)])];
        let view = ForwardingView { batches, ..ForwardingView::default() };
        let loads = ClusterLoads::new(&view, &[], 1024);
        // Four tasks are not running; the three that arrive take the free space.
        for (free, waiting, left) in [(0, 4, 0), (2, 2, 0), (3, 1, 0), (9, 1, 6)] {
            let expected = (TaskLoad { running: 1, waiting }, left);
            assert_eq!(loads.of_cluster(&"lyon".into(), free), expected, "{free}");
        }
        let expected = TaskLoad { running: 1, waiting: 3 };
        assert_eq!(loads.of_pair(7, &"lyon".into()), expected);
        let told = ClusterLoads::of_tasks(&view).of_cluster(&"lyon".into(), 3);
        assert_eq!(told, (TaskLoad { running: 1, waiting: 4 }, 3), "users are told of all tasks");
        let nancy = TaskLoad { running: 1, waiting: 0 };
        assert_eq!(loads.of_cluster(&"nancy".into(), 5), (nancy, 5));
    }

    #[test]
    fn short_tasks_are_counted_in_groups() {
        let facts = GroupFacts { tasks: 3, resources: 1, is_test: false };
        let loads =
            ClusterLoads { campaigns: BTreeMap::from([(7, facts)]), ..ClusterLoads::default() };
        let old = 10 * ARRIVAL_MS;
        let groups = |tasks: &[(bool, u64)]| {
            let batch = batch(7, "lyon", tasks);
            let groups = loads.waiting_groups(&batch);
            groups
                .iter()
                .map(|group| group.iter().map(|it| it.id.task).collect())
                .collect::<Vec<Vec<u64>>>()
        };
        // Nothing runs: all tasks wait. A running task has two that follow it.
        assert_eq!(groups(&[(false, old); 7]), [vec![1, 2, 3], vec![4, 5, 6], vec![7]]);
        let mut tasks = [(false, old); 7];
        tasks[0].0 = true;
        assert_eq!(groups(&tasks), [vec![4, 5, 6], vec![7]]);
        tasks[1].0 = true;
        assert_eq!(groups(&tasks), [vec![7]]);
    }

    #[test]
    fn the_last_tasks_are_shared_by_all_free_slots() {
        for (target_ms, mean_ms, queued, slots, size) in [
            (10_000, 0, 1_000, 4, 1),
            (10_000, 60_000, 1_000, 4, 1),
            (10_000, 3_000, 1_000, 4, 4),
            (10_000, 200, 1_000, 4, 50),
            (0, 200, 1_000, 4, 1),
            (10_000, 200, 80, 4, 20),
            (10_000, 200, 3, 4, 1),
            (10_000, 1, 100_000, 4, 50),
            (10_000, 200, 100, 0, 50),
        ] {
            let found = group_size(target_ms, mean_ms, queued, slots);
            assert_eq!(found, size, "{target_ms} {mean_ms} {queued} {slots}");
        }
    }
}
