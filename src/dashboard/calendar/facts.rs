//! Facts of the calendar, from what is published.

use std::num::NonZeroU64;

use crate::api::Published;
use crate::api::hours::{CivilTime, HoursNow};
use crate::api::reservations::all_of as all_reservations;
use crate::api::wire::{ReservationInfo, ReservationKind};
use crate::dashboard::frame::link;
use crate::dashboard::words::{counted, memory};
use crate::model::{
    Millis, Name, ResourceClass, SharePhase, count, floor_div, fold_hostlist, span,
};
use crate::scheduler::{JobView, View};

/// Shortest time by which the planner moves the expected end of work that runs longer than
/// declared.
const LEAST_OVERRUN: Millis = 60_000;

/// A minute: words leave out seconds beyond that.
const MINUTE: Millis = 60_000;

/// Part of the declared length by which the planner moves such an end.
const OVERRUN_PART: NonZeroU64 = NonZeroU64::new(10).expect("not zero");

/// All facts on the page, and work that it cannot place.
pub(super) struct CalendarFacts {
    /// Facts by kind.
    pub facts: Vec<CalendarFact>,
    /// Waiting gangs without an expected start.
    pub without_estimate: u64,
    /// Running jobs that are never preempted and have no known length.
    pub without_end: u64,
}

/// Kind of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FactKind {
    Reservation,
    Maintenance,
    Hours,
    Running,
    /// Work that runs longer than it declared.
    Overrun,
    Waiting,
}

impl FactKind {
    /// The first kind of each group, in the order of the page.
    pub const GROUPS: [FactKind; 4] =
        [FactKind::Reservation, FactKind::Hours, FactKind::Running, FactKind::Waiting];

    /// The kind that names the group.
    pub fn group(self) -> FactKind {
        match self {
            FactKind::Reservation | FactKind::Maintenance => FactKind::Reservation,
            FactKind::Running | FactKind::Overrun => FactKind::Running,
            FactKind::Hours | FactKind::Waiting => self,
        }
    }

    /// Title of the group.
    pub fn title(self) -> &'static str {
        match self.group() {
            FactKind::Reservation | FactKind::Maintenance => "Reservations and maintenances",
            FactKind::Hours => "Classes with hours",
            FactKind::Running | FactKind::Overrun => "Running work, by its expected end",
            FactKind::Waiting => "Waiting gangs, by their expected start",
        }
    }

    /// Place of lanes that are left out, against the lanes of the picture.
    pub fn rest(self) -> &'static str {
        match self.group() {
            FactKind::Reservation | FactKind::Maintenance => "later",
            FactKind::Hours => "in the table below",
            FactKind::Running | FactKind::Overrun => "with a later end",
            FactKind::Waiting => "with a later start",
        }
    }

    /// Kind in the table.
    pub fn word(self) -> &'static str {
        match self {
            FactKind::Reservation => "reservation",
            FactKind::Maintenance => "maintenance",
            FactKind::Hours => "class is open",
            FactKind::Running => "running work",
            FactKind::Overrun => "running longer than declared",
            FactKind::Waiting => "waiting gang",
        }
    }

    /// Class of its bars in the style sheet.
    pub fn look(self) -> &'static str {
        match self {
            FactKind::Reservation => "c-reserved",
            FactKind::Maintenance => "c-maintained",
            FactKind::Hours => "c-open",
            FactKind::Running => "c-runs",
            FactKind::Overrun => "c-late",
            FactKind::Waiting => "c-waits",
        }
    }
}

/// A span of time; without an end if none is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FactSpan {
    pub from: Millis,
    pub to: Option<Millis>,
}

impl FactSpan {
    /// Length of the span.
    pub fn length(self) -> Option<Millis> {
        self.to.map(|to| to.saturating_sub(self.from))
    }
}

