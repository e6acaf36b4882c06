//! The book under random histories, and single stories of it.

mod away;
mod faults;
mod filed;
mod forward;
mod gangs;
mod hooks;
mod modes;
mod random;
mod resize;
mod stories;
mod waits;
mod world;

use std::sync::Arc;

use super::rows::{TaskRow, TaskState};
use crate::orchestrator::spec::CampaignSpec;
use crate::orchestrator::wire::{AttemptId, Reason, TaskResult};

/// The specification of a campaign of tasks 1 to `count`.
pub(super) fn spec(count: u64) -> CampaignSpec {
    let text = format!("command = [\"true\"]\nmemory = \"1GB\"\ntasks = {count}\ngrace = \"30s\"");
    CampaignSpec::read(toml::from_str(&text).unwrap()).unwrap().0
}

/// The same, shared.
fn shared(count: u64) -> Arc<CampaignSpec> {
    Arc::new(spec(count))
}

/// A task of campaign 1 that runs its first attempt.
pub(super) fn task(task: u64) -> TaskRow {
    TaskRow {
        campaign: 1,
        task,
        state: TaskState::Running,
        attempt: 1,
        tries: 0,
        losses: 0,
        resubmits: 0,
        priority: 10,
        step: 0,
        live: None,
        share: Some(7),
        cancel: false,
        reason: None,
    }
}

/// The result of the first attempt of task 1 of campaign 1.
pub(super) fn result(why: Reason) -> TaskResult {
    TaskResult {
        number: 1,
        task: AttemptId { campaign: 1, task: 1, attempt: 1 },
        why,
        exit: None,
        signal: None,
        ms: 100,
        cpu_ms: 0,
        peak_mb: 0,
        rss_mb: 0,
        out: [0, 0],
        tail: String::new(),
        error: String::new(),
        has_saved: false,
    }
}
