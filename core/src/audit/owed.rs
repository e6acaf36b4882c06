//! Jobs that are owed a first process.
//!
//! A job is owed a process if its target is at least a process; another check covers the evenness
//! of targets. A user without such a job is owed the smallest of its processes if the user's part
//! covers that process. A class shares the nodes of its tree with the classes of its priority, by
//! weight. A user shares with the users of the class, equally.

use std::collections::{BTreeMap, BTreeSet};

use super::fluid::{Amount, Sharer, shares};
use super::ledger::Ledger;
use super::lines::JobLine;
use super::shapes::{is_legal, sized_shape};
use crate::model::{ClassIx, IxVec, JobIx, NodeIx, PoolIx, Precedence, Shape, SharePhase};

/// Sizes among which the smallest legal size is looked for.
const SIZES_MAX: u64 = 100_000;

/// Classes of equal priority that share the nodes of a tree of pools.
pub(super) type Group = (PoolIx, Precedence);

/// Jobs and users that are owed a process, at any holdings.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// For each job, true if a process of it could start. The job needs work for a process, and a
    /// node that is up and large enough.
    pub(super) is_startable: IxVec<JobIx, bool>,
    /// The places of jobs, by the classes they share with.
    pub(super) jobs: BTreeMap<Group, BTreeSet<JobIx>>,
    /// The places of users that are owed a process.
    pub(super) users: BTreeSet<usize>,
    rest: Rest,
}

/// What higher priorities leave of the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Rest {
    /// Without all that higher priorities demand, even what they cannot use: sure to be left.
    #[default]
    OfDemand,
    /// Without their targets, and without gangs that wait. Targets are by node and pool, so some of
    /// the rest may be out of reach.
    OfTargets,
    /// Like `OfDemand`, and without gangs of the same priority that have targets. The other jobs
    /// share this rest.
    BesideTurns,
}

impl Owed {
    /// Jobs and users that are owed a process out of this `rest`.
    pub(super) fn new(ledger: &Ledger<'_>, rest: Rest) -> Owed {
        let mut owed = Owed { is_startable: startable(ledger), rest, ..Owed::default() };
        for (group, places) in groups(ledger) {
            let total = Amount::whole(owed.capacity(ledger, group));
            let by_class = |place: JobIx| ledger.jobs[place].job.class.0;
            for (share, jobs) in owed.split(ledger, total, &places, by_class) {
                let by_user = |place: JobIx| ledger.jobs[place].user;
                for (share, jobs) in owed.split(ledger, share, &jobs, by_user) {
                    owed.enter_user(ledger, group, share, &jobs);
                }
            }
        }
        owed
    }

