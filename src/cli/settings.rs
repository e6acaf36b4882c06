//! The configuration: where it is, whether it is right, and how a wrong one is shown.

use std::env;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use super::args::ConfigAction;
use super::failure::{Exit, Failure};
use super::output::{complain, print};
use crate::config::{self, Config, ConfigError};

const FILE: &str = "apportion.toml";
const FOLDER: &str = "/etc/apportion";

/// Does what was asked.
///
/// # Errors
///
/// If the configuration is wrong.
pub fn run(action: &ConfigAction) -> Result<(), Failure> {
    let ConfigAction::Check { file } = action;
    let path = locate(file.as_deref());
    let Config { topology, .. } = load(&path, Exit::Refused)?;
    let (classes, pools) = (topology.classes.len(), topology.pools.len());
    let message = format!("{} is right; classes: {classes}, nodepools: {pools}", path.display());
    Ok(print(&message)?)
}

/// The file that is meant where none is named: systemd's folder for us, else the usual one.
pub fn locate(named: Option<&Path>) -> PathBuf {
    let folder = || env::var_os("CONFIGURATION_DIRECTORY").unwrap_or_else(|| FOLDER.into());
    named.map_or_else(|| Path::new(&folder()).join(FILE), Path::to_owned)
}

/// Loads the configuration at `path`, and shows all that is wrong with it.
///
/// # Errors
///
/// With `exit`, if it is wrong or cannot be read.
pub fn load(path: &Path, exit: Exit) -> Result<Config, Failure> {
    config::load(path).map_err(|error| match error {
        ConfigError::Problems(problems) => {
            complain(&problems.render(io::stderr().is_terminal()));
            Failure::silent(exit)
        }
        ConfigError::NotFound { .. }
        | ConfigError::Unreadable { .. }
        | ConfigError::IsDirectory { .. }
        | ConfigError::NotUtf8 { .. }
        | ConfigError::Environment(_) => Failure { exit, error: Some(error.into()) },
    })
}
