//! The suite bundled with the tests, played to completion.

use super::*;

fn bundled(variant: SuiteVariant) -> Suite {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suites/tiny");
    Suite::load(&suite, &suite.with_file_name("draws.json"), variant).unwrap()
}

fn still() -> Duration {
    Duration::ZERO
}

#[test]
fn a_suite_runs_to_completion_and_does_every_item() {
    for variant in [SuiteVariant::Plain, SuiteVariant::Mixed] {
        let outcome = run(&bundled(variant), &still).unwrap();
        assert_eq!(outcome.findings, Vec::<String>::new());
        assert_eq!(outcome.report.items_done, outcome.report.items_total);
        assert_eq!(outcome.report.settled_preempting_cycles, 0);
    }
}

#[test]
fn two_runs_are_equal() {
    let suite = bundled(SuiteVariant::Mixed);
    assert_eq!(run(&suite, &still).unwrap(), run(&suite, &still).unwrap());
}

#[test]
fn the_classes_of_a_variant_are_those_its_jobs_are_in() {
    let names = |variant| {
        bundled(variant).topology.classes.into_iter().map(|class| class.name).collect::<Vec<_>>()
    };
    assert_eq!(names(SuiteVariant::Plain), ["normal"]);
    assert_eq!(names(SuiteVariant::Mixed), ["high", "low", "normal"]);
}
