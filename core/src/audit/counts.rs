//! Checks the targets of How Much: within capacity, within the demand of jobs, and even.
//!
//! Targets are taken from the report, since nothing else shows them.

use std::collections::BTreeMap;

use super::finding::{Finding, Rule};
use super::ledger::Ledger;
use super::lines::{Entity, JobLine};
use crate::model::{JobIx, Order, PoolIx, Precedence};

/// Entities that share an amount, and the jobs of each.
type Peers = BTreeMap<Entity, Vec<JobIx>>;

/// The targets of all jobs in a tree of pools fit in its schedulable nodes and in shares that the
/// jobs hold elsewhere. Elsewhere are nodes out of scheduling, nodes outside the tree, and nodes
/// that shrank below their use.
pub(super) fn check_capacity(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let topology = &ledger.snapshot.topology;
    let mut trees: BTreeMap<PoolIx, (u64, u64)> = BTreeMap::new();
    for (ix, node) in ledger.snapshot.nodes_with_ix() {
        let (capacity, _) = trees.entry(topology.top_of(node.pool)).or_default();
        if node.state.is_schedulable() {
            let recount = &ledger.nodes[ix];
            let in_use = recount.staying + recount.leaving - recount.expanded;
            *capacity += recount.order.max(in_use).saturating_sub(node.limbo.0);
        }
    }
    for line in &ledger.jobs {
        let tree = topology.top_of(line.class.pool);
        let (capacity, counted) = trees.entry(tree).or_default();
        *counted += line.target();
        for share in line.job.held() {
            let node = ledger.snapshot.node(share.node);
            if !node.state.is_schedulable() || topology.top_of(node.pool) != tree {
                *capacity += share.order.qshares().0;
            }
        }
    }
    for (tree, (capacity, counted)) in trees {
        if counted > capacity {
            let name = &topology.pools[tree].name;
            let detail = format!("{counted} qshares of the {capacity} in {name}");
            findings.push(Rule::OverCounted.finding(detail));
        }
    }
}

/// No target is above the larger of the job's cap and its holdings.
pub(super) fn check_caps(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for line in &ledger.jobs {
        let most = line.cap.max(line.held);
        if line.report.target.0 > most {
            let (id, target) = (line.job.id, line.report.target);
            let detail = format!("{target} for job {id}, which can use {most}");
            findings.push(Rule::CountAboveCap.finding(detail));
        }
    }
}

/// No entity with unmet demand is more than an nshare of target, by weight, behind a peer whose
/// space it could use (I13). The rule holds at class, user and job level.
///
/// The smallest unmet job of an entity represents it. Of a peer's target, only the part counts that
/// this job could have. That part is in nshares of its order or larger, on nodes in scheduling. It
/// belongs to jobs all of whose pools this job may use too. Jobs with node lists, gangs and jobs
/// that are bound to sizes neither represent an entity nor count. The same holds for jobs that have
/// ended and keep their shares. The phases raise the least served first, so no counted part was
/// granted while the peer was ahead.
pub(super) fn check_evenness(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    for peers in peers(ledger) {
        // Representatives of the same order and pool see the same sides; with many users most do.
        let mut sides_by_speaker: BTreeMap<(Order, PoolIx), Vec<Side>> = BTreeMap::new();
        for (&behind, jobs) in &peers {
            let unmet = jobs.iter().map(|&job| &ledger.jobs[job]).filter(|line| is_unmet(line));
            let Some(speaker) = unmet.min_by_key(|line| line.job.order) else { continue };
            let orders = jobs.iter().map(|&job| ledger.jobs[job].job.order.qshares().0);
            let target = ledger.standing(behind).target;
            let reach = (behind, target + orders.max().unwrap_or(0));
            let sides = sides_by_speaker
                .entry((speaker.job.order, speaker.class.pool))
                .or_insert_with(|| sides_seen_by(ledger, speaker, &peers));
            let ahead = sides
                .iter()
                .take_while(|side| ledger.by_weight((side.peer, side.without_one), reach).is_gt());
            for side in ahead.filter(|side| side.peer != behind) {
                let detail = format!(
                    "job {} could use some of the {} qshares counted for {}; its side has {}",
                    speaker.job.id,
                    side.total,
                    ledger.describe(side.peer),
                    target,
                );
                findings.push(Rule::UnevenCounts.finding(detail));
            }
        }
    }
}

/// Part of a peer's target that the representative could have instead.
struct Side {
    peer: Entity,
    /// In qshares.
    total: u64,
    /// `total` without an nshare of the largest order in it.
    without_one: u64,
}

/// The peers from the point of view of `speaker`, the largest by weight first.
fn sides_seen_by(ledger: &Ledger<'_>, speaker: &JobLine<'_>, peers: &Peers) -> Vec<Side> {
    let topology = &ledger.snapshot.topology;
    let is_comparable = |line: &JobLine<'_>| {
        line.job.order >= speaker.job.order
            && line.job.nodes.is_none()
            && line.is_plain()
            && topology.is_within(line.class.pool, speaker.class.pool)
    };
    let side = |(&peer, jobs): (&Entity, &Vec<JobIx>)| {
        let lines = jobs.iter().map(|&job| (job, &ledger.jobs[job]));
        let (mut total, mut largest) = (0, 0);
        for (job, line) in lines.filter(|(_, line)| is_comparable(line)) {
            let amount = countable(ledger, job);
            if 0 < amount {
                total += amount;
                largest = largest.max(line.job.order.qshares().0);
            }
        }
        Side { peer, total, without_one: total.saturating_sub(largest) }
    };
    let mut sides: Vec<Side> = peers.iter().map(side).collect();
    sides.sort_by(|one, other| {
        ledger.by_weight((other.peer, other.without_one), (one.peer, one.without_one))
    });
    sides
}

/// Fair-share classes of equal priority; the users of each class; the jobs of each user in it.
fn peers(ledger: &Ledger<'_>) -> Vec<Peers> {
    let mut classes: BTreeMap<Precedence, Peers> = BTreeMap::new();
    let mut users: BTreeMap<Entity, Peers> = BTreeMap::new();
    let mut jobs: BTreeMap<Entity, Peers> = BTreeMap::new();
    for (place, line) in ledger.jobs.with_ix().filter(|(_, line)| line.is_fair_share()) {
        let [class, user, job] = ledger.entities(place);
        classes.entry(line.priority).or_default().entry(class).or_default().push(place);
        users.entry(class).or_default().entry(user).or_default().push(place);
        jobs.entry(user).or_default().entry(job).or_default().push(place);
    }
    classes.into_values().chain(users.into_values()).chain(jobs.into_values()).collect()
}

fn is_unmet(line: &JobLine<'_>) -> bool {
    !line.has_ended()
        && line.job.nodes.is_none()
        && line.is_plain()
        && line.report.target.0 < line.cap
}

/// Part of the target of the job at `place` that a peer could have instead.
fn countable(ledger: &Ledger<'_>, place: JobIx) -> u64 {
    let line = &ledger.jobs[place];
    if line.has_ended() {
        return 0;
    }
    let target = line.report.target.of_order(line.job.order).0;
    let is_apart =
        |ix| !ledger.snapshot.node(ix).state.is_schedulable() || !ledger.is_in_pool(line, ix);
    let apart = line.job.held().filter(|share| is_apart(share.node));
    target.saturating_sub(apart.map(|share| share.order.qshares().0).sum())
}
