//! Users: what each deserves and holds, now and over time, and what it is made of.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use super::Dashboard;
use super::account;
use super::chart::{self, PastRow};
use super::classes::{ChartHead, LISTED};
use super::frame::{Ask, Asked, Nothing, Page, PageError, address_of};
use super::overview::{AccountRow, scale};
use super::rows::{Bar, JobRow, JobTable, Paging, Spark};
use super::samples::{Figures, Whose};
use super::words::{memory, number};
use crate::api::http::extract::PathPart;
use crate::api::wire;
use crate::api::wire::from_view;

/// Which page of a long list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct UserParams {
    page: Option<usize>,
}

#[derive(Template)]
#[template(path = "users.html")]
struct Live {
    rows: Vec<UserRow>,
    paging: Paging,
}

struct UserRow {
    name: String,
    colour: usize,
    jobs: String,
    without: u64,
    shares: String,
    wanted: String,
    deserved: String,
    held: String,
    fixed: String,
    allotment: String,
    bar: Bar,
    spark: Spark,
}

/// The page of all users with work.
pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    Asked(params): Asked<UserParams>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.api.latest();
    let view = &published.view;
    let figures: BTreeMap<_, Figures> = account::users(view).into_iter().collect();
    let scale = scale(figures.values().copied());
    let users = from_view::users(view);
    let (paging, range) = Paging::of(params.page, users.len(), "/users", &[]);
    let mut notes = dashboard.past.notes();
    let mut rows = Vec::new();
    for user in &users[range] {
        let figures = figures.get(user.user.as_str()).copied().unwrap_or_default();
        rows.push(UserRow {
            colour: notes.colour(&user.user),
            jobs: number(user.jobs),
            without: user.jobs_without_shares,
            shares: number(user.shares),
            wanted: memory(figures.wanted),
            deserved: memory(figures.deserved),
            held: memory(figures.held),
            fixed: memory(user.fixed_memory_mb),
            allotment: user.allotment_mb.map_or_else(|| "no limit".to_owned(), memory),
            bar: Bar::of(figures, scale),
            spark: Spark::of(&notes, Whose::User(&user.user)),
            name: user.user.clone(),
        });
    }
    drop(notes);
    let live = Live { rows, paging };
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

/// The page of one user.
pub(super) async fn one(
    State(dashboard): State<Dashboard>,
    PathPart(name): PathPart<String>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.api.latest();
    let view = &published.view;
    let Some(user) = from_view::users(view).into_iter().find(|user| user.user == name) else {
        let sentence = format!(
            "This user has no work as of cycle {}: see /users for those who have.",
            view.cycle
        );
        return Err(PageError::Missing { title: format!("User {name}"), sentence });
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
    let mut notes = dashboard.past.notes();
    let mine = view.jobs.iter().filter(|job| job.user == name).take(LISTED);
    let rows = mine.map(|job| JobRow::of(job, view.cycle, &mut notes)).collect();
    let live = LiveOne {
        colour: notes.colour(&name),
        facts: facts(&user),
        classes: fair.into_iter().map(row).collect(),
        past: chart::table(&notes, Whose::User(&name)),
        jobs: JobTable { rows, caption: "Work, oldest first".to_owned(), empty: "No work now." },
        jobs_link: address_of("/jobs", &[("user", &name)]),
        map_link: address_of("/topology", &[("user", &name)]),
        name: name.clone(),
    };
    drop(notes);
    let head =
        ChartHead { name: name.clone(), address: address_of("/history", &[("user", &name)]) };
    Page { title: &format!("User {name}"), section: "/users", head, live }.answer(&ask)
}

fn facts(user: &wire::UserInfo) -> Vec<(&'static str, String)> {
    vec![
        ("Requests for work", number(user.jobs)),
        ("of which hold nothing", number(user.jobs_without_shares)),
        ("Processes", number(user.shares)),
        ("Memory held", memory(user.memory_mb)),
        ("of which cannot be preempted", memory(user.fixed_memory_mb)),
        ("Allotment for that", user.allotment_mb.map_or_else(|| "no limit".to_owned(), memory)),
    ]
}
