//! Rules of preemption in the smallest scenes; and in random scenes the queue's best plan against
//! all plans.

use std::sync::Arc;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::budget::{objection_to, worth};
use super::eligibility::Eligibility;
use super::feasible::Feasible;
use super::keeps::Keeps;
use super::plan::{Cost, plan_on};
use super::reclaim::{Donors, Reclaim};
use super::{arrangement, due, make_space_for, take_promises};
use crate::audit::tests::{ANN, BOB, FAIR, FIXED, HEAVY, LOW, SUB, Scene, TOP};
use crate::engine::capacity::DemandByOrder;
use crate::engine::draft::Draft;
use crate::engine::place::place_one;
use crate::engine::report::{CapBound, Declined};
use crate::engine::share_table::ShareIx;
use crate::engine::{Alternatives, Snapshot, Taking, VictimRule, place, target};
use crate::model::{
    CapRules, Chunk, ClassIx, Elasticity, JobId, JobIx, LegalSizes, Mebibytes, Millis, NShares,
    NodeIx, Order, Precedence, QShares, Shape, ShareFacts, Tags, UserIx,
};

const CID: UserIx = UserIx(2);
/// A class like `FAIR`, in the pool `SUB`.
const INNER: ClassIx = ClassIx(3);
const FAIR_SHARE: Option<VictimRule> = Some(VictimRule::FairShare);
const FIRST: Option<VictimRule> = Some(VictimRule::FirstShare);
const ENVY: Option<VictimRule> = Some(VictimRule::Envy);

/// Builds jobs of the fair class on nodes of these orders: each with its user, its order, and its
/// processes, all on the first node. All could use more.
fn scene(nodes: &[u64], jobs: &[(UserIx, u32, u64)]) -> Scene {
    let mut scene = Scene::new(nodes);
    let names = ["cid", "dan", "eve"].map(Into::into);
    Arc::make_mut(&mut scene.snapshot.users).extend(names);
    for &(user, order, held) in jobs {
        let job = scene.job(user, FAIR, order, 100);
        scene.hold(job, held, 0);
    }
    scene
}

/// Builds the same scene in an idle cluster.
fn at_rest(nodes: &[u64], jobs: &[(UserIx, u32, u64)]) -> Scene {
    let mut scene = scene(nodes, jobs);
    (scene.snapshot.quiescence.quiet_cycles, scene.snapshot.quiescence.rest_cycles) = (9, 9);
    scene
}

/// Starts a cycle with these targets of the jobs; a process is owed if the target is not 0.
fn counted<'a>(snapshot: &'a Snapshot, counts: &[u64]) -> Draft<'a> {
    let mut draft = Draft::new(snapshot);
    let entities = Arc::clone(&draft.entities);
    for (job, &count) in draft.jobs.places().zip(counts) {
        draft.jobs[job].target = NShares(count);
        draft.jobs[job].is_owed = 0 < count;
        let quanta = draft.jobs[job].order.qshares().0 * count;
        entities.add(&mut draft.targets, job, quanta);
    }
    draft
}

/// Returns the rules under which the last job may take quanta in turn from the first.
fn rules(scene: &Scene, counts: &[u64], quanta: usize) -> Vec<Option<VictimRule>> {
    let draft = counted(&scene.snapshot, counts);
    let keeps = Keeps::new(&draft);
    let mut eligibility = Eligibility::new(&draft, &keeps, JobIx(counts.len() - 1));
    let in_turn = (0..quanta).map(|_| {
        let rule = eligibility.rule(JobIx(0), 1);
        eligibility.take(JobIx(0), 1);
        rule
    });
    in_turn.collect()
}

/// Returns the rule under which the last job may take a quantum from the first.
fn rule(scene: &Scene, counts: &[u64]) -> Option<VictimRule> {
    rules(scene, counts, 1)[0]
}

/// Bob has more than Ann, but not his second job, which is owed a process.
#[test]
fn a_first_process_is_taken_from_all_but_the_last_of_an_owed_job() {
    let richer = |anns| scene(&[9], &[(ANN, 1, anns), (BOB, 1, 4), (BOB, 1, 0)]);
    assert_eq!(rule(&richer(2), &[2, 4, 1]), FIRST);
    assert_eq!(rule(&richer(2), &[2, 5, 0]), None, "none is owed it");
    assert_eq!(rule(&richer(1), &[1, 4, 1]), None, "Ann's last is owed her");
    assert_eq!(rule(&richer(1), &[0, 4, 1]), FIRST);
}

