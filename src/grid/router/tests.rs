//! Traces of the router.

use super::*;
use crate::grid::predictor::{PREDICTORS, predictor};
use crate::grid::{ONE, PairStates, predict, settle};

/// A cluster of 100 resources, `free` of them free.
fn cluster(name: &str, free: u64) -> ClusterSight {
    ClusterSight {
        name: name.into(),
        is_local: false,
        priority: 0,
        power: 1,
        capacity: 100,
        free,
        running: 100 - free,
        waiting: 0,
        flood: 0,
        stress: 0,
        is_closed: false,
        predictor: predictor(PREDICTORS, "slow-start").unwrap(),
    }
}

fn target(cluster: usize) -> TargetSight {
    TargetSight { cluster, resources: 1, ..TargetSight::default() }
}

fn campaign(id: u64, left: u64, clusters: &[usize]) -> CampaignSight {
    CampaignSight {
        id,
        user: format!("user{id}").into(),
        weight: 1,
        is_test: false,
        left,
        targets: clusters.iter().map(|at| target(*at)).collect(),
    }
}

fn test_campaign(id: u64, clusters: &[usize]) -> CampaignSight {
    CampaignSight { is_test: true, ..campaign(id, 1000, clusters) }
}

fn sight(clusters: Vec<ClusterSight>, campaigns: Vec<CampaignSight>) -> GridSight {
    GridSight { clusters, campaigns, now_ms: 0 }
}

fn settings(policy: &str, interleaves: bool) -> RouteSettings<'static> {
    let policy = router_policy(ROUTER_POLICIES, policy).unwrap();
    RouteSettings { policy, interleaves, strictness: Strictness::Guarded }
}

fn routed(sight: &GridSight, policy: &str, interleaves: bool) -> Routing {
    let states = predict(sight, &PairStates::new(), Strictness::Guarded);
    route(sight, &states, settings(policy, interleaves))
}

/// Launches as `(campaign, clusters)`.
fn launches(routing: &Routing) -> Vec<(u64, Vec<usize>)> {
    routing.launches.iter().map(|it| (it.campaign, it.clusters.clone())).collect()
}

/// Grants as `(campaign, cluster, count)`.
fn grants(routing: &Routing) -> Vec<(u64, usize, u64)> {
    routing.grants.iter().map(|it| (it.campaign, it.cluster, it.count)).collect()
}

#[test]
fn fifo_serves_tests_then_the_first_campaign_that_needs_a_free_resource() {
    // Campaign 1 needs a full cluster only; campaign 2 came before campaign 3.
    let clusters = vec![cluster("a", 0), cluster("b", 10), cluster("c", 5)];
    let campaigns = vec![
        campaign(1, 100, &[0]),
        campaign(2, 12, &[1, 2]),
        campaign(3, 100, &[0, 1, 2]),
        test_campaign(4, &[1, 2]),
    ];
    let routing = routed(&sight(clusters, campaigns), "fifo", false);
    let expected = vec![(4, vec![1, 2]), (2, vec![1, 2]), (3, vec![2])];
    assert_eq!(launches(&routing), expected);
    let expected = [(2, 1, 9), (2, 2, 3), (3, 2, 1), (4, 1, 1), (4, 2, 1)];
    assert_eq!(grants(&routing), expected);
}

#[test]
fn two_pass_launches_all_tests_on_their_clusters_and_then_all_others() {
    let clusters = vec![cluster("a", 50), cluster("b", 50)];
    let campaigns = vec![
        campaign(1, 10, &[0]),
        test_campaign(2, &[0, 1]),
        campaign(3, 10, &[0, 1]),
        test_campaign(4, &[1]),
        campaign(5, 10, &[1]),
    ];
    let routing = routed(&sight(clusters, campaigns), "two-pass", true);
    // The ten tasks of campaign 3 fit on the first cluster, and its second finds none left.
    let expected = vec![(2, vec![0, 1]), (4, vec![1]), (1, vec![0]), (3, vec![0]), (5, vec![1])];
    assert_eq!(launches(&routing), expected);
}

