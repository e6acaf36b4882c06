//! Submitting: from flags, a file, or both; checked here before anything is sent.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Zoned;
use serde_json::{Map, Value};

use super::campaign_wait;
use super::failure::{Failure, FailureKind};
use super::gang_flags::GangFlags;
use super::output::{complain, print, show};
use super::place::{Orchestrator, OrchestratorArgs};
use super::table::plain;
use super::time_flags::TimeFlags;
use super::user_name::own_name;
use crate::model::counted;
use crate::orchestrator::spec::{
    CampaignSpec, EnvironmentChoice, MAX_STDIN, Params, SpecProblem, line_of, select,
};
use crate::orchestrator::wire::Submitted;

/// End of the help of `submit`.
pub const EXAMPLES: &str = "\
Examples:
  apportion submit --memory 2GB --each-line inputs.txt -- ./crunch {entry}
  apportion submit --array 1-1000:2 --wait --progress -- ./crunch {task}
  apportion submit sweep.toml --check
  apportion submit --nodes 4 --exclusive --time 2h -- mpirun ./solve

{campaign} {task} {attempt} {node} {entry} are replaced in the command and in paths of output.

Exit status with --wait: 0 all done   1 some failed   3 no daemon   4 not authorised   6 cancelled";

/// Settings of a campaign that `submit` and `run` share.
#[derive(Clone, Debug, Args)]
pub struct CampaignFlags {
    /// Memory of each task
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Size of the input of each task, for the choice of a cluster
    #[arg(long, value_name = "SIZE")]
    pub input_size: Option<String>,
    /// The resource class
    #[arg(long)]
    pub class: Option<String>,
    /// A name for the campaign
    #[arg(long)]
    pub name: Option<String>,
    /// The longest that a task may run
    #[arg(long, value_name = "DURATION")]
    pub time_limit: Option<String>,
    /// Time between the stop signal and the kill
    #[arg(long, value_name = "DURATION")]
    pub grace: Option<String>,
    /// The signal that asks a task to end
    #[arg(long, value_name = "SIGNAL")]
    pub stop_signal: Option<String>,
    /// Failed attempts of a task before the task fails
    #[arg(long, value_name = "N")]
    pub retries: Option<u64>,
    /// More memory for tasks that were over theirs, such as 1.5x3
    #[arg(long, value_name = "FACTORxTIMES")]
    pub memory_retry: Option<String>,
    /// Only nodes where the kernel enforces limits
    #[arg(long, value_name = "kernel")]
    pub require_limits: Option<String>,
    /// Have it not preempted
    #[arg(long)]
    pub keep: bool,
    /// A variable of the environment: NAME takes it over, NAME=VALUE sets it
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// The whole environment, but for what looks secret or belongs to the session
    #[arg(long, conflicts_with = "env_clean")]
    pub env_all: bool,
    /// Pass only the variables of --env
    #[arg(long)]
    pub env_clean: bool,
    /// The user that it belongs to, for callers that may choose
    #[arg(long)]
    pub user: Option<String>,
    /// Nodes of a gang.
    #[command(flatten)]
    pub gang: GangFlags,
    /// Times that the planner knows.
    #[command(flatten)]
    pub times: TimeFlags,
}

