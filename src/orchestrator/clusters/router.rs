//! The router: passes over all clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot};

use super::document;
use super::leases::BatchLeases;
use super::observe::{ClusterState, Observed, local_state, observe};
use super::record::{GridRecord, PassSight, states_of};
use super::remote::{PATIENCE, RemoteCluster, RemoteError};
use crate::config::GridSettings;
use crate::grid::{
    Affinities, CampaignSight, ClusterSight, GridSight, LOCAL_PREDICTOR, PREDICTORS, PairStates,
    Predictor, ROUTER_POLICIES, RouteSettings, RouterPolicy, SentTask, TargetSight,
    WAITING_LIMIT_MS, WithdrawalCause, predict, predictor, route, router_policy, settle, surplus,
};
use crate::model::Name;
use crate::orchestrator::book::{
    Book, ForwardableCampaign, ForwardedBatch, Forwarding, ForwardingView,
};
use crate::orchestrator::drive::{BookRequest, wall_ms};
use crate::orchestrator::forwarding::GridRequest;
use crate::orchestrator::rm::Rm;
use crate::orchestrator::store::{ClusterRow, DbError, StoreReader};
use crate::orchestrator::wire::{Reason, TaskResult};
use crate::slot::since_boot_ms;

/// Name of the router's own cluster.
const LOCAL: &str = "local";
/// Most tasks of a campaign that leave for a cluster in a pass.
const MOST: u64 = 10_000;
/// A silent cluster holds a pass up for this part of a lease at most.
const LEASE_PARTS: u32 = 4;

/// Reason why there can be no router.
#[derive(Debug, thiserror::Error)]
pub enum GridError {
    /// A cluster cannot be used as it is configured.
    #[error("cluster {name}: {source}")]
    Cluster {
        /// Name of the cluster.
        name: Name,
        /// Cause of the failure.
        source: RemoteError,
    },
    /// Two clusters have the same name.
    #[error("two clusters are called {0}; give each a name of its own")]
    Twice(Name),
    /// A name of the configuration is unknown.
    #[error("grid: `{0}` is unknown")]
    Unknown(String),
}

/// Reason why a pass was broken off.
#[derive(Debug, thiserror::Error)]
pub(super) enum BrokenPass {
    #[error("the owner of the book has stopped")]
    NoOwner,
    #[error(transparent)]
    Unread(#[from] DbError),
}

/// The router of an orchestrator.
#[derive(Debug)]
pub struct GridRouter {
    settings: GridSettings,
    /// Identity of this grid: the orchestrator's.
    identity: String,
    state: PathBuf,
    rm: Arc<Rm>,
    policy: &'static dyn RouterPolicy,
    remote_predictor: &'static dyn Predictor,
    local_predictor: &'static dyn Predictor,
    remotes: Vec<RemoteCluster>,
    /// Child campaign of each batch whose cluster has confirmed it.
    children: BTreeMap<u64, u64>,
    /// Batches from this number on were made in this life of the router.
    first_batch: Option<u64>,
    /// Batches of which a cluster may have heard, though it did not answer.
    doubtful: BTreeSet<u64>,
    /// Clusters that refuse the document of a campaign.
    barred: BTreeSet<(u64, Name)>,
    states: PairStates,
    affinities: Affinities,
    /// Clusters that were silent in the last pass.
    silent: BTreeSet<Name>,
    /// Clusters that an operator took out of the grid.
    out: BTreeSet<Name>,
    /// Leases of the batches.
    leases: BatchLeases,
    /// Rows on record.
    record: GridRecord,
}

impl GridRouter {
    /// Builds the router of the orchestrator `identity`, whose database is at `state`. `None`: no
    /// other cluster is configured.
    ///
    /// # Errors
    ///
    /// If a cluster cannot be used as it is configured.
    pub fn new(
        settings: &GridSettings,
        identity: &str,
        state: &Path,
        rm: &Arc<Rm>,
    ) -> Result<Option<GridRouter>, GridError> {
        if settings.clusters.is_empty() {
            return Ok(None);
        }
        let unknown = |name: &str| GridError::Unknown(name.to_owned());
        let mut remotes = Vec::new();
        let mut names = BTreeSet::new();
        for cluster in &settings.clusters {
            if !names.insert(&cluster.name) {
                return Err(GridError::Twice(cluster.name.clone()));
            }
            let failed = |source| GridError::Cluster { name: cluster.name.clone(), source };
            remotes.push(RemoteCluster::new(cluster).map_err(failed)?);
        }
        let by_name = |name: &str| predictor(PREDICTORS, name).ok_or_else(|| unknown(name));
        let policy = router_policy(ROUTER_POLICIES, &settings.policy);
        Ok(Some(GridRouter {
            settings: settings.clone(),
            identity: identity.to_owned(),
            state: state.to_owned(),
            rm: Arc::clone(rm),
            policy: policy.ok_or_else(|| unknown(&settings.policy))?,
            remote_predictor: by_name(&settings.predictor)?,
            local_predictor: by_name(LOCAL_PREDICTOR)?,
            remotes,
            children: BTreeMap::new(),
            first_batch: None,
            doubtful: BTreeSet::new(),
            barred: BTreeSet::new(),
            states: PairStates::new(),
            affinities: Affinities::default(),
            silent: BTreeSet::new(),
            out: BTreeSet::new(),
            leases: BatchLeases::default(),
            record: GridRecord::default(),
        }))
    }

