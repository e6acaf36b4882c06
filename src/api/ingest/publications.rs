//! The orchestrator's two endpoints: all jobs in, the schedule out.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use jiff::SignedDuration;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use crate::api::admin::reason_in;
use crate::api::http::authorize::Caller;
use crate::api::http::compression::{AcceptsGzip, VARIES};
use crate::api::http::error::{ApiError, Code};
use crate::api::http::extract::{JsonBody, JsonText, QueryParams};
use crate::api::ingest::orchestrators::remember;
use crate::api::owner_request::{AuditNote, Request};
use crate::api::published::{Published, ScheduleText};
use crate::api::state::{ApiState, stopping};
use crate::api::wire;

/// A long poll ends after this long, however long it asked for.
const WAIT_MAX: Duration = Duration::from_mins(1);

/// Publishes all jobs. Absent processes keep their space until they are published as gone. Safe to
/// repeat.
///
/// The answer confirms that the publication was understood; the next cycle stores it. A kill before
/// that loses it: publish again until the schedule names its number, or ask with `?wait=commit`.
#[utoipa::path(
    put,
    path = "/v1/publication",
    tag = "orchestrator",
    params(PublicationParams),
    request_body = wire::Publication,
    responses(
        (status = 202, description = "taken in; items that could not be are listed", body = wire::PublicationAnswer),
        (status = 400, description = "not a publication", body = wire::Problem),
        (status = 409, description = "out of turn, or suddenly empty", body = wire::Problem),
        (status = 413, description = "larger than the configured limits", body = wire::Problem),
        (status = 415, description = "not plain JSON in UTF-8", body = wire::Problem),
    )
)]
pub async fn put_publication(
    State(state): State<ApiState>,
    QueryParams(params): QueryParams<PublicationParams>,
    JsonText(body): JsonText,
) -> Result<(StatusCode, Json<wire::PublicationAnswer>), ApiError> {
    let is_to_be_stored = waits_for_commit(&params)?;
    // Locked to the end: publications take effect in order.
    let mut intake = state.intake().await;
    let published = state.latest();
    // A publication can be large enough to hold up other requests while it is read.
    let reading = tokio::task::spawn_blocking(move || {
        let taken = intake.read(body, &published);
        (intake, taken)
    });
    let (mut intake, taken) = reading.await.map_err(|error| {
        tracing::error!(%error, "reading a publication failed");
        ApiError::new(
            Code::Internal,
            "the publication could not be read: internal error, see the log; nothing was changed",
        )
    })?;
    let taken = taken?;
    let absent = taken.absent();
    if let Some(publisher) = taken.publisher {
        // First, so that the orchestrator is stored before its publication.
        remember(&state, Some(publisher.clone()), None).await?;
        intake.publishers().hand_over(Some(publisher));
    }
    if let Some(publication) = taken.publication {
        let sequence = publication.sequence;
        state.room().await?.send(Request::Publication { sequence, events: taken.events, absent });
        intake.keep(publication, taken.overdue, taken.absences);
    }
    drop(intake);
    log_refused(&taken.answer);
    let mut answer = taken.answer;
    if is_to_be_stored {
        answer.stored = Some(is_stored(&state, answer.sequence).await?);
    }
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

/// Waits until the publication is stored, at most for the time that a request may take.
async fn is_stored(state: &ApiState, sequence: u64) -> Result<bool, ApiError> {
    let deadline = Instant::now() + state.limits.time;
    let mut changes = state.board.changes();
    // The view may already contain a repeated publication, or a later publication.
    while state.latest().publication.is_none_or(|stored| stored < sequence) {
        tokio::select! {
            changed = timeout_at(deadline, changes.changed()) => match changed {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(stopping()),
                Err(_) => return Ok(false),
            },
            () = state.stop.cancelled() => return Err(stopping()),
        }
    }
    Ok(true)
}

/// Parameters of a publication.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PublicationParams {
    /// `commit`: answer only when the publication is stored and survives a crash.
    wait: Option<String>,
}

/// True if the answer has to wait until the publication is stored.
fn waits_for_commit(params: &PublicationParams) -> Result<bool, ApiError> {
    match params.wait.as_deref() {
        None => Ok(false),
        Some("commit") => Ok(true),
        Some(other) => {
            let other = crate::api::http::json::shortened(other);
            let detail = format!("`wait` is `{other}`; here it can only be `commit`");
            Err(ApiError::new(Code::BadParameter, detail))
        }
    }
}

/// Lets the numbers of publications begin anew. Jobs and shares stay as they are.
#[utoipa::path(
    post,
    path = "/v1/publication/reset",
    tag = "administration",
    request_body = wire::PublicationReset,
    responses(
        (status = 200, description = "the next publication may have any number", body = wire::PublicationResetAnswer),
        (status = 400, description = "no reason; nothing was done", body = wire::Problem),
    )
)]
pub async fn post_publication_reset(
    State(state): State<ApiState>,
    Caller(caller): Caller,
    JsonBody(request): JsonBody<wire::PublicationReset>,
) -> Result<Json<wire::PublicationResetAnswer>, ApiError> {
    let reason = reason_in(&request.reason, &state.limits)?;
    let last = state.latest().publication;
    if !request.dry_run {
        let mut intake = state.intake().await;
        let note = AuditNote {
            by: caller.actor(),
            act: "publication reset".to_owned(),
            detail: format!("{reason} (the last was {})", last.unwrap_or(0)),
            outcome: "done".to_owned(),
        };
        state.room().await?.send(Request::Audit(note));
        intake.reset();
        tracing::warn!(last, reason, "the next publication may have any number");
    }
    Ok(Json(wire::PublicationResetAnswer { last, dry_run: request.dry_run }))
}

