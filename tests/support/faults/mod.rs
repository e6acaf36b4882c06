//! The daemon failed at its system calls, and a client that counts what became of its acts.

pub mod rig;
pub mod witness;
