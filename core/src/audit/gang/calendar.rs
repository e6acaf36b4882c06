//! Checks of time: no work that stays is in a window that is not its own, no gang starts later for
//! the sake of younger work, and work that can be preempted leaves in time.
//!
//! Time is recounted node by node, from the shares and the declared lengths.

use std::collections::{BTreeMap, BTreeSet};

use super::claims::precedes;
use super::crew::GangLine;
use super::fit::{Fit, GangParts};
use super::sets::fit_in_sets;
use super::spaces::without;
use crate::audit::cap::{closed_classes, is_early, is_overrun};
use crate::audit::finding::{Finding, Rule};
use crate::audit::ledger::Ledger;
use crate::audit::lines::JobLine;
use crate::audit::shapes::{is_chosen, wish};
use crate::engine::{Job, NodeWindow, Snapshot, VictimRule};
use crate::model::{
    ClassIx, ClassPolicy, JobId, JobIx, Millis, NodeIx, PoolIx, Precedence, SharePhase, WindowKind,
};

/// Most steps of the check. Beyond that the check stops without findings.
const STEPS: u64 = 6_000_000;

/// A moment that never comes.
const NEVER: Millis = Millis::MAX;

impl Ledger<'_> {
    /// Longest run of the job at `place`; `None` if it is not known.
    fn length(&self, place: JobIx) -> Option<Millis> {
        let line = &self.jobs[place];
        let declared = line.job.shape.as_deref().and_then(|shape| shape.duration);
        line.class.gangs.duration(declared)
    }

    /// End of the job at `place` if it starts at `from`.
    pub(super) fn end(&self, place: JobIx, from: Millis) -> Millis {
        self.length(place).map_or(NEVER, |length| from.saturating_add(length))
    }

    /// True if a window keeps work of the job at `place` from node `ix` in a part of that time.
    pub(super) fn is_kept_from(&self, place: JobIx, ix: NodeIx, from: Millis, to: Millis) -> bool {
        let line = &self.jobs[place];
        let user = &self.snapshot.users[line.job.user];
        let named = line.job.shape.as_deref().and_then(|shape| shape.reservation.as_ref());
        let there = self.snapshot.windows.iter().filter(|it| it.nodes.binary_search(&ix).is_ok());
        let is_own = |it: &&NodeWindow| {
            let window = &it.window;
            named == Some(&window.name)
                && window.admits(user, &line.class.name)
                && window.from <= from
                && to <= window.to
        };
        match named {
            Some(_) => !there.clone().any(|it| is_own(&it)),
            None => there.clone().any(|it| it.window.from < to && from < it.window.to),
        }
    }

    /// True if no span of `class` holds all of the time from `from` until `to`.
    fn closes(&self, class: ClassIx, from: Millis, to: Millis) -> bool {
        let holds = |(open, close): &(Millis, Millis)| *open <= from && to <= *close;
        self.snapshot.hours.get(&class).is_some_and(|spans| !spans.iter().any(holds))
    }

    /// True if the job at `place` may not start now by what its owner or a window says, wherever
    /// it is.
    pub(super) fn is_untimely(&self, place: JobIx) -> bool {
        let Some(now) = self.snapshot.now else { return false };
        let shape = self.jobs[place].job.shape.as_deref();
        let end = self.end(place, now);
        let line = &self.jobs[place];
        let closes = !line.is_fair_share() && self.closes(line.job.class, now, end);
        closes
            || shape.is_some_and(|shape| {
                shape.not_before.is_some_and(|moment| now < moment)
                    || shape.deadline.is_some_and(|deadline| deadline < end)
            })
    }

    /// The nodes that a window keeps from the job at `place`, if it starts now.
    pub(super) fn nodes_kept_from(&self, place: JobIx) -> BTreeSet<NodeIx> {
        let Some(now) = self.snapshot.now else { return BTreeSet::new() };
        let named =
            self.jobs[place].job.shape.as_deref().is_some_and(|it| it.reservation.is_some());
        if self.snapshot.windows.is_empty() && !named {
            return BTreeSet::new();
        }
        let end = self.end(place, now);
        let nodes = self.snapshot.nodes_with_ix().map(|(ix, _)| ix);
        nodes.filter(|ix| self.is_kept_from(place, *ix, now, end)).collect()
    }
}

