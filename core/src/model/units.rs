//! The sizes the scheduler reckons in.
//!
//! Three numbers that must never be mixed have three types: an [`Order`] is a *size class*, an
//! [`NShares`] is a *count* of allocations, and [`QShares`] is an *amount* of memory in quanta.
//! `count × class = amount`; no other product is defined. Bytes exist only at the border.

use std::fmt;
use std::iter::Sum;
use std::num::{NonZeroU32, NonZeroU64};
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// An amount of memory as nodes report it and work declares it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mebibytes(pub u64);

impl Mebibytes {
    /// Converts gibibytes; the design and its configuration call them "GB".
    pub fn from_gib(gib: u64) -> Mebibytes {
        Mebibytes(gib.saturating_mul(1024))
    }
}

impl fmt::Display for Mebibytes {
    /// Whole gigabytes where the amount is whole, else megabytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1024) {
            write!(f, "{} GB", self.0 >> 10)
        } else {
            write!(f, "{} MB", self.0)
        }
    }
}

/// A span of time in milliseconds, as the orchestrator reports it.
pub type Millis = u64;

/// Smallest allocation of a top-level nodepool, in MiB. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantum(NonZeroU64);

impl Quantum {
    /// `None` for nothing: a quantum of zero would make every order infinite.
    pub fn new(memory: Mebibytes) -> Option<Quantum> {
        NonZeroU64::new(memory.0).map(Quantum)
    }

    /// Size of the quantum in memory.
    pub fn memory(self) -> Mebibytes {
        Mebibytes(self.0.get())
    }

    /// Order of a job that declares `memory` per process. Rounds up: a process gets all the memory
    /// it asked for. `None` for no memory at all, or for more than any node could have.
    ///
    /// Design: "Shares and share-order".
    pub fn order_of_work(self, memory: Mebibytes) -> Option<Order> {
        u32::try_from(memory.0.div_ceil(self.0.get())).ok().and_then(Order::new)
    }

    /// Order of a node that reports `memory`. Rounds down: a node never promises memory that it
    /// lacks. Zero if the node is smaller than a quantum.
    pub fn order_of_node(self, memory: Mebibytes) -> QShares {
        QShares(floor_div(memory.0, self.0))
    }

    /// Memory of an amount of qshares.
    pub fn memory_of(self, amount: QShares) -> Mebibytes {
        Mebibytes(amount.0.saturating_mul(self.0.get()))
    }
}

/// Number of qshares in a share: its size relative to other shares. Starts at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order(NonZeroU32);

impl Order {
    /// The smallest order.
    pub const MIN: Order = Order(NonZeroU32::MIN);

    /// `None` for zero: nothing is of order 0.
    pub fn new(order: u32) -> Option<Order> {
        NonZeroU32::new(order).map(Order)
    }

    /// The order as a number.
    pub fn get(self) -> u32 {
        self.0.get()
    }

