//! Plain words, counted: how comments begin, what their subjects are, and names that mean two things.
//!
//! The writing guide is in `CONTRIBUTING.md`. Limits may fall and must not rise.

#![expect(clippy::print_stdout, reason = "figures for those who lower a limit")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::tidy::{all_sources, code, files, is_test_file};

/// Comments may begin so in so many of a thousand cases.
const OPENINGS: (usize, &[&str]) = (
    5,
    &[
        "what",
        "whatever",
        "whether",
        "who",
        "whoever",
        "whom",
        "whose",
        "which",
        "whichever",
        "how",
        "where",
        "when",
        "why",
        "so",
        "as",
        "those",
        "that",
        "such",
        "nothing",
        "nobody",
        "somebody",
        "something",
        "everybody",
        "everything",
        "anybody",
        "anything",
        "one",
        "it",
        "its",
        "they",
        "there",
    ],
);

/// Subjects that leave the noun to the reader, allowed in so many of a thousand sentences.
const VAGUE: (usize, &[&str]) = (
    6,
    &[
        "whoever",
        "whatever",
        "whichever",
        "somebody",
        "someone",
        "nobody",
        "everybody",
        "everyone",
        "anybody",
        "anyone",
        "those",
        "others",
        "one",
    ],
);

/// Names of types that may be defined more than once.
const NAMES_TWICE: usize = 7;

