//! Finds jobs in an idle cluster that could have the place of another job's processes (I5), or the
//! space of lower priorities (I14).
//!
//! Tries every job below its cap, every node that it may use, and every side with jobs there. Free
//! space and the cheapest processes of that side make space for a process. The side is charged
//! once, for the whole plan. The plan is right if its loss is within the limit. The side must also
//! still hold at least as much, by weight, as the taker's side then does.
//!
//! A cycle that preempted anything is not judged: the next cycle continues its work.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Finding, Rule};
use super::ledger::Ledger;
use super::lines::{Entity, JobLine, Prey};
use super::price::{is_first_free, most};
use super::quiescence::{is_at_rest, is_true_price};
use crate::engine::Declined;
use crate::model::{JobIx, Millis, NodeIx, Precedence, count};

/// Most steps of each of the two checks. Beyond that a check stops without findings: an opinion
/// must not take longer than the decision.
const STEPS: u64 = 3_000_000;

/// Processes that a side gives up on a node, at the least loss.
struct EnvyPlan {
    quanta: u64,
    loss: Millis,
}

/// No side is so much better off that a job could have the place of its processes. Where the
/// configured stop holds a job back, peers keep what they have; another check judges that reason.
pub(super) fn check_envy(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let settings = &ledger.snapshot.topology.settings;
    if !settings.defragmentation || !is_settled(ledger) {
        return;
    }
    let mut steps = STEPS;
    let greatest = Greatest::of(ledger);
    for (place, line) in ledger.jobs.with_ix() {
        let is_stopped = matches!(line.report.held_back, Some(Declined::Quiet { .. }));
        if !line.is_fair_share() || !is_behind(line) || is_stopped {
            continue;
        }
        let envious = Envious { ledger, place, limit: limit(ledger, place) };
        if !greatest.is_any_ahead_of(&envious) {
            continue;
        }
        for (ix, _) in ledger.nodes_with_ix() {
            if ledger.would_take(line, ix).is_none() {
                continue;
            }
            match envious.plan_on(ix, &mut steps) {
                Ok(None) => {}
                Ok(Some((side, plan))) => {
                    findings.push(Rule::Envy.finding(envious.describe(ix, side, &plan)));
                    break;
                }
                Err(OutOfSteps) => return,
            }
        }
    }
}

/// No job waits for space that lower priorities hold. A fair-share job waits if it is below its
/// cap, any other job if it has a target and holds nothing.
pub(super) fn check_priorities(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    if !is_settled(ledger) {
        return;
    }
    let mut steps = STEPS;
    for line in &ledger.jobs {
        let is_waiting = if line.is_fair_share() {
            is_behind(line)
        } else {
            line.has() == 0 && 0 < line.report.target.0 && !line.has_ended() && !line.is_gang()
        };
        let is_limited = !line.is_fair_share() && ledger.allotment_for(line).is_some();
        if !is_waiting || is_limited {
            continue;
        }
        for (ix, node) in ledger.nodes_with_ix() {
            let Some(size) = ledger.would_take(line, ix) else { continue };
            let Some(left) = steps.checked_sub(1 + count(&node.prey)) else { return };
            steps = left;
            let is_worse = |prey: &&Prey| line.priority < ledger.jobs[prey.job].priority;
            let worse: u64 = node.prey.iter().filter(is_worse).map(|prey| prey.order).sum();
            if 0 < worse && i128::from(size) <= node.usable() + i128::from(worse) {
                let (id, name) = (line.job.id, ledger.name(ix));
                let detail = format!(
                    "job {id} could be on {name}, where {worse} qshares are of lower priority"
                );
                findings.push(Rule::PriorityWaits.finding(detail));
                break;
            }
        }
    }
}

/// True if the cluster is idle and this cycle left nothing to do. False while the preemption
/// history is not empty, as a side may then not take back.
fn is_settled(ledger: &Ledger<'_>) -> bool {
    is_at_rest(ledger)
        && ledger.snapshot.quiescence.takings.is_empty()
        && ledger.schedule.put_off.is_empty()
        && ledger.victims.iter().all(|victim| victim.beneficiary.is_none())
}

/// True if the job could use another process, and its search was not put off.
fn is_behind(line: &JobLine<'_>) -> bool {
    let is_put_off = line.report.held_back == Some(Declined::NextCycle);
    let could_use = line.cap.min(line.report.cap.nshares.0);
    line.has() < could_use && !line.has_ended() && !is_put_off && line.is_plain()
}

