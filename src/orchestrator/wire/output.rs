//! Output of tasks on its way from nodes to readers.
//!
//! A reader asks the orchestrator; the next answer to the node has an [`OutputRequest`]. The agent
//! then sends chunks with `POST /v1/nodes/{node}/output/{request}` and a [`ChunkQuery`], the body
//! being the bytes as they are. The [`ChunkAnswer`] comes when the reader has room for more, so the
//! reader sets the pace. A chunk with `end` or `problem` is the last one.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::exchange::AttemptId;

/// The most bytes of one chunk.
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
    /// Which of its streams.
    pub channel: Channel,
    /// The first byte wanted, from 0.
    pub from: u64,
    /// Whether to go on until the attempt ends. Without it: what is there now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
}

/// A stream of a task.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Channel {
    /// Its standard output.
    Out,
    /// Its standard error.
    Err,
}

/// What the body of a chunk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ChunkQuery {
    /// The place of its first byte in the stream, from 0.
    pub from: u64,
    /// Whether no byte follows.
    #[serde(default)]
    pub end: bool,
    /// Why there is no more to send. The body is then empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<OutputProblem>,
}

/// Why output cannot be sent.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum OutputProblem {
    /// It was removed, for room or for age.
    Removed,
    /// The node does not know the attempt.
    NoSuchAttempt,
    /// It went to a file of the user's choice.
    Elsewhere,
    /// It could not be read.
    Unreadable,
}

/// The answer to a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChunkAnswer {
    /// Whether a reader waits for more. If not, the agent sends no more.
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
