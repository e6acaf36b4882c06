//! Intake of data: heartbeats of nodes, and publications of an orchestrator.

pub mod absence;
pub mod agent_identity;
pub mod discrepancies;
pub mod heartbeat_inbox;
pub mod heartbeats;
pub mod names;
pub mod orchestrators;
pub mod publication_reader;
pub mod publications;
pub mod publishers;
mod refusals;
pub mod salvage;
pub mod shapes;
pub mod urgent;
pub mod urgent_grace;
pub mod validate;
