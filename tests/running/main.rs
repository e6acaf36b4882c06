//! Work that runs: the orchestrator, agents, slots and their processes.

mod admission;
mod agent_run;
mod agent_users;
mod campaign_views;
mod cluster_events;
mod cluster_hooks;
mod cohost;
mod faults_calls;
mod faults_slot;
mod fleet;
mod full_spool;
mod gangs;
mod grid_events;
mod hostile_slots;
mod kill_matrix;
mod orchestrator;
mod several_clusters;
mod slot;
#[path = "../support/mod.rs"]
mod support;
mod times;
mod up;
