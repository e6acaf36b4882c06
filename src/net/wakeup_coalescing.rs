//! Coalescing of wakeups: while many agents report, the heartbeats of a few hundredths of a second
//! are handled together.
//!
//! Waking a thread costs more than handling a heartbeat. So an idle thread sleeps until the end of
//! a slice of time before it waits for the network. It then handles all heartbeats that came
//! meanwhile. Network cards do the same with packets.
//!
//! Threads are held back only if many heartbeats come, each after a pause on its connection. An
//! agent that sends its next heartbeat as soon as it has an answer would be slowed down, so its
//! heartbeats end the delay. A new connection, and any other request, ends the delay for a while.
//! Of a page and its parts only the first request waits, at most a slice.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Length of a slice in microseconds. A divisor of a second, so that slices are the same for all
/// threads.
const SLICE_US: u32 = 40_000;
/// Time over which requests are counted before each decision.
const WINDOW: Duration = Duration::from_millis(80);
/// Heartbeats in a slice from which on there is something to gain.
const MANY: u32 = 16;
/// Longest pause between two heartbeats of a connection that counts as hurried. More than a slice,
/// as an agent delayed by a slice would otherwise not seem hurried.
const HURRIED_WITHIN: Duration = Duration::from_millis(50);
/// Paused heartbeats for each hurried heartbeat below which threads are not held back.
const HURRIED_ONE_IN: u64 = 8;
/// Time without a delay after any other request or a new connection: more requests of that client
/// follow.
const NO_DELAY_AFTER_OTHERS: Duration = Duration::from_millis(250);

/// Requests of this process. Global, as the threads of the runtime are.
static TRAFFIC: LazyLock<Traffic> = LazyLock::new(|| Traffic {
    began: Instant::now(),
    unhurried: AtomicU64::new(0),
    hurried: AtomicU64::new(0),
    others: AtomicU64::new(0),
    decision: Mutex::default(),
});

struct Traffic {
    began: Instant,
    unhurried: AtomicU64,
    hurried: AtomicU64,
    others: AtomicU64,
    decision: Mutex<Decision>,
}

/// Heartbeats of a connection.
#[derive(Debug)]
pub(super) struct Reporting {
    last: Cell<Option<Instant>>,
}

impl Reporting {
    /// Counts a new connection.
    pub(super) fn new() -> Reporting {
        Reporting::other_came();
        Reporting { last: Cell::new(None) }
    }

