//! Reads a suite: a file for each job, and the draws that fix the random choices of the original.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

use crate::model::{
    CapRules, ClassPolicy, GangRules, Mebibytes, Nodepool, PoolIx, QShares, Quantum, ResourceClass,
    Settings, Topology,
};
use crate::sim::error::{Flaw, SimError};
use crate::sim::measure::{CYCLE, Slots};
use crate::sim::world::SimWork;

/// The class of all jobs in the plain variant.
const NORMAL: &str = "normal";

/// Assignment of jobs to classes. MODEL section 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuiteVariant {
    /// All jobs in a single class.
    Plain,
    /// Jobs in the drawn classes, with the weights of the draws.
    Mixed,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuiteNode {
    /// Name of the node.
    pub name: String,
    /// Memory of the node.
    pub memory: Mebibytes,
    /// Order of the node in qshares.
    pub order: QShares,
}

/// All that a run needs.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Classes, a single pool, and the settings of MODEL section 6.
    pub topology: Topology,
    /// The cluster.
    pub nodes: Vec<SuiteNode>,
    /// The jobs, by the number in their names.
    pub works: Vec<SimWork>,
}

/// The file of draws.
#[derive(Debug, Deserialize)]
struct Draws {
    #[serde(rename = "quantumGB")]
    quantum_gb: u64,
    nodes: Vec<(String, u64)>,
    #[serde(rename = "classWeights")]
    class_weights: BTreeMap<String, u32>,
    suites: BTreeMap<String, BTreeMap<String, JobDraw>>,
}

/// The draw of a single job.
#[derive(Debug, Deserialize)]
struct JobDraw {
    #[serde(rename = "memoryGB")]
    memory_gb: u64,
    class: String,
}

impl Suite {
    /// Reads the suite in folder `jobs`, with the draws that file `draws` has under the folder's
    /// name.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or makes no sense.
    pub fn load(jobs: &Path, draws: &Path, variant: SuiteVariant) -> Result<Suite, SimError> {
        let text = fs::read_to_string(draws).map_err(SimError::reading(draws))?;
        let drawn: Draws = serde_json::from_str(&text).map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            SimError::malformed(
                draws,
                Flaw::new(place, error.to_string(), "see MODEL.md for the shape of draws"),
            )
        })?;
        let flawed_draws = |flaw| SimError::malformed(draws, flaw);
        let quantum = Quantum::new(Mebibytes::from_gib(drawn.quantum_gb)).ok_or_else(|| {
            flawed_draws(Flaw::new("quantumGB", "the quantum is 0", "give at least 1"))
        })?;

        let folder = fs::canonicalize(jobs).map_err(SimError::reading(jobs))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let draws_of_jobs = drawn.suites.get(&name).ok_or_else(|| {
            let known = drawn.suites.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            flawed_draws(Flaw::new(
                "suites",
                format!("no draws for suite {name}"),
                format!("there are some for {known}"),
            ))
        })?;

        let mut works = Vec::new();
        for file in job_files(&folder)? {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let draw = draws_of_jobs.get(&name).ok_or_else(|| {
                flawed_draws(Flaw::new(
                    "suites",
                    format!("no draw for job {name}"),
                    "add its memoryGB and class",
                ))
            })?;
            drawn.check(&name, draw, quantum).map_err(flawed_draws)?;
            let text = fs::read_to_string(&file).map_err(SimError::reading(&file))?;
            let job = JobFile::parse(&text).map_err(|flaw| SimError::malformed(&file, flaw))?;
            works.push(job.into_work(name, draw, variant));
        }
        Ok(drawn.suite(quantum, variant, works))
    }
}

impl Draws {
    /// Checks that a draw can be measured: its class has a weight, and the model's rules of fitting
    /// know its order.
    fn check(&self, name: &str, draw: &JobDraw, quantum: Quantum) -> Result<(), Flaw> {
        if !self.class_weights.contains_key(&draw.class) {
            let problem = format!("class {} of job {name} has no weight", draw.class);
            return Err(Flaw::new("classWeights", problem, "add it, or correct the job's class"));
        }
        let order = quantum
            .order_of_work(Mebibytes::from_gib(draw.memory_gb))
            .map(|order| u64::from(order.get()));
        if order.is_none_or(|order| order != Slots::SMALL && order != Slots::LARGE) {
            let problem = format!("{} GB of job {name} are neither 2 nor 3 quanta", draw.memory_gb);
            return Err(Flaw::new("suites", problem, "the model measures only these two orders"));
        }
        Ok(())
    }

    fn suite(&self, quantum: Quantum, variant: SuiteVariant, works: Vec<SimWork>) -> Suite {
        let node = |(name, gb): &(String, u64)| {
            let memory = Mebibytes::from_gib(*gb);
            SuiteNode { name: name.clone(), memory, order: quantum.order_of_node(memory) }
        };
        let nodes: Vec<SuiteNode> = self.nodes.iter().map(node).collect();
        let is_in_use = |name: &str| variant == SuiteVariant::Mixed || name == NORMAL;
        let mut weights = self.class_weights.clone();
        weights.entry(NORMAL.to_owned()).or_insert(100);
        let classes = weights
            .iter()
            .filter(|(name, _)| is_in_use(name))
            .map(|(name, &weight)| class(name, weight));
        let topology = Topology {
            tagging: crate::model::NodeTagging::default(),
            settings: settings(),
            pools: vec![Nodepool {
                name: "--default--".into(),
                parent: None,
                search_order: 100,
                quantum,
                nodes: nodes.iter().map(|node| node.name.clone()).collect(),
            }]
            .into(),
            classes: classes.collect(),
            allotments: BTreeMap::new(),
        };
        Suite { topology, nodes, works }
    }
}

