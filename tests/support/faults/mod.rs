//! The daemon failed at its system calls, and a client that counts the effects of its acts.

pub mod rig;
pub mod witness;
