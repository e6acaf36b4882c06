//! Time and windows: what the calendar of the next cycle is made of.
//!
//! The scheduler has no clock. Time is told to it, and only where something depends on it: a
//! window, or work that declares how long it runs. A cluster without them has no time at all.
//!
//! Design: requests and time, sections 1.4 and 2 "Time".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Scheduler;
use super::command::{CommandError, CommandOutcome};
use super::nodes::NodeKey;
use crate::engine::NodeWindow;
use crate::model::{
    ClassIx, JobId, JobSpec, JobTimes, Millis, Name, NodeIx, ResourceClass, Shape, ShareId, Window,
    WindowKind,
};

/// Most windows at a time.
const WINDOWS_MAX: usize = 1000;

/// Time as it was told last, and the windows that are not over.
#[derive(Clone, Debug, Default)]
pub(super) struct SchedulerClock {
    /// Milliseconds since the epoch; `None` before the first time that was told.
    pub now: Option<Millis>,
    /// Windows by name.
    pub windows: BTreeMap<Name, Arc<Window>>,
    /// Spans in which classes are open, by class; absent classes are always open.
    pub hours: Arc<BTreeMap<Name, Vec<(Millis, Millis)>>>,
    /// Nodes that were in maintenance in the last cycle.
    pub in_maintenance: BTreeSet<NodeKey>,
}

impl Scheduler {
    /// True if decisions depend on the time.
    pub fn needs_time(&self) -> bool {
        let has_known_length = || {
            let mut classes = self.topology.classes.with_ix();
            classes.any(|(place, class)| {
                let is_in_use = self.jobs.has_gangs()
                    || !class.policy.is_preemptable() && 0 < self.jobs.of_class(place);
                is_in_use && class.gangs.duration(None).is_some()
            })
        };
        let has_edges = !self.clock.windows.is_empty() || !self.clock.hours.is_empty();
        let is_timed = |spec: &JobSpec| spec.shape.as_deref().is_some_and(Shape::has_times);
        has_edges
            || self.jobs.have_times()
            || has_known_length()
            || self.urgent.iter().any(is_timed)
    }

    /// True if the next cycle may decide otherwise because it is `now`, or will plan in any case
    /// and has to know the time.
    pub(super) fn is_time_news(&self, now: Millis) -> bool {
        let is_later = self.clock.now.is_none_or(|before| before < now);
        let may_differ = || {
            let planned = self.planned.as_deref();
            let until = planned.and_then(|planned| planned.schedule.valid_until);
            !self.would_repeat(self.cycle + 1)
                || until.is_some_and(|until| until <= now)
                || self.does_a_window_turn(now)
        };
        is_later && self.needs_time() && may_differ()
    }

    /// True if a window opens or closes, or its notice begins, after the last time and until `now`.
    pub(super) fn does_a_window_turn(&self, now: Millis) -> bool {
        let before = self.clock.now.unwrap_or(0);
        let notice = self.topology.settings.notice;
        let turns = |window: &Arc<Window>| {
            let edges = [window.from.saturating_sub(notice), window.from, window.to];
            edges.into_iter().any(|edge| before < edge && edge <= now)
        };
        let hours = self.clock.hours.values().flatten();
        let mut hours =
            hours.flat_map(|(open, close)| [*open, close.saturating_sub(notice), *close]);
        self.clock.windows.values().any(turns) || hours.any(|edge| before < edge && edge <= now)
    }

    /// Hours of the classes that are not always open, as they were told last.
    pub fn hours(&self) -> &BTreeMap<Name, Vec<(Millis, Millis)>> {
        &self.clock.hours
    }

