//! The clusters of the grid demo, their other users, and the campaigns. Time goes by in passes.
//!
//! The decisions are those of the pure core: predictors, router, flood control, leases, forecasts.
//! The clusters are played.

use std::collections::{BTreeSet, VecDeque};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::grid::{
    CampaignProgress, CampaignSight, ClusterSight, EndedTask, ForwardingLease, GridSight,
    LOCAL_PREDICTOR, PREDICTORS, PairStates, REMOTE_PREDICTOR, ROUTER_POLICIES, RouteSettings,
    SentTask, Strictness, TargetSight, TaskFigures, WAITING_LIMIT_MS, predict, predictor, route,
    settle, surplus,
};
use crate::model::{Name, count};

/// Time between two passes, in milliseconds.
pub(super) const PASS_MS: u64 = 10_000;
/// Part of a cluster's slots for which tasks may wait, in millionths.
const FLOOD: u64 = 100_000;
/// Leases of the tasks on other clusters.
const LEASE: ForwardingLease =
    ForwardingLease { lease_ms: 60_000, slot_lease_ms: 30_000, grace_ms: 10_000, unheard_ms: 0 };
const MINUTE: u64 = 60_000;

/// A cluster of the grid.
#[derive(Debug)]
pub(super) struct PlayedCluster {
    pub name: &'static str,
    pub slots: u64,
    /// Speed of the nodes, in percent.
    speed: u64,
    /// Slots that other users want from each minute on, ascending.
    others_want: &'static [(u64, u64)],
    /// Slots that other users hold.
    pub others: u64,
    pub running: Vec<PlayedTask>,
    pub waiting: VecDeque<PlayedTask>,
    /// Time since which the cluster does not answer.
    pub silent_since: Option<u64>,
}

impl PlayedCluster {
    pub fn free(&self) -> u64 {
        self.slots.saturating_sub(self.others).saturating_sub(count(&self.running))
    }

    /// Slots that the other users leave.
    fn left_by_others(&self) -> u64 {
        if self.silent_since.is_some() { 0 } else { self.slots.saturating_sub(self.others) }
    }
}

/// A task on a cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlayedTask {
    campaign: usize,
    number: u64,
    sent_ms: u64,
    began_ms: u64,
    ends_ms: u64,
}

/// A campaign of the grid.
#[derive(Debug)]
pub(super) struct PlayedCampaign {
    pub name: &'static str,
    pub user: &'static str,
    pub tasks: u64,
    pub is_test: bool,
    /// Mean time of a task, in milliseconds.
    mean_ms: u64,
    arrives_ms: u64,
    pub has_arrived: bool,
    /// Tasks that are on no cluster.
    pub bag: VecDeque<u64>,
    pub done: BTreeSet<u64>,
    /// Tasks that a test leaves out.
    pub dropped: u64,
    ended: Vec<EndedTask>,
    first_ms: Option<u64>,
    /// Clusters to which a task of the test was sent.
    tested: BTreeSet<usize>,
    /// Predicted end when half of the tasks were done.
    pub predicted_ms: Option<u64>,
    pub ended_ms: Option<u64>,
}

/// An event of the grid that is worth a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GridNews {
    Arrived(usize),
    /// A campaign ended.
    Ended(usize),
    /// A task of a test began on a cluster, so long after its submission.
    TestBegan(usize, usize, u64),
    /// So many waiting tasks came back from a cluster.
    Withdrawn(usize, u64),
    /// A cluster does not answer, while so many tasks are there.
    Silent(usize, u64),
    /// The lease of a silent cluster ran out: so many tasks run elsewhere.
    LeaseOver(usize, u64),
    Back(usize),
}

/// The grid.
#[derive(Debug)]
pub(super) struct PlayedGrid {
    pub now_ms: u64,
    pub clusters: Vec<PlayedCluster>,
    pub campaigns: Vec<PlayedCampaign>,
    states: PairStates,
    lots: ChaCha8Rng,
    pub started: u64,
    pub withdrawn: u64,
    /// Results of tasks that were done before.
    pub repeated: u64,
    /// Sums over the passes in which the bag was not empty: slots in use, and slots that other users
    /// left.
    pub used: u64,
    pub usable: u64,
}

/// Minutes at which the third cluster falls silent and answers again.
const SILENCE: (u64, u64) = (11, 15);
const SILENT: usize = 2;

