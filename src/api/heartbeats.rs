//! Signs of life: what makes one count, and what was heard last of every node.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::error::{ApiError, Code, Fault};
use super::extract::JsonText;
use super::gate::{self, Caller};
use super::json::{self, shortened};
use super::lives::{Agent, Heard};
use super::names::name_problem;
use super::state::{ApiState, Limits, Request};
use super::wire::{self, Heartbeat, HeartbeatAnswer, HeartbeatEnvelope, HeartbeatProbe};
use crate::access::Identity;
use crate::model::{Mebibytes, NodeReport, count};
use crate::scheduler::Event;

/// More memory than any machine has, in MiB: 2 PiB. The order of such a machine still fits an
/// `Order`, whatever the quantum.
const MEMORY_MAX: u64 = 1 << 31;

/// A clock that is further off than this is worth a word; in milliseconds.
const SKEW_MAX: i64 = 60_000;

/// What was heard last of every node.
#[derive(Debug)]
pub struct HeartbeatLog {
    nodes: BTreeMap<String, Node>,
    limits: Limits,
}

/// What was heard of one node.
#[derive(Debug)]
struct Node {
    agent: Agent,
    /// How far its clock is ahead of ours, in milliseconds, as far as its agent says.
    clock_ahead: i64,
    /// When it last gave a sign of life.
    heard: Instant,
    /// Memory that nobody used then, in MiB, as far as its agent says.
    available_mb: Option<u64>,
}

/// What is known of every node by its heartbeats alone: how long ago it was last heard, and how
/// many MiB of its memory nobody used then.
pub type HeardAgo = HashMap<String, (Duration, Option<u64>)>;

impl HeartbeatLog {
    /// Nothing heard yet; to so many nodes will be listened as `limits` says.
    pub fn new(limits: Limits) -> HeartbeatLog {
        HeartbeatLog { nodes: BTreeMap::new(), limits }
    }

    /// Notes a heartbeat that came at `now`, in milliseconds since the epoch, if it is a sign of
    /// life. Says whether another agent reports as the same node.
    fn hear(
        &mut self,
        beat: &Heartbeat,
        now: i64,
        is_listed: impl FnOnce(&str) -> bool,
    ) -> Result<bool, Fault> {
        let clock_ahead = beat.sent_ms.map_or(0, |sent| sent.saturating_sub(now));
        let available_mb = beat.available_mb;
        let (boot_id, sequence) = (beat.boot_id.as_deref(), beat.sequence);
        let Some(node) = self.nodes.get_mut(&beat.node) else {
            let limit = self.limits.nodes;
            if limit <= self.nodes.len() && !is_listed(&beat.node) {
                let detail = format!(
                    "{limit} nodes report already; the limit is `daemon.limits.max_nodes` in the configuration, and nodes that a nodepool lists are always heard"
                );
                return Err(Fault::new(Code::TooManyNodes, "/node", detail));
            }
            let agent = Agent::new(boot_id, sequence);
            let node = Node { agent, clock_ahead, heard: Instant::now(), available_mb };
            self.nodes.insert(beat.node.clone(), node);
            return Ok(false);
        };
        let heard = node.agent.hear(boot_id, sequence);
        if heard == Heard::Alive {
            node.clock_ahead = clock_ahead;
            node.heard = Instant::now();
            node.available_mb = available_mb;
            return Ok(node.agent.is_contested());
        }
        Err(no_sign_of_life(&beat.node, heard, &node.agent))
    }

    /// How long before `now` every node was last heard, and what it said of its memory.
    pub fn heard_ago(&self, now: Instant) -> HeardAgo {
        let nodes = self.nodes.iter();
        nodes
            .map(|(name, node)| {
                let age = now.saturating_duration_since(node.heard);
                (name.clone(), (age, node.available_mb))
            })
            .collect()
    }

    /// What an administrator should know of a node's agent.
    pub fn notes_of(&self, node: &str) -> Vec<String> {
        let Some(node) = self.nodes.get(node) else { return Vec::new() };
        let rivals = node.agent.rivals().map(|(one, other)| {
            format!(
                "two agents report as this node (boot ids `{}` and `{}`); it gets no new work until one is alone",
                shortened(one),
                shortened(other)
            )
        });
        let ahead = node.clock_ahead;
        let minutes = ahead.unsigned_abs().div_euclid(60_000);
        let way = if ahead < 0 { "behind" } else { "ahead of" };
        let skew = (SKEW_MAX < ahead.saturating_abs())
            .then(|| format!("its clock is {minutes} min {way} ours; no decision depends on it"));
        rivals.into_iter().chain(skew).collect()
    }
}

