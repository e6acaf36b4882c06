//! Why a job has no more than it has, in a code and in words.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why work has less than it wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reason {
    /// A stable name for programs, such as `fair_share_used`.
    pub code: String,
    /// The same with its numbers, for people.
    pub sentence: String,
}
