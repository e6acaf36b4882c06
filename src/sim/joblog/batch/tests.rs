//! Classic policies against cases worked out by hand, and against slow planners that look at every
//! node in every millisecond.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::{ClassRules, LogNode, Placement, ReplayCluster, ReplayJob, ReplayPolicy};
use crate::model::{Mebibytes, Millis, Name, Quantum, Steps};

fn cluster(sizes: &[u64]) -> ReplayCluster {
    let node = |(ix, gib): (usize, &u64)| LogNode {
        name: format!("n{ix}"),
        memory: Some(Mebibytes::from_gib(*gib)),
        processors: None,
    };
    let nodes: Vec<LogNode> = sizes.iter().enumerate().map(node).collect();
    let quantum = Quantum::new(Mebibytes::from_gib(1)).unwrap();
    ReplayCluster::new(None, quantum, &nodes, &ClassRules::default()).unwrap()
}

/// A job: submission, processes, quanta of each, run time, requested time.
type JobLine = (Millis, u64, u64, Millis, Millis);

fn job((submitted, processes, quanta, runs, declared): JobLine) -> ReplayJob {
    ReplayJob {
        number: Name::from("1"),
        user: Name::from("ann"),
        class: 0,
        submitted,
        runs,
        declared,
        processes,
        memory: Mebibytes::from_gib(quanta),
        quanta,
        never: None,
    }
}

/// Start of each job.
fn starts(policy: ReplayPolicy, sizes: &[u64], lines: &[JobLine]) -> Vec<Millis> {
    let (cluster, jobs) = (cluster(sizes), lines.iter().copied().map(job).collect::<Vec<_>>());
    let runs = policy.play(&cluster, &jobs, &Steps::default()).runs;
    let starts: BTreeMap<usize, Millis> = runs.iter().map(|run| (run.job, run.start)).collect();
    assert_eq!((starts.len(), runs.len()), (jobs.len(), jobs.len()), "each job runs once");
    starts.into_values().collect()
}

const CLASSIC: [ReplayPolicy; 3] =
    [ReplayPolicy::Fcfs, ReplayPolicy::Easy, ReplayPolicy::Conservative];

/// A node of 6. The fourth job fits beside the first two, and would delay the third by 3.
#[test]
fn easy_delays_the_second_and_conservative_does_not() {
    let lines = [(0, 1, 4, 10, 10), (1, 1, 4, 10, 10), (2, 1, 6, 10, 10), (3, 1, 2, 20, 20)];
    let found = CLASSIC.map(|policy| starts(policy, &[6], &lines));
    assert_eq!(found, [vec![0, 10, 20, 30], vec![0, 10, 23, 3], vec![0, 10, 20, 30]]);
}

#[test]
fn short_jobs_are_backfilled_before_the_head() {
    let lines = [(0, 1, 3, 10, 10), (1, 1, 3, 10, 10), (2, 1, 1, 5, 5)];
    let found = CLASSIC.map(|policy| starts(policy, &[4], &lines));
    assert_eq!(found, [vec![0, 10, 10], vec![0, 10, 2], vec![0, 10, 2]]);
}

#[test]
fn an_early_end_moves_reservations_ahead() {
    let lines = [(0, 1, 4, 5, 10), (1, 1, 4, 10, 10), (2, 1, 6, 10, 10), (3, 1, 2, 20, 20)];
    let found = CLASSIC.map(|policy| starts(policy, &[6], &lines));
    assert_eq!(found, [vec![0, 5, 15, 25], vec![0, 5, 23, 3], vec![0, 5, 15, 25]]);
}

/// Two processes at once on nodes of 4 and 2, where the first job leaves space on neither.
#[test]
fn processes_of_a_job_start_together() {
    let lines = [(0, 1, 3, 10, 10), (0, 1, 2, 4, 4), (1, 2, 2, 3, 3), (1, 1, 1, 2, 2)];
    let found = CLASSIC.map(|policy| starts(policy, &[4, 2], &lines));
    assert_eq!(found, [vec![0, 0, 10, 10], vec![0, 0, 10, 1], vec![0, 0, 10, 1]]);
}

/// Start and nodes of jobs.
type Places = BTreeMap<usize, (Millis, Placement)>;

/// Free memory of every node in every millisecond.
struct Grid<'a> {
    free: Vec<Vec<u64>>,
    lines: &'a [JobLine],
}

/// End of the grids: all jobs of a case run in turn before it.
const HORIZON: usize = 700;

fn index(time: Millis) -> usize {
    usize::try_from(time).unwrap()
}

impl Grid<'_> {
    /// Nodes for a job from `at` on: the fullest first.
    fn place(&self, job: usize, at: Millis) -> Option<Placement> {
        let (_, mut missing, quanta, _, declared) = self.lines[job];
        let window = index(at)..index(at + declared);
        let mut nodes: Vec<(u64, usize)> = self
            .free
            .iter()
            .enumerate()
            .map(|(node, free)| (free[window.clone()].iter().copied().min().unwrap(), node))
            .filter(|(least, _)| quanta <= *least)
            .collect();
        nodes.sort_unstable();
        let mut place = Vec::new();
        for (least, node) in nodes {
            let count = missing.min(least.div_euclid(quanta));
            missing -= count;
            place.push((node, count));
            if missing == 0 {
                break;
            }
        }
        (missing == 0).then_some(place)
    }

    fn earliest(&self, job: usize, from: Millis) -> Millis {
        let mut times = from..Millis::try_from(HORIZON).unwrap();
        times.find(|at| self.place(job, *at).is_some()).unwrap()
    }

    fn add(&mut self, job: usize, place: &[(usize, u64)], from: Millis, to: Millis, sign: i64) {
        for (node, count) in place {
            let quanta = i64::try_from(self.lines[job].2 * count).unwrap() * sign;
            for free in &mut self.free[*node][index(from)..index(to)] {
                *free = free.checked_add_signed(quanta).expect("no node is over its capacity");
            }
        }
    }
}

