//! The original's properties, as far as they say how to schedule: `ducc.rm.share.quantum = 15`.

use super::super::problem::{Code, ConfigProblem, ValuePlace};
use super::book::{Book, SourceFile};
use super::stanzas::{Attribute, Word};
use super::translate::{Translation, cap, flag, gigabytes, milliseconds};

/// Notation of a value.
#[derive(Clone, Copy, Debug)]
enum PropertyKind {
    Number,
    Flag,
    Gigabytes,
    Milliseconds,
    Cap,
}

/// A property, its section and key here, and its notation.
const PROPERTIES: [(&str, &str, &str, PropertyKind); 14] = [
    (
        "ducc.agent.node.metrics.publish.rate",
        "daemon",
        "heartbeat_interval",
        PropertyKind::Milliseconds,
    ),
    ("ducc.rm.init.stability", "daemon", "init_stability", PropertyKind::Number),
    ("ducc.rm.share.quantum", "scheduler", "quantum", PropertyKind::Gigabytes),
    (
        "ducc.rm.fragmentation.threshold",
        "scheduler",
        "fragmentation_threshold",
        PropertyKind::Number,
    ),
    ("ducc.rm.defragmentation", "scheduler", "defragmentation", PropertyKind::Flag),
    ("ducc.rm.global_allotment", "scheduler", "allotment", PropertyKind::Gigabytes),
    ("ducc.rm.reserve_overage", "scheduler", "reserve_overage", PropertyKind::Gigabytes),
    ("ducc.rm.reserved.dram", "scheduler", "reserved_memory", PropertyKind::Gigabytes),
    (
        "ducc.orchestrator.state.publish.rate",
        "scheduler",
        "publication_period",
        PropertyKind::Milliseconds,
    ),
    ("ducc.rm.node.stability", "scheduler", "node_stability", PropertyKind::Number),
    ("ducc.rm.initialization.cap", "scheduler", "initialization_cap", PropertyKind::Cap),
    ("ducc.rm.expand.by.doubling", "scheduler", "expand_by_doubling", PropertyKind::Flag),
    ("ducc.rm.prediction", "scheduler", "prediction", PropertyKind::Flag),
    ("ducc.rm.prediction.fudge", "scheduler", "prediction_fudge", PropertyKind::Milliseconds),
];

/// Scheduling properties of UIMA-DUCC without a counterpart here.
const LEFT_OUT: [&str; 4] = [
    "ducc.rm.eviction.policy",
    "ducc.rm.default.memory",
    "ducc.rm.override.dram",
    "ducc.rm.fast.recovery",
];

/// The settings that a file of properties comes to.
pub(super) fn translate(book: &mut Book, translation: &mut Translation) {
    let given = read(book);
    let mut section = "";
    for (property, place, key, kind) in PROPERTIES {
        // The last value of a property counts, as in all property files.
        let found = given.iter().rfind(|attribute| attribute.key.text == property);
        let Some(attribute) = found else { continue };
        let text = attribute.text();
        let value = match kind {
            PropertyKind::Number => text.clone(),
            PropertyKind::Flag => flag(&text),
            PropertyKind::Gigabytes => gigabytes(attribute),
            PropertyKind::Milliseconds => milliseconds(&text),
            PropertyKind::Cap => cap(&text),
        };
        if matches!(kind, PropertyKind::Number) && text.parse::<i64>().is_err() {
            let message = format!("`{property}` is {text}, which is no whole number");
            let place = ValuePlace::File(attribute.span());
            let problem = ConfigProblem::new(Code::Kind, property, &place, message);
            book.add(problem.remedy("write a number, without a unit"));
            continue;
        }
        if section != place {
            translation.blank();
            translation.line(&format!("[{place}]"), SourceFile::Properties, &attribute.key);
            section = place;
        }
        translation.setting(key, &value, SourceFile::Properties, attribute);
    }
    for attribute in given.iter().filter(|given| LEFT_OUT.contains(&given.key.text.as_str())) {
        translation.note(format!("`{}` is left out: it has no counterpart", attribute.key.text));
    }
}

/// Reads `key = value` or `key: value` on each line. Lines that begin with `#` or `!` are comments.
/// UIMA-DUCC also drops text after a `#`.
fn read(book: &Book) -> Vec<Attribute> {
    let text = book.text();
    let mut start = 0;
    let mut found = Vec::new();
    for line in text.split_inclusive('\n') {
        let content = line.split(['#', '!']).next().unwrap_or_default();
        if let Some((key, value)) = content.split_once(['=', ':']) {
            let word = |text: &str, offset: usize| {
                let begin = start + offset + text.len() - text.trim_start().len();
                let text = text.trim().to_owned();
                Word { span: begin..begin + text.len(), text }
            };
            let (key, value) = (word(key, 0), word(value, key.len() + 1));
            let values = if value.text.is_empty() { Vec::new() } else { vec![value] };
            found.push(Attribute { key, values });
        }
        start += line.len();
    }
    found
}