impl PlayedGrid {
    pub fn new(seed: u64) -> PlayedGrid {
        let cluster = |name, slots, speed, others_want| PlayedCluster {
            name,
            slots,
            speed,
            others_want,
            others: 0,
            running: Vec::new(),
            waiting: VecDeque::new(),
            silent_since: None,
        };
        let campaign = |name, user, tasks, is_test, mean_ms, minute: u64| PlayedCampaign {
            name,
            user,
            tasks,
            is_test,
            mean_ms,
            arrives_ms: minute * MINUTE,
            has_arrived: false,
            bag: (0..tasks).collect(),
            done: BTreeSet::new(),
            dropped: 0,
            ended: Vec::new(),
            first_ms: None,
            tested: BTreeSet::new(),
            predicted_ms: None,
            ended_ms: None,
        };
        PlayedGrid {
            now_ms: 0,
            clusters: vec![
                cluster("here", 40, 100, &[(0, 8), (18, 12), (30, 6)]),
                cluster("lyon", 60, 100, &[(0, 20), (8, 44), (14, 22)]),
                cluster("nancy", 30, 150, &[(0, 6), (26, 9)]),
            ],
            campaigns: vec![
                campaign("sweep", "ann", 3000, false, 60_000, 0),
                campaign("render", "bob", 300, false, 90_000, 3),
                campaign("check", "cid", 50, true, 30_000, 5),
            ],
            states: PairStates::new(),
            lots: ChaCha8Rng::seed_from_u64(seed),
            started: 0,
            withdrawn: 0,
            repeated: 0,
            used: 0,
            usable: 0,
        }
    }

    /// True if all campaigns have ended.
    pub fn is_over(&self) -> bool {
        self.campaigns.iter().all(|campaign| campaign.ended_ms.is_some())
    }

    /// A pass goes by.
    pub fn pass(&mut self) -> Vec<GridNews> {
        self.now_ms += PASS_MS;
        let mut news = Vec::new();
        self.arrive(&mut news);
        self.fall_silent(&mut news);
        for cluster in 0..self.clusters.len() {
            self.end_tasks(cluster);
            self.take_others(cluster);
            self.start_tasks(cluster, &mut news);
        }
        self.send();
        for cluster in 0..self.clusters.len() {
            self.start_tasks(cluster, &mut news);
            self.withdraw(cluster, &mut news);
        }
        self.note(&mut news);
        news
    }

    fn arrive(&mut self, news: &mut Vec<GridNews>) {
        for (number, campaign) in self.campaigns.iter_mut().enumerate() {
            if !campaign.has_arrived && campaign.arrives_ms < self.now_ms {
                campaign.has_arrived = true;
                news.push(GridNews::Arrived(number));
            }
        }
    }

    /// The third cluster does not answer for a while. Its tasks end there with their lease, and run
    /// elsewhere when none of them can run there any more.
    fn fall_silent(&mut self, news: &mut Vec<GridNews>) {
        let (from, to) = (SILENCE.0 * MINUTE, SILENCE.1 * MINUTE);
        let cluster = &mut self.clusters[SILENT];
        let there = count(&cluster.running) + count(&cluster.waiting);
        match cluster.silent_since {
            None if self.now_ms == from => {
                cluster.silent_since = Some(from);
                news.push(GridNews::Silent(SILENT, there));
            }
            Some(_) if self.now_ms == to => {
                cluster.silent_since = None;
                news.push(GridNews::Back(SILENT));
            }
            Some(since) if 0 < there && LEASE.is_over(since, self.now_ms) => {
                for task in cluster.running.drain(..).chain(cluster.waiting.drain(..)) {
                    self.campaigns[task.campaign].bag.push_front(task.number);
                }
                news.push(GridNews::LeaseOver(SILENT, there));
            }
            None | Some(_) => {}
        }
    }

    /// Time until the tasks of a silent cluster can run elsewhere.
    pub fn patience_ms() -> u64 {
        LEASE.patience_ms()
    }

    fn end_tasks(&mut self, at: usize) {
        let (now, cluster) = (self.now_ms, &mut self.clusters[at]);
        if cluster.silent_since.is_some() {
            return;
        }
        for task in cluster.running.extract_if(.., |task| task.ends_ms <= now) {
            let campaign = &mut self.campaigns[task.campaign];
            if !campaign.done.insert(task.number) {
                self.repeated += 1;
            }
            campaign.ended.push(EndedTask { began_ms: task.began_ms, ended_ms: task.ends_ms });
        }
    }

