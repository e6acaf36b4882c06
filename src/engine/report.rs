//! What one cycle saw, did, and could not do: the reasons, as data.

use std::fmt;
use std::num::NonZeroU64;

use crate::model::{JobId, Millis, NShares, Order, QShares, counted, floor_div};

/// One second, as milliseconds.
const SECOND: NonZeroU64 = NonZeroU64::new(1000).expect("not zero");

/// The arithmetic of one cycle, for people who ask why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// One line a job, in the snapshot's order.
    pub jobs: Vec<JobReport>,
    /// One line a class, in the topology's order.
    pub classes: Vec<Account>,
    /// One line for each user in each class of fair-share work, by class and user.
    pub users: Vec<UserAccount>,
    /// How many jobs the safety net held back.
    pub net_strikes: u64,
}

/// What a class or user wanted, deserves, was counted and holds; amounts in qshares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The sum of its jobs' caps.
    pub wanted: QShares,
    /// Its pure fair share: what it would have if everybody could use their part.
    pub deserved: QShares,
    /// What How Much counted for it.
    pub given: QShares,
    /// What it holds after this cycle, without what is leaving.
    pub held: QShares,
}

/// A user's account within one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserAccount {
    /// The class.
    pub class: crate::model::ClassIx,
    /// The user.
    pub user: crate::model::UserIx,
    /// The amounts.
    pub account: Account,
}

/// What a job wanted and got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobReport {
    /// Which job.
    pub job: JobId,
    /// What it could use without any rule that slows its growth: its work left, up to its maximum.
    pub wanted: NShares,
    /// The most it could use now.
    pub cap: Cap,
    /// What it deserves before bonus shares. Zero for work that is not fair-share.
    pub pure_fair_share: QShares,
    /// What How Much counted for it.
    pub given: NShares,
    /// What it holds after this cycle, without what is leaving.
    pub held: NShares,
    /// Room promised to it, still occupied by shares that are leaving.
    pub promised: NShares,
    /// Why it took no room from others that it had a right to; `None` if it had none to take, or
    /// took it.
    pub held_back: Option<HeldBack>,
    /// Whether it is below both its pure fair share and the fragmentation threshold.
    pub is_needy: bool,
    /// Why it has less than it wants; `None` if it does not.
    pub reason: Option<Reason>,
}

/// Why a job leaves others what it might take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBack {
    /// More work of others would be lost than it is worth.
    TooDear {
        /// No less would be lost, in thread time.
        loss: Millis,
        /// What it may cost: what its waiting has cost so far, or its class's loss limit.
        limit: Millis,
    },
    /// Its work is nearly done: more processes would hardly come in time, so that it takes free
    /// room only.
    TooLate,
    /// Neither demand nor supply has changed for so long that only work which has nothing takes
    /// from its peers: the safety net struck.
    Quiet {
        /// For so many cycles or more.
        cycles: u64,
    },
    /// The search for room for others took as long as one cycle may search: its turn comes in the next.
    NextCycle,
}

/// A job's cap and the bound that set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// The most nshares the job could use now, were resources unbounded.
    pub nshares: NShares,
    /// Which rule made it so.
    pub bound: CapBound,
}

/// The rule that holds a job's cap where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapBound {
    /// Its work left does not need more.
    WorkLeft,
    /// Its declared maximum.
    Maximum,
    /// It may not grow any more.
    Frozen,
    /// No process of it has initialized yet.
    Initialization,
    /// How long an item takes is unknown: the cap is that of work that initializes.
    UnknownPace,
    /// Every process of it is gone: it starts over with the cap of work that initializes.
    StartsOver,
    /// It may at most double in one cycle.
    Doubling,
    /// New processes would come too late to help.
    Prediction,
    /// It is ending and gets nothing more.
    Completing,
    /// It had its one process, which is gone.
    Spent,
}

