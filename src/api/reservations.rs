//! Advance reservations and maintenances: nodes that administrators keep for a span of time.
//!
//! Like for other acts on nodes, a name is a state that is wanted: repeating changes nothing. The
//! answer comes once the command is stored.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use jiff::{Span, Timestamp};

use crate::api::admin::{foreseen, names_in, reason_in};
use crate::api::http::authorize::Caller;
use crate::api::http::error::{ApiError, Code, RequestFault};
use crate::api::http::extract::{JsonBody, PathPart};
use crate::api::http::json::shortened;
use crate::api::ingest::names::{name_problem, user_problem};
use crate::api::limits::Limits;
use crate::api::state::ApiState;
use crate::api::wire::{
    self, Impact, ItemProblem, ReservationAnswer, ReservationDeletion, ReservationInfo,
    ReservationKind, ReservationList, ReservationRequest, StartMove, TimeText, WorkInTheWay,
};
use crate::model::{JobId, Millis, Name, ShareId, Window, count, nearest};
use crate::scheduler::{AdminCommand, CommandImpact, MovedStart, Removal, View};

/// Latest start of a reservation, in hours from now: 8 weeks.
const HOURS_AHEAD: i64 = 8 * 7 * 24;

/// Most users, or classes, of a reservation.
const NAMES_MAX: usize = 1000;

/// Jobs that start at another time, as listed in an answer: more help no reader.
const STARTS_LISTED: usize = 20;

/// Shares in the way that a refusal lists.
const LISTED: usize = 100;

/// Keeps nodes for some work, or for none, for a span of time.
#[utoipa::path(
    post,
    path = "/v1/reservations",
    tag = "administration",
    request_body = ReservationRequest,
    responses(
        (status = 200, description = "done, or what would be done", body = ReservationAnswer),
        (status = 400, description = "a bad list, time or name; nothing was done", body = wire::Problem),
        (status = 404, description = "an unknown node; nothing was done", body = wire::Problem),
        (status = 409, description = "another reservation or work is in the way; nothing was done", body = wire::Problem),
    )
)]
pub async fn post_reservation(
    State(state): State<ApiState>,
    Caller(caller): Caller,
    JsonBody(request): JsonBody<ReservationRequest>,
) -> Result<Json<ReservationAnswer>, ApiError> {
    let published = state.latest();
    let view = &published.view;
    let window = window_of(&request, view, &state.limits)?;
    let reserve = |is_forced| AdminCommand::Reserve { window: Box::new(window.clone()), is_forced };
    // The answer tells the work in the way in either case; only a trial knows the expected ends.
    let trial = state.try_out(reserve(true)).await;
    let in_the_way = trial.as_ref().map(|trial| in_the_way(view, trial)).unwrap_or_default();
    let starts = trial.as_ref().map(|trial| starts_moved(view, trial)).unwrap_or_default();
    let impact = trial.as_ref().map(|trial| foreseen(trial, Removal::Window)).unwrap_or_default();
    // Work that can be preempted does not stay, and it is on the nodes until then.
    let impact = Impact { kept: count(&in_the_way), ..impact };
    let changed = if request.dry_run {
        let changed = !trial?.changed.is_empty();
        if changed && !request.force && !in_the_way.is_empty() {
            return Err(blocked(&window.name, &in_the_way));
        }
        changed
    } else {
        match state.command(reserve(request.force), caller.actor()).await {
            Ok(outcome) => !outcome.changed.is_empty(),
            Err(error) if error.code() == Code::ReservationBlocked && !in_the_way.is_empty() => {
                return Err(blocked(&window.name, &in_the_way));
            }
            Err(error) => return Err(error),
        }
    };
    Ok(Json(ReservationAnswer {
        reservation: ReservationInfo::from(&window),
        changed,
        dry_run: request.dry_run,
        in_the_way,
        impact,
        more_starts_moved: count(starts.iter().skip(STARTS_LISTED)),
        starts_moved: starts.into_iter().take(STARTS_LISTED).collect(),
    }))
}

/// All advance reservations and maintenances that are not over, by start.
#[utoipa::path(get, path = "/v1/reservations", tag = "queries",
    responses((status = 200, body = ReservationList)))]
pub async fn get_reservations(State(state): State<ApiState>) -> Json<ReservationList> {
    Json(all_of(&state.latest().view))
}

/// An advance reservation or maintenance.
#[utoipa::path(get, path = "/v1/reservations/{name}", tag = "queries",
    params(("name" = String, Path, description = "the reservation's name")),
    responses((status = 200, body = ReservationInfo), (status = 404, body = wire::Problem)))]