    /// True if a class opens or closes at the present because its hours are now `hours`.
    pub(super) fn do_hours_turn(&self, hours: &[(Name, Vec<(Millis, Millis)>)]) -> bool {
        let Some(now) = self.clock.now else { return true };
        let next: BTreeMap<&Name, &Vec<_>> = hours.iter().map(|(name, of)| (name, of)).collect();
        let is_open = |spans: Option<&Vec<(Millis, Millis)>>| {
            spans.is_none_or(|spans| spans.iter().any(|(open, close)| *open <= now && now < *close))
        };
        let mut names = self.clock.hours.keys().chain(next.keys().copied());
        names.any(|name| is_open(self.clock.hours.get(name)) != is_open(next.get(name).copied()))
    }

    /// Replaces the hours of the classes.
    pub(super) fn set_hours(&mut self, hours: &[(Name, Vec<(Millis, Millis)>)]) {
        self.clock.hours = Arc::new(hours.iter().cloned().collect());
    }

    /// The hours of the classes, as the engine sees them.
    pub(super) fn freeze_hours(&self) -> Arc<BTreeMap<ClassIx, Vec<(Millis, Millis)>>> {
        let hours = self.clock.hours.iter();
        let hours = hours
            .filter_map(|(class, spans)| Some((self.topology.class_named(class)?, spans.clone())));
        Arc::new(hours.collect())
    }

    /// Sets the time, drops windows that are over, and notes the start of work that stays and runs
    /// since before time mattered.
    pub(super) fn set_time(&mut self, now: Millis) {
        let is_first = self.clock.now.is_none();
        self.clock.now = Some(now);
        self.clock.windows.retain(|_, window| now < window.to);
        if !is_first && !self.topology.classes.iter().any(ends_overruns) {
            return;
        }
        for job in self.jobs.values_mut() {
            let class = job.admission.as_ref().ok();
            let class = class.map(|admission| &self.topology.classes[admission.class]);
            // Elsewhere work that is known since before time mattered has no known end.
            let counts = |class: &ResourceClass| {
                if is_first { !class.policy.is_preemptable() } else { ends_overruns(class) }
            };
            if class.is_some_and(counts) && job.gang.started.is_none() && !job.shares.is_empty() {
                job.gang.started = Some(now);
            }
        }
    }

    /// Replaces the times of a job. A length that is declared while the job runs counts from the
    /// time that is known: when the job started was of no interest then.
    pub(super) fn retime(&mut self, job: JobId, times: JobTimes) {
        let Some(known) = self.jobs.get(job) else { return };
        if known.spec.times() == times {
            return;
        }
        if !self.needs_time() {
            // The last time that was told may be long ago; the next counts as the first.
            self.clock.now = None;
        }
        let now = self.clock.now;
        self.jobs.retime(job, times, &self.topology);
        let Some(job) = self.jobs.get_mut(job) else { return };
        let stays = job.policy(&self.topology).is_some_and(|policy| !policy.is_preemptable());
        if stays && job.gang.started.is_none() && !job.shares.is_empty() {
            job.gang.started = now;
        }
    }

    /// Time of the next snapshot; `None` if nothing depends on it.
    pub(super) fn time(&self) -> Option<Millis> {
        self.clock.now.filter(|_| self.needs_time())
    }

    /// Nodes that are in maintenance, or whose notice has begun.
    pub(super) fn nodes_in_maintenance(&self) -> BTreeSet<NodeKey> {
        let Some(now) = self.time() else { return BTreeSet::new() };
        let notice = self.topology.settings.notice;
        let is_near = |window: &&Arc<Window>| {
            window.kind == WindowKind::Maintenance && window.from <= now.saturating_add(notice)
        };
        let nodes = self.clock.windows.values().filter(is_near).flat_map(|window| &window.nodes);
        nodes.filter_map(|node| self.nodes.find(node)).collect()
    }

    /// The windows, with the rows of their nodes.
    pub(super) fn freeze_windows(&self) -> Arc<Vec<NodeWindow>> {
        if self.time().is_none() {
            return Arc::default();
        }
        let places = self.nodes.places();
        let windows = self.clock.windows.values().map(|window| {
            let nodes = window.nodes.iter().filter_map(|node| self.nodes.find(node));
            let mut nodes: Vec<NodeIx> = nodes.map(|node| places.of(node)).collect();
            nodes.sort_unstable();
            NodeWindow { window: Arc::clone(window), nodes }
        });
        Arc::new(windows.collect())
    }

