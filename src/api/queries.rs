//! Queries of readers: every answer is from a single published view, so its parts agree.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use crate::api::explain::load;
use crate::api::explain::why::{brief, why, why_by_node};
use crate::api::hours::{CivilTime, ShownHours};
use crate::api::http::compression::{AcceptsGzip, SharedJson};
use crate::api::http::error::{ApiError, Code};
use crate::api::http::extract::{PathPart, QueryParams};
use crate::api::ingest::absence::AbsentSums;
use crate::api::ingest::heartbeat_inbox::HeartbeatLog;
use crate::api::node_list::held_back_note;
use crate::api::published::Published;
use crate::api::state::ApiState;
use crate::api::wire;
use crate::api::wire::ClientList;
use crate::api::wire::from_view;
use crate::api::wire::from_window::NextWindows;
use crate::model::{Mebibytes, SharePhase};
use crate::scheduler::{JobView, NodeView, View};

/// Entries of a page if the client names no limit.
const PAGE: usize = 100;

/// Limit of entries of a page.
const PAGE_MAX: usize = 1000;

/// Filter of the list of nodes.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NodeParams {
    /// Only nodes in this state.
    state: Option<wire::NodeState>,
    /// Only nodes in this pool.
    pool: Option<String>,
}

/// All nodes ever seen, by name.
#[utoipa::path(get, path = "/v1/nodes", tag = "queries", params(NodeParams),
    responses((status = 200, body = wire::NodeList)))]
pub async fn get_nodes(
    State(state): State<ApiState>,
    unpacks: AcceptsGzip,
    QueryParams(params): QueryParams<NodeParams>,
) -> Result<Response, ApiError> {
    if params.state.is_some() || params.pool.is_some() {
        let some = serde_json::to_vec(&some_nodes(&state, &params));
        return Ok(SharedJson::from(some.expect("plain structs become JSON"))
            .answer(unpacks)
            .await);
    }
    let text = state.node_lists.latest(Arc::clone(&state.board), Arc::clone(&state.heartbeats));
    let text = text.await.ok_or_else(|| {
        ApiError::new(Code::Internal, "the list could not be made: internal error, see the log")
    })?;
    Ok(text.answer(unpacks).await)
}

fn some_nodes(state: &ApiState, params: &NodeParams) -> wire::NodeList {
    let published = state.latest();
    let is_wanted = |node: &&NodeView| {
        params.state.is_none_or(|state| from_view::node_states(node.state).contains(&state))
            && params.pool.as_ref().is_none_or(|pool| *pool == node.pool)
    };
    let mut nodes: Vec<wire::NodeInfo> =
        published.view.nodes.iter().filter(is_wanted).map(Into::into).collect();
    let log = state.heartbeats.log();
    let windows = NextWindows::of(&published.view.windows);
    for node in &mut nodes {
        node.next_window = windows.get(&node.name);
        node.notes.extend(notes_of(node, &published.view, &log));
    }
    wire::NodeList { cycle: published.view.cycle, nodes }
}

/// A node.
#[utoipa::path(get, path = "/v1/nodes/{name}", tag = "queries",
    params(("name" = String, Path, description = "the node's name")),
    responses((status = 200, body = wire::NodeInfo), (status = 404, body = wire::Problem)))]
pub async fn get_node(
    State(state): State<ApiState>,
    PathPart(name): PathPart<String>,
) -> Result<Json<wire::NodeInfo>, ApiError> {
    let published = state.latest();
    let node = published.view.nodes.iter().find(|node| node.name == name);
    let node = node.map(|node| {
        let mut node = wire::NodeInfo::from(node);
        node.next_window = NextWindows::of(&published.view.windows).get(&node.name);
        node.notes.extend(notes_of(&node, &published.view, &state.heartbeats.log()));
        Json(node)
    });
    node.ok_or_else(|| {
        let name = crate::api::http::json::shortened(&name);
        let cycle = published.view.cycle;
        ApiError::new(Code::UnknownNode, format!("no node `{name}` had reported by cycle {cycle}"))
    })
}

/// Returns the remarks on a node that its view does not contain.
pub fn notes_of(node: &wire::NodeInfo, view: &View, log: &HeartbeatLog) -> Vec<String> {
    let held_back = held_back_note(&node.name, &view.lost_held_back).into_iter();
    held_back.chain(log.notes_of(&node.name)).collect()
}

/// Filter of the list of jobs, and the position to continue from.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobParams {
    /// Only jobs of this user.
    user: Option<String>,
    /// Only jobs of this class.
    class: Option<String>,
    /// `true`: only jobs that have less than they want; `false`: only the rest.
    waiting: Option<bool>,
    /// Number of jobs on a page, at most 1000.
    limit: Option<usize>,
    /// Position to continue from: `next` of the page before.
    cursor: Option<String>,
}

