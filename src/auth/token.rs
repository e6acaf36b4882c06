//! Tokens: their making, and the file that lists them.
//!
//! A line a token, words separated by blanks:
//!
//! ```text
//! node01   agent    sha256:… nodes=node01      until=2027-01-31T12:00:00Z
//! ann      operator sha256:…
//! ```
//!
//! A name may have two tokens, so that an old token holds until the new token is everywhere. To
//! revoke a token, delete its line and have the file read again. A single mistake refuses the whole
//! file: half a file would lock a user out, or leave a revoked token valid.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::identity::NodeScope;
use super::role::Role;
use crate::model::{Name, expand_hostlist, is_hidden};

/// Prefix of every token, so that scanners for lost secrets recognize it.
const PREFIX: &str = "apn_";
/// Prefix of a sum.
const SUM: &str = "sha256:";
/// Most tokens of a name.
const PER_NAME: usize = 2;
/// Largest file, in bytes: more than any cluster needs, as the file is read whole.
const LARGEST_FILE: u64 = 16 << 20;

/// Secret of 256 random bits, which `Debug` never prints.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// Makes a new secret from the random numbers of the operating system.
    ///
    /// # Errors
    ///
    /// If the operating system gives no random numbers.
    pub fn new() -> io::Result<Secret> {
        let mut bits = [0; 32];
        getrandom::fill(&mut bits).map_err(io::Error::other)?;
        Ok(Secret(format!("{PREFIX}{}", hex(&bits))))
    }

    /// Text of the secret, shown once to its future holder.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// SHA-256 sum of the secret.
    pub fn sum(&self) -> TokenSum {
        TokenSum::of(&self.0)
    }
}

/// SHA-256 sum of a secret: the daemon keeps nothing else of it. Compared in constant time.
#[derive(Clone, Copy)]
pub struct TokenSum([u8; 32]);

impl TokenSum {
    /// Returns the sum of a text that a caller presents as a secret.
    pub fn of(text: &str) -> TokenSum {
        TokenSum(Sha256::digest(text).into())
    }

    /// Key for lookups: the first 64 bits of the sum, which tell nothing of the secret.
    pub fn key(&self) -> u64 {
        self.0.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
    }

    fn parse(text: &str) -> Option<TokenSum> {
        let digits = text.strip_prefix(SUM)?.as_bytes();
        let mut sum = [0; 32];
        let (pairs, rest) = digits.as_chunks::<2>();
        if pairs.len() != sum.len() || !rest.is_empty() {
            return None;
        }
        for (byte, pair) in sum.iter_mut().zip(pairs) {
            let digits = pair.iter().all(u8::is_ascii_hexdigit).then_some(pair)?;
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(TokenSum(sum))
    }
}

impl PartialEq for TokenSum {
    fn eq(&self, other: &TokenSum) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenSum {}

impl fmt::Display for TokenSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SUM}{}", hex(&self.0))
    }
}

impl fmt::Debug for TokenSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sum(…)")
    }
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("text takes more text");
        text
    })
}

/// A token as the file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenEntry {
    /// Name of its holder, under which the audit log records its requests.
    pub name: String,
    /// Role that the token grants.
    pub role: Role,
    /// Sum of the token.
    pub sum: TokenSum,
    /// The user that a submitter submits as, `*` for any. `None`: it is no submitter.
    pub user: Option<Name>,
    /// Nodes that an agent may report; empty for every other role.
    pub nodes: NodeScope,
    /// Time of expiry. `None`: the token never expires.
    pub until: Option<Timestamp>,
}

/// Reason why the file of tokens is refused.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum TokenFileError {
    #[error("cannot read the tokens in {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{} can be {what} by others (mode {mode:03o}); it holds who may do what: chmod 600 it",
        path.display()
    )]
    Exposed { path: PathBuf, mode: u32, what: &'static str },
    #[error("{} belongs to user {owner}, neither root nor the daemon's user; chown it", path.display())]
    Owner { path: PathBuf, owner: u32 },
    #[error("{}: line {line}: {what}", path.display())]
    Line { path: PathBuf, line: usize, what: String },
}

/// Every token there is.
#[derive(Clone, Debug, Default)]
pub struct TokenFile {
    /// By the beginning of the sum.
    entries: BTreeMap<u64, Vec<TokenEntry>>,
    /// Line of the first token of the role orchestrator.
    orchestrator_line: Option<usize>,
}

impl TokenFile {
    /// Reads the file at `path`, which only its owner may read or write.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, if other users may read or write it, or at the first mistake in
    /// it.
    pub fn read(path: &Path) -> Result<TokenFile, TokenFileError> {
        let text = read_private(path)?;
        TokenFile::parse(&text).map_err(|(line, what)| TokenFileError::Line {
            path: path.to_owned(),
            line,
            what,
        })
    }

