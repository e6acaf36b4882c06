//! Search field of every page: takes a job's number, or the name of a node, user or class.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::Dashboard;
use super::frame::{Ask, Nothing, Page, PageError, PageQuery, link};
use crate::scheduler::View;

/// Results listed of each kind.
const LISTED: usize = 25;

/// Searched text in the address.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SearchParams {
    q: String,
}

#[derive(Template)]
#[template(path = "search.html")]
struct LiveSearch {
    wanted: String,
    cycle: u64,
    groups: Vec<FoundKind>,
}

/// Results of a kind.
struct FoundKind {
    title: &'static str,
    links: Vec<(String, String)>,
    more: usize,
}

/// Answers with the list of results, or redirects to the page of an exact match.
pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    PageQuery(params): PageQuery<SearchParams>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.seen(&ask);
    let view = &published.view;
    let wanted = params.q.trim();
    if let Some(address) = exactly(view, wanted) {
        let cycle = ask.past().map(|past| format!("?cycle={}", past.view.cycle));
        return Ok(Redirect::to(&format!("{address}{}", cycle.unwrap_or_default())).into_response());
    }
    let live =
        LiveSearch { wanted: wanted.to_owned(), cycle: view.cycle, groups: found(view, wanted) };
    Page { title: "Search", section: "", head: Nothing, live }.answer(&ask)
}

/// The page of what is called exactly so: a job, a node, a user or a class, in this order.
fn exactly(view: &View, wanted: &str) -> Option<String> {
    let number = wanted.strip_prefix("job").unwrap_or(wanted).trim().parse::<u64>().ok();
    if let Some(id) = number.filter(|id| view.jobs.iter().any(|job| job.id.0 == *id)) {
        return Some(format!("/jobs/{id}"));
    }
    let is_node = view.nodes.iter().any(|node| node.name == wanted);
    let is_user = || view.jobs.iter().any(|job| job.user == wanted);
    let is_class = || view.classes.iter().any(|class| class.name == wanted);
    match () {
        () if is_node => Some(link("/node/", wanted)),
        () if is_user() => Some(link("/users/", wanted)),
        () if is_class() => Some(link("/classes/", wanted)),
        () => None,
    }
}

fn found(view: &View, wanted: &str) -> Vec<FoundKind> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let wanted = wanted.to_lowercase();
    let is_it = |name: &&str| name.to_lowercase().contains(&wanted);
    let groups: [(&str, &str, BTreeSet<&str>); 3] = [
        (
            "Nodes",
            "/node/",
            view.nodes.iter().map(|node| node.name.as_str()).filter(is_it).collect(),
        ),
        ("Users", "/users/", view.jobs.iter().map(|job| job.user.as_str()).filter(is_it).collect()),
        (
            "Classes",
            "/classes/",
            view.classes.iter().map(|class| class.name.as_str()).filter(is_it).collect(),
        ),
    ];
    let group = |(title, path, names): (&'static str, &str, BTreeSet<&str>)| FoundKind {
        title,
        more: names.len().saturating_sub(LISTED),
        links: names
            .iter()
            .take(LISTED)
            .map(|name| ((*name).to_owned(), link(path, name)))
            .collect(),
    };
    groups.into_iter().filter(|(.., names)| !names.is_empty()).map(group).collect()
}
