//! Reasons why jobs have less than they want, and their words.

use std::fmt;

use super::report::{CapBound, Declined};
use crate::model::{JobId, Millis, NShares, Order, QShares, Quantum, amount_text, span};

/// Reason why a job has less than it wants, with the numbers that decided. A closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// No node that the job may use could ever hold a process of it.
    Impossible {
        /// Size of a process.
        asks: Order,
        /// Largest node that the job may use, up or not.
        largest: QShares,
    },
    /// The job needs a whole node, and no node that it may use has the requested size.
    NoSuchSize {
        /// Requested size.
        asks: Order,
        /// A node may have as much.
        most: QShares,
        /// Largest node that the job may use, up or not.
        largest: QShares,
    },
    /// Nodes large enough exist, but none of them is up.
    NoNodeUp {
        /// Size of a process.
        asks: Order,
        /// Number of nodes that are large enough.
        suitable: u64,
    },
    /// The user of the job would exceed the allotment of non-preemptable memory.
    OverAllotment {
        /// Allotment of the user.
        allotment: QShares,
        /// Amount that the user holds or was granted before this job.
        held: QShares,
        /// Amount that this job asks for.
        asks: QShares,
    },
    /// A rule that slows growth limits the job.
    Capped {
        /// Rule that set the cap.
        bound: CapBound,
        /// Cap that the rule sets.
        cap: NShares,
    },
    /// The job has its whole target; the rest of its demand belongs to other jobs.
    FairShareUsed {
        /// Target of the job.
        target: NShares,
        /// Cap of the job.
        cap: NShares,
        /// Fair share before bonus shares.
        fair_share: QShares,
    },
    /// Higher priorities, or work that cannot be preempted, leave nothing for the job.
    NothingLeft {
        /// Amount left for the job's priority.
        left: QShares,
        /// Size of a process.
        asks: Order,
    },
    /// Space was made for the job and is still occupied by terminating shares.
    WaitingForExits {
        /// Number of processes that the space is for.
        promised: NShares,
    },
    /// The gang needs more nodes than it can have.
    GangLacks(GangLack),
    /// The nodes of the gang, or of the job, are kept for an older gang.
    BehindOlderGang {
        /// The older gang.
        job: JobId,
    },
    /// The job would not end before a window of the nodes that it could have now.
    WindowAhead {
        /// Start of the window, in milliseconds since the epoch.
        opens: Millis,
        /// Longest duration of the job; `None` if it is not known.
        needs: Option<Millis>,
    },
    /// The job waits for its advance reservation.
    ReservationAhead {
        /// Start of the reservation, in milliseconds since the epoch; `None` if there is none.
        opens: Option<Millis>,
    },
    /// The job is not to start yet.
    TooEarly {
        /// Its earliest start, in milliseconds since the epoch.
        opens: Millis,
    },
    /// The job cannot end by its deadline.
    DeadlineUnreachable {
        /// Its earliest start, in milliseconds since the epoch; `None` if even a start now is too late.
        starts: Option<Millis>,
        /// The deadline, in milliseconds since the epoch.
        deadline: Millis,
    },
    /// The class of the job is closed, or closes before the job would end.
    ClassClosed {
        /// Next opening, in milliseconds since the epoch, if it is known.
        opens: Option<Millis>,
    },
    /// The job waits for work that runs longer than it declared.
    WaitsForOverrun {
        /// A job that runs longer.
        job: JobId,
    },
    /// The gang needs more than its fair share, and saves up for its turn.
    Earning {
        /// Fair share of the gang.
        fair_share: QShares,
        /// Memory that the gang needs.
        asks: QShares,
    },
    /// No legal size lies between what the job has and its target.
    NoLegalSize {
        /// Target of the job.
        target: NShares,
        /// The next legal size.
        next: NShares,
    },
    /// The job changes its size. Its number of processes stays until that is confirmed.
    Adapting,
    /// The job could preempt more, but does not.
    HeldBack(Declined),
    /// The job is below its target, but no node has enough free space in a single piece. Clearing a
    /// node would leave another job worse off than this job is.
    Fragmented {
        /// Target of the job.
        target: NShares,
        /// Free memory on nodes that the job may use.
        free: QShares,
        /// Largest free piece on a single node.
        largest_hole: QShares,
        /// Size of a process.
        asks: Order,
    },
}

