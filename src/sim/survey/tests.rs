//! Checks of drawn clusters against their description, and of the figures on tables made by hand.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::cluster::{CYCLES, scenario};
use super::ending::FinalState;
use super::*;
use crate::engine::WaitReason;
use crate::model::NShares;
use crate::sim::recorded::scenario::{
    ClassInput, CycleInput, EventInput, JobInput, NodesInput, PlayOptions, PoolInput,
    ScenarioConfig,
};
use crate::sim::recorded::{PlayedCycle, PlayedFinding, PlayedJob, PreemptedShare, play_file};

/// A pool `all`, and nested in it `sub` and `deep`.
const POOLS: &str =
    r#"[{"name": "all"}, {"name": "sub", "parent": "all"}, {"name": "deep", "parent": "sub"}]"#;

/// The end of a play, made by hand.
///
/// - `classes`: name:weight, @pool if it is not `all`
/// - `nodes`: name=order, @pool likewise
/// - `jobs`: separated by commas, each "class user order cap" and the machines of its shares, those
///   that are leaving with an exclamation mark; numbered from 1
fn table(classes: &str, nodes: &str, jobs: &str) -> (Scenario, PlayedDocument) {
    let mut pools: Vec<PoolInput> = serde_json::from_str(POOLS).unwrap();
    let classes = classes.split_whitespace().map(|text| {
        let (name, pool) = text.split_once('@').unwrap_or((text, "all"));
        let (name, weight) = name.split_once(':').unwrap();
        let text = format!(
            r#"{{"name": "{name}", "policy": "FAIR_SHARE", "weight": {weight}, "nodepool": "{pool}"}}"#
        );
        serde_json::from_str::<ClassInput>(&text).unwrap()
    });
    let classes = classes.collect();
    let mut list = Vec::new();
    for text in nodes.split_whitespace() {
        let (name, pool) = text.split_once('@').unwrap_or((text, "all"));
        let (name, order) = name.split_once('=').unwrap();
        pools.iter_mut().find(|other| other.name == pool).unwrap().nodes.push(name.to_owned());
        list.push((name.to_owned(), order.parse().unwrap()));
    }
    let mut events = vec![EventInput::Nodes(NodesInput { list, ..NodesInput::default() })];
    let mut lines = Vec::new();
    for (id, text) in (1..).zip(jobs.split(", ")) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [class, user, order, cap, places @ ..] = &words[..] else { panic!("{text}") };
        let text =
            format!(r#"{{"id": {id}, "user": "{user}", "class": "{class}", "memGB": {order}}}"#);
        events.push(EventInput::Job(serde_json::from_str(&text).unwrap()));
        lines.push(line(id, order, cap, places));
    }
    let scenario = Scenario {
        name: "by hand".to_owned(),
        config: ScenarioConfig { nodepools: pools, classes, ..ScenarioConfig::default() },
        options: PlayOptions::default(),
        cycles: vec![CycleInput { events, ..CycleInput::default() }],
    };
    let cycles = vec![PlayedCycle { jobs: lines, ..PlayedCycle::default() }];
    (scenario, PlayedDocument { name: "by hand".to_owned(), cycles })
}

fn line(id: u64, order: &str, cap: &str, places: &[&str]) -> PlayedJob {
    let mut line = PlayedJob {
        id,
        order: Some(order.parse().unwrap()),
        cap: cap.parse().unwrap(),
        occupying: count(places.len()),
        ..PlayedJob::default()
    };
    for place in places {
        *line.nodes.entry(place.trim_end_matches('!').to_owned()).or_default() += 1;
        if let Some(node) = place.strip_suffix('!') {
            line.shrunken.push(node.to_owned());
        }
    }
    line.pending_removes = count(line.shrunken.len());
    line.held = line.occupying - line.pending_removes;
    line
}

/// Every envy in a table, as "level job>side taken".
#[track_caller]
fn check_envy(classes: &str, nodes: &str, jobs: &str, expected: &str) {
    let (scenario, played) = table(classes, nodes, jobs);
    let envies = envy::envies(&FinalState::new(&scenario, &played));
    let shown = envies.iter().map(|envy| {
        let Envy { level, job, taken, sides, .. } = envy;
        format!("{level} {job}>{} {taken}", sides[1].name)
    });
    assert_eq!(shown.collect::<Vec<_>>().join(", "), expected, "{nodes} | {jobs}");
}

