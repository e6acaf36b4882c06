//! The campaign file of a child campaign: a part of a campaign, as another cluster gets it.

use serde_json::{Map, Value, json};

use crate::model::count;
use crate::orchestrator::book::{ForwardableCampaign, ForwardedBatch};
use crate::orchestrator::spec::{CampaignSpec, CampaignType};
use crate::orchestrator::store::{DbError, StoreReader};
use crate::orchestrator::wire::{Command, Stdin};

/// The document of the child campaign of a batch. `None`: its range is not known any more.
pub(super) async fn child_of(
    batch: &ForwardedBatch,
    campaign: &ForwardableCampaign,
    reader: &mut StoreReader,
) -> Result<Option<Value>, DbError> {
    let tasks = || batch.tasks.iter().map(|task| task.id.task);
    let (Some(first), Some(last)) = (tasks().min(), tasks().max()) else { return Ok(None) };
    let mut texts = Vec::new();
    for task in tasks() {
        let Some(position) = campaign.spec.tasks.position(task) else { return Ok(None) };
        texts.extend(reader.param(batch.campaign, position).await?);
    }
    let texts = (count(&texts) == count(&batch.tasks)).then_some(texts);
    let memory_mb = campaign.memory_mb;
    let (spec, owner) = (&campaign.spec, &campaign.owner);
    Ok(Some(child(spec, owner, memory_mb, (first, last), texts)))
}

/// Writes the document of a child campaign. `tasks`: the numbers of the first and the last task.
/// `texts`: their entries, if they have any.
///
/// A child fails its tasks at once: the campaign decides on another attempt.
fn child(
    spec: &CampaignSpec,
    owner: &str,
    memory_mb: u64,
    (first, last): (u64, u64),
    texts: Option<Vec<String>>,
) -> Value {
    let task = &spec.task;
    let millis = |ms: u64| format!("{ms}ms");
    let mut document = json!({
        "user": owner,
        "name": task.name,
        "memory": format!("{memory_mb}MB"),
        "lanes": spec.lanes,
        "env": task.environment,
        "cwd": task.cwd,
        "grace": millis(task.grace_ms),
        "stop_signal": task.stop_signal.to_string(),
        "allow_leftovers": task.allows_leftovers,
        "group_target": millis(task.group_target_ms),
        "on_stop_zero": if spec.stop_zero_is_done { "done" } else { "queued" },
        "oom": if task.oom_ends_task { "whole-task" } else { "process" },
        "on_unheard": if task.finishes_unheard { "finish" } else { "stop" },
    });
    let Some(fields) = document.as_object_mut() else { return document };
    let mut put = |key: &str, value: Value| drop(fields.insert(key.to_owned(), value));
    match texts {
        Some(texts) => {
            put("lines", json!(texts));
            put("first_task", json!(first));
        }
        None => put("tasks", json!(format!("{first}-{last}:{}", spec.tasks.step))),
    }
    let (key, value) = program(&task.command);
    put(key, value);
    let hooks = [("prologue", &task.prologue), ("epilogue", &task.epilogue)];
    for (name, hook) in hooks.into_iter().filter_map(|(name, hook)| Some((name, hook.as_ref()?))) {
        let (key, value) = program(hook);
        put(name, Value::Object(Map::from_iter([(key.to_owned(), value)])));
    }
    let paths = [("output", &task.output), ("error", &task.error), ("class", &spec.class)];
    for (key, text) in paths.into_iter().filter_map(|(key, text)| Some((key, text.as_ref()?))) {
        put(key, json!(text));
    }
    if let Stdin::File(path) = &task.stdin {
        put("stdin", json!(path));
    }
    if let Some(limit) = task.time_limit_ms {
        put("time_limit", json!(millis(limit)));
    }
    if spec.kind == CampaignType::Test {
        put("type", json!("test"));
    }
    if spec.needs_kernel_limit {
        put("require_limits", json!("kernel"));
    }
    if let Some(checkpoint) = task.checkpoint {
        let mut section = json!({ "signal": checkpoint.signal.to_string() });
        if let Some(every) = checkpoint.every_ms {
            section["every"] = json!(millis(every));
        }
        if let Some(young) = checkpoint.young {
            section["every"] = json!("young");
            section["least"] = json!(millis(young.least_ms));
            section["most"] = json!(millis(young.most_ms));
        }
        put("checkpoint", section);
    }
    document
}

fn program(command: &Command) -> (&'static str, Value) {
    match command {
        Command::Argv(words) => ("command", json!(words)),
        Command::Shell(text) => ("shell", json!(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orchestrator::spec::Params;

    fn read(value: Value) -> (CampaignSpec, Params) {
        let Value::Object(mut document) = value else { panic!("{value}") };
        // The routes take the user out of a document.
        document.remove("user");
        CampaignSpec::read(document).unwrap()
    }

    /// The specification that a cluster reads is the same, but for tries and numbers.
    #[test]
    fn a_child_says_what_its_campaign_says() {
        let file = json!({
            "name": "sweep", "command": ["./crunch", "{entry}", "{task}"], "memory": "4GB",
            "class": "normal", "lanes": 2, "tasks": "3-99:4", "time_limit": "2h", "grace": "45s",
            "stop_signal": "INT", "checkpoint": { "signal": "USR1", "every": "20m" },
            "output": "res/{task}.txt", "error": "err", "cwd": "/home/ann", "stdin": "in/{task}",
            "env": { "LANG": "C" }, "prologue": { "shell": "fetch" },
            "epilogue": { "command": ["collect"] }, "allow_leftovers": true, "oom": "whole-task",
            "on_unheard": "finish", "on_stop_zero": "done", "require_limits": "kernel",
            "group_target": "1s", "retries": 3, "max_fails": 5, "memory_retry": "2x2",
            "input_size": "10GB",
        });
        let (whole, _) = read(file);
        let (part, params) = read(child(&whole, "ann", 4096, (7, 11), None));
        assert_eq!(params, Params::Numbers);
        let range = part.tasks;
        assert_eq!((range.at(0), range.at(1), range.at(2)), (Some(7), Some(11), None));
        assert_eq!((part.retries, part.max_fails, part.memory_retry), (0, None, None));
        let as_whole = CampaignSpec {
            tasks: whole.tasks,
            retries: whole.retries,
            max_fails: whole.max_fails,
            memory_retry: whole.memory_retry,
            input_mb: whole.input_mb,
            ..part
        };
        assert_eq!(as_whole, whole);
    }

    #[test]
    fn entries_keep_the_numbers_of_their_tasks() {
        let (whole, _) = read(json!({ "shell": "x", "lines": ["a", "b", "c", "d"] }));
        let texts = Some(vec!["b".to_owned(), "c".to_owned()]);
        let (part, params) = read(child(&whole, "ann", 512, (2, 3), texts));
        assert_eq!((part.tasks.at(0), part.tasks.at(1), part.memory_mb), (Some(2), Some(3), 512));
        assert_eq!(params, Params::Texts(vec!["b".to_owned(), "c".to_owned()]));
    }
}
