//! Space that nothing occupies though a job could use it at once.

use std::cmp::Reverse;

use super::ending::FinalState;

/// The qshares that jobs below their caps could fill at once: machines with the least space first,
/// and on each the largest order that fits.
///
/// Machines that a share is leaving do not count: free space beside it may be waiting for it.
pub(super) fn usable_qshares(ending: &FinalState) -> u64 {
    let mut nodes: Vec<usize> =
        (0..ending.nodes.len()).filter(|&ix| !ending.nodes[ix].is_emptying).collect();
    nodes.sort_by_key(|&ix| (ending.nodes[ix].free, ix));
    let mut waiting: Vec<(usize, u64)> = ending
        .jobs
        .iter()
        .enumerate()
        .map(|(ix, job)| (ix, job.cap.saturating_sub(job.held)))
        .collect();
    waiting.sort_by_key(|&(ix, _)| (Reverse(ending.jobs[ix].order), ix));
    let mut filled = 0;
    for node in nodes {
        let mut free = ending.nodes[node].free;
        for (ix, left) in &mut waiting {
            let job = &ending.jobs[*ix];
            while 0 < *left && job.order <= free && ending.may_use(job, node) {
                *left -= 1;
                free -= job.order;
                filled += job.order;
            }
        }
    }
    filled
}
