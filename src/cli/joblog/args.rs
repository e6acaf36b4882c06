//! Arguments of a replay of a job log.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use crate::config;
use crate::model::{Mebibytes, Quantum};
use crate::sim::joblog::{
    ClassRules, MemoryBasis, MemoryUnit, NodeOptions, NodeValue, ReplayPolicy, ReplayedAs, SizeBy,
    SizeRules, node_value,
};

/// A job log, and the cluster to replay it on.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("joblog").args(["swf", "sacct"]), next_help_heading = "Job logs")]
pub struct JobLogArgs {
    /// Replay this log in the standard workload format under several policies; may end with .gz
    ///
    /// A job becomes processes of equal memory that start together: a single process if a
    /// node has enough processors, else as few as nodes are needed. Each has the memory that the job asked for, or
    /// the part of a node's memory that its processors are, whichever is larger. The requested time
    /// is its duration; it ends after its run time. All policies see the same.
    #[arg(long, value_name = "FILE")]
    pub swf: Option<PathBuf>,
    /// Replay this text of `sacct --parsable2` instead; may end with .gz
    #[arg(long, value_name = "FILE")]
    pub sacct: Option<PathBuf>,
    /// Only these policies, with commas between them. Default: all
    #[arg(long, value_enum, value_name = "POLICY", value_delimiter = ',', requires = "joblog")]
    pub policy: Vec<PolicyArg>,
    /// The configuration with pools, classes and quantum. Default: a pool and a class for all jobs
    #[arg(long, value_name = "FILE", requires = "joblog")]
    pub config: Option<PathBuf>,
    /// Memory of each node, or of the nodes in a host list; may be repeated
    ///
    /// Without a configuration the host lists say which nodes there are. Without host lists the
    /// header of the log does, `; MaxNodes: 64`, or a file FILE.machines beside it.
    #[arg(long, value_name = "[NODES=]SIZE", value_parser = node_memory, requires = "joblog")]
    pub node_memory: Vec<NodeValue<Mebibytes>>,
    /// Processors of each node, or of the nodes in a host list; may be repeated
    #[arg(long, value_name = "[NODES=]N", value_parser = node_cpus, requires = "joblog")]
    pub node_cpus: Vec<NodeValue<u64>>,
    /// Kinds of nodes in Alea's form: `0 name 20 80 1 529426432` are 20 nodes of 80 processors
    #[arg(long, value_name = "FILE", requires = "joblog")]
    pub machines: Option<PathBuf>,
    /// Smallest allocation of memory without a configuration
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = config::quantum, requires = "joblog", conflicts_with = "config")]
    pub quantum: Quantum,
    /// Resource that decides how large a process is
    #[arg(long, value_enum, value_name = "RESOURCE", default_value_t = SizeByArg::Both, requires = "joblog")]
    pub size_by: SizeByArg,
    /// Unit of memory in the log. Default: kb, unless most jobs would be larger than any node
    #[arg(long, value_enum, value_name = "UNIT", requires = "joblog", conflicts_with = "sacct")]
    pub memory_unit: Option<MemoryUnitArg>,
    /// Part of a job that its memory is for. Default: processor; node if the log names its nodes or
    /// has a file of machines
    #[arg(long, value_enum, value_name = "PART", requires = "joblog", conflicts_with = "sacct")]
    pub memory_per: Option<MemoryPerArg>,
    /// Plan with run times, as if each job had requested the time that it ran
    #[arg(long, requires = "joblog")]
    pub exact_times: bool,
    /// Run jobs to their end where they start, or preempt them for fairness and begin them anew
    #[arg(long = "as", value_enum, value_name = "POLICY", default_value_t = ReplayedAsArg::FixedShare, requires = "joblog")]
    pub replayed_as: ReplayedAsArg,
    /// Fill what the jobs leave with endless fair-share work in processes of this size, and report how
    /// much it gets
    ///
    /// Only this scheduler has such work. It has the lowest priority, so that each job may preempt it.
    #[arg(long, value_name = "SIZE", value_parser = config::size, requires = "joblog")]
    pub fill: Option<Mebibytes>,
    /// Class of the jobs. Default: of the configuration, the default class or another that takes gangs
    #[arg(long, value_name = "CLASS", requires = "joblog")]
    pub class: Option<String>,
    /// Class of the jobs of a queue or partition; may be repeated
    #[arg(long, value_name = "QUEUE=CLASS", value_parser = queue_class, requires = "joblog")]
    pub class_of: Vec<(String, String)>,
}

