//! A campaign as it is submitted.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::SpecProblem;
use super::early::{self, EarlyTasks};
use super::environment;
use super::fields::Fields;
use super::gang::{self, GangSpec};
use super::hooks;
use super::limits::{MAX_DURATION_MS, MAX_GRACE_MS, MAX_NAME, MAX_STDIN};
use super::mode::{self, CampaignMode};
use super::params::{self, Params, TaskRange, short};
use super::times::{self, CampaignTimes};
use super::waits;
use crate::model::{ActiveHours, is_hidden};
use crate::orchestrator::wire::{Checkpoint, Command, Stdin, TaskSpec, YoungBounds};

/// Fields of the design that this version does not have.
const LATER: [&str; 2] = ["cluster", "stage_in"];

/// Number of millionths in a whole.
const MILLION: u64 = 1_000_000;

/// The specification of a campaign, checked.
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CampaignSpec {
    /// Part of the specification that slots need.
    pub task: TaskSpec,
    /// Purpose of the tasks.
    #[serde(rename = "type")]
    pub kind: CampaignType,
    /// The numbers of the tasks.
    pub tasks: TaskRange,
    /// Memory of each slot, in MiB.
    pub memory_mb: u64,
    /// Size of the input of each task, in MiB. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_mb: Option<u64>,
    /// The resource class. Absent: the default of the resource manager.
    pub class: Option<String>,
    /// Number of tasks that run at a time in a slot, 1 to 256.
    pub lanes: u64,
    /// Limit of slots. Absent: no limit.
    pub max: Option<u64>,
    /// Number of attempts of a task that may fail before the task fails.
    pub retries: u64,
    /// Number of tasks that may fail before the campaign is cancelled. Absent: no limit.
    pub max_fails: Option<u64>,
    /// Larger memory for tasks that exceeded their memory. Absent: these tasks fail.
    pub memory_retry: Option<MemoryRetry>,
    /// True if exit 0 after a stop signal means that the task is done.
    pub stop_zero_is_done: bool,
    /// True if slots need a limit that the kernel enforces.
    pub needs_kernel_limit: bool,
    /// True if the resource manager may not preempt the campaign. It then has a single slot, of the
    /// kind `arbitrary_process`.
    pub keep: bool,
    /// Nodes that the campaign may use. Empty: any node.
    pub nodes: Vec<String>,
    /// True if tasks of a silent node begin again before its lease ran out. They may run twice, and
    /// the first result counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_run_twice: bool,
    /// Campaigns that have to be done before a task of this campaign begins, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<u64>,
    /// Hours of the week in which tasks may begin. Empty: always.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<String>,
    /// Mode of the campaign.
    #[serde(default, skip_serializing_if = "CampaignMode::is_default")]
    pub mode: CampaignMode,
    /// First tasks with a class of their own. Absent: all tasks have the class of the campaign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<EarlyTasks>,
    /// Gang of the campaign, whose ranks are the tasks. Absent: the tasks are independent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<GangSpec>,
    /// Program that runs once in the cluster before the first task. Absent: none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_prologue: Option<Command>,
    /// Program that runs once in the cluster after the last task. Absent: none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_epilogue: Option<Command>,
    /// Times by which the resource manager plans.
    #[serde(default, skip_serializing_if = "CampaignTimes::are_absent")]
    pub times: CampaignTimes,
}

/// Purpose of the tasks of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CampaignType {
    /// All tasks run.
    Default,
    /// A trial: the first task runs, all other tasks are dropped.
    Test,
}

/// Memory of further attempts of a task that exceeded its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRetry {
    /// The factor of each step, in millionths, above 1,000,000.
    pub factor: u64,
    /// Number of steps, 1 to 10.
    pub times: u64,
}

impl MemoryRetry {
    /// Reads `1.5x3`; `None` if it is something else.
    pub fn parse(text: &str) -> Option<MemoryRetry> {
        let (factor, times) = text.trim().split_once('x')?;
        let (whole, part) = factor.split_once('.').unwrap_or((factor, ""));
        let is_digits = part.len() <= 6 && part.chars().all(|c| c.is_ascii_digit());
        let part: u64 = if is_digits { format!("{part:0<6}").parse().ok()? } else { return None };
        let factor = whole.parse::<u64>().ok()?.checked_mul(MILLION)?.checked_add(part)?;
        let times = times.parse().ok()?;
        let fits = MILLION < factor && factor <= 100 * MILLION && (1..=10).contains(&times);
        fits.then_some(MemoryRetry { factor, times })
    }

