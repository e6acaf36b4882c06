//! The topology page: which node is how large, who is on it, and which get no work.

use std::collections::{BTreeMap, HashMap};

use askama::Template;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;

use super::Dashboard;
use super::frame::{Ask, Asked, Page, PageError};
use super::looks::Looks;
use super::map::{self, Group, Look, Spot, Tile};
use super::past::Past;
use super::words::{self, counted};
use crate::api::wire::WorkKind;
use crate::model::{JobId, MachineState, Name, SharePhase};
use crate::scheduler::{JobView, NodeView, View};

/// So many users are in the legend.
const LEGEND_MAX: usize = 24;

/// Which nodes to show, and whose work to point out.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TopologyParams {
    pool: String,
    user: String,
}

#[derive(Template)]
#[template(path = "topology_head.html")]
struct Head<'a> {
    params: &'a TopologyParams,
    pools: Vec<String>,
}

/// Which nodes, whose work, and what whoever asks has seen of it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ChangesParams {
    pool: String,
    user: String,
    since: String,
}

#[derive(Template)]
#[template(path = "topology.html")]
struct Live<'a> {
    params: &'a TopologyParams,
    /// What stands above the map, as HTML.
    above: String,
    groups: Vec<Group>,
    is_large: bool,
    has_nodes: bool,
    /// What the map looks like; only of a large one.
    tag: Option<String>,
}

/// What stands above the map: figures and the legend.
#[derive(Template)]
#[template(path = "topology_above.html")]
struct Above<'a> {
    params: &'a TopologyParams,
    users: Vec<LegendUser>,
    users_more: usize,
    kinds: Vec<(&'static str, &'static str, u64)>,
    marks: Vec<LegendMark>,
    summary: String,
    /// Whether somebody is asked about who has nothing here.
    has_none: bool,
    changes: Option<Changes>,
}

/// What is to be laid over a map that somebody looks at.
#[derive(Default)]
struct Changes {
    tiles: Vec<Tile>,
    /// What it looks like then. Nothing: it is to be asked for as a whole.
    tag: Option<String>,
}

struct LegendUser {
    name: String,
    colour: usize,
    memory: String,
    is_chosen: bool,
}

struct LegendMark {
    state: &'static str,
    meaning: &'static str,
    count: u64,
    d: String,
    class: &'static str,
}

/// The page.
pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    Asked(params): Asked<TopologyParams>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.api.latest();
    let view = &published.view;
    let pools = view.topology.pools.iter().map(|pool| pool.name.clone()).collect::<Vec<_>>();
    let head = Head { params: &params, pools: pools.iter().map(ToString::to_string).collect() };
    let drawing = drawing(view, &dashboard.past, &params);
    let is_large = map::CLOSE_MAX < drawing.spots.len();
    let tag = is_large.then(|| {
        let looks = Looks::of(&drawing.spots, &params.user);
        dashboard.past.notes().maps.remember(looks)
    });
    let live = Live {
        params: &params,
        above: drawing.above.render()?,
        is_large,
        has_nodes: !drawing.spots.is_empty(),
        groups: map::groups(drawing.spots, &pools),
        tag,
    };
    Page { title: "Topology", section: "/topology", head, live }.answer(&ask)
}

/// What is different of a large map from what somebody looks at: nodes drawn anew, and what stands
/// above it.
pub(super) async fn changes(
    State(dashboard): State<Dashboard>,
    Asked(asked): Asked<ChangesParams>,
) -> Result<Response, PageError> {
    let published = dashboard.api.latest();
    let view = &published.view;
    let params = TopologyParams { pool: asked.pool, user: asked.user };
    let Drawing { mut above, spots } = drawing(view, &dashboard.past, &params);
    let looks = Looks::of(&spots, &params.user);
    if looks.tag() == asked.since {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let mut notes = dashboard.past.notes();
    let changed = notes.maps.changed(&asked.since, &looks);
    let changes = changed.map(|changed| (changed, notes.maps.remember(looks)));
    drop(notes);
    // Half a map in pieces is more than a map.
    let changes = changes.filter(|(changed, _)| 2 * changed.len() < spots.len());
    let changes = changes.map(|(changed, tag)| {
        let names = changed.into_iter().map(|place| spots[place].name.clone()).collect();
        let pools: Vec<Name> = view.topology.pools.iter().map(|pool| pool.name.clone()).collect();
        Changes { tiles: map::tiles(spots, &pools, &names), tag: Some(tag) }
    });
    above.changes = Some(changes.unwrap_or_default());
    let html = Html(above.render()?);
    Ok(([(header::CACHE_CONTROL, "no-store")], html).into_response())
}

/// What a page shows of the nodes that are asked for.
struct Drawing<'a> {
    above: Above<'a>,
    spots: Vec<Spot>,
}

