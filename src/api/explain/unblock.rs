//! Conditions under which a job gets more than it has, with the expected time where known.
//!
//! This module decides nothing and promises nothing: an estimate assumes that present rates
//! continue.

use std::collections::BTreeMap;

use crate::api::explain::node_fit::{NodeFit, done_in, free, leaving};
use crate::api::explain::savings::{duration, savings_for};
use crate::api::explain::silent::SilentNodes;
use crate::api::wire::{Estimate, Holder, Unblock, Verdict};
use crate::engine::{CapBound, GangLack, GangNodes, WaitReason};
use crate::model::{
    JobId, JobKind, NShares, Order, QShares, ResourceClass, Shape, SharePhase, amount_text,
    ceil_div, counted, fold_hostlist, span,
};
use crate::scheduler::{Declined, JobView, NodeView, View, Waiting};

/// Changes that end the quiet stop, and space that is available in spite of it.
const FREE_ROOM_OR_CHANGE: &str = "space that is free, or a change of demand or supply: work or a node comes or goes, or \
                                   a job can use another number of processes";
/// Number of things of a kind that a sentence names.
const NAMED: usize = 3;

/// Returns the condition that unblocks `job`; `None` if it has what it wants, on nodes that report.
pub fn unblock(
    view: &View,
    job: &JobView,
    eyes: &NodeFit<'_>,
    holders: &[Holder],
) -> Option<Unblock> {
    let Some(reason) = &job.reason else {
        return SilentNodes::of(view, job).map(|silent| silent.unblock());
    };
    let reason = match reason {
        Waiting::Refused(_) => {
            return Some(change("it is submitted with what this configuration allows".to_owned()));
        }
        Waiting::Engine(reason) => reason,
    };
    Some(match *reason {
        WaitReason::Impossible { .. } if is_tag_missing(view, job) => change(format!(
            "it starts when a node with {} joins, or a node gets these tags in the configuration (`[[tags]]`)",
            job.tags
        )),
        WaitReason::Impossible { asks, .. } => {
            impossible(job, eyes, asks, "it starts when a larger node joins, or it asks for less")
        }
        WaitReason::NoSuchSize { asks, .. } => impossible(
            job,
            eyes,
            asks,
            "it starts when a node of just that size joins, or it asks for the size of one there is",
        ),
        WaitReason::NoNodeUp { .. } => no_node_up(eyes),
        WaitReason::OverAllotment { allotment, held, asks } => {
            over_allotment(view, job, (held + asks).saturating_sub(allotment))
        }
        WaitReason::Capped { bound, .. } => capped(job, bound),
        WaitReason::NothingLeft { .. } | WaitReason::FairShareUsed { .. } => others(job, holders),
        WaitReason::WaitingForExits { .. } => exits(view, job, eyes),
        WaitReason::GangLacks(lack) => gang_lacks(lack),
        WaitReason::BehindOlderGang { job } => by_itself(
            format!("it starts once job {job} has started, on nodes that are free then"),
            None,
        ),
        WaitReason::WindowAhead { .. }
        | WaitReason::ReservationAhead { .. }
        | WaitReason::TooEarly { .. }
        | WaitReason::DeadlineUnreachable { .. }
        | WaitReason::ClassClosed { .. }
        | WaitReason::WaitsForOverrun { .. } => in_time(*reason),
        WaitReason::Earning { .. } => earning(view, job),
        WaitReason::NoLegalSize { next, .. } => {
            by_itself(format!("it grows once its target is {next}"), None)
        }
        WaitReason::Adapting => by_itself(
            "it may change again once its new processes have initialized and the others have exited"
                .to_owned(),
            None,
        ),
        WaitReason::HeldBack(held_back) => held_back_by(view, job, held_back),
        WaitReason::Fragmented { asks, .. } => in_pieces(eyes, asks, holders),
    })
}

