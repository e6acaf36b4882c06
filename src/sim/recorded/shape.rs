//! Chunks, sizes and durations of a job: as they are written, and as the scheduler takes them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::scenario::is_default;
use crate::model::{Chunk, Elasticity, LegalSizes, Mebibytes, Millis, Place, Shape, Tags};
use crate::sim::error::Flaw;

/// Chunks, sizes and duration of a job; all of them may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShapeInput {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<ChunkInput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elasticity: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_processes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub legal_sizes: Option<SizesInput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
}

/// Equal processes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ChunkInput {
    pub count: u64,
    #[serde(rename = "memGB")]
    pub memory_gb: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// Legal sizes: a word, multiples, or a list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum SizesInput {
    Named(String),
    Step {
        #[serde(rename = "multipleOf")]
        multiple_of: u64,
    },
    Listed(Vec<u64>),
}

impl ShapeInput {
    /// Reads the shape of a job of at most `most` processes; `None` for no limit. The result is
    /// `None` for a job whose processes come and go independently.
    pub fn read(&self, most: Option<u64>) -> Result<Option<Shape>, Flaw> {
        if *self == ShapeInput::default() {
            return Ok(None);
        }
        let chunk = |chunk: &ChunkInput| Chunk {
            count: chunk.count,
            memory: Mebibytes::from_gib(chunk.memory_gb),
            tags: Tags::of(&chunk.tags),
        };
        let place = self
            .place
            .as_deref()
            .map(|word| named(".place", word, Place::ALL.map(|place| (place.word(), place))));
        let elasticity = self.elasticity.as_deref().map(|word| {
            let words = Elasticity::ALL.map(|elasticity| (elasticity.word(), elasticity));
            named(".elasticity", word, words)
        });
        let legal_sizes = match &self.legal_sizes {
            None => LegalSizes::Any,
            Some(SizesInput::Named(word)) => named(".legalSizes", word, LegalSizes::NAMED)?,
            Some(SizesInput::Step { multiple_of }) => LegalSizes::MultipleOf(*multiple_of),
            Some(SizesInput::Listed(sizes)) => {
                let mut sizes = sizes.clone();
                sizes.sort_unstable();
                sizes.dedup();
                LegalSizes::Listed(sizes)
            }
        };
        let shape = Shape {
            chunks: self.chunks.iter().map(chunk).collect(),
            place: place.transpose()?.unwrap_or_default(),
            is_exclusive: self.exclusive.unwrap_or(false),
            group_by: self.group_by.as_deref().map(Into::into),
            may_span: self.span,
            elasticity: elasticity.transpose()?,
            min_processes: self.min_processes,
            legal_sizes,
            duration: self.duration_ms,
            not_before: self.not_before_ms,
            deadline: self.deadline_ms,
            reservation: self.reservation.as_deref().map(Into::into),
        };
        match shape.problem(most) {
            Some(problem) => {
                Err(Flaw::new("", problem.to_string(), "give chunks and sizes that agree"))
            }
            None => Ok(Some(shape)),
        }
    }
}

/// The value that `word` names among `words`.
fn named<T, const N: usize>(
    place: &str,
    word: &str,
    words: [(&'static str, T); N],
) -> Result<T, Flaw> {
    let allowed = words.each_ref().map(|(word, _)| *word).join(", ");
    let found = words.into_iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| value).ok_or_else(|| {
        Flaw::new(place, format!("`{word}` is not known here"), format!("use one of {allowed}"))
    })
}
