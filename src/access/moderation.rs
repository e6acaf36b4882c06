//! Interrupt moderation: while many agents report, what they send within a few hundredths of a second
//! is handled in one go.
//!
//! To be woken for a heartbeat costs more than the heartbeat. So a thread that has nothing left to do
//! stays away to the end of a slice of time before it waits for the network, and then finds all that
//! came meanwhile. Network cards do the same with packets.
//!
//! It happens only where nobody minds: many heartbeats come, each after a pause on its connection. An
//! agent that sends the next as soon as it has an answer would be slowed down, and so ends it. So does,
//! for a while, whoever connects or asks for anything else: of a page and its parts no more than the
//! first waits, a slice at most.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How long a slice is, in microseconds. Divides a second, so that slices are the same for all threads.
const SLICE_US: u32 = 40_000;
/// How long what came is counted before it is judged.
const WINDOW: Duration = Duration::from_millis(80);
/// Heartbeats in a slice from which on there is something to gain.
const MANY: u32 = 16;
/// Whoever reports again within this time is in a hurry. More than a slice, or those who wait for one
/// would not seem to be.
const HURRY: Duration = Duration::from_millis(50);
/// One in so many may be in a hurry.
const HURRIED_ONE_IN: u64 = 8;
/// For so long after somebody else came nobody waits: there is more to come.
const SPARED: Duration = Duration::from_millis(250);

/// What this process was asked. One for all of it, as the threads are that it is for.
static TRAFFIC: LazyLock<Traffic> = LazyLock::new(|| Traffic {
    began: Instant::now(),
    calm: AtomicU64::new(0),
    hurried: AtomicU64::new(0),
    others: AtomicU64::new(0),
    judgement: Mutex::default(),
});

struct Traffic {
    began: Instant,
    calm: AtomicU64,
    hurried: AtomicU64,
    others: AtomicU64,
    judgement: Mutex<Judgement>,
}

/// The heartbeats on one connection.
#[derive(Debug)]
pub(super) struct Reporting {
    last: Cell<Option<Instant>>,
}

impl Reporting {
    /// Somebody connected.
    pub(super) fn new() -> Reporting {
        Reporting::other_came();
        Reporting { last: Cell::new(None) }
    }

    /// A heartbeat came. The first on a connection says nothing: nobody knows what came before it.
    pub(super) fn came(&self) {
        let now = Instant::now();
        let Some(last) = self.last.replace(Some(now)) else { return };
        let is_hurried = now.saturating_duration_since(last) < HURRY;
        let count = if is_hurried { &TRAFFIC.hurried } else { &TRAFFIC.calm };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Something came that is no heartbeat.
    pub(super) fn other_came() {
        TRAFFIC.others.fetch_add(1, Ordering::Relaxed);
    }
}

/// Stays away to the end of the slice if many report who are not in a hurry, and nobody asks. For a
/// thread of the runtime that has nothing left to do; with little to do it returns at once.
pub fn linger() {
    let traffic = &*TRAFFIC;
    // Another thread judges at the moment: this one need not.
    let Ok(mut judgement) = traffic.judgement.try_lock() else { return };
    let counts = Counts {
        calm: traffic.calm.load(Ordering::Relaxed),
        hurried: traffic.hurried.load(Ordering::Relaxed),
        others: traffic.others.load(Ordering::Relaxed),
    };
    let rest = judgement.rest(traffic.began.elapsed(), counts);
    drop(judgement);
    if let Some(rest) = rest {
        thread::sleep(rest);
    }
}

/// What came since the start.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Heartbeats after a pause.
    calm: u64,
    /// Heartbeats soon after the one before.
    hurried: u64,
    /// Connections, and requests that are no heartbeats.
    others: u64,
}

/// What the last window says.
#[derive(Debug, Default)]
struct Judgement {
    /// When the window began that is being counted.
    since: Duration,
    /// What there was by then.
    counts: Counts,
    /// Whether many heartbeats came in the window before, and hardly any in a hurry.
    is_moderated: bool,
    /// How many others were known at the last look, and until when nobody waits because of them.
    others: u64,
    spared_until: Duration,
}

