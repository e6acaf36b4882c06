//! Metrics of the orchestrator for Prometheus: counters that grow with each event, and gauges of
//! campaigns, tasks, slots and nodes at the scrape.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::book::Figures;

/// Prefix of every metric's name.
const PREFIX: &str = "apportion_orchestrator";
/// Bounds in seconds of times between a millisecond and ten seconds.
const SHORT: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 10.0];
/// Bounds for requests in a batch.
const BATCHES: [f64; 8] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 200.0, 512.0];

/// Counters and histograms since the start of the orchestrator.
#[derive(Clone, Debug)]
pub struct OrchestratorMeters {
    exchanges: Counter,
    refused: Counter,
    results: Counter,
    assigned: Counter,
    publications: Counter,
    commits: Histogram,
    batches: Histogram,
    exchange_time: Histogram,
}

impl Default for OrchestratorMeters {
    fn default() -> OrchestratorMeters {
        let (counter, short) = (Counter::default, || Histogram::new(SHORT));
        OrchestratorMeters {
            exchanges: counter(),
            refused: counter(),
            results: counter(),
            assigned: counter(),
            publications: counter(),
            commits: short(),
            batches: Histogram::new(BATCHES),
            exchange_time: short(),
        }
    }
}

impl OrchestratorMeters {
    /// Counts a report of a node, with its number of results.
    pub fn heard(&self, results: u64) {
        self.exchanges.inc();
        self.results.inc_by(results);
    }

    /// Counts a refused report: it is older than an earlier report.
    pub fn refused(&self) {
        self.refused.inc();
    }

    /// Counts an answer: its time since the begin of its batch, and its number of tasks.
    pub fn answered(&self, after: Duration, tasks: u64) {
        self.exchange_time.observe(after.as_secs_f64());
        self.assigned.inc_by(tasks);
    }

    /// Counts a publication.
    pub fn published(&self) {
        self.publications.inc();
    }

    /// Counts a commit: its number of rows, and its time.
    pub fn committed(&self, rows: u32, time: Duration) {
        self.batches.observe(f64::from(rows));
        self.commits.observe(time.as_secs_f64());
    }

    /// Encodes all metrics in the format `OpenMetrics`, with the current `figures`.
    ///
    /// # Errors
    ///
    /// Never: text takes more text.
    pub fn encode(&self, figures: &Figures) -> Result<String, fmt::Error> {
        let mut all = Registry::with_prefix(PREFIX);
        let counters = [
            ("exchanges", "Accepted reports of nodes", &self.exchanges),
            ("exchanges_refused", "Refused reports: older than an earlier report", &self.refused),
            (
                "results",
                "Results of attempts in reports, including repeated results",
                &self.results,
            ),
            ("tasks_sent", "Tasks in answers, including repeated tasks", &self.assigned),
            ("publications", "Publications for the resource manager", &self.publications),
        ];
        for (name, help, counter) in counters {
            all.register(name, help, counter.clone());
        }
        let times = [
            ("commit", "Time that commits took", &self.commits),
            (
                "exchange",
                "Time from the begin of a batch of requests to each answer to a node",
                &self.exchange_time,
            ),
        ];
        for (name, help, histogram) in times {
            all.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        }
        all.register("batch_rows", "Rows in a commit", self.batches.clone());
        let Figures { campaigns, tasks, slots, nodes } = figures;
        for (name, help, counts) in [
            ("campaigns", "Campaigns that are not final", campaigns),
            ("tasks", "Tasks of campaigns that are not final", tasks),
            ("slots", "Slots that are not forgotten", slots),
        ] {
            all.register(name, help, by_state(counts));
        }
        let known: Gauge = Gauge::default();
        known.set(i64::try_from(*nodes).unwrap_or(i64::MAX));
        all.register("nodes", "Nodes that reported since the start", known);
        let mut text = String::new();
        encode(&mut text, &all)?;
        Ok(text)
    }
}

/// A gauge for each state.
fn by_state(
    counts: &BTreeMap<&'static str, u64>,
) -> Family<[(&'static str, &'static str); 1], Gauge> {
    let family = Family::<[(&'static str, &'static str); 1], Gauge>::default();
    for (state, number) in counts {
        let number = i64::try_from(*number).unwrap_or(i64::MAX);
        family.get_or_create(&[("state", *state)]).set(number);
    }
    family
}
