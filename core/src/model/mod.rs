//! The vocabulary: plain values that every layer shares. Knows nothing else in this crate.
//!
//! The words are the design's, a single word per idea:
//!
//! | word | means |
//! |---|---|
//! | node | a computer whose memory is shared out; its free memory is its space |
//! | nodepool, top-level, subpool | a disjoint set of nodes, in a tree |
//! | class | the rules for a kind of work: policy, weight, priority (a lower number goes first) |
//! | job | what a user submits: batch, service, process or reservation; `work` on the wire |
//! | process, share | what runs / its memory on a node: an nshare connected to a node and a job |
//! | quantum | the smallest allocation, in MiB |
//! | qshare | an *amount*: n quanta of memory |
//! | nshare | a *count* of shares of the same order |
//! | order | a *size class*: the qshares of a process or a node, from 1 |
//! | demand, cap | the most a job could use now / the same as a number of processes |
//! | fair share | the part of a class, user or job before bonus shares |
//! | target | what a cycle wants a job to have, in processes |
//! | allotment | a user's ceiling on memory that cannot be preempted |
//! | preempt, evict, lost | taken back for a named job / for a fault or a change / gone with its node |
//! | terminating | between either of these and the confirmed exit; still takes its memory |
//! | investment | work that would be lost with a share |
//! | needy, wealth | below fair share *and* below the threshold / what a user holds |
//! | promise | space kept for a named job until it starts there |
//! | resident, squatter | in its class's own pool / in a subpool of it |
//! | vary off, vary on | out of scheduling by hand, and back |
//! | blacklisted | holds shares that configuration no longer allows |
//! | quiet, idle | no change of demand or supply / no news of any job at all |
//! | publication, schedule | all jobs, from the orchestrator / the shares of each, to it |
//! | cycle, view | one run of the engine / what readers see of it |
//! | store, journal, audit log | the database / inputs by cycle / acts of operators |

mod active_hours;
mod calendar;
mod class;
mod hidden;
mod hostlist;
mod ids;
mod ix_vec;
mod job;
mod memory_text;
mod names;
mod node;
mod sealed;
mod shape;
mod share;
mod span;
mod steps;
mod tags;
mod topology;
mod units;

pub use active_hours::{ActiveEntry, ActiveHours, ActiveProblem, state_of_hours};
pub use calendar::{Window, WindowKind};
pub use class::{CapRules, ClassPolicy, Precedence, ResourceClass};
pub use hidden::is_hidden;
pub use hostlist::{HostListError, MAX_HOSTS, expand_hostlist, fold_hostlist};
pub(crate) use ids::positions;
pub use ids::{ClassIx, JobId, JobIx, NodeIx, PoolIx, ShareId, UserIx};
pub use ix_vec::{Ix, IxVec};
pub use job::{JobFacts, JobKind, JobSpec, ProcessLimit};
pub use memory_text::{amount_text, memory_text, memory_time, thousands};
pub use names::{Name, nearest};
pub use node::{NodeCondition, NodeReport};
pub use sealed::Sealed;
pub use shape::{
    Chunk, Elasticity, GangRules, JobTimes, LegalSizes, MAX_CHUNKS, MAX_LEGAL_SIZES, Place, Shape,
    ShapeProblem,
};
pub use share::{ShareFacts, SharePhase};
pub use span::span;
pub use steps::Steps;
pub use tags::{NodeTagging, TagRule, Tags, is_tag_key, is_tag_value};
pub use topology::{Nodepool, Settings, Topology, UserAllotment};
pub use units::{
    Mebibytes, Millis, NShares, Order, QShares, Quantum, ceil_div, count, counted, floor_div,
    percent, plural,
};
