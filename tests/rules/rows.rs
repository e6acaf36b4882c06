//! Keeps `tests/README.md` honest: every row is there once, and every test it names exists.

#![expect(clippy::unwrap_used, reason = "a test's panic is its failure")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Rows are numbered from 1 behind each of these letters.
const SERIES: [(char, usize); 5] = [('F', 253), ('L', 30), ('G', 22), ('D', 18), ('B', 72)];

/// Prefixes of rows without a test.
const EXCUSES: [&str; 3] = ["not yet: ", "not here: ", "replaced: "];

/// A line of a table: its number, its subject, and its tests.
struct Row {
    number: String,
    shown_by: String,
}

fn read(file: &str) -> Option<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).ok()
}

/// Every line of a table that begins with a number of a series.
fn rows() -> Vec<Row> {
    rows_with(|cell| {
        let (letter, digits) = cell.split_at(cell.chars().next().map_or(0, char::len_utf8));
        let is_series = SERIES.iter().any(|(series, _)| letter == series.to_string());
        is_series && !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
    })
}

/// Every line of a table that begins with a row of a neighbour's list. Some rows are of later work.
fn neighbour_rows() -> Vec<Row> {
    rows_with(|cell| ["NB-", "IV-", "CG-"].iter().any(|series| cell.starts_with(series)))
}

fn rows_with(is_number: impl Fn(&str) -> bool) -> Vec<Row> {
    let text = read("tests/README.md").unwrap();
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if is_number(cells[0]) {
            assert_eq!(cells.len(), 3, "{line}");
            assert!(!cells[1].is_empty() && !cells[2].is_empty(), "{line}");
            rows.push(Row { number: cells[0].to_owned(), shown_by: cells[2].to_owned() });
        }
    }
    rows
}

/// The tests a cell names, as file and function.
fn tests_in(cell: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = cell.split([' ', ',', ';']);
    words.filter_map(|word| word.split_once("::")).filter(|(file, _)| file.contains('/'))
}

/// True if `text` has a test called `name`: a function right below its attributes.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_it = |line: &str| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        line.strip_prefix("fn ")
            .and_then(|rest| rest.strip_prefix(name))
            .is_some_and(|rest| rest.starts_with('('))
    };
    lines.iter().enumerate().any(|(number, line)| {
        let mut above = lines[..number].iter().rev().take_while(|line| line.starts_with("#["));
        is_it(line)
            && above.any(|line| line.ends_with("test]") || line.starts_with("#[tokio::test("))
    })
}

#[test]
fn every_row_is_there_once_and_in_order() {
    let expected: Vec<String> = SERIES
        .iter()
        .flat_map(|(letter, last)| (1..=*last).map(move |number| format!("{letter}{number}")))
        .collect();
    let found: Vec<String> = rows().into_iter().map(|row| row.number).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_test_that_is_named_exists() {
    let mut files: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut missing = Vec::new();
    for row in rows().into_iter().chain(neighbour_rows()) {
        for (file, name) in tests_in(&row.shown_by) {
            let text = files.entry(file.to_owned()).or_insert_with(|| read(file));
            if !text.as_ref().is_some_and(|text| has_test(text, name)) {
                missing.push(format!("{}: {file}::{name}", row.number));
            }
        }
    }
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
}

#[test]
fn a_row_without_a_test_says_why() {
    for Row { number, shown_by } in rows().into_iter().chain(neighbour_rows()) {
        let is_excused = EXCUSES.iter().any(|excuse| shown_by.starts_with(excuse));
        assert!(is_excused || tests_in(&shown_by).next().is_some(), "{number}: {shown_by}");
    }
}

/// Each regression is named in the row it is numbered for.
#[test]
fn every_regression_is_in_its_row() {
    let text = read("tests/engine/regressions.rs").unwrap();
    let rows: BTreeMap<String, String> =
        rows().into_iter().map(|row| (row.number, row.shown_by)).collect();
    let mut seen = 0;
    for name in text.lines().filter_map(|line| line.strip_prefix("fn ")) {
        let name = name.split('(').next().unwrap();
        let Some((number, _)) = name.split_once('_') else { continue };
        let (letter, digits) = number.split_at(1);
        let Ok(digits) = digits.parse::<usize>() else { continue };
        let row = &rows[&format!("{}{digits}", letter.to_uppercase())];
        assert!(
            row.contains(&format!("tests/engine/regressions.rs::{name}")),
            "{name} is not in {row}"
        );
        seen += 1;
    }
    assert!(seen >= 50, "{seen} regressions");
}

/// A file that no binary names is not built, and none of its tests runs.
#[test]
fn every_file_of_tests_is_built() {
    let system = read("tests/system.rs").unwrap();
    let engine = read("tests/engine/main.rs").unwrap();
    for folder in ["commands", "daemon", "engine", "pages", "running"] {
        for file in fs::read_dir(format!("tests/{folder}")).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "main") else {
                continue;
            };
            let is_built = if folder == "engine" {
                engine.contains(&format!("mod {module};"))
            } else {
                system.contains(&format!("#[path = \"{folder}/{name}\"]\nmod {module};"))
            };
            assert!(
                is_built,
                "tests/{folder}/{name}: no binary has it; name it in tests/system.rs"
            );
        }
    }
}
