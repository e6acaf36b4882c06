//! A job as the orchestrator remembers it: its last reported facts, and its processes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::scenario::Selector;
use crate::model::{
    Elasticity, JobFacts, JobKind, Millis, Name, Shape, ShareFacts, ShareId, SharePhase,
};
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
    pub shape: Option<Arc<Shape>>,
    /// Time that it runs before it ends by itself.
    pub runs_for: Option<Millis>,
    /// Time of the cycle that started it; `None` while it holds nothing.
    pub started: Option<Millis>,
}

pub(super) struct PlayedProcess {
    pub node: String,
    /// Rank of the process in a gang.
    pub rank: Option<u32>,
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
            rank: share.rank,
            state: share.state,
            is_blacklisted: false,
            since: cycle,
            facts: share.facts,
        });
        process.state = share.state;
        process.is_blacklisted = is_refused;
        (is_new, was_leaving)
    }

    /// True if its owner may change the number of processes of a gang.
    pub fn is_evolving_gang(&self) -> bool {
        let shape = self.shape.as_ref().filter(|shape| shape.is_gang());
        shape.is_some_and(|shape| shape.elasticity == Some(Elasticity::Evolving))
    }

    /// Notes at `now` if it runs.
    pub fn note_start(&mut self, now: Millis) {
        let runs = self.shares.values().any(|process| !process.is_leaving());
        self.started = if runs { Some(self.started.unwrap_or(now)) } else { None };
    }

    /// True if it has run for as long as it does.
    pub fn is_over(&self, now: Millis) -> bool {
        let end = self.started.zip(self.runs_for).map(|(start, length)| start + length);
        end.is_some_and(|end| end <= now)
    }

    /// Node of the process of a gang that has that rank.
    pub fn node_of_rank(&self, rank: u32) -> Option<&str> {
        let mut held = self.shares.values().filter(|process| !process.is_leaving());
        held.find(|process| process.rank == Some(rank)).map(|process| process.node.as_str())
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
