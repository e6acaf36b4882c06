//! Nodes: the list, and taking them out of scheduling and back.

use super::args::{NodeAction, Remote, VaryOff, VaryOn};
use super::client::Client;
use super::consent;
use super::failure::Failure;
use super::output::show;
use super::table::Column::{Left, Right};
use super::table::{counted, memory, plain, table};
use crate::api::wire::{self, NodeInfo, NodeList, NodeState, VaryAnswer};
use crate::model::fold_hostlist;

/// So many jobs of a node are named; the rest are counted.
const JOBS_SHOWN: usize = 6;

/// Does what was asked.
///
/// # Errors
///
/// If the daemon cannot be reached or refuses, or work would be evicted and nobody agreed to that.
pub async fn run(action: &NodeAction) -> Result<(), Failure> {
    match action {
        NodeAction::List(remote) => list(remote).await,
        NodeAction::VaryOff(args) => vary_off(args).await,
        NodeAction::VaryOn(args) => vary_on(args).await,
    }
}

/// Lists the nodes.
///
/// # Errors
///
/// If the daemon cannot be reached.
pub async fn list(remote: &Remote) -> Result<(), Failure> {
    let nodes: NodeList = Client::new(remote)?.get(&["v1", "nodes"], &[]).await?;
    Ok(show(&nodes, remote.json, render)?)
}

async fn vary_off(args: &VaryOff) -> Result<(), Failure> {
    let client = Client::new(&args.remote)?;
    let request = |dry_run| wire::VaryOff {
        nodes: args.nodes.clone(),
        reason: args.reason.clone(),
        dry_run,
        all: args.all,
    };
    let path = &["v1", "nodes", "vary-off"];
    if !args.dry_run && !args.yes {
        let preview: VaryAnswer = client.post(path, &request(true)).await?;
        if 0 < preview.impact.shares_evicted {
            let otherwise = "nothing was done; say --yes to do it, or --dry-run to only look";
            consent::ask(&render_answer(&preview, Way::Off), otherwise)?;
        }
    }
    let answer: VaryAnswer = client.post(path, &request(args.dry_run)).await?;
    Ok(show(&answer, args.remote.json, |answer| render_answer(answer, Way::Off))?)
}

async fn vary_on(args: &VaryOn) -> Result<(), Failure> {
    let request = wire::VaryOn { nodes: args.nodes.clone(), dry_run: args.dry_run };
    let client = Client::new(&args.remote)?;
    let answer: VaryAnswer = client.post(&["v1", "nodes", "vary-on"], &request).await?;
    Ok(show(&answer, args.remote.json, |answer| render_answer(answer, Way::On))?)
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Off,
    On,
}

fn render(list: &NodeList) -> String {
    if list.nodes.is_empty() {
        return "No node has reported yet. Start an agent on each; it reports to \
                POST /v1/heartbeats."
            .to_owned();
    }
    let columns = [
        Left("NODE"),
        Left("POOL"),
        Left("STATE"),
        Right("MEMORY"),
        Right("QSHARES"),
        Right("FREE"),
        Left("WORK"),
        Left("NOTE"),
    ];
    let rows = folded(&list.nodes).into_iter().map(|(names, row)| {
        let [pool, state, memory, order, free, work, note] = row;
        [fold_hostlist(names), pool, state, memory, order, free, work, note]
    });
    table(columns, rows)
}

