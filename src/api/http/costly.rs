//! Turns for requests that take long to answer, such as pages and whole lists of jobs.
//!
//! Threads of their own answer these requests, a few at a time. So heartbeats and the orchestrator
//! wait for none of them.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::api::http::error::{ApiError, Code};
use crate::api::state::ApiState;
use crate::auth::{Identity, Role};

/// Answers a request when its turn has come, and all of it before the next.
pub async fn in_turn(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let role = request.extensions().get::<Identity>().and_then(|identity| identity.role);
    let turns = &state.turns;
    let turns = if role == Some(Role::Operator) { &turns.of_operators } else { &turns.of_others };
    let failed = || ApiError::new(Code::Internal, "not answered: internal error, see the log");
    let Ok(turn) = Arc::clone(turns).acquire_owned().await else {
        return failed().into_response();
    };
    let here = Handle::current();
    let answered = spawn_blocking(move || {
        let _turn = turn;
        here.block_on(async { whole(next.run(request).await).await })
    });
    answered.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a request was not answered");
        failed().into_response()
    })
}

/// Reads all of an answer's body here, as the body is packed while it is read. Streams stay
/// unchanged.
async fn whole(response: Response) -> Response {
    let (head, body) = response.into_parts();
    let kind = head.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    if kind.is_some_and(|kind| kind.starts_with(b"text/event-stream")) {
        return Response::from_parts(head, body);
    }
    match to_bytes(body, usize::MAX).await {
        Ok(body) => Response::from_parts(head, Body::from(body)),
        Err(error) => {
            tracing::error!(%error, "an answer was not made");
            ApiError::new(Code::Internal, "not answered: internal error, see the log")
                .into_response()
        }
    }
}
