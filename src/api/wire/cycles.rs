//! Past cycles that are on record.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The ends of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CycleRange {
    /// The last cycle.
    pub cycle: u64,
    /// The oldest cycle that can be computed again. Absent: none can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<u64>,
    /// The newest cycle that can be computed again. Absent: none can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<u64>,
}
