//! A scenario as it is written: the README's words, checked for shape and not yet for sense.
//!
//! A scenario that is written back has the same words; an absent key stays absent.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::shape::ShapeInput;
use crate::model::Millis;

/// A cluster and the events on it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Scenario {
    pub name: String,
    pub config: ScenarioConfig,
    #[serde(default)]
    pub options: PlayOptions,
    pub cycles: Vec<CycleInput>,
}

impl Scenario {
    /// True if the scenario has a clock. Its document then tells reasons as codes with numbers.
    pub fn has_clock(&self) -> bool {
        self.cycles.iter().any(|cycle| cycle.at_ms.is_some())
    }
}

/// The configuration. Absent keys take the original's defaults: see `config`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioConfig {
    #[serde(rename = "quantumGB", skip_serializing_if = "Option::is_none")]
    pub quantum_gb: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragmentation_threshold: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defragmentation: Option<bool>,
    #[serde(rename = "globalAllotmentGB", skip_serializing_if = "Option::is_none")]
    pub global_allotment_gb: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_global_allotment: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization_cap: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expand_by_doubling: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prediction: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prediction_fudge_ms: Option<u64>,
    #[serde(rename = "reserveOverageGB", skip_serializing_if = "Option::is_none")]
    pub reserve_overage_gb: Option<u64>,
    #[serde(rename = "reservedDramGB", skip_serializing_if = "Option::is_none")]
    pub reserved_dram_gb: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orchestrator_rate_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rm_ratio: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_stability: Option<u32>,
    /// The original's own properties, by name: they win over the keys above.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, Value>,
    pub nodepools: Vec<PoolInput>,
    pub classes: Vec<ClassInput>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UserInput>,
    /// Tags of nodes; later entries add to earlier ones, and replace them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_tags: Vec<NodeTagsInput>,
    /// Keys of tags; each value of a key is a placement set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement_sets: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span_sets: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice_ms: Option<Millis>,
}

/// Tags of some nodes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTagsInput {
    /// Host list.
    pub nodes: String,
    /// Of every so many names of the list the first gets the tags. Absent: every name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<NonZeroUsize>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preference: Option<i32>,
}

/// A nodepool.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolInput {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_order: Option<u32>,
    /// Top-level pools only.
    #[serde(rename = "quantumGB", skip_serializing_if = "Option::is_none")]
    pub quantum_gb: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// A class.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassInput {
    pub name: String,
    pub policy: PolicyInput,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// The first pool if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodepool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization_cap: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expand_by_doubling: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_prediction: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prediction_fudge_ms: Option<u64>,
    /// Names with a space between them; all users if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<String>,
    /// True if it takes requests with chunks; false if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gangs: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<u64>,
    /// Spans in which the class is open, relative to the start. Absent: always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<Vec<(Millis, Millis)>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration_ms: Option<Millis>,
    /// True if work of it comes by the urgent event; false if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub urgent: Option<bool>,
}

/// A policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PolicyInput {
    FairShare,
    FixedShare,
    Reserve,
}

/// A user with an allotment.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct UserInput {
    pub name: String,
    #[serde(rename = "maxAllotmentGB")]
    pub max_allotment_gb: u64,
    /// No limit if absent.
    #[serde(default, rename = "urgentAllotmentGB", skip_serializing_if = "Option::is_none")]
    pub urgent_allotment_gb: Option<u64>,
}

/// Events that happen without an entry in the scenario.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_field_names, reason = "the names of the format")]
pub struct PlayOptions {
    /// True if preempted shares are gone in the next cycle.
    pub auto_confirm: bool,
    /// Progress of jobs; absent if jobs make none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_run: Option<AutoRun>,
    /// True if work ends by itself once it has run for its `runsForMs`.
    #[serde(skip_serializing_if = "is_default")]
    pub auto_end: bool,
}

impl Default for PlayOptions {
    fn default() -> PlayOptions {
        PlayOptions { auto_confirm: true, auto_run: None, auto_end: false }
    }
}

/// Progress of jobs from cycle to cycle.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoRun {
    pub init_ms: u64,
    pub time_per_item_ms: u64,
    pub items_per_process: u64,
    pub invest_per_cycle_ms: u64,
}

/// Events before a schedule.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CycleInput {
    /// Time since the start of the scenario. Without it, a publication period after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<Millis>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventInput>,
}

