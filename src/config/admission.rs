//! Admission rules that the file declares, each a `[[admission]]`.

use std::path::PathBuf;
use std::time::Duration;

use super::descent::index_by_name;
use super::listing::Listing;
use super::problem::{Code, ConfigProblem, Problems, ValuePlace};
use super::section::Section;
use super::setting::{Located, Setting};
use super::shape::ValueShape;
use super::value::{
    ValueKind, Written, duration, millis, name, number, path, size, toml_list, toml_size,
    toml_span, toml_text,
};
use crate::model::{Mebibytes, Millis};

/// The longest time of a task, ten years: as long as a campaign file may say.
const LONGEST_TASK: Duration = Duration::from_hours(10 * 365 * 24);
/// The longest grace of a task.
const LONGEST_GRACE: Duration = Duration::from_mins(10);
/// The most tasks of a campaign.
const MOST_TASKS: i64 = 10_000_000;
/// The most slots of a campaign.
const MOST_SLOTS: i64 = 100_000;
/// The most campaigns of a user that have not ended.
const MOST_LIVE: i64 = 1_000_000;
/// The most memory of a slot, a petabyte: more than any node has.
const LARGEST: Mebibytes = Mebibytes(1 << 30);
/// Types of campaigns.
const TYPES: [&str; 2] = ["default", "test"];

/// A rule for campaigns that are submitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// Name of the rule.
    pub name: String,
    /// Users whose campaigns the rule is for. Empty: all.
    pub users: Vec<String>,
    /// Classes whose campaigns the rule is for. Empty: all.
    pub classes: Vec<String>,
    /// Types of campaigns that the rule is for. Empty: all.
    pub types: Vec<String>,
    /// Executable that gives the verdict. `None`: the limits and defaults do.
    pub program: Option<PathBuf>,
    /// Most tasks of a campaign.
    pub max_tasks: Option<u64>,
    /// Most memory of a slot, with all steps of `memory_retry`, in MiB.
    pub max_memory_mb: Option<u64>,
    /// Longest time limit of a task, in milliseconds. A campaign without a time limit exceeds it.
    pub max_time_ms: Option<Millis>,
    /// Most campaigns of the user that have not ended, the new campaign included.
    pub max_live: Option<u64>,
    /// Most slots of a campaign at a time. A campaign that asks for more gets this many.
    pub max_slots: Option<u64>,
    /// Fields that a campaign gets if it lacks them: key and value, as a campaign file has them.
    pub defaults: Vec<(&'static str, String)>,
}

/// A `[[admission]]` of the file.
#[derive(Debug)]
pub(super) struct AdmissionEntry {
    path: String,
    name: Located<String>,
    users: Setting<Vec<Located<String>>>,
    classes: Setting<Vec<Located<String>>>,
    types: Setting<Vec<Located<String>>>,
    program: Setting<PathBuf>,
    max_tasks: Setting<u64>,
    max_memory: Setting<Mebibytes>,
    max_time: Setting<Duration>,
    max_live: Setting<u64>,
    max_slots: Setting<u64>,
    memory: Setting<Mebibytes>,
    time_limit: Setting<Duration>,
    grace: Setting<Duration>,
    class: Setting<String>,
}

/// Reads an `[[admission]]`.
pub(super) fn read_rule(section: &mut Section<'_>) -> AdmissionEntry {
    let name_of_rule = section.name();
    let memory = size(Mebibytes(1)..=LARGEST);
    let time = duration(Duration::from_millis(1)..=LONGEST_TASK);
    AdmissionEntry {
        name: name_of_rule,
        users: section.list("users", &name()),
        classes: section.list("classes", &name()),
        types: section.list("types", &type_of_campaign()),
        program: section.setting("program", &path()),
        max_tasks: section.setting("max_tasks", &number(1..=MOST_TASKS)),
        max_memory: section.setting("max_memory", &memory),
        max_time: section.setting("max_time", &time),
        max_live: section.setting("max_live", &number(1..=MOST_LIVE)),
        max_slots: section.setting("max_slots", &number(1..=MOST_SLOTS)),
        memory: section.setting("memory", &memory),
        time_limit: section.setting("time_limit", &time),
        grace: section.setting("grace", &duration(Duration::ZERO..=LONGEST_GRACE)),
        class: section.setting("class", &name()),
        path: section.path().to_owned(),
    }
}

fn type_of_campaign() -> ValueKind<String> {
    let read = |written: Written<'_>| {
        let named = written.text().filter(|text| TYPES.contains(text)).map(str::to_owned);
        named.ok_or_else(|| {
            let remedy = "write \"default\" or \"test\"";
            written.fault(Code::Unknown, "is no type of campaign", remedy)
        })
    };
    ValueKind::new(ValueShape::Word(TYPES.to_vec()), read, |text| toml_text(text))
}

/// Checks the rules: each has a name of its own, does something, and names classes that there are.
pub(super) fn check(entries: &[AdmissionEntry], classes: &[&str], problems: &mut Problems) {
    index_by_name("admission", entries.iter().map(|entry| &entry.name), problems);
    for entry in entries {
        entry.check_purpose(problems);
        entry.check_defaults(problems);
        let listed = entry.classes.given().into_iter().flat_map(|list| &list.value);
        let named = listed.map(|class| ("classes", class));
        for (key, class) in named.chain(entry.class.given().map(|class| ("class", class))) {
            if classes.contains(&class.value.as_str()) {
                continue;
            }
            let message = format!("no class is called `{}`", class.value);
            let remedy = format!("write one of {}", classes.join(", "));
            entry.complain(problems, Code::UnknownClass, key, &class.place, message, &remedy);
        }
    }
}

