//! Administrators' acts: what they would mean first, then the act, all of it or nothing.
//!
//! A command names the wanted state, so repeating it changes nothing. The answer comes once the
//! command is stored: a confirmed command survives a crash.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;

use crate::api::http::authorize::Caller;
use crate::api::http::error::{ApiError, Code, RequestFault};
use crate::api::http::extract::JsonBody;
use crate::api::http::json::shortened;
use crate::api::limits::Limits;
use crate::api::state::ApiState;
use crate::api::wire::{self, Impact, JobBelow, NodesGone, VaryAnswer, VaryOff, VaryOn};
use crate::auth::Actor;
use crate::model::{JobKind, QShares, ShareId, SharePhase, expand_hostlist, is_hidden, nearest};
use crate::scheduler::{
    AdminCommand, CommandError, CommandImpact, JobView, NodeView, Removal, ShareView, View,
};

/// Limit of names and host lists in a request.
const ENTRIES_MAX: usize = 10_000;

/// Takes nodes out of scheduling. Fair-share processes on them are evicted, other processes stay.
#[utoipa::path(
    post,
    path = "/v1/nodes/vary-off",
    tag = "administration",
    request_body = VaryOff,
    responses(
        (status = 200, description = "done, or what would be done", body = VaryAnswer),
        (status = 400, description = "a bad list; nothing was done", body = wire::Problem),
        (status = 404, description = "an unknown node; nothing was done", body = wire::Problem),
    )
)]
pub async fn post_vary_off(
    State(state): State<ApiState>,
    Caller(caller): Caller,
    JsonBody(request): JsonBody<VaryOff>,
) -> Result<Json<VaryAnswer>, ApiError> {
    let published = state.latest();
    let view = &published.view;
    let names = names_in(&request.nodes, &state.limits)?;
    let reason = reason_in(&request.reason, &state.limits)?;
    check_not_all(view, &names, request.all)?;
    check_known(view, &names)?;
    let nodes = names.iter().cloned().collect();
    let command = AdminCommand::VaryOff { nodes, reason };
    let (changed, impact) = if request.dry_run {
        let trial = state.try_out(command).await?;
        let impact = foreseen(&trial, Removal::VariedOff);
        (trial.changed, impact)
    } else {
        let changed = state.command(command, caller.actor()).await?.changed;
        // The command is answered after its cycle.
        let impact = evicted(view, &state.latest().view, &names);
        (changed, impact)
    };
    Ok(Json(answer(view, &names, changed, impact, request.dry_run)))
}

/// Puts nodes back into scheduling.
#[utoipa::path(
    post,
    path = "/v1/nodes/vary-on",
    tag = "administration",
    request_body = VaryOn,
    responses(
        (status = 200, description = "done, or what would be done", body = VaryAnswer),
        (status = 400, description = "a bad list; nothing was done", body = wire::Problem),
        (status = 404, description = "an unknown node; nothing was done", body = wire::Problem),
    )
)]
pub async fn post_vary_on(
    State(state): State<ApiState>,
    Caller(caller): Caller,
    JsonBody(request): JsonBody<VaryOn>,
) -> Result<Json<VaryAnswer>, ApiError> {
    let published = state.latest();
    let view = &published.view;
    let names = names_in(&request.nodes, &state.limits)?;
    check_known(view, &names)?;
    let act = Act { view, impact: Impact::default(), names, dry_run: request.dry_run };
    let would_change = |name: &str| is_off(view, name);
    act.carry_out(&state, caller.actor(), would_change, |nodes| AdminCommand::VaryOn { nodes })
        .await
}

