//! Nodes: the list, each in full, and taking them out of scheduling and back.

use std::collections::BTreeMap;

use serde::Serialize;

use super::answer::{ShownAnswer, answer};
use super::client::DaemonClient;
use super::consent;
use super::failure::Failure;
use super::filters;
use super::node_acts;
use super::node_counts::NodeGroups;
use super::node_names::{self, among, selected};
use super::node_words::{JOBS_SHOWN, names, notes, render_impact, share_state, states};
use super::output::show;
use super::place::OrchestratorArgs;
use super::questions;
use super::questions::{Format, NodeAction, NodeShow, StateFilter, VaryOffArgs, VaryOnArgs};
use super::remote::Remote;
use super::reservation;
use super::table::Column::{Left, Right};
use super::table::{fitted, headed, memory, plain};
use super::text::TextStyle;
use crate::api::wire::{self, NodeInfo, NodeList, VaryAnswer};
use crate::model::fold_hostlist;
use crate::orchestrator::wire::Grid;

/// Runs the command.
///
/// # Errors
///
/// If the daemon cannot be reached or refuses, or the caller declined the evictions.
pub async fn run(action: &NodeAction) -> Result<(), Failure> {
    match action {
        NodeAction::List(args) => list(args).await,
        NodeAction::Show(args) => show_all(args).await,
        NodeAction::VaryOff(args) => vary_off(args).await,
        NodeAction::VaryOn(args) => vary_on(args).await,
        NodeAction::Maintenance(args) => reservation::maintain(args).await,
        NodeAction::Lost(args) => node_acts::lost(args).await,
        NodeAction::Forget(args) => node_acts::forget(args).await,
    }
}

/// Lists nodes.
///
/// # Errors
///
/// If the daemon cannot be reached, or does not know a named node.
pub async fn list(args: &questions::NodeListArgs) -> Result<(), Failure> {
    let state = args.state.map(state_of);
    let mut query: Vec<(&str, &str)> = Vec::new();
    query.extend(state.map(|state| ("state", state)));
    query.extend(args.pool.as_deref().map(|pool| ("pool", pool)));
    if args.summary {
        let summary =
            async |client: &DaemonClient| Ok(NodeGroups::of(some(client, args, &query).await?));
        return answer(&args.asking, summary).await;
    }
    answer(&args.asking, async |client| {
        let list = some(client, args, &query).await?;
        let selects = !query.is_empty() || !args.nodes.is_empty() || !args.job.is_empty();
        let is_wide = args.asking.format() == Format::Wide;
        let limits = if is_wide { limits(&args.asking).await } else { BTreeMap::new() };
        Ok(NodesAnswer { list, selects, limits })
    })
    .await
}

/// The nodes that are asked for, in the order that is asked for.
async fn some(
    client: &DaemonClient,
    args: &questions::NodeListArgs,
    query: &[(&str, &str)],
) -> Result<NodeList, Failure> {
    // Without a filter, an unknown name is an error; with a filter the node may just be filtered
    // out.
    let all: NodeList = client.get(&["v1", "nodes"], query).await?;
    if all.nodes.is_empty() {
        filters::check_pool(client, args.pool.as_deref()).await?;
    }
    let mut list =
        if query.is_empty() { selected(all, &args.nodes)? } else { among(all, &args.nodes)? };
    let has_job = |node: &NodeInfo| node.shares.iter().any(|share| args.job.contains(&share.job));
    list.nodes.retain(|node| args.job.is_empty() || has_job(node));
    if let Some(order) = args.sort {
        filters::sort_nodes(&mut list.nodes, order);
    }
    if args.reverse {
        list.nodes.reverse();
    }
    list.nodes.truncate(args.limit.unwrap_or(usize::MAX));
    Ok(list)
}

/// Returns the way in which each node enforces limits, as far as an orchestrator of campaigns
/// knows.
async fn limits(asking: &questions::QueryFlags) -> BTreeMap<String, &'static str> {
    let Remote { url, json, trust } = asking.remote.clone();
    let named = std::env::var("APPORTION_ORCHESTRATOR").ok();
    let orchestrator = named.and_then(|named| named.parse().ok());
    let place = OrchestratorArgs { orchestrator, url, json, trust };
    if !place.knows_orchestrator() {
        return BTreeMap::new();
    }
    let Ok(orchestrator) = place.open() else { return BTreeMap::new() };
    let grid: Result<Grid, Failure> = orchestrator.get(&["v1", "grid"], &[]).await;
    let nodes = grid.map(|grid| grid.nodes).unwrap_or_default();
    nodes.into_iter().map(|node| (node.node, node.limits.word())).collect()
}

