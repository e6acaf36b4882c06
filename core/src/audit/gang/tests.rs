//! Matchings against exhaustive search on tiny clusters.

use std::sync::Arc;

use proptest::prelude::*;

use super::crew::GangLine;
use super::fit::{Fit, GangParts};
use super::matching::{StepLimit, most_places};
use super::spaces::{FreeNode, FreeSize};
use crate::model::{Chunk, JobIx, Mebibytes, Place, Shape, Tags};

/// A process to place: its size, and the nodes with its tags as bits.
type Process = (u64, u8);

fn tags_of(color: usize) -> Tags {
    match color {
        0 => Tags::default(),
        1 => Tags::of([("color", "red")]),
        2 => Tags::of([("color", "blue")]),
        _ => Tags::of([("color", "red"), ("gpu", "true")]),
    }
}

/// Most processes that can be placed at the same time, by trying all ways.
fn exhaustive(processes: &[Process], left: &mut [u64], used: u8, place: Place) -> usize {
    let Some((&(order, suits), rest)) = processes.split_first() else { return 0 };
    // One process less never hurts a count of the most.
    let mut best = exhaustive(rest, left, used, place);
    for ix in 0..left.len() {
        let is_open = suits & (1 << ix) != 0 && order <= left[ix];
        let is_right = match place {
            Place::Free => true,
            Place::Scatter => used & (1 << ix) == 0,
            Place::Pack => used & !(1 << ix) == 0,
        };
        if is_open && is_right {
            left[ix] -= order;
            best = best.max(1 + exhaustive(rest, left, used | (1 << ix), place));
            left[ix] += order;
        }
    }
    best
}

fn gang(chunks: &[(u64, u64, usize)], place: Place) -> GangLine {
    let shape = Shape {
        chunks: chunks
            .iter()
            .map(|&(count, order, color)| Chunk {
                count,
                memory: Mebibytes(order * 1024),
                tags: tags_of(color),
            })
            .collect(),
        place,
        ..Shape::default()
    };
    GangLine {
        lost: Vec::new(),
        place: JobIx(0),
        shape: Arc::new(shape),
        orders: Some(chunks.iter().map(|(_, order, _)| *order).collect()),
        stayed: Vec::new(),
        begun: Vec::new(),
        promised: Vec::new(),
    }
}

/// Sizes and colors of up to 5 nodes; up to 3 chunks with count, size and color; a place.
type Case = (Vec<(u64, usize)>, Vec<(u64, u64, usize)>, Place);

