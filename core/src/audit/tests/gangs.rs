//! Gangs begin, are promised and are taken whole, on the right nodes.

use super::*;
use crate::model::{Chunk, Elasticity, LegalSizes, Place, Shape, Tags};

/// A change of a scene with a gang.
pub(super) type GangDoctor = fn(&mut Scene, JobId);

impl Scene {
    /// Adds a waiting gang. Its chunks have a number of processes and an order.
    pub(super) fn gang(
        &mut self,
        (user, class): (UserIx, ClassIx),
        chunks: &[(u64, u32)],
        place: Place,
    ) -> JobId {
        let largest = chunks.iter().map(|(_, order)| *order).max().unwrap();
        let id = self.job(user, class, largest, chunks.iter().map(|(count, _)| count).sum());
        let chunks = chunks.iter().map(|&(count, order)| Chunk {
            count,
            memory: Mebibytes(u64::from(order) * 1024),
            tags: Tags::default(),
        });
        let shape = Shape { chunks: chunks.collect(), place, ..Shape::default() };
        self.edit(id).shape = Some(Arc::new(shape));
        self.edit(id).facts.is_running = false;
        Arc::make_mut(&mut self.snapshot.topology).classes[class].gangs.are_allowed = true;
        id
    }

    pub(super) fn shape(&mut self, id: JobId) -> &mut Shape {
        Arc::make_mut(self.edit(id).shape.as_mut().unwrap())
    }

    pub(super) fn tag(&mut self, on: usize, key: &str, value: &str) {
        let tags = Tags::of([(key, value)]);
        Arc::make_mut(&mut self.node(on).tags).merge(&tags);
    }

    fn order_of_rank(&mut self, id: JobId, rank: u32) -> Order {
        let shape = self.shape(id);
        let chunk = shape.chunk_of(u64::from(rank)).unwrap_or(0);
        Quantum::new(Mebibytes(1024)).unwrap().order_of_work(shape.chunks[chunk].memory).unwrap()
    }

    /// The gang begins on these nodes, in the order of its ranks.
    pub(super) fn begin(&mut self, id: JobId, nodes: &[usize]) {
        for (rank, &on) in (0..).zip(nodes) {
            let order = self.order_of_rank(id, rank);
            let new = self.expand(id, on);
            (new.rank, new.order) = (Some(rank), order);
        }
    }

    /// The gang is promised space on these nodes, in the order of its ranks.
    pub(super) fn promise_ranks(&mut self, id: JobId, nodes: &[usize]) {
        for (rank, &on) in (0..).zip(nodes) {
            let order = self.order_of_rank(id, rank);
            let (rank, node) = (Some(rank), NodeIx(on));
            self.schedule.promises.push(Promise { job: id, node, order, rank });
        }
    }

    /// The gang has started on these nodes, in the order of its ranks.
    pub(super) fn started(&mut self, id: JobId, nodes: &[usize]) {
        for (rank, &on) in (0..).zip(nodes) {
            let order = self.order_of_rank(id, rank);
            let number = ShareId(id.0 * 1000 + u64::from(rank));
            let share = Share {
                rank: Some(rank),
                id: number,
                node: NodeIx(on),
                order,
                state: SharePhase::Held,
                facts: ShareFacts { is_initialized: true, ..ShareFacts::default() },
            };
            self.edit(id).shares.push(share);
        }
        self.edit(id).gang.size = Some(u64::try_from(nodes.len()).unwrap());
    }
}

/// A gang of three of order 2 begins on three nodes of 4.
fn beginning() -> (Scene, JobId) {
    let mut scene = Scene::new(&[4, 4, 4]);
    let gang = scene.gang((ANN, FIXED), &[(3, 2)], Place::Free);
    scene.begin(gang, &[0, 1, 2]);
    (scene, gang)
}

