//! Reader of tables of settings, a key at a time, so that no mistake hides the next.
//!
//! A [`Section`] is a table of the file with the environment on top of it. Its reader asks for
//! every key that the table may have. When the section is finished, keys that were not asked for
//! are reported as unknown.
//!
//! The loader does not use serde: a deserializer stops at the first mistake. An administrator who
//! learns of a single mistake per attempt needs many attempts.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::environment::Overrides;
use super::listing::Listing;
use super::problem::{Code, ConfigProblem, Problems, ValuePlace};
use super::setting::{Located, Setting};
use super::shape::ValueShape;
use super::value::{Fault, ValueKind, ValueResult, Written, name};
use crate::model::nearest;

/// A setting that the loader reads, present in the file or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// Section of the setting, "daemon.limits"; "class" for the settings of any class.
    pub section: &'static str,
    pub key: &'static str,
    pub shape: ValueShape,
    /// Value of an absent setting, in the notation of the file.
    pub default: Option<String>,
    pub is_required: bool,
}

/// Inputs and results of reading a file.
#[derive(Debug)]
pub(super) struct Reading {
    pub overrides: Overrides,
    pub problems: Problems,
    /// The single settings in effect. Settings of pools, classes and users are added later.
    pub listing: Listing,
    /// Every setting that was asked for.
    pub asked: Vec<Asked>,
}

impl Reading {
    /// Of a file with these overrides, into this basket.
    pub(super) fn new(overrides: Overrides, problems: Problems) -> Reading {
        let listing = Listing::of(problems.text());
        Reading { overrides, problems, listing, asked: Vec::new() }
    }
}

/// A table of settings.
#[derive(Debug)]
pub(super) struct Section<'r> {
    /// Name of the table in the catalogue of settings.
    kind: &'static str,
    path: String,
    place: ValuePlace,
    table: Option<&'r DeTable<'r>>,
    /// Entries of lists have no names that a variable could spell, and so no overrides.
    is_entry: bool,
    reading: &'r mut Reading,
    known: Vec<&'static str>,
}

