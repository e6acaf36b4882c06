//! Use of the record of `apportion up` by the other commands.

use std::path::Path;
use std::sync::LazyLock;

use clap::Command;
use reqwest::Url;

use super::super::failure::Failure;
use super::super::output::complain;
use super::super::remote::Trust;
use super::addresses::host_name;
use super::folder::{Elsewhere, Folder, UpRecord, locate};
use super::join::{self, Join, Joined};
use crate::agent::boot;

/// Content of the join file in the environment, or else the record in the default folder. Read
/// once.
static DEFAULT: LazyLock<Option<UpRecord>> = LazyLock::new(|| {
    let joined = std::env::var_os(join::VARIABLE).filter(|path| !path.is_empty());
    if let Some(path) = joined {
        let joined = Join::read(Path::new(&path)).and_then(|join| join.unpack());
        return joined.inspect_err(complain_of).ok().map(of_joined);
    }
    let mut found = Folder { path: locate(None)? }.read()?;
    // The processes are on another machine: only an answer can show that they live.
    if let Some(Elsewhere { daemon, orchestrator, .. }) =
        found.elsewhere.take_if(|elsewhere| elsewhere.host != host_name())
    {
        return Some(UpRecord { daemon, orchestrator, ..found });
    }
    let boot = boot().ok()?;
    found.children.first().is_some_and(|daemon| daemon.is_alive(&boot)).then_some(found)
});

fn complain_of(failure: &Failure) {
    let why = failure.error.as_ref().map(ToString::to_string).unwrap_or_default();
    complain(&format!("cannot use the file that {} names: {why}", join::VARIABLE));
}

fn of_joined(joined: Joined) -> UpRecord {
    // A parsed URL of a host alone ends in a slash, which the file does not write.
    let text = |url: &Url| url.as_str().trim_end_matches('/').to_owned();
    UpRecord {
        daemon: text(&joined.daemon),
        orchestrator: text(&joined.orchestrator),
        token_file: Some(joined.submitter_token),
        authority: Some(joined.authority),
        ..UpRecord::default()
    }
}

/// The commands, with the daemon of `apportion up` in the place of the usual address.
pub fn found_by_default(command: Command) -> Command {
    match &*DEFAULT {
        Some(found) => with_default(command, &found.daemon),
        None => command,
    }
}

fn with_default(command: Command, url: &'static str) -> Command {
    let command = command.mut_subcommands(|command| {
        // An agent reports to a daemon that was named, and to no other.
        if command.get_name() == "agent" { command } else { with_default(command, url) }
    });
    let has_url = command.get_arguments().any(|argument| argument.get_id() == "url");
    if has_url { command.mut_arg("url", |argument| argument.default_value(url)) } else { command }
}

/// The orchestrator of `apportion up`, if `daemon` is its daemon.
pub fn orchestrator_beside(daemon: &Url) -> Option<Url> {
    let found = DEFAULT.as_ref()?;
    let is_same = found.daemon.parse::<Url>().is_ok_and(|url| url == *daemon);
    found.orchestrator.parse().ok().filter(|_| is_same)
}

/// `trust`, with the token of `apportion up` in the place of none if `url` is its own.
pub fn with_own(trust: &Trust, url: &Url) -> Trust {
    let own =
        DEFAULT.as_ref().filter(|found| found.has(url)).map(UpRecord::trust).unwrap_or_default();
    let Trust { token_file, ca } = trust.clone();
    Trust { token_file: token_file.or(own.token_file), ca: ca.or(own.ca) }
}