    /// Other users take the slots that they want as soon as they are free.
    fn take_others(&mut self, at: usize) {
        let (now, cluster) = (self.now_ms, &mut self.clusters[at]);
        let wants = cluster.others_want.iter().rev().find(|(minute, _)| minute * MINUTE <= now);
        let wanted = wants.map_or(0, |(_, slots)| *slots);
        cluster.others = wanted.min(cluster.others + cluster.free());
    }

    fn start_tasks(&mut self, at: usize, news: &mut Vec<GridNews>) {
        let (now, cluster) = (self.now_ms, &mut self.clusters[at]);
        while cluster.silent_since.is_none() && 0 < cluster.free() {
            let Some(task) = cluster.waiting.pop_front() else { return };
            let campaign = &mut self.campaigns[task.campaign];
            let spread = self.lots.random_range(50..150_u64);
            let time = (campaign.mean_ms * spread).checked_div(cluster.speed).unwrap_or(0);
            campaign.first_ms.get_or_insert(now);
            if campaign.is_test {
                news.push(GridNews::TestBegan(task.campaign, at, now - campaign.arrives_ms));
            }
            cluster.running.push(PlayedTask { began_ms: now, ends_ms: now + time, ..task });
            self.started += 1;
        }
    }

    /// Predicts, routes, and sends tasks.
    fn send(&mut self) {
        let sight = self.sight();
        let strictness = Strictness::default();
        let policy = ROUTER_POLICIES[0];
        let settings = RouteSettings { policy, interleaves: true, strictness };
        let states = predict(&sight, &self.states, strictness);
        let routing = route(&sight, &states, settings);
        for grant in &routing.grants {
            let Some(number) = usize::try_from(grant.campaign).ok() else { continue };
            let campaign = &mut self.campaigns[number];
            let cluster = &mut self.clusters[grant.cluster];
            for _ in 0..grant.count {
                let Some(task) = campaign.bag.pop_front() else { break };
                campaign.tested.insert(grant.cluster);
                let (sent_ms, began_ms, ends_ms) = (self.now_ms, 0, 0);
                let task =
                    PlayedTask { campaign: number, number: task, sent_ms, began_ms, ends_ms };
                // A test begins next.
                if campaign.is_test {
                    cluster.waiting.push_front(task);
                } else {
                    cluster.waiting.push_back(task);
                }
            }
        }
        self.states = settle(&sight, states, &routing);
    }

    fn sight(&self) -> GridSight {
        let (here, there) = (
            predictor(PREDICTORS, LOCAL_PREDICTOR).unwrap_or(PREDICTORS[0]),
            predictor(PREDICTORS, REMOTE_PREDICTOR).unwrap_or(PREDICTORS[0]),
        );
        let cluster = |(at, cluster): (usize, &PlayedCluster)| ClusterSight {
            name: Name::from(cluster.name),
            is_local: at == 0,
            priority: 0,
            power: cluster.speed,
            capacity: cluster.slots,
            free: cluster.free(),
            running: count(&cluster.running),
            waiting: count(&cluster.waiting),
            flood: FLOOD,
            stress: 0,
            is_closed: cluster.silent_since.is_some(),
            predictor: if at == 0 { here } else { there },
        };
        let campaigns = self.campaigns.iter().enumerate();
        let live = campaigns.filter(|(_, it)| it.has_arrived && it.ended_ms.is_none());
        let campaign = |(number, campaign): (usize, &PlayedCampaign)| CampaignSight {
            id: id_of(number),
            user: Name::from(campaign.user),
            weight: 1,
            is_test: campaign.is_test,
            left: count(&campaign.bag),
            targets: (0..self.clusters.len()).map(|at| self.target(number, at)).collect(),
        };
        GridSight {
            clusters: self.clusters.iter().enumerate().map(cluster).collect(),
            campaigns: live.map(campaign).collect(),
            now_ms: self.now_ms,
        }
    }

    fn target(&self, number: usize, at: usize) -> TargetSight {
        let (campaign, cluster) = (&self.campaigns[number], &self.clusters[at]);
        let own = |task: &&PlayedTask| task.campaign == number;
        let tally = TaskFigures::of(&campaign.ended, self.now_ms);
        TargetSight {
            cluster: at,
            resources: 1,
            running: count(cluster.running.iter().filter(own)),
            waiting: count(cluster.waiting.iter().filter(own)),
            mean_resources: Some(1_000_000),
            has_tested: campaign.tested.contains(&at),
            mean_ms: (0 < tally.count).then_some(tally.mean_ms),
            ..TargetSight::default()
        }
    }

