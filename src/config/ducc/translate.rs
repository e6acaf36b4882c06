//! Stanza by stanza, from the original's words to ours.

use std::collections::{BTreeMap, BTreeSet};

use super::super::ConfigError;
use super::super::problem::{Code, ConfigProblem, ValuePlace, suggest};
use super::super::value::{toml_list, toml_text};
use super::book::{Book, DEFAULT_NODES, Source, SourceFile};
use super::nodes::Hosts;
use super::stanzas::{Attribute, Stanza, Word};
use crate::model::fold_hostlist;

/// Keys of a nodepool.
const POOL_KEYS: [&str; 5] = ["nodefile", "parent", "domain", "share-quantum", "search-order"];
/// Keys of a class and their names here. `Err`: no counterpart, for this reason.
const CLASS_KEYS: [(&str, Result<&str, &str>); 19] = [
    ("policy", Ok("policy")),
    ("nodepool", Ok("nodepool")),
    ("priority", Ok("priority")),
    ("weight", Ok("weight")),
    ("abstract", Ok("abstract")),
    ("default", Ok("default")),
    ("users", Ok("users")),
    ("expand-by-doubling", Ok("expand_by_doubling")),
    ("initialization-cap", Ok("initialization_cap")),
    ("use-prediction", Ok("prediction")),
    ("prediction-fudge", Ok("prediction_fudge")),
    ("debug", Err("a job that is debugged names its class itself")),
    ("enforce", Err("UIMA-DUCC does not use it")),
    ("cap", Err("UIMA-DUCC does not use it")),
    ("max-processes", Err("UIMA-DUCC does not use it")),
    ("max-machines", Err("UIMA-DUCC does not use it")),
    ("name", Err("a class is called what its stanza says")),
    ("type", Err("UIMA-DUCC sets it itself")),
    ("children", Err("UIMA-DUCC sets it itself")),
];
/// Key of the memory that a user may hold.
const ALLOTMENT: &str = "max-allotment";

/// The translation as far as it is made.
#[derive(Debug, Default)]
pub(super) struct Translation {
    pub text: String,
    /// Origin of each line of the text.
    pub sources: Vec<Option<Source>>,
    pub notes: Vec<String>,
}

/// The nodepools among `stanzas`.
pub(super) fn pools_in(stanzas: &[Stanza]) -> Vec<&Stanza> {
    stanzas.iter().filter(|stanza| stanza.keyword.text == "Nodepool").collect()
}

/// All words of an attribute, joined by blanks.
pub(super) fn text_of(attribute: &Attribute) -> String {
    attribute.text()
}

/// Returns the node file of each pool: the file that it names, or the default file. Reports pools
/// that share a file.
pub(super) fn node_files(pools: &[&Stanza], book: &mut Book) -> Vec<String> {
    let mut firsts: BTreeMap<String, &Stanza> = BTreeMap::new();
    let mut files = Vec::new();
    for pool in pools {
        let named = pool.attribute("nodefile");
        let file = named.map_or_else(|| DEFAULT_NODES.to_owned(), Attribute::text);
        if let Some(first) = firsts.get(&file) {
            let (one, other) = (&first.name.text, &pool.name.text);
            let message = match named {
                Some(_) => format!("nodepools `{one}` and `{other}` share the node file `{file}`"),
                None => format!(
                    "nodepool `{other}` has no node file, so it has `{file}`, as has `{one}`"
                ),
            };
            let place = ValuePlace::File(named.map_or(pool.name.span.clone(), Attribute::span));
            let problem = ConfigProblem::new(Code::Duplicate, &pool.name.text, &place, message);
            let place = ValuePlace::File(first.name.span.clone());
            let problem = problem.related(&place, "the first");
            book.add(problem.remedy("give each nodepool a `nodefile` of its own"));
        }
        firsts.entry(file.clone()).or_insert(pool);
        files.push(file);
    }
    files
}