impl AdmissionEntry {
    fn complain(
        &self,
        problems: &mut Problems,
        code: Code,
        key: &str,
        place: &ValuePlace,
        message: String,
        remedy: &str,
    ) {
        let path = format!("{}.{key}", self.path);
        problems.add(ConfigProblem::new(code, &path, place, message).remedy(remedy));
    }

    /// True if the rule has a limit or a default, right or wrong.
    fn is_declared(&self) -> bool {
        let absent = [
            self.max_tasks.is_absent(),
            self.max_memory.is_absent(),
            self.max_time.is_absent(),
            self.max_live.is_absent(),
            self.max_slots.is_absent(),
            self.memory.is_absent(),
            self.time_limit.is_absent(),
            self.grace.is_absent(),
            self.class.is_absent(),
        ];
        absent.contains(&false)
    }

    /// Reports a rule that does nothing, or two things.
    fn check_purpose(&self, problems: &mut Problems) {
        let name = &self.name.value;
        if self.program.is_absent() && !self.is_declared() {
            let message = format!("the rule `{name}` has neither a limit nor a default");
            let remedy = "add a limit such as max_tasks, a default such as memory, or a program";
            self.complain(problems, Code::Missing, "name", &self.name.place, message, remedy);
        }
        if let Some(place) = self.program.place().filter(|_| self.is_declared()) {
            let message =
                format!("the rule `{name}` has a program, and limits or defaults beside it");
            let remedy = "make two rules of it, in the order in which they are to hold";
            self.complain(problems, Code::Misplaced, "program", place, message, remedy);
        }
    }

    /// Reports defaults that the rule itself would reject.
    fn check_defaults(&self, problems: &mut Problems) {
        if let (Some(most), Some(given)) = (self.max_memory.given(), self.memory.given())
            && most.value < given.value
        {
            let message = format!("{} is more than max_memory, {}", given.value, most.value);
            let remedy = "lower memory, or raise max_memory";
            self.complain(problems, Code::Range, "memory", &given.place, message, remedy);
        }
        if let (Some(most), Some(given)) = (self.max_time.given(), self.time_limit.given())
            && most.value < given.value
        {
            let message = "the time limit is longer than max_time".to_owned();
            let remedy = "lower time_limit, or raise max_time";
            self.complain(problems, Code::Range, "time_limit", &given.place, message, remedy);
        }
    }

    /// Adds the settings of the rule to the listing.
    pub(super) fn list(&self, listing: &mut Listing) {
        let key = |key: &str| format!("{}.{key}", self.path);
        let texts =
            |list: &Vec<Located<String>>| toml_list(list.iter().map(|item| toml_text(&item.value)));
        let none = || Some("[]".to_owned());
        let size = |size: &Mebibytes| toml_size(*size);
        let span = |span: &Duration| toml_span(millis(*span));
        listing.push(key("users"), &self.users, none(), texts);
        listing.push(key("classes"), &self.classes, none(), texts);
        listing.push(key("types"), &self.types, none(), texts);
        let path = |path: &PathBuf| toml_text(&path.to_string_lossy());
        listing.push(key("program"), &self.program, None, path);
        listing.push(key("max_tasks"), &self.max_tasks, None, u64::to_string);
        listing.push(key("max_memory"), &self.max_memory, None, size);
        listing.push(key("max_time"), &self.max_time, None, span);
        listing.push(key("max_live"), &self.max_live, None, u64::to_string);
        listing.push(key("max_slots"), &self.max_slots, None, u64::to_string);
        listing.push(key("memory"), &self.memory, None, size);
        listing.push(key("time_limit"), &self.time_limit, None, span);
        listing.push(key("grace"), &self.grace, None, span);
        listing.push(key("class"), &self.class, None, |class| toml_text(class));
    }

    /// The rule.
    pub(super) fn settings(&self) -> AdmissionSettings {
        let texts = |list: &Setting<Vec<Located<String>>>| {
            let items = list.given().into_iter().flat_map(|list| &list.value);
            items.map(|item| item.value.clone()).collect()
        };
        let memory = self.memory.given().map(|size| format!("{}MB", size.value.0));
        let span =
            |span: &Setting<Duration>| span.given().map(|span| format!("{}ms", millis(span.value)));
        let defaults = [
            ("class", self.class.clone().into_value()),
            ("memory", memory),
            ("time_limit", span(&self.time_limit)),
            ("grace", span(&self.grace)),
        ];
        let given = defaults.into_iter().filter_map(|(key, value)| Some((key, value?)));
        AdmissionSettings {
            name: self.name.value.clone(),
            users: texts(&self.users),
            classes: texts(&self.classes),
            types: texts(&self.types),
            program: self.program.clone().into_value(),
            max_tasks: self.max_tasks.clone().into_value(),
            max_memory_mb: self.max_memory.clone().into_value().map(|size| size.0),
            max_time_ms: self.max_time.clone().into_value().map(millis),
            max_live: self.max_live.clone().into_value(),
            max_slots: self.max_slots.clone().into_value(),
            defaults: given.collect(),
        }
    }
}
