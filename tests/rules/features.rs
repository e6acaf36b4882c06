//! Features of libraries: tests have every library as the program has it. Otherwise a test run compiles the
//! program, and what it is made of, once more.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::BTreeSet;
use std::process::Command;

/// Libraries over these edges of the graph of dependencies: name, version and features.
fn libraries(edges: &str) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo.args([
        "tree",
        "--locked",
        "--offline",
        "--package",
        "apportion",
        "--package",
        "apportion-core",
    ]);
    cargo.args(["--prefix", "none", "--format", "{p} {f}", "--edges", edges]);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

#[test]
fn tests_have_libraries_as_the_program_has_them() {
    let of_program = libraries("normal,build");
    let of_tests = libraries("normal,build,dev");
    let other: Vec<&String> = of_program.difference(&of_tests).collect();
    assert!(
        other.is_empty(),
        "with other features in tests: {other:?}; ask for the same features in [dependencies]"
    );
}
