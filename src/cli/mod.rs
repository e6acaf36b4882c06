//! Command line: a single binary for the daemon, administrators and users.
//!
//! Answers go to standard output, all other text to standard error; the exit status says the same
//! to scripts. Pure functions make the text for people from the API's own types, and `--json`
//! prints those types. So a command knows no more than any other client of the API.

mod accounts;
pub mod admission;
mod adopt;
mod agent;
mod agent_args;
mod agent_run;
mod allocator;
mod answer;
pub mod args;
mod attached;
mod audit;
pub mod bench;
mod campaign;
mod campaign_add;
mod campaign_stat;
mod campaign_wait;
mod classes;
mod client;
mod cohost;
mod complete;
mod config;
mod consent;
mod demo;
mod diag;
mod event_args;
mod event_filter;
mod events;
mod export;
mod failure;
pub mod fault;
mod figures;
mod filter_args;
mod filters;
mod formats;
mod gang_flags;
mod grid;
mod habits;
mod joblog;
mod jobs;
mod load;
mod logging;
mod node_act_args;
mod node_acts;
mod node_counts;
mod node_names;
mod node_words;
mod nodes;
mod occupancy;
mod one_campaign;
mod orchestrator;
mod output;
mod pages;
mod place;
mod progress;
mod publication;
mod questions;
mod queue;
mod rank;
mod reasons;
mod remote;
mod replay;
mod requests;
mod reservation;
mod reservation_args;
mod run;
mod run_gang;
mod serve;
mod settings;
mod shims;
mod simulate;
mod slot;
mod submit;
mod table;
mod task;
mod text;
mod time_flags;
mod time_spec;
mod token;
mod token_list;
mod top;
mod try_rules;
mod up;
mod urgent;
mod user_name;
mod user_unit;
mod users;
mod values;
mod why;
mod why_choice;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use tokio::runtime::{Builder, Runtime};

use args::{Cli, CliCommand};
use failure::Failure;
use shims::Shim;

use crate::net;

/// Exit status for a wrong command line, as clap has it.
const USED_WRONGLY: u8 = 2;

/// Does what `arguments` ask, and says how the process is to end. The first of them is the name
/// that this binary was called by.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if shims::is_called(&arguments) {
        return run_shim(arguments);
    }
    if arguments.get(1).is_some_and(|word| word == slot::NAME) {
        return exit(slot::run_alone(&arguments));
    }
    if arguments.get(1).is_some_and(|word| word == rank::SERVER || word == rank::SHELL) {
        return exit(rank::run_alone(&arguments));
    }
    let root = up::found_by_default(Cli::command());
    match complete::answer(&arguments, root.clone()) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(_) => return ExitCode::FAILURE,
    }
    let arguments = habits::understood(arguments, &root);
    let parsed = root.clone().try_get_matches_from(&arguments);
    match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => exit(dispatch(cli.command)),
        Err(error) => match habits::lead_on(&arguments, &root, &error) {
            Some(message) => {
                output::complain(&message);
                ExitCode::from(USED_WRONGLY)
            }
            None => error.exit(),
        },
    }
}

/// Runs this binary under the name of a command of UIMA-DUCC. Those commands know success and
/// failure, and no more.
fn run_shim(arguments: Vec<OsString>) -> ExitCode {
    let parsed = up::found_by_default(Shim::command()).try_get_matches_from(arguments);
    let result = match parsed.and_then(|matches| Shim::from_arg_matches(&matches)) {
        Ok(shim) => exit(ask(shims::run(&shim.command))),
        Err(error) if error.use_stderr() => {
            let _ = error.print();
            return ExitCode::FAILURE;
        }
        Err(error) => error.exit(),
    };
    if result == ExitCode::SUCCESS { result } else { ExitCode::FAILURE }
}

/// Says what failed, if something did, and how the process is to end.
fn exit(result: Result<(), Failure>) -> ExitCode {
    let failure = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    if let Some(error) = &failure.error {
        output::complain(&format!("error: {error:#}"));
    }
    failure.exit.into()
}

fn dispatch(command: CliCommand) -> Result<(), Failure> {
    match command {
        CliCommand::Agent(args) => ask(agent::run(&args)),
        CliCommand::Slot(args) => slot::run(&args),
        CliCommand::Checkpoint => slot::checkpoint(),
        CliCommand::Serve(args) => {
            allocator::tell();
            wait(busy(), serve::run(&args))
        }
        CliCommand::Up(args) => ask(up::run(&args)),
        CliCommand::Down(args) => ask(up::down(&args)),
        CliCommand::Demo(args) => wait(busy(), demo::run(&args)),
        CliCommand::Config { action } => config::run(&action),
        CliCommand::Nodes(args) => ask(nodes::list(&args)),
        CliCommand::Node { action } => ask(nodes::run(&action)),
        CliCommand::Reservation { action } => ask(reservation::run(&action)),
        CliCommand::Urgent(args) => ask(urgent::run(&args)),
        CliCommand::Orchestrator { action: action @ orchestrator::OrchestratorAction::Run(_) } => {
            wait(busy(), orchestrator::run(&action))
        }
        CliCommand::Orchestrator { action } => ask(orchestrator::run(&action)),
        CliCommand::Run(args) => ask(run::run(&args)),
        CliCommand::Submit(args) => ask(submit::run(&args)),
        CliCommand::Campaign { action } => ask(campaign::run(&action)),
        CliCommand::Grid(args) => ask(grid::run(&args)),
        CliCommand::Admission(args) => ask(admission::run(&args)),
        CliCommand::Fault { action } => ask(fault::run(&action)),
        CliCommand::Task { action } => ask(task::run(&action)),
        CliCommand::Publication { action } => ask(publication::run(&action)),
        CliCommand::Queue(args) => ask(queue::run(&args)),
        CliCommand::Job { action } => ask(jobs::run(&action)),
        CliCommand::Why(args) => ask(why::run(&args)),
        CliCommand::Classes(args) => ask(classes::list(&args)),
        CliCommand::Class { action } => ask(classes::run(&action)),
        CliCommand::Users(args) => ask(users::list(&args)),
        CliCommand::User { action } => ask(users::run(&action)),
        CliCommand::Load(args) => ask(load::run(&args)),
        CliCommand::Occupancy(args) => ask(occupancy::run(&args)),
        CliCommand::Events(args) => ask(events::run(&args)),
        CliCommand::Diag(args) => ask(diag::run(&args)),
        CliCommand::Top(args) => ask(top::run(&args)),
        CliCommand::Simulate(args) => simulate::run(&args),
        CliCommand::Replay(args) => ask(replay::run(&args)),
        CliCommand::Token { action } => token::run(&action),
        CliCommand::Audit { action } => ask(audit::run(&action)),
        CliCommand::Bench { action } => bench::run(&action),
        CliCommand::Completions(args) => pages::completions(&args),
        CliCommand::Man(args) => pages::man(&args),
    }
}

/// Threads for a daemon, which may have many agents.
fn busy() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.on_thread_park(net::park_until_slice_end);
    builder
}

/// Runs `work` to its end on one thread, which is enough for a client.
fn ask(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    wait(Builder::new_current_thread(), work)
}

/// Runs `work` to its end. What is still blocked then, after a second signal, is left behind.
fn wait(
    mut builder: Builder,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let runtime: Runtime = builder.enable_all().build()?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}
