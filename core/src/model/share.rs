//! A share: an nshare on a node.

use super::Millis;

/// State of a share.
///
/// Design: "Interlude: Preemption": a terminating share occupies its space until its
/// exit is confirmed, and never comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SharePhase {
    /// In use, or about to be.
    Held,
    /// Preempted or evicted, not yet confirmed gone.
    Leaving,
}

/// Facts that the orchestrator reports about a share's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShareFacts {
    /// True if the process has completed initialization.
    pub is_initialized: bool,
    /// Time spent initializing, so far or in all.
    pub initialization: Millis,
    /// Work that would be lost with it.
    pub investment: Millis,
}

impl ShareFacts {
    /// What is lost with the process: its work, and the time that its initialization took.
    pub fn work_at_stake(&self) -> Millis {
        self.investment.saturating_add(self.initialization)
    }
}
