//! Events for clients that follow the feed, on their way to the store and back.

use super::readers::RecordReaders;
use crate::api::wire::FeedEvent;
use crate::api::{self, PastEvent, PastEvents, PastEventsRead};
use crate::scheduler::View;
use crate::store::{AdminRow, FeedRow};

/// Builds the events of a cycle: acts of administrators, and the differences between `before` and
/// `now`. The first event has the number after `last`.
///
/// # Panics
///
/// If a plain struct does not become JSON.
pub fn rows(before: &View, now: &View, acts: &[AdminRow], last: u64, at_ms: i64) -> Vec<FeedRow> {
    let acts = acts.iter().map(|act| FeedEvent::Administration {
        action: act.action.clone(),
        nodes: act.nodes.clone(),
        reason: act.reason.clone(),
    });
    let all = acts.chain(api::diff_events(before, now));
    let rows = all.zip(last + 1..).map(|(what, seq)| FeedRow {
        seq,
        cycle: now.cycle,
        at_ms,
        kind: what.kind().to_owned(),
        body: serde_json::to_string(&what).expect("plain structs become JSON"),
    });
    rows.collect()
}

/// Reader of stored events, beside the daemon that writes them.
#[derive(Debug)]
pub struct Feed(pub RecordReaders);

impl PastEvents for Feed {
    fn since(&self, since: u64, limit: u32) -> PastEventsRead<'_> {
        Box::pin(async move {
            let rows = self.0.events(since, limit).await;
            let rows = rows.map_err(|error| tracing::error!(%error, "the feed cannot be read"));
            let event = |row: FeedRow| {
                let FeedRow { seq, cycle, at_ms, kind, body } = row;
                PastEvent { sequence: seq, cycle, at_ms, kind, body }
            };
            Some(rows.ok()?.into_iter().map(event).collect())
        })
    }
}