/// Precedence of `job`: work that stays and may use an advance reservation comes before all other
/// work.
pub(in crate::audit) fn precedence(snapshot: &Snapshot, job: &Job) -> Precedence {
    let class = snapshot.class_of(job);
    let named = job.shape.as_deref().and_then(|shape| shape.reservation.as_ref());
    let is_own = |it: &NodeWindow| {
        named == Some(&it.window.name) && it.window.admits(&snapshot.users[job.user], &class.name)
    };
    if !class.policy.is_preemptable() && snapshot.windows.iter().any(is_own) {
        return Precedence::Reserved;
    }
    Precedence::Priority(class.priority)
}

/// Work that stays starts on a node only if it ends before the next window there, and in a window
/// only if it is its own.
pub(in crate::audit) fn check_windows(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let Some(now) = ledger.snapshot.now else { return };
    for new in &ledger.schedule.expansions {
        let Some(place) = ledger.place(new.job) else { continue };
        let end = ledger.end(place, now);
        let class = ledger.jobs[place].job.class;
        let is_kept = ledger.is_kept_from(place, new.node, now, end);
        if !ledger.jobs[place].is_fair_share() && (is_kept || ledger.closes(class, now, end)) {
            let name = &ledger.snapshot.node(new.node).name;
            let detail =
                format!("job {} starts on node {name}, and a window is in its way", new.job);
            findings.push(Rule::InWindow.finding(detail));
        }
    }
}

/// Work that can be preempted is off nodes in maintenance from the notice on, and no sooner.
pub(in crate::audit) fn check_notice(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let now = ledger.snapshot.now.unwrap_or(0);
    let notice = ledger.snapshot.topology.settings.notice;
    let mut closed: BTreeSet<NodeIx> = BTreeSet::new();
    for window in ledger.snapshot.windows.iter() {
        let kind = window.window.kind;
        let is_near = window.window.from <= now.saturating_add(notice) && now < window.window.to;
        if kind == WindowKind::Maintenance && is_near {
            closed.extend(&window.nodes);
        }
    }
    // The reservation of a job, from its notice on.
    let is_near = |line: &JobLine<'_>| {
        let named = line.job.shape.as_deref().and_then(|shape| shape.reservation.as_ref());
        let mut windows = ledger.snapshot.windows.iter().map(|it| &it.window);
        windows.any(|it| named == Some(&it.name) && it.from <= now.saturating_add(notice))
    };
    let closed_classes = closed_classes(ledger);
    let told: BTreeSet<_> = ledger.victims.iter().map(|victim| victim.share.id).collect();
    for line in ledger.jobs.iter().filter(|line| line.is_fair_share()) {
        let held = line.job.shares.iter().filter(|share| share.state == SharePhase::Held);
        for share in held.filter(|share| closed.contains(&share.node) && !told.contains(&share.id))
        {
            let name = &ledger.snapshot.node(share.node).name;
            let detail = format!("job {} keeps node {name}, which is in maintenance", line.job.id);
            findings.push(Rule::LateNotice.finding(detail));
        }
        if closed_classes.contains(&line.job.class) && 0 < line.has() {
            let detail = format!("job {} goes on in a class that closes", line.job.id);
            findings.push(Rule::LateNotice.finding(detail));
        }
    }
    for victim in &ledger.victims {
        let is_gang = ledger.jobs[victim.donor].is_gang();
        let is_early = !closed.contains(&victim.share.node) && !is_gang;
        let is_open = !closed_classes.contains(&ledger.jobs[victim.donor].job.class);
        let is_early = match victim.receipt.rule {
            VictimRule::Window => match victim.beneficiary {
                Some(taker) => !is_near(&ledger.jobs[taker]),
                None => is_early,
            },
            VictimRule::ClassClosed => is_open,
            VictimRule::NoLongerAllowed
            | VictimRule::Urgent
            | VictimRule::Overrun
            | VictimRule::Priority
            | VictimRule::FairShare
            | VictimRule::Defragmentation
            | VictimRule::FirstShare
            | VictimRule::Turn
            | VictimRule::Envy
            | VictimRule::Relocation => false,
        };
        if is_early {
            let detail = format!("share {} leaves without maintenance or closing", victim.share.id);
            findings.push(Rule::LateNotice.finding(detail));
        }
    }
}

/// Work that stays is ended at its declared end where its class says so, and nowhere else.
pub(in crate::audit) fn check_overruns(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let now = ledger.snapshot.now;
    for line in ledger.jobs.iter().filter(|line| is_overrun(now, line.job, line.class)) {
        if 0 < line.has() {
            let detail = format!("job {} goes on beyond its declared end", line.job.id);
            findings.push(Rule::WrongEnd.finding(detail));
        }
    }
    for victim in &ledger.victims {
        let (job, line) = (victim.receipt.job, &ledger.jobs[victim.donor]);
        let is_over = is_overrun(now, line.job, line.class);
        if victim.receipt.rule == VictimRule::Overrun && !is_over {
            let detail = format!("job {job} is ended, and its declared end is not reached");
            findings.push(Rule::WrongEnd.finding(detail));
        }
    }
}

