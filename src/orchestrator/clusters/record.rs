//! Rows of a pass: the clusters, the forecasts of campaigns, and affinities.

use std::collections::{BTreeMap, BTreeSet};

use super::observe::ClusterState;
use crate::grid::{
    Affinities, CampaignProgress, CampaignSight, GridSight, PairStates, PredictorState, Routing,
    TargetSight, TaskFigures,
};
use crate::model::{Name, count};
use crate::orchestrator::drive::wall_ms;
use crate::orchestrator::store::{
    AffinityChange, DbError, ForecastRow, PassRows, StatusRow, StoreReader,
};

/// Time between two forecasts of a campaign that does not change, and between two readings of its
/// figures, in milliseconds.
const EVERY_MS: u64 = 60_000;

/// Figures of campaigns, by cluster.
pub(super) type FiguresByCampaign = BTreeMap<u64, BTreeMap<Name, TaskFigures>>;

/// A pass that has been routed.
#[derive(Clone, Copy)]
pub(super) struct PassSight<'a> {
    /// Sight of the pass.
    pub sight: &'a GridSight,
    /// The clusters, in the order of the sight.
    pub clusters: &'a [ClusterState],
    /// Tasks sent.
    pub routing: &'a Routing,
}

/// Rows on record.
#[derive(Debug, Default)]
pub(super) struct GridRecord {
    /// State of each predictor, and time of its row by the router's clock.
    told: BTreeMap<(u64, Name), (PredictorState, u64)>,
    affinities: BTreeMap<(u64, u64, Name), i64>,
    /// Campaigns with a predicted end on record.
    foretold: BTreeSet<u64>,
    /// Begin of the affinities' period, by the router's clock. `None`: it may not be on record.
    reset_ms: Option<u64>,
    /// Figures of campaigns, and the time of their reading.
    figures: FiguresByCampaign,
    read_ms: Option<u64>,
}

/// The states of the predictors in forecasts. `now_ms`: the time by the router's clock.
pub(super) fn states_of(rows: &[ForecastRow], now_ms: u64) -> PairStates {
    let of_clusters = rows.iter().filter(|row| !row.cluster.is_empty());
    let state = |row: &ForecastRow| {
        let closed_ms = row.state.closed_ms.map(|since| now_ms.saturating_sub(since));
        let state = PredictorState { closed_ms, ..row.state };
        ((row.campaign, Name::from(row.cluster.as_str())), state)
    };
    of_clusters.map(state).collect()
}

impl GridRecord {
    /// Takes what is on record.
    pub(super) fn loaded(&mut self, states: &PairStates, affinities: &Affinities) {
        self.told = states.iter().map(|(pair, state)| (pair.clone(), (*state, 0))).collect();
        self.affinities.clone_from(affinities.all());
    }

    /// Returns the figures of the campaigns, read once in a while.
    pub(super) async fn figures(
        &mut self,
        sight: &GridSight,
        reader: &mut StoreReader,
    ) -> Result<FiguresByCampaign, DbError> {
        let is_due = self.read_ms.is_none_or(|read| EVERY_MS <= sight.now_ms.saturating_sub(read));
        let is_running =
            |campaign: &CampaignSight| campaign.targets.iter().any(|it| 0 < it.running);
        // The first tasks of a campaign are looked for in each pass: it may end within a minute.
        let is_new = |campaign: &&CampaignSight| match self.figures.get(&campaign.id) {
            None => true,
            Some(known) => known.is_empty() && is_running(campaign),
        };
        let campaigns = sight.campaigns.iter().filter(|campaign| is_due || is_new(campaign));
        let wanted: Vec<u64> = campaigns.map(|campaign| campaign.id).collect();
        if is_due {
            self.read_ms = Some(sight.now_ms);
            self.figures.clear();
        }
        for campaign in wanted {
            let figures = reader.task_figures(campaign, wall_ms()).await?;
            self.figures.insert(campaign, figures);
        }
        Ok(self.figures.clone())
    }

    /// The figures of a campaign on a cluster, as they were last read.
    pub(super) fn figures_of(&self, campaign: u64, cluster: &Name) -> Option<&TaskFigures> {
        self.figures.get(&campaign).and_then(|by_cluster| by_cluster.get(cluster))
    }

