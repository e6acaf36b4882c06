//! Situations of gangs, and the fit against a search of all assignments.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::fit::{ChunkSet, Fitting, NodeBatch, Piece};
use super::kinds::Kinds;
use super::supply::{Space, Supply};
use crate::audit::tests::{ANN, BOB, FAIR, FIXED, Scene};
use crate::engine::{CycleSchedule, GangLack, GangNodes, WaitReason, plan};
use crate::model::{
    Chunk, Elasticity, JobId, Mebibytes, NodeIx, Place, ProcessLimit, Shape, Tags, Topology, UserIx,
};

const GB: u64 = 1024;

fn chunk(count: u64, gb: u64, color: &str) -> Chunk {
    let tags = if color.is_empty() { Tags::default() } else { Tags::of([("color", color)]) };
    Chunk { count, memory: Mebibytes(gb * GB), tags }
}

fn topology(scene: &mut Scene) -> &mut Topology {
    Arc::make_mut(&mut scene.snapshot.topology)
}

fn color(scene: &mut Scene, nodes: std::ops::Range<usize>, key: &'static str, value: &str) {
    for node in nodes {
        let tags = Arc::make_mut(&mut scene.node(node).tags);
        tags.merge(&Tags::of([(key, value)]));
    }
}

/// Space taken of many nodes at once is the same as space taken of node after node.
#[test]
fn nodes_taken_together_are_nodes_taken_one_by_one() {
    let scene = Scene::new(&[8; 12]);
    let kinds = Kinds::new(&scene.snapshot, std::iter::empty());
    let space = |node: usize| {
        let available = if node.is_multiple_of(4) { 5 } else { 8 };
        (NodeIx(node), Space { available, usable: available.min(6) })
    };
    for amounts in [vec![(0, 3)], (0..12).map(|node| (node, 2)).collect(), vec![(3, 9), (7, 5)]] {
        let mut together = Supply::of(&kinds, (0..12).map(space));
        let mut one_by_one = Supply::default();
        for (node, space) in (0..12).map(space) {
            one_by_one.set(&kinds, node, space);
        }
        let all = |supply: &Supply| {
            let spaces: Vec<Space> = (0..12).map(|node| supply.space(NodeIx(node))).collect();
            format!("{spaces:?} {:?}", supply.in_order().collect::<Vec<_>>())
        };
        assert_eq!(all(&together), all(&one_by_one));
        let amounts: Vec<(NodeIx, u64)> =
            amounts.into_iter().map(|(node, amount)| (NodeIx(node), amount)).collect();
        together.take_all(&kinds, &amounts);
        for &(node, amount) in &amounts {
            one_by_one.take(&kinds, node, amount);
        }
        assert_eq!(all(&together), all(&one_by_one), "{amounts:?}");
    }
}

/// Adds a scattered, exclusive gang of fixed-share work.
fn gang(scene: &mut Scene, user: UserIx, chunks: &[Chunk]) -> JobId {
    let largest = chunks.iter().map(|chunk| chunk.memory.0 >> 10).max().unwrap();
    let all: u64 = chunks.iter().map(|chunk| chunk.count).sum();
    let id = scene.job(user, FIXED, u32::try_from(largest).unwrap(), all);
    let shape = Shape {
        chunks: chunks.to_vec(),
        place: Place::Scatter,
        is_exclusive: true,
        ..Shape::default()
    };
    let job = scene.edit(id);
    job.shape = Some(Arc::new(shape));
    job.facts.limit = ProcessLimit::AtMost(all);
    id
}

fn shape_of(scene: &mut Scene, job: JobId) -> &mut Shape {
    Arc::make_mut(scene.edit(job).shape.as_mut().unwrap())
}

/// Nodes of the new processes of a job, by rank.
fn nodes_of(schedule: &CycleSchedule, job: JobId) -> Vec<usize> {
    let mut ranked: Vec<(Option<u32>, NodeIx)> = schedule
        .expansions
        .iter()
        .filter(|new| new.job == job)
        .map(|new| (new.rank, new.node))
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, node)| node.0).collect()
}

