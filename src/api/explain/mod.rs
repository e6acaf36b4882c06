//! Explanations of what a job has, and of what would change it.

pub mod ahead;
mod gang_fit;
pub mod load;
mod node_fit;
pub mod preemptions;
pub mod savings;
pub mod silent;
pub mod unblock;
pub mod why;