/// A lane of the picture, and a row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CalendarFact {
    pub kind: FactKind,
    pub name: String,
    pub link: String,
    /// User of a job; empty for other facts.
    pub user: Name,
    /// Spans, ascending. Only hours of classes have several.
    pub spans: Vec<FactSpan>,
    /// Memory of a job's processes, in MiB.
    pub memory_mb: u64,
    pub detail: String,
    /// Present state in words; empty: the spans say it.
    pub state: String,
}

impl CalendarFact {
    /// Starts and ends; of running work, ends.
    pub fn edges(&self) -> impl Iterator<Item = Millis> {
        let has_started = self.kind.group() == FactKind::Running;
        let edges = move |span: &FactSpan| [(!has_started).then_some(span.from), span.to];
        self.spans.iter().flat_map(edges).flatten()
    }

    /// The first start or end after `now`. Facts without come last.
    pub fn next_edge(&self, now: Millis) -> Millis {
        self.edges().filter(|edge| now < *edge).min().unwrap_or(Millis::MAX)
    }

    /// The fact in words, against `now`: "begins in 2h, for 1h".
    pub fn words(&self, now: Millis) -> String {
        let minutes = |time: Millis| span(if time < MINUTE { time } else { time - time % MINUTE });
        if !self.state.is_empty() {
            return self.state.clone();
        }
        let Some(first) = self.spans.first() else { return String::new() };
        // The page counts from the start of a minute, so work may have started after that.
        let is_running = self.kind.group() == FactKind::Running;
        let begins = if self.kind == FactKind::Waiting { "starts" } else { "begins" };
        let length = first.length().map(|length| format!(", for {}", span(length)));
        let length = length.unwrap_or_default();
        match (first.from.checked_sub(now), first.to) {
            (Some(wait), _) if 0 < wait && !is_running => {
                format!("{begins} in {}{length}", minutes(wait))
            }
            (_, _) if self.kind == FactKind::Waiting => format!("starts at any moment{length}"),
            (_, Some(end)) if now < end => format!("ends in {}", minutes(end - now)),
            (_, Some(_)) => "ends at any moment".to_owned(),
            (_, None) => "end not known".to_owned(),
        }
    }
}

/// Collects the facts at `now`.
pub(super) fn all_of(published: &Published, now: Millis) -> CalendarFacts {
    let view = &published.view;
    let windows = all_reservations(view).reservations.into_iter();
    let mut facts: Vec<CalendarFact> = windows.map(window).collect();
    facts.extend(hours(published, now));
    let (mut without_estimate, mut without_end) = (0, 0);
    for job in view.jobs.iter() {
        let Some(class) = view.topology.classes.iter().find(|class| class.name == job.class) else {
            continue;
        };
        match (running(job, class, now), waiting(job, class)) {
            (JobPlace::Placed(fact), _) | (_, JobPlace::Placed(fact)) => facts.push(*fact),
            (JobPlace::Unknown, _) => without_end += 1,
            (_, JobPlace::Unknown) => without_estimate += 1,
            (JobPlace::Absent, JobPlace::Absent) => {}
        }
    }
    CalendarFacts { facts, without_estimate, without_end }
}

/// Place of a job in the calendar.
enum JobPlace {
    /// The job has no part in the calendar.
    Absent,
    /// The job would have a place if more of it was known.
    Unknown,
    /// The place of the job.
    Placed(Box<CalendarFact>),
}

fn window(reservation: ReservationInfo) -> CalendarFact {
    let ReservationInfo { name, kind, nodes, start_ms, end_ms, users, reason, .. } = reservation;
    let nodes = fold_hostlist(nodes.iter().map(String::as_str));
    let users = if users.is_empty() { String::new() } else { format!("for {}", users.join(", ")) };
    let parts = [nodes, users, reason].into_iter().filter(|part| !part.is_empty());
    CalendarFact {
        kind: match kind {
            ReservationKind::Reservation => FactKind::Reservation,
            ReservationKind::Maintenance => FactKind::Maintenance,
        },
        link: format!("/reservations#reservation-{name}"),
        name,
        user: Name::from(""),
        spans: vec![FactSpan { from: start_ms, to: Some(end_ms) }],
        memory_mb: 0,
        detail: parts.collect::<Vec<_>>().join("; "),
        state: String::new(),
    }
}

