//! Completions that know the cluster: a shell asks this program at each Tab, which names the jobs, nodes,
//! classes and users that there are. A daemon that does not answer at once is not waited for.

use std::ffi::OsString;
use std::io::{self, Write};
use std::time::Duration;

use clap::{Arg, Command, CommandFactory, FromArgMatches};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use tokio::runtime::Builder;

use super::args::{Cli, CliCommand as Act};
use super::client::DaemonClient;
use super::failure::Failure;
use super::remote::Remote;
use super::up;
use crate::api::wire::{ClassList, Load, NodeList, ReservationList, UserList};

/// The variable by which a shell says that it asks, with its name.
const VARIABLE: &str = "APPORTION_COMPLETE";

/// Fingers do not wait longer than this.
const PATIENCE: Duration = Duration::from_millis(700);

/// A kind of thing that has a name in the cluster.
#[derive(Clone, Copy, Debug)]
enum Thing {
    Class,
    Job,
    Node,
    Pool,
    Reservation,
    User,
}

impl Thing {
    /// Returns the kind of thing that an argument of this name takes.
    fn of(argument: &str) -> Option<Thing> {
        match argument {
            "class" | "classes" => Some(Thing::Class),
            "job" | "jobs" => Some(Thing::Job),
            "node" | "nodes" => Some(Thing::Node),
            "pool" => Some(Thing::Pool),
            "reservation" => Some(Thing::Reservation),
            "user" | "users" => Some(Thing::User),
            _ => None,
        }
    }

    async fn names(self, client: &DaemonClient) -> Result<Vec<String>, Failure> {
        let path = |list| ["v1", list];
        Ok(match self {
            Thing::Class => {
                let list: ClassList = client.get(&path("classes"), &[]).await?;
                list.classes.into_iter().map(|class| class.name).collect()
            }
            Thing::Job => {
                let page = client.jobs(&[]).await?;
                page.jobs.into_iter().map(|job| job.id.to_string()).collect()
            }
            Thing::Node => {
                let list: NodeList = client.get(&path("nodes"), &[]).await?;
                list.nodes.into_iter().map(|node| node.name).collect()
            }
            Thing::Pool => {
                let load: Load = client.get(&path("load"), &[]).await?;
                load.pools.into_iter().map(|pool| pool.pool).collect()
            }
            Thing::Reservation => {
                let list: ReservationList = client.get(&path("reservations"), &[]).await?;
                list.reservations.into_iter().map(|reservation| reservation.name).collect()
            }
            Thing::User => {
                let list: UserList = client.get(&path("users"), &[]).await?;
                list.users.into_iter().map(|user| user.user).collect()
            }
        })
    }

    /// All of them that there are now; none if the daemon does not say.
    fn candidates(self) -> Vec<CompletionCandidate> {
        let ask = async {
            let client = DaemonClient::new(&remote()?).ok()?;
            tokio::time::timeout(PATIENCE, self.names(&client)).await.ok()?.ok()
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let names = runtime.ok().and_then(|runtime| runtime.block_on(ask));
        names.unwrap_or_default().into_iter().map(CompletionCandidate::new).collect()
    }
}

/// The daemon that a command without --url asks.
fn remote() -> Option<Remote> {
    let root = up::found_by_default(Cli::command());
    let matches = root.try_get_matches_from(["apportion", "nodes"]).ok()?;
    let cli = Cli::from_arg_matches(&matches).ok()?;
    if let Act::Nodes(list) = cli.command { Some(list.asking.remote) } else { None }
}

/// `command`, whose arguments know what they name.
fn knowing(command: Command) -> Command {
    let knows = |argument: Arg| match Thing::of(argument.get_id().as_str()) {
        Some(thing) => argument.add(ArgValueCandidates::new(move || thing.candidates())),
        None => argument,
    };
    command.mut_args(knows).mut_subcommands(knowing)
}

/// Answers a shell that asks for completions. Returns false if no shell asks.
///
/// # Errors
///
/// If it cannot be answered.
pub fn answer(arguments: &[OsString], root: Command) -> io::Result<bool> {
    let Some(shell) = std::env::var(VARIABLE).ok().filter(|shell| !shell.is_empty()) else {
        return Ok(false);
    };
    let shells = Shells::builtins();
    let Some(completer) = shells.completer(&shell) else { return Ok(false) };
    let words = arguments.iter().skip_while(|word| *word != "--").skip(1).cloned().collect();
    let mut command = knowing(root.disable_help_subcommand(true));
    command.build();
    let mut text = Vec::new();
    completer.write_complete(&mut command, words, None, &mut text)?;
    io::stdout().write_all(&text)?;
    Ok(true)
}

/// The script that makes `shell` ask. `None`: there is none for it.
///
/// # Errors
///
/// If it cannot be written.
pub fn script(shell: &str) -> io::Result<Option<Vec<u8>>> {
    let shells = Shells::builtins();
    let Some(completer) = shells.completer(shell) else { return Ok(None) };
    let mut text = Vec::new();
    completer.write_registration(VARIABLE, "apportion", "apportion", "apportion", &mut text)?;
    Ok(Some(text))
}