async fn show_all(args: &NodeShow) -> Result<(), Failure> {
    answer(&args.asking, async |client| {
        let all: NodeList = client.get(&["v1", "nodes"], &[]).await?;
        Ok(NodeCards { list: selected(all, &args.nodes)? })
    })
    .await
}

/// Returns the state as the API spells it.
fn state_of(state: StateFilter) -> &'static str {
    match state {
        StateFilter::Up => "up",
        StateFilter::Awaited => "awaited",
        StateFilter::Dead => "dead",
        StateFilter::VariedOff => "varied-off",
        StateFilter::Quiesced => "quiesced",
        StateFilter::Blacklisted => "blacklisted",
        StateFilter::Maintenance => "maintenance",
    }
}

/// Nodes in lines.
#[derive(Debug, Serialize)]
struct NodesAnswer {
    #[serde(flatten)]
    list: NodeList,
    #[serde(skip)]
    selects: bool,
    /// Way of enforcing limits, by node; empty if unknown or not shown.
    #[serde(skip)]
    limits: BTreeMap<String, &'static str>,
}

impl ShownAnswer for NodesAnswer {
    type Entry = NodeInfo;

    fn entries(&self) -> &[NodeInfo] {
        &self.list.nodes
    }

    fn name(node: &NodeInfo) -> String {
        node.name.clone()
    }

    fn render(&self, look: TextStyle) -> String {
        match (self.list.nodes.is_empty(), self.selects) {
            (true, true) => "No such node. `apportion nodes` lists all there are.".to_owned(),
            (true, false) => "No node has reported yet. Start an agent on each; it reports to \
                 POST /v1/heartbeats."
                .to_owned(),
            (false, _) if look.is_wide => render_wide(&self.list, &self.limits, look),
            (false, _) => render(&self.list, look),
        }
    }
}

/// Nodes in full.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct NodeCards {
    list: NodeList,
}

impl ShownAnswer for NodeCards {
    type Entry = NodeInfo;

    fn entries(&self) -> &[NodeInfo] {
        &self.list.nodes
    }

    fn name(node: &NodeInfo) -> String {
        node.name.clone()
    }

    fn render(&self, look: TextStyle) -> String {
        let cards = self.list.nodes.iter().map(|node| card(node, look));
        cards.collect::<Vec<_>>().join("\n\n")
    }
}

/// Quanta of a node as memory.
fn in_memory(node: &NodeInfo, quanta: u64) -> String {
    memory(quanta.saturating_mul(node.quantum_mb))
}

/// Tags of a node, as a request writes them.
fn tags(node: &NodeInfo) -> String {
    let tags = node.tags.iter().map(|(key, value)| format!("{key}={value}"));
    tags.collect::<Vec<_>>().join(",")
}

fn card(node: &NodeInfo, look: TextStyle) -> String {
    let mut lines = vec![
        format!("{} in pool {}: {}", plain(&node.name), plain(&node.pool), states(node)),
        format!(
            "memory:   {}, of which {} is shared out, in pieces of {}",
            memory(node.memory_mb),
            in_memory(node, node.order),
            memory(node.quantum_mb)
        ),
        format!("taken:    {}", in_memory(node, node.used)),
        format!("free:     {}", in_memory(node, node.free)),
    ];
    if !node.tags.is_empty() {
        lines.push(format!("tags:     {}", plain(&tags(node))));
    }
    if node.preference != 0 {
        lines.push(format!("gangs:    preference {}", node.preference));
    }
    lines.extend(reservation::next_window_line(node));
    let note = plain(&notes(node));
    if !note.is_empty() {
        lines.push(format!("note:     {note}"));
    }
    if !node.shares.is_empty() {
        let columns = [Right("SHARE"), Right("JOB"), Right("MEMORY"), Left("STATE")];
        let rows = node.shares.iter().map(|share| {
            [
                share.share.to_string(),
                share.job.to_string(),
                memory(share.memory_mb),
                share_state(share.state).to_owned(),
            ]
        });
        lines.push(String::new());
        lines.push(headed(columns, rows, look));
    }
    lines.join("\n")
}

