//! Part of `apportion up` for several machines: an address that they reach, by TLS.

use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use jiff::{Timestamp, ToSpan};

use super::super::failure::Failure;
use super::addresses::host_name;
use super::args::UpArgs;
use super::authority::Certificates;
use super::folder::{Elsewhere, Folder, UpRecord};
use super::join::{Join, VALID_HOURS};
use super::secrets::{JOIN_AGENT, JOIN_SUBMITTER, Secrets};

/// Address of this machine for other machines.
#[derive(Clone, Debug)]
pub struct Public {
    certificates: Certificates,
    /// The name or address in the join file.
    host: String,
    file: PathBuf,
}

impl Public {
    /// Makes a certificate, and the tokens of the join file where they are wanted or have expired.
    ///
    /// # Errors
    ///
    /// If that cannot be written.
    pub fn open(
        args: &UpArgs,
        listen: SocketAddr,
        folder: &Folder,
        secrets: &Secrets,
    ) -> Result<Public, Failure> {
        let name = host_name();
        let host = match &args.host {
            Some(host) => host.clone(),
            None if listen.ip().is_unspecified() => name.clone(),
            None => listen.ip().to_string(),
        };
        let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
        let short = name.split('.').next().unwrap_or_default().to_owned();
        let others = [short, name, host.clone(), listen.ip().to_string()];
        names.extend(others.into_iter().filter(|name| !name.is_empty()));
        let certificates = Certificates::make(folder, &names)?;
        let is_good = secrets.join_until().is_some_and(|until| Timestamp::now() < until);
        let is_there = [JOIN_AGENT, JOIN_SUBMITTER].iter().all(|file| folder.at(file).exists());
        if args.rejoin || !is_good || !is_there {
            let until = Timestamp::now().checked_add(VALID_HOURS.hours())?;
            secrets.renew_join(folder, Timestamp::from_second(until.as_second())?)?;
        }
        Ok(Public { certificates, host, file: std::path::absolute(&args.join_file)? })
    }

    /// Flags for the daemon.
    pub fn for_daemon(&self) -> Vec<OsString> {
        let Certificates { certificate, key, .. } = &self.certificates;
        let settings = [("certificate", certificate), ("key", key)];
        let flag = |(name, path): (&str, &PathBuf)| {
            let mut setting = OsString::from(format!("daemon.access.{name}="));
            setting.push(path);
            [OsString::from("--set"), setting]
        };
        settings.into_iter().flat_map(flag).collect()
    }

    /// Flags for the agent on this machine.
    pub fn for_agent(&self) -> Vec<OsString> {
        super::flags::words(&[], &[("--ca", &self.certificates.authority)])
    }

    /// Tells commands in this folder how they come in, here and on machines that share the folder.
    pub fn enter(&self, found: &mut UpRecord) {
        found.authority = Some(self.certificates.authority.clone());
        let beyond = |own: &str| self.beyond(own);
        let (daemon, orchestrator) = (beyond(&found.daemon), beyond(&found.orchestrator));
        found.elsewhere = Some(Elsewhere { host: host_name(), daemon, orchestrator });
    }

    /// Returns a URL of this machine, as other machines write it.
    fn beyond(&self, own: &str) -> String {
        let port = own.rsplit_once(':').map_or("", |(_, port)| port);
        match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) => format!("https://[{address}]:{port}"),
            Ok(IpAddr::V4(_)) | Err(_) => format!("https://{}:{port}", self.host),
        }
    }

    /// Writes the join file. Returns its path.
    ///
    /// # Errors
    ///
    /// If that fails.
    pub fn write(
        &self,
        folder: &Folder,
        secrets: &Secrets,
        found: &UpRecord,
    ) -> Result<PathBuf, Failure> {
        let read = |name: &str| fs::read_to_string(folder.at(name));
        let join = Join {
            daemon: self.beyond(&found.daemon),
            orchestrator: self.beyond(&found.orchestrator),
            until: secrets.join_until().unwrap_or_default(),
            authority: fs::read_to_string(&self.certificates.authority)?,
            agent_token: read(JOIN_AGENT)?,
            submitter_token: read(JOIN_SUBMITTER)?,
        };
        join.write(&self.file)?;
        Ok(self.file.clone())
    }
}