/// Nodes that a gang needs and cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GangLack {
    /// Nodes that were tried.
    pub of: GangNodes,
    /// Place of the chunk that lacks nodes; `None` if the chunks lack nodes together.
    pub chunk: Option<usize>,
    /// What the nodes could hold: processes; of a scattered gang, or of several chunks together,
    /// nodes; of a packed gang, qshares on a node.
    pub found: u64,
    /// What the chunk, or all chunks, would need, in the same unit.
    pub needed: u64,
}

/// Nodes that were tried for a gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GangNodes {
    /// All nodes that the configuration knows, up or not.
    Configured,
    /// Nodes of a single placement set, as the gang may not span several.
    OfOneSet,
    /// The nodes that are up.
    Up,
    /// Nodes that are free, or from which the gang may take back what is in its way.
    Available,
}

impl GangNodes {
    /// A stable name of the reason, for programs.
    pub fn code(self) -> &'static str {
        match self {
            GangNodes::Configured => "gang_impossible",
            GangNodes::OfOneSet => "cannot_span",
            GangNodes::Up => "gang_needs_nodes",
            GangNodes::Available => "gang_waits",
        }
    }
}

impl fmt::Display for GangLack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GangLack { of, chunk, found, needed } = *self;
        match chunk {
            Some(chunk) => write!(f, "chunk {} needs {needed}, ", chunk + 1)?,
            None => write!(f, "its chunks together need {needed}, ")?,
        }
        match of {
            GangNodes::Configured => write!(f, "and all nodes of the cluster could hold {found}"),
            GangNodes::OfOneSet => write!(
                f,
                "the largest placement set could hold {found}, and it may not use several sets"
            ),
            GangNodes::Up => write!(f, "and the nodes that are up could hold {found}"),
            GangNodes::Available => {
                write!(f, "and {found} can be had now; it starts when all can be had at once")
            }
        }
    }
}

impl WaitReason {
    /// A stable name, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            WaitReason::Impossible { .. } | WaitReason::NoSuchSize { .. } => "impossible",
            WaitReason::NoNodeUp { .. } => "no_machine_up",
            WaitReason::OverAllotment { .. } => "over_allotment",
            WaitReason::Capped { bound, .. } => bound.code(),
            WaitReason::FairShareUsed { .. } => "fair_share_used",
            WaitReason::NothingLeft { .. } => "nothing_left",
            WaitReason::WaitingForExits { .. } => "waiting_for_exits",
            WaitReason::GangLacks(lack) => lack.of.code(),
            WaitReason::BehindOlderGang { .. } => "behind_older_gang",
            WaitReason::WindowAhead { .. } => "window_ahead",
            WaitReason::ReservationAhead { .. } => "reservation_ahead",
            WaitReason::TooEarly { .. } => "too_early",
            WaitReason::DeadlineUnreachable { .. } => "deadline_unreachable",
            WaitReason::ClassClosed { .. } => "class_closed",
            WaitReason::WaitsForOverrun { .. } => "waits_for_overrun",
            WaitReason::Earning { .. } => "earning",
            WaitReason::NoLegalSize { .. } => "no_legal_size",
            WaitReason::Adapting => "adapting",
            WaitReason::HeldBack(held_back) => held_back.code(),
            WaitReason::Fragmented { .. } => "fragmented",
        }
    }
}

/// "exactly 60 GB", "60 GB to 90 GB".
pub fn exactly(quantum: Option<Quantum>, asks: Order, most: QShares) -> String {
    let asks = asks.qshares();
    let text = |amount| amount_text(quantum, amount);
    if asks < most {
        format!("{} to {}", text(asks), text(most))
    } else {
        format!("exactly {}", text(asks))
    }
}

