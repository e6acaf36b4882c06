//! The map of nodes: squares whose area is memory, filled from below by what is on them.
//!
//! Nodes whose squares have the same size in pixels are drawn together, in rows. A small map has a
//! link and a description for every node. In a large map all shapes of equal look form a path,
//! which bounds its size. Scripts find the nodes of a large map by position. For each node that
//! changes later, the page gets a drawing to lay over the old drawing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

use crate::api::wire::WorkKind;
use crate::model::{Name, NodeCondition, expand_hostlist, fold_hostlist};

/// The width of a map's page in its units, which are pixels on a large screen.
const WIDTH: u64 = 1_160;

/// The area that all squares together should take.
const AREA: u64 = 700_000;

/// The side of a square, at least and at most.
const SIDES: (u64, u64) = (7, 92);

/// Most nodes of a map with a link and a description for each.
pub(super) const CLOSE_MAX: usize = 400;

/// Squares from this side on bear their node's name.
const NAMED_SIDE: u64 = 40;

/// Meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Paint {
    /// Jobs without a known owner.
    Unowned,
    /// A user or a class, by its place in the palette.
    Owner(usize),
    /// Level of use of a node, from 0 to [`LEVELS`] - 1.
    Level(usize),
}

/// Levels of use, with a colour each.
pub(super) const LEVELS: usize = 5;

/// Owner and kind of the processes of an area, and if they are terminating. Areas of equal look are
/// drawn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Look {
    /// Meaning of its colour.
    pub paint: Paint,
    /// Kind of job.
    pub kind: u8,
    /// True if the process is terminating.
    pub is_leaving: bool,
    /// True if the reader selected a different user.
    pub is_pale: bool,
}

impl Look {
    /// The classes of the style sheet for its fill.
    pub fn class(self) -> String {
        let colour = match self.paint {
            Paint::Unowned => "ux".to_owned(),
            Paint::Owner(colour) => format!("u{colour}"),
            Paint::Level(level) => format!("v{level}"),
        };
        let pale = if self.is_pale { " pale" } else { "" };
        let leaving = if self.is_leaving { " leaving" } else { "" };
        format!("{colour}{pale}{leaving}")
    }

    /// The pattern that shows its kind; empty for jobs.
    pub fn pattern(self) -> &'static str {
        match self.kind {
            1 => "h-service",
            2 => "h-process",
            3 => "h-reservation",
            _ => "",
        }
    }
}

/// The number that stands for a kind of work here.
pub(super) fn kind_number(kind: WorkKind) -> u8 {
    match kind {
        WorkKind::Job => 0,
        WorkKind::Service => 1,
        WorkKind::ArbitraryProcess => 2,
        WorkKind::Reservation => 3,
    }
}

/// Node of a map.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    /// Name of the node.
    pub name: Name,
    /// Pool of the node.
    pub pool: Name,
    /// Memory of the node in MiB.
    pub memory_mb: u64,
    /// State of the node: in scheduling, or the reason why not.
    pub state: NodeCondition,
    /// True if the search selects the node.
    pub is_found: bool,
    /// Look and memory in MiB of each area of the node.
    pub fills: Vec<(Look, u64)>,
    /// All of it in words.
    pub words: String,
}

/// Nodes of equal pool and size.
#[derive(Debug)]
pub(super) struct MapGroup {
    /// The pool.
    pub pool: Name,
    /// "29 nodes of 31 GB".
    pub title: String,
    /// Width and height of the drawing.
    pub size: (u64, u64),
    /// Distance between neighbouring squares, across and down.
    pub step: (u64, u64),
    /// Squares in a row.
    pub columns: u64,
    /// The nodes in it, as a host list.
    pub names: String,
    /// Each node of a small map; empty in a large map.
    pub cells: Vec<MapCell>,
    /// Paths of all nodes together; empty in a small map.
    pub paths: Vec<Path>,
}

