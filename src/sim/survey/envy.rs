//! Who would rather be in another's place: the definition of fairness that the survey goes by.
//!
//! Two jobs are compared where their ways part: as their classes, by weight; within a class as
//! their users; within a user as themselves. One envies the other if it could use more, and one
//! exchange of processes would still leave the other with more than it has, for its weight.

use std::cmp::Reverse;
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

/// One job's envy of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envy {
    pub level: Level,
    /// The job that could use more.
    pub job: u64,
    /// The job that has what it could use, and a machine on which.
    pub of: u64,
    pub machine: String,
    /// How much more the one envied would still have, in qshares times both weights.
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
        write!(f, "job {job} could be where job {of} is on {machine}: {one}, {other}")
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Side { name, held, weight } = self;
        write!(f, "{name} holds {held} qshares")?;
        if *weight == 1 { Ok(()) } else { write!(f, " at weight {weight}") }
    }
}

/// For every job that envies any other: its greatest envy at each level, all in order of the jobs.
pub(super) fn envies(ending: &Ending) -> Vec<Envy> {
    let mut envies = Vec::new();
    for job in ending.jobs.iter().filter(|job| ending.has_unmet_demand(job)) {
        for level in LEVELS {
            let others = ending
                .jobs
                .iter()
                .filter(|other| other.id != job.id && dividing_level(job, other) == level);
            envies.extend(greatest(others.filter_map(|other| envy_of(ending, level, job, other))));
        }
    }
    envies
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

/// The envy of `job` of `other`, if there is any: on a machine that `job` may use, the other gives
/// up one process, or as much as one of `job` takes, and still its side has more for its weight.
///
/// Which of the other's processes it is makes no difference: they are all of one order.
fn envy_of(ending: &Ending, level: Level, job: &Job, other: &Job) -> Option<Envy> {
    let machine = *other.machines.iter().find(|&&machine| ending.may_use(job, machine))?;
    let [one, another] = [side(ending, level, job), side(ending, level, other)];
    let left = another.held.saturating_sub(other.order.max(job.order));
    let extent = (left * one.weight).saturating_sub(one.held * another.weight);
    (0 < extent).then(|| Envy {
        level,
        job: job.id,
        of: other.id,
        machine: ending.machines[machine].name.clone(),
        extent,
        sides: [one, another],
    })
}

/// The side that `job` is on at `level`.
fn side(ending: &Ending, level: Level, job: &Job) -> Side {
    let class = &ending.classes[job.class];
    let is_on_it = |other: &&Job| match level {
        Level::Class => other.class == job.class,
        Level::User => other.class == job.class && other.user == job.user,
        Level::Job => other.id == job.id,
    };
    let (name, weight) = match level {
        Level::Class => (class.name.clone(), class.weight),
        Level::User => (format!("{} in {}", job.user, class.name), 1),
        Level::Job => (format!("job {}", job.id), 1),
    };
    let held = ending.jobs.iter().filter(is_on_it).map(|other| other.held * other.order).sum();
    Side { name, held, weight }
}