    /// The memory of step `step`, in MiB, from `memory` of step 0.
    pub fn memory(self, memory: u64, step: u64) -> u64 {
        (0..step).fold(memory, |memory, _| {
            let more = memory.saturating_mul(self.factor).checked_div(MILLION);
            more.unwrap_or(memory).max(memory + 1)
        })
    }
}

impl CampaignSpec {
    /// Reads a document. `lines` and `items` are in the parameters.
    ///
    /// # Errors
    ///
    /// With every problem of the document.
    pub fn read(
        mut document: Map<String, Value>,
    ) -> Result<(CampaignSpec, Params), Vec<SpecProblem>> {
        let mut problems = Vec::new();
        for key in LATER.iter().filter(|key| document.remove(**key).is_some()) {
            let message = "this version does not have it";
            problems.push(SpecProblem::new(key, message, "remove it"));
        }
        let (mut tasks, params) = params::take(&mut document, &mut problems);
        let mut fields = Fields::new("", document, &mut problems);
        // Lines of a part of a campaign keep the numbers that they have in the whole.
        tasks.first = fields.number("first_task", 0, 1 << 53).unwrap_or(tasks.first);
        let name = name(&mut fields);
        let command = fields.command("write it after `--`, or as `command`");
        let task = task_spec(&mut fields, name, command.unwrap_or(Command::Argv(Vec::new())));
        let hooks = hooks::take(&mut fields);
        let mut spec = CampaignSpec {
            task,
            kind: kind(&mut fields),
            tasks,
            memory_mb: fields.size("memory").unwrap_or(1024),
            input_mb: fields.size("input_size"),
            class: fields
                .text("class", "write the name of a class")
                .filter(|name| !name.is_empty()),
            lanes: fields.number("lanes", 1, 256).unwrap_or(1),
            max: fields.number("max", 1, 100_000),
            retries: fields.number("retries", 0, 1000).unwrap_or(0),
            max_fails: fields.number("max_fails", 0, TaskRange::LARGEST),
            memory_retry: memory_retry(&mut fields),
            stop_zero_is_done: on_stop_zero(&mut fields),
            needs_kernel_limit: limits(&mut fields),
            keep: fields.flag("keep"),
            nodes: nodes(&mut fields),
            may_run_twice: fields.flag("may_run_twice"),
            after: waits::after(&mut fields),
            active: waits::active(&mut fields),
            mode: mode::take(&mut fields),
            first: early::take(&mut fields),
            gang: gang::take(&mut fields),
            cluster_prologue: None,
            cluster_epilogue: None,
            times: times::take(&mut fields),
        };
        fields.finish();
        hooks::settle(&mut spec, hooks);
        gang::settle(&mut spec, &params, &mut problems);
        early::settle(&mut spec, &mut problems);
        mode::settle(&spec, &mut problems);
        spec.check_keep(&mut problems);
        if problems.is_empty() { Ok((spec, params)) } else { Err(problems) }
    }

    /// The hours in which tasks may begin. Empty hours: always.
    pub fn hours(&self) -> ActiveHours {
        waits::hours_of(&self.active)
    }

    /// Returns the same campaign with `total` tasks, after tasks were added.
    pub fn with_total(mut self: Arc<CampaignSpec>, total: u64) -> Arc<CampaignSpec> {
        if self.tasks.count != total {
            Arc::make_mut(&mut self).tasks.count = total;
        }
        self
    }

    fn check_keep(&self, problems: &mut Vec<SpecProblem>) {
        if self.keep && self.gang.is_none() && self.tasks.count != 1 {
            let message = format!("{} tasks cannot be kept", self.tasks.count);
            problems.push(SpecProblem::new("keep", message, "submit one task, or remove it"));
        }
    }
}

