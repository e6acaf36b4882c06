//! Urgent work: accepted or refused at once, by a channel of its own.
//!
//! The answer comes once the decision is stored. A job that was accepted is known from then on, so
//! repeating a request changes nothing and has the same answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::api::http::authorize::Caller;
use crate::api::http::error::{ApiError, Code};
use crate::api::http::extract::JsonText;
use crate::api::http::json;
use crate::api::ingest::validate::code_of_field;
use crate::api::state::ApiState;
use crate::api::urgent_rate::MOST;
use crate::api::wire::{self, PromisedNode, UrgentAnswer, UrgentLoss, UrgentWord, WorkNumber};
use crate::model::JobId;
use crate::scheduler::{UrgentGrant, View};

/// Accepts or refuses an urgent job at once: in a cycle out of turn, before all other work. It takes
/// what it needs from fair-share work. Safe to repeat.
///
/// The body is an item of a publication, without processes, in a class that takes urgent work. An
/// accepted job is known from then on. The second publication afterwards has to contain it, or it
/// ends. A refused job is not kept, and not tried again. At most 10 requests are decided in a
/// minute.
#[utoipa::path(
    post,
    path = "/v1/urgent",
    tag = "orchestrator",
    request_body = wire::Work,
    responses(
        (status = 200, description = "accepted, now or before", body = UrgentAnswer),
        (status = 400, description = "no item of a publication; nothing was done", body = wire::Problem),
        (status = 409, description = "refused, with the reason; nothing was done", body = wire::Problem),
        (status = 422, description = "the job may not be so; nothing was done", body = wire::Problem),
        (status = 429, description = "too many urgent requests; `retry-after` says when to go on", body = wire::Problem),
        (status = 503, description = "nothing is scheduled yet", body = wire::Problem),
    )
)]
pub async fn post_urgent(
    State(state): State<ApiState>,
    Caller(caller): Caller,
    JsonText(body): JsonText,
) -> Result<Response, ApiError> {
    let WorkNumber { id } = json::read_body(&body, code_of_field)?;
    // Locked to the end: a publication that comes meanwhile finds the job known.
    let mut intake = state.intake().await;
    let published = state.latest();
    let text = std::str::from_utf8(&body).unwrap_or_default();
    let work = intake.read_urgent(text, &published)?;
    if let Some(grant) = grant_of(&published.view, JobId(id)) {
        return Ok(Json(answer(id, &grant)).into_response());
    }
    if let Err(wait) = state.urgent.take(Instant::now()) {
        return Ok(too_often(wait));
    }
    let grant = state.decide_urgent(work.spec.clone(), caller.actor()).await?;
    intake.keep_urgent(work);
    Ok(Json(answer(id, &grant)).into_response())
}

/// Promise to a job that is known as urgent.
fn grant_of(view: &View, id: JobId) -> Option<Arc<UrgentGrant>> {
    view.jobs.iter().find(|job| job.id == id)?.urgent.clone()
}

fn answer(job: u64, grant: &UrgentGrant) -> UrgentAnswer {
    let promised = grant.promised.iter();
    let preempted = grant.preempted.iter().map(|victim| UrgentLoss {
        job: victim.job.0,
        share: victim.share.0,
        node: victim.node.to_string(),
        loss_ms: victim.loss,
    });
    UrgentAnswer {
        job,
        verdict: UrgentWord::Accepted,
        promised: promised
            .map(|(node, rank)| PromisedNode { node: node.to_string(), rank: *rank })
            .collect(),
        preempted: preempted.collect(),
        cycle: grant.cycle,
    }
}

fn too_often(wait: Duration) -> Response {
    let wait = wait.as_secs().saturating_add(1);
    let detail = format!(
        "more than {MOST} urgent requests in a minute; nothing was done, and the next is taken in {wait} s"
    );
    let mut response = ApiError::new(Code::TooOften, detail).into_response();
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait));
    response
}
