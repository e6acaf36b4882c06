//! Advance reservations and maintenances: created, listed, shown and deleted.

use jiff::Zoned;
use serde::Serialize;

use super::answer::{ShownAnswer, answer};
use super::client::DaemonClient;
use super::consent;
use super::failure::{Failure, FailureKind};
use super::node_act_args::{MaintenanceArgs, WindowFlags};
use super::node_names::spelled_out;
use super::node_words::{names, render_impact};
use super::output::show;
use super::remote::Remote;
use super::reservation_args::{ReservationAction, ReservationCreate, ReservationDelete};
use super::table::Column::{Left, Right};
use super::table::{fitted, plain, table};
use super::text::TextStyle;
use super::time_spec::{WindowTimes, local, millis, to_the_minute, zone};
use crate::api::wire::{
    Impact, NodeInfo, ReservationAnswer, ReservationDeletion, ReservationInfo, ReservationKind,
    ReservationList, ReservationRequest, TimeText, WorkInTheWay,
};
use crate::model::{count, counted, expand_hostlist, span};

/// Runs the command.
///
/// # Errors
///
/// If the daemon cannot be reached or refuses, or the caller declined the effects.
pub async fn run(action: &ReservationAction) -> Result<(), Failure> {
    match action {
        ReservationAction::Create(args) => create(args).await,
        ReservationAction::List(args) => {
            answer(&args.asking, async |client| {
                let list = client.get(&["v1", "reservations"], &[]).await?;
                Ok(ReservationTable { list, now: Zoned::now() })
            })
            .await
        }
        ReservationAction::Show(args) => {
            answer(&args.asking, async |client| {
                let reservation =
                    client.get(&["v1", "reservations", &args.reservation], &[]).await?;
                Ok(ReservationCard { reservation: [reservation], now: Zoned::now() })
            })
            .await
        }
        ReservationAction::Delete(args) => delete(args).await,
    }
}

async fn create(args: &ReservationCreate) -> Result<(), Failure> {
    let ReservationCreate { name, nodes, times, users, classes, reason, flags, remote } = args;
    let client = DaemonClient::new(remote)?;
    let now = Zoned::now();
    let (start, end) = resolved(times, &now)?;
    let request = ReservationRequest {
        name: name.clone(),
        kind: ReservationKind::Reservation,
        nodes: spelled_out(&client, nodes).await?,
        start: TimeText::Millis(millis(&start)),
        end: TimeText::Millis(millis(&end)),
        users: users.clone(),
        classes: classes.clone(),
        reason: reason.clone(),
        force: flags.force,
        dry_run: false,
    };
    reserve(&client, request, flags, remote, &now).await
}

/// Plans a maintenance.
///
/// # Errors
///
/// If the daemon cannot be reached or refuses, or the caller declined the effects.
pub async fn maintain(args: &MaintenanceArgs) -> Result<(), Failure> {
    let MaintenanceArgs { nodes, times, reason, name, flags, remote } = args;
    let client = DaemonClient::new(remote)?;
    let now = Zoned::now();
    let (start, end) = resolved(times, &now)?;
    let nodes = spelled_out(&client, nodes).await?;
    let name = name.clone().unwrap_or_else(|| usual_name(&nodes, &start));
    let request = ReservationRequest {
        name,
        kind: ReservationKind::Maintenance,
        nodes,
        start: TimeText::Millis(millis(&start)),
        end: TimeText::Millis(millis(&end)),
        users: Vec::new(),
        classes: Vec::new(),
        reason: reason.clone(),
        force: flags.force,
        dry_run: false,
    };
    reserve(&client, request, flags, remote, &now).await
}

fn resolved(times: &WindowTimes, now: &Zoned) -> Result<(Zoned, Zoned), Failure> {
    times
        .resolve(now)
        .map_err(|error| Failure::new(FailureKind::Refused, format!("the time cannot be: {error}")))
}

/// Returns the name of a maintenance that was given none. The same nodes and start have the same
/// name, so that a repetition changes nothing.
fn usual_name(nodes: &[String], start: &Zoned) -> String {
    let first = nodes.first().and_then(|list| expand_hostlist(list).ok());
    let first = first.and_then(|names| names.into_iter().next()).unwrap_or_default();
    format!("m{}-{first}", start.strftime("%m%d-%H%M"))
}

