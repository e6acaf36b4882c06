//! A job as the orchestrator remembers it: its last reported facts, and its processes.

use std::collections::{BTreeMap, BTreeSet};

use super::scenario::Selector;
use crate::model::{JobFacts, JobKind, Name, ShareFacts, ShareId, SharePhase};
use crate::scheduler::ShareView;
use crate::sim::error::Flaw;

/// A job, and its processes.
pub(super) struct JobActor {
    pub kind: JobKind,
    pub total: u64,
    pub facts: JobFacts,
    pub shares: BTreeMap<ShareId, PlayedProcess>,
    /// Shares that died with their node: gone, and not confirmed gone.
    pub purged: BTreeSet<ShareId>,
}

pub(super) struct PlayedProcess {
    pub node: String,
    pub state: SharePhase,
    /// True if the job is refused: the share leaves with "whitelist".
    pub is_blacklisted: bool,
    /// The cycle that made it.
    pub since: u64,
    pub facts: ShareFacts,
}

impl JobActor {
    /// Enters a share as the scheduler has it now, and the refusal of its job. Returns true if the
    /// share is new, and true if it was terminating before.
    pub fn take_over(&mut self, cycle: u64, share: &ShareView, is_refused: bool) -> (bool, bool) {
        let known = self.shares.get(&share.id);
        let (is_new, was_leaving) = (known.is_none(), known.is_some_and(PlayedProcess::is_leaving));
        let process = self.shares.entry(share.id).or_insert_with(|| PlayedProcess {
            node: share.node.to_string(),
            state: share.state,
            is_blacklisted: false,
            since: cycle,
            facts: share.facts,
        });
        process.state = share.state;
        process.is_blacklisted = is_refused;
        (is_new, was_leaving)
    }

    /// Records the shares that died with their nodes; returns the nodes of the shares that died in
    /// this cycle.
    pub fn bury(&mut self, purged: &[ShareView]) -> Vec<Name> {
        let is_news = |share: &&ShareView| self.purged.insert(share.id);
        let died: Vec<&ShareView> = purged.iter().filter(is_news).collect();
        for share in &died {
            self.shares.remove(&share.id);
        }
        died.into_iter().map(|share| share.node.clone()).collect()
    }

    /// The shares that a selector means.
    pub fn select(&self, selector: &Selector) -> Result<Vec<ShareId>, Flaw> {
        let is_meant = |process: &PlayedProcess| {
            selector.node.as_ref().is_none_or(|node| *node == process.node)
                && selector.pending_remove.is_none_or(|leaving| leaving == process.is_leaving())
        };
        let meant: Vec<ShareId> = self
            .shares
            .iter()
            .filter(|(_, process)| is_meant(process))
            .map(|(&share, _)| share)
            .collect();
        let positions = match (selector.index, selector.from, selector.to) {
            (Some(index), None, None) => index..index.saturating_add(1),
            (None, Some(from), Some(to)) => from..to,
            (None, None, None) if selector.all => 0..usize::MAX,
            _ => {
                let remedy = "give one of `all`, `index`, or `from` and `to`";
                return Err(Flaw::new(".sel", "it does not say which shares", remedy));
            }
        };
        Ok(meant
            .into_iter()
            .enumerate()
            .filter(|(ix, _)| positions.contains(ix))
            .map(|(_, share)| share)
            .collect())
    }
}

impl PlayedProcess {
    pub fn is_leaving(&self) -> bool {
        self.state == SharePhase::Leaving
    }
}
