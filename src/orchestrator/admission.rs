//! Admission rules of a site: programs that see each campaign before it is taken, in the order of their
//! names. A rule lets a campaign pass, rejects it, or rewrites it.
//!
//! A rule is an executable file `NN-name` in the folder of rules. It gets [`RuleInput`] as JSON on its
//! standard input, and answers with [`RuleAnswer`] as JSON within five seconds. A rule that is broken or
//! slow rejects every campaign: a site's rules hold, or nothing is submitted.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::spec::{SpecProblem, short};
use super::wire::{AdmissionRule, RuleVerdict};

/// Longest time of a rule.
const LONGEST: Duration = Duration::from_secs(5);
/// Bytes of an answer.
const MAX_ANSWER: u64 = 1 << 20;
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

/// A campaign after all rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The campaign, as the rules left it.
    pub spec: Map<String, Value>,
    /// The rules that saw it, in order, up to the first that rejected it.
    pub rules: Vec<AdmissionRule>,
}

impl Judged {
    /// The reason of the rule that rejected the campaign. `None`: all let it pass.
    pub fn rejection(&self) -> Option<SpecProblem> {
        let rule = self.rules.last().filter(|rule| rule.verdict == RuleVerdict::Reject)?;
        let message = format!("rule `{}` rejects the campaign: {}", rule.name, rule.text);
        Some(SpecProblem::new("", message, "change the campaign, or ask who runs this site"))
    }
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

/// Name and sum of each rule in `folder`, in order.
///
/// # Errors
///
/// If the folder or a rule cannot be read.
pub fn list(folder: &Path) -> io::Result<Vec<AdmissionRule>> {
    rules_in(folder)?.iter().map(|path| rule_at(path)).collect()
}

fn rule_at(path: &Path) -> io::Result<AdmissionRule> {
    let sum = Sha256::digest(std::fs::read(path)?);
    let digits: Vec<String> = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    let sha256 = digits.concat();
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let (name, text) = (name.unwrap_or_default(), String::new());
    Ok(AdmissionRule { name, sha256, verdict: RuleVerdict::Ok, text })
}

/// Shows a campaign of `tasks` tasks to the rules in `folder`, in order.
///
/// # Errors
///
/// If the folder or a rule cannot be read.
pub async fn judge(
    folder: &Path,
    user: &str,
    tasks: u64,
    spec: Map<String, Value>,
) -> io::Result<Judged> {
    let mut judged = Judged { spec, rules: Vec::new() };
    for path in rules_in(folder)? {
        let mut rule = rule_at(&path)?;
        let input = RuleInput { user, tasks, spec: &judged.spec };
        match ask(&path, &input).await {
            Ok(answer) => {
                (rule.verdict, rule.text) = (answer.verdict, short(&answer.text));
                if let (RuleVerdict::Rewrite, Some(spec)) = (answer.verdict, answer.spec) {
                    judged.spec = spec;
                }
            }
            Err(fault) => {
                rule.verdict = RuleVerdict::Reject;
                rule.text = format!("the rule is broken, as it {fault}");
            }
        }
        let is_over = rule.verdict == RuleVerdict::Reject;
        judged.rules.push(rule);
        if is_over {
            break;
        }
    }
    Ok(judged)
}

/// Runs a rule. The error completes a sentence whose subject is the rule.
async fn ask(path: &Path, input: &RuleInput<'_>) -> Result<RuleAnswer, String> {
    let mode = std::fs::metadata(path).map_or(0, |facts| facts.permissions().mode());
    if mode & 0o111 == 0 {
        return Err("cannot be executed: `chmod +x` it".to_owned());
    }
    let input = serde_json::to_vec(input).map_err(|error| error.to_string())?;
    let output = tokio::time::timeout(LONGEST, run(path, &input)).await;
    let output = output.map_err(|_| "gave no answer within 5 s".to_owned())?;
    let output = output.map_err(|error| format!("failed: {error}"))?;
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

async fn run(path: &Path, input: &[u8]) -> io::Result<Vec<u8>> {
    let mut child = Command::new(path)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A rule need not read all of it.
            let _ = stdin.write_all(input).await;
        }
    };
    let read = async {
        let mut output = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(MAX_ANSWER).read_to_end(&mut output).await?;
        }
        io::Result::Ok(output)
    };
    let ((), output) = tokio::join!(write, read);
    let status = child.wait().await?;
    let output = output?;
    if status.success() { Ok(output) } else { Err(io::Error::other(status.to_string())) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn rule(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    async fn judged(folder: &Path) -> Judged {
        let spec = json!({ "command": ["true"], "memory": "9GB" });
        judge(folder, "ann", 5, spec.as_object().unwrap().clone()).await.unwrap()
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
        assert_eq!((passed.spec["memory"].as_str(), passed.rejection()), (Some("1GB"), None));
        assert_eq!(list(folder).unwrap()[1].sha256, passed.rules[1].sha256);
        rule(folder, "15-no", "echo '{\"verdict\":\"reject\",\"text\":\"not today\"}'");
        let told = judged(folder).await.rejection().unwrap().to_string();
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
                "echo '{\"verdict\":\"rewrite\",\"spec\":{\"user\":\"bob\"}}'",
                "writes `user`, which belongs to the user",
            ),
        ] {
            rule(folder, "50-rule", text);
            let told = judged(folder).await.rejection().unwrap().to_string();
            let start =
                format!("rule `50-rule` rejects the campaign: the rule is broken, as it {fault}");
            assert!(told.starts_with(&start), "{told}");
        }
        fs::set_permissions(folder.join("50-rule"), fs::Permissions::from_mode(0o644)).unwrap();
        let told = judged(folder).await.rejection().unwrap().to_string();
        assert!(told.contains("cannot be executed: `chmod +x` it"), "{told}");
    }

    #[tokio::test]
    async fn a_slow_rule_rejects_after_five_seconds() {
        let folder = tempfile::tempdir().unwrap();
        rule(folder.path(), "50-slow", "exec sleep 1000");
        let began = std::time::Instant::now();
        let told = judged(folder.path()).await.rejection().unwrap().to_string();
        assert!(
            told.contains(
                "`50-slow` rejects the campaign: the rule is broken, as it gave no answer"
            ),
            "{told}"
        );
        assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
    }
}