async fn vary_off(args: &VaryOffArgs) -> Result<(), Failure> {
    let client = DaemonClient::new(&args.remote)?;
    let nodes = node_names::spelled_out(&client, &args.nodes).await?;
    let request = |dry_run| wire::VaryOff {
        nodes: nodes.clone(),
        reason: args.reason.clone(),
        dry_run,
        all: args.all,
    };
    let path = &["v1", "nodes", "vary-off"];
    if !args.dry_run && !args.yes {
        let preview: VaryAnswer = client.post(path, &request(true)).await?;
        if 0 < preview.impact.shares_evicted {
            let render = |preview: &VaryAnswer| render_answer(preview, VaryWay::Off);
            consent::ask(&preview, args.remote.json, render)?;
        }
    }
    let answer: VaryAnswer = client.post(path, &request(args.dry_run)).await?;
    Ok(show(&answer, args.remote.json, |answer| render_answer(answer, VaryWay::Off))?)
}

async fn vary_on(args: &VaryOnArgs) -> Result<(), Failure> {
    let client = DaemonClient::new(&args.remote)?;
    let nodes = node_names::spelled_out(&client, &args.nodes).await?;
    let request = wire::VaryOn { nodes, dry_run: args.dry_run };
    let answer: VaryAnswer = client.post(&["v1", "nodes", "vary-on"], &request).await?;
    Ok(show(&answer, args.remote.json, |answer| render_answer(answer, VaryWay::On))?)
}

#[derive(Clone, Copy, Debug)]
enum VaryWay {
    Off,
    On,
}

fn render(list: &NodeList, look: TextStyle) -> String {
    let columns = [
        Left("NODE"),
        Left("POOL"),
        Left("STATE"),
        Right("MEMORY"),
        Right("FREE"),
        Left("WORK"),
        Left("NOTE"),
    ];
    let rows = folded(&list.nodes).into_iter().map(|(names, row)| {
        let [pool, state, memory, free, work, note] = row;
        [fold_hostlist(names), pool, state, memory, free, work, note]
    });
    fitted(columns, rows, look, &["POOL"])
}

/// A line for each node, and all its work. Limits have a column if any is known.
fn render_wide(
    list: &NodeList,
    limits: &BTreeMap<String, &'static str>,
    look: TextStyle,
) -> String {
    let has_tags = list.nodes.iter().any(|node| !node.tags.is_empty());
    let columns = [
        Left("NODE"),
        Left("POOL"),
        Left("STATE"),
        Right("MEMORY"),
        Right("QUANTUM"),
        Right("SIZE"),
        Right("USED"),
        Right("FREE"),
        Right("SHARES"),
        Left("WORK"),
        Left("NOTE"),
        Left(if has_tags { "TAGS" } else { "" }),
        Left(if limits.is_empty() { "" } else { "LIMITS" }),
    ];
    let rows = list.nodes.iter().map(|node| {
        let mut jobs: BTreeMap<u64, u64> = BTreeMap::new();
        for share in &node.shares {
            *jobs.entry(share.job).or_default() += 1;
        }
        let jobs = jobs.iter().map(|(job, shares)| format!("{job}:{shares}"));
        [
            node.name.clone(),
            node.pool.clone(),
            states(node),
            memory(node.memory_mb),
            memory(node.quantum_mb),
            in_memory(node, node.order),
            in_memory(node, node.used),
            in_memory(node, node.free),
            node.shares.len().to_string(),
            jobs.collect::<Vec<_>>().join(" "),
            notes(node),
            tags(node),
            limits.get(&node.name).copied().unwrap_or_default().to_owned(),
        ]
    });
    headed(columns, rows, look)
}

/// Nodes with the same row, together, where the first of them is.
fn folded(nodes: &[NodeInfo]) -> Vec<(Vec<&str>, [String; 6])> {
    let mut places = BTreeMap::new();
    let mut groups: Vec<(Vec<&str>, [String; 6])> = Vec::new();
    for node in nodes {
        let row = row(node);
        let place = *places.entry(row.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((names, _)) => names.push(&node.name),
            None => groups.push((vec![&node.name], row)),
        }
    }
    groups
}

/// All that is shown of a node but its name.
fn row(node: &NodeInfo) -> [String; 6] {
    [
        node.pool.clone(),
        states(node),
        memory(node.memory_mb),
        in_memory(node, node.free),
        work(node),
        notes(node),
    ]
}

fn work(node: &NodeInfo) -> String {
    let mut jobs: Vec<u64> = node.shares.iter().map(|share| share.job).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let shown = jobs.iter().take(JOBS_SHOWN).map(u64::to_string);
    let more = jobs.len().saturating_sub(JOBS_SHOWN);
    let more = (0 < more).then(|| format!("+{more}"));
    shown.chain(more).collect::<Vec<_>>().join(" ")
}

