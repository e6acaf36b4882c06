//! The command lines of the two processes of `apportion up`.

use std::ffi::OsString;
use std::path::Path;

use rustix::process::getuid;

use super::super::user_name::own_name;
use super::folder::{Folder, UpRecord};
use super::secrets::Secrets;

/// A command line of words, and of flags with paths.
pub fn words(words: &[&str], paths: &[(&str, &Path)]) -> Vec<OsString> {
    let paths = paths.iter().flat_map(|(flag, path)| [OsString::from(flag), path.into()]);
    words.iter().map(OsString::from).chain(paths).collect()
}

/// For the daemon.
pub fn for_daemon(
    listen: &str,
    config: &Path,
    secrets: &Secrets,
    more: Vec<OsString>,
) -> Vec<OsString> {
    let mut tokens = OsString::from("daemon.access.tokens=");
    tokens.push(&secrets.tokens);
    let mut flags = words(&["serve", "--handed-over", "--listen", listen], &[("--config", config)]);
    flags.extend(["--set".into(), tokens]);
    flags.extend(more);
    flags
}

/// For the agent of this machine.
pub fn for_agent(
    found: &UpRecord,
    folder: &Folder,
    secrets: &Secrets,
    more: Vec<OsString>,
) -> Vec<OsString> {
    let UpRecord { daemon, orchestrator, .. } = found;
    let mut flags = vec!["agent", "--run", "--url", daemon, "--orchestrator", orchestrator];
    flags.extend(["--interval", "5s"]);
    let own = own_name().unwrap_or_default();
    if getuid().is_root() {
        // An agent of root would also serve further users; this agent is for the caller alone.
        flags.extend(["--allow-root", "--users", &own]);
    }
    let spool = folder.at("spool");
    let mut flags = words(&flags, &[("--spool", &spool), ("--token-file", &secrets.agent)]);
    flags.extend(more);
    flags
}
