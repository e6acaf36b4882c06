//! Access to past events: the store implements it, handlers read.

use std::fmt;
use std::pin::Pin;

/// An event as it was stored.
#[derive(Clone, Debug)]
pub struct PastEvent {
    /// Number of the event.
    pub sequence: u64,
    /// The cycle in which it came about.
    pub cycle: u64,
    /// Time of the cycle, in milliseconds since the epoch.
    pub at_ms: i64,
    /// Kind of the event.
    pub kind: String,
    /// Content of the event, in JSON.
    pub body: String,
}

/// Access to past events.
pub trait PastEvents: fmt::Debug + Send + Sync {
    /// At most `limit` events after number `since`, in order; from the oldest that is kept, if that
    /// comes later. `None` if they cannot be read, which has been logged.
    fn since(&self, since: u64, limit: u32) -> PastEventsRead<'_>;
}

/// Events on their way from the record.
pub type PastEventsRead<'a> = Pin<Box<dyn Future<Output = Option<Vec<PastEvent>>> + Send + 'a>>;