/// Ann's first job is owed nothing, her second a process.
#[test]
fn the_last_process_of_a_user_stays_for_an_owed_job_of_the_same_user() {
    let has = |anns| scene(&[9], &[(ANN, 1, anns), (ANN, 1, 0), (BOB, 1, 0)]);
    assert_eq!(rule(&has(1), &[0, 1, 1]), None);
    assert_eq!(rule(&has(1), &[0, 0, 1]), FAIR_SHARE);
    assert_eq!(rules(&has(2), &[0, 1, 1], 2), [FAIR_SHARE, None]);
    let own = scene(&[9], &[(ANN, 1, 1), (ANN, 1, 0)]);
    assert_eq!(rule(&own, &[0, 1]), FAIR_SHARE, "her own job may take it");
}

/// Bob, whose process needs two of Ann's three, would be ahead of her then.
#[test]
fn at_rest_a_first_process_goes_first_only_where_all_have_room_for_one() {
    let jobs = [(ANN, 1, 2), (BOB, 2, 0)];
    assert_eq!(rule(&scene(&[2], &jobs), &[2, 1]), FIRST);
    assert_eq!(rule(&at_rest(&[2, 1], &jobs), &[2, 1]), FIRST);
    assert_eq!(rule(&at_rest(&[2], &jobs), &[2, 1]), None);
    // If not all have space, evenness reaches the last process, too.
    let uneven = [(ANN, 2, 1), (ANN, 1, 3), (BOB, 3, 0)];
    let draft = |scene: &Scene| {
        let draft = counted(&scene.snapshot, &[1, 1, 1]);
        let keeps = Keeps::new(&draft);
        let eligibility = Eligibility::new(&draft, &keeps, JobIx(2));
        let [would_go, second] = [0, 1].map(|ix| eligibility.would_go_but_is_owed(JobIx(ix), 2));
        assert!(!second, "it has three");
        (eligibility.rule(JobIx(0), 2), eligibility.is_blocked_by_owed(), would_go)
    };
    assert_eq!(draft(&at_rest(&[5], &uneven)), (ENVY, false, true));
    assert_eq!(draft(&at_rest(&[5, 3], &uneven)), (None, true, true));
    assert_eq!(draft(&scene(&[5, 3], &uneven)), (None, false, false));
}

/// Bob has a process of 4 and a target of two; of Ann's 7 two may go for it.
#[test]
fn a_plan_is_charged_as_a_whole() {
    let scene = scene(&[20], &[(ANN, 1, 7), (BOB, 4, 1)]);
    assert_eq!(rules(&scene, &[2, 2], 3), [FAIR_SHARE, FAIR_SHARE, None]);
    let draft = counted(&scene.snapshot, &[2, 2]);
    let keeps = Keeps::new(&draft);
    let mut eligibility = Eligibility::new(&draft, &keeps, JobIx(1));
    let order = Order::new(4).unwrap();
    for (missing, goes) in [(2, true), (3, false)] {
        eligibility.reset();
        let (_, plan) = plan_on(&draft, &mut eligibility, NodeIx(0), order, QShares(missing));
        assert_eq!(plan.is_some(), goes, "{missing}");
    }
}

/// Of Ann's 9 four may go for Bob's process of 4. The process of 3 has the least work, but would
/// need a process of 2 as well: so two processes of 2 go.
#[test]
fn of_processes_of_one_size_those_with_the_least_work_go() {
    let mut scene = scene(&[9, 4], &[(ANN, 3, 1), (ANN, 2, 3), (BOB, 4, 0)]);
    scene.hold(JobId(3), 1, 1);
    for (place, investment) in [300_000, 100_000, 200_000].into_iter().enumerate() {
        scene.edit(JobId(2)).shares[place].facts =
            ShareFacts { is_initialized: true, initialization: 0, investment };
    }
    let draft = counted(&scene.snapshot, &[0, 1, 2]);
    let plan = Reclaim::new(&draft).best_plan(&draft, JobIx(2), Donors::All).unwrap();
    let holdings: Vec<ShareIx> = plan.victims.iter().map(|victim| victim.holding).collect();
    assert_eq!(holdings, [1, 2].map(|share| ShareIx { job: JobIx(1), share }));
}

