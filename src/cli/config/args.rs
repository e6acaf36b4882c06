//! Arguments of `apportion config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::super::remote::Remote;
use crate::config::Flag;

/// An action on a configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Read a configuration and show everything that is wrong with it
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Local),
    /// Show every setting in effect: of the file, the environment, the flags, or by default
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ConfigShowArgs),
    /// Print the sample configuration: every setting, with what it means, its unit and its default
    #[command(after_help = SAMPLE_EXAMPLES)]
    Sample,
    /// Print the JSON schema of configuration files, for editors that complete and check
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
    /// Translate the class, node and user files of UIMA-DUCC
    #[command(after_help = IMPORT_EXAMPLES)]
    ImportDucc(ImportDucc),
    /// Ask the running daemon what a configuration would change, and whose work would go
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(ConfigPlanArgs),
    /// Put a configuration into effect while the daemon runs, or have it refused whole
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(Apply),
    /// List the configurations that were in effect, or print a single one
    #[command(after_help = HISTORY_EXAMPLES)]
    History(ConfigHistoryArgs),
}

/// Choice of a configuration.
#[derive(Clone, Debug, Args)]
pub struct ConfigChoice {
    /// The file; without it, the daemon's file as it is now
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// A configuration that was in effect before; `config history` lists them
    #[arg(long, value_name = "N", conflicts_with = "file")]
    pub generation: Option<u64>,
}

/// Asks what a configuration would come to.
#[derive(Debug, Args)]
pub struct ConfigPlanArgs {
    /// The configuration.
    #[command(flatten)]
    pub which: ConfigChoice,
    /// The daemon to ask.
    #[command(flatten)]
    pub remote: Remote,
}

/// Puts a configuration into effect.
#[derive(Debug, Args)]
pub struct Apply {
    /// The configuration.
    #[command(flatten)]
    pub which: ConfigChoice,
    /// The reason, for readers of the history
    #[arg(long, short)]
    pub reason: Option<String>,
    /// Show the effects, and change nothing: the same as `config plan`
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask. Without it a terminal is asked, and a script is refused where work would be evicted,
    /// refused or left where it may not be
    #[arg(long, short)]
    pub yes: bool,
    /// The daemon to ask.
    #[command(flatten)]
    pub remote: Remote,
}

/// Lists configurations.
#[derive(Debug, Args)]
pub struct ConfigHistoryArgs {
    /// Print the file of this configuration
    #[arg(value_name = "GENERATION")]
    pub generation: Option<u64>,
    /// The daemon to ask.
    #[command(flatten)]
    pub remote: Remote,
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
    /// The file; without it, the file that `serve` would read
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Flags that override the file.
    #[command(flatten)]
    pub overrides: SetFlags,
}

/// Settings given on the command line.
#[derive(Clone, Debug, Args)]
pub struct SetFlags {
    /// Override a single setting, such as scheduler.quantum=4GB; may be given several times
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
pub struct ConfigShowArgs {
    /// The configuration.
    #[command(flatten)]
    pub local: Local,
    /// Also show the origin of each setting: the file and the line, a variable, a flag, or the
    /// default
    #[arg(long)]
    pub origin: bool,
    /// Show what is in effect in the running daemon, and what waits for its restart
    #[arg(long, conflicts_with_all = ["file", "set"])]
    pub running: bool,
    /// The daemon to ask, if it is asked.
    #[command(flatten)]
    pub remote: Remote,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  apportion config check
  apportion config check new.toml && mv new.toml /etc/apportion/apportion.toml";

const SAMPLE_EXAMPLES: &str = "\
Examples:
  apportion config sample > my.toml && apportion config check my.toml";

const SHOW_EXAMPLES: &str = "\
Examples:
  apportion config show --origin
  apportion config show new.toml --set scheduler.quantum=4GB --origin
  apportion config show --running --origin
  apportion config show new.toml | diff - <(apportion config show)";

const IMPORT_EXAMPLES: &str = "\
Examples:
  apportion config import-ducc resources/ducc.classes --users resources/ducc.users
  apportion config import-ducc ducc.classes --nodes resources --properties ducc.properties -o apportion.toml

Each fault is shown with its place in the files, and nothing is written. A setting without a
counterpart is left out; the translation and standard error name it.";

const PLAN_EXAMPLES: &str = "\
Examples:
  apportion config plan new.toml
  apportion config plan --generation 3
  apportion config plan new.toml --json | jq .impact

Nothing is changed: the daemon tries the effects on jobs on a copy of its state.";

const APPLY_EXAMPLES: &str = "\
Examples:
  apportion config apply new.toml --reason \"a new rack\"
  apportion config apply                     read the daemon's own file again, as SIGHUP does
  apportion config apply --generation 3      return to it

The daemon does not write its file: at the next start it reads the file again. The address, the
state file and the limits change only then.";

const HISTORY_EXAMPLES: &str = "\
Examples:
  apportion config history
  apportion config history 3 > before.toml";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  apportion config schema > apportion.schema.json

Editors that use taplo (VS Code with Even Better TOML, Helix, Zed) read it where the first line of
the configuration is:
  #:schema ./apportion.schema.json";
