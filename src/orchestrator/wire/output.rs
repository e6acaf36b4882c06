//! Output of tasks on its way from nodes to readers.
//!
//! A reader asks the orchestrator, and the next answer to the node has an [`OutputRequest`]. The
//! agent then sends chunks with `POST /v1/nodes/{node}/output/{request}` and a [`ChunkQuery`]. The
//! body is the bytes of the chunk. The [`ChunkAnswer`] comes when the reader can take more, so the
//! reader sets the pace. A chunk with `end` or `problem` is the last chunk.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::exchange::AttemptId;

/// Most bytes of a chunk.
pub const MAX_CHUNK: usize = 256 * 1024;

/// A request for the output of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputRequest {
    /// The number of the request, never used again.
    pub request: u64,
    /// The slot that ran the attempt.
    pub share: u64,
    /// The attempt.
    pub task: AttemptId,
    /// Stream of the attempt.
    pub channel: Channel,
    /// First wanted byte, from 0.
    pub from: u64,
    /// True to follow the output until the attempt ends. False: only the present output.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
}

/// A stream of a task.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Channel {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Description of a chunk, which is the body of the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ChunkQuery {
    /// Position of the chunk's first byte in the stream, from 0.
    pub from: u64,
    /// True if no byte follows.
    #[serde(default)]
    pub end: bool,
    /// Reason why the node sends no more. The body is then empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<OutputProblem>,
}

/// Reason why output cannot be sent.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum OutputProblem {
    /// The output was removed, for space or for age.
    Removed,
    /// The node does not know the attempt.
    NoSuchAttempt,
    /// The output went to a file that the user chose.
    Elsewhere,
    /// The output could not be read.
    Unreadable,
}

/// The answer to a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChunkAnswer {
    /// True if a reader waits for more. Otherwise the agent sends no more.
    pub wanted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_output_survives_the_wire() {
        let task = AttemptId { campaign: 9, task: 17, attempt: 2 };
        let request = OutputRequest {
            request: 4,
            share: 77,
            task,
            channel: Channel::Err,
            from: 0,
            follow: true,
        };
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(serde_json::from_str::<OutputRequest>(&text).unwrap(), request);
        assert!(text.contains(r#""channel":"err""#), "{text}");
    }

    #[test]
    fn a_chunk_needs_its_place_only() {
        let query: ChunkQuery = serde_json::from_str(r#"{"from": 12}"#).unwrap();
        assert_eq!(query, ChunkQuery { from: 12, end: false, problem: None });
        let query: ChunkQuery =
            serde_json::from_str(r#"{"from": 0, "problem": "removed"}"#).unwrap();
        assert_eq!(query.problem, Some(OutputProblem::Removed));
    }
}
