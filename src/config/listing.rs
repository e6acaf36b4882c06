//! Listing of all settings in effect, each with its origin.

use std::collections::BTreeMap;
use std::fmt;

use super::problem::ValuePlace;
use super::setting::{Located, Setting};

/// Origin of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The default, as the setting is absent.
    Default,
    /// The file, in this line.
    Line(usize),
    /// This environment variable.
    Variable(String),
    /// This flag of the command line.
    Flag(String),
}

/// A setting in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Key of the setting: "scheduler.quantum", "class.normal.weight".
    pub path: String,
    /// Value in the notation of the file. `None`: the setting is absent and has no default.
    pub value: Option<String>,
    /// Origin of the value.
    pub origin: Origin,
}

/// Difference of a value between two configurations. `None` on a side that does not have the
/// setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Key of the setting.
    pub path: String,
    /// Value before the change.
    pub before: Option<String>,
    /// Value after the change.
    pub after: Option<String>,
}

/// Every setting in effect, in the order of the sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    rows: Vec<Row>,
    /// Byte offsets at which the lines of the file begin.
    lines: Vec<usize>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Line(line) => write!(f, "line {line}"),
            Origin::Variable(name) => write!(f, "environment, {name}"),
            Origin::Flag(flag) => write!(f, "flag, {flag}"),
        }
    }
}

impl Listing {
    /// None yet, of a file that says `text`.
    pub(super) fn of(text: &str) -> Listing {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Listing { rows: Vec::new(), lines: std::iter::once(0).chain(ends).collect() }
    }

    /// All settings, in order.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    /// Returns the differences to `next`, without regard to the origin. Changed and removed
    /// settings come first, in this listing's order; then new settings.
    pub fn changes_to(&self, next: &Listing) -> Vec<Change> {
        let by_path = |listing: &Listing| -> BTreeMap<String, Option<String>> {
            listing.rows().map(|row| (row.path.clone(), row.value.clone())).collect()
        };
        let (before, after) = (by_path(self), by_path(next));
        let old = self.rows().map(|row| &row.path);
        let new = next.rows().map(|row| &row.path).filter(|path| !before.contains_key(*path));
        let changes = old.chain(new).map(|path| Change {
            path: path.clone(),
            before: before.get(path).cloned().flatten(),
            after: after.get(path).cloned().flatten(),
        });
        changes.filter(|change| change.before != change.after).collect()
    }

    pub(super) fn push<T>(
        &mut self,
        path: String,
        setting: &Setting<T>,
        default: Option<String>,
        show: impl Fn(&T) -> String,
    ) {
        let row = match setting.given() {
            Some(Located { value, place }) => {
                Row { path, value: Some(show(value)), origin: self.origin(place) }
            }
            None => Row { path, value: default, origin: Origin::Default },
        };
        self.rows.push(row);
    }

    fn origin(&self, place: &ValuePlace) -> Origin {
        match place {
            ValuePlace::File(span) => {
                Origin::Line(self.lines.partition_point(|line| *line <= span.start))
            }
            ValuePlace::Variable(name) => Origin::Variable(name.clone()),
            ValuePlace::Flag(flag) => Origin::Flag(flag.clone()),
        }
    }
}
