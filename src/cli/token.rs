//! Commands that make tokens without the daemon: the secret is shown once. The daemon gets a line
//! for its file, which does not hold the secret.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use serde::Serialize;

use super::failure::{Failure, FailureKind};
use super::output::show;
use super::token_list;
use crate::auth::{Role, Secret, new_line};

/// An action on tokens.
#[derive(Debug, Subcommand)]
pub enum TokenAction {
    /// Make a token: the secret, shown once, and the line for the daemon's file of tokens
    #[command(after_help = EXAMPLES)]
    New(New),
    /// List the tokens of a file: whose they are, what they are good for, and until when
    #[command(visible_alias = "ls", after_help = token_list::EXAMPLES)]
    List(token_list::TokenListArgs),
}

const EXAMPLES: &str = "\
Examples:
  apportion token new --role agent --node node01 --valid 90d
  apportion token new --role agent --node 'node[01-40]' --name rack1
  apportion token new --role operator --name ann
  apportion token new --role reader --name prometheus --out prometheus.token >> /etc/apportion/tokens

Put the line into the file that `daemon.access.tokens` names, and have the daemon read it again: SIGHUP,
or `apportion config apply`. The token belongs in a file that only its owner may read, which --out makes;
--token-file or APPORTION_TOKEN_FILE names it. To renew a token, add a second line of the same name; to
revoke one, delete its line.";

/// A new token.
#[derive(Debug, Args)]
pub struct New {
    /// The role of the token
    #[arg(long, value_enum)]
    pub role: RoleName,
    /// The nodes that an agent speaks for, as host lists
    #[arg(long = "node", value_name = "HOSTLIST")]
    pub nodes: Vec<String>,
    /// The owner of the token, for the audit log; without it the agent's node
    #[arg(long)]
    pub name: Option<String>,
    /// The validity of the token, such as 1y, 90d or 12h; without it, until the token is revoked
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    pub valid: Option<Span>,
    /// Write the token to this new file, which only its owner may read, and show the line alone
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Show both in JSON
    #[arg(long)]
    pub json: bool,
}

/// A role, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoleName {
    /// Looks at everything, changes nothing.
    Reader,
    /// Reports its own nodes only.
    Agent,
    /// Publishes work and follows the schedule.
    Orchestrator,
    /// Submits campaigns as the user of its name, and looks at everything.
    Submitter,
    /// Takes nodes out and puts them back; changes the configuration.
    Operator,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Role {
        match name {
            RoleName::Reader => Role::Reader,
            RoleName::Agent => Role::Agent,
            RoleName::Orchestrator => Role::Orchestrator,
            RoleName::Submitter => Role::Submitter,
            RoleName::Operator => Role::Operator,
        }
    }
}

fn parse_span(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|_| "write a span of time: 1y, 90d, 12h".to_owned())?;
    if span.is_positive() { Ok(span) } else { Err("this has passed already".to_owned()) }
}

/// A token and its line.
#[derive(Serialize)]
struct Made {
    /// Secret of the token. Absent if a file has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    line: String,
}

/// Runs the command.
///
/// # Errors
///
/// If the name or the nodes are wrong, or the system has no secrets to give.
pub fn run(action: &TokenAction) -> Result<(), Failure> {
    match action {
        TokenAction::New(args) => make(args),
        TokenAction::List(args) => token_list::run(args, Timestamp::now()),
    }
}

fn make(args: &New) -> Result<(), Failure> {
    let secret = Secret::new()?;
    let line = line(args, &secret).map_err(|what| Failure::new(FailureKind::Refused, what))?;
    let token = match &args.out {
        Some(file) => {
            keep(&secret, file).map_err(|error| {
                let what = format!("cannot make the file {}: {error}", file.display());
                Failure::new(FailureKind::Refused, what)
            })?;
            None
        }
        None => Some(secret.reveal().to_owned()),
    };
    let made = Made { token, line };
    Ok(show(&made, args.json, render)?)
}

fn line(args: &New, secret: &Secret) -> Result<String, String> {
    let nodes = (!args.nodes.is_empty()).then(|| args.nodes.join(","));
    let name = args.name.as_deref().or(nodes.as_deref()).ok_or("say whose it is, with --name")?;
    let is_list = |name: &str| name.contains(['[', ',']);
    if args.name.is_none() && is_list(name) {
        return Err("it is for several nodes; give it a name, with --name".to_owned());
    }
    let until = args.valid.map(expiry).transpose()?;
    new_line(secret, name, args.role.into(), nodes.as_deref(), until)
}

/// Never over another: that may be in use.
fn keep(secret: &Secret, file: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    writeln!(file, "{}", secret.reveal())
}

/// Returns the end of a span that begins now. Years, months and days follow the calendar in UTC.
/// The daemon reads times to the second.
fn expiry(valid: Span) -> Result<Timestamp, String> {
    let far = |_| "that is further away than there are dates".to_owned();
    let until = Timestamp::now().to_zoned(TimeZone::UTC).checked_add(valid).map_err(far)?;
    Timestamp::from_second(until.timestamp().as_second()).map_err(far)
}

fn render(made: &Made) -> String {
    let Made { token, line } = made;
    match token {
        Some(token) => format!(
            "token, shown only now:\n  {token}\nline for the daemon's file of tokens:\n  {line}"
        ),
        None => line.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(role: RoleName, nodes: &[&str], name: Option<&str>) -> Result<String, String> {
        let nodes = nodes.iter().map(ToString::to_string).collect();
        let name = name.map(str::to_owned);
        let valid = Some(parse_span("90d").unwrap());
        line(&New { role, nodes, name, valid, out: None, json: false }, &Secret::new().unwrap())
    }

    #[test]
    fn a_token_s_file_is_its_owner_s_and_is_never_overwritten() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.token");
        let secret = Secret::new().unwrap();
        keep(&secret, &file).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{}\n", secret.reveal()));
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(keep(&Secret::new().unwrap(), &file).is_err());
        assert!(std::fs::read_to_string(&file).unwrap().contains(secret.reveal()));
    }

    #[test]
    fn an_agent_is_called_as_its_node_and_others_have_a_name() {
        let line = made(RoleName::Agent, &["node01"], None).unwrap();
        assert!(line.starts_with("node01 agent sha256:"), "{line}");
        assert!(line.contains(" nodes=node01 until=2") && line.ends_with('Z'), "{line}");
        for (role, nodes, name, expected) in [
            (RoleName::Agent, &["node[01-02]"][..], None, "give it a name"),
            (RoleName::Agent, &["n1", "n2"], None, "give it a name"),
            (RoleName::Agent, &[], Some("a"), "add nodes="),
            (RoleName::Reader, &["n1"], Some("a"), "only agents speak for nodes"),
            (RoleName::Operator, &[], None, "--name"),
            (RoleName::Operator, &[], Some("a b"), "is no role"),
        ] {
            let said = made(role, nodes, name).unwrap_err();
            assert!(said.contains(expected), "{said}");
        }
        assert!(parse_span("0s").is_err() && parse_span("soon").is_err());
        for valid in ["1y", "6mo", "2w", "90d", "12h"] {
            let until = expiry(parse_span(valid).unwrap()).unwrap();
            assert!(Timestamp::now() < until, "{valid}");
        }
    }
}
