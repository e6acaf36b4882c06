//! Placeholders, and the environment of a task.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;

use super::wire::SlotSettings;
use crate::model::floor_div;
use crate::orchestrator::wire::{AttemptId, NewTask, TaskSpec};

/// Search path for programs if the specification sets none.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Values of placeholders.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// The attempt; `None` in prologues and epilogues.
    pub attempt: Option<AttemptId>,
    /// The number of the campaign.
    pub campaign: u64,
    /// The name of the node.
    pub node: &'a str,
    /// The parameter of the task.
    pub param: Option<&'a str>,
}

impl Words<'_> {
    /// `text` with its placeholders replaced.
    pub fn fill(&self, text: &str) -> String {
        self.fill_with(text, |entry| entry)
    }

    /// `text` with its placeholders replaced, for a path: the parameter may not lead into another
    /// folder.
    pub fn fill_path(&self, text: &str) -> String {
        self.fill_with(text, |entry| entry.replace('/', "_"))
    }

    fn fill_with(&self, text: &str, entry: impl Fn(String) -> String) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        // The value of a placeholder is not searched for placeholders.
        while let Some(at) = rest.find('{') {
            let (before, from) = rest.split_at(at);
            filled.push_str(before);
            let known = from.find('}').and_then(|end| {
                let word = self.word(from.get(1..end)?, &entry)?;
                Some((word, end + 1))
            });
            let (word, length) = known.unwrap_or_else(|| ("{".to_owned(), 1));
            filled.push_str(&word);
            rest = from.get(length..).unwrap_or_default();
        }
        filled.push_str(rest);
        filled
    }

    fn word(&self, name: &str, entry: impl Fn(String) -> String) -> Option<String> {
        Some(match name {
            "campaign" => self.campaign.to_string(),
            "node" => self.node.to_owned(),
            "task" => self.attempt?.task.to_string(),
            "attempt" => self.attempt?.attempt.to_string(),
            "entry" => match self.param {
                Some(param) => entry(param.to_owned()),
                None => self.attempt?.task.to_string(),
            },
            _ => return None,
        })
    }
}

/// Files and folders for a start of a program, all in the folder of the slot but the last.
#[derive(Clone, Debug)]
pub struct TaskPaths<'a> {
    /// The folder for temporary files, which goes with the task.
    pub temporary: &'a Path,
    /// The file for the task's own text about a failure.
    pub error: &'a Path,
    /// The file with the names of the nodes.
    pub nodes: &'a Path,
    /// The folder for checkpoints.
    pub checkpoints: &'a Path,
}

/// The environment of a task, or of a prologue or epilogue if there is no `task`.
pub fn environment(
    settings: &SlotSettings,
    spec: &TaskSpec,
    task: Option<&NewTask>,
    places: &TaskPaths<'_>,
) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::from([("PATH".to_owned(), DEFAULT_PATH.to_owned())]);
    variables.extend(spec.environment.clone());
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let mut set = |names: &[&str], value: String| {
        variables.extend(names.iter().map(|name| ((*name).to_owned(), value.clone())));
    };
    let user = &settings.start.user;
    set(&["HOME"], settings.home.clone());
    set(&["USER", "LOGNAME", "APPORTION_USER"], user.clone());
    set(&["SHELL"], settings.shell.clone());
    set(&["PWD", "APPORTION_WORKDIR", "APPORTION_WORKING_DIRECTORY"], spec.cwd.clone());
    set(&["TMPDIR"], path(places.temporary));
    set(&["APPORTION_NODE_FILE", "APPORTION_NODEFILE"], path(places.nodes));
    set(&["APPORTION_RESOURCES"], "1".to_owned());
    let limit = spec.time_limit_ms.unwrap_or(0);
    set(&["APPORTION_WALLTIME"], clock_time(limit));
    set(&["APPORTION_WALLTIME_SECONDS"], seconds(limit).to_string());
    set(&["APPORTION_SLOT"], settings.slot.clone());
    set(&["APPORTION_NODE"], settings.node.clone());
    set(&["APPORTION_MEMORY_MB"], settings.start.memory_mb.to_string());
    let campaign = settings.start.campaign.to_string();
    set(&["APPORTION_CAMPAIGN_ID", "APPORTION_CAMPAIGNID"], campaign.clone());
    set(&["APPORTION_ERROR_FILE"], path(places.error));
    let Some(NewTask { task, param, .. }) = task else { return variables };
    let number = task.task.to_string();
    set(&["APPORTION_TASK_ID", "APPORTION_TASKID"], number.clone());
    set(&["APPORTION_TASK_NAME", "APPORTION_TASKNAME"], format!("{campaign}.{number}"));
    set(&["APPORTION_ATTEMPT"], task.attempt.to_string());
    set(&["APPORTION_ENTRY"], param.clone().unwrap_or(number));
    set(&["APPORTION_CHECKPOINT_DIR"], path(places.checkpoints));
    variables
}

const MS_PER_SECOND: NonZeroU64 = NonZeroU64::new(1_000).unwrap();
const SIXTY: NonZeroU64 = NonZeroU64::new(60).unwrap();

fn seconds(ms: u64) -> u64 {
    floor_div(ms, MS_PER_SECOND)
}

/// Hours, minutes and seconds: `2:00:00`.
fn clock_time(ms: u64) -> String {
    let seconds = seconds(ms);
    let minutes = floor_div(seconds, SIXTY);
    format!("{}:{:02}:{:02}", floor_div(minutes, SIXTY), minutes % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_once() {
        let attempt = AttemptId { campaign: 9, task: 17, attempt: 2 };
        let words = |param| Words { attempt: Some(attempt), campaign: 9, node: "n1", param };
        let all = "{campaign}.{task}#{attempt} {node} {entry}";
        assert_eq!(words(Some("a/{task}")).fill(all), "9.17#2 n1 a/{task}");
        assert_eq!(words(None).fill(all), "9.17#2 n1 17");
        assert_eq!(words(Some("../a/b")).fill_path("res/{entry}"), "res/.._a_b");
        for text in ["{", "}", "{}", "{x}", "a{{b}", "{task", "{ task }", "ä{ö}"] {
            assert_eq!(words(None).fill(text), text);
        }
        assert_eq!(words(None).fill("{{task}}"), "{17}");
    }

    #[test]
    fn times_are_written_as_on_a_clock() {
        assert_eq!(clock_time(7_205_999), "2:00:05");
        assert_eq!(clock_time(0), "0:00:00");
    }
}
