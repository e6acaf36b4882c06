//! Requests that take long to answer: pages, and whole lists of jobs.
//!
//! They are answered on threads of their own, a few at a time, so that heartbeats and the orchestrator
//! wait for none of them. Operators wait for operators only.

use std::sync::Arc;
use std::thread::available_parallelism;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::access::{Identity, Role};
use crate::api::http::error::{ApiError, Code};
use crate::api::state::ApiState;

/// How many of them are answered at a time.
#[derive(Debug)]
pub(in crate::api) struct Turns {
    of_operators: Arc<Semaphore>,
    of_others: Arc<Semaphore>,
}

impl Default for Turns {
    /// Half of the processors, and one for operators.
    fn default() -> Turns {
        let processors = available_parallelism().map_or(1, usize::from);
        Turns {
            of_operators: Arc::new(Semaphore::new(1)),
            of_others: Arc::new(Semaphore::new(processors.div_ceil(2))),
        }
    }
}

/// Answers a request when its turn has come, and all of it before the next.
pub async fn in_turn(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let role = request.extensions().get::<Identity>().and_then(|identity| identity.role);
    let turns = &state.turns;
    let turns = if role == Some(Role::Operator) { &turns.of_operators } else { &turns.of_others };
    let failed = || ApiError::new(Code::Internal, "not answered, for a fault of ours");
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

/// The answer with all of its body: what packs it works while it is read. Streams stay what they are.
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
            ApiError::new(Code::Internal, "not answered, for a fault of ours").into_response()
        }
    }
}
