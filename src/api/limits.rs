//! How much of anything a request may bring.

use std::time::Duration;

/// How much of anything is taken in.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body: usize,
    /// How long a request may take, long polls excepted.
    pub time: Duration,
    /// Nodes that may report, and that one request for work may list.
    pub nodes: usize,
    /// Requests for work in a publication.
    pub jobs: usize,
    /// Processes of one request for work.
    pub processes: usize,
    /// Bytes of a name, a reason or any other string.
    pub string: usize,
    /// From so many publications an absent process keeps its room,
    pub absent_publications: u32,
    /// and for so long.
    pub absent_time: Duration,
}
