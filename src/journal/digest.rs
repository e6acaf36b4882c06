//! Digest of a cycle's input and decisions, in 32 bytes. Equal decisions have equal digests in all
//! versions.
//!
//! The digest is over a text of its own, with names, numbers and stable codes. The text has no
//! cycle number: a cycle without any change has the digest of the cycle before. A change of the
//! text makes all earlier journals disagree, so the text has a version number.

use std::fmt::{self, Write};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::engine::{
    Cap, CycleSchedule, Declined, GangLack, JobAccount, Preemption, Report, Snapshot,
    StartEstimate, WaitReason,
};
use crate::model::{NodeIx, SharePhase};
use crate::scheduler::Planned;

/// The first line of the text.
const FORM: &str = "apportion decision 1";

/// A digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    /// Writes the first digits, enough to distinguish two digests.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(6).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Digests of successive cycles. A cycle that reuses the last outcome has the last digest, at no
/// cost.
#[derive(Clone, Debug, Default)]
pub struct Digests {
    last: Option<(Arc<Planned>, Digest)>,
}

impl Digests {
    /// The digest of the next cycle, and whether it was planned, as opposed to taken over.
    pub fn next(&mut self, planned: &Arc<Planned>) -> (Digest, bool) {
        let (next, is_planned) = match &self.last {
            Some((last, of_last)) if is_taken_over(last, planned) => (*of_last, false),
            _ => (digest(planned), true),
        };
        self.last = Some((Arc::clone(planned), next));
        (next, is_planned)
    }
}

fn is_taken_over(last: &Planned, next: &Planned) -> bool {
    Arc::ptr_eq(&last.schedule, &next.schedule)
        && Arc::ptr_eq(&last.snapshot.jobs, &next.snapshot.jobs)
        && Arc::ptr_eq(&last.snapshot.nodes, &next.snapshot.nodes)
}

/// The digest of what a cycle saw and decided.
///
/// # Panics
///
/// Never: a sum takes any text.
pub fn digest(planned: &Planned) -> Digest {
    let mut sum = Sum(Sha256::new());
    write_all(&mut sum, planned).expect("a sum takes any text");
    Digest(sum.0.finalize().into())
}

struct Sum(Sha256);

impl Write for Sum {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}

fn write_all(text: &mut impl Write, planned: &Planned) -> fmt::Result {
    writeln!(text, "{FORM}")?;
    write_seen(text, &planned.snapshot)?;
    write_decided(text, &planned.snapshot, &planned.schedule)?;
    write_report(text, &planned.snapshot, &planned.schedule.report)
}

/// Writes the nodes and their shares: the engine's input.
fn write_seen(text: &mut impl Write, snapshot: &Snapshot) -> fmt::Result {
    for node in snapshot.nodes.iter() {
        let state = node.state.words().join(",");
        writeln!(text, "machine {} {} {} {state}", node.name, node.order, node.limbo)?;
    }
    for job in snapshot.jobs.iter() {
        writeln!(text, "job {} {} {}", job.id, job.order, job.facts.remaining)?;
        for share in &job.shares {
            let state = match share.state {
                SharePhase::Held => "held",
                SharePhase::Leaving => "leaving",
            };
            let node = &snapshot.node(share.node).name;
            write!(text, "share {} {node} {} {state}", share.id, share.order)?;
            end_with_rank(text, share.rank)?;
        }
    }
    Ok(())
}

fn write_decided(
    text: &mut impl Write,
    snapshot: &Snapshot,
    schedule: &CycleSchedule,
) -> fmt::Result {
    let name = |node: NodeIx| &snapshot.node(node).name;
    for new in &schedule.expansions {
        write!(text, "expand {} {} {}", new.job, name(new.node), new.order)?;
        end_with_rank(text, new.rank)?;
    }
    for taken in &schedule.preemptions {
        let Preemption { share, job, node, beneficiary, rule, loss, considered } = taken;
        let for_whom = Optional(beneficiary.map(|job| job.0));
        write!(text, "preempt {share} {job} {} {for_whom} {}", name(*node), rule.code())?;
        write!(text, " {loss} {} {}", considered.nodes, considered.plans)?;
        if let Some(other) = considered.runner_up {
            write!(text, " {} {} {}", name(other.node), other.victims, other.loss)?;
        }
        writeln!(text)?;
    }
    for promise in &schedule.promises {
        write!(text, "promise {} {} {}", promise.job, name(promise.node), promise.order)?;
        end_with_rank(text, promise.rank)?;
    }
    for job in &schedule.put_off {
        writeln!(text, "put off {job}")?;
    }
    Ok(())
}

