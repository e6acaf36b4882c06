//! Explanation of what a job has: the sentence, the sums behind it, and the obstacles.

use std::sync::Arc;

use crate::api::explain::ahead::ahead;
use crate::api::explain::node_fit::NodeFit;
use crate::api::explain::preemptions::preemption;
use crate::api::explain::savings::savings_for;
use crate::api::explain::silent::SilentNodes;
use crate::api::explain::unblock::unblock;
use crate::api::hours::{CivilTime, HoursNow};
use crate::api::wire::from_view::reason_of;
use crate::api::wire::{Account, Bound, BoundBy, JobSums, Reason, Why, WhyBrief, WhySums};
use crate::converter::lack_words;
use crate::engine::{CapBound, GangNodes, WaitReason as Cause, exactly};
use crate::model::{ClassPolicy, Order, QShares, Shape, amount_text, counted, plural};
use crate::scheduler::{Declined, JobView, View, Waiting};

/// Explains a job in a sentence.
pub fn brief(view: &View, job: &JobView, time: &CivilTime) -> WhyBrief {
    let reason = reason_at(view, job, time);
    let eyes = NodeFit::of(view, job);
    WhyBrief {
        job: job.id.0,
        cycle: view.cycle,
        sentence: sentence(view, job, &JobSums::of(job, view.cycle), reason.as_ref()),
        unblock: unblock(view, job, &eyes, &eyes.holders()),
        reason,
    }
}

/// Explains a job in full, with every node.
pub fn why_by_node(view: &View, job: &JobView, time: &CivilTime) -> Why {
    Why { verdicts: Some(NodeFit::of(view, job).verdicts()), ..why(view, job, time) }
}

/// Explains a job in full, with counts of nodes.
pub fn why(view: &View, job: &JobView, time: &CivilTime) -> Why {
    let reason = reason_at(view, job, time);
    let sums = JobSums::of(job, view.cycle);
    let eyes = NodeFit::of(view, job);
    let holders = if reason.is_some() { eyes.holders() } else { Vec::new() };
    let victims = view
        .jobs
        .iter()
        .flat_map(|victim| victim.preemptions.iter().map(move |taken| (victim, taken)));
    Why {
        job: job.id.0,
        cycle: view.cycle,
        sentence: sentence(view, job, &sums, reason.as_ref()),
        asks: job.shape.as_ref().map(|shape| shape.words()).filter(|words| !words.is_empty()),
        reason,
        unblock: unblock(view, job, &eyes, &holders),
        start_estimate_ms: job.start_estimate.map(|estimate| estimate.at),
        estimate_basis: job.start_estimate.map(|estimate| estimate.basis.into()),
        held_back: job.held_back.map(Into::into),
        ahead: ahead(view, job),
        sums: why_sums(view, job, sums),
        nodes: eyes.tally(),
        verdicts: None,
        holders,
        taken_for_it: victims
            .filter(|(_, taken)| taken.beneficiary == Some(job.id))
            .map(|(victim, taken)| preemption(view, victim, taken))
            .collect(),
        taken_from_it: job.preemptions.iter().map(|taken| preemption(view, job, taken)).collect(),
    }
}

/// Reason of a job, with the time until the moment that it names.
fn reason_at(view: &View, job: &JobView, time: &CivilTime) -> Option<Reason> {
    let mut reason = reason_of(job)?;
    let Some(Waiting::Engine(cause)) = &job.reason else { return Some(reason) };
    if let Cause::ClassClosed { opens: Some(opens) } = cause {
        let closes = HoursNow::of(view, &job.class, time.now).closes();
        reason.sentence = time.closed(closes, *opens);
    } else if let Cause::TooEarly { opens } = cause {
        reason.sentence = format!("{}, {}", reason.sentence, time.until(*opens));
    } else if let Cause::ReservationAhead { opens: Some(opens) } = cause {
        reason.sentence = format!("{}, which opens {}", reason.sentence, time.until(*opens));
    } else if let Cause::WindowAhead { opens, .. } = cause {
        reason.sentence = format!("{}, the first {}", reason.sentence, time.until(*opens));
    }
    Some(reason)
}