fn cases() -> impl Strategy<Value = Case> {
    let nodes = prop::collection::vec((0..6_u64, 0..4_usize), 0..=5);
    let chunks = prop::collection::vec((1..=3_u64, 1..=4_u64, 0..4_usize), 1..=3);
    let place = prop_oneof![Just(Place::Free), Just(Place::Scatter), Just(Place::Pack)];
    (nodes, chunks, place).prop_filter("few processes", |(_, chunks, _)| {
        chunks.iter().map(|(count, ..)| count).sum::<u64>() <= 6
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn the_answer_is_that_of_exhaustive_search((nodes, chunks, place) in cases()) {
        let spaces: Vec<FreeNode> = nodes
            .iter()
            .map(|&(amount, color)| FreeNode {
                amount: FreeSize::Known(amount),
                tags: Arc::new(tags_of(color)),
            })
            .collect();
        let mut processes: Vec<Process> = Vec::new();
        for &(count, order, color) in &chunks {
            let suits = |(ix, space): (usize, &FreeNode)| {
                if space.tags.satisfy(&tags_of(color)) { 1 << ix } else { 0 }
            };
            let suits: u8 = spaces.iter().enumerate().map(suits).sum();
            processes.extend((0..count).map(|_| (order, suits)));
        }
        let mut left: Vec<u64> = nodes.iter().map(|(amount, _)| *amount).collect();
        let most = exhaustive(&processes, &mut left, 0, place);
        let fits = most == processes.len();
        let gang = gang(&chunks, place);
        let size = gang.shape.processes();
        let request = GangParts::of(&gang, size).unwrap();
        let fit = request.fit(&spaces, &mut u64::from(u32::MAX));
        match fit {
            Fit::Yes | Fit::Packed => prop_assert!(fits, "{fit:?}"),
            Fit::No => prop_assert!(!fits, "{fit:?}"),
            Fit::Unknown => prop_assert!(place == Place::Free && 1 < chunks.len()),
        }
        if request.is_countable() {
            let found = request.most_processes(&spaces, &mut u64::from(u32::MAX));
            prop_assert_eq!(found, Ok(u64::try_from(most).unwrap()));
        }
        // With too few steps there is no answer, rather than a wrong answer.
        let hasty = request.fit(&spaces, &mut 4);
        prop_assert!(hasty == Fit::Unknown || hasty == fit);
    }
}

/// Most places of chunks on nodes, by trying all ways. A chunk has its nodes as bits.
fn exhaustive_places(chunks: &[u8], free: u8) -> u64 {
    let Some((suits, rest)) = chunks.split_first() else { return 0 };
    let nodes = (0..5).map(|ix| 1 << ix).filter(|node| suits & free & node != 0);
    let with = nodes.map(|node| 1 + exhaustive_places(rest, free & !node));
    with.max().unwrap_or(0).max(exhaustive_places(rest, free))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn no_matching_is_larger(chunks in prop::collection::vec((0..32_u8, 1..=2_u64), 1..=3)) {
        let needs: Vec<u64> = chunks.iter().map(|(_, need)| *need).collect();
        let nodes = |bits: u8| (0..5).filter(|ix| bits & (1 << ix) != 0).collect();
        let suits: Vec<Vec<usize>> = chunks.iter().map(|(bits, _)| nodes(*bits)).collect();
        let each = |&(bits, need): &(u8, u64)| (0..need).map(move |_| bits);
        let single: Vec<u8> = chunks.iter().flat_map(each).collect();
        let found = most_places(&needs, &suits, 5, &mut 100_000);
        prop_assert_eq!(found, Ok(exhaustive_places(&single, 31)));
    }
}

/// The first chunk takes the node that the second needs, and has to give it up.
#[test]
fn a_chunk_gives_its_node_up_for_another() {
    let places = |needs: &[u64], suits: &[Vec<usize>]| most_places(needs, suits, 4, &mut 1000);
    assert_eq!(places(&[1, 1], &[vec![0, 1], vec![0]]), Ok(2));
    assert_eq!(places(&[1, 1, 1], &[vec![0, 1], vec![0, 2], vec![0]]), Ok(3), "over two steps");
    assert_eq!(places(&[2, 1, 1], &[vec![0, 1, 2], vec![1, 3], vec![0, 1]]), Ok(4));
    assert_eq!(places(&[1, 1, 1], &[vec![0, 1], vec![0, 1], vec![0, 1]]), Ok(2));
    assert_eq!(places(&[9], &[vec![0, 3]]), Ok(2));
    assert_eq!(most_places(&[1, 1], &[vec![0, 1], vec![0]], 2, &mut 1), Err(StepLimit));
}

/// Chunks that share nodes: a way that is found proves that they fit; nothing else is sure.
#[test]
fn chunks_that_share_nodes_are_judged_with_care() {
    let fit = |chunks: &[(u64, u64, usize)], nodes: &[(u64, usize)]| {
        let spaces: Vec<FreeNode> = nodes
            .iter()
            .map(|&(amount, color)| FreeNode {
                amount: FreeSize::Known(amount),
                tags: Arc::new(tags_of(color)),
            })
            .collect();
        let gang = gang(chunks, Place::Free);
        GangParts::of(&gang, gang.shape.processes()).unwrap().fit(&spaces, &mut 1000)
    };
    assert_eq!(fit(&[(2, 2, 1), (2, 2, 2)], &[(4, 1), (4, 2)]), Fit::Yes, "no node in common");
    assert_eq!(fit(&[(2, 2, 1), (1, 4, 0)], &[(4, 1), (4, 1)]), Fit::Yes, "nodes of their own");
    assert_eq!(fit(&[(1, 3, 0), (1, 1, 0)], &[(4, 0)]), Fit::Packed, "both on one node");
    assert_eq!(fit(&[(1, 3, 0), (2, 1, 0)], &[(4, 0)]), Fit::No, "too large in all");
    let clever = [(1, 3, 0), (2, 2, 0), (1, 1, 0)];
    assert_eq!(fit(&clever, &[(5, 0), (3, 0)]), Fit::Packed, "3 and 2, 2 and 1");
    assert_eq!(fit(&clever, &[(4, 0), (4, 0)]), Fit::Packed);
    assert_eq!(fit(&[(1, 3, 0), (3, 2, 0)], &[(4, 0), (5, 0)]), Fit::Unknown, "2 2, 3 2");
}

/// A node that never reported is large enough for a single process of any chunk, and for no two.
#[test]
fn a_node_that_never_reported_holds_a_process() {
    let unheard = |color| FreeNode { amount: FreeSize::Unheard, tags: Arc::new(tags_of(color)) };
    let fit = |chunks: &[(u64, u64, usize)], place, spaces: &[FreeNode]| {
        let gang = gang(chunks, place);
        GangParts::of(&gang, gang.shape.processes()).unwrap().fit(spaces, &mut 1000)
    };
    let two = [unheard(0), unheard(1)];
    for place in [Place::Free, Place::Scatter] {
        assert_eq!(fit(&[(1, 99, 0), (1, 1, 1)], place, &two), Fit::Yes, "{place:?}");
        assert_eq!(fit(&[(1, 99, 0), (1, 1, 2)], place, &two), Fit::No, "{place:?}");
        assert!(fit(&[(1, 99, 0), (2, 1, 0)], place, &two) <= Fit::Unknown, "{place:?}");
    }
    assert_eq!(fit(&[(3, 99, 1)], Place::Pack, &two), Fit::Yes);
}

/// Chunks and nodes in circles, so that most chunks have to give nodes up: 64 chunks on 10,000
/// nodes are answered within the limit of each check.
#[test]
fn the_largest_requests_are_answered_within_the_limit() {
    let (chunks, nodes) = (64, 10_000);
    for stride in [1, 7, 31] {
        // Chunk `c` suits the nodes of its color and of the color `stride` after it.
        let suits = |chunk: usize| -> Vec<usize> {
            let suits =
                |node: &usize| node % chunks == chunk || node % chunks == (chunk + stride) % chunks;
            (0..nodes).filter(suits).collect()
        };
        let suits: Vec<Vec<usize>> = (0..chunks).map(suits).collect();
        for needs in [[156; 64], std::array::from_fn(|chunk| if chunk % 2 == 0 { 300 } else { 12 })]
        {
            let mut steps = 6_000_000;
            let places = most_places(&needs, &suits, nodes, &mut steps);
            assert_eq!(places, Ok(needs.iter().sum()), "{stride}");
        }
    }
}
