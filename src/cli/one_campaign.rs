//! Argument that names a campaign.

use clap::Args;

use super::place::OrchestratorArgs;

/// Name of one campaign, and the place of the orchestrator.
#[derive(Debug, Args)]
pub struct OneArgs {
    /// The campaign's number, or `last`
    #[arg(value_name = "CAMPAIGN")]
    pub campaign: String,
    /// The orchestrator.
    #[command(flatten)]
    pub place: OrchestratorArgs,
}