/// Hours of all classes that are not always open, in the order of the configuration.
fn hours(published: &Published, now: Millis) -> Vec<CalendarFact> {
    let view: &View = &published.view;
    let time = CivilTime { now, ..CivilTime::of(published) };
    let fact = |class: &ResourceClass| {
        let spans = view.hours.get(&class.name)?;
        let HoursNow { is_open, next_change } = HoursNow::of(view, &class.name, now);
        let spans = spans.iter().filter(|(_, close)| now < *close);
        Some(CalendarFact {
            kind: FactKind::Hours,
            name: class.name.to_string(),
            link: link("/classes/", &class.name),
            user: Name::from(""),
            spans: spans.map(|&(from, to)| FactSpan { from, to: Some(to) }).collect(),
            memory_mb: 0,
            detail: published.calendar.text(&class.name).unwrap_or_default(),
            state: time.state(is_open, next_change),
        })
    };
    view.topology.classes.iter().filter_map(fact).collect()
}

/// Declared or configured length of a job.
fn length_of(job: &JobView, class: &ResourceClass) -> Option<Millis> {
    class.gangs.duration(job.shape.as_deref().and_then(|shape| shape.duration))
}

/// Work that runs and is never preempted: only such work has an end that others wait for.
fn running(job: &JobView, class: &ResourceClass, now: Millis) -> JobPlace {
    let held = || job.shares.iter().filter(|share| share.state == SharePhase::Held);
    let processes = count(held());
    if processes == 0 || class.policy.is_preemptable() {
        return JobPlace::Absent;
    }
    let Some((started, length)) = job.started.zip(length_of(job, class)) else {
        return JobPlace::Unknown;
    };
    let end = started.saturating_add(length);
    let is_late = end <= now;
    let more = LEAST_OVERRUN.max(floor_div(length, OVERRUN_PART));
    let memory_mb = held().map(|share| share.memory.0).sum();
    JobPlace::Placed(Box::new(CalendarFact {
        kind: if is_late { FactKind::Overrun } else { FactKind::Running },
        spans: vec![FactSpan { from: started, to: Some(if is_late { now + more } else { end }) }],
        detail: format!(
            "{} of {} in class {}, {}",
            counted(processes, "process"),
            job.user,
            job.class,
            memory(memory_mb)
        ),
        state: match now - end.min(now) {
            _ if !is_late => String::new(),
            0 => format!("declared {}, which is over", span(length)),
            late => format!("declared {}, runs {} longer", span(length), span(late)),
        },
        memory_mb,
        ..of_job(job)
    }))
}

/// A gang that waits, at its expected start.
fn waiting(job: &JobView, class: &ResourceClass) -> JobPlace {
    let Some(shape) = job.shape.as_deref().filter(|shape| shape.is_gang()) else {
        return JobPlace::Absent;
    };
    if job.order.is_none() || !job.shares.is_empty() {
        return JobPlace::Absent;
    }
    let Some(estimate) = job.start_estimate else { return JobPlace::Unknown };
    let to = length_of(job, class).map(|length| estimate.at.saturating_add(length));
    let sizes = shape.chunks.iter().map(|chunk| chunk.memory.0.saturating_mul(chunk.count));
    JobPlace::Placed(Box::new(CalendarFact {
        kind: FactKind::Waiting,
        spans: vec![FactSpan { from: estimate.at, to }],
        memory_mb: sizes.fold(0, u64::saturating_add),
        detail: format!("{} of {} in class {}", shape.chunk_words(), job.user, job.class),
        ..of_job(job)
    }))
}

/// The parts that are the same for all jobs.
fn of_job(job: &JobView) -> CalendarFact {
    CalendarFact {
        kind: FactKind::Running,
        name: format!("job {}", job.id),
        link: link("/jobs/", &job.id.to_string()),
        user: job.user.clone(),
        spans: Vec::new(),
        memory_mb: 0,
        detail: String::new(),
        state: String::new(),
    }
}
