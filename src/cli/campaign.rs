//! Campaigns: listing, showing, explaining, suspending, resuming, cancelling, submitting again,
//! adding tasks, waiting.

use clap::{ArgGroup, Args, Subcommand};
use reqwest::Method;
use serde_json::json;

use super::admission::rewritten;
use super::campaign_add::{ADD_EXAMPLES, AddArgs, add};
use super::campaign_stat::{
    EVENTS_EXAMPLES, EventsArgs, STAT_EXAMPLES, StatArgs, events, stat, stats, time, used,
};
use super::campaign_wait::{detail, reasons, wait_for};
use super::export::{self, EXPORT_EXAMPLES, ExportArgs};
use super::failure::Failure;
use super::one_campaign::OneArgs;
use super::output::show;
use super::place::{Orchestrator, OrchestratorArgs};
use super::table::Column::{Left, Right};
use super::table::{memory, plain, table};
use crate::model::counted;
use crate::orchestrator::wire::{
    CampaignDetail, CampaignPage, CampaignStats, CampaignSummary, GangInfo, Resubmit, Resubmitted,
    TaskInfo, TaskList, places,
};

const LIST_EXAMPLES: &str = "\
Examples:
  apportion campaign list
  apportion campaign list --user ann --limit 10";

const SHOW_EXAMPLES: &str = "\
Examples:
  apportion campaign show 9
  apportion campaign show last --json";

const WHY_EXAMPLES: &str = "\
Examples:
  apportion campaign why 9";

const TASKS_EXAMPLES: &str = "\
Examples:
  apportion campaign tasks 9 --failed
  apportion campaign tasks last --state running";

const SUSPEND_EXAMPLES: &str = "\
Examples:
  apportion campaign suspend 9
  apportion campaign suspend 9 --now";

const RESUME_EXAMPLES: &str = "\
Examples:
  apportion campaign resume 9";

const CANCEL_EXAMPLES: &str = "\
Examples:
  apportion campaign cancel 9";

const RESUBMIT_EXAMPLES: &str = "\
Examples:
  apportion campaign resubmit 9 --failed
  apportion campaign resubmit 9 --task 17 --memory 6GB";

const WAIT_EXAMPLES: &str = "\
Examples:
  apportion campaign wait last";

/// An action on campaigns.
#[derive(Debug, Subcommand)]
pub enum CampaignAction {
    /// List campaigns, the newest first
    #[command(after_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// Show a campaign: its counts, its notes, what it asked for and used
    #[command(after_help = SHOW_EXAMPLES)]
    Show(OneArgs),
    /// Show campaigns at a glance, or some in figures
    #[command(after_help = STAT_EXAMPLES)]
    Stat(StatArgs),
    /// Tell what happened to campaigns, as it comes
    #[command(after_help = EVENTS_EXAMPLES)]
    Events(EventsArgs),
    /// Say why a campaign has the slots that it has
    #[command(after_help = WHY_EXAMPLES)]
    Why(OneArgs),
    /// List tasks of a campaign that a slot has had
    #[command(after_help = TASKS_EXAMPLES)]
    Tasks(TasksArgs),
    /// Have no task begin any more; what runs ends by itself
    #[command(after_help = SUSPEND_EXAMPLES)]
    Suspend(SuspendArgs),
    /// Let tasks begin again
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(OneArgs),
    /// End a campaign
    #[command(after_help = CANCEL_EXAMPLES)]
    Cancel(OneArgs),
    /// Queue tasks again that failed or were cancelled
    #[command(after_help = RESUBMIT_EXAMPLES)]
    Resubmit(ResubmitArgs),
    /// Add tasks at the end of a campaign that has not ended
    #[command(after_help = ADD_EXAMPLES)]
    Add(AddArgs),
    /// Write all tasks and attempts of a campaign for other programs
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(ExportArgs),
    /// Wait for the end of a campaign
    #[command(after_help = WAIT_EXAMPLES)]
    Wait(WaitArgs),
}

/// Lists campaigns.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only campaigns of this user
    #[arg(long)]
    pub user: Option<String>,
    /// Longest list of campaigns
    #[arg(long, default_value_t = 100)]
    pub limit: u32,
    /// The orchestrator.
    #[command(flatten)]
    pub place: OrchestratorArgs,
}

/// Lists tasks.
#[derive(Debug, Args)]
pub struct TasksArgs {
    /// The campaign
    #[command(flatten)]
    pub one: OneArgs,
    /// Only failed tasks
    #[arg(long, conflicts_with = "state")]
    pub failed: bool,
    /// Only tasks in this state
    #[arg(long)]
    pub state: Option<String>,
    /// Only tasks after this number
    #[arg(long, default_value_t = 0)]
    pub after: u64,
    /// Longest list of tasks
    #[arg(long, default_value_t = 1000)]
    pub limit: u32,
}