#[test]
fn no_job_envies_if_the_other_would_have_less() {
    let check = |nodes, jobs, expected| check_envy("a:100", nodes, jobs, expected);
    check("m=8", "a u 1 9 m m m m, a v 1 9 m m m m", "");
    check("m=8", "a u 1 9 m m m m m, a v 1 9 m m m", "user 2>u in a 1");
    check("m=7", "a u 1 9 m m m m, a v 1 9 m m m", "");
    check("m=8", "a u 8 9 m, a v 1 9", "");
    check("m=8 n=8", "a u 8 9 m n, a v 1 9", "user 2>u in a 8");
    // Eight processes leave for a process of eight, and the remaining process is as much for its
    // weight.
    let weighed = |classes, expected| {
        check_envy(classes, "m=9 n=8", "a u 1 9 m m m m m m m m m, b v 8 9 n", expected);
    };
    weighed("a:1 b:16", "class 2>a 8");
    weighed("a:1 b:15", "");
}

#[test]
fn a_satisfied_or_unplaceable_job_envies_no_side() {
    let check = |nodes, jobs, expected| check_envy("a:100 b:100@sub", nodes, jobs, expected);
    check("m=7", "a u 1 9 m m m m m m, a v 1 1 m", "");
    check("m=6", "a u 1 9 m m m m m m, a v 1 0", "");
    check("m=6", "a u 1 9 m m m m m m, a v 9 9", "");
    check("m=7", "a u 1 9 m m m m m m, a v 1 2 m", "user 2>u in a 1");
    // The machine has space without any preemption.
    check("m=7", "a u 1 9 m m m m m m, a v 1 2", "");
    // The class may not use the other job's machine, or its process is too large for that machine.
    check("m=6 n=2@sub", "a u 1 9 m m m m m m, b v 1 3 n n", "");
    check("m=4 n=2@sub", "a u 1 9 n n m m m m, b v 1 9", "class 2>a 1");
    check("m=3 n=2", "a u 1 9 n n, a v 3 9, a w 3 1 m", "");
}

#[test]
fn while_something_leaves_it_is_too_early_to_say() {
    let check = |nodes, jobs, expected| check_envy("a:100", nodes, jobs, expected);
    check("m=8", "a u 1 9 m m m m! m! m!, a v 1 9 m m", "");
    check("m=9 n=1", "a u 1 9 m m m m m m m n!, a v 1 9 m m", "");
    check("m=8", "a u 1 9 m m m m m m, a v 1 9 m m", "user 2>u in a 1");
}

#[test]
fn siblings_are_compared_where_their_ways_part() {
    // Classes by weight, for all users alike.
    let classes = |nodes, jobs, expected| check_envy("a:100 b:300", nodes, jobs, expected);
    classes("m=18", "a u 2 9 m m, b u 2 9 m m m m m m m", "");
    classes("m=24", "a u 2 9 m m m m m, b u 2 9 m m m m m m m", "class 2>a 2");
    // A user's jobs among themselves; and together, where another user looks at them.
    let users = |nodes, jobs, expected| check_envy("a:100", nodes, jobs, expected);
    users("m=10", "a u 1 9 m m m m, a u 1 9 m, a v 1 5 m m m m m", "job 2>job 1 1");
    users("m=9", "a u 1 9 m m m m, a u 1 9 m m m, a v 1 9 m m", "user 3>u in a 1");
    // A user counts separately in each class.
    check_envy("a:100 b:200", "m=8", "a u 1 9 m m m, b u 1 9 m m m, b v 1 9 m m", "");
    // Each side is reported once, at the first machine.
    users("m=4 n=4", "a u 1 8 m m m m n n n n, a w 1 9", "user 2>u in a 1");
}

#[test]
fn one_side_gives_all_that_is_missing() {
    let users = |nodes, jobs, expected| check_envy("a:100", nodes, jobs, expected);
    users("m=8", "a u 1 9 m m m m m m m m, a v 4 9", "user 2>u in a 4");
    users("m=7", "a u 1 9 m m m m m m m, a v 4 9", "");
    // Free space already reduces the number of processes to take.
    users("m=8", "a u 1 9 m m m m m m m, a v 4 9", "user 2>u in a 3");
    // Two could together.
    users("m=4 n=9 o=9", "a u 1 9 m m n n n n n, a w 1 9 m m o o o o o, a v 3 9", "");
    // Of several sizes, the processes that leave the least over.
    users("m=9", "a u 5 9 m, a u 2 9 m m, a v 4 1", "user 3>u in a 4");
}

