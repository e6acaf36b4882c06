//! The update for the orchestrator, made from a view.
//!
//! An update is the full state, not a change: a client that misses an update loses nothing. A new
//! share is repeated until the orchestrator publishes it. A removed share is repeated until the
//! orchestrator confirms its end.

use super::gang_words::explain_gang;
use crate::engine::{StartEstimate, WaitReason};
use crate::model::{
    JobId, JobKind, Mebibytes, NShares, Name, Order, QShares, Quantum, Shape, ShareId, SharePhase,
    counted, span,
};
use crate::scheduler::{
    Declined, JobDisposition, JobView, Refusal, Removal, ShareView, View, Waiting,
};

/// State for the orchestrator after a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The cycle it is from.
    pub cycle: u64,
    /// All work, oldest first.
    pub jobs: Vec<JobUpdate>,
}

/// Shares that a job has, gets and has to give up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobUpdate {
    /// Number of the job.
    pub job: JobId,
    /// Kind of the job.
    pub kind: JobKind,
    /// True if the job is refused.
    pub is_refused: bool,
    /// Memory of each share: whole quanta. None at all while it is refused.
    pub memory: Mebibytes,
    /// Shares of the job, leaving shares included.
    pub shares: Vec<AssignedShare>,
    /// The shares it holds that the orchestrator has not shown yet.
    pub added: Vec<AssignedShare>,
    /// The shares it has to give up, until that is confirmed.
    pub removed: Vec<ShareRemoval>,
    /// Number of processes before and after the change of size that goes on.
    pub resize: Option<(NShares, NShares)>,
    /// Expected start of a job that waits.
    pub start_estimate: Option<StartEstimate>,
    /// Reason for which the job has less than it wants.
    pub reason: Option<Explanation>,
}

/// A share and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignedShare {
    /// Number of the share.
    pub share: ShareId,
    /// The node it is on.
    pub node: Name,
    /// Memory of the share.
    pub memory: Mebibytes,
    /// Rank of the process in a gang.
    pub rank: Option<u32>,
    /// Place of its chunk, from 0.
    pub chunk: Option<usize>,
}

/// A share that has to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareRemoval {
    /// Number of the share.
    pub share: ShareId,
    /// The node it is on.
    pub node: Name,
    /// True if the node died: the orchestrator has nothing left to stop.
    pub is_purge: bool,
    /// Reason for the removal.
    pub why: Removal,
}

/// A reason, for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// A stable name.
    pub code: &'static str,
    /// A sentence with the numbers.
    pub sentence: String,
}

/// Builds the update for the orchestrator.
///
/// Design: "Outgoing Events".
pub fn update_from(view: &View) -> Update {
    Update { cycle: view.cycle, jobs: view.jobs.iter().map(update_of).collect() }
}

/// Builds the update of a single job.
pub fn update_of(job: &JobView) -> JobUpdate {
    let is_new = |share: &&ShareView| share.state == SharePhase::Held && !share.is_seen;
    let assigned = |share| assigned(share, job.shape.as_deref());
    JobUpdate {
        job: job.id,
        kind: job.kind,
        is_refused: job.disposition == JobDisposition::Refused,
        memory: memory_per_share(job),
        shares: job.shares.iter().map(assigned).collect(),
        added: job.shares.iter().filter(is_new).map(assigned).collect(),
        removed: job.shares.iter().chain(&job.purged).filter_map(removed).collect(),
        resize: job.resize(),
        start_estimate: job.start_estimate,
        reason: explain_job(job),
    }
}

/// Memory of each share of `job`: the requested memory, rounded up to whole quanta.
fn memory_per_share(job: &JobView) -> Mebibytes {
    let amount = job.order.map_or(QShares(0), Order::qshares);
    job.quantum.map_or(Mebibytes(0), |quantum| quantum.memory_of(amount))
}

fn assigned(share: &ShareView, shape: Option<&Shape>) -> AssignedShare {
    AssignedShare {
        share: share.id,
        node: share.node.clone(),
        memory: share.memory,
        rank: share.rank,
        chunk: shape.zip(share.rank).and_then(|(shape, rank)| chunk_of(shape, rank)),
    }
}

