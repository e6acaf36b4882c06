//! Who publishes: looking, and handing over.

use clap::{Args, Subcommand};

use super::args::Remote;
use super::client::Client;
use super::failure::Failure;
use super::output::show;
use super::table::plain;
use crate::api::wire::{HandOver, Orchestrators};

/// What to do about orchestrators.
#[derive(Debug, Subcommand)]
pub enum OrchestratorAction {
    /// Show whose publications count, and whose are refused
    #[command(after_help = LIST_EXAMPLES)]
    List(Remote),
    /// Let another orchestrator publish
    #[command(name = "hand-over", after_help = HAND_OVER_EXAMPLES)]
    HandOver(HandOverArgs),
}

/// Lets another orchestrator publish.
#[derive(Debug, Args)]
pub struct HandOverArgs {
    /// Its name. Without it: whichever says its name first
    #[arg(long, value_name = "NAME")]
    pub to: Option<String>,
    /// Why, for the audit log
    #[arg(long, short)]
    pub reason: String,
    /// The daemon to ask.
    #[command(flatten)]
    pub remote: Remote,
}

const LIST_EXAMPLES: &str = "\
Examples:
  apportion orchestrator list";

const HAND_OVER_EXAMPLES: &str = "\
Examples:
  apportion orchestrator list
  apportion orchestrator hand-over --to ducc2 --reason \"ducc1 is retired\"

Work and shares stay as they are; what the next one does not publish keeps its room at first.";

/// Does what was asked.
///
/// # Errors
///
/// If the daemon cannot be reached or refuses.
pub async fn run(action: &OrchestratorAction) -> Result<(), Failure> {
    let (answer, json): (Orchestrators, bool) = match action {
        OrchestratorAction::List(remote) => {
            (Client::new(remote)?.get(&["v1", "orchestrators"], &[]).await?, remote.json)
        }
        OrchestratorAction::HandOver(args) => {
            let request = HandOver { to: args.to.clone(), reason: args.reason.clone() };
            let path = &["v1", "orchestrators", "hand-over"];
            (Client::new(&args.remote)?.post(path, &request).await?, args.remote.json)
        }
    };
    Ok(show(&answer, json, render)?)
}

fn render(answer: &Orchestrators) -> String {
    let whose = match (&answer.publisher, answer.epoch) {
        (Some(name), epoch) => {
            format!("publications of {}, epoch {}, count", plain(name), epoch.unwrap_or(0))
        }
        (None, _) => "publications of any orchestrator count: none said its name".to_owned(),
    };
    let last = answer.publication.map_or("none yet".to_owned(), |number| number.to_string());
    let mut lines = vec![whose, format!("the last on record: {last}")];
    lines.extend(answer.refused.iter().map(|other| {
        let name = if other.publisher.is_empty() { "without a name" } else { &other.publisher };
        format!("refused: {} of {}", other.publications, plain(name))
    }));
    lines.join("\n")
}
