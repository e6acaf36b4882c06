//! Every node with every share on it, and the job of each share.

use std::collections::BTreeMap;

use serde::Serialize;

use super::answer::{ShownAnswer, answer};
use super::args::OccupancyArgs as Args;
use super::client::DaemonClient;
use super::failure::Failure;
use super::node_names::selected;
use super::node_words::{share_state, states};
use super::table::Column::{Left, Right};
use super::table::{fitted, headed, memory};
use super::text::TextStyle;
use crate::api::wire::{ClassList, JobInfo, NodeInfo, NodeList, NodeState, Policy, WorkKind};
use crate::model::span;

/// Nodes, and the work that is on them.
#[derive(Debug, Serialize)]
pub(super) struct Occupied {
    cycle: u64,
    nodes: Vec<OccupiedNode>,
}

/// A node with its shares.
#[derive(Debug, Serialize)]
pub(super) struct OccupiedNode {
    #[serde(flatten)]
    node: NodeInfo,
    /// Qshares of it that cannot be preempted.
    fixed: u64,
    /// The classes whose work may come here.
    classes: Vec<String>,
    #[serde(rename = "tenants")]
    shares: Vec<OccupiedShare>,
}

/// A share with its job.
#[derive(Debug, Serialize)]
struct OccupiedShare {
    share: u64,
    job: u64,
    user: String,
    class: String,
    kind: WorkKind,
    qshares: u64,
    fixed: bool,
    state: &'static str,
    initialization_ms: u64,
    investment_ms: u64,
    evicted: bool,
}

/// Shows it.
///
/// # Errors
///
/// If the daemon cannot be reached, or does not know a node that was named.
pub async fn run(args: &Args) -> Result<(), Failure> {
    answer(&args.asking, async |client| ask(client, &args.nodes).await).await
}

/// Returns the shares on the nodes that `lists` names, or on all nodes if it is empty. Nodes and
/// jobs may be of different cycles; a share that only one side knows is shown with fewer details.
pub(super) async fn ask(client: &DaemonClient, lists: &[String]) -> Result<Occupied, Failure> {
    let nodes: NodeList = client.get(&["v1", "nodes"], &[]).await?;
    let nodes = selected(nodes, lists)?;
    let classes: ClassList = client.get(&["v1", "classes"], &[]).await?;
    let jobs = client.jobs(&[]).await?.jobs;
    let jobs: BTreeMap<u64, JobInfo> = jobs.into_iter().map(|job| (job.id, job)).collect();
    let occupied = nodes.nodes.into_iter().map(|node| occupied(node, &jobs, &classes)).collect();
    Ok(Occupied { cycle: nodes.cycle, nodes: occupied })
}

fn occupied(node: NodeInfo, jobs: &BTreeMap<u64, JobInfo>, classes: &ClassList) -> OccupiedNode {
    let policy = |class: &str| classes.classes.iter().find(|one| one.name == class);
    let shares = node.shares.iter().map(|share| {
        let job = jobs.get(&share.job);
        let known = job.and_then(|job| job.shares.iter().find(|known| known.share == share.share));
        let class = job.map(|job| job.class.clone()).unwrap_or_default();
        let is_fixed = policy(&class).is_some_and(|class| class.policy != Policy::FairShare);
        OccupiedShare {
            share: share.share,
            job: share.job,
            user: job.map(|job| job.user.clone()).unwrap_or_default(),
            class,
            kind: job.map_or(WorkKind::Job, |job| job.kind),
            qshares: share.order,
            fixed: is_fixed,
            state: match known.map(|known| (known.removal.is_some(), known.seen, known.initialized))
            {
                None => share_state(share.state),
                Some((true, _, _)) => "leaving",
                Some((_, false, _)) => "assigned",
                Some((_, _, false)) => "initializing",
                Some((_, _, true)) => "running",
            },
            initialization_ms: known.map_or(0, |known| known.initialization_ms),
            investment_ms: known.map_or(0, |known| known.investment_ms),
            evicted: known.is_some_and(|known| known.removal.is_some()),
        }
    });
    let shares: Vec<OccupiedShare> = shares.collect();
    let may_come = classes.classes.iter().filter(|class| class.pool == node.pool);
    OccupiedNode {
        fixed: shares.iter().filter(|share| share.fixed).map(|share| share.qshares).sum(),
        classes: may_come.map(|class| class.name.clone()).collect(),
        shares,
        node,
    }
}

impl ShownAnswer for Occupied {
    type Entry = OccupiedNode;

    fn entries(&self) -> &[OccupiedNode] {
        &self.nodes
    }

    fn name(one: &OccupiedNode) -> String {
        one.node.name.clone()
    }

    /// Renders a line a node; each share has a line under its node.
    fn render(&self, look: TextStyle) -> String {
        if look.is_wide {
            return self.render_wide(look);
        }
        let columns = [
            Left("NODE"),
            Left("POOL"),
            Left("STATE"),
            Right("MEMORY"),
            Right("FREE"),
            Right("SHARE"),
            Right("JOB"),
            Left("USER"),
            Left("KIND"),
            Right("SIZE"),
            Left("DOING"),
            Right("INVESTED"),
        ];
        let rows = self.nodes.iter().flat_map(|OccupiedNode { node, shares, .. }| {
            let own = [
                node.name.clone(),
                node.pool.clone(),
                states(node),
                in_memory(node, node.order),
                in_memory(node, node.free),
            ];
            let with = |[name, pool, state, all, free]: [String; 5], share: [String; 7]| {
                let [id, job, user, kind, size, doing, invested] = share;
                [name, pool, state, all, free, id, job, user, kind, size, doing, invested]
            };
            if shares.is_empty() {
                return vec![with(own, Default::default())];
            }
            // The node has its name beside the first share only.
            let shares = shares.iter().enumerate().map(|(place, share)| {
                let own = if place == 0 { own.clone() } else { Default::default() };
                let share = [
                    share.share.to_string(),
                    share.job.to_string(),
                    share.user.clone(),
                    share.kind.word().to_owned(),
                    in_memory(node, share.qshares),
                    share.state.to_owned(),
                    span(share.investment_ms),
                ];
                with(own, share)
            });
            shares.collect()
        });
        fitted(columns, rows, look, &["POOL", "KIND", "MEMORY", "SHARE", "FREE"])
    }
}