/// Jobs, oldest first, page by page.
#[utoipa::path(get, path = "/v1/jobs", tag = "queries", params(JobParams),
    responses((status = 200, body = wire::JobPage), (status = 400, body = wire::Problem)))]
pub async fn get_jobs(
    State(state): State<ApiState>,
    QueryParams(params): QueryParams<JobParams>,
) -> Result<Json<wire::JobPage>, ApiError> {
    let after = params.cursor.as_deref().map(place_of).transpose()?;
    let limit = params.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    let is_wanted = |job: &&JobView| {
        params.user.as_ref().is_none_or(|user| *user == job.user)
            && params.class.as_ref().is_none_or(|class| *class == job.class)
            && params.waiting.is_none_or(|waiting| waiting == job.reason.is_some())
            && after.is_none_or(|after| after < (job.submitted, job.id.0))
    };
    let published = state.latest();
    let mut jobs: Vec<&JobView> = published.view.jobs.iter().filter(is_wanted).collect();
    jobs.sort_by_key(|job| (job.submitted, job.id));
    let has_more = jobs.len() > limit;
    jobs.truncate(limit);
    let next = jobs.last().filter(|_| has_more).map(|job| format!("{}-{}", job.submitted, job.id));
    let cycle = published.view.cycle;
    let jobs = jobs.into_iter().map(|job| wire::JobInfo::of(job, cycle)).collect();
    Ok(Json(wire::JobPage { cycle: published.view.cycle, jobs, next }))
}

/// A cursor names the last shown job by age and number, so it stays valid while jobs come and go.
fn place_of(cursor: &str) -> Result<(u64, u64), ApiError> {
    let parts = cursor.split_once('-');
    let place = parts.and_then(|(age, id)| Some((age.parse().ok()?, id.parse().ok()?)));
    place.ok_or_else(|| {
        ApiError::new(Code::BadParameter, "`cursor` is not one of ours; use `next` of a page")
    })
}

/// A job.
#[utoipa::path(get, path = "/v1/jobs/{id}", tag = "queries",
    params(("id" = u64, Path, description = "its number")),
    responses((status = 200, body = wire::JobInfo), (status = 404, body = wire::Problem)))]
pub async fn get_job(
    State(state): State<ApiState>,
    PathPart(id): PathPart<u64>,
) -> Result<Json<wire::JobInfo>, ApiError> {
    let published = state.latest();
    Ok(Json(wire::JobInfo::of(job_of(&published, id)?, published.view.cycle)))
}

/// Depth of the explanation.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WhyParams {
    /// `sentence`; `reasons`, which is usual: the arithmetic and counts of nodes too; `nodes`: every
    /// node too.
    #[param(inline)]
    depth: Option<wire::WhyDepth>,
}

/// Explains what a job has, and what would give it more.
#[utoipa::path(get, path = "/v1/jobs/{id}/why", tag = "queries",
    params(("id" = u64, Path, description = "its number"), WhyParams),
    responses((status = 200, body = wire::WhyAnswer), (status = 400, body = wire::Problem),
        (status = 404, body = wire::Problem)))]
pub async fn get_why(
    State(state): State<ApiState>,
    PathPart(id): PathPart<u64>,
    QueryParams(params): QueryParams<WhyParams>,
) -> Result<Json<wire::WhyAnswer>, ApiError> {
    let published = state.latest();
    let job = job_of(&published, id)?;
    let (view, time) = (&published.view, CivilTime::of(&published));
    Ok(Json(match params.depth.unwrap_or_default() {
        wire::WhyDepth::Sentence => wire::WhyAnswer::Brief(brief(view, job, &time)),
        wire::WhyDepth::Reasons => wire::WhyAnswer::Whole(Box::new(why(view, job, &time))),
        wire::WhyDepth::Nodes => wire::WhyAnswer::Whole(Box::new(why_by_node(view, job, &time))),
    }))
}

fn job_of(published: &Published, id: u64) -> Result<&JobView, ApiError> {
    published.view.jobs.iter().find(|job| job.id.0 == id).ok_or_else(|| {
        let cycle = published.view.cycle;
        ApiError::new(
            Code::UnknownJob,
            format!("no job {id} as of cycle {cycle}: it is over, or not published yet"),
        )
    })
}

/// All classes, in order of configuration.
#[utoipa::path(get, path = "/v1/classes", tag = "queries",
    responses((status = 200, body = wire::ClassList)))]
pub async fn get_classes(State(state): State<ApiState>) -> Json<wire::ClassList> {
    let published = state.latest();
    let view = &published.view;
    let hours = ShownHours::of(&published);
    let classes = view.classes.iter().filter_map(|class| hours.class_info(view, class)).collect();
    Json(wire::ClassList { cycle: view.cycle, classes })
}

/// All users with jobs, by name.
#[utoipa::path(get, path = "/v1/users", tag = "queries",
    responses((status = 200, body = wire::UserList)))]