fn reason(schedule: &CycleSchedule, job: JobId) -> Option<WaitReason> {
    schedule.report.jobs.iter().find(|line| line.job == job).unwrap().reason
}

fn lacks(of: GangNodes, chunk: Option<usize>, found: u64, needed: u64) -> WaitReason {
    WaitReason::GangLacks(GangLack { of, chunk, found, needed })
}

#[test]
fn ranks_follow_the_chunks_and_each_chunk_gets_its_tags() {
    let mut scene = Scene::new(&[8; 8]);
    color(&mut scene, 0..4, "color", "yellow");
    color(&mut scene, 4..8, "color", "blue");
    let one = gang(&mut scene, ANN, &[chunk(2, 1, "yellow"), chunk(2, 1, "blue")]);
    let two = gang(&mut scene, BOB, &[chunk(2, 1, "blue"), chunk(2, 1, "yellow")]);
    let schedule = plan(&scene.snapshot);
    assert_eq!(nodes_of(&schedule, one), [0, 1, 4, 5]);
    assert_eq!(nodes_of(&schedule, two), [6, 7, 2, 3]);
    assert!(schedule.expansions.iter().all(|new| new.order.get() == 8), "they fill their nodes");
}

#[test]
fn a_picky_chunk_is_not_robbed_by_the_chunk_before_it() {
    let mut scene = Scene::new(&[8; 4]);
    color(&mut scene, 0..2, "color", "yellow");
    color(&mut scene, 2..4, "color", "blue");
    let job = gang(&mut scene, ANN, &[chunk(2, 1, ""), chunk(2, 1, "yellow")]);
    assert_eq!(nodes_of(&plan(&scene.snapshot), job), [2, 3, 0, 1]);
}

/// Order of use: higher preference, then common tags, then the smallest node.
#[test]
fn preferred_common_and_small_nodes_come_first() {
    let first = |prepare: &dyn Fn(&mut Scene)| {
        let mut scene = Scene::new(&[8, 4, 8, 8]);
        prepare(&mut scene);
        let job = gang(&mut scene, ANN, &[chunk(1, 1, "")]);
        nodes_of(&plan(&scene.snapshot), job)
    };
    assert_eq!(first(&|_| ()), [1], "the smallest");
    assert_eq!(first(&|scene| scene.node(2).preference = 5), [2], "preferred");
    assert_eq!(first(&|scene| scene.node(1).preference = -1), [0], "not preferred");
    assert_eq!(first(&|scene| color(scene, 1..2, "gpu", "a100")), [0], "special nodes last");
}

#[test]
fn a_gang_that_can_never_fit_says_what_it_lacks() {
    let mut scene = Scene::new(&[8; 5]);
    color(&mut scene, 0..3, "color", "yellow");
    scene.running((BOB, FAIR), 8, 1, 0);
    let alone = gang(&mut scene, ANN, &[chunk(4, 1, "yellow")]);
    let jointly = gang(&mut scene, ANN, &[chunk(2, 1, "yellow"), chunk(2, 2, "yellow")]);
    let schedule = plan(&scene.snapshot);
    assert_eq!(reason(&schedule, alone), Some(lacks(GangNodes::Configured, Some(0), 3, 4)));
    assert_eq!(reason(&schedule, jointly), Some(lacks(GangNodes::Configured, None, 3, 4)));
    assert_eq!(schedule.preemptions, []);
}

#[test]
fn nodes_that_are_down_are_not_impossible() {
    let mut scene = Scene::new(&[8; 3]);
    scene.node(1).state.is_varied_off = true;
    let job = gang(&mut scene, ANN, &[chunk(3, 1, "")]);
    assert_eq!(reason(&plan(&scene.snapshot), job), Some(lacks(GangNodes::Up, Some(0), 2, 3)));
}