#[test]
fn what_a_better_off_side_has_above_its_count_goes() {
    let bobs = |held| scene(&[9], &[(ANN, 1, 2), (BOB, 1, held)]);
    assert_eq!(rule(&bobs(1), &[1, 2]), FAIR_SHARE);
    assert_eq!(rule(&bobs(1), &[2, 2]), None, "it is counted");
    assert_eq!(rule(&bobs(1), &[1, 1]), None, "Bob has what is counted for him");
    assert_eq!(rule(&bobs(2), &[1, 3]), None, "Ann is not better off");
    // Nor is she against Bob with all but a quantum of a further process.
    assert_eq!(rule(&scene(&[9], &[(ANN, 1, 4), (BOB, 3, 1)]), &[2, 2]), None);
}

/// Of an odd number, with two more that are promised, Ann's 3 are her fewest. So none of them goes.
#[test]
fn promises_do_not_make_up_the_fewest_processes_of_a_job() {
    let rule_with = |sizes: Option<LegalSizes>| {
        let mut scene = scene(&[9], &[(ANN, 1, 3), (BOB, 1, 0)]);
        scene.edit(JobId(1)).shape = sizes.map(|legal_sizes| {
            let elasticity = Some(Elasticity::Malleable);
            Arc::new(Shape { elasticity, legal_sizes, min_processes: 2, ..Shape::default() })
        });
        for share in &mut scene.edit(JobId(1)).shares {
            share.facts.is_initialized = true;
        }
        let mut draft = counted(&scene.snapshot, &[5, 2]);
        for _ in 0..2 {
            draft.promise(JobIx(0), NodeIx(0), draft.jobs[JobIx(0)].order);
        }
        let keeps = Keeps::new(&draft);
        Eligibility::new(&draft, &keeps, JobIx(1)).rule(JobIx(0), 1)
    };
    assert_eq!(rule_with(None), FIRST);
    assert_eq!(rule_with(Some(LegalSizes::Odd)), None);
}

/// Ann was promised a process before, and another in this cycle. A request of higher priority takes
/// both. Other requests count what she has left of the first.
#[test]
fn promises_that_a_higher_priority_takes_are_kept_no_longer() {
    let mut scene = Scene::new(&[2]);
    scene.job(ANN, LOW, 1, 9);
    scene.job(BOB, FAIR, 1, 9);
    let mut draft = counted(&scene.snapshot, &[2, 2]);
    let promise = |draft: &mut Draft<'_>| {
        draft.promise(JobIx(0), NodeIx(0), draft.jobs[JobIx(0)].order);
    };
    promise(&mut draft);
    let mut reclaim = Reclaim::new(&draft);
    promise(&mut draft);
    for kept in [1, 0].map(NShares) {
        assert!(take_promises(&mut draft, &mut reclaim, JobIx(1)));
        assert_eq!((reclaim.keeps.nshares[JobIx(0)], draft.has(JobIx(0))), (kept, kept));
    }
    assert!(!take_promises(&mut draft, &mut reclaim, JobIx(1)));
}

/// Bob's side is below its target by the process of his other job.
#[test]
fn at_rest_a_surplus_goes_to_a_side_below_its_count() {
    let jobs = [(ANN, 1, 2), (BOB, 1, 0), (BOB, 1, 1)];
    assert_eq!(rule(&at_rest(&[9], &jobs), &[1, 1, 1]), FAIR_SHARE);
    assert_eq!(rule(&scene(&[9], &jobs), &[1, 1, 1]), None, "the job is not below its own");
    assert_eq!(rule(&at_rest(&[9], &jobs), &[1, 0, 1]), None, "nor is the side");
}

