//! Fields of a document: takes them out by name, and checks each of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::SpecProblem;
use super::limits::{MAX_ARGUMENT, MAX_COMMAND, mebibytes, milliseconds};
use super::params::short;
use crate::orchestrator::wire::{Command, signal_number};

/// A document whose fields are being read. A field that no read asked for is unknown.
pub(super) struct Fields<'p> {
    prefix: &'static str,
    map: Map<String, Value>,
    asked: Vec<&'static str>,
    problems: &'p mut Vec<SpecProblem>,
}

impl<'p> Fields<'p> {
    /// The fields of `map`, which messages begin with `prefix`.
    pub fn new(
        prefix: &'static str,
        map: Map<String, Value>,
        problems: &'p mut Vec<SpecProblem>,
    ) -> Fields<'p> {
        Fields { prefix, map, asked: Vec::new(), problems }
    }

    /// Adds a problem of the field `key`.
    pub fn fault(&mut self, key: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.problems.push(SpecProblem::new(&format!("{}{key}", self.prefix), message, remedy));
    }

    /// True if the field `key` has a problem.
    pub fn has_fault(&self, key: &str) -> bool {
        let field = format!("{}{key}", self.prefix);
        self.problems.iter().any(|problem| problem.field == field)
    }

    /// True if the field `key` is this text.
    pub fn is_text(&self, key: &str, text: &str) -> bool {
        self.map.get(key).and_then(Value::as_str) == Some(text)
    }

    /// Takes a field out; `None` if it is absent or null.
    pub fn take(&mut self, key: &'static str) -> Option<Value> {
        self.asked.push(key);
        self.map.remove(key).filter(|value| !value.is_null())
    }

    /// Takes a field that `read` accepts; reports a problem otherwise.
    pub fn read<T>(
        &mut self,
        key: &'static str,
        remedy: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.take(key)?;
        let found = read(&value);
        if found.is_none() {
            self.fault(key, format!("`{}` does not fit", short(&value.to_string())), remedy);
        }
        found
    }

    /// A text.
    pub fn text(&mut self, key: &'static str, remedy: &str) -> Option<String> {
        self.read(key, remedy, |value| {
            value.as_str().filter(|text| !text.contains('\0')).map(str::to_owned)
        })
    }

    /// A whole number between two bounds.
    pub fn number(&mut self, key: &'static str, least: u64, most: u64) -> Option<u64> {
        let remedy = format!("write a whole number from {least} to {most}");
        self.read(key, &remedy, |value| {
            value.as_u64().filter(|number| (least..=most).contains(number))
        })
    }

    /// A whole number, or two with a hyphen, between two bounds: the least and the most.
    pub fn range(&mut self, key: &'static str, least: u64, most: u64) -> Option<(u64, u64)> {
        let remedy = format!("write a whole number from {least} to {most}, or two such as \"2-8\"");
        self.read(key, &remedy, |value| {
            let from_text = |text: &str| {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
            };
            let single = value.as_u64().map(|number| (number, number));
            let found = single.or_else(|| value.as_str().and_then(from_text));
            found.filter(|(first, last)| least <= *first && first <= last && *last <= most)
        })
    }

    /// `true` or `false`; absent is `false`.
    pub fn flag(&mut self, key: &'static str) -> bool {
        self.read(key, "write true or false", Value::as_bool).unwrap_or(false)
    }

    /// A size of memory, in MiB.
    pub fn size(&mut self, key: &'static str) -> Option<u64> {
        self.read(key, "write a size with its unit, such as \"4GB\" or \"512MB\"", |value| {
            value.as_str().and_then(mebibytes).filter(|size| 0 < *size)
        })
    }

    /// A duration of at most `most` milliseconds, in milliseconds.
    pub fn duration(&mut self, key: &'static str, most: u64) -> Option<u64> {
        let remedy = format!("write a duration such as \"90s\" or \"2h\", {most} ms at most");
        self.read(key, &remedy, |value| {
            value.as_str().and_then(milliseconds).filter(|millis| *millis <= most)
        })
    }

    /// The number of a signal.
    pub fn signal(&mut self, key: &'static str) -> Option<u8> {
        self.read(key, "write a signal such as \"TERM\" or \"USR1\"", |value| {
            signal_number(&value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        })
    }

    /// Texts by name.
    pub fn texts(&mut self, key: &'static str) -> Option<BTreeMap<String, String>> {
        self.read(key, "write names with texts, such as { LANG = \"C\" }", |value| {
            let entry =
                |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
            value.as_object()?.iter().map(entry).collect()
        })
    }

    /// Takes a section; reports a problem if the field is not a section.
    pub fn section(&mut self, key: &'static str) -> Option<Map<String, Value>> {
        self.read(key, &format!("write it as a section, [{key}]"), |value| {
            value.as_object().cloned()
        })
    }

    /// Takes the program: either `command`, a list of words, or `shell`, a text. If both are
    /// absent, the problem has this `remedy`.
    pub fn command(&mut self, remedy: &str) -> Option<Command> {
        let is_given = ["command", "shell"].iter().any(|key| self.map.contains_key(*key));
        let words = self.read(
            "command",
            "write a list of words, such as [\"./crunch\", \"{entry}\"]",
            |value| {
                let word = |word: &Value| word.as_str().map(str::to_owned);
                let words: Option<Vec<String>> = value.as_array()?.iter().map(word).collect();
                words.filter(|words| words.first().is_some_and(|program| !program.is_empty()))
            },
        );
        let shell = self.text("shell", "write a text for sh -c");
        match (words, shell) {
            (Some(_), Some(_)) => {
                self.fault("shell", "`command` is given too", "keep one of them");
                None
            }
            (Some(words), None) => self.fits("command", &words).then_some(Command::Argv(words)),
            (None, Some(shell)) => {
                let words = [shell];
                let fits = self.fits("shell", &words);
                fits.then(|| Command::Shell(words.into_iter().collect()))
            }
            (None, None) => {
                if !is_given {
                    self.fault("command", "no program is given", remedy);
                }
                None
            }
        }
    }

    /// True if the words fit into a command line; reports a problem otherwise.
    fn fits(&mut self, key: &str, words: &[String]) -> bool {
        let size: usize = words.iter().map(|word| word.len() + 1).sum();
        let longest = words.iter().map(String::len).max().unwrap_or(0);
        let has_zero = words.iter().any(|word| word.contains('\0'));
        if has_zero {
            self.fault(key, "has a zero byte", "leave it out; no program can receive it");
        } else if MAX_ARGUMENT < longest {
            let message = format!("a word of {longest} bytes is longer than {MAX_ARGUMENT}");
            self.fault(key, message, "put it in a file, and give the name of the file");
        } else if MAX_COMMAND < size {
            let message = format!("{size} bytes are more than {MAX_COMMAND}");
            self.fault(key, message, "put arguments in a file, and give the name of the file");
        } else {
            return true;
        }
        false
    }

    /// Reports every field that no read asked for.
    pub fn finish(mut self) {
        let unknown: Vec<String> = self.map.keys().cloned().collect();
        for key in unknown {
            let nearest = crate::model::nearest(&key, self.asked.iter().copied());
            let remedy = nearest.map_or_else(
                || "remove it; `apportion submit --help` lists the fields".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            self.fault(&short(&key), "is unknown", remedy);
        }
    }
}
