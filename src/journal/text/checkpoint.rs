//! Checkpoints, as written.

use std::num::NonZeroU32;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::calendar::WindowText;
use super::shape::{GangText, is_default};
use super::topology::TopologyText;
use super::urgent::UrgentText;
use super::work::{ProcessText, ReportText, Spec};
use crate::model::{JobId, Mebibytes, Millis, Name, Order, ShareId, SharePhase};
use crate::scheduler::{Removal, TurnSavings, checkpoint};

/// All that the next cycles follow from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckpointText {
    topology: TopologyText,
    cycle: u64,
    next_share: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    interval: u64,
    nodes: Vec<NodeText>,
    jobs: Vec<JobText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    limbo: Vec<LimboText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    told_to_leave: Vec<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    crowded: Vec<Name>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    promises: Vec<PromiseText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    turns: Vec<TurnText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    put_off: Vec<u64>,
    #[serde(rename = "calm")]
    quiescence: QuiescenceText,
    #[serde(default, skip_serializing_if = "is_default")]
    now: Option<Millis>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    windows: Vec<WindowText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hours: Vec<(Name, Vec<(Millis, Millis)>)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "as the state has it")]
struct NodeText {
    report: ReportText,
    #[serde(default, skip_serializing_if = "is_default")]
    missed: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    heard: bool,
    #[serde(default, rename = "awaited", skip_serializing_if = "is_default")]
    is_awaited: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    dead: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    dying: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    died_at: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    given_up: bool,
    /// Records from before it was noted say nothing: then work that is there now counts.
    #[serde(default, skip_serializing_if = "is_default")]
    had_work: bool,
    /// Left out where it is two, as for all nodes on records from before it was counted.
    #[serde(default = "two", skip_serializing_if = "is_two")]
    heard_intervals: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    varied_off: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct JobText {
    spec: Spec,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shares: Vec<ShareText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    purged: Vec<ShareText>,
    #[serde(default, skip_serializing_if = "is_default")]
    behind_since: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    spent: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    gang: GangText,
    #[serde(default, skip_serializing_if = "is_default")]
    urgent: Option<UrgentText>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ShareText {
    id: u64,
    node: Name,
    order: NonZeroU32,
    #[serde(default, skip_serializing_if = "is_default")]
    rank: Option<u32>,
    #[serde(default, skip_serializing_if = "is_default")]
    leaving: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    removal: Option<RemovalText>,
    #[serde(default, skip_serializing_if = "is_default")]
    seen: bool,
    facts: ProcessText,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RemovalText {
    Preempted,
    VariedOff,
    Blacklisted,
    NodeDied,
    Window,
    ClassClosed,
    Withdrawn,
    GangBroken,
    Overrun,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct LimboText {
    id: u64,
    node: Name,
    memory_mb: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct PromiseText {
    job: u64,
    node: Name,
    order: NonZeroU32,
    #[serde(default, skip_serializing_if = "is_default")]
    rank: Option<u32>,
}

/// Savings of a user for the gangs in a class.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct TurnText {
    class: Name,
    user: Name,
    base: i64,
    since: u64,
    rate: i64,
    most: i64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct QuiescenceText {
    claims_changed: bool,
    news: bool,
    quiet_cycles: u64,
    rest_cycles: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    takings: Vec<(u64, u64)>,
    #[serde(default, skip_serializing_if = "is_default")]
    unfinished: bool,
}

/// Default of an absent field.
fn two() -> u32 {
    2
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_two(number: &u32) -> bool {
    *number == two()
}

fn number(order: Order) -> NonZeroU32 {
    NonZeroU32::new(order.get()).expect("nothing is of order 0")
}

fn order(number: NonZeroU32) -> Order {
    Order::new(number.get()).expect("it is not zero")
}

impl From<&checkpoint::SchedulerState> for CheckpointText {
    fn from(state: &checkpoint::SchedulerState) -> CheckpointText {
        let promise = |promise: &checkpoint::SavedPromise| PromiseText {
            job: promise.job.0,
            node: promise.node.clone(),
            order: number(promise.order),
            rank: promise.rank,
        };
        let limbo = |limbo: &checkpoint::Limbo| LimboText {
            id: limbo.id.0,
            node: limbo.node.clone(),
            memory_mb: limbo.memory.map(|memory| memory.0),
        };
        let turn = |(class, user, savings): &(Name, Name, TurnSavings)| {
            let TurnSavings { base, since, rate, most } = *savings;
            TurnText { class: class.clone(), user: user.clone(), base, since, rate, most }
        };
        let checkpoint::SavedQuiescence { takings, .. } = &state.quiescence;
        CheckpointText {
            topology: (&*state.topology).into(),
            cycle: state.cycle,
            interval: state.interval,
            next_share: state.next_share.0,
            nodes: state.nodes.iter().map(Into::into).collect(),
            jobs: state.jobs.iter().map(Into::into).collect(),
            limbo: state.limbo.iter().map(limbo).collect(),
            told_to_leave: state.told_to_leave.iter().map(|share| share.0).collect(),
            crowded: state.crowded.clone(),
            promises: state.promises.iter().map(promise).collect(),
            turns: state.turns.iter().map(turn).collect(),
            put_off: state.put_off.iter().map(|job| job.0).collect(),
            quiescence: QuiescenceText {
                claims_changed: state.quiescence.have_claims_changed,
                news: state.quiescence.has_news,
                quiet_cycles: state.quiescence.quiet_cycles,
                rest_cycles: state.quiescence.rest_cycles,
                takings: takings.iter().map(|(from, by)| (from.0, by.0)).collect(),
                unfinished: state.quiescence.is_unfinished,
            },
            now: state.now,
            hours: state.hours.clone(),
            windows: state.windows.iter().map(Into::into).collect(),
        }
    }
}

impl From<CheckpointText> for checkpoint::SchedulerState {
    fn from(text: CheckpointText) -> checkpoint::SchedulerState {
        let promise = |promise: PromiseText| checkpoint::SavedPromise {
            rank: promise.rank,
            job: JobId(promise.job),
            node: promise.node,
            order: order(promise.order),
        };
        let limbo = |limbo: LimboText| checkpoint::Limbo {
            id: ShareId(limbo.id),
            node: limbo.node,
            memory: limbo.memory_mb.map(Mebibytes),
        };
        let turn = |turn: TurnText| {
            let TurnText { class, user, base, since, rate, most } = turn;
            (class, user, TurnSavings { base, since, rate, most })
        };
        let takings = text.quiescence.takings.iter();
        checkpoint::SchedulerState {
            topology: Arc::new(text.topology.into()),
            cycle: text.cycle,
            interval: text.interval,
            next_share: ShareId(text.next_share),
            nodes: text.nodes.into_iter().map(Into::into).collect(),
            jobs: text.jobs.into_iter().map(Into::into).collect(),
            limbo: text.limbo.into_iter().map(limbo).collect(),
            told_to_leave: text.told_to_leave.into_iter().map(ShareId).collect(),
            crowded: text.crowded,
            promises: text.promises.into_iter().map(promise).collect(),
            turns: text.turns.into_iter().map(turn).collect(),
            put_off: text.put_off.into_iter().map(JobId).collect(),
            quiescence: checkpoint::SavedQuiescence {
                have_claims_changed: text.quiescence.claims_changed,
                has_news: text.quiescence.news,
                quiet_cycles: text.quiescence.quiet_cycles,
                rest_cycles: text.quiescence.rest_cycles,
                takings: takings.map(|&(from, by)| (JobId(from), JobId(by))).collect(),
                is_unfinished: text.quiescence.unfinished,
            },
            now: text.now,
            hours: text.hours,
            windows: text.windows.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<&checkpoint::SavedNode> for NodeText {
    fn from(node: &checkpoint::SavedNode) -> NodeText {
        NodeText {
            report: (&node.report).into(),
            missed: node.missed,
            heard: node.has_reported,
            is_awaited: node.is_awaited,
            dead: node.is_dead,
            dying: node.is_dying,
            died_at: node.died_at,
            given_up: node.is_given_up,
            had_work: node.has_had_work,
            heard_intervals: node.heard_intervals,
            varied_off: node.vary_off_reason.clone(),
        }
    }
}

impl From<NodeText> for checkpoint::SavedNode {
    fn from(node: NodeText) -> checkpoint::SavedNode {
        checkpoint::SavedNode {
            report: node.report.into(),
            missed: node.missed,
            has_reported: node.heard,
            is_awaited: node.is_awaited,
            is_dead: node.dead,
            is_dying: node.dying,
            died_at: node.died_at,
            is_given_up: node.given_up,
            has_had_work: node.had_work,
            heard_intervals: node.heard_intervals,
            vary_off_reason: node.varied_off,
        }
    }
}

impl From<&checkpoint::SavedJob> for JobText {
    fn from(job: &checkpoint::SavedJob) -> JobText {
        JobText {
            spec: (&job.spec).into(),
            shares: job.shares.iter().map(Into::into).collect(),
            purged: job.purged.iter().map(Into::into).collect(),
            behind_since: job.behind_since,
            spent: job.is_spent,
            gang: job.gang.into(),
            urgent: job.urgent.as_ref().map(Into::into),
        }
    }
}

impl From<JobText> for checkpoint::SavedJob {
    fn from(job: JobText) -> checkpoint::SavedJob {
        checkpoint::SavedJob {
            gang: job.gang.into(),
            urgent: job.urgent.map(Into::into),
            spec: job.spec.into(),
            shares: job.shares.into_iter().map(Into::into).collect(),
            purged: job.purged.into_iter().map(Into::into).collect(),
            behind_since: job.behind_since,
            is_spent: job.spent,
        }
    }
}

impl From<&checkpoint::SavedShare> for ShareText {
    fn from(share: &checkpoint::SavedShare) -> ShareText {
        ShareText {
            id: share.id.0,
            node: share.node.clone(),
            order: number(share.order),
            rank: share.rank,
            leaving: share.state == SharePhase::Leaving,
            removal: share.removal.map(|removal| match removal {
                Removal::Preempted => RemovalText::Preempted,
                Removal::VariedOff => RemovalText::VariedOff,
                Removal::Blacklisted => RemovalText::Blacklisted,
                Removal::NodeDied => RemovalText::NodeDied,
                Removal::Withdrawn => RemovalText::Withdrawn,
                Removal::Window => RemovalText::Window,
                Removal::ClassClosed => RemovalText::ClassClosed,
                Removal::GangBroken => RemovalText::GangBroken,
                Removal::Overrun => RemovalText::Overrun,
            }),
            seen: share.is_seen,
            facts: (&share.facts).into(),
        }
    }
}

impl From<ShareText> for checkpoint::SavedShare {
    fn from(share: ShareText) -> checkpoint::SavedShare {
        checkpoint::SavedShare {
            rank: share.rank,
            id: ShareId(share.id),
            node: share.node,
            order: order(share.order),
            state: if share.leaving { SharePhase::Leaving } else { SharePhase::Held },
            removal: share.removal.map(|why| match why {
                RemovalText::Preempted => Removal::Preempted,
                RemovalText::VariedOff => Removal::VariedOff,
                RemovalText::Blacklisted => Removal::Blacklisted,
                RemovalText::NodeDied => Removal::NodeDied,
                RemovalText::Withdrawn => Removal::Withdrawn,
                RemovalText::Window => Removal::Window,
                RemovalText::ClassClosed => Removal::ClassClosed,
                RemovalText::GangBroken => Removal::GangBroken,
                RemovalText::Overrun => Removal::Overrun,
            }),
            is_seen: share.seen,
            facts: share.facts.into(),
        }
    }
}
