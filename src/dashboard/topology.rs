//! The topology page: which node is how large, who is on it, and which get no work.

use std::collections::{BTreeMap, HashMap, HashSet};

use askama::Template;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;

use super::Dashboard;
use super::frame::{Ask, Page, PageError, PageQuery, address_of};
use super::looks::Looks;
use super::map::{self, Look, MapGroup, Paint, Spot, Tile};
use super::palette::{OTHERS, Palette};
use super::words::{self, counted};
use crate::api::wire::WorkKind;
use crate::model::{JobId, Name, NodeCondition, SharePhase, expand_hostlist};
use crate::scheduler::{JobView, NodeView, View};

/// Meaning of the colours of a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ColourBy {
    /// Users.
    #[default]
    User,
    /// Classes.
    Class,
    /// Level of use of a node.
    Use,
}

impl ColourBy {
    /// Every meaning: its word in the address, and its words for readers.
    const ALL: [(ColourBy, &'static str, &'static str); 3] = [
        (ColourBy::User, "user", "user"),
        (ColourBy::Class, "class", "class"),
        (ColourBy::Use, "use", "how full"),
    ];

    fn word(self) -> &'static str {
        ColourBy::ALL.iter().find(|(by, ..)| *by == self).map_or("", |(_, word, _)| word)
    }
}

/// Selected nodes, highlighted user, and meaning of the colours.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TopologyParams {
    pool: String,
    user: String,
    node: String,
    by: ColourBy,
}

impl TopologyParams {
    /// Returns all parameters as a text.
    fn key(&self) -> String {
        format!("{}\n{}\n{}\n{}", self.pool, self.user, self.node, self.by.word())
    }
}

#[derive(Template)]
#[template(path = "topology_head.html")]
struct TopologyHead<'a> {
    params: &'a TopologyParams,
    pools: Vec<String>,
    ways: Vec<(&'static str, &'static str, bool)>,
}

/// Selected nodes, highlighted user, and tag of the map that the browser shows.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ChangesParams {
    pool: String,
    user: String,
    node: String,
    by: ColourBy,
    since: String,
}

#[derive(Template)]
#[template(path = "topology.html")]
struct LiveTopology<'a> {
    params: &'a TopologyParams,
    summary: String,
    /// Part below the map, as HTML.
    below: String,
    groups: Vec<MapGroup>,
    is_large: bool,
    has_nodes: bool,
    /// Tag of the map's fingerprint; only for a large map of the present.
    tag: Option<String>,
}

/// Part below the map: the legend.
#[derive(Template)]
#[template(path = "topology_below.html")]
struct Below<'a> {
    params: &'a TopologyParams,
    owners: Vec<LegendOwner>,
    owners_more: usize,
    levels: Vec<(usize, &'static str, u64)>,
    kinds: Vec<(&'static str, &'static str, u64)>,
    marks: Vec<LegendMark>,
    summary: String,
    /// Requested users and nodes that are not on the map.
    missing: Vec<String>,
    changes: Option<MapChanges>,
}

/// Changes to lay over a map that is open in a browser.
#[derive(Default)]
struct MapChanges {
    tiles: Vec<Tile>,
    /// Title of each group.
    titles: Vec<String>,
    /// Tag of the changed map; `None` if the browser has to request the whole map.
    tag: Option<String>,
}

struct LegendOwner {
    name: String,
    link: String,
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
    PageQuery(params): PageQuery<TopologyParams>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.seen(&ask);
    let view = &published.view;
    let pools = view.topology.pools.iter().map(|pool| pool.name.clone()).collect::<Vec<_>>();
    let ways = ColourBy::ALL.map(|(by, word, words)| (word, words, by == params.by)).to_vec();
    let head = TopologyHead {
        params: &params,
        pools: pools.iter().map(ToString::to_string).collect(),
        ways,
    };
    let drawing = drawing(view, &dashboard.palette(view, &ask), &params);
    let is_large = map::CLOSE_MAX < drawing.spots.len();
    // Only a map of the present is followed by changes.
    let tag = (is_large && ask.past().is_none()).then(|| {
        let looks = Looks::of(&drawing.spots, &params.key());
        dashboard.past.notes().maps.remember(looks)
    });
    let live = LiveTopology {
        params: &params,
        summary: drawing.below.summary.clone(),
        below: drawing.below.render()?,
        is_large,
        has_nodes: !drawing.spots.is_empty(),
        groups: map::groups(drawing.spots, &pools),
        tag,
    };
    Page { title: "Topology", section: "/topology", head, live }.answer(&ask)
}