/// A node of a small map.
#[derive(Debug)]
pub(super) struct MapCell {
    /// Name of the node.
    pub name: Name,
    /// Content of the node in words.
    pub words: String,
    /// Paths of the node.
    pub paths: Vec<Path>,
    /// Position of the name, if the square has space for it.
    pub label: Option<(u64, u64)>,
}

/// New drawing of a node in a large map.
#[derive(Debug)]
pub(super) struct Tile {
    /// Index of its group, in the order of [`groups`].
    pub group: usize,
    /// Index of the node in the group.
    pub number: u64,
    /// Paths of the node. The first path hides the old drawing.
    pub paths: Vec<Path>,
}

/// A shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// Classes of the path in the style sheet.
    pub class: String,
    /// The name of a pattern; empty if it has none.
    pub pattern: &'static str,
    /// Path data in the notation of SVG.
    pub d: String,
}

/// Draws `spots`, by pool in the order of `pools`, the largest squares first.
pub(super) fn groups(spots: Vec<Spot>, pools: &[Name]) -> Vec<MapGroup> {
    let is_close = spots.len() <= CLOSE_MAX;
    by_size(spots, pools).map(|(side, spots)| group(side, spots, is_close)).collect()
}

/// The titles of the groups of `spots`, as [`groups`] has them.
pub(super) fn titles(spots: Vec<Spot>, pools: &[Name]) -> Vec<String> {
    by_size(spots, pools).map(|(_, spots)| title(&spots)).collect()
}

/// Draws the nodes called `names` as a large map of all `spots` does.
pub(super) fn tiles(spots: Vec<Spot>, pools: &[Name], names: &BTreeSet<Name>) -> Vec<Tile> {
    let mut tiles = Vec::new();
    for (group, (side, spots)) in by_size(spots, pools).enumerate() {
        let (spots, _) = in_order(spots);
        let grid = SquareGrid::of(side, crate::model::count(&spots), false);
        let changed = (0..).zip(&spots).filter(|(_, spot)| names.contains(&spot.name));
        tiles.extend(changed.map(|(number, spot)| {
            let corner = grid.corner(number);
            let (class, d) = ("under".to_owned(), square(corner, side));
            let under = Path { class, pattern: "", d };
            let paths = paths(spot, corner, side).into_iter().map(|(_, path)| path);
            Tile { group, number, paths: std::iter::once(under).chain(paths).collect() }
        }));
    }
    tiles
}

/// Groups nodes by pool, then by the side of their squares, largest first. Each item has the side
/// and the nodes.
fn by_size(spots: Vec<Spot>, pools: &[Name]) -> impl Iterator<Item = (u64, Vec<Spot>)> {
    let scale = Scale::of(&spots);
    let place = |pool: &Name| pools.iter().position(|known| known == pool);
    let mut groups: BTreeMap<(Option<usize>, u64), Vec<Spot>> = BTreeMap::new();
    for spot in spots {
        let side = scale.side_of(spot.memory_mb);
        groups.entry((place(&spot.pool), u64::MAX - side)).or_default().push(spot);
    }
    groups.into_iter().map(|((_, key), spots)| (u64::MAX - key, spots))
}

/// The area, in units, that so much memory has.
#[derive(Clone, Copy, Debug)]
struct Scale {
    area: u64,
    memory_mb: u64,
}

impl Scale {
    /// Returns the largest scale at which the map fits and no square exceeds its limit.
    fn of(spots: &[Spot]) -> Scale {
        let total: u64 = spots.iter().map(|spot| spot.memory_mb).sum();
        let most = spots.iter().map(|spot| spot.memory_mb).max().unwrap_or(0);
        let (all, one) = (
            Scale { area: AREA, memory_mb: total },
            Scale { area: SIDES.1.pow(2), memory_mb: most },
        );
        if all.side_of(most) < SIDES.1 { all } else { one }
    }

