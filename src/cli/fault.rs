//! Events of nodes and clusters: listing, filing, closing.

use clap::{ArgGroup, Args, Subcommand};
use reqwest::Method;

use super::campaign_stat::time;
use super::failure::Failure;
use super::output::show;
use super::place::OrchestratorArgs;
use super::table::Column::{Left, Right};
use super::table::table;
use crate::orchestrator::wire::{
    CampaignFault, EventClass, FiledNumber, GridEvent, GridEventList, NewGridEvent,
};

const LIST_EXAMPLES: &str = "\
Examples:
  apportion fault list
  apportion fault list --all --json";

const FILE_EXAMPLES: &str = "\
Examples:
  apportion fault file --node n3 'its scratch disk is full'
  apportion fault file --cluster local 'the file server is down'";

const CLOSE_EXAMPLES: &str = "\
Examples:
  apportion fault close 5";

/// An action on events of nodes and clusters.
#[derive(Debug, Subcommand)]
pub enum FaultAction {
    /// List events of nodes and clusters, and the nodes that campaigns avoid
    #[command(after_help = LIST_EXAMPLES)]
    List(FaultListArgs),
    /// Let no task begin on a node or cluster until the event is closed
    #[command(after_help = FILE_EXAMPLES)]
    File(FaultFileArgs),
    /// Close an event, with all that it caused
    #[command(after_help = CLOSE_EXAMPLES)]
    Close(FaultCloseArgs),
}

/// Lists events.
#[derive(Debug, Args)]
pub struct FaultListArgs {
    /// Closed events and remarks, too
    #[arg(long)]
    pub all: bool,
    /// The orchestrator.
    #[command(flatten)]
    pub place: OrchestratorArgs,
}

/// Files an event.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("subject").required(true))]
pub struct FaultFileArgs {
    /// The node
    #[arg(long, value_name = "NODE", group = "subject")]
    pub node: Option<String>,
    /// The cluster; that of the orchestrator is `local`
    #[arg(long, value_name = "CLUSTER", group = "subject")]
    pub cluster: Option<String>,
    /// File a remark without effect
    #[arg(long, group = "subject")]
    pub log: bool,
    /// The open event that caused this event, and closes it with itself
    #[arg(long, value_name = "EVENT")]
    pub parent: Option<u64>,
    /// A sentence for other operators
    pub text: String,
    /// The orchestrator.
    #[command(flatten)]
    pub place: OrchestratorArgs,
}

/// Closes an event.
#[derive(Debug, Args)]
pub struct FaultCloseArgs {
    /// Number of the event
    pub event: u64,
    /// The orchestrator.
    #[command(flatten)]
    pub place: OrchestratorArgs,
}

/// Runs the command.
///
/// # Errors
///
/// If the orchestrator cannot be reached or refuses.
pub async fn run(action: &FaultAction) -> Result<(), Failure> {
    match action {
        FaultAction::List(args) => {
            let list: GridEventList =
                args.place.open()?.get(&["v1", "grid", "events"], &[]).await?;
            Ok(show(&list, args.place.json, |list| listed(list, args.all))?)
        }
        FaultAction::File(args) => file(args).await,
        FaultAction::Close(args) => {
            let id = args.event.to_string();
            let path = ["v1", "grid", "events", &id];
            args.place.open()?.act(Method::DELETE, &path, &serde_json::Value::Null).await?;
            let filed = FiledNumber { id: args.event };
            Ok(show(&filed, args.place.json, |filed| format!("event {} is closed", filed.id))?)
        }
    }
}

async fn file(args: &FaultFileArgs) -> Result<(), Failure> {
    let (class, name) = match (&args.node, &args.cluster) {
        (Some(node), _) => (EventClass::Node, node.clone()),
        (None, Some(cluster)) => (EventClass::Cluster, cluster.clone()),
        (None, None) => (EventClass::Log, String::new()),
    };
    let event = NewGridEvent { class, name, text: args.text.clone(), parent: args.parent };
    let filed: FiledNumber = args.place.open()?.put(&["v1", "grid", "events"], &event).await?;
    Ok(show(&filed, args.place.json, |filed| format!("event {} is open", filed.id))?)
}

fn listed(list: &GridEventList, all: bool) -> String {
    let is_open = |event: &&GridEvent| event.closed_ms.is_none() && event.class != EventClass::Log;
    let event = |event: &GridEvent| {
        let subject = format!("{} {}", event.class.word(), event.name);
        let state = event.closed_ms.map_or("open", |_| "closed");
        let parent = event.parent.map(|parent| parent.to_string()).unwrap_or_default();
        let (id, since) = (event.id.to_string(), time(event.opened_ms));
        [id, subject.trim_end().to_owned(), state.to_owned(), since, parent, event.text.clone()]
    };
    let fault = |fault: &CampaignFault| {
        let subject = format!("node {}", fault.node);
        let parent = fault.parent.map(|parent| parent.to_string()).unwrap_or_default();
        let (open, since) = ("open".to_owned(), time(fault.opened_ms));
        [String::new(), subject, open, since, parent, fault.text.clone()]
    };
    let columns = [
        Right("event"),
        Left("subject"),
        Left("state"),
        Left("since (UTC)"),
        Right("parent"),
        Left("text"),
    ];
    let events = list.events.iter().filter(|event| all || is_open(event)).map(event);
    let rows: Vec<[String; 6]> = events.chain(list.faults.iter().map(fault)).collect();
    if rows.is_empty() {
        return if all { "no event" } else { "no open event; --all lists closed ones, too" }
            .to_owned();
    }
    table(columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_says_so() {
        let none = GridEventList { events: Vec::new(), faults: Vec::new() };
        assert_eq!(listed(&none, false), "no open event; --all lists closed ones, too");
        assert_eq!(listed(&none, true), "no event");
    }
}
