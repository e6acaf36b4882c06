//! The `apportion` binary: daemon, orchestrator, agent, administrator's tool and demonstration.

use std::process::ExitCode;

fn main() -> ExitCode {
    apportion::cli::run(std::env::args_os())
}
