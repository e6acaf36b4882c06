//! What is drawn, held against what is promised; and what is measured, on tables made by hand.

use std::collections::BTreeSet;

use super::cluster::{CYCLES, scenario};
use super::ending::Ending;
use super::*;
use crate::sim::recorded::scenario::{
    ClassInput, Config, CycleInput, EventInput, JobInput, Options, PoolInput,
};
use crate::sim::recorded::{Finding, JobLine, play_file};

/// A pool `all`, and nested in it `sub` and `deep`.
const POOLS: &str =
    r#"[{"name": "all"}, {"name": "sub", "parent": "all"}, {"name": "deep", "parent": "sub"}]"#;

/// The end of a play, made by hand.
///
/// - `classes`: name:weight, @pool if it is not `all`
/// - `machines`: name=order, @pool likewise
/// - `jobs`: separated by commas, each "class user order cap" and the machines of its shares, those
///   that are leaving with an exclamation mark; numbered from 1
fn table(classes: &str, machines: &str, jobs: &str) -> (Scenario, Document) {
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
    for text in machines.split_whitespace() {
        let (name, pool) = text.split_once('@').unwrap_or((text, "all"));
        let (name, order) = name.split_once('=').unwrap();
        pools.iter_mut().find(|other| other.name == pool).unwrap().nodes.push(name.to_owned());
        list.push((name.to_owned(), order.parse().unwrap()));
    }
    let mut events = vec![EventInput::Nodes { list }];
    let mut lines = Vec::new();
    for (id, text) in (1..).zip(jobs.split(", ")) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [class, user, order, cap, places @ ..] = &words[..] else { panic!("{text}") };
        let text =
            format!(r#"{{"id": {id}, "user": "{user}", "class": "{class}", "memGB": {order}}}"#);
        events.push(EventInput::Job(serde_json::from_str::<JobInput>(&text).unwrap()));
        lines.push(line(id, order, cap, places));
    }
    let scenario = Scenario {
        name: "by hand".to_owned(),
        config: Config { nodepools: pools, classes, ..Config::default() },
        options: Options::default(),
        cycles: vec![CycleInput { events }],
    };
    let cycles = vec![Cycle { jobs: lines, ..Cycle::default() }];
    (scenario, Document { name: "by hand".to_owned(), cycles })
}

