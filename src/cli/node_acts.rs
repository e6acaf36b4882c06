//! Acts of administrators on nodes: the arguments, and the acts that declare nodes dead or gone.

use clap::Args;
use reqwest::{Method, Url};

use super::args::{Remote, parse_url};
use super::client::DaemonClient;
use super::consent;
use super::failure::{Failure, FailureKind};
use super::node_names::spelled_out;
use super::nodes::{names, render_impact};
use super::output::{print, show};
use super::place::OrchestratorArgs;
use super::table::plain;
use crate::api::wire::{self, VaryAnswer};
use crate::orchestrator::wire::LostNode;

/// Takes nodes out of scheduling.
#[derive(Debug, Args)]
pub struct VaryOffArgs {
    /// Names, host lists or patterns, such as node[01-08,12] or 'r1*'
    #[arg(required = true, value_name = "HOSTLIST")]
    pub nodes: Vec<String>,
    /// The reason, shown with the nodes
    #[arg(long, short)]
    pub reason: String,
    /// Only say what would come of it
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask before work is evicted
    #[arg(long, short)]
    pub yes: bool,
    /// Yes, every node there is
    #[arg(long)]
    pub all: bool,
    /// The daemon to ask.
    #[command(flatten)]
    pub remote: Remote,
}

pub(super) const VARY_OFF_EXAMPLES: &str = "\
Examples:
  apportion node vary-off 'node[20-23]' --reason \"disk swap\" --dry-run    what would go?
  apportion node vary-off 'node[20-23]' --reason \"disk swap\"              asks before work goes
  apportion node vary-off 'node[20-23]' --reason \"disk swap\" --yes        for scripts

Quote host lists and patterns: the shell has its own idea of brackets and stars.";

pub(super) const VARY_ON_EXAMPLES: &str = "\
Examples:
  apportion node vary-on 'node[20-23]'
  apportion node vary-on 'node[20-23]' --dry-run";

/// Puts nodes back into scheduling.
#[derive(Debug, Args)]
pub struct VaryOnArgs {
    /// Names, host lists or patterns, such as node[01-08,12] or 'r1*'
    #[arg(required = true, value_name = "HOSTLIST")]
    pub nodes: Vec<String>,
    /// Only say what would come of it
    #[arg(long)]
    pub dry_run: bool,
    /// Accepted for scripts: this evicts nothing, and does not ask
    #[arg(long, short)]
    pub yes: bool,
    /// The daemon to ask.
    #[command(flatten)]
    pub remote: Remote,
}

/// Says that nodes are dead, or gone for good.
#[derive(Debug, Args)]
pub struct NodesGoneArgs {
    /// Names, host lists or patterns, such as node[01-08,12] or 'r1*'
    #[arg(required = true, value_name = "HOSTLIST")]
    pub nodes: Vec<String>,
    /// The evidence, for the audit log
    #[arg(long, short, default_value = "said on the command line")]
    pub reason: String,
    /// Only say what would come of it
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask before work is given up
    #[arg(long, short)]
    pub yes: bool,
    /// The daemon to ask.
    #[command(flatten)]
    pub remote: Remote,
}

/// Says that nodes are dead, to the orchestrator of campaigns too.
#[derive(Debug, Args)]
pub struct NodesLost {
    /// The nodes, and the reason.
    #[command(flatten)]
    pub gone: NodesGoneArgs,
    /// The address of the orchestrator of campaigns; without it, the orchestrator of `apportion up`
    #[arg(long, value_name = "URL", env = "APPORTION_ORCHESTRATOR", value_parser = parse_url)]
    pub orchestrator: Option<Url>,
}

pub(super) const LOST_EXAMPLES: &str = "\
Examples:
  apportion node lost 'node[20-23]' --dry-run               what would be given up?
  apportion node lost 'node[20-23]' --reason \"PSU burnt\"    asks before work is given up
  apportion node lost 'node[20-23]' --yes                   for scripts

