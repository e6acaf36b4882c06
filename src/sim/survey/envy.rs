//! Jobs that could be in another's place at the end: the definition of fairness of the survey.
//!
//! Two jobs are compared at their lowest common level: as their classes, by weight; within a class
//! as their users; within a user as themselves. A job that could use more envies a side under two
//! conditions. First, on some machine that the job may use, the free space and the processes of
//! that side make space for a process of the job. Second, the side then still holds at least as
//! much, for its weight, as the job's own side with the process. The side is charged once for the
//! whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::ending::{FinalJob, FinalState};

/// Lowest common level of two jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EnvyLevel {
    Class,
    User,
    Job,
}

/// All levels, from the top.
pub(super) const LEVELS: [EnvyLevel; 3] = [EnvyLevel::Class, EnvyLevel::User, EnvyLevel::Job];

impl fmt::Display for EnvyLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EnvyLevel::Class => "class",
            EnvyLevel::User => "user",
            EnvyLevel::Job => "job",
        })
    }
}

/// A job that could have some of a side's places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envy {
    pub level: EnvyLevel,
    /// The job that could use more.
    pub job: u64,
    pub node: String,
    /// Quanta that the side would lose.
    pub taken: u64,
    /// The side of the job, and the side that it envies.
    pub sides: [EnvySide; 2],
}

/// A class, a user in a class, or a job, as it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EnvySide {
    pub name: String,
    /// Qshares.
    pub held: u64,
    /// 1 below the classes.
    pub weight: u64,
}

impl fmt::Display for Envy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Envy { job, node, taken, sides: [one, other], .. } = self;
        write!(f, "job {job} could be on {node} in place of {taken} qshares: {one}, {other}")
    }
}

impl fmt::Display for EnvySide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EnvySide { name, held, weight } = self;
        write!(f, "{name} holds {held} qshares")?;
        if *weight == 1 { Ok(()) } else { write!(f, " at weight {weight}") }
    }
}

/// Every pair of a job and a side that it envies, with the first machine where it could be. None while
/// anything is leaving: then it is too early to say.
pub(super) fn envies(ending: &FinalState) -> Vec<Envy> {
    if ending.nodes.iter().any(|node| node.is_emptying) {
        return Vec::new();
    }
    let scene = Scene::new(ending);
    let mut envies = Vec::new();
    for job in ending.jobs.iter().filter(|job| job.held < job.cap) {
        let mut envied: BTreeSet<Party<'_>> = BTreeSet::new();
        for node in (0..ending.nodes.len()).filter(|&ix| ending.may_use(job, ix)) {
            for (other, taken) in scene.places(job, node) {
                if envied.insert(other) {
                    envies.push(scene.describe(job, other, node, taken));
                }
            }
        }
    }
    envies
}

/// A side, identified by its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Party<'a> {
    Class(usize),
    User(usize, &'a str),
    Job(u64),
}

impl Party<'_> {
    fn level(self) -> EnvyLevel {
        match self {
            Party::Class(_) => EnvyLevel::Class,
            Party::User(..) => EnvyLevel::User,
            Party::Job(_) => EnvyLevel::Job,
        }
    }
}

/// The side that `job` is on at `level`.
fn party(level: EnvyLevel, job: &FinalJob) -> Party<'_> {
    match level {
        EnvyLevel::Class => Party::Class(job.class),
        EnvyLevel::User => Party::User(job.class, &job.user),
        EnvyLevel::Job => Party::Job(job.id),
    }
}

fn dividing_level(one: &FinalJob, other: &FinalJob) -> EnvyLevel {
    if one.class != other.class {
        EnvyLevel::Class
    } else if one.user != other.user {
        EnvyLevel::User
    } else {
        EnvyLevel::Job
    }
}

struct Scene<'a> {
    ending: &'a FinalState,
    /// Qshares of every side.
    held: BTreeMap<Party<'a>, u64>,
}

impl<'a> Scene<'a> {
    fn new(ending: &'a FinalState) -> Scene<'a> {
        let mut held = BTreeMap::new();
        for job in &ending.jobs {
            for level in LEVELS {
                *held.entry(party(level, job)).or_default() += job.held * job.order;
            }
        }
        Scene { ending, held }
    }

    /// The sides of which `job` could have places on this machine, and how many quanta of each.
    fn places(&self, job: &FinalJob, node: usize) -> Vec<(Party<'a>, u64)> {
        let Some(lacking) = job.order.checked_sub(self.ending.nodes[node].free) else {
            return Vec::new();
        };
        let mut sides: BTreeMap<Party<'a>, Vec<u64>> = BTreeMap::new();
        for other in self.ending.jobs.iter().filter(|other| other.id != job.id) {
            for _ in 0..other.shares.get(&node).copied().unwrap_or(0) {
                let side = party(dividing_level(job, other), other);
                sides.entry(side).or_default().push(other.order);
            }
        }
        let taken = sides.into_iter().filter_map(|(side, orders)| {
            Some((side, least(&orders, lacking).filter(|taken| 0 < *taken)?))
        });
        taken.filter(|&(side, taken)| self.is_behind(job, side, taken)).collect()
    }

    /// True if `side`, without `taken`, would hold at least as much for its weight as `job`'s side
    /// with a further process.
    fn is_behind(&self, job: &FinalJob, side: Party<'a>, taken: u64) -> bool {
        let own = party(side.level(), job);
        let left = u128::from(self.held(side).saturating_sub(taken));
        let then = u128::from(self.held(own) + job.order);
        let [ours, theirs] = [own, side].map(|side| u128::from(self.weight(side)));
        then * theirs <= left * ours
    }

    fn held(&self, side: Party<'_>) -> u64 {
        self.held.get(&side).copied().unwrap_or(0)
    }

    fn weight(&self, side: Party<'_>) -> u64 {
        match side {
            Party::Class(class) => self.ending.classes[class].weight,
            Party::User(..) | Party::Job(_) => 1,
        }
    }

    fn describe(&self, job: &FinalJob, other: Party<'a>, node: usize, taken: u64) -> Envy {
        let level = other.level();
        let node = self.ending.nodes[node].name.clone();
        let sides = [self.side(party(level, job)), self.side(other)];
        Envy { level, job: job.id, node, taken, sides }
    }

    fn side(&self, side: Party<'_>) -> EnvySide {
        let classes = &self.ending.classes;
        let name = match side {
            Party::Class(class) => classes[class].name.clone(),
            Party::User(class, user) => format!("{user} in {}", classes[class].name),
            Party::Job(job) => format!("job {job}"),
        };
        EnvySide { name, held: self.held(side), weight: self.weight(side) }
    }
}

/// The least sum of some of `orders` that is `lacking` or more.
fn least(orders: &[u64], lacking: u64) -> Option<u64> {
    let mut sums = BTreeSet::from([0]);
    for order in orders {
        let more: Vec<u64> = sums.range(..lacking).map(|sum| sum + order).collect();
        sums.extend(more);
    }
    sums.range(lacking..).next().copied()
}