/// Declares nodes dead: their shares are given up, except reservations, as if each node had died
/// alone.
#[utoipa::path(
    post,
    path = "/v1/nodes/lost",
    tag = "administration",
    request_body = NodesGone,
    responses(
        (status = 200, description = "done, or what would be done", body = VaryAnswer),
        (status = 400, description = "a bad list; nothing was done", body = wire::Problem),
        (status = 404, description = "an unknown node; nothing was done", body = wire::Problem),
        (status = 409, description = "a node reports; nothing was done", body = wire::Problem),
    )
)]
pub async fn post_nodes_lost(
    State(state): State<ApiState>,
    Caller(caller): Caller,
    JsonBody(request): JsonBody<NodesGone>,
) -> Result<Json<VaryAnswer>, ApiError> {
    let published = state.latest();
    let view = &published.view;
    let names = names_in(&request.nodes, &state.limits)?;
    let reason = reason_in(&request.reason, &state.limits)?;
    check_known(view, &names)?;
    check_silent(view, &names)?;
    let mut impact = Impact::default();
    for job in view.jobs.iter() {
        let here = job.shares.iter().filter(|share| names.contains(share.node.as_str()));
        let keeps = job.kind == JobKind::Reservation;
        enter(&mut impact, job, here, keeps);
    }
    let act = Act { view, impact, names, dry_run: request.dry_run };
    let would_change = |name: &str| {
        node_named(view, name)
            .is_none_or(|node| !node.state.is_dead || view.lost_held_back.contains(&node.name))
    };
    let command = |nodes| AdminCommand::NodesLost { nodes, reason };
    act.carry_out(&state, caller.actor(), would_change, command).await
}

/// Forgets nodes that are gone for good: no list, metric or alert contains them any more. A node
/// that reports again is a new node.
#[utoipa::path(
    post,
    path = "/v1/nodes/forget",
    tag = "administration",
    request_body = NodesGone,
    responses(
        (status = 200, description = "done, or what would be done", body = VaryAnswer),
        (status = 400, description = "a bad list; nothing was done", body = wire::Problem),
        (status = 404, description = "an unknown node; nothing was done", body = wire::Problem),
        (status = 409, description = "a node reports or is in use; nothing was done", body = wire::Problem),
    )
)]
pub async fn post_nodes_forget(
    State(state): State<ApiState>,
    Caller(caller): Caller,
    JsonBody(request): JsonBody<NodesGone>,
) -> Result<Json<VaryAnswer>, ApiError> {
    let published = state.latest();
    let view = &published.view;
    let names = names_in(&request.nodes, &state.limits)?;
    let reason = reason_in(&request.reason, &state.limits)?;
    check_known(view, &names)?;
    check_silent(view, &names)?;
    check_unused(view, &names)?;
    let act = Act { view, impact: Impact::default(), names, dry_run: request.dry_run };
    let command = |nodes| AdminCommand::ForgetNodes { nodes, reason };
    act.carry_out(&state, caller.actor(), |_| true, command).await
}

/// A command on nodes that is legal by the latest view.
struct Act<'a> {
    view: &'a View,
    names: BTreeSet<String>,
    impact: Impact,
    dry_run: bool,
}

impl Act<'_> {
    /// Carries the command out. A dry run reports the nodes that it `would_change`.
    async fn carry_out(
        self,
        state: &ApiState,
        by: Actor,
        would_change: impl Fn(&str) -> bool,
        command: impl FnOnce(Vec<String>) -> AdminCommand,
    ) -> Result<Json<VaryAnswer>, ApiError> {
        let Act { view, names, impact, dry_run } = self;
        let nodes: Vec<String> = names.iter().cloned().collect();
        let changed = if dry_run {
            nodes.into_iter().filter(|name| would_change(name)).collect()
        } else {
            state.command(command(nodes), by).await?.changed
        };
        Ok(Json(answer(view, &names, changed, impact, dry_run)))
    }
}

/// Refuses nodes in use: they are not gone. The scheduler decides in the end; a dry run has this
/// check only.
fn check_unused(view: &View, names: &BTreeSet<String>) -> Result<(), ApiError> {
    let booked: BTreeSet<&str> = view
        .jobs
        .iter()
        .flat_map(|job| job.shares.iter().chain(&job.purged))
        .map(|share| share.node.as_str())
        .collect();
    let is_used = |name: &&String| {
        let takes_room = node_named(view, name).is_some_and(|node| QShares(0) < node.used);
        takes_room || booked.contains(name.as_str())
    };
    let used: Vec<String> = names.iter().filter(is_used).cloned().collect();
    if used.is_empty() { Ok(()) } else { Err(CommandError::StillInUse(used).into()) }
}