/// A policy to replay a log under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyArg {
    /// This scheduler.
    Apportion,
    /// Conservative backfill: each job has a reservation from its arrival on.
    Conservative,
    /// EASY backfill: the oldest waiting job has a reservation.
    Easy,
    /// First come, first served.
    Fcfs,
}

/// Resource that decides how large a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SizeByArg {
    /// Memory or processors, whichever is the larger part of a node.
    Both,
    /// Requested memory; processors only where the log has none.
    Memory,
    /// Processors.
    Processors,
}

/// Unit of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MemoryUnitArg {
    /// Kilobytes, as the format has it.
    Kb,
    /// Bytes.
    Bytes,
}

/// Part of a job that memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MemoryPerArg {
    /// Each processor, as the format has it.
    Processor,
    /// The processors on a node together.
    Node,
    /// The whole job.
    Job,
}

/// Policy of the jobs under this scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReplayedAsArg {
    /// Jobs run to their end where they start.
    FixedShare,
    /// Jobs may be preempted for fairness, and begin anew.
    FairShare,
}

impl JobLogArgs {
    /// True if a log is to be replayed.
    pub fn is_given(&self) -> bool {
        self.swf.is_some() || self.sacct.is_some()
    }

    /// The policies, each once, in the order of the reports.
    pub(super) fn policies(&self) -> Vec<ReplayPolicy> {
        let chosen: Vec<ReplayPolicy> = self.policy.iter().map(|policy| policy.meant()).collect();
        let is_chosen = |policy: &ReplayPolicy| chosen.is_empty() || chosen.contains(policy);
        ReplayPolicy::ALL.into_iter().filter(is_chosen).collect()
    }

    /// Sizes of nodes.
    pub(super) fn node_options(&self) -> NodeOptions {
        NodeOptions { memory: self.node_memory.clone(), processors: self.node_cpus.clone() }
    }

    /// Rules for the numbers of the log; `usual` is the part that memory is for without an option.
    pub(super) fn size_rules(&self, usual: Option<MemoryBasis>) -> SizeRules {
        SizeRules {
            by: match self.size_by {
                SizeByArg::Both => SizeBy::Both,
                SizeByArg::Memory => SizeBy::Memory,
                SizeByArg::Processors => SizeBy::Processors,
            },
            unit: self.memory_unit.map(|unit| match unit {
                MemoryUnitArg::Kb => MemoryUnit::Kilobytes,
                MemoryUnitArg::Bytes => MemoryUnit::Bytes,
            }),
            basis: self.memory_per.map(MemoryPerArg::meant).or(usual),
        }
    }

    /// Classes for the jobs.
    pub(super) fn class_rules(&self) -> ClassRules {
        ClassRules {
            replayed_as: match self.replayed_as {
                ReplayedAsArg::FixedShare => ReplayedAs::FixedShare,
                ReplayedAsArg::FairShare => ReplayedAs::FairShare,
            },
            class: self.class.clone(),
            of_queue: self.class_of.clone(),
            filler: self.fill,
        }
    }
}

impl PolicyArg {
    fn meant(self) -> ReplayPolicy {
        match self {
            PolicyArg::Apportion => ReplayPolicy::Apportion,
            PolicyArg::Conservative => ReplayPolicy::Conservative,
            PolicyArg::Easy => ReplayPolicy::Easy,
            PolicyArg::Fcfs => ReplayPolicy::Fcfs,
        }
    }
}

impl MemoryPerArg {
    fn meant(self) -> MemoryBasis {
        match self {
            MemoryPerArg::Processor => MemoryBasis::Processor,
            MemoryPerArg::Node => MemoryBasis::Node,
            MemoryPerArg::Job => MemoryBasis::Job,
        }
    }
}

fn node_memory(text: &str) -> Result<NodeValue<Mebibytes>, String> {
    node_value(text, config::size)
}

fn node_cpus(text: &str) -> Result<NodeValue<u64>, String> {
    let number = |text: &str| text.parse().ok().filter(|number| (1..=1_000_000).contains(number));
    node_value(text, |text| number(text).ok_or_else(|| "write a number such as 16".to_owned()))
}

fn queue_class(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(queue, class)| (queue.to_owned(), class.to_owned()));
    pair.ok_or_else(|| "write the queue and its class: long=batch".to_owned())
}
