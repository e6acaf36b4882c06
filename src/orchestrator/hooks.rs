//! Submission of the prologue and the epilogue of a campaign in the cluster.

use std::sync::Arc;

use super::book::NewHook;
use super::drive::Owner;
use super::spec::{CampaignSpec, HookKind, Params};
use super::store::{DbError, Submission};

impl Owner {
    /// Prologue and epilogue of the cluster, with numbers for their specifications. All are new in this batch
    /// with the specification `before` them, or on record.
    pub(super) async fn hooks_of(
        &mut self,
        spec: &CampaignSpec,
        before: u64,
    ) -> Result<Vec<NewHook>, DbError> {
        let mut hooks: Vec<NewHook> = Vec::new();
        for kind in [HookKind::Prologue, HookKind::Epilogue] {
            let Some(spec) = spec.hook_campaign(kind) else { continue };
            let mut spec_number = self.store.spec_number(&spec, None).await?;
            let taken = hooks.iter().map(|hook| hook.spec_number).chain([before]);
            let taken: Vec<u64> = taken.collect();
            while taken.contains(&spec_number) {
                spec_number += 1;
            }
            hooks.push(NewHook { kind, spec_number, spec: Arc::new(spec) });
        }
        Ok(hooks)
    }
}

/// The submissions of hooks, which have the numbers behind their campaign.
pub(super) fn hook_submissions(campaign: u64, hooks: Vec<NewHook>) -> Vec<Submission> {
    let submission = |(campaign, hook): (u64, NewHook)| {
        let NewHook { spec_number, spec, .. } = hook;
        let (params, stdin, key) = (Params::Numbers, None, None);
        Submission { campaign, spec_number, spec, stdin, params, key }
    };
    (campaign + 1..).zip(hooks).map(submission).collect()
}
