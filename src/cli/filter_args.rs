//! Arguments that choose and sort jobs and nodes.

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};

use crate::api::wire::JobInfo;

/// Choice of jobs, and their order.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Which jobs")]
pub struct JobFilter {
    /// Only jobs of this user
    #[arg(long, short)]
    pub user: Option<String>,
    /// Only your own jobs
    #[arg(long, visible_alias = "mine", conflicts_with = "user")]
    pub me: bool,
    /// Only in this class
    #[arg(long, short)]
    pub class: Option<String>,
    /// Only jobs below their demand
    #[arg(long, short)]
    pub waiting: bool,
    /// Only in these states, such as running,waiting
    #[arg(long, short = 't', value_delimiter = ',', ignore_case = true,
        value_parser = PossibleValuesParser::new(JobInfo::STATES))]
    pub state: Vec<String>,
    /// Only jobs that wait for these reasons
    #[arg(long, value_delimiter = ',', hide_possible_values = true,
        value_parser = PossibleValuesParser::new(CODES))]
    pub reason: Vec<String>,
    /// Only of these kinds
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(KINDS))]
    pub kind: Vec<String>,
    /// Only with a process on these nodes: names, host lists or patterns
    #[arg(long, value_name = "HOSTLIST")]
    pub node: Vec<String>,
    /// Only these jobs
    #[arg(long, short, value_name = "JOB", value_delimiter = ',')]
    pub job: Vec<u64>,
    /// Names ascend, the largest figures come first; without it the oldest job does
    #[arg(long, value_enum, value_name = "BY")]
    pub sort: Option<JobOrder>,
    /// The other way round
    #[arg(long, short)]
    pub reverse: bool,
    /// Longest list
    #[arg(long, short = 'n', value_name = "N")]
    pub limit: Option<usize>,
}

/// Every word of a job's kind.
const KINDS: [&str; 4] = ["job", "service", "process", "reservation"];

/// Every code of a reason: of jobs that wait, and of jobs that are refused.
const CODES: [&str; 22] = [
    "completing",
    "doubling",
    "fair_share_used",
    "fragmented",
    "frozen",
    "impossible",
    "initialization_cap",
    "maximum",
    "memory_out_of_range",
    "next_cycle",
    "no_machine_up",
    "nothing_left",
    "over_allotment",
    "prediction",
    "preemptable_class",
    "quiet_stop",
    "spent",
    "too_dear",
    "too_late",
    "unknown_class",
    "user_not_allowed",
    "waiting_for_exits",
];

/// Sort key of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum JobOrder {
    /// Time since the submission.
    Age,
    /// Number.
    Job,
    /// User.
    User,
    /// Class.
    Class,
    /// Memory of a process.
    Memory,
    /// Processes of its demand.
    Wants,
    /// Held processes.
    Holds,
    /// State.
    State,
    /// Reason of the wait.
    Reason,
}

/// Sort key of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NodeOrder {
    /// Name.
    Node,
    /// Nodepool.
    Pool,
    /// State.
    State,
    /// Memory.
    Memory,
    /// Memory free of shares.
    Free,
    /// Memory in shares.
    Used,
}
