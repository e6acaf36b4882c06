//! Warnings for operators about a cycle's outcome, logged when a condition begins and when it ends.

use crate::scheduler::View;

/// Conditions that were logged last.
#[derive(Debug, Default)]
pub struct Watch {
    /// Number of silent nodes whose loss is held back, as too many fell silent together.
    held_back: usize,
    /// True if the quiet stop held jobs back in the last cycle.
    is_net_striking: bool,
}

impl Watch {
    /// Logs changed conditions after a cycle.
    pub fn look(&mut self, view: &View) {
        self.look_at_losses(view);
        self.log_preemption_stop(view);
    }

    fn look_at_losses(&mut self, view: &View) {
        let (cycle, nodes) = (view.cycle, view.lost_held_back.len());
        let before = std::mem::replace(&mut self.held_back, nodes);
        if before < nodes {
            tracing::warn!(
                cycle,
                nodes,
                "mass node loss: the fault is more likely in the network; the nodes get no new shares and their shares are kept"
            );
        } else if nodes == 0 && 0 < before {
            tracing::info!(cycle, "mass node loss is over");
        }
    }

    fn log_preemption_stop(&mut self, view: &View) {
        let (cycle, jobs) = (view.cycle, view.net_strikes());
        let was_striking = std::mem::replace(&mut self.is_net_striking, 0 < jobs);
        match (was_striking, self.is_net_striking) {
            (false, true) => tracing::warn!(
                cycle,
                jobs,
                "the quiet stop holds jobs back; `apportion queue` shows them"
            ),
            (true, false) => tracing::info!(cycle, "the quiet stop holds no job back any more"),
            (true, true) | (false, false) => {}
        }
    }
}