    /// Makes passes until the owner of the book, who takes `requests`, has stopped.
    pub async fn run(mut self, requests: mpsc::Sender<BookRequest>) {
        loop {
            match self.pass(&requests).await {
                Ok(()) => {}
                Err(BrokenPass::NoOwner) => return,
                Err(error) => tracing::warn!(%error, "a pass of the router was broken off"),
            }
            tokio::time::sleep(self.settings.pass_every).await;
        }
    }

    /// A pass: observe, predict, route, submit, withdraw.
    async fn pass(&mut self, requests: &mpsc::Sender<BookRequest>) -> Result<(), BrokenPass> {
        if !self.leases.is_loaded() {
            self.load().await?;
        }
        let known = StoreReader::open(&self.state).await?.clusters().await?;
        let is_out = |(name, row): (Name, ClusterRow)| row.out.is_some().then_some(name);
        self.out = known.into_iter().filter_map(is_out).collect();
        let clusters = self.observe(requests).await?;
        let view = self.give_up(requests, &clusters).await?;
        let sight = self.sight(&view, &clusters);
        let states = predict(&sight, &self.states, self.settings.strictness);
        let settings = RouteSettings {
            policy: self.policy,
            interleaves: self.settings.interleaves,
            strictness: self.settings.strictness,
        };
        let routing = route(&sight, &states, settings);
        self.states = settle(&sight, states, &routing);
        let leave = routing.grants.iter().filter(|grant| 0 < grant.cluster);
        let leave = leave.map(|grant| {
            let cluster = sight.clusters[grant.cluster].name.clone();
            let knows_leases = clusters.get(grant.cluster).is_some_and(|it| it.clock.is_some());
            let lease_ms = knows_leases.then_some(self.lease_ms());
            Forwarding::Leave(grant.campaign, cluster, grant.count.min(MOST), lease_ms)
        });
        forward(requests, leave.collect()).await?;
        let view = ask(requests, GridRequest::View).await?;
        let refused = self.submit(&view, &clusters).await?;
        forward(requests, vec![Forwarding::Ended(refused)]).await?;
        self.withdraw(&view, &sight).await;
        let mut reader = StoreReader::open(&self.state).await?;
        let pass = PassSight { sight: &sight, clusters: &clusters, routing: &routing };
        let figures = self.record.figures(&sight, &mut reader).await?;
        let rows = self.record.rows(pass, &self.states, &self.affinities, &figures);
        ask(requests, |reply| GridRequest::Pass(Box::new(rows), reply)).await
    }

    /// Goes on with the predictor states and affinities on record.
    async fn load(&mut self) -> Result<(), BrokenPass> {
        let mut reader = StoreReader::open(&self.state).await?;
        self.states = states_of(&reader.last_forecasts().await?, since_boot_ms());
        self.affinities = Affinities::stored(reader.affinities().await?, since_boot_ms());
        self.record.loaded(&self.states, &self.affinities);
        self.leases.load(reader.clusters().await?);
        Ok(())
    }