/// All kinds of events.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "e", rename_all = "lowercase")]
pub enum EventInput {
    Nodes(NodesInput),
    Node(NodeInput),
    Quiesce {
        name: String,
    },
    Miss {
        name: String,
        count: u32,
    },
    Dead {
        names: Vec<String>,
    },
    VaryOff {
        names: Vec<String>,
    },
    VaryOn {
        names: Vec<String>,
    },
    Job(Box<JobInput>),
    Update(UpdateInput),
    Run(RunInput),
    Proc(ProcInput),
    ProcDone {
        id: u64,
        sel: Selector,
    },
    Done {
        id: u64,
    },
    Confirm {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    /// Nodes are kept for a span of time.
    Reserve(WindowInput),
    Unreserve {
        name: String,
    },
    /// Work that comes by the urgent channel.
    Urgent {
        job: Box<JobInput>,
    },
    Whitelist {},
    Reconfigure {
        config: Box<ScenarioConfig>,
    },
}

/// Reports of nodes: a list of names and sizes, or a host list of nodes of the same size.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct NodesInput {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub list: Vec<(String, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// Size of the nodes of the range.
    #[serde(default, rename = "memGB", skip_serializing_if = "is_default")]
    pub memory_gb: u64,
}

/// A span of time in which nodes are kept, relative to the start of the scenario.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WindowInput {
    pub name: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: WindowKindInput,
    /// Host list.
    pub nodes: String,
    pub from_ms: Millis,
    pub to_ms: Millis,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
}

/// Purpose of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WindowKindInput {
    #[default]
    Reservation,
    Maintenance,
}

/// A node's report.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct NodeInput {
    pub name: String,
    #[serde(rename = "memGB")]
    pub memory_gb: u64,
}

/// Kind of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KindInput {
    #[default]
    Job,
    Service,
    Ap,
    Reservation,
}

/// Work.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobInput {
    pub id: u64,
    pub user: String,
    pub class: String,
    /// Absent where there are chunks.
    #[serde(rename = "memGB", skip_serializing_if = "Option::is_none")]
    pub memory_gb: Option<u64>,
    #[serde(default = "one")]
    pub threads: u64,
    #[serde(default = "ten")]
    pub work_items: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub completed: u64,
    /// Unlimited if absent, frozen if negative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_processes: Option<i64>,
    #[serde(default, rename = "type", skip_serializing_if = "is_default")]
    pub kind: KindInput,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "machines")]
    pub nodes: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub service_id: u64,
    /// By order of arrival if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submit: Option<u64>,
    /// How long it runs; by `autoEnd` it ends then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_for_ms: Option<Millis>,
    #[serde(flatten)]
    pub shape: ShapeInput,
}

/// True if an absent key gives the same value.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn one() -> u64 {
    1
}

fn ten() -> u64 {
    10
}

/// Changed facts of a job; an absent field did not change.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateInput {
    pub id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work_items: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub time_per_item_ms: TimeInput,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_processes: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completing: Option<bool>,
    /// Number of processes that the owner of an evolving job asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
}

/// A time per item: absent, `null`, or a number of milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "Option<u64>", into = "Option<u64>")]
pub enum TimeInput {
    #[default]
    Unchanged,
    Unknown,
    Known(u64),
}

impl From<Option<u64>> for TimeInput {
    fn from(present: Option<u64>) -> TimeInput {
        present.map_or(TimeInput::Unknown, TimeInput::Known)
    }
}

impl From<TimeInput> for Option<u64> {
    fn from(time: TimeInput) -> Option<u64> {
        match time {
            // `Unchanged` is not written at all, `Unknown` is written as `null`.
            TimeInput::Unchanged | TimeInput::Unknown => None,
            TimeInput::Known(time) => Some(time),
        }
    }
}

/// Work runs: all its shares have initialized.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunInput {
    pub id: u64,
    #[serde(default = "second")]
    pub time_per_item_ms: u64,
    #[serde(default = "second")]
    pub init_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub investment_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
}

fn second() -> u64 {
    1_000
}

/// Changed facts of the processes of some shares.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcInput {
    pub id: u64,
    pub sel: Selector,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialized: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub investment_ms: Option<u64>,
}

/// Selection of a job's shares, oldest first: first filtered, then by position.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_remove: Option<bool>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub all: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// The first position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<usize>,
    /// The position after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<usize>,
}
