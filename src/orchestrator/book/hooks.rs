//! Prologues and epilogues of the cluster: campaigns of a single task, which another campaign waits for.
//!
//! A campaign waits for its prologue as for any other campaign. Its epilogue begins once all its tasks are
//! final, and the campaign ends once the epilogue is done. All three are in the database from the submission
//! on, so a restart repeats none of them.

use super::Book;
use super::campaigns::Campaign;
use super::rows::{CampaignState, Ending, Note};

impl Campaign {
    /// True if all tasks are final.
    pub(super) fn is_over(&self) -> bool {
        !self.has_queued() && self.tasks.is_empty()
    }
}

impl Book {
    /// True if a campaign is an epilogue, and tasks of its campaign are not final.
    pub(super) fn waits_for_tasks(&self, id: u64) -> bool {
        let of = self.campaigns.get(&id).and_then(|hook| hook.facts.hook_of);
        let campaign = of.and_then(|of| self.campaigns.get(&of));
        campaign.is_some_and(|campaign| campaign.facts.epilogue == Some(id) && !campaign.is_over())
    }

    /// True if the epilogue of a campaign has begun, so that no task may follow.
    pub(super) fn has_begun_epilogue(&self, campaign: &Campaign) -> bool {
        let epilogue = campaign.facts.epilogue.and_then(|hook| self.campaigns.get(&hook));
        let has_begun = epilogue.is_some_and(|hook| hook.facts.has_begun);
        has_begun || !campaign.facts.epilogues.is_empty()
    }

    /// Lets the epilogue of a campaign begin, if all tasks of the campaign are final.
    pub(super) fn call_epilogue(&mut self, id: u64) {
        if self.campaigns.get(&id).is_some_and(Campaign::is_over) {
            self.skip_hooks_here(id);
        }
        let Some(campaign) = self.campaigns.get(&id).filter(|campaign| campaign.is_over()) else {
            return;
        };
        let epilogue = campaign.facts.epilogue.and_then(|hook| self.campaigns.get(&hook));
        let waits = epilogue.filter(|hook| hook.facts.state == CampaignState::Waiting);
        if let Some(hook) = waits {
            self.dirty.settle.insert(hook.facts.id);
        }
    }

    /// Enters that an epilogue is final. An epilogue that is not done keeps its campaign from its end.
    pub(super) fn epilogue_ended(&mut self, hook: u64, of: u64, state: CampaignState) {
        let Some(campaign) = self.campaigns.get_mut(&of) else { return };
        if campaign.facts.epilogue != Some(hook) {
            return;
        }
        self.dirty.settle.insert(of);
        if state == CampaignState::Done {
            campaign.facts.epilogue = None;
            return;
        }
        let text = format!(
            "campaign {of} does not end, as its epilogue, campaign {hook}, is {}: `apportion campaign \
             resubmit {hook} --failed`, or `apportion campaign resume {of}` to end without it",
            state.word()
        );
        let code = "epilogue-failed";
        self.dirty.notes.push(Note { campaign: of, task: None, node: None, code, text });
    }

    /// Lets a campaign end without its epilogue, if the epilogue has failed.
    pub(super) fn give_up_epilogue(&mut self, id: u64) {
        let Some(campaign) = self.campaigns.get(&id) else { return };
        let away = campaign.facts.epilogues.iter().copied();
        let away = away.filter(|hook| self.campaigns.contains_key(hook)).collect();
        let hook = campaign.facts.epilogue;
        if let Some(campaign) = self.campaigns.get_mut(&id) {
            campaign.facts.epilogues = away;
        }
        let Some(hook) = hook else { return };
        if self.campaigns.contains_key(&hook) {
            return;
        }
        if let Some(campaign) = self.campaigns.get_mut(&id) {
            campaign.facts.epilogue = None;
        }
    }

    /// Cancels the prologue and the epilogue of a campaign that is cancelled.
    pub(super) fn cancel_hooks(&mut self, id: u64) {
        if let Some(campaign) = self.campaigns.get_mut(&id) {
            campaign.facts.epilogue = None;
            campaign.facts.epilogues.clear();
            campaign.facts.prepared.clear();
        }
        let hooks = self.campaigns.values().filter(|it| it.facts.hook_of == Some(id));
        for hook in hooks.map(|hook| hook.facts.id).collect::<Vec<_>>() {
            self.cancel(hook, Ending::Cancelled);
        }
    }
}
