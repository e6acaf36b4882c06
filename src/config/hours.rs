//! Hours of classes: when a class is open, and the time zone of these hours.

use std::collections::BTreeMap;

use jiff::tz::{self, TimeZone};

use super::problem::{Code, ConfigProblem, Problems, quoted};
use super::setting::{Located, Setting};
use super::shape::ValueShape;
use super::value::{Fault, ValueKind, ValueResult, Written, toml_text};
use crate::model::{ActiveEntry, ActiveHours, Name, nearest};

/// Hours of all classes that are not always open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassCalendar {
    /// Time zone of the hours.
    pub zone: TimeZone,
    /// Hours of each class, by name. Absent classes are always open.
    pub classes: BTreeMap<Name, ActiveHours>,
}

impl Default for ClassCalendar {
    /// Returns the calendar of classes that are always open.
    fn default() -> ClassCalendar {
        ClassCalendar { zone: TimeZone::UTC, classes: BTreeMap::new() }
    }
}

impl ClassCalendar {
    /// The calendar of the classes with these settings.
    pub(super) fn new<'a>(
        zone: TimeZone,
        classes: impl Iterator<Item = (&'a Name, &'a Setting<Vec<Located<ActiveEntry>>>)>,
    ) -> ClassCalendar {
        let hours = classes.filter_map(|(class, active)| {
            let hours = hours_of(&active.given()?.value);
            Some((class.clone(), hours)).filter(|(_, hours)| !hours.are_always())
        });
        ClassCalendar { classes: hours.collect(), zone }
    }

    /// Hours of a class with their time zone, "mon-fri 20:00-06:00, sat-sun (Europe/Vienna)".
    /// `None` if the class is always open.
    pub fn text(&self, class: &str) -> Option<String> {
        self.classes.get(class).map(|hours| format!("{hours} ({})", name_of(&self.zone)))
    }
}

/// Hours that a class sets.
#[derive(Clone, Copy, Debug)]
pub(super) struct HoursOfClass<'a> {
    pub class: &'a str,
    pub path: &'a str,
    /// True if the class inherits from another.
    pub is_heir: bool,
    pub active: &'a Setting<Vec<Located<ActiveEntry>>>,
}

/// Reports hours that are never or always. An heir may be always open: its parent may have hours.
pub(super) fn check<'a>(classes: impl Iterator<Item = HoursOfClass<'a>>, problems: &mut Problems) {
    for HoursOfClass { class, path, is_heir, active } in classes {
        let Some(Located { value, place }) = active.given() else { continue };
        let path = format!("{path}.active");
        // A list of nothing but unreadable entries is empty, too.
        if problems.iter().any(|problem| problem.path == path) {
            continue;
        }
        let (problem, remedy) = if value.is_empty() {
            (
                "is never open",
                "name hours, such as \"mon-fri 20:00-06:00\"; `users = []` closes a class for good",
            )
        } else if !is_heir && hours_of(value).are_always() {
            ("is always open", "remove `active`; a class without it is always open")
        } else {
            continue;
        };
        let message = format!("class `{class}` {problem} by its `active`");
        problems.add(ConfigProblem::new(Code::Hours, &path, place, message).remedy(remedy));
    }
}

fn hours_of(entries: &[Located<ActiveEntry>]) -> ActiveHours {
    ActiveHours(entries.iter().map(|entry| entry.value).collect())
}

/// An entry of `active`: "mon-fri 20:00-06:00".
pub(super) fn active() -> ValueKind<ActiveEntry> {
    ValueKind::new(ValueShape::Active, read_active, |entry| toml_text(&entry.to_string()))
}

fn read_active(written: Written<'_>) -> ValueResult<ActiveEntry> {
    let remedy = "write days from mon to sun, then times: \"mon-fri 20:00-06:00\", \"sat-sun\"";
    let no_text = || written.fault(Code::Hours, "is not a text", remedy);
    let text = written.text().ok_or_else(no_text)?;
    text.parse().map_err(|problem| Fault {
        code: Code::Hours,
        message: format!("{} cannot be read: {problem}", quoted(text)),
        remedy: remedy.to_owned(),
    })
}

/// A time zone by its name in the time zone data of this machine.
pub(super) fn zone() -> ValueKind<TimeZone> {
    ValueKind::new(ValueShape::Zone, read_zone, |zone| toml_text(name_of(zone)))
}

/// Name of a zone that was read by its name.
fn name_of(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("UTC")
}

fn read_zone(written: Written<'_>) -> ValueResult<TimeZone> {
    let text = written.text().unwrap_or_default();
    // Machines without time zone data know this one, too.
    if text.eq_ignore_ascii_case("UTC") {
        return Ok(TimeZone::UTC);
    }
    let known = |text: &str| TimeZone::get(text).ok().filter(|zone| !zone.is_unknown());
    known(text).ok_or_else(|| {
        let names: Vec<String> = tz::db().available().map(|name| name.to_string()).collect();
        let near = nearest(text, names.iter().map(String::as_str));
        let remedy = match near {
            _ if names.is_empty() => {
                "this machine has no time zone data: install the package tzdata, or write \"UTC\""
                    .to_owned()
            }
            Some(near) => format!("did you mean `{near}`?"),
            None => "write a name such as \"Europe/Vienna\" or \"UTC\"; \
                     `timedatectl list-timezones` lists them"
                .to_owned(),
        };
        written.fault(Code::Zone, "is not a time zone", remedy)
    })
}
