//! Signs of life: what makes one count, and what was heard last of every node.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::error::{ApiError, Code, Fault};
use super::extract::JsonText;
use super::json;
use super::names::name_problem;
use super::state::{ApiState, Limits, Request};
use super::wire::{self, Heartbeat, HeartbeatAnswer, HeartbeatEnvelope, HeartbeatProbe};
use crate::model::{Mebibytes, NodeReport};
use crate::scheduler::Event;

/// More memory than any machine has, in MiB: 2 PiB. The order of such a machine still fits an
/// `Order`, whatever the quantum.
const MEMORY_MAX: u64 = 1 << 31;

/// What was heard last of every node.
#[derive(Debug)]
pub struct HeartbeatLog {
    nodes: BTreeMap<String, Life>,
    limits: Limits,
}

/// One life of a node's agent, as far as it was told of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Life {
    boot_id: Option<String>,
    sequence: Option<u64>,
    /// The life before; a heartbeat of it is late, not new.
    previous_boot_id: Option<String>,
}

impl HeartbeatLog {
    /// Nothing heard yet; to so many nodes will be listened as `limits` says.
    pub fn new(limits: Limits) -> HeartbeatLog {
        HeartbeatLog { nodes: BTreeMap::new(), limits }
    }

    /// Notes a heartbeat, if it is a sign of life.
    fn hear(&mut self, heartbeat: &Heartbeat) -> Result<(), Fault> {
        let Some(life) = self.nodes.get_mut(&heartbeat.node) else {
            let limit = self.limits.nodes;
            if self.nodes.len() >= limit {
                let detail = format!(
                    "{limit} nodes report already; the limit is `daemon.limits.max_nodes` in the configuration"
                );
                return Err(Fault::new(Code::TooManyNodes, "/node", detail));
            }
            self.nodes.insert(heartbeat.node.clone(), Life::default().with(heartbeat));
            return Ok(());
        };
        if life.has_heard(heartbeat) {
            let node = &heartbeat.node;
            let detail = format!(
                "this heartbeat of `{node}`, or a later one, was heard before; it counts for nothing"
            );
            return Err(Fault::new(Code::Replayed, "/sequence", detail));
        }
        *life = std::mem::take(life).with(heartbeat);
        Ok(())
    }
}

impl Life {
    fn has_heard(&self, heartbeat: &Heartbeat) -> bool {
        let is_same_life = self.boot_id == heartbeat.boot_id;
        let is_earlier_life =
            heartbeat.boot_id.is_some() && self.previous_boot_id == heartbeat.boot_id;
        let is_no_later = heartbeat.sequence.is_some() && heartbeat.sequence <= self.sequence;
        is_earlier_life || (is_same_life && is_no_later)
    }

    fn with(self, heartbeat: &Heartbeat) -> Life {
        let (boot_id, sequence) = (heartbeat.boot_id.clone(), heartbeat.sequence);
        let is_same_life = self.boot_id == boot_id;
        let previous_boot_id = if is_same_life { self.previous_boot_id } else { self.boot_id };
        Life {
            boot_id,
            sequence: sequence.or(self.sequence.filter(|_| is_same_life)),
            previous_boot_id,
        }
    }
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
        (status = 409, description = "a single heartbeat that was heard before", body = wire::Problem),
        (status = 429, description = "a single heartbeat of one node too many", body = wire::Problem),
    )
)]
pub async fn post_heartbeats(
    State(state): State<ApiState>,
    JsonText(body): JsonText,
) -> Result<(StatusCode, Json<HeartbeatAnswer>), ApiError> {
    let is_batch = json::read_body::<HeartbeatProbe>(&body, code_of_field)?.nodes.is_some();
    let (beats, mut faults) = if is_batch {
        read_batch(&body, &state.limits)?
    } else {
        (vec![read_one(&body, &state.limits)?], Vec::new())
    };
    // Room first: what is noted as heard is then heard of, whatever becomes of this request.
    let room = state.room().await?;
    let mut events = Vec::with_capacity(beats.len());
    {
        let mut log = state.heartbeats();
        for (pointer, beat) in beats {
            match log.hear(&beat) {
                Ok(()) => events.push(Event::NodeReported(report_of(beat))),
                Err(fault) => faults.push(fault.within(&pointer)),
            }
        }
    }
    let accepted = u64::try_from(events.len()).expect("a count fits in 64 bits");
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

fn report_of(beat: Heartbeat) -> NodeReport {
    NodeReport {
        name: beat.node.into(),
        memory: Mebibytes(beat.memory_mb),
        is_quiesced: beat.quiesced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `n1` as a bare heartbeat of n1, `n1 a 7` as the 7th of life a.
    fn beat(text: &str) -> Heartbeat {
        let mut words = text.split_whitespace();
        let node = words.next().unwrap().to_owned();
        let boot_id = words.next().map(str::to_owned);
        let sequence = words.next().map(|word| word.parse().unwrap());
        Heartbeat { node, memory_mb: 1, quiesced: false, boot_id, sequence }
    }

    #[track_caller]
    fn check(beats: &[&str], heard: &[bool]) {
        let limits = Limits {
            body: 1,
            time: std::time::Duration::ZERO,
            nodes: 2,
            jobs: 1,
            processes: 1,
            string: 9,
        };
        let mut log = HeartbeatLog::new(limits);
        let actual: Vec<bool> = beats.iter().map(|text| log.hear(&beat(text)).is_ok()).collect();
        assert_eq!(actual, heard, "{beats:?}");
    }

    #[test]
    fn only_what_is_new_is_a_sign_of_life() {
        check(&["n1", "n1"], &[true, true]); // who does not count cannot replay
        check(&["n1 a 1", "n1 a 2"], &[true, true]);
        check(&["n1 a 2", "n1 a 2"], &[true, false]);
        check(&["n1 a 2", "n1 a 1"], &[true, false]);
        check(&["n1 a 9", "n1 b 1"], &[true, true]); // it booted
        check(&["n1 a 9", "n1 b 1", "n1 a 10"], &[true, true, false]); // late, from before
        check(&["n1 a 2", "n1 a", "n1 a 2"], &[true, true, false]);
        check(&["n1", "n2", "n3", "n1"], &[true, true, false, true]); // two are the most
    }
}