/// Loss limit for another process of the job at `place`. The limit that the report states is used
/// if it can be true.
fn limit(ledger: &Ledger<'_>, place: JobIx) -> Millis {
    let line = &ledger.jobs[place];
    match line.report.held_back {
        Some(Declined::TooDear { loss, limit }) if is_true_price(ledger, line, loss, limit) => {
            limit
        }
        _ if line.has() == 0 && is_first_free(ledger, place) => Millis::MAX,
        _ => most(ledger, line),
    }
}

/// The entity that holds most by weight, at each level. For most jobs this rules envy out, without
/// a scan of nodes.
struct Greatest {
    /// By priority.
    classes: BTreeMap<Precedence, Entity>,
    /// By class.
    users: BTreeMap<usize, Entity>,
    /// By user.
    jobs: BTreeMap<usize, Entity>,
}

impl Greatest {
    fn of(ledger: &Ledger<'_>) -> Greatest {
        let mut greatest =
            Greatest { classes: BTreeMap::new(), users: BTreeMap::new(), jobs: BTreeMap::new() };
        let enter = |best: &mut Entity, entity: Entity| {
            let (known, new) = (ledger.standing(*best).has(), ledger.standing(entity).has());
            if ledger.by_weight((entity, new), (*best, known)).is_gt() {
                *best = entity;
            }
        };
        for (place, line) in ledger.jobs.with_ix().filter(|(_, line)| line.is_fair_share()) {
            let [class, user, job] = ledger.entities(place);
            enter(greatest.classes.entry(line.priority).or_insert(class), class);
            enter(greatest.users.entry(line.job.class.0).or_insert(user), user);
            enter(greatest.jobs.entry(line.user).or_insert(job), job);
        }
        greatest
    }

    fn is_any_ahead_of(&self, envious: &Envious<'_, '_>) -> bool {
        let line = &envious.ledger.jobs[envious.place];
        let own = envious.ledger.entities(envious.place);
        let best = [
            self.classes.get(&line.priority),
            self.users.get(&line.job.class.0),
            self.jobs.get(&line.user),
        ];
        best.into_iter().zip(own).any(|(best, own)| {
            best.is_some_and(|&best| best != own && 0 < envious.may_take(best, own))
        })
    }
}

/// The step limit of the check is reached.
struct OutOfSteps;

/// A job that could use more.
struct Envious<'l, 'a> {
    ledger: &'l Ledger<'a>,
    place: JobIx,
    limit: Millis,
}

impl Envious<'_, '_> {
    /// Quanta that `side` can spare for another process on `own`. With the rest it still holds at
    /// least as much by weight as `own` then does.
    fn may_take(&self, side: Entity, own: Entity) -> u64 {
        let ledger = self.ledger;
        let order = ledger.jobs[self.place].order();
        // Shares that a side gains in this cycle cannot be preempted before the next.
        let (theirs, ours) = (ledger.standing(side).floor, ledger.standing(own).has() + order);
        let [theirs_weight, ours_weight] = [side, own].map(|side| u128::from(ledger.weight(side)));
        let least = (u128::from(ours) * theirs_weight).div_ceil(ours_weight.max(1));
        theirs.saturating_sub(u64::try_from(least).unwrap_or(u64::MAX))
    }

    /// The side whose processes can make space on node `ix`, with the plan.
    fn plan_on(
        &self,
        ix: NodeIx,
        steps: &mut u64,
    ) -> Result<Option<(Entity, EnvyPlan)>, OutOfSteps> {
        let (ledger, line) = (self.ledger, &self.ledger.jobs[self.place]);
        let node = &ledger.nodes[ix];
        *steps = steps.checked_sub(1 + count(&node.prey)).ok_or(OutOfSteps)?;
        let lacking = i128::from(line.order()) - node.usable();
        let Some(lacking) = u64::try_from(lacking).ok().filter(|lacking| 0 < *lacking) else {
            return Ok(None);
        };
        let mut sides: BTreeMap<Entity, Vec<Prey>> = BTreeMap::new();
        for &prey in &node.prey {
            // A job with legal sizes gives up whole steps, so a single process tells nothing.
            let theirs = &ledger.jobs[prey.job];
            let is_peer = theirs.priority == line.priority && theirs.is_plain();
            if let Some((side, _)) = ledger.dividing(prey.job, self.place).filter(|_| is_peer) {
                sides.entry(side).or_default().push(prey);
            }
        }
        for (side, mut prey) in sides {
            let own = ledger.entities(self.place).into_iter().find(|own| is_level(*own, side));
            let most = own.map_or(0, |own| self.may_take(side, own));
            spare_last(ledger, &mut prey);
            if most < lacking {
                continue;
            }
            if let Some(plan) = cheapest(&prey, lacking, most, self.limit, steps)? {
                return Ok(Some((side, plan)));
            }
        }
        Ok(None)
    }

