//! The clusters of a grid, and taking a cluster out of it.

use clap::{Args, Subcommand};
use reqwest::Method;

use super::answer::width;
use super::campaign_stat::{Form, time};
use super::consent;
use super::failure::{Failure, FailureKind};
use super::formats::csv_of;
use super::output::print;
use super::place::OrchestratorArgs;
use super::table::Column::{Left, Right};
use super::table::{fitted, memory, plain};
use super::text::{TextStyle, wrapped};
use crate::orchestrator::wire::{ClusterChange, Grid, GridCluster};

pub(super) const GRID_EXAMPLES: &str = "\
Examples:
  apportion grid
  apportion grid -o csv > clusters.csv
  apportion grid out lyon --why 'new switches'
  apportion grid in lyon
  apportion grid lost lyon --why 'the hall has burnt'";

/// Columns that a narrow terminal goes without, the first first.
const SPARE: [&str; 2] = ["sent", "nodes"];

/// Shows the clusters of a grid.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct GridArgs {
    /// The action on a cluster; without it, all clusters are shown.
    #[command(subcommand)]
    pub action: Option<GridAction>,
    /// The form of the list
    #[arg(long, short, value_enum, default_value_t = Form::Table)]
    pub output: Form,
    /// The orchestrator.
    #[command(flatten)]
    pub place: OrchestratorArgs,
}

const OUT_EXAMPLES: &str = "\
Examples:
  apportion grid out lyon --why 'new switches'     tasks that wait there run elsewhere";

const IN_EXAMPLES: &str = "\
Examples:
  apportion grid in lyon";

const LOST_EXAMPLES: &str = "\
Examples:
  apportion grid lost lyon --why 'the hall has burnt'      asks first
  apportion grid lost lyon --yes                           for scripts

For a cluster that fell silent and whose machines are really off: its tasks begin elsewhere at once, without
waiting for their leases. If processes of it still run, tasks run twice.";

/// An action on a cluster.
#[derive(Debug, Subcommand)]
pub enum GridAction {
    /// Send no more tasks to a cluster; what waits there runs elsewhere, what runs goes on
    #[command(after_help = OUT_EXAMPLES)]
    Out(ClusterOutArgs),
    /// Put a cluster back into the grid
    #[command(after_help = IN_EXAMPLES)]
    In(ClusterInArgs),
    /// Declare a cluster lost: no process of it runs, so its tasks begin elsewhere at once
    #[command(after_help = LOST_EXAMPLES)]
    Lost(ClusterLostArgs),
}

/// Declares a cluster lost.
#[derive(Debug, Args)]
pub struct ClusterLostArgs {
    /// The cluster, and the reason.
    #[command(flatten)]
    pub out: ClusterOutArgs,
    /// Do not ask before its tasks are given up
    #[arg(long, short)]
    pub yes: bool,
}

/// Takes a cluster out.
#[derive(Debug, Args)]
pub struct ClusterOutArgs {
    /// The name of the cluster
    #[arg(value_name = "CLUSTER")]
    pub cluster: String,
    /// The reason, for others who look at the grid
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub why: String,
    /// The orchestrator.
    #[command(flatten)]
    pub place: OrchestratorArgs,
}

/// Puts a cluster back.
#[derive(Debug, Args)]
pub struct ClusterInArgs {
    /// The name of the cluster
    #[arg(value_name = "CLUSTER")]
    pub cluster: String,
    /// The orchestrator.
    #[command(flatten)]
    pub place: OrchestratorArgs,
}

/// Shows the clusters, or changes one.
///
/// # Errors
///
/// If the orchestrator cannot be reached or refuses, or has no grid.
pub async fn run(args: &GridArgs) -> Result<(), Failure> {
    match &args.action {
        None => show(args).await,
        Some(GridAction::Out(out)) => change(&out.place, &out.cluster, "out", &out.why).await,
        Some(GridAction::In(back)) => change(&back.place, &back.cluster, "in", "").await,
        Some(GridAction::Lost(lost)) => give_up(lost).await,
    }
}

async fn give_up(args: &ClusterLostArgs) -> Result<(), Failure> {
    let ClusterOutArgs { cluster, why, place } = &args.out;
    if !args.yes {
        let grid: Grid = place.open()?.get(&["v1", "grid"], &[]).await?;
        let known = grid.clusters.into_iter().find(|known| known.cluster == *cluster);
        if let Some(known) = known {
            consent::ask(&known, place.json, |known| {
                format!(
                    "{} running and {} waiting tasks of cluster {} begin elsewhere; those that still run there run twice",
                    known.running,
                    known.waiting,
                    plain(&known.cluster)
                )
            })?;
        }
    }
    change(place, cluster, "lost", why).await
}

async fn show(args: &GridArgs) -> Result<(), Failure> {
    let grid: Grid = args.place.open()?.get(&["v1", "grid"], &[]).await?;
    if grid.clusters.is_empty() {
        let message = "this orchestrator has no other clusters; name them as [[cluster]] in the configuration of \
                       its daemon, see `apportion config sample`";
        return Err(Failure::new(FailureKind::NotFound, message));
    }
    let form = if args.place.json { Form::Json } else { args.output };
    Ok(print(&match form {
        Form::Table => lines(&grid.clusters, TextStyle { width: width(), ..TextStyle::default() }),
        Form::Json => serde_json::to_string_pretty(&grid.clusters)?,
        Form::Csv => csv_of(&grid.clusters, &FIELDS)?,
    })?)
}

