//! Admission rules, as clients see them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Verdict of a rule about a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleVerdict {
    /// The campaign passes as it is.
    Ok,
    /// The campaign is not taken.
    Reject,
    /// The campaign passes with changes.
    Rewrite,
}

/// A field that a rule changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleChange {
    /// The field of the campaign file.
    pub field: String,
    /// Value before the rule. Absent: the campaign did not have the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<serde_json::Value>,
    /// Value after the rule. Absent: the rule took the field out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<serde_json::Value>,
}

/// An admission rule, with its verdict about a campaign. In the list of all rules the verdict is `ok`, and the
/// text of a rule of the configuration says its limits and defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdmissionRule {
    /// Name of the rule.
    pub name: String,
    /// SHA-256 of the rule's file, or of the text of a rule of the configuration, in hexadecimal digits.
    pub sha256: String,
    /// Verdict of the rule.
    pub verdict: RuleVerdict,
    /// Sentence of the rule; may be empty.
    #[serde(default)]
    pub text: String,
    /// Fields that the rule changed, by name, for the owner and operators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<RuleChange>,
}

/// The admission rules of a site, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdmissionList {
    /// The rules.
    pub rules: Vec<AdmissionRule>,
}

/// Verdict of all rules about a campaign that is not submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdmissionTrial {
    /// The rules that saw it, in order, up to the first that rejected it.
    pub rules: Vec<AdmissionRule>,
    /// The campaign, as the rules left it.
    pub spec: serde_json::Value,
}

/// Rules that a campaign passed, and the campaign as it was submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdmissionRecord {
    /// The rules, in order.
    pub rules: Vec<AdmissionRule>,
    /// The campaign as it was submitted, without `lines` and `items`, for its owner and operators. Absent: no
    /// rule changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<serde_json::Value>,
}
