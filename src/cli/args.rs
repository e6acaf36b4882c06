//! The command line as clap reads it, and as its help teaches it.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use super::agent_args::AgentArgs;
pub use super::audit::AuditAction;
pub use super::bench::args::Bench;
pub use super::config::args::{ConfigAction, SetFlags};
pub use super::joblog::args::JobLogArgs;
use super::logging::Logging;
pub use super::orchestrator::OrchestratorAction;
pub use super::publication::PublicationAction;
pub use super::questions::*;
pub use super::slot::SlotArgs;
pub use super::token::TokenAction;
use super::values::{parse_address, parse_job, parse_span};
use crate::sim::survey::scale::{FEWEST_CYCLES, ScaleSize};

const SIMULATE_EXAMPLES: &str = "Examples:
  apportion simulate --recorded scenario.json
  apportion simulate --systemtest mega-24-hrs --draws draws.json --variant mixed --report json
  apportion simulate --survey 300 --seed 1 --scenarios clusters --json
  apportion simulate --scale 1000x1000 --seed 1
  apportion simulate --swf my-cluster.swf.gz --node-memory 128GB --node-cpus 32
  apportion simulate --sacct jobs.txt --config apportion.toml --node-memory 256GB --node-cpus 64
  apportion simulate --swf my-cluster.swf --policy apportion,easy --report html > replay.html

To try a log of your own cluster, write it with
  sacct --allusers --allocations --parsable2 --starttime 2026-01-01 --endtime 2026-04-01 \\
    --format=JobID,User,Partition,Submit,ElapsedRaw,TimelimitRaw,ReqCPUS,NNodes,ReqMem,State \\
    > jobs.txt
docs/simulation.md tells how its rows become jobs.";

/// Share a cluster's memory fairly, without thrashing, and say why.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = EXAMPLES, subcommand_required = true)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: CliCommand,
}

const EXAMPLES: &str = "\
Examples:
  apportion demo                              watch a cluster being shared, here and now
  apportion up                                run work on this machine, in one command
  apportion config check apportion.toml       check a configuration
  apportion serve --config apportion.toml     run the daemon
  apportion nodes                             list the nodes, with their jobs
  apportion queue --summary                   count the waiting jobs by reason
  apportion why 1007                          explain the memory of job 1007
  apportion users                             list fair share and holdings of each user
  apportion top                               the cluster, live
  apportion replay apportion.db --cycle 4711  show the decisions of a past cycle

Exit status:
  0 done   1 refused, or a check failed   2 used wrongly   3 no daemon reached
  4 not authorised   5 no such thing   6 conflict   78 the daemon's configuration is wrong

A link to this program with the name vary_off, vary_on, rm_qload, rm_qoccupancy or rm_reconfigure
takes the arguments of that command of UIMA-DUCC, and answers like it.";