/// A gang that can never start answers for equal gangs, and for no gang of another size, with a node
/// list, or that shares its nodes.
#[test]
fn a_gang_that_can_never_fit_answers_for_equal_gangs_only() {
    let mut scene = Scene::new(&[8; 3]);
    let jobs: Vec<JobId> = (0..6).map(|_| gang(&mut scene, ANN, &[chunk(4, 1, "")])).collect();
    let impossible = Some(lacks(GangNodes::Configured, Some(0), 3, 4));
    shape_of(&mut scene, jobs[2]).chunks = vec![chunk(3, 1, "")];
    scene.edit(jobs[3]).nodes = Some(Arc::new([NodeIx(0), NodeIx(1)]));
    shape_of(&mut scene, jobs[4]).is_exclusive = false;
    shape_of(&mut scene, jobs[4]).place = Place::Free;
    let schedule = plan(&scene.snapshot);
    assert_eq!(nodes_of(&schedule, jobs[2]), [0, 1, 2]);
    for job in [jobs[0], jobs[1], jobs[5]] {
        assert_eq!(reason(&schedule, job), impossible);
    }
    assert_eq!(reason(&schedule, jobs[3]), Some(lacks(GangNodes::Configured, Some(0), 2, 4)));
    assert_ne!(reason(&schedule, jobs[4]), impossible);
}

/// All nodes are cleared in the same cycle, or none is.
#[test]
fn a_gang_preempts_for_all_its_processes_or_for_none() {
    let mut scene = Scene::new(&[8; 4]);
    let fixed = scene.running((ANN, FIXED), 1, 1, 0);
    let fair = scene.job(BOB, FAIR, 4, 6);
    for node in 1..4 {
        scene.hold(fair, 2, node);
    }
    let job = gang(&mut scene, ANN, &[chunk(4, 1, "")]);
    let schedule = plan(&scene.snapshot);
    assert_eq!(schedule.preemptions, []);
    assert_eq!(reason(&schedule, job), Some(lacks(GangNodes::Available, Some(0), 3, 4)));

    scene.edit(fixed).shares.clear();
    scene.edit(fixed).facts.remaining = 0;
    let schedule = plan(&scene.snapshot);
    assert_eq!(schedule.preemptions.len(), 6);
    let promised: Vec<(Option<u32>, usize)> = schedule
        .promises
        .iter()
        .filter(|promise| promise.job == job)
        .map(|promise| (promise.rank, promise.node.0))
        .collect();
    assert_eq!(promised, [(Some(0), 0), (Some(1), 1), (Some(2), 2), (Some(3), 3)]);
}

/// The claim of the oldest gang binds younger work that stays on its nodes, and no other.
#[test]
fn younger_work_that_stays_leaves_the_claims_of_a_waiting_gang() {
    let mut scene = Scene::new(&[8; 4]);
    color(&mut scene, 0..3, "color", "yellow");
    scene.running((ANN, FIXED), 1, 1, 0);
    let waiting = gang(&mut scene, ANN, &[chunk(3, 1, "yellow")]);
    let younger = gang(&mut scene, BOB, &[chunk(1, 1, "yellow")]);
    let other = gang(&mut scene, BOB, &[chunk(1, 1, "")]);
    let single = scene.job(BOB, FIXED, 1, 1);
    let fair = scene.job(BOB, FAIR, 8, 9);
    let schedule = plan(&scene.snapshot);
    assert_eq!(reason(&schedule, waiting), Some(lacks(GangNodes::Available, Some(0), 2, 3)));
    assert_eq!(reason(&schedule, younger), Some(WaitReason::BehindOlderGang { job: waiting }));
    assert_eq!(nodes_of(&schedule, other), [3]);
    assert_eq!(nodes_of(&schedule, single), [0], "beside the work that the gang waits for");
    assert_eq!(nodes_of(&schedule, fair), [1, 2], "work that can be preempted uses them meanwhile");
}

#[test]
fn a_single_request_behind_a_claim_says_so() {
    let mut scene = Scene::new(&[8; 2]);
    scene.running((ANN, FIXED), 8, 1, 0);
    let waiting = gang(&mut scene, ANN, &[chunk(2, 1, "")]);
    let single = scene.job(BOB, FIXED, 1, 1);
    let schedule = plan(&scene.snapshot);
    assert_eq!(nodes_of(&schedule, single), [0; 0]);
    assert_eq!(reason(&schedule, single), Some(WaitReason::BehindOlderGang { job: waiting }));
}

