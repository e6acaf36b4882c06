//! Figures of a run of the demo.

use std::time::Duration;

use serde::Serialize;

/// The JSON document at the end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemoReport {
    /// Nodes that reported.
    pub nodes_seen: u64,
    /// Cycles run.
    pub cycles: u64,
    /// Time of planning and storing a cycle.
    pub cycle_ms: TimeSpread,
    /// Requests for work submitted.
    pub submitted: u64,
    /// Requests for work done.
    pub completed: u64,
    /// Processes started in a share.
    pub shares_placed: u64,
    /// Processes preempted for jobs that were below their fair share.
    pub preemptions: u64,
    /// Processes evicted because their node died or was varied off.
    pub evictions: u64,
    /// Thread time of finished items, in milliseconds of the simulated cluster.
    pub work_done_ms: u64,
    /// Thread time of items that preempted processes had to leave, in the same milliseconds.
    pub work_lost_ms: u64,
    /// Nodes that died.
    pub nodes_lost: u64,
    /// Shortfall of users with unmet demand: percent of all qshares, over the time in which demand
    /// exceeded the capacity.
    pub fairness_error: f64,
    /// Rules that a cycle broke, as the audit saw it.
    pub audit_findings: u64,
    /// The first few of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// Requests over HTTP that failed, or were refused in part.
    pub http_errors: u64,
    /// The first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_http_error: Option<String>,
}

/// The middle and the far end of many times, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TimeSpread {
    /// Half of them are no longer than this.
    pub p50: f64,
    /// Time that 99 of 100 values do not exceed.
    pub p99: f64,
}

impl TimeSpread {
    /// The spread of `times` (nearest rank); zero if there are none.
    pub(super) fn of(mut times: Vec<Duration>) -> TimeSpread {
        times.sort_unstable();
        TimeSpread { p50: percentile(&times, 50), p99: percentile(&times, 99) }
    }
}

#[expect(clippy::float_arithmetic, reason = "a figure for people; nothing is decided by it")]
fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    let time = sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default();
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let spread = |millis: &[u64]| {
            TimeSpread::of(millis.iter().map(|&ms| Duration::from_millis(ms)).collect())
        };
        assert_eq!(spread(&[]), TimeSpread { p50: 0.0, p99: 0.0 });
        assert_eq!(spread(&[7]), TimeSpread { p50: 7.0, p99: 7.0 });
        assert_eq!(spread(&[4, 1, 3, 2]), TimeSpread { p50: 2.0, p99: 4.0 });
        assert_eq!(spread(&(1..=200).collect::<Vec<_>>()), TimeSpread { p50: 100.0, p99: 198.0 });
    }
}