/// Two nodes are full of work of lower priority, which makes way for a gang of two.
fn clearing() -> (Scene, JobId, JobId) {
    let mut scene = Scene::new(&[2, 2]);
    let gang = scene.gang((ANN, FIXED), &[(2, 2)], Place::Scatter);
    let low = scene.running((BOB, LOW), 2, 1, 0);
    scene.hold(low, 1, 1);
    scene.edit(low).facts.remaining = 0;
    scene.preempt(low, 0, Some(gang), VictimRule::Priority);
    scene.preempt(low, 1, Some(gang), VictimRule::Priority);
    scene.promise_ranks(gang, &[0, 1]);
    (scene, gang, low)
}

#[test]
fn a_gang_begins_whole() {
    let (scene, _) = beginning();
    scene.breaks(Rule::BrokenGang, |scene| {
        scene.schedule.expansions.pop();
    });
    let (scene, gang) = beginning();
    scene.breaks(Rule::BrokenGang, |scene| {
        scene.schedule.expansions.pop();
        scene.schedule.promises.push(Promise {
            job: gang,
            node: NodeIx(2),
            order: order(2),
            rank: Some(2),
        });
    });
    let (scene, gang) = beginning();
    scene.breaks(Rule::AboveCap, |scene| {
        let new = scene.expand(gang, 2);
        new.rank = Some(3);
        scene.count(gang, 3);
    });
}

#[test]
fn a_gang_that_has_started_gets_nothing_more() {
    let mut scene = Scene::new(&[4, 4]);
    let gang = scene.gang((ANN, FIXED), &[(2, 2)], Place::Free);
    scene.started(gang, &[0, 1]);
    // A process that exits on its own breaks nothing, and is not replaced.
    scene.edit(gang).shares.pop();
    scene.count(gang, 1);
    scene.breaks(Rule::AboveCap, |scene| {
        let new = scene.expand(gang, 1);
        new.rank = Some(1);
    });
}

#[test]
fn an_evolving_gang_grows_to_what_its_owner_asks_for() {
    let mut scene = Scene::new(&[4, 4]);
    let gang = scene.gang((ANN, FIXED), &[(2, 2)], Place::Free);
    scene.shape(gang).elasticity = Some(Elasticity::Evolving);
    scene.started(gang, &[0, 0]);
    scene.edit(gang).facts.limit = ProcessLimit::AtMost(4);
    for rank in [2, 3] {
        scene.expand(gang, 1).rank = Some(rank);
    }
    scene.breaks(Rule::BrokenGang, |scene| {
        scene.schedule.expansions.pop();
    });
}

#[test]
fn an_evolving_gang_gives_its_highest_ranks_back() {
    let shrinking = |gone: usize| {
        let mut scene = Scene::new(&[4, 4]);
        let gang = scene.gang((ANN, FIXED), &[(2, 2)], Place::Free);
        scene.shape(gang).elasticity = Some(Elasticity::Evolving);
        scene.started(gang, &[0, 0, 1, 1]);
        scene.edit(gang).facts.limit = ProcessLimit::AtMost(3);
        scene.preempt(gang, gone, None, VictimRule::NoLongerAllowed);
        (scene, gang)
    };
    assert_eq!(shrinking(3).0.broken(), []);
    assert_eq!(shrinking(1).0.broken(), [Rule::WrongRank]);
    let (mut scene, gang) = shrinking(3);
    scene.edit(gang).facts.limit = ProcessLimit::AtMost(4);
    scene.count(gang, 3);
    assert_eq!(scene.broken(), [Rule::StillAllowed]);
    let (mut scene, gang) = shrinking(3);
    scene.shape(gang).elasticity = None;
    scene.count(gang, 3);
    let found = scene.broken();
    assert_eq!(found, [Rule::NotPreemptable, Rule::StillAllowed, Rule::PartialVictim]);
}

