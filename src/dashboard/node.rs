//! Page of a single node: its state, its shares, and its latest events.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Dashboard;
use super::frame::{Ask, Nothing, Page, PageError, link};
use super::nodes::{NodePageRow, row};
use super::reservations::next_words;
use super::tell::EventText;
use super::words::memory;
use crate::api::http::extract::PathPart;
use crate::api::wire::WorkKind;
use crate::api::wire::from_window::NextWindows;
use crate::model::{QShares, SharePhase, amount_text};
use crate::scheduler::{JobView, NodeView, View};

/// Events on the page.
const EVENTS: usize = 12;

#[derive(Template)]
#[template(path = "node.html")]
struct LiveNode {
    node: NodePageRow,
    facts: Vec<(&'static str, String)>,
    is_off: bool,
    may_act: bool,
    shares: Vec<ShareLine>,
    events: Vec<EventText>,
    /// Address of the node's slots in the pages of the orchestrator; `None` without an
    /// orchestrator.
    slots: Option<String>,
}

struct ShareLine {
    share: u64,
    job: u64,
    user: String,
    colour: usize,
    class: String,
    kind: &'static str,
    qshares: u64,
    memory: String,
    state: &'static str,
}

/// The page.
pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    PathPart(name): PathPart<String>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.seen(&ask);
    let view = &published.view;
    let Some(node) = view.nodes.iter().find(|node| node.name == name) else {
        let sentence = format!(
            "No such node had reported by cycle {}, or it was forgotten. Earlier cycles have it, if it was there: choose \
             one above.",
            view.cycle
        );
        return Err(PageError::Missing { title: format!("Node {name}"), sentence });
    };
    let mut shares = Vec::new();
    let palette = dashboard.palette(view, &ask);
    for (id, share, order, state) in &node.shares {
        let job: Option<&JobView> = view.jobs.iter().find(|job| job.id == *id);
        let user = job.map(|job| job.user.to_string()).unwrap_or_default();
        shares.push(ShareLine {
            share: share.0,
            job: id.0,
            colour: palette.colour(&user),
            user,
            class: job.map(|job| job.class.to_string()).unwrap_or_default(),
            kind: job.map_or("", |job| WorkKind::from(job.kind).word()),
            qshares: order.qshares().0,
            memory: memory(node.quantum.memory_of(order.qshares()).0),
            state: match state {
                SharePhase::Held => "held",
                SharePhase::Leaving => "leaving",
            },
        });
    }
    let notes = dashboard.past.notes();
    let until_ms = ask.until_ms();
    let is_here = |told: &&EventText| told.at_ms <= until_ms && told.nodes.contains(&name);
    let events = notes.events.iter().rev().filter(is_here).take(EVENTS).cloned().collect();
    drop(notes);
    let live = LiveNode {
        facts: facts(node, view),
        is_off: node.state.is_varied_off,
        may_act: ask.may_act,
        node: row(node, view, ask.past().is_none().then_some(&dashboard.api)),
        shares,
        events,
        slots: ask.has_campaigns().then(|| link("/campaigns/on/", &name)),
    };
    Page { title: &format!("Node {name}"), section: "/nodes", head: Nothing, live }.answer(&ask)
}

fn facts(node: &NodeView, view: &View) -> Vec<(&'static str, String)> {
    let free = node.order.saturating_sub(node.used);
    let text = |amount: QShares| amount_text(Some(node.quantum), amount);
    let is_silent = view.lost_held_back.contains(&node.name);
    let mut facts = vec![
        ("Memory", memory(node.memory.0)),
        ("Nodepool", node.pool.to_string()),
        ("Shared out", format!("{}, in pieces of {}", text(node.order), text(QShares(1)))),
        ("Taken", text(node.used)),
        ("Free", text(free)),
        ("Heartbeats missed in a row", node.missed.to_string()),
    ];
    if let Some(next) = NextWindows::of(&view.windows).get(&node.name) {
        facts.push(("Next reservation", next_words(&next)));
    }
    if is_silent {
        facts
            .push(("Silent together", "with too many others; its work is not given up".to_owned()));
    }
    facts
}
