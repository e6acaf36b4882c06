//! A database of the orchestrator that was put back from a copy: what nodes have that it does not know.

use std::fmt::Write;

use clap::Args;

use super::failure::Failure;
use super::output::show;
use super::place::OrchestratorArgs;
use crate::orchestrator::wire::{Adopt, Adoption, FoundAttempt};

/// Attempts that are shown of each list.
const SHOWN: usize = 20;

/// End of the help of `orchestrator adopt`.
pub const ADOPT_EXAMPLES: &str = "\
Examples:
  apportion orchestrator adopt --check
  apportion orchestrator adopt --reason \"orchestrator.db came from the backup of last night\"

Wait until all agents have reported: what one reports later is not taken over.
Tasks whose results only the newer database had run again.";

/// Takes over what nodes have and an older copy of the database does not know.
#[derive(Debug, Args)]
pub struct AdoptArgs {
    /// Only show what would be taken over
    #[arg(long)]
    pub check: bool,
    /// The reason, for the record
    #[arg(long, short, required_unless_present = "check")]
    pub reason: Option<String>,
    /// The orchestrator to ask.
    #[command(flatten)]
    pub place: OrchestratorArgs,
}

/// Shows what nodes have, and has it taken over.
///
/// # Errors
///
/// If the orchestrator cannot be reached or refuses.
pub async fn run(args: &AdoptArgs) -> Result<(), Failure> {
    let orchestrator = args.place.open()?;
    let path = &["v1", "adoption"];
    let found: Adoption = orchestrator.get(path, &[]).await?;
    let reason = args.reason.clone().filter(|_| found.set_back && !args.check);
    let Some(reason) = reason else {
        return Ok(show(&found, args.place.json, seen)?);
    };
    let taken: Adoption = orchestrator.post(path, &Adopt { reason }).await?;
    Ok(show(&taken, args.place.json, adopted)?)
}

fn seen(found: &Adoption) -> String {
    if !found.set_back {
        return "the database is no older copy; nothing is to be taken over".to_owned();
    }
    let head = format!(
        "the database is an older copy; {} nodes have reported, with {} attempts that it does not know",
        found.nodes,
        found.attempts.len()
    );
    listed(&head, found)
}

fn adopted(taken: &Adoption) -> String {
    let head =
        format!("{} attempts of {} nodes were taken over", taken.attempts.len(), taken.nodes);
    listed(&head, taken)
}

fn listed(head: &str, found: &Adoption) -> String {
    let mut text = head.to_owned();
    add(&mut text, &found.attempts);
    if !found.strange.is_empty() {
        let number = found.strange.len();
        // Text takes more text.
        let _ = write!(text, "\n{number} attempts of unknown campaigns cannot be taken over:");
        add(&mut text, &found.strange);
    }
    text
}

fn add(text: &mut String, attempts: &[FoundAttempt]) {
    for found in attempts.iter().take(SHOWN) {
        let _ = write!(text, "\n  {} on {}", found.task, found.node);
    }
    let more = attempts.len().saturating_sub(SHOWN);
    if 0 < more {
        let _ = write!(text, "\n  and {more} more; --json has all");
    }
}