/// Why a heartbeat counts for nothing.
fn no_sign_of_life(node: &str, heard: Heard, agent: &Agent) -> Fault {
    if let (Heard::Other, Some((one, other))) = (heard, agent.rivals()) {
        let (one, other) = (shortened(one), shortened(other));
        let detail = format!(
            "two agents report as `{node}`, with boot ids `{one}` and `{other}`; that of `{one}` is listened to, and the node gets no new work until one is alone: stop the other, or give it a name of its own"
        );
        tracing::warn!(node, one, other, "two agents report as one node");
        return Fault::new(Code::TwoAgents, "/boot_id", detail);
    }
    let what = if heard == Heard::Late {
        "is of an agent that was started again since"
    } else {
        "or a later one was heard before"
    };
    let detail = format!("this heartbeat of `{node}` {what}; it counts for nothing");
    Fault::new(Code::Replayed, "/sequence", detail)
}

/// Reports one node, or many in `nodes`. In a batch, a bad entry does not spoil the others.
#[utoipa::path(
    post,
    path = "/v1/heartbeats",
    tag = "agents",
    request_body = wire::HeartbeatBatch,
    responses(
        (status = 202, description = "heard; entries of a batch that do not count are listed", body = HeartbeatAnswer),
        (status = 400, description = "not a heartbeat", body = wire::Problem),
        (status = 409, description = "a single heartbeat that was heard before, or of a second agent", body = wire::Problem),
        (status = 413, description = "larger than the configured limit", body = wire::Problem),
        (status = 415, description = "not plain JSON in UTF-8", body = wire::Problem),
        (status = 429, description = "a single heartbeat of one node too many", body = wire::Problem),
    )
)]
pub async fn post_heartbeats(
    State(state): State<ApiState>,
    Caller(caller): Caller,
    JsonText(body): JsonText,
) -> Result<(StatusCode, Json<HeartbeatAnswer>), ApiError> {
    let is_batch = json::read_body::<HeartbeatProbe>(&body, code_of_field)?.nodes.is_some();
    let (beats, mut faults) = if is_batch {
        read_batch(&body, &state.limits)?
    } else {
        (vec![read_one(&body, &state.limits)?], Vec::new())
    };
    let (beats, others): (Vec<Placed>, Vec<Placed>) =
        beats.into_iter().partition(|(_, beat)| caller.nodes.contain(&beat.node));
    if let Some(refused) = of_others(&state, &caller, &others, beats.is_empty()) {
        return Err(refused);
    }
    faults.extend(others.into_iter().map(|(pointer, _)| {
        let detail = "this token does not speak for this node; what it reported before stands";
        Fault::new(Code::NotAllowed, format!("{pointer}/node"), detail)
    }));
    // Room first: what is noted as heard is then heard of, whatever becomes of this request.
    let room = state.room().await?;
    let mut events = Vec::with_capacity(beats.len());
    let published = state.latest();
    let topology = &published.view.topology;
    let is_listed =
        |name: &str| topology.pools.iter().any(|pool| pool.nodes.iter().any(|node| node == name));
    let now = jiff::Timestamp::now().as_millisecond();
    {
        let mut log = state.heartbeats();
        for (pointer, beat) in beats {
            match log.hear(&beat, now, is_listed) {
                Ok(is_contested) => {
                    events.push(Event::NodeReported(report_of(beat, is_contested)));
                }
                Err(fault) => faults.push(fault.within(&pointer)),
            }
        }
    }
    let accepted = u64::try_from(events.len()).expect("a count fits in 64 bits");
    state.board.meters().heartbeats(accepted, count(&faults));
    if !events.is_empty() {
        room.send(Request::Heartbeats(events));
    }
    if let (false, Some(fault)) = (is_batch, faults.first()) {
        return Err(fault.clone().into());
    }
    let refused = faults.into_iter().map(Into::into).collect();
    Ok((StatusCode::ACCEPTED, Json(HeartbeatAnswer { accepted, refused })))
}

/// A heartbeat and where it was in the body.
type Placed = (String, Heartbeat);

/// Has it put on record that somebody spoke for the nodes of others. Where they spoke for nobody
/// else, all of it is refused; else what is theirs is heard.
fn of_others(
    state: &ApiState,
    caller: &Identity,
    others: &[Placed],
    is_nothing_theirs: bool,
) -> Option<ApiError> {
    let (_, first) = others.first()?;
    let detail = format!("{} (`{}`)", count(others), shortened(&first.node));
    gate::note_refusal(state, caller.actor(), "heartbeat of others", &detail, "not allowed");
    is_nothing_theirs.then(|| ApiError::new(Code::NotAllowed, gate::NOT_ALLOWED))
}

fn read_one(body: &[u8], limits: &Limits) -> Result<Placed, Fault> {
    let beat = json::read_body(body, code_of_field)?;
    check(&beat, limits.string)?;
    Ok((String::new(), beat))
}

