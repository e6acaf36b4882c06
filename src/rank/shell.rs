//! The shell of a gang: runs a command at the rank of a host, as `ssh` would.

use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::message::{FromServer, FromShell, MAX_GREETING, MAX_OUTPUT};
use super::proof::{ProofSide, Proven, draw, holds, prove};
use super::{RankError, file};
use crate::orchestrator::wire::{GangKey, RankPlace};
use crate::slot::wire::{receive, send};

/// Longest time until a rank answers and has proven itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// Options of `ssh` that take a value. They have no meaning here.
const WITH_VALUE: [&str; 6] = ["-o", "-l", "-p", "-i", "-F", "-e"];

/// Runs a command at a rank of the gang in the file at `path`, and returns its exit status. `words` are the
/// arguments of `ssh`: options, which have no meaning here, a host and the words of a command.
///
/// # Errors
///
/// If no such rank is there, or it does not answer.
pub fn shell(path: &Path, words: &[String]) -> Result<u8, RankError> {
    let gang = file::read(path)?;
    let (host, command) = split(words).ok_or(RankError::NoHost)?;
    let place = gang.ranks.iter().zip(0..).find(|(place, _)| place.node == host);
    let Some((place, rank)) = place else {
        return Err(RankError::NoNode { host: host.to_owned(), nodes: file::names(&gang) });
    };
    if rank == gang.rank {
        let mut own = Command::new("/bin/sh");
        return Err(RankError::Start(own.args(["-c", &command]).exec()));
    }
    if rank == 0 {
        return Err(RankError::Leader { host: host.to_owned() });
    }
    let remote = RemoteRank { rank, place, key: &gang.key };
    remote.run(command)
}

/// Splits the arguments of `ssh` into the host and the command.
fn split(words: &[String]) -> Option<(&str, String)> {
    let mut rest = words.iter();
    let host = loop {
        let word = rest.next()?;
        if WITH_VALUE.contains(&word.as_str()) {
            rest.next()?;
        } else if !word.starts_with('-') {
            break word;
        }
    };
    let command: Vec<&str> = rest.map(String::as_str).collect();
    Some((host, command.join(" ")))
}

/// Another rank of the gang.
#[derive(Clone, Copy)]
struct RemoteRank<'a> {
    rank: u64,
    place: &'a RankPlace,
    key: &'a GangKey,
}

impl RemoteRank<'_> {
    fn host(self) -> String {
        self.place.node.clone()
    }

    fn broken(self, source: io::Error) -> RankError {
        RankError::Broken { rank: self.rank, host: self.host(), source }
    }

    fn connect(self) -> Result<TcpStream, RankError> {
        let (address, port) = (self.place.address.as_str(), self.place.port);
        let failed = |source| RankError::Unreachable {
            rank: self.rank,
            host: self.host(),
            address: address.to_owned(),
            source,
        };
        // A name may have several addresses, of which the slot listens on some.
        let all = (address, port).to_socket_addrs().map_err(failed)?;
        let mut tried = Err(io::ErrorKind::NotFound.into());
        for to in all {
            tried = TcpStream::connect_timeout(&to, PATIENCE);
            if tried.is_ok() {
                break;
            }
        }
        let stream = tried.map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        Ok(stream)
    }

    fn run(self, command: String) -> Result<u8, RankError> {
        let mut stream = self.connect()?;
        let broken = |source| self.broken(source);
        let early = || self.broken(io::ErrorKind::UnexpectedEof.into());
        let own = draw().map_err(broken)?;
        let first = receive(&mut stream, MAX_GREETING).map_err(broken)?;
        let Some((FromServer::Greeting { number }, _)) = first else { return Err(early()) };
        let greeting = FromShell::Greeting { number: own.clone() };
        send(&mut stream, &greeting, &[]).map_err(broken)?;
        let second = receive(&mut stream, MAX_GREETING).map_err(broken)?;
        let Some((FromServer::Proof { proof }, _)) = second else { return Err(early()) };
        let proven = Proven { server: &number, shell: &own, command: "" };
        if !holds(self.key, ProofSide::Server, proven, &proof) {
            return Err(RankError::Foreign { rank: self.rank, host: self.host() });
        }
        let proof = prove(self.key, ProofSide::Shell, Proven { command: &command, ..proven });
        send(&mut stream, &FromShell::Run { command, proof }, &[]).map_err(broken)?;
        stream.set_read_timeout(None).map_err(broken)?;
        loop {
            let next = receive(&mut stream, MAX_OUTPUT).map_err(broken)?;
            let Some((message, bytes)) = next else { return Err(early()) };
            match message {
                FromServer::Out => copy(&mut io::stdout(), &bytes).map_err(broken)?,
                FromServer::Err => copy(&mut io::stderr(), &bytes).map_err(broken)?,
                FromServer::Ended { status } => return Ok(status),
                FromServer::Refused { text } => return Err(broken(io::Error::other(text))),
                FromServer::Greeting { .. } | FromServer::Proof { .. } => return Err(early()),
            }
        }
    }
}

fn copy(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_those_of_ssh() {
        let read = |text: &str| {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            split(&words).map(|(host, command)| (host.to_owned(), command))
        };
        let found = |host: &str, command: &str| Some((host.to_owned(), command.to_owned()));
        assert_eq!(read("n2 echo  a"), found("n2", "echo  a"));
        assert_eq!(read("-x -o Batch=yes -l ann n2 hydra -x"), found("n2", "hydra -x"));
        assert_eq!(read("n2"), found("n2", ""));
        assert_eq!((read("-x"), read("-l")), (None, None));
    }
}