/// A command of `apportion`.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Start daemon, orchestrator and agent on this machine, and run until Ctrl-C
    #[command(after_help = super::up::UP_EXAMPLES)]
    Up(super::up::UpArgs),
    /// End what `apportion up` started, and the work that runs
    #[command(after_help = super::up::DOWN_EXAMPLES)]
    Down(super::up::DownArgs),
    /// Run the daemon until a signal stops it
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Serve),
    /// Report this node to the daemon until a signal: run it on every node
    #[command(after_help = super::agent::EXAMPLES)]
    Agent(AgentArgs),
    /// Run a slot: agents call it
    #[command(hide = true)]
    Slot(SlotArgs),
    /// Confirm a checkpoint of the task that calls it: what it did until now is saved
    #[command(after_help = super::slot::CHECKPOINT_EXAMPLES)]
    Checkpoint,
    /// Check, show, translate and change the configuration
    Config {
        /// The action on the configuration.
        #[command(subcommand)]
        action: ConfigAction,
    },
    /// List nodes: their size, their state and the work on them
    #[command(after_help = NODES_EXAMPLES)]
    Nodes(NodeListArgs),
    /// List and show nodes, take them out of scheduling, put them back
    Node {
        /// The action on the nodes.
        #[command(subcommand)]
        action: NodeAction,
    },
    /// Keep nodes for some work at a planned time: create, list, show and delete reservations
    Reservation {
        /// The action on reservations.
        #[command(subcommand)]
        action: super::reservation_args::ReservationAction,
    },
    /// Have urgent work accepted or refused at once; it takes the place of fair-share work
    #[command(after_help = super::urgent::EXAMPLES)]
    Urgent(Box<super::urgent::UrgentArgs>),
    /// Run one program in the cluster, attached: output here, exit status as the program's
    #[command(after_help = super::run::EXAMPLES)]
    Run(Box<super::run::TaskRunArgs>),
    /// Submit a campaign of tasks
    #[command(after_help = super::submit::EXAMPLES)]
    Submit(Box<super::submit::SubmitArgs>),
    /// List and show campaigns, suspend, resume, cancel and wait for them
    Campaign {
        /// The action on campaigns.
        #[command(subcommand)]
        action: super::campaign::CampaignAction,
    },
    /// Show the clusters that campaigns run on, take one out, put it back
    #[command(after_help = super::grid::GRID_EXAMPLES)]
    Grid(Box<super::grid::GridArgs>),
    /// List the admission rules for campaigns that are submitted
    #[command(after_help = super::admission::EXAMPLES)]
    Admission(super::admission::AdmissionArgs),
    /// Let no task begin on a node or cluster, list such events, close them
    Fault {
        /// The action on events.
        #[command(subcommand)]
        action: super::fault::FaultAction,
    },
    /// Show single tasks and their output, end them, send them signals
    Task {
        /// The action on the task.
        #[command(subcommand)]
        action: super::task::TaskAction,
    },
    /// Run the orchestrator, show which orchestrator publishes, and hand over to another
    Orchestrator {
        /// The action on orchestrators.
        #[command(subcommand)]
        action: OrchestratorAction,
    },
    /// Let the numbers of publications begin anew
    Publication {
        /// The action on publications.
        #[command(subcommand)]
        action: PublicationAction,
    },
    /// List work: what it wants, what it holds, and why it has no more
    #[command(after_help = QUEUE_EXAMPLES)]
    Queue(QueueArgs),
    /// Show one job, and explain why it has what it has
    Job {
        /// The action on the job.
        #[command(subcommand)]
        action: JobAction,
    },
    /// Explain why a job has what it has
    #[command(after_help = WHY_EXAMPLES)]
    Why(WhyArgs),
    /// List resource classes: their rules, and what they want and hold
    #[command(after_help = CLASSES_EXAMPLES)]
    Classes(ClassListArgs),
    /// List and show resource classes
    Class {
        /// The action on classes.
        #[command(subcommand)]
        action: ClassAction,
    },
    /// List users: fair share, holdings and allotment
    #[command(after_help = USERS_EXAMPLES)]
    Users(UserListArgs),
    /// List and show users
    User {
        /// The action on users.
        #[command(subcommand)]
        action: UserAction,
    },
    /// Show demand against supply: classes, users, nodepools by size, and what is missing
    #[command(after_help = LOAD_EXAMPLES)]
    Load(LoadArgs),
    /// Show who is where: every node, every share
    #[command(after_help = OCCUPANCY_EXAMPLES)]
    Occupancy(OccupancyArgs),
    /// Tell what came about: shares given and taken, nodes, what administrators did
    #[command(after_help = EVENTS_EXAMPLES)]
    Events(Events),
    /// Tell how the daemon is: cycles, queue, record, audit, requests and who makes them
    #[command(after_help = DIAG_EXAMPLES)]
    Diag(Diag),
    /// Watch the cluster in the terminal, live
    #[command(after_help = TOP_EXAMPLES)]
    Top(Top),
    /// Play a simulated cluster against the real daemon, and tell what happens
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(Demo),
    /// Play recorded work, or the job log of a cluster, against the scheduler alone in virtual time
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(Box<Simulate>),
    /// Compute past cycles again from a daemon's record and compare, or explain a cycle
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Make tokens, with which agents, orchestrators and people say who they are
    Token {
        /// The action on tokens.
        #[command(subcommand)]
        action: TokenAction,
    },
    /// Show and verify the log of what administrators did and who was refused
    Audit {
        /// The action on the audit log.
        #[command(subcommand)]
        action: AuditAction,
    },
    /// Time cycles and the whole daemon on clusters of any size: how large a head node has to be
    Bench {
        /// The measurement to run.
        #[command(subcommand)]
        action: Bench,
    },
    /// Print what makes a shell complete these commands
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(Completions),
    /// Print the manual page, or write the pages of all commands into a folder
    #[command(after_help = MAN_EXAMPLES)]
    Man(Man),
}