/// Quanta of a node as memory.
fn in_memory(node: &NodeInfo, quanta: u64) -> String {
    memory(quanta.saturating_mul(node.quantum_mb))
}

/// Headings of amounts in the wide form: size of a node, memory that is never taken back, and the
/// word before the size of a share.
struct AmountNames {
    size: &'static str,
    fixed: &'static str,
    share: &'static str,
}

impl Occupied {
    /// All of it, with amounts in memory.
    fn render_wide(&self, look: TextStyle) -> String {
        let names = AmountNames { size: "SIZE", fixed: "FIXED", share: "" };
        self.render_all(look, &names, in_memory)
    }

    /// The columns of UIMA-DUCC's `rm_qoccupancy`, which scripts read: amounts are in qshares.
    pub(super) fn render_as_ducc(&self, look: TextStyle) -> String {
        let names = AmountNames { size: "ORDER", fixed: "NP-IN-USE", share: "order " };
        self.render_all(look, &names, |_, quanta| quanta.to_string())
    }

    /// A line for each node, and under it a line for each share.
    fn render_all(
        &self,
        look: TextStyle,
        names: &AmountNames,
        amount: impl Fn(&NodeInfo, u64) -> String,
    ) -> String {
        let columns = [
            Left("NODE"),
            Left("STATUS"),
            Left("BLACKLISTED"),
            Left("ONLINE"),
            Left("RESPONSIVE"),
            Left("NODEPOOL"),
            Right("MEMORY"),
            Right(names.size),
            Right("FREE"),
            Right("IN-USE"),
            Right(names.fixed),
            Right("QUANTUM"),
            Left("RESERVABLE"),
            Left("CLASSES"),
        ];
        let rows = self.nodes.iter().map(|occupied| {
            let node = &occupied.node;
            let is = |state| node.states.contains(&state);
            let is_responsive = !is(NodeState::Dead) && !is(NodeState::Awaited);
            let is_up = is_responsive && !is(NodeState::VariedOff) && !is(NodeState::Blacklisted);
            [
                node.name.clone(),
                if is_up { "up" } else { "down" }.to_owned(),
                is(NodeState::Blacklisted).to_string(),
                (!is(NodeState::VariedOff)).to_string(),
                is_responsive.to_string(),
                node.pool.clone(),
                memory(node.memory_mb),
                amount(node, node.order),
                amount(node, node.free),
                node.shares.len().to_string(),
                amount(node, occupied.fixed),
                memory(node.quantum_mb),
                (node.used == 0 && is(NodeState::Up)).to_string(),
                occupied.classes.join(" "),
            ]
        });
        let lines = headed(columns, rows, TextStyle { no_header: false, ..look });
        let mut lines = lines.lines();
        let heading = lines.next().filter(|_| !look.no_header).map(str::to_owned);
        let with_shares = lines.zip(&self.nodes).flat_map(|(line, occupied)| {
            let shares = occupied.shares.iter().map(|share| {
                format!(
                    "    {} {} {} {}: share {}, {}{}, init {}, invested {}, {}{}{}",
                    share.kind.word(),
                    share.job,
                    super::table::plain(&share.user),
                    super::table::plain(&share.class),
                    share.share,
                    names.share,
                    amount(&occupied.node, share.qshares),
                    span(share.initialization_ms),
                    span(share.investment_ms),
                    share.state,
                    if share.fixed { ", fixed" } else { "" },
                    if share.evicted { ", evicted" } else { "" },
                )
            });
            [line.to_owned()].into_iter().chain(shares).collect::<Vec<_>>()
        });
        heading.into_iter().chain(with_shares).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;

    #[test]
    fn shares_stand_beside_their_nodes_in_memory() {
        let node: NodeInfo = serde_json::from_value(json!({
            "name": "node01", "pool": "--default--", "memory_mb": 126_976, "quantum_mb": 15_360,
            "order": 8, "used": 4, "free": 4, "states": ["up"], "missed_heartbeats": 0,
            "shares": [
                { "share": 4711, "job": 1007, "order": 2, "memory_mb": 30_720, "state": "held" },
                { "share": 4712, "job": 1009, "order": 2, "memory_mb": 30_720, "state": "held" },
            ],
        }))
        .unwrap();
        let idle = NodeInfo {
            name: "node02".to_owned(),
            used: 0,
            free: 8,
            shares: Vec::new(),
            ..node.clone()
        };
        let classes = ClassList { cycle: 7, classes: Vec::new() };
        let nodes = [node, idle].map(|node| occupied(node, &BTreeMap::new(), &classes));
        let all = Occupied { cycle: 7, nodes: nodes.into() };
        let narrow = TextStyle { width: Some(80), ..TextStyle::default() };
        let shown = [
            all.render(TextStyle::default()),
            all.render(narrow),
            all.render(TextStyle { is_wide: true, ..TextStyle::default() }),
            all.render_as_ducc(TextStyle::default()),
        ];
        assert!(shown[1].lines().all(|line| line.chars().count() <= 80), "{}", shown[1]);
        assert_snapshot!(shown.join("\n----\n"));
    }
}
