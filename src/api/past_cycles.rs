//! Past cycles: the cluster as a cycle left it, computed again from the record.
//!
//! How that is done is the business of the daemon. Here are the questions, and the answers where a
//! cycle cannot be had.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::api::event_log::PastEvents;
use crate::api::http::error::{ApiError, Code};
use crate::api::ingest::absence::AbsentSums;
use crate::api::published::Published;
use crate::scheduler::View;

/// The cluster after a cycle of the past.
#[derive(Clone, Debug)]
pub struct PastView {
    /// When the cycle ran, in milliseconds since the epoch.
    pub at_ms: i64,
    /// The cluster after it.
    pub view: View,
}

/// The ends of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CyclesOnRecord {
    /// The oldest cycle that can be computed again.
    pub oldest: u64,
    /// The newest.
    pub newest: u64,
}

/// Why there is no view of a past cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPastCycle {
    /// The cycle is not on record. The record has these, if it has any.
    NotOnRecord(Option<CyclesOnRecord>),
    /// The record cannot be read, or leads elsewhere. The log says so too.
    Unreadable(String),
    /// It is far from the last checkpoint. The next request goes on from where this one came to.
    NotYet,
    /// Too many requests wait for past cycles.
    Busy,
}

/// An answer on its way from the record.
pub type FromRecord<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where past cycles come from.
pub trait PastCycles: fmt::Debug + Send + Sync {
    /// The ends of the record; `None` if no cycle is on record or the record cannot be read.
    fn on_record(&self) -> FromRecord<'_, Option<CyclesOnRecord>>;

    /// The cluster after `cycle`.
    fn after(&self, cycle: u64) -> FromRecord<'_, Result<Arc<PastView>, NoPastCycle>>;

    /// Views of what is on record, for charts: segment by segment, the newest segment first. In a
    /// segment the oldest cycle comes first. It ends when all that is worth its time has been sent.
    fn course(&self) -> mpsc::Receiver<PastView>;
}

/// The readers of the store.
#[derive(Clone, Debug)]
pub struct Record {
    /// Past events.
    pub events: Arc<dyn PastEvents>,
    /// The cluster after past cycles.
    pub cycles: Arc<dyn PastCycles>,
}

impl NoPastCycle {
    /// The same for a request that asked for `cycle`.
    pub fn as_error(&self, cycle: u64) -> ApiError {
        match self {
            NoPastCycle::NotOnRecord(None) => ApiError::new(
                Code::CycleNotOnRecord,
                "no past cycle is on record yet; the first one is after the next cycle",
            ),
            NoPastCycle::NotOnRecord(Some(CyclesOnRecord { oldest, newest })) => ApiError::new(
                Code::CycleNotOnRecord,
                format!(
                    "cycle {cycle} is not on record, which has {oldest} to {newest}; \
                     `daemon.journal.cycles` in the configuration says how many are kept"
                ),
            ),
            NoPastCycle::Unreadable(why) => ApiError::new(
                Code::CycleNotOnRecord,
                format!("cycle {cycle} cannot be computed again: {why}"),
            ),
            NoPastCycle::NotYet => ApiError::new(
                Code::TimedOut,
                format!(
                    "cycle {cycle} is not computed yet; ask again, the daemon goes on from here"
                ),
            ),
            NoPastCycle::Busy => ApiError::new(
                Code::TimedOut,
                "too many requests wait for past cycles; ask again in some seconds",
            ),
        }
    }
}

impl Published {
    /// What was published after `past`, as far as the record tells: nothing of how long it took, of
    /// the audit, or of a publication.
    #[must_use]
    pub fn of_past(&self, past: &PastView) -> Published {
        Published {
            view: past.view.clone(),
            past_ms: Some(past.at_ms),
            is_ready: true,
            is_resuming: false,
            publication: None,
            absent: AbsentSums::default(),
            taken_over: None,
            planned_in: Duration::ZERO,
            prepared_in: Duration::ZERO,
            stored_in: Duration::ZERO,
            findings: Vec::new(),
            findings_total: 0,
            ..self.clone()
        }
    }
}
