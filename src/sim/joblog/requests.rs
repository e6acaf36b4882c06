//! Requests of a replay: the processes of each row of a log, the same for all policies.
//!
//! A job becomes processes of equal memory that start together. The memory is what the job asked
//! for, or the part of a node that its processors are, whichever is larger.

use super::cluster::{BUILT_IN_CLASS, ReplayClass, ReplayCluster};
use super::log::{JobLog, JobLogError, LogMemory, LogRow, MemoryBasis, MemoryUnit};
use crate::model::{Mebibytes, Millis, Name, QShares, ceil_div, memory_text};

/// Resource by which a process has its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SizeBy {
    /// Memory, or the part of a node that the processors are, whichever is larger.
    #[default]
    Both,
    /// Memory; the part of a node only where the log has none.
    Memory,
    /// The part of a node that the processors are.
    Processors,
}

/// Reading of the numbers of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeRules {
    /// Resource by which a process has its size.
    pub by: SizeBy,
    /// Unit of memory. `None`: KB, unless that makes most jobs larger than any node.
    pub unit: Option<MemoryUnit>,
    /// Part of a job that memory is for, where the log does not say. `None`: each processor.
    pub basis: Option<MemoryBasis>,
}

/// Reason why no policy can ever start a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeverFits {
    /// A process needs more than the largest node has, in MiB.
    TooLarge {
        /// Memory of the process.
        asks: u64,
        /// Usable memory of the largest node.
        largest: u64,
    },
    /// The empty cluster has no space for so many processes at once.
    TooMany {
        /// Number of processes.
        asks: u64,
        /// Number that fit.
        fit: u64,
    },
}

/// A job as every policy sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayJob {
    /// Number in the log.
    pub number: Name,
    /// User of the job.
    pub user: Name,
    /// Index of its class.
    pub class: usize,
    /// Submission, from the first submission of the log.
    pub submitted: Millis,
    /// Run time.
    pub runs: Millis,
    /// Requested time; at least the run time.
    pub declared: Millis,
    /// Processes that start together. At least 1.
    pub processes: u64,
    /// Memory of each process.
    pub memory: Mebibytes,
    /// Memory of each process in quanta. At least 1.
    pub quanta: u64,
    /// Reason why it can never start; `None` if an empty cluster has space for it.
    pub never: Option<NeverFits>,
}

impl ReplayJob {
    /// Memory of all processes in quanta.
    pub fn all_quanta(&self) -> u64 {
        self.quanta.saturating_mul(self.processes)
    }
}

/// Requests of a log, and the reading of its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayRequests {
    /// Jobs in order of submission.
    pub jobs: Vec<ReplayJob>,
    /// Sentences on how the numbers were read.
    pub readings: Vec<String>,
}

impl ReplayRequests {
    /// Makes each job request the time that it runs.
    pub fn request_run_times(&mut self) {
        for job in &mut self.jobs {
            job.declared = job.runs;
        }
        self.readings.push("the run time of each job is taken as its requested time".to_owned());
    }
}

/// Turns the rows of `log` into requests to `cluster`.
///
/// # Errors
///
/// If the size of a job is not known.
pub fn requests(
    log: &JobLog,
    cluster: &ReplayCluster,
    rules: SizeRules,
) -> Result<ReplayRequests, JobLogError> {
    let first = log.rows.first().map_or(0, |row| row.submitted);
    let reader = RequestReader { cluster, rules, unit: unit_of(log, cluster, rules), first };
    let jobs: Result<Vec<ReplayJob>, JobLogError> =
        log.rows.iter().map(|row| reader.job(log, row)).collect();
    Ok(ReplayRequests { jobs: jobs?, readings: reader.readings(log) })
}

/// Unit of the memory of a log.
fn unit_of(log: &JobLog, cluster: &ReplayCluster, rules: SizeRules) -> MemoryUnit {
    let is_known = |row: &&LogRow| row.memory.is_some_and(|memory| memory.basis.is_some());
    if let Some(unit) = rules.unit {
        return unit;
    }
    if log.rows.iter().any(|row| is_known(&row)) {
        return MemoryUnit::Kilobytes;
    }
    let mut amounts: Vec<u64> =
        log.rows.iter().filter_map(|row| Some(row.memory?.amount)).collect();
    amounts.sort_unstable();
    let median = amounts.get(amounts.len() >> 1).copied().unwrap_or(0);
    let largest = cluster.nodes.iter().map(|node| node.memory.0).max().unwrap_or(0);
    if largest < median >> 10 { MemoryUnit::Bytes } else { MemoryUnit::Kilobytes }
}

/// Makes requests of rows.
struct RequestReader<'a> {
    cluster: &'a ReplayCluster,
    rules: SizeRules,
    unit: MemoryUnit,
    /// Submission of the first job, in seconds.
    first: u64,
}