#[test]
fn the_example_of_the_seed_comes_out_exactly() {
    // cluster1: affinities campaign1, campaign2; else campaign3.
    // cluster2: affinities campaign2; else campaign1, campaign3.
    // Each finds space, and has tasks left for its next cluster.
    let target = |at| TargetSight { max: Some(20), ..target(at) };
    let liked = |at| TargetSight { has_affinity: true, ..target(at) };
    let of = |id, targets| CampaignSight { targets, ..campaign(id, 1000, &[]) };
    let campaigns = vec![
        of(1, vec![liked(0), target(1)]),
        of(2, vec![liked(0), liked(1)]),
        of(3, vec![target(0), target(1)]),
    ];
    let sight = sight(vec![cluster("cluster1", 100), cluster("cluster2", 100)], campaigns);
    let routing = routed(&sight, "affinity", true);
    let expected = vec![(1, vec![0]), (2, vec![0, 1]), (1, vec![1]), (3, vec![0, 1])];
    assert_eq!(launches(&routing), expected);
}

#[test]
fn without_interleaving_a_resource_is_the_first_campaigns_until_it_is_satisfied() {
    let campaigns = vec![campaign(1, 70, &[0]), campaign(2, 70, &[0]), campaign(3, 70, &[0])];
    let sight = sight(vec![cluster("a", 100)], campaigns);
    let alone = routed(&sight, "fifo", false);
    assert_eq!(grants(&alone), [(1, 0, 70), (2, 0, 30)]);
    let in_turn = grants(&routed(&sight, "fifo", true));
    assert_eq!(in_turn.iter().map(|it| it.2).sum::<u64>(), 100);
    assert!(in_turn.iter().all(|it| (32..=35).contains(&it.2)), "{in_turn:?}");
}

#[test]
fn fair_levels_the_shares_of_users_for_their_weights() {
    let campaigns = vec![
        CampaignSight { user: "ann".into(), ..campaign(1, 1000, &[0, 1]) },
        CampaignSight { user: "ann".into(), ..campaign(2, 1000, &[0, 1]) },
        CampaignSight { user: "bob".into(), weight: 3, ..campaign(3, 1000, &[0, 1]) },
    ];
    let shared = sight(vec![cluster("a", 80), cluster("b", 80)], campaigns.clone());
    let of = |routing: &Routing, id| {
        let of = routing.grants.iter().filter(|grant| grant.campaign == id);
        of.map(|grant| grant.count).sum::<u64>()
    };
    let routing = routed(&shared, "fair", true);
    assert!((38..=42).contains(&of(&routing, 1)), "{routing:?}");
    assert_eq!((of(&routing, 2), of(&routing, 1) + of(&routing, 3)), (0, 160));

    // Bob holds 60 already, and both weigh the same: Ann catches up first.
    let mut campaigns = campaigns;
    campaigns[2].weight = 1;
    campaigns[2].targets[0].running = 60;
    let behind = sight(vec![cluster("a", 20), cluster("b", 60)], campaigns);
    let routing = routed(&behind, "fair", true);
    assert!((68..=72).contains(&of(&routing, 1)), "{routing:?}");
}

#[test]
fn users_get_their_home_and_foreign_users_the_room_that_is_left() {
    let at_home = |at, home| TargetSight { is_home: at == home, ..target(at) };
    let of = |id, left, home| CampaignSight {
        targets: vec![at_home(0, home), at_home(1, home)],
        ..campaign(id, left, &[])
    };
    let clusters = || vec![cluster("lyon", 100), cluster("grenoble", 100)];
    let both = sight(clusters(), vec![of(1, 500, 1), of(2, 500, 0)]);
    assert_eq!(grants(&routed(&both, "home", true)), [(1, 1, 100), (2, 0, 100)]);
    let one = sight(clusters(), vec![of(1, 500, 1), of(2, 30, 0)]);
    assert_eq!(grants(&routed(&one, "home", true)), [(1, 0, 70), (1, 1, 100), (2, 0, 30)]);
}

