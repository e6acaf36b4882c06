//! The numbers of publications: letting them begin anew.

use clap::{Args, Subcommand};

use super::client::DaemonClient;
use super::failure::Failure;
use super::output::show;
use super::remote::Remote;
use crate::api::wire::{PublicationReset, PublicationResetAnswer};

/// An action on publications.
#[derive(Debug, Subcommand)]
pub enum PublicationAction {
    /// Let the next publication have any number: for an orchestrator that a higher number locks out
    #[command(after_help = RESET_EXAMPLES)]
    Reset(Reset),
}

/// Lets numbers begin anew.
#[derive(Debug, Args)]
pub struct Reset {
    /// The reason, for the audit log
    #[arg(long, short)]
    pub reason: String,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// The daemon to ask.
    #[command(flatten)]
    pub remote: Remote,
}

const RESET_EXAMPLES: &str = "\
Examples:
  apportion publication reset --reason \"the orchestrator lost its state\"

Work and shares stay as they are. Until the next publication is on record a restart takes it back.";

/// Runs the command.
///
/// # Errors
///
/// If the daemon cannot be reached or refuses.
pub async fn run(action: &PublicationAction) -> Result<(), Failure> {
    let PublicationAction::Reset(args) = action;
    let request = PublicationReset { reason: args.reason.clone(), dry_run: args.dry_run };
    let client = DaemonClient::new(&args.remote)?;
    let answer: PublicationResetAnswer =
        client.post(&["v1", "publication", "reset"], &request).await?;
    Ok(show(&answer, args.remote.json, |answer| {
        let last = answer.last.map_or("none".to_owned(), |last| last.to_string());
        let may = if answer.dry_run { "could then have" } else { "may have" };
        format!("the next publication {may} any number; the last was {last}")
    })?)
}
