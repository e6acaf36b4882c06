//! Nodes, as agents report them and administrators treat them.

use super::{Mebibytes, Name, Tags};

/// Report of an agent on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// Name of the node; lasts as long as the node.
    pub name: Name,
    /// Memory it offers.
    pub memory: Mebibytes,
    /// True if the agent wants no new shares; existing shares stay.
    pub is_quiesced: bool,
    /// Tags that the agent may report. The configuration goes before them.
    pub tags: Tags,
}

/// Conditions that keep a node from getting new shares. Each is independent; several can hold at
/// once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "six facts that hold independently of each other"
)]
pub struct NodeCondition {
    /// A share or a command names the node, but the node has never reported.
    pub is_awaited: bool,
    /// The node is dead: its heartbeats stopped.
    pub is_dead: bool,
    /// An administrator took it out of scheduling.
    pub is_varied_off: bool,
    /// The node's agent wants no new shares.
    pub is_quiesced: bool,
    /// The node has shares that the configuration no longer allows there.
    pub is_blacklisted: bool,
    /// The node is in maintenance, or will be so soon that work has to leave.
    pub is_in_maintenance: bool,
}

impl NodeCondition {
    /// True if new shares may be placed on the node.
    pub fn is_schedulable(self) -> bool {
        !(self.is_awaited
            || self.is_dead
            || self.is_varied_off
            || self.is_quiesced
            || self.is_blacklisted
            || self.is_in_maintenance)
    }

    /// True if new shares may be placed on the node, now or when its maintenance is over.
    pub fn is_up(self) -> bool {
        NodeCondition { is_in_maintenance: false, ..self }.is_schedulable()
    }

    /// The states that keep it from scheduling, in words; empty when it is up.
    pub fn words(self) -> Vec<&'static str> {
        let states = [
            (self.is_awaited, "awaited"),
            (self.is_dead, "dead"),
            (self.is_varied_off, "varied-off"),
            (self.is_quiesced, "quiesced"),
            (self.is_blacklisted, "blacklisted"),
            (self.is_in_maintenance, "maintenance"),
        ];
        states.into_iter().filter(|(holds, _)| *holds).map(|(_, word)| word).collect()
    }
}