    /// Reads the room of all clusters at the same time, renews their leases, and enters the results of
    /// forwarded tasks.
    async fn observe(
        &mut self,
        requests: &mpsc::Sender<BookRequest>,
    ) -> Result<Vec<ClusterState>, BrokenPass> {
        let view = ask(requests, GridRequest::View).await?;
        let open: BTreeSet<u64> = view.batches.iter().map(|batch| batch.batch).collect();
        self.children.retain(|batch, _| open.contains(batch));
        self.first_batch.get_or_insert_with(|| open.last().map_or(0, |last| last + 1));
        let patience =
            self.settings.lease.checked_div(LEASE_PARTS).unwrap_or(PATIENCE).min(PATIENCE);
        let (children, view) = (&self.children, &view);
        let remotes = self.remotes.iter();
        let observed = remotes.map(|remote| observe(remote, view, children, patience));
        let (local, observed) =
            futures_util::future::join(self.rm.nodes(), join_all(observed)).await;
        let mut clusters = vec![local_state(local)];
        let names: Vec<Name> = self.remotes.iter().map(|it| it.settings().name.clone()).collect();
        for (name, Observed { state, changes, error, renewed }) in names.into_iter().zip(observed) {
            if let Some(error) = error {
                if self.silent.insert(name.clone()) {
                    tracing::warn!(cluster = %name, %error, "its tasks wait for it");
                }
            } else {
                self.silent.remove(&name);
            }
            self.leases.renewed(&renewed);
            if let Some(clock) = &state.clock {
                self.leases.learn(&name, clock.slot_lease_ms, requests).await?;
            }
            clusters.push(state);
            self.note_failures(&name, &changes);
            forward(requests, changes).await?;
        }
        Ok(clusters)
    }

    /// Lowers the affinity of tasks that failed on a cluster.
    fn note_failures(&mut self, cluster: &Name, changes: &[Forwarding]) {
        self.affinities.reset(since_boot_ms());
        for change in changes {
            let Forwarding::Ended(results) = change else { continue };
            let failed = |it: &&TaskResult| !matches!(it.why, Reason::Done | Reason::Returned);
            for result in results.iter().filter(failed) {
                self.affinities.lower(result.task.campaign, result.task.task, cluster);
            }
        }
    }

    /// Gives up batches whose leases ran out on silent clusters, and returns what is left.
    async fn give_up(
        &mut self,
        requests: &mpsc::Sender<BookRequest>,
        clusters: &[ClusterState],
    ) -> Result<ForwardingView, BrokenPass> {
        let view = ask(requests, GridRequest::View).await?;
        let remotes = self.remotes.iter().zip(clusters.iter().skip(1));
        let heard = remotes.filter(|(_, state)| state.clock.is_some());
        let heard: BTreeSet<&Name> = heard.map(|(remote, _)| &remote.settings().name).collect();
        let over = self.leases.over(&view, &heard, since_boot_ms());
        if over.is_empty() {
            return Ok(view);
        }
        forward(requests, vec![Forwarding::Ended(over)]).await?;
        ask(requests, GridRequest::View).await
    }

    fn lease_ms(&self) -> u64 {
        u64::try_from(self.settings.lease.as_millis()).unwrap_or(u64::MAX)
    }

    /// The sights of a pass. The local cluster is the first.
    fn sight(&self, view: &ForwardingView, states: &[ClusterState]) -> GridSight {
        let resource = self.settings.resource_mb.max(1);
        let resources = |mb: u64| mb.checked_div(resource).unwrap_or(0);
        let settings = self.remotes.iter().map(RemoteCluster::settings);
        let settings = std::iter::once(None).chain(settings.map(Some));
        let clusters = settings.zip(states).map(|(settings, state)| {
            let name = settings.map_or_else(|| Name::from(LOCAL), |it| it.name.clone());
            let here = view.batches.iter().filter(|batch| batch.cluster == name);
            let (running, waiting) = load(here);
            ClusterSight {
                name,
                is_local: settings.is_none(),
                priority: settings.map_or(0, |it| it.priority),
                power: settings.map_or(1, |it| it.power),
                capacity: state.nodes.iter().map(|(_, all)| resources(*all)).sum(),
                free: state.nodes.iter().map(|(free, _)| resources(*free)).sum(),
                running,
                waiting,
                flood: self.settings.flood,
                stress: 0,
                is_closed: state.is_silent
                    || settings.is_some_and(|it| self.out.contains(&it.name)),
                predictor: settings.map_or(self.local_predictor, |_| self.remote_predictor),
            }
        });
        let clusters: Vec<ClusterSight> = clusters.collect();
        let campaigns = view.campaigns.iter();
        let campaigns = campaigns.map(|campaign| self.campaign_sight(campaign, view, &clusters));
        let campaigns = campaigns.collect();
        GridSight { campaigns, clusters, now_ms: since_boot_ms() }
    }