pub async fn get_users(State(state): State<ApiState>) -> Json<wire::UserList> {
    let published = state.latest();
    Json(wire::UserList { cycle: published.view.cycle, users: from_view::users(&published.view) })
}

/// Demand against what is held, by class and user; nodepools by size; and what is still asked for.
#[utoipa::path(get, path = "/v1/load", tag = "queries", responses((status = 200, body = wire::Load)))]
pub async fn get_load(State(state): State<ApiState>) -> Json<wire::Load> {
    let published = state.latest();
    let view = &published.view;
    let classes =
        view.classes.iter().filter_map(|class| from_view::class_load(view, class)).collect();
    Json(wire::Load {
        cycle: view.cycle,
        classes,
        pools: load::pools(view),
        unmet: load::unmet(view),
    })
}

/// Shares, node by node.
#[utoipa::path(get, path = "/v1/occupancy", tag = "queries",
    responses((status = 200, body = wire::Occupancy)))]
pub async fn get_occupancy(State(state): State<ApiState>) -> Json<wire::Occupancy> {
    let published = state.latest();
    let nodes = published.view.nodes.iter().map(Into::into).collect();
    Json(wire::Occupancy { cycle: published.view.cycle, nodes })
}

/// State of the daemon and the cluster.
#[utoipa::path(get, path = "/v1/status", tag = "queries", responses((status = 200, body = wire::Status)))]
pub async fn get_status(State(state): State<ApiState>) -> Json<wire::Status> {
    Json(status_of(&state.latest()))
}

/// Returns the state of the daemon and the cluster as of `published`.
pub fn status_of(published: &Published) -> wire::Status {
    let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    wire::Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ready: published.is_ready,
        cycle: published.view.cycle,
        publication: published.publication,
        nodes: load::node_counts(published.view.nodes.iter()),
        jobs: job_counts(&published.view),
        shares: share_counts(&published.view),
        calm: calm(&published.view),
        silent_together: published.view.lost_held_back.iter().map(ToString::to_string).collect(),
        absent: absent_of(published),
        net_strikes: published.view.net_strikes(),
        cycle_times: (&published.times).into(),
        last_event: published.last_event,
        planned_in_us: micros(published.planned_in),
        stored_in_us: micros(published.stored_in),
        audit_findings: published.findings.clone(),
        audit_findings_total: published.findings_total,
    }
}

/// Counts the processes that the last publication left out; `None` if there are none.
fn absent_of(published: &Published) -> Option<wire::AbsentWork> {
    let AbsentSums { jobs, processes, held } = published.absent;
    (0 < processes).then_some(wire::AbsentWork { jobs, processes, held })
}

fn calm(view: &View) -> wire::Calm {
    let quiescence = view.planned.as_ref().map(|planned| &planned.snapshot.quiescence);
    quiescence.map_or_else(wire::Calm::default, |quiescence| wire::Calm {
        quiet_cycles: quiescence.quiet_cycles,
        rest_cycles: quiescence.rest_cycles,
    })
}

fn job_counts(view: &View) -> wire::JobCounts {
    let mut counts = wire::JobCounts::default();
    for job in view.jobs.iter() {
        counts.total += 1;
        counts.waiting += u64::from(job.reason.is_some());
        counts.refused += u64::from(job.order.is_none());
    }
    counts
}

/// Counts shares by state, and the space for them.
pub fn share_counts(view: &View) -> wire::ShareCounts {
    let mut counts = wire::ShareCounts::default();
    for share in view.jobs.iter().flat_map(|job| &job.shares) {
        counts.held += u64::from(share.state == SharePhase::Held);
        counts.leaving += u64::from(share.state == SharePhase::Leaving);
    }
    for node in view.nodes.iter() {
        let Mebibytes(used) = node.quantum.memory_of(node.used);
        if node.state.is_schedulable() {
            counts.used_mb += used;
            counts.schedulable_mb += node.quantum.memory_of(node.order).0;
        } else {
            counts.outside_mb += used;
        }
    }
    counts
}

/// Clients with the most requests since the daemon started, and the sums of the rest.
#[utoipa::path(get, path = "/v1/clients", tag = "queries",
    responses((status = 200, body = ClientList)))]
pub async fn get_clients(State(state): State<ApiState>) -> Json<ClientList> {
    Json(state.clients.top_clients())
}

/// Range of the past cycles that the dashboard shows with `?cycle=` and that `apportion replay`
/// computes again.
#[utoipa::path(get, path = "/v1/cycles", tag = "queries",
    responses((status = 200, body = wire::CycleRange)))]
pub async fn get_cycles(State(state): State<ApiState>) -> Json<wire::CycleRange> {
    let on_record = state.past_cycles.on_record().await;
    Json(wire::CycleRange {
        cycle: state.latest().view.cycle,
        oldest: on_record.map(|cycles| cycles.oldest),
        newest: on_record.map(|cycles| cycles.newest),
    })
}
