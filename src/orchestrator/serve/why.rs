//! Reasons for the slots of a campaign, in the words of the resource manager.

use axum::Json;
use axum::extract::{Path, State};
use jiff::Timestamp;

use super::caller::OrchestratorCaller;
use super::campaigns::known;
use super::gangs::gang_of;
use super::problem::Failed;
use super::state::ServeState;
use crate::orchestrator::book::{CampaignRow, CampaignState};
use crate::orchestrator::wire::CampaignWhy;

/// Reason code of a work for which a further process would come too late to help.
const PREDICTION: &str = "prediction";
/// Remedy for that reason.
const PREDICTION_HINT: &str = "`prediction` keeps the campaign at few slots: its tasks are expected to end before another \
                               slot would help by more than `prediction_fudge`; for short tasks set `prediction_fudge = \
                               \"5s\"` in the configuration of the resource manager";

/// The resource manager's sentence about each work of a campaign, and what can be done.
#[utoipa::path(get, path = "/v1/campaigns/{id}/why", tag = "campaigns",
    params(("id" = u64, Path, description = "the number of the campaign")),
    responses((status = 200, body = CampaignWhy), (status = 404, description = "no such campaign")))]
pub(super) async fn get_why(
    State(state): State<ServeState>,
    _: OrchestratorCaller,
    Path(id): Path<u64>,
) -> Result<Json<CampaignWhy>, Failed> {
    why_of(&state, id).await.map(Json)
}

/// The reasons of a campaign to wait.
fn waits(row: &CampaignRow) -> Vec<String> {
    let id = row.id;
    let after = row.waits_for.iter().map(|other| {
        format!(
            "campaign {id} waits until campaign {other} is done; `apportion campaign resume {id}` \
             lets it begin now"
        )
    });
    let time = |ms: u64| {
        let time = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        time.unwrap_or(Timestamp::MAX).strftime("%Y-%m-%d %H:%M")
    };
    let hours = row
        .opens_ms
        .map(|ms| format!("campaign {id} waits for its hours, which begin at {} UTC", time(ms)));
    after.chain(hours).collect()
}

/// The reasons of campaign `id`.
pub(super) async fn why_of(state: &ServeState, id: u64) -> Result<CampaignWhy, Failed> {
    let (info, works, spec) = {
        let mut reading = state.reader().await?;
        let reader = reading.get()?;
        let info = known(reader.campaign(id).await?, id)?;
        let spec = reader.spec(&info.row).await?;
        (info, reader.works(id).await?, spec)
    };
    let mut why = CampaignWhy { sentences: Vec::new(), hints: Vec::new() };
    if info.row.state == CampaignState::Suspended {
        let text = format!(
            "campaign {id} is suspended, and no task of it begins; `apportion campaign resume {id}` lets tasks begin"
        );
        why.sentences.push(text);
        return Ok(why);
    }
    if info.row.state == CampaignState::Waiting {
        why.sentences = waits(&info.row);
        return Ok(why);
    }
    for work in works.iter().filter_map(|work| work.number) {
        let brief = match state.sight.manager() {
            Ok(manager) => manager.why(work).await,
            Err(silent) => Err(silent),
        };
        let brief = match brief {
            Ok(brief) => brief,
            Err(error) => {
                why.sentences.push(format!("{error}; ask again in a moment"));
                continue;
            }
        };
        let has_all = brief.reason.is_none();
        let is_predicted = brief.reason.is_some_and(|reason| reason.code == PREDICTION);
        if is_predicted && why.hints.is_empty() {
            why.hints.push(PREDICTION_HINT.to_owned());
        }
        why.sentences.push(brief.sentence);
        if has_all && !info.row.has_begun && spec.gang.is_none() && !info.row.state.is_final() {
            why.sentences.push("its slots are starting; no task has begun yet".to_owned());
        }
    }
    if let Some(gang) = gang_of(state, id, &spec).await?.filter(|gang| !gang.ranks.is_empty()) {
        why.sentences.push(format!("its gang has {}", gang.words()));
    }
    if why.sentences.is_empty() {
        why.sentences
            .push(format!("campaign {id} is {}: it needs no slots", info.row.state.word()));
    }
    Ok(why)
}
