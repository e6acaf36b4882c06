//! Admission rules of a site: each sees a campaign before it is taken. A rule lets a campaign pass, rejects
//! it, or rewrites it.
//!
//! Rules of the configuration come first, in the order of the file: limits and defaults, or a program. The
//! executable files `NN-name` in the folder of rules follow, in the order of their names. A program gets
//! [`RuleInput`] as JSON on its standard input, and answers with [`RuleAnswer`] as JSON within five seconds.
//! A program that is broken or slow rejects every campaign: a site's rules hold, or nothing is submitted.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::declared::{AdmissionFacts, RuleOutcome, holds, sentence, verdict};
use super::house::HouseRules;
use super::site_program;
use super::spec::{CampaignSpec, SpecProblem, short};
use super::wire::{AdmissionRule, RuleChange, RuleVerdict};
use crate::config::AdmissionSettings;

/// Longest time of a rule.
const LONGEST: Duration = Duration::from_secs(5);
/// Fields that no rule may write: they are the user's, or as long as the campaign.
const FIXED: [&str; 3] = ["user", "lines", "items"];

/// Input of a rule.
#[derive(Debug, Serialize)]
struct RuleInput<'a> {
    /// Owner of the campaign.
    user: &'a str,
    /// Number of tasks.
    tasks: u64,
    /// The campaign, as a campaign file has it, without `lines` and `items`.
    spec: &'a Map<String, Value>,
}

/// Answer of a rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleAnswer {
    verdict: RuleVerdict,
    /// A sentence for the user.
    #[serde(default)]
    text: String,
    /// The campaign, if the verdict is `rewrite`.
    spec: Option<Map<String, Value>>,
}

/// A campaign that the rules see.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The campaign, as a campaign file has it, without `lines` and `items`.
    document: Map<String, Value>,
    /// First line or item under `lines` or `items`; empty without such a list.
    sample: Map<String, Value>,
    /// Number of lines or items. `None`: the document says the number of tasks.
    listed: Option<u64>,
    /// The specification, with a single task if tasks are listed.
    spec: CampaignSpec,
}

impl Candidate {
    /// The campaign of a document. Of a long list under `lines` or `items` it takes a `sample`, and the
    /// number of tasks.
    ///
    /// # Errors
    ///
    /// With every problem of the document.
    pub fn read(
        document: Map<String, Value>,
        sample: Map<String, Value>,
        listed: Option<u64>,
    ) -> Result<Candidate, Vec<SpecProblem>> {
        let mut whole = document.clone();
        whole.extend(sample.clone());
        let (spec, _) = CampaignSpec::read(whole)?;
        Ok(Candidate { document, sample, listed, spec })
    }

    /// The specification, with a single task if tasks are listed.
    pub fn spec(&self) -> &CampaignSpec {
        &self.spec
    }

    /// Number of tasks.
    pub fn tasks(&self) -> u64 {
        self.listed.unwrap_or(self.spec.tasks.count)
    }

    /// Takes the form that a rule gave to the campaign. Returns what the rule changed, or the end of a
    /// sentence whose subject is the rule.
    fn rewrite(&mut self, document: Map<String, Value>) -> Result<Vec<RuleChange>, String> {
        let changes = changes(&self.document, &document);
        match Candidate::read(document, self.sample.clone(), self.listed) {
            Ok(rewritten) => *self = rewritten,
            Err(problems) => {
                let problem = problems.first().map(ToString::to_string).unwrap_or_default();
                return Err(format!("leaves a campaign that is wrong: {problem}"));
            }
        }
        Ok(changes)
    }
}

/// A campaign after all rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The campaign, as the rules left it.
    pub spec: Map<String, Value>,
    /// The rules that saw it, in order, up to the first that rejected it.
    pub rules: Vec<AdmissionRule>,
    /// The problem that the last rule has with the campaign. `None`: all let it pass.
    pub rejection: Option<SpecProblem>,
}

