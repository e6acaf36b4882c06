//! Configuration by administrators: the file `apportion.toml`, with the environment on top.
//!
//! [`load`] reads and checks the file, so a [`Config`] is valid as it is. A file with any mistake
//! is refused as a whole, and all mistakes are reported at once.
//!
//! ```text
//! text ─ toml ─► section + value ─► file ─► check (pools, classes) ─► Config
//!                environment ─┘      └───────── problem ◄───┘
//! ```
//!
//! The loader records each setting that it reads. The record yields the [`Listing`] of settings in
//! effect with their origin, and the [`schema()`] for editors. `config/apportion.toml` is the
//! reference: it has every setting, and a test loads it. [`ducc`] translates the files of
//! UIMA-DUCC.

mod access;
mod admission;
mod check;
mod civil;
mod classes;
mod descent;
pub mod ducc;
mod environment;
mod file;
mod gangs;
mod grid;
mod hours;
mod listed;
mod listing;
mod orchestrator;
mod pools;
mod problem;
mod schema;
mod section;
mod setting;
mod shape;
mod syntax;
mod tags;
#[cfg(test)]
mod tests;
mod urgent;
mod value;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeTable;

use crate::model::{Mebibytes, Quantum, Topology};

pub use access::Access;
use admission::AdmissionEntry;
pub use admission::AdmissionSettings;
pub use civil::{OpenSpan, closed_until, open_spans};
use environment::Overrides;
pub use environment::{Flag, NotText};
use file::{LARGEST, UserEntry};
pub use grid::{ClusterSettings, GridSettings};
pub use hours::ClassCalendar;
pub use listing::{Change, Listing, Origin, Row};
pub use orchestrator::{CampaignRetention, OrchestratorSettings};
pub use problem::{Code, ConfigProblem, Problems};
pub use schema::{SAMPLE, schema};
use section::Reading;
use value::Written;

/// A complete, valid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Settings of the daemon.
    pub daemon: DaemonSettings,
    /// The orchestrator in the daemon's process.
    pub orchestrator: OrchestratorSettings,
    /// The router, and the clusters beside the daemon's own.
    pub grid: GridSettings,
    /// Nodepools, classes, allotments and the scheduler's settings.
    pub topology: Topology,
    /// Hours of the classes. Replays need no time zones, so the scheduler does not get these rules.
    pub calendar: ClassCalendar,
    /// Every setting in effect, with its origin.
    pub listing: Listing,
    /// The file that it was made from.
    pub file: WrittenFile,
}

/// A configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// Path of the file, or another name for it.
    pub name: String,
    /// Content of the file.
    pub text: String,
}

/// Sources of the configuration: a file, the environment on top of it, and flags on top of both.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    file: Option<PathBuf>,
    overrides: Overrides,
}

/// Settings of the daemon, `[daemon]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSettings {
    /// The address of the API. A loopback address, unless there are tokens and TLS.
    pub listen: SocketAddr,
    /// The daemon's `SQLite` file; relative to the working directory.
    pub state: PathBuf,
    /// The least time between the starts of two cycles.
    pub cycle_period: Duration,
    /// Interval between an agent's heartbeats; the unit of `node_stability` and `init_stability`.
    pub heartbeat_interval: Duration,
    /// Heartbeat intervals between a start and the first cycle. 0, the default, is right for a
    /// restart, since the store knows the nodes. A higher value lets the nodes of a new cluster
    /// report before the scheduler places jobs on the first of them.
    pub init_stability: u32,
    /// Cycles from an audited schedule to the next. At least 1.
    pub audit_every: u64,
    /// Retention of the journal.
    pub journal: Journal,
    /// Limits of requests.
    pub limits: Limits,
    /// Access to the daemon.
    pub access: Access,
}

impl Default for DaemonSettings {
    fn default() -> DaemonSettings {
        DaemonSettings {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7070)),
            state: PathBuf::from("apportion.db"),
            cycle_period: Duration::from_secs(10),
            heartbeat_interval: Duration::from_secs(30),
            init_stability: 0,
            audit_every: 16,
            journal: Journal::default(),
            limits: Limits::default(),
            access: Access::default(),
        }
    }
}

/// Retention of past cycles, `[daemon.journal]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Journal {
    /// Cycles that can be replayed, and whose events can be followed. At least 1.
    pub cycles: u64,
    /// Cycles whose schedules are kept as they were published. At least 1.
    pub schedules: u64,
    /// Planned cycles from a checkpoint to the next. At least 1.
    pub books_every: u64,
}

impl Default for Journal {
    fn default() -> Journal {
        Journal { cycles: 10_000, schedules: 100, books_every: 100 }
    }
}

