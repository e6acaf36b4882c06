//! Settings from the environment: `APPORTION__SCHEDULER__QUANTUM` overrides `quantum` in
//! `[scheduler]`.
//!
//! The variables are gathered by the `config` crate, the values are checked like those of the
//! file. Only the sections that hold single settings can be overridden; pools, classes and users
//! live in the file. A variable that overrides nothing is a problem: it is a slip that would
//! otherwise never be noticed.

use std::collections::{BTreeMap, BTreeSet};

use ::config::{Environment, Source};

use super::problem::{Code, Place, Problem, Problems, suggest};

const PREFIX: &str = "APPORTION";
const SEPARATOR: &str = "__";

/// What the environment says, by key path, and which paths it could say anything about.
#[derive(Debug, Default)]
pub(super) struct Overrides {
    values: BTreeMap<String, String>,
    asked: BTreeSet<String>,
}

impl Overrides {
    /// Those of this process.
    pub(super) fn of_process() -> Result<Overrides, ::config::ConfigError> {
        Overrides::collect(&Environment::default())
    }

    /// Those of a made-up environment.
    #[cfg(test)]
    pub(super) fn of(variables: &[(&str, &str)]) -> Overrides {
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Overrides::collect(&Environment::default().source(Some(variables.collect()))).unwrap()
    }

    fn collect(environment: &Environment) -> Result<Overrides, ::config::ConfigError> {
        let environment = environment.clone().prefix(PREFIX).separator(SEPARATOR);
        let values = environment.collect()?.into_iter();
        let values = values.map(|(path, value)| Ok((path, value.into_string()?)));
        Ok(Overrides {
            values: values.collect::<Result<_, ::config::ConfigError>>()?,
            asked: BTreeSet::new(),
        })
    }

    /// What overrides the setting at `path`, if anything does.
    pub(super) fn take(&mut self, path: &str) -> Option<String> {
        self.asked.insert(path.to_owned());
        self.values.remove(path)
    }

    /// Complains about what nobody asked for.
    pub(super) fn finish(self, problems: &mut Problems) {
        let known: Vec<String> = self.asked.iter().map(|path| variable(path)).collect();
        for path in self.values.keys() {
            let name = variable(path);
            let remedy = suggest(&name, known.iter().map(String::as_str));
            let message = format!("`{name}` overrides no setting");
            problems.add(
                Problem::new(Code::Unknown, path, &Place::Variable(name), message).remedy(remedy),
            );
        }
    }
}

/// The variable that overrides the setting at `path`.
pub(super) fn variable(path: &str) -> String {
    format!("{PREFIX}{SEPARATOR}{}", path.to_uppercase().replace('.', SEPARATOR))
}
