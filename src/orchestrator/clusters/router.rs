//! The router: passes over all clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::document;
use super::events::{is_prepared, since_boot_at};
use super::leases::BatchLeases;
use super::load::ClusterLoads;
use super::observe::{ClusterState, Observed, local_state, observe};
use super::record::{GridRecord, PassSight, states_of};
use super::remote::{PATIENCE, RemoteCluster, RemoteError};
use super::sight::{in_tasks, tested};
use super::withdraw::{Withdrawals, withdrawals};
use crate::config::GridSettings;
use crate::grid::{
    Affinities, Grant, GridSight, LOCAL_PREDICTOR, PREDICTORS, PairStates, Predictor,
    ROUTER_POLICIES, RouteSettings, RouterPolicy, Routing, predict, predictor, route,
    router_policy, settle,
};
use crate::model::Name;
use crate::orchestrator::book::{Book, Departure, ForwardedBatch, Forwarding, ForwardingView};
use crate::orchestrator::drive::{BookRequest, Signals};
use crate::orchestrator::forwarding::GridRequest;
use crate::orchestrator::rm::Rm;
use crate::orchestrator::spec::HookKind;
use crate::orchestrator::store::{ChildRow, ClusterRow, DbError, StoreReader};
use crate::orchestrator::wire::{Reason, TaskResult};
use crate::slot::since_boot_ms;

/// Most tasks of a campaign that leave for a cluster in a pass.
const MOST: u64 = 10_000;
/// Shortest time between two passes while tasks are on other clusters.
const SOONEST: Duration = Duration::from_secs(1);
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
    #[error("the orchestrator has stopped")]
    NoOwner,
    #[error(transparent)]
    Unread(#[from] DbError),
}

