//! All that runs as processes: commands, the real daemon over real HTTP (`daemon`), the orchestrator, agents,
//! slots and their work (`running`), and pages, in a browser too (`pages`).
//!
//! One binary, because most of these tests wait for a clock while others compute. Tests begin in the
//! order of their names, so that both kinds are mixed.

#[path = "daemon/abuse.rs"]
mod abuse;
#[path = "daemon/access.rs"]
mod access;
#[path = "running/admission.rs"]
mod admission;
#[path = "daemon/agent.rs"]
mod agent;
#[path = "running/agent_run.rs"]
mod agent_run;
#[path = "running/agent_users.rs"]
mod agent_users;
#[path = "daemon/api.rs"]
mod api;
#[path = "daemon/bad_inputs.rs"]
mod bad_inputs;
#[path = "daemon/beliefs.rs"]
mod beliefs;
#[path = "commands/bench.rs"]
mod bench;
#[path = "pages/browser.rs"]
mod browser;
#[path = "pages/browser_past.rs"]
mod browser_past;
#[path = "pages/calendar.rs"]
mod calendar;
#[path = "pages/campaign_browser.rs"]
mod campaign_browser;
#[path = "running/campaign_views.rs"]
mod campaign_views;
#[path = "daemon/class_hours.rs"]
mod class_hours;
#[path = "commands/cli.rs"]
mod cli;
#[path = "running/cluster_events.rs"]
mod cluster_events;
#[path = "running/cluster_hooks.rs"]
mod cluster_hooks;
#[path = "running/cohost.rs"]
mod cohost;
#[path = "commands/commands.rs"]
mod commands;
#[path = "commands/config.rs"]
mod config;
#[path = "pages/dashboard.rs"]
mod dashboard;
#[path = "daemon/declared_times.rs"]
mod declared_times;
#[path = "commands/demo.rs"]
mod demo;
#[path = "commands/documents.rs"]
mod documents;
#[path = "commands/ducc.rs"]
mod ducc;
#[path = "daemon/events.rs"]
mod events;
#[path = "daemon/example.rs"]
mod example;
#[path = "daemon/faults.rs"]
mod faults;
#[path = "running/faults_calls.rs"]
mod faults_calls;
#[path = "daemon/faults_files.rs"]
mod faults_files;
#[path = "running/faults_slot.rs"]
mod faults_slot;
#[path = "running/fleet.rs"]
mod fleet;
#[path = "running/full_spool.rs"]
mod full_spool;
#[path = "running/gangs.rs"]
mod gangs;
#[path = "pages/grid_browser.rs"]
mod grid_browser;
#[path = "running/grid_events.rs"]
mod grid_events;
#[path = "commands/habits.rs"]
mod habits;
#[path = "daemon/hostile_lives.rs"]
mod hostile_lives;
#[path = "running/hostile_slots.rs"]
mod hostile_slots;
#[path = "commands/joblog.rs"]
mod joblog;
#[path = "daemon/kill.rs"]
mod kill;
#[path = "running/kill_matrix.rs"]
mod kill_matrix;
#[path = "daemon/kill_random.rs"]
mod kill_random;
#[path = "daemon/metrics.rs"]
mod metrics;
#[path = "daemon/migrations.rs"]
mod migrations;
#[path = "daemon/one_record.rs"]
mod one_record;
#[path = "running/orchestrator.rs"]
mod orchestrator;
#[path = "daemon/reconfigure.rs"]
mod reconfigure;
#[path = "daemon/replay.rs"]
mod replay;
#[path = "daemon/reservations.rs"]
mod reservations;
#[path = "daemon/resume.rs"]
mod resume;
#[path = "daemon/roles.rs"]
mod roles;
#[path = "daemon/service.rs"]
mod service;
#[path = "running/several_clusters.rs"]
mod several_clusters;
#[path = "commands/shown.rs"]
mod shown;
#[path = "daemon/silence.rs"]
mod silence;
#[path = "running/slot.rs"]
mod slot;
mod support;
#[path = "pages/time_travel.rs"]
mod time_travel;
#[path = "running/times.rs"]
mod times;
#[path = "running/up.rs"]
mod up;
#[path = "daemon/urgent.rs"]
mod urgent;
#[path = "pages/views.rs"]
mod views;
