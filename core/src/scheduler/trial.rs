//! Effects of an act of an administrator, computed on a copy of the state.

use std::collections::{BTreeMap, BTreeSet};

use super::view::{JobView, Removal, View, Waiting};
use super::{AdminCommand, CommandError, Scheduler};
use crate::model::{JobId, Millis, Name, ShareId, SharePhase};

/// Effects that an act has, or would have, on the current load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandImpact {
    /// The cycle that it is seen in.
    pub cycle: u64,
    /// Nodes whose state the act changes; other named nodes are in that state already.
    pub changed: Vec<String>,
    /// Shares that have to go for it, by job and why. Shares that make space for processes of other
    /// nodes are among them, as preempted.
    pub evicted: BTreeMap<(JobId, Removal), u64>,
    /// Work lost with the shares, in milliseconds of their processes.
    pub work_lost: Millis,
    /// Shares that stay on the nodes that the act changes, until their processes exit.
    pub kept: u64,
    /// Shares of work that stays on the nodes of a new window when it opens, each with its expected
    /// end, in milliseconds since the epoch, if that is known.
    pub in_the_way: Vec<(ShareId, Option<Millis>)>,
    /// Jobs that hold fewer shares afterwards, even with what the same cycle gives them elsewhere.
    pub below: BTreeMap<JobId, Holding>,
    /// Shares that stay until their work is done, though they are where configuration does not
    /// allow them, by job.
    pub parked: BTreeMap<JobId, u64>,
    /// Work that is refused now and was not, each with why.
    pub refused: Vec<(JobId, String)>,
    /// Nodes that get no work until such shares have left, and did before.
    pub blacklisted: Vec<Name>,
    /// Nodes that change their pool: which, from where, to where.
    pub moved: Vec<(Name, Name, Name)>,
    /// Jobs whose expected start a new window moves, oldest first.
    pub starts_moved: Vec<MovedStart>,
}

/// Start of a job without and with an act, in milliseconds since the epoch; `None` if it is not
/// known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedStart {
    /// Number of the job.
    pub job: JobId,
    /// Start without the act.
    pub before: Option<Millis>,
    /// Start with the act.
    pub after: Option<Millis>,
}

/// Number of shares that a job holds before and after an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Shares before it.
    pub before: u64,
    /// Shares after the next cycle.
    pub after: u64,
}

impl CommandImpact {
    /// Computes the shares that go, and the jobs that hold fewer, between two views. Shares that
    /// leave in `expected`, the view after the same time without the act, are not its effect.
    pub fn between(before: &View, after: &View, expected: Option<&View>) -> CommandImpact {
        let mut known = leaving(before);
        known.extend(expected.map(leaving).unwrap_or_default());
        let mut impact = CommandImpact { cycle: after.cycle, ..CommandImpact::default() };
        for job in after.jobs.iter() {
            for share in job.shares.iter().filter(|share| !known.contains(&share.id)) {
                if let Some(why) = share.removal {
                    *impact.evicted.entry((job.id, why)).or_default() += 1;
                    impact.work_lost = impact.work_lost.saturating_add(share.facts.work_at_stake());
                }
            }
        }
        let held_before = held(before);
        let held_anyway = expected.map(held);
        for (job, after) in held(after) {
            let before = held_before.get(&job).copied().unwrap_or(0);
            let anyway =
                held_anyway.as_ref().map_or(before, |held| held.get(&job).copied().unwrap_or(0));
            if after < before.min(anyway) {
                impact.below.insert(job, Holding { before, after });
            }
        }
        impact
    }

    /// Number of shares that go for this reason.
    pub fn evicted_for(&self, removal: Removal) -> u64 {
        let some = self.evicted.iter().filter(|((_, why), _)| *why == removal);
        some.map(|(_, count)| count).sum()
    }
}