fn read_batch(body: &[u8], limits: &Limits) -> Result<(Vec<Placed>, Vec<Fault>), Fault> {
    let envelope: HeartbeatEnvelope<'_> = json::read_body(body, code_of_field)?;
    if envelope.nodes.len() > limits.nodes {
        let detail = format!(
            "a batch of {} entries; at most {} are taken",
            envelope.nodes.len(),
            limits.nodes
        );
        return Err(Fault::new(Code::BadValue, "/nodes", detail));
    }
    let (mut beats, mut faults) = (Vec::new(), Vec::new());
    for (index, entry) in envelope.nodes.iter().enumerate() {
        let pointer = format!("/nodes/{index}");
        let read = json::read_part(entry.get(), code_of_field)
            .map_err(|fault| Fault {
                detail: fault.detail + "; what it reported before stands",
                ..fault
            })
            .and_then(|beat| check(&beat, limits.string).map(|()| beat));
        match read {
            Ok(beat) => beats.push((pointer, beat)),
            Err(fault) => faults.push(fault.within(&pointer)),
        }
    }
    Ok((beats, faults))
}

fn code_of_field(field: &str) -> Code {
    match field {
        "memory_mb" => Code::BadNodeMemory,
        "node" => Code::BadNodeName,
        _ => Code::BadValue,
    }
}

fn check(beat: &Heartbeat, bytes_max: usize) -> Result<(), Fault> {
    if let Some(problem) = name_problem(&beat.node, bytes_max) {
        return Err(Fault::new(Code::BadNodeName, "/node", problem));
    }
    if !(1..=MEMORY_MAX).contains(&beat.memory_mb) {
        let (node, memory) = (&beat.node, beat.memory_mb);
        let detail = format!(
            "`{node}` reports {memory} MiB; allowed: 1 to {MEMORY_MAX}. What it reported before stands"
        );
        return Err(Fault::new(Code::BadNodeMemory, "/memory_mb", detail));
    }
    if beat.boot_id.as_ref().is_some_and(|id| id.len() > bytes_max) {
        let detail = format!("`boot_id` may have at most {bytes_max} bytes");
        return Err(Fault::new(Code::BadValue, "/boot_id", detail));
    }
    Ok(())
}

/// What the scheduler gets to know. A node of which two agents speak gets no new work.
fn report_of(beat: Heartbeat, is_contested: bool) -> NodeReport {
    NodeReport {
        name: beat.node.into(),
        memory: Mebibytes(beat.memory_mb),
        is_quiesced: beat.quiesced || is_contested,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> HeartbeatLog {
        let time = Duration::ZERO;
        HeartbeatLog::new(Limits { body: 1, time, nodes: 2, jobs: 1, processes: 1, string: 9 })
    }

    fn beat(node: &str, boot_id: &str, sequence: u64) -> Heartbeat {
        Heartbeat {
            node: node.to_owned(),
            memory_mb: 1,
            quiesced: false,
            boot_id: Some(boot_id.to_owned()),
            sequence: Some(sequence),
            sent_ms: None,
            available_mb: None,
        }
    }

    #[test]
    fn strangers_are_heard_while_there_is_room_and_listed_nodes_always() {
        let mut log = log();
        let mut hear = |node: &str| {
            let heard = log.hear(&beat(node, "a", 1), 0, |name| name == "listed");
            heard.map_err(|fault| fault.code)
        };
        assert_eq!(["n1", "n2"].map(&mut hear), [Ok(false), Ok(false)]);
        assert_eq!(hear("n3"), Err(Code::TooManyNodes));
        assert_eq!(hear("listed"), Ok(false));
        assert_eq!(hear("n1"), Err(Code::Replayed), "known, so there is room");
    }

    #[test]
    fn a_clock_that_is_far_off_is_said_and_changes_nothing() {
        let mut log = log();
        for (sequence, sent_ms, said) in [
            (1, 0, "its clock is 16 min behind ours; no decision depends on it"),
            (2, 1_000_001, ""),
            (
                3,
                i64::MAX,
                "its clock is 153722867280896 min ahead of ours; no decision depends on it",
            ),
            (
                4,
                i64::MIN,
                "its clock is 153722867280912 min behind ours; no decision depends on it",
            ),
        ] {
            let beat = Heartbeat { sent_ms: Some(sent_ms), ..beat("n1", "a", sequence) };
            assert_eq!(log.hear(&beat, 1_000_000, |_| false), Ok(false));
            assert_eq!(log.notes_of("n1").concat(), said);
        }
    }

    #[test]
    fn of_two_agents_both_are_named() {
        let mut log = log();
        let mut hear = |boot_id, sequence| {
            log.hear(&beat("n1", boot_id, sequence), 0, |_| false).map_err(|fault| fault.code)
        };
        assert_eq!([hear("a", 1), hear("b", 1)], [Ok(false), Ok(false)]);
        assert_eq!([hear("a", 2), hear("a", 3)], [Err(Code::Replayed), Err(Code::TwoAgents)]);
        assert_eq!(hear("b", 2), Ok(true));
        let notes = log.notes_of("n1").concat();
        assert!(notes.contains("boot ids `b` and `a`"), "{notes}");
    }
}