fn write_report(text: &mut impl Write, snapshot: &Snapshot, report: &Report) -> fmt::Result {
    for line in &report.jobs {
        let Cap { nshares, bound } = line.cap;
        write!(text, "counted {} {} {nshares} {}", line.job, line.demand, bound.code())?;
        write!(text, " {} {} {}", line.pure_fair_share, line.target, line.held)?;
        write!(text, " {} {}", line.promised, u8::from(line.is_needy))?;
        if let Some(held_back) = &line.held_back {
            text.write_char(' ')?;
            write_held_back(text, held_back)?;
        }
        if let Some(reason) = &line.reason {
            text.write_char(' ')?;
            write_reason(text, reason)?;
        }
        if let Some(StartEstimate { at, basis }) = line.start_estimate {
            write!(text, " starts {at} {}", basis.code())?;
        }
        writeln!(text)?;
    }
    for account in &report.classes {
        write_account(text, "class", account)?;
    }
    for user in &report.users {
        write!(text, "{} {} ", user.class.0, snapshot.users[user.user])?;
        write_account(text, "user", &user.account)?;
    }
    writeln!(text, "struck {}", report.net_strikes)
}

fn write_account(text: &mut impl Write, whose: &str, account: &JobAccount) -> fmt::Result {
    let JobAccount { demand, fair_share, target, held } = account;
    writeln!(text, "{whose} {demand} {fair_share} {target} {held}")
}

fn write_held_back(text: &mut impl Write, held_back: &Declined) -> fmt::Result {
    text.write_str(held_back.code())?;
    match held_back {
        Declined::TooDear { loss, limit } => write!(text, " {loss} {limit}"),
        Declined::TooLate | Declined::NextCycle => Ok(()),
        Declined::Quiet { cycles } => write!(text, " {cycles}"),
    }
}

fn write_reason(text: &mut impl Write, reason: &WaitReason) -> fmt::Result {
    text.write_str(reason.code())?;
    match reason {
        WaitReason::Impossible { asks, largest }
        | WaitReason::NoSuchSize { asks, most: _, largest } => {
            write!(text, " {asks} {largest}")
        }
        WaitReason::NoNodeUp { asks, suitable } => write!(text, " {asks} {suitable}"),
        WaitReason::OverAllotment { allotment, held, asks } => {
            write!(text, " {allotment} {held} {asks}")
        }
        WaitReason::Capped { bound: _, cap } => write!(text, " {cap}"),
        WaitReason::FairShareUsed { target, cap, fair_share } => {
            write!(text, " {target} {cap} {fair_share}")
        }
        WaitReason::NothingLeft { left, asks } => write!(text, " {left} {asks}"),
        WaitReason::WaitingForExits { promised } => write!(text, " {promised}"),
        WaitReason::GangLacks(GangLack { of: _, chunk, found, needed }) => {
            let chunk = Optional(chunk.and_then(|chunk| u64::try_from(chunk).ok()));
            write!(text, " {chunk} {found} {needed}")
        }
        WaitReason::BehindOlderGang { job } | WaitReason::WaitsForOverrun { job } => {
            write!(text, " {job}")
        }
        WaitReason::WindowAhead { opens, needs } => {
            write!(text, " {opens} {}", Optional(*needs))
        }
        WaitReason::ReservationAhead { opens } | WaitReason::ClassClosed { opens } => {
            write!(text, " {}", Optional(*opens))
        }
        WaitReason::TooEarly { opens } => write!(text, " {opens}"),
        WaitReason::DeadlineUnreachable { starts, deadline } => {
            write!(text, " {} {deadline}", Optional(*starts))
        }
        WaitReason::Earning { fair_share, asks } => write!(text, " {fair_share} {asks}"),
        WaitReason::NoLegalSize { target, next } => write!(text, " {target} {next}"),
        WaitReason::Adapting => Ok(()),
        WaitReason::HeldBack(held_back) => {
            text.write_char(' ')?;
            write_held_back(text, held_back)
        }
        WaitReason::Fragmented { target, free, largest_hole, asks } => {
            write!(text, " {target} {free} {largest_hole} {asks}")
        }
    }
}

/// Ends a line with the rank of a process, if it is part of a gang.
fn end_with_rank(text: &mut impl Write, rank: Option<u32>) -> fmt::Result {
    match rank {
        Some(rank) => writeln!(text, " {rank}"),
        None => writeln!(text),
    }
}

/// A number, or a stroke.
struct Optional(Option<u64>);

impl fmt::Display for Optional {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => write!(f, "{number}"),
            None => f.write_char('-'),
        }
    }
}
