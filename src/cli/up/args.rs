//! Arguments of `up` and `down`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::super::values::parse_address;
use super::folder::VARIABLE;

/// End of the help of `up`.
pub const UP_EXAMPLES: &str = "\
Examples:
  apportion up                                     here; Ctrl-C ends it, and asks about tasks that run
  apportion up --detach                            in the background; `apportion down` ends it
  apportion up --listen 127.0.0.1:7170             at another port
  apportion up --listen 0.0.0.0:7070               for several machines; writes apportion.join
  apportion agent --join apportion.join            on the other machines
  apportion run --memory 1GB -- ./crunch input1    from another terminal, meanwhile

It needs no root and no file. Other commands find it by what it writes into its folder. The folder keeps
campaigns, output, logs and apportion.toml, which the next start takes over, and the tokens that keep other
users of this machine out. The pages ask for the one in own.token.";

/// End of the help of `down`.
pub const DOWN_EXAMPLES: &str = "\
Examples:
  apportion down                                   asks at a terminal: end running tasks, or wait for them?
  apportion down --wait                            waits for running tasks; no other task begins
  apportion down --now                             tasks are asked to end, and killed after their grace

The next start repeats ended tasks. If `apportion up` was killed, `down` ends the processes that are left.";

/// The folder of `apportion up`.
#[derive(Clone, Debug, Args)]
pub struct StateArgs {
    /// The folder for state, logs and output; without it, `apportion` below `XDG_STATE_HOME`, or in
    /// ~/.local/state
    #[arg(long, value_name = "DIR", env = VARIABLE)]
    pub state: Option<PathBuf>,
}

/// Starts daemon, orchestrator and agent on this machine.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// The folder of the state.
    #[command(flatten)]
    pub state: StateArgs,
    /// The daemon's address; port 0 takes a free port. Without it, 127.0.0.1:7070 or a free port.
    /// An address that other machines reach, such as 0.0.0.0:7070, makes a file with which they
    /// join
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address)]
    pub listen: Option<SocketAddr>,
    /// With --listen: the name by which other machines reach this machine, instead of its own
    #[arg(long, value_name = "NAME", requires = "listen")]
    pub host: Option<String>,
    /// With --listen: the file with which other machines join
    #[arg(long, value_name = "FILE", default_value = "apportion.join")]
    pub join_file: PathBuf,
    /// With --listen: make the tokens in that file anew; the tokens before are worth nothing from
    /// then on
    #[arg(long, requires = "listen")]
    pub rejoin: bool,
    /// Go on in the background once work can run
    #[arg(long)]
    pub detach: bool,
    /// This is the process in the background
    #[arg(long, hide = true)]
    pub in_background: bool,
}

/// Ends daemon, orchestrator and agent on this machine.
#[derive(Debug, Args)]
pub struct DownArgs {
    /// The folder of the state.
    #[command(flatten)]
    pub state: StateArgs,
    /// End tasks that run: they are asked, and killed after their grace
    #[arg(long, visible_alias = "yes", conflicts_with = "wait")]
    pub now: bool,
    /// Wait until the tasks that run have ended; no other begins
    #[arg(long)]
    pub wait: bool,
}