pub async fn get_reservation(
    State(state): State<ApiState>,
    PathPart(name): PathPart<String>,
) -> Result<Json<ReservationInfo>, ApiError> {
    let published = state.latest();
    let found = published.view.windows.iter().find(|window| window.name == name);
    found.map(|window| Json(ReservationInfo::from(&**window))).ok_or_else(|| {
        let hint = nearest_of(&published.view, &name);
        let hint = hint.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
        let detail = format!("no reservation `{}`{hint}", shortened(&name));
        ApiError::new(Code::UnknownReservation, detail)
    })
}

/// Deletes an advance reservation or maintenance: its nodes take work as before. An absent
/// name changes nothing.
#[utoipa::path(delete, path = "/v1/reservations/{name}", tag = "administration",
    params(("name" = String, Path, description = "the reservation's name")),
    responses((status = 200, description = "there is no such reservation now", body = ReservationDeletion)))]
pub async fn delete_reservation(
    State(state): State<ApiState>,
    Caller(caller): Caller,
    PathPart(name): PathPart<String>,
) -> Result<Json<ReservationDeletion>, ApiError> {
    if let Some(problem) = name_problem(&name, state.limits.string) {
        return Err(ApiError::new(Code::BadParameter, problem));
    }
    let nearest = nearest_of(&state.latest().view, &name);
    let command = AdminCommand::Unreserve { name: name.as_str().into() };
    let nodes = state.command(command, caller.actor()).await?.changed;
    let changed = !nodes.is_empty();
    let nearest = nearest.filter(|_| !changed);
    Ok(Json(ReservationDeletion { name, changed, nodes, nearest }))
}

/// The reservations of a view, by start.
pub(crate) fn all_of(view: &View) -> ReservationList {
    let mut windows: Vec<&Window> = view.windows.iter().map(|window| &**window).collect();
    windows.sort_by_key(|window| (window.from, window.name.clone()));
    let reservations = windows.into_iter().map(Into::into).collect();
    ReservationList { cycle: view.cycle, reservations }
}

fn nearest_of(view: &View, name: &str) -> Option<String> {
    nearest(name, view.windows.iter().map(|window| window.name.as_str())).map(ToOwned::to_owned)
}

/// Reads and checks a request. The scheduler checks nodes, and what stands against it.
fn window_of(
    request: &ReservationRequest,
    view: &View,
    limits: &Limits,
) -> Result<Window, RequestFault> {
    let bad = |pointer: &str, problem: String| {
        RequestFault::new(Code::BadValue, pointer, format!("{problem}; nothing was done"))
    };
    if let Some(problem) = name_problem(&request.name, limits.string) {
        return Err(bad("/name", problem));
    }
    let nodes = names_in(&request.nodes, limits)?;
    let is_known = view.windows.iter().any(|window| window.name == request.name);
    let (from, to) = span_of(request, is_known)?;
    let lists = [("/users", &request.users), ("/classes", &request.classes)];
    for (pointer, names) in lists {
        if request.kind == ReservationKind::Maintenance && !names.is_empty() {
            return Err(bad(pointer, "no work runs in a maintenance; leave this out".to_owned()));
        }
        if NAMES_MAX < names.len() {
            return Err(bad(pointer, format!("{} names; at most {NAMES_MAX}", names.len())));
        }
    }
    for (index, user) in request.users.iter().enumerate() {
        if let Some(problem) = user_problem(user, limits.string) {
            return Err(bad(&format!("/users/{index}"), problem));
        }
    }
    for (index, class) in request.classes.iter().enumerate() {
        check_class(class, view).map_err(|fault| fault.within(&format!("/classes/{index}")))?;
    }
    let has_reason = !request.reason.trim().is_empty();
    let reason = if has_reason || request.kind == ReservationKind::Maintenance {
        reason_in(&request.reason, limits)?
    } else {
        String::new()
    };
    Ok(Window {
        name: request.name.as_str().into(),
        kind: request.kind.into(),
        nodes: nodes.iter().map(|node| node.as_str().into()).collect(),
        from,
        to,
        users: sorted(&request.users),
        classes: sorted(&request.classes),
        reason,
    })
}

