//! Messages on the unix socket between a slot and its agent, and the settings for the start of a
//! slot.
//!
//! A frame is the length of its JSON, the length of its bytes (both 4 bytes, little endian), the JSON
//! and the bytes. Each side refuses a frame that is longer than its limit: a task can forge all
//! that its slot says.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::orchestrator::wire::{
    AttemptId, Channel, OutputProblem, SlotOrder, SlotReport, SlotStart, TaskSpec,
};

/// The longest frame that a slot accepts, in bytes: 50 tasks with parameters of 128 KiB each.
pub const MAX_TO_SLOT: usize = 32 << 20;

/// The longest frame that an agent accepts, in bytes: 100 results with 6 KiB of text each, escaped.
pub const MAX_FROM_SLOT: usize = 8 << 20;

/// Most unacknowledged results in a report.
pub const MAX_RESULTS: usize = 100;

/// Most tasks that a slot asks for beyond the tasks of its lanes.
pub const MAX_QUEUE: u64 = 50;

/// The longest text of a slot's end, in bytes.
pub const MAX_TEXT: usize = 1024;

/// Longest part of a standard input in a frame, in bytes.
pub const MAX_STDIN_PART: usize = 1 << 20;

/// Length of the head of a frame, in bytes.
pub const HEAD: usize = 8;

/// Settings for the start of a slot: the file [`SETTINGS`] in its folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotSettings {
    /// The slot among all of the node: the orchestrator's identity, a hyphen, the share. Tasks
    /// have it as `APPORTION_SLOT`.
    pub slot: String,
    /// The number of the share.
    pub share: u64,
    /// The name of the node.
    pub node: String,
    /// The order that started it.
    pub start: SlotStart,
    /// The specification that the order names.
    pub spec: TaskSpec,
    /// The home directory of the user on this node.
    pub home: String,
    /// The shell of the user on this node.
    pub shell: String,
    /// Time at which the agent received the order, in milliseconds since the boot.
    pub ordered_ms: u64,
    /// The end of the first lease, in milliseconds since the boot.
    pub lease_until_ms: u64,
    /// Enforcement of the memory limit.
    pub limit: MemoryLimit,
    /// Address of the node for other nodes. Absent: not known.
    #[serde(default)]
    pub address: Option<IpAddr>,
}

/// The name of the file with the [`SlotSettings`].
pub const SETTINGS: &str = "settings.json";

/// The name of the socket on which a slot listens.
pub const SOCKET: &str = "socket";

/// The name of the journal of a slot.
pub const JOURNAL: &str = "journal";

/// Enforcement of a slot's memory limit, as the slot needs to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryLimit {
    /// By the kernel, in this cgroup of version 1.
    Cgroup1(PathBuf),
    /// By the kernel, in this cgroup of version 2.
    Cgroup2(PathBuf),
    /// By the kernel, in the cgroup of version 2 that the slot was started in.
    OwnCgroup2,
    /// By the slot.
    Watched,
}

/// A message to a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToSlot {
    /// Target state of the slot.
    Order(Box<LeasedOrder>),
    /// A request for output; the answer is a [`FromSlot::Chunk`].
    Read(ReadRequest),
    /// A part of the standard input of a specification, as the bytes of the frame.
    Stdin {
        /// The number of the specification.
        spec: u64,
        /// The place of the first byte.
        from: u64,
        /// True for the last part.
        end: bool,
    },
}

/// An order, and the time that the slot may go on without another order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeasedOrder {
    /// The end of the lease, in milliseconds since the boot.
    pub lease_until_ms: u64,
    /// The order of the orchestrator. Absent: only the lease is extended.
    pub order: Option<SlotOrder>,
    /// The specifications that the order names.
    #[serde(default)]
    pub specs: BTreeMap<u64, TaskSpec>,
}

/// A request for a part of the output of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRequest {
    /// The number of the request; the answer repeats it.
    pub request: u64,
    /// The attempt.
    pub task: AttemptId,
    /// Stream of the attempt.
    pub channel: Channel,
    /// The first byte.
    pub from: u64,
}

/// A message from a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromSlot {
    /// State of the slot.
    Report(Box<AgentReport>),
    /// Output, as the bytes of the frame.
    Chunk(OutputChunk),
}

/// The report of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentReport {
    /// Report for the orchestrator.
    pub report: SlotReport,
    /// Specifications whose kept standard input the slot needs and does not have.
    #[serde(default)]
    pub needs_stdin: Vec<u64>,
}

