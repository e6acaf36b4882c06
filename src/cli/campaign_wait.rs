//! Wait for the end of a campaign: its details, and reasons for few slots.

use std::time::{Duration, Instant};

use super::failure::{Failure, FailureKind};
use super::output::{complain, print};
use super::place::Orchestrator;
use super::progress::{ProgressHistory, ProgressLine};
use super::table::plain;
use crate::model::counted;
use crate::orchestrator::wire::{CampaignDetail, CampaignSummary, CampaignWhy};

/// Time between two requests about a campaign that the command waits for.
const LOOK: Duration = Duration::from_millis(300);

/// Time with few slots after which the command asks for a hint.
const PATIENCE: Duration = Duration::from_secs(3);

/// A campaign in full.
pub(super) async fn detail(
    orchestrator: &Orchestrator,
    id: u64,
) -> Result<CampaignDetail, Failure> {
    orchestrator.get(&["v1", "campaigns", &id.to_string()], &[]).await
}

/// Returns the orchestrator's explanation of a campaign's number of slots.
pub(super) async fn reasons(orchestrator: &Orchestrator, id: u64) -> Result<CampaignWhy, Failure> {
    orchestrator.get(&["v1", "campaigns", &id.to_string(), "why"], &[]).await
}

/// Waits until a campaign is final, and ends as its tasks did. An orchestrator that restarts is waited
/// for.
pub(super) async fn wait_for(
    orchestrator: &Orchestrator,
    id: u64,
    has_progress: bool,
) -> Result<(), Failure> {
    let line = has_progress.then(ProgressLine::new);
    let (mut course, mut hints) = (ProgressHistory::default(), Hints::default());
    let summary = loop {
        match detail(orchestrator, id).await {
            Ok(detail) => {
                let one = detail.campaign;
                if let Some(line) = &line {
                    line.show(&course.line(&one, Instant::now()));
                }
                if ["done", "failed", "cancelled"].contains(&one.state.as_str()) {
                    break one;
                }
                hints.tell(orchestrator, &one).await;
            }
            Err(failure) if failure.exit == FailureKind::Unreachable => {}
            Err(failure) => return Err(failure),
        }
        tokio::time::sleep(LOOK).await;
    };
    if let Some(line) = line {
        line.leave();
    }
    match summary.state.as_str() {
        "done" => Ok(()),
        "cancelled" => {
            print(&format!("campaign {id} was cancelled: {} done", summary.done))?;
            Err(Failure::silent(FailureKind::Conflict))
        }
        _ => {
            let failed = counted(summary.failed, "task");
            print(&format!(
                "campaign {id}: {failed} failed; `apportion campaign tasks {id} --failed`"
            ))?;
            Err(Failure::silent(FailureKind::Refused))
        }
    }
}

/// Says once what can be done for a campaign that has few slots.
#[derive(Debug, Default)]
struct Hints {
    asked: Option<Instant>,
    is_said: bool,
}

impl Hints {
    async fn tell(&mut self, orchestrator: &Orchestrator, one: &CampaignSummary) {
        let is_slow = 0 < one.queued && one.running <= 1;
        let is_due = *self.asked.get_or_insert_with(Instant::now) + PATIENCE <= Instant::now();
        if self.is_said || !is_slow || !is_due {
            return;
        }
        self.asked = Some(Instant::now());
        // Not worth a failure: the campaign goes on without a hint.
        if let Ok(why) = reasons(orchestrator, one.id).await
            && let Some(hint) = why.hints.first()
        {
            complain(&format!("hint: {}", plain(hint)));
            self.is_said = true;
        }
    }
}