/// Why a job has less than it wants, with the numbers that decided. A closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No machine it may use could ever hold one process of it.
    Impossible {
        /// What one process needs.
        asks: Order,
        /// The largest machine there is for it, up or not.
        largest: QShares,
    },
    /// It needs a whole machine, and none that it may use has the size it asks for.
    NoSuchSize {
        /// The size it asks for.
        asks: Order,
        /// A machine may have as much.
        most: QShares,
        /// The largest machine there is for it, up or not.
        largest: QShares,
    },
    /// Machines large enough exist, but none of them is up.
    NoMachineUp {
        /// What one process needs.
        asks: Order,
        /// How many machines would do.
        suitable: u64,
    },
    /// Its user would exceed the allotment of non-preemptable memory.
    OverAllotment {
        /// What the user may hold.
        allotment: QShares,
        /// What the user holds or was granted before this job.
        held: QShares,
        /// What this job asks for.
        asks: QShares,
    },
    /// A rule that paces growth holds it.
    Capped {
        /// The rule.
        bound: CapBound,
        /// What it allows.
        cap: NShares,
    },
    /// It has all that is counted for it; the rest of what it could use belongs to others.
    FairShareUsed {
        /// What was counted for it.
        given: NShares,
        /// What it could use.
        cap: NShares,
        /// What it deserves before bonus shares.
        deserved: QShares,
    },
    /// Work of better priority, or work that cannot be preempted, leaves nothing for it.
    NothingLeft {
        /// What is left for its priority.
        left: QShares,
        /// What one process needs.
        asks: Order,
    },
    /// Room was made for it and is still occupied by shares that are leaving.
    WaitingForExits {
        /// For so many processes of it.
        promised: NShares,
    },
    /// It could take more from others, but does not.
    HeldBack(HeldBack),
    /// It is counted for more than it has, but no machine has enough room in one piece, and
    /// clearing one would leave somebody worse off than it is.
    Fragmented {
        /// What is counted for it.
        given: NShares,
        /// Free memory on machines it may use.
        free: QShares,
        /// The largest piece of it.
        largest_hole: QShares,
        /// What one process needs.
        asks: Order,
    },
}

impl Reason {
    /// A stable name, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Reason::Impossible { .. } | Reason::NoSuchSize { .. } => "impossible",
            Reason::NoMachineUp { .. } => "no_machine_up",
            Reason::OverAllotment { .. } => "over_allotment",
            Reason::Capped { bound, .. } => bound.code(),
            Reason::FairShareUsed { .. } => "fair_share_used",
            Reason::NothingLeft { .. } => "nothing_left",
            Reason::WaitingForExits { .. } => "waiting_for_exits",
            Reason::HeldBack(held_back) => held_back.code(),
            Reason::Fragmented { .. } => "fragmented",
        }
    }
}

impl HeldBack {
    /// A stable name, for programs.
    pub fn code(self) -> &'static str {
        match self {
            HeldBack::TooDear { .. } => "too_dear",
            HeldBack::TooLate => "too_late",
            HeldBack::Quiet { .. } => "quiet_stop",
            HeldBack::NextCycle => "next_cycle",
        }
    }
}

impl fmt::Display for HeldBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeldBack::TooDear { loss, limit } => write!(
                f,
                "too dear: room for one more process would destroy {} s of work or more, and may cost {} s by now",
                floor_div(*loss, SECOND),
                floor_div(*limit, SECOND)
            ),
            HeldBack::TooLate => f.write_str(
                "too late: one more process would hardly come in time, so that it takes free room only",
            ),
            HeldBack::Quiet { cycles } => write!(
                f,
                "quiet stop: neither demand nor supply has changed for {} or more, so that it takes no more from its peers",
                counted(*cycles, "cycle")
            ),
            HeldBack::NextCycle => {
                f.write_str("next cycle: this one searched for room for others as long as it may")
            }
        }
    }
}

impl CapBound {
    /// A stable name, for programs.
    pub fn code(self) -> &'static str {
        match self {
            CapBound::WorkLeft => "work_left",
            CapBound::Maximum => "maximum",
            CapBound::Frozen => "frozen",
            CapBound::Initialization | CapBound::UnknownPace | CapBound::StartsOver => {
                "initialization_cap"
            }
            CapBound::Doubling => "doubling",
            CapBound::Prediction => "prediction",
            CapBound::Completing => "completing",
            CapBound::Spent => "spent",
        }
    }
}

impl fmt::Display for CapBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CapBound::WorkLeft => "its work left needs no more",
            CapBound::Maximum => "its declared maximum",
            CapBound::Frozen => "its growth was stopped",
            CapBound::Initialization => "no process of it has initialized yet",
            CapBound::UnknownPace => "how long an item of it takes is unknown",
            CapBound::StartsOver => "all its processes are gone, so that it starts over",
            CapBound::Doubling => "it may at most double in one cycle",
            CapBound::Prediction => "more processes would come too late to help",
            CapBound::Completing => "it is ending",
            CapBound::Spent => "its process ended and is not started again",
        })
    }
}

/// "1 qshare".
fn qshares(amount: QShares) -> String {
    counted(amount.0, "qshare")
}

/// "exactly 4 qshares", "4 to 6 qshares".
pub fn exactly(asks: Order, most: QShares) -> String {
    let asks = asks.qshares();
    if asks < most {
        format!("{asks} to {}", qshares(most))
    } else {
        format!("exactly {}", qshares(asks))
    }
}

/// "1 qshare is".
fn are(amount: QShares) -> String {
    format!("{} {}", qshares(amount), if amount == QShares(1) { "is" } else { "are" })
}