/// Description of the bytes of a frame with output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputChunk {
    /// The number of the request.
    pub request: u64,
    /// The place of the first byte in the stream.
    pub from: u64,
    /// True if no byte follows at the moment.
    pub is_all: bool,
    /// True if no byte will ever follow.
    pub is_end: bool,
    /// Reason why there is no output.
    #[serde(default)]
    pub problem: Option<OutputProblem>,
}

/// Encodes a frame.
///
/// # Errors
///
/// If the message cannot be written as JSON, or is too long for its head.
pub fn encode<T: Serialize>(message: &T, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(message)?;
    let length = |part: &[u8]| {
        u32::try_from(part.len()).map(u32::to_le_bytes).map_err(|_| too_long(part.len()))
    };
    Ok([&length(&json)?, &length(bytes)?, json.as_slice(), bytes].concat())
}

/// The lengths of the JSON and of the bytes of a frame, from its head.
///
/// # Errors
///
/// If both are more than `limit` together.
pub fn lengths(head: [u8; HEAD], limit: usize) -> io::Result<(usize, usize)> {
    let [json @ .., _, _, _, _] = head;
    let [_, _, _, _, bytes @ ..] = head;
    let length = |bytes: [u8; 4]| usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX);
    let (json, bytes) = (length(json), length(bytes));
    let all = json.saturating_add(bytes);
    if all > limit { Err(too_long(all)) } else { Ok((json, bytes)) }
}

/// Decodes the JSON of a frame.
///
/// # Errors
///
/// If it is another message.
pub fn decode<T: DeserializeOwned>(json: &[u8]) -> io::Result<T> {
    serde_json::from_slice(json).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Writes a frame.
///
/// # Errors
///
/// If the other side does not take it.
pub fn send<T: Serialize>(to: &mut impl Write, message: &T, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&encode(message, bytes)?)
}

/// Reads a frame of at most `limit` bytes; `None` at the end of the stream.
///
/// # Errors
///
/// If the stream breaks off amid a frame, or the frame is too long or is no message.
pub fn receive<T: DeserializeOwned>(
    from: &mut impl Read,
    limit: usize,
) -> io::Result<Option<(T, Vec<u8>)>> {
    let mut head = [0; HEAD];
    match from.read(&mut head[..1])? {
        0 => return Ok(None),
        _ => from.read_exact(&mut head[1..])?,
    }
    let (json, bytes) = lengths(head, limit)?;
    let mut body = Vec::new();
    let all = json + bytes;
    // The buffer grows with what arrives, not with what is announced.
    from.take(u64::try_from(all).unwrap_or(u64::MAX)).read_to_end(&mut body)?;
    if body.len() < all {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let bytes = body.split_off(json);
    Ok(Some((decode(&body)?, bytes)))
}

fn too_long(length: usize) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("a frame of {length} bytes is too long"))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn frames_survive_the_socket() {
        let chunk = OutputChunk { request: 3, from: 0, is_all: true, is_end: false, problem: None };
        let message = FromSlot::Chunk(chunk);
        let mut stream = encode(&message, b"out").unwrap();
        stream.extend(encode(&message, b"").unwrap());
        let mut stream = stream.as_slice();
        for bytes in [&b"out"[..], b""] {
            let frame = receive::<FromSlot>(&mut stream, MAX_FROM_SLOT).unwrap().unwrap();
            assert_eq!(frame, (message.clone(), bytes.to_vec()));
        }
        assert_eq!(receive::<FromSlot>(&mut stream, MAX_FROM_SLOT).unwrap(), None);
    }

    #[test]
    fn broken_frames_are_errors_and_cost_no_memory() {
        let whole = encode(
            &FromSlot::Chunk(OutputChunk {
                request: 3,
                from: 0,
                is_all: true,
                is_end: true,
                problem: None,
            }),
            b"bytes",
        )
        .unwrap();
        for length in 1..whole.len() {
            let mut torn = &whole[..length];
            assert!(receive::<FromSlot>(&mut torn, MAX_FROM_SLOT).is_err(), "{length}");
        }
        let mut huge = &[255; 16][..];
        assert!(receive::<FromSlot>(&mut huge, MAX_FROM_SLOT).is_err());
        let mut lots = rand_chacha::ChaCha8Rng::seed_from_u64(24);
        for _ in 0..100_000 {
            let mut frame = whole.clone();
            let at = lots.random_range(0..frame.len());
            frame[at] ^= 1 << lots.random_range(0..8);
            // A flipped bit may give another message, but never a panic.
            let _ = receive::<FromSlot>(&mut frame.as_slice(), MAX_FROM_SLOT);
        }
    }
}