/// Answers with the changes since the map that the browser shows: new drawings of nodes, titles and
/// legend.
pub(super) async fn changes(
    State(dashboard): State<Dashboard>,
    PageQuery(asked): PageQuery<ChangesParams>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.api.latest();
    let view = &published.view;
    let ChangesParams { pool, user, node, by, since } = asked;
    let params = TopologyParams { pool, user, node, by };
    let Drawing { mut below, spots } = drawing(view, &dashboard.palette(view, &ask), &params);
    let looks = Looks::of(&spots, &params.key());
    if looks.tag() == since {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let mut notes = dashboard.past.notes();
    let changed = notes.maps.changed(&since, &looks);
    let changes = changed.map(|changed| (changed, notes.maps.remember(looks)));
    drop(notes);
    // Half a map in pieces is more than a map.
    let changes = changes.filter(|(changed, _)| 2 * changed.len() < spots.len());
    let changes = changes.map(|(changed, tag)| {
        let names = changed.into_iter().map(|place| spots[place].name.clone()).collect();
        let pools: Vec<Name> = view.topology.pools.iter().map(|pool| pool.name.clone()).collect();
        let titles = map::titles(spots.clone(), &pools);
        MapChanges { tiles: map::tiles(spots, &pools, &names), titles, tag: Some(tag) }
    });
    below.changes = Some(changes.unwrap_or_default());
    let html = Html(below.render()?);
    Ok(([(header::CACHE_CONTROL, "no-store")], html).into_response())
}

/// Name of the node under the pointer.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpotParams {
    name: String,
}

/// Describes the node under the pointer of a large map in a sentence.
pub(super) async fn spot_words(
    State(dashboard): State<Dashboard>,
    PageQuery(SpotParams { name }): PageQuery<SpotParams>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.seen(&ask);
    let view = &published.view;
    let jobs: HashMap<JobId, &JobView> = view.jobs.iter().map(|job| (job.id, job)).collect();
    let node = view.nodes.iter().find(|node| node.name == name);
    let words =
        node.map_or_else(|| format!("{name} has not reported"), |node| words_of(node, &jobs));
    Ok(([(header::CACHE_CONTROL, "no-store")], words).into_response())
}

/// Content of a page for the selected nodes.
struct Drawing<'a> {
    below: Below<'a>,
    spots: Vec<Spot>,
}

fn drawing<'a>(view: &View, palette: &Palette, params: &'a TopologyParams) -> Drawing<'a> {
    let is_shown = |node: &&NodeView| params.pool.is_empty() || node.pool == params.pool;
    let nodes: Vec<&NodeView> = view.nodes.iter().filter(is_shown).collect();
    let jobs: HashMap<JobId, &JobView> = view.jobs.iter().map(|job| (job.id, job)).collect();
    let classes = Palette::of_classes(view);
    let found = found(&nodes, &params.node);
    let brush = Brush {
        by: params.by,
        palette: if params.by == ColourBy::Class { &classes } else { palette },
        jobs: &jobs,
        user: &params.user,
        found: &found,
        is_searched: !params.node.trim().is_empty(),
    };
    let spots: Vec<Spot> = nodes.iter().map(|node| brush.spot(node)).collect();
    let (owners, owners_more, has_user) = legend(&nodes, &brush);
    let mut missing = Vec::new();
    if !params.user.is_empty() && !has_user {
        missing.push(format!("{} has no process on these nodes.", params.user));
    }
    if brush.is_searched && found.is_empty() {
        missing.push(format!("No node here is called {}.", params.node.trim()));
    }
    let below = Below {
        params,
        summary: summary(&nodes),
        missing,
        owners,
        owners_more,
        levels: if params.by == ColourBy::Use { level_legend(&nodes) } else { Vec::new() },
        kinds: kind_legend(kinds(&nodes, &jobs)),
        marks: mark_legend(&nodes),
        changes: None,
    };
    Drawing { below, spots }
}

