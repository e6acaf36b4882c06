//! Arguments that name the daemon, and the trust between a command and the daemon.

use std::path::PathBuf;

use clap::Args;
use reqwest::Url;

use super::values::parse_url;

/// The daemon to talk to, and how to show its answer.
#[derive(Clone, Debug, Args)]
pub struct Remote {
    /// The daemon's address; without it, the daemon of `apportion up`
    #[arg(
        long,
        env = "APPORTION_URL",
        default_value = "http://127.0.0.1:7070",
        value_parser = parse_url
    )]
    pub url: Url,
    /// Show the answer in JSON, as the API gives it
    #[arg(long)]
    pub json: bool,
    /// The caller's token, and the authority it trusts.
    #[command(flatten)]
    pub trust: Trust,
}

/// The caller's token for the daemon, and the authority that proves the daemon.
#[derive(Clone, Debug, Default, Args)]
pub struct Trust {
    /// The file with your token
    #[arg(long, value_name = "FILE", env = "APPORTION_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// The certificate of the authority that vouches for the daemon, for https, in PEM
    #[arg(long, value_name = "FILE", env = "APPORTION_CA")]
    pub ca: Option<PathBuf>,
}