impl Translation {
    /// Adds a line made from a piece of a file.
    pub(super) fn line(&mut self, text: &str, file: SourceFile, word: &Word) {
        self.text.push_str(text);
        self.text.push('\n');
        self.sources.push(Some(Source { file, span: word.span.clone() }));
    }

    /// Adds an empty line.
    pub(super) fn blank(&mut self) {
        self.text.push('\n');
        self.sources.push(None);
    }

    /// `key = value`, made from an attribute.
    pub(super) fn setting(&mut self, key: &str, value: &str, file: SourceFile, from: &Attribute) {
        let word = Word { text: String::new(), span: from.span() };
        self.line(&format!("{key} = {value}"), file, &word);
    }

    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The nodepools, with their nodes.
    ///
    /// # Errors
    ///
    /// If a node file cannot be read.
    pub(super) fn pools(
        &mut self,
        pools: &[&Stanza],
        hosts: &mut Hosts<'_>,
        book: &mut Book,
    ) -> Result<(), ConfigError> {
        for (index, pool) in pools.iter().enumerate() {
            only_known(pool, &POOL_KEYS, book);
            if let Some(parent) = &pool.parent {
                let message = format!("nodepool `{}` cannot inherit", pool.name.text);
                let place = ValuePlace::File(parent.span.clone());
                let remedy = format!("to make it a part of `{0}`, write `parent {0}`", parent.text);
                book.add(ConfigProblem::new(Code::Misplaced, "", &place, message).remedy(remedy));
            }
            if let Some(domain) = pool.attribute("domain") {
                if 0 < index {
                    let place = ValuePlace::File(domain.key.span.clone());
                    let problem =
                        ConfigProblem::new(Code::Misplaced, "", &place, "a second `domain`");
                    book.add(problem.remedy("only the first nodepool has it"));
                }
                self.note("nodes are called as the node files call them: agents must report the same names".to_owned());
            }
            self.blank();
            self.line("[[nodepool]]", SourceFile::Classes, &pool.name);
            let name = format!("name = {}", toml_text(&pool.name.text));
            self.line(&name, SourceFile::Classes, &pool.name);
            if let Some(parent) = pool.attribute("parent") {
                self.setting("parent", &toml_text(&parent.text()), SourceFile::Classes, parent);
            }
            if let Some(order) = pool.attribute("search-order") {
                self.setting("search_order", &number(order), SourceFile::Classes, order);
            }
            if let Some(quantum) = pool.attribute("share-quantum") {
                self.setting("quantum", &gigabytes(quantum), SourceFile::Classes, quantum);
            }
            self.nodes(pool, hosts, book)?;
        }
        Ok(())
    }

    fn nodes(
        &mut self,
        pool: &Stanza,
        hosts: &mut Hosts<'_>,
        book: &mut Book,
    ) -> Result<(), ConfigError> {
        let named = pool.attribute("nodefile");
        let file = named.map_or_else(|| DEFAULT_NODES.to_owned(), Attribute::text);
        if let Some(named) =
            named.filter(|_| file.rsplit_once('.').is_some_and(|(_, ending)| ending == "regex"))
        {
            let message = format!("nodepool `{}` has its nodes from a pattern", pool.name.text);
            let problem =
                ConfigProblem::new(Code::Nodes, "", &ValuePlace::File(named.span()), message);
            book.add(problem.remedy("name a file that lists them: host lists have no patterns"));
            return Ok(());
        }
        if named.is_none() && !hosts.folder.join(&file).exists() {
            return Ok(());
        }
        let nodes = match hosts.of(&file) {
            Err(ConfigError::NotFound { path }) => {
                let message = format!("there is no node file {}", path.display());
                let place = ValuePlace::File(named.map_or(pool.name.span.clone(), Attribute::span));
                let problem = ConfigProblem::new(Code::Nodes, "", &place, message);
                book.add(problem.remedy("name the folder of the node files with --nodes"));
                return Ok(());
            }
            nodes => nodes?,
        };
        if !nodes.is_empty() {
            let folded = fold_hostlist(nodes.iter().map(String::as_str));
            let line = format!("nodes = {}", toml_list([toml_text(&folded)]));
            self.line(&line, SourceFile::Classes, &pool.name);
        }
        Ok(())
    }