/// The event that lets a job start that waits for a time.
fn in_time(reason: WaitReason) -> Unblock {
    let sentence = match reason {
        WaitReason::WindowAhead { .. } => {
            "it starts after the window, or before it on nodes on which it would end in time"
        }
        WaitReason::ReservationAhead { opens: None } => {
            return change(
                "it starts in an advance reservation of that name, once an operator makes one"
                    .to_owned(),
            );
        }
        WaitReason::ReservationAhead { .. } => "it starts when its advance reservation opens",
        WaitReason::TooEarly { .. } => "it starts at its earliest start, if nodes are free then",
        WaitReason::DeadlineUnreachable { .. } => {
            return change("it starts with a later deadline, or if it runs for less".to_owned());
        }
        WaitReason::WaitsForOverrun { job } => {
            return by_itself(format!("it starts when job {job} has ended at last"), None);
        }
        WaitReason::ClassClosed { .. }
        | WaitReason::Impossible { .. }
        | WaitReason::NoSuchSize { .. }
        | WaitReason::NoNodeUp { .. }
        | WaitReason::OverAllotment { .. }
        | WaitReason::Capped { .. }
        | WaitReason::FairShareUsed { .. }
        | WaitReason::NothingLeft { .. }
        | WaitReason::WaitingForExits { .. }
        | WaitReason::GangLacks(_)
        | WaitReason::BehindOlderGang { .. }
        | WaitReason::Earning { .. }
        | WaitReason::NoLegalSize { .. }
        | WaitReason::Adapting
        | WaitReason::HeldBack(_)
        | WaitReason::Fragmented { .. } => "it starts when its class opens",
    };
    by_itself(sentence.to_owned(), None)
}

/// The event that lets a gang start.
fn gang_lacks(lack: GangLack) -> Unblock {
    match lack.of {
        GangNodes::Configured => change("more such nodes join, or it asks for less".to_owned()),
        GangNodes::OfOneSet => change(
            "it starts when it may span several placement sets (`span`), or asks for less"
                .to_owned(),
        ),
        GangNodes::Up => by_itself("it starts when nodes that are down are back".to_owned(), None),
        GangNodes::Available => {
            by_itself("it starts when work that stays has ended on enough nodes".to_owned(), None)
        }
    }
}

/// The moment at which a gang that saves up is due.
fn earning(view: &View, job: &JobView) -> Unblock {
    let savings = savings_for(view, job);
    let Some(savings) = savings.filter(|_| duration(view, job).is_some()) else {
        return change(
            "it says how long it runs (`--time`), or asks for less: without an end it cannot save up"
                .to_owned(),
        );
    };
    let basis = "as long as its user's fair share stays as it is".to_owned();
    let estimate = savings.due_in_ms.map(|in_ms| Estimate { in_ms, basis });
    by_itself(format!("it has saved up enough: {}", savings.words()), estimate)
}

/// True if the job asks for tags that no node has.
fn is_tag_missing(view: &View, job: &JobView) -> bool {
    !job.tags.is_empty() && !view.nodes.iter().any(|node| node.tags.satisfy(&job.tags))
}

/// Builds a condition that comes by itself, if at all.
fn by_itself(sentence: String, estimate: Option<Estimate>) -> Unblock {
    Unblock { sentence, needs_a_change: false, estimate }
}

/// Builds a condition that needs a change by a user or an operator.
pub(in crate::api) fn change(sentence: String) -> Unblock {
    Unblock { sentence, needs_a_change: true, estimate: None }
}

fn impossible(job: &JobView, eyes: &NodeFit<'_>, asks: Order, remedy: &str) -> Unblock {
    let needs = amount_text(job.quantum, asks.qshares());
    let has = |node: &NodeView| {
        let has = amount_text(Some(node.quantum), node.order);
        format!("the largest node it may use, {}, has {has}", node.name)
    };
    let has = eyes.largest().map_or("there is no node that it may use".to_owned(), has);
    change(format!("impossible as things are: it asks for {needs}, {has}; {remedy}"))
}

fn no_node_up(eyes: &NodeFit<'_>) -> Unblock {
    let out = [
        (Verdict::Awaited, "awaited"),
        (Verdict::Dead, "dead"),
        (Verdict::VariedOff, "varied off"),
        (Verdict::Quiesced, "quiesced"),
        (Verdict::Blacklisted, "blacklisted"),
    ];
    let named = out.iter().filter_map(|&(verdict, what)| {
        let names: Vec<&str> = eyes.nodes(&[verdict]).map(|node| node.name.as_str()).collect();
        (!names.is_empty()).then(|| format!("{} ({what})", fold_hostlist(names)))
    });
    let named: Vec<String> = named.collect();
    change(format!("one of {} gets work again", named.join(", ")))
}

