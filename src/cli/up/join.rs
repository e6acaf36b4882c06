//! The file with which other machines join: addresses, the authority, and two tokens.

use std::fs::{self, DirBuilder, File};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use jiff::Timestamp;
use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::super::failure::{Failure, FailureKind};
use super::super::values::parse_url;
use super::folder::{locate, write_private};

/// The variable that names the file for commands on other machines.
pub const VARIABLE: &str = "APPORTION_JOIN";

/// Validity of the tokens in hours: 30 days.
pub const VALID_HOURS: i64 = 30 * 24;

/// The longest file that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// Content of the file.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// Address of the daemon.
    pub daemon: String,
    /// Address of the orchestrator.
    pub orchestrator: String,
    /// End of the validity of the tokens.
    pub until: Timestamp,
    /// The certificate of the authority that vouches for both, in PEM.
    pub authority: String,
    /// The token for agents, for any node.
    pub agent_token: String,
    /// The token that submits campaigns as the user of `apportion up`.
    pub submitter_token: String,
}

impl std::fmt::Debug for Join {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Join").field("daemon", &self.daemon).finish_non_exhaustive()
    }
}

/// Content of the join file, with tokens and certificate in files of their own.
#[derive(Clone, Debug)]
pub struct Joined {
    /// Address of the daemon.
    pub daemon: Url,
    /// Address of the orchestrator.
    pub orchestrator: Url,
    /// The file with the certificate of the authority.
    pub authority: PathBuf,
    /// The file with the token for agents.
    pub agent_token: PathBuf,
    /// The file with the token that submits.
    pub submitter_token: PathBuf,
    /// The folder for the state of this machine.
    pub folder: PathBuf,
}

impl Join {
    /// Writes the file, which only its owner may read.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        write_private(path, &serde_json::to_string_pretty(self)?)
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    ///
    /// If other users may read the file, it is no join file, or its tokens have expired.
    pub fn read(path: &Path) -> Result<Join, Failure> {
        let shown = path.display();
        let refused = |what: String| Failure::new(FailureKind::Refused, what);
        let file = File::open(path).with_context(|| format!("cannot read {shown}"))?;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            let what =
                "holds tokens and can be read by others; chmod 600 it, and renew it with --rejoin";
            return Err(refused(format!("{shown} {what}")));
        }
        let mut text = String::new();
        file.take(LONGEST)
            .read_to_string(&mut text)
            .with_context(|| format!("cannot read {shown}"))?;
        let join: Join = serde_json::from_str(&text).map_err(|error| {
            refused(format!(
                "{shown} is no file to join with ({error}); `apportion up --listen ADDRESS:PORT` writes one"
            ))
        })?;
        if join.until <= Timestamp::now() {
            let what = "renew it: `apportion down`, then `apportion up` with --listen and --rejoin";
            return Err(refused(format!("{shown} was good until {}; {what}", join.until)));
        }
        Ok(join)
    }

    /// Puts tokens and certificate into files of their own, below the usual folder for state.
    ///
    /// # Errors
    ///
    /// If they cannot be written, or the addresses are none.
    pub fn unpack(&self) -> Result<Joined, Failure> {
        let state = locate(None).ok_or_else(|| {
            Failure::new(
                FailureKind::Refused,
                "HOME is not set; name a folder with APPORTION_STATE",
            )
        })?;
        let folder = state.join("joined");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.with_context(|| format!("cannot make {}", folder.display()))?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))
            .with_context(|| format!("{} is not ours", folder.display()))?;
        let keep = |name: &str, text: &str| -> Result<PathBuf, Failure> {
            let path = folder.join(name);
            if fs::read_to_string(&path).is_ok_and(|there| there == text) {
                return Ok(path);
            }
            write_private(&path, text).map(|()| path)
        };
        let url =
            |text: &str| parse_url(text).map_err(|what| Failure::new(FailureKind::Refused, what));
        Ok(Joined {
            daemon: url(&self.daemon)?,
            orchestrator: url(&self.orchestrator)?,
            authority: keep("authority.pem", &self.authority)?,
            agent_token: keep("agent.token", &self.agent_token)?,
            submitter_token: keep("submitter.token", &self.submitter_token)?,
            folder,
        })
    }
}
