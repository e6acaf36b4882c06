//! The end of `apportion up` while work runs: at once, or when the tasks that run have ended.

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::Duration;

use reqwest::Method;
use tokio::time::sleep;

use super::super::client::DaemonClient;
use super::super::failure::Failure;
use super::super::output::complain;
use crate::orchestrator::wire::{CampaignPage, CampaignSummary, StateChange, WantedState};

/// Time between two counts of the running tasks.
const LOOK: Duration = Duration::from_millis(500);

/// Fate of the running tasks at the end of `apportion up`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TasksEnd {
    /// Each task gets its stop signal, and is killed after its grace; the next start repeats it.
    Now,
    /// Tasks end by themselves, and no other task begins.
    Wait,
}

/// Returns the number of running tasks.
pub async fn running(orchestrator: &DaemonClient) -> u64 {
    let campaigns = campaigns(orchestrator).await.unwrap_or_default();
    campaigns.iter().map(|campaign| campaign.running).sum()
}

/// Asks at the terminal what is to become of `running` tasks. Without a terminal, or without tasks, they
/// are not waited for.
///
/// # Errors
///
/// If the terminal fails.
pub fn ask(running: u64) -> io::Result<TasksEnd> {
    if running == 0 || !io::stdin().is_terminal() {
        return Ok(TasksEnd::Now);
    }
    let mut error = io::stderr().lock();
    write!(
        error,
        "{running} tasks run. End them now (the next start repeats them), or wait? [e/w] "
    )?;
    error.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(if answer.trim().starts_with(['w', 'W']) { TasksEnd::Wait } else { TasksEnd::Now })
}

/// Waits until no task runs. No other begins meanwhile: campaigns are suspended, and their numbers noted in
/// `suspended`.
///
/// # Errors
///
/// If the orchestrator does not answer.
pub async fn drain(orchestrator: &DaemonClient, suspended: &mut Vec<u64>) -> Result<(), Failure> {
    loop {
        let campaigns = campaigns(orchestrator).await?;
        for campaign in campaigns.iter().filter(|campaign| campaign.state == "running") {
            set(orchestrator, campaign.id, WantedState::Suspended).await?;
            if !suspended.contains(&campaign.id) {
                suspended.push(campaign.id);
            }
        }
        if campaigns.iter().all(|campaign| campaign.running == 0) {
            return Ok(());
        }
        sleep(LOOK).await;
    }
}

/// Lets campaigns go on that were suspended for the end.
pub async fn resume(orchestrator: &DaemonClient, suspended: &[u64]) {
    for id in suspended {
        // A campaign that was cancelled meanwhile cannot continue.
        if let Err(failure) = set(orchestrator, *id, WantedState::Running).await {
            let why = failure.error.map(|error| error.to_string()).unwrap_or_default();
            complain(&format!(
                "campaign {id} stays suspended ({why}); `apportion campaign resume {id}`"
            ));
        }
    }
}

async fn campaigns(orchestrator: &DaemonClient) -> Result<Vec<CampaignSummary>, Failure> {
    let page: CampaignPage = orchestrator.get(&["v1", "campaigns"], &[("limit", "1000")]).await?;
    Ok(page.campaigns)
}

async fn set(orchestrator: &DaemonClient, id: u64, state: WantedState) -> Result<(), Failure> {
    let path = ["v1", "campaigns", &id.to_string(), "state"];
    orchestrator.act(Method::PUT, &path, &StateChange { state, now: false }).await
}
