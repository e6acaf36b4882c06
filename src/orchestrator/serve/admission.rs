//! Admission rules: listing, trying, and their part in a submission.

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value};

use super::caller::OrchestratorCaller;
use super::problem::Failed;
use super::state::ServeState;
use crate::orchestrator::admission::{self, Judged};
use crate::orchestrator::spec::{CampaignSpec, Params};
use crate::orchestrator::wire::{AdmissionList, AdmissionRecord, AdmissionTrial, RuleVerdict};

/// Fields of a submission that may be as long as the campaign. Rules do not see them.
const LISTS: [&str; 2] = ["lines", "items"];

/// Lists the admission rules, in order.
#[utoipa::path(get, path = "/v1/admission", tag = "campaigns",
    responses((status = 200, body = AdmissionList)))]
pub(super) async fn get_admission(
    State(state): State<ServeState>,
    _: OrchestratorCaller,
) -> Result<Json<AdmissionList>, Failed> {
    let rules = match &state.house.admission {
        Some(folder) => admission::list(folder).map_err(|error| unreadable(&error))?,
        None => Vec::new(),
    };
    Ok(Json(AdmissionList { rules }))
}

/// Shows a campaign to the admission rules, and submits nothing. The body is that of a submission.
#[utoipa::path(post, path = "/v1/admission/try", tag = "campaigns",
    request_body = serde_json::Value,
    responses((status = 200, body = AdmissionTrial), (status = 422, description = "every problem at once")))]
pub(super) async fn post_try(
    State(state): State<ServeState>,
    caller: OrchestratorCaller,
    Json(mut document): Json<Map<String, Value>>,
) -> Result<Json<AdmissionTrial>, Failed> {
    let wanted = document.remove("user").and_then(|user| user.as_str().map(str::to_owned));
    let (owner, _) = caller.owner(wanted.as_deref())?;
    let lists = take_lists(&mut document);
    let tasks = checked(&document, &lists)?;
    let Judged { spec, rules } = judge(&state, &owner, tasks, document).await?;
    Ok(Json(AdmissionTrial { rules, spec: Value::Object(spec) }))
}

/// Reads the campaign of a submission, as the admission rules leave it.
pub(super) async fn admit(
    state: &ServeState,
    owner: &str,
    mut document: Map<String, Value>,
) -> Result<(CampaignSpec, Params, Option<AdmissionRecord>), Failed> {
    let mut record = None;
    if state.house.admission.is_some() {
        let lists = take_lists(&mut document);
        let tasks = checked(&document, &lists)?;
        let asked = document.clone();
        let judged = judge(state, owner, tasks, document).await?;
        if let Some(rejection) = judged.rejection() {
            return Err(vec![rejection].into());
        }
        let changed = judged.rules.iter().any(|rule| rule.verdict == RuleVerdict::Rewrite);
        let asked = changed.then_some(Value::Object(asked));
        record = Some(AdmissionRecord { rules: judged.rules, asked });
        document = judged.spec;
        document.extend(lists);
    }
    let (mut spec, params) = CampaignSpec::read(document)?;
    state.house.settle(&mut spec);
    Ok((spec, params, record))
}

/// Checks a document before a rule sees it, and returns its number of tasks.
fn checked(document: &Map<String, Value>, lists: &Map<String, Value>) -> Result<u64, Failed> {
    let mut short = document.clone();
    let mut tasks = None;
    for (key, value) in lists {
        let values = value.as_array().map(Vec::as_slice).unwrap_or_default();
        tasks = Some(crate::model::count(values));
        short.insert(
            key.clone(),
            values.first().map_or(Value::Null, |first| vec![first.clone()].into()),
        );
    }
    let (spec, _) = CampaignSpec::read(short)?;
    Ok(tasks.unwrap_or(spec.tasks.count))
}

fn take_lists(document: &mut Map<String, Value>) -> Map<String, Value> {
    let lists = LISTS.iter().filter_map(|key| Some(((*key).to_owned(), document.remove(*key)?)));
    lists.collect()
}

async fn judge(
    state: &ServeState,
    owner: &str,
    tasks: u64,
    document: Map<String, Value>,
) -> Result<Judged, Failed> {
    match &state.house.admission {
        Some(folder) => admission::judge(folder, owner, tasks, document)
            .await
            .map_err(|error| unreadable(&error)),
        None => Ok(Judged { spec: document, rules: Vec::new() }),
    }
}

/// The folder of rules cannot be read, so no campaign is taken.
fn unreadable(error: &std::io::Error) -> Failed {
    tracing::error!(%error, "the admission rules cannot be read");
    Failed::bad(format!(
        "the admission rules of this site cannot be read ({error}); tell its operator"
    ))
}
