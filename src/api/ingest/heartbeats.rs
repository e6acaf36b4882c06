//! Heartbeats as agents send them: alone or in a batch.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;

use crate::api::http::authorize::Caller;
use crate::api::http::error::{ApiError, Code, RequestFault};
use crate::api::http::extract::JsonText;
use crate::api::http::json::{self, Object, shortened};
use crate::api::http::refuse;
use crate::api::ingest::names::{node_problem, tags_problem};
use crate::api::ingest::publication_reader::REFUSED_MAX;
use crate::api::limits::Limits;
use crate::api::state::ApiState;
use crate::api::wire::{self, Heartbeat, HeartbeatAnswer, HeartbeatEnvelope, HeartbeatProbe};
use crate::auth::Identity;
use crate::model::count;

/// Limit of a node's memory in MiB: 2 PiB, more than any node has. The order of such a node still
/// fits an `Order` at every quantum.
const MEMORY_MAX: u64 = 1 << 31;

/// Reports a node, or many in `nodes`. A bad entry of a batch is refused alone; the rest counts.
#[utoipa::path(
    post,
    path = "/v1/heartbeats",
    tag = "agents",
    request_body = wire::HeartbeatBatch,
    responses(
        (status = 202, description = "accepted; entries of a batch that do not count are listed", body = HeartbeatAnswer),
        (status = 400, description = "not a heartbeat", body = wire::Problem),
        (status = 409, description = "a single heartbeat that came before, or of a second agent", body = wire::Problem),
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
    let Read { beats, mut faults, is_batch } = read(&body, &state.limits)?;
    let (beats, others): (Vec<Placed>, Vec<Placed>) =
        beats.into_iter().partition(|(_, beat)| caller.nodes.contain(&beat.node));
    if let Some(refused) = of_others(&state, &caller, &others, beats.is_empty()) {
        return Err(refused);
    }
    faults.extend(others.into_iter().map(|(place, _)| {
        let detail = "this token does not speak for this node; what it reported before stands";
        RequestFault::new(Code::NotAllowed, "/node", detail).within(&place.pointer())
    }));
    // Once the scheduler has stopped, no reader would get the report.
    state.check_running()?;
    let published = state.latest();
    let topology = &published.view.topology;
    let is_listed =
        |name: &str| topology.pools.iter().any(|pool| pool.nodes.iter().any(|node| node == name));
    let now = jiff::Timestamp::now().as_millisecond();
    let mut accepted = 0;
    state.heartbeats.take_in(|log| {
        for (place, beat) in beats {
            match log.receive(beat, now, is_listed) {
                Ok(()) => accepted += 1,
                Err(fault) => faults.push(fault.within(&place.pointer())),
            }
        }
    });
    state.board.meters().heartbeats(accepted, count(&faults));
    if let (false, Some(fault)) = (is_batch, faults.first()) {
        return Err(fault.clone().into());
    }
    let refused_unlisted = count(faults.get(REFUSED_MAX..).unwrap_or_default());
    let refused = faults.into_iter().take(REFUSED_MAX).map(Into::into).collect();
    Ok((StatusCode::ACCEPTED, Json(HeartbeatAnswer { accepted, refused, refused_unlisted })))
}

/// Place of a heartbeat in the body.
#[derive(Clone, Copy, Debug)]
enum BeatPlace {
    /// The whole body.
    Alone,
    /// The entry with this index.
    InBatch(usize),
}

impl BeatPlace {
    fn pointer(self) -> String {
        match self {
            BeatPlace::Alone => String::new(),
            BeatPlace::InBatch(index) => format!("/nodes/{index}"),
        }
    }
}

/// A heartbeat and where it was in the body.
type Placed = (BeatPlace, Heartbeat);

/// Content of a body.
struct Read {
    beats: Vec<Placed>,
    /// Problems of other entries of a batch.
    faults: Vec<RequestFault>,
    is_batch: bool,
}

/// Audits heartbeats for nodes outside the token. Refuses the request if it contained nothing else;
/// otherwise its remaining heartbeats count.
fn of_others(
    state: &ApiState,
    caller: &Identity,
    others: &[Placed],
    is_nothing_theirs: bool,
) -> Option<ApiError> {
    let (_, first) = others.first()?;
    let detail = format!("{} (`{}`)", count(others), shortened(&first.node));
    refuse::note_refusal(state, caller.actor(), "heartbeat of others", &detail, "not allowed");
    is_nothing_theirs.then(|| ApiError::new(Code::NotAllowed, refuse::NOT_ALLOWED))
}

