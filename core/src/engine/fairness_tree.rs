//! The entities among which fairness holds: classes, users within a class, jobs of such a user.
//!
//! Every comparison between two jobs is made at their *dividing level*: class if their classes
//! differ, else user if their users differ, else job. Design: "How Much", "`IEntity`".

use std::ops::Range;

use super::snapshot::Snapshot;
use crate::model::{ClassIx, IxVec, JobIx, UserIx, positions};

positions! {
    /// Place of a group, that is a user within a class, by class and user.
    pub(super) GroupIx,
    /// Place of an entity among its kind: of a class, a group or a job.
    pub(super) EntityIx,
}

/// Class and user of each job, and the weight of each class.
#[derive(Debug)]
pub(super) struct FairnessTree {
    /// For each job of the snapshot, its class.
    class_of: IxVec<JobIx, ClassIx>,
    /// For each job of the snapshot, its group.
    group_of: IxVec<JobIx, GroupIx>,
    /// Users within a class, by class and user.
    groups: IxVec<GroupIx, (ClassIx, UserIx)>,
    /// The jobs, group by group, oldest first.
    members: Vec<JobIx>,
    /// Range of each group in `members`.
    member_ranges: IxVec<GroupIx, Range<usize>>,
    /// The weight of each class.
    weights: IxVec<ClassIx, u64>,
}

/// The level at which two jobs part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Class,
    User,
    Job,
}

impl Level {
    /// All levels, the outermost first.
    pub(super) const ALL: [Level; 3] = [Level::Class, Level::User, Level::Job];

    /// Index of the level, from the outermost.
    pub(super) fn place(self) -> usize {
        match self {
            Level::Class => 0,
            Level::User => 1,
            Level::Job => 2,
        }
    }
}

/// Amount in qshares of every entity at every level.
#[derive(Clone, Debug)]
pub(super) struct Amounts {
    pub classes: IxVec<ClassIx, u64>,
    pub groups: IxVec<GroupIx, u64>,
    pub jobs: IxVec<JobIx, u64>,
}

impl FairnessTree {
    /// Builds the entities of `snapshot`. `keys` holds the class and user of each job.
    pub(super) fn new(snapshot: &Snapshot, keys: IxVec<JobIx, (ClassIx, UserIx)>) -> FairnessTree {
        let jobs: Vec<JobIx> = keys.places().collect();
        let by_user = sorted_by(&jobs, snapshot.users.len(), |job| keys[job].1.0);
        let members = sorted_by(&by_user, snapshot.topology.classes.len(), |job| keys[job].0.0);
        let mut groups = Vec::new();
        let mut member_ranges: Vec<Range<usize>> = Vec::new();
        let mut group_of = IxVec::filled(GroupIx(0), members.len());
        for (place, &job) in members.iter().enumerate() {
            if groups.last() != Some(&keys[job]) {
                groups.push(keys[job]);
                member_ranges.push(place..place);
            }
            group_of[job] = GroupIx(groups.len() - 1);
            if let Some(range) = member_ranges.last_mut() {
                range.end = place + 1;
            }
        }
        FairnessTree {
            members,
            member_ranges: member_ranges.into(),
            class_of: keys.into_iter().map(|(class, _)| class).collect(),
            group_of,
            groups: groups.into(),
            weights: snapshot
                .topology
                .classes
                .iter()
                .map(|class| u64::from(class.policy.weight()))
                .collect(),
        }
    }

    /// Zero for every entity.
    pub(super) fn no_amounts(&self) -> Amounts {
        Amounts {
            classes: IxVec::filled(0, self.weights.len()),
            groups: IxVec::filled(0, self.groups.len()),
            jobs: IxVec::filled(0, self.class_of.len()),
        }
    }

    /// The place of `job`'s user within its class.
    pub(super) fn group_of(&self, job: JobIx) -> GroupIx {
        self.group_of[job]
    }

    /// The class of `job`.
    pub(super) fn class_of(&self, job: JobIx) -> ClassIx {
        self.class_of[job]
    }

    /// The user of `job`.
    pub(super) fn user_of(&self, job: JobIx) -> UserIx {
        self.groups[self.group_of[job]].1
    }

    /// Users within a class, by class and user.
    pub(super) fn groups(&self) -> &IxVec<GroupIx, (ClassIx, UserIx)> {
        &self.groups
    }

    /// The jobs of `group`, oldest first.
    pub(super) fn members(&self, group: GroupIx) -> &[JobIx] {
        &self.members[self.member_ranges[group].clone()]
    }

    /// The weight of `class`.
    pub(super) fn weight(&self, class: ClassIx) -> u64 {
        self.weights[class]
    }

    /// The dividing level of two jobs.
    pub(super) fn lowest_common_level(&self, one: JobIx, other: JobIx) -> Level {
        if self.class_of[one] != self.class_of[other] {
            Level::Class
        } else if self.group_of[one] != self.group_of[other] {
            Level::User
        } else {
            Level::Job
        }
    }

    /// Number of entities at `level`.
    pub(super) fn sides(&self, level: Level) -> usize {
        match level {
            Level::Class => self.weights.len(),
            Level::User => self.groups.len(),
            Level::Job => self.class_of.len(),
        }
    }

    /// The place, among its kind, of the entity at `level` that `job` belongs to.
    pub(super) fn side(&self, level: Level, job: JobIx) -> EntityIx {
        EntityIx(match level {
            Level::Class => self.class_of[job].0,
            Level::User => self.group_of[job].0,
            Level::Job => job.0,
        })
    }

    /// The weight of `job`'s entity at `level`: users and jobs weigh 1.
    pub(super) fn weight_at(&self, level: Level, job: JobIx) -> u64 {
        match level {
            Level::Class => self.weight(self.class_of[job]),
            Level::User | Level::Job => 1,
        }
    }

    /// The amount of `job`'s entity at `level`.
    pub(super) fn at(&self, amounts: &Amounts, level: Level, job: JobIx) -> u64 {
        match level {
            Level::Class => amounts.classes[self.class_of[job]],
            Level::User => amounts.groups[self.group_of[job]],
            Level::Job => amounts.jobs[job],
        }
    }

    /// Adds `qshares` to `job` and the entities it belongs to.
    pub(super) fn add(&self, amounts: &mut Amounts, job: JobIx, qshares: u64) {
        amounts.classes[self.class_of[job]] += qshares;
        amounts.groups[self.group_of[job]] += qshares;
        amounts.jobs[job] += qshares;
    }

    /// Takes `qshares` from `job` and the entities it belongs to.
    ///
    /// # Panics
    ///
    /// If they have less: the caller lost track of the amounts.
    pub(super) fn remove(&self, amounts: &mut Amounts, job: JobIx, qshares: u64) {
        let entries = [
            &mut amounts.classes[self.class_of[job]],
            &mut amounts.groups[self.group_of[job]],
            &mut amounts.jobs[job],
        ];
        for amount in entries {
            *amount = amount.checked_sub(qshares).expect("an entity loses no more than it has");
        }
    }
}

/// Sorts `jobs` by key, all keys being below `keys`. Jobs of the same key keep their order.
fn sorted_by(jobs: &[JobIx], keys: usize, key: impl Fn(JobIx) -> usize) -> Vec<JobIx> {
    let mut ends = vec![0; keys + 1];
    for &job in jobs {
        ends[key(job) + 1] += 1;
    }
    for place in 1..ends.len() {
        ends[place] += ends[place - 1];
    }
    let mut sorted = vec![JobIx(0); jobs.len()];
    for &job in jobs {
        let next = &mut ends[key(job)];
        sorted[*next] = job;
        *next += 1;
    }
    sorted
}