    /// Amount of a single nshare of this order.
    pub fn qshares(self) -> QShares {
        QShares(u64::from(self.get()))
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Number of nshares. The count says nothing about the size of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NShares(pub u64);

impl NShares {
    /// The largest count: as a limit, none.
    pub const MAX: NShares = NShares(u64::MAX);

    /// The memory this many nshares of `order` occupy.
    pub fn of_order(self, order: Order) -> QShares {
        QShares(self.0.saturating_mul(u64::from(order.get())))
    }

    /// The difference, or none where `other` is larger.
    #[must_use]
    pub fn saturating_sub(self, other: NShares) -> NShares {
        NShares(self.0.saturating_sub(other.0))
    }
}

/// Number of qshares: an amount of memory, without its division into shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QShares(pub u64);

impl QShares {
    /// Number of whole nshares of `order` in this amount; the remainder is lost.
    pub fn nshares(self, order: Order) -> NShares {
        NShares(floor_div(self.0, NonZeroU64::from(order.0)))
    }

    /// The difference, or none where `other` is larger.
    #[must_use]
    pub fn saturating_sub(self, other: QShares) -> QShares {
        QShares(self.0.saturating_sub(other.0))
    }
}

macro_rules! amounts {
    ($($unit:ident),*) => {$(
        impl Add for $unit {
            type Output = $unit;
            fn add(self, other: $unit) -> $unit {
                $unit(self.0.checked_add(other.0).expect("an amount fits in 64 bits"))
            }
        }
        impl AddAssign for $unit {
            fn add_assign(&mut self, other: $unit) {
                *self = *self + other;
            }
        }
        impl Sub for $unit {
            type Output = $unit;
            fn sub(self, other: $unit) -> $unit {
                $unit(self.0.checked_sub(other.0).expect("an amount never falls below zero"))
            }
        }
        impl SubAssign for $unit {
            fn sub_assign(&mut self, other: $unit) {
                *self = *self - other;
            }
        }
        impl Sum for $unit {
            fn sum<I: Iterator<Item = $unit>>(amounts: I) -> $unit {
                amounts.fold($unit(0), Add::add)
            }
        }
        impl fmt::Display for $unit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    )*};
}
amounts!(NShares, QShares);

/// Integer division that says which way it rounds: toward zero.
#[expect(clippy::integer_division, reason = "one of the two places that may divide")]
pub fn floor_div(dividend: u64, divisor: NonZeroU64) -> u64 {
    dividend / divisor
}

/// Integer division that says which way it rounds: up.
pub fn ceil_div(dividend: u64, divisor: NonZeroU64) -> u64 {
    dividend.div_ceil(divisor.get())
}

/// Name of `thing` in the right number for `count`: "qshare", "qshares", "processes".
pub fn plural(count: u64, thing: &str) -> String {
    let ending = match (count, thing) {
        (1, _) => "",
        (_, "process") => "es",
        _ => "s",
    };
    format!("{thing}{ending}")
}

/// Count with its noun: "1 qshare", "2 qshares".
pub fn counted(count: u64, thing: &str) -> String {
    format!("{count} {}", plural(count, thing))
}

/// Returns `part` of `whole` in whole percent, rounded down; 0 if `whole` is 0.
pub fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}

/// Number of `things`, as `u64`.
pub fn count<T>(things: impl IntoIterator<Item = T>) -> u64 {
    things.into_iter().map(|_| 1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of seed 001: a 15 GB quantum, work of 14 and 28 GB.
    #[test]
    fn percents_are_whole_and_rounded_down() {
        assert_eq!([percent(1, 3), percent(0, 0), percent(7, 7)], [33, 0, 100]);
    }

    #[test]
    fn work_rounds_up_and_nodes_round_down() {
        let quantum = Quantum::new(Mebibytes::from_gib(15)).unwrap();
        let cases =
            [(14, Some(1), 0), (15, Some(1), 1), (28, Some(2), 1), (30, Some(2), 2), (0, None, 0)];
        for (gib, work, node) in cases {
            let memory = Mebibytes::from_gib(gib);
            assert_eq!(quantum.order_of_work(memory).map(Order::get), work, "{gib} GB of work");
            assert_eq!(quantum.order_of_node(memory), QShares(node), "a node of {gib} GB");
        }
    }

    #[test]
    fn memory_beyond_any_node_has_no_order() {
        let quantum = Quantum::new(Mebibytes(1)).unwrap();
        assert_eq!(quantum.order_of_work(Mebibytes(u64::MAX)), None);
    }

    /// Seed 001: twenty qshares are twenty processes of order 1 or ten of order 2.
    #[test]
    fn an_amount_divides_into_nshares() {
        let orders = [1, 2, 3].map(|order| QShares(20).nshares(Order::new(order).unwrap()));
        assert_eq!(orders, [NShares(20), NShares(10), NShares(6)]);
    }
}