/// Submits a campaign.
#[expect(clippy::struct_excessive_bools, reason = "flags that do not depend on each other")]
#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// A campaign file, in TOML or JSON
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Make a task for each number, such as 1-1000 or 1-1000:2
    #[arg(long, value_name = "RANGE", group = "tasks")]
    pub array: Option<String>,
    /// Make a task for each line of this file; `-` is standard input
    #[arg(long, value_name = "FILE", group = "tasks")]
    pub each_line: Option<PathBuf>,
    /// Make a task for each item of this JSON list
    #[arg(long, value_name = "FILE", group = "tasks")]
    pub from_json: Option<PathBuf>,
    /// Tasks at a time in a slot
    #[arg(long, value_name = "N")]
    pub lanes: Option<u64>,
    /// The most slots
    #[arg(long, value_name = "N")]
    pub max: Option<u64>,
    /// Failed tasks before the campaign is cancelled
    #[arg(long, value_name = "N")]
    pub max_fails: Option<u64>,
    /// The file for standard output, such as res/{task}.txt
    #[arg(long, value_name = "PATH")]
    pub output: Option<String>,
    /// The file for standard error
    #[arg(long, value_name = "PATH")]
    pub error: Option<String>,
    /// A file as the standard input of each task; `-` is what comes in here
    #[arg(long, value_name = "FILE")]
    pub stdin: Option<PathBuf>,
    /// Begin tasks of a silent node again at once: they may run twice, and the first result counts
    #[arg(long)]
    pub may_run_twice: bool,
    /// End of a slot's work when its lease runs out without contact: stop, or finish the tasks it
    /// has
    #[arg(long, value_name = "stop|finish")]
    pub on_unheard: Option<String>,
    /// `default`, or `test`: a single task, all further tasks are dropped
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// Begin once these campaigns are done, such as 7,8
    #[arg(long, value_name = "CAMPAIGNS", value_delimiter = ',')]
    pub after: Vec<u64>,
    /// A text for sh -c instead of a command
    #[arg(long, value_name = "TEXT", conflicts_with = "command")]
    pub shell: Option<String>,
    /// Settings shared with `run`.
    #[command(flatten)]
    pub asked: CampaignFlags,
    /// Check it, and submit nothing
    #[arg(long)]
    pub check: bool,
    /// Show it to the admission rules of the site, and submit nothing
    #[arg(long, conflicts_with = "check")]
    pub try_rules: bool,
    /// Say what would be asked for, and submit nothing
    #[arg(long)]
    pub explain: bool,
    /// Wait for its end
    #[arg(long)]
    pub wait: bool,
    /// Show how it gets on while waiting
    #[arg(long, requires = "wait")]
    pub progress: bool,
    /// The orchestrator.
    #[command(flatten)]
    pub place: OrchestratorArgs,
    /// The command of each task
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Submits.
///
/// # Errors
///
/// If the campaign is wrong, or the orchestrator cannot be reached or refuses.
pub async fn run(args: &SubmitArgs) -> Result<(), Failure> {
    let (mut document, text) = match &args.file {
        Some(file) => read_file(file)?,
        None => (Map::new(), String::new()),
    };
    let folder = args.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    take_lists(&mut document, folder)?;
    flags(args, &mut document)?;
    let stdin = stdin(args.stdin.as_deref(), &mut document)?;
    complete(&args.asked, &args.place, &mut document)?;
    let (spec, params) = check(&document, &text, args.file.as_deref())?;
    if args.explain {
        return Ok(print(&explained(&spec, &params))?);
    }
    if args.check {
        return Ok(print(&format!("right: {}", size_of(&spec)))?);
    }
    let orchestrator = args.place.open()?;
    if args.try_rules {
        return super::try_rules::run(&orchestrator, &document, args.place.json).await;
    }
    let submitted = send(&orchestrator, &document, stdin.as_deref()).await?;
    let say = |submitted: &Submitted| format!("campaign {}: {}", submitted.id, size_of(&spec));
    show(&submitted, args.place.json, say)?;
    if args.wait {
        return campaign_wait::wait_for(&orchestrator, submitted.id, args.progress).await;
    }
    Ok(())
}

/// Sends a document. The key makes a repeated request harmless.
pub(super) async fn send(
    orchestrator: &Orchestrator,
    document: &Map<String, Value>,
    stdin: Option<&[u8]>,
) -> Result<Submitted, Failure> {
    orchestrator.submit(document, stdin, &key()?).await
}

/// Returns a key that is the same for every retry of a request.
pub(super) fn key() -> Result<String, Failure> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(std::io::Error::other)?;
    Ok(format!("{:032x}", u128::from_be_bytes(random)))
}

/// A campaign file, and its text where lines can be named.
fn read_file(path: &Path) -> Result<(Map<String, Value>, String), Failure> {
    let bad =
        |what: String| Failure::new(FailureKind::Refused, format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
    let is_json = path.extension().is_some_and(|end| end == "json");
    let document = if is_json {
        serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?
    } else {
        toml::from_str(&text).map_err(|error| bad(error.to_string()))?
    };
    Ok((document, if is_json { String::new() } else { text }))
}

/// Reads the lists that a file names.
fn take_lists(document: &mut Map<String, Value>, folder: &Path) -> Result<(), Failure> {
    for (key, field) in [("each_line", "lines"), ("from_json", "items")] {
        if let Some(Value::String(path)) = document.remove(key) {
            document.insert(field.to_owned(), read_list(key, &folder.join(path))?);
        }
    }
    Ok(())
}

/// The entries of a file, as `each_line` or `from_json` names it.
pub(super) fn read_list(key: &str, path: &Path) -> Result<Value, Failure> {
    if key == "from_json" {
        let bytes = read(path)?;
        return serde_json::from_slice(&bytes).map_err(|error| {
            Failure::new(FailureKind::Refused, format!("{}: {error}", path.display()))
        });
    }
    let bytes = read(path)?;
    lines(&bytes).map(Value::from).map_err(|line| {
        let message = format!(
            "{}: line {line} is not UTF-8; write it so, or give the number of the line to the command",
            path.display()
        );
        Failure::new(FailureKind::Refused, message)
    })
}

/// Returns the lines of a text, byte for byte. The last line needs no end. The error is the number
/// of a line that is not UTF-8.
fn lines(bytes: &[u8]) -> Result<Vec<String>, usize> {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let texts = (1..).zip(body.split(|byte| *byte == b'\n'));
    texts.map(|(line, text)| String::from_utf8(text.to_vec()).map_err(|_| line)).collect()
}

/// A file, or standard input for `-`.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    read.map_err(|error| Failure::new(FailureKind::Refused, format!("{}: {error}", path.display())))
}

