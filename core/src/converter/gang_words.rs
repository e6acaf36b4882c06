//! Reasons of gangs in words that need no knowledge of how the planner counts.
//!
//! Design: requests and time, section 5.

use std::fmt::Display;

use super::update::Explanation;
use crate::engine::{CapBound, GangLack, GangNodes, WaitReason};
use crate::model::{
    Chunk, Name, Place, QShares, Quantum, Shape, Tags, amount_text, counted, fold_hostlist,
};
use crate::scheduler::{JobView, Waiting};

/// Explains why a gang waits, if the general words do not do for it.
pub(super) fn explain_gang(job: &JobView) -> Option<Explanation> {
    let shape = job.shape.as_deref().filter(|shape| shape.is_gang())?;
    let Some(Waiting::Engine(reason)) = &job.reason else { return None };
    let sentence = if let WaitReason::GangLacks(lack) = reason {
        format!("{}: {}", state_words(lack.of), lack_words(*lack, shape, job.quantum))
    } else if matches!(reason, WaitReason::Capped { bound: CapBound::Spent, .. }) {
        broken(job)
    } else {
        return None;
    };
    Some(Explanation { code: reason.code(), sentence })
}

/// The state of a gang that lacks nodes: "waits for nodes".
fn state_words(of: GangNodes) -> &'static str {
    match of {
        GangNodes::Configured => "impossible",
        GangNodes::OfOneSet => "too large for a placement set",
        GangNodes::Up => "too few nodes up",
        GangNodes::Available => "waits for nodes",
    }
}

/// The lack of a gang of `shape` in words: "it needs 4 nodes with gpu=a100 at once, and the cluster
/// has 3".
pub fn lack_words(lack: GangLack, shape: &Shape, quantum: Option<Quantum>) -> String {
    let GangLack { of, chunk, found, needed } = lack;
    let is_single = shape.chunks.len() == 1;
    let named = chunk.or(is_single.then_some(0)).and_then(|at| shape.chunks.get(at));
    let subject = match chunk {
        _ if is_single => "it needs".to_owned(),
        Some(at) => format!("its chunk {} needs", at + 1),
        None => "its chunks together need".to_owned(),
    };
    let with = named.map(|chunk| tags_words(&chunk.tags)).unwrap_or_default();
    let set = shape.group_by.as_ref().map_or("placement set", Name::as_str);
    let (asks, has) = match (shape.place, named) {
        (Place::Pack, _) => packed((of, set), (found, needed), quantum),
        (Place::Free, Some(chunk)) => free((of, set), (found, needed), chunk),
        (_, None) => (counted(needed, "node"), together((of, set), found)),
        (Place::Scatter, Some(chunk)) if is_too_large(of, found, chunk) => {
            let has = format!("no node of the cluster can hold a process of {}", chunk.memory);
            (counted(needed, "node"), has)
        }
        (Place::Scatter, Some(_)) => (counted(needed, "node"), scattered((of, set), found)),
    };
    let at_once = if shape.place == Place::Pack { "" } else { " at once" };
    format!("{subject} {asks}{with}{at_once}, and {has}")
}

fn tags_words(tags: &Tags) -> String {
    if tags.is_empty() { String::new() } else { format!(" with {tags}") }
}

/// True if a chunk that asks for no tags suits no node at all: its processes are too large.
fn is_too_large(of: GangNodes, found: u64, chunk: &Chunk) -> bool {
    of == GangNodes::Configured && found == 0 && chunk.tags.is_empty()
}

/// Words for nodes, each of which takes a single process.
fn scattered((of, set): (GangNodes, &str), found: u64) -> String {
    match (of, found) {
        (GangNodes::Configured, 0) => "the cluster has none".to_owned(),
        (GangNodes::Configured, _) => format!("the cluster has {found}"),
        (GangNodes::OfOneSet, _) => format!("no {set} has more than {found}"),
        (GangNodes::Up, 0) => "none is up".to_owned(),
        (GangNodes::Up, 1) => "1 is up".to_owned(),
        (GangNodes::Up, _) => format!("{found} are up"),
        (GangNodes::Available, 0) => "none can be had now".to_owned(),
        (GangNodes::Available, _) => format!("{found} can be had now"),
    }
}

/// Words for nodes of several chunks, of which each suits some chunks only.
fn together((of, set): (GangNodes, &str), found: u64) -> String {
    match (of, found) {
        (_, 0) => scattered((of, set), found),
        (GangNodes::Configured, _) => format!("the cluster has suitable nodes for {found} of them"),
        (GangNodes::OfOneSet, _) => format!("no {set} has suitable nodes for more than {found}"),
        (GangNodes::Up, _) => format!("suitable nodes for {found} of them are up"),
        (GangNodes::Available, _) => format!("suitable nodes for {found} of them can be had now"),
    }
}