/// Sends the request. The effects are shown first, and agreed to if there are any.
async fn reserve(
    client: &DaemonClient,
    request: ReservationRequest,
    flags: &WindowFlags,
    remote: &Remote,
    now: &Zoned,
) -> Result<(), Failure> {
    let path = &["v1", "reservations"];
    let render = |answer: &ReservationAnswer| render_answer(answer, now);
    if !flags.dry_run && !flags.yes {
        let preview = ReservationRequest { dry_run: true, ..request.clone() };
        let preview: ReservationAnswer = client.post(path, &preview).await?;
        let has_effects = !preview.in_the_way.is_empty()
            || !preview.starts_moved.is_empty()
            || 0 < preview.impact.shares_evicted;
        if preview.changed && has_effects {
            consent::ask(&preview, remote.json, render)?;
        }
    }
    let request = ReservationRequest { dry_run: flags.dry_run, ..request };
    let answer: ReservationAnswer = client.post(path, &request).await?;
    Ok(show(&answer, remote.json, render)?)
}

async fn delete(args: &ReservationDelete) -> Result<(), Failure> {
    let client = DaemonClient::new(&args.remote)?;
    let path = &["v1", "reservations", &args.reservation];
    let answer: ReservationDeletion = client.delete(path).await?;
    Ok(show(&answer, args.remote.json, |answer| {
        let name = plain(&answer.name);
        if answer.changed {
            return format!("{name} deleted: {} free of it", names(&answer.nodes));
        }
        let hint = answer.nearest.as_ref();
        let hint = hint.map(|near| format!(" (did you mean `{}`?)", plain(near)));
        format!("no reservation `{name}`{}; nothing to do", hint.unwrap_or_default())
    })?)
}

/// Reservations in lines.
#[derive(Debug, Serialize)]
struct ReservationTable {
    #[serde(flatten)]
    list: ReservationList,
    #[serde(skip)]
    now: Zoned,
}

impl ShownAnswer for ReservationTable {
    type Entry = ReservationInfo;

    fn entries(&self) -> &[ReservationInfo] {
        &self.list.reservations
    }

    fn name(reservation: &ReservationInfo) -> String {
        reservation.name.clone()
    }

    fn render(&self, look: TextStyle) -> String {
        if self.list.reservations.is_empty() {
            return "No reservation and no maintenance is planned. \
                    `apportion reservation create` plans one."
                .to_owned();
        }
        let columns = [
            Left("NAME"),
            Left("KIND"),
            Left("NODES"),
            Left("START"),
            Right("FOR"),
            Left("WHEN"),
            Left("USERS"),
            Left("CLASSES"),
            Left("WHY"),
        ];
        let rows = self.list.reservations.iter().map(|it| {
            [
                it.name.clone(),
                it.kind.word().to_owned(),
                names(&it.nodes),
                to_the_minute(it.start_ms, &self.now),
                span(it.end_ms.saturating_sub(it.start_ms)),
                when(it.start_ms, it.end_ms, &self.now),
                admitted(it.kind, &it.users),
                admitted(it.kind, &it.classes),
                it.reason.clone(),
            ]
        });
        fitted(columns, rows, look, &["CLASSES", "WHY", "FOR", "USERS"])
    }
}

/// A reservation in full.
#[derive(Debug)]
struct ReservationCard {
    reservation: [ReservationInfo; 1],
    now: Zoned,
}

impl Serialize for ReservationCard {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let [reservation] = &self.reservation;
        reservation.serialize(serializer)
    }
}

impl ShownAnswer for ReservationCard {
    type Entry = ReservationInfo;

    fn entries(&self) -> &[ReservationInfo] {
        &self.reservation
    }

    fn name(reservation: &ReservationInfo) -> String {
        reservation.name.clone()
    }

    fn render(&self, _: TextStyle) -> String {
        let [reservation] = &self.reservation;
        let when = when(reservation.start_ms, reservation.end_ms, &self.now);
        let mut lines =
            vec![format!("{} {}: {when}", reservation.kind.word(), plain(&reservation.name))];
        lines.extend(card(reservation, &self.now));
        lines.join("\n")
    }
}

