//! Chunks, sizes and ranks, as they are written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::work::{TagsText, tags_text};
use crate::engine;
use crate::model::{self, Mebibytes, Millis, Name, Tags};

/// Shape of a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShapeText {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    chunks: Vec<ChunkText>,
    #[serde(default, skip_serializing_if = "is_default")]
    place: PlaceText,
    #[serde(default, skip_serializing_if = "is_default")]
    exclusive: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    group_by: Option<Name>,
    #[serde(default, skip_serializing_if = "is_default")]
    span: Option<bool>,
    #[serde(default, skip_serializing_if = "is_default")]
    elasticity: Option<ElasticityText>,
    #[serde(default, skip_serializing_if = "is_default")]
    min_processes: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    legal_sizes: SizesText,
    #[serde(default, skip_serializing_if = "is_default")]
    duration: Option<Millis>,
    #[serde(default, skip_serializing_if = "is_default")]
    not_before: Option<Millis>,
    #[serde(default, skip_serializing_if = "is_default")]
    deadline: Option<Millis>,
    #[serde(default, skip_serializing_if = "is_default")]
    reservation: Option<Name>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ChunkText {
    count: u64,
    memory_mb: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    tags: TagsText,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PlaceText {
    #[default]
    Free,
    Scatter,
    Pack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ElasticityText {
    Rigid,
    Moldable,
    Malleable,
    Evolving,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SizesText {
    #[default]
    Any,
    PowerOfTwo,
    Even,
    Odd,
    MultipleOf(u64),
    Listed(Vec<u64>),
}

/// Start of a gang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GangText {
    #[serde(default, skip_serializing_if = "is_default")]
    size: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    waits_since: Option<u64>,
    /// First and last cycle of a paid turn, and its price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<(u64, u64, i64)>,
    #[serde(default, skip_serializing_if = "is_default")]
    started: Option<Millis>,
    #[serde(default, skip_serializing_if = "is_default")]
    overrun: bool,
}

/// True if an absent field gives the same value.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl From<&model::Shape> for ShapeText {
    fn from(shape: &model::Shape) -> ShapeText {
        let model::Shape {
            chunks,
            place,
            is_exclusive,
            group_by,
            may_span,
            elasticity,
            min_processes,
            legal_sizes,
            duration,
            not_before,
            deadline,
            reservation,
        } = shape;
        ShapeText {
            chunks: chunks.iter().map(Into::into).collect(),
            place: (*place).into(),
            exclusive: *is_exclusive,
            group_by: group_by.clone(),
            span: *may_span,
            elasticity: elasticity.map(Into::into),
            min_processes: *min_processes,
            legal_sizes: legal_sizes.into(),
            duration: *duration,
            not_before: *not_before,
            deadline: *deadline,
            reservation: reservation.clone(),
        }
    }
}

impl From<ShapeText> for model::Shape {
    fn from(shape: ShapeText) -> model::Shape {
        model::Shape {
            chunks: shape.chunks.into_iter().map(Into::into).collect(),
            place: shape.place.into(),
            is_exclusive: shape.exclusive,
            group_by: shape.group_by,
            may_span: shape.span,
            elasticity: shape.elasticity.map(Into::into),
            min_processes: shape.min_processes,
            legal_sizes: shape.legal_sizes.into(),
            duration: shape.duration,
            not_before: shape.not_before,
            deadline: shape.deadline,
            reservation: shape.reservation,
        }
    }
}

impl From<&model::Chunk> for ChunkText {
    fn from(chunk: &model::Chunk) -> ChunkText {
        let model::Chunk { count, memory, tags } = chunk;
        ChunkText { count: *count, memory_mb: memory.0, tags: tags_text(tags) }
    }
}

impl From<ChunkText> for model::Chunk {
    fn from(chunk: ChunkText) -> model::Chunk {
        let ChunkText { count, memory_mb, tags } = chunk;
        model::Chunk { count, memory: Mebibytes(memory_mb), tags: Tags::of(tags) }
    }
}

impl From<model::Place> for PlaceText {
    fn from(place: model::Place) -> PlaceText {
        match place {
            model::Place::Free => PlaceText::Free,
            model::Place::Scatter => PlaceText::Scatter,
            model::Place::Pack => PlaceText::Pack,
        }
    }
}

impl From<PlaceText> for model::Place {
    fn from(place: PlaceText) -> model::Place {
        match place {
            PlaceText::Free => model::Place::Free,
            PlaceText::Scatter => model::Place::Scatter,
            PlaceText::Pack => model::Place::Pack,
        }
    }
}

impl From<model::Elasticity> for ElasticityText {
    fn from(elasticity: model::Elasticity) -> ElasticityText {
        match elasticity {
            model::Elasticity::Rigid => ElasticityText::Rigid,
            model::Elasticity::Moldable => ElasticityText::Moldable,
            model::Elasticity::Malleable => ElasticityText::Malleable,
            model::Elasticity::Evolving => ElasticityText::Evolving,
        }
    }
}

impl From<ElasticityText> for model::Elasticity {
    fn from(elasticity: ElasticityText) -> model::Elasticity {
        match elasticity {
            ElasticityText::Rigid => model::Elasticity::Rigid,
            ElasticityText::Moldable => model::Elasticity::Moldable,
            ElasticityText::Malleable => model::Elasticity::Malleable,
            ElasticityText::Evolving => model::Elasticity::Evolving,
        }
    }
}

impl From<&model::LegalSizes> for SizesText {
    fn from(sizes: &model::LegalSizes) -> SizesText {
        match sizes {
            model::LegalSizes::Any => SizesText::Any,
            model::LegalSizes::PowerOfTwo => SizesText::PowerOfTwo,
            model::LegalSizes::Even => SizesText::Even,
            model::LegalSizes::Odd => SizesText::Odd,
            model::LegalSizes::MultipleOf(step) => SizesText::MultipleOf(*step),
            model::LegalSizes::Listed(sizes) => SizesText::Listed(sizes.clone()),
        }
    }
}

impl From<SizesText> for model::LegalSizes {
    fn from(sizes: SizesText) -> model::LegalSizes {
        match sizes {
            SizesText::Any => model::LegalSizes::Any,
            SizesText::PowerOfTwo => model::LegalSizes::PowerOfTwo,
            SizesText::Even => model::LegalSizes::Even,
            SizesText::Odd => model::LegalSizes::Odd,
            SizesText::MultipleOf(step) => model::LegalSizes::MultipleOf(step),
            SizesText::Listed(sizes) => model::LegalSizes::Listed(sizes),
        }
    }
}

impl From<engine::GangProgress> for GangText {
    fn from(gang: engine::GangProgress) -> GangText {
        let engine::GangProgress { size, waits_since, turn, started, is_overrun } = gang;
        let turn = turn.map(|turn| (turn.from, turn.until, turn.price));
        GangText { size, waits_since, turn, started, overrun: is_overrun }
    }
}

impl From<GangText> for engine::GangProgress {
    fn from(gang: GangText) -> engine::GangProgress {
        let GangText { size, waits_since, turn, started, overrun: is_overrun } = gang;
        let turn = turn.map(|(from, until, price)| engine::PaidTurn { from, until, price });
        engine::GangProgress { size, waits_since, turn, started, is_overrun }
    }
}
