//! Chunks, sizes and duration of a job, in requests and in answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::model::{Chunk, Elasticity, LegalSizes, Mebibytes, Place, Tags};

/// Equal processes of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChunkRequest {
    /// Number of processes. At least 1.
    pub count: u64,
    /// Memory of each process, in MiB. At least 1.
    pub memory_mb: u64,
    /// Tags that a node must have for these processes, all of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// How the processes of chunks are spread over nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChunkPlace {
    /// As many on a node as fit.
    Free,
    /// One on a node.
    Scatter,
    /// All on the same node.
    Pack,
}

/// Owner of decisions on the number of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ElasticityWord {
    /// The number never changes.
    Rigid,
    /// The scheduler chooses the number at the start.
    Moldable,
    /// The scheduler may change the number at any time.
    Malleable,
    /// The owner of the job may change the number at any time.
    Evolving,
}

/// Numbers of processes that a job can work with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "unknown legal sizes, expected `any`, `power_of_two`, `even`, `odd`, {\"multiple_of\": K} or a list of sizes"
)]
pub enum SizeRule {
    /// Sizes with a name.
    Named(NamedSizes),
    /// Multiples of a number.
    Step(SizeStep),
    /// These sizes; at most 64.
    Listed(Vec<u64>),
}

/// Legal sizes with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NamedSizes {
    /// Every number.
    Any,
    /// 1, 2, 4, 8 and so on.
    PowerOfTwo,
    /// Even numbers.
    Even,
    /// Odd numbers.
    Odd,
}

/// Multiples of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeStep {
    /// The number. At least 1.
    pub multiple_of: u64,
}

impl From<ChunkPlace> for Place {
    fn from(place: ChunkPlace) -> Place {
        match place {
            ChunkPlace::Free => Place::Free,
            ChunkPlace::Scatter => Place::Scatter,
            ChunkPlace::Pack => Place::Pack,
        }
    }
}

impl From<Place> for ChunkPlace {
    fn from(place: Place) -> ChunkPlace {
        match place {
            Place::Free => ChunkPlace::Free,
            Place::Scatter => ChunkPlace::Scatter,
            Place::Pack => ChunkPlace::Pack,
        }
    }
}

impl From<ElasticityWord> for Elasticity {
    fn from(word: ElasticityWord) -> Elasticity {
        match word {
            ElasticityWord::Rigid => Elasticity::Rigid,
            ElasticityWord::Moldable => Elasticity::Moldable,
            ElasticityWord::Malleable => Elasticity::Malleable,
            ElasticityWord::Evolving => Elasticity::Evolving,
        }
    }
}

impl From<Elasticity> for ElasticityWord {
    fn from(elasticity: Elasticity) -> ElasticityWord {
        match elasticity {
            Elasticity::Rigid => ElasticityWord::Rigid,
            Elasticity::Moldable => ElasticityWord::Moldable,
            Elasticity::Malleable => ElasticityWord::Malleable,
            Elasticity::Evolving => ElasticityWord::Evolving,
        }
    }
}

impl From<&SizeRule> for LegalSizes {
    fn from(rule: &SizeRule) -> LegalSizes {
        match rule {
            SizeRule::Named(NamedSizes::Any) => LegalSizes::Any,
            SizeRule::Named(NamedSizes::PowerOfTwo) => LegalSizes::PowerOfTwo,
            SizeRule::Named(NamedSizes::Even) => LegalSizes::Even,
            SizeRule::Named(NamedSizes::Odd) => LegalSizes::Odd,
            SizeRule::Step(SizeStep { multiple_of }) => LegalSizes::MultipleOf(*multiple_of),
            SizeRule::Listed(sizes) => {
                let mut sizes = sizes.clone();
                sizes.sort_unstable();
                sizes.dedup();
                LegalSizes::Listed(sizes)
            }
        }
    }
}

impl From<&LegalSizes> for SizeRule {
    fn from(sizes: &LegalSizes) -> SizeRule {
        match sizes {
            LegalSizes::Any => SizeRule::Named(NamedSizes::Any),
            LegalSizes::PowerOfTwo => SizeRule::Named(NamedSizes::PowerOfTwo),
            LegalSizes::Even => SizeRule::Named(NamedSizes::Even),
            LegalSizes::Odd => SizeRule::Named(NamedSizes::Odd),
            LegalSizes::MultipleOf(step) => SizeRule::Step(SizeStep { multiple_of: *step }),
            LegalSizes::Listed(sizes) => SizeRule::Listed(sizes.clone()),
        }
    }
}

impl From<&Chunk> for ChunkRequest {
    fn from(chunk: &Chunk) -> ChunkRequest {
        let tags = chunk.tags.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        ChunkRequest { count: chunk.count, memory_mb: chunk.memory.0, tags: tags.collect() }
    }
}

impl From<&ChunkRequest> for Chunk {
    fn from(chunk: &ChunkRequest) -> Chunk {
        let ChunkRequest { count, memory_mb, tags } = chunk;
        Chunk { count: *count, memory: Mebibytes(*memory_mb), tags: Tags::of(tags) }
    }
}
