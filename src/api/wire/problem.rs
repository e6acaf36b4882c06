//! Failures as RFC 9457 problem details.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a request was refused. Sent as `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Identifies the kind of problem: `/errors/` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem in a few words, the same every time.
    pub title: String,
    /// The HTTP status, repeated for whoever sees only the body.
    pub status: u16,
    /// What is wrong this time, and what would be right.
    pub detail: String,
    /// A stable name for programs, such as `P010`.
    pub code: String,
    /// The places at fault, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ItemProblem>,
}

/// What is wrong in one place of a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ItemProblem {
    /// Where: a JSON pointer (RFC 6901) into the body that was sent. Empty means all of it.
    pub pointer: String,
    /// A stable name for programs, such as `P026`.
    pub code: String,
    /// What is wrong, what would be right, and what was done with the rest.
    pub detail: String,
}