/// Suspends a campaign.
#[derive(Debug, Args)]
pub struct SuspendArgs {
    /// The campaign
    #[command(flatten)]
    pub one: OneArgs,
    /// Stop running tasks too; they are queued again
    #[arg(long)]
    pub now: bool,
}

/// Queues tasks again.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).multiple(true))]
pub struct ResubmitArgs {
    /// The campaign
    #[command(flatten)]
    pub one: OneArgs,
    /// Repeat the failed tasks
    #[arg(long, group = "which")]
    pub failed: bool,
    /// Repeat the cancelled tasks
    #[arg(long, group = "which")]
    pub cancelled: bool,
    /// Repeat the tasks that are done and whose results are suspicious
    #[arg(long, group = "which")]
    pub suspicious: bool,
    /// Repeat this task only
    #[arg(long, value_name = "N", group = "which")]
    pub task: Option<u64>,
    /// Another size of memory for them
    #[arg(long, value_name = "SIZE", conflicts_with = "cancelled")]
    pub memory: Option<String>,
}

/// Waits for a campaign.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// The campaign
    #[command(flatten)]
    pub one: OneArgs,
    /// Show how it gets on
    #[arg(long)]
    pub progress: bool,
}

/// Runs the command.
///
/// # Errors
///
/// If the orchestrator cannot be reached or refuses.
pub async fn run(action: &CampaignAction) -> Result<(), Failure> {
    match action {
        CampaignAction::List(args) => list(args).await,
        CampaignAction::Show(args) => {
            let (orchestrator, id) = open(args).await?;
            let detail = detail(&orchestrator, id).await?;
            let stats = stats(&orchestrator, id).await?;
            Ok(show(&detail, args.place.json, |detail| shown(detail, &stats))?)
        }
        CampaignAction::Stat(args) => stat(args).await,
        CampaignAction::Events(args) => events(args).await,
        CampaignAction::Why(args) => why(args).await,
        CampaignAction::Tasks(args) => tasks(args).await,
        CampaignAction::Suspend(args) => {
            change(&args.one, &json!({ "state": "suspended", "now": args.now })).await
        }
        CampaignAction::Resume(args) => change(args, &json!({ "state": "running" })).await,
        CampaignAction::Cancel(args) => change(args, &json!({ "state": "cancelled" })).await,
        CampaignAction::Resubmit(args) => resubmit(args).await,
        CampaignAction::Add(args) => add(args).await,
        CampaignAction::Export(args) => export::run(args).await,
        CampaignAction::Wait(args) => {
            let (orchestrator, id) = open(&args.one).await?;
            wait_for(&orchestrator, id, args.progress).await
        }
    }
}

async fn open(args: &OneArgs) -> Result<(Orchestrator, u64), Failure> {
    let orchestrator = args.place.open()?;
    let id = orchestrator.campaign(&args.campaign).await?;
    Ok((orchestrator, id))
}

async fn list(args: &ListArgs) -> Result<(), Failure> {
    let limit = args.limit.to_string();
    let mut query = vec![("limit", limit.as_str())];
    if let Some(user) = &args.user {
        query.push(("user", user));
    }
    let page: CampaignPage = args.place.open()?.get(&["v1", "campaigns"], &query).await?;
    Ok(show(&page, args.place.json, |page| {
        let columns = [
            Right("campaign"),
            Left("name"),
            Left("user"),
            Left("state"),
            Right("tasks"),
            Right("done"),
            Right("failed"),
            Right("running"),
            Right("queued"),
        ];
        let row = |one: &CampaignSummary| {
            [
                one.id.to_string(),
                one.name.clone(),
                one.user.clone(),
                state(one),
                one.tasks.to_string(),
                one.done.to_string(),
                one.failed.to_string(),
                one.running.to_string(),
                one.queued.to_string(),
            ]
        };
        table(columns, page.campaigns.iter().map(row))
    })?)
}

/// The gang of a campaign in a line.
pub(super) fn gang_line(gang: &GangInfo) -> String {
    let starts = if gang.every_node { "every node" } else { "the first node" };
    let alone = if gang.exclusive { ", with nothing else on its nodes" } else { "" };
    format!("a gang{alone}: {}; the program starts on {starts}", plain(&gang.words()))
}

fn state(one: &CampaignSummary) -> String {
    if one.frozen { format!("{}, frozen", one.state) } else { one.state.clone() }
}