/// Ann's 3 without a process are compared with Bob's and a process more. Weights count between
/// classes.
#[test]
fn at_rest_holdings_decide() {
    for (anns, bobs, rule_then) in [(3, 1, ENVY), (2, 1, None), (5, 3, ENVY), (5, 4, None)] {
        let scene = at_rest(&[20], &[(ANN, 1, anns), (BOB, 1, bobs)]);
        assert_eq!(rule(&scene, &[anns, bobs]), rule_then, "{anns} {bobs}");
    }
    let mut heavy = at_rest(&[20], &[(ANN, 1, 5), (BOB, 1, 1)]);
    heavy.edit(JobId(1)).class = HEAVY;
    assert_eq!(rules(&heavy, &[5, 1], 2), [ENVY, None], "4 / 2 against 2 / 1");
    heavy.settings().defragmentation = false;
    assert_eq!(rule(&heavy, &[5, 1]), None);
}

/// Lower priority loses at any holdings; higher priority and fixed jobs never do.
#[test]
fn priorities_come_before_all() {
    for (class, rule_then) in [(LOW, Some(VictimRule::Priority)), (FIXED, None)] {
        let mut scene = scene(&[9], &[(ANN, 1, 1), (BOB, 1, 7)]);
        scene.edit(JobId(1)).class = class;
        assert_eq!(rule(&scene, &[1, 7]), rule_then);
    }
    let mut scene = scene(&[9], &[(ANN, 1, 7), (BOB, 1, 0)]);
    scene.edit(JobId(2)).class = LOW;
    assert_eq!(rule(&scene, &[1, 1]), None);
}

#[test]
fn a_job_does_not_give_and_take_in_one_cycle() {
    let scene = scene(&[9], &[(ANN, 1, 6), (CID, 1, 1), (BOB, 1, 1)]);
    let draft = counted(&scene.snapshot, &[2, 2, 2]);
    let may_take = |note: fn(&mut Keeps)| {
        let mut keeps = Keeps::new(&draft);
        note(&mut keeps);
        Eligibility::new(&draft, &keeps, JobIx(2)).rule(JobIx(0), 1)
    };
    assert_eq!(may_take(|_| {}), FAIR_SHARE);
    assert_eq!(may_take(|keeps| keeps.note_giver(JobIx(2))), None);
    assert_eq!(may_take(|keeps| keeps.note_taker(JobIx(0))), None);
    assert_eq!(may_take(|keeps| keeps.note_taker(JobIx(2))), FAIR_SHARE);
    assert_eq!(may_take(|keeps| keeps.note_giver(JobIx(0))), FAIR_SHARE);
}

/// Bob has so much, and has waited for so many cycles of 10 s.
fn objection(scene: &mut Scene, waited: u64, loss: Millis) -> Option<Declined> {
    scene.edit(JobId(2)).behind_since = Some(scene.snapshot.cycle - waited);
    objection_to(&counted(&scene.snapshot, &[1, 9]), JobIx(1), loss)
}

#[test]
fn a_process_costs_no_more_than_its_waiting() {
    let too_dear = |loss, limit| Some(Declined::TooDear { loss, limit });
    for (bobs, limit) in [(1, 350_000), (7, 350_000), (8, 50_000)] {
        let mut moving = scene(&[20], &[(ANN, 1, 9), (BOB, 1, bobs)]);
        assert_eq!(objection(&mut moving, 5, limit), None, "{bobs}");
        assert_eq!(objection(&mut moving, 5, limit + 1), too_dear(limit + 1, limit), "{bobs}");
    }
    // In an idle cluster the limit is at least the loss limit of the class.
    let most = CapRules::LOSS_LIMIT;
    let mut resting = at_rest(&[20], &[(ANN, 1, 9), (BOB, 1, 8)]);
    assert_eq!(objection(&mut resting, 5, most), None);
    assert_eq!(objection(&mut resting, 5, most + 1), too_dear(most + 1, most));
    // Only a job that holds nothing and is owed a process has no limit.
    let mut starved = at_rest(&[20], &[(ANN, 1, 9), (BOB, 1, 0)]);
    assert_eq!(objection(&mut starved, 0, Millis::MAX), None);
    assert_ne!(objection_to(&counted(&starved.snapshot, &[9, 0]), JobIx(1), Millis::MAX), None);
    // With a configured stop.
    resting.snapshot.quiescence.quiet_cycles = 12;
    assert_eq!(objection(&mut resting, 5, 0), Some(Declined::Quiet { cycles: 12 }));
    resting.settings().quiet_stop = None;
    assert_eq!(objection(&mut resting, 5, 0), None);
}

