//! Advance reservations and maintenances: nodes that are kept for some work, or for none, for a
//! span of time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Impact, is_false, is_zero};

/// Purpose of an advance reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReservationKind {
    /// Fixed-share work starts on the nodes only if it names the reservation. Fair-share work
    /// goes on there and makes space for them.
    Reservation,
    /// No work is on the nodes.
    Maintenance,
}

impl ReservationKind {
    /// Returns the kind as a word, the same in JSON and text.
    pub fn word(self) -> &'static str {
        match self {
            ReservationKind::Reservation => "reservation",
            ReservationKind::Maintenance => "maintenance",
        }
    }
}

/// A moment in a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "no time, expected milliseconds since the epoch or RFC 3339 such as \"2026-12-01T18:00:00+01:00\""
)]
pub enum TimeText {
    /// Milliseconds since the epoch.
    Millis(u64),
    /// RFC 3339, with an offset from UTC.
    Text(String),
}

/// Keep nodes for a span of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationRequest {
    /// Name of the reservation; jobs refer to it.
    pub name: String,
    /// Purpose of the reservation.
    pub kind: ReservationKind,
    /// Names or host lists: `node[01-03]`. All of them must be known, or nothing is done.
    pub nodes: Vec<String>,
    /// Start: milliseconds since the epoch or RFC 3339. At most 8 weeks ahead.
    pub start: TimeText,
    /// End: milliseconds since the epoch or RFC 3339. After the start, and not in the past.
    pub end: TimeText,
    /// Users whose jobs may use a reservation. Empty or absent: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Classes whose jobs may use a reservation. Empty or absent: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Reason, shown with the reservation. Required for a maintenance.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// True: reserves the nodes although work that cannot be preempted is in the way. The work
    /// stays.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
    /// True: only reports the effect and changes nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
}

/// An advance reservation or maintenance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationInfo {
    /// Name of the reservation.
    pub name: String,
    /// Purpose of the reservation.
    pub kind: ReservationKind,
    /// Names of the nodes, ascending.
    pub nodes: Vec<String>,
    /// Start, in milliseconds since the epoch.
    pub start_ms: u64,
    /// First moment after the reservation, in milliseconds since the epoch.
    pub end_ms: u64,
    /// Users whose jobs may use it. Empty: all.
    pub users: Vec<String>,
    /// Classes whose jobs may use it. Empty: all.
    pub classes: Vec<String>,
    /// Reason of the reservation; may be empty.
    pub reason: String,
}

/// Advance reservations and maintenances that are not over, by start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationList {
    /// The cycle this is from.
    pub cycle: u64,
    /// The reservations.
    pub reservations: Vec<ReservationInfo>,
}

/// The reservation of a node that is open, or opens next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NextWindow {
    /// Name of the reservation.
    pub name: String,
    /// Purpose of the reservation.
    pub kind: ReservationKind,
    /// Start, in milliseconds since the epoch.
    pub start_ms: u64,
    /// First moment after the reservation, in milliseconds since the epoch.
    pub end_ms: u64,
}

/// Effect of a reservation, done or only planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationAnswer {
    /// The reservation.
    pub reservation: ReservationInfo,
    /// False if the reservation was there already.
    pub changed: bool,
    /// True if nothing was changed.
    pub dry_run: bool,
    /// Work that cannot be preempted and is still there when the reservation opens. It stays.
    pub in_the_way: Vec<WorkInTheWay>,
    /// Effect on jobs in the next cycle. Work that makes space later is not in it.
    pub impact: Impact,
    /// Jobs whose expected start the reservation moves, oldest first. At most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts_moved: Vec<StartMove>,
    /// Number of further jobs whose expected start moves.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_starts_moved: u64,
}

/// A job that starts at another time because of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartMove {
    /// Number of the job.
    pub job: u64,
    /// User of the job.
    pub user: String,
    /// Expected start without the reservation, in milliseconds since the epoch. Absent if it is not
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_ms: Option<u64>,
    /// Expected start with the reservation, in milliseconds since the epoch. Absent if it is not
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
}

/// A share that is still on a node of a reservation when it opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkInTheWay {
    /// Number of the job.
    pub job: u64,
    /// Number of the share.
    pub share: u64,
    /// User of the job.
    pub user: String,
    /// Node of the share.
    pub node: String,
    /// Expected end, in milliseconds since the epoch. Absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ms: Option<u64>,
}

/// Outcome of the deletion of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationDeletion {
    /// Name of the reservation.
    pub name: String,
    /// False if there was no reservation of that name.
    pub changed: bool,
    /// Nodes that are free of it now.
    pub nodes: Vec<String>,
    /// The most similar name of a reservation, if none has the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}