    fn campaign_sight(
        &self,
        campaign: &ForwardableCampaign,
        view: &ForwardingView,
        clusters: &[ClusterSight],
    ) -> CampaignSight {
        let resource = self.settings.resource_mb.max(1);
        let needed = campaign.memory_mb.div_ceil(resource).max(1);
        let (mean_ms, ended) = campaign.ended;
        let target = |(at, cluster): (usize, &ClusterSight)| {
            let own = view.batches.iter();
            let own = own.filter(|it| it.campaign == campaign.id && it.cluster == cluster.name);
            let (running, waiting) = load(own);
            let running = if cluster.is_local { campaign.in_slots } else { running };
            let mut settings = self.remotes.iter().map(RemoteCluster::settings);
            let settings = settings.find(|it| it.name == cluster.name);
            let names = |list: &[String]| list.contains(&campaign.owner);
            TargetSight {
                cluster: at,
                resources: needed,
                running,
                waiting,
                max: campaign.spec.max,
                mean_resources: (0 < ended).then_some(needed.saturating_mul(crate::grid::ONE)),
                has_affinity: settings.is_some_and(|it| names(&it.affinity)),
                is_home: settings.is_some_and(|it| names(&it.home)),
                mean_ms: (0 < ended).then_some(mean_ms),
                is_barred: self.barred.contains(&(campaign.id, cluster.name.clone())),
                ..TargetSight::default()
            }
        };
        CampaignSight {
            id: campaign.id,
            user: campaign.owner.as_str().into(),
            weight: 1,
            is_test: false,
            left: campaign.queued,
            targets: clusters.iter().enumerate().map(target).collect(),
        }
    }

    /// Submits all batches that no cluster has confirmed. Returns the attempts that a cluster refused
    /// and cannot have.
    async fn submit(
        &mut self,
        view: &ForwardingView,
        clusters: &[ClusterState],
    ) -> Result<Vec<TaskResult>, BrokenPass> {
        let new = view.batches.iter().filter(|batch| !self.children.contains_key(&batch.batch));
        let new: Vec<&ForwardedBatch> = new.collect();
        let mut refused = Vec::new();
        if new.is_empty() {
            return Ok(refused);
        }
        let mut reader = StoreReader::open(&self.state).await?;
        for batch in new {
            let remotes = self.remotes.iter().zip(clusters.iter().skip(1));
            let remote = remotes.into_iter().find(|(it, _)| it.settings().name == batch.cluster);
            let campaign = view.campaigns.iter().find(|it| it.id == batch.campaign);
            let (Some((remote, state)), Some(campaign)) = (remote, campaign) else { continue };
            if self.silent.contains(&batch.cluster) {
                continue;
            }
            let Some(mut document) = document::child_of(batch, campaign, &mut reader).await? else {
                continue;
            };
            if let Some(lease_ms) = batch.lease_ms {
                // A cluster that does not lease it could run it for ever.
                let Some(clock) = &state.clock else { continue };
                document["lease"] = clock.terms(lease_ms);
                self.leases.renewed(&[(batch.batch, since_boot_ms())]);
            }
            let key = format!("grid/{}/{}/{}", self.identity, batch.campaign, batch.batch);
            match remote.submit(&key, &document).await {
                Ok(child) => drop(self.children.insert(batch.batch, child)),
                Err(error) => {
                    let (cluster, campaign) = (&batch.cluster, batch.campaign);
                    tracing::warn!(%cluster, campaign, %error, "the cluster did not take tasks");
                    if self.is_refused(batch.batch, &error) {
                        refused.extend(batch.tasks.iter().map(|task| Book::withdrawn(task.id)));
                        self.barred.insert((campaign, cluster.clone()));
                    } else {
                        self.doubtful.insert(batch.batch);
                    }
                }
            }
        }
        Ok(refused)
    }

