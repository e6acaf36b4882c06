//! Verdicts of the admission rules that the configuration declares.
//!
//! Pure: a rule, a campaign and the facts about its user give a verdict. A rule that does not hold for a
//! campaign lets it pass.

use serde_json::{Map, Value};

use super::spec::{CampaignSpec, CampaignType, SpecProblem};
use crate::config::AdmissionSettings;
use crate::model::{counted, memory_text, span};

/// Facts about a campaign that it does not say itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionFacts {
    /// Owner of the campaign.
    pub user: String,
    /// Campaigns of the owner that have not ended, without the new campaign.
    pub live: u64,
    /// Class of test campaigns. `None`: they have the class that they name.
    pub test_class: Option<String>,
    /// Class of campaigns that name none. `None`: unknown, and every rule for classes holds.
    pub default_class: Option<String>,
    /// Class of kept campaigns that name none. `None`: as above.
    pub keep_class: Option<String>,
}

/// Verdict of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleOutcome {
    /// The campaign passes as it is.
    Pass,
    /// The campaign passes with these fields, of which the text tells.
    Rewrite(Vec<(&'static str, Value)>, String),
    /// The campaign is not taken.
    Reject(SpecProblem),
}

impl AdmissionFacts {
    /// Class of the tasks of a campaign. `None`: unknown.
    fn class<'a>(&'a self, spec: &'a CampaignSpec) -> Option<&'a str> {
        let of_tests = self.test_class.as_ref().filter(|_| spec.kind == CampaignType::Test);
        let default = if spec.keep { &self.keep_class } else { &self.default_class };
        of_tests.or(spec.class.as_ref()).or(default.as_ref()).map(String::as_str)
    }
}

/// True if `rule` is for this campaign.
pub fn holds(rule: &AdmissionSettings, facts: &AdmissionFacts, spec: &CampaignSpec) -> bool {
    let named = |list: &[String], word: &str| list.is_empty() || list.iter().any(|it| it == word);
    let kind = match spec.kind {
        CampaignType::Default => "default",
        CampaignType::Test => "test",
    };
    let first = spec.first.as_ref().map(|first| first.class.as_str());
    let of_class = match facts.class(spec) {
        Some(class) => {
            named(&rule.classes, class) || first.is_some_and(|first| named(&rule.classes, first))
        }
        None => true,
    };
    named(&rule.users, &facts.user) && named(&rule.types, kind) && of_class
}

/// Verdict of `rule` about a campaign of `tasks` tasks, whose `document` says `spec`.
///
/// Defaults come before limits: a campaign without memory gets the default, and passes the limit by it.
pub fn verdict(
    rule: &AdmissionSettings,
    facts: &AdmissionFacts,
    (document, spec): (&Map<String, Value>, &CampaignSpec),
    tasks: u64,
) -> RuleOutcome {
    if !holds(rule, facts, spec) {
        return RuleOutcome::Pass;
    }
    let added = defaults(rule, document);
    let has = |key: &str| added.iter().any(|(added, _)| *added == key);
    let checks = [
        limit_of_tasks(rule, tasks),
        // The configuration has no default above a limit of the same rule.
        limit_of_memory(rule, largest_memory(spec)).filter(|_| !has("memory")),
        limit_of_time(rule, spec.task.time_limit_ms).filter(|_| !has("time_limit")),
        limit_of_campaigns(rule, facts),
    ];
    if let Some(problem) = checks.into_iter().flatten().next() {
        return RuleOutcome::Reject(problem);
    }
    let mut texts: Vec<String> =
        added.iter().map(|(key, value)| format!("`{key}` is {value} by default")).collect();
    let mut fields = added;
    let slots = rule.max_slots.filter(|most| spec.max.is_none_or(|max| *most < max));
    if let Some(most) = slots.filter(|_| spec.gang.is_none()) {
        texts.push(format!("`max` is {most} at most"));
        fields.push(("max", Value::from(most)));
    }
    if fields.is_empty() {
        RuleOutcome::Pass
    } else {
        RuleOutcome::Rewrite(fields, texts.join(", "))
    }
}

/// Memory of the last step of a campaign, in MiB.
fn largest_memory(spec: &CampaignSpec) -> u64 {
    let grown = spec.memory_retry.map(|retry| retry.memory(spec.memory_mb, retry.times));
    grown.unwrap_or(spec.memory_mb)
}

fn defaults(rule: &AdmissionSettings, document: &Map<String, Value>) -> Vec<(&'static str, Value)> {
    let says_none = |key: &str| match document.get(key) {
        None | Some(Value::Null) => true,
        Some(value) => key == "class" && value.as_str() == Some(""),
    };
    let absent = rule.defaults.iter().filter(|(key, _)| says_none(key));
    absent.map(|(key, text)| (*key, Value::from(text.as_str()))).collect()
}

/// Problem of a campaign with `tasks` tasks, if the rule allows fewer.
pub fn limit_of_tasks(rule: &AdmissionSettings, tasks: u64) -> Option<SpecProblem> {
    let most = rule.max_tasks.filter(|most| *most < tasks)?;
    let message = format!("{} are more than max_tasks = {most}", counted(tasks, "task"));
    Some(problem(rule, "tasks", &message, format!("submit {most} at most in a campaign")))
}

/// Problem of a campaign whose slots have `memory_mb` MiB, if the rule allows less.
pub fn limit_of_memory(rule: &AdmissionSettings, memory_mb: u64) -> Option<SpecProblem> {
    let most = rule.max_memory_mb.filter(|most| *most < memory_mb)?;
    let (asked, most) = (memory_text(memory_mb), memory_text(most));
    let message = format!("{asked} a slot are more than max_memory = {most}");
    let remedy = format!("ask for {most} at most, the steps of memory_retry included");
    Some(problem(rule, "memory", &message, remedy))
}

fn limit_of_time(rule: &AdmissionSettings, time_ms: Option<u64>) -> Option<SpecProblem> {
    let most = rule.max_time_ms.filter(|most| time_ms.is_none_or(|time| *most < time))?;
    let asked = time_ms.map_or_else(|| "no time limit".to_owned(), span);
    let message = format!("{asked} is more than max_time = {}", span(most));
    Some(problem(rule, "time_limit", &message, format!("set time_limit to {} at most", span(most))))
}

fn limit_of_campaigns(rule: &AdmissionSettings, facts: &AdmissionFacts) -> Option<SpecProblem> {
    let most = rule.max_live.filter(|most| *most <= facts.live)?;
    let held = counted(facts.live, "campaign");
    let message = format!("{} has {held} that have not ended, and max_live = {most}", facts.user);
    Some(problem(rule, "", &message, "wait until one ends, or cancel one".to_owned()))
}

fn problem(rule: &AdmissionSettings, field: &str, message: &str, remedy: String) -> SpecProblem {
    SpecProblem::new(field, format!("rule `{}` rejects the campaign: {message}", rule.name), remedy)
}

/// A rule in a sentence: whom it is for, and its limits and defaults, in the order of the sample.
pub fn sentence(rule: &AdmissionSettings) -> String {
    let list = |words: &str, list: &[String]| {
        (!list.is_empty()).then(|| format!("{words} {}", list.join(", ")))
    };
    let whose = [
        list("of", &rule.users),
        list("in the classes", &rule.classes),
        list("of type", &rule.types),
    ];
    let whose: Vec<String> = whose.into_iter().flatten().collect();
    let limits = [
        rule.max_tasks.map(|most| format!("at most {}", counted(most, "task"))),
        rule.max_memory_mb.map(|most| format!("at most {} a slot", memory_text(most))),
        rule.max_time_ms.map(|most| format!("at most {} a task", span(most))),
        rule.max_live.map(|most| format!("at most {} of a user", counted(most, "campaign"))),
        rule.max_slots.map(|most| format!("{} at a time", counted(most, "slot"))),
    ];
    let defaults = rule.defaults.iter().map(|(key, value)| format!("{key} {value} by default"));
    let program = rule.program.iter().map(|path| format!("the verdict of {}", path.display()));
    let parts: Vec<String> = limits.into_iter().flatten().chain(defaults).chain(program).collect();
    let whom = if whose.is_empty() {
        "all campaigns".to_owned()
    } else {
        format!("campaigns {}", whose.join(" "))
    };
    format!("{whom}: {}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts() -> AdmissionFacts {
        AdmissionFacts {
            user: "ann".to_owned(),
            live: 3,
            default_class: Some("normal".to_owned()),
            ..AdmissionFacts::default()
        }
    }

    /// Verdict about `campaign`, which is 10 tasks unless it says more, in a word and a sentence.
    fn told(
        rule: &AdmissionSettings,
        facts: &AdmissionFacts,
        campaign: &Value,
    ) -> (&'static str, String) {
        let mut document = json!({ "command": ["true"], "tasks": "1-10" });
        let fields = campaign.as_object().unwrap().clone();
        document.as_object_mut().unwrap().extend(fields);
        let document = document.as_object().unwrap();
        let spec = CampaignSpec::read(document.clone()).unwrap().0;
        match verdict(rule, facts, (document, &spec), spec.tasks.count) {
            RuleOutcome::Pass => ("pass", String::new()),
            RuleOutcome::Rewrite(fields, _) => ("rewrite", json!(fields).to_string()),
            RuleOutcome::Reject(problem) => ("reject", problem.to_string()),
        }
    }

    fn limits() -> AdmissionSettings {
        AdmissionSettings {
            name: "small".to_owned(),
            max_tasks: Some(10),
            max_memory_mb: Some(4096),
            max_time_ms: Some(3_600_000),
            max_live: Some(4),
            max_slots: Some(50),
            ..AdmissionSettings::default()
        }
    }

    #[test]
    fn each_limit_holds_to_the_last_unit_and_names_itself() {
        let (rule, fits) = (limits(), json!({ "memory": "4GB", "time_limit": "1h", "max": 50 }));
        assert_eq!(told(&rule, &facts(), &fits).0, "pass");
        for (change, field, limit) in [
            (json!({ "tasks": "1-11" }), "tasks", "11 tasks are more than max_tasks = 10"),
            (json!({ "memory": "4097MB" }), "memory", "are more than max_memory = 4 GB"),
            (json!({ "memory_retry": "1.5x1" }), "memory", "6 GB a slot are more than max_memory"),
            (json!({ "time_limit": "3601s" }), "time_limit", "is more than max_time = 1h"),
            (
                json!({ "time_limit": null }),
                "time_limit",
                "no time limit is more than max_time = 1h",
            ),
        ] {
            let mut campaign = fits.clone();
            campaign.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            let (word, text) = told(&rule, &facts(), &campaign);
            assert_eq!(word, "reject", "{change}");
            let start = format!("{field}: rule `small` rejects the campaign: ");
            assert!(text.starts_with(&start) && text.contains(limit), "{text}");
            assert!(text.contains(" at most"), "the remedy: {text}");
        }
        let full = AdmissionFacts { live: 4, ..facts() };
        let (word, text) = told(&rule, &full, &fits);
        assert_eq!(word, "reject");
        assert!(
            text.contains("ann has 4 campaigns that have not ended, and max_live = 4; wait"),
            "{text}"
        );
    }

    #[test]
    fn slots_are_lowered_and_absent_fields_are_written() {
        let rule = AdmissionSettings {
            max_slots: Some(50),
            max_memory_mb: Some(512),
            max_time_ms: Some(60_000),
            defaults: vec![
                ("class", "normal".to_owned()),
                ("memory", "512MB".to_owned()),
                ("time_limit", "60000ms".to_owned()),
            ],
            ..limits()
        };
        for (campaign, expected) in [
            (
                json!({}),
                r#"[["class","normal"],["memory","512MB"],["time_limit","60000ms"],["max",50]]"#,
            ),
            (
                json!({ "class": "", "memory": "100MB", "time_limit": "1s", "max": 51 }),
                r#"[["class","normal"],["max",50]]"#,
            ),
        ] {
            assert_eq!(told(&rule, &facts(), &campaign), ("rewrite", expected.to_owned()));
        }
        let says_all = json!({ "class": "x", "memory": "100MB", "time_limit": "1s", "max": 9 });
        assert_eq!(told(&rule, &facts(), &says_all).0, "pass");
    }

    #[test]
    fn a_rule_holds_for_whom_it_names() {
        let of = |users: &[&str], classes: &[&str], types: &[&str]| {
            let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
            let (users, classes, types) = (texts(users), texts(classes), texts(types));
            AdmissionSettings { users, classes, types, max_tasks: Some(1), ..limits() }
        };
        let word = |rule: &AdmissionSettings, facts: &AdmissionFacts, campaign: &Value| {
            told(rule, facts, campaign).0 == "reject"
        };
        let tests = AdmissionFacts { test_class: Some("fast".to_owned()), ..facts() };
        let silent = AdmissionFacts { default_class: None, ..facts() };
        for (rule, facts, campaign, expected) in [
            (of(&["ann"], &[], &[]), facts(), json!({}), true),
            (of(&["bob"], &[], &[]), facts(), json!({}), false),
            (of(&[], &["normal"], &[]), facts(), json!({}), true),
            (of(&[], &["normal"], &[]), facts(), json!({ "class": "best" }), false),
            (of(&[], &["best"], &[]), facts(), json!({}), false),
            (of(&[], &["best"], &[]), silent, json!({}), true),
            (of(&[], &["best"], &[]), facts(), json!({ "first": 2, "first_class": "best" }), true),
            (of(&[], &["fast"], &[]), tests, json!({ "type": "test" }), true),
            (of(&[], &[], &["test"]), facts(), json!({}), false),
            (of(&["ann"], &["normal"], &["default"]), facts(), json!({}), true),
        ] {
            assert_eq!(word(&rule, &facts, &campaign), expected, "{rule:?} {campaign}");
        }
    }
}