/// Bob's next process is cheapest for a peer, and costs more than it may. The loss of a lower priority has
/// no limit.
#[test]
fn only_the_work_of_peers_has_a_limit() {
    for has_lower in [true, false] {
        let mut scene = scene(&[9, 1], &[(ANN, 1, 8), (BOB, 1, 1)]);
        let mut works = vec![(JobId(1), 1_000_000)];
        if has_lower {
            works.push((scene.running((CID, LOW), 1, 1, 1), 2_000_000));
        }
        for (job, investment) in works {
            for share in &mut scene.edit(job).shares {
                share.facts = ShareFacts { is_initialized: true, initialization: 0, investment };
            }
        }
        let mut draft = counted(&scene.snapshot, &[4, 5, 0]);
        let mut reclaim = Reclaim::new(&draft);
        assert_eq!(make_space_for(&mut draft, &mut reclaim, JobIx(1)), has_lower);
        let declined = draft.jobs[JobIx(1)].held_back;
        assert_eq!(matches!(declined, Some(Declined::TooDear { .. })), !has_lower);
        assert!(draft.preemptions.iter().all(|taken| taken.job == JobId(3)));
    }
}

#[test]
fn what_would_come_too_late_is_worth_nothing_in_motion() {
    let too_late = |scene: &Scene| {
        let mut draft = counted(&scene.snapshot, &[1, 9]);
        draft.jobs[JobIx(1)].demand.cap.bound = CapBound::Prediction;
        worth(&draft, JobIx(1)) == super::budget::Worth::Nothing(Declined::TooLate)
    };
    assert!(too_late(&scene(&[20], &[(ANN, 1, 9), (BOB, 1, 1)])));
    assert!(!too_late(&scene(&[20], &[(ANN, 1, 9), (BOB, 1, 0)])));
    assert!(!too_late(&at_rest(&[20], &[(ANN, 1, 9), (BOB, 1, 1)])));
}

/// Bob has a process of 1 on the first node.
fn busy(scene: &mut Scene, class: ClassIx) {
    scene.running((BOB, class), 1, 1, 0);
}

#[test]
fn an_arrangement_is_found_by_first_fit_or_not() {
    let is_possible = |orders: &[u64], jobs: &[u32], doctor: fn(&mut Scene)| {
        let jobs: Vec<_> = jobs.iter().map(|&order| (ANN, order, 0)).collect();
        let mut scene = scene(orders, &jobs);
        doctor(&mut scene);
        arrangement::is_possible(&Draft::new(&scene.snapshot), Precedence::Priority(10), TOP)
    };
    assert!(is_possible(&[6, 5], &[2, 4, 3], |_| {}));
    assert!(!is_possible(&[6, 5], &[4, 4, 4], |_| {}));
    assert!(!is_possible(&[6, 5], &[4, 3, 2, 2], |_| {}), "there is one, but not by first fit");
    // Lower priorities go, fixed jobs stay, and a list of nodes holds.
    assert!(is_possible(&[2], &[2], |scene| busy(scene, LOW)));
    assert!(!is_possible(&[2], &[2], |scene| busy(scene, FIXED)));
    let confine = |scene: &mut Scene| {
        for id in [1, 2] {
            scene.edit(JobId(id)).nodes = Some([NodeIx(0)].into());
        }
    };
    assert!(is_possible(&[1, 1], &[1, 1], |_| {}));
    assert!(!is_possible(&[1, 1], &[1, 1], confine));
    // A job without demand takes no space.
    assert!(is_possible(&[1], &[1, 1], |scene| scene.edit(JobId(2)).facts.remaining = 0));
    // A gang waits for its turn, and keeps what it has.
    assert!(is_possible(&[1], &[1, 1], make_gang));
    let running_gang = |scene: &mut Scene| {
        make_gang(scene);
        scene.hold(JobId(2), 1, 0);
    };
    assert!(!is_possible(&[1], &[1, 1], running_gang));
}