For nodes that fell silent with many others and are really dead. Everything on them is given up, fixed work
and services too; reservations stay. A node that reports is refused: vary it off instead. The orchestrator of
campaigns is told too, if one runs: tasks there are queued again at once, without waiting for the lease.";

pub(super) const FORGET_EXAMPLES: &str = "\
Examples:
  apportion node forget node20
  apportion node forget 'node[20-23]' --reason \"sold\"

A node that reports again is a new node. Refused while anything is booked there.";

/// Says that nodes are dead.
///
/// # Errors
///
/// If the daemon cannot be reached or refuses, or work would be given up and that is not agreed to.
pub async fn lost(args: &NodesLost) -> Result<(), Failure> {
    let NodesLost { gone: args, orchestrator } = args;
    let client = DaemonClient::new(&args.remote)?;
    let nodes = spelled_out(&client, &args.nodes).await?;
    let request = |dry_run| request_of(args, &nodes, dry_run);
    let path = &["v1", "nodes", "lost"];
    if !args.dry_run && !args.yes {
        let preview: VaryAnswer = client.post(path, &request(true)).await?;
        if 0 < preview.impact.shares_evicted {
            consent::ask(&preview, args.remote.json, render_lost)?;
        }
    }
    let answer: VaryAnswer = client.post(path, &request(args.dry_run)).await?;
    show(&answer, args.remote.json, render_lost)?;
    if args.dry_run {
        return Ok(());
    }
    tell_orchestrator(args, orchestrator.as_ref(), &answer).await
}

/// Tells the orchestrator of campaigns. Where none was named and none runs, none has to know.
async fn tell_orchestrator(
    args: &NodesGoneArgs,
    named: Option<&Url>,
    answer: &VaryAnswer,
) -> Result<(), Failure> {
    let place = OrchestratorArgs {
        orchestrator: named.cloned(),
        url: args.remote.url.clone(),
        json: args.remote.json,
        trust: args.remote.trust.clone(),
    };
    let orchestrator = place.open()?;
    for node in answer.changed.iter().chain(&answer.unchanged) {
        let body = LostNode { node: node.clone(), reason: args.reason.clone() };
        match orchestrator.act(Method::POST, &["v1", "slots", "lost"], &body).await {
            Ok(()) if args.remote.json => {}
            Ok(()) => print(&format!("{}: its tasks are queued again", plain(node)))?,
            Err(failure) if named.is_none() && failure.exit == FailureKind::NotFound => {
                return Ok(());
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Forgets nodes.
///
/// # Errors
///
/// If the daemon cannot be reached or refuses.
pub async fn forget(args: &NodesGoneArgs) -> Result<(), Failure> {
    let client = DaemonClient::new(&args.remote)?;
    let nodes = spelled_out(&client, &args.nodes).await?;
    let request = request_of(args, &nodes, args.dry_run);
    let answer: VaryAnswer = client.post(&["v1", "nodes", "forget"], &request).await?;
    Ok(show(&answer, args.remote.json, |answer| {
        let done = if answer.dry_run { "would be forgotten" } else { "forgotten" };
        format!("{} {done}", names(&answer.changed))
    })?)
}

fn request_of(args: &NodesGoneArgs, nodes: &[String], dry_run: bool) -> wire::NodesGone {
    wire::NodesGone { nodes: nodes.to_vec(), reason: args.reason.clone(), dry_run }
}

fn render_lost(answer: &VaryAnswer) -> String {
    let mut lines = Vec::new();
    if !answer.changed.is_empty() {
        let done = if answer.dry_run { "would be given up" } else { "given up" };
        lines.push(format!("{} {done} as dead", names(&answer.changed)));
    }
    if !answer.unchanged.is_empty() {
        lines.push(format!("{} dead already, and nothing held back", names(&answer.unchanged)));
    }
    lines.extend(render_impact(answer));
    lines.extend(answer.notes.iter().map(|note| format!("note: {}", plain(note))));
    lines.join("\n")
}