    /// The classes.
    pub(super) fn classes(&mut self, stanzas: &[Stanza], book: &mut Book) {
        let classes = stanzas.iter().filter(|stanza| stanza.keyword.text == "Class");
        let mut policies = BTreeSet::new();
        let mut defaults = BTreeSet::new();
        for class in classes {
            only_known(class, &CLASS_KEYS.map(|(key, _)| key), book);
            self.blank();
            self.line("[[class]]", SourceFile::Classes, &class.name);
            let name = format!("name = {}", toml_text(&class.name.text));
            self.line(&name, SourceFile::Classes, &class.name);
            if let Some(parent) = &class.parent {
                let line = format!("inherit = {}", toml_text(&parent.text));
                self.line(&line, SourceFile::Classes, parent);
            }
            for attribute in &class.attributes {
                self.class_attribute(class, attribute);
            }
            let policy = policy_of(class, stanzas);
            if class.attribute("default").is_some() {
                defaults.insert(policy.clone());
            }
            policies.insert(policy);
        }
        for policy in policies.difference(&defaults) {
            self.note(format!(
                "no class is the default for {policy}: such jobs have to name their class"
            ));
        }
    }

    fn class_attribute(&mut self, class: &Stanza, attribute: &Attribute) {
        let key = attribute.key.text.as_str();
        let ours = match CLASS_KEYS.iter().find(|(known, _)| *known == key) {
            Some((_, Ok(ours))) => ours,
            Some((_, Err(why))) => return self.note(format!("`{key}` is left out: {why}")),
            None => return,
        };
        let text = attribute.text();
        let value = match key {
            "abstract" | "default" => {
                if text != "true" {
                    self.note(format!(
                        "class `{}` has `{key} = {text}`; UIMA-DUCC takes any value for true",
                        class.name.text
                    ));
                }
                "true".to_owned()
            }
            "policy" => toml_text(&text.to_lowercase().replace('_', "-")),
            "nodepool" => toml_text(&text),
            "users" => toml_list(attribute.values.iter().map(|user| toml_text(&user.text))),
            "expand-by-doubling" | "use-prediction" => flag(&text),
            "prediction-fudge" => milliseconds(&text),
            "initialization-cap" => cap(&text),
            _ => number(attribute),
        };
        self.setting(ours, &value, SourceFile::Classes, attribute);
    }

    /// The users among `stanzas`, which are of `file`; `all` has the classes.
    pub(super) fn users(
        &mut self,
        stanzas: &[Stanza],
        all: &[Stanza],
        file: SourceFile,
        book: &mut Book,
    ) {
        let classes = all.iter().filter(|stanza| stanza.keyword.text == "Class");
        let classes: Vec<&str> = classes.map(|class| class.name.text.as_str()).collect();
        let users = || stanzas.iter().filter(|stanza| stanza.keyword.text == "User");
        for user in users() {
            for attribute in &user.attributes {
                if attribute.key.text == ALLOTMENT {
                    whole(attribute, book);
                } else if is_class_limit(attribute, &classes, book) {
                    self.note(
                        "limits of users for one class are left out: UIMA-DUCC ignores them"
                            .to_owned(),
                    );
                }
            }
            let parent = user.parent.as_ref();
            let parent = parent.and_then(|parent| users().find(|one| one.name.text == parent.text));
            let inherited = parent.and_then(|parent| parent.attribute(ALLOTMENT));
            if let Some(allotment) = user.attribute(ALLOTMENT).or(inherited) {
                self.blank();
                self.line("[[user]]", file, &user.name);
                self.line(&format!("name = {}", toml_text(&user.name.text)), file, &user.name);
                self.setting("allotment", &gigabytes(allotment), file, allotment);
            }
        }
    }
}