/// A node that reports is neither lost nor gone.
fn check_silent(view: &View, names: &BTreeSet<String>) -> Result<(), ApiError> {
    let reports = |name: &&String| {
        node_named(view, name)
            .is_some_and(|node| !node.state.is_dead && !node.state.is_awaited && node.missed == 0)
    };
    let reporting: Vec<String> = names.iter().filter(reports).cloned().collect();
    if reporting.is_empty() {
        return Ok(());
    }
    Err(CommandError::StillReporting(reporting).into())
}

/// The names that a list of names and host lists stands for.
pub(in crate::api) fn names_in(
    lists: &[String],
    limits: &Limits,
) -> Result<BTreeSet<String>, RequestFault> {
    if lists.is_empty() {
        return Err(RequestFault::new(
            Code::UnconfirmedNodes,
            "/nodes",
            "no node named; name at least one",
        ));
    }
    if lists.len() > ENTRIES_MAX {
        let detail = format!("{} entries; at most {ENTRIES_MAX} are taken", lists.len());
        return Err(RequestFault::new(Code::BadNodeList, "/nodes", detail));
    }
    let mut names = BTreeSet::new();
    for (index, list) in lists.iter().enumerate() {
        let bad =
            |what: String| RequestFault::new(Code::BadNodeList, format!("/nodes/{index}"), what);
        let expanded = expand_hostlist(list).map_err(|error| {
            bad(format!("`{}` is no host list: {error}; nothing was done", shortened(list)))
        })?;
        names.extend(expanded);
        if names.len() > limits.nodes {
            return Err(bad(format!("more than {} nodes; nothing was done", limits.nodes)));
        }
    }
    Ok(names)
}

pub(in crate::api) fn reason_in(reason: &str, limits: &Limits) -> Result<String, RequestFault> {
    let reason = reason.trim();
    let is_legal =
        !reason.is_empty() && reason.len() <= limits.string && !reason.contains(is_hidden);
    if is_legal {
        return Ok(reason.to_owned());
    }
    let detail = format!(
        "say why, in one line of 1 to {} bytes, for the next reader of the node's entry",
        limits.string
    );
    Err(RequestFault::new(Code::BadReason, "/reason", detail))
}

/// Refuses a list of all nodes without a confirmation.
fn check_not_all(
    view: &View,
    names: &BTreeSet<String>,
    is_confirmed: bool,
) -> Result<(), RequestFault> {
    let is_all =
        !view.nodes.is_empty() && view.nodes.iter().all(|node| names.contains(node.name.as_str()));
    if is_confirmed || !is_all {
        return Ok(());
    }
    let detail = format!(
        "this is every node there is ({}); if it is meant so, send `all: true`",
        view.nodes.len()
    );
    Err(RequestFault::new(Code::UnconfirmedNodes, "/nodes", detail))
}

/// Rejects unknown nodes: a single unknown name is not found, a list with an unknown name is a bad
/// list.
fn check_known(view: &View, names: &BTreeSet<String>) -> Result<(), RequestFault> {
    let Some(unknown) = names.iter().find(|name| !is_known(view, name)) else {
        return Ok(());
    };
    let nearest = nearest(unknown, view.nodes.iter().map(|node| node.name.as_str()));
    let hint = nearest.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
    let (unknown, cycle) = (shortened(unknown), view.cycle);
    let detail =
        format!("no node `{unknown}` had reported by cycle {cycle}{hint}; nothing was done");
    let code = if names.len() == 1 { Code::UnknownNode } else { Code::BadNodeList };
    Err(RequestFault::new(code, "/nodes", detail))
}

fn is_known(view: &View, name: &str) -> bool {
    node_named(view, name).is_some() || is_off(view, name)
}

