//! `agent --install-user-unit`: a unit of the user's own systemd, for nodes without root.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::agent_args::AgentArgs;
use super::failure::{Failure, FailureKind};
use super::output::print;
use super::up::Join;

const NAME: &str = "apportion-agent.service";

/// Writes the unit, and prints the commands that start it.
///
/// # Errors
///
/// If the join file is none, or the unit cannot be written.
pub fn install(args: &AgentArgs) -> Result<(), Failure> {
    let file = args.join.as_deref().unwrap_or(Path::new("apportion.join"));
    Join::read(file)?;
    let file = fs::canonicalize(file)?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let folder = units().ok_or_else(|| Failure::new(FailureKind::Refused, "HOME is not set"))?;
    let path = folder.join(NAME);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let text = text(&program, &file, args.node.as_deref());
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(print(&format!(
        "wrote {}; on each node:\n  \
         systemctl --user daemon-reload\n  \
         systemctl --user enable --now {NAME}\n  \
         loginctl enable-linger    so that it and its work outlive your sessions",
        path.display()
    ))?)
}

/// Returns the folder where systemd looks for units of the user.
fn units() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".config"));
    let config = variable("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home)?;
    Some(config.join("systemd/user"))
}

fn text(program: &Path, file: &Path, node: Option<&str>) -> String {
    let (program, file) = (quoted(&program.to_string_lossy()), quoted(&file.to_string_lossy()));
    let node = node.map_or_else(String::new, |node| format!(" --node {}", quoted(node)));
    format!(
        "\
# Written by `apportion agent --install-user-unit`. Machines that share the home share this file.
[Unit]
Description=apportion agent
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart={program} agent --join {file}{node}
Restart=always
RestartSec=5
# Slots outlive their agent, and the next one adopts them.
KillMode=process
Delegate=memory pids

[Install]
WantedBy=default.target
"
    )
}

/// A word of a command line of systemd.
fn quoted(word: &str) -> String {
    let word = word.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", word.replace('%', "%%").replace('$', "$$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_as_they_are() {
        let text = text(Path::new("/home/a b/apportion"), Path::new("/h/50%$x\"y"), Some("n1"));
        let line = r#"ExecStart="/home/a b/apportion" agent --join "/h/50%%$$x\"y" --node "n1""#;
        assert!(text.lines().any(|one| one == line), "{text}");
    }
}