    /// The side of a square for so much memory.
    fn side_of(self, memory_mb: u64) -> u64 {
        let area = memory_mb.saturating_mul(self.area).checked_div(self.memory_mb).unwrap_or(0);
        area.isqrt().clamp(SIDES.0, SIDES.1)
    }
}

/// In the order in which people count them, which is that of host lists; and that list.
fn in_order(mut spots: Vec<Spot>) -> (Vec<Spot>, String) {
    let names = fold_hostlist(spots.iter().map(|spot| spot.name.as_str()));
    let order: HashMap<String, usize> =
        expand_hostlist(&names).unwrap_or_default().into_iter().zip(0..).collect();
    spots.sort_by_cached_key(|spot| (order.get(spot.name.as_str()).copied(), spot.name.clone()));
    (spots, names)
}

/// Positions of the squares of a group.
#[derive(Clone, Copy, Debug)]
struct SquareGrid {
    /// The height of a name below a square; 0 without names.
    label: u64,
    /// Distance between neighbouring squares, across and down.
    step: (u64, u64),
    columns: u64,
    rows: u64,
}

impl SquareGrid {
    fn of(side: u64, count: u64, is_close: bool) -> SquareGrid {
        let gap = if side < 20 { 2 } else { 6 };
        let label = if NAMED_SIDE <= side && is_close { 15 } else { 0 };
        let step = (side + gap, side + gap + label);
        let columns = WIDTH.checked_div(step.0).unwrap_or(1).clamp(1, count.max(1));
        SquareGrid { label, step, columns, rows: count.div_ceil(columns) }
    }

    /// The upper left corner of a square.
    fn corner(self, number: u64) -> (u64, u64) {
        let row = number.checked_div(self.columns).unwrap_or(0);
        ((number - row * self.columns) * self.step.0 + 1, row * self.step.1 + 1)
    }
}

