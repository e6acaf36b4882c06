//! The flags of agents that run work, and what `agent --check` tells.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use reqwest::Url;

use super::agent::AgentArgs;
use super::args::{Trust, parse_url};
use super::failure::Failure;
use super::up::{Join, host_name};
use crate::agent::HostFacts;
use crate::agent::run::{Ladder, LocalUsers, RunOptions, UserRules};
use crate::orchestrator::wire::Rung;

/// The spool of agents that the system starts.
const SPOOL: &str = "/var/lib/apportion-agent";

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
    fn rules(&self) -> UserRules {
        UserRules { min_uid: self.min_uid, allow_root: self.allow_root, users: self.users.clone() }
    }
}

/// Returns the options for the part of the agent that runs work.
pub fn options(args: &AgentArgs, node: String) -> RunOptions {
    let run = &args.run;
    RunOptions {
        orchestrator: run.orchestrator.clone().unwrap_or_else(|| args.url.clone()),
        authority: args.trust.ca.clone(),
        token_file: args.trust.token_file.clone(),
        node,
        spool: run.spool.clone(),
        users: run.rules(),
        limits: run.limits.map(Rung::from),
        allow_setuid: run.allow_setuid,
        max_processes: run.max_processes,
    }
}

/// The flags with what the join file in `file` says.
///
/// # Errors
///
/// If that is no such file, or the node has no name.
pub fn joined(args: &AgentArgs, file: &Path) -> Result<AgentArgs, Failure> {
    let joined = Join::read(file)?.unpack()?;
    let mut args = args.clone();
    args.url = joined.daemon;
    args.trust = Trust { token_file: Some(joined.agent_token), ca: Some(joined.authority) };
    args.run.orchestrator = Some(joined.orchestrator);
    // The daemon of `apportion up` expects a report at least this often.
    args.interval = args.interval.min(Duration::from_secs(5));
    args.run.run = !args.once && !args.run.check;
    if args.run.spool == Path::new(SPOOL) {
        // Machines may share the folder.
        let node = args.node.clone().unwrap_or_else(host_name);
        args.run.spool = joined.folder.join("nodes").join(node).join("spool");
    }
    Ok(args)
}

/// Describes for people how tasks would run on this node.
///
/// # Errors
///
/// If the agent's own user has no account.
pub fn check(args: &AgentRunArgs, node: &HostFacts) -> Result<String, String> {
    let users = LocalUsers::new(args.rules())?;
    let ladder = Ladder::probe(args.limits.map(Rung::from), users.is_root());
    let mut lines =
        vec![format!("{}: {} MB to offer; work may run here", node.name, node.memory.0)];
    lines.extend(ladder.lines());
    lines.push(match (users.only_user(), &args.users) {
        (Some(own), _) => format!("users   work runs as you ({own}) only: the agent is not root"),
        (None, Some(names)) => format!("users   work of {} runs, as its user", names.join(", ")),
        (None, None) => {
            let root = if args.allow_root { ", and of user 0" } else { "" };
            format!("users   work of users from number {} on runs, as its user{root}", args.min_uid)
        }
    });
    Ok(lines.join("\n"))
}
