//! Arguments of the acts of administrators on nodes.

use clap::Args;
use reqwest::Url;

use super::remote::Remote;
use super::time_spec::WindowTimes;
use super::values::parse_url;

/// Takes nodes out of scheduling.
#[derive(Debug, Args)]
pub struct VaryOffArgs {
    /// Names, host lists or patterns, such as node[01-08,12] or 'r1*'
    #[arg(required = true, value_name = "HOSTLIST")]
    pub nodes: Vec<String>,
    /// The reason, shown with the nodes
    #[arg(long, short)]
    pub reason: String,
    /// Show the effects, and change nothing
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
    /// Show the effects, and change nothing
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
    /// Show the effects, and change nothing
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

/// Agreement to the effects of a reservation.
#[derive(Debug, Args)]
pub struct WindowFlags {
    /// Reserve the nodes although work that is never preempted is in the way; the work stays
    #[arg(long)]
    pub force: bool,
    /// Show the effects, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask before work is evicted, or stays in the way
    #[arg(long, short)]
    pub yes: bool,
}

/// Plans a maintenance of nodes.
#[derive(Debug, Args)]
pub struct MaintenanceArgs {
    /// Names, host lists or patterns, such as node[01-08,12] or 'r1*'
    #[arg(required = true, value_name = "HOSTLIST")]
    pub nodes: Vec<String>,
    /// Start and end.
    #[command(flatten)]
    pub times: WindowTimes,
    /// The reason, shown with the nodes
    #[arg(long, short)]
    pub reason: String,
    /// The name; without it, made of the start and the first node
    #[arg(long)]
    pub name: Option<String>,
    /// Agreement to the effects.
    #[command(flatten)]
    pub flags: WindowFlags,
    /// The daemon to ask.
    #[command(flatten)]
    pub remote: Remote,
}

pub(super) const MAINTENANCE_EXAMPLES: &str = "\
Examples:
  apportion node maintenance 'n[1-4]' --start 18:00 --for 2h --reason \"new disks\" --dry-run
  apportion node maintenance 'n[1-4]' --start 2026-12-01T18:00 --for 2h --reason \"new disks\" --name m1
  apportion node maintenance n7 --start now --for 30m --reason fan --yes

Fair-share work is evicted shortly before the start (`notice` in [scheduler]). Work that is never
preempted and ends too late is in the way: the command is refused, or with --force the work stays.
`apportion reservation list` shows maintenances, `apportion reservation delete` ends one.";