/// Plays millisecond by millisecond; returns the start of each job.
fn slowly(policy: ReplayPolicy, sizes: &[u64], lines: &[JobLine]) -> Vec<Millis> {
    let free = sizes.iter().map(|size| vec![*size; HORIZON]).collect();
    let mut grid = Grid { free, lines };
    let mut started: Places = BTreeMap::new();
    // Reservations of the conservative policy.
    let mut reserved: Places = BTreeMap::new();
    let mut waiting: Vec<usize> = Vec::new();
    let mut now = 0;
    while started.len() < lines.len() {
        for (job, (start, place)) in &started {
            let (_, _, _, runs, declared) = lines[*job];
            if start + runs == now {
                grid.add(*job, place, now, start + declared, 1);
            }
        }
        let arrived = (0..lines.len()).filter(|job| lines[*job].0 == now);
        if policy == ReplayPolicy::Conservative {
            improve(&mut grid, &mut reserved, now);
        }
        for job in arrived {
            if policy == ReplayPolicy::Conservative {
                let at = grid.earliest(job, now);
                let place = grid.place(job, at).unwrap();
                grid.add(job, &place, at, at + lines[job].4, -1);
                reserved.insert(job, (at, place));
            } else {
                waiting.push(job);
            }
        }
        let due: Vec<usize> =
            reserved.iter().filter(|(_, (at, _))| *at == now).map(|(job, _)| *job).collect();
        for job in due {
            started.insert(job, reserved.remove(&job).unwrap());
        }
        let mut before = usize::MAX;
        while std::mem::replace(&mut before, started.len()) != started.len() {
            start_waiting(policy, &mut grid, &mut waiting, &mut started, now);
        }
        now += 1;
    }
    started.into_values().map(|(start, _)| start).collect()
}

/// Moves every reservation to the earliest place there is, again and again.
fn improve(grid: &mut Grid<'_>, reserved: &mut Places, now: Millis) {
    let mut has_moved = true;
    while std::mem::take(&mut has_moved) {
        for (job, (start, place)) in reserved.iter_mut() {
            let declared = grid.lines[*job].4;
            grid.add(*job, place, *start, *start + declared, 1);
            let at = grid.earliest(*job, now);
            if at < *start {
                (*start, *place) = (at, grid.place(*job, at).unwrap());
                has_moved = true;
            }
            grid.add(*job, place, *start, *start + declared, -1);
        }
    }
}

/// Starts what FCFS and EASY let start now.
fn start_waiting(
    policy: ReplayPolicy,
    grid: &mut Grid<'_>,
    waiting: &mut Vec<usize>,
    started: &mut Places,
    now: Millis,
) {
    let mut head: Option<(usize, Millis, Placement)> = None;
    for job in waiting.clone() {
        let declared = grid.lines[job].4;
        match grid.place(job, now) {
            Some(place) => {
                grid.add(job, &place, now, now + declared, -1);
                started.insert(job, (now, place));
                waiting.retain(|other| *other != job);
            }
            None if policy == ReplayPolicy::Fcfs => break,
            None if head.is_none() => {
                let at = grid.earliest(job, now);
                let place = grid.place(job, at).unwrap();
                grid.add(job, &place, at, at + declared, -1);
                head = Some((job, at, place));
            }
            None => {}
        }
    }
    if let Some((job, at, place)) = head {
        grid.add(job, &place, at, at + grid.lines[job].4, 1);
    }
}

/// Sizes of nodes, and jobs that fit there, by submission.
fn cases() -> impl Strategy<Value = (Vec<u64>, Vec<JobLine>)> {
    let job = (0..12_u64, 1..4_u64, 1..5_u64, 1..12_u64, 0..10_u64);
    (prop::collection::vec(1..7_u64, 1..4), prop::collection::vec(job, 1..14)).prop_map(
        |(sizes, jobs)| {
            let mut now = 0;
            let mut lines = Vec::new();
            for (after, processes, quanta, runs, more) in jobs {
                now += after.div_euclid(3);
                let fit: u64 = sizes.iter().map(|size| size.div_euclid(quanta)).sum();
                if 0 < fit {
                    lines.push((now, processes.min(fit), quanta, runs, runs + more));
                }
            }
            (sizes, lines)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn planners_start_jobs_when_slow_ones_do((sizes, lines) in cases()) {
        for policy in CLASSIC {
            prop_assert_eq!(starts(policy, &sizes, &lines), slowly(policy, &sizes, &lines), "{:?}", policy);
        }
    }

    #[test]
    fn no_job_starts_before_an_older_one_under_fcfs((sizes, lines) in cases()) {
        prop_assert!(starts(ReplayPolicy::Fcfs, &sizes, &lines).is_sorted());
    }

    /// With exact requests, and with what the older jobs alone would do.
    #[test]
    fn younger_jobs_delay_no_job_under_conservative((sizes, lines) in cases()) {
        let exact: Vec<JobLine> = lines.iter().map(|line| (line.0, line.1, line.2, line.3, line.3)).collect();
        let all = starts(ReplayPolicy::Conservative, &sizes, &exact);
        for older in 0..exact.len() {
            let alone = starts(ReplayPolicy::Conservative, &sizes, &exact[..older]);
            prop_assert_eq!(&alone[..], &all[..older]);
        }
    }
}
