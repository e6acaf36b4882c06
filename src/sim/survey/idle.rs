//! Space that nothing occupies though a job could use it at once.

use std::cmp::Reverse;

use super::ending::FinalState;

/// The qshares that jobs below their caps could fill at once: machines with the least space first,
/// and on each the largest order that fits.
///
/// Machines that a share is leaving do not count: free space beside it may be waiting for it.
pub(super) fn usable_qshares(ending: &FinalState) -> u64 {
    let mut machines: Vec<usize> =
        (0..ending.machines.len()).filter(|&ix| !ending.machines[ix].is_emptying).collect();
    machines.sort_by_key(|&ix| (ending.machines[ix].free, ix));
    let mut waiting: Vec<(usize, u64)> = ending
        .jobs
        .iter()
        .enumerate()
        .map(|(ix, job)| (ix, job.cap.saturating_sub(job.held)))
        .collect();
    waiting.sort_by_key(|&(ix, _)| (Reverse(ending.jobs[ix].order), ix));
    let mut filled = 0;
    for machine in machines {
        let mut free = ending.machines[machine].free;
        for (ix, left) in &mut waiting {
            let job = &ending.jobs[*ix];
            while 0 < *left && job.order <= free && ending.may_use(job, machine) {
                *left -= 1;
                free -= job.order;
                filled += job.order;
            }
        }
    }
    filled
}
