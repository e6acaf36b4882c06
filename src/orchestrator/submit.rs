//! Submission of a campaign, with the prologue and the epilogue that it has in the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::book::{Event, LeaseRow, NewCampaign, NewHook};
use super::drive::{By, Owner, Reply};
use super::spec::{CampaignSpec, HookKind, Params};
use super::store::{DbError, Submission};
use super::wire::AdmissionRecord;

/// A campaign to be submitted.
#[derive(Debug)]
pub struct Submit {
    /// The name of its owner.
    pub owner: String,
    /// The number of its owner at the head.
    pub uid: Option<u32>,
    /// Specification of the campaign.
    pub spec: CampaignSpec,
    /// Parameters of the tasks.
    pub params: Params,
    /// Standard input of the tasks.
    pub stdin: Option<Vec<u8>>,
    /// Idempotency key: the same key means the same submission.
    pub key: Option<String>,
    /// Admission rules that it passed.
    pub record: Option<AdmissionRecord>,
    /// Length of its lease, in milliseconds, and end of the lease, in milliseconds since the boot.
    pub lease: Option<(u64, u64)>,
}

impl Owner {
    pub(super) async fn submit(
        &mut self,
        submit: Submit,
        by: By,
        reply: oneshot::Sender<u64>,
    ) -> Result<(), DbError> {
        let Submit { owner, uid, spec, params, stdin, key, record, lease } = submit;
        if let Some(key) = &key {
            // A submission in this very batch is on record after the commit only.
            self.finish_batch().await?;
            if let Some(known) = self.store.submitted(&owner, key).await? {
                self.replies.push(Reply::Number(reply, known));
                return Ok(());
            }
        }
        // Two new specifications of the same batch would get the same number.
        if !self.batch.submissions.is_empty() {
            self.finish_batch().await?;
        }
        let spec_number = self.store.spec_number(&spec, stdin.as_deref()).await?;
        let (campaign, spec) = (self.book.next_number(), Arc::new(spec));
        self.note(by, "submit", format!("campaign {campaign} of {owner}"));
        let key = key.map(|key| (owner.clone(), key));
        let hooks = self.hooks_of(&spec, spec_number).await?;
        let (known, submitted) = (Arc::clone(&spec), hooks.clone());
        let new = NewCampaign { owner, uid, spec_number, spec: known, hooks: submitted };
        let done = if spec.after.is_empty() {
            BTreeSet::new()
        } else {
            // Campaigns of this batch are on record after the commit only.
            self.finish_batch().await?;
            self.store.done_among(&spec.after).await?
        };
        self.record(Event::Submitted(Box::new(new)));
        if let Some((lease_ms, until_ms)) = lease {
            self.record(Event::Leased(LeaseRow { number: campaign, lease_ms, until_ms }));
        }
        self.record(Event::Met(campaign, done));
        self.tell_hours();
        let submission = Submission { campaign, spec_number, spec, stdin, params, key };
        self.batch.submissions.push(submission);
        self.batch.submissions.extend(hook_submissions(campaign, hooks));
        self.batch.admissions.extend(record.map(|record| (campaign, record)));
        self.replies.push(Reply::Number(reply, campaign));
        Ok(())
    }

    /// Prologue and epilogue of the cluster, with numbers for their specifications. All are new in this batch
    /// with the specification `before` them, or on record.
    async fn hooks_of(
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
fn hook_submissions(campaign: u64, hooks: Vec<NewHook>) -> Vec<Submission> {
    let submission = |(campaign, hook): (u64, NewHook)| {
        let NewHook { spec_number, spec, .. } = hook;
        let (params, stdin, key) = (Params::Numbers, None, None);
        Submission { campaign, spec_number, spec, stdin, params, key }
    };
    (campaign + 1..).zip(hooks).map(submission).collect()
}
