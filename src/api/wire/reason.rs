//! Reasons why a job has no more than it has, as a code and in words.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Reason why a job has less than it wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reason {
    /// A stable name for programs, such as `fair_share_used`.
    pub code: String,
    /// The same with its numbers, for people.
    pub sentence: String,
}