#[test]
fn throughput_follows_measured_rates_and_transfer_times() {
    let with = |mean_ms, transfer_ms, throughput| {
        let at = move |cluster| TargetSight { transfer_ms, throughput, ..target(cluster) };
        move |cluster| TargetSight { mean_ms: Some(mean_ms), ..at(cluster) }
    };
    let first = |a: TargetSight, b: TargetSight| {
        let campaigns = vec![CampaignSight { targets: vec![a, b], ..campaign(1, 10, &[]) }];
        let sight = sight(vec![cluster("a", 50), cluster("b", 50)], campaigns);
        routed(&sight, "throughput", false).launches[0].clusters[0]
    };
    let (fast, slow) = (with(5000, 0, None), with(9000, 0, None));
    assert_eq!((first(fast(0), slow(1)), first(slow(0), fast(1))), (0, 1));
    // 6 s of transfer make the fast cluster the later cluster.
    let far = with(5000, 6000, None);
    assert_eq!(first(far(0), slow(1)), 1);
    // Ten tasks wait there, and a task ends each second.
    let queued = TargetSight { waiting: 10, ..with(5000, 0, Some(ONE))(0) };
    assert_eq!(first(queued, slow(1)), 1);
}

#[test]
fn clusters_are_visited_by_priority_then_power_and_barred_ones_are_skipped() {
    let mut clusters: Vec<ClusterSight> =
        ["a", "b", "c", "d", "e"].map(|name| cluster(name, 10)).into();
    clusters[1].priority = 5;
    clusters[2].power = 9;
    clusters[3].priority = 5;
    clusters[3].power = 2;
    let mut campaigns = vec![campaign(1, 1000, &[0, 1, 2, 3, 4])];
    let order = |clusters: &[ClusterSight], campaigns: &[CampaignSight]| {
        let routing = routed(&sight(clusters.to_vec(), campaigns.to_vec()), "fifo", false);
        routing.launches.first().map(|launch| launch.clusters.clone()).unwrap_or_default()
    };
    assert_eq!(order(&clusters, &campaigns), [3, 1, 2, 0, 4]);
    campaigns[0].targets[3].is_barred = true;
    // CG-36: the input is not there yet.
    campaigns[0].targets[2].is_preparing = true;
    assert_eq!(order(&clusters, &campaigns), [1, 0, 4]);
    // CG-62: stress stops the sending.
    clusters[1].stress = 799;
    clusters[0].stress = STRESS_LIMIT;
    assert_eq!(order(&clusters, &campaigns), [1, 4]);
    clusters[4].is_closed = true;
    assert_eq!(order(&clusters, &campaigns), [1]);
}

#[test]
fn no_room_is_handed_out_twice_within_a_pass() {
    for policy in ROUTER_POLICIES.iter().map(|policy| policy.name()) {
        for interleaves in [false, true] {
            let campaigns: Vec<CampaignSight> = (1..=9)
                .map(|id| CampaignSight {
                    targets: vec![
                        TargetSight { resources: id, ..target(0) },
                        TargetSight { resources: 1, ..target(1) },
                    ],
                    ..campaign(id, 11, &[])
                })
                .collect();
            let mut clusters = vec![cluster("a", 37), cluster("b", 20)];
            clusters[1].flood = 100_000;
            clusters[1].waiting = 4;
            let sight = sight(clusters, campaigns);
            let routing = routed(&sight, policy, interleaves);
            let on = |at| routing.grants.iter().filter(move |grant| grant.cluster == at);
            let used: u64 = on(0).map(|grant| grant.count * grant.campaign).sum();
            assert!(used <= 37, "{policy}: {routing:?}");
            // 20 start, and up to 10 wait, of which 4 are there.
            let sent: u64 = on(1).map(|grant| grant.count).sum();
            assert!((20..=26).contains(&sent), "{policy}: {routing:?}");
            for id in 1..=9 {
                let of = routing.grants.iter().filter(|grant| grant.campaign == id);
                assert!(of.map(|grant| grant.count).sum::<u64>() <= 11, "{policy}: {routing:?}");
            }
        }
    }
}

