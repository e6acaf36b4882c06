//! The mode of a campaign: how its tasks are spread over slots.

use serde::{Deserialize, Serialize};

use super::fields::Fields;
use super::params::short;
use super::{CampaignSpec, SpecProblem};

/// Mode of a campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CampaignMode {
    /// Each free slot gets the next task.
    #[default]
    Workqueue,
    /// The same, with a single slot until a task has ended.
    Prediction,
    /// The same, and at the end free slots run copies of the last tasks.
    Finalise,
}

impl CampaignMode {
    /// Every mode, in the order of the declaration.
    pub const ALL: [CampaignMode; 3] =
        [CampaignMode::Workqueue, CampaignMode::Prediction, CampaignMode::Finalise];

    /// The word in campaign files.
    pub fn word(self) -> &'static str {
        match self {
            CampaignMode::Workqueue => "workqueue",
            CampaignMode::Prediction => "prediction",
            CampaignMode::Finalise => "finalise",
        }
    }

    /// True for the mode of campaigns that name none.
    pub fn is_default(&self) -> bool {
        *self == CampaignMode::default()
    }
}

/// Takes the mode out of a document.
pub(super) fn take(fields: &mut Fields<'_>) -> CampaignMode {
    let words = CampaignMode::ALL.map(CampaignMode::word).join(", ");
    let remedy = format!("write one of {words}");
    let Some(word) = fields.text("mode", &remedy) else { return CampaignMode::default() };
    let known = CampaignMode::ALL.into_iter().find(|mode| mode.word() == word);
    if known.is_none() {
        fields.fault("mode", format!("`{}` is unknown", short(&word)), remedy);
    }
    known.unwrap_or_default()
}

/// Reports fields that contradict the mode.
pub(super) fn settle(spec: &CampaignSpec, problems: &mut Vec<SpecProblem>) {
    if spec.gang.is_some() && !spec.mode.is_default() {
        let remedy = "remove it, or drop the gang";
        problems.push(SpecProblem::new("mode", "a gang has one slot on each node", remedy));
    } else if spec.mode == CampaignMode::Finalise && !spec.may_run_twice {
        let message = "`finalise` runs copies of the last tasks, and so needs `may_run_twice`";
        let remedy = "add `may_run_twice = true` if two of a task may run, or write \"workqueue\"";
        problems.push(SpecProblem::new("mode", message, remedy));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<CampaignMode, Vec<String>> {
        let document = toml::from_str(&format!("command = [\"true\"]\n{text}")).unwrap();
        let told = |problems: Vec<SpecProblem>| problems.iter().map(ToString::to_string).collect();
        CampaignSpec::read(document).map(|(spec, _)| spec.mode).map_err(told)
    }

    #[test]
    fn a_mode_is_one_of_three() {
        assert_eq!(read(""), Ok(CampaignMode::Workqueue));
        assert_eq!(read("mode = \"prediction\""), Ok(CampaignMode::Prediction));
        let finalise = read("mode = \"finalise\"\nmay_run_twice = true");
        assert_eq!(finalise, Ok(CampaignMode::Finalise));
        for (text, problem) in [
            ("mode = \"x\"", "mode: `x` is unknown; write one of workqueue, prediction, finalise"),
            ("mode = \"finalise\"", "mode: `finalise` runs copies of the last tasks, and so needs"),
            ("mode = \"prediction\"\ngang = { nodes = 2 }", "mode: a gang has one slot on each"),
        ] {
            let told = read(text).unwrap_err();
            assert!(told.len() == 1 && told[0].starts_with(problem), "{text}: {told:#?}");
        }
    }

    #[test]
    fn a_specification_of_before_has_the_default() {
        let document = toml::from_str("command = [\"true\"]").unwrap();
        let (spec, _) = CampaignSpec::read(document).unwrap();
        let text = serde_json::to_string(&spec).unwrap();
        assert!(!text.contains("workqueue"), "{text}");
        assert_eq!(serde_json::from_str::<CampaignSpec>(&text).unwrap(), spec);
    }
}
