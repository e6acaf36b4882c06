//! Savings for turns of gangs, as people and programs see them.
//!
//! Design: requests and time, section 3.7.

use std::num::NonZeroU64;

use crate::api::wire::GangSavings;
use crate::engine::WaitReason;
use crate::model::{Millis, NShares, Name, Quantum, ResourceClass, ceil_div};
use crate::scheduler::{JobView, TurnSavings, View, Waiting};

/// Savings of `user` in the class named `class`; `None` if the user has no gang there.
pub fn savings_of(view: &View, class: &Name, user: &Name) -> Option<GangSavings> {
    let topology = &view.topology;
    let configured = &topology.classes[topology.class_named(class)?];
    let quantum = topology.pools[configured.pool].quantum;
    Some(told(account(view, class, user)?, view, quantum))
}

/// Savings for `job`, with the gang's need of them; `None` if it is no gang of fair-share work.
pub fn savings_for(view: &View, job: &JobView) -> Option<GangSavings> {
    let quantum = job.quantum?;
    job.shape.as_deref().filter(|shape| shape.is_gang())?;
    let account = account(view, &job.class, &job.user)?;
    let mut savings = told(account, view, quantum);
    if let Some(needed) = needed(view, job) {
        let balance = account.balance(view.cycle, view.topology.settings.publication_period);
        let missing = u64::try_from(needed.saturating_sub(balance)).unwrap_or(0);
        let rate = u64::try_from(account.rate).ok().and_then(NonZeroU64::new);
        savings.needed_mb_s = Some(in_memory(needed, quantum));
        savings.due_in_ms = rate.map(|rate| ceil_div(missing, rate));
    }
    Some(savings)
}

/// Need of a gang that saves up on the account, in qshare-milliseconds. `None`: it does not save
/// up, or it never has enough, as the length of its run is unknown.
fn needed(view: &View, job: &JobView) -> Option<i64> {
    let Some(Waiting::Engine(WaitReason::Earning { fair_share, asks })) = job.reason else {
        return None;
    };
    if job.held() != NShares(0) {
        return None;
    }
    let more = asks.0.saturating_sub(fair_share.0);
    i64::try_from(more.saturating_mul(duration(view, job)?)).ok()
}

/// The longest that a gang may run; `None` if neither the gang nor its class says it.
pub fn duration(view: &View, job: &JobView) -> Option<Millis> {
    let declared = job.shape.as_deref().and_then(|shape| shape.duration);
    let class: &ResourceClass = &view.topology.classes[view.topology.class_named(&job.class)?];
    class.gangs.duration(declared)
}

fn account(view: &View, class: &Name, user: &Name) -> Option<TurnSavings> {
    let class = view.classes.iter().find(|known| known.name == *class)?;
    class.turns.iter().find(|(name, _)| name == user).map(|(_, savings)| *savings)
}

fn told(account: TurnSavings, view: &View, quantum: Quantum) -> GangSavings {
    let balance = account.balance(view.cycle, view.topology.settings.publication_period);
    let earns = u64::try_from(account.rate).unwrap_or(0);
    GangSavings {
        saved_mb_s: in_memory(balance, quantum),
        earns_mb: earns.saturating_mul(quantum.memory().0),
        most_mb_s: in_memory(account.most, quantum),
        needed_mb_s: None,
        due_in_ms: None,
    }
}

/// Qshare-milliseconds as MiB-seconds, rounded down.
fn in_memory(amount: i64, quantum: Quantum) -> i64 {
    let memory = i64::try_from(quantum.memory().0).unwrap_or(i64::MAX);
    amount.saturating_mul(memory).div_euclid(1000)
}