fn is_off(view: &View, name: &str) -> bool {
    view.varied_off.iter().any(|(node, _)| node == name)
}

fn node_named<'a>(view: &'a View, name: &str) -> Option<&'a NodeView> {
    view.nodes.iter().find(|node| node.name == name)
}

/// Effect of keeping work off nodes, as a trial foresees it. `cause` is that of evictions.
pub(in crate::api) fn foreseen(trial: &CommandImpact, cause: Removal) -> Impact {
    let of = |removal| trial.evicted.iter().filter(move |((_, why), _)| *why == removal);
    let below = trial.below.iter();
    let below = below.map(|(job, holding)| JobBelow {
        job: job.0,
        holds: holding.before,
        keeps: holding.after,
    });
    Impact {
        shares_evicted: of(cause).map(|(_, count)| count).sum(),
        jobs: of(cause).map(|((job, _), _)| job.0).collect(),
        kept: trial.kept,
        work_lost_ms: trial.work_lost,
        preempted: of(Removal::Preempted).map(|(_, count)| count).sum(),
        below: below.collect(),
    }
}

/// Effect that taking nodes out had: shares evicted for it between the two views, and shares that
/// stay on nodes that were not out before.
fn evicted(before: &View, after: &View, names: &BTreeSet<String>) -> Impact {
    let shares = before.jobs.iter().flat_map(|job| &job.shares);
    let held = shares.filter(|share| share.state == SharePhase::Held);
    let held: BTreeSet<ShareId> = held.map(|share| share.id).collect();
    let mut impact = Impact::default();
    for job in after.jobs.iter() {
        let here = |share: &&ShareView| {
            names.contains(share.node.as_str()) && !is_off(before, &share.node)
        };
        let gone = |share: &&ShareView| {
            share.removal == Some(Removal::VariedOff) && held.contains(&share.id)
        };
        enter(&mut impact, job, job.shares.iter().filter(here).filter(gone), false);
        let stays = |share: &&ShareView| share.state == SharePhase::Held;
        enter(&mut impact, job, job.shares.iter().filter(here).filter(stays), true);
    }
    impact
}

/// Counts these shares of `job`: as evicted, or as kept where it `keeps` them.
fn enter<'a>(
    impact: &mut Impact,
    job: &JobView,
    shares: impl Iterator<Item = &'a ShareView>,
    keeps: bool,
) {
    let (mut count, mut lost) = (0_u64, 0_u64);
    for share in shares {
        count += 1;
        lost = lost.saturating_add(share.facts.work_at_stake());
    }
    if keeps {
        impact.kept += count;
    } else if 0 < count {
        impact.shares_evicted += count;
        impact.work_lost_ms = impact.work_lost_ms.saturating_add(lost);
        impact.jobs.push(job.id.0);
    }
}

fn answer(
    view: &View,
    names: &BTreeSet<String>,
    changed: Vec<String>,
    impact: Impact,
    dry_run: bool,
) -> VaryAnswer {
    let unchanged = names.iter().filter(|name| !changed.contains(name)).cloned().collect();
    let note = |name: &String| {
        let node = node_named(view, name)?;
        let state = node.state;
        let dead = match node.missed {
            0 => "is dead".to_owned(),
            missed => format!("is dead: it missed {missed} heartbeats in a row"),
        };
        let notes = [
            (state.is_awaited, "has not reported since the daemon started"),
            (state.is_dead, dead.as_str()),
            (state.is_quiesced, "wants no new work: its agent said so"),
            (state.is_blacklisted, "holds shares that configuration no longer allows"),
        ];
        let holding: Vec<&str> =
            notes.iter().filter(|(holds, _)| *holds).map(|(_, note)| *note).collect();
        (!holding.is_empty()).then(|| format!("`{name}` {}", holding.join("; ")))
    };
    let notes = names.iter().filter_map(note).collect();
    VaryAnswer { changed, unchanged, dry_run, impact, notes }
}
