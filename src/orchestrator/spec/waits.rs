//! Reasons for a campaign to wait: other campaigns, and hours of the week.

use serde_json::Value;

use super::fields::Fields;
use super::params::short;
use crate::model::{ActiveEntry, ActiveHours};

/// Most campaigns that a campaign waits for.
const MOST: usize = 100;
/// Hours with a name of their own.
const NAMED: [(&str, &str); 2] = [("night", "mon-sun 20:00-06:00"), ("weekend", "sat-sun")];

/// Takes the campaigns that have to be done first.
pub(super) fn after(fields: &mut Fields<'_>) -> Vec<u64> {
    let remedy = "write a list of numbers of campaigns, 100 at most, such as [7, 8]";
    let numbers = fields.read("after", remedy, |value| {
        let numbers: Option<Vec<u64>> = value.as_array()?.iter().map(Value::as_u64).collect();
        numbers.filter(|numbers| numbers.len() <= MOST && !numbers.contains(&0))
    });
    let mut numbers = numbers.unwrap_or_default();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Takes the hours in which tasks may begin, as entries of [`ActiveHours`].
pub(super) fn active(fields: &mut Fields<'_>) -> Vec<String> {
    let remedy = "write a list such as [\"night\", \"weekend\"] or [\"mon-fri 20:00-06:00\"]";
    let texts = fields.read("active", remedy, |value| {
        let texts: Option<Vec<&str>> = value.as_array()?.iter().map(Value::as_str).collect();
        Some(texts?.into_iter().map(str::to_owned).collect::<Vec<_>>())
    });
    let Some(texts) = texts else { return Vec::new() };
    let mut entries = Vec::new();
    for text in &texts {
        let named = NAMED.iter().find(|(name, _)| name == text);
        match named.map_or(text.as_str(), |(_, hours)| hours).parse::<ActiveEntry>() {
            Ok(entry) => entries.push(entry),
            Err(problem) => {
                let message = format!("`{}` cannot be read: {problem}", short(text));
                fields.fault("active", message, remedy);
                return Vec::new();
            }
        }
    }
    let hours = ActiveHours(entries);
    if hours.0.is_empty() || hours.are_always() {
        let message = if hours.0.is_empty() { "names no hours" } else { "is always" };
        fields.fault("active", message, "name some hours of the week, or remove it");
        return Vec::new();
    }
    hours.0.iter().map(ToString::to_string).collect()
}

/// The hours of entries that were read before.
pub(super) fn hours_of(entries: &[String]) -> ActiveHours {
    ActiveHours(entries.iter().filter_map(|entry| entry.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::super::{CampaignSpec, SpecProblem};

    fn read(text: &str) -> Result<CampaignSpec, Vec<String>> {
        let document = toml::from_str(&format!("command = [\"true\"]\n{text}")).unwrap();
        let told = |problems: Vec<SpecProblem>| problems.iter().map(ToString::to_string).collect();
        CampaignSpec::read(document).map(|(spec, _)| spec).map_err(told)
    }

    #[test]
    fn reasons_to_wait_are_read() {
        let spec =
            read("after = [8, 7, 8]\nactive = [\"night\", \"sat-sun 08:00-12:00\"]").unwrap();
        assert_eq!(spec.after, [7, 8]);
        assert_eq!(spec.hours().to_string(), "mon-sun 20:00-06:00, sat-sun 08:00-12:00");
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<CampaignSpec>(&text).unwrap(), spec);
        let text = serde_json::to_string(&read("").unwrap()).unwrap();
        assert!(!text.contains("after") && !text.contains("active"), "{text}");
        for (text, problem) in [
            ("after = 7", "after: `7` does not fit; write a list of numbers"),
            ("after = [0]", "after: `[0]` does not fit; write a list of numbers"),
            ("active = \"night\"", "active: `\"night\"` does not fit; write a list such as"),
            ("active = []", "active: names no hours; name some hours"),
            ("active = [\"mon-sun\"]", "active: is always; name some hours"),
            ("active = [\"noon\"]", "active: `noon` cannot be read: `noon` is not a day; write"),
        ] {
            let told = read(text).unwrap_err();
            assert!(told.len() == 1 && told[0].starts_with(problem), "{text}: {told:#?}");
        }
    }
}
