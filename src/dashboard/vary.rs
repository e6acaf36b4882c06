//! Taking nodes out and putting them back: first what it would mean, then the act.
//!
//! Both use the handlers of the API. The act needs a form of this site, sent from this site:
//! another site's page in the same browser cannot send it under any host name.

use askama::Template;
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::Dashboard;
use super::frame::{Ask, Nothing, Page, PageError, PageQuery, address_of};
use super::words::counted;
use crate::api::http::extract::JsonBody;
use crate::api::wire::{Impact, JobBelow, VaryAnswer, VaryOff, VaryOn};
use crate::api::{ApiError, Caller, Code, admin};
use crate::model::{fold_hostlist, span};

/// Form of an act on nodes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct VaryForm {
    /// `off` or `on`.
    way: String,
    /// Names and host lists, apart by spaces.
    nodes: String,
    reason: String,
    /// Confirmation that every node of the cluster is meant.
    all: String,
}

#[derive(Template)]
#[template(path = "vary.html")]
struct Preview<'a> {
    form: &'a VaryForm,
    changed: String,
    unchanged: String,
    effect: String,
    /// Processes on other nodes that make space, and lost work.
    further: Vec<String>,
    stays: String,
    jobs: Vec<u64>,
    jobs_more: usize,
    notes: Vec<String>,
    is_off: bool,
    may_act: bool,
    command: String,
}

/// Jobs listed by name.
const JOBS_SHOWN: usize = 24;

/// Describes the effect of the act. Changes nothing.
pub(super) async fn preview(
    State(dashboard): State<Dashboard>,
    caller: Caller,
    PageQuery(form): PageQuery<VaryForm>,
    ask: Ask,
) -> Result<Response, PageError> {
    let answer = carry_out(&dashboard, caller, &form, true).await?;
    let impact = &answer.impact;
    let evicted = counted(impact.shares_evicted, "process");
    let effect = match (form.is_off(), impact.shares_evicted) {
        (true, 0) => "No process has to end.".to_owned(),
        (true, _) => {
            let jobs = counted(crate::model::count(&impact.jobs), "job");
            format!(
                "{evicted} of {jobs} will be evicted, and start again elsewhere if memory is free."
            )
        }
        (false, _) => "They get work again from the next cycle on.".to_owned(),
    };
    let stays = match impact.kept {
        0 => String::new(),
        kept => {
            format!("{} of work that cannot be preempted until done.", counted(kept, "process"))
        }
    };
    let further = further(impact);
    let names = |nodes: &[String]| fold_hostlist(nodes.iter().map(String::as_str));
    let live = Preview {
        changed: names(&answer.changed),
        unchanged: names(&answer.unchanged),
        effect,
        further,
        stays,
        jobs: impact.jobs.iter().take(JOBS_SHOWN).copied().collect(),
        jobs_more: impact.jobs.len().saturating_sub(JOBS_SHOWN),
        // Quoted as for a terminal.
        notes: answer.notes.iter().map(|note| note.replace('`', "")).collect(),
        is_off: form.is_off(),
        may_act: ask.may_act,
        command: form.command(),
        form: &form,
    };
    let title = if form.is_off() { "Take nodes out?" } else { "Put nodes back?" };
    Page { title, section: "/nodes", head: Nothing, live }.answer(&ask)
}

/// Sentences about what the next cycle does besides the evictions.
fn further(impact: &Impact) -> Vec<String> {
    let mut sentences = Vec::new();
    if 0 < impact.preempted {
        let count = counted(impact.preempted, "process");
        sentences.push(format!("{count} on other nodes will be preempted to make space."));
    }
    if 0 < impact.work_lost_ms {
        sentences.push(format!("{} of work will be lost.", span(impact.work_lost_ms)));
    }
    let fewer = impact.below.iter().take(JOBS_SHOWN);
    let fewer: Vec<String> = fewer
        .map(|JobBelow { job, holds, keeps }| format!("job {job} from {holds} to {keeps}"))
        .collect();
    if !fewer.is_empty() {
        let more = if JOBS_SHOWN < impact.below.len() { ", and more" } else { "" };
        sentences
            .push(format!("Fewer processes after the next cycle: {}{more}.", fewer.join(", ")));
    }
    sentences
}

/// Carries out the act. The answer, the list of nodes, follows once the act is in the store.
pub(super) async fn act(
    State(dashboard): State<Dashboard>,
    caller: Caller,
    headers: HeaderMap,
    form: Result<Form<VaryForm>, FormRejection>,
) -> Result<Response, PageError> {
    // The gate has checked the origin if the request names it. A request without an origin is no
    // form of a browser.
    if !headers.contains_key(header::ORIGIN) {
        let sentence = "the browser does not say which page sent this; nothing was done. The command line does it from anywhere.";
        tracing::warn!("a form without an origin was refused");
        return Ok((StatusCode::FORBIDDEN, sentence).into_response());
    }
    let Form(form) = form.map_err(|error| ApiError::new(Code::BadParameter, error.body_text()))?;
    let answer = carry_out(&dashboard, caller, &form, false).await?;
    let done = match (answer.changed.is_empty(), form.is_off()) {
        (true, _) => "nothing",
        (false, true) => "off",
        (false, false) => "on",
    };
    let state = if form.is_off() { "varied-off" } else { "" };
    let next = address_of("/nodes", &[("state", state), ("done", done)]);
    Ok(Redirect::to(&next).into_response())
}

async fn carry_out(
    dashboard: &Dashboard,
    caller: Caller,
    form: &VaryForm,
    dry_run: bool,
) -> Result<VaryAnswer, PageError> {
    let api = State(dashboard.api.clone());
    let nodes: Vec<String> = form.nodes.split_whitespace().map(str::to_owned).collect();
    let answer = match form.way.as_str() {
        "off" => {
            let (reason, all) = (form.reason.clone(), form.all == "yes");
            admin::post_vary_off(api, caller, JsonBody(VaryOff { nodes, reason, dry_run, all }))
                .await
        }
        "on" => admin::post_vary_on(api, caller, JsonBody(VaryOn { nodes, dry_run })).await,
        _ => Err(ApiError::new(Code::BadParameter, "`way` is `off` or `on`; nothing was done")),
    };
    let axum::Json(answer) = answer?;
    Ok(answer)
}

impl VaryForm {
    fn is_off(&self) -> bool {
        self.way == "off"
    }

    /// The same for the command line.
    fn command(&self) -> String {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
        let nodes: Vec<String> = self.nodes.split_whitespace().map(quoted).collect();
        let nodes = nodes.join(" ");
        if self.is_off() {
            format!("apportion node vary-off {nodes} --reason {}", quoted(self.reason.trim()))
        } else {
            format!("apportion node vary-on {nodes}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_to_type_is_quoted() {
        let form = VaryForm {
            way: "off".to_owned(),
            nodes: "n[1-2]  n4".to_owned(),
            reason: "it's $HOME".to_owned(),
            all: String::new(),
        };
        let typed = r"apportion node vary-off 'n[1-2]' 'n4' --reason 'it'\''s $HOME'";
        assert_eq!(form.command(), typed);
    }
}