/// Makes the second job an exclusive gang.
fn make_gang(scene: &mut Scene) {
    let chunk = Chunk { count: 1, memory: Mebibytes(1 << 10), tags: Tags::default() };
    let shape = Shape { chunks: vec![chunk], is_exclusive: true, ..Shape::default() };
    scene.edit(JobId(2)).shape = Some(Arc::new(shape));
}

/// Returns the users that the first of four may take from in an idle cluster, by processes of 1.
fn may_take_from(draft: &Draft<'_>) -> Vec<usize> {
    let keeps = Keeps::new(draft);
    let eligibility = Eligibility::new(draft, &keeps, JobIx(0));
    (0..4).filter(|&victim| eligibility.rule(JobIx(victim), 1) == ENVY).collect()
}

fn four_users(held: [u64; 4]) -> Scene {
    let users = [ANN, BOB, CID, UserIx(3)];
    let jobs: Vec<_> = users.into_iter().zip(held).map(|(user, held)| (user, 1, held)).collect();
    at_rest(&[20], &jobs)
}

#[test]
fn a_side_takes_nothing_back_from_its_takers() {
    // Holdings, earlier preemptions (from, by) and quiet cycles: users that the first may take
    // from.
    type Case = ([u64; 4], &'static [(u64, u64)], u64, &'static [usize]);
    let cases: [Case; 9] = [
        ([1, 2, 3, 4], &[], 9, &[2, 3]), // only users who would have no less
        ([1, 2, 3, 4], &[(1, 4)], 9, &[2]), // not from a user who took from it
        ([1, 2, 3, 4], &[(4, 1)], 9, &[2, 3]), // but again from a user it took from
        ([1, 2, 3, 4], &[(1, 2), (2, 4)], 9, &[2]), // nor from a user who took from that user
        ([1, 2, 3, 4], &[(1, 2), (2, 3), (3, 4)], 9, &[]),
        ([1, 2, 3, 4], &[(1, 2), (2, 1)], 9, &[2, 3]), // also if they took in turn
        ([0, 2, 3, 4], &[(1, 4)], 9, &[1, 2, 3]),      // a job that holds nothing may at first
        ([0, 2, 3, 4], &[(1, 4)], 11, &[1, 2, 3]),
        ([0, 2, 3, 4], &[(1, 4)], 12, &[1, 2]), // and later may not
    ];
    for (held, takings, quiet, victims) in cases {
        let mut scene = four_users(held);
        scene.snapshot.quiescence.quiet_cycles = quiet;
        let taking = |&(from, by)| Taking { from: JobId(from), by: JobId(by) };
        scene.snapshot.quiescence.takings = takings.iter().map(taking).collect();
        let draft = Draft::new(&scene.snapshot);
        assert_eq!(may_take_from(&draft), victims, "{held:?} {takings:?} {quiet}");
    }
}

/// Preemptions of this cycle count as remembered preemptions do; moves do not.
#[test]
fn nothing_is_taken_back_in_the_same_cycle() {
    for (rule, victims) in [(VictimRule::Envy, &[2][..]), (VictimRule::Relocation, &[2, 3][..])] {
        let scene = four_users([2, 2, 4, 4]);
        let mut draft = Draft::new(&scene.snapshot);
        assert_eq!(may_take_from(&draft), [2, 3]);
        let (lost, taker) = (ShareIx { job: JobIx(0), share: 0 }, JobIx(3));
        draft.preempt(lost, rule, Some((taker, Alternatives::default())));
        assert_eq!(may_take_from(&draft), victims, "{rule:?}");
    }
}

