//! The bundled workload: submissions by users over time, and incidents of nodes.
//!
//! The same seed gives the same jobs on every platform: numbers are drawn as integers, in the order
//! of the file. When a round is over, the next round begins with other numbers.

use std::num::NonZeroU64;

use jiff::SignedDuration;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Deserializer};

use crate::api::wire::WorkKind;
use crate::model::{Mebibytes, Millis};
use crate::sim::world::SimWork;

const BUNDLED: &str = include_str!("workload.toml");

/// A round of the workload; all times are from the start of the demo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Round {
    /// Start of the next round.
    pub end: Millis,
    /// All submitted requests, by time.
    pub requests: Vec<WorkRequest>,
    /// Incidents of nodes, by time.
    pub incidents: Vec<Incident>,
}

/// A job, and its later course.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkRequest {
    /// Kind of the work.
    pub kind: WorkKind,
    /// Names the submission it is from, among all of the round; from 1.
    pub submission: u64,
    /// Items of the work. Work of other kinds than jobs is a process that lasts for a single item.
    pub work: SimWork,
}

/// An incident that affects nodes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Incident {
    /// Time of the incident.
    #[serde(deserialize_with = "millis")]
    pub at: Millis,
    /// Kind of the incident.
    #[serde(flatten)]
    pub what: Blow,
}

/// Kinds of incidents.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(super) enum Blow {
    /// A busy node falls silent.
    NodeDies,
    /// The silent node reports again.
    NodeReturns,
    /// An administrator takes nodes out.
    VaryOff {
        /// Number of nodes.
        nodes: usize,
        /// Reason that the administrator gives.
        reason: String,
    },
    /// And puts them back.
    VaryOn,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadFile {
    #[serde(deserialize_with = "millis")]
    length: Millis,
    submission: Vec<DemoSubmission>,
    incident: Vec<Incident>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DemoSubmission {
    user: String,
    class: String,
    #[serde(default = "job")]
    kind: WorkKind,
    #[serde(deserialize_with = "millis")]
    at: Millis,
    #[serde(default, deserialize_with = "millis")]
    every: Millis,
    #[serde(default = "one")]
    count: u64,
    memory_gb: u64,
    #[serde(default = "single")]
    threads: NonZeroU64,
    #[serde(default = "one_to_one")]
    items: [u64; 2],
    #[serde(deserialize_with = "millis_range")]
    item_time: [Millis; 2],
    max_processes: Option<u64>,
    /// True for a submission of the first round only: its job waits as long as the demo lasts.
    #[serde(default)]
    once: bool,
}

impl Round {
    /// The `number`th round of the bundled workload, from 0. Its times are those of the whole demo.
    ///
    /// # Errors
    ///
    /// If the file that is part of this program is malformed.
    pub fn bundled(seed: u64, number: u64) -> Result<Round, toml::de::Error> {
        let file: WorkloadFile = toml::from_str(BUNDLED)?;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(number);
        let begin = file.length * number;
        let mut requests = Vec::new();
        let submissions = file.submission.iter().zip(1..);
        for (submission, name) in submissions.filter(|(one, _)| number == 0 || !one.once) {
            for nth in 0..submission.count {
                let mut request = submission.request(name, nth, &mut random);
                request.work.submitted += begin;
                requests.push(request);
            }
        }
        // Stable: requests of the same time keep the order of the file.
        requests.sort_by_key(|request| request.work.submitted);
        let mut incidents = file.incident;
        for incident in &mut incidents {
            incident.at += begin;
        }
        incidents.sort_by_key(|incident| incident.at);
        Ok(Round { end: begin + file.length, requests, incidents })
    }
}

impl DemoSubmission {
    fn request(&self, name: u64, nth: u64, random: &mut ChaCha8Rng) -> WorkRequest {
        let mut draw = |[least, most]: [u64; 2]| random.random_range(least..=most);
        let items = draw(self.items);
        WorkRequest {
            kind: self.kind,
            submission: name,
            work: SimWork {
                name: format!("{} {nth}", self.user),
                user: self.user.clone(),
                class: self.class.clone(),
                memory: Mebibytes::from_gib(self.memory_gb),
                threads: self.threads,
                nodes: self.max_processes.or((self.kind != WorkKind::Job).then_some(1)),
                submitted: self.at + nth * self.every,
                items: (0..items).map(|_| draw(self.item_time)).collect(),
            },
        }
    }
}

fn job() -> WorkKind {
    WorkKind::Job
}

fn one() -> u64 {
    1
}

fn single() -> NonZeroU64 {
    NonZeroU64::MIN
}

fn one_to_one() -> [u64; 2] {
    [1, 1]
}

fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Millis, D::Error> {
    let duration = SignedDuration::deserialize(deserializer)?;
    Millis::try_from(duration.as_millis()).map_err(serde::de::Error::custom)
}

fn millis_range<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[Millis; 2], D::Error> {
    let range = <[SignedDuration; 2]>::deserialize(deserializer)?;
    let [least, most] = range.map(|duration| Millis::try_from(duration.as_millis()));
    match (least, most) {
        (Ok(least), Ok(most)) if least <= most => Ok([least, most]),
        _ => Err(serde::de::Error::custom("expected two times, the shorter one first")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_bundled_workload_is_what_it_is_said_to_be() {
        let round = Round::bundled(42, 0).unwrap();
        let of_kind =
            |kind: WorkKind| round.requests.iter().filter(move |request| request.kind == kind);
        let jobs = || of_kind(WorkKind::Job).map(|request| &request.work);
        assert_eq!(jobs().map(|work| work.class.as_str()).collect::<BTreeSet<_>>().len(), 5);
        let users: BTreeSet<&str> =
            round.requests.iter().map(|request| request.work.user.as_str()).collect();
        assert_eq!(users.len(), 13);
        let sizes: BTreeSet<Mebibytes> = jobs().map(|work| work.memory).collect();
        assert_eq!(Vec::from_iter(sizes), [Mebibytes::from_gib(28), Mebibytes::from_gib(37)]);
        assert!(jobs().map(|work| work.items.len()).sum::<usize>() > 5_000);
        assert!(
            of_kind(WorkKind::Service).count() > 0 && of_kind(WorkKind::Reservation).count() > 0
        );
        // The demo's first lines suggest this job to ask about: it waits for good.
        let seventh = &round.requests[6].work;
        assert!(Mebibytes::from_gib(79) < seventh.memory);
        assert!(round.requests.iter().all(|request| request.work.submitted < round.end));
        assert!(round.incidents.iter().all(|incident| incident.at < round.end));
    }

    #[test]
    fn a_seed_and_a_round_make_the_numbers() {
        let round = |seed, number| Round::bundled(seed, number).unwrap();
        assert_eq!(round(42, 0), round(42, 0));
        assert_ne!(round(42, 0), round(42, 1));
        assert_ne!(round(42, 0), round(43, 0));
        let next = round(42, 1).requests;
        assert!(next.iter().all(|request| request.work.submitted >= round(42, 0).end));
        assert!(next.iter().all(|request| request.work.user != "eve"), "her job waits still");
    }
}
