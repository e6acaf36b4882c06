//! Account of a class, a user or a job in memory: demand, fair share, target and holdings.

use super::table::Column::{self, Right};
use super::table::memory;
use crate::api::wire::{Account, ClassInfo, Policy};

/// The headings of [`MemoryAccount::cells`].
pub(super) const HEADINGS: [Column; 4] =
    [Right("DEMAND"), Right("FAIR SHARE"), Right("TARGET"), Right("HELD")];

/// An account in MiB.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemoryAccount {
    /// Memory that could be used now.
    pub(super) demand: u64,
    /// `None` outside fair share, which is not to be taken for zero.
    pub(super) fair_share: Option<u64>,
    /// Memory that the last cycle wants it to have.
    pub(super) target: u64,
    /// Memory in shares that are held.
    pub(super) held: u64,
}

impl MemoryAccount {
    /// `account` of quanta of `quantum_mb` MiB, of a class of this policy.
    pub(super) fn of(account: &Account, quantum_mb: u64, policy: Policy) -> MemoryAccount {
        let in_memory = |qshares: u64| qshares.saturating_mul(quantum_mb);
        let is_fair = policy == Policy::FairShare;
        MemoryAccount {
            demand: in_memory(account.wanted),
            fair_share: is_fair.then(|| in_memory(account.fair_share())),
            target: in_memory(account.given),
            held: in_memory(account.held),
        }
    }

    /// The same of the class of this name; nothing where `classes` have none.
    pub(super) fn in_class(account: &Account, class: &str, classes: &[ClassInfo]) -> MemoryAccount {
        let class = classes.iter().find(|one| one.name == class);
        class.map_or_else(MemoryAccount::default, |class| {
            MemoryAccount::of(account, class.quantum_mb, class.policy)
        })
    }

    /// Both together.
    pub(super) fn and(self, other: MemoryAccount) -> MemoryAccount {
        let fair_shares = [self.fair_share, other.fair_share].into_iter().flatten();
        MemoryAccount {
            demand: self.demand + other.demand,
            fair_share: fair_shares.reduce(|one, other| one + other),
            target: self.target + other.target,
            held: self.held + other.held,
        }
    }

    /// A cell for each of [`HEADINGS`].
    pub(super) fn cells(self) -> [String; 4] {
        let fair_share = self.fair_share.map_or_else(|| "-".to_owned(), memory);
        [memory(self.demand), fair_share, memory(self.target), memory(self.held)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fair_share_is_never_more_than_what_could_be_used() {
        let account = Account { wanted: 3, deserved: 40, given: 3, held: 2 };
        let fair = MemoryAccount::of(&account, 1024, Policy::FairShare);
        assert_eq!(fair.cells(), ["3 GB", "3 GB", "3 GB", "2 GB"]);
        let fixed = MemoryAccount::of(&account, 1024, Policy::FixedShare);
        assert_eq!(fixed.cells(), ["3 GB", "-", "3 GB", "2 GB"]);
        assert_eq!(fair.and(fixed).cells(), ["6 GB", "3 GB", "6 GB", "4 GB"]);
    }
}
