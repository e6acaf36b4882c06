//! The figures of a campaign.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};

use super::caller::OrchestratorCaller;
use super::campaigns::{known, summarise};
use super::problem::Failed;
use super::state::ServeState;
use crate::model::count;
use crate::orchestrator::store::{CampaignInfo, Ends, SampleRow, StoreReader};
use crate::orchestrator::wire::{CampaignStats, CampaignSummary, NodeStats, Spread};

/// Longest interval from which the rate is computed.
const HOUR_MS: u64 = 3_600_000;
/// The whole, in millionths.
const MILLION: u64 = 1_000_000;

/// The figures of a campaign: memory and time of its tasks, rates, the time left, its nodes.
#[utoipa::path(get, path = "/v1/campaigns/{id}/stats", tag = "campaigns",
    params(("id" = u64, Path, description = "the number of the campaign")),
    responses((status = 200, body = CampaignStats), (status = 404, description = "no such campaign")))]
pub(super) async fn get_stats(
    State(state): State<ServeState>,
    _: OrchestratorCaller,
    Path(id): Path<u64>,
) -> Result<Json<CampaignStats>, Failed> {
    let mut reading = state.reader().await?;
    stats_of(reading.get()?, id).await.map(Json)
}

/// The figures of campaign `id`.
///
/// # Errors
///
/// If there is no such campaign, or the database cannot be read.
pub async fn stats_of(reader: &mut StoreReader, id: u64) -> Result<CampaignStats, Failed> {
    let info = known(reader.campaign(id).await?, id)?;
    let campaign = summarise(reader, &info).await?;
    if let Some(figures) = reader.summary(id).await? {
        return Ok(CampaignStats { campaign, ..figures });
    }
    let works = reader.works(id).await?;
    let memory_mb = works.first().map_or(0, |work| work.memory_mb);
    let ends = reader.ends(id).await?;
    let (rate, left_ms) = rate_of(reader, &info, &campaign).await?;
    let rows = reader.samples(id).await?;
    Ok(CampaignStats { left_ms, ..figures(campaign, memory_mb, &ends, rate, &rows) })
}

/// Tasks done within a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskRate {
    done: u64,
    ms: u64,
}

impl TaskRate {
    /// Returns the rate in tasks a second, a minute or an hour: "34/s". Empty if no task was done.
    pub fn words(self) -> String {
        let per = |unit: u64| self.done.saturating_mul(unit).checked_div(self.ms).unwrap_or(0);
        let units = [(1000, "s"), (60_000, "min"), (HOUR_MS, "h")];
        let rates = units.map(|(unit, word)| (per(unit), word));
        let found = rates.into_iter().find(|(rate, word)| 2 <= *rate || 0 < *rate && *word == "h");
        found.map(|(rate, word)| format!("{rate}/{word}")).unwrap_or_default()
    }

    /// Time for `left` tasks at that rate, in milliseconds. `None`: none is left, or none was done.
    fn left_ms(self, left: u64) -> Option<u64> {
        left.saturating_mul(self.ms).checked_div(self.done).filter(|_| 0 < left)
    }
}

/// The rate of a campaign in the hour before its last end, and the time left at that rate.
pub(super) async fn rate_of(
    reader: &mut StoreReader,
    info: &CampaignInfo,
    campaign: &CampaignSummary,
) -> Result<(TaskRate, Option<u64>), Failed> {
    if let Some(figures) = reader.summary(info.row.id).await? {
        return Ok((TaskRate { done: figures.done_lately, ms: figures.lately_ms }, None));
    }
    let last_ms = reader.ends(info.row.id).await?.last_ms.unwrap_or(0);
    let begin_ms = info.row.submitted_ms.max(last_ms.saturating_sub(HOUR_MS));
    let lately = reader.progress(info.row.id, begin_ms, HOUR_MS).await?;
    let done = lately.iter().map(|part| part.done).sum();
    let rate = TaskRate { done, ms: last_ms.saturating_sub(begin_ms) };
    Ok((rate, rate.left_ms(campaign.queued + campaign.running)))
}