/// After its hold limit a gang claims nothing for as long; then it does again.
#[test]
fn a_claim_ends_with_the_hold_limit() {
    let mut scene = Scene::new(&[8; 3]);
    scene.running((ANN, FIXED), 1, 1, 0);
    let waiting = gang(&mut scene, ANN, &[chunk(3, 1, "")]);
    let younger = gang(&mut scene, BOB, &[chunk(1, 1, "")]);
    topology(&mut scene).classes[FIXED].gangs.hold_limit = 50_000;
    for (waited, is_held_up) in [(0, true), (4, true), (5, false), (9, false), (10, true)] {
        scene.edit(waiting).gang.waits_since = Some(100 - waited);
        let schedule = plan(&scene.snapshot);
        assert_eq!(nodes_of(&schedule, younger).is_empty(), is_held_up, "{waited}");
        assert_eq!(schedule.next_change, Some(100 + 5 - waited % 5), "{waited}");
    }
}

#[test]
fn a_gang_stays_in_one_set_if_one_could_ever_hold_it() {
    let mut scene = Scene::new(&[8; 7]);
    color(&mut scene, 0..4, "rack", "a");
    color(&mut scene, 4..7, "rack", "b");
    topology(&mut scene).tagging.sets = vec!["rack".into()];
    let small = gang(&mut scene, ANN, &[chunk(3, 1, "")]);
    let large = gang(&mut scene, ANN, &[chunk(4, 1, "")]);
    let schedule = plan(&scene.snapshot);
    assert_eq!(nodes_of(&schedule, small), [4, 5, 6], "the smaller set first");
    assert_eq!(nodes_of(&schedule, large), [0, 1, 2, 3]);

    let mut scene = Scene::new(&[8; 4]);
    color(&mut scene, 0..2, "rack", "a");
    color(&mut scene, 2..4, "rack", "b");
    let spanning = gang(&mut scene, ANN, &[chunk(3, 1, "")]);
    shape_of(&mut scene, spanning).group_by = Some("rack".into());
    assert_eq!(nodes_of(&plan(&scene.snapshot), spanning), [0, 1, 2]);
    shape_of(&mut scene, spanning).may_span = Some(false);
    let schedule = plan(&scene.snapshot);
    assert_eq!(reason(&schedule, spanning), Some(lacks(GangNodes::OfOneSet, Some(0), 2, 3)));
}

#[test]
fn processes_are_packed_or_share_nodes_as_asked() {
    let mut scene = Scene::new(&[8; 4]);
    scene.running((BOB, FIXED), 5, 1, 0);
    let packed = gang(&mut scene, ANN, &[chunk(3, 2, "")]);
    let shared = gang(&mut scene, ANN, &[chunk(5, 4, "")]);
    let impossible = gang(&mut scene, ANN, &[chunk(5, 2, "")]);
    for (job, place) in [(packed, Place::Pack), (shared, Place::Free), (impossible, Place::Pack)] {
        let shape = shape_of(&mut scene, job);
        (shape.place, shape.is_exclusive) = (place, false);
    }
    let schedule = plan(&scene.snapshot);
    assert_eq!(nodes_of(&schedule, packed), [1; 3]);
    assert_eq!(nodes_of(&schedule, shared), [2, 2, 3, 3, 3][..0], "one process finds no place");
    assert_eq!(reason(&schedule, shared), Some(lacks(GangNodes::Available, Some(0), 4, 5)));
    assert_eq!(reason(&schedule, impossible), Some(lacks(GangNodes::Configured, Some(0), 8, 10)));
}

#[test]
fn a_moldable_gang_relaxes_to_its_minimum() {
    let mut scene = Scene::new(&[8; 6]);
    let job = gang(&mut scene, ANN, &[chunk(10, 1, "")]);
    let shape = shape_of(&mut scene, job);
    (shape.elasticity, shape.min_processes) = (Some(Elasticity::Moldable), 5);
    for (failures, least) in [(0, 10), (1, 9), (3, 7)] {
        scene.edit(job).gang.waits_since = Some(100 - failures);
        let schedule = plan(&scene.snapshot);
        assert_eq!(reason(&schedule, job), Some(lacks(GangNodes::Available, Some(0), 6, least)));
        assert_eq!(schedule.next_change, Some(101));
    }
    scene.edit(job).gang.waits_since = Some(96);
    assert_eq!(nodes_of(&plan(&scene.snapshot), job), [0, 1, 2, 3, 4, 5]);
}

