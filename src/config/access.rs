//! Access to the daemon, as configured: files of tokens and certificates, and the unix socket.
//!
//! The configuration holds only the paths of the files. The daemon reads the files at its start,
//! and again on `SIGHUP`. A network address without tokens and TLS is refused here.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::problem::{Code, ConfigProblem, ValuePlace};
use super::section::Section;
use super::setting::Setting;
use super::value::{flag, ids, optional_path};

/// Settings of `[daemon.access]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The file of tokens. `None`: clients on TCP need no token.
    pub tokens: Option<PathBuf>,
    /// The chain of certificates for TLS, in PEM. Given with `key`, or neither.
    pub certificate: Option<PathBuf>,
    /// The key that goes with it, in PEM.
    pub key: Option<PathBuf>,
    /// The unix socket. `None`: there is none.
    pub socket: Option<PathBuf>,
    /// Local users that are operators at the socket, besides root and the daemon's user.
    pub operators: Vec<u32>,
    /// Primary groups whose members are operators at the socket.
    pub operator_groups: Vec<u32>,
    /// True if local users that are not operators may read at the socket.
    pub local_readers: bool,
}

impl Default for Access {
    fn default() -> Access {
        Access {
            tokens: None,
            certificate: None,
            key: None,
            socket: None,
            operators: Vec::new(),
            operator_groups: Vec::new(),
            local_readers: true,
        }
    }
}

pub(super) fn read_access(mut section: Section<'_>) -> Access {
    let defaults = Access::default();
    let certificate = section.default_to("certificate", &optional_path(), &None);
    let key = section.default_to("key", &optional_path(), &None);
    let path = |setting: &Setting<Option<PathBuf>>| setting.clone().or(None);
    let mut access = Access {
        tokens: section.or("tokens", &optional_path(), None),
        certificate: path(&certificate),
        key: path(&key),
        socket: section.or("socket", &optional_path(), None),
        operators: section.or("operators", &ids(), defaults.operators),
        operator_groups: section.or("operator_groups", &ids(), defaults.operator_groups),
        local_readers: section.or("local_readers", &flag(), defaults.local_readers),
    };
    if access.certificate.is_some() != access.key.is_some() {
        let (given, other) = match access.key {
            None => ("certificate", "key"),
            Some(_) => ("key", "certificate"),
        };
        let place = if access.key.is_none() { certificate.place() } else { key.place() };
        let message = format!("daemon.access.{given}: has no effect without a {other}");
        let remedy = format!("add daemon.access.{other}, or remove this");
        let place = place.cloned().unwrap_or(ValuePlace::File(0..0));
        let path = format!("daemon.access.{given}");
        section.complain(ConfigProblem::new(Code::Secrets, &path, &place, message).remedy(remedy));
        (access.certificate, access.key) = (None, None);
    }
    section.finish();
    access
}

/// Refuses an address that other hosts reach, unless clients need tokens and TLS encrypts the
/// connection.
pub(super) fn check_listen(
    listen: &Setting<SocketAddr>,
    access: &Access,
    section: &mut Section<'_>,
) {
    let Setting::Given(address) = listen else { return };
    let missing = [
        (access.tokens.is_none(), "daemon.access.tokens"),
        (access.certificate.is_none(), "daemon.access.certificate and daemon.access.key"),
    ];
    let missing: Vec<&str> =
        missing.iter().filter(|(is_missing, _)| *is_missing).map(|(_, path)| *path).collect();
    if address.value.ip().is_loopback() || missing.is_empty() {
        return;
    }
    let message = format!(
        "daemon.listen: \"{}\" can be reached from other machines; that takes {}",
        address.value,
        missing.join(", ")
    );
    let remedy = "configure tokens and TLS, so that clients need a token and the connection is encrypted; or listen on 127.0.0.1 or [::1]";
    let problem = ConfigProblem::new(Code::Listen, "daemon.listen", &address.place, message);
    section.complain(problem.remedy(remedy));
}
