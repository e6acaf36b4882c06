//! The specification of tasks that a slot needs to run them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The specification of the tasks of a campaign, the same for all of them.
///
/// # Placeholders
///
/// `{campaign}`, `{task}`, `{attempt}`, `{node}` and `{entry}` are replaced in every word of
/// `command`, `prologue` and `epilogue`, and in `output` and `error`. `{entry}` is the parameter of
/// the task, or its number if it has none; in `output` and `error` each `/` of it becomes `_`. All
/// other braces stay as they are. A shell text is not changed: it has the environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskSpec {
    /// The name of the campaign.
    pub name: String,
    /// The program of each task.
    pub command: Command,
    /// Environment variables that the user chose.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The working directory, an absolute path that has to exist on the node.
    pub cwd: String,
    /// The standard input of each task.
    #[serde(default, skip_serializing_if = "Stdin::is_nothing")]
    pub stdin: Stdin,
    /// The file for standard output, relative to `cwd`. Absent: the spool of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The file for standard error, relative to `cwd`. Absent: the spool of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Longest time that a task may run, in milliseconds. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_ms: Option<u64>,
    /// Time between the stop signal and the kill, in milliseconds: 0 to 600,000.
    pub grace_ms: u64,
    /// The number of the signal that asks a task to end, 1 to 64.
    pub stop_signal: u8,
    /// The signal that asks a task to save. Absent: none is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Program that must exit with 0 in a slot before its first task. Absent: no prologue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prologue: Option<Command>,
    /// Program that runs in a slot after its last task. Absent: no epilogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epilogue: Option<Command>,
    /// True if processes that a task leaves behind may live until the slot ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allows_leftovers: bool,
    /// True if a process over the limit ends its whole task, and not only itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oom_ends_task: bool,
    /// True if a slot without exchanges for longer than its lease goes on to the end of its queue.
    /// False: the slot then ends its tasks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finishes_unheard: bool,
    /// Time between two requests of a slot for more tasks, in milliseconds: a target. A slot holds
    /// about that much work, 50 tasks at most. 0: the slot holds its running tasks and a further
    /// task.
    #[serde(default)]
    pub group_target_ms: u64,
}

impl TaskSpec {
    /// A specification for tests: `true` in `/`, nothing else.
    #[cfg(test)]
    pub(crate) fn example() -> TaskSpec {
        TaskSpec {
            name: "example".to_owned(),
            command: Command::Argv(vec!["true".to_owned()]),
            environment: BTreeMap::new(),
            cwd: "/".to_owned(),
            stdin: Stdin::Nothing,
            output: None,
            error: None,
            time_limit_ms: None,
            grace_ms: 30_000,
            stop_signal: 15,
            checkpoint: None,
            prologue: None,
            epilogue: None,
            allows_leftovers: false,
            oom_ends_task: false,
            finishes_unheard: false,
            group_target_ms: 10_000,
        }
    }
}

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Program and arguments, at least a word. No shell reads them.
    Argv(Vec<String>),
    /// A text for `sh -c`.
    Shell(String),
}

/// The standard input of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stdin {
    /// No standard input: it ends at once.
    #[default]
    Nothing,
    /// A file on the node, relative to the working directory. Placeholders are replaced.
    File(String),
    /// Bytes that the orchestrator keeps. The agent fetches them once for a slot, with
    /// `GET /v1/nodes/{node}/stdin/{spec}`.
    Kept {
        /// Number of bytes, at most 64 MiB.
        length: u64,
    },
}

impl Stdin {
    /// True if the tasks have no standard input.
    pub fn is_nothing(&self) -> bool {
        *self == Stdin::Nothing
    }
}

/// Signal that asks tasks to save their work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Checkpoint {
    /// The number of the signal, 1 to 64.
    pub signal: u8,
    /// Time between two signals, in milliseconds, at least 1,000. Absent: before a stop only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
    /// Bounds of a period by Young's formula. Absent: the period is `every_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub young: Option<YoungBounds>,
}

/// Bounds of a period by Young's formula: the square root of twice the time that a checkpoint takes, times the
/// mean time between two interruptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct YoungBounds {
    /// The shortest period, in milliseconds, at least 1,000. Until a first checkpoint is confirmed, it is the
    /// period.
    pub least_ms: u64,
    /// The longest period, in milliseconds.
    pub most_ms: u64,
}

impl YoungBounds {
    /// The shortest period where the campaign says none: a minute.
    pub const LEAST_MS: u64 = 60_000;
    /// The longest period where the campaign says none: a day.
    pub const MOST_MS: u64 = 86_400_000;

    /// Period of checkpoints that take `cost_ms`, with interruptions `interruption_ms` apart; all in
    /// milliseconds. `None`: no checkpoint was confirmed yet.
    pub fn period(self, cost_ms: Option<u64>, interruption_ms: u64) -> u64 {
        let Some(cost_ms) = cost_ms else { return self.least_ms };
        // Both are below 2^64, so the product of the two fits, and twice it may not.
        let product = (u128::from(cost_ms) * u128::from(interruption_ms)).saturating_mul(2);
        let period = u64::try_from(product.isqrt()).unwrap_or(u64::MAX);
        period.min(self.most_ms).max(self.least_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published examples of the formula, and what bounds and extremes make of it.
    #[test]
    fn the_period_is_the_root_of_twice_cost_times_interruption() {
        let bounds = YoungBounds { least_ms: 1_000, most_ms: 100_000_000 };
        for (cost_ms, interruption_ms, expected) in [
            (Some(20_000), 36_000_000, 1_200_000),
            (Some(300_000), 86_400_000, 7_200_000),
            (Some(10_000), 86_400_000, 1_314_534),
            (Some(0), 86_400_000, 1_000),
            (Some(1), 1, 1_000),
            (Some(u64::MAX), u64::MAX, 100_000_000),
            (None, 86_400_000, 1_000),
        ] {
            assert_eq!(bounds.period(cost_ms, interruption_ms), expected, "{cost_ms:?}");
        }
        let usual = YoungBounds { least_ms: YoungBounds::LEAST_MS, most_ms: YoungBounds::MOST_MS };
        assert_eq!(usual.period(Some(1), 1_000_000), 60_000);
        assert_eq!(usual.period(Some(86_400_000), u64::MAX), 86_400_000);
    }

    #[test]
    fn a_specification_survives_the_wire() {
        let mut spec = TaskSpec::example();
        spec.environment.insert("LANG".to_owned(), "C.UTF-8".to_owned());
        spec.stdin = Stdin::Kept { length: 12 };
        spec.output = Some("res/{task}.txt".to_owned());
        spec.checkpoint = Some(Checkpoint { signal: 10, every_ms: Some(1_200_000), young: None });
        spec.prologue = Some(Command::Shell("fetch model".to_owned()));
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<TaskSpec>(&text).unwrap(), spec);
        assert!(text.contains(r#""command":{"argv":["true"]}"#), "{text}");
        assert!(text.contains(r#""prologue":{"shell":"fetch model"}"#), "{text}");
    }
}
