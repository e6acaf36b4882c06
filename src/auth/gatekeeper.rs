//! Authentication and authorization of every request.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use jiff::Timestamp;

use super::identity::{Identity, NodeScope, Peer};
use super::places::network_of;
use super::rates::{Rate, Rates};
use super::role::{Permission, Role};
use super::sessions::Sessions;
use super::tls::{Tls, TlsError};
use super::token::{Secret, TokenFile, TokenFileError, TokenSum};
use crate::config::{Access, Limits};

/// Refusals of a name that the audit log takes at once, and the interval after which a further
/// refusal is taken.
const REFUSALS_AT_ONCE: u32 = 20;
const REFUSAL_EVERY: Duration = Duration::from_mins(1);

/// Names with a budget of their own. Further names share the budget of unknown callers.
const NAMES_MAX: usize = 10_000;

/// Credential that a request carries.
#[derive(Clone, Copy)]
pub enum Credential<'a> {
    /// No credential.
    Nothing,
    /// A token, in the header `Authorization`.
    Token(&'a str),
    /// A session, in a cookie.
    Session(&'a str),
    /// A header `Authorization` that holds no bearer token.
    Unreadable,
}

/// Reason why a request is refused. For the audit log and the log: the caller learns less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessRefusal {
    /// The caller is not authenticated: the reason, and the name of the caller where it is known.
    Unknown(&'static str, Option<String>),
    /// The caller is authenticated, but its role does not permit the request.
    NotAllowed,
    /// The caller exceeds its rate; the time to wait.
    TooOften(Duration),
}

/// Reason why authentication cannot be set up.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum AccessError {
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Result of reading a file again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reread {
    /// Kind of file: `tokens` or `certificate`.
    pub what: &'static str,
    /// Summary of the new content, or the error that keeps the earlier content in effect.
    pub outcome: Result<String, String>,
}

/// Rights of a local user at the unix socket, by the kernel's user id and the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalRights {
    /// Root, or the user that the daemon runs as.
    Own,
    /// A configured operator.
    Operator,
    /// Any other user.
    Other,
}

/// Knows the tokens, the sessions and the rates.
pub struct Authenticator {
    settings: Access,
    limits: Limits,
    own_uid: u32,
    tokens: Option<(PathBuf, ArcSwap<TokenFile>)>,
    /// True if the daemon's own orchestrator publishes, and no other orchestrator may.
    publishes_itself: bool,
    tls: Option<Tls>,
    sessions: Sessions,
    rates: Rates,
    /// Budgets of refusals for each known name; `None`: for unknown callers.
    budgets: Mutex<BTreeMap<Option<String>, Budget>>,
}

/// Refusals that may be recorded now, and refusals dropped since the last recorded refusal.
#[derive(Debug)]
struct Budget {
    left: u32,
    since: Instant,
    dropped: u64,
}

