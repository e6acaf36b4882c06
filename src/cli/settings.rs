//! Configuration of the daemon: its place, its checks, and the text on faults.

use std::env;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use super::failure::{Failure, FailureKind};
use super::output::complain;
use crate::config::{Config, ConfigError, Flag, Problems, Sources};

const FILE: &str = "apportion.toml";
const FOLDER: &str = "/etc/apportion";

/// Returns the named file, or else the default: in systemd's folder for us, or the usual file.
pub fn locate(named: Option<&Path>) -> PathBuf {
    let folder = || env::var_os("CONFIGURATION_DIRECTORY").unwrap_or_else(|| FOLDER.into());
    named.map_or_else(|| Path::new(&folder()).join(FILE), Path::to_owned)
}

/// Loads the configuration at `path`, under the environment and `flags`, and shows all that is
/// wrong with it. Also returns where it came from, to read it again.
///
/// # Errors
///
/// With `exit`, if it is wrong or cannot be read.
pub fn load(path: &Path, flags: &[Flag], exit: FailureKind) -> Result<(Sources, Config), Failure> {
    let read = || {
        let sources = Sources::new(path, flags)?;
        let config = sources.load()?;
        Ok((sources, config))
    };
    read().map_err(|error| match error {
        ConfigError::Problems(problems) => shown(&problems, exit),
        ConfigError::NotFound { .. }
        | ConfigError::Unreadable { .. }
        | ConfigError::IsDirectory { .. }
        | ConfigError::NotUtf8 { .. }
        | ConfigError::NoFile
        | ConfigError::Environment(_) => Failure { exit, error: Some(error.into()) },
    })
}

/// Shows the problems; the failure that is left says no more.
pub fn shown(problems: &Problems, exit: FailureKind) -> Failure {
    complain(&problems.render(io::stderr().is_terminal()));
    Failure::silent(exit)
}