/// The nodes that `wanted` names: as a list like `n[1-3]`, or as a part of their names.
fn found(nodes: &[&NodeView], wanted: &str) -> HashSet<Name> {
    let wanted = wanted.trim();
    if wanted.is_empty() {
        return HashSet::new();
    }
    let listed: HashSet<String> = expand_hostlist(wanted).unwrap_or_default().into_iter().collect();
    let is_it = |node: &&&NodeView| {
        listed.contains(node.name.as_str()) || node.name.as_str().contains(wanted)
    };
    nodes.iter().filter(is_it).map(|node| node.name.clone()).collect()
}

fn kinds(nodes: &[&NodeView], jobs: &HashMap<JobId, &JobView>) -> [u64; 4] {
    let mut kinds = [0_u64; 4];
    for (job, ..) in nodes.iter().flat_map(|node| &node.shares) {
        if let Some(job) = jobs.get(job) {
            kinds[usize::from(map::kind_number(job.kind.into()))] += 1;
        }
    }
    kinds
}

/// Returns the owners with a colour, the number of owners without, and true if the selected user
/// has processes here. The last entry of the legend is grey: all other owners together.
fn legend(nodes: &[&NodeView], brush: &Brush<'_>) -> (Vec<LegendOwner>, usize, bool) {
    let mut sums: BTreeMap<&Name, u64> = BTreeMap::new();
    let mut has_user = false;
    for node in nodes {
        for (job, _, order, _) in &node.shares {
            let Some(job) = brush.jobs.get(job) else { continue };
            has_user |= job.user == brush.user;
            let owner = if brush.by == ColourBy::Class { &job.class } else { &job.user };
            *sums.entry(owner).or_default() += node.quantum.memory_of(order.qshares()).0;
        }
    }
    if brush.by == ColourBy::Use {
        return (Vec::new(), 0, has_user);
    }
    let (own, others): (Vec<_>, Vec<_>) =
        sums.into_iter().partition(|(name, _)| brush.palette.colour(name) != OTHERS);
    let link = |name: &str| match brush.by {
        ColourBy::Class => super::frame::link("/classes/", name),
        ColourBy::User | ColourBy::Use => address_of("/topology", &[("user", name)]),
    };
    // By name, so that the legend does not jump.
    let own = own.into_iter().map(|(name, memory)| LegendOwner {
        name: name.to_string(),
        link: link(name),
        colour: brush.palette.colour(name),
        memory: words::memory(memory),
        is_chosen: *name == brush.user,
    });
    let rest: u64 = others.iter().map(|(_, memory)| memory).sum();
    let rest = (!others.is_empty()).then(|| LegendOwner {
        name: counted(crate::model::count(&others), "other"),
        link: "/users".to_owned(),
        colour: OTHERS,
        memory: words::memory(rest),
        is_chosen: false,
    });
    (own.chain(rest).collect(), others.len(), has_user)
}

/// Levels of fullness, and how many nodes are at each.
fn level_legend(nodes: &[&NodeView]) -> Vec<(usize, &'static str, u64)> {
    let words = ["below 25 %", "25 to 49 %", "50 to 74 %", "75 to 99 %", "full"];
    let count = |level: usize| {
        let alike = nodes.iter().filter(|node| 0 < node.used.0 && level_of(node) == level);
        crate::model::count(alike)
    };
    (0..map::LEVELS).zip(words).map(|(level, words)| (level, words, count(level))).collect()
}

/// Returns the level of use of a node.
fn level_of(node: &NodeView) -> usize {
    match words::percent(node.used.0, node.order.0) {
        0..25 => 0,
        25..50 => 1,
        50..75 => 2,
        75..100 => 3,
        _ => 4,
    }
}

