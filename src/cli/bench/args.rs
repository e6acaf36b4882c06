//! The command line of `apportion bench`.

use clap::{Args, Subcommand, ValueEnum};

use crate::config;
use crate::model::Quantum;

/// A measurement.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Time cycles of the scheduler, in this process
    ///
    /// The cluster has nodes of 64, 128 and 256 GB in turn and four fair-share classes of weight 50,
    /// 100, 200 and 400. Jobs want processes of 4, 8, 15, 30, 45 or 60 GB and at most 4, 16, 64 or
    /// any number of them; they begin with two and double, and their work is never done. What has to
    /// leave has left by the next cycle.
    #[command(after_help = CYCLE_EXAMPLES)]
    Cycle(CycleBenchArgs),
    /// Time the single cycle that places many requests for one share each on empty nodes
    ///
    /// Every node has space for one share, every request is a job of its own that wants one process,
    /// and all come at once. Each cycle is the first of a fresh scheduler.
    #[command(after_help = PLACE_EXAMPLES)]
    Place(PlaceBenchArgs),
    /// Time the real daemon, from a publication to the schedule with all its jobs
    ///
    /// Starts `apportion serve` on loopback with a store in a temporary folder. The nodes report,
    /// and all jobs are published at once. The figure is the time to the first schedule that has
    /// them all; a served schedule is on disk. Then the daemon is killed and started again, and
    /// each start is timed until that schedule is served once more. The cluster and its jobs are
    /// those of `bench cycle`. At the end the daemon is stopped and the folder deleted. Memory,
    /// processor time and bytes written come from Linux's /proc; elsewhere they are unknown: "-",
    /// or null in JSON.
    #[command(after_help = DAEMON_EXAMPLES)]
    Daemon(Daemon),
    /// Ask the daemon as much as it answers, beside a bare server that reads the same
    ///
    /// Starts the daemon and the bare server, each as a process of its own that listens on loopback, and
    /// stops them in the end: heartbeats singly and in batches, polls of the schedule with and without
    /// change, the processor time that 10,000 agents cost which report every 10 s, and what 200 readers
    /// do to cycles.
    #[command(after_help = LOAD_EXAMPLES)]
    Load(LoadBenchArgs),
    /// Time how fast a slot starts tasks, beside a loop that only starts the same program
    #[command(after_help = SLOT_EXAMPLES)]
    Slot(SlotBenchArgs),
    /// Time the orchestrator between agents and a resource manager that are simulated
    ///
    /// Starts `apportion orchestrator run` on loopback with a database in a temporary folder, and stops it
    /// in the end. Agents speak the exchange over HTTP and start no process. Two things are measured. Task
    /// starts: all slots want tasks, and each task ends as it begins; then a bare handler does the same,
    /// which commits the same rows in the same batches. Large campaigns: what it takes to submit them by
    /// `apportion submit`, to keep them, to start with them, to wait with all agents, and to publish them.
    /// The temporary folder takes about 300 MB.
    #[command(after_help = ORCHESTRATOR_EXAMPLES)]
    Orchestrator(OrchestratorBenchArgs),
    /// Time passes of the router over many clusters and campaigns, in this process
    ///
    /// A pass predicts, routes and finds the surplus of each cluster, under each policy in turn. Every
    /// campaign has tasks for every cluster; the space of the clusters differs from pass to pass. Requests
    /// to clusters are not part of it.
    #[command(after_help = GRID_EXAMPLES)]
    Grid(GridBenchArgs),
    /// Be the bare server that the daemon is compared with
    #[command(hide = true)]
    Bare,
    /// Be the bare handler that the orchestrator is compared with
    #[command(hide = true)]
    BareExchange(BareExchange),
}

const CYCLE_EXAMPLES: &str = "\
Examples:
  apportion bench cycle --nodes 1000 --jobs 1000 --regime steady
  apportion bench cycle --nodes 1000 --jobs 1000 --regime churn --quantum 1GB --json

ratio is what to quote and to compare: how many times longer a cycle takes than a bare pass that reads
every machine and every job once, in the same process. Milliseconds depend on the computer.
The last schedule is audited, untimed; with findings it ends with status 1.";

const GRID_EXAMPLES: &str = "\
Examples:
  apportion bench grid
  apportion bench grid --clusters 50 --campaigns 1000 --json";

const PLACE_EXAMPLES: &str = "\
Examples:
  apportion bench place --nodes 50000 --jobs 50000 --json";

const DAEMON_EXAMPLES: &str = "\
Examples:
  apportion bench daemon --nodes 1000 --jobs 5000 --json";

const LOAD_EXAMPLES: &str = "\
Examples:
  apportion bench load --json
  apportion bench load --nodes 1000 --jobs 5000 --seconds 10

Quote ratios: both servers share the computer with the clients, which makes both slower.";

const SLOT_EXAMPLES: &str = "\
Examples:
  apportion bench slot --tasks 2000 --lanes 2 --json

Quote the ratio: starts a second depend on the computer and on what else it does.";

