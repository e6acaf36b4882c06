//! The configuration, as written.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::shape::is_default;
use super::work::{TagsText, tags_text};
use crate::model::{self, Mebibytes, Millis, Name, PoolIx, Quantum};

/// Whole configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TopologyText {
    settings: SettingsText,
    pools: Vec<Pool>,
    classes: Vec<ClassText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<TagRuleText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    reported_tags: Vec<Name>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    placement_sets: Vec<Name>,
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    span_sets: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    allotments_mb: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    urgent_allotments_mb: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct SettingsText {
    fragmentation_threshold: u64,
    defragmentation: bool,
    allotment_mb: Option<u64>,
    reserve_overage_mb: u64,
    reserved_memory_mb: u64,
    publication_period: Millis,
    node_stability: u32,
    mass_loss_percent: Option<u32>,
    quiet_stop: Option<u64>,
    #[serde(default = "notice", skip_serializing_if = "is_usual_notice")]
    notice: Millis,
    #[serde(default = "depth", skip_serializing_if = "is_usual_depth")]
    backfill_depth: u64,
    /// Absent: nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    urgent_allotment: UsualUrgent,
}

/// Urgent allotment of users without their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum UsualUrgent {
    #[default]
    Nothing,
    Mb(u64),
    Unlimited,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Pool {
    name: Name,
    parent: Option<usize>,
    search_order: u32,
    quantum_mb: NonZeroU64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "as the configuration has it")]
struct ClassText {
    name: Name,
    policy: PolicyText,
    priority: u32,
    pool: usize,
    initialization_cap: u64,
    expand_by_doubling: bool,
    prediction: bool,
    prediction_fudge: Millis,
    loss_limit: Millis,
    users: Option<Vec<String>>,
    #[serde(rename = "default")]
    is_default: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    gangs: bool,
    #[serde(default = "patience", skip_serializing_if = "is_usual_patience")]
    patience: u64,
    #[serde(default = "hold_limit", skip_serializing_if = "is_usual_hold_limit")]
    hold_limit: Millis,
    #[serde(default, skip_serializing_if = "is_default")]
    default_duration: Option<Millis>,
    #[serde(default, skip_serializing_if = "is_default")]
    max_duration: Option<Millis>,
    #[serde(default, skip_serializing_if = "is_default")]
    urgent: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    ends_overruns: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PolicyText {
    FairShare { weight: u32 },
    FixedShare,
    Reserve,
}

/// Tags of some nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct TagRuleText {
    nodes: Vec<Name>,
    set: TagsText,
    #[serde(default, skip_serializing_if = "is_default")]
    preference: Option<i32>,
}

/// Default of an absent field.
fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