fn group(side: u64, spots: Vec<Spot>, is_close: bool) -> MapGroup {
    let (spots, names) = in_order(spots);
    let grid = SquareGrid::of(side, crate::model::count(&spots), is_close);
    let mut cells = Vec::new();
    let mut shared: BTreeMap<(u8, String, &'static str), String> = BTreeMap::new();
    for (number, spot) in (0..).zip(&spots) {
        let corner = grid.corner(number);
        let paths = paths(spot, corner, side);
        if is_close {
            let place = (corner.0 + (side >> 1), corner.1 + side + 11);
            let label = (0 < grid.label).then_some(place);
            let (name, words) = (spot.name.clone(), spot.words.clone());
            let paths = paths.into_iter().map(|(_, path)| path).collect();
            cells.push(MapCell { name, words, paths, label });
        } else {
            for (layer, Path { class, pattern, d }) in paths {
                shared.entry((layer, class, pattern)).or_default().push_str(&d);
            }
        }
    }
    let shared = shared.into_iter();
    let pool = spots.first().map(|spot| spot.pool.clone()).unwrap_or_default();
    MapGroup {
        pool,
        title: title(&spots),
        size: (grid.columns * grid.step.0, grid.rows * grid.step.1),
        step: grid.step,
        columns: grid.columns,
        names,
        cells,
        paths: shared.map(|((_, class, pattern), d)| Path { class, pattern, d }).collect(),
    }
}

fn title(spots: &[Spot]) -> String {
    let sizes = || spots.iter().map(|spot| spot.memory_mb >> 10);
    let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
    let size = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let memory: u64 = spots.iter().map(|spot| spot.memory_mb).sum();
    let taken: u64 = spots.iter().flat_map(|spot| &spot.fills).map(|(_, taken)| taken).sum();
    format!(
        "{} of {size} GB: {} of {} taken, {} %",
        super::words::counted(crate::model::count(spots), "node"),
        super::words::memory(taken),
        super::words::memory(memory),
        super::words::percent(taken, memory)
    )
}

fn square((x, y): (u64, u64), side: u64) -> String {
    format!("M{x} {y}h{side}v{side}h-{side}z")
}

/// A node's shapes with their layers: the square, what fills it from below, and the mark of its
/// state, which says without colour why it gets no work.
fn paths(spot: &Spot, (x, y): (u64, u64), side: u64) -> Vec<(u8, Path)> {
    let found = if spot.is_found { " found" } else { "" };
    let class = format!("node {}{found}", state_class(spot.state));
    let mut paths = vec![(0, Path { class, pattern: "", d: square((x, y), side) })];
    let mut below = 0;
    for (look, memory_mb) in &spot.fills {
        let top = (below + memory_mb).min(spot.memory_mb.max(1));
        let height =
            |memory: u64| memory.saturating_mul(side).checked_div(spot.memory_mb).unwrap_or(0);
        let (from, to) = (height(below), height(top).max(height(below) + 1).min(side));
        below = top;
        let (start, tall) = (y + side - to, to.saturating_sub(from));
        if tall == 0 {
            continue;
        }
        let d = format!("M{x} {start}h{side}v{tall}h-{side}z");
        paths.push((1, Path { class: look.class(), pattern: "", d: d.clone() }));
        let pattern = look.pattern();
        if !pattern.is_empty() {
            let class = if look.is_pale { "hatch pale" } else { "hatch" };
            paths.push((2, Path { class: class.to_owned(), pattern, d }));
        }
    }
    let mark = mark(spot.state, (x, y), side);
    if !mark.is_empty() {
        paths.push((3, Path { class: "mark halo".to_owned(), pattern: "", d: mark.clone() }));
        paths.push((4, Path { class: "mark".to_owned(), pattern: "", d: mark }));
    }
    paths
}

/// The worst that holds of a node.
pub(super) fn state_class(state: NodeCondition) -> &'static str {
    match state {
        NodeCondition { is_dead: true, .. } => "dead",
        NodeCondition { is_varied_off: true, .. } => "off",
        NodeCondition { is_blacklisted: true, .. } => "blacklisted",
        NodeCondition { is_in_maintenance: true, .. } => "off",
        NodeCondition { is_quiesced: true, .. } => "quiesced",
        NodeCondition { is_awaited: true, .. } => "awaited",
        _ => "up",
    }
}

