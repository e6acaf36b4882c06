//! Settings of a class for gangs and times: whether it takes gangs, for how long work waits and runs.

use std::time::Duration;

use super::listing::Listing;
use super::problem::{Code, ConfigProblem, Problems, ValuePlace};
use super::section::Section;
use super::setting::Setting;
use super::value::{
    OverrunName, PolicyName, duration, flag, millis, number, on_overrun, toml_span, toml_text,
};
use crate::model::GangRules;

/// Shortest duration of a job.
const SHORTEST: Duration = Duration::from_millis(1);
/// Longest duration of a job: ten years.
const LONGEST: Duration = Duration::from_hours(10 * 365 * 24);
/// Longest time for which a waiting gang may keep nodes.
const HOLD_MAX: Duration = Duration::from_hours(1000);
/// Most cycles over which a moldable request relaxes.
const PATIENCE_MAX: i64 = 1000;

/// Settings of a class for gangs, as far as they are set.
#[derive(Clone, Debug)]
pub(super) struct GangEntry {
    pub gangs: Setting<bool>,
    pub patience: Setting<u64>,
    pub hold_limit: Setting<Duration>,
    pub default_duration: Setting<Duration>,
    pub max_duration: Setting<Duration>,
    pub on_overrun: Setting<OverrunName>,
}

impl GangEntry {
    /// Reads the settings of a class.
    pub(super) fn read(section: &mut Section<'_>) -> GangEntry {
        let defaults = GangRules::default();
        let hold_limit = Duration::from_millis(defaults.hold_limit);
        let length = duration(SHORTEST..=LONGEST);
        GangEntry {
            gangs: section.default_to("gangs", &flag(), &false),
            patience: section.default_to("patience", &number(0..=PATIENCE_MAX), &defaults.patience),
            hold_limit: section.default_to(
                "hold_limit",
                &duration(Duration::ZERO..=HOLD_MAX),
                &hold_limit,
            ),
            default_duration: section.setting("default_duration", &length),
            max_duration: section.setting("max_duration", &length),
            on_overrun: section.default_to("on_overrun", &on_overrun(), &OverrunName::Wait),
        }
    }

    /// Returns these settings, with absent settings taken from `below`.
    pub(super) fn over(&self, below: &GangEntry) -> GangEntry {
        GangEntry {
            gangs: self.gangs.over(&below.gangs),
            patience: self.patience.over(&below.patience),
            hold_limit: self.hold_limit.over(&below.hold_limit),
            default_duration: self.default_duration.over(&below.default_duration),
            max_duration: self.max_duration.over(&below.max_duration),
            on_overrun: self.on_overrun.over(&below.on_overrun),
        }
    }

    /// The rules that these settings come to.
    pub(super) fn rules(&self) -> GangRules {
        let defaults = GangRules::default();
        let span = |setting: &Setting<Duration>| setting.clone().into_value().map(millis);
        GangRules {
            are_allowed: self.gangs.clone().or(defaults.are_allowed),
            patience: self.patience.clone().or(defaults.patience),
            hold_limit: span(&self.hold_limit).unwrap_or(defaults.hold_limit),
            default_duration: span(&self.default_duration),
            max_duration: span(&self.max_duration),
            ends_overruns: self.on_overrun.clone().or(OverrunName::Wait) == OverrunName::End,
        }
    }

    /// Adds the settings to the listing.
    pub(super) fn list(&self, listing: &mut Listing, path: &str) {
        let key = |key: &str| format!("{path}.{key}");
        let rules = self.rules();
        let span = |span: &Duration| toml_span(millis(*span));
        let allowed = Some(rules.are_allowed.to_string());
        listing.push(key("gangs"), &self.gangs, allowed, bool::to_string);
        let patience = Some(rules.patience.to_string());
        listing.push(key("patience"), &self.patience, patience, u64::to_string);
        let hold_limit = Some(toml_span(rules.hold_limit));
        listing.push(key("hold_limit"), &self.hold_limit, hold_limit, span);
        listing.push(key("default_duration"), &self.default_duration, None, span);
        listing.push(key("max_duration"), &self.max_duration, None, span);
        let shown = |name: &OverrunName| toml_text(name.as_str());
        let wait = Some(shown(&OverrunName::Wait));
        listing.push(key("on_overrun"), &self.on_overrun, wait, shown);
    }

    /// Reports settings that have no effect under the policy of the class, or that contradict each
    /// other.
    pub(super) fn check(
        &self,
        path: &str,
        class: &str,
        policy: PolicyName,
        problems: &mut Problems,
    ) {
        let key = |key: &str| format!("{path}.{key}");
        if policy == PolicyName::Reserve {
            let allowed = self.gangs.given().filter(|gangs| gangs.value);
            let given: [(&str, Option<&ValuePlace>); 3] = [
                ("gangs", allowed.map(|gangs| &gangs.place)),
                ("patience", self.patience.place()),
                ("hold_limit", self.hold_limit.place()),
            ];
            for (name, place) in given {
                let Some(place) = place else { continue };
                let message =
                    format!("`{name}` has no effect in class `{class}`: its policy is reserve");
                let problem = ConfigProblem::new(Code::Misplaced, &key(name), place, message);
                problems.add(
                    problem.remedy("remove it; fixed-share and fair-share classes may take gangs"),
                );
            }
        }
        let ends = self.on_overrun.given().filter(|name| name.value == OverrunName::End);
        if let (PolicyName::FairShare, Some(ends)) = (policy, ends) {
            let message =
                format!("`on_overrun` has no effect in class `{class}`: its policy is fair-share");
            let problem =
                ConfigProblem::new(Code::Misplaced, &key("on_overrun"), &ends.place, message);
            let remedy = "remove it; fixed-share and reserve classes may end work that overruns";
            problems.add(problem.remedy(remedy));
        }
        let both = self.default_duration.given().zip(self.max_duration.given());
        if let Some((default, most)) = both.filter(|(default, most)| most.value < default.value) {
            let message = format!(
                "the `default_duration` of class `{class}` is longer than its `max_duration`"
            );
            let problem =
                ConfigProblem::new(Code::Range, &key("default_duration"), &default.place, message);
            let remedy = format!("allowed are times up to {}", toml_span(millis(most.value)));
            problems.add(problem.remedy(remedy).related(&most.place, "the longest"));
        }
    }
}