    fn parse(text: &str) -> Result<TokenFile, (usize, String)> {
        let mut file = TokenFile::default();
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let entry = entry(line).map_err(|what| (number, what))?;
            if file.find_sum(&entry.sum).is_some() {
                return Err((number, "this sum is in the file already".to_owned()));
            }
            let uses = names.entry(entry.name.clone()).or_default();
            *uses += 1;
            if PER_NAME < *uses {
                let name = &entry.name;
                let what = format!(
                    "`{name}` has {PER_NAME} tokens already, an old one and a new one; delete one"
                );
                return Err((number, what));
            }
            if entry.role == Role::Orchestrator {
                file.orchestrator_line.get_or_insert(number);
            }
            file.entries.entry(entry.sum.key()).or_default().push(entry);
        }
        Ok(file)
    }

    /// Count of tokens.
    pub fn len(&self) -> usize {
        self.entries.values().map(Vec::len).sum()
    }

    /// True if there is no token.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All of them, in no order that means anything.
    pub fn entries(&self) -> impl Iterator<Item = &TokenEntry> {
        self.entries.values().flatten()
    }

    /// The line of the first token of the role orchestrator, from 1. `None`: there is none.
    pub fn orchestrator_line(&self) -> Option<usize> {
        self.orchestrator_line
    }

    /// The token that has this sum.
    pub fn find_sum(&self, sum: &TokenSum) -> Option<&TokenEntry> {
        self.entries.get(&sum.key())?.iter().find(|entry| entry.sum == *sum)
    }
}

/// Parses a line of the file.
fn entry(line: &str) -> Result<TokenEntry, String> {
    let mut words = line.split_whitespace();
    let mut next = |what: &str| {
        words.next().ok_or_else(|| {
            format!("{what} is missing; a line is: NAME ROLE sha256:… [nodes=…] [user=…] [until=…]")
        })
    };
    let name = next("the name")?.to_owned();
    check_name(&name)?;
    let role = next("the role")?;
    let role = Role::named(role).ok_or_else(|| {
        let roles = Role::ALL.map(Role::as_str).join(", ");
        format!("`{}` is no role; roles are {roles}", shown(role))
    })?;
    let sum = next("the sum")?;
    let sum = TokenSum::parse(sum).ok_or_else(|| {
        // Not shown: it may be the token itself.
        "the third word is `sha256:` and 64 hexadecimal digits; `apportion token new` prints it"
            .to_owned()
    })?;
    let (mut nodes, mut until, mut user) = (None, None, None);
    for word in words {
        match word.split_once('=') {
            Some(("nodes", "*")) if nodes.is_none() => nodes = Some(NodeScope::All),
            Some(("nodes", list)) if nodes.is_none() => {
                nodes = Some(NodeScope::Only(Arc::new(node_set(list)?)));
            }
            Some(("user", name)) if user.is_none() && role == Role::Submitter => {
                if name != "*" {
                    check_name(name)?;
                }
                user = Some(Name::from(name));
            }
            Some(("until", time)) if until.is_none() => {
                let time: Timestamp = time.parse().map_err(|_| {
                    format!("`{}` is no time; write 2027-01-31T12:00:00Z", shown(time))
                })?;
                until = Some(time);
            }
            _ => return Err(format!("`{}` is not understood, or given twice", shown(word))),
        }
    }
    let nodes = match (role, nodes) {
        (Role::Agent, Some(nodes)) => nodes,
        (Role::Agent, None) => return Err("an agent speaks for nodes; add nodes=…".to_owned()),
        (_, Some(_)) => return Err(format!("only agents speak for nodes, and this is a {role}")),
        (_, None) => NodeScope::none(),
    };
    // A submitter submits as the user of its own name, unless its line names another user.
    let own = || (role == Role::Submitter).then(|| Name::from(name.as_str()));
    let user = user.or_else(own);
    Ok(TokenEntry { name, role, sum, user, nodes, until })
}

fn check_name(name: &str) -> Result<(), String> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    if name.chars().all(is_legal) && (1..=64).contains(&name.len()) {
        return Ok(());
    }
    Err(format!("`{}` is no name: 1 to 64 ASCII letters, digits and `._-@`", shown(name)))
}

fn node_set(list: &str) -> Result<BTreeSet<String>, String> {
    let names = expand_hostlist(list)
        .map_err(|error| format!("`{}` is no host list: {error}", shown(list)))?;
    Ok(names.into_iter().collect())
}

