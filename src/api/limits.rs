//! Limits of requests.

use std::time::Duration;

/// Limits of requests, and of what they bring in.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body: usize,
    /// Time that a request may take, long polls excepted.
    pub time: Duration,
    /// Nodes that may report, and nodes that a job may list.
    pub nodes: usize,
    /// Jobs in a publication.
    pub jobs: usize,
    /// Processes of a job.
    pub processes: usize,
    /// Bytes of a name, a reason or any other string.
    pub string: usize,
    /// Publications without a process before its space is given up; the time below must pass too.
    pub absent_publications: u32,
    /// Time that a process is absent before its space is given up; the limit above must be reached
    /// too.
    pub absent_time: Duration,
}
