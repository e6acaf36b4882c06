//! Daemon, orchestrator and agent as `apportion up` starts them, in an empty home.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use reqwest::{Client, StatusCode};
use serde_json::Value;
use tempfile::TempDir;

/// An `apportion up` in an empty home. It ends with the test, however that ends.
pub struct Up {
    pub folder: TempDir,
    child: Child,
    pub orchestrator: String,
    /// The token of the user that started it.
    pub token: String,
}

impl Up {
    pub fn start() -> Up {
        let folder = tempfile::tempdir().unwrap();
        let mut command = command(&folder, &["up", "--listen", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said: Vec<String> = lines.by_ref().take(3).map(Result::unwrap).collect();
        if said.len() < 3 {
            let output = child.wait_with_output().unwrap();
            panic!("{said:?} {}", String::from_utf8_lossy(&output.stderr));
        }
        let text = fs::read(folder.path().join(".local/state/apportion/up.json")).unwrap();
        let found: Value = serde_json::from_slice(&text).unwrap();
        let orchestrator = found["orchestrator"].as_str().unwrap().trim_end_matches('/').to_owned();
        let token = fs::read_to_string(folder.path().join(".local/state/apportion/own.token"));
        let token = token.unwrap().trim().to_owned();
        Up { folder, child, orchestrator, token }
    }

    /// Runs to the end: exit status, standard output, standard error.
    pub fn run(&self, args: &[&str]) -> (i32, String, String) {
        told(command(&self.folder, args).output().unwrap())
    }

    /// Runs a command that must succeed; returns its output.
    #[track_caller]
    pub fn ask(&self, args: &[&str]) -> String {
        let (status, out, err) = self.run(args);
        assert_eq!(status, 0, "{args:?}: {out}{err}");
        out
    }

    pub fn write(&self, name: &str, content: &str) {
        fs::write(self.folder.path().join(name), content).unwrap();
    }

    pub async fn page(&self, path: &str) -> String {
        let answer = Client::new().get(format!("{}{path}", self.orchestrator));
        let answer = answer.bearer_auth(&self.token).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        answer.text().await.unwrap()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = command(&self.folder, &["down"]).output();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(folder: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_apportion"));
    command.args(args).current_dir(folder.path()).env("HOME", folder.path());
    let variables = std::env::vars_os().map(|(name, _)| name);
    for name in variables.filter(|name| name.to_string_lossy().starts_with("APPORTION")) {
        command.env_remove(name);
    }
    command.env_remove("XDG_STATE_HOME").stdin(Stdio::null());
    command
}

fn told(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}