/// The standard input that goes with the campaign, noted in its document.
pub(super) fn stdin(
    path: Option<&Path>,
    document: &mut Map<String, Value>,
) -> Result<Option<Vec<u8>>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let bytes = read(path)?;
    if MAX_STDIN < bytes.len() {
        let message =
            "standard input is longer than 64 MiB; put it in a file, and name that in the command";
        return Err(Failure::new(FailureKind::Refused, message));
    }
    document.remove("stdin");
    Ok(Some(bytes))
}

/// Puts flags over what the file says.
fn flags(args: &SubmitArgs, document: &mut Map<String, Value>) -> Result<(), Failure> {
    let lists = [("each_line", "lines", &args.each_line), ("from_json", "items", &args.from_json)];
    let has_tasks = args.array.is_some() || lists.iter().any(|(.., path)| path.is_some());
    if has_tasks {
        for field in ["tasks", "lines", "items"] {
            document.remove(field);
        }
    }
    for (key, field, path) in lists {
        if let Some(path) = path {
            document.insert(field.to_owned(), read_list(key, path)?);
        }
    }
    if args.shell.is_some() || !args.command.is_empty() {
        document.remove("command");
        document.remove("shell");
    }
    let text = |text: &Option<String>| text.clone().map(Value::from);
    let number = |number: Option<u64>| number.map(Value::from);
    let command = (!args.command.is_empty()).then(|| Value::from(args.command.clone()));
    for (key, value) in [
        ("tasks", text(&args.array)),
        ("lanes", number(args.lanes)),
        ("max", number(args.max)),
        ("max_fails", number(args.max_fails)),
        ("output", text(&args.output)),
        ("error", text(&args.error)),
        ("may_run_twice", args.may_run_twice.then_some(Value::Bool(true))),
        ("on_unheard", text(&args.on_unheard)),
        ("after", (!args.after.is_empty()).then(|| Value::from(args.after.clone()))),
        ("type", text(&args.kind)),
        ("shell", text(&args.shell)),
        ("command", command),
    ] {
        if let Some(value) = value {
            document.insert(key.to_owned(), value);
        }
    }
    Ok(())
}

/// Adds what both commands say, the environment, the working directory and the user.
pub(super) fn complete(
    asked: &CampaignFlags,
    place: &OrchestratorArgs,
    document: &mut Map<String, Value>,
) -> Result<(), Failure> {
    let text = |text: &Option<String>| text.clone().map(Value::from);
    for (key, value) in [
        ("memory", text(&asked.memory)),
        ("input_size", text(&asked.input_size)),
        ("class", text(&asked.class)),
        ("name", text(&asked.name)),
        ("time_limit", text(&asked.time_limit)),
        ("grace", text(&asked.grace)),
        ("stop_signal", text(&asked.stop_signal)),
        ("retries", asked.retries.map(Value::from)),
        ("memory_retry", text(&asked.memory_retry)),
        ("require_limits", text(&asked.require_limits)),
        ("keep", asked.keep.then_some(Value::Bool(true))),
        ("user", text(&asked.user)),
    ] {
        if let Some(value) = value {
            document.insert(key.to_owned(), value);
        }
    }
    asked.gang.put(document);
    asked.times.put(document, &Zoned::now())?;
    if !document.contains_key("cwd") {
        let cwd = std::env::current_dir()?;
        let cwd = cwd.to_str().ok_or_else(|| {
            Failure::new(
                FailureKind::Refused,
                "the name of the working directory is not UTF-8; rename it",
            )
        })?;
        document.insert("cwd".to_owned(), Value::from(cwd));
    }
    let own: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let (all, clean, named) = (asked.env_all, asked.env_clean, asked.env.clone());
    let chosen = select(&own, &EnvironmentChoice { all, clean, named });
    let mut chosen = chosen.map_err(|problems| told(&problems, "", None))?;
    if let Some(Value::Object(written)) = document.remove("env") {
        let written = written.into_iter();
        chosen.extend(written.filter_map(|(name, value)| Some((name, value.as_str()?.to_owned()))));
    }
    let chosen: Map<String, Value> =
        chosen.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
    document.insert("env".to_owned(), Value::Object(chosen));
    if !document.contains_key("user") && place.has_no_credential() {
        let user = own_name().ok_or_else(|| {
            Failure::new(FailureKind::Refused, "this user has no name here; give one with --user")
        })?;
        document.insert("user".to_owned(), Value::from(user));
    }
    Ok(())
}

