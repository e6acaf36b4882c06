//! Holds a play against the decisions recorded with its scenario.
//!
//! Only counts are compared, and only in cycles in which all hash orders of the original gave the
//! same counts. Elsewhere the recording is only a legal answer among many.

use std::fmt;

use serde::Deserialize;

use super::document::{PlayedDocument, PlayedJob};

/// Decisions of another scheduler.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Recording {
    cycles: Vec<RecordedCycle>,
    /// True if a defect of the original distorts the whole recording (README, "G1").
    #[serde(default)]
    hit_class_cap_bug: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedCycle {
    cycle: u64,
    jobs: Vec<RecordedJob>,
    canonical_counts: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct RecordedJob {
    id: u64,
    /// Absent where the original did not know the job.
    order: Option<u32>,
    #[serde(default)]
    cap: u64,
    #[serde(default)]
    given: u64,
    #[serde(default)]
    held: u64,
    #[serde(default)]
    absent: bool,
}

/// A single count that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// In which cycle.
    pub cycle: u64,
    /// Of which job.
    pub job: u64,
    /// Name of the count.
    pub field: &'static str,
    /// The recorded value.
    pub recorded: String,
    /// The played value.
    pub played: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { cycle, job, field, recorded, played } = self;
        write!(f, "cycle {cycle}, job {job}: {field} is {played}, recorded {recorded}")
    }
}

/// Every count that differs in a cycle whose counts are canonical.
pub(super) fn compare(recording: &Recording, played: &PlayedDocument) -> Vec<Difference> {
    if recording.hit_class_cap_bug {
        return Vec::new();
    }
    let mut differences = Vec::new();
    let canonical = recording.cycles.iter().filter(|cycle| cycle.canonical_counts);
    for recorded in canonical {
        let lines = played
            .cycles
            .iter()
            .find(|cycle| cycle.cycle == recorded.cycle)
            .map(|cycle| &cycle.jobs);
        for job in &recorded.jobs {
            let line = lines.into_iter().flatten().find(|line| line.id == job.id);
            differences.extend(compare_job(recorded.cycle, job, line));
        }
    }
    differences
}

fn compare_job(cycle: u64, recorded: &RecordedJob, played: Option<&PlayedJob>) -> Vec<Difference> {
    let is_known =
        |is_known: bool| if is_known { "known" } else { "unknown or refused" }.to_owned();
    let is_played = played.is_some_and(|line| line.order.is_some());
    let mut fields = vec![("the job", is_known(!recorded.absent), is_known(is_played))];
    if let (false, Some(line)) = (recorded.absent, played) {
        let order =
            |order: Option<u32>| order.map_or_else(|| "none".to_owned(), |order| order.to_string());
        fields.extend([
            ("order", order(recorded.order), order(line.order)),
            ("cap", recorded.cap.to_string(), line.cap.to_string()),
            ("given", recorded.given.to_string(), line.given.to_string()),
            ("held", recorded.held.to_string(), line.held.to_string()),
        ]);
    }
    let differing = fields.into_iter().filter(|(_, recorded, played)| recorded != played);
    let difference = |(field, recorded_as, played)| Difference {
        cycle,
        job: recorded.id,
        field,
        recorded: recorded_as,
        played,
    };
    differing.map(difference).collect()
}
