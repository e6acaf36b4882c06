//! `apportion demo --grid`: campaigns over three clusters that other users use too.
//!
//! The predictors, the router, flood control, leases and forecasts are the real ones, from the pure
//! core. The clusters and their users are played, in compressed time.

mod world;

use std::io::Write;
use std::num::NonZeroU64;
use std::time::Duration;

use serde::Serialize;

use self::world::{GridNews, PASS_MS, PlayedCampaign, PlayedCluster, PlayedGrid};
use super::story::Teller;
use crate::model::{counted, span, thousands};

/// Passes between two pictures of the grid.
const PICTURE: u64 = 30;
/// Columns of a bar.
const BAR: u64 = 30;

/// Parameters of a demo of the grid.
#[expect(missing_debug_implementations, reason = "a writer shows nothing of itself")]
pub struct GridDemoOptions {
    /// Speed of the clusters' time, as a multiple of the wall clock's.
    pub speed: NonZeroU64,
    /// The same seed plays the same demo.
    pub seed: u64,
    /// Longest duration of the demo.
    pub duration: Option<Duration>,
    /// Output for the story.
    pub out: Box<dyn Write + Send>,
    /// True if `out` shows colours.
    pub has_colour: bool,
    /// Columns of a line of the story.
    pub width: usize,
}

/// Figures of a demo of the grid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GridDemoReport {
    /// Campaigns, in the order of their arrival.
    pub campaigns: Vec<GridDemoCampaign>,
    /// Started tasks.
    pub started: u64,
    /// Waiting tasks that came back from clusters.
    pub withdrawn: u64,
    /// Results of tasks that were done before.
    pub repeated: u64,
    /// Part of the slots that other users left and campaigns used while they had tasks, in percent.
    pub used_percent: u64,
}

/// A campaign of the report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GridDemoCampaign {
    /// Its name.
    pub name: String,
    /// Tasks that are done.
    pub done: u64,
    /// Tasks that a test left out.
    pub dropped: u64,
    /// End that was predicted when half of the tasks were done, in milliseconds of the clusters' time.
    pub predicted_ms: Option<u64>,
    /// End, in milliseconds of the clusters' time. `None`: the demo ended before.
    pub ended_ms: Option<u64>,
}

/// Plays the demo to its end.
pub async fn run_grid(options: GridDemoOptions) -> GridDemoReport {
    let GridDemoOptions { speed, seed, duration, out, has_colour, width } = options;
    let mut teller = Teller::new(out, has_colour, width);
    let mut grid = PlayedGrid::new(seed);
    introduce(&mut teller, speed);
    let pause_ms = PASS_MS.checked_div(speed.get()).unwrap_or(0).max(1);
    let last = duration.and_then(|it| it.as_millis().checked_div(u128::from(pause_ms)));
    let mut is_after_picture = false;
    for pass in 1_u64.. {
        for news in grid.pass() {
            if std::mem::take(&mut is_after_picture) {
                teller.plain("");
            }
            tell(&mut teller, &grid, news);
        }
        if pass.is_multiple_of(PICTURE) && !grid.is_over() {
            teller.plain("");
            draw(&mut teller, &grid);
            is_after_picture = true;
        }
        if grid.is_over() || last.is_some_and(|last| last <= u128::from(pass)) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
    }
    let report = report(&grid);
    conclude(&mut teller, &grid, &report);
    report
}

fn introduce(teller: &mut Teller, speed: NonZeroU64) {
    teller.plain("A grid of three clusters. Other users use them too, and come first.");
    teller
        .plain("Campaigns are bags of tasks. The router sends as much as each cluster bears, and");
    teller
        .plain("no more; what waits in vain comes back. The router is the real one, the clusters");
    teller.plain(&format!("are played, at {speed} times real time. Ctrl-C ends it."));
    teller.plain("");
    teller.plain("  bars: # tasks of campaigns   o other users   . free slots");
    teller.plain("");
}

