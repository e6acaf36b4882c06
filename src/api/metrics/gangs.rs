//! Gauges of gangs and of jobs whose number of processes changes.

use std::collections::BTreeMap;

use crate::engine::{ADAPTING, GangNodes, WaitReason};
use crate::model::{Millis, NShares, Shape, SharePhase, count};
use crate::scheduler::{JobView, View, Waiting};

/// Labels and a value.
pub(super) type Sample<const N: usize, V> = ([(&'static str, String); N], V);

/// States of a gang.
const STATES: [&str; 3] = ["waiting", "starting", "running"];

fn is_gang(job: &JobView) -> bool {
    job.shape.as_deref().is_some_and(Shape::is_gang) && job.order.is_some()
}

fn state(job: &JobView) -> &'static str {
    match (job.held(), job.starting()) {
        (NShares(0), _) => "waiting",
        (_, Some(_)) => "starting",
        (_, None) => "running",
    }
}

/// Gangs by class and state, of the classes that take gangs.
pub(super) fn by_state(view: &View) -> Vec<Sample<2, u64>> {
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let classes = view.topology.classes.iter().filter(|class| class.gangs.are_allowed);
    for class in classes {
        counts.extend(STATES.map(|state| ((class.name.as_str(), state), 0)));
    }
    for job in view.jobs.iter().filter(|job| is_gang(job)) {
        *counts.entry((job.class.as_str(), state(job))).or_default() += 1;
    }
    let sample = |((class, state), count): ((&str, &str), u64)| {
        ([("class", class.to_owned()), ("state", state.to_owned())], count)
    };
    counts.into_iter().map(sample).collect()
}

/// Seconds since the submission of the gang of each class that waits longest, at time `now`.
pub(super) fn longest_waits(view: &View, now: Millis) -> Vec<Sample<1, u64>> {
    let mut longest: BTreeMap<&str, u64> = BTreeMap::new();
    let classes = view.topology.classes.iter().filter(|class| class.gangs.are_allowed);
    longest.extend(classes.map(|class| (class.name.as_str(), 0)));
    for job in view.jobs.iter().filter(|job| is_gang(job)) {
        if state(job) == "waiting" && !is_impossible(job) {
            let wait = now.saturating_sub(job.submitted).div_euclid(1000);
            let most = longest.entry(job.class.as_str()).or_default();
            *most = wait.max(*most);
        }
    }
    longest.into_iter().map(|(class, wait)| ([("class", class.to_owned())], wait)).collect()
}

/// True if the gang waits for a change of the cluster or of itself.
fn is_impossible(job: &JobView) -> bool {
    let Some(Waiting::Engine(WaitReason::GangLacks(lack))) = &job.reason else { return false };
    matches!(lack.of, GangNodes::Configured | GangNodes::OfOneSet)
}

/// Savings for gangs by class, in byte-seconds; users who are in debt count as having none.
pub(super) fn savings(view: &View) -> Vec<Sample<1, u64>> {
    let period = view.topology.settings.publication_period;
    let allowed = view
        .topology
        .classes
        .iter()
        .filter(|class| class.gangs.are_allowed && class.policy.is_preemptable());
    let sample = |class: &crate::model::ResourceClass| {
        let turns = view.classes.iter().find(|known| known.name == class.name);
        let turns = turns.map(|known| known.turns.as_slice()).unwrap_or_default();
        let saved = turns
            .iter()
            .map(|(_, savings)| u64::try_from(savings.balance(view.cycle, period)).unwrap_or(0));
        let quantum = view.topology.pools[class.pool].quantum.memory().0;
        let amount = saved.fold(0, u64::saturating_add).saturating_mul(quantum).div_euclid(1000);
        ([("class", class.name.to_string())], amount.saturating_mul(1 << 20))
    };
    allowed.map(sample).collect()
}

/// Jobs whose new processes have not initialized for so long that they may change again.
pub(super) fn unconfirmed(view: &View) -> u64 {
    count(view.jobs.iter().filter(|job| is_unconfirmed(job)))
}

fn is_unconfirmed(job: &JobView) -> bool {
    let is_elastic = job.shape.as_deref().is_some_and(Shape::is_elastic);
    is_elastic
        && job.shares.iter().any(|share| {
            let facts = share.facts;
            share.state == SharePhase::Held
                && !facts.is_initialized
                && ADAPTING <= facts.initialization
        })
}
