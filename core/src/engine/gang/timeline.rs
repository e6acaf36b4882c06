//! Nodes, or space of a node, that are free at each moment: a step function of time.

use crate::model::Millis;

/// A moment that never comes.
pub(super) const NEVER: Millis = Millis::MAX;

/// Number of nodes, or qshares of a node, that are free of work that stays, from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Timeline {
    /// Moments, ascending, each with the number from then on. The first is now.
    steps: Vec<(Millis, i64)>,
}

impl Timeline {
    /// The timeline of `amount` that is free from now on.
    pub(super) fn whole(now: Millis, amount: u64) -> Timeline {
        Timeline { steps: vec![(now, i64::try_from(amount).unwrap_or(i64::MAX))] }
    }

    /// The timeline of nodes that are free from these moments on, ascending.
    pub(super) fn of(now: Millis, free_from: &[Millis]) -> Timeline {
        let mut steps = vec![(now, 0)];
        for &moment in free_from.iter().filter(|moment| **moment < NEVER) {
            let (last, nodes) = steps[steps.len() - 1];
            if moment <= last {
                let at = steps.len() - 1;
                steps[at].1 += 1;
            } else {
                steps.push((moment, nodes + 1));
            }
        }
        Timeline { steps }
    }

    /// The place of the step that holds at `moment`.
    fn place_of(&self, moment: Millis) -> usize {
        self.steps.partition_point(|(from, _)| *from <= moment).saturating_sub(1)
    }

    /// Takes `amount` from `from` until before `to`.
    pub(super) fn take(&mut self, from: Millis, to: Millis, amount: u64) {
        let amount = i64::try_from(amount).unwrap_or(i64::MAX);
        self.change(from, to, |left| left.saturating_sub(amount));
    }

    /// Gives back `amount` that was taken from `from` until before `to`.
    pub(super) fn give(&mut self, from: Millis, to: Millis, amount: u64) {
        let amount = i64::try_from(amount).unwrap_or(i64::MAX);
        self.change(from, to, |left| left.saturating_add(amount));
    }

    fn change(&mut self, from: Millis, to: Millis, change: impl Fn(i64) -> i64) {
        if to <= from {
            return;
        }
        let first = self.cut(from);
        let last = if to < NEVER { self.cut(to) } else { self.steps.len() };
        for (_, left) in &mut self.steps[first..last] {
            *left = change(*left);
        }
    }

    /// Begins a step at `moment`, and returns its place.
    fn cut(&mut self, moment: Millis) -> usize {
        let place = self.place_of(moment);
        let (from, nodes) = self.steps[place];
        if moment <= from {
            return place;
        }
        self.steps.insert(place + 1, (moment, nodes));
        place + 1
    }

    /// The least that is free from `from` until before `to`.
    pub(super) fn least(&self, from: Millis, to: Millis) -> u64 {
        let steps = self.steps[self.place_of(from)..].iter();
        let within = steps.take_while(|(at, _)| *at < to || *at <= from);
        let least = within.map(|(_, free)| *free).min().unwrap_or(0);
        u64::try_from(least).unwrap_or(0)
    }

    /// Spans of starts from which on `amount` is free for all of `length`, from `from` on: the first
    /// and the last start of each.
    pub(super) fn starts(
        &self,
        amount: u64,
        length: Millis,
        from: Millis,
    ) -> impl Iterator<Item = (Millis, Millis)> {
        let amount = i64::try_from(amount).unwrap_or(i64::MAX);
        let first = self.place_of(from);
        let mut steps = self.steps[first..].iter().map(move |(at, free)| ((*at).max(from), *free));
        std::iter::from_fn(move || {
            loop {
                let (since, _) = steps.find(|(_, free)| amount <= *free)?;
                let until = steps.find(|(_, free)| *free < amount).map_or(NEVER, |(at, _)| at);
                if until == NEVER {
                    return Some((since, NEVER));
                }
                let last = until.checked_sub(length).filter(|last| since <= *last);
                if let Some(last) = last {
                    return Some((since, last));
                }
            }
        })
    }

    /// All moments at which the number changes, each with the number from then on; the first is now.
    pub(super) fn steps(&self) -> &[(Millis, i64)] {
        &self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Against a list of numbers, moment by moment.
    #[test]
    fn a_timeline_counts_like_a_list() {
        let mut draws = ChaCha8Rng::seed_from_u64(7);
        for _ in 0..200 {
            let now: Millis = draws.random_range(0..5);
            let mut free: Vec<Millis> =
                (0..draws.random_range(0..6)).map(|_| draws.random_range(0..20)).collect();
            free.push(NEVER);
            free.sort_unstable();
            let mut timeline = Timeline::of(now, &free);
            let mut counts: Vec<i64> = (0..30)
                .map(|at| i64::try_from(free.iter().filter(|from| **from <= at).count()).unwrap())
                .collect();
            for _ in 0..draws.random_range(0..5) {
                let from = draws.random_range(now..25);
                let to = if draws.random() { NEVER } else { draws.random_range(now..30) };
                let nodes = draws.random_range(0..3);
                timeline.take(from, to, nodes);
                for (at, count) in (0..).zip(&mut counts) {
                    let is_in = from <= at && at < to;
                    *count -= if is_in { i64::try_from(nodes).unwrap() } else { 0 };
                }
            }
            for from in now..30 {
                for to in from + 1..=30 {
                    let range = usize::try_from(from).unwrap()..usize::try_from(to).unwrap();
                    let least = counts[range].iter().min().copied().unwrap().max(0);
                    assert_eq!(timeline.least(from, to), u64::try_from(least).unwrap());
                }
            }
            starts_are_those_of_a_list(&mut draws, &timeline, &counts, now);
        }
    }

    /// A start is in a span if the list has the amount at each moment of the stay.
    fn starts_are_those_of_a_list(
        draws: &mut ChaCha8Rng,
        timeline: &Timeline,
        counts: &[i64],
        now: Millis,
    ) {
        let amount: u64 = draws.random_range(1..4);
        let length: Millis = draws.random_range(1..6);
        let spans: Vec<(Millis, Millis)> = timeline.starts(amount, length, now).collect();
        for at in now..24 {
            let stay = usize::try_from(at).unwrap()..usize::try_from(at + length).unwrap();
            let least = counts[stay].iter().min().copied().unwrap();
            let is_in = spans.iter().any(|(first, last)| *first <= at && at <= *last);
            assert_eq!(is_in, i64::try_from(amount).unwrap() <= least, "{spans:?} at {at}");
        }
    }
}
