//! Leases of campaigns that another orchestrator forwards.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A reading of an orchestrator's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeadClock {
    /// The boot of its machine.
    pub boot: String,
    /// Time since that boot, in milliseconds.
    pub ms: u64,
    /// Lease of its slots, in milliseconds: a slot that it cannot reach ends after it.
    pub slot_lease_ms: u64,
}

/// The lease of a campaign that is submitted: the orchestrator cancels the campaign unless the lease
/// is renewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseTerms {
    /// Length of the lease, in milliseconds.
    pub for_ms: u64,
    /// The boot of the last reading of the orchestrator's clock.
    pub boot: String,
    /// The last reading, in milliseconds. The lease counts from it.
    pub as_of_ms: u64,
}

/// A renewal of leases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRenewal {
    /// The boot of the last reading of the orchestrator's clock.
    pub boot: String,
    /// The last reading, in milliseconds. The leases count from it.
    pub as_of_ms: u64,
    /// Numbers of the campaigns.
    pub campaigns: Vec<u64>,
}

/// The renewed leases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RenewedLeases {
    /// Numbers of the campaigns whose leases go on. The others have ended, or have no lease.
    pub campaigns: Vec<u64>,
}