fn name(fields: &mut Fields<'_>) -> String {
    let name = fields.text("name", "write a name").unwrap_or_default();
    if name.chars().any(is_hidden) {
        fields.fault("name", format!("`{}` has hidden characters", short(&name)), "remove them");
    } else if MAX_NAME < name.chars().count() {
        fields.fault("name", "is longer than 128 characters", "shorten it");
    }
    name
}

fn kind(fields: &mut Fields<'_>) -> CampaignType {
    match fields.text("type", "write \"default\" or \"test\"").as_deref() {
        None | Some("default") => CampaignType::Default,
        Some("test") => CampaignType::Test,
        Some(other) => {
            let message = format!("`{}` is unknown", short(other));
            fields.fault("type", message, "write \"default\" or \"test\"");
            CampaignType::Default
        }
    }
}

fn memory_retry(fields: &mut Fields<'_>) -> Option<MemoryRetry> {
    let text = fields.text("memory_retry", "write a factor and a number, such as \"1.5x3\"")?;
    let retry = MemoryRetry::parse(&text);
    if retry.is_none() {
        let message = format!("`{}` does not fit", short(&text));
        fields.fault(
            "memory_retry",
            message,
            "write a factor above 1 and a number, such as \"1.5x3\"",
        );
    }
    retry
}

fn on_stop_zero(fields: &mut Fields<'_>) -> bool {
    let remedy = "write \"queued\" or \"done\"";
    match fields.text("on_stop_zero", remedy).as_deref() {
        None | Some("queued") => false,
        Some("done") => true,
        Some(other) => {
            fields.fault("on_stop_zero", format!("`{}` is unknown", short(other)), remedy);
            false
        }
    }
}

fn limits(fields: &mut Fields<'_>) -> bool {
    let remedy = "write \"kernel\", or remove it";
    match fields.text("require_limits", remedy).as_deref() {
        None => false,
        Some("kernel") => true,
        Some(other) => {
            fields.fault("require_limits", format!("`{}` is unknown", short(other)), remedy);
            false
        }
    }
}

fn nodes(fields: &mut Fields<'_>) -> Vec<String> {
    let Some(text) = fields.text("nodes", "write a list of nodes, such as \"node[01-08]\"") else {
        return Vec::new();
    };
    crate::model::expand_hostlist(&text).unwrap_or_else(|error| {
        fields.fault("nodes", error.to_string(), "write a list of nodes, such as \"node[01-08]\"");
        Vec::new()
    })
}

fn task_spec(fields: &mut Fields<'_>, name: String, command: Command) -> TaskSpec {
    let cwd = fields.text("cwd", "write an absolute path").unwrap_or_else(|| "/".to_owned());
    if !cwd.starts_with('/') {
        fields.fault("cwd", format!("`{}` is not absolute", short(&cwd)), "begin it with `/`");
    }
    let environment = fields.texts("env").unwrap_or_default();
    let mut wrong = Vec::new();
    environment::check(&environment, "env", &mut wrong);
    for problem in wrong {
        fields.fault("env", problem.message, problem.remedy);
    }
    TaskSpec {
        name,
        command,
        environment,
        cwd,
        stdin: stdin(fields),
        output: path(fields, "output"),
        error: path(fields, "error"),
        time_limit_ms: fields.duration("time_limit", MAX_DURATION_MS).filter(|limit| 0 < *limit),
        grace_ms: fields.duration("grace", MAX_GRACE_MS).unwrap_or(30_000),
        stop_signal: fields.signal("stop_signal").unwrap_or(15),
        checkpoint: checkpoint(fields),
        prologue: None,
        epilogue: None,
        allows_leftovers: fields.flag("allow_leftovers"),
        oom_ends_task: oom(fields),
        finishes_unheard: on_unheard(fields),
        group_target_ms: fields.duration("group_target", 3_600_000).unwrap_or(10_000),
    }
}

/// Takes a path for output. The path may be absolute: the slot opens it with the rights of the
/// user.
fn path(fields: &mut Fields<'_>, key: &'static str) -> Option<String> {
    let path = fields.text(key, "write a path such as \"res/{task}.txt\"")?;
    if path.is_empty() || 4096 < path.len() || path.ends_with('/') {
        let message = format!("`{}` names no file", short(&path));
        fields.fault(key, message, "write a path such as \"res/{task}.txt\"");
    }
    Some(path)
}