fn log_refused(answer: &wire::PublicationAnswer) {
    if answer.refused.is_empty() && answer.warnings.is_empty() {
        return;
    }
    let (sequence, refused, warnings) =
        (answer.sequence, answer.refused.len(), answer.warnings.len());
    let first =
        answer.refused.iter().chain(&answer.warnings).next().map(|problem| problem.detail.as_str());
    tracing::warn!(sequence, refused, warnings, first, "a publication has problems");
}

/// Parameters of a request for the schedule.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ScheduleParams {
    /// Longest wait for a new schedule, such as `30s`; at most a minute.
    wait: Option<String>,
}

/// The whole schedule. With `If-None-Match` and `wait`, answers as soon as there is a new schedule.
#[utoipa::path(
    get,
    path = "/v1/schedule",
    tag = "orchestrator",
    params(
        ScheduleParams,
        ("If-None-Match" = Option<String>, Header, description = "the ETag of the schedule already known"),
    ),
    responses(
        (status = 200, description = "the schedule; its ETag names it", body = wire::Schedule,
            headers(
                ("apportion-sequence" = u64, description = "the last event of `/v1/events` that is in it"),
                ("apportion-publication" = u64, description = "the last publication that is on record with it"),
            )),
        (status = 304, description = "still the one already known",
            headers(
                ("apportion-sequence" = u64, description = "the last event of `/v1/events` that is in it"),
                ("apportion-publication" = u64, description = "the last publication that is on record with it"),
            )),
        (status = 503, description = "nothing is scheduled yet", body = wire::Problem),
    )
)]
pub async fn get_schedule(
    State(state): State<ApiState>,
    known: KnownTags,
    unpacks: AcceptsGzip,
    QueryParams(params): QueryParams<ScheduleParams>,
) -> Result<Response, ApiError> {
    let wait = params.wait.as_deref().map_or(Ok(Duration::ZERO), wait_of)?;
    let latest = state.latest();
    if wait.is_zero() && latest.is_ready && known.contain(&latest.schedule) {
        return Ok(unchanged(&latest));
    }
    let deadline = Instant::now() + wait;
    let mut changes = state.board.changes();
    loop {
        let latest = state.latest();
        if latest.is_ready && !known.contain(&latest.schedule) {
            return Ok(schedule_response(&latest, unpacks).await);
        }
        let is_over = tokio::select! {
            changed = timeout_at(deadline, changes.changed()) => changed.is_err(),
            () = state.stop.cancelled() => true,
        };
        if is_over && latest.is_ready {
            return Ok(unchanged(&latest));
        }
        if is_over {
            let detail = "the first cycle follows the first publication since the start; `?wait=30s` waits for it";
            return Err(ApiError::new(Code::NotReady, detail));
        }
    }
}

/// Reads the longest wait of a long poll.
pub(in crate::api) fn wait_of(text: &str) -> Result<Duration, ApiError> {
    let wait = text.parse::<SignedDuration>().ok().and_then(|wait| Duration::try_from(wait).ok());
    wait.map(|wait| wait.min(WAIT_MAX)).ok_or_else(|| {
        let text = crate::api::http::json::shortened(text);
        ApiError::new(
            Code::BadParameter,
            format!("`wait` is `{text}`; expected a duration such as `30s`"),
        )
    })
}

/// Schedules that the client already has, from `If-None-Match`.
#[derive(Debug)]
pub struct KnownTags(Vec<HeaderValue>);

impl<S: Send + Sync> FromRequestParts<S> for KnownTags {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<KnownTags, Infallible> {
        let values = parts.headers.get_all(header::IF_NONE_MATCH).into_iter();
        Ok(KnownTags(values.cloned().collect()))
    }
}

impl KnownTags {
    fn contain(&self, schedule: &ScheduleText) -> bool {
        let tags = self.0.iter().filter_map(|value| value.to_str().ok());
        let mut tags = tags.flat_map(|value| value.split(','));
        tags.any(|tag| tag.trim() == "*" || schedule.etag == tag.trim())
    }
}

fn unchanged(latest: &Published) -> Response {
    let headers = [(header::ETAG, latest.schedule.etag.clone()), sequence(latest), VARIES];
    (StatusCode::NOT_MODIFIED, publication(latest), headers).into_response()
}

async fn schedule_response(latest: &Published, unpacks: AcceptsGzip) -> Response {
    let schedule = &latest.schedule;
    let headers = [(header::ETAG, schedule.etag.clone()), sequence(latest)];
    (publication(latest), headers, schedule.json.answer(unpacks).await).into_response()
}

/// Returns the header with the last publication that is stored with the schedule, if there is any.
fn publication(latest: &Published) -> AppendHeaders<Option<(HeaderName, HeaderValue)>> {
    let name = HeaderName::from_static("apportion-publication");
    AppendHeaders(latest.publication.map(|number| (name, number.into())))
}

/// The last event of the feed that is in the schedule. Not in the text: that stays as it is while
/// events come that change nothing about it.
fn sequence(latest: &Published) -> (HeaderName, HeaderValue) {
    (HeaderName::from_static("apportion-sequence"), latest.last_event.into())
}
