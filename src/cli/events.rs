//! The feed of events, a line for each job, node or act, from the past and onwards.

use std::collections::BTreeMap;

use super::args::{EventFormat, Events as Args, Since};
use super::client::DaemonClient;
use super::event_filter::EventFilter;
use super::failure::Failure;
use super::formats;
use super::jobs::removal;
use super::output::{OutputReader, complain, say};
use super::table::plain;
use crate::api::wire::{
    AddedShare, ChangedNode, Event, EventPage, FeedEvent, NodeState, RemovedShare,
};
use crate::model::fold_hostlist;

/// Events of an answer without `--since`.
const TOLD: usize = 20;

/// Said where some of what was asked for is missing.
const GAP: &str = "note: earlier events are not kept any more";

/// Longest wait of a request for more events. A client waits longer than this for an answer.
const WAIT: &str = "25s";

/// Prints events.
///
/// # Errors
///
/// If the daemon cannot be reached, does not keep events so far back, or does not know a node that was named.
pub async fn run(args: &Args) -> Result<(), Failure> {
    let client = DaemonClient::new(&args.remote)?;
    let filter = EventFilter::of(&client, args).await?;
    let newest = page(&client, None, None).await?.sequence;
    let limit = args.limit.or(args.since.is_none().then_some(TOLD));
    let (since, oldest_ms) = match args.since {
        None => (0, i64::MIN),
        Some(Since::Number(number)) => (number, i64::MIN),
        Some(Since::Span(span)) => {
            let now_ms = i64::try_from(super::queue::now_ms()).unwrap_or(i64::MAX);
            let oldest_ms = now_ms.saturating_sub(span);
            (before(&client, newest, oldest_ms).await?, oldest_ms)
        }
    };
    let is_exact = matches!(args.since, Some(Since::Number(_)));
    let mut reading =
        EventCursor { client, filter, newest, is_exact, since, has_gap: false, oldest_ms };
    if let Some(limit) = limit {
        for event in reading.last(limit).await? {
            if let OutputReader::Gone = tell(&event, args)? {
                return Ok(());
            }
        }
        reading.since = newest;
        if reading.has_gap && args.since.is_some() {
            complain(GAP);
        }
        if !args.follow {
            return Ok(());
        }
    }
    loop {
        let (events, is_all) = reading.next(args.follow).await?;
        if std::mem::take(&mut reading.has_gap) {
            complain(GAP);
        }
        for event in events {
            if let OutputReader::Gone = tell(&event, args)? {
                return Ok(());
            }
        }
        if !args.follow && is_all {
            return Ok(());
        }
    }
}

/// Position of a reader in the feed of events.
struct EventCursor {
    client: DaemonClient,
    filter: EventFilter,
    /// The last event when reading began.
    newest: u64,
    /// True if the caller named the first event by its number: then a missing event is an error.
    is_exact: bool,
    /// The last event that was read.
    since: u64,
    /// True if the store has dropped events before the first that was read.
    has_gap: bool,
    /// Time of the oldest printed event, in milliseconds since the epoch.
    oldest_ms: i64,
}

impl EventCursor {
    /// The events of the next page that are wanted, and whether they were the last.
    async fn next(&mut self, waits: bool) -> Result<(Vec<Event>, bool), Failure> {
        let has_all = self.newest <= self.since;
        let wait = (waits && has_all).then_some(WAIT);
        let page = match page(&self.client, Some(self.since), wait).await {
            // The caller gave no number, so the reader may skip dropped events.
            Err(failure) if failure.is_gone() && !self.is_exact && self.since < self.newest => {
                self.since = oldest_kept(&self.client, self.since, self.newest).await?;
                self.has_gap = true;
                return Ok((Vec::new(), false));
            }
            page => page?,
        };
        self.since = page.sequence;
        let events = page.events.into_iter().filter(|event| self.oldest_ms <= event.at_ms);
        let events = events.filter_map(|event| self.filter.only(event)).collect();
        Ok((events, !page.more))
    }

    /// Returns the last `limit` events of the filter, by a search backwards in growing steps.
    async fn last(&mut self, limit: usize) -> Result<Vec<Event>, Failure> {
        let first = self.since;
        let mut step = u64::try_from(limit).unwrap_or(u64::MAX);
        loop {
            let from = self.newest.saturating_sub(step).max(first);
            self.since = from;
            let mut found = Vec::new();
            while self.since < self.newest {
                found.extend(self.next(false).await?.0);
            }
            if limit <= found.len() || from <= first || self.has_gap {
                return Ok(found.split_off(found.len().saturating_sub(limit)));
            }
            step = step.saturating_mul(4);
        }
    }
}

async fn page(
    client: &DaemonClient,
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
async fn before(client: &DaemonClient, newest: u64, oldest_ms: i64) -> Result<u64, Failure> {
    let mut step = 64;
    let mut since = newest;
    while 0 < since {
        since = since.saturating_sub(step);
        step *= 2;
        match page(client, Some(since), None).await {
            Ok(page) if page.events.first().is_some_and(|event| event.at_ms < oldest_ms) => break,
            Ok(_) => {}
            Err(failure) if failure.is_gone() => {
                complain(GAP);
                return oldest_kept(client, since, newest).await;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(since)
}

/// Returns the lowest number that the daemon still serves, above `too_low` and up to `newest`. A
/// binary search, as the daemon does not tell it.
async fn oldest_kept(client: &DaemonClient, too_low: u64, newest: u64) -> Result<u64, Failure> {
    let (mut low, mut high) = (too_low, newest);
    while low + 1 < high {
        let middle = low.midpoint(high);
        match page(client, Some(middle), None).await {
            Ok(_) => high = middle,
            Err(failure) if failure.is_gone() => low = middle,
            Err(failure) => return Err(failure),
        }
    }
    Ok(high)
}

fn tell(event: &Event, args: &Args) -> Result<OutputReader, Failure> {
    let format = if args.remote.json { Some(EventFormat::Json) } else { args.output };
    Ok(match format {
        Some(EventFormat::Json) => say(&format!("{}\n", serde_json::to_string(event)?))?,
        Some(EventFormat::Yaml) => say(&format!("---\n{}\n", formats::yaml(event)?.trim_end()))?,
        Some(EventFormat::Table | EventFormat::Wide) | None => {
            let is_wide = format == Some(EventFormat::Wide);
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

/// Returns a sentence for each job, node or act of an event.
fn sentences(what: &FeedEvent) -> Vec<String> {
    match what {
        FeedEvent::Added { shares } => added(shares),
        FeedEvent::Removed { shares } => removed(shares),
        FeedEvent::Refused { work } => work
            .iter()
            .map(|work| format!("refused   job {}: {}", work.job, work.reason.sentence))
            .collect(),
        FeedEvent::Nodes { nodes } => changed(nodes),
        FeedEvent::Administration { action, nodes, reason } => {
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
