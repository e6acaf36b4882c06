//! The folder of `apportion up`, and the record of its processes in the folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::super::failure::{Failure, FailureKind};
use super::super::remote::Trust;
use crate::agent::run::ProcessIdentity;

/// The variable that names the folder.
pub const VARIABLE: &str = "APPORTION_STATE";

const FILE: &str = "up.json";

const LOCK: &str = "up.lock";

/// Running processes, and their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpRecord {
    /// Address of the daemon.
    pub daemon: String,
    /// Address of the orchestrator.
    pub orchestrator: String,
    /// The file with the token of the user that called `apportion up`.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// The certificate of the authority that vouches for both, if they listen for other machines.
    #[serde(default)]
    pub authority: Option<PathBuf>,
    /// Addresses for other machines that share the folder.
    #[serde(default)]
    pub elsewhere: Option<Elsewhere>,
    /// The supervisor.
    pub up: Option<ProcessIdentity>,
    /// The processes it started, in this order: daemon, agent.
    pub children: Vec<ProcessIdentity>,
}

impl UpRecord {
    /// Returns the token and the authority for the owner of the folder.
    pub fn trust(&self) -> Trust {
        Trust { token_file: self.token_file.clone(), ca: self.authority.clone() }
    }

    /// True if `url` is the address of its daemon or its orchestrator.
    pub fn has(&self, url: &Url) -> bool {
        let is_it = |own: &String| own.parse::<Url>().is_ok_and(|own| own == *url);
        [&self.daemon, &self.orchestrator].into_iter().any(is_it)
    }
}

/// The machine of the daemon and the orchestrator, and their addresses for other machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// The name of the machine.
    pub host: String,
    /// Address of the daemon.
    pub daemon: String,
    /// Address of the orchestrator.
    pub orchestrator: String,
}

/// The folder of `apportion up`.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Path of the folder.
    pub path: PathBuf,
}

impl Folder {
    /// Opens the named folder, or the usual folder, and makes it if it does not exist.
    ///
    /// # Errors
    ///
    /// If it cannot be used.
    pub fn open(named: Option<&Path>) -> Result<Folder, Failure> {
        let path = locate(named).ok_or_else(|| {
            Failure::new(FailureKind::Refused, "HOME is not set; name a folder with --state")
        })?;
        let shown = path.display().to_string();
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.with_context(|| format!("cannot make {shown}; name another folder with --state"))?;
        // The folder holds input and output of tasks.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))
            .with_context(|| format!("{shown} is not ours; name another folder with --state"))?;
        let path = path.canonicalize().with_context(|| format!("cannot use {shown}"))?;
        Ok(Folder { path })
    }

    /// Locks the folder. `None`: another `apportion up` has it.
    ///
    /// # Errors
    ///
    /// If there cannot be a lock.
    pub fn lock(&self) -> Result<Option<File>, Failure> {
        let path = self.path.join(LOCK);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error.into()),
        }
    }

    /// Returns the record, if there is any.
    pub fn read(&self) -> Option<UpRecord> {
        serde_json::from_slice(&fs::read(self.path.join(FILE)).ok()?).ok()
    }

    /// Writes down what runs.
    ///
    /// # Errors
    ///
    /// If that fails.
    pub fn write(&self, found: &UpRecord) -> Result<(), Failure> {
        let (new, path) = (self.path.join("up.new"), self.path.join(FILE));
        let write = || {
            let mut options = OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(&serde_json::to_vec_pretty(found)?)?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        Ok(write().with_context(|| format!("cannot write {}", path.display()))?)
    }

    /// Forgets what ran.
    pub fn forget(&self) {
        // A missing file is what this call wants, so an error does not matter.
        let _ = fs::remove_file(self.path.join(FILE));
    }

    /// A path in the folder.
    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// The folder that is meant where none is named.
pub fn locate(named: Option<&Path>) -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let path = |value| PathBuf::from(value);
    let home = || variable("HOME").map(|home| path(home).join(".local/state"));
    let usual = || Some(variable("XDG_STATE_HOME").map(path).or_else(home)?.join("apportion"));
    named.map(Path::to_owned).or_else(|| variable(VARIABLE).map(path)).or_else(usual)
}

/// Writes a file that only its owner may read. It replaces an earlier file at once.
///
/// # Errors
///
/// If it cannot be written.
pub fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    let write = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    Ok(write().with_context(|| format!("cannot write {}", path.display()))?)
}
