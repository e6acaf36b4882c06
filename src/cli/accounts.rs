//! What a class, a user or a job could use, has by fair share, is to have and holds: in memory.

use super::table::Column::{self, Right};
use super::table::memory;
use crate::api::wire::{Account, ClassInfo, Policy};

/// The headings of [`Amounts::cells`].
pub(super) const HEADINGS: [Column; 4] =
    [Right("DEMAND"), Right("FAIR SHARE"), Right("TARGET"), Right("HELD")];

/// An account in MiB.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amounts {
    demand_mb: u64,
    /// `None` outside fair share, which is not to be taken for zero.
    fair_share_mb: Option<u64>,
    target_mb: u64,
    held_mb: u64,
}

impl Amounts {
    /// `account` of quanta of `quantum_mb` MiB, of a class of this policy.
    pub(super) fn of(account: &Account, quantum_mb: u64, policy: Policy) -> Amounts {
        let in_memory = |qshares: u64| qshares.saturating_mul(quantum_mb);
        let is_fair = policy == Policy::FairShare;
        Amounts {
            demand_mb: in_memory(account.wanted),
            fair_share_mb: is_fair.then(|| in_memory(account.fair_share())),
            target_mb: in_memory(account.given),
            held_mb: in_memory(account.held),
        }
    }

    /// The same of the class of this name; nothing where `classes` have none.
    pub(super) fn in_class(account: &Account, class: &str, classes: &[ClassInfo]) -> Amounts {
        let class = classes.iter().find(|one| one.name == class);
        class.map_or_else(Amounts::default, |class| {
            Amounts::of(account, class.quantum_mb, class.policy)
        })
    }

    /// Both together.
    pub(super) fn and(self, other: Amounts) -> Amounts {
        let fair_shares = [self.fair_share_mb, other.fair_share_mb].into_iter().flatten();
        Amounts {
            demand_mb: self.demand_mb + other.demand_mb,
            fair_share_mb: fair_shares.reduce(|one, other| one + other),
            target_mb: self.target_mb + other.target_mb,
            held_mb: self.held_mb + other.held_mb,
        }
    }

    /// A cell for each of [`HEADINGS`].
    pub(super) fn cells(self) -> [String; 4] {
        let fair_share = self.fair_share_mb.map_or_else(|| "-".to_owned(), memory);
        [memory(self.demand_mb), fair_share, memory(self.target_mb), memory(self.held_mb)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fair_share_is_never_more_than_what_could_be_used() {
        let account = Account { wanted: 3, deserved: 40, given: 3, held: 2 };
        let fair = Amounts::of(&account, 1024, Policy::FairShare);
        assert_eq!(fair.cells(), ["3 GB", "3 GB", "3 GB", "2 GB"]);
        let fixed = Amounts::of(&account, 1024, Policy::FixedShare);
        assert_eq!(fixed.cells(), ["3 GB", "-", "3 GB", "2 GB"]);
        assert_eq!(fair.and(fixed).cells(), ["6 GB", "3 GB", "6 GB", "4 GB"]);
    }
}