impl fmt::Debug for Credential<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(…)")
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gatekeeper").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Authenticator {
    /// Reads the configured files.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, is wrong, or is readable by other users.
    pub fn open(settings: &Access, limits: &Limits) -> Result<Authenticator, AccessError> {
        let tokens = match &settings.tokens {
            Some(path) => Some((path.clone(), ArcSwap::from_pointee(read_tokens(path)?))),
            None => None,
        };
        let tls = match settings.certificate.as_ref().zip(settings.key.as_ref()) {
            Some((certificate, key)) => Some(Tls::open(certificate, key)?),
            None => None,
        };
        Ok(Authenticator {
            settings: settings.clone(),
            limits: *limits,
            own_uid: rustix::process::geteuid().as_raw(),
            tokens,
            publishes_itself: false,
            tls,
            sessions: Sessions::default(),
            rates: Rates::default(),
            budgets: Mutex::default(),
        })
    }

    /// Permits publications of the daemon's own orchestrator only. Tokens of the role orchestrator
    /// are refused from now on.
    ///
    /// # Errors
    ///
    /// If the file holds a token of the role orchestrator; the error names its line.
    pub fn publishing_itself(mut self) -> Result<Authenticator, AccessError> {
        self.publishes_itself = true;
        if let Some((path, tokens)) = &self.tokens {
            no_other_publisher(path, &tokens.load())?;
        }
        Ok(self)
    }

    /// True if every client on TCP needs a token.
    pub fn wants_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// TLS of the TCP listener. `None`: TCP is not encrypted.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Most connections on TCP in all, and most from a single address.
    pub fn connections(&self) -> (usize, usize) {
        (self.limits.connections, self.limits.connections_per_peer)
    }

    /// Authenticates the caller at `peer` that shows `credential`.
    ///
    /// # Errors
    ///
    /// With the reason, if the credential is missing, unknown or expired.
    pub fn identify(
        &self,
        peer: Peer,
        credential: Credential<'_>,
    ) -> Result<Identity, AccessRefusal> {
        let unknown = |why| AccessRefusal::Unknown(why, None);
        let Some((_, tokens)) = &self.tokens else {
            return match peer {
                Peer::Tcp { .. } => Ok(Identity::unidentified(peer)),
                Peer::Local { uid, gid, .. } => self.local(peer, uid, gid),
                Peer::Inside => Ok(Identity::own_orchestrator()),
            };
        };
        let sum = match (credential, peer) {
            (Credential::Nothing, Peer::Local { uid, gid, .. }) => {
                return self.local(peer, uid, gid);
            }
            (_, Peer::Inside) => return Ok(Identity::own_orchestrator()),
            (Credential::Nothing, Peer::Tcp { .. }) => return Err(unknown("no token")),
            (Credential::Unreadable, _) => return Err(unknown("no bearer token")),
            (Credential::Token(token), _) => TokenSum::of(token),
            (Credential::Session(secret), _) => {
                let token = self.sessions.token(secret, Instant::now());
                token.ok_or(unknown("no such session"))?
            }
        };
        let tokens = tokens.load();
        let entry = tokens.find_sum(&sum).ok_or(unknown("no such token"))?;
        if entry.until.is_some_and(|until| until <= Timestamp::now()) {
            return Err(AccessRefusal::Unknown("the token has expired", Some(entry.name.clone())));
        }
        Ok(Identity {
            name: entry.name.as_str().into(),
            role: Some(entry.role),
            user: entry.user.clone(),
            nodes: entry.nodes.clone(),
            peer,
        })
    }

    /// Returns the rights of the local user `uid` with primary group `gid`.
    pub fn standing(&self, uid: u32, gid: u32) -> LocalRights {
        let Access { operators, operator_groups, .. } = &self.settings;
        if uid == 0 || uid == self.own_uid {
            LocalRights::Own
        } else if operators.contains(&uid) || operator_groups.contains(&gid) {
            LocalRights::Operator
        } else {
            LocalRights::Other
        }
    }

    /// Authenticates a local process by its user and group.
    fn local(&self, peer: Peer, uid: u32, gid: u32) -> Result<Identity, AccessRefusal> {
        let name = if uid == 0 { "root".to_owned() } else { format!("uid {uid}") };
        let role = match (self.standing(uid, gid), self.settings.local_readers) {
            (LocalRights::Own | LocalRights::Operator, _) => Role::Operator,
            (LocalRights::Other, true) => Role::Reader,
            (LocalRights::Other, false) => {
                return Err(AccessRefusal::Unknown(
                    "the local user is not an operator",
                    Some(name),
                ));
            }
        };
        Ok(Identity {
            name: name.into(),
            role: Some(role),
            user: None,
            nodes: NodeScope::none(),
            peer,
        })
    }

    /// Checks that `rule` permits `identity`, and that `identity` keeps to its rate. Operators have
    /// no rate.
    ///
    /// # Errors
    ///
    /// With the reason of the refusal.
    pub fn admit(&self, identity: &Identity, rule: Permission) -> Result<(), AccessRefusal> {
        if !identity.may(rule) {
            return Err(AccessRefusal::NotAllowed);
        }
        let Limits { reader_rate, agent_rate, orchestrator_rate, .. } = self.limits;
        let rate = match identity.role {
            Some(Role::Reader | Role::Submitter) => reader_rate,
            Some(Role::Agent) => agent_rate,
            Some(Role::Orchestrator) => orchestrator_rate,
            Some(Role::Operator) | None => return Ok(()),
        };
        let address = address(identity.peer);
        let asked = self.rates.take(&identity.name, address, Rate(rate), Instant::now());
        asked.map_err(AccessRefusal::TooOften)
    }

    /// Opens a session for the holder of this token.
    ///
    /// # Errors
    ///
    /// If the token is refused, or the system has no random numbers.
    pub fn log_in(&self, peer: Peer, token: &str) -> Result<(Identity, Secret), AccessRefusal> {
        let identity = self.identify(peer, Credential::Token(token))?;
        let secret = self.sessions.open(TokenSum::of(token), Instant::now());
        let secret = secret.map_err(|error: io::Error| {
            tracing::error!(%error, "the operating system gives no random numbers");
            AccessRefusal::Unknown("cannot make a session", None)
        })?;
        Ok((identity, secret))
    }

    /// Ends a session.
    pub fn log_out(&self, secret: &str) {
        self.sessions.close(secret);
    }

    /// Reads the files again. A file that is wrong changes nothing.
    pub fn reread(&self) -> Vec<Reread> {
        let mut all = Vec::new();
        if let Some((path, tokens)) = &self.tokens {
            let read = read_tokens(path).and_then(|file| {
                if self.publishes_itself {
                    no_other_publisher(path, &file)?;
                }
                Ok(file)
            });
            let read = read.map(|file| {
                let count = file.len();
                tokens.store(file.into());
                format!("{count} tokens")
            });
            all.push(Reread { what: "tokens", outcome: read.map_err(|error| told(&error)) });
        }
        if let Some(tls) = &self.tls {
            let read = tls.reread().map(|()| "the certificate and its key".to_owned());
            all.push(Reread { what: "certificate", outcome: read.map_err(|error| told(&error)) });
        }
        for Reread { what, outcome } in &all {
            match outcome {
                Ok(now) => tracing::info!(what, now, "read again"),
                Err(why) => tracing::error!(
                    what,
                    why,
                    "not read again; the earlier content stays in effect"
                ),
            }
        }
        all
    }

    /// Returns the count of refusals dropped since the last recorded refusal of `name`; `None` if
    /// this refusal is dropped too. All unknown callers share a budget, so their noise hides no
    /// attempt under a known name.
    pub fn may_record_refusal(&self, name: Option<&str>, now: Instant) -> Option<u64> {
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        let is_room = budgets.len() < NAMES_MAX;
        let name = name.filter(|name| is_room || budgets.contains_key(&Some((*name).to_owned())));
        let whole = Budget { left: REFUSALS_AT_ONCE, since: now, dropped: 0 };
        budgets.entry(name.map(str::to_owned)).or_insert(whole).take(now)
    }
}