fn stdin(fields: &mut Fields<'_>) -> Stdin {
    let file = fields.text("stdin", "write the path of a file");
    let most = u64::try_from(MAX_STDIN).unwrap_or(u64::MAX);
    let kept = fields.number("stdin_length", 0, most);
    match (file, kept) {
        (Some(_), Some(_)) => {
            fields.fault("stdin", "`stdin_length` is given too", "keep one of them");
            Stdin::Nothing
        }
        (Some(path), None) => Stdin::File(path),
        (None, Some(length)) => Stdin::Kept { length },
        (None, None) => Stdin::Nothing,
    }
}

fn oom(fields: &mut Fields<'_>) -> bool {
    let remedy = "write \"process\" or \"whole-task\"";
    match fields.text("oom", remedy).as_deref() {
        None | Some("process") => false,
        Some("whole-task") => true,
        Some(other) => {
            fields.fault("oom", format!("`{}` is unknown", short(other)), remedy);
            false
        }
    }
}

fn on_unheard(fields: &mut Fields<'_>) -> bool {
    let remedy = "write \"stop\" or \"finish\"";
    match fields.text("on_unheard", remedy).as_deref() {
        None | Some("stop") => false,
        Some("finish") => true,
        Some(other) => {
            fields.fault("on_unheard", format!("`{}` is unknown", short(other)), remedy);
            false
        }
    }
}

fn checkpoint(fields: &mut Fields<'_>) -> Option<Checkpoint> {
    let section = fields.section("checkpoint")?;
    let mut problems = Vec::new();
    let mut inner = Fields::new("checkpoint.", section, &mut problems);
    let signal = inner.signal("signal").unwrap_or(10);
    let (every_ms, young) = period(&mut inner);
    inner.finish();
    adopt(fields, problems);
    Some(Checkpoint { signal, every_ms, young })
}

/// Takes the period of checkpoints: a time, or the bounds of Young's formula.
fn period(inner: &mut Fields<'_>) -> (Option<u64>, Option<YoungBounds>) {
    if !inner.is_text("every", "young") {
        let every_ms = inner.duration("every", MAX_DURATION_MS);
        if every_ms.is_some_and(|every| every < 1000) {
            inner.fault("every", "is shorter than 1s", "write a longer time");
        }
        return (every_ms, None);
    }
    // The word was looked at.
    let _ = inner.take("every");
    let least_ms = inner.duration("least", MAX_DURATION_MS).unwrap_or(YoungBounds::LEAST_MS);
    let usual = YoungBounds::MOST_MS.max(least_ms);
    let most_ms = inner.duration("most", MAX_DURATION_MS).unwrap_or(usual);
    if least_ms < 1000 {
        inner.fault("least", "is shorter than 1s", "write a longer time");
    }
    if most_ms < least_ms {
        inner.fault("most", "is shorter than `least`", "write a longer time, or lower `least`");
    }
    (None, Some(YoungBounds { least_ms, most_ms }))
}