async fn change(
    place: &OrchestratorArgs,
    cluster: &str,
    state: &str,
    why: &str,
) -> Result<(), Failure> {
    let change = ClusterChange { state: state.to_owned(), why: why.to_owned() };
    let path = ["v1", "grid", "clusters", cluster];
    place.open()?.act(Method::PUT, &path, &change).await?;
    let told = match state {
        "lost" => {
            "is out of the grid, and its tasks begin elsewhere; `apportion grid in` puts it back"
        }
        "out" => "is out of the grid; `apportion grid in` puts it back",
        _ => "is in the grid",
    };
    Ok(print(&format!("cluster {} {told}", plain(cluster)))?)
}

/// Part of the resources in use, in whole percent.
fn share(one: &GridCluster) -> String {
    let percent = one.used.saturating_mul(100).checked_div(one.capacity);
    percent.map(|percent| format!("{percent} %")).unwrap_or_default()
}

/// The clusters in lines, with a sum.
fn lines(clusters: &[GridCluster], look: TextStyle) -> String {
    let columns = [
        Left("cluster"),
        Left("state"),
        Right("nodes"),
        Right("memory"),
        Right("free"),
        Right("used"),
        Right("running"),
        Right("waiting"),
        Right("sent"),
    ];
    let row = |one: &GridCluster| {
        let size = |resources: u64| memory(resources.saturating_mul(one.resource_mb));
        [
            one.cluster.clone(),
            one.state.clone(),
            one.nodes.to_string(),
            size(one.capacity),
            size(one.free),
            share(one),
            one.running.to_string(),
            one.waiting.to_string(),
            one.sent.to_string(),
        ]
    };
    let total = |of: fn(&GridCluster) -> u64| clusters.iter().map(of).sum::<u64>();
    let at_ms = clusters.iter().map(|one| one.at_ms).max().unwrap_or(0);
    let pass = match at_ms {
        0 => "no pass of the router yet".to_owned(),
        at_ms => format!("pass of {} UTC", time(at_ms)),
    };
    let sum = format!(
        "{} running and {} waiting tasks on {} clusters; {pass}",
        total(|one| one.running),
        total(|one| one.waiting),
        clusters.len()
    );
    let table = fitted(columns, clusters.iter().map(row), look, &SPARE);
    let reasons = clusters.iter().filter_map(|one| {
        let line = format!("{}: {}", plain(&one.cluster), plain(reason(one)?));
        Some(look.width.map_or_else(|| line.clone(), |width| wrapped(&line, width)))
    });
    let lines: Vec<String> = std::iter::once(table).chain(reasons).chain([sum]).collect();
    lines.join("\n")
}

/// The reason for which a cluster gets no task. `None`: it is in, or the state says it all.
fn reason(one: &GridCluster) -> Option<&str> {
    let why = if one.out_ms.is_some() { &one.out_why } else { &one.held_why };
    Some(why.as_str()).filter(|why| !why.is_empty())
}

/// The columns of the comma-separated form, as the fields of the JSON form.
const FIELDS: [&str; 13] = [
    "cluster",
    "state",
    "at_ms",
    "nodes",
    "capacity",
    "free",
    "used",
    "running",
    "waiting",
    "sent",
    "resource_mb",
    "stress",
    "held_why",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const HELD: &str = "event 12: the switch between the halls is replaced, and the file server moves with it; ask carol";

    fn cluster(name: &str, state: &str) -> GridCluster {
        GridCluster {
            cluster: name.to_owned(),
            state: state.to_owned(),
            at_ms: 1_795_740_803_000,
            nodes: 120,
            capacity: 7680,
            free: 1200,
            used: 6480,
            running: 812,
            waiting: 14,
            sent: 30,
            resource_mb: 1024,
            rungs: BTreeMap::new(),
            stress: 0,
            held_why: if state == "held" { HELD.to_owned() } else { String::new() },
            out_ms: (state == "out").then_some(1),
            out_why: if state == "out" { "carol: new switches".to_owned() } else { String::new() },
        }
    }

    #[test]
    fn clusters_fit_eighty_columns_and_csv_says_what_json_says() {
        let clusters = [
            cluster("local", "in"),
            cluster("grenoble", "out"),
            cluster("x", "silent"),
            cluster("nancy", "held"),
        ];
        let look = TextStyle { width: Some(80), ..TextStyle::default() };
        let told = lines(&clusters, look);
        assert!(told.lines().all(|line| line.trim_end().chars().count() <= 80), "{told}");
        let first = told.lines().next().unwrap();
        assert!(first.contains("nodes") && first.contains("sent"), "no column is missing: {told}");
        let words =
            |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert!(words(&told).contains(&words(&format!("nancy: {HELD}"))), "{told}");
        insta::assert_snapshot!("clusters_of_a_grid", told);
        let csv = csv_of(&clusters, &FIELDS).unwrap();
        let second = csv.lines().nth(2).unwrap();
        assert_eq!(second, "grenoble,out,1795740803000,120,7680,1200,6480,812,14,30,1024,0,");
    }
}
