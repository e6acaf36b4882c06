//! Plays recorded scenarios: our own under `tests/scenarios`, and the original's if they are at
//! hand.
//!
//! Counts must equal the recorded counts unless these hang on hash order. `tests/divergences.toml`
//! lists the exceptions in which our counts are better, with reasons. Seeded histories (91 onward)
//! follow the original only until the first such difference: for these, only the rules are checked.

#![expect(clippy::print_stdout, reason = "a test that skips says so")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use apportion::sim::recorded::{PlayedDocument, compare_file, play_file};
use serde::Deserialize;

/// The first of the seeded histories.
const FIRST_RANDOM: u32 = 91;

#[derive(Deserialize)]
struct Divergences {
    divergence: Vec<Divergence>,
    case: Vec<OtherEnd>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Divergence {
    scenario: String,
    cycles: Vec<u64>,
    because: String,
    ours: String,
}

/// Our result in a hand-made case that expects another result.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OtherEnd {
    name: String,
    held: Held,
    because: String,
    ours: String,
}

/// Required result of a hand-made case; an absent field is not checked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Expectation {
    /// The cycle from which on this must hold, and nothing may be preempted any more.
    from_cycle: u64,
    held: Option<Held>,
    held_best: Option<Held>,
    held_tolerated: Option<Held>,
    held_any_of: Vec<Held>,
    held_multiset: Option<Vec<u64>>,
    held_multiset_any_of: Vec<Vec<u64>>,
    nodes: BTreeMap<String, BTreeMap<String, u64>>,
    preemptions_total_max: usize,
}

/// Holdings of each job.
type Held = BTreeMap<String, u64>;

impl Default for Expectation {
    fn default() -> Expectation {
        Expectation {
            from_cycle: 0,
            held: None,
            held_best: None,
            held_tolerated: None,
            held_any_of: Vec::new(),
            held_multiset: None,
            held_multiset_any_of: Vec::new(),
            nodes: BTreeMap::new(),
            preemptions_total_max: usize::MAX,
        }
    }
}

impl Expectation {
    fn check(&self, played: &PlayedDocument) {
        let held: Vec<&Held> = self
            .held
            .iter()
            .chain(&self.held_best)
            .chain(&self.held_tolerated)
            .chain(&self.held_any_of)
            .collect();
        let multisets: Vec<&Vec<u64>> =
            self.held_multiset.iter().chain(&self.held_multiset_any_of).collect();
        assert!(!(held.is_empty() && multisets.is_empty()), "{} expects something", played.name);
        let mut preemptions = 0;
        for cycle in &played.cycles {
            let place = format!("{}, cycle {}", played.name, cycle.cycle);
            let preempted: usize = cycle.jobs.iter().map(|job| job.shrunken.len()).sum();
            preemptions += preempted;
            if cycle.cycle < self.from_cycle {
                continue;
            }
            let played_held: Held =
                cycle.jobs.iter().map(|job| (job.id.to_string(), job.held)).collect();
            let mut multiset: Vec<u64> = played_held.values().copied().collect();
            multiset.sort_unstable();
            let is_expected = held.contains(&&played_held) || multisets.contains(&&multiset);
            assert!(is_expected, "{place}: holdings are {played_held:?}");
            assert_eq!(preempted, 0, "{place}: preemptions");
            for job in &cycle.jobs {
                let nodes = self.nodes.get(&job.id.to_string()).unwrap_or(&job.nodes);
                assert_eq!(&job.nodes, nodes, "{place}, job {}", job.id);
            }
        }
        assert!(
            preemptions <= self.preemptions_total_max,
            "{}: {preemptions} preemptions",
            played.name
        );
    }
}

/// The scenarios in a folder, by name; none, said plainly, where the folder is absent.
fn scenarios_in(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let Ok(entries) = fs::read_dir(&folder) else {
        println!("{} is absent: its scenarios are not played", folder.display());
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("a folder lists its files").path());
    let mut scenarios: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    scenarios.sort();
    scenarios
}

/// The number that a recorded scenario's name begins with.
fn number_of(scenario: &Path) -> String {
    let name = scenario.file_name().unwrap_or_default().to_string_lossy();
    name.split('-').next().unwrap_or_default().to_owned()
}

fn divergences() -> Divergences {
    toml::from_str(include_str!("divergences.toml")).expect("the divergences are well-formed")
}

#[test]
fn our_own_scenarios_end_as_recorded() {
    let scenarios = scenarios_in("tests/scenarios");
    assert!(!scenarios.is_empty());
    for scenario in scenarios {
        let differences = compare_file(&scenario).expect("our own scenarios are well-formed");
        assert_eq!(differences, [], "{}", scenario.display());
    }
}

#[test]
fn counts_equal_those_of_the_original_but_for_the_divergences() {
    let divergences = divergences();
    let mut unexplained = Vec::new();
    let mut seen = BTreeSet::new();
    let scenarios = scenarios_in("../shared/golden");
    for scenario in &scenarios {
        let number = number_of(scenario);
        if number.parse().is_ok_and(|number: u32| FIRST_RANDOM <= number) {
            continue;
        }
        for difference in compare_file(scenario).expect("recorded scenarios are well-formed") {
            let explains = |divergence: &&Divergence| {
                divergence.scenario == number && divergence.cycles.contains(&difference.cycle)
            };
            if divergences.divergence.iter().any(|divergence| explains(&divergence)) {
                seen.insert((number.clone(), difference.cycle));
            } else {
                unexplained.push(format!("{}: {difference}", scenario.display()));
            }
        }
    }
    assert!(unexplained.is_empty(), "\n{}", unexplained.join("\n"));
    for Divergence { scenario, cycles, because, ours } in &divergences.divergence {
        assert!(!because.is_empty() && !ours.is_empty(), "scenario {scenario} says why and what");
        let is_here = scenarios.iter().any(|path| number_of(path) == *scenario);
        let stale =
            cycles.iter().filter(|&&cycle| is_here && !seen.contains(&(scenario.clone(), cycle)));
        assert_eq!(
            stale.collect::<Vec<_>>(),
            Vec::<&u64>::new(),
            "scenario {scenario} agrees by now"
        );
    }
}

#[test]
fn every_recorded_scenario_can_be_played_and_breaks_no_rule() {
    for folder in ["tests/scenarios", "../shared/golden", "../shared/golden/cases"] {
        for scenario in scenarios_in(folder) {
            let document = play_file(&scenario).expect("recorded scenarios are well-formed");
            for cycle in &document.cycles {
                assert_eq!(cycle.audit, [], "{}, cycle {}", document.name, cycle.cycle);
            }
        }
    }
}

#[test]
fn hand_made_cases_end_as_a_good_scheduler_must() {
    #[derive(Deserialize)]
    struct Case {
        expect: Expectation,
    }
    let divergences = divergences();
    for scenario in scenarios_in("../shared/golden/cases") {
        let text = fs::read_to_string(&scenario).expect("the case can be read");
        let mut case: Case = serde_json::from_str(&text).expect("the case says what to expect");
        let played = play_file(&scenario).expect("cases are well-formed");
        if let Some(other) = divergences.case.iter().find(|other| other.name == played.name) {
            let OtherEnd { name, held, because, ours } = other;
            assert!(!because.is_empty() && !ours.is_empty(), "case {name} says why and what");
            assert_ne!(case.expect.held.as_ref(), Some(held), "case {name} agrees by now");
            case.expect.held = Some(held.clone());
        }
        case.expect.check(&played);
    }
}