fn over_allotment(view: &View, job: &JobView, too_much: QShares) -> Unblock {
    let is_fixed = |class: &ResourceClass| !class.policy.is_preemptable();
    let is_counted = |other: &&JobView| {
        let class = view.topology.class_named(&other.class);
        other.user == job.user
            && other.held() != NShares(0)
            && class.is_some_and(|class| is_fixed(&view.topology.classes[class]))
    };
    let mut ids = view.jobs.iter().filter(is_counted).map(|other| other.id.to_string());
    let named: Vec<String> = ids.by_ref().take(NAMED).collect();
    let more = if ids.next().is_some() { " and others" } else { "" };
    let of = if named.is_empty() {
        String::new()
    } else {
        format!(
            " (it has {} {}{more})",
            if named.len() == 1 { "job" } else { "jobs" },
            named.join(", ")
        )
    };
    change(format!(
        "{} ends {} of work that cannot be preempted{of}, or the allotment is raised by as much",
        job.user,
        amount_text(job.quantum, too_much)
    ))
}

fn capped(job: &JobView, bound: CapBound) -> Unblock {
    let held = job.held();
    match bound {
        CapBound::Initialization => {
            let which = match held {
                NShares(0) => "its first process".to_owned(),
                NShares(1) => "its one process".to_owned(),
                held => format!("one of its {held} processes"),
            };
            by_itself(format!("{which} has initialized"), None)
        }
        CapBound::UnknownPace => {
            by_itself("the orchestrator publishes how long an item of it takes".to_owned(), None)
        }
        CapBound::StartsOver => by_itself("a process of it starts anew".to_owned(), None),
        CapBound::Doubling => {
            by_itself("the next cycles: it doubles in each".to_owned(), Some(next_cycle()))
        }
        CapBound::Prediction => {
            let end = done_in(job).map(|in_ms| format!(" in about {}", span(in_ms)));
            let end = end.unwrap_or_default();
            by_itself(
                format!(
                    "nothing, while its work goes as fast as now: it is done{end}, before more would help"
                ),
                None,
            )
        }
        CapBound::Maximum => change("its declared maximum is raised".to_owned()),
        CapBound::Frozen => {
            change("its owner lets it grow again, which stopped it after failures".to_owned())
        }
        CapBound::Completing => change("nothing: it is ending".to_owned()),
        CapBound::TooEarly => by_itself("its earliest start comes".to_owned(), None),
        CapBound::Closed => by_itself("it starts when its class opens".to_owned(), None),
        CapBound::Overrun => change(
            "it is submitted anew with a longer time: this job is over, and is not started again"
                .to_owned(),
        ),
        CapBound::Spent if job.shape.as_deref().is_some_and(Shape::is_gang) => by_itself(
            "its orchestrator knows the end of all its processes, and starts it again".to_owned(),
            None,
        ),
        CapBound::Spent => {
            change("it is submitted anew: its one process ended, and is not replaced".to_owned())
        }
        CapBound::WorkLeft => by_itself("it gets more work items".to_owned(), None),
    }
}

fn next_cycle() -> Estimate {
    Estimate { in_ms: 0, basis: "the next cycle".to_owned() }
}

/// Names the jobs that hold the space and have to want less.
fn others(job: &JobView, holders: &[Holder]) -> Unblock {
    if holders.is_empty() {
        return by_itself("others, who have priority, want less".to_owned(), None);
    }
    let named: Vec<String> = holders
        .iter()
        .take(NAMED)
        .map(|holder| {
            let amount = amount_text(job.quantum, QShares(holder.qshares));
            format!("job {} of {} ({amount})", holder.job, holder.user)
        })
        .collect();
    let instead = if job.kind == JobKind::Job { "need less" } else { "end" };
    by_itself(format!("others {instead}; the most is with {}", named.join(", ")), soonest(holders))
}

/// Estimates the time until the first of these jobs is done.
fn soonest(holders: &[Holder]) -> Option<Estimate> {
    let known = holders.iter().filter_map(|holder| Some((holder.done_in_ms?, holder)));
    let (in_ms, holder) = known.min_by_key(|(in_ms, holder)| (*in_ms, holder.job))?;
    let basis = format!("job {} of {} is done then, at its present rate", holder.job, holder.user);
    Some(Estimate { in_ms, basis })
}

