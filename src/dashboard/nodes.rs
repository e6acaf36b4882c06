//! All nodes, filtered by what the address says, with the way to take some out and put them back.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use super::Dashboard;
use super::frame::{Ask, Page, PageError, PageQuery};
use super::rows::{Bar, Paging};
use super::sort::Sort;
use super::words::{self, counted, memory};
use crate::api::{ApiState, queries, wire};
use crate::scheduler::{NodeView, View};

/// Jobs of a node listed by name; the rest are counted.
const JOBS_SHOWN: usize = 6;

/// Selection of nodes in the address.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NodePageParams {
    state: String,
    pool: String,
    name: String,
    sort: String,
    /// Result of the last act: `off`, `on` or `nothing`.
    done: String,
    page: Option<usize>,
}

#[derive(Template)]
#[template(path = "nodes_head.html")]
struct NodesHead<'a> {
    params: &'a NodePageParams,
    done: &'static str,
    pools: Vec<String>,
    states: Vec<&'static str>,
    may_act: bool,
}

#[derive(Template)]
#[template(path = "nodes.html")]
struct LiveNodes {
    words: String,
    rows: Vec<NodePageRow>,
    sort: Sort,
    paging: Paging,
    empty: &'static str,
}

/// A node, as lists show it.
pub(super) struct NodePageRow {
    pub name: String,
    pub pool: String,
    pub states: Vec<&'static str>,
    pub memory: String,
    pub used: u64,
    pub order: u64,
    pub bar: Bar,
    pub jobs: Vec<u64>,
    pub jobs_more: usize,
    pub notes: String,
}

/// The page.
pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    PageQuery(params): PageQuery<NodePageParams>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.seen(&ask);
    let view = &published.view;
    let mut nodes: Vec<&NodeView> =
        view.nodes.iter().filter(|node| params.is_wanted(node)).collect();
    let pairs = [("state", params.state.as_str()), ("pool", &params.pool), ("name", &params.name)];
    let sort = Sort::of(&params.sort, "/nodes", &pairs);
    sort.sort(&mut nodes, |column, node| {
        Some(match column {
            "name" => node.name.as_str().into(),
            "pool" => node.pool.as_str().into(),
            "state" => node.state.words().join(", ").as_str().into(),
            "memory" => node.memory.0.into(),
            "used" => words::percent(node.used.0, node.order.0).into(),
            _ => return None,
        })
    });
    let word = sort.word();
    let pairs = [pairs[0], pairs[1], pairs[2], ("sort", &word)];
    let (paging, range) = Paging::of(params.page, nodes.len(), "/nodes", &pairs);
    let api = ask.past().is_none().then_some(&dashboard.api);
    let rows = nodes[range].iter().map(|node| row(node, view, api)).collect();
    let empty = if view.nodes.is_empty() {
        "No node has reported yet. Start an agent on each; it reports to POST /v1/heartbeats."
    } else {
        "No such node. Ask for less, or for all of them."
    };
    let (found, all) = (crate::model::count(&nodes), crate::model::count(view.nodes.iter()));
    let words = format!("{} of {}", words::number(found), counted(all, "node"));
    let head = NodesHead {
        params: &params,
        done: match params.done.as_str() {
            "off" => {
                "Done: the nodes are out of scheduling. Work that has to go is evicted in this cycle."
            }
            "on" => "Done: the nodes are in scheduling again.",
            "nothing" => "There was nothing to do: they were so already.",
            _ => "",
        },
        pools: view.topology.pools.iter().map(|pool| pool.name.to_string()).collect(),
        states: words::NODE_STATES.map(|(state, _)| state.word()).to_vec(),
        may_act: ask.may_act,
    };
    let live = LiveNodes { words, rows, sort, paging, empty };
    Page { title: "Nodes", section: "/nodes", head, live }.answer(&ask)
}

impl NodePageParams {
    fn is_wanted(&self, node: &NodeView) -> bool {
        let mut states = wire::from_view::node_states(node.state).into_iter();
        (self.state.is_empty() || states.any(|state| state.word() == self.state))
            && (self.pool.is_empty() || node.pool == self.pool)
            && node.name.contains(self.name.trim())
    }
}

/// Builds the row of `node`, with its notes. Facts from heartbeats describe the present, so they
/// need an `api`.
pub(super) fn row(node: &NodeView, view: &View, api: Option<&ApiState>) -> NodePageRow {
    let mut info = wire::NodeInfo::from(node);
    if let Some(api) = api {
        info.notes.extend(queries::notes_of(&info, view, &api.heartbeats.log()));
    }
    let mut jobs: Vec<u64> = info.shares.iter().map(|share| share.job).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let jobs_more = jobs.len().saturating_sub(JOBS_SHOWN);
    jobs.truncate(JOBS_SHOWN);
    let missed = u64::from(info.missed_heartbeats);
    let missed = (0 < missed).then(|| format!("missed {}", counted(missed, "heartbeat")));
    let reason = info.vary_off_reason.as_ref().map(|reason| format!("off: {reason}"));
    let notes: Vec<String> = reason.into_iter().chain(missed).chain(info.notes).collect();
    NodePageRow {
        states: info.states.iter().map(|state| state.word()).collect(),
        memory: memory(info.memory_mb),
        used: info.used,
        order: info.order,
        bar: Bar::filled(info.used, info.order, "qshares"),
        jobs,
        jobs_more,
        notes: notes.join("; "),
        name: info.name,
        pool: info.pool,
    }
}
