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
    /// Translate the class, node and user files of UIMA-DUCC
    #[command(after_help = IMPORT_EXAMPLES)]
    ImportDucc(ImportDucc),
}

/// Translates the original's files.
#[derive(Debug, Args)]
pub struct ImportDucc {
    /// The class file, ducc.classes
    #[arg(value_name = "CLASSES")]
    pub classes: PathBuf,
    /// The folder of the node files that the class file names; without it, the class file's
    #[arg(long, value_name = "DIR")]
    pub nodes: Option<PathBuf>,
    /// The user registry, ducc.users
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,
    /// The properties, ducc.properties: quantum, allotment, how jobs grow, heartbeats
    #[arg(long, value_name = "FILE")]
    pub properties: Option<PathBuf>,
    /// Write the translation here, instead of to standard output; the file must not exist
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
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

const IMPORT_EXAMPLES: &str = "\
Examples:
  apportion config import-ducc resources/ducc.classes --users resources/ducc.users
  apportion config import-ducc ducc.classes --nodes resources --properties ducc.properties -o apportion.toml

What is wrong in the files is shown at its place there, and nothing is written. What has no
counterpart is left out, and said so in the translation and on standard error.";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  apportion config schema > apportion.schema.json

Editors that use taplo (VS Code with Even Better TOML, Helix, Zed) read it where the first line of
the configuration is:
  #:schema ./apportion.schema.json";
