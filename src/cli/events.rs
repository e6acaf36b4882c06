//! What came about: the feed of changes, a line for each thing, as far back as asked and onwards.

use std::collections::BTreeMap;

use super::args::{Events as Args, Format, Since};
use super::client::Client;
use super::failure::Failure;
use super::jobs::removal;
use super::output::{Reader, complain, say};
use super::table::plain;
use crate::api::wire::{
    AddedShare, ChangedNode, Event, EventPage, Happening, NodeState, RemovedShare,
};
use crate::model::fold_hostlist;

/// Without `--since`, so many are told.
const TOLD: u64 = 20;

/// How long one question waits for more. Below what a client waits for an answer.
const WAIT: &str = "25s";

/// Tells events.
///
/// # Errors
///
/// If the daemon cannot be reached, or does not keep events so far back.
pub async fn run(args: &Args) -> Result<(), Failure> {
    let client = Client::new(&args.remote)?;
    let newest = page(&client, None, None).await?.sequence;
    let (mut since, oldest_ms) = match args.since {
        None => (newest.saturating_sub(TOLD), i64::MIN),
        Some(Since::Number(number)) => (number, i64::MIN),
        Some(Since::Span(span)) => {
            let now_ms = i64::try_from(super::queue::now_ms()).unwrap_or(i64::MAX);
            let oldest_ms = now_ms.saturating_sub(span);
            (before(&client, newest, oldest_ms).await?, oldest_ms)
        }
    };
    let is_exact = matches!(args.since, Some(Since::Number(_)));
    loop {
        let has_all = newest <= since;
        let wait = (args.follow && has_all).then_some(WAIT);
        let page = match page(&client, Some(since), wait).await {
            // What was not asked for by its number may be missing.
            Err(failure) if failure.is_gone() && !is_exact && since < newest => {
                since = oldest_kept(&client, since, newest).await?;
                continue;
            }
            page => page?,
        };
        for event in page.events.iter().filter(|event| oldest_ms <= event.at_ms) {
            if let Reader::Gone = tell(event, args)? {
                return Ok(());
            }
        }
        since = page.sequence;
        if !args.follow && !page.more {
            return Ok(());
        }
    }
}

async fn page(
    client: &Client,
    since: Option<u64>,
    wait: Option<&str>,
) -> Result<EventPage, Failure> {
    let since = since.map(|since| since.to_string());
    let mut query: Vec<(&str, &str)> = Vec::new();
    query.extend(since.as_deref().map(|since| ("since", since)));
    query.extend(wait.map(|wait| ("wait", wait)));
    client.get(&["v1", "events"], &query).await
}

/// A number before the first event that is not older than `oldest_ms`, looked for backwards in
/// growing steps.
async fn before(client: &Client, newest: u64, oldest_ms: i64) -> Result<u64, Failure> {
    let mut step = 64;
    let mut since = newest;
    while 0 < since {
        since = since.saturating_sub(step);
        step *= 2;
        match page(client, Some(since), None).await {
            Ok(page) if page.events.first().is_some_and(|event| event.at_ms < oldest_ms) => break,
            Ok(_) => {}
            Err(failure) if failure.is_gone() => return oldest_kept(client, since, newest).await,
            Err(failure) => return Err(failure),
        }
    }
    Ok(since)
}

/// The lowest number from which on events can be had, between one that is too low and one that is not.
async fn oldest_kept(client: &Client, too_low: u64, newest: u64) -> Result<u64, Failure> {
    let (mut low, mut high) = (too_low, newest);
    while low + 1 < high {
        let middle = low.midpoint(high);
        match page(client, Some(middle), None).await {
            Ok(_) => high = middle,
            Err(failure) if failure.is_gone() => low = middle,
            Err(failure) => return Err(failure),
        }
    }
    complain(&format!("events up to {high} are not kept any more"));
    Ok(high)
}

fn tell(event: &Event, args: &Args) -> Result<Reader, Failure> {
    let format = if args.remote.json { Some(Format::Jsonl) } else { args.output };
    Ok(match format {
        Some(Format::Json | Format::Jsonl) => say(&format!("{}\n", serde_json::to_string(event)?))?,
        Some(Format::Table | Format::Wide) | None => {
            let is_wide = format == Some(Format::Wide);
            say(&format!("{}\n", lines(event, is_wide).join("\n")))?
        }
    })
}

/// An event for people, with when and in which cycle it came about.
pub(super) fn lines(event: &Event, is_wide: bool) -> Vec<String> {
    let time = jiff::Timestamp::from_millisecond(event.at_ms);
    let time = time.map_or_else(|_| event.at_ms.to_string(), |time| format!("{time:.0}"));
    let time = if is_wide {
        format!("{time}  {:>8}", event.sequence)
    } else {
        // Of 2026-11-22T14:02:11Z, what a person looks for.
        time.split_once('T').map_or(time.clone(), |(_, clock)| clock.to_owned())
    };
    let told = sentences(&event.what).into_iter();
    told.map(|told| format!("{time}  {:>6}  {}", event.cycle, plain(&told))).collect()
}

/// What came about, a sentence for each job, node or act.
fn sentences(what: &Happening) -> Vec<String> {
    match what {
        Happening::Added { shares } => added(shares),
        Happening::Removed { shares } => removed(shares),
        Happening::Refused { work } => work
            .iter()
            .map(|work| format!("refused   job {}: {}", work.job, work.reason.sentence))
            .collect(),
        Happening::Nodes { nodes } => changed(nodes),
        Happening::Administration { action, nodes, reason } => {
            let nodes = fold_hostlist(nodes.iter().map(String::as_str));
            let reason = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            vec![format!("admin     {action} {nodes}{reason}")]
        }
    }
}

fn added(shares: &[AddedShare]) -> Vec<String> {
    let mut jobs: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for share in shares {
        jobs.entry(share.job).or_default().push(&share.node);
    }
    let told = jobs.into_iter().map(|(job, nodes)| {
        format!("added     job {job}: +{} on {}", nodes.len(), fold_hostlist(nodes))
    });
    told.collect()
}

fn removed(shares: &[RemovedShare]) -> Vec<String> {
    let mut jobs: BTreeMap<(u64, String), Vec<&str>> = BTreeMap::new();
    for share in shares {
        let rule = share.rule.map(|rule| format!(", {}", rule.code())).unwrap_or_default();
        let whom = share.beneficiary.map(|job| format!(" for job {job}")).unwrap_or_default();
        let why = format!("{}{whom}{rule}", removal(share.reason));
        jobs.entry((share.job, why)).or_default().push(&share.node);
    }
    let told = jobs.into_iter().map(|((job, why), nodes)| {
        format!("removed   job {job}: -{} on {} ({why})", nodes.len(), fold_hostlist(nodes))
    });
    told.collect()
}

fn changed(nodes: &[ChangedNode]) -> Vec<String> {
    let words = |states: &[NodeState]| {
        states.iter().map(|state| state.word()).collect::<Vec<_>>().join(",")
    };
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        let before = node.states_before.as_deref().map_or_else(|| "new".to_owned(), words);
        let now = words(&node.states);
        let told = if before == now {
            format!("{now}, another size")
        } else {
            format!("{before} -> {now}")
        };
        groups.entry(told).or_default().push(&node.node);
    }
    let told = groups
        .into_iter()
        .map(|(told, nodes)| format!("nodes     {}: {told}", fold_hostlist(nodes)));
    told.collect()
}
