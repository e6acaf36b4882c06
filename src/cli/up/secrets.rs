//! The secrets of `apportion up`: other users of this machine reach its ports, and get no further.

use std::fs;
use std::path::PathBuf;

use jiff::Timestamp;

use super::super::failure::{Failure, FailureKind};
use super::super::user_name::own_name;
use super::folder::{Folder, write_private};
use crate::auth::{Role, Secret, new_line};

/// The file of tokens.
pub const TOKENS: &str = "tokens";

/// A token: the file that holds it, its role, and what stands before its lines of the file of tokens.
#[derive(Clone, Copy, Debug)]
struct TokenKind {
    file: &'static str,
    role: Role,
    /// `None`: the user that called `apportion up`.
    name: Option<&'static str>,
}

/// The file with the token of the user that called `apportion up`.
pub const OWN_TOKEN: &str = "own.token";

const OWN: TokenKind = TokenKind { file: OWN_TOKEN, role: Role::Operator, name: None };
const AGENT: TokenKind =
    TokenKind { file: "agent.token", role: Role::Agent, name: Some("up-agent") };

/// The token for agents in the join file.
pub const JOIN_AGENT: &str = "join-agent.token";
/// The token that submits in the join file.
pub const JOIN_SUBMITTER: &str = "join-submitter.token";
/// The name of the agents that join.
const JOINING: &str = "join-agent";

/// The files of tokens, which only their owner may read.
#[derive(Clone, Debug)]
pub struct Secrets {
    /// The sums and roles of all tokens.
    pub tokens: PathBuf,
    /// The token of the user that called `apportion up`.
    pub own: PathBuf,
    /// The token of the agent on this machine.
    pub agent: PathBuf,
}

impl Secrets {
    /// The tokens in the folder. They are made where they are not there; the other ones stay good.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn ensure(folder: &Folder) -> Result<Secrets, Failure> {
        let [own, agent] = [OWN, AGENT].map(|kind| folder.at(kind.file));
        let secrets = Secrets { tokens: folder.at(TOKENS), own, agent };
        let all = [&secrets.tokens, &secrets.own, &secrets.agent];
        if !all.into_iter().all(|path| path.exists()) {
            for kind in [OWN, AGENT] {
                let name = kind.name.map_or_else(user_name, str::to_owned);
                secrets.replace(folder, kind, &name, None)?;
            }
        }
        Ok(secrets)
    }

    /// Makes the tokens of the join file anew; the tokens before are worth nothing from now on.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn renew_join(&self, folder: &Folder, until: Timestamp) -> Result<(), Failure> {
        let agent = TokenKind { file: JOIN_AGENT, role: Role::Agent, name: None };
        self.replace(folder, agent, JOINING, Some(until))?;
        let submitter = TokenKind { file: JOIN_SUBMITTER, role: Role::Submitter, name: None };
        let name = user_name();
        self.replace(folder, submitter, &name, Some(until))
    }

    /// Until when the tokens of the join file are good.
    pub fn join_until(&self) -> Option<Timestamp> {
        let text = fs::read_to_string(&self.tokens).ok()?;
        let line = text.lines().find(|line| line.starts_with(JOINING))?;
        line.split_whitespace().find_map(|word| word.strip_prefix("until="))?.parse().ok()
    }

    /// Makes a token anew. Its line takes the place of the line of the same name and role.
    fn replace(
        &self,
        folder: &Folder,
        kind: TokenKind,
        name: &str,
        until: Option<Timestamp>,
    ) -> Result<(), Failure> {
        let secret = Secret::new()?;
        let nodes = (kind.role == Role::Agent).then_some("*");
        let line = new_line(&secret, name, kind.role, nodes, until)
            .map_err(|what| Failure::new(FailureKind::Refused, what))?;
        let start = format!("{name} {} ", kind.role);
        let before = fs::read_to_string(&self.tokens).unwrap_or_default();
        let kept = before.lines().filter(|line| !line.starts_with(&start));
        let lines: Vec<&str> = kept.chain([line.as_str()]).collect();
        write_private(&self.tokens, &format!("{}\n", lines.join("\n")))?;
        write_private(&folder.at(kind.file), &format!("{}\n", secret.reveal()))
    }
}

/// The name of the user on record. A name that a file of tokens cannot have is left out.
fn user_name() -> String {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    let name = own_name().filter(|name| name.len() <= 64 && name.chars().all(is_legal));
    name.unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()))
}