#[test]
fn ranks_are_the_order_of_the_request() {
    type Doctor = fn(&mut Vec<Expansion>);
    let doctors: [Doctor; 4] = [
        |new| (new[0].rank, new[1].rank) = (Some(1), Some(0)),
        |new| new[2].rank = Some(1),
        |new| new[2].rank = Some(3),
        |new| new[1].rank = None,
    ];
    for doctor in doctors {
        let (scene, _) = beginning();
        scene.breaks(Rule::WrongRank, |scene| doctor(&mut scene.schedule.expansions));
    }
    let (scene, _) = growing(FAIR);
    scene.breaks(Rule::WrongRank, |scene| scene.schedule.expansions[0].rank = Some(0));
}

#[test]
fn a_process_has_the_size_of_its_chunk() {
    let mut scene = Scene::new(&[4, 4]);
    let gang = scene.gang((ANN, FIXED), &[(1, 2), (1, 1)], Place::Free);
    scene.begin(gang, &[0, 1]);
    scene.breaks(Rule::WrongOrder, |scene| scene.schedule.expansions[1].order = order(2));
}

#[test]
fn a_process_is_on_a_node_with_the_tags_of_its_chunk() {
    let mut scene = Scene::new(&[4, 4]);
    let gang = scene.gang((ANN, FIXED), &[(1, 2), (1, 2)], Place::Free);
    scene.shape(gang).chunks[1].tags = Tags::of([("color", "red")]);
    scene.tag(1, "color", "red");
    scene.begin(gang, &[0, 1]);
    scene.breaks(Rule::WrongTags, |scene| {
        scene.schedule.expansions[0].node = NodeIx(1);
        scene.schedule.expansions[1].node = NodeIx(0);
    });
}

#[test]
fn a_gang_is_in_its_own_pool() {
    for (class, rule) in [(FAIR, Rule::WrongPool), (FIXED, Rule::Squatter)] {
        let mut scene = Scene::new(&[2]);
        let gang = scene.gang((ANN, class), &[(1, 2)], Place::Free);
        scene.begin(gang, &[0]);
        // Fair-share work without chunks may use the pools in its own.
        scene.breaks(rule, |scene| {
            scene.node(0).pool = SUB;
            scene.count(gang, 1);
        });
    }
}

/// An exclusive gang of two on a node of 4: the lowest rank fills the node.
#[test]
fn an_exclusive_gang_fills_its_nodes_alone() {
    let exclusive = || {
        let mut scene = Scene::new(&[4]);
        let gang = scene.gang((ANN, FIXED), &[(2, 1)], Place::Free);
        scene.shape(gang).is_exclusive = true;
        scene.begin(gang, &[0, 0]);
        scene.schedule.expansions[0].order = order(3);
        scene
    };
    let other = exclusive();
    other.breaks(Rule::NotExclusive, |scene| scene.schedule.expansions[0].order = order(1));
    exclusive().breaks(Rule::NotExclusive, |scene| {
        scene.schedule.expansions[0].order = order(2);
        scene.running((BOB, FAIR), 1, 1, 0);
    });
    exclusive().breaks(Rule::WrongOrder, |scene| {
        scene.schedule.expansions[0].order = order(1);
        scene.schedule.expansions[1].order = order(3);
    });
    exclusive().breaks(Rule::OverAllotment, |scene| {
        scene.settings().allotment = Some(Mebibytes(4095));
    });
    let mut started = Scene::new(&[4]);
    let gang = started.gang((ANN, FIXED), &[(1, 1)], Place::Free);
    started.shape(gang).is_exclusive = true;
    started.started(gang, &[0]);
    let bob = started.job(BOB, FIXED, 1, 1);
    started.breaks(Rule::NotExclusive, |scene| {
        scene.expand(bob, 0);
    });
}

#[test]
fn processes_are_scattered_or_packed_as_asked() {
    let begin = |place, nodes: &[usize]| {
        let mut scene = Scene::new(&[4, 4]);
        let gang = scene.gang((ANN, FIXED), &[(2, 2)], place);
        scene.begin(gang, nodes);
        scene.broken()
    };
    assert_eq!(begin(Place::Scatter, &[0, 1]), []);
    assert_eq!(begin(Place::Scatter, &[0, 0]), [Rule::WrongPlace]);
    assert_eq!(begin(Place::Pack, &[0, 0]), []);
    assert_eq!(begin(Place::Pack, &[0, 1]), [Rule::WrongPlace]);
    assert_eq!(begin(Place::Free, &[0, 1]), []);
    assert_eq!(begin(Place::Free, &[0, 0]), []);
}