/// Names the exits that have to be confirmed, and their nodes.
fn exits(view: &View, job: &JobView, eyes: &NodeFit<'_>) -> Unblock {
    let mut awaited: BTreeMap<&str, u64> = BTreeMap::new();
    let mut whose: Vec<JobId> = Vec::new();
    for node in eyes.nodes(&[Verdict::BeingCleared]) {
        for (of, _, _, state) in &node.shares {
            if *state == SharePhase::Leaving {
                *awaited.entry(&node.name).or_default() += 1;
                whose.push(*of);
            }
        }
    }
    let count: u64 = awaited.values().sum();
    if count == 0 {
        return by_itself("the next cycle: its space is free".to_owned(), Some(next_cycle()));
    }
    whose.sort_unstable();
    whose.dedup();
    let nodes = fold_hostlist(awaited.keys().copied());
    let (evictions, are) = (counted(count, "eviction"), if count == 1 { "is" } else { "are" });
    let from =
        whose.iter().take(NAMED).map(|id| match view.jobs.iter().find(|job| job.id == *id) {
            Some(other) => format!("job {id} of {}", other.user),
            None => format!("job {id}"),
        });
    let from: Vec<String> = from.collect();
    let more = if NAMED < whose.len() { " and others" } else { "" };
    let starts = if job.held() == NShares(0) { "it starts" } else { "it gets more" };
    by_itself(
        format!(
            "{starts} when {evictions} on {nodes} {are} confirmed by the orchestrator: from {}{more}",
            from.join(", ")
        ),
        None,
    )
}

/// True if the quiet stop holds: then a job with shares takes nothing from its peers.
fn is_stopped(view: &View) -> bool {
    let quiet_cycles =
        view.planned.as_ref().map_or(0, |last| last.snapshot.quiescence.quiet_cycles);
    view.topology.settings.quiet_stop.is_some_and(|stop| stop <= quiet_cycles)
}

fn held_back_by(view: &View, job: &JobView, held_back: Declined) -> Unblock {
    match held_back {
        Declined::TooDear { .. } if is_stopped(view) => by_itself(
            format!("{FREE_ROOM_OR_CHANGE}; after the quiet stop, waiting alone does not help"),
            None,
        ),
        // Waiting counts below the count only.
        Declined::TooDear { .. } if job.behind_since.is_none() => by_itself(
            format!(
                "{FREE_ROOM_OR_CHANGE}; it has what is counted for it, so its waiting pays for nothing"
            ),
            None,
        ),
        Declined::TooDear { loss, limit } => {
            let period = view.topology.settings.publication_period;
            let a_cycle = period.saturating_mul(job.threads);
            let cycles = std::num::NonZeroU64::new(a_cycle)
                .map(|a_cycle| ceil_div(loss.saturating_sub(limit), a_cycle));
            let estimate = cycles.map(|cycles| Estimate {
                in_ms: cycles.saturating_mul(period),
                basis: format!(
                    "it takes at least {} of waiting to pay for what would be destroyed",
                    counted(cycles, "more cycle")
                ),
            });
            by_itself("space that is free, or waiting until it is worth it".to_owned(), estimate)
        }
        Declined::TooLate => {
            by_itself("space that is free; it takes nothing from others".to_owned(), None)
        }
        Declined::Quiet { .. } => by_itself(FREE_ROOM_OR_CHANGE.to_owned(), None),
        Declined::NextCycle => by_itself("the next cycle, which begins with it".to_owned(), None),
    }
}

/// Describes the missing space on the node that lacks least.
fn in_pieces(eyes: &NodeFit<'_>, asks: Order, holders: &[Holder]) -> Unblock {
    let needs = asks.qshares();
    let coming = |node: &NodeView| free(node) + leaving(node);
    let nearest = eyes.in_use().max_by_key(|node| (coming(node), std::cmp::Reverse(&node.name)));
    let sentence = match nearest {
        None => "a node gets work again that is large enough".to_owned(),
        Some(node) => {
            let text = |amount: QShares| amount_text(Some(node.quantum), amount);
            let (coming, lacks) = (coming(node), needs.saturating_sub(coming(node)));
            format!(
                "processes end on one node; {} is nearest, with {} of the {} that one process needs: \
                 {} more has to go there",
                node.name,
                text(coming),
                text(needs),
                text(lacks)
            )
        }
    };
    by_itself(sentence, soonest(holders))
}