impl WaitReason {
    /// Returns the reason in words. Amounts are memory where the quantum is known, else qshares.
    pub fn sentence(&self, quantum: Option<Quantum>) -> String {
        let text = |amount: QShares| amount_text(quantum, amount);
        match self {
            WaitReason::Impossible { asks, largest: QShares(0) } => format!(
                "impossible: one process needs {}, and there is no node that it may use",
                text(asks.qshares())
            ),
            WaitReason::Impossible { asks, largest } => format!(
                "impossible: one process needs {}, the largest node it may use has {}",
                text(asks.qshares()),
                text(*largest)
            ),
            WaitReason::NoSuchSize { asks, most, largest } => format!(
                "impossible: there is no whole machine of {}; the largest one it may use has {}",
                exactly(quantum, *asks, *most),
                text(*largest)
            ),
            WaitReason::NoNodeUp { asks, suitable } => {
                format!("no node with {} is up; {suitable} would do", text(asks.qshares()))
            }
            WaitReason::OverAllotment { allotment, held, asks } => format!(
                "over allotment: its user holds {} of {} and it asks for {} more",
                text(*held),
                text(*allotment),
                text(*asks)
            ),
            WaitReason::Capped { bound, cap } => format!("held at {cap}: {bound}"),
            // Without the fair share, which may be more than the job could use.
            WaitReason::FairShareUsed { target, cap, .. } => {
                format!("fair share used: its target is {target} of the {cap} it could use")
            }
            WaitReason::NothingLeft { left, asks } => format!(
                "nothing left: higher priorities and fixed work leave {}, one process needs {}",
                text(*left),
                text(asks.qshares())
            ),
            // Readers of played scenarios count promised processes by "room for N more".
            WaitReason::WaitingForExits { promised } => format!(
                "room for {promised} more was made; it starts when the terminating shares have exited"
            ),
            WaitReason::GangLacks(lack) => lack.sentence(),
            WaitReason::BehindOlderGang { job } => {
                format!(
                    "behind job {job}: older, and the free nodes are kept for it until it starts"
                )
            }
            WaitReason::WindowAhead { .. }
            | WaitReason::ReservationAhead { .. }
            | WaitReason::TooEarly { .. }
            | WaitReason::DeadlineUnreachable { .. }
            | WaitReason::ClassClosed { .. }
            | WaitReason::WaitsForOverrun { .. } => self.sentence_of_time(),
            WaitReason::Earning { fair_share, asks } => format!(
                "saving up: it needs {} at once, and its fair share is {}",
                text(*asks),
                text(*fair_share)
            ),
            WaitReason::NoLegalSize { target, next } => {
                format!("no legal size: its target is {target}, the next size it can use is {next}")
            }
            WaitReason::Adapting => {
                "adapting: its last change of size is not confirmed yet".to_owned()
            }
            WaitReason::HeldBack(held_back) => held_back.to_string(),
            WaitReason::Fragmented { .. } => self.sentence_of_holes(quantum),
        }
    }

    /// Returns in words that free memory is in pieces.
    fn sentence_of_holes(&self, quantum: Option<Quantum>) -> String {
        let text = |amount: QShares| amount_text(quantum, amount);
        let WaitReason::Fragmented { target, free, largest_hole, asks } = self else {
            return self.code().to_owned();
        };
        format!(
            "fragmented: its target is {target}, {} free but at most {} in one piece; one process needs {}, \
             and clearing a node would leave another job worse off",
            is(quantum, *free),
            text(*largest_hole),
            text(asks.qshares())
        )
    }

    /// Returns a reason of time in words; the code of other reasons.
    fn sentence_of_time(&self) -> String {
        let text = match self {
            WaitReason::WindowAhead { needs: Some(needs), .. } => {
                return format!(
                    "window ahead: it runs for up to {}, and the nodes that it could have are kept before that",
                    span(*needs)
                );
            }
            WaitReason::WindowAhead { needs: None, .. } => {
                "window ahead: it does not say how long it runs, and the nodes that it could have are kept later"
            }
            WaitReason::ReservationAhead { opens: Some(_) } => {
                "reservation ahead: it starts in its advance reservation"
            }
            WaitReason::ReservationAhead { opens: None } => {
                "reservation ahead: there is no advance reservation of that name"
            }
            WaitReason::TooEarly { .. } => "too early: its owner wants a later start",
            WaitReason::DeadlineUnreachable { starts: Some(_), .. } => {
                "deadline unreachable: from its earliest start on it would not end in time"
            }
            WaitReason::DeadlineUnreachable { starts: None, .. } => {
                "deadline unreachable: it would not end in time if it started now"
            }
            WaitReason::ClassClosed { .. } => "class closed: jobs of its class run at other hours",
            WaitReason::WaitsForOverrun { job } => {
                return format!("waits for job {job}, which runs longer than it declared");
            }
            WaitReason::Impossible { .. }
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
            | WaitReason::Fragmented { .. } => self.code(),
        };
        text.to_owned()
    }
}