impl Budget {
    fn take(&mut self, now: Instant) -> Option<u64> {
        let passed = now.saturating_duration_since(self.since);
        if REFUSAL_EVERY <= passed {
            let more = passed.as_secs().checked_div(REFUSAL_EVERY.as_secs()).unwrap_or(0);
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(more).min(REFUSALS_AT_ONCE);
            self.since = now;
        }
        if self.left == 0 {
            self.dropped += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.dropped))
    }
}

/// Reads the tokens of a file. An empty file is accepted with a warning: an administrator may mean
/// it so, or may be writing it at the moment.
fn read_tokens(path: &Path) -> Result<TokenFile, TokenFileError> {
    let file = TokenFile::read(path)?;
    if file.is_empty() {
        tracing::warn!(
            file = %path.display(),
            "the file holds no token, so callers are admitted at the unix socket only; send SIGHUP to read it again"
        );
    }
    Ok(file)
}

/// Refuses a file with a token for an orchestrator besides the daemon's own.
fn no_other_publisher(path: &Path, file: &TokenFile) -> Result<(), TokenFileError> {
    let Some(line) = file.orchestrator_line() else { return Ok(()) };
    let what = "this token is for an orchestrator, and the daemon has one of its own (orchestrator.enabled = true): \
                only one can publish; delete this line, or have the daemon go without its own"
        .to_owned();
    Err(TokenFileError::Line { path: path.to_owned(), line, what })
}

/// The address that rates are counted by.
fn address(peer: Peer) -> Option<IpAddr> {
    match peer {
        Peer::Tcp { address, .. } => Some(network_of(address.ip())),
        Peer::Local { .. } | Peer::Inside => None,
    }
}

/// Returns an error with its causes on a single line.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gatekeeper(change: impl FnOnce(&mut Access)) -> Authenticator {
        let mut settings = Access::default();
        change(&mut settings);
        let mut gatekeeper = Authenticator::open(&settings, &Limits::default()).unwrap();
        gatekeeper.own_uid = 500;
        gatekeeper
    }

    #[test]
    fn the_kernel_says_who_is_at_the_socket_and_the_configuration_what_they_are() {
        let gatekeeper = gatekeeper(|settings| {
            settings.operators = vec![1000];
            settings.operator_groups = vec![27];
        });
        let role = |gatekeeper: &Authenticator, uid, gid| {
            let peer = Peer::Local { uid, gid, pid: None };
            gatekeeper.identify(peer, Credential::Nothing).ok().and_then(|identity| identity.role)
        };
        for (uid, gid, expected) in [
            (0, 0, Role::Operator),
            (500, 500, Role::Operator),
            (1000, 100, Role::Operator),
            (1001, 27, Role::Operator),
            (1001, 100, Role::Reader),
            (27, 1000, Role::Reader),
        ] {
            assert_eq!(role(&gatekeeper, uid, gid), Some(expected), "{uid} {gid}");
        }
        let closed = self::gatekeeper(|settings| settings.local_readers = false);
        assert_eq!(role(&closed, 1001, 100), None);
        assert_eq!(role(&closed, 0, 0), Some(Role::Operator));
    }

    #[test]
    fn refusals_cannot_fill_the_record_nor_hide_those_of_others() {
        let gatekeeper = gatekeeper(|_| {});
        let now = Instant::now();
        let refuse = |name: Option<&str>, now| gatekeeper.may_record_refusal(name, now);
        assert_eq!((0..1000).filter_map(|_| refuse(None, now)).count(), 20);
        assert_eq!((0..1000).filter_map(|_| refuse(Some("n1"), now)).count(), 20);
        assert_eq!(refuse(Some("n2"), now), Some(0), "a name that was quiet");
        assert_eq!(refuse(None, now + REFUSAL_EVERY), Some(980));
        assert_eq!(refuse(None, now + REFUSAL_EVERY), None);
        for name in 0..2 * NAMES_MAX {
            refuse(Some(&name.to_string()), now);
        }
        assert_eq!(gatekeeper.budgets.lock().unwrap().len(), NAMES_MAX, "however many names");
    }
}