/// The rules in `folder`, in order.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn rules_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut rules = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let (number, rest) = name.split_once('-').unwrap_or_default();
        let is_named = number.len() == 2 && number.bytes().all(|b| b.is_ascii_digit());
        if is_named && !rest.is_empty() && !rest.ends_with('~') && path.is_file() {
            rules.push(path);
        }
    }
    rules.sort();
    Ok(rules)
}

/// Name and sum of each rule, in order. Rules of the configuration have their sentence as text.
///
/// # Errors
///
/// If the folder or a rule cannot be read.
pub fn list(house: &HouseRules) -> io::Result<Vec<AdmissionRule>> {
    let mut rules: Vec<AdmissionRule> = house.rules.iter().map(told).collect();
    for path in programs(house)? {
        rules.push(rule_at(&path)?);
    }
    Ok(rules)
}

fn programs(house: &HouseRules) -> io::Result<Vec<PathBuf>> {
    house.admission.as_deref().map_or_else(|| Ok(Vec::new()), rules_in)
}

/// A rule of the configuration, for the list of rules.
fn told(rule: &AdmissionSettings) -> AdmissionRule {
    AdmissionRule { text: sentence(rule), ..declared(rule) }
}

/// A rule of the configuration, before its verdict. Its sum is that of its sentence.
fn declared(rule: &AdmissionSettings) -> AdmissionRule {
    AdmissionRule {
        name: rule.name.clone(),
        sha256: sum_of(sentence(rule).as_bytes()),
        verdict: RuleVerdict::Ok,
        text: String::new(),
        changes: Vec::new(),
    }
}