#[test]
fn pools_are_open_to_the_classes_of_those_around_them() {
    let check = |nodes, jobs, expected| {
        check_envy("a:100 s:100@sub d:100@deep", nodes, jobs, expected);
    };
    check("m=4", "a u 1 9 m m m m, s v 1 9, d w 1 9", "");
    check("n=4@sub", "a u 1 9 n n n n, s v 1 9, d w 1 9", "class 2>a 1");
    check("o=4@deep", "a u 1 9 o o o o, s v 1 9, d w 1 9", "class 2>a 1, class 3>a 1");
}

/// Users and jobs that are owed a process and have nothing. Behind the bar: true if all owed
/// parties could have a process, then true if all jobs could.
#[track_caller]
fn check_owed(classes: &str, nodes: &str, jobs: &str, expected: &str) {
    let (scenario, played) = table(classes, nodes, jobs);
    let Starving { users, jobs: owed, could_all_owed, could_all } =
        owed::starving(&FinalState::new(&scenario, &played));
    let owed: Vec<String> = owed.iter().map(u64::to_string).collect();
    let shown = format!("{} {} | {could_all_owed} {could_all}", users.join("+"), owed.join("+"));
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert_eq!(words.join(" "), expected, "{nodes} | {jobs}");
}

#[test]
fn a_process_is_owed_to_those_whose_part_covers_one() {
    let check = |jobs, expected| check_owed("a:100 b:10", "m=24", jobs, expected);
    // The light class has 24 / 11, and each of its users half of that.
    check("a u 1 99 m, b v 4 99, b w 1 99", "w in b 3 | true true");
    check("a u 1 99 m, b v 4 99, b w 1 99 m", "| true true");
    check("a u 1 99 m, b v 2 99, b w 1 0", "v in b 2 | true true");
    check("a u 1 99 m, b v 3 99", "| true true");
    // The light class gets the part that the heavy class does not want.
    check("a u 1 9 m, b v 4 99, b w 1 99 m", "v in b 2 | true true");
    // Each of the three jobs is owed nothing, but their user is owed a process.
    check("a u 1 99 m, b v 1 99, b v 1 99, b v 1 99", "v in b | true true");
    check("a u 1 99 m, b v 1 99 m, b v 1 99, b v 1 99", "| true true");
    // The part is exactly a process.
    check_owed("a:1", "m=3", "a u 1 9 m m m, a v 1 9, a w 1 9", "v in a+w in a 2+3 | true true");
}

#[test]
fn whether_all_could_have_one_is_found_by_trying() {
    let check = |nodes, jobs, expected| check_owed("a:1", nodes, jobs, expected);
    check("m=3 n=3", "a u 2 9 m, a v 2 9 n, a w 2 9", "w in a 3 | false false");
    check("m=4 n=2", "a u 2 9 m m, a v 2 9 n, a w 2 9", "w in a 3 | true true");
    // A job that is owed nothing may be too many.
    check("m=4 n=2", "a u 2 9 m m, a v 2 9 n, a w 2 9, a x 2 9", "| true false");
    // A process that is too large for every machine counts as no demand.
    check("m=4", "a u 2 9 m m, a v 2 9, a w 5 9", "v in a 2 | true true");
}

/// Qshares that are idle and usable in a table of a single class.
#[track_caller]
fn check_idle(class: &str, nodes: &str, jobs: &str, expected: u64) {
    let (scenario, played) = table(class, nodes, jobs);
    let idle = idle::usable_qshares(&FinalState::new(&scenario, &played));
    assert_eq!(idle, expected, "{nodes} | {jobs}");
}

#[test]
fn what_could_be_filled_at_once_is_idle() {
    check_idle("a:1", "m=5", "a u 2 9 m", 2);
    check_idle("a:1", "m=5", "a u 2 2 m, a u 3 9", 3);
    check_idle("a:1", "m=5", "a u 2 1 m", 0);
    check_idle("a:1", "m=5", "a u 2 9 m m, a u 3 9", 0);
    // The small machine first, and on each the largest that fits.
    check_idle("a:1", "m=4 n=3", "a u 3 2, a u 1 1", 7);
    check_idle("a:1", "m=4 n=3", "a u 3 1, a u 1 2", 5);
    check_idle("a:1@sub", "m=4 n=2@sub o=1@deep", "a u 1 9", 3);
    // Free space beside a leaving share may wait for it.
    check_idle("a:1", "m=5 n=2", "a u 2 9 m!", 2);
}

