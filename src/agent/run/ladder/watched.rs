//! The last rung: a plain process. The slot itself samples the memory of its tasks.

use std::process::Stdio;

use tokio::process::Command;

/// Sets a slot up to outlive its agent: nothing of the agent's is left open in it. The slot leads a
/// session of its own from its first instructions on.
pub fn detach(command: &mut Command) {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
}