impl Scheduler {
    /// Computes the effects of `command` in the next cycle, compared with that cycle without it.
    /// The scheduler itself stays unchanged. Takes as long as two cycles.
    ///
    /// # Errors
    ///
    /// If the command would be refused.
    pub fn try_out(&self, command: AdminCommand) -> Result<CommandImpact, CommandError> {
        let mut changed = self.clone();
        let is_window = matches!(command, AdminCommand::Reserve { .. });
        let in_the_way = match &command {
            AdminCommand::Reserve { window, .. } => self.ends_in_the_way(window),
            AdminCommand::VaryOff { .. }
            | AdminCommand::VaryOn { .. }
            | AdminCommand::NodesLost { .. }
            | AdminCommand::ForgetNodes { .. }
            | AdminCommand::Unreserve { .. }
            | AdminCommand::Urgent(_)
            | AdminCommand::Reconfigure(_) => Vec::new(),
        };
        let outcome = changed.command(command)?;
        let after = changed.schedule();
        let expected = self.clone().schedule();
        let impact = changed.impact_since(&self.view(), Some(&expected));
        let kept = held_on(&after, &outcome.changed);
        let starts_moved = if is_window { moved_starts(&expected, &after) } else { Vec::new() };
        let changed = outcome.changed;
        Ok(CommandImpact { changed, kept, in_the_way, starts_moved, ..impact })
    }

    /// Effects of an act since the view `before`. Shares that leave in `expected` leave anyway.
    pub fn impact_since(&self, before: &View, expected: Option<&View>) -> CommandImpact {
        let after = self.view();
        let mut impact = CommandImpact::between(before, &after, expected);
        for (job, share) in self.misplaced() {
            if share.state == SharePhase::Held {
                *impact.parked.entry(job).or_default() += 1;
            }
        }
        let was_refused: BTreeSet<JobId> =
            before.jobs.iter().filter_map(|job| refusal(job).map(|_| job.id)).collect();
        let refused = after.jobs.iter().filter(|job| !was_refused.contains(&job.id));
        impact.refused = refused.filter_map(|job| Some((job.id, refusal(job)?))).collect();
        let nodes_before: BTreeMap<&Name, _> =
            before.nodes.iter().map(|node| (&node.name, node)).collect();
        for node in after.nodes.iter() {
            let Some(earlier) = nodes_before.get(&node.name) else { continue };
            if node.state.is_blacklisted && !earlier.state.is_blacklisted {
                impact.blacklisted.push(node.name.clone());
            }
            if node.pool != earlier.pool {
                impact.moved.push((node.name.clone(), earlier.pool.clone(), node.pool.clone()));
            }
        }
        impact
    }
}

fn leaving(view: &View) -> BTreeSet<ShareId> {
    let shares = view.jobs.iter().flat_map(|job| &job.shares);
    shares.filter(|share| share.state == SharePhase::Leaving).map(|share| share.id).collect()
}

/// Jobs that start at another time in `after` than in `expected`.
fn moved_starts(expected: &View, after: &View) -> Vec<MovedStart> {
    let before: BTreeMap<JobId, Option<Millis>> =
        expected.jobs.iter().map(|job| (job.id, start_of(job))).collect();
    let moved = after.jobs.iter().map(|job| {
        let before = before.get(&job.id).copied().flatten();
        MovedStart { job: job.id, before, after: start_of(job) }
    });
    moved.filter(|start| start.before != start.after).collect()
}

/// Start of a job that runs, or expected start of a job that waits.
fn start_of(job: &JobView) -> Option<Millis> {
    let holds = job.shares.iter().any(|share| share.state == SharePhase::Held);
    if holds { job.started } else { job.start_estimate.map(|estimate| estimate.at) }
}

/// Number of shares that are held on these nodes.
fn held_on(view: &View, nodes: &[String]) -> u64 {
    let nodes: BTreeSet<&str> = nodes.iter().map(String::as_str).collect();
    let shares = view.jobs.iter().flat_map(|job| &job.shares);
    let held = shares.filter(|share| share.state == SharePhase::Held);
    let here = held.filter(|share| nodes.contains(share.node.as_str()));
    u64::try_from(here.count()).unwrap_or(u64::MAX)
}

/// Shares that each job holds; leaving shares do not count.
fn held(view: &View) -> BTreeMap<JobId, u64> {
    let held_by = |job: &JobView| {
        let held = job.shares.iter().filter(|share| share.state == SharePhase::Held);
        u64::try_from(held.count()).unwrap_or(u64::MAX)
    };
    view.jobs.iter().map(|job| (job.id, held_by(job))).collect()
}

fn refusal(job: &JobView) -> Option<String> {
    match &job.reason {
        Some(Waiting::Refused(refusal)) => Some(refusal.to_string()),
        Some(Waiting::Engine(_)) | None => None,
    }
}
