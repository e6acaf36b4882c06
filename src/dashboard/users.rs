//! Users: the fair share and holdings of each, now and over time, and the jobs behind them.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use super::Dashboard;
use super::account;
use super::chart::{self, PastRow};
use super::classes::{ChartHead, LISTED};
use super::frame::{Ask, Nothing, Page, PageError, PageQuery, address_of};
use super::overview::{AccountRow, scale};
use super::rows::{Bar, JobRow, JobTable, Paging, Spark};
use super::samples::{ShareFigures, Whose};
use super::sort::Sort;
use super::words::{memory, number};
use crate::api::http::extract::PathPart;
use crate::api::wire;
use crate::api::wire::from_view;

/// Page number of a long list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct UserParams {
    sort: String,
    page: Option<usize>,
}

#[derive(Template)]
#[template(path = "users.html")]
struct LiveUsers {
    sort: Sort,
    rows: Vec<UserRow>,
    paging: Paging,
}

struct UserRow {
    name: String,
    colour: usize,
    jobs: String,
    without: u64,
    shares: String,
    demand: String,
    fair_share: String,
    held: String,
    fixed: String,
    allotment: String,
    bar: Bar,
    spark: Spark,
}

/// The page of all users with work.
pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    PageQuery(params): PageQuery<UserParams>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.seen(&ask);
    let view = &published.view;
    let figures: BTreeMap<_, ShareFigures> = account::users(view).into_iter().collect();
    let scale = scale(figures.values().copied());
    let mut users = from_view::users(view);
    let sort = Sort::of(&params.sort, "/users", &[]);
    let of = |name: &str| figures.get(name).copied().unwrap_or_default();
    sort.sort(&mut users, |column, user| {
        let figures = of(&user.user);
        Some(match column {
            "user" => user.user.as_str().into(),
            "jobs" => user.jobs.into(),
            "without" => user.jobs_without_shares.into(),
            "shares" => user.shares.into(),
            "wanted" => figures.demand.into(),
            "deserved" => figures.fair_share.into(),
            "held" => figures.held.into(),
            "fixed" => user.fixed_memory_mb.into(),
            "allotment" => user.allotment_mb.unwrap_or(u64::MAX).into(),
            _ => return None,
        })
    });
    let word = sort.word();
    let (paging, range) = Paging::of(params.page, users.len(), "/users", &[("sort", &word)]);
    let palette = dashboard.palette(view, &ask);
    let notes = dashboard.past.notes();
    let mut rows = Vec::new();
    for user in &users[range] {
        let figures = of(&user.user);
        rows.push(UserRow {
            colour: palette.colour(&user.user),
            jobs: number(user.jobs),
            without: user.jobs_without_shares,
            shares: number(user.shares),
            demand: memory(figures.demand),
            fair_share: memory(figures.fair_share),
            held: memory(figures.held),
            fixed: memory(user.fixed_memory_mb),
            allotment: user.allotment_mb.map_or_else(|| "no limit".to_owned(), memory),
            bar: Bar::of(figures, scale),
            spark: Spark::of(&notes, Whose::User(&user.user), ask.until_ms()),
            name: user.user.clone(),
        });
    }
    drop(notes);
    let live = LiveUsers { sort, rows, paging };
    Page { title: "Users", section: "/users", head: Nothing, live }.answer(&ask)
}