fn tell(teller: &mut Teller, grid: &PlayedGrid, news: GridNews) {
    let at = Duration::from_millis(grid.now_ms);
    let name = |cluster: usize| grid.clusters[cluster].name;
    match news {
        GridNews::Arrived(number) => {
            let PlayedCampaign { name, user, tasks, is_test, .. } = &grid.campaigns[number];
            let tasks = thousands(*tasks);
            let text = if *is_test {
                format!("{user} submits {name}: one task on each cluster, before all campaigns")
            } else {
                format!("{user} submits {name}: {tasks} tasks")
            };
            teller.tell(at, "submit", &text);
        }
        GridNews::Ended(number) => tell_end(teller, &grid.campaigns[number], grid.now_ms),
        GridNews::TestBegan(number, cluster, after_ms) => {
            let campaign = grid.campaigns[number].name;
            let (after, on) = (span(after_ms), name(cluster));
            teller.tell(at, "test", &format!("{campaign} runs on {on}, {after} after it came"));
        }
        GridNews::Withdrawn(cluster, tasks) => {
            let (tasks, on) = (counted(tasks, "waiting task"), name(cluster));
            teller.tell(at, "withdraw", &format!("{tasks} of {on} back, the newest first"));
        }
        GridNews::Silent(cluster, tasks) => {
            let (on, tasks) = (name(cluster), counted(tasks, "task"));
            let patience = span(PlayedGrid::patience_ms());
            let text = format!(
                "{on} does not answer. Its {tasks} may still run there, so none of them begins \
                 elsewhere for {patience}: the lease"
            );
            teller.tell(at, "silent", &text);
        }
        GridNews::LeaseOver(cluster, tasks) => {
            let (on, tasks) = (name(cluster), counted(tasks, "task"));
            let text = format!("the lease of {on} is over: its {tasks} run elsewhere");
            teller.tell(at, "lease", &text);
        }
        GridNews::Back(cluster) => {
            teller.tell(at, "back", &format!("{} answers again", name(cluster)));
        }
    }
}

fn tell_end(teller: &mut Teller, campaign: &PlayedCampaign, millis: u64) {
    let PlayedCampaign { name, done, dropped, predicted_ms, .. } = campaign;
    let done = thousands(crate::model::count(done));
    // A forecast is as good as the clusters are steady.
    let text = match predicted_ms {
        Some(predicted) => {
            let (predicted, real) = (span(*predicted), span(millis));
            format!("{name}: {done} done, at {real}. At half it was predicted for {predicted}")
        }
        None => format!("{name}: {done} done, {dropped} left out"),
    };
    teller.tell(Duration::from_millis(millis), "end", &text);
}

fn draw(teller: &mut Teller, grid: &PlayedGrid) {
    for cluster in &grid.clusters {
        teller.plain(&cluster_line(cluster));
    }
    for number in 0..grid.campaigns.len() {
        let campaign = &grid.campaigns[number];
        if campaign.has_arrived && campaign.ended_ms.is_none() {
            let progress = grid.progress(number);
            let (done, of) = (crate::model::count(&campaign.done), campaign.tasks);
            let end = progress.remaining_ms().map_or_else(
                || "no forecast yet".to_owned(),
                |left| format!("ends in {}", span(left)),
            );
            let (name, user) = (campaign.name, campaign.user);
            let (done, of) = (thousands(done), thousands(of));
            let running = progress.running;
            let whose = format!("{name} of {user}");
            teller.plain(&format!(
                "  {whose:<15} {done:>5} of {of} tasks done, {running:>3} run, {end}"
            ));
        }
    }
}

fn cluster_line(cluster: &PlayedCluster) -> String {
    let PlayedCluster { name, slots, others, .. } = cluster;
    if cluster.silent_since.is_some() {
        return format!("  {name:<6} {:?<30}  does not answer", "");
    }
    let running = crate::model::count(&cluster.running);
    let columns = |part: u64| {
        let columns = (part * BAR + slots / 2).checked_div(*slots).unwrap_or(0);
        usize::try_from(columns).unwrap_or(0)
    };
    let (tasks, both) = (columns(running), columns(running + others));
    let bar = format!("{}{}", "#".repeat(tasks), "o".repeat(both.saturating_sub(tasks)));
    let waiting = crate::model::count(&cluster.waiting);
    let free = cluster.free();
    format!(
        "  {name:<6} {bar:.<30}  {running:>2} # {others:>2} o {free:>2} free, {waiting:>2} wait"
    )
}