/// Checks a document as the orchestrator will.
pub(super) fn check(
    document: &Map<String, Value>,
    text: &str,
    file: Option<&Path>,
) -> Result<(CampaignSpec, Params), Failure> {
    let mut document = document.clone();
    document.remove("user");
    CampaignSpec::read(document).map_err(|problems| told(&problems, text, file))
}

/// All problems, each on a line with its place.
fn told(problems: &[SpecProblem], text: &str, file: Option<&Path>) -> Failure {
    let place = |problem: &SpecProblem| {
        let line = line_of(text, &problem.field).map(|line| format!(":{line}"));
        file.map(|file| format!("{}{}: ", file.display(), line.unwrap_or_default()))
            .unwrap_or_default()
    };
    let lines: Vec<String> =
        problems.iter().map(|problem| plain(&format!("{}{problem}", place(problem)))).collect();
    Failure::new(FailureKind::Refused, lines.join("\n"))
}

/// The size of a campaign: its tasks, or the nodes of its gang.
fn size_of(spec: &CampaignSpec) -> String {
    let gang = spec.gang.as_ref();
    let nodes = gang.map(|gang| format!("a gang of {}", gang.words()));
    nodes.unwrap_or_else(|| counted(spec.tasks.count, "task"))
}

fn explained(spec: &CampaignSpec, params: &Params) -> String {
    if let Some(gang) = &spec.gang {
        let class = spec.class.as_deref().unwrap_or("the default class");
        let (memory, nodes) = (super::table::memory(spec.memory_mb), gang.words());
        let amount = if gang.exclusive { "the whole memory" } else { memory.as_str() };
        let starts = if gang.every_node { "each of them" } else { "the first of them" };
        let together = if gang.is_malleable() {
            "as many as there is space for, and told of each change"
        } else {
            "together or not at all"
        };
        return format!(
            "a gang of {nodes}, {together}\none job of {class}: {amount} of each node; the \
             program starts on {starts}"
        );
    }
    let with = match params {
        Params::Numbers => "a number each",
        Params::Texts(_) => "a text each",
    };
    let most = spec.max.map_or("as many slots as there are".to_owned(), |max| {
        format!("at most {}", counted(max, "slot"))
    });
    let class = spec.class.as_deref().unwrap_or("the default class");
    let (memory, lanes) = (super::table::memory(spec.memory_mb), spec.lanes);
    let mut lines = vec![
        format!("{}, {with}", counted(spec.tasks.count, "task")),
        format!(
            "one job of {class}: {memory} a slot, {} at a time in each, {most}",
            counted(lanes, "task")
        ),
    ];
    if let Some(retry) = spec.memory_retry {
        let last = super::table::memory(retry.memory(spec.memory_mb, retry.times));
        lines.push(format!("over its memory, a task gets more, up to {last}"));
    }
    lines.join("\n")
}

/// Says a sentence once, on standard error.
pub(super) fn say_once(said: &mut Option<String>, sentence: &str) {
    if said.as_deref() != Some(sentence) {
        complain(&plain(sentence));
        *said = Some(sentence.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_byte_for_byte() {
        let read = |text: &str| lines(text.as_bytes()).unwrap();
        assert_eq!(read("a b\n\"c\"\n\n\tü"), ["a b", "\"c\"", "", "\tü"]);
        assert_eq!(read("a\n"), ["a"]);
        assert_eq!(read("a\r\n\n"), ["a\r", ""]);
        assert_eq!(read(""), Vec::<String>::new());
        assert_eq!(lines(b"a\n\xff\n"), Err(2));
    }

    #[test]
    fn problems_name_the_line_of_the_file() {
        let text = "command = [\"a\"]\nmemory = \"4\"\n";
        let document: Map<String, Value> = toml::from_str(text).unwrap();
        let failure = check(&document, text, Some(Path::new("sweep.toml"))).unwrap_err();
        let told = failure.error.unwrap().to_string();
        assert!(
            told.starts_with("sweep.toml:2: memory: `\"4\"` does not fit; write a size"),
            "{told}"
        );
    }
}
