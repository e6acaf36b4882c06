//! Page of a single job: the reason for its size, the nodes of its processes, and its history.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Dashboard;
use super::frame::{Ask, Nothing, Page, PageError};
use super::palette::OTHERS;
use super::past::{JobCourse, JobMoment};
use super::words::{self, memory, number};
use crate::api::http::extract::PathPart;
use crate::api::wire::{self, JobInfo, PreemptionInfo, ShareInfo, ShareState, Why};
use crate::model::{JobId, span};
use crate::scheduler::JobView;

/// Shares and preemptions listed singly.
const SHOWN: usize = 200;

#[derive(Template)]
#[template(path = "job.html")]
struct LiveJob {
    id: u64,
    colour: usize,
    info: JobInfo,
    submitted: String,
    why: Why,
    cure: Vec<(&'static str, String)>,
    facts: Vec<(&'static str, String)>,
    accounts: Vec<AccountLine>,
    tally: Vec<(u64, u64, &'static str)>,
    held_back: Option<String>,
    shares: Vec<JobShareLine>,
    shares_more: usize,
    taken: Vec<(&'static str, Vec<TakenLine>)>,
    moments: Vec<MomentLine>,
}

struct AccountLine {
    what: &'static str,
    name: String,
    link: String,
    demand: String,
    fair_share: String,
    target: String,
    held: String,
}

struct JobShareLine {
    share: u64,
    rank: String,
    node: String,
    memory: String,
    state: String,
    invested: String,
}

struct TakenLine {
    share: u64,
    job: u64,
    node: String,
    beneficiary: Option<u64>,
    rule: String,
    lost: String,
    sentence: String,
}

/// A moment, and how many processes came or went with it.
pub(super) struct MomentLine {
    pub at_ms: i64,
    pub at: String,
    pub cycle: u64,
    pub held: u64,
    pub demand: u64,
    pub change: String,
    pub reason: &'static str,
}

#[derive(Template)]
#[template(path = "job_over.html")]
struct Over {
    id: u64,
    user: String,
    cycle: u64,
    moments: Vec<MomentLine>,
}

/// The page.
pub(super) async fn page(
    State(dashboard): State<Dashboard>,
    PathPart(id): PathPart<String>,
    ask: Ask,
) -> Result<Response, PageError> {
    let published = dashboard.seen(&ask);
    let view = &published.view;
    let number = id.parse().ok().map(JobId);
    let job = view.jobs.iter().find(|job| Some(job.id) == number);
    let palette = dashboard.palette(view, &ask);
    let colour = job.map_or(OTHERS, |job| palette.colour(&job.user));
    let course = number.and_then(|id| dashboard.past.notes().course(id).cloned());
    let title = format!("Job {}", number.map_or_else(|| id.clone(), |id| id.to_string()));
    let Some(job) = job else {
        // Notes of an ended job describe the present, so a page of the past leaves them out.
        let course = course.filter(|_| ask.past().is_none());
        let Some((course, id)) = course.zip(number) else {
            let sentence = format!(
                "There is no such job as of cycle {}: it is over, or not published yet. A job that is over is in earlier \
                 cycles: choose one above.",
                view.cycle
            );
            return Err(PageError::Missing { title, sentence });
        };
        let live = Over {
            id: id.0,
            user: course.user.to_string(),
            cycle: course.over_since.unwrap_or(view.cycle),
            moments: moments(&course, i64::MAX),
        };
        return Page { title: &title, section: "/jobs", head: Nothing, live }.answer(&ask);
    };
    let info = JobInfo::of(job, view.cycle);
    let why = crate::api::why(view, job, &crate::api::CivilTime::of(&published));
    let moments = course.map(|course| moments(&course, ask.until_ms())).unwrap_or_default();
    let live = live(job, info, why, colour, moments);
    Page { title: &title, section: "/jobs", head: Nothing, live }.answer(&ask)
}

fn live(
    job: &JobView,
    info: JobInfo,
    why: Why,
    colour: usize,
    moments: Vec<MomentLine>,
) -> LiveJob {
    let taken = |title, taken: &[PreemptionInfo]| {
        (title, taken.iter().take(SHOWN).map(taken_line).collect())
    };
    LiveJob {
        id: job.id.0,
        colour,
        cure: cure(&why),
        facts: facts(&info, why.sums.savings.as_ref()),
        accounts: accounts(&why, job),
        tally: tally(&why.nodes),
        held_back: why.held_back.as_ref().map(|held_back| held_back.sentence.clone()),
        shares: info.shares.iter().take(SHOWN).map(share_line).collect(),
        shares_more: info.shares.len().saturating_sub(SHOWN),
        taken: vec![
            taken("Taken from others for it in the last cycle", &why.taken_for_it),
            taken("Taken from it in the last cycle", &why.taken_from_it),
        ],
        moments,
        submitted: words::time(i64::try_from(info.submitted_ms).unwrap_or(i64::MAX)),
        info,
        why,
    }
}

/// Returns remedy, time and limit for a job that wants more; empty if the job has all it wants.
fn cure(why: &Why) -> Vec<(&'static str, String)> {
    let Some(unblock) = &why.unblock else { return Vec::new() };
    let first = if unblock.needs_a_change { "Needs" } else { "Until" };
    let mut cure = vec![(first, unblock.sentence.clone())];
    if let Some(estimate) = &unblock.estimate {
        let when = match estimate.in_ms {
            0 => estimate.basis.clone(),
            in_ms => format!("in about {}: {}", span(in_ms), estimate.basis),
        };
        cure.push(("When", when));
    }
    cure.push(("Held by", why.sums.bound.sentence.clone()));
    if !why.holders.is_empty() {
        let told = why.holders.iter().map(|holder| {
            let done = holder.done_in_ms.map(|ms| format!(", done in {}", span(ms)));
            let amount = why.sums.quantum_mb.map_or_else(
                || words::counted(holder.qshares, "qshare"),
                |quantum| memory(holder.qshares.saturating_mul(quantum)),
            );
            let done = done.unwrap_or_default();
            format!("job {} of {} ({}) {amount}{done}", holder.job, holder.user, holder.class)
        });
        cure.push(("Most is with", told.collect::<Vec<_>>().join("; ")));
    }
    cure
}

fn facts(info: &JobInfo, savings: Option<&wire::GangSavings>) -> Vec<(&'static str, String)> {
    let cap = match (info.sums.cap, &info.sums.cap_bound) {
        (Some(cap), Some(bound)) => format!("{}: {}", number(cap), bound.sentence),
        (Some(cap), None) => number(cap),
        (None, _) => "not yet counted".to_owned(),
    };
    let order = info
        .order
        .map_or_else(String::new, |order| format!(" ({})", words::counted(order, "qshare")));
    let shape = Some(info.shape().words()).filter(|words| !words.is_empty());
    let facts = vec![
        ("Kind", info.kind.word().to_owned()),
        ("State", info.state().to_owned()),
        ("Memory of a process", format!("{}{order}", memory(info.memory_mb))),
        ("Work items left", number(info.remaining)),
        ("Threads of a process", number(info.threads)),
        ("At most now", cap),
        ("Space promised for", words::counted(info.sums.promised, "process")),
        ("Behind what was counted", words::counted(info.sums.behind_cycles, "cycle")),
    ];
    let time = |ms: Option<u64>| ms.and_then(|ms| i64::try_from(ms).ok()).map(words::time);
    let ready =
        info.ready.map(|ready| format!("{} of {} processes", number(ready), info.sums.held));
    let asked = [
        ("Asks for", shape),
        ("Ready", ready),
        ("Starts not before", time(info.not_before_ms)),
        ("Deadline", time(info.deadline_ms)),
        ("Expected start", time(info.start_estimate_ms)),
        ("In the reservation", info.reservation.clone()),
        ("Saved for gangs", savings.map(wire::GangSavings::words)),
    ];
    let asked = asked.into_iter().filter_map(|(name, value)| Some((name, value?)));
    asked.chain(facts).collect()
}

/// The arithmetic from the class down, in memory.
fn accounts(why: &Why, job: &JobView) -> Vec<AccountLine> {
    let quantum = job.quantum.map_or(0, |quantum| quantum.memory().0);
    // Jobs outside fair share have no fair share, which the page must not present as zero.
    let is_fair = why.sums.policy == Some(wire::Policy::FairShare);
    let line = |what, name: &str, link, demand: u64, fair_share: u64, target: u64, held: u64| {
        let [demand, due, target, held] =
            [demand, fair_share, target, held].map(|amount| memory(amount.saturating_mul(quantum)));
        let fair_share = if is_fair { due } else { "–".to_owned() };
        AccountLine { what, name: name.to_owned(), link, demand, fair_share, target, held }
    };
    let of = |what, name: &str, link, account: &wire::Account| {
        line(what, name, link, account.wanted, account.deserved, account.given, account.held)
    };
    let sums = &why.sums;
    let class = sums.class_account.as_ref().map(|account| {
        of("class", &sums.class, super::frame::link("/classes/", &sums.class), account)
    });
    let user = sums
        .user_account
        .as_ref()
        .map(|account| of("user", &sums.user, super::frame::link("/users/", &sums.user), account));
    let of_job = sums.job_account.as_ref();
    let of_job = of_job.map(|account| of("job", &job.id.to_string(), String::new(), account));
    class.into_iter().chain(user).chain(of_job).collect()
}

/// Counts nodes by the obstacle to a further process: number, part in percent, and words.
fn tally(nodes: &wire::NodeTally) -> Vec<(u64, u64, &'static str)> {
    let lines = [
        (nodes.has_room, "have space for a process"),
        (nodes.being_cleared, "being cleared for it"),
        (nodes.promised, "kept for others"),
        (nodes.kept_for_gang, "kept for an older gang"),
        (nodes.full, "too little space left"),
        (nodes.too_small, "smaller than one process"),
        (nodes.other_set, "in a placement set too small for it"),
        (nodes.lacks_tags, "lack tags that it asks for"),
        (nodes.not_asked_for, "not asked for"),
        (nodes.other_pool, "in a pool its class may not use"),
        (nodes.varied_off, "taken out by an administrator"),
        (nodes.dead, "silent"),
        (nodes.quiesced, "want no new work"),
        (nodes.blacklisted, "hold what configuration forbids"),
        (nodes.awaited, "no heartbeat since the start"),
        (nodes.maintenance, "in maintenance, or soon"),
        (nodes.window, "kept by a window"),
    ];
    let lines = lines.into_iter().filter(|(count, _)| *count != 0);
    lines.map(|(count, words)| (count, words::percent(count, nodes.total), words)).collect()
}

fn share_line(share: &ShareInfo) -> JobShareLine {
    let state = match (share.state, share.initialized, share.seen) {
        (ShareState::Leaving, ..) => {
            let why = share.removal.map(|removal| match removal {
                wire::RemovalReason::Preempted => "preempted",
                wire::RemovalReason::VariedOff => "its node was varied off",
                wire::RemovalReason::Blacklisted => "no longer allowed there",
                wire::RemovalReason::NodeDied => "its node died",
                wire::RemovalReason::Withdrawn => "withdrawn: the node is full",
                wire::RemovalReason::Window => "maintenance of its node",
                wire::RemovalReason::ClassClosed => "its class closes",
                wire::RemovalReason::Overrun => "it ran longer than it declared",
                wire::RemovalReason::GangBroken => "another process of its gang was lost",
            });
            format!("leaving: {}", why.unwrap_or("evicted"))
        }
        (ShareState::Held, true, _) => "running".to_owned(),
        (ShareState::Held, false, true) => "initializing".to_owned(),
        (ShareState::Held, false, false) => "assigned".to_owned(),
    };
    JobShareLine {
        share: share.share,
        rank: share.rank.map(|rank| rank.to_string()).unwrap_or_default(),
        node: share.node.clone(),
        memory: memory(share.memory_mb),
        state,
        invested: span(share.investment_ms),
    }
}

fn taken_line(taken: &PreemptionInfo) -> TakenLine {
    TakenLine {
        share: taken.share,
        job: taken.job,
        node: taken.node.clone(),
        beneficiary: taken.beneficiary,
        rule: taken.rule.code().replace('_', " "),
        lost: span(taken.loss_ms),
        sentence: taken.sentence.clone(),
    }
}

/// Returns the moments up to `until`, the latest first.
fn moments(course: &JobCourse, until: i64) -> Vec<MomentLine> {
    let before = std::iter::once(None).chain(course.moments.iter().map(Some));
    let line = |(moment, before): (&JobMoment, Option<&JobMoment>)| {
        let held = before.map_or(0, |before| before.held);
        let change = match held.cmp(&moment.held) {
            std::cmp::Ordering::Less => format!("+{}", moment.held - held),
            std::cmp::Ordering::Greater => format!("−{}", held - moment.held),
            std::cmp::Ordering::Equal => String::new(),
        };
        MomentLine {
            at_ms: moment.at_ms,
            at: words::time(moment.at_ms),
            cycle: moment.cycle,
            held: moment.held,
            demand: moment.demand,
            change,
            reason: moment.reason,
        }
    };
    let moments = course.moments.iter().zip(before).filter(|(moment, _)| moment.at_ms <= until);
    let mut lines: Vec<MomentLine> = moments.map(line).collect();
    lines.reverse();
    lines
}
