//! The figures of a run. MODEL section 9.

use serde::Serialize;

/// Distribution of a single figure over all jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct JobSpread {
    /// The mean.
    pub mean: f64,
    /// The median; of an even number, the mean of the middle two.
    pub median: f64,
    /// The 95th percentile by nearest rank.
    pub p95: f64,
    /// The largest.
    pub max: f64,
}

/// Shortfall of users from their fair shares, in percent of the capacity in the contended cycles.
/// "Whole" counts only shortfalls of a process or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FairnessError {
    /// Fair shares by caps.
    pub cap: f64,
    /// Shortfall by cap, whole processes only.
    pub cap_whole: f64,
    /// Fair shares by demand.
    pub demand: f64,
    /// Shortfall by demand, whole processes only.
    pub demand_whole: f64,
}

/// Figures of a single run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunReport {
    /// Items in the suite.
    pub items_total: u64,
    /// Items finished.
    pub items_done: u64,
    /// End of the last item.
    pub makespan_s: f64,
    /// From submission to the end of a job's last item.
    pub turnaround_s: JobSpread,
    /// Turnaround over the least it could be.
    pub slowdown: JobSpread,
    /// Capacity held.
    pub held_pct: f64,
    /// Thread time of processes that went into items that were finished.
    pub useful_pct: f64,
    /// Processes preempted.
    pub preempted: u64,
    /// Time spent on items that came back.
    pub lost_item_s: f64,
    /// Shortfall of users from their fair shares.
    pub fairness_error_pct: FairnessError,
    /// The longest unbroken time of a job without a process.
    pub longest_zero_s: f64,
    /// Longest unbroken time of a job without a process and owed one: the user is at least one
    /// whole process of that job below its fair share.
    pub longest_zero_owed_s: f64,
    /// Cycles that preempted although nothing had happened for two minutes, without the cycles of
    /// `settled_paid_cycles`.
    pub settled_preempting_cycles: u64,
    /// Settled cycles that preempted where waiting had paid for all work that was lost.
    pub settled_paid_cycles: u64,
    /// Capacity free on nodes where jobs that could use it would have fitted at once.
    pub idle_usable_pct: f64,
    /// Fair shares that no user held, in percent of the capacity.
    pub unheld_pct: f64,
    /// Rules that schedules broke, according to the engine's own audit.
    pub audit_findings: u64,
    /// Time spent in deciding.
    pub scheduler_s: f64,
    /// Time the whole run took.
    pub wall_s: f64,
}