#[test]
fn a_case_says_what_is_not_as_it_should_be() {
    let (scenario, mut played) = table("a:100 b:50", "m=3 n=1 o=2", "a u 1 9, b v 1 9 m m n");
    played.cycles[0].net_strikes = 3;
    played.cycles[0].audit = vec![PlayedFinding { rule: "R", detail: "d".to_owned() }; 9];
    played.cycles[0].jobs[0].given = 1;
    let mut survey = Survey::default();
    survey.enter(7, &scenario, &played);
    let one = Tally { clusters: 1, all: 1 };
    let expected = Survey {
        clusters: 1,
        jobs: 2,
        owed_users: one,
        owed_jobs: one,
        owed_users_all_fit: one,
        owed_jobs_all_fit: one,
        counted_jobs: one,
        zero_share_jobs: 1,
        zero_share_all: 1,
        envy_cases: ByLevel { class: 1, user: 0, job: 0 },
        envies: ByLevel { class: 1, user: 0, job: 0 },
        idle_usable_qshares: 3,
        net_strikes: 3,
        audit_findings: 9,
        cases: survey.cases.clone(),
        ..Survey::default()
    };
    assert_eq!(survey, expected);
    let [case] = &survey.cases[..] else { panic!("{:?}", survey.cases) };
    assert_eq!(case.cluster, 7);
    let expected = [
        "audit, cycle 0: R: d",
        "audit, cycle 0: R: d",
        "audit, cycle 0: R: d",
        "audit, cycle 0: R: d",
        "idle though a job could use it: 3 qshares",
        "owed a process and with nothing: u in a",
        "owed a process and with nothing: job 1",
        "with nothing, though space could be made: job 1",
        "class envy, 1 in all: job 1 could be on n in place of 1 qshares: a holds 0 qshares at weight 100, \
         b holds 3 qshares at weight 50",
    ];
    assert_eq!(case.what, expected);

    let (scenario, played) = table("a:100", "m=2", "a u 1 9 m, a v 1 9 m");
    let mut survey = Survey::default();
    survey.enter(0, &scenario, &played);
    assert_eq!(survey.cases, []);
}