fn drawing<'a>(view: &View, past: &Past, params: &'a TopologyParams) -> Drawing<'a> {
    let is_shown = |node: &&NodeView| params.pool.is_empty() || node.pool == params.pool;
    let nodes: Vec<&NodeView> = view.nodes.iter().filter(is_shown).collect();
    let jobs: HashMap<JobId, &JobView> = view.jobs.iter().map(|job| (job.id, job)).collect();
    let mut sums: BTreeMap<&Name, u64> = BTreeMap::new();
    let mut kinds = [0_u64; 4];
    for node in &nodes {
        for (job, _, order, _) in &node.shares {
            if let Some(job) = jobs.get(job) {
                *sums.entry(&job.user).or_default() += node.quantum.memory_of(order.qshares()).0;
                kinds[usize::from(map::kind_number(job.kind.into()))] += 1;
            }
        }
    }
    let has_none = !params.user.is_empty() && !sums.contains_key(&Name::from(params.user.as_str()));
    let mut users: Vec<(&Name, u64)> = sums.into_iter().collect();
    // By name, so that the legend does not jump.
    let users_more = users.len().saturating_sub(LEGEND_MAX);
    users.sort_by_key(|(name, memory)| (std::cmp::Reverse(*memory), *name));
    users.truncate(LEGEND_MAX);
    users.sort_by_key(|(name, _)| *name);
    let colours: HashMap<&Name, usize> = {
        let mut notes = past.notes();
        let all = jobs.values().map(|job| &job.user).collect::<std::collections::BTreeSet<_>>();
        all.into_iter().map(|user| (user, notes.colour(user))).collect()
    };
    let spots: Vec<Spot> =
        nodes.iter().map(|node| spot(node, &jobs, &colours, &params.user)).collect();
    let is_chosen = |name: &Name| *name == params.user;
    let above = Above {
        params,
        summary: summary(&nodes),
        has_none,
        users: users
            .into_iter()
            .map(|(name, memory)| LegendUser {
                name: name.to_string(),
                colour: colours.get(name).copied().unwrap_or(0),
                memory: words::memory(memory),
                is_chosen: is_chosen(name),
            })
            .collect(),
        users_more,
        kinds: kind_legend(kinds),
        marks: mark_legend(&nodes),
        changes: None,
    };
    Drawing { above, spots }
}

fn kind_legend(counts: [u64; 4]) -> Vec<(&'static str, &'static str, u64)> {
    let kinds = WorkKind::ALL.into_iter().zip(counts);
    kinds
        .map(|(kind, count)| {
            let number = map::kind_number(kind);
            let look = Look { colour: None, kind: number, is_leaving: false, is_pale: false };
            (kind.word(), look.pattern(), count)
        })
        .collect()
}

fn mark_legend(nodes: &[&NodeView]) -> Vec<LegendMark> {
    let up = MachineState::default();
    let states = [
        (up, "up", "gets work"),
        (MachineState { is_varied_off: true, ..up }, "varied-off", "taken out by hand"),
        (MachineState { is_dead: true, ..up }, "dead", "silent"),
        (MachineState { is_blacklisted: true, ..up }, "blacklisted", "holds what is not allowed"),
        (MachineState { is_quiesced: true, ..up }, "quiesced", "wants no new work"),
        (MachineState { is_awaited: true, ..up }, "awaited", "not heard of yet"),
    ];
    let legend = states.into_iter().map(|(state, word, meaning)| {
        let class = map::state_class(state);
        let alike = nodes.iter().filter(|node| map::state_class(node.state) == class);
        let count = crate::model::count(alike);
        LegendMark { state: word, meaning, count, d: map::mark(state, (1, 1), 16), class }
    });
    legend.collect()
}

fn summary(nodes: &[&NodeView]) -> String {
    let memory: u64 = nodes.iter().map(|node| node.memory.0).sum();
    let (order, used) = nodes.iter().filter(|node| node.state.is_schedulable()).fold(
        (0, 0),
        |(order, used), node| {
            let quantum = node.quantum.memory().0;
            (order + node.order.0 * quantum, used + node.used.0 * quantum)
        },
    );
    format!(
        "{}, {} of memory; of {} that can be scheduled now, {} % is taken.",
        counted(crate::model::count(nodes), "node"),
        words::memory(memory),
        words::memory(order),
        words::percent(used, order)
    )
}

/// What is drawn of a node. What looks alike lies together.
fn spot(
    node: &NodeView,
    jobs: &HashMap<JobId, &JobView>,
    colours: &HashMap<&Name, usize>,
    chosen: &str,
) -> Spot {
    let mut fills: BTreeMap<Look, u64> = BTreeMap::new();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (job, _, order, state) in &node.shares {
        let job = jobs.get(job);
        let user = job.map_or("?", |job| job.user.as_str());
        let look = Look {
            colour: job.and_then(|job| colours.get(&job.user).copied()),
            kind: job.map_or(0, |job| map::kind_number(job.kind.into())),
            is_leaving: *state == SharePhase::Leaving,
            is_pale: !chosen.is_empty() && user != chosen,
        };
        *fills.entry(look).or_default() += node.quantum.memory_of(order.qshares()).0;
        *counts.entry(user).or_default() += 1;
    }
    let held = counts.iter().map(|(user, count)| format!("{user} {count}"));
    let held = if counts.is_empty() {
        "nothing on it".to_owned()
    } else {
        held.collect::<Vec<_>>().join(", ")
    };
    let state = node.state.words();
    let state = if state.is_empty() { "up".to_owned() } else { state.join(", ") };
    let words = format!(
        "{}: {}, {state}, {} of {} qshares taken: {held}",
        node.name, node.memory, node.used, node.order
    );
    Spot {
        name: node.name.clone(),
        pool: node.pool.clone(),
        memory_mb: node.memory.0,
        state: node.state,
        fills: fills.into_iter().collect(),
        words,
    }
}