impl<'r> Section<'r> {
    /// The whole file.
    pub(super) fn root(table: &'r DeTable<'r>, reading: &'r mut Reading) -> Section<'r> {
        Section {
            kind: "",
            path: String::new(),
            place: ValuePlace::File(0..0),
            table: Some(table),
            is_entry: false,
            reading,
            known: Vec::new(),
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the table under the last word of `kind`, "limits" of "daemon.limits". A missing
    /// table is taken as empty.
    pub(super) fn section(&mut self, kind: &'static str) -> Section<'_> {
        let key = kind.rsplit('.').next().unwrap_or(kind);
        let path = self.path_of(key);
        let mut place = self.place.clone();
        let mut table = None;
        if let Some(value) = self.find(key) {
            place = ValuePlace::File(value.span());
            table = value.get_ref().as_table();
            if table.is_none() {
                let message = format!("`{path}` is a section, not a value");
                let remedy = format!("write its settings under a line [{path}]");
                self.complain(
                    ConfigProblem::new(Code::Kind, &path, &place, message).remedy(remedy),
                );
            }
        }
        let (is_entry, known) = (self.is_entry, Vec::new());
        Section { kind, path, place, table, is_entry, reading: self.reading, known }
    }

    /// Applies `read` to each table of the list under `key`. `None` if the value is not a list of
    /// tables, which is reported.
    pub(super) fn entries<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&mut Section<'_>) -> T,
    ) -> Option<Vec<T>> {
        let Some(value) = self.find(key) else { return Some(Vec::new()) };
        let tables: Option<Vec<_>> = value.get_ref().as_array().and_then(|list| {
            list.iter()
                .map(|item| item.get_ref().as_table().map(|table| (table, item.span())))
                .collect()
        });
        let Some(tables) = tables else {
            let message = format!("`{key}` is a list of sections");
            let remedy = format!("write each under a line [[{key}]]");
            self.complain(
                ConfigProblem::new(Code::Kind, key, &ValuePlace::File(value.span()), message)
                    .remedy(remedy),
            );
            return None;
        };
        let mut entries = Vec::new();
        for (index, (table, span)) in tables.into_iter().enumerate() {
            let mut section = Section {
                kind: key,
                path: format!("{key}[{index}]"),
                place: ValuePlace::File(span),
                table: Some(table),
                is_entry: true,
                reading: self.reading,
                known: Vec::new(),
            };
            entries.push(read(&mut section));
            section.finish();
        }
        Some(entries)
    }

    /// The name of an entry, by which it is called from here on. An entry without a name keeps
    /// its number as a stand-in, so that the rest of it can be checked.
    pub(super) fn name(&mut self) -> Located<String> {
        match self.required("name", &name()) {
            Setting::Given(located) => {
                let kind = self.path.split('[').next().unwrap_or_default();
                self.path = format!("{kind}.{}", located.value);
                located
            }
            Setting::Absent | Setting::Refused => {
                Located { value: self.path.clone(), place: self.place.clone() }
            }
        }
    }

    /// The setting under `key`.
    pub(super) fn setting<T>(&mut self, key: &'static str, kind: &ValueKind<T>) -> Setting<T> {
        self.ask(key, kind, None, false)
    }

    /// The setting under `key`, which is `default` where it is not written.
    pub(super) fn or<T>(&mut self, key: &'static str, kind: &ValueKind<T>, default: T) -> T {
        self.ask(key, kind, Some(kind.show(&default)), false).or(default)
    }

    /// The setting under `key`. If it is absent, `default` holds, and the result still says that it
    /// is absent.
    pub(super) fn default_to<T>(
        &mut self,
        key: &'static str,
        kind: &ValueKind<T>,
        default: &T,
    ) -> Setting<T> {
        self.ask(key, kind, Some(kind.show(default)), false)
    }

    /// The setting under `key`, which has to be there.
    pub(super) fn required<T>(&mut self, key: &'static str, kind: &ValueKind<T>) -> Setting<T> {
        let setting = self.ask(key, kind, None, true);
        if setting.is_absent() {
            let message = format!("`{}` has no `{key}`", self.path);
            let remedy = format!("add a line `{key} = …`");
            let path = self.path_of(key);
            self.complain(
                ConfigProblem::new(Code::Missing, &path, &self.place, message).remedy(remedy),
            );
        }
        setting
    }

    fn ask<T>(
        &mut self,
        key: &'static str,
        kind: &ValueKind<T>,
        default: Option<String>,
        is_required: bool,
    ) -> Setting<T> {
        let path = self.path_of(key);
        self.note(key, kind.shape.clone(), default.clone(), is_required);
        let outside = if self.is_entry { None } else { self.reading.overrides.take(&path) };
        let setting = match (outside, self.find(key)) {
            (Some((place, text)), _) => self.judge(&path, place, kind.read(Written::Text(&text))),
            (None, Some(value)) => {
                let written = Written::Toml(value.get_ref());
                self.judge(&path, ValuePlace::File(value.span()), kind.read(written))
            }
            (None, None) => Setting::Absent,
        };
        if !self.is_entry {
            self.reading.listing.push(path, &setting, default, |value| kind.show(value));
        }
        setting
    }

    /// The list under `key`, each item with its place. Items that are wrong are left out.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        kind: &ValueKind<T>,
    ) -> Setting<Vec<Located<T>>> {
        self.note(key, ValueShape::List(Box::new(kind.shape.clone())), None, false);
        let Some(value) = self.find(key) else { return Setting::Absent };
        let (path, place) = (self.path_of(key), ValuePlace::File(value.span()));
        let Some(list) = value.get_ref().as_array() else {
            let message = format!("`{path}` is a list");
            let remedy = format!("write `{key} = [{}]`", as_items(value.get_ref()));
            self.complain(ConfigProblem::new(Code::Kind, &path, &place, message).remedy(remedy));
            return Setting::Refused;
        };
        let judge = |item: &Spanned<DeValue<'_>>| {
            let verdict = kind.read(Written::Toml(item.get_ref()));
            self.judge(&path, ValuePlace::File(item.span()), verdict)
        };
        let items = list.iter().map(judge).filter_map(Setting::into_located).collect();
        Setting::Given(Located { value: items, place })
    }

    /// Reports every key that was not asked for.
    pub(super) fn finish(self) {
        for (key, _) in self.table.into_iter().flatten() {
            let word: &str = key.get_ref();
            if self.known.contains(&word) {
                continue;
            }
            let guess = nearest(word, self.known.iter().copied());
            let guess = guess.map(|guess| format!("did you mean `{guess}`? ")).unwrap_or_default();
            let remedy = format!("{guess}settings here are {}", self.known.join(", "));
            let path = self.path_of(word);
            let message = format!("unknown setting `{path}`");
            let place = ValuePlace::File(key.span());
            let problem = ConfigProblem::new(Code::Unknown, &path, &place, message).remedy(remedy);
            self.reading.problems.add(problem);
        }
    }

    pub(super) fn complain(&mut self, problem: ConfigProblem) {
        self.reading.problems.add(problem);
    }

    fn note(
        &mut self,
        key: &'static str,
        shape: ValueShape,
        default: Option<String>,
        is_required: bool,
    ) {
        let asked = Asked { section: self.kind, key, shape, default, is_required };
        self.reading.asked.push(asked);
    }

    fn find(&mut self, key: &'static str) -> Option<&'r Spanned<DeValue<'r>>> {
        self.known.push(key);
        self.table.and_then(|table| table.get(key))
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn judge<T>(&mut self, path: &str, place: ValuePlace, verdict: ValueResult<T>) -> Setting<T> {
        match verdict {
            Ok(value) => Setting::Given(Located { value, place }),
            Err(Fault { code, message, remedy }) => {
                self.complain(
                    ConfigProblem::new(code, path, &place, format!("{path}: {message}"))
                        .remedy(remedy),
                );
                Setting::Refused
            }
        }
    }
}

/// The items of the list that a value was probably meant to be: itself, or its keys and values.
fn as_items(value: &DeValue<'_>) -> String {
    let pairs = |(key, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        value.get_ref().as_str().map(|value| format!("\"{}={value}\"", key.get_ref()))
    };
    let items = match (value.as_str(), value.as_table()) {
        (Some(text), _) => vec![format!("\"{text}\"")],
        (None, Some(table)) => table.iter().filter_map(pairs).collect(),
        (None, None) => Vec::new(),
    };
    if items.is_empty() { "\"…\", \"…\"".to_owned() } else { items.join(", ") }
}
