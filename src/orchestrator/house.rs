//! Rules of a site for campaigns that are submitted.

use std::path::PathBuf;

use jiff::tz::TimeZone;

use super::spec::{CampaignSpec, CampaignType};
use crate::config::AdmissionSettings;

/// Rules of a site, by the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HouseRules {
    /// Class of test campaigns. `None`: they have the class that they name.
    pub test_class: Option<String>,
    /// Admission rules of the configuration, in order.
    pub rules: Vec<AdmissionSettings>,
    /// Folder of further admission rules. `None`: there are none.
    pub admission: Option<PathBuf>,
    /// Program that is told of each event of campaigns. `None`: none is.
    pub notify: Option<PathBuf>,
    /// Time zone of the hours of campaigns.
    pub zone: TimeZone,
}

impl Default for HouseRules {
    /// No rule, and hours in UTC.
    fn default() -> HouseRules {
        HouseRules {
            test_class: None,
            rules: Vec::new(),
            admission: None,
            notify: None,
            zone: TimeZone::UTC,
        }
    }
}

impl HouseRules {
    /// True if a campaign is shown to some rule.
    pub fn has_admission(&self) -> bool {
        self.admission.is_some() || !self.rules.is_empty()
    }

    /// Gives a test campaign its class.
    pub fn settle(&self, spec: &mut CampaignSpec) {
        if spec.kind == CampaignType::Test && self.test_class.is_some() {
            spec.class.clone_from(&self.test_class);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_has_the_class_of_tests_whatever_it_names() {
        let read = |kind: &str| {
            let text = format!("command = [\"true\"]\nclass = \"normal\"\ntype = \"{kind}\"");
            CampaignSpec::read(toml::from_str(&text).unwrap()).unwrap().0
        };
        let class = |rules: &HouseRules, kind: &str| {
            let mut spec = read(kind);
            rules.settle(&mut spec);
            spec.class.unwrap()
        };
        let rules = HouseRules { test_class: Some("fast".to_owned()), ..HouseRules::default() };
        assert_eq!(
            (class(&rules, "test"), class(&rules, "default")),
            ("fast".into(), "normal".into())
        );
        assert_eq!(class(&HouseRules::default(), "test"), "normal");
    }
}