const ORCHESTRATOR_EXAMPLES: &str = "\
Examples:
  apportion bench orchestrator
  apportion bench orchestrator --only starts --agents 100 --tasks 200000 --json
  apportion bench orchestrator --only large --seconds 10

Quote the ratio of task starts: agents share the computer with both servers, which makes both slower.";

/// Times the orchestrator.
#[derive(Debug, Args)]
pub struct OrchestratorBenchArgs {
    /// Measure this only
    #[arg(long, value_enum)]
    pub only: Option<OrchestratorPart>,
    /// For task starts: how many agents
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub agents: u64,
    /// For task starts: how many slots each agent has
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub slots: u64,
    /// For task starts: how many tasks
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub tasks: u64,
    /// Number of large campaigns
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub campaigns: u64,
    /// Lines of a large campaign, a task for each
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub lines: u64,
    /// Running tasks of large campaigns, each in a slot of its own
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub running: u64,
    /// Nodes of those slots, each with an agent
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub nodes: u64,
    /// For how many seconds the orchestrator is watched at rest, and while it publishes
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Show the figures in JSON
    #[arg(long)]
    pub json: bool,
}

/// A part of what is measured of the orchestrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrchestratorPart {
    /// Task starts a second.
    Starts,
    /// Large campaigns.
    Large,
}

/// Arguments of the bare handler.
#[derive(Debug, Args)]
pub struct BareExchange {
    /// The database of the handler
    #[arg(long, value_name = "FILE")]
    pub state: std::path::PathBuf,
    /// Number of tasks to give
    #[arg(long, value_name = "N")]
    pub tasks: u64,
    /// Slots on each node
    #[arg(long, value_name = "N")]
    pub slots: u64,
}

/// Times a slot.
#[derive(Debug, Args)]
pub struct SlotBenchArgs {
    /// Number of tasks
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub tasks: u64,
    /// Tasks at a time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub lanes: u64,
    /// Show the figures in JSON
    #[arg(long)]
    pub json: bool,
}

/// Asks the daemon as much as it answers.
#[derive(Debug, Args)]
pub struct LoadBenchArgs {
    /// Nodes
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub nodes: u64,
    /// Jobs
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub jobs: u64,
    /// For how many seconds each of six things is measured
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Show the figures in JSON
    #[arg(long)]
    pub json: bool,
}

/// Size of the cluster.
#[derive(Clone, Copy, Debug, Args)]
pub struct Size {
    /// Nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub nodes: u64,
    /// Jobs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub jobs: u64,
    /// Users of the jobs. Default: a tenth as many as there are jobs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub users: Option<u64>,
    /// The smallest allocation; the smaller it is, the more sizes there are
    #[arg(long, value_name = "SIZE", default_value = "15GB", value_parser = config::quantum)]
    pub quantum: Quantum,
    /// Show the figures in JSON
    #[arg(long)]
    pub json: bool,
}

/// Times cycles.
#[derive(Debug, Args)]
pub struct CycleBenchArgs {
    /// The cluster.
    #[command(flatten)]
    pub size: Size,
    /// The situation in which cycles are timed
    #[arg(long, value_enum, default_value_t = Regime::Steady)]
    pub regime: Regime,
    /// The same seed draws the same jobs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of timed cycles. Default: 20; 5 in a burst and with blocked jobs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub cycles: Option<u64>,
    /// For how many cycles the cluster may settle first; it says so if that is not enough. A burst
    /// has none
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub ramp_cycles: u64,
}

/// The situation in which cycles are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Regime {
    /// The first cycle of an empty cluster to which all jobs have come at once; on a fresh state each
    /// time.
    Burst,
    /// Cycles of a settled cluster without any news.
    Steady,
    /// Cycles without any news of a cluster whose nodes are filled for good, while all jobs wait.
    Waiting,
    /// Cycles of a settled cluster of whose jobs 1 % are replaced before each.
    Churn,
    /// A settled and thus full cluster with as many jobs again, of many shapes, that get nothing:
    /// the engine alone, from scratch, which gives each of them its reason.
    Blocked,
    /// Gangs of the kinds that cost a batch system most, the engine alone, from scratch: as many
    /// gangs as --jobs says.
    Gangs,
}

/// Times the placing of many requests.
#[derive(Debug, Args)]
pub struct PlaceBenchArgs {
    /// The cluster.
    #[command(flatten)]
    pub size: Size,
    /// Number of timed cycles
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub cycles: u64,
}

/// Times passes of the router.
#[derive(Debug, Args)]
pub struct GridBenchArgs {
    /// Number of clusters
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub clusters: u64,
    /// Number of campaigns
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub campaigns: u64,
    /// Number of timed passes
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub passes: u64,
    /// Show the figures in JSON
    #[arg(long)]
    pub json: bool,
}

/// Times the daemon.
#[derive(Debug, Args)]
pub struct Daemon {
    /// The cluster.
    #[command(flatten)]
    pub size: Size,
    /// Number of kills, each with a start afterwards
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub starts: u64,
    /// The same seed draws the same jobs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}
