//! Checks of gangs: jobs whose processes start together, in a single cycle or not at all.
//!
//! The question "does it fit?" is answered by augmenting paths on single nodes ([`matching`]), for
//! the nodes of a set ([`sets`]) with the space that counts for the question ([`spaces`]). The
//! answer is exact for scattered and packed gangs, and for gangs of a single chunk. For chunks that
//! share nodes it may be "unknown" ([`fit`]); then nothing is found.
//!
//! - [`whole`]: processes begin, are promised and are taken together;
//! - [`places`]: ranks, tags, sizes and nodes of the processes;
//! - [`sizes`]: numbers of processes that a job can work with;
//! - [`waiting`]: gangs that wait though they fit, or for a false reason;
//! - [`calendar`]: windows, notices, and the earliest start of the first gang;
//! - [`reserved`]: work that waits in its advance reservation;
//! - [`urgent`]: work that goes for urgent jobs;
//! - [`earned`]: turns of gangs of fair-share work, and the time that they paid for;
//! - [`claims`]: space that older gangs keep from younger work that stays.

pub(super) mod calendar;
pub(super) mod claims;
pub(super) mod crew;
pub(super) mod earned;
mod fit;
mod matching;
pub(super) mod places;
pub(super) mod reserved;
mod sets;
pub(super) mod sizes;
mod spaces;
pub(super) mod urgent;
pub(super) mod waiting;
pub(super) mod whole;

#[cfg(test)]
mod tests;