/// The mark of a state: a cross for dead, a bar for off, a full square for blacklisted, two bars
/// for quiesced, a ring for awaited.
pub(super) fn mark(state: NodeCondition, (x, y): (u64, u64), side: u64) -> String {
    let inset = (side >> 2).max(1);
    let (left, top) = (x + inset, y + inset);
    let long = side.saturating_sub(2 * inset);
    let half = long >> 1;
    let mut d = String::new();
    // Writing to a string cannot fail.
    let _ = match state_class(state) {
        "dead" => write!(d, "M{left} {top}l{long} {long}m0 -{long}l-{long} {long}"),
        "off" => write!(d, "M{left} {}h{long}", top + half),
        "blacklisted" => write!(d, "M{left} {top}h{long}v{long}h-{long}zl{long} {long}"),
        "quiesced" => {
            let third = long.div_euclid(3).max(1);
            write!(d, "M{} {top}v{long}m{third} 0v-{long}", left + third)
        }
        "awaited" => {
            write!(
                d,
                "M{left} {}a{half} {half} 0 1 0 {long} 0a{half} {half} 0 1 0 -{long} 0",
                top + half
            )
        }
        _ => Ok(()),
    };
    d
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(number: u64, memory_mb: u64, fills: &[(u8, u64)]) -> Spot {
        let fill = |&(kind, memory): &(u8, u64)| {
            (Look { paint: Paint::Owner(0), kind, is_leaving: false, is_pale: false }, memory)
        };
        Spot {
            name: Name::from(format!("n{number}")),
            pool: Name::from("main"),
            memory_mb,
            state: NodeCondition::default(),
            is_found: false,
            fills: fills.iter().map(fill).collect(),
            words: String::new(),
        }
    }

    #[test]
    fn area_is_memory() {
        let spots = [spot(1, 16_384, &[]), spot(2, 65_536, &[])];
        let [one, four] = spots.each_ref().map(|spot| Scale::of(&spots).side_of(spot.memory_mb));
        assert_eq!(four, SIDES.1, "the largest is as large as may be");
        assert!((2 * one).abs_diff(four) <= 2, "{one} {four}");
    }

    #[test]
    fn what_fills_a_node_never_leaves_its_square() {
        let full = spot(1, 1_000, &[(0, 400), (1, 400), (2, 900)]);
        let shapes = paths(&full, (0, 0), 40);
        let tall: Vec<u64> = shapes
            .iter()
            .filter(|(layer, _)| *layer == 1)
            .map(|(_, path)| {
                let (_, rest) = path.d.split_once("h40v").unwrap();
                rest.split_once('h').unwrap().0.parse().unwrap()
            })
            .collect();
        assert_eq!(tall.iter().sum::<u64>(), 40, "{tall:?}");
        assert_eq!(shapes.iter().filter(|(layer, _)| *layer == 2).count(), 2, "two hatches");
    }

    #[test]
    fn nodes_stand_in_the_order_people_count_them() {
        let spots = [10, 9, 2].map(|number| spot(number, 1_024, &[])).to_vec();
        let groups = groups(spots, &[Name::from("main")]);
        let names: Vec<&str> = groups[0].cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(names, ["n2", "n9", "n10"]);
    }

    #[test]
    fn a_large_map_is_a_few_paths() {
        let spots = (0..5_000).map(|number| spot(number, 65_536, &[(0, 30_000), (1, 20_000)]));
        let groups = groups(spots.collect(), &[Name::from("main")]);
        let [group] = groups.as_slice() else { panic!("{} groups", groups.len()) };
        assert!(group.cells.is_empty());
        assert_eq!(group.paths.len(), 3, "squares, what one user has, a hatch over a part of it");
        let size: usize = group.paths.iter().map(|path| path.d.len()).sum();
        assert!(size < 500_000, "{size}");
        assert_eq!(group.names, "n[0-4999]");
    }

    /// Else what changed would be laid over another node.
    #[test]
    fn a_node_drawn_anew_is_where_it_was() {
        let sizes = |number: u64| if number < 300 { 65_536 } else { 16_384 };
        let spots = || (0..500).map(|number| spot(number, sizes(number), &[])).collect::<Vec<_>>();
        let pools = [Name::from("main")];
        let groups = groups(spots(), &pools);
        let names = ["n7", "n299", "n444"].map(Name::from).into();
        let tiles = tiles(spots(), &pools, &names);
        let places: Vec<(usize, u64)> =
            tiles.iter().map(|tile| (tile.group, tile.number)).collect();
        assert_eq!(places, [(0, 7), (0, 299), (1, 144)]);
        for tile in &tiles {
            let [under, node] = tile.paths.as_slice() else { panic!("{tile:?}") };
            assert_eq!((under.class.as_str(), node.class.as_str()), ("under", "node up"));
            assert!(under.d == node.d && groups[tile.group].paths[0].d.contains(&node.d));
        }
    }

    #[test]
    fn every_state_has_a_mark_of_its_own() {
        let up = NodeCondition::default();
        let states = [
            up,
            NodeCondition { is_dead: true, ..up },
            NodeCondition { is_varied_off: true, ..up },
            NodeCondition { is_blacklisted: true, ..up },
            NodeCondition { is_quiesced: true, ..up },
            NodeCondition { is_awaited: true, ..up },
        ];
        let marks: BTreeSet<String> =
            states.into_iter().map(|state| mark(state, (0, 0), 16)).collect();
        assert_eq!(marks.len(), states.len());
    }
}
