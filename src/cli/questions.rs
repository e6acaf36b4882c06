//! Arguments of the commands that ask a daemon.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

pub(super) use super::event_args::EVENTS_EXAMPLES;
pub use super::event_args::{EventFormat, EventKind, Events, Since};
pub use super::filter_args::{JobFilter, JobOrder, NodeOrder};
use super::node_act_args::{
    FORGET_EXAMPLES, LOST_EXAMPLES, MAINTENANCE_EXAMPLES, MaintenanceArgs, VARY_OFF_EXAMPLES,
    VARY_ON_EXAMPLES,
};
pub use super::node_act_args::{NodesGoneArgs, NodesLost, VaryOffArgs, VaryOnArgs};
use super::remote::Remote;
use super::values::parse_job;

/// A question to the daemon, and how to show its answer.
#[derive(Clone, Debug, Args)]
pub struct QueryFlags {
    /// The daemon to ask.
    #[command(flatten)]
    pub remote: Remote,
    /// The form of the answer
    #[arg(long, short, value_enum, value_name = "HOW", conflicts_with = "json")]
    pub output: Option<Format>,
    /// Leave the headings of columns out
    #[arg(long)]
    pub no_header: bool,
    /// Stay, and show the answer anew when something has come about
    #[arg(long)]
    pub watch: bool,
}

impl QueryFlags {
    /// Returns the form of the answer, from either flag.
    pub fn format(&self) -> Format {
        match self.output {
            Some(format) => format,
            None if self.remote.json => Format::Json,
            None => Format::Table,
        }
    }
}

/// Form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// In columns; on a terminal cut to its width
    Table,
    /// In more columns, and nothing cut or folded
    Wide,
    /// In JSON, as the API gives it
    Json,
    /// JSON, an entry a line
    Jsonl,
    /// In YAML, as the API gives it
    Yaml,
    /// Comma-separated values, an entry a line
    Csv,
    /// The name or number of each entry, and nothing else
    Name,
}

pub(super) const NODES_EXAMPLES: &str = "\
Examples:
  apportion nodes                       alike ones in one line
  apportion nodes 'node[01-20]' -o wide one line each, and more of each
  apportion nodes 'r1*' --sort free     the most free memory first
  apportion nodes --state dead --no-header
  apportion nodes --summary
  apportion nodes -o jsonl | jq 'select(.free == 0) | .name'
  apportion nodes --watch               again whenever something has come about";

/// Lists nodes.
#[derive(Debug, Args)]
pub struct NodeListArgs {
    /// Only these: names, host lists or patterns, such as node[01-08,12] or 'r1*'
    #[arg(value_name = "HOSTLIST")]
    pub nodes: Vec<String>,
    /// Only nodes in this state
    #[arg(long, short, value_enum)]
    pub state: Option<StateFilter>,
    /// Only nodes in this nodepool
    #[arg(long, short)]
    pub pool: Option<String>,
    /// Only nodes with a process of these jobs
    #[arg(long, short, value_name = "JOB", value_delimiter = ',')]
    pub job: Vec<u64>,
    /// Count nodes by nodepool, state and size, instead of listing them
    #[arg(long)]
    pub summary: bool,
    /// Names ascend, the largest figures come first
    #[arg(long, value_enum, value_name = "BY")]
    pub sort: Option<NodeOrder>,
    /// The other way round
    #[arg(long, short)]
    pub reverse: bool,
    /// At most so many
    #[arg(long, short = 'n', value_name = "N")]
    pub limit: Option<usize>,
    /// The daemon to ask, and the form of the answer.
    #[command(flatten)]
    pub asking: QueryFlags,
}

/// A state that nodes are asked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StateFilter {
    /// Getting work.
    Up,
    /// No heartbeat since the daemon started.
    Awaited,
    /// Silent.
    Dead,
    /// Taken out by an administrator.
    VariedOff,
    /// Wanting no new work.
    Quiesced,
    /// Holding shares that configuration no longer allows.
    Blacklisted,
    /// In maintenance, or soon.
    Maintenance,
}

/// An action on nodes.
#[derive(Debug, Subcommand)]
pub enum NodeAction {
    /// List nodes: the same as `apportion nodes`
    #[command(visible_alias = "ls", after_help = NODES_EXAMPLES)]
    List(NodeListArgs),
    /// Show nodes in full: state, space, every share
    #[command(after_help = NODE_SHOW_EXAMPLES)]
    Show(NodeShow),
    /// Take nodes out of scheduling; fair-share work on them is evicted, other work stays
    #[command(after_help = VARY_OFF_EXAMPLES)]
    VaryOff(VaryOffArgs),
    /// Put nodes back into scheduling
    #[command(after_help = VARY_ON_EXAMPLES)]
    VaryOn(VaryOnArgs),
    /// Plan a maintenance: no work is on the nodes for a span of time
    #[command(after_help = MAINTENANCE_EXAMPLES)]
    Maintenance(MaintenanceArgs),
    /// Say that silent nodes are dead: their work is given up and starts elsewhere
    #[command(after_help = LOST_EXAMPLES)]
    Lost(NodesLost),
    /// Forget nodes that are gone for good: they leave lists, metrics and alerts
    #[command(after_help = FORGET_EXAMPLES)]
    Forget(NodesGoneArgs),
}

