//! Campaigns on other clusters: prologues and epilogues there, and events of clusters.
//!
//! A prologue or epilogue on another cluster is a campaign of a single task that leaves for this cluster alone.
//! The router asks for a prologue before the first tasks leave, and they wait until it is done. An epilogue
//! follows on each such cluster once all tasks of the campaign are final, and the campaign waits for it. Which
//! clusters are prepared is on record with the campaign, so a restart repeats nothing.
//!
//! The faults of a campaign list a cluster as a node whose name begins with [`CLUSTER`]; nodes have no blank in
//! their names. A cluster is avoided as a node is: until a single task, or the prologue, went well there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::campaigns::Campaign;
use super::rows::{CampaignRow, CampaignState, Note};
use super::{Book, NewCampaign, Now};
use crate::model::Name;
use crate::orchestrator::spec::{CampaignSpec, HookKind};
use crate::orchestrator::wire::{EventClass, GridEvent};

/// Begin of the name under which faults list a cluster.
const CLUSTER: &str = "cluster ";
/// Further attempts of a prologue or epilogue on another cluster.
const HOOK_RETRIES: u64 = 2;
/// Code of the event of a cluster that does not answer.
pub const SILENT: &str = "silent";

/// The name under which faults list a cluster.
pub fn place_of(cluster: &Name) -> Name {
    Name::from(format!("{CLUSTER}{cluster}"))
}

/// The cluster that faults list under this name. `None`: it is a node.
pub fn cluster_at(place: &str) -> Option<Name> {
    place.strip_prefix(CLUSTER).map(Name::from)
}

/// A prologue or epilogue on another cluster to be submitted.
#[derive(Clone, Debug)]
pub struct AwayHook {
    /// The campaign.
    pub campaign: u64,
    /// The cluster.
    pub cluster: Name,
    /// Purpose of the program.
    pub kind: HookKind,
    /// The number of its specification.
    pub spec_number: u64,
    /// Specification of its campaign.
    pub spec: Arc<CampaignSpec>,
}

/// State of a campaign on the other clusters.
#[derive(Clone, Debug, Default)]
pub struct AwayState {
    /// Clusters that the campaign avoids; true if a single task may try the cluster again.
    pub avoided: BTreeMap<Name, bool>,
    /// Clusters whose prologue is done. `None`: the campaign has no prologue of the cluster.
    pub prepared: Option<BTreeSet<Name>>,
    /// Clusters whose prologue is on its way.
    pub preparing: BTreeSet<Name>,
    /// Clusters whose epilogue is due.
    pub to_finish: Vec<Name>,
    /// The only cluster to which the campaign leaves, as it is a prologue or epilogue there.
    pub only: Option<Name>,
}

impl Campaign {
    /// The prologue of the cluster of this orchestrator: it has the number behind its campaign.
    fn prologue(&self) -> Option<u64> {
        self.spec.cluster_prologue.is_some().then_some(self.facts.id + 1)
    }

    /// True if the tasks here wait for the prologue, and tasks on other clusters do not: each cluster has a
    /// prologue of its own.
    pub(super) fn is_unprepared(&self) -> bool {
        let prologue = self.prologue().filter(|_| self.routes && self.may_leave());
        prologue.is_some_and(|prologue| self.facts.waits_for.contains(&prologue))
    }

    /// Campaigns for which the tasks wait on each cluster.
    pub(super) fn waits_everywhere(&self) -> impl Iterator<Item = u64> {
        let own = self.prologue().filter(|_| self.is_unprepared());
        self.facts.waits_for.iter().copied().filter(move |id| Some(*id) != own)
    }

    /// True if an epilogue on another cluster is due, or not done.
    pub(super) fn has_epilogue_left(&self) -> bool {
        let is_due = self.spec.cluster_epilogue.is_some() && !self.facts.prepared.is_empty();
        is_due || !self.facts.epilogues.is_empty()
    }

    /// True if tasks may leave for a cluster: its prologue is done.
    pub(super) fn is_prepared_on(&self, cluster: &Name) -> bool {
        self.spec.cluster_prologue.is_none() || self.facts.prepared.contains(cluster)
    }

    /// The specification of a prologue or epilogue on another cluster.
    pub fn hook_away(&self, kind: HookKind) -> Option<CampaignSpec> {
        let spec = self.spec.hook_campaign(kind)?;
        Some(CampaignSpec { retries: HOOK_RETRIES, ..spec })
    }
}

impl Book {
    /// True if a prologue or epilogue on another cluster is due, and was not submitted.
    pub fn wants_hook(&self, id: u64, cluster: &Name, kind: HookKind) -> bool {
        let Some(campaign) = self.campaigns.get(&id) else { return false };
        let is_open = campaign.may_begin_away() && campaign.may_leave();
        let is_due = match kind {
            HookKind::Prologue => !campaign.is_prepared_on(cluster),
            HookKind::Epilogue => {
                let has_epilogue = campaign.spec.cluster_epilogue.is_some();
                has_epilogue && campaign.is_over() && campaign.facts.prepared.contains(cluster)
            }
        };
        is_open && is_due && !self.hooks_on(id).any(|on| on == cluster)
    }

    /// Clusters on which a prologue or epilogue of a campaign is on its way.
    fn hooks_on(&self, id: u64) -> impl Iterator<Item = &Name> {
        let hooks = self.campaigns.values().filter(move |hook| hook.facts.hook_of == Some(id));
        hooks.filter_map(|hook| hook.facts.hook_cluster.as_ref())
    }

