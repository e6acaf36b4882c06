//! The admission rules of a site, and what they changed in a campaign.

use clap::Args;
use serde_json::Value;

use super::failure::Failure;
use super::output::show;
use super::place::OrchestratorArgs;
use super::table::Column::{Left, Right};
use super::table::{plain, table};
use crate::orchestrator::wire::{AdmissionList, AdmissionRecord, AdmissionRule, RuleChange};

/// Examples of `apportion admission`.
pub const EXAMPLES: &str = "\
Examples:
  apportion admission
  apportion submit sweep.toml --try-rules      the verdicts about a campaign, which is not submitted";

/// Lists the admission rules.
#[derive(Debug, Args)]
pub struct AdmissionArgs {
    /// The orchestrator.
    #[command(flatten)]
    pub place: OrchestratorArgs,
}

/// Lists the rules, in the order in which they hold.
///
/// # Errors
///
/// If the orchestrator cannot be reached or refuses.
pub async fn run(args: &AdmissionArgs) -> Result<(), Failure> {
    let list: AdmissionList = args.place.open()?.get(&["v1", "admission"], &[]).await?;
    Ok(show(&list, args.place.json, listed)?)
}

fn listed(list: &AdmissionList) -> String {
    if list.rules.is_empty() {
        return "no rule: this site takes every campaign".to_owned();
    }
    let row = |(number, rule): (u64, &AdmissionRule)| {
        let text = if rule.text.is_empty() { "a program" } else { &rule.text };
        let sum = rule.sha256.get(..12).unwrap_or(&rule.sha256);
        [number.to_string(), rule.name.clone(), text.to_owned(), sum.to_owned()]
    };
    let columns = [Right("order"), Left("rule"), Left("campaigns"), Left("sha256")];
    table(columns, (1..).zip(&list.rules).map(row))
}

/// The fields of a campaign that admission rules changed, a line for each.
pub(super) fn rewritten(record: &AdmissionRecord) -> Vec<String> {
    let lines = record
        .rules
        .iter()
        .flat_map(|rule| rule.changes.iter().map(|change| plain(&changed(rule, change))));
    lines.collect()
}

fn changed(rule: &AdmissionRule, change: &RuleChange) -> String {
    let value = |value: &Option<Value>| {
        value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string)
    };
    let RuleChange { field, asked, given } = change;
    format!("rule `{}` changed {field} from {} to {}", rule.name, value(asked), value(given))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_listed_in_order_and_changes_say_both_values() {
        let list = json!({ "rules": [
            { "name": "small", "sha256": "0123456789abcdef", "verdict": "ok",
              "text": "all campaigns: at most 9 tasks" },
            { "name": "10-limits", "sha256": "fedcba9876543210", "verdict": "ok" },
        ] });
        let shown = listed(&serde_json::from_value(list).unwrap());
        let rows: Vec<&str> = shown.lines().collect();
        assert!(rows[1].contains("1  small") && rows[1].contains("at most 9 tasks"), "{shown}");
        assert!(rows[2].contains("a program  ") && rows[2].contains("fedcba987654"), "{shown}");
        let record = json!({ "rules": [{
            "name": "small", "sha256": "", "verdict": "rewrite",
            "changes": [{ "field": "max", "given": 50 }, { "field": "memory", "asked": "9GB" }],
        }] });
        let lines = rewritten(&serde_json::from_value(record).unwrap());
        assert_eq!(
            lines,
            [
                "rule `small` changed max from nothing to 50",
                "rule `small` changed memory from \"9GB\" to nothing"
            ]
        );
    }
}
