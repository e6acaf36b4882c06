//! Output of tasks: passes it from the node to the reader.

use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::caller::OrchestratorCaller;
use super::campaigns::check_owner;
use super::hub::OutputPart;
use super::nodes::check_node;
use super::output_away;
use super::problem::Failed;
use super::state::ServeState;
use super::tasks::position_of;
use crate::model::Name;
use crate::orchestrator::book::{AttemptRow, is_batch};
use crate::orchestrator::drive;
use crate::orchestrator::wire::{
    Channel, ChunkAnswer, ChunkQuery, MAX_CHUNK, OutputProblem, OutputRequest,
};

/// Wait for the first part: longer than the half minute that an agent's poll takes.
const FIRST_PART: Duration = Duration::from_secs(40);
/// Interval between two checks of a task that has not begun.
const LOOK: Duration = Duration::from_millis(200);
/// Most requests for the output of an attempt that its slot does not know yet.
const TRIES: u32 = 25;
/// Time that a reader gets for each part.
const PATIENCE: Duration = Duration::from_secs(20);

/// Selection of output.
#[derive(Clone, Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct OutputQuery {
    /// `out` or `err`; `out` by default.
    #[param(inline)]
    pub channel: Option<Channel>,
    /// First byte, from 0.
    pub from: Option<u64>,
    /// True to wait for the begin of the task, and to follow the output until the attempt ends.
    pub follow: Option<bool>,
    /// Number of the attempt; the last attempt by default.
    attempt: Option<u64>,
}

/// The output of a task, as it is. With `follow` it ends with the attempt.
#[utoipa::path(get, path = "/v1/campaigns/{id}/tasks/{task}/output", tag = "tasks",
    params(("id" = u64, Path, description = "the number of the campaign"),
        ("task" = u64, Path, description = "the number of the task"), OutputQuery),
    responses((status = 200, description = "the bytes"), (status = 404, description = "there are none")))]
pub(super) async fn get_output(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path((id, task)): Path<(u64, u64)>,
    query: Query<OutputQuery>,
) -> Result<Response, Failed> {
    let campaign = check_owner(&state, &caller, id).await?;
    position_of(state.reader().await?.get()?, &campaign, task).await?;
    let follow = query.follow.unwrap_or(false);
    let mut tries = if follow { TRIES } else { 1 };
    let (first, reading) = loop {
        let row = attempt(&state, (id, task), query.attempt, follow).await?;
        if is_batch(row.share) {
            return output_away::fetch(&state, &row, &query).await;
        }
        let mut reading = open(&state, row, &query).await?;
        let first = tokio::time::timeout(FIRST_PART, reading.parts.recv()).await;
        tries -= 1;
        match first.map_err(|_| Failed::late())? {
            // The request may reach its slot before the attempt does.
            Some(Err(OutputProblem::NoSuchAttempt)) if 0 < tries => tokio::time::sleep(LOOK).await,
            Some(Err(problem)) => return Err(refusal(problem)),
            Some(Ok(bytes)) => break (bytes, reading),
            None => break (Bytes::new(), reading),
        }
    };
    let passed = query.from.unwrap_or(0).saturating_add(length(&first));
    let rest = stream::unfold((reading, passed, false), next_part);
    let first = stream::once(std::future::ready(Ok(first)));
    let body = Body::from_stream(futures_util::StreamExt::chain(first, rest));
    let kind = HeaderValue::from_static("application/octet-stream");
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

/// The next part of output, of which `passed` bytes have gone by. A slot may end under a reader; what
/// it left is then asked for once more.
async fn next_part(
    (mut reading, passed, is_again): (Following, u64, bool),
) -> Option<(Result<Bytes, std::io::Error>, (Following, u64, bool))> {
    let problem = match reading.parts.recv().await? {
        Ok(part) => {
            let passed = passed.saturating_add(length(&part));
            return Some((Ok(part), (reading, passed, is_again)));
        }
        Err(problem) => problem,
    };
    if !is_again {
        let row = reading.row.clone();
        let query = OutputQuery { from: Some(passed), follow: None, ..reading.query.clone() };
        if let Ok(again) = open(&reading.state, row, &query).await {
            return Some((Ok(Bytes::new()), (again, passed, true)));
        }
    }
    Some((Err(std::io::Error::other(words(problem))), (reading, passed, true)))
}

fn length(part: &Bytes) -> u64 {
    u64::try_from(part.len()).unwrap_or(u64::MAX)
}

/// Asks the node of an attempt for its output.
async fn open(
    state: &ServeState,
    row: AttemptRow,
    query: &OutputQuery,
) -> Result<Following, Failed> {
    let (request, parts) = state.hub.open(row.node.clone());
    let order = OutputRequest {
        request,
        share: row.share,
        task: row.id,
        channel: query.channel.unwrap_or(Channel::Out),
        from: query.from.unwrap_or(0),
        follow: query.follow.unwrap_or(false) && row.result.is_none(),
    };
    let node = row.node.clone();
    let (state, query) = (state.clone(), query.clone());
    let reading = Following { state, row, query, request, parts };
    reading.state.send(drive::BookRequest::Output(node, order)).await?;
    Ok(reading)
}

/// A reader, whose end ends the request to the node.
struct Following {
    state: ServeState,
    row: AttemptRow,
    query: OutputQuery,
    request: u64,
    parts: mpsc::Receiver<OutputPart>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.state.hub.close(self.request);
        let (state, node, request) = (self.state.clone(), self.row.node.clone(), self.request);
        // The owner need not ask the node any more. An owner that has stopped asks no node.
        tokio::spawn(async move {
            let _ = state.send(drive::BookRequest::OutputHeard(node, request)).await;
        });
    }
}