    fn describe(&self, ix: NodeIx, side: Entity, plan: &EnvyPlan) -> String {
        let (ledger, line) = (self.ledger, &self.ledger.jobs[self.place]);
        format!(
            "job {} of order {} has {} of {} and could be on {} in place of {} qshares of {}, which holds {}; \
             {} ms would be lost",
            line.job.id,
            line.job.order,
            line.has(),
            line.cap,
            ledger.name(ix),
            plan.quanta,
            ledger.describe(side),
            ledger.standing(side).has(),
            plan.loss,
        )
    }
}

/// True if two sides are compared with each other.
fn is_level(one: Entity, other: Entity) -> bool {
    matches!(
        (one, other),
        (Entity::Class(_), Entity::Class(_))
            | (Entity::User(_), Entity::User(_))
            | (Entity::Job(_), Entity::Job(_))
    )
}

/// Removes the most expensive process from `prey` for each job or user that would otherwise lose
/// its last process to a peer. Only jobs and users that are owed a process are spared.
fn spare_last(ledger: &Ledger<'_>, prey: &mut Vec<Prey>) {
    prey.sort_by_key(|prey| prey.loss);
    let jobs: BTreeSet<JobIx> = prey.iter().map(|prey| prey.job).collect();
    for &job in jobs.iter().filter(|&&job| ledger.perhaps_owed.contains(ledger, job)) {
        let here = count(prey.iter().filter(|prey| prey.job == job));
        if ledger.jobs[job].has() <= here {
            remove_last(prey, |prey| prey.job == job);
        }
    }
    let users: BTreeSet<usize> = jobs.iter().map(|&job| ledger.jobs[job].user).collect();
    for user in users.into_iter().filter(|user| ledger.perhaps_owed.users.contains(user)) {
        let is_theirs = |job: JobIx| ledger.jobs[job].user == user;
        let here = prey.iter().filter(|prey| is_theirs(prey.job)).map(|prey| prey.order);
        if ledger.standing(Entity::User(user)).has() <= here.sum() {
            remove_last(prey, |prey| is_theirs(prey.job));
        }
    }
}

fn remove_last(prey: &mut Vec<Prey>, is_meant: impl Fn(&Prey) -> bool) {
    if let Some(at) = prey.iter().rposition(is_meant) {
        prey.remove(at);
    }
}

/// The processes of least loss with at least `least` and at most `most` quanta in all. `None` if
/// their loss is above `limit`.
fn cheapest(
    prey: &[Prey],
    least: u64,
    most: u64,
    limit: Millis,
    steps: &mut u64,
) -> Result<Option<EnvyPlan>, OutOfSteps> {
    // A plan without its smallest process is not enough, so the excess is below the largest
    // process.
    let largest = prey.iter().map(|prey| prey.order).max().unwrap_or(0);
    let most = most.min(least.saturating_add(largest).saturating_sub(1));
    let size = usize::try_from(most).map_err(|_| OutOfSteps)?;
    let cost = most.saturating_add(1).saturating_mul(1 + count(prey));
    *steps = steps.checked_sub(cost).ok_or(OutOfSteps)?;
    // Least loss for each sum of quanta.
    let mut losses: Vec<Option<Millis>> = vec![None; size + 1];
    losses[0] = Some(0);
    for prey in prey {
        let order = usize::try_from(prey.order).map_err(|_| OutOfSteps)?;
        for sum in (order..=size).rev() {
            let with = losses[sum - order].map(|loss| loss.saturating_add(prey.loss));
            let best = [losses[sum], with].into_iter().flatten().min();
            losses[sum] = best;
        }
    }
    let enough = (0_u64..).zip(losses).filter(|(sum, _)| least <= *sum);
    let plans = enough.filter_map(|(quanta, loss)| Some(EnvyPlan { quanta, loss: loss? }));
    Ok(plans.filter(|plan| plan.loss <= limit).min_by_key(|plan| (plan.quanta, plan.loss)))
}
