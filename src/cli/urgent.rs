//! Urgent work: accepted or refused at once, from flags, a file, or both.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::{Map, Value};

use super::client::DaemonClient;
use super::failure::{Failure, FailureKind};
use super::node_words::names;
use super::output::show;
use super::remote::Remote;
use super::table::plain;
use super::user_name::own_name;
use super::values::parse_span;
use crate::api::wire::{UrgentAnswer, UrgentLoss};
use crate::config;
use crate::model::{Mebibytes, count, counted, span};

/// End of the help of `urgent`.
pub const EXAMPLES: &str = "\
Examples:
  apportion urgent --id 4711 --class alarm --memory 8GB --time 1h
  apportion urgent --id 4711 --class alarm --memory 2GB --nodes 4 --exclusive
  apportion urgent job.json --json

FILE is an item of a publication, in JSON; `-` is standard input. Flags replace what it says. The
orchestrator has to publish the job from then on, or it ends. Repeating a request changes nothing.

Exit status: 0 accepted   1 refused by a rule or the limit of 10 a minute   6 refused: no space";

/// Submits urgent work.
#[derive(Debug, Args)]
pub struct UrgentArgs {
    /// A file with the job, as in a publication; `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The number of the job, which no other job has
    #[arg(long, value_name = "N", required_unless_present = "file")]
    pub id: Option<u64>,
    /// The resource class; it takes urgent work
    #[arg(long)]
    pub class: Option<String>,
    /// The user of the job; without it, you
    #[arg(long)]
    pub user: Option<String>,
    /// Memory of each process
    #[arg(long, value_name = "SIZE", value_parser = config::size, required_unless_present = "file")]
    pub memory: Option<Mebibytes>,
    /// Nodes that start together, with a process on each
    #[arg(long, value_name = "N")]
    pub nodes: Option<u64>,
    /// Have nothing else on these nodes
    #[arg(long, requires = "nodes")]
    pub exclusive: bool,
    /// Tags that each node must have
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    pub tags: Vec<String>,
    /// The longest that the job runs: 2h, 90m
    #[arg(long, value_name = "LENGTH", value_parser = parse_span)]
    pub time: Option<std::time::Duration>,
    /// The daemon to ask.
    #[command(flatten)]
    pub remote: Remote,
}

/// Runs the command.
///
/// # Errors
///
/// If the daemon cannot be reached, or refuses the job.
pub async fn run(args: &UrgentArgs) -> Result<(), Failure> {
    let mut item = match &args.file {
        Some(file) => read_item(file)?,
        None => Map::new(),
    };
    put(args, &mut item);
    let client = DaemonClient::new(&args.remote)?;
    let answer: UrgentAnswer = client.post(&["v1", "urgent"], &Value::Object(item)).await?;
    Ok(show(&answer, args.remote.json, render)?)
}

fn read_item(path: &Path) -> Result<Map<String, Value>, Failure> {
    let bad =
        |what: String| Failure::new(FailureKind::Refused, format!("{}: {what}", path.display()));
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    let text = read.map_err(|error| bad(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| bad(error.to_string()))
}

/// Puts the flags over what the file says, and completes the item.
fn put(args: &UrgentArgs, item: &mut Map<String, Value>) {
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            item.insert(key.to_owned(), value);
        }
    };
    set("id", args.id.map(Value::from));
    set("class", args.class.as_deref().map(Value::from));
    set("user", args.user.as_deref().map(Value::from));
    let limit = args.time.map(|limit| limit.as_millis());
    set("duration_ms", limit.and_then(|limit| u64::try_from(limit).ok()).map(Value::from));
    let tags = (!args.tags.is_empty()).then(|| tags(&args.tags));
    match (args.nodes, args.memory) {
        (Some(nodes), Some(memory)) => {
            let mut chunk = Map::new();
            chunk.insert("count".to_owned(), nodes.into());
            chunk.insert("memory_mb".to_owned(), memory.0.into());
            chunk.extend(tags.map(|tags| ("tags".to_owned(), tags)));
            set("chunks", Some(Value::from(vec![Value::Object(chunk)])));
            set("place", Some("scatter".into()));
            set("exclusive", args.exclusive.then(|| true.into()));
        }
        (_, memory) => {
            set("memory_mb", memory.map(|memory| memory.0.into()));
            set("tags", tags);
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis());
    let usual = [
        ("kind", Some("job".into())),
        ("state", Some("schedulable".into())),
        ("user", own_name().map(Value::from)),
        ("submitted_ms", u64::try_from(now).ok().map(Value::from)),
    ];
    for (key, value) in usual {
        if let Some(value) = value {
            item.entry(key).or_insert(value);
        }
    }
}

