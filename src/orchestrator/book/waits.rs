//! Campaigns that wait: for other campaigns to be done, or for their hours.
//!
//! No task of a waiting campaign begins. Running tasks stay. The book knows no clock on the wall: it is
//! told when the hours of a campaign begin and end.

use std::collections::BTreeSet;

use super::Book;
use super::campaigns::Campaign;
use super::notes::history;
use super::rows::{CampaignState, Note};
use crate::orchestrator::wire::StopReason;

impl Campaign {
    /// True if the campaign has a reason to wait.
    fn is_held(&self) -> bool {
        self.waits_everywhere().next().is_some() || self.facts.opens_ms.is_some()
    }
}

impl Book {
    /// Enters that campaigns were done before another was submitted that waits for them.
    pub(super) fn meet(&mut self, id: u64, done: &BTreeSet<u64>) {
        if let Some(campaign) = self.campaigns.get_mut(&id) {
            campaign.facts.waits_for.retain(|number| !done.contains(number));
            self.dirty.settle.insert(id);
        }
    }

    /// Enters that the hours of a campaign begin (`None`) or end: they begin again at that moment, in
    /// milliseconds since the epoch.
    pub(super) fn change_hours(&mut self, id: u64, opens_ms: Option<u64>) {
        if let Some(campaign) = self.campaigns.get_mut(&id) {
            campaign.facts.opens_ms = opens_ms;
            self.dirty.settle.insert(id);
        }
    }

    /// Lets a campaign wait while it has a reason to, and go on afterwards.
    pub(super) fn wait_or_go_on(&mut self, id: u64) {
        let waits_for_tasks = self.waits_for_tasks(id);
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        let is_held = campaign.is_held() || waits_for_tasks;
        let state = campaign.facts.state;
        if is_held && matches!(state, CampaignState::Running | CampaignState::Finishing) {
            campaign.facts.state = CampaignState::Waiting;
            let others: Vec<String> =
                campaign.waits_everywhere().map(|id| id.to_string()).collect();
            let text = match (others.is_empty(), campaign.facts.opens_ms.is_some()) {
                (true, false) => "waits for the end of all tasks".to_owned(),
                (true, true) => "waits for its hours".to_owned(),
                (false, false) => format!("waits for campaigns {}", others.join(", ")),
                (false, true) => {
                    format!("waits for its hours, and for campaigns {}", others.join(", "))
                }
            };
            self.dirty.notes.push(history(id, "waiting", &text));
            self.stop_slots(id, StopReason::Drained, true);
        } else if !is_held && state == CampaignState::Waiting {
            campaign.facts.state = CampaignState::Running;
            self.dirty.notes.push(history(id, "begins", "its wait is over"));
        }
    }

    /// Moves a campaign between running and finishing. Stops its slots once all its tasks are
    /// final.
    pub(super) fn finish_or_go_on(&mut self, id: u64) {
        let Some(campaign) = self.campaigns.get_mut(&id) else { return };
        let is_over = campaign.is_over();
        match campaign.facts.state {
            CampaignState::Running if !campaign.has_queued() => {
                campaign.facts.state = CampaignState::Finishing;
            }
            CampaignState::Finishing if campaign.has_queued() => {
                campaign.facts.state = CampaignState::Running;
            }
            CampaignState::Running
            | CampaignState::Finishing
            | CampaignState::Suspended
            | CampaignState::Waiting
            | CampaignState::Cancelling
            | CampaignState::Done
            | CampaignState::Failed
            | CampaignState::Cancelled => {}
        }
        if is_over {
            self.call_epilogue(id);
            self.stop_slots(id, StopReason::Finished, true);
        }
    }

    /// Tells campaigns that wait for another that it is final.
    pub(super) fn tell_waiting(&mut self, ended: u64, hook_of: Option<u64>, state: CampaignState) {
        if let Some(of) = hook_of {
            self.epilogue_ended(ended, of, state);
        }
        for (id, campaign) in &mut self.campaigns {
            if !campaign.facts.waits_for.contains(&ended) {
                continue;
            }
            self.dirty.settle.insert(*id);
            if state == CampaignState::Done {
                campaign.facts.waits_for.remove(&ended);
                continue;
            }
            let (what, code) = if hook_of == Some(*id) {
                ("its prologue, ", "prologue-failed")
            } else {
                ("", "after-failed")
            };
            let text = format!(
                "campaign {id} waits for {what}campaign {ended}, which is {}: `apportion campaign resubmit \
                 {ended} --failed`, or `apportion campaign resume {id}` to begin without it",
                state.word()
            );
            let note = Note { campaign: *id, task: None, node: None, code, text };
            self.dirty.notes.push(note);
        }
    }
}
