//! The real daemon over real HTTP: its answers, its record, its faults.

mod abuse;
mod access;
mod agent;
mod api;
mod bad_inputs;
mod beliefs;
mod events;
mod example;
mod faults;
mod faults_files;
mod hostile_lives;
mod hours;
mod kill;
mod kill_random;
mod metrics;
mod migrations;
mod one_record;
mod reconfigure;
mod replay;
mod reservations;
mod resume;
mod roles;
mod service;
mod silence;
#[path = "../support/mod.rs"]
mod support;
mod times;
mod urgent;