fn render_answer(answer: &VaryAnswer, way: VaryWay) -> String {
    let mut lines = Vec::new();
    let word = match way {
        VaryWay::Off => "off",
        VaryWay::On => "on",
    };
    if !answer.changed.is_empty() {
        let done = if answer.dry_run { "would be varied" } else { "varied" };
        lines.push(format!("{} {done} {word}", names(&answer.changed)));
    }
    if !answer.unchanged.is_empty() {
        lines.push(format!("{} already {word}", names(&answer.unchanged)));
    }
    if let VaryWay::Off = way {
        lines.extend(render_impact(&answer.impact, answer.dry_run, !answer.changed.is_empty()));
    }
    lines.extend(answer.notes.iter().map(|note| format!("note: {}", plain(note))));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::api::wire::{Impact, JobBelow, NodeShare, NodeState, ShareState};

    fn node(name: &str, jobs: &[u64]) -> NodeInfo {
        let share = |&job: &u64| NodeShare {
            job,
            share: job * 10,
            order: 1,
            memory_mb: 15_360,
            state: ShareState::Held,
        };
        let used = u64::try_from(jobs.len()).unwrap();
        NodeInfo {
            preference: 0,
            tags: BTreeMap::new(),
            name: name.to_owned(),
            pool: "--default--".to_owned(),
            states: vec![NodeState::Up],
            memory_mb: 122_880,
            quantum_mb: 15_360,
            order: 8,
            used,
            free: 8 - used,
            next_window: None,
            missed_heartbeats: 0,
            vary_off_reason: None,
            notes: Vec::new(),
            shares: jobs.iter().map(share).collect(),
        }
    }

    #[test]
    fn nodes_that_are_alike_share_a_row() {
        let silent = NodeInfo {
            states: vec![NodeState::Dead, NodeState::Quiesced],
            next_window: None,
            missed_heartbeats: 6,
            ..node("node04", &[])
        };
        let off = |name| NodeInfo {
            states: vec![NodeState::VariedOff],
            vary_off_reason: Some("disk swap".to_owned()),
            ..node(name, &[2004])
        };
        let nodes = vec![
            node("node01", &[1003, 1001, 1003]),
            node("node02", &[1, 2, 3, 4, 5, 6, 7, 8]),
            node("node03", &[1001, 1003, 1003]),
            silent,
            off("node05"),
            off("node06"),
        ];
        let list = NodeList { cycle: 7, nodes };
        assert_snapshot!(render(&list, TextStyle::default()));
        let limits = BTreeMap::new();
        assert_snapshot!(render_wide(&list, &limits, TextStyle::default()));
        let limits = BTreeMap::from([("node02".to_owned(), "cgroup2")]);
        let wide = render_wide(&list, &limits, TextStyle::default());
        assert!(wide.lines().nth(2).unwrap().ends_with("  cgroup2"), "{wide}");
        let cards = NodeCards { list: selected(list, &["node[05,01]".to_owned()]).unwrap() };
        assert_snapshot!(cards.render(TextStyle::default()));
    }

    #[test]
    fn no_nodes_is_a_reason_to_start_agents() {
        let list = NodeList { cycle: 0, nodes: Vec::new() };
        let text = NodesAnswer { list, selects: false, limits: BTreeMap::new() }
            .render(TextStyle::default());
        assert!(text.contains("POST /v1/heartbeats"), "{text}");
    }

    #[test]
    fn the_answer_says_what_becomes_of_work() {
        let owned = |names: &[&str]| names.iter().copied().map(str::to_owned).collect::<Vec<_>>();
        let answer = VaryAnswer {
            changed: owned(&["node20", "node21", "node22"]),
            unchanged: owned(&["node23"]),
            dry_run: true,
            impact: Impact {
                shares_evicted: 6,
                jobs: vec![1003, 1011],
                kept: 1,
                work_lost_ms: 150_000,
                preempted: 2,
                below: vec![JobBelow { job: 1003, holds: 8, keeps: 4 }],
            },
            notes: owned(&["node21 is dead"]),
        };
        assert_snapshot!(render_answer(&answer, VaryWay::Off));
        let done = VaryAnswer { dry_run: false, impact: Impact::default(), ..answer.clone() };
        assert_snapshot!(render_answer(&done, VaryWay::Off));
        assert_snapshot!(render_answer(&done, VaryWay::On));
    }
}
