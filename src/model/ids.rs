//! What things are called: one type per kind of thing, so that no two can be confused.
//!
//! Jobs and shares have numbers that last. Machines, pools, classes and users have names that
//! last; inside one cycle they are positions in a [`Snapshot`](crate::engine::Snapshot), which is
//! sorted by name so that the order in which things were first heard of decides nothing.

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
    ($($(#[$doc:meta])* $ix:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $ix(pub usize);
    )*};
}

numbers! {
    /// A request for work, as the orchestrator numbers it.
    JobId,
    /// One share. Issued by us in ascending order and never again, also across restarts; a larger
    /// number is a newer share.
    ShareId,
}

positions! {
    /// A machine's place in the snapshot, which is sorted by name.
    MachineIx,
    /// A nodepool's place in the topology, in the order of configuration.
    PoolIx,
    /// A resource class's place in the topology, in the order of configuration.
    ClassIx,
    /// A user's place in the snapshot, which is sorted by name.
    UserIx,
}