impl fmt::Display for Reason {
    /// One sentence, in qshares and processes; the outer layers add memory where they know the
    /// quantum.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Impossible { asks, largest } => {
                write!(
                    f,
                    "impossible: one process needs {}, the largest machine it may use has {largest}",
                    qshares(asks.qshares())
                )
            }
            Reason::NoSuchSize { asks, most, largest } => {
                write!(
                    f,
                    "impossible: it needs a machine of {}, and there is none; the largest machine it may use has {largest}",
                    exactly(*asks, *most)
                )
            }
            Reason::NoMachineUp { asks, suitable } => {
                write!(f, "no machine with {} is up; {suitable} would do", qshares(asks.qshares()))
            }
            Reason::OverAllotment { allotment, held, asks } => {
                write!(
                    f,
                    "over allotment: its user holds {held} of {} and it asks for {asks} more",
                    qshares(*allotment)
                )
            }
            Reason::Capped { bound, cap } => write!(f, "held at {cap}: {bound}"),
            Reason::FairShareUsed { given, cap, deserved } => {
                write!(
                    f,
                    "fair share used: counted {given} of the {cap} it could use; it deserves {}",
                    qshares(*deserved)
                )
            }
            Reason::NothingLeft { left, asks } => {
                write!(
                    f,
                    "nothing left: better priorities and fixed work leave {}, one process needs {asks}",
                    qshares(*left)
                )
            }
            Reason::WaitingForExits { promised } => {
                write!(
                    f,
                    "room for {promised} more was made; it starts when the shares that leave are confirmed gone"
                )
            }
            Reason::HeldBack(held_back) => held_back.fmt(f),
            Reason::Fragmented { given, free, largest_hole, asks } => write!(
                f,
                "fragmented: counted {given}, {} free but at most {largest_hole} in one piece; one process needs \
                 {asks}, and clearing a machine would leave somebody worse off",
                are(*free)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(order: u32) -> Order {
        Order::new(order).unwrap()
    }

    /// Programs tell reasons apart by their codes, people read a sentence with the numbers.
    #[test]
    fn every_reason_has_a_code_and_says_its_numbers() {
        let (asks, q, n) = (order(7), QShares, NShares);
        let held_back = |held_back| Reason::HeldBack(held_back);
        for (reason, code, numbers) in [
            (Reason::Impossible { asks, largest: q(5) }, "impossible", ["7", "5"]),
            (
                Reason::NoSuchSize { asks, most: q(7), largest: q(9) },
                "impossible",
                ["exactly 7 qshares", "9"],
            ),
            (
                Reason::NoSuchSize { asks, most: q(8), largest: q(9) },
                "impossible",
                ["7 to 8 qshares", "9"],
            ),
            (Reason::NoMachineUp { asks, suitable: 3 }, "no_machine_up", ["7", "3"]),
            (
                Reason::OverAllotment { allotment: q(40), held: q(39), asks: q(7) },
                "over_allotment",
                ["39 of 40", "7"],
            ),
            (
                Reason::FairShareUsed { given: n(4), cap: n(9), deserved: q(31) },
                "fair_share_used",
                ["4 of the 9", "31"],
            ),
            (Reason::NothingLeft { left: q(6), asks }, "nothing_left", ["6", "7"]),
            (Reason::WaitingForExits { promised: n(2) }, "waiting_for_exits", ["2", "room"]),
            (
                Reason::Fragmented { given: n(4), free: q(12), largest_hole: q(6), asks },
                "fragmented",
                ["12", "at most 6"],
            ),
            (
                held_back(HeldBack::TooDear { loss: 90_000, limit: 30_500 }),
                "too_dear",
                ["90 s", "30 s"],
            ),
            (held_back(HeldBack::TooLate), "too_late", ["in time", "free room"]),
            (held_back(HeldBack::Quiet { cycles: 13 }), "quiet_stop", ["13 cycles", "its peers"]),
            (held_back(HeldBack::NextCycle), "next_cycle", ["searched", "as long as it may"]),
        ] {
            assert_eq!(reason.code(), code);
            let sentence = reason.to_string();
            assert!(numbers.iter().all(|number| sentence.contains(number)), "{sentence}");
        }
    }

    #[test]
    fn every_bound_has_a_code_and_words() {
        for (bound, code, words) in [
            (CapBound::WorkLeft, "work_left", "needs no more"),
            (CapBound::Maximum, "maximum", "declared maximum"),
            (CapBound::Frozen, "frozen", "stopped"),
            (CapBound::Initialization, "initialization_cap", "initialized"),
            (CapBound::UnknownPace, "initialization_cap", "unknown"),
            (CapBound::StartsOver, "initialization_cap", "starts over"),
            (CapBound::Doubling, "doubling", "double"),
            (CapBound::Prediction, "prediction", "too late"),
            (CapBound::Completing, "completing", "ending"),
            (CapBound::Spent, "spent", "not started again"),
        ] {
            let reason = Reason::Capped { bound, cap: NShares(3) };
            assert_eq!((bound.code(), reason.code()), (code, code));
            assert!(reason.to_string().contains(words) && reason.to_string().contains('3'));
        }
    }
}