/// Finds the attempt of the request. With `follow`, waits until the task has an attempt.
async fn attempt(
    state: &ServeState,
    (id, task): (u64, u64),
    wanted: Option<u64>,
    follow: bool,
) -> Result<AttemptRow, Failed> {
    loop {
        let mut rows = state.reader().await?.get()?.attempts(id, task).await?;
        let found = match wanted {
            Some(wanted) => rows.into_iter().find(|row| row.id.attempt == wanted),
            None => rows.pop(),
        };
        if let Some(row) = found {
            return Ok(row);
        }
        if !follow {
            let detail = format!("task {id}.{task} has no such attempt yet; wait with `follow`");
            return Err(Failed::absent(detail));
        }
        let mut reading = state.reader().await?;
        let reader = reading.get()?;
        let has_ended = match reader.task(id, task).await? {
            Some(row) => row.state.is_final(),
            // Tasks that were never touched end with their campaign.
            None => reader.campaign(id).await?.is_none_or(|info| info.row.state.is_final()),
        };
        drop(reading);
        if has_ended {
            return Err(Failed::absent(format!("task {id}.{task} ended before it began")));
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn words(problem: OutputProblem) -> &'static str {
    match problem {
        OutputProblem::Removed => "the output was removed, for space or for age",
        OutputProblem::NoSuchAttempt => "the node does not know the attempt",
        OutputProblem::Elsewhere => "the output went to a file, as `output` or `error` says",
        OutputProblem::Unreadable => "the node cannot read the output",
    }
}

fn refusal(problem: OutputProblem) -> Failed {
    Failed::absent(words(problem))
}

/// A part of the output of a task. The answer comes when the reader has taken it.
#[utoipa::path(post, path = "/v1/nodes/{node}/output/{request}", tag = "nodes",
    params(("node" = String, Path, description = "the name of the node"),
        ("request" = u64, Path, description = "the number of the request"), ChunkQuery),
    responses((status = 200, body = ChunkAnswer)))]
pub(super) async fn post_chunk(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path((node, request)): Path<(String, u64)>,
    query: Query<ChunkQuery>,
    body: Request,
) -> Result<Json<ChunkAnswer>, Failed> {
    check_node(&state, &caller, &node).await?;
    let bytes = axum::body::to_bytes(body.into_body(), MAX_CHUNK).await;
    let bytes = bytes.map_err(|error| Failed::bad(format!("the chunk cannot be read: {error}")))?;
    let node = Name::from(node);
    state.send(drive::BookRequest::OutputHeard(node.clone(), request)).await?;
    let Some(reader) = state.hub.reader(request, &node) else {
        return Ok(Json(ChunkAnswer { wanted: false }));
    };
    let part = query.problem.map_or(Ok(bytes), Err);
    let sent = tokio::time::timeout(PATIENCE, reader.send(part)).await;
    let is_over = query.end || query.problem.is_some();
    if is_over {
        state.hub.close(request);
    }
    let is_taken = matches!(sent, Ok(Ok(())));
    Ok(Json(ChunkAnswer { wanted: is_taken && !is_over }))
}
