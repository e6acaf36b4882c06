//! Who would rather be in another's place: the definition of fairness that the survey goes by.
//!
//! Two jobs are compared where their ways part: as their classes, by weight; within a class as
//! their users; within a user as themselves. One envies the other if it could use more, and one
//! exchange of processes would still leave the other with more than it has, for its weight.

use std::fmt;

use super::ending::{Ending, Job};

/// Where the ways of two jobs part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Class,
    User,
    Job,
}

/// One job's envy of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envy {
    pub level: Level,
    /// The job that could use more.
    pub job: u64,
    /// Whether that job holds nothing at all.
    pub is_of_zero: bool,
    /// The job that has what it could use, and a machine on which.
    pub of: u64,
    pub machine: String,
    /// By how much, in qshares times both weights: see [`envy_of`].
    pub extent: u64,
    /// Qshares and weight, of who envies and of who is envied.
    pub amounts: [(u64, u64); 2],
}

impl fmt::Display for Envy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Envy { level, job, of, machine, amounts, .. } = self;
        let level = match level {
            Level::Class => "class",
            Level::User => "user",
            Level::Job => "job",
        };
        let [(has, weight), (other_has, other_weight)] = amounts;
        let weights = match level {
            "class" => format!(", weights {weight} and {other_weight}"),
            _ => String::new(),
        };
        let zero = if self.is_of_zero { ", holding nothing," } else { "" };
        write!(
            f,
            "{level} envy: job {job}{zero} could be where job {of} is on {machine}; \
             {level}s hold {has} and {other_has} qshares{weights}"
        )
    }
}

/// For every job that envies any other: its greatest envy at each level, greatest first.
pub(super) fn envies(ending: &Ending) -> Vec<Envy> {
    let mut envies: Vec<Envy> = Vec::new();
    for job in ending.jobs.iter().filter(|job| ending.has_unmet_demand(job)) {
        for level in [Level::Class, Level::User, Level::Job] {
            let others = ending
                .jobs
                .iter()
                .filter(|other| other.id != job.id && dividing_level(job, other) == level);
            let greatest = others
                .filter_map(|other| envy_of(ending, level, job, other))
                .max_by(|one, other| one.extent.cmp(&other.extent).then(other.of.cmp(&one.of)));
            envies.extend(greatest);
        }
    }
    envies.sort_by(|one, other| {
        other
            .extent
            .cmp(&one.extent)
            .then(one.level.cmp(&other.level))
            .then(one.job.cmp(&other.job))
    });
    envies
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
/// up one process, or as many as `job` needs, and still its side has more for its weight.
fn envy_of(ending: &Ending, level: Level, job: &Job, other: &Job) -> Option<Envy> {
    let machine = *other.machines.iter().find(|&&machine| ending.may_use(job, machine))?;
    let [has, other_has] = [amount(ending, level, job), amount(ending, level, other)];
    let [weight, other_weight] = match level {
        Level::Class => [job.class, other.class].map(|class| ending.classes[class].weight),
        Level::User | Level::Job => [1, 1],
    };
    let left = other_has.saturating_sub(other.order.max(job.order));
    let extent = (left * weight).saturating_sub(has * other_weight);
    (0 < extent).then(|| Envy {
        level,
        job: job.id,
        is_of_zero: job.held == 0,
        of: other.id,
        machine: ending.machines[machine].name.clone(),
        extent,
        amounts: [(has, weight), (other_has, other_weight)],
    })
}

/// The qshares held by the side that `job` is on at `level`.
fn amount(ending: &Ending, level: Level, job: &Job) -> u64 {
    let is_on_its_side = |other: &&Job| match level {
        Level::Class => other.class == job.class,
        Level::User => other.class == job.class && other.user == job.user,
        Level::Job => other.id == job.id,
    };
    ending.jobs.iter().filter(is_on_its_side).map(|job| job.held * job.order).sum()
}