/// Nodes with the same row, together, where the first of them is.
fn folded(nodes: &[NodeInfo]) -> Vec<(Vec<&str>, [String; 7])> {
    let mut places = std::collections::BTreeMap::new();
    let mut groups: Vec<(Vec<&str>, [String; 7])> = Vec::new();
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
fn row(node: &NodeInfo) -> [String; 7] {
    [
        node.pool.clone(),
        node.states.iter().map(|state| word(*state)).collect::<Vec<_>>().join(","),
        memory(node.memory_mb),
        node.order.to_string(),
        node.free.to_string(),
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

fn notes(node: &NodeInfo) -> String {
    let missed = u64::from(node.missed_heartbeats);
    let missed = (0 < missed).then(|| format!("missed {}", counted(missed, "heartbeat")));
    let reason = node.vary_off_reason.as_ref().map(|reason| format!("off: {reason}"));
    reason.into_iter().chain(missed).chain(node.notes.clone()).collect::<Vec<_>>().join("; ")
}

fn word(state: NodeState) -> &'static str {
    match state {
        NodeState::Up => "up",
        NodeState::Awaited => "awaited",
        NodeState::Dead => "dead",
        NodeState::VariedOff => "varied-off",
        NodeState::Quiesced => "quiesced",
        NodeState::Blacklisted => "blacklisted",
    }
}

fn render_answer(answer: &VaryAnswer, way: Way) -> String {
    let mut lines = Vec::new();
    let word = match way {
        Way::Off => "off",
        Way::On => "on",
    };
    if !answer.changed.is_empty() {
        let done = if answer.dry_run { "would be varied" } else { "varied" };
        lines.push(format!("{} {done} {word}", names(&answer.changed)));
    }
    if !answer.unchanged.is_empty() {
        lines.push(format!("{} already {word}", names(&answer.unchanged)));
    }
    if let Way::Off = way {
        lines.extend(render_impact(answer));
    }
    lines.extend(answer.notes.iter().map(|note| format!("note: {}", plain(note))));
    lines.join("\n")
}

fn render_impact(answer: &VaryAnswer) -> Vec<String> {
    let impact = &answer.impact;
    let mut lines = Vec::new();
    let would = if answer.dry_run { "would be " } else { "" };
    if 0 < impact.shares_evicted {
        let count = u64::try_from(impact.jobs.len()).unwrap_or(u64::MAX);
        let jobs: Vec<String> = impact.jobs.iter().take(JOBS_SHOWN).map(u64::to_string).collect();
        let more = if JOBS_SHOWN < impact.jobs.len() { ", …" } else { "" };
        lines.push(format!(
            "{} of {} {would}evicted ({}{more})",
            counted(impact.shares_evicted, "share"),
            counted(count, "job"),
            jobs.join(", "),
        ));
    } else if !answer.changed.is_empty() {
        lines.push(format!("no work {would}evicted"));
    }
    if 0 < impact.kept {
        let stays = if impact.kept == 1 { "stays" } else { "stay" };
        lines.push(format!("{} {stays} until done", counted(impact.kept, "share")));
    }
    lines
}

fn names(nodes: &[String]) -> String {
    plain(&fold_hostlist(nodes.iter().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::api::wire::{Impact, NodeShare, ShareState};

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
            name: name.to_owned(),
            pool: "--default--".to_owned(),
            states: vec![NodeState::Up],
            memory_mb: 122_880,
            quantum_mb: 15_360,
            order: 8,
            used,
            free: 8 - used,
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
        assert_snapshot!(render(&NodeList { cycle: 7, nodes }));
    }

    #[test]
    fn no_nodes_is_a_reason_to_start_agents() {
        let text = render(&NodeList { cycle: 0, nodes: Vec::new() });
        assert!(text.contains("POST /v1/heartbeats"), "{text}");
    }

    #[test]
    fn the_answer_says_what_becomes_of_work() {
        let owned = |names: &[&str]| names.iter().copied().map(str::to_owned).collect::<Vec<_>>();
        let answer = VaryAnswer {
            changed: owned(&["node20", "node21", "node22"]),
            unchanged: owned(&["node23"]),
            dry_run: true,
            impact: Impact { shares_evicted: 6, jobs: vec![1003, 1011], kept: 1 },
            notes: owned(&["node21 is dead"]),
        };
        assert_snapshot!(render_answer(&answer, Way::Off));
        let done = VaryAnswer { dry_run: false, impact: Impact::default(), ..answer.clone() };
        assert_snapshot!(render_answer(&done, Way::Off));
        assert_snapshot!(render_answer(&done, Way::On));
    }
}
