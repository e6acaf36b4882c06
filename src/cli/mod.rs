//! The command line: one binary for the daemon, administrators and users.
//!
//! Answers go to standard output, everything else to standard error; the exit status says the
//! same to scripts. What is shown to people is made by pure functions from the API's own types,
//! and `--json` shows those: nothing here knows more than any other client could.

pub mod agent;
pub mod args;
mod audit;
pub mod bench;
mod classes;
mod client;
mod config;
mod consent;
mod demo;
mod failure;
mod nodes;
mod output;
mod queue;
mod replay;
mod serve;
mod settings;
mod simulate;
mod table;
mod token;
mod why;

use std::process::ExitCode;

use tokio::runtime::{Builder, Runtime};

use args::{Cli, Command};
use failure::Failure;

/// Does what the command line asks, and says how the process is to end.
pub fn run(cli: Cli) -> ExitCode {
    let failure = match dispatch(cli.command) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    if let Some(error) = &failure.error {
        output::complain(&format!("error: {error:#}"));
    }
    failure.exit.into()
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => wait(Builder::new_multi_thread(), serve::run(&args)),
        Command::Agent(args) => wait(Builder::new_current_thread(), agent::run(&args)),
        Command::Config { action } => config::run(&action),
        Command::Nodes(remote) => wait(Builder::new_current_thread(), nodes::list(&remote)),
        Command::Node { action } => wait(Builder::new_current_thread(), nodes::run(&action)),
        Command::Queue(args) => wait(Builder::new_current_thread(), queue::run(&args)),
        Command::Why(args) => wait(Builder::new_current_thread(), why::run(&args)),
        Command::Demo(args) => wait(Builder::new_multi_thread(), demo::run(&args)),
        Command::Simulate(args) => simulate::run(&args),
        Command::Replay(args) => wait(Builder::new_current_thread(), replay::run(&args)),
        Command::Token { action } => token::run(&action),
        Command::Audit { action } => wait(Builder::new_current_thread(), audit::run(&action)),
        Command::Bench { action } => bench::run(&action),
        Command::Classes(remote) => wait(Builder::new_current_thread(), classes::run(&remote)),
    }
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