/// Runs the daemon.
#[derive(Debug, Args)]
pub struct Serve {
    /// The configuration file. Without it: apportion.toml, in systemd's configuration directory or
    /// else in /etc/apportion
    #[arg(long, value_name = "FILE", env = "APPORTION_CONFIG")]
    pub config: Option<PathBuf>,
    /// Run for development: without a file, on this machine only, and nothing is kept after the end
    #[arg(long, conflicts_with = "config")]
    pub dev: bool,
    /// Listen here instead of where the configuration says
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address)]
    pub listen: Option<SocketAddr>,
    /// Keep the state here instead of where the configuration says
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Standard input is the socket that listens, as `apportion up` hands it over
    #[arg(long, hide = true)]
    pub handed_over: bool,
    /// Flags that override the configuration.
    #[command(flatten)]
    pub overrides: SetFlags,
    /// The log.
    #[command(flatten)]
    pub logging: Logging,
}

/// The demo asks for no token, so it stays on loopback.
fn parse_loopback(text: &str) -> Result<SocketAddr, String> {
    let address = parse_address(text)?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("the demo is for this machine only; write 127.0.0.1:PORT".to_owned())
    }
}

const SERVE_EXAMPLES: &str = "\
Examples:
  apportion serve --dev                               no file, loopback, sensible defaults
  apportion serve --config apportion.toml
  apportion serve --config apportion.toml --state /var/lib/apportion/state.db

SIGTERM and SIGINT stop it after the running cycle; a second one stops it at once. SIGHUP has it read
its configuration again; one that is wrong is refused, and the one before stays in effect.";

/// Computes past cycles again.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The record: `daemon.state` of the configuration, or a copy of it. Is only read, also beside a
    /// running daemon
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    /// Only this cycle
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "to"])]
    pub cycle: Option<u64>,
    /// From this cycle on; without it, from the oldest on record
    #[arg(long, value_name = "A")]
    pub from: Option<u64>,
    /// Up to this cycle; without it, to the newest
    #[arg(long, value_name = "B")]
    pub to: Option<u64>,
    /// Tell why this job got what it got in that cycle
    #[arg(long, value_name = "JOB", value_parser = parse_job, requires = "cycle")]
    pub explain: Option<u64>,
    /// Write the cycles as a scenario, for `simulate --recorded` to play
    #[arg(long, value_name = "FILE")]
    pub export: Option<PathBuf>,
    /// Show the answer in JSON
    #[arg(long)]
    pub json: bool,
}

const REPLAY_EXAMPLES: &str = "\
Examples:
  apportion replay apportion.db                                    is every cycle what it was?
  apportion replay apportion.db --cycle 4711 --explain 1007        why did job 1007 have no more?
  apportion replay apportion.db --from 4700 --to 4711 --export incident.json
  apportion simulate --recorded incident.json

Exit status 1: a cycle is another one than it was, or what led to it was changed on record.";

/// Plays a simulated cluster on this machine against the real daemon.
#[derive(Debug, Args)]
pub struct Demo {
    /// Play the workload once and end, instead of over and over until Ctrl-C
    #[arg(long)]
    pub once: bool,
    /// End after this time, however far the workload is
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_span)]
    pub duration: Option<std::time::Duration>,
    /// The form of the report at the end
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub report: ReportFormat,
    /// Play campaigns over several clusters instead: about a minute, then it ends
    #[arg(long, conflicts_with_all = ["once", "listen"])]
    pub grid: bool,
    /// Speed of the simulated work, as a multiple of real time. Default: 20, with --grid 60
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub speed: Option<u32>,
    /// Listen at this address; port 0 takes a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7070", value_parser = parse_loopback)]
    pub listen: SocketAddr,
    /// The same seed plays the same demonstration
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,
}