/// True if the processes that are left fit, by trying all nodes for the first of them.
fn fits_by_search(
    pieces: &mut [u64],
    sizes: &[u64],
    nodes: &mut [(u64, ChunkSet)],
    place: Place,
) -> bool {
    let Some(chunk) = pieces.iter().position(|left| 0 < *left) else { return true };
    pieces[chunk] -= 1;
    for node in 0..nodes.len() {
        let before = nodes[node].0;
        if sizes[chunk] <= before && nodes[node].1.contains(chunk) {
            nodes[node].0 = if place == Place::Scatter { 0 } else { before - sizes[chunk] };
            let fits = fits_by_search(pieces, sizes, nodes, place);
            nodes[node].0 = before;
            if fits {
                pieces[chunk] += 1;
                return true;
            }
        }
    }
    pieces[chunk] += 1;
    false
}

/// Scattered chunks, and single chunks, are fitted exactly. Several chunks with common nodes are
/// packed well, and what is said to be impossible is.
#[test]
fn the_fit_is_what_a_search_finds() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let (mut both, mut missed, mut cases) = (0, 0, 0);
    for _ in 0..5_000 {
        let mut draw = |least: u64, most: u64| random.random_range(least..=most);
        let place = if draw(0, 1) == 0 { Place::Scatter } else { Place::Free };
        let chunks = draw(1, 3);
        let pieces: Vec<Piece> =
            (0..chunks).map(|_| Piece { count: draw(1, 3), size: draw(1, 4) }).collect();
        let groups: Vec<NodeBatch> = (0..draw(1, 4))
            .map(|_| NodeBatch {
                nodes: draw(1, 2),
                free: draw(1, 6),
                suits: pieces.iter().map(|_| draw(0, 2) != 0).collect(),
            })
            .collect();
        let fitting = Fitting { pieces: &pieces, groups: &groups, place };
        let mut nodes: Vec<(u64, ChunkSet)> = groups
            .iter()
            .flat_map(|group| (0..group.nodes).map(|_| (group.free, group.suits)))
            .collect();
        let mut left: Vec<u64> = pieces.iter().map(|piece| piece.count).collect();
        let sizes: Vec<u64> = pieces.iter().map(|piece| piece.size).collect();
        let truth = fits_by_search(&mut left, &sizes, &mut nodes, place);
        let found = fitting.assign();
        cases += 1;
        let is_exact = place == Place::Scatter || chunks == 1;
        match &found {
            Ok(loads) => {
                assert!(truth, "{pieces:?} {groups:?}");
                both += 1;
                for (chunk, piece) in pieces.iter().enumerate() {
                    let placed = loads.iter().flat_map(|load| {
                        let own = load.processes.iter().filter(|(of, _)| *of == chunk);
                        own.map(|(_, processes)| processes * load.nodes)
                    });
                    assert_eq!(placed.sum::<u64>(), piece.count, "{pieces:?} {groups:?} {loads:?}");
                }
                for (place, group) in groups.iter().enumerate() {
                    let used: u64 = loads
                        .iter()
                        .filter(|load| load.group == place)
                        .map(|load| load.nodes)
                        .sum();
                    assert!(used <= group.nodes, "{pieces:?} {groups:?} {loads:?}");
                }
            }
            Err(lack) => {
                missed += usize::from(truth);
                assert!(!truth || !is_exact, "{place:?} {pieces:?} {groups:?}");
                assert!(!truth || !fitting.is_proof(lack), "{place:?} {pieces:?} {groups:?}");
            }
        }
    }
    assert!(1_000 < both && missed * 50 < both, "{both} fit, {missed} missed, of {cases}");
}