/// Builds random pools, classes, orders, lists, investments and earlier preemptions. Most jobs are
/// of the same class. In a large scene there are more nodes, and few kinds of requests.
fn random_scene(random: &mut ChaCha8Rng, is_large: bool) -> Scene {
    let (most_nodes, most_jobs, most_order, other_users) =
        if is_large { (60, 60, 2, 20) } else { (12, 14, 4, 4) };
    let mut draw = |least: u64, most: u64| random.random_range(least..=most);
    let place = |number: u64| usize::try_from(number).unwrap();
    let orders: Vec<u64> = (0..draw(1, most_nodes)).map(|_| draw(1, 11)).collect();
    let mut scene = scene(&orders, &[]);
    let users = Arc::make_mut(&mut scene.snapshot.users);
    users.extend((0..other_users).map(|user| format!("u{user}").into()));
    let is_sub: Vec<bool> = orders.iter().map(|_| draw(0, 2) == 0).collect();
    for node in (0..orders.len()).filter(|ix| is_sub[*ix]) {
        scene.node(node).pool = SUB;
    }
    let mut space = orders.clone();
    let jobs = draw(1, most_jobs);
    for ix in 0..jobs {
        let others = [FAIR, HEAVY, INNER, LOW, FIXED];
        let class = if draw(0, 1) == 0 { FAIR } else { others[place(draw(0, 4))] };
        let order = draw(1, most_order);
        let user = UserIx(place(draw(0, other_users)));
        let job = scene.job(user, class, u32::try_from(order).unwrap(), draw(1, 12));
        for number in 0..draw(0, 6) {
            let on = place(draw(0, most_nodes - 1)) % orders.len();
            if space[on] < order || (class == INNER && !is_sub[on]) {
                continue;
            }
            space[on] -= order;
            scene.hold(job, 1, on);
            let investment = draw(0, 8) * 100_000;
            let share = scene.edit(job).shares.last_mut().unwrap();
            share.id.0 += number;
            share.facts = ShareFacts { is_initialized: true, initialization: 0, investment };
        }
        scene.edit(job).behind_since = Some(100 - 10 * (ix % 5));
        if draw(0, 9) == 0 {
            scene.edit(job).nodes = Some([NodeIx(0)].into());
        }
    }
    for _ in 0..draw(0, 2) {
        let taking = Taking { from: JobId(draw(1, jobs)), by: JobId(draw(1, jobs)) };
        if taking.from != taking.by {
            scene.snapshot.quiescence.takings.push(taking);
        }
    }
    let rest = draw(0, 1) * 9;
    (scene.snapshot.quiescence.quiet_cycles, scene.snapshot.quiescence.rest_cycles) = (rest, rest);
    scene.settings().defragmentation = 0 < draw(0, 3);
    scene
}

/// Returns the cheapest of the plans for all nodes, and its victims.
fn cheapest(draft: &Draft<'_>, keeps: &Keeps, job: JobIx) -> Option<(Cost, Vec<ShareIx>)> {
    let feasible = Feasible::new(draft, job);
    let plans = draft.snapshot.nodes_with_ix().filter_map(|(node, _)| {
        let order = feasible.order_on(node)?;
        let missing = draft.spaces.missing_for(node, order.qshares());
        // Space to come is closed to a job that lost a share.
        if missing == QShares(0) && keeps.has_given(job) {
            return None;
        }
        let mut fresh = Eligibility::new(draft, keeps, job);
        let (cost, plan) = plan_on(draft, &mut fresh, node, order, missing).1?;
        Some((cost, plan.victims.iter().map(|victim| victim.holding).collect()))
    });
    plans.min_by_key(|(cost, _)| *cost)
}

#[test]
fn the_queue_finds_the_cheapest_of_all_plans() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let (mut found, mut taken, mut failed) = (0, 0, 0);
    for case in 0..4_000 {
        let scene = random_scene(&mut random, 3_000 <= case);
        let mut draft = Draft::new(&scene.snapshot);
        target::set_targets(&mut draft);
        place::place_shares(&mut draft);
        let mut reclaim = Reclaim::new(&draft);
        for _ in 0..3 {
            for job in draft.jobs.places() {
                if due(&draft, job) == NShares(0) {
                    continue;
                }
                let has_failed = reclaim.has_failed(&draft, job);
                if let Some(node) = place_one(&mut draft, job, &DemandByOrder::default()) {
                    assert!(!has_failed, "{case}: {job:?}");
                    reclaim.note_used(&draft, node);
                    continue;
                }
                let expected = cheapest(&draft, &reclaim.keeps, job);
                if has_failed {
                    failed += 1;
                    let is_open = |(cost, _): &(Cost, Vec<ShareIx>)| {
                        objection_to(&draft, job, cost.loss).is_none()
                    };
                    assert!(!expected.as_ref().is_some_and(is_open), "{case}: {job:?}");
                }
                match reclaim.best_plan(&draft, job, Donors::All) {
                    Ok(plan) => {
                        found += 1;
                        let victims = plan.victims.iter().map(|victim| victim.holding).collect();
                        let expected = expected.map(|(cost, victims)| (cost.node, victims));
                        assert_eq!(Some((plan.node, victims)), expected, "{case}: {job:?}");
                    }
                    Err(None) => assert_eq!(expected, None, "{case}: {job:?}"),
                    Err(Some(_)) => {}
                }
                taken += usize::from(make_space_for(&mut draft, &mut reclaim, job));
            }
        }
    }
    assert!(1_000 < taken && taken < found, "{taken} of {found}");
    assert!(1_000 < failed, "{failed}");
}

