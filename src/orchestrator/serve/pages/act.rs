//! Suspension, resumption and cancellation of a campaign from a page.
//!
//! The act is a form of this site, sent from this site; the gate refuses what another site sends.

use axum::extract::rejection::FormRejection;
use axum::extract::{Form, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use crate::dashboard::PageError;
use crate::orchestrator::serve::caller::OrchestratorCaller;
use crate::orchestrator::serve::campaigns::change_state;
use crate::orchestrator::serve::problem::Failed;
use crate::orchestrator::serve::state::ServeState;
use crate::orchestrator::wire::{StateChange, WantedState};

/// Contents of the form.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StateForm {
    state: WantedState,
}

/// Carries the act out. Answers with the page of the campaign once the act is on record.
pub(super) async fn change(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Path(id): Path<u64>,
    headers: HeaderMap,
    form: Result<Form<StateForm>, FormRejection>,
) -> Result<Response, PageError> {
    if !headers.contains_key(header::ORIGIN) {
        let sentence = "the browser does not name the page that sent this; nothing was done. Use the command line instead.";
        tracing::warn!("a form without an origin was refused");
        return Ok((StatusCode::FORBIDDEN, sentence).into_response());
    }
    let Form(form) = form.map_err(|error| Failed::bad(format!("state: {}", error.body_text())))?;
    let change = StateChange { state: form.state, now: false };
    change_state(&state, &caller, id, &change).await?;
    Ok(Redirect::to(&format!("/campaigns/{id}")).into_response())
}