fn shown(word: &str) -> String {
    word.chars().take(80).map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// The line for a new token.
///
/// # Errors
///
/// With the mistake in the name or the nodes.
pub fn new_line(
    secret: &Secret,
    name: &str,
    role: Role,
    nodes: Option<&str>,
    until: Option<Timestamp>,
) -> Result<String, String> {
    let nodes = nodes.map(|nodes| format!(" nodes={nodes}")).unwrap_or_default();
    let until = until.map(|until| format!(" until={until}")).unwrap_or_default();
    let line = format!("{name} {role} {}{nodes}{until}", secret.sum());
    entry(&line).map(|_| line)
}

/// Reads a file that only its owner may read or write; the owner is root or the daemon's user. The
/// open file is checked, so that no other file can take its place in between.
pub(crate) fn read_private(path: &Path) -> Result<String, TokenFileError> {
    let unreadable = |source| TokenFileError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let facts = file.metadata().map_err(unreadable)?;
    let mode = facts.mode() & 0o777;
    let what = match (mode & 0o022, mode & 0o044) {
        (0, 0) => None,
        (0, _) => Some("read"),
        _ => Some("written"),
    };
    if let Some(what) = what {
        return Err(TokenFileError::Exposed { path: path.to_owned(), mode, what });
    }
    if ![0, rustix::process::geteuid().as_raw()].contains(&facts.uid()) {
        return Err(TokenFileError::Owner { path: path.to_owned(), owner: facts.uid() });
    }
    let mut text = String::new();
    file.take(LARGEST_FILE).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const SUM_1: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000001";
    const SUM_2: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000002";
    const SUM_3: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000003";

    #[test]
    fn a_new_token_is_found_by_its_secret_and_by_nothing_else() {
        let (secret, other) = (Secret::new().unwrap(), Secret::new().unwrap());
        assert_ne!(secret, other);
        assert_eq!((secret.reveal().len(), format!("{secret:?}").as_str()), (68, "Secret(…)"));
        let line = new_line(&secret, "batch", Role::Agent, Some("node[01-03],x"), None).unwrap();
        assert!(!line.contains(&secret.reveal()[4..]), "{line}");
        let file = TokenFile::parse(&line).unwrap();
        let found = file.find_sum(&TokenSum::of(secret.reveal())).unwrap();
        assert_eq!((found.name.as_str(), found.role), ("batch", Role::Agent));
        for (node, is_its) in
            [("node02", true), ("x", true), ("node04", false), ("Node02", false), ("x.", false)]
        {
            assert_eq!(found.nodes.contain(node), is_its, "{node}");
        }
        assert_eq!(file.find_sum(&TokenSum::of(other.reveal())), None);
        assert_eq!(file.find_sum(&TokenSum::of(&line)), None);
    }

    #[test]
    fn mistakes_are_named_by_their_line_and_no_secret_is_shown() {
        let cases = [
            (format!("a reader {SUM_1}\na reader {SUM_2} # both hold"), ""),
            (
                format!("a reader {SUM_1}\n\n\na reader {SUM_1}"),
                "4: this sum is in the file already",
            ),
            (
                format!("a reader {SUM_1}\na reader {SUM_2}\na operator {SUM_3}"),
                "3: `a` has 2 tokens already",
            ),
            ("a".to_owned(), "1: the role is missing"),
            (format!("a admin {SUM_1}"), "1: `admin` is no role; roles are reader, agent"),
            ("a reader apn_secret".to_owned(), "1: the third word is `sha256:` and 64"),
            (format!("a reader {SUM_1}0"), "1: the third word"),
            (format!("a agent {SUM_1}"), "1: an agent speaks for nodes"),
            (format!("a reader {SUM_1} nodes=n1"), "1: only agents speak for nodes"),
            (format!("a agent {SUM_1} nodes=n[2-1]"), "1: `n[2-1]` is no host list"),
            (format!("a reader {SUM_1} until=tomorrow"), "1: `tomorrow` is no time"),
            (format!("a reader {SUM_1} admin"), "1: `admin` is not understood"),
            (format!("ä reader {SUM_1}"), "1: `ä` is no name"),
        ];
        for (text, expected) in cases {
            let said = TokenFile::parse(&text).err();
            let said = said.map(|(line, what)| format!("{line}: {what}")).unwrap_or_default();
            assert!(said.starts_with(expected), "{text}: {said}");
            assert!(!said.contains("apn_"), "{said}");
        }
    }

    #[test]
    fn a_file_that_others_may_read_or_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, format!("a reader {SUM_1}\n")).unwrap();
        for (mode, expected) in [
            (0o600, ""),
            (0o400, ""),
            (0o640, "can be read by others (mode 640)"),
            (0o604, "can be read by others"),
            (0o620, "can be written by others"),
            (0o602, "can be written by others"),
        ] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let said = TokenFile::read(&path).err().map(|error| error.to_string());
            let said = said.unwrap_or_default();
            assert!(said.contains(expected), "{mode:o}: {said}");
            assert_eq!(said.is_empty(), expected.is_empty(), "{mode:o}: {said}");
        }
    }
}