    fn enter_user(&mut self, ledger: &Ledger<'_>, group: Group, share: Amount, jobs: &[JobIx]) {
        // A job that gets nothing new keeps its last process. A gang is owed no single process.
        let is_meant = |place: JobIx| {
            let line = &ledger.jobs[place];
            !line.is_gang() && (self.is_startable[place] || 0 < line.held)
        };
        // A gang that loses its nodes in this cycle counts as lost in the next.
        let has_gang = jobs.iter().any(|&place| {
            let line = &ledger.jobs[place];
            line.is_gang() && 0 < line.held + line.has()
        });
        let meant = jobs.iter().copied().filter(|&place| is_meant(place));
        let smallest = meant.min_by_key(|&place| {
            // Of equally small jobs, a job that holds a process comes first. Next is a job without
            // a node list, as it is easiest to place.
            let line = &ledger.jobs[place];
            (least(line), line.held == 0, line.job.nodes.is_some(), place)
        });
        let Some(smallest) = smallest else { return };
        // A target below the smallest legal size is a target of nothing.
        let is_target = |line: &JobLine<'_>| {
            let target = line.report.target.0;
            let legal = |shape| (1..=target).any(|size| is_legal(shape, size));
            0 < target && sized_shape(line.job).is_none_or(legal)
        };
        let is_counted = |place: &JobIx| is_meant(*place) && is_target(&ledger.jobs[*place]);
        let is_covered = !has_gang && share.covers(least(&ledger.jobs[smallest]));
        if !jobs.iter().any(is_counted) && !is_covered {
            return;
        }
        let mut places: BTreeSet<JobIx> = jobs.iter().copied().filter(is_counted).collect();
        if places.is_empty() {
            places.insert(smallest);
        }
        self.users.insert(ledger.jobs[smallest].user);
        self.jobs.entry(group).or_default().extend(places);
    }

    /// True if the job at `place` is owed a process.
    pub(super) fn contains(&self, ledger: &Ledger<'_>, place: JobIx) -> bool {
        let jobs = self.jobs.get(&group_of(ledger, &ledger.jobs[place]));
        jobs.is_some_and(|jobs| jobs.contains(&place))
    }

    /// Amount that a group shares: the nodes of its tree that are up. Less are work that cannot be
    /// preempted, the targets of such work up to this priority, and what higher priorities take.
    fn capacity(&self, ledger: &Ledger<'_>, (tree, priority): Group) -> u64 {
        let topology = &ledger.snapshot.topology;
        let is_open = |ix: NodeIx| {
            let node = ledger.snapshot.node(ix);
            node.state.is_schedulable() && topology.top_of(node.pool) == tree
        };
        let open = ledger.nodes_with_ix().filter(|(ix, _)| is_open(*ix));
        let spaces = open.map(|(_, node)| node.order.saturating_sub(node.fixed));
        let in_tree = |line: &JobLine<'_>| topology.top_of(line.class.pool) == tree;
        let better = ledger
            .jobs
            .with_ix()
            .filter(|(_, line)| line.is_fair_share() && line.priority < priority && in_tree(line));
        let stays = ledger
            .jobs
            .iter()
            .filter(|line| !line.is_fair_share() && line.priority <= priority && in_tree(line));
        let awaited = stays.map(|line| {
            line.report.target.0.saturating_sub(line.has()).saturating_mul(line.order())
        });
        let taken = better.map(|(place, line)| {
            let target = line.report.target.0.saturating_mul(line.order());
            let is_least = self.rest == Rest::OfTargets;
            let all = match ledger.gang(place) {
                Some(gang) if is_least && gang.is_waiting(line) => 0,
                None if is_least => target,
                _ => self.demand(ledger, place),
            };
            // Shares on other nodes take nothing of these.
            let held = line.job.shares.iter().filter(|share| share.state != SharePhase::Leaving);
            let elsewhere = held.filter(|share| !is_open(share.node));
            all.saturating_sub(elsewhere.map(|share| share.order.qshares().0).sum())
        });
        let turns = ledger.jobs.with_ix().filter(|(_, line)| {
            let is_beside = line.is_fair_share() && line.priority == priority && in_tree(line);
            is_beside && line.is_gang() && 0 < line.report.target.0
        });
        let turns = turns.filter(|_| self.rest == Rest::BesideTurns);
        let turns = turns.map(|(place, _)| self.demand(ledger, place));
        let taken = taken.chain(awaited).chain(turns).fold(0, u64::saturating_add);
        spaces.fold(0, u64::saturating_add).saturating_sub(taken)
    }

    /// The most that the job at `place` could use, in quanta.
    fn demand(&self, ledger: &Ledger<'_>, place: JobIx) -> u64 {
        let line = &ledger.jobs[place];
        if let Some(gang) = ledger.gang(place) {
            return gang.demand(line);
        }
        let most = if self.is_startable[place] { line.report.cap.nshares.0 } else { 0 };
        most.max(line.has()).saturating_mul(line.order())
    }

    /// Divides `total` among the jobs at `places`, grouped by `side`. All users within a class
    /// weigh the same.
    fn split<S: Ord>(
        &self,
        ledger: &Ledger<'_>,
        total: Amount,
        places: &[JobIx],
        side: impl Fn(JobIx) -> S,
    ) -> Vec<(Amount, Vec<JobIx>)> {
        let mut sides: BTreeMap<S, (Sharer, Vec<JobIx>)> = BTreeMap::new();
        for &place in places {
            let weight = u64::from(ledger.jobs[place].class.policy.weight());
            let none = || (Sharer { weight, demand: 0 }, Vec::new());
            let (sharer, jobs) = sides.entry(side(place)).or_insert_with(none);
            let is_apart = self.rest == Rest::BesideTurns && ledger.jobs[place].is_gang();
            let demand = if is_apart { 0 } else { self.demand(ledger, place) };
            sharer.demand = sharer.demand.saturating_add(demand);
            jobs.push(place);
        }
        let sharers: Vec<Sharer> = sides.values().map(|(sharer, _)| *sharer).collect();
        let jobs = sides.into_values().map(|(_, jobs)| jobs);
        shares(total, &sharers).into_iter().zip(jobs).collect()
    }
}

/// The classes that `line`'s class shares with.
pub(super) fn group_of(ledger: &Ledger<'_>, line: &JobLine<'_>) -> Group {
    (ledger.snapshot.topology.top_of(line.class.pool), line.priority)
}

/// The places of fair-share jobs, by the classes they share with.
pub(super) fn groups(ledger: &Ledger<'_>) -> BTreeMap<Group, Vec<JobIx>> {
    let mut groups: BTreeMap<Group, Vec<JobIx>> = BTreeMap::new();
    for (place, line) in ledger.jobs.with_ix().filter(|(_, line)| line.is_fair_share()) {
        groups.entry(group_of(ledger, line)).or_default().push(place);
    }
    groups
}

/// The fewest processes that a job can work with: one, or its smallest legal size.
pub(super) fn least_size(line: &JobLine<'_>) -> u64 {
    let smallest = |shape: &Shape| (1..=SIZES_MAX).find(|size| is_legal(shape, *size));
    sized_shape(line.job).and_then(smallest).unwrap_or(1)
}

/// The least that a job can work with, in quanta.
fn least(line: &JobLine<'_>) -> u64 {
    least_size(line).saturating_mul(line.order())
}

/// For each job, true if a process of it could start.
fn startable(ledger: &Ledger<'_>) -> IxVec<JobIx, bool> {
    let is_large = |line: &JobLine<'_>| {
        let mut nodes = ledger.nodes_with_ix();
        nodes.any(|(ix, node)| line.order() <= node.order && ledger.would_take(line, ix).is_some())
    };
    // A job without a node list may go where all jobs of its class and size may.
    let mut known: BTreeMap<(ClassIx, u64), bool> = BTreeMap::new();
    let mut is_placeable = |line: &JobLine<'_>| {
        if line.job.nodes.is_some() {
            return is_large(line);
        }
        *known.entry((line.job.class, line.order())).or_insert_with(|| is_large(line))
    };
    let could_use = |line: &JobLine<'_>| line.cap.min(line.report.cap.nshares.0);
    let jobs = ledger.jobs.iter();
    let is_single = |line: &JobLine<'_>| !line.has_ended() && !line.is_gang();
    jobs.map(|line| is_single(line) && 0 < could_use(line) && is_placeable(line)).collect()
}
