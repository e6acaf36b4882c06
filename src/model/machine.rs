//! Machines, as agents report them and administrators treat them.

use super::{Mebibytes, Name};

/// What an agent says about its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// The node's name; lasts as long as the machine.
    pub name: Name,
    /// Memory it offers.
    pub memory: Mebibytes,
    /// Whether the agent wants no new work; what is there stays.
    pub is_quiesced: bool,
}

/// Why a machine may or may not get work. Each is a fact on its own; several can hold at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "five facts that hold independently of each other"
)]
pub struct MachineState {
    /// Others speak of it, but it has not reported since we started.
    pub is_awaited: bool,
    /// Its heartbeats stopped.
    pub is_dead: bool,
    /// An administrator took it out of scheduling.
    pub is_varied_off: bool,
    /// Its agent wants no new work.
    pub is_quiesced: bool,
    /// It holds shares that configuration no longer allows.
    pub is_blacklisted: bool,
}

impl MachineState {
    /// Whether new shares may be placed on it.
    pub fn is_schedulable(self) -> bool {
        !(self.is_awaited
            || self.is_dead
            || self.is_varied_off
            || self.is_quiesced
            || self.is_blacklisted)
    }

    /// The states that keep it from scheduling, in words; empty when it is up.
    pub fn words(self) -> Vec<&'static str> {
        let states = [
            (self.is_awaited, "awaited"),
            (self.is_dead, "dead"),
            (self.is_varied_off, "varied-off"),
            (self.is_quiesced, "quiesced"),
            (self.is_blacklisted, "blacklisted"),
        ];
        states.into_iter().filter(|(holds, _)| *holds).map(|(_, word)| word).collect()
    }
}