#[test]
fn a_test_campaign_goes_first_on_each_cluster_with_one_task() {
    let mut clusters = vec![cluster("a", 0), cluster("b", 0), cluster("c", 1)];
    clusters[0].waiting = 900;
    let queued = campaign(1, 100_000, &[0, 1, 2]);
    let mut tests = test_campaign(2, &[0, 1, 2]);
    let routing =
        routed(&sight(clusters.clone(), vec![queued.clone(), tests.clone()]), "fair", true);
    assert_eq!(grants(&routing), [(2, 0, 1), (2, 1, 1), (2, 2, 1)]);
    tests.targets.iter_mut().for_each(|target| target.has_tested = true);
    let routing = routed(&sight(clusters, vec![queued, tests]), "fair", true);
    assert_eq!(grants(&routing), [(1, 2, 1)]);
}

#[test]
fn the_local_cluster_keeps_the_tasks_that_it_can_run_now() {
    let local = ClusterSight {
        is_local: true,
        predictor: predictor(PREDICTORS, "none").unwrap(),
        priority: 1,
        ..cluster("local", 6)
    };
    let sight = sight(vec![local, cluster("b", 50)], vec![campaign(1, 20, &[0, 1])]);
    assert_eq!(grants(&routed(&sight, "fair", true)), [(1, 0, 6), (1, 1, 14)]);
}

#[test]
fn each_running_campaign_has_a_state_on_each_of_its_clusters() {
    let campaigns = vec![campaign(1, 30, &[0, 1]), campaign(2, 30, &[0])];
    let sight = sight(vec![cluster("a", 40), cluster("b", 10)], campaigns);
    let states = predict(&sight, &PairStates::new(), Strictness::Guarded);
    let routing = route(&sight, &states, settings("fifo", false));
    let kept = settle(&sight, states, &routing);
    let sent: Vec<(u64, &str, u64, u64)> = kept
        .iter()
        .map(|((campaign, cluster), state)| (*campaign, cluster.as_str(), state.free, state.sent))
        .collect();
    assert_eq!(sent, [(1, "a", 40, 30), (1, "b", 10, 0), (2, "a", 40, 10)]);
}

/// The youngest campaign first: no policy of ours.
#[derive(Debug)]
struct Youngest;

impl RouterPolicy for Youngest {
    fn name(&self) -> &'static str {
        "youngest"
    }

    fn position(&self, pair: &PairView<'_>) -> Position {
        [u64::MAX - pair.campaign.id, pair.place, 0, 0]
    }
}

#[test]
fn a_policy_is_added_in_one_line() {
    let known = [ROUTER_POLICIES, &[&Youngest]].concat();
    let policy = router_policy(&known, "youngest").unwrap();
    let sight = sight(vec![cluster("a", 5)], vec![campaign(1, 9, &[0]), campaign(2, 9, &[0])]);
    let states = predict(&sight, &PairStates::new(), Strictness::Guarded);
    let routing = route(&sight, &states, RouteSettings { policy, ..settings("fair", true) });
    assert_eq!(grants(&routing), [(2, 0, 5)]);
}

#[test]
fn every_policy_is_chosen_by_its_name() {
    let names: Vec<&str> = ROUTER_POLICIES.iter().map(|policy| policy.name()).collect();
    assert_eq!(names, ["fair", "fifo", "two-pass", "affinity", "home", "throughput"]);
    assert!(router_policy(ROUTER_POLICIES, DEFAULT_POLICY).is_some());
    assert!(router_policy(ROUTER_POLICIES, "lottery").is_none());
}
