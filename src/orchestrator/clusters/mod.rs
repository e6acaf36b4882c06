//! Other clusters: the router forwards tasks to their orchestrators, and brings the results home.
//!
//! A pass observes all clusters, predicts, routes, submits and withdraws, by the pure rules of
//! [`crate::grid`]. Each step reads the book, where forwarded tasks are on record before a cluster
//! gets them. A step that was cut off is therefore done again by the next pass: a submission has
//! a key that its cluster takes once, and a result is entered once.
//!
//! A task begins elsewhere only after its cluster has confirmed the withdrawal, or its lease has run
//! out there. Each pass renews the leases of the clusters that answer.

mod document;
mod events;
mod leases;
mod load;
mod observe;
mod record;
mod remote;
mod router;
mod sight;
mod withdraw;

pub use remote::{RemoteCluster, RemoteError};
pub use router::{GridError, GridRouter};
