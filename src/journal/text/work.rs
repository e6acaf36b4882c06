//! Work and nodes, as they are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::shape::ShapeText;
use crate::model::{self, JobId, Mebibytes, Millis, Name, Tags};

/// Kind of a job.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KindText {
    Job,
    Service,
    ArbitraryProcess,
    Reservation,
}

/// The most processes a request may have.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Unlimited,
    AtMost(u64),
    Frozen,
}

/// Facts of a job that change while it runs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Facts {
    remaining: u64,
    limit: Limit,
    running: bool,
    time_per_item: Option<Millis>,
    completing: bool,
}

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    id: u64,
    user: Name,
    class: Name,
    kind: KindText,
    memory_mb: u64,
    threads: u64,
    submitted: Millis,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "machines")]
    nodes: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    except_nodes: Vec<Name>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    tags: TagsText,
    #[serde(default, skip_serializing_if = "is_zero")]
    service: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shape: Option<ShapeText>,
    facts: Facts,
}

/// Facts of a process: true if it has initialized, its initialization time, its investment.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ProcessText(bool, Millis, Millis);

/// Tags, by key.
pub type TagsText = BTreeMap<Name, Name>;

/// Tags as they are written.
pub fn tags_text(tags: &Tags) -> TagsText {
    tags.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Report of an agent: the node's name, its memory in MiB, and true if it wants no new shares; then
/// its tags, if it has any.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ReportText {
    Tagged(Name, u64, bool, TagsText),
    Plain(Name, u64, bool),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks for it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl From<model::JobKind> for KindText {
    fn from(kind: model::JobKind) -> KindText {
        match kind {
            model::JobKind::Job => KindText::Job,
            model::JobKind::Service => KindText::Service,
            model::JobKind::ArbitraryProcess => KindText::ArbitraryProcess,
            model::JobKind::Reservation => KindText::Reservation,
        }
    }
}

impl From<KindText> for model::JobKind {
    fn from(kind: KindText) -> model::JobKind {
        match kind {
            KindText::Job => model::JobKind::Job,
            KindText::Service => model::JobKind::Service,
            KindText::ArbitraryProcess => model::JobKind::ArbitraryProcess,
            KindText::Reservation => model::JobKind::Reservation,
        }
    }
}

impl From<&model::JobFacts> for Facts {
    fn from(facts: &model::JobFacts) -> Facts {
        let model::JobFacts { remaining, limit, is_running, time_per_item, is_completing } = *facts;
        let limit = match limit {
            model::ProcessLimit::Unlimited => Limit::Unlimited,
            model::ProcessLimit::AtMost(most) => Limit::AtMost(most),
            model::ProcessLimit::Frozen => Limit::Frozen,
        };
        Facts { remaining, limit, running: is_running, time_per_item, completing: is_completing }
    }
}

impl From<Facts> for model::JobFacts {
    fn from(facts: Facts) -> model::JobFacts {
        model::JobFacts {
            remaining: facts.remaining,
            limit: match facts.limit {
                Limit::Unlimited => model::ProcessLimit::Unlimited,
                Limit::AtMost(most) => model::ProcessLimit::AtMost(most),
                Limit::Frozen => model::ProcessLimit::Frozen,
            },
            is_running: facts.running,
            time_per_item: facts.time_per_item,
            is_completing: facts.completing,
        }
    }
}

impl From<&model::JobSpec> for Spec {
    fn from(spec: &model::JobSpec) -> Spec {
        let model::JobSpec { id, user, class, kind, memory, threads, submitted, .. } = spec;
        let model::JobSpec { nodes, except_nodes, tags, service, shape, facts, .. } = spec;
        Spec {
            id: id.0,
            user: user.clone(),
            class: class.clone(),
            kind: (*kind).into(),
            memory_mb: memory.0,
            threads: *threads,
            submitted: *submitted,
            nodes: nodes.clone(),
            except_nodes: except_nodes.clone(),
            tags: tags_text(tags),
            service: *service,
            shape: shape.as_deref().map(Into::into),
            facts: facts.into(),
        }
    }
}

impl From<Spec> for model::JobSpec {
    fn from(spec: Spec) -> model::JobSpec {
        model::JobSpec {
            shape: spec.shape.map(|shape| Arc::new(shape.into())),
            tags: Tags::of(spec.tags),
            id: JobId(spec.id),
            user: spec.user,
            class: spec.class,
            kind: spec.kind.into(),
            memory: Mebibytes(spec.memory_mb),
            threads: spec.threads,
            submitted: spec.submitted,
            nodes: spec.nodes,
            except_nodes: spec.except_nodes,
            service: spec.service,
            facts: spec.facts.into(),
        }
    }
}

impl From<&model::ShareFacts> for ProcessText {
    fn from(facts: &model::ShareFacts) -> ProcessText {
        let model::ShareFacts { is_initialized, initialization, investment } = *facts;
        ProcessText(is_initialized, initialization, investment)
    }
}

impl From<ProcessText> for model::ShareFacts {
    fn from(
        ProcessText(is_initialized, initialization, investment): ProcessText,
    ) -> model::ShareFacts {
        model::ShareFacts { is_initialized, initialization, investment }
    }
}

impl From<&model::NodeReport> for ReportText {
    fn from(report: &model::NodeReport) -> ReportText {
        let model::NodeReport { name, memory, is_quiesced, tags } = report;
        if tags.is_empty() {
            ReportText::Plain(name.clone(), memory.0, *is_quiesced)
        } else {
            ReportText::Tagged(name.clone(), memory.0, *is_quiesced, tags_text(tags))
        }
    }
}

impl From<ReportText> for model::NodeReport {
    fn from(report: ReportText) -> model::NodeReport {
        let (name, memory, is_quiesced, tags) = match report {
            ReportText::Plain(name, memory, is_quiesced) => {
                (name, memory, is_quiesced, TagsText::new())
            }
            ReportText::Tagged(name, memory, is_quiesced, tags) => {
                (name, memory, is_quiesced, tags)
            }
        };
        model::NodeReport { name, memory: Mebibytes(memory), is_quiesced, tags: Tags::of(tags) }
    }
}