/// Place of the chunk of a rank. An evolving gang grows beyond the count of its only chunk.
fn chunk_of(shape: &Shape, rank: u32) -> Option<usize> {
    if shape.chunks.len() == 1 { Some(0) } else { shape.chunk_of(rank.into()) }
}

fn removed(share: &ShareView) -> Option<ShareRemoval> {
    share.removal.map(|why| ShareRemoval {
        share: share.id,
        node: share.node.clone(),
        is_purge: why == Removal::NodeDied,
        why,
    })
}

/// Explains why a job has less than it wants, with amounts in memory where the job's quantum is known.
pub fn explain(waiting: &Waiting, quantum: Option<Quantum>) -> Explanation {
    match waiting {
        Waiting::Refused(refusal) => {
            Explanation { code: refusal_code(refusal), sentence: refusal.to_string() }
        }
        Waiting::Engine(WaitReason::HeldBack(held_back)) => explain_held_back(*held_back),
        Waiting::Engine(reason) => {
            Explanation { code: reason.code(), sentence: reason.sentence(quantum) }
        }
    }
}

/// Explains why `job` has less than it wants; `None` if it has all of it.
pub fn explain_job(job: &JobView) -> Option<Explanation> {
    let reason = job.reason.as_ref()?;
    Some(explain_gang(job).unwrap_or_else(|| explain(reason, job.quantum)))
}

/// Explains why a job preempts nothing, though a rule allows it.
pub fn explain_held_back(held_back: Declined) -> Explanation {
    let sentence = match held_back {
        Declined::TooDear { loss, limit } => format!(
            "too dear: space for a further process would destroy at least {} of other jobs' work; the limit is {} now",
            span(loss),
            span(limit)
        ),
        Declined::TooLate => {
            "too late: the job is nearly done, and a further process would hardly come in time; \
                              the job takes free space, but preempts nothing"
                .to_owned()
        }
        Declined::Quiet { cycles } => format!(
            "quiet stop: neither demand nor supply has changed for {} or more, so that only jobs without a share \
             still preempt their peers; this job takes free space, and space of lower priorities",
            counted(cycles, "cycle")
        ),
        Declined::NextCycle => {
            "next cycle: this cycle reached its search limit with other jobs; the turn of this job comes in the next"
                .to_owned()
        }
    };
    Explanation { code: held_back.code(), sentence }
}

/// The name alone, where many are counted.
pub fn code_of(waiting: &Waiting) -> &'static str {
    match waiting {
        Waiting::Refused(refusal) => refusal_code(refusal),
        Waiting::Engine(reason) => reason.code(),
    }
}