impl Judgement {
    /// How long a thread is to stay away that has nothing left to do at `now`, by when so much came.
    fn rest(&mut self, now: Duration, counts: Counts) -> Option<Duration> {
        if self.others < counts.others {
            (self.others, self.spared_until) = (counts.others, now.saturating_add(SPARED));
        }
        let passed = now.saturating_sub(self.since);
        if WINDOW <= passed {
            let calm = counts.calm.saturating_sub(self.counts.calm);
            let hurried = counts.hurried.saturating_sub(self.counts.hurried);
            let slices = Duration::from_micros(calm.saturating_mul(SLICE_US.into()));
            let is_many = passed.saturating_mul(MANY) <= slices;
            self.is_moderated = is_many && hurried.saturating_mul(HURRIED_ONE_IN) <= calm;
            (self.since, self.counts) = (now, counts);
        }
        let into_slice = now.subsec_micros() % SLICE_US;
        let rest = Duration::from_micros(u64::from(SLICE_US - into_slice));
        (self.is_moderated && self.spared_until <= now).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads that look every millisecond for a while, while so many heartbeats come in a second;
    /// whether they stay away at the end.
    fn is_moderated(judgement: &mut Judgement, from_ms: u64, calm: u64, hurried: u64) -> bool {
        let before = judgement.counts;
        let until = |per_s: u64, ms: u64| (per_s * ms).div_euclid(1000);
        let looks = (1..=200).map(|ms| {
            let counts = Counts {
                calm: before.calm + until(calm, ms),
                hurried: before.hurried + until(hurried, ms),
                others: before.others,
            };
            judgement.rest(Duration::from_millis(from_ms + ms), counts).is_some()
        });
        looks.last().unwrap()
    }

    #[test]
    fn only_many_who_are_not_in_a_hurry_are_kept_waiting() {
        for (calm, hurried, expected) in [
            (0, 0, false),
            (200, 0, false),
            (300, 0, false),
            (1_000, 0, true),
            (1_000, 100, true),
            (1_000, 200, false),
            (1_000, 20_000, false),
            (0, 20_000, false),
            (10_000, 0, true),
        ] {
            let mut judgement = Judgement::default();
            let judged = is_moderated(&mut judgement, 0, calm, hurried);
            assert_eq!(judged, expected, "{calm} and {hurried} in a second");
        }
    }

    #[test]
    fn it_ends_with_the_crowd_and_by_whoever_is_in_a_hurry() {
        let mut judgement = Judgement::default();
        assert!(is_moderated(&mut judgement, 0, 1_000, 0));
        assert!(!is_moderated(&mut judgement, 200, 1_000, 2_000));
        assert!(is_moderated(&mut judgement, 400, 1_000, 0));
        // The next look is long after.
        let counts = judgement.counts;
        assert_eq!(judgement.rest(Duration::from_mins(1), counts), None);
    }

    #[test]
    fn whoever_comes_for_something_else_ends_it_for_a_while() {
        let mut judgement = Judgement { is_moderated: true, ..Judgement::default() };
        let mut waits = |ms, others| {
            judgement.since = Duration::from_millis(ms);
            let counts = Counts { others, ..Counts::default() };
            judgement.rest(Duration::from_millis(ms), counts).is_some()
        };
        let told = [(0, 0), (10, 1), (100, 1), (259, 1), (260, 1), (300, 2), (549, 2), (550, 2)];
        let waited = told.map(|(ms, others)| waits(ms, others));
        assert_eq!(waited, [true, false, false, false, true, false, false, true]);
    }

    #[test]
    fn all_threads_stay_away_to_the_end_of_the_same_slice() {
        let mut judgement = Judgement { is_moderated: true, ..Judgement::default() };
        for (now_us, rest_us) in
            [(0, 40_000), (1, 39_999), (39_999, 1), (40_000, 40_000), (62_500, 17_500)]
        {
            let rest = judgement.rest(Duration::from_micros(now_us), Counts::default());
            assert_eq!(rest, Some(Duration::from_micros(rest_us)), "{now_us}");
        }
    }
}