fn sum_of(bytes: &[u8]) -> String {
    let digits: Vec<String> =
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

fn rule_at(path: &Path) -> io::Result<AdmissionRule> {
    let sha256 = sum_of(&std::fs::read(path)?);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let (name, text, changes) = (name.unwrap_or_default(), String::new(), Vec::new());
    Ok(AdmissionRule { name, sha256, verdict: RuleVerdict::Ok, text, changes })
}

/// Shows a campaign to the rules of `house`, in order.
///
/// # Errors
///
/// If the folder or a rule cannot be read.
pub async fn judge(
    house: &HouseRules,
    facts: &AdmissionFacts,
    mut candidate: Candidate,
) -> io::Result<Judged> {
    let mut rules = Vec::new();
    for rule in &house.rules {
        let seen = match &rule.program {
            Some(path) => by_program(path, declared(rule), Some(rule), facts, &mut candidate).await,
            None => by_limits(rule, facts, &mut candidate),
        };
        rules.push(seen.0);
        if seen.1.is_some() {
            return Ok(Judged { spec: candidate.document, rules, rejection: seen.1 });
        }
    }
    for path in programs(house)? {
        let seen = by_program(&path, rule_at(&path)?, None, facts, &mut candidate).await;
        rules.push(seen.0);
        if seen.1.is_some() {
            return Ok(Judged { spec: candidate.document, rules, rejection: seen.1 });
        }
    }
    Ok(Judged { spec: candidate.document, rules, rejection: None })
}

/// A rule with its verdict, and the problem that it has with the campaign.
type SeenRule = (AdmissionRule, Option<SpecProblem>);

/// Shows a campaign to a rule of limits and defaults.
fn by_limits(
    rule: &AdmissionSettings,
    facts: &AdmissionFacts,
    candidate: &mut Candidate,
) -> SeenRule {
    let seen = declared(rule);
    let tasks = candidate.tasks();
    match verdict(rule, facts, (&candidate.document, &candidate.spec), tasks) {
        RuleOutcome::Pass => (seen, None),
        RuleOutcome::Rewrite(fields, text) => {
            let mut document = candidate.document.clone();
            document.extend(fields.into_iter().map(|(key, value)| (key.to_owned(), value)));
            match candidate.rewrite(document) {
                Ok(changes) => {
                    (AdmissionRule { verdict: RuleVerdict::Rewrite, text, changes, ..seen }, None)
                }
                Err(fault) => rejected(seen, format!("the rule is broken, as it {fault}")),
            }
        }
        RuleOutcome::Reject(problem) => {
            let text = problem.to_string();
            (AdmissionRule { verdict: RuleVerdict::Reject, text, ..seen }, Some(problem))
        }
    }
}

/// Shows a campaign to a program, unless its `rule` is not for this campaign.
async fn by_program(
    path: &Path,
    seen: AdmissionRule,
    rule: Option<&AdmissionSettings>,
    facts: &AdmissionFacts,
    candidate: &mut Candidate,
) -> SeenRule {
    if rule.is_some_and(|rule| !holds(rule, facts, &candidate.spec)) {
        return (seen, None);
    }
    let tasks = candidate.tasks();
    let input = RuleInput { user: &facts.user, tasks, spec: &candidate.document };
    let answer = match ask(path, &input).await {
        Ok(answer) => answer,
        Err(fault) => return rejected(seen, format!("the rule is broken, as it {fault}")),
    };
    let text = short(&answer.text);
    match (answer.verdict, answer.spec) {
        (RuleVerdict::Reject, _) => rejected(seen, text),
        (RuleVerdict::Rewrite, Some(spec)) => match candidate.rewrite(spec) {
            Ok(changes) => {
                (AdmissionRule { verdict: RuleVerdict::Rewrite, text, changes, ..seen }, None)
            }
            Err(fault) => rejected(seen, format!("the rule is broken, as it {fault}")),
        },
        (verdict @ (RuleVerdict::Ok | RuleVerdict::Rewrite), _) => {
            (AdmissionRule { verdict, text, ..seen }, None)
        }
    }
}

fn rejected(seen: AdmissionRule, text: String) -> SeenRule {
    let message = format!("rule `{}` rejects the campaign: {text}", seen.name);
    let problem = SpecProblem::new("", message, "change the campaign, or ask who runs this site");
    (AdmissionRule { verdict: RuleVerdict::Reject, text, ..seen }, Some(problem))
}

/// Fields that differ between two documents, by name.
fn changes(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<RuleChange> {
    let fields: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differs = |field: &&String| before.get(*field) != after.get(*field);
    let change = |field: &String| RuleChange {
        field: field.clone(),
        asked: before.get(field).cloned(),
        given: after.get(field).cloned(),
    };
    fields.into_iter().filter(differs).map(change).collect()
}

/// Runs a rule. The error completes a sentence whose subject is the rule.
async fn ask(path: &Path, input: &RuleInput<'_>) -> Result<RuleAnswer, String> {
    let input = serde_json::to_vec(input).map_err(|error| error.to_string())?;
    let output = site_program::run(path, &input, LONGEST).await?;
    let answer: RuleAnswer = serde_json::from_slice(&output)
        .map_err(|error| format!("answered with something else than a verdict: {error}"))?;
    let Some(spec) = &answer.spec else {
        let is_whole = answer.verdict != RuleVerdict::Rewrite;
        return if is_whole { Ok(answer) } else { Err("rewrites without `spec`".to_owned()) };
    };
    match FIXED.iter().find(|key| spec.contains_key(**key)) {
        Some(key) => Err(format!("writes `{key}`, which belongs to the user")),
        None => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    fn rule(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn house(folder: &Path) -> HouseRules {
        HouseRules { admission: Some(folder.to_owned()), ..HouseRules::default() }
    }

    async fn judged_by(house: &HouseRules) -> Judged {
        let document = json!({ "command": ["true"], "memory": "9GB" });
        let document = document.as_object().unwrap().clone();
        let sample = json!({ "lines": ["a"] }).as_object().unwrap().clone();
        let candidate = Candidate::read(document, sample, Some(5)).unwrap();
        let facts = AdmissionFacts { user: "ann".to_owned(), ..AdmissionFacts::default() };
        judge(house, &facts, candidate).await.unwrap()
    }

    async fn judged(folder: &Path) -> Judged {
        judged_by(&house(folder)).await
    }

    #[tokio::test]
    async fn declared_rules_come_before_programs_in_the_order_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        rule(
            folder.path(),
            "10-see",
            "grep -q '\"max\":7' && echo '{\"verdict\":\"reject\",\"text\":\"seen\"}'",
        );
        let program = folder.path().join("10-see");
        let slots = |name: &str, most| AdmissionSettings {
            name: name.to_owned(),
            max_slots: Some(most),
            ..AdmissionSettings::default()
        };
        let by_program = AdmissionSettings {
            name: "by-program".to_owned(),
            program: Some(program),
            ..AdmissionSettings::default()
        };
        let house = HouseRules {
            rules: vec![slots("wide", 9), slots("narrow", 7), by_program, slots("late", 5)],
            ..house(folder.path())
        };
        let judged = judged_by(&house).await;
        let names: Vec<&str> = judged.rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names, ["wide", "narrow", "by-program"], "a rejection is the last verdict");
        let change =
            RuleChange { field: "max".to_owned(), asked: Some(json!(9)), given: Some(json!(7)) };
        assert_eq!(judged.rules[1].changes, [change]);
        assert!(judged.rejection.unwrap().to_string().starts_with("rule `by-program` rejects"));
        let listed = list(&house).unwrap();
        assert_eq!(listed.len(), 5);
        assert_eq!(listed[1].text, "all campaigns: 7 slots at a time");
        assert_ne!(listed[0].sha256, listed[1].sha256);
    }

    #[tokio::test]
    async fn rules_pass_reject_and_rewrite_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        rule(
            folder,
            "10-see",
            "grep -q '\"user\":\"ann\",\"tasks\":5' && echo '{\"verdict\":\"ok\"}'",
        );
        let less = "{\"verdict\":\"rewrite\",\"text\":\"less\",\"spec\":{\"command\":[\"true\"],\"memory\":\"1GB\"}}";
        rule(folder, "20-less", &format!("echo '{less}'"));
        rule(folder, "notes", "exit 1");
        rule(folder, "20-less~", "exit 1");
        let passed = judged(folder).await;
        let names: Vec<&str> = passed.rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names, ["10-see", "20-less"]);
        assert_eq!((passed.spec["memory"].as_str(), passed.rejection), (Some("1GB"), None));
        assert_eq!(list(&house(folder)).unwrap()[1].sha256, passed.rules[1].sha256);
        rule(folder, "15-no", "echo '{\"verdict\":\"reject\",\"text\":\"not today\"}'");
        let told = judged(folder).await.rejection.unwrap().to_string();
        assert!(told.starts_with("rule `15-no` rejects the campaign: not today;"), "{told}");
    }

    #[tokio::test]
    async fn a_broken_rule_rejects_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for (text, fault) in [
            ("exit 3", "failed: exit status: 3"),
            ("echo hello", "answered with something else"),
            ("echo '{\"verdict\":\"maybe\"}'", "answered with something else"),
            ("echo '{\"verdict\":\"rewrite\"}'", "rewrites without `spec`"),
            (
                "echo '{\"verdict\":\"rewrite\",\"spec\":{\"command\":[\"a\"],\"lanes\":0}}'",
                "leaves a campaign that is wrong: lanes: `0` does not fit",
            ),
            (
                "echo '{\"verdict\":\"rewrite\",\"spec\":{\"user\":\"bob\"}}'",
                "writes `user`, which belongs to the user",
            ),
        ] {
            rule(folder, "50-rule", text);
            let told = judged(folder).await.rejection.unwrap().to_string();
            let start =
                format!("rule `50-rule` rejects the campaign: the rule is broken, as it {fault}");
            assert!(told.starts_with(&start), "{told}");
        }
        fs::set_permissions(folder.join("50-rule"), fs::Permissions::from_mode(0o644)).unwrap();
        let told = judged(folder).await.rejection.unwrap().to_string();
        assert!(told.contains("cannot be executed: `chmod +x` it"), "{told}");
    }

    #[tokio::test]
    async fn a_slow_rule_rejects_after_five_seconds() {
        let folder = tempfile::tempdir().unwrap();
        rule(folder.path(), "50-slow", "exec sleep 1000");
        let began = std::time::Instant::now();
        let told = judged(folder.path()).await.rejection.unwrap().to_string();
        assert!(
            told.contains(
                "`50-slow` rejects the campaign: the rule is broken, as it gave no answer"
            ),
            "{told}"
        );
        assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
    }
}
