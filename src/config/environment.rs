//! Settings from outside the file: `APPORTION__SCHEDULER__QUANTUM` overrides `quantum` in
//! `[scheduler]`, and `--set scheduler.quantum=4GB` overrides both.
//!
//! The loader checks the values like values of the file.
//! Only sections of single settings can be overridden; pools, classes and users are defined in the
//! file. An override that matches no setting is a problem, as the slip would otherwise stay
//! unnoticed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use super::problem::{Code, ConfigProblem, Problems, ValuePlace, suggest};

const PREFIX: &str = "APPORTION";
const SEPARATOR: &str = "__";

/// A setting given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Key of the setting, "scheduler.quantum".
    pub path: String,
    /// Value of the setting, as a variable would hold it.
    pub value: String,
    /// Name of the flag, "--listen".
    pub flag: String,
}

/// Overrides of the environment and the command line by key path, and the paths that can be
/// overridden.
#[derive(Clone, Debug, Default)]
pub(super) struct Overrides {
    values: BTreeMap<String, (ValuePlace, String)>,
    asked: BTreeSet<String>,
}

impl Overrides {
    /// Returns the overrides of this process's environment, with `flags` on top.
    pub(super) fn of_process(flags: &[Flag]) -> Result<Overrides, NotText> {
        Ok(Overrides::collect(std::env::vars_os())?.with(flags))
    }

    /// Returns the overrides of a made-up environment.
    #[cfg(test)]
    pub(super) fn of(variables: &[(&str, &str)]) -> Overrides {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        Overrides::collect(variables).unwrap()
    }

    /// Returns these overrides, with `flags` on top.
    pub(super) fn with(mut self, flags: &[Flag]) -> Overrides {
        for Flag { path, value, flag } in flags {
            self.values.insert(path.clone(), (ValuePlace::Flag(flag.clone()), value.clone()));
        }
        self
    }

    fn collect(
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Overrides, NotText> {
        let mut values = BTreeMap::new();
        for (name, value) in variables {
            let Some(path) = name.to_str().and_then(path_of) else { continue };
            let place = ValuePlace::Variable(variable(&path));
            let value = value.into_string().map_err(|_| NotText { variable: variable(&path) })?;
            values.insert(path, (place, value));
        }
        Ok(Overrides { values, asked: BTreeSet::new() })
    }

    /// Takes the override of the setting at `path` and its place. `None`: the setting is not
    /// overridden.
    pub(super) fn take(&mut self, path: &str) -> Option<(ValuePlace, String)> {
        self.asked.insert(path.to_owned());
        self.values.remove(path)
    }

    /// Reports overrides that match no setting.
    pub(super) fn finish(self, problems: &mut Problems) {
        for (path, (place, _)) in self.values {
            let (name, known): (_, Vec<String>) = match &place {
                ValuePlace::Flag(_) => (path.clone(), self.asked.iter().cloned().collect()),
                ValuePlace::Variable(name) => {
                    (name.clone(), self.asked.iter().map(|path| variable(path)).collect())
                }
                ValuePlace::File(_) => continue,
            };
            let remedy = suggest(&name, known.iter().map(String::as_str));
            let message = format!("`{name}` overrides no setting");
            problems.add(ConfigProblem::new(Code::Unknown, &path, &place, message).remedy(remedy));
        }
    }
}

/// A variable of ours whose value is no UTF-8.
#[derive(Debug, thiserror::Error)]
#[error("the value of {variable} is no UTF-8 text; set it anew, or unset it")]
pub struct NotText {
    variable: String,
}

/// The setting that a variable overrides, "scheduler.quantum"; `None` for variables of others.
fn path_of(variable: &str) -> Option<String> {
    let lower = variable.to_lowercase();
    let rest = lower.strip_prefix(&PREFIX.to_lowercase())?.strip_prefix(SEPARATOR)?;
    Some(rest.replace(SEPARATOR, "."))
}

/// The variable that overrides the setting at `path`.
fn variable(path: &str) -> String {
    format!("{PREFIX}{SEPARATOR}{}", path.to_uppercase().replace('.', SEPARATOR))
}
