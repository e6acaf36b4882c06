//! The vocabulary: plain values that every layer shares. Knows nothing else in this crate.
//!
//! The words are the design's, a single word per idea:
//!
//! | word | means |
//! |---|---|
//! | quantum | the smallest allocation, in MiB |
//! | qshare | an *amount*: n quanta of memory |
//! | nshare | a *count* of allocations of one order |
//! | order | a *size class*: how many qshares a thing is made of, from 1 |
//! | share | one nshare connected to one machine and one job |
//! | machine / node | what we schedule on / what an agent reports |
//! | nodepool, top-level, subpool | a disjoint set of machines, in a tree |
//! | resource class | the rules for a kind of work |
//! | cap | the most nshares a job could use now, were resources unbounded |
//! | pure fair share | what a job deserves before bonus shares |
//! | allotment | a user's ceiling on non-preemptable memory |
//! | preempt / evict | taken back for fairness / for a fault or a change |
//! | investment | work that would be lost with a share |
//! | needy, wealth | below deserved *and* below the threshold / what a user holds |
//! | resident, squatter | in its class's own pool / in a subpool of it |
//! | vary off, vary on | out of scheduling by hand, and back |
//! | blacklisted | holds shares that configuration no longer allows |
//! | publication, update | all work, from the orchestrator / the schedule, to it |
//! | cycle | one run of the engine |

mod class;
mod hidden;
mod hostlist;
mod ids;
mod job;
mod machine;
mod memory_text;
mod names;
mod sealed;
mod share;
mod span;
mod steps;
mod topology;
mod units;

pub use class::{CapRules, ClassPolicy, ResourceClass};
pub use hidden::is_hidden;
pub use hostlist::{HostListError, MAX_HOSTS, expand_hostlist, fold_hostlist};
pub use ids::{ClassIx, JobId, MachineIx, PoolIx, ShareId, UserIx};
pub use job::{JobFacts, JobKind, JobSpec, ProcessLimit};
pub use machine::{MachineState, NodeReport};
pub use memory_text::{amount_text, memory_text, thousands};
pub use names::{Name, nearest};
pub use sealed::Sealed;
pub use share::{ShareFacts, SharePhase};
pub use span::span;
pub use steps::Steps;
pub use topology::{Nodepool, Settings, Topology};
pub use units::{
    Mebibytes, Millis, NShares, Order, QShares, Quantum, ceil_div, count, counted, floor_div,
    plural,
};