/// Words for processes of which a node may take several.
fn free(
    (of, set): (GangNodes, &str),
    (found, needed): (u64, u64),
    chunk: &Chunk,
) -> (String, String) {
    let has = match of {
        GangNodes::Configured => format!("the cluster has space for {found}"),
        GangNodes::OfOneSet => format!("no {set} has space for more than {found}"),
        GangNodes::Up => format!("the nodes that are up have space for {found}"),
        GangNodes::Available => format!("there is space for {found} now"),
    };
    (format!("space for {} of {}", counted(needed, "process"), chunk.memory), has)
}

/// Words for processes that have to share a node.
fn packed(
    (of, set): (GangNodes, &str),
    (found, needed): (u64, u64),
    quantum: Option<Quantum>,
) -> (String, String) {
    let [most, asks] = [found, needed].map(|amount| amount_text(quantum, QShares(amount)));
    let has = match of {
        GangNodes::Configured => format!("no node of the cluster has more than {most}"),
        GangNodes::OfOneSet => format!("no node of a {set} has more than {most}"),
        GangNodes::Up => format!("no node that is up has more than {most}"),
        GangNodes::Available => format!("no node has more than {most} for it now"),
    };
    (format!("{asks} on one node"), has)
}

/// The words for a gang of fixed-share work that lost a node.
fn broken(job: &JobView) -> String {
    let lost = fold_hostlist(job.purged.iter().map(|share| share.node.as_str()));
    let which: &dyn Display = if lost.is_empty() { &"a node" } else { &lost };
    format!(
        "gang broken: it lost {which}, so all of it was stopped; the orchestrator starts it again under \
         another number"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Mebibytes;

    /// A gang of chunks with these tags.
    fn shape(place: Place, tags: &[&[(&str, &str)]]) -> Shape {
        let chunk = |tags: &&[(&str, &str)]| Chunk {
            count: 4,
            memory: Mebibytes::from_gib(2),
            tags: Tags::of(tags.iter().copied()),
        };
        Shape { chunks: tags.iter().map(chunk).collect(), place, ..Shape::default() }
    }

    #[test]
    fn a_lack_is_told_in_nodes_processes_or_memory_as_the_gang_asks() {
        let gpu: &[(&str, &str)] = &[("gpu", "a100")];
        let (one, two) = (shape(Place::Scatter, &[gpu]), shape(Place::Scatter, &[&[], gpu]));
        let (free, pack) = (shape(Place::Free, &[&[]]), shape(Place::Pack, &[&[]]));
        let large = shape(Place::Scatter, &[&[]]);
        let racks = Shape { group_by: Some("rack".into()), ..large.clone() };
        let told = |shape: &Shape, of, chunk, found| {
            let lack = GangLack { of, chunk, found, needed: 4 };
            lack_words(lack, shape, Quantum::new(Mebibytes::from_gib(1)))
        };
        for (shape, of, chunk, found, expected) in [
            (
                &one,
                GangNodes::Configured,
                Some(0),
                3,
                "it needs 4 nodes with gpu=a100 at once, and the cluster has 3",
            ),
            (
                &one,
                GangNodes::Configured,
                Some(0),
                0,
                "it needs 4 nodes with gpu=a100 at once, and the cluster has none",
            ),
            (
                &one,
                GangNodes::OfOneSet,
                None,
                3,
                "it needs 4 nodes with gpu=a100 at once, and no placement set has more than 3",
            ),
            (
                &large,
                GangNodes::Configured,
                Some(0),
                0,
                "it needs 4 nodes at once, and no node of the cluster can hold a process of 2 GB",
            ),
            (
                &racks,
                GangNodes::OfOneSet,
                Some(0),
                3,
                "it needs 4 nodes at once, and no rack has more than 3",
            ),
            (
                &two,
                GangNodes::Configured,
                None,
                3,
                "its chunks together need 4 nodes at once, and the cluster has suitable nodes for 3 of them",
            ),
            (&one, GangNodes::Up, None, 1, "it needs 4 nodes with gpu=a100 at once, and 1 is up"),
            (
                &two,
                GangNodes::Available,
                Some(1),
                2,
                "its chunk 2 needs 4 nodes with gpu=a100 at once, and 2 can be had now",
            ),
            (
                &two,
                GangNodes::Available,
                None,
                0,
                "its chunks together need 4 nodes at once, and none can be had now",
            ),
            (
                &free,
                GangNodes::Available,
                Some(0),
                2,
                "it needs space for 4 processes of 2 GB at once, and there is space for 2 now",
            ),
            (
                &pack,
                GangNodes::Configured,
                Some(0),
                3,
                "it needs 4 GB on one node, and no node of the cluster has more than 3 GB",
            ),
        ] {
            assert_eq!(told(shape, of, chunk, found), expected);
        }
    }
}