/// Limits of requests and connections, `[daemon.limits]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Nodes, configured or reporting.
    pub max_nodes: usize,
    /// Jobs in a publication.
    pub max_jobs: usize,
    /// Processes of a single job in a publication.
    pub max_processes_per_job: usize,
    /// Bytes of a name or any other string.
    pub max_string: usize,
    /// Publications without a process after which its space is freed, at the earliest after
    /// `absent_time`.
    pub absent_publications: u32,
    /// Shortest time that absent processes keep their space.
    pub absent_time: Duration,
    /// Connections on TCP.
    pub connections: usize,
    /// Connections on TCP from a single address.
    pub connections_per_peer: usize,
    /// Requests a second with a reader's token from a single address; 0: no limit.
    pub reader_rate: u32,
    /// Requests a second of an agent; 0: no limit.
    pub agent_rate: u32,
    /// Requests a second of an orchestrator; 0: no limit.
    pub orchestrator_rate: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes: 50 << 20,
            max_nodes: 20_000,
            max_jobs: 200_000,
            max_processes_per_job: 100_000,
            max_string: 256,
            absent_publications: 3,
            absent_time: Duration::from_mins(1),
            connections: 4096,
            connections_per_peer: 512,
            reader_rate: 100,
            agent_rate: 1000,
            orchestrator_rate: 100,
        }
    }
}

/// Reason why the configuration cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ConfigError {
    #[error("C001: there is no file {}", path.display())]
    NotFound { path: PathBuf },
    #[error("C002: cannot read {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("C003: {} is a directory; name the file in it", path.display())]
    IsDirectory { path: PathBuf },
    #[error("C004: {} is not UTF-8: byte {offset} begins no character", path.display())]
    NotUtf8 { path: PathBuf, offset: usize },
    #[error("the daemon was started without a configuration file")]
    NoFile,
    #[error("cannot read the environment")]
    Environment(#[source] NotText),
    #[error("{0}")]
    Problems(Problems),
}

impl Sources {
    /// The file at `path`, the `APPORTION__…` variables of the environment, and `flags`.
    ///
    /// # Errors
    ///
    /// If a variable cannot be read.
    pub fn new(path: &Path, flags: &[Flag]) -> Result<Sources, ConfigError> {
        let overrides = Overrides::of_process(flags).map_err(ConfigError::Environment)?;
        Ok(Sources { file: Some(path.to_owned()), overrides })
    }

    /// Path of the file. `None`: no file was named.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Reads and checks it all.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or with all its problems.
    pub fn load(&self) -> Result<Config, ConfigError> {
        let Some(path) = &self.file else { return Err(ConfigError::NoFile) };
        let text = read(path)?;
        self.parse(&path.display().to_string(), &text).map_err(ConfigError::Problems)
    }

    /// Checks `text`, which messages call `name`, in place of the file.
    ///
    /// # Errors
    ///
    /// With all problems of the text.
    pub fn parse(&self, name: &str, text: &str) -> Result<Config, Problems> {
        parse_over(name, text, self.overrides.clone())
    }
}

/// Reads the file at `path`, puts the `APPORTION__…` variables of the environment on top, and
/// checks the result.
///
/// # Errors
///
/// If the file or a variable cannot be read, or with all problems.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    Sources::new(path, &[])?.load()
}

/// Checks `text`, which messages call `name`. Disregards the environment.
///
/// # Errors
///
/// With all problems of the text.
pub fn parse(name: &str, text: &str) -> Result<Config, Problems> {
    parse_over(name, text, Overrides::default())
}

/// A quantum, as it is written in a file: "15GB".
///
/// # Errors
///
/// With the mistake and the remedy.
pub fn quantum(text: &str) -> Result<Quantum, String> {
    Quantum::new(size(text)?).ok_or_else(|| "a quantum cannot be 0; write 15GB".to_owned())
}

/// A size as it is written on a command line: "15GB", as in a file.
///
/// # Errors
///
/// With the mistake and the remedy.
pub fn size(text: &str) -> Result<Mebibytes, String> {
    let read = value::size(Mebibytes(0)..=LARGEST).read(Written::Text(text));
    read.map_err(|fault| format!("{}; {}", fault.message, fault.remedy))
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let path_buf = || path.to_path_buf();
    let bytes = std::fs::read(path).map_err(|source| {
        if source.kind() == io::ErrorKind::NotFound {
            ConfigError::NotFound { path: path_buf() }
        } else if source.kind() == io::ErrorKind::IsADirectory {
            ConfigError::IsDirectory { path: path_buf() }
        } else {
            ConfigError::Unreadable { path: path_buf(), source }
        }
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        ConfigError::NotUtf8 { path: path_buf(), offset }
    })
}

fn parse_over(name: &str, text: &str, overrides: Overrides) -> Result<Config, Problems> {
    let problems = Problems::none(name, text);
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        // A partly parsed file would only raise problems that the file does not have.
        return Err(syntax::problems(&errors, document.get_ref(), problems));
    }
    let mut reading = Reading::new(overrides, problems);
    let file = file::read(document.get_ref(), &mut reading);
    let Reading { mut listing, mut problems, .. } = reading;
    let rules = file.admission.iter().map(AdmissionEntry::settings).collect();
    let orchestrator = OrchestratorSettings { rules, ..file.orchestrator.clone() };
    let weight = |user: &UserEntry| (user.name.value.clone(), user.grid_weight.clone().or(1));
    let weights = file.users.iter().map(weight).collect();
    let grid = GridSettings { weights, ..file.grid.clone() };
    let (daemon, topology, calendar) = check::check(file, &mut listing, &mut problems);
    if !problems.is_empty() {
        return Err(problems.sorted());
    }
    let file = WrittenFile { name: name.to_owned(), text: text.to_owned() };
    Ok(Config { daemon, orchestrator, grid, topology, calendar, listing, file })
}
