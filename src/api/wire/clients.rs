//! Clients of the daemon, and the number of their requests.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Clients with the most requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClientList {
    /// The heaviest first.
    pub clients: Vec<ClientInfo>,
    /// Sums over all clients that are not listed.
    pub other_clients: ClientCounts,
}

/// A client of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClientInfo {
    /// Name of the client's token, or of a user of the daemon's node. `anybody` where no token is
    /// required; `-` for an unauthenticated client.
    pub client: String,
    /// Role of the client. Absent for `anybody` and `-`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Network address of the client. Absent at the unix socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Number of its requests.
    #[serde(flatten)]
    pub counts: ClientCounts,
}

/// Number of a client's requests since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClientCounts {
    /// Requests that were answered.
    pub requests: u64,
    /// Answered requests that were refused with a status of 400 to 499 other than 429.
    pub refused: u64,
    /// Requests that came too often and were refused with 429.
    pub limited: u64,
}