#[derive(Template)]
#[template(path = "user.html")]
struct LiveOne {
    name: String,
    colour: usize,
    facts: Vec<(&'static str, String)>,
    classes: Vec<AccountRow>,
    past: Vec<PastRow>,
    jobs: JobTable,
    jobs_link: String,
    map_link: String,
}

/// Answers with the page of a single user.
pub(super) async fn one(
    State(dashboard): State<Dashboard>,
    PathPart(name): PathPart<String>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.seen(&ask);
    let view = &published.view;
    let Some(user) = from_view::users(view).into_iter().find(|user| user.user == name) else {
        return gone(&dashboard, &name, view.cycle, &ask);
    };
    let quanta: BTreeMap<&str, u64> = view
        .classes
        .iter()
        .filter_map(|class| Some((class.name.as_str(), from_view::class_info(view, class)?)))
        .filter(|(_, info)| info.policy == wire::Policy::FairShare)
        .map(|(name, info)| (name, info.quantum_mb))
        .collect();
    let figures = |class: &wire::UserClass| {
        let quantum = quanta.get(class.class.as_str()).copied().unwrap_or(0);
        account::figures(&class.account, quantum)
    };
    let fair: Vec<&wire::UserClass> =
        user.classes.iter().filter(|class| quanta.contains_key(class.class.as_str())).collect();
    let widest = scale(fair.iter().map(|class| figures(class)));
    let row = |class: &wire::UserClass| AccountRow::of(&class.class, figures(class), widest, None);
    let palette = dashboard.palette(view, &ask);
    let notes = dashboard.past.notes();
    let mine = view.jobs.iter().filter(|job| job.user == name).take(LISTED);
    let rows = mine.map(|job| JobRow::of(job, view.cycle, &palette)).collect();
    let live = LiveOne {
        colour: palette.colour(&name),
        facts: facts(&user),
        classes: fair.into_iter().map(row).collect(),
        past: chart::table(&notes, Whose::User(&name), ask.until_ms()),
        jobs: JobTable {
            rows,
            sort: Sort::default(),
            caption: "Work, oldest first".to_owned(),
            empty: "No jobs now.",
        },
        jobs_link: address_of("/jobs", &[("user", &name)]),
        map_link: address_of("/topology", &[("user", &name)]),
        name: name.clone(),
    };
    drop(notes);
    let head =
        ChartHead { name: name.clone(), address: address_of("/history", &[("user", &name)]) };
    Page { title: &format!("User {name}"), section: "/users", head, live }.answer(&ask)
}

#[derive(Template)]
#[template(path = "user_gone.html")]
struct LiveGone {
    name: String,
    cycle: u64,
    /// The last cycle in which something was held, and when.
    last: (u64, i64, String),
    past: Vec<PastRow>,
}

/// The page of a user who has no jobs, if any are known of the past.
fn gone(dashboard: &Dashboard, name: &str, cycle: u64, ask: &Ask) -> Result<Response, PageError> {
    let notes = dashboard.past.notes();
    let until = ask.until_ms();
    let has_some = |sample: &&super::samples::ChartSample| {
        let figures = sample.figures(Whose::User(name));
        sample.at_ms <= until && 0 < figures.held.max(figures.demand)
    };
    let Some(last) = notes.samples.iter().filter(has_some).last() else {
        let sentence =
            format!("{name} has no jobs as of cycle {cycle}, and none in the figures of before.");
        return Err(PageError::Missing { title: format!("User {name}"), sentence });
    };
    let live = LiveGone {
        name: name.to_owned(),
        cycle,
        last: (last.cycle, last.at_ms, super::words::time(last.at_ms)),
        past: chart::table(&notes, Whose::User(name), until),
    };
    drop(notes);
    let head =
        ChartHead { name: name.to_owned(), address: address_of("/history", &[("user", name)]) };
    Page { title: &format!("User {name}"), section: "/users", head, live }.answer(ask)
}

fn facts(user: &wire::UserInfo) -> Vec<(&'static str, String)> {
    let facts = vec![
        ("Jobs", number(user.jobs)),
        ("of which hold nothing", number(user.jobs_without_shares)),
        ("Processes", number(user.shares)),
        ("Memory held", memory(user.memory_mb)),
        ("of which cannot be preempted", memory(user.fixed_memory_mb)),
        ("Allotment for that", user.allotment_mb.map_or_else(|| "no limit".to_owned(), memory)),
    ];
    let saved = user.classes.iter().filter_map(|class| {
        let savings = class.savings.as_ref()?;
        Some(("Saved for gangs", format!("{}; in class {}", savings.words(), class.class)))
    });
    facts.into_iter().chain(saved).collect()
}