/// The policy of a class, inherited if necessary, as UIMA-DUCC calls it.
fn policy_of(class: &Stanza, stanzas: &[Stanza]) -> String {
    let mut next = Some(class);
    // At most as many steps as there are stanzas: a class that inherits from itself, which the
    // loader reports, would never end.
    for _ in stanzas {
        let Some(class) = next else { break };
        if let Some(policy) = class.attribute("policy") {
            return policy.text();
        }
        let is_parent = |stanza: &&Stanza| {
            stanza.keyword.text == "Class"
                && class.parent.as_ref().is_some_and(|parent| parent.text == stanza.name.text)
        };
        next = stanzas.iter().find(is_parent);
    }
    "no policy".to_owned()
}

fn only_known(stanza: &Stanza, known: &[&str], book: &mut Book) {
    for attribute in &stanza.attributes {
        let key = attribute.key.text.as_str();
        if !known.contains(&key) {
            let message = format!("`{}` has an unknown `{key}`", stanza.name.text);
            let place = ValuePlace::File(attribute.key.span.clone());
            let remedy = suggest(key, known.iter().copied());
            book.add(ConfigProblem::new(Code::Unknown, key, &place, message).remedy(remedy));
        }
    }
}

/// True if this is a limit for a single class, `max_allotment.normal = 50`. Reports every other
/// key, and a limit for an unknown class.
fn is_class_limit(attribute: &Attribute, classes: &[&str], book: &mut Book) -> bool {
    let key = attribute.key.text.as_str();
    let place = ValuePlace::File(attribute.key.span.clone());
    let class =
        ["max_allotment.", "max-allotment."].iter().find_map(|start| key.strip_prefix(start));
    let Some(class) = class else {
        let message = format!("`{key}` is no limit of a user");
        let problem = ConfigProblem::new(Code::Allotment, key, &place, message);
        book.add(problem.remedy("write `max-allotment = GB`"));
        return false;
    };
    if !classes.contains(&class) {
        let message = format!("`{key}` is a limit for `{class}`, which is no class");
        let remedy = suggest(class, classes.iter().copied());
        book.add(ConfigProblem::new(Code::Allotment, key, &place, message).remedy(remedy));
    }
    whole(attribute, book);
    true
}

fn whole(attribute: &Attribute, book: &mut Book) {
    let text = attribute.text();
    if text.parse::<u64>().is_err() {
        let message = format!("`{}` is {text}, which is no whole number of GB", attribute.key.text);
        let place = ValuePlace::File(attribute.span());
        let problem = ConfigProblem::new(Code::Allotment, &attribute.key.text, &place, message);
        book.add(problem.remedy("write a number, without a unit"));
    }
}

/// A number as it is; anything else as text, for the loader to refuse.
fn number(attribute: &Attribute) -> String {
    let text = attribute.text();
    text.parse::<i64>().map_or_else(|_| toml_text(&text), |number| number.to_string())
}

pub(super) fn gigabytes(attribute: &Attribute) -> String {
    toml_text(&format!("{}GB", attribute.text()))
}

pub(super) fn flag(text: &str) -> String {
    match text {
        "true" | "false" => text.to_owned(),
        other => toml_text(other),
    }
}

pub(super) fn milliseconds(text: &str) -> String {
    toml_text(&format!("{text}ms"))
}

/// Returns the initialization cap. UIMA-DUCC takes 0 and negative numbers as "no cap".
pub(super) fn cap(text: &str) -> String {
    const NO_CAP: &str = "1000000";
    match text.parse::<i64>() {
        Ok(..=0) => NO_CAP.to_owned(),
        Ok(cap) => cap.to_string(),
        Err(_) => toml_text(text),
    }
}
