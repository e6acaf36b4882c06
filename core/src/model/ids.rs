//! Identifiers: a separate type for each kind of entity, so that the compiler tells them apart.
//!
//! Jobs and shares have permanent numbers. Nodes, pools, classes and users have permanent names.
//! Inside a cycle they are positions in a [`Snapshot`](crate::engine::Snapshot). The snapshot is
//! sorted by name, so that the order of first appearance decides nothing.

use std::fmt;

macro_rules! numbers {
    ($($(#[$doc:meta])* $id:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $id(pub u64);

        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    )*};
}

macro_rules! positions {
    ($($(#[$doc:meta])* $vis:vis $ix:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis struct $ix($vis usize);

        impl $crate::model::Ix for $ix {
            fn at(number: usize) -> $ix {
                $ix(number)
            }

            fn number(self) -> usize {
                self.0
            }
        }
    )*};
}

pub(crate) use positions;

numbers! {
    /// Number of a job, given by the orchestrator.
    JobId,
    /// Number of a share. Numbers are issued in ascending order and never twice, also across
    /// restarts. A larger number is a newer share.
    ShareId,
}

positions! {
    /// Place of a job in the snapshot, which lists the oldest first.
    pub JobIx,
    /// Row of a node in the snapshot, which is sorted by name.
    pub NodeIx,
    /// A nodepool's place in the topology, in the order of configuration.
    pub PoolIx,
    /// A resource class's place in the topology, in the order of configuration.
    pub ClassIx,
    /// A user's place in the snapshot, which is sorted by name.
    pub UserIx,
}
