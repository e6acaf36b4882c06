//! Why work has what it has: the sentence, the sums behind it, and what stands in the way.

use super::receipts::preemption;
use super::show::reason_of;
use super::wire::{JobSums, NodeTally, Why, WhySums};
use crate::model::{MachineState, Order, Policy, QShares, ResourceClass, Topology};
use crate::scheduler::{JobView, NodeView, View};

/// The whole answer for one request for work.
pub fn why(view: &View, job: &JobView) -> Why {
    let reason = reason_of(job);
    let sums = JobSums::of(job, view.cycle);
    let (id, held, wanted) = (job.id, sums.held, sums.wanted);
    let behind = match sums.behind_cycles {
        0 => String::new(),
        1 => " and has been behind for 1 cycle".to_owned(),
        cycles => format!(" and has been behind for {cycles} cycles"),
    };
    let sentence = match &reason {
        Some(reason) => format!(
            "work {id} holds {held} of the {wanted} processes it could use{behind}: {}",
            reason.sentence
        ),
        None => format!("work {id} has what it wants: {held} of {wanted} processes"),
    };
    let victims = view
        .jobs
        .iter()
        .flat_map(|victim| victim.preemptions.iter().map(move |taken| (victim, taken)));
    Why {
        job: id.0,
        cycle: view.cycle,
        sentence,
        reason,
        held_back: job.held_back.map(Into::into),
        sums: why_sums(view, job, sums),
        nodes: tally(view, job),
        taken_for_it: victims
            .filter(|(_, taken)| taken.beneficiary == Some(id))
            .map(|(victim, taken)| preemption(view, victim, taken))
            .collect(),
        taken_from_it: job.preemptions.iter().map(|taken| preemption(view, job, taken)).collect(),
    }
}

fn why_sums(view: &View, job: &JobView, sums: JobSums) -> WhySums {
    let class = view.classes.iter().find(|class| class.name == job.class);
    let user = class.and_then(|class| class.users.iter().find(|(user, _)| *user == job.user));
    WhySums {
        class: job.class.to_string(),
        class_account: class.map(|class| (&class.account).into()),
        user: job.user.to_string(),
        user_account: user.map(|(_, account)| account.into()),
        job: sums,
    }
}

/// Puts every node under the first thing that keeps it from taking one more process of `job`.
fn tally(view: &View, job: &JobView) -> NodeTally {
    let topology = &view.topology;
    let class = topology.class_named(&job.class).map(|class| &topology.classes[class.0]);
    let mut tally = NodeTally::default();
    for node in view.nodes.iter() {
        tally.total += 1;
        *obstacle(&mut tally, topology, class, job, node) += 1;
    }
    tally
}

fn obstacle<'a>(
    tally: &'a mut NodeTally,
    topology: &Topology,
    class: Option<&ResourceClass>,
    job: &JobView,
    node: &NodeView,
) -> &'a mut u64 {
    let MachineState { is_awaited, is_dead, is_varied_off, is_quiesced, is_blacklisted } =
        node.state;
    let needs = job.order.map_or(QShares(u64::MAX), Order::qshares);
    let is_whole_machine = class.is_some_and(|class| class.policy == Policy::Reserve);
    let is_full = if is_whole_machine {
        node.used > QShares(0)
    } else {
        node.order.saturating_sub(node.used) < needs
    };
    match () {
        () if !class.is_some_and(|class| may_use(topology, class, &node.pool)) => {
            &mut tally.other_pool
        }
        () if is_awaited => &mut tally.awaited,
        () if node.order < needs => &mut tally.too_small,
        () if is_dead => &mut tally.dead,
        () if is_varied_off => &mut tally.varied_off,
        () if is_quiesced => &mut tally.quiesced,
        () if is_blacklisted => &mut tally.blacklisted,
        () if is_full => &mut tally.full,
        () => &mut tally.has_room,
    }
}

/// Whether work of `class` may go to the pool: its own, and for fair-share work what lies in it.
fn may_use(topology: &Topology, class: &ResourceClass, pool: &str) -> bool {
    let pools = topology.pools.iter().enumerate();
    let place = pools
        .filter(|(_, candidate)| candidate.name == pool)
        .map(|(ix, _)| crate::model::PoolIx(ix))
        .next();
    place.is_some_and(|place| {
        place == class.pool
            || (class.policy.is_preemptable() && topology.is_within(place, class.pool))
    })
}
