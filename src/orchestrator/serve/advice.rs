//! Advice about a task that was over its memory.

use crate::model::{Mebibytes, counted};
use crate::orchestrator::wire::{Rung, Spread, TaskResult};

/// Facts about a task that was over its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct OverMemory<'a> {
    /// Number of the campaign, and number of the task.
    pub task: (u64, u64),
    /// Node of the task.
    pub node: &'a str,
    /// Result of the last attempt.
    pub result: &'a TaskResult,
    /// The memory of its slot, in MiB.
    pub limit_mb: u64,
    /// Enforcement of memory limits on the node. `None`: the node is silent.
    pub limits: Option<Rung>,
    /// Memory of the tasks of its campaign, in MiB.
    pub others: Spread,
}

/// Builds the sentences of the advice, each for a line of its own.
pub(super) fn over_memory(of: OverMemory<'_>) -> Vec<String> {
    let (campaign, task) = of.task;
    let memory = |mebibytes: u64| Mebibytes(mebibytes).to_string();
    let limit = memory(of.limit_mb);
    let ended = match of.limits {
        Some(Rung::Watched) => "ended by its slot, which measures memory every 250 ms",
        Some(_) => "killed by the kernel",
        None => "ended",
    };
    let used = memory(of.result.peak_mb.max(of.result.rss_mb));
    let mut lines = vec![format!(
        "task {campaign}.{task} on {}: over its memory: {used} (limit {limit}); a process of it was {ended}",
        of.node
    )];
    if 1 < of.others.count {
        lines.push(format!(
            "{} of this campaign used {} at most, half of them not more than {}",
            counted(of.others.count, "attempt"),
            memory(of.others.max),
            memory(of.others.p50)
        ));
    }
    let more = of.limit_mb.saturating_add(of.limit_mb >> 1).max(of.limit_mb + 1);
    let unit = if more.trailing_zeros() < 10 { (more, "MB") } else { (more >> 10, "GB") };
    lines.push(format!(
        "again with more: apportion campaign resubmit {campaign} --task {task} --memory {}{}",
        unit.0, unit.1
    ));
    lines.push("from now on by itself: submit with --memory-retry 1.5x3".to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orchestrator::wire::{AttemptId, Reason};

    #[test]
    fn the_limit_the_others_and_the_remedy_are_named() {
        let result = TaskResult {
            number: 1,
            task: AttemptId { campaign: 9, task: 17, attempt: 1 },
            why: Reason::Memory,
            exit: None,
            signal: Some(9),
            ms: 5,
            cpu_ms: 5,
            peak_mb: 4096,
            rss_mb: 4000,
            out: [0, 0],
            tail: String::new(),
            error: String::new(),
            has_saved: false,
        };
        let others = Spread { count: 212, p50: 1434, p95: 2000, max: 2150 };
        let of = OverMemory {
            task: (9, 17),
            node: "node04",
            result: &result,
            limit_mb: 4096,
            limits: Some(Rung::Cgroup2),
            others,
        };
        let told = over_memory(of);
        assert_eq!(
            told[0],
            "task 9.17 on node04: over its memory: 4 GB (limit 4 GB); a process of it was killed by the kernel"
        );
        assert!(told[1].starts_with("212 attempts of this campaign used "), "{told:?}");
        assert!(told[2].ends_with("resubmit 9 --task 17 --memory 6GB"), "{told:?}");
        let odd = over_memory(OverMemory { limit_mb: 65, limits: Some(Rung::Watched), ..of });
        assert!(odd[0].contains("measures memory every 250 ms"), "{odd:?}");
        assert!(odd[2].ends_with("--memory 97MB"), "{odd:?}");
    }
}
