//! The page of all campaigns.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use super::SECTION;
use super::draw::ProgressBar;
use crate::dashboard::{Ask, Page, PageError, PageQuery, words};
use crate::model::span;
use crate::orchestrator::serve::campaigns::summarise;
use crate::orchestrator::serve::problem::Failed;
use crate::orchestrator::serve::state::ServeState;
use crate::orchestrator::serve::stats::rate_of;
use crate::orchestrator::wire::CampaignSummary;

/// Most campaigns on the page.
const ROWS: u32 = 200;

/// Selection of campaigns.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ListParams {
    user: String,
    state: String,
}

#[derive(Template)]
#[template(path = "campaigns_head.html")]
struct ListHead<'a> {
    params: &'a ListParams,
}

#[derive(Template)]
#[template(path = "campaigns.html")]
struct ListLive {
    words: String,
    has_grid: bool,
    rows: Vec<CampaignLine>,
}

/// A line of the table.
struct CampaignLine {
    one: CampaignSummary,
    colour: u64,
    bar: String,
    rate: String,
    end: String,
    submitted_ms: u64,
    submitted: String,
}

/// The colour of a user, the same on every page.
pub(super) fn colour(user: &str) -> u64 {
    let sum: u64 = user.bytes().fold(7, |sum, byte| (sum * 31 + u64::from(byte)) & 0xffff);
    sum.checked_rem(11).unwrap_or(0)
}

/// The page.
pub(super) async fn page(
    State(state): State<ServeState>,
    PageQuery(params): PageQuery<ListParams>,
    ask: Ask,
) -> Result<Response, PageError> {
    let rows = rows(&state, &params).await?;
    let live = rows.iter().filter(|row| !is_final(&row.one)).count();
    let live = u64::try_from(live).unwrap_or(0);
    let all = words::counted(crate::model::count(&rows), "campaign");
    let words = match live {
        0 => format!("{all}, none of them under way."),
        live => format!("{all}, {} of them under way.", words::number(live)),
    };
    let has_grid = state.sight.grid().is_some();
    let live = ListLive { words, has_grid, rows };
    Page { title: "Campaigns", section: SECTION, head: ListHead { params: &params }, live }
        .answer(&ask)
}

/// True if no process of the campaign can run any more.
pub(super) fn is_final(one: &CampaignSummary) -> bool {
    ["done", "failed", "cancelled"].contains(&one.state.as_str())
}

async fn rows(state: &ServeState, params: &ListParams) -> Result<Vec<CampaignLine>, Failed> {
    let mut reading = state.reader().await?;
    let reader = reading.get()?;
    let user = Some(params.user.trim()).filter(|user| !user.is_empty());
    let mut rows = Vec::new();
    for info in reader.campaigns(user, 0..=u64::MAX >> 1, ROWS).await? {
        let one = summarise(reader, &info).await?;
        if params.state == "live" && is_final(&one) || params.state == "failed" && one.failed == 0 {
            continue;
        }
        let (rate, end) = if is_final(&one) {
            (String::new(), String::new())
        } else {
            let (rate, left_ms) = rate_of(reader, &info, &one).await?;
            let left = left_ms.map(|left| format!("in about {}", span(left)));
            (rate.words(), left.unwrap_or_default())
        };
        let submitted_ms = one.submitted_ms;
        rows.push(CampaignLine {
            colour: colour(&one.user),
            bar: ProgressBar::of(&one).to_string(),
            rate,
            end,
            submitted: words::time(i64::try_from(submitted_ms).unwrap_or(0)),
            submitted_ms,
            one,
        });
    }
    Ok(rows)
}