/// No job gets anything before the earliest start that its owner names.
pub(in crate::audit) fn check_starts(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let now = ledger.snapshot.now;
    let gains = |line: &&JobLine<'_>| 0 < line.expanded + line.promised;
    for line in ledger.jobs.iter().filter(gains).filter(|line| is_early(now, line.job)) {
        let detail = format!("job {} gets a share before its earliest start", line.job.id);
        findings.push(Rule::EarlyStart.finding(detail));
    }
}

/// No younger work that stays and starts in this cycle delays the first request that waits in a
/// pool: a gang, or a single request.
///
/// The earliest start of the request is recomputed with that work and without it, by a look at every
/// moment at which work ends or a window closes.
pub(in crate::audit) fn check_heads(ledger: &Ledger<'_>, findings: &mut Vec<Finding>) {
    let Some(now) = ledger.snapshot.now else { return };
    let mut steps = STEPS;
    let mut heads: BTreeMap<PoolIx, JobIx> = BTreeMap::new();
    for place in (ledger.jobs.places()).filter(|&place| is_waiting_fixed(ledger, place)) {
        let head = heads.entry(ledger.jobs[place].class.pool).or_insert(place);
        if precedes(ledger, place, *head) {
            *head = place;
        }
    }
    for place in heads.into_values() {
        let line = &ledger.jobs[place];
        let Some(estimate) = line.report.start_estimate else { continue };
        let younger = younger_starts(ledger, place);
        if younger.is_empty() {
            continue;
        }
        let head = FirstRequest { ledger, place, gang: ledger.gang(place), now };
        // A start that a sound search may miss is no delay, and no start that has to be found.
        let Some(alone) = head.earliest(&younger, Fit::Yes, &mut steps) else { continue };
        let with = head.earliest(&BTreeSet::new(), Fit::Packed, &mut steps);
        if with.is_none_or(|with| alone < with) {
            let (id, told) = (line.job.id, estimate.at);
            let detail = format!("job {id} would start at {alone}, and is told {told}");
            findings.push(Rule::HeadDelayed.finding(detail));
        }
    }
}

/// True if the job at `place` stays, and waits for part of a node, or for all nodes of a gang.
fn is_waiting_fixed(ledger: &Ledger<'_>, place: JobIx) -> bool {
    let line = &ledger.jobs[place];
    if line.class.policy != ClassPolicy::FixedShare {
        return false;
    }
    match ledger.gang(place) {
        Some(gang) => {
            line.class.gangs.are_allowed
                && gang.is_waiting(line)
                && !is_chosen(&gang.shape)
                && !ledger.may_exceed_allotment(gang)
        }
        None => is_waiting_single(ledger, place) && line.report.start_estimate.is_some(),
    }
}

/// True if the job at `place` is a single request of fixed work, and has nothing.
pub(super) fn is_waiting_single(ledger: &Ledger<'_>, place: JobIx) -> bool {
    let line = &ledger.jobs[place];
    let is_new = ledger.schedule.expansions.iter().any(|new| new.job == line.job.id)
        || ledger.schedule.promises.iter().any(|promise| promise.job == line.job.id);
    let is_single = !line.is_fair_share() && !line.is_gang();
    is_single && line.held == 0 && 0 < line.cap && !line.has_ended() && !is_new
}

/// Younger jobs that cannot be preempted, and that start in this cycle without a promise.
fn younger_starts(ledger: &Ledger<'_>, place: JobIx) -> BTreeSet<JobId> {
    let promised: BTreeSet<JobId> =
        ledger.snapshot.promises.iter().map(|promise| promise.job).collect();
    let new = ledger.schedule.expansions.iter().map(|new| new.job);
    let new = new.chain(ledger.schedule.promises.iter().map(|promise| promise.job));
    let new = new.filter(|job| !promised.contains(job));
    let is_younger = |job: &JobId| {
        ledger.place(*job).is_some_and(|other| {
            ledger.jobs[other].class.policy == ClassPolicy::FixedShare
                && precedes(ledger, place, other)
        })
    };
    new.filter(is_younger).collect()
}

