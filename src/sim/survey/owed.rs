//! Users and jobs that are owed a whole process and have nothing, although all could have a
//! process.
//!
//! Classes share all machines by weight, users the part of their class equally, jobs the part of
//! their user equally. Parts that a party does not want go to the other parties. A job is owed a
//! process if its part covers a process, a user if the part covers the smallest of its processes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::ending::{FinalJob, FinalState};
use super::fluid::{QuantaPart, fill};

/// Users and jobs that have nothing at the end, though a process is owed to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Starving {
    /// Class and user.
    pub users: Vec<String>,
    /// Numbers of jobs.
    pub jobs: Vec<u64>,
    /// True if an arrangement was found in which all jobs that are owed a process have it.
    pub could_all_owed: bool,
    /// True if an arrangement was found in which all jobs have a process.
    pub could_all: bool,
}

/// The users and jobs that are owed a process and have nothing.
pub(super) fn starving(ending: &FinalState) -> Starving {
    let largest = ending.nodes.iter().map(|node| node.order).max().unwrap_or(0);
    let is_possible = |job: &&FinalJob| 0 < job.cap && job.order <= largest;
    let jobs: Vec<&FinalJob> = ending.jobs.iter().filter(is_possible).collect();
    let capacity = ending.nodes.iter().map(|node| node.order).sum();
    let mut starving = Starving::default();
    let mut owed: Vec<&FinalJob> = Vec::new();
    for (part, jobs) in
        split(ending, QuantaPart::whole(capacity), &jobs, |job| (job.class, None, 0))
    {
        let by_user = |job: &FinalJob| (job.class, Some(job.user.clone()), 0);
        for (part, jobs) in split(ending, part, &jobs, by_user) {
            let smallest = jobs.iter().min_by_key(|job| (job.order, job.id)).copied();
            let Some(smallest) = smallest.filter(|job| part.covers(job.order)) else { continue };
            let by_job = split(ending, part, &jobs, |job| (job.class, None, job.id));
            let mut ours: Vec<&FinalJob> = by_job
                .into_iter()
                .flat_map(|(part, jobs)| jobs.into_iter().filter(move |job| part.covers(job.order)))
                .collect();
            starving.jobs.extend(ours.iter().filter(|job| job.held == 0).map(|job| job.id));
            if jobs.iter().all(|job| job.held == 0) {
                let class = &ending.classes[smallest.class].name;
                starving.users.push(format!("{} in {class}", smallest.user));
                if ours.is_empty() {
                    ours.push(smallest);
                }
            }
            owed.extend(ours);
        }
    }
    starving.jobs.sort_unstable();
    starving.could_all_owed = can_pack(ending, owed);
    starving.could_all = can_pack(ending, jobs);
    starving
}

/// A class, a user in it or a job.
type OwedSide = (usize, Option<String>, u64);

/// Splits `total` among the sides; returns each side's part with its jobs.
fn split<'e>(
    ending: &FinalState,
    total: QuantaPart,
    jobs: &[&'e FinalJob],
    side: impl Fn(&FinalJob) -> OwedSide,
) -> Vec<(QuantaPart, Vec<&'e FinalJob>)> {
    let mut sides: BTreeMap<OwedSide, Vec<&FinalJob>> = BTreeMap::new();
    for &job in jobs {
        sides.entry(side(job)).or_default().push(job);
    }
    let wants = sides.values().map(|jobs| {
        let want = jobs.iter().map(|job| job.order * job.cap.max(job.held)).sum();
        // Within a class all weigh the same.
        (ending.classes[jobs[0].class].weight, want)
    });
    let parts = fill(total, &wants.collect::<Vec<_>>());
    parts.into_iter().zip(sides.into_values()).collect()
}

/// True if first fit, the largest and most constrained first, gives each of `jobs` a process.
pub(super) fn can_pack(ending: &FinalState, mut jobs: Vec<&FinalJob>) -> bool {
    let mut space: Vec<u64> = ending.nodes.iter().map(|node| node.order).collect();
    let nodes = || 0..ending.nodes.len();
    let choices = |job: &FinalJob| nodes().filter(|&ix| ending.may_use(job, ix)).count();
    jobs.sort_by_key(|job| (Reverse(job.order), choices(job), job.id));
    jobs.into_iter().all(|job| {
        let fits = nodes().filter(|&ix| ending.may_use(job, ix) && job.order <= space[ix]);
        let best = fits.min_by_key(|&ix| (space[ix], &ending.nodes[ix].name));
        if let Some(ix) = best {
            space[ix] -= job.order;
        }
        best.is_some()
    })
}
