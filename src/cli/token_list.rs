//! The tokens that there are: whose, what they are good for, and until when. The file has no secret in it, so
//! none is shown.

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use super::failure::{Failure, FailureKind};
use super::output::show;
use super::settings::{load, locate};
use super::table::Column::Left;
use super::table::table;
use crate::auth::{NodeScope, TokenEntry, TokenFile};
use crate::model::fold_hostlist;

pub(super) const EXAMPLES: &str = "\
Examples:
  apportion token list
  apportion token list /etc/apportion/tokens --json | jq '.[] | select(.state == \"expired\").name'

A daemon reads the file at its start and on SIGHUP: later changes are not in effect yet.";

/// Lists tokens.
#[derive(Debug, Args)]
pub struct TokenListArgs {
    /// The file of tokens; without it, the file in `daemon.access.tokens` of the configuration
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The configuration that names the file; without it, the configuration that `serve` would read
    #[arg(long, value_name = "FILE", env = "APPORTION_CONFIG", conflicts_with = "file")]
    pub config: Option<PathBuf>,
    /// Show them in JSON
    #[arg(long)]
    pub json: bool,
}

/// A token, as people and programs see it.
#[derive(Debug, Serialize)]
struct ListedToken {
    name: String,
    role: String,
    /// The nodes of an agent, as a host list; `*` for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<String>,
    /// The user that a submitter submits as; `*` for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    state: &'static str,
}

impl ListedToken {
    fn of(entry: &TokenEntry, now: Timestamp) -> ListedToken {
        let nodes = match &entry.nodes {
            NodeScope::All => Some("*".to_owned()),
            NodeScope::Only(names) if names.is_empty() => None,
            NodeScope::Only(names) => Some(fold_hostlist(names.iter().map(String::as_str))),
        };
        let is_over = entry.until.is_some_and(|until| until <= now);
        ListedToken {
            name: entry.name.clone(),
            role: entry.role.to_string(),
            nodes,
            user: entry.user.as_ref().map(ToString::to_string),
            until: entry.until.map(|until| until.to_string()),
            state: if is_over { "expired" } else { "valid" },
        }
    }
}

/// The file of tokens that the configuration names.
fn configured(args: &TokenListArgs) -> Result<PathBuf, Failure> {
    let path = locate(args.config.as_deref());
    let (_, config) = load(&path, &[], FailureKind::Refused)?;
    config.daemon.access.tokens.ok_or_else(|| {
        let message = format!(
            "{} names no file of tokens (daemon.access.tokens): on this machine, all users may do everything; \
             `apportion token new` makes a token",
            path.display()
        );
        Failure::new(FailureKind::NotFound, message)
    })
}

/// Lists the tokens as they are at `now`.
///
/// # Errors
///
/// If there is no such file, or it is wrong.
pub(super) fn run(args: &TokenListArgs, now: Timestamp) -> Result<(), Failure> {
    let file = match args.file.clone() {
        Some(file) => file,
        None => configured(args)?,
    };
    let tokens = TokenFile::read(&file)?;
    let mut list: Vec<ListedToken> =
        tokens.entries().map(|entry| ListedToken::of(entry, now)).collect();
    list.sort_by(|one, other| (&one.name, &one.until).cmp(&(&other.name, &other.until)));
    Ok(show(&list, args.json, |list| render(list))?)
}

fn render(tokens: &[ListedToken]) -> String {
    if tokens.is_empty() {
        return "No tokens. `apportion token new` makes one.".to_owned();
    }
    let columns = [Left("NAME"), Left("ROLE"), Left("STATE"), Left("UNTIL"), Left("NODES OR USER")];
    let rows = tokens.iter().map(|token| {
        let of = token.nodes.clone().or_else(|| token.user.clone()).unwrap_or_default();
        let until = token.until.clone().unwrap_or_else(|| "no end".to_owned());
        [token.name.clone(), token.role.clone(), token.state.to_owned(), until, of]
    });
    table(columns, rows)
}
