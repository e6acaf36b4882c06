//! The real daemon over real HTTP: its answers, its record, its faults.

// Tests begin in this order: tests that wait longest for the clock come early.
mod abuse;
mod access;
mod agent;
mod api;
mod bad_inputs;
mod beliefs;
mod class_hours;
mod declared_times;
mod events;
mod example;
mod faults;
mod faults_files;
mod hostile_lives;
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
mod urgent;
