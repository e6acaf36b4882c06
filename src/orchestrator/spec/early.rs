//! The first tasks of a campaign, which a better class runs, so that a user sees results early.

use serde::{Deserialize, Serialize};

use super::fields::Fields;
use super::params::TaskRange;
use super::{CampaignSpec, CampaignType, SpecProblem};

/// Tasks at the begin of a campaign with a class of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlyTasks {
    /// Number of tasks, from the first.
    pub count: u64,
    /// The resource class of their slots.
    pub class: String,
}

/// Takes the early tasks out of a document.
pub(super) fn take(fields: &mut Fields<'_>) -> Option<EarlyTasks> {
    let count = fields.number("first", 1, TaskRange::LARGEST);
    let class = fields.text("first_class", "write the name of a class");
    let class = class.filter(|name| !name.is_empty());
    match (count, class) {
        (Some(count), Some(class)) => Some(EarlyTasks { count, class }),
        (Some(_), None) => {
            let remedy = "write the class of the first tasks as `first_class`, or remove `first`";
            fields.fault("first", "names no class", remedy);
            None
        }
        (None, Some(_)) => {
            if !fields.has_fault("first") {
                let remedy = "write their number, such as `first = 50`, or remove it";
                fields.fault("first_class", "is for the first tasks only", remedy);
            }
            None
        }
        (None, None) => None,
    }
}

/// Reports fields that contradict early tasks. A test has a single task, so it has none.
pub(super) fn settle(spec: &mut CampaignSpec, problems: &mut Vec<SpecProblem>) {
    if spec.first.is_none() {
        return;
    }
    for (is_there, message) in [
        (spec.gang.is_some(), "a gang runs one program"),
        (spec.keep, "a campaign that is kept has one task"),
    ] {
        if is_there {
            let remedy = "remove it, and write the class as `class`";
            problems.push(SpecProblem::new("first", message, remedy));
        }
    }
    if spec.kind == CampaignType::Test {
        spec.first = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<EarlyTasks>, Vec<String>> {
        let document = toml::from_str(&format!("command = [\"true\"]\n{text}")).unwrap();
        let told = |problems: Vec<SpecProblem>| problems.iter().map(ToString::to_string).collect();
        CampaignSpec::read(document).map(|(spec, _)| spec.first).map_err(told)
    }

    #[test]
    fn the_first_tasks_have_a_number_and_a_class() {
        let early = EarlyTasks { count: 50, class: "fast".to_owned() };
        assert_eq!(read("tasks = 99\nfirst = 50\nfirst_class = \"fast\""), Ok(Some(early)));
        let test = "type = \"test\"\nfirst = 50\nfirst_class = \"fast\"";
        assert_eq!(read(test), Ok(None), "a test has a single task");
        for (text, problem) in [
            ("first = 0\nfirst_class = \"f\"", "first: `0` does not fit; write a whole number"),
            ("first = 5", "first: names no class; write the class of the first tasks"),
            ("first_class = \"f\"", "first_class: is for the first tasks only; write their number"),
            (
                "gang = { nodes = 2 }\nfirst = 1\nfirst_class = \"f\"",
                "first: a gang runs one program; remove it",
            ),
            (
                "keep = true\nfirst = 1\nfirst_class = \"f\"",
                "first: a campaign that is kept has one task; remove it",
            ),
        ] {
            let told = read(text).unwrap_err();
            assert!(told.len() == 1 && told[0].starts_with(problem), "{text}: {told:#?}");
        }
    }
}
