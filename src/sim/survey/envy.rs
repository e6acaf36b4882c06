//! Who would rather be in another's place: the definition of fairness that the survey goes by.
//!
//! Two jobs are compared where their ways part: as their classes, by weight; within a class as
//! their users; within a user as themselves. One is behind the other if it could use more, and one
//! exchange of processes would still leave the other with more than it has, for its weight.
//!
//! That is envy if it can be cured: if on some machine so many processes of those that the job is
//! behind can be taken, one after the other, that there is room for one of its own. Otherwise it is
//! beyond reach: work is indivisible, and the room would have to come from somebody who is not, or
//! would no longer be, better off.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use super::ending::{Ending, Job};

/// Where the ways of two jobs part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Class,
    User,
    Job,
}

/// All levels, from the top.
pub(super) const LEVELS: [Level; 3] = [Level::Class, Level::User, Level::Job];

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Class => "class",
            Level::User => "user",
            Level::Job => "job",
        })
    }
}

/// What is found of all jobs of a cluster, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The jobs for which there is room on some machine, or it can be made there.
    pub placeable: Vec<u64>,
    /// The greatest envy at each level of each of these.
    pub envies: Vec<Envy>,
    /// At each level, whom each of the other jobs is behind most.
    pub beyond_reach: Vec<Envy>,
}

/// One job's envy at one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envy {
    pub level: Level,
    /// The job that could use more.
    pub job: u64,
    /// The jobs that are where it could be, once for every process that would have to go: those
    /// from whom it parts at other levels, too.
    pub of: Vec<u64>,
    pub machine: String,
    /// How much more the one most envied at this level would still have, in qshares times both
    /// weights.
    pub extent: u64,
    /// Who envies and who is envied.
    pub sides: [Side; 2],
}

/// What is compared: a class, a user in a class, or a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Side {
    pub name: String,
    /// Qshares.
    pub held: u64,
    /// 1 below the classes.
    pub weight: u64,
}

impl fmt::Display for Envy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Envy { job, of, machine, sides: [one, other], .. } = self;
        let runs = of.chunk_by(|one, next| one == next);
        let places = runs.map(|run| match run.len() {
            1 => format!("job {}", run[0]),
            processes => format!("{processes} of job {}", run[0]),
        });
        let places = places.collect::<Vec<_>>().join(" and ");
        write!(f, "job {job} could be on {machine} in place of {places}: {one}, {other}")
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Side { name, held, weight } = self;
        write!(f, "{name} holds {held} qshares")?;
        if *weight == 1 { Ok(()) } else { write!(f, " at weight {weight}") }
    }
}

/// Who envies whom, and who is behind out of reach.
pub(super) fn verdict(ending: &Ending) -> Verdict {
    let scene = Scene { ending, held: Sums::held(ending) };
    let mut verdict = Verdict::default();
    for job in ending.jobs.iter().filter(|job| ending.has_unmet_demand(job)) {
        let machines = (0..ending.machines.len()).filter(|&ix| ending.may_use(job, ix));
        let plans: Vec<Plan<'_>> = machines.filter_map(|ix| scene.plan(job, ix)).collect();
        if !plans.is_empty() {
            verdict.placeable.push(job.id);
        }
        for level in LEVELS {
            if plans.is_empty() {
                verdict.beyond_reach.extend(scene.most_ahead(level, job));
            }
            let envies = plans.iter().filter_map(|plan| scene.envy(level, job, plan));
            verdict.envies.extend(greatest(envies));
        }
    }
    verdict
}

/// The greatest envy, of several the first.
pub(super) fn greatest(envies: impl IntoIterator<Item = Envy>) -> Option<Envy> {
    envies.into_iter().min_by_key(|envy| Reverse(envy.extent))
}

fn dividing_level(one: &Job, other: &Job) -> Level {
    if one.class != other.class {
        Level::Class
    } else if one.user != other.user {
        Level::User
    } else {
        Level::Job
    }
}

/// A side, by what it consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Party<'a> {
    Class(usize),
    User(usize, &'a str),
    Job(u64),
}

/// The side that `job` is on at `level`.
fn party(level: Level, job: &Job) -> Party<'_> {
    match level {
        Level::Class => Party::Class(job.class),
        Level::User => Party::User(job.class, &job.user),
        Level::Job => Party::Job(job.id),
    }
}

/// Qshares of every side.
#[derive(Default)]
struct Sums<'a>(BTreeMap<Party<'a>, u64>);