const NODE_SHOW_EXAMPLES: &str = "\
Examples:
  apportion node show node07
  apportion node show 'node[07-09]' --json | jq '.nodes[].shares'";

/// Shows nodes.
#[derive(Debug, Args)]
pub struct NodeShow {
    /// Names, host lists or patterns, such as node[01-08,12] or 'r1*'
    #[arg(required = true, value_name = "HOSTLIST")]
    pub nodes: Vec<String>,
    /// The daemon to ask, and the form of the answer.
    #[command(flatten)]
    pub asking: QueryFlags,
}

/// Lists work.
#[derive(Debug, Args)]
pub struct QueueArgs {
    /// Filter and order of the jobs.
    #[command(flatten)]
    pub filter: JobFilter,
    /// Count what waits by reason, instead of listing it
    #[arg(long, short)]
    pub summary: bool,
    /// The daemon to ask, and the form of the answer.
    #[command(flatten)]
    pub asking: QueryFlags,
}

pub(super) const QUEUE_EXAMPLES: &str = "\
Examples:
  apportion queue                                everything, oldest first
  apportion queue --waiting --user alice         what has less than it wants, and why
  apportion queue --state waiting --sort memory  the largest processes first
  apportion queue --node 'r1*' --me              your own jobs with processes on these nodes
  apportion queue --summary                      for which reasons, and what would help
  apportion queue -o jsonl | jq 'select(.sums.held == 0) | .id'";

/// An action on a job.
#[derive(Debug, Subcommand)]
pub enum JobAction {
    /// List work: the same as `apportion queue`
    #[command(visible_alias = "ls", after_help = QUEUE_EXAMPLES)]
    List(QueueArgs),
    /// Show one job: its request, its demand and holdings, share by share
    #[command(after_help = JOB_SHOW_EXAMPLES)]
    Show(JobShow),
    /// Explain why it has what it has: the same as `apportion why`
    #[command(visible_alias = "explain", after_help = WHY_EXAMPLES)]
    Why(WhyArgs),
}

const JOB_SHOW_EXAMPLES: &str = "\
Examples:
  apportion job show 1007
  apportion job show 1007 --json | jq '.shares[] | .node'";

/// Shows jobs.
#[derive(Debug, Args)]
pub struct JobShow {
    /// The numbers of the jobs
    #[arg(required = true, value_name = "JOB", value_parser = parse_job)]
    pub jobs: Vec<u64>,
    /// The daemon to ask, and the form of the answer.
    #[command(flatten)]
    pub asking: QueryFlags,
}

/// Explains jobs.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// The numbers of the jobs; without a number, the job that waits longest or lacks most
    #[arg(value_name = "JOB", value_parser = parse_job)]
    pub jobs: Vec<u64>,
    /// Only the sentence, and what would unblock it
    #[arg(long, short, conflicts_with_all = ["reasons", "nodes"])]
    pub sentence: bool,
    /// The arithmetic of the fair share too, and nodes counted by reason; this is usual
    #[arg(long, short)]
    pub reasons: bool,
    /// Every node too, each with its reason
    #[arg(long, short)]
    pub nodes: bool,
    /// The daemon to ask, and the form of the answer.
    #[command(flatten)]
    pub asking: QueryFlags,
}

pub(super) const WHY_EXAMPLES: &str = "\
Examples:
  apportion why 1007               the sentence, what would help, and the arithmetic
  apportion why                    the same of the job that waits longest or lacks most
  apportion why 1007 1009          of each of these
  apportion why 1007 --sentence    two lines
  apportion why 1007 --nodes       and every node, with its verdict
  apportion why 1007 --watch
  apportion why 1007 --json | jq .unblock";

/// An action on classes.
#[derive(Debug, Subcommand)]
pub enum ClassAction {
    /// List classes: the same as `apportion classes`
    #[command(visible_alias = "ls", after_help = CLASSES_EXAMPLES)]
    List(ClassListArgs),
    /// Show one class: its rules, and its users with fair share and holdings
    #[command(after_help = CLASS_SHOW_EXAMPLES)]
    Show(ClassShow),
}

pub(super) const CLASSES_EXAMPLES: &str = "\
Examples:
  apportion classes
  apportion classes -o jsonl | jq '{name, deserved: .account.deserved, held: .account.held}'";

