//! Behaviour of the modes of campaigns. A further mode is a further line of [`rules_of`].

use super::campaigns::Campaign;
use crate::orchestrator::spec::CampaignMode;

/// Behaviour of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ModeRules {
    /// Limit of slots until a task of the campaign has ended. `None`: no limit.
    pub first_slots: Option<u64>,
    /// True if free slots run copies of the last tasks.
    pub has_copies: bool,
}

/// The behaviour of a mode.
pub(super) fn rules_of(mode: CampaignMode) -> ModeRules {
    match mode {
        CampaignMode::Workqueue => ModeRules { first_slots: None, has_copies: false },
        CampaignMode::Prediction => ModeRules { first_slots: Some(1), has_copies: false },
        CampaignMode::Finalise => ModeRules { first_slots: None, has_copies: true },
    }
}

impl Campaign {
    /// Limit of slots by the specification and the mode. `None`: no limit.
    pub(super) fn most_slots(&self) -> Option<u64> {
        let mode = rules_of(self.spec.mode).first_slots.filter(|_| self.facts.ended == 0);
        if self.spec.keep { Some(1) } else { self.spec.max.into_iter().chain(mode).min() }
    }
}