/// Plans for another process of Bob, who has a process. Each node has a process of another job of
/// Ann's; the first job is above its target and loses `work`.
fn taken_for_bob(mut scene: Scene, work: Millis) -> Option<(NodeIx, bool)> {
    scene.hold(JobId(2), 4, 1);
    for share in &mut scene.edit(JobId(1)).shares {
        share.facts = ShareFacts { is_initialized: true, initialization: 0, investment: work };
    }
    let draft = counted(&scene.snapshot, &[1, 4, 3]);
    let plan = Reclaim::new(&draft).best_plan(&draft, JobIx(2), Donors::All).ok()?;
    Some((plan.node, objection_to(&draft, JobIx(2), plan.loss).is_some()))
}

/// A job above its target goes before a job within it; in an idle cluster only within the limit.
#[test]
fn at_rest_what_may_be_paid_goes_first() {
    let jobs = [(ANN, 1, 3), (ANN, 1, 0), (BOB, 1, 1)];
    let most = CapRules::LOSS_LIMIT;
    let resting = |work| taken_for_bob(at_rest(&[4, 4], &jobs), work);
    assert_eq!(resting(most), Some((NodeIx(0), false)));
    assert_eq!(resting(most + 1), Some((NodeIx(1), false)));
    assert_eq!(taken_for_bob(scene(&[4, 4], &jobs), most + 1), Some((NodeIx(0), true)));
}

/// Ann lost a share to another class and finds no plan. Bob has the same request before and after
/// hers, and takes from Dan each time.
#[test]
fn what_is_refused_to_a_job_that_gave_is_not_refused_to_its_like() {
    let mut scene = scene(&[11, 3], &[(ANN, 1, 0), (BOB, 1, 2), (CID, 1, 0), (UserIx(3), 1, 9)]);
    scene.hold(JobId(1), 3, 1);
    let cid = scene.edit(JobId(3));
    (cid.class, cid.nodes) = (HEAVY, Some([NodeIx(1)].into()));
    for id in [1, 2] {
        scene.edit(JobId(id)).behind_since = Some(0);
    }
    let mut draft = counted(&scene.snapshot, &[4, 4, 1, 4]);
    let mut reclaim = Reclaim::new(&draft);
    let mut finds = |job| make_space_for(&mut draft, &mut reclaim, JobIx(job));
    assert_eq!([2, 1, 0, 1].map(&mut finds), [true, true, false, true]);
}

/// Ann's first job took from her second before, and may not lose a process to it. It may lose one to
/// her third, which asks for the same afterwards. Bob's jobs found nothing before.
#[test]
fn what_is_refused_to_a_job_that_lost_is_not_refused_to_its_like() {
    let jobs = [(ANN, 1, 6), (ANN, 1, 1), (ANN, 1, 1), (BOB, 1, 0), (BOB, 1, 0)];
    let mut scene = scene(&[8, 8], &jobs);
    scene.hold(JobId(4), 7, 1);
    scene.hold(JobId(5), 1, 1);
    for id in [2, 3, 5] {
        scene.edit(JobId(id)).behind_since = Some(0);
    }
    scene.snapshot.quiescence.takings.push(Taking { from: JobId(2), by: JobId(1) });
    let mut draft = counted(&scene.snapshot, &[4, 2, 2, 7, 2]);
    let mut reclaim = Reclaim::new(&draft);
    let mut finds = |job| make_space_for(&mut draft, &mut reclaim, JobIx(job));
    assert_eq!([4, 1, 2].map(&mut finds), [false, false, true]);
}