const CLASS_SHOW_EXAMPLES: &str = "\
Examples:
  apportion class show normal";

/// Lists classes.
#[derive(Debug, Args)]
pub struct ClassListArgs {
    /// The daemon to ask, and the form of the answer.
    #[command(flatten)]
    pub asking: QueryFlags,
}

/// Shows a class.
#[derive(Debug, Args)]
pub struct ClassShow {
    /// The class's name
    #[arg(value_name = "CLASS")]
    pub class: String,
    /// The daemon to ask, and the form of the answer.
    #[command(flatten)]
    pub asking: QueryFlags,
}

/// An action on users.
#[derive(Debug, Subcommand)]
pub enum UserAction {
    /// List users: the same as `apportion users`
    #[command(visible_alias = "ls", after_help = USERS_EXAMPLES)]
    List(UserListArgs),
    /// Show one user: fair share, allotment, accounts by class, and jobs
    #[command(after_help = USER_SHOW_EXAMPLES)]
    Show(UserShow),
}

pub(super) const USERS_EXAMPLES: &str = "\
Examples:
  apportion users
  apportion users -o jsonl | jq 'select(.jobs_without_shares > 0) | .user'";

const USER_SHOW_EXAMPLES: &str = "\
Examples:
  apportion user show alice";

/// Lists users.
#[derive(Debug, Args)]
pub struct UserListArgs {
    /// The daemon to ask, and the form of the answer.
    #[command(flatten)]
    pub asking: QueryFlags,
}

/// Shows a user.
#[derive(Debug, Args)]
pub struct UserShow {
    /// The user's name
    #[arg(value_name = "USER")]
    pub user: String,
    /// The daemon to ask, and the form of the answer.
    #[command(flatten)]
    pub asking: QueryFlags,
}

pub(super) const LOAD_EXAMPLES: &str = "\
Examples:
  apportion load
  apportion load --json | jq '.unmet[] | select(.feasible)'    what more nodes would be good for";

/// Shows demand and supply.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// The daemon to ask, and the form of the answer.
    #[command(flatten)]
    pub asking: QueryFlags,
}

pub(super) const OCCUPANCY_EXAMPLES: &str = "\
Examples:
  apportion occupancy
  apportion occupancy 'node[01-04]' -o wide";

/// Shows who is where.
#[derive(Debug, Args)]
pub struct OccupancyArgs {
    /// Only these: names, host lists or patterns, such as node[01-08,12] or 'r1*'
    #[arg(value_name = "HOSTLIST")]
    pub nodes: Vec<String>,
    /// The daemon to ask, and the form of the answer.
    #[command(flatten)]
    pub asking: QueryFlags,
}

pub(super) const DIAG_EXAMPLES: &str = "\
Examples:
  apportion diag
  apportion diag --json | jq .audit_findings";

/// Tells how the daemon is.
#[derive(Debug, Args)]
pub struct Diag {
    /// The daemon to ask, and the form of the answer.
    #[command(flatten)]
    pub asking: QueryFlags,
}

pub(super) const TOP_EXAMPLES: &str = "\
Examples:
  apportion top

Keys: 1 to 4 or Tab for overview, users, queue, nodes; arrows, Page Up and Page Down to scroll; w for
only what waits; q or Ctrl-C to end. Colours are left out where NO_COLOR is set.";

/// Watches the cluster.
#[derive(Debug, Args)]
pub struct Top {
    /// The daemon to ask.
    #[command(flatten)]
    pub remote: Remote,
}

pub(super) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  apportion completions bash > ~/.local/share/bash-completion/completions/apportion
  apportion completions zsh > ~/.zfunc/_apportion
  apportion completions fish > ~/.config/fish/completions/apportion.fish

The shell asks this program at each Tab, which names the jobs, nodes, classes and users of the daemon that
APPORTION_URL names, or of `apportion up`. After an upgrade, write the file anew.";

/// Prints completions.
#[derive(Debug, Args)]
pub struct Completions {
    /// For which shell
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

pub(super) const MAN_EXAMPLES: &str = "\
Examples:
  apportion man | man -l -
  apportion man --out ~/.local/share/man/man1";

/// Makes manual pages.
#[derive(Debug, Args)]
pub struct Man {
    /// Write the page of every command into this folder, which is made if there is none
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Arguments of `vary_off` and `vary_on` of UIMA-DUCC.
#[derive(Debug, Args)]
pub struct ShimVary {
    /// Names of nodes, in full or without their domain; host lists are taken too
    #[arg(required = true, value_name = "NODE")]
    pub nodes: Vec<String>,
    /// The reason, shown with the nodes
    #[arg(long, short, default_value = "by vary_off")]
    pub reason: String,
    /// The daemon to ask.
    #[command(flatten)]
    pub remote: Remote,
}