impl RequestReader<'_> {
    fn job(&self, log: &JobLog, row: &LogRow) -> Result<ReplayJob, JobLogError> {
        let at = self.cluster.class_for(&row.queue);
        let class = &self.cluster.classes[at];
        let (processes, memory) = self.size(row, class).ok_or_else(|| JobLogError::Line {
            file: log.file.clone(),
            line: row.line,
            problem: format!("the size of job {} is not known", row.number),
            remedy: "say how many processors a node has: --node-cpus 16".to_owned(),
        })?;
        let memory = memory.max(1);
        let quanta = memory.div_ceil(class.quantum.memory().0.max(1));
        let fit = |node: &usize| self.cluster.nodes[*node].quanta.checked_div(quanta).unwrap_or(0);
        let never = if class.largest < quanta {
            let largest = class.quantum.memory_of(QShares(class.largest)).0;
            Some(NeverFits::TooLarge { asks: memory, largest })
        } else {
            let fit = class.nodes.iter().map(fit).fold(0, u64::saturating_add);
            (fit < processes).then_some(NeverFits::TooMany { asks: processes, fit })
        };
        Ok(ReplayJob {
            number: row.number.clone(),
            user: row.user.clone(),
            class: at,
            submitted: row.submitted.saturating_sub(self.first).saturating_mul(1000),
            runs: row.runs,
            declared: row.declared,
            processes,
            memory: Mebibytes(memory),
            quanta,
            never,
        })
    }

    /// Number of processes, and memory of each in MiB; `None` if nothing says how large they are.
    fn size(&self, row: &LogRow, class: &ReplayClass) -> Option<(u64, u64)> {
        let (processes, processors) = match (row.split, class.most_processors) {
            (Some(split), _) => (split.nodes, split.processors),
            (None, Some(most)) => {
                let processes = ceil_div(row.processors, most).max(1);
                (processes, row.processors.div_ceil(processes))
            }
            (None, None) => (1, row.processors),
        };
        let asked = row.memory.map(|memory| self.mebibytes(memory, processes, processors, row));
        let part = class.memory_of(processors);
        let size = match self.rules.by {
            SizeBy::Both => asked.max(part)?,
            SizeBy::Memory => asked.or(part)?,
            SizeBy::Processors => part?,
        };
        let largest = class.quantum.memory_of(QShares(class.largest)).0.max(1);
        if row.split.is_none() && class.most_processors.is_none() && largest < size {
            // Memory of several nodes, and nothing says how it is spread.
            let processes = size.div_ceil(largest).min(row.processors).max(1);
            return Some((processes, size.div_ceil(processes)));
        }
        Some((processes, size))
    }

    /// Memory of each process.
    fn mebibytes(&self, memory: LogMemory, processes: u64, processors: u64, row: &LogRow) -> u64 {
        let shift = match self.unit {
            MemoryUnit::Kilobytes => 10,
            MemoryUnit::Bytes => 20,
        };
        let whole = |amount: u64| amount.div_ceil(1 << shift);
        match memory.basis.unwrap_or_else(|| self.basis(row)) {
            MemoryBasis::Processor => whole(memory.amount.saturating_mul(processors)),
            MemoryBasis::Node => whole(memory.amount),
            MemoryBasis::Job => whole(memory.amount.div_ceil(processes.max(1))),
        }
    }

    /// Part of the job that memory is for: of a node, where the row says how its nodes are used.
    fn basis(&self, row: &LogRow) -> MemoryBasis {
        let usual = if row.split.is_some() { MemoryBasis::Node } else { MemoryBasis::Processor };
        self.rules.basis.unwrap_or(usual)
    }

    /// Tells how the numbers were read.
    fn readings(&self, log: &JobLog) -> Vec<String> {
        let mut readings = Vec::new();
        if let Some(row) = log.rows.iter().find(|row| row.memory.is_some_and(|m| m.basis.is_none()))
        {
            let unit = match self.unit {
                MemoryUnit::Kilobytes => "KB",
                MemoryUnit::Bytes => "bytes",
            };
            let part = match self.basis(row) {
                MemoryBasis::Processor => "each processor",
                MemoryBasis::Node => "each node",
                MemoryBasis::Job => "the whole job",
            };
            readings.push(format!("requested memory is read as {unit} for {part}"));
        }
        let class = self.cluster.classes.first();
        match (self.rules.by, class.and_then(|class| class.memory_of(1))) {
            (SizeBy::Both, Some(memory)) => readings.push(format!(
                "a process has its requested memory, or {} for each processor if that is more",
                memory_text(memory)
            )),
            (SizeBy::Processors, Some(memory)) => {
                readings.push(format!("a process has {} for each processor", memory_text(memory)));
            }
            (SizeBy::Both | SizeBy::Memory | SizeBy::Processors, _) => {
                readings.push("a process has its requested memory".to_owned());
            }
        }
        if let Some(class) = class.filter(|class| class.name == BUILT_IN_CLASS) {
            let from = format!("jobs go to class `{}`, which the replay adds", class.name);
            readings.extend((1 < self.cluster.topology.classes.len()).then_some(from));
        } else if let Some(class) = class {
            readings.push(format!("jobs go to class `{}`", class.name));
        }
        readings.extend(
            self.cluster
                .unknown_queues(log)
                .into_iter()
                .map(|queue| format!("no job is of queue `{queue}`")),
        );
        readings
    }
}
