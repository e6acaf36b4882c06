//! Record of `apportion up` in its folder, and its use by the other commands.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::Context;
use clap::Command;
use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::super::args::Trust;
use super::super::failure::{Failure, FailureKind};
use super::super::output::complain;
use super::join::{self, Join, Joined};
use super::public::host_name;
use crate::agent::boot;
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
    fn has(&self, url: &Url) -> bool {
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

/// Content of the join file in the environment, or else the record in the default folder. Read
/// once.
static DEFAULT: LazyLock<Option<UpRecord>> = LazyLock::new(|| {
    let joined = std::env::var_os(join::VARIABLE).filter(|path| !path.is_empty());
    if let Some(path) = joined {
        let joined = Join::read(Path::new(&path)).and_then(|join| join.unpack());
        return joined.inspect_err(complain_of).ok().map(of_joined);
    }
    let mut found = Folder { path: locate(None)? }.read()?;
    // The processes are on another machine: only an answer can show that they live.
    if let Some(Elsewhere { daemon, orchestrator, .. }) =
        found.elsewhere.take_if(|elsewhere| elsewhere.host != host_name())
    {
        return Some(UpRecord { daemon, orchestrator, ..found });
    }
    let boot = boot().ok()?;
    found.children.first().is_some_and(|daemon| daemon.is_alive(&boot)).then_some(found)
});

fn complain_of(failure: &Failure) {
    let why = failure.error.as_ref().map(ToString::to_string).unwrap_or_default();
    complain(&format!("{} is of no use: {why}", join::VARIABLE));
}

fn of_joined(joined: Joined) -> UpRecord {
    // A parsed URL of a host alone ends in a slash, which the file does not write.
    let text = |url: &Url| url.as_str().trim_end_matches('/').to_owned();
    UpRecord {
        daemon: text(&joined.daemon),
        orchestrator: text(&joined.orchestrator),
        token_file: Some(joined.submitter_token),
        authority: Some(joined.authority),
        ..UpRecord::default()
    }
}

/// The commands, with the daemon of `apportion up` in the place of the usual address.
pub fn found_by_default(command: Command) -> Command {
    match &*DEFAULT {
        Some(found) => with_default(command, &found.daemon),
        None => command,
    }
}

fn with_default(command: Command, url: &'static str) -> Command {
    let command = command.mut_subcommands(|command| {
        // An agent reports to a daemon that was named, and to no other.
        if command.get_name() == "agent" { command } else { with_default(command, url) }
    });
    let has_url = command.get_arguments().any(|argument| argument.get_id() == "url");
    if has_url { command.mut_arg("url", |argument| argument.default_value(url)) } else { command }
}

/// The orchestrator of `apportion up`, if `daemon` is its daemon.
pub fn orchestrator_beside(daemon: &Url) -> Option<Url> {
    let found = DEFAULT.as_ref()?;
    let is_same = found.daemon.parse::<Url>().is_ok_and(|url| url == *daemon);
    found.orchestrator.parse().ok().filter(|_| is_same)
}

/// `trust`, with the token of `apportion up` in the place of none if `url` is its own.
pub fn with_own(trust: &Trust, url: &Url) -> Trust {
    let own =
        DEFAULT.as_ref().filter(|found| found.has(url)).map(UpRecord::trust).unwrap_or_default();
    let Trust { token_file, ca } = trust.clone();
    Trust { token_file: token_file.or(own.token_file), ca: ca.or(own.ca) }
}

/// The folder that is meant where none is named.
pub fn locate(named: Option<&Path>) -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let path = |value| PathBuf::from(value);
    let home = || variable("HOME").map(|home| path(home).join(".local/state"));
    let usual = || Some(variable("XDG_STATE_HOME").map(path).or_else(home)?.join("apportion"));
    named.map(Path::to_owned).or_else(|| variable(VARIABLE).map(path)).or_else(usual)
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