    /// Enters a prologue or epilogue on another cluster, for which [`Book::wants_hook`] is true.
    pub(super) fn enter_hook(&mut self, hook: AwayHook, now: Now) {
        let AwayHook { campaign: of, cluster, kind, spec_number, spec } = hook;
        if !self.wants_hook(of, &cluster, kind) {
            return;
        }
        let Some(campaign) = self.campaigns.get(&of) else { return };
        let (owner, uid) = (campaign.facts.owner.clone(), campaign.facts.uid);
        let new = NewCampaign { owner, uid, spec_number, spec, hooks: Vec::new() };
        let id = self.enter(new, Some(of), now);
        if let Some(hook) = self.campaigns.get_mut(&id) {
            hook.facts.hook_cluster = Some(cluster.clone());
        }
        if kind == HookKind::Epilogue
            && let Some(campaign) = self.campaigns.get_mut(&of)
        {
            campaign.facts.prepared.remove(&cluster);
            campaign.facts.epilogues.insert(id);
            self.dirty.settle.insert(of);
        }
    }

    /// Enters that a prologue or epilogue on another cluster is final.
    pub(super) fn hook_ended_away(&mut self, hook: &CampaignRow, now: Now) {
        let (Some(of), Some(cluster)) = (hook.hook_of, &hook.hook_cluster) else { return };
        let (id, place) = (hook.id, place_of(cluster));
        let Some(campaign) = self.campaigns.get_mut(&of) else { return };
        self.dirty.settle.insert(of);
        let is_done = hook.state == CampaignState::Done;
        if campaign.facts.epilogues.contains(&id) {
            if is_done {
                campaign.facts.epilogues.remove(&id);
                return;
            }
            let text = format!(
                "campaign {of} does not end, as its epilogue on cluster {cluster}, campaign {id}, is {}: \
                 `apportion campaign resubmit {id} --failed`, or `apportion campaign resume {of}` to end without it",
                hook.state.word()
            );
            let code = "epilogue-failed";
            self.dirty.notes.push(Note { campaign: of, task: None, node: Some(place), code, text });
        } else if is_done {
            campaign.facts.prepared.insert(cluster.clone());
            if campaign.fault_of(&place).is_some_and(|row| row.code == "prologue") {
                self.mend(of, &place, now);
            }
        } else if hook.state == CampaignState::Failed {
            let why = format!("its prologue there, campaign {id}, failed");
            self.avoid(of, &place, ("prologue", why), now);
        }
    }

    /// Ends the prologue and epilogue of this orchestrator's cluster, if no task of a campaign that is over
    /// ran here, and none will.
    pub(super) fn skip_hooks_here(&mut self, id: u64) {
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        let is_needed = campaign.facts.has_begun
            || campaign.spec.cluster_prologue.is_some() && !campaign.is_unprepared();
        if !campaign.routes || !campaign.may_leave() || is_needed {
            return;
        }
        let prologue = campaign.prologue();
        campaign.facts.waits_for.retain(|waits_for| Some(*waits_for) != prologue);
        campaign.facts.epilogue = None;
        let hooks = self.campaigns.values().map(|hook| &hook.facts);
        let here = hooks.filter(|hook| hook.hook_of == Some(id) && hook.hook_cluster.is_none());
        for hook in here.map(|hook| hook.id).collect::<Vec<_>>() {
            self.cancel(hook, super::rows::Ending::Cancelled);
        }
    }

    /// State of a campaign on the other clusters.
    pub(super) fn away_state(&self, campaign: &Campaign) -> AwayState {
        let id = campaign.facts.id;
        let avoided = campaign.avoided.keys().filter_map(|place| {
            let may_try = campaign.may_use(place);
            cluster_at(place.as_str()).map(|cluster| (cluster, may_try))
        });
        let prepared = campaign.spec.cluster_prologue.is_some();
        let due = campaign.facts.prepared.iter();
        let due = due.filter(|cluster| self.wants_hook(id, cluster, HookKind::Epilogue));
        let hooks = if campaign.spec.has_cluster_hook() {
            self.hooks_on(id).cloned().collect()
        } else {
            BTreeSet::new()
        };
        AwayState {
            avoided: avoided.collect(),
            prepared: prepared.then(|| campaign.facts.prepared.clone()),
            preparing: hooks,
            to_finish: due.cloned().collect(),
            only: campaign.facts.hook_cluster.clone(),
        }
    }

    /// Opens the event of a cluster that refuses the tasks of a campaign.
    pub(super) fn refused_away(&mut self, id: u64, cluster: &Name, why: &str, now: Now) {
        let why = format!("it refuses the tasks ({why})");
        self.avoid(id, &place_of(cluster), ("refused", why), now);
    }

    /// Opens the event of a cluster that does not answer (`why`), or closes it.
    pub(super) fn hear_cluster(&mut self, cluster: &Name, why: Option<String>, now: Now) {
        let known = self.filed_of(EventClass::Cluster, cluster.as_str());
        let Some(text) = why else {
            if let Some(id) = known.filter(|event| event.code == SILENT).map(|event| event.id) {
                self.close_filed(id, now);
            }
            return;
        };
        if known.is_some() {
            return;
        }
        self.file_own((EventClass::Cluster, cluster), SILENT, text, now);
    }

    /// Open events of clusters: the sentence of each, by the name of the cluster.
    pub(super) fn events_of_clusters(&self) -> BTreeMap<Name, String> {
        let events = self.filed().filter(|event| event.class == EventClass::Cluster);
        let told = |event: &GridEvent| {
            (Name::from(event.name.as_str()), format!("event {}: {}", event.id, event.text))
        };
        events.map(told).collect()
    }
}