/// Four nodes in two racks, and a gang on some of them.
fn in_racks(processes: u64, nodes: &[usize]) -> (Scene, JobId) {
    let mut scene = Scene::new(&[2, 2, 2, 2]);
    for on in 0..4 {
        scene.tag(on, "rack", if on < 2 { "r1" } else { "r2" });
    }
    Arc::make_mut(&mut scene.snapshot.topology).tagging.sets = vec!["rack".into()];
    let gang = scene.gang((ANN, FIXED), &[(processes, 2)], Place::Scatter);
    scene.begin(gang, nodes);
    (scene, gang)
}

#[test]
fn a_gang_is_in_one_set_if_any_could_hold_it() {
    let (scene, _) = in_racks(2, &[2, 3]);
    scene.breaks(Rule::Spanned, |scene| scene.schedule.expansions[1].node = NodeIx(1));
    // No rack has three nodes.
    let (scene, gang) = in_racks(3, &[0, 1, 2]);
    scene.breaks(Rule::Spanned, |scene| scene.shape(gang).may_span = Some(false));
    // The third node of the rack is down, and a set could hold the gang once it is up.
    let (scene, _) = in_racks(3, &[0, 1, 2]);
    scene.breaks(Rule::Spanned, |scene| {
        Arc::make_mut(&mut scene.snapshot.nodes).push(node(4, 2));
        scene.tag(4, "rack", "r2");
        scene.node(4).state.is_dead = true;
    });
    // Nodes without a rack are no rack that could hold the gang.
    let (mut scene, _) = in_racks(3, &[0, 1, 2]);
    for on in 4..7 {
        Arc::make_mut(&mut scene.snapshot.nodes).push(node(on, 2));
        scene.node(on).state.is_dead = true;
    }
    assert_eq!(scene.broken(), []);
    // Its own key replaces the configured ones.
    let (mut scene, gang) = in_racks(2, &[0, 3]);
    scene.shape(gang).group_by = Some("switch".into());
    scene.tag(0, "switch", "s1");
    scene.tag(3, "switch", "s1");
    assert_eq!(scene.broken(), []);
}

#[test]
fn shares_go_for_a_whole_gang_only() {
    let (scene, ..) = clearing();
    scene.breaks(Rule::VainVictims, |scene| scene.schedule.promises.clear());
    let (mut scene, ..) = clearing();
    scene.schedule.promises.pop();
    assert_eq!(scene.broken(), [Rule::BrokenGang, Rule::VainVictims]);
    // The gang is whole, and a node was cleared for nothing.
    let (mut scene, ..) = clearing();
    scene.node(0).order = QShares(4);
    scene.schedule.promises[1].node = NodeIx(0);
    assert!(scene.broken().contains(&Rule::Unpaid));
}

/// Two processes of the gang on a node are served in a single plan, so each victim counts.
#[test]
fn a_gang_takes_no_more_than_it_needs() {
    let mut scene = Scene::new(&[5]);
    let gang = scene.gang((ANN, FIXED), &[(2, 2)], Place::Free);
    let large = scene.running((BOB, LOW), 4, 1, 0);
    let small = scene.running((BOB, LOW), 1, 1, 0);
    scene.edit(large).facts.remaining = 0;
    scene.edit(small).facts.remaining = 0;
    scene.preempt(large, 0, Some(gang), VictimRule::Priority);
    scene.promise_ranks(gang, &[0, 0]);
    scene.breaks(Rule::SuperfluousVictim, |scene| {
        scene.preempt(small, 0, Some(gang), VictimRule::Priority);
    });
}