fn sentence(view: &View, job: &JobView, sums: &JobSums, reason: Option<&Reason>) -> String {
    let (id, held, wanted) = (job.id, sums.held, sums.wanted);
    let behind = match sums.behind_cycles {
        0 => String::new(),
        1 => " and has been behind for 1 cycle".to_owned(),
        cycles => format!(" and has been behind for {cycles} cycles"),
    };
    let processes = |count| plural(count, "process");
    let silent = SilentNodes::of(view, job).map(|silent| silent.sentence());
    let notes = tags_note(view, job).into_iter().chain(silent.clone());
    let mut also = String::new();
    for note in notes {
        also += "; ";
        also += &note;
    }
    match reason {
        Some(reason) if job.order.is_none() => format!("job {id} is refused: {}", reason.sentence),
        Some(reason) if held == 0 && is_gang(job) => {
            format!("job {id} {}{also}", gang_waits(job, reason))
        }
        Some(reason) if (held, wanted) == (0, 1) => {
            format!("job {id} waits for its one process{behind}: {}{also}", reason.sentence)
        }
        Some(reason) => format!(
            "job {id} holds {held} of the {wanted} {} it could use{behind}: {}{also}",
            processes(wanted),
            reason.sentence
        ),
        None if let Some(silent) = &silent => {
            format!("job {id} holds {held} of {wanted} {}, but {silent}", processes(wanted))
        }
        None if let Some((ready, all)) = job.starting() => {
            format!("job {id} starts: {ready} of its {all} {} are ready", processes(all))
        }
        None if wanted < held => format!(
            "job {id} has what it wants: {held} {}, of which it needs {wanted} to the end",
            processes(held)
        ),
        None if (held, wanted) == (1, 1) => format!("job {id} has its one process"),
        None => {
            format!("job {id} has what it wants: {held} of {wanted} {}", processes(wanted))
        }
    }
}

fn is_gang(job: &JobView) -> bool {
    job.shape.as_deref().is_some_and(Shape::is_gang)
}

/// State of a gang without processes, and the reason: the words after its number.
fn gang_waits(job: &JobView, reason: &Reason) -> String {
    let lack = |lack| {
        let shape = job.shape.as_deref()?;
        Some(lack_words(lack, shape, job.quantum))
    };
    let Some(Waiting::Engine(cause)) = &job.reason else {
        return format!("waits: {}", reason.sentence);
    };
    match cause {
        Cause::GangLacks(of) => {
            let state = match of.of {
                GangNodes::Configured => "cannot start in this cluster",
                GangNodes::OfOneSet => "cannot start within a placement set",
                GangNodes::Up => "waits for nodes that are down",
                GangNodes::Available => "waits for nodes",
            };
            format!("{state}: {}", lack(*of).unwrap_or_else(|| of.to_string()))
        }
        Cause::Earning { fair_share, asks } => {
            let text = |amount: QShares| amount_text(job.quantum, amount);
            format!("saves up for its turn: {}", saving_up(&text(*fair_share), &text(*asks)))
        }
        Cause::BehindOlderGang { job: older } => {
            format!("waits behind job {older}, which is older and has the free nodes kept for it")
        }
        Cause::Capped { bound: CapBound::Spent, .. } => format!("is over: {}", reason.sentence),
        Cause::Impossible { .. }
        | Cause::NoSuchSize { .. }
        | Cause::NoNodeUp { .. }
        | Cause::OverAllotment { .. }
        | Cause::Capped { .. }
        | Cause::FairShareUsed { .. }
        | Cause::NothingLeft { .. }
        | Cause::WaitingForExits { .. }
        | Cause::WindowAhead { .. }
        | Cause::ReservationAhead { .. }
        | Cause::TooEarly { .. }
        | Cause::DeadlineUnreachable { .. }
        | Cause::ClassClosed { .. }
        | Cause::WaitsForOverrun { .. }
        | Cause::NoLegalSize { .. }
        | Cause::Adapting
        | Cause::HeldBack(_)
        | Cause::Fragmented { .. } => format!("waits: {}", reason.sentence),
    }
}

