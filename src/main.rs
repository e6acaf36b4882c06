//! The one binary: daemon, administrator's tool and demonstration.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    apportion::cli::run(apportion::cli::args::Cli::parse())
}
