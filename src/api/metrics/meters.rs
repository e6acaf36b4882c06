//! Counters and histograms that grow while the daemon runs, counted at the place of the event.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::MatchedPath;
use axum::http::StatusCode;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::past::{CycleCounts, PastStates, StartError};
use crate::api::published::Published;

/// Prefix of every metric's name.
pub(super) const PREFIX: &str = "apportion";

/// A label whose values are in the code.
type FixedLabel = [(&'static str, &'static str); 1];
/// Two labels whose values are in the code.
type FixedLabels = [(&'static str, &'static str); 2];
/// A label whose values are in the configuration.
type Named = [(&'static str, String); 1];
/// Labels of a request. Built for every request, so building must cost nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RequestLabels {
    route: Route,
    method: &'static str,
    status: StatusCode,
}

/// A route as it was written, `/v1/jobs/{id}`; none for a path that there is not.
#[derive(Clone, Debug)]
pub struct Route(pub Option<MatchedPath>);

impl Route {
    fn as_str(&self) -> &str {
        self.0.as_ref().map_or("none", MatchedPath::as_str)
    }
}

impl PartialEq for Route {
    fn eq(&self, other: &Route) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Route {}

impl Hash for Route {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl EncodeLabelSet for Route {
    fn encode(&self, to: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("route", self.as_str()).encode(to.encode_label())
    }
}

impl EncodeLabelSet for RequestLabels {
    fn encode(&self, to: &mut LabelSetEncoder<'_>) -> fmt::Result {
        EncodeLabelSet::encode(&self.route, to)?;
        ("method", self.method).encode(to.encode_label())?;
        ("status", self.status.as_str()).encode(to.encode_label())
    }
}

/// Bounds for what takes from a thousandth of a second to a minute.
const SHORT: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// Bounds for requests.
const QUICK: [f64; 11] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 1.0, 10.0];
/// Bounds for what takes from a second to a day.
const LONG: [f64; 13] = [
    1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 10_800.0, 43_200.0, 86_400.0,
];

/// Routes with long polls: their duration has no meaning.
const LONG_POLLS: [&str; 2] = ["/v1/schedule", "/v1/events"];

/// Result of reading the configuration again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RereadOutcome {
    /// The file is in effect.
    Applied,
    /// The file equals the configuration in effect.
    Unchanged,
    /// The file is wrong; the configuration before stays in effect.
    Refused,
}

/// A histogram for each value of a label.
type Times<L> = Family<L, Histogram, fn() -> Histogram>;

/// All counters.
pub struct Meters {
    registry: Registry,
    cycles: Family<FixedLabel, Counter>,
    phases: Times<FixedLabel>,
    commits: Histogram,
    waits: Times<Named>,
    start_errors: Times<FixedLabels>,
    preemptions: Family<FixedLabel, Counter>,
    lost_work: Family<FixedLabel, Counter<f64, AtomicU64>>,
    evictions: Family<FixedLabel, Counter>,
    exits: Histogram,
    heartbeats: Family<FixedLabel, Counter>,
    heartbeats_accepted: Counter,
    heartbeats_refused: Counter,
    rereads: Family<FixedLabel, Counter>,
    requests: Family<RequestLabels, Counter>,
    request_times: Times<Route>,
    past: Mutex<PastStates>,
}

impl Default for Meters {
    fn default() -> Meters {
        let short = || Histogram::new(SHORT);
        let long = || Histogram::new(LONG);
        let quick = || Histogram::new(QUICK);
        let heartbeats = Family::<FixedLabel, Counter>::default();
        let heartbeats_that_are = |result| heartbeats.get_or_create_owned(&[("result", result)]);
        let mut meters = Meters {
            registry: Registry::with_prefix(PREFIX),
            cycles: Family::default(),
            phases: Family::new_with_constructor(short),
            commits: short(),
            waits: Family::new_with_constructor(long),
            start_errors: Family::new_with_constructor(long),
            preemptions: Family::default(),
            lost_work: Family::default(),
            evictions: Family::default(),
            exits: long(),
            heartbeats_accepted: heartbeats_that_are("accepted"),
            heartbeats_refused: heartbeats_that_are("refused"),
            heartbeats,
            rereads: Family::default(),
            requests: Family::default(),
            request_times: Family::new_with_constructor(quick),
            past: Mutex::default(),
        };
        meters.begin_at_zero();
        meters.register();
        meters
    }
}

impl Meters {
    /// Starts all counters at 0, so that an alert on a rate sees the first event.
    fn begin_at_zero(&self) {
        for result in ["changed", "unchanged", "not_planned"] {
            drop(self.cycles.get_or_create(&[("result", result)]));
        }
        for reason in CycleCounts::RULES {
            drop(self.preemptions.get_or_create(&[("reason", reason)]));
            drop(self.lost_work.get_or_create(&[("reason", reason)]));
        }
        for reason in CycleCounts::EVICTIONS {
            drop(self.evictions.get_or_create(&[("reason", reason)]));
        }
        for (told, start) in StartError::ALL {
            drop(self.start_errors.get_or_create(&[("told", told), ("start", start)]));
        }
        for result in ["applied", "unchanged", "refused"] {
            drop(self.rereads.get_or_create(&[("result", result)]));
        }
    }

    fn register(&mut self) {
        let seconds = || Unit::Seconds;
        let to = &mut self.registry;
        to.register("cycles", "Cycles by what they changed", self.cycles.clone());
        to.register_with_unit(
            "cycle_duration",
            "Time of a cycle: to plan it, to prepare its data for the store (audit, events), and to store it",
            seconds(),
            self.phases.clone(),
        );
        to.register_with_unit(
            "db_commit",
            "Time of a transaction; a cycle is published once it is stored",
            seconds(),
            self.commits.clone(),
        );
        to.register_with_unit(
            "wait",
            "Time for which a job held nothing before its first process, as far as this daemon saw it",
            seconds(),
            self.waits.clone(),
        );
        to.register_with_unit(
            "start_estimate_error",
            "Difference of the start of a job from the first and from the last start it was told to expect",
            seconds(),
            self.start_errors.clone(),
        );
        to.register("preemptions", "Preempted processes, by rule", self.preemptions.clone());
        to.register_with_unit(
            "preempted_work",
            "Work lost with preempted processes: invested time and initialization",
            seconds(),
            self.lost_work.clone(),
        );
        to.register(
            "evictions",
            "Processes lost with a node, or evicted after a change by an administrator",
            self.evictions.clone(),
        );
        to.register_with_unit(
            "eviction_latency",
            "Time from the request to end a process until the orchestrator confirms its exit",
            seconds(),
            self.exits.clone(),
        );
        to.register("heartbeats", "Heartbeats, accepted or refused", self.heartbeats.clone());
        to.register(
            "config_reloads",
            "Number of times that a signal caused the configuration to be read again",
            self.rereads.clone(),
        );
        to.register("requests", "Requests by route and answer", self.requests.clone());
        to.register_with_unit(
            "request_duration",
            "Time of a request, without long polls",
            seconds(),
            self.request_times.clone(),
        );
    }

    /// Writes all of them to `text`.
    ///
    /// # Errors
    ///
    /// If `text` takes no more.
    pub fn encode(&self, text: &mut String) -> fmt::Result {
        encode_registry(text, &self.registry)
    }

    /// Counts the changes from `before` to the next published view, `now`.
    pub fn step(&self, before: &Published, now: &Published) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let step = past.step(before, now, Instant::now());
        drop(past);
        // Restoring the state from the store is no cycle.
        if before.is_resuming {
            return;
        }
        if let Some(result) = step.result {
            self.cycles.get_or_create(&[("result", result)]).inc();
            let phases =
                [("plan", now.planned_in), ("prepare", now.prepared_in), ("store", now.stored_in)];
            let phases =
                phases.iter().filter(|(phase, _)| *phase != "plan" || result != "not_planned");
            for (phase, time) in phases {
                self.phases.get_or_create(&[("phase", phase)]).observe(time.as_secs_f64());
            }
            self.commits.observe(now.stored_in.as_secs_f64());
        }
        for (reason, lost) in step.preempted {
            self.preemptions.get_or_create(&[("reason", reason)]).inc();
            self.lost_work.get_or_create(&[("reason", reason)]).inc_by(lost.as_secs_f64());
        }
        self.note_start_errors(&step.start_errors);
        for reason in step.evicted {
            self.evictions.get_or_create(&[("reason", reason)]).inc();
        }
        for latency in step.exited {
            self.exits.observe(latency.as_secs_f64());
        }
        for (class, wait) in step.waited {
            self.waits.get_or_create(&[("class", class.to_string())]).observe(wait.as_secs_f64());
        }
    }

    /// Counts how far starts were from the estimates before them.
    fn note_start_errors(&self, errors: &[StartError]) {
        for StartError { told, start, error } in errors {
            let labels = [("told", *told), ("start", *start)];
            self.start_errors.get_or_create(&labels).observe(error.as_secs_f64());
        }
    }

    /// Heartbeats came.
    pub fn heartbeats(&self, accepted: u64, refused: u64) {
        self.heartbeats_accepted.inc_by(accepted);
        self.heartbeats_refused.inc_by(refused);
    }

    /// The configuration was read again.
    pub fn reread(&self, outcome: RereadOutcome) {
        let result = match outcome {
            RereadOutcome::Applied => "applied",
            RereadOutcome::Unchanged => "unchanged",
            RereadOutcome::Refused => "refused",
        };
        self.rereads.get_or_create(&[("result", result)]).inc();
    }

    /// A request was answered.
    pub fn request(&self, route: Route, method: &'static str, status: StatusCode, took: Duration) {
        if !LONG_POLLS.contains(&route.as_str()) {
            self.request_times.get_or_create(&route).observe(took.as_secs_f64());
        }
        self.requests.get_or_create(&RequestLabels { route, method, status }).inc();
    }
}

impl fmt::Debug for Meters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meters").finish_non_exhaustive()
    }
}