#[test]
fn a_gang_is_taken_whole() {
    let mut scene = Scene::new(&[2, 2]);
    let fixed = scene.job(ANN, FIXED, 2, 1);
    let gang = scene.gang((BOB, LOW), &[(2, 2)], Place::Scatter);
    scene.started(gang, &[0, 1]);
    scene.preempt(gang, 0, Some(fixed), VictimRule::Priority);
    scene.preempt(gang, 1, Some(fixed), VictimRule::Priority);
    scene.promise(fixed, 0);
    scene.breaks(Rule::PartialVictim, |scene| {
        scene.schedule.preemptions.pop();
    });
}

#[test]
fn promises_to_a_gang_are_dropped_for_a_reason() {
    let promised = || {
        let (mut scene, gang, low) = clearing();
        scene.schedule.preemptions.clear();
        for share in &mut scene.edit(low).shares {
            share.state = SharePhase::Leaving;
        }
        scene.snapshot.promises = scene.schedule.promises.clone();
        (scene, gang)
    };
    let (scene, _) = promised();
    scene.breaks(Rule::DroppedPromise, |scene| scene.schedule.promises.clear());
    let doctors: [GangDoctor; 4] = [
        |scene, _| scene.node(1).state.is_dead = true,
        |scene, _| scene.node(1).order = QShares(1),
        |scene, gang| scene.edit(gang).facts.is_completing = true,
        |scene, _| scene.settings().allotment = Some(Mebibytes(4095)),
    ];
    for doctor in doctors {
        let (mut scene, gang) = promised();
        scene.schedule.promises.clear();
        doctor(&mut scene, gang);
        assert_eq!(scene.broken(), []);
    }
    // It begins elsewhere instead.
    let (mut scene, gang) = promised();
    Arc::make_mut(&mut scene.snapshot.nodes).extend([node(2, 2), node(3, 2)]);
    scene.schedule.promises.clear();
    scene.begin(gang, &[2, 3]);
    assert_eq!(scene.broken(), []);
}

#[test]
fn numbers_of_processes_are_legal() {
    let sized = |least: u64, nshares: usize| {
        let mut scene = Scene::new(&[u64::try_from(nshares).unwrap()]);
        let job = scene.job(ANN, FAIR, 1, 9);
        scene.edit(job).shape = Some(Arc::new(Shape {
            elasticity: Some(Elasticity::Malleable),
            min_processes: least,
            legal_sizes: LegalSizes::PowerOfTwo,
            ..Shape::default()
        }));
        for _ in 0..nshares {
            scene.expand(job, 0);
        }
        scene.broken()
    };
    assert_eq!(sized(1, 2), []);
    assert_eq!(sized(1, 3), [Rule::IllegalSize]);
    assert_eq!(sized(1, 4), []);
    assert_eq!(sized(8, 4), [Rule::IllegalSize]);
    assert_eq!(sized(8, 8), []);
    let moldable = |nshares: &[usize]| {
        let mut scene = Scene::new(&[5]);
        let gang = scene.gang((ANN, FIXED), &[(5, 1)], Place::Free);
        scene.shape(gang).elasticity = Some(Elasticity::Moldable);
        scene.shape(gang).min_processes = 2;
        scene.shape(gang).legal_sizes = LegalSizes::Even;
        scene.begin(gang, nshares);
        scene.broken()
    };
    assert_eq!(moldable(&[0; 4]), []);
    assert_eq!(moldable(&[0; 2]), []);
    assert_eq!(moldable(&[0; 3]), [Rule::IllegalSize]);
}

/// The target of a gang is as large as its processes are.
#[test]
fn a_gang_counts_by_its_own_sizes() {
    let mut scene = Scene::new(&[5]);
    let gang = scene.gang((ANN, FIXED), &[(1, 4), (1, 1)], Place::Free);
    scene.begin(gang, &[0, 0]);
    scene.breaks(Rule::OverCounted, |scene| {
        let bob = scene.job(BOB, FAIR, 1, 1);
        scene.count(bob, 1);
    });
}
