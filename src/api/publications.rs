//! The orchestrator's two endpoints: all work in, the schedule out.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::SignedDuration;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::error::{ApiError, Code};
use super::extract::{JsonText, Params};
use super::packed::{Unpacks, VARIES};
use super::state::{ApiState, Published, Request, ScheduleText};
use super::wire;

/// A long poll ends after this long, however long it asked for.
const WAIT_MAX: Duration = Duration::from_mins(1);

/// Publishes all work. What is absent is over. Safe to repeat.
#[utoipa::path(
    put,
    path = "/v1/publication",
    tag = "orchestrator",
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
    JsonText(body): JsonText,
) -> Result<(StatusCode, Json<wire::PublicationAnswer>), ApiError> {
    // Held to the end: publications take effect one after the other.
    let intake = state.intake().await;
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
            "the publication could not be read, for a fault of ours; nothing was changed",
        )
    })?;
    let taken = taken?;
    if let Some(publication) = taken.publication {
        let sequence = publication.sequence;
        state.room().await?.send(Request::Publication { sequence, events: taken.events });
        intake.keep(publication, taken.overdue);
    }
    log_refused(&taken.answer);
    Ok((StatusCode::ACCEPTED, Json(taken.answer)))
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

/// How to ask for the schedule.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ScheduleParams {
    /// How long to wait for something new, such as `30s`; at most a minute.
    wait: Option<String>,
}

/// The whole schedule. With `If-None-Match` and `wait`, answers as soon as there is another one.
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
            headers(("apportion-sequence" = u64, description = "the last event of `/v1/events` that is in it"))),
        (status = 304, description = "still the one already known",
            headers(("apportion-sequence" = u64, description = "the last event of `/v1/events` that is in it"))),
        (status = 503, description = "nothing is scheduled yet", body = wire::Problem),
    )
)]
pub async fn get_schedule(
    State(state): State<ApiState>,
    known: KnownTags,
    unpacks: Unpacks,
    Params(params): Params<ScheduleParams>,
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

/// How long a long poll may wait.
pub(super) fn wait_of(text: &str) -> Result<Duration, ApiError> {
    let wait = text.parse::<SignedDuration>().ok().and_then(|wait| Duration::try_from(wait).ok());
    wait.map(|wait| wait.min(WAIT_MAX)).ok_or_else(|| {
        let text = super::json::shortened(text);
        ApiError::new(
            Code::BadParameter,
            format!("`wait` is `{text}`; expected a duration such as `30s`"),
        )
    })
}

/// The schedules that are known already: what `If-None-Match` says.
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
    (StatusCode::NOT_MODIFIED, headers).into_response()
}

async fn schedule_response(latest: &Published, unpacks: Unpacks) -> Response {
    let schedule = &latest.schedule;
    let headers = [(header::ETAG, schedule.etag.clone()), sequence(latest)];
    (headers, schedule.json.answer(unpacks).await).into_response()
}

/// The last event of the feed that is in the schedule. Not in the text: that stays as it is while
/// events come that change nothing about it.
fn sequence(latest: &Published) -> (HeaderName, HeaderValue) {
    (HeaderName::from_static("apportion-sequence"), latest.last_event.into())
}