/// Tags that the job asks for, and the number of nodes that have them.
fn tags_note(view: &View, job: &JobView) -> Option<String> {
    if job.tags.is_empty() {
        return None;
    }
    let have = view.nodes.iter().filter(|node| node.tags.satisfy(&job.tags)).count();
    Some(format!(
        "it asks for nodes with {}, and {have} of {} {}",
        job.tags,
        counted(view.nodes.len().try_into().unwrap_or(u64::MAX), "node"),
        if have == 1 { "has them" } else { "have them" },
    ))
}

fn why_sums(view: &View, job: &JobView, sums: JobSums) -> WhySums {
    let topology = &view.topology;
    let configured = topology.class_named(&job.class).map(|class| &topology.classes[class]);
    let class = view.classes.iter().find(|class| class.name == job.class);
    let user = class.and_then(|class| class.users.iter().find(|(user, _)| *user == job.user));
    let class_account: Option<Account> = class.map(|class| (&class.account).into());
    let user_account: Option<Account> = user.map(|(_, account)| account.into());
    let bound = bound(job, class_account.as_ref(), user_account.as_ref());
    let is_fair = |policy: &ClassPolicy| policy.is_preemptable();
    let weight = configured.filter(|class| is_fair(&class.policy));
    WhySums {
        class: job.class.to_string(),
        policy: configured.map(|class| (&class.policy).into()),
        priority: configured.map(|class| class.priority),
        weight: weight.map(|class| class.policy.weight()),
        quantum_mb: job.quantum.map(|quantum| quantum.memory().0),
        order: job.order.map(|order| order.qshares().0),
        class_account,
        user: job.user.to_string(),
        user_account,
        job_account: job.account().as_ref().map(Into::into),
        savings: savings_for(view, job),
        job: sums,
        bound,
    }
}

/// Returns the limit that has to change before the job gets more.
fn bound(job: &JobView, class: Option<&Account>, user: Option<&Account>) -> Bound {
    let told = |by, sentence: String| Bound { by, sentence };
    let text = |amount: QShares| amount_text(job.quantum, amount);
    let cause = match &job.reason {
        None => return told(BoundBy::Nothing, "it has what it wants".to_owned()),
        Some(Waiting::Refused(refusal)) => return told(BoundBy::Refused, refusal.to_string()),
        Some(Waiting::Engine(cause)) => cause,
    };
    match cause {
        Cause::Impossible { asks, largest: QShares(0) } => told(
            BoundBy::Nodes,
            format!(
                "a process needs {}, and there is no node that it may use",
                text(asks.qshares())
            ),
        ),
        Cause::Impossible { asks, largest } => told(
            BoundBy::Nodes,
            format!(
                "a process needs {}, the largest node has {}",
                text(asks.qshares()),
                text(*largest)
            ),
        ),
        Cause::NoSuchSize { asks, most, .. } => told(
            BoundBy::Nodes,
            format!("it needs a node of {}, and there is none", exactly(job.quantum, *asks, *most)),
        ),
        Cause::NoNodeUp { suitable, .. } => {
            told(BoundBy::Nodes, format!("{suitable} nodes would do, and none of them is up"))
        }
        Cause::OverAllotment { allotment, held, asks } => {
            told(BoundBy::Allotment, too_much(&text(*held), &text(*asks), &text(*allotment)))
        }
        Cause::Capped { bound, cap } => told(BoundBy::Cap, capped(*bound, cap.0)),
        Cause::NothingLeft { left, asks } => {
            let (left, asks) = (text(*left), text(asks.qshares()));
            told(BoundBy::Priority, format!("{left} is left, a process needs {asks}"))
        }
        Cause::FairShareUsed { .. } => share(job, class, user),
        Cause::GangLacks(lack) => {
            let words = |shape: &Arc<Shape>| lack_words(*lack, shape, job.quantum);
            told(BoundBy::Nodes, job.shape.as_ref().map_or_else(|| lack.to_string(), words))
        }
        Cause::BehindOlderGang { job } => {
            told(BoundBy::Room, format!("the free nodes are kept for job {job}, which is older"))
        }
        Cause::WindowAhead { .. }
        | Cause::ReservationAhead { .. }
        | Cause::TooEarly { .. }
        | Cause::DeadlineUnreachable { .. }
        | Cause::ClassClosed { .. }
        | Cause::WaitsForOverrun { .. } => told(BoundBy::Time, cause.sentence(job.quantum)),
        Cause::Earning { fair_share, asks } => {
            told(BoundBy::JobShare, saving_up(&text(*fair_share), &text(*asks)))
        }
        Cause::NoLegalSize { target, next } => {
            told(BoundBy::JobShare, format!("its target is {target}, its next legal size {next}"))
        }
        Cause::Adapting => told(BoundBy::Room, "its last change of size goes on".to_owned()),
        Cause::HeldBack(held_back) => told(BoundBy::Price, bound_of_price(*held_back)),
        Cause::WaitingForExits { promised } => {
            told(BoundBy::Room, format!("space for {promised} is being made"))
        }
        Cause::Fragmented { free, largest_hole, asks, .. } => told(
            BoundBy::Room,
            in_pieces(&text(*free), &text(*largest_hole), &text(asks.qshares())),
        ),
    }
}