fn tags(pairs: &[String]) -> Value {
    let pair = |text: &String| {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        (key.to_owned(), Value::from(value))
    };
    Value::Object(pairs.iter().map(pair).collect())
}

fn render(answer: &UrgentAnswer) -> String {
    let UrgentAnswer { job, promised, preempted, cycle, .. } = answer;
    let nodes: Vec<String> = promised.iter().map(|it| it.node.clone()).collect();
    let mut nodes_once = nodes.clone();
    nodes_once.sort();
    nodes_once.dedup();
    let processes = counted(count(&nodes), "process");
    let mut lines = vec![
        format!("job {job} is accepted, in cycle {cycle}"),
        format!("promised:   {processes} on {}", names(&nodes_once)),
    ];
    if preempted.is_empty() {
        lines.push("preempted:  nothing".to_owned());
    } else {
        let lost = preempted.iter().map(|it| it.loss_ms).fold(0, u64::saturating_add);
        let shares = counted(count(preempted), "share");
        lines.push(format!("preempted:  {shares}, {} of work lost", span(lost)));
        lines.extend(preempted.iter().map(|UrgentLoss { job, share, node, loss_ms }| {
            format!("  share {share} of job {job} on {}, {}", plain(node), span(*loss_ms))
        }));
        lines.push("It starts as soon as these shares have ended.".to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::wire::{PromisedNode, UrgentWord};

    fn args(file: Option<&str>) -> UrgentArgs {
        UrgentArgs {
            file: file.map(PathBuf::from),
            id: Some(7),
            class: Some("alarm".to_owned()),
            user: Some("op".to_owned()),
            memory: Some(Mebibytes(2048)),
            nodes: None,
            exclusive: false,
            tags: vec!["gpu=a100".to_owned()],
            time: Some(std::time::Duration::from_mins(1)),
            remote: Remote {
                url: "http://127.0.0.1:1".parse().unwrap(),
                json: false,
                trust: crate::cli::remote::Trust::default(),
            },
        }
    }

    #[test]
    fn flags_become_an_item_of_a_publication() {
        let mut single = Map::new();
        put(&args(None), &mut single);
        let mut item = Value::Object(single);
        assert!(item["submitted_ms"].is_u64());
        item.as_object_mut().unwrap().remove("submitted_ms");
        let expected = json!({
            "id": 7, "kind": "job", "state": "schedulable", "user": "op", "class": "alarm",
            "memory_mb": 2048, "tags": {"gpu": "a100"}, "duration_ms": 60_000,
        });
        assert_eq!(item, expected);
        let mut gang = json!({ "submitted_ms": 5, "user": "ann" }).as_object().unwrap().clone();
        put(&UrgentArgs { nodes: Some(4), exclusive: true, ..args(None) }, &mut gang);
        let chunk = json!([{ "count": 4, "memory_mb": 2048, "tags": {"gpu": "a100"} }]);
        assert_eq!((&gang["chunks"], &gang["place"]), (&chunk, &json!("scatter")));
        assert_eq!((&gang["submitted_ms"], &gang["user"]), (&json!(5), &json!("op")));
        assert_eq!(gang.get("memory_mb"), None);
    }

    #[test]
    fn answers_name_nodes_and_losses() {
        let node = |rank: u32| PromisedNode { node: format!("n{}", rank + 1), rank };
        let loss = UrgentLoss { job: 3, share: 8, node: "n2".to_owned(), loss_ms: 65_000 };
        let answer = UrgentAnswer {
            job: 7,
            verdict: UrgentWord::Accepted,
            promised: vec![node(0), node(1)],
            preempted: vec![loss],
            cycle: 12,
        };
        insta::assert_snapshot!(render(&answer));
        insta::assert_snapshot!(render(&UrgentAnswer { preempted: Vec::new(), ..answer }));
    }
}