fn line(id: u64, order: &str, cap: &str, places: &[&str]) -> JobLine {
    let mut line = JobLine {
        id,
        order: Some(order.parse().unwrap()),
        cap: cap.parse().unwrap(),
        occupying: count(places.len()),
        ..JobLine::default()
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

/// Every envy in a table, as "level job>others extent"; behind a bar what is beyond reach.
#[track_caller]
fn check_envy(classes: &str, machines: &str, jobs: &str, expected: &str) {
    let (scenario, played) = table(classes, machines, jobs);
    let verdict = envy::verdict(&Ending::new(&scenario, &played));
    let shown = [shown(&verdict.envies), shown(&verdict.beyond_reach)];
    let [envies, beyond_reach] = &shown;
    let shown =
        if beyond_reach.is_empty() { envies.clone() } else { format!("{envies} | {beyond_reach}") };
    assert_eq!(shown.trim(), expected, "{machines} | {jobs}");
    // Whoever envies has a plan.
    let has_plan = |envy: &Envy| verdict.placeable.contains(&envy.job);
    assert!(verdict.envies.iter().all(has_plan), "{machines} | {jobs}");
}

fn shown(envies: &[Envy]) -> String {
    let shown = envies.iter().map(|envy| {
        let of = envy.of.iter().map(u64::to_string).collect::<Vec<_>>().join("+");
        format!("{} {}>{of} {}", envy.level, envy.job, envy.extent)
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[test]
fn nobody_envies_what_one_exchange_would_only_turn_round() {
    let check = |machines, jobs, expected| check_envy("a:100", machines, jobs, expected);
    check("m=8", "a u 1 9 m m m m, a v 1 9 m m m m", "");
    check("m=8", "a u 1 9 m m m m m, a v 1 9 m m m", "user 2>1 1");
    check("m=7", "a u 1 9 m m m m, a v 1 9 m m m", "");
    // All of it, if there is no more of it than one process.
    check("m=8", "a u 8 9 m, a v 1 9", "");
    check("m=8 n=8", "a u 8 9 m n, a v 1 9", "user 2>1 8");
    // What one of the envious would take counts, if that is more.
    check("m=4", "a u 1 9 m m m m, a v 4 9", "");
    check("m=4 n=1", "a u 1 9 m m m m n, a v 4 9", "| user 2>1 1");
}

#[test]
fn who_needs_no_more_or_has_no_place_envies_nobody() {
    let check = |machines, jobs, expected| check_envy("a:100 b:100@sub", machines, jobs, expected);
    check("m=7", "a u 1 9 m m m m m m, a v 1 1 m", "");
    check("m=6", "a u 1 9 m m m m m m, a v 1 0", "");
    check("m=6", "a u 1 9 m m m m m m, a v 9 9", "");
    check("m=7", "a u 1 9 m m m m m m, a v 1 2 m", "user 2>1 4");
    // There is room without anybody's going.
    check("m=7 n=1", "a u 1 9 m m m m m m, a v 1 2 n", "");
    // Its class may not go where the other is, or its process is too large for that machine.
    check("m=6 n=2@sub", "a u 1 9 m m m m m m, b v 1 3 n n", "");
    check("m=4 n=2@sub", "a u 1 9 n n m m m m, b v 1 9", "class 2>1 500");
    check("m=3 n=2", "a u 1 9 n n, a v 3 9, a w 3 1 m", "");
}

#[test]
fn only_what_does_not_leave_is_held() {
    let check = |machines, jobs, expected| check_envy("a:100", machines, jobs, expected);
    check("m=8", "a u 1 9 m m m m! m! m!, a v 1 9 m m", "");
    check("m=8", "a u 1 9 m m m m m m, a v 1 9 m m", "user 2>1 3");
    // What is leaving is no room, and cannot be taken once more.
    check("m=2 n=1 o=1 p=1", "a u 1 9 m! n o p, a v 2 9", "");
    check("m=2 n=1 o=1 p=1", "a u 1 9 m m! n o p, a v 2 9", "| user 2>1 2");
    check("m=2 n=1 o=1 p=1", "a u 1 9 m n o p, a v 2 9", "user 2>1 2");
}

#[test]
fn siblings_are_compared_where_their_ways_part() {
    // Classes by weight, whoever the users are.
    let classes = |machines, jobs, expected| check_envy("a:100 b:300", machines, jobs, expected);
    classes("m=18", "a u 2 9 m m, b u 2 9 m m m m m m m", "");
    classes("m=24", "a u 2 9 m m m m m, b u 2 9 m m m m m m m", "class 2>1 1000");
    // A user's jobs among themselves; and together, where another user looks at them.
    let users = |machines, jobs, expected| check_envy("a:100", machines, jobs, expected);
    users("m=10", "a u 1 9 m m m m, a u 1 9 m, a v 1 5 m m m m m", "job 2>1 2");
    users("m=9", "a u 1 9 m m m m, a u 1 9 m m m, a v 1 9 m m", "user 3>1 4");
    // A user is another one in another class.
    check_envy("a:100 b:200", "m=8", "a u 1 9 m m m, b u 1 9 m m m, b v 1 9 m m", "");
    // The greatest at each level, and of several the first.
    users("m=8", "a u 1 4 m m m m, a v 1 4 m m m m, a w 1 9", "user 3>1 3");
    check_envy(
        "a:100 b:100",
        "m=8 n=2 o=18",
        "a u 1 9, a v 1 4 m m m m, a w 1 4 m m m m, a u 1 2 n n, b x 6 3 o o o",
        "class 1>5 200, user 1>2 1, job 1>4 1",
    );
}

#[test]
fn several_may_have_to_go_and_none_of_them_further_than_to_its_level() {
    let users = |machines, jobs, expected| check_envy("a:100", machines, jobs, expected);
    users("m=8", "a u 1 9 m m m m m m m m, a v 4 9", "user 2>1+1+1+1 4");
    // The fourth would be one too many: no plan, though the first could go.
    users("m=7", "a u 1 9 m m m m m m m, a v 4 9", "| user 2>1 3");
    // What is free already need not be taken.
    users("m=8", "a u 1 9 m m m m m m m, a v 4 9", "user 2>1+1+1 3");
    // From two, as far as each of them may go.
    users("m=8", "a u 1 9 m m m m, a w 1 9 m m m m, a v 3 9", "| user 3>1 1");
    users("m=9", "a u 1 9 m m m m, a w 1 9 m m m m, a v 3 9", "user 3>1+2 1");
    // What one user gives, the class has given: together the two may not go so far.
    let classes = |machines, jobs, expected| check_envy("a:100 b:100", machines, jobs, expected);
    classes("m=6", "a u 1 9 m m m, a w 1 9 m m m, b x 3 9", "class 3>1+1+1 300");
    classes("m=6", "a u 1 9 m m m, a w 1 9 m m m, b x 4 9", "| class 3>1 200");
    // The largest go first; where that leads nowhere, the smallest.
    classes("m=5", "a u 1 9 m m, a w 3 9 m, b x 3 9", "class 3>2 200");
    classes("m=7", "a u 3 9 m m, a w 1 1 m, b x 4 9", "class 3>2+1 300");
    // One plan may take at several levels, and is a case at each of them.
    users(
        "m=2 n=1 o=1 p=1 q=1 r=1 s=1 t=1",
        "a u 2 9, a u 1 3 m n o, a v 1 9 m p q r s t",
        "user 1>2+3 1, job 1>2+3 1",
    );
}

#[test]
fn pools_are_open_to_the_classes_of_those_around_them() {
    let check = |machines, jobs, expected| {
        check_envy("a:100 s:100@sub d:100@deep", machines, jobs, expected);
    };
    check("m=4", "a u 1 9 m m m m, s v 1 9, d w 1 9", "");
    check("n=4@sub", "a u 1 9 n n n n, s v 1 9, d w 1 9", "class 2>1 300");
    check("o=4@deep", "a u 1 9 o o o o, s v 1 9, d w 1 9", "class 2>1 300, class 3>1 300");
}

/// Qshares that are idle and usable in a table of one class.
#[track_caller]
fn check_idle(class: &str, machines: &str, jobs: &str, expected: u64) {
    let (scenario, played) = table(class, machines, jobs);
    let idle = idle::usable_qshares(&Ending::new(&scenario, &played));
    assert_eq!(idle, expected, "{machines} | {jobs}");
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
    // What is free beside a leaving share may wait for it.
    check_idle("a:1", "m=5 n=2", "a u 2 9 m!", 2);
}

#[test]
fn a_case_says_what_is_not_as_it_should_be() {
    let (scenario, mut played) = table("a:100 b:50", "m=3 n=1 o=2", "a u 1 9, b v 1 9 m m n m!");
    played.cycles[0].net_strikes = 3;
    played.cycles[0].audit = vec![Finding { rule: "R", detail: "d".to_owned() }; 9];
    let mut survey = Survey::default();
    survey.enter(7, &scenario, &played);
    let expected = Survey {
        clusters: 1,
        jobs: 2,
        zero_share_jobs: 1,
        zero_share_all: 1,
        envy_cases: ByLevel { class: 1, user: 0, job: 0 },
        quiet_evictions: 1,
        idle_usable_qshares: 2,
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
        "evicted in the last cycles: 1 in all",
        "idle though a job could use it: 2 qshares",
        "with nothing, though room could be made: job 1",
        "class envy of 1 job: job 1 could be on m in place of job 2: a holds 0 qshares at weight 100, \
         b holds 3 qshares at weight 50",
    ];
    assert_eq!(case.what, expected);

    let (scenario, played) = table("a:100", "m=2", "a u 1 9 m, a v 1 9 m");
    let mut survey = Survey::default();
    survey.enter(0, &scenario, &played);
    assert_eq!(survey.cases, []);
}

#[test]
fn who_cannot_be_helped_is_counted_but_no_case() {
    let (scenario, played) = table("a:100", "m=4", "a u 1 4 m m m m, a v 3 9, a w 2 9, a x 4 9");
    let mut survey = Survey::default();
    survey.enter(0, &scenario, &played);
    // Job 3 can be helped; job 2 is behind and cannot be; job 4 is not even behind.
    let shown: Vec<_> = survey.cases.iter().flat_map(|case| &case.what).collect();
    assert_eq!(
        shown,
        [
            "with nothing, though room could be made: job 3",
            "user envy of 1 job: job 3 could be on m in place of 2 of job 1: w in a holds 0 qshares, \
             u in a holds 4 qshares",
        ]
    );
    assert_eq!((survey.zero_share_jobs, survey.zero_share_all), (1, 3));
    assert_eq!(survey.envy_cases, ByLevel { class: 0, user: 1, job: 0 });
    assert_eq!(survey.envy_beyond_reach, ByLevel { class: 0, user: 1, job: 0 });
}

#[test]
fn in_the_end_clusters_are_just_quiet_and_full() {
    let survey = run(12, 1, None).unwrap();
    let figures = [
        survey.zero_share_jobs,
        survey.quiet_evictions,
        survey.idle_usable_qshares,
        survey.audit_findings,
    ];
    assert_eq!(figures, [0; 4], "{:?}", survey.cases);
}

/// Nodes with their orders, and jobs with the cycles of their arrival.
type Contents = (Vec<(String, u64)>, Vec<(u64, JobInput)>);

/// What a drawn cluster consists of.
fn contents(scenario: &Scenario) -> Contents {
    let (mut nodes, mut jobs) = (Vec::new(), Vec::new());
    for (cycle, input) in (0..).zip(&scenario.cycles) {
        for event in &input.events {
            if let EventInput::Nodes { list } = event {
                nodes.extend(list.iter().cloned());
            } else if let EventInput::Job(job) = event {
                jobs.push((cycle, job.clone()));
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
        let ending = Ending::new(&scenario, &player::play(&scenario).unwrap());
        let mut demanded = 0;
        for (job, (_, input)) in ending.jobs.iter().zip(&jobs) {
            let room: u64 = (0..ending.machines.len())
                .filter(|&machine| ending.may_use(job, machine))
                .map(|machine| ending.machines[machine].order.div_euclid(job.order))
                .sum();
            assert_ne!(room, 0, "{name}: job {} fits nowhere", job.id);
            let processes = input.work_items.div_ceil(input.threads);
            let limit = input.max_processes.map_or(u64::MAX, |limit| limit.try_into().unwrap());
            demanded += processes.min(limit).min(room) * job.order;
        }
        let capacity: u64 = nodes.iter().map(|(_, order)| order).sum();
        assert!(3 * capacity <= 2 * demanded, "{name}: {demanded} of {capacity}");
        assert!(demanded <= 4 * capacity, "{name}: {demanded} of {capacity}");
    }
}

#[test]
fn clusters_are_of_all_kinds() {
    let clusters: Vec<Scenario> = (0..300).map(|index| scenario(1, index)).collect();
    let part = |is_meant: &dyn Fn(&Config) -> bool| {
        clusters.iter().filter(|cluster| is_meant(&cluster.config)).count()
    };
    let is_nested = |config: &Config| 1 < config.nodepools.len();
    let is_deep = |config: &Config| {
        let parents = config.nodepools.iter().filter_map(|pool| pool.parent.as_deref());
        parents.into_iter().any(|parent| parent != "all")
    };
    let has_nested_class = |config: &Config| {
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
        // What leaves in the last cycle was told to in the last: the ending goes by it.
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