impl GangLack {
    /// Returns the lack in words.
    fn sentence(&self) -> String {
        let words = match self.of {
            GangNodes::Configured => "impossible",
            GangNodes::OfOneSet => "too large for a placement set",
            GangNodes::Up => "too few nodes up",
            GangNodes::Available => "waits for nodes",
        };
        format!("{words}: {self}")
    }
}

/// "15 GB is", "3 qshares are".
fn is(quantum: Option<Quantum>, amount: QShares) -> String {
    let is = if quantum.is_some() || amount == QShares(1) { "is" } else { "are" };
    format!("{} {is}", amount_text(quantum, amount))
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Mebibytes;

    fn order(order: u32) -> Order {
        Order::new(order).unwrap()
    }

    /// Programs tell reasons apart by their codes; users read a sentence with the numbers.
    #[test]
    fn every_reason_has_a_code_and_says_its_numbers() {
        let (asks, q, n) = (order(7), QShares, NShares);
        let held_back = |held_back| WaitReason::HeldBack(held_back);
        let lack = |of, chunk| WaitReason::GangLacks(GangLack { of, chunk, found: 10, needed: 11 });
        for (reason, code, numbers) in [
            (WaitReason::Impossible { asks, largest: q(5) }, "impossible", ["7", "5"]),
            (
                WaitReason::NoSuchSize { asks, most: q(7), largest: q(9) },
                "impossible",
                ["exactly 7 qshares", "9"],
            ),
            (
                WaitReason::NoSuchSize { asks, most: q(8), largest: q(9) },
                "impossible",
                ["7 qshares to 8 qshares", "9"],
            ),
            (WaitReason::NoNodeUp { asks, suitable: 3 }, "no_machine_up", ["7", "3"]),
            (
                WaitReason::OverAllotment { allotment: q(40), held: q(39), asks: q(7) },
                "over_allotment",
                ["39 qshares of 40", "7"],
            ),
            (
                WaitReason::FairShareUsed { target: n(4), cap: n(9), fair_share: q(31) },
                "fair_share_used",
                ["4 of the 9", "target is 4"],
            ),
            (WaitReason::NothingLeft { left: q(6), asks }, "nothing_left", ["6", "7"]),
            (
                WaitReason::WaitingForExits { promised: n(2) },
                "waiting_for_exits",
                ["2", "room for 2 more"],
            ),
            (
                WaitReason::Fragmented { target: n(4), free: q(12), largest_hole: q(6), asks },
                "fragmented",
                ["12", "at most 6"],
            ),
            (
                held_back(Declined::TooDear { loss: 90_000, limit: 30_500 }),
                "too_dear",
                ["90 s", "30 s"],
            ),
            (lack(GangNodes::Configured, Some(1)), "gang_impossible", ["chunk 2 needs 11", "10"]),
            (lack(GangNodes::OfOneSet, None), "cannot_span", ["together need 11", "hold 10"]),
            (lack(GangNodes::Up, Some(0)), "gang_needs_nodes", ["chunk 1", "up could hold 10"]),
            (lack(GangNodes::Available, Some(0)), "gang_waits", ["needs 11", "10 can be had now"]),
            (WaitReason::BehindOlderGang { job: JobId(7) }, "behind_older_gang", ["job 7", "kept"]),
            (WaitReason::Earning { fair_share: q(5), asks: q(9) }, "earning", ["9", "share is 5"]),
            (WaitReason::NoLegalSize { target: n(5), next: n(8) }, "no_legal_size", ["5", "8"]),
            (WaitReason::Adapting, "adapting", ["size", "confirmed"]),
            (held_back(Declined::TooLate), "too_late", ["in time", "free space"]),
            (held_back(Declined::Quiet { cycles: 13 }), "quiet_stop", ["13 cycles", "its peers"]),
            (held_back(Declined::NextCycle), "next_cycle", ["searched", "as long as it may"]),
        ] {
            assert_eq!(reason.code(), code);
            let sentence = reason.to_string();
            assert!(numbers.iter().all(|number| sentence.contains(number)), "{sentence}");
            let quantum = Quantum::new(Mebibytes(1024));
            let sentence = reason.sentence(quantum);
            assert!(!sentence.contains("qshare"), "{sentence}");
        }
    }
}
