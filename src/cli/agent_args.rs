//! Arguments of the agent, and of its part that runs work.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use reqwest::Url;

use super::logging::Logging;
use super::remote::Trust;
use super::values::{parse_span, parse_url};
use crate::agent::run::UserRules;
use crate::config;
use crate::model::{Mebibytes, is_tag_key, is_tag_value};
use crate::orchestrator::wire::Rung;

/// The spool of agents that the system starts.
pub(super) const SPOOL: &str = "/var/lib/apportion-agent";

/// Reports this node.
#[derive(Clone, Debug, Args)]
pub struct AgentArgs {
    /// The daemon's address
    #[arg(
        long,
        env = "APPORTION_URL",
        default_value = "http://127.0.0.1:7070",
        value_parser = parse_url
    )]
    pub url: Url,
    /// The node's name; without it, the host name up to the first dot
    #[arg(long, value_name = "NAME", env = "APPORTION_NODE")]
    pub node: Option<String>,
    /// Time between reports; the daemon counts by its own interval, which should be no shorter
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_interval)]
    pub interval: Duration,
    /// Offer this much memory instead of all there is
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<Mebibytes>,
    /// Offer so much less, for the system itself
    #[arg(long, value_name = "SIZE", default_value = "0MB", value_parser = parse_size)]
    pub reserve: Mebibytes,
    /// While this file exists, ask for no new work; what is there stays
    #[arg(long, value_name = "FILE")]
    pub quiesce_file: Option<PathBuf>,
    /// Tag of this node, as gpu=a100; may be given again. Keys count that the daemon's
    /// `reported_tags` lists.
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag)]
    pub tags: Vec<(String, String)>,
    /// Join with the file that `apportion up --listen` wrote: as --run, with its addresses, authority and
    /// token, and a spool of this node below the folder for state
    #[arg(long, value_name = "FILE")]
    pub join: Option<PathBuf>,
    /// With --join: write a unit for the user's systemd that does the same, tell how it is started, and end
    #[arg(long, requires = "join", conflicts_with_all = ["once", "check"])]
    pub install_user_unit: bool,
    /// The agent's token and the authority it trusts. Every heartbeat reads the token anew.
    #[command(flatten)]
    pub trust: Trust,
    /// Report once and end
    #[arg(long)]
    pub once: bool,
    /// With --once, show what was said in JSON
    #[arg(long, requires = "once")]
    pub json: bool,
    /// Settings of the part that runs work.
    #[command(flatten)]
    pub run: AgentRunArgs,
    /// The log.
    #[command(flatten)]
    pub logging: Logging,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_span(text)?;
    let allowed = Duration::from_millis(10)..=Duration::from_hours(1);
    if allowed.contains(&interval) { Ok(interval) } else { Err("10ms to 1h".to_owned()) }
}

fn parse_size(text: &str) -> Result<Mebibytes, String> {
    config::size(text)
}

/// Flags of an agent that runs work. Without `--run` the agent reports only.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct AgentRunArgs {
    /// Run work that the orchestrator orders
    #[arg(long)]
    pub run: bool,
    /// With --run: where the orchestrator listens; without it, where the daemon does
    #[arg(long, value_name = "URL", env = "APPORTION_ORCHESTRATOR", value_parser = parse_url)]
    pub orchestrator: Option<Url>,
    /// With --run: the address at which other nodes reach this node; without it, the address from which
    /// it reaches the orchestrator
    #[arg(long, value_name = "IP")]
    pub address: Option<IpAddr>,
    /// With --run: the folder for slots and output of tasks
    #[arg(long, value_name = "DIR", default_value = SPOOL)]
    pub spool: PathBuf,
    /// With --run: users whose work may run; without it, all from --min-uid on
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub users: Option<Vec<String>>,
    /// With --run: users with lower numbers run no work
    #[arg(long, value_name = "UID", default_value_t = 1000)]
    pub min_uid: u32,
    /// With --run: work of user 0 may run
    #[arg(long)]
    pub allow_root: bool,
    /// With --run: programs such as sudo and ping keep their rights in tasks
    #[arg(long)]
    pub allow_setuid: bool,
    /// With --run: the most processes and threads of a slot
    #[arg(long, value_name = "N", default_value_t = 4096)]
    #[arg(value_parser = clap::value_parser!(u32).range(16..))]
    pub max_processes: u32,
    /// With --run: enforce limits in this way at best, instead of the best there is
    #[arg(long, value_enum, value_name = "WAY")]
    pub limits: Option<LimitsChoice>,
    /// Tell what this node offers, how it would limit memory and whose work it would run; then end
    #[arg(long, conflicts_with_all = ["once", "run"])]
    pub check: bool,
}

/// A way to enforce limits of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LimitsChoice {
    /// Transient services of systemd, started by root.
    Systemd,
    /// Transient services of the user's own manager.
    SystemdUser,
    /// Cgroups of version 2.
    Cgroup2,
    /// Cgroups of version 1.
    Cgroup1,
    /// Samples by the slot: no limit by the kernel.
    Watched,
}

impl From<LimitsChoice> for Rung {
    fn from(limits: LimitsChoice) -> Rung {
        match limits {
            LimitsChoice::Systemd => Rung::Systemd,
            LimitsChoice::SystemdUser => Rung::SystemdUser,
            LimitsChoice::Cgroup2 => Rung::Cgroup2,
            LimitsChoice::Cgroup1 => Rung::Cgroup1,
            LimitsChoice::Watched => Rung::Watched,
        }
    }
}

impl AgentRunArgs {
    pub(super) fn rules(&self) -> UserRules {
        UserRules { min_uid: self.min_uid, allow_root: self.allow_root, users: self.users.clone() }
    }
}

/// Reads `key=value`.
fn tag(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, value)| is_tag_key(key) && is_tag_value(value));
    let (key, value) = pair.ok_or_else(|| {
        "write KEY=VALUE, the key of a-z, 0-9, `_`, `.` and `-`, as gpu=a100".to_owned()
    })?;
    Ok((key.to_owned(), value.to_owned()))
}
