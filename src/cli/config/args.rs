//! What `apportion config` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::config::Flag;

/// What to do with a configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Read a configuration and show everything that is wrong with it
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Local),
    /// Show every setting in effect: of the file, the environment, the flags, or by default
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Show),
    /// Print the JSON schema of configuration files, for editors that complete and check
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
}

/// A configuration on this machine.
#[derive(Debug, Args)]
pub struct Local {
    /// The file; without it, the one that `serve` would read
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// What overrides it.
    #[command(flatten)]
    pub overrides: SetFlags,
}

/// Settings given on the command line.
#[derive(Clone, Debug, Args)]
pub struct SetFlags {
    /// Override a setting of [daemon], [daemon.limits] or [scheduler]; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_set)]
    pub set: Vec<Flag>,
}

fn parse_set(text: &str) -> Result<Flag, String> {
    let (path, value) = text
        .split_once('=')
        .ok_or_else(|| "write KEY=VALUE, such as scheduler.quantum=4GB".to_owned())?;
    let (path, value) = (path.trim().to_owned(), value.trim().to_owned());
    Ok(Flag { path, value, flag: "--set".to_owned() })
}

/// Shows settings.
#[derive(Debug, Args)]
pub struct Show {
    /// The configuration.
    #[command(flatten)]
    pub local: Local,
    /// Also show who set each: the file and the line, a variable, a flag, or nobody
    #[arg(long)]
    pub origin: bool,
    /// Show it in JSON
    #[arg(long)]
    pub json: bool,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  apportion config check
  apportion config check new.toml && mv new.toml /etc/apportion/apportion.toml";

const SHOW_EXAMPLES: &str = "\
Examples:
  apportion config show --origin
  apportion config show new.toml --set scheduler.quantum=4GB --origin
  apportion config show new.toml | diff - <(apportion config show)";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  apportion config schema > apportion.schema.json

Editors that use taplo (VS Code with Even Better TOML, Helix, Zed) read it where the first line of
the configuration is:
  #:schema ./apportion.schema.json";