const DEMO_EXAMPLES: &str = "\
Examples:
  apportion demo                                   until Ctrl-C; ask it with the other commands
  apportion demo --once --for 30s --report json    figures for a script; 1 if the audit objects
  apportion demo --grid                            three clusters and a router, in a minute";

/// Form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Form of the report of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SimulationReport {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// A page with pictures, in a single file; of a job log only.
    Html,
}

/// Plays recorded or generated work against the scheduler alone, and measures it.
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("workload").required(true)
        .args(["recorded", "systemtest", "survey", "scale", "swf", "sacct"])
)]
pub struct Simulate {
    /// Play this recorded scenario, or what `replay --export` wrote
    #[arg(long, value_name = "FILE")]
    pub recorded: Option<PathBuf>,
    /// Play the system test in this folder
    #[arg(long, value_name = "DIR", requires = "draws")]
    pub systemtest: Option<PathBuf>,
    /// The random draws of the system test
    #[arg(long, value_name = "FILE", requires = "systemtest")]
    pub draws: Option<PathBuf>,
    /// The rule that sorts the jobs of the system test into classes
    #[arg(long, value_enum, default_value_t = Variant::Plain, requires = "systemtest")]
    pub variant: Variant,
    /// Play this many small clusters, drawn at random, that are asked for more than they have
    ///
    /// Envy is an unfairness that a plan could cure. Such a plan makes space for one more process on
    /// one machine. It uses free space and processes of users who are better off by more than one
    /// process, one after the other. A user who is behind without such a plan counts as beyond
    /// reach. Processes are indivisible, and the space would have to come from users who are no
    /// better off.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub survey: Option<u64>,
    /// Play one large random cluster of this size, with more demand than memory
    ///
    /// Shows whether it comes to rest and what a cycle costs. Only every 20th cycle is audited, as
    /// an audit takes longer than what it checks.
    #[arg(long, value_name = "NODESxJOBS", value_parser = size)]
    pub scale: Option<ScaleSize>,
    /// For how many cycles; the last 20 of them should be quiet
    #[arg(
        long, value_name = "N", default_value_t = 60, 
        conflicts_with_all = ["recorded", "systemtest", "survey", "swf", "sacct"],
        value_parser = clap::value_parser!(u64).range(FEWEST_CYCLES..=100_000)
    )]
    pub cycles: u64,
    /// The same seed draws the same clusters
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["recorded", "systemtest", "swf", "sacct"])]
    pub seed: u64,
    /// Also write each cluster of the survey into this folder, for --recorded to play
    #[arg(long, value_name = "DIR", conflicts_with_all = ["recorded", "systemtest", "scale", "swf", "sacct"])]
    pub scenarios: Option<PathBuf>,
    /// The form of the report at the end
    #[arg(long, value_enum, default_value_t = SimulationReport::Text)]
    pub report: SimulationReport,
    /// The same as --report json
    #[arg(long, conflicts_with = "report")]
    pub json: bool,
    /// A job log, and the cluster to replay it on.
    #[command(flatten)]
    pub joblog: JobLogArgs,
}

/// Reads "1000x1000": nodes, and jobs.
fn size(text: &str) -> Result<ScaleSize, String> {
    let number = |text: &str| text.parse().ok().filter(|number| (1..=100_000).contains(number));
    text.split_once('x')
        .and_then(|(nodes, jobs)| Some(ScaleSize { nodes: number(nodes)?, jobs: number(jobs)? }))
        .ok_or_else(|| "give two numbers from 1 to 100000, like 1000x1000: nodes, jobs".to_owned())
}

/// A form of the system test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Variant {
    /// All jobs in a single class.
    Plain,
    /// Jobs in five classes of different weight, as drawn.
    Mixed,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
        Demo::augment_args(clap::Command::new("demo")).debug_assert();
        Simulate::augment_args(clap::Command::new("simulate")).debug_assert();
    }

    #[test]
    fn the_demo_listens_only_to_its_own_node() {
        for (address, will_do) in [
            ("127.0.0.1:7070", true),
            ("[::1]:0", true),
            ("0.0.0.0:7070", false),
            ("127.0.0.1", false),
        ] {
            assert_eq!(parse_loopback(address).is_ok(), will_do, "{address}");
        }
    }
}
