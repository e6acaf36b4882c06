//! Events of other clusters, and prologues and epilogues there.

use tokio::sync::mpsc;

use super::observe::ClusterState;
use super::router::{BrokenPass, GridRouter, ask};
use crate::grid::{Grant, GridSight};
use crate::model::{Name, span};
use crate::orchestrator::book::{ForwardingView, LOCAL};
use crate::orchestrator::drive::{BookRequest, wall_ms};
use crate::orchestrator::forwarding::GridRequest;
use crate::orchestrator::spec::HookKind;
use crate::slot::since_boot_ms;

/// Silence after which a cluster has an open event, in milliseconds.
const SILENT_MS: u64 = 60_000;

/// A moment of the wall clock, in milliseconds of the router's clock. 0, or a moment in the future: now.
pub(super) fn since_boot_at(wall_at_ms: u64) -> u64 {
    let (now, wall) = (since_boot_ms(), wall_ms());
    let ago = if wall_at_ms == 0 { 0 } else { wall.saturating_sub(wall_at_ms) };
    now.saturating_sub(ago)
}

/// True if the tasks of a grant may leave: the prologue of their campaign is done on the cluster.
pub(super) fn is_prepared(view: &ForwardingView, grant: &Grant, sight: &GridSight) -> bool {
    let prepared =
        view.campaign(grant.campaign).and_then(|campaign| campaign.away.prepared.as_ref());
    let cluster = sight.clusters.get(grant.cluster);
    let Some((prepared, cluster)) = prepared.zip(cluster) else { return true };
    prepared.contains(&cluster.name)
}

impl GridRouter {
    /// Marks the clusters that get no task, as an event of theirs is open here.
    pub(super) fn hold(&mut self, view: &ForwardingView, clusters: &mut [ClusterState]) {
        let names = self.remotes.iter().map(|remote| remote.settings().name.clone());
        let names: Vec<Name> = std::iter::once(Name::from(LOCAL)).chain(names).collect();
        self.held.clear();
        for (name, state) in names.into_iter().zip(clusters) {
            if let Some(text) = view.events.get(&name) {
                state.held = Some(text.clone());
            }
            if state.held.is_some() {
                self.held.insert(name);
            }
        }
    }

    /// Submits the epilogues that are due on other clusters.
    pub(super) async fn finish_away(
        &self,
        view: &ForwardingView,
        requests: &mpsc::Sender<BookRequest>,
    ) -> Result<(), BrokenPass> {
        for campaign in &view.campaigns {
            for cluster in campaign.away.to_finish.iter().cloned() {
                let id = campaign.id;
                let hook = |reply| GridRequest::Hook(id, cluster, HookKind::Epilogue, reply);
                ask(requests, hook).await?;
            }
        }
        Ok(())
    }

    /// Notes whether a cluster answers. A cluster that has been silent for some time has an open event until it
    /// answers again.
    pub(super) async fn note_silence(
        &mut self,
        cluster: &Name,
        error: Option<String>,
        view: &ForwardingView,
        requests: &mpsc::Sender<BookRequest>,
    ) -> Result<(), BrokenPass> {
        let has_event = view.events.contains_key(cluster);
        let Some(error) = error else {
            self.silent.remove(cluster);
            if has_event {
                let name = cluster.clone();
                ask(requests, |reply| GridRequest::Heard(name, None, reply)).await?;
            }
            return Ok(());
        };
        let now_ms = since_boot_ms();
        let is_new = !self.silent.contains_key(cluster);
        let since_ms = *self.silent.entry(cluster.clone()).or_insert(now_ms);
        if is_new {
            tracing::warn!(%cluster, %error, "its tasks wait for it");
        }
        let passed_ms = now_ms.saturating_sub(since_ms);
        if !has_event && SILENT_MS <= passed_ms {
            let (name, text) =
                (cluster.clone(), format!("silent for {}: {error}", span(passed_ms)));
            ask(requests, |reply| GridRequest::Heard(name, Some(text), reply)).await?;
        }
        Ok(())
    }
}