/// A batch without a bad entry.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GoodBatch {
    nodes: Vec<Object<Heartbeat>>,
}

/// Reads a body. Nearly all bodies are good and are read once; a bad body is read again to find its
/// faulty parts.
fn read(body: &[u8], limits: &Limits) -> Result<Read, RequestFault> {
    let is_good =
        |beat: &Heartbeat| check(beat, limits.string).is_ok() && tags_problem(&beat.tags).is_none();
    if let Some(beat) = json::read_if_good::<Heartbeat>(body).filter(is_good) {
        return Ok(Read {
            beats: vec![(BeatPlace::Alone, beat)],
            faults: Vec::new(),
            is_batch: false,
        });
    }
    if let Some(GoodBatch { nodes }) = json::read_if_good(body)
        && nodes.len() <= limits.nodes
        && nodes.iter().all(|Object(beat)| is_good(beat))
    {
        let placed = |(index, Object(beat))| (BeatPlace::InBatch(index), beat);
        let beats = nodes.into_iter().enumerate().map(placed).collect();
        return Ok(Read { beats, faults: Vec::new(), is_batch: true });
    }
    if json::read_body::<HeartbeatProbe>(body, code_of_field)?.nodes.is_some() {
        return read_batch(body, limits);
    }
    let mut beat = json::read_body(body, code_of_field)?;
    check(&beat, limits.string)?;
    let faults = drop_bad_tags(&mut beat).into_iter().collect();
    Ok(Read { beats: vec![(BeatPlace::Alone, beat)], faults, is_batch: false })
}

fn read_batch(body: &[u8], limits: &Limits) -> Result<Read, RequestFault> {
    let envelope: HeartbeatEnvelope<'_> = json::read_body(body, code_of_field)?;
    if envelope.nodes.len() > limits.nodes {
        let detail = format!(
            "a batch of {} entries; at most {} are taken",
            envelope.nodes.len(),
            limits.nodes
        );
        return Err(RequestFault::new(Code::BadValue, "/nodes", detail));
    }
    let (mut beats, mut faults) = (Vec::new(), Vec::new());
    for (index, entry) in envelope.nodes.iter().enumerate() {
        let place = BeatPlace::InBatch(index);
        let read = json::read_part(entry.get(), code_of_field)
            .map_err(|fault| RequestFault {
                detail: fault.detail + "; what it reported before stands",
                ..fault
            })
            .and_then(|beat| check(&beat, limits.string).map(|()| beat));
        match read {
            Ok(mut beat) => {
                let fault = drop_bad_tags(&mut beat);
                faults.extend(fault.map(|fault| fault.within(&place.pointer())));
                beats.push((place, beat));
            }
            Err(fault) => faults.push(fault.within(&place.pointer())),
        }
    }
    Ok(Read { beats, faults, is_batch: true })
}

/// Removes all tags of a heartbeat if one is bad: the sign of life counts nevertheless.
fn drop_bad_tags(beat: &mut Heartbeat) -> Option<RequestFault> {
    let problem = tags_problem(&beat.tags)?;
    beat.tags.clear();
    let detail = format!("`{}`: {problem}; the heartbeat counts, without tags", beat.node);
    Some(RequestFault::new(Code::BadTags, "/tags", detail))
}

fn code_of_field(field: &str) -> Code {
    match field {
        "memory_mb" => Code::BadNodeMemory,
        "node" => Code::BadNodeName,
        "tags" => Code::BadTags,
        _ => Code::BadValue,
    }
}

fn check(beat: &Heartbeat, bytes_max: usize) -> Result<(), RequestFault> {
    if let Some(problem) = node_problem(&beat.node, bytes_max) {
        return Err(RequestFault::new(Code::BadNodeName, "/node", problem));
    }
    if !(1..=MEMORY_MAX).contains(&beat.memory_mb) {
        let (node, memory) = (&beat.node, beat.memory_mb);
        let detail = format!(
            "`{node}` reports {memory} MiB; allowed: 1 to {MEMORY_MAX}. What it reported before stands"
        );
        return Err(RequestFault::new(Code::BadNodeMemory, "/memory_mb", detail));
    }
    if beat.boot_id.as_ref().is_some_and(|id| id.len() > bytes_max) {
        let detail = format!("`boot_id` may have at most {bytes_max} bytes");
        return Err(RequestFault::new(Code::BadValue, "/boot_id", detail));
    }
    Ok(())
}
