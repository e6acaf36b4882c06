//! The commands of UIMA-DUCC under their own names, for hands and scripts that know them.
//!
//! A link called `vary_off` to this binary is that command: it takes what that took, answers node by
//! node, asks nothing, and ends with 0 if all went well and 1 otherwise.

use std::ffi::OsString;
use std::path::Path;

use clap::{Parser, Subcommand};

use super::answer::ShownAnswer;
use super::client::DaemonClient;
use super::failure::{Failure, FailureKind};
use super::occupancy;
use super::output::print;
use super::questions::ShimVary;
use super::remote::Remote;
use super::table::plain;
use super::text::TextStyle;
use crate::api::wire::{self, ConfigPlan, ConfigRequest, Load, NodeList, VaryAnswer};
use crate::model::{counted, expand_hostlist};

/// The names that stand for a command of their own.
const NAMES: [&str; 5] = ["vary_off", "vary_on", "rm_qload", "rm_qoccupancy", "rm_reconfigure"];

/// Command line of a link with a name of a UIMA-DUCC command.
#[derive(Debug, Parser)]
#[command(version, multicall = true)]
pub struct Shim {
    /// The command.
    #[command(subcommand)]
    pub command: ShimCommand,
}

/// A command of UIMA-DUCC.
#[derive(Debug, Subcommand)]
pub enum ShimCommand {
    /// Take nodes out of scheduling
    #[command(name = "vary_off")]
    VaryOff(ShimVary),
    /// Put nodes back into scheduling
    #[command(name = "vary_on")]
    VaryOn(ShimVary),
    /// Show demand and supply
    #[command(name = "rm_qload")]
    Load(Remote),
    /// Show each share on each node
    #[command(name = "rm_qoccupancy")]
    Occupancy(Remote),
    /// Read the configuration again
    #[command(name = "rm_reconfigure")]
    Reconfigure(Remote),
}

/// Direction of a change of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShimWay {
    /// Out of scheduling.
    Off,
    /// Back into it.
    On,
}

/// True if the first of `arguments` is the name of a UIMA-DUCC command.
pub fn is_called(arguments: &[OsString]) -> bool {
    let called = arguments.first().map(Path::new).and_then(Path::file_name);
    called.is_some_and(|called| NAMES.iter().any(|name| called == *name))
}

/// Does what the command did.
///
/// # Errors
///
/// If the daemon cannot be reached or refuses.
pub async fn run(command: &ShimCommand) -> Result<(), Failure> {
    match command {
        ShimCommand::VaryOff(args) => vary(args, ShimWay::Off).await,
        ShimCommand::VaryOn(args) => vary(args, ShimWay::On).await,
        ShimCommand::Load(remote) => load(remote).await,
        ShimCommand::Occupancy(remote) => occupancy(remote).await,
        ShimCommand::Reconfigure(remote) => reconfigure(remote).await,
    }
}

/// Takes nodes out of scheduling or puts them back, node by node. An unknown node does not stop the
/// rest.
///
/// # Errors
///
/// If the daemon cannot be reached, or refused a node after the rest was done.
async fn vary(args: &ShimVary, way: ShimWay) -> Result<(), Failure> {
    let client = DaemonClient::new(&args.remote)?;
    let known: NodeList = client.get(&["v1", "nodes"], &[]).await?;
    let mut has_failed = false;
    for list in &args.nodes {
        let names = expand_hostlist(list).map_err(|error| {
            Failure::new(FailureKind::Refused, format!("`{}`: {error}", plain(list)))
        })?;
        for name in names {
            let line = if let Some(name) = full_name(&known, &name) {
                match vary_one(&client, name, args, way).await {
                    Err(failure) if failure.exit != FailureKind::Unreachable => {
                        has_failed = true;
                        failure.error.map(|error| format!("{name}: {error}")).unwrap_or_default()
                    }
                    line => line?,
                }
            } else {
                has_failed = true;
                format!("{}: no such node", plain(&name))
            };
            print(&line)?;
        }
    }
    if has_failed { Err(Failure::silent(FailureKind::Refused)) } else { Ok(()) }
}

/// Returns the name a node reports under: as given, or the only name that differs by the domain
/// alone.
fn full_name<'a>(known: &'a NodeList, name: &str) -> Option<&'a str> {
    let short = |name: &str| name.split('.').next().map(str::to_owned);
    let names = || known.nodes.iter().map(|node| node.name.as_str());
    if let Some(exact) = names().find(|known| *known == name) {
        return Some(exact);
    }
    let mut alike = names()
        .filter(|known| (known.contains('.') != name.contains('.')) && short(known) == short(name));
    alike.next().filter(|_| alike.next().is_none())
}

async fn vary_one(
    client: &DaemonClient,
    name: &str,
    args: &ShimVary,
    way: ShimWay,
) -> Result<String, Failure> {
    let nodes = vec![name.to_owned()];
    let answer: VaryAnswer = match way {
        ShimWay::Off => {
            let reason = args.reason.clone();
            // The original knows no such question, be it the last node.
            let request = wire::VaryOff { nodes, reason, dry_run: false, all: true };
            client.post(&["v1", "nodes", "vary-off"], &request).await?
        }
        ShimWay::On => {
            let request = wire::VaryOn { nodes, dry_run: false };
            client.post(&["v1", "nodes", "vary-on"], &request).await?
        }
    };
    let word = if way == ShimWay::Off { "off" } else { "on" };
    let done = if answer.changed.is_empty() { "already varied" } else { "varied" };
    let evicted = match answer.impact.shares_evicted {
        0 => String::new(),
        shares => format!("; {} evicted", counted(shares, "share")),
    };
    let done = format!("{}: {done} {word}{evicted}", plain(name));
    let notes = answer.notes.iter().map(|note| plain(note));
    Ok([done].into_iter().chain(notes).collect::<Vec<_>>().join("; "))
}

/// Prints demand and supply.
///
/// # Errors
///
/// If the daemon cannot be reached.
async fn load(remote: &Remote) -> Result<(), Failure> {
    let load: Load = DaemonClient::new(remote)?.get(&["v1", "load"], &[]).await?;
    Ok(super::output::show(&load, remote.json, |load| load.render(TextStyle::default()))?)
}

/// Prints nodes with their shares, in the columns of the original.
///
/// # Errors
///
/// If the daemon cannot be reached.
async fn occupancy(remote: &Remote) -> Result<(), Failure> {
    let occupied = occupancy::ask(&DaemonClient::new(remote)?, &[]).await?;
    Ok(super::output::show(&occupied, remote.json, |all| all.render_as_ducc(TextStyle::default()))?)
}

/// Has the daemon read its configuration again, all of it or nothing.
///
/// # Errors
///
/// If it is wrong, or the daemon cannot be reached.
async fn reconfigure(remote: &Remote) -> Result<(), Failure> {
    let client = DaemonClient::new(remote)?;
    let request = ConfigRequest::default();
    let answer: ConfigPlan = client.post(&["v1", "config", "apply"], &request).await?;
    Ok(super::output::show(&answer, remote.json, |answer| {
        format!("the configuration was read again; generation {} is in effect", answer.generation)
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_the_command_it_is_called_by() {
        for (called, is_shim) in [
            ("/usr/bin/vary_off", true),
            ("rm_qload", true),
            ("/usr/bin/apportion", false),
            ("vary_offs", false),
        ] {
            assert_eq!(is_called(&[called.into()]), is_shim, "{called}");
        }
    }
}
