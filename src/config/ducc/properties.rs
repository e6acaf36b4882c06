//! The original's properties, as far as they say how to schedule: `ducc.rm.share.quantum = 15`.

use super::super::problem::{Code, Place, Problem};
use super::book::{Book, Part};
use super::stanzas::{Attribute, Word};
use super::translate::{Translation, cap, flag, gigabytes, milliseconds};

/// Notation of a value.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Number,
    Flag,
    Gigabytes,
    Milliseconds,
    Cap,
}

/// A property, the section it goes to, what it is called there, and how it is written here.
const PROPERTIES: [(&str, &str, &str, Kind); 14] = [
    ("ducc.agent.node.metrics.publish.rate", "daemon", "heartbeat_interval", Kind::Milliseconds),
    ("ducc.rm.init.stability", "daemon", "init_stability", Kind::Number),
    ("ducc.rm.share.quantum", "scheduler", "quantum", Kind::Gigabytes),
    ("ducc.rm.fragmentation.threshold", "scheduler", "fragmentation_threshold", Kind::Number),
    ("ducc.rm.defragmentation", "scheduler", "defragmentation", Kind::Flag),
    ("ducc.rm.global_allotment", "scheduler", "allotment", Kind::Gigabytes),
    ("ducc.rm.reserve_overage", "scheduler", "reserve_overage", Kind::Gigabytes),
    ("ducc.rm.reserved.dram", "scheduler", "reserved_memory", Kind::Gigabytes),
    ("ducc.orchestrator.state.publish.rate", "scheduler", "publication_period", Kind::Milliseconds),
    ("ducc.rm.node.stability", "scheduler", "node_stability", Kind::Number),
    ("ducc.rm.initialization.cap", "scheduler", "initialization_cap", Kind::Cap),
    ("ducc.rm.expand.by.doubling", "scheduler", "expand_by_doubling", Kind::Flag),
    ("ducc.rm.prediction", "scheduler", "prediction", Kind::Flag),
    ("ducc.rm.prediction.fudge", "scheduler", "prediction_fudge", Kind::Milliseconds),
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
            Kind::Number => text.clone(),
            Kind::Flag => flag(&text),
            Kind::Gigabytes => gigabytes(attribute),
            Kind::Milliseconds => milliseconds(&text),
            Kind::Cap => cap(&text),
        };
        if matches!(kind, Kind::Number) && text.parse::<i64>().is_err() {
            let message = format!("`{property}` is {text}, which is no whole number");
            let place = Place::File(attribute.span());
            let problem = Problem::new(Code::Kind, property, &place, message);
            book.add(problem.remedy("write a number, without a unit"));
            continue;
        }
        if section != place {
            translation.blank();
            translation.line(&format!("[{place}]"), Part::Properties, &attribute.key);
            section = place;
        }
        translation.setting(key, &value, Part::Properties, attribute);
    }
    for attribute in given.iter().filter(|given| LEFT_OUT.contains(&given.key.text.as_str())) {
        translation.note(format!("`{}` is left out: it has no counterpart", attribute.key.text));
    }
}

/// `key = value` or `key: value` on each line; lines that begin with `#` or `!` are comments, and
/// the original also takes off what follows a `#`.
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