fn kind_legend(counts: [u64; 4]) -> Vec<(&'static str, &'static str, u64)> {
    let kinds = WorkKind::ALL.into_iter().zip(counts);
    kinds
        .map(|(kind, count)| {
            let number = map::kind_number(kind);
            let look =
                Look { paint: Paint::Unowned, kind: number, is_leaving: false, is_pale: false };
            (kind.word(), look.pattern(), count)
        })
        .collect()
}

fn mark_legend(nodes: &[&NodeView]) -> Vec<LegendMark> {
    let up = NodeCondition::default();
    let states = [
        (up, "up", "gets work"),
        (NodeCondition { is_varied_off: true, ..up }, "varied-off", "taken out by hand"),
        (NodeCondition { is_dead: true, ..up }, "dead", "silent"),
        (NodeCondition { is_blacklisted: true, ..up }, "blacklisted", "holds what is not allowed"),
        (NodeCondition { is_quiesced: true, ..up }, "quiesced", "wants no new work"),
        (NodeCondition { is_awaited: true, ..up }, "awaited", "no heartbeat yet"),
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

/// Settings by which nodes are drawn.
struct Brush<'a> {
    by: ColourBy,
    palette: &'a Palette,
    jobs: &'a HashMap<JobId, &'a JobView>,
    /// Highlighted user; empty: all users alike.
    user: &'a str,
    found: &'a HashSet<Name>,
    is_searched: bool,
}

impl Brush<'_> {
    /// Returns the drawing of a node, with areas of equal look side by side.
    fn spot(&self, node: &NodeView) -> Spot {
        let is_found = self.found.contains(&node.name);
        let mut fills: BTreeMap<Look, u64> = BTreeMap::new();
        for (job, _, order, state) in &node.shares {
            let job = self.jobs.get(job);
            let is_other = !self.user.is_empty() && job.is_none_or(|job| job.user != self.user);
            let look = Look {
                paint: self.paint(node, job.copied()),
                kind: job.map_or(0, |job| map::kind_number(job.kind.into())),
                is_leaving: *state == SharePhase::Leaving,
                is_pale: is_other || (self.is_searched && !is_found),
            };
            *fills.entry(look).or_default() += node.quantum.memory_of(order.qshares()).0;
        }
        Spot {
            name: node.name.clone(),
            pool: node.pool.clone(),
            memory_mb: node.memory.0,
            state: node.state,
            is_found,
            fills: fills.into_iter().collect(),
            words: words_of(node, self.jobs),
        }
    }

    fn paint(&self, node: &NodeView, job: Option<&JobView>) -> Paint {
        match (self.by, job) {
            (ColourBy::Use, _) => Paint::Level(level_of(node)),
            (_, None) => Paint::Unowned,
            (ColourBy::Class, Some(job)) => Paint::Owner(self.palette.colour(&job.class)),
            (ColourBy::User, Some(job)) => Paint::Owner(self.palette.colour(&job.user)),
        }
    }
}

/// Users of a node listed by name.
const NAMED: usize = 6;

/// A node in a sentence.
fn words_of(node: &NodeView, jobs: &HashMap<JobId, &JobView>) -> String {
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (job, _, order, _) in &node.shares {
        let user = jobs.get(job).map_or("?", |job| job.user.as_str());
        let sum = sums.entry(user).or_default();
        *sum = (sum.0 + 1, sum.1 + node.quantum.memory_of(order.qshares()).0);
    }
    let mut held: Vec<String> = sums
        .iter()
        .take(NAMED)
        .map(|(user, (count, memory))| {
            format!("{user} {} ({})", counted(*count, "process"), words::memory(*memory))
        })
        .collect();
    if NAMED < sums.len() {
        held.push(format!("and {} more", sums.len() - NAMED));
    }
    let held = if held.is_empty() { "nothing on it".to_owned() } else { held.join(", ") };
    let state = node.state.words();
    let state = if state.is_empty() { "up".to_owned() } else { state.join(", ") };
    let taken = words::memory(node.quantum.memory_of(node.used).0);
    let all = words::memory(node.quantum.memory_of(node.order).0);
    format!("{}: {}, {state}, {taken} of {all} taken: {held}", node.name, node.memory)
}