/// A comment, or a paragraph of one: lines in a row, as one text. Lists, tables and code are none.
fn paragraphs(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let (mut last, mut is_code) = (None, false);
    for line in text.lines() {
        let line = line.trim_start();
        let kind = ["///", "//!", "//"].into_iter().find(|kind| line.starts_with(kind));
        let rest = kind.map_or("", |kind| &line[kind.len()..]);
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        is_code = kind.is_some() && (is_code != rest.starts_with("```"));
        let marks = ["#", "```", "|", "- ", "* ", "1.", "2.", "3.", "4.", " "];
        let is_plain = kind.is_some()
            && !rest.trim().is_empty()
            && !is_code
            && !marks.iter().any(|mark| rest.starts_with(mark));
        match found.last_mut().filter(|_| is_plain && last == kind) {
            Some(paragraph) => paragraph.extend([" ", rest]),
            None if is_plain => found.push(rest.to_owned()),
            None => {}
        }
        last = kind.filter(|_| is_plain);
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let is_apart = |sign: char| !sign.is_alphanumeric() && sign != '_';
    text.split(is_apart).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Those of a thousand, rounded up.
fn per_mille(some: usize, all: usize) -> usize {
    (some * 1000).div_ceil(all.max(1))
}

#[test]
fn comments_begin_with_a_noun_or_a_verb() {
    let (mut all, mut openings, mut sentences, mut vague) = (0, 0, 0, 0);
    let mut rooms: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (file, text) in all_sources() {
        let room = file.split('/').nth(1).unwrap_or_default().to_owned();
        for paragraph in paragraphs(&text) {
            let first = words(&paragraph).next().unwrap_or_default();
            let opens = OPENINGS.1.contains(&first.as_str());
            let parts = paragraph.split_inclusive(['.', ':', ';']);
            let parts: Vec<&str> = parts.filter(|part| part.trim().len() > 2).collect();
            let unclear = |part: &&&str| words(part).any(|word| VAGUE.1.contains(&word.as_str()));
            let unclear = parts.iter().filter(unclear).count();
            all += 1;
            openings += usize::from(opens);
            sentences += parts.len();
            vague += unclear;
            let room = rooms.entry(room.clone()).or_default();
            *room = (room.0 + usize::from(opens), room.1 + unclear);
        }
    }
    println!("{all} comments, {openings} open so; {sentences} sentences, {vague} vague; {rooms:?}");
    let found = per_mille(openings, all);
    assert!(found <= OPENINGS.0, "{found} of 1000 comments begin with a function word: {rooms:?}");
    let found = per_mille(vague, sentences);
    assert!(found <= VAGUE.0, "{found} of 1000 sentences have a vague subject: {rooms:?}");
}

/// The types that a file defines at its top level.
fn types(text: &str) -> impl Iterator<Item = &str> {
    code(text).filter_map(|line| {
        let line = line.strip_prefix("pub").map_or(line, |rest| {
            rest.strip_prefix('(')
                .and_then(|rest| rest.split_once(')'))
                .map_or(rest, |(_, rest)| rest)
        });
        let line = line.strip_prefix(' ').unwrap_or(line);
        let kinds = ["struct ", "enum ", "trait ", "type "];
        let name = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
        name.split(|sign: char| !sign.is_alphanumeric()).next()
    })
}

#[test]
fn names_of_types_mean_one_thing() {
    let mut defined: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in all_sources().into_iter().filter(|(file, _)| !is_test_file(file)) {
        for name in types(&text) {
            defined.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    defined.retain(|_, files| files.len() > 1);
    let twice = defined.len();
    assert!(twice <= NAMES_TWICE, "{twice} names of types are defined twice: {defined:#?}");
}

/// Words that users and operators never read, and what stands for each.
const BANNED: &[(&str, &str)] = &[
    ("whoever", "name the subject"),
    ("somebody", "name the subject"),
    ("nobody", "name the subject, or say `no user`, `no node`"),
    ("everybody", "name the subject"),
    ("anybody", "name the subject"),
    ("better priority", "higher priority"),
    ("worse priority", "lower priority"),
    ("told to go", "preempted, evicted or terminating"),
    ("told to leave", "preempted, evicted or terminating"),
    ("told to end", "preempted, evicted or terminating"),
    ("not heard", "no heartbeat, or does not answer"),
    ("heard of", "no heartbeat, or does not answer"),
    ("heard again", "reports or answers again"),
    ("free room", "free space"),
    ("room for one more", "space for one more"),
];

/// Parts of names for which the core has other words.
const BANNED_IN_NAMES: [(&str, &str); 4] = [
    ("room", "space, free space"),
    ("calm", "quiescence, quiet"),
    ("tenant", "share"),
    ("machine", "node"),
];

/// Names of findings, which are on the wire.
const FINDINGS: [&str; 2] = ["IdleRoom", "check_idle_room"];

/// Names that a system or the wire gave, and that stay, and an example of the guide.
const NAMES: &[(&str, &str)] = &[
    ("CONTRIBUTING.md", "not heard"),
    ("src/agent/run/users.rs", "nobody"),
    ("src/auth/identity.rs", "anybody"),
    ("src/api/wire/clients.rs", "anybody"),
];

#[test]
fn names_in_the_core_use_the_words_of_the_glossary() {
    let mut offences = Vec::new();
    for (file, text) in
        all_sources().iter().filter(|(file, _)| file.starts_with("core/src") && !is_test_file(file))
    {
        for (number, line) in code(text).enumerate() {
            // Texts may speak as they like.
            let words = line.split('"').step_by(2).flat_map(|part| {
                part.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            });
            for word in words.filter(|word| !FINDINGS.contains(word)) {
                let name = word.to_lowercase();
                let found = BANNED_IN_NAMES.iter().filter(|(part, _)| name.contains(part));
                for (part, remedy) in found {
                    offences.push(format!("{file}:{}: `{part}`: {remedy}", number + 1));
                }
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn sources_and_documents_use_the_words_of_the_glossary() {
    let mut offences = Vec::new();
    let places = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs"];
    let places = places.iter().chain(&["core", "src", "templates", "config"]);
    for file in places.flat_map(|path| files(path.as_ref())) {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let is_named = |word: &str| {
            NAMES.iter().any(|(path, name)| file.as_path() == Path::new(path) && *name == word)
        };
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.to_lowercase();
            let found = BANNED.iter().filter(|(word, _)| line.contains(word) && !is_named(word));
            for (word, remedy) in found {
                offences.push(format!("{}:{number}: `{word}`: {remedy}", file.display()));
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}
