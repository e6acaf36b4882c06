//! The configuration that `apportion up` writes once; `serve --config` takes it over later.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::super::failure::Failure;
use super::folder::Folder;
use crate::agent::{HeartbeatSender, Options};
use crate::model::Mebibytes;

/// Quanta in the memory of a machine, at least, and the shift that divides by it.
const SHIFT: u32 = 6;

/// Writes the configuration if there is none, and returns its path. An existing file is never
/// written over. A file without `[orchestrator]`, from before the orchestrator ran in the daemon's
/// process, gets that section at its end.
///
/// # Errors
///
/// If it cannot be written, or this system does not say how much memory there is.
pub fn ensure(folder: &Folder) -> Result<PathBuf, Failure> {
    let path = folder.at("apportion.toml");
    let orchestrator = orchestrator(&folder.at("orchestrator.db"));
    let text = match fs::read_to_string(&path) {
        Ok(there) if there.lines().any(|line| line.trim() == "[orchestrator]") => return Ok(path),
        Ok(there) => there + &orchestrator,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let tokens = folder.at(super::secrets::TOKENS);
            text(quantum(memory()?), &folder.at("apportion.db"), &tokens, &orchestrator)
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()))?;
        }
    };
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Further setting of the orchestrator, which is the last section of a new file.
const TRIALS: &str = "\
# A trial of a campaign, `apportion submit sweep.toml --type test`, does not wait for queued campaigns.
test_class = \"test\"
";

/// A JSON string of a path is also a TOML string, but for a few characters that neither allows.
fn quoted(path: &Path) -> String {
    serde_json::Value::from(path.to_string_lossy()).to_string()
}

fn orchestrator(state: &Path) -> String {
    format!(
        "
# Campaigns, in the daemon's process.
[orchestrator]
enabled = true
state = {}
publish_every = \"100ms\"
",
        quoted(state)
    )
}

/// The memory that an agent on this machine offers.
fn memory() -> Result<Mebibytes, Failure> {
    let agent = HeartbeatSender::new(Options {
        url: "http://127.0.0.1:7070".parse()?,
        name: None,
        memory: None,
        reserved: Mebibytes(0),
        quiesce_file: None,
        tags: Vec::new(),
        token_file: None,
        authority: None,
    })?;
    Ok(agent.node()?.memory)
}

/// The quantum for a machine with so much memory, in MB.
fn quantum(memory: Mebibytes) -> u64 {
    1 << (memory.0 >> SHIFT).clamp(64, 1024).ilog2()
}

/// A whole new file.
fn text(quantum: u64, state: &Path, tokens: &Path, orchestrator: &str) -> String {
    let (state, tokens) = (quoted(state), quoted(tokens));
    format!(
        "\
# Written once by `apportion up`, for one machine and short tasks. `apportion up` reads it and writes it
# never again; `apportion serve --config` takes it as well. config/apportion.toml has all settings.

[daemon]
# `apportion up` says with flags where it listens.
listen = \"127.0.0.1:7070\"
state = {state}
cycle_period = \"500ms\"
heartbeat_interval = \"5s\"

[daemon.access]
tokens = {tokens}

[scheduler]
# A 64th of the memory, as a power of two, and 64 MB to 1 GB.
quantum = \"{quantum}MB\"
publication_period = \"1s\"
# With the usual 2m, short tasks would run one after the other.
prediction_fudge = \"5s\"
# With the usual 1, a campaign would have one slot until its first task has ended.
initialization_cap = 64

[[nodepool]]
name = \"main\"

[[class]]
name = \"test\"
policy = \"fair-share\"
nodepool = \"main\"
priority = 9

[[class]]
name = \"normal\"
policy = \"fair-share\"
nodepool = \"main\"
default = true
# For `apportion run --nodes 4`: several nodes at once.
gangs = true

# For `apportion run --keep`: is never preempted.
[[class]]
name = \"keep\"
policy = \"fixed-share\"
nodepool = \"main\"
default = true
{orchestrator}{TRIALS}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantum_is_a_power_of_two_in_bounds() {
        let cases = [(100, 64), (4096, 64), (8191, 64), (16_000, 128), (24_000, 256)];
        for (memory, expected) in cases.into_iter().chain([(65_536, 1024), (4_000_000, 1024)]) {
            assert_eq!(quantum(Mebibytes(memory)), expected, "{memory}");
        }
    }

    #[test]
    fn the_configuration_is_a_good_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a \"b\" c.toml");
        let orchestrator = orchestrator(&file);
        fs::write(&file, text(256, &file, &file, &orchestrator)).unwrap();
        let config = crate::config::Sources::new(&file, &[]).unwrap().load().unwrap();
        assert_eq!(config.daemon.state, file);
        assert!(config.orchestrator.enabled);
        assert_eq!(config.orchestrator.test_class.as_deref(), Some("test"));
        assert_eq!(config.daemon.access.tokens, Some(file));
    }
}
