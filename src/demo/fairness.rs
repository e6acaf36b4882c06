//! Shortfall of users from their fair share, as seen over HTTP.
//!
//! The simulator computes the fair shares: weighted max-min over classes, users and jobs, as if
//! capacity were fluid. A user who holds less and wants more counts with the difference. Shares on
//! their way between two users count for neither, so even a perfect scheduler shows some error
//! while jobs come and go. Large processes and the remainders of nodes add to it.
#![expect(clippy::float_arithmetic, reason = "a figure for people; nothing is decided by it")]

use std::collections::{BTreeMap, BTreeSet};

use crate::api::wire::{ClassInfo, JobInfo, NodeInfo, NodeState, ShareState};
use crate::sim::measure::{JobClaim, Slots, fluid_shares};

/// The error so far.
#[derive(Debug, Default)]
pub(super) struct FairnessMeter {
    /// Shortfall of all users in qshares, summed over the contended looks.
    shortfall: f64,
    /// Qshares for fair-share work, summed over the same looks.
    capacity: f64,
}

/// A user in a class; amounts in qshares.
#[derive(Clone, Copy, Debug, Default)]
struct DemoParty {
    fair_share: f64,
    demand: u64,
    held: u64,
}

impl FairnessMeter {
    /// Adds a look at the cluster.
    pub fn look(&mut self, classes: &[ClassInfo], jobs: &[JobInfo], nodes: &[NodeInfo]) {
        let weights: BTreeMap<&str, (usize, u32)> = classes
            .iter()
            .enumerate()
            .filter_map(|(ix, class)| Some((class.name.as_str(), (ix, class.weight?))))
            .collect();
        let mut parties: BTreeMap<(&str, &str), DemoParty> = BTreeMap::new();
        let mut claims = Vec::new();
        let mut claimants = Vec::new();
        for job in jobs {
            let (Some(&(class, weight)), Some(order)) =
                (weights.get(job.class.as_str()), job.order)
            else {
                continue;
            };
            let want = order * job.sums.cap.unwrap_or(0);
            let key = (job.class.as_str(), job.user.as_str());
            let party = parties.entry(key).or_default();
            party.demand += want;
            party.held += order * job.sums.held;
            claims.push(JobClaim { party: 0, class, weight: weight.into(), order, want });
            claimants.push(key);
        }
        let numbers: BTreeMap<_, usize> = parties.keys().copied().zip(0..).collect();
        for (claim, claimant) in claims.iter_mut().zip(&claimants) {
            claim.party = numbers[claimant];
        }
        let room = room(nodes, jobs, |job| weights.contains_key(job.class.as_str()));
        let fluid = fluid_shares(&claims, &Slots::of(&room));
        for (claimant, amount) in claimants.iter().zip(&fluid.amounts) {
            parties.entry(*claimant).or_default().fair_share += amount;
        }
        if fluid.is_contended {
            let short = parties.values().filter(|party| party.held < party.demand);
            self.shortfall +=
                short.map(|party| (party.fair_share - real(party.held)).max(0.0)).sum::<f64>();
            self.capacity += real(room.iter().sum());
        }
    }

    /// Shortfall in percent of the capacity, to two decimals.
    pub fn error_percent(&self) -> f64 {
        let percent =
            if self.capacity > 0.0 { 100.0 * self.shortfall / self.capacity } else { 0.0 };
        (percent * 100.0).round() / 100.0
    }
}

/// Qshares of each node that gets work, without the shares of jobs that cannot be preempted.
fn room(nodes: &[NodeInfo], jobs: &[JobInfo], is_fair: impl Fn(&JobInfo) -> bool) -> Vec<u64> {
    let fair: BTreeSet<u64> = jobs.iter().filter(|job| is_fair(job)).map(|job| job.id).collect();
    let up = nodes.iter().filter(|node| node.states.contains(&NodeState::Up));
    let left = up.map(|node| {
        let is_fixed = |share: &&crate::api::wire::NodeShare| {
            share.state == ShareState::Held && !fair.contains(&share.job)
        };
        let fixed: u64 = node.shares.iter().filter(is_fixed).map(|share| share.order).sum();
        node.order.saturating_sub(fixed)
    });
    left.collect()
}

fn real(amount: u64) -> f64 {
    u32::try_from(amount).map_or(f64::MAX, f64::from)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn class() -> ClassInfo {
        let account = json!({"wanted": 0, "deserved": 0, "given": 0, "held": 0});
        from_value(json!({"name": "normal", "policy": "fair_share", "weight": 100, "priority": 10, "pool": "main",
            "quantum_mb": 15360, "is_default": true, "jobs": 2, "account": account}))
        .unwrap()
    }

    fn job(id: u64, user: &str, cap: u64, held: u64) -> JobInfo {
        let sums = json!({"wanted": cap, "cap": cap, "deserved": 0, "given": 0, "held": held, "promised": 0,
            "behind_cycles": 0});
        from_value(json!({"id": id, "user": user, "class": "normal", "kind": "job", "memory_mb": 28672, "order": 2,
            "threads": 1, "submitted_ms": 0, "remaining": 1, "running": true, "completing": false,
            "disposition": "stable", "sums": sums, "shares": []}))
        .unwrap()
    }

    fn node(name: &str, state: &str, order: u64, shares: &Value) -> NodeInfo {
        from_value(
            json!({"name": name, "pool": "main", "states": [state], "memory_mb": 1, "quantum_mb": 1,
            "order": order, "used": 0, "free": 0, "missed_heartbeats": 0, "shares": shares}),
        )
        .unwrap()
    }

    /// Space for six processes of order 2, the rest is dead or taken for good: ann and bob are due
    /// three each.
    #[track_caller]
    fn check(ann: (u64, u64), bob: (u64, u64), percent: f64) {
        let service = json!([{"job": 9, "share": 1, "order": 2, "memory_mb": 1, "state": "held"}]);
        let nodes = [
            node("n1", "up", 12, &json!([])),
            node("n2", "up", 2, &service),
            node("n3", "dead", 12, &json!([])),
        ];
        let mut fairness = FairnessMeter::default();
        fairness.look(
            &[class()],
            &[job(1, "ann", ann.0, ann.1), job(2, "bob", bob.0, bob.1)],
            &nodes,
        );
        assert!((fairness.error_percent() - percent).abs() < 1e-6, "{}", fairness.error_percent());
    }

    #[test]
    fn who_holds_less_than_is_due_counts() {
        check((9, 3), (9, 3), 0.0);
        check((9, 4), (9, 2), 16.67);
        check((9, 3), (9, 2), 16.67); // on its way to bob
        check((9, 4), (2, 2), 0.0); // bob wants no more
        check((3, 1), (2, 1), 0.0); // there is enough for both
    }
}
