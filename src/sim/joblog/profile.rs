//! Free memory of each node over time, and the earliest moment at which a request fits.
//!
//! The profile is exact: it knows each node, not only sums. Amounts are quanta, times are
//! milliseconds from the start of the replay.

use crate::model::Millis;

/// Memory that is free on a node from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FreeStep {
    at: Millis,
    free: u64,
}

/// A request as planners see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchRequest<'a> {
    /// Number of processes that start together. At least 1.
    pub processes: u64,
    /// Size of each. At least 1.
    pub quanta: u64,
    /// Length of time.
    pub length: Millis,
    /// Nodes that it may use, ascending.
    pub nodes: &'a [usize],
}

/// Nodes of a job, and the number of its processes on each.
pub type Placement = Vec<(usize, u64)>;

/// Free memory of all nodes, now and later.
#[derive(Clone, Debug)]
pub(super) struct FreeProfile {
    /// For each node its steps by time. The first begins no later than now, the last never ends.
    nodes: Vec<Vec<FreeStep>>,
}

impl FreeProfile {
    /// A profile of empty nodes of these sizes.
    pub fn new(sizes: impl IntoIterator<Item = u64>) -> FreeProfile {
        let node = |free| vec![FreeStep { at: 0, free }];
        FreeProfile { nodes: sizes.into_iter().map(node).collect() }
    }

    /// Forgets the time before `now`.
    pub fn forget_before(&mut self, now: Millis) {
        for steps in &mut self.nodes {
            let past = steps.partition_point(|step| step.at <= now).saturating_sub(1);
            if 0 < past {
                steps.drain(..past);
            }
        }
    }

    /// Takes space for `quanta` a process from `from` until `to`.
    pub fn take(&mut self, place: &[(usize, u64)], quanta: u64, from: Millis, to: Millis) {
        self.change(place, from, to, |free, count| {
            free.saturating_sub(count.saturating_mul(quanta))
        });
    }

    /// Gives that space back.
    pub fn give(&mut self, place: &[(usize, u64)], quanta: u64, from: Millis, to: Millis) {
        self.change(place, from, to, |free, count| {
            free.saturating_add(count.saturating_mul(quanta))
        });
    }

    fn change(
        &mut self,
        place: &[(usize, u64)],
        from: Millis,
        to: Millis,
        change: impl Fn(u64, u64) -> u64,
    ) {
        if to <= from {
            return;
        }
        for (node, count) in place {
            let steps = &mut self.nodes[*node];
            let begin = split_at(steps, from);
            let end = split_at(steps, to);
            for step in &mut steps[begin..end] {
                step.free = change(step.free, *count);
            }
            // Equal neighbours are a single step; only these two borders can have become superfluous.
            for border in [end, begin] {
                if 0 < border && steps[border - 1].free == steps[border].free {
                    steps.remove(border);
                }
            }
        }
    }

    /// Free memory of a node at `now`, which is no earlier than the last forgotten moment.
    pub fn free_at(&self, node: usize, now: Millis) -> u64 {
        let steps = &self.nodes[node];
        let at = steps.partition_point(|step| step.at <= now).saturating_sub(1);
        steps[at].free
    }

    /// Least free memory of a node from `from` on, for `length`.
    fn least(&self, node: usize, from: Millis, length: Millis) -> u64 {
        let steps = &self.nodes[node];
        let end = from.saturating_add(length);
        let first = steps.partition_point(|step| step.at <= from).saturating_sub(1);
        let during = steps[first..].iter().take_while(|step| step.at < end || step.at <= from);
        during.map(|step| step.free).min().unwrap_or(0)
    }

    /// Nodes for the request from `at` on: the fullest on which a process fits, then by number.
    /// `None` if it does not fit.
    pub fn place(&self, request: &BatchRequest<'_>, at: Millis) -> Option<Placement> {
        let mut fitting: Vec<(u64, usize)> = Vec::new();
        for node in request.nodes {
            if self.free_at(*node, at) < request.quanta {
                continue;
            }
            let least = self.least(*node, at, request.length);
            if request.quanta <= least {
                fitting.push((least, *node));
            }
        }
        fitting.sort_unstable();
        let mut missing = request.processes;
        let mut place = Placement::new();
        for (least, node) in fitting {
            let count = least.checked_div(request.quanta).unwrap_or(0).min(missing);
            place.push((node, count));
            missing -= count;
            if missing == 0 {
                place.sort_unstable();
                return Some(place);
            }
        }
        None
    }