fn figures(
    campaign: CampaignSummary,
    memory_mb: u64,
    ends: &Ends,
    rate: TaskRate,
    rows: &[SampleRow],
) -> CampaignStats {
    let ended = campaign.done + campaign.failed;
    let repeated = ends.attempts.saturating_sub(ended);
    CampaignStats {
        memory_mb,
        rss_mb: memory_of(rows),
        ms: known_of(rows, |row| row.ms),
        attempts: ends.attempts,
        repeated,
        failed_ppm: part(campaign.failed, ended),
        repeated_ppm: part(repeated, ends.attempts),
        done_lately: rate.done,
        lately_ms: rate.ms,
        last_end_ms: ends.last_ms,
        left_ms: None,
        nodes: by_node(rows),
        campaign,
    }
}

/// Returns the spread of attempts' memory, in MiB, without attempts whose memory is unknown.
pub(super) fn memory_of(rows: &[SampleRow]) -> Spread {
    known_of(rows, |row| row.rss_mb)
}

fn known_of(rows: &[SampleRow], value: fn(&SampleRow) -> u64) -> Spread {
    spread(rows.iter().filter(|row| row.has_ended).map(value).filter(|value| 0 < *value))
}

/// `some` of `all`, in millionths.
fn part(some: u64, all: u64) -> u64 {
    some.saturating_mul(MILLION).checked_div(all).unwrap_or(0)
}

fn spread(values: impl Iterator<Item = u64>) -> Spread {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    // The smallest value that so many of a hundred are not above.
    let at = |percent: usize| {
        let rank = (values.len() * percent).div_ceil(100);
        values.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    };
    Spread { count: count(&values), p50: at(50), p95: at(95), max: at(100) }
}

fn by_node(rows: &[SampleRow]) -> Vec<NodeStats> {
    let mut nodes: BTreeMap<&str, (NodeStats, u64)> = BTreeMap::new();
    for row in rows {
        let (stats, ms) = nodes.entry(&row.node).or_insert_with(|| {
            let node = row.node.clone();
            (NodeStats { node, open: 0, done: 0, other: 0, mean_ms: 0 }, 0)
        });
        let counter = match (row.has_ended, row.is_done) {
            (false, _) => &mut stats.open,
            (true, true) => &mut stats.done,
            (true, false) => &mut stats.other,
        };
        *counter += 1;
        if row.is_done {
            *ms += row.ms;
        }
    }
    let mean = |(stats, ms): (NodeStats, u64)| {
        let mean_ms = ms.checked_div(stats.done).unwrap_or(0);
        NodeStats { mean_ms, ..stats }
    };
    nodes.into_values().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn campaign() -> CampaignSummary {
        CampaignSummary {
            id: 9,
            name: "sweep".to_owned(),
            user: "ann".to_owned(),
            state: "running".to_owned(),
            frozen: false,
            submitted_ms: 1_000,
            tasks: 100,
            queued: 50,
            running: 10,
            away: BTreeMap::new(),
            done: 30,
            failed: 10,
            cancelled: 0,
            dropped: 0,
            mean_ms: 100,
            rss_mb: 40,
            hook_of: None,
            folded_ms: None,
        }
    }

    #[test]
    fn rates_are_of_a_million_and_the_rest_takes_as_long_as_it_did() {
        let ends = Ends { attempts: 50, first_ms: Some(1), last_ms: Some(2) };
        let stats = figures(campaign(), 512, &ends, TaskRate { done: 30, ms: 60_000 }, &[]);
        assert_eq!((stats.failed_ppm, stats.repeated, stats.repeated_ppm), (250_000, 10, 200_000));
        let rate = TaskRate { done: 30, ms: 60_000 };
        assert_eq!(rate.left_ms(60), Some(120_000), "60 tasks at 30 a minute");
        assert_eq!(rate.words(), "30/min");
        assert_eq!(stats.rss_mb, Spread::default(), "nothing is known");
        let none = figures(campaign(), 512, &Ends::default(), TaskRate { done: 0, ms: 0 }, &[]);
        assert_eq!((none.repeated_ppm, TaskRate { done: 0, ms: 0 }.left_ms(5)), (0, None));
    }

    #[test]
    fn a_spread_is_of_values_that_were_there() {
        let of = |values: &[u64]| {
            let Spread { count, p50, p95, max } = spread(values.iter().copied());
            (count, p50, p95, max)
        };
        assert_eq!(of(&[]), (0, 0, 0, 0));
        assert_eq!(of(&[7]), (1, 7, 7, 7));
        assert_eq!(of(&(1..=100).rev().collect::<Vec<_>>()), (100, 50, 95, 100));
        assert_eq!(of(&[1, 9]), (2, 1, 9, 9));
    }
}