fn report(grid: &PlayedGrid) -> GridDemoReport {
    let campaign = |campaign: &PlayedCampaign| GridDemoCampaign {
        name: campaign.name.to_owned(),
        done: crate::model::count(&campaign.done),
        dropped: campaign.dropped,
        predicted_ms: campaign.predicted_ms,
        ended_ms: campaign.ended_ms,
    };
    GridDemoReport {
        campaigns: grid.campaigns.iter().map(campaign).collect(),
        started: grid.started,
        withdrawn: grid.withdrawn,
        repeated: grid.repeated,
        used_percent: (grid.used * 100).checked_div(grid.usable).unwrap_or(100),
    }
}

fn conclude(teller: &mut Teller, grid: &PlayedGrid, report: &GridDemoReport) {
    let done: u64 = report.campaigns.iter().map(|campaign| campaign.done).sum();
    let left = grid.campaigns.iter().filter(|campaign| campaign.ended_ms.is_none()).count();
    teller.plain("");
    let ends = if left == 0 { "All campaigns are done" } else { "The demo ends early" };
    teller.plain(&format!(
        "{ends}: {} tasks in {} of the clusters' time.",
        thousands(done),
        span(grid.now_ms)
    ));
    let per_100 = (report.withdrawn * 100).checked_div(report.started).unwrap_or(0);
    teller.plain(&format!(
        "  once only   {} counted twice; {} began again after the lease",
        report.repeated,
        counted(report.started.saturating_sub(done), "task")
    ));
    teller.plain(&format!(
        "  no flood    {} came back of 100 that began",
        counted(per_100, "waiting task")
    ));
    let used = report.used_percent;
    teller.plain(&format!("  no idling   {used} % of what other users left was used"));
    teller.plain("");
    teller.plain("With clusters of your own: [grid] and [[cluster]] in docs/operations.md,");
    teller.plain("apportion grid, and the page /grid.");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays without pauses, and counts each task after each pass.
    #[test]
    fn no_task_is_lost_and_none_counts_twice() {
        for seed in 0..4 {
            let mut grid = PlayedGrid::new(seed);
            while !grid.is_over() {
                grid.pass();
                assert!(grid.now_ms < 10_000_000, "seed {seed} goes on and on");
                for number in 0..grid.campaigns.len() {
                    let campaign = &grid.campaigns[number];
                    let places = grid.places(number);
                    assert!(places.values().all(|places| *places == 1), "seed {seed}");
                    let known = crate::model::count(&places) + campaign.dropped;
                    assert_eq!(known, campaign.tasks, "seed {seed}");
                }
                for cluster in &grid.clusters {
                    let held = crate::model::count(&cluster.running) + cluster.others;
                    assert!(held <= cluster.slots, "{cluster:?}");
                }
            }
            let report = report(&grid);
            assert_eq!(report.repeated, 0);
            assert!(report.withdrawn * 10 <= report.started * 3, "{report:?}");
            assert!(90 <= report.used_percent, "{report:?}");
            // The incidents are over when half of the first campaign is done.
            let sweep = &report.campaigns[0];
            let (predicted, real) = (sweep.predicted_ms.unwrap(), sweep.ended_ms.unwrap());
            assert!(predicted.abs_diff(real) * 5 <= real, "seed {seed}: {sweep:?}");
            let test = &report.campaigns[2];
            assert_eq!((test.done, test.dropped), (3, 47));
        }
    }

    #[test]
    fn the_story_fits_eighty_columns() {
        let grid = PlayedGrid::new(1);
        for cluster in &grid.clusters {
            assert!(cluster_line(cluster).len() <= 80);
        }
    }
}