fn refusal_code(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::UnknownClass { .. } => "unknown_class",
        Refusal::UserNotAllowed { .. } => "user_not_allowed",
        Refusal::PreemptableClass { .. } => "preemptable_class",
        Refusal::GangNotAllowed { .. } => "gang_not_allowed",
        Refusal::TooLong { .. } => "too_long",
        Refusal::MemoryOutOfRange { .. } => "memory_out_of_range",
        Refusal::OnlyUrgent { .. } => "only_urgent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Tags;
    use crate::model::{JobFacts, NShares, ProcessLimit, Quantum, ShareFacts};

    /// Reads `10` as a published share, `10+` as an unpublished share, `10-` as preempted, `10x` as
    /// lost with its node.
    fn share(text: &str) -> ShareView {
        let removal = match text.chars().last() {
            Some('-') => Some(Removal::Preempted),
            Some('x') => Some(Removal::NodeDied),
            _ => None,
        };
        ShareView {
            rank: None,
            id: ShareId(text.trim_end_matches(['+', '-', 'x']).parse().unwrap()),
            node: "n1".into(),
            order: Order::new(2).unwrap(),
            memory: Mebibytes::from_gib(30),
            state: if removal.is_some() { SharePhase::Leaving } else { SharePhase::Held },
            removal,
            is_seen: !text.ends_with('+'),
            facts: ShareFacts::default(),
        }
    }

    fn job(shares: &str) -> JobView {
        let (purged, shares): (Vec<_>, Vec<_>) =
            shares.split_whitespace().partition(|text| text.ends_with('x'));
        JobView {
            urgent: None,
            shape: None,
            except_nodes: Vec::new(),
            tags: Tags::default(),
            id: JobId(1),
            user: "ann".into(),
            class: "normal".into(),
            kind: JobKind::Job,
            memory: Mebibytes::from_gib(28),
            order: Order::new(2),
            quantum: Quantum::new(Mebibytes::from_gib(15)),
            threads: 1,
            submitted: 0,
            facts: JobFacts {
                remaining: 1,
                limit: ProcessLimit::Unlimited,
                is_running: false,
                time_per_item: None,
                is_completing: false,
            },
            demand: NShares(1),
            cap: None,
            pure_fair_share: QShares(0),
            target: NShares(0),
            promised: NShares(0),
            behind_since: None,
            held_back: None,
            start_estimate: None,
            started: None,
            disposition: JobDisposition::Stable,
            reason: None,
            shares: shares.into_iter().map(share).collect(),
            purged: purged.into_iter().map(share).collect(),
            preemptions: Vec::new(),
        }
    }

    fn render(update: &JobUpdate) -> String {
        let all = update.shares.iter().map(|share| share.share.to_string());
        let added = update.added.iter().map(|share| format!("+{}", share.share));
        let removed = update.removed.iter().map(|gone| {
            let sign = if gone.is_purge { "x" } else { "-" };
            format!("{sign}{}", gone.share)
        });
        all.chain(added).chain(removed).collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    fn check(shares: &str, expected: &str) {
        assert_eq!(render(&update_of(&job(shares))), expected, "{shares:?}");
    }

    #[test]
    fn what_is_new_and_what_has_to_go_is_repeated() {
        check("", "");
        check("10", "10");
        check("10 11+", "10 11 +11");
        check("10-", "10 -10");
        check("10x", "x10"); // dead with its node: no space is held, but the entry is to go
        check("10- 11 12+ 13x", "10 11 12 +12 -10 x13");
    }

    /// Seed 001's example: 28 GB in quanta of 15 GB gets 30 GB.
    #[test]
    fn a_share_gets_whole_quanta() {
        assert_eq!(update_of(&job("10+")).memory, Mebibytes::from_gib(30));
    }

    #[test]
    fn refused_work_is_told_why() {
        let mut refused = job("");
        refused.order = None;
        refused.quantum = None;
        refused.disposition = JobDisposition::Refused;
        let refusal =
            Refusal::UnknownClass { class: "nromal".into(), nearest: Some("normal".into()) };
        refused.reason = Some(Waiting::Refused(refusal));
        let update = update_of(&refused);
        assert!(update.is_refused);
        assert_eq!(update.memory, Mebibytes(0));
        let reason = update.reason.unwrap();
        assert_eq!(reason.code, "unknown_class");
        assert_eq!(reason.sentence, "class `nromal` is not defined; did you mean `normal`?");
    }

    #[test]
    fn what_holds_work_back_is_told_with_its_numbers() {
        let cases = [
            (Declined::TooDear { loss: 340_000, limit: 45_000 }, "too_dear", "5m 40s 45s"),
            (Declined::TooLate, "too_late", ""),
            (Declined::Quiet { cycles: 13 }, "quiet_stop", "13"),
            (Declined::NextCycle, "next_cycle", ""),
        ];
        for (held_back, code, numbers) in cases {
            let told = explain(&Waiting::Engine(WaitReason::HeldBack(held_back)), None);
            assert_eq!(told.code, code);
            let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
            let words = told.sentence.split([' ', ';', ',']).filter(is_number);
            assert_eq!(words.collect::<Vec<_>>().join(" "), numbers, "{}", told.sentence);
        }
    }
}
