//! Requests of agents.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, Request, State};
use axum::http::{StatusCode, header};
use serde::Deserialize;

use super::caller::OrchestratorCaller;
use super::problem::Failed;
use super::state::ServeState;
use crate::auth::Authenticator;
use crate::client::unpack;
use crate::model::Name;
use crate::orchestrator::book::Event;
use crate::orchestrator::drive;
use crate::orchestrator::wire::{Exchange, ExchangeAnswer, LostNode, VERSION};

/// Most bytes of a report.
const MAX_REPORT: usize = 32 * 1024 * 1024;
/// Longest wait of an answer.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// Wait of an answer.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WaitQuery {
    /// Time that the answer may wait for news: a duration such as `25s`, a minute at most. Absent:
    /// the answer comes at once.
    wait: Option<String>,
}

/// Refuses agents whose token does not name the node. The refusal goes on record, within the rate
/// of the token's name.
pub(super) async fn check_node(
    state: &ServeState,
    caller: &OrchestratorCaller,
    node: &str,
) -> Result<(), Failed> {
    if caller.identity.nodes.contain(node) {
        return Ok(());
    }
    tracing::warn!(who = %caller.identity.name, node, "request refused: the token does not name the node");
    let budget = |keeper: &Arc<Authenticator>| {
        keeper.may_record_refusal(Some(&caller.identity.name), Instant::now())
    };
    if let Some(dropped) = state.gatekeeper.as_ref().map_or(Some(0), budget) {
        let shown: String = node.chars().take(64).collect();
        let detail = format!(
            "acted for node {shown:?}; {dropped} earlier acts of this kind are not on record"
        );
        state.send(drive::BookRequest::Note(caller.by(), "refused", detail)).await?;
    }
    Err(Failed::not_allowed(
        "this token does not name the node; add it to `nodes` in the token's line",
    ))
}

/// Takes the report of an agent, and answers with an order for every slot of the node. A report may
/// come with `Content-Encoding: gzip`.
#[utoipa::path(post, path = "/v1/nodes/{node}/exchange", tag = "nodes",
    params(("node" = String, Path, description = "the name of the node"), WaitQuery),
    request_body = Exchange,
    responses((status = 200, body = ExchangeAnswer), (status = 409, description = "an older exchange")))]
pub(super) async fn post_exchange(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path(node): Path<String>,
    query: Query<WaitQuery>,
    request: Request,
) -> Result<Json<ExchangeAnswer>, Failed> {
    check_node(&state, &caller, &node).await?;
    let wait = query.wait.as_deref().map_or(Ok(Duration::ZERO), wait_of)?;
    let is_packed =
        request.headers().get(header::CONTENT_ENCODING).is_some_and(|coding| coding == "gzip");
    let body = axum::body::to_bytes(request.into_body(), MAX_REPORT).await;
    let body = body.map_err(|error| Failed::bad(format!("the body cannot be read: {error}")))?;
    let body = if is_packed {
        let body = unpack(&body, MAX_REPORT);
        Bytes::from(body.map_err(|error| Failed::bad(format!("the body is no gzip: {error}")))?)
    } else {
        body
    };
    let report: Exchange = serde_json::from_slice(&body)
        .map_err(|error| Failed::bad(format!("the body is no report: {error}")))?;
    if report.v != VERSION {
        let detail = format!("v: {} is not supported; send {VERSION}", report.v);
        return Err(Failed::bad(detail));
    }
    let (node, report) = (Name::from(node), Box::new(report));
    let answer = state.ask(|reply| drive::BookRequest::Exchange(node, report, wait, reply)).await?;
    Ok(Json(answer?))
}

pub(super) fn wait_of(text: &str) -> Result<Duration, Failed> {
    let wait = text.parse::<jiff::SignedDuration>().ok().and_then(|wait| wait.try_into().ok());
    let wait: Option<Duration> = wait;
    wait.filter(|wait| *wait <= MAX_WAIT)
        .ok_or_else(|| Failed::bad("wait: write a duration such as `25s`, a minute at most"))
}

/// The standard input that a specification keeps.
#[utoipa::path(get, path = "/v1/nodes/{node}/stdin/{spec}", tag = "nodes",
    params(("node" = String, Path, description = "the name of the node"),
        ("spec" = u64, Path, description = "the number of the specification")),
    responses((status = 200, description = "the bytes"), (status = 404, description = "there are none")))]
pub(super) async fn get_stdin(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path((node, spec)): Path<(String, u64)>,
) -> Result<Bytes, Failed> {
    check_node(&state, &caller, &node).await?;
    let mut reading = state.reader().await?;
    let reader = reading.get()?;
    // A node gets only specifications of its own slots.
    if !reader.is_ordered(&node, spec).await? {
        return Err(Failed::not_allowed("no slot of this node has that specification"));
    }
    let kept = reader.stdin(spec).await?;
    kept.map(Bytes::from)
        .ok_or_else(|| Failed::absent(format!("specification {spec} has no standard input")))
}

/// Declares a node lost: no process of its slots runs any more. Its tasks are queued again at once.
#[utoipa::path(post, path = "/v1/slots/lost", tag = "nodes", request_body = LostNode,
    responses((status = 204, description = "it is on record")))]
pub(super) async fn post_lost(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Json(body): Json<LostNode>,
) -> Result<StatusCode, Failed> {
    let event = Event::NodeLost(Name::from(body.node.as_str()));
    let detail = format!("{}: {}", body.node, body.reason);
    let ask = |reply| drive::BookRequest::Act(event, caller.by(), "node lost", detail, reply);
    state.ask(ask).await?;
    Ok(StatusCode::NO_CONTENT)
}
