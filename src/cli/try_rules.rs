//! `submit --try-rules`: the verdicts of the admission rules about a campaign.

use serde_json::{Map, Value};

use super::failure::{Failure, FailureKind};
use super::output::show;
use super::place::Orchestrator;
use super::table::plain;
use crate::orchestrator::wire::{AdmissionTrial, RuleVerdict};

/// Shows a campaign to the rules, and prints their verdicts.
///
/// # Errors
///
/// If a rule rejects it, or the orchestrator cannot be reached or refuses.
pub(super) async fn run(
    orchestrator: &Orchestrator,
    document: &Map<String, Value>,
    json: bool,
) -> Result<(), Failure> {
    let trial: AdmissionTrial = orchestrator.post(&["v1", "admission", "try"], document).await?;
    show(&trial, json, shown)?;
    match trial.rules.last().map(|rule| rule.verdict) {
        Some(RuleVerdict::Reject) => Err(Failure::silent(FailureKind::Refused)),
        Some(RuleVerdict::Ok | RuleVerdict::Rewrite) | None => Ok(()),
    }
}

fn shown(trial: &AdmissionTrial) -> String {
    if trial.rules.is_empty() {
        return "no rule: this site takes every campaign".to_owned();
    }
    let line = |rule: &crate::orchestrator::wire::AdmissionRule| {
        let word = match rule.verdict {
            RuleVerdict::Ok => "passes",
            RuleVerdict::Reject => "rejects it",
            RuleVerdict::Rewrite => "rewrites it",
        };
        let text = if rule.text.is_empty() { String::new() } else { format!(": {}", rule.text) };
        plain(&format!("{} {word}{text}", rule.name))
    };
    trial.rules.iter().map(line).collect::<Vec<_>>().join("\n")
}