/// Tells if the request at `place`, which is a gang or single, fits where so many qshares of each node
/// are taken.
pub(super) fn fit_beside(
    ledger: &Ledger<'_>,
    (place, gang): (JobIx, Option<&GangLine>),
    taken: impl Fn(NodeIx) -> u64,
    steps: &mut u64,
) -> Fit {
    let line = &ledger.jobs[place];
    if let Some(gang) = gang {
        let request = GangParts::of(gang, wish(line.job, &gang.shape));
        return request.map_or(Fit::No, |request| {
            fit_in_sets(ledger, gang, &request, &without(ledger, gang, taken), steps)
        });
    }
    let has_space = ledger.nodes_with_ix().any(|(ix, node)| {
        *steps = steps.saturating_sub(1);
        let asks = ledger.would_take(line, ix);
        asks.is_some_and(|asks| taken(ix).saturating_add(asks) <= node.order)
    });
    if has_space { Fit::Yes } else { Fit::No }
}

/// The first request that waits in its pool.
struct FirstRequest<'l, 'a> {
    ledger: &'l Ledger<'a>,
    place: JobIx,
    /// The request, if it is a gang.
    gang: Option<&'l GangLine>,
    now: Millis,
}

impl FirstRequest<'_, '_> {
    /// The earliest start of the request after now, if of the work of this cycle all starts but `not`.
    /// At its start the request fits at least so well.
    fn earliest(&self, not: &BTreeSet<JobId>, least: Fit, steps: &mut u64) -> Option<Millis> {
        let ledger = self.ledger;
        let stays = self.stays(not);
        let windows = ledger.snapshot.windows.iter();
        let edges = windows.flat_map(|window| [window.window.from, window.window.to]);
        let ends = stays.iter().map(|(_, _, end)| *end);
        let shape = ledger.jobs[self.place].job.shape.as_deref();
        let opens = shape.and_then(|shape| shape.not_before);
        let hours = ledger.snapshot.hours.values().flatten().map(|(open, _)| *open);
        let mut moments: Vec<Millis> = edges.chain(ends).chain(opens).chain(hours).collect();
        moments.retain(|moment| self.now < *moment && *moment < NEVER);
        moments.retain(|moment| opens.is_none_or(|opens| opens <= *moment));
        moments.sort_unstable();
        moments.dedup();
        moments.into_iter().find(|&at| {
            let end = ledger.end(self.place, at);
            if ledger.closes(ledger.jobs[self.place].job.class, at, end) {
                return false;
            }
            let taken = |ix: NodeIx| {
                if ledger.is_kept_from(self.place, ix, at, end) {
                    return u64::MAX;
                }
                let there = stays.iter().filter(|(node, _, end)| *node == ix && at < *end);
                there.map(|(_, order, _)| *order).fold(0, u64::saturating_add)
            };
            least <= fit_beside(ledger, (self.place, self.gang), taken, steps)
        })
    }

    /// Node, size and end of all work that the request may not take and that is there after the cycle.
    fn stays(&self, not: &BTreeSet<JobId>) -> Vec<(NodeIx, u64, Millis)> {
        let ledger = self.ledger;
        let own = &ledger.jobs[self.place];
        let told: BTreeSet<_> = ledger.victims.iter().map(|victim| victim.share.id).collect();
        let mut stays = Vec::new();
        for (place, line) in ledger.jobs.with_ix() {
            let is_given = line.is_fair_share() && own.priority < line.priority;
            if is_given {
                continue;
            }
            let length = ledger.length(place).filter(|_| !line.is_fair_share());
            let end = match (line.job.gang.started, length) {
                (Some(started), Some(length)) => started.saturating_add(length),
                _ => NEVER,
            };
            let end = if end <= self.now {
                let length = length.unwrap_or(0);
                self.now + 60_000.max(length.checked_div(10).unwrap_or(0))
            } else {
                end
            };
            let held = line.job.shares.iter();
            let held = held.filter(|it| it.state == SharePhase::Held && !told.contains(&it.id));
            stays.extend(held.map(|share| (share.node, share.order.qshares().0, end)));
        }
        let new = ledger.schedule.expansions.iter().map(|it| (it.job, it.node, it.order));
        let promised = ledger.schedule.promises.iter().map(|it| (it.job, it.node, it.order));
        for (job, node, order) in new.chain(promised).filter(|(job, ..)| !not.contains(job)) {
            let Some(place) = ledger.place(job) else { continue };
            let line = &ledger.jobs[place];
            let is_given = line.is_fair_share() && own.priority < line.priority;
            if !is_given {
                let stay = ledger.end(place, self.now);
                let end = if line.is_fair_share() { NEVER } else { stay };
                stays.push((node, order.qshares().0, end));
            }
        }
        stays
    }
}
