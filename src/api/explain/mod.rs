//! Explanations of what a job has, and of what would change it.

pub mod ahead;
pub mod load;
pub mod node_fit;
pub mod preemptions;
pub mod silent;
pub mod unblock;
pub mod why;
