//! Classes of urgent work: fixed-share, and of the highest priority.

use super::file::ClassEntry;
use super::problem::{Code, ConfigProblem, Problems};
use super::value::PolicyName;

/// A class that is not abstract, with its priority.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked<'c> {
    pub entry: &'c ClassEntry,
    pub policy: PolicyName,
    pub priority: u32,
}

/// Reports urgent classes that are not fixed-share, or below another class.
pub(super) fn check(classes: &[Ranked<'_>], problems: &mut Problems) {
    let first = classes.iter().min_by_key(|class| class.priority);
    for class in classes {
        let Some(urgent) = class.entry.urgent.given().filter(|urgent| urgent.value) else {
            continue;
        };
        let name = &class.entry.name.value;
        if class.policy != PolicyName::FixedShare {
            let policy = class.policy.as_str();
            let message = format!("class `{name}` is urgent, and its policy is {policy}");
            let problem = ConfigProblem::new(
                Code::Misplaced,
                &class.entry.key("urgent"),
                &urgent.place,
                message,
            );
            problems.add(problem.remedy("set `policy = \"fixed-share\"`, or remove `urgent`"));
            continue;
        }
        let Some(first) = first.filter(|first| first.priority < class.priority) else { continue };
        let message = format!(
            "class `{name}` is urgent and has priority {}, below class `{}` with priority {}",
            class.priority, first.entry.name.value, first.priority,
        );
        let place = class.entry.priority.place().unwrap_or(&urgent.place);
        let problem =
            ConfigProblem::new(Code::UrgentPriority, &class.entry.key("priority"), place, message);
        let remedy = format!(
            "give it priority {}, and other policies higher numbers; lower numbers are served first",
            first.priority
        );
        let related = first.entry.priority.place().unwrap_or(&first.entry.name.place);
        problems.add(problem.remedy(remedy).related(related, "served before it"));
    }
}