/// Default of an absent field.
fn patience() -> u64 {
    model::GangRules::PATIENCE
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_usual_patience(value: &u64) -> bool {
    *value == patience()
}

/// Default of an absent field.
fn hold_limit() -> Millis {
    model::GangRules::HOLD_LIMIT
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_usual_hold_limit(value: &Millis) -> bool {
    *value == hold_limit()
}

/// Default of an absent field.
fn notice() -> Millis {
    model::Settings::default().notice
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_usual_notice(value: &Millis) -> bool {
    *value == notice()
}

/// Default of an absent field.
fn depth() -> u64 {
    model::Settings::default().backfill_depth
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_usual_depth(value: &u64) -> bool {
    *value == depth()
}

impl From<&model::TagRule> for TagRuleText {
    fn from(rule: &model::TagRule) -> TagRuleText {
        let model::TagRule { nodes, set, preference } = rule;
        TagRuleText { nodes: nodes.clone(), set: tags_text(set), preference: *preference }
    }
}

impl From<TagRuleText> for model::TagRule {
    fn from(rule: TagRuleText) -> model::TagRule {
        let TagRuleText { nodes, set, preference } = rule;
        model::TagRule { nodes, set: model::Tags::of(set), preference }
    }
}

impl From<&model::Topology> for TopologyText {
    fn from(topology: &model::Topology) -> TopologyText {
        let model::Topology { settings, pools, classes, tagging, allotments } = topology;
        TopologyText {
            settings: settings.into(),
            pools: pools.iter().map(Into::into).collect(),
            classes: classes.iter().map(Into::into).collect(),
            tags: tagging.rules.iter().map(Into::into).collect(),
            reported_tags: tagging.reported.clone(),
            placement_sets: tagging.sets.clone(),
            span_sets: tagging.may_span,
            allotments_mb: allotments
                .iter()
                .filter_map(|(user, own)| Some((user.clone(), own.fixed?.0)))
                .collect(),
            urgent_allotments_mb: allotments
                .iter()
                .filter_map(|(user, own)| Some((user.clone(), own.urgent?.0)))
                .collect(),
        }
    }
}

impl From<TopologyText> for model::Topology {
    fn from(topology: TopologyText) -> model::Topology {
        let mut allotments: BTreeMap<String, model::UserAllotment> = BTreeMap::new();
        for (user, most) in topology.allotments_mb {
            allotments.entry(user).or_default().fixed = Some(Mebibytes(most));
        }
        for (user, most) in topology.urgent_allotments_mb {
            allotments.entry(user).or_default().urgent = Some(Mebibytes(most));
        }
        model::Topology {
            tagging: model::NodeTagging {
                may_span: topology.span_sets,
                sets: topology.placement_sets,
                rules: topology.tags.into_iter().map(Into::into).collect(),
                reported: topology.reported_tags,
            },
            settings: topology.settings.into(),
            pools: topology.pools.into_iter().map(Into::into).collect(),
            classes: topology.classes.into_iter().map(Into::into).collect(),
            allotments,
        }
    }
}

impl From<&model::Settings> for SettingsText {
    fn from(settings: &model::Settings) -> SettingsText {
        let model::Settings {
            fragmentation_threshold,
            defragmentation,
            allotment,
            reserve_overage,
            reserved_memory,
            publication_period,
            node_stability,
            mass_loss_percent,
            quiet_stop,
            notice,
            backfill_depth,
            urgent_allotment,
        } = *settings;
        SettingsText {
            fragmentation_threshold,
            defragmentation,
            allotment_mb: allotment.map(|allotment| allotment.0),
            reserve_overage_mb: reserve_overage.0,
            reserved_memory_mb: reserved_memory.0,
            publication_period,
            node_stability,
            mass_loss_percent,
            quiet_stop,
            notice,
            backfill_depth,
            urgent_allotment: match urgent_allotment {
                Some(Mebibytes(0)) => UsualUrgent::Nothing,
                Some(Mebibytes(most)) => UsualUrgent::Mb(most),
                None => UsualUrgent::Unlimited,
            },
        }
    }
}

impl From<SettingsText> for model::Settings {
    fn from(settings: SettingsText) -> model::Settings {
        model::Settings {
            fragmentation_threshold: settings.fragmentation_threshold,
            defragmentation: settings.defragmentation,
            allotment: settings.allotment_mb.map(Mebibytes),
            reserve_overage: Mebibytes(settings.reserve_overage_mb),
            reserved_memory: Mebibytes(settings.reserved_memory_mb),
            publication_period: settings.publication_period,
            node_stability: settings.node_stability,
            mass_loss_percent: settings.mass_loss_percent,
            quiet_stop: settings.quiet_stop,
            notice: settings.notice,
            backfill_depth: settings.backfill_depth,
            urgent_allotment: match settings.urgent_allotment {
                UsualUrgent::Nothing => Some(Mebibytes(0)),
                UsualUrgent::Mb(most) => Some(Mebibytes(most)),
                UsualUrgent::Unlimited => None,
            },
        }
    }
}

impl From<&model::Nodepool> for Pool {
    fn from(pool: &model::Nodepool) -> Pool {
        let model::Nodepool { name, parent, search_order, quantum, nodes } = pool;
        Pool {
            name: name.clone(),
            parent: parent.map(|parent| parent.0),
            search_order: *search_order,
            quantum_mb: NonZeroU64::new(quantum.memory().0).expect("a quantum is not nothing"),
            nodes: nodes.clone(),
        }
    }
}

impl From<Pool> for model::Nodepool {
    fn from(pool: Pool) -> model::Nodepool {
        let quantum = Quantum::new(Mebibytes(pool.quantum_mb.get()));
        model::Nodepool {
            name: pool.name,
            parent: pool.parent.map(PoolIx),
            search_order: pool.search_order,
            quantum: quantum.expect("it is not zero"),
            nodes: pool.nodes,
        }
    }
}

impl From<&model::ResourceClass> for ClassText {
    fn from(class: &model::ResourceClass) -> ClassText {
        let model::ResourceClass {
            name,
            policy,
            priority,
            pool,
            cap_rules,
            users,
            is_default,
            is_urgent,
            gangs,
        } = class;
        let model::GangRules {
            are_allowed,
            patience,
            hold_limit,
            default_duration,
            max_duration,
            ends_overruns,
        } = *gangs;
        let model::CapRules {
            initialization_cap,
            expand_by_doubling,
            prediction,
            prediction_fudge,
            loss_limit,
        } = *cap_rules;
        ClassText {
            name: name.clone(),
            policy: match *policy {
                model::ClassPolicy::FairShare { weight } => PolicyText::FairShare { weight },
                model::ClassPolicy::FixedShare => PolicyText::FixedShare,
                model::ClassPolicy::Reserve => PolicyText::Reserve,
            },
            priority: *priority,
            pool: pool.0,
            initialization_cap,
            expand_by_doubling,
            prediction,
            prediction_fudge,
            loss_limit,
            users: users.clone(),
            is_default: *is_default,
            urgent: *is_urgent,
            gangs: are_allowed,
            patience,
            hold_limit,
            default_duration,
            max_duration,
            ends_overruns,
        }
    }
}

impl From<ClassText> for model::ResourceClass {
    fn from(class: ClassText) -> model::ResourceClass {
        model::ResourceClass {
            name: class.name,
            policy: match class.policy {
                PolicyText::FairShare { weight } => model::ClassPolicy::FairShare { weight },
                PolicyText::FixedShare => model::ClassPolicy::FixedShare,
                PolicyText::Reserve => model::ClassPolicy::Reserve,
            },
            priority: class.priority,
            pool: PoolIx(class.pool),
            cap_rules: model::CapRules {
                initialization_cap: class.initialization_cap,
                expand_by_doubling: class.expand_by_doubling,
                prediction: class.prediction,
                prediction_fudge: class.prediction_fudge,
                loss_limit: class.loss_limit,
            },
            users: class.users,
            is_default: class.is_default,
            is_urgent: class.urgent,
            gangs: model::GangRules {
                are_allowed: class.gangs,
                patience: class.patience,
                hold_limit: class.hold_limit,
                default_duration: class.default_duration,
                max_duration: class.max_duration,
                ends_overruns: class.ends_overruns,
            },
        }
    }
}