/// Returns what keeps a job from preempting.
fn bound_of_price(held_back: Declined) -> String {
    let what = match held_back {
        Declined::TooDear { .. } | Declined::TooLate | Declined::Quiet { .. } => {
            "it leaves its peers theirs"
        }
        Declined::NextCycle => "its turn to take comes in the next cycle",
    };
    format!("{what} ({})", held_back.code())
}

fn saving_up(fair_share: &str, asks: &str) -> String {
    format!("it needs {asks} at once, and its fair share is {fair_share}")
}

fn in_pieces(free: &str, largest: &str, asks: &str) -> String {
    format!("{free} is free, {largest} in one piece, and a process needs {asks}")
}

fn too_much(held: &str, asks: &str, allotment: &str) -> String {
    format!("{held} held and {asks} asked for are more than the {allotment} allotted")
}

fn capped(bound: CapBound, cap: u64) -> String {
    format!("{} for now: {bound}", counted(cap, "process"))
}

/// Returns the level at which other demand limits the job: beside it, beside its user, or beside
/// its class.
fn share(job: &JobView, class: Option<&Account>, user: Option<&Account>) -> Bound {
    let order = job.order.map_or(QShares(0), Order::qshares).0;
    let text = |amount: u64| amount_text(job.quantum, QShares(amount));
    let in_qshares = |nshares: u64| nshares.saturating_mul(order);
    let target = in_qshares(job.target.0);
    let own = in_qshares(job.cap.map_or(0, |cap| cap.nshares.0)).saturating_sub(target);
    let unmet = |account: &Account| account.wanted.saturating_sub(account.given);
    let of = |account: &Account| {
        format!("to have {} of the {} it could use", text(account.given), text(account.wanted))
    };
    match (class, user) {
        (_, Some(user)) if own < unmet(user) => Bound {
            by: BoundBy::JobShare,
            sentence: format!(
                "user {} is {}, this job {} of it, and other jobs of the user want more too",
                job.user,
                of(user),
                text(target)
            ),
        },
        (Some(class), Some(user)) if unmet(user) < unmet(class) => Bound {
            by: BoundBy::UserShare,
            sentence: format!(
                "class {} is {}, user {} {} of it, and other users want more too",
                job.class,
                of(class),
                job.user,
                text(user.given)
            ),
        },
        (Some(class), _) => Bound {
            by: BoundBy::ClassShare,
            sentence: format!("class {} is {}; other classes have the rest", job.class, of(class)),
        },
        (None, _) => Bound {
            by: BoundBy::ClassShare,
            sentence: format!("its target is {}, and others have the rest", text(target)),
        },
    }
}