/// Jobs, each "held lost reason".
type Lines<'a> = &'a [(u64, usize, &'a str)];

/// Builds the history of a play whose last event was in cycle 2; each entry has the number of a
/// cycle and its jobs.
fn history(cycles: &[(u64, Lines<'_>)]) -> PlayHistory {
    let (mut scenario, _) = table("a:1", "m=1", "a u 1 1 m");
    let events = std::mem::take(&mut scenario.cycles[0].events);
    let last = CycleInput { events, ..CycleInput::default() };
    scenario.cycles = vec![CycleInput::default(), CycleInput::default(), last];
    scenario.cycles.resize_with(60, CycleInput::default);
    let mut played = vec![PlayedCycle::default(); 60];
    for (cycle, at) in (0..).zip(&mut played) {
        at.cycle = cycle;
    }
    for (cycle, jobs) in cycles {
        let lines = (1..).zip(*jobs).map(|(id, &(held, lost, reason))| PlayedJob {
            id,
            held,
            shrunken: vec!["m".to_owned(); lost],
            reason: Some(reason.to_owned()),
            ..PlayedJob::default()
        });
        played[usize::try_from(*cycle).unwrap()].jobs = lines.collect();
    }
    PlayHistory::new(&scenario, &PlayedDocument { name: String::new(), cycles: played })
}

/// The reason of a job for which 2 processes are promised, as the engine says it: a history is read
/// from the sentence, as outside readers of played scenarios do.
static PROMISED: LazyLock<String> =
    LazyLock::new(|| WaitReason::WaitingForExits { promised: NShares(2) }.to_string());

#[test]
fn what_is_promised_as_it_is_taken_is_passed_through() {
    let jobs: Lines<'_> = &[(1, 3, &PROMISED), (1, 1, &PROMISED), (1, 5, "too late")];
    let history = history(&[(9, jobs)]);
    assert_eq!((history.preempted, history.passed, history.moved), (9, 3, 0));
    assert_eq!((history.late, history.late_paid), (0, 0));
}

#[test]
fn what_was_moved_is_not_to_end_with_less() {
    let play = |at: u64, held: u64, lost: usize, reason| {
        let cycles: [(u64, Lines<'_>); 3] = [
            (at - 1, &[(3, 0, "")]),
            (at, &[(1, 2, &PROMISED)]),
            (at + 1, &[(held, lost, reason)]),
        ];
        history(&cycles).moved_and_less
    };
    assert_eq!(play(9, 1, 0, "too late: one more"), [(9, 1)]);
    assert_eq!(play(9, 2, 0, ""), [(9, 1)]);
    assert_eq!(play(9, 3, 0, ""), [], "it has them");
    assert_eq!(play(9, 1, 0, &PROMISED), [], "it waits for them");
    assert_eq!(play(9, 1, 2, ""), [], "it had them, and lost others");
    assert_eq!(play(4, 1, 0, ""), [], "the cluster moves");
}

#[test]
fn what_goes_after_twenty_quiet_cycles_is_late() {
    let lost: Lines<'_> = &[(1, 2, "")];
    assert_eq!(history(&[(22, lost)]).late, 0);
    assert_eq!(history(&[(23, lost), (40, lost)]).late, 4);
}

#[test]
fn what_waiting_paid_for_is_told_apart() {
    let paid = |loss, had| {
        let (scenario, _) = table("a:1", "m=1", "a u 1 1 m");
        let mut cycles = vec![PlayedCycle::default(); 40];
        for (cycle, at) in (0..).zip(&mut cycles) {
            at.cycle = cycle;
        }
        let taken =
            PreemptedShare { node: "m".to_owned(), rule: "envy", beneficiary: Some(2), loss };
        let shrunken = vec!["m".to_owned(); 2];
        cycles[29].jobs = vec![PlayedJob { id: 2, held: had, ..PlayedJob::default() }];
        let preempted = vec![taken; 2];
        cycles[30].jobs = vec![PlayedJob { id: 1, shrunken, preempted, ..PlayedJob::default() }];
        let history = PlayHistory::new(&scenario, &PlayedDocument { name: String::new(), cycles });
        (history.late, history.late_paid)
    };
    assert_eq!(paid(1_000_000, 1), (2, 0));
    assert_eq!(paid(1_000_001, 1), (0, 2));
    assert_eq!(paid(1_000_001, 0), (2, 0), "its first is free");
}

#[test]
fn in_the_end_clusters_are_just_quiet_and_full() {
    let survey = run(12, 1, None).unwrap();
    let figures = [
        survey.owed_users.all,
        survey.counted_jobs.all,
        survey.zero_share_jobs,
        survey.moved_and_less.all,
        survey.quiet_evictions,
        survey.idle_usable_qshares,
        survey.audit_findings,
    ];
    assert_eq!(figures, [0; 7], "{:?}", survey.cases);
}

/// Nodes with their orders, and jobs with the cycles of their arrival.
type Contents = (Vec<(String, u64)>, Vec<(u64, JobInput)>);

/// Counts the contents of a drawn cluster.
fn contents(scenario: &Scenario) -> Contents {
    let (mut nodes, mut jobs) = (Vec::new(), Vec::new());
    for (cycle, input) in (0..).zip(&scenario.cycles) {
        for event in &input.events {
            if let EventInput::Nodes(nodes_input) = event {
                nodes.extend(nodes_input.list.iter().cloned());
            } else if let EventInput::Job(job) = event {
                jobs.push((cycle, JobInput::clone(job)));
            } else {
                panic!("{event:?}");
            }
        }
    }
    (nodes, jobs)
}

#[test]
fn clusters_are_drawn_as_promised() {
    for (seed, index) in (0..5).flat_map(|seed| (0..40).map(move |index| (seed, index))) {
        let mut scenario = scenario(seed, index);
        let name = scenario.name.clone();
        let (nodes, jobs) = contents(&scenario);
        assert_eq!(count(scenario.cycles.len()), CYCLES);
        assert!((8..=40).contains(&nodes.len()), "{name}");
        assert!(nodes.iter().all(|(_, order)| (1..=16).contains(order)), "{name}");
        assert!((1..=4).contains(&scenario.config.nodepools.len()), "{name}");
        assert!(scenario.config.nodepools.iter().all(|pool| !pool.nodes.is_empty()), "{name}");
        assert!((1..=4).contains(&scenario.config.classes.len()), "{name}");
        assert!((12..=30).contains(&jobs.len()), "{name}: {} jobs", jobs.len());
        let users: BTreeSet<&String> = jobs.iter().map(|(_, job)| &job.user).collect();
        assert!((4..=20).contains(&users.len()), "{name}: {users:?}");
        assert!(jobs.iter().all(|(cycle, _)| *cycle < 8), "{name}");
        assert!(jobs.iter().map(|(_, job)| job.id).eq(1..=count(jobs.len())), "{name}");

        // Played as far as the last arrival, so that every job has its order.
        scenario.cycles.truncate(8);
        let ending = FinalState::new(&scenario, &player::play(&scenario).unwrap());
        let mut demanded = 0;
        for (job, (_, input)) in ending.jobs.iter().zip(&jobs) {
            let most: u64 = (0..ending.nodes.len())
                .filter(|&node| ending.may_use(job, node))
                .map(|node| ending.nodes[node].order.div_euclid(job.order))
                .sum();
            assert_ne!(most, 0, "{name}: job {} fits nowhere", job.id);
            let processes = input.work_items.div_ceil(input.threads);
            let limit = input.max_processes.map_or(u64::MAX, |limit| limit.try_into().unwrap());
            demanded += processes.min(limit).min(most) * job.order;
        }
        let capacity: u64 = nodes.iter().map(|(_, order)| order).sum();
        assert!(3 * capacity <= 2 * demanded, "{name}: {demanded} of {capacity}");
        assert!(demanded <= 4 * capacity, "{name}: {demanded} of {capacity}");
    }
}

#[test]
fn clusters_are_of_all_kinds() {
    let clusters: Vec<Scenario> = (0..300).map(|index| scenario(1, index)).collect();
    let part = |is_meant: &dyn Fn(&ScenarioConfig) -> bool| {
        clusters.iter().filter(|cluster| is_meant(&cluster.config)).count()
    };
    let is_nested = |config: &ScenarioConfig| 1 < config.nodepools.len();
    let is_deep = |config: &ScenarioConfig| {
        let parents = config.nodepools.iter().filter_map(|pool| pool.parent.as_deref());
        parents.into_iter().any(|parent| parent != "all")
    };
    let has_nested_class = |config: &ScenarioConfig| {
        config.classes.iter().any(|class| class.nodepool.as_deref() != Some("all"))
    };
    assert!((80..=120).contains(&part(&is_nested)));
    assert!((20..=80).contains(&part(&is_deep)));
    assert!((20..=80).contains(&part(&has_nested_class)));
    assert!((130..=170).contains(&part(&|config| config.expand_by_doubling == Some(true))));
    assert!((130..=170).contains(&part(&|config| config.prediction == Some(true))));
    for cap in 0..=2 {
        assert!((80..=120).contains(&part(&|config| config.initialization_cap == Some(cap))));
    }
}

#[test]
fn the_same_seed_gives_the_same_survey_and_a_cluster_stands_alone() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, other] = [&folders[0], &folders[1]].map(|folder| folder.path().join("clusters"));
    let many = run(6, 3, Some(&one)).unwrap();
    let few = run(4, 3, Some(&other)).unwrap();
    assert_eq!(many, run(6, 3, None).unwrap());
    assert_ne!(many, Survey { seed: 3, ..run(6, 4, None).unwrap() });
    let is_early = |case: &&Case| case.cluster < 4;
    assert!(many.cases.iter().filter(is_early).eq(&few.cases));
    assert_eq!(fs::read_dir(&one).unwrap().count(), 6);
    for index in 0..4 {
        let file = format!("cluster-{index:03}.json");
        let [one, other] = [&one, &other].map(|folder| fs::read(folder.join(&file)).unwrap());
        assert_eq!(one, other, "{file}");
    }
}

#[test]
fn a_written_cluster_plays_as_the_drawn_one_did() {
    let folder = tempfile::tempdir().unwrap();
    run(5, 2, Some(folder.path())).unwrap();
    for index in 0..5 {
        let played = player::play(&scenario(2, index)).unwrap();
        let path = folder.path().join(format!("cluster-{index:03}.json"));
        assert_eq!(play_file(&path).unwrap(), played);
        // Shares that leave in the last cycle were terminated in it: the ending relies on that.
        for job in &played.cycles.last().unwrap().jobs {
            assert_eq!(count(job.shrunken.len()), job.pending_removes);
            assert_eq!(job.nodes.values().sum::<u64>(), job.occupying);
        }
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = run(1, 1, Some(file.path())).unwrap_err();
    assert_eq!(error.to_string(), format!("write {}", file.path().display()));
}
