//! Settings from outside the file: `APPORTION__SCHEDULER__QUANTUM` overrides `quantum` in
//! `[scheduler]`, and `--set scheduler.quantum=4GB` overrides both.
//!
//! The `config` crate gathers the variables; the loader checks the values like values of the file.
//! Only sections of single settings can be overridden; pools, classes and users are defined in the
//! file. An override that matches no setting is a problem, as the slip would otherwise stay
//! unnoticed.

use std::collections::{BTreeMap, BTreeSet};

use ::config::{Environment, Source};

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
    pub(super) fn of_process(flags: &[Flag]) -> Result<Overrides, ::config::ConfigError> {
        Ok(Overrides::collect(&Environment::default())?.with(flags))
    }

    /// Returns the overrides of a made-up environment.
    #[cfg(test)]
    pub(super) fn of(variables: &[(&str, &str)]) -> Overrides {
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Overrides::collect(&Environment::default().source(Some(variables.collect()))).unwrap()
    }

    /// Returns these overrides, with `flags` on top.
    pub(super) fn with(mut self, flags: &[Flag]) -> Overrides {
        for Flag { path, value, flag } in flags {
            self.values.insert(path.clone(), (ValuePlace::Flag(flag.clone()), value.clone()));
        }
        self
    }

    fn collect(environment: &Environment) -> Result<Overrides, ::config::ConfigError> {
        let environment = environment.clone().prefix(PREFIX).separator(SEPARATOR);
        let values = environment.collect()?.into_iter();
        let values = values.map(|(path, value)| {
            let place = ValuePlace::Variable(variable(&path));
            Ok((path, (place, value.into_string()?)))
        });
        Ok(Overrides {
            values: values.collect::<Result<_, ::config::ConfigError>>()?,
            asked: BTreeSet::new(),
        })
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

/// The variable that overrides the setting at `path`.
fn variable(path: &str) -> String {
    format!("{PREFIX}{SEPARATOR}{}", path.to_uppercase().replace('.', SEPARATOR))
}
