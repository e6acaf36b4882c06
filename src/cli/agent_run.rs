//! Options of agents that run work, and the report of `agent --check`.

use std::path::Path;
use std::time::Duration;

use super::agent_args::{AgentArgs, AgentRunArgs, SPOOL};
use super::failure::Failure;
use super::remote::Trust;
use super::up::{Join, host_name};
use crate::agent::HostFacts;
use crate::agent::run::{Ladder, LocalUsers, RunOptions};
use crate::orchestrator::wire::Rung;

/// Returns the options for the part of the agent that runs work.
pub fn options(args: &AgentArgs, node: String) -> RunOptions {
    let run = &args.run;
    RunOptions {
        orchestrator: run.orchestrator.clone().unwrap_or_else(|| args.url.clone()),
        authority: args.trust.ca.clone(),
        token_file: args.trust.token_file.clone(),
        node,
        address: run.address,
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