/// Lines on nodes, times, users and reason.
fn card(reservation: &ReservationInfo, now: &Zoned) -> Vec<String> {
    let ReservationInfo { kind, nodes, start_ms, end_ms, users, classes, reason, .. } = reservation;
    let time = |ms: u64| format!("{} {}", local(ms, now), zone(ms, now));
    let length = span(end_ms.saturating_sub(*start_ms));
    let mut lines = vec![
        format!("nodes:    {}", names(nodes)),
        format!("start:    {}", time(*start_ms)),
        format!("end:      {}, {length} later", time(*end_ms)),
    ];
    if *kind == ReservationKind::Reservation {
        lines.push(format!("users:    {}", plain(&admitted(*kind, users))));
        lines.push(format!("classes:  {}", plain(&admitted(*kind, classes))));
    }
    if !reason.is_empty() {
        lines.push(format!("reason:   {}", plain(reason)));
    }
    lines
}

/// Users or classes that a reservation admits.
fn admitted(kind: ReservationKind, names: &[String]) -> String {
    match (kind, names) {
        (ReservationKind::Maintenance, _) => "none".to_owned(),
        (ReservationKind::Reservation, []) => "all".to_owned(),
        (ReservationKind::Reservation, names) => names.join(","),
    }
}

/// Time until the start or the end: "in 2h", "open for another 40m".
fn when(start_ms: u64, end_ms: u64, now: &Zoned) -> String {
    let now = millis(now);
    if now < start_ms {
        format!("in {}", span(start_ms - now))
    } else if now < end_ms {
        format!("open for another {}", span(end_ms - now))
    } else {
        "over".to_owned()
    }
}

/// Line on the next reservation or maintenance of a node.
pub(super) fn next_window_line(node: &NodeInfo) -> Option<String> {
    let next = node.next_window.as_ref()?;
    let now = Zoned::now();
    Some(format!(
        "window:   {} {}, {} for {} ({})",
        next.kind.word(),
        plain(&next.name),
        local(next.start_ms, &now),
        span(next.end_ms.saturating_sub(next.start_ms)),
        when(next.start_ms, next.end_ms, &now)
    ))
}

fn render_answer(answer: &ReservationAnswer, now: &Zoned) -> String {
    let ReservationAnswer { reservation, changed, dry_run, in_the_way, impact, .. } = answer;
    let done = match (changed, dry_run) {
        (false, _) => "is there already; nothing to do",
        (true, true) => "would be created",
        (true, false) => "created",
    };
    let when = when(reservation.start_ms, reservation.end_ms, now);
    let mut lines =
        vec![format!("{} {} {done}: {when}", reservation.kind.word(), plain(&reservation.name))];
    lines.extend(card(reservation, now));
    if !changed {
        return lines.join("\n");
    }
    // The table below shows what stays.
    let impact = Impact { kept: 0, ..impact.clone() };
    lines.extend(render_impact(&impact, *dry_run, false));
    if reservation.kind == ReservationKind::Maintenance && impact.shares_evicted == 0 {
        lines.push("fair-share work on the nodes is evicted shortly before the start".to_owned());
    }
    if !in_the_way.is_empty() {
        let stays = if in_the_way.len() == 1 { "stays" } else { "stay" };
        let shares = counted(count(in_the_way), "share");
        lines.push(format!("{shares} of work that is never preempted {stays}:"));
        lines.push(render_in_the_way(in_the_way, now));
    }
    lines.extend(render_starts(answer, now));
    lines.join("\n")
}

fn render_in_the_way(in_the_way: &[WorkInTheWay], now: &Zoned) -> String {
    let columns = [Left("NODE"), Right("JOB"), Left("USER"), Left("EXPECTED END")];
    let rows = in_the_way.iter().map(|work| {
        let end = work.end_ms.map_or_else(|| "not known".to_owned(), |end| local(end, now));
        [work.node.clone(), work.job.to_string(), work.user.clone(), end]
    });
    table(columns, rows)
}