    /// Windows that are not over, by name.
    pub fn windows(&self) -> impl Iterator<Item = &Arc<Window>> {
        self.clock.windows.values()
    }

    /// Enters a window.
    ///
    /// # Errors
    ///
    /// If its nodes are unknown, it collides with another window, or work that stays is in its way
    /// and it is not forced. Then nothing is done.
    pub(super) fn reserve(
        &mut self,
        window: &Window,
        is_forced: bool,
    ) -> Result<CommandOutcome, CommandError> {
        let known = self.clock.windows.get(&window.name);
        if known.is_some_and(|known| **known == *window) {
            return Ok(CommandOutcome::default());
        }
        if known.is_some() {
            return Err(CommandError::WindowExists(window.name.clone()));
        }
        let nodes: Vec<String> = window.nodes.iter().map(ToString::to_string).collect();
        self.nodes.check_known(&nodes)?;
        if window.to <= window.from {
            return Err(CommandError::WindowEndsBeforeStart(window.name.clone()));
        }
        if self.clock.now.is_some_and(|now| window.to <= now) {
            return Err(CommandError::WindowIsOver(window.name.clone()));
        }
        if WINDOWS_MAX <= self.clock.windows.len() {
            return Err(CommandError::TooManyWindows { most: WINDOWS_MAX });
        }
        let other = self.clock.windows.values().find(|other| other.collides_with(window));
        if let Some(other) = other {
            return Err(CommandError::WindowsCollide(other.name.clone()));
        }
        let in_the_way = self.work_in_the_way(window);
        if !is_forced && !in_the_way.is_empty() {
            return Err(CommandError::WindowBlocked(in_the_way));
        }
        self.clock.windows.insert(window.name.clone(), Arc::new(window.clone()));
        Ok(CommandOutcome { changed: nodes })
    }

    /// Removes a window. A window that is not there is over, or was never entered: no error, and
    /// no change.
    pub(super) fn unreserve(&mut self, name: &str) -> CommandOutcome {
        let gone = self.clock.windows.remove(name);
        let nodes = gone.iter().flat_map(|window| window.nodes.iter().map(ToString::to_string));
        CommandOutcome { changed: nodes.collect() }
    }

    /// Shares of work that stays on the nodes of a window, and that have no known end before it
    /// opens.
    pub fn work_in_the_way(&self, window: &Window) -> Vec<ShareId> {
        self.ends_in_the_way(window).into_iter().map(|(share, _)| share).collect()
    }

    /// The work in the way of a window, with the expected end of each share.
    pub(super) fn ends_in_the_way(&self, window: &Window) -> Vec<(ShareId, Option<Millis>)> {
        let mut in_the_way = Vec::new();
        for job in self.jobs.values() {
            let stays = job.policy(&self.topology).is_none_or(|policy| !policy.is_preemptable());
            let end = self.end_of(job);
            if !stays || end.is_some_and(|end| end <= window.from) {
                continue;
            }
            let is_there =
                |node: NodeKey| window.nodes.binary_search(&self.nodes[node].report.name).is_ok();
            let there = job.shares.iter().filter(|share| is_there(share.node));
            in_the_way.extend(there.map(|share| (share.id, end)));
        }
        in_the_way
    }

    /// Expected end of work that runs; `None` if it is not known.
    fn end_of(&self, job: &super::jobs::JobRecord) -> Option<Millis> {
        let class = job.class.map(|class| &self.topology.classes[class])?;
        let declared = job.spec.shape.as_deref().and_then(|shape| shape.duration);
        Some(job.gang.started?.saturating_add(class.gangs.duration(declared)?))
    }
}

/// True if work of the class is ended that runs longer than it declared.
fn ends_overruns(class: &ResourceClass) -> bool {
    class.gangs.ends_overruns && !class.policy.is_preemptable()
}