    /// The newest tasks beyond the flood rate come back, and tasks that wait for too long.
    fn withdraw(&mut self, at: usize, news: &mut Vec<GridNews>) {
        let cluster = &mut self.clusters[at];
        if cluster.silent_since.is_some() {
            return;
        }
        let waiting = cluster.waiting.iter().map(|task| SentTask {
            sent_ms: task.sent_ms,
            campaign: id_of(task.campaign),
            task: task.number,
            is_exempt: self.campaigns[task.campaign].is_test,
        });
        let waiting: Vec<SentTask> = waiting.collect();
        let most = crate::grid::allowed(cluster.slots, FLOOD);
        let back = surplus(&waiting, Some(most), self.now_ms, WAITING_LIMIT_MS);
        let back: BTreeSet<(u64, u64)> =
            back.iter().map(|it| (it.task.campaign, it.task.task)).collect();
        let is_back = |task: &PlayedTask| back.contains(&(id_of(task.campaign), task.number));
        for task in cluster.waiting.iter().filter(|task| is_back(task)) {
            self.campaigns[task.campaign].bag.push_front(task.number);
        }
        cluster.waiting.retain(|task| !is_back(task));
        if !back.is_empty() {
            self.withdrawn += count(&back);
            news.push(GridNews::Withdrawn(at, count(&back)));
        }
    }

    /// Notes ends, predictions and the use of the slots.
    fn note(&mut self, news: &mut Vec<GridNews>) {
        let clusters = self.clusters.len();
        if self.campaigns.iter().any(|it| it.has_arrived && !it.is_test && !it.bag.is_empty()) {
            let heard = self.clusters.iter().filter(|it| it.silent_since.is_none());
            self.used += heard.map(|it| count(&it.running)).sum::<u64>();
            self.usable += self.clusters.iter().map(PlayedCluster::left_by_others).sum::<u64>();
        }
        for number in 0..self.campaigns.len() {
            let remaining = self.progress(number).remaining_ms();
            let (now, campaign) = (self.now_ms, &mut self.campaigns[number]);
            if campaign.is_test && campaign.done.len() == clusters {
                campaign.dropped += count(campaign.bag.drain(..));
            }
            let done = count(&campaign.done);
            if campaign.tasks <= 2 * done && !campaign.is_test {
                let end = remaining.map(|remaining| now + remaining);
                campaign.predicted_ms = campaign.predicted_ms.or(end);
            }
            if campaign.ended_ms.is_none() && done + campaign.dropped == campaign.tasks {
                campaign.ended_ms = Some(now);
                news.push(GridNews::Ended(number));
            }
        }
    }

    /// Progress of a campaign on all clusters.
    pub fn progress(&self, number: usize) -> CampaignProgress {
        let campaign = &self.campaigns[number];
        let own = |task: &&PlayedTask| task.campaign == number;
        let on = |tasks: &dyn Fn(&PlayedCluster) -> u64| self.clusters.iter().map(tasks).sum();
        let waiting: u64 = on(&|cluster| count(cluster.waiting.iter().filter(own)));
        CampaignProgress {
            running: on(&|cluster| count(cluster.running.iter().filter(own))),
            waiting: waiting + count(&campaign.bag),
            age_ms: campaign.first_ms.map_or(0, |first| self.now_ms - first),
            tally: TaskFigures::of(&campaign.ended, self.now_ms),
        }
    }

    /// Tasks by number that are on a cluster, in the bag or done, of a campaign.
    #[cfg(test)]
    pub fn places(&self, number: usize) -> std::collections::BTreeMap<u64, u64> {
        let campaign = &self.campaigns[number];
        let on = self.clusters.iter().flat_map(|it| it.running.iter().chain(&it.waiting));
        let on = on.filter(|task| task.campaign == number).map(|task| task.number);
        let mut places = std::collections::BTreeMap::new();
        for task in on.chain(campaign.bag.iter().copied()).chain(campaign.done.iter().copied()) {
            *places.entry(task).or_default() += 1;
        }
        places
    }
}

/// Number of the campaign at a place.
fn id_of(place: usize) -> u64 {
    u64::try_from(place).unwrap_or(u64::MAX)
}
