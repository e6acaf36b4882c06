//! Messages between a shell and a server, as frames of [`crate::slot::wire`].

use serde::{Deserialize, Serialize};

/// Longest message of a side that has not proven itself, in bytes.
pub(super) const MAX_GREETING: usize = 4 << 10;

/// Longest message with a command, in bytes: the limit of Linux for a command line, escaped.
pub(super) const MAX_COMMAND: usize = 16 << 20;

/// Longest part of an output in a message, in bytes.
pub(super) const MAX_PART: usize = 64 << 10;

/// Longest message with output, in bytes.
pub(super) const MAX_OUTPUT: usize = MAX_PART + MAX_GREETING;

/// A message of a shell.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FromShell {
    /// The number that the shell drew.
    Greeting { number: String },
    /// A command for `sh -c`, with the proof of the shell.
    Run { command: String, proof: String },
}

/// A message of a server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FromServer {
    /// The number that the server drew.
    Greeting { number: String },
    /// The proof of the server.
    Proof { proof: String },
    /// The shell did not prove itself, or the command did not start; the text says why.
    Refused { text: String },
    /// Standard output of the command, as the bytes of the frame.
    Out,
    /// Standard error of the command, as the bytes of the frame.
    Err,
    /// The command ended with this exit status, as a shell tells it.
    Ended { status: u8 },
}