/// MODEL section 6.
fn settings() -> Settings {
    Settings {
        fragmentation_threshold: 8,
        defragmentation: true,
        allotment: None,
        reserve_overage: Mebibytes(0),
        reserved_memory: Mebibytes(0),
        publication_period: CYCLE,
        node_stability: 5,
        mass_loss_percent: None,
        quiet_stop: Settings::default().quiet_stop,
        notice: Settings::default().notice,
        backfill_depth: Settings::default().backfill_depth,
        urgent_allotment: Settings::default().urgent_allotment,
    }
}

/// MODEL sections 2 and 6.
fn class(name: &str, weight: u32) -> ResourceClass {
    ResourceClass {
        gangs: GangRules::default(),
        name: name.into(),
        policy: ClassPolicy::FairShare { weight },
        priority: 10,
        pool: PoolIx(0),
        cap_rules: CapRules {
            initialization_cap: 2,
            expand_by_doubling: true,
            prediction: true,
            prediction_fudge: 120_000,
            loss_limit: CapRules::LOSS_LIMIT,
        },
        users: None,
        is_default: name == NORMAL,
        is_urgent: false,
    }
}

/// The job files of a suite, by the number in their names; in its folder `jobs.in` if the suite has
/// it.
fn job_files(suite: &Path) -> Result<Vec<PathBuf>, SimError> {
    let inner = suite.join("jobs.in");
    let folder = if inner.is_dir() { inner } else { suite.to_owned() };
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).map_err(SimError::reading(&folder))? {
        let path = entry.map_err(SimError::reading(&folder))?.path();
        if path.extension().is_some_and(|extension| extension == "job") {
            files.push(path);
        }
    }
    if files.is_empty() {
        let flaw = Flaw::new(
            "the folder",
            "it has no job files",
            "name a suite with files called NAME.job",
        );
        return Err(SimError::malformed(&folder, flaw));
    }
    files.sort_by_cached_key(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let number: Option<u64> = name.rsplit('-').next().and_then(|digits| digits.parse().ok());
        (number, name)
    });
    Ok(files)
}

/// A job file: `key = value`, lines that begin with `#` being comments.
#[derive(Debug, PartialEq, Eq)]
struct JobFile {
    submitted: u64,
    items: Vec<u64>,
    threads: NonZeroU64,
    user: String,
    nodes: Option<u64>,
}

impl JobFile {
    fn parse(text: &str) -> Result<JobFile, Flaw> {
        let mut values: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, value) = line.split_once('=').ok_or_else(|| {
                Flaw::new(
                    format!("line {number}"),
                    "it is not `key = value`",
                    "begin comments with `#`",
                )
            })?;
            values.insert(key.trim(), (number, value.trim()));
        }
        let required = |key: &str| {
            let missing = || {
                Flaw::new(
                    "the file",
                    format!("`{key}` is missing"),
                    format!("add a line `{key} = ...`"),
                )
            };
            values.get(key).copied().ok_or_else(missing)
        };
        let items = required("elapsed")?;
        let items: Vec<u64> = items
            .1
            .split_whitespace()
            .map(|item| number("elapsed", (items.0, item)))
            .collect::<Result<_, _>>()?;
        if items.is_empty() {
            return Err(Flaw::new("`elapsed`", "it lists no item", "a job needs at least one"));
        }
        Ok(JobFile {
            submitted: number("tod", required("tod")?)?,
            items,
            threads: number("threads", required("threads")?)?,
            user: required("user")?.1.to_owned(),
            nodes: values.get("machines").map(|&value| number("machines", value)).transpose()?,
        })
    }

    /// Builds the work with `memory` and `class` of the draw: the values in the file are ignored
    /// (MODEL section 2).
    fn into_work(self, name: String, draw: &JobDraw, variant: SuiteVariant) -> SimWork {
        let class = match variant {
            SuiteVariant::Plain => NORMAL.to_owned(),
            SuiteVariant::Mixed => draw.class.clone(),
        };
        let JobFile { submitted, items, threads, user, nodes } = self;
        let memory = Mebibytes::from_gib(draw.memory_gb);
        SimWork { name, user, class, memory, threads, nodes, submitted, items }
    }
}

fn number<T: FromStr>(key: &str, (line, value): (usize, &str)) -> Result<T, Flaw> {
    let flaw = || {
        Flaw::new(format!("line {line}"), format!("`{key}` is `{value}`"), "give a whole number")
    };
    value.parse().map_err(|_| flaw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_file_is_keys_and_values() {
        let text = "# licence\n\ntod = 5\nelapsed = 10 20\nthreads = 4\nuser = Hilaria\nmemory = 20\nclass = normal\n";
        let threads = NonZeroU64::new(4).unwrap();
        let expected = JobFile {
            submitted: 5,
            items: vec![10, 20],
            threads,
            user: "Hilaria".to_owned(),
            nodes: None,
        };
        assert_eq!(JobFile::parse(text), Ok(expected));
    }

    #[test]
    fn flaws_name_their_place_and_a_remedy() {
        let cases = [
            ("tod 5", "line 1", "it is not `key = value`"),
            ("\ntod = 5\nelapsed = 1 x", "line 3", "`elapsed` is `x`"),
            ("elapsed = 1\ntod = 0\nthreads = 0", "line 3", "`threads` is `0`"),
            ("elapsed = 1", "the file", "`tod` is missing"),
            ("elapsed =", "`elapsed`", "it lists no item"),
        ];
        for (text, place, problem) in cases {
            let flaw = JobFile::parse(text).unwrap_err();
            assert_eq!((flaw.place.as_str(), flaw.problem.as_str()), (place, problem), "{text}");
        }
    }
}