    /// The earliest moment from `now` on, and before `before`, at which the request fits for all of
    /// its length.
    pub fn earliest(
        &self,
        request: &BatchRequest<'_>,
        now: Millis,
        before: Millis,
    ) -> Option<Millis> {
        if request.processes == 1 {
            // The bound falls with each node that is found.
            let mut limit = before;
            let mut best = None;
            for node in request.nodes {
                if let Some(found) = self.first_on(*node, request, now, limit) {
                    (limit, best) = (found, Some(found));
                }
                if limit == now {
                    break;
                }
            }
            return best;
        }
        self.earliest_of_several(request, now, before)
    }

    /// The earliest moment for a single process on `node`.
    fn first_on(
        &self,
        node: usize,
        request: &BatchRequest<'_>,
        now: Millis,
        before: Millis,
    ) -> Option<Millis> {
        let steps = &self.nodes[node];
        let first = steps.partition_point(|step| step.at <= now).saturating_sub(1);
        let mut start = now;
        for (step, next) in pairs(&steps[first..]) {
            if step.free < request.quanta {
                start = next?;
                if before <= start {
                    return None;
                }
            } else if next.is_none_or(|next| start.saturating_add(request.length) <= next) {
                return (start < before).then_some(start);
            }
        }
        None
    }

    /// The earliest moment for several processes: adds up, over time, how many fit at once.
    fn earliest_of_several(
        &self,
        request: &BatchRequest<'_>,
        now: Millis,
        before: Millis,
    ) -> Option<Millis> {
        let mut changes: Vec<(Millis, i64)> = Vec::new();
        for node in request.nodes {
            let most = self.nodes[*node].iter().map(|step| step.free).max().unwrap_or(0);
            let most = most.checked_div(request.quanta).unwrap_or(0).min(request.processes);
            for level in 1..=most {
                let needed = level.saturating_mul(request.quanta);
                self.add_starts(*node, needed, request.length, now, before, &mut changes);
            }
        }
        changes.sort_unstable_by_key(|(at, _)| *at);
        let needed = i64::try_from(request.processes).unwrap_or(i64::MAX);
        let mut fitting = 0_i64;
        let mut changes = changes.into_iter().peekable();
        while let Some((at, change)) = changes.next() {
            fitting += change;
            let is_last = changes.peek().is_none_or(|(next, _)| at < *next);
            if is_last && needed <= fitting {
                return Some(at);
            }
        }
        None
    }

    /// Adds the moments from which on, and until which, `needed` would be free for `length`.
    fn add_starts(
        &self,
        node: usize,
        needed: u64,
        length: Millis,
        now: Millis,
        before: Millis,
        changes: &mut Vec<(Millis, i64)>,
    ) {
        let steps = &self.nodes[node];
        let first = steps.partition_point(|step| step.at <= now).saturating_sub(1);
        // Since when enough is free.
        let mut since = Some(now);
        for (step, next) in pairs(&steps[first..]) {
            if needed <= step.free {
                continue;
            }
            if let Some(since) = since.take() {
                // A start is possible while the whole length ends before this step.
                let last = step.at.checked_sub(length).filter(|last| since <= *last);
                if let Some(last) = last {
                    changes.push((since, 1));
                    changes.push((last.saturating_add(1), -1));
                }
            }
            since = next.filter(|next| *next < before);
            if since.is_none() {
                return;
            }
            // The next step may be too full as well; then this start is replaced.
        }
        if let Some(since) = since.filter(|since| *since < before) {
            changes.push((since, 1));
        }
    }
}

/// Each step with the moment of its end; `None` for the last.
fn pairs(steps: &[FreeStep]) -> impl Iterator<Item = (FreeStep, Option<Millis>)> {
    steps.iter().enumerate().map(|(ix, step)| (*step, steps.get(ix + 1).map(|next| next.at)))
}

/// Index of the step that begins at `at`, which is made if there is none.
fn split_at(steps: &mut Vec<FreeStep>, at: Millis) -> usize {
    let next = steps.partition_point(|step| step.at < at);
    if steps.get(next).is_some_and(|step| step.at == at) {
        return next;
    }
    let free = next.checked_sub(1).map_or(0, |before| steps[before].free);
    steps.insert(next, FreeStep { at, free });
    next
}
