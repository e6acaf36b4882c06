//! Admission rules: listing, trying, and their part in a submission.

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value};

use super::caller::OrchestratorCaller;
use super::problem::Failed;
use super::state::ServeState;
use crate::orchestrator::admission::{self, Candidate, Judged};
use crate::orchestrator::declared::{AdmissionFacts, holds, limit_of_memory, limit_of_tasks};
use crate::orchestrator::rm::DefaultClasses;
use crate::orchestrator::spec::{CampaignSpec, Params, SpecProblem};
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
    let rules = admission::list(&state.house).map_err(|error| unreadable(&error))?;
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
    let candidate = candidate(document, &lists)?;
    let Judged { spec, rules, .. } = judge(&state, &owner, candidate).await?;
    Ok(Json(AdmissionTrial { rules, spec: Value::Object(spec) }))
}

/// Reads the campaign of a submission, as the admission rules leave it.
pub(super) async fn admit(
    state: &ServeState,
    owner: &str,
    mut document: Map<String, Value>,
) -> Result<(CampaignSpec, Params, Option<AdmissionRecord>), Failed> {
    let mut record = None;
    if state.house.has_admission() {
        let lists = take_lists(&mut document);
        let asked = document.clone();
        let judged = judge(state, owner, candidate(document, &lists)?).await?;
        if let Some(rejection) = judged.rejection {
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

/// Checks a document before a rule sees it.
fn candidate(
    document: Map<String, Value>,
    lists: &Map<String, Value>,
) -> Result<Candidate, Failed> {
    let (mut sample, mut tasks) = (Map::new(), None);
    for (key, value) in lists {
        let values = value.as_array().map(Vec::as_slice).unwrap_or_default();
        tasks = Some(crate::model::count(values));
        let first = values.first().map_or(Value::Null, |first| vec![first.clone()].into());
        sample.insert(key.clone(), first);
    }
    Ok(Candidate::read(document, sample, tasks)?)
}

/// Refuses a campaign of `owner` that would have `tasks` tasks, or slots of `memory_mb` MiB, if a limit of the
/// configuration forbids it. Programs are not asked: they see whole campaigns alone.
pub(super) async fn check_change(
    state: &ServeState,
    owner: &str,
    spec: &CampaignSpec,
    (tasks, memory_mb): (Option<u64>, Option<u64>),
) -> Result<(), Failed> {
    if state.house.rules.is_empty() {
        return Ok(());
    }
    let facts = facts(state, owner, spec).await?;
    let held = state.house.rules.iter().filter(|rule| holds(rule, &facts, spec));
    let problems = held.flat_map(|rule| {
        let of_tasks = tasks.and_then(|tasks| limit_of_tasks(rule, tasks));
        let of_memory = memory_mb.and_then(|memory| limit_of_memory(rule, memory));
        of_tasks.into_iter().chain(of_memory)
    });
    let problems: Vec<SpecProblem> = problems.collect();
    if problems.is_empty() { Ok(()) } else { Err(problems.into()) }
}

/// Facts about a campaign of `owner`, as far as rules ask for them.
async fn facts(
    state: &ServeState,
    owner: &str,
    spec: &CampaignSpec,
) -> Result<AdmissionFacts, Failed> {
    let rules = &state.house.rules;
    let needs_class = rules.iter().any(|rule| !rule.classes.is_empty());
    let defaults = match state.sight.manager() {
        Ok(manager) if needs_class && spec.class.is_none() => manager.default_classes().await,
        Ok(_) | Err(_) => Ok(DefaultClasses::default()),
    };
    let defaults = defaults.unwrap_or_default();
    Ok(AdmissionFacts {
        user: owner.to_owned(),
        live: state.reader().await?.get()?.live(owner).await?,
        test_class: state.house.test_class.clone(),
        default_class: defaults.fair_share,
        keep_class: defaults.fixed_share,
    })
}

fn take_lists(document: &mut Map<String, Value>) -> Map<String, Value> {
    let lists = LISTS.iter().filter_map(|key| Some(((*key).to_owned(), document.remove(*key)?)));
    lists.collect()
}

async fn judge(state: &ServeState, owner: &str, candidate: Candidate) -> Result<Judged, Failed> {
    let facts = facts(state, owner, candidate.spec()).await?;
    let judged = admission::judge(&state.house, &facts, candidate).await;
    judged.map_err(|error| unreadable(&error))
}

/// The folder of rules cannot be read, so no campaign is taken.
fn unreadable(error: &std::io::Error) -> Failed {
    tracing::error!(%error, "the admission rules cannot be read");
    Failed::bad(format!(
        "the admission rules of this site cannot be read ({error}); tell its operator"
    ))
}