    /// The rows of a pass, with the states after it. Predictors that neither changed nor had a task
    /// there keep their rows.
    pub(super) fn rows(
        &mut self,
        pass: PassSight<'_>,
        states: &PairStates,
        affinities: &Affinities,
        figures: &FiguresByCampaign,
    ) -> PassRows {
        let (sight, at_ms) = (pass.sight, wall_ms());
        let mut forecasts = Vec::new();
        for campaign in &sight.campaigns {
            let none = BTreeMap::new();
            let known = figures.get(&campaign.id).unwrap_or(&none);
            let of = |target: &TargetSight| sight.clusters.get(target.cluster);
            for target in &campaign.targets {
                let Some(cluster) = of(target) else { continue };
                let pair = (campaign.id, cluster.name.clone());
                let state = states.get(&pair).copied().unwrap_or_default();
                let is_used = 0 < target.running + target.waiting + state.sent;
                if self.is_due(&pair, &state, is_used, sight.now_ms) {
                    let figures = known.get(&cluster.name).copied().unwrap_or_default();
                    let loads = (target.running, target.waiting);
                    let row = forecast(campaign, cluster.name.as_str(), loads, figures);
                    let closed_ms = state.closed_ms.map(|at| sight.now_ms.saturating_sub(at));
                    forecasts.push(ForecastRow {
                        at_ms,
                        state: PredictorState { closed_ms, ..state },
                        ..row
                    });
                    self.told.insert(pair, (state, sight.now_ms));
                }
            }
            let pair = (campaign.id, Name::from(""));
            let is_first = !known.is_empty() && !self.foretold.contains(&campaign.id);
            if is_first || self.is_due(&pair, &PredictorState::default(), true, sight.now_ms) {
                let sum =
                    |of: fn(&TargetSight) -> u64| campaign.targets.iter().map(of).sum::<u64>();
                let waiting = campaign.left.saturating_add(sum(|it| it.waiting));
                let loads = (sum(|it| it.running), waiting);
                let row = forecast(campaign, "", loads, TaskFigures::together(known.values()));
                if row.left_ms.is_some() {
                    self.foretold.insert(campaign.id);
                }
                forecasts.push(ForecastRow { at_ms, ..row });
                self.told.insert(pair, (PredictorState::default(), sight.now_ms));
            }
        }
        self.told.retain(|(id, _), _| sight.campaigns.iter().any(|campaign| campaign.id == *id));
        self.foretold.retain(|id| sight.campaigns.iter().any(|campaign| campaign.id == *id));
        let since_ms = affinities.reset_ms();
        let has_begun_anew = self.reset_ms.replace(since_ms) != Some(since_ms);
        let ago = sight.now_ms.saturating_sub(since_ms);
        let affinity_ms = has_begun_anew.then(|| at_ms.saturating_sub(ago));
        let affinities = self.changed(affinities);
        PassRows { status: status(pass, at_ms), forecasts, affinities, affinity_ms }
    }

    /// True if a pair needs a row: its state changed while it is used, or its last row is old.
    fn is_due(
        &self,
        pair: &(u64, Name),
        state: &PredictorState,
        is_used: bool,
        now_ms: u64,
    ) -> bool {
        match self.told.get(pair) {
            None => is_used,
            Some((told, at_ms)) => {
                let is_old = EVERY_MS <= now_ms.saturating_sub(*at_ms);
                (is_used || 0 < told.sent) && told != state || is_used && is_old
            }
        }
    }

    /// Affinities that differ from the record.
    fn changed(&mut self, affinities: &Affinities) -> Vec<AffinityChange> {
        let now = affinities.all();
        let new = now.iter().filter(|(key, value)| self.affinities.get(*key) != Some(*value));
        let mut changed: Vec<_> = new.map(|(key, value)| (key.clone(), Some(*value))).collect();
        let gone = self.affinities.keys().filter(|key| !now.contains_key(*key));
        changed.extend(gone.map(|key| (key.clone(), None)));
        self.affinities.clone_from(now);
        changed
    }
}

/// A forecast, without its time and state. `loads`: running and waiting tasks.
fn forecast(
    campaign: &CampaignSight,
    cluster: &str,
    (running, waiting): (u64, u64),
    figures: TaskFigures,
) -> ForecastRow {
    let progress = CampaignProgress { running, waiting, age_ms: figures.window_ms, tally: figures };
    ForecastRow {
        campaign: campaign.id,
        cluster: cluster.to_owned(),
        figures,
        basis: progress.basis().word().to_owned(),
        left_ms: progress.remaining_ms(),
        ..ForecastRow::default()
    }
}