/// The router of an orchestrator.
#[derive(Debug)]
pub struct GridRouter {
    pub(super) settings: GridSettings,
    /// Identity of this grid: the orchestrator's.
    identity: String,
    state: PathBuf,
    rm: Arc<Rm>,
    policy: &'static dyn RouterPolicy,
    pub(super) remote_predictor: &'static dyn Predictor,
    pub(super) local_predictor: &'static dyn Predictor,
    pub(super) remotes: Vec<RemoteCluster>,
    /// Child campaign of each batch whose cluster has confirmed it.
    children: BTreeMap<u64, u64>,
    /// Batches from this number on were made in this life of the router.
    first_batch: Option<u64>,
    /// Batches that a cluster may have got, though it did not answer.
    doubtful: BTreeSet<u64>,
    states: PairStates,
    affinities: Affinities,
    /// Clusters that were silent in the last pass, and since when by the router's clock.
    pub(super) silent: BTreeMap<Name, u64>,
    /// Clusters with an open event, of their own or on record here.
    pub(super) held: BTreeSet<Name>,
    /// Clusters that an operator took out of the grid.
    pub(super) out: BTreeSet<Name>,
    /// Leases of the batches.
    leases: BatchLeases,
    /// Rows on record.
    pub(super) record: GridRecord,
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
            states: PairStates::new(),
            affinities: Affinities::default(),
            silent: BTreeMap::new(),
            held: BTreeSet::new(),
            out: BTreeSet::new(),
            leases: BatchLeases::default(),
            record: GridRecord::default(),
        }))
    }

    /// Makes passes until the owner of the book, who takes `requests`, has stopped. Each commit of more
    /// than a pass wakes the router, also a commit during a pass.
    pub async fn run(mut self, requests: mpsc::Sender<BookRequest>, signals: Arc<Signals>) {
        loop {
            let begun = Instant::now();
            let is_busy = match self.pass(&requests).await {
                Ok(is_busy) => is_busy,
                Err(BrokenPass::NoOwner) => return,
                Err(error) => {
                    tracing::warn!(%error, "a pass of the router was broken off");
                    false
                }
            };
            // Passes take a tenth of the time. Results and free space on other clusters are seen by the
            // next pass; a submission here wakes the router.
            let (wait, taken) = (self.settings.pass_every, begun.elapsed());
            let soon = wait.min(SOONEST.max(taken.saturating_mul(10)));
            tokio::time::sleep(soon).await;
            if !is_busy {
                // Without a change, and also once the owner has stopped, the next pass comes in its turn.
                let change = signals.route.notified();
                let _ = tokio::time::timeout(wait.saturating_sub(soon), change).await;
            }
        }
    }

    /// A pass: observe, predict, route, submit, withdraw. Returns true if tasks are on other clusters.
    async fn pass(&mut self, requests: &mpsc::Sender<BookRequest>) -> Result<bool, BrokenPass> {
        if !self.leases.is_loaded() {
            self.load().await?;
        }
        let known = StoreReader::open(&self.state).await?.clusters().await?;
        let is_out = |(name, row): (Name, ClusterRow)| row.out.is_some().then_some(name);
        self.out = known.into_iter().filter_map(is_out).collect();
        let mut clusters = self.observe(requests).await?;
        let view = self.give_up(requests, &clusters).await?;
        self.hold(&view, &mut clusters);
        self.finish_away(&view, requests).await?;
        let loads = ClusterLoads::new(&view, &clusters, self.settings.resource_mb);
        let sight = self.sight(&view, &clusters, &loads);
        let states = predict(&sight, &self.states, self.settings.strictness);
        let settings = RouteSettings {
            policy: self.policy,
            interleaves: self.settings.interleaves,
            strictness: self.settings.strictness,
        };
        let routing = route(&sight, &states, settings);
        self.states = settle(&sight, states, &routing);
        let sent = in_tasks(&routing, &view, &sight, &loads);
        let told = self.sight(&view, &clusters, &ClusterLoads::of_tasks(&view));
        self.prepare(&view, &sight, &sent, requests).await?;
        forward(requests, self.departures(&view, &sight, &sent, &clusters)).await?;
        let view = ask(requests, GridRequest::View).await?;
        let (refused, children) = self.submit(&view, &clusters).await?;
        forward(requests, refused).await?;
        if !children.is_empty() {
            ask(requests, |reply| GridRequest::Children(children, reply)).await?;
        }
        self.withdraw(&view, &sight, &loads).await;
        let mut reader = StoreReader::open(&self.state).await?;
        let pass = PassSight { sight: &told, clusters: &clusters, routing: &sent };
        let figures = self.record.figures(&told, &mut reader).await?;
        let rows = self.record.rows(pass, &self.states, &self.affinities, &figures);
        ask(requests, |reply| GridRequest::Pass(Box::new(rows), reply)).await?;
        Ok(!view.batches.is_empty())
    }

    /// Orders a prologue on each cluster that gets tasks of a campaign for the first time.
    async fn prepare(
        &self,
        view: &ForwardingView,
        sight: &GridSight,
        sent: &Routing,
        requests: &mpsc::Sender<BookRequest>,
    ) -> Result<(), BrokenPass> {
        let remote = sent.grants.iter().filter(|grant| 0 < grant.cluster);
        for grant in remote.filter(|grant| !is_prepared(view, grant, sight)) {
            let cluster = sight.clusters[grant.cluster].name.clone();
            let hook =
                |reply| GridRequest::Hook(grant.campaign, cluster, HookKind::Prologue, reply);
            ask(requests, hook).await?;
        }
        Ok(())
    }

    /// Departures of tasks to prepared clusters. A test leaves for all its clusters in the same pass.
    fn departures(
        &self,
        view: &ForwardingView,
        sight: &GridSight,
        sent: &Routing,
        clusters: &[ClusterState],
    ) -> Vec<Forwarding> {
        let remote = || sent.grants.iter().filter(|grant| 0 < grant.cluster);
        let unprepared = remote().filter(|grant| !is_prepared(view, grant, sight));
        let unprepared: BTreeSet<u64> = unprepared.map(|grant| grant.campaign).collect();
        let tests = view.campaigns.iter().filter(|campaign| campaign.waits_for_router);
        let tests: BTreeSet<u64> = tests.map(|campaign| campaign.id).collect();
        let is_ready = |grant: &&Grant| {
            let waits = tests.contains(&grant.campaign) && unprepared.contains(&grant.campaign);
            !waits && is_prepared(view, grant, sight)
        };
        let leave = remote().filter(is_ready).map(|grant| {
            let cluster = sight.clusters[grant.cluster].name.clone();
            let knows_leases = clusters.get(grant.cluster).is_some_and(|it| it.clock.is_some());
            let lease_ms = knows_leases.then_some(self.lease_ms());
            let affinities = self.affinities.on(grant.campaign, &cluster);
            let (campaign, most) = (grant.campaign, grant.count.min(MOST));
            Forwarding::Leave(Departure { campaign, cluster, most, affinities, lease_ms })
        });
        let chosen = tests.iter().filter(|test| !unprepared.contains(test));
        leave.chain(chosen.filter_map(|test| tested(*test, sight, sent))).collect()
    }

    /// Goes on with the predictor states and affinities on record.
    async fn load(&mut self) -> Result<(), BrokenPass> {
        let mut reader = StoreReader::open(&self.state).await?;
        self.states = states_of(&reader.last_forecasts().await?, since_boot_ms());
        let reset_ms = since_boot_at(reader.affinity_reset().await?);
        self.affinities = Affinities::stored(reader.affinities().await?, reset_ms);
        self.record.loaded(&self.states, &self.affinities);
        self.leases.load(reader.clusters().await?);
        Ok(())
    }

    /// Reads the space of all clusters at the same time, renews their leases, and enters the results of
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
            self.note_silence(&name, error.map(|it| it.to_string()), view, requests).await?;
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

    /// Submits all batches that no cluster has confirmed. Returns the attempts that a cluster refused
    /// and cannot have, and the child campaigns.
    async fn submit(
        &mut self,
        view: &ForwardingView,
        clusters: &[ClusterState],
    ) -> Result<(Vec<Forwarding>, Vec<ChildRow>), BrokenPass> {
        let new = view.batches.iter().filter(|batch| !self.children.contains_key(&batch.batch));
        let new: Vec<&ForwardedBatch> = new.collect();
        let (mut refused, mut children) = (Vec::new(), Vec::new());
        if new.is_empty() {
            return Ok((refused, children));
        }
        let mut reader = StoreReader::open(&self.state).await?;
        for batch in new {
            let remotes = self.remotes.iter().zip(clusters.iter().skip(1));
            let remote = remotes.into_iter().find(|(it, _)| it.settings().name == batch.cluster);
            let campaign = view.campaign(batch.campaign);
            let (Some((remote, state)), Some(campaign)) = (remote, campaign) else { continue };
            if self.silent.contains_key(&batch.cluster) {
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
                Ok(child) => {
                    self.children.insert(batch.batch, child);
                    let (batch, campaign) = (batch.batch, batch.campaign);
                    children.push(ChildRow { batch, campaign, child });
                }
                Err(error) => {
                    let (cluster, campaign) = (&batch.cluster, batch.campaign);
                    tracing::warn!(%cluster, campaign, %error, "the cluster did not take tasks");
                    if self.is_refused(batch.batch, &error) {
                        let ends = batch.tasks.iter().map(|task| Book::withdrawn(task.id));
                        refused.push(Forwarding::Ended(ends.collect()));
                        let why = error.to_string();
                        refused.push(Forwarding::Refused(campaign, cluster.clone(), why));
                    } else {
                        self.doubtful.insert(batch.batch);
                    }
                }
            }
        }
        Ok((refused, children))
    }

    /// True if the cluster refuses a batch that it cannot have got before.
    fn is_refused(&self, batch: u64, error: &RemoteError) -> bool {
        matches!(error, RemoteError::Refused(_))
            && !self.doubtful.contains(&batch)
            && self.first_batch.is_some_and(|first| first <= batch)
    }

    /// Withdraws the surplus of each cluster, tasks that wait too long, and cancelled tasks.
    async fn withdraw(&mut self, view: &ForwardingView, sight: &GridSight, loads: &ClusterLoads) {
        for remote in &self.remotes {
            let name = &remote.settings().name;
            let at = sight.clusters.iter().position(|cluster| cluster.name == *name);
            let Some(at) = at.filter(|_| !self.silent.contains_key(name)) else { continue };
            let allowed = sight.allowed_on(at);
            let allowed = Some(allowed).filter(|_| self.remote_predictor.withdraws());
            // No task waits on a cluster that is out, or held by an event.
            let is_closed = self.out.contains(name) || self.held.contains(name);
            let allowed = if is_closed { Some(0) } else { allowed };
            let here = view.batches.iter().filter(|batch| batch.cluster == *name);
            let here: Vec<&ForwardedBatch> = here.collect();
            let Withdrawals { tasks: gone, late } = withdrawals(&here, loads, allowed);
            for (campaign, task) in late {
                self.affinities.lower(campaign, task, name);
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
        Forwarding::Leave(_)
        | Forwarding::Tested(..)
        | Forwarding::Refused(..)
        | Forwarding::Lost(_) => true,
        Forwarding::Begun(ids) => !ids.is_empty(),
        Forwarding::Ended(results) => !results.is_empty(),
    });
    if changes.is_empty() {
        return Ok(());
    }
    ask(requests, |reply| GridRequest::Forward(changes, reply)).await
}
