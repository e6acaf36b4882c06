//! The commands that operators and users type.

mod bench;
mod cli;
mod commands;
mod config;
mod demo;
mod documents;
mod ducc;
mod habits;
mod joblog;
mod shown;
#[path = "../support/mod.rs"]
mod support;