/// The clusters of a pass.
fn status(pass: PassSight<'_>, at_ms: u64) -> Vec<StatusRow> {
    let row = |(at, (cluster, state)): (usize, (&crate::grid::ClusterSight, &ClusterState))| {
        let grants = pass.routing.grants.iter().filter(|grant| grant.cluster == at);
        let slots = pass.sight.campaigns.iter().flat_map(|campaign| &campaign.targets);
        let slots = slots.filter(|target| target.cluster == at);
        let running = slots.map(|target| target.running).sum();
        StatusRow {
            at_ms,
            cluster: cluster.name.to_string(),
            is_silent: state.is_silent,
            nodes: count(&state.nodes),
            capacity: cluster.capacity,
            free: cluster.free,
            running,
            waiting: cluster.waiting,
            sent: if cluster.is_local { 0 } else { grants.map(|grant| grant.count).sum() },
            rungs: state.rungs.clone(),
            held: state.held.clone().unwrap_or_default(),
            stress: state.stress,
        }
    };
    pass.sight.clusters.iter().zip(pass.clusters).enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::{ClusterSight, Grant, PREDICTORS};
    use crate::orchestrator::store::{Batch, CampaignStore};

    fn sight(now_ms: u64) -> GridSight {
        let cluster = |name: &str, is_local| ClusterSight {
            name: name.into(),
            is_local,
            priority: 0,
            power: 1,
            capacity: 40,
            free: 10,
            running: 4,
            waiting: 2,
            flood: 0,
            stress: 0,
            is_closed: false,
            predictor: PREDICTORS[0],
        };
        let target = |cluster, running, waiting| TargetSight {
            cluster,
            resources: 1,
            running,
            waiting,
            ..TargetSight::default()
        };
        let campaign = CampaignSight {
            id: 9,
            user: "ann".into(),
            weight: 1,
            is_test: false,
            left: 90,
            targets: vec![target(0, 0, 0), target(1, 4, 2)],
        };
        let clusters = vec![cluster("local", true), cluster("lyon", false)];
        GridSight { clusters, campaigns: vec![campaign], now_ms }
    }

    /// The rows of a pass after which the predictor of lyon is in `state`.
    fn rows(record: &mut GridRecord, now_ms: u64, state: PredictorState) -> PassRows {
        let sight = sight(now_ms);
        let clusters = [ClusterState::default(), ClusterState::default()];
        let routing = Routing {
            grants: vec![Grant { campaign: 9, cluster: 1, count: state.sent }],
            ..Routing::default()
        };
        let states = PairStates::from([((9, "lyon".into()), state)]);
        let figures = TaskFigures {
            count: 8,
            mean_ms: 6000,
            deviation_ms: 10,
            in_window: 8,
            window_ms: 40_000,
        };
        let figures = FiguresByCampaign::from([(9, BTreeMap::from([("lyon".into(), figures)]))]);
        let pass = PassSight { sight: &sight, clusters: &clusters, routing: &routing };
        record.rows(pass, &states, &Affinities::default(), &figures)
    }

    #[test]
    fn forecasts_are_written_when_something_changed_or_a_minute_has_passed() {
        let mut record = GridRecord::default();
        let state = PredictorState { ratio: 500_000, sent: 3, ..PredictorState::default() };
        let first = rows(&mut record, 100_000, state);
        let told = |rows: &PassRows| {
            rows.forecasts.iter().map(|row| row.cluster.clone()).collect::<Vec<_>>()
        };
        assert_eq!(told(&first), ["lyon", ""], "the local cluster was never used");
        // (2 + 4/2) / (8 / 40 s) = 20 s; (92 + 4/2) / 0.2 = 470 s.
        let left: Vec<Option<u64>> = first.forecasts.iter().map(|row| row.left_ms).collect();
        assert_eq!(left, [Some(20_000), Some(470_000)]);
        assert_eq!(first.status[1].sent, 3);
        assert_eq!((first.status[1].running, first.status[1].waiting), (4, 2));
        assert!(rows(&mut record, 110_000, state).forecasts.is_empty());
        let changed = PredictorState { ratio: 600_000, ..state };
        assert_eq!(told(&rows(&mut record, 120_000, changed)), ["lyon"]);
        assert_eq!(told(&rows(&mut record, 160_000, changed)), [""]);
        assert_eq!(told(&rows(&mut record, 180_000, changed)), ["lyon"]);
    }

    /// A campaign may end within a minute: its end is predicted once the first task has ended, and kept then.
    #[test]
    fn the_first_forecast_of_a_campaign_does_not_wait_for_a_minute() {
        let mut record = GridRecord::default();
        let mut whole = |now_ms: u64, ended: u64| {
            let sight = sight(now_ms);
            let clusters = [ClusterState::default(), ClusterState::default()];
            let routing = Routing::default();
            let pass = PassSight { sight: &sight, clusters: &clusters, routing: &routing };
            let (count, in_window) = (ended, ended);
            let tally = TaskFigures {
                count,
                mean_ms: 1000,
                in_window,
                window_ms: 4000,
                ..TaskFigures::default()
            };
            let known = (0 < ended).then(|| ("lyon".into(), tally));
            let figures = FiguresByCampaign::from([(9, known.into_iter().collect())]);
            let rows = record.rows(pass, &PairStates::new(), &Affinities::default(), &figures);
            let mut whole = rows.forecasts.into_iter().filter(|row| row.cluster.is_empty());
            whole.next().map(|row| row.left_ms)
        };
        assert_eq!(whole(100_000, 0), Some(None), "no task has ended");
        assert_eq!(whole(100_200, 0), None);
        // (92 + 4/2) / (2 / 4 s) = 188 s.
        assert_eq!(whole(100_400, 2), Some(Some(188_000)));
        assert_eq!(whole(100_600, 3), None, "it stays for a minute");
        assert!(whole(160_400, 4).is_some());
    }

    #[tokio::test]
    async fn a_restarted_router_goes_on_with_the_states_and_affinities_it_had() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("orchestrator.db");
        let mut store = CampaignStore::open(&path).await.unwrap();
        let mut record = GridRecord::default();
        let mut last = PredictorState::default();
        let mut batch = Batch::default();
        for pass in 1..=4 {
            last = PredictorState {
                ratio: 100_000 * pass,
                free: 10 + pass,
                sent: pass,
                integral: -7,
                tap: 6,
                closed_ms: Some(99_000),
            };
            batch.passes.push(rows(&mut record, 100_000 + pass, last));
        }
        let mut affinities = Affinities::default();
        affinities.lower(9, 4, &"lyon".into());
        affinities.lower(9, 5, &"lyon".into());
        let changes = record.changed(&affinities);
        batch.passes.push(PassRows { affinities: changes, ..PassRows::default() });
        affinities.reset(u64::MAX);
        affinities.lower(9, 4, &"nancy".into());
        let changes = record.changed(&affinities);
        batch.passes.push(PassRows { affinities: changes, ..PassRows::default() });
        store.commit(&batch).await.unwrap();
        let mut reader = StoreReader::open(&path).await.unwrap();
        let kept = reader.forecasts(9, 100).await.unwrap();
        // The four passes are of a minute, or of two minutes.
        let of_lyon: Vec<_> = kept.iter().filter(|row| row.cluster == "lyon").collect();
        assert!(matches!(of_lyon.as_slice(), [.., row] if row.state.sent == 4), "{of_lyon:?}");
        assert_eq!(of_lyon[0].figures.throughput(), Some(200_000));
        let states = states_of(&kept, 500_000);
        // The tap was closed for 1,004 ms, and a restart takes no time.
        let expected = PredictorState { closed_ms: Some(498_996), ..last };
        assert_eq!(states, PairStates::from([((9, "lyon".into()), expected)]));
        // The period goes on: it began with the sight of the first pass, at 0 of a clock that showed 100,001.
        let ago = wall_ms() - reader.affinity_reset().await.unwrap();
        assert!((100_001..160_000).contains(&ago), "{ago}");
        let stored = Affinities::stored(reader.affinities().await.unwrap(), 0);
        assert_eq!(stored.all(), affinities.all());
        let passes = reader.grid_status(0..=u64::MAX >> 1, 100).await.unwrap();
        assert!(passes.iter().any(|row| row.cluster == "local"));
        assert_eq!(reader.last_status().await.unwrap().len(), 2);
    }
}