fn shown(detail: &CampaignDetail, stats: &CampaignStats) -> String {
    let one = &detail.campaign;
    let name = if one.name.is_empty() { String::new() } else { format!(" {}", plain(&one.name)) };
    let mut lines = vec![
        format!("campaign {}{name} of {}: {}", one.id, plain(&one.user), state(one)),
        format!(
            "{}: {} done, {} failed, {} cancelled, {} dropped, {}, {} queued",
            counted(one.tasks, "task"),
            one.done,
            one.failed,
            one.cancelled,
            one.dropped,
            plain(&places(one.running, &one.away)),
            one.queued
        ),
        format!("asked for {} a slot; {}", memory(detail.memory_mb), used(stats)),
    ];
    lines.extend(detail.gang.as_ref().map(gang_line));
    if let Some(folded_ms) = one.folded_ms {
        lines.push(format!(
            "its tasks were folded at {} (UTC); only counts are left",
            time(folded_ms)
        ));
    }
    lines.extend(detail.admission.iter().flat_map(rewritten));
    lines.extend(detail.avoided.iter().map(|one| plain(&one.text)));
    if 0 < detail.suspicious {
        lines.push(format!(
            "{} suspicious: `apportion campaign resubmit {} --suspicious` repeats them",
            counted(detail.suspicious, "result"),
            one.id
        ));
    }
    lines.extend(one.hook_of.map(|of| format!("it is a prologue or epilogue of campaign {of}")));
    lines.extend(
        detail.epilogue.map(|it| format!("it ends once its epilogue, campaign {it}, is done")),
    );
    if !detail.waits_for.is_empty() {
        let others: Vec<String> = detail.waits_for.iter().map(u64::to_string).collect();
        lines.push(format!("it waits until campaigns are done: {}", others.join(", ")));
    }
    lines.extend(detail.opens_ms.map(|ms| format!("its hours begin at {} (UTC)", time(ms))));
    if detail.may_run_twice {
        lines
            .push("its tasks may run twice: those of a silent node begin again at once".to_owned());
    }
    if detail.on_unheard == "finish" {
        lines.push("slots that nothing reaches finish what they have".to_owned());
    }
    if 0 < one.mean_ms {
        lines.push(format!("a task takes {} ms on average", one.mean_ms));
    }
    if one.frozen {
        lines.push(
            "it gets no more slots, as three in a row could not be prepared; mend that, then \
             `apportion campaign resume`"
                .to_owned(),
        );
    }
    lines.extend(detail.notes.iter().map(|note| format!("  {}", plain(&note.text))));
    lines.join("\n")
}

/// The resource manager's own sentence about each work of a campaign, and what can be done.
async fn why(args: &OneArgs) -> Result<(), Failure> {
    let (orchestrator, id) = open(args).await?;
    let why = reasons(&orchestrator, id).await?;
    Ok(show(&why, args.place.json, |why| {
        let hints = why.hints.iter().map(|hint| format!("hint: {hint}"));
        let all = why.sentences.iter().cloned().chain(hints);
        all.map(|sentence| plain(&sentence)).collect::<Vec<_>>().join("\n")
    })?)
}

async fn tasks(args: &TasksArgs) -> Result<(), Failure> {
    let (orchestrator, id) = open(&args.one).await?;
    let (id, after, limit) = (id.to_string(), args.after.to_string(), args.limit.to_string());
    let mut query = vec![("after", after.as_str()), ("limit", limit.as_str())];
    let state = if args.failed { Some("failed") } else { args.state.as_deref() };
    query.extend(state.map(|state| ("state", state)));
    let list: TaskList = orchestrator.get(&["v1", "campaigns", &id, "tasks"], &query).await?;
    Ok(show(&list, args.one.place.json, |list| {
        let columns =
            [Left("task"), Left("state"), Left("reason"), Right("attempts"), Right("lost")];
        let row = |task: &TaskInfo| {
            let rank = task.rank.map(|rank| format!(", rank {rank}")).unwrap_or_default();
            [
                format!("{}.{}{rank}", task.campaign, task.task),
                task.state.clone(),
                task.reason.clone().unwrap_or_default(),
                task.attempt.to_string(),
                task.losses.to_string(),
            ]
        };
        table(columns, list.tasks.iter().map(row))
    })?)
}

async fn change(args: &OneArgs, body: &serde_json::Value) -> Result<(), Failure> {
    let (orchestrator, id) = open(args).await?;
    orchestrator.act(Method::PUT, &["v1", "campaigns", &id.to_string(), "state"], body).await?;
    let detail = detail(&orchestrator, id).await?;
    let say = |detail: &CampaignDetail| format!("campaign {id} is {}", state(&detail.campaign));
    Ok(show(&detail, args.place.json, say)?)
}

async fn resubmit(args: &ResubmitArgs) -> Result<(), Failure> {
    let (orchestrator, id) = open(&args.one).await?;
    let (failed, cancelled, task) = (args.failed, args.cancelled, args.task);
    let suspicious = args.suspicious;
    let body = Resubmit { failed, cancelled, suspicious, task, memory: args.memory.clone() };
    let path = ["v1", "campaigns", &id.to_string(), "resubmit"];
    let answer: Resubmitted = orchestrator.post(&path, &body).await?;
    let say = |answer: &Resubmitted| {
        format!("campaign {id}: {} queued again", counted(answer.tasks, "task"))
    };
    Ok(show(&answer, args.one.place.json, say)?)
}