impl<'a> Sums<'a> {
    fn held(ending: &'a Ending) -> Sums<'a> {
        let mut held = Sums::default();
        for job in &ending.jobs {
            held.add(job, job.held * job.order);
        }
        held
    }

    fn add(&mut self, job: &'a Job, qshares: u64) {
        for level in LEVELS {
            *self.0.entry(party(level, job)).or_default() += qshares;
        }
    }

    fn of(&self, level: Level, job: &'a Job) -> u64 {
        self.0.get(&party(level, job)).copied().unwrap_or(0)
    }
}

/// A way to make room for one process on a machine.
struct Plan<'a> {
    machine: usize,
    /// Whose processes go, in this order, and how far ahead each then still is.
    taken: Vec<(&'a Job, u64)>,
}

struct Scene<'a> {
    ending: &'a Ending,
    held: Sums<'a>,
}

impl<'a> Scene<'a> {
    /// How `job` can have room on this machine, if it can: with the largest processes going first,
    /// or else with the smallest. What is leaving is no room yet, and cannot be taken again.
    fn plan(&self, job: &'a Job, machine: usize) -> Option<Plan<'a>> {
        let others = self.ending.jobs.iter().filter(|other| other.id != job.id);
        let mut others: Vec<&Job> =
            others.filter(|other| other.shares.contains_key(&machine)).collect();
        others.sort_by_key(|other| Reverse(other.order));
        let largest_first = self.plan_in_order(job, machine, &others);
        others.sort_by_key(|other| other.order);
        largest_first.or_else(|| self.plan_in_order(job, machine, &others))
    }

    fn plan_in_order(&self, job: &'a Job, machine: usize, others: &[&'a Job]) -> Option<Plan<'a>> {
        let mut room = self.ending.machines[machine].free;
        let mut gone = Sums::default();
        let mut plan = Plan { machine, taken: Vec::new() };
        for other in others {
            for _ in 0..other.shares[&machine] {
                if job.order <= room {
                    return Some(plan);
                }
                // Who is not ahead any more will not be once more has gone.
                let Some(extent) = self.lead(job, other, &gone) else { break };
                room += other.order;
                gone.add(other, other.order);
                plan.taken.push((other, extent));
            }
        }
        (job.order <= room).then_some(plan)
    }

    /// How far `other` is ahead of `job` when these are gone and then, in exchange, one process, or
    /// as much as one of `job` takes; `None` if it is not.
    fn lead(&self, job: &'a Job, other: &'a Job, gone: &Sums<'a>) -> Option<u64> {
        let level = dividing_level(job, other);
        let exchanged = other.order.max(job.order);
        let left = self.held.of(level, other).saturating_sub(gone.of(level, other) + exchanged);
        let had = self.held.of(level, job);
        let extent =
            (left * self.weight(level, job)).saturating_sub(had * self.weight(level, other));
        (0 < extent).then_some(extent)
    }

    /// The envy at `level` that a plan would cure: of whom it takes from there, the furthest ahead.
    fn envy(&self, level: Level, job: &'a Job, plan: &Plan<'a>) -> Option<Envy> {
        let here = plan.taken.iter().filter(|(other, _)| dividing_level(job, other) == level);
        let &(most, extent) = here.min_by_key(|(_, extent)| Reverse(*extent))?;
        let of = plan.taken.iter().map(|(other, _)| other.id).collect();
        Some(self.describe(level, job, most, of, plan.machine, extent))
    }

    /// Who is furthest ahead of `job` at `level`, of those on machines that it may use.
    fn most_ahead(&self, level: Level, job: &'a Job) -> Option<Envy> {
        let nothing = Sums::default();
        let others = self
            .ending
            .jobs
            .iter()
            .filter(|other| other.id != job.id && dividing_level(job, other) == level);
        greatest(others.filter_map(|other| {
            let machine = *other.shares.keys().find(|&&ix| self.ending.may_use(job, ix))?;
            let extent = self.lead(job, other, &nothing)?;
            Some(self.describe(level, job, other, vec![other.id], machine, extent))
        }))
    }

    fn describe(
        &self,
        level: Level,
        job: &'a Job,
        other: &'a Job,
        of: Vec<u64>,
        machine: usize,
        extent: u64,
    ) -> Envy {
        let machine = self.ending.machines[machine].name.clone();
        let sides = [self.side(level, job), self.side(level, other)];
        Envy { level, job: job.id, of, machine, extent, sides }
    }

    fn side(&self, level: Level, job: &'a Job) -> Side {
        let class = &self.ending.classes[job.class].name;
        let name = match level {
            Level::Class => class.clone(),
            Level::User => format!("{} in {class}", job.user),
            Level::Job => format!("job {}", job.id),
        };
        Side { name, held: self.held.of(level, job), weight: self.weight(level, job) }
    }

    fn weight(&self, level: Level, job: &Job) -> u64 {
        match level {
            Level::Class => self.ending.classes[job.class].weight,
            Level::User | Level::Job => 1,
        }
    }
}