    /// True if the cluster refuses a batch of which it cannot have heard before.
    fn is_refused(&self, batch: u64, error: &RemoteError) -> bool {
        matches!(error, RemoteError::Refused(_))
            && !self.doubtful.contains(&batch)
            && self.first_batch.is_some_and(|first| first <= batch)
    }

    /// Withdraws the surplus of each cluster, tasks that wait too long, and cancelled tasks.
    async fn withdraw(&mut self, view: &ForwardingView, sight: &GridSight) {
        for remote in &self.remotes {
            let name = &remote.settings().name;
            let at = sight.clusters.iter().position(|cluster| cluster.name == *name);
            let Some(at) = at.filter(|_| !self.silent.contains(name)) else { continue };
            let allowed = sight.allowed_on(at);
            let allowed = Some(allowed).filter(|_| self.remote_predictor.withdraws());
            // No task waits on a cluster that is out.
            let allowed = if self.out.contains(name) { Some(0) } else { allowed };
            let here = view.batches.iter().filter(|batch| batch.cluster == *name);
            let here: Vec<&ForwardedBatch> = here.collect();
            let mut waiting = Vec::new();
            let mut gone: BTreeSet<(u64, u64)> = BTreeSet::new();
            for (batch, task) in here.iter().flat_map(|it| it.tasks.iter().map(move |t| (it, t))) {
                if task.is_cancelled {
                    gone.insert((batch.campaign, task.id.task));
                } else if !task.is_running {
                    let (campaign, sent_ms) = (batch.campaign, task.assigned_ms);
                    let (task, is_exempt) = (task.id.task, false);
                    waiting.push(SentTask { sent_ms, campaign, task, is_exempt });
                }
            }
            for withdrawal in surplus(&waiting, allowed, wall_ms(), WAITING_LIMIT_MS) {
                let SentTask { campaign, task, .. } = withdrawal.task;
                gone.insert((campaign, task));
                if withdrawal.cause == WithdrawalCause::TooLong {
                    self.affinities.lower(campaign, task, name);
                }
            }
            for batch in here {
                let Some(child) = self.children.get(&batch.batch) else { continue };
                let tasks = batch.tasks.iter().map(|task| task.id.task);
                for task in tasks.filter(|task| gone.contains(&(batch.campaign, *task))) {
                    if let Err(error) = remote.withdraw(*child, task).await {
                        tracing::warn!(cluster = %name, %error, "withdrawn later");
                        return;
                    }
                }
            }
        }
    }
}

/// Running and waiting tasks of batches.
fn load<'a>(batches: impl Iterator<Item = &'a ForwardedBatch>) -> (u64, u64) {
    let tasks = batches.flat_map(|batch| &batch.tasks);
    tasks.fold((0, 0), |(running, waiting), task| {
        if task.is_running { (running + 1, waiting) } else { (running, waiting + 1) }
    })
}

pub(super) async fn ask<T>(
    requests: &mpsc::Sender<BookRequest>,
    request: impl FnOnce(oneshot::Sender<T>) -> GridRequest,
) -> Result<T, BrokenPass> {
    let (reply, answer) = oneshot::channel();
    requests.send(BookRequest::Grid(request(reply))).await.map_err(|_| BrokenPass::NoOwner)?;
    answer.await.map_err(|_| BrokenPass::NoOwner)
}

/// Enters changes of forwarded tasks, and waits until they are on record.
async fn forward(
    requests: &mpsc::Sender<BookRequest>,
    mut changes: Vec<Forwarding>,
) -> Result<(), BrokenPass> {
    changes.retain(|change| match change {
        Forwarding::Leave(..) => true,
        Forwarding::Begun(ids) => !ids.is_empty(),
        Forwarding::Ended(results) => !results.is_empty(),
    });
    if changes.is_empty() {
        return Ok(());
    }
    ask(requests, |reply| GridRequest::Forward(changes, reply)).await
}
