//! Predictors: the number of tasks to send to a cluster, from the effect of the last pass.
//!
//! Notation of seed 004: `M` resources of the cluster, `f` free ones, `r` resources of a task, `J`
//! the job ratio (tasks for a free resource), `S` the tasks sent in the last pass, `R` running and
//! `W` waiting tasks on the cluster, `A` allowed ones, `E = W − A`.

mod pi;
mod seed;
mod simple;
mod tap;

use std::fmt;

use super::flood::{allowed, fit};
use super::ratio::{ONE, part_of, quotient};

/// All predictors. A new predictor is registered here, and nowhere else.
pub const PREDICTORS: &[&dyn Predictor] = &[
    &seed::SLOW_START,
    &seed::TWO_WAY,
    &seed::ADAPTIVE_EXPONENTIAL,
    &simple::Simple,
    &pi::Pi,
    &tap::Tap,
    &simple::NoPrediction,
];

/// Predictor of remote clusters, by default.
pub const REMOTE_PREDICTOR: &str = "simple";

/// Predictor of the local cluster, by default: its resource manager knows its space exactly.
pub const LOCAL_PREDICTOR: &str = "none";

/// Bounds of a predictor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// The job ratio stays between `1/M` and 1, and no more is sent than fits.
    #[default]
    Guarded,
    /// The job ratio stays between `1/M` and 1.
    Clamped,
    /// The formulae of 2009 as they were written.
    Literal,
}

impl Strictness {
    /// Every strictness, the strictest first.
    pub const ALL: [Strictness; 3] =
        [Strictness::Guarded, Strictness::Clamped, Strictness::Literal];

    /// The word in configurations and on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Strictness::Guarded => "guarded",
            Strictness::Clamped => "clamped",
            Strictness::Literal => "literal",
        }
    }

    /// The strictness of that word.
    pub fn from_word(word: &str) -> Option<Strictness> {
        Strictness::ALL.into_iter().find(|strictness| strictness.word() == word)
    }
}

/// Readings of a campaign on a cluster. Tasks are numbers of tasks; resources are of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairReading {
    /// All resources of the cluster: `M`.
    pub capacity: u64,
    /// Free resources: `f`.
    pub free: u64,
    /// Resources of a task, as declared: `r`.
    pub resources: u64,
    /// Running tasks of all campaigns on the cluster: `R`.
    pub running: u64,
    /// Waiting tasks of all campaigns on the cluster: `W`.
    pub waiting: u64,
    /// Waiting tasks of this campaign on the cluster.
    pub own_waiting: u64,
    /// Running and waiting tasks of this campaign on the cluster.
    pub own: u64,
    /// The flood rate, in millionths.
    pub flood: u64,
    /// Tasks of the campaign that are left in the bag.
    pub left: u64,
    /// Most tasks of the campaign on the cluster. `None`: no limit.
    pub max: Option<u64>,
    /// Resources of a finished task on average, in millionths. `None`: no task has finished.
    pub mean_resources: Option<u64>,
    /// The time, in milliseconds of the caller's clock.
    pub now_ms: u64,
}

impl PairReading {
    /// The tasks that may wait: `A`.
    pub fn allowed(&self) -> u64 {
        allowed(self.capacity, self.flood)
    }

    /// The waiting tasks beyond the allowed ones: `E`.
    fn excess(&self) -> u64 {
        self.waiting.saturating_sub(self.allowed())
    }

    /// The least job ratio: a single task for the whole cluster.
    fn least(&self) -> u64 {
        quotient(1, self.capacity).unwrap_or(ONE).max(1)
    }
}

/// State of a predictor for a campaign on a cluster. The database keeps it between passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PredictorState {
    /// The job ratio `J`, or the output of `pi`, in millionths.
    pub ratio: u64,
    /// Free resources at the last pass.
    pub free: u64,
    /// Tasks sent in the last pass: `nsub` of the seed.
    pub sent: u64,
    /// Sum of the errors of `pi`, in tasks.
    pub integral: i64,
    /// Opening of the tap, in tasks for a pass.
    pub tap: u64,
    /// Time at which the tap was closed. `None`: it is open.
    pub closed_ms: Option<u64>,
}

/// A predictor.
pub trait Predictor: fmt::Debug + Sync {
    /// Name in the configuration.
    fn name(&self) -> &'static str;

    /// Returns the state for this pass. `old`: the state of the last pass, if any.
    fn next(
        &self,
        old: Option<&PredictorState>,
        reading: &PairReading,
        strictness: Strictness,
    ) -> PredictorState;

    /// The tasks that the state asks for.
    fn wanted(&self, state: &PredictorState, reading: &PairReading) -> u64 {
        part_of(reading.free, state.ratio)
    }

    /// True if the fit bounds the tasks in the guarded form.
    fn fits(&self) -> bool {
        true
    }

    /// True if waiting tasks beyond the allowed ones are withdrawn.
    fn withdraws(&self) -> bool {
        true
    }
}

/// The predictor of that name among `known`.
pub fn predictor(known: &[&'static dyn Predictor], name: &str) -> Option<&'static dyn Predictor> {
    known.iter().copied().find(|predictor| predictor.name() == name)
}

/// The tasks to send: the least of the wanted ones, the tasks left, the limit of the campaign, and
/// in the guarded form the fit.
pub fn sent(
    predictor: &dyn Predictor,
    state: &PredictorState,
    reading: &PairReading,
    strictness: Strictness,
) -> u64 {
    let mut count = predictor.wanted(state, reading).min(reading.left);
    if let Some(max) = reading.max {
        count = count.min(max.saturating_sub(reading.own));
    }
    if strictness == Strictness::Guarded && predictor.fits() {
        let most = fit(reading.free, reading.resources, reading.allowed(), reading.waiting);
        count = count.min(most);
    }
    count
}

/// Holds a job ratio in its bounds, unless the formulae are taken literally.
fn bounded(ratio: u64, reading: &PairReading, strictness: Strictness) -> u64 {
    match strictness {
        Strictness::Literal => ratio,
        Strictness::Guarded | Strictness::Clamped => ratio.clamp(reading.least().min(ONE), ONE),
    }
}

#[cfg(test)]
mod closed_loop;
#[cfg(test)]
mod tests;
