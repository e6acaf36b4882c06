//! Selection of the submitter's environment variables that a campaign takes along.

use std::collections::BTreeMap;

use super::SpecProblem;
use super::limits::MAX_ENVIRONMENT;

/// Variables that a campaign takes along by default. A `*` stands for any ending.
const ALLOWED: [&str; 13] = [
    "PATH",
    "LANG",
    "LC_*",
    "TZ",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "R_LIBS*",
    "JULIA_*",
    "OMP_*",
    "OPENBLAS_*",
    "MKL_*",
];

/// Words in the name of a variable that exclude it even if a campaign takes all variables.
const SECRET: [&str; 3] = ["TOKEN", "SECRET", "PASSWORD"];

/// The choice of a submitter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentChoice {
    /// Take all variables except secrets and variables of the session.
    pub all: bool,
    /// Take no variable except the variables in `named`.
    pub clean: bool,
    /// `NAME` takes the variable over, `NAME=VALUE` sets it.
    pub named: Vec<String>,
}

/// Returns the variables of `own` that a campaign takes along.
///
/// # Errors
///
/// With every problem: an invalid name, a variable that is not set, an environment that is too
/// large.
pub fn select(
    own: &BTreeMap<String, String>,
    choice: &EnvironmentChoice,
) -> Result<BTreeMap<String, String>, Vec<SpecProblem>> {
    let goes =
        |name: &str| !choice.clean && if choice.all { !is_private(name) } else { is_allowed(name) };
    let mut chosen: BTreeMap<String, String> = own
        .iter()
        .filter(|(name, _)| goes(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut problems = Vec::new();
    for wish in &choice.named {
        let (name, value) = match wish.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (wish.as_str(), own.get(wish).cloned()),
        };
        match value {
            Some(value) => {
                chosen.insert(name.to_owned(), value);
            }
            None => problems.push(SpecProblem::new(
                "env",
                format!("`{name}` is not set here"),
                format!("write `--env {name}=VALUE`"),
            )),
        }
    }
    check(&chosen, "env", &mut problems);
    if problems.is_empty() { Ok(chosen) } else { Err(problems) }
}

/// Checks names, values and the size of an environment.
pub(super) fn check(
    environment: &BTreeMap<String, String>,
    field: &str,
    problems: &mut Vec<SpecProblem>,
) {
    for (name, value) in environment {
        let is_name = !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
        if !is_name {
            let message = format!("`{}` is no variable", super::params::short(name));
            problems.push(SpecProblem::new(
                field,
                message,
                "names have no `=`, and no text a zero byte",
            ));
        }
    }
    let size: usize = environment.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if MAX_ENVIRONMENT < size {
        let message = format!("{size} bytes are more than {MAX_ENVIRONMENT}");
        problems.push(SpecProblem::new(
            field,
            message,
            "choose variables one by one, with `--env NAME`",
        ));
    }
}

fn is_allowed(name: &str) -> bool {
    ALLOWED.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *pattern,
    })
}

fn is_private(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    SECRET.iter().any(|word| upper.contains(word))
        || upper.ends_with("_KEY")
        || ["SSH_", "DBUS_", "XDG_"].iter().any(|start| upper.starts_with(start))
        || upper == "DISPLAY"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> BTreeMap<String, String> {
        ["PATH", "LC_ALL", "HOME", "API_TOKEN", "AWS_KEY", "SSH_AGENT", "EDITOR"]
            .into_iter()
            .map(|name| (name.to_owned(), "x".to_owned()))
            .collect()
    }

    fn names(choice: &EnvironmentChoice) -> Vec<String> {
        select(&own(), choice).unwrap().into_keys().collect()
    }

    #[test]
    fn secrets_stay_at_home() {
        assert_eq!(names(&EnvironmentChoice::default()), ["LC_ALL", "PATH"]);
        let all = EnvironmentChoice { all: true, ..EnvironmentChoice::default() };
        assert_eq!(names(&all), ["EDITOR", "HOME", "LC_ALL", "PATH"]);
        let named = vec!["A=1=2".to_owned(), "HOME".to_owned()];
        let clean = EnvironmentChoice { clean: true, named, ..EnvironmentChoice::default() };
        assert_eq!(names(&clean), ["A", "HOME"]);
        assert_eq!(select(&own(), &clean).unwrap()["A"], "1=2");
    }

    #[test]
    fn a_variable_that_is_not_set_is_named() {
        let choice = EnvironmentChoice { named: vec!["NONE".to_owned()], ..Default::default() };
        let problems = select(&own(), &choice).unwrap_err();
        assert_eq!(
            problems[0].to_string(),
            "env: `NONE` is not set here; write `--env NONE=VALUE`"
        );
        let long = EnvironmentChoice {
            named: vec![format!("A={}", "x".repeat(200_000))],
            ..Default::default()
        };
        assert_eq!(select(&own(), &long).unwrap_err().len(), 1);
    }
}
