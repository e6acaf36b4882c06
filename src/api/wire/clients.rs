//! Who asks the daemon, and how often.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Who asks most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClientList {
    /// The heaviest first.
    pub clients: Vec<ClientInfo>,
    /// All others together.
    pub other_clients: ClientCounts,
}

/// One of those who ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClientInfo {
    /// The name of its token, or of a user of the daemon's machine; `anybody` where nobody has to say, `-`
    /// of a stranger.
    pub client: String,
    /// Its role. Absent of `anybody` and of strangers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Where it comes from. Absent at the unix socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// How often it asked.
    #[serde(flatten)]
    pub counts: ClientCounts,
}

/// How often somebody asked, since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClientCounts {
    /// Requests that were answered.
    pub requests: u64,
    /// Those of them that were refused, with a status of 400 to 499 other than 429.
    pub refused: u64,
    /// Those that came too often, refused with 429.
    pub limited: u64,
}