/// Lines on the jobs that start at another time.
fn render_starts(answer: &ReservationAnswer, now: &Zoned) -> Vec<String> {
    let ReservationAnswer { dry_run, starts_moved, more_starts_moved, .. } = answer;
    if starts_moved.is_empty() {
        return Vec::new();
    }
    let jobs = counted(count(starts_moved) + more_starts_moved, "job");
    let moves = match (count(starts_moved) + more_starts_moved, dry_run) {
        (_, true) => "would start",
        (1, false) => "starts",
        (_, false) => "start",
    };
    let time = |ms: Option<u64>| ms.map_or_else(|| "not known".to_owned(), |ms| local(ms, now));
    let columns = [Right("JOB"), Left("USER"), Left("START BEFORE"), Left("START AFTER")];
    let rows = starts_moved.iter().map(|start| {
        [start.job.to_string(), start.user.clone(), time(start.before_ms), time(start.after_ms)]
    });
    let narrow = TextStyle { width: Some(80), ..TextStyle::default() };
    let mut lines =
        vec![format!("{jobs} {moves} at another time:"), fitted(columns, rows, narrow, &["USER"])];
    if 0 < *more_starts_moved {
        lines.push(format!("and {more_starts_moved} more"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::wire::StartMove;
    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    const HOUR: u64 = 3_600_000;

    fn now() -> Zoned {
        let time: Timestamp = "2026-11-26T14:30:00Z".parse().unwrap();
        time.to_zoned(TimeZone::posix("CET-1").unwrap())
    }

    fn reservation(name: &str, kind: ReservationKind, from: u64, hours: u64) -> ReservationInfo {
        ReservationInfo {
            name: name.to_owned(),
            kind,
            nodes: ["n1", "n2", "n3", "n4"].map(str::to_owned).to_vec(),
            start_ms: from,
            end_ms: from + hours * HOUR,
            users: Vec::new(),
            classes: Vec::new(),
            reason: String::new(),
        }
    }

    fn both() -> Vec<ReservationInfo> {
        let now = millis(&now());
        let open =
            reservation("m1", ReservationKind::Maintenance, now - HOUR - HOUR.div_euclid(3), 2);
        let ahead = reservation("r1", ReservationKind::Reservation, now + 100 * HOUR, 2);
        let users = ["cyd", "dan"].map(str::to_owned).to_vec();
        vec![
            ReservationInfo { reason: "new disks".to_owned(), ..open },
            ReservationInfo { users, ..ahead },
        ]
    }

    #[test]
    fn a_list_fits_into_eighty_columns() {
        let list = ReservationList { cycle: 7, reservations: both() };
        let answer = ReservationTable { list, now: now() };
        let narrow = TextStyle { width: Some(80), ..TextStyle::default() };
        let text = answer.render(narrow);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!("reservations_in_80_columns", text);
        insta::assert_snapshot!("reservations_wide", answer.render(TextStyle::default()));
    }

    #[test]
    fn a_card_and_an_answer_are_told_in_words() {
        let [open, ahead] = <[ReservationInfo; 2]>::try_from(both()).unwrap();
        let card = ReservationCard { reservation: [open], now: now() };
        insta::assert_snapshot!("maintenance_card", card.render(TextStyle::default()));
        let work = |job, end_ms| WorkInTheWay {
            job,
            share: job,
            user: "ann".to_owned(),
            node: "n1".to_owned(),
            end_ms,
        };
        let (start, end) = (ahead.start_ms, ahead.end_ms);
        let moved = |job, before: Option<u64>| StartMove {
            job,
            user: "dan".to_owned(),
            before_ms: before.map(|length| start + length),
            after_ms: Some(end),
        };
        let answer = ReservationAnswer {
            in_the_way: vec![work(7, None), work(8, Some(start + HOUR))],
            reservation: ahead,
            changed: true,
            dry_run: true,
            impact: Impact::default(),
            starts_moved: vec![moved(11, Some(HOUR)), moved(12, None)],
            more_starts_moved: 3,
        };
        let text = render_answer(&answer, &now());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!("reservation_with_work_in_the_way", text);
        let again = ReservationAnswer { changed: false, ..answer };
        assert!(render_answer(&again, &now()).contains("is there already; nothing to do"));
    }

    #[test]
    fn a_maintenance_without_a_name_has_the_same_each_time() {
        let nodes = ["n[1-4]".to_owned()];
        assert_eq!(usual_name(&nodes, &now()), "m1126-1530-n1");
    }
}