fn sorted(names: &[String]) -> Vec<Name> {
    let mut names: Vec<Name> = names.iter().map(|name| name.as_str().into()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn check_class(class: &str, view: &View) -> Result<(), RequestFault> {
    let classes = || view.topology.classes.iter().map(|class| class.name.as_str());
    if classes().any(|known| known == class) {
        return Ok(());
    }
    let hint = nearest(class, classes());
    let hint = hint.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
    let detail = format!("no class `{}`{hint}; nothing was done", shortened(class));
    Err(RequestFault::new(Code::UnknownClass, "", detail))
}

/// Start and end. A reservation that may be there already can have begun long ago.
fn span_of(request: &ReservationRequest, is_known: bool) -> Result<(Millis, Millis), RequestFault> {
    let bad = |pointer: &str, problem: String| {
        RequestFault::new(Code::BadTime, pointer, format!("{problem}; nothing was done"))
    };
    let (start, end) = (moment(&request.start), moment(&request.end));
    let start = start.map_err(|problem| bad("/start", problem))?;
    let end = end.map_err(|problem| bad("/end", problem))?;
    if end <= start {
        return Err(bad("/end", format!("the end, {end}, is not after the start, {start}")));
    }
    let now = Timestamp::now();
    if end <= now && !is_known {
        return Err(bad("/end", format!("the end, {end}, is in the past")));
    }
    let latest = now.checked_add(Span::new().hours(HOURS_AHEAD)).unwrap_or(Timestamp::MAX);
    if latest < start {
        return Err(bad("/start", format!("the start, {start}, is more than 8 weeks ahead")));
    }
    let millis = |time: Timestamp, pointer| {
        Millis::try_from(time.as_millisecond())
            .map_err(|_| bad(pointer, format!("{time} is before 1970")))
    };
    Ok((millis(start, "/start")?, millis(end, "/end")?))
}

fn moment(text: &TimeText) -> Result<Timestamp, String> {
    match text {
        TimeText::Millis(millis) => {
            let time = i64::try_from(*millis).ok();
            let time = time.and_then(|time| Timestamp::from_millisecond(time).ok());
            time.ok_or_else(|| format!("{millis} ms since the epoch is after the year 9999"))
        }
        TimeText::Text(text) => text.parse().map_err(|_| {
            format!(
                "`{}` is no time; write RFC 3339 with an offset from UTC, such as \
                 2026-12-01T18:00:00+01:00",
                shortened(text)
            )
        }),
    }
}

/// The shares in the way that a trial found, by node.
fn in_the_way(view: &View, trial: &CommandImpact) -> Vec<WorkInTheWay> {
    let ends: BTreeMap<ShareId, Option<Millis>> = trial.in_the_way.iter().copied().collect();
    if ends.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for job in view.jobs.iter() {
        for share in &*job.shares {
            let Some(end) = ends.get(&share.id) else { continue };
            found.push(WorkInTheWay {
                job: job.id.0,
                share: share.id.0,
                user: job.user.to_string(),
                node: share.node.to_string(),
                end_ms: *end,
            });
        }
    }
    found.sort_by(|one, other| (&one.node, one.share).cmp(&(&other.node, other.share)));
    found
}

/// The jobs that start at another time because of a reservation, oldest first.
fn starts_moved(view: &View, trial: &CommandImpact) -> Vec<StartMove> {
    let moved: BTreeMap<JobId, MovedStart> =
        trial.starts_moved.iter().map(|start| (start.job, *start)).collect();
    let jobs = view.jobs.iter().filter_map(|job| {
        let MovedStart { before, after, .. } = *moved.get(&job.id)?;
        let (job, user) = (job.id.0, job.user.to_string());
        Some(StartMove { job, user, before_ms: before, after_ms: after })
    });
    jobs.collect()
}

/// The refusal of a reservation, with the work that is in the way.
fn blocked(name: &str, in_the_way: &[WorkInTheWay]) -> ApiError {
    let item = |work: &WorkInTheWay| {
        let end = match work.end_ms.and_then(|end| i64::try_from(end).ok()) {
            Some(end) => Timestamp::from_millisecond(end)
                .map_or_else(|_| "too late".to_owned(), |end| format!("expected until {end}")),
            None => "its end is not known".to_owned(),
        };
        let WorkInTheWay { job, user, node, .. } = work;
        ItemProblem {
            pointer: "/nodes".to_owned(),
            code: Code::ReservationBlocked.name().to_owned(),
            detail: format!("job {job} of {user} is on {node}: {end}"),
        }
    };
    let shares = match count(in_the_way) {
        1 => "1 share of work that is never preempted".to_owned(),
        many => format!("{many} shares of work that is never preempted"),
    };
    let detail = format!(
        "{shares} would still be there when `{name}` starts; choose other nodes, a later time, or \
         repeat with force: the work stays then; nothing was done"
    );
    let errors = in_the_way.iter().take(LISTED).map(item).collect();
    ApiError::with(Code::ReservationBlocked, detail, errors)
}