    /// Counts a heartbeat. The first heartbeat of a connection is not counted, as its pause is
    /// unknown.
    pub(super) fn came(&self) {
        let now = Instant::now();
        let Some(last) = self.last.replace(Some(now)) else { return };
        let is_hurried = now.saturating_duration_since(last) < HURRIED_WITHIN;
        let count = if is_hurried { &TRAFFIC.hurried } else { &TRAFFIC.unhurried };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that is no heartbeat.
    pub(super) fn other_came() {
        TRAFFIC.others.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sleeps until the end of the slice if many agents report without hurry and no other request
/// comes. Called by idle threads of the runtime; returns at once if there is little load.
pub fn park_until_slice_end() {
    let traffic = &*TRAFFIC;
    // Another thread decides at the moment, so this thread need not.
    let Ok(mut decision) = traffic.decision.try_lock() else { return };
    let counts = Counts {
        unhurried: traffic.unhurried.load(Ordering::Relaxed),
        hurried: traffic.hurried.load(Ordering::Relaxed),
        others: traffic.others.load(Ordering::Relaxed),
    };
    let rest = decision.rest(traffic.began.elapsed(), counts);
    drop(decision);
    if let Some(rest) = rest {
        thread::sleep(rest);
    }
}

/// Counts since the start of the process.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Heartbeats after a pause.
    unhurried: u64,
    /// Heartbeats within [`HURRIED_WITHIN`] of the previous heartbeat.
    hurried: u64,
    /// Connections, and requests that are no heartbeats.
    others: u64,
}

/// Decision after the last window.
#[derive(Debug, Default)]
struct Decision {
    /// Start of the current window.
    since: Duration,
    /// Counts at that time.
    counts: Counts,
    /// True if many heartbeats came in the last window, and hardly any of them hurried.
    is_moderated: bool,
    /// Count of other requests at the last call, and the end of the time without delay that they
    /// cause.
    others: u64,
    spared_until: Duration,
}

impl Decision {
    /// Returns the time that an idle thread sleeps at `now`, given the counts up to then.
    fn rest(&mut self, now: Duration, counts: Counts) -> Option<Duration> {
        if self.others < counts.others {
            (self.others, self.spared_until) =
                (counts.others, now.saturating_add(NO_DELAY_AFTER_OTHERS));
        }
        let passed = now.saturating_sub(self.since);
        if WINDOW <= passed {
            let unhurried = counts.unhurried.saturating_sub(self.counts.unhurried);
            let hurried = counts.hurried.saturating_sub(self.counts.hurried);
            let slices = Duration::from_micros(unhurried.saturating_mul(SLICE_US.into()));
            let is_many = passed.saturating_mul(MANY) <= slices;
            self.is_moderated = is_many && hurried.saturating_mul(HURRIED_ONE_IN) <= unhurried;
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

    /// Simulates threads that call `rest` every millisecond for 200 ms, with these heartbeats a
    /// second. Returns the last decision.
    fn is_moderated(decision: &mut Decision, from_ms: u64, unhurried: u64, hurried: u64) -> bool {
        let before = decision.counts;
        let until = |per_s: u64, ms: u64| (per_s * ms).div_euclid(1000);
        let looks = (1..=200).map(|ms| {
            let counts = Counts {
                unhurried: before.unhurried + until(unhurried, ms),
                hurried: before.hurried + until(hurried, ms),
                others: before.others,
            };
            decision.rest(Duration::from_millis(from_ms + ms), counts).is_some()
        });
        looks.last().unwrap()
    }

    #[test]
    fn only_many_unhurried_heartbeats_are_delayed() {
        for (unhurried, hurried, expected) in [
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
            let mut decision = Decision::default();
            let judged = is_moderated(&mut decision, 0, unhurried, hurried);
            assert_eq!(judged, expected, "{unhurried} and {hurried} in a second");
        }
    }

    #[test]
    fn the_delay_ends_with_few_or_hurried_heartbeats() {
        let mut decision = Decision::default();
        assert!(is_moderated(&mut decision, 0, 1_000, 0));
        assert!(!is_moderated(&mut decision, 200, 1_000, 2_000));
        assert!(is_moderated(&mut decision, 400, 1_000, 0));
        // The next look is long after.
        let counts = decision.counts;
        assert_eq!(decision.rest(Duration::from_mins(1), counts), None);
    }

    #[test]
    fn another_request_ends_the_delay_for_a_while() {
        let mut decision = Decision { is_moderated: true, ..Decision::default() };
        let mut waits = |ms, others| {
            decision.since = Duration::from_millis(ms);
            let counts = Counts { others, ..Counts::default() };
            decision.rest(Duration::from_millis(ms), counts).is_some()
        };
        let told = [(0, 0), (10, 1), (100, 1), (259, 1), (260, 1), (300, 2), (549, 2), (550, 2)];
        let waited = told.map(|(ms, others)| waits(ms, others));
        assert_eq!(waited, [true, false, false, false, true, false, false, true]);
    }

    #[test]
    fn all_threads_stay_away_to_the_end_of_the_same_slice() {
        let mut decision = Decision { is_moderated: true, ..Decision::default() };
        for (now_us, rest_us) in
            [(0, 40_000), (1, 39_999), (39_999, 1), (40_000, 40_000), (62_500, 17_500)]
        {
            let rest = decision.rest(Duration::from_micros(now_us), Counts::default());
            assert_eq!(rest, Some(Duration::from_micros(rest_us)), "{now_us}");
        }
    }
}
