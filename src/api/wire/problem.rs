//! Failures as RFC 9457 problem details.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Explanation of a refused request. Sent as `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Identifies the kind of problem: `/errors/` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem in a few words, the same every time.
    pub title: String,
    /// HTTP status, repeated for clients that see only the body.
    pub status: u16,
    /// Description of this problem and of its remedy.
    pub detail: String,
    /// A stable name for programs, such as `P010`.
    pub code: String,
    /// The places at fault, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ItemProblem>,
}

/// A problem in a place of the body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ItemProblem {
    /// Place: a JSON pointer (RFC 6901) into the request's body. Empty means the whole body.
    pub pointer: String,
    /// A stable name for programs, such as `P026`.
    pub code: String,
    /// Description of the problem, of its remedy, and of the fate of the rest of the body.
    pub detail: String,
}
