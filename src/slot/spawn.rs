//! Start of a program: lookup as in a shell, and the reason of a failure.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::Pid;

use crate::orchestrator::wire::Reason;

/// A program that is ready to start.
#[derive(Debug)]
pub struct Program {
    /// The name and the arguments.
    pub words: Vec<String>,
    /// The whole environment.
    pub environment: BTreeMap<String, String>,
    /// The working directory.
    pub cwd: PathBuf,
    /// Standard input, output and error of the program.
    pub streams: [File; 3],
}

/// Reason why a program did not start.
#[derive(Debug, PartialEq, Eq)]
pub struct NotStarted {
    /// The reason of the attempt.
    pub why: Reason,
    /// Exit status that a shell would have; `None` if a shell has no status for it.
    pub exit: Option<u8>,
    /// The sentence for people.
    pub text: String,
}

impl NotStarted {
    /// A failure before the program, as of a redirection in a shell.
    pub fn redirection(what: &str, path: &Path, error: &io::Error) -> NotStarted {
        let text = format!("cannot open {} for {what}: {error}\n", path.display());
        NotStarted { why: Reason::Exit, exit: Some(1), text }
    }

    fn not_found(text: String) -> NotStarted {
        NotStarted { why: Reason::NotFound, exit: Some(127), text }
    }

    fn not_executable(text: String) -> NotStarted {
        NotStarted { why: Reason::NotExecutable, exit: Some(126), text }
    }
}

/// Checks that a program can start in `cwd`, as the user sees it.
///
/// # Errors
///
/// If it is no folder there.
pub fn check_cwd(cwd: &Path) -> Result<(), NotStarted> {
    if fs::metadata(cwd).is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(());
    }
    let text = format!("the working directory {} is not on this node\n", cwd.display());
    Err(NotStarted { why: Reason::NoCwd, exit: None, text })
}

/// Starts `program` in a process group of its own.
///
/// # Errors
///
/// If it does not start; with the reason `returned` if that is the node's fault.
pub fn start(program: Program) -> Result<Pid, NotStarted> {
    let Program { words, environment, cwd, streams } = program;
    let Some(name) = words.first().filter(|name| !name.is_empty()) else {
        return Err(NotStarted::not_found("the command is empty\n".to_owned()));
    };
    let path = find(name, &cwd, environment.get("PATH").map_or("", String::as_str))?;
    let arguments = words.get(1..).unwrap_or_default();
    let mut command = Command::new(&path);
    command.arg0(name).args(arguments);
    let [input, output, error] = streams;
    let again = [clone(&input), clone(&output), clone(&error)];
    prepare(&mut command, &environment, &cwd, [input, output, error]);
    match spawn(&mut command) {
        // A text without `#!` is for the shell, as it is in a shell.
        Err(Errno::NOEXEC) => {
            let mut shell = Command::new("/bin/sh");
            shell.arg(&path).args(arguments);
            let [Some(input), Some(output), Some(error)] = again else {
                return Err(explain(Errno::MFILE, &path));
            };
            prepare(&mut shell, &environment, &cwd, [input, output, error]);
            spawn(&mut shell).map_err(|errno| explain(errno, &path))
        }
        started => started.map_err(|errno| explain(errno, &path)),
    }
}

fn clone(file: &File) -> Option<File> {
    file.try_clone().ok()
}

fn prepare(
    command: &mut Command,
    environment: &BTreeMap<String, String>,
    cwd: &Path,
    [input, output, error]: [File; 3],
) {
    command
        .env_clear()
        .envs(environment)
        .current_dir(cwd)
        .process_group(0)
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(error));
}

/// The child is waited for by the loop of the slot, and by nothing else.
fn spawn(command: &mut Command) -> Result<Pid, Errno> {
    match command.spawn() {
        Ok(child) => {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            pid.ok_or(Errno::SRCH)
        }
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL)),
    }
}

fn explain(errno: Errno, path: &Path) -> NotStarted {
    let path = path.display();
    match errno {
        Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE => NotStarted {
            why: Reason::Returned,
            exit: None,
            text: format!("this node cannot start {path}: {errno}\n"),
        },
        Errno::NOENT => NotStarted::not_found(format!(
            "{path}: its interpreter, the first line after `#!`, is not on this node\n"
        )),
        Errno::TOOBIG => NotStarted::not_executable(format!(
            "{path}: arguments and environment are too long; pass them in a file\n"
        )),
        _ => NotStarted::not_executable(format!("{path}: {errno}\n")),
    }
}

/// The file of the program `name`: with a `/` relative to `cwd`, else the first in `path`.
fn find(name: &str, cwd: &Path, path: &str) -> Result<PathBuf, NotStarted> {
    if name.contains('/') {
        let file = cwd.join(name);
        return match what_is(&file) {
            FileKind::Program => Ok(file),
            FileKind::Other => Err(NotStarted::not_executable(format!(
                "{name}: this user may not execute it; `chmod +x` it\n"
            ))),
            FileKind::Nothing => {
                Err(NotStarted::not_found(format!("{name}: no such file on this node\n")))
            }
        };
    }
    let mut other = None;
    for folder in path.split(':') {
        // An empty part is the working directory, as in a shell.
        let file = cwd.join(folder).join(name);
        match what_is(&file) {
            FileKind::Program => return Ok(file),
            FileKind::Other => other = other.or(Some(file)),
            FileKind::Nothing => {}
        }
    }
    Err(match other {
        Some(file) => NotStarted::not_executable(format!(
            "{}: this user may not execute it; `chmod +x` it\n",
            file.display()
        )),
        None => NotStarted::not_found(format!("{name}: no such program in PATH on this node\n")),
    })
}

enum FileKind {
    Program,
    Other,
    Nothing,
}

fn what_is(file: &Path) -> FileKind {
    match fs::metadata(file) {
        Ok(metadata) if metadata.is_file() && access(file, Access::EXEC_OK).is_ok() => {
            FileKind::Program
        }
        Ok(metadata) if metadata.is_file() => FileKind::Other,
        Ok(_) | Err(_) => FileKind::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn programs_are_found_as_in_a_shell() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, mode: u32| {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        make("tool", 0o755);
        make("text", 0o644);
        fs::create_dir(folder.path().join("dir")).unwrap();
        let cwd = folder.path();
        let path = format!("/nonexistent:{}", cwd.display());
        let status = |name: &str, path: &str| find(name, cwd, path).err().map(|error| error.exit);
        for (name, path, exit) in [
            ("tool", path.as_str(), None),
            ("./tool", "", None),
            ("tool", "", None),
            ("tool", ":/bin", None),
            ("tool", "/bin", Some(Some(127))),
            ("text", path.as_str(), Some(Some(126))),
            ("./text", "", Some(Some(126))),
            ("dir", path.as_str(), Some(Some(127))),
            ("./none", path.as_str(), Some(Some(127))),
        ] {
            assert_eq!(status(name, path), exit, "{name} in {path:?}");
        }
    }
}