pub(super) fn adopt(fields: &mut Fields<'_>, problems: Vec<SpecProblem>) {
    for SpecProblem { field, message, remedy } in problems {
        fields.fault(&field, message, remedy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(CampaignSpec, Params), Vec<SpecProblem>> {
        let document: Map<String, Value> = toml::from_str(text).unwrap();
        CampaignSpec::read(document)
    }

    #[test]
    fn the_file_of_the_guide_is_read() {
        let text = r#"
            name = "sweep"
            command = ["./crunch", "{entry}", "--seed", "{task}"]
            memory = "4GB"
            input_size = "10GB"
            class = "normal"
            max = 200
            tasks = "1-100000"
            time_limit = "2h"
            retries = 2
            max_fails = 100
            memory_retry = "1.5x3"
            may_run_twice = true
            on_unheard = "finish"
            grace = "45s"
            stop_signal = "INT"
            checkpoint = { signal = "USR1", every = "20m" }
            output = "res/{task}.txt"
            cwd = "/home/ann"
            [prologue]
            command = ["./fetch-model"]
            [epilogue]
            shell = "collect | mail"
        "#;
        let (spec, params) = read(text).unwrap();
        assert_eq!((spec.tasks, params), (TaskRange::up_to(100_000), Params::Numbers));
        assert_eq!((spec.memory_mb, spec.max, spec.retries), (4096, Some(200), 2));
        assert_eq!(spec.input_mb, Some(10_240));
        assert!(spec.may_run_twice && spec.task.finishes_unheard);
        assert_eq!(spec.task.time_limit_ms, Some(7_200_000));
        assert_eq!((spec.task.grace_ms, spec.task.stop_signal), (45_000, 2));
        let checkpoint = Checkpoint { signal: 10, every_ms: Some(1_200_000), young: None };
        assert_eq!(spec.task.checkpoint, Some(checkpoint));
        assert_eq!(spec.task.epilogue, Some(Command::Shell("collect | mail".to_owned())));
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<CampaignSpec>(&text).unwrap(), spec);
    }

    #[test]
    fn checkpoints_have_a_period_or_follow_young() {
        let of = |text: &str| {
            let text = format!("command = [\"a\"]\ncheckpoint = {{ {text} }}");
            read(&text)
                .map(|(spec, _)| spec.task.checkpoint.unwrap())
                .map_err(|it| it[0].to_string())
        };
        let young = |least_ms, most_ms| Some(YoungBounds { least_ms, most_ms });
        assert_eq!(of("every = \"young\"").unwrap().young, young(60_000, 86_400_000));
        let bounds = of("every = \"young\", least = \"5s\", most = \"1h\"").unwrap();
        assert_eq!((bounds.every_ms, bounds.young), (None, young(5_000, 3_600_000)));
        for (text, start) in [
            ("every = \"yung\"", "checkpoint.every: `\"yung\"` does not fit"),
            ("every = \"20m\", least = \"5s\"", "checkpoint.least: is unknown"),
            ("every = \"young\", least = \"5ms\"", "checkpoint.least: is shorter than 1s"),
            ("every = \"young\", most = \"5s\"", "checkpoint.most: is shorter than `least`"),
        ] {
            let told = of(text).unwrap_err();
            assert!(told.starts_with(start), "{told}");
        }
    }

    #[test]
    fn every_problem_is_told_at_once() {
        let text = "type = \"tset\"\nmemory = \"4\"\nlane = 2\nretries = -1\nmode = \"x\"\n\
                    checkpoint = { signal = \"FOO\" }\non_unheard = \"go\"\nname = \"a\\nb\"\n";
        let problems = read(text).unwrap_err();
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        for start in [
            "mode: `x` is unknown; write one of workqueue, prediction, finalise",
            "name: `a?b` has hidden characters",
            "command: no program is given",
            "checkpoint.signal: `\"FOO\"` does not fit",
            "type: `tset` is unknown; write \"default\" or \"test\"",
            "memory: `\"4\"` does not fit",
            "retries: `-1` does not fit",
            "on_unheard: `go` is unknown; write \"stop\" or \"finish\"",
            "lane: is unknown; did you mean `lanes`?",
        ] {
            assert!(told.iter().any(|told| told.starts_with(start)), "{start}: {told:#?}");
        }
        assert_eq!(told.len(), 9, "{told:#?}");
        assert_eq!(super::super::line_of(text, "retries"), Some(4));
        assert_eq!(super::super::line_of(text, "checkpoint.signal"), Some(6));
        assert_eq!(super::super::line_of(text, "command"), None);
    }

    #[test]
    fn a_command_that_no_kernel_takes_is_refused() {
        let text = format!("command = [\"a\", \"{}\"]", "x".repeat(10_000_000));
        let problems = read(&text).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].to_string().contains("is longer than 131071"), "{problems:?}");
    }

    #[test]
    fn memory_grows_by_steps() {
        let retry = MemoryRetry::parse("1.5x3").unwrap();
        assert_eq!([0, 1, 2, 3].map(|step| retry.memory(1000, step)), [1000, 1500, 2250, 3375]);
        for bad in ["1x3", "2", "2x0", "2x11", "1.1234567x2", "ax2"] {
            assert_eq!(MemoryRetry::parse(bad), None, "{bad}");
        }
    }
}
