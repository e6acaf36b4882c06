//! Rows of the audit log about acts of administrators and of the daemon.

use jiff::Timestamp;

use super::clock::now_ms;
use super::live::LiveConfig;
use super::record;
use crate::api::AuditNote;
use crate::api::wire::ConfigRequest;
use crate::auth::Actor;
use crate::model::{JobSpec, Millis, Window, WindowKind, fold_hostlist};
use crate::scheduler::AdminCommand;
use crate::store::{AdminRow, AuditRow};

/// Maximum length of a list of nodes in bytes; the feed of events has the whole list.
const NODES_MAX: usize = 2000;

/// Row about an act that `by` requested, with its outcome.
pub fn of(by: &Actor, act: &str, detail: String, outcome: &str) -> AuditRow {
    AuditRow {
        at_ms: now_ms(),
        who: by.who.clone(),
        origin: by.origin.clone(),
        act: act.to_owned(),
        detail,
        outcome: outcome.to_owned(),
    }
}

/// Row about the start of the daemon and its configuration.
pub fn start(live: &LiveConfig) -> AuditRow {
    let (name, generation) = (&live.config.file.name, live.generation);
    let detail = format!("version {}, {name}, generation {generation}", env!("CARGO_PKG_VERSION"));
    of(&Actor::daemon("here"), "start", detail, "done")
}

/// An act that `by` did.
pub fn done(by: &Actor, act: &AdminRow) -> AuditRow {
    let reason = act.reason.as_deref();
    AuditRow { at_ms: act.at_ms, ..of(by, &act.action, detail(&act.nodes, reason), "done") }
}

/// Row from a note of another part of the daemon.
pub fn note(note: AuditNote) -> AuditRow {
    of(&note.by, &note.act, note.detail, &note.outcome)
}

/// Nodes and reason of a command.
pub fn asked(command: &AdminCommand) -> String {
    match command {
        AdminCommand::VaryOff { nodes, reason } => detail(nodes, Some(reason)),
        AdminCommand::NodesLost { nodes, reason } | AdminCommand::ForgetNodes { nodes, reason } => {
            detail(nodes, Some(reason))
        }
        AdminCommand::VaryOn { nodes } => detail(nodes, None),
        AdminCommand::Reserve { window, is_forced } => {
            let nodes: Vec<String> = window.nodes.iter().map(ToString::to_string).collect();
            detail(&nodes, Some(&window_words(window, *is_forced)))
        }
        AdminCommand::Unreserve { name } => name.to_string(),
        AdminCommand::Urgent(spec) => urgent_words(spec),
        AdminCommand::Reconfigure(_) => String::new(),
    }
}

/// Description of the requested configuration.
pub fn configuration(request: &ConfigRequest) -> String {
    let which = match (&request.generation, &request.name, &request.text) {
        (Some(generation), ..) => format!("generation {generation}"),
        (None, Some(name), _) => name.clone(),
        (None, None, Some(_)) => "a text that was sent".to_owned(),
        (None, None, None) => "the daemon's own file".to_owned(),
    };
    with_reason(which, request.reason.as_deref())
}

fn detail(nodes: &[String], reason: Option<&str>) -> String {
    let mut folded = fold_hostlist(nodes.iter().map(String::as_str));
    if NODES_MAX < folded.len() {
        let end = folded.floor_char_boundary(NODES_MAX);
        folded.truncate(end);
        folded.push('…');
    }
    with_reason(folded, reason)
}

fn with_reason(what: String, reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("{what}: {reason}"),
        None => what,
    }
}

/// Name, kind, times and reason of a window.
fn window_words(window: &Window, is_forced: bool) -> String {
    let kind = match window.kind {
        WindowKind::Reservation => "reservation",
        WindowKind::Maintenance => "maintenance",
    };
    let time = |ms: Millis| {
        let time = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        time.map_or_else(|| ms.to_string(), |time| time.to_string())
    };
    let forced = if is_forced { ", forced" } else { "" };
    let words =
        format!("{kind} {} from {} to {}{forced}", window.name, time(window.from), time(window.to));
    with_reason(words, Some(window.reason.as_str()).filter(|reason| !reason.is_empty()))
}

/// Number, user and class of an urgent job.
pub fn urgent_words(spec: &JobSpec) -> String {
    format!("job {} of {} in class {}", spec.id, spec.user, spec.class)
}

/// Name of a command, and its reason.
pub fn described(command: &AdminCommand) -> (&'static str, Option<String>) {
    match command {
        AdminCommand::VaryOff { reason, .. } => ("vary-off", Some(reason.clone())),
        AdminCommand::VaryOn { .. } => ("vary-on", None),
        AdminCommand::NodesLost { reason, .. } => ("node-lost", Some(reason.clone())),
        AdminCommand::ForgetNodes { reason, .. } => (record::NODE_FORGET, Some(reason.clone())),
        AdminCommand::Reserve { window, is_forced } => {
            ("reserve", Some(window_words(window, *is_forced)))
        }
        AdminCommand::Unreserve { name } => ("unreserve", Some(name.to_string())),
        AdminCommand::Urgent(spec) => ("urgent", Some(urgent_words(spec))),
        AdminCommand::Reconfigure(_) => ("reconfigure", None),
    }
}
