//! Classes: the fair share and holdings of each, now and over time, and the users in it.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Dashboard;
use super::account::{self, ClassAccount};
use super::chart::{self, PastRow};
use super::frame::{Ask, Page, PageError, link};
use super::overview::{AccountRow, due, scale};
use super::rows::{Bar, JobRow, JobTable, Spark};
use super::samples::Whose;
use super::sort::Sort;
use super::words::{memory, number};
use crate::api::Published;
use crate::api::hours::{CivilTime, ShownHours};
use crate::api::http::extract::PathPart;
use crate::api::wire;
use crate::scheduler::JobView;

#[derive(Template)]
#[template(path = "classes_head.html")]
struct ClassesHead {
    charts: Vec<(String, String)>,
}

#[derive(Template)]
#[template(path = "classes.html")]
struct LiveClasses {
    rows: Vec<ClassRow>,
}

struct ClassRow {
    name: String,
    policy: &'static str,
    weight: String,
    priority: u32,
    pool: String,
    jobs: String,
    users: usize,
    is_default: bool,
    hours: Option<HoursCell>,
    demand: String,
    fair_share: String,
    held: String,
    bar: Bar,
    spark: Spark,
}

/// The page of all classes.
pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.seen(&ask);
    let view = &published.view;
    let classes = account::classes(view);
    let scale = scale(classes.iter().map(|class| class.figures));
    let notes = dashboard.past.notes();
    let time = CivilTime::of(&published);
    let row = |class: &ClassAccount| {
        let info = info(&published, &class.name)?;
        Some(ClassRow {
            hours: HoursCell::of(&info, &time),
            policy: info.policy.word(),
            weight: info.weight.map_or_else(|| "–".to_owned(), |weight| weight.to_string()),
            priority: info.priority,
            pool: info.pool,
            jobs: number(info.jobs),
            users: class.load.users.len(),
            is_default: info.is_default,
            demand: memory(class.figures.demand),
            fair_share: due(class.figures, class.load.policy),
            held: memory(class.figures.held),
            bar: Bar::of(class.figures, scale),
            spark: Spark::of(&notes, Whose::Class(&class.name), ask.until_ms()),
            name: info.name,
        })
    };
    let rows = classes.iter().filter_map(row).collect();
    drop(notes);
    let is_fair = |class: &&ClassAccount| class.load.policy == wire::Policy::FairShare;
    let chart = |class: &ClassAccount| {
        (class.name.to_string(), format!("/history?class={}", super::frame::encoded(&class.name)))
    };
    let head =
        ClassesHead { charts: classes.iter().filter(is_fair).take(CHARTS).map(chart).collect() };
    Page { title: "Classes", section: "/classes", head, live: LiveClasses { rows } }.answer(&ask)
}

/// Classes with a chart on the page of all classes.
const CHARTS: usize = 12;

/// Hours of a class: whether it is open, and the rules.
struct HoursCell {
    state: String,
    rules: String,
}

impl HoursCell {
    /// `None` if the class is always open.
    fn of(info: &wire::ClassInfo, time: &CivilTime) -> Option<HoursCell> {
        let rules = info.active.clone()?;
        Some(HoursCell { state: time.state(info.is_open, info.next_change_ms), rules })
    }
}

fn info(published: &Published, name: &str) -> Option<wire::ClassInfo> {
    let class = published.view.classes.iter().find(|class| class.name == name)?;
    ShownHours::of(published).class_info(&published.view, class)
}

/// A chart above a live part.
#[derive(Template)]
#[template(path = "chart_head.html")]
pub(super) struct ChartHead {
    pub name: String,
    pub address: String,
}

#[derive(Template)]
#[template(path = "class.html")]
struct LiveClass {
    facts: Vec<(&'static str, String)>,
    bar: Bar,
    users: Vec<AccountRow>,
    past: Vec<PastRow>,
    jobs: JobTable,
    jobs_link: String,
}

/// Answers with the page of a single class.
pub(super) async fn one(
    State(dashboard): State<Dashboard>,
    PathPart(name): PathPart<String>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.seen(&ask);
    let view = &published.view;
    let class = account::classes(view).into_iter().find(|class| class.name == name);
    let Some((class, info)) = class.zip(info(&published, &name)) else {
        let sentence = "No such class is configured.".to_owned();
        return Err(PageError::Missing { title: format!("Class {name}"), sentence });
    };
    let palette = dashboard.palette(view, &ask);
    let notes = dashboard.past.notes();
    let quantum = class.load.quantum_mb;
    let figures = class.load.users.iter().map(|user| account::figures(&user.account, quantum));
    let user_scale = scale(figures);
    let mut users = Vec::new();
    for user in &class.load.users {
        let figures = account::figures(&user.account, quantum);
        let colour = Some(palette.colour(&user.user));
        let row = AccountRow::of(&user.user, figures, user_scale, colour);
        users.push(AccountRow { fair_share: due(figures, class.load.policy), ..row });
    }
    let of_class = |job: &&JobView| job.class == name;
    let shown = view.jobs.iter().filter(of_class).take(LISTED);
    let rows = shown.map(|job| JobRow::of(job, view.cycle, &palette)).collect();
    let live = LiveClass {
        facts: facts(&info, &class, &CivilTime::of(&published)),
        bar: Bar::of(class.figures, scale([class.figures].into_iter())),
        users,
        past: chart::table(&notes, Whose::Class(&name), ask.until_ms()),
        jobs: JobTable {
            rows,
            sort: Sort::default(),
            caption: "Its jobs, oldest first".to_owned(),
            empty: "It has no jobs now.",
        },
        jobs_link: super::frame::address_of("/jobs", &[("class", &name)]),
    };
    drop(notes);
    let address = super::frame::address_of("/history", &[("class", &name)]);
    let head = ChartHead { name: name.clone(), address };
    Page { title: &format!("Class {name}"), section: "/classes", head, live }.answer(&ask)
}

/// Jobs listed on the page of a class or a user.
pub(super) const LISTED: usize = 25;

fn facts(
    info: &wire::ClassInfo,
    class: &ClassAccount,
    time: &CivilTime,
) -> Vec<(&'static str, String)> {
    let users = info.users.as_ref().map_or_else(
        || "all users".to_owned(),
        |users| users.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", "),
    );
    let weight = info.weight.map_or_else(|| "–".to_owned(), |weight| weight.to_string());
    let hours = HoursCell::of(info, time).map_or_else(
        || "always open".to_owned(),
        |HoursCell { state, rules }| format!("{rules}; {state}"),
    );
    vec![
        ("Policy", info.policy.word().to_owned()),
        ("Weight", weight),
        ("Priority", format!("{} (the lowest goes first)", info.priority)),
        ("Nodepool", info.pool.clone()),
        ("Quantum", memory(info.quantum_mb)),
        ("Hours", hours),
        ("Open to", users),
        ("Holds", memory(class.figures.held)),
        ("Fair share", due(class.figures, class.load.policy)),
        ("Could use", memory(class.figures.demand)),
    ]
}

/// The address of a user's page.
pub(super) fn user_link(user: &str) -> String {
    link("/users/", user)
}
